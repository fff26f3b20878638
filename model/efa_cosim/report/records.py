# SPDX-License-Identifier: Apache-2.0
"""Makes the measurement records (efa_cosim.measure.record) of the waterfall and the laboratory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from efa_cosim.cycle.workload import Workload
from efa_cosim.measure.record import Measurement
from efa_cosim.measure.workload import rate_limit
from efa_cosim.report.document import Row, Rows
from efa_cosim.sweep.point import KINDS
from efa_cosim.sweep.workloads import least_latency


def of_waterfall(rows: Rows, backend: str) -> Iterator[dict[str, Any]]:
    """Yields the records of the rows of attribution.study: rate and latency of each run, service
    and wait of each stage, and each named wait, as means over its messages."""
    for row in rows:
        work = Workload(**row["workload"])
        own = {**work.setting(), "backend": backend}
        own["configuration"] = {**own["configuration"], "load": row["load"]}
        least = float(least_latency(work))
        for metric, statistic, value, unit, limit, subject in (
                ("message rate", "mean", row["rate"], "messages/cycle",
                 rate_limit(KINDS[work.kind], work.size, work.batch, work.sq_host), ""),
                *(("loaded latency", name, row[name], "cycles", least, "")
                  for name in ("median", "p99", "mean")),
                *((f"stage {kind}", "mean", stage[kind], "cycles", None, stage["stage"])
                  for stage in row["stages"] for kind in ("service", "wait")),
                *(("named wait", "mean", one["cycles"], "cycles", None,
                   f"{one['cause']} ({one['stage']})") for one in row["causes"])):  # fmt: skip
            yield Measurement(metric, statistic, float(value), unit, row["messages"], limit,
                              subject=subject, **own).as_dict()


# Results of the runs with a planted bug: key of a cell, metric, target.
RESULTS = (("named", "bug named", None), ("device", "bug reported by the device", None),
           ("hidden", "bug not observable", None), ("missed", "bug missed", 0.0))  # fmt: skip
# Measurements of the cost of a store buffer: key, metric, unit.
COSTS = (("beats", "bus beats", "beats/WQE"), ("doorbells", "doorbells", "doorbells/WQE"),
         ("bus_cycles", "bus cycles", "cycles/WQE"), ("out_cycles", "cycles out", "cycles/message"),
         ("alone_cycles", "first store to last flit", "cycles"))  # fmt: skip


def of_lab(summary: Row) -> Iterator[dict[str, Any]]:
    """Yields the records of a summary of the laboratory: runs by result for each planted bug and
    store buffer, false alarms, cost of each store buffer."""
    for cell in [*summary["cells"], *summary["correct"]]:
        own = {"kind": "SRD", "store_buffer": cell["policy"], "backend": cell["backend"],
               "subject": cell.get("bug", "correct code"), "seed": summary["first_seed"],
               "configuration": {"overtakes": cell["overtakes"], "seeds": cell["seeds"]}}
        results = RESULTS if "bug" in cell else (("false_alarms", "false alarm", 0.0),)
        for key, metric, target in results:
            # A wrong name is a bug that is not found, too.
            count = cell[key] + (cell["misnamed"] if key == "missed" else 0)
            yield Measurement(metric, "count", float(count), "runs", cell["messages"],
                              float(cell["seeds"]), target, **own).as_dict()
    for row in summary["cost"]:
        own = {"kind": "SRD", "store_buffer": row["policy"], "backend": row["backend"],
               "subject": "correct code", "batch": row["batch"], "queues": 1,
               "configuration": {"lines": row["lines"], "wqe_bytes": row["entry_bytes"]}}
        for key, metric, unit in COSTS:
            if row.get(key) is not None:
                limit = row["entry_bytes"] / 64 if key == "beats" else None
                yield Measurement(metric, "median" if key.endswith("_cycles") else "mean",
                                  float(row[key]), unit, row["entries"], limit, **own).as_dict()
