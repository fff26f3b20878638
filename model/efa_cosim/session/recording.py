# SPDX-License-Identifier: Apache-2.0
"""Reads recorded sessions: the exchange between devices and their hosts, line by line.

A session is gzip of JSON lists, one a line: ["reset"], ["w", bar, offset, hex] for a store. After
a store follow its effects: ["m", address, hex] host memory read by the device, ["d", address, hex]
device writes and ["i", vector] interrupts. The first of these lines is a reset; later ones are
function-level resets. A line ["session", {...}] before it names the settings of the device; without
it they are derived from the exchange.

Several devices of a fabric share a session: after ["node", n] the lines are those of node n, before
the first such line those of node 1. A store of one node may have effects on all.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from efa_cosim.layouts import defs
from efa_cosim.session.settings import Settings, SettingsError, derived
from efa_cosim.session.step import Step

MAX_STORE_BYTES = 64
MAX_LINE_BYTES = 1 << 20
BARS = range(6)


class SessionError(Exception):
    """The file is no recorded session; the text names file and line."""


@dataclass(slots=True)
class Session:
    """A recorded session.

    - `steps`: what the host did, with the outputs of the devices
    - `settings`: those of the devices
    - `ordered`: the lines have the order in which the host saw writes and interrupts, as those of
      `efa-cosim serve` have, which begin with the settings
    - `nodes`: number of devices
    - `node`: that of the last line
    """

    steps: list[Step] = field(default_factory=list)
    settings: Settings | None = None
    ordered: bool = False
    nodes: int = 1
    node: int = 1


def read_session(path: str | Path) -> Session:
    """Returns a `Session` from a file (.jsonl.gz); raises SessionError with file and line."""
    path = Path(path)
    session = Session()
    steps, number = session.steps, 0
    try:
        with gzip.open(path, "rb") as stream:
            while text := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                add_line(session, number, text)
    except LineError as error:
        raise SessionError(f"{path}:{number}: {error}") from None
    except EOFError:
        raise SessionError(f"{path}:{number + 1}: the file is incomplete (truncated gzip): "
                           "copy the whole file again") from None
    except gzip.BadGzipFile:
        raise SessionError(f"{path}: not a gzip file; expected JSON lines in gzip, such as "
                           "model/tests/data/sessions/probe.jsonl.gz") from None
    except zlib.error as error:
        raise SessionError(f"{path}:{number + 1}: damaged gzip data ({error}): "
                           "copy the whole file again") from None
    except OSError as error:
        raise SessionError(f"{path}: {error.strerror or error}; name a session, such as "
                           "model/tests/data/sessions/probe.jsonl.gz") from None
    if not steps:
        raise SessionError(f"{path}: the session is empty; expected a reset and host stores")
    if not any(one.writes or one.interrupts
               for step in steps for one in (step, *step.others.values())):
        raise SessionError(f"{path}:{number}: the session ends before any output of its device: "
                           "there is nothing to compare")
    if session.settings is None:
        try:
            session.settings = derived(step for step in steps if step.node == steps[0].node)
        except SettingsError as error:
            raise SessionError(f"{path}: {error}") from None
    return session


class LineError(Exception):
    """A line is none of a session; the text says why."""


def add_line(session: Session, number: int, text: bytes) -> None:
    """Adds a line to a session, by its number from 1 on; raises LineError."""
    steps = session.steps
    if len(text) > MAX_LINE_BYTES:
        raise LineError(f"a line of more than {MAX_LINE_BYTES} bytes")
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        raise LineError(f"no JSON: {error.msg}, character {error.pos + 1}") from None
    except UnicodeDecodeError as error:
        raise LineError(f"no JSON: not UTF-8, byte {error.start + 1}") from None
    except (ValueError, RecursionError):
        raise LineError("no JSON: a number too long, or lists too deep") from None
    if not isinstance(row, list) or not row or not isinstance(row[0], str):
        raise LineError("a line is a list whose first item is its kind")
    kind, *values = row
    if kind not in _KINDS:
        raise LineError(f"unknown kind {kind!r}, expected one of {', '.join(_KINDS)}")
    names = _KINDS[kind]
    if len(values) != len(names):
        raise LineError(f"{kind!r} takes {len(names)} values ({', '.join(names)}), found "
                         f"{len(values)}")
    values = [_value(name, value) for name, value in zip(names, values, strict=True)]
    if kind == "session":
        if number > 1:
            raise LineError("the settings are not on the first line")
        session.settings, session.ordered = values[0], True
        return
    if kind == "node":
        session.node, session.nodes = values[0], max(session.nodes, values[0])
        return
    node = session.node
    if kind == "reset":
        steps.append(Step(number, node))
        return
    if not steps:
        raise LineError("the session does not start with a reset")
    if kind in ("m", "d") and values[0] + len(values[1]) > _LIMITS["address"]:
        raise LineError(f"{len(values[1])} bytes at {values[0]:#x} pass the end of memory, "
                         "which has 64-bit addresses")
    if kind == "w":
        bar, offset, data = values
        if offset // MAX_STORE_BYTES != (offset + len(data) - 1) // MAX_STORE_BYTES:
            raise LineError(f"store of {len(data)} bytes at {offset:#x} crosses a 64-byte line")
        steps.append(Step(number, node, bar, offset, data))
    elif kind == "m":
        steps[-1].of(node).memory.append((number, values[0], values[1]))
    elif kind == "d":
        steps[-1].of(node).writes.append((number, values[0], values[1]))
    else:
        steps[-1].of(node).interrupts.append((number, values[0]))


_KINDS: dict[str, tuple[str, ...]] = {
    "session": ("settings",),
    "node": ("node",),
    "reset": (),
    "w": ("bar", "offset", "bytes"),
    "m": ("address", "bytes"),
    "d": ("address", "bytes"),
    "i": ("vector",),
}
_LIMITS = {"bar": len(BARS), "offset": 1 << 32, "address": 1 << 64, "vector": 1 << 11,
           "node": 1 << defs.LIMITS.node_w}


def _value(name: str, value: Any) -> Any:
    if name == "settings":
        try:
            return Settings.from_row(value)
        except SettingsError as error:
            raise LineError(str(error)) from None
    if name == "bytes":
        try:
            data = bytes.fromhex(value)
        except (TypeError, ValueError):
            raise LineError(f"bytes are not hexadecimal: {str(value)[:40]!r}") from None
        if not data:
            raise LineError("bytes are empty")
        return data
    least = int(name == "node")  # node 0 is no device
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _LIMITS[name]:
        raise LineError(f"{name} is not a number from {least} to {_LIMITS[name] - 1:#x}: "
                         f"{str(value)[:40]!r}")
    return value
