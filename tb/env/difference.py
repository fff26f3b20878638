# SPDX-License-Identifier: Apache-2.0
"""Reports a difference between device and model by field, with expected and found value."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from efa_cosim.layouts import defs
from tb.env.predictor import SEND_QUEUE, route_of, same_packet
from tb.lib.failure import Named, field_of, named, shown

if TYPE_CHECKING:
    from efa_cosim.layouts.layout import Struct
    from tb.env.predictor import Route

# Number of a device and cycle of its output.
Where: TypeAlias = tuple[int, int]
_FLAGS_AT = defs.IoCdescCommon.flags.offset
_QUEUE_LSB, _QUEUE_MASK = defs.IoCdescCommon.q_type.lsb, defs.IoCdescCommon.q_type.mask


class Difference(AssertionError):
    """Device and model disagree; the text names device, cycle, expected and received output.

    Its last three lines are field, expected and found value (tb/lib/failure.py); `what` names them
    where the text holds bytes of an entry.
    """

    def __init__(self, text: object, what: Named | None = None) -> None:
        text = str(text)
        if what is None:
            what = named(text)
        else:
            headline = text.partition("\n")[0]
            what = what._replace(field=f"{what.field}, {headline}")
        super().__init__(f"{text}\n{what}")


def differs(where: Where, text: object, what: Named | None = None) -> Difference:
    """Returns the Difference at (device, cycle); builds the text only on a difference."""
    device, cycle = where
    return Difference(f"device {device}, cycle {cycle}: {text}", what)


def not_due(where: Where, packet: bytes) -> Difference:
    """Returns the Difference of a packet that the model does not send."""
    route = route_text(route_of(packet))
    return differs(where, f"packet {packet[:64].hex()} is not due", Named("packet", "none", route))


def packet_field(expected: bytes, found: bytes) -> Named:
    """Returns the first field in which two packets differ that the device does not choose."""
    if same_packet(found[: defs.PktHdr.SIZE], expected[: defs.PktHdr.SIZE]):
        found = expected[: defs.PktHdr.SIZE] + found[defs.PktHdr.SIZE :]
    else:
        chosen = defs.PktHdr.unpack(found)
        chosen.psn, chosen.msg_id, chosen.path = psn_and_more(expected)
        found = chosen.pack() + found[defs.PktHdr.SIZE :]
    return field_of(defs.PktHdr, expected, found)


def psn_and_more(packet: bytes) -> tuple[int, int, int]:
    """Returns the fields of a packet that the device chooses."""
    head = defs.PktHdr.unpack(packet)
    return head.psn, head.msg_id, head.path


def register_field(expected: bytes, found: bytes) -> Named:
    """Returns the first field of a register in which two register responses differ."""
    layout = defs.AdminMmioReqReadLessResp
    due, got = layout.unpack(expected), layout.unpack(found)
    if (due.req_id, due.reg_off) != (got.req_id, got.reg_off):
        return field_of(layout, expected, found)
    names = {int(register): register.name for register in defs.Reg}
    name = names.get(due.reg_off, f"register {due.reg_off:#x}")
    fields = defs.REG_BITS.get(name)
    for field in fields.fields if fields else ():
        pair = [
            # Without fields, there is no iteration.
            getattr(fields.unpack(one.reg_val), field)  # type: ignore[union-attr]
            for one in (due, got)
        ]
        if pair[0] != pair[1]:
            return Named(f"{name}.{field}", *map(shown, pair))
    return Named(name, f"{due.reg_val:#010x}", f"{got.reg_val:#010x}")


def response_layout(opcode: int | None) -> type[Struct]:
    """Returns the layout of the response to a command."""
    # An opcode of None has the default, too.
    _, response = defs.COMMANDS.get(opcode, (None, defs.AdminAcqEntry))  # type: ignore[arg-type]
    return response


def route_text(route: Route) -> str:
    """Returns opcode, sender and receiver of a packet as text."""
    return (
        f"opcode {route.opcode} from queue pair {route.src_qpn:#x} of node {route.src_node} "
        f"to {route.dst_qpn:#x} of node {route.dst_node}"
    )


def completion_layout(entry: bytes) -> type[Struct]:
    """Returns the layout of a CQE."""
    if entry[_FLAGS_AT] >> _QUEUE_LSB & _QUEUE_MASK == SEND_QUEUE:
        return defs.IoTxCdesc
    return defs.IoRxCdescEx if len(entry) >= defs.IoRxCdescEx.SIZE else defs.IoRxCdesc
