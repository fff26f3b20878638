# SPDX-License-Identifier: Apache-2.0
"""Tests every admin command: the success response, and each error without a state change."""

import pytest
from rig import SRD, UD, Host, Opcode, Reg, State, Status, words

from efa_cosim.layouts import defs

ILLEGAL, MALFORMED = Status.ILLEGAL_PARAMETER, Status.MALFORMED_REQUEST
BUSY, NO_SPACE = Status.RESOURCE_BUSY, Status.RESOURCE_ALLOCATION_FAILURE
UNSUPPORTED, UNKNOWN = Status.UNSUPPORTED_OPCODE, Status.UNKNOWN_ERROR
SMALL = {"pd_w": 1, "uar_w": 1, "eqn_w": 1, "cqn_w": 1, "qpn_w": 1, "mr_w": 1, "ah_w": 1}


@pytest.fixture
def small():
    return Host(limits=SMALL)


@pytest.mark.parametrize("opcode", [0, Opcode.SERVICE, 22, 23, 24, 30, 255])
def test_opcodes_without_a_function_are_unsupported(host, opcode):
    assert host.refusal(opcode) == UNSUPPORTED


# PD and UAR.


@pytest.mark.parametrize("opcode", [Opcode.ALLOC_PD, Opcode.ALLOC_UAR])
def test_pds_and_uars_run_out(small, opcode):
    small.command(opcode)
    small.command(opcode)
    assert small.refusal(opcode) == NO_SPACE


def test_a_pd_that_is_not_there_cannot_be_freed(host):
    assert host.refusal(Opcode.DEALLOC_PD, pd=0) == ILLEGAL
    host.command(Opcode.DEALLOC_PD, pd=host.pd())
    assert host.refusal(Opcode.DEALLOC_PD, pd=0) == ILLEGAL
    assert host.refusal(Opcode.DEALLOC_PD, pd=0xFFFF) == ILLEGAL


def test_a_pd_in_use_is_busy(host):
    pd, uar = host.pd(), host.uar()
    ah = host.ah(pd)
    assert host.refusal(Opcode.DEALLOC_PD, pd=pd) == BUSY
    host.command(Opcode.DESTROY_AH, ah=ah, pd=pd)
    key = host.mr(pd, 0x5000, 1)
    assert host.refusal(Opcode.DEALLOC_PD, pd=pd) == BUSY
    host.command(Opcode.DEREG_MR, l_key=key)
    qp = host.qp(pd, uar, host.cq(uar))
    assert host.refusal(Opcode.DEALLOC_PD, pd=pd) == BUSY
    qp.destroy()
    host.command(Opcode.DEALLOC_PD, pd=pd)


def test_a_uar_in_use_is_busy_and_one_not_there_illegal(host):
    assert host.refusal(Opcode.DEALLOC_UAR, uar=1) == ILLEGAL
    pd, uar = host.pd(), host.uar()
    cq = host.cq(uar)
    assert host.refusal(Opcode.DEALLOC_UAR, uar=uar) == BUSY
    qp = host.qp(pd, uar, cq)
    assert host.refusal(Opcode.DEALLOC_UAR, uar=uar) == BUSY
    qp.destroy()
    host.command(Opcode.DESTROY_CQ, cq_idx=cq.number)
    host.command(Opcode.DEALLOC_UAR, uar=uar)


# EQ.

EQ = {"depth": 16, "msix_vec": 1, "entry_size_words": 4, **words("ba", 0x1000)}


@pytest.mark.parametrize(
    "change",
    [{"depth": 0}, {"depth": 3}, {"depth": 1024}, {"entry_size_words": 8}, {"msix_vec": 9},
     words("ba", 0x1020)],
)  # fmt: skip
def test_a_bad_eq_is_refused(host, change):
    assert host.refusal(Opcode.CREATE_EQ, **(EQ | change)) == ILLEGAL


def test_eqs_run_out(small):
    assert [small.command(Opcode.CREATE_EQ, **EQ).eqn for _ in range(2)] == [0, 1]
    assert small.refusal(Opcode.CREATE_EQ, **EQ) == NO_SPACE


