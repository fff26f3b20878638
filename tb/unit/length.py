# SPDX-License-Identifier: Apache-2.0
"""Chooses how much of a long unit bench runs: all, or a part of it for a run with --short.

    @cocotb.test()
    @grid(loss=[0.01, 0.05, 0.2], peers=[1, 5])
    async def a_fabric_that_loses(dut, loss, peers):
        for _ in range(rounds(700, 200)):

The seed draws the part, so that other seeds replace what one run leaves out.
"""

import os
from collections.abc import Sequence
from random import Random
from typing import Any

import cocotb

from tb.scenarios.length import is_short


def rounds(complete: int, fewer: int) -> int:
    """Returns the repetitions of a random step; with --short they are fewer."""
    return fewer if is_short() else complete


def grid(**axes: Sequence[object]) -> Any:
    """Parametrizes a test with each combination of the values of its axes.

    With --short, the test has as many cases as its longest axis has values: each value of each axis
    occurs in one case at least.
    """
    if not is_short():
        return cocotb.parametrize(**axes)
    return cocotb.parametrize((list(axes), covering([list(values) for values in axes.values()],
                                                    Random(os.environ["EFA_SEED"]))))


def covering(axes: list[list[Any]], rng: Random) -> list[tuple[Any, ...]]:
    """Returns the fewest combinations that have each value of each axis."""
    most = max(map(len, axes))
    columns = []
    for values in axes:
        column = [values[at % len(values)] for at in range(most)]
        rng.shuffle(column)
        columns.append(column)
    return [*zip(*columns, strict=True)]
