# SPDX-License-Identifier: Apache-2.0
"""Tests checker, classifier and ordering rules on hand-written traces, one rule at a time."""

import pytest

from efa_cosim.layouts import defs
from efa_cosim.wclab.checker import (
    BACK,
    BACK_A_WRAP,
    BEYOND,
    IN_FLIGHT,
    LARGE,
    LEFT_OUT,
    NEVER_POSTED,
    OUTSIDE,
    PHASE,
    REPEATED,
    REWRITTEN,
    Checker,
)
from efa_cosim.wclab.explain import breach
from efa_cosim.wclab.trace import DB, GONE, LLQ, SHOWN, WATCHED, Item, Shape
from efa_cosim.wclab.verdict import name

pytestmark = pytest.mark.slow

BASE, DEPTH, DOORBELL = 4096, 8, 64
SHAPE = Shape(3, BASE, DEPTH, 64, DOORBELL, 4)
WHOLE = (0, 64)
IMAGES = [defs.IoTxWqe(meta=defs.IoTxMetaDesc(phase=phase)).pack() * 2 for phase in (0, 1)]


class Trace:
    """A hand-written trace of one queue, from the start of the observation to its end."""

    def __init__(self, shape=SHAPE):
        self.shape = shape
        self.items = [Item(WATCHED, shape)]

    def store(self, number, part=WHOLE, phase=None):
        """Stores the bytes part[0] to part[1] of a WQE in its slot, with the phase of its wrap."""
        phase = number // self.shape.depth % 2 if phase is None else phase
        slot = self.shape.llq + number % self.shape.depth * self.shape.entry_bytes
        self.items.append(Item(LLQ, slot + part[0], IMAGES[phase][part[0] : part[1]]))
        return self

    def entries(self, first, end):
        """Stores complete WQEs in order, line by line."""
        for number in range(first, end):
            for at in range(0, self.shape.entry_bytes, 64):
                self.store(number, (at, at + 64))
        return self

    def ring(self, value):
        self.items.append(Item(DB, self.shape, value & 0xFFFF))
        return self

    def shown(self, name, **fields):
        self.items.append(Item(SHOWN, name, {"qpn": self.shape.index, **fields}))
        return self

    def completed(self, count, status=0):
        for _ in range(count):
            self.shown("cqe", q_type=int(defs.IoQueueType.SEND_QUEUE), status=status)
        return self

    def wraps(self, entries):
        """Posts this number of WQEs one by one; each completes."""
        for number in range(entries):
            self.entries(number, number + 1).ring(number + 1).completed(1)
        return self

    def seen(self):
        """Returns the kinds of evidence, the verdict and the broken rule."""
        items = [*self.items, Item(GONE, self.shape)]
        findings = Checker().check(items)
        kinds = {kind for kind, count in findings.counts.items() if count}
        return kinds, name(findings)[0], breach(items)


CLEAN = (set(), "clean", None)


def test_correct_code_of_any_pieces_in_any_order_is_clean():
    assert Trace().wraps(30).seen() == CLEAN
    assert Trace().entries(0, 4).ring(4).entries(4, 8).ring(8).completed(3).entries(8, 11).ring(
        11).seen() == CLEAN
    pieces = Trace().store(1, (32, 64)).store(0, (4, 64)).store(1, (0, 32)).store(0, (0, 4))
    assert pieces.ring(2).seen() == CLEAN
    wide = Shape(3, BASE, 4, 128, DOORBELL, 4)
    assert Trace(wide).entries(0, 2).ring(2).entries(2, 4).ring(4).seen() == CLEAN


def test_the_counter_runs_over_16_bits():
    assert Trace().wraps(0x10000 + 20).seen() == CLEAN


def test_completions_of_other_queues_free_no_slot():
    for fields in ({"qpn": 4, "q_type": 1, "status": 0}, {"q_type": 2, "status": 0}):
        trace = Trace().entries(0, 4).ring(4).entries(4, 8).ring(8)
        trace.shown("cqe", **fields)
        assert trace.entries(8, 9).seen()[0] == {IN_FLIGHT, NEVER_POSTED}


