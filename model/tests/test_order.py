# SPDX-License-Identifier: Apache-2.0
"""Tests that payload, CQE, EQE and interrupt in a wrong order at the guest's memory are found.

Servers with a planted bug are recorded or checked. The RTL server with a bug is built from a copy
of its sources.
"""

import contextlib
import gzip
import json
import os
import shutil
from pathlib import Path

import pytest
from test_serve import BUILD_SECONDS, PAGE, Served, driver_of
from vfio_client import GuestBackend

from efa_cosim.backends import SERVERS, backend_names
from efa_cosim.host.queue_pair import SendWr, Sge
from efa_cosim.host.verbs import Context, gid_of
from efa_cosim.layouts import defs
from efa_cosim.session.player import open_player, play
from efa_cosim.session.recording import read_session
from efa_cosim.session.result import OrderError

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "model/tests/data/sessions/linux_rtl.jsonl.gz"
NAME = "run.jsonl.gz"
SIZE = 100  # longer than an entry of any ring

# Payload reaches the guest's memory after the next entry of a ring, thus after its CQE.
LATE_PAYLOAD = ("""
        memory_.write(addr, writing_.data(), size);
""", """
        static std::vector<std::pair<u64, Bytes>> late;
        if (size > kLine) {
            late.emplace_back(addr, writing_);
        } else {
            memory_.write(addr, writing_.data(), size);
            for (auto &[at, data] : late) memory_.write(at, data.data(), u32(data.size()));
            late.clear();
        }
""")
# An EQE, the only write of 16 bytes here, reaches it after the interrupt that announces it.
EARLY_INTERRUPT = ("""
    if (addr >= kMessages) {
        u32 vector = ~u32(0);
        std::memcpy(&vector, writing_.data(), std::min<size_t>(kWordBytes, writing_.size()));
        interrupt_(vector);
    } else {
""", """
    static std::vector<std::pair<u64, Bytes>> late;
    if (addr >= kMessages) {
        u32 vector = ~u32(0);
        std::memcpy(&vector, writing_.data(), std::min<size_t>(kWordBytes, writing_.size()));
        interrupt_(vector);
        for (auto &[at, data] : late) memory_.write(at, data.data(), u32(data.size()));
        late.clear();
    } else if (size == EFA_ADMIN_EQE__BYTES) {
        late.emplace_back(addr, writing_);
    } else {
""")
# The same in the model's server.
HELD = """
from efa_cosim.live.function import Function
from efa_cosim.live.guest_memory import GuestMemory
write, signal, held = GuestMemory.write, Function.signal, []
def release(memory):
    while held:
        write(memory, *held.pop(0))
"""
LATE_PAYLOAD_OF_MODEL = HELD + """
def late(memory, address, data):
    if len(data) > 64:
        held.append((address, data))
    else:
        write(memory, address, data)
        release(memory)
GuestMemory.write = late
"""
EARLY_INTERRUPT_OF_MODEL = HELD + """
def late(memory, address, data):
    if len(data) == 16:
        held.append((address, data))
    else:
        write(memory, address, data)
def early(function):
    signal(function)
    release(function.memory)
GuestMemory.write, Function.signal = late, early
"""
PAYLOAD = r"order of completion at 0x\w+: expected 100 bytes of payload before it, got 0"
INTERRUPT = r"order of interrupt 1: expected an entry in a ring of this vector before it, got none"


