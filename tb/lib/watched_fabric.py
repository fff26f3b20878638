# SPDX-License-Identifier: Apache-2.0
"""Opens devices of a fabric with the monitor of the reliable transport beside their network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from efa_cosim.backends import open_backend
from efa_cosim.fabric.description import FabricDescription
from efa_cosim.layouts import defs
from efa_cosim.transport.monitor import Monitor
from efa_cosim.transport.packets import FLIT_BYTES, Start, constants_with
from tb.lib.host import SHORT_TICKS

# Transmissions between efa_tx_space and efa_tx_alloc, which wait for space in the payload ring: 4
# of u_sends, 3 in efa_tx_recall, 2 in efa_wqe_check, 1 in efa_tx_alloc.
STAGES = 10
# Flits of the payload ring (LINE_W of efa_tx).
RING_FLITS = 512
# A payload read of this bench: 125 cycles of the host, the rest in the device.
READ_CYCLES = 150
# efa_net_rx, efa_ack_join and efa_tx_resolve with an event and its packets before, or efa_net_rx,
# efa_rx_window and efa_ack_build.
HANDLING_CYCLES = 60
# Of many refusals that wait in efa_ack_join: efa_tx_resolve handles one, and an acknowledgement in
# turn with it, without a search for losses.
REFUSAL_CYCLES = 32


def reaction_times(flits: int, refusals: int = 0) -> tuple[int, int]:
    """Returns `reaction` and `handling` of a Monitor for the RTL with packets of up to `flits`.

    An arrival waits until the packet before it has entered the device, and an acknowledgement until
    the packet before it has left, and until so many `refusals` are handled.
    """
    handling = 2 * flits + HANDLING_CYCLES + refusals * REFUSAL_CYCLES
    return handling + STAGES * flits + RING_FLITS + READ_CYCLES, handling


@contextmanager
def watched(
    sim: str, fabric: FabricDescription, profile: str = "default", cancels: bool = True,
    refusals: int = 0, **options: Any,
) -> Iterator[list[Any]]:  # fmt: skip
    """Opens the devices of a fabric with a monitor, and closes them when no packet is on its way.

    The ticks of the transport are short in all devices.

    - `cancels`: False if the software ends no message before its packets
    - `refusals`: refusals that may wait at a device for their handling
    - `options`: those of `open_backend`

    Raises ProtocolFault for a packet that breaks a rule of decision 0009.
    """
    bytes_most = defs.SrdHdr.SIZE + defs.PktRdma.SIZE + defs.PROFILES[profile]["mtu"]
    reaction, handling = reaction_times(-(-bytes_most // FLIT_BYTES), refusals)
    tick = SHORT_TICKS[0]
    monitor = Monitor(
        constants=constants_with(tick_cycles=tick),
        nodes=[node.number for node in fabric.nodes], paths=fabric.paths, start=Start(),
        cancels=cancels, reaction=reaction, handling=handling)  # fmt: skip
    devices = open_backend(
        sim, fabric=fabric, profile=profile, observer=monitor, tick=tick, **options)  # fmt: skip
    assert isinstance(devices, list)
    with devices[0]:
        yield devices
        devices[0].settle()
        monitor.finish(devices[0].cycles)
    assert monitor.packets, "no packet of the reliable transport"
