# SPDX-License-Identifier: Apache-2.0
"""Defines the record of a measurement, the same for every job, and its files: CSV and Parquet.

`record.schema.json` describes the records; summary.json holds them as its list `measurements`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from efa_cosim.measure.origin import commit, tools

CSV, PARQUET = "measurements.csv", "measurements.parquet"
# Units whose limit is the most that is possible; the limit of any other unit is the least.
RATE, RUNS = "/cycle", "runs"
ROUNDING = 1e-9


class Mismatch(Exception):
    """A message did not arrive as sent, or a measurement is beyond its limit."""


@dataclass(frozen=True)
class Measurement:
    """One measurement; raises Mismatch if its value is beyond its limit.

    - `metric`: what was measured, such as `latency` or `message rate`
    - `statistic`: of the messages, such as `median`, `p99` or `mean`
    - `value`, `unit`: such as `cycles` (of the device clock) or `messages/cycle`
    - `messages`: number of messages that it covers
    - `limit`: theoretical limit in the same unit, the highest rate or the least number of cycles;
      None if unknown
    - `target`: what a rate must reach, and what any other value must not exceed; None without one
    - `subject`: what of several it describes: a row of make perf, a stage, a planted bug
    - `kind`: type of the queue pairs, `UD` or `SRD`; `size`: bytes of a message; `queues`: queue
      pairs that send; `host_read_latency`: cycles; None where a job has no single value
    - `depth`: outstanding messages of a queue, 0: all messages are posted at once; `batch`: WQEs of
      a doorbell, 0: as many as the device permits
    - `store_buffer`: policy of the CPU's store buffer; `sq_host`: 1 with send queues in host memory
    - `loss`: share of packets and acknowledgements that the fabric loses
    - `configuration`: further values that the job sets, by name
    - `seed`: of every random choice
    - `backend`: `cycle`, `model` or the simulator of the RTL
    """

    metric: str
    statistic: str
    value: float
    unit: str
    messages: int
    limit: float | None = None
    target: float | None = None
    subject: str = ""
    kind: str = ""
    size: int | None = None
    queues: int | None = None
    depth: int | None = None
    batch: int | None = None
    host_read_latency: int | None = None
    store_buffer: str = ""
    sq_host: int = 0
    loss: float = 0.0
    configuration: dict[str, Any] = field(default_factory=dict)
    seed: int = 1
    backend: str = ""

    def __post_init__(self) -> None:
        if self.limit is None:
            return
        most = self.unit.endswith(RATE) or self.unit == RUNS
        beyond = self.value - self.limit if most else self.limit - self.value
        if beyond > ROUNDING * max(1.0, abs(self.limit)):
            of = f"{self.metric} ({self.statistic})" + (f", {self.subject}" if self.subject else "")
            raise Mismatch(
                f"{of}, {self.kind} {self.size} bytes: {self.value:.6f} {self.unit}, expected at "
                f"{'most' if most else 'least'} the limit {self.limit:.6f}; correct the count or "
                "the limit")  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON, a record for a DataFrame."""
        return asdict(self)


# Where the measurements were made: added when they are written, see `stamped`.
ORIGIN = ("command", "commit", "tools")
COLUMNS = (*(one.name for one in fields(Measurement)), *ORIGIN)


def stamped(rows: Iterable[Mapping[str, Any]], command: str) -> list[dict[str, Any]]:
    """Returns records with the command, commit and tool versions with which they were made."""
    origin = dict(zip(ORIGIN, (command, commit(), tools()), strict=True))
    return [{**row, **origin} for row in rows]


def files(rows: Iterable[Mapping[str, Any]]) -> dict[str, str | bytes]:
    """Returns the files of stamped records, content by name: CSV and Parquet, a row each.

    The columns are the keys of a record; `configuration` is JSON text. Other keys are left out.
    """
    flat = [{**{name: row.get(name) for name in COLUMNS},
             "configuration": json.dumps(row.get("configuration", {}), sort_keys=True)}
            for row in rows]  # fmt: skip
    return {CSV: _csv(flat), PARQUET: _parquet(flat)}


def _csv(rows: list[dict[str, Any]]) -> str:
    stream = io.StringIO()
    table = csv.DictWriter(stream, fieldnames=COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return stream.getvalue()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    # This import takes half a second, which help and refusals avoid.
    import pyarrow  # type: ignore[import-untyped]  # the library has no types
    import pyarrow.parquet  # type: ignore[import-untyped]  # the library has no types

    types = {"float": pyarrow.float64(), "int": pyarrow.int64()}
    texts = {one.name: str(one.type).removesuffix(" | None") for one in fields(Measurement)}
    schema = pyarrow.schema([(name, types.get(texts.get(name, ""), pyarrow.string()))
                             for name in COLUMNS])  # fmt: skip
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), stream)
    return stream.getvalue()
