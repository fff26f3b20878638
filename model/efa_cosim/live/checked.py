# SPDX-License-Identifier: Apache-2.0
"""Writes the sessions of a simulated device, and compares the device with the reference model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from efa_cosim.session.player import open_player, play
from efa_cosim.session.recording import Session, add_line
from efa_cosim.session.result import OrderError, PlayError
from efa_cosim.session.settings import Settings
from efa_cosim.session.step import Step
from efa_cosim.session.writer import ClientFiles

# All clients have left, in the rows of the program of tb/live.
_END = b'["end"]'
_DIFFERENCE = re.compile(r"(.*?):? expected (.*), got (.*)", re.DOTALL)


def write_sessions(rows: Iterator[bytes], files: ClientFiles) -> None:
    """Writes the rows of the program to a file for each session."""
    for row in rows:
        if row.startswith(_END):
            files.end()
        else:
            files.line(row.decode())
    files.end()


def check_sessions(
    rows: Iterator[bytes], files: ClientFiles, settings: Settings, keep: bool,
    say: Callable[[str], object], nodes: int = 1,
) -> str:
    """Plays the rows of the program on the reference model while they come.

    Returns a text about the first difference, after which rows are left, or an empty string at the
    end. `keep` keeps the files of sessions without a difference; `say` is called with a line for
    each of them; `nodes` is the number of devices.
    """
    for first in rows:
        if first.startswith(_END):
            continue
        try:
            with open_player("model", Session(settings=settings, nodes=nodes)) as model:
                done = play(files.path, model, steps=_steps(first, rows, files))
        except PlayError as error:
            return _text(error, files)
        say(f"no difference to the model: {done.stores} stores, {done.admin_responses} admin "
            f"responses, {done.completions} completions, {done.payload_bytes} payload bytes")
        if keep:
            files.end()
        else:
            files.drop()
    return ""


def _steps(first: bytes, rows: Iterator[bytes], files: ClientFiles) -> Iterator[Step]:
    """Writes the rows of a session to its file; yields each step when all its effects are there."""
    known, row = Session(), first
    number = 1  # the settings are on the first line
    while not row.startswith(_END):
        files.line(row.decode())
        number += 1
        add_line(known, number, row)
        while len(known.steps) > 1:
            yield known.steps.pop(0)
        row = next(rows, _END)
    yield from known.steps


def _text(error: PlayError, files: ClientFiles) -> str:
    """Returns the five lines of a failure; the recorded value is that of the simulated device."""
    found = _DIFFERENCE.fullmatch(error.text)
    field, device, model = found.groups() if found else (error.text, "see field", "see field")
    fault = "the RTL differs from the reference model"
    if isinstance(error, OrderError):
        # The order that the host requires is the expected value; no model has one.
        fault, device, model = "the order of writes and interrupts is wrong", model, device
    return "\n".join([
        fault, f"field:    {field}", f"expected: {model}",
        f"found:    {device}", "waves:    none",
        f"repeat:   efa-cosim play {files.path}"])
