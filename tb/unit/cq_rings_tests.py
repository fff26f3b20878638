# SPDX-License-Identifier: Apache-2.0
"""Tests efa_cq: rings of every depth and format up to their wraps; isolation from stuck events;
drains."""

from collections import deque
from itertools import product

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge

from efa_cosim.layouts.defs import EVENTS, INTERNAL, LIMITS, IoTxCdesc
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, periodic, reset, rng_for
from tb.lib.waits import high, hold, pulse, steady, until, zero
from tb.unit.cq_bench import serve_counted
from tb.unit.queue_bench import Pulses, completion_entry

BASE = 0x7_FFFF_0000_0040
MAX_LOG = LIMITS.max_cq_depth.bit_length() - 1
# A context can name deeper rings than the device offers; efa_cq supports all of them.
LOGS = 1 << INTERNAL.cqc.fields["log"][1]


async def start(dut):
    """Resets the device; every output is accepted."""
    zero(dut, "s_cqc_valid", "s_cqdb_valid", "s_drain_valid", "s_txc_valid", "s_rxc_valid",
         "counted_rd_data")  # fmt: skip
    dut.m_wr_ready.value = dut.m_commit_ready.value = 1
    await clock_and_reset(dut)
    await until(dut, high(dut.m_init_done), cycles=5000)


async def create(dut, cqn, **fields):
    context = INTERNAL.cqc.pack(**{"live": 1, "base": BASE >> 6, **fields})
    await pulse(dut, "s_cqc_valid", s_cqc_cqn=cqn, s_cqc_data=context)


async def one_each_cycle(dut, side, count, item):
    """Sends identical completions back to back with constant inputs."""
    if not count:
        return
    await FallingEdge(dut.clk)
    getattr(dut, f"s_{side}c_data").value = INTERNAL.cpl.pack(**item)
    valid = getattr(dut, f"s_{side}c_valid")
    valid.value = 1
    await ClockCycles(dut.clk, count)
    await FallingEdge(dut.clk)
    valid.value = 0
    await ClockCycles(dut.clk, 4)


@cocotb.test()
async def every_depth_at_its_ends(dut):
    """cq.rings.depth: depths from 1 to the maximum, both CQE sizes and both rings have correct
    slots, phases and overflow reports"""
    await start(dut)
    for log, wide, sub in product(range(MAX_LOG + 1), (0, 1), (0, 1)):
        cqn, size, depth = log + 16 * wide + 32 * sub, 32 if wide else 16, 1 << log
        await create(dut, cqn, log=log, wide=wide, two=1)
        item = {"cqn": cqn, "sub": sub, "rx": sub}
        ring, number = BASE + sub * depth * size, 0
        # The start of the ring, then the ends of its first two wraps.
        for upto in (min(2, depth), depth + 2, 2 * depth + 2):
            few = min(4, upto - number)
            await one_each_cycle(dut, "rx" if sub else "tx", upto - number - few, item)
            writes = Pulses(dut, "m_wr", "addr", "data", "len")
            events = Pulses(dut, "ev_cqe", "data")
            await one_each_cycle(dut, "rx" if sub else "tx", few, item)
            number = upto - few
            for (addr, data, length), raw in zip(writes.values(), events.values(), strict=True):
                slot, wrap = number & depth - 1, number >> log
                common = IoTxCdesc.unpack(data.to_bytes(32, "little")[:16]).common
                where = f"CQE {number} of depth {depth}, {size} bytes, ring {sub}"
                assert (addr, length) == (ring + slot * size, size), where
                assert common.phase == 1 - (wrap & 1), where
                # No CQE is consumed, so a count above the capacity of both rings is an overflow.
                assert EVENTS.cqe.unpack(raw).overflow == (number >= 2 * depth), where
                number += 1
            assert number == upto
            writes.stop()
            events.stop()


