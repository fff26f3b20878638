# SPDX-License-Identifier: Apache-2.0
"""Runs benches on the mutants of a block, or of the wiring of the device.

A block runs under its unit benches (`Bench`), the wiring under the tests of the complete device
(`SystemBench`). A simulator is loaded once for a batch and forks for each mutant
(tb/mutant_server.py), before the first test has started a transactor. The run of a mutant ends at
the first test that fails. The unmutated block, mutant 0, starts each batch and must pass.

A mutant is killed if a test, a check of the RTL or the simulator names a difference. A mutant that
exceeds the limit of a test (three times the simulated time on the unmutated block, plus a constant)
or of the run is a timeout: no message names the fault, so a timeout does not count as killed. A
test whose own bounded wait ends with a message names a difference.
"""

import json
import re
import shutil
import signal
import tempfile
import xml.etree.ElementTree as ElementTree
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import mutants as netlists
import wiring

from efa_cosim.host.wc import StoreBuffer
from tb import system_run
from tb.runner import (
    UNIT_BUILD,
    RunFailed,
    build,
    closure,
    judge,
    planned_tests,
    random_unknowns,
    write_once,
)
from tb.simulators import ROOT, make_runner
from tb.unit.units import INSIDE, UNITS

KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"
# Time of a test of a mutant beyond three times its unmutated time: longer than the bounded waits of
# the unit benches (up to 100,000 cycles), which report the missing item.
SPARE_NS = 600_000
# The same for a system test: the longest bounded waits are those of tb/lib/host.py for a condition
# or for idle (WAIT_CYCLES), 1,000,000 cycles of 4 ns.
SYSTEM_SPARE_NS = 6_000_000
SERVER = "tb.mutant_server"
NOT_RUN = "RegressionTerminated"  # cocotb's message for tests after the last test
ENDED = 128 + signal.SIGTERM  # exit code of a job that its executor ends


def own_parameters(block: str, units: tuple) -> dict:
    """Returns the parameters with which a block is mutated under its unit benches."""
    unit = UNITS[units[0]]
    return unit.mutated if unit.top == block else INSIDE[block][1]


def read_results(results: Path) -> tuple[list[dict], tuple[str, str] | None]:
    """Returns ([{name, seconds, ns}, ...], (test, message) of the first failure or None).

    cocotb sorts a results file by module. A test that did not run because an earlier test failed,
    or because the simulation ended, is listed as failed, too: its simulated time is 0.
    """
    cases, failures = [], []
    for case in ElementTree.parse(results).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        ns = next((float(mark.get("value")) for mark in case.iter("property")
                   if mark.get("name") == "sim_time_duration"), 0.0)  # fmt: skip
        cases.append({"name": name, "seconds": float(case.get("time")), "ns": ns})
        marks = [mark for kind in ("failure", "error") for mark in case.iter(kind)]
        if marks:
            keys = ("type", "error_type", "message", "error_msg")
            message = " ".join(filter(None, (marks[0].get(key) for key in keys)))
            failures.append((NOT_RUN in message, ns == 0, name, message.partition("\n")[0][:200]))
    if not failures:
        return cases, None
    *_, name, message = min(failures, key=lambda failure: failure[:2])
    return cases, (name, message)


@contextmanager
def _run_folder(name):
    """Gives a folder for the files of a run; it stays after RunFailed, which names its log."""
    above = ROOT / netlists.OUT / "run"
    above.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=above))
    try:
        yield folder
    except RunFailed:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


class Tried(NamedTuple):
    """The verdict of a mutant, and the test that gave it with its message."""

    number: int
    verdict: str
    test: str
    message: str


