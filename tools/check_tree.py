# SPDX-License-Identifier: Apache-2.0
"""Checks the consistency of the tree: plan, tests, bins, sources, benches, timing, opcodes.

    tools/check_tree.py [ROOT]

The check reads text only; nothing is built or run. Prints a line for each inconsistency, with the
correction; exit status 1 if there is one.
"""

import ast
import fnmatch
import importlib.util
import re
import sys
from functools import cache
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent))

from check_statuses import statuses  # noqa: E402 - needs the path above
from gen_verilog import LICENCE  # noqa: E402 - needs the path above
from testplan import (  # noqa: E402 - needs the path above
    SYNTAX,
    PlanError,
    find_tests,
    read_plan,
    read_yaml,
    resolve,
    tests_of,
)

ROOT = Path(__file__).resolve().parent.parent
TIMING = "spec/timing.yaml"
UNITS = "tb/unit/units.py"
DISPATCH = "rtl/admin/efa_dispatch.v"
MODEL = "model/efa_cosim/device/admin*.py"
BINS = "tb/env/coverage.py"
GLOSSARY = "docs/glossary.md"
SOURCES = (".cpp", ".h", ".py", ".v", ".vh", ".yaml")
# Generated from spec/, or about the past.
NO_REFERENCES = ("CHANGELOG.md", "layouts.md")
PORT = re.compile(r"^ +(input|output) +(?:wire|reg) (?:\[.*\] )?(\w+),?$", re.M)
LOOKUP = re.compile(r"_rd_(en|addr|data|qpn|count|present|parity)$")
# The memory templates: one table, whose ports need no name of the table.
MEMORIES = ("efa_ram", "efa_ram_1wnr", "efa_ram_be", "efa_ram_fwd", "efa_flag_ram",
            "efa_flag_rows")
MEMORY_PORT = re.compile(r"(wr|rd|init|set|clear)_(en|addr|data|lanes|flag)")
FOLDERS = ("examples", "formal", "model", "rtl", "sim/regress", "sim/sweeps", "spec", "tb", "tools")


def levels(root):
    """Returns the level of each RTL file, in the order of rtl/files.f, and the position of each
    file."""
    result, level = {}, 0
    for line in (root / "rtl/files.f").read_text().splitlines():
        if line.startswith("# level"):
            level += 1
        elif line.strip() and not line.startswith("#"):
            result.setdefault(line.strip(), []).append(level)
    return result


def modules(root):
    """Returns the path of every RTL module by its name; a file holds the module of the same name.
    """
    return {path.stem: path for path in sorted((root / "rtl").rglob("*.v"))}


def ports(root):
    """Checks that the prefix of each port of an RTL module says its role and its direction."""
    wrong = []
    for name, path in modules(root).items():
        for direction, port in PORT.findall(path.read_text(encoding="utf-8")):
            if port in ("clk", "rst", "rst_por") or LOOKUP.search(port):
                continue
            if name in MEMORIES and MEMORY_PORT.fullmatch(port):
                continue
            if (name, port) == ("efa_stream_check", "s_ready"):
                continue  # It observes both sides of a stream.
            produced = (direction == "output") != port.endswith("_ready")
            prefixes = ("m_", "ev_", "st_") if produced else ("s_",)
            if not port.startswith(prefixes):
                wrong.append(f"{place_of(root, path)}: {direction} {port}: give it the prefix "
                             f"{' or '.join(prefixes)}, or the name of a lookup (CONTRIBUTING.md)")
    return wrong


def sources(root):
    """Checks that rtl/files.f lists every RTL source once, in a level after its submodules."""
    listed, wrong = levels(root), []
    there = {place_of(root, p): p for p in modules(root).values()}
    wrong += [f"rtl/files.f: add {name} to its level" for name in there if name not in listed]
    for name, places in listed.items():
        if name not in there:
            wrong.append(f"rtl/files.f: {name} is not there: remove it")
        if len(places) > 1:
            wrong.append(f"rtl/files.f: {name} stands in it twice: remove one")
    level = {Path(name).stem: places[0] for name, places in listed.items()}
    for name in sorted(set(listed) & set(there)):
        own = level[Path(name).stem]
        for used in re.findall(r"^ +(efa_\w+) (?:#\(|u_)", there[name].read_text(), re.M):
            if level.get(used, 0) >= own:
                wrong.append(f"{name}: uses {used}, which is not in an earlier level:"
                             " move one of them in rtl/files.f")  # fmt: skip
    return sorted(set(wrong))


