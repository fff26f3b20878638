# SPDX-License-Identifier: Apache-2.0
"""Drives random values into fields that a module ignores."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from efa_cosim.layouts.layout import BitLayout


def dont_care(layout: BitLayout, rng: Random, **fields: int) -> dict[str, int]:
    """Returns values of all fields of a bundle: the given ones, and random ones for the others.

        context = dont_care(INTERNAL.qpc, rng, live=1, uar=3)
        INTERNAL.qpc.pack(**context)
    """
    others = {name: rng.getrandbits(width) for name, (_, width, _) in layout.fields.items()}
    return others | fields
