# SPDX-License-Identifier: Apache-2.0
"""Tests efa_acq_write: golden ACQE image, wraps and phases, checksums, arbitration of responses."""

from pathlib import Path

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.codec import crc16
from efa_cosim.yaml_file import contents
from tb.lib.stream import StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, span

BASE = 0x12_3456_7000
SOURCES = 7
BODY = 448
GOLDEN = contents(Path(__file__).parents[2] / "model/tests/golden/images.yaml")


def find(tree, key):
    if isinstance(tree, dict):
        if key in tree:
            return tree[key]
        tree = list(tree.values())
    for item in tree if isinstance(tree, list) else []:
        found = find(item, key)
        if found is not None:
            return found
    return None


class Bench:
    """Drives responses into efa_acq_write and monitors ACQE writes and notes."""
    def __init__(self, dut, stalls=0.0):
        self.dut = dut
        self.rng = rng_for("post")
        for name in ("s_rsp_valid", "s_rsp_id", "s_rsp_status", "s_rsp_body", "s_acq_start"):
            getattr(dut, name).value = 0
        dut.s_cfg_acq_on.value = dut.s_cfg_acq_crc.value = 1
        dut.s_cfg_acq_base.value = BASE
        dut.s_cfg_acq_log.value = 2
        self.wr = StreamMonitor(dut, "m_wr", stalls)
        self.note = StreamMonitor(dut, "m_note")

    async def start(self):
        await clock_and_reset(self.dut)
        await self.setup()

    async def setup(self):
        self.dut.s_acq_start.value = 1
        await RisingEdge(self.dut.clk)
        self.dut.s_acq_start.value = 0
        await RisingEdge(self.dut.clk)

    async def send(self, offers, cycles=2000):
        """Offers {source: (id, status, body)} in one cycle; returns the sources in the order of
        acceptance."""
        dut, order = self.dut, []
        ids = statuses = bodies = valid = 0
        for source, (number, status, body) in offers.items():
            ids |= number << 12 * source
            statuses |= status << 8 * source
            bodies |= body << BODY * source
            valid |= 1 << source
        dut.s_rsp_id.value, dut.s_rsp_status.value, dut.s_rsp_body.value = ids, statuses, bodies
        dut.s_rsp_valid.value = valid
        for _ in range(cycles):
            await RisingEdge(dut.clk)
            consumed = int(dut.s_rsp_ready.value) & valid
            if consumed:
                order.append(consumed.bit_length() - 1)
                valid &= ~consumed
                dut.s_rsp_valid.value = valid
            if not valid:
                return order
        raise AssertionError("responses are not accepted within the cycle limit")


def expected(number, status, body, phase):
    head = number.to_bytes(2, "little") + bytes([status, phase, 0, 0, 0, 0])
    image = head + (0 if status else body).to_bytes(56, "little")
    return image[:4] + crc16(image).to_bytes(2, "little") + image[6:]


@cocotb.test(timeout_time=50, timeout_unit="us")
async def a_success_is_the_golden_image(dut):
    """admin.acq_write.golden"""
    bench = Bench(dut)
    await bench.start()
    golden = next(i for i in find(GOLDEN, "crc_images") if i["name"].startswith("acq"))
    await bench.send({2: (0x21, 0, 0)})
    (beat,) = await bench.wr.take()
    assert beat["data"].to_bytes(64, "little").hex() == golden["hex"]
    assert beat["addr"] == BASE
    await bench.note.take()