def plan_and_tests(plan, tests):
    """Checks that the plan names every test, and that every line of the plan has its tests."""
    wrong = []
    for entries in (plan.features, plan.modules):
        ids = [entry.id for entry in entries]
        twice = sorted({one for one in ids if ids.count(one) > 1})
        wrong += [f"{SYNTAX}: {one} is planned twice" for one in twice]
    planned = set()
    for entry in plan.features:
        named, unclear = resolve(entry, tests)
        for reference, fits in unclear:
            why = "is no test: write it, or correct the name"
            if fits:
                why = f"could be {', '.join(t.place for t in fits)}: write file.name"
            wrong.append(f"{SYNTAX}: {entry.id}: {reference} {why}")
        if not entry.tests:
            wrong.append(f"{SYNTAX}: {entry.id} has no test")
        planned |= set(named)
        for test in named:
            if test.kind == "system" and not (test.id and entry.covers(test.id)):
                wrong.append(f"{test.place}: planned as {entry.id}, its docstring states {test.id}")
    for entry in plan.modules:
        covered = tests_of(entry, tests)
        planned |= set(covered)
        if not covered and entry.by is None:
            wrong.append(f"{SYNTAX}: {entry.id}: no test of tb/unit has such an id: write one for"
                         f" {entry.module}")  # fmt: skip
    for test in tests:
        if test.kind != "pytest" and test.id is None:
            wrong.append(f"{test.place}: its docstring does not begin with an id of the plan")
        elif test not in planned:
            message = f" ({test.id})" if test.id else ""
            wrong.append(f"{test.place}{message} is not in {SYNTAX}: add it to an entry")
    return wrong


def plan_and_bins(plan, points):
    """Checks that every bin is declared and named; `point` names all bins of a point, `point bin`
    one."""
    wrong, named = [], set()
    for entry in plan.entries:
        for reference in entry.bins:
            point, _, one = reference.partition(" ")
            if point not in points or (one and one not in points[point]):
                wrong.append(f"{SYNTAX}: {entry.id}: {reference} is no bin of {BINS}")
            else:
                named |= {(point, one)} if one else {(point, each) for each in points[point]}
    for point, bins in points.items():
        missing = [one for one in bins if (point, one) not in named]
        if missing:
            wrong.append(f"{BINS}: {point}: no entry of {SYNTAX} names {', '.join(missing)}")
    return wrong


