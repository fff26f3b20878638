# SPDX-License-Identifier: Apache-2.0
"""Kernel half of the host software: probe, admin queue, events, reset and removal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from efa_cosim.boundary.backend import Backend, DeviceTimeout, WatchedWord
from efa_cosim.host.admin_queue import AdminQueue, DriverError
from efa_cosim.host.alloc import PAGE_BYTES, HostAllocator
from efa_cosim.host.driver_objects import DriverObjects
from efa_cosim.host.rings import ConsumerRing
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.host.admin_queue import Command, Request
    from efa_cosim.layouts.layout import BitLayout, Struct

_Fields = TypeVar("_Fields")

# The buffer for register responses is preset with a sequence number that cannot match.
STALE_SEQUENCE_STEP = 0x9A
SEQUENCE_MASK = 0xFFFF
POLL_CYCLES = 2_000
FLAVOURS = ("newest", "3.1.0")
MIN_VERSION = 1
CRC_VERSION = 2
WIDE_AQ_VERSION = 3

_MANDATORY = (
    defs.AdminAqFeatureId.AENQ_CONFIG,
    defs.AdminAqFeatureId.NETWORK_ATTR,
    defs.AdminAqFeatureId.QUEUE_ATTR_1,
    defs.AdminAqFeatureId.HW_HINTS,
)


@dataclass
class EventQueue:
    """One EQ: its number, vector and the consumer side of its ring."""

    number: int
    vector: int
    ring: ConsumerRing[defs.AdminEqe]


class Driver(DriverObjects):
    """Drives one device through a backend as the Linux driver does.

    - `backend`: the device
    - `flavour`: the driver version, `newest` or `3.1.0`; they differ in the mask of admin
      interrupts during the probe and in the format of admin entries
    - `cpus`: number of CPUs; the driver uses one MSI-X vector for each and one for admin, if the
      device has as many
    - `allocator`: allocator of host memory, by default a new HostAllocator
    - `seed`: seed of the addresses of scattered pages

    Attributes after probe(): `device_attr`, `queue_attr`, `queue_attr_2` and `event_queue_attr`
    (features as the device reports them), `gid`, `mtu` in bytes, `inline_bytes`, `db_bar` (BAR of
    the doorbells), `eqs` (event queues), `cq_events` (completion events by CQ number, not yet
    consumed), `async_events` (entries of the AENQ except keep-alive).

    `list_bytes` is the longest contiguous page list of this kernel: longer lists are passed in
    chunks. Raises ValueError for an unknown flavour.
    """

    list_bytes = 8 * PAGE_BYTES
    admin_depth = defs.EFA_ADMIN_QUEUE_DEPTH

    def __init__(
        self,
        backend: Backend,
        flavour: str = "newest",
        cpus: int = 2,
        allocator: HostAllocator | None = None,
        seed: int = 0,
    ) -> None:
        if flavour not in FLAVOURS:
            raise ValueError(f"unknown driver flavour {flavour}: one of {', '.join(FLAVOURS)}")
        self.backend, self.flavour = backend, flavour
        self.memory = backend.memory
        self.allocator = allocator or HostAllocator(self.memory, seed=seed)
        self.vectors = min(defs.LIMITS.msix_vectors, cpus + 1)
        self.admin: AdminQueue | None = None
        self.eqs: list[EventQueue] = []
        self.aenq_events: Counter[int] = Counter()
        self.async_events: list[defs.AdminAenqEntry] = []
        self.cq_events: Counter[int] = Counter()
        self.unexpected_events: list[defs.AdminEqe] = []
        self._polling = False
        self._dead = False
        self._aenq: ConsumerRing[defs.AdminAenqEntry] | None = None
        self._sequence = 0
        self._response_buffer = self.allocator.alloc(defs.AdminMmioReqReadLessResp.SIZE)

    # Registers

    def write_register(self, register: int, value: int) -> None:
        """Writes one 32-bit register (defs.Reg)."""
        self.backend.store(defs.EFA_REG_BAR, int(register), value.to_bytes(4, "little"))

    def read_register(self, register: int) -> int:
        """Reads a register without an MMIO read: the device writes the value to host memory.
        Returns EFA_MMIO_READ_INVALID without a response."""
        self._sequence = self._sequence + 1 & SEQUENCE_MASK
        response = defs.AdminMmioReqReadLessResp
        stale = self._sequence + STALE_SEQUENCE_STEP & SEQUENCE_MASK
        self.memory.write(self._response_buffer, response(req_id=stale).pack())
        self.write_register(defs.Reg.MMIO_REG_READ, defs.REG_BITS.MMIO_REG_READ.pack(
            REQ_ID=self._sequence, REG_OFF=int(register)))

        def rsp() -> defs.AdminMmioReqReadLessResp:
            return response.unpack(self.memory.read(self._response_buffer, response.SIZE))

        # The first two bytes of the response are the sequence number of the request.
        word = WatchedWord(self._response_buffer, 0xFFFF, self._sequence)
        try:
            self.backend.wait(lambda: rsp().req_id == self._sequence, word=lambda: word)
        except DeviceTimeout:
            return defs.EFA_MMIO_READ_INVALID
        return rsp().reg_val if rsp().reg_off == register else defs.EFA_MMIO_READ_INVALID

    def _read_bits(self, bits: BitLayout[_Fields]) -> _Fields:
        register = defs.Reg[bits.name]
        value = self.read_register(register)
        if value == defs.EFA_MMIO_READ_INVALID:
            raise DriverError(f"register {register.name}: no valid read response; check bus "
                              "master enable and the device's reset state")
        return bits.unpack(value)

    def set_response_address(self) -> None:
        """Stores the address of register responses, which a reset clears."""
        self.write_register(defs.Reg.MMIO_RESP_HI, self._response_buffer >> 32)
        self.write_register(defs.Reg.MMIO_RESP_LO, self._response_buffer & 0xFFFF_FFFF)

    # Life cycle

    def probe(self) -> Self:
        """Initializes the device, from bus master enable until it is ready for objects; returns
        itself.

        Raises DriverError if the device does not respond, is too old or lacks a required feature.
        """
        self.backend.set_bus_master(True)
        self.set_response_address()
        self.reset(defs.RegsResetReasonTypes.NORMAL)
        self._check_versions()
        self.dma_width = self._read_bits(defs.REG_BITS.CAPS).DMA_ADDR_WIDTH
        try:
            self._start_admin()
            self._learn_features()
            self._configure_aenq()
            self._create_eqs()
            self._send_host_info()
        except DriverError:
            self.reset(defs.RegsResetReasonTypes.INIT_ERR)
            self._free_rings()
            raise
        return self

    def reset(
        self, reason: defs.RegsResetReasonTypes = defs.RegsResetReasonTypes.NORMAL
    ) -> None:
        """Resets the device and waits for the handshake; raises DriverError if it does not end."""
        if not self._read_bits(defs.REG_BITS.DEV_STS).READY:
            raise DriverError("DEV_STS.READY is 0, expected 1: the device cannot be reset")
        polls = self._read_bits(defs.REG_BITS.CAPS).RESET_TIMEOUT
        if not polls:
            raise DriverError("CAPS gives a reset timeout of 0, expected at least 1")
        dev_ctl = defs.REG_BITS.DEV_CTL
        self.write_register(defs.Reg.DEV_CTL, dev_ctl.pack(DEV_RESET=1, RESET_REASON=reason))
        self.set_response_address()
        self._await_reset_in_progress(1, polls)
        self.write_register(defs.Reg.DEV_CTL, 0)
        self._await_reset_in_progress(0, polls)
        self._dead = False

    def _await_reset_in_progress(self, value: int, polls: int) -> None:
        for _ in range(polls):
            status = self._read_bits(defs.REG_BITS.DEV_STS)
            if status.RESET_IN_PROGRESS == value:
                return
            self.pause(POLL_CYCLES)
        raise DriverError(f"reset: RESET_IN_PROGRESS of DEV_STS did not become {value} in "
                          f"{polls} polls, the reset timeout of CAPS")

    def _check_versions(self) -> None:
        self.version = self.read_register(defs.Reg.VERSION)
        if not MIN_VERSION <= self.version < defs.EFA_MMIO_READ_INVALID:
            raise DriverError(f"interface version {self.version:#x} is too old: expected at least "
                              f"{MIN_VERSION}")
        controller = self._read_bits(defs.REG_BITS.CONTROLLER_VERSION)
        if not (controller.MAJOR_VERSION | controller.MINOR_VERSION | controller.SUBMINOR_VERSION):
            raise DriverError("controller version is 0, expected a version above 0")

    def _start_admin(self) -> None:
        newest = self.flavour == "newest"
        if not self._read_bits(defs.REG_BITS.DEV_STS).READY:
            raise DriverError("DEV_STS.READY is 0, expected 1: the admin queue cannot start")
        if newest:
            self.mask_admin_interrupt(1)
        self.admin = AdminQueue(self.memory, self.allocator, self.write_register,
                                check_crc=newest and self.version >= CRC_VERSION,
                                wide=newest and self.version >= WIDE_AQ_VERSION,
                                depth=self.admin_depth)
        self.admin.enable_aq()
        self.admin.enable_acq()
        if not newest:
            self.mask_admin_interrupt(0)
        self._start_aenq()
        self._read_bits(defs.REG_BITS.CAPS)
        if newest:
            # The interrupt handler is installed only now; until here the driver polls.
            self.mask_admin_interrupt(0)

    def mask_admin_interrupt(self, masked: int) -> None:
        """Masks the admin interrupt and polls, or unmasks it."""
        self._polling = bool(masked)
        self.write_register(defs.Reg.INTR_MASK, defs.REG_BITS.INTR_MASK.pack(EN=masked))

    def _start_aenq(self) -> None:
        entry, depth = defs.AdminAenqEntry, defs.EFA_ASYNC_QUEUE_DEPTH
        base = self.allocator.alloc(depth * entry.SIZE)
        self._aenq = ConsumerRing(self.memory, base, depth, entry,
                                  lambda event: event.aenq_common_desc.phase)
        self.write_register(defs.Reg.AENQ_BASE_LO, base & 0xFFFF_FFFF)
        self.write_register(defs.Reg.AENQ_BASE_HI, base >> 32)
        self.write_register(defs.Reg.AENQ_CAPS, defs.REG_BITS.AENQ_CAPS.pack(
            AENQ_DEPTH=depth, AENQ_ENTRY_SIZE=entry.SIZE,
            AENQ_MSIX_VECTOR=defs.EFA_MGMNT_MSIX_VEC_IDX))
        self.write_register(defs.Reg.AENQ_CONS_DB, 0)

    def _learn_features(self) -> None:
        ids = defs.AdminAqFeatureId
        self.device_attr = self._feature(ids.DEVICE_ATTR, defs.AdminFeatureDeviceAttrDesc)
        if self.device_attr.admin_api_version < 1:
            raise DriverError("admin API version is 0, expected at least 1")
        missing = [i.name for i in _MANDATORY if not self.supports(i)]
        if missing:
            raise DriverError(f"device lacks {', '.join(missing)}, which this driver requires")
        self.queue_attr = self._feature(ids.QUEUE_ATTR_1, defs.AdminFeatureQueueAttrDesc1)
        if self.supports(ids.QUEUE_ATTR_2):
            self.queue_attr_2 = self._feature(ids.QUEUE_ATTR_2, defs.AdminFeatureQueueAttrDesc2)
            self.inline_bytes = self.queue_attr_2.inline_buf_size_ex
        else:
            self.inline_bytes = self.queue_attr.inline_buf_size
        network = self._feature(ids.NETWORK_ATTR, defs.AdminFeatureNetworkAttrDesc)
        self.gid, self.mtu = network.addr, network.mtu
        self.event_queue_attr = (
            self._feature(ids.EVENT_QUEUE_ATTR, defs.AdminEventQueueAttrDesc)
            if self.supports(ids.EVENT_QUEUE_ATTR) else None)
        self.db_bar = self.device_attr.db_bar
        self.get_feature(ids.HW_HINTS)

    def _configure_aenq(self) -> None:
        supported = self._feature(
            defs.AdminAqFeatureId.AENQ_CONFIG, defs.AdminFeatureAenqDesc).supported_groups
        groups = defs.EFA_AENQ_ENABLED_GROUPS
        if groups & ~supported:
            raise DriverError(f"asynchronous event groups {groups:#x} are required, the device "
                              f"supports {supported:#x}")
        self.set_aenq_groups(groups)

    def _create_eqs(self) -> None:
        if self.event_queue_attr is None:
            return
        depth = self.event_queue_attr.max_eq_depth & 0xFFFF
        for index in range(min(self.event_queue_attr.max_eq, self.vectors - 1)):
            vector = defs.EFA_COMP_EQS_VEC_BASE + index
            base = self.allocator.alloc(depth * defs.AdminEqe.SIZE)
            number = self.create_eq(depth, vector, base)
            ring = ConsumerRing(self.memory, base, depth, defs.AdminEqe, lambda eqe: eqe.phase)
            self.eqs.append(EventQueue(number, vector, ring))
            self._arm_eq(number)

    def _arm_eq(self, number: int) -> None:
        self.write_register(defs.Reg.EQ_DB, defs.REG_BITS.EQ_DB.pack(EQN=number, ARM=1))

    def _send_host_info(self) -> None:
        if not self.supports(defs.AdminAqFeatureId.HOST_INFO):
            return
        info = defs.AdminHostInfo(
            os_dist_str=b"co-simulation", kernel_ver_str=b"python", intree=1,
            spec_major=defs.EFA_COMMON_SPEC_VERSION_MAJOR,
            spec_minor=defs.EFA_COMMON_SPEC_VERSION_MINOR)
        try:
            self.set_host_info(info)
        except DriverError:
            # As in Linux: host information is optional, the device may refuse it.
            if self._dead:
                raise

    def remove(
        self, reason: defs.RegsResetReasonTypes = defs.RegsResetReasonTypes.NORMAL
    ) -> None:
        """Unbinds the driver: destroys event queues, resets the device, frees the rings. Raises
        DriverError."""
        for eq in self.eqs:
            self.destroy_eq(eq.number)
        self.reset(reason)
        self.backend.set_bus_master(False)
        self._free_rings()

    def shutdown(self) -> None:
        """Does remove() with the shutdown reset reason."""
        self.remove(defs.RegsResetReasonTypes.SHUTDOWN)

    def _free_rings(self) -> None:
        for eq in self.eqs:
            self.allocator.free(eq.ring.base)
        if self._aenq is not None:
            self.allocator.free(self._aenq.base)
        if self.admin is not None:
            self.admin.free()
        self.eqs, self._aenq, self.admin = [], None, None

    # Interrupts, events and waiting

    def service(self) -> None:
        """Runs the interrupt handlers of every vector that fired since the last call."""
        for vector in self.backend.interrupts():
            if vector == defs.EFA_MGMNT_MSIX_VEC_IDX:
                self._admin_interrupt()
            for eq in self.eqs:
                if eq.vector == vector:
                    self._eq_interrupt(eq)
        if self._polling and self.admin is not None:
            self.admin.drain()

    def _admin_interrupt(self) -> None:
        if self.admin is None:
            return
        self.admin.drain()
        aenq = self._aenq
        assert aenq is not None  # the probe starts both rings
        before = aenq.consumed
        while (event := aenq.take()) is not None:
            head = event.aenq_common_desc
            self.aenq_events[int(head.group)] += 1
            if head.group != defs.AdminAenqGroup.KEEP_ALIVE:
                # Linux logs a line for each of these groups.
                self.async_events.append(event)
        if aenq.consumed != before:
            self.write_register(defs.Reg.AENQ_CONS_DB, aenq.consumed & 0xFFFF_FFFF)

    def _eq_interrupt(self, eq: EventQueue) -> None:
        while (eqe := eq.ring.take()) is not None:
            if eqe.event_type == defs.AdminEqeEventType.COMPLETION:
                self.cq_events[eqe.u.comp_event.cqn] += 1
            else:
                self.unexpected_events.append(eqe)
        self._arm_eq(eq.number)

    def wait(self, condition: Callable[[], object], **limits: Any) -> None:
        """Waits for condition() and services interrupts meanwhile.

        `limits` are `timeout_cycles` and `word` of Backend.wait. Raises DeviceTimeout.
        """
        def look() -> object:
            self.service()
            return condition()

        self.backend.wait(look, **limits)

    def pause(self, cycles: int) -> None:
        """Lets the device run for so many cycles; on the model, until it is idle."""
        try:
            self.wait(lambda: False, timeout_cycles=cycles)
        except DeviceTimeout:
            return

    # Admin commands

    def submit(self, request: Request, corrupt: int | None = None) -> Command:
        """Submits a command (defs.Admin...Cmd) and returns it; waits only while the admin queue is
        full.

        `corrupt` inverts the entry's byte at that offset after the checksum was computed. Raises
        DriverError if the admin queue is stopped.
        """
        admin = self.admin
        if self._dead or admin is None:
            raise DriverError("the admin queue is stopped: probe the device first, or reset and "
                              "probe again after a lost completion")
        if admin.full:
            self._await(lambda: not admin.full, "a free admin context")
        return admin.submit(request, corrupt)

    def finish(self, command: Command) -> Struct:
        """Waits for a submitted command; returns its response, raises DriverError if it is refused
        or lost."""
        self._await(lambda: command.done, command.name)
        return command.result()

    def execute(self, request: Request) -> Struct:
        """Submits a command and waits for its response; raises DriverError if it is refused or
        lost."""
        return self.finish(self.submit(request))

    def _await(self, condition: Callable[[], object], what: str) -> None:
        try:
            self.wait(condition)
        except DeviceTimeout as error:
            # As in Linux, a lost completion or interrupt stops the queue permanently.
            self._dead = True
            raise DriverError(f"{what}: no completion") from error
