# SPDX-License-Identifier: Apache-2.0
"""The RTL backend for software that races with the device: statuses and data depend on time there,
so they are not compared with the model; the boundary rules hold all the same.

A reference device follows the admin commands alone. It says which objects live, so that the IOMMU
(tb/env/iommu.py) fails an access to memory that a response has released.
"""

from efa import defs
from efa.device import Device
from efa.memory import Memory
from tb.env.checked import MirroredMemory
from tb.env.iommu import LiveMemory
from tb.lib.host import InnerLink, RtlBackend


class RacedBackend(RtlBackend):
    """One device of a running simulation; `live` is LiveMemory or one that is wrong on purpose."""

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
        """Time passes."""
        self.link.run([], cycles)


def raced(native, sim, live=LiveMemory):
    """Backends of a bench that was started; use them in a function called through `bridge`."""
    link = InnerLink(native)
    return [RacedBackend(link, sim, d, 1 + d, live) for d in range(native.devices)]
