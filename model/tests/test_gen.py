# SPDX-License-Identifier: Apache-2.0
"""Tests the generator: rejected descriptions, detection of stale files, and bit ranges."""

import shutil
from pathlib import Path

import gen
import pytest
import spec_read
import yaml
from facts import macros
from spec_model import SpecError

ROOT = Path(__file__).resolve().parents[2]

STRUCT = """
structs:
  - name: efa_toy
    size: 4
    fields:
      - {name: first, offset: 0, size: 2, type: u16, endian: le, enum: efa_toy_kind}
      - name: flags
        offset: 2
        size: 2
        type: u16
        endian: le
        bits:
          - {name: low, lsb: 0, width: 4}
          - {name: high, lsb: 4, width: 12}
enums:
  - name: efa_toy_kind
    values:
      - {name: EFA_TOY_KIND_A, value: 0}
      - {name: EFA_TOY_KIND_B, value: 1}
internal_structs:
  - {name: toy_bus, fields: [{name: valid, bits: 1}, {name: count, bits: 7}]}
events:
  - {name: toy_seen, engine: toy, fields: [{name: what, bits: 4}]}
"""


def run(root, *arguments):
    return gen.main(["--root", str(root), *arguments])


@pytest.fixture
def toy(tmp_path):
    """Writes a description into an empty tree and returns that tree."""
    (tmp_path / "spec").mkdir()

    def write(text=STRUCT):
        (tmp_path / "spec" / "toy.yaml").write_text(text)
        return tmp_path

    return write


