"""Stages of one message from its events: they sum to the latency, a missing one is refused."""

import numpy as np
import pytest

from efa import defs
from efa.events import DTYPE
from efa.waterfall import WaterfallError, latencies, rate, waterfall

SRD, ACK = int(defs.PktOpcode.SRD_SEND), int(defs.PktOpcode.SRD_ACK)
WAY = [
    (10, "db", {"kind": 0, "verdict": 0, "num": 4}), (14, "wqe", {"qpn": 4}),
    (20, "check", {"qpn": 4}), (26, "rd", {"client": 2}), (150, "rdc", {"client": 2}),
    (156, "txf", {"qpn": 4}), (157, "txl", {"qpn": 4}), (207, "rxf", {"opcode": SRD}),
    (208, "rxl", {"opcode": SRD}), (220, "rxv", {"qpn": 9}), (228, "rxw", {"qpn": 9}),
    (230, "cqe", {"qpn": 9, "q_type": 2}), (236, "ackout", {}), (287, "rxl", {"opcode": ACK}),
    (293, "cqe", {"qpn": 4, "q_type": 1}),
]  # fmt: skip


def events(rows):
    packed = [
        (cycle, defs.EVENTS[name].pack(**fields), int(defs.Ev[name.upper()]), 0)
        for cycle, name, fields in rows
    ]
    return np.array(packed, DTYPE)


def test_stages_sum_exactly_to_the_latency():
    stages = waterfall(events(WAY), 4, 9, srd=True)
    assert sum(stage.cycles for stage in stages) == 293 - 10
    assert all(a.start + a.cycles == b.start for a, b in zip(stages, stages[1:], strict=False))


# An inline message has no host read; everything else must be there.
NEEDED = [place for place, row in enumerate(WAY) if row[1] not in ("rd", "rdc")]


@pytest.mark.parametrize("missing", NEEDED)
def test_a_missing_milestone_is_refused(missing):
    rows = WAY[:missing] + WAY[missing + 1 :]
    with pytest.raises(WaterfallError, match="0 events"):
        waterfall(events(rows), 4, 9, srd=True)


def test_a_read_without_answer_is_refused():
    rows = [row for row in WAY if row[1] != "rdc"]
    with pytest.raises(WaterfallError, match="1 host reads, 0 answers"):
        waterfall(events(rows), 4, 9, srd=True)


@pytest.mark.parametrize("place", range(1, len(WAY)))
def test_a_milestone_out_of_order_is_refused(place):
    _, name, fields = WAY[place]
    rows = [*WAY[:place], (WAY[place - 1][0] - 2, name, fields), *WAY[place + 1 :]]
    with pytest.raises(WaterfallError, match="cycles before it begins"):
        waterfall(events(rows), 4, 9, srd=True)


def test_a_last_milestone_that_is_not_the_end_is_refused():
    rows = [*WAY[:-1], (WAY[-2][0] - 1, *WAY[-1][1:])]
    with pytest.raises(WaterfallError, match="the latency is"):
        waterfall(events(rows), 4, 9, srd=True)


def test_latency_of_each_message_in_turn():
    later = [(cycle + 1000, name, fields) for cycle, name, fields in WAY]
    assert latencies(events(WAY + later), 4, 9, srd=True).tolist() == [283, 283]


def burst(messages, apart=5):
    """Every message leaves, is received and completes `apart` cycles after the one before."""
    return [(cycle + apart * number, name, fields) for number in range(messages)
            for cycle, name, fields in ((100, "txf", {}), (200, "cqe", {"q_type": 2}),
                                        (250, "cqe", {"q_type": 1}))]


def test_rate_is_over_the_whole_burst():
    value, messages = rate(events(burst(11)))
    assert (value, messages) == (11 / (250 + 50 - 100 + 1), 11)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_rate_refuses_a_burst_that_is_not_whole(missing):
    rows = burst(5)
    del rows[missing]
    with pytest.raises(WaterfallError, match="messages out"):
        rate(events(rows))


def test_rate_of_nothing_is_refused():
    with pytest.raises(WaterfallError, match="0 messages out"):
        rate(events([]))
