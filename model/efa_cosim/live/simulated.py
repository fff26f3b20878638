# SPDX-License-Identifier: Apache-2.0
"""Serves simulated devices: replaces this process by the program that owns sockets and clock."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from efa_cosim.backends import server_program
from efa_cosim.layouts import defs
from efa_cosim.live.config_space import ConfigSpace
from efa_cosim.live.server import ServeError, listen


def serve_simulated(
    backend: str, paths: list[Path], profile: str, idle_timeout: float | None,
    say: Callable[[str], object],
) -> NoReturn:
    """Serves a function for each socket, all on one fabric; the options are those of Server.

    Raises BackendUnavailable and ServeError; otherwise this process does not return.
    """
    program = server_program(backend, len(paths), say)
    listeners: list[socket.socket] = []
    try:
        for path in paths:
            listeners.append(listen(path))
            listeners[-1].set_inheritable(True)
        config = os.memfd_create("config", 0)
        os.write(config, ConfigSpace(defs.PROFILES[profile], defs.LIMITS).image())
        arguments = [os.fspath(program), f"/proc/self/fd/{config}", profile, str(idle_timeout or 0)]
        for path, each in zip(paths, listeners, strict=True):
            arguments += [str(each.fileno()), os.fspath(path)]
        os.execv(program, arguments)
    except (OSError, ServeError) as error:
        for path in paths[: len(listeners)]:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise ServeError(f"{program}: {error.strerror or error}") from None
        raise
