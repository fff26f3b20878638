# SPDX-License-Identifier: Apache-2.0
"""Runs a sweep from Python: a grid of values in, one record per measurement out.

    .venv/bin/python examples/own_sweep.py                          # examples/own_sweep.yaml
    .venv/bin/python examples/own_sweep.py sim/sweeps/queue.yaml    # another grid

The first sweep on the cycle model compiles it, which takes about half a minute.
"""

import sys
from pathlib import Path

from efa_cosim.sweep.grid import read_grid
from efa_cosim.sweep.point import measure


def sweep(file: Path) -> list[dict]:
    """Returns one record per measurement; a DataFrame takes the list: polars.DataFrame(records)."""
    jobs = read_grid(file).jobs()
    return [measurement.as_dict() for job in jobs for measurement in measure(job)]


def main(file: str = str(Path(__file__).with_suffix(".yaml"))) -> None:
    records = sweep(Path(file))
    rates = [one for one in records if one["metric"] == "message rate"]
    for one in sorted(rates, key=lambda one: one["value"], reverse=True)[:3]:
        print(f"{one['size']} bytes, queues {one['queues']}, depth {one['depth']}: "
              f"{one['value']:.4f} {one['unit']}, limit {one['limit']:.4f}")
    print(f"{len(records)} measurements with the columns {', '.join(records[0])}")


if __name__ == "__main__":
    main(*sys.argv[1:])
