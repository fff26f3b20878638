# SPDX-License-Identifier: Apache-2.0
"""Tests the host memory of the native bench (tb/native/memory.cpp) in a separate build."""

import subprocess

from tb.simulators import ROOT

# A parent writes a word and forks; both begin a test: no process sees the other's writes.
FORKED = r"""
#include "memory.h"

#include <sys/wait.h>
#include <unistd.h>

int main() {
    efa::Memory memory;
    efa::u64 word = 1;
    memory.write(0x1000, &word, sizeof word);
    pid_t child = fork();
    memory.clear();
    int wrong = memory.word(0x1000) != 0;
    if (child == 0) {
        word = 2;
        memory.write(0x1000, &word, sizeof word);
        return wrong;
    }
    word = 3;
    memory.write(0x1000, &word, sizeof word);
    int status;
    waitpid(child, &status, 0);
    return wrong || status != 0 || memory.word(0x1000) != 3;
}
"""


def test_a_fork_has_memory_of_its_own(tmp_path):
    (tmp_path / "main.cpp").write_text(FORKED)
    native = ROOT / "tb/native"
    subprocess.run(
        ["g++", "-std=c++17", f"-I{native}", "-o", tmp_path / "forked", tmp_path / "main.cpp",
         native / "memory.cpp"], check=True,
    )  # fmt: skip
    assert subprocess.run([tmp_path / "forked"], check=False).returncode == 0
