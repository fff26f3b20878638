# SPDX-License-Identifier: Apache-2.0
"""When things happen: a queueing network of the stages of spec/timing.yaml, in cycles.

    from cycle.network import simulate
    from cycle.workload import Workload

    lives = simulate(Workload(size=64, queues=8, depth=64, batch=16, messages=100_000))
    lives.latency                       # cycles of each message, doorbell to completion
"""

import hashlib
import sys
from pathlib import Path

# numba looks for the package "coverage" and would take tools/coverage.py for it.
_known = sys.modules.get("coverage")
sys.modules["coverage"] = None
import numba  # noqa: E402

if _known is None:
    del sys.modules["coverage"]
else:
    sys.modules["coverage"] = _known

HERE = Path(__file__).parent
# Compiled code is kept under the digest of all of it: numba itself looks at one file only, and
# would run an engine that was changed since.
_DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py"))))
numba.config.CACHE_DIR = str(HERE.parents[1] / "sim/out/numba" / _DIGEST.hexdigest()[:16])

# One compiled function in the end: a call would copy every number of the workload.
engine = numba.njit(error_model="numpy", forceinline=True, _nrt=False)
compiled = numba.njit(error_model="numpy", cache=True, _nrt=False)
