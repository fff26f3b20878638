# SPDX-License-Identifier: Apache-2.0
"""Tests efa_srd_sender over fabrics with faults: each packet completes once, no live peer dies."""

import cocotb

from efa_cosim.fabric.description import Duplicate, FixedBurst, Override, RandomBurst, Reorder
from efa_cosim.layouts.defs import TRANSPORT
from efa_cosim.layouts.fields import SrdAckFields
from efa_cosim.transport.packets import BITMAP_BYTES, PSN_MASK, psn_distance
from tb.unit.length import grid, rounds
from tb.unit.srd_sender_bench import STATUSES, Bench, down
from tb.unit.srd_sender_rules import OK, RNR

TICK = TRANSPORT.tick_cycles
FAULTS = {
    "burst": {"burst": RandomBurst(0.01, 3)},
    "duplicate": {"duplicate": Duplicate(0.3, 400)},
    "reorder": {"reorder": Reorder(0.3, None, 400)},
    "shallow": {"reorder": Reorder(0.5, 4, 1000)},
    "all": {
        "loss": 0.02, "burst": RandomBurst(0.004, 3), "duplicate": Duplicate(0.1, 500),
        "reorder": Reorder(0.2, None, 600)},
}  # fmt: skip


async def carry(bench, packets, peers):
    """Sends packets to some peers and checks that each one is executed once, with success."""
    nodes = bench.rng.sample(range(bench.nodes), min(peers, bench.nodes))
    jobs = [bench.post(bench.rng.choice(nodes))[0] for _ in range(packets)]
    await bench.finish(400_000, after=2000)
    assert set(bench.statuses(jobs)) == {OK}, bench.statuses(jobs)
    for job in jobs:
        assert len(bench.executed[job.name]) == 1, (job.name, bench.executed[job.name])
    rules = bench.rules
    bench.dut._log.info(
        f"{rules.count['sent']} transmissions of {packets} packets, {rules.most_rounds} timeouts "
        f"in a row, late {rules.lags}, {bench.count}")  # fmt: skip


@cocotb.test()
@grid(loss=[0.01, 0.05, 0.2], paths=[1, 4, 8], peers=[1, 5])
async def a_fabric_that_loses(dut, loss, paths, peers):
    """transport.srd_sender.loss: With random loss, each packet is executed once and completes with
    success, and no live peer is declared dead."""
    bench = Bench(dut, f"loss {loss} {paths} {peers}", paths=paths, loss=loss)
    await bench.start()
    await carry(bench, 700, peers)
    lost = sum(link.lost for link in bench.network.link_counters().values())
    again = bench.rules.count["again"]
    # A lost packet is sent again once, a lost acknowledgement at most a few packets.
    assert again <= 2 * lost + 30, f"{again} packets were sent again, {lost} were lost"


@cocotb.test()
@cocotb.parametrize(read=[700, 1500])
async def a_fabric_that_loses_late_packets(dut, read):
    """transport.srd_sender.loss_payload: With loss and payload that comes after more than a
    timeout, each packet is executed once and completes with success."""
    bench = Bench(dut, f"loss payload {read}", loss=0.05, read=read)
    await bench.start()
    await carry(bench, rounds(150, 50), 3)


@cocotb.test()
@grid(fault=list(FAULTS), paths=[1, 4, 8])
async def a_fabric_with_faults(dut, fault, paths):
    """transport.srd_sender.faults: Bursts of loss, duplicates, deep and shallow reordering and all
    together: each packet is executed once and completes with success."""
    bench = Bench(dut, f"faults {fault} {paths}", paths=paths, **FAULTS[fault])
    await bench.start()
    await carry(bench, 700, 4)
    # Nothing was lost: at most probes and packets that were later than ever before.
    if fault == "duplicate":
        assert bench.rules.count["again"] <= 7, bench.rules.count


def from_oldest(peer, ack, rng):
    """Shows the state from oldest on, as efa_srd_receiver does."""
    receiver = peer.receivers[peer.bench.node]
    return ack._replace(psn=receiver.oldest, bitmap_psn=receiver.oldest,
                        bitmap=receiver.accepted.to_bytes(BITMAP_BYTES, "little"))


def aligned(peer, ack, rng):
    """Shows the newest accepted PSN in a bitmap from a multiple of 256 on."""
    bits = int.from_bytes(ack.bitmap, "little")
    if not bits:
        return ack
    newest = ack.bitmap_psn + bits.bit_length() - 1 & PSN_MASK
    base = newest & ~255
    step = psn_distance(base, ack.bitmap_psn)
    if step <= 0:
        return ack
    return ack._replace(bitmap_psn=base, bitmap=(bits >> step).to_bytes(BITMAP_BYTES, "little"))


def partial(peer, ack, rng):
    """Hides some of the accepted PSNs, begins at any PSN."""
    bits = int.from_bytes(ack.bitmap, "little") & (rng.getrandbits(256) | rng.getrandbits(256))
    back = rng.choice((0, 0, 1, 7, 200))
    bits = (bits << back | (1 << back) - 1) & (1 << 256) - 1
    return ack._replace(
        psn=ack.psn - rng.choice((0, 0, 1, 30)) & PSN_MASK,
        bitmap_psn=ack.bitmap_psn - back & PSN_MASK,
        bitmap=bits.to_bytes(BITMAP_BYTES, "little"))


