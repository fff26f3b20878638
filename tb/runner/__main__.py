# SPDX-License-Identifier: Apache-2.0
"""Runs one bench: python -m tb.runner unit fifo, python -m tb.runner system send."""

import argparse
import sys

from efa_cosim.host.wc import StoreBuffer
from tb.runner import (
    NoSuchRun,
    RunFailed,
    new_seed,
    parameters_of,
    planned_tests,
    report,
    run_unit,
    system_module,
)
from tb.simulators import SIMULATORS, SimulatorMissing, simulator_missing
from tb.system_run import run_system
from tb.unit.units import BENCHES, UNITS


def main(argv: list[str] | None = None) -> int:
    """Runs the bench of the command line; returns 1 for a failed run, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="tb.runner", description=__doc__)
    parser.add_argument("kind", choices=("unit", "system"))
    parser.add_argument(
        "name", help="unit of tb/unit/units.py, module of tb/system without _tests, or a file of"
        " system tests"
    )
    parser.add_argument("--sim", choices=SIMULATORS, default="verilator")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--test", help="only tests whose name matches this expression")
    parser.add_argument("--params", default="", help="NAME=VALUE ...")
    parser.add_argument("--store-buffer", type=StoreBuffer.of,
                        help="system: how the hosts' CPUs combine stores, as POLICY/LINES/overtakes"
                             " or POLICY/LINES/drains (default: drawn from the seed)")  # fmt: skip
    parser.add_argument("--short", action="store_true",
                        help="a part of long benches and scenarios, as `make test`")
    args = parser.parse_args(argv)
    reason = simulator_missing(args.sim)
    if reason is not None:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    seed = args.seed if args.seed is not None else new_seed()
    try:
        params = parameters_of(args.params)
        if args.kind == "unit":
            unit = (UNITS | BENCHES).get(args.name)
            if unit is None:
                raise NoSuchRun(
                    f"no unit {args.name} in tb/unit/units.py; expected one of "
                    + ", ".join(sorted(UNITS | BENCHES))
                )
            planned_tests(unit.module(args.name), args.test)
            for variant in [params] if params else unit.variants:
                outcome = run_unit(
                    args.name, unit.top, unit.sources, unit.module(args.name), args.sim, seed,
                    variant, args.test, args.short,
                )  # fmt: skip
                print(report(outcome))
        else:
            module = system_module(args.name)
            planned_tests(module, args.test)
            print(report(run_system(module, args.sim, seed, params, args.test,
                                  store_buffer=args.store_buffer, short=args.short)))  # fmt: skip
    except NoSuchRun as error:
        print(error, file=sys.stderr)
        return 2
    except (RunFailed, SimulatorMissing) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
