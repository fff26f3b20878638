# SPDX-License-Identifier: Apache-2.0
"""Runs benches on the mutants of a block and stores the results.

A block runs under its unit benches (`Bench`), the wiring under the tests of the complete device
(`SystemBench`). A simulator is loaded once for a batch and forks for each mutant
(tb/mutant_server.py), before the first test has started a transactor. The run of a mutant ends at
the first test that fails. The unmutated block, mutant 0, starts each batch and must pass.

A survivor takes as long as many kills, and most survivors are equal to their block. So a mutant
first runs under the tests with the most kills in the least time, for QUICK of the time of the
bench. A proof then examines the survivors, and only the others run under the remaining tests.

A mutant is killed if a test, a check of the RTL or the simulator names a difference. A mutant that
exceeds the limit of a test (three times the simulated time on the unmutated block, plus a constant)
or of the run is a timeout: no message names the fault, so a timeout does not count as killed. A
test whose own bounded wait ends with a message names a difference.

The results in reports/mutate/blocks belong to a state of the sources: a kill to the RTL, the bench
without its tests, and the test that killed; a survivor to the complete bench; a proof to the RTL
and the proof method only.
"""

import ast
import hashlib
import importlib.util
import json
import re
import shutil
import threading
import xml.etree.ElementTree as ElementTree
from collections import Counter
from functools import cache
from pathlib import Path

import mutant_proofs
import mutants as netlists
import wiring
from formal_job import bare

