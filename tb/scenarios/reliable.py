# SPDX-License-Identifier: Apache-2.0
"""Exchanges messages over a fabric that loses, duplicates and reorders packets."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.host.endpoints import SRD, UD, Endpoint, Node, create_all_handles, pattern
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from random import Random

    from efa_cosim.boundary.backend import Backend

STATUS, STATE = defs.IoCompStatus, defs.AdminQpState
SIZES = (0, 1, 31, 32, 33, 63, 64, 65, 97, 255, 1000, 2048, 4096, 8192)
# A slot holds the largest message and the bytes before a received datagram.
SLOT_BYTES = 9088
SLOTS = 12
RECEIVES_AT = SLOTS * SLOT_BYTES
# Upper bounds of the cycles from the posting of messages to an end.
PAUSES = 150, 500, 2000, 6000
# Losses in a row double the timeout; the first one is 262,144 cycles at most.
PATIENCE = {"timeout_cycles": 40_000_000}


class Stream:
    """Messages from one endpoint to another; `sent` are those by number."""

    def __init__(self, source: Endpoint, target: Endpoint, rng: Random) -> None:
        self.source, self.target, self.rng = source, target, rng
        self.sent: dict[int, bytes] = {}
        self.ended: dict[int, int] = {}  # status by number of the message
        self.arrived: list[int] = []  # numbers, in the order of their completions
        self.slots = list(range(SLOTS))  # that have no posted receive

    def post_receives(self) -> None:
        """Posts a receive into each free slot of the target."""
        space = min(self.target.node.driver.mtu, SLOT_BYTES - self.target.skip)
        for slot in self.slots:
            self.target.receive(space, wr_id=slot, offset=RECEIVES_AT + slot * SLOT_BYTES)
        self.slots = []

    def send(self, slot: int) -> None:
        """Sends one message from a slot of the source; its number is its immediate value."""
        number, mtu = len(self.sent), self.source.node.driver.mtu
        size = min(self.rng.choice(SIZES), mtu)
        data = self.sent[number] = pattern(size, self.rng.getrandbits(32))
        inline = size <= self.source.qp.max_inline and self.rng.random() < 0.5
        cut = size > 0 and not inline and self.rng.random() < 0.3
        split = self.rng.randrange(size) if cut else None
        self.source.send(self.target, data, wr_id=number, offset=slot * SLOT_BYTES, imm=number,
                         inline=inline, split=split)  # fmt: skip

    def complete(self, done: Any) -> None:
        """Takes completions of sends: each work request has one."""
        for one in done:
            number = int(one["wr_id"])
            assert number not in self.ended, f"send {number} completed twice"
            self.ended[number] = int(one["status"])

    def receive(self, done: Any, without: Collection[int] = ()) -> None:
        """Takes completions of receives: each message is intact. `without` are the permitted
        statuses of receives without a message."""
        for one in done:
            if one["status"] in without:
                continue
            assert one["status"] == STATUS.OK, f"receive {one['wr_id']}: status {one['status']}"
            slot, number = int(one["wr_id"]), int(one["imm"])
            data = self.sent[number]
            assert one["byte_len"] == self.target.skip + len(data), f"length of message {number}"
            at = RECEIVES_AT + slot * SLOT_BYTES + self.target.skip
            assert self.target.buffer.read(at, len(data)) == data, f"message {number} is corrupted"
            self.arrived.append(number)
            self.slots.append(slot)


def back_off(backend: Backend, rng: Random) -> int:
    """Draws cycles in which a refused message waits, or is sent again and refused again."""
    return rng.randrange(2 * defs.TRANSPORT.rnr_ticks * backend.tick_cycles)


def poll(out: Stream, into: Stream, count: int = 0, without: Collection[int] = ()) -> None:
    """Takes `count` completions of the source of `out`, or all that it has.

    `without` is as for Stream.receive.
    """
    cq = out.source.cq
    done = cq.wait_for(count, **PATIENCE) if count else cq.poll_array()
    receive = done["receive"].astype(bool)
    out.complete(done[~receive])
    into.receive(done[receive], without)


def poll_sends(out: Stream, into: Stream, without: Collection[int] = ()) -> None:
    """Takes completions until each send of `out` has one."""
    while len(out.ended) < len(out.sent):
        poll(out, into, 1, without)


def nodes_of(backends: Sequence[Any]) -> list[Node]:
    """Returns the nodes of devices; each has address handles of all."""
    nodes = [Node(backend, seed=n) for n, backend in enumerate(backends)]
    create_all_handles(nodes)
    return nodes


def exchange(backends: Sequence[Any], rng: Random, rounds: int = 6, pairs: int = 3) -> None:
    """Sends SRD and UD messages of all sizes in both directions at once.

    Each SRD message arrives once. A datagram may be lost or duplicated; what arrives is intact.
    """
    nodes = nodes_of(backends)
    ways: list[tuple[Stream, Stream]] = []
    for kind in (*(SRD,) * pairs, UD):
        there = streams(nodes, rng, kind)
        ways += there, there[::-1]
    for _ in range(rounds):
        for out, _ in ways:
            out.post_receives()
        counts = [rng.randrange(1, SLOTS + 1) for _ in ways]
        for slot in range(SLOTS):
            for (out, _), count in zip(ways, counts, strict=True):
                if slot < count:
                    out.send(slot)
        for out, into in ways:
            poll_sends(out, into)
        for backend in backends:
            backend.settle()
        for out, into in ways:
            poll(out, into)
        for out, _ in ways:
            assert set(out.ended.values()) == {STATUS.OK}
            if out.source.kind == SRD:
                assert sorted(out.arrived) == list(out.sent)


def streams(
    nodes: Sequence[Node], rng: Random, kind: defs.AdminQpType = SRD
) -> tuple[Stream, Stream]:
    """Returns the messages of both directions between new endpoints on the first two nodes."""
    a, b = (Endpoint(node, kind) for node in nodes[:2])
    return Stream(a, b, rng), Stream(b, a, rng)


# What a peer reports for a message to a queue pair or a region that goes.
REFUSED = (STATUS.REMOTE_ERROR_BAD_DEST_QPN, STATUS.REMOTE_ERROR_BAD_STATUS)
WITHOUT = (STATUS.FLUSHED, STATUS.LOCAL_ERROR_INVALID_LKEY)


class Ending:
    """One way to end the queue pair `out.source` or its region while messages are open.

    - `statuses`: of sends of the queue pair, besides OK
    - `completes`: each of its sends has a completion
    """

    statuses: Collection[int] = ()
    completes = True

    def end(self, out: Stream, into: Stream) -> None:
        """Ends the object."""
        raise NotImplementedError

    def clear(self, out: Stream) -> None:
        """Removes the queue pair."""
        out.source.qp.destroy()


class ToError(Ending):
    """All work of the queue pair is flushed."""

    statuses = (STATUS.FLUSHED,)

    def end(self, out: Stream, into: Stream) -> None:
        out.source.qp.modify(STATE.ERR)


class RegionGoes(Ending):
    """A transmission cannot read its payload any more."""

    statuses = (STATUS.LOCAL_ERROR_INVALID_LKEY,)

    def end(self, out: Stream, into: Stream) -> None:
        source = out.source
        source.node.driver.dereg_mr(source.buffer.l_key)


class Destroyed(Ending):
    """No completion follows the response."""

    completes = False

    def end(self, out: Stream, into: Stream) -> None:
        source = out.source
        source.context.enter_kernel()
        source.node.driver.destroy_qp(source.qp.handle)

    def clear(self, out: Stream) -> None:
        source = out.source
        del source.context.qps[source.qp.number]
        source.qp.free_rings()


class ToReset(Ending):
    """No completion follows the response; the next queue pair may have its number."""

    completes = False

    def end(self, out: Stream, into: Stream) -> None:
        source = out.source
        source.context.enter_kernel()
        driver, handle = source.node.driver, source.qp.handle
        driver.modify_qp(handle, qp_state=STATE.RESET, cur_qp_state=source.qp.state)


ENDINGS = (ToError, RegionGoes, Destroyed, ToReset)


def rings(end: Endpoint) -> bytes:
    """Returns the bytes of all rings of an endpoint's completion queue."""
    count = end.node.driver.queue_attr.sub_cqs_per_cq
    return end.cq.driver.memory.read(end.cq.base, count * end.cq.depth * end.cq.entry.SIZE)


