# SPDX-License-Identifier: Apache-2.0
"""Runs a few cells of the write-combine laboratory on the RTL; `make wc-lab` runs all."""

import pytest

from efa_cosim.backends import open_backend
from efa_cosim.host.wc import StoreBuffer
from efa_cosim.wclab import matrix
from efa_cosim.wclab.bugs import BUGS
from efa_cosim.wclab.cost import costs
from efa_cosim.wclab.worker import one

# Icarus needs half a minute for half a second of Verilator.
RUNS = {
    "verilator": [*((bug, "adversarial/8/overtakes") for bug in BUGS),
                  *((bug, "in_order/4/overtakes") for bug in ("no_fence", "fence_early")),
                  ("no_fence", "random/8/drains"), ("fence_early", "ideal/10/overtakes")],
    "icarus": [("no_fence", "random/8/overtakes")],
}  # fmt: skip


def test_planted_bugs_are_found_on_the_device(sim, seed, unless_long):
    unless_long("a planted bug")
    with open_backend(sim, record=True) as backend:
        for bug, buffer in RUNS[sim]:
            reported = one(lambda: backend, bug, StoreBuffer.of(buffer), seed)
            assert matrix.outcome(reported) not in (matrix.MISSED, matrix.MISNAMED), reported
            assert not reported["garbage"] or bug in matrix.UNKNOWABLE, reported
            if "drains" in buffer or "ideal" in buffer:
                assert reported["hidden"] and not reported["breach"]


def test_correct_code_raises_no_alarm_on_the_device(sim, seed, unless_long):
    unless_long("correct code")
    rows = matrix.ROWS if sim == "verilator" else matrix.ROWS[-2:-1]
    with open_backend(sim, record=True) as backend:
        for row in rows:
            reported = one(lambda: backend, None, matrix.buffer_of(None, *row, seed), seed)
            assert not matrix.false_alarm(reported), (
                f"{reported}; repeat: {matrix.repeat(reported)}"
            )


def test_whatever_the_pieces_the_device_takes_one_a_cycle():
    with open_backend("verilator", record=True) as backend:
        for row in costs(backend):
            assert row["bus_cycles"] == pytest.approx(row["beats"] + row["doorbells"]), row