@cocotb.test()
@cocotb.parametrize(log=range(LOGS))
async def a_ring_at_large_counts(dut, log):
    """cq.rings.counts: slots, phases and overflow reports are correct where a count reaches the
    next power of two, up to 32,768"""
    await start(dut)
    rng = rng_for(f"counts {log}")
    depth, cqn, wide, sub = 1 << log, *(rng.getrandbits(bits) for bits in (7, 1, 1))
    space, size, number = 2 * depth, 32 if wide else 16, 0
    await create(dut, cqn, log=log, wide=wide, two=1)
    item = {"cqn": cqn, "sub": sub, "rx": sub}
    for bit in range(log, 16):
        before = max(number, (1 << bit) - 2)
        await one_each_cycle(dut, "tx", before - number, item)
        # The first or the second CQE exceeds the capacity of both rings, or none.
        consumed = before + 1 - space + rng.choice((-1, 0, 4)) & 0xFFFF
        await pulse(dut, "s_cqdb_valid", s_cqdb_cqn=cqn, s_cqdb_index=consumed)
        writes, events = Pulses(dut, "m_wr", "addr", "data", "len"), Pulses(dut, "ev_cqe", "data")
        number = (1 << bit) + 2
        await one_each_cycle(dut, "tx", number - before, item)
        pairs = zip(writes.values(), events.values(), strict=True)
        for at, ((addr, data, length), raw) in zip(range(before, number), pairs, strict=True):
            common = IoTxCdesc.unpack(data.to_bytes(32, "little")[:16]).common
            slot, where = sub * depth + at % depth, f"CQE {at}"
            assert (addr, length) == (BASE + slot * size, size), where
            assert common.phase == 1 - (at >> log & 1), where
            unread = at + 1 - consumed & 0xFFFF
            assert EVENTS.cqe.unpack(raw).overflow == (unread > space), where
        writes.stop()
        events.stop()