REFUSED = {
    "fields overlap": (
        "name: flags\n        offset: 2",
        "name: flags\n        offset: 1",
        "efa_toy: flags: overlaps what ends at byte 2",
    ),
    "field overflows": ("size: 4", "size: 3", "efa_toy: flags: overflows the 3 bytes"),
    "gap": ("size: 4", "size: 5", "efa_toy: bytes from 4 have no name"),
    "gap before": (
        "{name: first, offset: 0, size: 2, type: u16",
        "{name: first, offset: 0, size: 1, type: u8",
        "efa_toy: flags: bytes 1 to 1 before it have no name",
    ),
    "bits overlap": (
        "lsb: 4, width: 12",
        "lsb: 3, width: 13",
        "efa_toy: flags: high: overlaps low at bit 3",
    ),
    "bits overflow": (
        "lsb: 4, width: 12",
        "lsb: 4, width: 13",
        "efa_toy: flags: high: bits 4+13 overflow 16 bits",
    ),
    "bits without a name": (
        "lsb: 4, width: 12",
        "lsb: 4, width: 11",
        "efa_toy: flags: 1 of its bits have no name",
    ),
    "size against type": (
        "type: u16, endian: le, enum",
        "type: u32, endian: le, enum",
        "efa_toy: first: size 2 does not agree with type u32",
    ),
    "unknown type": (
        "type: u16, endian: le, enum",
        "type: u24, endian: le, enum",
        "efa_toy: first: unknown type u24",
    ),
    "unknown enum": (
        "enum: efa_toy_kind",
        "enum: efa_toy_sort",
        "efa_toy: first: unknown enum efa_toy_sort",
    ),
    "unknown struct": (
        "type: u16, endian: le, enum: efa_toy_kind",
        'type: "struct efa_none", endian: le',
        "efa_toy: first: unknown struct efa_none",
    ),
    "enum value too wide": (
        "KIND_B, value: 1",
        "KIND_B, value: 65536",
        "efa_toy: first: EFA_TOY_KIND_B = 65536 does not fit 16 bits",
    ),
    "enum value twice": (
        "EFA_TOY_KIND_B",
        "EFA_TOY_KIND_A",
        "efa_toy_kind: EFA_TOY_KIND_A is defined twice",
    ),
    "field twice": ("name: flags", "name: first", "efa_toy: first: is defined twice"),
    "bits twice": ("name: high", "name: low", "efa_toy: flags: low: is defined twice"),
    "key twice": ("size: 4", "size: 4\n    size: 4", "line 5: size is given twice"),
    "Verilog keyword": (
        "name: first",
        "name: reg",
        "efa_toy: reg is a Verilog or SystemVerilog keyword",
    ),
    "SystemVerilog keyword": (
        "name: low",
        "name: checker",
        "efa_toy: flags: checker is a Verilog or SystemVerilog keyword",
    ),
    "Python keyword": ("name: first", "name: lambda", "efa_toy: lambda is a Python keyword"),
    "upper case": ("name: first", "name: First", "efa_toy: First is not a lower-case name"),
    "bus keyword": (
        "name: valid",
        "name: wire",
        "toy_bus: wire is a Verilog or SystemVerilog keyword",
    ),
    "bundle of no name": (
        "name: valid, bits: 1",
        "name: valid, bundle: toy_none",
        "toy_bus: valid: no bundle toy_none before this one",
    ),
    "bits and bundle": (
        "name: valid, bits: 1",
        "name: valid, bits: 1, bundle: toy_bus",
        "toy_bus: valid: a field has either bits or bundle",
    ),
    "event too wide": (
        "name: what, bits: 4",
        "name: what, bits: 65",
        "toy_seen: an event has at most 64 bits",
    ),
    "unknown key of a field": (
        "type: u16, endian: le, enum",
        "type: u16, endain: le, endian: le, enum",
        "efa_toy: first: unknown key endain; a field has bits, desc",
    ),
    "unknown key of bits": (
        "lsb: 0, width",
        "lbs: 0, lsb: 0, width",
        "efa_toy: flags: low: unknown key lbs",
    ),
    "unknown key of an enum value": (
        "KIND_B, value: 1",
        "KIND_B, value: 1, code: 2",
        "efa_toy_kind: EFA_TOY_KIND_B: unknown key code",
    ),
    "unknown key of an item of a list": (
        "internal_structs:",
        "stages:\n  - {each: [{path: a, of: b, at: 1}]}\ninternal_structs:",
        "stages: 0: each: 0: unknown key at; a cost per item has of, path",
    ),
    "engine of an event": ("engine: toy, ", "", "not in the expected form (KeyError: 'engine')"),
    "events of two engines": (
        "  - {name: toy_seen, engine: toy, fields: [{name: what, bits: 4}]}\n",
        "".join(
            f"  - {{name: seen_{n}, engine: e{n % 2}, fields: [{{name: what, bits: 4}}]}}\n"
            for n in range(3)
        ),
        "events: the events of engine e0 do not follow each other",
    ),
    "unknown section": ("events:", "event:", "unknown key event; a file has command_statuses"),
    "struct of no form": ("    size: 4\n", "", "not in the expected form (KeyError: 'size')"),
}


@pytest.mark.parametrize(("old", "new", "message"), REFUSED.values(), ids=REFUSED)
def test_contradiction_is_refused_and_named(toy, capsys, old, new, message):
    assert old in STRUCT
    root = toy(STRUCT.replace(old, new, 1))
    assert run(root) == 1
    assert f"spec/toy.yaml: {message}" in capsys.readouterr().err
    assert not (root / "rtl").exists()


@pytest.fixture(scope="module")
def documents():
    return spec_read.documents(ROOT / "spec")


