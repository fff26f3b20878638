# SPDX-License-Identifier: Apache-2.0
"""Computes the digests of the sources to which the results of mutant runs belong.

A kill belongs to the RTL, the bench without its tests, and the test that killed; a survivor to the
complete bench; a proof to the RTL and the proof method only.
"""

import ast
import hashlib
import importlib.util
import re
from functools import cache
from pathlib import Path

import mutant_proofs
import mutants as netlists
import wiring
from formal_job import bare

from tb import system_run
from tb.runner import INCLUDES, closure, planned_tests, random_unknowns
from tb.unit.units import INSIDE, UNITS

OWN = ("tb", "efa_cosim")  # packages of this project


def digest(*parts):
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
        self.rtl = digest(*rtl)
        self.proof = digest(self.rtl, mutant_proofs.FORM)
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
            frame = digest(plain(frame), *filter(None, parts))
            for name, source in tests.items():
                self._tests[f"{module}.{name}"] = digest(self.rtl, frame, plain(source))
        self.whole = digest(self.rtl, *(f"{key} {value}" for key, value in self._tests.items()))

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
