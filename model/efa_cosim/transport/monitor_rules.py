# SPDX-License-Identifier: Apache-2.0
"""Rules of the reliable transport that the monitor checks, and the fault that names one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from efa_cosim.layouts import defs
from efa_cosim.transport.packets import Start


class Rule(Enum):
    """Rules of decision 0009; the value is what the decision says."""

    FIELD = "A packet has only fields that a receiver accepts (Checks)."
    NUMBER = "One counter gives incarnations and sessions; a new number is newer than all before."
    SESSION = "A new session begins after ABORT, a dead peer or a reset, and the old one ends."
    PSN = "A packet of a message gets the next PSN."
    WINDOW = "psn - oldest is less than the window."
    CONTENT = "A retransmission keeps its PSN, and with it the packet."
    RESOLVED = "A resolved packet is not sent again."
    BEHIND = "behind is psn - oldest at the time of this transmission."
    INCARNATION = "incarnation is that of the receiver as the sender knows it, else 0."
    CAUSE = "A packet is sent again only if it is lost, or as a probe of an unusable path."
    LOST_FIRST = "A lost packet is sent again before new packets of its peer."
    CONGESTION = "Fewer packets than the congestion window are in flight to the peer."
    ENDED = "After the completion of a message none of its packets is sent."
    COMPLETION = "A message completes when all of its packets are sent and resolved, not before."
    ACK_SESSION = "An acknowledgement echoes the session that the receiver has stored."
    ACK_CAUSE = "An acknowledgement is sent for a due peer only."
    ACK_TRUTH = "A PSN that is shown is accepted, or before the oldest that the receiver knows."
    ACK_WHOLE = "Each acknowledgement shows the whole state."
    ACK_BITMAP = "bitmap_psn is psn, or a later multiple of 256 with the newest accepted PSN."
    ACK_PATH = "path is that of the packet that made the acknowledgement due."
    ACK_MISSING = "The receiver sends an acknowledgement for each due peer."
    ONCE = "A packet that was seen is a duplicate and takes no effect."
    REFUSAL = "A refusal names a received packet that is not accepted, each time with its status."
    REPLY = "ABORT and the reply of the quiet time return the numbers of the packet, without a bit."


class ProtocolFault(Exception):
    """A packet or a completion that breaks a rule of the reliable transport.

    - `rule`: the Rule; `cycle`: when
    - `node`: the node that broke the rule, `peer`: the other one
    - `session`, `psn`: of the packet, None if it has none
    - `expected`, `found`: texts
    """

    def __init__(
        self, rule: Rule, cycle: int, node: int, peer: int, session: int | None, psn: int | None,
        expected: str, found: str,
    ) -> None:  # fmt: skip
        super().__init__(
            f"{rule.name}: node {node} to {peer}, session {session}, PSN {psn}, cycle {cycle}: "
            f"expected {expected}; found {found}. Decision 0009: {rule.value}"
        )
        self.rule, self.cycle, self.node, self.peer = rule, cycle, node, peer
        self.session, self.psn, self.expected, self.found = session, psn, expected, found


def raise_fault(fault: ProtocolFault) -> None:
    """Ends the run at the first fault."""
    raise fault


@dataclass(slots=True)
class Settings:
    """What the monitor knows of the nodes.

    - `constants`: those of spec/transport.yaml; `paths`: number of paths
    - `start`: first PSN of each session, None if any is permitted
    - `cancels_are_known`: each completion is reported, so canceled PSNs are known
    - `outcomes_are_known`: each outcome of an execution is reported
    - `report`: called with each fault
    - `reaction`: most cycles from what arrives at a node to its effect in a data packet that leaves
    - `handling`: those to its effect on decisions, and on acknowledgements that leave
    - `transmit`: most cycles from the decision of a data packet until it leaves
    """

    constants: defs.Transport
    paths: int
    start: Start | None
    cancels_are_known: bool
    outcomes_are_known: bool
    report: Callable[[ProtocolFault], object]
    reaction: int
    handling: int
    transmit: int
    window: int = field(init=False)
    tick: int = field(init=False)

    def __post_init__(self) -> None:
        self.window = 1 << self.constants.psn_window_w
        self.tick = int(self.constants.tick_cycles)
