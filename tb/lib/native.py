"""The native bench seen from Python: memory, accesses, logs, and the one wake-up signal.

    bench = Native(dut); bench.start(seed=7)
    bench.memory(0).write(0x1000, b"...")
    bench.post(0, [store(4, 0x40, data), wait_memory(addr, mask, value), ...])
    await bench.run(until=[idle(50)], cycles=20000)
    for event in bench.events(): ...

Layouts are those of tb/native/common.h.
"""

import ctypes
import os

import numpy as np
from cocotb.triggers import ValueChange

REQUEST = np.dtype(
    [("kind", "<u4"), ("bar", "<u4"), ("addr", "<u8"), ("be", "<u8"), ("a", "<u8"), ("b", "<u8"),
     ("id", "<u8"), ("data", "u1", 64)]
)  # fmt: skip
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

EVENTS, WRITES, INTERRUPTS, PACKETS, LOADS, BYTES = range(6)
FAULT_ERROR, FAULT_DROP, FAULT_LATE = 1, 2, 3
LINE = 64
U64 = (1 << 64) - 1


class BoundaryBroken(AssertionError):
    """The device broke a rule of docs/boundary.md, or the bench was used wrongly."""


# ---- host accesses, as `post` takes them ----


def _request(kind, bar=0, addr=0, be=0, a=0, b=0, ident=0, data=b""):
    return (kind, bar, addr, be, a, b, ident, np.frombuffer(data.ljust(LINE, b"\0"), np.uint8))


def store(bar: int, offset: int, data: bytes):
    """A posted store of 1 to 64 bytes inside one line."""
    at = offset % LINE
    if not data or at + len(data) > LINE:
        raise ValueError(f"store of {len(data)} bytes at {offset:#x} leaves its line")
    be = ((1 << len(data)) - 1) << at
    return _request(0, bar, offset - at, be, data=bytes(at) + bytes(data))


def load(bar: int, offset: int, size: int, ident: int):
    """A read of a BAR; its answer is in loads() under `ident`, by byte lane of the line."""
    at = offset % LINE
    if size < 1 or at + size > LINE:
        raise ValueError(f"load of {size} bytes at {offset:#x} leaves its line")
    return _request(1, bar, offset - at, ((1 << size) - 1) << at, ident=ident)


def delay(cycles: int):
    return _request(2, a=cycles)


def until_cycle(cycle: int):
    return _request(3, a=cycle)


def wait_memory(addr: int, mask: int, value: int):
    """Go on when the 8 bytes at `addr`, masked, are `value`: host software polling, natively."""
    return _request(4, addr=addr, a=mask, b=value)


def host_write(addr: int, data: bytes):
    """The CPU writes its own memory, in order with its stores; at most 64 bytes."""
    return _request(5, addr=addr, a=len(data), data=bytes(data))


def pin(name: str, value: int):
    """bme, msix_enable or msix_fmask to `value`; flr held for `value` cycles."""
    return _request(6, a=("bme", "msix_enable", "msix_fmask", "flr").index(name), b=value)


def wait_loads():
    return _request(7)


def wait_interrupts(count: int):
    return _request(8, a=count)


def mark(ident: int):
    """A record in loads() of the cycle in which the host came by here."""
    return _request(9, ident=ident)


# ---- conditions, as `run` takes them ----


def cycle_is(cycle):
    return (0, 0, cycle, 0, 0)


def memory_is(addr, mask, value, device=0):
    return (1, device, addr, mask, value)


def events_are(kind, count, device=0):
    return (2, device, kind, count, 0)


def interrupts_are(count, device=0):
    return (3, device, count, 0, 0)


def drained(device=0):
    return (4, device, 0, 0, 0)


def idle(cycles=32):
    return (5, 0, cycles, 0, 0)


def loads_are(count, device=0):
    return (6, device, count, 0, 0)


def packets_are(count, device=0):
    return (7, device, count, 0, 0)


def writes_are(count):
    return (8, 0, count, 0, 0)


def flr_done(value=1, device=0):
    return (9, device, value, 0, 0)


def _library():
    """The library that the running simulator has loaded, never a second copy."""
    library = ctypes.CDLL(os.environ.get("EFA_NATIVE"))
    u64, u32, i32, ptr = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int, ctypes.c_void_p
    for name, result, arguments in (
        ("start", None, [i32, u64]),
        ("cycle", u64, []),
        ("digest", u64, []),
        ("waiting", i32, []),
        ("woken", i32, []),
        ("error_count", u64, []),
        ("errors", ctypes.c_char_p, []),
        ("clear_errors", None, []),
        ("knob", i32, [i32, ctypes.c_char_p, u64]),
        ("post", None, [i32, ptr, u64]),
        ("wait", None, [ptr, u64, u64]),
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
    ):
        function = getattr(library, "efa_" + name)
        function.restype, function.argtypes = result, arguments
    return library


