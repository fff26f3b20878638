# SPDX-License-Identifier: Apache-2.0
"""Runs software that races with the device on the RTL backend.

Statuses and data depend on time there, so they are not compared with the model; the boundary rules
are checked. A reference device executes only the admin commands. It reports which objects live, so
that the IOMMU (tb/env/iommu.py) fails an access to memory that a response has released.
"""

from efa import defs
from efa.device import Device
from efa.memory import Memory
from tb.env.checked import MirroredMemory
from tb.env.iommu import LiveMemory
from tb.lib.host import InnerLink, RtlBackend


class RacedBackend(RtlBackend):
    """One device of a running simulation; `live` is LiveMemory or a deliberately wrong variant."""

    def __init__(self, link, name, device=0, node_id=1, live=LiveMemory):
        model = Device(Memory(), node_id=node_id)
        self._model, self._live = model, live(link.native.iommu(device), model)
        super().__init__(link, name, device, node_id)
        self.memory = MirroredMemory(self.memory, model.memory.poke)

    def stores(self, items):
        items = list(items)
        for bar, offset, data in items:
            if bar == defs.EFA_REG_BAR:
                with self._live.commands():
                    self._model.store(bar, offset, data)
        super().stores(items)

    def pause(self, cycles):
        """Advances time by `cycles`."""
        self.link.run([], cycles)


def raced(native, sim, live=LiveMemory):
    """Returns the backends of a started bench; use them in a function called through `bridge`."""
    link = InnerLink(native)
    return [RacedBackend(link, sim, d, 1 + d, live) for d in range(native.devices)]
