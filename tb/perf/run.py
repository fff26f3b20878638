"""make perf: measures every row of the performance table on the whole device, and says which miss.

    python -m tb.perf.run [--row inline-db16 ...] [--qpn-w 10] [--sim verilator] [--out FOLDER]

Exit status 0 when every mark is met, 1 when one is missed or a message was wrong, 2 on usage or
environment.
"""

import argparse
import fnmatch
import json
import sys
import time
from pathlib import Path

from efa.backend import BackendUnavailable, DeviceTimeout
from efa.files import write_whole
from tb.lib.host import open_simulator
from tb.perf.queues import Device, PerfError
from tb.perf.rows import ROWS
from tb.simulators import ROOT, SIMULATORS

OUT = ROOT / "reports/perf"
# What goes wrong inside a row and is its verdict, not the end of the others.
ROW_FAILS = (PerfError, DeviceTimeout, AssertionError, RuntimeError)


def params_of(qpn_w):
    """Parameters of efa_tb for so many queue pairs; None: the default build."""
    return {} if qpn_w is None else {"QPN_W": qpn_w, "LLQ_AW": max(21, qpn_w + 12)}


def as_dict(row, measured, seconds):
    """A row of summary.json."""
    value, limit = measured.value, row.limit
    met = None if row.mark is None else (
        value >= row.mark - 1e-9 if row.least else value <= row.mark)
    return {
        "key": row.key, "what": row.what, "value": round(value, 6), "unit": row.unit,
        "mark": row.mark, "mark_is": "at least" if row.least else "at most",
        "limit": limit, "limit_set_by": row.sets,
        "ratio_to_limit": None if limit is None else round(value / limit, 4),
        "met": met, "messages": measured.messages, "seconds": round(seconds, 2), **measured.more,
    }  # fmt: skip


def measure(backend, rows, seed=1, progress=print):
    """Rows as dictionaries; one that went wrong has `error` and is not met."""
    found = []
    for row in rows:
        progress(f"  {row.what} ...")
        started = time.monotonic()
        try:
            measured = row.measure(lambda **knobs: Device(backend, seed, **knobs))
        except ROW_FAILS as error:
            text = " ".join(str(error).split())[:300]
            found.append({"key": row.key, "what": row.what, "value": None, "unit": row.unit,
                          "mark": row.mark, "limit": row.limit, "ratio_to_limit": None,
                          "met": False, "messages": 0, "error": text})
            progress(f"    FAILED: {text}")
            continue
        one = as_dict(row, measured, time.monotonic() - started)
        found.append(one)
        progress("    " + told(one))
    return found


def told(row):
    """One line of a row."""
    limit = "" if row["limit"] is None else f", limit {row['limit']:.4g}"
    verdict = {None: "", True: ": met", False: ": MISSED"}[row["met"]]
    return (f"{row['value']:.4g} {row['unit']} ({row['mark_is']} {row['mark']:g}{limit}; "
            f"{row['messages']} messages){verdict}")


def verdict(rows):
    """One line of all."""
    missed = [row for row in rows if row["met"] is False]
    if not missed:
        return f"passed: all {len(rows)} rows meet their marks"
    names = "; ".join(
        f"{row['key']} {row['error']}" if "error" in row
        else f"{row['key']} {row['value']:.4g} of {row['mark']:g}" for row in missed
    )  # fmt: skip
    return f"failed: {len(missed)} of {len(rows)} rows miss their marks: {names}"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--row", action="append", metavar="PATTERN",
                        help=f"only rows that match: {', '.join(row.key for row in ROWS)}")
    parser.add_argument("--qpn-w", type=int, help="log2 of the build's QPs (default: 6)")
    parser.add_argument("--sim", choices=SIMULATORS, default="verilator")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the report")
    options = parser.parse_args(arguments)
    patterns = options.row or ["*"]
    rows = [row for row in ROWS if any(fnmatch.fnmatch(row.key, one) for one in patterns)]
    if not rows:
        parser.error(f"no row matches {', '.join(patterns)}; there are "
                     f"{', '.join(row.key for row in ROWS)}")
    print(f"building the device for {options.sim}", flush=True)
    started = time.monotonic()
    try:
        with open_simulator(options.sim, params=params_of(options.qpn_w)) as backend:
            found = measure(backend, rows, progress=lambda text: print(text, flush=True))
    except BackendUnavailable as error:
        print(error, file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    line = verdict(found)
    summary = {"verdict": line, "simulator": options.sim, "rows": found}
    write_whole(options.out / "summary.json", json.dumps(summary, indent=2) + "\n")
    print(f"{line} ({time.monotonic() - started:.0f} s)")
    return 0 if line.startswith("passed") else 1


if __name__ == "__main__":
    sys.exit(main())
