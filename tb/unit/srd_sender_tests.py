# SPDX-License-Identifier: Apache-2.0
"""Tests efa_srd_sender without loss: order, cycles, refusals, forged acknowledgements, resets."""

import cocotb
from cocotb.triggers import ClockCycles

from efa_cosim.layouts.defs import EVENTS, TRANSPORT, TransportAnomaly
from efa_cosim.transport.packets import NUMBER_MASK, PSN_MASK
from tb.lib.stream import periodic
from tb.lib.timing import timing
from tb.lib.waits import until
from tb.unit.data_bench import Moments
from tb.unit.length import grid, rounds
from tb.unit.srd_sender_bench import ABORT, STATUSES, Bench, Held
from tb.unit.srd_sender_rules import GONE, OK, RNR, number_after

MODULE = "efa_srd_sender"
# Forged incarnations: the peers of these tests have other ones.
FAR = 0x4000


def sends_of(bench):
    """Takes the transmissions that have left."""
    found = list(bench.sends.beats)
    bench.sends.beats.clear()
    return found


def live(bench, node):
    """Returns the session of a node that acknowledgements belong to."""
    return bench.rules.peer(node).current


@cocotb.test()
@grid(peers=[1, 3, 64], paths=[1, 8])
async def packets_leave_in_order(dut, peers, paths):
    """transport.srd_sender.order: Without loss, each packet of each peer is transmitted once, in
    the order of the posts, with the next PSN, over all paths, and completes with success."""
    bench = Bench(dut, f"order {peers} {paths}", paths=paths)
    await bench.start()
    nodes = bench.rng.sample(range(bench.nodes), min(peers, bench.nodes))
    for _ in range(900):
        bench.post(bench.rng.choice(nodes))
    await bench.finish()
    assert bench.statuses() == {OK: 900}
    # A path whose packets waited in the queue of the port may look slow, and gets a probe.
    assert len(bench.rules.transmissions) <= 904, bench.rules.count
    assert all(len(bench.executed[name]) == 1 for name in bench.jobs)
    used = {path for _, _, path, _ in bench.rules.transmissions}
    assert used == set(range(bench.path_count)), used


@cocotb.test()
@cocotb.parametrize(
    pace=[
        {"stalls": 0.5},
        {"stalls": 0.9, "note_stalls": 0.5},
        {"gaps": 0.5, "note_stalls": 0.8},
        {"stalls": 0.3, "note_stalls": 0.3, "gaps": 0.3, "read": 300, "run": 200},
        {"stalls": periodic(40, 3), "note_stalls": periodic(3, 40)},
        {"stalls": periodic(1, 1), "note_stalls": periodic(25, 1)},
    ],
)
async def slow_neighbours(dut, pace):
    """transport.srd_sender.stall: Slow downstream, slow outcomes and slow posts lose and repeat no
    outcome, also with refusals."""
    bench = Bench(dut, f"slow {pace.keys()}", ack_gap=40, **pace)
    await bench.start()
    rng = bench.rng
    wanted = {}

    def judge(job):
        return wanted.setdefault(job.name, rng.choice((OK, OK, OK, *STATUSES)))

    bench.judge = judge
    nodes = rng.sample(range(bench.nodes), min(5, bench.nodes))
    for _ in range(rounds(400, 150)):
        job = bench.post(rng.choice(nodes))[0]
        if wanted.setdefault(job.name, rng.choice((OK, OK, OK, *STATUSES))) == RNR:
            wanted[job.name] = OK
    await bench.finish()
    assert bench.done == wanted


@cocotb.test()
@grid(latency=[1, 60, 300], peers=[1, 3])
async def payload_comes_late(dut, latency, peers):
    """transport.srd_sender.payload: After packets without a payload read, others wait many timeouts
    for theirs, and are long. None of them is sent again."""
    bench = Bench(dut, f"payload {latency} {peers}", latency=latency)
    await bench.start()
    nodes = bench.rng.sample(range(bench.nodes), min(peers, bench.nodes))
    for count, read, size in ((6, 0, 8), (4, 9000, 4096), (40, 0, 8), (30, 3000, 8), (9, 0, 8192),
                              (30, 600, 4096)):  # fmt: skip
        bench.read, bench.sizes = read, (size,)
        for _ in range(count):
            bench.post(bench.rng.choice(nodes))
        await bench.all_done(400_000)
    await bench.finish()
    assert bench.statuses() == {OK: 119}
    # Paths whose packets are longer than others may look slow, and get probes.
    again = [beat for beat in bench.sends.beats if beat["again"] and not beat["probe"]]
    assert not again, f"{len(again)} packets are sent again: {again[:3]}"


