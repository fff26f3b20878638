# SPDX-License-Identifier: Apache-2.0
"""Maps numbers of a recorded device to those of the current device, learned from responses."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import crc16

if TYPE_CHECKING:
    from efa_cosim.layouts.layout import Bytes, Struct

Op = defs.AdminAqOpcode
DESCRIPTOR = defs.IoRxDesc
# Numbers that no device allocates; used for a number that the session never received.
NO_QP = 0xFFFF
NO_KEY = 0

# Command fields with numbers that the device allocated, and the kind of each number.
_COMMAND_FIELDS = {
    Op.CREATE_QP: {"pd": "pd", "uar": "uar", "send_cq_idx": "cq", "recv_cq_idx": "cq"},
    Op.MODIFY_QP: {"qp_handle": "qp_handle"},
    Op.QUERY_QP: {"qp_handle": "qp_handle"},
    Op.DESTROY_QP: {"qp_handle": "qp_handle"},
    Op.CREATE_AH: {"pd": "pd"},
    Op.DESTROY_AH: {"ah": "ah", "pd": "pd"},
    Op.REG_MR: {"pd": "pd"},
    Op.DEREG_MR: {"l_key": "l_key"},
    Op.CREATE_CQ: {"uar": "uar"},
    Op.DESTROY_CQ: {"cq_idx": "cq"},
    Op.DEALLOC_PD: {"pd": "pd"},
    Op.DEALLOC_UAR: {"uar": "uar"},
    Op.DESTROY_EQ: {"eqn": "eq"},
    Op.ALLOC_MR: {"pd": "pd"},
    Op.CREATE_EVENT_COUNTER: {"uar": "uar"},
    Op.DESTROY_EVENT_COUNTER: {"cntr_handle": "counter"},
    Op.MODIFY_EVENT_COUNTER: {"cntr_handle": "counter"},
}
# Response fields in which the device returns such numbers.
_RESPONSE_FIELDS: dict[Op, dict[str, str | None]] = {
    Op.ALLOC_PD: {"pd": "pd"},
    Op.ALLOC_UAR: {"uar": "uar"},
    Op.CREATE_EQ: {"eqn": "eq"},
    Op.CREATE_CQ: {"cq_idx": "cq", "db_offset": None, "flags": None},
    Op.CREATE_AH: {"ah": "ah"},
    Op.REG_MR: {"l_key": "l_key", "r_key": "r_key"},
    Op.ALLOC_MR: {"l_key": "l_key", "r_key": "r_key"},
    Op.CREATE_EVENT_COUNTER: {"cntr_handle": "counter"},
    Op.CREATE_QP: {"qp_handle": "qp_handle", "qp_num": "qp_num", "sq_db_offset": None,
                   "rq_db_offset": None, "llq_descriptors_offset": None},
}
# Bodies that depend on the device type or its statistics; not compared.
_FREE_BODIES = (Op.GET_FEATURE, Op.GET_STATS)
_KINDS = ("pd", "uar", "cq", "eq", "qp_num", "qp_handle", "ah", "l_key", "r_key",
          "counter")


class Unplayable(Exception):
    """The session contains a step that cannot be translated to this device."""


@dataclass
class SendRing:
    """LLQ ring of a queue pair: recorded and current offset, and the bytes stored so far."""

    recorded: int
    ours: int
    entry: type[defs.IoTxWqe] | type[defs.IoTxWqe128]
    image: bytearray

    def covers(self, offset: int) -> bool:
        """True if the recorded BAR offset is inside the ring."""
        return self.recorded <= offset < self.recorded + len(self.image)


@dataclass
class QueuePairInfo:
    """State of a queue pair that the player needs; `kind` is its type (defs.AdminQpType)."""

    number: int
    kind: int
    rq_base: int
    rq_bytes: int
    rnr_retry_set: bool = False


@dataclass
class PendingCommand:
    """A command whose response has not arrived."""

    opcode: Op
    recorded: Struct
    ours: Struct


class Translation:
    """Maps from numbers of the recorded device to those of the current device.

    - `nodes`: the translations of all devices of the fabric; a new one adds itself
    """

    def __init__(self, nodes: list[Translation] | None = None) -> None:
        self.nodes = [] if nodes is None else nodes
        self.nodes.append(self)
        self.own_gid: dict[bytes, bytes] = {}
        self.reset()

    def reset(self) -> None:
        """Removes all objects, as a device reset does."""
        self.maps: dict[str, dict[int, int]] = {kind: {} for kind in _KINDS}
        # BAR and offset of each recorded doorbell to those of the current one.
        self.doorbells: dict[tuple[int, int], tuple[int, int]] = {}
        self.send_rings: list[SendRing] = []
        self._doorbell_rings: dict[tuple[int, int], SendRing] = {}  # by recorded doorbell
        self.queue_pairs: dict[int, QueuePairInfo] = {}
        self.pending: dict[int, PendingCommand] = {}
        self._gids: dict[int, bytes] = {}  # recorded AH to the GID of its node
        self.db_bars: tuple[int, int] | None = None  # recorded and current

    def number(self, kind: str, recorded: int) -> int:
        """The current number of a recorded one; raises Unplayable if unknown."""
        try:
            return self.maps[kind][recorded]
        except KeyError:
            raise Unplayable(f"{kind} {recorded:#x} is used, but the session has no response that "
                             "allocates it") from None

    # Admin commands

    def command(self, entry: bytes) -> bytes:
        """An AQ entry with translated numbers; registers it as pending."""
        header = defs.AdminAqCommonDesc.unpack(entry)
        if header.opcode not in defs.COMMANDS:
            raise Unplayable(f"unknown admin opcode {int(header.opcode)}")
        opcode = Op(header.opcode)
        layout = defs.COMMANDS[opcode][0]
        recorded, ours = layout.unpack(entry), layout.unpack(entry)
        for name, kind in _COMMAND_FIELDS.get(opcode, {}).items():
            setattr(ours, name, self.number(kind, getattr(recorded, name)))
        if isinstance(ours, defs.AdminCreateCqCmd) and ours.interrupt_mode_enabled:
            ours.eqn = self.number("eq", ours.eqn)
        if isinstance(ours, defs.AdminCreateAhCmd):
            peer = self._node_of(ours.dest_addr)
            if peer is not None:
                ours.dest_addr = peer.own_gid[ours.dest_addr]
        command_id = header.command_id__command_id
        if command_id in self.pending:
            raise Unplayable(f"command id {command_id:#x} is still in use by another command")
        self.pending[command_id] = PendingCommand(opcode, recorded, ours)
        return ours.pack() + entry[layout.SIZE :]

    def response_differences(self, recorded: bytes, ours: bytes) -> list[str]:
        """Differences between two ACQ entries in compared fields, as readable texts."""
        texts = [] if _crc_is_right(ours) else ["checksum is wrong"]
        expected = defs.AdminAcqCommonDesc.unpack(recorded)
        header = defs.AdminAcqCommonDesc.unpack(ours)
        texts += _field_differences(expected, header, skip=("checksum",))
        pending = self.pending.get(expected.command_id)
        if pending is None:
            raise Unplayable(f"response to command {expected.command_id:#x}, which was not posted")
        if texts or pending.opcode in _FREE_BODIES or expected.status:
            return texts
        layout = defs.COMMANDS[pending.opcode][1]
        skip = ("acq_common_desc", *_RESPONSE_FIELDS.get(pending.opcode, ()))
        if isinstance(pending.recorded, defs.AdminQueryQpCmd):
            info = self.queue_pairs.get(pending.recorded.qp_handle)
            if info is not None and not info.rnr_retry_set:
                # Software never set it: the device's initial value is not compared.
                skip = (*skip, "rnr_retry")
        return _field_differences(layout.unpack(recorded), layout.unpack(ours), skip)

    def learn(self, recorded: bytes, ours: bytes) -> PendingCommand:
        """Learns the numbers of a completed command; returns the command."""
        header = defs.AdminAcqCommonDesc.unpack(recorded)
        pending = self.pending.pop(header.command_id)
        if header.status:
            return pending
        layout = defs.COMMANDS[pending.opcode][1]
        theirs, own = layout.unpack(recorded), layout.unpack(ours)
        for name, kind in _RESPONSE_FIELDS.get(pending.opcode, {}).items():
            if kind is not None:
                self.maps[kind][int(getattr(theirs, name))] = int(getattr(own, name))
        special = getattr(self, f"_learn_{pending.opcode.name.lower()}", None)
        if special is not None:
            special(pending.recorded, theirs, own)
        return pending

    def _learn_get_feature(
        self,
        command: defs.AdminGetFeatureCmd,
        recorded: defs.AdminGetFeatureResp,
        ours: defs.AdminGetFeatureResp,
    ) -> None:
        feature = command.feature_common.feature_id
        if feature == defs.AdminAqFeatureId.DEVICE_ATTR:
            self.db_bars = (recorded.u.device_attr.db_bar, ours.u.device_attr.db_bar)
        elif feature == defs.AdminAqFeatureId.NETWORK_ATTR:
            self.own_gid[recorded.u.network_attr.addr] = ours.u.network_attr.addr

    def _learn_create_cq(
        self,
        _command: defs.AdminCreateCqCmd,
        recorded: defs.AdminCreateCqResp,
        ours: defs.AdminCreateCqResp,
    ) -> None:
        # The current device may offer an unused doorbell, but must not lack one.
        if recorded.db_valid and not ours.db_valid:
            raise Unplayable("CREATE_CQ returned no doorbell, the recorded device returned one")
        if recorded.db_valid:
            self._pair_doorbells(recorded.db_offset, ours.db_offset)

    def _learn_create_ah(
        self,
        command: defs.AdminCreateAhCmd,
        recorded: defs.AdminCreateAhResp,
        _ours: defs.AdminCreateAhResp,
    ) -> None:
        self._gids[recorded.ah] = command.dest_addr

    def _node_of(self, gid: bytes | None) -> Translation | None:
        """The translation of the node with a recorded GID, None for a node outside the session."""
        return next((one for one in self.nodes if gid in one.own_gid), None)

    def _learn_create_qp(
        self,
        command: defs.AdminCreateQpCmd,
        recorded: defs.AdminCreateQpResp,
        ours: defs.AdminCreateQpResp,
    ) -> None:
        self._pair_doorbells(recorded.sq_db_offset, ours.sq_db_offset)
        self._pair_doorbells(recorded.rq_db_offset, ours.rq_db_offset)
        size, depth = (command.qp_alloc_size.send_queue_ring_size,
                       command.qp_alloc_size.send_queue_depth)
        entry = defs.IoTxWqe128 if size == depth * defs.IoTxWqe128.SIZE else defs.IoTxWqe
        start = recorded.llq_descriptors_offset
        self.send_rings = [ring for ring in self.send_rings
                           if ring.recorded + len(ring.image) <= start
                           or start + size <= ring.recorded]
        ring = SendRing(start, ours.llq_descriptors_offset, entry, bytearray(size))
        self.send_rings.append(ring)
        self._doorbell_rings[self._bars()[0], recorded.sq_db_offset] = ring
        self.queue_pairs[recorded.qp_handle] = QueuePairInfo(
            recorded.qp_num, command.qp_type, command.rq_base_addr,
            command.qp_alloc_size.recv_queue_ring_size)

    def _learn_modify_qp(
        self, command: defs.AdminModifyQpCmd, _recorded: Struct, _ours: Struct
    ) -> None:
        if command.modify_mask__rnr_retry:
            self.queue_pairs[command.qp_handle].rnr_retry_set = True

    def _learn_destroy_qp(
        self, command: defs.AdminDestroyQpCmd, _recorded: Struct, _ours: Struct
    ) -> None:
        self.queue_pairs.pop(command.qp_handle, None)

    def sources(self, number: int) -> list[int]:
        """The current numbers of a recorded QP that sent a message: one for each node that has it.
        """
        maps = [one.maps["qp_num"] for one in self.nodes]
        return [each[number] for each in maps if number in each]

    def qp_kind(self, number: int) -> int | None:
        """Type of the live queue pair with a recorded number, None if there is none."""
        for info in self.queue_pairs.values():
            if info.number == number:
                return info.kind
        return None

    def _bars(self) -> tuple[int, int]:
        if self.db_bars is None:
            raise Unplayable("a doorbell offset is used before DEVICE_ATTR reported the doorbell "
                             "BAR")
        return self.db_bars

    def _pair_doorbells(self, recorded: int, ours: int) -> None:
        recorded_bar, our_bar = self._bars()
        self.doorbells[recorded_bar, recorded] = our_bar, ours

    # Send work requests and receive descriptors

    def send_ring(self, offset: int) -> SendRing:
        """The LLQ ring at a recorded BAR offset; raises Unplayable if there is none."""
        for ring in self.send_rings:
            if ring.covers(offset):
                return ring
        raise Unplayable(f"store to offset {offset:#x}, where no queue has a doorbell or LLQ ring")

    def holds(self, ring: SendRing) -> bool:
        """Returns True unless a later queue pair has the place of the ring."""
        return any(one is ring for one in self.send_rings)

    def doorbell_ring(self, bar: int, offset: int) -> SendRing | None:
        """The ring of a recorded send doorbell, None for another doorbell."""
        return self._doorbell_rings.get((bar, offset))

    def work_request(self, ring: SendRing, start: int) -> bytes:
        """The WQE at `start` of a ring's image, with translated numbers."""
        entry = ring.entry.unpack(ring.image[start : start + ring.entry.SIZE])
        meta = entry.meta
        # The node may have reported its GID after the AH was created.
        peer = self._node_of(self._gids.get(meta.ah))
        meta.ah = self.maps["ah"].get(meta.ah, defs.LIMITS.reserved_ah)
        if peer is not None:
            meta.dest_qp_num = peer.maps["qp_num"].get(meta.dest_qp_num, NO_QP)
        if meta.op_type == defs.IoSendOpType.SEND:
            pieces = [] if meta.inline_msg else entry.data.sgl[: meta.length]
        else:
            remote = entry.data.rdma_req.remote_mem
            remote.rkey = self.maps["r_key"].get(remote.rkey, NO_KEY)
            pieces = [] if meta.inline_msg else entry.data.rdma_req.local_mem[: meta.length]
        for piece in pieces:
            piece.lkey__lkey = self.maps["l_key"].get(piece.lkey__lkey, NO_KEY)
        return entry.pack()

    def memory(self, address: int, data: bytes) -> bytes:
        """Host memory content; receive descriptors get translated keys."""
        for info in self.queue_pairs.values():
            start = address - info.rq_base
            if not -len(data) < start < info.rq_bytes:
                continue
            if start % DESCRIPTOR.SIZE or len(data) % DESCRIPTOR.SIZE or start < 0:
                raise Unplayable(f"host read of {len(data)} bytes at {address:#x} is not a whole "
                                 "number of receive descriptors")
            image = bytearray(data)
            for at in range(0, len(image), DESCRIPTOR.SIZE):
                descriptor = DESCRIPTOR.over(memoryview(image)[at:])
                descriptor.lkey = self.maps["l_key"].get(descriptor.lkey, NO_KEY)
            return bytes(image)
        return data


def _crc_is_right(entry: Bytes) -> bool:
    clean = defs.AdminAcqEntry.unpack(entry)
    checksum = clean.acq_common_descriptor.checksum
    clean.acq_common_descriptor.checksum = 0
    return crc16(clean.pack()) == checksum


def _field_differences(
    expected: Struct, came: Struct, skip: Container[str] = ()
) -> list[str]:
    return [
        f"{name}: expected {getattr(expected, name)!r}, got {getattr(came, name)!r}"
        for name, attribute in expected.FIELDS.items()
        if name not in skip and hasattr(attribute, "dtype")
        and getattr(expected, name) != getattr(came, name)
    ]
