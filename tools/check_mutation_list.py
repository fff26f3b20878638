# SPDX-License-Identifier: Apache-2.0
"""Reads the list of protection checks, tb/check_mutations.yaml: purpose, location and test of each.

    entries = read_checks()
    wrong = problems(entries)

An entry removes one check from the RTL: `old`, found once in `file`, becomes `new`, and the test
`unit.UNIT.TEST` or `system.AREA.TEST` must then fail, with those `params` of the unit's variants
(default: the first). If a second check rejects the same input, `beside` removes that check too, and
`because` names it.
"""

import functools
import hashlib
import importlib.util
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tb.runner import RunFailed, closure, planned_tests
from tb.unit.units import UNITS

ROOT = Path(__file__).resolve().parent.parent
LIST = "tb/check_mutations.yaml"


@dataclass(frozen=True)
class Change:
    """One text of an RTL file and its replacement."""

    file: str
    old: str
    new: str

    @property
    def line(self):
        """Returns the line where the text begins in its file, 0 if the text is missing."""
        before, found, _ = (ROOT / self.file).read_text().partition(self.old)
        return before.count("\n") + 1 if found else 0

    @property
    def place(self):
        """Returns file and line."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Check:
    """An entry of the list."""

    id: str
    protects: str
    file: str
    old: str
    new: str
    test: str
    params: dict = field(default_factory=dict)
    beside: list = field(default_factory=list)
    because: str = ""

    @property
    def kind(self):
        """Returns unit or system."""
        return self.test.split(".")[0]

    @property
    def bench(self):
        """Returns the unit, or the area of the system tests."""
        return self.test.split(".")[1]

    @property
    def name(self):
        """Returns the name of the test without its bench."""
        return self.test.split(".")[2]

    @property
    def module(self):
        """Returns the Python module of the test."""
        return UNITS[self.bench].module(self.bench) if self.kind == "unit" else (
            f"tb.system.{self.bench}_tests")  # fmt: skip

    @property
    def top(self):
        """Returns the RTL module under test."""
        return UNITS[self.bench].top if self.kind == "unit" else "efa_tb"

    @property
    def own(self):
        """Returns the change that removes the check."""
        return Change(self.file, self.old, self.new)

    @property
    def changes(self):
        """Returns all changes of the entry."""
        return [self.own, *(Change(**each) for each in self.beside)]


class ListFault(Exception):
    """Reports a list that is not in the expected form; the text names the entry."""


def read_checks(path=None):
    """Returns the entries of the list; raises ListFault."""
    message = yaml.safe_load((path or ROOT / LIST).read_text()) or []
    try:
        return [Check(**each) for each in message]
    except TypeError as error:
        raise ListFault(f"{LIST}: an entry is not in the expected form: {error}") from error


@functools.cache
def _parts(top):
    """Returns the source files of a module and its submodules."""
    return set(closure(top))


@functools.cache
def _tests(module):
    """Returns the names of the tests of a Python module, None if the module does not exist."""
    return None if importlib.util.find_spec(module) is None else set(planned_tests(module))


@functools.cache
def _digest(top, module):
    """Returns the digest of a module with its submodules, and of the tests of a Python module."""
    files = [*sorted(_parts(top)), Path(importlib.util.find_spec(module).origin)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def state(check):
    """Returns the digest to which a verdict belongs: the entry, the RTL and the test."""
    message = f"{check} {_digest(check.top, check.module)}"
    return hashlib.sha256(message.encode()).hexdigest()[:16]


def _of_change(check, change):
    """Returns the errors of one change."""
    if not (ROOT / change.file).exists():
        yield f"{change.file} is not there"
        return
    count = (ROOT / change.file).read_text().count(change.old)
    if count != 1:
        message = f"{change.file} has {count} times {change.old!r}"
        yield f"{message}: it must be there once, follow the RTL"
    if change.old == change.new:
        yield f"{change.file}: nothing is taken out of {change.old!r}"
    if ROOT / change.file not in _parts(check.top):
        yield f"{change.file} is no part of {check.top}"


def _of_test(check):
    """Returns the errors in the name of the test."""
    parts = check.test.split(".")
    if len(parts) != 3 or parts[0] not in ("unit", "system"):
        yield f"{check.test!r}: write unit.UNIT.TEST or system.AREA.TEST"
    elif check.kind == "unit" and check.bench not in UNITS:
        yield f"no unit {check.bench} in tb/unit/units.py"
    elif check.params and (check.kind != "unit" or check.params not in UNITS[check.bench].variants):
        yield f"{check.bench} has no variant {check.params}"
    elif _tests(check.module) is None:
        yield f"{check.module} is not there"
    elif check.name not in _tests(check.module):
        yield f"{check.module} has no test {check.name}"


def problems(checks):
    """Returns all errors of the list, as lines."""
    wrong, ids = [], [check.id for check in checks]
    for name in sorted({one for one in ids if ids.count(one) > 1}):
        wrong.append(f"{LIST}: {name} stands there twice: give one another id")
    for check in checks:
        found = list(_of_test(check))
        try:
            found = found or [
                message for each in check.changes for message in _of_change(check, each)
            ]
        except (TypeError, RunFailed) as error:
            found = [str(error)]
        if not check.protects.strip():
            found.append("does not state what it protects")
        if bool(check.beside) != bool(check.because):
            found.append("beside and because belong together")
        wrong += [f"{LIST}: {check.id}: {message}" for message in found]
    return wrong
