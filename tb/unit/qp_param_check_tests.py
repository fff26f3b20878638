# SPDX-License-Identifier: Apache-2.0
"""Tests efa_qp_param_check: CREATE_QP and MODIFY_QP as in decision 0001 and section 9 of the fact
sheet."""

from itertools import product

import cocotb
from cocotb.triggers import Timer

from efa_cosim.layouts.defs import (
    LIMITS,
    PROFILES,
    AdminCreateQpCmd,
    AdminFeatureDeviceAttrDesc,
    AdminModifyQpCmd,
    AdminQpState,
    AdminQpType,
    IoRxDesc,
    IoTxWqe,
)
from tb.lib.stream import rng_for

S = AdminQpState
# (current state, requested state): attribute that the command must carry.
MOVES = {(S.RESET, S.INIT): "qkey", (S.INIT, S.INIT): None, (S.INIT, S.RTR): None,
         (S.RTR, S.RTS): "sq_psn", (S.RTS, S.RTS): None, (S.RTS, S.SQD): None,
         (S.SQD, S.SQD): None, (S.SQD, S.RTS): None, (S.SQE, S.RTS): None,
         **{(now, S.RESET): None for now in S},
         **{(now, S.ERR): None for now in S if now != S.RESET}}  # fmt: skip


def caps(profile):
    reported = list(PROFILES.values())[profile]
    return AdminFeatureDeviceAttrDesc(device_caps=reported.device_caps)


def is_depth(value, most):
    return 0 < value <= most and value & (value - 1) == 0


async def put(dut, cmd, profile, state=0, srd=0):
    dut.s_cmd.value = int.from_bytes(cmd.pack(64), "little")
    dut.s_cfg_profile.value, dut.s_state.value, dut.s_srd.value = profile, int(state), srd
    await Timer(1, "ns")


