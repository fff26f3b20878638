# SPDX-License-Identifier: Apache-2.0
"""Makes reads and writes of signals cheaper, with the values and errors of cocotb.

Unit benches spend most of their time in cocotb's Python code for the value of a signal: comparing a
one-bit signal with 1 makes two Logic objects. The functions below replace methods of cocotb with
equal ones that handle the usual case first and leave every other case to the original.

    install()    # once per process; tb/lib/stream.py does it
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from cocotb import _gpi_triggers as _gpi
from cocotb import handle
from cocotb.triggers import ReadOnly
from cocotb.types import Logic, LogicArray, Range

# Classes whose methods are replaced: for mypy, assignments to methods are errors.
_Logic: Any = Logic
_Array: Any = LogicArray
_handle: Any = handle

_BITS = {0: "0", 1: "1"}  # keys also match False and True
_REPR: dict[object, int] = {text: Logic(text)._repr for text in "UuXxZzWwLlHh-"}
_REPR |= {number: Logic(number)._repr for number in _BITS}
_REPR |= {text: Logic(text)._repr for text in _BITS.values()}
_number = _REPR.get
_LOGIC = {text: Logic(text) for text in "01XZUWLH-"}

_DEPOSIT = _handle._GPISetAction.DEPOSIT.value

_find = _handle.HierarchyObject.__getattr__
_set_bit = _handle.LogicObject._set_value
_set_bits = _handle._LogicArrayObjectBase._set_value
_get_int = _Array._get_int
_same = _Array.__eq__
_is_resolvable = _Array.is_resolvable.fget
_write = _handle.ValueObjectBase.value.fset


def _equal(self: Logic, other: object) -> bool:
    """Compares without a Logic object of the other value."""
    if type(other) is int:
        return _number(other) == self._repr
    if isinstance(other, Logic):
        return self._repr == other._repr
    if isinstance(other, int | str):
        return _REPR.get(other) == self._repr
    return NotImplemented


def _differ(self: Logic, other: object) -> bool:
    """Is the negation of _equal, without a call of it for the usual case."""
    if type(other) is int:
        return _number(other) != self._repr
    same = _equal(self, other)
    return same if same is NotImplemented else not same


def _read_bit(self: Any) -> Logic:
    bits = self._handle.get_signal_val_binstr()
    try:
        return _LOGIC[bits]
    except KeyError:
        return Logic(bits)


def _read_bits(self: Any) -> LogicArray:
    return _from_handle(LogicArray, self._handle.get_signal_val_binstr(), False)


def reader(port: Any) -> Callable[[], str]:
    """Returns the function that returns the bits of a port, or of a part of it, as text."""
    text = getattr(type(port), "text", None)
    if text is not None:
        return text.__get__(port)
    own = getattr(port, "_handle", None)
    return own.get_signal_val_binstr if own is not None else lambda: str(port.value)


def bits_of(text: str) -> Logic | LogicArray:
    """Returns the value of well-formed text: a Logic for one bit."""
    return _LOGIC[text] if len(text) == 1 else _from_handle(LogicArray, text, False)


def _write_now(_: Any, write: Callable[[int, Any], None], action: Any, value: Any) -> None:
    """Spares the property of the enum."""
    write(action._value_, value)


def _write_bit(self: Any, value: Any, action: Any) -> None:
    if type(value) in (int, bool) and value in _BITS:
        handle._schedule_write(self, self._handle.set_signal_val_binstr, action, _BITS[value])
    else:
        _set_bit(self, value, action)


def _assign_bit(self: Any, value: Any) -> None:
    """Writes 0 or 1 at once; cocotb has a call for each of phase, constant, type and action."""
    if type(value) is int and value in _BITS and type(_gpi._current_gpi_trigger) is not ReadOnly:
        write = self.__dict__.get("_efa_write")
        if write is None and not self.is_const:
            write = self._efa_write = self._handle.set_signal_val_binstr
        if write is not None:
            write(_DEPOSIT, _BITS[value])
            return
    _write(self, value)


def _write_bits(self: Any, value: Any, action: Any) -> None:
    """Counts the elements of a port once: their number does not change."""
    if type(value) is int and 0 <= value <= self._max_val:
        width = self.__dict__.get("_efa_width") or self.__dict__.setdefault("_efa_width", len(self))
        if width > 32:
            text = f"{value:0{width}b}"
            handle._schedule_write(self, self._handle.set_signal_val_binstr, action, text)
            return
    _set_bits(self, value, action)


def _assign_bits(self: Any, value: Any) -> None:
    """Writes a number at once, as _assign_bit does; cocotb has five calls for it."""
    if type(value) is int and value >= 0 and type(_gpi._current_gpi_trigger) is not ReadOnly:
        most, write, form = self.__dict__.get("_efa_write") or _writer(self)
        if value <= most:
            write(_DEPOSIT, value if form is None else format(value, form))
            return
    _write(self, value)


def _writer(self: Any) -> tuple[int, Callable[[int, Any], None], str | None]:
    """Returns the greatest number that a port takes, -1 for a constant, the function that writes,
    and the format of the text if it writes text."""
    width, most = len(self), -1 if self.is_const else self._max_val
    if width <= 32:
        self._efa_write = most, self._handle.set_signal_val_int, None
    else:
        self._efa_write = most, self._handle.set_signal_val_binstr, f"0{width}b"
    return self._efa_write


def _child(self: Any, name: str) -> Any:
    """Finds a child once; later reads find it without a call."""
    found = _find(self, name)
    if not name.startswith("_"):
        self.__dict__[name] = found
    return found


@cache
def _range(width: int) -> Range:
    return Range(width - 1, "downto", 0)


def _from_handle(cls: type[LogicArray], value: str, warn_indexing: bool) -> LogicArray:
    """Shares the ranges, which are immutable."""
    self = cls.__new__(cls)
    self._value_as_array = None
    self._value_as_int = None
    self._value_as_str = value
    self._range = _range(len(value))
    self._warn_indexing = warn_indexing
    return self


def _to_int(self: LogicArray) -> int:
    text = self._value_as_str
    if self._value_as_int is None and text and not text.strip("01"):
        self._value_as_int = int(text, 2)
    return _get_int(self)


def _as_int(self: LogicArray) -> int:
    """Spares three calls for bits that are all known."""
    text = self._value_as_str
    return int(text, 2) if text and not text.strip("01") else self.to_unsigned()


def _equal_array(self: LogicArray, other: object) -> bool:
    if type(other) is int and other >= 0:
        text = self._value_as_str
        if text and not text.strip("01"):
            return int(text, 2) == other
    return _same(self, other)


def _resolvable(self: LogicArray) -> bool:
    text = self._value_as_str
    return not text.strip("01LH") if text is not None else _is_resolvable(self)


def install() -> None:
    """Replaces the methods of cocotb."""
    _Logic.__eq__, _Logic.__ne__ = _equal, _differ
    _handle.LogicObject.get = _read_bit
    # cocotb can warn of indices whose meaning has changed; it does if a variable asks for it.
    read_bits = _handle._LogicArrayObjectBase.get if _handle.do_indexing_changed_warning else (
        _read_bits)  # fmt: skip
    _handle._LogicArrayObjectBase.get = read_bits
    _handle.LogicObject.value = property(_read_bit, _write)
    _handle._LogicArrayObjectBase.value = property(read_bits, _write)
    _handle.LogicObject._set_value = _write_bit
    _handle._LogicArrayObjectBase._set_value = _write_bits
    _handle.HierarchyObject.__getattr__ = _child
    if _handle._trust_inertial:
        _handle._schedule_write = _write_now
        _handle.LogicObject.value = property(_read_bit, _assign_bit)
        _handle._LogicArrayObjectBase.value = property(read_bits, _assign_bits)
    _Array._from_handle = classmethod(_from_handle)
    _Array._get_int = _to_int
    _Array.__eq__ = _equal_array
    _Array.__int__ = _Array.__index__ = _as_int
    _Array.is_resolvable = property(_resolvable)
