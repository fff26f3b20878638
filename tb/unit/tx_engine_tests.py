# SPDX-License-Identifier: Apache-2.0
"""Tests efa_tx_engine: from stores and doorbells to packets and completions, and every refusal."""

from collections import Counter

import cocotb
from cocotb.triggers import ClockCycles

from efa_cosim.boundary.backend import profile_strap
from efa_cosim.layouts.defs import (
    INTERNAL,
    LIMITS,
    TRANSPORT,
    AdminQpState,
    IoCompStatus,
    PktOpcode,
    SrdAck,
    TransportAnomaly,
)  # fmt: skip
from tb.lib.waits import hold, pulse, until
from tb.unit.tx_engine_bench import (
    AH,
    AH_FAR,
    ASK,
    CWND,
    FREE,
    INCARNATION,
    IOVA,
    KEY,
    MR_BYTES,
    NODE,
    OK,
    PATHS,
    PEER,
    PHYS_KEY,
    UAR,
    WINDOW,
    Bench,
    entry,
    upper_id,
)  # fmt: skip

STATUS, ANOMALY = IoCompStatus, TransportAnomaly
FLUSHED = STATUS.FLUSHED
INTERNAL_ERROR = STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR
STATE = AdminQpState
NO_RDMA = profile_strap("basic")


def check_packet(bench, packet, queue, payload, psn=None, has_imm=0, imm=0, **header):
    got, data = packet
    assert data == payload, f"payload of {len(payload)} bytes differs"
    srd = queue.srd
    assert got.opcode == (PktOpcode.SRD_SEND if srd else PktOpcode.UD_SEND)
    assert (got.src_qpn, got.dst_qpn, got.qkey) == (queue.fields["qp_num"], 0x321, 0xABCD)
    assert (got.src_node, got.dst_node) == (NODE, header.get("node", PEER))
    assert (got.has_imm, got.imm, got.status) == (has_imm, imm, 0)
    assert srd or (got.session, got.incarnation, got.path, got.behind) == (0, 0, 0, 0)
    if psn is not None:
        assert got.psn == psn


def check_done(cpl, queue, req_id, status=OK, missing=0):
    """Checks the completion of a WQE whose dwords of `missing` were not written."""
    fields = queue.fields
    unwritten = 0xFFFF * (missing >> 6 & 1) | 0xFFFF_FFFF_0000 * (missing >> 7 & 1)
    upper = upper_id(req_id) & ~unwritten
    req_id = 0 if missing & 1 else req_id
    assert (cpl.qpn, cpl.qp_num, cpl.req_id) == (queue.qpn, fields["qp_num"], req_id)
    assert cpl.req_id_ex == upper * fields["long_id"], f"req_id {req_id}: {cpl.req_id_ex:#x}"
    assert cpl.status == status, f"req_id {req_id}: status {cpl.status}, not {status}"
    assert (cpl.cqn, cpl.sub, cpl.rx) == (fields["scqn"], fields["ssub"], 0)


@cocotb.test()
async def inline_sends_leave_whole(dut):
    """tx_engine.inline: Inline sends leave as complete packets, in order, over all paths."""
    bench = Bench(dut, stalls=0.3)
    dut = bench.dut
    await bench.start()
    narrow = await bench.qp(1)
    wide = await bench.qp(2, wide=True)
    sent = {1: [], 2: []}
    for number in range(40):
        for queue, most in ((narrow, 32), (wide, 80)):
            payload = bench.rng.randbytes(bench.rng.choice((0, 1, most, bench.rng.randrange(most))))
            image = entry(queue.wide, inline=payload, req_id=number, has_imm=number & 1,
                          immediate_data=number * 0x01010101)  # fmt: skip
            bench.post(queue, image, pieces=bench.rng.randrange(1, 5))
            sent[queue.qpn].append(payload)
            if number % 8 == 7:
                await ClockCycles(dut.clk, 100)
    done = await bench.finished(80)
    for queue in (narrow, wide):
        mine = [p for p in bench.packets if p[0].src_qpn == queue.fields["qp_num"]]
        assert len(mine) == 40
        for number, packet in enumerate(mine):
            anomaly = number & 1
            check_packet(bench, packet, queue, sent[queue.qpn][number], has_imm=anomaly,
                         imm=anomaly * number * 0x01010101)  # fmt: skip
        ids = sorted(c.req_id for c in done if c.qpn == queue.qpn)
        assert ids == list(range(40))
    assert [p[0].psn for p in bench.packets] == list(range(80))
    assert {p[0].path for p in bench.packets} == {path for path in range(8) if PATHS >> path & 1}
    assert bench.completed == 80 and all(c.status == OK for c in done)
    assert bench.sent_bytes == sum(len(p) for list_ in sent.values() for p in list_)
    for name in ("wqe", "check", "tx_first", "tx_last"):
        assert [e.msg for e in bench.events[name] if e.qpn == 1] == list(range(40)), name


