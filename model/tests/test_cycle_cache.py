# SPDX-License-Identifier: Apache-2.0
"""Tests that processes which start together compile the cycle model once."""

import fcntl
from threading import Thread

from efa_cosim import cycle


@cycle.compiled
def _double(number: int) -> int:
    return 2 * number


@cycle.compiled
def _next(number: int) -> int:
    return number + 1


@cycle.compiled
def _next_but_one(number: int) -> int:
    return _next(_next(number))


def test_a_process_waits_for_the_one_that_compiles(tmp_path, monkeypatch):
    monkeypatch.setattr(cycle, "CACHE", tmp_path)
    results = []
    second = Thread(target=lambda: results.append(_double(21)))
    with (tmp_path / "lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second.start()
        second.join(0.3)
        assert second.is_alive() and not results
    second.join(60)
    assert results == [42]
    # The code is there: no further call waits.
    with (tmp_path / "lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        assert _double(4) == 8


def test_a_compiled_function_calls_another_one():
    assert _next_but_one(3) == 5
