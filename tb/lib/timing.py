# SPDX-License-Identifier: Apache-2.0
"""Reads the cycles that spec/timing.yaml specifies for a module, for benches to check.

    assert cycles == timing("efa_mr_check", "check").latency
"""

from functools import cache
from typing import NamedTuple

from efa_cosim.tree import ROOT
from efa_cosim.yaml_file import contents


class Timing(NamedTuple):
    """Cycles of one path through a module; None if the table has no value."""

    latency: int | None
    interval: int | None
    depth: int | None


@cache
def _table() -> dict[str, dict[str, dict[str, int]]]:
    return contents(ROOT / "spec/timing.yaml")["modules"]


def timing(module: str, path: str) -> Timing:
    """Returns the Timing of a module's path; KeyError names a missing entry."""
    try:
        entry = _table()[module][path]
    except KeyError as error:
        raise KeyError(f"spec/timing.yaml has no entry {module}, {path}") from error
    return Timing(*(entry.get(name) for name in Timing._fields))
