# SPDX-License-Identifier: Apache-2.0
"""Reads spec/*.yaml into one checked description; rejects every contradiction."""

import itertools
import keyword
import re
from pathlib import Path

import yaml
from spec_model import (
    EVERY_COMMAND,
    Bits,
    Enum,
    EnumValue,
    Field,
    Layout,
    Spec,
    SpecError,
    Struct,
    short_names,
)

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
TYPE = re.compile(r"(u8|u16|u32|u64|struct (\w+))(?:\[(\d+)\])?")
WORD_BITS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}
MAX_EVENT_BITS = 64
CONFIG_BYTES = 256  # configuration space without extended capabilities

# Local names must be usable as Verilog and SystemVerilog identifiers; names from the public headers
# appear only behind a prefix and are not changed.
RESERVED_WORDS = frozenset(
    """
accept_on alias always always_comb always_ff always_latch and assert assign assume automatic
before begin bind bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle
checker class clocking cmos config const constraint context continue cover covergroup coverpoint
cross deassign default defparam design disable dist do edge else end endcase endchecker endclass
endclocking endconfig endfunction endgenerate endgroup endinterface endmodule endpackage
endprimitive endprogram endproperty endspecify endsequence endtable endtask enum event eventually
expect export extends extern final first_match for force foreach forever fork forkjoin function
generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins implements implies
import incdir include initial inout input inside instance int integer interconnect interface
intersect join join_any join_none large let liblist library local localparam logic longint
macromodule matches medium modport module nand negedge nettype new nexttime nmos nor
noshowcancelled not notif0 notif1 null or output package packed parameter pmos posedge primitive
priority program property protected pull0 pull1 pulldown pullup pulsestyle_ondetect
pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime ref reg reject_on
release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always s_eventually
s_nexttime s_until s_until_with scalared sequence shortint shortreal showcancelled signed small
soft solve specify specparam static string strong strong0 strong1 struct super supply0 supply1
sync_accept_on sync_reject_on table tagged task this throughout time timeprecision timeunit tran
tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef union unique unique0 unsigned until
until_with untyped use uwire var vectored virtual void wait wait_order wand weak weak0 weak1 while
wildcard wire with within wor xnor xor
""".split()
)

# Keys of each kind of row; any other key is a misspelling and is rejected.
TEXT = {"desc", "doc", "src", "since", "note"}
KEYS = {
    "file": {
        "enums", "structs", "pbl_chunk", "registers", "doorbells", "internal_structs", "events",
        "constants", "pci", "config_space", "crc16", "limits", "profiles", "transport",
        "command_statuses", "commands", "features",
        # Sections that other tools and the benches read.
        "sources", "modules", "parameters", "milestones", "stages", "plan", "units", "wires",
        "through", "untimed", "refused",
    },
    "enum": {"name", "values"} | TEXT,
    "value": {"name", "value", "ibv_wc"} | TEXT,
    "struct": {
        "name", "size", "kind", "command", "payload_size", "mask_prefix", "fields"} | TEXT,
    "field": {
        "name", "offset", "size", "type", "endian", "union", "enum", "bits", "gap",
        "legacy_name"} | TEXT,
    "bits": {"name", "lsb", "width", "enum", "bits", "bundle"} | TEXT,
    "word": {
        "name", "offset", "access", "reset", "fields", "bar", "width", "value",
        "mask_prefix"} | TEXT,
    "registers": {"bar", "width", "mask_prefix", "access_note", "reset_note", "list"} | TEXT,
    "packed": {"name", "fields", "engine"} | TEXT,
    "constant": {"value"} | TEXT,
    "command": {"name", "opcode", "request", "response", "used_for"} | TEXT,
    "feature": {"name", "id", "get", "set"} | TEXT,
    "status": {"when", "tests"},
    "pci": {
        "vendor_id", "device_ids", "class_code", "revision_and_subsystem", "bars", "msix"} | TEXT,
    "device id": {"id"} | TEXT,
    "configuration field": {"name", "offset", "size", "value", "writable"} | TEXT,
    "class code": {"value"} | TEXT,
    "bar": {"index", "name", "mapping", "min_size", "required"} | TEXT,
    "msix": {"admin_vector", "eq_vectors", "requested"} | TEXT,
    "crc16": {
        "poly", "reflected", "init", "xorout", "check_123456789", "over", "zero_64B",
        "zero_128B"} | TEXT,
    "source": {"repo", "path"} | TEXT,
    "path": {"latency", "interval", "depth"} | TEXT,
    "parameter": {"value"} | TEXT,
    "milestone": {"name", "event", "early"} | TEXT,
    "stage": {"from", "to", "when", "place", "cost", "each", "early", "wait", "first"} | TEXT,
    "cost per item": {"path", "of"},
    "feature of the plan": {"id", "shows", "tests", "bins", "by"},
    "unit of the plan": {"id", "module", "shows", "also", "by"},
}  # fmt: skip

