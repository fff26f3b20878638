"""The scoreboard against a model in the device's place, whole and with planted faults."""

import pytest

from efa import defs
from efa.admin_queue import DriverError
from efa.backend import DeviceTimeout, ModelBackend
from efa.completion_queue import VerbsError
from efa.endpoints import SRD, UD, Endpoint, Node, pattern
from tb.env.model_dut import ModelDut
from tb.env.scoreboard import Difference, Scoreboard

CQE_BYTES = 32
SEND_QUEUE = defs.IoQueueType.SEND_QUEUE


def traffic(dut):
    """Messages of both kinds between two queue pairs of one device."""
    node = Node(dut)
    for kind in (UD, SRD):
        a, b = Endpoint(node, kind), Endpoint(node, kind)
        for turn, size in enumerate((5, 64, 500, 4000)):
            b.receive(size, wr_id=turn, offset=turn * 8192)
            a.send(b, pattern(size, turn), wr_id=turn, split=2 if size > 2 else None)
            b.cq.wait_for(1)
            a.cq.wait_for(1)
    dut.settle()
    return dut.board


def test_the_model_agrees_with_itself():
    """bench.scoreboard.agree"""
    counts = traffic(ModelDut.single()).check()
    assert counts["packets"] == 12 and counts["completions"] == 16
    assert counts["admin responses"] > 15 and counts["memory pages"] > 0


def test_nothing_compared_fails():
    """bench.scoreboard.empty"""
    with pytest.raises(Difference, match="only 0 things"):
        Scoreboard([ModelBackend().memory]).check()


def is_cqe(kind, value):
    return kind == "write" and len(value) == CQE_BYTES


def swap_fields(kind, value):
    """qp_num and req_id of a completion exchanged."""
    if is_cqe(kind, value):
        value = value[4:6] + value[2:4] + value[0:2] + value[6:]
    return value


def short_ids(kind, value):
    """The upper 48 bits of a send's request id dropped."""
    if is_cqe(kind, value) and (value[3] >> 1 & 3) == SEND_QUEUE:
        value = value[:6] + bytes(6) + value[12:]
    return value


def stuck_phase(kind, value):
    return value[:3] + bytes([value[3] & 0xFE]) + value[4:] if is_cqe(kind, value) else value


def lose_completion(kind, value):
    return None if is_cqe(kind, value) else value


def drop_second_buffer(kind, value):
    return value[:34] + bytes(len(value) - 34) if kind == "packet" and len(value) > 64 else value


def lose_interrupt(kind, value):
    return None if kind == "interrupt" else value


def wrong_payload(kind, value):
    if kind == "write" and len(value) > 64:
        value = value[:-1] + bytes([value[-1] ^ 1])
    return value


def wrong_checksum(kind, value):
    return value[:4] + b"\xff\xff" + value[6:] if kind == "write" and len(value) == 64 else value


def lose_packet(kind, value):
    return None if kind == "packet" else value


@pytest.mark.parametrize(
    "fault",
    [swap_fields, short_ids, stuck_phase, lose_completion, drop_second_buffer, lose_interrupt,
     wrong_payload, wrong_checksum, lose_packet],
)  # fmt: skip
def test_a_fault_fails_the_run(fault):
    """bench.scoreboard.fault"""
    dut = ModelDut.single(fault)
    with pytest.raises((Difference, DeviceTimeout, DriverError, VerbsError)) as caught:
        traffic(dut).check()
    # A fault may first show to the host's software; the scoreboard must see it all the same.
    if not isinstance(caught.value, Difference):
        with pytest.raises(Difference):
            dut.board.check()
