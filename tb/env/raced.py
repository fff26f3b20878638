# SPDX-License-Identifier: Apache-2.0
"""Runs software that races with the device on the RTL backend.

Statuses and data depend on time there, so they are not compared with the model; the boundary rules
are checked. The IOMMU (tb/env/iommu.py) fails an access to memory that a response has released.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import cocotb

from efa_cosim.boundary.backend import profile_strap
from tb.env.iommu import IommuDriver, LiveMemory
from tb.lib.bridge import bridge
from tb.lib.host import SHORT_TICKS, InnerLink, RtlBackend
from tb.lib.native import PCIE_SIZES, Native, drawn_sizes

if TYPE_CHECKING:
    from efa_cosim.boundary.backend import Store


class MappingBackend(RtlBackend):
    """One device of a running simulation whose host maps memory in its IOMMU."""

    link: InnerLink

    def __init__(
        self, link: InnerLink, name: str, device: int, node_id: int, iommu: IommuDriver
    ) -> None:
        self.iommu = iommu
        super().__init__(link, name, device, node_id)

    def stores(self, items: Iterable[Store]) -> None:
        items = list(items)
        for item in items:
            self.iommu.store(*item)
        super().stores(items)

    def set_bus_master(self, on: bool) -> None:
        self.iommu.set_bus_master(on)
        super().set_bus_master(on)

    def begin_flr(self) -> None:
        self.iommu.flr()
        super().begin_flr()

    def inject(self, packet: bytes) -> None:
        """Sends a packet that no device sent to this device; the packet may be malformed."""
        self.link.inject(self.device, packet)

    def counters(self) -> dict[str, int]:
        """Returns what the host has seen of the device: reads, packets, interrupts and so on."""
        return self.link.native.counters(self.device)


def raced(native: Native, sim: str, live: type[LiveMemory] | None = None) -> list[MappingBackend]:
    """Returns the backends of a started bench; use them in a function called through `bridge`."""
    link = InnerLink(native)

    def backend(device: int) -> MappingBackend:
        iommu = IommuDriver(native.iommu(device), native.memory(device), 1 + device, live)
        return MappingBackend(link, sim, device, 1 + device, iommu)

    return [backend(device) for device in range(native.devices)]


async def race(
    dut: Any, work: Callable[..., Any], live: type[LiveMemory] = LiveMemory, /,
    devices: int = 1, **knobs: int,
) -> None:  # fmt: skip
    """Runs work on the devices without comparison; `knobs` set the timing of host and network. The
    ticks of the transport are short."""
    seed = int(cocotb.RANDOM_SEED)
    native = Native(dut)
    mps, mrrs = map(PCIE_SIZES.index, drawn_sizes(seed, str(sorted(knobs))))
    # Without RNR retry, as in NicTest.
    own = {"profile": profile_strap("basic"), "tick": SHORT_TICKS[seed % len(SHORT_TICKS)], **knobs}
    native.start(seed, devices, mps=mps, mrrs=mrrs, **own)
    for device in range(devices):
        native.knobs(device, node=1 + device)
    backends = raced(native, os.environ["EFA_SIM"], live)
    params = json.loads(os.environ.get("EFA_PARAMS", "{}"))
    for backend in backends:
        backend.store_buffer = os.environ["EFA_STORE_BUFFER"]
        backend.built_with(params)
        backend.tick_cycles = own["tick"]
    await bridge(work)(backends, random.Random(seed))
    native.check()
