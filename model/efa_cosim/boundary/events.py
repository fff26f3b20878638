# SPDX-License-Identifier: Apache-2.0
"""Holds the events of a device as arrays and extracts fields from all of them at once.

The record layout is that of tb/native/common.h: cycle, data, kind, device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from numpy.typing import NDArray

DTYPE = np.dtype([("cycle", "<u8"), ("data", "<u8"), ("kind", "<u4"), ("device", "<u4")])


def of_kind(events: NDArray[Any], name: str) -> NDArray[Any]:
    """The events of one kind (a name of spec/events.yaml), in order."""
    # numpy has no types of named columns.
    return events[events["kind"] == int(defs.Ev[name.upper()])]  # type: ignore[no-any-return]


def field(events: NDArray[Any], name: str, which: str) -> NDArray[np.uint64]:
    """One field of events of one kind, as an array of numbers."""
    lsb, width, _ = defs.EVENTS[name].fields[which]
    return events["data"] >> np.uint64(lsb) & np.uint64((1 << width) - 1)


def where(events: NDArray[Any], name: str, **wanted: int) -> NDArray[Any]:
    """The events of one kind whose fields have these values."""
    found = of_kind(events, name)
    for which, value in wanted.items():
        found = found[field(found, name, which) == value]
    return found
