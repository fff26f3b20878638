# SPDX-License-Identifier: Apache-2.0
"""Tests which part of a long unit bench runs with --short."""

from random import Random

import pytest

from tb.scenarios.length import SHORT
from tb.unit import length

AXES = {"loss": [0.01, 0.05, 0.2], "paths": [1, 8], "peers": range(5), "form": ["whole"]}


async def traffic(dut, loss, paths, peers, form):
    """A test of a bench."""


def names(monkeypatch, short, seed=1):
    monkeypatch.setenv(SHORT, str(int(short)))
    monkeypatch.setenv("EFA_SEED", str(seed))
    return [test.name for test in length.grid(**AXES)(traffic).generate_tests()]


def test_a_grid_has_each_combination(monkeypatch):
    assert len({*names(monkeypatch, short=False)}) == 3 * 2 * 5


@pytest.mark.parametrize("seed", range(1, 20))
def test_a_short_grid_has_each_value_of_each_axis(monkeypatch, seed):
    short = names(monkeypatch, short=True, seed=seed)
    assert len(short) == 5 and {*short} < {*names(monkeypatch, short=False)}
    values = {value for name in short for value in name.split("/")[1:]}
    assert values == {f"{axis}={value}" for axis, all_of in AXES.items() for value in all_of}


def test_the_seed_draws_the_part(monkeypatch):
    assert names(monkeypatch, short=True, seed=3) == names(monkeypatch, short=True, seed=3)
    drawn = {tuple(names(monkeypatch, short=True, seed=seed)) for seed in range(9)}
    assert len(drawn) > 5


def test_values_are_used_equally_often():
    found = length.covering([["a", "b", "c"], list(range(7))], Random(2))
    assert sorted(sum(first == value for first, _ in found) for value in "abc") == [2, 2, 3]


def test_rounds_are_fewer(monkeypatch):
    monkeypatch.setenv(SHORT, "1")
    assert length.rounds(700, 200) == 200
    monkeypatch.delenv(SHORT)
    assert length.rounds(700, 200) == 700
