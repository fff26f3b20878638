# SPDX-License-Identifier: Apache-2.0
"""Compares the golden values with the parsed spec and with every generated file."""

import re
from enum import IntEnum

import pytest
import yaml
from facts import (
    ROOT,
    as_golden,
    differences,
    extras,
    flat,
    image_bytes,
    macros,
    read_golden,
    read_images,
)
from spec_read import check, documents

from efa_cosim.layouts import defs
from efa_cosim.layouts.layout import BitField, ByteString, Nested, NestedArray, Number, NumberArray

FACTS = ROOT.parent / "shared" / "spec" / "efa_interface.yaml"
GOLDEN = read_golden()
STRUCTS, ENUMS, LIMITS = GOLDEN["structs"], GOLDEN["enums"], GOLDEN["limits"]
REGISTERS = GOLDEN["registers"]["list"]
VERILOG = macros("rtl/gen/efa_defs.vh")
NATIVE = macros("tb/native/efa_defs.h")
# Items without a golden value: constants of the transport, bundles inside the RTL.
TRANSPORT = "EFA_TRANSPORT__"
INTERNAL = (TRANSPORT, *(
    f"EFA_{bundle['name'].upper()}__"
    for bundle in documents(ROOT / "spec")["spec/internal.yaml"]["internal_structs"]
))  # fmt: skip


def bare(name):
    return name.removeprefix("efa_")


def camel(name):
    """Returns the name of the Python class of a struct or an enum."""
    return "".join(part.capitalize() for part in bare(name).split("_"))


def value_of(row):
    """Returns the number of an enum's golden value; a completion status also has a verbs code."""
    return row[0] if isinstance(row, list) else row


def scalars(tree):
    """Yields name and value of every golden limit of a tree; bytes as the number of their image."""
    for name, value in tree.items():
        number = int.from_bytes(bytes.fromhex(value), "little") if isinstance(value, str) else value
        yield name.upper(), number


def test_the_spec_has_the_golden_values():
    assert differences(GOLDEN, as_golden(documents(ROOT / "spec"))) == []


def test_the_golden_values_are_those_of_the_fact_sheet():
    if not FACTS.exists():
        pytest.skip("the fact sheet is not beside this tree")
    facts = yaml.safe_load(FACTS.read_text())
    for section in ("meta", "recommended_profile", "kernel_user_abi"):
        del facts[section]
    assert read_images()["golden_vectors"] == facts.pop("golden_vectors")
    device = yaml.safe_load((ROOT / "model/tests/golden/device.yaml").read_text())
    ours = {
        section: {name: row for name, row in rows.items() if name not in device.get(section, {})}
        for section, rows in GOLDEN.items()
    }
    ours = {section: rows for section, rows in ours.items() if rows}
    assert differences(ours, as_golden({"the fact sheet": facts})) == []


def test_two_statuses_exchanged_are_noticed():
    parsed = documents(ROOT / "spec")
    (enum,) = [
        enum for enum in parsed["spec/io.yaml"]["enums"] if enum["name"] == "efa_io_comp_status"
    ]
    rnr = next(value for value in enum["values"] if value["name"].endswith("ERROR_RNR"))
    length = next(
        value for value in enum["values"] if value["name"].endswith("REMOTE_ERROR_BAD_LENGTH")
    )
    rnr["value"], length["value"] = length["value"], rnr["value"]
    check(parsed)
    wrong = differences(GOLDEN, as_golden(parsed))
    assert len(wrong) == 2
    assert any("ERROR_RNR.0: 11, golden is 10" in line for line in wrong), wrong


def powers_of_two(*numbers):
    return all(number and number & (number - 1) == 0 for number in numbers)


