# SPDX-License-Identifier: Apache-2.0
"""Tests sessions of several devices: `efa-cosim serve` with several sockets and --record."""

import gzip
import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from test_player import other_numbers  # noqa: F401 - a fixture
from test_serve import PAGE, Served, driver_of
from vfio_client import GuestBackend

from efa_cosim.backends import SERVERS, backend_names
from efa_cosim.cli import main as cli
from efa_cosim.host.queue_pair import SendWr, Sge
from efa_cosim.host.verbs import Context, gid_of
from efa_cosim.layouts import defs
from efa_cosim.session.player import open_player, play
from efa_cosim.session.recording import SessionError, read_session
from efa_cosim.session.result import OrderError, PlayError

NAME = "run.jsonl.gz"
SIZE, QKEY = 100, 5


class End:
    """A process on the function of a guest: a QP with a CQ that raises interrupts."""

    def __init__(self, guest):
        self.guest = guest
        self.pd = pd = Context(driver_of(guest)).alloc_pd()
        self.cq = pd.context.create_cq(64, events=True)
        self.qp, self.memory = pd.create_qp(self.cq, self.cq).to_rts(QKEY), pd.reg_mr(PAGE)
        self.ah = pd.create_ah(gid_of(3 - guest.node_id))  # of the other function

    def stream(self, to, count):
        """Sends so many messages to the other end, which sends as many."""
        sge = Sge(self.memory.addr, SIZE, self.memory.l_key)
        for _ in range(count):
            self.cq.req_notify()
            self.qp.post_send(SendWr(self.ah, to, qkey=QKEY, sges=[sge]))
        assert not any(self.cq.wait_for(2 * count)["status"])

    def send(self, to, text):
        """Sends a message to the other end, and compares it there."""
        to.cq.req_notify()
        to.qp.post_recv([Sge(to.memory.addr + PAGE // 2, SIZE, to.memory.l_key)])
        to.guest.settle()  # The sockets of two guests have no common order.
        self.memory.write(0, text)
        self.qp.post_send(SendWr(self.ah, to.qp.number, qkey=QKEY,
                                 sges=[Sge(self.memory.addr, SIZE, self.memory.l_key)]))
        for end in (self, to):
            assert [one["status"] for one in end.cq.wait_for(1)] == [0]
        assert to.memory.read(PAGE // 2, SIZE) == text


def texts(count):
    return [bytes([1 + number]) * SIZE for number in range(count)]


def exchange(server, part=False):
    """Messages between two functions; one of them is reset and gets another client meanwhile.

    With `part`, the function that gets another client is not reset before: the server simulates the
    RTL for five seconds while a driver initializes a function.
    """
    guests = [GuestBackend(path, number) for number, path in enumerate(server.paths, 1)]
    # A device in a reset is never idle.
    guests[1].stores([(defs.EFA_REG_BAR, defs.Reg.DEV_CTL, (1).to_bytes(4, "little"))])
    guests[1].settle()
    one, other = (End(guest) for guest in guests)
    for text in texts(5):
        one.send(other, text)
        other.send(one, text)
    # Both devices: the first messages to a device that was reset would end with ABORT on the RTL.
    if not part:
        for guest in guests:
            guest.flr()
        one, other = (End(guest) for guest in guests)
        for text in texts(3):
            other.send(one, text)
    before = len(server.lines())
    guests[1].close()
    server.wait_for("b.sock: client left", before)
    guests[1] = GuestBackend(server.paths[1], 2)
    guests[0].flr()
    one, other = (End(guest) for guest in guests)
    for text in texts(5 if part else 2):
        one.send(other, text)
    guests[0].close()
    server.wait_for("a.sock: client left", before)
    guests[1].close()


MESSAGES = 15


@pytest.fixture(scope="module")
def part(backend, short):
    """True for a part of the exchange: on the RTL with --short."""
    return short and backend != "model"


@pytest.fixture(scope="module")
def recorded(backend, part, tmp_path_factory):
    """The file of a session of two functions."""
    folder = tmp_path_factory.mktemp("record")
    server = Served(folder, "--record", str(folder / NAME), "--backend", backend)
    exchange(server, part)
    server.wait_for("recorded ")
    assert server.end() == 0
    assert [path.name for path in folder.glob("*.gz")] == [NAME]
    return folder / NAME


def played(path, backend="model"):
    session = read_session(path)
    with open_player(backend, session) as devices:
        return play(path, devices, session=session)


def rows_of(path):
    with gzip.open(path, "rt") as stream:
        return [json.loads(line) for line in stream]


def written(folder, rows):
    path = folder / "edited.jsonl.gz"
    with gzip.open(path, "wt") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def test_a_session_of_two_devices_plays(recorded):
    result = played(recorded)
    assert (result.completions, result.payload_bytes) == (2 * MESSAGES, MESSAGES * SIZE)
    assert result.packets == 2 * MESSAGES and result.events >= MESSAGES
    assert cli.main(["play", str(recorded)]) == 0


@pytest.mark.slow
def test_a_session_of_two_devices_plays_on_the_rtl(recorded, capsys):
    """One device is in a reset while the other gets commands: no store waits for both to be idle.
    """
    if "verilator" not in backend_names(SERVERS):
        pytest.skip("no simulator is registered: run `make setup`")
    assert cli.main(["play", str(recorded), "--backend", "verilator"]) == 0
    assert int(re.search(r"(\d+) cycles", capsys.readouterr().out)[1]) < 200_000


@pytest.mark.usefixtures("other_numbers")
def test_numbers_of_another_node_are_translated(recorded):
    assert played(recorded).completions == 2 * MESSAGES


def test_each_node_begins_with_a_reset(recorded, part):
    """A function-level reset and clients that leave the session follow."""
    node, kinds = 1, {1: [], 2: []}
    for row in rows_of(recorded)[1:]:
        if row[0] == "node":
            node = row[1]
        else:
            kinds[node].append(row[0])
    assert kinds[1][0] == kinds[2][0] == "reset"
    resets = {1: 3, 2: 2} if part else {1: 4, 2: 3}
    assert {node: Counter(each)["reset"] for node, each in kinds.items()} == resets


def effect_of_a_peer(rows, kind, size=None):
    """The place of an effect of a node that comes after a store of the other node."""
    node = stored = 1
    for place, row in enumerate(rows):
        if row[0] == "node":
            node = row[1]
        elif row[0] in ("w", "reset"):
            stored = node
        elif row[0] == kind and node != stored and (size is None or len(row[2]) == 2 * size):
            return place
    raise AssertionError(f"no {kind} of {size} bytes")


def test_a_changed_effect_on_the_other_node_is_found(recorded, tmp_path):
    rows = rows_of(recorded)
    place = effect_of_a_peer(rows, "d", SIZE)
    rows[place][2] = "ff" + rows[place][2][2:]
    with pytest.raises(PlayError, match=rf":{place + 1}: payload at .*: expected 0xff, got 0x01"):
        played(written(tmp_path, rows))


@pytest.mark.parametrize("kind", ["d", "i"])
def test_an_effect_that_is_missing_on_the_other_node_is_found(recorded, kind, tmp_path):
    rows = rows_of(recorded)
    del rows[effect_of_a_peer(rows, kind, 32 if kind == "d" else None)]
    with pytest.raises(PlayError, match="not expected here"):
        played(written(tmp_path, rows))


def test_the_order_on_the_other_node_is_checked(recorded, tmp_path):
    rows = rows_of(recorded)
    place = effect_of_a_peer(rows, "d", SIZE)
    assert len(rows[place + 1][2]) == 64
    rows[place], rows[place + 1] = rows[place + 1], rows[place]
    with pytest.raises(OrderError, match=rf":{place + 1}: order of completion"):
        played(written(tmp_path, rows))


@pytest.mark.parametrize("number", [0, -1, 1 << 16, "two", True])
def test_a_wrong_node_is_named(recorded, number, tmp_path):
    rows = rows_of(recorded)
    rows.insert(1, ["node", number])
    with pytest.raises(SessionError, match=r":2: node is not a number from 1 to 0x"):
        read_session(written(tmp_path, rows))


def test_a_session_of_two_devices_needs_two(recorded):
    with (open_player("model", read_session(recorded)) as devices,
          pytest.raises(SessionError, match="a session of 2 devices; expected 1")):
        play(recorded, devices[0])


def test_stores_of_two_guests_at_the_same_time_are_recorded(backend, part, tmp_path):
    """The guests store at once, with no order between their sockets."""
    count = 8 if part else 20
    server = Served(tmp_path, "--record", str(tmp_path / NAME), "--backend", backend)
    ends = [End(GuestBackend(path, number)) for number, path in enumerate(server.paths, 1)]
    for end in ends:
        for _ in range(count):
            end.qp.post_recv([Sge(end.memory.addr + PAGE // 2, SIZE, end.memory.l_key)])
        end.guest.settle()
    with ThreadPoolExecutor(2) as pool:
        streams = [pool.submit(end.stream, to.qp.number, count)
                   for end, to in (ends, reversed(ends))]
    for each in streams:
        each.result()
    for end in ends:
        end.guest.close()
    server.wait_for("recorded ")
    assert server.end() == 0
    assert played(tmp_path / NAME).completions == 4 * count


@pytest.mark.slow
def test_the_model_runs_beside_two_served_devices(tmp_path, short):
    if "verilator" not in backend_names(SERVERS):
        pytest.skip("no simulator is registered: run `make setup`")
    server = Served(tmp_path, "--backend", "verilator", "--checked")
    exchange(server, short)
    assert f"{2 * MESSAGES} completions" in server.wait_for("no difference to the model")
    assert server.end() == 0
    assert not list(tmp_path.glob("*.gz"))
