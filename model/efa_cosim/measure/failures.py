# SPDX-License-Identifier: Apache-2.0
"""The errors that a faulty device causes in a job, and their text."""

from efa_cosim.boundary.backend import DeviceTimeout
from efa_cosim.host.admin_queue import DriverError
from efa_cosim.host.completion_queue import VerbsError
from efa_cosim.measure.latencies import EventsMissing
from efa_cosim.measure.record import Mismatch

MOST_CHARACTERS = 600
# RuntimeError is a simulation that ended, AssertionError a violated rule of the device boundary.
DEVICE_WRONG = (Mismatch, DeviceTimeout, DriverError, VerbsError, EventsMissing, RuntimeError,
                AssertionError)


def one_line(error: BaseException) -> str:
    """Returns the text of an error in one line, truncated."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "..."
