# SPDX-License-Identifier: Apache-2.0
"""Lets blocking host software have many admin commands outstanding at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from efa_cosim.host.admin_queue import Command, Request
    from efa_cosim.host.driver import Driver

# Half of the admin queue, so that no task waits for a free entry.
MOST = 16


def at_once(driver: Driver, tasks: Iterable[Callable[[], Any]], most: int = MOST) -> list[Any]:
    """Runs tasks together, up to `most`; returns their results in the order of the tasks.

    Each task is software that executes admin commands; while it waits for a response, others run.
    As in a loop, the tasks submit their first commands in order. What a task raises passes through;
    tasks that have not ended by then do not go on.
    """
    loop = getcurrent()
    results: list[Any] = []
    waiting: deque[tuple[int, greenlet, Command]] = deque()

    def submit(request: Request) -> Any:
        return loop.switch(driver.submit(request))

    def resume(number: int, task: greenlet, step: Callable[[], Any]) -> None:
        outcome = step()
        # A task that waits for the simulator switches to this greenlet instead of to the bridge.
        while isinstance(outcome, Awaitable):
            assert loop.parent is not None
            outcome = task.switch(loop.parent.switch(outcome))
        if task.dead:
            results[number] = outcome
        else:
            waiting.append((number, task, outcome))

    def finish_first() -> None:
        number, task, command = waiting.popleft()
        try:
            response = driver.finish(command)
        except Exception as error:
            # The default binds this error, which Python deletes at the end of the handler.
            resume(number, task, lambda error=error: task.throw(error))  # type: ignore[misc]
        else:
            resume(number, task, lambda: task.switch(response))

    vars(driver)["execute"] = submit
    try:
        for number, work in enumerate(tasks):
            if len(waiting) == most:
                finish_first()
            results.append(None)
            task = greenlet(work)
            resume(number, task, task.switch)
        while waiting:
            finish_first()
    finally:
        del vars(driver)["execute"]
    return results
