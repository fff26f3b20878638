# SPDX-License-Identifier: Apache-2.0
"""Defines the fixed scenarios whose cycle counts are golden (tb/perf/golden.py).

A scenario is one message on an idle device, stage by stage, or a short burst with the cycles of its
flits and completions at the pins. Every scenario starts at a multiple of BORDER cycles and depends
on no seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from efa_cosim.boundary.events import where
from efa_cosim.layouts import defs
from tb.lib import requests as host
from tb.perf import traffic, work
from tb.perf.observe import FIRST, LAST, Seen
from tb.perf.queues import NODE, PEER, SRD, UD, Buffer, Device, PerfError, Queue

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# A scenario starts at a multiple of these cycles, so that earlier activity has no influence.
BORDER = 4096
GRH = defs.LIMITS.grh_bytes
PATIENCE = 100_000
# Cycles of each stage; of a burst, a list.
Cycles: TypeAlias = Mapping[str, int | list[int]]
Run: TypeAlias = Callable[[Device], Cycles]


@dataclass(frozen=True)
class Scenario:
    """Describes traffic on a fresh device; `run` returns {stage: cycles or list of cycles}."""

    name: str
    run: Run
    # True if Icarus runs the scenario too, with the same cycles.
    both: bool = False


def begin(device: Device, requests: bytes | np.ndarray) -> None:
    """Posts at the next border, with empty logs."""
    device.settle()
    device.cancel()
    border = (device.backend.cycles // BORDER + 1) * BORDER
    device.post(host.until_cycle(border))
    device.post(requests)


def finish(device: Device, completions: int) -> Seen:
    """Waits for the completions of a burst; returns its checked logs."""
    device.run_until(host.events_are(int(defs.Ev.CQE), completions), PATIENCE, "golden scenario")
    device.settle()
    seen = Seen(device.link)
    seen.check_quiet()
    return seen


def open_session(device: Device) -> None:
    """Sends an empty message to the device itself, so that later ones do not meet a quiet time."""
    queue = _queue(device, SRD, 64, 4, 4)
    device.post(traffic.post_receives(device, queue, [0], 0, 0))
    stream = traffic.Stream()
    stream.send(queue, traffic.work_requests(queue, 1, device.address_of(NODE), queue.number,
                                             inline=traffic.pattern(queue, [0], 1)[:, :0]))
    begin(device, stream.requests())
    finish(device, 2).check_completions([queue], device.memory)


# One message


def one_message(
    size: int,
    kind: defs.AdminQpType = SRD,
    inline: bool = False,
    wqe_bytes: int = 64,
    offset: int = 0,
    pieces: int = 1,
) -> Run:
    """Sends a message between two queues of one device through the fabric, stage by stage."""

    def run(device: Device) -> Cycles:
        open_session(device)
        a, b = (_queue(device, kind, wqe_bytes, 4, 4) for _ in range(2))
        skip = GRH if kind == UD else 0
        space, source = device.buffer(size + skip), device.buffer(offset + max(size, 1))
        data = traffic.pattern(a, [0], max(size, 1))[:, :size]
        device.memory.write(source.base + offset, data.tobytes())
        how: dict[str, Any]
        how = {"inline": data} if inline else {"pieces": [
            ([source.iova + offset + at], part, source.l_key)
            for at, part in _cut(size, pieces)]}  # fmt: skip
        wqes = traffic.work_requests(a, 1, device.address_of(NODE), b.number, **how)
        device.post(traffic.post_receives(device, b, [space.iova], size + skip, space.l_key))
        stream = traffic.Stream()
        stream.send(a, wqes)
        begin(device, stream.requests())
        seen = finish(device, 2)
        seen.check_completions([a, b], device.memory)
        if device.memory.read(space.base + skip, size) != data.tobytes():
            raise PerfError("data differs")
        return _stages(_milestones(seen, a, b))

    return run


def one_receive(size: int) -> Run:
    """Receives a packet of the peer, from the first flit in to the acknowledgement out."""

    def run(device: Device) -> Cycles:
        queue = _queue(device, SRD, 64, 4, 4)
        space = device.buffer(size)
        device.address_of(PEER)
        device.post(traffic.post_receives(device, queue, [space.iova], size, space.l_key))
        incarnation = device.incarnation()
        begin(device, host.delay(0))
        device.run_until(host.drained(), BORDER, "border")
        data = traffic.pattern(queue, [0], size)
        device.inject(traffic.data_packets(queue, [0], data, incarnation))
        seen = finish(device, 1)
        seen.check_completions([queue], device.memory)
        if device.memory.read(space.base, size) != data.tobytes():
            raise PerfError("data differs")
        came = seen.port(host.PIN_IN)["cycle"]
        return _stages({"start": came[0], "last flit in": came[-1], **_received(seen, queue),
                        "acknowledgement out": seen.port(host.PIN_OUT)["cycle"][0]})  # fmt: skip

    return run


def _queue(
    device: Device, kind: defs.AdminQpType, wqe_bytes: int, depth: int, rq_depth: int
) -> Queue:
    rings = [device.completions(work.pow2(max(depth, rq_depth))) for _ in range(2)]
    return device.queue(*rings, depth=depth, rq_depth=rq_depth, wqe_bytes=wqe_bytes, kind=kind)


def _cut(size: int, pieces: int) -> list[tuple[int, int]]:
    """Returns offsets and lengths of a message in one or two pieces, the first of odd length."""
    if pieces == 1:
        return [(0, size)]
    first = size // 2 - 1
    return [(0, first), (first, size - first)]


def _milestones(seen: Seen, a: Queue, b: Queue) -> dict[str, int]:
    """Returns the cycle of each stage of the only message; stages that do not occur are absent."""
    doorbell = seen.stores(traffic.DOORBELL)["cycle"][0]
    out, came = seen.port(host.PIN_OUT), seen.port(host.PIN_IN)
    reads, responses = seen.port(host.PIN_READ), seen.port(host.PIN_RESPONSE)
    found = {
        "start": doorbell,
        "doorbell checked": _event(seen, "db", kind=0, num=a.index),
        "WQE consumed": _event(seen, "wqe", qpn=a.index),
        "WQE checked": _event(seen, "check", qpn=a.index),
    }
    if len(reads):
        found |= {
            "first read requested": reads["cycle"][0],
            "last read requested": reads["cycle"][-1],
            "first response": responses["cycle"][0],
            "last response": responses["cycle"][-1],
        }
    found |= {"first flit out": _flit(out, FIRST, 0), "last flit out": _flit(out, LAST, 0)}
    done = {"send completion out": seen.completion_times([a.send_cq])[0]}
    acknowledged = (out["b"] & LAST != 0).sum() > 1
    if not acknowledged:
        # A datagram completes when the packet has left.
        found |= done
    found |= {"first flit in": _flit(came, FIRST, 0), "last flit in": _flit(came, LAST, 0),
              **_received(seen, b)}  # fmt: skip
    if acknowledged:
        found |= {"acknowledgement out": _flit(out, LAST, 1),
                  "acknowledgement in": _flit(came, LAST, 1), **done}  # fmt: skip
    return found


def _received(seen: Seen, queue: Queue) -> dict[str, int]:
    return {
        "packet checked": _event(seen, "rx_validated", qpn=queue.index),
        "payload out": _event(seen, "rx_data_done", qpn=queue.index),
        "receive completion out": seen.completion_times([queue.recv_cq])[0],
    }


def _event(seen: Seen, name: str, **wanted: int) -> int:
    found = where(seen.events, name, **wanted)["cycle"]
    if len(found) != 1:
        raise PerfError(f"{len(found)} events {name}")
    return found[0]


def _flit(flits: np.ndarray, which: int, number: int) -> int:
    return flits["cycle"][flits["b"] & which != 0][number]


def _stages(milestones: Mapping[str, int]) -> dict[str, int]:
    """Returns the cycles between successive milestones, and their sum."""
    times = [int(value) for value in milestones.values()]
    names = list(milestones)[1:]
    gaps = {name: after - before
            for name, before, after in zip(names, times, times[1:], strict=False)}  # fmt: skip
    return gaps | {"sum": times[-1] - times[0]}


# No message


def event(device: Device) -> Cycles:
    """Completes a send on an armed CQ: completion, EQE, interrupt."""
    eq = device.driver.eqs[0].number
    cq, other = device.completions(4, eqn=eq), device.completions(4)
    queue = device.queue(cq, other, depth=4)
    wqes = traffic.work_requests(queue, 1, device.address_of(PEER), 0x100,
                                 inline=traffic.pattern(queue, [0], 8))  # fmt: skip
    stream = traffic.Stream()
    armed = defs.DOORBELL_BITS.CQ_DB.pack(ARM=1)
    stream.add(traffic.doorbell(cq.db_offset, armed))
    stream.send(queue, wqes)
    begin(device, stream.requests())
    seen = finish(device, 1)
    seen.check_completions([queue], device.memory)
    came = seen.port(host.PIN_IN)["cycle"][0]
    return _stages({"start": came, "send completion out": seen.completion_times([cq])[0],
                    "EQE handed over": _event(seen, "eqe"),
                    "interrupt handed over": _event(seen, "irq")})  # fmt: skip


def register_read(device: Device) -> Cycles:
    """Reads a register through memory: the store of the request, the write of the response."""
    request = defs.REG_BITS.MMIO_REG_READ.pack(REQ_ID=1, REG_OFF=int(defs.Reg.VERSION))
    begin(device, host.store(defs.EFA_REG_BAR, int(defs.Reg.MMIO_REG_READ),
                             request.to_bytes(4, "little")))  # fmt: skip
    device.run_until(host.drained(), BORDER, "border")
    device.settle()
    seen = Seen(device.link)
    return _stages({"start": seen.port(host.PIN_MMIO)["cycle"][0],
                    "response out": seen.port(host.PIN_WRITE)["cycle"][0]})  # fmt: skip


def command(device: Device) -> Cycles:
    """Runs an admin command: doorbell, AQE read, dispatch, response, interrupt."""
    begin(device, host.delay(0))
    device.run_until(host.drained(), BORDER, "border")
    device.driver.alloc_pd()
    device.settle()
    pins, events = device.link.log("pins"), device.link.log("events")

    def first(port: int) -> int:
        return pins["cycle"][pins["port"] == port][0]

    return _stages({
        "start": first(host.PIN_MMIO), "AQE requested": first(host.PIN_READ),
        "AQE received": first(host.PIN_RESPONSE),
        **{stage: where(events, name)["cycle"][0]
           for stage, name in (("dispatched", "aqcmd"), ("response handed over", "acq"),
                               ("interrupt handed over", "irq"))},
    })  # fmt: skip


# Bursts


def sends(queues: int, each: int, batch: int, size: int, inline: bool) -> Run:
    """Sends from several queues to the peer at once."""

    def run(device: Device) -> Cycles:
        ends = [_queue(device, SRD, 64, each, 1) for _ in range(queues)]
        ah = device.address_of(PEER)
        wqes: list[np.ndarray] = []
        for queue in ends:
            rows = traffic.pattern(queue, np.arange(each), size)
            how: dict[str, Any] = {"inline": rows}
            if not inline:
                source = device.buffer(each * size)
                device.memory.write(source.base, rows.tobytes())
                iovas = source.iova + np.arange(each) * size
                how = {"pieces": [(iovas, size, source.l_key)]}
            wqes.append(traffic.work_requests(queue, each, ah, 0x100 + queue.index, **how))
        stream = traffic.Stream()
        traffic.sends_in_turn(stream, ends, wqes, batch)
        begin(device, stream.requests())
        seen = finish(device, queues * each)
        seen.check_completions(ends, device.memory)
        seen.check_sent(ends, work.payload(size))
        start = seen.port(host.PIN_MMIO)["cycle"][0]
        return {"flits out": _since(start, seen.first_flits_out()),
                "completions": _since(start, seen.completion_times([q.send_cq for q in ends]))}

    return run


def receives(queues: int, each: int, size: int) -> Run:
    """Receives packets of the peer, round robin over the queues, back to back."""

    def run(device: Device) -> Cycles:
        ends = [_queue(device, SRD, 64, 4, each) for _ in range(queues)]
        device.address_of(PEER)
        spaces = [device.buffer(each * size) for _ in ends]
        for queue, space in zip(ends, spaces, strict=True):
            iovas = space.iova + np.arange(each) * size
            device.post(traffic.post_receives(device, queue, iovas, size, space.l_key))
        incarnation = device.incarnation()
        begin(device, host.delay(0))
        device.run_until(host.drained(), BORDER, "border")
        packets = [
            traffic.data_packets(queue, [number * queues + at],
                                 traffic.pattern(queue, [number], size), incarnation)[0]
            for number in range(each) for at, queue in enumerate(ends)
        ]  # fmt: skip
        device.inject(packets)
        seen = finish(device, queues * each)
        seen.check_completions(ends, device.memory)
        for queue, space in zip(ends, spaces, strict=True):
            wanted = traffic.pattern(queue, np.arange(each), size).tobytes()
            if device.memory.read(space.base, each * size) != wanted:
                raise PerfError("data differs")
        came = seen.port(host.PIN_IN)["cycle"]
        return {"last flit in": int(came[-1] - came[0]),
                "completions": _since(came[0],
                                      seen.completion_times([q.recv_cq for q in ends]))}

    return run


def loops(queues: int, each: int, size: int) -> Run:
    """Sends from queues to their neighbours on the same device, posted at once."""

    def run(device: Device) -> Cycles:
        open_session(device)
        ends = [_queue(device, SRD, 64, each, each) for _ in range(queues)]
        ah = device.address_of(NODE)
        wqes: list[np.ndarray] = []
        spaces: list[tuple[Buffer, np.ndarray]] = []
        for queue, peer in zip(ends, ends[1:] + ends[:1], strict=True):
            source, space = device.buffer(each * size), device.buffer(each * size)
            data = traffic.pattern(queue, np.arange(each), size)
            device.memory.write(source.base, data.tobytes())
            steps = np.arange(each) * size
            wqes.append(traffic.work_requests(queue, each, ah, peer.number,
                                              pieces=[(source.iova + steps, size, source.l_key)]))
            device.post(traffic.post_receives(device, peer, space.iova + steps, size, space.l_key))
            spaces.append((space, data))
        stream = traffic.Stream()
        traffic.sends_in_turn(stream, ends, wqes, each)
        begin(device, stream.requests())
        seen = finish(device, 2 * queues * each)
        seen.check_completions(ends, device.memory)
        if any(
            device.memory.read(space.base, data.size) != data.tobytes() for space, data in spaces
        ):
            raise PerfError("data differs")
        start = seen.port(host.PIN_MMIO)["cycle"][0]
        return {"flits out": _since(start, seen.first_flits_out()),
                "receive completions": _since(
                    start, seen.completion_times([q.recv_cq for q in ends])),
                "send completions": _since(
                    start, seen.completion_times([q.send_cq for q in ends]))}  # fmt: skip

    return run


def _since(start: int, times: ArrayLike) -> list[int]:
    """Returns the first time as cycles since `start`, each later time as a gap."""
    times = np.concatenate([[start], np.sort(times)]).astype("i8")
    return np.diff(times).tolist()


SCENARIOS = (
    Scenario("one SRD message, 8 bytes inline", one_message(8, inline=True)),
    Scenario("one SRD message, 32 bytes inline", one_message(32, inline=True), True),
    Scenario("one SRD message, 80 bytes inline", one_message(80, inline=True, wqe_bytes=128)),
    Scenario("one SRD message, 64 bytes from memory", one_message(64), True),
    Scenario("one SRD message, 65 bytes from an odd address", one_message(65, offset=13)),
    Scenario("one SRD message, 512 bytes in two pieces", one_message(512, pieces=2)),
    Scenario("one SRD message, 4096 bytes", one_message(4096)),
    Scenario("one datagram, 32 bytes inline", one_message(32, UD, inline=True)),
    Scenario("one datagram, 64 bytes from memory", one_message(64, UD)),
    Scenario("one packet in, 64 bytes", one_receive(64)),
    Scenario("completion with event and interrupt", event),
    Scenario("register read without a read", register_read),
    Scenario("admin command ALLOC_PD", command),
    Scenario("16 inline sends, one queue, one doorbell", sends(1, 16, 16, 32, True), True),
    Scenario("16 inline sends, one queue, a doorbell each", sends(1, 16, 1, 32, True)),
    Scenario("32 inline sends, 8 queues, a doorbell each", sends(8, 4, 1, 32, True)),
    Scenario("32 sends of 64 bytes, 4 queues, a doorbell each queue", sends(4, 8, 8, 64, False)),
    Scenario("32 packets in of 64 bytes, 4 queues", receives(4, 8, 64)),
    Scenario("32 messages of 64 bytes, 4 queues, through the fabric", loops(4, 8, 64)),
    Scenario("8 messages of 4096 bytes, 2 queues, through the fabric", loops(2, 4, 4096)),
)