class NativeMemory:
    """Host memory of one device: sparse, 64-bit; views are not copies."""

    def __init__(self, library, device):
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
        """The bytes themselves. First use of a range decides where it lies: view it whole."""
        offset = self._library.efa_memory_map(self._device, address, size)
        if offset < 0:
            raise ValueError(f"{size} bytes at {address:#x} were not laid out in one piece")
        array = (ctypes.c_uint8 * size).from_address(self._arena + offset)
        return np.frombuffer(array, np.uint8)

    def fail(self, address: int, size: int, fault: int = FAULT_ERROR) -> None:
        """DMA reads that touch the range fail, are never answered, or are answered late."""
        self._library.efa_memory_fault(self._device, address, size, fault)

    def heal(self) -> None:
        self._library.efa_memory_heal(self._device)


class Native:
    """All transactors of one simulation."""

    def __init__(self, dut):
        self.dut = dut
        self.library = _library()
        self.devices = 1
        self._memories = {}

    def start(self, seed: int, devices: int = 1, **knobs) -> None:
        """Power-on reset with fresh memory and transactors; then the clock runs."""
        self.devices = devices
        self.library.efa_start(devices, seed)
        for device in range(devices):
            self.knobs(device, **knobs)

    def knobs(self, device: int, **values) -> None:
        """Timing and faults by name: the list is EFA_KNOBS in tb/native/common.h."""
        for name, value in values.items():
            if self.library.efa_knob(device, name.encode(), int(value)) != 0:
                raise ValueError(f"no knob {name}")

    def memory(self, device: int = 0) -> NativeMemory:
        if device not in self._memories:
            self._memories[device] = NativeMemory(self.library, device)
        return self._memories[device]

    @property
    def cycle(self) -> int:
        return self.library.efa_cycle()

    @property
    def digest(self) -> int:
        return self.library.efa_digest()

    def post(self, device: int, requests) -> None:
        """Host accesses in order: a list of the above, or an array of REQUEST."""
        batch = requests
        if not isinstance(batch, np.ndarray):
            batch = np.array(list(requests), dtype=REQUEST)
        self.library.efa_post(device, batch.ctypes.data, len(batch))

    def inject(self, device: int, packet: bytes, delay: int = 1) -> None:
        """A packet from the fabric to a device; it need not be well formed."""
        self.library.efa_inject(device, bytes(packet), len(packet), delay)

    async def run(self, until=(), cycles: int = 1_000_000) -> int:
        """Clock until a condition holds; its position in `until`, or -1 after `cycles`."""
        conditions = np.array(list(until), dtype=CONDITION)
        self.library.efa_wait(conditions.ctypes.data, len(conditions), self.cycle + cycles)
        while self.library.efa_waiting():
            await ValueChange(self.dut.wake)
        self.check()
        return self.library.efa_woken()

    def check(self) -> None:
        if self.library.efa_error_count():
            text = self.library.efa_errors().decode()
            count = self.library.efa_error_count()
            self.library.efa_clear_errors()
            raise BoundaryBroken(f"{count} broken rules\n{text}")

    def _log(self, which, dtype) -> np.ndarray:
        at = ctypes.c_void_p()
        count = self.library.efa_log(which, ctypes.byref(at))
        if count == 0:
            return np.empty(0, dtype)
        buffer = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(at.value)
        return np.frombuffer(buffer, dtype)

    def _take(self, which, dtype) -> np.ndarray:
        records = self._log(which, dtype).copy()
        self.library.efa_log_clear(which)
        return records

    def _take_with_bytes(self, which, dtype):
        store_of_bytes = self._log(BYTES, np.dtype("u1"))
        records = self._log(which, dtype).copy()
        data = [
            b"" if int(at) == U64 else store_of_bytes[at : at + size].tobytes()
            for at, size in zip(records["data_at"], records["len"], strict=True)
        ]
        self.library.efa_log_clear(which)
        return records, data

    def events(self) -> np.ndarray:
        """What the ev_* ports showed since the last call (dtype EVENT)."""
        return self._take(EVENTS, EVENT)

    def writes(self) -> tuple[np.ndarray, list[bytes]]:
        """DMA writes in order, and their bytes."""
        return self._take_with_bytes(WRITES, WRITE)

    def interrupts(self) -> np.ndarray:
        return self._take(INTERRUPTS, INTERRUPT)

    def packets(self) -> tuple[np.ndarray, list[bytes]]:
        """Packets that left a device, what became of them, and their bytes."""
        return self._take_with_bytes(PACKETS, PACKET)

    def loads(self) -> np.ndarray:
        return self._take(LOADS, LOAD)

    def total(self, which: int) -> int:
        return self.library.efa_log_total(which)

    def events_seen(self, kind: int, device: int = 0) -> int:
        return self.library.efa_events_seen(device, kind)

    def counters(self, device: int = 0) -> dict[str, int]:
        values = (ctypes.c_uint64 * 6)()
        self.library.efa_counters(device, values)
        names = ("reads", "read_bytes", "write_bytes", "packets", "interrupts", "loads")
        return dict(zip(names, values, strict=True))
