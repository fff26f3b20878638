# SPDX-License-Identifier: Apache-2.0
"""Chooses how often a scenario repeats: fully, or a few times for a run with --short.

Rounds and objects of a scenario differ in random choices only, so that other seeds replace them.
"""

import os
from collections.abc import Callable
from functools import partial, update_wrapper

SHORT = "EFA_SHORT"


def is_short() -> bool:
    """Returns True in a run with --short."""
    return os.environ.get(SHORT) == "1"


def shortened(work: Callable[..., None], **short: int) -> Callable[..., None]:
    """Returns a scenario that runs with --short with these options, else with its own."""
    if not is_short():
        return work
    return update_wrapper(partial(work, **short), work)
