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
# Messages handled at one wake-up, so that the clients of other functions get their turn.
MOST_AT_ONCE = 64
_FD_BYTES = array.array("i").itemsize


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
        self._fds: list[int] = []
        self._header: Header | None = None
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
        for _ in range(MOST_AT_ONCE):
            message = self._message()
            if message is None:
                return
            yield message

    def _message(self) -> Message | None:
        if self._header is None:
            if not self._fill(HEADER.size):
                return None
            self._header = protocol.header(bytes(self._data))
            self._data.clear()
        if not self._fill(self._header.size - HEADER.size):
            return None
        message = Message(self._header, bytes(self._data), self._fds)
        self._header, self._fds = None, []
        self._data.clear()
        return message

    def _fill(self, size: int) -> bool:
        """Receives until `size` bytes are there; returns False if the rest has not arrived."""
        space = socket.CMSG_LEN(protocol.MOST_FDS * _FD_BYTES)
        while len(self._data) < size:
            try:
                data, attached, flags, _ = self._socket.recvmsg(size - len(self._data), space)
            except BlockingIOError:
                return False
            except ConnectionError:
                data, attached, flags = b"", [], 0
            for level, kind, body in attached:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    whole = len(body) - len(body) % _FD_BYTES
                    self._fds += array.array("i", body[:whole])
            if flags & socket.MSG_CTRUNC or len(self._fds) > protocol.MOST_FDS:
                raise ProtocolError("too many file descriptors in a message; expected at most "
                                    f"{protocol.MOST_FDS}")
            if not data:
                raise Closed(bool(self._data) or self._header is not None)
            self._data += data
        return True

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
        close_fds(self._fds)
        self._fds = []
        self._socket.close()


def close_fds(fds: list[int]) -> None:
    """Closes received file descriptors."""
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)
