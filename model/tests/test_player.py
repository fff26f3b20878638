# SPDX-License-Identifier: Apache-2.0
"""Tests the replay of recorded sessions: unmodified sessions pass, every kind of change is
detected."""

import gzip
import json
from pathlib import Path

import pytest

from efa_cosim.backends.model import ModelBackend
from efa_cosim.device import objects
from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import crc16
from efa_cosim.session.player import open_player, play
from efa_cosim.session.recording import SessionError, read_session
from efa_cosim.session.result import PlayError
from efa_cosim.session.settings import Settings

SESSIONS = Path(__file__).parent / "data" / "sessions"
Op = defs.AdminAqOpcode
Reg = defs.Reg
COUNTS = {
    "probe": {"stores": 55, "register_responses": 13, "admin_responses": 18, "interrupts": 18},
    "devinfo": {"stores": 62, "register_responses": 13, "admin_responses": 25, "interrupts": 25},
    "pingpong": {"stores": 2887, "register_responses": 13, "admin_responses": 50, "interrupts": 50,
                 "completions": 400, "payload_bytes": 204_800, "packets": 200},
}


def model(**options):
    return ModelBackend(**{"profile": "recorded", "record": True, **options})


def session(name):
    return SESSIONS / f"{name}.jsonl.gz"


def rows_of(name):
    with gzip.open(session(name), "rt") as stream:
        return [json.loads(line) for line in stream]


def written(folder, rows):
    path = folder / "edited.jsonl.gz"
    with gzip.open(path, "wt", compresslevel=1) as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def flip(text, at=0):
    """Returns the hex text with one bit of byte `at` inverted."""
    data = bytearray.fromhex(text)
    data[at] ^= 1
    return data.hex()


def command_index(rows, opcode, number=0):
    """Returns the index of the AQE of the number-th command of an opcode."""
    found = [i for i, row in enumerate(rows) if row[0] == "m"
             and rows[i - 1][:3] == ["w", 0, Reg.AQ_PROD_DB] and int(row[2][4:6], 16) == opcode]
    return found[number]


@pytest.mark.parametrize("node_id", [1, 5])
@pytest.mark.parametrize("name", COUNTS)
def test_a_session_passes(name, node_id):
    result = play(session(name), model(node_id=node_id))
    for counter, value in COUNTS[name].items():
        assert getattr(result, counter) == value, counter
    assert result.backend == "model"


@pytest.mark.parametrize("name", ["linux_srd", "linux_events", "linux_libfabric", "linux_mpi",
                                  "linux_rdma", "linux_rebind", "linux_rtl"])
@pytest.mark.parametrize("node_id", [1, 5])
def test_a_session_of_the_server_passes(name, node_id):
    found = read_session(session(name))
    with open_player("model", found, node_id=node_id) as backend:
        assert play(session(name), backend, session=found).admin_responses > 20


def test_control_alone_leaves_the_data_path_out():
    result = play(session("pingpong"), model(), control_only=True)
    assert (result.completions, result.payload_bytes, result.packets) == (0, 0, 0)
    assert result.admin_responses == 50
    assert result.skipped > 2800


@pytest.mark.parametrize(("name", "stores", "responses"), [
    ("perftest", 178, 141), ("efatests", 2479, 1249)])
@pytest.mark.parametrize("node_id", [1, 5])
def test_the_control_plane_of_large_programs_passes(name, stores, responses, node_id):
    """Replays sessions without the data path: BAR 0 only, hundreds of objects created and
    destroyed."""
    path = SESSIONS.parent / "control" / f"{name}.jsonl.gz"
    result = play(path, model(node_id=node_id), control_only=True)
    # Host stores for keep-alives of the recording device are left out.
    consumed = [step for step in read_session(path).steps
                if step.data and step.offset == Reg.AENQ_CONS_DB and step.value]
    assert (result.stores, result.skipped) == (stores, len(consumed))
    assert (result.register_responses, result.admin_responses) == (13, responses)
    assert (result.interrupts, result.completions, result.payload_bytes) == (responses, 0, 0)


def test_progress_is_reported():
    message = []
    play(session("pingpong"), model(), progress=lambda done, total: message.append((done, total)))
    assert message[0] == (0, 2891)
    assert len(message) > 10


