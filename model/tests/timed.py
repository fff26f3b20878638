# SPDX-License-Identifier: Apache-2.0
"""Provides the reference model with a clock: each event is one cycle after the previous event.

This tests readers of events without a simulator; the cycles have no meaning.
"""

import numpy as np

from efa_cosim.backends.model import ModelBackend
from efa_cosim.boundary.events import DTYPE
from efa_cosim.layouts import defs


class TimedModel(ModelBackend):
    """Reports events like the RTL. `change(name, values)` may change an event or drop it (None)."""

    def __init__(self, corrupt=None, **options):
        super().__init__(**options)
        self.corrupt, self._shown, self._clock = corrupt, [], 0
        self.device.on_event = self._on_event
        self._take_in, self.device.receive = self.device.receive, self._receive

    def _receive(self, packet):
        head = defs.PktHdr.unpack(packet)
        for name in ("rx_first", "rx_last"):
            self._on_event(name, {"opcode": head.opcode, "src_qpn": head.src_qpn,
                                  "dst_qpn": head.dst_qpn})
        self._take_in(packet)

    def _on_event(self, name, values):
        values = self.corrupt(name, dict(values)) if self.corrupt else values
        self._clock += 1
        if values is not None:
            fields = defs.EVENTS[name].fields
            known = {key: int(value) for key, value in values.items() if key in fields}
            self._shown.append((self._clock, defs.EVENTS[name].pack(**known),
                                int(defs.Ev[name.upper()]), 0))

    def events(self):
        """Returns the events since the last call."""
        shown, self._shown = self._shown, []
        return np.array(shown, DTYPE)

    @property
    def cycles(self):
        return self._clock