def test_an_eq_that_a_cq_names_is_busy(host):
    uar, eq = host.uar(), host.eq()
    cq = host.cq(uar, eq=eq)
    assert host.refusal(Opcode.DESTROY_EQ, eqn=eq.number) == BUSY
    host.command(Opcode.DESTROY_CQ, cq_idx=cq.number)
    host.command(Opcode.DESTROY_EQ, eqn=eq.number)
    assert host.refusal(Opcode.DESTROY_EQ, eqn=eq.number) == ILLEGAL


# CQ.

CQ = {
    "cq_entry_size_words": 4, "sub_cq_depth": 16, "num_sub_cqs": 1, **words("cq_ba", 0x1000),
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"virt": 1}, MALFORMED),
        ({"virt": 1, "sub_cq_depth": 3}, MALFORMED),
        ({"cq_entry_size_words": 2}, ILLEGAL),
        ({"cq_entry_size_words": 16}, ILLEGAL),
        ({"set_src_addr": 1}, ILLEGAL),
        ({"sub_cq_depth": 0}, ILLEGAL),
        ({"sub_cq_depth": 24}, ILLEGAL),
        ({"sub_cq_depth": 16384}, ILLEGAL),
        ({"num_sub_cqs": 0}, ILLEGAL),
        ({"num_sub_cqs": 2}, ILLEGAL),
        ({"uar": 1}, ILLEGAL),
        ({"interrupt_mode_enabled": 1, "eqn": 0}, ILLEGAL),
        (words("cq_ba", 0x1010), ILLEGAL),
    ],
)
def test_a_bad_cq_is_refused(host, change, status):
    host.uar()
    assert host.refusal(Opcode.CREATE_CQ, **(CQ | change)) == status


def test_a_cq_answers_with_its_own_doorbell(host):
    host.uar()
    uar = host.uar()
    first, second = host.cq(uar), host.cq(uar)
    page, start = host.device.limits.db_page_bytes, host.device.limits.db_cq_base
    assert first.doorbell == page * uar + start
    assert second.doorbell == page * uar + start + 4


def test_the_recorded_profile_wants_two_sub_cqs(recorded):
    uar = recorded.uar()
    assert recorded.refusal(Opcode.CREATE_CQ, uar=uar, **CQ) == ILLEGAL
    assert recorded.cq(uar).number == 0


def test_cqs_run_out(small):
    uar = small.uar()
    small.cq(uar)
    small.cq(uar)
    assert small.refusal(Opcode.CREATE_CQ, uar=uar, **CQ) == NO_SPACE


def test_a_cq_that_a_qp_names_is_busy(host):
    pd, uar = host.pd(), host.uar()
    scq, rcq = host.cq(uar), host.cq(uar)
    qp = host.qp(pd, uar, scq, rcq)
    for cq in (scq, rcq):
        assert host.refusal(Opcode.DESTROY_CQ, cq_idx=cq.number) == BUSY
    qp.destroy()
    for cq in (scq, rcq):
        host.command(Opcode.DESTROY_CQ, cq_idx=cq.number)
        assert host.refusal(Opcode.DESTROY_CQ, cq_idx=cq.number) == ILLEGAL


# AH.


def test_equal_ahs_share_a_number_until_the_last_is_destroyed(host):
    pd, other = host.pd(), host.pd()
    assert [host.ah(pd, 3), host.ah(pd, 4), host.ah(pd, 3), host.ah(other, 3)] == [0, 1, 0, 2]
    for _ in range(2):
        host.command(Opcode.DESTROY_AH, ah=0, pd=pd)
    assert host.refusal(Opcode.DESTROY_AH, ah=0, pd=pd) == ILLEGAL
    assert host.ah(pd, 9) == 0


def test_bad_ahs_are_refused(small):
    assert small.refusal(Opcode.CREATE_AH, pd=0, dest_addr=bytes(16)) == ILLEGAL
    pd, other = small.pd(), small.pd()
    small.ah(pd, 1)
    assert small.refusal(Opcode.DESTROY_AH, ah=0, pd=other) == ILLEGAL
    assert small.refusal(Opcode.DESTROY_AH, ah=1, pd=pd) == ILLEGAL
    small.ah(pd, 2)
    assert small.refusal(Opcode.CREATE_AH, pd=pd, dest_addr=bytes(16)) == NO_SPACE
    assert small.ah(pd, 2) == 1


