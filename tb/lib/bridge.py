# SPDX-License-Identifier: Apache-2.0
"""Runs blocking host software inside a simulation, one piece at a time.

`bridge(software)` is a coroutine function; inside, `resume(coroutine_function)` is a blocking one.
A piece runs in a greenlet: it has control until it waits for the simulator or ends. The bridge of
cocotb is not used here: it starts a thread for each piece, and pieces that one event wakes then run
at the same time, so that a seed does not repeat a run.
"""

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any

from greenlet import getcurrent, greenlet


def bridge(function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Returns a coroutine function that runs a blocking function and returns its result.

    An exception of the function, or one of a coroutine that it waits for, passes through.
    """

    @wraps(function)
    async def run(*arguments: Any, **named: Any) -> Any:
        piece = greenlet(function)
        outcome = piece.switch(*arguments, **named)
        while not piece.dead:
            try:
                value = await outcome
            except BaseException as error:
                outcome = piece.throw(error)
            else:
                outcome = piece.switch(value)
        return outcome

    return run


def resume(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """Returns a blocking function that runs a coroutine function in the simulation.

    Raises RuntimeError outside a function that `bridge` runs.
    """

    @wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        loop = getcurrent().parent
        if loop is None:
            raise RuntimeError(f"{function.__qualname__} blocks: call it through bridge()")
        return loop.switch(function(*arguments, **named))

    return run
