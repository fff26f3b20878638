# SPDX-License-Identifier: Apache-2.0
"""Tests efa_cqe_format: a completion becomes the CQE of the generated codec, in every format."""

from itertools import product

import cocotb
from cocotb.triggers import ReadOnly, Timer

from efa_cosim.layouts.defs import INTERNAL, LIMITS, IoCompStatus, IoRxCdescEx, IoSendOpType
from tb.lib.stream import rng_for
from tb.lib.timing import timing
from tb.unit.queue_bench import completion_entry

WIDTHS = {"req_id": 16, "qp_num": 16, "length": 16, "src_qpn": 16, "imm": 32, "src_node": 16,
          "qpn": 12, "cqn": 12, "sub": 1, "ah": 16, "length_hi": 16, "unsolicited": 1,
          "req_id_ex": 48}  # fmt: skip


async def show(dut, cpl, phase, wide, src_addr, long_id=0):
    """Returns the CQE; the module is combinational."""
    await Timer(1, "ns")
    dut.s_cpl.value = INTERNAL.cpl.pack(**cpl)
    dut.s_phase.value, dut.s_wide.value, dut.s_src_addr.value = phase, wide, src_addr
    dut.s_long_id.value = long_id
    assert timing("efa_cqe_format", "entry").latency == 0
    await ReadOnly()
    return int(dut.m_cqe.value).to_bytes(IoRxCdescEx.SIZE, "little")


def outcome(rng, rx, status, ah=None, **fields):
    cpl = {name: rng.getrandbits(width) for name, width in WIDTHS.items()}
    cpl.update({"rx": rx, "status": int(status), "has_imm": rng.getrandbits(1),
                "op_type": int(rng.choice(list(IoSendOpType))), **fields})  # fmt: skip
    return cpl if ah is None else {**cpl, "ah": ah}


@cocotb.test()
async def every_form_is_that_of_the_codec(dut):
    """queue.cqe_format.forms: both sides, all statuses and operations and all CQ attributes give
    the CQE of the codec"""
    rng = rng_for("cqe_format")
    forms = product((0, 1), IoCompStatus, (0, 1), (0, 1), (0, 1), (0, 1), (3, LIMITS.reserved_ah),
                    IoSendOpType)  # fmt: skip
    for rx, status, phase, wide, src_addr, long_id, ah, op_type in forms:
        cpl = outcome(rng, rx, status, ah, op_type=int(op_type))
        want = completion_entry(cpl, phase, wide, src_addr, long_id)
        got = await show(dut, cpl, phase, wide, src_addr, long_id)
        assert got[: len(want)] == want, f"{cpl}: {got.hex()}, expected {want.hex()}"


@cocotb.test()
async def every_bit_has_its_place(dut):
    """queue.cqe_format.bits: every bit of every field has its position and changes no other
    field."""
    rng = rng_for("cqe_format")
    for name, width in WIDTHS.items():
        for value in [0, (1 << width) - 1, *(1 << bit for bit in range(width))]:
            for rx, has_imm in product((0, 1), repeat=2):
                fields = {"has_imm": has_imm, "status": 0, name: value}
                cpl = {**outcome(rng, rx, 0, LIMITS.reserved_ah), **fields}
                got = await show(dut, cpl, 1, 1, 1, 1)
                assert got == completion_entry(cpl, 1, 1, 1, 1), f"{name} {value:#x}: {got.hex()}"
    for bit in range(16):
        # Every other handle than the reserved one is a known peer.
        cpl = outcome(rng, 1, 0, LIMITS.reserved_ah ^ 1 << bit, op_type=int(IoSendOpType.SEND))
        assert await show(dut, cpl, 1, 1, 1) == completion_entry(cpl, 1, 1, 1)


@cocotb.test()
async def request_ids_of_64_bits(dut):
    """queue.cqe_format.long_id: a CQ with 64-bit request ids returns the complete id, in error
    CQEs too; other CQs return 16 bits"""
    rng = rng_for("cqe_format")
    for status, long_id in product(IoCompStatus, (0, 1)):
        cpl = outcome(rng, 0, status)
        got = await show(dut, cpl, 0, 1, 0, long_id)
        complete = int.from_bytes(got[:2], "little") | int.from_bytes(got[6:12], "little") << 16
        assert complete == cpl["req_id"] | (cpl["req_id_ex"] << 16 if long_id else 0)
        assert not any(got[12:]), got.hex()


@cocotb.test()
async def a_write_with_immediate(dut):
    """queue.cqe_format.rdma: the length is split in two fields, the source GID is absent, the
    unsolicited bit is copied"""
    rng = rng_for("cqe_format")
    for ah, unsolicited in product((3, LIMITS.reserved_ah), (0, 1)):
        cpl = outcome(rng, 1, 0, ah, op_type=int(IoSendOpType.RDMA_WRITE), has_imm=1,
                      unsolicited=unsolicited)  # fmt: skip
        entry = IoRxCdescEx.unpack(await show(dut, cpl, 1, 1, 1))
        complete = entry.base.length | entry.u.rdma_write.length_hi << 16
        assert complete == cpl["length"] | cpl["length_hi"] << 16 and not any(entry.u.src_addr[2:])
        assert entry.base.common.unsolicited == unsolicited and entry.base.imm == cpl["imm"]


@cocotb.test()
async def an_entry_reports_nothing_that_it_should_not(dut):
    """queue.cqe_format.silent: error CQEs and send CQEs have zeros after qp_num."""
    rng = rng_for("cqe_format")
    for rx, status in product((0, 1), IoCompStatus):
        if rx and status == IoCompStatus.OK:
            continue
        cpl = outcome(rng, rx, status, LIMITS.reserved_ah, imm=0xFFFFFFFF, length=0xFFFF)
        got = await show(dut, cpl, 0, 1, 1)
        assert not any(got[6:]) and got[3] >> 3 & 1 == 0 and got[3] >> 7 == 0, got.hex()
