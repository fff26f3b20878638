# SPDX-License-Identifier: Apache-2.0
"""Runs an untrusted tenant beside a victim on one device: random stores through its own pages.

The untrusted process stores anything anywhere in its doorbell page and its LLQ pages, and writes
descriptors of any content into its rings. It knows every number of the victim but no QKey. The
victim continues its work and checks every byte, completion and order of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from efa_cosim.host.alloc import PAGE_BYTES
from efa_cosim.host.completion_queue import CompletionQueue
from efa_cosim.host.endpoints import SRD, UD, Endpoint, Node, pattern
from efa_cosim.host.queue_pair import SendWr, Sge
from efa_cosim.host.verbs import Context, gid_of
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from random import Random

    from efa_cosim.boundary.backend import Store

LIMITS = defs.LIMITS
STATE = defs.AdminQpState
OWN_QKEY = 0x0BAD_0BAD
LINE = 64
DEPTH = 16
REGION_BYTES = 1 << 16
MESSAGE_STRIDE = 4352
VICTIM_BUFFERS = 8


class Intrusion(AssertionError):
    """The untrusted tenant has affected the victim; the text says how."""


@dataclass
class TenantKnobs:
    """Sets the number of tenant stores, in total and between two checks of the victim."""

    stores: int = 20_000
    burst: int = 200
    queues: int = 4


class Posted(NamedTuple):
    """Messages that the victim has posted: sender, receiver, id of the first one, their sizes."""

    sender: Endpoint
    receiver: Endpoint
    first: int
    sizes: list[int]


class Victim:
    """Exchanges messages between two queue pairs of each kind; mirrors all their memory."""

    def __init__(self, node: Node, rng: Random) -> None:
        self.node, self.rng = node, rng
        self.ends = [(Endpoint(node, kind, depth=32, events=True),
                      Endpoint(node, kind, depth=32)) for kind in (SRD, UD)]  # fmt: skip
        self.mirrors = {}
        for end in self.each():
            filling = rng.randbytes(end.buffer.length)
            end.buffer.write(0, filling)
            self.mirrors[end] = bytearray(filling)
        self.sent = self.rounds = 0
        self.open: list[Posted] = []
        self.sender = self.ends[0][0]

    def each(self) -> list[Endpoint]:
        return [end for pair in self.ends for end in pair]

    def post(self, pair: Any) -> None:
        """Posts messages one way between two of its queue pairs and records the expected result."""
        a, b = pair
        if self.rng.getrandbits(1):
            a, b = b, a
        self.sender = a
        sizes = [self.rng.choice((1, 32, 60, 500, 2000, 4096)) for _ in range(VICTIM_BUFFERS)]
        if a is pair[0]:
            # The event queue is shared.
            a.cq.req_notify()
        for number in range(len(sizes)):
            b.receive(4096, wr_id=self.sent + number, offset=number * MESSAGE_STRIDE)
        for number, size in enumerate(sizes):
            data = pattern(size, self.sent + number)
            at = (VICTIM_BUFFERS + number) * MESSAGE_STRIDE
            a.send(b, data, wr_id=self.sent + number, offset=at)
            self.mirrors[a][at : at + size] = data
            start = number * MESSAGE_STRIDE + b.skip
            self.mirrors[b][start : start + size] = data
        self.open.append(Posted(a, b, self.sent, sizes))
        self.sent += len(sizes)

    def look(self) -> None:
        """Waits for the posted work: every message arrives once, complete and in order."""
        self.rounds += 1
        for one in self.open:
            a, b, first, sizes = one.sender, one.receiver, one.first, one.sizes
            for end, wanted in ((b, [size + b.skip for size in sizes]), (a, None)):
                done = end.cq.wait_for(len(sizes))
                if done["status"].any():
                    raise Intrusion(f"a victim's completion has status {done['status']}")
                if done["receive"].tolist() != [wanted is not None] * len(sizes):
                    raise Intrusion("unexpected completions of the victim's other queue")
                # SRD sends may complete in any order, receives may not.
                ids = done["wr_id"].tolist() if wanted else sorted(done["wr_id"].tolist())
                if ids != list(range(first, first + len(sizes))):
                    raise Intrusion(f"the victim's work ended as {ids}, posted from {first} on")
                if wanted and done["byte_len"].tolist() != wanted:
                    raise Intrusion(f"{done['byte_len']} bytes received, {wanted} were sent")
            for number, size in enumerate(sizes):
                start = number * MESSAGE_STRIDE + b.skip
                if b.buffer.read(start, size) != pattern(size, first + number):
                    raise Intrusion(f"message {first + number} of the victim is not what was sent")
                if b.skip:
                    self.mirrors[b][start - b.skip : start] = b.buffer.read(start - b.skip, b.skip)
        self.open.clear()

    def inspect(self) -> None:
        """Checks all memory of the victim and the state of its queue pairs."""
        for end, mirror in self.mirrors.items():
            held = end.buffer.read(0, len(mirror))
            if held != mirror:
                at = next(i for i in range(len(mirror)) if held[i] != mirror[i])
                raise Intrusion(f"the victim's buffer changed at {at:#x}: {held[at:][:16].hex()}")
            state = self.node.driver.query_qp(end.qp.handle).qp_state
            if state != STATE.RTS:
                raise Intrusion(f"the victim's queue pair is in {STATE(state).name}")


class UntrustedTenant:
    """A process with its own UAR, PD, queues and memory that stores arbitrary data."""

    def __init__(self, node: Node, victim: Any, rng: Random, queues: int) -> None:
        self.driver, self.backend, self.victim, self.rng = node.driver, node.backend, victim, rng
        self.context = Context(node.driver, buffer="ideal", seed=rng.getrandbits(16))
        self.pd = self.context.alloc_pd()
        self.cqs = [CompletionQueue(self.context, DEPTH, events=bool(n)) for n in range(2)]
        self.region = self.pd.reg_mr(REGION_BYTES, scattered=True)
        self.ah = self.pd.create_ah(gid_of(node.backend.node_id))
        self.qps = [
            self.pd.create_qp(rng.choice(self.cqs), rng.choice(self.cqs), (SRD, UD)[n % 2],
                              max_send_wr=DEPTH, max_recv_wr=DEPTH).to_rts(OWN_QKEY)
            for n in range(queues)
        ]  # fmt: skip
        self.page = self.context.uar * LIMITS.db_page_bytes
        self.stores = self.repaired = 0
        self.moves: tuple[Callable[[], list[Store]], ...] = (self.anywhere,)

    def burst(self, count: int) -> None:
        """Makes `count` stores: random ones, or mostly valid ones that keep its queues in RTS."""
        if self.rng.random() < 0.5:
            self.repair()
            self.moves, count = (self.entry, self.entry, self.receive, self.cq), min(count, DEPTH)
        else:
            self.moves = (self.doorbell, self.doorbell, self.anywhere, self.llq, self.llq,
                          self.entry, self.entry, self.receive, self.cq)  # fmt: skip
        items: list[Store] = []
        while len(items) < count:
            items += self.some()
        self.backend.stores(items)

    def some(self) -> list[Store]:
        """Returns one store, or a few that belong together."""
        items = self.rng.choice(self.moves)()
        self.stores += len(items)
        return items

    def own(self, offset: int, data: bytes) -> list[Store]:
        """Returns a store inside its doorbell page, split where the bus splits it."""
        offset, data = offset % LIMITS.db_page_bytes, data[: LIMITS.db_page_bytes - offset]
        space = LINE - offset % LINE
        parts = [(offset, data[:space]), (offset + space, data[space:])]
        return [(self.driver.db_bar, self.page + at, part) for at, part in parts if part]

    def value(self) -> int:
        """Returns a doorbell value: near zero, 16 random bits, or 32 random bits."""
        rng = self.rng
        return rng.choice((rng.randrange(DEPTH + 2), rng.getrandbits(16), rng.getrandbits(32)))

    def doorbell(self) -> list[Store]:
        """Returns a doorbell of its own queue, or of a victim's queue through its own page."""
        theirs = [end.qp for end in self.victim.each()]
        qp = self.rng.choice([*self.qps, *theirs])
        at = self.rng.choice((qp.sq_db, qp.rq_db)) % LIMITS.db_page_bytes
        return self.own(at, self.value().to_bytes(4, "little"))

    def cq(self) -> list[Store]:
        """Returns a CQ doorbell of its own or the victim's queue, armed or not."""
        cqs = [*self.cqs, *(end.cq for end in self.victim.each())]
        at = LIMITS.db_cq_base + 4 * self.rng.choice(cqs).number
        return self.own(at, (self.value() | self.rng.getrandbits(1) << 31).to_bytes(4, "little"))

    def anywhere(self) -> list[Store]:
        """Returns a store of any bytes anywhere in its doorbell page."""
        size = self.rng.choice((1, 2, 4, 4, 8, 16, 64))
        return self.own(self.rng.randrange(LIMITS.db_page_bytes), self.rng.randbytes(size))

    def llq(self) -> list[Store]:
        """Returns a random store to its LLQ pages, often at the victim's present slot offset."""
        start = self.rng.choice(self.qps).llq & -LIMITS.llq_page_bytes
        at = self.rng.randrange(LIMITS.llq_page_bytes)
        if self.rng.getrandbits(1):
            theirs = self.victim.sender.qp
            slot = (theirs.sq.produced - 1) % theirs.sq_depth
            at = (slot * LINE + at % LINE) % LIMITS.llq_page_bytes
        size = min(self.rng.choice((1, 3, 4, 8, 32, 64)), LINE - at % LINE)
        return [(defs.EFA_MEM_BAR, start + at, self.rng.randbytes(size))]

    def memory(self) -> tuple[int, int]:
        """Returns a key and an address: its own, a victim's, mixed, or random."""
        rng, theirs = self.rng, self.rng.choice(self.victim.each()).buffer
        inside = theirs.addr + rng.randrange(theirs.length)
        known = (self.region.l_key, theirs.l_key, theirs.l_key ^ 1 << LIMITS.mr_w)
        own = self.region.addr + rng.randrange(REGION_BYTES)
        beside = self.region.addr - rng.randrange(1, 99)
        return rng.choice((
            (self.region.l_key, own), (theirs.l_key, inside), (theirs.l_key, inside),
            (rng.choice((*known, rng.getrandbits(24))),
             rng.choice((own, beside, inside, theirs.pages[0], rng.getrandbits(64)))),
        ))  # fmt: skip

    def entry(self) -> list[Store]:
        """Returns a nearly valid send WQE with random fields, and its doorbell."""
        rng, qp = self.rng, self.rng.choice(self.qps)
        theirs = rng.choice(self.victim.each())
        lengths = (0, 8, 100, 4096, rng.getrandbits(16))
        image = defs.IoTxWqe()
        meta = image.meta
        for name in ("meta_desc", "first", "last", "comp_req"):
            setattr(meta, name, rng.random() < 0.97)
        meta.op_type = rng.choice((0, 0, 0, 0, 1, 2, rng.randrange(16)))
        meta.has_imm, meta.req_id = rng.getrandbits(1), rng.getrandbits(16)
        meta.req_id_ex.w = [rng.getrandbits(16) for _ in range(3)]
        meta.length = rng.choice((0, 1, 2, 2, 3, rng.getrandbits(16)))
        meta.dest_qp_num = rng.choice((qp.number, theirs.qp.number, rng.getrandbits(16)))
        meta.ah = rng.choice((self.ah.number, self.ah.number, theirs.node.ah_of(
            self.backend.node_id), rng.getrandbits(16)))  # fmt: skip
        meta.qkey = rng.choice((OWN_QKEY, rng.getrandbits(32) | 1 << 31))
        for number in range(2):
            key, address = self.memory()
            image.data.sgl[number] = defs.IoTxBufDesc(
                length=rng.choice(lengths), lkey=key, buf_addr_lo=address & 0xFFFF_FFFF,
                buf_addr_hi=address >> 32)  # fmt: skip
        # The library does not track this queue: the slot that it regards as next.
        slot = qp.sq.produced % qp.sq_depth
        qp.sq.produced += 1
        ring = self.own(qp.sq_db % LIMITS.db_page_bytes,
                        (qp.sq.produced & 0xFFFF).to_bytes(4, "little"))  # fmt: skip
        return [(defs.EFA_MEM_BAR, qp.llq + slot * LINE, image.pack()), *ring]

    def receive(self) -> list[Store]:
        """Writes a receive descriptor of any content to its ring; returns its doorbell."""
        rng, qp = self.rng, self.rng.choice(self.qps)
        key, address = self.memory()
        descriptor = defs.IoRxDesc(
            buf_addr_lo=address & 0xFFFF_FFFF, buf_addr_hi=address >> 32, lkey=key,
            length=rng.choice((0, 64, 4096, 0xFFFF)), first=rng.getrandbits(1),
            last=rng.random() < 0.9, req_id=rng.getrandbits(16),
        )  # fmt: skip
        slot = qp.rq.produced % qp.rq_descriptors
        self.driver.memory.write(qp.receive_ring + slot * descriptor.SIZE, descriptor.pack())
        qp.rq.produced += 1
        return self.own(qp.rq_db % LIMITS.db_page_bytes,
                        (qp.rq.produced & 0xFFFF).to_bytes(4, "little"))  # fmt: skip

    def repair(self) -> None:
        """Resets all queue pairs to RTS; each sends itself one message."""
        for qp in self.qps:
            self.repaired += qp.query().qp_state == STATE.ERR
            # The library has not seen the error and names the state that it assumes.
            qp.modify(STATE.RESET)
            qp.to_rts(OWN_QKEY)
            piece = [Sge(self.region.addr, 64, self.region.l_key)]
            qp.post_recv(piece)
            qp.post_send(SendWr(ah=self.ah.number, dest_qp=qp.number, qkey=OWN_QKEY, sges=piece))


