# SPDX-License-Identifier: Apache-2.0
"""Serves simulated devices: starts the program that owns sockets, guest memory and clock."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from efa_cosim.backends import server_program
from efa_cosim.boundary.backend import profile_strap
from efa_cosim.layouts import defs
from efa_cosim.live.checked import check_sessions, write_sessions
from efa_cosim.live.config_space import ConfigSpace
from efa_cosim.live.server import ServeError, listen
from efa_cosim.session.writer import ClientFiles, build_settings


def serve_simulated(
    backend: str, paths: list[Path], profile: str, record: Path | None, checked: bool,
    map_llq: bool, idle_timeout: float | None, say: Callable[[str], object],
) -> int:
    """Serves a function for each socket, all on one fabric; the options are those of Server.

    With `checked`, the reference model executes what the device has read and written, and the
    first difference ends the server; its session is in `record`, or beside the socket.

    Without `record` and `checked`, this process becomes the program. Otherwise the session comes
    through a pipe, and the result is the exit code: that of the program, or 1 after a difference.
    Raises BackendUnavailable and ServeError.
    """
    program = server_program(backend, len(paths), say)
    listeners: list[socket.socket] = []
    try:
        for path in paths:
            listeners.append(listen(path))
            listeners[-1].set_inheritable(True)
        config = os.memfd_create("config", 0)
        os.write(config, ConfigSpace(defs.PROFILES[profile], defs.LIMITS).image())
        session, pipe = os.pipe() if record or checked else (-1, -1)
        arguments = [os.fspath(program), f"/proc/self/fd/{config}", str(profile_strap(profile)),
                     str(idle_timeout or 0), str(pipe), str(int(map_llq))]
        for path, each in zip(paths, listeners, strict=True):
            arguments += [str(each.fileno()), os.fspath(path)]
        if pipe < 0:
            os.execv(program, arguments)
        os.set_inheritable(pipe, True)
        process = subprocess.Popen(arguments, close_fds=False)
    except (OSError, ServeError) as error:
        for path in paths[: len(listeners)]:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ServeError(f"{program}: {error.strerror or error}") from None
        raise
    for number in (signal.SIGINT, signal.SIGTERM):
        # The session is complete when the program has ended.
        signal.signal(number, lambda *_: process.terminate())
    os.close(pipe)
    for each in listeners:
        each.close()
    settings = build_settings(profile)
    files = ClientFiles(record or paths[0].with_suffix(".jsonl.gz"), settings, say)
    with open(session, "rb") as rows:
        if not checked:
            write_sessions(rows, files)
            return process.wait()
        difference = check_sessions(rows, files, settings, record is not None, say, len(paths))
        if difference:
            say(difference)
            process.terminate()
            write_sessions(rows, files)
        return process.wait() or int(bool(difference))