@cocotb.test()
async def outcomes_wait(dut):
    """transport.srd_sender.note_stall: While no outcome is taken, acknowledgements of more than a
    window wait or are lost; afterwards each packet has one outcome."""
    bench = Bench(dut, "note stall", note_stalls=(held := Held()))
    await bench.start()
    for _ in range(3):
        nodes = bench.rng.sample(range(bench.nodes), 3)
        for _ in range(2 * bench.window):
            bench.post(bench.rng.choice(nodes))
        await bench.cycles(300)
        held.on = True
        await bench.cycles(1500)
        held.on = False
        await bench.finish()
    assert set(bench.done.values()) == {OK}


@cocotb.test()
async def acknowledgements_wait(dut):
    """transport.srd_sender.ack_wait: A round-trip time ends when its acknowledgement comes: the
    outcomes of another peer are not taken, so acknowledgements wait for ten of the shortest round
    trips, and the congestion window still grows."""
    bench = Bench(dut, "ack wait", paths=1, read=0, run=0, size=32, note_stalls=(held := Held()))
    await bench.start()
    node, other = bench.rng.sample(range(bench.nodes), 2)
    most, few = bench.window // 2, min(8, bench.window // 4)
    for turn in range(24):
        held.on = turn > 1
        bench.post(other, few)
        await bench.cycles(300)
        bench.post(node, few)
        await bench.cycles(1500)
        held.on = False
        await bench.finish(after=0)
    bench.rules.transmissions.clear()
    bench.post(node, most)
    await bench.finish()
    at = [cycle for cycle, *_ in bench.rules.transmissions]
    together = sum(cycle < at[0] + 120 for cycle in at)
    assert together >= min(most, 2 * TRANSPORT.cwnd_initial), f"{together} in a round trip"


@cocotb.test()
@cocotb.parametrize(peers=[1, 3])
async def transmissions_wait(dut, peers):
    """transport.srd_sender.send_stall: While no transmission is taken, all contexts are posted;
    timeouts expire. Afterwards all packets leave in order, and no peer is dead."""
    held = Held(on=True)
    bench = Bench(dut, f"send stall {peers}", stalls=held)
    await bench.start()
    nodes = bench.rng.sample(range(bench.nodes), peers)
    for _ in range(bench.contexts):
        bench.post(bench.rng.choice(nodes))
    await until(dut, lambda: not bench.free[0] and not bench.given, "posts", 20_000)
    held.on = False
    await bench.cycles(600)
    for _ in range(2):
        held.on = True
        await bench.cycles(2000)
        held.on = False
        await bench.cycles(500)
    await bench.finish()
    assert bench.statuses() == {OK: bench.contexts}


@cocotb.test()
@cocotb.parametrize(index=range(len(STATUSES)))
async def refusals_become_outcomes(dut, index):
    """transport.srd_sender.refused: A refused packet has the status of its refusal, packets beside
    it have success; an RNR is sent again until it is accepted."""
    status = STATUSES[index]
    bench = Bench(dut, f"refused {status}")
    await bench.start()
    rng, refused = bench.rng, {}
    bench.judge = lambda job: status if refused.get(job.name) and not again(job) else OK

    def again(job):
        if status != RNR:
            return False
        refused[job.name] -= 1
        return refused[job.name] < 0

    nodes = rng.sample(range(bench.nodes), 3)
    for _ in range(300):
        job = bench.post(rng.choice(nodes))[0]
        refused[job.name] = rng.choice((0, 0, 0, 1, 3)) * rng.choice((0, 1))
    wanted = {name: status if count and status != RNR else OK for name, count in refused.items()}
    await bench.finish()
    assert bench.done == wanted


