# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the commands: paths, argument types."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from efa_cosim.jobs.cluster import ADDRESS, SYNTAX
from efa_cosim.tree import INSTALLED, ROOT

SESSIONS = ROOT / "model/tests/data/sessions"
RTL = "verilator"
MOST_SEED = (1 << 31) - 1
MOST_JOBS = 64
# Where a command adds its parser; argparse has no public name of this class.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def number(least: int, most: int) -> Callable[[str], int]:
    """Argument type: a whole number in a range."""
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{value}: must be {least} to {most}")
        return value

    return parse


def numbers(least: int, most: int) -> Callable[[str], list[int]]:
    """Argument type: comma-separated whole numbers in a range, returned ascending and unique."""
    one = number(least, most)

    def parse(text: str) -> list[int]:
        return sorted({one(part) for part in text.split(",")})

    return parse


def cluster(text: str) -> str:
    """Argument type: the address of a cluster; raises ArgumentTypeError."""
    if not ADDRESS.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r}: must be {SYNTAX}")
    return text


def absent(path: Path, known: Iterable[Path]) -> str | None:
    """Returns an error for a file that is not there, which lists the paths `known`, else None."""
    if path.exists():
        return None
    names = ", ".join(str(one if INSTALLED else one.relative_to(ROOT)) for one in sorted(known))
    return f"{path}: no such file; expected a file such as {names}"


def output_refusal(option: str, path: Path | None) -> str | None:
    """Returns why a file cannot be written, None if it can or if `path` is None; `option` names it.
    """
    if path is None:
        return None
    if path.is_dir():
        return f"{option} {path} is a folder; name a file in it"
    if not path.resolve().parent.is_dir():
        return f"{option}: no folder {path.parent}; create it first"
    if not os.access(path.resolve().parent, os.W_OK):
        return f"{option}: folder {path.resolve().parent} is not writable; name another folder"
    return None


def width_of(options: argparse.Namespace) -> int:
    """Returns the number of jobs at a time: --jobs, else the number of cores, at most 4."""
    jobs: int | None = options.jobs
    return jobs or min(4, os.cpu_count() or 1)


seed = number(0, MOST_SEED)
job_count = number(1, MOST_JOBS)
