# SPDX-License-Identifier: Apache-2.0
"""Writes files atomically."""

import contextlib
import os
from pathlib import Path


def atomic_write(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Replaces a file atomically, after all text or bytes are on disk; raises OSError."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
