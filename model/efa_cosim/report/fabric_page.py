# SPDX-License-Identifier: Apache-2.0
"""Writes the report of the reliable transport on fabrics with faults: pictures, table, page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from efa_cosim.measure.lossy import GOODPUT, RECOVERED, RELIABLE, Results, misses
from efa_cosim.measure.origin import origin
from efa_cosim.measure.record import stamped
from efa_cosim.report.document import Section, cell, table
from efa_cosim.report.publish import Picture, publish


def write(folder: Path, command: str, packets: int, seed: int, results: Results) -> Path:
    """Writes the files of Results into a folder; returns the path of the page. Raises OSError."""
    wrong = misses(results.rows)
    rows = stamped((row.as_dict() for row in results.rows), command)
    checked = sum(row.target is not None for row in results.rows)
    summary = {
        "title": "The reliable transport on fabrics with faults",
        "verdict": "failed" if wrong else "passed",
        "text": wrong[0] if wrong else f"{checked} of {checked} targets met",
        "command": command, "seed": seed, "origin": origin(), "differences": wrong,
        "setting": f"reference model, packets of 4 KB, {packets:,} on each lossy path; "
                   f"{results.checked_packets:,} packets of the {RELIABLE} hold to its rules",
        "measurements": rows,
        "curves": {"completion_times": [vars(one) for one in results.times],
                   "path_failure": [vars(one) for one in results.failure],
                   "shares": results.shares},
    }  # fmt: skip
    return publish(folder, summary, _parts(results, rows))


def _parts(results: Results, rows: Sequence[dict[str, Any]]) -> list[Section | Picture]:
    from efa_cosim.report import fabric_plots

    cells = [[row["metric"], row["statistic"], row["subject"],
              ", ".join(f"{name} {cell(value)}" for name, value in row["configuration"].items()),
              cell(row["value"]), row["unit"], cell(row["target"])] for row in rows]  # fmt: skip
    return [
        Picture("goodput", "Goodput and loss", partial(fabric_plots.goodput, results.rows),
                "One path, 128 packets in flight, as a share of (1 - loss) x line. Marks: targets "
                f"of the {RELIABLE}, {', '.join(f'{v:g} at {k:g}' for k, v in GOODPUT.items())}."),
        Picture("completion", "Completion times", partial(fabric_plots.times, results.times),
                "Eight paths at half of the line; from post to completion, in round trips of an "
                "idle fabric. The picture shows the slowest tenth."),
        Picture("failure", "A path fails and heals", partial(fabric_plots.failure, results.failure),
                f"Packets executed in each round trip as a share of the line. One of eight paths "
                f"is down in the second third. Line: {RECOVERED:g} of the line. Go-back-N uses one "
                "path, which does not fail."),
        Picture("incast", "Incast", partial(fabric_plots.shares, results.shares),
                "16 nodes send to one: share of each in the goodput."),
        table("Measurements", ["measurement", "statistic", "engine", "setting", "value", "unit",
                               "target"], cells, "measurements.csv", prose=True),
    ]  # fmt: skip

