# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rx_engine: packets of all sizes into receive WQEs of all forms, and every refusal."""

import cocotb
from cocotb.triggers import ClockCycles

from efa_cosim.layouts.defs import LIMITS, AdminQpState, IoCompStatus, PktOpcode, SrdAck
from tb.unit.rx_engine_bench import FREE, IOVA, NODE, PATHS, PEER, RING, WINDOW, Bench

STATUS = IoCompStatus
NO_PATH = next(path for path in range(8) if not PATHS >> path & 1)


async def random_messages(dut, stalls, count=60):
    bench = Bench(dut, stalls)
    await bench.start()
    rng = bench.rng
    kinds = {2: 1, 5: 0, 63: 1}
    for qpn, srd in kinds.items():
        await bench.qp(qpn, srd, log=rng.choice((2, 4)))
    wanted = {qpn: [] for qpn in kinds}
    for number in range(count):
        qpn = rng.choice(list(kinds))
        srd = kinds[qpn]
        size = rng.choice((0, 1, 31, 32, 33, 64, 100, 500, 1500, 4096))
        total = size + (0 if srd else 40)
        slack = rng.choice((0, 0, 70))
        first = rng.randrange(0, total + 1)
        two = rng.random() < 0.5
        addr = IOVA + 12000 * number + rng.randrange(100)
        if two:
            bench.put(qpn, addr, first, number, 0)
            bench.put(qpn, addr + 6000, total - first + slack, 0, 1)
            spread = [(addr, first), (addr + 6000, total - first)]
        else:
            bench.put(qpn, addr, total + slack, number, 1)
            spread = [(addr, total)]
        await bench.ring(qpn)
        payload = rng.randbytes(size)
        opcode = PktOpcode.SRD_SEND if srd else PktOpcode.UD_SEND
        bench.send(qpn, payload, opcode, has_imm=number % 2, imm=number)
        grh = bytes(8) + LIMITS.gid_prefix + bytes([0, PEER]) + LIMITS.gid_prefix + bytes([0, NODE])
        wanted[qpn].append((number, spread, payload if srd else grh + payload))
        got = await bench.completion()
        number, spread, content = wanted[got.qpn].pop(0)
        assert (got.req_id, got.status) == (number, STATUS.OK), got
        assert (got.length, got.ah, got.src_qpn) == (len(content), 33, 0x99)
        data = b"".join(bench.read(addr, size) for addr, size in spread)
        assert data == content, f"message {number}: payload differs"
        if kinds[got.qpn]:
            assert await bench.ack() == STATUS.OK
    assert not bench.errors


@cocotb.test()
async def messages_arrive_byte_for_byte(dut):
    """rx_engine.unit.smooth: Messages arrive unchanged with an ideal host."""
    await random_messages(dut, 0.0)


@cocotb.test()
async def messages_arrive_on_a_slow_host(dut):
    """rx_engine.unit.stalls: Messages arrive unchanged with a slow host."""
    await random_messages(dut, 0.6)


@cocotb.test()
async def acknowledgement_follows_the_entry(dut):
    """rx_engine.unit.order: The acknowledgement follows the CQE, the CQE the completion, the
    completion the payload writes."""
    bench = Bench(dut)
    await bench.start()
    await bench.qp(1)
    for number in range(8):
        bench.put(1, IOVA + 4096 * number, 300, number, 1)
    await bench.ring(1)
    for _ in range(8):
        bench.send(1, bytes(200))
    assert [await bench.ack() for _ in range(8)] == [STATUS.OK] * 8
    seen = {"write": 0, "cpl": 0, "entry": 0, "ack": 0}
    for what in bench.order:
        seen[what] += 1
        assert seen["ack"] <= seen["entry"] <= seen["cpl"] <= seen["write"]


