# SPDX-License-Identifier: Apache-2.0
"""Runs every unit of units.py with every parameter set on every requested simulator.

On Icarus, long units and further parameter sets run only with --long. With --short, long units run
with their first parameter set only, and long benches run a part of their cases and rounds
(tb/unit/length.py). The seed draws half of the further parameter sets of other units, besides that
of the device, and one unit of six on Icarus.
"""

from random import Random

import pytest

from tb.runner import RunFailed, run_unit
from tb.unit.units import UNITS

CASES = [
    pytest.param(
        name,
        params,
        id=name + "".join(f"-{key}{value}" for key, value in params.items()),
    )
    for name, unit in UNITS.items()
    for params in unit.variants
]


@pytest.mark.parametrize(("name", "params"), CASES)
def test_unit(name, params, sim, seed, unless_long, request):
    unit = UNITS[name]
    further = params != unit.variants[0]
    # What Icarus adds, unknown values and another scheduler, shows in one parameter set.
    if unit.long or further:
        unless_long(name)
    short = request.config.getoption("--short")
    # {} are the parameters of the device.
    if short and further and params and Random(f"{name} {params} {seed}").randrange(2):
        pytest.skip("the seed draws other parameter sets: `make unit` runs all")
    if sim == "icarus" and short and Random(f"{name} {seed}").randrange(6):
        pytest.skip(f"the seed draws other units for {sim}: `make icarus` runs all")
    if unit.long and further and short:
        pytest.skip(f"{name} is slow on {sim}: `make unit` runs it")
    try:
        run_unit(name, unit.top, unit.sources, unit.module(name), sim, seed, params,
                 short=short)
    except RunFailed as error:
        pytest.fail(str(error), pytrace=False)
