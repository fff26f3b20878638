# SPDX-License-Identifier: Apache-2.0
"""efa-cosim test: the project's tests, all or an area, on the simulators you name."""

import subprocess
import sys

from efa.jobs.common import ROOT, seed

NOTHING_SELECTED = 5


def add_command(commands):
    parser = commands.add_parser("test", help="run the tests", description=__doc__)
    parser.add_argument("what", nargs="?", default="", help="select tests, as pytest -k")
    parser.add_argument("--sim", default="verilator,icarus",
                        choices=("verilator", "icarus", "verilator,icarus"),
                        help="where simulated tests run (default: %(default)s)")
    parser.add_argument("--seed", type=seed, help="seed of every random choice")
    parser.set_defaults(work=work)


def work(options):
    """Runs pytest on the project; its exit code 0 passes, 1 fails, anything else is usage."""
    command = [sys.executable, "-m", "pytest", "-q", "--sim", options.sim, "model/tests", "tb"]
    command += ["-k", options.what] if options.what else ["--plan"]
    command += ["--seed", str(options.seed)] if options.seed is not None else []
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code == NOTHING_SELECTED:
        print(f"efa-cosim: no test matches {options.what!r}", file=sys.stderr)
    return code if code in (0, 1) else 2