@cocotb.test()
@grid(form=[from_oldest, aligned, partial], loss=[0.0, 0.05])
async def forms_of_acknowledgements(dut, form, loss):
    """transport.srd_sender.forms: A receiver may show its state from oldest on, from a later
    multiple of 256 on, or a part of it: each packet completes once with success."""
    bench = Bench(dut, f"forms {form.__name__} {loss}", paths=4, loss=loss, run=100)
    rng = bench.rng

    def show(peer, packet):
        ack = SrdAckFields.read(packet)
        receiver = peer.receivers.get(bench.node)
        if ack.status or receiver is None or receiver.session != ack.session:
            return packet
        return SrdAckFields.pack(**form(peer, ack, rng)._asdict())

    bench.show = show
    if form is not from_oldest:
        # A state that is not shown is known later.
        bench.rules.late = 1 << 30
    await bench.start()
    await carry(bench, 900, 3)


@cocotb.test()
@cocotb.parametrize(paths=[1, 8])
async def refusals_over_loss(dut, paths):
    """transport.srd_sender.loss_refused: Refusals and RNR reach the sender over a fabric that loses
    and duplicates packets."""
    bench = Bench(dut, f"loss refused {paths}", paths=paths, loss=0.05,
                  duplicate=Duplicate(0.1, 300))  # fmt: skip
    await bench.start()
    rng, wanted, later = bench.rng, {}, {}

    def judge(job):
        if later.get(job.name):
            later[job.name] -= 1
            return RNR
        return wanted[job.name]

    bench.judge = judge
    nodes = rng.sample(range(bench.nodes), 3)
    fatal = [status for status in STATUSES if status != RNR]
    for _ in range(500):
        job = bench.post(rng.choice(nodes))[0]
        wanted[job.name] = rng.choice((OK, OK, rng.choice(fatal)))
        later[job.name] = rng.choice((0, 0, 0, 1, 3))
    await bench.finish(400_000, after=2000)
    assert bench.done == wanted
    assert not any(later.values())


@cocotb.test()
@cocotb.parametrize(paths=[1, 4])
async def timeouts_in_a_row(dut, paths):
    """transport.srd_sender.timeouts: A few packets at a time, with 5 percent loss: each loss is the
    last packet of its peer, so only timeouts find it. The number of timeouts in a row stays what
    the losses explain; a failure names the packets that the fabric has dropped."""
    bench = Bench(dut, f"timeouts {paths}", paths=paths, loss=0.05)
    await bench.start()
    rng = bench.rng
    nodes = rng.sample(range(bench.nodes), 3)
    for _ in range(rounds(120, 30)):
        for node in nodes:
            bench.post(node, rng.choice((1, 1, 2, 5)))
        await bench.all_done()
        # Both ways are lost with 10 percent: 6 times in a row once in a million.
        assert bench.rules.most_rounds < 6, bench._explain(nodes[0])
    await bench.finish(after=2000)
    assert set(bench.done.values()) == {OK}


@cocotb.test()
@cocotb.parametrize(cycles=[300, 3000, 20000])
async def no_acknowledgement_for_a_while(dut, cycles):
    """transport.srd_sender.silence: All acknowledgements are lost for a while: packets are sent
    again, then each one completes once with success, and none is executed twice."""
    begin, sender = 700, 1 << int(dut.NODE_W.value)
    peers = range(min(4, sender))
    bench = Bench(dut, f"silence {cycles}", paths=4, overrides=[
        down(begin, begin + cycles, pairs=tuple((node, sender) for node in peers))])  # fmt: skip
    await bench.start()
    for _ in range(min(600, 20 * bench.window)):
        bench.post(bench.rng.choice(peers))
    await bench.finish(400_000, after=2000)
    assert set(bench.done.values()) == {OK}
    assert all(len(runs) == 1 for runs in bench.executed.values())
    assert bench.cycle > begin


@cocotb.test()
async def a_path_fails_and_heals(dut):
    """transport.srd_sender.path: A path fails: traffic leaves it but for probes. It heals: a probe
    finds that, and traffic returns."""
    paths = min(4, len(dut.s_cfg_paths))
    fails, heals, ends = 6000, 26000, 46000
    dead = paths - 1
    bench = Bench(dut, "path", paths=paths, overrides=[down(fails, heals, paths=(dead,))])
    await bench.start()
    node = bench.rng.randrange(bench.nodes)
    while bench.cycle < ends:
        if len(bench.jobs) - len(bench.done) < 40:
            bench.post(node, 8)
        await bench.cycles(16)
    await bench.finish(after=2000)
    assert set(bench.done.values()) == {OK}
    probe = int(dut.PATH_PROBE.value) * TICK

    def share(first, last):
        used = [path for cycle, _, path, _ in bench.rules.transmissions if first <= cycle < last]
        return used.count(dead), len(used)

    # Before; after a few timeouts; after a probe and its answer.
    before, fail, heal = (
        share(2000, fails), share(fails + 4000, heals), share(heals + probe + 2000, ends))
    story = f"(on the path, all): before {before}, down {fail}, healed {heal}"
    dut._log.info(story)
    for on, every in (before, heal):
        assert on * paths > every // 2, story
    most = (heals - fails) // probe + 2
    assert 0 < fail[0] <= most, f"{story}; expected 1 to {most} probes"


