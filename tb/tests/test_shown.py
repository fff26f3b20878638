# SPDX-License-Identifier: Apache-2.0
"""Tests ShownEvents: each difference between device and model events is found."""

from types import SimpleNamespace

import pytest

from efa_cosim.layouts import defs
from tb.env.shown import ADMIN, ShownEvents
from tb.env.transactions import Event


class Board:
    """A scoreboard's listeners and the model of one device."""

    def __init__(self):
        self.listeners = []
        self.model = SimpleNamespace(on_event=None)
        self.predictors = [SimpleNamespace(device=self.model)]

    def device(self, name, **values):
        """Reports an event of the device."""
        data = getattr(defs.EVENTS, name).pack(**values)
        for listener in self.listeners:
            listener("event", Event(7, 0, int(defs.Ev[name.upper()]), data))


def test_equal_events_in_any_order_agree():
    """bench.shown"""
    board = Board()
    shown = ShownEvents(board)
    for cause in (1, 2):
        board.model.on_event("qperr", {"qpn": 5, "cause": cause})
        board.device("qperr", qpn=5, cause=3 - cause)
    board.device("cqe", cqn=3, sub=0, q_type=1, qpn=5, req_id=0, status=0, overflow=0)
    assert shown.check() == 2


@pytest.mark.parametrize("fault", ["missing", "twice", "cause", "queue", "kind"])
def test_a_difference_fails(fault):
    """bench.shown"""
    board = Board()
    shown = ShownEvents(board)
    board.model.on_event("qperr", {"qpn": 5, "cause": 1})
    if fault == "kind":
        board.device("anomaly_host", what=5, detail=1)
    elif fault != "missing":
        board.device("qperr", qpn=5 + (fault == "queue"), cause=1 + (fault == "cause"))
    if fault == "twice":
        board.device("qperr", qpn=5, cause=1)
    with pytest.raises(AssertionError, match="events differ"):
        shown.check()


def test_an_admin_entry_has_one_fault_and_any_number():
    """bench.shown"""
    board = Board()
    shown = ShownEvents(board)
    for what in (ADMIN.AQ_PHASE, ADMIN.AQ_CHECKSUM):
        board.model.on_event("anomaly_admin", {"what": what, "detail": 9})
    board.model.on_event("anomaly_admin", {"what": ADMIN.AQ_READ, "detail": 2})
    board.device("anomaly_admin", what=ADMIN.AQ_CHECKSUM, detail=1)
    board.device("anomaly_admin", what=ADMIN.AQ_READ, detail=3)
    assert shown.check() == 2
    board.device("anomaly_admin", what=2, detail=3)
    with pytest.raises(AssertionError, match="not due"):
        shown.check()


def test_who_watched_the_model_before_still_does():
    """bench.shown"""
    board, seen = Board(), []
    board.model.on_event = lambda name, values: seen.append(name)
    ShownEvents(board)
    board.model.on_event("reset", {"step": 0})
    assert seen == ["reset"]
