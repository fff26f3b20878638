# SPDX-License-Identifier: Apache-2.0
"""The plan (spec/testplan.yaml) and the tests that the tree holds, read as text: nothing is run.

    plan = read_plan(root)
    tests = find_tests(root)
    named, wrong = resolve(entry, tests)
"""

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
# They run bench tests and have their verdict, so no entry names them.
CARRIERS = ("test_area", "test_unit")
FOLDERS = ("model/tests", "tb")
SYNTAX = "spec/testplan.yaml"


@dataclass(frozen=True)
class Test:
    """One test: `kind` is unit or system (cocotb) or pytest; `id` is None where it has none."""

    __test__ = False  # no test itself, whatever pytest thinks of the name

    name: str
    file: str
    kind: str
    id: str | None

    @property
    def stem(self):
        return Path(self.file).stem

    @property
    def place(self):
        return f"{self.file}: {self.name}"


@dataclass
class Entry:
    """A line of the plan; units have a module and cover every id below their own."""

    id: str
    shows: str
    tests: list[str] = field(default_factory=list)
    bins: list[str] = field(default_factory=list)
    by: str | None = None
    module: str | None = None
    also: list[str] = field(default_factory=list)

    def covers(self, test_id):
        """True when an id is this entry's, one below it, or below one of its other names."""
        names = [self.id, *self.also]
        if self.module:
            names.append(self.id.split(".")[0] + "." + self.module.removeprefix("efa_"))
        return any(test_id == one or test_id.startswith(one + ".") for one in names)


@dataclass
class Plan:
    """Everything the file says; `wires`, `untimed` map a module to a reason, `through` to the
    module whose bench reaches all its ports by wires."""

    features: list[Entry]
    modules: list[Entry]
    wires: dict[str, str]
    through: dict[str, str]
    untimed: dict[str, str]
    refused: list[str]

    @property
    def entries(self):
        return [*self.features, *self.modules]


class PlanError(Exception):
    """The plan is not in the expected form; the text names the entry."""


def read_plan(root):
    """The plan of the tree at `root`; raises PlanError."""
    data = yaml.safe_load((Path(root) / SYNTAX).read_text(encoding="utf-8")) or {}
    try:
        return Plan(
            [Entry(**raw) for raw in data.get("plan") or []],
            [Entry(**raw) for raw in data.get("units") or []],
            data.get("wires") or {},
            data.get("through") or {},
            data.get("untimed") or {},
            data.get("refused") or [],
        )
    except TypeError as error:
        raise PlanError(f"{SYNTAX}: an entry is not in the expected form: {error}") from error


def find_tests(root):
    """Every test of the tree: cocotb and pyuvm tests of *_tests.py, pytest functions."""
    found = []
    for folder in FOLDERS:
        for path in sorted((Path(root) / folder).rglob("*.py")):
            bench = path.stem.endswith("_tests")
            if bench or path.stem.startswith("test_"):
                found += _tests_of(path, path.relative_to(root).as_posix(), bench)
    return found


def _tests_of(path, name, bench):
    kind = ("system" if "/system/" in name else "unit") if bench else "pytest"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef | ast.ClassDef):
            continue
        marks = [ast.unparse(mark).split("(")[0].split(".")[-1] for mark in node.decorator_list]
        mine = {"test", "parametrize"} & set(marks) if bench else node.name.startswith("test_")
        if mine and not (kind == "pytest" and node.name in CARRIERS):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            match = ID.match(first)
            yield Test(node.name, name, kind, match.group() if match else None)


def resolve(entry, tests):
    """Tests that an entry of the plan names, and the names that do not fit exactly one.

    `name`, `file.name` and `file.*` (all of a file) are understood, the file without its ending.
    """
    named, wrong = [], []
    for reference in entry.tests:
        stem, _, name = reference.rpartition(".")
        fits = [t for t in tests if name in ("*", t.name) and stem in ("", t.stem)]
        if len(fits) > 1 and not stem:
            # An id of this entry tells namesakes of different benches apart.
            fits = [t for t in fits if t.id and entry.covers(t.id)] or fits
        if not fits or (name != "*" and len(fits) > 1):
            wrong.append((reference, fits))
        named += fits
    return named, wrong


def tests_of(entry, tests):
    """The tests of an entry: those it names, or for a module those whose id it covers."""
    if entry.module is None:
        return resolve(entry, tests)[0]
    return [t for t in tests if t.kind == "unit" and t.id and entry.covers(t.id)]
