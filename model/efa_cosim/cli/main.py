# SPDX-License-Identifier: Apache-2.0
"""efa-cosim: plays recorded sessions and runs the jobs of this repository."""

import argparse
import shlex
import signal
import sys
from importlib import import_module

PASSED, FAILED, UNUSABLE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
# Each command is a module of this package, which adds its subcommand.
COMMANDS = ("run", "play", "sweep", "waterfall", "lab", "report", "regress", "test", "serve")

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


def _work(arguments):
    from efa_cosim.boundary.backend import BackendUnavailable

    options = _parser().parse_args(arguments)
    options.command = shlex.join(["efa-cosim", *(sys.argv[1:] if arguments is None else arguments)])
    try:
        return options.work(options)
    except BackendUnavailable as error:
        return _reported(error, UNUSABLE)


def _reported(text, code):
    print(f"efa-cosim: {text}", file=sys.stderr)
    return code


def _reason(error):
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


class _Terminated(KeyboardInterrupt):
    """SIGTERM as an exception: runs every `with` and `finally`, which end the simulators."""


def _end_by_exception():
    def leave(*_):
        raise _Terminated

    try:
        signal.signal(signal.SIGTERM, leave)
    except ValueError:
        # Not in the main thread: signals are handled by the caller.
        return


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage in one line that names the help option."""

    def error(self, message):
        self.exit(UNUSABLE, f"efa-cosim: {message}; run `{self.prog} --help` for usage\n")


class _Version(argparse.Action):
    """Prints the version; git runs only when the option is given."""

    def __call__(self, parser, *_):
        from efa_cosim.measure.origin import source

        print(source())
        parser.exit()


def _parser():
    parser = _Parser(
        prog="efa-cosim", description=__doc__, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action=_Version, nargs=0,
                        help="print version and commit of the source tree, and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f"efa_cosim.cli.{name}").add_command(commands)
    return parser
