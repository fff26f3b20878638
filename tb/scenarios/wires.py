# SPDX-License-Identifier: Apache-2.0
"""Distinguishes objects by their numbers: each effect belongs to the object that caused it, also if
the object is not the first of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.boundary.backend import msix_table_stores
from efa_cosim.boundary.events import field, of_kind, where
from efa_cosim.host.alloc import PAGE_BYTES
from efa_cosim.host.completion_counter import SENDS
from efa_cosim.host.driver import Driver
from efa_cosim.host.endpoints import QKEY, Endpoint, Node, pattern
from efa_cosim.layouts import defs
from tb.lib import requests
from tb.scenarios.admin import refused
from tb.scenarios.async_events import NOTIFICATION
from tb.scenarios.collisions import CONSUMED, doorbell, unwritten
from tb.scenarios.peer import Peer, await_quiet_end
from tb.scenarios.send import exchange

if TYPE_CHECKING:
    from random import Random

STATUS, STATE = defs.IoCompStatus, defs.AdminQpState
PAGE_SLOTS = defs.LIMITS.llq_page_bytes // 64


def numbers_of_each_peer(
    backends: Sequence[Any], rng: Random, peers: Iterable[int] = range(20, 28)
) -> None:
    """Sends messages to several nodes in turn: the packets to each node have their own numbers.

    No node acknowledges, so the sends stay outstanding.
    """
    node = Node(backends[0])
    end, numbers = Endpoint(node, depth=256), [node.ah_of(peer) for peer in peers]
    for _ in range(12):
        there = {"ah": rng.choices(numbers, k=16), "dest_qp": 5, "qkey": QKEY}
        end.qp.post_send_many(np.arange(16), **there, inline=b"to nobody")
    backends[0].settle()


def events_of_each_packet(backends: Sequence[Any], _rng: Random, messages: int = 8) -> None:
    """Counts the begins and ends of packets that the device reports, of data and acknowledgements.
    """
    node, backend = Node(backends[0]), backends[0]
    a, b = Endpoint(node), Endpoint(node)
    exchange(a, b, b"the first packet is sent twice: it finds the quiet time after the reset")
    backend.settle()
    backend.events()
    for turn in range(messages):
        exchange(a, b, pattern(700, turn))
    backend.settle()
    events = backend.events()
    wanted = {"tx_first": messages, "tx_last": messages, "ackout": messages,
              "rx_first": 2 * messages, "rx_last": 2 * messages}  # fmt: skip
    assert {name: len(of_kind(events, name)) for name in wanted} == wanted


def times_of_events(backends: Sequence[Any], _rng: Random) -> None:
    """Checks the time stamps of asynchronous events: cycles, in the order of the events."""
    backend = backends[0]
    driver = Driver(backend).probe()
    bounds = []
    for number in range(6):
        began = backend.cycles
        backend.raise_event(NOTIFICATION, number)
        # The default binds this number; mypy infers no lambda with defaults.
        driver.wait(lambda number=number: len(driver.async_events) == number + 1)  # type: ignore[misc]
        bounds.append((began, backend.cycles))
        backend.pause(1000 * number)
    heads = [event.aenq_common_desc for event in driver.async_events]
    times = [head.timestamp_high << 32 | head.timestamp_low for head in heads]
    first, (began, ended) = times[0], bounds[0]
    for time, (earliest, latest) in zip(times[1:], bounds[1:], strict=True):
        assert earliest - ended <= time - first <= latest - began, (times, bounds)
    driver.remove()


def counters_of_each_queue(backends: Sequence[Any], rng: Random, turns: int = 40) -> None:
    """Counts the sends of some queue pairs, each in its own counter, with sends of others between.
    """
    node = Node(backends[0])
    cq = node.context.create_cq(256)
    ends = [Endpoint(node, cq=cq) for _ in range(6)]
    counters = {end: node.context.create_counter() for end in ends[1::2]}
    for end, counter in counters.items():
        counter.attach(end.qp, SENDS)
    sent = dict.fromkeys(ends, 0)
    for turn in range(turns):
        some = [rng.choice(ends) for _ in range(6)]
        for end in some:
            end.receive(64, wr_id=turn)
            end.send(end, b"counted", inline=True)
            sent[end] += 1
        assert set(cq.wait_for(2 * len(some))["status"]) == {STATUS.OK}
    for end, counter in counters.items():
        # The default binds this endpoint and counter; mypy infers no lambda with defaults.
        node.driver.wait(lambda end=end, counter=counter: counter.value == sent[end])  # type: ignore[misc]
    # A queue pair in RESET keeps its counter.
    end = ends[1]
    end.qp.modify(STATE.RESET)
    refused(defs.AdminAqCompletionStatus.RESOURCE_BUSY, counters[end].destroy)
    end.qp.to_rts(QKEY)
    exchange(end, end, b"counted")
    node.driver.wait(lambda: counters[end].value == sent[end] + 1)


def draining_of_each_queue(backends: Sequence[Any], _rng: Random) -> None:
    """Checks that sq_draining of QUERY_QP is that of the queried queue pair.

    The network latency must be much longer than four admin commands.
    """
    node, backend = Node(backends[0]), backends[0]
    ends = [Endpoint(node) for _ in range(2)]
    peer = Endpoint(node)
    for number, end in enumerate(ends):
        peer.receive(64, wr_id=number)
        end.send(peer, pattern(40, number), wr_id=number)
        backend.pause(CONSUMED)
        pair = end, ends[number - 1]
        for one in pair:
            one.qp.modify(STATE.SQD)
        shown = [one.qp.query().sq_draining for one in pair]
        assert shown == [1, 0], (number, shown)
        assert end.cq.wait_for(1)[0]["status"] == peer.cq.wait_for(1)[0]["status"] == STATUS.OK
        backend.settle()
        for one in pair:
            assert one.qp.query().sq_draining == 0, number
            one.qp.modify(STATE.RTS)


def acknowledgements_wait(backends: Sequence[Any], _rng: Random, each: int = 60) -> None:
    """Receives many messages of many nodes at once, while packets leave slowly: in the end each
    node has an acknowledgement of all its messages."""
    node, backend = Node(backends[0]), backends[0]
    peers = [Peer(backend, number) for number in range(20, 36)]
    end = Endpoint(node, depth=each * len(peers))
    for number in range(each * len(peers)):
        end.receive(64, wr_id=number)
    await_quiet_end(backend)
    backend.link.record = True
    for _ in range(each):
        for peer in peers:
            peer.send(end, b"data")
    assert set(end.cq.wait_for(each * len(peers))["status"]) == {STATUS.OK}
    backend.settle()
    acks = [defs.SrdAck.unpack(packet) for packet in backend.packets()]
    shown = {ack.dst_node: int.from_bytes(ack.bitmap, "little").bit_count() for ack in acks}
    assert shown == {peer.node: each for peer in peers}


def pages_of_a_destroyed_queue(backends: Sequence[Any], _rng: Random) -> None:
    """Stores to the LLQ pages of a destroyed queue pair whose number a queue pair on other pages
    has: the pages have no owner."""
    node, backend = Node(backends[0]), backends[0]
    gone, stays = Endpoint(node, depth=PAGE_SLOTS), Endpoint(node, depth=PAGE_SLOTS)
    number, pages = gone.qp.number, gone.qp.llq
    exchange(gone, stays, b"by the first owner")
    gone.qp.destroy()
    end = Endpoint(node, depth=2 * PAGE_SLOTS)
    index = (1 << defs.LIMITS.qpn_w) - 1
    assert end.qp.number & index == number & index and end.qp.llq != pages
    for slot in range(0, PAGE_SLOTS, 7):
        backend.stores([(2, pages + 64 * slot, bytes(64))])
    backend.settle()
    exchange(end, stays, b"by the next owner")


def incomplete_beside_a_stored_queue(backends: Sequence[Any], _rng: Random) -> None:
    """Posts incomplete WQEs on one queue pair while another has a stored WQE before its doorbell.

    The stored WQE is in the second wrap of its ring and stays complete.
    """
    node, backend = Node(backends[0]), backends[0]
    end, peer = Endpoint(node, depth=4), Endpoint(node)
    for turn in range(3 * end.depth):
        peer.receive(64, wr_id=turn)
        wqes = end.qp.sends(1, **end.towards(peer), inline=b"stored first")
        end.qp.name(wqes, np.array([turn], "u8"))
        slot = turn % end.depth
        backend.stores([(2, end.qp.llq + 64 * slot, wqes.tobytes())])
        backend.settle()
        broken = Endpoint(node, depth=4)
        unwritten(broken)
        backend.settle()
        backend.stores([doorbell(end, end.qp.sq_db, turn + 1)])
        done = end.cq.wait_for(1)[0]
        assert (done["status"], done["wr_id"]) == (STATUS.OK, turn), (turn, done)
        assert peer.cq.wait_for(1)[0]["status"] == STATUS.OK
        broken.qp.destroy()


def attachment(handle: int, qp: Any, events: int) -> Any:
    """Returns the command that attaches a counter to events of a queue pair."""
    request = defs.AdminAttachDetachEventCounterCmd(cntr_handle=handle)
    request.aq_common.opcode = defs.AdminAqOpcode.ATTACH_EVENT_COUNTER
    request.u.qp_events = {"qp_handle": qp, "events": events}
    return request


def detached(handle: int, qp: Any, events: int) -> Any:
    """Returns the command that detaches a counter from events of a queue pair."""
    request = attachment(handle, qp, events)
    request.aq_common.opcode = defs.AdminAqOpcode.DETACH_EVENT_COUNTER
    return request


def counters_go_under_sends(backends: Sequence[Any], rng: Random, turns: int = 20) -> None:
    """Destroys counters while their values are written; the host releases their memory at the
    response. The host must accept writes slowly."""
    node, backend = Node(backends[0]), backends[0]
    driver, cq = node.driver, node.context.create_cq(256)
    end = Endpoint(node, cq=cq)
    for turn in range(turns):
        page = driver.allocator.alloc(4096)
        handle = driver.create_event_counter(node.context.uar, page)
        events = defs.LIMITS.event_counter_events
        driver.attach_event_counter(handle, end.qp.handle, events)
        for number in range(16):
            end.receive(64, wr_id=number)
        end.qp.post_send_many(np.arange(16), **end.towards(end), inline=b"counted")
        backend.pause(200 + rng.randrange(800))
        node.context.enter_kernel()
        commands = [driver.submit(request) for request in (
            detached(handle, end.qp.handle, events),
            defs.AdminDestroyEventCounterCmd(cntr_handle=handle))]  # fmt: skip
        for command in commands:
            driver.finish(command)
        assert set(cq.wait_for(32)["status"]) == {STATUS.OK}, turn
        backend.settle()
        driver.allocator.free(page)


def switch_msix(backend: Any, on: int) -> None:
    """Sets the MSI-X enable bit after the posted accesses."""
    backend.link.post(backend.device, [requests.pin("msix_enable", on)])


def no_message_without_msix(backends: Sequence[Any], _rng: Random) -> None:
    """Switches MSI-X off and on: events cause no message while it is off, and later ones do."""
    node, backend = Node(backends[0]), backends[0]
    a, b = Endpoint(node, events=True), Endpoint(node, events=True)
    node.ah_of(backend.node_id)
    backend.settle()
    backend.interrupts()
    switch_msix(backend, 0)
    for end in (a, b):
        end.cq.req_notify()
    exchange(a, b, b"without a message")
    backend.settle()
    assert backend.interrupts() == [], "a message while MSI-X is off"
    switch_msix(backend, 1)
    node.driver.submit(defs.AdminAllocPdCmd())
    backend.settle()
    assert backend.interrupts(), "no message after MSI-X is on"


def table_in_bursts(
    backends: Sequence[Any],
    rng: Random,
    turns: int = 12,
    length: int = 40,
) -> None:
    """Stores and loads fields of the MSI-X table back to back: each load returns the last store."""
    backend = backends[0]
    link, device = backend.link, backend.device
    table = {at: int.from_bytes(data, "little") for _, at, data in msix_table_stores()}
    fields = [at for at in table if at % 16 < 12]
    for _ in range(turns):
        burst, expected = [], {}
        for _ in range(length):
            at = rng.choice(fields)
            if rng.random() < 0.5:
                table[at] = rng.getrandbits(30) << 2
                burst.append(requests.store(defs.EFA_REG_BAR, at, table[at].to_bytes(4, "little")))
            else:
                ident = link.next_load()
                expected[ident] = at, table[at]
                burst.append(requests.load(defs.EFA_REG_BAR, at, 4, ident))
        link.post(device, burst)
        backend.settle()
        for ident, (at, value) in expected.items():
            lane = at % requests.LINE
            found = int.from_bytes(link.load_response(ident)[lane : lane + 4], "little")
            assert found == value, f"{at:#x}: {found:#x}, stored {value:#x}"


def reset_waits_for_packets(backends: Sequence[Any], rng: Random, turns: int = 6) -> None:
    """Resets the device while it sends a packet to a slow network: the packet ends whole."""
    backend = backends[0]
    for _ in range(turns):
        node = Node(backend)
        end = Endpoint(node)
        backend.settle()
        backend.events()
        end.qp.post_send_many([0], ah=node.ah_of(20), dest_qp=5, qkey=QKEY,
                              sges=[(end.buffer.addr, 4096, end.buffer.l_key)])  # fmt: skip
        for _ in range(1000):
            backend.pause(50)
            if len(of_kind(backend.events(), "tx_first")):
                break
        else:
            raise AssertionError("no packet begins")
        backend.pause(rng.randrange(500))
        node.driver.reset()
        backend.settle()
        assert len(of_kind(backend.events(), "tx_last")) == 1


def late_reads_have_their_tags(backends: Sequence[Any], _rng: Random, turns: int = 2) -> None:
    """Answers payload reads after the completion timeout: the report of each names its tag."""
    backend = backends[0]
    node = Node(backend)
    end = Endpoint(node)
    for turn in range(turns):
        backend.memory.fail(end.buffer.pages[0], PAGE_BYTES, requests.FAULT_LATE)
        end.send(end, b"read late", wr_id=turn)
        assert end.cq.wait_for(1)[0]["status"] != STATUS.OK
        backend.settle()
        backend.memory.heal()
        end.qp.destroy()
        end = Endpoint(node)
    events = backend.events()
    timed_out = field(where(events, "rd_cpl", err=1), "rd_cpl", "tag")
    late = where(events, "anomaly_host", what=defs.AnomalyHost.READ_LATE)
    assert list(field(late, "anomaly_host", "detail")) == list(timed_out) and len(late) == turns


def acknowledgements_follow_completions(
    backends: Sequence[Any], _rng: Random, messages: int = 40
) -> None:
    """Receives messages while the host accepts writes slowly: no acknowledgement leaves before its
    CQE was passed to the write engine."""
    node, backend = Node(backends[0]), backends[0]
    end, peer = Endpoint(node), Peer(backend)
    for number in range(messages):
        end.receive(64, wr_id=number)
    await_quiet_end(backend)
    backend.events()
    backend.link.record = True
    for _ in range(messages):
        peer.send(end, b"data")
    assert set(end.cq.wait_for(messages)["status"]) == {STATUS.OK}
    backend.settle()
    events = backend.events()
    completed, left = (of_kind(events, name)["cycle"] for name in ("cqe", "ackout"))
    acks = [defs.SrdAck.unpack(packet) for packet in backend.packets()]
    assert len(completed) == messages and len(acks) == len(left) > 1
    for ack, cycle in zip(acks, left, strict=True):
        accepted = int.from_bytes(ack.bitmap, "little").bit_count()
        assert accepted <= np.searchsorted(completed, cycle), (accepted, cycle)