@pytest.mark.parametrize(("trace", "kind", "verdict"), [
    (Trace().store(0).store(0, (8, 16)).ring(1), REWRITTEN, "two_threads"),
    (Trace().entries(0, 2).ring(2).ring(2), REPEATED, "two_threads"),
    (Trace().entries(0, 2).ring(2).ring(1), BACK, "two_threads"),
    (Trace().wraps(7).entries(7, 9).ring(1), BACK_A_WRAP, "wrap_wrong"),
    (Trace().wraps(7).entries(7, 8).ring(0), BACK_A_WRAP, "wrap_wrong"),
    (Trace().entries(0, 1).ring(9), BEYOND, "slot_reused"),
    (Trace().entries(0, 4).ring(4).entries(4, 8).ring(8).completed(1).entries(8, 10), IN_FLIGHT,
     "slot_reused"),
    (Trace().entries(0, 4).ring(4).entries(4, 8).ring(8).entries(8, 9).completed(1).ring(9),
     IN_FLIGHT, "slot_reused"),
    (Trace().wraps(8).store(8, phase=0).ring(9), PHASE, "stale_phase"),
    (Trace().wraps(2).store(2, phase=1).ring(3), PHASE, "stale_phase"),
    (Trace().entries(0, 5).ring(5), LARGE, "batch_over"),
    (Trace(Shape(3, BASE, 8, 128, DOORBELL, 4)).entries(0, 3).ring(3), LARGE, "batch_over"),
    (Trace().wraps(2).entries(2, 4), NEVER_POSTED, "doorbell_lost"),
])  # fmt: skip
def test_each_rule_alone(trace, kind, verdict):
    kinds, named, broken = trace.seen()
    assert kind in kinds and kinds <= {kind, NEVER_POSTED}
    assert named == verdict
    assert broken


@pytest.mark.parametrize("offset", [BASE - 64, BASE + 64 * DEPTH])
def test_a_store_beside_the_ring(offset):
    trace = Trace()
    trace.items.append(Item(LLQ, offset, bytes(64)))
    assert trace.seen() == ({OUTSIDE}, "wrap_wrong", "a store outside all rings")


def test_the_limit_of_a_batch_may_be_none():
    assert Trace(Shape(3, BASE, 8, 64, DOORBELL, 0)).entries(0, 8).ring(8).seen() == CLEAN


HALF, REST = (0, 32), (32, 64)
BUT_LAST, LAST = (0, 56), (56, 64)


@pytest.mark.parametrize(("trace", "verdict"), [
    (Trace().store(0, HALF).ring(1), "half_entry"),
    (Trace().entries(0, 2).store(2, HALF).ring(3), "half_entry"),
    # The last store is always late, and follows the doorbell at once.
    (Trace().entries(0, 1).store(1, BUT_LAST).ring(2).store(1, LAST), "doorbell_early"),
    (Trace().store(0, BUT_LAST).ring(1).store(0, (56, 60)).store(0, (60, 64)), "doorbell_early"),
    # The last store is late, but not at once or not always.
    (Trace().entries(0, 1).store(1, BUT_LAST).ring(2).entries(2, 3).store(1, LAST).ring(3),
     "fence_early"),
    (Trace().entries(0, 2).ring(2).entries(2, 3).store(3, BUT_LAST).ring(4).store(3, LAST),
     "fence_early"),
    (Trace().entries(0, 1).ring(2).store(1), "fence_early"),
    (Trace().entries(1, 2).ring(2).store(0), "no_fence"),
    (Trace().ring(2).entries(0, 2), "no_fence"),
    (Trace().entries(0, 1).ring(2).store(1).entries(3, 4).ring(4).store(2), "no_fence"),
])  # fmt: skip
def test_how_wqes_are_incomplete_names_the_mistake(trace, verdict):
    kinds, named, broken = trace.seen()
    assert (kinds, named) == (set(), verdict)
    assert "missing" in broken


def test_another_thread_that_stores_where_this_one_rang():
    # The thread started before the doorbell for two WQEs, stores three from the same slot and posts
    # them.
    trace = Trace().entries(0, 2).ring(2).store(8, phase=0).store(9, phase=0).entries(2, 3).ring(3)
    kinds, named, broken = trace.seen()
    assert kinds == {IN_FLIGHT, PHASE, LEFT_OUT} and named == "two_threads"
    assert broken


def test_what_the_device_reports_is_kept():
    trace = Trace().shown("qperr", cause=4).shown("db", kind=0, num=3, status=2)
    trace.shown("llq", status=2, qpn=None).shown("wqe", wrong_phase=1).completed(1, status=2)
    trace.shown("qperr", cause=4, qpn=9)
    findings = Checker().check(trace.items)
    assert dict(findings.device) == {
        "QP to ERR: store to a posted slot": 1, "doorbell refused": 1, "phase reported": 1,
        "LLQ store refused: slot posted and not taken": 1,
        "completed LOCAL_ERROR_QP_INTERNAL_ERROR": 1}
