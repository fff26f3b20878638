# SPDX-License-Identifier: Apache-2.0
"""Defines how each admin command is drawn: a valid request on live objects, and its corruptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from efa_cosim.host.page_list import PAGE_BYTES, mem_addr
from efa_cosim.layouts import defs
from tb.scenarios.drawing import CORRUPTIONS, MAKERS, OP, STATE, dead, makes, to, wholly_dead

if TYPE_CHECKING:
    from tb.scenarios.commands import Commands

__all__ = ["MAKERS", "CORRUPTIONS"]

LIMITS = defs.LIMITS
EVENTS = LIMITS.event_counter_events
PAGE_SHIFT = PAGE_BYTES.bit_length() - 1
NEXT_STATE = {
    STATE.RESET: STATE.INIT, STATE.INIT: STATE.RTR, STATE.RTR: STATE.RTS, STATE.RTS: STATE.SQD,
    STATE.SQD: STATE.ERR, STATE.ERR: STATE.RESET,
}  # fmt: skip


@makes(OP.ALLOC_PD)
def alloc_pd(_c: Commands) -> Any:
    return defs.AdminAllocPdCmd()


@makes(OP.DEALLOC_PD, to("pd", dead(OP.ALLOC_PD)))
def dealloc_pd(c: Commands) -> Any:
    return defs.AdminDeallocPdCmd(pd=c.pick(OP.ALLOC_PD))


@makes(OP.ALLOC_UAR)
def alloc_uar(_c: Commands) -> Any:
    return defs.AdminAllocUarCmd()


@makes(OP.DEALLOC_UAR, to("uar", dead(OP.ALLOC_UAR)))
def dealloc_uar(c: Commands) -> Any:
    return defs.AdminDeallocUarCmd(uar=c.pick(OP.ALLOC_UAR))


@makes(
    OP.CREATE_EQ, to("depth", 0, 3, 2 * LIMITS.max_eq_depth, 0xFFFF), to("entry_size_words", 0, 8),
    to("msix_vec", LIMITS.msix_vectors, 0xFF), to("ba.mem_addr_low", 0x1010, 0x20),
)  # fmt: skip
def create_eq(c: Commands) -> Any:
    return defs.AdminCreateEqCmd(
        depth=1 << c.rng.randrange(10), entry_size_words=4, ba=mem_addr(c.ring),
        msix_vec=c.rng.randrange(LIMITS.msix_vectors), completion_events=c.rng.getrandbits(1),
    )  # fmt: skip


@makes(OP.DESTROY_EQ, to("eqn", dead(OP.CREATE_EQ)))
def destroy_eq(c: Commands) -> Any:
    return defs.AdminDestroyEqCmd(eqn=c.pick(OP.CREATE_EQ))


@makes(
    OP.CREATE_CQ, to("virt", 1), to("cq_entry_size_words", 0, 5, 16),
    to("sub_cq_depth", 0, 24, 0xFFFF, 2 * LIMITS.max_cq_depth), to("num_sub_cqs", 0, 3),
    to("uar", dead(OP.ALLOC_UAR)),
    to("cq_ba.mem_addr_low", 0x1010, 0x20),
)  # fmt: skip
def create_cq(c: Commands) -> Any:
    eqs = list(c.live[OP.CREATE_EQ])
    interrupts = eqs and c.rng.getrandbits(1)
    words = c.rng.choice((4, 8))
    return defs.AdminCreateCqCmd(
        cq_entry_size_words=words, sub_cq_depth=1 << c.rng.randrange(8), uar=c.pick(OP.ALLOC_UAR),
        num_sub_cqs=c.driver.queue_attr.sub_cqs_per_cq, cq_ba=mem_addr(c.ring),
        set_src_addr=words == 8 and c.rng.getrandbits(1), interrupt_mode_enabled=bool(interrupts),
        eqn=c.rng.choice(eqs) if interrupts else c.rng.getrandbits(16),
        sq_comp_64_bit_req_id=c.driver.long_ids and c.rng.getrandbits(1),
    )  # fmt: skip


@makes(OP.DESTROY_CQ, to("cq_idx", dead(OP.CREATE_CQ)))
def destroy_cq(c: Commands) -> Any:
    return defs.AdminDestroyCqCmd(cq_idx=c.pick(OP.CREATE_CQ))


@makes(OP.CREATE_AH, to("pd", dead(OP.ALLOC_PD)))
def create_ah(c: Commands) -> Any:
    gid = LIMITS.gid_prefix + c.rng.randrange(1 << 9).to_bytes(2, "big")
    return defs.AdminCreateAhCmd(pd=c.pick(OP.ALLOC_PD), dest_addr=gid)


@makes(OP.DESTROY_AH, to("pd", dead(OP.ALLOC_PD)), to("ah", dead(OP.CREATE_AH)))
def destroy_ah(c: Commands) -> Any:
    ah = c.pick(OP.CREATE_AH)
    made = c.live[OP.CREATE_AH].get(ah)
    return defs.AdminDestroyAhCmd(ah=ah, pd=made.pd if made else 0)


def _unreadable(c: Commands, request: Any) -> None:
    """Puts the page list in unreadable memory."""
    if c.unreadable is None:
        return
    request.mr_length = 64 * PAGE_BYTES
    request.phys_page_size_shift, request.mem_addr_phy_mode_en = PAGE_SHIFT, 0
    request.aq_common.ctrl_data = 1
    request.pbl.pbl = {"length": 8 * 65, "address": mem_addr(c.unreadable)}


def _endless(_c: Commands, request: Any) -> None:
    """Requests more pages than any build has."""
    request.mr_length, request.mem_addr_phy_mode_en = 1 << 40, 0
    request.phys_page_size_shift = PAGE_SHIFT
    request.aq_common.ctrl_data, request.aq_common.ctrl_data_indirect = 1, 1


def _bare_chain(_c: Commands, request: Any) -> None:
    request.aq_common.ctrl_data, request.aq_common.ctrl_data_indirect = 0, 1


def _physical_chain(_c: Commands, request: Any) -> None:
    request.aq_common.ctrl_data = request.aq_common.ctrl_data_indirect = 1
    request.mem_addr_phy_mode_en = 1


@makes(
    OP.REG_MR, to("pd", dead(OP.ALLOC_PD)), to("mr_length", 0, (1 << 64) - 1),
    to("phys_page_size_shift", 0, 11, 34, 63), to("remote_read_enable", 1), _unreadable, _endless,
    to("pbl.inline_pbl_array", [8], [1]), _bare_chain, _physical_chain, _unreadable,
)  # fmt: skip
def reg_mr(c: Commands) -> Any:
    rng, request = c.rng, defs.AdminRegMrCmd(pd=c.pick(OP.ALLOC_PD))
    request.iova = rng.getrandbits(40)
    request.local_write_enable, request.relaxed_ordering_enable = (
        rng.getrandbits(1) for _ in range(2)
    )
    request.phys_page_size_shift = shift = rng.choice((12, 12, 12, 13, 16, 21, 31))
    form = rng.choice(("inline", "direct", "chain", "physical"))
    if form == "physical":
        request.mem_addr_phy_mode_en, request.mr_length = 1, 1 << 52
        return request
    pages = rng.randrange(1, 5) if form == "inline" else rng.choice((5, 200, 513, 2000))
    addresses = [rng.randrange(1 << 20) << shift for _ in range(pages)]
    inside = request.iova & (1 << shift) - 1
    request.mr_length = max(1, (pages << shift) - inside - rng.randrange(1 << shift))
    if form == "inline":
        request.pbl.inline_pbl_array = addresses
        return request
    c.write_list(request, addresses, chained=form == "chain")
    return request


@makes(OP.ALLOC_MR, to("pd", dead(OP.ALLOC_PD)), to("max_pages", 0, 1 << 20, 0xFFFF_FFFF))
def alloc_mr(c: Commands) -> Any:
    return defs.AdminAllocMrCmd(pd=c.pick(OP.ALLOC_PD), max_pages=c.rng.choice((1, 7, 500, 3000)))


@makes(OP.DEREG_MR, to("l_key", wholly_dead(OP.REG_MR), 0))
def dereg_mr(c: Commands) -> Any:
    kinds = [kind for kind in (OP.REG_MR, OP.ALLOC_MR) if c.live[kind]] or [OP.REG_MR]
    return defs.AdminDeregMrCmd(l_key=c.pick(c.rng.choice(kinds)))


def _foreign_cq(c: Commands, request: Any) -> None:
    """Names a CQ of another UAR."""
    foreign = [n for n, cq in c.live[OP.CREATE_CQ].items() if cq.uar != request.uar]
    if foreign:
        setattr(request, c.rng.choice(("send_cq_idx", "recv_cq_idx")), c.rng.choice(foreign))


@makes(
    OP.CREATE_QP, to("sq_virt", 1), to("rq_virt", 1), to("qp_type", 0, 3, 255), _foreign_cq,
    to("pd", dead(OP.ALLOC_PD)), to("uar", dead(OP.ALLOC_UAR)),
    to("send_cq_idx", dead(OP.CREATE_CQ), 1 << 20), to("recv_cq_idx", dead(OP.CREATE_CQ)),
    to("qp_alloc_size.send_queue_depth", 0, 24, 2 * LIMITS.max_sq_depth),
    to("qp_alloc_size.send_queue_ring_size", 0, 65, 96),
    to("qp_alloc_size.recv_queue_ring_size", 8, 48, 32 * LIMITS.max_rq_depth),
    to("rq_base_addr", 0x1010), to("unsolicited_write_recv", 1), to("sq_64_bit_req_id", 1),
)  # fmt: skip
def create_qp(c: Commands) -> Any:
    rng = c.rng
    cqs = c.live[OP.CREATE_CQ]
    uar = cqs[c.pick(OP.CREATE_CQ)].uar if cqs else c.pick(OP.CREATE_CQ)
    own = [n for n, cq in cqs.items() if cq.uar == uar] or [0]
    # Deep rings exhaust LLQ memory before queue pair numbers from time to time.
    depth, stride = 1 << rng.choice((0, 3, 10, 10)), rng.choice((64, 128))
    descriptors = 1 << rng.randrange(8)
    send_cq = rng.choice(own)
    roomy = send_cq in cqs and cqs[send_cq].sq_comp_64_bit_req_id
    return defs.AdminCreateQpCmd(
        pd=c.pick(OP.ALLOC_PD), qp_type=rng.choice((1, 2)), uar=uar, rq_base_addr=c.ring,
        sq_base_addr=c.ring, send_cq_idx=send_cq, recv_cq_idx=rng.choice(own),
        sq_64_bit_req_id=roomy and rng.getrandbits(1),
        qp_alloc_size={
            "send_queue_ring_size": depth * stride, "send_queue_depth": depth,
            "recv_queue_ring_size": 16 * descriptors, "recv_queue_depth": descriptors,
        },
    )  # fmt: skip


def _without(name: str) -> Callable[[Commands, Any], None]:
    def corrupt(_c: Commands, request: Any) -> None:
        setattr(request, f"modify_mask__{name}", 0)

    return corrupt


@makes(
    OP.MODIFY_QP, to("qp_handle", wholly_dead(OP.CREATE_QP)), to("cur_qp_state", 5, 7),
    to("qp_state", 5, 7, 1 << 31), _without("qkey"), _without("sq_psn"),
    to("modify_mask__rnr_retry", 1),
)  # fmt: skip
def modify_qp(c: Commands) -> Any:
    handle = c.pick(OP.CREATE_QP)
    state = c.state_of(handle)
    after = NEXT_STATE[state] if c.rng.random() < 0.9 else STATE.RESET
    request = defs.AdminModifyQpCmd(
        qp_handle=handle, qp_state=after, cur_qp_state=state, qkey=c.rng.getrandbits(32),
        sq_psn=c.rng.getrandbits(24), rnr_retry=c.rng.randrange(8),
    )
    for name in ("qp_state", "cur_qp_state", "qkey", "sq_psn"):
        setattr(request, f"modify_mask__{name}", 1)
    return request


@makes(OP.QUERY_QP, to("qp_handle", wholly_dead(OP.CREATE_QP)))
def query_qp(c: Commands) -> Any:
    return defs.AdminQueryQpCmd(qp_handle=c.pick(OP.CREATE_QP))


@makes(OP.DESTROY_QP, to("qp_handle", wholly_dead(OP.CREATE_QP)))
def destroy_qp(c: Commands) -> Any:
    return defs.AdminDestroyQpCmd(qp_handle=c.pick(OP.CREATE_QP))


@makes(OP.GET_FEATURE, to("feature_common.feature_id", 0, 6, 8, 10, 255))
def get_feature(c: Commands) -> Any:
    return defs.AdminGetFeatureCmd(
        feature_common={"feature_id": c.rng.choice((1, 2, 3, 4, 5, 7, 9))}
    )


def _host_info_elsewhere(c: Commands, request: Any) -> None:
    request.feature_common.feature_id = 6
    request.aq_common.ctrl_data = c.rng.getrandbits(1)
    place = c.ring if c.unreadable is None else c.unreadable
    request.control_buffer = {"length": 180, "address": mem_addr(place)}


@makes(
    OP.SET_FEATURE, to("feature_common.feature_id", 0, 1, 3, 9), to("u.aenq.enabled_groups", 1, 32),
    to("control_buffer.length", 0, 179), _host_info_elsewhere, _host_info_elsewhere,
)  # fmt: skip
def set_feature(c: Commands) -> Any:
    request = defs.AdminSetFeatureCmd(feature_common={"feature_id": c.rng.choice((2, 6))})
    if request.feature_common.feature_id == 6:
        request.aq_common.ctrl_data = 1
        request.control_buffer = {"length": 180, "address": mem_addr(c.ring)}
    else:
        request.u.aenq = {"enabled_groups": c.rng.choice((0, 0x1E, 0x10, 0x0A))}
    return request


@makes(OP.GET_STATS, to("scope", 1, 255))
def get_stats(c: Commands) -> Any:
    return defs.AdminAqGetStatsCmd(type=c.rng.randrange(7))


@makes(OP.CREATE_EVENT_COUNTER, to("uar", dead(OP.ALLOC_UAR)), to("paddr", 4, 0x1001))
def create_event_counter(c: Commands) -> Any:
    # The UAR of a queue pair, so that the counter can be attached.
    uars = [qp.uar for qp in c.live[OP.CREATE_QP].values()] or [c.pick(OP.ALLOC_UAR)]
    return defs.AdminCreateEventCounterCmd(uar=c.rng.choice(uars), paddr=c.counter_place())


@makes(OP.DESTROY_EVENT_COUNTER, to("cntr_handle", wholly_dead(OP.CREATE_EVENT_COUNTER)))
def destroy_event_counter(c: Commands) -> Any:
    return defs.AdminDestroyEventCounterCmd(cntr_handle=c.pick(OP.CREATE_EVENT_COUNTER))


def _attachment(handle: int, qp: Any, events: int) -> Any:
    request = defs.AdminAttachDetachEventCounterCmd(cntr_handle=handle)
    request.u.qp_events = {"qp_handle": qp, "events": events}
    return request


_BAD_ATTACHMENT = (
    to("cntr_handle", wholly_dead(OP.CREATE_EVENT_COUNTER)), to("attach_type", 1, 255),
    to("u.qp_events.qp_handle", wholly_dead(OP.CREATE_QP)),
    to("u.qp_events.events", 0, 0x10, 1 << 31),
)  # fmt: skip


@makes(OP.ATTACH_EVENT_COUNTER, *_BAD_ATTACHMENT)
def attach_event_counter(c: Commands) -> Any:
    counters, qps = c.live[OP.CREATE_EVENT_COUNTER], c.live[OP.CREATE_QP]
    fitting = [(handle, number) for handle, counter in counters.items()
               for number, qp in qps.items() if counter.uar == qp.uar]  # fmt: skip
    if not fitting:
        fitting = [(c.pick(OP.CREATE_EVENT_COUNTER), c.pick(OP.CREATE_QP))]
    handle, number = c.rng.choice(fitting)
    return _attachment(handle, number, c.rng.randrange(1, EVENTS + 1))


@makes(OP.DETACH_EVENT_COUNTER, *_BAD_ATTACHMENT)
def detach_event_counter(c: Commands) -> Any:
    attached = c.live[OP.ATTACH_EVENT_COUNTER]
    place = c.pick(OP.ATTACH_EVENT_COUNTER)
    (handle, qp), events = (place, attached[place]) if place in attached else ((0, 0), 1)
    return _attachment(handle, qp, c.rng.choice((events, events & -events, EVENTS)))


@makes(
    OP.MODIFY_EVENT_COUNTER, to("cntr_handle", wholly_dead(OP.CREATE_EVENT_COUNTER)),
    to("operation", 2, 255),
)  # fmt: skip
def modify_event_counter(c: Commands) -> Any:
    return defs.AdminModifyEventCounterCmd(
        cntr_handle=c.pick(OP.CREATE_EVENT_COUNTER), operation=c.rng.getrandbits(1),
        value=c.rng.getrandbits(64),
    )  # fmt: skip