@cocotb.test()
async def repeats_leave_before_new_packets(dut):
    """transport.srd_sender.rnr: A packet that is posted again leaves before new packets that wait
    for the window of its peer, in the order of its repost."""
    bench = Bench(dut, "rnr", paths=1, read=0, run=400, back_off=30)
    await bench.start()
    rng = bench.rng
    node = rng.randrange(bench.nodes)
    bench.judge = lambda job: RNR if len(bench.executed[job.name]) < job.name % 3 else OK
    # More than a window: new packets wait all the time.
    bench.post(node, min(4 * bench.window + 200, bench.contexts))
    await bench.finish()
    assert set(bench.done.values()) == {OK}
    assert bench.count["back-off"] >= len(bench.jobs) - 2
    for name, runs in bench.executed.items():
        assert [status for _, status in runs] == [RNR] * (name % 3) + [OK]


@cocotb.test()
async def refusals_in_a_flood(dut):
    """transport.srd_sender.flood: Peers refuse everything and acknowledge so slowly that refusals
    are lost; retransmissions bring them again, and each packet has its status once."""
    bench = Bench(dut, "flood", ack_gap=60, read=0, ack_room=8)
    await bench.start()
    rng = bench.rng
    nodes = rng.sample(range(bench.nodes), min(4, bench.nodes))
    fatal = [status for status in STATUSES if status != RNR]
    bench.judge = lambda job: fatal[job.name % len(fatal)]
    bench.lose = lambda packet: rng.random() < 0.2
    for _ in range(min(700, 45 * bench.window)):
        bench.post(rng.choice(nodes))
    await bench.finish()
    assert bench.done == {name: fatal[name % len(fatal)] for name in bench.jobs}
    assert bench.rules.count["again"] > len(bench.jobs) // 10


@cocotb.test()
async def each_subset_of_paths(dut):
    """transport.srd_sender.paths: Only the paths that exist are used, each of them as often."""
    bench = Bench(dut, "paths")
    await bench.start()
    every = (1 << bench.path_count) - 1
    for allowed in {1, every, 1 << bench.path_count - 1, every & 0x55 or 1, every & 0x6A or 1}:
        bench.rules.paths = allowed
        bench.dut.s_cfg_paths.value = allowed
        await bench.reset()
        bench.rules.transmissions.clear()
        bench.post(bench.rng.randrange(bench.nodes), 160)
        await bench.finish()
        used = [path for _, _, path, _ in bench.rules.transmissions]
        least = 160 // allowed.bit_count() // 2
        for path in range(bench.path_count):
            assert used.count(path) >= least * (allowed >> path & 1), (path, used)


@cocotb.test()
async def cancelled_messages(dut):
    """transport.srd_sender.gone: A transmission that is not made resolves its PSN, also one in the
    middle and several at once: its window is free, no outcome follows, others are not affected."""
    bench = Bench(dut, "gone", paths=4, run=100, stalls=0.5)
    await bench.start()
    rng = bench.rng
    nodes = rng.sample(range(bench.nodes), 3)
    for share in (0.1, 0.5, 0.9, 1.0):
        jobs = [bench.post(rng.choice(nodes))[0] for _ in range(3 * bench.window)]
        gone = [job for job in jobs if rng.random() < share]
        for at, job in enumerate(gone):
            if at % 8 == 0:
                await bench.cycles(rng.randrange(30))
            bench.cancel(job)
        await bench.finish()
        assert all(bench.done[job.name] == OK for job in jobs if not job.cancelled)
        assert {bench.done[job.name] for job in jobs} <= {OK, GONE}
    assert bench.rules.count["gone"] > bench.window, bench.rules.count


@cocotb.test()
async def cancelled_beside_refusals(dut):
    """transport.srd_sender.gone_refused: Canceled packets, also those that wait after RNR, and
    refused ones between others each end once."""
    bench = Bench(dut, "gone refused", paths=2, run=100, back_off=800)
    await bench.start()
    rng = bench.rng
    nodes = rng.sample(range(bench.nodes), 2)
    bench.judge = lambda job: rng.choice((OK, RNR, STATUSES[0]))
    for _ in range(8):
        jobs = [bench.post(rng.choice(nodes))[0] for _ in range(60)]
        for job in rng.sample(jobs, 30):
            await bench.cycles(rng.randrange(20))
            bench.cancel(job)
        await bench.finish()


