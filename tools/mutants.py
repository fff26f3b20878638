# SPDX-License-Identifier: Apache-2.0
"""Builds the mutants of a block: one netlist with all mutants, selected by a number at run time.

`write` has Yosys list every possible mutant, draws some (`draw`), and writes the block with an
input `mutsel`; 0 is the unmutated block. `make` also returns the mutants. A wrapper with the
block's own name and parameters reads the number from a file `mutant` in the run's folder, so that
the block's unit bench runs unchanged.
Modules below the block stay unmutated: they have their own benches and mutants.
"""

import dataclasses
import fcntl
import hashlib
import json
import re
import shlex
import subprocess
import tempfile
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yosys_run

from tb.runner import closure

ROOT = Path(__file__).resolve().parent.parent
OUT = Path("sim/out/mutate")
FLAGS = "-DSYNTHESIS -Irtl/gen -Irtl/include"
NUMBER_W = 16
FORM = b"3"  # of the netlist; stored results of another form are invalid
ALL = 10_000_000  # more mutants than a block can have
CLOCK = re.compile(r"\.(CLK|clk)\[")  # a clock is no logic
CONTROL = re.compile(rf"(-ctrl mutsel {NUMBER_W}) \d+")
PROOFS = {"proof": "*", "deep": "*efa_ram*"}  # and the modules below that are black boxes
HEADER = re.compile(r"^module\s+(\w+).*?^\);", re.MULTILINE | re.DOTALL)
SITE = re.compile(r"\w+ (\S+)\.\w+\[\d+\](?: (\S+)\[\d+\])?")
PORT = re.compile(r"^\s*(?:input|output)\b.*?(\w+)\s*,?\s*(?://.*)?$", re.MULTILINE)


class YosysFailed(Exception):
    """Reports that Yosys rejected a script; the text is its last lines."""


class YosysLate(YosysFailed):
    """Reports that Yosys exceeded its time limit."""


@dataclass(frozen=True)
class Mutant:
    """One fault: its number, its effect, its bit, and its source line."""

    number: int
    name: str
    file: str
    line: int
    command: str

    @property
    def source(self):
        """Returns the text of that line."""
        return _lines(self.file)[self.line - 1].strip()

    @property
    def site(self):
        """Returns what the fault is part of: its source line, and there its wire or kind of cell.
        """
        cell, wire = SITE.match(self.name).groups()
        return self.source, wire or cell


@cache
def _lines(file):
    return (ROOT / file).read_text().split("\n")


def yosys(*commands, seconds=None):
    """Runs commands from the project's root; raises YosysFailed, also on a timeout."""
    try:
        status, text = yosys_run.run("; ".join(commands), seconds)
    except subprocess.TimeoutExpired:
        raise YosysLate(f"no end in {seconds} s") from None
    if status:
        raise YosysFailed("\n".join(text.splitlines()[-6:]))


@contextmanager
def scratch():
    """Gives a folder, relative to the project's root, that is removed at the end."""
    (ROOT / OUT).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / OUT) as folder:
        yield Path(folder).relative_to(ROOT)


