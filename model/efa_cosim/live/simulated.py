# SPDX-License-Identifier: Apache-2.0
"""Serves simulated devices: starts the program that owns sockets, guest memory and clock."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from efa_cosim.backends import server_program
from efa_cosim.boundary.backend import profile_strap
from efa_cosim.fabric.description import FabricDescription
from efa_cosim.fabric.network import Network
from efa_cosim.layouts import defs
from efa_cosim.live.carrier import Carrier
from efa_cosim.live.checked import check_sessions, write_sessions
from efa_cosim.live.config_space import ConfigSpace
from efa_cosim.live.server import ServeError, listen
from efa_cosim.session.writer import ClientFiles, build_settings

# Without a fabric file all paths exist, a bit for each.
ALL_PATHS = (1 << (1 << defs.TRANSPORT.paths_w)) - 1


def serve_simulated(
    backend: str, paths: list[Path], profile: str, record: Path | None, checked: bool,
    map_llq: bool, fabric: FabricDescription | None, idle_timeout: float | None,
    say: Callable[[str], object],
) -> int:
    """Serves a function for each socket, all on one fabric; the options are those of Server.

    With `checked`, the reference model executes what the device has read and written, and the
    first difference ends the server; its session is in `record`, or beside the socket. `fabric`
    is not for `record` and `checked`.

    Without these three, this process becomes the program. Otherwise it carries the packets or takes
    the session, and returns the exit code: that of the program, or 1 after a difference.
    Raises BackendUnavailable and ServeError.
    """
    program = _Program(server_program(backend, say), paths, profile, map_llq, idle_timeout)
    if fabric is not None:
        near, far = socket.socketpair()
        with far:
            process = program.start(fabric=fabric, carrier=far.fileno())
        Carrier(Network(fabric)).run(near)
        return process.wait()
    if not record and not checked:
        program.become()
    session, pipe = os.pipe()
    process = program.start(session=pipe)
    os.close(pipe)
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


class _Program:
    """The program that serves the simulated devices, with its options."""

    def __init__(
        self, file: Path, paths: list[Path], profile: str, map_llq: bool,
        idle_timeout: float | None,
    ) -> None:  # fmt: skip
        self._file, self._paths, self._profile = file, paths, profile
        self._map_llq, self._idle_timeout = map_llq, idle_timeout

    def become(self) -> NoReturn:
        """Replaces this process."""
        with self._listeners() as listeners:
            os.execv(self._file, self._arguments(listeners, -1, None, -1))

    def start(
        self, *, session: int = -1, fabric: FabricDescription | None = None, carrier: int = -1
    ) -> subprocess.Popen[bytes]:
        """Starts a process, which ends at the signals that end this one.

        - `session`: the pipe for the recorded sessions; `carrier`: the socket of the fabric
        """
        for number in (session, carrier):
            if number >= 0:
                os.set_inheritable(number, True)
        with self._listeners() as listeners:
            arguments = self._arguments(listeners, session, fabric, carrier)
            process = subprocess.Popen(arguments, close_fds=False)
            for each in listeners:
                each.close()
        for number in (signal.SIGINT, signal.SIGTERM):
            # Session and packets are complete when the program has ended.
            signal.signal(number, lambda *_: process.terminate())
        return process

    @contextlib.contextmanager
    def _listeners(self) -> Iterator[list[socket.socket]]:
        """Opens the sockets; removes them if the program does not start."""
        listeners: list[socket.socket] = []
        try:
            for path in self._paths:
                listeners.append(listen(path))
                listeners[-1].set_inheritable(True)
            yield listeners
        except (OSError, ServeError) as error:
            for path in self._paths[: len(listeners)]:
                path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise ServeError(f"{self._file}: {error.strerror or error}") from None
            raise

    def _arguments(
        self, listeners: list[socket.socket], session: int, fabric: FabricDescription | None,
        carrier: int,
    ) -> list[str]:  # fmt: skip
        config = os.memfd_create("config", 0)
        os.write(config, ConfigSpace(defs.PROFILES[self._profile], defs.LIMITS).image())
        nodes = (range(1, len(listeners) + 1) if fabric is None
                 else [node.number for node in fabric.nodes])  # fmt: skip
        paths = ALL_PATHS if fabric is None else (1 << fabric.paths) - 1
        found = [os.fspath(self._file), f"/proc/self/fd/{config}",
                 str(profile_strap(self._profile)), str(self._idle_timeout or 0), str(session),
                 str(int(self._map_llq)), str(carrier), str(paths)]  # fmt: skip
        for path, node, each in zip(self._paths, nodes, listeners, strict=True):
            found += [str(each.fileno()), str(node), os.fspath(path)]
        return found