@cocotb.test()
async def completions_wait_behind_their_data(dut):
    """rx_engine.unit.behind: Payload of many messages is written while completions stall; each
    completion then follows its payload."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    await bench.qp(1, log=6)
    messages, stopped = 60, True
    bench.rxc._pause = lambda: stopped
    for number in range(messages):
        bench.put(1, IOVA + 4096 * number, 100, number, 1)
    await bench.ring(1)
    for number in range(messages):
        bench.send(1, bytes([number]) * 100)
    await ClockCycles(dut.clk, 3000)
    assert bench.rxc.consumed == 0
    stopped = False
    for number in range(messages):
        got = await bench.completion()
        assert (got.req_id, got.status) == (number, STATUS.OK)
        assert bench.read(IOVA + 4096 * number, 100) == bytes([number]) * 100
    assert [await bench.ack() for _ in range(messages)] == [STATUS.OK] * messages


@cocotb.test()
async def refusals_name_their_reason(dut):
    """rx_engine.unit.refusals: Each refused packet gets the status of its reason."""
    bench = Bench(dut)
    await bench.start()
    await bench.qp(1)
    await bench.qp(2, srd=0)
    await bench.qp(3, state=AdminQpState.INIT)

    async def refused(status, qpn=1, payload=bytes(20), **changes):
        bench.send(qpn, payload, **changes)
        assert await bench.ack() == status
        assert not bench.rxc.beats

    bad_qpn = STATUS.REMOTE_ERROR_BAD_DEST_QPN
    await refused(bad_qpn, dst_qpn=0x7FF)
    await refused(bad_qpn, dst_qpn=0x441 + 64)
    await refused(bad_qpn, qpn=2)
    await refused(bad_qpn, qpn=3)
    await refused(bad_qpn, qkey=1)
    await refused(STATUS.REMOTE_ERROR_RNR)
    bench.put(1, IOVA, 10, 1, 0)
    await bench.ring(1)
    await refused(STATUS.REMOTE_ERROR_RNR)
    bench.put(1, IOVA + 100, 9, 1, 1)
    await bench.ring(1)
    await refused(STATUS.REMOTE_ERROR_BAD_LENGTH)
    bench.send(1, bytes(19))
    assert (await bench.completion()).req_id == 1
    assert await bench.ack() == 0
    bench.put(1, IOVA, 100, 2, 1, key=bench.key + 1)
    await bench.ring(1)
    bench.send(1, bytes(19))
    assert (await bench.completion()).status == STATUS.LOCAL_ERROR_INVALID_LKEY
    assert await bench.ack() == STATUS.REMOTE_ERROR_BAD_STATUS
    for number in (7, 8):
        bench.put(1, IOVA, 100, number, 0)
    bench.put(1, IOVA, 100, 9, 1)
    await bench.ring(1)
    bench.send(1, bytes(19))
    got = await bench.completion()
    assert (got.status, got.req_id) == (STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR, 7)
    assert await bench.ack() == STATUS.REMOTE_ERROR_BAD_STATUS
    got = await bench.completion()
    assert (got.status, got.req_id) == (STATUS.FLUSHED, 9)
    assert bench.errors == [(1, 7)]


@cocotb.test()
async def doorbell_beyond_the_ring_breaks_the_queue(dut):
    """rx_engine.unit.overrun: A doorbell beyond the ring moves the queue to ERR and flushes it."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    await bench.qp(4, log=2)
    for number in range(4):
        bench.put(4, IOVA, 10, number, 1)
    await bench.ring(4)
    await bench.ring(4)
    await ClockCycles(dut.clk, 20)
    assert bench.errors == []
    await bench.ring(4, 5)
    flushed = [await bench.completion() for _ in range(4)]
    assert [one.req_id for one in flushed] == [0, 1, 2, 3]
    assert {one.status for one in flushed} == {STATUS.FLUSHED}
    assert bench.errors == [(4, 2)]


@cocotb.test()
async def failed_descriptor_read_breaks_the_queue(dut):
    """rx_engine.unit.read_error: A failed descriptor read moves the queue to ERR."""
    bench = Bench(dut)
    await bench.start()
    await bench.qp(6)
    bench.failing.add(RING + 0x10000 * 6)
    bench.put(6, IOVA, 10, 1, 1)
    await bench.ring(6)
    bench.send(6, bytes(5))
    assert await bench.ack() == STATUS.REMOTE_ERROR_BAD_DEST_QPN
    assert bench.errors == [(6, 6)]