# QP.


def qp_values(host, **change):
    """Returns the values of a valid CREATE_QP of PD 0, UAR 0 and CQ 0, with these changes."""
    values = {
        "pd": 0, "qp_type": SRD, "uar": 0, "send_cq_idx": 0, "recv_cq_idx": 0,
        "rq_base_addr": 0x8000, "qp_alloc_size.send_queue_ring_size": 512,
        "qp_alloc_size.send_queue_depth": 8, "qp_alloc_size.recv_queue_ring_size": 128,
        "qp_alloc_size.recv_queue_depth": 4,
    }  # fmt: skip
    return values | change


SENDS, DEPTH = "qp_alloc_size.send_queue_ring_size", "qp_alloc_size.send_queue_depth"
RECVS = "qp_alloc_size.recv_queue_ring_size"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"sq_virt": 1}, MALFORMED),
        ({"rq_virt": 1, "qp_type": 7}, MALFORMED),
        ({"qp_type": 0}, ILLEGAL),
        ({"qp_type": 3}, ILLEGAL),
        ({"pd": 1}, ILLEGAL),
        ({"uar": 2}, ILLEGAL),
        ({"send_cq_idx": 2}, ILLEGAL),
        ({"recv_cq_idx": 0xFFFFFFFF}, ILLEGAL),
        ({"send_cq_idx": 1}, ILLEGAL),
        ({"recv_cq_idx": 1}, ILLEGAL),
        ({"uar": 1}, ILLEGAL),
        ({DEPTH: 0, SENDS: 0}, ILLEGAL),
        ({DEPTH: 6, SENDS: 384}, ILLEGAL),
        ({DEPTH: 2048, SENDS: 2048 * 64}, ILLEGAL),
        ({SENDS: 511}, ILLEGAL),
        ({SENDS: 8 * 96}, ILLEGAL),
        ({SENDS: 8 * 256}, ILLEGAL),
        ({RECVS: 8}, ILLEGAL),
        ({RECVS: 48}, ILLEGAL),
        ({RECVS: 130}, ILLEGAL),
        ({RECVS: 8192 * 16}, ILLEGAL),
        ({"rq_base_addr": 0x8020}, ILLEGAL),
        ({"unsolicited_write_recv": 1}, ILLEGAL),
        ({"sq_64_bit_req_id": 1}, ILLEGAL),
    ],
)
def test_a_bad_qp_is_refused(host, change, status):
    host.pd()
    host.cq(host.uar())
    host.cq(host.uar())
    assert host.refusal(Opcode.CREATE_QP, **qp_values(host, **change)) == status


def test_a_qp_answers_with_its_numbers_and_places(host):
    pd = host.pd()
    host.uar()
    uar = host.uar()
    cq = host.cq(uar)
    host.qp(pd, uar, cq)
    response = host.qp(pd, uar, cq).response
    page = host.device.limits.db_page_bytes
    assert (response.qp_handle, response.qp_num) == (1, 1)
    assert (response.sq_db_offset, response.rq_db_offset) == (page * uar + 8, page * uar + 12)
    assert response.llq_descriptors_offset == host.device.limits.llq_page_bytes
    assert (response.send_sub_cq_idx, response.recv_sub_cq_idx) == (0, 0)


def test_the_recorded_profile_sends_and_receives_on_their_own_sub_cqs(recorded):
    pd, uar = recorded.pd(), recorded.uar()
    qp = recorded.qp(pd, uar, recorded.cq(uar), unsolicited_write_recv=1)
    assert (qp.response.send_sub_cq_idx, qp.response.recv_sub_cq_idx) == (0, 1)
    assert recorded.refusal(Opcode.CREATE_QP, **qp_values(recorded, sq_64_bit_req_id=1)) == ILLEGAL


def test_a_qp_without_receives_needs_no_ring(host):
    host.pd()
    host.cq(host.uar())
    host.command(Opcode.CREATE_QP, **qp_values(host, **{RECVS: 0, "rq_base_addr": 0}))


