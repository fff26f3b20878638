# SPDX-License-Identifier: Apache-2.0
"""Tests that the cheaper wake-up of tasks has the order, results and errors of cocotb."""

import gc

import pytest
from cocotb import _event_loop, _gpi_triggers
from cocotb.task import Task
from cocotb.triggers import Event

from tb.lib import fast_tasks


class Edge(_gpi_triggers.GPITrigger):
    """A trigger of the simulation that a test fires; `primed` counts how often it was armed."""

    def __init__(self):
        super().__init__()
        self.primed = 0

    def _prime(self):
        self.primed += 1

    def _unprime(self):
        self.primed -= 1


@pytest.fixture(params=["cocotb", "own", "clock"])
def _functions(request, monkeypatch):
    """Each test runs with the functions of cocotb and with those of fast_tasks, which treat the
    edge as any trigger or as that of a clock."""
    chosen = fast_tasks.ORIGINAL if request.param == "cocotb" else fast_tasks.REPLACED
    for (owner, name), function in chosen.items():
        monkeypatch.setattr(owner, name, function)
    if request.param == "clock":
        monkeypatch.setattr(fast_tasks, "RisingEdge", Edge)


def started(coroutine):
    one = Task(coroutine)
    one._start_soon()
    return one


def fire(trigger):
    trigger._react()


@pytest.mark.usefixtures("_functions")
def test_tasks_run_in_the_order_in_which_they_wait():
    edge, seen = Edge(), []

    async def count(name, times):
        for number in range(times):
            seen.append((name, number))
            await edge

    tasks = [started(count(name, times)) for name, times in (("a", 3), ("b", 1), ("c", 2))]
    _event_loop._inst.run()
    assert (seen, edge.primed) == ([("a", 0), ("b", 0), ("c", 0)], 1)
    fire(edge)
    assert seen[3:] == [("a", 1), ("c", 1)] and edge.primed == 2
    assert _gpi_triggers.current_gpi_trigger() is edge
    fire(edge)
    fire(edge)
    assert seen[5:] == [("a", 2)]
    assert [one.done() for one in tasks] == [True] * 3


@pytest.mark.usefixtures("_functions")
def test_a_task_waits_for_one_trigger_after_another():
    edges, event, seen = (Edge(), Edge()), Event(), []

    async def work():
        for number in range(2):
            for edge in edges:
                await edge
                seen.append(number)
        await event.wait()
        await edges[0]
        seen.append("end")

    one = started(work())
    _event_loop._inst.run()
    for count, edge in enumerate((*edges, *edges)):
        other = edges[edge is edges[0]]
        assert len(seen) == count and edge._callbacks and not other._callbacks
        fire(edge)
    assert seen == [0, 0, 1, 1] and not edges[0]._callbacks
    event.set()
    _event_loop._inst.run()
    one.cancel()
    _event_loop._inst.run()
    assert one.cancelled() and seen == [0, 0, 1, 1] and not edges[0]._callbacks


@pytest.mark.usefixtures("_functions")
def test_a_task_returns_its_result_to_the_task_that_waits():
    edge = Edge()

    async def work():
        await edge
        return 7

    async def wait():
        return 1 + await started(work())

    one = started(wait())
    _event_loop._inst.run()
    assert not one.done()
    fire(edge)
    assert one.result() == 8


@pytest.mark.usefixtures("_functions")
def test_an_exception_passes_with_the_place_where_it_was_raised():
    edge = Edge()

    async def fail():
        await edge
        raise AssertionError("wrong")

    async def wait():
        with pytest.raises(AssertionError, match="wrong"):
            await started(fail())
        raise ValueError("after")

    one = started(wait())
    _event_loop._inst.run()
    fire(edge)
    with pytest.raises(ValueError, match="after") as found:
        one.result()
    assert found.traceback[-1].name == "wait"


@pytest.mark.usefixtures("_functions")
@pytest.mark.parametrize("pending", [True, False], ids=["pending", "scheduled"])
def test_a_cancelled_task_does_not_go_on(pending):
    edge, event, seen = Edge(), Event(), []

    async def work():
        try:
            await edge
            await event.wait()
            seen.append("went on")
        finally:
            seen.append("closed")

    one = started(work())
    _event_loop._inst.run()
    if not pending:
        fire(edge)
        event.set()
    one.cancel()
    _event_loop._inst.run()
    assert one.cancelled() and seen == ["closed"]
    assert not edge._callbacks


@pytest.mark.usefixtures("_functions")
def test_what_is_no_trigger_is_refused_in_the_task():
    class Other:
        def __await__(self):
            yield 3

    async def work():
        with pytest.raises(TypeError, match="which the scheduler can't handle"):
            await Other()

    one = started(work())
    _event_loop._inst.run()
    assert one.result() is None


@pytest.mark.usefixtures("_functions")
def test_a_trigger_that_cannot_be_armed_fails_in_the_task():
    edge = Edge()

    def refuse():
        raise RuntimeError("not armed")

    edge._prime = refuse

    async def work():
        with pytest.raises(RuntimeError, match="not armed"):
            await edge

    one = started(work())
    _event_loop._inst.run()
    assert one.result() is None


def test_a_scheduler_that_is_debugged_keeps_the_functions_of_cocotb(monkeypatch):
    monkeypatch.setattr(fast_tasks.debug, "debug", True)
    for (owner, name), original in fast_tasks.ORIGINAL.items():
        monkeypatch.setattr(owner, name, original)
    before = gc.get_threshold()
    fast_tasks.install()
    gc.set_threshold(*before)
    for (owner, name), original in fast_tasks.ORIGINAL.items():
        assert getattr(owner, name) is original
