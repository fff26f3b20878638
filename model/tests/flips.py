# SPDX-License-Identifier: Apache-2.0
"""Changes each value of spec/*.yaml separately and checks that the golden values detect the change.

    make flips                  # all changes, reports/flips/summary.json

A change is detected if the generator rejects the description or if the description differs from the
golden values. Values that the host cannot observe are counted with the tests that check them.
"""

import json
import sys
import time
from collections import Counter, defaultdict
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tools", "model", "model/tests")]

from facts import ELSEWHERE, PROSE, as_golden, differences, read_golden  # noqa: E402 - see above
from spec_read import SpecError, check, documents  # noqa: E402 - needs the path above

OTHER = {
    "ro": "wo", "wo": "ro", "le": "be", "be": "le", "bytes": "le", "u8": "u16", "u16": "u32",
    "u32": "u16", "u64": "u32", "uncached": "write_combine", "write_combine": "uncached",
}  # fmt: skip
# Mappings whose keys are names of values.
KEYED = ("constants", "limits", "profiles", "command_statuses")
TESTS = "model/tests/test_statuses.py: each test shows the statuses that the table names"
OUTCOMES = ("refused", "golden", "elsewhere", "missed")


class Flip(NamedTuple):
    """One change: `apply` makes the change and returns the function that reverts it; `holder` names
    the test of a value that the host cannot observe."""

    file: str
    place: str
    kind: str
    apply: object
    holder: str | None


