# SPDX-License-Identifier: Apache-2.0
"""Ends a program of this project after an interrupt (Ctrl-C, SIGINT): one line, exit status 130.

    leave_on_interrupt("lint")
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

INTERRUPTED = 130


def child_processes() -> list[int]:
    """Returns the numbers of the child processes, of all threads; [] where /proc does not exist."""
    found: list[int] = []
    for file in Path("/proc/self/task").glob("*/children"):
        found += [int(number) for number in file.read_text().split()]
    return found


def end_children() -> None:
    """Ends the child processes; of a child that leads a process group, the whole group."""
    for number in child_processes():
        try:
            leads = os.getpgid(number) == number
            (os.killpg if leads else os.kill)(number, signal.SIGKILL)
        except ProcessLookupError:
            continue


def leave_on_interrupt(name: str, close: Callable[[], None] = lambda: None) -> None:
    """Makes an interrupt end this program and its children with the line `<name>: interrupted`.

    The program ends in the signal handler, because an exception would wait for the threads of a
    pool. `close` runs before the line. An ignored interrupt stays ignored, as in a background job
    of a shell.
    """

    def leave(*_):
        end_children()
        close()
        sys.stdout.flush()
        print(f"{name}: interrupted", file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)

    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, leave)
