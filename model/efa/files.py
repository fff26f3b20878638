"""Files that appear whole or not at all."""

import contextlib
import os
from pathlib import Path


def write_whole(path, text):
    """Replaces a text file in one step, once all its bytes are on the disk; raises OSError."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