def test_qp_numbers_and_llq_pages_run_out():
    host = Host(limits={"qpn_w": 1, "llq_bytes": 0x4000})
    pd, uar = host.pd(), host.uar()
    cq = host.cq(uar)
    host.qp(pd, uar, cq, sq_depth=128)
    wide = qp_values(host, **{DEPTH: 256, SENDS: 256 * 64})
    assert host.refusal(Opcode.CREATE_QP, **wide) == NO_SPACE
    host.qp(pd, uar, cq, sq_depth=128)
    assert host.refusal(Opcode.CREATE_QP, **qp_values(host)) == NO_SPACE


STATES = [State.RESET, State.INIT, State.RTR, State.RTS, State.SQD, State.SQE, State.ERR]
VALID_TRANSITIONS = {
    (State.RESET, State.INIT), (State.INIT, State.INIT), (State.INIT, State.RTR),
    (State.RTR, State.RTS), (State.RTS, State.RTS), (State.RTS, State.SQD),
    (State.SQD, State.SQD), (State.SQD, State.RTS), (State.SQE, State.RTS),
    (State.ERR, State.ERR), *((s, State.RESET) for s in STATES),
    *((s, State.ERR) for s in STATES[1:]),
}  # fmt: skip


def make_qp(host, kind=SRD):
    pd, uar = host.pd(), host.uar()
    return host.qp(pd, uar, host.cq(uar), kind=kind)


@pytest.mark.parametrize("kind", [SRD, UD])
@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", [*STATES, 7, 0xFFFFFFFF])
def test_exactly_the_valid_state_transitions_are_allowed(host, kind, before, after):
    qp = make_qp(host, kind)
    host.device.objects.qps.get(0).state = before
    mask = {f"modify_mask__{name}": 1 for name in ("qp_state", "cur_qp_state", "qkey", "sq_psn")}
    values = {"qp_handle": qp.handle, "qp_state": after, "cur_qp_state": before, **mask}
    if (before, after) in VALID_TRANSITIONS:
        host.command(Opcode.MODIFY_QP, **values)
        assert qp.query().qp_state == after
    else:
        assert host.refusal(Opcode.MODIFY_QP, **values) == ILLEGAL


def test_moves_need_their_attributes(host):
    qp = make_qp(host)
    values = {"qp_handle": qp.handle, "modify_mask__qp_state": 1}
    assert host.refusal(Opcode.MODIFY_QP, **values, qp_state=State.INIT) == ILLEGAL
    qp.modify(State.INIT, qkey=1)
    qp.modify(State.RTR)
    assert host.refusal(Opcode.MODIFY_QP, **values, qp_state=State.RTS) == ILLEGAL
    qp.modify(State.RTS, sq_psn=9)
    assert (qp.query().qkey, qp.query().sq_psn) == (1, 9)


def test_a_wrong_current_state_is_refused_only_when_it_is_given(host):
    qp = make_qp(host)
    values = {
        "qp_handle": qp.handle, "cur_qp_state": State.RTS, "qp_state": State.INIT,
        "modify_mask__qp_state": 1, "modify_mask__qkey": 1,
    }  # fmt: skip
    assert host.refusal(Opcode.MODIFY_QP, **values, modify_mask__cur_qp_state=1) == ILLEGAL
    host.command(Opcode.MODIFY_QP, **values)


@pytest.mark.parametrize("kind", [SRD, UD])
@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_a_wrong_current_state_does_not_prevent_reset_and_err(host, kind, before, after):
    qp = make_qp(host, kind)
    mask = {f"modify_mask__{name}": 1 for name in ("qp_state", "cur_qp_state", "qkey", "sq_psn")}
    for held in {*STATES, 7, 0xFFFFFFFF} - {before}:
        host.device.objects.qps.get(0).state = before
        values = {"qp_handle": qp.handle, "qp_state": after, "cur_qp_state": held, **mask}
        if after in (State.RESET, State.ERR) and (before, after) in VALID_TRANSITIONS:
            host.command(Opcode.MODIFY_QP, **values)
            assert qp.query().qp_state == after
        else:
            assert host.refusal(Opcode.MODIFY_QP, **values) == ILLEGAL


