# SPDX-License-Identifier: Apache-2.0
"""Tests host memory: sparse pages, page crossings, failing ranges, hooks and foreign buffers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from efa_cosim.boundary.memory import PAGE_BYTES, BufferMemory, HostReadError, Memory

PLACES = st.integers(0, 3 * PAGE_BYTES)
WRITES = st.lists(st.tuples(PLACES, st.binary(min_size=1, max_size=2 * PAGE_BYTES)), max_size=8)


def test_unwritten_memory_reads_as_zero_and_makes_no_page():
    memory = Memory()
    assert memory.read(0xDEAD_BEEF_0000, 10000) == bytes(10000)
    assert memory.pages() == []


@given(WRITES, PLACES, st.integers(0, 2 * PAGE_BYTES))
def test_bytes_are_those_of_a_flat_array(writes, address, size):
    memory, flat, base = Memory(), bytearray(6 * PAGE_BYTES), 0x7FFF_FFFF_F000
    for place, data in writes:
        memory.write(base + place, data)
        flat[place : place + len(data)] = data
    assert memory.read(base + address, size) == bytes(flat[address : address + size])


def test_addresses_wrap_at_64_bits():
    memory = Memory()
    memory.write((1 << 64) - 2, b"abcd")
    assert memory.read(0, 2) == b"cd"
    assert memory.read((1 << 64) - 2, 4) == b"abcd"


@pytest.mark.parametrize(
    ("address", "size", "fails"),
    [(0x0FF0, 16, False), (0x0FF0, 17, True), (0x1000, 1, True), (0x10FF, 1, True),
     (0x1100, 1, False), (0x0F00, 0x1000, True)],
)  # fmt: skip
def test_a_read_fails_exactly_when_it_touches_a_failing_range(address, size, fails):
    memory = Memory()
    memory.fail(0x1000, 0x100)
    if fails:
        with pytest.raises(HostReadError):
            memory.read(address, size)
        assert memory.peek(address, size) == bytes(size)
    memory.heal()
    assert memory.read(address, size) == bytes(size)


def test_the_write_hook_sees_every_write_and_no_poke():
    memory, heard = Memory(), []
    memory.on_write = lambda address, data: heard.append((address, data))
    memory.write(5, b"abc")
    memory.poke(9, b"d")
    assert heard == [(5, b"abc")]
    assert memory.read(5, 5) == b"abc\0d"


@pytest.mark.parametrize("kind", [bytearray, lambda n: np.zeros(n, dtype=np.uint8)])
def test_a_foreign_buffer_is_read_and_written_in_place(kind):
    buffer = kind(PAGE_BYTES)
    memory = BufferMemory(buffer, base=0x10000)
    memory.write(0x10010, b"xyz")
    assert bytes(buffer[16:19]) == b"xyz"
    buffer[0] = 7
    assert memory.read(0x10000, 1) == b"\7"


@pytest.mark.parametrize("address", [0xFFFF, 0x10FFF])
def test_a_foreign_buffer_has_an_end(address):
    memory = BufferMemory(bytearray(PAGE_BYTES), base=0x10000)
    with pytest.raises(IndexError):
        memory.read(address, 2)
    with pytest.raises(IndexError):
        memory.write(address, b"ab")