@contextmanager
def locked(folder):
    """Excludes the other processes of this checkout from a folder of OUT, which it creates."""
    (ROOT / folder).mkdir(parents=True, exist_ok=True)
    with open(ROOT / folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_once(folder, key, write):
    """Calls `write`, which writes the files of a folder, unless an earlier call with the same key
    did; parallel calls wait for the first."""
    with locked(folder):
        made = ROOT / folder / "made"
        if made.exists() and made.read_text() == key:
            return
        made.unlink(missing_ok=True)
        write()
        made.write_text(key)


def files_below(top):
    """Returns the sources of the modules below a module."""
    return [path for path in closure(top) if path.stem != top]


def parse(line):
    """Returns the Mutant of a line of Yosys's list, None for the unchanged block and for a cell
    that Yosys added, which has no source line."""
    words = shlex.split(line.replace("\\", "\\\\"))
    message = {"src": []}
    at = 1
    while at < len(words):
        name = words[at].lstrip("-")
        if name == "ctrl":
            message["number"] = int(words[at + 3])
            at += 4
            continue
        if name == "src":
            message["src"].append(words[at + 1])
        else:
            message[name] = words[at + 1]
        at += 2
    if message["mode"] == "none" or not message["src"]:
        return None
    # The first source is that of the wire if there is one, the next that of the cell.
    place = message["src"][1 if "wire" in message and len(message["src"]) > 1 else 0]
    file, _, where = place.rpartition(":")
    kind = message["cell"].split("$")[1] if message["cell"].startswith("$") else message["cell"]
    name = f"{message['mode']} {kind}.{message['port']}[{message['portbit']}]"
    if "wire" in message:
        name += f" {message['wire']}[{message['wirebit']}]"
    if "ctrlbit" in message:
        name += f" by {message['ctrlbit']}"
    return Mutant(message["number"], name, file, int(where.split(".")[0]), line.strip())


def rank(*parts):
    """Returns a place in a random order that depends on the parts alone."""
    return hashlib.sha256(repr(parts).encode()).digest()


def name_apart(mutants):
    """Returns the mutants with a count behind each name that an earlier mutant of the same source
    line has."""
    seen, found = Counter(), []
    for one in mutants:
        seen[one.source, one.name] += 1
        copy = seen[one.source, one.name]
        found.append(one if copy == 1 else dataclasses.replace(one, name=f"{one.name} ({copy})"))
    return found


def draw(mutants, count, seed):
    """Returns `count` of the mutants, one of each site before a second one of any, with new
    numbers.

    A hash of seed, source line and name decides, so an edit of one line leaves the faults of the
    other lines as they are, with their verdicts.
    """
    sites = defaultdict(list)
    for one in sorted(mutants, key=lambda one: rank(seed, one.source, one.name)):
        sites[one.site].append(one)
    ranked = [(turn, rank(seed, *site), one) for site, mine in sites.items()
              for turn, one in enumerate(mine)]  # fmt: skip
    drawn = sorted(ranked, key=lambda item: item[:2])[:count]
    found = []
    for number, (_, _, one) in enumerate(drawn, 1):
        command = CONTROL.sub(rf"\g<1> {number}", one.command)
        found.append(dataclasses.replace(one, number=number, command=command))
    return found


def make(top, parameters, others, count, seed):
    """Returns (drawn mutants, sources to build instead of the block's own, all possible mutants);
    writes the files of the block as `write` does."""
    sources = write(top, parameters, others, count, seed)
    rows = json.loads((ROOT / OUT / top / "possible.json").read_text())
    possible = [Mutant(*row) for row in rows]
    return draw(possible, count, seed), sources, possible


def write(top, parameters, others, count, seed):
    """Writes the mutants of a block; returns the sources to build instead of the block's own:
    `others` are the files below it. The netlist has one set of parameters; an instance with other
    parameters does not build. Files of an earlier call with the same inputs are used again."""
    file = next(path for path in sorted((ROOT / "rtl").rglob(f"{top}.v")))
    key = inputs(file, others, parameters, count, seed)
    make_once(OUT / top, key, lambda: _write(file, parameters, others, count, seed))
    return [ROOT / OUT / top / f"{top}.v", ROOT / OUT / top / f"{top}_mutant.v"]


def _write(file, parameters, others, count, seed):
    top, folder = file.stem, OUT / file.stem
    chparam = "".join(f" -chparam {name} {value}" for name, value in parameters.items())
    below = [str(path.relative_to(ROOT)) for path in others]
    yosys(
        *([f"read_verilog -lib {FLAGS} {' '.join(below)}"] if below else []),
        # An array becomes registers: ports of a memory are cells whose clock no mutant may change.
        f"read_verilog -defer -mem2reg {FLAGS} {file.relative_to(ROOT)}",
        f"hierarchy -check -top {top}{chparam}",
        # A case of constants as a memory would have mutants in its contents, which no tool writes.
        "proc -norom",
        "opt_clean",
        f"rename -top {top}_mutant",
        f"write_rtlil {folder}/base.il",
        f"mutate -list {ALL} -ctrl mutsel {NUMBER_W} 0 -o {folder}/all.ys",
    )
    lines = (ROOT / folder / "all.ys").read_text().splitlines()
    found = [mutant for mutant in map(parse, lines) if mutant is not None]
    possible = name_apart([mutant for mutant in found if not CLOCK.search(mutant.name)])
    # The list is long: its text takes half a minute to parse, this file less than a second.
    rows = [dataclasses.astuple(one) for one in possible]
    (ROOT / folder / "possible.json").write_text(json.dumps(rows))
    mutants = draw(possible, count, seed)
    commands = [f"mutate -ctrl mutsel {NUMBER_W} 0 -mode none", *(one.command for one in mutants)]
    (ROOT / folder / "list.ys").write_text("\n".join(commands) + "\n")
    yosys(
        f"read_rtlil {folder}/base.il",
        f"script {folder}/list.ys",
        f"write_verilog -noattr -noparallelcase {folder}/{top}_mutant.v",
    )
    write_proofs(folder, top, others, PROOFS)
    (ROOT / folder / f"{top}.v").write_text(wrapper(file.read_text(), parameters))


def inputs(file, others, parameters, count, seed):
    """Returns the digest of everything that the mutants of a module depend on."""
    tools = [Path(__file__), Path(__file__).with_name("wiring.py"), ROOT / "requirements.lock"]
    state = hashlib.sha256(repr((sorted(parameters.items()), count, seed)).encode())
    for path in (*tools, file, *sorted(others), *sorted((ROOT / "rtl").rglob("*.vh"))):
        state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()


def write_proofs(folder, top, others, names):
    """Writes the netlists of the proofs, from base.il. A proof needs the modules below as black
    boxes with their real widths; if that is not sufficient, only memories are black boxes."""
    below = " ".join(str(path.relative_to(ROOT)) for path in others)
    for name in names:
        yosys(
            f"read_rtlil {folder}/base.il",
            "delete =A:blackbox",
            *([f"read_verilog -defer {FLAGS} {below}"] if below else []),
            f"hierarchy -check -top {top}_mutant",
            f"blackbox {PROOFS[name]} {top}_mutant %d",
            "proc -norom",
            f"write_rtlil {folder}/{name}.il",
        )


def wrapper(text, parameters):
    """Returns a module with the header of `text` around its mutants, for these parameters."""
    header = HEADER.search(text)
    ports = PORT.findall(header.group(0))
    includes = "\n".join(re.findall(r"^`include .*$", text, re.MULTILINE))
    joined = "".join(f"      .{port}({port}),\n" for port in ports)
    rules = "".join(
        f"  generate if ({name} != {value}) efa_other_{name.lower()} u_illegal_{name.lower()} ();\n"
        "  endgenerate\n" for name, value in parameters.items()
    )  # fmt: skip
    return (
        f"{includes}\n{header.group(0).replace('output reg', 'output wire')}\n"
        f"  reg [{NUMBER_W - 1}:0] mutsel;\n"
        "  integer file;\n  initial begin\n    mutsel = 0;\n"
        '    file = $fopen("mutant", "r");\n'
        '    if (file != 0 && $fscanf(file, "%d", mutsel) != 1) $stop;\n  end\n'
        f"{rules}  {header.group(1)}_mutant u_mutant (\n"
        f"{joined}      .mutsel(mutsel)\n  );\nendmodule\n"
    )
