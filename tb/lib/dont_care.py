# SPDX-License-Identifier: Apache-2.0
"""Random values where a module must not look: what it ignores does not stay 0 in a bench."""


def dont_care(layout, rng, **fields):
    """Values of all fields of a bundle: these, and random ones for the others.

    context = dont_care(INTERNAL.qpc, rng, live=1, uar=3); INTERNAL.qpc.pack(**context)"""
    others = {name: rng.getrandbits(width) for name, (_, width, _) in layout.fields.items()}
    return others | fields