async def gather(dut, stalls, count, sizes, srd=1):
    bench = Bench(dut, stalls)
    dut = bench.dut
    await bench.start()
    queue = await bench.qp(3, srd=srd)
    host = bench.rng.randbytes(MR_BYTES)
    bench.fill(IOVA, host)
    sent = []
    for number in range(count):
        total = sizes(bench.rng)
        first = bench.rng.choice((0, total, bench.rng.randrange(total + 1)))
        buffers, payload = [], b""
        for length in [first, total - first] if bench.rng.random() < 0.7 else [total]:
            at = bench.rng.randrange(MR_BYTES - length + 1)
            if bench.rng.random() < 0.3:
                phys = 0x4_0000_0000 + bench.rng.randrange(1 << 29)
                data = bench.rng.randbytes(length)
                for place, byte in enumerate(data):
                    bench.memory[phys + place] = byte
                buffers.append((phys, length, PHYS_KEY))
                payload += data
            else:
                buffers.append((IOVA + at, length, KEY))
                payload += host[at : at + length]
        sent.append(payload)
        await until(dut, lambda: queue.produced - bench.completed < 64, "space", 400000)
        bench.post(queue, entry(buffers=buffers, req_id=number), ring=number % 5 == 4)
    bench.ring(queue)
    done = await bench.finished(count, 400000)
    assert len(bench.packets) == count
    for number, packet in enumerate(bench.packets):
        check_packet(bench, packet, queue, sent[number], psn=number if srd else 0)
    if not srd:
        assert [c.req_id for c in done] == list(range(count))
    assert {c.req_id for c in done} == set(range(count)) and all(c.status == OK for c in done)
    return bench


@cocotb.test()
async def gathered_sends_of_all_sizes(dut):
    """tx_engine.gather: Gathered sends of all sizes leave with their payload."""
    sizes = lambda rng: rng.choice((0, 1, 31, 32, 33, 64, 96, rng.randrange(600)))  # noqa: E731
    await gather(dut, 0.3, 120, sizes)


@cocotb.test()
async def gathered_sends_up_to_the_mtu(dut):
    """tx_engine.gather_mtu: Gathered sends up to the MTU leave with their payload."""
    await gather(dut, 0.2, 12, lambda rng: rng.choice((8928, 8927, rng.randrange(8929))), srd=0)


