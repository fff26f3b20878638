# SPDX-License-Identifier: Apache-2.0
"""Builds a design once per configuration, runs cocotb modules on it, and checks the result.

A run passes only if its results file exists and holds every test that the module declares, and if
no test failed or was skipped. A simulator that ends early, a filter without a match and a library
that fails to load are failures here, although each of them exits with 0 elsewhere.

    python -m tb.runner unit fifo --sim icarus --seed 7 [--test name]
    python -m tb.runner system send --sim verilator --seed 7
    python -m tb.runner system examples/own_test.py
"""

import ast
import fcntl
import hashlib
import importlib.util
import os
import re
import secrets
import shutil
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

from efa_cosim.jobs.files import newest_first
from tb import code_coverage
from tb.lib.failure import five_lines, named
from tb.results import note
from tb.scenarios.length import SHORT
from tb.simulators import OPTIMISED, ROOT, make_runner

OUT = ROOT / "sim" / "out"
INCLUDES = (ROOT / "rtl" / "gen", ROOT / "rtl" / "include")
CACHED_BUILDS = 6


class RunFailed(Exception):
    """A build or run that did not pass; the text names the run and the command that repeats it.

    `wrong` has a line for each failed test of a run, none for a build.
    """

    def __init__(self, text: str, wrong: tuple[str, ...] = ()):
        super().__init__(text)
        self.wrong = wrong


class NoSuchRun(RunFailed):
    """The requested unit, area, parameter or test does not exist; nothing was built."""


@dataclass
class Outcome:
    """The results of one run."""

    name: str
    sim: str
    seed: int
    tests: list[str]
    seconds: float
    folder: Path
    log: Path
    sim_seconds: dict[str, float] = field(default_factory=dict)


def new_seed() -> int:
    return secrets.randbelow(2**31 - 1) + 1


def closure(top: str, extra: tuple[str, ...] = ()) -> list[Path]:
    """Returns the source files of a module; file names equal module names."""
    by_name = {path.stem: path for path in sorted((ROOT / "rtl").rglob("*.v"))}
    by_name |= {path.stem: path for path in sorted((ROOT / "tb" / "hdl").glob("*.v"))}
    by_name |= {Path(path).stem: ROOT / path for path in extra}
    if top not in by_name:
        raise RunFailed(f"no source file for module {top}")
    found: dict[str, Path] = {}
    waiting = [top, *(Path(path).stem for path in extra)]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = by_name[name]
        text = re.sub(r"//.*|`include .*", "", by_name[name].read_text())
        text = text.replace("`EFA_STREAM", "efa_stream_check")
        waiting += [word for word in set(re.findall(r"\befa_\w+", text)) if word in by_name]
    return [found[name] for name in sorted(found)]