def declared_bins(root):
    """Returns {point: bins} as declared in tb/env/coverage.py of the tree."""
    path = root / BINS
    if not path.exists():
        return {}
    sys.path[:0] = [str(root), str(root / "model")]
    try:
        spec = importlib.util.spec_from_file_location("_declared_bins", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return {point: list(bins) for point, bins in module.points().items()}
    finally:
        del sys.path[:2]


def unit_rows(root):
    """Returns the top module of each row of tb/unit/units.py, and the names of the rows."""
    tree = ast.parse((root / UNITS).read_text())
    tops, files = set(), set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "Unit":
                given = {word.arg: word.value for word in value.keywords}
                own = given.get("tests") or (value.args[3] if len(value.args) > 3 else None)
                tops.add(ast.literal_eval(value.args[0] if value.args else given["top"]))
                name = ast.literal_eval(own) if own else f"tb.unit.{ast.literal_eval(key)}_tests"
                files.add(name.replace(".", "/") + ".py")
    return tops, files


def names_of_modules(root, plan):
    """Checks that every module named in the plan exists, and that every module has an entry."""
    there = modules(root)
    planned = {entry.module for entry in plan.modules}
    named = planned.union(plan.wires, plan.through, plan.untimed)
    wrong = [f"{SYNTAX}: {name} is no module of rtl/" for name in sorted(named - set(there))]
    for name, path in there.items():
        if name not in planned and name not in plan.wires:
            wrong.append(f"{place_of(root, path)}: {SYNTAX} has no entry for it under units")
    return wrong


def benches(root, plan, tests):
    """Checks that every module has a bench or a reason to have none, and that every bench is run.
    """
    tops, files = unit_rows(root)
    there = modules(root)
    wrong = [f"{UNITS}: {name} is no module of rtl/" for name in sorted(tops - set(there))]
    wrong += [f"{UNITS}: {n} is not there" for n in sorted(files) if not (root / n).exists()]
    for name, path in there.items():
        if plan.through.get(name, name) not in tops | {*plan.wires}:
            wrong.append(f"{place_of(root, path)}: no row in {UNITS}: write its bench, or give the"
                         f" reason under wires in {SYNTAX}")  # fmt: skip
    carried = (root / "tb/system/test_system.py").read_text()
    elsewhere = {t for entry in plan.entries if entry.by for t in tests_of(entry, tests)}
    for test in tests:
        run = test.kind == "pytest" or test.file in files or test in elsewhere
        area = test.stem.removesuffix("_tests")
        if not run and not (test.kind == "system" and f'"{area}"' in carried):
            wrong.append(f"{test.place}: nothing runs this file: add a row to {UNITS} or an area to"
                         " tb/system/test_system.py")  # fmt: skip
    return wrong


def timing(root, plan):
    """Checks that every module has its cycles or is listed without; a test names each path."""
    table = read_yaml(root / TIMING).get("modules") or {}
    there = modules(root)
    wrong = [f"{TIMING}: {name} is no module of rtl/" for name in table if name not in there]
    for name, path in there.items():
        if not any(name in one for one in (table, plan.wires, plan.untimed)):
            wrong.append(f"{place_of(root, path)}: {TIMING} has no entry: add it, or the reason"
                         f" under untimed in {SYNTAX}")  # fmt: skip
    tests = [text for path in sorted((root / "tb").rglob("*.py"))
             if '"efa_' in (text := path.read_text())]  # fmt: skip
    for name, paths in table.items():
        mine = [text for text in tests if f'"{name}"' in text]
        for path in paths:
            if not any(f'"{path}"' in text for text in mine):
                wrong.append(f"{TIMING}: no test measures {name}.{path}")
    return wrong


def place_of(root, path):
    """Returns a path as shown in messages."""
    return path.relative_to(root).as_posix()


def opcodes(root, plan):
    """Checks that RTL and model both implement a command, or both reject it and the plan lists it.
    """
    commands = read_yaml(root / "spec/admin.yaml").get("commands") or []
    names = [command["name"] for command in commands]
    rtl = set(re.findall(r"`EFA_ADMIN_AQ_OPCODE__(\w+)", (root / DISPATCH).read_text()))
    model = set()
    for path in sorted(root.glob(MODEL)):
        for node in ast.walk(ast.parse(path.read_text())):
            for mark in getattr(node, "decorator_list", []):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "command":
                    model.add(ast.unparse(mark.args[0]).split(".")[-1])
    wrong = [f"{SYNTAX}: refused: {n} is no command" for n in plan.refused if n not in names]
    for name in names:
        for place, done in ((DISPATCH, rtl), (MODEL, model)):
            if name in done and name in plan.refused:
                wrong.append(f"{place}: has {name}, which {SYNTAX} lists as refused")
            elif name not in done and name not in plan.refused:
                wrong.append(f"{place}: does not implement {name}: add it, or list it as refused in"
                             f" {SYNTAX}")  # fmt: skip
    return wrong


def licences(root):
    """Checks that the first line of every source, or the line after `#!`, states the licence."""
    wrong = []
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*")):
        if path.suffix in SOURCES and LICENCE not in "".join(path.read_text().split("\n")[:2]):
            wrong.append(f"{place_of(root, path)}: add the line {LICENCE}")
    return wrong


@cache
def words_of(text):
    """Returns the set of all words of a file."""
    return frozenset(re.findall(r"\w+", text))


def glossary(root):
    """Checks that every location in the glossary exists, and that no file outside it and the
    changelog uses a retired name or word."""
    text = (root / GLOSSARY).read_text()
    _, _, renamed = text.partition("## Renamed modules")
    targets = re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.M)
    files, wrong = modules(root), []
    for row in re.findall(r"^\| .* \| (.*`) \|$", text.replace(renamed, ""), re.M):
        for place in re.findall(r"`([^`]+)`", row):
            there = (
                place in files or place.removeprefix("make ") in targets
                or ("/" in place and any(root.glob(place)))
            )  # fmt: skip
            if not there and not place.startswith("ev_"):
                wrong.append(f"{GLOSSARY}: {place} is not there: follow the tree")
    retired = set(re.findall(r"^\| `(\w+)` \|", renamed, re.M))
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            used = retired & words_of(path.read_text()) if path.suffix in SOURCES else ()
            wrong += [f"{place_of(root, path)}: {one} was renamed: see {GLOSSARY}"
                      for one in sorted(used)]  # fmt: skip
    return wrong