class Between:
    """Mixes tenant stores into the stores of the victim's context."""

    def __init__(self, backend: Any, tenant: Any) -> None:
        self._backend, self._tenant = backend, tenant

    def stores(self, items: Iterable[Store]) -> None:
        """Makes the victim's stores in their order."""
        mixed = []
        for item in items:
            mixed.append(item)
            if self._tenant.rng.random() < 0.3:
                mixed += self._tenant.some()
        self._backend.stores(mixed)


def no_strays(backend: Any, owned: Any) -> None:
    """Checks that the device wrote only memory given to it; needs a backend that records writes."""
    for address, data in backend.writes():
        for page in range(address & -PAGE_BYTES, address + len(data), PAGE_BYTES):
            if page not in owned:
                raise Intrusion(f"the device wrote {len(data)} bytes at {address:#x}, unowned")


def untrusted_tenant(
    backends: Sequence[Any],
    rng: Random,
    knobs: Any = None,
    progress: Any = None,
) -> dict[str, int]:
    """Runs a victim beside an untrusted tenant; returns both counts. Raises Intrusion."""
    knobs = knobs or TenantKnobs()
    node = Node(backends[0], seed=rng.getrandbits(16), cpus=1)
    victim = Victim(node, random.Random(rng.getrandbits(32)))
    tenant = UntrustedTenant(node, victim, rng, knobs.queues)
    # Between passes all calls on; only the type is not that of a backend.
    victim.node.context.backend = Between(backends[0], tenant)  # type: ignore[assignment]
    owned, turn = node.driver.allocator.pages(), 0
    while tenant.stores < knobs.stores:
        turn += 1
        for pair in victim.ends:
            tenant.burst(knobs.burst // 2)
            victim.post(pair)
        victim.look()
        no_strays(backends[0], owned)
        if not turn % 8:
            backends[0].settle()
            victim.inspect()
        if progress:
            progress(tenant.stores, knobs.stores)
    backends[0].settle()
    victim.inspect()
    return {"tenant stores": tenant.stores, "victim messages": victim.sent,
            "queue pairs repaired": tenant.repaired}  # fmt: skip
