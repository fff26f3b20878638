# SPDX-License-Identifier: Apache-2.0
"""Counts the RTL coverage of Verilator runs when EFA_CODE_COVERAGE names a folder.

Verilator counts lines, branches, terms of expressions and both edges of every bit. Excluded are
observers (EFA_CHECK, EFA_STREAM, efa_stream_check), unused wires, and the words of a memory; the
ports of a memory count. tools/code_coverage.py merges and checks the counts.
"""

import os
import re
import time
from pathlib import Path

FOLDER = "EFA_CODE_COVERAGE"
FLAGS = [
    "--coverage-line", "--coverage-expr", "--coverage-toggle", "--coverage-max-width", "4096",
]  # fmt: skip
WATCHER = "efa_stream_check.v"
MEMORY = re.compile(r"\s*reg\s+(\[[^\]]*\]\s*)?\w+\s*\[")
UNUSED = re.compile(r"\s*wire\s+(\[[^\]]*\]\s*)?unused_\w+")
WATCHES = re.compile(r"\s*`EFA_(CHECK|CHECK_ON|STREAM)\(")


def wanted() -> bool:
    """True if runs count coverage."""
    return FOLDER in os.environ


def left_out(text: str) -> list[tuple[int, int]]:
    """Returns first and last line numbers of the excluded ranges of a source."""
    found, lines, at = [], text.split("\n"), 0
    while at < len(lines):
        first = at
        if WATCHES.match(lines[at]):
            depth = 0
            while True:
                code = re.sub(r'"[^"]*"', "", lines[at])
                depth += code.count("(") - code.count(")")
                if depth <= 0:
                    break
                at += 1
        elif UNUSED.match(lines[at]):
            while not lines[at].rstrip().endswith(";"):
                at += 1
        elif not MEMORY.match(lines[at]):
            at += 1
            continue
        found.append((first + 1, at + 1))
        at += 1
    return found


def control(files: list[Path], counted: tuple[str, ...] = ()) -> str:
    """Returns Verilator's control file that excludes those lines.

    If `counted` has names, all other files are excluded.
    """
    message = ["`verilator_config"]
    for path in files:
        if path.name == WATCHER or (counted and path.name not in counted):
            message.append(f'coverage_off -file "{path}"')
            continue
        for first, last in left_out(path.read_text()):
            message.append(f'coverage_off -file "{path}" -lines {first}-{last}')
    return "\n".join(message) + "\n"


def arguments(name: str) -> list[str]:
    """Returns the arguments that name the file of a run's counts, and start the run from zeros.

    Random values before the first reset would count as edges.
    """
    if not wanted():
        return []
    file = Path(os.environ[FOLDER]) / f"{name}-{os.getpid()}-{time.monotonic_ns()}.dat"
    return [f"+verilator+coverage+file+{file}", "+verilator+rand+reset+0"]
