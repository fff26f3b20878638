# SPDX-License-Identifier: Apache-2.0
"""Tests `efa-cosim serve --record`: what a client exchanges with the device plays without it."""

import gzip
import json

import numpy as np
import pytest
from test_serve import PAGE, Served, driver_of, refusal_of
from vfio_client import Client, GuestBackend

from efa_cosim.backends import SERVERS, backend_names
from efa_cosim.cli import main as cli
from efa_cosim.host.queue_pair import Sge
from efa_cosim.host.verbs import Context, gid_of
from efa_cosim.layouts import defs
from efa_cosim.live.checked import check_sessions, write_sessions
from efa_cosim.session.player import open_player, play
from efa_cosim.session.recording import SessionError, read_session
from efa_cosim.session.result import PlayError
from efa_cosim.session.settings import Settings
from efa_cosim.session.writer import ClientFiles

NAME = "run.jsonl.gz"
SIZE, QKEY = 100, 5


def served(folder, *options, backend="model"):
    options = ("--backend", backend, *options)
    return Served(folder, "--record", str(folder / NAME), *options, names=("a.sock",))


def exchange(guest, turns=3, sends=4):
    """Sends messages between two QPs whose CQs share an event queue; the receives of a turn have
    one buffer. Returns the driver."""
    driver = driver_of(guest)
    context = Context(driver)
    pd = context.alloc_pd()
    ends = []
    for _ in range(2):
        cq = context.create_cq(16, events=True)
        ends.append((pd.create_qp(cq, cq).to_rts(QKEY), cq))
    (a, sent), (b, received) = ends
    memory, there = pd.reg_mr(PAGE), pd.create_ah(gid_of(1))
    for turn in range(turns):
        for cq in (sent, received):
            cq.req_notify()
        memory.write(0, bytes([turn]) * SIZE)
        for number in range(sends):
            b.post_recv([Sge(memory.addr + PAGE // 2, SIZE, memory.l_key)], wr_id=number)
        a.post_send_many(range(sends), ah=there.number, dest_qp=b.number, qkey=QKEY,
                         sges=[(np.full(sends, memory.addr), SIZE, memory.l_key)])
        for cq in (sent, received):
            assert not any(cq.wait_for(sends)["status"])
    return driver


@pytest.fixture(scope="module")
def recorded(backend, tmp_path_factory):
    """The file of a session with messages, keep-alives of the model, and a reset of the function.
    """
    folder = tmp_path_factory.mktemp("record")
    server = served(folder, backend=backend)
    guest = GuestBackend(server.paths[0])
    driver = exchange(guest)
    if backend == "model":
        driver.wait(lambda: driver.aenq_events[defs.AdminAenqGroup.KEEP_ALIVE] >= 1)
    guest.flr()
    exchange(guest, turns=1)
    guest.close()
    server.wait_for("recorded ")
    assert server.end() == 0
    return folder / NAME


def rows_of(path):
    with gzip.open(path, "rt") as stream:
        return [json.loads(line) for line in stream]


def written(folder, rows):
    path = folder / "edited.jsonl.gz"
    with gzip.open(path, "wt") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def played(path, **options):
    session = read_session(path)
    with open_player("model", session, **options) as device:
        return play(path, device, session=session)


def test_what_was_recorded_plays(recorded):
    result = played(recorded)
    assert (result.completions, result.payload_bytes) == (32, 16 * SIZE)
    assert result.events == 8 and result.interrupts > 50
    assert cli.main(["play", str(recorded)]) == 0


def test_the_first_line_tells_the_settings(recorded):
    settings = read_session(recorded).settings
    assert (settings.profile, settings.interface) == ("cosim", 0)
    assert settings.limits["qpn_w"] == defs.LIMITS.qpn_w and not settings.differing_limits()


def test_without_its_first_line_the_device_tells_the_settings(recorded, tmp_path):
    path = written(tmp_path, rows_of(recorded)[1:])
    assert read_session(path).settings == Settings("default")
    assert played(path).completions == 32


def checked(rows, folder):
    """Compares rows of a device with the model; returns the report, the log, and the file."""
    lines = iter([json.dumps(row).encode() + b"\n" for row in rows[1:]] + [b'["end"]\n'])
    settings, log = Settings("default"), []
    files = ClientFiles(folder / NAME, settings, log.append)
    report = check_sessions(lines, files, settings, keep=False, say=log.append)
    write_sessions(lines, files)
    return report, log, folder / NAME


def test_a_device_like_the_model_is_checked_without_a_difference(recorded, tmp_path):
    report, log, path = checked(rows_of(recorded), tmp_path)
    assert report == "" and not path.exists() and not list(tmp_path.glob(".*"))
    assert len(log) == 1 and "32 completions" in log[0]


def test_the_first_difference_to_the_model_leaves_its_session(recorded, tmp_path, capsys):
    rows = rows_of(recorded)
    place = next(place for place, row in enumerate(rows) if row[0] == "d" and len(row[2]) == 64)
    rows[place][2] = rows[place][2][:4] + "09" + rows[place][2][6:]
    report, _, path = checked(rows, tmp_path)
    assert [line.split(":")[0] for line in report.splitlines()[1:]] == [
        "field", "expected", "found", "waves", "repeat"]
    assert rows[place][2] in report.splitlines()[3] and rows_of(path)[1:] == rows[1:]
    assert cli.main(["play", str(path)]) == 1
    assert "expected" in capsys.readouterr().err


@pytest.mark.slow
def test_the_model_runs_beside_the_served_rtl(tmp_path):
    if "verilator" not in backend_names(SERVERS):
        pytest.skip("no simulator is registered: run `make setup`")
    server = Served(tmp_path, "--backend", "verilator", "--checked", names=("a.sock",))
    guest = GuestBackend(server.paths[0])
    exchange(guest)
    guest.close()
    server.wait_for("no difference to the model")
    assert server.end() == 0
    assert not list(tmp_path.glob("*.gz"))


def test_keep_alives_are_left_out(recorded):
    rows = rows_of(recorded)
    consumed = [row for row in rows if row[:3] == ["w", 0, defs.Reg.AENQ_CONS_DB]]
    assert not any(bytes.fromhex(row[3]) != bytes(4) for row in consumed)
    assert sum(row == ["reset"] for row in rows) == 2


def test_receive_descriptors_stand_under_their_doorbell(recorded):
    rows = rows_of(recorded)
    size = defs.IoRxDesc.SIZE
    under = [rows[place - 1][0] for place, row in enumerate(rows)
             if row[0] == "m" and len(row[2]) == 2 * size]
    assert under == ["w"] * 16


def events_of(rows):
    """Returns the places of the two events of the first turn."""
    sizes = [place for place, row in enumerate(rows)
             if row[0] == "d" and len(row[2]) == 2 * defs.AdminEqe.SIZE]
    return sizes[:2]


def test_events_of_two_cqs_come_in_any_order(recorded, tmp_path):
    rows = rows_of(recorded)
    one, other = events_of(rows)
    assert rows[one][2] != rows[other][2]
    # The first one, then its interrupt, come after the completion of the second one.
    event, between = rows[one], rows[one + 1 : other]
    interrupts = [row for row in between if row[0] == "i"]
    effects = [row for row in between if row[0] != "i"]
    rows[one:other] = [*effects, event, *interrupts]
    one += len(effects)
    rows[one][2], rows[other][2] = rows[other][2], rows[one][2]
    assert played(written(tmp_path, rows)).events == 8
    rows[one][2] = rows[other][2]
    with pytest.raises(PlayError, match=r"jsonl.gz:\d+: completion event at .*: expected .*, got"):
        played(written(tmp_path, rows))


def test_each_client_has_a_file(tmp_path):
    server = served(tmp_path)
    Client(server.paths[0]).close()  # stores nothing
    server.wait_for("client left")
    for number in (1, 2):
        after = len(server.lines())
        guest = GuestBackend(server.paths[0])
        driver_of(guest)
        if number == 2:
            assert server.end() == 0  # completes the file of a client that is still there
        guest.close()
        server.wait_for("recorded ", after)
    assert sorted(path.name for path in tmp_path.glob("run*")) == ["run-2.jsonl.gz", NAME]
    for path in tmp_path.glob("run*"):
        assert played(path).register_responses > 5
    assert not list(tmp_path.glob(".*"))


def test_a_file_that_cannot_be_written_does_not_end_the_client(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    server = Served(tmp_path, "--record", str(folder / NAME), names=("a.sock",))
    folder.rmdir()
    guest = GuestBackend(server.paths[0])
    driver_of(guest)
    server.wait_for(f"{folder / NAME}: not recorded: No such file or directory")
    guest.close()
    assert server.end() == 0


def test_recordings_that_are_not_possible_are_refused(tmp_path):
    socket = ("--socket", tmp_path / "a.sock")
    assert "add --backend verilator" in refusal_of(*socket, "--checked")
    assert "no folder" in refusal_of(*socket, "--record", tmp_path / "none" / NAME)
    assert "is a folder" in refusal_of(*socket, "--record", tmp_path)


def test_a_recording_that_was_cut_off_is_no_session(recorded, tmp_path):
    path = tmp_path / NAME
    path.write_bytes(recorded.read_bytes()[:-20])
    with pytest.raises(SessionError, match="incomplete"):
        read_session(path)
