"""The rows of the performance table: what is done, what is measured, and the marks.

A row's function gets a fresh Device factory and gives Measured; every message of it was checked.
"""

from dataclasses import dataclass, field

import numpy as np

from efa import defs
from tb.lib import requests as host
from tb.perf import traffic
from tb.perf.observe import EVENT_MASK, LAST, Seen, steady
from tb.perf.queues import DMA_LATENCY, NODE, PEER, PerfError

MESSAGES = 12_288
WARM, TAIL = 1_024, 512
INLINE = 32  # bytes
CQE = int(defs.Ev.CQE)
# Far more cycles than any message may take: a device that stands still is found by it.
PATIENCE_PER_MESSAGE = 200


@dataclass(frozen=True)
class Row:
    """A line of the table. `mark` must be reached (`least`: at least, else at most), `limit` is
    what `sets` allows at best, None where nothing general does."""

    key: str
    what: str
    unit: str
    mark: float | None
    limit: float | None
    sets: str
    measure: object
    least: bool = True


@dataclass
class Measured:
    """A value over so many messages; `more` are figures beside it."""

    value: float
    messages: int
    more: dict = field(default_factory=dict)


# ---- what rows have in common ----


def _spread(count, queues):
    """Messages of each queue, a multiple of every batch."""
    return -(-count // (queues * 16)) * 16


def _senders(device, queues, each, wqe_bytes=64, entry_bytes=16, cqs=None, depth=1024,
             rq_depth=1):  # fmt: skip
    """Queues that send, a CQ each for either side or `cqs` of them shared."""
    def ring(total):
        return device.completions(_pow2(min(total, defs.LIMITS.max_cq_depth)), entry_bytes)

    shared = queues if cqs is None else cqs
    send = [ring(-(-queues // shared) * each) for _ in range(shared)]
    recv = [ring(each) for _ in range(min(queues, 16))]
    return [
        device.queue(send[n % shared], recv[n % len(recv)], depth, rq_depth, wqe_bytes)
        for n in range(queues)
    ]


def _pow2(value):
    return 1 << max(0, value - 1).bit_length()


def _inline(device, queues, each, size=INLINE):
    """Work requests of each queue towards the peer, payload inside."""
    ah = device.address_of(PEER)
    return [
        traffic.work_requests(queue, each, ah, 0x100 + queue.index,
                              inline=traffic.pattern(queue, np.arange(each), size))
        for queue in queues
    ]  # fmt: skip


def _finish(device, completions, what):
    """Clocks until so many completions were written and all is quiet."""
    patience = 20_000 + PATIENCE_PER_MESSAGE * completions
    device.run_until(host.events_are(CQE, completions), patience, what)
    device.settle()


def _payload(size):
    return lambda queue, numbers: traffic.pattern(queue, numbers, size)


def _stalls(seen):
    """Cycles in which stores waited, over the whole run."""
    return int(seen.port(host.PIN_MMIO)["b"].sum())


def _open(make, **knobs):
    device = make(ev_mask=EVENT_MASK, **knobs)
    device.forget()
    return device


# ---- stores ----


def llq_stores(make):
    """Whole lines into slots that were not rung, lap after lap; rung and sent at the end."""
    device = _open(make)
    queues = _senders(device, 8, 1024)
    wqes = _inline(device, queues, 1024)
    device.settle()
    stream = traffic.Stream()
    rounds = -(-MESSAGES // (8 * 1024)) + 1
    for number in range(rounds):
        for queue, mine in zip(queues, wqes, strict=True):
            # The last lap stores what is sent; those before store something else.
            lap = mine if number == rounds - 1 else mine[::-1].copy()
            stream.add(traffic.slot_stores(queue, 0, lap))
    count = rounds * 8 * 1024
    device.forget()
    device.post(stream.requests())
    device.run_until(host.drained(), 64 * count, "LLQ stores")
    seen = Seen(device.link)
    seen.check_quiet()
    stores = seen.stores(defs.EFA_MEM_BAR)
    if len(stores) != count:
        raise PerfError(f"{len(stores)} LLQ stores of {count}")
    cycles = int(stores["cycle"][-1] - stores["cycle"][0]) + 1
    stalls = int(stores["b"].sum())
    device.post(b"".join(_all_rung(queues, 1024)))
    _finish(device, 8 * 1024, "sends of what was stored")
    seen = Seen(device.link)
    seen.check_quiet()
    seen.check_completions(queues, device.memory)
    seen.check_sent(queues, _payload(INLINE))
    return Measured(count / cycles, count, {"stalled_cycles": stalls})


def _all_rung(queues, each):
    """A doorbell for every max_tx_batch entries of each queue."""
    for queue in queues:
        queue.sent += each
        queue.send_cq.posted += each
        yield traffic.doorbell(queue.sq_db, each)


def doorbells(order):
    """Doorbells of 64 queues, a count of one more each; `order` gives the queue of each."""

    def measure(make):
        device = _open(make)
        each = 192
        queues = _senders(device, 64, each, depth=256)
        wqes = _inline(device, queues, each)
        stream = traffic.Stream()
        for queue, mine in zip(queues, wqes, strict=True):
            stream.add(traffic.slot_stores(queue, 0, mine))
        device.post(stream.requests())
        device.settle()
        device.forget()
        stream = traffic.Stream()
        for number in order(len(queues), each):
            queue = queues[number]
            queue.sent += 1
            queue.send_cq.posted += 1
            stream.ring_sq(queue, queue.sent)
        device.post(stream.requests())
        count = len(queues) * each
        _finish(device, count, "doorbells")
        seen = Seen(device.link)
        seen.check_quiet()
        for queue in queues:
            seen.check_doorbells(queue, 0, np.arange(1, each + 1))
        seen.check_completions(queues, device.memory)
        seen.check_sent(queues, _payload(INLINE))
        stores = seen.stores(traffic.DOORBELL)
        cycles = int(stores["cycle"][-1] - stores["cycle"][0]) + 1
        return Measured(count / cycles, count, {"stalled_cycles": _stalls(seen)})

    return measure


def back_to_back(queues, each):
    return np.repeat(np.arange(queues), each)


def in_turn(queues, each):
    return np.tile(np.arange(queues), each)


def at_random(queues, each):
    return np.random.default_rng(1).permutation(np.repeat(np.arange(queues), each))


# ---- sends ----


def inline_sends(queues, batch, wqe_bytes=64, size=INLINE):
    """Messages that travel in their work requests; first flits out are counted."""

    def measure(make):
        device = _open(make)
        each = _spread(MESSAGES, queues)
        depth = min(1024, defs.LIMITS.llq_bytes // wqe_bytes // queues)
        ends = _senders(device, queues, each, wqe_bytes, depth=depth)
        stream = traffic.Stream()
        traffic.sends_in_turn(stream, ends, _inline(device, ends, each, size), batch)
        return _sent(device, ends, stream, size)

    return measure


def _sent(device, ends, stream, size):
    device.settle()
    device.forget()
    device.post(stream.requests())
    _finish(device, sum(queue.sent for queue in ends), "sends")
    seen = Seen(device.link)
    seen.check_quiet()
    seen.check_completions(ends, device.memory)
    seen.check_sent(ends, _payload(size))
    value, messages = steady(seen.first_flits_out(), WARM, TAIL)
    done = steady(seen.completion_times({id(q.send_cq): q.send_cq for q in ends}.values()),
                  WARM, TAIL)[0]  # fmt: skip
    return Measured(min(value, done), messages,
                    {"out": value, "completed": done, "stalled_cycles": _stalls(seen)})  # fmt: skip


def memory_sends(queues, size, batch):
    """Messages gathered from host memory, one aligned buffer each."""

    def measure(make):
        device = _open(make)
        each = _spread(MESSAGES, queues)
        ends = _senders(device, queues, each)
        ah, wqes = device.address_of(PEER), []
        for queue in ends:
            buffer = device.buffer(each * size)
            rows = traffic.pattern(queue, np.arange(each), size)
            device.memory.write(buffer.base, rows.tobytes())
            iovas = buffer.iova + np.arange(each) * size
            wqes.append(traffic.work_requests(queue, each, ah, 0x100 + queue.index,
                                              pieces=[(iovas, size, buffer.l_key)]))  # fmt: skip
        stream = traffic.Stream()
        traffic.sends_in_turn(stream, ends, wqes, batch)
        return _sent(device, ends, stream, size)

    return measure


# ---- receives ----


def receives(queues, size):
    """Packets of a peer at line rate; all descriptors are posted before the first one."""

    def measure(make):
        device = _open(make)
        each = _spread(MESSAGES, queues)
        ends = _senders(device, queues, each, depth=16, rq_depth=_pow2(each))
        device.address_of(PEER)
        buffers, rings = [], []
        for queue in ends:
            buffer = device.buffer(each * size)
            iovas = buffer.iova + np.arange(each) * size
            rings.append(traffic.post_receives(device, queue, iovas, size, buffer.l_key))
            buffers.append(buffer)
        device.post(b"".join(rings))
        device.settle()
        device.forget()
        packets = [
            traffic.data_packets(queue, n * each + np.arange(each),
                                 traffic.pattern(queue, np.arange(each), size),
                                 n + len(ends) * np.arange(each), NODE, PEER)
            for n, queue in enumerate(ends)
        ]  # fmt: skip
        # Queue after queue in turn, as many senders would mix.
        device.inject([one for together in zip(*packets, strict=True) for one in together])
        count = each * len(ends)
        _finish(device, count, "receives")
        seen = Seen(device.link)
        seen.check_quiet()
        seen.check_completions(ends, device.memory)
        seen.check_answers(count)
        _check_received(device, ends, buffers, each, size)
        value, messages = steady(
            seen.completion_times([queue.recv_cq for queue in ends]), WARM, TAIL
        )
        return Measured(value, messages)

    return measure


def _check_received(device, ends, buffers, each, size, sender=None):
    """What each queue's buffers hold is what was sent to it, message for message."""
    for queue, buffer in zip(ends, buffers, strict=True):
        source = queue if sender is None else sender[queue.number]
        wanted = traffic.pattern(source, np.arange(each), size).tobytes()
        if device.memory.read(buffer.base, each * size) != wanted:
            raise PerfError(f"queue {queue.number}: received bytes differ")


def both_ways(queues, size, batch, messages=MESSAGES, slots=None, unit=1):
    """Every queue sends to its neighbour through the fabric: a send and a receive a message.

    `slots` buffers a queue are used again and again, with the same bytes; None: one a message."""

    def measure(make):
        device = _open(make, log_data=int(size <= 64))
        each = _spread(messages, queues)
        ends = _senders(device, queues, each, depth=256, rq_depth=_pow2(each))
        held = slots or each
        ah, wqes, rings, buffers, sender = device.address_of(NODE), [], [], [], {}
        places = np.arange(each) % held * size
        for queue, peer in zip(ends, ends[1:] + ends[:1], strict=True):
            source, buffer = device.buffer(held * size), device.buffer(held * size)
            rows = traffic.pattern(queue, np.arange(held), size)
            device.memory.write(source.base, rows.tobytes())
            wqes.append(traffic.work_requests(queue, each, ah, peer.number,
                                              pieces=[(source.iova + places, size, source.l_key)]))
            rings.append(traffic.post_receives(device, queue, buffer.iova + places, size,
                                               buffer.l_key))  # fmt: skip
            buffers.append(buffer)
            sender[peer.number] = queue
        device.post(b"".join(rings))
        device.settle()
        device.forget()
        stream = traffic.Stream()
        traffic.sends_in_turn(stream, ends, wqes, batch)
        device.post(stream.requests())
        _finish(device, 2 * each * len(ends), f"{size} bytes both ways")
        seen = Seen(device.link, all_completions=size <= 64)
        seen.check_quiet()
        seen.check_completions(ends, device.memory)
        _check_received(device, ends, buffers, held, size, sender)
        sent, count = steady(seen.completion_times([q.send_cq for q in ends]), WARM, TAIL)
        received, _ = steady(seen.completion_times([q.recv_cq for q in ends]), WARM, TAIL)
        return Measured(unit * min(sent, received), count,
                        {"sent": unit * sent, "received": unit * received})  # fmt: skip

    return measure


# ---- completions ----


def drained(entry_bytes, cqs):
    """Completions written after m_dma_wr was held until 1,024 acknowledgements were there."""
    held, rounds = 1024, 10

    def measure(make):
        device = _open(make)
        queues = 16
        each = held // queues
        ends = _senders(device, queues, rounds * each, 64, entry_bytes, cqs, depth=_pow2(each))
        wqes = _inline(device, ends, rounds * each)
        device.settle()
        device.forget()
        spans = []
        for number in range(rounds):
            device.knobs(wr_hold=1)
            stream = traffic.Stream()
            first = number * each
            for mine, queue in zip(wqes, ends, strict=True):
                stream.add(traffic.slot_stores(queue, queue.sent, mine[first : first + each]))
                queue.sent += each
                queue.send_cq.posted += each
                stream.ring_sq(queue, queue.sent)
            device.post(stream.requests())
            _answered(device, held)
            device.knobs(wr_hold=0)
            device.settle()
        seen = Seen(device.link)
        seen.check_quiet()
        seen.check_completions(ends, device.memory)
        seen.check_sent(ends, _payload(INLINE))
        times = seen.completion_times({id(q.send_cq): q.send_cq for q in ends}.values())
        if len(times) != rounds * held:
            raise PerfError(f"{len(times)} completions of {rounds * held}")
        spans = [int(part[-1] - part[0]) + 1 for part in np.split(np.sort(times), rounds)]
        return Measured(rounds * held / sum(spans), rounds * held,
                        {"slowest": held / max(spans), "fastest": held / min(spans)})  # fmt: skip

    return measure


def _answered(device, count):
    """All messages left, and the peer's answers had time to come back."""
    done = device.link.call("counters")["packets"] + count
    device.run_until(host.packets_are(done), 200_000, "messages before the completions")
    device.link.run([], 500)


# ---- one message on an idle device ----


def doorbell_to_flit(size, count=256):
    """Cycles from the doorbell's handshake to that of the first flit, the slowest of `count`."""

    def measure(make):
        device = _open(make)
        ends = _senders(device, 16, count // 16)
        each = count // 16
        if size <= INLINE:
            wqes = _inline(device, ends, each, size)
        else:
            ah, wqes = device.address_of(PEER), []
            for queue in ends:
                buffer = device.buffer(each * size)
                device.memory.write(
                    buffer.base, traffic.pattern(queue, np.arange(each), size).tobytes())
                wqes.append(traffic.work_requests(
                    queue, each, ah, 0x100 + queue.index,
                    pieces=[(buffer.iova + np.arange(each) * size, size, buffer.l_key)]))
        device.settle()
        device.forget()
        for number in range(each):
            for queue, mine in zip(ends, wqes, strict=True):
                stream = traffic.Stream()
                stream.send(queue, mine[number : number + 1])
                device.post(stream.requests())
                device.settle()
        seen = Seen(device.link)
        seen.check_quiet()
        seen.check_completions(ends, device.memory)
        seen.check_sent(ends, _payload(size))
        rung, out = seen.stores(traffic.DOORBELL)["cycle"], seen.first_flits_out()
        waits = _one_for_one(rung, out)
        if size <= INLINE:
            return _latency(waits)
        asked, answers = seen.port(host.PIN_READ), seen.port(host.PIN_ANSWER)
        trip = _one_for_one(asked["cycle"], answers["cycle"])
        if set(trip.tolist()) != {DMA_LATENCY}:
            raise PerfError(f"host reads took {sorted(set(trip.tolist()))} cycles")
        return _latency(waits - trip, {"with_round_trip": int(waits.max())})

    return measure


def flit_to_completion(size, count=256):
    """Cycles from the last flit in to the completion entry out, the slowest of `count`."""

    def measure(make):
        device = _open(make)
        each = count // 16
        ends = _senders(device, 16, each, depth=16, rq_depth=_pow2(each))
        device.address_of(PEER)
        buffers, rings = [], []
        for queue in ends:
            buffer = device.buffer(each * size)
            iovas = buffer.iova + np.arange(each) * size
            rings.append(traffic.post_receives(device, queue, iovas, size, buffer.l_key))
            buffers.append(buffer)
        device.post(b"".join(rings))
        device.settle()
        device.forget()
        order = 0
        for number in range(each):
            for queue in ends:
                rows = traffic.pattern(queue, [number], size)
                device.inject(traffic.data_packets(queue, [order], rows, [order], NODE, PEER))
                device.settle()
                order += 1
        seen = Seen(device.link)
        seen.check_quiet()
        seen.check_completions(ends, device.memory)
        seen.check_answers(count)
        _check_received(device, ends, buffers, each, size)
        flits = seen.port(host.PIN_IN)
        came = flits["cycle"][(flits["b"] & LAST) != 0]
        return _latency(_one_for_one(came, seen.completion_times([q.recv_cq for q in ends])))

    return measure


def _one_for_one(starts, ends):
    if len(starts) != len(ends):
        raise PerfError(f"{len(starts)} began, {len(ends)} ended")
    return (ends.astype("i8") - starts.astype("i8"))


def _latency(cycles, more=None):
    """The slowest one counts: an idle device has no reason to be slower at times."""
    return Measured(int(cycles.max()), len(cycles),
                    {"least": int(cycles.min()), "median": float(np.median(cycles)),
                     **(more or {})})  # fmt: skip


PER_CYCLE, CYCLES = "per cycle", "cycles"
ROWS = (
    Row("llq", "LLQ stores taken, 64-byte beats", PER_CYCLE, 1.0, 1.0, "the host stream",
        llq_stores),
    Row("db-same", "doorbells taken, same queue back to back", PER_CYCLE, 1.0, 1.0,
        "the host stream", doorbells(back_to_back)),
    Row("db-turn", "doorbells taken, 64 queues in turn", PER_CYCLE, 1.0, 1.0,
        "the host stream", doorbells(in_turn)),
    Row("db-random", "doorbells taken, 64 queues at random", PER_CYCLE, 1.0, 1.0,
        "the host stream", doorbells(at_random)),
    Row("inline-db1", "inline sends, 8 QPs, a doorbell each", PER_CYCLE, 0.45, 1 / 2,
        "WQE and doorbell are two beats", inline_sends(8, 1)),
    Row("inline-db16", "inline sends, 8 QPs, a doorbell for 16", PER_CYCLE, 0.75, 16 / 17,
        "17 beats for 16, one flit each", inline_sends(8, 16)),
    Row("inline-128", "inline sends in 128-byte WQEs, 8 QPs, a doorbell for 8", PER_CYCLE, 0.38,
        8 / 17, "17 beats for 8", inline_sends(8, 8, 128)),
    Row("inline-1qp", "inline sends, one QP, a doorbell for 16", PER_CYCLE, 0.5, 16 / 17,
        "17 beats for 16, one flit each", inline_sends(1, 16)),
    Row("memory-64", "64-byte sends from host memory, 16 QPs", PER_CYCLE, 0.4, 1 / 2,
        "two flits each; 100 tags cover the latency", memory_sends(16, 64, 16)),
    Row("receive-64", "64-byte receives completed, 16 QPs, descriptors prefetched", PER_CYCLE,
        0.4, 1 / 2, "payload and CQE are two write beats", receives(16, 64)),
    Row("both-64", "64-byte sends and receives at once, each way", PER_CYCLE, 0.28, 1 / 3,
        "three write beats a pair", both_ways(16, 64, 16)),
    Row("both-4096", "4 KB sends and receives at once, payload beats each way", PER_CYCLE, 0.92,
        64 / 66, "64 payload beats and two CQEs", both_ways(16, 4096, 16, 11_776, 16, 64)),
    *(Row(f"drain-{size}-{name}", f"completions drained after a hold, {size} bytes, {told}",
          PER_CYCLE, 0.9, 1.0, "a beat each; above that, neighbours packed",
          drained(size, cqs))
      for size in (16, 32) for name, told, cqs in (("one", "one queue", 1),
                                                   ("many", "16 queues", 16))),
    Row("flit-inline", "doorbell store to first flit, inline, idle device", CYCLES, 12, 11,
        "pipeline depth, 9 to 11", doorbell_to_flit(INLINE), False),
    Row("flit-memory", "doorbell store to first flit, payload by DMA, beyond one round trip",
        CYCLES, 18, 16, "pipeline depth, 13 to 16", doorbell_to_flit(64), False),
    Row("cqe", "last flit in to CQE write out, 64 bytes, idle device", CYCLES, 20, None,
        "pipeline depth", flit_to_completion(64), False),
)  # fmt: skip
