# SPDX-License-Identifier: Apache-2.0
"""Caches finished jobs of sweeps: an interrupted sweep resumes.

The key of a job's measurements is a digest of the job and of every source that affects them, so a
change of device, bench or model causes a new measurement.
"""

import hashlib
import json
import shutil
from functools import cache

from efa_cosim.jobs.files import atomic_write
from efa_cosim.sweep.grid import CYCLE
from efa_cosim.tree import ROOT

FOLDER = ROOT / "sim/out/sweeps"
CACHED_TREES = 6
# The packages that a job uses. Commands and pictures do not affect measurements.
USED = ("backends", "boundary", "cycle", "device", "fabric", "host", "layouts", "measure", "sweep")
MODEL = ("spec/*.yaml", "requirements.lock", *(f"model/efa_cosim/{one}/*.py" for one in USED))
DEVICE = ("rtl/**/*.v", "rtl/**/*.vh", "tb/*.py", "tb/hdl/*", "tb/native/*", "tb/lib/*.py",
          "tb/cycle/*.py", "tb/system/serve_tests.py", "tb/system/timed_tests.py")  # fmt: skip


@cache
def _tree(on_the_rtl):
    """Digest of all sources that affect measurements of the RTL, or of the cycle model."""
    state = hashlib.sha256()
    for pattern in MODEL + (DEVICE if on_the_rtl else ()):
        for path in sorted(ROOT.glob(pattern)):
            state.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return state.hexdigest()[:16]


def _place(job):
    text = json.dumps(job.as_dict(), sort_keys=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:24]
    return FOLDER / _tree(job.backend != CYCLE) / f"{name}.json"


def find(job):
    """The cached measurements of a job, None if there are none."""
    try:
        pending = json.loads(_place(job).read_text())
    except (OSError, ValueError):
        return None
    same = pending["job"] == json.loads(json.dumps(job.as_dict()))
    return pending["measurements"] if same else None


def keep(job, measurements):
    """Caches the measurements of a job; raises OSError."""
    place = _place(job)
    if not place.parent.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        _prune(place.parent)
    atomic_write(place, json.dumps({"job": job.as_dict(), "measurements": measurements}) + "\n")


def _prune(newest):
    """Deletes all but the most recent CACHED_TREES trees."""
    trees = sorted(FOLDER.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for tree in trees[CACHED_TREES:]:
        if tree != newest:
            shutil.rmtree(tree, ignore_errors=True)