class Bench:
    """The benches of a block on the netlist of its mutants, which this class writes and builds."""

    spare_ns, first_seconds = SPARE_NS, 400.0
    env = {}

    def __init__(self, block: str, units: tuple, count: int, seed: int) -> None:
        self.block, self.top, self.seed = block, UNITS[units[0]].top, seed
        self.modules = [UNITS[unit].module(unit) for unit in units]
        self.parameters = UNITS[units[0]].mutated
        own = netlists.write(block, own_parameters(block, units), netlists.files_below(block),
                             count, seed)  # fmt: skip
        self.sources = own + [path for path in closure(self.top) if path.stem != block]
        self.plusargs = random_unknowns(seed)

    def _build(self):
        """Builds the netlist; returns its folder."""
        control = ROOT / f"sim/out/control/{self.top}.vlt"
        write_once(control, f'`verilator_config\npublic_flat_rw -module "{self.top}" -var "*"\n')
        return build(
            "verilator", self.top, [control, *self.sources], self.parameters,
            UNIT_BUILD["verilator"],
        )  # fmt: skip

    def reference(self) -> tuple[float, list[tuple]]:
        """Runs all tests on the unmutated block. Returns the limit of a mutant in seconds, and
        [test, seconds, limit in simulated ns] of each test; raises RunFailed."""
        planned = [name for module in self.modules for name in planned_tests(module)]
        with _run_folder(self.block) as folder:
            (found,) = self._run(folder, [0], (), self.first_seconds)
            _, wrong = judge(folder / "0/results.xml", planned)
            self._check(found, wrong, self.first_seconds, folder)
        tests = [(case["name"], case["seconds"], 3 * round(case["ns"]) + self.spare_ns)
                 for case in found["cases"]]  # fmt: skip
        return 20 + 8 * found["seconds"], tests

    def trial(self, numbers: list, tests: list, seconds: float) -> list[Tried]:
        """Runs mutants under tests, [(name, limit in simulated ns), ...], in this order. Returns
        the Tried of each mutant; raises RunFailed."""
        with _run_folder(self.block) as folder:
            zero, *mutants = self._run(folder, [0, *numbers], tests, seconds)
            ran = {case["name"] for case in zero["cases"]}
            wrong = [f"{name}: did not run" for name, _ in tests if name not in ran]
            failed = [zero["what"]] if zero["by"] is not None else wrong
            self._check(zero, failed, seconds, folder)
            return [self._verdict(found) for found in mutants]

    def _check(self, found, wrong, seconds, folder):
        """Raises RunFailed unless the run of the unmutated block ended in time with nothing wrong.
        """
        if wrong or found["late"]:
            note = f"no end in {seconds:.0f} s" if found["late"] else "; ".join(wrong)
            log = (folder / "0/run.log").relative_to(ROOT)
            text = f"{self.block}: its benches fail on the unmutated block (log: {log})"
            raise RunFailed(f"{text}: {note}")

    def _run(self, folder, numbers, tests, seconds):
        """Returns the results of mutants under `tests`, by default all."""
        job = {"numbers": numbers, "tests": tests, "seconds": seconds}
        (folder / "job.json").write_text(json.dumps(job))
        runner = make_runner("verilator")
        runner.wanted = {"COCOTB_RANDOM_SEED": str(self.seed), "EFA_SEED": str(self.seed),
                         "EFA_MUTANTS": str(folder), "COCOTB_MAX_FAILURES": "1",
                         "WAVES": "0", **self.env}  # fmt: skip
        crashed = "without an error"
        log = folder / "run.log"
        try:
            runner.test(
                test_module=[*self.modules, SERVER], hdl_toplevel=self.top,
                hdl_toplevel_lang="verilog", build_dir=self._build(), test_dir=folder,
                results_xml=str(folder / "results.xml"), seed=self.seed,
                plusargs=self.plusargs, parameters=self.parameters,
                timescale=("1ns", "1ps"), log_file=log,
            )  # fmt: skip
        except (RuntimeError, SystemExit) as error:
            if getattr(error, "code", None) == ENDED:
                raise
            crashed = str(error)
        done = folder / "done.jsonl"
        lines = done.read_text().splitlines() if done.exists() else []
        found = [json.loads(line) for line in lines]
        if [one["number"] for one in found] != numbers:
            raise RunFailed(f"{self.block}: the simulator ended early, {crashed}"
                            f" (log: {log.relative_to(ROOT)})")  # fmt: skip
        return [self._read(folder, one) for one in found]

    def _read(self, folder, found):
        """Adds the cases that ran and, if one failed, its name and message."""
        here = folder / str(found["number"])
        results, log = here / "results.xml", here / "run.log"
        found |= {"cases": [], "by": None, "what": None}
        if not results.exists():
            if found["status"] == 0 and not found["late"]:
                raise RunFailed(f"{self.block}: mutant {found['number']} left no result"
                                f" (log: {log.relative_to(ROOT)})")  # fmt: skip
            note = re.search(r"^.*(%Error|%Fatal).*$", log.read_text(errors="replace"),
                             re.MULTILINE)
            note = note.group(0).strip() if note else f"simulator ended with {found['status']}"
            return found | {"by": "", "what": note}
        found["cases"], failed = read_results(results)
        if failed:
            found["by"], found["what"] = failed
            if "SimFailure" in failed[1]:
                said = re.search(r"CHECK FAILED .*|%Error.*", log.read_text(errors="replace"))
                found["what"] = said.group(0)[:200] if said else failed[1]
        return found

    def _verdict(self, found):
        """Returns the Tried of a result."""
        verdict = SURVIVED if found["by"] is None else KILLED
        if found["late"]:
            verdict, found["by"], found["what"] = TIMEOUT, "", "had to be ended"
        elif "SimTimeoutError" in (found["what"] or ""):
            verdict = TIMEOUT
        return Tried(found["number"], verdict, found["by"] or "", found["what"] or "")


class SystemBench(Bench):
    """Tests of the complete device on the netlists of some wiring modules, in one simulation.

    Registers and memories begin at random values, so that a fault of a reset has an effect.
    """

    spare_ns, first_seconds = SYSTEM_SPARE_NS, 1800.0

    def __init__(self, blocks: list, areas: tuple, count: int | None, seed: int) -> None:
        self.block, self.top, self.seed = "system", system_run.TOP, seed
        self.modules = [f"tb.system.{area}_tests" for area in areas]
        self.parameters, self.plusargs = {}, random_unknowns(seed)
        self.env = {"EFA_SIM": "verilator", "EFA_PARAMS": "{}",
                    "EFA_STORE_BUFFER": str(StoreBuffer.drawn(seed))}  # fmt: skip
        self.sources = []
        for block in blocks:
            self.sources += wiring.write(block, netlists.files_below(block), count, seed)

    def _build(self):
        extra = tuple(str(path.relative_to(ROOT)) for path in self.sources)
        return system_run.build_system("verilator", {}, extra)[0]