# One mapping of each kind that no struct or enum contains: where it is, and how a message names it.
MAPPINGS = {
    "regs.yaml pci": "pci: unknown key zzz; a pci has bars, class_code, desc, device_ids, doc",
    "regs.yaml pci.device_ids.0": "pci: device_ids: 61344: unknown key zzz; a device id has",
    "regs.yaml pci.class_code": "pci: class_code: unknown key zzz; a class code has",
    "regs.yaml pci.bars.1": "pci: bars: llq_memory: unknown key zzz; a bar has",
    "regs.yaml pci.msix": "pci: msix: unknown key zzz; a msix has admin_vector",
    "pci_config.yaml config_space.0": "config_space: vendor_id: unknown key zzz; a configuration "
                                      "field has",
    "regs.yaml sources.K": "sources: K: unknown key zzz; a source has",
    "regs.yaml registers": "registers: unknown key zzz; a registers has",
    "admin.yaml crc16": "crc16: unknown key zzz; a crc16 has check_123456789",
    "admin.yaml commands.0": "CREATE_QP: unknown key zzz; a command has",
    "admin.yaml pbl_chunk": "efa_pbl_chunk: unknown key zzz; a struct has",
    "timing.yaml modules.efa_fifo.large": "modules: efa_fifo: large: unknown key zzz; a path has",
    "stages.yaml parameters.bus": "parameters: bus: unknown key zzz; a parameter has",
    "stages.yaml milestones.0": "milestones: bell: unknown key zzz; a milestone has",
    "stages.yaml stages.0": "stages: 0: unknown key zzz; a stage has cost",
    "testplan.yaml plan.0": "plan: bringup.probe: unknown key zzz; a feature of the plan has bins",
    "testplan.yaml units.0": "units: common.ram: unknown key zzz; a unit of the plan has",
    "limits.yaml profiles.default": "profiles: default: unknown key zzz, not in every profile; a",
    "limits.yaml profiles.recorded": "profiles: recorded: unknown key zzz, not in every profile; a",
    "statuses.yaml command_statuses.CREATE_QP": "CREATE_QP: zzz: 1 is no mapping of when and tests",
    "statuses.yaml command_statuses": "zzz: is no command; expected one of every, CREATE_QP",
}


@pytest.mark.parametrize("place", MAPPINGS)
def test_an_unknown_key_of_this_description_is_named(documents, place):
    file, _, path = place.partition(" ")
    node = documents[f"spec/{file}"]
    for key in path.split("."):
        node = node[int(key) if isinstance(node, list) else key]
    node["zzz"] = 1
    try:
        with pytest.raises(SpecError) as error:
            spec_read.check(documents)
    finally:
        del node["zzz"]
    assert f"spec/{file}: {MAPPINGS[place]}" in str(error.value)


@pytest.mark.parametrize(("key", "value", "message"), [
    ("offset", 0x05, "status: starts at 0x5, inside another field"),
    ("offset", 0xFF, "status: ends at 0x101, beyond 0x100"),
    ("value", 0x1_0000, "status: 0x10000 does not fit 2 bytes"),
    ("value", "profile.version_id", "status: unknown source profile.version_id"),
    ("writable", 0x1_0000, "status: 0x10000 does not fit 2 bytes"),
    ("writable", "all", "status: writable is all; expected bits or address"),
    ("name", "Status", "Status: Status is not a lower-case name"),
])  # fmt: skip
def test_a_wrong_field_of_the_configuration_space_is_named(documents, key, value, message):
    rows = documents["spec/pci_config.yaml"]["config_space"]
    row = next(row for row in rows if row["name"] == "status")
    before = dict(row)
    row[key] = value
    try:
        with pytest.raises(SpecError, match=message):
            spec_read.check(documents)
    finally:
        row.clear()
        row.update(before)


def test_same_struct_in_two_files_is_refused(toy, capsys):
    root = toy()
    shutil.copy(root / "spec" / "toy.yaml", root / "spec" / "other.yaml")
    assert run(root) == 1
    assert "spec/toy.yaml: efa_toy: also defined in spec/other.yaml" in capsys.readouterr().err


def test_macro_made_twice_is_refused(toy, capsys):
    root = toy(STRUCT.replace("name: count", "name: w"))
    assert run(root) == 1
    assert "macro EFA_TOY_BUS__W is also made by" in capsys.readouterr().err


def test_struct_inside_itself_is_refused(toy, capsys):
    ring = "structs:\n"
    for name, inner in (("efa_egg", "efa_hen"), ("efa_hen", "efa_egg")):
        field = f'{{name: a, offset: 0, size: 4, type: "struct {inner}", endian: le}}'
        ring += f"  - {{name: {name}, size: 4, fields: [{field}]}}\n"
    assert run(toy(ring)) == 1
    assert "spec/toy.yaml: efa_hen: contains itself" in capsys.readouterr().err


