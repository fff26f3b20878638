# SPDX-License-Identifier: Apache-2.0
"""Encodes host accesses and wait conditions for the native bench.

The layouts are those of tb/native/common.h and bench.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

REQUEST = np.dtype(
    [("kind", "<u4"), ("bar", "<u4"), ("addr", "<u8"), ("be", "<u8"), ("a", "<u8"), ("b", "<u8"),
     ("id", "<u8"), ("data", "u1", 64)]
)  # fmt: skip
_REQUEST = struct.Struct("<IIQQQQQ64s")
CONDITION = np.dtype([("kind", "<u4"), ("device", "<u4"), ("a", "<u8"), ("b", "<u8"), ("c", "<u8")])
EVENT = np.dtype([("cycle", "<u8"), ("data", "<u8"), ("kind", "<u4"), ("device", "<u4")])
WRITE = np.dtype(
    [("cycle", "<u8"), ("addr", "<u8"), ("data_at", "<u8"), ("len", "<u4"), ("device", "<u4")]
)
INTERRUPT = np.dtype([("cycle", "<u8"), ("addr", "<u8"), ("data", "<u4"), ("device", "<u4")])
PACKET = np.dtype(
    [("cycle", "<u8"), ("data_at", "<u8"), ("len", "<u4"), ("device", "<u4"), ("fate", "<u4"),
     ("dst_node", "<u4")]
)  # fmt: skip
LOAD = np.dtype(
    [("cycle", "<u8"), ("id", "<u8"), ("device", "<u4"), ("bytes", "<u4"), ("data", "u1", 64)]
)
# Handshakes at the pins; tb/native/common.h defines a and b.
PIN = np.dtype(
    [("cycle", "<u8"), ("a", "<u8"), ("b", "<u8"), ("port", "<u4"), ("device", "<u4")]
)

# Inputs that the device has accepted; tb/native/common.h defines addr and be of each kind.
INPUT = np.dtype(
    [("cycle", "<u8"), ("addr", "<u8"), ("be", "<u8"), ("kind", "<u4"), ("bar", "<u4"),
     ("device", "<u4"), ("unused", "<u4"), ("data", "u1", 64)]
)  # fmt: skip
IN_STORE, IN_PIN, IN_ASYNC = range(3)
FATE_LOST = 2
PIN_NAMES = ("bme", "msix_enable", "msix_fmask", "flr")

EVENTS, WRITES, INTERRUPTS, PACKETS, LOADS, BYTES, PINS, INPUTS, ARRIVALS = range(9)
PIN_MMIO, PIN_READ, PIN_RESPONSE, PIN_WRITE, PIN_OUT, PIN_IN = range(6)
FAULT_ERROR, FAULT_DROP, FAULT_LATE = 1, 2, 3
LINE = 64
# More than a device needs to accept what waits at its pins, unless it must wait.
PIN_CYCLES = 256
# Kind of a condition, its device and three values; cycle_is() and the functions after it make them.
Condition: TypeAlias = tuple[int, int, int, int, int]
U64 = (1 << 64) - 1


# Host accesses for `post`


def _request(
    kind: int,
    bar: int = 0,
    addr: int = 0,
    be: int = 0,
    a: int = 0,
    b: int = 0,
    ident: int = 0,
    data: bytes = b"",
) -> bytes:
    return _REQUEST.pack(kind, bar, addr, be, a, b, ident, data)


def store(bar: int, offset: int, data: bytes) -> bytes:
    """Returns a posted store of 1 to 64 bytes inside one line."""
    at = offset % LINE
    if not data or at + len(data) > LINE:
        raise ValueError(f"store of {len(data)} bytes at {offset:#x} leaves its line")
    be = ((1 << len(data)) - 1) << at
    return _request(0, bar, offset - at, be, data=bytes(at) + bytes(data))


def load(bar: int, offset: int, size: int, ident: int) -> bytes:
    """Returns a read of a BAR; loads() holds its response under `ident`, by byte lane."""
    at = offset % LINE
    if size < 1 or at + size > LINE:
        raise ValueError(f"load of {size} bytes at {offset:#x} leaves its line")
    return _request(1, bar, offset - at, ((1 << size) - 1) << at, ident=ident)


def delay(cycles: int) -> bytes:
    return _request(2, a=cycles)


def until_cycle(cycle: int) -> bytes:
    return _request(3, a=cycle)


def wait_memory(addr: int, mask: int, value: int) -> bytes:
    """Returns a wait until the 8 bytes at `addr`, masked, equal `value`: polling in native code."""
    return _request(4, addr=addr, a=mask, b=value)


def host_write(addr: int, data: bytes) -> bytes:
    """Returns a CPU write of at most 64 bytes to host memory, in order with its stores."""
    return _request(5, addr=addr, a=len(data), data=bytes(data))


def pin(name: str, value: int) -> bytes:
    """Sets bme, msix_enable or msix_fmask to `value`; holds flr for `value` cycles."""
    return _request(6, a=PIN_NAMES.index(name), b=value)


def wait_loads() -> bytes:
    return _request(7)


def wait_interrupts(count: int) -> bytes:
    return _request(8, a=count)


def timestamp(ident: int) -> bytes:
    """Returns a timestamp access: loads() records the cycle in which the host reaches it."""
    return _request(9, ident=ident)


# Conditions for `run`


def cycle_is(cycle: int) -> Condition:
    return (0, 0, cycle, 0, 0)


def memory_is(addr: int, mask: int, value: int, device: int = 0) -> Condition:
    return (1, device, addr, mask, value)


def events_are(kind: int, count: int, device: int = 0) -> Condition:
    return (2, device, kind, count, 0)


def interrupts_are(count: int, device: int = 0) -> Condition:
    return (3, device, count, 0, 0)


def drained(device: int = 0) -> Condition:
    return (4, device, 0, 0, 0)


def idle(cycles: int = 32) -> Condition:
    return (5, 0, cycles, 0, 0)


def loads_are(count: int, device: int = 0) -> Condition:
    return (6, device, count, 0, 0)


def packets_are(count: int, device: int = 0) -> Condition:
    return (7, device, count, 0, 0)


def writes_are(count: int, not_before: int = 0) -> Condition:
    return (8, 0, count, not_before, 0)


def flr_done(value: int = 1, device: int = 0) -> Condition:
    return (9, device, value, 0, 0)


def batch(requests: Iterable[bytes] | np.ndarray) -> np.ndarray:
    """Returns host accesses in the format of the native bench."""
    if isinstance(requests, np.ndarray):
        return requests
    return np.frombuffer(b"".join(requests), REQUEST)
