# SPDX-License-Identifier: Apache-2.0
"""Runs one job in a process group of its own, and ends the group at a limit of time or memory.

    python -m efa_cosim.jobs.child SECONDS MEGABYTES MODULE JSON

This process supervises the job, its child, and exits as the job does. Standard input is a pipe of
the process that wants the result: its end means that this process died, and ends the job.
"""

import contextlib
import os
import resource
import runpy
import select
import signal
import sys
import time
from pathlib import Path

from efa_cosim.jobs.job import OVER_MEMORY, OVER_TIME

END_SECONDS = 10.0
MEMORY_SECONDS = 1.0
PAGE = resource.getpagesize()


def main(arguments: list[str]) -> int:
    """Forks; the child runs the module, the parent supervises it. Returns the exit code."""
    seconds, megabytes, module, argument = arguments
    wake, write = os.pipe()
    for end in (wake, write):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(write)
    ended = _Ended()
    signal.signal(signal.SIGTERM, ended.note)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    job = os.fork()
    if job == 0:
        _become(module, argument)
        return 0
    with contextlib.suppress(OSError):
        os.setpgid(job, job)  # The child does the same: whichever is first.
    return _supervise(job, float(seconds), int(megabytes), wake, ended)


class _Ended:
    """Notes SIGTERM."""

    noted = False

    def note(self, *_signal: object) -> None:
        self.noted = True


def _become(module: str, argument: str) -> None:
    """Runs the module as a program in this process; exits as the module does."""
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.argv[1:] = [argument]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _supervise(job: int, seconds: float, megabytes: int, wake: int, ended: _Ended) -> int:
    deadline, watched = time.monotonic() + seconds, [0, wake]
    code, reason = 0, ""
    while _running(job):
        left = max(0.0, deadline - time.monotonic())
        ready, *_ = select.select(watched, [], [], min(MEMORY_SECONDS, left))
        with contextlib.suppress(BlockingIOError):
            os.read(wake, 4096)
        if ended.noted or (0 in ready and not os.read(0, 1)):
            code = 128 + signal.SIGTERM
        elif left == 0.0:
            code, reason = OVER_TIME, f"the job exceeded its limit of {seconds:g} s and was ended"
        elif not ready and memory_of(job) > megabytes << 20:
            code = OVER_MEMORY
            reason = f"the job exceeded its limit of {megabytes} MB of memory and was ended"
        if code:
            _end(job)
            break
    # The unread exit status keeps the number of the group.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(job, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
    if reason:
        print(f"\n{reason}", file=sys.stderr)
    if code == 0 and status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return code or status


def _running(job: int) -> bool:
    """Returns False after the end of a child; its exit status stays unread."""
    return os.waitid(os.P_PID, job, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _end(job: int) -> None:
    """Sends SIGTERM, with which a job ends its simulators, and waits up to END_SECONDS."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(job, signal.SIGTERM)
    deadline = time.monotonic() + END_SECONDS
    while _running(job) and time.monotonic() < deadline:
        time.sleep(0.02)


def memory_of(group: int) -> int:
    """Returns the bytes of memory that the processes of a group do not share with files."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The name before the ")" may contain spaces.
            _, _, numbers = (folder / "stat").read_text().rpartition(")")
            _state, _parent, process_group, *_ = numbers.split()
            if int(process_group) == group:
                _, resident, shared, *_ = map(int, (folder / "statm").read_text().split())
                total += (resident - shared) * PAGE
    return total


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