@cocotb.test()
async def a_path_fails_in_a_flood(dut):
    """transport.srd_sender.path_flood: A path fails while the peer acknowledges in each cycle: its
    packets are sent again as soon as their age shows that they are lost."""
    fails = 16_000  # after the first period of the extent
    bench = Bench(dut, "path flood", paths=2, read=0, run=0, size=32,
                  overrides=(down(fails, paths=(1,)),))  # fmt: skip
    shown = []
    bench.show = lambda peer, packet: shown.append(packet) or packet
    await bench.start()
    node = bench.rng.randrange(bench.nodes)
    while not bench.rules.count["again"] and bench.cycle < 2 * fails:
        if bench.cycle % 10 == 0:
            bench.post(node)
        if shown and len(bench.acks_given) < 4:
            bench.acknowledge(shown[-1])
        await bench.cycles(1)
    found = bench.cycle - fails
    assert 0 < found < 1000, f"sent again {found} cycles after the failure"
    await bench.finish()
    assert set(bench.done.values()) == {OK}


@cocotb.test()
async def all_paths_but_one_fail(dut):
    """transport.srd_sender.paths_fail: All paths but one fail one after the other, for ever: each
    packet completes with success."""
    paths = len(dut.s_cfg_paths)
    bench = Bench(dut, "paths fail", overrides=[
        down(1000 + 1500 * path, None, paths=(path,)) for path in range(paths - 1)])  # fmt: skip
    await bench.start()
    nodes = bench.rng.sample(range(bench.nodes), 2)
    while bench.cycle < 3000 + 1500 * paths:
        if len(bench.jobs) - len(bench.done) < 40:
            bench.post(bench.rng.choice(nodes), 8)
        await bench.cycles(50)
    await bench.finish(400_000, after=2000)
    assert set(bench.done.values()) == {OK}
    late = [path for cycle, _, path, _ in bench.rules.transmissions[-100:]]
    assert late.count(paths - 1) > 60, late


@cocotb.test()
async def a_slow_path(dut):
    """transport.srd_sender.slow_path: A path with five times the latency is left to the others, and
    no packet on it is sent again without need for ever."""
    paths = min(4, len(dut.s_cfg_paths))
    bench = Bench(dut, "slow path", paths=paths, latency=100,
                  overrides=[Override((0,), None, {"latency": 700})])  # fmt: skip
    await bench.start()
    node = bench.rng.randrange(bench.nodes)
    while bench.cycle < 25000:
        if len(bench.jobs) - len(bench.done) < 20:
            bench.post(node, 4)
        await bench.cycles(16)
    await bench.finish(after=2000)
    used = [path for cycle, _, path, _ in bench.rules.transmissions if cycle > 10000]
    share = used.count(0) / len(used)
    dut._log.info(f"share of the slow path {share:.3f}, {bench.rules.count['again']} again")
    assert share < 0.5 / paths, share
    assert set(bench.done.values()) == {OK}


@cocotb.test()
@cocotb.parametrize(burst=[(0, 1), (0, 16), (0, 20), (5, 3), (60, 40)])
async def one_burst(dut, burst):
    """transport.srd_sender.fixed_burst: A burst of loss, at the beginning or later, within the
    first window or beyond it, delays packets and ends none."""
    sender = 1 << int(dut.NODE_W.value)
    bench = Bench(dut, f"one burst {burst}", paths=1, overrides=[Override(
        None, tuple((sender, node) for node in range(sender)), {"burst": FixedBurst(*burst)})])
    await bench.start()
    await carry(bench, 300, 2)


@cocotb.test()
async def everything_at_once(dut):
    """transport.srd_sender.everything: Many peers over a fabric with all faults, a slow path and a
    path that fails, refusals, RNR, cancellations and stalls: each packet ends once."""
    paths = len(dut.s_cfg_paths)
    bench = Bench(
        dut, "everything", stalls=0.1, note_stalls=0.1, gaps=0.1, run=100, latency=50,
        **FAULTS["all"], overrides=[
            Override((0,), None, {"latency": 300}), down(4000, 9000, paths=(paths - 1,))])
    await bench.start()
    rng = bench.rng
    nodes = rng.sample(range(bench.nodes), min(10, bench.nodes))
    bench.judge = lambda job: rng.choice((*[OK] * 12, RNR, *STATUSES))
    for _ in range(60):
        jobs = [bench.post(rng.choice(nodes))[0] for _ in range(rng.randrange(40))]
        for job in jobs:
            if rng.random() < 0.05:
                bench.cancel(job)
        await bench.cycles(rng.randrange(300))
    await bench.finish(400_000, after=2000)
