# SPDX-License-Identifier: Apache-2.0
"""Builds the program that serves the simulated RTL over vfio-user (tb/live/main.cpp)."""

import fcntl
import hashlib
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from efa_cosim.boundary.backend import BackendUnavailable
from tb.runner import RunFailed
from tb.simulators import (
    OBJECT_CACHE,
    ROOT,
    SimulatorMissing,
    clean_environment,
    simulator_missing,
    verilator_bin,
)
from tb.system_run import NATIVE, build_system

HOME = ROOT / "tb" / "live"
FLAGS = ["-std=c++17", "-Wall", "-Wno-unused-parameter", "-O2"]
# Sources that include the header of the design.
DESIGN = ("fabric", "host", "main", "server")
QUIET_SECONDS = 1.0  # a build that was done before ends in this time


def program(say: Callable[[str], object], home: Path = HOME) -> Path:
    """Returns the program; builds it once, which `say` announces. `home` is the folder of its
    sources; the program of another folder than tb/live is built there.

    Raises BackendUnavailable if it cannot be built here.
    """
    reason = simulator_missing("verilator")
    if reason is not None:
        raise BackendUnavailable(reason)
    builds = threading.Timer(
        QUIET_SECONDS, say, ["builds the RTL with Verilator, once: one to three minutes"])
    builds.start()
    try:
        folder, _ = build_system("verilator", {})
        return _linked(folder, home)
    except (RunFailed, SimulatorMissing) as error:
        raise BackendUnavailable(str(error)) from None
    finally:
        builds.cancel()


def _linked(folder: Path, home: Path) -> Path:
    """Returns the program, linked with the device that was built in a folder."""
    sources = sorted(home.glob("*.cpp"))
    state = hashlib.sha256("\0".join(FLAGS).encode())
    for path in (*sources, *sorted(home.glob("*.h")), NATIVE / "efa_defs.h"):
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    place = folder if home == HOME else home
    target = place / f"serve-{state.hexdigest()[:16]}"
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        part = place / "serve.part"
        objects = [_compiled(source, folder, place) for source in _shared(sources, home)]
        _run(["g++", *map(str, objects), str(folder / "Vtop__ALL.a"),
              *map(str, sorted(folder.glob("verilated*.o"))), "-o", str(part), "-latomic",
              "-pthread"])  # fmt: skip
        os.replace(part, target)
    return target


def _shared(sources: list[Path], home: Path) -> list[Path]:
    """Returns the sources; a copy with the text of its original in tb/live becomes the original,
    whose object file is compiled once."""
    if any(_differs(path) for path in home.glob("*.h")):
        return sources
    return [path if _differs(path) else HOME / path.name for path in sources]


def _differs(path: Path) -> bool:
    original = HOME / path.name
    return not original.exists() or original.read_bytes() != path.read_bytes()


def _compiled(source: Path, folder: Path, place: Path) -> Path:
    """Returns the object file of a source; only those of DESIGN differ between built devices."""
    include = verilator_bin().parent / "include"
    own = [f"-I{folder}"] if source.stem in DESIGN else []
    target = place / f"serve_{source.stem}.o"
    # A changed copy is compiled for one program.
    cache = OBJECT_CACHE.split() if source.parent == HOME else []
    _run([*cache, "g++", *FLAGS, *own, f"-I{NATIVE}", "-isystem", str(include),
          "-isystem", str(include / "vltstd"), "-MMD", "-c", str(source),
          "-o", str(target)])  # fmt: skip
    return target


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True,
                          env=clean_environment("verilator"))  # fmt: skip
    if done.returncode != 0:
        raise RunFailed(f"the live server does not build\n{done.stderr[-4000:]}")
