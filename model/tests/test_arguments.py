# SPDX-License-Identifier: Apache-2.0
"""Tests that wrong arguments of the verbs are errors that say what is expected."""

import pytest

from efa_cosim.backends import open_backend
from efa_cosim.boundary.backend import BackendUnavailable, DeviceTimeout
from efa_cosim.host.completion_queue import VerbsError
from efa_cosim.host.driver import Driver, DriverError
from efa_cosim.host.endpoints import QKEY, Endpoint, Node
from efa_cosim.host.queue_pair import SendWr, Sge
from efa_cosim.host.verbs import Context


@pytest.fixture
def end():
    with open_backend("model") as device:
        yield Endpoint(Node(device))


def send(end, **values):
    end.qp.post_send(SendWr(**{"ah": 1, "dest_qp": 1, "qkey": QKEY, "inline": b"a", **values}))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda end: end.pd.create_ah("fe80::1"), "GID is 'fe80::1': expected 16 bytes"),
        (lambda end: end.pd.create_ah(b"abc"), "expected 16 bytes"),
        (lambda end: send(end, ah="peer"), "address handle is 'peer'"),
        (lambda end: send(end, ah=None), "address handle is None"),
        (lambda end: send(end, dest_qp=1 << 16), "dest_qp is 65536: expected 0 to 0xffff"),
        (lambda end: send(end, qkey=-3), "qkey is -3: expected 0 to 0xffffffff"),
        (lambda end: send(end, imm=1 << 32), "imm is"),
        (lambda end: send(end, inline="text"), "inline is of type str: expected bytes"),
        (lambda end: send(end, inline=None, sges=Sge(1, 2, 3)), "expected a list of Sge"),
        (lambda end: end.qp.post_recv(Sge(1, 2, 3)), "expected a list of Sge"),
        (lambda end: end.pd.reg_mr(64, access="rw"), "access is 'rw': expected an Access"),
        (lambda end: end.pd.reg_mr("64"), "length of the memory region is '64'"),
        (lambda end: end.pd.reg_mr(True), "length of the memory region is True"),
        (lambda end: end.qp.to_rts("secret"), "qkey is 'secret': expected a whole number"),
        (lambda end: end.pd.create_qp(end.cq, end.cq, "srd"), "expected AdminQpType.UD or"),
        (lambda end: end.buffer.write(0, "text"), "data is of type str: expected bytes"),
        (lambda end: send(end, inline=None, sges=[(1, 2, 3)]), "a memory range is (1, 2, 3): expe"),
        (lambda end: end.qp.post_recv([(1, 2, 3)]), "a memory range is (1, 2, 3): expected an Sge"),
        (lambda end: end.qp.post_send("text"), "the work request is 'text': expected SendWr(...)"),
        (lambda end: end.qp.post_send([SendWr(1, 1, QKEY)]), "one argument for each"),
        (lambda end: end.context.create_cq("16"), "depth of the completion queue is '16'"),
        (lambda end: end.context.create_cq(-1), "depth of the completion queue is -1: expected"),
        (lambda end: end.context.create_cq(16, entry_bytes=8), "entry_bytes is 8: expected 16"),
        (lambda end: end.pd.create_qp(end.cq, 2), "recv_cq is 2: expected the result of"),
        (lambda end: end.pd.create_qp(end.cq, end.cq, max_send_wr="64"), "max_send_wr is '64'"),
    ],
)
def test_a_wrong_argument_is_a_sentence(end, call, says):
    before = (end.qp.sq.produced, end.qp.rq.produced, end.qp.state)
    with pytest.raises(VerbsError) as error:
        call(end)
    assert says in str(error.value)
    assert before == (end.qp.sq.produced, end.qp.rq.produced, end.qp.state)


def test_a_handle_and_its_number_are_the_same_destination(end):
    end.receive(8)
    handle = end.pd.create_ah(bytes.fromhex("fe80") + bytes(13) + b"\1")
    wqes = [end.qp._entry(SendWr(ah, 1, QKEY, inline=b"a")) for ah in (handle, handle.number)]
    assert wqes[0] == wqes[1]


def test_a_wrong_q_key_says_where_it_is_counted(end):
    end.receive(8)
    towards = end.towards(end) | {"qkey": QKEY + 1}
    end.qp.post_send(SendWr(**towards, inline=b"a"))
    with pytest.raises(DeviceTimeout, match="of 2 completions arrived.*wrong Q_Key"):
        end.cq.wait_for(2)
    assert end.node.driver.get_stats().qkey_viol == 1


def test_a_forgotten_probe_says_so():
    with open_backend("model") as device, pytest.raises(DriverError, match="probe the device"):
        Context(Driver(device))


@pytest.mark.parametrize("backend", ["model", "verilator"])
def test_an_unknown_profile_is_named_with_the_known_ones(backend):
    with pytest.raises(BackendUnavailable, match="no profile 'foo': expected one of default, rec"):
        open_backend(backend, profile="foo")


def test_the_model_refuses_waves():
    with pytest.raises(BackendUnavailable, match="open verilator"):
        open_backend("model", waves=True)
