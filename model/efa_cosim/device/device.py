# SPDX-License-Identifier: Apache-2.0
"""The reference device: executes host stores, packets and resets immediately and in order.

The model has no time. When store() returns, all effects of the store are complete. All output
leaves through the on_* callbacks, in the order that hardware must show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

from efa_cosim.boundary.memory import HostMemory
from efa_cosim.device.admin_engine import AdminQueues
from efa_cosim.device.datapath import Datapath
from efa_cosim.device.interrupts import ENTRY_BYTES, Interrupts
from efa_cosim.device.objects import Objects, plain
from efa_cosim.device.reliable_link import Transport
from efa_cosim.layouts import defs
from efa_cosim.layouts.layout import Bytes
from efa_cosim.layouts.wire import precompiled
from efa_cosim.transport.network import Network

LINE_BYTES = 64
UNKNOWN = defs.EFA_MMIO_READ_INVALID

_REG = defs.Reg
_Anomaly = defs.AnomalyHost
_Step = defs.ResetStep
_KNOWN = frozenset(_REG)
_BITS = defs.REG_BITS
_READ_RESPONSE = precompiled(defs.AdminMmioReqReadLessResp, "req_id", "reg_off", "reg_val")
_BASES = (
    _REG.AQ_BASE_LO, _REG.AQ_BASE_HI, _REG.ACQ_BASE_LO, _REG.ACQ_BASE_HI,
    _REG.AENQ_BASE_LO, _REG.AENQ_BASE_HI,
)  # fmt: skip
_DURING_RESET = {_REG.DEV_CTL, _REG.MMIO_RESP_LO, _REG.MMIO_RESP_HI, _REG.MMIO_REG_READ}


def dwords(offset: int, data: bytes) -> Iterator[tuple[int, int | None]]:
    """Aligned dwords of a store as (offset, value); value is None if a byte enable is missing."""
    end = offset + len(data)
    for start in range(offset & ~3, end, 4):
        whole = start >= offset and start + 4 <= end
        inside = data[start - offset : start - offset + 4] if whole else b""
        yield start, int.from_bytes(inside, "little") if whole else None


class Device:
    """One PCIe function: BARs towards the host, packets towards the fabric."""

    on_dma_write: Callable[[int, bytes], object] | None
    on_packet: Callable[[bytes], object] | None
    on_interrupt: Callable[[int, int, int], object] | None
    on_event: Callable[[str, dict[str, int]], object] | None
    # Actions that wait for the bus master enable, and whether each one survives a reset.
    _held: list[tuple[Callable[[], object], bool]]
    _registers: dict[int, int]

    def __init__(
        self,
        memory: HostMemory,
        *,
        node_id: int = 1,
        profile: str = "default",
        limits: Mapping[str, Any] | None = None,
        interface: int = 0,
        moderated: bool = False,
        tick: int = defs.TRANSPORT.tick_cycles,
        network: Network | None = None,
        paths: int | None = None,
    ) -> None:
        overrides = dict(limits or {})
        unknown = overrides.keys() - defs.LIMITS.keys()
        if unknown:
            raise ValueError(f"no such limits: {', '.join(sorted(unknown))}; "
                             "use names of spec/limits.yaml")
        self.memory, self.node_id = memory, node_id
        self.limits: defs.Limits = SimpleNamespace(**{**defs.LIMITS, **overrides})
        self.profile = defs.PROFILES[profile]
        self.pool = 1 << min(self.limits.mtt_w, self.profile.mr_pages_w)
        # Payload of each packet of an RDMA operation but its last one, up to the MTU.
        self.rdma_bytes: int = self.profile.mtu
        # Strap: 0 selects the profile's interface version, another value is the minor number.
        self.interface = interface
        self.transport: Transport | None = None
        self.gid = self.limits.gid_prefix + node_id.to_bytes(2, "big")
        self.on_dma_write = self.on_packet = self.on_interrupt = self.on_event = None
        # A message that met no receive may meet another outcome now; the fabric clears it.
        self.receives_changed = False
        self.interrupts = Interrupts(
            self.limits.msix_vectors, self._send_message, self._no_vector, moderated
        )
        self._bus_master = True
        self._handlers: dict[int, Callable[[int], None]] = {
            _REG.AQ_CAPS: lambda value: self.admin.configure_aq(value),
            _REG.ACQ_CAPS: lambda value: self.admin.configure_acq(value),
            _REG.AENQ_CAPS: lambda value: self.admin.configure_aenq(value),
            _REG.AQ_PROD_DB: lambda value: self.admin.ring(value),
            _REG.AENQ_CONS_DB: lambda value: self.admin.events.consume(value),
            _REG.INTR_MASK: lambda value: self.admin.mask(value),
            _REG.DEV_CTL: self._control,
            _REG.MMIO_REG_READ: self._read_less,
            _REG.EQ_DB: self._ring_eq,
        }
        self.flr()
        if network is not None:
            self.transport = Transport(self, network, paths, tick)
            self.datapath = Datapath(self)

    # Calls of the owner of the device.

    def store(self, bar: int, offset: int, data: bytes) -> None:
        """Executes a posted host store of up to 64 bytes, split at a 64-byte line boundary."""
        space = LINE_BYTES - (offset & (LINE_BYTES - 1))
        if len(data) > space:
            self.store(bar, offset, data[:space])
            self.store(bar, offset + space, data[space:])
        elif bar == defs.EFA_MEM_BAR:
            self.datapath.store_llq(offset, data)
        elif bar == self.limits.db_bar:
            for start, value in dwords(offset, data):
                if value is None:
                    self.event("anomaly_host", what=_Anomaly.PARTIAL, detail=start)
                else:
                    self.datapath.ring(start, value)
        elif bar == defs.EFA_REG_BAR:
            for start, value in dwords(offset, data):
                if value is None:
                    self.event("anomaly_host", what=_Anomaly.PARTIAL, detail=start)
                else:
                    self._store_register(start, value)

    def load(self, bar: int, offset: int, size: int) -> bytes:
        """Reads a BAR (MMIO read); only BAR 0 is readable, other BARs return zeros."""
        if bar != defs.EFA_REG_BAR:
            return bytes(size)
        first, end = offset & ~3, offset + size
        words = b"".join(
            self._read_bar0(start).to_bytes(4, "little") for start in range(first, end, 4)
        )
        return words[offset - first : end - first]

    def receive(self, packet: bytes) -> None:
        """Receives a packet from the fabric; ignored during a reset."""
        if self.in_reset:
            return
        if self._bus_master:
            self.datapath.link.receive(packet)
        else:
            self.when_master(lambda: self.datapath.link.receive(packet))

    def retry(self) -> None:
        """Sends again what met no receive, on a fabric without time."""
        self.datapath.link.retry()

    def flr(self) -> None:
        """Function-level reset: restores the power-on state."""
        self.interrupts.clear()
        self._held, self._waiting_reads = [], 0
        self._cancel()
        self.in_reset = self.reset_finished = False
        self._sample_straps()

    def raise_event(self, group: int, syndrome: int = 0, data: Bytes = b"") -> None:
        """Raises an asynchronous event of the management side; pending while the AENQ is full."""
        if not self.in_reset:
            self.admin.events.raise_event(group, syndrome, data)

    def keep_alive(self) -> None:
        """The keep-alive period has expired."""
        if not self.in_reset:
            self.admin.events.keep_alive()

    def let_time_pass(self) -> bool:
        """Sends the messages that interrupt moderation holds; True if there were any."""
        return self.interrupts.release()

    def set_bus_master(self, enabled: bool) -> None:
        """Bus master enable. While off, work that needs DMA is held; then executed in order."""
        self._bus_master = enabled
        while self._bus_master and self._held:
            self._held.pop(0)[0]()

    def set_msix(self, enable: bool, function_mask: bool) -> None:
        """Sets enable and function mask of the MSI-X capability."""
        self.interrupts.configure(enable, function_mask)

    def snapshot(self) -> dict[str, Any]:
        """The whole state as plain values; two snapshots are equal if and only if the state is."""
        return {
            "registers": dict(self._registers),
            "reset": (self.in_reset, self.reset_finished),
            "interrupts": ([list(entry) for entry in self.interrupts.table],
                           self.interrupts.pending),
            "objects": self.objects.snapshot(),
            "stats": plain(self.stats),
            "version": self.version,
            "admin": self.admin.snapshot(),
            "datapath": self.datapath.snapshot(),
        }  # fmt: skip

    def digest(self) -> str:
        """Digest of the control plane, equal if and only if the control plane is equal: the state
        that commands, registers and resets set.

        Excluded are ring indices and interrupt messages, which every command changes even if
        refused, and the bytes of LLQ memory; the map of written LLQ dwords is included."""
        state = {
            "registers": self._registers,
            "reset": (self.in_reset, self.reset_finished),
            "table": self.interrupts.table,
            "objects": self.objects.snapshot(),
            "stats": plain(self.stats),
            "version": self.version,
            "admin": self.admin.snapshot(),
            "sends": self.datapath.sends.snapshot(),
        }
        return sha256(repr(state).encode() + self.datapath.written_map()).hexdigest()

    # Calls of the parts of the device.

    def event(self, name: str, **values: int) -> None:
        """Reports one step to the observer; the names are those of spec/events.yaml.

        Per-message callers test on_event first, because building the values costs time."""
        if self.on_event is not None:
            self.on_event(name, values)

    def dma_write(self, address: int, data: bytes) -> None:
        """Performs and reports a DMA write to host memory."""
        self.memory.write(address, data)
        if self.on_dma_write is not None:
            self.on_dma_write(address, data)

    def when_master(self, action: Callable[[], object], survives_reset: bool = False) -> None:
        """Executes an action that needs DMA, now or once bus mastering is enabled."""
        if self._bus_master:
            action()
        else:
            self._held.append((action, survives_reset))

    # Registers.

    def _send_message(self, vector: int, address: int, data: int) -> None:
        def send() -> None:
            self.event("irq", vector=vector)
            if self.on_interrupt is not None:
                self.on_interrupt(vector, address, data)

        self.when_master(send)

    def _no_vector(self, vector: int) -> None:
        self.event("anomaly_host", what=_Anomaly.VECTOR, detail=vector)

    def _store_register(self, offset: int, value: int) -> None:
        limits = self.limits
        table = offset - limits.msix_table_offset
        if 0 <= table < limits.msix_vectors * ENTRY_BYTES:
            self.interrupts.write_table(table, value)
        elif self.in_reset and offset not in _DURING_RESET:
            return
        elif offset in self._handlers:
            self._handlers[offset](value)
        elif offset in self._registers:
            self._registers[offset] = value
        else:
            self.event("anomaly_host", what=_Anomaly.REGISTER, detail=offset)

    def _read_register(self, offset: int) -> int:
        profile = self.profile
        if offset == _REG.VERSION:
            return self.version
        if offset == _REG.CONTROLLER_VERSION:
            return profile.controller_version
        if offset == _REG.CAPS:
            return _BITS.CAPS.pack(
                CONTIGUOUS_QUEUE_REQUIRED=1, RESET_TIMEOUT=profile.reset_timeout,
                DMA_ADDR_WIDTH=profile.dma_addr_width, ADMIN_CMD_TO=profile.admin_cmd_to,
            )  # fmt: skip
        if offset == _REG.DEV_STS:
            return _BITS.DEV_STS.pack(
                READY=1, RESET_IN_PROGRESS=self.in_reset, RESET_FINISHED=self.reset_finished
            )
        return 0 if offset in _KNOWN else UNKNOWN

    def _read_bar0(self, offset: int) -> int:
        limits = self.limits
        value = None
        if offset >= limits.msix_pba_offset:
            value = self.interrupts.read_pending(offset - limits.msix_pba_offset)
        elif offset >= limits.msix_table_offset:
            value = self.interrupts.read_table(offset - limits.msix_table_offset)
        else:
            value = self._read_register(offset)
        return UNKNOWN if value is None else value

    def _read_less(self, value: int) -> None:
        request = _BITS.MMIO_REG_READ.unpack(value)
        address = self.register_pair(_REG.MMIO_RESP_LO, _REG.MMIO_RESP_HI) & -_READ_RESPONSE.size
        register = self._read_register(request.REG_OFF)

        def rsp() -> None:
            self._waiting_reads -= 1
            response = _READ_RESPONSE.pack(request.REQ_ID, request.REG_OFF, register)
            self.dma_write(address, response)

        if self._waiting_reads == self.limits.mmio_reads:
            self.event("anomaly_host", what=_Anomaly.READ_LOST, detail=value)
            return
        self._waiting_reads += 1
        self.when_master(rsp, survives_reset=True)

    def register_pair(self, low: int, high: int) -> int:
        """The 64-bit address in a low and a high register."""
        return self._registers[high] << 32 | self._registers[low]

    def _ring_eq(self, value: int) -> None:
        doorbell = _BITS.EQ_DB.unpack(value)
        if doorbell.ARM:
            self.datapath.completions.arm_eq(doorbell.EQN)

    # Resets.

    def _control(self, value: int) -> None:
        if _BITS.DEV_CTL.unpack(value).DEV_RESET:
            if not self.in_reset:
                self.in_reset, self.reset_finished = True, False
                self.event("reset", step=_Step.BEGUN)
                self.interrupts.cancel_pending()
                self._cancel()
                self.event("reset", step=_Step.DRAINED)
        elif self.in_reset:
            self.in_reset, self.reset_finished = False, True
            self._sample_straps()
            self.event("reset", step=_Step.DONE)

    def _sample_straps(self) -> None:
        self.version = self.interface or self.profile.version

    def _cancel(self) -> None:
        """Resets all state except the MSI-X table; DEV_STS stays readable for the driver."""
        self._registers = dict.fromkeys((*_BASES, _REG.MMIO_RESP_LO, _REG.MMIO_RESP_HI), 0)
        self._held = [entry for entry in self._held if entry[1]]
        self.stats = SimpleNamespace(
            tx_bytes=0, tx_pkts=0, rx_bytes=0, rx_pkts=0, rx_drops=0, qkey_viol=0,
            send_bytes=0, send_wrs=0, recv_bytes=0, recv_wrs=0,
            read_wrs=0, read_bytes=0, read_wr_err=0, read_resp_bytes=0,
            write_wrs=0, write_bytes=0, write_wr_err=0, write_recv_bytes=0,
        )  # fmt: skip
        self.objects = Objects(self.limits, self.pool)
        if self.transport is not None:
            self.transport.endpoint.reset()
        self.datapath = Datapath(self)
        self.admin = AdminQueues(self)
