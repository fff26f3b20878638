# SPDX-License-Identifier: Apache-2.0
"""Serves PCI functions on Unix sockets, one client at a time for each, until a signal."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import stat
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from efa_cosim.fabric.description import FabricDescription
from efa_cosim.fabric.fabric import Fabric
from efa_cosim.fabric.network import Network
from efa_cosim.live.channel import Channel, Closed
from efa_cosim.live.function import Function
from efa_cosim.live.protocol import ProtocolError
from efa_cosim.session.writer import ClientFiles, NodePart, build_settings
from efa_cosim.transport.monitor import Monitor

# Longest wait for a request while packets are in flight.
NETWORK_SECONDS = 0.001
KEEP_ALIVE_SECONDS = 1.0
# Longest path of a Unix socket, without the byte that ends it.
MOST_PATH_BYTES = 107


class ServeError(Exception):
    """A socket cannot be served; the text names it and says what to do."""


class _Port:
    """A socket, its function, and the client that is connected."""

    def __init__(self, path: Path, function: Function) -> None:
        self.path, self.function = path, function
        self.listener = listen(path)
        self._inode = os.stat(path).st_ino
        self.channel: Channel | None = None
        self.waits_for = selectors.EVENT_READ
        self.requests = 0

    def close(self) -> None:
        """Ends the connection and removes the socket, unless another server took its place."""
        if self.channel is not None:
            self.channel.close()
            self.function.leave()
        self.listener.close()
        with contextlib.suppress(OSError):
            if os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)


class Server:
    """Serves one function for each socket, all on one fabric.

    - `paths`: the sockets, in the order of the node numbers from 1 on
    - `profile`: attributes that the devices report, a profile of spec/limits.yaml
    - `record`: the file of the recorded session of all devices; None: no recording
    - `map_llq`: the clients can map the LLQ memory; its stores reach the device at the doorbell
    - `fabric`: describes the fabric, whose nodes are the sockets; None: nothing is lost
    - `watch`: a monitor checks each packet on `fabric`; a fault is a line of the log
    - `idle_timeout`: seconds without a client after which the server ends; None: never
    - `say`: called with each line of the log

    Raises ServeError. `close` removes the sockets.
    """

    def __init__(
        self, paths: list[Path], profile: str, record: Path | None, map_llq: bool,
        fabric: FabricDescription | None, idle_timeout: float | None, say: Callable[[str], object],
        watch: bool = False,
    ) -> None:
        self._monitor: Monitor | None = None
        if fabric is not None and watch:
            self._monitor = Monitor(
                report=lambda fault: say(f"rule of the transport broken: {fault}"),
                nodes=[node.number for node in fabric.nodes], paths=fabric.paths)  # fmt: skip
        self._network = None if fabric is None else Network(fabric, self._monitor)
        numbers = (range(1, len(paths) + 1) if fabric is None
                   else [node.number for node in fabric.nodes])
        files = None if record is None else ClientFiles(record, build_settings(profile), say)
        self._say, self._idle_timeout = say, idle_timeout
        self._selector = selectors.DefaultSelector()
        self._ports: list[_Port] = []
        self._stopped = False
        try:
            connection = self._network or Fabric()
            for node_id, path in zip(numbers, paths, strict=True):
                part = None if files is None else NodePart(files, node_id)
                function = Function(node_id, profile, connection, map_llq, part, self._deliver)
                port = _Port(path, function)
                self._ports.append(port)
                self._selector.register(port.listener, selectors.EVENT_READ, port)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends all connections and removes the sockets."""
        for port in self._ports:
            port.close()
        self._selector.close()

    def run(self) -> None:
        """Serves until SIGINT, SIGTERM or the idle timeout."""
        with self._signals():
            for port in self._ports:
                self._say(f"listening on {port.path}")
            self._serve()
        if self._monitor is not None:
            self._say(f"{self._monitor.packets:,} packets checked")

    def _serve(self) -> None:
        now = time.monotonic()
        tick, since = now + KEEP_ALIVE_SECONDS, now
        while not self._stopped:
            busy = self._network is not None and not self._network.idle
            for key, ready in self._selector.select(NETWORK_SECONDS if busy
                                                    else max(0.0, tick - now)):
                if key.data is not None:
                    self._work(key.data, ready)
            if busy:
                self._deliver()
            now = time.monotonic()
            if self._idle_timeout is not None:
                if any(port.channel is not None for port in self._ports):
                    since = now
                elif now - since >= self._idle_timeout:
                    self._say(f"no client for {self._idle_timeout:g} s: ends")
                    return
            if now >= tick:
                tick = now + KEEP_ALIVE_SECONDS
                for port in self._ports:
                    if port.channel is not None:
                        port.function.keep_alive()
                self._deliver()

    def _work(self, port: _Port, ready: int) -> None:
        if port.channel is None:
            self._accept(port)
            return
        try:
            if ready & selectors.EVENT_WRITE:
                port.channel.flush()
            # A client that does not read its replies gets no further ones.
            if ready & selectors.EVENT_READ and not port.channel.blocked:
                for message in port.channel.messages():
                    port.requests += 1
                    reply = port.function.answer(message)
                    self._deliver()
                    if reply is not None:
                        port.channel.send(reply, port.function.reply_fd)
            self._watch(port)
        except Closed as end:
            self._leave(port, f"client left in the middle of a message after {port.requests} "
                              "requests" if end.inside else f"client left after {port.requests} "
                              f"requests{_counts(port.function)}")
        except ProtocolError as error:
            self._leave(port, f"connection closed: {error}")
        except Exception:
            # A defect of the device must not end the functions of the other clients.
            self._leave(port, "connection closed by an internal error, please report it:\n"
                              f"{traceback.format_exc().rstrip()}")

    def _watch(self, port: _Port) -> None:
        """Waits for requests, or for space for the replies."""
        assert port.channel is not None
        wanted = selectors.EVENT_WRITE if port.channel.blocked else selectors.EVENT_READ
        if port.waits_for != wanted:
            port.waits_for = wanted
            self._selector.modify(port.channel, wanted, port)

    def _accept(self, port: _Port) -> None:
        """Accepts a client; the next one waits in the queue of the socket until this one leaves."""
        try:
            connection, _ = port.listener.accept()
        except OSError:
            return  # The client gave up.
        self._selector.unregister(port.listener)
        port.channel, port.requests = Channel(connection), 0
        port.waits_for = selectors.EVENT_READ
        self._selector.register(port.channel, selectors.EVENT_READ, port)
        self._say(f"{port.path}: client connected")

    def _leave(self, port: _Port, text: str) -> None:
        """Ends a connection, resets the function, and listens again."""
        assert port.channel is not None
        self._selector.unregister(port.channel)
        port.channel.close()
        port.channel = None
        self._say(f"{port.path}: {text}")
        port.function.leave()
        self._selector.register(port.listener, selectors.EVENT_READ, port)

    def _deliver(self) -> None:
        """Moves the packets between the functions, then signals the interrupts of all."""
        for port in self._ports:
            port.function.settle()
        for port in self._ports:
            port.function.signal()

    @contextlib.contextmanager
    def _signals(self) -> Any:
        """Ends the server at SIGINT and SIGTERM between two requests."""
        wake, woken = socket.socketpair()
        wake.setblocking(False)
        woken.setblocking(False)

        def stop(*_: object) -> None:
            self._stopped = True

        before = {number: signal.signal(number, stop)
                  for number in (signal.SIGINT, signal.SIGTERM)}
        old = signal.set_wakeup_fd(wake.fileno())
        self._selector.register(woken, selectors.EVENT_READ, None)
        try:
            yield
        finally:
            self._selector.unregister(woken)
            signal.set_wakeup_fd(old)
            for number, handler in before.items():
                signal.signal(number, handler)
            wake.close()
            woken.close()


