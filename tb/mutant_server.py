# SPDX-License-Identifier: Apache-2.0
"""Runs mutants of a block one after the other, each in a fork of one simulator that is loaded once.

As the last of cocotb's test modules, this module stops before the first test, when the design has
not run yet. The folder EFA_MUTANTS holds job.json:

- `numbers`: the mutants
- `tests`: the tests in order, each with its simulated ns (0: its own limit); empty: all
- `seconds`: the maximum time of a mutant

Each mutant has a folder with its number. The design reads the number from the file `mutant` there,
and cocotb writes results.xml. A line of done.jsonl reports the end of a mutant, and whether it was
killed after a timeout.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from cocotb import _shutdown
from cocotb.regression import RegressionManager

PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>

_start = RegressionManager.start_regression


def _become(number: int, folder: Path) -> None:
    """Prepares a fork: sets its own folder for all output; the fork ends with its server."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    here = folder / str(number)
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    os.chdir(here)
    Path("mutant").write_text(f"{number}\n")
    out = os.open("run.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(out, stream)
    os.environ["COCOTB_RESULTS_FILE"] = str(here / "results.xml")


def _serve(job: dict[str, Any], folder: Path) -> int:
    """Forks for each mutant; returns in each fork with the mutant's number."""
    with open(folder / "done.jsonl", "a") as done:
        for number in job["numbers"]:
            since = time.monotonic()
            child = os.fork()
            if child == 0:
                return number
            status = _ended(child, since + job["seconds"])
            seconds = time.monotonic() - since
            text = {"number": number, "late": seconds > job["seconds"], "seconds": seconds,
                    "status": os.waitstatus_to_exitcode(status)}  # fmt: skip
            done.write(json.dumps(text) + "\n")
            done.flush()
    os._exit(0)


def _ended(child: int, deadline: float) -> int:
    """Waits for the end of a fork, which is killed at the deadline; returns its status."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)


def _end(manager: RegressionManager) -> None:
    """Exits with written results; a normal exit would wait for the parent's threads."""
    if not manager._tearing_down:
        manager._on_sim_end()
    os._exit(0)


def _start_regression(manager: RegressionManager) -> None:
    folder = Path(os.environ["EFA_MUTANTS"])
    job = json.loads((folder / "job.json").read_text())
    limits = dict(job["tests"])
    if limits:
        known = {test.fullname: test for test in manager._test_queue}
        manager._test_queue = [known[name] for name in limits]
    for test in manager._test_queue:
        if limits.get(test.fullname):
            test.timeout = limits[test.fullname], "ns"
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()
    _become(_serve(job, folder), folder)
    _shutdown.register(lambda: _end(manager))
    _start(manager)


# Replaces the method: cocotb has no hook between loading and the first test.
RegressionManager.start_regression = _start_regression  # type: ignore[method-assign, assignment]
