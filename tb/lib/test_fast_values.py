# SPDX-License-Identifier: Apache-2.0
"""Tests that the cheaper reads and writes of signals have the values and errors of cocotb."""

from types import SimpleNamespace

import pytest
from cocotb import handle
from cocotb.triggers import ReadOnly
from cocotb.types import Logic, LogicArray

from tb.lib import fast_values

LETTERS = "01XZUWLH-"
ACTION = handle._GPISetAction.DEPOSIT

fast_values.install()


def signal(kind, text):
    """Returns a handle of a signal with this value, and the list of what is written to it."""
    written = []
    found = object.__new__(kind)
    found._path = found._name = "signal"
    found._sub_handles = {}
    found._handle = SimpleNamespace(
        get_signal_val_binstr=lambda: text, get_num_elems=lambda: len(text), get_signed=lambda: 0,
        set_signal_val_binstr=lambda action, value: written.append(value),
        set_signal_val_int=lambda action, value: written.append(value),
        get_range=lambda: (len(text) - 1, 0, -1), get_indexable=lambda: True)  # fmt: skip
    return found, written


@pytest.fixture(autouse=True)
def _write_at_once(monkeypatch):
    # As with Verilator. For Icarus, cocotb keeps writes for the next phase of a simulation.
    monkeypatch.setattr(handle, "_schedule_write", lambda _, write, action, value: write(
        action.value, value))  # fmt: skip


@pytest.mark.parametrize("text", LETTERS)
def test_a_bit_equals_what_makes_the_same_bit(text):
    bit, _ = signal(handle.LogicObject, text)
    assert bit.value is Logic(text) and bit.get() is Logic(text)
    for other in [*LETTERS, *LETTERS.lower()]:
        assert (bit.value == other) == (str(Logic(other)) == text)
        assert (bit.value == Logic(other)) == (str(Logic(other)) == text)
    for number in (0, 1, False, True):
        assert (bit.value == number) == (text == str(int(number)))
        assert (bit.value != number) == (text != str(int(number)))
    assert bit.value != 2 and bit.value != "?" and bit.value != None  # noqa: E711
    assert bit.value.is_resolvable == (text in "01LH")


def test_a_bit_takes_the_values_of_cocotb():
    bit, written = signal(handle.LogicObject, "0")
    for value in (0, 1, False, True, "x", Logic("Z"), LogicArray("1")):
        bit._set_value(value, ACTION)
    assert written == ["0", "1", "0", "1", "X", "Z", "1"]
    for wrong, error in ((2, ValueError), (-1, ValueError), (None, TypeError), (1.0, TypeError)):
        with pytest.raises(error):
            bit._set_value(wrong, ACTION)


def test_a_bit_is_assigned_where_cocotb_assigns_it(monkeypatch):
    bit, written = signal(handle.LogicObject, "0")
    bit._handle.get_const = lambda: False
    for value in (0, 1, True, "x", Logic("Z")):
        fast_values._assign_bit(bit, value)
    assert written == ["0", "1", "1", "X", "Z"]
    for wrong, error in ((2, ValueError), (None, TypeError)):
        with pytest.raises(error):
            fast_values._assign_bit(bit, wrong)
    constant, _ = signal(handle.LogicObject, "0")
    constant._handle.get_const = lambda: True
    with pytest.raises(TypeError, match="immutable"):
        fast_values._assign_bit(constant, 1)
    monkeypatch.setattr(fast_values._gpi, "_current_gpi_trigger", ReadOnly())
    with pytest.raises(RuntimeError, match="ReadOnly phase"):
        fast_values._assign_bit(bit, 1)


@pytest.mark.parametrize("text", ["0110", "1" * 40, "01X0", "ZZZZ", "01LH", "UUUU", "01-1"])
def test_bits_have_the_values_of_cocotb(text):
    port, _ = signal(handle.LogicArrayObject, text)
    bits = port.value
    assert (str(bits), len(bits)) == (text, len(text))
    assert bits.is_resolvable == all(bit in "01LH" for bit in text)
    assert bits == LogicArray(text) and bits == text and bits != text[::-1] + "1"
    assert [str(bit) for bit in bits] == list(text)
    if bits.is_resolvable:
        number = int(text.replace("L", "0").replace("H", "1"), 2)
        assert (int(bits), bits.to_unsigned()) == (number, number)
        assert bits == number and bits != number + 1
    else:
        assert bits != 0
        with pytest.raises(ValueError, match="non-0/1 values"):
            int(bits)


@pytest.mark.parametrize("width", [4, 32, 33, 80])
def test_bits_take_the_values_of_cocotb(width):
    port, written = signal(handle.LogicArrayObject, "0" * width)
    numbers = [0, 1, (1 << width) - 1]
    for value in numbers:
        port._set_value(value, ACTION)
    assert written == [value if width <= 32 else f"{value:0{width}b}" for value in numbers]
    for wrong in (1 << width, "0" * (width + 1), "?" * width):
        with pytest.raises(ValueError, match="out of range|Cannot assign|invalid logic"):
            port._set_value(wrong, ACTION)
    written.clear()
    port._set_value("x" * width, ACTION)
    assert written == ["X" * width]


@pytest.mark.parametrize("width", [4, 32, 33, 80])
def test_bits_are_assigned_where_cocotb_assigns_them(monkeypatch, width):
    port, written = signal(handle.LogicArrayObject, "0" * width)
    port._handle.get_const = lambda: False
    numbers = [0, 1, (1 << width) - 1]
    for value in numbers:
        fast_values._assign_bits(port, value)
    assert written == [value if width <= 32 else f"{value:0{width}b}" for value in numbers]
    written.clear()
    for value in (-1, "x" * width, LogicArray("1" * width)):
        fast_values._assign_bits(port, value)
    assert written == [-1 if width <= 32 else "1" * width, "X" * width, "1" * width]
    for wrong, error in ((1 << width, ValueError), (None, TypeError)):
        with pytest.raises(error):
            fast_values._assign_bits(port, wrong)
    constant, changed = signal(handle.LogicArrayObject, "0" * width)
    constant._handle.get_const = lambda: True
    with pytest.raises(TypeError, match="immutable"):
        fast_values._assign_bits(constant, 1)
    monkeypatch.setattr(fast_values._gpi, "_current_gpi_trigger", ReadOnly())
    with pytest.raises(RuntimeError, match="ReadOnly phase"):
        fast_values._assign_bits(port, 1)
    assert not changed


def test_a_child_is_found_once():
    found = []
    parent = object.__new__(handle.HierarchyObject)
    child, _ = signal(handle.LogicObject, "1")
    parent._sub_handles, parent._path = {}, "top"
    parent._handle = SimpleNamespace(
        get_handle_by_name=lambda name, *_: found.append(name))  # fmt: skip
    with pytest.raises(AttributeError, match="contains no child object named other"):
        parent.other  # noqa: B018
    parent._sub_handles["child"] = child
    assert parent.child is child and parent.child is child
    assert found == ["other"]
    with pytest.raises(AttributeError, match=r"Did you forget to add `\.value`"):
        parent.child = 1
