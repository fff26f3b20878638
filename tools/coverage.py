"""Merges the functional coverage of many runs, lists the holes, writes reports/coverage.

    tools/coverage.py FOLDER

FOLDER holds what tb/env/coverage.py saved. Exit status 2 when there is nothing to merge.
"""

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "reports/coverage/summary.json"


def merge(files):
    """Point: bin: hits, added up over the files."""
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
    total = hit = 0
    for point, bins in sorted(points.items()):
        holes = [name for name, hits in bins.items() if not hits]
        total, hit = total + len(bins), hit + len(bins) - len(holes)
        print(
            f"{point:28} {len(bins) - len(holes):3} of {len(bins):3}"
            + (f"   holes: {', '.join(holes)}" if holes else "")
        )
    print(f"coverage: {hit} of {total} bins ({100 * hit / total:.0f} %), {len(files)} runs")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    summary = {"bins": total, "hit": hit, "runs": len(files), "points": points}
    OUT.write_text(json.dumps(summary, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
