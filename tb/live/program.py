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
    ROOT,
    SimulatorMissing,
    clean_environment,
    simulator_missing,
    verilator_bin,
)
from tb.system_run import CXX, NATIVE, build_system

HOME = ROOT / "tb" / "live"
FLAGS = [*CXX.split(), "-O2"]
QUIET_SECONDS = 1.0  # a build that was done before ends in this time


def program(nodes: int, say: Callable[[str], object], home: Path = HOME) -> Path:
    """Returns the program for so many devices; builds it once, which `say` announces. `home` is the
    folder of its sources; the program of another folder than tb/live is built there.

    Raises BackendUnavailable if it cannot be built here.
    """
    reason = simulator_missing("verilator")
    if reason is not None:
        raise BackendUnavailable(reason)
    builds = threading.Timer(
        QUIET_SECONDS, say, ["builds the RTL with Verilator, once: one to three minutes"])
    builds.start()
    try:
        folder, _ = build_system("verilator", {"DEVICES": nodes} if nodes > 1 else {})
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
        include = verilator_bin().parent / "include"
        command = ["g++", *FLAGS, f"-I{folder}", f"-I{NATIVE}", "-isystem", str(include),
                   "-isystem", str(include / "vltstd"), *map(str, sources),
                   str(folder / "Vtop__ALL.a"), *map(str, sorted(folder.glob("verilated*.o"))),
                   "-o", str(part), "-latomic", "-pthread"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True,
                              env=clean_environment("verilator"))  # fmt: skip
        if done.returncode != 0:
            raise RunFailed(f"the live server does not build\n{done.stderr[-4000:]}")
        os.replace(part, target)
    return target
