# SPDX-License-Identifier: Apache-2.0
"""Tests that the tests named in spec/statuses.yaml show exactly the statuses that it lists."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from efa_cosim.layouts import defs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "model/tests"
SUCCESS = defs.AdminAqCompletionStatus.SUCCESS


def claimed():
    """Returns (test, opcode, status) of every row, without the statuses common to all commands."""
    text = (ROOT / "spec/statuses.yaml").read_text()
    for command, rows in yaml.safe_load(text)["command_statuses"].items():
        for status, row in rows.items() if command != "every" else ():
            for test in row["tests"]:
                number = defs.AdminAqCompletionStatus[status]
                yield test, int(defs.AdminAqOpcode[command]), int(number)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Returns (test, opcode, status) as shown by the named tests."""
    file = tmp_path_factory.mktemp("statuses") / "seen"
    names = sorted({test for test, _, _ in claimed()})
    files = [
        str(path) for path in sorted(FOLDER.glob("test_*.py"))
        if any(f"def {name}(" in path.read_text() for name in names)
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", " or ".join(names),
         *files],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "EFA_STATUSES": str(file)},
    )  # fmt: skip
    assert not done.returncode, done.stdout
    return {
        (test, int(opcode), int(status))
        for test, opcode, status in map(str.split, file.read_text().splitlines())
    }


def test_every_claim_is_shown(seen):
    assert [row for row in claimed() if row not in seen] == []


def test_every_refusal_is_claimed(seen):
    rows, known = set(claimed()), set(defs.COMMAND_STATUSES)
    shown = {row for row in seen if row[2] != SUCCESS and row[1] in known}
    assert sorted(shown - rows) == []