@cocotb.test()
async def responses_beside_sends(dut):
    """transport.srd_sender.responses: Packets of read responses have contexts of their own, whose
    ids may be those of sends. They are sent, repeated, refused and probed as others, and are not
    affected by the end of a send."""
    bench = Bench(dut, "responses", paths=4, run=60, loss=0.05, back_off=100)
    bench.ends = True
    await bench.start()
    rng = bench.rng
    # Equal numbers of both kinds.
    bench.generation = bench.generation[: bench.contexts] * 2
    nodes = rng.sample(range(bench.nodes), min(3, bench.nodes))
    bench.judge = lambda job: rng.choice((OK, OK, OK, RNR, STATUSES[0]))
    for _ in range(4):
        responses = [bench.post(rng.choice(nodes), 3, response=True) for _ in range(30)]
        sends = [bench.post(rng.choice(nodes), 3) for _ in range(30)]
        canceled = set()
        for (job, *_) in rng.sample(sends, 10):
            await bench.cycles(rng.randrange(30))
            bench.cancel(job)
            canceled.add(job.name)
        await bench.finish()
        for jobs in responses:
            assert {bench.done[job.name] for job in jobs} <= {OK, RNR, STATUSES[0]}
        # A send is retried after RNR, unless it has ended.
        retried = [job.name for jobs in sends for job in jobs if job.name not in canceled]
        assert all(bench.done[name] != RNR for name in retried)


@cocotb.test()
async def resets_in_traffic(dut):
    """transport.srd_sender.reset: A reset at any moment forgets all packets and peers and takes the
    next number; acknowledgements of before have no effect, and all later packets complete."""
    bench = Bench(dut, "reset", stalls=0.2, note_stalls=0.2, gaps=0.1)
    await bench.start()
    rng = bench.rng
    nodes = rng.sample(range(bench.nodes), min(6, bench.nodes))
    numbers = [bench.number]
    for wait in (1, 7, 20, 60, 150, 151, 152, 153, 170, 333, 800, 1500):
        for _ in range(200):
            bench.post(rng.choice(nodes))
        await bench.cycles(wait)
        await bench.reset()
        numbers.append(bench.number)
        assert dut.m_send_valid.value == 0 and dut.m_note_valid.value == 0
    jobs = [bench.post(rng.choice(nodes))[0] for _ in range(400)]
    await bench.finish()
    assert set(bench.statuses(jobs)) == {OK}
    assert len(set(numbers)) == len(numbers) and 0 not in numbers, numbers


