# SPDX-License-Identifier: Apache-2.0
"""Draws constrained random admin commands: valid ones on live objects, and invalid ones.

`Commands.draw()` returns a request; a knob sets the share of requests that violate a rule.
`learn()` receives the response of the device, so that later commands name live objects. The
scoreboard checks the responses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.host.page_list import PAGE_BYTES, PageList
from efa_cosim.layouts import defs
from tb.scenarios.drawing import NEVER_THERE, OP, STATE
from tb.scenarios.requests import CORRUPTIONS, MAKERS

if TYPE_CHECKING:
    from random import Random

    from efa_cosim.host.driver import Driver

SUCCESS = defs.AdminAqCompletionStatus.SUCCESS
NONE_FREE = defs.AdminAqCompletionStatus.RESOURCE_ALLOCATION_FAILURE
# Number of draws in which one command is preferred, before and after its objects run out.
MOST_DRAWS, DRAWS_WHEN_FULL = 900, 40
UNNAMED_OPCODES = (OP.SERVICE, 22, 23, 24, 30, 255)
# Opcodes that create an object, and the response field that names the object.
NAMES = {
    OP.ALLOC_PD: "pd", OP.ALLOC_UAR: "uar", OP.CREATE_EQ: "eqn", OP.CREATE_CQ: "cq_idx",
    OP.CREATE_AH: "ah", OP.REG_MR: "l_key", OP.ALLOC_MR: "l_key", OP.CREATE_QP: "qp_handle",
    OP.CREATE_EVENT_COUNTER: "cntr_handle",
}  # fmt: skip
# Opcodes that destroy an object: its tables and the request field that names the object.
ENDS = {
    OP.DEALLOC_PD: ((OP.ALLOC_PD,), "pd"), OP.DEALLOC_UAR: ((OP.ALLOC_UAR,), "uar"),
    OP.DESTROY_EQ: ((OP.CREATE_EQ,), "eqn"), OP.DESTROY_CQ: ((OP.CREATE_CQ,), "cq_idx"),
    OP.DESTROY_AH: ((OP.CREATE_AH,), "ah"), OP.DEREG_MR: ((OP.REG_MR, OP.ALLOC_MR), "l_key"),
    OP.DESTROY_QP: ((OP.CREATE_QP,), "qp_handle"),
    OP.DESTROY_EVENT_COUNTER: ((OP.CREATE_EVENT_COUNTER,), "cntr_handle"),
}  # fmt: skip


class Nothing(Exception):
    """Raised when a request needs an object that does not exist."""


def all_themes(rng: Random) -> Iterator[int]:
    """Yields every command in random order, without end."""
    while True:
        yield from rng.sample(list(MAKERS), len(MAKERS))


class Commands:
    """Draws random requests for one driver.

    `invalid` is the share of requests that violate a rule, `unreadable` a page of host memory whose
    reads fail, `themes` the sequence of preferred commands.
    """

    def __init__(
        self,
        driver: Driver,
        rng: Random,
        invalid: float = 0.3,
        unreadable: int | None = None,
        themes: Iterator[int] | None = None,
    ) -> None:
        self.driver, self.rng, self.invalid = driver, rng, invalid
        self.unreadable, self.themes = unreadable, themes or all_themes(rng)
        self.ring = driver.allocator.alloc(1 << 16)
        self.counters = driver.allocator.alloc(PAGE_BYTES)
        self._lists: dict[int, PageList] = {}
        self.states: dict[int, defs.AdminQpState]
        self.ah_refs: Counter[int]
        self.states, self.ah_refs = {}, Counter()
        self.live: dict[int, dict[Any, Any]]
        self.dead: dict[int, list[int]]
        self.live = {opcode: {} for opcode in (*NAMES, OP.ATTACH_EVENT_COUNTER)}
        self.dead = {opcode: [NEVER_THERE] for opcode in NAMES}
        self._share: float
        self._theme: int
        # No theme yet; the first draw chooses a theme.
        self._left, self._share, self._theme, self._strict = 0, 0, None, True  # type: ignore[assignment]

    # Drawing

    def draw(self) -> Any:
        """Returns a request; aq_common names the opcode if the opcode has no request type."""
        self._round()
        if self.rng.random() < self.invalid / 16:
            request = defs.AdminAllocPdCmd()
            request.aq_common.opcode = self.rng.choice(UNNAMED_OPCODES)
            return request
        failed = self.rng.random() < self.invalid
        self._strict = not failed
        while True:
            themed = self.rng.random() < self._share
            opcode = self._theme if themed else self.rng.choice(list(MAKERS))
            try:
                request = MAKERS[opcode](self)
                break
            except Nothing:
                # Another command must create the object that the preferred command needs.
                continue
        request.aq_common.opcode = opcode
        if failed and opcode in CORRUPTIONS:
            self.rng.choice(CORRUPTIONS[opcode])(self, request)
        self._noise(request)
        return request

    def _round(self) -> None:
        """Prefers one command for some draws, until its objects run out or for a shorter time."""
        if self._left <= 0:
            self._theme = next(self.themes)
            fills = self._theme in NAMES and self.rng.random() < 0.7
            self._share = 0.9 if fills else 0.5
            self._left = MOST_DRAWS if fills else self.rng.randrange(20, 200)
        self._left -= 1

    def _noise(self, request: Any) -> None:
        """Randomizes don't-care bits: reserved header bits and flags without meaning."""
        head = request.aq_common
        head.reserved3 = self.rng.getrandbits(5)
        head.reserved12 = self.rng.getrandbits(4)
        if head.opcode not in (OP.REG_MR, OP.SET_FEATURE):
            head.ctrl_data, head.ctrl_data_indirect = (self.rng.getrandbits(1) for _ in range(2))

    def pick(self, opcode: int) -> Any:
        """Returns a live object of this opcode; else an invalid number, or raises Nothing."""
        alive = list(self.live[opcode])
        if alive:
            return self.rng.choice(alive)
        if self._strict:
            raise Nothing
        return NEVER_THERE

    def gone(self, opcode: int) -> int:
        """Returns a number that was freed or never allocated."""
        return self.rng.choice(self.dead[opcode])

    # Responses

    def learn(self, request: Any, status: int, response: Any) -> None:
        """Records the result of a request."""
        opcode = request.aq_common.opcode
        if id(request) in self._lists:
            self._lists.pop(id(request)).free()
        if status == NONE_FREE and opcode == self._theme:
            # The table is full: the preference ends after a few ring wraps.
            self._left = min(self._left, DRAWS_WHEN_FULL)
        if status != SUCCESS:
            return
        if opcode in NAMES:
            self.live[opcode][getattr(response, NAMES[opcode])] = request
        elif opcode in ENDS:
            made, name = ENDS[opcode]
            number = getattr(request, name)
            if opcode == OP.DESTROY_AH:
                self.ah_refs[number] -= 1
                if self.ah_refs[number] > 0:
                    return
            for table in made:
                if self.live[table].pop(number, None) is not None:
                    self.dead[table].append(number)
        elif opcode == OP.ATTACH_EVENT_COUNTER:
            named = request.u.qp_events
            place = (request.cntr_handle, named.qp_handle)
            self.live[opcode][place] = self.live[opcode].get(place, 0) | named.events
        elif opcode == OP.DETACH_EVENT_COUNTER:
            named = request.u.qp_events
            place = (request.cntr_handle, named.qp_handle)
            left = self.live[OP.ATTACH_EVENT_COUNTER].pop(place, 0) & ~named.events
            if left:
                self.live[OP.ATTACH_EVENT_COUNTER][place] = left
        elif opcode == OP.MODIFY_QP and request.modify_mask__qp_state:
            self.states[request.qp_handle] = STATE(request.qp_state)
        if opcode == OP.CREATE_AH:
            self.ah_refs[response.ah] += 1
        if opcode == OP.CREATE_QP:
            self.states[response.qp_handle] = STATE.RESET

    def state_of(self, handle: int) -> defs.AdminQpState:
        """Returns the state of a queue pair after the commands so far."""
        return self.states.get(handle, STATE.RESET)

    # Host memory of requests

    def counter_place(self) -> int:
        """Returns an address for the value of an event counter."""
        return self.counters + 8 * self.rng.randrange(PAGE_BYTES // 8)

    def write_list(self, request: Any, pages: Sequence[int], chained: bool) -> None:
        """Writes a page list and names it in the request; the list is freed at the response."""
        driver = self.driver
        most = 0 if chained else len(pages) * 8
        page_list = PageList(driver.memory, driver.allocator, pages, most)
        self._lists[id(request)] = page_list
        request.aq_common.ctrl_data = 1
        request.aq_common.ctrl_data_indirect = page_list.indirect
        request.pbl.pbl = page_list.start
