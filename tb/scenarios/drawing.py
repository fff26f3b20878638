# SPDX-License-Identifier: Apache-2.0
"""How a kind of request says what a legal one is and what may break it."""

from efa import defs

OP = defs.AdminAqOpcode
STATE = defs.AdminQpState
NEVER_THERE = 0xFFFF
# Opcode to the function that draws a legal request, and to those that break one rule of it.
MAKERS, SPOILERS = {}, {}


def makes(opcode, *spoilers):
    """A function that draws a legal request of an opcode, and what may break it."""

    def mark(function):
        MAKERS[opcode] = function
        if spoilers:
            SPOILERS[opcode] = spoilers
        return function

    return mark


def to(path, *values):
    """A spoiler: a field gets one of these values (functions of the generator are called)."""

    def corrupt(commands, request):
        value = commands.rng.choice(values)
        *outer, last = path.split(".")
        for name in outer:
            request = getattr(request, name)
        setattr(request, last, value(commands) if callable(value) else value)

    return corrupt


def dead(opcode):
    """A spoiler's value: the number of something that is not there any more."""
    return lambda commands: commands.gone(opcode) & 0xFFFF


def wholly_dead(opcode):
    """The same in 32 bits, or a living one with a bit turned."""

    def value(commands):
        if commands.rng.random() < 0.5:
            return commands.gone(opcode)
        return commands.pick(opcode) ^ 1 << commands.rng.randrange(32)

    return value
