# SPDX-License-Identifier: Apache-2.0
"""What the benches of receive rings share: descriptors and the contexts of their queue pairs."""

from efa.defs import INTERNAL, AdminQpState, IoRxDesc

LAST = 1 << 127
ONE_DESC = (1 << 128) - 1


def desc(rng, last, req_id=None):
    """A receive descriptor as a number of 128 bits: random but for its end and request id."""
    word = rng.getrandbits(127) | last << 127
    if req_id is None:
        return word
    image = IoRxDesc(req_id=req_id).pack()
    return word & ~(0xFFFF << 64) | int.from_bytes(image, "little")


def context(base, log, state=AdminQpState.RTS, live=1, rq_live=1, rest=None):
    """A QP's context as its users see it; `base` is the host address of its receive ring, `rest`
    what other fields hold."""
    fields = {"live": live, "state": state, "rq_live": rq_live, "rq_base": base >> 6, "rq_log": log}
    return INTERNAL.qpc.pack(**((rest or {}) | fields))


def length(word):
    """The bytes of a descriptor's buffer."""
    return IoRxDesc.unpack(word.to_bytes(16, "little")).length
