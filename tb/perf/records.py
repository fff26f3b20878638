# SPDX-License-Identifier: Apache-2.0
"""Makes the measurement records (efa_cosim.measure.record) of rows and curves of make perf."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from efa_cosim.measure.record import Measurement
from tb.perf.queues import DMA_LATENCY, REQUEST_BYTES
from tb.perf.rows import CYCLES, PARAMETERS, Row
from tb.perf.work import Measured

COLUMNS = ("size", "queues", "batch")


def of_row(row: Row, target: float | None, measured: Measured) -> list[Measurement]:
    """Returns the records of a row: a rate, or the slowest, fastest and median message; raises
    Mismatch if the value is beyond the limit of the row."""
    own = {"subject": row.key, "host_read_latency": DMA_LATENCY, **_setting(measured)}
    found = [_record(row.unit, measured.value, measured.messages, row.limit, target, own)]
    if row.unit == CYCLES:
        # The limit of a row is that of its slowest message.
        found += [replace(found[0], statistic=name, value=float(measured.more[key]), limit=None,
                          target=None) for name, key in (("min", "least"), ("median", "median"))
                  if key in measured.more]  # fmt: skip
    return found


def of_point(
    what: str, unit: str, latency: int, value: float, limit: float | None, measured: Measured
) -> Measurement:
    """Returns the record of a curve at one latency of host memory in cycles; raises Mismatch if the
    value is beyond the limit."""
    own = {"subject": what, "host_read_latency": latency, **_setting(measured)}
    return _record(unit, value, measured.messages, limit, None, own)


def _record(
    unit: str,
    value: float,
    messages: int,
    limit: float | None,
    target: float | None,
    own: dict[str, Any],
) -> Measurement:
    metric, statistic = ("device latency", "max") if unit == CYCLES else ("device rate", "mean")
    return Measurement(metric, statistic, float(value), unit, messages,
                       None if limit is None else float(limit),
                       None if target is None else float(target), kind="SRD", **own)  # fmt: skip


def _setting(measured: Measured) -> dict[str, Any]:
    own = measured.setting
    return {**{name: own[name] for name in COLUMNS if name in own},
            "configuration": {name: own[name] for name in own if name not in COLUMNS}}


def built(
    records: Iterable[Measurement], sim: str, seed: int, build: str
) -> list[dict[str, Any]]:
    """Returns records as dictionaries, with simulator, seed and parameters of the build."""
    parameters = PARAMETERS[build]
    more = {"request_bytes": REQUEST_BYTES, **parameters}
    return [replace(one, backend=sim, seed=seed, sq_host=parameters.get("SQ_HOST", 0),
                    configuration=one.configuration | more).as_dict() for one in records]
