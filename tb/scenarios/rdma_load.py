# SPDX-License-Identifier: Apache-2.0
"""Executes many RDMA operations at once and checks memory, completions and statuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from efa_cosim.host.driver_objects import Access
from efa_cosim.host.endpoints import QKEY, SRD, UD, Endpoint, Node
from efa_cosim.host.queue_pair import RdmaWr, Sge
from efa_cosim.layouts.defs import AdminGetStatsType
from tb.scenarios.reliable import PATIENCE, STATE, STATUS, back_off, nodes_of

if TYPE_CHECKING:
    from random import Random

    from efa_cosim.boundary.backend import Backend

# Around the bytes of a flit, of inline bytes, of a packet (4,096, 8,192 or the MTU) and of several.
SIZES = (
    0, 1, 63, 64, 65, 80, 81, 4095, 4096, 4097, 8191, 8192, 8193, 8928, 8929,
    16_384, 30_000, 70_000,
)  # fmt: skip
SPACE = 1 << 20
INLINE = 80
DEPTH = 32
ALL = Access(local_write=True, remote_write=True, remote_read=True)


class Way:
    """Reads or writes of one queue pair on a region of another node.

    `image` are the expected bytes of the region that they change, `open` the bytes of operations
    without a completion, by their number, `immediates` the bytes of writes whose immediate has not
    arrived.
    """

    def __init__(
        self, near: Node, far: Node, rng: Random, inline: int = 32, reads: bool = False
    ) -> None:
        self.rng, self.reads = rng, reads
        self.a = Endpoint(near, depth=DEPTH, max_inline=inline)
        self.b = Endpoint(far, depth=DEPTH)
        self.local = near.pd.reg_mr(SPACE, scattered=True, access=ALL)
        self.remote = far.pd.reg_mr(SPACE, scattered=True, access=ALL)
        self.source, self.target = self.local, self.remote
        if reads:
            self.source, self.target = self.remote, self.local
        self.image = bytearray(SPACE)
        self.target.write(0, bytes(SPACE))
        self.open: dict[int, int] = {}
        self.immediates: dict[int, int] = {}
        self.number = 0

    def post(self, at: int, size: int, imm: bool = False, **values: Any) -> int:
        """Posts an operation that moves new bytes at `at` of the regions; returns its number.
        `values` override those of the work request."""
        data, number = self.rng.randbytes(size), self.number
        self.number += 1
        self.source.write(at, data)
        inline = not self.reads and size <= self.a.qp.max_inline > 32 and self.rng.random() < 0.7
        request: dict[str, Any] = {
            **self.a.towards(self.b), "remote_addr": self.remote.addr + at,
            "r_key": self.remote.r_key, "wr_id": number,
        }  # fmt: skip
        if inline:
            request["inline"] = data
        elif size:
            request["sges"] = [Sge(self.local.addr + at, size, self.local.l_key)]
        if imm:
            request["imm"] = number
            self.immediates[number] = size
        wr = RdmaWr(**{**request, **values})
        (self.a.qp.post_read if self.reads else self.a.qp.post_write)(wr)
        self.image[at : at + size] = data
        self.open[number] = size
        return number

    def finish(self) -> dict[int, int]:
        """Waits for the completions of all open operations; returns the statuses by number."""
        found: dict[int, int] = {}
        while self.open:
            for one in self.a.cq.wait_for(1, **PATIENCE):
                number = int(one["wr_id"])
                assert number in self.open, f"operation {number} completed twice"
                del self.open[number]
                found[number] = int(one["status"])
        return found

    def take_immediates(self) -> None:
        """Waits for all immediates, each once with the length of its write."""
        while self.immediates:
            for one in self.b.cq.wait_for(1, **PATIENCE):
                assert one["status"] == STATUS.OK, f"receive: status {one['status']}"
                size = self.immediates.pop(int(one["imm"]))
                assert one["byte_len"] == size, f"write {one['imm']}: length {one['byte_len']}"

    def receive(self, count: int) -> None:
        """Posts receives for immediates; no byte is placed in them."""
        for _ in range(count):
            self.b.receive(64)

    def check(self, where: str) -> None:
        """Compares the whole region that changes, and the buffers of the receives."""
        found = self.target.read(0, SPACE)
        if found != self.image:
            at = next(n for n, (x, y) in enumerate(zip(found, self.image, strict=True)) if x != y)
            raise AssertionError(
                f"{where}: byte {at} of the region: {found[at]:#04x}, not {self.image[at]:#04x}")
        assert self.b.buffer.read(0, 64) == bytes(64), f"{where}: bytes in the buffer of a receive"


class Statistics:
    """The statistics of two nodes: what their counters have gained since the creation."""

    NAMES = (
        "tx_bytes", "rx_bytes", "send_wrs", "send_bytes", "recv_wrs", "recv_bytes", "read_wrs",
        "read_bytes", "read_wr_err", "read_resp_bytes", "write_wrs", "write_bytes",
        "write_wr_err", "write_recv_bytes",
    )  # fmt: skip

    def __init__(self, near: Node, far: Node) -> None:
        self.nodes = {"initiator": near, "responder": far}
        self.before = {name: self._read(node) for name, node in self.nodes.items()}

    def _read(self, node: Node) -> dict[str, int]:
        found: dict[str, int] = {}
        for kind in AdminGetStatsType:
            stats = node.driver.get_stats(kind)
            found |= {name: int(getattr(stats, name)) for name in stats.FIELDS}
        return {name: found[name] for name in self.NAMES}

    def gains(self, name: str) -> dict[str, int]:
        """Returns what the counters of a node have gained."""
        after = self._read(self.nodes[name])
        return {key: after[key] - value for key, value in self.before[name].items()}

    def check(self, reads: bool, done: int, moved: int) -> None:
        """Checks the gains after so many operations of one kind that were completed OK."""
        op = "read" if reads else "write"
        wanted = {
            "initiator": {f"{op}_wrs": done, f"{op}_bytes": moved,
                          "rx_bytes" if reads else "tx_bytes": moved},
            "responder": {"read_resp_bytes" if reads else "write_recv_bytes": moved,
                          "tx_bytes" if reads else "rx_bytes": moved},
        }  # fmt: skip
        for name in self.nodes:
            gains = self.gains(name)
            assert gains == dict.fromkeys(self.NAMES, 0) | wanted[name], f"statistics: {name}"


def operations(
    backends: tuple[Backend, Backend], rng: Random, reads: bool, rounds: int = 3
) -> None:
    """Operations of many sizes on three queue pairs; some writes are inline, some have an
    immediate. Both nodes count them and their bytes."""
    near, far = nodes_of(backends)
    statistics, done, moved = Statistics(near, far), 0, 0
    for turn in range(rounds):
        ways = [Way(near, far, rng, inline, reads) for inline in (32, 32, INLINE)]
        for way in ways:
            way.receive(8)
            at = rng.randrange(200)
            for _ in range(8):
                size = rng.choice(SIZES)
                way.post(at, size, imm=not reads and rng.random() < 0.4)
                at += size
                done, moved = done + 1, moved + size
        for way in ways:
            statuses = way.finish()
            assert set(statuses.values()) == {STATUS.OK}, f"round {turn}: {statuses}"
            way.take_immediates()
            way.check(f"round {turn}")
    statistics.check(reads, done, moved)


def refusals(backends: tuple[Backend, Backend], rng: Random, reads: bool) -> None:
    """Each wrong operation completes once with the status of decision 0010, is counted as failed,
    and changes nothing."""
    near, far = nodes_of(backends)
    statistics, op = Statistics(near, far), "read" if reads else "write"
    way = Way(near, far, rng, reads=reads)
    other = Way(near, far, rng, reads=reads)
    second = far.context.alloc_pd()
    foreign = second.reg_mr(SPACE, access=ALL)
    shut = far.pd.reg_mr(SPACE, access=Access(remote_read=not reads, remote_write=reads))
    fixed = near.pd.reg_mr(SPACE, access=Access(local_write=False))
    for region in (foreign, shut):
        region.write(0, bytes(SPACE))
    cq = far.context.create_cq(8)
    unknown = second.create_qp(cq, cq, SRD, max_send_wr=4, max_recv_wr=4).to_rts(QKEY)
    size, local = 5000, way.local
    lkey, behind = local.l_key, local.addr + SPACE
    cases: list[tuple[int, dict[str, Any]]] = [
        (STATUS.REMOTE_ERROR_BAD_ADDRESS, {"r_key": way.remote.r_key ^ 1 << 19}),
        (STATUS.REMOTE_ERROR_BAD_ADDRESS, {"r_key": way.remote.r_key | 1 << 24}),
        (STATUS.REMOTE_ERROR_BAD_ADDRESS, {"remote_addr": way.remote.addr - 1}),
        (STATUS.REMOTE_ERROR_BAD_ADDRESS, {"remote_addr": way.remote.addr + SPACE - size + 1}),
        (STATUS.REMOTE_ERROR_BAD_ADDRESS, {"remote_addr": (1 << 64) - 1}),
        (STATUS.REMOTE_ERROR_BAD_ADDRESS, {"r_key": foreign.r_key, "remote_addr": foreign.addr}),
        (STATUS.REMOTE_ERROR_BAD_ADDRESS, {"r_key": shut.r_key, "remote_addr": shut.addr}),
        (STATUS.REMOTE_ERROR_BAD_DEST_QPN, {"dest_qp": 0x7FFF}),
        (STATUS.REMOTE_ERROR_BAD_DEST_QPN, {"qkey": QKEY + 1}),
        (STATUS.REMOTE_ERROR_UNKNOWN_PEER, {"dest_qp": unknown.number}),
        (STATUS.LOCAL_ERROR_INVALID_LKEY, {"sges": [Sge(local.addr, size, lkey ^ 1 << 19)]}),
        (STATUS.LOCAL_ERROR_INVALID_LKEY, {"sges": [Sge(behind - 1, size, lkey)]}),
    ]  # fmt: skip
    if reads:
        sges = [Sge(fixed.addr, size, fixed.l_key)]
        cases.append((STATUS.LOCAL_ERROR_INVALID_LKEY, {"sges": sges}))
    before = bytes(way.image)
    for status, values in cases:
        number = way.post(64, size, **values)
        found = way.finish()
        assert found == {number: status}, f"{values}: {found}, expected {status}"
    way.image[:] = before
    way.check("refused operations")
    assert foreign.read(0, SPACE) == bytes(SPACE)
    assert shut.read(0, SPACE) == bytes(SPACE)
    other.post(64, size)
    assert set(other.finish().values()) == {STATUS.OK}
    other.check("the other queue pair")
    datagrams = Endpoint(near, UD, depth=4)
    post = datagrams.qp.post_read if reads else datagrams.qp.post_write
    post(RdmaWr(
        **datagrams.towards(way.b), remote_addr=way.remote.addr, r_key=way.remote.r_key,
        sges=[Sge(way.local.addr, 8, way.local.l_key)]))  # fmt: skip
    done = datagrams.cq.wait_for(1, **PATIENCE)
    assert done["status"][0] == STATUS.LOCAL_ERROR_UNSUPPORTED_OP
    # A queue pair of datagrams executes no operation, so none fails.
    gains = statistics.gains("initiator")
    assert (gains[f"{op}_wr_err"], gains[f"{op}_wrs"], gains[f"{op}_bytes"]) == (
        len(cases), 1, size)  # fmt: skip


def not_ready(backends: tuple[Backend, Backend], rng: Random) -> None:
    """Writes with an immediate wait for a receive; writes without one do not wait for them."""
    near, far = nodes_of(backends)
    patient, hasty = Way(near, far, rng), Way(near, far, rng)
    hasty.a.qp.modify(STATE.RTS, rnr_retry=1)
    for way in (patient, hasty):
        for place, size in enumerate((0, 100, 20_000)):
            way.post(place * 30_000, size, imm=True)
    free = patient.post(200_000, 9000)
    first = patient.a.cq.wait_for(1, **PATIENCE)
    assert (first["wr_id"][0], first["status"][0]) == (free, STATUS.OK)
    del patient.open[free]
    assert set(hasty.finish().values()) == {STATUS.REMOTE_ERROR_RNR}
    near.driver.pause(back_off(backends[0], rng))
    patient.receive(3)
    assert set(patient.finish().values()) == {STATUS.OK}
    patient.take_immediates()
    patient.check("after RNR")


def endings(backends: tuple[Backend, Backend], rng: Random, reads: bool, rounds: int = 8) -> None:
    """Regions and queue pairs go while operations are open: each completes once, and those of other
    queue pairs are not changed."""
    near, far = nodes_of(backends)
    lasting = Way(near, far, rng, reads=reads)
    ends: list[tuple[set[int], Callable[[Way], Any]]] = [
        ({STATUS.LOCAL_ERROR_INVALID_LKEY}, lambda way: near.driver.dereg_mr(way.local.l_key)),
        ({STATUS.REMOTE_ERROR_BAD_ADDRESS}, lambda way: far.driver.dereg_mr(way.remote.l_key)),
        ({STATUS.FLUSHED}, lambda way: way.a.qp.modify(STATE.ERR)),
        ({STATUS.REMOTE_ERROR_BAD_DEST_QPN}, lambda way: way.b.qp.modify(STATE.ERR)),
    ]
    for turn in range(rounds):
        statuses, end = ends[turn % len(ends)]
        way = Way(near, far, rng, reads=reads)
        for place in range(6):
            way.post(place * 80_000, 70_000)
            lasting.post(place * 80_000, rng.choice(SIZES))
        near.context.enter_kernel()
        near.driver.pause(rng.randrange(rng.choice((1000, 4000, 8000))))
        end(way)
        found = way.finish()
        assert set(found.values()) <= {STATUS.OK, *statuses}, f"round {turn}: {found}"
        assert set(lasting.finish().values()) == {STATUS.OK}, f"round {turn}: the others"
        lasting.check(f"round {turn}: the others")


def removed_targets(backends: tuple[Backend, Backend], rng: Random, rounds: int = 4) -> set[int]:
    """Queue pairs are destroyed or reset while reads of their memory are served: no byte that is
    written after the response arrives at the reader. The number of a destroyed one is used again at
    once. Returns the statuses of the reads."""
    near, far = nodes_of(backends)
    lasting = Way(near, far, rng, reads=True)
    seen: set[int] = set()
    for turn in range(rounds):
        way = Way(near, far, rng, reads=True)
        for place in range(6):
            way.post(place * 160_000, 150_000)
            lasting.post(place * 80_000, rng.choice(SIZES))
        near.context.enter_kernel()
        near.driver.pause(rng.randrange(rng.choice((1000, 4000, 8000))))
        if turn % 2:
            way.b.qp.modify(STATE.RESET)
        else:
            way.b.qp.destroy()
            Endpoint(far, depth=DEPTH)
        way.source.write(0, bytes(byte ^ 0xFF for byte in way.image))
        found = way.finish()
        seen |= set(found.values())
        arrived = way.target.read(0, SPACE)
        for at, (byte, wanted) in enumerate(zip(arrived, way.image, strict=True)):
            assert byte in (wanted, 0), f"round {turn}: byte {at} was written after the response"
        assert set(lasting.finish().values()) == {STATUS.OK}, f"round {turn}: the others"
        lasting.check(f"round {turn}: the others")
    return seen
