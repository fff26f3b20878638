# SPDX-License-Identifier: Apache-2.0
"""Replaces the folder of a report as a whole; refuses a folder with other content."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from efa_cosim.jobs.files import atomic_write


class ReportError(Exception):
    """The report cannot be written or read; the text names path and reason."""


def check(folder: Path, parts: Collection[str]) -> None:
    """Refuses a folder that a report must not replace; called before and after the work. Raises
    ReportError.

    A replacement deletes all content, so the folder may contain only `parts`, the file names of a
    report."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        held = {path.name for path in folder.iterdir()} if folder.exists() else set()
        # A test of permissions is not sufficient: some file systems refuse in other ways.
        Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent)).rmdir()
    except OSError as error:
        raise not_written(folder, error) from error
    strange = sorted(held - {*parts})
    if strange:
        raise ReportError(f"{folder}: report not written: the folder holds {strange[0]}, "
                          "which is not part of a report; name another folder")


def not_written(folder: Path, error: OSError) -> ReportError:
    """Returns the error that a report has when a file or folder cannot be written."""
    return ReportError(f"{folder}: report not written: {error.strerror or error}; "
                       "free space or name another folder")


def replace(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Replaces a folder by one with these files (content by name). Raises OSError; the old folder
    stays if a file cannot be written."""
    part = None
    try:
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        part.chmod(0o755)
        for name, content in files.items():
            atomic_write(part / name, content)
        _rename(part, folder)
    finally:
        if part is not None and part.exists():
            shutil.rmtree(part, ignore_errors=True)


def _rename(part: Path, folder: Path) -> None:
    """Renames the new folder to the target; deletes the old folder last."""
    if not folder.exists():
        os.rename(part, folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    pending = old / "old"
    try:
        os.rename(folder, pending)
        os.rename(part, folder)
    finally:
        # If the second rename failed, the old report is restored.
        if pending.exists() and not folder.exists():
            os.rename(pending, folder)
        shutil.rmtree(old, ignore_errors=True)
