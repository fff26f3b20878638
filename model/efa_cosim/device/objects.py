# SPDX-License-Identifier: Apache-2.0
"""Holds all objects that admin commands create, and allocates their numbers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, fields, is_dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from efa_cosim.device.ring import EntryRing, WorkRing
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.device.message import Message

_Item = TypeVar("_Item")
# A value that may be None, where another function has excluded None: mypy cannot follow that.
Checked: TypeAlias = _Item | Any

KEY_BITS = 20
_QP_NUMBER_MASK = 0xFFFF


@dataclass(slots=True, eq=False)
class Pd:
    """Protection domain."""

    index: int


@dataclass(slots=True, eq=False)
class Uar:
    """User access region: the doorbell and LLQ pages of one process."""

    index: int


@dataclass(slots=True, eq=False)
class Ah:
    """Address handle; node is None outside the fabric, refs counts creations of the same GID."""

    index: int
    pd: int
    gid: bytes
    node: int | None
    refs: int = 1


@dataclass(slots=True, eq=False)
class Mr:
    """Memory region: maps an IOVA range to host pages."""

    index: int
    key: int
    pd: int
    iova: int
    length: int
    local_write: bool
    remote_write: bool
    remote_read: bool
    physical: bool
    page_shift: int = 0
    first_translation: int = 0
    translations: int = 0
    pages: tuple[int, ...] = ()

    def covers(self, address: int, size: int) -> bool:
        """True if the whole range lies inside the region."""
        return self.iova <= address and address + size <= self.iova + self.length

    def pieces(self, address: int, size: int) -> list[tuple[int, int]]:
        """Host ranges (address, size) of an IOVA range, one per page."""
        if self.physical:
            return [(address, size)]
        page_bytes = 1 << self.page_shift
        position = address - (self.iova & ~(page_bytes - 1))
        result = []
        while size:
            inside = position & (page_bytes - 1)
            count = min(size, page_bytes - inside)
            result.append((self.pages[position >> self.page_shift] + inside, count))
            position += count
            size -= count
        return result


@dataclass(slots=True, eq=False)
class Counter:
    """Event counter at a host memory address; attached counts its attached QP events."""

    index: int
    uar: int
    address: int
    value: int = 0
    attached: int = 0


@dataclass(slots=True, eq=False)
class Eq:
    """Event queue; new is true if an EQE was written since the last message."""

    index: int
    base: int
    vector: int
    ring: EntryRing
    armed: bool = False
    new: bool = False


@dataclass(slots=True, eq=False)
class Cq:
    """Completion queue.

    long_ids: send CQEs hold 64-bit request ids. Since the EQ was last armed, posted: an event was
    written; pending: another event waits.
    """

    index: int
    uar: int
    base: int
    entry_bytes: int
    set_src_addr: bool
    long_ids: bool
    eq: Eq | None
    rings: list[EntryRing]
    written: int = 0
    consumer_index: int = 0
    armed: bool = False
    posted: bool = False
    pending: bool = False


@dataclass(slots=True, eq=False)
class Qp:
    """Queue pair.

    long_ids: sends have 64-bit request ids; outstanding: sends without acknowledgement by message
    id; first_phase: phase bit before the first wrap of the send ring, None before the first WQE;
    sq_base, fetched: send ring in host memory and its WQEs fetched but not consumed
    (efa_cosim.device.host_wqes); counters: attached event counters by event bit; resets: moves to
    RESET, of which destruction is one.
    """

    index: int
    number: int
    type: int
    pd: int
    uar: int
    send_cq: Cq
    recv_cq: Cq
    wqe_bytes: int
    llq_base: int
    sq: WorkRing
    rq_base: int
    rq: WorkRing
    unsolicited: bool
    long_ids: bool
    rnr_retry: int
    state: int = defs.AdminQpState.RESET
    qkey: int = 0
    sq_psn: int = 0
    rq_failed: bool = False
    first_phase: int | None = None
    outstanding: dict[int, Message] = field(default_factory=dict)
    sq_base: int = 0
    fetched: deque[bytes | None] = field(default_factory=deque)
    counters: dict[int, Counter] = field(default_factory=dict)
    resets: int = 0


class Table(Generic[_Item]):
    """Objects of one kind by number. A number used by a UAR is reserved while the UAR exists."""

    def __init__(self, width: int) -> None:
        self.count = 1 << width
        self.live: dict[int, _Item] = {}
        self.touched: dict[int, int] = {}

    def get(self, number: int) -> _Item | None:
        return self.live.get(number)

    def free_number(self, uar: int | None = None) -> int | None:
        """Lowest number that can be allocated now, None if there is none."""
        for number in range(self.count):
            if number not in self.live and self.touched.get(number, uar) == uar:
                return number
        return None

    def add(self, number: int, item: _Item, uar: int | None = None) -> None:
        self.live[number] = item
        if uar is not None:
            self.touched[number] = uar

    def remove(self, number: int) -> _Item:
        return self.live.pop(number)

    def cancel(self, uar: int) -> None:
        """Releases the numbers reserved for a deallocated UAR, which no longer has access."""
        self.touched = {n: u for n, u in self.touched.items() if u != uar}

    def values(self) -> list[_Item]:
        """Live objects in ascending order of number."""
        return [self.live[number] for number in sorted(self.live)]


class LlqPages:
    """LLQ memory in pages; a queue gets a naturally aligned power of two of pages."""

    def __init__(self, count: int) -> None:
        self.owner: list[Qp | None] = [None] * count
        self.touched: list[int | None] = [None] * count

    def find(self, count: int, uar: int) -> int | None:
        """First page of the lowest run that this UAR may use, None if there is none."""
        for first in range(0, len(self.owner) - count + 1, count):
            run = slice(first, first + count)
            if not any(self.owner[run]) and all(t in (None, uar) for t in self.touched[run]):
                return first
        return None

    def give(self, first: int, count: int, qp: Qp) -> None:
        self.owner[first : first + count] = [qp] * count
        self.touched[first : first + count] = [qp.uar] * count

    def take_back(self, qp: Qp) -> None:
        self.owner = [None if owner is qp else owner for owner in self.owner]

    def cancel(self, uar: int) -> None:
        self.touched = [None if toucher == uar else toucher for toucher in self.touched]


class Translations:
    """The pool of page translations: contiguous blocks, first fit from the lowest address."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.blocks: dict[int, int] = {}

    def find(self, count: int) -> int | None:
        """Start of a free block, None if no gap is long enough."""
        start = 0
        for used, length in sorted(self.blocks.items()):
            if used - start >= count:
                return start
            start = used + length
        return start if self.count - start >= count else None

    def give(self, start: int, count: int) -> None:
        if count:
            self.blocks[start] = count

    def take_back(self, start: int) -> None:
        self.blocks.pop(start, None)


