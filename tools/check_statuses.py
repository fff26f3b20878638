# SPDX-License-Identifier: Apache-2.0
"""Compares the statuses of admin commands (spec/statuses.yaml) with the tests that show them, by
name."""

import ast
from functools import cache

from testplan import read_yaml

STATUSES = "spec/statuses.yaml"
FOLDER = "model/tests"
EVERY = "every"


def statuses(root, refused, tests):
    """Checks that every command has its rows, every row its tests, and every error test its row."""
    path = root / STATUSES
    rows = read_yaml(path).get("command_statuses") or {}
    commands = read_yaml(root / "spec/admin.yaml").get("commands") or []
    names = {command["name"] for command in commands}
    wrong = [f"{STATUSES}: add the statuses of {name}" for name in sorted(
        names - rows.keys() - set(refused))]
    known = {test.name for test in tests if test.file.startswith(FOLDER)}
    named = set()
    for command, by_status in rows.items():
        if "SUCCESS" not in by_status:
            wrong.append(f"{STATUSES}: {command}: no row SUCCESS: add it")
        for status, row in by_status.items():
            shown = row.get("tests") or []
            named |= set(shown)
            place = f"{STATUSES}: {command} {status}"
            wrong += [f"{place}: {test} is no test of {FOLDER}" for test in shown
                      if test not in known]
            if not shown and (command, status) != (EVERY, "SUCCESS"):
                wrong.append(f"{place} has no test: write one that shows it")
    for file, test in _refusing(root):
        if test not in named:
            wrong.append(f"{file}: {test} shows a refusal: name it in {STATUSES}")
    return wrong


def _refusing(root):
    """Returns (file, test) of every test function that expects an error status."""
    for path in sorted((root / FOLDER).glob("test_*.py")):
        for name in _names(path.read_text(encoding="utf-8")):
            yield path.relative_to(root).as_posix(), name


@cache
def _names(text):
    """Returns the test functions of a file that call `refusal`."""
    return [
        node.name for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        and any(isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)
                and one.func.attr == "refusal" for one in ast.walk(node))
    ]  # fmt: skip
