# SPDX-License-Identifier: Apache-2.0
"""Gives Python access to the native bench: memory, accesses, logs and the wake-up signal.

    bench = Native(dut); bench.start(seed=7)
    bench.memory(0).write(0x1000, b"...")
    bench.post(0, [store(4, 0x40, data), wait_memory(addr, mask, value), ...])
    await bench.run(until=[idle(50)], cycles=20000)
    for event in bench.events(): ...
"""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from cocotb.triggers import ValueChange

from efa_cosim.layouts.defs import Perf, PerfStream
from tb.lib.requests import *  # noqa: F403 - benches build accesses and conditions with these
from tb.lib.requests import (
    ARRIVALS,
    BYTES,
    CONDITION,
    EVENT,
    EVENTS,
    FAULT_ERROR,
    INPUT,
    INPUTS,
    INTERRUPT,
    INTERRUPTS,
    LOAD,
    LOADS,
    PACKET,
    PACKETS,
    PIN,
    PINS,
    U64,
    WRITE,
    WRITES,
    Condition,
    batch,
)

# Values of max payload size and max read request size; the strap is the index.
PCIE_SIZES = (128, 256, 512, 1024, 2048, 4096)
# Selects records of a log by a mask.
Wanted: TypeAlias = Callable[[np.ndarray], np.ndarray]

# A read takes three cycles: index driven, response valid, response sampled. Counts in flight when
# counting stops take four.
COUNTER_READ_CYCLES = 6


class BoundaryBroken(AssertionError):
    """The device violated a rule of docs/boundary.md, or the bench was used wrongly."""


def drawn_sizes(seed: int, test: str) -> tuple[int, int]:
    """Draws max payload size and max read request size in bytes, independently, for one test."""
    draw = random.Random(f"{seed} {test}")
    return draw.choice(PCIE_SIZES), draw.choice(PCIE_SIZES)


def _library() -> ctypes.CDLL:
    """Returns the library that the running simulator has loaded, never a second copy."""
    library = ctypes.CDLL(os.environ.get("EFA_NATIVE"))
    u64, u32, i32, ptr = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int, ctypes.c_void_p
    for name, result, arguments in (
        ("start", None, [i32, u64]),
        ("cycle", u64, []),
        ("logged_until", u64, []),
        ("digest", u64, []),
        ("waiting", i32, []),
        ("woken", i32, []),
        ("error_count", u64, []),
        ("errors", ctypes.c_char_p, []),
        ("clear_errors", None, []),
        ("knob", i32, [i32, ctypes.c_char_p, u64]),
        ("iommu_on", None, [i32]),
        ("iommu_map", None, [i32, u64, ctypes.c_char_p, u64, u64, u32, u32]),
        ("iommu_release_at", None, [i32, u32, ptr, u64]),
        ("iommu_responses", None, [i32, u64, u64]),
        ("iommu_reset", None, [i32]),
        ("post", None, [i32, ptr, u64]),
        ("wait", None, [ptr, u64, u64]),
        ("request_event", None, [i32, u32, u32, ctypes.c_char_p]),
        ("events_waiting", u64, [i32]),
        ("inject", None, [i32, ctypes.c_char_p, u64, u64]),
        ("memory_arena", ptr, [i32]),
        ("memory_fd", i32, [i32]),
        ("memory_map", ctypes.c_int64, [i32, u64, u64]),
        ("memory_read", None, [i32, u64, ptr, u64]),
        ("memory_write", None, [i32, u64, ptr, u64]),
        ("memory_fault", None, [i32, u64, u64, u32]),
        ("memory_heal", None, [i32]),
        ("log", u64, [u32, ctypes.POINTER(ptr)]),
        ("log_clear", None, [u32]),
        ("log_total", u64, [u32]),
        ("events_seen", u64, [i32, u32]),
        ("counters", None, [i32, ptr]),
        ("counter_shown", u64, [i32]),
        ("counter_own", u64, [i32, u32]),
    ):
        function = getattr(library, "efa_" + name)
        function.restype, function.argtypes = result, arguments
    return library