@cocotb.test()
async def each_check_names_its_status(dut):
    """tx_engine.checks: Each failed check completes the WQE with its own status."""
    bench = Bench(dut, stalls=0.2)
    await bench.start()
    queue = await bench.qp(4)
    wide = await bench.qp(5, wide=True)
    await bench.handle(40, PEER, live=0)
    dut.s_cfg_profile.value = NO_RDMA
    end = IOVA + MR_BYTES
    cases = [
        (INTERNAL_ERROR, {"meta_desc": 0}),
        (INTERNAL_ERROR, {"first": 0}),
        (INTERNAL_ERROR, {"last": 0}),
        (INTERNAL_ERROR, {"comp_req": 0}),
        (INTERNAL_ERROR, {"meta_extension": 1}),
        (INTERNAL_ERROR, {"first": 0, "op_type": 1}),
        (STATUS.LOCAL_ERROR_UNSUPPORTED_OP, {"op_type": 1}),
        (STATUS.LOCAL_ERROR_UNSUPPORTED_OP, {"op_type": 3, "ah": 99}),
        (INTERNAL_ERROR, {"length": 3}),
        (INTERNAL_ERROR, {"length": 0x8000, "ah": 99}),
        (INTERNAL_ERROR, {"inline": bytes(32), "length": 33}),
        (STATUS.LOCAL_ERROR_INVALID_AH, {"ah": 40}),
        (STATUS.LOCAL_ERROR_INVALID_AH, {"ah": AH + 256}),
        (STATUS.LOCAL_ERROR_INVALID_AH, {"ah": 0xFFFF, "buffers": [(IOVA, 9000, KEY)]}),
        (STATUS.LOCAL_ERROR_BAD_LENGTH, {"buffers": [(IOVA, 8929, KEY)]}),
        (STATUS.LOCAL_ERROR_BAD_LENGTH, {"buffers": [(IOVA, 8928, 0), (IOVA, 1, KEY)]}),
        (STATUS.LOCAL_ERROR_BAD_LENGTH, {"buffers": [(0, 0xFFFFFFFF, 0), (0, 0xFFFFFFFF, KEY)]}),
        (STATUS.LOCAL_ERROR_INVALID_LKEY, {"buffers": [(IOVA, 1, KEY ^ 0x100)]}),
        (STATUS.LOCAL_ERROR_INVALID_LKEY, {"buffers": [(IOVA, 1, KEY | 1 << 20)]}),
        (STATUS.LOCAL_ERROR_INVALID_LKEY, {"buffers": [(IOVA - 1, 2, KEY)]}),
        (STATUS.LOCAL_ERROR_INVALID_LKEY, {"buffers": [(end - 1, 2, KEY)]}),
        (STATUS.LOCAL_ERROR_INVALID_LKEY, {"buffers": [(0xFFFFFFFFFFFFFFFF, 2, KEY)]}),
        (STATUS.LOCAL_ERROR_INVALID_LKEY, {"buffers": [(IOVA, 1, KEY), (IOVA, 1, 0)]}),
        (STATUS.LOCAL_ERROR_INVALID_LKEY, {"buffers": [(IOVA, 1, 0)], "ah": AH_FAR}),
        (STATUS.LOCAL_ERROR_UNREACH_REMOTE, {"ah": AH_FAR}),
        (OK, {"buffers": [(end - 1, 1, KEY)]}),
        (OK, {"buffers": [(0, 0, 0), (0, 0, 0)]}),
        (OK, {"buffers": [(IOVA, 1, 0xFF000000 | KEY)]}),
    ]
    for number, (_, changes) in enumerate(cases):
        bench.post(queue, entry(req_id=0x5500 + number, **changes))
    bench.post(wide, entry(True, inline=bytes(80)), entry(True, inline=bytes(80), length=81))
    for number, cpl in enumerate(sorted(
            (c for c in await bench.finished(len(cases) + 2) if c.qpn == 4),
            key=lambda c: c.req_id)):  # fmt: skip
        check_done(cpl, queue, 0x5500 + number, cases[number][0])
    good = sum(status == OK for status, _ in cases)
    assert len(bench.packets) == good + 1
    assert not bench.errors and bench.completed == good + 1
    # Sends with a message context are checked when they are transmitted.
    seen = sorted((e.msg, e.status) for e in bench.events["check"] if e.qpn == 4)
    assert seen == [(number, status) for number, (status, _) in enumerate(cases)]


