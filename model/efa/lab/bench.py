"""One run of the laboratory: a process sends over several queues, a tap and a checker look on."""

import hashlib
import random
from dataclasses import asdict, dataclass, field

import numpy as np

from efa import defs
from efa.completion_queue import VerbsError
from efa.endpoints import QKEY, SRD, Node
from efa.lab.bugs import planted
from efa.lab.checker import Checker
from efa.lab.explain import breach
from efa.lab.trace import LLQ, RUNG, Tap
from efa.lab.verdict import CLEAN, name
from efa.queue_pair import INLINE_64
from efa.wc import StoreBuffer

# Depth and entry size of the queues of a run: batches larger than max_tx_batch must fit some.
ROUNDS = ((4, 64), (8, 64), (32, 64), (8, 128), (16, 128))
LEAST_BYTES = 8
_DATA = {defs.PktOpcode.SRD_SEND, defs.PktOpcode.UD_SEND}


@dataclass
class Run:
    """What one run was, and what came of it.

    breach: why correct code cannot have left this trace, empty where it can. garbage: packets
    that carry what nobody sent. beats: stores to LLQ memory. digest: of these and of doorbells, in
    order.
    """

    bug: str | None
    buffer: str
    seed: int
    backend: str
    verdict: str = CLEAN
    why: str = ""
    breach: str = ""
    device: dict = field(default_factory=dict)
    sent: int = 0
    arrived: int = 0
    garbage: int = 0
    entries: int = 0
    units: int = 0
    beats: int = 0
    doorbells: int = 0
    digest: str = ""

    @property
    def right(self):
        """True when each message arrived, once, in order and unchanged."""
        return self.sent == self.arrived and not self.garbage

    @property
    def found(self):
        """True when checker or device say that something is wrong."""
        return self.verdict != CLEAN or bool(self.device)

    @property
    def hidden(self):
        """True when nobody can see anything: a legal trace, and every result right."""
        return not self.breach and self.right and not self.device

    def as_dict(self):
        """Plain values for JSON."""
        return asdict(self)


def run(backend, bug, buffer, seed):
    """Plays one seed on a backend that was opened with record=True; the Run."""
    buffer = StoreBuffer.of(buffer)
    told = Run(bug, str(buffer), seed, backend.name)
    rng = random.Random(f"laboratory {seed}")
    tap = Tap(backend)
    node = Node(tap, buffer, seed, planted(bug, seed))
    for depth, entry_bytes in rng.sample(ROUNDS, len(ROUNDS)):
        _round(node, tap, rng, depth, entry_bytes, told)
    findings = Checker().check(tap.items)
    told.verdict, told.why = name(findings)
    told.breach = breach(tap.items) or ""
    told.device = dict(findings.device)
    told.beats = sum(item.kind == LLQ for item in tap.items)
    told.doorbells = sum(item.kind == RUNG for item in tap.items)
    told.digest = _digest(tap.items)
    return told


def _digest(items):
    state = hashlib.sha256()
    for item in items:
        if item.kind == LLQ:
            state.update(item.what.to_bytes(4, "little") + item.data)
        elif item.kind == RUNG:
            state.update(f"{item.what.doorbell}:{item.data}".encode())
    return state.hexdigest()[:16]


def _round(node, tap, rng, depth, entry_bytes, told):
    """One queue from its birth to its end: the ring is kept full, and wraps several times."""
    context, pd = node.context, node.pd
    most = INLINE_64 if entry_bytes == 64 else node.driver.inline_bytes
    cqs = [context.create_cq(4 * depth) for _ in range(2)]
    sender = pd.create_qp(cqs[0], cqs[0], SRD, max_send_wr=depth, max_recv_wr=1,
                          max_inline=most if entry_bytes == 128 else INLINE_64).to_rts(QKEY)
    receiver = pd.create_qp(cqs[1], cqs[1], SRD, max_send_wr=1, max_recv_wr=4 * depth).to_rts(QKEY)
    region = pd.reg_mr(128)
    shape = tap.watch(sender)
    tap.packets()
    total = 3 * depth + rng.randrange(depth)
    sent = _traffic(node, tap, rng, sender, receiver, region, most, total)
    context.enter_kernel()
    tap.settle()
    tap.leave(shape)
    _results(tap, sender.number, sent, told)
    told.entries += len(sent)
    told.units += len(sent) * entry_bytes // 64
    for qp, cq in ((sender, cqs[0]), (receiver, cqs[1])):
        qp.destroy()
        cq.destroy()
    region.dereg()


def _traffic(node, tap, rng, sender, receiver, region, most, total):
    """Sends until all is sent or something stays out; what was posted, in order."""
    posted, done = [], 0
    to = {"ah": node.ah_of(tap.node_id), "dest_qp": receiver.number, "qkey": QKEY}
    while done < total:
        count = min(sender.sq.room, total - len(posted), rng.randint(1, sender.sq_depth))
        if count:
            size = rng.randrange(LEAST_BYTES, most + 1)
            rows = np.frombuffer(rng.randbytes(count * size), "u1").reshape(count, size)
            receiver.post_recv_many(np.arange(count), region.addr, 128, region.l_key)
            sender.post_send_many(np.arange(count), **to, inline=rows)
            posted += [row.tobytes() for row in rows]
            if len(posted) < total and sender.sq.room and rng.random() < 0.5:
                continue
        tap.settle()
        receiver.recv_cq.poll_array()
        try:
            ended = sender.send_cq.poll_array()
        except VerbsError:
            # The entry whose id was not written completes under another one: an error anyway.
            break
        done += len(ended)
        if not len(ended) or ended["status"].any():
            break
    return posted


def _results(tap, number, posted, told):
    """Compares what went over the wire with what was posted."""
    went = []
    for packet in tap.packets():
        head = defs.PktHdr.unpack(packet)
        if head.opcode in _DATA and head.src_qpn == number:
            went.append(packet[defs.PktHdr.SIZE :][: head.length])
    told.sent += len(posted)
    told.arrived += sum(a == b for a, b in zip(went, posted, strict=False))
    known = set(posted)
    told.garbage += sum(payload not in known for payload in went)