class NativeMemory:
    """Host memory of one device: sparse, 64-bit; views are not copies."""

    def __init__(self, library: ctypes.CDLL, device: int) -> None:
        self._library = library
        self._device = device
        self._arena = library.efa_memory_arena(device)

    def read(self, address: int, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        self._library.efa_memory_read(self._device, address, buffer, size)
        return buffer.raw

    def write(self, address: int, data: bytes) -> None:
        data = bytes(data)
        self._library.efa_memory_write(self._device, address, data, len(data))

    def view(self, address: int, size: int) -> np.ndarray:
        """Returns the memory itself. The first use of a range fixes its place: view all of it."""
        offset = self._library.efa_memory_map(self._device, address, size)
        if offset < 0:
            raise ValueError(f"{size} bytes at {address:#x} are not contiguous in the arena")
        array = (ctypes.c_uint8 * size).from_address(self._arena + offset)
        # numpy takes any buffer; its types do not list arrays of ctypes.
        return np.frombuffer(array, np.uint8)  # type: ignore[call-overload]

    def fail(self, address: int, size: int, fault: int = FAULT_ERROR) -> None:
        """Makes DMA reads of the range fail, get no completion, or complete late."""
        self._library.efa_memory_fault(self._device, address, size, fault)

    def heal(self) -> None:
        self._library.efa_memory_heal(self._device)


class NativeIommu:
    """The IOMMU of one host; without enable() every access is permitted."""

    READ, WRITE = 1, 2

    def __init__(self, library: ctypes.CDLL, device: int) -> None:
        self._library, self._device = library, device

    def enable(self) -> None:
        self._library.efa_iommu_on(self._device)

    def map(
        self,
        ident: int,
        name: str,
        ranges: Iterable[tuple[int, int]],
        rights: int,
        forever: bool = False,
    ) -> None:
        """Permits the device to access these ranges (address, size) for an object from now on."""
        for address, size in ranges:
            self._library.efa_iommu_map(
                self._device, ident, name.encode(), address, size, rights, forever
            )

    def release_at(self, command: int, idents: Sequence[int]) -> None:
        """Releases these objects at the next admin response to a command id."""
        array = (ctypes.c_uint64 * len(idents))(*idents)
        self._library.efa_iommu_release_at(self._device, command, array, len(idents))

    def responses(self, base: int, size: int) -> None:
        """Sets the ring of admin responses."""
        self._library.efa_iommu_responses(self._device, base, size)

    def reset(self) -> None:
        """Records a reset: the present mappings end when the device has drained."""
        self._library.efa_iommu_reset(self._device)


class Wait:
    """A call of `Native.run`: its conditions, its last cycle, and the condition that ended it."""

    def __init__(self, until: list[Condition], deadline: int) -> None:
        self.woken: int | None
        self.until, self.deadline, self.woken = until, deadline, None


class Native:
    """All transactors of one simulation."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.library = _library()
        self.devices = 1
        self._memories: dict[int, NativeMemory] = {}
        # Functions to call when the bench wakes Python: the logs have new records.
        self.watchers: list[Callable[[], object]] = []
        self._waits: list[Wait] = []

    def start(self, seed: int, devices: int = 1, **knobs: int) -> None:
        """Does a power-on reset with fresh memory and transactors; then the clock runs."""
        self.devices = devices
        self.library.efa_start(devices, seed)
        for device in range(devices):
            self.knobs(device, **knobs)

    def knobs(self, device: int, **values: int) -> None:
        """Sets timing and faults by name; EFA_KNOBS in tb/native/common.h lists the names."""
        for name, value in values.items():
            if self.library.efa_knob(device, name.encode(), int(value)) != 0:
                raise ValueError(f"no knob {name}")

    def memory(self, device: int = 0) -> NativeMemory:
        if device not in self._memories:
            self._memories[device] = NativeMemory(self.library, device)
        return self._memories[device]

    def iommu(self, device: int = 0) -> NativeIommu:
        return NativeIommu(self.library, device)

    @property
    def cycle(self) -> int:
        return self.library.efa_cycle()

    @property
    def activity(self) -> int:
        """DMA writes and interrupts that became visible so far."""
        return self.total(WRITES) + self.total(INTERRUPTS)

    @property
    def logged_until(self) -> int:
        """Cycle before which all transfers are in the logs and in host memory."""
        return self.library.efa_logged_until()

    @property
    def digest(self) -> int:
        return self.library.efa_digest()

    def post(self, device: int, requests: Iterable[bytes] | np.ndarray) -> None:
        """Posts host accesses in order: a list of requests, or an array of REQUEST."""
        items = batch(requests)
        self.library.efa_post(device, items.ctypes.data, len(items))

    def request_event(self, device: int, group: int, syndrome: int = 0, data: bytes = b"") -> None:
        """Requests an asynchronous event (s_aenq) of up to 48 bytes, after all earlier ones."""
        self.library.efa_request_event(device, group, syndrome, bytes(data).ljust(48, b"\0"))

    def events_waiting(self, device: int = 0) -> int:
        """Returns the number of asynchronous events that the device has not accepted."""
        return self.library.efa_events_waiting(device)

    def inject(self, device: int, packet: bytes, delay: int = 1) -> None:
        """Injects a packet from the fabric to a device; the packet may be malformed."""
        self.library.efa_inject(device, bytes(packet), len(packet), delay)

    async def run(self, until: Iterable[Condition] = (), cycles: int = 1_000_000) -> int:
        """Runs the clock until a condition holds; returns its index, or -1 after `cycles`."""
        wait = Wait(list(until), self.cycle + cycles)
        self._waits.append(wait)
        self._arm()
        while wait.woken is None:
            await ValueChange(self.dut.wake)
            self._wake()
        self.check()
        for watcher in self.watchers:
            watcher()
        return wait.woken

    def _arm(self) -> None:
        """Waits for the conditions of all callers of `run` at once."""
        conditions = np.array([one for wait in self._waits for one in wait.until], CONDITION)
        deadline = min(wait.deadline for wait in self._waits)
        self.library.efa_wait(conditions.ctypes.data, len(conditions), deadline)

    def _wake(self) -> None:
        """Ends the waits that a wake concerns; the first of several callers does the work."""
        if self.library.efa_waiting():
            return
        number, failed = self.library.efa_woken(), self.library.efa_error_count()
        for wait in self._waits:
            if 0 <= number < len(wait.until):
                wait.woken = number
            elif failed or self.cycle >= wait.deadline:
                wait.woken = -1
            number -= len(wait.until)
        self._waits = [wait for wait in self._waits if wait.woken is None]
        if self._waits:
            self._arm()

    def check(self) -> None:
        if self.library.efa_error_count():
            text = self.library.efa_errors().decode()
            count = self.library.efa_error_count()
            self.library.efa_clear_errors()
            raise BoundaryBroken(f"{count} broken rules\n{text}")

    def _log(self, which: int, dtype: np.dtype) -> np.ndarray:
        at = ctypes.c_void_p()
        count = self.library.efa_log(which, ctypes.byref(at))
        if count == 0:
            return np.empty(0, dtype)
        buffer = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(at.value)
        return np.frombuffer(buffer, dtype)

    def _take(self, which: int, dtype: np.dtype) -> np.ndarray:
        records = self._log(which, dtype).copy()
        self.library.efa_log_clear(which)
        return records

    def _take_with_bytes(
        self, which: int, dtype: np.dtype, wanted: Wanted | None = None
    ) -> tuple[np.ndarray, list[bytes]]:
        """Returns records and their bytes, empty if not logged or not wanted."""
        store = ctypes.c_void_p()
        self.library.efa_log(BYTES, ctypes.byref(store))
        records = self._log(which, dtype).copy()
        pending = records["data_at"] != U64
        if wanted is not None:
            pending &= wanted(records)
        starts, sizes = records["data_at"], records["len"]
        end = int((starts + sizes)[pending].max(initial=0))
        # The call has stored an address; ctypes also allows None for a null pointer.
        held = ctypes.string_at(store.value, end) if end else b""  # type: ignore[arg-type]
        data = [
            held[at : at + size] if keep else b""
            for keep, at, size in zip(
                pending.tolist(), starts.tolist(), sizes.tolist(), strict=True
            )
        ]
        self.library.efa_log_clear(which)
        return records, data

    def events(self) -> np.ndarray:
        """Returns the ev_* events since the last call (dtype EVENT)."""
        return self._take(EVENTS, EVENT)

    def writes(self, wanted: Wanted | None = None) -> tuple[np.ndarray, list[bytes]]:
        """Returns DMA writes in order; `wanted` selects the records whose bytes are read."""
        return self._take_with_bytes(WRITES, WRITE, wanted)

    def write_runs(self, alone: Wanted) -> list[tuple[int, int, int, int, bool, int, bytes]]:
        """Returns DMA writes in order; writes to contiguous addresses are joined.

        `alone` marks the records that stay single. A run holds the cycles of its last and its first
        write, device, address, whether it is single, the number of writes and their bytes.
        """
        store = ctypes.c_void_p()
        self.library.efa_log(BYTES, ctypes.byref(store))
        records = self._log(WRITES, WRITE)
        if not len(records):
            return []
        single = alone(records)
        start, place = records["addr"], records["data_at"]
        size, device = records["len"].astype(np.uint64), records["device"]
        if (place == U64).any():
            raise BoundaryBroken("knob log_data is off, so that writes have no bytes")
        begins = np.ones(len(records) + 1, bool)
        begins[1:-1] = (
            single[1:] | single[:-1] | (device[1:] != device[:-1])
            | (start[1:] != (start + size)[:-1]) | (place[1:] != (place + size)[:-1])
        )  # fmt: skip
        bounds = np.flatnonzero(begins)
        first, last = bounds[:-1], bounds[1:] - 1
        end = (place + size)[last]
        # The call has stored an address; ctypes also allows None for a null pointer.
        held = (ctypes.c_uint8 * int(end.max())).from_address(store.value)  # type: ignore[arg-type]
        view = memoryview(held).cast("B")
        runs = [
            (cycle, begun, number, address, alone_, count, bytes(view[at:to]))
            for cycle, begun, number, address, alone_, count, at, to in zip(
                records["cycle"][last].tolist(), records["cycle"][first].tolist(),
                device[first].tolist(), start[first].tolist(), single[first].tolist(),
                (last - first + 1).tolist(), place[first].tolist(), end.tolist(), strict=True,
            )
        ]  # fmt: skip
        self.library.efa_log_clear(WRITES)
        return runs

    def interrupts(self) -> np.ndarray:
        return self._take(INTERRUPTS, INTERRUPT)

    def packets(self) -> tuple[np.ndarray, list[bytes]]:
        """Returns packets that left a device, their fates and their bytes."""
        return self._take_with_bytes(PACKETS, PACKET)

    def arrivals(self) -> tuple[np.ndarray, list[bytes]]:
        """Returns packets that a device has accepted (knob arrive_log), and their bytes."""
        return self._take_with_bytes(ARRIVALS, PACKET)

    def loads(self) -> np.ndarray:
        return self._take(LOADS, LOAD)

    def pins(self) -> np.ndarray:
        """Returns handshakes of the ports in knob pin_mask since the last call."""
        return self._take(PINS, PIN)

    def inputs(self) -> np.ndarray:
        """Returns the inputs that devices accepted since the last call (knob in_log)."""
        return self._take(INPUTS, INPUT)

    def total(self, which: int) -> int:
        return self.library.efa_log_total(which)

    def events_seen(self, kind: int, device: int = 0) -> int:
        return self.library.efa_events_seen(device, kind)

    def counters(self, device: int = 0) -> dict[str, int]:
        values = (ctypes.c_uint64 * 6)()
        self.library.efa_counters(device, values)
        names = ("reads", "read_bytes", "write_bytes", "packets", "interrupts", "loads")
        return dict(zip(names, values, strict=True))

    async def perf_counters(self, device: int = 0) -> tuple[list[int], list[int]]:
        """Returns the device's counters by index (defs.Perf) and the bench's counts at the pins.

        Counting stops; each counter takes a few cycles.
        """
        self.knobs(device, cnt_run=0)
        streams = len(PerfStream)
        shown, own = [], []
        for index in range(Perf.STREAM + 2 * streams):
            self.knobs(device, cnt_index=index)
            await self.run([], COUNTER_READ_CYCLES)
            shown.append(self.library.efa_counter_shown(device))
            own.append(self.library.efa_counter_own(device, index))
        return shown, own
