# SPDX-License-Identifier: Apache-2.0
"""Tests the packet engine of the reliable transport on a network with faults."""

import itertools
import random
from collections import defaultdict

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
from transport_bench import (
    FLITS,
    LONG,
    LONG_RTT,
    OK,
    TICK,
    Bench,
    incast,
    jain,
    rate,
    stream,
)

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.endpoint import Endpoint
from efa_cosim.transport.go_back_n import GoBackN
from efa_cosim.transport.message import Message
from efa_cosim.transport.packets import Start, flits

Anomaly = defs.TransportAnomaly
Status = defs.IoCompStatus
WINDOW = 1 << defs.TRANSPORT.psn_window_w
QUIET = defs.TRANSPORT.quiet_ticks * TICK
RTT = 2 * 500 + FLITS + 1


def hold(every, depth, last, first=0):
    """Delays one of `every` data packets from `first` to `last` by the time of `depth` packets."""
    count = [0]

    def fault(network, packet, copies):
        if is_ack(packet):
            return copies
        count[0] += 1
        held = count[0] % every == 0 and first < count[0] <= last
        return [one + depth * FLITS for one in copies] if held else copies

    return fault


def constants(**changes):
    return type(defs.TRANSPORT)({**defs.TRANSPORT, **changes})


# Without loss.


@pytest.mark.parametrize("engine", [Endpoint, GoBackN])
def test_without_loss_the_line_is_full_and_nothing_is_repeated(engine):
    bench = stream([], 4000, engine=engine)
    bench.check()
    assert rate(bench.completions) > 0.999
    assert bench.sent().sent == 4000 and bench.sent().timeouts == 0
    messages = list(bench.posted)
    assert sorted(messages, key=lambda one: bench.done[one]) == messages


def test_the_port_sends_one_packet_at_a_time_and_alternates():
    bench = Bench(delay=0)
    times = []
    bench.net.faults = [lambda net, packet, copies: times.append((net.now, packet)) or copies]
    for _ in range(300):
        bench.post(0, 1, size=200)
        bench.post(1, 0, size=200)
    bench.net.run()
    bench.check()
    own = [(cycle, packet) for cycle, packet in times if packet[24] == 0]
    for (cycle, packet), (after, _) in zip(own, own[1:], strict=False):
        assert after >= cycle + flits(packet)
    # Acknowledgements wait for one data packet at most, and the other way round.
    middle = [is_ack(packet) for _, packet in own[100:400]]
    assert not any(a and b for a, b in zip(middle, middle[1:], strict=False))


def test_a_message_of_many_packets_completes_after_all_of_them():
    bench = Bench()
    small, big = bench.post(), bench.post(packets=700)
    empty = bench.post(size=8)
    bench.net.run()
    bench.check()
    last = max(bench.executed[name][0][0] for name in bench.posted[big][2])
    assert bench.done[big][0][0] > last
    assert bench.done[small] < bench.done[big] and bench.status(empty) == OK


def test_a_message_needs_packets_and_a_node():
    bench = Bench()
    for message in (Message(1, [], print), Message(2, [b""], print), Message(-1, [b""], print)):
        with pytest.raises(ValueError, match="node below 2"):
            bench.nodes[0].post(message)


def test_no_more_than_the_window_is_in_flight():
    bench = Bench(faults=[lose_between(0, 10**9, is_ack)], constants=constants(cwnd_initial=1000))
    for _ in range(2 * WINDOW):
        bench.post()
    bench.net.run(40_000)
    assert bench.sent().sent == WINDOW == len(bench.executed)


# Reordering.


@pytest.mark.parametrize("paths", [1, 8])
@pytest.mark.parametrize("depth", [4, 64, WINDOW])
def test_random_reordering_repeats_nothing(paths, depth):
    bench = stream([delay_randomly(depth * FLITS)], 3001, paths=paths)
    bench.check()
    assert bench.sent().sent == 3001


@pytest.mark.parametrize("paths", [1, 8])
@pytest.mark.parametrize(
    ("every", "depth"), [(2, 1), (3, 120), (256, 240), (1000, WINDOW - 2), (7, WINDOW - 1)]
)
def test_late_packets_repeat_nothing_however_late(paths, every, depth):
    bench = stream([hold(every, depth, 3600)], 4003, paths=paths)
    bench.check()
    assert bench.sent().sent == 4003