def test_a_session_plays_twice_on_one_device():
    backend = model()
    for _ in range(2):
        play(session("pingpong"), backend)


@pytest.fixture
def other_numbers(monkeypatch):
    """A device that allocates numbers from the top differs from the recorded device in every
    number."""
    def highest_free(table, uar=None):
        free = (n for n in reversed(range(table.count))
                if n not in table.live and table.touched.get(n, uar) == uar)
        return next(free, None)

    monkeypatch.setattr(objects.Table, "free_number", highest_free)


@pytest.mark.usefixtures("other_numbers")
def test_numbers_of_another_device_are_translated():
    assert play(session("pingpong"), model()).completions == 400


def first(rows, condition, start=0):
    return next(i for i in range(start, len(rows)) if condition(rows[i], rows, i))


def is_completion_head(row, rows, i):
    return row[0] == "d" and len(row[2]) == 6 and len(rows[i - 1][2]) == 56


EDITS = {
    # Changes an expected effect: the difference is reported at the changed line or the first line
    # of its entry.
    "request id of a completion": (is_completion_head, lambda row: flip(row[2], 0), -1),
    "status of a completion": (is_completion_head, lambda row: flip(row[2], 2), -1),
    "length of a receive": (
        lambda row, rows, i: row[0] == "d" and len(row[2]) == 56 and row[2][4:8] == "2804",
        lambda row: flip(row[2], 2), 0),
    "payload": (lambda row, rows, i: row[0] == "d" and len(row[2]) == 2048,
                lambda row: flip(row[2], 700), 0),
    "sequence number of a register response": (
        lambda row, rows, i: row[0] == "d" and len(row[2]) == 4, lambda row: flip(row[2]), -1),
    "offset of a register response": (
        lambda row, rows, i: row[0] == "d" and len(row[2]) == 12, lambda row: flip(row[2]), 0),
    "status of a response": (
        lambda row, rows, i: row[0] == "d" and len(row[2]) == 6 and len(rows[i - 1][2]) == 120,
        lambda row: flip(row[2], 2), -1),
    "phase of a response": (
        lambda row, rows, i: row[0] == "d" and len(row[2]) == 2 and len(rows[i - 2][2]) == 120,
        lambda row: flip(row[2]), -2),
}


@pytest.mark.parametrize("what", EDITS)
def test_a_changed_effect_is_found_at_its_line(tmp_path, what):
    rows = rows_of("pingpong")
    condition, edit, distance = EDITS[what]
    index = first(rows, condition)
    rows[index][2] = edit(rows[index])
    with pytest.raises(PlayError) as error:
        play(written(tmp_path, rows), model())
    assert error.value.line == index + 1 + distance
    assert "expected" in str(error.value)
    assert f"edited.jsonl.gz:{error.value.line}: " in str(error.value)


def test_a_changed_payload_in_host_memory_is_found(tmp_path):
    rows = rows_of("pingpong")
    index = first(rows, lambda row, rows, i: row[0] == "m" and len(row[2]) == 2048)
    target = first(rows, lambda row, rows, i: row[0] == "d" and len(row[2]) == 2048, index)
    rows[index][2] = flip(rows[index][2], 1023)
    with pytest.raises(PlayError, match="payload") as error:
        play(written(tmp_path, rows), model())
    assert error.value.line == target + 1


@pytest.mark.parametrize("byte", [0, 700, 1023])
def test_a_changed_payload_byte_is_shown_with_offset_and_both_values(tmp_path, byte):
    rows = rows_of("pingpong")
    index = first(rows, lambda row, rows, i: row[0] == "d" and len(row[2]) == 2048)
    _, address, text = rows[index]
    rows[index][2] = flip(text, byte)
    came, expected = (bytes.fromhex(one)[byte] for one in (text, rows[index][2]))
    with pytest.raises(PlayError) as error:
        play(written(tmp_path, rows), model())
    assert error.value.text == (
        f"payload at {address:#x}, byte {byte} of 1024, address {address + byte:#x}: "
        f"expected {expected:#04x}, got {came:#04x}")


