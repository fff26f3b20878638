# SPDX-License-Identifier: Apache-2.0
"""Evaluates the logs of a run: handshakes at the pins, completions, packets and their checks.

Times are cycle numbers of handshakes. A rate is measured over the middle of a run, without the
first and the last messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from efa_cosim.boundary.events import field, of_kind, where
from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import get_column
from efa_cosim.transport.packets import BITMAP_BYTES
from tb.lib import requests as host
from tb.lib.host import MappedMemory, OuterLink
from tb.perf.queues import (
    NODE,
    PEER,
    QKEY,
    RECEIVE_ENTRY,
    Buffer,
    Completions,
    PerfError,
    Queue,
)
from tb.perf.traffic import COUNTER_MASK

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

FIRST, LAST = 1, 2
PORTS = ("s_mmio", "m_dma_rd", "s_dma_rd_cpl", "m_dma_wr", "m_net", "s_net")
AGREE = 0.01
STARTS = 64  # messages with which the window of a rate may begin
HEAD, RDMA = defs.SrdHdr.SIZE, defs.PktRdma.SIZE
ANOMALIES = ("anomaly_host", "anomaly_admin", "anomaly_net", "qperr")
CHECKED_EVENTS = ("db", "llq", "tx_first", "cqe", *ANOMALIES)
EVENT_MASK = sum(1 << int(defs.Ev[name.upper()]) for name in CHECKED_EVENTS)

# Arrays of each queue pair, by its number.
Arrays: TypeAlias = dict[int, list[np.ndarray]]


class Seen:
    """The logs of a run, read once."""

    def __init__(self, link: OuterLink, all_completions: bool = True) -> None:
        self.pins = link.log("pins")
        self.events = link.log("events")
        self._writes = link.log("writes") if all_completions else None
        self._packets: tuple[np.ndarray, list[bytes]] | None = None
        self._link = link

    def port(self, port: int) -> np.ndarray:
        """Returns the handshakes of one port (PIN_* of tb.lib.requests)."""
        return self.pins[self.pins["port"] == port]

    @property
    def packets(self) -> tuple[np.ndarray, list[bytes]]:
        """Records and bytes of the packets that left."""
        if self._packets is None:
            self._packets = self._link.log("packets")
        return self._packets

    # Times

    def first_flits_out(self) -> np.ndarray:
        """Returns the cycles of the first flit of each data packet that left."""
        return self._first_flits(host.PIN_OUT)

    def first_flits_in(self) -> np.ndarray:
        """Returns the cycles of the first flit of each data packet that came."""
        return self._first_flits(host.PIN_IN)

    def last_flits_in(self) -> np.ndarray:
        """Returns the cycles of the last flit of each data packet that came."""
        flits = self.port(host.PIN_IN)
        starts = np.flatnonzero(flits["b"] & FIRST)
        ends = np.flatnonzero(flits["b"] & LAST)
        return flits["cycle"][ends[_is_data(flits[starts])]]

    def _first_flits(self, port: int) -> np.ndarray:
        flits = self.port(port)
        starts = (flits["b"] & FIRST) != 0
        return flits["cycle"][starts & _is_data(flits)]

    def completion_times(self, cqs: Iterable[Completions]) -> np.ndarray:
        """Returns the cycles of the CQE writes of some CQs, once per CQE in a beat."""
        beats = self.port(host.PIN_WRITE)
        beats = beats[(beats["b"] & 1) != 0]
        counts = np.zeros(len(beats), "i8")
        for cq in cqs:
            mine = (beats["a"] >= cq.base) & (beats["a"] < cq.end)
            counts[mine] = (beats["b"][mine] >> 1) // cq.entry_bytes
        return np.repeat(beats["cycle"], counts)

    def stores(self, bar: int) -> np.ndarray:
        """Returns the handshakes of stores to a BAR, in order."""
        stores = self.port(host.PIN_MMIO)
        return stores[stores["a"] >> np.uint64(32) == bar]

    def busy(self, window: Steady) -> dict[str, Any]:
        """Returns the share of cycles of a Steady in which each port had a handshake."""
        inside = (self.pins["cycle"] > window.begin) & (self.pins["cycle"] <= window.end)
        counts = np.bincount(self.pins["port"][inside], minlength=len(PORTS))
        shares = {
            name: round(int(count) / (window.end - window.begin), 4)
            for name, count in zip(PORTS, counts, strict=True)
        }
        return {"busy": shares, "busiest_port": max(shares, key=shares.__getitem__)}

    def check_events(self, name: str, window: Steady, **wanted: int) -> None:
        """Checks that the ev_* events of the device match the rate at the pins, to a percent."""
        cycles = where(self.events, name, **wanted)["cycle"]
        count = int(((cycles > window.begin) & (cycles <= window.end)).sum())
        if abs(count - window.messages) > AGREE * window.messages:
            raise PerfError(f"{count} events {name} where the pins show {window.messages}")

    # Checks for all measurements

    def check_quiet(self) -> None:
        """Checks that no store was refused, no packet dropped and no anomaly reported."""
        for name in ANOMALIES:
            if len(of_kind(self.events, name)):
                raise PerfError(f"{len(of_kind(self.events, name))} events {name}")
        for name in ("db", "llq"):
            found = of_kind(self.events, name)
            refused = found[field(found, name, "status") != 0]
            if len(refused):
                raise PerfError(f"{len(refused)} of {len(found)} {name} stores refused, the first "
                                f"in cycle {int(refused['cycle'][0])}")  # fmt: skip

    def check_doorbells(self, queue: Queue, kind: int, values: np.ndarray) -> None:
        """Checks that every doorbell value of a queue was received in order."""
        found = where(self.events, "db", kind=kind, num=queue.index)
        if not np.array_equal(field(found, "db", "value") & COUNTER_MASK, values):
            raise PerfError(f"doorbells of queue {queue.number}: {len(found)} seen of "
                            f"{len(values)}, or other counts")  # fmt: skip

    def entries(self, cq: Completions, memory: MappedMemory) -> np.ndarray:
        """Returns all CQEs of a queue in order, after a check of slot and phase."""
        entry = RECEIVE_ENTRY[cq.entry_bytes]
        if self._writes is None:
            if cq.posted > cq.depth:
                raise PerfError(f"CQ {cq.number}: CQEs of earlier wraps were overwritten")
            data = memory.read(cq.base, cq.posted * cq.entry_bytes)
            slots = np.arange(cq.posted)
        else:
            records, parts = self._writes
            mine = np.flatnonzero((records["addr"] >= cq.base) & (records["addr"] < cq.end))
            data = b"".join(parts[at] for at in mine)
            starts = (records["addr"][mine].astype("i8") - cq.base) // cq.entry_bytes
            slots = np.concatenate(
                [np.arange(at, at + len(parts[n]) // cq.entry_bytes)
                 for at, n in zip(starts, mine, strict=True)] or [np.zeros(0, "i8")]
            )  # fmt: skip
        found = np.frombuffer(data, entry.DTYPE)
        if len(found) != cq.posted:
            raise PerfError(f"CQ {cq.number}: {len(found)} of {cq.posted} completions")
        numbers = np.arange(len(found))
        if not np.array_equal(slots, numbers % cq.depth):
            raise PerfError(f"CQ {cq.number}: entries out of order")
        base = found["base"] if cq.entry_bytes == 32 else found
        phase = get_column(defs.IoCdescCommon, base["common"], "phase")
        if not np.array_equal(phase, 1 - numbers // cq.depth % 2):
            raise PerfError(f"CQ {cq.number}: wrong phase")
        return base

    def check_completions(self, queues: Sequence[Queue], memory: MappedMemory) -> Arrays:
        """Checks that every work request completed once with OK; sends in any order."""
        sends: Arrays = {}
        receives: Arrays = {}
        known: Arrays = {}
        for cq in {id(c): c for q in queues for c in (q.send_cq, q.recv_cq)}.values():
            found = self.entries(cq, memory)
            common = found["common"]
            if common["status"].any():
                bad = np.unique(common["status"])
                raise PerfError(f"CQ {cq.number}: completions with status {bad.tolist()}")
            side = get_column(defs.IoCdescCommon, common, "q_type")
            for number in np.unique(common["qp_num"]):
                mine = common["qp_num"] == number
                for kind, into in ((defs.IoQueueType.SEND_QUEUE, sends),
                                   (defs.IoQueueType.RECV_QUEUE, receives)):  # fmt: skip
                    into.setdefault(int(number), []).append(common["req_id"][mine & (side == kind)])
                known.setdefault(int(number), []).append(found[mine])
        for queue in queues:
            for what, into, count in (("sends", sends, queue.sent),
                                      ("receives", receives, queue.received)):  # fmt: skip
                got = np.concatenate(into.get(queue.number, [np.zeros(0, "u2")]))
                wanted = np.arange(count) & COUNTER_MASK
                if what == "sends":
                    got, wanted = np.sort(got), np.sort(wanted)
                if not np.array_equal(got, wanted):
                    raise PerfError(f"queue {queue.number}: {what} completed: {len(got)} of "
                                    f"{count}, or others than were posted")  # fmt: skip
        return known

    def check_sent(
        self,
        queues: Sequence[Queue],
        payloads: Callable[[Queue, np.ndarray], np.ndarray],
        peers: Sequence[int] = (PEER,),
    ) -> None:
        """Checks that every message left once with its header and bytes, in order per queue.

        The sequence numbers of a peer have no gap. `payloads` returns rows of (queue, numbers). The
        queues send to the peers in turn.
        """
        heads, rows = self._sent(defs.PktOpcode.SRD_SEND)
        total = sum(queue.sent for queue in queues)
        if len(heads) != total:
            raise PerfError(f"{len(heads)} messages left, {total} were posted")
        if (heads["qkey"] != QKEY).any() or (heads["src_node"] != NODE).any():
            raise PerfError("a header is wrong")
        for place, queue in enumerate(queues):
            mine = heads["src_qpn"] == queue.number
            if (heads["dst_node"][mine] != peers[place % len(peers)]).any():
                raise PerfError(f"queue {queue.number}: a packet to another node")
            if not np.array_equal(rows[mine], payloads(queue, np.arange(queue.sent))):
                raise PerfError(f"queue {queue.number}: payload on the wire differs")

    def _sent(self, opcode: defs.PktOpcode) -> tuple[np.ndarray, np.ndarray]:
        """Returns headers of the packets of an opcode, and rows of the bytes behind them.

        The packets have one size, and those to a node have sequence numbers from 0 without a gap.
        """
        _, parts = self.packets
        parts = [part for part in parts if part[0] == int(opcode)]
        sizes = {len(part) for part in parts}
        if len(sizes) != 1:
            raise PerfError(f"packets of {sorted(sizes)} bytes")
        rows = np.frombuffer(b"".join(parts), "u1").reshape(len(parts), -1)
        heads = rows[:, :HEAD].copy().view(defs.SrdHdr.DTYPE)[:, 0]
        rows = rows[:, HEAD:]
        names = heads["dst_node"].astype("u8") << np.uint64(32) | heads["psn"]
        again = len(heads) - len(np.unique(names))
        if again:
            raise PerfError(f"{again} packets were sent again")
        for node in np.unique(heads["dst_node"]):
            numbers = heads["psn"][heads["dst_node"] == node]
            if not np.array_equal(numbers, np.arange(len(numbers))):
                raise PerfError(f"node {node}: sequence numbers have holes")
        return heads, rows

    def check_rdma_sent(
        self,
        opcode: defs.PktOpcode,
        queues: Sequence[Queue],
        each: int,
        size: int,
        r_key: int,
        places: Callable[[Queue, np.ndarray], np.ndarray],
        payloads: Callable[[Queue, np.ndarray], np.ndarray],
    ) -> None:
        """Checks that each byte of `each` operations of `size` bytes of every queue left once.

        `r_key` is that of each packet. `places` returns the first byte of packets in the operations
        of a queue, from (queue, RDMA headers); `payloads` returns rows of (queue, numbers).
        """
        heads, rest = self._sent(opcode)
        rdma = rest[:, :RDMA].copy().view(defs.PktRdma.DTYPE)[:, 0]
        rows = rest[:, RDMA:]
        key = 0 if opcode == defs.PktOpcode.READ_RESPONSE else QKEY
        if (heads["qkey"] != key).any() or (heads["src_node"] != NODE).any():
            raise PerfError("a header is wrong")
        if (heads["dst_node"] != PEER).any():
            raise PerfError("a packet to another node")
        if (rdma["total"] != size).any() or (rdma["rkey"] != r_key).any() or rdma["status"].any():
            raise PerfError("an RDMA header is wrong")
        for queue in queues:
            mine = heads["src_qpn"] == queue.number
            found = places(queue, rdma[mine])
            order = np.argsort(found)
            if not np.array_equal(found[order], np.arange(0, each * size, rows.shape[1])):
                raise PerfError(f"queue {queue.number}: {len(found)} packets of {each} operations, "
                                "or of other places")  # fmt: skip
            if not np.array_equal(rows[mine][order].reshape(each, size),
                                  payloads(queue, np.arange(each))):
                raise PerfError(f"queue {queue.number}: payload on the wire differs")

    def check_requests(self, count: int) -> None:
        """Checks that `count` read requests left, and no other data packet."""
        heads, _ = self._sent(defs.PktOpcode.READ_REQUEST)
        if not len(heads) == len(self.first_flits_out()) == count:
            raise PerfError(f"{len(heads)} read requests of {count} left, or other packets")

    def payload_written(self, space: Buffer) -> np.ndarray:
        """Returns the handshakes of payload beats to a buffer."""
        beats = self.port(host.PIN_WRITE)
        return beats[(beats["a"] >= space.base) & (beats["a"] < space.base + space.length)]

    def check_written(self, spaces: Sequence[Buffer], size: int, times: int) -> None:
        """Checks that each message of `size` bytes in the buffers was written `times` times."""
        for space in spaces:
            places = (self.payload_written(space)["a"].astype("i8") - space.base) // size
            counts = np.bincount(places, minlength=space.length // size)
            if (counts != times * -(-size // host.LINE)).any():
                raise PerfError(f"{counts.sum()} payload beats at {space.base:#x}, expected "
                                f"{times} times {space.length // host.LINE}")  # fmt: skip

    def check_once(self, count: int) -> None:
        """Checks that `count` data packets left and came; only the first ones, which meet the quiet
        time of the receiver, may have done so twice."""
        for port in (host.PIN_OUT, host.PIN_IN):
            seen = len(self._first_flits(port))
            if not count <= seen <= count + defs.TRANSPORT.cwnd_initial:
                raise PerfError(f"{PORTS[port]}: {seen} packets of {count} messages")

    def check_responses(self, count: int) -> None:
        """Checks that acknowledgements show each of `count` packets as accepted, none refused."""
        _, parts = self.packets
        acks = b"".join(part for part in parts if part[0] == int(defs.PktOpcode.SRD_ACK))
        heads = np.frombuffer(acks, defs.SrdAck.DTYPE)
        bitmaps = np.frombuffer(acks, "u1").reshape(len(heads), -1)[:, -BITMAP_BYTES:]
        ack, bit = np.nonzero(np.unpackbits(bitmaps, axis=1, bitorder="little"))
        accepted = heads["dst_node"][ack].astype("u8") << np.uint64(32)
        accepted |= (heads["bitmap_psn"][ack] + bit).astype("u8")
        shown = len(np.unique(accepted))
        if shown != count or heads["status"].any():
            raise PerfError(f"{shown} packets acknowledged of {count}, or not OK")


def _is_data(firsts: np.ndarray) -> np.ndarray:
    """Tells which packets are no acknowledgements, by their first flits."""
    return (firsts["a"] & 0xFF) != int(defs.PktOpcode.SRD_ACK)


class Steady(NamedTuple):
    """Events per cycle over the middle of a run, their number, first and last cycle."""

    rate: float
    messages: int
    begin: int
    end: int


def steady(times: ArrayLike, warm: int, tail: int, whole: int = 1) -> Steady:
    """Returns the Steady of cycle numbers, without the first `warm` and the last `tail`.

    The number of messages is a multiple of `whole`, the messages of one period, because a part of a
    period can be faster than the limit. Of the windows with this number that begin with one of the
    first STARTS messages, the slowest counts: the order within a burst does not add to the rate."""
    times = np.sort(np.asarray(times, "i8"))
    count = (len(times) - tail - warm - STARTS) // whole * whole
    if count <= 0:
        raise PerfError(f"{len(times)} messages are too few for a steady state: expected at least "
                        f"{warm + tail + STARTS + whole}")
    first = warm + int(np.argmax(times[warm + count :][:STARTS] - times[warm:][:STARTS]))
    begin, end = int(times[first]), int(times[first + count])
    return Steady(count / (end - begin), count, begin, end)
