# SPDX-License-Identifier: Apache-2.0
"""Compiles one C++ file of a Verilator build at the price of what differs between builds.

    python object_cache.py FOLDER COMPILER ARGUMENT...

This program stands in front of the compiler. Every Verilator build compiles Verilator's run-time
library, which costs eleven seconds of processor time, and the C++ of a small design spends half a
second on the library's headers. The folder keeps

- object files, with the names and contents of the files that they were compiled from; files of the
  build folder belong to one design, so their object files are not kept;
- the precompiled headers of the library, for the files of the design.

A build starts this program for each file, so it imports little.
"""

import fcntl
import os
import sys
from hashlib import sha256

HEADERS = ("verilated.h", "verilated_dpi.h", "verilated_vpi.h", "verilated_sym_props.h")


def compile_once(folder: str, command: list[str]) -> int:
    """Returns the compiler's exit code, 0 if the object file came from the folder.

    Commands with an object file (-o) list their sources (-MMD) and end with the C++ file.
    """
    if "-o" not in command or "-c" not in command:
        return _run(command)
    os.makedirs(folder, exist_ok=True)
    place = command.index("-o")
    target = command[place + 1]
    rest = command[:place] + command[place + 2 :]
    kept = os.path.join(folder, _key(rest))
    if os.path.exists(f"{kept}.own"):
        return _run([rest[0], "-o", target, *_headers(folder, rest[:-1]), *rest[1:]])
    # Two builds that start together would compile the same file twice.
    with open(f"{kept}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_current(kept):
            _copy(f"{kept}.o", target)
            return 0
        code = _run(command)
        if code == 0:
            _keep(kept, target)
    return code


def _run(command: list[str]) -> int:
    return os.spawnvp(os.P_WAIT, command[0], command)


def _key(command: list[str]) -> str:
    program = os.path.realpath(_found(command[0]))
    made = os.stat(program)
    text = "\0".join([*command, program, str(made.st_size), str(made.st_mtime_ns)])
    return sha256(text.encode()).hexdigest()[:24]


def _found(program: str) -> str:
    """Returns the path of a program. shutil.which does the same and costs half of the start."""
    folders = [] if os.sep in program else os.get_exec_path()
    paths = [os.path.join(folder, program) for folder in folders]
    return next((path for path in paths if os.access(path, os.X_OK)), program)


def _copy(source: str, target: str) -> None:
    with open(source, "rb") as read, open(target, "wb") as write:
        write.write(read.read())


def _is_current(kept: str) -> bool:
    """True if a file is kept and its sources are unchanged."""
    try:
        with open(f"{kept}.sources") as file:
            lines = file.read().splitlines()
        return all(_digest(path) == digest for digest, _, path in (
            line.partition(" ") for line in lines))  # fmt: skip
    except OSError:
        return False


def _keep(kept: str, target: str) -> None:
    """Keeps an object file if all sources lie outside the build folder, thus have full paths.

    Otherwise notes that files of this name belong to one design.
    """
    sources = _sources(os.path.splitext(target)[0] + ".d")
    if all(map(os.path.isabs, sources)):
        _copy(target, f"{kept}.o")
        # Last: an interrupted copy has no sources.
        _note(kept, sources)
    else:
        open(f"{kept}.own", "w").close()


def _sources(listed: str) -> list[str]:
    with open(listed) as file:
        return file.read().partition(":")[2].replace("\\\n", " ").split()


def _note(kept: str, sources: list[str]) -> None:
    with open(f"{kept}.sources", "w") as file:
        file.writelines(f"{_digest(path)} {path}\n" for path in sources)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return sha256(file.read()).hexdigest()


def _headers(folder: str, flags: list[str]) -> list[str]:
    """Returns the flags that add the precompiled headers, compiled now if missing or outdated."""
    if "-include" in flags:
        # A compilation reads one precompiled header.
        return []
    flags = [word for word in flags if word != "-c"]
    # The makefile orders the flags of the design and of the main program differently.
    kept = os.path.join(folder, _key([flags[0], *sorted(flags[1:])]))
    header = f"{kept}.h"
    with open(f"{kept}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_current(kept):
            with open(header, "w") as file:
                file.writelines(f'#include "{name}"\n' for name in HEADERS)
            output = ["-o", f"{header}.gch", "-MF", f"{kept}.d"]
            if _run([*flags, *output, "-x", "c++-header", header]) != 0:
                return []
            _note(kept, _sources(f"{kept}.d"))
    return ["-include", header, "-Winvalid-pch"]


if __name__ == "__main__":
    sys.exit(compile_once(sys.argv[1], sys.argv[2:]))
