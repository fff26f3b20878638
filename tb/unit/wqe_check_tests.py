# SPDX-License-Identifier: Apache-2.0
"""Tests efa_wqe_check: the first failed check determines the status; a valid WQE passes
completely."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS, INTERNAL, LIMITS, PROFILES, IoCompStatus, IoTxWqe128
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.waits import high, pulse, until, zero
from tb.unit.data_bench import Moments, Regions

STATUS = IoCompStatus
INTERNAL_ERROR = STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR
PACKET, DONE, BARRIER = range(3)
COPIED = ("qpn", "msg", "srd", "qp_num", "scqn", "ssub", "req_id", "req_id_ex", "sent", "send")
MTU = [profile.mtu for profile in PROFILES.values()]
MALFORMED = [{"meta_desc": 0}, {"first": 0}, {"last": 0}, {"comp_req": 0}, {"meta_extension": 1},
             {"reserved25": 1}, {"reserved29": 1}, {"reserved29": 4}]  # fmt: skip


class Bench:
    def __init__(self, dut, stalls=0.0, gaps=0.0, profile=1):
        self.dut, self.rng, self.profile = dut, rng_for("wqe_check"), profile
        self.reliable = int(dut.RELIABLE.value)
        self.regions, self.handles, self.gens = Regions(self.rng), {}, {}
        self.expected, self.events = [], []
        zero(dut, "s_mr_valid", "s_ah_valid", "s_ah_gen")
        dut.s_cfg_profile.value = profile
        self.source = StreamDriver(dut, "s_item", gaps, ["data"])
        self.sink = StreamMonitor(dut, "m", stalls, ["msg", "first", "second", "inline"])
        self.event = StreamMonitor(dut, "ev_check", 0, ["data"])

    async def start(self):
        await clock_and_reset(self.dut)
        await until(self.dut, high(self.dut.m_init_done))
        rng = self.rng
        for index in (1, 77, 255):
            shift = rng.randrange(12, 50)
            self.regions.make(index, index % 5, rng.choice((64, 9000, 1 << shift + 9)),
                              phys=rng.getrandbits(1), shift=shift,
                              mtt=rng.getrandbits(16))  # fmt: skip
        await self.regions.report(self.dut, pages=False)
        for index, pd in ((0, 1), (3, 1), (254, 2), (255, 0)):
            await self.handle(index, live=1, pd=pd, fabric=int(index != 3),
                              node=rng.getrandbits(6))  # fmt: skip

    async def handle(self, index, **fields):
        self.handles[index] = fields
        context = INTERNAL.ahc.pack(**dont_care(INTERNAL.ahc, self.rng, **fields))
        await pulse(self.dut, "s_ah_valid", s_ah_index=index, s_ah_data=context)
        # Only data with valid counts.
        self.dut.s_ah_data.value = context ^ self.rng.getrandbits(len(self.dut.s_ah_data))

    def gen(self, index, gen):
        self.gens[index] = gen
        self.dut.s_ah_gen.value = sum(gen << 4 * index for index, gen in self.gens.items())

    def good(self, wide=0):
        """Returns PD, meta descriptor, buffers and inline bytes of a valid WQE."""
        rng = self.rng
        index = rng.choice((0, 254, 255))
        pd = self.handles[index]["pd"]
        meta = {"meta_desc": 1, "first": 1, "last": 1, "comp_req": 1, "ah": index,
                "dest_qp_num": rng.getrandbits(16), "qkey": rng.getrandbits(32),
                "has_imm": rng.getrandbits(1), "immediate_data": rng.getrandbits(32),
                "phase": rng.getrandbits(1), "length": 0}  # fmt: skip
        buffers, inline = [], b""
        region = next((r for r in self.regions.table.values() if r["pd"] == pd), None)
        if region is None or rng.random() < 0.3:
            inline = rng.randbytes(rng.randrange((LIMITS.inline_128 if wide else 32) + 1))
            meta.update(inline_msg=1, length=len(inline))
        else:
            left = MTU[self.profile]
            for _ in range(rng.randrange(3)):
                size = rng.choice((0, 1, left, rng.randrange(left + 1)))
                size = min(size, region["length"])
                left -= size
                place = rng.randrange(region["length"] - size + 1)
                buffers.append((region["iova"] + place, size, region["key"]))
            meta["length"] = len(buffers)
        return pd, meta, buffers, inline

    def post(self, pd, meta, buffers=(), inline=b"", wide=0, **item):
        """Posts one WQE and records its expected result."""
        rng, wqe = self.rng, IoTxWqe128()
        for name, value in meta.items():
            setattr(wqe.meta, name, value)
        if inline:
            wqe.data.inline_data = inline
        for number, (addr, size, key) in enumerate(buffers):
            sge = wqe.data.sgl[number]
            sge.length, sge.lkey = size, key | rng.getrandbits(8) << 24
            sge.buf_addr_lo, sge.buf_addr_hi = addr & 0xFFFFFFFF, addr >> 32
        # Bytes behind the used payload or buffers are don't-care, as are fields of other modules:
        # request id, hints, reserved bytes.
        data = bytearray(wqe.pack())
        for ignored in (slice(0, 2), slice(14, 16), slice(20, 32)):
            data[ignored] = rng.randbytes(ignored.stop - ignored.start)
        end = 32 + (len(inline) if meta.get("inline_msg") else 16 * len(buffers))
        data[end:112] = rng.randbytes(112 - end)
        image = int.from_bytes(bytes(data)[:112], "little")
        item = {"qpn": rng.getrandbits(12), "msg": rng.getrandbits(16), "srd": rng.getrandbits(1),
                "pd": pd, "qp_num": rng.getrandbits(16), "scqn": rng.getrandbits(12),
                "ssub": rng.getrandbits(1), "wqe128": wide, "req_id": rng.getrandbits(16),
                "req_id_ex": rng.getrandbits(48), "op_type": meta.get("op_type", 0),
                "send": rng.getrandbits(INTERNAL.wqe_in.fields["send"][1]), **item}  # fmt: skip
        # With RELIABLE, an SRD message is a transmission of a context.
        item = {"sent": item["srd"] & self.reliable, **item}
        self.source.post({"data": INTERNAL.wqe_in.pack(entry=image, **item)})
        status = self.check(item, meta, buffers)
        self.expected.append((item, meta, buffers, image >> 256, status))
        return status

    def check(self, item, meta, buffers):
        """Returns the status by the check order of decision 0001. With RELIABLE, an SRD message
        that is no transmission of a context has no way to its node."""
        count, inlined = meta["length"], meta.get("inline_msg", 0)
        handle = self.handles.get(meta["ah"], {"live": 0})
        size = count if inlined else sum(size for _, size, _ in buffers[:count])
        most = (LIMITS.inline_128 if item["wqe128"] else LIMITS.inline_64) if inlined else 2
        if item.get("flush"):
            return STATUS.FLUSHED
        if item.get("incomplete") or any(change.items() <= meta.items() for change in MALFORMED):
            return INTERNAL_ERROR
        if meta.get("op_type", 0) != 0:
            return STATUS.LOCAL_ERROR_UNSUPPORTED_OP
        if count > most:
            return INTERNAL_ERROR
        if not handle["live"] or handle["pd"] != item["pd"]:
            return STATUS.LOCAL_ERROR_INVALID_AH
        if size > MTU[self.profile]:
            return STATUS.LOCAL_ERROR_BAD_LENGTH
        for addr, length, key in () if inlined else buffers[:count]:
            if not self.regions.allows(key, item["pd"], addr, length):
                return STATUS.LOCAL_ERROR_INVALID_LKEY
        if item["srd"] and (not handle["fabric"] or (self.reliable and not item["sent"])):
            return STATUS.LOCAL_ERROR_UNREACH_REMOTE
        return STATUS.OK

    def compare(self, beat, wanted):
        item, meta, buffers, tail, status = wanted
        msg = INTERNAL.tx_msg.unpack(beat["msg"])
        if item.get("barrier"):
            assert (msg.kind, msg.fence) == (BARRIER, item["fence"])
            return
        assert (msg.kind, msg.status) == (DONE if status else PACKET, status), (item, meta)
        for name in COPIED:
            assert getattr(msg, name) == item[name], name
        assert msg.op_type == item["op_type"] & 7
        if status:
            return
        handle = self.handles[meta["ah"]]
        inlined = meta.get("inline_msg", 0)
        used = [] if inlined else buffers[: meta["length"]]
        size = meta["length"] if inlined else sum(length for _, length, _ in used)
        assert msg.dst_qpn == meta["dest_qp_num"] and msg.qkey == meta["qkey"]
        assert msg.node == (handle["node"] if handle["fabric"] else 0xFFFF)
        assert (msg.has_imm, msg.imm) == (
            meta["has_imm"], meta["immediate_data"] * meta["has_imm"])  # fmt: skip
        assert (msg.length, msg.inlined) == (size, int(inlined or size == 0))
        assert (msg.ah, msg.ah_gen) == (meta["ah"], self.gens.get(meta["ah"], 0))
        if inlined:
            assert beat["inline"] == tail
        for number, name in enumerate(("first", "second")):
            sge = INTERNAL.sge.unpack(beat[name])
            addr, length, key = used[number] if number < len(used) else (0, 0, 0)
            assert sge.len == length
            if length:
                assert sge.loc == INTERNAL.mr_loc.pack(**self.regions.loc(key, addr))

    async def settle(self):
        beats = await self.sink.take(len(self.expected))
        for beat, wanted in zip(beats, self.expected, strict=True):
            self.compare(beat, wanted)
        real = [w for w in self.expected if not w[0].get("barrier")]
        for seen, (item, *_, status) in zip(await self.event.take(len(real)), real, strict=True):
            event = EVENTS.check.unpack(seen["data"])
            assert (event.qpn, event.msg, event.status) == (item["qpn"], item["msg"], status)
        self.expected.clear()


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.4, 0.0), (0.0, 0.4), (0.3, 0.3)])
async def wqes_and_their_faults(dut, pace):
    """data.wqe_check.rule: Valid WQEs and WQEs with up to three faults get the specified status, in
    both profiles."""
    bench = Bench(dut, *pace, profile=int(pace[0] == 0))
    await bench.start()
    rng, seen = bench.rng, set()
    for index in range(256):
        bench.gen(index, rng.getrandbits(4))
    faults = [
        lambda meta, buffers, item: item.update(flush=1),
        lambda meta, buffers, item: item.update(incomplete=1),
        lambda meta, buffers, item: meta.update(rng.choice(MALFORMED)),
        lambda meta, buffers, item: meta.update(op_type=rng.choice((1, 2, 8, 15))),
        lambda meta, buffers, item: meta.update(length=rng.choice((3, 33, 81, 0x8000))),
        lambda meta, buffers, item: meta.update(ah=rng.choice((3, 9, 0x1FF, 0xFF00, 0xFFFF))),
        lambda meta, buffers, item: item.update(pd=1, srd=1) or meta.update(ah=3),
        lambda meta, buffers, item: item.update(pd=rng.choice((0, 2, 513))),
        lambda meta, buffers, item: item.update(srd=1, sent=0),
        lambda meta, buffers, item: buffers and buffers.append(
            (0, rng.choice((MTU[bench.profile] + 1, 0xFFFFFFFF, 1 << rng.randrange(14, 32))), 5)),
        lambda meta, buffers, item: buffers and buffers.append(
            (buffers[0][0] - rng.choice((1, 1 << 63)) & (1 << 64) - 1, 8929, buffers[0][2])),
        lambda meta, buffers, item: buffers and buffers.append(
            (buffers[0][0], 1, buffers[0][2] ^ 1 << rng.randrange(24))),
    ]  # fmt: skip
    for _ in range(500):
        if rng.random() < 0.05:
            bench.post(0, {"length": 0, "ah": 0}, barrier=1, fence=rng.getrandbits(1))
            continue
        wide = rng.getrandbits(1)
        pd, meta, buffers, inline = bench.good(wide)
        item = {"pd": pd}
        for fault in rng.sample(faults, rng.choice((0, 0, 1, 1, 1, 2, 3))):
            fault(meta, buffers, item)
            if len(buffers) > 2:
                buffers.pop(rng.randrange(2))
            if not meta.get("inline_msg") and meta["length"] < 3:
                meta["length"] = len(buffers)
        seen.add(bench.post(item.pop("pd"), meta, buffers, inline, wide, **item))
    await bench.settle()
    assert seen >= {0, 1, 2, 3, 4, 5, 6, STATUS.LOCAL_ERROR_UNREACH_REMOTE}


@cocotb.test()
async def limits(dut):
    """data.wqe_check.limits: The last byte that fits passes, one more is refused."""
    for profile in range(len(PROFILES)):
        bench = Bench(dut, profile=profile)
        await bench.start()
        region = bench.regions.make(9, 6, 1 << 16)
        await bench.regions.report(dut, 9, pages=False)
        await bench.handle(9, live=1, pd=6, fabric=1, node=1)
        meta = {"meta_desc": 1, "first": 1, "last": 1, "comp_req": 1, "ah": 9, "dest_qp_num": 0,
                "qkey": 0, "has_imm": 0, "immediate_data": 0}  # fmt: skip
        got = []
        for extra in (0, 1):
            sizes = [(MTU[profile] + extra, 0), (1, MTU[profile] - 1 + extra)]
            for both in sizes:
                buffers = [(region["iova"], size, region["key"]) for size in both]
                got.append(bench.post(6, {**meta, "length": 2}, buffers))
            end = region["iova"] + region["length"]
            for before in ((), ((region["iova"], 1, region["key"]),)):
                buffers = [*before, (end - 64 + extra, 64, region["key"])]
                got.append(bench.post(6, {**meta, "length": len(buffers)}, buffers))
            for wide, most in ((0, 32), (1, 80)):
                got.append(bench.post(6, {**meta, "inline_msg": 1, "length": most + extra},
                                      (), bytes(range(1, 81)), wide))  # fmt: skip
        assert got == [0] * 6 + [6, 6, 5, 5, INTERNAL_ERROR, INTERNAL_ERROR]
        for bit in range(14, 32):
            for sizes in ((1 << bit, 1), (1, 1 << bit)):
                buffers = [(region["iova"], size, region["key"]) for size in sizes]
                assert (
                    bench.post(6, {**meta, "length": 2}, buffers) == STATUS.LOCAL_ERROR_BAD_LENGTH
                )
        await bench.settle()
        await reset(dut)


@cocotb.test()
async def a_handle_changes_under_the_wqes(dut):
    """data.wqe_check.generation: When a handle is recreated, every WQE gets state and generation of
    the same handle."""
    bench = Bench(dut)
    await bench.start()
    bench.gen(0, 7)
    pd, handle = bench.handles[0]["pd"], dict(bench.handles[0])
    meta = {"meta_desc": 1, "first": 1, "last": 1, "comp_req": 1, "ah": 0, "inline_msg": 1,
            "length": 0}  # fmt: skip
    for _ in range(30):
        bench.post(pd, meta)
    await ClockCycles(dut.clk, 12)
    await bench.handle(0, **{**handle, "live": 0})
    bench.gen(0, 8)
    await bench.handle(0, **handle)
    beats = await bench.sink.take(30)
    reported = [INTERNAL.tx_msg.unpack(beat["msg"]) for beat in beats]
    dead = [n for n, msg in enumerate(reported) if msg.status == STATUS.LOCAL_ERROR_INVALID_AH]
    assert len(dead) == 1 and 0 < dead[0] < 29
    assert [msg.ah_gen for msg in reported[: dead[0]]] == [7] * dead[0]
    assert [msg.ah_gen for msg in reported[dead[0] + 1 :]] == [8] * (29 - dead[0])


@cocotb.test()
async def every_handle_is_itself(dut):
    """data.wqe_check.handles: Each of 256 handles has its own state, domain, node and
    generation."""
    bench = Bench(dut)
    await bench.start()
    rng = bench.rng
    meta = {"meta_desc": 1, "first": 1, "last": 1, "comp_req": 1, "inline_msg": 1, "length": 0,
            "dest_qp_num": 0, "qkey": 0, "has_imm": 0, "immediate_data": 0}  # fmt: skip
    gens = [rng.getrandbits(4) for _ in range(256)]
    for share, turn in ((1, 0), (1, 15), (0.6, 9)):
        for index in range(256):
            await bench.handle(index, live=int(rng.random() < share), pd=rng.getrandbits(10),
                               fabric=int(share == 1 or rng.random() < 0.5),
                               node=rng.getrandbits(16))  # fmt: skip
            bench.gen(index, gens[index] ^ turn)
        await ClockCycles(dut.clk, 3)
        for index in rng.sample(range(256), 256):
            pd = bench.handles[index]["pd"]
            bench.post(pd, {**meta, "ah": index})
            bench.post(pd ^ 1 << rng.randrange(10), {**meta, "ah": index})
            bench.post(pd, {**meta, "ah": index | 1 << rng.randrange(8, 16)})
        await bench.settle()
    # All handles are live, and none after a reset.
    for index in range(256):
        await bench.handle(index, live=1, pd=index, fabric=1, node=index)
    await reset(dut)
    await until(dut, high(dut.m_init_done))
    bench.handles = {}
    for index in rng.sample(range(256), 256):
        bench.post(index, {**meta, "ah": index})
    await bench.settle()


@cocotb.test()
async def cycles(dut):
    """data.wqe_check.time: WQEs meet their specified cycles."""
    bench = Bench(dut)
    await bench.start()
    moments = Moments(dut, "s_item", "m")
    for _ in range(30):
        pd, meta, buffers, inline = bench.good()
        bench.post(pd, meta, buffers, inline)
    await bench.settle()
    moments.hold("efa_wqe_check", "entry", "s_item", "m")


@cocotb.test()
async def reset_in_the_middle_of_traffic(dut):
    """data.wqe_check.reset: A reset discards all WQEs and invalidates handles and regions."""
    bench = Bench(dut, 0.7)
    await bench.start()
    for _ in range(40):
        pd, meta, buffers, inline = bench.good()
        bench.post(pd, meta, buffers, inline)
    await ClockCycles(dut.clk, 20)
    bench.source.clear()
    await reset(dut)
    for noted in (bench.expected, bench.sink.beats, bench.event.beats):
        noted.clear()
    await until(dut, high(dut.m_init_done))
    await bench.sink.none(10)
    before, bench.handles = bench.handles, {}
    for index, handle in before.items():
        bench.post(handle["pd"], {"meta_desc": 1, "first": 1, "last": 1, "comp_req": 1,
                                  "ah": index, "inline_msg": 1, "length": 1}, (), b"x")  # fmt: skip
    await bench.settle()
    for index, handle in before.items():
        await bench.handle(index, **handle)
    table, bench.regions.table = bench.regions.table, {}
    for region in table.values():
        index = next(i for i in bench.handles)
        await bench.handle(index, live=1, pd=region["pd"], fabric=1, node=1)
        status = bench.post(
            region["pd"],
            {"meta_desc": 1, "first": 1, "last": 1, "comp_req": 1, "ah": index, "length": 1},
            [(region["iova"], 1, region["key"])],
        )
        assert status == STATUS.LOCAL_ERROR_INVALID_LKEY
        await bench.settle()
    await RisingEdge(dut.clk)
