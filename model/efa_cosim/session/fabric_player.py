# SPDX-License-Identifier: Apache-2.0
"""Plays the steps of a session on all devices of its fabric, in the recorded order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from efa_cosim.session.device_state import DeviceState, Position
from efa_cosim.session.node_player import NodePlayer

if TYPE_CHECKING:
    from efa_cosim.boundary.backend import Backend
    from efa_cosim.session.outputs import Outputs
    from efa_cosim.session.result import PlayResult
    from efa_cosim.session.step import Step
    from efa_cosim.session.translation import Translation

PROGRESS_STEPS = 64


class FabricPlayer:
    """Plays each step on the device of its node, and compares its effects on all devices.

    - `backends`: the devices, in the order of their node numbers
    - `result`: counts what is played and compared
    - `outputs`: receives all output, for a comparison with another device
    - `ordered`: the order of the recorded outputs is checked
    """

    def __init__(
        self, backends: list[Backend], result: PlayResult, outputs: Outputs | None, ordered: bool
    ) -> None:
        self._ordered, self._result = ordered, result
        self._position = Position()
        translations: list[Translation] = []
        self._players = [
            NodePlayer(one, DeviceState(self._position, translations), result, outputs)
            for one in backends
        ]

    @property
    def line(self) -> int:
        """The line of the session that is played."""
        return self._position.line

    def play(
        self, steps: Iterable[Step], progress: Callable[[int, int], object] | None
    ) -> None:
        """Plays all steps; raises Difference, OrderFault or Unplayable."""
        total = len(steps) if isinstance(steps, list) else 0
        player = self._players[0]
        for number, step in enumerate(steps):
            self._position.line = step.line
            if self._players[step.node - 1] is not player:
                # The stores of two devices have no common order, but a load follows the stores of
                # its device.
                player.flush()
                player.push()
                player = self._players[step.node - 1]
            self._play(player, step)
            if progress and total and number % PROGRESS_STEPS == 0:
                progress(number, total)
        for each in self._players:
            self._end(each)

    def _play(self, player: NodePlayer, step: Step) -> None:
        """Plays a step on a device, and compares its effects on all nodes."""
        if step.data is None:
            self._end(player)
            player.reset()
            return
        store = player.translate(step, step.data)
        steps = {player: step}
        steps |= {self._players[node - 1]: one for node, one in step.others.items()}
        effects = [(each, one, each.expected(one)) for each, one in steps.items()]
        if store is None:
            self._result.skipped += 1
        else:
            for each, one, _ in effects:
                each.put_memory(one)
            player.post(store)
            self._result.stores += 1
        if any(wanted for *_, wanted in effects):
            player.flush()
            for each, one, wanted in effects:
                each.take(one, wanted, store)
            for each in self._players:
                if each not in steps:
                    each.check_silent()
        elif player.full:
            player.flush()
        if self._ordered:
            for each, one, _ in effects:
                each.check_order(one)

    def _end(self, player: NodePlayer) -> None:
        """Plays everything that comes before a reset or the end: no output may be left."""
        player.flush()
        if any(each.in_reset for each in self._players):
            player.push()  # A device that waits for the host in a reset is never idle.
        else:
            player.settle()
        player.check_silent()
