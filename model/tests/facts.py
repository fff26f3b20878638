# SPDX-License-Identifier: Apache-2.0
"""Reads the golden values (model/tests/golden) and converts spec/*.yaml to their form.

    golden = read_golden()          # section: {name: values}, of the fact sheet and of this device
    differences(golden, as_golden(documents("spec")))

The module uses no part of the generator, so both sides of a comparison cannot share an error.
"""

import re
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).resolve().parent / "golden"
FILES = ("bus", "enums", "structs", "device")
# Prose in the YAML and the source of each fact. These keys hold no value of the interface.
PROSE = {
    "desc", "doc", "src", "note", "since", "used_for", "when", "over", "legacy_name",
    "access_note", "reset_note", "revision_and_subsystem", "eq_vectors", "requested",
}  # fmt: skip
# Sections that the host cannot observe, with the tests that fail when a value changes.
ELSEWHERE = {
    "sources": "prose: the public files the facts were read in",
    "internal_structs": "make lint (widths against the RTL) and the unit benches of the bundles",
    "modules": "unit benches, cycle model: cycles of a module measured against the table",
    "parameters": "model/tests/test_cycle*.py, tb/cycle: cycle model against the RTL",
    "milestones": "model/tests/test_cycle*.py, tb/cycle: cycle model against the RTL",
    "stages": "model/tests/test_cycle*.py, tb/cycle: cycle model against the RTL",
    "plan": "make lint and model/tests/test_tree.py: plan against tests and bins",
    "units": "make lint and model/tests/test_tree.py: plan against modules and benches",
    "wires": "make lint and model/tests/test_tree.py",
    "through": "make lint and model/tests/test_tree.py",
    "untimed": "make lint and model/tests/test_tree.py",
    "refused": "make lint and model/tests/test_tree.py",
    "transport": "model/tests/test_transport.py: targets of the packet engine",
}
# Places where the order of rows matters: the row of an event is its number; if two enum names have
# one value, Python uses the first name.
ORDERED = re.compile(r"events\.|enums\.\w+\.")
BYTE_STRING = re.compile(r"u8\[\d+\]")


@cache
def read_golden():
    """Returns the golden values by section; enums and structs of the fact sheet precede the local
    ones."""
    whole = {}
    for name in FILES:
        for section, values in yaml.safe_load((GOLDEN / f"{name}.yaml").read_text()).items():
            known = whole.setdefault(section, {})
            assert not known.keys() & values.keys(), f"{name}.yaml: {section} given twice"
            known.update(values)
    return whole


@cache
def read_images():
    """Returns the golden images: `golden_vectors` of the fact sheet, `struct_images` of each
    struct."""
    return yaml.safe_load((GOLDEN / "images.yaml").read_text())


def image_bytes(image):
    """Returns the bytes of a golden image; a number in a list stands for that many zero bytes."""
    pieces = image if isinstance(image, list) else [image]
    return b"".join(bytes(p) if isinstance(p, int) else bytes.fromhex(p) for p in pieces)


def _rest(raw, *used):
    """Returns the keys of a row that are neither prose nor handled elsewhere."""
    return {key: value for key, value in raw.items() if key not in used and key not in PROSE}


def _row(values, rest):
    return [*values, rest] if rest else [*values]


def _bits(raws):
    return {
        raw["name"]: [raw["lsb"], raw["width"], *_rest(raw, "name", "lsb", "width").values()]
        for raw in raws
    }


def _enum(raw):
    values = {}
    for value in raw["values"]:
        others = list(_rest(value, "name", "value").values())
        values[value["name"]] = [value["value"], *others] if others else value["value"]
    return values


def _field(raw):
    rest = _rest(raw, "name", "offset", "size", "type", "endian", "bits", "gap")
    if raw["endian"] != ("bytes" if BYTE_STRING.fullmatch(str(raw["type"])) else "le"):
        rest["endian"] = raw["endian"]
    if "bits" in raw:
        rest["bits"] = _bits(raw["bits"])
    return _row([raw["offset"], raw["size"], raw["type"]], rest)


def _struct(raw):
    fields = {field["name"]: _field(field) for field in raw["fields"]}
    return {**_rest(raw, "name", "fields"), "fields": fields}


def _register(raw):
    rest = _rest(raw, "name", "offset", "access", "reset", "fields")
    if "fields" in raw:
        rest |= _bits(raw["fields"])
    return _row([raw["offset"], raw["access"], raw["reset"]], rest)


def _doorbell(raw):
    # `value` describes the word of a doorbell without fields.
    fields = {"fields": _bits(raw["fields"])} if "fields" in raw else {}
    return {**_rest(raw, "name", "fields", "value"), **fields}


def _event(raw):
    widths = {field["name"]: [field["bits"], field["enum"]] if "enum" in field else field["bits"]
              for field in raw["fields"]}  # fmt: skip
    return {**_rest(raw, "name", "fields"), **widths}


