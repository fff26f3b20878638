# SPDX-License-Identifier: Apache-2.0
"""Chooses how often a scenario repeats: fully, or a few times for a run with --short."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

SHORT = "EFA_SHORT"


def repeated(work: Callable[..., None], full: int, short: int) -> Callable[..., None]:
    """Returns a scenario with its number of rounds; `make test` runs with --short.

    Rounds of a scenario differ in random choices only, so that other seeds replace them.
    """
    count = short if os.environ.get(SHORT) == "1" else full

    @wraps(work)
    def run(backends: Any, rng: Any) -> None:
        work(backends, rng, rounds=count)

    return run
