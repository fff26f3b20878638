# SPDX-License-Identifier: Apache-2.0
"""Cycle model: a queueing network of the stages of spec/timing.yaml.

    from efa_cosim.cycle.network import simulate
    from efa_cosim.cycle.workload import Workload

    timelines = simulate(Workload(size=64, queues=8, depth=64, batch=16, messages=100_000))
    timelines.latency                       # cycles of each message, doorbell to completion
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numba

from efa_cosim.tree import ROOT

HERE = Path(__file__).parent
# The cache of compiled code uses the digest of all files as its key: numba checks only one file and
# would run an engine that has changed since.
_DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py"))))
CACHE = ROOT / "sim/out/numba" / _DIGEST.hexdigest()[:16]
cast(Any, numba.config).CACHE_DIR = str(CACHE)

Function = TypeVar("Function", bound=Callable[..., Any])


class _Decorator(Protocol):
    """A decorator that keeps the type of the function."""

    def __call__(self, function: Function, /) -> Function: ...


# The types of numba lack some of the options.
_njit = cast(Callable[..., _Decorator], numba.njit)
# All engines are inlined into one compiled function: a call would copy all numbers of a workload.
engine = _njit(error_model="numpy", forceinline=True, _nrt=False,
               no_cpython_wrapper=True, no_cfunc_wrapper=True)  # fmt: skip
_cached = cast(Callable[..., Any], numba.njit)(error_model="numpy", cache=True, _nrt=False)


# True while this process compiles: a compiled function may call another one.
_compiling = False


@contextmanager
def _alone() -> Iterator[None]:
    """Excludes the other processes that use CACHE."""
    global _compiling
    if _compiling:
        yield
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _compiling = True
        try:
            yield
        finally:
            _compiling = False


def compiled(function: Function) -> Function:
    """Decorates a function that is compiled at its first call with arguments of new types, and
    cached in CACHE.

    One process compiles; processes that start together with it wait, and load its code.
    """
    made = _cached(function)
    compiles = made.compile

    def compile_alone(types: object) -> object:
        with _alone():
            return compiles(types)

    made.compile = compile_alone
    return cast(Function, made)
