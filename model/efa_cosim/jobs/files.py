# SPDX-License-Identifier: Apache-2.0
"""Writes files atomically, and sorts paths by age."""

import contextlib
import os
from collections.abc import Iterable
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


def newest_first(paths: Iterable[Path]) -> dict[Path, float]:
    """Returns the times of the last change (seconds) by path, the newest first.

    A path that another process removes meanwhile is left out.
    """
    times = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            times[path] = path.stat().st_mtime
    return dict(sorted(times.items(), key=lambda one: one[1], reverse=True))