@cocotb.test()
async def the_consumer_index_holds_nothing_up(dut):
    """cq.rings.consumer: stale, valid or invalid consumer indices do not reduce the rate of one
    CQE per cycle"""
    await start(dut)
    await create(dut, 3, log=2)
    writes, events = Pulses(dut, "m_wr", "addr"), Pulses(dut, "ev_cqe", "data")
    for index in (0, 5, 0xFFFF, 9, 0x8000):
        await pulse(dut, "s_cqdb_valid", s_cqdb_cqn=3, s_cqdb_index=index)
        await one_each_cycle(dut, "tx", 9, {"cqn": 3})
    cycles = [beat[0] for beat in writes.seen]
    assert all(b - a == 1 for n, (a, b) in enumerate(zip(cycles, cycles[1:], strict=False))
               if n % 9 != 8)  # fmt: skip
    assert writes.values() == [BASE + 16 * (n & 3) for n in range(45)]
    overflows = [EVENTS.cqe.unpack(raw).overflow for raw in events.values()]
    # Four CQEs may be unconsumed; the difference to the consumer index is modulo 65,536.
    index = [0, 5, 0xFFFF, 9, 0x8000]
    assert overflows == [(n + 1 - index[n // 9] & 0xFFFF) > 4 for n in range(45)]


@cocotb.test()
async def an_event_that_is_stuck_holds_up_few(dut):
    """cq.rings.stuck: two stuck commits block only CQs in interrupt mode; a drain waits for
    them"""
    await start(dut)
    await create(dut, 4, log=6, intr=1)
    await create(dut, 5, log=6)
    dut.m_commit_ready.value = 0
    writes, commits = Pulses(dut, "m_wr", "addr"), Pulses(dut, "m_commit", "total", consumed=True)
    await one_each_cycle(dut, "tx", 2, {"cqn": 4})
    await one_each_cycle(dut, "tx", 20, {"cqn": 5})
    assert len(writes.seen) == 22 and not commits.seen
    await FallingEdge(dut.clk)
    dut.s_drain_valid.value = 1
    for _ in range(20):
        await RisingEdge(dut.clk)
        assert dut.s_drain_ready.value == 0
    # The next CQE with a commit waits unwritten and its completion stays stable.
    await one_each_cycle(dut, "tx", 2, {"cqn": 4})
    assert len(writes.seen) == 22
    dut.m_commit_ready.value = 1
    await until(dut, high(dut.s_drain_ready), cycles=20)
    dut.s_drain_valid.value = 0
    await ClockCycles(dut.clk, 8)
    assert len(writes.seen) == 24 and commits.values() == [1, 2, 3, 4]


async def feed(dut, rng, prefix, beats):
    """Drives a port without backpressure: the items of `beats`, don't-care values while not
    valid."""
    ports = {handle._name.removeprefix(prefix + "_"): handle for handle in dut
             if handle._name.startswith(prefix + "_")}  # fmt: skip
    valid = ports.pop("valid")
    while True:
        beat = beats.popleft() if beats else None
        valid.value = int(beat is not None)
        for name, port in ports.items():
            port.value = rng.getrandbits(len(port)) if beat is None else beat[name]
        await RisingEdge(dut.clk)


class RefModel:
    """Models the expected CQEs of one CQ."""

    def __init__(self, rng, cqn, live):
        self.cqn, self.live = cqn, live
        self.fields = dont_care(INTERNAL.cqc, rng, live=live, log=rng.randrange(LOGS))
        self.counts, self.consumed = [0, 0], 0

    def space(self):
        return 1 << self.fields["log"] + self.fields["two"]

    def next(self, item):
        """Returns address, bytes, overflow and total of the CQE for this completion."""
        fields, sub = self.fields, item["sub"]
        size, depth = 32 if fields["wide"] else 16, 1 << fields["log"]
        count = self.counts[sub]
        self.counts[sub] += 1
        total = sum(self.counts)
        addr = (fields["base"] << 6) + (sub * depth + count % depth) * size
        phase = 1 - (count // depth & 1)
        entry = completion_entry(item, phase, fields["wide"], fields["src_addr"], fields["long_id"])
        return addr & (1 << 64) - 1, entry, (total - self.consumed & 0xFFFF) > self.space(), total


@cocotb.test()
async def every_queue_keeps_its_own_account(dut):
    """cq.rings.all: contexts of all formats, counts and consumer indices of each CQ are
    independent; each CQE has its event, and its commit if it needs one"""
    await start(dut)
    rng = rng_for("all")
    counted_qps = rng.getrandbits(1 << len(dut.counted_rd_addr))
    cocotb.start_soon(serve_counted(dut, lambda qpn: counted_qps >> qpn & 1))
    contexts, doorbells = deque(), deque()
    cocotb.start_soon(feed(dut, rng, "s_cqc", contexts))
    cocotb.start_soon(feed(dut, rng, "s_cqdb", doorbells))
    wr, commits = StreamMonitor(dut, "m_wr", 0.2), StreamMonitor(dut, "m_commit", 0.3)
    sources = [StreamDriver(dut, "s_txc", 0.2), StreamDriver(dut, "s_rxc", 0.2)]
    events, done = Pulses(dut, "ev_cqe", "data"), []

    async def count_receives():
        while True:
            await RisingEdge(dut.clk)
            done.append(int(dut.m_rxdone.value))

    cocotb.start_soon(count_receives())
    cqns = range(1 << len(dut.s_cqc_cqn))
    for _ in range(4):
        # A context write clears the consumer index of its CQ.
        doorbells.extend({"cqn": cqn, "index": 0x8000 + cqn} for cqn in cqns)
        await until(dut, lambda: not doorbells, "the doorbells")
        refs = {cqn: RefModel(rng, cqn, int(rng.random() < 0.9)) for cqn in cqns}
        for ref in rng.sample(list(refs.values()), len(refs)):
            contexts.append({"cqn": ref.cqn, "data": INTERNAL.cqc.pack(**ref.fields)})
        await until(dut, lambda: not contexts, "the contexts")
        await ClockCycles(dut.clk, 3)
        for _ in range(4):
            due, receives = [deque(), deque()], 0
            done.clear()
            events.seen.clear()
            for cqn in rng.choices(cqns, k=2 * len(cqns)):
                rx, status = rng.getrandbits(1), rng.choice((0, 0, 1 << rng.randrange(8), 255))
                item = dont_care(INTERNAL.cpl, rng, cqn=cqn, rx=rx, status=status)
                # Each source carries sends and receives. The lowest bit of qp_num names it.
                source = item["qp_num"] & 1
                sources[source].post({"data": INTERNAL.cpl.pack(**item)})
                receives += rx
                if refs[cqn].live:
                    due[source].append(item)
            due_commits = []
            for beat in await wr.take(sum(map(len, due)), 40000):
                data = beat["data"].to_bytes(32, "little")
                common = IoTxCdesc.unpack(data[:16]).common
                item = due[common.qp_num & 1].popleft()
                ref = refs[item["cqn"]]
                addr, entry, overflow, total = ref.next(item)
                assert (beat["addr"], beat["len"]) == (addr, len(entry))
                assert data[: len(entry)] == entry
                event = EVENTS.cqe.unpack(events.values().pop(0))
                events.seen.pop(0)
                reported = {name: getattr(event, name) for name in ("cqn", "sub", "qpn", "req_id")}
                assert reported == {name: item[name] for name in reported}
                assert (event.q_type, event.status) == (common.q_type, item["status"])
                assert event.overflow == overflow, f"queue {ref.fields}: {total} CQEs"
                intr, counted = ref.fields["intr"], counted_qps >> item["qpn"] & 1
                if intr or counted:
                    kind = 2 * item["rx"] + (item["status"] != 0)
                    due_commits.append({"cqn": item["cqn"], "total": total, "intr": intr,
                                        "counted": counted, "qpn": item["qpn"],
                                        "kind": kind})  # fmt: skip
            assert due_commits and await commits.take(len(due_commits), 4000) == due_commits
            await ClockCycles(dut.clk, 20)
            assert sum(done) == receives and not wr.beats and not commits.beats
            # Some CQs are created again while the others continue.
            for cqn in rng.sample(cqns, 5):
                refs[cqn] = RefModel(rng, cqn, 1)
                contexts.append({"cqn": cqn, "data": INTERNAL.cqc.pack(**refs[cqn].fields)})
            await until(dut, lambda: not contexts, "the contexts")
            # Consumer indices near the overflow of the next CQE.
            for ref in refs.values():
                if ref.live and rng.random() < 0.3:
                    ref.consumed = sum(ref.counts) + 1 - ref.space()
                    ref.consumed = ref.consumed + rng.choice((-1, 0, 1)) & 0xFFFF
                    doorbells.append({"cqn": ref.cqn, "index": ref.consumed})
            await until(dut, lambda: not doorbells, "the doorbells")
            await ClockCycles(dut.clk, 3)


@cocotb.test()
async def a_queue_that_was_never_made_takes_nothing(dut):
    """cq.rings.never: after any reset, completions of a CQ without a context are dropped and
    receives are reported as done"""
    await start(dut)
    count = 1 << len(dut.s_cqc_cqn)
    for cqn in range(count):
        await create(dut, cqn, log=3)
    await reset(dut)
    await until(dut, high(dut.m_init_done), cycles=5000)
    done = 0
    for at in range(count + 4):
        dut.s_rxc_data.value = INTERNAL.cpl.pack(cqn=min(at, count - 1), rx=1)
        dut.s_rxc_valid.value = int(at < count)
        await RisingEdge(dut.clk)
        assert dut.m_wr_valid.value == 0
        done += int(dut.m_rxdone.value)
    assert done == count


@cocotb.test()
async def completions_wait_for_the_init_sweep(dut):
    """cq.rings.init: no source is accepted before the init sweep has ended"""
    await start(dut)
    await reset(dut)
    dut.s_txc_valid.value = dut.s_rxc_valid.value = 1
    for _ in range(1 << len(dut.s_cqc_cqn)):
        await FallingEdge(dut.clk)
        if dut.m_init_done.value == 1:
            break
        assert (dut.s_txc_ready.value, dut.s_rxc_ready.value) == (0, 0)
    assert dut.m_init_done.value == 1 and dut.s_txc_ready.value != dut.s_rxc_ready.value


@cocotb.test()
@cocotb.parametrize(idle=[0, 1, 2, 3])
async def sources_at_full_load_take_turns(dut, idle):
    """cq.rings.quanta: both sources alternate at full load for every pace of the host"""
    await start(dut)
    await create(dut, 3, log=6)
    for rx, side in enumerate(("tx", "rx")):
        getattr(dut, f"s_{side}c_data").value = INTERNAL.cpl.pack(cqn=3, rx=rx)
    wr = StreamMonitor(dut, "m_wr", periodic(idle, 1))
    dut.s_txc_valid.value = dut.s_rxc_valid.value = 1
    kinds = [beat["data"] >> 25 & 3 for beat in await wr.take(20)]
    assert all(a != b for a, b in zip(kinds[4:], kinds[5:], strict=False)), kinds


@cocotb.test()
async def a_reset_clears_whose_turn_it_was(dut):
    """cq.rings.first: after a reset the same source is granted first, independently of the last
    grant before the reset"""
    await start(dut)
    first = set()
    for last in ("tx", "rx", "tx"):
        await create(dut, 3, log=6)
        for rx, side in enumerate(("tx", "rx")):
            getattr(dut, f"s_{side}c_data").value = INTERNAL.cpl.pack(cqn=3, rx=rx)
        await hold(dut, f"s_{last}c_valid", f"s_{last}c_ready")
        await reset(dut)
        await until(dut, high(dut.m_init_done), cycles=5000)
        dut.s_txc_valid.value = dut.s_rxc_valid.value = 1
        await RisingEdge(dut.clk)
        await FallingEdge(dut.clk)
        assert dut.s_txc_ready.value != dut.s_rxc_ready.value
        first.add(int(dut.s_rxc_ready.value))
        dut.s_txc_valid.value = dut.s_rxc_valid.value = 0
        await ClockCycles(dut.clk, 4)
    assert len(first) == 1


@cocotb.test()
async def a_drain_waits_at_any_count(dut):
    """cq.rings.drain: a drain waits for exactly the pending CQEs; commits carry the complete
    count and their completion"""
    await start(dut)
    await create(dut, 3, log=4, intr=1, two=1)
    rng, total = rng_for("drain"), 0
    for wrap in range(20):
        item = dont_care(INTERNAL.cpl, rng, cqn=3, sub=wrap & 1)
        kind = 2 * item["rx"] + (item["status"] != 0)
        await one_each_cycle(dut, "tx", 3500, item)
        commits = Pulses(dut, "m_commit", "total", "cqn", "qpn", "kind", "intr", "counted",
                         consumed=True)  # fmt: skip
        dut.m_wr_ready.value = 0
        await one_each_cycle(dut, "tx", 2, item)
        dut.s_drain_valid.value = 1
        for _ in range(6):
            await RisingEdge(dut.clk)
            assert dut.s_drain_ready.value == 0
        dut.m_wr_ready.value = 1
        await until(dut, high(dut.s_drain_ready), "the drain", 10)
        dut.s_drain_valid.value = 0
        await ClockCycles(dut.clk, 3)
        total += 3502
        counts = (total - 1 & 0xFFFF, total & 0xFFFF)
        assert commits.values() == [(count, 3, item["qpn"], kind, 1, 0) for count in counts]
        commits.stop()


@cocotb.test()
async def a_drain_waits_for_each_commit(dut):
    """cq.rings.commit: a drain waits for one and for two pending commits, and not for the ready of
    commits without a pending one"""
    await start(dut)
    await create(dut, 100, log=4, intr=1)
    dut.m_commit_ready.value = 0
    for pending in range(3):
        await one_each_cycle(dut, "tx", pending, {"cqn": 100})
        dut.s_drain_valid.value = 1
        if pending:
            await steady(dut, 12, s_drain_ready=0)
            dut.m_commit_ready.value = 1
        await until(dut, high(dut.s_drain_ready), cycles=6)
        dut.s_drain_valid.value = dut.m_commit_ready.value = 0
        await ClockCycles(dut.clk, 3)
        assert dut.m_commit_valid.value == 0


@cocotb.test()
@cocotb.parametrize(intr=[0, 1])
async def a_drain_ends_at_full_load(dut, intr):
    """cq.rings.load: completions after the request, and their commits, do not delay a drain"""
    await start(dut)
    await create(dut, 3, log=4, intr=intr)
    dut.s_txc_data.value = INTERNAL.cpl.pack(cqn=3)
    dut.s_txc_valid.value = 1
    for wait in range(5):
        await ClockCycles(dut.clk, 4 + wait)
        dut.s_drain_valid.value = 1
        await until(dut, high(dut.s_drain_ready), cycles=6)
        dut.s_drain_valid.value = 0
        assert dut.s_txc_ready.value == 1


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.3, 0.7), (0.7, 0.3)])
async def a_drain_covers_what_came_before_it(dut, pace):
    """cq.rings.fence: when a drain ends, all completions accepted before its request are written
    and committed; the next request may follow without a pause"""
    await start(dut)
    rng = rng_for("fence")
    await create(dut, 3, log=4)
    await create(dut, 4, log=4, intr=1)
    stall, commit_stall = pace
    StreamMonitor(dut, "m_wr", stall)
    StreamMonitor(dut, "m_commit", commit_stall)
    source = StreamDriver(dut, "s_txc", lambda: rng.random() < 0.2)
    items = [rng.choice((3, 4)) for _ in range(400)]
    source.post(*[{"data": INTERNAL.cpl.pack(cqn=cqn)} for cqn in items])
    # Commits due after the first n CQEs.
    due = [0]
    for cqn in items:
        due.append(due[-1] + (cqn == 4))
    accepted = written = committed = drains = pause = 0
    fence = None
    while written < len(items):
        await RisingEdge(dut.clk)
        if fence is None and dut.s_drain_valid.value == 1:
            fence = accepted
        committed += dut.m_commit_valid.value == 1 and dut.m_commit_ready.value == 1
        if fence is not None and dut.s_drain_ready.value == 1:
            assert written >= fence and committed >= due[fence], f"drain {drains}"
            drains, fence, pause = drains + 1, None, rng.choice((0, 0, 1, 5))
        accepted += dut.s_txc_valid.value == 1 and dut.s_txc_ready.value == 1
        written += dut.m_wr_valid.value == 1 and dut.m_wr_ready.value == 1
        dut.s_drain_valid.value = int(fence is not None or pause == 0)
        pause = max(0, pause - 1)
    assert drains > 20
