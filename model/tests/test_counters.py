# SPDX-License-Identifier: Apache-2.0
"""Tests event counters: creation, attachment, updates in host memory, and each error."""

import pytest
from rig import UD, Host, Opcode, Pair, Reg, State, Status

ILLEGAL, BUSY = Status.ILLEGAL_PARAMETER, Status.RESOURCE_BUSY
NO_SPACE = Status.RESOURCE_ALLOCATION_FAILURE
SEND, SEND_ERR, RECV, RECV_ERR = 1, 2, 4, 8
SET, ADD = 0, 1
TOP = (1 << 64) - 1


def attach(host, handle, qp, events, detach=False, **change):
    opcode = Opcode.DETACH_EVENT_COUNTER if detach else Opcode.ATTACH_EVENT_COUNTER
    host.command(opcode, **attachment(handle, qp, events) | change)


def attachment(handle, qp, events):
    return {
        "cntr_handle": handle, "attach_type": 0, "u.qp_events.qp_handle": qp.handle,
        "u.qp_events.events": events,
    }  # fmt: skip


def value(host, address):
    return int.from_bytes(host.memory.read(address, 8), "little")


class Bench:
    """Two QPs of one UAR with a counter, and a QP and a counter of another UAR."""

    def __init__(self, **options):
        self.host = host = Host(**options)
        self.pd, self.uar, self.other_uar = host.pd(), host.uar(), host.uar()
        cq, other = host.cq(self.uar), host.cq(self.other_uar)
        self.qp, self.second = host.qp(self.pd, self.uar, cq), host.qp(self.pd, self.uar, cq)
        self.foreign_qp = host.qp(self.pd, self.other_uar, other)
        self.counter, self.address = host.counter(self.uar)
        self.foreign, _ = host.counter(self.other_uar)


@pytest.fixture
def bench():
    return Bench()


def test_counters_are_numbered_lowest_first_and_run_out(bench):
    host = bench.host
    numbers = [host.counter(bench.uar)[0] for _ in range(2, 64)]
    assert numbers == list(range(2, 64))
    create = {"uar": bench.uar, "paddr": 0x1000}
    assert host.refusal(Opcode.CREATE_EVENT_COUNTER, **create) == NO_SPACE
    host.command(Opcode.DESTROY_EVENT_COUNTER, cntr_handle=17)
    assert host.counter(bench.uar)[0] == 17


@pytest.mark.parametrize("change", [{"uar": 2}, {"uar": 0xFFFF}, {"paddr": 0x1004}, {"paddr": 1}])
def test_a_bad_counter_is_refused(bench, change):
    values = {"uar": bench.uar, "paddr": 0x1000} | change
    assert bench.host.refusal(Opcode.CREATE_EVENT_COUNTER, **values) == ILLEGAL


def test_a_new_counter_is_zero_and_nothing_is_written(bench):
    host = bench.host
    place = host.allocate(8, 8)
    host.memory.write(place, b"\xaa" * 8)
    host.command(Opcode.CREATE_EVENT_COUNTER, uar=bench.uar, paddr=place)
    assert host.memory.read(place, 8) == b"\xaa" * 8
    host.command(Opcode.MODIFY_EVENT_COUNTER, cntr_handle=2, operation=ADD, value=3)
    assert value(host, place) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"cntr_handle": 2}, {"cntr_handle": 1 << 6}, {"cntr_handle": 1}, {"attach_type": 1},
        {"u.qp_events.qp_handle": 60}, {"u.qp_events.qp_handle": 1 << 16},
        {"u.qp_events.qp_handle": 2}, {"u.qp_events.events": 0}, {"u.qp_events.events": 0x10},
        {"u.qp_events.events": 1 << 31 | 1},
    ],
)  # fmt: skip
@pytest.mark.parametrize("profile", ["default", "recorded"])
def test_a_bad_attachment_is_refused(change, profile):
    bench = Bench(profile=profile)
    values = attachment(bench.counter, bench.qp, 0xF)
    assert bench.host.refusal(Opcode.ATTACH_EVENT_COUNTER, **values | change) == ILLEGAL
    attach(bench.host, bench.counter, bench.qp, 0xF)
    assert bench.host.refusal(Opcode.DETACH_EVENT_COUNTER, **values | change) == ILLEGAL


