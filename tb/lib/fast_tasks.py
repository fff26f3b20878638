# SPDX-License-Identifier: Apache-2.0
"""Makes the wake-up of tasks cheaper, in the order and with the results of cocotb.

A task that waits for a clock edge passes six functions of cocotb in each cycle. Most of them test
first whether the scheduler is debugged. The functions below replace them by equal ones without
these tests. Exceptions, cancellations and ends of tasks are left to the original functions.

    install()    # once per process; tb/lib/stream.py does it
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from cocotb import _base_triggers, _bridge, _event_loop, _gpi_triggers, _profiling, debug, task
from cocotb._base_triggers import TriggerCallback
from cocotb._event_loop import ScheduledCallback
from cocotb.triggers import RisingEdge

# Young objects between two collections. Reference counting frees nearly all objects of a bench.
COLLECT_AFTER = 20_000

# Modules and classes whose attributes are replaced: for mypy, such assignments are errors.
_base: Any = _base_triggers
_gpi: Any = _gpi_triggers
_task: Any = task
_State = _task._TaskState
_RUNNING, _SCHEDULED, _PENDING = _State.RUNNING, _State.SCHEDULED, _State.PENDING

_new_edge = RisingEdge.__new__
_resume_of_cocotb = _task.Task._resume
_loop = _event_loop._inst
_run_threads = _bridge.run_bridge_threads


class _Ended:
    """Presents the outcome of one step of a coroutine as a coroutine."""

    def __init__(self, coroutine: Any, error: BaseException | None, trigger: Any) -> None:
        self.close, self.error, self.trigger = coroutine.close, error, trigger

    def send(self, _: None) -> Any:
        if self.error is not None:
            traceback = self.error.__traceback__
            raise self.error.with_traceback(traceback and traceback.tb_next)
        return self.trigger


def _run(self: Any) -> None:
    """Runs the event loop until no callback is left."""
    callbacks = self._callbacks
    take = callbacks.popleft
    while callbacks:
        while callbacks:
            held = take()
            if not held._cancelled:
                held._func()
        _run_threads()


def _react(self: Any) -> None:
    """Takes a trigger of the simulator that fired."""
    _gpi._current_gpi_trigger = self
    self._do_callbacks()
    _loop.run()


def _do_callbacks(self: Any) -> None:
    callbacks, self._callbacks = self._callbacks, {}
    for held in callbacks:
        held._func()


def _register(self: Any, func: Callable[[], object]) -> TriggerCallback:
    held = TriggerCallback(self, func)
    callbacks = self._callbacks
    callbacks[held] = None
    if len(callbacks) == 1:
        self._prime()
    return held


def _schedule_resume(self: Any, exc: BaseException | None = None) -> None:
    self._state, self._exc = _SCHEDULED, exc
    held = self.__dict__.get("_schedule_callback")
    # A task is in the loop once, so its callback may be used again. A cancelled one ends its task.
    if held is None:
        self._schedule_callback = held = ScheduledCallback(self._resume)
    _loop._callbacks.append(held)


def _resume(self: Any) -> None:
    """Runs a task until it waits for a trigger."""
    if self._exc is not None or self._must_cancel:
        _resume_of_cocotb(self)
        return
    self._state = _RUNNING
    _task._current_task = self
    error = trigger = None
    try:
        trigger = self._coro.send(None)
    except BaseException as raised:  # noqa: BLE001 - the original function decides
        error = raised
    if error is None and not self._must_cancel and isinstance(trigger, _base.Trigger):
        self._state, self._trigger = _PENDING, trigger
        try:
            if type(trigger) is RisingEdge:
                # A task waits for one trigger at a time, so its callback may be used again.
                held = self.__dict__.get("_efa_held")
                if held is None:
                    self._efa_held = held = TriggerCallback(trigger, self._schedule_resume)
                held._trigger, self._trigger_callback = trigger, held
                callbacks = trigger._callbacks
                callbacks[held] = None
                if len(callbacks) == 1:
                    trigger._prime()
            else:
                self._trigger_callback = trigger._register(self._schedule_resume)
        except Exception as raised:  # noqa: BLE001 - it goes to the task
            self._schedule_resume(raised)
        _task._current_task = None
        return
    coroutine = self._coro
    self._coro = _Ended(coroutine, error, trigger)
    try:
        _resume_of_cocotb(self)
    finally:
        self._coro = coroutine


def _edge_of(cls: Any, signal: Any) -> RisingEdge:
    """Returns the one trigger of a signal, which cocotb makes when it is used first."""
    try:
        return signal.__dict__["rising_edge"]
    except (AttributeError, KeyError):
        return _new_edge(cls, signal)


REPLACED: dict[tuple[Any, str], Callable[..., Any]] = {
    (_event_loop.EventLoop, "run"): _run,
    (_gpi.GPITrigger, "_react"): _react,
    (_base.Trigger, "_do_callbacks"): _do_callbacks,
    (_base.Trigger, "_register"): _register,
    (RisingEdge, "__new__"): _edge_of,
    # The original does nothing; this one is no Python function.
    (_gpi._EdgeBase, "__init__"): object.__init__,
    (_task.Task, "_schedule_resume"): _schedule_resume,
    (_task.Task, "_resume"): _resume,
}
ORIGINAL = {(owner, name): getattr(owner, name) for owner, name in REPLACED}


def install() -> None:
    """Replaces the functions of cocotb, unless its scheduler is debugged or profiled."""
    gc.set_threshold(COLLECT_AFTER)
    if debug.debug or hasattr(_profiling, "_profiling_context"):
        return
    for (owner, name), own in REPLACED.items():
        setattr(owner, name, own)
