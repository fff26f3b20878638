"""One job of a sweep in a process of its own: measures, prints its figures as JSON.

    python -m efa.jobs.point '{"backend": "verilator", "kind": "SRD", "size": 64, ...}'
"""

import json
import signal
import sys
from dataclasses import replace

from efa.backend import BackendUnavailable, open_backend
from efa.endpoints import SRD, UD
from efa.grid import CYCLE, LATENCY, RATE, Job
from efa.jobs.common import DEVICE_WRONG, one_line
from efa.workload import latency_point, new_node, rate_point

KINDS = {"UD": UD, "SRD": SRD}


def measure(job):
    """The figures of a job; raises what DEVICE_WRONG names, and BackendUnavailable."""
    if job.backend == CYCLE:
        # The compiler of the model takes a second to import: the RTL's jobs do without.
        from cycle.sweep import measure as on_the_model

        return on_the_model(job)
    wait, kind, found = job.host_read_latency, KINDS[job.kind], []
    with open_backend(job.backend, seed=job.seed, rd_latency_min=wait,
                      rd_latency_max=wait) as backend:
        node = new_node(backend, job.seed)
        if LATENCY in job.measure:
            found.append(latency_point(node, kind, job.size))
        if RATE in job.measure:
            found += [rate_point(node, kind, job.size, queues) for queues in job.queues]
    return [replace(figure, host_read_latency=wait, seed=job.seed) for figure in found]


def main(argument):
    """Prints the figures; returns the exit code."""
    try:
        figures = measure(Job(**json.loads(argument)))
    except BackendUnavailable as error:
        print(one_line(error), file=sys.stderr)
        return 2
    except (*DEVICE_WRONG, OSError) as error:
        print(one_line(error), file=sys.stderr)
        return 1
    json.dump([figure.as_dict() for figure in figures], sys.stdout)
    return 0


if __name__ == "__main__":
    # The sweep ends its jobs so; leaving as an exception takes the simulator along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main(sys.argv[1]))
