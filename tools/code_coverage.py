# SPDX-License-Identifier: Apache-2.0
"""Merges the RTL coverage of all runs, applies the waivers, writes reports/coverage/code*.

    tools/code_coverage.py FOLDER [--some]

FOLDER holds the counts that runs write through tb/code_coverage.py. A point is a line, a branch, a
term of an expression or an edge of a bit; it counts once for all instances and parameter sets.
A bit that is constant in every build of the device is no point (tools/constant_bits.py), unless a
unit bench moved it. tb/coverage_waivers.yaml names the other unreachable points, each with its
reason; a waiver for a reached or constant point, or without a match, is an error. With --some, only
some benches ran: the holes are printed, goals and waivers without a match are not checked.

Exit status 1 if a waiver is wrong or a folder misses its goal, 2 if there is nothing to merge, if
the counts are not those of the known Verilator, or if Yosys fails.
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import constant_bits
import yaml
from mutants import YosysFailed

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "reports/coverage"
WAIVERS = ROOT / "tb/coverage_waivers.yaml"
KINDS = ("line", "branch", "expression", "toggle")
GOALS = {
    folder: {"line": 100, "branch": 100, "expression": 95, "toggle": 95}
    for folder in ("rtl", "rtl/admin", "rtl/common", "rtl/data", "rtl/host", "rtl/queue",
                   "rtl/rdma", "rtl/transport")
}  # fmt: skip
# Form of a point in Verilator's files; NAMED: the kind of point for each Verilator page.
POINT = re.compile(r"C '([^']*)' (\d+)$", re.MULTILINE)
BIT = re.compile(r"(.*)\[(\d+)\]:(.*)")
NAMED = {"toggle": "toggle", "expr": "expression", "branch": "branch"}


class Point(NamedTuple):
    """A point: its file and line, its kind (KINDS), and its name within the line."""

    file: str
    kind: str
    line: int
    name: str


class BusEdge(NamedTuple):
    """An edge of the bits of a bus: file and line of the bus, its name, and the edge."""

    file: str
    line: int
    bus: str
    edge: str


class Counts(NamedTuple):
    """The counts of one run: all points and the reached ones; the bits of each BusEdge and those
    that moved, as masks, because there are many."""

    points: set[Point]
    reached: set[Point]
    bits: dict[BusEdge, int]
    moved: dict[BusEdge, int]


class WrongCounts(Exception):
    """The counts of a bus are not those of the known Verilator; the text names the bus."""


def read(path):
    """Returns the Counts of one run."""
    points, reached = set(), set()
    bits, moved = defaultdict(int), defaultdict(int)
    buses = defaultdict(dict)
    for attributes, count in POINT.findall(path.read_text()):
        text = dict(part.split("\2", 1) for part in attributes.split("\1")[1:])
        file = "rtl/" + text["f"].rpartition("/rtl/")[2]
        line, name = int(text["l"]), text["o"]
        kind = NAMED.get(text["t"])
        bus = BIT.fullmatch(name) if kind == "toggle" else None
        if bus is not None:
            buses[BusEdge(file, line, bus[1], bus[3]), text["h"]][int(bus[2])] = int(count)
            continue
        found = []
        if kind is None:
            # A block of statements; arms of cases and else-ifs are branches too.
            kind = None if name == "block" else "branch"
        if kind is not None:
            place = f"{name} @{text['n']}" if kind == "branch" else name
            found.append(Point(file, kind, line, place))
        if "S" in text:
            for part in text["S"].split(","):
                first, _, last = part.partition("-")
                for number in range(int(first), int(last or first) + 1):
                    found.append(Point(file, "line", number, f"{text['l']}.{text['n']}"))
        points.update(found)
        if count != "0":
            reached.update(found)
    for (key, instance), counts in buses.items():
        for bit, count in edges(counts, f"{path}: {instance}.{key.bus}").items():
            bits[key] |= 1 << bit
            moved[key] |= (count > 0) << bit
    return Counts(points, reached, dict(bits), dict(moved))


def edges(counts, name):
    """Returns the edges of each bit of a bus, {bit: count}, from what Verilator counted.

    Verilator 5.48 counts an edge in a bus wider than 64 bits again at the bits 32, 64, 96, ...
    above: VL_COV_TOGGLE_CHG_ST_W does not stop at the end of a word. The edges of a bit are its
    count less the count 32 bits below. Raises WrongCounts if that is negative.
    """
    if len(counts) <= 64:
        return counts
    found = {bit: count - counts.get(bit - 32, 0) for bit, count in counts.items()}
    if min(found.values()) < 0:
        bit = min(found, key=found.get)
        raise WrongCounts(f"{name}[{bit}]: {counts[bit]} edges, but {counts[bit - 32]} at bit "
                          f"{bit - 32}: this Verilator does not count as 5.48 does, see edges() in "
                          "tools/code_coverage.py")  # fmt: skip
    return found


def single(buses):
    """Returns the points of single bits."""
    return {
        Point(one.file, "toggle", one.line, f"{one.bus}[{bit}]:{one.edge}")
        for one, mask in buses.items()
        for bit in range(mask.bit_length()) if mask >> bit & 1
    }  # fmt: skip


def merge(paths):
    """Returns the points of all runs and the points that some run reached. A line with several
    blocks of statements is one point, reached when all of its blocks are reached."""
    points, reached = set(), set()
    bits, moved = defaultdict(int), defaultdict(int)
    with ProcessPoolExecutor() as pool:
        for run in pool.map(read, paths):
            points |= run.points
            reached |= run.reached
            for total, some in ((bits, run.bits), (moved, run.moved)):
                for key, mask in some.items():
                    total[key] |= mask
    points |= single(bits)
    reached |= single(moved)
    parts = defaultdict(set)
    for point in [point for point in points if point.kind == "line"]:
        points.discard(point)
        parts[point._replace(name="")].add(point)
    for line, blocks in parts.items():
        points.add(line)
        if blocks <= reached:
            reached.add(line)
    return points, reached & points


@dataclass
class Waiver:
    """Points that no run can reach: a file, a pattern for the source line, a pattern for the point,
    and a pattern for that line with its neighbours where the others are ambiguous."""

    file: str
    line: str
    reason: str
    kinds: tuple = KINDS
    points: str = ""
    near: str = ""
    bits: str = ""
    at_power_up: bool = False  # a run may reach the point before its first reset

    def _has_bit(self, name):
        """Returns True if a point is an edge of one of `bits`, ranges as "15:8,3"; empty means all
        bits."""
        if not self.bits:
            return True
        found = BIT.fullmatch(name)
        ranges = [part.split(":") for part in self.bits.replace(" ", "").split(",")]
        return found is not None and any(
            int(low) <= int(found[2]) <= int(high) for high, low in ((r[0], r[-1]) for r in ranges)
        )

    def matches(self, point, sources):
        source, line = sources[point.file], point.line
        return (
            point.file == self.file
            and point.kind in self.kinds
            and re.search(self.line, source[line - 1]) is not None
            and re.search(self.points, point.name) is not None
            and self._has_bit(point.name)
            and re.search(self.near, "\n".join(source[line - 2 : line + 1])) is not None
        )


def read_waivers(path):
    """Returns the waivers of a file."""
    entries = yaml.safe_load(path.read_text()) or [] if path.exists() else []
    return [Waiver(**{**entry, "kinds": tuple(entry.get("kinds", KINDS))}) for entry in entries]


def waive(points, reached, waivers, sources, whole=True):
    """Returns the waived points and the errors of the waivers; only a complete run can detect a
    waiver without a match."""
    by_file = defaultdict(list)
    for point in points:
        by_file[point.file].append(point)
    waived, wrong = set(), []
    for waiver in waivers:
        mine = {point for point in by_file[waiver.file] if waiver.matches(point, sources)}
        text = f"{WAIVERS.relative_to(ROOT)}: {waiver.file} /{waiver.line}/ /{waiver.points}/"
        if not waiver.reason.strip():
            wrong.append(f"{text}: has no reason")
        if whole and not mine:
            wrong.append(f"{text}: matches nothing, or only constant bits: take it out")
        if mine & reached and not waiver.at_power_up:
            one = min(mine & reached)
            wrong.append(f"{text}: line {one.line}, {one.kind} {one.name} was reached, take it out")
        waived |= mine
    return waived - reached, wrong


def constants(points, signals):
    """Returns the points of bits that are constant in the device (constant_bits.ConstantBits)."""
    found = set()
    for point in points:
        if point.kind == "toggle":
            bus = BIT.fullmatch(point.name)
            base, bit = (bus[1], int(bus[2])) if bus else (point.name.rpartition(":")[0], 0)
            if signals.has(point.file, point.line, base, bit):
                found.add(point)
    return found


def shares(points, reached, waived):
    """Returns {kind: {points, reached, waived, percent}}; waived points do not count."""
    found = {}
    for kind in KINDS:
        mine = {point for point in points if point.kind == kind}
        total, hit = len(mine - waived), len(mine & reached)
        percent = round(100 * hit / total, 2) if total else 100.0
        found[kind] = {
            "points": total, "reached": hit, "waived": len(mine & waived), "percent": percent
        }  # fmt: skip
    return found


def holes_of(points, sources):
    """Returns {file: [{line, source, kind, points}]} of unreached points; bits of a bus in one row.
    """
    rows = defaultdict(lambda: defaultdict(list))
    for point in points:
        rows[point.file][point.line, point.kind].append(point.name)
    return {
        file: [
            {"line": number, "source": sources[file][number - 1].strip(), "kind": kind,
             "points": bits(names) if kind == "toggle" else sorted(filter(None, names))}
            for (number, kind), names in sorted(by_line.items())
        ]
        for file, by_line in sorted(rows.items())
    }  # fmt: skip


def bits(names):
    """Returns ["a[3:0] 0->1", ...] from single bits and edges."""
    found = defaultdict(list)
    for name in names:
        signal, _, edge = name.rpartition(":")
        base, _, index = signal.rpartition("[")
        if base and index[:-1].isdigit():
            found[base, edge].append(int(index[:-1]))
        else:
            found[signal, edge] += []
    text = []
    for (base, edge), numbers in sorted(found.items()):
        runs = []
        for number in sorted(numbers, reverse=True):
            if runs and runs[-1][1] == number + 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        parts = ",".join(f"{a}:{b}" if a != b else f"{a}" for a, b in runs)
        text.append(f"{base}{f'[{parts}]' if parts else ''} {edge}")
    return text


def lcov(points, reached):
    """Returns lines and branches in the format of lcov tools (genhtml)."""
    text = []
    for file in sorted({point.file for point in points}):
        text.append(f"SF:{ROOT / file}")
        for name, kind in (("DA", "line"), ("BRDA", "branch")):
            mine = sorted(one for one in points if one.file == file and one.kind == kind)
            for at, point in enumerate(mine):
                hit = int(point in reached)
                text.append(f"{name}:{point.line},{hit}" if kind == "line" else
                            f"{name}:{point.line},0,{at},{hit}")  # fmt: skip
        text.append("end_of_record")
    return "\n".join(text) + "\n"


def table(rows):
    """Returns one line per folder or file."""
    text = [f"{'':34}" + "".join(f"{kind:>12}" for kind in KINDS) + "   waived"]
    for name, share in rows:
        values = "".join(f"{share[kind]['percent']:10.2f} %" for kind in KINDS)
        text.append(f"{name:34}{values}{sum(share[kind]['waived'] for kind in KINDS):9}")
    return text


def report(points, reached, waived, wrong, runs, sources, whole):
    """Writes the summary, the table with its holes and lcov's file; returns the printed lines and
    the failures."""
    files = sorted({point.file for point in points})
    by_file = defaultdict(lambda: (set(), set(), set()))
    for at, group in enumerate((points, reached, waived)):
        for point in group:
            for name in (point.file, str(Path(point.file).parent)):
                by_file[name][at].add(point)
    folders = sorted({str(Path(file).parent) for file in files})
    share = {name: shares(*by_file[name]) for name in [*folders, *files]}
    missed = [
        f"{folder}: {kind} {share[folder][kind]['percent']} %, goal {goal} %"
        for folder, goals in GOALS.items() if whole and folder in share
        for kind, goal in goals.items() if share[folder][kind]["percent"] < goal
    ]  # fmt: skip
    holes = holes_of(points - reached - waived, sources)
    OUT.mkdir(parents=True, exist_ok=True)
    summary = {
        "runs": runs, "goals": GOALS, "missed": missed, "wrong_waivers": wrong,
        "folders": {folder: share[folder] for folder in folders},
        "files": {file: share[file] for file in files}, "holes": holes,
    }  # fmt: skip
    (OUT / "code.json").write_text(json.dumps(summary, indent=1) + "\n")
    (OUT / "code.info").write_text(lcov(points, reached))
    page = table([(name, share[name]) for name in [*folders, *files]])
    for file, rows in holes.items():
        page += ["", file]
        for row in rows:
            page.append(f"  {row['line']:4} {row['kind']:10} {row['source']}")
            page += [f"       {' ' * 10} {point}" for point in row["points"]]
    (OUT / "code.txt").write_text("\n".join(page) + "\n")
    text = table([(name, share[name]) for name in folders]) if whole else page
    return text, [*wrong, *(f"missed: {line}" for line in missed)]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--some", action="store_true", help="not all benches ran")
    args = parser.parse_args(arguments)
    paths = sorted(args.folder.glob("*.dat"))
    if not paths:
        print("code coverage: no counts; `make cover` makes them", file=sys.stderr)
        return 2
    try:
        points, reached = merge(paths)
        constant = constants(points - reached, constant_bits.find())
    except (WrongCounts, YosysFailed) as error:
        print(f"code coverage: {error}", file=sys.stderr)
        return 2
    points -= constant
    sources = {
        file: (ROOT / file).read_text().split("\n") for file in {point.file for point in points}
    }
    waived, wrong = waive(points, reached, read_waivers(WAIVERS), sources, not args.some)
    text, bad = report(points, reached, waived, wrong, len(paths), sources, not args.some)
    print("\n".join([*text, *bad]))
    print(f"code coverage: {len(paths)} runs, {len(constant)} edges of constant bits left out, "
          f"{(OUT / 'code.txt').relative_to(ROOT)}")  # fmt: skip
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
