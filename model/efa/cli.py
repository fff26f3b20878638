# SPDX-License-Identifier: Apache-2.0
"""The program efa-cosim: plays recorded sessions and runs the jobs of this repository."""

import argparse
import signal
import sys
from importlib import import_module

PASSED, FAILED, UNUSABLE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
# Each job lives in a module of its own, which adds its subcommand.
JOBS = ("run", "play", "sweep", "waterfall", "lab", "report", "test")

EPILOG = """\
exit codes: 0 passed, 1 failed, 2 usage or environment, 130 interrupted

examples:
  efa-cosim run
  efa-cosim play model/tests/data/sessions/pingpong.jsonl.gz
  efa-cosim play --backend verilator --json result.json probe.jsonl.gz
  efa-cosim sweep sim/sweeps/example.yaml --jobs 2
"""


def main(arguments=None):
    """Runs the program; returns its exit code.

    Everything heavy is imported inside, so that an interrupt is one line from the start."""
    try:
        _end_by_exception()
        code = _work(arguments)
        sys.stdout.flush()
    except _Terminated:
        return _told("terminated", TERMINATED)
    except KeyboardInterrupt:
        return _told("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Who read the output has left; the interpreter shall not try to write the rest.
        sys.stdout = None
        return UNUSABLE
    except OSError as error:
        code = _told(_reason(error), UNUSABLE)
        sys.stdout = None
    return code


def _work(arguments):
    from efa.backend import BackendUnavailable

    options = _parser().parse_args(arguments)
    try:
        return options.work(options)
    except BackendUnavailable as error:
        return _told(error, UNUSABLE)


def _told(text, code):
    print(f"efa-cosim: {text}", file=sys.stderr)
    return code


def _reason(error):
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


class _Terminated(KeyboardInterrupt):
    """SIGTERM, leaving through every `with` and `finally`, so that no simulator stays behind."""


def _end_by_exception():
    def leave(*_):
        raise _Terminated

    try:
        signal.signal(signal.SIGTERM, leave)
    except ValueError:
        # Not in the main thread: whoever started it there answers signals.
        return


class _Parser(argparse.ArgumentParser):
    """Wrong usage is one line that names the way to the help."""

    def error(self, message):
        self.exit(UNUSABLE, f"efa-cosim: {message}; `{self.prog} --help` shows how\n")


def _parser():
    parser = _Parser(
        prog="efa-cosim", description=__doc__, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in JOBS:
        import_module(f"efa.jobs.{name}").add_command(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
