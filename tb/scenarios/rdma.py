# SPDX-License-Identifier: Apache-2.0
"""Writes memory of a peer by RDMA, with and without immediates, permitted and refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from efa_cosim.host.driver_objects import Access
from efa_cosim.host.endpoints import Endpoint, Node, pattern
from efa_cosim.host.queue_pair import RdmaWr, SendWr
from efa_cosim.layouts import defs
from tb.scenarios.reliable import PATIENCE

if TYPE_CHECKING:
    from random import Random

STATUS, OPCODE, STATE = defs.IoCompStatus, defs.IoSendOpType, defs.AdminQpState
STATS = defs.AdminGetStatsType
WRITABLE = Access(local_write=True, remote_write=True)
PAGE = 4096
# A write of several packets, and writes around the ends of flits and pages.
SIZES = (0, 1, 63, 64, 65, PAGE, PAGE + 1, 100_000)
SPACE = 1 << 17


class Writer:
    """An endpoint that writes to a region of another one; `expected` is its content.

    - `options`: of the queue pair of the target
    """

    def __init__(self, nodes: Sequence[Node], rng: Random, **options: Any) -> None:
        self.rng = rng
        self.near, self.far = Endpoint(nodes[0]), Endpoint(nodes[1], **options)
        self.region = self.far.pd.reg_mr(SPACE, WRITABLE, scattered=True)
        self.expected = bytearray(pattern(SPACE, rng.getrandbits(32)))
        self.region.write(0, bytes(self.expected))
        self.number = 0
        # The AH of the writer in the PD of the target.
        self.back = nodes[1].ah_of(nodes[0].backend.node_id)

    def request(self, size: int, at: int, **fields: Any) -> RdmaWr:
        """Returns a write of new bytes of the source, `at` is their place in the region."""
        self.number += 1
        place = self.rng.randrange(64)
        self.data = pattern(size, self.rng.getrandbits(32))
        self.near.buffer.write(place, self.data)
        return RdmaWr(**{
            **self.near.towards(self.far), "remote_addr": self.region.addr + at,
            "r_key": self.region.r_key, "sges": [self.near.sge(place, size)] if size else [],
            "wr_id": self.number, **fields})  # fmt: skip

    def post(self, request: RdmaWr) -> int:
        """Posts a write; returns the status of its completion."""
        self.near.qp.post_write(request)
        done = self.near.cq.wait_for(1, **PATIENCE)
        assert (done["wr_id"][0], done["opcode"][0]) == (self.number, OPCODE.RDMA_WRITE)
        return int(done["status"][0])

    def write(self, size: int, at: int, **fields: Any) -> None:
        """Writes bytes of the region and checks all of its bytes."""
        request = self.request(size, at, **fields)
        assert self.post(request) == STATUS.OK, f"write of {size} bytes at {at}"
        self.expected[at : at + size] = self.data
        self.check(f"write of {size} bytes at {at}")

    def check(self, where: str) -> None:
        """Checks that the region has the bytes of all writes and no other ones."""
        found = self.region.read(0, SPACE)
        assert found == self.expected, f"{where}: bytes of the region differ"

    def receive(self, wr_id: int) -> None:
        """Posts a receive whose buffer has no valid key: no byte may be placed in it."""
        sge = self.far.sge(0, 8)
        self.far.qp.post_recv([replace(sge, l_key=sge.l_key ^ 1 << 20)], wr_id=wr_id)

    def received(self, size: int, imm: int, wr_id: int, unsolicited: bool) -> None:
        """Checks the one completion of a write with immediate at the target."""
        [got] = self.far.cq.wait_for(1, **PATIENCE)
        fields = {name: int(got[name]) for name in got.dtype.names}
        wanted = {"status": STATUS.OK, "opcode": OPCODE.RDMA_WRITE, "byte_len": size, "imm": imm,
                  "wr_id": wr_id, "src_qp": self.near.qp.number, "ah": self.back,
                  "unsolicited": int(unsolicited)}  # fmt: skip
        assert {name: fields[name] for name in wanted} == wanted

    def nothing_received(self) -> None:
        """Checks that the target has no completion."""
        assert len(self.far.cq.poll_array()) == 0


def write(backends: Sequence[Any], rng: Random, sizes: Sequence[int] = SIZES) -> None:
    """Writes bytes of all sizes; the target completes nothing."""
    writer = Writer([Node(backend, seed=n) for n, backend in enumerate(backends)], rng)
    before = statistics(writer)
    for size in sizes:
        for at in (PAGE - 1, rng.randrange(SPACE - size)):
            writer.write(size, at)
    writer.nothing_received()
    total = 2 * sum(sizes)
    after = statistics(writer)
    assert after["write_recv_bytes"] - before["write_recv_bytes"] == total
    assert after["rx_bytes"] - before["rx_bytes"] == total
    assert after["recv_wrs"] == before["recv_wrs"]


def write_with_immediate(
    backends: Sequence[Any], rng: Random, unsolicited: bool, sizes: Sequence[int] = SIZES
) -> None:
    """Writes bytes of all sizes with an immediate, which completes a receive of the target."""
    nodes = [Node(backend, seed=n) for n, backend in enumerate(backends)]
    writer = Writer(nodes, rng, unsolicited=unsolicited)
    for size in sizes:
        imm, wr_id = rng.getrandbits(32), writer.number + 100
        if not unsolicited:
            writer.receive(wr_id)
        writer.write(size, rng.randrange(SPACE - size), imm=imm)
        writer.received(size, imm, 0 if unsolicited else wr_id, unsolicited)
    # Sends of the same queue pair take their receives in order.
    writer.far.receive(8, wr_id=7)
    writer.near.qp.post_send(SendWr(**writer.near.towards(writer.far), inline=b"x"))
    assert writer.near.cq.wait_for(1, **PATIENCE)["status"][0] == STATUS.OK
    [got] = writer.far.cq.wait_for(1, **PATIENCE)
    assert (got["wr_id"], got["opcode"], got["byte_len"]) == (7, OPCODE.SEND, 1)


def refusals(backends: Sequence[Any], rng: Random) -> None:
    """Writes that the target must refuse: no byte is written, no receive is consumed."""
    nodes = [Node(backend, seed=n) for n, backend in enumerate(backends)]
    writer = Writer(nodes, rng)
    far, region = writer.far, writer.region
    readable = far.pd.reg_mr(SPACE, Access(local_write=True, remote_read=True), scattered=True)
    other_pd = far.context.alloc_pd().reg_mr(SPACE, WRITABLE, scattered=True)
    gone = far.pd.reg_mr(SPACE, WRITABLE, scattered=True)
    gone_at, gone_key = gone.addr, gone.r_key
    far.node.driver.dereg_mr(gone.l_key)
    bad = STATUS.REMOTE_ERROR_BAD_ADDRESS
    writer.receive(wr_id=5)
    before = statistics(writer)
    count = 0
    for size in (1, PAGE, 30_000):
        end = region.addr + SPACE
        cases: list[tuple[dict[str, int], int]] = [
            ({"r_key": region.r_key ^ 1 << bit}, bad) for bit in (0, 9, 24, 31)]  # fmt: skip
        cases += [
            ({"remote_addr": end - size + 1}, bad),
            ({"remote_addr": region.addr - 1}, bad),
            ({"remote_addr": readable.addr, "r_key": readable.r_key}, bad),
            ({"remote_addr": other_pd.addr, "r_key": other_pd.r_key}, bad),
            ({"remote_addr": gone_at, "r_key": gone_key}, bad),
            ({"qkey": 1}, STATUS.REMOTE_ERROR_BAD_DEST_QPN),
            ({"dest_qp": far.qp.number ^ 1 << 12}, STATUS.REMOTE_ERROR_BAD_DEST_QPN),
        ]
        for fields, status in cases:
            for imm in (None, 3):
                found = writer.post(writer.request(size, 0, imm=imm, **fields))
                assert found == status, f"write of {size} bytes, {fields}: status {found}"
                count += 1
    writer.check("refused writes")
    writer.nothing_received()
    after = statistics(writer)
    assert after["rx_drops"] - before["rx_drops"] >= count
    assert after["write_recv_bytes"] == before["write_recv_bytes"]
    # The key of an operation without bytes does not count; the receive is still posted.
    writer.write(0, 0, r_key=0x5555_5555, imm=9)
    writer.received(0, 9, 5, unsolicited=False)
    # No receive is posted any more, and the region goes first.
    writer.near.qp.modify(writer.near.qp.state, rnr_retry=0)
    rnr = STATUS.REMOTE_ERROR_RNR
    for size in (0, 1, PAGE):
        assert writer.post(writer.request(size, 0, imm=1)) == rnr
        assert writer.post(writer.request(size, 0, imm=1, r_key=1)) == (bad if size else rnr)
    writer.check("writes without a receive")
    far.node.destroy_ah_of(writer.near.node.backend.node_id)
    for size in (0, 1):
        found = writer.post(writer.request(size, 0, r_key=1))
        assert found == STATUS.REMOTE_ERROR_UNKNOWN_PEER
    far.node.ah_of(writer.near.node.backend.node_id)
    writer.write(1, 0)


def endings(
    backends: Sequence[Any], rng: Random, pause: Callable[[int], object], rounds: int = 24
) -> None:
    """Ends the region or the queue pair of the target while a write arrives: no byte changes after
    the response, and the write ends with OK or a refusal. `pause` lets cycles pass."""
    nodes = [Node(backend, seed=n) for n, backend in enumerate(backends)]
    found = set()
    for turn in range(rounds):
        writer = Writer(nodes, rng, unsolicited=bool(turn & 1))
        far, driver = writer.far, nodes[1].driver
        writer.near.qp.post_write(writer.request(100_000, 5, imm=turn))
        for node in nodes:
            node.context.enter_kernel()
        pause(rng.randrange(3000))
        way = turn // 2 % 3
        if way == 0:
            driver.dereg_mr(writer.region.l_key)
        elif way == 1:
            far.qp.destroy()
        else:
            driver.modify_qp(far.qp.handle, qp_state=STATE.RESET, cur_qp_state=far.qp.state)
        after = writer.region.read(0, SPACE)
        done = writer.near.cq.wait_for(1, **PATIENCE)
        refusal = STATUS.REMOTE_ERROR_BAD_ADDRESS if way == 0 else STATUS.REMOTE_ERROR_BAD_DEST_QPN
        status = int(done["status"][0])
        assert status in (STATUS.OK, refusal), f"turn {turn}: status {status}"
        assert writer.region.read(0, SPACE) == after, f"turn {turn}: written after the response"
        whole = bytes(writer.expected[:5]) + writer.data + bytes(writer.expected[100_005:])
        assert all(new in (old, last) for new, old, last in zip(
            after, writer.expected, whole, strict=True)), f"turn {turn}: other bytes"  # fmt: skip
        found.add((way, status))
    assert len(found) > 3


def statistics(writer: Writer) -> dict[str, int]:
    """Returns the counters of the target."""
    found: dict[str, int] = {}
    for kind in (STATS.BASIC, STATS.MESSAGES, STATS.RDMA_WRITE):
        stats = writer.far.node.driver.get_stats(kind)
        found |= {name: int(getattr(stats, name)) for name in stats.FIELDS}
    return found