ZEROS = {
    "admin response": ("pingpong", 3, "bytes 0 to 2"),
    "checksum of a response": ("pingpong", 1, "byte 3"),
    "completion": ("pingpong", 28, "bytes 4 to 31"),
}


@pytest.mark.parametrize("what", ZEROS)
def test_a_deleted_line_of_zeros_is_found(tmp_path, what):
    name, size, missing = ZEROS[what]
    rows = rows_of(name)
    index = first(rows, lambda row, rows, i: row[0] == "d" and row[2] == "00" * size)
    del rows[index]
    with pytest.raises(PlayError, match="is incomplete: expected") as error:
        play(written(tmp_path, rows), model())
    assert f"found no 'd' line for {missing}; " in error.value.text
    assert abs(error.value.line - index) <= 2


def test_a_missing_interrupt_counts_as_one_too_many(tmp_path):
    rows = rows_of("probe")
    index = first(rows, lambda row, rows, i: row[0] == "i")
    del rows[index]
    with pytest.raises(PlayError, match="interrupt 0 was not expected") as error:
        play(written(tmp_path, rows), model())
    assert error.value.line <= index + 1


def test_an_interrupt_more_does_not_come(tmp_path):
    rows = rows_of("probe")
    index = first(rows, lambda row, rows, i: row[0] == "i")
    rows.insert(index, ["i", 0])
    with pytest.raises(PlayError, match="interrupt 0: expected 2, got 1"):
        play(written(tmp_path, rows), model())


def test_an_interrupt_of_another_vector_does_not_come(tmp_path):
    rows = rows_of("probe")
    index = first(rows, lambda row, rows, i: row[0] == "i")
    rows[index][1] = 3
    with pytest.raises(PlayError, match="interrupt 3: expected 1, got 0") as error:
        play(written(tmp_path, rows), model())
    assert error.value.line == index + 1


def test_a_completion_that_was_not_recorded_is_found(tmp_path):
    rows = rows_of("pingpong")
    index = first(rows, is_completion_head)
    del rows[index - 1 : index + 2]
    with pytest.raises(PlayError, match="completion at .* was not expected"):
        play(written(tmp_path, rows), model())


def test_an_entry_that_the_device_does_not_write_is_waited_for_and_reported(tmp_path):
    rows = rows_of("probe")
    doorbell = first(rows, lambda row, rows, i: row[:3] == ["w", 0, Reg.AQ_PROD_DB])
    rows[doorbell][3] = "00000000"
    with pytest.raises(PlayError):
        play(written(tmp_path, rows), model())


def test_a_skipped_command_is_reported(tmp_path):
    rows = rows_of("probe")
    index = command_index(rows, Op.GET_FEATURE, 2)
    del rows[index]
    with pytest.raises(PlayError, match="not in the session") as error:
        play(written(tmp_path, rows), model())
    assert error.value.line == index


def test_a_number_that_was_never_handed_out_is_reported(tmp_path):
    rows = rows_of("pingpong")
    index = command_index(rows, Op.CREATE_QP)
    command = defs.AdminCreateQpCmd.unpack(bytes.fromhex(rows[index][2]))
    command.pd = 77
    rows[index][2] = command.pack().hex()
    with pytest.raises(PlayError, match="cannot be played: pd 0x4d") as error:
        play(written(tmp_path, rows), model())
    assert error.value.line == index + 1


def test_a_refused_command_shows_both_statuses(tmp_path):
    rows = rows_of("pingpong")
    index = command_index(rows, Op.CREATE_CQ)
    command = defs.AdminCreateCqCmd.unpack(bytes.fromhex(rows[index][2]))
    command.num_sub_cqs = 7
    rows[index][2] = command.pack(64).hex()
    with pytest.raises(PlayError, match="CREATE_CQ: .*SUCCESS.*ILLEGAL_PARAMETER") as error:
        play(written(tmp_path, rows), model())
    assert error.value.line == index + 2


def test_another_profile_refuses_what_was_recorded():
    with pytest.raises(PlayError, match="CREATE_CQ"):
        play(session("pingpong"), model(profile="default"))


