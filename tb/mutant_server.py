# SPDX-License-Identifier: Apache-2.0
"""Runs mutants of a block, each in a fork of one simulator that is loaded once.

As the last of cocotb's test modules, this module stops before the first test, when the design has
not run yet. The folder EFA_MUTANTS holds job.json:

- `numbers`: the mutants
- `tests`: the tests in order; empty: all
- `limit`: the simulated ns of each test (0: its own limit)
- `seconds`: the maximum time of a mutant
- `jobs`: the number of parallel mutants

Each mutant has a folder with its number. The design reads the number from the file `mutant` there,
and cocotb writes results.xml. A line of done.jsonl reports the end of a mutant, and whether it was
killed after a timeout.
"""

import gc
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from cocotb import _shutdown
from cocotb.regression import RegressionManager

_start = RegressionManager.start_regression


def _become(number, folder):
    """Prepares a fork: sets its own folder for all output."""
    here = folder / str(number)
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    os.chdir(here)
    Path("mutant").write_text(f"{number}\n")
    out = os.open("run.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(out, stream)
    os.environ["COCOTB_RESULTS_FILE"] = str(here / "results.xml")


def _serve(job, folder):
    """Forks for each mutant; returns in each fork with the mutant's number."""
    waiting, running = list(job["numbers"]), {}
    caller = os.getppid()
    with open(folder / "done.jsonl", "a") as done:
        while waiting or running:
            while waiting and len(running) < job["jobs"]:
                number = waiting.pop(0)
                child = os.fork()
                if child == 0:
                    return number
                running[child] = number, time.monotonic()
            child, status = os.waitpid(-1, os.WNOHANG)
            if child:
                number, since = running.pop(child)
                seconds = time.monotonic() - since
                text = {"number": number, "late": seconds > job["seconds"], "seconds": seconds,
                        "status": os.waitstatus_to_exitcode(status)}  # fmt: skip
                done.write(json.dumps(text) + "\n")
                done.flush()
                continue
            gone = os.getppid() != caller
            if gone:
                waiting.clear()
            for child, (_, since) in running.items():
                if gone or time.monotonic() - since > job["seconds"]:
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.005)
    os._exit(0)


def _end(manager):
    """Exits with written results; a normal exit would wait for the parent's threads."""
    if not manager._tearing_down:
        manager._on_sim_end()
    os._exit(0)


def _start_regression(manager):
    folder = Path(os.environ["EFA_MUTANTS"])
    job = json.loads((folder / "job.json").read_text())
    if job["tests"]:
        known = {test.fullname: test for test in manager._test_queue}
        manager._test_queue = [known[name] for name in job["tests"]]
    for test in manager._test_queue:
        limit = job["limit"].get(test.fullname)
        if limit:
            test.timeout = limit, "ns"
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()
    _become(_serve(job, folder), folder)
    _shutdown.register(lambda: _end(manager))
    _start(manager)


RegressionManager.start_regression = _start_regression