@cocotb.test()
async def ud_sends_complete_when_they_left(dut):
    """tx_engine.ud: A UD send completes after its packet has left."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    queue = await bench.qp(6, srd=0)
    bench.hold_net = True
    bench.post(queue, entry(inline=b"one", req_id=1), entry(inline=b"far", req_id=2, ah=AH_FAR),
               entry(req_id=3, op_type=2), entry(inline=b"four", req_id=4))  # fmt: skip
    await ClockCycles(dut.clk, 200)
    assert not bench.done, "completed before the packet left"
    bench.hold_net = False
    done = await bench.finished(4)
    for number, cpl in enumerate(done):
        check_done(cpl, queue, number + 1,
                   STATUS.LOCAL_ERROR_UNSUPPORTED_OP if number == 2 else OK)  # fmt: skip
    assert [p[0].dst_node for p in bench.packets] == [PEER, 0xFFFF, PEER]
    assert all(p[0].psn == p[0].session == 0 for p in bench.packets)


@cocotb.test()
async def acknowledgements_complete_their_send_only(dut):
    """tx_engine.ack: An acknowledgement completes its own send only, once."""
    bench = Bench(dut, stalls=0.2, auto_ack=False)
    dut = bench.dut
    await bench.start()
    queue = await bench.qp(7)
    bench.post(queue, *[entry(inline=bytes(9), req_id=n) for n in range(20)])
    await until(dut, lambda: len(bench.packets) == CWND, "packets")
    await ClockCycles(dut.clk, 50)
    assert not bench.done
    headers = [header for header, _ in bench.packets]
    assert len(headers) == CWND, "more than the congestion window"
    for fields in ({"src_node": PEER + 1}, {"session": headers[3].session - 1},
                   {"session": headers[3].session + 1}, {"psn": CWND + 1},
                   {"bitmap_psn": WINDOW}):  # fmt: skip
        bench.ack(headers[3], **fields)
        # Another one of the peer would replace one that waits.
        await ClockCycles(dut.clk, 60)
    assert not bench.done, "completed by a foreign acknowledgement"
    reported = [(one.what, one.node) for one in bench.events["anomaly_ack"]]
    assert reported == [(ANOMALY.SESSION, PEER), (ANOMALY.PSN, PEER), (ANOMALY.PSN, PEER)]
    assert bench.ack_drops == len(reported)
    bench.rng.shuffle(headers)
    for header in headers:
        status = STATUS.REMOTE_ERROR_RNR if header.psn == 5 else OK
        bench.ack(header, status)
        bench.ack(header)
        check_done((await bench.finished(1))[0], queue, header.psn, status)
    await until(dut, lambda: len(bench.packets) == 20, "the others")
    for header, _ in bench.packets[CWND:]:
        assert header.incarnation == INCARNATION
        bench.ack(header)
        bench.ack(header)
    assert sorted(c.req_id for c in await bench.finished(4)) == list(range(CWND, 20))
    await ClockCycles(dut.clk, 100)
    assert not bench.done, "completed twice"
    assert bench.completed == 19


@cocotb.test()
async def doorbells_are_checked(dut):
    """queue.doorbell.rules: Doorbells are validated: owner, state and depth."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    queue = await bench.qp(8, log=2, state=STATE.INIT)
    other = await bench.qp(9, log=2)
    await pulse(dut, "cqc_valid", cqc_cqn=70, cqc_data=INTERNAL.cqc.pack(live=1, uar=UAR))
    page = UAR * LIMITS.db_page_bytes

    async def outcome(offset, value):
        bench.doorbell(offset, value)
        await bench.stored()
        return bench.events["db"][-1].status

    sq = page + 8 * 8
    assert await outcome(sq + LIMITS.db_page_bytes, 1) == 1
    assert await outcome(page + 8 * 60, 1) == 1
    assert await outcome(page + 8 * 100, 1) == 1
    assert await outcome(sq, 0xFFFF_0000) == 0
    bench.post(queue, *[entry(inline=b"x", req_id=n) for n in range(4)])
    await bench.stored()
    assert not bench.packets and not bench.errors
    assert await bench.op(queue, ASK) == 0 and await bench.op(other, ASK) == 0
    assert await outcome(sq + 4, 77) == 0 and bench.rqdb == [(8, 77)]
    cq = page + LIMITS.db_cq_base
    assert await outcome(cq + 4 * 70, 0x80000003) == 0 and bench.cqdb == [(70, 0x80000003)]
    assert await outcome(cq + 4 * 71, 0) == 1
    assert await outcome(cq + 4 * 70 + LIMITS.db_page_bytes, 0) == 1
    assert await outcome(cq + 4 * 1000, 0) == 1
    bench.set_state(queue, STATE.RTS)
    await bench.finished(4)
    bench.set_state(queue, STATE.RESET)
    await bench.stored()
    assert await outcome(sq, 5) == 3 and await outcome(sq + 4, 5) == 3
    bench.set_state(queue, STATE.RTS)
    for value in (9, 3, 0x8004):
        assert await outcome(sq, value) == 2
        await until(dut, lambda: bench.errors, "error")
        assert bench.errors.pop() == (8, 1)
        await ClockCycles(dut.clk, 400)
        await bench.clear(queue)
        bench.set_state(queue, STATE.RTS)
        bench.post(queue, *[entry(inline=b"y", req_id=n) for n in range(4)])
        await bench.finished(4)
        assert [c.status for c in bench.events["db"]][-1] == 0
    assert not bench.errors


