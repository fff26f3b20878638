# SPDX-License-Identifier: Apache-2.0
"""Tests efa_srd_fields against the checks of the reference model."""

import cocotb
from cocotb.triggers import Timer

from efa_cosim.layouts.defs import PktOpcode, SrdHdr, TransportAnomaly
from efa_cosim.transport.packets import BITMAP_BYTES
from efa_cosim.transport.sender import REFUSALS
from tb.lib.srd_checks import Checks
from tb.lib.stream import rng_for

NODE = 0  # of the receiver; the module does not read it
KINDS = (PktOpcode.SRD_SEND, PktOpcode.SRD_ACK)
DST_NODE = slice(SrdHdr.dst_node.offset, SrdHdr.dst_node.offset + 2)
# Fields of which each value, or each value with one bit, is tested: offset and bytes.
FIELDS = {name: (getattr(SrdHdr, name).offset, size) for name, size in {
    "path": 1, "status": 1, "flags": 1, "session": 2, "incarnation": 2, "behind": 2,
    "src_node": 2}.items()}  # fmt: skip


class Bench:
    def __init__(self, dut, name):
        self.dut, self.rng = dut, rng_for(name)
        paths = self.rng.randrange(1, 256)
        dut.s_cfg_paths.value = paths
        self.paths = [path for path in range(8) if paths >> path & 1]
        self.nodes = 1 << int(dut.NODE_W.value)
        self.window = 1 << int(dut.WINDOW_W.value)
        self.model = Checks(NODE, self.nodes, int(dut.WINDOW_W.value), paths)
        self.found = {(kind, (node, field)): 0
                      for kind in KINDS for node in (0, 1) for field in (0, 1)}  # fmt: skip

    def packet(self, opcode):
        """Returns a packet of which no field has a false value; all other bits are random."""
        rng = self.rng
        is_ack = opcode == PktOpcode.SRD_ACK
        size = BITMAP_BYTES if is_ack else rng.randrange(64)
        header = SrdHdr.unpack(rng.randbytes(SrdHdr.SIZE))
        header.opcode, header.length = opcode, size
        header.src_node, header.path = rng.randrange(self.nodes), rng.choice(self.paths)
        header.session = rng.randrange(1, 1 << 16)
        if is_ack:
            header.flags = header.behind = 0
            header.incarnation = rng.randrange(1, 1 << 16)
            header.status = rng.choice((0, *REFUSALS))
        else:
            header.status, header.behind = 0, rng.randrange(self.window)
        return bytes(header.pack()) + rng.randbytes(size)

    def change(self, packet, name, value):
        """Returns the packet with another value of one field."""
        at, size = FIELDS[name]
        return packet[:at] + value.to_bytes(size, "little") + packet[at + size :]

    async def outputs(self, packet):
        self.dut.s_header.value = int.from_bytes(packet[: SrdHdr.SIZE], "little")
        await Timer(1, "ns")
        return int(self.dut.m_stranger.value), int(self.dut.m_false.value)

    async def check(self, packet):
        """Compares the outputs with the model, which reports the node before other fields."""
        found = await self.outputs(packet)
        ours = packet[: DST_NODE.start] + NODE.to_bytes(2, "little") + packet[DST_NODE.stop :]
        stranger = self.model.cause(ours) is TransportAnomaly.NODE
        of_node = self.change(ours, "src_node", NODE)
        false_field = self.model.cause(of_node) is TransportAnomaly.FIELD
        header = SrdHdr.unpack(packet[: SrdHdr.SIZE])
        assert found == (stranger, false_field), f"{header}: {found}, not {stranger, false_field}"
        self.found[packet[0], found] += 1
        return found


@cocotb.test()
async def true_packets_pass(dut):
    """transport.srd_fields.valid: Packets of correct senders pass, whatever the other fields
    contain."""
    bench = Bench(dut, "valid")
    for opcode in KINDS * 200:
        assert await bench.check(bench.packet(opcode)) == (0, 0)


@cocotb.test()
async def each_value_of_each_field(dut):
    """transport.srd_fields.each: Each path, status and flag, and the limits and single bits of
    the wider fields, give the verdict of the model."""
    bench = Bench(dut, "each")
    limits = {0, 1, bench.window - 1, bench.window, bench.nodes - 1, bench.nodes, 0x7FFF, 0xFFFF}
    wide = limits | {1 << bit for bit in range(16)}
    for opcode in KINDS:
        for name, (_, size) in FIELDS.items():
            for value in range(256) if size == 1 else sorted(wide):
                await bench.check(bench.change(bench.packet(opcode), name, value))
        found = [bench.found[opcode, pair] for pair in ((0, 0), (0, 1), (1, 0))]
        assert min(found) > 5, f"opcode {opcode}: not each verdict seen often: {found}"


@cocotb.test()
async def some_false_fields(dut):
    """transport.srd_fields.random: Several random fields at once give the verdict of the
    model."""
    bench = Bench(dut, "random")
    for _ in range(600):
        packet = bench.packet(bench.rng.choice(KINDS))
        for name in bench.rng.sample(sorted(FIELDS), bench.rng.randrange(4)):
            value = bench.rng.getrandbits(8 * FIELDS[name][1])
            packet = bench.change(packet, name, bench.rng.choice((0, 1, value)))
        await bench.check(packet)
    assert all(bench.found.values()), bench.found


@cocotb.test()
async def datagrams_pass(dut):
    """transport.srd_fields.datagram: Datagrams pass with any field values."""
    bench = Bench(dut, "datagram")
    opcode = bytes([PktOpcode.UD_SEND])
    for _ in range(300):
        packet = opcode + bench.rng.randbytes(SrdHdr.SIZE - 1)
        assert await bench.outputs(packet) == (0, 0), packet.hex()
    assert await bench.outputs(opcode + bytes(SrdHdr.SIZE - 1)) == (0, 0)
    assert await bench.outputs(opcode + b"\xff" * (SrdHdr.SIZE - 1)) == (0, 0)
