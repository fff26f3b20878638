# SPDX-License-Identifier: Apache-2.0
"""Tests that the contract of the packages notices an import in the wrong direction, that layouts
import no numpy at their start, and that no module of tools/ has the name of an installed one."""

import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
LINTER = Path(sys.executable).parent / "lint-imports"


@pytest.fixture
def copy(tmp_path):
    """Returns a function that plants a line into a copied file and runs the linter there."""
    only = shutil.ignore_patterns("__pycache__", "*.v", "*.cpp", "*.h", "*.json", "*.gz")
    shutil.copytree(ROOT / "model/efa_cosim", tmp_path / "efa_cosim", ignore=only)
    shutil.copytree(ROOT / "tb", tmp_path / "tb", ignore=only)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def check(path, line):
        file = tmp_path / path
        file.write_text(f"{file.read_text()}\n{line}\n")
        done = subprocess.run([LINTER, "--no-cache"], cwd=tmp_path, check=False, text=True,
                              capture_output=True, env={"PYTHONPATH": str(tmp_path)})
        return done.returncode, done.stdout

    return check


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("efa_cosim/device/ring.py", "from efa_cosim.host import driver"),
        ("efa_cosim/device/ring.py", "from efa_cosim.backends import open_backend"),
        ("efa_cosim/host/driver.py", "def f():\n    from efa_cosim.device import device"),
        ("efa_cosim/sweep/cache.py", "from efa_cosim.cli import options"),
        ("efa_cosim/cli/run.py", "from tb.simulators import simulator_missing"),
        ("tb/runner/__init__.py", "def f():\n    from tb import system_run"),
    ],
)
def test_an_import_in_the_wrong_direction_is_an_error(copy, path, line):
    status, text = copy(path, line)
    assert status == 1
    assert "BROKEN" in text
    assert path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") in text


def test_layouts_import_numpy_with_the_first_type_of_arrays():
    program = (
        "import sys; from efa_cosim.layouts import codec, defs; before = 'numpy' in sys.modules; "
        "size = defs.IoRxDesc.DTYPE.itemsize; print(before, size == defs.IoRxDesc.SIZE)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, text=True,
                          capture_output=True, env={"PYTHONPATH": "model"})  # fmt: skip
    assert done.stdout.split() == ["False", "True"]


def test_no_tool_shadows_an_installed_module():
    # tools/ is on the path of tests and targets. numba imports coverage if it is installed.
    taken = {*packages_distributions(), *sys.stdlib_module_names, "coverage"}
    assert sorted({path.stem for path in (ROOT / "tools").glob("*.py")} & taken) == []


def test_the_copy_itself_passes(copy):
    assert copy("efa_cosim/tree.py", "")[0] == 0
