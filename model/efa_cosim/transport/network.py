# SPDX-License-Identifier: Apache-2.0
"""Describes what the packet engine uses of a network: a clock, timers and packets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A function that the network calls later."""

    def cancel(self) -> None:
        """Prevents the call; no effect after it."""


class Network(Protocol):
    """A network with one clock for all of its nodes."""

    @property
    def now(self) -> int:
        """The current cycle."""

    def attach(self, node: int, receive: Callable[[bytes], object]) -> None:
        """Calls `receive` with each packet that arrives for `node`."""

    def send(self, packet: bytes) -> None:
        """Takes a packet whose first flit leaves its source now."""

    def reset(self, node: int) -> None:
        """Takes note of a reset of a node; packets on their way are not affected."""

    def at(self, cycle: int, function: Callable[[], object]) -> Timer:
        """Calls `function` at `cycle`, which is not in the past."""