class Objects:
    """All object tables of a device, in the state after a reset; `pool` page translations."""

    def __init__(self, limits: defs.Limits, pool: int) -> None:
        self.limits = limits
        self.pds: Table[Pd] = Table(limits.pd_w)
        self.uars: Table[Uar] = Table(limits.uar_w)
        self.eqs: Table[Eq] = Table(limits.eqn_w)
        self.cqs: Table[Cq] = Table(limits.cqn_w)
        self.qps: Table[Qp] = Table(limits.qpn_w)
        self.mrs: Table[Mr] = Table(limits.mr_w)
        self.ahs: Table[Ah] = Table(limits.ah_w)
        self.counters: Table[Counter] = Table(limits.ec_w)
        self.ah_of: dict[tuple[int, bytes], Ah] = {}
        self.llq = LlqPages(limits.llq_bytes // limits.llq_page_bytes)
        self.translations = Translations(pool)
        self.qp_generations: dict[int, int] = {}
        self.key_generations: dict[int, int] = {}

    def qp_by_number(self, number: int) -> Qp | None:
        """The live QP of a full qp_num or handle, None if the generation differs."""
        qp = self.qps.get(number & (self.qps.count - 1))
        return qp if qp is not None and qp.number == number else None

    def next_qp_number(self, index: int) -> int:
        """qp_num of the next QP with this index."""
        generation = self.qp_generations.get(index, 0)
        return (index + (generation << self.limits.qpn_w)) & _QP_NUMBER_MASK

    def count_qp(self, index: int) -> None:
        self.qp_generations[index] = self.qp_generations.get(index, 0) + 1

    def next_key(self, index: int) -> int:
        """Key of the next registration of this index; generation 0 is unused, so no key is 0."""
        largest = (1 << (KEY_BITS - self.limits.mr_w)) - 1
        generation = self.key_generations.get(index, 0)
        generation = 1 if generation == largest else generation + 1
        return index + (generation << self.limits.mr_w)

    def count_key(self, key: int) -> None:
        self.key_generations[key & (self.mrs.count - 1)] = key >> self.limits.mr_w

    def mr_by_key(self, key: int) -> Mr | None:
        """The live region of a full key, None if the generation differs."""
        mr = self.mrs.get(key & (self.mrs.count - 1))
        return mr if mr is not None and mr.key == key else None

    def cancel_uar(self, uar: int) -> None:
        for pool in (self.qps, self.cqs, self.llq):
            pool.cancel(uar)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain values; two are equal if and only if nothing changed."""
        return {name: plain(value) for name, value in vars(self).items() if name != "limits"}


def plain(value: Any) -> Any:
    """Objects as dictionaries; references to numbered objects as their numbers."""
    if value is None or isinstance(value, (int, bytes, str)):
        return value
    if is_dataclass(value):
        return {
            entry.name: _reference(getattr(value, entry.name)) for entry in fields(value)
        }
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, deque)):
        # Lists of numbers are long: the map of translations, the pages of a region.
        return [item if type(item) is int else _reference(item) for item in value]
    if isinstance(value, (WorkRing, EntryRing)):
        return {name: getattr(value, name) for name in value.__slots__}
    if isinstance(value, (Table, LlqPages, Translations, SimpleNamespace)):
        return {name: plain(item) for name, item in vars(value).items()}
    return value


def _reference(value: Any) -> Any:
    if type(value) is int:
        return value
    return value.index if is_dataclass(value) and hasattr(value, "index") else plain(value)
