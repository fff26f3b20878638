# SPDX-License-Identifier: Apache-2.0
"""Registers, for each opcode, how to draw a valid request and how to invalidate it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from tb.scenarios.commands import Commands

OP = defs.AdminAqOpcode
STATE = defs.AdminQpState
NEVER_THERE = 0xFFFF
# Opcode to the function that draws a valid request, and to those that violate one rule.
MAKERS: dict[int, Callable[[Commands], Any]]
CORRUPTIONS: dict[int, tuple[Callable[[Commands, Any], None], ...]]
MAKERS, CORRUPTIONS = {}, {}


def makes(opcode: int, *corruptions: Any) -> Callable[[Any], Any]:
    """Decorates a function that draws a valid request of an opcode; `corruptions` invalidate it."""

    def mark(function: Any) -> Any:
        MAKERS[opcode] = function
        if corruptions:
            CORRUPTIONS[opcode] = corruptions
        return function

    return mark


def to(path: str, *values: Any) -> Callable[[Commands, Any], None]:
    """Returns a corruption that sets a field to one of these values; functions are called first."""

    def corrupt(commands: Commands, request: Any) -> None:
        value = commands.rng.choice(values)
        *outer, last = path.split(".")
        for name in outer:
            request = getattr(request, name)
        setattr(request, last, value(commands) if callable(value) else value)

    return corrupt


def dead(opcode: int) -> Callable[[Commands], int]:
    """Returns a function that draws a freed number of this opcode's objects."""
    return lambda commands: commands.gone(opcode) & 0xFFFF


def wholly_dead(opcode: int) -> Callable[[Commands], int]:
    """Returns a function that draws a freed 32-bit number, or a live one with an inverted bit."""

    def value(commands: Commands) -> int:
        if commands.rng.random() < 0.5:
            return commands.gone(opcode)
        return commands.pick(opcode) ^ 1 << commands.rng.randrange(32)

    return value