@pytest.mark.parametrize("name", GOLDEN["profiles"])
def test_the_limits_keep_the_rules_of_the_fact_sheet(name):
    """Checks the constraints between limits in section 18 of the fact sheet, and sections 3.2 and
    6.1."""
    profile, low12 = GOLDEN["profiles"][name], 0x1000
    depths = [LIMITS[f"max_{queue}_depth"] for queue in ("sq", "rq", "cq", "eq")]
    assert powers_of_two(*depths) and max(depths) <= 32768
    assert powers_of_two(LIMITS["llq_bytes"], LIMITS["llq_page_bytes"], LIMITS["db_page_bytes"])
    # A ring of max_sq_depth WQEs fits LLQ memory; doorbells of all CQs fit the page of a UAR.
    assert LIMITS["max_sq_depth"] * 64 <= LIMITS["llq_bytes"]
    assert LIMITS["db_cq_base"] + (4 << LIMITS["cqn_w"]) <= LIMITS["db_page_bytes"]
    assert 8 << LIMITS["qpn_w"] <= LIMITS["db_cq_base"]
    assert LIMITS["qpn_w"] <= 16 and (1 << LIMITS["ah_w"]) <= 65535
    assert LIMITS["max_eq_depth"] >= 2 << LIMITS["cqn_w"]
    assert LIMITS["mr_w"] < 20
    assert profile["max_wr_send_sges"] <= 2 and profile["max_wr_rdma_sges"] == 1
    assert profile["inline_buf_size"] <= 32 and profile["inline_buf_size_ex"] <= 80
    assert LIMITS["inline_64"] == GOLDEN["constants"]["EFA_IO_TX_DESC_INLINE_MAX_SIZE"]
    assert LIMITS["inline_128"] == GOLDEN["constants"]["EFA_IO_TX_DESC_INLINE_MAX_SIZE_128"]
    assert LIMITS["max_send_sges"] == GOLDEN["constants"]["EFA_IO_TX_DESC_NUM_BUFS"]
    assert profile["page_size_cap"] & low12
    assert 32 <= profile["dma_addr_width"] <= 63 and 0 < profile["reset_timeout"] <= 31
    assert profile["max_eq"] == 1 << LIMITS["eqn_w"] and LIMITS["msix_vectors"] > profile["max_eq"]
    assert profile["mtu"] <= LIMITS["max_mtu"]
    assert profile["aenq_supported_groups"] == GOLDEN["constants"]["EFA_AENQ_ENABLED_GROUPS"]
    features = sum(1 << row[0] for row in GOLDEN["features"].values())
    assert profile["supported_features"] == features
    pci = GOLDEN["pci"]
    assert profile["vendor_id"] == pci["vendor_id"] and profile["device_id"] in pci["device_ids"]
    assert LIMITS["db_bar"] not in (pci["bars"][0]["index"], pci["bars"][1]["index"])


# The spec as the generator reads it


def test_the_reader_gives_the_golden_values():
    spec = check(documents(ROOT / "spec"))
    enums = {enum.name: {v.full: v.value for v in enum.values} for enum in spec.enums.values()}
    assert enums == {
        name: {full: value_of(row) for full, row in values.items()}
        for name, values in ENUMS.items()
    }
    assert {name: struct.size for name, struct in spec.structs.items()} == {
        name: struct["size"] for name, struct in STRUCTS.items()
    }
    for name, struct in spec.structs.items():
        ours = [(f.path, f.lsb, f.width) for f in spec.flat(struct)]
        assert sorted(ours) == sorted(flat(STRUCTS, name))
    assert {name: row["value"] for name, row in spec.constants.items()} == GOLDEN["constants"]
    assert (spec.limits, spec.profiles) == (LIMITS, GOLDEN["profiles"])


# Python: efa_cosim.layouts.defs


