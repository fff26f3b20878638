# SPDX-License-Identifier: Apache-2.0
"""Stores results by content: a digest of the job and of every source that affects its result.

A change of a source causes a new result, and a command that was interrupted finds the results that
it already has. Only the process that wants the results writes them, so each counts once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from efa_cosim.jobs.files import atomic_write, newest_first
from efa_cosim.jobs.job import Job

CACHED_TREES = 6


def digest_of(root: Path, patterns: Iterable[str]) -> str:
    """Returns sixteen hex digits for the files below a folder that match; raises OSError.

    A pattern that begins with `!` leaves its files out.
    """
    patterns, state = tuple(patterns), hashlib.sha256()
    left_out = {path for pattern in patterns if pattern.startswith("!")
                for path in root.glob(pattern[1:])}
    for pattern in patterns:
        for path in () if pattern.startswith("!") else sorted({*root.glob(pattern)} - left_out):
            state.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return state.hexdigest()[:16]


def name_of(job: Job) -> str:
    """Returns 24 hex digits for the values of a job."""
    text = json.dumps(job.as_dict(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def find(folder: Path, tree: str, job: Job) -> Any:
    """Returns the stored result of a job on the sources of digest `tree`, None without one."""
    try:
        stored = json.loads((folder / tree / f"{name_of(job)}.json").read_text())
    except (OSError, ValueError):
        return None
    same = stored["job"] == json.loads(json.dumps(job.as_dict()))
    return stored["measurements"] if same else None


def keep(folder: Path, tree: str, job: Job, result: Any) -> None:
    """Stores the result of a job; deletes all but the CACHED_TREES most recent trees.

    Raises OSError.
    """
    place = folder / tree / f"{name_of(job)}.json"
    if not place.parent.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        _prune(place.parent)
    atomic_write(place, json.dumps({"job": job.as_dict(), "measurements": result}) + "\n")


def _prune(newest: Path) -> None:
    for tree in [*newest_first(newest.parent.iterdir())][CACHED_TREES:]:
        if tree != newest:
            shutil.rmtree(tree, ignore_errors=True)
