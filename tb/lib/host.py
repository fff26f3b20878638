# SPDX-License-Identifier: Apache-2.0
"""Connects host software (efa_cosim.boundary.backend.Backend) to the simulated RTL.

Inside a cocotb test, blocking software runs through the bridge (tb/lib/bridge.py):

    backends = in_simulation(native)            # a backend for each device
    await bridge(software)(backends[0])

Outside, `open_simulator("verilator")` (tb/lib/backends.py) starts a simulation that serves this
process over a socket. Host memory is mapped from the simulator, so that a memory access needs no
message.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import tempfile
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.boundary.backend import (
    Backend,
    BackendUnavailable,
    DeviceTimeout,
    msix_table_stores,
)
from efa_cosim.layouts.defs import TRANSPORT
from tb.lib import requests as host
from tb.lib.bridge import resume
from tb.lib.simulation import Simulation

if TYPE_CHECKING:
    from efa_cosim.boundary.backend import Store, Word
    from tb.lib.native import Native

PAGE = 1 << 16
ACCEPT_POLL_SECONDS = 0.2
FLR_CYCLES = 4
IDLE_CYCLES = 64
MOST_PATIENCE = 64
# Evaluations of a condition without a word before the writes between two of them grow: an admin
# response is a write and an interrupt, an event of a completion one write more.
PROMPT_LOOKS = 3
# Upper bound of the cycles between two evaluations of a condition. The condition may hold before
# the expected word arrives, and a device that waits for the host in a reset is never idle.
LOOK_CYCLES = 40_000
# Cycles of a tick of the transport in tests that do not measure time: a timeout costs few cycles.
# The first one of a session lasts 32,768 cycles at least, longer than a message and its
# acknowledgement need on a rough host.
SHORT_TICKS = 2, 3
# Upper bound of each wait. Traffic of the longest test ends well before this. A device that never
# becomes idle must fail with a reason before the simulator's own limit ends the test.
WAIT_CYCLES = 1_000_000


def dead_cycles(tick_cycles: int) -> int:
    """Returns the cycles after which a host without any access in flight sees no further activity:
    more than the completion timeout of the device, and than the retransmission timeouts of four
    losses in a row before a first measurement. `tick_cycles` are those of the devices."""
    return 8 * TRANSPORT.rto_initial * tick_cycles + 100_000


class RtlBackend(Backend):
    """Drives one simulated device. `link` carries accesses, logs and time; see Link."""

    def __init__(
        self, link: Link, name: str, device: int = 0, node_id: int = 1, record: bool = False
    ) -> None:
        self.link = link
        self.name = name
        self.device = device
        self.node_id = node_id
        self.record = record
        self.memory = link.memory(device)
        self._loads = 0
        self._set_up_msix()

    def built_with(self, params: Mapping[str, int]) -> None:
        """Takes the parameters of the build that software has to know."""
        self.sq_host = bool(params.get("SQ_HOST"))

    def _set_up_msix(self) -> None:
        self.stores(msix_table_stores())

    def stores(self, items: Iterable[Store]) -> None:
        self.link.post(self.device, [host.store(bar, at, data) for bar, at, data in items])

    def load(self, bar: int, offset: int, size: int) -> bytes:
        ident = self.link.next_load()
        self.link.post(self.device, [host.load(bar, offset, size, ident)])
        self._loads += 1
        if self.link.run([host.loads_are(self._loads, self.device)], WAIT_CYCLES) < 0:
            raise DeviceTimeout(f"read of BAR {bar} at {offset:#x} got no response")
        line = self.link.load_response(ident)
        return line[offset % host.LINE : offset % host.LINE + size]

    def wait(
        self,
        condition: Callable[[], object],
        timeout_cycles: int = WAIT_CYCLES,
        word: Word | None = None,
    ) -> None:
        deadline = self.cycles + timeout_cycles
        patience, looks = 1, 0
        while not condition():
            left = deadline - self.cycles
            if left <= 0:
                raise DeviceTimeout(f"not within {timeout_cycles} cycles")
            # A check of the condition costs more than many cycles. Therefore wait for the word that
            # must change first; otherwise for a growing number of writes, or for idle.
            needed = word() if word is not None else None
            if needed is not None:
                news = host.memory_is(*needed, self.device)
            else:
                news = host.writes_are(self.link.writes_seen() + patience)
                looks += 1
                if looks >= PROMPT_LOOKS:
                    patience = min(2 * patience, MOST_PATIENCE)
            woken = self.link.run([news, host.idle(IDLE_CYCLES)], min(left, LOOK_CYCLES))
            if woken == 1 and not condition():
                self._wait_out_silence(condition, left)

    def _wait_out_silence(self, condition: Callable[[], object], left: int) -> None:
        """Waits with nothing in flight: only a timer of the device can still lead to activity."""
        news = host.writes_are(self.link.writes_seen() + 1)
        dead = host.idle(dead_cycles(self.tick_cycles))
        if self.link.run([news, dead], left) == 1 and not condition():
            raise DeviceTimeout("the device is idle and the condition does not hold")

    def settle(self) -> None:
        if self.link.run([host.idle(IDLE_CYCLES)], WAIT_CYCLES) < 0:
            raise DeviceTimeout(f"device and fabric are not idle within {WAIT_CYCLES} cycles")

    def _news(self, kind: str) -> list[Any]:
        self.link.collect()
        return self.link.take(kind, self.device)

    def pause(self, cycles: int) -> None:
        """Advances time by `cycles`."""
        self.link.run([], cycles)

    def interrupts(self) -> list[int]:
        return self._news("interrupts")

    def writes(self) -> list[tuple[int, bytes]]:
        return self._news("writes")

    def packets(self) -> list[bytes]:
        return self._news("packets")

    def events(self) -> np.ndarray:
        """Returns the ev_* events since the last call (efa_cosim.boundary.events.DTYPE)."""
        return self.link.log("events")

    def flr(self) -> None:
        self.begin_flr()
        self.link.run([host.drained(self.device)], WAIT_CYCLES)
        self.link.run([], 4 * FLR_CYCLES)
        self.await_flr()
        self._set_up_msix()

    def begin_flr(self) -> None:
        """Begins a function-level reset after the posted accesses."""
        self.link.post(self.device, [host.pin("flr", FLR_CYCLES)])

    def await_flr(self) -> None:
        """Waits for the end of the function-level reset."""
        if self.link.run([host.flr_done(1, self.device)], WAIT_CYCLES) < 0:
            raise DeviceTimeout("function-level reset does not end")

    def set_bus_master(self, on: bool) -> None:
        self.link.post(self.device, [host.pin("bme", int(bool(on)))])

    def set_function_mask(self, on: bool) -> None:
        self.link.post(self.device, [host.pin("msix_fmask", int(bool(on)))])

    @property
    def cycles(self) -> int:
        return self.link.cycle

    def close(self) -> None:
        self.link.close()

    def abort(self) -> None:
        self.link.abort()


class Link:
    """Defines what RtlBackend needs of a bench; subclasses differ in the way to reach it."""

    if TYPE_CHECKING:
        memory: Callable[[int], Any]
        run: Callable[[Iterable[host.Condition], int], int]

        def post(self, device: int, requests: Iterable[bytes] | np.ndarray) -> None: ...
        def log(self, kind: str) -> Any: ...
        def writes_seen(self) -> int: ...
        @property
        def cycle(self) -> int: ...

    def __init__(self, devices: int) -> None:
        self._kept: list[dict[str, list[Any]]]
        self._kept = [{"writes": [], "interrupts": [], "packets": []} for _ in range(devices)]
        self._responses: dict[int, bytes] = {}
        self._ident = 0
        self.record = False

    def next_load(self) -> int:
        self._ident += 1
        return self._ident

    def load_response(self, ident: int) -> bytes:
        for record in self.log("loads"):
            self._responses[int(record["id"])] = record["data"].tobytes()
        return self._responses.pop(ident)

    def take(self, kind: str, device: int) -> list[Any]:
        pending = self._kept[device][kind]
        self._kept[device][kind] = []
        return pending

    def collect(self) -> None:
        """Sorts the log records by device."""
        for record in self.log("interrupts"):
            self._kept[record["device"]]["interrupts"].append(int(record["data"]))
        for kind in ("writes", "packets"):
            records, data = self.log(kind)
            if not self.record:
                continue
            for record, content in zip(records, data, strict=True):
                item = content if kind == "packets" else (int(record["addr"]), content)
                self._kept[record["device"]][kind].append(item)

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


class InnerLink(Link):
    """Runs in the simulator's process: `run` resumes the simulation from bridged software."""

    def __init__(self, native: Native) -> None:
        super().__init__(native.devices)
        self.native = native
        self.run = resume(native.run)
        self.memory = native.memory

    def post(self, device: int, requests: Iterable[bytes] | np.ndarray) -> None:
        """Posts host accesses in order."""
        self.native.post(device, requests)

    def inject(self, device: int, packet: bytes) -> None:
        """Injects a packet from the fabric to a device."""
        self.native.inject(device, packet)

    def log(self, kind: str) -> Any:
        return getattr(self.native, kind)()

    def writes_seen(self) -> int:
        return self.native.activity

    @property
    def cycle(self) -> int:
        return self.native.cycle


