# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the benches of receive rings: descriptors and QP contexts."""

from efa_cosim.layouts.defs import INTERNAL, AdminQpState, IoRxDesc

LAST = 1 << 127
ONE_DESC = (1 << 128) - 1


def desc(rng, last, req_id=None):
    """Returns a receive descriptor as a 128-bit number: random except for its last flag and request
    id."""
    word = rng.getrandbits(127) | last << 127
    if req_id is None:
        return word
    image = IoRxDesc(req_id=req_id).pack()
    return word & ~(0xFFFF << 64) | int.from_bytes(image, "little")


def context(base, log, state=AdminQpState.RTS, live=1, rq_live=1, rest=None):
    """Returns a QP context; `base` is the host address of its receive ring, `rest` the values of
    other fields."""
    fields = {"live": live, "state": state, "rq_live": rq_live, "rq_base": base >> 6, "rq_log": log}
    return INTERNAL.qpc.pack(**((rest or {}) | fields))


def length(word):
    """Returns the buffer length of a descriptor."""
    return IoRxDesc.unpack(word.to_bytes(16, "little")).length
