# SPDX-License-Identifier: Apache-2.0
"""Plays a recorded session on a backend and compares the device's output with the recording."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from efa_cosim.backends import open_backend
from efa_cosim.boundary.backend import Backend, DeviceTimeout, Store
from efa_cosim.layouts import defs
from efa_cosim.layouts.wire import mask
from efa_cosim.session.expectation import (
    ADMIN_RESPONSE,
    ASYNC_EVENT,
    COMPLETION,
    EVENT,
    REGISTER_RESPONSE,
    Expectation,
    Payload,
    Region,
    Regions,
    Slot,
    completion_matches,
    decode_completion,
    expect,
)
from efa_cosim.session.order import Order, OrderFault
from efa_cosim.session.recording import Session, SessionError, Step, read_session
from efa_cosim.session.translation import PendingCommand, SendRing, Translation, Unplayable

if TYPE_CHECKING:
    from types import TracebackType

    from efa_cosim.layouts.layout import Bytes
    from efa_cosim.session.outputs import Outputs

Reg = defs.Reg
Op = defs.AdminAqOpcode
STATUS_POLLS = 1_000
STATUS_POLL_CYCLES = 1_000
MAX_BATCH = 256
EVENT_PHASE = mask(defs.AdminEqe.phase)  # of its first byte


class PlayError(Exception):
    """The device differs from the recorded one, or the session cannot be played; has `path`, `line`
    (of the session) and `text`."""

    def __init__(self, path: Path, line: int, text: str) -> None:
        super().__init__(f"{path}:{line}: {text}")
        self.path, self.line, self.text = path, line, text


class OrderError(PlayError):
    """The recorded device changed the memory of its host in a wrong order, as
    efa_cosim.session.order finds; the attributes are those of PlayError."""


class _Difference(Exception):
    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


class _Piece(NamedTuple):
    """A store to a send WQE: its ring, offset in the ring, and size."""

    ring: SendRing
    start: int
    size: int

    @property
    def wqe(self) -> tuple[int, int]:
        """The ring and the offset of the WQE in it, to tell WQEs apart."""
        return id(self.ring), self.start - self.start % self.ring.entry.SIZE


class _Rung(NamedTuple):
    """A store to the doorbell of a send ring."""

    ring: SendRing
    store: Store


class _Target(NamedTuple):
    """A payload of the recording, 1 for each of its bytes that has come, and an offset in it."""

    payload: Payload
    done: bytearray
    start: int


@dataclass
class PlayResult:
    """Counts of what was played and compared.

    `stores` of the host; `skipped` stores that were not played; `cycles` on the device and
    `seconds` of this process; the others are compared outputs of the device.
    """

    name: str
    backend: str
    control_only: bool = False
    stores: int = 0
    skipped: int = 0
    register_responses: int = 0
    admin_responses: int = 0
    completions: int = 0
    events: int = 0
    interrupts: int = 0
    payload_bytes: int = 0
    packets: int = 0
    cycles: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return asdict(self)


def open_player(name: str, session: Session, **options: Any) -> Backend | Nodes:
    """Opens a device with the settings of a session, for `play`; returns the Backend, for a session
    of several devices the list of their Backends.

    - `name`: the backend, as for `open_backend`
    - `session`: a `Session` of `read_session`
    - `options`: further options of `open_backend`; they have priority over the settings

    The model gets the limits of the session, too; a simulator has those of its build.

    Raises BackendUnavailable as open_backend does.
    """
    settings = session.settings
    assert settings is not None  # of read_session
    chosen: dict[str, Any] = {"profile": settings.profile, "interface": settings.interface}
    if name == "model" and settings.differing_limits():
        chosen["limits"] = settings.differing_limits()
    opened = open_backend(name, **{**chosen, "nodes": session.nodes, "record": True, **options})
    return Nodes(opened) if isinstance(opened, list) else opened


class Nodes(list[Backend]):
    """The Backends of several devices on one fabric, for `with`."""

    def __enter__(self) -> Nodes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self:
            each.__exit__(kind, error, trace)


def play(
    path: str | Path,
    backend: Backend | list[Backend],
    control_only: bool = False,
    progress: Callable[[int, int], object] | None = None,
    outputs: Outputs | None = None,
    session: Session | None = None,
    steps: Iterable[Step] | None = None,
) -> PlayResult:
    """Plays a recorded session and compares the output of the device; returns a `PlayResult`.

    - `path`: the session (.jsonl.gz)
    - `backend`: the result of `open_player`, or a device opened with `record=True` and the settings
      of the session; for several devices a list
    - `control_only`: play the register BAR only
    - `progress`: called as progress(done, total) at intervals
    - `outputs`: receives all output of the device for a comparison with another device
      (`efa_cosim.session.outputs`)
    - `session`: the `Session` of the file if already read
    - `steps`: the ordered steps as they come, in place of a file; then there is no progress

    Raises SessionError for a file that is no session, PlayError at the first difference.
    """
    path, ordered = Path(path), not control_only
    if steps is None:
        session = read_session(path) if session is None else session
        steps, ordered = session.steps, ordered and session.ordered
    backends = backend if isinstance(backend, list) else [backend]
    if outputs is not None and len(backends) > 1:
        raise SessionError(f"{path}: a session of {len(backends)} devices; only the outputs of one "
                           "device can be compared: use `efa-cosim play`")
    if session is not None and session.nodes > len(backends):
        raise SessionError(f"{path}: a session of {session.nodes} devices; expected "
                           f"{len(backends)}")
    fabric = _Fabric(ordered)
    result = PlayResult(path.name, backends[0].name, control_only)
    for one in backends:
        _Player(fabric, one, result, outputs)
    started, start_cycles = time.monotonic(), backends[0].cycles
    try:
        _play(fabric, steps, progress)
        if outputs is not None:
            outputs.finish(backends[0].memory)
    except _Difference as error:
        raise PlayError(path, error.line, str(error)) from None
    except OrderFault as error:
        raise OrderError(path, error.line, str(error)) from None
    except Unplayable as error:
        raise PlayError(path, fabric.line, f"cannot be played: {error}") from None
    result.cycles = backends[0].cycles - start_cycles
    result.seconds = time.monotonic() - started
    return result


def _play(
    fabric: _Fabric, steps: Iterable[Step], progress: Callable[[int, int], object] | None
) -> None:
    """Plays all steps, each on the device of its node."""
    total = len(steps) if isinstance(steps, list) else 0
    player = fabric.players[0]
    for number, step in enumerate(steps):
        fabric.line = step.line
        if fabric.players[step.node - 1] is not player:
            # The stores of two devices have no common order, but a load follows the stores of its
            # device.
            player.flush()
            player.push()
            player = fabric.players[step.node - 1]
        player.play(step)
        if progress and total and number % 64 == 0:
            progress(number, total)
    for each in fabric.players:
        each.end()


class _Fabric:
    """The players of all devices, in the order of their node numbers.

    `line` is that of the present step; `ordered`: the order of the outputs is checked.
    """

    def __init__(self, ordered: bool) -> None:
        self.ordered, self.line = ordered, 0
        self.players: list[_Player] = []
        self.translations: list[Translation] = []


class _Player:
    """Plays the steps of one device; adds itself to the fabric."""

    def __init__(
        self, fabric: _Fabric, backend: Backend, result: PlayResult, outputs: Outputs | None
    ) -> None:
        fabric.players.append(self)
        self.fabric, self.backend = fabric, backend
        self.translation = Translation(fabric.translations)
        self.result, self.outputs = result, outputs
        self.control_only = result.control_only
        self.regions = Regions()
        self.order = Order(self._is_datagram)
        self.registers: Counter[int] = Counter()
        self.aq_base = self.aq_depth = self.aq_produced = 0
        self.admin_vector = 0
        # Output of the device not yet matched with a step.
        self.slots: dict[int, Slot] = {}
        self.payload: list[tuple[int, bytes]] = []
        self.interrupts: Counter[int] = Counter()
        self.own_events = 0
        self.resets = False  # by DEV_CTL, until the host clears it
        self.batch: list[Store | _Piece | _Rung] = []
        self.batch_memory: dict[int, bytes] = {}

    @property
    def line(self) -> int:
        """The line of the session that is being played."""
        return self.fabric.line

    @line.setter
    def line(self, number: int) -> None:
        self.fabric.line = number

    # One step

    def end(self) -> None:
        """Everything is played that comes before a reset or the end: no output may be left."""
        self.flush()
        if any(each.resets for each in self.fabric.players):
            self.push()  # A device that waits for the host in a reset is never idle.
        else:
            self.backend.settle()
        self._collect()
        self._check_nothing_left()

    def push(self) -> None:
        """Waits until the device has the stores that were posted."""
        self.backend.load(defs.EFA_REG_BAR, Reg.VERSION, 4)

    def play(self, step: Step) -> None:
        """Plays a step, and compares its effects on all nodes."""
        if step.data is None:
            self.end()
            self.batch = []
            self.backend.flr()
            self.resets = False
            self._cancel()
            return
        store = self._translated(step, step.data)
        players = self.fabric.players
        steps = {self: step, **{players[node - 1]: one for node, one in step.others.items()}}
        effects = [(player, one, player.expected(one)) for player, one in steps.items()]
        if store is None:
            self.result.skipped += 1
        else:
            for player, one, _ in effects:
                player.put_memory(one)
            self.batch.append(store)
            self.result.stores += 1
        if any(wanted for *_, wanted in effects):
            self.flush()
            for player, one, wanted in effects:
                player.take(one, wanted, store)
            for player in players:
                if player not in steps:
                    player.check_silent()
        elif len(self.batch) >= MAX_BATCH:
            self.flush()
        if self.fabric.ordered:
            for player, one, _ in effects:
                player.order.check(one, player.regions, player.admin_vector)

    def expected(self, step: Step) -> Expectation:
        """Returns the effects of a step on this device."""
        wanted = expect(step, self.regions, self._is_played, self.admin_vector)
        self._leave_out_headers(wanted)
        self._check_complete(wanted)
        return wanted

    def take(
        self, step: Step, wanted: Expectation, store: Store | _Piece | _Rung | None
    ) -> None:
        """Waits for the effects of a step on this device, and compares them."""
        self._await(step, wanted)
        if self._status_differs(wanted):
            self._poll_status(step, store, wanted)
        self._accept(wanted)

    def check_silent(self) -> None:
        """Refuses any output: a step has no effects on this device."""
        self._collect()
        self._check_nothing_left()

    def _leave_out_headers(self, wanted: Expectation) -> None:
        """Takes the headers of datagrams out of the expected payload.

        They hold numbers of the device. Some recorded devices write them with the payload, others
        write the payload only.
        """
        happened: list[tuple[int, Payload | Slot]] = [(one.line, one) for one in wanted.payload]
        happened += [(slot.line, slot) for slot in wanted.slots.values() if _is_receive(slot)]
        before: list[Payload] = []  # payload since the last completion of a receive
        for _, one in sorted(happened, key=lambda item: item[0]):
            if not isinstance(one, Slot):
                before.append(one)
                continue
            length = defs.IoRxCdesc.unpack(one.image).length
            if self._is_datagram(one.image) and sum(len(part.data) for part in before) == length:
                left = defs.LIMITS.grh_bytes
                for part in before:
                    cut = min(left, len(part.data))
                    part.address, part.data = part.address + cut, part.data[cut:]
                    part.left, left = len(part.data), left - cut
            before = []
        wanted.payload = [one for one in wanted.payload if one.data]

    def _is_played(self, kind: str | None, vector: int | None) -> bool:
        if not self.control_only:
            return True
        return kind in (REGISTER_RESPONSE, ADMIN_RESPONSE) or vector == self.admin_vector

    def _cancel(self) -> None:
        self.translation.reset()
        self.regions.clear()
        self.order.reset()
        self.registers.clear()
        self.aq_base = self.aq_depth = self.aq_produced = 0

    def put_memory(self, step: Step) -> None:
        """Puts the memory into place that the device reads as a consequence of a step."""
        memory = self._commands(step) if self._rings_aq(step) else []
        own = {address for address, _ in memory}
        for line, address, data in step.memory:
            if address not in own and not self._in_aq(address):
                self.line = line
                memory.append((address, self.translation.memory(address, data)))
        for address, data in memory:
            if self.batch_memory.get(address, data) != data:
                self.flush()
        for address, data in memory:
            self.batch_memory[address] = data
            self.backend.memory.write(address, data)
            if self.outputs is not None:
                self.outputs.touch(address, len(data))

    def flush(self) -> None:
        """Posts the collected stores to the device, LLQ pieces with translated numbers.

        A piece stays until its WQE is complete or its doorbell follows: the translation needs the
        whole WQE, and other threads may store between the pieces.
        """
        entries: dict[tuple[int, int], bytes] = {}
        items: list[Store] = []
        held: list[_Piece] = []
        ready = self._ready_wqes()
        for place, store in enumerate(self.batch):
            if isinstance(store, _Rung):
                items.append(store.store)
            elif not isinstance(store, _Piece):
                items.append(store)
            elif place > ready.get(store.wqe, -1):
                held.append(store)
            else:
                _, first = store.wqe
                if store.wqe not in entries:
                    entries[store.wqe] = self.translation.work_request(store.ring, first)
                at = store.start - first
                items.append((defs.EFA_MEM_BAR, store.ring.ours + store.start,
                              entries[store.wqe][at : at + store.size]))
        # A ring that another one has replaced gets no more stores.
        self.batch = [store for store in held if self.translation.holds(store.ring)]
        self.batch_memory = {}
        if items:
            self.backend.stores(items)

    def _ready_wqes(self) -> dict[tuple[int, int], int]:
        """Returns, for each WQE, the last place in the batch up to which its pieces can be posted.
        """
        ready: dict[tuple[int, int], int] = {}
        stored: Counter[tuple[int, int]] = Counter()
        waiting: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        for place, store in enumerate(self.batch):
            if isinstance(store, _Piece):
                stored[store.wqe] += store.size
                waiting[id(store.ring)].add(store.wqe)
                if stored[store.wqe] >= store.ring.entry.SIZE:
                    ready[store.wqe] = place
            elif isinstance(store, _Rung):
                for wqe in waiting.pop(id(store.ring), ()):
                    ready[wqe] = place
        return ready

    # Stores

    def _translated(self, step: Step, data: bytes) -> Store | _Piece | _Rung | None:
        """The store for the current device, None if it is not played.

        The bytes of a _Piece are filled in later, when the whole WQE is known.
        """
        if step.bar == defs.EFA_REG_BAR:
            return self._register(step, data)
        if self.control_only:
            return None
        doorbell = self.translation.doorbells.get((step.bar, step.offset))
        if doorbell is not None:
            store = (*doorbell, data)
            ring = self.translation.rung_ring(step.bar, step.offset)
            return store if ring is None else _Rung(ring, store)
        if step.bar != defs.EFA_MEM_BAR:
            raise Unplayable(f"store to BAR {step.bar} offset {step.offset:#x}: the session has "
                             "no doorbell there")
        ring = self.translation.send_ring(step.offset)
        start = step.offset - ring.recorded
        ring.image[start : start + len(data)] = data
        return _Piece(ring, start, len(data))

    def _register(self, step: Step, data: bytes) -> Store | None:
        """Tracks the effect of a register store on ring addresses; returns the store."""
        if len(data) != 4 or step.offset not in Reg._value2member_map_:
            return (step.bar, step.offset, data)
        register, value = Reg(step.offset), step.value
        previous, self.registers[register] = self.registers[register], value
        if register == Reg.AENQ_CONS_DB and value:
            return None
        if register in (Reg.MMIO_RESP_LO, Reg.MMIO_RESP_HI):
            self._region(REGISTER_RESPONSE, Reg.MMIO_RESP_LO, Reg.MMIO_RESP_HI,
                         defs.AdminMmioReqReadLessResp.SIZE, 1)
        elif register == Reg.AQ_CAPS:
            aq = defs.REG_BITS.AQ_CAPS.unpack(value)
            if aq.AQ_ENTRY_SIZE != defs.AdminAqEntry.SIZE:
                raise Unplayable(f"admin queue entries of {aq.AQ_ENTRY_SIZE} bytes, only "
                                 f"{defs.AdminAqEntry.SIZE} are supported")
            self.aq_base = self._address(Reg.AQ_BASE_LO, Reg.AQ_BASE_HI)
            self.aq_depth, self.aq_produced = aq.AQ_DEPTH, 0
        elif register == Reg.ACQ_CAPS:
            acq = defs.REG_BITS.ACQ_CAPS.unpack(value)
            self.admin_vector = acq.ACQ_MSIX_VECTOR
            self._region(ADMIN_RESPONSE, Reg.ACQ_BASE_LO, Reg.ACQ_BASE_HI, acq.ACQ_ENTRY_SIZE,
                         acq.ACQ_DEPTH)
        elif register == Reg.AENQ_CAPS:
            aenq = defs.REG_BITS.AENQ_CAPS.unpack(value)
            self._region(ASYNC_EVENT, Reg.AENQ_BASE_LO, Reg.AENQ_BASE_HI, aenq.AENQ_ENTRY_SIZE,
                         aenq.AENQ_DEPTH)
        elif register == Reg.DEV_CTL:
            self.resets = bool(defs.REG_BITS.DEV_CTL.unpack(value).DEV_RESET)
            if self.resets:
                self._cancel()
        elif register == Reg.AQ_PROD_DB:
            self.registers[register] = value
            self.aq_produced = previous
        elif register == Reg.EQ_DB:
            arm = defs.REG_BITS.EQ_DB.unpack(value)
            value = defs.REG_BITS.EQ_DB.pack(
                EQN=self.translation.number("eq", arm.EQN), ARM=arm.ARM)
        return (step.bar, step.offset, value.to_bytes(4, "little"))

    def _address(self, low: Reg, high: Reg) -> int:
        return self.registers[high] << 32 | self.registers[low]

    def _region(self, kind: str, low: Reg, high: Reg, entry_bytes: int, count: int) -> None:
        self.regions.remove(kind)
        self.regions.add(Region(kind, self._address(low, high), entry_bytes, count))

    @staticmethod
    def _rings_aq(step: Step) -> bool:
        return step.bar == defs.EFA_REG_BAR and step.offset == Reg.AQ_PROD_DB

    def _in_aq(self, address: int) -> bool:
        return self.aq_base <= address < self.aq_base + self.aq_depth * defs.AdminAqEntry.SIZE

    def _commands(self, step: Step) -> list[tuple[int, bytes]]:
        """The posted commands with translated numbers, as (address, bytes)."""
        if not self.aq_depth:
            raise Unplayable("AQ doorbell received before AQ_CAPS enabled the admin queue")
        size = defs.AdminAqEntry.SIZE
        # A device may read several commands at once.
        recorded = {address + at: (line, data[at : at + size])
                    for line, address, data in step.memory for at in range(0, len(data), size)}
        commands = []
        for count in range(self.aq_produced, step.value):
            address = self.aq_base + count % self.aq_depth * size
            line, data = recorded.get(address, (step.line, b""))
            if len(data) != size:
                raise _Difference(line, f"the admin command at {address:#x} is not in the session")
            self.line = line
            commands.append((address, self.translation.command(data)))
        return commands

    # Output of the device

    def _collect(self) -> None:
        """Collects the output of the device since the last call."""
        writes = [(address, data, list(self.regions.split(address, data)))
                  for address, data in self.backend.writes()]
        for _, _, parts in writes:
            for region, start, at, part in parts:
                if region is None:
                    self.payload.append((start, part))
                    continue
                slot = self.slots.setdefault(start, Slot(region, start))
                slot.put(at, part)
                if region.kind == ASYNC_EVENT and not slot.missing:
                    del self.slots[start]
                    self.own_events += 1
        interrupts, packets = self.backend.interrupts(), self.backend.packets()
        self.interrupts.update(interrupts)
        self.result.packets += len(packets)
        if self.outputs is not None:
            for address, data, parts in writes:
                self.outputs.write(self.line, address, data, parts)
            for vector in interrupts:
                self.outputs.interrupt(vector)
            for packet in packets:
                self.outputs.packet(self.line, packet)

    def _arrived(self, wanted: Expectation) -> bool:
        self._collect()
        return (
            all(a in self.slots and not self.slots[a].missing for a in wanted.slots)
            and all(self.interrupts[v] >= n for v, n in wanted.interrupts.items())
            and sum(len(d) for _, d in self.payload) >= sum(p.left for p in wanted.payload))

    def _await(self, step: Step, wanted: Expectation) -> None:
        try:
            self.backend.wait(lambda: self._arrived(wanted))
        except DeviceTimeout as error:
            self._report_missing(step, wanted, error)

    def _report_missing(
        self, step: Step, wanted: Expectation, error: DeviceTimeout
    ) -> NoReturn:
        for address, slot in wanted.slots.items():
            came = self.slots.get(address)
            if came is None or came.missing:
                shown = came.image.hex() if came else "nothing"
                raise _Difference(slot.line, f"{slot.region.kind} at {address:#x} did not arrive: "
                                  f"expected {slot.image.hex()}, got {shown} ({error})")
            self._compare(slot, came)
        for vector, count in wanted.interrupts.items():
            if self.interrupts[vector] < count:
                line = next(n for n, v in step.interrupts if v == vector)
                raise _Difference(line, f"interrupt {vector}: expected {count}, "
                                  f"got {self.interrupts[vector]} ({error})")
        self._compare_payload(wanted)
        raise _Difference(step.line, str(error))

    def _accept(self, wanted: Expectation) -> None:
        """Compares and removes the effects of a step; any other output is a difference."""
        datagrams = 0
        events = self._in_recorded_order(wanted)
        for address, slot in sorted(wanted.slots.items(), key=lambda item: item[1].line):
            came = self.slots.pop(address)
            self._compare(slot, events.get(address, came))
            if slot.region.kind == COMPLETION:
                datagrams += self._is_datagram(slot.image)
        self._check_slots()
        self._compare_payload(wanted, defs.LIMITS.grh_bytes * datagrams)
        self.interrupts -= wanted.interrupts
        self.result.interrupts += wanted.interrupts.total()
        self._check_nothing_left()

    def _in_recorded_order(self, wanted: Expectation) -> dict[int, Slot]:
        """Returns {address: slot} of the events that came, sorted as recorded.

        CQs share an event queue, and the order of the events of different CQs is free. The phase
        belongs to the place.
        """
        rings: defaultdict[Region, list[int]] = defaultdict(list)
        found: dict[int, Slot] = {}
        for address, slot in sorted(wanted.slots.items()):
            if slot.region.kind == EVENT:
                rings[slot.region].append(address)
        for region, addresses in rings.items():
            bodies = [_body(self.slots[address].image) for address in addresses]
            for address in addresses:
                body = _body(self._with_our_numbers(wanted.slots[address], self.slots[address]))
                if body in bodies:
                    bodies.remove(body)
                    phase = self.slots[address].image[0] & EVENT_PHASE
                    found[address] = Slot(region, address)
                    found[address].put(0, bytes([body[0] | phase, *body[1:]]))
        return found

    def _check_slots(self) -> None:
        for slot in self.slots.values():
            raise _Difference(self.line, f"{slot.region.kind} at {slot.address:#x} was not "
                              f"expected here: got {slot.image.hex()}")

    def _check_nothing_left(self) -> None:
        self._check_slots()
        for address, data in self.payload:
            raise _Difference(self.line, f"write of {len(data)} bytes at {address:#x} was not "
                              f"expected here: got {_short(data)}")
        for vector, count in self.interrupts.items():
            allowed = self.own_events if vector == self.admin_vector else 0
            if count > allowed:
                raise _Difference(self.line, f"interrupt {vector} was not expected here: "
                                  f"got {count}, {allowed} allowed")

    # Comparing

    @staticmethod
    def _check_complete(wanted: Expectation) -> None:
        """Refuses a recorded entry without some of its bytes: they would count as zeros."""
        for slot in wanted.slots.values():
            if slot.missing:
                missing = ", ".join(_spans(sorted(slot.missing)))
                raise _Difference(slot.line, f"the recorded {slot.region.kind} at "
                                  f"{slot.address:#x} is incomplete: expected "
                                  f"{slot.region.entry_bytes} bytes, found no 'd' line for "
                                  f"{missing}; record the session again or restore the line")

    def _compare(self, expected: Slot, came: Slot) -> None:
        image = self._with_our_numbers(expected, came)
        kind = expected.region.kind
        if kind == ADMIN_RESPONSE:
            self._compare_response(expected, bytes(came.image))
            self.result.admin_responses += 1
            return
        if kind == REGISTER_RESPONSE:
            layout = defs.AdminMmioReqReadLessResp
            want, got = layout.unpack(image), layout.unpack(came.image)
            same = (want.req_id, want.reg_off) == (got.req_id, got.reg_off)
            shown = (repr(want), repr(got))
            self.result.register_responses += 1
        elif kind == COMPLETION:
            same = completion_matches(image, came.image)
            shown = (decode_completion(image), decode_completion(came.image))
            self.result.completions += 1
        else:
            same = image == came.image
            shown = (repr(defs.AdminEqe.unpack(image)), repr(defs.AdminEqe.unpack(came.image)))
            self.result.events += 1
        if not same:
            raise _Difference(expected.line, f"{kind} at {expected.address:#x}: "
                              f"expected {image.hex()} {shown[0]}, "
                              f"got {came.image.hex()} {shown[1]}")

    def _with_our_numbers(self, slot: Slot, came: Slot) -> bytearray:
        """The recorded entry as the current device should write it.

        A CQE need not name the node of the source, so the source QP of the entry that came is right
        if any node has it.
        """
        image = bytearray(slot.image)
        if slot.region.kind == COMPLETION:
            common = defs.IoCdescCommon.over(image)
            common.qp_num = self.translation.number("qp_num", common.qp_num)
            if common.q_type == defs.IoQueueType.RECV_QUEUE:
                entry = defs.IoRxCdesc.over(image)
                sources = self.translation.sources(entry.src_qp_num)
                if sources:
                    got = defs.IoRxCdesc.unpack(came.image).src_qp_num
                    entry.src_qp_num = got if got in sources else sources[0]
        elif slot.region.kind == EVENT:
            event = defs.AdminEqe.over(image).u.comp_event
            event.cqn = self.translation.number("cq", event.cqn)
        return image

    def _compare_response(self, expected: Slot, came: bytes) -> None:
        recorded = bytes(expected.image)
        differences = self.translation.response_differences(recorded, came)
        if differences:
            command_id = defs.AdminAcqCommonDesc.unpack(recorded).command_id
            pending = self.translation.pending[command_id]
            raise _Difference(
                expected.line, f"response to {pending.opcode.name}: {'; '.join(differences)}; "
                f"expected {recorded.hex()}, got {came.hex()}; the command was {pending.ours!r}")
        self._follow(self.translation.learn(recorded, came), recorded)

    def _follow(self, pending: PendingCommand, response: bytes) -> None:
        """Adds the host rings that a completed command created."""
        command = pending.recorded
        if not defs.AdminAcqCommonDesc.unpack(response).status:
            bars = self.translation.db_bars
            layout = defs.COMMANDS[pending.opcode][1]
            self.order.created(pending.opcode, command, layout.unpack(response), bars and bars[0])
        if isinstance(command, defs.AdminCreateCqCmd):
            words = command.cq_entry_size_words
            base = command.cq_ba.mem_addr_high << 32 | command.cq_ba.mem_addr_low
            self.regions.add(Region(COMPLETION, base, words * 4,
                                    command.sub_cq_depth * command.num_sub_cqs, base))
        elif isinstance(command, defs.AdminCreateEqCmd):
            base = command.ba.mem_addr_high << 32 | command.ba.mem_addr_low
            self.regions.add(Region(EVENT, base, defs.AdminEqe.SIZE, command.depth, base))

    def _is_datagram(self, image: Bytes) -> bool:
        common = defs.IoCdescCommon.unpack(image)
        return (common.q_type == defs.IoQueueType.RECV_QUEUE and not common.status
                and self.translation.qp_kind(common.qp_num) == defs.AdminQpType.UD)

    def _compare_payload(self, wanted: Expectation, header_bytes: int = 0) -> None:
        """Each expected byte arrived once and equal; other bytes may only be datagram headers.

        Several messages of a step may have the same buffer: a write belongs to the first message
        that lacks these bytes, at best to one with the same data.
        """
        beyond = 0
        come = [bytearray(len(target.data)) for target in wanted.payload]
        for address, data in self.payload:
            at = 0
            while at < len(data):
                targets = [
                    _Target(target, done, address + at - target.address)
                    for target, done in zip(wanted.payload, come, strict=True)
                    if target.address <= address + at < target.address + len(target.data)
                ]
                if not targets:
                    beyond += 1
                    at += 1
                    continue
                at += self._match_payload(targets, address + at, data[at:])
        for target, done in zip(wanted.payload, come, strict=True):
            if missing := done.count(0):
                raise _Difference(target.line, f"payload at {target.address:#x}: {missing} of "
                                  f"{len(target.data)} bytes are missing")
            self.result.payload_bytes += len(target.data)
        if beyond != header_bytes:
            raise _Difference(self.line, f"{beyond} bytes were written outside rings and payload, "
                              f"{header_bytes} of datagram headers were expected")
        self.payload = []

    @staticmethod
    def _match_payload(targets: list[_Target], address: int, data: bytes) -> int:
        """Marks bytes at the begin of a write as come in one of the targets; returns their number.
        """
        first: tuple[Payload, bytearray, int, bytes] | None = None
        for target, done, start in targets:
            if done[start]:
                continue
            end = done.find(1, start)
            part = target.data[start : len(done) if end < 0 else end][: len(data)]
            if first is None or data.startswith(part):
                first = target, done, start, part
            if data.startswith(part):
                break
        if first is None:
            target = targets[0].payload
            raise _Difference(target.line, f"payload at {target.address:#x}: the byte at "
                              f"{address:#x} was written more often than expected")
        target, done, start, part = first
        for offset, (expected, came) in enumerate(zip(part, data, strict=False)):
            if expected != came:
                raise _Difference(
                    target.line, f"payload at {target.address:#x}, byte {start + offset} of "
                    f"{len(target.data)}, address {address + offset:#x}: expected "
                    f"{expected:#04x}, got {came:#04x}")
        done[start : start + len(part)] = b"\1" * len(part)
        return len(part)

    # Device status: the only register value that determines the next step of the host

    def _status_differs(self, wanted: Expectation) -> bool:
        for address, slot in wanted.slots.items():
            if slot.region.kind != REGISTER_RESPONSE:
                continue
            layout = defs.AdminMmioReqReadLessResp
            want, got = layout.unpack(slot.image), layout.unpack(self.slots[address].image)
            if want.reg_off == got.reg_off == Reg.DEV_STS:
                bits = defs.REG_BITS.DEV_STS
                was, now = bits.unpack(want.reg_val), bits.unpack(got.reg_val)
                return (was.READY, was.RESET_IN_PROGRESS) != (now.READY, now.RESET_IN_PROGRESS)
        return False

    def _poll_status(
        self, step: Step, store: Store | _Piece | _Rung | None, wanted: Expectation
    ) -> None:
        """Repeats the status read until it matches the recording, as the driver does."""
        if store is None or isinstance(store, _Piece | _Rung):
            raise Unplayable("DEV_STS differs from the recorded value after a store that does not "
                             "read it")
        for _ in range(STATUS_POLLS):
            try:
                self.backend.wait(lambda: False, timeout_cycles=STATUS_POLL_CYCLES)
            except DeviceTimeout:
                self.slots.clear()
            self.backend.stores([store])
            self._await(step, wanted)
            if not self._status_differs(wanted):
                return
        address, slot = next(iter(wanted.slots.items()))
        raise _Difference(slot.line, f"DEV_STS did not reach the recorded value: expected "
                          f"{slot.image.hex()}, got {self.slots[address].image.hex()} after "
                          f"{STATUS_POLLS} reads")


def _is_receive(slot: Slot) -> bool:
    if slot.region.kind != COMPLETION:
        return False
    return defs.IoCdescCommon.unpack(slot.image).q_type == defs.IoQueueType.RECV_QUEUE


def _body(image: bytearray) -> bytes:
    """An event without its phase."""
    return bytes([image[0] & ~EVENT_PHASE, *image[1:]])


def _spans(numbers: Iterable[int]) -> list[str]:
    """Ranges of ascending byte numbers in words, such as `bytes 4 to 7`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return [f"bytes {first} to {last}" if first < last else f"byte {first}"
            for first, last in spans]


def _short(data: bytes) -> str:
    text = data[:32].hex()
    return text if len(data) <= 32 else f"{text}... ({len(data)} bytes)"
