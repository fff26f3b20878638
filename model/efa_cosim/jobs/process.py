# SPDX-License-Identifier: Apache-2.0
"""Starts the process of one job and reads its output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from efa_cosim.jobs.job import Limits

END_SECONDS = 15.0


class Output(NamedTuple):
    """What a process left: exit code, seconds, standard output and standard error."""

    code: int
    seconds: float
    text: str
    errors: str


class JobProcess:
    """A running job: a supervisor (`efa_cosim.jobs.child`) and the job below it.

    If this process dies, even by SIGKILL, the supervisor ends the job.
    """

    def __init__(self, module: str, values: dict[str, Any], limits: Limits) -> None:
        self._started = time.monotonic()
        self._out = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in output
        self._err = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        command = [sys.executable, "-m", "efa_cosim.jobs.child", f"{limits.seconds:g}",
                   str(limits.megabytes), module, json.dumps(values)]
        # A separate session: the executor, not the terminal, passes interrupts on.
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=self._out, stderr=self._err,
            start_new_session=True)

    def ended(self) -> bool:
        """Returns True after the end of the process."""
        return self._process.poll() is not None

    def terminate(self) -> None:
        """Sends SIGTERM, which ends the job and its processes."""
        self._process.terminate()

    def wait(self, deadline: float) -> None:
        """Waits for the end until a time of time.monotonic(), then sends SIGKILL."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def output(self) -> Output:
        """Waits for the end and returns the output; a second call raises ValueError."""
        code, seconds = self._process.wait(), time.monotonic() - self._started
        if self._process.stdin is not None:
            self._process.stdin.close()
        with self._out, self._err:
            self._out.seek(0)
            self._err.seek(0)
            return Output(code, seconds, self._out.read(), self._err.read())


def end_all(running: Iterable[JobProcess]) -> None:
    """Ends processes: SIGTERM, with which they end their simulators, then SIGKILL."""
    running = list(running)
    for one in running:
        one.terminate()
    deadline = time.monotonic() + END_SECONDS
    for one in running:
        one.wait(deadline)