@cocotb.test(timeout_time=400, timeout_unit="us")
async def random_responses_have_phase_place_and_checksum(dut):
    """admin.acq_write.wrap: random responses have the expected phase, address and checksum over
    several wraps"""
    bench = Bench(dut, stalls=0.4)
    await bench.start()
    for count in range(40):
        number, status = bench.rng.randrange(4096), bench.rng.choice([0, 0, 5])
        body = bench.rng.getrandbits(BODY)
        await bench.send({bench.rng.randrange(SOURCES): (number, status, body)})
        (beat,) = await bench.wr.take()
        image = expected(number, status, body, 1 - count // 4 % 2)
        assert beat["data"].to_bytes(64, "little") == image, count
        assert beat["addr"] == BASE + 64 * (count % 4)


@cocotb.test(timeout_time=400, timeout_unit="us")
async def any_ring_and_any_response(dut):
    """admin.acq_write.rings: every depth with random base, status, body and source writes the
    expected ACQE and reports its event, with and without checksums."""
    bench = Bench(dut, stalls=0.3)
    events = StreamMonitor(dut, "ev_acq")
    await bench.start()
    rng = bench.rng
    for turn in range(22):
        log = turn // 2
        base = rng.getrandbits(64)
        if turn % 3 == 0:
            base |= 0xFFFF_FFC0  # slot offsets carry into the upper half
        drive(dut, s_cfg_acq_base=base, s_cfg_acq_log=log, s_cfg_acq_crc=turn % 2)
        await bench.setup()
        for count in range(rng.randrange(6, 15)):
            number, body = rng.randrange(4096), rng.getrandbits(BODY)
            status = rng.choice((0, 0, 1 << rng.randrange(8), rng.randrange(256)))
            await bench.send({rng.randrange(SOURCES): (number, status, body)})
            (beat,) = await bench.wr.take()
            image = expected(number, status, body, 1 - (count >> log) % 2)
            if turn % 2 == 0:
                image = image[:4] + bytes(2) + image[6:]
            assert beat["data"].to_bytes(64, "little") == image
            place = (base >> 6) + count % (1 << log)
            assert beat["addr"] == place % (1 << 58) << 6
            assert (await events.take())[0]["data"] == status << 12 | number
    assert bench.note.consumed == bench.wr.consumed


@cocotb.test(timeout_time=400, timeout_unit="us")
@cocotb.parametrize(log=[0, 10])
async def every_count_has_its_slot(dut, log):
    """admin.acq_write.deep: address and phase are correct over two passes of the deepest ring, and
    over as many entries of a ring of one entry, with back-to-back responses and stalls."""
    bench = Bench(dut, stalls=0.3)
    await bench.start()
    drive(dut, s_cfg_acq_base=BASE, s_cfg_acq_log=log)
    await bench.setup()
    seen = []
    bench.wr.on_beat = lambda beat: seen.append((beat["addr"], beat["data"] >> 24 & 1))
    dut.s_rsp_valid.value = 1
    due = timing("efa_acq_write", "response")
    await ClockCycles(dut.clk, (2 << 10) * (due.interval + 1) + 200)
    dut.s_rsp_valid.value = 0
    assert len(seen) > 2 << 10
    for count, found in enumerate(seen):
        assert found == (BASE + 64 * (count % (1 << log)), 1 - (count >> log) % 2), count


@cocotb.test(timeout_time=100, timeout_unit="us")
async def every_source_gets_its_turn(dut):
    """admin.acq_write.arbitration: the sources behind the last one are first, and no entry has
    bits of the other responses."""
    bench = Bench(dut)
    await bench.start()
    rng = bench.rng
    for last in range(SOURCES):
        await bench.send({last: (0, 0, 0)})
        await bench.wr.take()
        offers = {source: (rng.randrange(4096), rng.choice((0, rng.randrange(256))),
                           rng.getrandbits(BODY)) for source in range(SOURCES)}  # fmt: skip
        order = await bench.send(offers)
        assert order == [(last + 1 + turn) % SOURCES for turn in range(SOURCES)]
        for source, beat in zip(order, await bench.wr.take(SOURCES), strict=True):
            phase = beat["data"] >> 24 & 1
            assert beat["data"].to_bytes(64, "little") == expected(*offers[source], phase)


@cocotb.test(timeout_time=100, timeout_unit="us")
async def a_disabled_ring_swallows_responses(dut):
    """admin.acq_write.disabled: a disabled ring accepts and drops responses."""
    bench = Bench(dut)
    await bench.start()
    dut.s_cfg_acq_on.value = 0
    await bench.send({0: (1, 0, 1), 6: (2, 3, 0)})
    await bench.wr.none(50)
    dut.s_cfg_acq_on.value = 1
    await bench.setup()
    await bench.send({0: (3, 0, 1)})
    (beat,) = await bench.wr.take()
    assert beat["data"].to_bytes(64, "little") == expected(3, 0, 1, 1)


@cocotb.test(timeout_time=100, timeout_unit="us")
async def a_ring_goes_off_behind_a_response(dut):
    """admin.acq_write.off: a response accepted in the cycle before the ring is disabled is dropped
    and uses no slot."""
    bench = Bench(dut)
    await bench.start()
    await bench.send({3: (1, 0, 1)})
    dut.s_cfg_acq_on.value = 0
    await bench.wr.none(20)
    dut.s_cfg_acq_on.value = 1
    await bench.send({3: (2, 0, 7)})
    (beat,) = await bench.wr.take()
    assert beat["data"].to_bytes(64, "little") == expected(2, 0, 7, 1)
    assert beat["addr"] == BASE


@cocotb.test(timeout_time=100, timeout_unit="us")
@cocotb.parametrize(log=[2, 10])
async def a_ring_changes_while_an_entry_is_made(dut, log):
    """admin.acq_write.disabled: a ring that is set up again or disabled in any cycle of a response
    writes only to a slot of the old or the new ring."""
    bench = Bench(dut)
    await bench.start()
    dut.s_cfg_acq_log.value = log
    new = BASE + 0x1000
    for off in (False, True):
        for wait in range(6):
            dut.s_cfg_acq_base.value, dut.s_cfg_acq_on.value = BASE, 1
            await bench.setup()
            await bench.send({0: (1, 0, 1)})
            await bench.wr.take()
            await bench.send({0: (2, 0, 2)})
            for _ in range(wait):
                await RisingEdge(dut.clk)
            dut.s_cfg_acq_base.value, dut.s_cfg_acq_on.value = new, not off
            if not off:
                await bench.setup()
            await ClockCycles(dut.clk, 20)
            places = [beat["addr"] for beat in bench.wr.beats]
            bench.wr.beats.clear()
            if off:
                assert places in ([], [BASE + 64]), wait
                continue
            assert places in ([BASE + 64], [new]), wait
            await bench.send({0: (3, 0, 3)})
            (beat,) = await bench.wr.take()
            assert beat["addr"] == new + 64 * (places == [new]), wait
            assert beat["data"].to_bytes(64, "little") == expected(3, 0, 3, 1)


@cocotb.test(timeout_time=100, timeout_unit="us")
async def its_cycles(dut):
    """admin.acq_write.time"""
    promised = timing("efa_acq_write", "response")
    bench = Bench(dut)
    await bench.start()
    await RisingEdge(dut.clk)
    dut.s_rsp_valid.value = 1
    first = high(dut.s_rsp_valid[0], dut.s_rsp_ready[0])
    assert await span(dut, first, high(dut.m_wr_valid)) == promised.latency
    assert dut.m_note_valid.value == 1
    await ClockCycles(dut.clk, 20 * promised.interval + 1)
    assert bench.wr.consumed == bench.note.consumed == 21


@cocotb.test(timeout_time=100, timeout_unit="us")
async def a_reset_in_mid_response_clears_it(dut):
    """admin.acq_write.reset"""
    bench = Bench(dut, stalls=lambda: True)
    await bench.start()
    await bench.send({1: (1, 0, 1)})
    await ClockCycles(dut.clk, 10)
    await reset(dut)
    await bench.setup()
    assert dut.m_wr_valid.value == 0
    bench.wr._pause = lambda: False
    await bench.send({1: (9, 0, 5)})
    (beat,) = await bench.wr.take()
    assert beat["data"].to_bytes(64, "little") == expected(9, 0, 5, 1)
    assert beat["addr"] == BASE
