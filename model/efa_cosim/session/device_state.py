# SPDX-License-Identifier: Apache-2.0
"""Holds what the host has set up on a device: its numbers, its rings, and the order of its output.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from efa_cosim.layouts import defs
from efa_cosim.session.order import Order
from efa_cosim.session.regions import COMPLETION, EVENT, Region, Regions, ring_address
from efa_cosim.session.translation import Translation

if TYPE_CHECKING:
    from efa_cosim.layouts.layout import Bytes


@dataclass
class Position:
    """The `line` of the session that is played."""

    line: int = 0


class DeviceState:
    """State of one device as the played steps have left it.

    - `position`: that of the session, shared by all devices
    - `translations`: those of all devices of the fabric; that of this one is added
    """

    def __init__(self, position: Position, translations: list[Translation]) -> None:
        self.position = position
        self.translation = Translation(translations)
        self.regions = Regions()
        self.order = Order(self.is_datagram)
        self.admin_vector = 0

    def reset(self) -> None:
        """Removes all objects and rings, as a device reset does."""
        self.translation.reset()
        self.regions.clear()
        self.order.reset()

    def complete(self, recorded: bytes, came: bytes) -> None:
        """Learns the numbers of a completed command from both ACQ entries; adds its ring."""
        pending = self.translation.learn(recorded, came)
        command = pending.recorded
        if not defs.AdminAcqCommonDesc.unpack(recorded).status:
            bars = self.translation.db_bars
            response = defs.COMMANDS[pending.opcode][1].unpack(recorded)
            self.order.created(pending.opcode, command, response, bars and bars[0])
        if isinstance(command, defs.AdminCreateCqCmd):
            base = ring_address(command.cq_ba)
            self.regions.add(Region(COMPLETION, base, command.cq_entry_size_words * 4,
                                    command.sub_cq_depth * command.num_sub_cqs, base))
        elif isinstance(command, defs.AdminCreateEqCmd):
            base = ring_address(command.ba)
            self.regions.add(Region(EVENT, base, defs.AdminEqe.SIZE, command.depth, base))

    def is_datagram(self, image: Bytes) -> bool:
        """Returns True if a recorded CQE is that of a received datagram."""
        common = defs.IoCdescCommon.unpack(image)
        return (common.q_type == defs.IoQueueType.RECV_QUEUE and not common.status
                and self.translation.qp_kind(common.qp_num) == defs.AdminQpType.UD)
