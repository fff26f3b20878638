# SPDX-License-Identifier: Apache-2.0
"""Tests the limits of every kind of object: reached, exceeded without a state change, freed and
reached again. Also tests that the digest of the control plane covers every change."""

import pytest
from rig import SRD, Host, Opcode, Reg, State, Status, words

NO_SPACE, ILLEGAL = Status.RESOURCE_ALLOCATION_FAILURE, Status.ILLEGAL_PARAMETER


class Maker:
    """Commands that create an object of one kind and destroy it by the fields of the create
    response."""

    def __init__(self, make, end, count, prepare=lambda host: None):
        self.make, self.end, self.count, self.prepare = make, end, count, prepare


def base(host):
    """Creates the objects that queues need: PD 0, UAR 0, CQ 0."""
    host.pd()
    host.cq(host.uar())


def ah_values(number):
    return {"pd": 0, "dest_addr": number.to_bytes(16, "big")}


QP = {
    "qp_type": SRD, "rq_base_addr": 0x8000, "qp_alloc_size.send_queue_ring_size": 64,
    "qp_alloc_size.send_queue_depth": 1, "qp_alloc_size.recv_queue_ring_size": 16,
    "qp_alloc_size.recv_queue_depth": 1,
}  # fmt: skip
MR = {"mr_length": 8, "phys_page_size_shift": 12, "pbl.inline_pbl_array": [0x5000]}
EQ = {"depth": 1, "entry_size_words": 4, **words("ba", 0x1000)}
CQ = {"cq_entry_size_words": 4, "sub_cq_depth": 1, "num_sub_cqs": 1, **words("cq_ba", 0x1000)}
MAKERS = {
    "pd": Maker(lambda host, n: (Opcode.ALLOC_PD, {}),
                lambda rsp: (Opcode.DEALLOC_PD, {"pd": rsp.pd}), 64),
    "uar": Maker(lambda host, n: (Opcode.ALLOC_UAR, {}),
                 lambda rsp: (Opcode.DEALLOC_UAR, {"uar": rsp.uar}), 64),
    "eq": Maker(lambda host, n: (Opcode.CREATE_EQ, EQ),
                lambda rsp: (Opcode.DESTROY_EQ, {"eqn": rsp.eqn}), 8),
    "cq": Maker(lambda host, n: (Opcode.CREATE_CQ, CQ),
                lambda rsp: (Opcode.DESTROY_CQ, {"cq_idx": rsp.cq_idx}), 128, Host.uar),
    "ah": Maker(lambda host, n: (Opcode.CREATE_AH, ah_values(n)),
                lambda rsp: (Opcode.DESTROY_AH, {"pd": 0, "ah": rsp.ah}), 256, Host.pd),
    "mr": Maker(lambda host, n: (Opcode.REG_MR, MR),
                lambda rsp: (Opcode.DEREG_MR, {"l_key": rsp.l_key}), 256, Host.pd),
    "allocated mr": Maker(lambda host, n: (Opcode.ALLOC_MR, {"max_pages": 1}),
                          lambda rsp: (Opcode.DEREG_MR, {"l_key": rsp.l_key}), 256, Host.pd),
    "qp": Maker(lambda host, n: (Opcode.CREATE_QP, QP),
                lambda rsp: (Opcode.DESTROY_QP, {"qp_handle": rsp.qp_handle}), 64, base),
    "counter": Maker(lambda host, n: (Opcode.CREATE_EVENT_COUNTER, {"paddr": 8 * n}),
                     lambda rsp: (Opcode.DESTROY_EVENT_COUNTER,
                                     {"cntr_handle": rsp.cntr_handle}), 64, Host.uar),
}  # fmt: skip


