# SPDX-License-Identifier: Apache-2.0
"""efa-cosim fabric-report: the reliable transport on fabrics with faults, beside go-back-N."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from efa_cosim.cli.options import Commands, number
from efa_cosim.cli.options import seed as seed_of
from efa_cosim.jobs.progress import Progress
from efa_cosim.measure.record import Mismatch
from efa_cosim.tree import REPORTS

PARTS = 16
TEXT = """\
Sends packets of 4 KB by the reliable transport of the reference model over fabrics that lose
packets, lose a path or have 16 senders to one node, and by go-back-N over the same fabrics.
Results: goodput, packets sent again, completion times, recovery, fairness, with their targets.
A monitor checks each packet of the reliable transport against its rules (docs/monitor.md).
"""
EPILOG = """\
examples:
  efa-cosim fabric-report                     a minute or two, writes reports/fabric
  efa-cosim fabric-report --packets 300000    steadier values at the lowest loss rate

exit codes: 0 every target met, 1 a target missed, a message not completed once or a rule of the
            transport broken, 2 usage
"""


def add_command(commands: Commands) -> None:
    """Adds the command to the program."""
    parser = commands.add_parser("fabric-report", help="the transport under loss, beside go-back-N",
                                 description=TEXT, epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=number(2_000, 10_000_000), default=60_000,
                        help="packets of each run with loss (default: %(default)s)")
    parser.add_argument("--seed", type=seed_of, default=1, help="of all faults (default: 1)")
    parser.add_argument("--out", type=Path, default=REPORTS / "fabric", metavar="FOLDER",
                        help="where to write the report (default: reports/fabric)")
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> int:
    """Measures and writes the report; returns the exit code."""
    from efa_cosim.measure import lossy
    from efa_cosim.report import fabric_page

    try:
        with Progress("fabrics", total=PARTS) as progress:
            def report(part: str) -> None:
                progress.advance(note=part)

            results = lossy.measure(options.packets, options.seed, report)
    except Mismatch as error:
        print(f"efa-cosim: {error}", file=sys.stderr)
        return 1
    page = fabric_page.write(options.out, options.command, options.packets, options.seed, results)
    wrong = lossy.misses(results.rows)
    for line in wrong:
        print(f"missed: {line}")
    verdict = f"{len(wrong)} targets missed" if wrong else "all targets met"
    print(f"{verdict}, {results.checked_packets:,} packets checked, report: {page}")
    return int(bool(wrong))
