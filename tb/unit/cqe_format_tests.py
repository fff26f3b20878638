"""efa_cqe_format: an outcome becomes the entry of the generated codec, in every form."""

from itertools import product

import cocotb
from cocotb.triggers import ReadOnly, Timer

from efa.defs import INTERNAL, LIMITS, IoCompStatus, IoRxCdescEx, IoSendOpType
from tb.lib.stream import rng_for
from tb.lib.timing import timing
from tb.unit.queue_bench import completion_entry

WIDTHS = {"req_id": 16, "qp_num": 16, "length": 16, "src_qpn": 16, "imm": 32, "src_node": 16,
          "qpn": 12, "cqn": 12, "sub": 1, "ah": 16}  # fmt: skip


async def show(dut, cpl, phase, wide, src_addr):
    """The entry, at once: the module has no clock."""
    await Timer(1, "ns")
    dut.s_cpl.value = INTERNAL.cpl.pack(**cpl)
    dut.s_phase.value, dut.s_wide.value, dut.s_src_addr.value = phase, wide, src_addr
    assert timing("efa_cqe_format", "entry").latency == 0
    await ReadOnly()
    return int(dut.m_cqe.value).to_bytes(IoRxCdescEx.SIZE, "little")


def outcome(rng, rx, status, ah=None, **fields):
    cpl = {name: rng.getrandbits(width) for name, width in WIDTHS.items()}
    cpl.update(rx=rx, status=int(status), op_type=int(rng.choice(list(IoSendOpType))),
               has_imm=rng.getrandbits(1), **fields)  # fmt: skip
    return cpl if ah is None else {**cpl, "ah": ah}


@cocotb.test()
async def every_form_is_that_of_the_codec(dut):
    """queue.cqe_format.forms: either side, each status, both sizes, source known or told."""
    rng = rng_for("cqe_format")
    forms = product((0, 1), IoCompStatus, (0, 1), (0, 1), (0, 1), (3, LIMITS.reserved_ah))
    for rx, status, phase, wide, src_addr, ah in forms:
        cpl = outcome(rng, rx, status, ah)
        want = completion_entry(cpl, phase, wide, src_addr)
        got = await show(dut, cpl, phase, wide, src_addr)
        assert got[: len(want)] == want, f"{cpl}: {got.hex()}, expected {want.hex()}"


@cocotb.test()
async def every_bit_has_its_place(dut):
    """queue.cqe_format.bits: each field at its ends; what a field does not name stays as it was."""
    rng = rng_for("cqe_format")
    for name, width in WIDTHS.items():
        for value in [0, (1 << width) - 1, *(1 << bit for bit in range(width))]:
            for rx, has_imm in product((0, 1), repeat=2):
                fields = {"has_imm": has_imm, "status": 0, name: value}
                cpl = {**outcome(rng, rx, 0, LIMITS.reserved_ah), **fields}
                got = await show(dut, cpl, 1, 1, 1)
                assert got == completion_entry(cpl, 1, 1, 1), f"{name} {value:#x}: {got.hex()}"


@cocotb.test()
async def an_entry_tells_nothing_that_it_should_not(dut):
    """queue.cqe_format.silent: errors and sends have zeros after qp_num, whatever is known."""
    rng = rng_for("cqe_format")
    for rx, status in product((0, 1), IoCompStatus):
        if rx and status == IoCompStatus.OK:
            continue
        cpl = outcome(rng, rx, status, LIMITS.reserved_ah, imm=0xFFFFFFFF, length=0xFFFF)
        got = await show(dut, cpl, 0, 1, 1)
        assert not any(got[6:]) and got[3] >> 3 & 1 == 0, got.hex()
