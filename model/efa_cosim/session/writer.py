# SPDX-License-Identifier: Apache-2.0
"""Writes recorded sessions; their form is that of efa_cosim.session.recording."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Callable
from pathlib import Path

from efa_cosim.layouts import defs
from efa_cosim.session.settings import Settings

# Level 6 takes three times as long for a fifth less.
COMPRESSION = 1
STORE, NODE, RESET = "w", "node", "reset"
_STORE_LINE = f'["{STORE}",'


def build_settings(profile: str) -> Settings:
    """Returns the settings of a device with a profile and the limits of spec/limits.yaml."""
    return Settings(profile, 0, {name: value for name, value in defs.LIMITS.items()
                                 if type(value) is int})


class SessionWriter:
    """Writes the exchange of one device with its host, in the order in which things happen.

    - `path`: the file; it appears at `close`, complete, and replaces an older one
    - `settings`: the `Settings` of the device

    `stores` counts the host stores. All methods raise OSError.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path, self.stores = path, 0
        self._part = path.with_name(f".{path.name}.part")
        # Open until `close` or `discard`.
        self._stream = gzip.open(self._part, "wt", compresslevel=COMPRESSION)  # noqa: SIM115
        self.add("session", settings.as_row())

    def add(self, kind: str, *values: object) -> None:
        """Adds a line; bytes become hexadecimal."""
        row = [kind, *(one.hex() if isinstance(one, bytes) else one for one in values)]
        self.line(json.dumps(row, separators=(",", ":")) + "\n")

    def line(self, text: str) -> None:
        """Adds a line in its final form."""
        self.stores += text.startswith(_STORE_LINE)
        self._stream.write(text)

    def close(self) -> None:
        """Completes the file and gives it its name."""
        self._stream.close()
        self._part.replace(self.path)

    def discard(self) -> None:
        """Removes the file without an error."""
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            self._part.unlink()


class ClientFiles:
    """Writes a session for each client of a device, a file each.

    The devices of a fabric share the sessions (`NodePart`): a session then ends when all clients
    have left.

    - `path`: the file of the first session; the second has `-2` before the suffixes of its name
    - `settings`: the `Settings` of the devices
    - `say`: called with a line of the log for each file

    A file that cannot be written is named, and the rest of that session is left out.
    """

    def __init__(self, path: Path, settings: Settings, say: Callable[[str], object]) -> None:
        self._path, self._settings, self._say = path, settings, say
        self._writer: SessionWriter | None = None
        self._files, self._failed = 0, False
        self._node = 1  # of the last line
        self.stored: set[int] = set()  # nodes whose clients have stored

    @property
    def number(self) -> int:
        """The number of the present or last session."""
        return self._files

    def add(self, node: int, kind: str, *values: object) -> None:
        """Adds a line of a node to the present session, which the first one begins."""
        def put(writer: SessionWriter) -> None:
            if node != self._node:
                writer.add(NODE, node)
                self._node = node
            writer.add(kind, *values)

        self._put(put)

    def line(self, text: str) -> None:
        """Adds a line in its final form to the present session, which the first one begins."""
        self._put(lambda writer: writer.line(text))

    def _put(self, action: Callable[[SessionWriter], None]) -> None:
        if self._writer is None and not self._failed:
            self._begin()
        if self._writer is None:
            return
        try:
            action(self._writer)
        except OSError as error:
            writer, self._writer, self._failed = self._writer, None, True
            self._fail(writer, error)

    @property
    def open(self) -> bool:
        """True while a session has begun and can be written."""
        return self._writer is not None

    @property
    def path(self) -> Path:
        """The file of the present session."""
        return self._path if self._writer is None else self._writer.path

    def drop(self) -> None:
        """All clients have left: removes its file."""
        writer, self._writer, self._failed = self._writer, None, False
        if writer is not None:
            writer.discard()

    def end(self) -> None:
        """All clients have left: completes its file."""
        writer, self._writer, self._failed = self._writer, None, False
        if writer is None:
            return
        try:
            writer.close()
        except OSError as error:
            self._fail(writer, error)
        else:
            self._say(f"recorded {writer.stores} stores in {writer.path}")

    def _begin(self) -> None:
        self._files += 1
        self._node = 1
        path = self._path
        if self._files > 1:
            stem, dot, suffixes = path.name.partition(".")
            path = path.with_name(f"{stem}-{self._files}{dot}{suffixes}")
        try:
            self._writer = SessionWriter(path, self._settings)
        except OSError as error:
            self._failed = True
            self._say(f"{path}: not recorded: {error.strerror or error}")

    def _fail(self, writer: SessionWriter, error: OSError) -> None:
        writer.discard()
        self._say(f"{writer.path}: recording ended: {error.strerror or error}; free disk space, "
                  "then run the client again")


class NodePart:
    """Writes the lines of one device to the sessions of its fabric.

    - `files`: the sessions
    - `node`: the number of the device in the fabric
    """

    def __init__(self, files: ClientFiles, node: int) -> None:
        self._files, self._node = files, node
        self._session = 0  # the last one with a store of this device
        self._stored = False  # since the last reset

    @property
    def open(self) -> bool:
        """True from the first store of the device in a session to the end of the session."""
        return self._files.open and self._session == self._files.number

    def store(self, bar: int, offset: int, data: bytes) -> None:
        """Adds a store; the first one in a session follows a reset."""
        if not self.open:
            self._files.add(self._node, RESET)
            self._session = self._files.number
        self._files.stored.add(self._node)
        self._files.add(self._node, STORE, bar, offset, data)
        self._stored = True

    def effect(self, kind: str, *values: object) -> None:
        """Adds an effect of a store; before the first store of the device there is none."""
        if self.open:
            self._files.add(self._node, kind, *values)

    def reset(self) -> None:
        """Adds a reset, unless no store came before it."""
        if self._stored:
            self.effect(RESET)
        self._stored = False

    def end(self) -> None:
        """The client has left; the last one ends the session."""
        stored = self._files.stored
        if self._node in stored:
            stored.remove(self._node)
            if not stored:
                self._files.end()
