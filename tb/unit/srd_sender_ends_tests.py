# SPDX-License-Identifier: Apache-2.0
"""Tests how sessions of efa_srd_sender end: dead peers, peers that reset, quiet times."""

import cocotb

from efa_cosim.layouts.defs import TRANSPORT
from efa_cosim.transport.packets import PSN_MASK
from tb.lib.waits import until
from tb.unit.srd_sender_bench import ABORT, QUIET_TICKS, STATUSES, Bench
from tb.unit.srd_sender_rules import DEAD, GONE, OK, RNR

UNRESPONSIVE, UNREACHABLE = DEAD
TICK = TRANSPORT.tick_cycles


def split(bench, dead):
    """Returns some nodes: those that die, and others."""
    nodes = bench.rng.sample(range(bench.nodes), min(6, bench.nodes))
    return nodes[:dead], nodes[dead:]


def worst_cycles(bench):
    """Returns the cycles in which a peer without answers is dead for sure."""
    most = TRANSPORT.rto_backoff_max
    return sum(bench.rto_initial << min(at, most) for at in range(bench.retries)) * TICK


@cocotb.test()
async def a_peer_that_never_answers(dut):
    """transport.srd_sender.unreachable: A peer that never answers ends all of its packets, posted
    ones too, with 15 after the last timeout; others go on meanwhile; it works again later."""
    bench = Bench(dut, "unreachable", paths=4)
    await bench.start()
    (dead,), others = split(bench, 1)
    bench.peers[dead].silent = True
    bench.rules.mortal.add(dead)
    lost = bench.post(dead, min(2 * bench.window, bench.contexts // 2))
    begin = bench.cycle
    while any(job.name not in bench.done for job in lost):
        good = [bench.post(node)[0] for node in others for _ in range(4)]
        await until(dut, lambda: all(one.name in bench.done for one in good),  # noqa: B023
                    "packets beside a dead peer", 20_000)  # fmt: skip
        await bench.cycles(200)
        assert bench.cycle - begin < 2 * worst_cycles(bench) + 20_000, "the peer does not die"
    assert set(bench.statuses(lost)) == {UNREACHABLE}
    found = bench.cycle - begin
    assert found >= worst_cycles(bench) * 9 // 10, (found, worst_cycles(bench))
    bench.peers[dead].silent = False
    again = bench.post(dead, 40)
    await bench.finish()
    assert set(bench.statuses(again)) == {OK}
    assert bench.rules.count["dead"] == bench.rules.count["ended"] == 1


@cocotb.test()
async def a_peer_that_answers_no_more(dut):
    """transport.srd_sender.unresponsive: A peer that has answered once and then dies ends its
    packets with 13, in each session until the sender is reset, then with 15."""
    bench = Bench(dut, "unresponsive", paths=2)
    await bench.start()
    dead, others = split(bench, 2)
    bench.rules.mortal.update(dead)
    for node in dead:
        bench.post(node, 30)
    await bench.finish()
    for _ in range(2):
        for node in dead:
            bench.peers[node].silent = True
        lost = [job for node in dead for job in bench.post(node, bench.window + 20)]
        good = [job for node in others for job in bench.post(node, 50)]
        await bench.all_done(4 * worst_cycles(bench) + 20_000)
        assert set(bench.statuses(lost)) == {UNRESPONSIVE}
        assert set(bench.statuses(good)) == {OK}
    await bench.reset()
    lost = [job for node in dead for job in bench.post(node, 5)]
    await bench.all_done(4 * worst_cycles(bench) + 20_000)
    assert set(bench.statuses(lost)) == {UNREACHABLE}
    for node in dead:
        bench.peers[node].silent = False
    good = [job for node in (*dead, *others) for job in bench.post(node, 20)]
    await bench.finish()
    assert set(bench.statuses(good)) == {OK}
    assert bench.rules.count["dead"] == 6


@cocotb.test()
async def a_peer_that_answers_without_end(dut):
    """transport.srd_sender.without_news: A peer that acknowledges in each cycle, and no packet in
    flight, is dead as soon as a silent one: acknowledgements that wait do not hold up its timeouts.
    Others go on."""
    bench = Bench(dut, "without news", paths=2)
    await bench.start()
    (dead,), others = split(bench, 1)
    bench.rules.mortal.add(dead)
    bench.post(dead, 3)
    await bench.finish()
    bench.peers[dead].silent = True
    lost = bench.post(dead, 8)
    await bench.cycles(200)
    session = bench.rules.peer(dead).current
    assert len(session.unresolved) == 8, "packets in flight"
    ack = {"session": session.number, "incarnation": bench.rules.peer(dead).incarnation,
           "psn": session.oldest, "bitmap_psn": session.oldest}  # fmt: skip
    good, begin = [], bench.cycle
    while any(job.name not in bench.done for job in lost):
        if len(bench.acks_given) < 4:
            bench.forge(dead, **ack)
        if (bench.cycle - begin) % 100 == 0:
            good += bench.post(others[len(good) % len(others)])
        await bench.cycles(1)
        assert bench.cycle - begin < 2 * worst_cycles(bench) + 20_000, "the peer does not die"
    assert set(bench.statuses(lost)) == {UNRESPONSIVE}
    await bench.finish()
    assert set(bench.statuses(good)) == {OK}


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.5])
async def ended_packets_of_a_blocked_peer(dut, stalls):
    """transport.srd_sender.purge: While a peer is silent and its window is full, posted packets
    whose messages end leave without a PSN; the others are sent once the peer answers again."""
    bench = Bench(dut, f"purge {stalls}", stalls=stalls, read=0)
    bench.ends = True
    await bench.start()
    (blocked,), others = split(bench, 1)
    bench.rules.mortal.add(blocked)
    for _ in range(3):
        bench.post(blocked, 4)
        await bench.finish()
        bench.peers[blocked].silent = True
        jobs = bench.post(blocked, min(bench.window + 100, bench.contexts - 20))
        await until(dut, lambda: len(bench.backlog) + len(bench.given) == 0, "posts", 20_000)
        await bench.cycles(60)
        waiting = [job for job in jobs if job.flight is None]
        assert len(waiting) > 20
        for job in waiting:
            bench.cancel(job)
        sent = len(bench.rules.transmissions)
        await until(dut, lambda: all(one.name in bench.done for one in waiting),  # noqa: B023
                    "ended packets to leave", 20 * len(waiting) + 100)  # fmt: skip
        assert set(bench.statuses(waiting)) == {GONE} and all(one.flight is None for one in waiting)
        assert len(bench.rules.transmissions) - sent < 2 * bench.window
        good = [bench.post(node)[0] for node in others for _ in range(4)]
        await until(dut, lambda: all(one.name in bench.done for one in good),  # noqa: B023
                    "packets beside a blocked peer", 20_000)  # fmt: skip
        bench.peers[blocked].silent = False
        await bench.finish()
    assert bench.count["left unsent"] > 60


