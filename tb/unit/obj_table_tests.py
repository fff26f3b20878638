# SPDX-License-Identifier: Apache-2.0
"""Tests efa_obj_table against a reference model of numbers, references, UAR ownership and LLQ
pages."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import LIMITS
from tb.lib.round_robin import RoundRobin
from tb.lib.stream import clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import high, until

FIND, TAKE, FREE, REF, REF_OF_UAR, UNREF, CHECK = range(7)
PD, UAR, AH, MR, EQ, CQ, QP, LLQ = range(8)
OK, ABSENT, BUSY, NONE = range(4)
BY_UAR = (CQ, QP, LLQ)
UNITS = 5
UAR_BITS = 10  # of a stored UAR, more than a UAR of the default build has


class RefModel:
    """Models the expected state of every object number."""

    def __init__(self, sizes):
        self.sizes = sizes
        self.consumed = {kind: {} for kind in sizes}  # number: reference count
        self.touched = {kind: {} for kind in sizes}  # number: UAR
        self.gens, self.owner = {}, {}
        self.lowest = dict.fromkeys(sizes, 0)  # all numbers below it are in use

    def free(self, kind, number, uar):
        return number not in self.consumed[kind] and (
            kind not in BY_UAR or self.touched[kind].get(number, uar) == uar
        )

    def find(self, kind, uar, log):
        for base in range(0, self.sizes[kind] - (1 << log) + 1, 1 << log):
            if all(self.free(kind, base + i, uar) for i in range(1 << log)):
                return base
        return None

    def take(self, kind, base, uar, log):
        for number in range(base, base + (1 << log)):
            self.consumed[kind][number] = 0
            self.touched[kind][number] = self.owner[kind, number] = uar
        if base == self.lowest[kind]:
            self.lowest[kind] = base + (1 << log)
        last = (1 << 20 - LIMITS.mr_w) - 1
        gen = self.gens.get((kind, base), -1 if kind == QP else 0)
        gen = 1 if kind == MR and gen == last else gen + 1
        self.gens[kind, base] = gen
        return gen & 0xFFFF

    def release(self, kind, base, log):
        for number in range(base, base + (1 << log)):
            del self.consumed[kind][number]
        self.lowest[kind] = min(self.lowest[kind], base)
        if kind == UAR:
            for other in BY_UAR:
                touched = self.touched[other]
                self.touched[other] = {n: u for n, u in touched.items() if u != base}


class Bench:
    def __init__(self, dut):
        self.dut = dut
        self.rng = rng_for("objects")
        dut.s_obj_valid.value = 0
        pages = 1 << int(dut.LLQ_AW.value) - 12
        self.ref = RefModel({
            PD: 1 << LIMITS.pd_w, UAR: 1 << LIMITS.uar_w, AH: 1 << LIMITS.ah_w,
            MR: 1 << LIMITS.mr_w, EQ: 1 << LIMITS.eqn_w, CQ: 1 << int(dut.CQN_W.value),
            QP: 1 << int(dut.QPN_W.value), LLQ: pages,
        })  # fmt: skip

    async def start(self):
        await clock_and_reset(self.dut)
        await self.ready()

    async def ready(self):
        """Checks that initialisation after a reset, which ended one cycle ago, takes its specified
        time."""
        numbers = sum(self.ref.sizes.values())
        due = timing("efa_obj_table", "number").interval * numbers
        assert await until(self.dut, high(self.dut.m_init_done), cycles=due + 1) == due

    async def request(self, op, kind, index=0, uar=0, log=0, unit=None):
        dut = self.dut
        unit = self.requested = self.rng.randrange(UNITS) if unit is None else unit
        # Ports of idle units and the upper bits of a UAR carry don't-care bits.
        for name, width, value in (("op", 3, op), ("kind", 3, kind), ("index", 32, index),
                                   ("uar", 16, uar | self.rng.getrandbits(6) << 10),
                                   ("log", 4, log)):  # fmt: skip
            others = self.rng.getrandbits(width * UNITS) & ~(((1 << width) - 1) << width * unit)
            getattr(dut, f"s_obj_{name}").value = others | value << width * unit
        dut.s_obj_valid.value = 1 << unit
        cycles = 0
        while True:
            await RisingEdge(dut.clk)
            cycles += 1
            if int(dut.s_obj_ready.value):
                break
            assert cycles < 3000, "no response"
        assert int(dut.s_obj_ready.value) == 1 << unit
        dut.s_obj_valid.value = 0
        self.cycles = cycles
        self.gen = dut.m_obj_gen.value
        self.found = dut.m_obj_index.value
        return int(dut.m_obj_code.value)

    async def find(self, kind, uar=0, log=0):
        first = self.ref.lowest[kind] >> log << log
        code = await self.request(FIND, kind, self.rng.getrandbits(32), uar, log)
        want = self.ref.find(kind, uar, log)
        request, path, number = (
            timing("efa_obj_table", name) for name in ("request", "find", "number")
        )
        # Without a free number the search ends at the first number beyond the range of the kind.
        last = self.ref.sizes[kind] if want is None else want + (1 << log) - 1
        further = last - first
        due = path.latency + number.interval * further
        if want is None and further == 0:
            due = request.latency
        assert self.cycles - 1 == due, (kind, uar, log, want, "wrong search time")
        assert code == (NONE if want is None else OK), (kind, uar, log, want)
        assert want is None or int(self.found) == want, (kind, uar, log, int(self.found), want)
        return want

    async def take(self, kind, number, uar=0, log=0):
        assert await self.request(TAKE, kind, number, uar, log) == OK
        gen = self.ref.take(kind, number, uar, log)
        assert kind == LLQ or int(self.gen) == gen, (kind, number)

    async def check(self, kind, number):
        """Checks presence, UAR, generation and reference flag of an object."""
        code = await self.request(CHECK, kind, number, self.rng.getrandbits(16))
        there = self.ref.consumed[kind].get(number)
        assert code == (ABSENT if there is None else OK), (kind, number)
        if there is not None:
            dut, ref = self.dut, self.ref
            assert int(dut.m_obj_uar.value) == ref.owner[kind, number]
            assert int(dut.m_obj_gen.value) == ref.gens[kind, number] & 0xFFFF
            assert dut.m_obj_referenced.value == (there > 0)

    async def free(self, kind, number, uar=0, log=0):
        refs = self.ref.consumed[kind].get(number)
        want = ABSENT if refs is None else BUSY if refs else OK
        assert await self.request(FREE, kind, number, uar, log) == want
        if want == OK:
            self.ref.release(kind, number, log)
        return want


@cocotb.test(timeout_time=200, timeout_unit="us")
async def lowest_numbers_first_until_none(dut):
    """admin.obj_table.lowest_free: Find returns the lowest free number, and none when all numbers
    are in use."""
    bench = Bench(dut)
    await bench.start()
    for number in range(1 << LIMITS.eqn_w):
        assert await bench.find(EQ) == number
        await bench.take(EQ, number)
    assert await bench.find(EQ) is None
    await bench.free(EQ, 5)
    await bench.free(EQ, 2)
    assert await bench.find(EQ) == 2
    assert await bench.request(CHECK, EQ, 2) == ABSENT
    assert await bench.request(CHECK, EQ, 1 << 20) == ABSENT
    assert bench.cycles <= 4


@cocotb.test(timeout_time=200, timeout_unit="us")
async def references_keep_an_object(dut):
    """admin.obj_table.references: A referenced object is not freed, and a reference requires the
    UAR of the object."""
    bench = Bench(dut)
    await bench.start()
    await bench.take(CQ, await bench.find(CQ, 3), 3)
    assert await bench.request(REF_OF_UAR, CQ, 0, 4) == ABSENT
    assert await bench.request(REF_OF_UAR, CQ, 0, 3) == OK
    assert await bench.request(FREE, CQ, 0) == BUSY
    assert await bench.request(UNREF, CQ, 0) == OK
    assert await bench.request(FREE, CQ, 0) == OK
    # A freed object takes no reference, not even from its last UAR.
    for _ in range(2):
        assert await bench.request(REF_OF_UAR, CQ, 0, 3) == ABSENT
        assert await bench.request(REF, CQ, 0) == ABSENT
        assert await bench.request(FREE, CQ, 0) == ABSENT


@cocotb.test(timeout_time=200, timeout_unit="us")
async def a_number_stays_with_its_uar(dut):
    """admin.obj_table.touched: A freed number returns only to its UAR until that UAR itself is
    freed."""
    bench = Bench(dut)
    await bench.start()
    for number in (0, 1):
        await bench.take(UAR, number)
    for kind in (QP, CQ):
        await bench.take(kind, await bench.find(kind, 0), 0)
        await bench.free(kind, 0)
        assert await bench.find(kind, 1) == 1
        assert await bench.find(kind, 0) == 0
    await bench.take(LLQ, await bench.find(LLQ, 0, 1), 0, 1)
    await bench.free(LLQ, 0, 0, 1)
    assert await bench.find(LLQ, 1, 1) == 2
    await bench.free(UAR, 0)
    assert await bench.find(QP, 1) == await bench.find(CQ, 1) == 0
    assert await bench.find(LLQ, 1, 1) == 0


@cocotb.test()
async def a_ring_gets_pages_that_are_all_free(dut):
    """admin.obj_table.pages: An LLQ gets an aligned block of free pages: one used page excludes a
    block, and a block larger than the memory is refused."""
    bench = Bench(dut)
    await bench.start()
    await bench.take(UAR, 0)
    all_of_them = bench.ref.sizes[LLQ].bit_length() - 1
    assert await bench.find(LLQ, 0, all_of_them) == 0
    assert await bench.find(LLQ, 0, all_of_them + 1) is None
    for page, log, place in ((0, 1, 2), (3, 1, 4), (6, 2, 8), (9, 2, 12)):
        await bench.take(LLQ, page, 0)
        assert await bench.find(LLQ, 0, log) == place


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def random_operations_match_the_reference(dut):
    """admin.obj_table.random: Random allocations, references and frees match the reference
    model."""
    bench = Bench(dut)
    await bench.start()
    rng, ref = bench.rng, bench.ref
    for number in rng.sample(range(ref.sizes[UAR]), 4):
        await bench.take(UAR, number)
    held = {}
    for _ in range(1200):
        kind = rng.choice([PD, MR, EQ, CQ, QP, LLQ, LLQ])
        log = rng.choice((*range(6), 7, 8, 9)) if kind == LLQ else 0
        uar = rng.choice(list(ref.consumed[UAR]))
        choice = rng.random()
        if choice < 0.6:
            number = await bench.find(kind, uar, log)
            if number is not None:
                await bench.take(kind, number, uar, log)
                held[kind, number] = (uar, log)
        elif choice < 0.95 and any(k == kind for k, _ in held):
            number = rng.choice([n for k, n in held if k == kind])
            uar, log = held[kind, number]
            if kind != LLQ and rng.random() < 0.2:
                assert await bench.request(REF, kind, number) == OK
                ref.consumed[kind][number] += 1
                assert await bench.request(FREE, kind, number) == BUSY
                assert await bench.request(UNREF, kind, number) == OK
                ref.consumed[kind][number] -= 1
            await bench.free(kind, number, uar, log)
            del held[kind, number]
            if rng.random() < 0.02:  # free all objects of one UAR, then the UAR
                for (k, n), (u, g) in list(held.items()):
                    if u == uar:
                        await bench.free(k, n, u, g)
                        del held[k, n]
                await bench.free(UAR, uar)
                await bench.find(UAR)
                await bench.take(UAR, uar)
        elif choice >= 0.95 and uar not in [u for u, _ in held.values()]:
            await bench.free(UAR, uar)
            await bench.find(UAR)
            await bench.take(UAR, uar)


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def numbers_all_over(dut):
    """admin.obj_table.all: Random operations on any number, with any UAR and many references, leave
    other objects unchanged."""
    bench = Bench(dut)
    await bench.start()
    rng, ref = bench.rng, bench.ref
    kinds = (PD, UAR, AH, MR, EQ, CQ, QP)
    for turn in range(700):
        kind = rng.choice(kinds)
        size, consumed = ref.sizes[kind], ref.consumed[kind]
        number = rng.choice((rng.randrange(size), size - 1, 0))
        if number not in consumed:
            uar = rng.choice((rng.getrandbits(10), 1 << rng.randrange(10)))
            await bench.take(kind, number, uar)
            assert int(dut.m_obj_gen.value) == ref.gens[kind, number] & 0xFFFF
        else:
            for _ in range(rng.randrange(4)):
                uar = ref.owner[kind, number]
                other = uar ^ 1 << rng.randrange(10)
                assert await bench.request(REF_OF_UAR, kind, number, other) == ABSENT
                assert await bench.request(rng.choice((REF, REF_OF_UAR)), kind, number, uar) == OK
                consumed[number] += 1
            if consumed[number] and rng.random() < 0.7:
                for _ in range(consumed[number]):
                    assert await bench.request(UNREF, kind, number) == OK
                    consumed[number] -= 1
                    await bench.check(kind, number)
            await bench.free(kind, number)
        await bench.check(kind, number)
        beside = number ^ 1 << rng.randrange(32)
        if beside < size:
            await bench.check(kind, beside)
        else:
            assert await bench.request(rng.choice((CHECK, REF, FREE)), kind, beside) == ABSENT
        if turn % 10 == 0:
            kind = rng.choice(kinds)
            await bench.find(kind, rng.getrandbits(10))


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def every_number_of_a_kind(dut):
    """admin.obj_table.whole: All numbers of a kind are allocated in order; freed numbers are found
    again, lowest first, in time."""
    bench = Bench(dut)
    await bench.start()
    rng = bench.rng
    for kind in (PD, UAR, AH, MR, EQ, CQ, QP, LLQ):
        size = bench.ref.sizes[kind]
        for number in range(size):
            if rng.random() < 0.1:
                assert await bench.find(kind) == number
            await bench.take(kind, number)
        for log in (0, 1, 10, 11) if kind == LLQ else (0,):
            assert await bench.find(kind, 0, log) is None
        if kind == UAR:
            continue  # a free starts a scan for each UAR
        for _ in range(6):
            gone = rng.sample(range(size), rng.randrange(1, 5))
            for number in gone:
                await bench.free(kind, number)
            for number in sorted(gone):
                assert await bench.find(kind) == number
                await bench.take(kind, number)
        for other in range(kind + 1):
            assert await bench.find(other) is None  # in the same time as before


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def every_kind_has_its_own_hint(dut):
    """admin.obj_table.hint: Allocations and frees of one kind leave the first number of the search
    of every other kind unchanged."""
    bench = Bench(dut)
    await bench.start()
    rng, ref = bench.rng, bench.ref
    for kind, size in ref.sizes.items():
        for number in range(size):
            await bench.take(kind, number)
    for _ in range(150):
        kind = rng.choice(list(ref.sizes))
        if rng.random() < 0.6 and ref.consumed[kind]:
            await bench.free(kind, rng.choice(list(ref.consumed[kind])))
        elif (number := await bench.find(kind)) is not None:
            await bench.take(kind, number)
        for other in ref.sizes:
            await bench.find(other)


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def a_scan_is_for_one_uar(dut):
    """admin.obj_table.scan: The scan for a freed UAR keeps numbers of a UAR that differs in one
    bit."""
    bench = Bench(dut)
    await bench.start()
    rng = bench.rng
    width = LIMITS.uar_w
    for bit in range(UAR_BITS):
        one = rng.getrandbits(width) | 1 << bit >> width << width
        other, third = one ^ 1 << bit, one ^ 1 << (bit + 1) % width
        uars = [uar for uar in (one, other) if uar < 1 << width]
        for uar in uars:
            await bench.take(UAR, uar)
        for kind in BY_UAR:
            number = rng.choice((0, bench.ref.sizes[kind] - 1))
            await bench.take(kind, number, one)
            await bench.free(kind, number, one)
            await bench.find(kind, third)
        for uar in reversed(uars):
            await bench.free(UAR, uar)
            for kind in BY_UAR:
                assert await bench.find(kind, third) is not None


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def none_is_there_for_another_uar(dut):
    """admin.obj_table.others: Numbers that one UAR used and freed are not available to another
    UAR."""
    bench = Bench(dut)
    await bench.start()
    for kind in BY_UAR:
        size = bench.ref.sizes[kind]
        uar = bench.rng.getrandbits(LIMITS.uar_w)
        other = uar ^ 1 << bench.rng.randrange(LIMITS.uar_w)
        for number in range(size):
            await bench.take(kind, number, uar)
        keeps = set(bench.rng.sample(range(size), 3))
        for number in bench.rng.sample(range(size), size):
            if number not in keeps:
                await bench.free(kind, number, uar)
        for log in range(11 if kind == LLQ else 1):
            await bench.find(kind, uar, log)
            assert await bench.find(kind, other, log) is None


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def blocks_of_any_size(dut):
    """admin.obj_table.blocks: Blocks of any number of pages are allocated and freed at the expected
    place."""
    bench = Bench(dut)
    await bench.start()
    rng, held = bench.rng, {}
    for _ in range(60):
        log = rng.choice((0, 3, 5, 6, 7, 8, 9, 10))
        number = await bench.find(LLQ, 1, log)
        if number is not None:
            await bench.take(LLQ, number, 1, log)
            held[number] = log
        while held and (number is None or rng.random() < 0.4):
            number = rng.choice(list(held))
            await bench.free(LLQ, number, 1, held.pop(number))


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def generations_of_queue_pairs(dut):
    """admin.obj_table.generation: The generation of a queue pair uses all 16 bits, and no bit of it
    changes the UAR or the references."""
    bench = Bench(dut)
    await bench.start()
    wanted = (1 << 15) + 40
    # One unit allocates number 0, the other frees it, alternately.
    dut.s_obj_op.value = TAKE | FREE << 3
    dut.s_obj_kind.value = QP | QP << 3
    dut.s_obj_index.value = dut.s_obj_uar.value = dut.s_obj_log.value = 0
    dut.s_obj_valid.value = 1
    await until(dut, high(dut.s_obj_ready[0]))
    dut.s_obj_valid.value = 3
    await ClockCycles(dut.clk, 2 * timing("efa_obj_table", "request").interval * wanted)
    dut.s_obj_valid.value = 0
    await ClockCycles(dut.clk, 8)
    used = await bench.request(CHECK, QP, 0) == OK
    seen = bench.ref.gens[QP, 0] = int(bench.gen)
    assert abs(seen - wanted) < 4
    if used:
        assert await bench.request(FREE, QP, 0) == OK
    for _ in range(256):
        await bench.take(QP, 0, bench.rng.getrandbits(UAR_BITS))
        await bench.check(QP, 0)
        await bench.free(QP, 0)


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def generations_wrap(dut):
    """admin.obj_table.generation: The generation of a memory key wraps to 1 after its last
    value."""
    bench = Bench(dut)
    await bench.start()
    last = (1 << 20 - LIMITS.mr_w) - 1
    for count in range(last + 3):
        await bench.take(MR, 0)
        assert int(bench.gen) == count % last + 1
        await bench.free(MR, 0)


@cocotb.test(timeout_time=200, timeout_unit="us")
async def units_wait_for_each_other(dut):
    """admin.obj_table.arbitration: Concurrent requests of all units are granted in round-robin
    order."""
    bench = Bench(dut)
    await bench.start()
    await bench.take(PD, 0)
    dut.s_obj_op.value = sum(CHECK << 3 * unit for unit in range(UNITS))
    dut.s_obj_kind.value = 0
    dut.s_obj_index.value = 1 << 32 * 3  # the fourth unit checks an absent number
    dut.s_obj_valid.value = (1 << UNITS) - 1
    seen = []
    while len(seen) < 2 * UNITS:
        await RisingEdge(dut.clk)
        ready = int(dut.s_obj_ready.value)
        if ready:
            seen.append(ready.bit_length() - 1)
            assert int(dut.m_obj_code.value) == (ABSENT if seen[-1] == 3 else OK)
    turns = RoundRobin(UNITS, bench.requested + 1)
    assert seen == [turns.next((1 << UNITS) - 1) for _ in seen]


@cocotb.test(timeout_time=200, timeout_unit="us")
async def its_cycles(dut):
    """admin.obj_table.time: Each request meets its specified latency; the next request follows in
    the next cycle."""
    request, find, number, free_uar = (
        timing("efa_obj_table", path) for path in ("request", "find", "number", "free_uar")
    )
    assert request.interval == request.latency + 1
    bench = Bench(dut)
    await bench.start()
    await RisingEdge(dut.clk)

    async def cycles(*req):
        await bench.request(*req)
        return bench.cycles - 1

    for index in range(4):
        assert await cycles(FIND, PD) == find.latency
        assert await cycles(TAKE, PD, index) == request.latency
    for op in (REF, UNREF, CHECK, FREE):
        assert await cycles(op, PD, 1) == request.latency
    await bench.request(TAKE, MR, 5)
    for log in (0, 3, 5):
        block = number.interval * ((1 << log) - 1)
        assert await cycles(FIND, LLQ, 0, 0, log) == find.latency + block
        assert await cycles(TAKE, LLQ, 64, 0, log) == request.latency + block
        assert await cycles(FREE, LLQ, 64, 0, log) == request.latency + block
    for index in range(3):
        await bench.request(TAKE, QP, index, 1)
    await bench.request(FREE, QP, 0)
    assert await cycles(FIND, QP, 0, 2) == find.latency + 3 * number.interval, "foreign numbers"
    await bench.request(TAKE, UAR, 9)
    scanned = sum(bench.ref.sizes[kind] for kind in BY_UAR)
    assert await cycles(FREE, UAR, 9) == free_uar.latency + number.interval * scanned


@cocotb.test(timeout_time=200, timeout_unit="us")
async def a_reset_frees_everything(dut):
    """admin.obj_table.reset: A reset frees every number and restarts the generations."""
    bench = Bench(dut)
    await bench.start()
    await bench.take(QP, 0, 7)
    for kind, size in bench.ref.sizes.items():
        await bench.take(kind, size - 1, 9)
        await bench.take(kind, size // 2, 9)
    dut.s_obj_valid.value = 1
    dut.s_obj_op.value = FIND
    await RisingEdge(dut.clk)
    await RisingEdge(dut.clk)
    dut.s_obj_valid.value = 0
    await reset(dut)
    await bench.ready()
    bench.ref = Bench(dut).ref
    for kind, size in bench.ref.sizes.items():
        for number in (size - 1, size // 2) if kind != LLQ else ():
            await bench.check(kind, number)
    assert await bench.find(LLQ, 3, 9) == 0
    assert await bench.find(QP, 1) == 0
    await bench.take(QP, 0, 1)
    assert int(bench.gen) == 0


@cocotb.test()
async def references_never_wrap(dut):
    """admin.obj_table.most: A saturated reference count refuses further references and never
    wraps."""
    bench = Bench(dut)
    await bench.start()
    most = (1 << int(dut.REF_W.value)) - 1
    assert await bench.request(TAKE, AH, 3) == OK
    for _ in range(most):
        assert await bench.request(REF, AH, 3) == OK
    for _ in range(2):
        assert await bench.request(REF, AH, 3) == NONE
    assert await bench.request(FREE, AH, 3) == BUSY
    for _ in range(most):
        assert await bench.request(CHECK, AH, 3) == OK and dut.m_obj_referenced.value == 1
        assert await bench.request(UNREF, AH, 3) == OK
    assert await bench.request(FREE, AH, 3) == OK


@cocotb.test(timeout_time=4000, timeout_unit="us")
async def a_reset_in_a_request(dut):
    """admin.obj_table.reset: A reset in any cycle of an allocation leaves the first number free."""
    bench = Bench(dut)
    await bench.start()
    for cycles in range(1, 5):
        kind = bench.rng.randrange(len(bench.ref.sizes))
        dut.s_obj_op.value, dut.s_obj_kind.value, dut.s_obj_index.value = TAKE, kind, 0
        dut.s_obj_valid.value = 1
        await ClockCycles(dut.clk, cycles)
        dut.s_obj_valid.value = 0
        await reset(dut)
        await bench.ready()
        assert await bench.find(kind) == 0
