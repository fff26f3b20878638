# SPDX-License-Identifier: Apache-2.0
"""Reads the plan (spec/testplan.yaml) and the tests of the tree as text; nothing is run.

    plan = read_plan(root)
    tests = find_tests(root)
    named, wrong = resolve(entry, tests)
"""

import ast
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from efa_cosim.yaml_file import parsed

ID = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
# Tests that run bench tests and report their results, so no entry names them.
CARRIERS = ("test_area", "test_unit")
FOLDERS = ("model/tests", "tb")
SYNTAX = "spec/testplan.yaml"


@dataclass(frozen=True)
class Test:
    """One test: `kind` is unit or system (cocotb) or pytest; `id` is None where the test has none.
    """

    __test__ = False  # pytest must not collect this class

    name: str
    file: str
    kind: str
    id: str | None

    @cached_property
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

    @cached_property
    def _prefixes(self):
        names = [self.id, *self.also]
        if self.module:
            names.append(self.id.split(".")[0] + "." + self.module.removeprefix("efa_"))
        return tuple(f"{name}." for name in names)

    def covers(self, test_id):
        """Returns True if an id is this entry's, below it, or below one of its other names."""
        return f"{test_id}.".startswith(self._prefixes)


@dataclass
class Plan:
    """Contents of the plan; `wires`, `untimed` map a module to a reason, `through` to the module
    whose bench reaches all its ports by wires."""

    features: list[Entry]
    modules: list[Entry]
    wires: dict[str, str]
    through: dict[str, str]
    untimed: dict[str, str]
    refused: list[str]

    @property
    def entries(self):
        return [*self.features, *self.modules]


@cache
def _parsed(text):
    return parsed(text) or {}


def read_yaml(path):
    """Returns the content of a YAML file, {} if it is empty; the same text is parsed once."""
    return _parsed(Path(path).read_text(encoding="utf-8"))


class PlanError(Exception):
    """Reports a plan that is not in the expected form; the text names the entry."""


def read_plan(root):
    """Returns the plan of the tree at `root`; raises PlanError."""
    data = read_yaml(Path(root) / SYNTAX)
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


class Tests(list):
    """Tests of the tree, in the order of their files; `by_name` has the tests of each name."""

    @cached_property
    def by_name(self):
        found = defaultdict(list)
        for test in self:
            found[test.name].append(test)
        return found


def find_tests(root):
    """Returns every test of the tree: cocotb and pyuvm tests of *_tests.py, pytest functions."""
    found = Tests()
    for folder in FOLDERS:
        for path in sorted((Path(root) / folder).rglob("*.py")):
            bench = path.stem.endswith("_tests")
            if bench or path.stem.startswith("test_"):
                text = path.read_text(encoding="utf-8")
                found += _tests_of(text, path.relative_to(root).as_posix(), bench)
    return found


@cache
def _tests_of(text, name, bench):
    """Returns the tests of a file as a tuple."""
    kind, found = ("system" if "/system/" in name else "unit") if bench else "pytest", []
    for node in ast.parse(text).body:
        if not isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef | ast.ClassDef):
            continue
        marks = [ast.unparse(mark).split("(")[0].split(".")[-1] for mark in node.decorator_list]
        mine = {"test", "parametrize"} & set(marks) if bench else node.name.startswith("test_")
        if mine and not (kind == "pytest" and node.name in CARRIERS):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            match = ID.match(first)
            found.append(Test(node.name, name, kind, match.group() if match else None))
    return tuple(found)


def resolve(entry, tests):
    """Returns the tests that an entry names, and the names that do not match exactly one test.

    Valid names are `name`, `file.name` and `file.*` (all tests of a file); the file has no suffix.
    """
    named, wrong = [], []
    for reference in entry.tests:
        stem, _, name = reference.rpartition(".")
        fits = tests if name == "*" else tests.by_name.get(name, [])
        fits = [t for t in fits if stem in ("", t.stem)]
        if len(fits) > 1 and not stem:
            # An id of this entry distinguishes tests of equal name in different benches.
            fits = [t for t in fits if t.id and entry.covers(t.id)] or fits
        if not fits or (name != "*" and len(fits) > 1):
            wrong.append((reference, fits))
        named += fits
    return named, wrong


def tests_of(entry, tests):
    """Returns the tests of an entry: the named tests, or for a module the tests whose id it covers.
    """
    if entry.module is None:
        return resolve(entry, tests)[0]
    return [t for t in tests if t.kind == "unit" and t.id and entry.covers(t.id)]
