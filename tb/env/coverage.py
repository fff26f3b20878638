# SPDX-License-Identifier: Apache-2.0
"""Collects functional coverage of device outputs and ev_* events in named bins; lists holes.

The bins are declared with cocotb-coverage; `sample` receives the scoreboard's reports.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cocotb_coverage.coverage import CoverCross, CoverPoint, coverage_db, coverage_section

from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from tb.env.predictor import Command

STATUS = defs.IoCompStatus
# Statuses that a lossless device without RDMA can report.
SEND_STATUSES = (
    STATUS.OK, STATUS.FLUSHED, STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR,
    STATUS.LOCAL_ERROR_UNSUPPORTED_OP, STATUS.LOCAL_ERROR_INVALID_AH,
    STATUS.LOCAL_ERROR_INVALID_LKEY, STATUS.LOCAL_ERROR_BAD_LENGTH,
    STATUS.REMOTE_ERROR_BAD_DEST_QPN, STATUS.REMOTE_ERROR_RNR, STATUS.REMOTE_ERROR_BAD_LENGTH,
    STATUS.REMOTE_ERROR_BAD_STATUS, STATUS.LOCAL_ERROR_UNREACH_REMOTE,
)  # fmt: skip
RECEIVE_STATUSES = (
    STATUS.OK, STATUS.FLUSHED, STATUS.LOCAL_ERROR_QP_INTERNAL_ERROR,
    STATUS.LOCAL_ERROR_INVALID_LKEY,
)  # fmt: skip
COMPLETIONS = [("send", int(s)) for s in SEND_STATUSES] + [
    ("receive", int(s)) for s in RECEIVE_STATUSES
]
COMMANDS = [int(opcode) for opcode in defs.COMMAND_STATUSES]
# Outcomes that do not depend on the fields of the command.
UNNAMED, UNREAD = "unnamed opcode", "unread entry"
PLACES = ("first", "middle", "wrap")
VERSIONS = ("0.1", "0.2", "0.3")
CONTROL = [
    (name, status, place, version)
    for place in PLACES
    for version in VERSIONS
    for name, status in (
        # The stub declares int keys; they are members of AdminAqOpcode.
        *((opcode.name, status.name)  # type: ignore[attr-defined]
          for opcode, statuses in defs.COMMAND_STATUSES.items()
          for status in statuses),
        (UNNAMED, "UNSUPPORTED_OPCODE"), (UNREAD, "UNKNOWN_ERROR"),
    )
]  # fmt: skip
SIZES = ("0", "1..32 (one flit)", "33..96", "97..512", "513..4096", "over 4096")
DOORBELLS = [("SQ", 0), ("SQ", 1), ("SQ", 2), ("SQ", 3), ("RQ", 0), ("RQ", 1), ("RQ", 3),
             ("CQ", 0), ("CQ", 1)]  # fmt: skip


def size_bin(length: int) -> str:
    """Returns the size class of a message, by the shape of its packet."""
    for bound, name in zip((0, 32, 96, 512, 4096), SIZES, strict=False):
        if length <= bound:
            return name
    return SIZES[-1]


SECTIONS = coverage_section(
    CoverPoint("nic.packet.opcode", xf=lambda o, *_: o, bins=[int(o) for o in defs.PktOpcode]),
    CoverPoint("nic.packet.size", xf=lambda _o, size, _i: size_bin(size), bins=list(SIZES)),
    CoverPoint("nic.packet.imm", xf=lambda _o, _s, imm: imm, bins=[0, 1]),
    CoverCross("nic.packet.opcode_size", items=["nic.packet.opcode", "nic.packet.size"],
               ign_bins=[(int(defs.PktOpcode.SRD_ACK), size) for size in SIZES[1:]]),
)  # fmt: skip


@SECTIONS
def _packet(opcode: int, size: str, imm: int) -> None:
    pass


@CoverPoint("nic.completion", xf=lambda side, status: (side, status), bins=COMPLETIONS)
def _completion(side: str, status: int) -> None:
    pass


@CoverPoint("nic.command.status", xf=lambda status: status,
            bins=[int(s) for s in defs.AdminAqCompletionStatus
                  if s.name not in ("BAD_OPCODE", "UNKNOWN_ERROR")])  # fmt: skip
def _response(status: int) -> None:
    pass


@CoverPoint("nic.command.opcode", xf=lambda opcode: opcode, bins=COMMANDS)
def _command(opcode: int) -> None:
    pass


_controlled: set[tuple[str, str, str, str]] = set()


@CoverPoint("nic.control", xf=lambda *what: what, bins=CONTROL)
def _control(name: str, status: str, place: str, version: str) -> None:
    pass


@CoverPoint("nic.command.corrupted", xf=lambda place: place, bins=list(PLACES))
def _corrupted(place: str) -> None:
    pass


@CoverPoint("nic.doorbell", xf=lambda kind, outcome: (("SQ", "RQ", "CQ")[kind], outcome),
            bins=DOORBELLS)  # fmt: skip
def _doorbell(kind: int, outcome: int) -> None:
    pass


@CoverPoint("nic.llq.status", xf=lambda status: status, bins=[0, 1, 2, 3])
def _llq(outcome: int) -> None:
    pass


@CoverPoint("nic.qperr.cause", xf=lambda cause: cause, bins=list(range(1, 9)))
def _qperr(cause: int) -> None:
    pass


@CoverPoint("nic.event_entry", xf=lambda seen: seen, bins=[True])
def _event_entry(seen: bool) -> None:
    pass


@CoverPoint("nic.reset.step", xf=lambda step: step, bins=[0, 1, 2])
def _reset(step: int) -> None:
    pass


def sample(what: str, item: Any) -> None:
    """Samples one report of the scoreboard; see Scoreboard.listeners."""
    if what == "packet":
        head = defs.PktHdr.unpack(item)
        _packet(int(head.opcode), head.length, head.has_imm)
    elif what == "completion":
        common = defs.IoCdescCommon.unpack(item)
        receive = common.q_type == defs.IoQueueType.RECV_QUEUE
        _completion("receive" if receive else "send", int(common.status))
    elif what == "response":
        _response(int(defs.AdminAcqEntry.unpack(item).acq_common_descriptor.status))
    elif what == "command":
        _command_ended(item)
    elif what == "event":
        _observed(item.kind, item.data)


def _command_ended(command: Command) -> None:
    """Samples a command: status, place in its ring, interface version."""
    slot, opcode = command.slot, command.opcode
    place = PLACES[0] if slot == 0 else PLACES[2] if slot == command.depth - 1 else PLACES[1]
    status = defs.AdminAqCompletionStatus(command.status)
    if opcode is None:
        name = UNREAD
    elif opcode not in defs.COMMAND_STATUSES:
        name = UNNAMED
    else:
        name = defs.AdminAqOpcode(opcode).name
    # An opcode of None has no statuses, as an opcode without a name.
    own = defs.COMMAND_STATUSES.get(opcode, ())  # type: ignore[arg-type]
    if status == defs.AdminAqCompletionStatus.MALFORMED_REQUEST and status not in own:
        _corrupted(place)
    what = name, status.name, place, VERSIONS[command.version - 1]
    if what not in _controlled:
        # One sample per value is enough; a search through this many bins is slow.
        _controlled.add(what)
        _control(*what)


def _observed(kind: int, data: int) -> None:
    if kind == defs.Ev.AQCMD:
        _command(int(defs.EVENTS.aqcmd.unpack(data).opcode))
    elif kind == defs.Ev.DB:
        seen = defs.EVENTS.db.unpack(data)
        _doorbell(seen.kind, seen.status)
    elif kind == defs.Ev.LLQ:
        _llq(defs.EVENTS.llq.unpack(data).status)
    elif kind == defs.Ev.QPERR:
        _qperr(defs.EVENTS.qperr.unpack(data).cause)
    elif kind == defs.Ev.EQE:
        _event_entry(True)
    elif kind == defs.Ev.RESET:
        _reset(defs.EVENTS.reset.unpack(data).step)


def points() -> dict[str, dict[str, int]]:
    """Returns the hits of each bin, by coverage point."""
    return {
        name: {str(bin_): int(hits) for bin_, hits in point.detailed_coverage.items()}
        for name, point in sorted(coverage_db.items())
        if isinstance(point, CoverPoint | CoverCross)
    }


def holes(prefix: str = "") -> list[tuple[str, str]]:
    """Returns the bins without hits, as (point, bin), of points whose name starts with `prefix`."""
    return [
        (point, name) for point, bins in points().items() if point.startswith(prefix)
        for name, hits in bins.items() if not hits
    ]  # fmt: skip


def save(path: str | Path) -> None:
    """Writes the bins of this run; tools/scenario_coverage.py merges them."""
    Path(path).write_text(json.dumps(points(), indent=1) + "\n")