def planned_tests(module: str, test: str | None = None) -> list[str]:
    """Returns the names of the tests that a cocotb module declares, read from its text.

    `test` is a regular expression that selects tests. Raises NoSuchRun if no test is left.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise NoSuchRun(f"no test module {module}; expected {_modules_beside(module)}")
    names = []
    for node in ast.parse(Path(spec.origin).read_text()).body:
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef | ast.ClassDef):
            marks = [ast.unparse(mark).split("(")[0] for mark in node.decorator_list]
            if any(mark.split(".")[-1] in ("test", "parametrize") for mark in marks):
                names.append(node.name)
    if not names:
        raise NoSuchRun(f"{module} declares no test")
    declared = names
    try:
        names = [name for name in declared if test is None or re.search(test, name)]
    except re.error as error:
        raise NoSuchRun(f"--test {test} is no regular expression: {error}") from None
    if not names:
        raise NoSuchRun(
            f"{module} has no test that matches {test}; expected one of {', '.join(declared)}"
        )
    return names


def _modules_beside(module: str) -> str:
    """Returns the names that the command line accepts in place of a module that does not exist."""
    package = module.rpartition(".")[0]
    folder = ROOT / package.replace(".", "/")
    names = sorted(path.stem.removesuffix("_tests") for path in folder.glob("*_tests.py"))
    return f"one of {', '.join(names)}"


def _digest(sim: str, sources: list[Path], options: list[str]) -> str:
    state = hashlib.sha256()
    files = list(sources)
    for folder in INCLUDES:
        files += sorted(folder.glob("*.vh"))
    files += [ROOT / "tb" / "simulators.py"]
    for path in files:
        state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    state.update("\0".join([sim, sys.version, *options]).encode())
    return state.hexdigest()[:16]


def _prune(folder: Path, prefix: str, keep: Path) -> None:
    builds = newest_first(
        path for path in folder.glob(prefix + "-*") if path.is_dir() and path != keep)
    for path, changed in [*builds.items()][CACHED_BUILDS - 1 :]:
        if time.time() - changed > 3600:
            shutil.rmtree(path, ignore_errors=True)


def build(
    sim: str,
    top: str,
    sources: list[Path],
    parameters: dict,
    build_args: list[str],
    waves: bool = False,
    native: tuple[Path, ...] = (),
    main: Path | None = None,
    optimise: str = OPTIMISED,
) -> Path:
    """Returns the folder of the built simulation; an unchanged configuration is not rebuilt.

    `optimise` is the compiler's level for the code of a Verilator build.
    """
    options = [top, repr(sorted(parameters.items())), *build_args, f"waves={waves}", optimise]
    folder = OUT / "build"
    prefix = f"{sim}-{top}"
    target = folder / f"{prefix}-{_digest(sim, [*sources, *native], options)}"
    target.mkdir(parents=True, exist_ok=True)
    stamp = target / "built"
    log = target / "build.log"
    what = f"{top} for {sim}{', with waves' if waves else ''}; log: {log.relative_to(ROOT)}"
    with open(target / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not stamp.exists():
                print(f"waiting for another process that builds {what}", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists():
            os.utime(target)
            return target
        # An interrupted build may leave a partial object file that looks complete.
        for path in target.iterdir():
            if path.name != "lock":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        runner = make_runner(sim)
        runner.optimise = optimise
        if main is not None and sim == "verilator":
            # Of Verilator, whose runner has the attribute.
            runner.native_main = main  # type: ignore[union-attr]
        print(f"building {what}", flush=True)
        try:
            runner.build(
                sources=sources,
                includes=list(INCLUDES),
                parameters=parameters,
                build_args=build_args,
                hdl_toplevel=top,
                build_dir=target,
                timescale=("1ns", "1ps"),
                waves=waves,
                always=True,
                log_file=log,
            )
        except (RuntimeError, SystemExit) as error:
            text = log.read_text() if log.exists() else str(error)
            raise RunFailed(
                f"{sim}: {top} does not build\n{text[-6000:]}\nlog: {log.relative_to(ROOT)}"
            ) from error
        stamp.touch()
        _prune(folder, prefix, target)
    return target


def _is_case_of(test: str, run: str) -> bool:
    """True for a case of a parametrized test; its name starts with the test's name."""
    return re.fullmatch(rf"{re.escape(test)}(\W.*)?", run) is not None


def judge(results: Path, planned: list[str]) -> tuple[list[str], list[str]]:
    """Returns the tests that ran, and the reasons for which the run does not pass."""
    if not results.exists():
        return [], ["no results file: the simulation ended before its tests did"]
    ran, wrong = [], []
    for case in ElementTree.parse(results).iter("testcase"):
        name = case.get("name", "?")
        ran.append(name)
        for kind in ("failure", "error", "skipped"):
            for mark in case.iter(kind):
                wrong.append(f"{name}: {kind} {mark.get('message') or ''}".rstrip())
    for name in planned:
        if not any(_is_case_of(name, run) for run in ran):
            wrong.append(f"{name}: planned, did not run")
    return ran, wrong


def _statuses(planned: list[str], ran: list[str], wrong: list[str]) -> dict[str, str]:
    """Returns the result of each planned test; a run that did not end fails all of them."""
    bad = [line.partition(":")[0] for line in wrong]
    if not ran or "simulator" in bad:
        return dict.fromkeys(planned, "failed")
    return {
        name: "failed" if any(_is_case_of(name, one) for one in bad) else "passed"
        for name in planned
    }