def test_reordering_with_loss_repeats_only_what_was_lost():
    bench = stream([delay_randomly(16 * FLITS), lose(1e-3)], 8000)
    bench.check()
    assert bench.sent().retransmitted <= 1.1 * bench.net.lost + 1


def test_late_packets_of_a_lossy_fabric_teach_the_extent():
    bench = stream([lose_burst(100, 1), hold(10, 20, 6000, first=3000)], 8000)
    bench.check()
    # 300 packets are late.
    assert bench.sent().retransmitted < 30


# Loss.


@pytest.mark.parametrize(("loss", "target"), [(1e-4, 0.99), (1e-3, 0.98), (1e-2, 0.95)])
def test_goodput_under_loss(loss, target):
    bench = stream([lose(loss)], 16_000, seed=2)
    bench.check()
    assert bench.net.lost and bench.sent().retransmitted <= 1.1 * bench.net.lost
    goodput = rate(bench.completions) / (1 - loss)
    twin = rate(stream([lose(loss)], 16_000, seed=2, engine=GoBackN).completions) / (1 - loss)
    assert goodput >= target and goodput >= twin


def test_go_back_n_keeps_what_theory_allows():
    bench = stream([lose(1e-2)], 8000, engine=GoBackN)
    bench.check()
    assert 0.35 < rate(bench.completions) < 0.55


def test_a_burst_of_losses_is_repeated_once():
    bench = stream([lose_burst(1000, 64)], 3000, paths=8)
    bench.check()
    assert bench.sent().retransmitted == 64


def test_a_loss_in_mid_stream_costs_one_and_a_half_round_trips():
    # A message follows each completed one, so the line stays full.
    bench = Bench(delay=LONG, faults=[lose(1e-3, lambda packet: not is_ack(packet))], seed=5)
    left = [12_000]

    def following(message, status):
        left[0] -= 1
        if left[0] > 0:
            bench.post(then=following)

    for _ in range(120):
        bench.post(then=following)
    bench.net.run()
    bench.check()
    late = [
        cycle - bench.posted[message][0]
        for message, ((cycle, _),) in list(bench.done.items())[2000:]
    ]
    assert sorted(late)[int(0.999 * len(late))] <= 2.5 * LONG_RTT


def test_loss_of_the_last_packet_costs_one_timeout():
    last = [False]
    bench = Bench(faults=[lambda net, packet, copies: [] if last[0] else copies])
    for _ in range(300):
        bench.post()
    bench.net.run()
    began, last[0] = bench.net.now, True
    message = bench.post()
    bench.net.run(began + FLITS)
    rto = bench.nodes[0].senders[1].rto * TICK
    last[0] = False
    bench.net.run()
    bench.check()
    assert rto <= 3 * RTT
    assert bench.done[message][0][0] - began <= RTT + rto + RTT + 4 * TICK


@pytest.mark.parametrize("paths", [1, 8])
def test_a_fabric_may_be_silent_for_1000_round_trips(paths):
    bench = stream([lose_between(300_000, 300_000 + 1000 * LONG_RTT)], 8000, paths=paths)
    bench.check()
    back = [cycle for cycle in bench.completions if cycle > 300_000 + 1000 * LONG_RTT]
    # The line is full again 20 round trips after the first packet came through.
    assert rate(back, 0.5) > 0.99
    assert bench.sent().timeouts < defs.TRANSPORT.rto_retries


def test_lost_acknowledgements_repeat_little_and_execute_nothing_twice():
    bench = stream([lose_between(200_000, 200_000 + 20 * LONG_RTT, is_ack)], 6000, paths=8)
    bench.check()
    assert bench.sent().retransmitted < WINDOW
    bench = stream([lose(0.5, is_ack)], 4000)
    bench.check()
    # After the last packet, nothing repeats a lost acknowledgement but a timeout.
    assert bench.sent().sent <= 4000 + bench.sent().timeouts <= 4003


def test_duplicates_are_dropped():
    bench = stream([duplicate(1, 20_000)], 3000, paths=8)
    bench.check()
    assert bench.sent().sent == 3000 and bench.nodes[1].counters.duplicates > 1500


# Paths and congestion.


@pytest.mark.parametrize("trips", [2, 9])
def test_a_slow_path_is_left_alone(trips):
    bench = stream([delay_path(3, trips * LONG_RTT)], 8000, paths=8)
    bench.check()
    assert rate(bench.completions, 0.4) > 0.99


