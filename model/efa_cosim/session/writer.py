# SPDX-License-Identifier: Apache-2.0
"""Writes recorded sessions; their form is that of efa_cosim.session.recording."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Callable
from pathlib import Path

from efa_cosim.session.settings import Settings

# Level 6 takes three times as long for a fifth less.
COMPRESSION = 1
STORE = "w"
_STORE_LINE = f'["{STORE}",'


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

    - `path`: the file of the first client; the second has `-2` before the suffixes of its name
    - `settings`: the `Settings` of the device
    - `say`: called with a line of the log for each file

    A file that cannot be written is named, and the rest of that session is left out.
    """

    def __init__(self, path: Path, settings: Settings, say: Callable[[str], object]) -> None:
        self._path, self._settings, self._say = path, settings, say
        self._writer: SessionWriter | None = None
        self._files, self._failed = 0, False

    def add(self, kind: str, *values: object) -> None:
        """Adds a line to the session of the present client, which the first one begins."""
        self._put(lambda writer: writer.add(kind, *values))

    def line(self, text: str) -> None:
        """Adds a line in its final form, as `add` does."""
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
        """The file of the present client."""
        return self._path if self._writer is None else self._writer.path

    def drop(self) -> None:
        """The client has left: removes its file."""
        writer, self._writer, self._failed = self._writer, None, False
        if writer is not None:
            writer.discard()

    def end(self) -> None:
        """The client has left: completes its file."""
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
