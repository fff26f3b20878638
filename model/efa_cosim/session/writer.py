# SPDX-License-Identifier: Apache-2.0
"""Writes a recorded session; its form is that of efa_cosim.session.recording."""

import contextlib
import gzip
import json
from pathlib import Path

from efa_cosim.session.settings import Settings

# Level 6 takes three times as long for a fifth less.
COMPRESSION = 1


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
        self._add("session", settings.as_row())

    def reset(self) -> None:
        """A function-level reset."""
        self._add("reset")

    def store(self, bar: int, offset: int, data: bytes) -> None:
        """A store of the host; the effects that follow are its own."""
        self.stores += 1
        self._add("w", bar, offset, data.hex())

    def memory(self, address: int, data: bytes) -> None:
        """Host memory that the device read."""
        self._add("m", address, data.hex())

    def write(self, address: int, data: bytes) -> None:
        """A DMA write of the device."""
        self._add("d", address, data.hex())

    def interrupt(self, vector: int) -> None:
        """An MSI-X message of the device."""
        self._add("i", vector)

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

    def _add(self, *row: object) -> None:
        self._stream.write(json.dumps(row, separators=(",", ":")) + "\n")