def one_message(guest):
    """Sends a message from a function to itself; its CQE raises an interrupt."""
    context = Context(driver_of(guest))
    pd, cq = context.alloc_pd(), context.create_cq(16, events=True)
    qp, memory = pd.create_qp(cq, cq).to_rts(5), pd.reg_mr(PAGE)
    cq.req_notify()
    qp.post_recv([Sge(memory.addr + PAGE // 2, SIZE, memory.l_key)])
    qp.post_send(SendWr(pd.create_ah(gid_of(1)), qp.number, qkey=5,
                        sges=[Sge(memory.addr, SIZE, memory.l_key)]))
    assert [each["status"] for each in cq.wait_for(2)] == [0, 0]


def planted(folder, edit):
    """Copies the sources of the RTL server, changes one place; returns their folder."""
    shutil.copytree(ROOT / "tb/live", folder, ignore=shutil.ignore_patterns("__pycache__"))
    file, (old, new) = folder / "host.cpp", edit
    text = file.read_text()
    assert text.count(old) == 1, f"host.cpp has {text.count(old)} places to change: {old}"
    file.write_text(text.replace(old, new))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("edit", "field", "expected", "found"), [
    (LATE_PAYLOAD, "order of completion at 0x", "100 bytes of payload before it", "0"),
    (EARLY_INTERRUPT, "order of interrupt 1", "an entry in a ring of this vector before it",
     "none"),
], ids=["late payload", "early interrupt"])  # fmt: skip
def test_a_planted_order_of_the_rtl_server_is_found(edit, field, expected, found, tmp_path):
    if "verilator" not in backend_names(SERVERS):
        pytest.skip("no simulator is registered: run `make setup`")
    home = planted(tmp_path / "live", edit)
    before = ("import pathlib; from tb.live.program import program; "
              "from efa_cosim.live import simulated; simulated.server_program = "
              f"lambda _, say: program(say, pathlib.Path({os.fspath(home)!r}))")
    server = Served(tmp_path, "--backend", "verilator", "--checked", names=("a.sock",),
                    before=before)
    guest = GuestBackend(server.paths[0])
    # The server ends at the difference, which the client may notice first.
    with contextlib.suppress(ConnectionError):
        one_message(guest)
    guest.close()
    assert server.process.wait(BUILD_SECONDS) == 1
    report = server.log.read_text()
    assert f"field:    {field}" in report, report
    assert f"expected: {expected}\nfound:    {found}\n" in report
    with pytest.raises(OrderError, match=field):
        played(tmp_path / "a.jsonl.gz")


@pytest.mark.parametrize(("before", "text"), [
    (LATE_PAYLOAD_OF_MODEL, PAYLOAD), (EARLY_INTERRUPT_OF_MODEL, INTERRUPT)],
    ids=["late payload", "early interrupt"])  # fmt: skip
def test_a_planted_order_of_the_models_server_is_found(before, text, tmp_path):
    server = Served(tmp_path, "--record", str(tmp_path / NAME), names=("a.sock",), before=before)
    guest = GuestBackend(server.paths[0])
    one_message(guest)
    guest.close()
    server.wait_for("recorded ")
    assert server.end() == 0
    with pytest.raises(OrderError, match=text):
        played(tmp_path / NAME)


def played(path):
    session = read_session(path)
    with open_player("model", session) as device:
        return play(path, device, session=session)


@pytest.fixture(scope="module")
def rows():
    with gzip.open(RECORDED, "rt") as stream:
        return [json.loads(line) for line in stream]


def moved(rows, folder, source, target):
    """Writes a session in which a line has moved; returns its file."""
    rows = [*rows]
    rows.insert(target, rows.pop(source))
    path = folder / NAME
    with gzip.open(path, "wt") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def is_write(row, size):
    return row[0] == "d" and len(row[2]) == 2 * size


def test_a_completion_before_its_payload_is_found(rows, tmp_path):
    place = next(place for place, row in enumerate(rows) if is_write(row, defs.IoRxCdescEx.SIZE)
                 and int(row[2][6:8], 16) >> 1 & 3 == defs.IoQueueType.RECV_QUEUE)
    assert rows[place - 1][0] == "d"
    path = moved(rows, tmp_path, place, place - 1)
    with pytest.raises(OrderError, match=rf"{path}:{place}: order of completion at "
                                         r"0x\w+: expected \d+ bytes of payload before it, got \d"):
        played(path)


def test_an_event_before_its_completion_is_found(rows, tmp_path):
    place = next(place for place, row in enumerate(rows) if is_write(row, defs.AdminEqe.SIZE)
                 and is_write(rows[place - 1], defs.IoRxCdescEx.SIZE))
    path = moved(rows, tmp_path, place, place - 1)
    with pytest.raises(OrderError, match=rf"{path}:{place}: order of completion event at 0x\w+: "
                                         r"expected a completion of CQ \d before it, got none"):
        played(path)


@pytest.mark.parametrize("size", [defs.AdminEqe.SIZE, defs.AdminAcqEntry.SIZE])
def test_an_interrupt_before_its_entry_is_found(rows, size, tmp_path):
    place = next(place for place, row in enumerate(rows)
                 if row[0] == "i" and is_write(rows[place - 1], size))
    path = moved(rows, tmp_path, place, place - 1)
    with pytest.raises(OrderError, match=rf"{path}:{place}: order of interrupt {rows[place][1]}: "
                                         "expected an entry"):
        played(path)