def test_a_wrong_checksum_of_the_device_is_found():
    backend = model()
    write = backend.device.dma_write

    def corrupted(address, data):
        if len(data) == defs.AdminAcqEntry.SIZE:
            entry = defs.AdminAcqEntry.unpack(bytes(data))
            entry.acq_common_descriptor.checksum ^= 1
            data = entry.pack()
        write(address, data)

    backend.device.dma_write = corrupted
    with pytest.raises(PlayError, match="checksum is wrong"):
        play(session("probe"), backend)


def test_a_write_to_nowhere_is_found():
    backend = model()
    write = backend.device.dma_write

    def stray(address, data):
        write(address, data)
        if len(data) == 1024 + defs.LIMITS.grh_bytes or len(data) == 1024:
            write(0x1000, b"stray")

    backend.device.dma_write = stray
    with pytest.raises(PlayError, match="outside rings and payload"):
        play(session("pingpong"), backend)


def test_a_payload_that_comes_twice_is_found():
    backend = model()
    write = backend.device.dma_write

    def twice(address, data):
        write(address, data)
        if len(data) in (1024, 1024 + defs.LIMITS.grh_bytes):
            write(address, data)

    backend.device.dma_write = twice
    with pytest.raises(PlayError, match="was written more often than expected"):
        play(session("pingpong"), backend)


def test_a_doorbell_of_no_queue_is_reported(tmp_path):
    rows = rows_of("pingpong")
    index = first(rows, lambda row, rows, i: row[:2] == ["w", 2] and row[2] > 1 << 26)
    rows[index][2] += 0x800
    with pytest.raises(PlayError, match="no queue has a doorbell") as error:
        play(written(tmp_path, rows), model())
    assert error.value.line == index + 1


# Files that are no sessions

BROKEN = {
    "unknown kind": (["x", 1], "unknown kind 'x'"),
    "no list": ({"w": 1}, "a line is a list"),
    "odd hex": (["d", 16, "abc"], "not hexadecimal"),
    "no bytes": (["d", 16, ""], "bytes are empty"),
    "missing value": (["w", 0, 92], "takes 3 values"),
    "no number": (["i", "0"], "vector is not a number"),
    "negative": (["m", -1, "00"], "address is not a number"),
    "unknown BAR": (["w", 9, 0, "00000000"], "bar is not a number"),
    "line crossing": (["w", 2, 60, "0000000000000000"], "crosses a 64-byte line"),
    "late settings": (["session", {"interface": "0.2", "profile": "default", "limits": {}}],
                      "not on the first line"),
}