def run(
    kind: str,
    name: str,
    sim: str,
    top: str,
    build_dir: Path,
    module: str,
    seed: int,
    parameters: dict | None = None,
    test: str | None = None,
    env: dict[str, str] | None = None,
    test_args: list[str] | None = None,
    plusargs: list[str] | None = None,
    waves: bool = False,
    options: str = "",
) -> Outcome:
    """Runs one cocotb module on a built design; raises RunFailed unless all tests passed.

    `kind`, `name` and `options` are those of the command line, which a failure quotes.
    """
    parameters = parameters or {}
    planned = planned_tests(module, test)
    title = "-".join([Path(name).stem, *(f"{key}{value}" for key, value in parameters.items())])
    folder = OUT / "run" / f"{title}-{sim}-{seed}-{os.getpid()}-{time.monotonic_ns() % 10**9}"
    folder.mkdir(parents=True, exist_ok=True)
    results, log = folder / "results.xml", folder / "run.log"
    runner = make_runner(sim)
    runner.wanted = {"COCOTB_RANDOM_SEED": str(seed), "EFA_SEED": str(seed), **(env or {})}
    runner.wanted["WAVES"] = "1" if waves else "0"
    started = time.monotonic()
    try:
        runner.test(
            test_module=module,
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            build_dir=build_dir,
            test_dir=folder,
            results_xml=str(results),
            seed=seed,
            test_args=test_args or [],
            plusargs=plusargs or [],
            parameters=parameters,
            timescale=("1ns", "1ps"),
            waves=waves,
            test_filter=test,
            log_file=log,
        )
        crashed = None
    except (RuntimeError, SystemExit) as error:
        crashed = str(error)
    ran, wrong = judge(results, planned)
    if crashed is not None and not wrong:
        wrong.append(f"simulator: {crashed}")
    note(module, sim, _statuses(planned, ran, wrong))
    if wrong:
        text = log.read_text(errors="replace") if log.exists() else ""
        failed, _, reason = wrong[0].partition(": ")
        end = five_lines(
            named(reason.removeprefix("failure ").removeprefix("error "), failed),
            ", ".join(waves_in(folder)) or "none; WAVES=1 in front of the command writes them",
            repeat_line(kind, name, sim, seed, parameters, test) + options,
        )
        raise RunFailed(
            f"{title} on {sim}, seed {seed}: FAILED\n  "
            + "\n  ".join(wrong)
            + f"\n{text[-8000:]}\nlog: {log.relative_to(ROOT)}\n{end}",
            tuple(wrong),
        )
    return Outcome(title, sim, seed, ran, time.monotonic() - started, folder, log)


def repeat_line(kind: str, name: str, sim: str, seed: int, params: dict, test: str | None) -> str:
    """Returns the command that repeats a run; WAVES=1 before it writes a trace next to the log."""
    line = f".venv/bin/python -m tb.runner {kind} {name} --sim {sim} --seed {seed}"
    if params:
        line += f' --params "{" ".join(f"{key}={value}" for key, value in params.items())}"'
    return line + (f" --test {test}" if test else "")


UNIT_BUILD = {
    # Verilator draws unknowns at random, so a missing reset shows here too.
    "verilator": [
        "-O3", "--x-assign", "unique", "--x-initial", "unique", "--assert", "-Wno-fatal",
    ],
    "icarus": ["-g2005", "-Wall"],
}  # fmt: skip
# A unit bench executes Python for most of its time. -Og compiles its design in two thirds of the
# time of -O1.
UNIT_OPTIMISED = "-Og"


def random_unknowns(seed: int) -> list[str]:
    """Returns arguments that draw the unknowns of a `unique` Verilator build from this seed."""
    return [f"+verilator+seed+{seed % (2**31 - 1)}", "+verilator+rand+reset+2"]