@cocotb.test()
async def a_reset_forgets_each_peer(dut):
    """transport.srd_sender.sweep: After a reset, each peer begins a new session with the first PSN
    and an unknown incarnation; the initialisation restarts with a second reset."""
    bench = Bench(dut, "sweep", run=0)
    await bench.start()
    for turn in range(3):
        for node in bench.peers:
            bench.post(node, 2)
        await bench.finish()
        sends = sends_of(bench)
        firsts = {beat["node"]: beat for beat in reversed(sends)}
        assert len(firsts) == bench.nodes
        assert all(beat["incarnation"] == 0 for beat in firsts.values())
        dut.rst.value = 1
        await ClockCycles(dut.clk, 2)
        dut.rst.value = 0
        await ClockCycles(dut.clk, 1 + turn * bench.nodes // 3)
        assert dut.m_init_done.value == 0
        bench.rules.newest = bench.number = (
            number_after(max(beat["session"] for beat in sends) & NUMBER_MASK)
            if int(dut.NUMBERS_LEFT.value) == 0 else int(dut.m_incarnation.value))  # fmt: skip
        await bench.reset()


@cocotb.test()
async def numbers_wrap(dut):
    """transport.srd_sender.wrap: PSN, order number, ticks and numbers of sessions pass their wrap
    in traffic without effect."""
    bench = Bench(dut, "wrap", paths=2)
    await bench.start()
    rng = bench.rng
    nodes = rng.sample(range(bench.nodes), 2)
    left = {name: int(getattr(dut, f"{name}_LEFT").value)
            for name in ("PSN", "ORDER", "TICKS", "NUMBERS")}  # fmt: skip
    for turn in range(8):
        for _ in range(2 * (left["PSN"] + left["ORDER"] * bench.path_count) // 4 + 100):
            bench.post(rng.choice(nodes))
        await bench.finish()
        if turn % 2:
            await bench.reset()
            assert live(bench, nodes[0]) is None
    psns = {beat["psn"] for beat in bench.sends.beats}
    assert not left["PSN"] or {0, PSN_MASK} <= psns
    numbers = {beat["session"] for beat in bench.sends.beats}
    assert 0 not in numbers
    # Each turn takes an incarnation or two sessions.
    assert not 0 < left["NUMBERS"] < 8 or {one for one in numbers if one < 0x8000}, numbers
    assert bench.cycle > left["TICKS"] * TRANSPORT.tick_cycles


@cocotb.test()
async def acknowledgements_that_no_peer_sends(dut):
    """transport.srd_sender.anomaly: A session that has not begun and a PSN that was not sent, by
    psn, bitmap or refusal, are reported with their cause and change nothing; an older session and
    an older incarnation change nothing and are not reported."""
    bench = Bench(dut, "anomaly", paths=2, read=0)
    await bench.start()
    rng, rules, window = bench.rng, bench.rules, bench.window
    node, idle = rng.sample(range(bench.nodes), 2)
    bench.post(node, 3)
    await bench.finish()
    bench.wait = lambda: 9_000
    bench.post(node, 8)
    await bench.cycles(200)
    session = live(bench, node)
    known = rules.peer(node).incarnation
    assert len(session.unresolved) == 8, "packets in flight"
    end, oldest = session.next, session.oldest
    base = {"session": session.number, "incarnation": known, "psn": oldest, "bitmap_psn": oldest,
                "refused_psn": oldest}
    beyond = [end + step & PSN_MASK for step in (1, 2, window, window + 1, 1 << 20, (1 << 30))]
    forged = []
    for step in (1, 2, 100, 0x7FF0):
        number = rules.newest + step & NUMBER_MASK or 1
        forged += [(node, {"session": number}, "SESSION"), (idle, {"session": number}, "SESSION"),
                   (node, {"session": number, "status": ABORT}, "SESSION")]  # fmt: skip
    for psn in beyond:
        forged += [
            (node, {"psn": psn}, "PSN"),
            (node, {"bitmap_psn": psn, "bits": 1}, "PSN"),
            (node, {"bitmap_psn": psn - 255 & PSN_MASK, "bits": 1 << 255}, "PSN"),
            (node, {"status": rng.choice(STATUSES), "refused_psn": psn - 1 & PSN_MASK}, "PSN"),
        ]
    forged += [
        (node, {"bits": 1 << 8}, "PSN"), (node, {"bits": 1 << 255}, "PSN"),
        (node, {"bits": (1 << 256) - 1}, "PSN"),
        (node, {"status": STATUSES[0], "refused_psn": end}, "PSN"),
    ]  # fmt: skip
    for step in (1, 2, 100, 0x7FF0):
        forged += [
            (node, {"session": (session.number - step) & NUMBER_MASK or 0xFFFF, "psn": end}, None),
            (node, {"session": (session.number - step) & NUMBER_MASK or 0xFFFF, "status": ABORT},
             None),
            (idle, {"session": rules.newest}, None),
            (node, {"incarnation": (known - step) & NUMBER_MASK or 0xFFFF, "psn": end}, None),
            (node, {"incarnation": (known - step) & NUMBER_MASK or 0xFFFF, "status": ABORT}, None),
        ]  # fmt: skip
    # No progress, valid.
    forged += [(node, {}, None), (node, {"psn": oldest - 3 & PSN_MASK}, None),
               (node, {"status": STATUSES[0], "refused_psn": oldest - 1 & PSN_MASK}, None),
               (node, {"psn": oldest - 9 & PSN_MASK, "bitmap_psn": oldest - 9 & PSN_MASK,
                       "bits": 0x1FF}, None)]  # fmt: skip
    rng.shuffle(forged)
    for source, fields, cause in forged:
        before = rules.count["anomalies"], rules.count["anomalies expected"]
        bench.forge(source, **{**base, **fields})
        await bench.acks.idle()
        await bench.cycles(60)
        added = rules.count["anomalies"] - before[0], rules.count["anomalies expected"] - before[1]
        wanted = int(cause is not None)
        assert added == (wanted, wanted), (source, fields, cause, added)
        data = EVENTS.anomaly_ack.unpack(int(dut.ev_anomaly_ack_data.value))
        assert not wanted or data.what == TransportAnomaly[cause], cause
        assert len(session.unresolved) == 8 and not bench.rules.count["aborts"]
    await bench.finish()
    assert set(bench.done.values()) == {OK}


@cocotb.test()
@cocotb.parametrize(honest=[False, True])
async def forged_acknowledgements(dut, honest):
    """transport.srd_sender.untrusted: Random acknowledgements of some peers, close to what is in
    flight, never harm the packets of the others, and each packet still ends once."""
    bench = Bench(dut, f"untrusted {honest}", paths=4, run=100, stalls=0.1)
    await bench.start()
    rng, rules = bench.rng, bench.rules
    nodes = rng.sample(range(bench.nodes), min(8, bench.nodes))
    attackers = set(nodes[: len(nodes) // 2])
    rules.lax |= attackers
    if not honest:
        for node in attackers:
            bench.peers[node].silent = True
    victims = [node for node in nodes if node not in attackers]
    for _ in range(60):
        # Packets of attackers may stay for long: the victims need contexts.
        left = sum(job.node in attackers for job in bench.active.values())
        for node in nodes if left < bench.contexts // 4 else victims:
            bench.post(node, rng.randrange(4))
        for _ in range(rng.randrange(12)):
            bench.forge(**any_ack(bench, rng.choice(sorted(attackers))))
        await bench.cycles(rng.randrange(200))
    for node in attackers:
        bench.peers[node].silent = False
    jobs = [job for job in bench.jobs.values() if job.node in victims]
    await until(dut, lambda: all(job.name in bench.done for job in jobs), "victims", 100_000)
    assert set(bench.statuses(jobs)) == {OK}
    assert rules.count["anomalies"] > 5, rules.count
    # The attackers are served again.
    await bench.reset()
    rules.lax.clear()
    jobs = [bench.post(node)[0] for node in (*attackers, *victims) for _ in range(9)]
    await bench.finish()
    assert set(bench.statuses(jobs)) == {OK}


def any_ack(bench, node):
    """Returns the fields of a random acknowledgement of a node."""
    rng, peer = bench.rng, bench.rules.peer(node)
    session = live(bench, node)
    number = session.number if session else rng.randrange(1, 1 << 16)
    oldest, end = (session.oldest, session.next) if session else (0, 0)

    def psn():
        return rng.choice((oldest, end, rng.getrandbits(32))) + rng.randrange(-9, 9) & PSN_MASK

    bits = rng.choice((0, 1, (1 << rng.randrange(257)) - 1, rng.getrandbits(256),
                       rng.getrandbits(256) & rng.getrandbits(8), 1 << rng.randrange(256)))
    status = rng.choice((0, 0, 0, rng.choice(STATUSES), rng.choice((0, 0, ABORT))))
    known = peer.incarnation or 1
    return {
        "node": node, "bits": bits, "status": status, "psn": rng.choice((oldest, oldest, psn())),
        "bitmap_psn": rng.choice((oldest, psn(), psn() & ~255)), "refused_psn": psn(),
        "session": rng.choice((number, number, number, rng.randrange(1, 1 << 16))),
        "incarnation": rng.choice((known, known, known, known + FAR & NUMBER_MASK or 1)),
        "path": rng.randrange(bench.path_count)}  # fmt: skip


@cocotb.test()
async def cycles(dut):
    """transport.srd_sender.time: An idle sender transmits a packet and reports its outcome in the
    specified cycles."""
    bench = Bench(dut, "time", paths=1, read=0, run=0)
    await bench.start()
    seen = Moments(dut, "s_post", "m_send", "s_ack", "m_note")
    for node in [*bench.peers][:4]:
        for _ in range(3):
            seen.clear()
            bench.post(node)
            await bench.finish(after=bench.rng.randrange(40, 80))
            found = seen.latency("s_post", "m_send"), seen.latency("s_ack", "m_note")
            wanted = timing(MODULE, "packet").latency, timing(MODULE, "outcome").latency
            assert found == wanted, f"(packet, outcome) {found} cycles, expected {wanted}"


@cocotb.test()
@cocotb.parametrize(peers=[1, 4, 64])
async def rate(dut, peers):
    """transport.srd_sender.rate: With short round trips, the sender transmits a packet in the
    specified number of cycles, to one peer or to many."""
    bench = Bench(dut, f"rate {peers}", paths=1, latency=0, read=0, run=0, size=32)
    await bench.start()
    nodes = list(bench.peers)[:peers]
    total = 1500
    for at in range(total):
        bench.post(nodes[at % len(nodes)])
    await bench.finish()
    assert len(bench.rules.transmissions) == total, bench.rules.count
    at = [cycle for cycle, *_ in bench.rules.transmissions]
    half = at[total // 2 :]
    found = (half[-1] - half[0]) / (len(half) - 1)
    name = {1: "rate_one", 4: "rate_few"}.get(len(nodes), "rate_many")
    dut._log.info(f"{len(nodes)} peers: a packet in {found:.2f} cycles")
    if bench.window >= 64:
        wanted = timing(MODULE, name).interval
        assert found <= 1.02 * wanted, f"a packet in {found:.2f} cycles, expected {wanted}"


@cocotb.test()
@grid(peers=[1, 2, 5], waits=[False, True])
async def packets_leave_back_to_back(dut, peers, waits):
    """transport.srd_sender.back_to_back: With open windows, packets leave in the specified number
    of cycles, as they are posted or after they have waited, also to one peer."""
    held = Held()
    bench = Bench(dut, f"back to back {peers} {waits}", paths=2, read=0, run=0, size=32,
                  stalls=held)  # fmt: skip
    await bench.start()
    nodes = list(bench.peers)[: min(peers, bench.nodes)]
    most = min(bench.window // 2, TRANSPORT.cwnd_initial)
    for _ in range(4):
        bench.rules.transmissions.clear()
        held.on = waits
        for at in range(most * len(nodes)):
            bench.post(nodes[at % len(nodes)])
        if waits:
            await bench.cycles(most * len(nodes) + 20)
        held.on = False
        await bench.finish(after=100)
        at = [cycle for cycle, *_ in bench.rules.transmissions]
        steps = [after - before for before, after in zip(at, at[1:], strict=False)]
        assert set(steps) == {timing(MODULE, "packet").interval}, steps


@cocotb.test()
async def an_acknowledgement_of_many(dut):
    """transport.srd_sender.burst: Acknowledgements of whole windows resolve their packets with one
    outcome in the specified number of cycles."""
    bench = Bench(dut, "burst", paths=1, read=0, run=0, size=32, ack_gap=300)
    await bench.start()
    bench.wait = lambda: 600
    seen = Moments(dut, "m_note")
    bench.post(bench.rng.randrange(bench.nodes), min(bench.contexts, 4 * bench.window))
    await bench.finish()
    assert set(bench.done.values()) == {OK}
    at = seen["m_note"]
    steps = sorted(after - before for before, after in zip(at, at[1:], strict=False))
    found = steps[len(steps) // 2]
    assert found <= timing(MODULE, "outcome").interval, f"an outcome in {found} cycles"


@cocotb.test()
async def any_traffic(dut):
    """transport.srd_sender.random: Posts, cancellations, refusals, RNR, stalls and resets together:
    each packet ends once."""
    bench = Bench(dut, "any", stalls=0.2, note_stalls=0.1, gaps=0.2, run=200)
    await bench.start()
    rng = bench.rng
    nodes = rng.sample(range(bench.nodes), min(8, bench.nodes))
    bench.judge = lambda job: rng.choice((OK, OK, OK, OK, RNR, *STATUSES))
    for turn in range(24):
        jobs = [bench.post(rng.choice(nodes))[0] for _ in range(rng.randrange(80))]
        for job in jobs:
            if rng.random() < 0.1:
                bench.cancel(job)
            if rng.random() < 0.1:
                await bench.cycles(rng.randrange(30))
        if turn % 10 == 9:
            await bench.reset()
    await bench.finish()
