# SPDX-License-Identifier: Apache-2.0
"""Holds RDMA packets whose effect depends on the moment at which a region goes.

A model deregisters a region when its device accepts the doorbell, the device some time later, at
the latest when it writes the response. Packets that come in between may take effect or not. The
report of the device (rx_validated) tells which: the packet, and all later ones of its queue pair,
take effect in the model when they are reported.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from efa_cosim.device.rdma import Transfer, scatter
from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import PktHdrFields
from tb.env.payload import Message
from tb.env.rdma_packets import HEADER_BYTES, OPCODES, RESPONSE, RdmaPackets, rdma_of

if TYPE_CHECKING:
    from tb.env.predictor import Predictor
    from tb.env.transactions import Event

_RDMA_BYTES = defs.PktRdma.SIZE


class Late(NamedTuple):
    """A packet that waits for its report: its place among the packets of its queue pair, as it
    came, and as the model has it."""

    number: int
    packet: bytes
    model: bytes


class LatePackets:
    """The packets of one device that wait for their reports, by the index of their queue pair."""

    def __init__(self, predictor: Predictor, device: int, rdma: RdmaPackets) -> None:
        self._predictor, self._device, self._rdma = predictor, device, rdma
        self._mask = (1 << predictor.device.limits.qpn_w) - 1
        self._executed: Counter[int] = Counter()
        self._reported: Counter[int] = Counter()
        self._waiting: defaultdict[int, deque[Late]] = defaultdict(deque)

    def count(self, packet: bytes) -> int:
        """Counts a packet that the device executes; returns the index of its queue pair."""
        queue = PktHdrFields.read(packet).dst_qpn & self._mask
        self._executed[queue] += 1
        return queue

    def hold(self, packet: bytes, model: bytes) -> bool:
        """Counts a packet; returns True if it waits for its report."""
        queue = self.count(packet)
        if not self._waiting[queue] and not self._is_open(model):
            return False
        self._waiting[queue].append(Late(self._executed[queue], packet, model))
        return True

    def _is_open(self, model: bytes) -> bool:
        """True for a packet that may take effect or not."""
        if model[0] not in OPCODES or len(model) < HEADER_BYTES:
            return False
        extension, keys = rdma_of(model), self._predictor.leaving_keys()
        if model[0] != RESPONSE:
            return extension.rkey in keys
        transfer = self._rdma.read_of(self._device, extension.read_id)
        return transfer is not None and (
            transfer.lkey in keys or self._ended(extension.read_id, transfer)
        )

    def _ended(self, number: int, transfer: Transfer) -> bool:
        """True for a read that has failed in the model; the device may still place responses."""
        messages = self._predictor.device.datapath.sends.messages
        return messages.get(number) is not transfer or bool(transfer.status)

    def report(self, event: Event) -> list[tuple[Late, bool]]:
        """Takes a report; returns the packet that it is for, and whether it takes effect, if the
        packet has waited."""
        seen = defs.EVENTS.rx_validated.unpack(event.data)
        self._reported[seen.qpn] += 1
        waiting = self._waiting[seen.qpn]
        if not waiting or waiting[0].number != self._reported[seen.qpn]:
            return []
        late = waiting.popleft()
        effect = seen.status != defs.IoCompStatus.REMOTE_ERROR_BAD_ADDRESS
        if late.model[0] == RESPONSE:
            # The device accepts each response; the length tells whether it places its bytes.
            effect = seen.length == PktHdrFields.read(late.packet).length - _RDMA_BYTES
        return [(late, effect)]

    def place_ended(self, model: bytes) -> Message | None:
        """Places a response of a read that has failed in the model; None if it is still open."""
        extension = rdma_of(model)
        transfer = self._rdma.read_of(self._device, extension.read_id)
        if transfer is None or not self._ended(extension.read_id, transfer):
            return None
        device, data = self._predictor.device, model[HEADER_BYTES:]
        region: Any = device.objects.mr_by_key(transfer.lkey)
        message = Message()
        if region is not None:
            pieces = region.pieces(transfer.address + extension.offset, len(data))
            self._predictor.write_for(message, lambda: scatter(device, pieces, data))
        return message

    def outstanding(self) -> int:
        """Returns the number of packets without a report."""
        return sum(map(len, self._waiting.values()))
