# SPDX-License-Identifier: Apache-2.0
"""Checks the acknowledgements that a receiver sends to one peer against what it has received."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from efa_cosim.layouts import defs
from efa_cosim.layouts.fields import SrdAckFields, SrdHdrFields
from efa_cosim.transport.monitor_history import Recent
from efa_cosim.transport.monitor_rules import ProtocolFault, Rule, Settings
from efa_cosim.transport.packets import PSN_MASK, number_distance, psn_distance

_ABORT = int(defs.IoCompStatus.REMOTE_ERROR_ABORT)

# session, psn, refused_psn, path, src_qpn and dst_qpn of a reply of rules 1 and 2.
_Reply: TypeAlias = tuple[int, int, int, int, int, int]


class _Arrival:
    """The copies of a PSN that the receiver has received and not refused since."""

    __slots__ = ("owed", "paths", "qpns", "status")

    def __init__(self, qpns: tuple[int, int]) -> None:
        self.qpns = qpns
        self.owed = 0  # refusals that may follow
        self.paths = 0  # bit i: a copy came on path i
        self.status = 0  # of its refusal, once that is known


class _Window:
    """What the receiver has received in a session. PSNs inside the class do not wrap.

    Bits of the masks are PSNs from `oldest` on.
    """

    def __init__(self, session: int, oldest: int, reaction: int) -> None:
        self.session, self.oldest = session, oldest
        self.known = Recent(oldest, reaction)
        self.received = self.refused = 0
        # Accepted for sure: by an outcome, or shown in an acknowledgement.
        self.accepted = 0
        self.arrivals: dict[int, _Arrival] = {}
        self.shown = oldest  # the greatest `psn` of an acknowledgement

    def unwrap(self, psn: int) -> int:
        """The PSN as a number that does not wrap."""
        return self.oldest + psn_distance(psn, self.oldest & PSN_MASK)

    def move(self, now: int, oldest: int, window: int) -> None:
        """Moves oldest; a refusal of a PSN before may still wait for the port."""
        step = oldest - self.oldest
        self.known.set(now, oldest)
        # Nothing more follows for accepted PSNs.
        passed = self.accepted & (1 << step) - 1 if step <= window else 0
        while passed:
            self.arrivals.pop(self.oldest + passed.bit_length() - 1, None)
            passed ^= 1 << passed.bit_length() - 1
        self.received >>= step
        self.refused >>= step
        self.accepted >>= step
        if step > window:
            self.arrivals.clear()
        for psn in range(self.oldest - window, min(oldest, self.oldest + window) - window):
            self.arrivals.pop(psn, None)
        self.oldest = oldest


class ReceiverView:
    """A receiver and one peer."""

    def __init__(self, node: int, peer: int, settings: Settings) -> None:
        self.node, self.peer = node, peer
        self._settings = settings
        self.reset()

    def reset(self) -> None:
        """The node forgets the session, and all replies that wait."""
        self._window: _Window | None = None
        self._past: _Window | None = None
        self._past_since = 0  # cycle of the end of the past session
        self._aborts: Counter[_Reply] = Counter()
        self._quiets: Counter[_Reply] = Counter()
        self._clear_due()

    def _clear_due(self) -> None:
        self._due = 0  # acknowledgements that may follow
        self._owed = False  # one must follow
        self._path: int | None = None  # its path, if known
        self._path_since = 0  # cycle of its packet
        self._paths = 0  # bit i: it may have path i

    def _fault(
        self, rule: Rule, now: int, ack: SrdAckFields | None, psn: int | None, expected: object,
        found: object,
    ) -> None:  # fmt: skip
        if ack is not None:
            session: int | None = ack.session
        else:
            session = None if self._window is None else self._window.session
        self._settings.report(ProtocolFault(rule, now, self.node, self.peer, session, psn,
                                            str(expected), str(found)))

    # Packets that arrive.

    def returned(self, data: SrdHdrFields, abort: bool) -> None:
        """Expects a reply of rule 1 (`abort`) or of rule 2 to a packet."""
        psn = data.psn - data.behind & PSN_MASK
        if abort:
            reply = (data.session, psn, data.psn, data.path, data.dst_qpn, data.src_qpn)
            self._aborts[reply] += 1
        else:
            self._quiets[data.session, psn, 0, data.path, 0, 0] += 1

    def received(self, now: int, data: SrdHdrFields) -> None:
        """Takes a packet by rules 3 to 7 of the receiver."""
        window = self._window
        if window is None or data.session != window.session:
            if window is not None and number_distance(data.session, window.session) < 0:
                return
            self._past, self._past_since = window, now
            first = data.psn - data.behind & PSN_MASK
            window = self._window = _Window(data.session, first, self._settings.handling)
            self._clear_due()
        psn = window.unwrap(data.psn)
        oldest = psn - data.behind
        if oldest > window.oldest:
            window.move(now, oldest, self._settings.window)
        at = psn - window.oldest
        if at < 0:
            return
        bit, path = 1 << at, data.path
        known = self._settings.outcomes_are_known
        arrival = window.arrivals.get(psn)
        if arrival is None:
            arrival = window.arrivals[psn] = _Arrival((data.src_qpn, data.dst_qpn))
        arrival.paths |= 1 << path
        if window.received & bit:
            if window.accepted & bit:
                self._due += 1
                self._owed = True
                self._path, self._path_since = path, now
                self._paths |= 1 << path
                return
            if known and not window.refused & bit:
                return
            arrival.owed += 1
        window.received |= bit
        if not known:
            # The packet may be executed, refused, or lost by the receiver; nothing must follow.
            if not arrival.owed:
                arrival.owed = 1
            self._due += 1
            self._path = None
            self._paths |= 1 << path

    def executed(self, now: int, data: SrdHdrFields, status: int) -> None:
        """Takes the outcome of a packet, which has one only."""
        window = self._window
        if window is None or data.session != window.session:
            return
        psn = window.unwrap(data.psn)
        at = psn - window.oldest
        if at < 0 or not window.received >> at & 1:
            return
        if (window.accepted | window.refused) >> at & 1:
            self._fault(Rule.ONCE, now, None, data.psn, "one outcome", "one more")
            return
        if status:
            window.refused |= 1 << at
            arrival = window.arrivals[psn]
            arrival.status = status
            arrival.owed += 1
            return
        window.accepted |= 1 << at
        if not self._owed:
            self._owed, self._path = True, data.path
            self._paths |= 1 << data.path
        self._due += 1

    # Acknowledgements that leave.

    def acknowledged(self, since: int, now: int, ack: SrdAckFields) -> None:
        """Checks an acknowledgement or refusal that was built in cycle `since` or later."""
        bits = int.from_bytes(ack.bitmap, "little")
        if ack.status == _ABORT or (self._quiets and not ack.status and not bits):
            replies = self._aborts if ack.status == _ABORT else self._quiets
            reply = (ack.session, ack.psn, ack.refused_psn, ack.path, ack.src_qpn, ack.dst_qpn)
            if replies.get(reply) and ack.bitmap_psn == ack.psn and not bits:
                replies[reply] -= 1
                if not replies[reply]:
                    del replies[reply]
                return
            if ack.status:
                self._fault(Rule.REPLY, now, ack, ack.refused_psn, "the numbers of a packet with "
                            "another incarnation", reply)
                return
        window = self._window
        if window is None or ack.session != window.session:
            past = self._past
            if past is not None and ack.session == past.session and (
                ack.status or since < self._past_since
            ):
                # A refusal may have waited for the port since the past session.
                window = past
            else:
                stored = None if window is None else window.session
                # Without a session, only the quiet time has replies.
                rule = Rule.REPLY if stored is None else Rule.ACK_SESSION
                self._fault(rule, now, ack, None, f"session {stored}", ack.session)
                return
        if not self._check_state(since, now, window, ack, bits):
            return
        if ack.status:
            self._check_refusal(now, window, ack)
        elif window is self._window:
            self._check_due(since, now, window, ack)

    def _check_state(
        self, since: int, now: int, window: _Window, ack: SrdAckFields, bits: int
    ) -> bool:
        """Checks what an acknowledgement shows; returns False after a fault."""
        oldest, size = window.oldest, self._settings.window
        known = self._settings.outcomes_are_known
        permitted = window.accepted if known else window.received & ~window.refused
        psn, base = window.unwrap(ack.psn), window.unwrap(ack.bitmap_psn)
        prefix = psn - oldest
        if prefix > size:
            self._fault(Rule.ACK_TRUTH, now, ack, ack.psn, f"psn up to {oldest + size & PSN_MASK}",
                        ack.psn)  # fmt: skip
            return False
        prefix_mask = (1 << prefix) - 1 if prefix > 0 else 0
        if base != psn and (base < psn or ack.bitmap_psn % 256 or not bits or base - psn > size):
            self._fault(Rule.ACK_BITMAP, now, ack, ack.psn,
                        f"{ack.psn} or a later multiple of 256 with an accepted PSN",
                        ack.bitmap_psn)  # fmt: skip
            return False
        shown = bits << base - oldest if base >= oldest else bits >> oldest - base
        lies = (prefix_mask | shown) & ~permitted
        if lies:
            at = (lies & -lies).bit_length() - 1
            state = "refused" if window.refused >> at & 1 else (
                "received" if window.received >> at & 1 else "not received")  # fmt: skip
            self._fault(Rule.ACK_TRUTH, now, ack, oldest + at & PSN_MASK, "an accepted PSN",
                        f"a PSN that is {state}")  # fmt: skip
            return False
        if ack.status:
            # A refusal may have been packed before it waited for the port.
            return True
        least = max(window.shown, window.known.all(since)[0])
        if psn < least:
            self._fault(Rule.ACK_WHOLE, now, ack, ack.psn, f"psn from {least & PSN_MASK} on",
                        ack.psn)  # fmt: skip
            return False
        window.shown = psn
        if not known:
            window.accepted |= prefix_mask | shown
            return True
        accepted = window.accepted
        first = (~accepted & accepted + 1).bit_length() - 1
        whole = accepted >> base - oldest & (1 << 256) - 1
        if prefix != first or bits != whole or accepted >> base - oldest + 256:
            self._fault(Rule.ACK_WHOLE, now, ack, ack.psn,
                        f"psn {oldest + first & PSN_MASK}, bitmap {whole:#x}",
                        f"psn {ack.psn}, bitmap {bits:#x}")  # fmt: skip
            return False
        return True

    def _check_refusal(self, now: int, window: _Window, ack: SrdAckFields) -> None:
        psn = window.unwrap(ack.refused_psn)
        arrival = window.arrivals.get(psn)
        if arrival is None:
            self._fault(Rule.REFUSAL, now, ack, ack.refused_psn, "a PSN that was received",
                        "one that was not")  # fmt: skip
            return
        at = psn - window.oldest
        if at >= 0:
            if window.accepted >> at & 1:
                self._fault(Rule.REFUSAL, now, ack, ack.refused_psn, "no refusal of an accepted "
                            "PSN", f"status {ack.status}")
                return
            window.refused |= 1 << at
        if arrival.status not in (0, ack.status):
            self._fault(Rule.REFUSAL, now, ack, ack.refused_psn, f"status {arrival.status}",
                        ack.status)  # fmt: skip
            return
        arrival.status = ack.status
        if not arrival.owed:
            self._fault(Rule.REFUSAL, now, ack, ack.refused_psn, "a refusal for each copy",
                        "one more")  # fmt: skip
            return
        arrival.owed -= 1
        if (ack.dst_qpn, ack.src_qpn) != arrival.qpns:
            self._fault(Rule.REFUSAL, now, ack, ack.refused_psn, f"the QPs {arrival.qpns}",
                        (ack.dst_qpn, ack.src_qpn))  # fmt: skip
        if not arrival.paths >> ack.path & 1:
            self._fault(Rule.ACK_PATH, now, ack, ack.refused_psn, "a path of the packet",
                        ack.path)  # fmt: skip

    def _check_due(self, since: int, now: int, window: _Window, ack: SrdAckFields) -> None:
        if not self._due:
            self._fault(Rule.ACK_CAUSE, now, ack, None, "a packet since the last acknowledgement",
                        "none")  # fmt: skip
            return
        path = self._path if self._path_since <= since else None
        if path != ack.path if path is not None else not self._paths >> ack.path & 1:
            self._fault(Rule.ACK_PATH, now, ack, None, "the path of a packet since the last one"
                        if path is None else path, ack.path)  # fmt: skip
        if self._settings.outcomes_are_known:
            self._clear_due()
        else:
            # Outcomes may follow later: at most one acknowledgement for each packet.
            self._due -= 1
            self._owed, self._path = False, None
            if not self._due:
                self._paths = 0

    def finish(self, now: int) -> None:
        """Checks that no acknowledgement is missing when nothing is on its way."""
        if self._owed:
            self._fault(Rule.ACK_MISSING, now, None, None, "an acknowledgement", "none")
            self._owed = False
