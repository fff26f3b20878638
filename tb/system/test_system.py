"""The whole device, every area, on every simulator asked for."""

import pytest

from tb.runner import RunFailed
from tb.system_run import run_system

AREAS = ("bringup", "admin", "send", "recv", "cq", "reset", "stress")
BUILDS = [(area, {}) for area in AREAS] + [("pair", {"DEVICES": 2})]


@pytest.mark.parametrize(("area", "params"), BUILDS, ids=[area for area, _ in BUILDS])
def test_area(area, params, sim, seed):
    try:
        run_system(f"tb.system.{area}_tests", sim, seed, params)
    except RunFailed as error:
        pytest.fail(str(error), pytrace=False)
