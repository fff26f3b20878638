# SPDX-License-Identifier: Apache-2.0
"""Runs one job in a process of its own: JSON in and out, a failure as exit code and one line."""

import contextlib
import json
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from efa_cosim.boundary.backend import BackendUnavailable
from efa_cosim.measure.failures import DEVICE_WRONG, one_line


def answer(work: Callable[[Any], Any], argument: str) -> int:
    """Prints the result of work as JSON, for the values in a JSON text; returns the exit code.

    0: done; 1: the device is wrong or the system failed; 2: the backend cannot run here. What the
    work prints goes to standard error.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = work(json.loads(argument))
    except BackendUnavailable as error:
        print(one_line(error), file=sys.stderr)
        return 2
    except (*DEVICE_WRONG, OSError) as error:
        print(one_line(error), file=sys.stderr)
        return 1
    json.dump(found, sys.stdout)
    return 0


def serve(main: Callable[[str], int]) -> NoReturn:
    """Runs main with the argument of the process and exits with its code."""
    # A pool ends its processes with SIGTERM; exit by exception also ends the simulator.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main(sys.argv[1]))
