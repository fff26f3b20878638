# SPDX-License-Identifier: Apache-2.0
"""Compares the ev_* events of the devices with those of the reference model.

Each kind of event is compared as a multiset over the test: the count of each value, in any order.
The compared kinds do not depend on time: ignored host, admin and network input (anomaly_host,
anomaly_admin, anomaly_net) and the cause of a QP error (qperr).
"""

from collections import Counter

from efa import defs

KINDS = ("anomaly_host", "anomaly_admin", "anomaly_net", "qperr")
# Refused AQEs: spec/events.yaml leaves open which number is the detail; the device counts AQEs, the
# model names the command or the slot.
PHASE, UNREAD, CHECKSUM = 3, 4, 6
# An acknowledgement of no outstanding message: the model reports it, efa_net_rx does not track
# messages.
STRAY_ACKNOWLEDGEMENT = 4


def _compared(kind, data):
    """Returns the part of an event's data that both sides must agree on."""
    if kind != "anomaly_admin":
        return data
    layout = defs.EVENTS.anomaly_admin
    what = layout.unpack(data).what
    return layout.pack(what=what, detail=0) if what in (PHASE, UNREAD, CHECKSUM) else data


class ShownEvents:
    """Listens to a scoreboard and to its models for these kinds (names of spec/events.yaml)."""

    def __init__(self, board, kinds=KINDS):
        self._names = {int(defs.Ev[kind.upper()]): kind for kind in kinds}
        self._model, self._device = Counter(), Counter()
        self._last = {}  # anomaly_admin event by model
        board.listeners.append(self._hear)
        for number, predictor in enumerate(board.predictors):
            self._watch(number, predictor.device)

    def _watch(self, number, device):
        before = device.on_event

        def shown(name, values):
            if name in self._names.values():
                self._expect(number, name, values)
            if before is not None:
                before(name, values)

        device.on_event = shown

    def _expect(self, number, name, values):
        """Records an event of a model; a wrong checksum of an AQE hides a wrong phase."""
        if name == "anomaly_admin":
            last, self._last[number] = self._last.get(number), values
            if values["what"] == CHECKSUM and last == {**values, "what": PHASE}:
                self._model[number, name, defs.EVENTS.anomaly_admin.pack(what=PHASE, detail=0)] -= 1
        if name == "anomaly_net" and values["what"] == STRAY_ACKNOWLEDGEMENT:
            return
        data = getattr(defs.EVENTS, name).pack(**values)
        self._model[number, name, _compared(name, data)] += 1

    def _hear(self, what, item):
        if what != "event":
            return
        device, _, kind, data = item
        name = self._names.get(kind)
        if name is not None:
            self._device[device, name, _compared(name, data)] += 1

    def check(self):
        """Raises AssertionError on differences; returns the number of compared events."""
        wrong = []
        for what, one, other in (("not shown", self._model, self._device),
                                 ("not due", self._device, self._model)):  # fmt: skip
            for (device, name, data), count in sorted((one - other).items()):
                fields = getattr(defs.EVENTS, name).unpack(data)
                wrong.append(f"device {device}: {name} {vars(fields)} {count} times {what}")
        if wrong:
            raise AssertionError(f"{len(wrong)} events differ: " + "; ".join(wrong[:5]))
        return self._device.total()