@cocotb.test()
async def malformed_packets_vanish(dut):
    """rx_engine.unit.malformed: Malformed packets are dropped and counted, and their PSN is that of
    the next valid packet; acknowledgements pass unchanged."""
    bench = Bench(dut)
    dut = bench.dut
    await bench.start()
    await bench.qp(1)
    bench.put(1, IOVA, 4096, 1, 1)
    await bench.ring(1)
    drops = bench.count("m_st_drop_valid")
    ack = SrdAck(opcode=PktOpcode.SRD_ACK, length=32, session=1, incarnation=1, src_node=PEER,
                 dst_node=NODE, bitmap=bench.rng.randbytes(32)).pack()  # fmt: skip
    malformed = [
        (10, {"opcode": 0x77}), (10, {"dst_node": NODE + 1}), (200, {"length": 300}),
        (300, {"length": 200}), (10, {"length": 9}), (9000, {}), (10, {"src_node": 64}),
        (10, {"path": NO_PATH}), (10, {"session": 0}), (10, {"status": 9}),
        (10, {"behind": WINDOW}),
    ]  # fmt: skip
    for size, changes in malformed:
        bench.send(1, bytes(size), **changes)
        bench.flits(ack)
        bench.psn = 0
    bench.send(1, bytes(7))
    assert (await bench.completion()).length == 7
    assert await bench.ack() == STATUS.OK
    await ClockCycles(dut.clk, 10)
    assert len(drops) == len(malformed)
    acks = [beat["data"].to_bytes(64, "little") for beat in bench.ack_rx.beats]
    assert acks == [ack] * len(malformed)


@cocotb.test()
async def drain_waits_for_packets_and_fetches(dut):
    """rx_engine.unit.drain: A drain waits for packets and descriptor reads in flight."""
    bench = Bench(dut, 0.9)
    dut = bench.dut
    await bench.start()
    await bench.qp(1)
    for number in range(8):
        bench.put(1, IOVA + 4096 * number, 2000, number, 1)
    await bench.ring(1)
    for _ in range(8):
        bench.send(1, bytes(2000))
    await bench.net.idle()
    await ClockCycles(dut.clk, 4)
    await bench.hold("s_drain_valid", "s_drain_ready")
    assert bench.rxc.consumed == 8, "drained with packets in flight"
    await bench.hold("s_queue_op_valid", "s_queue_op_ready", s_queue_op_kind=FREE, s_queue_op_qpn=1,
                     s_queue_op_qpc=bench.contexts[1])  # fmt: skip


@cocotb.test()
async def drain_waits_for_a_flush_that_has_begun(dut):
    """rx_engine.unit.drain_flush: No completion follows the drain, in whatever cycle of a flush the
    queue is reset."""
    held = {"on": False}
    bench = Bench(dut, lambda: held["on"])
    dut = bench.dut
    await bench.start()
    flushed = 0
    for cycles in range(20):
        await bench.qp(1)
        bench.put(1, IOVA, 64, cycles, 1)
        await bench.ring(1)
        await bench.rest(40)
        held["on"] = True
        before = bench.rxc.consumed
        change = cocotb.start_soon(bench.set_state(1, AdminQpState.ERR))
        await ClockCycles(dut.clk, cycles)
        await change
        bench.contexts_only(1, AdminQpState.RESET)
        drain = cocotb.start_soon(bench.drain())
        await ClockCycles(dut.clk, 60)
        held["on"] = False
        await drain
        left = bench.rxc.consumed
        await bench.rest(40)
        assert bench.rxc.consumed == left, f"a completion after the drain, {cycles}"
        flushed += left - before
        await bench.queue_op(1, FREE)
    assert 0 < flushed < 20


@cocotb.test()
async def reset_in_the_middle_of_a_packet(dut):
    """rx_engine.unit.reset: A core reset within a packet discards its remaining flits without a
    malformed-packet count; then packets for another incarnation get a reply and no WQE."""
    bench = Bench(dut, 0.3)
    dut = bench.dut
    drops = bench.count("m_st_drop_valid")
    await bench.start()
    for turn in range(4):
        await bench.qp(1)
        for number in range(4):
            bench.put(1, IOVA, 4096, number, 1)
        await bench.ring(1)
        for _ in range(turn):
            bench.send(1, bytes(3000))
        await bench.net.idle()
        bench.send(1, bytes(3000))
        await ClockCycles(dut.clk, 20)
        await bench.core_reset()
        await bench.net.idle()
        await bench.qp(1)
        bench.put(1, IOVA, 4096, 2, 1)
        await bench.ring(1)
        for known, status in ((0, STATUS.OK), (bench.incarnation - 1, STATUS.REMOTE_ERROR_ABORT)):
            bench.ack_tx.beats.clear()
            bench.send(1, b"early", incarnation=known)
            reply = (await bench.ack_tx.take(1))[0]["data"]
            assert SrdAck.unpack(reply.to_bytes(64, "little")).status == status
            assert not bench.accepted
            bench.begin()
        bench.send(1, b"after")
        assert (await bench.completion()).length == 5
        assert bench.read(IOVA, 5) == b"after"
        assert await bench.ack() == STATUS.OK
        assert not drops, "the rest of a packet was counted as malformed"
        await bench.core_reset()
