# SPDX-License-Identifier: Apache-2.0
"""Merges the functional coverage of many runs, lists the holes, writes reports/coverage.

    tools/scenario_coverage.py FOLDER [POINT ...]

FOLDER holds the files that tb/env/coverage.py saved. With points named, the report covers only
those points, and a hole in one gives exit status 1. Exit status 2 if there is nothing to merge.
"""

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "reports/coverage"


def merge(files):
    """Returns {point: {bin: hits}}, summed over the files."""
    points = defaultdict(Counter)
    for path in files:
        for point, bins in json.loads(path.read_text()).items():
            for name, hits in bins.items():
                points[point][name] += hits
    return {point: dict(bins) for point, bins in points.items()}


def main(arguments):
    files = sorted(Path(arguments[0]).glob("*.json")) if arguments else []
    if not files:
        print("coverage: no saved bins; `make cover` makes them", file=sys.stderr)
        return 2
    points = merge(files)
    if arguments[1:]:
        points = {name: points.get(name, {}) for name in arguments[1:]}
    total = hit = 0
    for point, bins in sorted(points.items()):
        holes = [name for name, hits in bins.items() if not hits]
        total, hit = total + len(bins), hit + len(bins) - len(holes)
        print(
            f"{point:28} {len(bins) - len(holes):3} of {len(bins):3}"
            + (f"   holes: {', '.join(holes)}" if holes else "")
        )
    print(f"coverage: {hit} of {total} bins ({100 * hit / total:.0f} %), {len(files)} runs")
    OUT.mkdir(parents=True, exist_ok=True)
    summary = {"bins": total, "hit": hit, "runs": len(files), "points": points}
    name = "points.json" if arguments[1:] else "summary.json"
    (OUT / name).write_text(json.dumps(summary, indent=1) + "\n")
    return int(bool(arguments[1:]) and (not total or hit < total))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
