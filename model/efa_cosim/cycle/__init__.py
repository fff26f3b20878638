# SPDX-License-Identifier: Apache-2.0
"""Cycle model: a queueing network of the stages of spec/timing.yaml.

    from efa_cosim.cycle.network import simulate
    from efa_cosim.cycle.workload import Workload

    timelines = simulate(Workload(size=64, queues=8, depth=64, batch=16, messages=100_000))
    timelines.latency                       # cycles of each message, doorbell to completion
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numba

from efa_cosim.tree import ROOT

HERE = Path(__file__).parent
# The cache of compiled code uses the digest of all files as its key: numba checks only one file and
# would run an engine that has changed since.
_DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py"))))
cast(Any, numba.config).CACHE_DIR = str(ROOT / "sim/out/numba" / _DIGEST.hexdigest()[:16])

Function = TypeVar("Function", bound=Callable[..., Any])


class _Decorator(Protocol):
    """A decorator that keeps the type of the function."""

    def __call__(self, function: Function, /) -> Function: ...


# The types of numba lack some of the options.
_njit = cast(Callable[..., _Decorator], numba.njit)
# All engines are inlined into one compiled function: a call would copy all numbers of a workload.
engine = _njit(error_model="numpy", forceinline=True, _nrt=False,
               no_cpython_wrapper=True, no_cfunc_wrapper=True)  # fmt: skip
compiled = _njit(error_model="numpy", cache=True, _nrt=False)
