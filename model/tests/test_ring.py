# SPDX-License-Identifier: Apache-2.0
"""Tests ring counters against an unbounded count, across their 16-bit wrap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efa_cosim.device.ring import EntryRing, WorkRing, distance, is_power_of_two

DEPTHS = st.integers(0, 15).map(lambda n: 1 << n)
STEPS = st.lists(st.tuples(st.integers(0, 1 << 15), st.integers(0, 1 << 15)), max_size=60)


@pytest.mark.parametrize(
    ("value", "largest", "response"),
    [(0, 8, False), (1, 8, True), (3, 8, False), (8, 8, True), (16, 8, False), (-2, 8, False)],
)
def test_powers_of_two_have_a_largest(value, largest, response):
    assert is_power_of_two(value, largest) is response


@pytest.mark.slow
@given(DEPTHS, STEPS)
def test_a_work_ring_follows_unbounded_counts(depth, steps):
    ring = WorkRing(depth)
    produced = consumed = completed = 0
    for new, done in steps:
        new = new % (depth - (produced - completed) + 1)
        assert ring.ring((produced + new) & 0xFFFF)
        produced += new
        while consumed < produced:
            assert ring.slot() == consumed % depth
            assert ring.is_waiting(consumed % depth)
            assert ring.take() == consumed % depth
            consumed += 1
        finished = min(done, consumed - completed)
        ring.complete(finished)
        completed += finished
        assert (ring.waiting, ring.unfinished) == (0, consumed - completed)


@given(DEPTHS, st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
def test_a_doorbell_is_valid_exactly_up_to_the_free_space(depth, start, busy, value):
    ring, busy = WorkRing(depth), busy % (depth + 1)
    ring.completed, ring.consumed = start, start
    ring.produced = (start + busy) & 0xFFFF
    valid = distance(value, ring.produced) <= depth - busy
    before = ring.produced
    assert ring.ring(value) is valid
    assert ring.produced == (value if valid else before)
    if valid:
        assert distance(ring.produced, ring.completed) <= depth


def test_a_ring_of_depth_zero_takes_only_an_unchanged_count():
    ring = WorkRing(0)
    assert ring.ring(0)
    assert not ring.ring(1)
    assert not ring.ring(0xFFFF)


def test_waiting_slots_are_those_posted_and_not_taken():
    ring = WorkRing(4)
    ring.ring(3)
    ring.take()
    assert [ring.is_waiting(slot) for slot in range(4)] == [False, True, True, False]
    ring.complete()
    assert ring.ring(5)
    assert [ring.is_waiting(slot) for slot in range(4)] == [True, True, True, True]


@given(DEPTHS, st.integers(0, 5))
def test_entries_have_phase_one_on_every_other_pass(depth, passes):
    ring = EntryRing(min(depth, 64))
    for wrap in range(passes):
        for slot in range(ring.depth):
            assert ring.reserve() == (slot, 1 - wrap % 2)