def ranges_of(cls, base=0):
    """Yields path, lowest bit and width of each attribute of a generated class."""
    for name, attribute in cls.FIELDS.items():
        if isinstance(attribute, BitField):
            lsb = base + cls.FIELDS[attribute.container].offset * 8 + attribute.lsb
            yield name, lsb, attribute.width
            continue
        lsb = base + attribute.offset * 8
        union = isinstance(attribute, Nested) and "." in attribute.cls.NAME
        if not union:
            yield name, lsb, attribute.size * 8
        if isinstance(attribute, Nested):
            for sub, low, width in ranges_of(attribute.cls, lsb):
                yield f"{name}__{sub}", low, width
        elements = getattr(attribute, "elements", [])
        if isinstance(attribute, ByteString) and attribute.size <= 8 and attribute.size != 1:
            # The headers name each byte of a short string.
            yield from ((f"{name}__{byte}", lsb + byte * 8, 8) for byte in range(attribute.size))
        for index, element in enumerate(elements if len(elements) <= 8 else []):
            start = lsb + index * element.size * 8
            yield f"{name}__{index}", start, element.size * 8
            if isinstance(attribute, NestedArray):
                for sub, low, width in ranges_of(element.cls, start):
                    yield f"{name}__{index}__{sub}", low, width


@pytest.mark.parametrize("name", STRUCTS)
def test_a_python_struct_has_the_golden_places(name):
    cls = defs.STRUCTS[name]
    assert (cls.NAME, cls.SIZE) == (name, STRUCTS[name]["size"])
    assert sorted(ranges_of(cls)) == sorted(flat(STRUCTS, name))


@pytest.mark.parametrize("name", STRUCTS)
def test_a_python_field_has_the_golden_type(name):
    cls = defs.STRUCTS[name]
    for field, row in STRUCTS[name]["fields"].items():
        group, _, member = field.rpartition(".")
        owner = cls.FIELDS[group].cls if group else cls
        attribute, rest = owner.FIELDS[member], extras(row)
        count = re.search(r"\[(\d+)\]", row[2])
        if row[2].startswith("struct"):
            kind = NestedArray if count else Nested
        elif rest.get("endian") == "be" or row[2].startswith("u8["):
            kind = ByteString
        else:
            kind = NumberArray if count else Number
            assert attribute.dtype.base.itemsize * 8 == int(re.match(r"u(\d+)", row[2])[1])
        assert type(attribute) is kind, field
        if kind is Number:
            assert (attribute.enum, attribute.order) == (enum_class(rest.get("enum")), "little")
        if kind is Nested:
            assert attribute.cls.NAME == row[2].removeprefix("struct ")
        for bits, golden in rest.get("bits", {}).items():
            long = f"{member}__{bits}"
            place = owner.FIELDS[long if long in owner.FIELDS else bits]
            assert place.enum is enum_class(golden[2] if len(golden) > 2 else None)


def enum_class(name):
    return getattr(defs, camel(name)) if name else None


def test_every_python_struct_and_enum_is_golden():
    assert set(defs.STRUCTS) == set(STRUCTS)
    made = {
        name for name, cls in vars(defs).items()
        if isinstance(cls, type) and issubclass(cls, IntEnum) and cls is not IntEnum
    }  # fmt: skip
    assert made == {camel(name) for name in ENUMS} | {"Reg", "Ev"}


def held(golden, ours, name):
    """Asserts that the names, without their shared prefix, have the golden values, each name once.
    """
    assert list(ours.values()) == [value_of(row) for row in golden.values()], name
    for full, short in zip(golden, ours, strict=True):
        assert full.endswith(f"_{short}"), (full, short)


@pytest.mark.parametrize("name", ENUMS)
def test_an_enum_has_the_golden_values_everywhere(name):
    members = enum_class(name).__members__
    held(ENUMS[name], {short: int(member) for short, member in members.items()}, name)
    prefix = f"EFA_{bare(name).upper()}__"
    native = {m.removeprefix(prefix): c_value(t) for m, t in NATIVE.items() if m.startswith(prefix)}
    held(ENUMS[name], native, name)
    sized = {m.removeprefix(prefix): t for m, t in VERILOG.items() if m.startswith(prefix)}
    plain = {m: v_value(t) for m, t in sized.items() if not re.search(r"_W\d+$", m)}
    held(ENUMS[name], plain, name)
    for literal, text in sized.items():
        short, _, width = literal.rpartition("_W")
        if short in plain and width.isdigit():
            assert text == f"{width}'d{plain[short]}"


