# SPDX-License-Identifier: Apache-2.0
"""efa-cosim: plays recorded sessions and runs the jobs of this repository."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

PASSED, FAILED, UNUSABLE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
# Each command is a module of this package, which adds its subcommand.
COMMANDS = ("run", "play", "sweep", "waterfall", "lab", "report", "regress", "test", "serve",
            "fabric_report")

EPILOG = """\
exit codes: 0 passed, 1 failed, 2 usage or environment, 130 interrupted

examples:
  efa-cosim run
  efa-cosim play model/tests/data/sessions/pingpong.jsonl.gz
  efa-cosim play --backend verilator --json result.json probe.jsonl.gz
  efa-cosim sweep sim/sweeps/example.yaml --jobs 2
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit code.

    Slow imports are inside, so that an interrupt prints one line at any time."""
    try:
        _end_by_exception()
        code = _work(arguments)
        sys.stdout.flush()
    except _Terminated:
        return _reported("terminated", TERMINATED)
    except KeyboardInterrupt:
        return _reported("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of the output is gone; the interpreter must not write the rest.
        sys.stdout = None
        return UNUSABLE
    except OSError as error:
        code = _reported(_reason(error), UNUSABLE)
        sys.stdout = None
    return code


def _work(arguments: Sequence[str] | None) -> int:
    from efa_cosim.boundary.backend import BackendUnavailable

    options = _parser().parse_args(arguments)
    options.command = shlex.join(["efa-cosim", *(sys.argv[1:] if arguments is None else arguments)])
    try:
        code: int = options.work(options)
    except BackendUnavailable as error:
        return _reported(error, UNUSABLE)
    return code


def _reported(text: object, code: int) -> int:
    print(f"efa-cosim: {text}", file=sys.stderr)
    return code


def _reason(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


class _Terminated(KeyboardInterrupt):
    """SIGTERM as an exception: runs every `with` and `finally`, which end the simulators."""


def _end_by_exception() -> None:
    def leave(*_: object) -> NoReturn:
        raise _Terminated

    try:
        signal.signal(signal.SIGTERM, leave)
    except ValueError:
        # Not in the main thread: signals are handled by the caller.
        return


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage in one line that names the help option."""

    def error(self, message: str) -> NoReturn:
        self.exit(UNUSABLE, f"efa-cosim: {message}; run `{self.prog} --help` for usage\n")


class _Version(argparse.Action):
    """Prints the version; git runs only when the option is given."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from efa_cosim.measure.origin import source

        print(source())
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="efa-cosim", description=__doc__, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action=_Version, nargs=0,
                        help="print version and commit of the source tree, and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f"efa_cosim.cli.{name}").add_command(commands)
    return parser
