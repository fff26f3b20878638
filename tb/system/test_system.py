"""The whole device, every area, on every simulator asked for."""

import re

import pytest

from tb.runner import RunFailed
from tb.simulators import ROOT
from tb.system_run import TOP, run_system

LARGE = {"QPN_W": 10, "LLQ_AW": 22}  # 1,024 queue pairs, a page of LLQ memory each
AREAS = ("bringup", "admin", "send", "recv", "cq", "reset", "stress", "meter")
BUILDS = [(area, {}) for area in AREAS]
BUILDS += [("pair", {"DEVICES": 2}), ("large", LARGE), ("sq_host", {"SQ_HOST": 1})]
# Minutes each on Icarus: `make icarus` runs them, not every commit.
LONG_ON_ICARUS = ("stress", "pair", "large", "sq_host")



def parameters_of(top):
    """Names of the parameters of a bench's top."""
    text = (ROOT / f"tb/hdl/{top}.v").read_text()
    return set(re.findall(r"^ *parameter +(\w+)", text, re.MULTILINE))


@pytest.mark.parametrize(("area", "params"), BUILDS, ids=[area for area, _ in BUILDS])
def test_area(area, params, sim, seed, request):
    if sim == "icarus" and area in LONG_ON_ICARUS and not request.config.getoption("--long"):
        pytest.skip(f"{area} on icarus takes minutes: `make icarus` runs it")
    if not params.keys() <= parameters_of(TOP):
        pytest.skip(f"{TOP} has no parameter {', '.join(params)}")
    try:
        run_system(f"tb.system.{area}_tests", sim, seed, params)
    except RunFailed as error:
        pytest.fail(str(error), pytrace=False)
