# SPDX-License-Identifier: Apache-2.0
"""Runs Yosys commands with the Yosys of the pyosys wheel: native code without a program of its own.

    tools/yosys_run.py COMMANDS

Prints warnings and errors only; exit status 1 after an error. `run` does so in a process.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent


def run(
    commands: str, seconds: float | None = None, log: IO[str] | int = subprocess.PIPE,
    folder: Path = ROOT,
) -> tuple[int, str]:  # fmt: skip
    """Runs commands in a folder, by default the project's root; returns exit status and output, the
    output empty if it goes to `log`.

    Raises subprocess.TimeoutExpired after `seconds`.
    """
    # Yosys leaves files of ABC behind.
    with tempfile.TemporaryDirectory(prefix="efa-yosys-") as scratch:
        # A process group of its own: ABC is a child process and would continue to run.
        process = subprocess.Popen([sys.executable, __file__, commands], cwd=folder, stdout=log,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True,
                                   env={**os.environ, "TMPDIR": scratch})  # fmt: skip
        try:
            text, _ = process.communicate(timeout=seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    return process.returncode, (text or "").strip()


def main() -> None:
    # The library has no option for a quiet run; its warnings and errors also go to stderr.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    from pyosys import libyosys

    libyosys.run_pass(sys.argv[1], libyosys.Design())


if __name__ == "__main__":
    main()
