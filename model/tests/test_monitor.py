# SPDX-License-Identifier: Apache-2.0
"""Tests the monitor of the reliable transport: good runs pass, each planted violation is named.

A recorded run is the list of what its monitor saw. A planted violation changes, adds or leaves out
entries, and a fresh monitor sees the result.
"""

import random

import pytest
from lossy_network import (
    delay_path,
    delay_randomly,
    duplicate,
    is_ack,
    lose,
    lose_between,
    lose_burst,
    path_of,
)
from transport_bench import LONG, OK, TICK, Bench

from efa_cosim.fabric.description import parse_fabric
from efa_cosim.fabric.network import Network
from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.endpoint import Endpoint
from efa_cosim.transport.message import Message
from efa_cosim.transport.monitor import Monitor
from efa_cosim.transport.monitor_rules import ProtocolFault, Rule
from efa_cosim.transport.packets import PSN_MASK, Start, constants_with

read_data, read_ack = SrdHdrFields.read, SrdAckFields.read

Status = defs.IoCompStatus
WINDOW = 1 << defs.TRANSPORT.psn_window_w
QUIET = defs.TRANSPORT.quiet_ticks * TICK


class Recorder(Monitor):
    """A monitor that also stores what it sees, as (method, arguments)."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.seen, self.settings = [], settings

    def sent(self, now, packet):
        self.seen.append(("sent", now, packet))
        super().sent(now, packet)

    def delivered(self, now, packet, node=None):
        self.seen.append(("delivered", now, packet, node))
        super().delivered(now, packet, node)

    def reset(self, now, node):
        self.seen.append(("reset", now, node))
        super().reset(now, node)

    def executed(self, now, packet, status):
        self.seen.append(("executed", now, packet, status))
        super().executed(now, packet, status)

    def completed(self, now, node, message, status):
        self.seen.append(("completed", now, node, message, status))
        super().completed(now, node, message, status)

    def finish(self, now):
        self.seen.append(("finish", now))
        super().finish(now)


def replay(seen, **settings):
    """Returns the faults that a fresh monitor finds."""
    faults = []
    monitor = Monitor(**settings, report=faults.append)
    for method, *arguments in seen:
        getattr(monitor, method)(*arguments)
    return faults


def changed(packet, **fields):
    """Returns a packet with other header fields."""
    ack = is_ack(packet)
    header = (SrdAckFields if ack else SrdHdrFields).read(packet)._replace(**fields)
    return header.pack(**header._asdict()) + packet[(defs.SrdAck if ack else defs.SrdHdr).SIZE :]


def positions(seen, method, test=lambda packet: True):
    return [at for at, one in enumerate(seen) if one[0] == method and test(one[2])]


def is_data(packet):
    return not is_ack(packet)


def repeats(seen):
    """Positions of the retransmissions of node 0."""
    known, found = set(), []
    for at in positions(seen, "sent", is_data):
        header = read_data(seen[at][2])
        key = header.session, header.psn
        if key in known:
            found.append(at)
        known.add(key)
    return found


@pytest.fixture(scope="module")
def recorded():
    """A run with loss, refusals and resets of both nodes, which breaks no rule."""
    bench = Bench(faults=[lose(0.03), duplicate(0.05, 3000)], seed=4, watch=Recorder)
    bench.judge = lambda node, name, packet: (
        Status.REMOTE_ERROR_BAD_ADDRESS if name % 50 == 7 else OK
    )
    for _ in range(400):
        bench.post()
    bench.net.run()
    for node in (0, 1):
        bench.nodes[node].reset()
        bench.net.run(bench.net.now + QUIET + TICK)
        for _ in range(60):
            bench.post()
            bench.post(1, 0)
        bench.net.run()
    return bench.monitor


def plant(recorded, change):
    """Returns the rule of the first fault in a changed copy of the run."""
    seen = list(recorded.seen)
    change(seen)
    faults = replay(seen, **recorded.settings)
    assert faults, "no fault found"
    return faults[0]


def alter(at, **fields):
    """Changes fields of the packet at a position."""

    def change(seen):
        method, now, packet, *rest = seen[at]
        seen[at] = (method, now, changed(packet, **fields), *rest)

    return change


def test_a_recorded_run_repeats_without_a_fault(recorded):
    assert replay(recorded.seen, **recorded.settings) == []
    assert recorded.packets > 700 and repeats(recorded.seen)


@pytest.mark.parametrize("fields", [
    {"path": 8}, {"status": 1}, {"session": 0}, {"opcode": 9}, {"dst_node": 7}, {"length": 5},
    {"imm": 1}, {"flags": 2}])  # fmt: skip
def test_a_wrong_field_of_a_data_packet_is_named(recorded, fields):
    at = positions(recorded.seen, "sent", is_data)[20]
    fault = plant(recorded, alter(at, **fields))
    assert fault.rule is Rule.FIELD and fault.cycle == recorded.seen[at][1]


@pytest.mark.parametrize("fields", [
    {"path": 8}, {"status": 13}, {"incarnation": 0}, {"flags": 1}, {"reserved": 1}, {"length": 31},
    {"refused_psn": 3}, {"src_qpn": 3}])  # fmt: skip
def test_a_wrong_field_of_an_acknowledgement_is_named(recorded, fields):
    at = positions(recorded.seen, "sent", lambda one: is_ack(one) and not read_ack(one).status)[20]
    assert plant(recorded, alter(at, **fields)).rule is Rule.FIELD


def test_a_packet_of_another_length_is_named(recorded):
    def cut(at):
        def change(seen):
            seen[at] = (*seen[at][:2], seen[at][2][:-1])

        return change

    for test in (is_ack, is_data):
        at = positions(recorded.seen, "sent", test)[9]
        assert plant(recorded, cut(at)).rule is Rule.FIELD

    def short(seen):
        seen[0] = (*seen[0][:2], b"\2")

    assert plant(recorded, short).rule is Rule.FIELD


def test_a_number_that_is_not_new_is_named(recorded):
    seen = recorded.seen
    reset = positions(seen, "reset", lambda node: node == 0)[0]
    sent = [at for at in positions(seen, "sent", is_data)
            if at > reset and read_data(seen[at][2]).src_node == 0]  # fmt: skip
    old = read_data(seen[0][2]).session
    assert plant(recorded, alter(sent[0], session=old)).rule is Rule.NUMBER
    acks = positions(seen, "sent", is_ack)
    fault = plant(recorded, alter(acks[30], incarnation=9))
    assert fault.rule is Rule.NUMBER and "expected 1" in str(fault)
    own = [at for at in acks if at > reset and read_ack(seen[at][2]).src_node == 0]
    fault = plant(recorded, alter(own[0], incarnation=1))
    assert fault.rule is Rule.NUMBER


def test_a_session_without_cause_is_named(recorded):
    at = positions(recorded.seen, "sent", is_data)[60]
    fault = plant(recorded, alter(at, session=9, behind=0))
    assert fault.rule is Rule.SESSION and fault.session == 2


def test_a_packet_of_a_session_that_has_ended_is_named():
    bench = Bench(watch=Recorder)
    bench.post(packets=40)
    bench.net.run(3000)
    bench.nodes[1].reset()
    bench.net.run()
    seen, settings = bench.monitor.seen, bench.monitor.settings
    assert replay(seen, **settings) == []
    end = next(at for at in positions(seen, "delivered", is_ack)
               if read_ack(seen[at][2]).status == Status.REMOTE_ERROR_ABORT)  # fmt: skip
    again = next(one for one in seen if one[0] == "sent" and is_data(one[2]))
    seen.insert(end + 1, ("sent", seen[end][1], changed(again[2], psn=40, behind=0)))
    assert replay(seen, **settings)[0].rule is Rule.SESSION


def test_a_gap_of_psns_is_named(recorded):
    at = positions(recorded.seen, "sent", is_data)[10]
    fault = plant(recorded, lambda seen: seen.pop(at))
    assert fault.rule is Rule.PSN and fault.expected == "PSN 10" and fault.psn == 11

    seen = recorded.seen
    first = alter(0, psn=5)
    assert plant(recorded, first).rule in (Rule.PSN, Rule.BEHIND)
    assert replay(seen, **recorded.settings) == []


def test_a_changed_retransmission_is_named(recorded):
    for fields in ({"qkey": 7}, {"dst_qpn": 4}, {"opcode": defs.PktOpcode.RDMA_WRITE}):
        at = repeats(recorded.seen)[0]
        fault = plant(recorded, alter(at, **fields))
        assert fault.rule is Rule.CONTENT
        assert fault.psn == read_data(recorded.seen[at][2]).psn


def test_a_wrong_behind_is_named(recorded):
    for at in (positions(recorded.seen, "sent", is_data)[40], repeats(recorded.seen)[3]):
        right = read_data(recorded.seen[at][2]).behind
        fault = plant(recorded, alter(at, behind=right + 1))
        assert fault.rule is Rule.BEHIND and f"behind {right}" in fault.expected
    at = positions(recorded.seen, "sent", lambda one: is_data(one) and read_data(one).behind)[-1]
    assert plant(recorded, alter(at, behind=0)).rule is Rule.BEHIND


def test_a_wrong_incarnation_is_named(recorded):
    sent = positions(recorded.seen, "sent", is_data)
    assert plant(recorded, alter(sent[3], incarnation=1)).rule is Rule.INCARNATION
    assert plant(recorded, alter(sent[200], incarnation=0)).rule is Rule.INCARNATION


def test_a_retransmission_without_cause_is_named(recorded):
    sent = positions(recorded.seen, "sent", is_data)

    def again(at, later):
        # The last packet again, at once or before its acknowledgement may be here.
        def change(seen):
            seen.insert(at + 1, ("sent", seen[at][1] + later, seen[at][2]))

        return change

    for at in (sent[5], sent[150], sent[250]):
        for later in (1, 60):
            if later < recorded.seen[at + 1][1] - recorded.seen[at][1] or later == 1:
                fault = plant(recorded, again(at, later))
                assert fault.rule is Rule.CAUSE and "age" in fault.found


def test_a_packet_after_its_completion_is_named(recorded):
    at = positions(recorded.seen, "sent", is_data)[100]
    message = recorded.settings["message_of"](recorded.seen[at][2])

    def early(seen):
        seen.insert(at, ("completed", seen[at][1], 0, message, Status.FLUSHED))

    assert plant(recorded, early).rule is Rule.ENDED


def test_a_completion_before_its_packets_are_resolved_is_named(recorded):
    at = positions(recorded.seen, "sent", is_data)[100]
    message = recorded.settings["message_of"](recorded.seen[at][2])
    for status in (OK, Status.REMOTE_ERROR_BAD_ADDRESS):
        def early(seen, status=status):
            seen.insert(at + 1, ("completed", seen[at][1], 0, message, status))

        fault = plant(recorded, early)
        assert fault.rule is Rule.COMPLETION and fault.psn == 100


# Acknowledgements.


def plain_acks(seen, source=1):
    return positions(seen, "sent", lambda one: is_ack(one) and not read_ack(one).status
                     and read_ack(one).src_node == source)  # fmt: skip


def test_an_acknowledgement_of_another_session_is_named(recorded):
    at = plain_acks(recorded.seen)[30]
    fault = plant(recorded, alter(at, session=7))
    assert fault.rule is Rule.ACK_SESSION and (fault.node, fault.peer) == (1, 0)


@pytest.mark.parametrize("outcomes", [True, False])
def test_an_untrue_acknowledgement_is_named(recorded, outcomes):
    seen = list(recorded.seen)
    settings = {**recorded.settings, "outcomes": outcomes}
    assert replay(seen, **settings) == []
    at = plain_acks(seen)[30]
    ack = read_ack(seen[at][2])
    ahead = ack.psn + 1 & PSN_MASK
    bits = (int.from_bytes(ack.bitmap, "little") | 1 << 200).to_bytes(32, "little")
    for fields in (
        {"psn": ahead, "bitmap_psn": ahead, "bitmap": bytes(32)}, {"bitmap": bits},
        {"psn": ack.psn + 999, "bitmap_psn": ack.psn + 999}):  # fmt: skip
        seen[at] = (*seen[at][:2], changed(recorded.seen[at][2], **fields))
        assert replay(seen, **settings)[0].rule is Rule.ACK_TRUTH


def test_an_acknowledgement_of_a_refused_packet_is_named(recorded):
    seen = recorded.seen
    refusal = next(at for at in positions(seen, "sent", is_ack) if read_ack(seen[at][2]).status)
    psn = read_ack(seen[refusal][2]).refused_psn
    at = next(one for one in plain_acks(seen) if one > refusal)
    shown = changed(seen[at][2], psn=psn, bitmap_psn=psn, bitmap=b"\1" + bytes(31))
    known = list(seen)
    known[at] = (*seen[at][:2], shown)
    for outcomes in (True, False):
        fault = replay(known, **{**recorded.settings, "outcomes": outcomes})[0]
        assert fault.rule is Rule.ACK_TRUTH and fault.psn == psn


def test_an_acknowledgement_that_hides_progress_is_named(recorded):
    seen = recorded.seen
    with_bits = [at for at in plain_acks(seen) if any(read_ack(seen[at][2]).bitmap)]
    assert plant(recorded, alter(with_bits[3], bitmap=bytes(32))).rule is Rule.ACK_WHOLE
    at = plain_acks(seen)[40]
    psn = read_ack(seen[at][2]).psn - 1
    fields = {"psn": psn, "bitmap_psn": psn, "bitmap": bytes(32)}
    assert plant(recorded, alter(at, **fields)).rule is Rule.ACK_WHOLE
    settings = {**recorded.settings, "outcomes": False}
    backwards = list(seen)
    backwards[at] = (*seen[at][:2], changed(seen[at][2], psn=3, bitmap_psn=3, bitmap=bytes(32)))
    assert replay(backwards, **settings)[0].rule is Rule.ACK_WHOLE


def test_a_bitmap_at_a_wrong_place_is_named(recorded):
    at = plain_acks(recorded.seen)[40]
    psn = read_ack(recorded.seen[at][2]).psn
    for base in (psn + 1, psn - 1, -(-psn // 256) * 256):
        fault = plant(recorded, alter(at, bitmap_psn=base & PSN_MASK, bitmap=bytes(32)))
        assert fault.rule is Rule.ACK_BITMAP


def test_an_acknowledgement_of_another_path_is_named(recorded):
    at = plain_acks(recorded.seen)[0]
    path = read_ack(recorded.seen[at][2]).path
    assert plant(recorded, alter(at, path=path ^ 1)).rule is Rule.ACK_PATH


@pytest.mark.parametrize("outcomes", [True, False])
def test_an_acknowledgement_too_many_is_named(recorded, outcomes):
    # Without outcomes, each packet may have one acknowledgement.
    seen, settings = list(recorded.seen), {**recorded.settings, "outcomes": outcomes}
    at = plain_acks(seen)[5]
    seen[at + 1 : at + 1] = [seen[at]] * 40
    assert replay(seen, **settings)[0].rule is Rule.ACK_CAUSE


def test_a_missing_acknowledgement_is_named(recorded):
    seen = recorded.seen
    last = max(at for at in positions(seen, "sent", is_ack) if not read_ack(seen[at][2]).status)
    fault = plant(recorded, lambda copy: copy.pop(last))
    assert fault.rule is Rule.ACK_MISSING and fault.node == read_ack(seen[last][2]).src_node


def test_a_second_execution_is_named(recorded):
    at = positions(recorded.seen, "executed")[20]
    fault = plant(recorded, lambda seen: seen.insert(at, seen[at]))
    assert fault.rule is Rule.ONCE and fault.node == 1 and fault.psn == 20


@pytest.mark.parametrize("outcomes", [True, False])
def test_a_wrong_refusal_is_named(recorded, outcomes):
    seen, settings = list(recorded.seen), {**recorded.settings, "outcomes": outcomes}
    at = next(at for at in positions(seen, "sent", is_ack) if read_ack(seen[at][2]).status)
    ack = read_ack(seen[at][2])
    good = seen[at]
    for rule, fields in (
        (Rule.REFUSAL, {"refused_psn": ack.psn + 250}),
        (Rule.REFUSAL, {"refused_psn": 0}),
        (Rule.REFUSAL, {"src_qpn": 3}),
        (Rule.ACK_PATH, {"path": ack.path ^ 1}),
        (Rule.ACK_SESSION, {"session": 77}),
    ):
        seen[at] = (*good[:2], changed(good[2], **fields))
        assert replay(seen, **settings)[0].rule is rule
    seen[at] = good
    other = changed(good[2], status=Status.REMOTE_ERROR_BAD_LENGTH)
    for added in ((*good[:2], other), good):
        assert replay([*seen[: at + 1], added], **settings)[0].rule is Rule.REFUSAL


def reset_run():
    """A run in which a receiver is reset: ABORT, and replies of its quiet time."""
    bench = Bench(watch=Recorder)
    bench.post(packets=40)
    bench.net.run(2500)
    bench.nodes[1].reset()
    bench.net.run(5000)
    bench.nodes[0].reset()
    bench.post(packets=30)
    bench.net.run()
    return bench.monitor


@pytest.mark.parametrize("aborts", [True, False])
def test_a_wrong_reply_after_a_reset_is_named(aborts):
    monitor = reset_run()
    seen, settings = monitor.seen, monitor.settings
    assert replay(seen, **settings) == []
    reset = positions(seen, "reset")[0]
    replies = [at for at in positions(seen, "sent", is_ack) if at > reset
               and read_ack(seen[at][2]).src_node == 1
               and (read_ack(seen[at][2]).status == Status.REMOTE_ERROR_ABORT) == aborts]
    at = replies[0]
    for fields in ({"psn": 99, "bitmap_psn": 99}, {"path": read_ack(seen[at][2]).path ^ 1},
                   {"bitmap_psn": 7}, {"session": 9}):  # fmt: skip
        copy = list(seen)
        copy[at] = (*seen[at][:2], changed(seen[at][2], **fields))
        assert replay(copy, **settings)[0].rule is Rule.REPLY
    # One reply for each packet.
    copy = list(seen)
    copy[at + 1 : at + 1] = [seen[at]] * 70
    assert replay(copy, **settings)[0].rule is Rule.REPLY


def test_new_packets_before_those_that_the_quiet_time_lost_are_named():
    monitor = reset_run()
    seen = monitor.seen
    end = next(at for at in positions(seen, "delivered", is_ack)
               if read_ack(seen[at][2]).psn == 0 and not read_ack(seen[at][2]).status
               and at > positions(seen, "reset")[1])
    sent = [at for at in positions(seen, "sent", is_data) if at < end]
    last = read_data(seen[sent[-1]][2])
    incarnation = read_ack(seen[end][2]).incarnation
    new = changed(seen[sent[-1]][2], psn=last.psn + 1, behind=last.behind + 1,
                  incarnation=incarnation)  # fmt: skip
    seen.insert(end + 1, ("sent", seen[end][1], new))
    settings = {**monitor.settings, "message_of": None, "cancels": False}
    assert replay(seen, **settings)[0].rule is Rule.LOST_FIRST


# The window, step by step.


def data_packet(psn, oldest=0, **fields):
    given = {"opcode": defs.PktOpcode.SRD_SEND, "length": 8, "session": 2, "dst_node": 1,
             "psn": psn, "behind": psn - oldest, **fields}  # fmt: skip
    return SrdHdrFields.pack(**given) + bytes(8)


def ack_packet(psn, bits=0, **fields):
    given = {"opcode": defs.PktOpcode.SRD_ACK, "length": 32, "session": 2, "incarnation": 1,
             "src_node": 1, "psn": psn, "bitmap_psn": psn, "bitmap": bits.to_bytes(32, "little"),
             **fields}  # fmt: skip
    return SrdAckFields.pack(**given)


def step_monitor(**settings):
    return Monitor(start=Start(), cancels=False, **settings)


def test_a_packet_beyond_the_window_is_named():
    monitor = step_monitor(constants=constants_with(cwnd_initial=1000))
    for psn in range(WINDOW):
        monitor.sent(psn, data_packet(psn))
    with pytest.raises(ProtocolFault) as raised:
        monitor.sent(WINDOW, data_packet(WINDOW))
    fault = raised.value
    assert fault.rule is Rule.WINDOW and fault.psn == WINDOW and fault.found == str(WINDOW)
    for text in ("WINDOW: node 0 to 1, session 2, PSN 256, cycle 256", Rule.WINDOW.value):
        assert text in str(fault)


def test_more_packets_than_the_congestion_window_are_named():
    monitor = step_monitor()
    most = defs.TRANSPORT.cwnd_initial + 1
    for psn in range(most):
        monitor.sent(psn, data_packet(psn))
    with pytest.raises(ProtocolFault) as raised:
        monitor.sent(most, data_packet(most))
    assert raised.value.rule is Rule.CONGESTION


def test_the_congestion_window_shrinks_when_times_grow():
    monitor = step_monitor()
    now = psn = 0
    trip = 1000

    def round_of(count):
        # Sends a window and acknowledges all of its packets.
        nonlocal now, psn
        known = 1 if psn else 0
        for at in range(psn, psn + count):
            monitor.sent(now, data_packet(at, psn, incarnation=known))
        now += trip
        for at in range(psn + 1, psn + count + 1):
            monitor.delivered(now, ack_packet(at))
        psn += count

    for _ in range(3):
        round_of(16)
    trip = 4000
    for _ in range(12):
        round_of(12)
    round_of(4)
    with pytest.raises(ProtocolFault) as raised:
        round_of(64)
    assert raised.value.rule is Rule.CONGESTION


def test_a_resolved_packet_that_is_sent_again_is_named():
    monitor = step_monitor()
    for psn in range(4):
        monitor.sent(psn, data_packet(psn))
    monitor.delivered(1000, ack_packet(0, 0b0110))
    with pytest.raises(ProtocolFault) as raised:
        monitor.sent(10**6, data_packet(2, incarnation=1))
    assert raised.value.rule is Rule.RESOLVED and raised.value.psn == 2


def test_the_timeout_has_a_least_value():
    initial = defs.TRANSPORT.rto_initial * TICK
    for cycle, faulty in ((initial - 5 * TICK, True), (initial + TICK, False)):
        # No packet can be a probe.
        monitor = step_monitor(constants=constants_with(path_probe=1 << 20))
        for psn in (0, 1):
            monitor.sent(0, data_packet(psn))
        if faulty:
            with pytest.raises(ProtocolFault, match="CAUSE"):
                monitor.sent(cycle, data_packet(1))
        else:
            monitor.sent(cycle, data_packet(1))
            # The next timeout comes after twice the time.
            with pytest.raises(ProtocolFault, match="CAUSE"):
                monitor.sent(cycle + int(1.5 * initial), data_packet(1))


def test_a_probe_is_a_copy_of_any_packet_and_comes_once_in_its_time():
    probe = defs.TRANSPORT.path_probe * TICK
    monitor = step_monitor(constants=constants_with(rto_margin=100_000))
    for psn in range(3):
        monitor.sent(0, data_packet(psn))
    # A path may be unusable: one time is more than twice another one.
    monitor.delivered(100, ack_packet(1))
    monitor.sent(110, data_packet(3, 1, incarnation=1))
    monitor.delivered(500, ack_packet(2))
    monitor.sent(500 + probe, data_packet(3, 2, path=1, incarnation=1))
    with pytest.raises(ProtocolFault, match="CAUSE"):
        monitor.sent(501 + probe, data_packet(2, 2, path=2, incarnation=1))
    monitor.sent(500 + 2 * probe, data_packet(2, 2, path=2, incarnation=1))


def test_a_peer_is_dead_after_all_of_its_timeouts_only():
    initial = defs.TRANSPORT.rto_initial * TICK
    for times, faulty in ((700, True), (770, False)):
        monitor = step_monitor()
        monitor.sent(0, data_packet(0))
        if faulty:
            with pytest.raises(ProtocolFault, match="SESSION"):
                monitor.sent(times * initial, data_packet(0, session=3))
        else:
            monitor.sent(times * initial, data_packet(0, session=3))


def test_a_canceled_psn_may_be_left_out_if_cancels_are_not_reported():
    monitor = Monitor(start=Start())
    for psn in range(4):
        monitor.sent(psn, data_packet(psn))
    monitor.sent(10, data_packet(7, oldest=6))
    with pytest.raises(ProtocolFault, match="BEHIND"):
        monitor.sent(11, data_packet(8, oldest=5))


def test_rules_of_datagrams_and_untrusted_nodes_are_not_checked():
    monitor = step_monitor(untrusted=[0])
    monitor.sent(0, bytes([defs.PktOpcode.UD_SEND]) + bytes(31))
    monitor.sent(0, data_packet(9))
    monitor.sent(0, ack_packet(9, src_node=0, dst_node=1))
    assert monitor.packets == 2


# Devices that do not react at once. A scenario delivers something in cycle AT; a packet that is
# legal before the delivery leaves `later` cycles after it.

AT, REACTION = 1000, 300


def session_that_aborts(monitor, later):
    monitor.sent(0, data_packet(0))
    monitor.delivered(AT, ack_packet(0, status=Status.REMOTE_ERROR_ABORT))
    monitor.sent(AT + later, data_packet(1))


def session_of_another_incarnation(monitor, later):
    monitor.sent(0, data_packet(0))
    monitor.delivered(10, ack_packet(1))
    monitor.sent(20, data_packet(1, 1, incarnation=1))
    monitor.delivered(AT, ack_packet(1, incarnation=9))
    monitor.sent(AT + later, data_packet(2, 1, incarnation=1))


def incarnation(monitor, later):
    monitor.sent(0, data_packet(0))
    monitor.delivered(AT, ack_packet(1))
    monitor.sent(AT + later, data_packet(1, 1))


def oldest(monitor, later):
    for psn in range(4):
        monitor.sent(psn, data_packet(psn))
    monitor.delivered(AT, ack_packet(3))
    # The sender may have resolved some of the packets.
    monitor.sent(AT + later, data_packet(4, 1, incarnation=1))


def resolved_packet(monitor, later):
    for psn in (0, 1):
        monitor.sent(0, data_packet(psn))
    timeout = defs.TRANSPORT.rto_initial * TICK + TICK
    monitor.delivered(timeout, ack_packet(0, 0b10))
    monitor.sent(timeout + later, data_packet(1, incarnation=1))


def quiet_peer(monitor, later):
    for psn in (0, 1):
        monitor.sent(0, data_packet(psn))
    monitor.delivered(AT, ack_packet(0))
    monitor.sent(AT + later, data_packet(2, incarnation=1))


def newer_session(monitor, later):
    monitor.delivered(0, data_packet(0))
    monitor.delivered(AT, data_packet(0, session=3))
    monitor.sent(AT + later, ack_packet(1, dst_node=0))


def oldest_of_the_receiver(monitor, later):
    for psn in range(3):
        monitor.delivered(0, data_packet(psn))
    monitor.delivered(AT, data_packet(4, 3))
    monitor.sent(AT + later, ack_packet(1))


def path_of_a_duplicate(monitor, later):
    for psn in (0, 1):
        monitor.delivered(0, data_packet(psn, path=1))
    monitor.sent(10, ack_packet(2, path=1))
    monitor.delivered(AT, data_packet(0, path=2))
    monitor.sent(AT + later, ack_packet(2, path=1))


@pytest.mark.parametrize(("scenario", "rule"), [
    (session_that_aborts, Rule.SESSION), (session_of_another_incarnation, Rule.SESSION),
    (incarnation, Rule.INCARNATION), (oldest, Rule.BEHIND), (resolved_packet, Rule.RESOLVED),
    (quiet_peer, Rule.LOST_FIRST), (newer_session, Rule.ACK_SESSION),
    (oldest_of_the_receiver, Rule.ACK_WHOLE), (path_of_a_duplicate, Rule.ACK_PATH)])  # fmt: skip
def test_a_packet_may_show_what_was_known_a_reaction_ago(scenario, rule):
    for reaction, later, rules in (
        (0, 0, [rule]), (REACTION, 0, []), (REACTION, REACTION - 1, []),
        (REACTION, REACTION, [rule]),
    ):  # fmt: skip
        faults = []
        scenario(step_monitor(reaction=reaction, report=faults.append), later)
        assert [fault.rule for fault in faults] == rules, (reaction, later)


def test_a_message_may_have_packets_on_their_way_when_it_is_canceled():
    for later, rules in ((REACTION - 1, []), (REACTION, [Rule.ENDED])):
        faults = []
        monitor = step_monitor(
            reaction=REACTION, message_of=lambda packet: "message", report=faults.append)
        monitor.sent(0, data_packet(0))
        monitor.completed(AT, 0, "message", Status.FLUSHED)
        monitor.sent(AT + later, data_packet(1, 1))
        assert [fault.rule for fault in faults] == rules


def test_what_a_delivery_permits_holds_at_once():
    monitor = step_monitor(reaction=REACTION)
    for psn in range(4):
        monitor.sent(psn, data_packet(psn))
    monitor.delivered(AT, ack_packet(3))
    monitor.sent(AT, data_packet(4, 3, incarnation=1))
    monitor.delivered(AT + 1, ack_packet(3, status=Status.REMOTE_ERROR_ABORT, incarnation=5))
    monitor.sent(AT + 1, data_packet(0, session=3, incarnation=5))
    with pytest.raises(ProtocolFault, match="BEHIND"):
        monitor.sent(AT + 2, data_packet(1, 1, session=3, incarnation=5))


def test_packets_on_their_way_are_lost_by_the_quiet_time_too():
    for incarnation_shown, faulty in ((0, False), (1, True)):
        monitor = step_monitor(reaction=REACTION)
        monitor.sent(0, data_packet(0))
        monitor.delivered(AT, ack_packet(0))
        monitor.sent(AT + 10, data_packet(1, incarnation=incarnation_shown))
        if faulty:
            with pytest.raises(ProtocolFault, match="CAUSE"):
                monitor.sent(AT + 20, data_packet(1, incarnation=1))
        else:
            monitor.sent(AT + 20, data_packet(1, incarnation=1))


def test_the_quiet_time_of_a_device_that_reacts_later_ends_later():
    for reaction, late, faulty in ((0, 2 * TICK, True), (REACTION, 2 * TICK, False),
                                   (REACTION, REACTION + 2 * TICK, True)):  # fmt: skip
        monitor = step_monitor(reaction=reaction)
        monitor.reset(0, 1)
        monitor.delivered(QUIET + late, data_packet(0, path=3))
        reply = ack_packet(0, path=3)
        if faulty:
            # The packet is received: what leaves is an acknowledgement, and there is one only.
            monitor.sent(QUIET + late, reply)
            with pytest.raises(ProtocolFault, match="ACK_CAUSE"):
                monitor.sent(QUIET + late, reply)
        else:
            for _ in range(2):
                monitor.sent(QUIET + late, reply)


def test_a_timeout_may_be_shorter_by_the_reaction():
    initial = defs.TRANSPORT.rto_initial * TICK
    for cycle, faulty in ((initial - REACTION - 5 * TICK, True), (initial - REACTION, False)):
        monitor = step_monitor(reaction=REACTION)
        for psn in (0, 1):
            monitor.sent(0, data_packet(psn))
        if faulty:
            with pytest.raises(ProtocolFault, match="CAUSE"):
                monitor.sent(cycle, data_packet(1))
        else:
            monitor.sent(cycle, data_packet(1))


@pytest.mark.parametrize("reaction", [0, 100])
def test_a_packet_may_be_older_by_the_reaction_than_it_looks(reaction):
    # Path 0 is silent, path 1 gives the longest time: 1,000 cycles, 62 ticks.
    too_old = 78 * TICK - reaction
    for age, faulty in ((too_old - 2 * TICK, True), (too_old + TICK, False)):
        monitor = step_monitor(reaction=reaction, constants=constants_with(extent_period=1))
        monitor.sent(0, data_packet(0, path=1))
        monitor.delivered(1000, ack_packet(1))
        monitor.sent(2000, data_packet(1, 1, incarnation=1))
        monitor.sent(2001, data_packet(2, 1, path=1, incarnation=1))
        monitor.delivered(3001, ack_packet(1, 0b10))
        again = data_packet(1, 1, path=1, incarnation=1)
        if faulty:
            with pytest.raises(ProtocolFault, match="CAUSE"):
                monitor.sent(2000 + age, again)
        else:
            monitor.sent(2000 + age, again)


def test_times_may_be_longer_by_the_reaction():
    # Rounds of 13,000 cycles are above the target after some of 10,000 cycles, unless the device
    # has measured up to 4,000 cycles more.
    def rules(reaction):
        faults = []
        monitor = step_monitor(reaction=reaction, report=faults.append)
        now = psn = 0
        for trip, count, rounds in ((10_000, 16, 3), (13_000, 12, 60), (13_000, 64, 1)):
            for _ in range(rounds):
                known = 1 if psn else 0
                for at in range(psn, psn + count):
                    monitor.sent(now, data_packet(at, psn, incarnation=known))
                now += trip
                for at in range(psn + 1, psn + count + 1):
                    monitor.delivered(now, ack_packet(at))
                psn += count
        return {fault.rule for fault in faults}

    assert rules(0) == rules(100) == {Rule.CONGESTION}
    assert rules(4000) == set()


def test_a_probe_that_was_on_its_way_takes_the_time_of_its_packet_back():
    # PSN 3 takes 1,000 cycles. If its packet was sent twice, this says nothing, and any age of PSN
    # 2 may exceed the longest time. The first two times differ so much that a path may be unusable.
    for probed, faulty in ((2, True), (3, False)):
        monitor = step_monitor(reaction=100, constants=constants_with(
            extent_period=1, path_probe=64, rto_margin=10_000))  # fmt: skip
        monitor.sent(0, data_packet(0))
        monitor.sent(600, data_packet(1))
        monitor.delivered(1000, ack_packet(2))
        for psn in (2, 3):
            monitor.sent(2000 + psn, data_packet(psn, 2, path=psn, incarnation=1))
        monitor.delivered(3003, ack_packet(2, 0b10))
        monitor.sent(3010, data_packet(probed, 2, path=4, incarnation=1))
        again = data_packet(2, 2, path=5, incarnation=1)
        if faulty:
            with pytest.raises(ProtocolFault, match="CAUSE"):
                monitor.sent(3020, again)
        else:
            monitor.sent(3020, again)


@pytest.mark.parametrize("scenario", [newer_session, oldest_of_the_receiver, path_of_a_duplicate])
def test_acknowledgements_know_more_after_the_handling(scenario):
    for later, faulty in ((REACTION - 1, False), (REACTION, True)):
        faults = []
        scenario(step_monitor(reaction=900, handling=REACTION, report=faults.append), later)
        assert bool(faults) == faulty


def test_a_packet_shows_when_it_was_decided():
    # PSN 2 shows what has arrived in cycle AT. So those after it know what has arrived before.
    for handling, faulty in ((100, True), (300, False)):
        monitor = step_monitor(reaction=REACTION + 700, handling=handling)
        for psn in (0, 1):
            monitor.sent(psn, data_packet(psn))
        monitor.delivered(AT - 200, ack_packet(0, 0b10))
        monitor.delivered(AT, ack_packet(2))
        monitor.sent(AT + 200, data_packet(2, 2, incarnation=1))
        late = data_packet(3, 2, incarnation=0)
        if faulty:
            with pytest.raises(ProtocolFault, match="INCARNATION"):
                monitor.sent(AT + 300, late)
        else:
            monitor.sent(AT + 300, late)


def test_a_canceled_packet_may_be_left_out_after_the_quiet_time():
    monitor = Monitor(start=Start())
    for psn in (0, 1):
        monitor.sent(0, data_packet(psn))
    monitor.delivered(AT, ack_packet(0))
    monitor.sent(AT, data_packet(2, incarnation=1))
    assert monitor.packets == 3


def test_a_wrong_reaction_is_refused():
    for settings in ({"reaction": -1}, {"reaction": 1, "outcomes": True},
                     {"reaction": 5, "handling": 6}, {"reaction": 5, "handling": -1}):  # fmt: skip
        with pytest.raises(ValueError, match="reaction"):
            Monitor(**settings)


def delayed(seen, rng, transmit, handling):
    """Returns a run in which devices react late: packets leave up to `transmit` cycles after their
    decision, in their order, and acknowledgements arrive up to `handling` cycles before the device
    handles them."""
    free, moved, resets = {}, [], {}
    for now, node in [one[1:] for one in seen if one[0] == "reset"]:
        resets.setdefault(node, []).append(now)
    for place, (method, now, *rest) in enumerate(seen):
        if method == "sent":
            # Packets have left before a reset, and before they or their acknowledgements arrive.
            source = read_data(rest[0]).src_node, is_ack(rest[0])
            last = min((at for at in resets.get(source[0], ()) if at >= now), default=1 << 62)
            late = rng.randrange(handling if source[1] else transmit)
            free[source] = min(max(free.get(source, 0), now + late), last)
            moved.append((free[source], place, (method, free[source], *rest)))
        elif method == "delivered" and is_ack(rest[0]):
            cycle = now - rng.randrange(handling)
            moved.append((cycle, place, (method, cycle, *rest)))
        elif method != "executed":
            moved.append((now, place, (method, now, *rest)))
    return [one for *_, one in sorted(moved, key=lambda one: one[:2])]


@pytest.mark.parametrize("seed", range(4))
def test_good_runs_of_devices_that_react_late_pass(seed):
    rng, transmit, handling = random.Random(seed), 280, 120
    bench = Bench(
        2, seed=seed, delay=500, paths=rng.choice([3, 8]), watch=Recorder,
        faults=[lose(rng.choice([0, 0.01, 0.1])), duplicate(0.1, 4000),
                delay_randomly(rng.choice([0, 3000]), lambda packet: True)],
        start=Start(65_534, 2**32 - 20, 65_500),
    )  # fmt: skip
    bench.judge = lambda node, name, packet: rng.choice(
        [OK] * 30 + [Status.REMOTE_ERROR_RNR, Status.REMOTE_ERROR_BAD_DEST_QPN])  # fmt: skip
    for _ in range(400):
        source = rng.randrange(2)
        bench.net.at(rng.randrange(200_000), lambda source=source: bench.post(
            source, 1 - source, packets=rng.randrange(1, 4), size=8))  # fmt: skip
    for node in range(2):
        bench.net.at(rng.randrange(200_000), bench.nodes[node].reset)
    bench.net.run()
    seen = delayed(bench.monitor.seen, rng, transmit, handling)
    settings = {**bench.monitor.settings, "outcomes": False}
    reaction = transmit + handling
    assert replay(seen, **settings, reaction=reaction) == []
    assert replay(seen, **settings, reaction=reaction, handling=handling) == []
    assert len(replay(seen, **settings)) > 100


# Good runs.


@pytest.mark.parametrize("seed", range(8))
def test_good_runs_pass(seed):
    """Loss, copies, reordering, failing paths, refusals, resets and numbers that wrap."""
    rng = random.Random(seed)
    bench = Bench(
        3, seed=seed, delay=rng.choice([0, 500, LONG]), paths=rng.choice([1, 3, 8]),
        most=rng.choice([None, 40]), watch=Recorder,
        faults=[lose(rng.choice([0, 0.01, 0.1])), duplicate(rng.choice([0, 0.2]), 4000),
                delay_randomly(rng.choice([0, 3000]), lambda packet: True), delay_path(0, 3000),
                lose_burst(rng.randrange(800), 40),
                lose_between(60_000, 300_000, lambda packet: path_of(packet) == 2)],
        start=Start(65_534, 2**32 - 20, 65_500),
    )  # fmt: skip
    bench.judge = lambda node, name, packet: rng.choice(
        [OK] * 30 + [Status.REMOTE_ERROR_RNR, Status.REMOTE_ERROR_BAD_DEST_QPN])  # fmt: skip
    for _ in range(600):
        source = rng.randrange(3)
        bench.net.at(rng.randrange(200_000), lambda source=source: bench.post(
            source, (source + rng.randrange(1, 3)) % 3, packets=rng.randrange(1, 4),
            size=rng.choice([8, 4096])))  # fmt: skip
    for node in range(2):
        bench.net.at(rng.randrange(200_000), bench.nodes[node].reset)
    bench.net.run()
    monitor = bench.monitor
    assert monitor.packets > 1000
    # Without outcomes and completions, the monitor knows less and permits the same run.
    settings = {**monitor.settings, "outcomes": False, "message_of": None, "start": None}
    assert replay(monitor.seen, **settings) == []


def test_a_network_shows_its_packets_and_resets_to_its_observer():
    text = "{nodes: 2, paths: {count: 2, default: {latency: 100, loss: 0.1}}}"
    monitor = Recorder(paths=2, start=Start(), cancels=False)
    network = Network(parse_fabric(text), monitor)
    nodes = [Endpoint(network, node, 2, lambda packet: OK, paths=2) for node in range(2)]
    ends = []
    for _ in range(50):
        nodes[0].post(Message(1, [bytes(100)], lambda message, status: ends.append(status)))
    network.run()
    nodes[1].reset()
    monitor.finish(network.now)
    assert ends == [OK] * 50
    sent, delivered = (sum(one[0] == name for one in monitor.seen) for name in
                       ("sent", "delivered"))  # fmt: skip
    counters = network.path_counters()
    assert sent == monitor.packets == sum(one.sent for one in counters)
    assert delivered == sum(one.delivered for one in counters)
    assert monitor.seen[-2] == ("reset", network.now, 1)


def test_a_report_collects_all_faults(recorded):
    at = positions(recorded.seen, "sent", is_data)[10]
    seen = list(recorded.seen)
    seen[at] = (*seen[at][:2], changed(seen[at][2], path=9))
    seen[at + 30 : at + 30] = [("sent", 0, b"")]
    faults = replay(seen, **recorded.settings)
    assert faults[0].rule is Rule.FIELD and len(faults) > 1