from efa_cosim.host.wc import StoreBuffer
from tb import system_run
from tb.runner import (
    INCLUDES,
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

KEPT = ROOT / "reports/mutate/blocks"
OWN = ("tb", "efa_cosim")  # packages of this project
# Mutants per run of the unmutated block, which takes as long as ten kills or more. The kills in the
# first batch determine the order of the tests for the next batches.
FIRST_BATCH, BATCH = 50, 400
QUICK = 0.35  # of the time of the bench, before the proof of a survivor
KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"
# Time of a test of a mutant beyond three times its unmutated time: longer than the bounded waits of
# the unit benches (up to 100,000 cycles), which report the missing item.
SPARE_NS = 600_000
SERVER = "tb.mutant_server"
NOT_RUN = "RegressionTerminated"  # cocotb's message for tests after the last test
# The same for a system test: the longest bounded waits are those of tb/lib/host.py for a condition
# or for idle (WAIT_CYCLES), 1,000,000 cycles of 4 ns.
SYSTEM_SPARE_NS = 6_000_000


def _hash(*parts):
    """Returns a short digest of texts and bytes."""
    state = hashlib.sha256()
    for part in parts:
        state.update(part if isinstance(part, bytes) else part.encode())
        state.update(b"\0")
    return state.hexdigest()[:16]


class _Code(ast.NodeTransformer):
    """Removes from a module what no test depends on: docstrings, and all that only type hints need.
    """

    HINTS = ("__future__", "collections.abc", "typing")
    FIELDS = ("NamedTuple", "dataclass")

    def __init__(self):
        self.fields = False

    def visit_Expr(self, node):
        value = node.value
        text = isinstance(value, ast.Constant) and isinstance(value.value, str)
        return None if text else self.generic_visit(node)

    def visit_ImportFrom(self, node):
        return None if node.module in self.HINTS else node

    def visit_If(self, node):
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    def visit_ClassDef(self, node):
        outer, bases = self.fields, [ast.unparse(one) for one in node.bases]
        if "Protocol" in bases:
            return None
        marks = [*bases, *(ast.unparse(mark).split("(")[0] for mark in node.decorator_list)]
        self.fields = any(mark.split(".")[-1] in self.FIELDS for mark in marks)
        found = [one.value if isinstance(one, ast.Subscript) else one for one in node.bases]
        node.bases = [one for one in found if ast.unparse(one) != "Generic"]
        self.generic_visit(node)
        self.fields = outer
        return node

    def visit_FunctionDef(self, node):
        if "overload" in map(ast.unparse, node.decorator_list):
            return None
        outer, self.fields, node.returns = self.fields, False, None
        self.generic_visit(node)
        self.fields = outer
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_Assign(self, node):
        return None if ast.unparse(node.value).startswith("TypeVar(") else self.generic_visit(node)

    def visit_AnnAssign(self, node):
        """A hint makes a field of a dataclass or NamedTuple; elsewhere only the value counts."""
        if ast.unparse(node.annotation) == "TypeAlias" or (node.value is None and not self.fields):
            return None
        if self.fields:
            node.annotation = ast.Constant(None)
            return self.generic_visit(node)
        return self.generic_visit(ast.Assign([node.target], node.value))


class _Imports(ast.NodeTransformer):
    """Removes imports from OWN; `bound` collects their names."""

    def __init__(self):
        self.bound = {}

    def visit_ImportFrom(self, node):
        if (node.module or "").partition(".")[0] not in OWN:
            return node
        self.bound |= {one.asname or one.name: one.name for one in node.names}
        return None


@cache
def plain(text):
    """Returns the code of a Python module in one form, without what no test depends on (_Code).

    An import from a module of this project counts by the names that it binds and the code uses: the
    content of the module counts by itself, and its place has no effect on a test.
    """
    imports = _Imports()
    tree = imports.visit(_Code().visit(ast.parse(text)))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    bound = sorted(f"{name} as {alias}" for alias, name in imports.bound.items() if alias in used)
    return "\n".join([ast.dump(tree), *bound])


def rtl_texts(top):
    """Returns the texts of a block, its submodules and included files, without comments; of the
    generated header only the macros in use."""
    texts = [bare(path.read_text()) for path in closure(top)]
    named = {path.name: path.read_text() for folder in INCLUDES for path in folder.glob("*.vh")}
    defines = dict(re.findall(r"^`define (\w+) (.*)$", named.pop("efa_defs.vh"), re.MULTILINE))
    for text in texts:
        for name in re.findall(r'`include "(\w+\.vh)"', text):
            if name in named:
                texts.append(bare(named.pop(name)))
    used, waiting = {}, {name for text in texts for name in re.findall(r"`(\w+)", text)}
    while waiting:
        name = waiting.pop()
        if name in defines and name not in used:
            used[name] = defines[name]
            waiting |= set(re.findall(r"`(\w+)", used[name]))
    return [*texts, *(f"{name} {used[name]}" for name in sorted(used))]


def _imported(module, found):
    """Adds the files of a module of OWN, and of its imports from there, to `found`.

    Excludes imports that only type hints need.
    Excludes efa_cosim.layouts.defs: the RTL uses the same values from the generated header.
    Excludes tb.simulators: the discovery of a simulator changes no verdict.
    Excludes tb.unit.units: only the command line of tb.runner uses the list of units.
    """
    if module in ("efa_cosim.layouts.defs", "tb.simulators", "tb.unit.units"):
        return
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or module in found:
        return
    found[module] = Path(spec.origin)
    for node in ast.walk(_Code().visit(ast.parse(found[module].read_text()))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if name.partition(".")[0] not in OWN:
                continue
            try:
                _imported(name, found)
            except ModuleNotFoundError:  # a name in a module, not a module
                continue


class State:
    """Digests to which the results of tests belong: `rtl` parts, and modules of tests."""

    def __init__(self, rtl, modules):
        self.rtl = _hash(*rtl)
        self.proof = _hash(self.rtl, mutant_proofs.FORM)
        self._tests = {}
        for module in modules:
            planned = set(planned_tests(module))
            helpers = {}
            _imported(module, helpers)
            own = helpers.pop(module)
            text = own.read_text()
            lines, tests = text.split("\n"), {}
            for node in ast.parse(text).body:
                if getattr(node, "name", None) in planned:
                    first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
                    tests[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
            frame = text
            for source in tests.values():
                frame = frame.replace(source, "")
            parts = sorted(plain(path.read_text()) for path in helpers.values())
            frame = _hash(plain(frame), *filter(None, parts))
            for name, source in tests.items():
                self._tests[f"{module}.{name}"] = _hash(self.rtl, frame, plain(source))
        self.whole = _hash(self.rtl, *(f"{key} {value}" for key, value in self._tests.items()))

    def of(self, test):
        """Returns the digest of a kill by a test; a case of a parametrized test begins with the
        test's name."""
        for name, state in self._tests.items():
            if test == name or (test.startswith(name) and not test[len(name)].isidentifier()):
                return state
        return self.whole


def unit_state(block, units, count, seed):
    """Returns the State of a block under its unit benches; of a block inside another, all of that
    block."""
    top, parameters = UNITS[units[0]].top, UNITS[units[0]].mutated
    mine = [] if top == block else [f"{block} {INSIDE[block][1]}"]
    chosen = repr(sorted(parameters.items()))
    rtl = [netlists.FORM, *rtl_texts(top), *mine, chosen, f"{count} {seed}"]
    return State(rtl, [UNITS[unit].module(unit) for unit in units])


def system_state(block, areas, count, seed):
    """Returns the State of a wiring module under areas of tb/system."""
    native = [bare(path.read_text()) for path in sorted(system_run.NATIVE.iterdir())]
    mode = [*system_run.FAST, *random_unknowns(seed)]
    rtl = [wiring.FORM, *mode, block, *rtl_texts(system_run.TOP), *native, f"{count} {seed}"]
    return State(rtl, [f"tb.system.{area}_tests" for area in areas])


def read_results(results):
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


class Bench:
    """The block's benches on the netlist of its mutants."""

    spare_ns, first_seconds = SPARE_NS, 400.0
    env = {}

    def __init__(self, block, units, count, seed):
        self.block, self.top, self.seed = block, UNITS[units[0]].top, seed
        self.modules = [UNITS[unit].module(unit) for unit in units]
        self.parameters = UNITS[units[0]].mutated
        self.state = unit_state(block, units, count, seed)
        mine = self.parameters if self.top == block else INSIDE[block][1]
        below = netlists.files_below(block)
        self.mutants, own, self.possible = netlists.make(block, mine, below, count, seed)
        self.sources = own + [path for path in closure(self.top) if path.stem != block]
        self.plusargs = random_unknowns(seed)
        self._begin()

    def _begin(self):
        self.folder = ROOT / netlists.OUT / self.block / "run"
        self.limit, self.took = {}, {}
        self.kills = Counter()
        self.seconds = self.first_seconds
        self.build = None

    def _build(self):
        """Builds the netlist; returns its folder."""
        control = ROOT / f"sim/out/control/{self.top}.vlt"
        write_once(control, f'`verilator_config\npublic_flat_rw -module "{self.top}" -var "*"\n')
        return build(
            "verilator", self.top, [control, *self.sources], self.parameters,
            UNIT_BUILD["verilator"],
        )  # fmt: skip

    def _prepare(self):
        """Builds the netlist and runs the unmutated block: its times and limits."""
        self.build = self._build()
        shutil.rmtree(self.folder, ignore_errors=True)
        (found,) = self._run([0], 1)
        planned = [name for module in self.modules for name in planned_tests(module)]
        _, wrong = judge(self.folder / "0/results.xml", planned)
        self._check(found, wrong)
        for case in found["cases"]:
            self.took[case["name"]] = case["seconds"]
            self.limit[case["name"]] = 3 * round(case["ns"]) + self.spare_ns
        self.seconds = 20 + 8 * found["seconds"]

    def _check(self, found, wrong):
        """Raises RunFailed unless the run of the unmutated block ended in time with nothing wrong.
        """
        if wrong or found["late"]:
            note = f"no end in {self.seconds:.0f} s" if found["late"] else "; ".join(wrong)
            raise RunFailed(f"{self.block}: its benches fail on the unmutated block: {note}")

    def _run(self, numbers, jobs, tests=()):
        """Yields the results of the mutants under `tests`, by default all, as they end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        done = self.folder / "done.jsonl"
        done.unlink(missing_ok=True)
        job = {"numbers": numbers, "tests": tests, "limit": self.limit,
               "seconds": self.seconds, "jobs": jobs}  # fmt: skip
        (self.folder / "job.json").write_text(json.dumps(job))
        runner = make_runner("verilator")
        runner.wanted = {"COCOTB_RANDOM_SEED": str(self.seed), "EFA_SEED": str(self.seed),
                         "EFA_MUTANTS": str(self.folder), "COCOTB_MAX_FAILURES": "1",
                         "WAVES": "0", **self.env}  # fmt: skip
        crashed = []

        def simulate():
            try:
                runner.test(
                    test_module=[*self.modules, SERVER], hdl_toplevel=self.top,
                    hdl_toplevel_lang="verilog", build_dir=self.build, test_dir=self.folder,
                    results_xml=str(self.folder / "results.xml"), seed=self.seed,
                    plusargs=self.plusargs, parameters=self.parameters,
                    timescale=("1ns", "1ps"), log_file=self.folder / "run.log",
                )  # fmt: skip
            except (RuntimeError, SystemExit) as error:
                crashed.append(str(error))

        thread = threading.Thread(target=simulate, daemon=True)
        thread.start()
        note, ended = 0, False
        while not ended:
            thread.join(0.1)
            ended = not thread.is_alive()
            lines = done.read_text().splitlines(True) if done.exists() else []
            for line in lines[note:]:
                if line.endswith("\n"):
                    note += 1
                    yield self._read(json.loads(line))
        if note != len(numbers):
            log = (self.folder / "run.log").read_text(errors="replace")[-2000:]
            raise RunFailed(f"{self.block}: the simulator ended early {crashed}\n{log}")

    def _read(self, found):
        """Adds the cases that ran and, if one failed, its name and message."""
        results = self.folder / str(found["number"]) / "results.xml"
        found |= {"cases": [], "by": None, "what": None}
        if not results.exists():
            log = (results.parent / "run.log").read_text(errors="replace")
            if found["status"] == 0 and not found["late"]:
                note = f"{self.block}: mutant {found['number']} left no result"
                raise RunFailed(f"{note}\n{log[-3000:]}")
            note = re.search(r"^.*(%Error|%Fatal).*$", log, re.MULTILINE)
            note = note.group(0).strip() if note else f"simulator ended with {found['status']}"
            return found | {"by": "", "what": note}
        found["cases"], failed = read_results(results)
        if failed:
            found["by"], found["what"] = failed
            if "SimFailure" in failed[1]:
                log = (results.parent / "run.log").read_text(errors="replace")
                said = re.search(r"CHECK FAILED .*|%Error.*", log)
                found["what"] = said.group(0)[:200] if said else failed[1]
        return found

    def _quick(self):
        """Returns the tests of the first stage, the most kills in the least time first."""
        order = sorted(
            self.took, key=lambda name: -(self.kills[name] + 0.5) / (self.took[name] + 0.01)
        )
        left, quick = QUICK * sum(self.took.values()), []
        for name in order:
            if quick and self.took[name] > left:
                break
            quick.append(name)
            left -= self.took[name]
        return quick

    def _verdicts(self, numbers, jobs, tests):
        """Yields (number, verdict, test, message) of the mutants under some tests."""
        for found in self._run([0, *numbers], jobs, tests):
            if found["number"] == 0:
                ran = {case["name"] for case in found["cases"]}
                wrong = [f"{name}: did not run" for name in tests if name not in ran]
                self._check(found, [found["what"]] if found["by"] is not None else wrong)
                continue
            verdict = SURVIVED if found["by"] is None else KILLED
            if found["late"]:
                verdict, found["by"], found["what"] = TIMEOUT, "", "had to be ended"
            elif "SimTimeoutError" in (found["what"] or ""):
                verdict = TIMEOUT
            self.kills[found["by"]] += verdict != SURVIVED
            yield found["number"], verdict, found["by"] or "", found["what"] or ""
            shutil.rmtree(self.folder / str(found["number"]), ignore_errors=True)

    def judge(self, numbers, jobs, equal):
        """Yields (number, verdict, test, message) for each mutant of a list. `equal` returns those
        of a list of survivors that are proven equal to their block."""
        if not numbers:
            return
        self._prepare()
        rest, alive, batch = set(), [], FIRST_BATCH
        while numbers:
            mine, numbers, batch = numbers[:batch], numbers[batch:], BATCH
            quick = self._quick()
            rest |= set(self.took) - set(quick)
            for found in self._verdicts(mine, jobs, quick):
                if found[1] == SURVIVED:
                    alive.append(found[0])
                else:
                    yield found
        same = equal(alive)
        left = [number for number in alive if number not in same] if rest else []
        for number in alive:
            if number not in left:
                yield number, SURVIVED, "", ""
        if left:
            yield from self._verdicts(left, jobs, sorted(rest, key=self.took.get))


class SystemBench(Bench):
    """Tests of the complete device on the netlists of some wiring modules, in one simulation.

    Registers and memories begin at random values, so that a fault of a reset has an effect.
    """

    spare_ns, first_seconds = SYSTEM_SPARE_NS, 1800.0

    def __init__(self, blocks, areas, count, seed):
        self.block, self.top, self.seed = "system", system_run.TOP, seed
        self.modules = [f"tb.system.{area}_tests" for area in areas]
        self.parameters, self.plusargs = {}, random_unknowns(seed)
        self.env = {"EFA_SIM": "verilator", "EFA_PARAMS": "{}",
                    "EFA_STORE_BUFFER": str(StoreBuffer.drawn(seed))}  # fmt: skip
        self.drawn, self.listed, self.sources = {}, {}, []
        for block in blocks:
            below = netlists.files_below(block)
            faults, own, self.listed[block] = wiring.make(block, below, count, seed)
            self.drawn[block] = faults
            self.sources += own
        self._begin()

    def _build(self):
        extra = tuple(str(path.relative_to(ROOT)) for path in self.sources)
        return system_run.build_system("verilator", {}, extra)[0]


class Kept:
    """Results of earlier runs for a block's mutants, in reports/mutate/blocks."""

    def __init__(self, name, state, fresh=False):
        self.path, self.state = KEPT / f"{name}.json", state
        self.rows, self.proofs = {}, {}
        if self.path.exists() and not fresh:
            note = json.loads(self.path.read_text())
            self.rows = {row["number"]: row for row in note["rows"] if self._holds(row)}
            self.proofs = {int(key): value for key, value in note["proofs"].items()
                           if value["state"] == state.proof}  # fmt: skip

    def kills(self):
        """Returns the number of mutants that each test killed, {test: count}."""
        return Counter(row["by"] for row in self.rows.values() if row["verdict"] == KILLED)

    def _holds(self, row):
        """Returns True if a verdict belongs to the current sources and names a test that ran. A
        timeout depends on the limits and on the load of the machine: it runs again."""
        if row["verdict"] == TIMEOUT or NOT_RUN in row["what"]:
            return False
        if row["verdict"] == SURVIVED or not row["by"]:
            return row["state"] == self.state.whole
        return row["state"] == self.state.of(row["by"])

    def add(self, number, verdict, by, what):
        """Stores a verdict."""
        state = self.state.whole if verdict == SURVIVED or not by else self.state.of(by)
        self.rows[number] = {"number": number, "verdict": verdict, "by": by, "what": what,
                             "state": state}  # fmt: skip
        self._write()

    def proved(self, number, equal):
        """Stores the result of a proof: True, False, or None if it exceeded its time limit."""
        self.proofs[number] = {"equal": equal, "state": self.state.proof}
        self._write()

    def _write(self):
        KEPT.mkdir(parents=True, exist_ok=True)
        rows = [self.rows[number] for number in sorted(self.rows)]
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps({"rows": rows, "proofs": self.proofs}, indent=0) + "\n")
        part.replace(self.path)
