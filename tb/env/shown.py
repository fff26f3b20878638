# SPDX-License-Identifier: Apache-2.0
"""Compares the ev_* events of the devices with those of the reference model.

Each kind of event is compared as a multiset over the test: the count of each value, in any order.
The compared kinds do not depend on time: ignored host, admin and network input (anomaly_host,
anomaly_admin, anomaly_net), the cause of a QP error (qperr), doorbells of no own queue (db) and LLQ
stores without an owner or with a part of a dword (llq). The other results of doorbells and stores
depend on how far the device is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.layouts import defs
from tb.env.difference import Difference
from tb.lib.failure import Named

if TYPE_CHECKING:
    from efa_cosim.device.device import Device
    from tb.env.scoreboard import Scoreboard

KINDS = ("anomaly_host", "anomaly_admin", "anomaly_net", "qperr", "db", "llq")
ADMIN = defs.AnomalyAdmin
# Refused AQEs: spec/events.yaml leaves open which number is the detail; the device counts AQEs, the
# model names the command or the slot.
REFUSED_AQES = (ADMIN.AQ_PHASE, ADMIN.AQ_READ, ADMIN.AQ_CHECKSUM)
# Compared statuses of doorbells and LLQ stores.
FOREIGN_DOORBELL, NO_OWNER, PARTIAL = 1, 1, 3
STATUSES = {"db": (FOREIGN_DOORBELL,), "llq": (NO_OWNER, PARTIAL)}


def _compared(kind: str, data: int) -> int | None:
    """Returns the part of an event's data that both sides must agree on, None for no part."""
    if kind in STATUSES:
        status = getattr(defs.EVENTS, kind).unpack(data).status
        return data if status in STATUSES[kind] else None
    if kind != "anomaly_admin":
        return data
    layout = defs.EVENTS.anomaly_admin
    what = layout.unpack(data).what
    return layout.pack(what=what, detail=0) if what in REFUSED_AQES else data


class ShownEvents:
    """Listens to a scoreboard and to its models for these kinds (names of spec/events.yaml)."""

    def __init__(self, board: Scoreboard, kinds: Sequence[str] = KINDS) -> None:
        self._names = {int(defs.Ev[kind.upper()]): kind for kind in kinds}
        self._model: Counter[tuple[int, str, int]]
        self._device: Counter[tuple[int, str, int]]
        self._model, self._device = Counter(), Counter()
        self._last: dict[int, dict[str, Any]] = {}  # anomaly_admin event by model
        board.listeners.append(self._count)
        for number, predictor in enumerate(board.predictors):
            self._watch(number, predictor.device)

    def _watch(self, number: int, device: Device) -> None:
        before = device.on_event

        def shown(name: str, values: dict[str, Any]) -> None:
            if name in self._names.values():
                self._expect(number, name, values)
            if before is not None:
                before(name, values)

        device.on_event = shown

    def _expect(self, number: int, name: str, values: dict[str, Any]) -> None:
        """Records an event of a model; a wrong checksum of an AQE hides a wrong phase."""
        if name == "anomaly_admin":
            last, self._last[number] = self._last.get(number), values
            if values["what"] == ADMIN.AQ_CHECKSUM and last == {**values, "what": ADMIN.AQ_PHASE}:
                hidden = defs.EVENTS.anomaly_admin.pack(what=ADMIN.AQ_PHASE, detail=0)
                self._model[number, name, hidden] -= 1
        # The model reports an outcome of no open message; efa_net_rx does not track messages.
        if name == "anomaly_net" and values["what"] == defs.TransportAnomaly.MESSAGE:
            return
        data = _compared(name, getattr(defs.EVENTS, name).pack(**values))
        if data is not None:
            self._model[number, name, data] += 1

    def _count(self, what: str, item: Any) -> None:
        if what != "event":
            return
        name = self._names.get(item.kind)
        data = None if name is None else _compared(name, item.data)
        if data is not None:
            # Only an event with a name has data.
            self._device[item.device, name, data] += 1  # type: ignore[index]

    def check(self) -> int:
        """Raises Difference if a number of events differs; returns the number of compared ones."""
        wrong, first = [], None
        for what, one, other in (("not shown", self._model, self._device),
                                 ("not due", self._device, self._model)):  # fmt: skip
            for (device, name, data), count in sorted((one - other).items()):
                fields = getattr(defs.EVENTS, name).unpack(data)
                wrong.append(f"device {device}: {name} {vars(fields)} {count} times {what}")
                key = device, name, data
                first = first or Named(f"number of events {name} {vars(fields)}",
                                       str(self._model[key]), str(self._device[key]))  # fmt: skip
        if wrong:
            raise Difference(f"{len(wrong)} events differ: " + "; ".join(wrong[:5]), first)
        return self._device.total()
