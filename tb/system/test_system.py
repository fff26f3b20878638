# SPDX-License-Identifier: Apache-2.0
"""Tests every area of the whole device on every requested simulator.

With --short, long random scenarios run fewer rounds (tb/scenarios/length.py).
"""

import pytest

from tb.runner import RunFailed
from tb.system_run import run_system

LARGE = {"QPN_W": 10, "LLQ_AW": 22}  # 1,024 queue pairs, a page of LLQ memory each
AREAS = ("bringup", "admin", "control", "send", "recv", "cq", "reset", "stress", "perf_counters",
         "collisions", "wires")  # fmt: skip
# An area of each build first: a worker that needs the build of another one would wait for it.
# Verilator has one build for one and two devices.
BUILDS = [("reliable", {"DEVICES": 2}), ("large", LARGE), ("sq_host", {"SQ_HOST": 1}),
          ("collisions", {}), ("pair", {"DEVICES": 2})]  # fmt: skip
BUILDS += [(area, {}) for area in AREAS if area != "collisions"]
BUILDS += [("wide", LARGE)]


@pytest.mark.parametrize(("area", "params"), BUILDS, ids=[area for area, _ in BUILDS])
def test_area(area, params, sim, seed, unless_long, request):
    # Most take a minute or more on Icarus, where a commit runs the recorded sessions (bring-up,
    # send, receive, complete), the comparison of traces and the benches of efa_admin.
    unless_long(area)
    try:
        run_system(f"tb.system.{area}_tests", sim, seed, params,
                   short=request.config.getoption("--short"))  # fmt: skip
    except RunFailed as error:
        pytest.fail(str(error), pytrace=False)
