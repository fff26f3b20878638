# SPDX-License-Identifier: Apache-2.0
"""Lists the workloads on which cycle model and RTL are compared: fixed and drawn points."""

from __future__ import annotations

import itertools
import random
from typing import Any

from efa_cosim.cycle.compare import measurements
from efa_cosim.cycle.network import Retransmission, simulate
from efa_cosim.cycle.workload import FLIT_BYTES, Workload
from efa_cosim.host.wc import POLICIES

READ_LATENCIES = (125, 500)
# Enough messages for a stable 99th percentile.
SMALL, LARGE, LARGE_BYTES = 2048, 512, 1024
WINDOWS = ((1, 1), (16, 4), (64, 16))  # depth, batch
LOADS = (0.5, 0.9)
LOSSES = (66, 655, 3277)  # of 65,536: 0.1 %, 1 %, 5 %


def sized(**values: Any) -> Workload:
    """Returns a Workload with the number of messages that its size requires."""
    least = values.get("queues", 1) * values.get("batch", 1) * 4
    wanted = LARGE if values["size"] >= LARGE_BYTES else SMALL
    return Workload(messages=max(wanted, least), **values)


def fixed() -> list[Workload]:
    """Returns the fixed points.

    - size x queues x window x latency; store buffer policies; datagrams; 128-byte WQEs; CQ
      doorbells
    - send queues in host memory
    - RDMA writes of one packet and of several, RDMA reads over a long fabric
    - sends and writes of one packet while the fabric loses some
    - open loops below capacity
    """
    found = [sized(size=size, queues=queues, depth=depth, batch=batch, read_latency=latency)
             for size, queues, (depth, batch), latency in itertools.product(
                 (32, 64, 512, 4096), (1, 8, 32), WINDOWS, READ_LATENCIES)]
    found += [sized(size=size, queues=queues, depth=16, batch=4, policy=policy)
              for policy, size, queues in itertools.product(
                  [name for name in POLICIES if name != "ideal"], (32, 64), (1, 8))]
    found += [sized(kind="UD", size=size, queues=queues, depth=16, batch=4)
              for size, queues in itertools.product((32, 64, 1024), (1, 8))]
    found += [sized(size=size, queues=queues, depth=32, batch=8, entry_bytes=128)
              for size, queues in itertools.product((32, 64, 80, 512), (1, 8))]
    found += [sized(size=size, queues=queues, depth=32, batch=4, cq_batch=cq_batch)
              for size, queues, cq_batch in itertools.product((32, 64), (1, 8), (1, 16))]
    found += [sized(size=size, queues=queues, depth=depth, batch=batch, sq_host=1)
              for size, (queues, depth, batch) in itertools.product(
                  (32, 64, 512, 4096), ((1, 1, 1), (2, 4, 1), (8, 16, 4), (8, 64, 16)))]
    found += [sized(size=size, queues=8, depth=32, batch=8, entry_bytes=128, sq_host=1)
              for size in (32, 80, 512)]
    found += [sized(size=size, operation=operation, queues=queues, depth=depth, batch=batch)
              for operation, size, (queues, depth, batch) in itertools.product(
                  ("WRITE", "WRITE_IMM"), (64, 4096, 16384),
                  ((1, 1, 1), (2, 4, 1), (8, 16, 4), (8, 64, 16)))]
    found += [sized(size=size, operation="READ", queues=queues, depth=depth, batch=batch,
                    net_latency=500)
              for size, (queues, depth, batch) in itertools.product(
                  (64, 4096, 16384), ((1, 1, 1), (2, 4, 1), (8, 16, 4)))]
    found += [sized(size=size, operation=operation, queues=queues, depth=depth, batch=batch,
                    loss=loss)
              for (operation, size), (queues, depth, batch), loss in itertools.product(
                  (("SEND", 32), ("SEND", 64), ("WRITE", 64), ("WRITE_IMM", 64), ("WRITE", 4096)),
                  ((1, 1, 1), (1, 16, 1), (1, 64, 16), (4, 16, 4)), LOSSES)]
    found += [sized(size=size, queues=queues, depth=depth, loss=loss, net_latency=500,
                    read_latency=500)
              for size, (queues, depth), loss in itertools.product(
                  (32, 512), ((1, 1), (1, 32), (8, 8)), LOSSES)]
    found += [opened(size, latency, load) for size, latency, load in itertools.product(
        (32, 64, 1024), READ_LATENCIES, LOADS)]
    return found


def opened(size: int, latency: int, load: float) -> Workload:
    """Returns an open loop at a share of the capacity that the model predicts."""
    closed = sized(size=size, queues=8, depth=64, batch=4, read_latency=latency)
    gap = max(1, round(closed.batch / (measurements(simulate(closed))["rate"] * load)))
    return sized(size=size, queues=8, depth=64, batch=4, read_latency=latency, gap=gap)


def drawn(count: int, seed: int) -> list[Workload]:
    """Returns random points that no test contains; a seed repeats its points. Points with
    retransmissions are left out: the model has none."""
    chance = random.Random(seed)
    found: list[Workload] = []
    while len(found) < count:
        depth = chance.choice((1, 2, 4, 8, 16, 32, 64, 128))
        size = chance.choice((8, 32, 64, 100, 128, 200, 256, 512, 1000, 1024, 2048, 4096))
        entry = chance.choice((64, 64, 128))
        work = sized(
            kind=chance.choice(("SRD", "SRD", "SRD", "UD")), size=size,
            buffers=chance.choice((1, 2)) if size > 2 * FLIT_BYTES else 1,
            queues=chance.choice((1, 2, 3, 4, 8, 16, 32, 64)), depth=depth,
            batch=chance.choice([n for n in (1, 2, 4, 8, 16) if n <= min(depth, 1024 // entry)]),
            entry_bytes=entry, cq_batch=chance.choice((0, 0, 1, 4, 16)),
            policy=chance.choice(tuple(POLICIES)), seed=chance.randrange(1 << 31),
            read_latency=chance.choice((60, 125, 250, 500, 1000)),
            write_latency=chance.choice((60, 60, 30, 200)), sq_host=chance.choice((0, 0, 0, 1)))
        if not retransmits(work):
            found.append(work)
    return found


def retransmits(work: Workload) -> bool:
    """Returns True if packets of a workload wait longer than the timeout of the transport."""
    try:
        simulate(work)
    except Retransmission:
        return True
    return False
