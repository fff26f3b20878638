# SPDX-License-Identifier: Apache-2.0
"""Tests that the step "types" of make lint notices wrong types, and what it leaves out."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from efa_cosim.layouts import defs

ROOT = Path(__file__).resolve().parents[2]
MYPY = Path(sys.executable).parent / "mypy"
SETTINGS = (ROOT / "pyproject.toml").read_text()
CHECKED = tomllib.loads(SETTINGS)["tool"]["mypy"]["packages"]
PRODUCT = [name for name in CHECKED if name.startswith("efa_cosim.")]

# (path, planted lines, text of the error)
WRONG = [
    ("device/ring.py", "WRONG: int = distance(1, 'two')", '"distance" has incompatible type "str"'),
    ("device/ring.py", "def bare(value): return value", "missing a type annotation"),
    ("device/features.py", "def planted(device: Device) -> int: return device.limits.no_limit",
     '"Limits" has no attribute "no_limit"'),
    ("device/features.py", "WRONG = defs.AdminAllocPdResp(pb=1)",
     'Unexpected keyword argument "pb" for "AdminAllocPdResp"'),
    ("device/features.py", "WRONG = defs.REG_BITS.AQ_CAPS.unpack(0).NO_FIELD",
     'has no attribute "NO_FIELD"'),
    ("device/objects.py", "def planted(objects: Objects) -> int: return objects.eqs.get(0).vector",
     'Item "None" of "Eq | None" has no attribute "vector"'),
    ("boundary/memory.py", "WRONG: bytes = Memory().read(0, 8) + 1  # type: ignore",
     '"type: ignore" comment without error code'),
    ("layouts/wire.py", "WRONG: int = 1  # type: ignore[assignment]", "Unused"),
]  # fmt: skip


def test_each_planted_error_is_reported(tmp_path):
    only = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "model/efa_cosim", tmp_path / "model/efa_cosim", ignore=only)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    # What `make lint` has found about other files: mypy compares their contents.
    cache = Path(tomllib.loads(SETTINGS)["tool"]["mypy"]["cache_dir"])
    if (ROOT / cache).is_dir():
        shutil.copytree(ROOT / cache, tmp_path / cache)
    expected = []
    for path, line, text in WRONG:
        file = tmp_path / "model/efa_cosim" / path
        before = file.read_text()
        file.write_text(f"{before}\n\n{line}\n")
        expected.append((f"{path}:{before.count(chr(10)) + 3}: error", text))
    packages = [part for name in PRODUCT for part in ("-p", name)]
    done = subprocess.run([MYPY, *packages], cwd=tmp_path, check=False, text=True,
                          capture_output=True)
    assert done.returncode == 1
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    for place, text in expected:
        assert any(place in error and text in error for error in errors), (place, done.stdout)
    # Every error is a planted one.
    planted = [place for place, _ in expected]
    assert all(any(place in error for place in planted) for error in errors), done.stdout


def test_each_package_is_checked_or_listed_as_not_checked():
    listed = re.search(r"# Not checked yet: (.*?)\.\n\[tool\.mypy\]", SETTINGS, re.DOTALL).group(1)
    left_out = re.sub(r"\s*\n# ", " ", listed).split(", ")
    found = {f"efa_cosim.{path.stem}" for path in (ROOT / "model/efa_cosim").iterdir()
             if path.stem not in ("__init__", "__pycache__", "source")}  # fmt: skip
    benches = {f"tb.{path.name}" for path in (ROOT / "tb").iterdir()
               if path.is_dir() and list(path.glob("*.py"))}  # fmt: skip
    modules = {f"tb.{path.stem}" for path in (ROOT / "tb").glob("*.py")
               if not path.stem.startswith(("test_", "conftest", "__init__"))}  # fmt: skip
    assert sorted([*CHECKED, *left_out]) == sorted(found | benches | modules)


@pytest.mark.parametrize("package", CHECKED)
def test_each_ignored_error_has_a_reason(package):
    path = ROOT / ("" if package.startswith("tb.") else "model") / package.replace(".", "/")
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
        above = ""
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if "# type: ignore" in line:
                reason = re.search(r"# type: ignore\[[\w-]+\]  # \w", line)
                assert reason or above.startswith("# "), f"{file}:{number}: add the reason above"
            above = line.strip()


def _names(body):
    """Returns the names that the statements of a module or class define, in order."""
    found = []
    for node in body:
        if isinstance(node, ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign):
            found += [target.id for target in node.targets]
        elif isinstance(node, ast.AnnAssign):
            found.append(node.target.id)
    return found


def test_the_stub_has_the_names_of_the_layouts():
    folder = ROOT / "model/efa_cosim/layouts"
    stub = ast.parse((folder / "defs.pyi").read_text()).body
    classes = {node.name: node.body for node in stub if isinstance(node, ast.ClassDef)}
    public = [name for name in _names(stub) if not name.startswith("_")]
    in_types_only = {"Limits", "Profile", "Transport"}
    defined = _names(ast.parse((folder / "defs.py").read_text()).body)
    assert set(public) - in_types_only == set(defined)
    for struct in defs.STRUCTS.values():
        fields = list(struct.FIELDS)
        assert _names(classes[struct.__name__]) == fields
        init = next(one for one in classes[struct.__name__] if isinstance(one, ast.FunctionDef))
        assert [one.arg for one in init.args.kwonlyargs] == fields
    for name, table in (("Limits", defs.LIMITS), ("Profile", defs.PROFILES.default),
                        ("_Profiles", defs.PROFILES), ("_RegBits", defs.REG_BITS),
                        ("_Events", defs.EVENTS), ("_Internal", defs.INTERNAL),
                        ("_DoorbellBits", defs.DOORBELL_BITS),
                        ("Transport", defs.TRANSPORT)):  # fmt: skip
        assert _names(classes[name]) == list(table)
