# SPDX-License-Identifier: Apache-2.0
"""What the jobs share: where things are, how they tell progress and what went wrong."""

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
# What a wrong device makes of a job: RuntimeError is a simulation that ended, AssertionError
# a broken rule of the boundary.
DEVICE_WRONG = (Mismatch, DeviceTimeout, DriverError, VerbsError, EventsMissing, RuntimeError,
                AssertionError)


def say(text):
    """A line of progress."""
    print(f"  {text}", flush=True)


def one_line(error):
    """The text of an error in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "..."


def number(least, most):
    """An argument's type: a whole number in a range."""
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
    """An argument's type: whole numbers in a range, with commas; ascending, each once."""
    one = number(least, most)

    def parse(text):
        return sorted({one(part) for part in text.split(",")})

    return parse


seed = number(0, MOST_SEED)
