# SPDX-License-Identifier: Apache-2.0
"""Admin commands, one function per opcode; memory regions and event counters have separate files.

A function takes the device and the decoded command. It returns its response layout, or None for
a success without a body, or raises AdminError. The order of the checks is the priority of statuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from efa_cosim.device.admin_rules import (
    Command,
    address_of,
    aligned,
    capable,
    commands,
    granted,
    unused,
    valid,
    well_formed,
)
from efa_cosim.device.features import attribute, statistics
from efa_cosim.device.link import MAX_RNR_RETRY
from efa_cosim.device.objects import Ah, Checked, Cq, Eq, Pd, Qp, Uar
from efa_cosim.device.ring import EntryRing, WorkRing, is_power_of_two
from efa_cosim.layouts import defs
from efa_cosim.layouts.layout import Struct

if TYPE_CHECKING:
    from efa_cosim.device.device import Device

RING_ALIGNMENT = 64
EQE_WORDS = defs.AdminEqe.SIZE // 4

_Body = TypeVar("_Body", defs.AdminGetFeatureResp, defs.AdminAcqGetStatsResp)

_Opcode = defs.AdminAqOpcode
_State = defs.AdminQpState
_Feature = defs.AdminAqFeatureId

_MOVES: dict[int, set[defs.AdminQpState]] = {
    _State.RESET: {_State.INIT},
    _State.INIT: {_State.INIT, _State.RTR, _State.ERR},
    _State.RTR: {_State.RTS, _State.ERR},
    _State.RTS: {_State.RTS, _State.SQD, _State.ERR},
    _State.SQD: {_State.SQD, _State.RTS, _State.ERR},
    _State.SQE: {_State.RTS, _State.ERR},
    _State.ERR: {_State.ERR},
}

# Opcode to the function that executes it.
COMMANDS: dict[int, Command] = {}
command = commands(COMMANDS)


@command(_Opcode.ALLOC_PD)
def alloc_pd(device: Device, cmd: defs.AdminAllocPdCmd) -> defs.AdminAllocPdResp:
    pds = device.objects.pds
    number = granted(pds.free_number())
    pds.add(number, Pd(number))
    return defs.AdminAllocPdResp(pd=number)


@command(_Opcode.DEALLOC_PD)
def dealloc_pd(device: Device, cmd: defs.AdminDeallocPdCmd) -> None:
    objects = device.objects
    valid(objects.pds.get(cmd.pd))
    users = (objects.qps, objects.mrs, objects.ahs)
    unused(all(item.pd != cmd.pd for table in users for item in table.live.values()))
    objects.pds.remove(cmd.pd)


@command(_Opcode.ALLOC_UAR)
def alloc_uar(device: Device, cmd: defs.AdminAllocUarCmd) -> defs.AdminAllocUarResp:
    uars = device.objects.uars
    number = granted(uars.free_number())
    uars.add(number, Uar(number))
    return defs.AdminAllocUarResp(uar=number)


@command(_Opcode.DEALLOC_UAR)
def dealloc_uar(device: Device, cmd: defs.AdminDeallocUarCmd) -> None:
    objects = device.objects
    valid(objects.uars.get(cmd.uar))
    users = (objects.qps, objects.cqs, objects.counters)
    unused(all(item.uar != cmd.uar for table in users for item in table.live.values()))
    objects.uars.remove(cmd.uar)
    objects.cancel_uar(cmd.uar)


@command(_Opcode.CREATE_EQ)
def create_eq(device: Device, cmd: defs.AdminCreateEqCmd) -> defs.AdminCreateEqResp:
    eqs, limits = device.objects.eqs, device.limits
    base = address_of(cmd.ba)
    valid(is_power_of_two(cmd.depth, limits.max_eq_depth))
    valid(cmd.entry_size_words == EQE_WORDS)
    valid(cmd.msix_vec < limits.msix_vectors)
    valid(aligned(base, RING_ALIGNMENT))
    number = granted(eqs.free_number())
    eqs.add(number, Eq(number, base, cmd.msix_vec, EntryRing(cmd.depth)))
    return defs.AdminCreateEqResp(eqn=number)


@command(_Opcode.DESTROY_EQ)
def destroy_eq(device: Device, cmd: defs.AdminDestroyEqCmd) -> None:
    objects = device.objects
    eq: Checked[Eq] = objects.eqs.get(cmd.eqn)
    valid(eq)
    unused(all(cq.eq is not eq for cq in objects.cqs.live.values()))
    objects.eqs.remove(cmd.eqn)


@command(_Opcode.CREATE_CQ)
def create_cq(device: Device, cmd: defs.AdminCreateCqCmd) -> defs.AdminCreateCqResp:
    objects, limits = device.objects, device.limits
    base = address_of(cmd.cq_ba)
    entry_bytes = 4 * cmd.cq_entry_size_words
    short, long = defs.IoRxCdesc.SIZE, defs.IoRxCdescEx.SIZE
    well_formed(not cmd.virt)
    valid(entry_bytes in (short, long))
    valid(not cmd.set_src_addr or entry_bytes == long)
    valid(not cmd.sq_comp_64_bit_req_id or capable(device, "sq_64_bit_req_id"))
    valid(is_power_of_two(cmd.sub_cq_depth, limits.max_cq_depth))
    valid(cmd.num_sub_cqs == device.profile.sub_cqs_per_cq)
    valid(objects.uars.get(cmd.uar))
    eq = objects.eqs.get(cmd.eqn) if cmd.interrupt_mode_enabled else None
    valid(eq or not cmd.interrupt_mode_enabled)
    valid(aligned(base, RING_ALIGNMENT))
    number = granted(objects.cqs.free_number(cmd.uar))
    rings = [EntryRing(cmd.sub_cq_depth) for _ in range(cmd.num_sub_cqs)]
    cq = Cq(
        number, cmd.uar, base, entry_bytes, bool(cmd.set_src_addr),
        bool(cmd.sq_comp_64_bit_req_id), eq, rings,
    )  # fmt: skip
    objects.cqs.add(number, cq, cmd.uar)
    return defs.AdminCreateCqResp(
        cq_idx=number,
        sub_cq_actual_depth=cmd.sub_cq_depth,
        db_offset=device.datapath.cq_doorbell(cq),
        db_valid=1,
    )


@command(_Opcode.DESTROY_CQ)
def destroy_cq(device: Device, cmd: defs.AdminDestroyCqCmd) -> None:
    objects = device.objects
    cq: Checked[Cq] = objects.cqs.get(cmd.cq_idx)
    valid(cq)
    unused(all(cq not in (qp.send_cq, qp.recv_cq) for qp in objects.qps.live.values()))
    objects.cqs.remove(cmd.cq_idx)


@command(_Opcode.CREATE_AH)
def create_ah(device: Device, cmd: defs.AdminCreateAhCmd) -> defs.AdminCreateAhResp:
    objects = device.objects
    valid(objects.pds.get(cmd.pd))
    ah = objects.ah_of.get((cmd.pd, cmd.dest_addr))
    if ah is None:
        number = granted(objects.ahs.free_number())
        ah = Ah(number, cmd.pd, cmd.dest_addr, device.datapath.node_of(cmd.dest_addr), refs=0)
        objects.ahs.add(number, ah)
        objects.ah_of[cmd.pd, cmd.dest_addr] = ah
    ah.refs += 1
    return defs.AdminCreateAhResp(ah=ah.index)


@command(_Opcode.DESTROY_AH)
def destroy_ah(device: Device, cmd: defs.AdminDestroyAhCmd) -> None:
    objects = device.objects
    ah: Checked[Ah] = objects.ahs.get(cmd.ah)
    valid(ah and ah.pd == cmd.pd)
    ah.refs -= 1
    if not ah.refs:
        objects.ahs.remove(ah.index)
        del objects.ah_of[ah.pd, ah.gid]
        device.datapath.sends.flush_ah(ah)


@command(_Opcode.CREATE_QP)
def create_qp(device: Device, cmd: defs.AdminCreateQpCmd) -> defs.AdminCreateQpResp:
    objects, limits = device.objects, device.limits
    size = cmd.qp_alloc_size
    well_formed(not cmd.sq_virt and not cmd.rq_virt)
    valid(isinstance(cmd.qp_type, defs.AdminQpType))
    valid(objects.pds.get(cmd.pd))
    valid(objects.uars.get(cmd.uar))
    send_cq: Cq
    recv_cq: Cq
    # The next check excludes None.
    send_cq, recv_cq = objects.cqs.get(cmd.send_cq_idx), objects.cqs.get(cmd.recv_cq_idx)  # type: ignore[assignment]
    valid(send_cq and recv_cq and send_cq.uar == recv_cq.uar == cmd.uar)
    depth, ring_bytes = size.send_queue_depth, size.send_queue_ring_size
    valid(is_power_of_two(depth, limits.max_sq_depth))
    wqe_bytes: Checked[int] = next(
        (n for n in (defs.IoTxWqe.SIZE, defs.IoTxWqe128.SIZE) if ring_bytes == n * depth), None
    )
    valid(wqe_bytes)
    if limits.sq_host:
        valid(cmd.sq_base_addr and aligned(cmd.sq_base_addr, RING_ALIGNMENT))
    descriptors, rest = divmod(size.recv_queue_ring_size, defs.IoRxDesc.SIZE)
    if size.recv_queue_ring_size:
        valid(not rest and is_power_of_two(descriptors, limits.max_rq_depth))
        valid(aligned(cmd.rq_base_addr, RING_ALIGNMENT))
    valid(not cmd.unsolicited_write_recv or capable(device, "unsolicited_write_recv"))
    # A CQ with long_ids implies the capability, so no capability check is needed.
    valid(not cmd.sq_64_bit_req_id or send_cq.long_ids)
    index = granted(objects.qps.free_number(cmd.uar))
    pages = max(1, ring_bytes // limits.llq_page_bytes)
    first_page = granted(objects.llq.find(pages, cmd.uar))

    srd = cmd.qp_type == defs.AdminQpType.SRD
    qp = Qp(
        index, objects.next_qp_number(index), cmd.qp_type, cmd.pd, cmd.uar, send_cq, recv_cq,
        wqe_bytes, first_page * limits.llq_page_bytes, WorkRing(depth),
        cmd.rq_base_addr, WorkRing(descriptors), bool(cmd.unsolicited_write_recv),
        bool(cmd.sq_64_bit_req_id),
        rnr_retry=device.profile.rnr_retry if srd else 0, sq_base=cmd.sq_base_addr,
    )  # fmt: skip
    objects.count_qp(index)
    objects.qps.add(index, qp, cmd.uar)
    objects.llq.give(first_page, pages, qp)
    device.datapath.unwrite(qp)
    sq_doorbell, rq_doorbell = device.datapath.qp_doorbells(qp)
    return defs.AdminCreateQpResp(
        qp_handle=qp.number,
        qp_num=qp.number,
        send_sub_cq_idx=0,
        recv_sub_cq_idx=device.profile.sub_cqs_per_cq - 1,
        sq_db_offset=sq_doorbell,
        rq_db_offset=rq_doorbell,
        llq_descriptors_offset=qp.llq_base,
    )


@command(_Opcode.MODIFY_QP)
def modify_qp(device: Device, cmd: defs.AdminModifyQpCmd) -> None:
    qp: Checked[Qp] = device.objects.qp_by_number(cmd.qp_handle)
    valid(qp)
    moves = cmd.modify_mask__qp_state
    # A QP that failed is not in the state its driver holds: RESET and ERR are always permitted.
    gets_out = moves and cmd.qp_state in (_State.RESET, _State.ERR)
    valid(gets_out or not cmd.modify_mask__cur_qp_state or cmd.cur_qp_state == qp.state)
    if moves:
        before, after = qp.state, cmd.qp_state
        valid(after == _State.RESET or after in _MOVES[before])
        valid((before, after) != (_State.RESET, _State.INIT) or cmd.modify_mask__qkey)
        valid((before, after) != (_State.RTR, _State.RTS) or cmd.modify_mask__sq_psn)
    if cmd.modify_mask__rnr_retry:
        valid(cmd.rnr_retry <= MAX_RNR_RETRY)
        valid(qp.type == defs.AdminQpType.SRD and capable(device, "rnr_retry"))
        qp.rnr_retry = cmd.rnr_retry
    if cmd.modify_mask__qkey:
        qp.qkey = cmd.qkey
    if cmd.modify_mask__sq_psn:
        qp.sq_psn = cmd.sq_psn
    if moves:
        device.datapath.move(qp, cmd.qp_state)


@command(_Opcode.QUERY_QP)
def query_qp(device: Device, cmd: defs.AdminQueryQpCmd) -> defs.AdminQueryQpResp:
    qp: Checked[Qp] = device.objects.qp_by_number(cmd.qp_handle)
    valid(qp)
    return defs.AdminQueryQpResp(
        qp_state=qp.state,
        qkey=qp.qkey,
        sq_psn=qp.sq_psn,
        sq_draining=int(qp.state == _State.SQD and qp.sq.unfinished > 0),
        rnr_retry=qp.rnr_retry,
    )


@command(_Opcode.DESTROY_QP)
def destroy_qp(device: Device, cmd: defs.AdminDestroyQpCmd) -> None:
    objects = device.objects
    qp: Checked[Qp] = objects.qp_by_number(cmd.qp_handle)
    valid(qp)
    device.datapath.move(qp, _State.RESET)
    for counter in qp.counters.values():
        counter.attached -= 1
    objects.qps.remove(qp.index)
    objects.llq.take_back(qp)


@command(_Opcode.GET_FEATURE)
def get_feature(device: Device, cmd: defs.AdminGetFeatureCmd) -> defs.AdminGetFeatureResp:
    body: Checked[Struct] = attribute(device, cmd.feature_common.feature_id)
    valid(body)
    return _with_body(defs.AdminGetFeatureResp, body)


@command(_Opcode.SET_FEATURE)
def set_feature(device: Device, cmd: defs.AdminSetFeatureCmd) -> None:
    feature = cmd.feature_common.feature_id
    host_info = feature == _Feature.HOST_INFO
    well_formed(not host_info or cmd.aq_common.ctrl_data)
    valid(host_info or feature == _Feature.AENQ_CONFIG)
    if host_info:
        valid(cmd.control_buffer.length >= defs.AdminHostInfo.SIZE)
        device.memory.read(address_of(cmd.control_buffer.address), defs.AdminHostInfo.SIZE)
    else:
        groups = cmd.u.aenq.enabled_groups
        valid(not groups & ~device.profile.aenq_supported_groups)
        device.admin.events.enable(groups)


@command(_Opcode.GET_STATS)
def get_stats(device: Device, cmd: defs.AdminAqGetStatsCmd) -> defs.AdminAcqGetStatsResp:
    valid(cmd.scope == defs.AdminGetStatsScope.ALL)
    return _with_body(defs.AdminAcqGetStatsResp, statistics(device, cmd.type))


def _with_body(response: type[_Body], body: Struct) -> _Body:
    """Returns a response whose union holds the body; the header is filled when it is posted."""
    result = response()
    start = response.u.offset
    result.image[start : start + body.SIZE] = body.pack()
    return result
