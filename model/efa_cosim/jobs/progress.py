# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of a long command on standard error: phase, done of total, rate, time left.

On a terminal the display is one live bar, with messages above it. Elsewhere, and on a terminal
without cursor control (TERM=dumb), it is plain lines at intervals, without control characters.
Results belong on standard output: a command prints them as usual, also while the bar is shown.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskID, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column
from rich.text import Text

EVERY_SECONDS = 5.0  # between plain lines
REFRESHES = 4.0  # of the bar, per second
FAILED = "FAILED"

_open: list[Progress] = []


def close_all() -> None:
    """Removes every display, for a program that ends without leaving its `with` statements."""
    for progress in list(_open):
        progress.close()


@contextlib.contextmanager
def showing(text: str) -> Iterator[None]:
    """Shows what takes long inside a call: the text, and without an open display a display of its
    own, whose phase is the text before its first semicolon."""
    if _open:
        _open[-1].say(text)
        yield
        return
    with Progress(text.partition(";")[0]) as progress:
        progress.say(text)
        yield


def span(seconds: float) -> str:
    """Returns a duration in words: `45 s`, `12 min` or `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def rate(per_second: float) -> str:
    """Returns a rate per second, minute or hour, in the first unit that gives 1 or more."""
    for unit, factor in (("s", 1), ("min", 60)):
        if per_second * factor >= 1:
            return f"{per_second * factor:,.1f}/{unit}"
    return f"{per_second * 3600:.1f}/h"


class _State(NamedTuple):
    """What a display shows. Changes replace the whole state, so the bar reads it without a lock.

    Times are in seconds of the clock. `stored` items were done before `began`, `left` counts from
    `seen`, the time of the last finished item.
    """

    phase: str
    total: int | None
    began: float
    seen: float
    stored: int = 0
    done: int = 0
    failed: int = 0
    left: float | None = None
    note: str = ""

    def facts(self, now: float) -> str:
        """Returns counts, rate, time left and note."""
        if self.total is not None:
            parts = [f"{self.done:,} of {self.total:,}"]
        else:
            parts = [f"{self.done:,} done" if self.done else span(now - self.began)]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        fresh, elapsed = self.done - self.stored, self.seen - self.began
        if fresh > 0 and elapsed > 0:
            parts.append(rate(fresh / elapsed))
        if self.left is not None:
            parts.append(f"{span(max(0.0, self.left - (now - self.seen)))} left")
        return ", ".join(parts) + (f"; {self.note}" if self.note else "")


class _Facts(ProgressColumn):
    """The column of the bar with counts, rate, time left and note."""

    def __init__(self, text: Callable[[], str]) -> None:
        super().__init__(Column(no_wrap=True, overflow="ellipsis", ratio=1))
        self._text = text

    def render(self, task: Task) -> Text:
        return Text(self._text())


class Progress:
    """Shows one phase of a command after the other; any thread may call its methods.

        with Progress("fmax", total=6) as progress:
            progress.advance(note="efa_cq seed 1: 120.0 MHz")

    Arguments:

    - `phase`: name of the first phase
    - `total`: number of its items; None if it is unknown
    - `done`: items that were done before; they count in no rate
    - `left`: returns the seconds until the end; default: estimated from the rate
    - `console`: where to show it, default standard error
    - `clock`: returns the time in seconds
    - `every`: least seconds between plain lines

    The display ends with the `with` statement, also after an exception. Failures, messages and the
    last item appear at once.
    """

    def __init__(
        self, phase: str, total: int | None = None, *, done: int = 0,
        left: Callable[[], float] | None = None, console: Console | None = None,
        clock: Callable[[], float] = time.monotonic, every: float = EVERY_SECONDS,
    ) -> None:
        # Variables such as FORCE_COLOR do not make a terminal of a file.
        self._console = console or Console(stderr=True, force_terminal=sys.stderr.isatty())
        self._clock, self._every, self._left, self._lock = clock, every, left, threading.RLock()
        now = clock()
        self._state = _State(phase, total, now, now, stored=done, done=done)
        self._next, self._shown = now + every, done
        self._bar, self._task = self._new_bar(), TaskID(0)

    def _new_bar(self) -> Bar | None:
        """Returns the bar, None where the display is plain lines."""
        if not self._console.is_interactive or self._console.is_dumb_terminal:
            return None
        return Bar(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(bar_width=24), _Facts(lambda: self._state.facts(self._clock())),
            console=self._console, expand=True, transient=True, refresh_per_second=REFRESHES,
            # Standard output that is a file or a pipe is not drawn above the bar.
            redirect_stdout=sys.stdout.isatty(),
        )  # fmt: skip

    def __enter__(self) -> Self:
        _open.append(self)
        if self._bar:
            self._task = self._add_task(self._bar)
            self._bar.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the bar, or prints the last state if the plain lines do not show it."""
        if self in _open:
            _open.remove(self)
        if self._bar:
            self._bar.stop()
            return
        with self._lock:
            if self._shown not in (self._state.stored, self._state.done):
                self._print_state()

    def phase(self, name: str, total: int | None = None) -> None:
        """Begins a phase; a plain display announces a phase without a total at once."""
        with self._lock:
            now = self._clock()
            self._state, self._shown = _State(name, total, now, now), 0
            if self._bar:
                self._bar.remove_task(self._task)
                self._task = self._add_task(self._bar)
            elif total is None:
                self._print(name)

    def restart(self) -> None:
        """Begins to measure the rate here; the time before was preparation."""
        with self._lock:
            now = self._clock()
            self._state = self._state._replace(began=now, seen=now, stored=self._state.done)

    def advance(self, count: int = 1, *, note: str = "", failed: bool = False) -> None:
        """Counts finished items; `note` describes them. A failure appears at once."""
        with self._lock:
            note = _one_line(note)
            if failed:
                self._state = self._state._replace(failed=self._state.failed + count)
                self.fail(f"{self._state.phase}: {note}" if note else self._state.phase)
            self._move(self._state.done + count, self._state.total, note)

    def at(self, done: int, total: int) -> None:
        """Sets the number of finished items and the total."""
        with self._lock:
            self._move(done, total, self._state.note)

    def say(self, text: str) -> None:
        """Prints a message at once, above the bar."""
        self._print(text)

    def fail(self, text: str) -> None:
        """Prints a failure at once, above the bar."""
        self._print(f"{FAILED} {text}", "bold red")

    def _move(self, done: int, total: int | None, note: str) -> None:
        state = self._state._replace(done=done, total=total, note=note, seen=self._clock())
        fresh, elapsed, left = done - state.stored, state.seen - state.began, None
        if total is not None and fresh > 0 and elapsed > 0 and done < total:
            left = self._left() if self._left else elapsed / fresh * (total - done)
        self._state = state._replace(left=left)
        if self._bar:
            self._bar.update(self._task, completed=done, total=total)
        elif done != self._shown and (
                state.seen >= self._next or (total is not None and done >= total)):
            self._print_state()

    def _add_task(self, bar: Bar) -> TaskID:
        state = self._state
        return bar.add_task(state.phase, total=state.total, completed=state.done)

    def _print_state(self) -> None:
        now = self._clock()
        self._next, self._shown = now + self._every, self._state.done
        self._print(f"{self._state.phase}: {self._state.facts(now)}")

    def _print(self, text: str, style: str = "") -> None:
        shown = "".join(one for one in text if one.isprintable() or one in "\n\t")
        self._console.print(Text(shown, style), soft_wrap=True)


def _one_line(text: str) -> str:
    return " ".join(text.split())
