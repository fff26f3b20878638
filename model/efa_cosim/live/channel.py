# SPDX-License-Identifier: Apache-2.0
"""Receives and sends the messages of one client on a socket that never blocks."""

from __future__ import annotations

import array
import contextlib
import os
import socket
from collections.abc import Iterator
from typing import NamedTuple

from efa_cosim.live import protocol
from efa_cosim.live.protocol import HEADER, Header, ProtocolError

# Replies that the client has not read; a client with more than these does not read at all.
MOST_UNSENT_BYTES = 4 << 20
# Received at one wake-up, unless a message is longer: some 50 stores, so that the clients of other
# functions get their turn.
READ_BYTES = 2048
_FD_BYTES = array.array("i").itemsize
_FD_SPACE = socket.CMSG_LEN(protocol.MOST_FDS * _FD_BYTES)
_TRUNCATED = int(socket.MSG_CTRUNC)  # too many file descriptors


class Message(NamedTuple):
    """A complete request with the file descriptors that came with it."""

    header: Header
    payload: bytes
    fds: list[int]


class Closed(Exception):
    """The client closed the connection; `inside` is True if a message was incomplete."""

    def __init__(self, inside: bool) -> None:
        super().__init__("in the middle of a message" if inside else "")
        self.inside = inside


class Channel:
    """A connection to a client. `fileno()` is for a selector."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._data = bytearray()
        # File descriptors of the first message in the data, and of the one with the last byte.
        self._fds: list[int] = []
        self._last_fds: list[int] = []
        self._missing = 0  # bytes of a message whose header is there
        self._unsent = bytearray()

    def fileno(self) -> int:
        """Returns the number of the file descriptor of the socket."""
        return self._socket.fileno()

    @property
    def blocked(self) -> bool:
        """True while replies wait for the client to read."""
        return bool(self._unsent)

    def messages(self) -> Iterator[Message]:
        """Yields the messages that have arrived; raises Closed and ProtocolError."""
        self._receive()
        while (message := self._message()) is not None:
            yield message
        self._fds += self._last_fds
        self._last_fds = []

    def _message(self) -> Message | None:
        """Takes the first message out of the data; returns None if it is incomplete."""
        data, self._missing = self._data, 0
        if len(data) < HEADER.size:
            return None
        header = protocol.header(data)
        if len(data) < header.size:
            self._missing = header.size - len(data)
            return None
        payload, fds, self._fds = bytes(data[HEADER.size : header.size]), self._fds, []
        del data[: header.size]
        if not data:
            fds, self._last_fds = fds + self._last_fds, []
        return Message(header, payload, fds)

    def _receive(self) -> None:
        """Receives what has arrived; Linux ends a read after the bytes that file descriptors came
        with."""
        try:
            data, attached, flags, _ = self._socket.recvmsg(
                max(READ_BYTES, self._missing), _FD_SPACE)
        except BlockingIOError:
            return
        except ConnectionError:
            data, attached, flags = b"", [], 0
        for level, kind, body in attached:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                whole = len(body) - len(body) % _FD_BYTES
                self._last_fds += array.array("i", body[:whole])
        if flags & _TRUNCATED or len(self._fds + self._last_fds) > protocol.MOST_FDS:
            raise ProtocolError("too many file descriptors in a message; expected at most "
                                f"{protocol.MOST_FDS}")
        if not data:
            raise Closed(bool(self._data))
        self._data += data

    def send(self, data: bytes, fd: int | None = None) -> None:
        """Sends a reply now, or as soon as the client reads; raises ProtocolError and Closed.

        A file descriptor goes with the reply.
        """
        if fd is not None:
            data = data[self._send_with(data, fd) :]
        self._unsent += data
        self.flush()
        if len(self._unsent) > MOST_UNSENT_BYTES:
            raise ProtocolError(f"{len(self._unsent)} bytes of replies that the client does not "
                                "read")

    def _send_with(self, data: bytes, fd: int) -> int:
        """Sends a reply with a file descriptor, at once, because QEMU expects both in one message.

        Returns the number of bytes sent.
        """
        if self.blocked:
            raise ProtocolError("a client that asks for a mappable region before it reads its "
                                "replies")
        try:
            return socket.send_fds(self._socket, [data], [fd])
        except OSError:
            raise Closed(False) from None

    def flush(self) -> None:
        """Sends what the socket takes; raises Closed."""
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except ConnectionError:
            raise Closed(False) from None

    def close(self) -> None:
        """Closes the connection and all file descriptors of an incomplete message."""
        close_fds(self._fds + self._last_fds)
        self._fds, self._last_fds = [], []
        self._socket.close()


def close_fds(fds: list[int]) -> None:
    """Closes received file descriptors."""
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