def in_simulation(native: Native, record: bool = False) -> list[RtlBackend]:
    """Returns the backends of a running cocotb test, for a function called through `bridge`."""
    link = InnerLink(native)
    link.record = record
    name = os.environ["EFA_SIM"]
    return [RtlBackend(link, name, d, 1 + d, record) for d in range(native.devices)]


class MappedMemory:
    """Host memory of a simulation in another process, mapped here."""

    def __init__(self, link: OuterLink, device: int) -> None:
        self._link = link
        self._device = device
        pid, fd, size = link.call("memory_file", device)
        handle = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR)
        self._map = mmap.mmap(handle, size)
        os.close(handle)
        self._pages: dict[int, int] = {}

    def _at(self, address: int) -> int:
        number = address // PAGE
        offset = self._pages.get(number)
        if offset is None:
            offset = self._link.call("memory_map", self._device, number * PAGE, PAGE)
            self._pages[number] = offset
        return offset + address % PAGE

    def read(self, address: int, size: int) -> bytes:
        parts = []
        while size:
            part = min(size, PAGE - address % PAGE)
            at = self._at(address)
            parts.append(self._map[at : at + part])
            address, size = address + part, size - part
        return b"".join(parts)

    def write(self, address: int, data: bytes | memoryview) -> None:
        data = memoryview(bytes(data))
        while len(data):
            part = min(len(data), PAGE - address % PAGE)
            at = self._at(address)
            self._map[at : at + part] = data[:part]
            address, data = address + part, data[part:]

    def view(self, address: int, size: int) -> np.ndarray:
        offset = self._link.call("memory_map", self._device, address, size)
        if offset < 0:
            raise ValueError(f"{size} bytes at {address:#x} are not contiguous in the arena")
        return np.frombuffer(self._map, np.uint8, size, offset)

    def fail(self, address: int, size: int, fault: int = host.FAULT_ERROR) -> None:
        self._link.call("memory_fail", self._device, address, size, fault)

    def heal(self) -> None:
        self._link.call("memory_heal", self._device)


