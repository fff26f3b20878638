# SPDX-License-Identifier: Apache-2.0
"""Holds what a node may still act on: a value, and those that it has replaced recently."""

from __future__ import annotations

from collections import deque


class Recent:
    """A value, and those that it has replaced within `reaction` cycles."""

    __slots__ = ("_old", "_reaction", "value")

    def __init__(self, value: int, reaction: int) -> None:
        self.value = value
        self._reaction = reaction
        self._old: deque[tuple[int, int]] = deque()  # (cycle of its replacement, value)

    def set(self, now: int, value: int) -> None:
        """Replaces the value in cycle `now`."""
        if self._reaction and value != self.value:
            old = self._old
            while old and old[0][0] <= now - self._reaction:
                old.popleft()
            old.append((now, self.value))
        self.value = value

    def all(self, since: int) -> list[int]:
        """Returns the values from cycle `since` on, in their order."""
        values = [value for cycle, value in self._old if cycle > since] if self._old else []
        values.append(self.value)
        return values

    def passed(self, value: int, since: int) -> int:
        """Returns the first cycle from `since` on in which a growing value is `value` or more."""
        if not self._old:
            return since
        return max([since, *(cycle for cycle, old in self._old if old < value)])