def test_python_tables_have_the_golden_values():
    assert {r.name: int(r) for r in defs.Reg} == {n: row[0] for n, row in REGISTERS.items()}
    assert {r.name: v for r, v in defs.REG_RESET.items()} == {n: r[2] for n, r in REGISTERS.items()}
    for layouts, golden in (
        (defs.REG_BITS, {name: extras(row) for name, row in REGISTERS.items()}),
        (defs.DOORBELL_BITS, {n: row.get("fields", {}) for n, row in GOLDEN["doorbells"].items()}),
    ):
        named = {name: bits for name, bits in golden.items() if bits}
        assert list(layouts) == list(named)
        for name, bits in named.items():
            wanted = {
                b: (r[0], r[1], enum_class(r[2] if len(r) > 2 else None)) for b, r in bits.items()
            }
            assert layouts[name].fields == wanted and layouts[name].width == 32
    for name, value in GOLDEN["constants"].items():
        assert getattr(defs, name) == value
    crc = GOLDEN["crc16"]
    ours = (defs.CRC16_POLY, defs.CRC16_INIT, defs.CRC16_XOROUT)
    assert ours == (crc["poly"], crc["init"], crc["xorout"])
    for ours, golden in ((defs.LIMITS, LIMITS), *(
        (defs.PROFILES[name], profile) for name, profile in GOLDEN["profiles"].items()
    )):  # fmt: skip
        plain = {n: bytes.fromhex(v) if isinstance(v, str) else v for n, v in golden.items()}
        assert dict(ours) == plain
    assert set(defs.PROFILES) == set(GOLDEN["profiles"])


def test_python_commands_have_the_golden_values():
    assert {
        opcode.name: [int(opcode), *(cls.NAME for cls in classes)]
        for opcode, classes in defs.COMMANDS.items()
    } == GOLDEN["commands"]
    assert {
        feature.name: [int(feature), *(cls and cls.NAME for cls in classes)]
        for feature, classes in defs.FEATURES.items()
    } == GOLDEN["features"]
    statuses = {n: rows for n, rows in GOLDEN["command_statuses"].items() if n != "every"}
    assert {
        opcode.name: [status.name for status in rows]
        for opcode, rows in defs.COMMAND_STATUSES.items()
    } == statuses


# Width of each field of each event; a golden field with an enum is a list of width and enum.
EVENT_WIDTHS = {
    name: {field: value[0] if isinstance(value, list) else value
           for field, value in row.items() if field != "engine"}
    for name, row in GOLDEN["events"].items()
}  # fmt: skip


def test_python_events_have_the_golden_values():
    assert [e.name.lower() for e in sorted(defs.Ev)] == list(EVENT_WIDTHS)
    assert [int(e) for e in defs.Ev] == list(range(len(EVENT_WIDTHS)))
    for name, fields in EVENT_WIDTHS.items():
        assert [(n, row[1]) for n, row in defs.EVENTS[name].fields.items()] == list(fields.items())


def test_python_events_belong_to_the_golden_engines():
    engines = {kind.name.lower(): engine for engine, kinds in defs.EV_ENGINES.items()
               for kind in kinds}
    assert engines == {name: row["engine"] for name, row in GOLDEN["events"].items()}


# Verilog and C


def v_value(text):
    """Returns the number of a Verilog literal."""
    width, _, digits = text.rpartition("'")
    if not width:
        return int(text)
    value = int(digits[1:], {"h": 16, "d": 10}[digits[0]])
    assert value >> int(width) == 0, text
    return value


def v_chosen(text, strap, width):
    """Returns what a macro with the arguments (w, p) gives for a profile's strap."""
    of_strap = dict(re.findall(r"\(p\) == 2'd(\d+) \? w'd(\d+)", text))
    other = re.fullmatch(r"\(?(?:\(p\) == 2'd\d+ \? w'd\d+ : )*w'd(\d+)\)?", text)
    return v_value(f"{width}'d{of_strap.get(str(strap), other.group(1))}")


