# SPDX-License-Identifier: Apache-2.0
"""Starts the process of one job and reads its result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

from efa_cosim.jobs.job import Finished, Job, Limits, finished

END_SECONDS = 15.0


class JobProcess:
    """A running job: a supervisor (`efa_cosim.jobs.child`) and the job below it.

    If this process dies, even by SIGKILL, the supervisor ends the job.
    """

    def __init__(self, module: str, job: Job, limits: Limits) -> None:
        self.job, self._started = job, time.monotonic()
        self._out = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in result
        self._err = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        command = [sys.executable, "-m", "efa_cosim.jobs.child", f"{limits.seconds:g}",
                   str(limits.megabytes), module, json.dumps(job.as_dict())]
        # A separate session: the executor, not the terminal, passes interrupts on.
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=self._out, stderr=self._err,
            start_new_session=True)

    def ended(self) -> bool:
        """Returns True after the end of the process."""
        return self.process.poll() is not None

    def terminate(self) -> None:
        """Sends SIGTERM, which ends the job and its processes."""
        self.process.terminate()

    def wait(self, deadline: float) -> None:
        """Waits for the end until a time of time.monotonic(), then sends SIGKILL."""
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def result(self) -> Finished:
        """Waits for the end and returns the result."""
        code, seconds = self.process.wait(), time.monotonic() - self._started
        if self.process.stdin is not None:
            self.process.stdin.close()
        with self._out, self._err:
            self._out.seek(0)
            self._err.seek(0)
            return finished(self.job, code, seconds, self._out.read(), self._err.read())


def end_all(running: list[JobProcess]) -> None:
    """Ends processes: SIGTERM, with which they end their simulators, then SIGKILL."""
    for one in running:
        one.terminate()
    deadline = time.monotonic() + END_SECONDS
    for one in running:
        one.wait(deadline)