@pytest.mark.parametrize("delay", [1000, LONG])
def test_a_path_dies_and_heals(delay):
    rtt, dead = 2 * delay + FLITS + 1, 250_000
    heals = dead + 40 * rtt
    faults = [lose_between(dead, heals, lambda packet: path_of(packet) == 3)]
    bench = stream(faults, 12_000, paths=8, delay=delay)
    bench.check()
    cycles = bench.completions
    for first in range(dead, heals, rtt):
        share = sum(first <= cycle < first + rtt for cycle in cycles) * FLITS / rtt
        assert share >= 0.8 or first < dead + 10 * rtt, (first - dead) / rtt
    assert rate([cycle for cycle in cycles if cycle > heals]) > 0.99
    path = bench.nodes[0].senders[1].paths[3]
    assert path.usable and path.order > 500


def test_a_peer_with_one_packet_at_a_time_leaves_a_dead_path():
    bench = Bench(faults=[lose_between(0, 10**9, lambda packet: path_of(packet) == 0)])
    left = [200]

    def following(message, status):
        left[0] -= 1
        if left[0]:
            bench.post(then=following)

    bench.post(then=following)
    bench.net.run(2_000_000)
    assert len(bench.done) == 200 and bench.sent().lost == 1


def test_a_duplicate_gives_its_path_to_the_acknowledgement():
    bench, paths = Bench(), []
    bench.net.faults = [lambda net, packet, copies: paths.append(path_of(packet)) or []]
    for psn, path in ((0, 1), (1, 2), (0, 5), (2, 3)):
        bench.nodes[0].receive(data_packet(psn=psn, path=path, behind=psn))
    bench.net.run()
    assert paths == [5]


@pytest.mark.parametrize("delay", [500, LONG])
def test_incast_is_fair_and_bounded(delay):
    bench, counts, share = incast(16, 400, delay=delay)
    assert len(counts) == 16 and jain(counts) >= 0.95 and share >= 0.95
    assert bench.net.deepest <= 1.1 * 16 * defs.TRANSPORT.cwnd_initial
    bench.net.deepest = 0
    bench.net.run(bench.net.now + 20_000)
    assert bench.net.deepest < 100


@pytest.mark.parametrize("paths", [1, 8])
def test_a_short_queue_in_the_fabric_stays_full(paths):
    bench, _, share = incast(16, 400, most=64, paths=paths)
    assert bench.net.lost and share >= 0.95


# Resets and dead peers.


def test_a_reset_of_the_peer_ends_begun_messages_with_abort():
    bench = Bench()
    first = [bench.post(packets=50) for _ in range(4)]
    bench.net.run(6000)
    bench.nodes[1].reset()
    bench.net.run()
    bench.check(status=None)
    statuses = [bench.status(message) for message in first]
    assert statuses.count(Status.REMOTE_ERROR_ABORT) >= 1
    # A message without a packet in the old session is sent in the next one.
    begun = statuses.index(Status.REMOTE_ERROR_ABORT)
    assert statuses[:begun] == [OK] * begun and statuses[-1] == OK
    for message, status in zip(first, statuses, strict=True):
        runs = [one for name in bench.posted[message][2] for one in bench.executed[name]]
        if status != OK:
            assert {incarnation for _, incarnation, _ in runs} <= {1}
            assert all(cycle < bench.done[message][0][0] for cycle, _, _ in runs)


