# SPDX-License-Identifier: Apache-2.0
"""efa-cosim play: plays a recorded session of real software on a backend."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from efa_cosim.backends import backend_names
from efa_cosim.cli.options import SESSIONS, Commands, absent, output_refusal
from efa_cosim.jobs.files import atomic_write
from efa_cosim.jobs.progress import Progress
from efa_cosim.layouts import defs
from efa_cosim.measure.failures import DEVICE_WRONG, one_line
from efa_cosim.session.player import open_player, play
from efa_cosim.session.recording import SessionError, read_session
from efa_cosim.session.result import PlayError, PlayResult

TEXT = """\
Plays the recorded exchange of unmodified EFA software with its device, store by store, on a
backend, and compares all output of the device: register responses, admin responses, completions,
payload, events and interrupts. Numbers that a device allocates (queues, keys, offsets) are
translated.
"""
EPILOG = """\
examples:
  efa-cosim play probe.jsonl.gz                     on the reference model
  efa-cosim play --control perftest.jsonl.gz        admin commands only, no data path
  efa-cosim play --backend icarus devinfo.jsonl.gz  on the RTL, simulated by Icarus Verilog

A difference is reported with the line of the session, the expected and the received value.
"""


def add_command(commands: Commands) -> None:
    """Adds the command to the program."""
    parser = commands.add_parser(
        "play", help="play a recorded session of real software and compare",
        description=TEXT, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", type=Path, help="a session (.jsonl.gz)")
    parser.add_argument("--backend", choices=backend_names(), default="model",
                        help="device to play on (default: %(default)s)")
    parser.add_argument("--control", action="store_true",
                        help="play the register BAR only: probe and admin commands")
    parser.add_argument("--profile", choices=tuple(defs.PROFILES),
                        help="attributes that the device reports (default: those of the recorded "
                             "device)")
    parser.add_argument("--json", metavar="OUT", type=Path, help="write the result as JSON")
    parser.set_defaults(work=work)


def work(options: argparse.Namespace) -> int:
    """Plays the session, prints the result, returns the exit code."""
    refusal = absent(options.file, SESSIONS.glob("*.gz")) or output_refusal("--json", options.json)
    if refusal:
        print(f"efa-cosim: {refusal}", file=sys.stderr)
        return 2
    result: dict[str, Any] = {"session": options.file.name, "backend": options.backend}
    chosen = {"profile": options.profile} if options.profile else {}
    try:
        session = read_session(options.file)
        assert session.settings is not None
        result["profile"] = options.profile or session.settings.profile
        with (Progress(options.file.name) as progress,
              open_player(options.backend, session, **chosen) as backend):
            played = play(options.file, backend, options.control, progress.at, session=session)
    except SessionError as error:
        code, text = 2, f"efa-cosim: {error}"
        result |= {"verdict": "unusable", "reason": text}
    except PlayError as error:
        code, text = 1, f"failed: {error}"
        result |= {"verdict": "failed", "line": error.line, "reason": error.text}
    except DEVICE_WRONG as error:
        code, text = 1, f"failed: {options.file} on {options.backend}: {one_line(error)}"
        result |= {"verdict": "failed", "reason": one_line(error)}
    else:
        code, text = 0, f"passed {options.file.name} on {options.backend}: {_summary(played)}"
        result |= {"verdict": "passed", **played.as_dict()}
    print(text, file=sys.stdout if code == 0 else sys.stderr)
    try:
        if options.json:
            atomic_write(options.json, json.dumps(result, indent=2) + "\n")
    except OSError as error:
        print(f"efa-cosim: {options.json}: not written: {error.strerror or error}; "
              "free disk space or name another file", file=sys.stderr)
        return code or 2
    return code


def _summary(played: PlayResult) -> str:
    counts = [
        (played.stores, "stores"), (played.register_responses, "register responses"),
        (played.admin_responses, "admin responses"), (played.completions, "completions"),
        (played.events, "events"), (played.interrupts, "interrupts"),
        (played.payload_bytes, "payload bytes"), (played.cycles, "cycles")]
    return ", ".join(f"{count} {name}" for count, name in counts if count)
