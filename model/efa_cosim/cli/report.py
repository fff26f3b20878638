# SPDX-License-Identifier: Apache-2.0
"""efa-cosim report: renders page and pictures of a report again from its summary.json."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from efa_cosim.cli.options import Commands
from efa_cosim.report.folder import ReportError
from efa_cosim.report.page import read_summary, write_report


def add_command(commands: Commands) -> None:
    """Adds the command to the program."""
    parser = commands.add_parser("report", help="render a report again from its summary.json",
                                 description=__doc__)
    parser.add_argument("folder", type=Path, help="report folder, such as reports/run")
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> int:
    """Renders the report; returns the exit code."""
    try:
        print(write_report(options.folder, read_summary(options.folder)))
    except ReportError as error:
        print(f"efa-cosim: {error}", file=sys.stderr)
        return 2
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        print(f"efa-cosim: {options.folder}: not the summary of a run: {error!r}; run the job "
              "again", file=sys.stderr)
        return 2
    return 0
