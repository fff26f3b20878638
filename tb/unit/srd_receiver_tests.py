# SPDX-License-Identifier: Apache-2.0
"""Tests efa_srd_receiver: each packet is executed once, acknowledgements are true and complete."""

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from efa_cosim.layouts.defs import TRANSPORT, PktOpcode, SrdAck
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.packets import PSN_MASK
from tb.lib.stream import periodic
from tb.lib.timing import timing
from tb.lib.waits import high, low, span, until
from tb.unit.data_bench import Moments, consumed
from tb.unit.length import grid, rounds
from tb.unit.srd_receiver_bench import ABORT, PATHS, STATUSES, Bench, Peer, header

REPLIES = TRANSPORT.replies
ACK_TIME = timing("efa_srd_receiver", "acknowledgement")
# Acknowledgements between the queues and the port.
STAGES = 3


class Held:
    """A pause that a test switches."""

    def __init__(self, on=False):
        self.on = on

    def __call__(self):
        return self.on


def acks_of(bench):
    """Takes the acknowledgements that have left."""
    found = [
        SrdAckFields.read(beat["data"].to_bytes(SrdAck.SIZE, "little")) for beat in bench.acks.beats
    ]
    bench.acks.beats.clear()
    return found


def bitmap(ack):
    return int.from_bytes(ack.bitmap, "little")


@cocotb.test()
@grid(
    peers=[1, 3, 64],
    pace=[(0.0, 0.0, 0.0), (0.4, 0.0, 0.0), (0.2, 0.5, 0.1), (0.1, 0.1, 0.4)],
)
async def any_traffic(dut, peers, pace):
    """transport.srd_receiver.random: Lost, duplicate, reordered and cancelled packets of any
    number of peers, with new and older sessions, are executed once and acknowledged truthfully."""
    # Most outcomes come before oldest passes their packets.
    bench = Bench(dut, f"any {peers} {pace}", *pace, wait=min(200, 20 * peers))
    await bench.start()
    peers = min(peers, bench.nodes)
    some = [Peer(bench, node) for node in bench.rng.sample(range(bench.nodes), peers)]
    for _ in range(3000):
        bench.send(bench.rng.choice(some).any())
    await bench.settle()
    assert bench.count["passed"] > 1000 and bench.count["freed"] > 200, bench.count
    assert bench.model.acks > 100 and bench.model.refused > 50, (
        bench.model.acks, bench.model.refused)  # fmt: skip


@cocotb.test()
@cocotb.parametrize(wait=[0, 1, 2, 4])
async def packets_of_one_peer_in_a_row(dut, wait):
    """transport.srd_receiver.forward: Packets of one or two peers, one per cycle, with outcomes
    one to a few cycles later; each packet sees all before it."""
    bench = Bench(dut, f"row {wait}", wait=wait, refuse=0.3)
    await bench.start()
    rng = bench.rng
    for _ in range(rounds(20, 6)):
        peers = [Peer(bench, rng.randrange(bench.nodes)) for _ in range(rng.choice((1, 2)))]
        for peer in peers:
            peer.new_session(3)
        for _ in range(150):
            peer = rng.choice(peers)
            # Few PSNs, so that copies are next to each other.
            if rng.random() < 0.3:
                peer.oldest = peer.oldest + rng.randrange(3) & PSN_MASK
            bench.send(peer.packet(peer.oldest + rng.randrange(4)))
            if rng.random() < 0.02:
                peer.new_session()
        await bench.settle()
        await bench.reset()


