# SPDX-License-Identifier: Apache-2.0
"""Tests efa_send_stats: each completion is counted by its operation and status, in its cycle."""

from itertools import product

import cocotb
from cocotb.triggers import Timer

from efa_cosim.layouts.defs import INTERNAL, PROFILES, IoCompStatus, IoSendOpType
from tb.lib.dont_care import dont_care
from tb.lib.stream import rng_for

NAMES = ("send", "read", "write", "read_err", "write_err")
CAPABILITIES = {IoSendOpType.RDMA_READ: 0, IoSendOpType.RDMA_WRITE: 3}  # bits of device_caps


def counted(profile, valid, op_type, status, srd):
    """Returns the event of a completion, None if it is not counted."""
    ok = status == IoCompStatus.OK
    if not valid:
        return None
    if op_type == IoSendOpType.SEND:
        return "send" if ok else None
    place = CAPABILITIES.get(op_type)
    if place is None or not (srd and profile.device_caps >> place & 1):
        return None
    name = "read" if op_type == IoSendOpType.RDMA_READ else "write"
    return name if ok else f"{name}_err"


@cocotb.test()
async def completions_by_operation(dut):
    """transport.send_stats.count: A send is counted if it is OK; a read and a write that QP and
    device execute are counted as completed or as failed, with all 32 bits of their bytes."""
    rng = rng_for("send_stats")
    statuses = (IoCompStatus.OK, *(1 << bit for bit in range(8)), IoCompStatus.FLUSHED)
    seen = set()
    for number, profile in enumerate(PROFILES.values()):
        dut.s_cfg_profile.value = number
        for case in product((0, 1), range(8), statuses, (0, 1)):
            valid, op_type, status, srd = case
            fields = dont_care(INTERNAL.cpl, rng, op_type=op_type, status=status)
            dut.s_cpl_valid.value, dut.s_srd.value = valid, srd
            dut.s_cpl_data.value = INTERNAL.cpl.pack(**fields)
            await Timer(1, "ns")
            found = {name for name in NAMES if getattr(dut, f"st_{name}_valid").value == 1}
            wanted = counted(profile, *case)
            assert found == ({wanted} if wanted else set()), (number, case, found)
            assert dut.st_bytes.value == fields["length_hi"] << 16 | fields["length"]
            seen |= found
    assert seen == set(NAMES)
