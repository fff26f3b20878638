# SPDX-License-Identifier: Apache-2.0
"""Caches finished jobs of sweeps: an interrupted sweep resumes.

The key of a job's measurements is a digest of the job and of every source that affects them, so a
change of device, bench or model causes a new measurement.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from efa_cosim.jobs import store
from efa_cosim.sweep.grid import CYCLE, Job
from efa_cosim.tree import ROOT

FOLDER = ROOT / "sim/out/sweeps"
# The packages that a job uses. Commands and pictures do not affect measurements.
USED = ("backends", "boundary", "cycle", "device", "fabric", "host", "layouts", "measure", "sweep",
        "transport")
DEVICE = ("rtl/**/*.v", "rtl/**/*.vh", "tb/*.py", "tb/runner/*.py", "tb/hdl/*", "tb/native/*",
          "tb/lib/*.py", "tb/cycle/*.py", "tb/system/serve_tests.py",
          "tb/system/timed_tests.py")  # fmt: skip
# The plan of the tests, and what pytest alone runs.
NO_SOURCES = ("!spec/testplan.yaml", "!tb/test_*.py", "!tb/lib/test_*.py", "!tb/cycle/test_*.py")


def sources(on_the_rtl: bool, packages: Iterable[str] = USED) -> tuple[str, ...]:
    """The patterns of all sources that affect measurements: those of the model, with the packages
    of efa_cosim that a job uses, and those of the RTL."""
    model = (f"model/efa_cosim/{one}/*.py" for one in packages)
    return ("spec/*.yaml", "requirements.lock", *model, *(DEVICE if on_the_rtl else ()),
            *NO_SOURCES)


@cache
def _tree(on_the_rtl: bool) -> str:
    return store.digest_of(ROOT, sources(on_the_rtl))


def find(job: Job) -> list[dict[str, Any]] | None:
    """The cached measurements of a job, None if there are none."""
    found: list[dict[str, Any]] | None = store.find(FOLDER, _tree(job.backend != CYCLE), job)
    return found


def keep(job: Job, measurements: list[dict[str, Any]]) -> None:
    """Caches the measurements of a job; raises OSError."""
    store.keep(FOLDER, _tree(job.backend != CYCLE), job, measurements)