BROKEN |= {
    "pass the end of memory": (["d", (1 << 64) - 1, "0011"], "pass the end of memory"),
    "a fraction": (["w", 0, 4.5, "00000000"], "offset is not a number"),
    "a truth": (["i", True], "vector is not a number"),
    "a version": (["version", 2], "unknown kind 'version'"),
    "no text": (["d", 16, 12], "not hexadecimal"),
    "a long store": (["w", 0, 0, "00" * 65], "crosses a 64-byte line"),
    "a long line": (["m", 0, "00" * (1 << 19)], "a line of more than 1048576 bytes"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_line_is_named(tmp_path, what):
    row, text = BROKEN[what]
    rows = rows_of("probe")
    rows.insert(20, row)
    with pytest.raises(SessionError, match=text) as error:
        read_session(written(tmp_path, rows))
    assert "edited.jsonl.gz:21: " in str(error.value)


def test_a_missing_reset_is_named(tmp_path):
    with pytest.raises(SessionError, match=":1: the session does not start with a reset"):
        read_session(written(tmp_path, rows_of("probe")[1:]))


SETTINGS = {"interface": "0.2", "profile": "recorded", "limits": {}}


@pytest.mark.parametrize(("changes", "message"), [
    ({"profile": "large"}, "profile 'large'; expected one of default, recorded"),
    ({"profile": ["default"]}, "profile .'default'.; expected one of"),
    ({"interface": "1.2"}, "interface '1.2'; expected 0.1 to 0.255"),
    ({"interface": 2}, "interface 2; expected 0.1"),
    ({"interface": "0.0"}, "interface '0.0'"),
    ({"limits": {"qpn": 6}}, "no limit 'qpn'"),
    ({"limits": {"gid_prefix": 6}}, "no limit 'gid_prefix'"),
    ({"limits": {"qpn_w": "6"}}, "limit qpn_w is '6'; expected a number"),
    ({"limits": {"qpn_w": True}}, "limit qpn_w is True"),
    ({"limits": [6]}, "limits are no object"),
    ({"more": 1}, "no object with interface, profile, limits"),
])
def test_wrong_settings_are_named(tmp_path, changes, message):
    rows = [["session", SETTINGS | changes], *rows_of("probe")]
    with pytest.raises(SessionError, match=f":1: .*{message}"):
        read_session(written(tmp_path, rows))


def test_settings_are_no_list(tmp_path):
    with pytest.raises(SessionError, match=":1: the settings are no object"):
        read_session(written(tmp_path, [["session", []], *rows_of("probe")]))


def test_the_settings_open_the_device(tmp_path):
    rows = rows_of("pingpong")
    limits = {"qpn_w": 7, "ah_w": 8}
    for row, interface in ((SETTINGS, 0), (SETTINGS | {"interface": "0.1"}, 1),
                           (SETTINGS | {"limits": limits}, 0)):
        found = read_session(written(tmp_path, [["session", row], *rows]))
        assert found.settings.as_row() == row
        with open_player("model", found, node_id=3) as backend:
            assert (backend.node_id, backend.device.interface) == (3, interface)
            assert backend.device.limits.qpn_w == row["limits"].get("qpn_w", 6)
            assert backend.device.profile.sub_cqs_per_cq == 2


def with_answers(version, sub_cqs):
    """Returns a session in which the device has another interface version and number of sub-CQs."""
    rows = rows_of("devinfo")
    read = first(rows, lambda row, rows, i: row[:3] == ["w", 0, Reg.MMIO_REG_READ]
                 and int(row[3][4:], 16) == Reg.VERSION)
    assert rows[read + 1][2] == "000002000000"  # offset of the register, value
    rows[read + 1][2] = f"0000{version:02x}000000"
    command = command_index(rows, Op.GET_FEATURE, 1)
    # The response without the first four bytes.
    at = 2 * (8 + defs.AdminFeatureQueueAttrDesc1.FIELDS["sub_cqs_per_cq"].offset - 4)
    response = rows[command + 1]
    assert response[0] == "d" and response[2][at : at + 4] == "0200"
    response[2] = f"{response[2][:at]}{sub_cqs:02x}00{response[2][at + 4 :]}"
    return rows


@pytest.mark.parametrize(("version", "sub_cqs", "settings"), [
    (2, 2, Settings("recorded")), (1, 2, Settings("recorded", 1)), (2, 1, Settings("default")),
    (3, 1, Settings("default", 3))])
def test_a_session_without_settings_shows_them(tmp_path, version, sub_cqs, settings):
    assert read_session(written(tmp_path, with_answers(version, sub_cqs))).settings == settings


def test_a_number_of_sub_cqs_that_no_profile_has_is_named(tmp_path):
    with pytest.raises(SessionError, match="recorded with 7 sub-CQs in a CQ; no profile has"):
        read_session(written(tmp_path, with_answers(2, 7)))


def test_a_session_without_attributes_has_the_settings_of_the_recorded_device(tmp_path):
    rows = [row for row in rows_of("devinfo") if row[0] in ("reset", "i") or row[1:2] == [2]]
    assert read_session(written(tmp_path, rows)).settings == Settings("recorded")


def test_a_function_level_reset_in_a_session_is_played(tmp_path):
    rows = rows_of("pingpong")
    result = play(written(tmp_path, rows + rows), model())
    assert (result.completions, result.payload_bytes) == (800, 409_600)


def test_output_that_a_reset_leaves_is_found(tmp_path):
    rows = rows_of("pingpong")
    last = max(i for i, row in enumerate(rows) if row[0] == "i")
    with pytest.raises(PlayError, match="interrupt 0 was not expected here"):
        play(written(tmp_path, rows[:last] + rows[last + 1 :] + rows), model())


def wqes_of(rows):
    """Returns the places of the stores of each send WQE that is stored in eight pieces."""
    found, pieces = [], []
    for place, row in enumerate(rows):
        if row[:2] == ["w", 2] and len(row[3]) == 16:
            pieces.append(place)
            if len(pieces) == 8:
                found.append(pieces)
                pieces = []
    return found


@pytest.mark.usefixtures("other_numbers")
@pytest.mark.parametrize("piece", [1, 3, 4, 7])
def test_a_wqe_may_be_stored_around_other_stores(tmp_path, piece):
    """Another thread stores to a register, and the device answers, between the pieces of a WQE."""
    rows = rows_of("pingpong")
    read = first(rows, lambda row, rows, i: row[:3] == ["w", 0, Reg.MMIO_REG_READ]
                 and int(row[3][4:], 16) == Reg.VERSION)
    assert [row[0] for row in rows[read : read + 4]] == ["w", "d", "d", "w"]
    for pieces in reversed(wqes_of(rows)[:40]):
        rows[pieces[piece] : pieces[piece]] = rows[read : read + 3]
    result = play(written(tmp_path, rows), model())
    assert (result.completions, result.register_responses) == (400, 13 + 40)


def test_a_truncated_file_is_named(tmp_path):
    path = tmp_path / "cut.jsonl.gz"
    whole = session("pingpong").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SessionError, match=r"cut.jsonl.gz:\d+: .*truncated"):
        read_session(path)


def test_damaged_bytes_are_named(tmp_path):
    path = tmp_path / "bad.jsonl.gz"
    whole = bytearray(session("pingpong").read_bytes())
    for at in range(5000, 5100):
        whole[at] ^= 0x55
    path.write_bytes(whole)
    with pytest.raises(SessionError, match="bad.jsonl.gz:"):
        read_session(path)


def test_text_is_not_gzip(tmp_path):
    path = tmp_path / "plain.jsonl.gz"
    path.write_text('["reset"]\n')
    with pytest.raises(SessionError, match="not a gzip file"):
        read_session(path)


def test_bad_json_is_named(tmp_path):
    path = tmp_path / "bad.jsonl.gz"
    with gzip.open(path, "wt") as stream:
        stream.write('["reset"]\n["w", 0, 100\n')
    with pytest.raises(SessionError, match=":2: no JSON"):
        read_session(path)


@pytest.mark.parametrize(("text", "message"), [
    ("[" * 100_000, "lists too deep"), ('["w", 0, 1' + "0" * 5000 + ', "00"]', "number too long"),
    ('["w", 0, 1e400, "00"]', "offset is not a number"), ('["w", NaN, 4, "00"]', "bar is not"),
    ("", "no JSON"), ('["w", 0, 100', "character 14"), ("\udcff", "not UTF-8, byte 1")])
def test_lines_that_no_device_wrote_are_named(tmp_path, text, message):
    path = tmp_path / "bad.jsonl.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(b'["reset"]\n' + text.encode(errors="surrogateescape") + b"\n")
    with pytest.raises(SessionError, match=message) as error:
        read_session(path)
    assert "bad.jsonl.gz:2: " in str(error.value)


@pytest.mark.parametrize("length", [0, 1, 5, 11, 100, -9, -8, -1])
def test_a_cut_anywhere_is_no_session(tmp_path, length):
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(session("pingpong").read_bytes()[:length])
    with pytest.raises(SessionError, match=r"cut\.jsonl\.gz"):
        read_session(path)


def test_a_session_in_which_nothing_happens_is_refused(tmp_path):
    with pytest.raises(SessionError, match="nothing to compare"):
        read_session(written(tmp_path, rows_of("probe")[:1]))


def test_an_empty_file_is_no_session(tmp_path):
    with pytest.raises(SessionError, match="empty"):
        read_session(written(tmp_path, []))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SessionError, match="absent.gz: No such file"):
        read_session(tmp_path / "absent.gz")


def test_the_checksums_of_the_sessions_are_as_we_compute_them():
    step = next(s for s in read_session(session("probe")).steps if len(s.writes) == 3)
    image = bytearray(defs.AdminAcqEntry.SIZE)
    base = min(address for _, address, _ in step.writes)
    for _, address, data in step.writes:
        image[address - base : address - base + len(data)] = data
    entry = defs.AdminAcqEntry.unpack(image)
    recorded = entry.acq_common_descriptor.checksum
    entry.acq_common_descriptor.checksum = 0
    assert crc16(entry.pack()) == recorded
