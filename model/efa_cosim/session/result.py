# SPDX-License-Identifier: Apache-2.0
"""Holds the result of a play: counts of what was compared, or the first difference."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass
class PlayResult:
    """Counts of what was played and compared.

    `stores` of the host; `skipped` stores that were not played; `cycles` on the device and
    `seconds` of this process; the others are compared outputs of the device.
    """

    name: str
    backend: str
    control_only: bool = False
    stores: int = 0
    skipped: int = 0
    register_responses: int = 0
    admin_responses: int = 0
    completions: int = 0
    events: int = 0
    interrupts: int = 0
    payload_bytes: int = 0
    packets: int = 0
    cycles: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return asdict(self)


class PlayError(Exception):
    """The device differs from the recorded one, or the session cannot be played; has `path`, `line`
    (of the session) and `text`."""

    def __init__(self, path: Path, line: int, text: str) -> None:
        super().__init__(f"{path}:{line}: {text}")
        self.path, self.line, self.text = path, line, text


class OrderError(PlayError):
    """The recorded device changed the memory of its host in a wrong order, as
    efa_cosim.session.order finds; the attributes are those of PlayError."""


class Difference(Exception):
    """The device differs from the recorded one; has `line` (of the session).

    `play` raises it as a PlayError, with the path.
    """

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