def v_range(text):
    """Returns the lowest bit and the width of a Verilog range."""
    high, _, low = text.partition(":")
    return int(low or high), int(high) - int(low or high) + 1


def c_value(text):
    """Returns the number of a C constant, or of the image of a byte string."""
    if text.startswith("{"):
        return int.from_bytes(
            bytes(int(byte, 16) for byte in text.strip("{}").split(", ")), "little"
        )
    return int(text.rstrip("ul"), 0)


def places():
    """Returns macro and range of every bit field that both headers define."""
    for name in STRUCTS:
        for path, lsb, width in flat(STRUCTS, name):
            yield f"EFA_{bare(name).upper()}__{path.upper()}", (lsb, width)
    for name, row in REGISTERS.items():
        for bits, (lsb, width, *_) in extras(row).items():
            yield f"EFA_REG__{name}__{bits}", (lsb, width)
    for name, row in GOLDEN["doorbells"].items():
        for bits, (lsb, width, *_) in row.get("fields", {}).items():
            yield f"EFA_{name}__{bits}", (lsb, width)
    for name, fields in EVENT_WIDTHS.items():
        lsb = 0
        for field, width in fields.items():
            yield f"EFA_EV_{name.upper()}__{field.upper()}", (lsb, width)
            lsb += width


def numbers():
    """Returns macro and value of every number that both headers define, without enums."""
    yield from GOLDEN["constants"].items()
    yield from ((f"EFA_LIMITS__{name}", value) for name, value in scalars(LIMITS))
    for name, (offset, _, reset, *_) in REGISTERS.items():
        yield f"EFA_REG__{name}", offset
        yield f"EFA_REG__{name}__RESET", reset
    for name, struct in STRUCTS.items():
        yield f"EFA_{bare(name).upper()}__BYTES", struct["size"]
    for index, name in enumerate(EVENT_WIDTHS):
        yield f"EFA_EV__{name.upper()}", index
    yield "EFA_EV__COUNT", len(EVENT_WIDTHS)


def verilog_only():
    yield "EFA_PCI__VENDOR_ID", GOLDEN["pci"]["vendor_id"]
    yield "EFA_PCI__CLASS_CODE", GOLDEN["pci"]["class_code"]
    for name in ("poly", "init", "xorout"):
        yield f"EFA_CRC16__{name.upper()}", GOLDEN["crc16"][name]
    for name, struct in STRUCTS.items():
        yield f"EFA_{bare(name).upper()}__BITS", struct["size"] * 8
    for name, fields in EVENT_WIDTHS.items():
        yield f"EFA_EV_{name.upper()}__W", sum(fields.values())


ENUM_PREFIXES = tuple(f"EFA_{bare(name).upper()}__" for name in ENUMS)


# First event of each engine and number of its events, in the order of the golden events.
ENGINE_EVENTS = {
    "HOST": (0, 5), "ADMIN": (5, 4), "QP": (9, 1), "TX": (10, 8), "RX": (18, 5), "CQ": (23, 3)
}  # fmt: skip


def test_the_verilog_header_has_the_golden_values():
    ranges, values = dict(places()), {**dict(numbers()), **dict(verilog_only())}
    for engine, (first, count) in ENGINE_EVENTS.items():
        for name, bits in (("VALID", 1), ("DATA", 64)):
            ranges[f"EFA_EV__{engine}_{name}"] = bits * first, bits * count
    for macro, wanted in ranges.items():
        assert v_range(VERILOG[macro]) == wanted, macro
    for macro, wanted in values.items():
        assert v_value(VERILOG[macro]) == wanted, macro
    others = VERILOG.keys() - ranges.keys() - values.keys() - {"EFA_PROFILE_W"}
    assert v_value(VERILOG["EFA_PROFILE_W"]) == 2
    for strap, (name, profile) in enumerate(GOLDEN["profiles"].items()):
        assert VERILOG[f"EFA_PROFILE__{name.upper()}"] == f"2'd{strap}"
        for key, wanted in profile.items():
            assert v_chosen(VERILOG[f"EFA_PROFILE__{key.upper()}(w,p)"], strap, 64) == wanted, key
            others -= {f"EFA_PROFILE__{key.upper()}(w,p)"}
        others -= {f"EFA_PROFILE__{name.upper()}"}
    assert [m for m in others if not m.startswith((*ENUM_PREFIXES, *INTERNAL))] == []


