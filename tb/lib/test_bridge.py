# SPDX-License-Identifier: Apache-2.0
"""Blocking software beside an event loop: order, results, exceptions, wrong use."""

import pytest

from tb.lib.bridge import bridge, resume


class Wake:
    """An awaitable that a test ends with a value or an exception."""

    def __await__(self):
        return (yield self)


async def wait():
    return await Wake()


def test_results_pass_both_ways():
    def software(first, *, second):
        return first + second + resume(wait)()

    task = bridge(software)(1, second=2)
    task.send(None)
    with pytest.raises(StopIteration) as end:
        task.send(4)
    assert end.value.value == 7


def test_a_function_that_never_waits_returns_at_once():
    with pytest.raises(StopIteration) as end:
        bridge(lambda: 5)().send(None)
    assert end.value.value == 5


def test_pieces_that_one_event_wakes_run_one_after_the_other():
    seen = []

    def software(name):
        for step in range(3):
            seen.append((name, step))
            resume(wait)()
            seen.append((name, step))

    tasks = [bridge(software)(name) for name in "ab"]
    for task in tasks:
        task.send(None)
    for _ in range(2):
        for task in tasks:
            task.send(None)
    # From one wait to the next, no other piece has run.
    a, b = ([(name, step) for step in (0, 1, 2)] for name in "ab")
    assert seen == [a[0], b[0], a[0], a[1], b[0], b[1], a[1], a[2], b[1], b[2]]


def test_an_exception_of_the_simulation_reaches_the_software_which_may_handle_it():
    def software():
        try:
            resume(wait)()
        except ValueError as error:
            return f"{error} handled"

    task = bridge(software)()
    task.send(None)
    with pytest.raises(StopIteration) as end:
        task.throw(ValueError("limit"))
    assert end.value.value == "limit handled"


def test_an_exception_of_the_software_reaches_the_caller():
    def software():
        resume(wait)()
        raise KeyError("ring")

    task = bridge(software)()
    task.send(None)
    with pytest.raises(KeyError, match="ring"):
        task.send(None)


def test_an_ended_task_ends_its_software():
    ended = []

    def software():
        try:
            resume(wait)()
        finally:
            ended.append(True)

    task = bridge(software)()
    task.send(None)
    task.close()
    assert ended == [True]


def test_a_blocking_call_outside_the_bridge_names_the_remedy():
    with pytest.raises(RuntimeError, match=r"wait blocks: call it through bridge\(\)"):
        resume(wait)()
