# SPDX-License-Identifier: Apache-2.0
"""Connects the data path with a fabric that loses and reorders packets, by the transport."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.device.link import Gone, report_drop
from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import PktHdrFields
from efa_cosim.layouts.wire import mask, precompiled
from efa_cosim.transport.endpoint import Endpoint
from efa_cosim.transport.message import Message, PayloadGone
from efa_cosim.transport.network import Network, Timer
from efa_cosim.transport.packets import BY_SENDER, constants_with

if TYPE_CHECKING:
    from efa_cosim.device.datapath import Datapath
    from efa_cosim.device.device import Device

_HAS_IMM = mask(defs.SrdHdr.has_imm)
_Opcode = defs.PktOpcode
_Status = defs.IoCompStatus
_SOURCE = precompiled(defs.SrdHdr, "src_node")


class _Attached:
    """A network whose packets pass the device before they reach the endpoint."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.at, self.send, self.reset = network.at, network.send, network.reset

    @property
    def now(self) -> int:
        return self._network.now

    def attach(self, node: int, receive: Callable[[bytes], object]) -> None:
        """The device attaches itself."""


class _Body(Sequence[bytes]):
    """The payload of a message of one packet: stored, or read for each transmission."""

    def __init__(self, body: bytes, read_again: Callable[[], bytes] | None) -> None:
        self._body, self._read_again = body, read_again

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:
        if self._read_again is None:
            return self._body
        try:
            return self._read_again()
        except Gone as error:
            raise PayloadGone(error.status) from None


class Transport:
    """The endpoint of a device and what connects the endpoint with the present data path."""

    def __init__(
        self, device: Device, network: Network, paths: int | None, tick_cycles: int
    ) -> None:
        self.device = device
        self.endpoint = Endpoint(
            _Attached(network), device.node_id, 1 << device.limits.node_w, self._execute,
            anomaly=self._report, datagram=self._datagram, paths=paths,
            constants=constants_with(tick_cycles=tick_cycles))  # fmt: skip
        network.attach(device.node_id, device.receive)

    def _execute(self, packet: bytes) -> int:
        datapath = self.device.datapath
        status = datapath.execute(packet, packet[0])
        if status is None:
            known = datapath.responder.enabled
            status = (_Status.REMOTE_ERROR_BAD_STATUS if known
                      else _Status.REMOTE_ERROR_FEATURE_MISMATCH)
        return int(status)

    def _report(self, cause: defs.TransportAnomaly, packet: bytes) -> None:
        if cause in BY_SENDER:
            self.device.stats.rx_drops += 1
            self.device.event("anomaly_ack", what=cause, node=_SOURCE.unpack_from(packet)[0])
        else:
            report_drop(self.device, cause, packet)

    def _datagram(self, packet: bytes) -> None:
        self.device.datapath.execute(packet, packet[0])


class ReliableLink:
    """Sends the packets of a data path by the transport: each is a message of its own."""

    def __init__(self, device: Device, datapath: Datapath, transport: Transport) -> None:
        self.device, self.datapath = device, datapath
        self.endpoint = transport.endpoint
        self._messages: dict[int, list[Message]] = {}
        self._watched: dict[int, Timer] = {}

    def transmit(
        self,
        opcode: int,
        src_qpn: int,
        dst_qpn: int,
        qkey: int,
        imm: int | None,
        node: int,
        body: bytes,
        message_id: int | None = None,
        read_again: Callable[[], bytes] | None = None,
        rnr_retry: int = 0,
    ) -> None:
        flags = 0 if imm is None else _HAS_IMM
        if opcode == _Opcode.UD_SEND:
            self.endpoint.send_datagram(PktHdrFields.pack(
                opcode=opcode, flags=flags, length=len(body), src_qpn=src_qpn, dst_qpn=dst_qpn,
                qkey=qkey, imm=imm or 0, src_node=self.device.node_id, dst_node=node,
            ) + body)  # fmt: skip
            return
        message = Message(
            node, _Body(body, read_again),
            lambda one, status: self._done(message_id, one, status),
            src_qpn, dst_qpn, qkey, opcode, flags, imm or 0, rnr_retry,
        )  # fmt: skip
        if message_id is not None:
            self._messages.setdefault(message_id, []).append(message)
        self.endpoint.post(message)

    def _done(self, message_id: int | None, message: Message, status: int) -> None:
        if message_id is None:
            return
        open_messages = self._messages.get(message_id)
        if open_messages is None:
            return
        open_messages.remove(message)
        if not open_messages:
            del self._messages[message_id]
        self.datapath.sends.outcome(message_id, status)

    def receive(self, packet: bytes) -> None:
        self.endpoint.receive(packet)

    def cancel(self, message_id: int) -> None:
        timer = self._watched.pop(message_id, None)
        if timer is not None:
            timer.cancel()
        for message in self._messages.pop(message_id, []):
            self.endpoint.cancel(message)

    def retry(self) -> None:
        """The transport sends again when the back-off has ended."""

    def watch(self, message_id: int) -> None:
        network, constants = self.endpoint.network, self.endpoint.constants

        def check() -> None:
            if self.datapath.sends.rdma.check_progress(message_id, constants.read_stalls):
                self.watch(message_id)

        cycle = network.now + constants.read_ticks * constants.tick_cycles
        self._watched[message_id] = network.at(cycle, check)

    def snapshot(self) -> object:
        return sorted(self._messages)