def test_the_c_header_has_the_golden_values():
    ranges = {f"{macro}__{part}": number for macro, wanted in places()
              for part, number in zip(("LSB", "WIDTH"), wanted, strict=True)}  # fmt: skip
    values = {**ranges, **dict(numbers())}
    for macro, wanted in values.items():
        assert c_value(NATIVE[macro]) == wanted, macro
    others = NATIVE.keys() - values.keys()
    assert [macro for macro in others if not macro.startswith((*ENUM_PREFIXES, TRANSPORT))] == []


# Byte images


IMAGES = [
    pytest.param(name, image, id=f"{name}-{index}")
    for name, images in read_images()["struct_images"].items()
    for index, image in enumerate(images)
]


def test_every_struct_has_an_image():
    assert list(read_images()["struct_images"]) == list(STRUCTS)


def places_of(name, values, base=0):
    """Yields lowest bit, width and value of each value of an image, from the golden offsets only.
    """
    for path, value in values.items():
        struct, lsb, (*outer, last) = name, base, path.split("/")
        for step in outer:
            row = STRUCTS[struct]["fields"][step]
            struct, lsb = row[2].removeprefix("struct "), lsb + row[0] * 8
        fields = STRUCTS[struct]["fields"]
        field, _, bits = (last, "", "") if last in fields else last.rpartition(".")
        offset, size, kind, *_ = fields[field]
        lsb += offset * 8
        if bits:
            low, width, *_ = extras(fields[field])["bits"][bits]
            yield lsb + low, width, value
        elif isinstance(value, str):
            yield lsb, size * 8, int.from_bytes(bytes.fromhex(value), "little")
        elif isinstance(value, (list, dict)):
            inner, count = re.fullmatch(r"(?:struct )?(\w+)\[(\d+)\]", kind).groups()
            each = size * 8 // int(count)
            for index, item in value.items() if isinstance(value, dict) else enumerate(value):
                if isinstance(item, dict):
                    yield from places_of(inner, item, lsb + index * each)
                else:
                    yield lsb + index * each, each, item
        else:
            yield lsb, size * 8, value


@pytest.mark.parametrize(("name", "image"), IMAGES)
def test_an_image_follows_from_the_golden_places(name, image):
    number, covered = 0, 0
    for lsb, width, value in places_of(name, image["values"]):
        assert value >> width == 0
        assert not covered & (((1 << width) - 1) << lsb), "set twice"
        covered |= ((1 << width) - 1) << lsb
        number |= value << lsb
    assert number.to_bytes(STRUCTS[name]["size"], "little") == image_bytes(image["hex"])


@pytest.mark.parametrize(("name", "image"), IMAGES)
def test_the_headers_find_the_values_of_an_image(name, image):
    whole = int.from_bytes(image_bytes(image["hex"]), "little")
    prefix = f"EFA_{bare(name).upper()}"
    macros_at = {}
    for path, lsb, width in flat(STRUCTS, name):
        macros_at.setdefault((lsb, width), f"{prefix}__{path.upper()}")
    found = 0
    for lsb, width, value in places_of(name, image["values"]):
        # Elements of long arrays have no range of their own.
        if (lsb, width) not in macros_at:
            continue
        macro, found = macros_at[lsb, width], found + 1
        low, wide = v_range(VERILOG[macro])
        assert whole >> low & (1 << wide) - 1 == value, macro
        low, wide = (c_value(NATIVE[f"{macro}__{part}"]) for part in ("LSB", "WIDTH"))
        assert whole >> low & (1 << wide) - 1 == value, macro
    assert found
