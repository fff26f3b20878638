# SPDX-License-Identifier: Apache-2.0
"""Tests efa_wqe_check: the first failed check determines the status; a valid WQE passes
completely."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.boundary.backend import profile_strap
from efa_cosim.layouts.defs import (
    EVENTS,
    INTERNAL,
    LIMITS,
    PROFILES,
    IoCompStatus,
    IoSendOpType,
    IoTxWqe128,
)
from tb.lib.dont_care import dont_care
from tb.lib.stream import StreamDriver, StreamMonitor, clock_and_reset, reset, rng_for
from tb.lib.waits import high, pulse, until, zero
from tb.unit.data_bench import TOP, Moments, Regions

STATUS = IoCompStatus
INTERNAL_ERROR = STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR
READ, WRITE = IoSendOpType.RDMA_READ, IoSendOpType.RDMA_WRITE
REQUEST = 1 << 16  # bytes of a read request, but the last
EMPTY = (1 << INTERNAL.srd_send.fields["part"][1]) - 1  # number of a request of 0 bytes
PACKET, DONE, BARRIER = range(3)
COPIED = ("qpn", "msg", "srd", "qp_num", "scqn", "ssub", "req_id", "req_id_ex", "sent", "send")
DEFAULT, RECORDED = profile_strap("default"), profile_strap("recorded")
MTU = [profile.mtu for profile in PROFILES.values()]
# Bytes of a packet of a write, except the last one.
UNIT = [1 << mtu.bit_length() - 1 for mtu in MTU]
LONGEST = [profile.max_rdma_size for profile in PROFILES.values()]
MALFORMED = [{"meta_desc": 0}, {"first": 0}, {"last": 0}, {"comp_req": 0}, {"meta_extension": 1},
             {"reserved25": 1}, {"reserved29": 1}, {"reserved29": 4}]  # fmt: skip


class Bench:
    def __init__(self, dut, stalls=0.0, gaps=0.0, profile=RECORDED):
        self.dut, self.rng, self.profile = dut, rng_for("wqe_check"), profile
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
                              phys=rng.getrandbits(1), shift=shift, mtt=rng.getrandbits(16),
                              local_write=int(rng.random() < 0.8),
                              remote_read=rng.getrandbits(1))  # fmt: skip
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

    def good_rdma(self, wide=0, op_type=WRITE):
        """Returns PD, meta descriptor, buffers, inline bytes and remote buffer (address, length,
        rkey) of a valid RDMA operation; a read needs local write permission of its region."""
        rng = self.rng
        pd, meta, *_ = self.good()
        meta.update(op_type=op_type, inline_msg=0, length=1)
        region = next((r for r in self.regions.table.values() if r["pd"] == pd), None)
        buffers, inline = [], b""
        if op_type == READ and region is None:
            return pd, {**meta, "length": 0}, [], b"", (rng.getrandbits(64), 0, rng.getrandbits(32))
        if op_type == WRITE and (region is None or rng.random() < 0.3):
            inline = rng.randbytes(rng.choice((0, 1, 64, 80, rng.randrange(81))) * wide)
            total = len(inline)
            meta.update(inline_msg=1, length=total)
        else:
            unit = UNIT[self.profile]
            unit = unit if op_type == WRITE else REQUEST
            total = rng.choice((0, 1, unit - 1, unit, unit + 1, 2 * unit, 3 * unit + 7, TOP))
            total = min(total, region["length"], LONGEST[RECORDED])
            place = rng.randrange(region["length"] - total + 1)
            buffers.append((region["iova"] + place, total, region["key"]))
            if total == 0 and rng.getrandbits(1):
                buffers.clear()
                meta["length"] = 0
        return pd, meta, buffers, inline, (rng.getrandbits(64), total, rng.getrandbits(32))

    def _image(self, meta, buffers, inline, remote):
        """Returns the bytes of a WQE with random don't-care bytes."""
        rng, wqe = self.rng, IoTxWqe128()
        for name, value in meta.items():
            setattr(wqe.meta, name, value)
        data = bytearray(wqe.pack())
        # Fields of other modules: request id, hints, reserved bytes.
        for ignored in (slice(0, 2), slice(14, 16), slice(20, 32)):
            data[ignored] = rng.randbytes(ignored.stop - ignored.start)
        used = b""
        if remote:
            addr, size, key = remote
            used += b"".join(value.to_bytes(width, "little")
                             for value, width in ((size, 4), (key, 4), (addr, 8)))  # fmt: skip
        if meta.get("inline_msg"):
            used += inline
        else:
            for addr, size, key in buffers:
                key |= rng.getrandbits(8) << 24
                used += b"".join(value.to_bytes(width, "little")
                                 for value, width in ((size, 4), (key, 4), (addr, 8)))  # fmt: skip
        data[32:] = (used + rng.randbytes(96))[:96]
        return bytes(data)

    def post(self, pd, meta, buffers=(), inline=b"", wide=0, remote=None, part=None, **item):
        """Posts one WQE and records its expected result. With a `remote` buffer the WQE has the
        layout of RDMA; `part` is the packet of the operation."""
        rng = self.rng
        image = self._image(meta, buffers, inline, remote)
        if part is None and remote:
            # Only a write that is refused has a packet beyond 18 bits.
            unit = REQUEST if meta.get("op_type") == READ else UNIT[self.profile]
            packets = min(max(1, -(-remote[1] // unit)), EMPTY)
            part = rng.choice((0, packets - 1, rng.randrange(packets)))
            if unit == REQUEST and rng.random() < 0.2:
                part = EMPTY
        send = dont_care(INTERNAL.srd_send, rng, **({} if part is None else {"part": part}))
        item = {"qpn": rng.getrandbits(12), "msg": rng.getrandbits(16), "srd": rng.getrandbits(1),
                "pd": pd, "qp_num": rng.getrandbits(16), "scqn": rng.getrandbits(12),
                "ssub": rng.getrandbits(1), "wqe128": wide, "req_id": rng.getrandbits(16),
                "req_id_ex": rng.getrandbits(48), "op_type": meta.get("op_type", 0),
                "send": INTERNAL.srd_send.pack(**send), **item}  # fmt: skip
        # An SRD message is a transmission of a context.
        item = {"sent": item["srd"], **item}
        entry = int.from_bytes(image, "little")
        self.source.post({"data": INTERNAL.wqe_in.pack(entry=entry, **item)})
        wqe = IoTxWqe128.unpack(image)
        status = self.check(item, wqe)
        self.expected.append((item, wqe, entry >> 256, status))
        return status

    def _rdma(self, item, meta):
        """Returns the RDMA operation that a WQE requests, 0 for any other, or one that this device
        does not support."""
        supported = LONGEST[self.profile] and item["srd"]
        return meta.op_type if supported and meta.op_type in (READ, WRITE) else 0

    @staticmethod
    def _local(wqe, rdma):
        """Returns (address, length, key) of each buffer of this device."""
        parts = wqe.data.rdma_req.local_mem if rdma else wqe.data.sgl
        count = 0 if wqe.meta.inline_msg else wqe.meta.length
        return [(one.buf_addr_hi << 32 | one.buf_addr_lo, one.length, one.lkey__lkey)
                for one in parts[:count]]  # fmt: skip

    def check(self, item, wqe):
        """Returns the status by the check order of decisions 0001 and 0010. An SRD message
        that is no transmission of a context has no way to its node."""
        meta, rdma = wqe.meta, self._rdma(item, wqe.meta)
        count, inlined = meta.length, meta.inline_msg
        handle = self.handles.get(meta.ah, {"live": 0})
        buffers = self._local(wqe, rdma)
        size = count if inlined else sum(size for _, size, _ in buffers)
        if inlined:
            most = LIMITS.inline_128 if item["wqe128"] else 0 if rdma else LIMITS.inline_64
        else:
            most = 1 if rdma else 2
        if item.get("flush"):
            return STATUS.FLUSHED
        malformed = any(getattr(meta, name) == value
                        for change in MALFORMED for name, value in change.items())  # fmt: skip
        if item.get("incomplete") or malformed:
            return INTERNAL_ERROR
        if meta.op_type != IoSendOpType.SEND and not rdma:
            return STATUS.LOCAL_ERROR_UNSUPPORTED_OP
        if count > most or (rdma == READ and inlined):
            return INTERNAL_ERROR
        if not handle["live"] or handle["pd"] != item["pd"]:
            return STATUS.LOCAL_ERROR_INVALID_AH
        total = wqe.data.rdma_req.remote_mem.length
        if (size != total or total > LONGEST[self.profile]) if rdma else size > MTU[self.profile]:
            return STATUS.LOCAL_ERROR_BAD_LENGTH
        for addr, length, key in buffers:
            if not self.regions.allows(key, item["pd"], addr, length, write=rdma == READ):
                return STATUS.LOCAL_ERROR_INVALID_LKEY
        if item["srd"] and not (handle["fabric"] and item["sent"]):
            return STATUS.LOCAL_ERROR_UNREACH_REMOTE
        return STATUS.OK

    def compare(self, beat, wanted):
        item, wqe, tail, status = wanted
        meta, rdma = wqe.meta, self._rdma(item, wqe.meta)
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
        handle = self.handles[meta.ah]
        inlined, used = meta.inline_msg, self._local(wqe, rdma)
        size = meta.length if inlined else sum(length for _, length, _ in used)
        offset, requested, imm = 0, 0, meta.has_imm
        part = INTERNAL.srd_send.unpack(item["send"]).part
        if rdma == READ:
            offset = size if part == EMPTY else part * REQUEST
            requested, size, imm = min(size - offset, REQUEST), 0, 0
        elif rdma:
            offset = part * UNIT[self.profile]
            left = size - offset
            size = min(left, UNIT[self.profile])
            imm = imm and left == size
            used = [(0, 0, 0), *((addr + offset, size, key) for addr, _, key in used)]
        assert msg.dst_qpn == meta.dest_qp_num and msg.qkey == meta.qkey
        assert msg.node == (handle["node"] if handle["fabric"] else 0xFFFF)
        assert (msg.has_imm, msg.imm) == (imm, meta.immediate_data * imm), (item, meta)
        assert (msg.length, msg.offset, msg.count) == (size, offset, requested)
        assert not msg.response
        assert msg.inlined == int(inlined or size == 0)
        assert (msg.ah, msg.ah_gen) == (meta.ah, self.gens.get(meta.ah, 0))
        if inlined or rdma:
            assert beat["inline"] == tail
        if rdma and msg.inlined:
            return  # the buffers are not used
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
    two profiles."""
    bench = Bench(dut, *pace, profile=DEFAULT if pace[0] else RECORDED)
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
@cocotb.parametrize(op_type=[READ, WRITE], stalls=[0.0, 0.3], profile=range(len(PROFILES)))
async def rdma_and_its_faults(dut, op_type, stalls, profile):
    """data.wqe_check.rdma: Each pair of faults of an RDMA operation gives the status of the first
    one in the order of the checks; without faults the packet has its place in the operation. A
    device that does not report the operation, or a UD queue, refuses it."""
    bench = Bench(dut, stalls, stalls, profile=profile)
    await bench.start()
    rng, seen = bench.rng, set()
    top = LONGEST[profile] + 1

    def resize(entry, local, remote):
        """Changes the local and the remote length."""
        buffers = entry["buffers"]
        if buffers:
            buffers[0] = (buffers[0][0], local(buffers[0][1]) & 0xFFFFFFFF, buffers[0][2])
        address, size, key = entry["remote"]
        entry["remote"] = (address, remote(size) & 0xFFFFFFFF, key)

    def rekey(entry):
        buffers = entry["buffers"]
        if buffers:
            buffers[0] = (*buffers[0][:2], buffers[0][2] ^ 1 << rng.randrange(24))

    faults = [
        lambda entry: entry["item"].update(flush=1),
        lambda entry: entry["item"].update(incomplete=1),
        lambda entry: entry["meta"].update(rng.choice(MALFORMED)),
        lambda entry: entry["meta"].update(op_type=rng.choice((3, 6, 10, 15))),
        lambda entry: entry["item"].update(srd=0),
        lambda entry: entry["meta"].update(length=rng.choice((2, 3, 33, 81, 0x8000))),
        lambda entry: entry["meta"].update(inline_msg=1, length=rng.choice((1, 32, 80))),
        lambda entry: entry["meta"].update(ah=rng.choice((9, 0x1FF, 0xFF00, 0xFFFF))),
        lambda entry: entry["item"].update(pd=rng.choice((0, 2, 513))),
        lambda entry: resize(entry, lambda size: size, lambda size: size + rng.choice((-1, 1))),
        lambda entry: resize(entry, lambda size: size ^ 1 << rng.randrange(32), lambda size: size),
        lambda entry: resize(entry, lambda _: top, lambda _: top),
        rekey,
        lambda entry: entry["item"].update(pd=1) or entry["meta"].update(ah=3),
        lambda entry: entry["item"].update(sent=0),
    ]
    pairs = [(one, two) for number, one in enumerate(faults) for two in faults[number + 1 :]]
    singles = [(one,) for one in faults]
    for chosen in (*pairs, *singles * 5, *singles[-1:] * 60, *[()] * 150):
        wide = rng.getrandbits(1)
        pd, meta, buffers, inline, remote = bench.good_rdma(wide, op_type)
        entry = {"meta": meta, "buffers": buffers, "remote": remote,
                 "item": {"pd": pd, "srd": 1}}  # fmt: skip
        for fault in chosen:
            fault(entry)
        item = entry["item"]
        seen.add(bench.post(item.pop("pd"), meta, buffers, inline, wide, entry["remote"], **item))
        if rng.random() < 0.2:
            bench.post(*bench.good(), srd=rng.getrandbits(1))
    await bench.settle()
    wanted = {STATUS.OK, INTERNAL_ERROR, STATUS.LOCAL_ERROR_INVALID_AH,
              STATUS.LOCAL_ERROR_BAD_LENGTH, STATUS.LOCAL_ERROR_INVALID_LKEY,
              STATUS.LOCAL_ERROR_UNREACH_REMOTE}  # fmt: skip
    assert seen >= {STATUS.FLUSHED, STATUS.LOCAL_ERROR_UNSUPPORTED_OP, INTERNAL_ERROR}
    if LONGEST[profile]:
        assert seen >= wanted, f"never given: {wanted - seen}"
    else:
        assert not seen & (wanted - {INTERNAL_ERROR})


@cocotb.test()
async def limits_of_writes(dut):
    """data.wqe_check.rdma_limits: The longest write passes, one byte more is refused; each bit of
    the local and the remote length counts, and each count of buffers and inline bytes."""
    bench = Bench(dut, profile=RECORDED)
    await bench.start()
    longest = LONGEST[RECORDED]
    region = bench.regions.make(9, 6, longest + 64, shift=33)
    await bench.regions.report(dut, 9, pages=False)
    await bench.handle(9, live=1, pd=6, fabric=1, node=1)
    meta = {"meta_desc": 1, "first": 1, "last": 1, "comp_req": 1, "ah": 9, "dest_qp_num": 0,
            "qkey": 0, "has_imm": 1, "immediate_data": 5, "op_type": WRITE}  # fmt: skip
    start, key = region["iova"], region["key"]

    def write(local, remote=None, **others):
        remote = local if remote is None else remote
        return bench.post(6, {**meta, "length": 1}, [(start, local, key)],
                          remote=(7, remote, 8), srd=1, **others)  # fmt: skip

    got = [write(longest, part=part) for part in (0, 1, -(-longest // UNIT[RECORDED]) - 1)]
    got += [write(longest + extra) for extra in (1, 64)]
    wanted = [0] * 3 + [STATUS.LOCAL_ERROR_BAD_LENGTH] * 2
    for bit in range(32):
        got += [write(5, 5 ^ 1 << bit), write(5 ^ 1 << bit, 5)]
        wanted += [STATUS.LOCAL_ERROR_BAD_LENGTH] * 2
    for count, status in ((0, STATUS.LOCAL_ERROR_BAD_LENGTH), (1, 0), (2, INTERNAL_ERROR),
                          (1 << 15, INTERNAL_ERROR)):  # fmt: skip
        got.append(bench.post(6, {**meta, "length": count}, [(start, 5, key)], srd=1,
                              remote=(7, 5, 8)))  # fmt: skip
        wanted.append(status)
    for wide, count, status in [(0, 0, 0), (0, 1, INTERNAL_ERROR), (0, 32, INTERNAL_ERROR),
                                (1, 0, 0), (1, 1, 0), (1, 80, 0), (1, 81, INTERNAL_ERROR)]:
        got.append(bench.post(6, {**meta, "inline_msg": 1, "length": count}, (), bytes(range(80)),
                              wide, (7, count, 8), srd=1))  # fmt: skip
        wanted.append(status)
    # A write without bytes needs no region.
    got += [bench.post(6, {**meta, "length": 1}, [(0, 0, 0)], srd=1, remote=(0, 0, 0))]
    wanted.append(0)
    assert got == wanted
    await bench.settle()


@cocotb.test()
async def packets_of_a_write(dut):
    """data.wqe_check.parts: Each packet of a write has its offset, its length and the place of its
    bytes, in any order; only the last one has the immediate."""
    bench = Bench(dut, 0.2, profile=RECORDED)
    await bench.start()
    unit, rng = UNIT[RECORDED], bench.rng
    # One region has translated pages, one ends at 2^64.
    regions = [bench.regions.make(9, 6, 1 << 30, shift=33),
               bench.regions.make(10, 6, 1 << 20, phys=1, iova=TOP - (1 << 20))]  # fmt: skip
    for index in (9, 10):
        await bench.regions.report(dut, index, pages=False)
    await bench.handle(9, live=1, pd=6, fabric=1, node=1)
    meta = {"meta_desc": 1, "first": 1, "last": 1, "comp_req": 1, "ah": 9, "dest_qp_num": 3,
            "qkey": 4, "length": 1, "op_type": WRITE}  # fmt: skip
    for region in regions:
        for total in (1, unit - 1, unit, unit + 1, 4 * unit, 4 * unit + 1, region["length"]):
            count = -(-total // unit)
            parts = [*range(count)] if count < 9 else [0, 1, count - 2, count - 1,
                                                       *rng.sample(range(count), 9)]  # fmt: skip
            place = region["iova"] + region["length"] - total
            for imm in (0, 1):
                for part in rng.sample(parts, len(parts)):
                    status = bench.post(
                        6, {**meta, "has_imm": imm, "immediate_data": rng.getrandbits(32)},
                        [(place, total, region["key"])], remote=(rng.getrandbits(64), total, 8),
                        part=part, srd=1)  # fmt: skip
                    assert status == STATUS.OK
            await bench.settle()
        index = 9 if region is regions[0] else 10
        region["live"] = 0
        await bench.regions.report(dut, index, pages=False)
        status = bench.post(6, {**meta, "has_imm": 0}, [(region["iova"], 9, region["key"])],
                            remote=(0, 9, 0), srd=1)  # fmt: skip
        assert status == STATUS.LOCAL_ERROR_INVALID_LKEY
        await bench.settle()


@cocotb.test()
async def requests_of_a_read(dut):
    """data.wqe_check.requests: Each request of a read has its offset and its count, the one of 0
    bytes the end of the operation, and none an immediate. A read needs local write permission, and
    may not be inline."""
    bench = Bench(dut, 0.2, profile=RECORDED)
    await bench.start()
    rng, key = bench.rng, {}
    for index, write in ((9, 1), (10, 0)):
        key[write] = bench.regions.make(index, 6, 1 << 30, shift=33, local_write=write)
        await bench.regions.report(dut, index, pages=False)
    await bench.handle(9, live=1, pd=6, fabric=1, node=1)
    meta = {"meta_desc": 1, "first": 1, "last": 1, "comp_req": 1, "ah": 9, "dest_qp_num": 3,
            "qkey": 4, "length": 1, "op_type": READ, "has_imm": 1, "immediate_data": 7}  # fmt: skip
    for total in (0, 1, REQUEST - 1, REQUEST, REQUEST + 1, 5 * REQUEST + 9, 1 << 30):
        last = max(0, total - 1) // REQUEST
        for part in {0, min(1, last), last, EMPTY, rng.randrange(last + 1)}:
            for write, count, inline_msg in ((1, 1, 0), (0, 1, 0), (1, 2, 0), (1, 0, 1)):
                region = key[write]
                status = bench.post(6, {**meta, "length": count, "inline_msg": inline_msg},
                                    [(region["iova"], total, region["key"])],
                                    remote=(rng.getrandbits(64), total, 8), part=part, srd=1)
                wanted = (INTERNAL_ERROR if count != 1 else STATUS.OK if write or not total
                          else STATUS.LOCAL_ERROR_INVALID_LKEY)  # fmt: skip
                assert status == wanted
        await bench.settle()


@cocotb.test()
async def read_responses(dut):
    """data.wqe_check.responses: A read response is sent whatever its QP and address handle are, to
    the node of its request, with its place in the operation. If its region has gone, or permits no
    remote read, it has no payload and BAD_ADDRESS. It is no WQE that an event reports."""
    bench = Bench(dut, 0.2, 0.2, profile=RECORDED)
    await bench.start()
    rng, unit = bench.rng, UNIT[RECORDED]
    for index, remote_read in ((9, 1), (10, 0)):
        bench.regions.make(index, 6, 1 << 30, shift=33, remote_read=remote_read)
        await bench.regions.report(dut, index, pages=False)
    wanted = []
    for _ in range(300):
        region = bench.regions.table[rng.choice((9, 9, 9, 10))]
        total = rng.choice((1, unit, 1 << 20, 1 << 30))
        place = rng.choice((region["iova"], region["iova"] + region["length"] - total))
        offset = rng.randrange(total) & -rng.choice((1, unit, REQUEST))
        count = min(total - offset, rng.choice((1, unit - 1, unit, unit + 1, REQUEST)))
        part = rng.choice((0, (count - 1) // unit))
        pd, key = rng.choice((6, 6, 6, 7)), region["key"] ^ (rng.random() < 0.1) << 5
        read_id, node = rng.getrandbits(32), rng.getrandbits(6)
        wqe = IoTxWqe128()
        wqe.meta.length, wqe.meta.dest_qp_num = 1, rng.getrandbits(16)
        # The place of the request stands where other operations have their remote buffer.
        remote, local = wqe.data.rdma_req.remote_mem, wqe.data.rdma_req.local_mem[0]
        remote.length, remote.rkey = total, offset
        remote.buf_addr_lo, remote.buf_addr_hi = count, read_id
        local.length, local.lkey = total, key
        local.buf_addr_lo, local.buf_addr_hi = place & 0xFFFFFFFF, place >> 32
        send = dont_care(INTERNAL.srd_send, rng, part=part, node=node)
        item = {"qpn": rng.getrandbits(12), "srd": 1, "sent": 1, "pd": pd, "response": 1,
                "qp_num": rng.getrandbits(16), "op_type": READ,
                "send": INTERNAL.srd_send.pack(**send)}  # fmt: skip
        entry = int.from_bytes(wqe.pack(), "little")
        bench.source.post({"data": INTERNAL.wqe_in.pack(entry=entry, **item)})
        permitted = region["remote_read"] and bench.regions.allows(key, pd, place, total)
        size = min(unit, count - part * unit) if permitted else 0
        wanted.append((item, wqe, place + offset + part * unit, size, offset + part * unit, region))
    for beat, (item, wqe, at, size, offset, region) in zip(
        await bench.sink.take(len(wanted)), wanted, strict=True
    ):
        msg = INTERNAL.tx_msg.unpack(beat["msg"])
        send = INTERNAL.srd_send.unpack(item["send"])
        assert (msg.kind, msg.response, msg.srd) == (PACKET, 1, 1)
        assert msg.status == (0 if size else STATUS.REMOTE_ERROR_BAD_ADDRESS), wqe
        assert (msg.length, msg.offset, msg.inlined) == (size, offset, int(not size))
        assert (msg.node, msg.dst_qpn) == (send.node, wqe.meta.dest_qp_num)
        assert (msg.qkey, msg.has_imm, msg.imm) == (0, 0, 0)
        for name in ("qpn", "qp_num", "sent", "send", "op_type"):
            assert getattr(msg, name) == item[name], name
        assert beat["inline"] & TOP - 1 == int.from_bytes(wqe.pack()[32:40], "little")
        if size:
            sge = INTERNAL.sge.unpack(beat["second"])
            assert sge.len == size
            assert sge.loc == INTERNAL.mr_loc.pack(**bench.regions.loc(region["key"], at))
            assert INTERNAL.sge.unpack(beat["first"]).len == 0
    await bench.event.none(4)


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