def endings(backends: Sequence[Any], rng: Random, rounds: int = 16) -> None:
    """Ends queue pairs and regions while their messages are open; all messages of others arrive.

    A message arrives at most once. It arrives if its send completes with OK, and does not if the
    peer has refused it.
    """
    nodes = nodes_of(backends)
    lasting = streams(nodes, rng)
    order = [rng.sample(ENDINGS, len(ENDINGS)) for _ in range(rounds // len(ENDINGS))]
    for turn, kind in enumerate(itertools.chain.from_iterable(order)):
        ending = kind()
        out, into = streams(nodes if rng.random() < 0.5 else nodes[1::-1], rng)
        ways = (*lasting, out, into)
        for way in ways:
            way.post_receives()
        for slot in range(SLOTS):
            for way in ways:
                way.send(slot)
        for node in nodes:
            node.context.enter_kernel()
        backends[0].pause(rng.randrange(rng.choice(PAUSES)))
        poll(out, into)
        ending.end(out, into)
        if ending.completes:
            poll_sends(out, into, WITHOUT)
        before = rings(out.source)
        poll_sends(into, out)
        for way, back in (lasting, lasting[::-1]):
            poll_sends(way, back)
            assert set(way.ended.values()) == {STATUS.OK}, f"round {turn}: the others"
        for backend in backends:
            backend.settle()
        if ending.completes:
            poll(out, into, without=WITHOUT)
        else:
            assert rings(out.source) == before, f"round {turn}: a completion after the response"
        poll(into, out)
        for way, back in (lasting, lasting[::-1]):
            poll(way, back)
        for way in lasting:
            assert sorted(way.arrived) == list(way.sent), f"round {turn}: the others"
        check_ended(out, {STATUS.OK, *ending.statuses}, f"round {turn}")
        check_ended(into, {STATUS.OK, *REFUSED}, f"round {turn}", ending.completes)
        ending.clear(out)
        into.source.qp.destroy()


def check_ended(
    way: Stream, statuses: Collection[int], where: str, all_are_seen: bool = True
) -> None:
    """Checks statuses of sends and that the messages that arrived fit to them.

    `all_are_seen` is False if completions of receives may be missing.
    """
    wrong = set(way.ended.values()) - set(statuses)
    assert not wrong, f"{where}: statuses {wrong}"
    assert len(set(way.arrived)) == len(way.arrived), f"{where}: a message arrived twice"
    for number, status in way.ended.items():
        if status == STATUS.OK:
            assert number in way.arrived or not all_are_seen, f"{where}: message {number} is lost"
        elif status in REFUSED:
            assert number not in way.arrived, f"{where}: refused message {number} arrived"


def not_ready(backends: Sequence[Any], rng: Random, rounds: int = 3) -> None:
    """Sends to a queue pair without posted receives: each message is retried until its receive is
    posted, or ends with RNR after as many retries as the queue pair has."""
    nodes = nodes_of(backends)
    patient, back = streams(nodes, rng)
    hasty, other = streams(nodes, rng)
    hasty.source.qp.modify(STATE.RTS, rnr_retry=2)
    for _ in range(rounds):
        for slot in range(SLOTS):
            patient.send(slot)
            hasty.send(slot)
        nodes[0].context.enter_kernel()
        poll_sends(hasty, other)
        backends[0].pause(back_off(backends[0], rng))
        assert len(patient.ended) < len(patient.sent)
        patient.post_receives()
        poll_sends(patient, back)
        for backend in backends:
            backend.settle()
        poll(back, patient)
        assert sorted(patient.arrived) == list(patient.sent)
    assert set(patient.ended.values()) == {STATUS.OK}
    assert set(hasty.ended.values()) == {STATUS.REMOTE_ERROR_RNR}


def others_go_on(backends: Sequence[Any], silent: int) -> None:
    """Some queue pairs post more sends to a silent node than there are message contexts; those of
    others go on."""
    sender, receiver = nodes_of(backends)
    many = [Endpoint(sender, depth=256) for _ in range(6)]
    for end in many:
        to = {**end.towards(end), "ah": sender.ah_of(silent)}
        end.qp.post_send_many(range(256), **to, inline=b"no answer")
    assert 6 * 256 > (1 << defs.LIMITS.msg_w) + defs.TRANSPORT.guaranteed_sends
    sender.context.enter_kernel()
    backends[0].pause(20_000)
    # New queue pairs, too: none has an open send while the others have all that they get.
    pairs = [(Endpoint(sender), Endpoint(receiver)) for _ in range(4)]
    for turn in range(3):
        for one, other in pairs:
            for number in range(8):
                other.receive(64, wr_id=number, offset=64 * number)
            one.qp.post_send_many(range(8), **one.towards(other), inline=pattern(20, turn))
        for one, other in pairs:
            assert set(one.cq.wait_for(8, **PATIENCE)["status"]) == {STATUS.OK}
            assert set(other.cq.wait_for(8, **PATIENCE)["status"]) == {STATUS.OK}
            assert other.buffer.read(0, 20) == pattern(20, turn)
    assert not any(len(end.cq.poll_array()) for end in many)
    for end in many:
        end.qp.destroy()


def refused_sends_hold_up_no_other(backends: Sequence[Any]) -> None:
    """A receiver refuses 768 sends with RNR, again and again; other sends to it complete within
    1,000 cycles, and all of those arrive when it has receives."""
    sender, receiver = nodes_of(backends)
    refused = [(Endpoint(sender, depth=256), Endpoint(receiver, depth=256)) for _ in range(3)]
    pairs = [(Endpoint(sender), Endpoint(receiver)) for _ in range(4)]
    for one, _ in refused:
        one.qp.modify(STATE.RTS, rnr_retry=7)  # without end
    for one, other in refused:
        one.qp.post_send_many(range(256), **one.towards(other), inline=b"not ready")
    sender.context.enter_kernel()
    # Until each of them is refused, a send to the same peer waits behind them.
    backends[0].pause(28_000)
    for turn in range(3):
        for one, other in pairs:
            for number in range(2):
                other.receive(64, wr_id=number, offset=64 * number)
            one.qp.post_send_many(range(2), **one.towards(other), inline=pattern(20, turn))
        sender.context.enter_kernel()
        backends[0].pause(1000)
        for end in itertools.chain.from_iterable(pairs):
            statuses = end.cq.poll_array()["status"].tolist()
            assert statuses == [STATUS.OK] * 2, f"turn {turn}: {statuses} beside refused sends"
        backends[0].pause(600)
    for one, other in refused:
        assert not len(one.cq.poll_array())
        for number in range(256):
            other.receive(64, wr_id=number, offset=64 * number)
    statuses = {end: [] for end in itertools.chain.from_iterable(refused)}
    for _ in range(40):
        backends[0].pause(2000)
        for end, found in statuses.items():
            found += end.cq.poll_array()["status"].tolist()
        if all(len(found) == 256 for found in statuses.values()):
            break
    assert all(found == [STATUS.OK] * 256 for found in statuses.values())


def peer_resets(backends: Sequence[Any], rng: Random, rounds: int = 4) -> None:
    """Resets a device while messages of both directions are open, by register or FLR.

    Each send to it ends once. After the reset, all messages arrive once.
    """
    nodes = [Node(backend, seed=n) for n, backend in enumerate(backends)]
    for turn in range(rounds):
        create_all_handles(nodes)
        out, into = streams(nodes, rng)
        for way in (out, into):
            way.post_receives()
        for slot in range(SLOTS):
            for way in (out, into):
                way.send(slot)
        for node in nodes:
            node.context.enter_kernel()
        backends[0].pause(rng.randrange(rng.choice(PAUSES)))
        if turn % 2:
            backends[1].flr()
        else:
            nodes[1].driver.reset()
        poll_sends(out, into)
        check_ended(out, {STATUS.OK, STATUS.REMOTE_ERROR_ABORT, *REFUSED}, f"round {turn}", False)
        backends[0].settle()
        poll(out, into)
        assert len(set(into.arrived)) == len(into.arrived), f"round {turn}: a message came twice"
        out.source.qp.destroy()
        nodes[1] = Node(backends[1], seed=2 + turn)
        create_all_handles(nodes)
        # A probe resets the device once more: the first message may still name its past.
        first, none = streams(nodes, rng)
        first.post_receives()
        first.send(0)
        poll_sends(first, none)
        check_ended(first, {STATUS.OK, STATUS.REMOTE_ERROR_ABORT}, f"round {turn}", False)
        later = streams(nodes, rng)
        for way in later:
            way.post_receives()
            for slot in range(SLOTS):
                way.send(slot)
        for way, back in (later, later[::-1]):
            poll_sends(way, back)
        for backend in backends:
            backend.settle()
        for way, back in (later, later[::-1]):
            poll(way, back)
        for way in later:
            assert set(way.ended.values()) == {STATUS.OK}
            assert sorted(way.arrived) == list(way.sent), f"round {turn}: after the reset"
        for way in (first, later[0]):
            way.source.qp.destroy()