def other(value):
    """Returns a different value of the same form."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if value is None:
        return "efa_common_mem_addr"
    if value in OTHER:
        return OTHER[value]
    if value and set(value) <= set("0123456789abcdef"):
        return value[:-1] + ("0" if value[-1] != "0" else "1")
    return value + ("X" if value.isupper() else "_x")


def bare(node):
    """Returns a row without its prose."""
    return {k: v for k, v in node.items() if k not in PROSE} if isinstance(node, dict) else node


def putting(container, key, value):
    """Sets an element; the returned function restores the old element."""

    def apply():
        old = container[key]
        container[key] = value
        return lambda: container.__setitem__(key, old)

    return apply


def remaking(mapping, items):
    """Replaces the items of a mapping; the returned function restores the old items."""

    def apply():
        old = dict(mapping)
        mapping.clear()
        mapping.update(items)

        def back():
            mapping.clear()
            mapping.update(old)

        return back

    return apply


def exchanging(first, second, key):
    """Exchanges the values of one key between two mappings."""

    def swap():
        first[key], second[key] = second[key], first[key]
        return swap

    return swap


def dropping(rows, index):
    """Removes a row from a list."""

    def apply():
        row = rows.pop(index)
        return lambda: rows.insert(index, row)

    return apply


def scan(file, node, place, holder):
    """Yields every change below a node."""
    if isinstance(node, list):
        yield from scan_list(file, node, place, holder)
        return
    section = place.split(".")[0]
    named = section in KEYED and place.count(".") <= (section in ("profiles", "command_statuses"))
    items = list(node.items())
    for index, (key, value) in enumerate(items):
        here = f"{place}.{key}" if place else str(key)
        if key in PROSE or (section == "doorbells" and key == "value"):
            continue
        if key == "tests" and section == "command_statuses":
            held = TESTS
        else:
            held = ELSEWHERE.get(key, holder) if not place else holder
        if isinstance(value, dict | list):
            yield from scan(file, value, here, held)
        else:
            yield Flip(file, here, "value", putting(node, key, other(value)), held)
        rest = items[:index] + items[index + 1 :]
        yield Flip(file, here, "key removed", remaking(node, rest), held)
        if named and place:
            renamed = [*items[:index], (f"{key}_x", value), *items[index + 1 :]]
            yield Flip(file, here, "key renamed", remaking(node, renamed), held)
            if index + 1 < len(items) and bare(items[index + 1][1]) != bare(value):
                after, following = items[index + 1]
                pair = [(key, following), (after, value)]
                both = [*items[:index], *pair, *items[index + 2 :]]
                # If the statuses stay, the change exchanges their tests.
                shown = TESTS if section == "command_statuses" else held
                yield Flip(file, here, f"exchanged with {after}", remaking(node, both), shown)


def scan_list(file, rows, place, holder):
    """Yields the changes of a list: each row changed, a row removed, names and numbers exchanged.
    """
    for index, row in enumerate(rows):
        name = row.get("name", index) if isinstance(row, dict) else index
        here = f"{place}.{name}"
        if isinstance(row, dict | list):
            yield from scan(file, row, here, holder)
        else:
            yield Flip(file, here, "value", putting(rows, index, other(row)), holder)
        yield Flip(file, here, "row removed", dropping(rows, index), holder)
        following = rows[index + 1] if index + 1 < len(rows) else None
        if isinstance(row, dict) and isinstance(following, dict):
            words = {"value"} if place == "doorbells" else set()
            inner = {"fields", "bits", "values"}
            for key in sorted(row.keys() & following.keys() - PROSE - inner - words):
                if row[key] != following[key]:
                    kind = f"{key} exchanged with {following.get('name', index + 1)}"
                    yield Flip(file, here, kind, exchanging(row, following, key), holder)


def flips(parsed):
    """Yields every change of the parsed files."""
    for file, document in parsed.items():
        yield from scan(file, document, "", None)


def scalars(node, section=None):
    """Counts the scalars below a node: values and prose."""
    count = Counter()
    pairs = node.items() if isinstance(node, dict) else ((section, row) for row in node)
    for key, value in pairs:
        if isinstance(value, dict | list):
            prose = key in PROSE or key == "sources"
            inside = scalars(value, key)
            count += Counter(prose=inside.total()) if prose else inside
        else:
            count["prose" if key in PROSE else "values"] += 1
    return count


class Judge:
    """Reports which check detects a change; the unchanged files match the golden values."""

    def __init__(self):
        self.parsed = documents(ROOT / "spec")
        golden = read_golden()
        wrong = differences(golden, as_golden(self.parsed))
        assert not wrong, wrong
        # A copy, because the changes are made in the parsed files themselves.
        self.whole = {file: deepcopy(as_golden({file: d})) for file, d in self.parsed.items()}

    def verdict(self, flip):
        """Applies a change, returns one of OUTCOMES and reverts the change."""
        back = flip.apply()
        try:
            try:
                ours = as_golden({flip.file: self.parsed[flip.file]})
                if differences(self.whole[flip.file], ours):
                    return "golden"
            except (KeyError, TypeError, AttributeError, AssertionError, IndexError):
                return "golden"
            try:
                check(self.parsed)
            except SpecError:
                return "refused"
            return "elsewhere" if flip.holder else "missed"
        finally:
            back()


def report(counts, held, missed, seconds):
    """Writes reports/flips/summary.json; returns its path."""
    path = ROOT / "reports/flips/summary.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"files": counts, "elsewhere": held, "missed": missed, "seconds": round(seconds, 1)}
    path.write_text(json.dumps(whole, indent=1) + "\n")
    return path


def main():
    started, judge = time.monotonic(), Judge()
    counts, held, missed = {}, defaultdict(Counter), []
    for file, document in judge.parsed.items():
        counts[file] = Counter(scalars(document))
    everything = list(flips(judge.parsed))
    for flip in everything:
        response = judge.verdict(flip)
        counts[flip.file][response] += 1
        if response == "elsewhere":
            held[flip.file][flip.holder] += 1
        elif response == "missed":
            missed.append(f"{flip.file}: {flip.place}: {flip.kind}")
    columns = ("values", "prose", *OUTCOMES)
    print(f"{'':22}" + "".join(f"{name:>10}" for name in columns))
    for file, row in counts.items():
        print(f"{file:22}" + "".join(f"{row[name]:10}" for name in columns))
    for file, holders in held.items():
        for holder, number in holders.items():
            print(f"{file}: {number} changes held by {holder}")
    for line in missed:
        print(f"missed: {line}")
    path = report(counts, held, missed, time.monotonic() - started)
    noticed = sum(row["golden"] + row["refused"] for row in counts.values())
    print(f"{len(everything)} changes, {noticed} noticed, {len(missed)} missed; "
          f"{path.relative_to(ROOT)}")  # fmt: skip
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
