# SPDX-License-Identifier: Apache-2.0
"""Holds the events of a device as arrays and extracts fields from all of them at once.

The record layout is that of tb/native/common.h: cycle, data, kind, device.
"""

import numpy as np

from efa_cosim.layouts import defs

DTYPE = np.dtype([("cycle", "<u8"), ("data", "<u8"), ("kind", "<u4"), ("device", "<u4")])


def of_kind(events, name):
    """The events of one kind (a name of spec/events.yaml), in order."""
    return events[events["kind"] == int(defs.Ev[name.upper()])]


def field(events, name, which):
    """One field of events of one kind, as an array of numbers."""
    lsb, width, _ = defs.EVENTS[name].fields[which]
    return events["data"] >> np.uint64(lsb) & np.uint64((1 << width) - 1)


def where(events, name, **wanted):
    """The events of one kind whose fields have these values."""
    found = of_kind(events, name)
    for which, value in wanted.items():
        found = found[field(found, name, which) == value]
    return found
