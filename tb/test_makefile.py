# SPDX-License-Identifier: Apache-2.0
"""Tests the targets: the list of `make help`, the refusals of `make setup`, the steps of `make
quick`."""

import re
import shutil
import subprocess
from functools import partial

import pytest

import lint
from tb import changed
from tb.simulators import ROOT
from tb.unit.units import UNITS

TARGET = re.compile(r"^([a-z-]+):.*## (.*)$")
MARK = re.compile(r"\[(quick|long)(, [a-z ]+)?\] \S")


def make(folder, *arguments, **environment):
    done = subprocess.run(["make", "--no-print-directory", *arguments], cwd=folder, text=True,
                          capture_output=True, check=False, env=environment or None)  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_help_lists_every_target_once_in_a_group_with_its_mark():
    lines = (ROOT / "Makefile").read_text().splitlines()
    targets = [found.group(1) for line in lines if (found := TARGET.match(line))]
    code, shown = make(ROOT, "help")
    groups, listed = {}, []
    for line in shown.splitlines():
        if re.match(r"[A-Z]", line):
            title = line
            groups[title] = []
        elif found := re.match(r"  ([a-z-]+) +(\[.*)", line):
            groups[title].append(found.group(1))
            listed.append(found.group(1))
            assert MARK.match(found.group(2)), line
    assert code == 0
    assert sorted(listed) == sorted(targets)
    assert len(groups) > 3 and all(groups.values()), groups
    assert {"help", "setup"} <= set(groups["First use"])


@pytest.fixture
def tree(tmp_path):
    """Returns a function that copies the Makefile into a folder of a name."""

    def copy(name):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(ROOT / "Makefile", folder)
        for file in ("requirements.lock", "pyproject.toml"):
            (folder / file).touch()
        return folder

    return copy


@pytest.mark.parametrize("target", ["setup", "quick", "run"])
def test_a_path_with_a_space_is_refused_at_once(tree, target):
    folder = tree("a tree")
    code, shown = make(folder, target, "PYTHON=false")
    assert code == 2
    assert f"setup: the path '{folder}' contains a space, " in shown
    assert "move the tree to a path without spaces" in shown
    assert not (folder / ".venv").exists()


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["g++"], "setup: not installed: g++ (Debian: apt install g++)"),
        (["perl"], "setup: not installed: perl (Debian: apt install perl)"),
        (["g++", "perl"], "setup: not installed: g++ perl (Debian: apt install g++ perl)"),
    ],
)
def test_setup_names_the_programs_that_are_missing_alone(tree, missing, message):
    folder = tree("tree")
    programs = folder / "bin"
    programs.mkdir()
    for name in {"make", "sh", "sed", "g++", "perl"} - set(missing):
        (programs / name).symlink_to(shutil.which(name))
    code, shown = make(folder, "setup", "PYTHON=false", PATH=str(programs))
    lines = [line for line in shown.splitlines() if not line.startswith("make: ")]
    assert (code, lines) == (2, [message])


def test_quick_lints_without_the_slow_step(monkeypatch):
    ran = []

    def step(name):
        ran.append(name)
        return 0, ""

    monkeypatch.setattr(lint, "STEPS", {name: partial(step, name) for name in lint.STEPS})
    monkeypatch.setattr(lint.interrupt, "leave_on_interrupt", lambda _: None)
    monkeypatch.setattr("sys.argv", ["lint.py", "--quick"])
    assert lint.main() == 0
    assert sorted(ran) == sorted(name for name in lint.STEPS if name != "yosys")


@pytest.mark.parametrize(
    ("files", "units"),
    [
        (["rtl/common/efa_fifo.v"], ["fifo"]),
        (["tb/unit/skid_tests.py", "docs/timing.md"], ["skid"]),
        (["rtl/queue/efa_cq.v"], ["cq", "cq_rings"]),
        (["model/efa_cosim/device/send.py", "README.md"], []),
    ],
)
def test_quick_runs_the_benches_of_changed_blocks(files, units):
    assert changed.units_of(files) == units


def test_changed_files_are_those_that_differ_from_the_last_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    assert changed.changed_files() == []
    for name in ("same", "edited", "staged"):
        (tmp_path / name).touch()
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    for name in ("edited", "staged", "new"):
        (tmp_path / name).write_text("other")
    subprocess.run(["git", "add", "staged"], cwd=tmp_path, check=True)
    assert sorted(changed.changed_files()) == ["edited", "new", "staged"]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_quick_runs_at_most_two_benches_and_names_the_others(monkeypatch, capsys, count):
    names = list(UNITS)[:count]
    monkeypatch.setattr(changed, "changed_files", list)
    monkeypatch.setattr(changed, "units_of", lambda _: names)
    assert changed.main() == 0
    shown = capsys.readouterr()
    assert shown.out.split() == [changed.case_of(name) for name in names[:2] or [changed.DEFAULT]]
    assert (f"make unit UNIT='{' or '.join(names[2:])}'" in shown.err) == (count > 2)


def test_a_case_of_quick_is_a_case_of_the_unit_benches():
    from tb.unit.test_units import CASES

    ids = {f"tb/unit/test_units.py::test_unit[verilator-{case.id}]" for case in CASES}
    assert {changed.case_of(name) for name in UNITS} <= ids