def test_an_event_has_one_counter(bench):
    host = bench.host
    second, _ = host.counter(bench.uar)
    attach(host, bench.counter, bench.qp, SEND | RECV)
    for events in (SEND, RECV, SEND | RECV, SEND | SEND_ERR):
        values = attachment(second, bench.qp, events)
        assert host.refusal(Opcode.ATTACH_EVENT_COUNTER, **values) == BUSY
    attach(host, second, bench.qp, SEND_ERR)
    # A second attachment of the same events changes nothing; a further event is added.
    before = host.device.digest()
    attach(host, bench.counter, bench.qp, SEND)
    assert host.device.digest() == before
    attach(host, bench.counter, bench.qp, SEND | RECV_ERR)
    attach(host, bench.counter, bench.second, 0xF)


def test_only_what_is_attached_is_detached(bench):
    host = bench.host
    attach(host, bench.counter, bench.qp, SEND | RECV)
    for events in (SEND_ERR, SEND | SEND_ERR, 0xF):
        values = attachment(bench.counter, bench.qp, events)
        assert host.refusal(Opcode.DETACH_EVENT_COUNTER, **values) == ILLEGAL
    second, _ = host.counter(bench.uar)
    values = attachment(second, bench.qp, SEND)
    assert host.refusal(Opcode.DETACH_EVENT_COUNTER, **values) == ILLEGAL
    attach(host, bench.counter, bench.qp, SEND, detach=True)
    values = attachment(bench.counter, bench.qp, SEND)
    assert host.refusal(Opcode.DETACH_EVENT_COUNTER, **values) == ILLEGAL
    attach(host, bench.counter, bench.qp, RECV, detach=True)
    host.command(Opcode.DESTROY_EVENT_COUNTER, cntr_handle=bench.counter)


def test_an_attached_counter_is_busy(bench):
    host, gone = bench.host, {"cntr_handle": bench.counter}
    attach(host, bench.counter, bench.qp, SEND)
    attach(host, bench.counter, bench.second, 0xF)
    assert host.refusal(Opcode.DESTROY_EVENT_COUNTER, **gone) == BUSY
    bench.qp.destroy()
    assert host.refusal(Opcode.DESTROY_EVENT_COUNTER, **gone) == BUSY
    bench.second.destroy()
    host.command(Opcode.DESTROY_EVENT_COUNTER, **gone)
    assert host.refusal(Opcode.DESTROY_EVENT_COUNTER, **gone) == ILLEGAL


@pytest.mark.parametrize("handle", [2, 64, 1 << 31])
def test_a_counter_that_is_not_there_is_refused(bench, handle):
    host = bench.host
    assert host.refusal(Opcode.DESTROY_EVENT_COUNTER, cntr_handle=handle) == ILLEGAL
    assert host.refusal(Opcode.MODIFY_EVENT_COUNTER, cntr_handle=handle) == ILLEGAL


def test_a_uar_with_a_counter_is_busy(bench):
    host = bench.host
    uar = host.uar()
    counter, _ = host.counter(uar)
    assert host.refusal(Opcode.DEALLOC_UAR, uar=uar) == BUSY
    host.command(Opcode.DESTROY_EVENT_COUNTER, cntr_handle=counter)
    host.command(Opcode.DEALLOC_UAR, uar=uar)


@pytest.mark.parametrize(
    ("before", "operation", "number", "after"),
    [(5, SET, 7, 7), (5, ADD, 7, 12), (TOP, ADD, 1, 0), (TOP, ADD, TOP, TOP - 1),
     (1, SET, TOP, TOP)],
)  # fmt: skip
def test_a_counter_is_set_and_added_to(bench, before, operation, number, after):
    host, name = bench.host, {"cntr_handle": bench.counter}
    host.command(Opcode.MODIFY_EVENT_COUNTER, **name, operation=SET, value=before)
    host.writes.clear()
    host.command(Opcode.MODIFY_EVENT_COUNTER, **name, operation=operation, value=number)
    assert host.writes[0] == (bench.address, after.to_bytes(8, "little"))
    # The device writes the response after the value.
    assert len(host.writes) == 2


@pytest.mark.parametrize("operation", [2, 255])
def test_another_operation_is_refused(bench, operation):
    values = {"cntr_handle": bench.counter, "operation": operation, "value": 1}
    assert bench.host.refusal(Opcode.MODIFY_EVENT_COUNTER, **values) == ILLEGAL


def test_completions_count_behind_their_entry_and_before_their_event():
    pair = Pair()
    host = pair.a
    eq = host.eq()
    uar = host.uar()
    cq = host.cq(uar, eq=eq)
    tx = host.qp(pair.pd, uar, cq).to(State.RTS)
    counter, address = host.counter(uar)
    attach(host, counter, tx, SEND)
    cq.ring(0, arm=1)
    eq.arm()
    host.writes.clear()
    pair.rx.post(pair.sink(0, 64))
    tx.send(pair.wqe(pair.buffer(0, 8)))
    pair.fabric.run()
    places = [at for at, _ in host.writes]
    assert places[-3:] == [cq.base, address, eq.base]
    assert value(host, address) == 1