# Mappings of the sections that the generator copies or that other tools read: where they are, `*`
# for each item, and their kind in KEYS.
PLACES = {
    "pci": "pci", "pci.device_ids.*": "device id", "pci.class_code": "class code",
    "pci.bars.*": "bar", "pci.msix": "msix", "config_space.*": "configuration field",
    "crc16": "crc16", "sources.*": "source",
    "modules.*.*": "path", "parameters.*": "parameter", "milestones.*": "milestone",
    "stages.*": "stage", "stages.*.each.*": "cost per item", "plan.*": "feature of the plan",
    "units.*": "unit of the plan",
}  # fmt: skip


# `<<: *other` takes all keys of another mapping that this one does not give.
MERGE = "tag:yaml.org,2002:merge"


class _UniqueKeys(yaml.SafeLoader):
    """Rejects equal keys; YAML silently uses the last of two equal keys."""


def _mapping(loader, node, deep=False):
    seen = set()
    for key_node, _ in node.value:
        if key_node.tag == MERGE:
            continue
        key = loader.construct_object(key_node, deep=deep)
        if key in seen:
            line = key_node.start_mark.line + 1
            raise SpecError(f"{key_node.start_mark.name}: line {line}: {key} is given twice")
        seen.add(key)
    return yaml.SafeLoader.construct_mapping(loader, node, deep)


_UniqueKeys.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path, label):
    """Returns the parsed file, or an empty mapping; label is the name used in messages."""
    loader = _UniqueKeys(path.read_text(encoding="utf-8"))
    loader.name = label
    try:
        return loader.get_single_data() or {}
    except yaml.YAMLError as error:
        raise SpecError(f"{label}: {error}") from error
    finally:
        loader.dispose()


def mappings(node, path):
    """Yields (place, mapping) of each mapping at a path of keys, in which `*` is every item."""
    if not path:
        if isinstance(node, dict):
            yield (), node
        return
    key, *rest = path
    if isinstance(node, list):
        items = [(row.get("id", row.get("name", number)) if isinstance(row, dict) else number, row)
                 for number, row in enumerate(node)]  # fmt: skip
    else:
        items = list(node.items()) if isinstance(node, dict) else []
    for name, row in items:
        if key in ("*", name):
            for place, found in mappings(row, rest):
                yield (name, *place), found


