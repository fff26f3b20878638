# SPDX-License-Identifier: Apache-2.0
"""Tests the store buffer: under each policy, memory ends as stored and a flush leaves no stores."""

import random

import pytest

from efa_cosim.host.wc import DWORD_BYTES, LINE_BYTES, POLICIES, StoreBuffer, WcBuffer
from efa_cosim.layouts import defs

RING_BYTES = 2048


def stored(items):
    """Returns the memory after these stores."""
    memory = bytearray(RING_BYTES)
    for _, offset, data in items:
        memory[offset : offset + len(data)] = data
    return bytes(memory)


def random_bytes(size, seed=1):
    return random.Random(seed).randbytes(size)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("policy", POLICIES)
def test_all_bytes_leave_by_the_flush_in_valid_pieces(policy, seed):
    items = []
    buffer = WcBuffer(items.extend, policy, seed)
    data = random_bytes(1024, seed)
    buffer.copy(256, data)
    buffer.flush()
    assert stored(items)[256 : 256 + 1024] == data
    for bar, offset, piece in items:
        assert bar == defs.EFA_MEM_BAR
        assert 0 < len(piece) <= LINE_BYTES
        assert not offset % DWORD_BYTES
        assert not len(piece) % DWORD_BYTES
        assert offset // LINE_BYTES == (offset + len(piece) - 1) // LINE_BYTES
    left = len(items)
    buffer.flush()
    assert len(items) == left


@pytest.mark.parametrize("policy", POLICIES)
def test_a_later_store_to_the_same_place_wins(policy):
    items = []
    buffer = WcBuffer(items.extend, policy, seed=3)
    for wrap in range(20):
        buffer.copy(0, random_bytes(512, wrap))
        for at in range(64, 128, 8):
            buffer.store(at, random_bytes(8, wrap + at))
    buffer.flush()
    expected = bytearray(random_bytes(512, 19))
    for at in range(64, 128, 8):
        expected[at : at + 8] = random_bytes(8, 19 + at)
    assert stored(items)[:512] == bytes(expected)


def test_ideal_sends_whole_lines_in_order():
    items = []
    WcBuffer(items.extend).copy(0, random_bytes(256))
    assert [(offset, len(data)) for _, offset, data in items] == [
        (0, 64), (64, 64), (128, 64), (192, 64)]


def test_ideal_completes_a_line_that_was_begun():
    items = []
    buffer = WcBuffer(items.extend)
    buffer.store(0, b"begunbeg")
    assert not items
    buffer.copy(0, random_bytes(64))
    assert items == [(defs.EFA_MEM_BAR, 0, random_bytes(64))]


def test_a_partial_line_leaves_as_its_contiguous_pieces():
    items = []
    buffer = WcBuffer(items.extend)
    buffer.store(0, b"12345678")
    buffer.store(8, b"abcdefgh")
    buffer.store(32, b"ABCD")
    buffer.flush()
    assert items == [(2, 0, b"12345678abcdefgh"), (2, 32, b"ABCD")]


def offsets(policy, seed=7):
    """Returns offset and length of each burst of a 1 KB store."""
    items = []
    buffer = WcBuffer(items.extend, policy, seed)
    buffer.copy(0, random_bytes(1024))
    buffer.flush()
    return [(offset, len(data)) for _, offset, data in items]


def test_unkind_policies_do_tear_and_reorder():
    assert offsets("in_order") == [(at, 64) for at in range(0, 1024, 64)]
    assert all(size == LINE_BYTES for _, size in offsets("random"))
    assert offsets("random") != sorted(offsets("random"))
    for policy in ("pressure", "adversarial"):
        assert any(size < LINE_BYTES for _, size in offsets(policy))
    assert [o for o, _ in offsets("pressure")] == sorted(o for o, _ in offsets("pressure"))
    assert [o for o, _ in offsets("adversarial")] != sorted(o for o, _ in offsets("adversarial"))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("lines", [1, 3, 8])
def test_no_more_lines_wait_than_there_are(policy, lines):
    items = []
    buffer = WcBuffer(items.extend, StoreBuffer(policy, lines), seed=2)
    for at in range(0, 1024, 8):
        buffer.store(at, random_bytes(8, at))
        gone = {offset + byte for _, offset, data in items for byte in range(len(data))}
        waiting = {byte // LINE_BYTES for byte in range(at + 8) if byte not in gone}
        assert len(waiting) <= lines


def test_pieces_of_a_line_may_stay_behind_when_it_leaves_early():
    def left_twice(policy):
        for seed in range(20):
            items = []
            buffer = WcBuffer(items.extend, policy, seed)
            for at in range(0, 64, 8):
                before = len(items)
                buffer.store(at, random_bytes(8, at))
                gone = sum(len(data) for _, _, data in items)
                if len(items) > before and 0 < gone < at + 8:
                    return True
        return False

    assert left_twice("adversarial") and not left_twice("in_order")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("overtakes", [True, False])
def test_a_doorbell_passes_what_waits_or_does_not(policy, overtakes):
    items = []
    buffer = WcBuffer(items.extend, StoreBuffer(policy, 10, overtakes), seed=4)
    buffer.store(0, random_bytes(8))
    buffer.uncached(4, 64, b"bell")
    if overtakes and policy in ("ideal", "in_order", "random"):
        assert items == [(4, 64, b"bell")]
    if not overtakes:
        assert items[-1] == (4, 64, b"bell") and stored(items[:-1])[:8] == random_bytes(8)


def test_a_store_buffer_is_its_text():
    for seed in range(50):
        drawn = StoreBuffer.drawn(seed)
        assert StoreBuffer.of(str(drawn)) == drawn == StoreBuffer.drawn(seed)
        assert StoreBuffer.of(drawn) is drawn
    assert len({StoreBuffer.drawn(seed).policy for seed in range(50)}) == len(POLICIES)
    assert StoreBuffer.of("random") == StoreBuffer("random")


@pytest.mark.parametrize("text", ["random/4", "random/4/never", "random/0/drains",
                                  "random/x/drains", "random/65/drains", "kind/4/drains"])
def test_a_store_buffer_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"lines|store buffer|policy"):
        StoreBuffer.of(text)


def test_a_seed_repeats_and_another_differs():
    def run(seed):
        items = []
        buffer = WcBuffer(items.extend, "adversarial", seed)
        buffer.copy(0, random_bytes(1024))
        buffer.flush()
        return items

    assert run(1) == run(1)
    assert run(1) != run(2)


@pytest.mark.parametrize(("offset", "size"), [(4, 64), (0, 12)])
def test_a_copy_that_is_not_8_byte_stores_is_refused(offset, size):
    with pytest.raises(ValueError, match="8-byte"):
        WcBuffer(list).copy(offset, bytes(size))


@pytest.mark.parametrize(("offset", "size"), [(60, 8), (2, 4), (0, 6)])
def test_a_store_that_is_not_dwords_of_a_line_is_refused(offset, size):
    with pytest.raises(ValueError, match="dwords"):
        WcBuffer(list).store(offset, bytes(size))


def test_an_unknown_policy_names_the_known_ones():
    with pytest.raises(ValueError, match="adversarial"):
        WcBuffer(list, "kind")
