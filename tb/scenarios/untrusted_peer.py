# SPDX-License-Identifier: Apache-2.0
"""Lets a node of the fabric send any packet to devices that exchange messages.

The fabric keeps the source node of a packet true: an untrusted node forges every other field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.host.endpoints import QKEY, SRD, Endpoint, Node
from efa_cosim.host.queue_pair import SendWr
from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.packets import BITMAP_BYTES, PSN_MASK
from efa_cosim.transport.sender import REFUSALS
from tb.lib.srd_checks import Checks
from tb.scenarios.peer import SILENT, await_quiet_end
from tb.scenarios.reliable import nodes_of, poll, poll_sends, streams

if TYPE_CHECKING:
    from random import Random

OPCODE, STATUS = defs.PktOpcode, defs.IoCompStatus
MOST_PAYLOAD = 4096
CANARY_BYTES = 1 << 16
# Messages of each victim in a batch; packets of the victims that the untrusted node remembers.
MESSAGES, SEEN = 4, 100
NUMBERS = (0, 1, 2, 3, 255, 256, 257, 0x7FFF, 0x8000, 0xFFFF)
PSNS = (0, 1, 2, 100, 255, 256, 257, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FF00, 0xFFFF_FFFF)


class Attack(AssertionError):
    """The untrusted node has changed what it must not reach."""


class UntrustedNode:
    """Makes packets of an untrusted node.

    - `source`: its node; `targets`: nodes of the victims
    - `queues`: queue pairs of the victims
    - `seen`: packets that the victims have sent to it, of which it returns some
    """

    def __init__(
        self, source: int, targets: Sequence[int], queues: Sequence[int], rng: Random
    ) -> None:
        self.source, self.targets, self.queues, self.rng = source, targets, queues, rng
        self.seen: list[bytes] = []

    def packet(self) -> bytes:
        """Returns the next packet."""
        rng = self.rng
        target = rng.choice(self.targets)
        kind = rng.randrange(8)
        if kind == 0:
            made = rng.randbytes(rng.choice((1, 31, 32, 33, 64, 65, 500)))
        elif kind == 1 and self.seen:
            old = rng.choice(self.seen)
            at = rng.randrange(len(old))
            made = old[:at] + bytes([old[at] ^ 1 << rng.randrange(8)]) + old[at + 1 :]
        elif kind == 2 and self.seen:
            made = self._answer(rng.choice(self.seen))
        elif kind <= 4:
            made = self._acknowledgement(target)
        else:
            made = self._data(target)
        packet = bytearray(made)
        if rng.random() < 0.05:
            packet = packet[: rng.randrange(1, len(packet) + 1)]
        elif rng.random() < 0.05:
            packet += rng.randbytes(rng.randrange(1, 200))
        self._mark(packet)
        return bytes(packet)

    def _mark(self, packet: bytearray) -> None:
        """Gives a packet the true source node, as far as it reaches."""
        at = defs.SrdHdr.src_node.offset
        if len(packet) >= at + 2:
            packet[at : at + 2] = self.source.to_bytes(2, "little")

    def _number(self) -> int:
        rng = self.rng
        return rng.choice(NUMBERS) if rng.random() < 0.8 else rng.getrandbits(16)

    def _psn(self) -> int:
        rng = self.rng
        return rng.choice(PSNS) if rng.random() < 0.6 else rng.getrandbits(32)

    def _odd(self, value: int, bits: int) -> int:
        """Returns a value, rarely another one."""
        return value if self.rng.random() < 0.95 else self.rng.getrandbits(bits)

    def _data(self, target: int) -> bytes:
        rng, odd = self.rng, self._odd
        size = rng.choice((0, 1, 32, 33, 200, MOST_PAYLOAD))
        # The payload of a write begins with a random RDMA header.
        opcode = rng.choice((OPCODE.SRD_SEND, OPCODE.SRD_SEND, OPCODE.SRD_SEND, OPCODE.UD_SEND,
                             OPCODE.RDMA_WRITE))  # fmt: skip
        header = SrdHdrFields.pack(
            opcode=odd(opcode, 8), flags=odd(0, 8), length=odd(size, 16),
            src_qpn=rng.getrandbits(16), dst_qpn=rng.choice(self.queues),
            # The untrusted node does not know the Q_Key.
            qkey=rng.getrandbits(31), psn=self._psn(), session=self._number(),
            incarnation=rng.choice((0, 1, 1, 2)), imm=0, src_node=self.source,
            dst_node=odd(target, 16), path=odd(rng.randrange(8), 8), status=odd(0, 8),
            behind=odd(rng.randrange(256), 16))  # fmt: skip
        return header + rng.randbytes(size)

    def _answer(self, packet: bytes) -> bytes:
        """Returns an acknowledgement of a packet, or of others near it, true or not."""
        rng = self.rng
        data = SrdHdrFields.read(packet)
        psn = data.psn + rng.choice((0, 0, 1, 1, 2, 200)) & PSN_MASK
        status = rng.choice((0, 0, 0, *sorted(REFUSALS)))
        return SrdAckFields.pack(
            opcode=OPCODE.SRD_ACK, flags=0, length=BITMAP_BYTES,
            src_qpn=data.dst_qpn if status else 0, dst_qpn=data.src_qpn if status else 0,
            refused_psn=data.psn if status else 0, psn=psn, session=data.session,
            incarnation=rng.choice((1, 1, 1, 2, 0xFFFF)), bitmap_psn=psn, src_node=self.source,
            dst_node=data.src_node, path=data.path & 7, status=status, reserved=0,
            bitmap=rng.choice((0, 0, 1, 3)).to_bytes(BITMAP_BYTES, "little"))  # fmt: skip

    def _acknowledgement(self, target: int) -> bytes:
        rng, odd = self.rng, self._odd
        psn = self._psn()
        return SrdAckFields.pack(
            opcode=OPCODE.SRD_ACK, flags=odd(0, 8), length=odd(BITMAP_BYTES, 16),
            src_qpn=rng.getrandbits(16), dst_qpn=rng.choice(self.queues), refused_psn=self._psn(),
            psn=psn, session=self._number(), incarnation=self._number(),
            bitmap_psn=rng.choice((psn, self._psn())), src_node=self.source,
            dst_node=odd(target, 16), path=odd(rng.randrange(8), 8),
            status=rng.choice((0, 0, 0, *sorted(REFUSALS), rng.getrandbits(8))),
            reserved=odd(0, 16), bitmap=rng.randbytes(BITMAP_BYTES))  # fmt: skip


class Prey:
    """A queue pair of a victim that sends to the untrusted node, as far as messages end."""

    OPEN = 8

    def __init__(self, node: Node, source: int) -> None:
        self.end = Endpoint(node, SRD, depth=2 * self.OPEN)
        self.handle = node.ah_of(source)
        self.sent, self.ended = 0, 0

    def step(self, queue: int) -> None:
        """Takes completions, and sends to a queue pair number."""
        self.ended += len(self.end.cq.poll_array())
        while self.sent - self.ended < self.OPEN:
            self.end.qp.post_send(SendWr(ah=self.handle, dest_qp=queue, qkey=QKEY,
                                         inline=b"prey", wr_id=self.sent))  # fmt: skip
            self.sent += 1


def malformed_packets(backends: Sequence[Any], rng: Random, batches: int = 12) -> None:
    """Malformed packets of a node without a device arrive between messages; each one counts."""
    backend = backends[0]
    node = Node(backend)
    a, b = Endpoint(node, SRD), Endpoint(node, SRD)
    checks = Checks(backend.node_id)
    untrusted = UntrustedNode(SILENT, [backend.node_id], [a.qp.number, b.qp.number], rng)
    await_quiet_end(backend)
    wrong = 0
    for _ in range(batches):
        b.receive(64)
        for packet in (untrusted.packet() for _ in range(40)):
            if checks.cause(packet) is not None:
                backend.inject(packet)
                wrong += 1
        a.send(b, b"intact", inline=True)
        assert a.cq.wait_for(1)[0]["status"] == STATUS.OK
        assert b.buffer.read(0, 6) == b"intact"
        b.cq.wait_for(1)
    backend.settle()
    assert node.driver.get_stats().rx_drops == wrong > batches


def untrusted_peer(
    backends: Sequence[Any],
    rng: Random,
    source: int,
    send: Callable[[bytes], object],
    seen: Callable[[], Sequence[bytes]],
    packets: int,
    batch: int = 200,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> dict[str, int]:
    """Sends untrusted packets to two devices that exchange messages; returns counts.

    - `backends`: the two victims; they also send messages to the untrusted node
    - `source`: number of the untrusted node
    - `send`: gives a packet to the fabric
    - `seen`: packets that the victims have sent to the untrusted node since the last call
    - `packets`: number of untrusted packets; `batch`: untrusted packets between two looks

    Each message between the victims arrives once and intact, and no other byte of their memory
    changes. Raises Attack or AssertionError otherwise.
    """
    nodes = nodes_of(backends)
    there = streams(nodes, rng)
    ways = [there, there[::-1]]
    prey = [Prey(node, source) for node in nodes]
    queues = [out.source.qp.number for out, _ in ways] + [one.end.qp.number for one in prey]
    untrusted = UntrustedNode(source, [backend.node_id for backend in backends], queues, rng)
    canaries = [(node.pd.reg_mr(CANARY_BYTES), rng.randbytes(CANARY_BYTES)) for node in nodes]
    for region, mark in canaries:
        region.write(0, mark)
    done = 0
    while done < packets:
        for out, _ in ways:
            out.post_receives()
            for slot in range(MESSAGES):
                out.send(slot)
        for one in prey:
            one.step(rng.getrandbits(16))
        count = min(batch, packets - done)
        for _ in range(count):
            send(untrusted.packet())
        done += count
        for out, into in ways:
            poll_sends(out, into)
            wrong = set(out.ended.values()) - {STATUS.OK}
            if wrong:
                raise Attack(f"a send between the victims ended with status {sorted(wrong)}")
        for out, into in ways:
            while len(out.arrived) < len(out.sent):
                poll(into, out, 1)
        untrusted.seen = (untrusted.seen + list(seen()))[-SEEN:]
        for region, mark in canaries:
            if region.read(0, len(mark)) != mark:
                raise Attack("a region that no work request names has changed")
        progress(done, packets)
    for out, _ in ways:
        if sorted(out.arrived) != list(out.sent):
            raise Attack("a message between the victims did not arrive once")
    return {"packets": done, "messages": sum(len(out.sent) for out, _ in ways),
            "sends_to_the_peer": sum(one.sent for one in prey),
            "sends_the_peer_ended": sum(one.ended for one in prey),
            "rx_drops": sum(node.driver.get_stats().rx_drops for node in nodes)}  # fmt: skip