class _Reader:
    def __init__(self):
        self.spec = Spec()
        self.problems = []

    def refuse(self, *place_and_reason):
        self.problems.append(": ".join(str(part) for part in place_and_reason))

    def check_name(self, name, *place, public=False):
        if not isinstance(name, str) or not all(NAME.fullmatch(p) for p in name.split(".")):
            self.refuse(*place, f"{name} is not a lower-case name")
        elif keyword.iskeyword(name):
            self.refuse(*place, f"{name} is a Python keyword")
        elif not public and name in RESERVED_WORDS:
            self.refuse(*place, f"{name} is a Verilog or SystemVerilog keyword")

    def check_keys(self, raw, kind, *place):
        for key in raw:
            if key not in KEYS[kind]:
                known = ", ".join(sorted(KEYS[kind]))
                self.refuse(*place, f"unknown key {key}; a {kind} has {known}")

    def put(self, table, item):
        if item.name in table:
            self.refuse(item.source, item.name, f"also defined in {table[item.name].source}")
        table[item.name] = item

    def section(self, label, data):
        spec = self.spec
        self.check_keys(data, "file", label)
        for path, kind in PLACES.items():
            for place, found in mappings(data, path.split(".")):
                self.check_keys(found, kind, label, *place)
        for raw in data.get("enums") or []:
            self.put(spec.enums, self.enum(label, raw))
        for raw in data.get("structs") or []:
            self.put(spec.structs, self.struct(label, raw))
        if data.get("pbl_chunk"):
            raw = {"name": "efa_pbl_chunk", **data["pbl_chunk"]}
            self.put(spec.structs, self.struct(label, raw))
        if data.get("registers"):
            self.check_keys(data["registers"], "registers", label, "registers")
            width = data["registers"]["width"]
            for raw in data["registers"]["list"]:
                spec.registers.append(self.word(label, raw, width))
        for raw in data.get("doorbells") or []:
            spec.doorbells.append(self.word(label, raw, raw["width"]))
        for raw in data.get("internal_structs") or []:
            spec.internal.append(self.packed(label, raw))
        for raw in data.get("events") or []:
            spec.events.append(self.packed(label, raw))
            if spec.events[-1].width > MAX_EVENT_BITS:
                self.refuse(label, raw["name"], f"an event has at most {MAX_EVENT_BITS} bits")
        engines = [event.raw["engine"] for event in spec.events]
        groups = [engine for engine, _ in itertools.groupby(engines)]
        for engine in {engine for engine in groups if groups.count(engine) > 1}:
            self.refuse(label, "events", f"the events of engine {engine} do not follow each other")
        for name in (
            "constants", "pci", "crc16", "limits", "profiles", "transport", "command_statuses"
        ):
            for key, value in (data.get(name) or {}).items():
                if key in getattr(spec, name):
                    self.refuse(label, name, f"{key} is defined twice")
                getattr(spec, name)[key] = value
        for kind in ("constant", "command", "feature"):
            rows = data.get(f"{kind}s") or []
            named = rows.items() if isinstance(rows, dict) else ((row["name"], row) for row in rows)
            for name, row in named:
                self.check_keys(row, kind, label, name)
        spec.config_space += data.get("config_space") or []
        spec.commands += data.get("commands") or []
        spec.features += data.get("features") or []

    def enum(self, label, raw):
        name = raw["name"]
        self.check_name(name, label, name)
        self.check_keys(raw, "enum", label, name)
        names = [v["name"] for v in raw["values"]]
        for value_name in sorted({n for n in names if names.count(n) > 1}):
            self.refuse(label, name, f"{value_name} is defined twice")
        values = []
        for value, short in zip(raw["values"], short_names(name, names), strict=True):
            if not NAME.fullmatch(short.lower()) or short != short.upper():
                self.refuse(label, name, f"{short} is not an upper-case name")
            self.check_keys(value, "value", label, name, value["name"])
            if not isinstance(value["value"], int) or value["value"] < 0:
                self.refuse(label, name, value["name"], "value is not a natural number")
            values.append(EnumValue(value["name"], short, value["value"], value.get("desc", "")))
        return Enum(name, raw.get("desc", ""), label, values)

    def struct(self, label, raw):
        name = raw["name"]
        public = name.startswith(("efa_admin_", "efa_io_", "efa_common_"))
        self.check_name(name, label, name)
        self.check_keys(raw, "struct", label, name)
        struct = Struct(name, raw["size"], raw.get("desc", raw.get("doc", "")), label, raw=raw)
        for item in raw["fields"]:
            self.check_name(item["name"], label, name, public=public)
            parsed = self.field(label, name, item)
            if parsed:
                struct.fields.append(parsed)
            for bits in item.get("bits") or []:
                self.check_name(bits["name"], label, name, item["name"], public=public)
        self.check_places(struct)
        return struct

    def field(self, label, struct_name, raw):
        place = (label, struct_name, raw["name"])
        self.check_keys(raw, "field", *place)
        match = TYPE.fullmatch(str(raw["type"]))
        if not match:
            self.refuse(*place, f"unknown type {raw['type']}")
            return None
        kind, inner, count = match.groups()
        count = int(count) if count else None
        element = raw["size"] // (count or 1)
        if kind in WORD_BITS:
            element = WORD_BITS[kind] // 8
        if element * (count or 1) != raw["size"]:
            self.refuse(*place, f"size {raw['size']} does not agree with type {raw['type']}")
        if raw["endian"] not in ("le", "be", "bytes"):
            self.refuse(*place, f"unknown endian {raw['endian']}")
        result = Field(
            raw["name"],
            raw["offset"],
            raw["size"],
            element,
            count,
            inner,
            raw["endian"],
            raw.get("union"),
            raw.get("enum"),
            raw.get("desc", raw.get("doc", "")),
        )
        if raw.get("bits"):
            result.bits = self.bit_list(place, raw["bits"], raw["size"] * 8)
            named = sum(bits.width for bits in result.bits)
            if named < raw["size"] * 8 and not raw.get("gap"):
                self.refuse(*place, f"{raw['size'] * 8 - named} of its bits have no name")
        return result

    def bit_list(self, place, raws, width):
        used, seen, result = {}, set(), []
        for raw in raws:
            self.check_keys(raw, "bits", *place, raw["name"])
            bits = Bits(
                raw["name"],
                raw["lsb"],
                raw["width"],
                raw.get("desc", raw.get("doc", "")),
                raw.get("enum"),
            )
            if bits.width < 1 or bits.lsb < 0 or bits.lsb + bits.width > width:
                self.refuse(
                    *place, bits.name, f"bits {bits.lsb}+{bits.width} overflow {width} bits"
                )
            for bit in range(bits.lsb, bits.lsb + bits.width):
                if bit in used:
                    self.refuse(*place, bits.name, f"overlaps {used[bit]} at bit {bit}")
                    break
                used[bit] = bits.name
            if bits.name in seen:
                self.refuse(*place, bits.name, "is defined twice")
            seen.add(bits.name)
            result.append(bits)
        return result

    def check_places(self, struct):
        seen, end, union, start = set(), 0, None, 0
        for item in struct.fields:
            place = (struct.source, struct.name, item.name)
            if item.name in seen:
                self.refuse(*place, "is defined twice")
            seen.add(item.name)
            if item.union and item.union == union:
                if item.offset != start:
                    self.refuse(*place, f"offset {item.offset}, its union starts at {start}")
                end = max(end, item.offset + item.size)
            else:
                if item.offset < end:
                    self.refuse(*place, f"overlaps what ends at byte {end}")
                if item.offset > end:
                    self.refuse(*place, f"bytes {end} to {item.offset - 1} before it have no name")
                end, union, start = item.offset + item.size, item.union, item.offset
            if item.offset + item.size > struct.size:
                self.refuse(*place, f"overflows the {struct.size} bytes of the struct")
        if end < struct.size:
            self.refuse(struct.source, struct.name, f"bytes from {end} have no name")

    def word(self, label, raw, width):
        """Reads a register or doorbell; bits without a name are reserved."""
        fields = raw.get("fields") or []
        self.check_keys(raw, "word", label, raw["name"])
        for item in fields:
            self.check_name(item["name"].lower(), label, raw["name"], public=True)
        bits = self.bit_list((label, raw["name"]), fields, width)
        return Layout(raw["name"], width, raw.get("desc", raw.get("value", "")), label, bits, raw)

    def packed(self, label, raw):
        """Reads fields that follow each other from bit 0 up; a field has a number of bits or is a
        bundle that stands before this one."""
        self.check_name(raw["name"], label, raw["name"])
        self.check_keys(raw, "packed", label, raw["name"])
        placed, lsb = [], 0
        for item in raw["fields"]:
            self.check_name(item["name"], label, raw["name"])
            width = self.width_of(item, label, raw["name"])
            placed.append({**item, "lsb": lsb, "width": width})
            lsb += width
        bits = self.bit_list((label, raw["name"]), placed, lsb)
        return Layout(raw["name"], lsb, raw.get("doc", ""), label, bits, raw)

    def width_of(self, item, *place):
        """Returns the width of a field of packed bits."""
        if ("bits" in item) == ("bundle" in item):
            self.refuse(*place, item["name"], "a field has either bits or bundle")
            return 1
        if "bits" in item:
            return item["bits"]
        known = {layout.name: layout.width for layout in self.spec.internal}
        if item["bundle"] not in known:
            self.refuse(*place, item["name"], f"no bundle {item['bundle']} before this one")
        return known.get(item["bundle"], 1)

    def check_links(self):
        spec = self.spec
        for layouts in (spec.registers, spec.doorbells, spec.internal, spec.events):
            names = [layout.name for layout in layouts]
            for name in sorted({n for n in names if names.count(n) > 1}):
                self.refuse(layouts[0].source, name, "is defined twice")
            for layout in layouts:
                for bits in layout.bits:
                    self.use_enum(bits.enum, bits.width, layout.source, layout.name, bits.name)
        for struct in spec.structs.values():
            for item in struct.fields:
                place = (struct.source, struct.name, item.name)
                self.use_enum(item.enum, item.element_bytes * 8, *place)
                for bits in item.bits:
                    self.use_enum(bits.enum, bits.width, *place, bits.name)
                if item.struct and item.struct not in spec.structs:
                    self.refuse(*place, f"unknown struct {item.struct}")
                elif item.struct and spec.structs[item.struct].size != item.element_bytes:
                    self.refuse(*place, f"size does not agree with struct {item.struct}")
        for struct in spec.structs.values():
            if struct.name in self.contained(struct, set()):
                self.refuse(struct.source, struct.name, "contains itself")
        for enum in spec.enums.values():
            enum.widths.sort(reverse=True)

    def check_profiles(self):
        """Refuses a key that not every profile has."""
        profiles = {}
        for name, profile in self.spec.profiles.items():
            if isinstance(profile, dict):
                profiles[name] = profile
            else:
                self.refuse("spec/limits.yaml", "profiles", name, f"{profile} is no mapping")
        common = set.intersection(*map(set, profiles.values())) if profiles else set()
        for name, profile in profiles.items():
            for key in sorted(set(profile) - common):
                self.refuse("spec/limits.yaml", "profiles", name, f"unknown key {key}, not in "
                            f"every profile; a profile has {', '.join(sorted(common))}")

    def check_config_space(self):
        """Refuses fields of the configuration space that overlap, leave it, or have no value."""
        label, end = "spec/pci_config.yaml", 0
        sources = {"last_vector", *(f"limits.{key}" for key in self.spec.limits)}
        for profile in self.spec.profiles.values():
            sources |= {f"profile.{key}" for key in profile}
        for row in sorted(self.spec.config_space, key=lambda row: row["offset"]):
            name, value, mask = row["name"], row["value"], row.get("writable", 0)
            self.check_name(name, label, name)
            if row["offset"] < end:
                self.refuse(label, name, f"starts at {row['offset']:#x}, inside another field")
            end = row["offset"] + row["size"]
            if end > CONFIG_BYTES:
                self.refuse(label, name, f"ends at {end:#x}, beyond {CONFIG_BYTES:#x}")
            if isinstance(value, int) and value >> 8 * row["size"]:
                self.refuse(label, name, f"{value:#x} does not fit {row['size']} bytes")
            if isinstance(value, str) and value not in sources:
                self.refuse(label, name, f"unknown source {value}")
            if not isinstance(mask, int) and mask != "address":
                self.refuse(label, name, f"writable is {mask}; expected bits or address")
            if isinstance(mask, int) and mask >> 8 * row["size"]:
                self.refuse(label, name, f"{mask:#x} does not fit {row['size']} bytes")

    def check_statuses(self):
        """Checks that the statuses of a command name existing commands and statuses, with a reason.
        """
        spec, label = self.spec, "spec/statuses.yaml"
        commands = [command["name"] for command in spec.commands]
        enum = spec.enums.get("efa_admin_aq_completion_status")
        statuses = [value.short for value in enum.values] if enum else []
        for name, rows in spec.command_statuses.items():
            if name != EVERY_COMMAND and name not in commands:
                known = ", ".join([EVERY_COMMAND, *commands])
                self.refuse(label, name, f"is no command; expected one of {known}")
            if not isinstance(rows, dict):
                self.refuse(label, name, f"{rows} is no mapping of statuses")
                continue
            for status, row in rows.items():
                if not isinstance(row, dict):
                    self.refuse(label, name, status, f"{row} is no mapping of when and tests")
                    continue
                self.check_keys(row, "status", label, name, status)
                if status not in statuses:
                    known = ", ".join(statuses)
                    self.refuse(label, name, status, f"is no status; expected one of {known}")
                elif status != "SUCCESS" and not row.get("when"):
                    self.refuse(label, name, status, "says not when")

    def contained(self, struct, found):
        """Returns the names of all structs inside a struct, at any depth."""
        for item in struct.fields:
            inner = self.spec.structs.get(item.struct)
            if inner and inner.name not in found:
                found.add(inner.name)
                self.contained(inner, found)
        return found

    def use_enum(self, name, width, *place):
        if name is None:
            return
        if name not in self.spec.enums:
            self.refuse(*place, f"unknown enum {name}")
            return
        enum = self.spec.enums[name]
        for value in enum.values:
            if value.value >> width:
                self.refuse(*place, f"{value.full} = {value.value} does not fit {width} bits")
        if width not in enum.widths:
            enum.widths.append(width)


def documents(folder):
    """Returns the parsed YAML files of a folder by their label, not checked."""
    paths = sorted(Path(folder).glob("*.yaml"))
    return {f"spec/{path.name}": read_yaml(path, f"spec/{path.name}") for path in paths}


def check(parsed):
    """Returns the checked description in parsed files; raises SpecError with every problem."""
    reader = _Reader()
    for label, data in parsed.items():
        try:
            reader.section(label, data)
        except (KeyError, TypeError, AttributeError) as error:
            reader.refuse(label, f"not in the expected form ({type(error).__name__}: {error})")
    reader.check_links()
    reader.check_profiles()
    reader.check_config_space()
    reader.check_statuses()
    if reader.problems:
        raise SpecError("\n".join(reader.problems))
    return reader.spec


def load(folder):
    """Returns the checked description in a folder of YAML files; raises SpecError with every
    problem."""
    return check(documents(folder))