def documents(root):
    """Checks that the pages name only paths and names of the tree, targets of the Makefile, and
    unit benches that exist. Names with a capital letter are left out: they stand for a choice."""
    listed = [path for folder in FOLDERS for path in (root / folder).rglob("*")]
    words = set()
    for path in [*listed, root / "Makefile", root / "pyproject.toml"]:
        words |= set(re.findall(r"\w+", path.relative_to(root).as_posix()))
        if path.suffix in (*SOURCES, ".toml", ".rules") or path.name == "Makefile":
            words |= words_of(path.read_text())
    targets = re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.M)
    files = [Path(name).stem.removesuffix("_tests") for name in unit_rows(root)[1]]
    wrong = []
    pages = [path for path in [*root.glob("*.md"), *root.glob("docs/**/*.md")]
             if path.name not in NO_REFERENCES]  # fmt: skip
    for path in sorted(pages):
        text, _, _ = path.read_text().partition("## Renamed modules")
        for number, line in enumerate(text.split("\n"), 1):
            missing = []
            for quote in re.findall(r"`([^`]+)`", line):
                place = quote.rstrip("/")
                if re.fullmatch(rf"({'|'.join(FOLDERS)})/[a-z0-9_./*-]+", place):
                    missing += [place] * (not any(root.glob(place)))
                names = re.findall(r"(?<![\w.<=])[a-z]\w+_[a-z0-9]\w*\b(?![*<])", quote)
                missing += [one for one in names if one not in words and one == one.lower()]
            for target, unit in re.findall(r"(?:^|`)make ([a-z-]+)\b(?: UNIT=(\w+))?", line):
                missing += [f"make {target}"] * (target not in targets)
                missing += [f"UNIT={unit}"] * (bool(unit) and not any(unit in one for one in files))
            wrong += [f"{place_of(root, path)}:{number}: {one} is not there: follow the tree"
                      for one in missing]  # fmt: skip
    return wrong


def main_modules(root):
    """Checks that the table of the main modules in README.md names only modules."""
    there = modules(root)
    _, _, table = (root / "README.md").read_text().partition("## Modules")
    return [f"README.md: {name} is no module: follow the tree"
            for name in re.findall(r"`(efa_[\w*]+)`", table)
            if not fnmatch.filter(there, name)]  # fmt: skip


def check(root):
    """Returns all inconsistencies of the tree, as lines."""
    root = Path(root)
    try:
        plan = read_plan(root)
    except (PlanError, OSError, yaml.YAMLError) as error:
        return [str(error)]
    tests = find_tests(root)
    wrong = sources(root) + ports(root) + names_of_modules(root, plan) + plan_and_tests(plan, tests)
    wrong += licences(root) + glossary(root) + documents(root) + main_modules(root)
    wrong += plan_and_bins(plan, declared_bins(root)) + statuses(root, plan.refused, tests)
    return wrong + benches(root, plan, tests) + timing(root, plan) + opcodes(root, plan)


def main(arguments):
    wrong = check(Path(arguments[0]).resolve() if arguments else ROOT)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