def _counts(function: Function) -> str:
    """Returns what went wrong for a client, for the log."""
    memory = function.memory
    counts = [(memory.failed_reads, "failed DMA reads"),
              (memory.dropped_writes, "dropped DMA writes"),
              (function.lost_interrupts, "interrupts without an eventfd"),
              (function.refused_stores, "accesses outside a BAR")]
    text = "".join(f", {count} {name}" for count, name in counts if count)
    return text + (f"; first {memory.first_failure}" if memory.first_failure else "")


def listen(path: Path) -> socket.socket:
    """Returns a listening socket; replaces a socket that no server listens on.

    Raises ServeError.
    """
    if len(os.fsencode(path)) > MOST_PATH_BYTES:
        raise ServeError(f"{path}: a socket path of {len(os.fsencode(path))} bytes; expected at "
                         f"most {MOST_PATH_BYTES}: use a relative path or a shorter folder")
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            _remove_stale(path)
        else:
            raise ServeError(f"{path}: exists and is no socket: name another path")
    except FileNotFoundError:
        pass  # Nothing is there.
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        listener.listen()
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ServeError(f"{path}: {error.strerror or error}") from None
    return listener


def _remove_stale(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError as error:
            raise ServeError(f"{path}: {error.strerror or error}") from None
    raise ServeError(f"{path}: another server listens on it: end it, or name another path")
