"""The program efa-cosim: plays recorded sessions and runs the jobs of this repository."""

import argparse
import json
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from efa.backend import BACKENDS, BackendUnavailable, open_backend
from efa.player import PlayError, play
from efa.session import SessionError

PASSED, FAILED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
PROGRESS_AFTER_SECONDS = 2.0
PROGRESS_EVERY_SECONDS = 0.5
# Each job lives in a module of its own, which adds its subcommand.
JOBS = ("run", "sweep", "test", "report")

EPILOG = """\
exit codes: 0 passed, 1 failed, 2 usage or environment, 130 interrupted

examples:
  efa-cosim play model/tests/data/sessions/pingpong.jsonl.gz
  efa-cosim play --backend verilator --json result.json probe.jsonl.gz
"""

PLAY_TEXT = """\
Plays what unmodified EFA software and its device exchanged, store by store, on a device of ours,
and compares everything the device does: register answers, admin responses, completions, payload,
events and interrupts. Numbers that a device chooses (queues, keys, offsets) are translated.
"""
PLAY_EPILOG = """\
examples:
  efa-cosim play probe.jsonl.gz                     on the reference model
  efa-cosim play --control perftest.jsonl.gz        admin commands only, no data path
  efa-cosim play --backend icarus devinfo.jsonl.gz  on the RTL, simulated by Icarus Verilog

A difference is told with the line of the session, what was expected and what came.
"""


def main(arguments=None):
    """Runs the program; returns its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return options.work(options)
    except BackendUnavailable as error:
        print(f"efa-cosim: {error}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        print("efa-cosim: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser():
    parser = argparse.ArgumentParser(
        prog="efa-cosim", description=__doc__, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_play(commands)
    for name in JOBS:
        if find_spec("efa.jobs") and find_spec(f"efa.jobs.{name}"):
            import_module(f"efa.jobs.{name}").add_command(commands)
    return parser


def _add_play(commands):
    parser = commands.add_parser(
        "play", help="play a recorded session of real software and compare",
        description=PLAY_TEXT, epilog=PLAY_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", type=Path, help="a session (.jsonl.gz)")
    parser.add_argument("--backend", choices=BACKENDS, default="model",
                        help="device to play on (default: %(default)s)")
    parser.add_argument("--control", action="store_true",
                        help="play the register BAR only: bring-up and admin commands")
    parser.add_argument("--profile", choices=("recorded", "default"), default="recorded",
                        help="what the device reports of itself (default: %(default)s, as the "
                             "device of the sessions did)")
    parser.add_argument("--json", metavar="OUT", type=Path, help="write the result as JSON")
    parser.set_defaults(work=_play)


def _play(options):
    if options.json and not options.json.resolve().parent.is_dir():
        print(f"efa-cosim: no folder {options.json.parent} for --json", file=sys.stderr)
        return UNUSABLE
    result = {"session": options.file.name, "backend": options.backend, "profile": options.profile}
    progress = _Progress(options.file.name)
    try:
        with open_backend(options.backend, profile=options.profile, record=True) as backend:
            played = play(options.file, backend, options.control, progress)
    except SessionError as error:
        code, text = UNUSABLE, str(error)
        result |= {"verdict": "unusable", "reason": text}
    except PlayError as error:
        code, text = FAILED, f"FAILED {error}"
        result |= {"verdict": "failed", "line": error.line, "reason": error.text}
    else:
        code, text = PASSED, f"passed {options.file.name} on {options.backend}: {_summary(played)}"
        result |= {"verdict": "passed", **played.as_dict()}
    finally:
        progress.clear()
    print(text, file=sys.stdout if code == PASSED else sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return code


def _summary(played):
    counts = [
        (played.stores, "stores"), (played.register_answers, "register answers"),
        (played.admin_responses, "admin responses"), (played.completions, "completions"),
        (played.events, "events"), (played.interrupts, "interrupts"),
        (played.payload_bytes, "payload bytes"), (played.cycles, "cycles")]
    return ", ".join(f"{count} {name}" for count, name in counts if count)


class _Progress:
    """A line on a terminal's standard error, rewritten; plain lines elsewhere."""

    def __init__(self, name):
        self._name = name
        self._next = time.monotonic() + PROGRESS_AFTER_SECONDS
        self._terminal = sys.stderr.isatty()
        self._shown = False

    def __call__(self, done, total):
        now = time.monotonic()
        if now < self._next:
            return
        every = PROGRESS_EVERY_SECONDS if self._terminal else 10.0
        self._next, self._shown = now + every, True
        text = f"{self._name}: {done} of {total} steps ({100 * done // total} %)"
        print(f"\r{text}" if self._terminal else text, end="" if self._terminal else "\n",
              file=sys.stderr, flush=True)

    def clear(self):
        """Ends the line."""
        if self._shown and self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr)
        self._shown = False


if __name__ == "__main__":
    sys.exit(main())