@pytest.mark.parametrize("kind", MAKERS)
def test_a_limit_is_reached_and_freed(kind):
    maker, host = MAKERS[kind], Host()
    maker.prepare(host)
    before = host.device.objects.translations.blocks.copy()

    def make(number):
        opcode, values = maker.make(host, number)
        return host.command(opcode, **values)

    for wrap in range(2):
        made = [make(number) for number in range(maker.count)]
        opcode, values = maker.make(host, maker.count)
        digest = host.device.digest()
        host.write_command(opcode, **values)
        host.ring_aq()
        assert host.response(host.commands)[0].status == NO_SPACE, wrap
        assert host.device.digest() == digest
        # Destroys an object in the middle and creates another; the destroyed number stays invalid.
        opcode, values = maker.end(made[maker.count // 2])
        host.command(opcode, **values)
        again = make(maker.count + 1)
        for rsp in [*made[: maker.count // 2], again, *made[maker.count // 2 + 1 :]]:
            opcode, values = maker.end(rsp)
            host.command(opcode, **values)
        host.write_command(opcode, **values)
        host.ring_aq()
        assert host.response(host.commands)[0].status == ILLEGAL
    assert host.device.objects.translations.blocks == before


@pytest.mark.parametrize("kind", MAKERS)
def test_the_digest_sees_what_is_made_and_ended(kind):
    maker, host = MAKERS[kind], Host()
    maker.prepare(host)
    seen = {host.device.digest()}
    opcode, values = maker.make(host, 0)
    rsp = host.command(opcode, **values)
    seen.add(host.device.digest())
    opcode, values = maker.end(rsp)
    host.command(opcode, **values)
    # Generations and UAR-touched numbers are state: for some kinds, the final digest differs from
    # the first.
    seen.add(host.device.digest())
    assert len(seen) >= 2 + (kind in ("mr", "allocated mr", "qp", "cq"))


def test_the_digest_sees_settings_queues_and_registers():
    host = Host()
    pd, uar = host.pd(), host.uar()
    cq, eq = host.cq(uar), host.eq()
    qp = host.qp(pd, uar, cq)
    counter, _ = host.counter(uar)
    changes = [
        lambda: qp.to(State.RTS), lambda: qp.modify(qkey=5), lambda: qp.modify(sq_psn=6),
        lambda: qp.ring(1), lambda: qp.ring_rq(1), lambda: cq.ring(1), eq.arm,
        lambda: host.device.store(2, qp.slot(1), bytes(4)), lambda: host.enable(0x1E),
        lambda: host.aenq(), lambda: host.device.raise_event(1), lambda: host.reg(Reg.INTR_MASK, 1),
        lambda: host.vector(3, masked=True), lambda: host.reg(Reg.MMIO_RESP_LO, 8),
        lambda: host.command(Opcode.MODIFY_EVENT_COUNTER, cntr_handle=counter, value=3),
        lambda: host.command(
            Opcode.ATTACH_EVENT_COUNTER, cntr_handle=counter,
            **{"u.qp_events.qp_handle": qp.handle, "u.qp_events.events": 1}),
        lambda: host.reg(Reg.DEV_CTL, 1), lambda: host.reg(Reg.DEV_CTL, 0),
    ]  # fmt: skip
    for number, change in enumerate(changes):
        before = host.device.digest()
        change()
        assert host.device.digest() != before, number


@pytest.mark.parametrize("opcode", [Opcode.GET_FEATURE, Opcode.GET_STATS, Opcode.QUERY_QP])
def test_what_only_reads_leaves_the_digest(opcode):
    host = Host()
    pd, uar = host.pd(), host.uar()
    qp = host.qp(pd, uar, host.cq(uar))
    values = {
        Opcode.GET_FEATURE: {"feature_common.feature_id": 1}, Opcode.GET_STATS: {"type": 1},
        Opcode.QUERY_QP: {"qp_handle": qp.handle},
    }  # fmt: skip
    before = host.device.digest()
    host.command(opcode, **values[opcode])
    assert host.device.digest() == before


@pytest.mark.parametrize("exponent", range(10))
def test_event_queues_of_every_depth_wrap(exponent):
    host = Host()
    uar, depth = host.uar(), 1 << exponent
    eq = host.eq(depth)
    cq = host.cq(uar, eq=eq)
    completions = host.device.datapath.completions
    qp = host.qp(host.pd(), uar, cq, rq_depth=0)
    live = host.device.objects.qps.get(0)
    for count in range(2 * depth + 1):
        eq.arm()
        cq.ring(count, arm=1)
        completions.send(live, count & 0xFFFF, 0, 0)
        assert eq.cqns() == [cq.number]
    assert qp.number == live.number


@pytest.mark.parametrize("exponent", range(14))
@pytest.mark.parametrize("words_", [4, 8])
def test_completion_queues_of_every_depth_wrap(exponent, words_):
    host = Host()
    uar, depth = host.uar(), 1 << exponent
    cq = host.cq(uar, depth, entry_words=words_)
    host.qp(host.pd(), uar, cq, rq_depth=0)
    live = host.device.objects.qps.get(0)
    wrap = min(depth, 600)
    # Deep rings start before the end of their second wrap, so that each ring wraps.
    first = 0 if wrap == depth else 2 * depth - wrap // 2
    host.device.objects.cqs.get(cq.number).rings[0].written = cq.subs[0].consumed = first
    for turn in range(3):
        wanted = [turn * wrap + count & 0xFFFF for count in range(wrap)]
        for req_id in wanted:
            host.device.datapath.completions.send(live, req_id, 0, 0)
        assert [req_id for req_id, _, _ in cq.results()] == wanted