@pytest.mark.parametrize("before", STATES)
def test_attributes_alone_need_the_current_state_if_it_is_given(host, before):
    qp = make_qp(host)
    host.device.objects.qps.get(0).state = before
    mask = {"modify_mask__cur_qp_state": 1, "modify_mask__qkey": 1}
    for held in STATES:
        for unnamed in (State.RESET, State.ERR):
            values = {"qp_handle": qp.handle, "qp_state": unnamed, "cur_qp_state": held, **mask}
            if held == before:
                host.command(Opcode.MODIFY_QP, **values, qkey=9)
            else:
                assert host.refusal(Opcode.MODIFY_QP, **values, qkey=8) == ILLEGAL
    assert (qp.query().qp_state, qp.query().qkey) == (before, 9)


def test_without_the_state_bit_only_named_attributes_change(host):
    qp = make_qp(host)
    qp.modify(State.INIT, qkey=5)
    host.command(Opcode.MODIFY_QP, qp_handle=qp.handle, qp_state=State.ERR, sq_psn=3, qkey=8,
                 modify_mask__qkey=1)  # fmt: skip
    response = qp.query()
    assert (response.qp_state, response.qkey, response.sq_psn) == (State.INIT, 8, 0)


def test_reset_keeps_the_attributes(host):
    qp = make_qp(host).to(State.RTS, qkey=77)
    qp.modify(State.RESET)
    assert (qp.query().qp_state, qp.query().qkey) == (State.RESET, 77)


def test_rnr_retry_needs_srd_the_capability_and_a_small_value(host, recorded):
    retrying = Host(profile="default")
    for machine, kind, default in (
        (host, SRD, 0), (recorded, UD, 0), (recorded, SRD, 0),
        (retrying, UD, 0), (retrying, SRD, 7),
    ):  # fmt: skip
        qp = make_qp(machine, kind)
        assert qp.query().rnr_retry == default
        values = {"qp_handle": qp.handle, "modify_mask__rnr_retry": 1}
        if machine is not host and kind == SRD:
            qp.modify(rnr_retry=3)
            assert qp.query().rnr_retry == 3
            assert machine.refusal(Opcode.MODIFY_QP, **values, rnr_retry=8) == ILLEGAL
        else:
            assert machine.refusal(Opcode.MODIFY_QP, **values, rnr_retry=3) == ILLEGAL


@pytest.mark.parametrize("opcode", [Opcode.MODIFY_QP, Opcode.QUERY_QP, Opcode.DESTROY_QP])
@pytest.mark.parametrize("bit", [0, 5, 6, 15, 16, 31])
def test_a_handle_must_match_in_all_bits(host, opcode, bit):
    qp = make_qp(host)
    assert host.refusal(opcode, qp_handle=qp.handle ^ 1 << bit) == ILLEGAL


def test_a_destroyed_qp_is_gone(host):
    qp = make_qp(host)
    qp.destroy()
    for opcode in (Opcode.MODIFY_QP, Opcode.QUERY_QP, Opcode.DESTROY_QP):
        assert host.refusal(opcode, qp_handle=qp.handle) == ILLEGAL


# Features and statistics.


def feature(host, number):
    response = host.command(Opcode.GET_FEATURE, **{"feature_common.feature_id": number})
    return response.u


@pytest.mark.parametrize("profile", [*defs.PROFILES])
def test_features_report_profile_and_build(profile):
    host, values = Host(profile=profile), defs.PROFILES[profile]
    limits = host.device.limits
    device = feature(host, 1).device_attr
    for name in (
        "supported_features", "page_size_cap", "fw_version", "admin_api_version",
        "device_version", "phys_addr_width", "virt_addr_width", "device_caps", "max_rdma_size",
        "max_link_speed_gbps",
    ):  # fmt: skip
        assert getattr(device, name) == values[name]
    assert device.guid.to_bytes(8, "little") == bytes.fromhex("020000fffe000001")
    assert device.db_bar == limits.db_bar
    queue = feature(host, 4).queue_attr_1
    for name, width in (("max_qp", "qpn_w"), ("max_cq", "cqn_w"), ("max_mr", "mr_w"),
                        ("max_pd", "pd_w"), ("max_ah", "ah_w")):  # fmt: skip
        assert getattr(queue, name) == 1 << getattr(limits, width)
    for name in ("max_sq_depth", "max_rq_depth", "max_cq_depth"):
        assert getattr(queue, name) == getattr(limits, name)
    assert queue.max_mr_pages == (1 << values.mr_pages_w) - 1
    assert queue.max_llq_size == 64 * limits.max_sq_depth
    for name in ("inline_buf_size", "sub_cqs_per_cq", "max_wr_send_sges", "max_tx_batch"):
        assert getattr(queue, name) == values[name]
    network = feature(host, 3).network_attr
    assert (network.addr, network.mtu) == (limits.gid_prefix + b"\0\1", values.mtu)
    events = feature(host, 7).event_queue_attr
    assert (events.max_eq, events.max_eq_depth, events.event_bitmask) == (8, 512, 1)
    ex = feature(host, 9).queue_attr_2
    counted = (0, 0, 0) if profile == "recorded" else (0xF, 64, (1 << 64) - 1)
    assert ex.inline_buf_size_ex == 80
    assert counted == (
        ex.supported_event_counter_qp_events, ex.max_event_counters, ex.event_counter_max_val
    )  # fmt: skip
    hints = feature(host, 5).hw_hints
    assert hints.mmio_read_timeout == values.mmio_read_timeout
    assert not any(hints.pack()[2:])