@cocotb.test()
async def doorbells_back_to_back(dut):
    """queue.doorbell.back_to_back: Back-to-back doorbells of two queues take effect, and an overrun
    among them is found."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    queues = [await bench.qp(n, log=5) for n in (10, 11)]
    for number in range(24):
        for queue in queues:
            bench.put(queue, entry(inline=bytes([number]), req_id=number))
            queue.produced += 1
    # Back-to-back producer indices in steps of one, two queues interleaved at random.
    posted = {10: 0, 11: 0}
    while min(posted.values()) < 24:
        queue = bench.rng.choice([q for q in queues if posted[q.qpn] < 24])
        posted[queue.qpn] += 1
        bench.ring(queue, posted[queue.qpn], upper=bench.rng.getrandbits(16))
    done = await bench.finished(48)
    assert all(c.status == OK for c in done) and not bench.errors
    # An overrun by one is found in the same sequence.
    base = queues[0].produced
    bench.post(queues[0], *[entry(inline=b"z", req_id=n) for n in range(32)], ring=False)
    bench.auto_ack = False
    for value in range(base + 1, base + 34):
        bench.ring(queues[0], value)
    await bench.stored()
    assert [e.status for e in bench.events["db"]][-33:] == [0] * 32 + [2]
    await until(dut, lambda: bench.errors == [(10, 1)], "error")
    done = await bench.finished(32)
    assert [c.req_id for c in done] == list(range(32))
    assert all(c.status == FLUSHED for c in done)


@cocotb.test()
async def incomplete_entries_and_early_stores_break_the_queue(dut):
    """queue.llq.rules: An incomplete WQE or an early store moves its queue to ERR and flushes
    it."""
    bench = Bench(dut, auto_ack=False)
    dut = bench.dut
    await bench.start()
    for number, wide in ((13, False), (14, True)):
        queue = await bench.qp(number, log=3, wide=wide)
        other = await bench.qp(number + 10)
        for wrap in range(5):
            bench.auto_ack = True
            for _ in range(8 * wrap):
                bench.post(queue, entry(wide, inline=b"lap", req_id=5))
                await bench.finished(1)
            bench.auto_ack = False
            # The dword with the length, any other dword, and the dwords of the request id, which
            # count as 0.
            hole = (1, bench.rng.randrange(2, 32 if wide else 16), 0, 6, 7)[wrap]
            bench.post(queue, entry(wide, inline=b"good", req_id=1), ring=False)
            bench.put(queue, entry(wide, inline=b"torn", req_id=2), skip=1 << hole)
            queue.produced += 1
            bench.post(queue, entry(wide, inline=b"after", req_id=3))
            bench.post(other, entry(inline=b"other", req_id=9))
            done = await bench.finished(3)
            expected = ((2, INTERNAL_ERROR, 1 << hole), (1, FLUSHED, 0), (3, FLUSHED, 0))
            for cpl, wanted in zip(done, expected, strict=True):
                check_done(cpl, queue, *wanted)
            assert bench.errors == [(number, 3)]
            bench.errors.clear()
            mine = other.fields["qp_num"]
            await until(dut, lambda: bench.packets[-1][0].src_qpn == mine, "packet")  # noqa: B023
            for header, _ in bench.packets[-2:]:
                bench.ack(header)
            check_done((await bench.finished(1))[0], other, 9)
            await bench.clear(queue)
            bench.set_state(queue, STATE.RTS)
    queue = await bench.qp(15, log=3, state=STATE.RTR)
    bench.post(queue, *[entry(inline=b"q", req_id=n) for n in range(8)])
    bench.store(queue.page * 64 + 5, 0, 0, part=1)
    await bench.stored()
    assert not bench.errors and bench.events["llq"][-1].status == 3
    bench.store(queue.page * 64 + 5, 0x4000, 0)
    await until(dut, lambda: bench.errors == [(15, 4)], "error")
    assert bench.events["llq"][-1].status == 2
    done = await bench.finished(8)
    assert [(c.req_id, c.status) for c in done] == [(n, FLUSHED) for n in range(8)]
    for line in (queue.page * 64 + 8, 0x7FFF):
        bench.store(line, 0xFFFF, 0)
        await bench.stored()
        assert bench.events["llq"][-1].status == 1
    await bench.op(queue, FREE)
    bench.store(queue.page * 64, 0xFFFF, 0)
    await bench.stored()
    assert bench.events["llq"][-1].status == 1


@cocotb.test()
async def a_flushed_entry_never_shows_what_its_slot_held(dut):
    """queue.llq.stale: A flushed WQE never shows old content of its slot: unwritten dwords count as
    0 in every wrap."""
    bench = Bench(dut)
    await bench.start()
    flood = await bench.qp(2, log=6, state=STATE.RTR)
    for number, wide in ((13, False), (14, True)):
        before = await bench.qp(number, log=2, wide=wide)
        for _ in range(2):
            bench.post(before, *[entry(wide, inline=b"mine", req_id=0x5EC0 + n) for n in range(4)])
            await bench.finished(4)
        await bench.op(before, FREE)
        queue = await bench.qp(number, log=2, wide=wide)
        status = INTERNAL_ERROR
        for wrap in range(5):
            holes = []
            for slot in range(4):
                skip = 0xFFFFFFFF
                if wrap:
                    skip = bench.rng.choice((skip, 0xFFFFFFFE, 0x1, 0x40, 0x80))
                bench.put(queue, entry(wide, inline=b"this", req_id=7), slot=slot, skip=skip)
                holes.append(skip)
            queue.produced += 4
            bench.ring(queue)
            for line in range(64):
                bench.store(flood.page * 64 + line, 0xFFFF, 0)
            for missing, cpl in zip(holes, await bench.finished(4), strict=True):
                check_done(cpl, queue, 7, status, missing)
                status = FLUSHED
            await bench.stored()
        assert bench.errors.pop() == (number, 3)


@cocotb.test()
async def failed_payload_read_breaks_the_queue(dut):
    """tx_engine.read_error: A failed payload read moves its queue to ERR and flushes it."""
    bench = Bench(dut, stalls=0.2, auto_ack=False)
    dut = bench.dut
    await bench.start()
    bench.failing.add(0x4_0000_2000)
    good = [(0x4_0000_0000, 100, PHYS_KEY)]
    bad = [(0x4_0000_1F00, 1000, PHYS_KEY), (0x4_0000_0000, 30, PHYS_KEY)]
    for number, srd in ((16, 1), (17, 0)):
        queue = await bench.qp(number, srd=srd)
        bench.packets.clear()
        bench.post(queue, *[entry(buffers=bad if n == 2 else good, req_id=n) for n in range(6)])
        done = await bench.finished(6)
        await until(dut, lambda: bench.errors, "report")
        assert bench.errors.pop() == (number, 5) and not bench.errors
        got = [(c.req_id, c.status) for c in done]
        assert (2, INTERNAL_ERROR) in got
        flushed = [req_id for req_id, status in got if status == FLUSHED]
        assert flushed == ([0, 1, 3, 4, 5] if srd else [3, 4, 5])
        assert len(bench.packets) == 2
        bench.post(queue, entry(req_id=9))
        check_done((await bench.finished(1))[0], queue, 9, FLUSHED)
        await bench.clear(queue)
        bench.set_state(queue, STATE.RTS)
        bench.post(queue, entry(buffers=good, req_id=10))
        await until(dut, lambda: len(bench.packets) == 3, "a packet after RESET")
        bench.ack(bench.packets[2][0])
        check_done((await bench.finished(1))[0], queue, 10)


@cocotb.test()
async def err_flushes_in_posting_order(dut):
    """tx_engine.flush: A queue in ERR flushes its WQEs in posting order; other queues continue."""
    bench = Bench(dut, stalls=0.3, auto_ack=False)
    dut = bench.dut
    await bench.start()
    queue = await bench.qp(17, log=6)
    calm = await bench.qp(18)
    bench.hold_net = True
    bench.post(queue, *[entry(inline=bytes(20), req_id=n) for n in range(40)])
    bench.post(calm, entry(inline=b"calm", req_id=1))
    await bench.stored()
    bench.hold_net = False
    await until(dut, lambda: len(bench.packets) == 10, "some packets")
    bench.set_state(queue, STATE.ERR)
    bench.post(queue, *[entry(inline=b"", req_id=n) for n in range(40, 60)])
    done = await bench.finished(60)
    assert [(c.req_id, c.status) for c in done] == [(n, FLUSHED) for n in range(60)]
    for header, _ in bench.packets:
        bench.ack(header)
    check_done((await bench.finished(1))[0], calm, 1)
    await ClockCycles(dut.clk, 100)
    assert not bench.done and not bench.errors


@cocotb.test()
async def sqd_holds_and_rts_goes_on(dut):
    """tx_engine.states: SQD holds posted WQEs, RTS resumes them."""
    bench = Bench(dut, auto_ack=False)
    dut = bench.dut
    await bench.start()
    queue = await bench.qp(19, state=STATE.RTR)
    bench.post(queue, entry(inline=b"a", req_id=1))
    await bench.stored()
    assert not bench.packets
    bench.set_state(queue, STATE.RTS)
    await until(dut, lambda: bench.packets, "packet")
    bench.set_state(queue, STATE.SQD)
    bench.post(queue, entry(inline=b"b", req_id=2))
    await bench.stored()
    assert len(bench.packets) == 1
    assert await bench.op(queue, ASK) == 1, "busy while an acknowledgement is outstanding"
    bench.ack(bench.packets[0][0])
    check_done((await bench.finished(1))[0], queue, 1)
    await ClockCycles(dut.clk, 10)
    assert await bench.op(queue, ASK) == 0, "held WQEs do not count as busy"
    bench.auto_ack = True
    bench.set_state(queue, STATE.RTS)
    check_done((await bench.finished(1))[0], queue, 2)


@cocotb.test()
async def reset_clears_and_drain_waits(dut):
    """tx_engine.reset_qp: A reset of a QP discards its sends, and a drain waits for its reads."""
    bench = Bench(dut, stalls=0.2, auto_ack=False)
    dut = bench.dut
    await bench.start()
    queue = await bench.qp(20, log=4)
    good = [(0x4_0000_0000, 4096, PHYS_KEY)]
    bench.hold_reads = True
    bench.post(queue, *[entry(buffers=good, req_id=n) for n in range(4)])
    await bench.stored()
    bench.set_state(queue, STATE.RESET)
    drained = cocotb.start_soon(bench.drain())
    await ClockCycles(dut.clk, 300)
    assert not drained.done(), "drained with reads outstanding"
    bench.hold_reads = False
    await drained
    assert not bench.reads
    for header, _ in bench.packets:
        bench.ack(header)
    await ClockCycles(dut.clk, 100)
    assert not bench.done, "completion of a QP in RESET"
    await bench.op(queue, 1)
    queue.produced = 0
    bench.set_state(queue, STATE.RTS)
    before = len(bench.packets)
    bench.auto_ack = True
    bench.post(queue, *[entry(inline=bytes(3), req_id=n) for n in range(16)])
    done = await bench.finished(16)
    assert sorted(c.req_id for c in done) == list(range(16))
    assert len(bench.packets) == before + 16
    # The QP is destroyed and recreated with another page; the old page has no owner.
    bench.contexts[20] = 0
    await bench.drain()
    await bench.op(queue, FREE)
    again = await bench.qp(20, page=300, log=4)
    bench.post(again, entry(inline=b"new", req_id=77))
    check_done((await bench.finished(1))[0], again, 77)


@cocotb.test()
async def a_destroyed_handle_flushes_its_sends(dut):
    """tx_engine.ah_destroyed: Destroying an address handle flushes the outstanding sends through
    it."""
    bench = Bench(dut, auto_ack=False)
    dut = bench.dut
    await bench.start()
    queue = await bench.qp(21)
    await bench.handle(50, PEER + 1)
    bench.post(queue, *[entry(inline=b"h", req_id=n, ah=50 if n & 1 else AH) for n in range(10)])
    await until(dut, lambda: len(bench.packets) == 10, "packets")
    await bench.handle(50, PEER + 1, live=0)
    await bench.handle(50, PEER + 1)
    bench.post(queue, entry(inline=b"new", req_id=20, ah=50))
    done = await bench.finished(5)
    assert [(c.req_id, c.status) for c in done] == [(n, FLUSHED) for n in range(1, 10, 2)]
    await ClockCycles(dut.clk, 1500)
    for header, _ in bench.packets:
        bench.ack(header)
    done = await bench.finished(6)
    assert [(c.req_id, c.status) for c in done] == [(n, OK) for n in (0, 2, 4, 6, 8, 20)]
    assert not bench.errors


@cocotb.test()
async def contexts_run_out_for_srd_only(dut):
    """tx_engine.contexts: SRD stops when each queue has its share of the contexts; UD continues.
    Canceled sends free their contexts, although their peer acknowledges nothing."""
    bench = Bench(dut, auto_ack=False)
    dut = bench.dut
    await bench.start()
    queues = [await bench.qp(n, log=6) for n in range(30, 47)]
    for turn in range(3):
        for queue in queues if turn else ():
            await bench.clear(queue)
            bench.set_state(queue, STATE.RTS)
        bench.events["wqe"].clear()
        bench.packets.clear()
        await bench.handle(50 + turn, PEER + turn)
        for queue in queues:
            bench.post(queue, *[entry(inline=b"c", req_id=n, ah=50 + turn) for n in range(64)])
        await until(dut, lambda: len(bench.packets) == CWND, "packets")
        await ClockCycles(dut.clk, 6000)
        opened = len(bench.events["wqe"])
        used = Counter(event.qpn for event in bench.events["wqe"])
        assert dut.m_sends_open.value == opened and len(bench.packets) == CWND
        shared = (1 << LIMITS.msg_w) - opened
        for queue in queues:
            own = used[queue.qpn]
            assert own == 64 or own >> TRANSPORT.send_share_w >= shared
    ud = await bench.qp(47, srd=0)
    bench.post(ud, entry(inline=b"ud", req_id=5))
    check_done((await bench.finished(1))[0], ud, 5)
    bench.packets.pop()
    bench.auto_ack = True
    for header, _ in bench.packets:
        bench.ack(header)
    done = await bench.finished(64 * 17, 40000)
    assert all(c.status == OK for c in done)


@cocotb.test()
async def acknowledgements_take_turns_with_data(dut):
    """tx_engine.acks_out: Acknowledgements and data packets alternate."""
    bench = Bench(dut, stalls=0.2)
    dut = bench.dut
    await bench.start()
    queue = await bench.qp(22)
    acks = [SrdAck(opcode=PktOpcode.SRD_ACK, length=32, psn=n, dst_node=n,
                   bitmap=bench.rng.randbytes(32)).pack() for n in range(60)]  # fmt: skip
    good = [(0x4_0000_0000, 600, PHYS_KEY)]
    bench.hold_net = True
    bench.post(queue, *[entry(buffers=good, req_id=n) for n in range(40)])

    async def acknowledge():
        for ack in acks:
            image = int.from_bytes(ack, "little")
            await hold(dut, "s_ack_tx_valid", "s_ack_tx_ready", s_ack_tx_data=image)

    cocotb.start_soon(acknowledge())
    await ClockCycles(dut.clk, 600)
    bench.hold_net = False
    # All packets of the first congestion window are ready.
    await until(dut, lambda: len(bench.packets) == CWND, "packets")
    assert abs(len(bench.ack_packets) - CWND) <= 1
    await bench.finished(40)
    await until(dut, lambda: len(bench.ack_packets) == 60, "acknowledgements")
    assert bench.ack_packets == acks
    assert len(bench.events["ackout"]) == 60
    assert bench.sent == 40 and bench.sent_bytes == 40 * 600


@cocotb.test()
async def quiesce_ends_between_packets(dut):
    """tx_engine.quiesce: After `quiesce` the current packet ends and no other packet follows."""
    bench = Bench(dut, stalls=0.3)
    dut = bench.dut
    await bench.start()
    queue = await bench.qp(26)
    good = [(0x4_0000_0000, 1000, PHYS_KEY)]
    bench.post(queue, *[entry(buffers=good, req_id=n) for n in range(10)])
    await until(dut, lambda: len(bench.packets) == 2 and bench._flits, "a packet in progress")
    dut.s_quiesce.value = 1
    await until(dut, lambda: dut.m_net_quiet.value == 1, "quiet")
    assert not bench._flits
    left = len(bench.packets)
    await ClockCycles(dut.clk, 200)
    assert len(bench.packets) == left and dut.m_net_quiet.value == 1


@cocotb.test()
async def reset_in_mid_traffic(dut):
    """tx_engine.reset: A core reset during traffic discards all sends and begins a new
    incarnation and a new session."""
    bench = Bench(dut, stalls=0.3)
    dut = bench.dut
    await bench.start()
    for wrap in range(3):
        queues = [await bench.qp(n, log=5) for n in (27, 28)]
        good = [(0x4_0000_0000, 3000, PHYS_KEY)]
        for queue in queues:
            bench.post(queue, *[entry(buffers=good, req_id=n) for n in range(20)])
        await until(dut, lambda: len(bench.done) > 5, "some completions")
        if wrap == 2:
            await bench.finished(40)
        # The device gives its incarnations and its sessions the numbers from 1 on.
        assert int(dut.m_incarnation.value) == 2 * wrap + 1
        numbers = [(header.session, header.psn) for header, _ in bench.packets]
        assert numbers == [(2 * wrap + 2, psn) for psn in range(len(numbers))]
        for name in ("s_rd_cpl_tx_valid", "s_ack_rx_valid", "s_db_valid", "s_llq_valid"):
            getattr(dut, name).value = 0
        dut.rst.value = 1
        bench.stores.clear()
        bench.reads.clear()
        bench.acks.clear()
        bench.contexts.clear()
        await ClockCycles(dut.clk, 8)
        bench.done.clear()
        bench.packets.clear()
        await bench.init()
