# SPDX-License-Identifier: Apache-2.0
"""What spec/timing.yaml promises of a module, for the bench that holds the module to it.

    assert cycles == timing("efa_mr_check", "check").latency
"""

from functools import cache
from typing import NamedTuple

import yaml

from tb.simulators import ROOT


class Timing(NamedTuple):
    """Cycles of one path through a module; None where the table says nothing."""

    latency: int | None
    interval: int | None
    depth: int | None


@cache
def _table():
    return yaml.safe_load((ROOT / "spec/timing.yaml").read_text())["modules"]


def timing(module, path):
    """The Timing of a module's path; KeyError names what the table lacks."""
    try:
        entry = _table()[module][path]
    except KeyError as error:
        raise KeyError(f"spec/timing.yaml says nothing of {module}, {path}") from error
    return Timing(*(entry.get(name) for name in Timing._fields))