def run_unit(
    unit: str,
    top: str,
    sources: list[str] | None,
    test_module: str,
    sim: str,
    seed: int,
    params: dict | None = None,
    test: str | None = None,
    short: bool = False,
) -> Outcome:
    """Runs one RTL module under its cocotb module; `sources` None selects by module name.

    `short` runs a part of long benches (tb/unit/length.py).
    """
    params = params or {}
    waves = waves_wanted()
    files = closure(top) if sources is None else [ROOT / path for path in sources]
    build_args = list(UNIT_BUILD[sim])
    if sim == "verilator":
        control = OUT / "control" / f"{top}.vlt"
        write_once(control, f'`verilator_config\npublic_flat_rw -module "{top}" -var "*"\n')
        files = [control, *files]
        # One C++ file compiles with less processor time than several, which need two precompiled
        # headers of the design.
        build_args += ["--output-split", "0", *(waves_flags() if waves else [])]
        more, flags = counting(top, files[1:])
        files, build_args = [*more, *files], build_args + flags
    folder = build(sim, top, files, params, build_args, waves, optimise=UNIT_OPTIMISED)
    plusargs = random_unknowns(seed) + code_coverage.arguments(unit)
    return run(
        "unit", unit, sim, top, folder, test_module, seed, params, test, {SHORT: str(int(short))},
        plusargs=plusargs if sim == "verilator" else [], waves=waves,
        options=" --short" if short else "",
    )  # fmt: skip


def counting(
    top: str, sources: list[Path], counted: tuple[str, ...] = ()
) -> tuple[list[Path], list[str]]:
    """Returns the extra sources and flags of a Verilator build that counts code coverage.

    The source is a control file. Without coverage both lists are empty. `counted` is as for
    code_coverage.control.
    """
    if not code_coverage.wanted():
        return [], []
    control = OUT / "control" / f"{top}-coverage.vlt"
    write_once(control, code_coverage.control(sources, counted))
    return [control], code_coverage.FLAGS


def write_once(path: Path, text: str) -> None:
    """Writes a small generated file atomically, since parallel runs may race."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(text)
    part.replace(path)


def waves_wanted() -> bool:
    return os.environ.get("WAVES", "0") not in ("", "0")


def waves_flags() -> list[str]:
    """Returns the flags for FST if liblz4's headers are installed, for VCD otherwise."""
    if Path("/usr/include/lz4.h").exists():
        return ["--trace-fst"]
    print("waves: VCD, since the headers of liblz4 are not installed (apt install liblz4-dev)")
    return []


def system_module(name: str) -> str:
    """Returns the module of an area of tb/system, or of a file of tests anywhere (*.py).

    The folder of a file becomes part of the module search path. Raises NoSuchRun if the file does
    not exist.
    """
    path = Path(name).resolve()
    if path.suffix != ".py":
        return f"tb.system.{name}_tests"
    if not path.is_file():
        raise NoSuchRun(f"no file {name}; expected a file of tests, such as examples/own_test.py")
    sys.path.insert(0, str(path.parent))
    return path.stem


def system_name(module: str) -> str:
    """Returns the name by which the command line accepts a module of system tests."""
    if module.startswith("tb.system."):
        return module.removeprefix("tb.system.").removesuffix("_tests")
    # A module that has run has a file.
    path = Path(importlib.util.find_spec(module).origin)  # type: ignore[union-attr, arg-type]
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def parameters_of(text: str) -> dict[str, int]:
    """Returns parameters by name from "NAME=VALUE ..."; raises NoSuchRun for other text."""
    params = {}
    for pair in text.split():
        name, _, value = pair.partition("=")
        try:
            params[name] = int(value, 0)
        except ValueError:
            raise NoSuchRun(f"--params {pair}: write NAME=NUMBER") from None
    return params


def report(outcome: Outcome) -> str:
    """Returns one line for a passed run, and the path of its waves."""
    return (
        f"{outcome.name} on {outcome.sim}, seed {outcome.seed}: {len(outcome.tests)} tests passed "
        f"in {outcome.seconds:.1f} s ({outcome.log.relative_to(ROOT)})"
        + "".join(f"\nwaves: {path}" for path in waves_in(outcome.folder))
    )


def waves_in(folder: Path) -> list[str]:
    """Returns the waves of a run."""
    found = sorted(path for path in folder.glob("dump.*") if path.suffix in (".fst", ".vcd"))
    return [str(path.relative_to(ROOT)) for path in found]
