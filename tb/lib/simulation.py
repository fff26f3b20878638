# SPDX-License-Identifier: Apache-2.0
"""Runs one simulation in its own process group, and ends the group with this process.

A build starts compilers, a run starts the simulator. Every end of this process (exception,
interrupt, exit) ends the group. A failure is reported in one line; the log that the line names has
the complete text.

    python -m tb.lib.simulation '["verilator", 1, {}, "/path/of/socket"]'
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import weakref

from tb.simulators import ROOT, SimulatorMissing

GENTLE_SECONDS = 5.0
POLL_SECONDS = 0.02
TELLING = re.compile(r"%Error|\berror\b|No space left", re.IGNORECASE)
LOG = re.compile(r"^log: (\S+)$", re.MULTILINE)
WAVES = re.compile(r"^waves: .*$", re.MULTILINE)
BUILDING = re.compile(r"^(building|waiting for) .*(?=\n)", re.MULTILINE)
MOST_CHARACTERS = 300
MOST_PRINTED = 1 << 16


class Simulation:
    """Builds and runs tb/system/serve_tests.py, which connects to the socket at `address`."""

    def __init__(
        self, sim: str, seed: int, params: dict[str, int], address: str, waves: bool = False
    ) -> None:
        self.waves: list[str]
        self.sim, self.waves = sim, []  # lines about the waves of a run that has ended
        self._reported = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - stays open
        self._printed = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        if waves:
            environment["WAVES"] = "1"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tb.lib.simulation", json.dumps([sim, seed, params, address])],
            cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=self._printed,
            stderr=self._reported, start_new_session=True,
        )  # fmt: skip
        self._end = weakref.finalize(self, _end_group, self._process)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def building(self) -> str:
        """Returns the line that announces a build, an empty text before it or without one."""
        # A read with a position: the process writes where the position of the file is.
        text = os.pread(self._printed.fileno(), MOST_PRINTED, 0).decode(errors="replace")
        found = BUILDING.search(text)
        return found[0] if found else ""

    def failure(self, seconds: float = 60.0) -> str | None:
        """Waits for the end; returns the failure in one line, or None on success."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.end()
            return f"{self.sim}: the simulation did not end within {seconds:.0f} s"
        # The process id may be reused from now on.
        self._end.detach()
        self._reported.seek(0)
        if code == 0:
            self.waves = WAVES.findall(self._reported.read())
            return None
        return brief(self._reported.read()) or f"{self.sim}: the simulation ended with code {code}"

    def end(self) -> None:
        """Ends the process group."""
        self._end()


def brief(text: str) -> str:
    """Returns the first line of a failure, the first line with an error, and the log's name."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    if lines[0].startswith("Traceback"):
        return lines[-1][:MOST_CHARACTERS]
    # The second line of a failed run has the cause; a build log has the cause anywhere.
    if lines[0].endswith("FAILED"):
        telling = lines[1] if len(lines) > 1 else None
    else:
        telling = next((line for line in lines[1:] if TELLING.search(line)), None)
    log = LOG.search(text)
    reported = lines[0] if telling is None else f"{lines[0].rstrip(':')}: {telling}"
    return reported[:MOST_CHARACTERS] + (f" (log: {log[1]})" if log else "")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Terminates the group by SIGTERM, which removes partial objects, then by SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GENTLE_SECONDS
        try:
            os.killpg(process.pid, number)
            while time.monotonic() < deadline:
                process.poll()
                os.killpg(process.pid, 0)
                time.sleep(POLL_SECONDS)
        except ProcessLookupError:
            return


def main(argument: str) -> int:
    """Builds, runs, and prints a failure on standard error."""
    from tb.runner import RunFailed, waves_in
    from tb.system_run import run_system

    sim, seed, params, address = json.loads(argument)
    try:
        done = run_system("tb.system.serve_tests", sim, seed, params, env={"EFA_SOCKET": address})
        for path in waves_in(done.folder):
            print(f"waves: {path}", file=sys.stderr)
    except (RunFailed, SimulatorMissing, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
