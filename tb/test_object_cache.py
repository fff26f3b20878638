# SPDX-License-Identifier: Apache-2.0
"""Tests that an object file is reused only for the same command on the same sources."""

import os
import subprocess
import sys

import pytest

from tb.simulators import ROOT

COMPILER = """#!{python}
import pathlib, sys
pathlib.Path("{log}").open("a").write(" ".join(sys.argv[1:]) + "\\n")
if "fail" in sys.argv:
    sys.exit(3)
target = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
listed = target.with_suffix(".d")
if "-MF" in sys.argv:
    listed = pathlib.Path(sys.argv[sys.argv.index("-MF") + 1])
source = sys.argv[-1] if target.suffix == ".o" else "{folder}/library.h"
target.write_text(pathlib.Path(source).read_text())
listed.write_text(f"{{target}}: {{source}} \\\\\\n {folder}/library.h\\n")
"""


@pytest.fixture
def compiled(tmp_path):
    """Returns a function that compiles a file, and returns the lines of the compilers started."""
    log, compiler = tmp_path / "log", tmp_path / "c++"
    compiler.write_text(COMPILER.format(python=sys.executable, log=log, folder=tmp_path))
    compiler.chmod(0o755)
    (tmp_path / "library.h").write_text("first")
    (tmp_path / "build").mkdir()
    (tmp_path / "build/design.cpp").write_text("design")

    def run(source, *flags, code=0):
        log.write_text("")
        command = [sys.executable, "-IS", ROOT / "tb/object_cache.py", tmp_path / "kept", compiler,
                   *flags, "-c", "-o", "x.o", source]  # fmt: skip
        (tmp_path / "build/x.o").unlink(missing_ok=True)
        done = subprocess.run([*map(str, command)], cwd=tmp_path / "build")
        assert done.returncode == code
        return log.read_text().splitlines()

    return run


def test_a_library_file_is_compiled_once_for_each_command_and_content(compiled, tmp_path):
    source = tmp_path / "library.cpp"
    source.write_text("library")
    assert len(compiled(source)) == 1
    assert compiled(source) == []
    assert (tmp_path / "build/x.o").read_text() == "library"
    assert len(compiled(source, "-O2")) == 1
    (tmp_path / "library.h").write_text("second")
    assert len(compiled(source)) == 1
    source.write_text("other")
    assert len(compiled(source)) == 1
    assert compiled(source) == []
    assert (tmp_path / "build/x.o").read_text() == "other"


def test_another_compiler_compiles_again(compiled, tmp_path):
    source = tmp_path / "library.cpp"
    source.write_text("library")
    compiled(source)
    os.utime(tmp_path / "c++", (1, 1))
    assert len(compiled(source)) == 1


def test_a_file_of_the_design_is_compiled_each_time_with_the_headers_of_the_library(compiled):
    assert len(compiled("design.cpp")) == 1
    header, with_it = compiled("design.cpp")
    assert "-x c++-header" in header and "-include" in with_it
    assert len(compiled("design.cpp")) == 1


def test_changed_headers_of_the_library_are_precompiled_again(compiled, tmp_path):
    for _ in range(2):
        compiled("design.cpp")
    (tmp_path / "library.h").write_text("second")
    assert ["c++-header" in line for line in compiled("design.cpp")] == [True, False]


def test_a_failed_compilation_is_not_kept(compiled, tmp_path):
    source = tmp_path / "library.cpp"
    source.write_text("library")
    for _ in range(2):
        assert len(compiled(source, "fail", code=3)) == 1
