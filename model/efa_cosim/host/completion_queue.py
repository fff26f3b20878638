# SPDX-License-Identifier: Apache-2.0
"""Holds a completion queue in host memory and polls it by phase bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from efa_cosim.boundary.backend import DeviceTimeout, WatchedWord
from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import get_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from efa_cosim.host.verbs import Context

COUNTER_MASK = 0xFFFF
CMD_SN_MASK = 3
# The phase bit as a mask of the first eight bytes of a CQE.
PHASE = 1 << 8 * defs.IoCdescCommon.flags.offset + defs.IoCdescCommon.phase.lsb
_TX_ENTRY = defs.IoTxCdesc.DTYPE
RX_ENTRY: dict[int, type[defs.IoRxCdesc] | type[defs.IoRxCdescEx]] = {
    16: defs.IoRxCdesc, 32: defs.IoRxCdescEx,
}

WC_DTYPE = np.dtype([
    ("wr_id", "u8"), ("status", "u1"), ("opcode", "u1"), ("receive", "?"), ("has_imm", "?"),
    ("qp_num", "u2"), ("src_qp", "u2"), ("ah", "u2"), ("byte_len", "u4"), ("imm", "u4"),
    ("unsolicited", "?"),
])


class VerbsError(Exception):
    """The call is not possible, or a CQE matches no outstanding work request."""


class Completion(NamedTuple):
    """One completed work request.

    - `wr_id`: number of the work request
    - `status`: OK or the error
    - `receive`: True for a receive, False for a send
    - `qp_num`: number of the queue pair
    - `src_qp`, `ah`, `byte_len`, `imm`: of a receive: the sender's queue pair and address handle,
      the bytes received (UD: GRH included) and the immediate data; else 0, `imm` None
    - `unsolicited`: a write with immediate that consumed no receive; `wr_id` is then 0
    """

    wr_id: int
    status: defs.IoCompStatus
    opcode: defs.IoSendOpType
    receive: bool
    qp_num: int
    src_qp: int
    ah: int
    byte_len: int
    imm: int | None
    unsolicited: bool = False


def round_up_pow2(value: int) -> int:
    """The smallest power of two that is not below value."""
    return 1 << max(0, value - 1).bit_length()


class _SubQueue:
    def __init__(self, base: int) -> None:
        self.base, self.consumed = base, 0


class CompletionQueue:
    """A completion queue in host memory; Context.create_cq creates it.

    - `depth`: entries of each sub-queue, rounded up to a power of two
    - `entry_bytes`: size of a CQE, 16 or 32
    - `events`: binds the CQ to an event queue, for req_notify() and get_event()
    - `with_source`: a receive CQE carries the GID of a sender that has no address handle
    - `eq`: index of the event queue in `driver.eqs`

    `number` is its number. Sub-queues lie one after the other in host memory.
    """

    def __init__(
        self,
        context: Context,
        depth: int,
        entry_bytes: int = 32,
        events: bool = False,
        with_source: bool = False,
        eq: int = 0,
    ) -> None:
        driver = context.driver
        self.context, self.driver = context, driver
        self.depth = round_up_pow2(depth)
        self.entry = RX_ENTRY[entry_bytes]
        if events and not driver.eqs:
            raise VerbsError("the device has no event queue for completion events: "
                             "create the CQ with events=False")
        count = driver.queue_attr.sub_cqs_per_cq
        ring_bytes = self.depth * entry_bytes
        self.base = driver.allocator.alloc(count * ring_bytes)
        try:
            response = driver.create_cq(
                context.uar, self.depth, self.base, entry_bytes,
                eqn=driver.eqs[eq].number if events else None, set_src_addr=with_source,
                long_ids=driver.long_ids)
        except Exception:
            driver.allocator.free(self.base)
            raise
        self.number = response.cq_idx
        self._db_offset = response.db_offset if response.db_valid else None
        self._subs = [_SubQueue(self.base + i * ring_bytes) for i in range(count)]
        self._first_sub = 0
        self._command_sn = 0

    def destroy(self) -> None:
        """Destroys the queue and frees its memory; raises DriverError if a queue pair uses it."""
        self.driver.destroy_cq(self.number)
        self.driver.cq_events.pop(self.number, None)
        self.driver.allocator.free(self.base)

    @property
    def consumed(self) -> int:
        """Number of completions consumed from all sub-queues."""
        return sum(sub.consumed for sub in self._subs)

    # Polling

    def poll(self, limit: int = 16) -> list[Completion]:
        """Returns up to `limit` completions as a list of `Completion`; empty if there is no new
        one.

        Raises VerbsError if a CQE matches no outstanding work request; that CQE is consumed.
        """
        result = []
        for row in self.poll_array(limit):
            result.append(Completion(
                int(row["wr_id"]), defs.IoCompStatus(int(row["status"])),
                defs.IoSendOpType(int(row["opcode"])), bool(row["receive"]),
                int(row["qp_num"]), int(row["src_qp"]), int(row["ah"]),
                int(row["byte_len"]), int(row["imm"]) if row["has_imm"] else None,
                bool(row["unsolicited"])))
        return result

    def poll_array(self, limit: int = 256) -> NDArray[Any]:
        """Returns up to `limit` completions as an array: the fields of `Completion`, and `has_imm`.

        Raises VerbsError as poll() does.
        """
        parts: list[NDArray[Any]] = []
        left, count = limit, len(self._subs)
        for turn in range(count):
            sub = self._subs[(self._first_sub + turn) % count]
            # A ring that wraps is read in two parts.
            for _ in range(2):
                entries = self._take(sub, left)
                if not len(entries):
                    break
                parts.append(self._resolve(sub, entries, lenient=bool(parts)))
                left -= len(parts[-1])
                if not left or len(parts[-1]) < len(entries):
                    break
            if not left:
                break
        self._first_sub = (self._first_sub + 1) % count
        if not parts:
            return np.zeros(0, WC_DTYPE)
        self.ring()
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _take(self, sub: _SubQueue, limit: int) -> NDArray[Any]:
        """New CQEs from the consumer index up to the end of the ring; does not consume them."""
        size = self.entry.SIZE
        wrap, slot = divmod(sub.consumed, self.depth)
        run = min(limit, self.depth - slot)
        data = self.driver.memory.read(sub.base + slot * size, run * size)
        entries: NDArray[Any] = np.frombuffer(data, self.entry.DTYPE)
        fresh = get_column(self.entry, entries, self._path("common.phase")) == 1 - wrap % 2
        if not fresh.all():
            entries = entries[: int(np.argmin(fresh))]
        return entries

    def _path(self, name: str) -> str:
        return name if self.entry is defs.IoRxCdesc else f"base.{name}"

    def _column(self, entries: NDArray[Any], name: str) -> NDArray[Any]:
        return get_column(self.entry, entries, self._path(name))

    def _request_ids(self, entries: NDArray[Any], receive: NDArray[np.bool]) -> NDArray[Any]:
        """All 64 bits of each request id; the upper 48 bits are 0 for receives."""
        ids: NDArray[Any] = self._column(entries, "common.req_id").astype("u8")
        sends = np.ndarray(len(entries), _TX_ENTRY, entries, strides=entries.strides)
        words = np.where(receive[:, None], 0, sends["req_id_ex"]["w"]).astype("u8")
        ids |= words[:, 0] << 16 | words[:, 1] << 32 | words[:, 2] << 48
        return ids

    def _resolve(self, sub: _SubQueue, entries: NDArray[Any], lenient: bool) -> NDArray[Any]:
        """Completions of CQEs, consumed up to the first that matches no outstanding work request.

        If that CQE is the first, it is consumed and VerbsError is raised. A lenient call leaves it
        for the next call.
        """
        result = np.zeros(len(entries), WC_DTYPE)
        result["status"] = self._column(entries, "common.status")
        result["opcode"] = self._column(entries, "common.op_type")
        result["has_imm"] = self._column(entries, "common.has_imm")
        result["qp_num"] = qp_nums = self._column(entries, "common.qp_num")
        q_types = self._column(entries, "common.q_type")
        result["receive"] = receive = q_types == defs.IoQueueType.RECV_QUEUE
        for name, path in (("src_qp", "src_qp_num"), ("ah", "ah"), ("imm", "imm"),
                           ("byte_len", "length")):
            result[name] = np.where(receive, self._column(entries, path), 0)
        if self.entry is defs.IoRxCdescEx:
            wide = receive & (result["opcode"] == defs.IoSendOpType.RDMA_WRITE)
            high = get_column(self.entry, entries, "u.rdma_write.length_hi").astype("u4")
            result["byte_len"] += np.where(wide, high << 16, 0)
        result["unsolicited"] = unsolicited = receive & self._column(
            entries, "common.unsolicited").astype(bool)
        req_ids = self._request_ids(entries, receive)
        groups = []
        owned = np.zeros(len(entries), bool)
        for number in set(qp_nums.tolist()):
            qp = self.context.qps.get(number)
            if qp is None:
                continue
            owned |= (qp_nums == number) & unsolicited
            for queue, side in ((qp.sq, ~receive), (qp.rq, receive & ~unsolicited)):
                where = (qp_nums == number) & side
                owned[where] = queue.owns(req_ids[where])
                groups.append((queue, where))
        count = len(entries) if owned.all() else int(np.argmin(owned))
        if not count and not lenient:
            sub.consumed += 1
            shown = entries[0].tobytes().hex()
            raise VerbsError(f"CQ {self.number}: CQE matches no outstanding work request: {shown}")
        sub.consumed += count
        for queue, where in groups:
            where = where[:count]
            result["wr_id"][:count][where] = queue.complete(req_ids[:count][where])
        return result[:count]

    # Doorbell and events

    def skip(self, count: int) -> None:
        """Consumes completions that were detected without being read."""
        self._subs[0].consumed += count

    def ring(self) -> None:
        """Writes the consumer index to the CQ doorbell."""
        self._ring(arm=0)

    def _ring(self, arm: int) -> None:
        if self._db_offset is not None:
            self.context.ring(self._db_offset, defs.DOORBELL_BITS.CQ_DB.pack(
                CONSUMER_INDEX=self.consumed & COUNTER_MASK, CMD_SN=self._command_sn, ARM=arm))
            self.context.push()

    def req_notify(self) -> None:
        """Arms the queue: requests one event at the next completion. Raises VerbsError without a
        doorbell."""
        if self._db_offset is None:
            raise VerbsError(f"CQ {self.number} has no doorbell (db_valid is 0 in the response of "
                             "CREATE_CQ): poll it instead")
        self._ring(arm=1)

    def get_event(self, **limits: Any) -> None:
        """Waits for a completion event of this queue and consumes it; the CQE remains to be polled.

        `limits` are those of Driver.wait. Raises DeviceTimeout.
        """
        events = self.driver.cq_events
        self.driver.wait(lambda: events[self.number] > 0, **limits)
        events[self.number] -= 1
        self._command_sn = self._command_sn + 1 & CMD_SN_MASK

    def _phase_word(self, ahead: int) -> WatchedWord | None:
        """The phase bit of the ahead-th next CQE; None with sub-queues."""
        if len(self._subs) > 1:
            return None
        wrap, slot = divmod(self._subs[0].consumed + min(ahead, self.depth) - 1, self.depth)
        at = self.base + slot * self.entry.SIZE
        return WatchedWord(at, PHASE, 0 if wrap % 2 else PHASE)

    def wait_for(self, count: int, **limits: Any) -> NDArray[Any]:
        """Polls until `count` completions have arrived; returns an array as poll_array() does.

        `limits` are those of Driver.wait. Raises DeviceTimeout if the device has nothing more to do
        or the time limit has passed, VerbsError as poll() does.
        """
        parts: list[NDArray[Any]] = []
        have = 0

        def enough() -> bool:
            nonlocal have
            part = self.poll_array(count - have)
            if len(part):
                parts.append(part)
                have += len(part)
            return have >= count

        try:
            self.driver.wait(enough, word=lambda: self._phase_word(count - have), **limits)
        except DeviceTimeout as error:
            raise DeviceTimeout(
                f"CQ {self.number}: {have} of {count} completions arrived; {error}. A packet "
                "with a wrong Q_Key or queue pair is dropped: driver.get_stats() counts them"
            ) from error
        return np.concatenate(parts) if parts else np.zeros(0, WC_DTYPE)
