# SPDX-License-Identifier: Apache-2.0
"""Tests of the progress display: plain lines, the bar of a terminal, estimates, the end."""

import re
import subprocess
import sys
import threading
from io import StringIO
from itertools import count

import pytest
from rich.console import Console

from efa_cosim.jobs import progress as module
from efa_cosim.jobs.progress import Progress, close_all, rate, showing, span

SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


class Clock:
    """A clock that the test moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def plain(clock):
    """Returns a function that makes a display of plain lines, and its text."""
    text = StringIO()

    def make(*arguments, **options):
        return Progress(*arguments, console=Console(file=text, force_terminal=False), clock=clock,
                        **options)

    make.text = text.getvalue
    make.lines = lambda: text.getvalue().splitlines()
    return make


@pytest.fixture
def terminal(clock, monkeypatch):
    """Returns a function that makes a display on a terminal, and its text."""
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    text = StringIO()

    def make(*arguments, **options):
        console = Console(file=text, force_terminal=True, width=120)
        return Progress(*arguments, console=console, clock=clock, **options)

    make.text = text.getvalue
    return make


# Plain lines


def test_plain_lines_come_at_intervals_and_at_the_end(plain, clock):
    with plain("fmax", 8) as progress:
        for number in range(8):
            clock.now += 2.0
            progress.advance(note=f"seed {number}")
    assert plain.lines() == [
        "fmax: 3 of 8, 30.0/min, 10 s left; seed 2",
        "fmax: 6 of 8, 30.0/min, 4 s left; seed 5",
        "fmax: 8 of 8, 30.0/min; seed 7",
    ]


def test_a_plain_failure_appears_at_once_and_is_counted(plain, clock):
    with plain("lab", 3) as progress:
        clock.now += 1.0
        progress.advance(note="job 1\nlost", failed=True)
        assert plain.lines() == ["FAILED lab: job 1 lost"]
        progress.fail("runs again: job 2")
        clock.now += 5.0
        progress.advance()
    assert plain.lines()[1:] == [
        "FAILED runs again: job 2", "lab: 2 of 3, 1 failed, 20.0/min, 3 s left"]


def test_plain_lines_have_no_control_characters_and_are_not_wrapped(plain):
    with plain("lint", 1) as progress:
        progress.say("\x1b[31mred\x1b[0m\rback\a [bold]" + " word" * 60)
        progress.advance()
    assert plain.lines() == ["[31mred[0mback [bold]" + " word" * 60, "lint: 1 of 1"]


def test_an_unknown_total_shows_phase_and_count(plain, clock):
    with plain("sessions") as progress:
        clock.now += 6.0
        progress.advance(3)
        progress.phase("latency, UD, 8 bytes")
    assert plain.lines() == ["sessions: 3 done, 30.0/min", "latency, UD, 8 bytes"]


def test_a_short_command_prints_nothing(plain):
    with plain("probe") as progress:
        progress.at(5, 57)
    assert plain.text() == ""


def test_the_last_state_is_shown_if_lines_were_shown_before(plain, clock):
    with plain("play") as progress:
        for done in (64, 128):
            clock.now += 4.0
            progress.at(done, 1000)
        assert plain.lines() == ["play: 128 of 1,000, 16.0/s, 54 s left"]
        clock.now += 1.0
        progress.at(192, 1000)
    assert plain.lines()[1:] == ["play: 192 of 1,000, 21.3/s, 38 s left"]


def test_a_total_of_0_shows_nothing(plain, terminal):
    for make in (plain, terminal):
        with make("mutate", 0) as progress:
            progress.say("nothing to do")
    assert plain.lines() == ["nothing to do"] and "nothing to do" in terminal.text()


def test_a_phase_begins_a_new_count(plain, clock):
    with plain("first", 2) as progress:
        clock.now += 10.0
        progress.advance()
        progress.phase("second", 4)
        clock.now += 10.0
        progress.advance()
    assert plain.lines()[-1] == "second: 1 of 4, 6.0/min, 30 s left"


# Estimates


def test_stored_items_count_in_no_rate(plain, clock):
    with plain("sweep", 20, done=10) as progress:
        clock.now += 10.0
        progress.advance()
    assert plain.lines() == ["sweep: 11 of 20, 6.0/min, 90 s left"]


def test_preparation_counts_in_no_rate(plain, clock):
    with plain("mutate", 10) as progress:
        clock.now += 600.0
        progress.restart()
        clock.now += 6.0
        progress.advance(2)
    assert plain.lines() == ["mutate: 2 of 10, 20.0/min, 24 s left"]


def test_an_estimate_of_the_command_replaces_that_of_the_rate(plain, clock):
    with plain("sweep", 10, left=lambda: 7.0) as progress:
        clock.now += 60.0
        progress.advance()
    assert plain.lines() == ["sweep: 1 of 10, 1.0/min, 7 s left"]


@pytest.mark.parametrize(("seconds", "text"), [
    (0.0, "0 s"), (99.0, "99 s"), (100.0, "2 min"), (5999.0, "100 min"), (7200.0, "2.0 h")])
def test_durations_in_words(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(("per_second", "text"), [
    (12345.6, "12,345.6/s"), (1.0, "1.0/s"), (0.5, "30.0/min"), (0.001, "3.6/h")])
def test_rates_in_words(per_second, text):
    assert rate(per_second) == text


# Terminal


def test_a_terminal_has_a_bar_with_messages_above_it(terminal, clock):
    with terminal("fmax", 4) as progress:
        clock.now += 2.0
        progress.advance(note="efa_cq")
        progress.say("a message")
        progress.advance(note="efa_eq: no route", failed=True)
    text = terminal.text()
    assert text.startswith(HIDE_CURSOR)
    assert text.index("a message") < text.index("FAILED fmax: efa_eq: no route")
    assert "2 of 4, 1 failed, 1.0/s, 2 s left; efa_eq: no route" in text
    assert text.rindex(HIDE_CURSOR) < text.rindex(SHOW_CURSOR)


def test_a_long_note_is_cut_and_leaves_phase_and_bar(clock, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    text = StringIO()
    console = Console(file=text, force_terminal=True, width=80)
    with Progress("sweep", 864, console=console, clock=clock) as progress:
        progress.advance(note="word " * 60)
    last = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", text.getvalue()).splitlines()[-2].split("\r")[-1]
    assert re.match("sweep [━╸╺ ]{24} 1 of 864; word .*…$", last) and len(last) <= 80


def test_the_time_left_of_the_bar_falls_between_items(terminal, clock):
    with terminal("fmax", 4) as progress:
        clock.now += 10.0
        progress.advance()
        clock.now += 12.0
    assert "1 of 4, 6.0/min, 18 s left" in terminal.text()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_removes_the_bar_and_restores_the_cursor(terminal, error):
    def interrupted():
        with terminal("fmax", 4) as progress:
            progress.advance()
            raise error

    with pytest.raises(error):
        interrupted()
    assert terminal.text().count(SHOW_CURSOR) == 1 and module._open == []


def test_a_program_that_ends_at_once_removes_its_bar(terminal):
    with terminal("formal", 4):
        close_all()
        assert SHOW_CURSOR in terminal.text()
    assert terminal.text().count(SHOW_CURSOR) == 1


def test_a_phase_replaces_the_bar(terminal, clock):
    with terminal("building") as progress:
        progress.phase("measuring", 2)
        progress.advance()
        progress.phase("writing")
        clock.now += 3.0
    text = terminal.text()
    assert "building" in text and "writing" in text and "3 s" in text


def test_what_takes_long_in_a_call_is_shown_with_and_without_a_display(capsys):
    with showing("building x; log: a"):
        pass
    with Progress("play"), showing("building y; log: b"):
        pass
    assert capsys.readouterr().err == "building x; log: a\nbuilding y; log: b\n"


def test_a_dumb_terminal_has_plain_lines(clock, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    text = StringIO()
    with Progress("fmax", 1, console=Console(file=text, force_terminal=True), clock=clock) as one:
        one.advance(note="efa_cq")
    assert text.getvalue() == "fmax: 1 of 1; efa_cq\n"


def test_no_color_leaves_the_bar_without_colours(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal("fmax", 2) as progress:
        progress.advance(note="lost", failed=True)
    codes = [number for code in re.findall(r"\x1b\[([\d;]*)m", terminal.text())
             for number in code.split(";") if number]  # fmt: skip
    assert HIDE_CURSOR in terminal.text()
    assert not [code for code in codes if 30 <= int(code) <= 49 or 90 <= int(code) <= 107]


def test_threads_may_write_while_others_advance(plain, terminal):
    for make in (plain, terminal):
        with make("lines", 400) as progress:
            def work(progress=progress):
                for number in range(100):
                    progress.say(f"message {number}")
                    progress.advance()

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert plain.text().count("message") == terminal.text().count("message") == 400
    assert "lines: 400 of 400" in plain.text() and "400 of 400" in terminal.text()


# Standard error


def test_a_pipe_gets_plain_lines_whatever_the_environment_asks(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    ticks = count(0.0, 10.0)
    with Progress("fmax", 2, clock=lambda: next(ticks)) as progress:
        print("a result")
        progress.advance(note="lost", failed=True)
    out, err = capsys.readouterr()
    assert out == "a result\n" and err.startswith("FAILED fmax: lost\n") and "\x1b" not in err


def test_progress_is_on_standard_error_and_results_on_standard_output():
    code = ("from efa_cosim.jobs.progress import Progress\n"
            "with Progress('fmax', 1) as progress:\n    print('result')\n    progress.advance()")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "result\n" and done.stderr.startswith("fmax: 1 of 1")
