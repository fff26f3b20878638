# SPDX-License-Identifier: Apache-2.0
"""Tests the DMA part of efa_host: order, errors and resets of host reads and writes."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import EVENTS, Reg
from tb.lib.stream import StreamMonitor, cycle, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, high, low, rises, until
from tb.unit.host_bench import RESET_BIT, RESP, HostBench, chunks, packet

CLIENTS = ("adm", "rq", "tx")
WRITERS = ("adm", "rx", "cq", "eq")
LIMIT = 512
WORD = 8
PRIME = (1 << 64) - 59  # below 2**64, so that each address bit affects each byte of its word


def clients_of(dut):
    """Returns the reading clients, with the SQ client where SQs are in host memory."""
    return CLIENTS + ("sq",) * (int(dut.SQ_HOST.value) != 0)


class Reader:
    """Completes reads with data derived from the address and checks the data of each client."""

    def __init__(self, bench, rng):
        self.bench, self.rng = bench, rng
        self.clients = clients_of(bench.dut)
        self.requested = {c: {} for c in self.clients}
        self.count = 0

    @staticmethod
    def memory(addr, length):
        words = range(addr // WORD, (addr + length - 1) // WORD + 1)
        data = b"".join((at * 0x9E37_79B9_7F4A_7C15 % PRIME).to_bytes(WORD) for at in words)
        return data[addr % WORD :][:length]

    def request(self, client, length, addr=None):
        if addr is None:
            addr = LIMIT * self.rng.randrange(1 << 30) + self.rng.randrange(LIMIT - length + 1)
        cookie = (self.count * 0x9E37_79B1 + 1) & 0xFFFF_FFFF
        self.count += 1
        self.requested[client][cookie] = (addr, length)
        self.bench.request[client].post({"addr": addr, "len": length, "cookie": cookie})
        return addr

    def cut(self, request):
        """Returns the completion of a request in random pieces."""
        left, sizes = request["len"], []
        while left:
            sizes.append(min(left, self.rng.choice([64, 64, 1, 37, 60])))
            left -= sizes[-1]
        return chunks(request["tag"], self.memory(request["addr"], request["len"]), sizes)

    def check(self):
        """Checks that each request completes with correct bytes; returns the cookies that ended
        in error."""
        failed = []
        for client in self.clients:
            got, ended = {}, []
            for beat in self.bench.rd_cpl[client].beats:
                cookie = beat["cookie"]
                addr, length = self.requested[client][cookie]
                assert cookie not in ended, "a beat follows the last beat"
                assert beat["offset"] == got.get(cookie, 0)
                if beat["bytes"]:
                    data = beat["data"].to_bytes(64, "little")[: beat["bytes"]]
                    assert data == self.memory(addr + beat["offset"], beat["bytes"])
                got[cookie] = got.get(cookie, 0) + beat["bytes"]
                if beat["last"]:
                    ended.append(cookie)
                    if beat["err"]:
                        failed.append(cookie)
                    else:
                        assert got[cookie] == length
            assert sorted(ended) == sorted(self.requested[client])
        return failed


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.4, 0.5)])
async def reads(dut, pace):
    """dma.read.order: interleaved completions in random order deliver every byte at its offset."""
    bench = await HostBench(dut, *pace).start()
    rng = rng_for("reads")
    reader = Reader(bench, rng)
    ev_rd, ev_rd_cpl = StreamMonitor(bench.pins, "ev_rd"), StreamMonitor(bench.pins, "ev_rd_cpl")
    total = 240
    if "sq" not in reader.clients:  # the lane of an absent client is don't-care
        drive(bench.dut, s_rd_sq_addr=(1 << 64) - 1, s_rd_sq_len=8191, s_rd_sq_cookie=0xFFFF_FFFF)
    for _ in range(total):
        reader.request(rng.choice(reader.clients), rng.choice([1, 16, 64, 65, 200, LIMIT]))
    open_reads, done = [], 0
    outstanding = set()
    while done < total:
        while bench.rd.beats:
            request = bench.rd.beats.popleft()
            assert request["tag"] not in outstanding
            outstanding.add(request["tag"])
            open_reads.append(reader.cut(request))
        assert len(outstanding) <= int(dut.TAGS.value)
        if open_reads and (len(open_reads) > 5 or not bench.request["tx"].waiting):
            for _ in range(rng.randrange(1, 5)):
                if open_reads:
                    pieces = rng.choice(open_reads)
                    beat = pieces.pop(0)
                    if not pieces:
                        open_reads.remove(pieces)
                        done += 1
                        outstanding.discard(beat["tag"])
                    await bench.rdcpl.send(beat)
        await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 10)
    assert reader.check() == [] and bench.odds() == []
    assert ev_rd.consumed == ev_rd_cpl.consumed == total
    reported = [EVENTS.rd.unpack(beat["data"]).client for beat in ev_rd.beats]
    counts = [len(reader.requested[client]) for client in reader.clients]
    assert [reported.count(number) for number in range(len(counts))] == counts


@cocotb.test()
async def every_size_the_host_allows(dut):
    """dma.sizes: reads and writes up to each size limit of the host work at random addresses."""
    bench, rng = await HostBench(dut).start(), rng_for("sizes")
    events = {
        "read": StreamMonitor(bench.pins, "ev_rd"), "end": StreamMonitor(bench.pins, "ev_rd_cpl"),
    }  # fmt: skip
    for size in (*range(8), 2):
        most = 128 << min(size, 5)
        drive(dut, s_cfg_mps=size, s_cfg_mrrs=size)
        await ClockCycles(dut.clk, 2)
        sizes = int(dut.m_cfg_mps_log.value), int(dut.m_cfg_mrrs_log.value)
        assert sizes == (most.bit_length() - 1,) * 2
        reader, due, reported, failed = Reader(bench, rng), [], [], 0

        def somewhere(length, most=most):
            return most * rng.getrandbits(65 - most.bit_length()) + rng.randrange(most - length + 1)

        for number in range(12):
            length = rng.choice((most, rng.randrange(1, most + 1)))
            client = number % len(reader.clients)
            reader.request(reader.clients[client], length, somewhere(length))
            (request,) = await bench.rd.take()
            err = int(rng.random() < 0.2)
            pieces = reader.cut(request)
            pieces[-1]["err"] = err
            bench.rdcpl.post(*pieces)
            read = {"client": client, "tag": request["tag"]}
            due.append(EVENTS.rd.pack(**read, len=request["len"]))
            reported.append(EVENTS.rd_cpl.pack(**read, err=err))
            failed += err
        await bench.rdcpl.idle()
        await ClockCycles(dut.clk, 8)
        assert len(reader.check()) == failed
        assert [beat["data"] for beat in events["read"].beats] == due
        assert [beat["data"] for beat in events["end"].beats] == reported
        for monitor in (*events.values(), *bench.rd_cpl.values()):
            monitor.beats.clear()
        for number in range(12):
            length = rng.choice((most, rng.randrange(1, most + 1)))
            sent = somewhere(length), rng.randbytes(length)
            bench.put[WRITERS[number % 4]].post(*packet(*sent))
            await bench.put[WRITERS[number % 4]].idle()
            await ClockCycles(dut.clk, 3)
            assert packets(bench.wr.beats) == [sent]
            bench.wr.beats.clear()


@cocotb.test()
async def same_tag_back_to_back(dut):
    """dma.read.burst: complete reads arrive at one beat per cycle, with contiguous offsets and
    the specified latency."""
    bench = await HostBench(dut).start()
    reader = Reader(bench, rng_for("burst"))
    for _ in range(8):
        reader.request("tx", LIMIT)
    beats = []
    for request in await bench.rd.take(8):
        beats += chunks(request["tag"], reader.memory(request["addr"], LIMIT), [64] * 8)
    bench.rdcpl.post(*beats)
    await until(dut, high(dut.s_dma_rd_cpl_valid))
    promised, seen = timing("efa_dma_rd", "beat"), []
    for number in range(80):
        if bench.dut.m_rd_cpl_tx_valid.value == 1:
            seen.append(number)
        assert dut.s_dma_rd_cpl_ready.value == 1
        await RisingEdge(dut.clk)
    assert seen == list(range(promised.latency, promised.latency + 64, promised.interval))
    assert reader.check() == []


@cocotb.test()
async def request_rate(dut):
    """dma.read.rate: one request per cycle in round-robin order until all tags are used; a reset
    waits for all reads."""
    bench = await HostBench(dut).start()
    reader = Reader(bench, rng_for("rate"))
    tags = int(dut.TAGS.value)
    await responded(bench, reader, 1)
    await ClockCycles(dut.clk, 4)
    cycles = []
    bench.rd.on_beat = lambda beat: cycles.append(cycle())
    for _ in range(tags):
        for client in reader.clients:
            reader.request(client, 64)
    await ClockCycles(dut.clk, tags + 40)
    promised = timing("efa_dma_rd", "request")
    assert len(cycles) == tags <= promised.depth
    assert cycles[-1] - cycles[0] == (tags - 1) * promised.interval
    assert sorted(beat["tag"] for beat in bench.rd.beats) == list(range(tags))
    owner = {addr: client for client, requested in reader.requested.items()
             for addr, _ in requested.values()}  # fmt: skip
    turns, each = [owner[beat["addr"]] for beat in bench.rd.beats], len(reader.clients)
    assert all(set(turns[at : at + each]) == set(reader.clients) for at in range(tags - each + 1))
    bench.store(Reg.DEV_CTL, RESET_BIT)
    for _ in range(60):
        assert dut.rst.value == 0
        await RisingEdge(dut.clk)
    assert dut.m_quiesce.value == 1


@cocotb.test()
async def failed_reads(dut):
    """dma.read.error: failed, short and overlong completions end with err; no byte beyond the
    length is delivered."""
    bench = await HostBench(dut).start()
    reader = Reader(bench, rng_for("error"))
    sizes = [[64, 36]] * 6 + [[64, 64, 60, 12]] * 2 + [[64] * 8]
    for pieces in sizes:
        reader.request("adm", sum(pieces))
    requests = await bench.rd.take(len(sizes))
    responses = [
        chunks(r["tag"], reader.memory(r["addr"], r["len"]), pieces)
        for r, pieces in zip(requests, sizes, strict=True)
    ]
    responses[0][1].update(err=1, bytes=0)
    responses[1][0].update(err=1, last=1, bytes=0)
    responses[2][0]["last"] = 1
    responses[3][1]["bytes"] = 64
    # Too many bytes in the middle; the last beat alone would fit.
    responses[4].insert(1, {**responses[4][0]})
    # One beat exceeds the beat size; the total equals the requested length.
    for response, more in ((responses[6], 5), (responses[7], 6)):
        response[2]["bytes"] += more
        response[3]["bytes"] -= more
    # Two more beats after all bytes, the first of them not the last beat.
    responses[8][7]["last"] = 0
    responses[8] += [{**responses[8][0]}, {**responses[8][0], "last": 1}]
    for response in (responses[0], responses[1][:1], responses[2][:1], *responses[3:]):
        bench.rdcpl.post(*response)
    await bench.rdcpl.idle()
    await ClockCycles(dut.clk, 10)
    expected = list(reader.requested["adm"])
    del expected[5]
    assert sorted(reader.check()) == sorted(expected)
    assert bench.odds() == []


async def responded(bench, reader, count):
    """Issues `count` reads that are completed immediately in random order."""
    for _ in range(count):
        reader.request("rq", 8)
    requests = await bench.rd.take(count)
    reader.rng.shuffle(requests)
    for request in requests:
        bench.rdcpl.post(*chunks(request["tag"], reader.memory(request["addr"], 8), [8]))
    await bench.rdcpl.idle()


@cocotb.test()
async def late_response(dut):
    """dma.read.timeout: a read that times out fails once; its tag is not reused before the late
    completion."""
    bench = await HostBench(dut).start()
    rng = rng_for("late")
    reader = Reader(bench, rng)
    tags, limit = int(dut.TAGS.value), int(dut.TIMEOUT_CYCLES.value)
    # After this, some tags are in their second use and some in their third.
    await responded(bench, reader, tags)
    await responded(bench, reader, tags // 2)
    await ClockCycles(dut.clk, 10)
    for _ in range(tags):
        reader.request("tx", 128)
    begun, refused = cycle(), []
    requests = await bench.rd.take(tags)
    lost = rng.sample(requests, tags // 2)
    late = {}
    for request in requests:
        response = chunks(request["tag"], reader.memory(request["addr"], 128), [64, 64])
        here = 2
        if request in lost:
            # The second beat has the last byte, but is not the last beat.
            response = [response[0], response[1] | {"last": 0}, response[1]]
            here = rng.randrange(3)
        bench.rdcpl.post(*response[:here])
        late[request["tag"]] = response[here:]

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            if dut.s_dma_rd_cpl_ready.value == 0:
                refused.append(cycle())

    watching = cocotb.start_soon(watch())
    await ClockCycles(dut.clk, limit - 10 + begun - cycle())
    assert sum(beat["last"] for beat in bench.rd_cpl["tx"].beats) == tags - len(lost)
    await ClockCycles(dut.clk, 10 + 9 * tags)
    assert sum(beat["last"] for beat in bench.rd_cpl["tx"].beats) == tags
    assert len(refused) == len(lost), "one cycle is refused for each read that times out"
    watching.cancel()
    for _ in range(tags):
        reader.request("rq", 8)
    await ClockCycles(dut.clk, tags + 20)
    free = {request["tag"] for request in requests if request not in lost}
    held = [*bench.rd.beats]
    assert {beat["tag"] for beat in held} == free and len(held) == len(free)
    bench.rd.beats.clear()
    for request in lost:
        bench.rdcpl.post(*late[request["tag"]])
    await bench.rdcpl.idle()
    held += await bench.rd.take(len(lost))
    assert [beat["tag"] for beat in held[len(free) :]] == [request["tag"] for request in lost]
    for beat in held:
        bench.rdcpl.post(*chunks(beat["tag"], reader.memory(beat["addr"], 8), [8]))
    await bench.rdcpl.idle()
    await ClockCycles(dut.clk, 10)
    assert len(reader.check()) == len(lost)
    assert bench.odds() == [(4, request["tag"]) for request in lost]


@cocotb.test()
async def completed_as_it_times_out(dut):
    """dma.read.race: a completion in the cycles of the timeout of its read either delivers its data
    or is late and reported, never both."""
    bench = await HostBench(dut).start()
    reader = Reader(bench, rng_for("race"))
    tags, limit = int(dut.TAGS.value), int(dut.TIMEOUT_CYCLES.value)
    for _ in range(tags):
        reader.request("tx", 64)
    requests = await bench.rd.take(tags)
    cookies = zip(reader.requested["tx"], requests, strict=True)
    tag_of = {cookie: request["tag"] for cookie, request in cookies}
    delivered = bench.rd_cpl["tx"].beats
    await until(dut, lambda: delivered, "the first timeout", limit + 4 * tags)
    # The timeouts continue in the order of the tags, every four cycles, or two for a read that is
    # complete: completions every two to four cycles, begun three tags later, stay near them.
    first = tag_of[delivered[0]["cookie"]]
    for request in sorted(requests, key=lambda request: (request["tag"] - first - 3) % tags):
        data = reader.memory(request["addr"], 64)
        await bench.rdcpl.send(*chunks(request["tag"], data, [64]))
        for _ in range(reader.rng.randrange(3)):
            await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 4 * tags)
    failed = {tag_of[cookie] for cookie in reader.check()}
    assert 0 < len(failed) < tags
    odds = bench.odds()
    assert len(odds) == len(failed) and {*odds} == {(4, tag) for tag in failed}


@cocotb.test()
async def late_across_flr(dut):
    """dma.read.quarantine: the tag of a read that timed out stays unused across a function-level
    reset."""
    bench = await HostBench(dut).start()
    reader = Reader(bench, rng_for("flr"))
    tags = int(dut.TAGS.value)
    reader.request("tx", 64)
    request = (await bench.rd.take())[0]
    dut.s_cfg_flr.value = 1
    await ClockCycles(dut.clk, 2)
    dut.s_cfg_flr.value = 0
    await until(dut, low(dut.m_cfg_flr_done))
    given_up = int(dut.TIMEOUT_CYCLES.value) + 4 * tags + 200
    await until(dut, high(dut.m_cfg_flr_done), cycles=given_up)
    assert bench.rd_cpl["tx"].beats[-1]["err"] == 1
    for _ in range(tags - 1):
        reader.request("rq", 8)
    held = await bench.rd.take(tags - 1)
    assert request["tag"] not in [beat["tag"] for beat in held]
    bench.rdcpl.post(*chunks(request["tag"], bytes(64), [64]))
    for beat in held:
        bench.rdcpl.post(*chunks(beat["tag"], reader.memory(beat["addr"], 8), [8]))
    await bench.rdcpl.idle()
    await ClockCycles(dut.clk, 10)
    assert len(reader.check()) == 1 and bench.odds() == [(4, request["tag"])]


@cocotb.test()
async def unknown_response(dut):
    """dma.read.unknown: completions without a request are dropped and reported; neither
    completions nor requests are accepted before the tags are initialised."""
    bench = HostBench(dut)
    tags = [0, int(dut.TAGS.value) - 1, 255]
    started = cocotb.start_soon(bench.start())
    await ClockCycles(dut.clk, 3)
    for tag, sizes in zip(tags, ([60], [64, 16], [64, 16]), strict=True):
        bench.rdcpl.post(*chunks(tag, bytes(sum(sizes)), sizes))
    bench.request["tx"].post({"addr": 0x1000, "len": 64, "cookie": 9})
    await until(dut, low(dut.rst_por))
    for _ in range(int(dut.TAGS.value)):
        assert (bench.dut.s_rd_tx_ready.value, dut.s_dma_rd_cpl_ready.value) == (0, 0)
        assert dut.s_mmio_ready.value == 0
        await RisingEdge(dut.clk)
    await started
    await bench.rdcpl.idle()
    await ClockCycles(dut.clk, 12)
    assert bench.odds() == [(4, tag) for tag in tags]
    assert not any(beats.beats for beats in bench.rd_cpl.values())
    (request,) = await bench.rd.take()
    bench.rdcpl.post(*chunks(request["tag"], bytes(64), [64]))
    await bench.rdcpl.idle()
    await ClockCycles(dut.clk, 12)
    assert [(beat["cookie"], beat["err"]) for beat in bench.rd_cpl["tx"].beats] == [(9, 0)]


@cocotb.test()
async def an_answer_with_a_tag_that_is_none(dut):
    """dma.read.tag: a completion with an out-of-range tag does not match the read whose tag has
    the same low bits."""
    bench = await HostBench(dut).start()
    bench.request["tx"].post({"addr": 0x1000, "len": 64, "cookie": 9})
    tag = (await bench.rd.take())[0]["tag"]
    tags = int(dut.TAGS.value)
    strangers = [tag | 1 << bit for bit in range(tags.bit_length() - 1, 8)]
    for stranger in strangers:
        bench.rdcpl.post(*chunks(stranger, bytes(64), [64]))
    await bench.rdcpl.idle()
    await ClockCycles(dut.clk, 12)
    assert not bench.rd_cpl["tx"].beats and bench.odds() == [(4, one) for one in strangers]
    bench.rdcpl.post(*chunks(tag, bytes(64), [64]))
    await bench.rdcpl.idle()
    await ClockCycles(dut.clk, 12)
    assert [beat["cookie"] for beat in bench.rd_cpl["tx"].beats] == [9]


@cocotb.test()
async def nothing_is_written_once_a_function_level_reset_has_begun(dut):
    """dma.flr: a write offered before the function-level reset leaves; pending responses after
    it are discarded."""
    held = {"on": False}
    bench = await HostBench(dut, stalls=lambda: held["on"]).start()
    bench.set_resp()
    await bench.settle()
    held["on"] = True
    for number in range(3):
        bench.request_register(Reg.VERSION, number)
    await bench.settle()
    dut.s_cfg_flr.value = 1
    await ClockCycles(dut.clk, 12)
    dut.s_cfg_flr.value = 0
    held["on"] = False
    await until(dut, high(dut.m_cfg_flr_done))
    await ClockCycles(dut.clk, 40)
    assert [beat["data"] & 0xFFFF for beat in bench.wr.beats] == [0]


async def write_traffic(bench, rng, count):
    """Posts random packets of every writer; returns the packets per writer."""
    sent = {c: [] for c in WRITERS}
    for index in range(count):
        client = rng.choice(WRITERS)
        length = rng.choice([1, 16, 64, 65, 200, LIMIT])
        base = (WRITERS.index(client) + 1 << 40) + LIMIT * index
        addr = base + rng.randrange(LIMIT - length + 1)
        payload = rng.randbytes(length)
        sent[client].append((addr, payload))
        bench.put[client].post(*packet(addr, payload))
    return sent


def packets(beats):
    """Assembles packets from the write stream; checks stable headers and complete data."""
    found, data, head = [], b"", None
    for beat in beats:
        if head is None:
            head = (beat["addr"], beat["len"])
        assert head == (beat["addr"], beat["len"])
        data += beat["data"].to_bytes(64, "little")
        if beat["last"]:
            assert len(data) == -(-beat["len"] // 64) * 64
            found.append((head[0], data[: head[1]]))
            head, data = None, b""
    assert head is None
    return found


@cocotb.test()
@cocotb.parametrize(pace=[(0.0, 0.0), (0.0, 0.6), (0.5, 0.3)])
async def writes(dut, pace):
    """dma.write.order: packets are complete and not interleaved, in order per client, beside
    messages and responses to read-less reads."""
    bench, rng = await HostBench(dut, *pace).start(), rng_for("writes")
    bench.vector(0, 5 << 40, 0x77)
    bench.set_resp(6 << 40)
    await bench.settle(4)
    sent = await write_traffic(bench, rng, 120)
    for number in range(12):
        bench.irq["adm"].post({"vector": 0})
        bench.request_register(Reg.AQ_CAPS, number)
        await bench.irq["adm"].idle()
        await ClockCycles(dut.clk, rng.randrange(1, 24))
    for client in WRITERS:
        await bench.put[client].idle()
    await ClockCycles(dut.clk, 40)
    found = packets(bench.wr.beats)
    for number, client in enumerate(WRITERS):
        assert [one for one in found if one[0] >> 40 == number + 1] == sent[client]
    assert [one for one in found if one[0] >> 40 == 5] == [(5 << 40, b"\x77\0\0\0")] * 12
    responses = [Reg.AQ_CAPS << 16 | number for number in range(12)]
    wanted = [(6 << 40, response.to_bytes(8, "little")) for response in responses]
    assert [one for one in found if one[0] >> 40 == 6] == wanted
    assert len(found) == 120 + 24


@cocotb.test()
async def write_rate(dut):
    """dma.write.rate: one beat per cycle over packets of all clients in round-robin order."""
    bench = await HostBench(dut).start()
    for index in range(20):
        for number, client in enumerate(WRITERS):
            bench.put[client].post(*packet((number + 1 << 40) + 64 * index, bytes(64)))
    times = []
    bench.wr.on_beat = lambda beat: times.append(cycle())
    beats = await bench.wr.take(80)
    assert times[-1] - times[0] == 79 * timing("efa_dma_wr", "beat").interval
    turns = [beat["addr"] >> 40 for beat in beats]
    assert all(sorted(turns[i : i + 4]) == [1, 2, 3, 4] for i in range(0, 80, 4))


@cocotb.test()
async def cycles(dut):
    """dma.write.cycles: a request, a beat and a response to a read-less read appear at the host
    port with the specified latency, the first two while the port is not ready."""
    held = {"on": True}
    bench = await HostBench(dut, stalls=lambda: held["on"]).start()
    for prefix, path, out in (
        ("s_rd_tx", timing("efa_dma_rd", "request"), dut.m_dma_rd_valid),
        ("s_wr_cq", timing("efa_dma_wr", "beat"), dut.m_dma_wr_valid),
    ):
        drive(bench.dut, **{f"{prefix}_valid": 1, f"{prefix}_len": 16, f"{prefix}_addr": 64})
        if prefix == "s_wr_cq":
            drive(bench.dut, s_wr_cq_last=1)
        await RisingEdge(dut.clk)
        assert getattr(bench.dut, f"{prefix}_ready").value == 1
        drive(bench.dut, **{f"{prefix}_valid": 0})
        await rises(dut, out, path.latency)
    held["on"] = False
    await bench.rd.take()
    await bench.wr.take()
    bench.request_register(Reg.VERSION, 1)
    await until(dut, high(dut.s_mmio_valid, dut.s_mmio_ready))
    path = ("efa_mmio", "store"), ("efa_regs", "rsp"), ("efa_dma_wr", "beat")
    await rises(dut, dut.m_dma_wr_valid, sum(timing(*part).latency for part in path))


@cocotb.test()
async def power_on_in_a_packet(dut):
    """dma.write.power_on: after a power-on reset in the middle of a packet no beat of it leaves,
    and a new packet is complete."""
    held = {"on": False}
    bench = await HostBench(dut, stalls=lambda: held["on"]).start()
    for stalled in (False, True):
        held["on"] = stalled
        await ClockCycles(dut.clk, 2)
        bench.put["rx"].post(*packet(0x9000, bytes(range(256)))[:2])
        await ClockCycles(dut.clk, 6)
        bench.put["rx"].clear()
        bench.wr.beats.clear()
        await reset(bench.pins)
        held["on"] = False
        await until(dut, high(dut.s_mmio_ready))
        assert not bench.wr.beats
        bench.put["cq"].post(*packet(0xB000, bytes(range(100))))
        await bench.put["cq"].idle()
        await ClockCycles(dut.clk, 4)
        assert packets(bench.wr.beats) == [(0xB000, bytes(range(100)))]
        bench.wr.beats.clear()


@cocotb.test()
async def no_bus_master(dut):
    """dma.bme: without bus mastering no new access starts and an open packet ends; later all
    pending accesses resume."""
    bench = await HostBench(dut).start()
    reader = Reader(bench, rng_for("bme"))
    bench.vector(0, 0xFEE0_0000, 1)
    bench.set_resp()
    await bench.settle()
    body = packet(0x9000, bytes(range(256)))
    bench.put["rx"].post(*body[:2])
    await bench.wr.take(2)
    dut.s_cfg_bme.value = 0
    bench.put["rx"].post(*body[2:], *packet(0xA000, bytes(64)))
    bench.put["cq"].post(*packet(0xB000, bytes(16)))
    bench.irq["adm"].post({"vector": 0})
    bench.request_register(Reg.VERSION, 1)
    reader.request("adm", 64)
    assert [beat["addr"] for beat in await bench.wr.take(2)] == [0x9000, 0x9000]
    await bench.wr.none(50)
    assert not bench.rd.beats
    dut.s_cfg_bme.value = 1
    addresses = {beat["addr"] for beat in await bench.wr.take(4)}
    assert addresses == {0xA000, 0xB000, 0xFEE0_0000, RESP}
    await bench.rd.take()


@cocotb.test()
async def reset_under_load(dut):
    """dma.reset: register resets under full traffic leave no packet incomplete and lose no read,
    repeatedly."""
    bench = await HostBench(dut, gaps=0.2, stalls=0.3).start()
    rng = rng_for("load")
    reader = Reader(bench, rng)
    bench.rd.on_beat = lambda beat: bench.rdcpl.post(*reader.cut(beat))

    async def none_begins():
        while True:
            await RisingEdge(dut.clk)
            for client in reader.clients:
                consumed = getattr(bench.dut, f"s_rd_{client}_ready").value == 1
                assert not (consumed and dut.m_quiesce.value == 1), (
                    "a read was accepted during quiesce"
                )

    cocotb.start_soon(none_begins())
    for _ in range(4):
        for _ in range(30):
            reader.request(rng.choice(reader.clients), rng.choice([64, LIMIT]))
        sent = await write_traffic(bench, rng, 40)
        await ClockCycles(dut.clk, rng.randrange(20, 80))
        bench.store(Reg.DEV_CTL, RESET_BIT)
        bench.store(Reg.DEV_CTL, 0)
        await until(dut, high(dut.rst))
        assert dut.m_dma_rd_valid.value == 0 and dut.m_dma_wr_valid.value == 0
        await until(dut, high(dut.m_cfg_flr_done))
        await RisingEdge(dut.clk)
        assert bench.taken_steps() == [0, 1, 2]
        for client in WRITERS:
            await bench.put[client].idle()
        for client in reader.clients:
            await bench.request[client].idle()
        await ClockCycles(dut.clk, 150)
        await bench.rdcpl.idle()
        found = packets(bench.wr.beats)
        assert sorted(found) == sorted(one for client in WRITERS for one in sent[client])
        bench.wr.beats.clear()
    await ClockCycles(dut.clk, 20)
    assert reader.check() == []


@cocotb.test()
@cocotb.parametrize(flr=[0, 1])
async def a_reset_waits_for_what_was_begun(dut, flr):
    """dma.reset.writes: a reset waits for an open packet and for every write at the port; a
    register reset does not wait for the response to a read-less read. Started writes leave
    unchanged, no other write begins, and later messages are discarded."""
    held = {"on": False}
    bench = await HostBench(dut, stalls=lambda: held["on"]).start()
    rng = rng_for("begun")

    async def offer(clients):
        """Offers a packet of each client until the engines are reset."""
        for client in clients:
            bench.put[client].post(*packet(0x7000, bytes(64)))
        await until(dut, high(dut.rst))
        for client in clients:
            assert bench.put[client].waiting, f"a write of {client} begins during a reset"
            bench.put[client].clear()

    for kind in ("open", *WRITERS, "irq", "reg") * 2:
        addr, payload = rng.getrandbits(55) << 9, rng.randbytes(256 if kind == "open" else 64)
        value = rng.getrandbits(32)
        bench.vector(0, addr, value)
        bench.set_resp(addr)
        await bench.settle(4)
        held["on"] = kind != "open"
        beats = packet(addr, payload)
        if kind == "irq":
            payload = value.to_bytes(4, "little")
            bench.irq[rng.choice(("adm", "eq"))].post({"vector": 0})
        elif kind == "reg":
            number, (offset, response) = value & 0xFFFF, rng.choice(((0x7C, 0xFFFF_FFFF), (16, 0)))
            payload = (response << 32 | offset << 16 | number).to_bytes(8, "little")
            bench.request_register(offset, number)
        else:
            bench.put["rx" if kind == "open" else kind].post(*beats[:2])
        await bench.settle(10)
        dut.s_cfg_flr.value = flr
        if not flr:
            bench.store(Reg.DEV_CTL, RESET_BIT)
            bench.store(Reg.DEV_CTL, 0)
        await until(dut, high(dut.m_quiesce))
        bench.irq["adm"].post({"vector": 0})  # discarded by the reset
        others = [client for client in WRITERS if (kind, client) != ("open", "rx")]
        offered = cocotb.start_soon(offer(others))
        begun = False
        for _ in range(40):
            await RisingEdge(dut.clk)
            begun = begun or dut.rst.value == 1
        assert begun == (kind == "reg" and not flr), kind
        dut.s_cfg_flr.value, held["on"] = 0, False
        if kind == "open":
            bench.put["rx"].post(*beats[2:])
        await until(dut, high(dut.m_cfg_flr_done))
        await offered
        await ClockCycles(dut.clk, 4)
        assert packets(bench.wr.beats) == [(addr, payload)], kind
        bench.wr.beats.clear()