@cocotb.test()
@cocotb.parametrize(pace=[{}, {"stalls": 0.5, "note_stalls": 0.4, "gaps": 0.3}, {"run": 300}])
async def messages_end_at_any_time(dut, pace):
    """transport.srd_sender.ended: Messages end before and after their posts are sent, with refusals
    and RNR beside them: each context leaves the posted ones once, each packet ends once."""
    bench = Bench(dut, f"ended {sorted(pace)}", paths=4, back_off=300, **pace)
    bench.ends = True
    await bench.start()
    rng = bench.rng
    bench.judge = lambda job: rng.choice((OK, OK, OK, OK, RNR, *STATUSES))
    nodes = rng.sample(range(bench.nodes), min(4, bench.nodes))
    for _ in range(12):
        jobs = [bench.post(rng.choice(nodes))[0] for _ in range(min(120, bench.contexts // 2))]
        for _ in range(6):
            await bench.cycles(rng.randrange(60))
            for job in rng.sample(jobs, len(jobs) // 12):
                bench.cancel(job)
        await bench.all_done()
    await bench.finish()
    assert bench.count["left unsent"] > 5 and bench.statuses()[GONE] > 20, bench.count


@cocotb.test()
async def a_peer_that_dies_in_traffic(dut):
    """transport.srd_sender.dead: A peer dies in the middle of its traffic: what it has acknowledged
    is a success, all others end with 13, those that wait after RNR too."""
    bench = Bench(dut, "dead", paths=4, back_off=20_000, run=60)
    await bench.start()
    (dead,), others = split(bench, 1)
    bench.rules.mortal.add(dead)
    bench.judge = lambda job: RNR if job.name % 7 == 0 and not bench.executed[job.name] else OK
    lost = bench.post(dead, min(200, bench.contexts // 2))
    good = [job for node in others for job in bench.post(node, 20)]
    await bench.cycles(400 if bench.window > 16 else 900)
    bench.peers[dead].silent = True
    await bench.finish(4 * worst_cycles(bench) + 40_000)
    found = bench.statuses(lost)
    assert set(found) == {OK, UNRESPONSIVE} and found[OK] > 5, found
    assert set(bench.statuses(good)) == {OK}


@cocotb.test()
async def many_peers_die_together(dut):
    """transport.srd_sender.all_dead: All peers die at the same time and work again later."""
    bench = Bench(dut, "all dead", paths=2)
    await bench.start()
    bench.rules.mortal.update(bench.peers)
    for peer in bench.peers.values():
        peer.silent = True
    lost = [job for node in bench.peers for job in bench.post(node, 3)]
    await bench.all_done(3 * worst_cycles(bench) + 40_000)
    assert set(bench.statuses(lost)) == {UNREACHABLE}
    assert bench.rules.count["dead"] == bench.nodes
    for peer in bench.peers.values():
        peer.silent = False
    good = [job for node in bench.peers for job in bench.post(node, 3)]
    await bench.finish()
    assert set(bench.statuses(good)) == {OK}


@cocotb.test()
@cocotb.parametrize(loss=[0.0, 0.05])
async def peers_reset(dut, loss):
    """transport.srd_sender.abort: A peer resets: all packets of its session end with ABORT, also
    those that wait after RNR; the next packet begins a new session with the new incarnation."""
    bench = Bench(dut, f"abort {loss}", paths=4, loss=loss, run=100)
    await bench.start()
    rng = bench.rng
    resets, others = split(bench, 2)
    bench.judge = lambda job: rng.choice((OK, OK, OK, RNR))
    aborted = 0
    for turn in range(8):
        some = [job for node in resets for job in bench.post(node, 60)]
        good = [job for node in others for job in bench.post(node, 20)]
        await bench.cycles(rng.randrange(100, 1200))
        for node in resets[: 1 + turn % 2]:
            bench.peers[node].reset()
        await bench.finish(after=2000)
        assert set(bench.statuses(some)) <= {OK, ABORT}
        assert set(bench.statuses(good)) == {OK}
        aborted += bench.statuses(some)[ABORT]
        # Longer than the quiet time, so that the next reset meets a session.
        await bench.cycles(QUIET_TICKS * TICK)
    assert aborted > 20 and bench.rules.count["ended"] >= 6, bench.rules.count
    for job in bench.jobs.values():
        runs = [incarnation for incarnation, status in bench.executed[job.name] if status == OK]
        assert len(runs) == len(set(runs))
        assert bench.done[job.name] == ABORT or runs


@cocotb.test()
async def an_idle_peer_resets(dut):
    """transport.srd_sender.abort_idle: A peer resets while nothing is in flight: the first packet
    afterwards meets ABORT, the one after it a new session."""
    bench = Bench(dut, "abort idle", paths=1)
    await bench.start()
    node = bench.rng.randrange(bench.nodes)
    bench.post(node, 5)
    await bench.finish()
    for _ in range(3):
        session = bench.rules.peer(node).current.number
        bench.peers[node].reset()
        jobs = bench.post(node)
        await bench.finish()
        assert bench.statuses(jobs) == {ABORT: 1}
        jobs = bench.post(node, 3)
        await bench.finish()
        assert bench.statuses(jobs) == {OK: 3}
        assert bench.rules.peer(node).current.number != session


@cocotb.test()
async def late_ends_of_messages(dut):
    """transport.srd_sender.gone_late: A transmission that was not made and belongs to an ended
    session, to a resolved packet or to no packet changes nothing."""
    bench = Bench(dut, "gone late", paths=1, read=0)
    await bench.start()
    node = bench.rng.randrange(bench.nodes)
    for _ in range(3):
        bench.post(node, 4)
        await bench.finish()
        old = bench.rules.peer(node).current.number
        bench.peers[node].reset()
        bench.post(node)
        await bench.finish()
        bench.wait = lambda: 800
        jobs = bench.post(node, 6)
        await bench.cycles(150)
        session = bench.rules.peer(node).current
        assert session.number != old and len(session.unresolved) == 6, session
        late = [(old, psn) for psn in session.unresolved]
        late += [(session.number, session.oldest - 1), (session.number, session.next + 40)]
        for number, psn in late:
            bench.skip({"node": node, "session": number, "psn": psn & PSN_MASK})
        await bench.cycles(100)
        assert len(session.unresolved) == 6
        await bench.finish()
        assert bench.statuses(jobs) == {OK: 6}
        for psn in session.flights:
            bench.skip({"node": node, "session": session.number, "psn": psn})
        await bench.finish()
        bench.wait = lambda: 0


@cocotb.test()
async def a_quiet_peer(dut):
    """transport.srd_sender.quiet: A peer in its quiet time takes no packet of a sender that does
    not know its incarnation; the sender learns the number and sends all again at once."""
    bench = Bench(dut, "quiet", paths=2, read=0, run=10)
    await bench.start()
    (node, *more), others = split(bench, 3)
    for turn in range(3):
        for one in (node, *more):
            bench.peers[one].reset()
        jobs = [job for one in (node, *more) for job in bench.post(one, 40)]
        good = [job for one in others for job in bench.post(one, 10)]
        begin = bench.cycle
        await bench.all_done(QUIET_TICKS * TICK)
        # Two round trips and the packets themselves, less than a timeout.
        cycles = bench.cycle - begin
        assert cycles < 3000, f"{cycles} cycles:\n{bench.trace.of(node)}"
        assert set(bench.statuses(jobs)) == {OK}
        assert set(bench.statuses(good)) == {OK}
        assert bench.rules.count["quiet"] > turn
        await bench.finish()
        # The sender forgets the incarnations.
        await bench.reset()


@cocotb.test()
async def resets_on_both_sides(dut):
    """transport.srd_sender.resets: Sender and peers reset at any time, some die and return, packets
    are cancelled and refused, over loss: each packet ends once, later ones complete."""
    bench = Bench(dut, "resets", paths=4, loss=0.02, run=60, stalls=0.1, note_stalls=0.1)
    await bench.start()
    rng = bench.rng
    bench.rules.mortal.update(bench.peers)
    nodes = rng.sample(range(bench.nodes), min(6, bench.nodes))
    bench.judge = lambda job: rng.choice((*[OK] * 12, RNR, RNR, *STATUSES))
    for _ in range(30):
        jobs = [bench.post(rng.choice(nodes))[0] for _ in range(rng.randrange(60))]
        for job in jobs:
            if rng.random() < 0.05:
                bench.cancel(job)
        await bench.cycles(rng.choice((10, 100, 300, 2000)))
        draw = rng.random()
        if draw < 0.4:
            bench.peers[rng.choice(nodes)].reset()
        elif draw < 0.6:
            peer = bench.peers[rng.choice(nodes)]
            peer.silent = not peer.silent
        elif draw < 0.7:
            await bench.reset()
    for peer in bench.peers.values():
        peer.silent = False
    await bench.finish(8 * worst_cycles(bench))
    assert set(bench.done.values()) <= {OK, ABORT, GONE, "reset", *DEAD, *STATUSES}
    bench.judge = lambda job: OK
    await bench.cycles(QUIET_TICKS * TICK)
    jobs = [bench.post(node)[0] for node in nodes for _ in range(10)]
    await bench.finish()
    # A peer that was reset while nothing was in flight aborts its next packets.
    assert set(bench.statuses(jobs)) <= {OK, ABORT}
    jobs = [bench.post(node)[0] for node in nodes for _ in range(10)]
    await bench.finish()
    assert set(bench.statuses(jobs)) == {OK}
