# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the jobs: paths, progress lines, error texts, argument types."""

import argparse
from pathlib import Path

from efa.admin_queue import DriverError
from efa.backend import DeviceTimeout
from efa.completion_queue import VerbsError
from efa.latencies import EventsMissing
from efa.workload import Mismatch

ROOT = Path(__file__).resolve().parents[3]
SESSIONS = ROOT / "model/tests/data/sessions"
RTL = "verilator"
MOST_CHARACTERS = 600
MOST_SEED = (1 << 31) - 1
# Errors that a faulty device causes in a job: RuntimeError is a simulation that ended,
# AssertionError a violated rule of the device boundary.
DEVICE_WRONG = (Mismatch, DeviceTimeout, DriverError, VerbsError, EventsMissing, RuntimeError,
                AssertionError)


def say(text):
    """Prints a line of progress."""
    print(f"  {text}", flush=True)


def one_line(error):
    """The text of an error in one line, truncated."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "..."


def number(least, most):
    """Argument type: a whole number in a range."""
    def parse(text):
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{value}: must be {least} to {most}")
        return value

    return parse


def numbers(least, most):
    """Argument type: comma-separated whole numbers in a range, returned ascending and unique."""
    one = number(least, most)

    def parse(text):
        return sorted({one(part) for part in text.split(",")})

    return parse


seed = number(0, MOST_SEED)
