# SPDX-License-Identifier: Apache-2.0
"""Tests that several callers of Native.run wait at the same time, without a simulation."""

from types import SimpleNamespace

import pytest

from tb.lib import native
from tb.lib.requests import cycle_is, drained


class Wake:
    """Stands in for the change of the wake signal."""

    def __init__(self, _signal):
        pass

    def __await__(self):
        yield


class Library:
    """Stands in for the native bench: notes the conditions and wakes on request."""

    def __init__(self):
        self.cycle, self.number, self.waiting = 0, -1, False
        self.conditions = self.deadline = None

    def efa_wait(self, _conditions, count, deadline):
        self.conditions, self.deadline, self.waiting = count, deadline, True

    def efa_waiting(self):
        return self.waiting

    def efa_woken(self):
        return self.number

    def efa_error_count(self):
        return 0

    def efa_cycle(self):
        return self.cycle


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setattr(native, "_library", Library)
    monkeypatch.setattr(native, "ValueChange", Wake)
    return native.Native(SimpleNamespace(wake=None))


class Caller:
    """A task that runs until the next wake."""

    def __init__(self, run):
        self._run, self.result = run, None
        self.step()

    def step(self):
        """Runs to the next wake, or to the end."""
        try:
            self._run.send(None)
        except StopIteration as end:
            self.result = end.value


def wake(bench, callers, cycle, number=-1):
    """Wakes the callers in a cycle, by a condition or by a deadline."""
    library = bench.library
    library.cycle, library.number, library.waiting = cycle, number, False
    for caller in callers:
        if caller.result is None:
            caller.step()


def test_one_caller_gets_the_number_of_its_condition(bench):
    caller = Caller(bench.run([drained(), cycle_is(9)], 100))
    assert (bench.library.conditions, bench.library.deadline) == (2, 100)
    wake(bench, [caller], 9, 1)
    assert caller.result == 1 and not bench.library.waiting


def test_conditions_of_all_callers_are_posted_together(bench):
    first = Caller(bench.run([drained(0), drained(1)], 500))
    second = Caller(bench.run([cycle_is(20)], 100))
    assert (bench.library.conditions, bench.library.deadline) == (3, 100)
    wake(bench, [first, second], 20, 2)
    assert (first.result, second.result) == (None, 0)
    # The other caller waits on, with its own conditions and deadline.
    assert bench.library.waiting and bench.library.conditions == 2
    assert bench.library.deadline == 500
    wake(bench, [first], 30, 1)
    assert first.result == 1


def test_a_deadline_ends_only_its_own_wait(bench):
    first, second = Caller(bench.run([drained()], 50)), Caller(bench.run([drained(1)], 90))
    wake(bench, [first, second], 50)
    assert (first.result, second.result) == (-1, None)
    wake(bench, [second], 90)
    assert second.result == -1


def test_watchers_see_each_wake_before_the_caller_goes_on(bench):
    seen = []
    bench.watchers.append(lambda: seen.append(bench.cycle))
    caller = Caller(bench.run([], 40))
    wake(bench, [caller], 40)
    assert seen == [40] and caller.result == -1