@pytest.mark.parametrize("number", [0, 6, 8, 10, 255])
def test_features_that_cannot_be_read_are_refused(host, number):
    values = {"feature_common.feature_id": number}
    assert host.refusal(Opcode.GET_FEATURE, **values) == ILLEGAL


def set_aenq(groups):
    return {"feature_common.feature_id": 2, "u.aenq.enabled_groups": groups}


def test_aenq_groups_are_stored_and_checked(host):
    aenq = feature(host, 2).aenq
    assert (aenq.supported_groups, aenq.enabled_groups) == (0x1E, 0)
    host.command(Opcode.SET_FEATURE, **set_aenq(0x12))
    assert feature(host, 2).aenq.enabled_groups == 0x12
    assert host.refusal(Opcode.SET_FEATURE, **set_aenq(0x01)) == ILLEGAL
    assert host.refusal(Opcode.SET_FEATURE, **set_aenq(0x3E)) == ILLEGAL


HOST_INFO = {
    "feature_common.feature_id": 6, "control_buffer.length": 180,
    **words("control_buffer.address", 0x9000),
}  # fmt: skip


def test_host_info_needs_a_buffer_that_can_be_read(host):
    host.command(Opcode.SET_FEATURE, ("ctrl_data",), **HOST_INFO)
    assert host.refusal(Opcode.SET_FEATURE, **HOST_INFO) == MALFORMED
    short = HOST_INFO | {"control_buffer.length": 179}
    assert host.refusal(Opcode.SET_FEATURE, ("ctrl_data",), **short) == ILLEGAL
    assert host.refusal(Opcode.SET_FEATURE, **short) == MALFORMED
    host.memory.fail(0x9000 + 179, 1)
    assert host.refusal(Opcode.SET_FEATURE, ("ctrl_data",), **HOST_INFO) == UNKNOWN


@pytest.mark.parametrize("number", [0, 1, 3, 4, 5, 7, 8, 9])
def test_features_that_cannot_be_set_are_refused(host, number):
    values = {"feature_common.feature_id": number}
    assert host.refusal(Opcode.SET_FEATURE, **values) == ILLEGAL


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, 5, 255])
def test_statistics_of_every_type_are_zero_at_first(host, kind):
    assert not any(host.command(Opcode.GET_STATS, type=kind).pack()[8:])


@pytest.mark.parametrize("scope", [1, 2, 255])
def test_statistics_of_a_part_are_refused(host, scope):
    assert host.refusal(Opcode.GET_STATS, type=0, scope=scope) == ILLEGAL


def test_reserved_bits_and_unused_flags_are_ignored(host):
    flags = ("ctrl_data", "ctrl_data_indirect", "reserved3")
    assert host.command(Opcode.ALLOC_PD, flags).pd == 0
    host.command(Opcode.DEALLOC_PD, flags, pd=0, reserved=0xFFFF)


def test_a_reset_clears_every_object(host):
    make_qp(host)
    host.eq()
    host.ah(0)
    host.mr(0, 0x5000, 1)
    host.reg(Reg.DEV_CTL, 1)
    assert host.device.objects.snapshot() == Host(up=False).device.objects.snapshot()