@cocotb.test()
async def every_place_of_the_window(dut):
    """transport.srd_receiver.window: Whole windows in any order, each packet up to three times,
    between oldest and the window after it; then oldest moves by any number up to two windows."""
    bench = Bench(dut, "window", wait=30)
    await bench.start()
    rng, window = bench.rng, bench.window
    peer = Peer(bench, rng.randrange(bench.nodes), psn=-2 * window)
    bench.send(peer.packet(peer.oldest))
    for step in (0, 1, window - 1, window, window + 1, 2 * window, 3, window // 2):
        peer.oldest = peer.oldest + step & PSN_MASK
        places = [*range(window), *rng.choices(range(window), k=window)]
        rng.shuffle(places)
        # The first one moves oldest, in the middle or at an edge of the window.
        places.insert(0, rng.choice((0, window - 1, rng.randrange(window))))
        for place in places:
            bench.send(peer.packet(peer.oldest + place))
        await bench.settle()
        receiver = bench.model.endpoint.receivers[peer.node]
        assert receiver.seen == (1 << window) - 1
        # A packet before oldest is dropped, as far away as the numbers permit.
        for before in (1, 2, window, window + 1, 1 << 20, (1 << 31) - window):
            late = peer.oldest - before
            bench.send(peer.packet(late, behind=rng.randrange(min(before, window))))
        await bench.settle()


@cocotb.test()
async def sessions_replace_each_other(dut):
    """transport.srd_receiver.session: A newer session, also beyond the wrap, replaces the present
    one at once; an older one is dropped; outcomes of the old one are not reported."""
    bench = Bench(dut, "session", wait=40)
    await bench.start()
    rng = bench.rng
    peer = Peer(bench, rng.randrange(bench.nodes), session=0xFFF0)
    other = Peer(bench, (peer.node + 1) % bench.nodes)
    for step in (1, 0x7FFF, 2, 0x7FFF, 0x4000, 1, 0x7FFF, 0x7FFF, *range(1, 30)):
        for _ in range(12):
            bench.send(peer.packet(peer.oldest + rng.randrange(min(8, bench.window))))
            bench.send(other.packet(other.oldest + rng.randrange(4)))
        if step < 1000:
            # Outcomes of the old session follow the first packets of the new one.
            await ClockCycles(dut.clk, rng.randrange(20))
        else:
            await bench.settle()
        peer.new_session(step)
        bench.send(peer.packet(), peer.packet())
        # Older by each half of the numbers.
        for older in (1, 2, 0x7FFF, 0x8000):
            session = (peer.session - older) % (1 << 16) or 0xFFFF
            bench.send(peer.packet(rng.getrandbits(32), behind=0, session=session))
    await bench.settle()
    assert not bench.model.stateless


@cocotb.test()
async def an_old_session_is_not_reported(dut):
    """transport.srd_receiver.late: Outcomes after a new session, or after oldest has passed their
    packet, are not reported; the same PSN of the new session is acknowledged by its own outcome
    alone."""
    bench = Bench(dut, "late", wait=0)
    await bench.start()
    rng = bench.rng
    executed = []
    bench.finish_now, bench.finish = bench.finish, lambda *one: executed.append(one)
    peer = Peer(bench, rng.randrange(bench.nodes), psn=5)
    for passes in (False, True):
        bench.send(*(peer.packet() for _ in range(8)))
        await ClockCycles(dut.clk, 20)
        if passes:
            peer.oldest = peer.oldest + 8 & PSN_MASK
        else:
            peer.new_session()
            peer.begin(5)
        bench.send(peer.packet())
        await ClockCycles(dut.clk, 10)
        for packet, _ in executed[:8]:
            bench.finish_now(packet, rng.choice((0, STATUSES[0])))
        await ClockCycles(dut.clk, 30)
        assert not acks_of(bench)
        bench.finish_now(executed[8][0], 0)
        await ClockCycles(dut.clk, 30)
        (ack,) = acks_of(bench)
        assert (ack.psn, bitmap(ack), ack.session) == (peer.oldest, 1, peer.session)
        executed.clear()
        peer.new_session()
        peer.begin(5)
    await bench.settle()


@cocotb.test()
async def other_incarnations_get_an_abort(dut):
    """transport.srd_receiver.incarnation: A packet for another incarnation gets ABORT, one without
    an incarnation within the quiet time an acknowledgement without progress, both byte for byte;
    both change nothing."""
    bench = Bench(dut, "incarnation")
    await bench.start()
    rng, incarnation = bench.rng, bench.incarnation
    peers = [Peer(bench, node) for node in rng.sample(range(bench.nodes), 3)]
    for turn in range(12):
        dut.s_quiet.value = turn & 1
        await ClockCycles(dut.clk, 2)
        for _ in range(20):
            peer = rng.choice(peers)
            wrong = rng.choice((incarnation ^ 1 << rng.randrange(16), 0, incarnation))
            session = rng.choice((peer.session, rng.randrange(1, 1 << 16)))
            if wrong in (0, incarnation):
                session = peer.session
            behind = rng.randrange(bench.window)
            bench.send(peer.packet(peer.oldest + behind, incarnation=wrong, session=session))
            if rng.random() < 0.1:
                bench.send(peer.datagram())
        await bench.settle()
    replies = [ack for ack in acks_of(bench) if not bitmap(ack) and not ack.status]
    assert len(replies) > 30 and bench.count["freed"] > 100


@cocotb.test()
async def refusals_are_repeated(dut):
    """transport.srd_receiver.refused: Each status is returned with PSN and queues of its packet,
    and again for each duplicate until oldest passes; slots of statuses are used again."""
    bench = Bench(dut, "refused", wait=3)
    await bench.start()
    rng, window = bench.rng, bench.window
    statuses = {}
    bench.judge = lambda packet: statuses[SrdHdrFields.read(packet).psn]
    peers = [Peer(bench, node, psn=64) for node in rng.sample(range(bench.nodes), 2)]
    wanted = 0
    for turn in range(6):
        psns = [peers[0].next + at & PSN_MASK for at in range(16)]
        statuses = {psn: rng.choice((0, *STATUSES)) for psn in psns}
        for peer in peers:
            peer.oldest = peer.next
            for psn in psns:
                bench.send(peer.packet(psn))
        await bench.settle()
        copies = [(peer, psn) for peer in peers for psn in psns for _ in range(2)]
        rng.shuffle(copies)
        for peer, psn in copies:
            bench.send(peer.packet(psn))
            await ClockCycles(dut.clk, rng.randrange(3))
        await bench.settle()
        # Three refusals of each packet of each peer.
        wanted += 6 * sum(status != 0 for status in statuses.values())
        assert bench.model.refused == wanted
        for peer in peers:
            peer.next = peer.next + (window if turn % 2 else 16) & PSN_MASK


@cocotb.test()
async def acknowledgements_join_while_the_port_waits(dut):
    """transport.srd_receiver.due: While the port waits, all outcomes of a peer join one
    acknowledgement with the path of the first one or of the last duplicate; each peer has one, and
    refusals are sent first."""
    held = Held()
    bench = Bench(dut, "due", held=held, wait=0, refuse=0)
    await bench.start()
    rng = bench.rng
    peers = [Peer(bench, node) for node in range(bench.nodes)]
    refused = set()
    bench.judge = lambda packet: STATUSES[0] if packet in refused else 0
    for turn in range(4):
        held.on = True
        await ClockCycles(dut.clk, 3)
        # Refusals fill the stages behind the choice.
        for _ in range(STAGES):
            packet = peers[0].packet()
            refused.add(packet)
            bench.send(packet)
            await ClockCycles(dut.clk, 12)
        order = rng.sample(peers, len(peers))
        paths, first = {}, {}
        for peer in order * 3:
            packet = peer.packet()
            paths.setdefault(peer.node, SrdHdrFields.read(packet).path)
            first.setdefault(peer.node, packet)
            bench.send(packet)
        await consumed(bench.packets)
        await ClockCycles(dut.clk, 12)
        again = rng.sample(peers, len(peers) // 2)
        for _ in range(2):
            for peer in again:
                path = rng.randrange(PATHS)
                bench.send(peer.packet(SrdHdrFields.read(first[peer.node]).psn, path=path))
                paths[peer.node] = path
        last = peers[1].packet()
        refused.add(last)
        bench.send(last)
        await consumed(bench.packets)
        await ClockCycles(dut.clk, 12)
        held.on = False
        await bench.settle()
        acks = acks_of(bench)
        assert [ack.status != 0 for ack in acks[: STAGES + 1]] == [True] * (STAGES + 1)
        dues = acks[STAGES + 1 :]
        assert {ack.dst_node: ack.path for ack in dues} == paths
        # Each peer once, round robin.
        nodes = [ack.dst_node for ack in dues]
        begin = nodes.index(0)
        assert nodes[begin:] + nodes[:begin] == list(range(bench.nodes)), nodes
        for peer in peers:
            peer.oldest = peer.next
        assert turn or begin == 0


@cocotb.test()
async def a_session_has_paths_of_its_own(dut):
    """transport.srd_receiver.path: An acknowledgement that is due when a new session begins is not
    sent; the one of the new session has the path of a packet of that session."""
    held = Held()
    bench = Bench(dut, "path", held=held, wait=0, refuse=0)
    await bench.start()
    peer, other = Peer(bench, 0), Peer(bench, 1)
    bench.judge = lambda packet: STATUSES[0] if SrdHdrFields.read(packet).src_node == 1 else 0
    for turn in range(8):
        held.on = True
        await ClockCycles(dut.clk, 3)
        other.oldest = other.next
        for _ in range(STAGES):
            bench.send(other.packet())
            await ClockCycles(dut.clk, 12)
        bench.send(peer.packet(path=2 * turn))
        await ClockCycles(dut.clk, 15)
        peer.new_session()
        path = 2 * turn + 1
        bench.send(peer.packet(path=path))
        await ClockCycles(dut.clk, 15)
        held.on = False
        await bench.settle()
        assert [ack.path for ack in acks_of(bench) if not ack.status] == [path]


@cocotb.test()
async def replies_beyond_the_limit_are_lost(dut):
    """transport.srd_receiver.overflow: At least the specified number of replies waits while the
    port does not accept; further ones are lost, and nothing else is; later replies follow."""
    held = Held()
    bench = Bench(dut, "overflow", held=held, wait=0, refuse=1)
    await bench.start()
    peer, other = Peer(bench, 0), Peer(bench, 1)
    for turn in range(3):
        held.on = True
        await ClockCycles(dut.clk, 3)
        sent = []
        for _ in range(REPLIES + 30):
            wrong = bench.incarnation ^ 1
            sent.append(peer.packet(bench.rng.getrandbits(32), behind=0, incarnation=wrong))
            bench.send(sent[-1])
        bench.refuse = 0
        other.new_session()
        bench.send(*(other.packet() for _ in range(5)))
        await consumed(bench.packets)
        await ClockCycles(dut.clk, 30)
        # Those that wait are the first ones; one of them is visible and checked.
        most = REPLIES + STAGES
        while len(bench.model.stateless) >= most:
            bench.model.stateless.pop()
        held.on = False
        await bench.settle(lossy=True)
        acks = acks_of(bench)
        replies = [ack for ack in acks if ack.status == ABORT]
        wanted = [SrdHdrFields.read(one).psn for one in sent[:most]]
        assert [ack.refused_psn for ack in replies] == wanted
        assert [ack.dst_node for ack in acks if not ack.status] == [1]
        assert not bench.model.stateless, (len(bench.model.stateless), most)
        # Refusals are lost, too, if more than a window of packets waits; a duplicate brings the
        # refusal again.
        held.on, bench.refuse = True, 1
        refused = []
        for one in (peer, other):
            one.new_session()
            space = bench.window - (one.next - one.oldest & PSN_MASK)
            for _ in range(min(space, REPLIES + 20 - len(refused))):
                refused.append((one.node, one.next & PSN_MASK))
                bench.send(one.packet())
        await consumed(bench.packets)
        await ClockCycles(dut.clk, 30)
        held.on = False
        await bench.settle(lossy=True)
        replies = [(ack.dst_node, ack.refused_psn) for ack in acks_of(bench) if ack.status]
        assert replies == refused[:most]
        bench.model.refusals.clear()
        bench.send(other.packet(other.next - 1))
        await bench.settle()
        (ack,) = acks_of(bench)
        assert (ack.dst_node, ack.refused_psn) == refused[-1] and turn < 3


@cocotb.test()
async def reset_in_traffic(dut):
    """transport.srd_receiver.reset: A reset at any moment forgets all peers, packets, outcomes and
    acknowledgements; afterwards all PSNs and sessions are new."""
    bench = Bench(dut, "reset", 0.1, 0.3, 0.5, wait=20)
    await bench.start()
    peers = [Peer(bench, node) for node in range(min(bench.nodes, 6))]
    for wait in (3, 4, 5, 6, 7, 8, 9, 20, 60, 150, 333):
        for _ in range(400):
            bench.send(bench.rng.choice(peers).any())
        await ClockCycles(dut.clk, wait)
        await bench.reset()
        assert dut.m_pkt_valid.value == 0 and dut.m_ack_valid.value == 0
        for peer in peers:
            peer.history.clear()
    for peer in peers:
        peer.begin(peer.next)
        bench.send(peer.packet())
    await bench.settle()
    assert bench.count["passed"] == len(peers)


@cocotb.test()
async def a_reset_forgets_each_peer(dut):
    """transport.srd_receiver.sweep: The initialisation takes a cycle per peer and clears each of
    them; inputs wait for it; a reset restarts it."""
    bench = Bench(dut, "sweep", wait=0, refuse=0)
    await bench.start()
    peers = [Peer(bench, node) for node in range(bench.nodes)]
    for turn in range(3):
        for peer in peers:
            bench.send(*(peer.packet(peer.oldest + at) for at in range(3)))
        await bench.settle()
        dut.rst.value = 1
        await ClockCycles(dut.clk, 2)
        bench.restart()
        dut.rst.value = 0
        if turn:
            await RisingEdge(dut.clk)
            await ClockCycles(dut.clk, bench.nodes // 2)
            assert dut.m_init_done.value == 0
            dut.rst.value = 1
            await ClockCycles(dut.clk, 2)
            dut.rst.value = 0
        # The same packets are new, and wait for the end of the initialisation.
        for peer in reversed(peers):
            bench.send(peer.packet(peer.oldest))
        wait = await span(dut, low(dut.rst), high(dut.m_init_done))
        assert wait == bench.nodes, wait
        assert bench.packets.sent == 0 or len(bench.packets.waiting) == bench.nodes
        await bench.settle()
        assert bench.count["passed"] == bench.nodes


@cocotb.test()
async def cycles(dut):
    """transport.srd_receiver.time: Packets, freed slots, acknowledgements and refusals meet their
    specified cycles."""
    bench = Bench(dut, "time", wait=0, refuse=0)
    await bench.start()
    await ClockCycles(dut.clk, 5)
    module = "efa_srd_receiver"
    seen = Moments(dut, "s_pkt", "m_pkt", "s_outcome", "m_ack", "m_free")
    peers = [Peer(bench, node) for node in range(bench.nodes)]
    packets = [peer.packet() for peer in peers]
    bench.send(*packets)
    await bench.settle()
    seen.hold(module, "packet", "s_pkt", "m_pkt")
    seen.hold(module, "acknowledgement", "s_outcome", "m_ack")
    # Duplicates: freed at once, acknowledged by their stored outcome.
    seen.clear()
    bench.send(*packets)
    await bench.settle()
    seen.hold(module, "free", "s_pkt", "m_free")
    seen.hold(module, "duplicate", "s_pkt", "m_ack")
    seen.clear()
    bench.refuse = 1
    bench.send(*(peer.packet() for peer in peers))
    await bench.settle()
    seen.hold(module, "refusal", "s_outcome", "m_ack")
    seen.clear()
    bench.send(*(peer.packet(incarnation=bench.incarnation ^ 1) for peer in peers))
    await bench.settle()
    seen.hold(module, "reply", "s_pkt", "m_ack")


@cocotb.test()
async def wide_values(dut):
    """transport.srd_receiver.wide: Each bit of each field arrives where it belongs."""
    bench = Bench(dut, "wide", wait=5)
    await bench.start()
    rng, slot = bench.rng, 0
    for bit in range(32):
        peer = Peer(bench, rng.randrange(bench.nodes), session=1 << bit % 15, psn=1 << bit)
        bench.send(peer.packet(), peer.packet())
        await bench.settle()
        bench.send(peer.packet(peer.oldest), peer.datagram(),
                   peer.packet(incarnation=1 << bit % 16 ^ bench.incarnation or 1))  # fmt: skip
        await bench.settle()
        await bench.reset()
        slot |= header(peer.history[0])
    assert slot and bench.nodes


@cocotb.test()
@cocotb.parametrize(pause=[(1, 1), (3, 1), (1, 7), (40, 3)])
async def periodic_stalls(dut, pause):
    """transport.srd_receiver.stall: Regular pauses of the consumers, in phase with the packets or
    not, lose and repeat nothing."""
    bench = Bench(dut, f"periodic {pause}", stalls=periodic(*pause), held=periodic(*pause[::-1]),
                  wait=20, refuse=0.05)  # fmt: skip
    await bench.start()
    peers = [Peer(bench, node) for node in range(min(bench.nodes, 4))]
    for _ in range(800):
        bench.send(bench.rng.choice(peers).any())
    await bench.settle(lossy=pause[0] == 40)
    assert bench.count["passed"] > 200


@cocotb.test()
async def datagrams_pass(dut):
    """transport.srd_receiver.datagram: Datagrams pass unchanged in their place between packets,
    whatever their fields, and change no peer."""
    bench = Bench(dut, "datagram", stalls=0.3)
    await bench.start()
    peers = [Peer(bench, node) for node in range(min(bench.nodes, 3))]
    for _ in range(300):
        peer = bench.rng.choice(peers)
        bench.send(peer.datagram() if bench.rng.random() < 0.6 else peer.any())
    await bench.settle()
    assert bench.count["passed"] > 150
    assert bench.count["outcomes"] < bench.count["passed"]
    assert header(peers[0].datagram()) & 0xFF == PktOpcode.UD_SEND
    await until(dut, high(dut.s_pkt_ready))