def _pci(raw):
    return {
        **_rest(raw),
        "device_ids": [one["id"] for one in raw["device_ids"]],
        "class_code": raw["class_code"]["value"],
        "bars": [_rest(bar) for bar in raw["bars"]],
        "msix": _rest(raw["msix"]),
    }


def _registers(raw):
    rows = {register["name"]: _register(register) for register in raw["list"]}
    return {**_rest(raw, "list"), "list": rows}


def _by_name(make):
    def rows(raws):
        made = {raw["name"]: make(raw) for raw in raws}
        assert len(made) == len(raws), "a name is given twice"
        return made

    return rows


SECTIONS = {
    "pci": ("pci", _pci),
    "config_space": ("config_space", _by_name(
        lambda raw: [raw["offset"], raw["size"], raw["value"], raw.get("writable", 0)])),
    "constants": ("constants", lambda raw: {
        name: row["value"] for name, row in raw.items() if not _rest(row, "value")}),
    "crc16": ("crc16", _rest),
    "registers": ("registers", _registers),
    "doorbells": ("doorbells", _by_name(_doorbell)),
    "enums": ("enums", _by_name(_enum)),
    "structs": ("structs", _by_name(_struct)),
    "pbl_chunk": ("structs", lambda raw: {"efa_pbl_chunk": _struct(raw)}),
    "commands": ("commands", _by_name(
        lambda raw: [raw["opcode"], raw["request"], raw["response"]])),
    "features": ("features", _by_name(lambda raw: [raw["id"], raw["get"], raw["set"]])),
    "limits": ("limits", dict),
    "profiles": ("profiles", dict),
    "command_statuses": ("command_statuses", lambda raw: {
        command: list(rows) for command, rows in raw.items()}),
    "events": ("events", _by_name(_event)),
}  # fmt: skip


def as_golden(parsed):
    """Converts parsed files of spec/ to the form of the golden values, without the ELSEWHERE
    sections.

    Raises KeyError, TypeError, AttributeError or AssertionError on files of another form.
    """
    whole = {}
    for label, document in parsed.items():
        for section, raw in document.items():
            if section in ELSEWHERE:
                continue
            assert section in SECTIONS, f"{label}: no golden values for section {section}"
            name, make = SECTIONS[section]
            rows = make(raw)
            known = whole.setdefault(name, {})
            assert not known.keys() & rows.keys(), f"{label}: {section} is given twice"
            known.update(rows)
    return whole


def differences(golden, ours, place=""):
    """Returns each difference between two trees as text; the order counts where ORDERED matches."""
    if isinstance(golden, dict) and isinstance(ours, dict):
        wrong = [f"{place}{name}: missing in spec/" for name in golden if name not in ours]
        wrong += [f"{place}{name}: has no golden value" for name in ours if name not in golden]
        for name in golden:
            if name in ours:
                wrong += differences(golden[name], ours[name], f"{place}{name}.")
        if ORDERED.match(place) and list(golden) != list(ours) and not wrong:
            wrong.append(f"{place}: order is {list(ours)}, golden is {list(golden)}")
        return wrong
    if isinstance(golden, list) and isinstance(ours, list) and len(golden) == len(ours):
        return [
            line
            for index, pair in enumerate(zip(golden, ours, strict=True))
            for line in differences(*pair, f"{place}{index}.")
        ]
    if type(golden) is type(ours) and golden == ours:
        return []
    return [f"{place.rstrip('.')}: {ours!r}, golden is {golden!r}"]


def flat(structs, name, base=0):
    """Yields path, lowest bit and width of each named range of a golden struct, with header names.

    A bit keeps its own name if the name is unique in the struct; an array of up to 8 elements has
    one range per element.
    """
    fields = structs[name]["fields"]
    consumed = [field.split(".")[0] for field in fields]
    consumed += [bits for row in fields.values() for bits in extras(row).get("bits", {})]
    for field, (offset, size, kind, *_) in fields.items():
        path, lsb = field.replace(".", "__"), base + offset * 8
        yield path, lsb, size * 8
        for bits, (low, width, *_) in extras(fields[field]).get("bits", {}).items():
            yield bits if consumed.count(bits) == 1 else f"{path}__{bits}", lsb + low, width
        inner, count = re.fullmatch(r"(?:struct )?(\w+)(?:\[(\d+)\])?", kind).groups()
        starts = {path: lsb}
        if count:
            each = size * 8 // int(count)
            shown = range(int(count) if int(count) <= 8 else 0)
            starts = {f"{path}__{i}": lsb + i * each for i in shown}
            yield from ((element, start, each) for element, start in starts.items())
        if inner in structs:
            for element, start in starts.items():
                for sub, low, width in flat(structs, inner, start):
                    yield f"{element}__{sub}", low, width


def extras(row):
    """Returns the attributes of a golden field other than offset, size and type."""
    return row[3] if len(row) > 3 else {}


def macros(path):
    """Returns every macro of a generated header with its text; continued lines are joined."""
    text = (ROOT / path).read_text().replace("\\\n", " ")
    return dict(re.findall(r"^[`#]define (\w+(?:\([\w,]+\))?) +(\S.*)$", text, re.M))
