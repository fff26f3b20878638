# SPDX-License-Identifier: Apache-2.0
"""Serves simulated devices: starts the program that owns sockets, guest memory and clock."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from efa_cosim.backends import server_program
from efa_cosim.layouts import defs
from efa_cosim.live.config_space import ConfigSpace
from efa_cosim.live.server import ServeError, listen
from efa_cosim.session.settings import Settings
from efa_cosim.session.writer import ClientFiles


def serve_simulated(
    backend: str, paths: list[Path], profile: str, record: Path | None,
    idle_timeout: float | None, say: Callable[[str], object],
) -> int:
    """Serves a function for each socket, all on one fabric; the options are those of Server.

    Without `record` this process becomes the program. With it, the session comes through a pipe,
    and the exit code of the program is returned. Raises BackendUnavailable and ServeError.
    """
    program = server_program(backend, len(paths), say)
    listeners: list[socket.socket] = []
    try:
        for path in paths:
            listeners.append(listen(path))
            listeners[-1].set_inheritable(True)
        config = os.memfd_create("config", 0)
        os.write(config, ConfigSpace(defs.PROFILES[profile], defs.LIMITS).image())
        session, pipe = (-1, -1) if record is None else os.pipe()
        arguments = [os.fspath(program), f"/proc/self/fd/{config}", profile,
                     str(idle_timeout or 0), str(pipe)]
        for path, each in zip(paths, listeners, strict=True):
            arguments += [str(each.fileno()), os.fspath(path)]
        if record is None:
            os.execv(program, arguments)
        os.set_inheritable(pipe, True)
        process = subprocess.Popen(arguments, close_fds=False)
    except (OSError, ServeError) as error:
        for path in paths[: len(listeners)]:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ServeError(f"{program}: {error.strerror or error}") from None
        raise
    assert record is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        # The session is complete when the program has ended.
        signal.signal(number, lambda *_: process.terminate())
    os.close(pipe)
    for each in listeners:
        each.close()
    limits = {name: value for name, value in defs.LIMITS.items() if type(value) is int}
    with open(session) as rows:
        _write(rows, ClientFiles(record, Settings(profile, 0, limits), say))
    return process.wait()


def _write(rows: Iterable[str], files: ClientFiles) -> None:
    """Writes the rows of the program to a file for each client."""
    for row in rows:
        if row.startswith('["end"'):
            files.end()
        else:
            files.add(*json.loads(row))
    files.end()
