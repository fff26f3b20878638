# SPDX-License-Identifier: Apache-2.0
"""Finds the packet of the model for each RDMA packet that a device sends for the first time.

Decision 0010 leaves open in which order packets of operations leave, and which number a read has.
Both follow the device; the content of each packet is that of the model:

- Any packet that the model of the device has sent may be the next one.
- The first request of a read shows the number that the device gives it. All other packets of the
  read have the same one.
- The first error of an operation stops further packets. The model may have sent packets that the
  device holds back: they are withdrawn. Some of them may leave: the device may have numbered them
  before.
- A region of the responder may go before a response leaves: the response then has no payload.
- A read without progress requests 0 bytes at a time of the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from efa_cosim.device.rdma import Transfer
from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import PktHdrFields, PktRdmaFields
from tb.env.difference import Where, differs
from tb.env.predictor import Route, route_of
from tb.lib.failure import Named

if TYPE_CHECKING:
    from efa_cosim.device.objects import Qp
    from tb.env.predictor import Predictor

WRITE, REQUEST = int(defs.PktOpcode.RDMA_WRITE), int(defs.PktOpcode.READ_REQUEST)
RESPONSE = int(defs.PktOpcode.READ_RESPONSE)
OPCODES = frozenset({WRITE, REQUEST, RESPONSE})
HEADER_BYTES = defs.PktHdr.SIZE + defs.PktRdma.SIZE
_AT = defs.PktHdr.SIZE
_BAD_ADDRESS = int(defs.IoCompStatus.REMOTE_ERROR_BAD_ADDRESS)


def rdma_of(packet: bytes) -> PktRdmaFields:
    """Returns the RDMA header of a packet."""
    return PktRdmaFields.read(packet, _AT)


def with_read_id(packet: bytes, read_id: int) -> bytes:
    """Returns the packet with another number of its read."""
    extension = PktRdmaFields.pack(**rdma_of(packet)._replace(read_id=read_id)._asdict())
    return packet[:_AT] + extension + packet[HEADER_BYTES:]


def is_failed(packet: bytes) -> bool:
    """True for a response without payload: its region has gone."""
    return (
        packet[0] == RESPONSE and len(packet) == HEADER_BYTES
        and rdma_of(packet).status == _BAD_ADDRESS
    )  # fmt: skip


def failed(response: bytes) -> bytes:
    """Returns a response as it is sent when its region has gone."""
    head = PktHdrFields.pack(**PktHdrFields.read(response)._replace(
        length=defs.PktRdma.SIZE)._asdict())  # fmt: skip
    return head + PktRdmaFields.pack(**rdma_of(response)._replace(status=_BAD_ADDRESS)._asdict())


class RdmaPackets:
    """The RDMA packets that the models of all devices owe."""

    def __init__(self, devices: Sequence[Predictor]) -> None:
        self._devices = devices
        self._by_node = {one.device.node_id: d for d, one in enumerate(devices)}
        # Of each initiator: the number of a read in the device by that in the model, and back.
        self._numbers: list[dict[int, int]] = [{} for _ in devices]
        self._owners: list[dict[int, int]] = [{} for _ in devices]
        # Reads by their number in the model; what requests of peers read, by peer and the number of
        # the peer's read: key of the region, QP, and how often the QP had been reset.
        self._reads: list[dict[int, Transfer]] = [{} for _ in devices]
        self._requests: list[dict[tuple[int, int], tuple[int, Qp, int]]] = [{} for _ in devices]
        # Failed operations whose packets are withdrawn.
        self._failed: list[set[int]] = [set() for _ in devices]

    def find(
        self, where: Where, packet: bytes, again: Iterable[bytes]
    ) -> tuple[bytes, bytes] | None:
        """Returns the packet of the model that a device sends; None if there is none.

        The second one is what the device has made of the packet: a response whose region or QP has
        gone has no payload. `again` are the packets that are sent again after RNR. The caller
        removes the packet.
        """
        device, route = where[0], route_of(packet)
        owed = (*again, *self._devices[device].packets.get(route, ()))
        for model in owed:
            wanted = self.as_sent(device, model, packet)
            if wanted[_AT:] == packet[_AT:] and same_head(wanted, packet):
                self._note(where, model, packet)
                return model, model
        if is_failed(packet):
            for model in owed:
                if self.may_fail(device, model):
                    wanted = failed(self.as_sent(device, model, packet))
                    if wanted[_AT:] == packet[_AT:] and same_head(wanted, packet):
                        return model, failed(model)
        return None

    def may_fail(self, device: int, model: bytes) -> bool:
        """True for a response whose region has gone, or whose QP was reset or destroyed."""
        if model[0] != RESPONSE:
            return False
        node, number = PktHdrFields.read(model).dst_node, rdma_of(model).read_id
        request = self._requests[device].get((node, number))
        if request is None:
            return False
        key, qp, resets = request
        return qp.resets != resets or self._devices[device].device.objects.mr_by_key(key) is None

    def requested(self, device: int, model: bytes) -> None:
        """Takes a read request that a device executes."""
        head, extension = PktHdrFields.read(model), rdma_of(model)
        qp = self._devices[device].device.objects.qp_by_number(head.dst_qpn)
        if qp is not None:
            self._requests[device][head.src_node, extension.read_id] = (
                extension.rkey, qp, qp.resets)  # fmt: skip

    def read_of(self, device: int, number: int) -> Transfer | None:
        """Returns a read of a device by its number in the model, also one that has ended."""
        return self._reads[device].get(number)

    def as_sent(self, device: int, model: bytes, packet: bytes) -> bytes:
        """Returns a packet of the model with the number that the device has for its read.

        `packet` is that of the device: the first request of a read may have any number.
        """
        if model[0] == WRITE or len(model) < HEADER_BYTES:
            return model
        head, known = PktHdrFields.read(model), rdma_of(model).read_id
        initiator: int | None = device
        if model[0] == RESPONSE:
            initiator = self._by_node.get(head.dst_node)
        if initiator is None:
            return model
        number = self._numbers[initiator].get(known)
        if number is None and model[0] == REQUEST and len(packet) >= HEADER_BYTES:
            number = rdma_of(packet).read_id
        return model if number is None else with_read_id(model, number)

    def _note(self, where: Where, model: bytes, packet: bytes) -> None:
        """Takes the number of a read, and a withdrawn packet that leaves."""
        device = where[0]
        if model[0] == RESPONSE:
            return
        message_id = PktHdrFields.read(model).msg_id
        messages = self._devices[device].device.datapath.sends.messages
        if model[0] == REQUEST:
            number = rdma_of(packet).read_id
            owner = self._owners[device].setdefault(number, message_id)
            if owner != message_id and owner in messages:
                raise differs(
                    where, f"read_id {number:#x} of a new read: that of an open one",
                    Named("read_id of efa_pkt_rdma", "one of no open read", f"{number:#x}"),
                )  # fmt: skip
            self._owners[device][number] = message_id
            self._numbers[device].setdefault(message_id, number)
        transfer = messages.get(message_id)
        if model[0] == REQUEST and isinstance(transfer, Transfer):
            self._reads[device][message_id] = transfer
        if message_id in self._failed[device]:
            self._count(device, model, 1)
            if isinstance(transfer, Transfer):
                transfer.open += 1

    def _count(self, device: int, packet: bytes, by: int) -> None:
        """Counts a packet in the statistics of the model, or takes it back."""
        stats = self._devices[device].device.stats
        stats.tx_pkts += by
        stats.tx_bytes += by * (len(packet) - HEADER_BYTES)

    def withdraw(self, device: int, message_id: int, again: Iterable[bytes]) -> None:
        """Takes back what the model has sent of a failed operation and the device has not.

        `again` are the packets of the device that are sent again after RNR.
        """
        datapath = self._devices[device].device.datapath
        transfer = datapath.sends.messages.get(message_id)
        if not isinstance(transfer, Transfer) or transfer.status == defs.IoCompStatus.OK:
            return
        if message_id in self._failed[device]:
            return
        self._failed[device].add(message_id)
        opcode = REQUEST if transfer.op == defs.IoSendOpType.RDMA_READ else WRITE
        node = self._devices[device].device.node_id
        route = Route(opcode, transfer.qp.number, transfer.dest, node, transfer.node)
        held = [
            packet for packet in (*again, *self._devices[device].packets.get(route, ()))
            if PktHdrFields.read(packet).msg_id == message_id
        ]  # fmt: skip
        transfer.open -= len(held)
        for packet in held:
            self._count(device, packet, -1)
        datapath.sends.rdma.advance(message_id, transfer)

    def is_due(self, device: int, packet: bytes) -> bool:
        """True for a packet that the device has to send."""
        if packet[0] == RESPONSE:
            return True
        messages = self._devices[device].device.datapath.sends.messages
        transfer = messages.get(PktHdrFields.read(packet).msg_id)
        return isinstance(transfer, Transfer) and transfer.status == defs.IoCompStatus.OK

    @staticmethod
    def nearest(owed: Sequence[bytes], packet: bytes) -> bytes:
        """Returns the packet with the most equal fields of the RDMA header, for a report."""
        found = rdma_of(packet) if len(packet) >= HEADER_BYTES else ()
        return max(
            owed, key=lambda one: sum(x == y for x, y in zip(rdma_of(one), found, strict=False))
        )

    def ask(self, device: int, packet: bytes) -> None:
        """Lets the model request 0 bytes of a read without progress, as the device does."""
        extension = rdma_of(packet)
        message_id = self._owners[device].get(extension.read_id)
        if packet[0] != REQUEST or extension.count or not extension.total or message_id is None:
            return
        # The first check may only take note of progress.
        for _ in range(2):
            self._devices[device].device.datapath.sends.rdma.check_progress(
                message_id, defs.TRANSPORT.read_stalls
            )

    def forget(self, device: int) -> None:
        """Forgets the reads of a device, which a reset has ended."""
        self._numbers[device].clear()
        self._owners[device].clear()
        self._failed[device].clear()
        self._reads[device].clear()
        self._requests[device].clear()


def same_head(wanted: bytes, packet: bytes) -> bool:
    """True for headers equal except for the fields that the transport gives."""
    free = {"psn": 0, "msg_id": 0, "path": 0, "reserved": 0}
    return PktHdrFields.read(wanted)._replace(**free) == PktHdrFields.read(packet)._replace(**free)
