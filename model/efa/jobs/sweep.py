"""efa-cosim sweep: latency and rate over sizes and queues of your choice."""

import argparse
import sys
from pathlib import Path

from efa.backend import open_backend
from efa.endpoints import SRD, UD
from efa.jobs.common import DEVICE_WRONG, ROOT, RTL, numbers, say
from efa.report import ReportError, check_target, write_report
from efa.workload import LATENCY_SIZES, QUEUES, latency_sweep, new_node, rate_sweep

MOST_BYTES, MOST_QUEUES = 4096, 16
EPILOG = """\
examples:
  efa-cosim sweep
  efa-cosim sweep --sizes 8,64,4096 --queues 1,8 --rd-latency 500 --out reports/slow_host
"""


def add_command(commands):
    parser = commands.add_parser("sweep", help="latency and rate over sizes and queues",
                                 description=__doc__, epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=numbers(0, MOST_BYTES), default=list(LATENCY_SIZES),
                        help="message sizes in bytes, with commas")
    parser.add_argument("--queues", type=numbers(1, MOST_QUEUES), default=list(QUEUES),
                        help="queue counts, with commas")
    parser.add_argument("--rd-latency", type=int, default=125, metavar="CYCLES",
                        help="host read latency (default: %(default)s)")
    parser.add_argument("--backend", choices=("verilator", "icarus"), default=RTL)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "reports/sweep", metavar="FOLDER")
    parser.set_defaults(work=work)


def work(options):
    """Sweeps, writes report and CSV, returns the exit code."""
    knobs = {"rd_latency_min": options.rd_latency, "rd_latency_max": options.rd_latency}
    try:
        check_target(options.out)
        with open_backend(options.backend, seed=options.seed, **knobs) as backend:
            node = new_node(backend, options.seed)
            figures = latency_sweep(node, options.sizes, (UD, SRD), progress=say)
            sizes = [size for size in options.sizes if size]
            figures += rate_sweep(node, sizes, options.queues, progress=say)
        rows = [figure.as_dict() for figure in figures]
        page = write_report(options.out, {
            "verdict": "passed", "text": f"{len(rows)} points", "command": "efa-cosim sweep",
            "seed": options.seed, "sessions": [], "figures": rows, "waterfall": []})
    except DEVICE_WRONG as error:
        print(f"failed: {error}", file=sys.stderr)
        return 1
    except ReportError as error:
        print(f"efa-cosim: {error}", file=sys.stderr)
        return 2
    print(f"passed: {len(rows)} points, report: {page}")
    return 0
