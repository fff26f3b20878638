# SPDX-License-Identifier: Apache-2.0
"""Defines a step of a recorded session: a host store, and the output of the devices after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Effect(NamedTuple):
    """A DMA write at address `where`, or an interrupt of vector `where` if `data` is None."""

    line: int
    where: int
    data: bytes | None


@dataclass(slots=True)
class Step:
    """A host store, or a reset if `data` is None, with the output of the device that follows.

    - `line`: line of the session
    - `node`: number of the device in its fabric, from 1 on
    - `bar`, `offset`, `data`: the store
    - `memory`: host memory read by the device, as (line, address, bytes)
    - `writes`: DMA writes of the device, as (line, address, bytes)
    - `interrupts`: as (line, vector)
    - `others`: effects on other nodes, by number; the `data` of these steps is None
    """

    line: int
    node: int = 1
    bar: int = 0
    offset: int = 0
    data: bytes | None = None
    memory: list[tuple[int, int, bytes]] = field(default_factory=list)
    writes: list[tuple[int, int, bytes]] = field(default_factory=list)
    interrupts: list[tuple[int, int]] = field(default_factory=list)
    others: dict[int, Step] = field(default_factory=dict)

    def of(self, node: int) -> Step:
        """Returns this step, or its effects on another node."""
        if node == self.node:
            return self
        return self.others.setdefault(node, Step(self.line, node))

    def effects(self) -> list[Effect]:
        """Returns the writes and interrupts on this node, in the order of their lines."""
        found = [Effect(*write) for write in self.writes]
        found += [Effect(line, vector, None) for line, vector in self.interrupts]
        return sorted(found, key=lambda effect: effect.line)

    @property
    def value(self) -> int:
        """The stored bytes as a number."""
        assert self.data is not None
        return int.from_bytes(self.data, "little")
