# SPDX-License-Identifier: Apache-2.0
"""Plays the steps of a session on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from efa_cosim.boundary.backend import Backend, DeviceTimeout
from efa_cosim.layouts import defs
from efa_cosim.session.expectation import (
    Expectation,
    check_complete,
    expect,
    leave_out_headers,
)
from efa_cosim.session.regions import ADMIN_RESPONSE, REGISTER_RESPONSE
from efa_cosim.session.register_stores import MemoryImage, RegisterStores
from efa_cosim.session.result import Difference, PlayResult
from efa_cosim.session.scoreboard import Scoreboard
from efa_cosim.session.store_batch import LlqStore, SqDoorbell, StoreBatch
from efa_cosim.session.translation import Unplayable

if TYPE_CHECKING:
    from efa_cosim.boundary.backend import Store
    from efa_cosim.session.device_state import DeviceState
    from efa_cosim.session.outputs import Outputs
    from efa_cosim.session.step import Step

STATUS_POLLS = 1_000
STATUS_POLL_CYCLES = 1_000


class NodePlayer:
    """Plays the stores of one host, and compares the effects of all steps on its device.

    - `state`: that of the device
    - `result`: counts the compared output
    - `outputs`: receives all output, for a comparison with another device
    """

    def __init__(
        self, backend: Backend, state: DeviceState, result: PlayResult, outputs: Outputs | None
    ) -> None:
        self._backend, self._state = backend, state
        self._control_only = result.control_only
        self._registers = RegisterStores(state)
        self._batch = StoreBatch(backend, state.translation, outputs)
        self._scoreboard = Scoreboard(backend, state, result, outputs)

    # Stores

    def translate(self, step: Step, data: bytes) -> Store | LlqStore | SqDoorbell | None:
        """Returns the store for the current device, None if it is not played."""
        if step.bar == defs.EFA_REG_BAR:
            return self._registers.translate(step, data)
        return None if self._control_only else self._batch.translate(step, data)

    def put_memory(self, step: Step) -> None:
        """Puts the memory into place that the device reads as a consequence of a step."""
        memory = self._registers.commands(step)
        commands = {image.address for image in memory}
        for line, address, data in step.memory:
            if address not in commands and not self._registers.in_aq(address):
                self._state.position.line = line
                memory.append(MemoryImage(address, self._state.translation.memory(address, data)))
        self._batch.put_memory(memory)

    def post(self, store: Store | LlqStore | SqDoorbell) -> None:
        """Adds a store to those that `flush` posts."""
        self._batch.add(store)

    @property
    def full(self) -> bool:
        """True if `flush` is due."""
        return self._batch.full

    def flush(self) -> None:
        """Posts the stores."""
        self._batch.flush()

    def push(self) -> None:
        """Waits until the device has the stores that were posted."""
        self._backend.load(defs.EFA_REG_BAR, defs.Reg.VERSION, 4)

    # Effects

    def expected(self, step: Step) -> Expectation:
        """Returns the effects of a step on this device."""
        state = self._state
        wanted = expect(step, state.regions, self._is_played, state.admin_vector)
        leave_out_headers(wanted, state.is_datagram)
        check_complete(wanted)
        return wanted

    def take(
        self, step: Step, wanted: Expectation, store: Store | LlqStore | SqDoorbell | None
    ) -> None:
        """Waits for the effects of a step on this device, and compares them."""
        self._scoreboard.wait(step, wanted)
        if self._scoreboard.status_differs(wanted):
            self._poll_status(step, store, wanted)
        self._scoreboard.accept(wanted)

    def check_silent(self) -> None:
        """Refuses any output: a step has no effects on this device."""
        self._scoreboard.check_silent()

    def check_order(self, step: Step) -> None:
        """Checks the order of the recorded effects of a step; raises OrderFault."""
        self._state.order.check(step, self._state.regions, self._state.admin_vector)

    def _is_played(self, kind: str | None, vector: int | None) -> bool:
        if not self._control_only:
            return True
        return kind in (REGISTER_RESPONSE, ADMIN_RESPONSE) or vector == self._state.admin_vector

    def _poll_status(
        self, step: Step, store: Store | LlqStore | SqDoorbell | None, wanted: Expectation
    ) -> None:
        """Repeats the status read until it matches the recording, as the driver does."""
        if store is None or isinstance(store, LlqStore | SqDoorbell):
            raise Unplayable("DEV_STS differs from the recorded value after a store that does not "
                             "read it")
        for _ in range(STATUS_POLLS):
            try:
                self._backend.wait(lambda: False, timeout_cycles=STATUS_POLL_CYCLES)
            except DeviceTimeout:
                self._scoreboard.drop_entries()
            self._backend.stores([store])
            self._scoreboard.wait(step, wanted)
            if not self._scoreboard.status_differs(wanted):
                return
        address, slot = next(iter(wanted.slots.items()))
        raise Difference(slot.line, f"DEV_STS did not reach the recorded value: expected "
                         f"{slot.image.hex()}, got {self._scoreboard.image(address).hex()} after "
                         f"{STATUS_POLLS} reads")

    # Resets

    @property
    def in_reset(self) -> bool:
        """True from a reset by DEV_CTL until the host clears it."""
        return self._registers.in_reset

    def settle(self) -> None:
        """Waits until the device is idle."""
        self._backend.settle()

    def reset(self) -> None:
        """Plays a function-level reset."""
        self._batch.clear()
        self._backend.flr()
        self._registers.reset()