class OuterLink(Link):
    """Drives a simulation in another process, served by tb/system/serve_tests.py.

    `knobs` are those of each device.
    """

    def __init__(
        self,
        sim: str,
        seed: int,
        params: dict[str, int],
        knobs: list[dict[str, int]],
        waves: bool = False,
    ) -> None:
        super().__init__(len(knobs))
        self._connection: Any = None
        with tempfile.TemporaryDirectory(prefix="efa-", ignore_cleanup_errors=True) as folder:
            address = str(Path(folder) / "socket")
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(address)
                listener.listen(1)
                self._simulation = Simulation(sim, seed, params, address, waves)
                try:
                    self._connection = self._accept(listener)
                    self.restart(seed, knobs)
                except BaseException:
                    self.abort()
                    raise

    def _accept(self, listener: socket.socket) -> Connection:
        """Returns the connection to the built simulator, whose build it shows; fails if the
        simulation has ended."""
        listener.settimeout(ACCEPT_POLL_SECONDS)
        with contextlib.ExitStack() as display:
            shown = False
            while True:
                try:
                    return Connection(listener.accept()[0].detach())
                except TimeoutError:
                    if not self._simulation.running:
                        text = self._simulation.failure()
                        raise BackendUnavailable(text or "the simulation ended at once") from None
                building = "" if shown else self._simulation.building()
                if building:
                    # A simulator, which imports this module too, needs no display.
                    from efa_cosim.jobs.progress import showing

                    display.enter_context(showing(building))
                    shown = True

    def call(self, name: str, *arguments: Any) -> Any:
        try:
            self._connection.send((name, arguments))
            good, result = self._connection.recv()
        except (EOFError, OSError) as error:
            text = self._simulation.failure()
            raise RuntimeError(text or f"the simulation ended: {error}") from error
        if not good:
            raise AssertionError(result)
        return result

    def restart(self, seed: int, knobs: list[dict[str, int]]) -> None:
        """Does a power-on reset with fresh memory; earlier backends become invalid."""
        self._cycle, self._activity = self.call("start", seed, len(knobs), knobs)

    def post(self, device: int, requests: Iterable[bytes] | np.ndarray) -> None:
        self.call("post", device, host.batch(requests))

    def run(self, until: Iterable[host.Condition], cycles: int) -> int:
        woken, self._cycle, self._activity = self.call("run", until, cycles)
        return woken

    def log(self, kind: str) -> Any:
        return self.call(kind)

    def memory(self, device: int) -> MappedMemory:
        return MappedMemory(self, device)

    def writes_seen(self) -> int:
        return self._activity

    @property
    def cycle(self) -> int:
        return self._cycle

    def close(self) -> None:
        if self._connection.closed:
            return
        try:
            self._connection.send(("close", ()))
        finally:
            self._connection.close()
            text = self._simulation.failure()
        if text is not None:
            raise RuntimeError(text)
        for line in self._simulation.waves:
            print(line)

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._simulation.end()
