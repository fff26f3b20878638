# SPDX-License-Identifier: Apache-2.0
"""Tests that the cycle counts of the scenarios match tb/perf/golden.yaml on both simulators."""

import pytest

from tb.lib.backends import open_simulator
from tb.perf import golden

ACCEPT = "`make golden` writes the new counts for review, if they are meant"


def test_cycles_are_as_they_were(sim, unless_long):
    unless_long("the list of golden cycles")
    known = golden.read()
    chosen = [one for one in golden.SCENARIOS if sim == "verilator" or one.both]
    changed = []
    with open_simulator(sim) as backend:
        for scenario in chosen:
            now = golden.measure(backend, scenario)
            changed += golden.differences(scenario.name, known.get(scenario.name), now)
    if changed:
        pytest.fail("\n".join([*changed, ACCEPT]), pytrace=False)


def test_the_file_holds_the_scenarios():
    assert list(golden.read()) == [scenario.name for scenario in golden.SCENARIOS]


def test_the_file_is_as_it_would_be_written():
    assert golden.FILE.read_text() == golden.text(golden.read())


@pytest.mark.parametrize(("old", "new", "reported"), [
    (None, {"out": 5}, ["x: new"]),
    ({"out": 5}, {"out": 5}, []),
    ({"out": 5, "sum": 9}, {"out": 6, "sum": 10},
     ["x: out: 5 cycles became 6", "x: sum: 9 cycles became 10"]),
    ({"out": [7, 1, 1]}, {"out": [7, 1, 2]},
     ["x: out, number 2: 1 cycles became 2 (all: 9 became 10)"]),
    ({"out": [7, 1, 1, 1, 1]}, {"out": [8, 2, 2, 2, 1]},
     ["x: out, number 0: 7 cycles became 8, number 1: 1 cycles became 2, number 2: 1 cycles became "
      "2 and 1 more (all: 11 became 15)"]),
    ({"out": [7, 1]}, {"out": [7]}, ["x: out: [7, 1] cycles became [7]"]),
    ({"out": 5}, {"in": 5}, ["x: out: 5 cycles became None", "x: in: None cycles became 5"]),
])
def test_a_cycle_more_is_reported_by_stage(old, new, reported):
    assert golden.differences("x", old, new) == reported
