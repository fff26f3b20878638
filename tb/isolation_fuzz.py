# SPDX-License-Identifier: Apache-2.0
"""Runs an untrusted tenant beside a victim on one device (make isolation-fuzz).

    python -m tb.isolation_fuzz --stores 1000000 --backend model --seed 7

Writes reports/isolation_fuzz/summary.json. Exit status 1 if the tenant affected the victim or
memory that belongs to no process.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from efa_cosim.backends import backend_names, open_backend
from efa_cosim.boundary.backend import DeviceTimeout
from efa_cosim.host.admin_queue import DriverError
from efa_cosim.host.completion_queue import VerbsError
from tb.fuzz_command import run_fuzz
from tb.scenarios.untrusted_tenant import Intrusion, TenantKnobs, untrusted_tenant

FOUND = (Intrusion, DeviceTimeout, DriverError, VerbsError, RuntimeError)


def fuzz(
    name: str,
    seed: int,
    stores: int,
    queues: int = 4,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Returns the result of a run on a backend: verdict, seconds, and the counts or the reason.

    `queues` are the queue pairs of the tenant. Raises BackendUnavailable.
    """
    knobs = TenantKnobs(stores=stores, queues=queues)
    started = time.monotonic()
    result: dict[str, Any] = {"backend": name, "seed": seed}
    try:
        # Without `nodes`, the result is one backend.
        with open_backend(name, record=True) as backend:  # type: ignore[union-attr]
            done = untrusted_tenant([backend], random.Random(seed), knobs,
                                    progress or (lambda _done, _total: None))
            result |= {"verdict": "passed", **done, "cycles": backend.cycles}
    except FOUND as error:
        result |= {"verdict": "failed", "reason": f"{type(error).__name__}: {error}"}
    return result | {"seconds": round(time.monotonic() - started, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument("--queues", type=int, default=4, help="queue pairs of the tenant")
    parser.add_argument("--backend", choices=backend_names(), default="model")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.stores < 1 or options.queues < 1:
        parser.error("--stores and --queues are at least 1")
    return run_fuzz("isolation_fuzz", "tenant stores", options.stores,
                    lambda show: fuzz(options.backend, options.seed, options.stores,
                                      options.queues, show))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
