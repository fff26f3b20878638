# SPDX-License-Identifier: Apache-2.0
"""Tests latencies and rates from events, per message and per burst; missing events are an error."""

import numpy as np
import pytest

from efa_cosim.boundary.events import DTYPE
from efa_cosim.layouts import defs
from efa_cosim.measure.latencies import EventsMissing, latencies, rate

MESSAGE = [(10, "db", {"kind": 0, "status": 0, "num": 4}),
           (293, "cqe", {"qpn": 4, "q_type": 1})]  # fmt: skip


def events(rows):
    packed = [
        (cycle, defs.EVENTS[name].pack(**fields), int(defs.Ev[name.upper()]), 0)
        for cycle, name, fields in rows
    ]
    return np.array(packed, DTYPE)


def test_latency_of_each_message_in_turn():
    later = [(cycle + 1000, name, fields) for cycle, name, fields in MESSAGE]
    assert latencies(events(MESSAGE + later), 4, 9, srd=True).tolist() == [283, 283]


def burst(messages, apart=5):
    """Every message is sent, received and completed `apart` cycles after the previous message."""
    return [(cycle + apart * number, name, fields) for number in range(messages)
            for cycle, name, fields in ((100, "tx_first", {}), (200, "cqe", {"q_type": 2}),
                                        (250, "cqe", {"q_type": 1}))]


def test_rate_is_over_the_whole_burst():
    value, messages = rate(events(burst(11)))
    assert (value, messages) == (11 / (250 + 50 - 100 + 1), 11)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_rate_refuses_a_burst_that_is_not_whole(missing):
    rows = burst(5)
    del rows[missing]
    with pytest.raises(EventsMissing, match="messages out"):
        rate(events(rows))


def test_rate_of_nothing_is_refused():
    with pytest.raises(EventsMissing, match="0 messages out"):
        rate(events([]))