def test_union_members_may_share_bytes(toy):
    union = STRUCT.replace(
        "      - name: flags",
        "      - {name: second, offset: 0, size: 2, "
        "type: u16, endian: le, union: u}\n      - name: flags",
    )
    root = toy(union.replace("enum: efa_toy_kind", "union: u"))
    assert run(root) == 0
    assert "`define EFA_TOY__SECOND 15:0" in (root / "rtl/gen/efa_defs.vh").read_text()


def test_an_empty_description_is_generated(toy):
    assert run(toy("")) == 0


def test_stale_and_missing_files_are_named(toy, capsys):
    root = toy()
    assert run(root) == 0
    assert run(root, "--check") == 0
    (root / "docs/layouts.md").write_text("edited by hand")
    (root / "model/efa_cosim/layouts/defs.py").unlink()
    capsys.readouterr()
    assert run(root, "--check") == 1
    complaint = capsys.readouterr().err
    assert "docs/layouts.md is stale" in complaint
    assert "model/efa_cosim/layouts/defs.py is stale" in complaint
    assert "efa_defs.vh" not in complaint
    assert (root / "docs/layouts.md").read_text() == "edited by hand"


def test_generated_files_of_this_tree_are_fresh():
    assert run(ROOT, "--check") == 0


@pytest.mark.slow
def test_output_does_not_depend_on_the_run():
    assert gen.generate(ROOT) == gen.generate(ROOT)


VERILOG = macros("rtl/gen/efa_defs.vh")
NATIVE = macros("tb/native/efa_defs.h")


def span(prefix):
    """Returns the lowest bit and the width of a range macro."""
    high, _, low = VERILOG[prefix].partition(":")
    return int(low or high), int(high) - int(low or high) + 1


def test_enum_literals_have_the_width_of_their_fields():
    assert VERILOG["EFA_IO_COMP_STATUS__OK"] == "8'd0"
    assert VERILOG["EFA_ADMIN_AQ_OPCODE__CREATE_QP"] == "8'd1"
    assert VERILOG["EFA_IO_SEND_OP_TYPE__RDMA_READ"] == "4'd1"
    assert VERILOG["EFA_IO_SEND_OP_TYPE__RDMA_READ_W3"] == "3'd1"
    assert VERILOG["EFA_ADMIN_QP_STATE__RTS"] == "32'd3"
    assert VERILOG["EFA_ADMIN_QP_STATE__RTS_W3"] == "3'd3"
    assert VERILOG["EFA_REGS_RESET_REASON_TYPES__SHUTDOWN"] == "4'd6"


def packed_sections(section):
    for path in sorted((ROOT / "spec").glob("*.yaml")):
        yield from (yaml.safe_load(path.read_text()) or {}).get(section) or []


def test_buses_and_events_are_packed_from_bit_0():
    buses = [(f"EFA_{b['name'].upper()}", b) for b in packed_sections("internal_structs")]
    events = [(f"EFA_EV_{e['name'].upper()}", e) for e in packed_sections("events")]
    for prefix, layout in buses + events:
        lsb = 0
        for field in layout["fields"]:
            width = field.get("bits") or int(VERILOG[f"EFA_{field['bundle'].upper()}__W"])
            assert span(f"{prefix}__{field['name'].upper()}") == (lsb, width)
            lsb += width
        assert VERILOG[f"{prefix}__W"] == str(lsb)
    for number, (_, event) in enumerate(events):
        assert VERILOG[f"EFA_EV__{event['name'].upper()}"] == str(number)
        assert NATIVE[f"EFA_EV__{event['name'].upper()}"] == f"{number}u"
    assert VERILOG["EFA_EV__COUNT"] == str(len(events))
    for engine in {event["engine"] for _, event in events}:
        own = [number for number, (_, event) in enumerate(events) if event["engine"] == engine]
        for name, bits in (("VALID", 1), ("DATA", 64)):
            macro = VERILOG[f"EFA_EV__{engine.upper()}_{name}"]
            assert macro == f"{bits * (own[-1] + 1) - 1}:{bits * own[0]}"