def test_each_outcome_has_its_counter():
    pair = Pair()
    host, places = pair.a, {}
    for qp, events in ((pair.tx, (SEND, SEND_ERR)), (pair.rx, (RECV, RECV_ERR))):
        for event in events:
            counter, places[event] = host.counter(pair.uar)
            attach(host, counter, qp, event)

    def counts():
        return [value(host, places[event]) for event in (SEND, SEND_ERR, RECV, RECV_ERR)]

    for turn in range(3):
        pair.rx.post(pair.sink(0, 64), req_id=turn)
        pair.send(pair.buffer(0, 8))
    assert counts() == [3, 0, 3, 0]
    pair.send(pair.buffer(0, 8))
    assert counts() == [3, 1, 3, 0]
    pair.rx.post((0, 64, 0xFFFF))
    pair.send(pair.buffer(0, 8))
    assert counts() == [3, 2, 3, 1]
    for turn in range(2):
        pair.rx.post(pair.sink(0, 64), req_id=turn)
    pair.rx.modify(State.ERR)
    assert counts() == [3, 2, 3, 3]
    pair.tx.modify(State.ERR)
    pair.tx.send(pair.wqe(pair.buffer(0, 8)))
    assert counts() == [3, 3, 3, 3]


def test_one_counter_for_many_queues_counts_all():
    pair = Pair(kind=UD)
    host = pair.a
    counter, address = host.counter(pair.uar)
    attach(host, counter, pair.tx, 0xF)
    attach(host, counter, pair.rx, 0xF)
    pair.rx.post(pair.sink(0, 128))
    pair.send(pair.buffer(0, 8))
    assert value(host, address) == 2


def test_a_detached_or_destroyed_counter_is_not_written():
    pair = Pair()
    host = pair.a
    counter, address = host.counter(pair.uar)
    attach(host, counter, pair.tx, 0xF)
    attach(host, counter, pair.tx, SEND_ERR, detach=True)
    pair.send(pair.buffer(0, 8))
    assert value(host, address) == 0
    attach(host, counter, pair.tx, 0xF & ~SEND_ERR, detach=True)
    host.command(Opcode.DESTROY_EVENT_COUNTER, cntr_handle=counter)
    host.memory.write(address, b"\x55" * 8)
    pair.rx.post(pair.sink(0, 64))
    pair.send(pair.buffer(0, 8))
    assert host.memory.read(address, 8) == b"\x55" * 8


def test_the_count_wraps():
    pair = Pair()
    host = pair.a
    counter, address = host.counter(pair.uar)
    attach(host, counter, pair.tx, 0xF)
    host.command(Opcode.MODIFY_EVENT_COUNTER, cntr_handle=counter, operation=SET, value=TOP)
    pair.send(pair.buffer(0, 8))
    assert value(host, address) == 0


def test_attachments_stay_over_reset_of_the_queue_and_end_with_the_device():
    pair = Pair()
    host = pair.a
    counter, address = host.counter(pair.uar)
    attach(host, counter, pair.tx, 0xF)
    pair.tx.modify(State.RESET)
    pair.tx.to(State.RTS)
    pair.send(pair.buffer(0, 8))
    assert value(host, address) == 1
    host.reg(Reg.DEV_CTL, 1)
    host.reg(Reg.DEV_CTL, 0)
    host.bring_up()
    gone = {"cntr_handle": counter}
    assert host.refusal(Opcode.DESTROY_EVENT_COUNTER, **gone) == ILLEGAL


def test_reserved_bits_of_counter_commands_are_ignored(bench):
    host = bench.host
    ones = b"\xff" * 7
    host.command(Opcode.CREATE_EVENT_COUNTER, uar=bench.uar, reserved=0xFFFF, paddr=0x1000)
    attach(host, bench.counter, bench.qp, SEND, reserved=ones[:3])
    host.command(Opcode.MODIFY_EVENT_COUNTER, cntr_handle=bench.counter, operation=ADD,
                 reserved=ones, value=1)  # fmt: skip
    assert value(host, bench.address) == 1


def test_the_capability_is_that_of_the_profile():
    for profile, reported in (("default", 1), ("recorded", 0)):
        host = Host(profile=profile)
        response = host.command(Opcode.GET_FEATURE, **{"feature_common.feature_id": 1})
        assert response.u.device_attr.event_counters == reported