def test_packets_from_before_a_reset_begin_no_session():
    bench = Bench(faults=[delay_randomly(QUIET // 2)])
    for _ in range(20):
        bench.post()
    bench.net.run(3000)
    before = len(bench.executed)
    assert before < 10
    for node in bench.nodes:
        node.reset()
    bench.net.run(QUIET)
    assert len(bench.executed) == len(bench.done) == before
    after = bench.post()
    bench.net.run()
    assert bench.status(after) == OK and len(bench.executed) == before + 1


def test_a_packet_without_acknowledgement_is_sent_again_to_the_next_incarnation():
    bench = Bench(faults=[lose_between(0, 20_000, is_ack)])
    messages = [bench.post() for _ in range(20)]
    bench.net.run(3000)
    bench.nodes[1].reset()
    bench.net.run()
    assert {bench.status(message) for message in messages} == {OK}
    assert all([one[1] for one in runs][-1] == 2 for runs in bench.executed.values())


def test_within_the_quiet_time_the_first_message_costs_a_round_trip():
    bench = Bench()
    bench.nodes[1].reset()
    for _ in range(4):
        bench.post()
    bench.net.run(3 * RTT)
    bench.check()
    assert bench.sent().timeouts == 0


def test_a_reset_of_the_sender_forgets_and_its_next_session_replaces_the_old():
    bench = Bench(faults=[duplicate(1, 3000)])
    for _ in range(40):
        bench.post()
    bench.net.run(1700)
    bench.nodes[0].reset()
    gone = len(bench.done)
    after = [bench.post() for _ in range(100)]
    bench.net.run()
    assert gone < 40 and len(bench.done) == gone + 100
    assert {bench.status(message) for message in after} == {OK}
    assert all(len(runs) == 1 for runs in bench.executed.values())


@pytest.mark.parametrize("answered", [False, True])
def test_a_dead_peer_ends_all_messages(answered):
    bench = Bench()
    if answered:
        bench.post()
        bench.net.run()
    bench.net.faults = [lose(1)]
    lost = [bench.post(packets=3) for _ in range(100)]
    bench.net.run()
    status = (Status.LOCAL_ERROR_UNRESP_REMOTE if answered
              else Status.LOCAL_ERROR_UNREACH_REMOTE)  # fmt: skip
    assert {bench.status(message) for message in lost} == {status}
    bench.net.faults = []
    again = bench.post()
    bench.net.run()
    assert bench.status(again) == OK


# Refusals.


def test_a_refusal_ends_its_message_after_its_packets_and_no_other():
    bench = Bench(faults=[lose(0.05)], seed=3)
    bad = bench.post(packets=100)
    refused = bench.posted[bad][2][10]
    others = [bench.post() for _ in range(50)]
    bench.judge = lambda node, name, packet: (
        Status.REMOTE_ERROR_BAD_ADDRESS if name == refused else OK
    )
    bench.net.run()
    bench.check(status=None)
    assert bench.status(bad) == Status.REMOTE_ERROR_BAD_ADDRESS
    assert {bench.status(message) for message in others} == {OK}
    runs = [one for name in bench.posted[bad][2] for one in bench.executed[name]]
    assert max(cycle for cycle, _, _ in runs) < bench.done[bad][0][0]
    assert all(len(one) <= 1 for one in bench.executed.values())


@pytest.mark.parametrize("retries", range(8))
def test_rnr_is_retried_as_often_as_stated_and_delays_nobody(retries):
    bench = Bench()
    waiting = bench.post(packets=2, rnr_retry=retries)
    first, name = bench.posted[waiting][2]
    bench.judge = lambda node, one, packet: (
        Status.REMOTE_ERROR_RNR
        if one == name and (len(bench.executed[one]) < 8 or retries < 7)
        else OK
    )
    others = [bench.post() for _ in range(2 * WINDOW)]
    bench.net.run()
    end = RTT + 2 * WINDOW * FLITS + 20 * RTT
    assert max(bench.done[message][0][0] for message in others) < end
    tries = len(bench.executed[name])
    assert len(bench.executed[first]) == 1
    if retries == 7:
        assert bench.status(waiting) == OK and tries == 9
    else:
        assert bench.status(waiting) == Status.REMOTE_ERROR_RNR and tries == retries + 1
    cycles = [cycle for cycle, _, _ in bench.executed[name]]
    back_off = defs.TRANSPORT.rnr_ticks * TICK
    assert all(b - a >= back_off for a, b in zip(cycles, cycles[1:], strict=False))


def test_a_reset_forgets_what_waits_after_rnr():
    bench = Bench()
    bench.judge = lambda node, name, packet: Status.REMOTE_ERROR_RNR
    bench.post()
    bench.net.run(2 * RTT)
    bench.nodes[0].reset()
    bench.net.run()
    assert len(bench.executed[0]) == 1 and not bench.done


def test_a_lost_refusal_is_repeated_and_the_packet_is_not_executed_again():
    bench = Bench(faults=[lose_between(0, 5 * RTT, is_ack)])
    bench.judge = lambda node, name, packet: Status.REMOTE_ERROR_BAD_DEST_QPN
    message = bench.post()
    bench.net.run()
    assert bench.status(message) == Status.REMOTE_ERROR_BAD_DEST_QPN
    assert len(bench.executed[0]) == 1


def test_a_canceled_message_ends_at_once_and_frees_its_window():
    bench = Bench(faults=[lose_between(0, 50 * RTT)], constants=constants(cwnd_initial=1000))
    canceled = bench.post(packets=300)
    other = bench.post(packets=300)
    cycle = (WINDOW + 1) * FLITS
    bench.net.run(cycle)
    assert bench.sent().sent == WINDOW
    bench.nodes[0].cancel(canceled)
    bench.nodes[0].cancel(canceled)
    assert bench.done[canceled] == [(cycle, Status.FLUSHED)]
    bench.net.run()
    assert bench.status(other) == OK and len(bench.done[canceled]) == 1
    assert not any(bench.executed[name] for name in bench.posted[canceled][2])


def test_an_outcome_may_follow_later():
    bench = Bench()
    held = []
    bench.judge = lambda node, name, packet: held.append((name, packet))
    messages = [bench.post() for _ in range(10)]
    bench.net.run(10_000)
    assert len(held) == 10 and not bench.done
    for name, packet in reversed(held):
        bench.nodes[1].executed(packet, Status.REMOTE_ERROR_BAD_LENGTH if name == 3 else OK)
    bench.net.run()
    assert [bench.status(message) for message in messages].count(OK) == 9
    assert bench.status(messages[3]) == Status.REMOTE_ERROR_BAD_LENGTH
    assert all(len(runs) == 1 for runs in bench.executed.values())


def test_an_outcome_of_an_old_session_is_not_reported():
    bench, held = Bench(), []
    bench.judge = lambda node, name, packet: held.append(packet)
    bench.post()
    bench.net.run(5000)
    bench.nodes[0].reset()
    after = bench.post()
    bench.net.run(10_000)
    old, new = held
    bench.nodes[1].executed(old, OK)
    bench.net.run(20_000)
    assert not bench.done
    bench.nodes[1].executed(new, OK)
    bench.net.run()
    assert bench.status(after) == OK


# Numbers.


@pytest.mark.parametrize("start", [
    Start(65_535, 2**32 - 100, 65_500), Start(32_767, 2**31 - 100, 32_700),
    Start(65_534, 2**32 - 1, 65_535)])  # fmt: skip
def test_numbers_wrap(start):
    bench = Bench(faults=[lose(0.01), delay_randomly(2000), duplicate(0.1, 3000)], start=start)
    for _ in range(1500):
        bench.post()
    bench.net.run()
    bench.check()
    for _ in range(3):
        bench.nodes[0].reset()
        bench.nodes[1].reset()
        after = [bench.post() for _ in range(300)]
        bench.net.run()
        assert {bench.status(message) for message in after} == {OK}
    assert bench.nodes[0].incarnation != 0


# Untrusted peers.


def data_packet(**fields):
    given = {"opcode": defs.PktOpcode.SRD_SEND, "length": 64, "session": 1, "src_node": 1, **fields}
    return SrdHdrFields.pack(**given) + bytes(64)


def ack_packet(*, status=0, **fields):
    given = {"opcode": defs.PktOpcode.SRD_ACK, "length": 32, "session": 2, "incarnation": 1,
             "src_node": 1, "status": status, "bitmap": bytes(32), **fields}  # fmt: skip
    return SrdAckFields.pack(**given)


ALL = b"\xff" * 32


@pytest.mark.parametrize(("packet", "cause"), [
    (b"", Anomaly.LENGTH), (bytes(31), Anomaly.LENGTH), (bytes(32), Anomaly.OPCODE),
    (data_packet()[:-1], Anomaly.LENGTH), (data_packet() + b"x", Anomaly.LENGTH),
    (data_packet(dst_node=1), Anomaly.NODE), (data_packet(src_node=2), Anomaly.NODE),
    (data_packet(path=8), Anomaly.FIELD), (data_packet(status=1), Anomaly.FIELD),
    (data_packet(session=0), Anomaly.FIELD), (data_packet(behind=WINDOW), Anomaly.FIELD),
    (ack_packet()[:-1], Anomaly.LENGTH), (ack_packet(length=31), Anomaly.LENGTH),
    (ack_packet(src_node=9), Anomaly.NODE), (ack_packet(dst_node=9), Anomaly.NODE),
    (ack_packet(path=8), Anomaly.FIELD), (ack_packet(flags=1), Anomaly.FIELD),
    (ack_packet(reserved=1), Anomaly.FIELD), (ack_packet(session=0), Anomaly.FIELD),
    (ack_packet(incarnation=0), Anomaly.FIELD), (ack_packet(status=13), Anomaly.FIELD),
    (ack_packet(status=200), Anomaly.FIELD), (ack_packet(session=3), Anomaly.SESSION),
    (ack_packet(psn=9), Anomaly.PSN), (ack_packet(psn=2**31 - 1), Anomaly.PSN),
    (ack_packet(bitmap=ALL), Anomaly.PSN),
    (ack_packet(bitmap_psn=2**31 - 1, bitmap=ALL), Anomaly.PSN),
    (ack_packet(bitmap_psn=8, bitmap=b"\1" + bytes(31)), Anomaly.PSN),
    (ack_packet(status=9, refused_psn=8), Anomaly.PSN),
    (ack_packet(status=8, refused_psn=2**31 - 1), Anomaly.PSN),
], ids=itertools.count())  # fmt: skip
def test_a_packet_that_no_correct_peer_sends_changes_nothing(packet, cause):
    # Eight packets are in flight in session 2.
    bench = Bench()
    for _ in range(8):
        bench.post()
    bench.net.run(700)
    node = bench.nodes[0]
    assert node.senders[1].session == 2 and node.senders[1].in_flight == 8
    node.receive(packet)
    assert bench.anomalies[0] == [cause] and node.counters.anomalies == 1
    assert node.senders[1].in_flight == 8 and not bench.done and not node.receivers
    bench.net.run()
    bench.check()


def test_packets_of_the_past_are_dropped_without_report():
    bench = Bench()
    for _ in range(8):
        bench.post()
    bench.net.run()
    for packet in (ack_packet(session=1), ack_packet(psn=1, session=2)):
        bench.nodes[0].receive(packet)
    bench.nodes[1].receive(data_packet(session=1, src_node=0, dst_node=1, incarnation=1))
    bench.nodes[1].receive(data_packet(session=2, src_node=0, dst_node=1, incarnation=1))
    bench.net.run()
    bench.check()
    assert not bench.anomalies[0] and not bench.anomalies[1]


def test_a_flood_of_refused_packets_keeps_a_bounded_number_of_replies():
    bench = Bench()
    for number in range(1000):
        bench.nodes[0].receive(data_packet(psn=number % WINDOW, incarnation=77))
    sent = []
    bench.net.faults = [lambda net, packet, copies: sent.append(packet) or []]
    bench.net.run()
    assert len(sent) == defs.TRANSPORT.replies
    assert {SrdAckFields.read(packet).status for packet in sent} == {Status.REMOTE_ERROR_ABORT}


@pytest.mark.parametrize("seed", range(6))
def test_an_untrusted_peer_harms_no_other(seed):
    """Node 2 sends changed, forged, truncated and repeated packets; only its src_node is true."""
    rng = random.Random(seed)
    bench, seen = Bench(3, seed=seed), []
    bench.net.faults = [lambda net, packet, copies: seen.append(packet) or copies]

    def attack():
        packet = bytearray(rng.choice(seen) if seen else bytes(64))
        kind = rng.randrange(4)
        if kind == 0:
            packet = packet[: rng.randrange(len(packet) + 1)]
        elif kind == 1:
            for _ in range(rng.randrange(1, 6)):
                packet[rng.randrange(min(64, len(packet)))] = rng.randrange(256)
        elif kind == 2:
            packet = bytearray(ack_packet(
                session=rng.randrange(1, 6), incarnation=rng.randrange(1, 4),
                psn=rng.randrange(-3, 300) % 2**32, bitmap_psn=rng.randrange(-99, 300) % 2**32,
                bitmap=rng.randbytes(32) if rng.random() < 0.5 else ALL,
                status=rng.choice([0, 7, 8, 9, 10]), refused_psn=rng.randrange(300),
                path=rng.randrange(8)))  # fmt: skip
        target = rng.randrange(2)
        if len(packet) >= 28:
            packet[24:28] = bytes([2, 0, target, 0])
        bench.nodes[target].receive(bytes(packet))
        if bench.net.now < 60_000:
            bench.net.at(bench.net.now + rng.randrange(40), attack)

    taken = defaultdict(int)

    def judge(node, name, packet):
        taken[SrdHdrFields.read(packet).src_node, name] += 1
        return OK

    bench.judge = judge
    bench.net.at(3000, attack)
    good = [bench.post(source, 1 - source, size=1000) for _ in range(800) for source in (0, 1)]
    to_attacker = [bench.post(source, 2, size=64) for _ in range(50) for source in (0, 1)]
    bench.net.run()
    for message in good:
        _, source, (name,) = bench.posted[message]
        assert bench.status(message) == OK and taken[source, name] == 1
    assert all(len(bench.done[message]) == 1 for message in to_attacker)
    assert bench.sent(0).timeouts + bench.sent(1).timeouts < 40
    for source in (0, 1):
        sender = bench.nodes[source].senders[1 - source]
        assert sender.oldest == sender.next == 800


# Everything together.


@pytest.mark.parametrize("seed", range(10))
def test_everything_at_once_executes_and_completes_once(seed):
    rng = random.Random(seed)
    bench = Bench(
        3, seed=seed,
        faults=[lose(rng.choice([0, 0.01, 0.2])), duplicate(rng.choice([0, 0.1]), 5000),
                delay_randomly(rng.choice([0, 500, 9000]), lambda packet: True),
                delay_path(2, rng.choice([0, 5000])),
                lose_between(200_000, 200_000 + rng.choice([0, 30_000])),
                lose_between(0, 250_000, lambda packet: path_of(packet) == 5)],
        start=Start(rng.choice([1, 65_533]), rng.choice([0, 2**32 - 50]), 65_400),
    )  # fmt: skip
    refusals = [OK, OK, OK, OK, None, Status.REMOTE_ERROR_RNR, Status.REMOTE_ERROR_BAD_ADDRESS]

    def judge(node, name, packet):
        status = rng.choice(refusals) if rng.random() < 0.1 else OK
        if status is None:
            incarnation = bench.nodes[node].incarnation

            def later():
                if bench.nodes[node].incarnation == incarnation:
                    bench.nodes[node].executed(packet, OK)

            bench.net.at(bench.net.now + rng.randrange(3000), later)
        return status

    bench.judge = judge
    resets, canceled, messages = [], set(), []
    for _ in range(400):
        def post():
            source = rng.randrange(3)
            messages.append(bench.post(
                source, (source + rng.randrange(1, 3)) % 3, packets=rng.randrange(1, 9),
                size=rng.choice([8, 500, 4096]), rnr_retry=rng.randrange(8)))  # fmt: skip

        bench.net.at(rng.randrange(300_000), post)
    for _ in range(rng.randrange(4)):
        def reset():
            node = rng.randrange(3)
            resets.append((bench.net.now, node))
            bench.nodes[node].reset()

        bench.net.at(rng.randrange(300_000), reset)
    for _ in range(10):
        def cancel():
            message = rng.choice(messages or [None])
            if message and not bench.done[message] and not forgotten(message):
                canceled.add(message)
                bench.nodes[bench.posted[message][1]].cancel(message)

        bench.net.at(rng.randrange(300_000), cancel)

    def forgotten(message):
        """True if its source was reset after it was posted."""
        began, source, _ = bench.posted[message]
        return any(node == source and began <= cycle for cycle, node in resets)

    bench.net.run()
    for message in messages:
        began, source, names = bench.posted[message]
        ends = bench.done[message]
        assert len(ends) == 1 or not ends and forgotten(message)
        effects = {name: [one for one in bench.executed[name] if one[2] in (OK, None)]
                   for name in names}  # fmt: skip
        for runs in effects.values():
            # Once in each incarnation of the receiver.
            assert len({incarnation for _, incarnation, _ in runs}) == len(runs)
        if not ends:
            continue
        ((end, status),) = ends
        assert status in (OK, *refusals) or status in (
            Status.REMOTE_ERROR_ABORT, Status.FLUSHED, Status.LOCAL_ERROR_UNRESP_REMOTE,
            Status.LOCAL_ERROR_UNREACH_REMOTE)  # fmt: skip
        if status == OK:
            everywhere = [{one[1] for one in runs} for runs in effects.values()]
            assert set.intersection(*everywhere), "the packets took effect in one incarnation"
        elif message not in canceled:
            assert all(one[0] <= end for name in names for one in bench.executed[name])
    assert not any(bench.anomalies.values())
