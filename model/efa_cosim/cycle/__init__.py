# SPDX-License-Identifier: Apache-2.0
"""Cycle model: a queueing network of the stages of spec/timing.yaml.

    from efa_cosim.cycle.network import simulate
    from efa_cosim.cycle.workload import Workload

    timelines = simulate(Workload(size=64, queues=8, depth=64, batch=16, messages=100_000))
    timelines.latency                       # cycles of each message, doorbell to completion
"""

import hashlib
import sys
from pathlib import Path

# numba imports a package "coverage" if present and would import tools/coverage.py.
_known = sys.modules.get("coverage")
sys.modules["coverage"] = None
import numba  # noqa: E402

from efa_cosim.tree import ROOT  # noqa: E402

if _known is None:
    del sys.modules["coverage"]
else:
    sys.modules["coverage"] = _known

HERE = Path(__file__).parent
# The cache of compiled code uses the digest of all files as its key: numba checks only one file and
# would run an engine that has changed since.
_DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py"))))
numba.config.CACHE_DIR = str(ROOT / "sim/out/numba" / _DIGEST.hexdigest()[:16])

# All engines are inlined into one compiled function: a call would copy all numbers of a workload.
engine = numba.njit(error_model="numpy", forceinline=True, _nrt=False,
                    no_cpython_wrapper=True, no_cfunc_wrapper=True)  # fmt: skip
compiled = numba.njit(error_model="numpy", cache=True, _nrt=False)