async def creation(dut, cmd, profile):
    """Checks the result of a CREATE_QP command against the rule; returns whether it is valid."""
    await put(dut, cmd, profile)
    depth = cmd.qp_alloc_size.send_queue_depth
    ring = cmd.qp_alloc_size.send_queue_ring_size
    rq = cmd.qp_alloc_size.recv_queue_ring_size
    wrong = cmd.qp_type not in (AdminQpType.UD, AdminQpType.SRD)
    wrong |= not is_depth(depth, LIMITS.max_sq_depth)
    wrong |= ring not in (depth * IoTxWqe.SIZE, depth * 128)
    if int(dut.SQ_HOST.value):
        wrong |= cmd.sq_base_addr == 0 or cmd.sq_base_addr % 64 != 0
    entries, rest = divmod(rq, IoRxDesc.SIZE)
    ring_there = is_depth(entries, LIMITS.max_rq_depth) and rest == cmd.rq_base_addr % 64 == 0
    wrong |= rq != 0 and not ring_there
    wrong |= bool(cmd.unsolicited_write_recv and not caps(profile).unsolicited_write_recv)
    wrong |= bool(cmd.sq_64_bit_req_id and not caps(profile).sq_64_bit_req_id)
    assert dut.m_create_illegal.value == int(wrong), (profile, cmd)
    if not wrong:
        assert 1 << int(dut.m_sq_log.value) == depth
        assert dut.m_wqe128.value == int(ring == 128 * depth)
        assert 1 << int(dut.m_pages_log.value) == max(1, ring // LIMITS.llq_page_bytes)
        assert not rq or 1 << int(dut.m_rq_log.value) == entries
    return not wrong


@cocotb.test()
async def creation_by_the_rule(dut):
    """admin.qp_param_check.create: Random sizes around the valid ones, types and flags are accepted
    or refused by the rule."""
    rng, valid = rng_for("create"), 0
    for _ in range(4000):
        cmd, profile = AdminCreateQpCmd(), rng.randrange(len(PROFILES))
        sizes = cmd.qp_alloc_size
        cmd.qp_type = rng.choice((0, 1, 1, 2, 2, 2, 3, 255)) if rng.random() < 0.3 else 2
        depth = 1 << rng.randrange(11)
        if rng.random() < 0.3:
            depth = rng.choice((0, depth + 1, 3 * depth, 2048, 1 << 16, depth | 1 << 16, 1 << 31))
        sizes.send_queue_depth = depth
        stride = rng.choice((64, 128))
        sizes.send_queue_ring_size = depth * stride + rng.choice((0, 0, 0, 0, 64)) & 0xFFFF_FFFF
        rq = rng.choice((0, 16 << rng.randrange(13)))
        if rng.random() < 0.3:
            beside = rq ^ 1 << rng.randrange(32)
            rq = rng.choice((1, 8, rq + 16, beside, 16 << 13, 16 << 16, 1 << 31))
        sizes.recv_queue_ring_size = rq
        cmd.rq_base_addr = rng.getrandbits(58) << 6 | (rng.random() < 0.1) << rng.randrange(6)
        cmd.flags = rng.getrandbits(8) if rng.random() < 0.2 else 0
        host_base = rng.choice((0, 1 << rng.randrange(64), rng.getrandbits(58) << 6))
        cmd.sq_base_addr = host_base if rng.random() < 0.3 else 1 << rng.randrange(6, 64)
        valid += await creation(dut, cmd, profile)
    assert 500 < valid < 3500


@cocotb.test()
async def every_bit_of_a_creation(dut):
    """admin.qp_param_check.create_bits: A valid command with one changed bit of a size or an
    address is accepted or refused by the rule, also if the ring size is that of the changed
    depth."""
    rng = rng_for("create_bits")
    fields = {"send_queue_depth": 32, "send_queue_ring_size": 32, "recv_queue_ring_size": 32,
              "rq_base_addr": 64, "sq_base_addr": 64}  # fmt: skip
    for stride, (name, width) in product((64, 128), fields.items()):
        for bit, fits in product(range(width), (0, 1)):
            depth = 1 << rng.randrange(11)
            sizes = {"send_queue_depth": depth, "send_queue_ring_size": depth * stride,
                     "recv_queue_ring_size": 16 << rng.randrange(13),
                     "rq_base_addr": rng.getrandbits(58) << 6,
                     "sq_base_addr": (rng.getrandbits(57) << 1 | 1) << 6}  # fmt: skip
            sizes[name] ^= 1 << bit
            if fits:
                sizes["send_queue_ring_size"] = sizes["send_queue_depth"] * stride & 0xFFFF_FFFF
            cmd = AdminCreateQpCmd(qp_type=2)
            for field, value in sizes.items():
                part = cmd if field.endswith("addr") else cmd.qp_alloc_size
                setattr(part, field, value)
            await creation(dut, cmd, rng.getrandbits(1))


@cocotb.test()
async def every_move_by_the_table(dut):
    """admin.qp_param_check.moves: Every pair of states with every mix of attributes is accepted or
    refused by the table."""
    rng = rng_for("moves")
    wanted = [*S, 7, 8, 1 << 31, S.RTS | 8]
    for now, to, mask, right in product(S, wanted, range(8), (0, 1)):
        cmd = AdminModifyQpCmd(modify_mask__qp_state=mask & 1, modify_mask__qkey=mask >> 1 & 1,
                               modify_mask__sq_psn=mask >> 2 & 1)  # fmt: skip
        cmd.modify_mask__cur_qp_state = rng.getrandbits(1)
        cmd.image[12:16] = int(to).to_bytes(4, "little")
        says = now if right else rng.choice([s for s in wanted if s != now])
        cmd.image[16:20] = int(says).to_bytes(4, "little")
        cmd.qkey, cmd.sq_psn = rng.getrandbits(32), rng.getrandbits(32)
        await put(dut, cmd, rng.getrandbits(1), now, rng.getrandbits(1))
        need = MOVES.get((now, to), "nothing")
        given = {None: 1, "qkey": mask & 2, "sq_psn": mask & 4, "nothing": 0}[need]
        reported = cmd.modify_mask__cur_qp_state and not (mask & 1 and to in (S.RESET, S.ERR))
        wrong = mask & 1 and not given or reported and says != now
        assert dut.m_modify_illegal.value == int(bool(wrong)), (now, to, mask, says)


@cocotb.test()
async def states_have_32_bits(dut):
    """admin.qp_param_check.bits: A single flipped bit in either 32-bit state field is refused
    unless the table permits the result."""
    for (now, to), bit in product(MOVES, range(32)):
        for name in ("qp_state", "cur_qp_state"):
            cmd = AdminModifyQpCmd(modify_mask__qp_state=1, modify_mask__qkey=1,
                                   modify_mask__sq_psn=1, modify_mask__cur_qp_state=1)  # fmt: skip
            states = {"qp_state": int(to), "cur_qp_state": int(now)}
            states[name] ^= 1 << bit
            cmd.image[12:16] = states["qp_state"].to_bytes(4, "little")
            cmd.image[16:20] = states["cur_qp_state"].to_bytes(4, "little")
            await put(dut, cmd, 0, now)
            wrong = (now, states["qp_state"]) not in MOVES
            wrong |= states["cur_qp_state"] != now and to not in (S.RESET, S.ERR)
            assert dut.m_modify_illegal.value == int(wrong), (now, to, name, bit)


@cocotb.test()
async def retries_by_the_rule(dut):
    """admin.qp_param_check.rnr_retry: rnr_retry is accepted up to 7, on SRD and where the profile
    reports the capability."""
    for profile, srd, bit, value in product(range(len(PROFILES)), (0, 1), (0, 1), range(256)):
        cmd = AdminModifyQpCmd(modify_mask__rnr_retry=bit, rnr_retry=value)
        await put(dut, cmd, profile, S.RTS, srd)
        capable = caps(profile).rnr_retry
        wrong = bit and (value > 7 or not srd or not capable)
        assert dut.m_modify_illegal.value == int(bool(wrong)), (profile, srd, bit, value)
