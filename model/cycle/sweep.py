"""A job of a sweep on the cycle model: the figures that the RTL's jobs give, in milliseconds."""

from dataclasses import replace

import numpy as np

from cycle.network import simulate
from cycle.workload import Workload
from efa.grid import LATENCY, RATE
from efa.workload import MESSAGES, Figure, rate_limit

RATE_MESSAGES = 8192


def measure(job):
    """Figures of a Job of efa.grid: latency of one message at a time, rate of each queue count.

    Rates are of a closed loop, `depth` messages open on each queue, a doorbell for `batch`."""
    plain = Workload(kind=job.kind, size=job.size, read_latency=job.host_read_latency,
                     policy=job.store_buffer, seed=job.seed, messages=MESSAGES)
    own = {"host_read_latency": job.host_read_latency, "seed": job.seed,
           "store_buffer": job.store_buffer}  # fmt: skip
    found = []
    if LATENCY in job.measure:
        cycles = simulate(plain).latency
        found.append(Figure("latency", float(np.median(cycles)), "cycles", MESSAGES, None, job.kind,
                            job.size, depth=1, batch=1, **own))
    if RATE in job.measure:
        found += [_rate(plain, job, queues, own) for queues in job.queues]
    return found


def _rate(plain, job, queues, own):
    batch = min(job.batch, job.depth)
    work = replace(plain, queues=queues, depth=job.depth, batch=batch,
                   messages=max(RATE_MESSAGES, queues * batch))
    lives = simulate(work)
    cycles = int(lives.end.max()) - int(lives["txf"].min()) + 1
    limit = rate_limit(job.kind_number, job.size, batch)
    return Figure("message rate", work.total / cycles, "messages/cycle", work.total, limit,
                  job.kind, job.size, queues, depth=job.depth, batch=batch, **own)
