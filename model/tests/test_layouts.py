# SPDX-License-Identifier: Apache-2.0
"""Tests layouts, checksums and register words against the golden images and the fact sheet."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from facts import image_bytes, read_images

from efa_cosim.layouts import codec, defs, fields
from efa_cosim.layouts.layout import BitField, Nested, Number

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT.parent / "shared" / "spec" / "efa_interface.yaml"
GOLDEN = read_images()["golden_vectors"]


def spec_file(name):
    return yaml.safe_load((ROOT / "spec" / name).read_text())


def locate(cls, path):
    """Returns the attribute names of a path of the golden vectors (a/b nests, a.b selects bits)."""
    names = []
    for part in path.split("/"):
        name, _, sub = part.partition(".")
        if not sub:
            names.append(name)
        elif isinstance(cls.FIELDS[name], Nested):
            names += [name, sub]
        else:
            own = cls.FIELDS.get(sub)
            plain = isinstance(own, BitField) and own.container == name
            names.append(sub if plain else f"{name}__{sub}")
        for step in names[-2:] if isinstance(cls.FIELDS.get(name), Nested) and sub else names[-1:]:
            attribute = cls.FIELDS[step]
            cls = getattr(attribute, "cls", cls)
    return names


def plain(cls, value):
    """Converts a golden value to the form of the attributes."""
    if isinstance(value, str):
        return bytes.fromhex(value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [{locate(cls, k)[0]: v for k, v in item.items()} for item in value]
    return value


def reach(struct, names):
    for name in names[:-1]:
        struct = getattr(struct, name)
    return struct, names[-1]


def values_of(image):
    """Returns attribute path and value of every value that an image sets."""
    cls = defs.STRUCTS[image["struct"]]
    for path, value in image["values"].items():
        names = locate(cls, path)
        element = getattr(reach(cls(), names)[0].FIELDS[names[-1]], "elements", None)
        inner = getattr(element[0], "cls", None) if element else None
        if isinstance(value, dict):
            value = [value.get(index, 0) for index in range(len(element))]
        yield names, plain(inner, value)


IMAGES = [pytest.param(i, id=i["name"]) for i in GOLDEN["images"]]
# Every struct with a value in every field.
IMAGES += [
    pytest.param({**image, "struct": name}, id=f"{name}-{index}")
    for name, images in read_images()["struct_images"].items()
    for index, image in enumerate(images)
]


@pytest.mark.parametrize("image", IMAGES)
def test_golden_image_is_packed(image):
    struct = defs.STRUCTS[image["struct"]]()
    for names, value in values_of(image):
        outer, last = reach(struct, names)
        setattr(outer, last, value)
    assert struct.pack() == image_bytes(image["hex"])


@pytest.mark.parametrize("image", IMAGES)
def test_golden_image_is_unpacked(image):
    cls = defs.STRUCTS[image["struct"]]
    struct = cls.unpack(image_bytes(image["hex"]))
    for names, value in values_of(image):
        outer, last = reach(struct, names)
        got = getattr(outer, last)
        if isinstance(value, bytes):
            assert got.startswith(value) and not any(got[len(value) :])
        elif isinstance(value, list) and isinstance(value[0], dict):
            fields = [
                (item, name, v)
                for item, want in zip(got, value, strict=True)
                for name, v in want.items()
            ]
            assert all(getattr(item, name) == v for item, name, v in fields)
        else:
            assert got == value
    assert cls.unpack(struct.pack()) == struct


@pytest.mark.parametrize("image", IMAGES)
def test_golden_image_is_read_as_columns(image):
    cls = defs.STRUCTS[image["struct"]]
    records = np.frombuffer(bytearray(image_bytes(image["hex"]) * 3), dtype=cls.DTYPE)
    empty = np.zeros(3, dtype=cls.DTYPE)
    for names, value in values_of(image):
        if isinstance(value, int):
            path = ".".join(names)
            assert codec.get_column(cls, records, path).tolist() == [value] * 3
            codec.set_column(cls, empty, path, value)
            assert codec.get_column(cls, empty, path).tolist() == [value] * 3


WRITES = {
    "mmio_reg_read": ("MMIO_REG_READ", {"REQ_ID": 1, "REG_OFF": defs.Reg.DEV_STS}),
    "dev_ctl_reset": ("DEV_CTL", {"DEV_RESET": 1}),
    "dev_ctl_shutdown": (
        "DEV_CTL",
        {"DEV_RESET": 1, "RESET_REASON": defs.RegsResetReasonTypes.SHUTDOWN},
    ),
    "aq_caps_v1": ("AQ_CAPS", {"AQ_DEPTH": 32, "AQ_ENTRY_SIZE": 64}),
    "aq_caps_v2": ("AQ_CAPS", {"AQ_DEPTH": 32, "AQ_ENTRY_SIZE": 128}),
    "acq_caps": ("ACQ_CAPS", {"ACQ_DEPTH": 32, "ACQ_ENTRY_SIZE": 64, "ACQ_MSIX_VECTOR": 0}),
    "aenq_caps": ("AENQ_CAPS", {"AENQ_DEPTH": 16, "AENQ_ENTRY_SIZE": 64}),
    "eq_arm": ("EQ_DB", {"EQN": 3, "ARM": 1}),
    "cq_arm": ("CQ_DB", {"CONSUMER_INDEX": 0x123, "CMD_SN": 1, "ARM": 1}),
}


@pytest.mark.parametrize("write", GOLDEN["register_writes"], ids=lambda w: w["name"])
def test_golden_register_write(write):
    register, fields = WRITES[write["name"]]
    layout = {**defs.REG_BITS, **defs.DOORBELL_BITS}[register]
    assert register == write["reg"]
    assert layout.pack(**fields) == write["value"]
    got = vars(layout.unpack(write["value"]))
    assert {name: value for name, value in got.items() if value} == {
        name: value for name, value in fields.items() if value
    }


@pytest.mark.parametrize("image", GOLDEN["crc_images"], ids=lambda i: i["name"])
def test_golden_checksum(image):
    data = bytes.fromhex(image["hex"])
    if image["name"].startswith("acq"):
        entry = defs.AdminAcqEntry.unpack(data)
        header = entry.acq_common_descriptor
    else:
        entry = defs.AdminAqEntryV2.unpack(data)
        header = entry.aq_common_descriptor
    assert len(data) == entry.SIZE and header.checksum == image["checksum"]
    header.checksum = 0
    assert codec.crc16(entry.pack()) == image["checksum"]


def test_checksum_of_known_texts():
    crc = spec_file("admin.yaml")["crc16"]
    assert codec.crc16(b"123456789") == crc["check_123456789"]
    assert codec.crc16(bytes(64)) == crc["zero_64B"]
    assert codec.crc16(bytes(128)) == crc["zero_128B"]


@pytest.mark.parametrize("file", ["admin.yaml", "io.yaml", "packet.yaml"])
def test_every_struct_has_its_size(file):
    structs = spec_file(file)["structs"]
    assert structs
    for struct in structs:
        cls = defs.STRUCTS[struct["name"]]
        assert cls.SIZE == len(cls().pack()) == cls.DTYPE.itemsize == struct["size"]


@pytest.mark.parametrize("cls", defs.STRUCTS.values(), ids=lambda c: c.NAME)
def test_too_wide_values_are_refused_and_named(cls):
    for name, attribute in cls.FIELDS.items():
        if not isinstance(attribute, (BitField, Number)):
            continue
        width = attribute.width if isinstance(attribute, BitField) else attribute.size * 8
        struct = cls(**{name: (1 << width) - 1})
        assert int.from_bytes(struct.pack(), "little").bit_count() == width
        message = f"{cls.NAME}.{name}: {1 << width:#x} does not fit {width} bits"
        with pytest.raises(ValueError, match=message):
            setattr(struct, name, 1 << width)
        with pytest.raises(ValueError, match="does not fit"):
            setattr(struct, name, -1)


def test_wrong_uses_are_refused():
    with pytest.raises(TypeError, match="efa_io_rx_desc has no field lenght"):
        defs.IoRxDesc(lenght=1)
    with pytest.raises(AttributeError):
        defs.IoRxDesc().lenght = 1
    with pytest.raises(ValueError, match="15 bytes, needs 16"):
        defs.IoRxDesc.unpack(bytes(15))
    with pytest.raises(ValueError, match="16 bytes do not fit 15"):
        defs.IoRxDesc().pack(15)
    with pytest.raises(ValueError, match="17 bytes do not fit 16"):
        defs.AdminCreateAhCmd(dest_addr=bytes(17))
    with pytest.raises(ValueError, match="3 values for 2"):
        defs.IoTxWqe().data.sgl = [{}, {}, {}]
    with pytest.raises(ValueError, match="AQ_CAPS.AQ_DEPTH: 0x10000 does not fit 16 bits"):
        defs.REG_BITS.AQ_CAPS.pack(AQ_DEPTH=65536)
    with pytest.raises(AttributeError, match="edit spec/"):
        defs.LIMITS.qpn_w = 3
    records = np.zeros(2, dtype=defs.IoTxMetaDesc.DTYPE)
    with pytest.raises(ValueError, match="op_type: 0x10 does not fit 4 bits"):
        codec.set_column(defs.IoTxMetaDesc, records, "op_type", [1, 16])


def test_entries_are_padded_and_views_share_their_bytes():
    command = defs.AdminDestroyCqCmd(aq_common={"opcode": defs.AdminAqOpcode.DESTROY_CQ}, cq_idx=7)
    entry = command.pack(defs.AdminAqEntry.SIZE)
    assert len(entry) == 64 and defs.AdminDestroyCqCmd.unpack(entry) == command
    ring = bytearray(64)
    defs.AdminDestroyCqCmd.over(ring).cq_idx = 0x1234
    assert ring[4:6] == b"\x34\x12"


def named_tuples():
    """Returns the named tuple and the struct of each layout of fields.py."""
    return [(cls, getattr(defs, name.removesuffix("Fields")))
            for name, cls in vars(fields).items() if name.endswith("Fields")]


@pytest.mark.parametrize(("named", "struct"), named_tuples())
def test_named_tuples_have_the_fields_of_their_structs(named, struct):
    image = bytes(range(1, struct.SIZE + 1))
    whole = {name: one for name, one in struct.FIELDS.items() if not isinstance(one, BitField)}
    read = named.read(b"skip" + image, 4)
    assert read._fields == tuple(whole)
    for name, attribute in whole.items():
        at = image[attribute.offset : attribute.offset + attribute.size]
        value = getattr(read, name)
        assert value == (int.from_bytes(at, "little") if isinstance(attribute, Number) else at)
    if hasattr(named, "pack"):
        assert named.pack(**read._asdict()) == image
        assert named.pack() == bytes(struct.SIZE)


def test_values_without_a_name_stay_numbers():
    desc = defs.IoCdescCommon(status=defs.IoCompStatus.FLUSHED)
    assert desc.status is defs.IoCompStatus.FLUSHED
    desc.status = 16
    assert desc.status == 16 and not isinstance(desc.status, defs.IoCompStatus)


def test_events_are_decoded():
    for number, event in enumerate(defs.EVENTS.values()):
        values = {name: (1 << width) - 1 for name, (_, width, _) in event.fields.items()}
        name, fields = codec.decode_event(number, event.pack(**values))
        assert name == event.name and vars(fields) == values
        assert event.pack(**values) == (1 << event.width) - 1


def test_command_and_feature_tables_follow_the_spec():
    admin = spec_file("admin.yaml")
    assert [c["opcode"] for c in admin["commands"]] == [int(code) for code in defs.COMMANDS]
    assert [f["id"] for f in admin["features"]] == [int(number) for number in defs.FEATURES]
    for command, classes in zip(admin["commands"], defs.COMMANDS.values(), strict=True):
        assert [cls.NAME for cls in classes] == [command["request"], command["response"]]


def by_name(items):
    return {item["name"]: item for item in items}


def without_gap(struct):
    fields = [{k: v for k, v in f.items() if k != "gap"} for f in struct["fields"]]
    return {**struct, "fields": fields}


def test_spec_equals_the_fact_sheet():
    if not FACTS.exists():
        pytest.skip("the fact sheet the spec was taken from is not beside this tree")
    facts = yaml.safe_load(FACTS.read_text())
    regs, admin, io = (spec_file(name) for name in ("regs.yaml", "admin.yaml", "io.yaml"))
    ours = {**regs, **admin, "golden_vectors": GOLDEN}
    for name in (
        "pci",
        "registers",
        "doorbells",
        "crc16",
        "pbl_chunk",
        "commands",
        "features",
        "golden_vectors",
    ):
        assert ours[name] == facts[name]
    constants = {**regs["constants"], **admin["constants"], **io["constants"]}
    assert constants == facts["constants"]
    enums = [*regs["enums"], *admin["enums"], *io["enums"]]
    assert by_name(enums) == by_name(facts["enums"])
    structs = [without_gap(s) for s in [*admin["structs"], *io["structs"]]]
    assert by_name(structs) == by_name(facts["structs"])
    assert len(enums) == len(facts["enums"]) and len(structs) == len(facts["structs"])
