# SPDX-License-Identifier: Apache-2.0
"""Writes and reads the report of a run or a sweep: sessions, pictures, messages, measurements."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from efa_cosim.measure import record
from efa_cosim.report.document import Row, Rows, Section, messages, physical, table
from efa_cosim.report.folder import ReportError, check, not_written
from efa_cosim.report.publish import PAGE, SUMMARY, Picture, publish

TABLE = record.CSV
PICTURES = ("queues", "latency", "loaded", "rates", "alone", "waterfall", "distribution")
PARTS = {SUMMARY, PAGE, TABLE, record.PARQUET, *(f"{name}.svg" for name in PICTURES)}
TITLE = "RTL against reference model"


def write_report(folder: str | Path, summary: Row) -> Path:
    """Writes summary and tables, which replace the whole folder; then pictures and page. Returns
    the path of the page; raises ReportError."""
    folder = Path(folder)
    check_target(folder)
    try:
        return publish(folder, {"title": TITLE, **summary}, parts(summary), whole=True)
    except OSError as error:
        raise not_written(folder, error) from error


def check_target(folder: str | Path) -> None:
    """Refuses a folder that holds other files than such a report; raises ReportError."""
    check(Path(folder), PARTS)


def parts(summary: Row) -> Iterator[Section | Picture]:
    """Yields the parts of the page: sessions, the pictures that the measurements of a summary
    allow, messages one by one, all measurements."""
    if summary["sessions"]:
        yield _sessions(summary["sessions"])
    captions = _captions(summary)
    for name, draw in _pictures(summary):
        heading, caption = captions[name]
        yield Picture(name, heading, draw, caption)
        if name == "waterfall":
            yield messages("The same messages one by one", summary["waterfall"][-1]["sample"])
    yield _table(summary["measurements"])


def _pictures(summary: Row) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yields each picture in the order of PICTURES: its name, and what draws it."""
    # This import takes a second, which help and refusals avoid.
    from efa_cosim.report import crossover, curves, plots
    from efa_cosim.report.waterfall_plots import distribution

    measurements, shown = summary["measurements"], summary.get("waterfall", ())
    if crossover.both(measurements):
        yield "queues", partial(crossover.queues, measurements)
    usual = curves if has_host_parameters(measurements) else plots
    for name, metric in (("latency", "latency"), ("loaded", "loaded latency"),
                         ("rates", "message rate")):  # fmt: skip
        rows = [row for row in measurements if row["metric"] == metric]
        if rows:
            yield name, partial(getattr(usual, name), rows)
    # First a single message, then messages under load.
    for name, one in zip(("alone", "waterfall"), shown, strict=False):
        yield name, partial(plots.waterfall, one, "RTL on verilator")
    if shown:
        yield "distribution", partial(distribution, shown[1:], "RTL on verilator")


def has_host_parameters(measurements: Rows) -> bool:
    """True for measurements of workloads with chosen host parameters."""
    return any(f.get("depth") for f in measurements)


def _captions(summary: Row) -> dict[str, tuple[str, str]]:
    """Heading and caption of each picture, by its name."""
    posted = ("depth: outstanding messages per queue; batch: WQEs per doorbell"
              if has_host_parameters(summary["measurements"]) else "all messages posted at once")
    return {
        "queues": ("Send queue in LLQ memory or in host memory",
                   "The same device fetches its send WQEs by DMA. A single message waits for one "
                   "more host read. With enough outstanding messages, or with WQEs that reach LLQ "
                   "memory in pieces, the rates are equal."),
        "latency": ("Latency of one message",
                    "One message at a time on an idle device, median: doorbell store to receive "
                    "completion (UD) or to send completion (SRD). Up to 32 bytes are inline in the "
                    "WQE, more are read from the host."),
        "loaded": ("Latency under load",
                   f"All queues of one device send to each other ({posted}); validated doorbell "
                   "to completion. The distance to the dashed line is the device and its queues."),
        "rates": ("Message rate",
                  f"All queues of one device send to each other ({posted}); first transmitted "
                  "flit to last completion. Dashed: limit of the busiest port."),
        "alone": ("One 64-byte SRD message",
                  f"{_alone(summary)} cycles from the doorbell to the send completion on an idle "
                  "device, exactly the sum of the stages."),
        "waterfall": ("64-byte SRD messages under load",
                      "Two messages of one run. Solid: service, as on an idle device; hatched: "
                      "waits, the longest with its name. Every message of the run is attributed to "
                      "the cycle; efa-cosim waterfall shows more."),
        "distribution": ("Distribution of the latency",
                         "Share of the messages under load that need at most so many cycles; dots: "
                         "median and 99th percentile."),
    }  # fmt: skip


def _alone(summary: Row) -> int:
    """Latency in cycles of the single message on an idle device."""
    shown = summary.get("waterfall")
    return shown[0]["of"][0]["latency"] if shown else 0


def _sessions(sessions: Rows) -> Section:
    columns = ("name", "backend", "verdict", "stores", "dma_writes", "packets", "interrupts")
    rows = [[str(session.get(name, "")) for name in columns] for session in sessions]
    return Section(
        "Recorded sessions",
        ["Model and RTL play the same recorded stores. The output of each is compared with the "
         "recording, and both outputs with each other.",
         "Compared one by one: register responses; ring entries with slot and phase (completions "
         "in order for each queue pair and direction, SRD sends in any order); packets in order "
         "for each opcode, sender and receiver, without psn, msg_id and path, which a device "
         "chooses; the number of interrupts of each vector. Payload is compared byte by byte: "
         "every byte of host memory is written equally often, with the same values in the same "
         "order. At the end, every page that host or device wrote is equal, except rings.",
         "DMA writes are counted, but not compared one by one, so their numbers differ: the RTL "
         "ends a write at each block of the maximum payload size and writes neighbouring "
         "completions together, while the model makes one write for each contiguous piece of a "
         "buffer and for each ring entry."],
        columns=[name.replace("_", " ") for name in columns], rows=rows)  # fmt: skip


def _table(measurements: Rows) -> Section:
    known = ("metric", "statistic", "backend", "sq_host", "kind", "size", "queues", "depth",
             "batch", "store_buffer", "host_read_latency", "loss", "seed", "value", "unit",
             "limit", "messages")  # fmt: skip
    # Parameters without a value in any row have no column.
    columns = [name for name in known if any(row.get(name) for row in measurements)]
    rows = [[*(row.get(name) for name in columns),
             physical(row["value"], row["unit"], row.get("size", 0))] for row in measurements]
    names = [*(name.replace("_", " ") for name in columns), "at the nominal clock"]
    return table("All measurements", names, rows, TABLE)


def read_summary(folder: str | Path) -> dict[str, Any]:
    """summary.json of a report folder; raises ReportError if missing or invalid."""
    path = Path(folder) / SUMMARY
    try:
        summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}; `efa-cosim run` writes one") from error
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path}: no JSON: {error}; `efa-cosim run` writes one") from error
    wrong = _fault(summary, {"verdict": str, "sessions": list, "measurements": list})
    shapes: dict[str, dict[str, Any]] = {
        "sessions": {"name": str}, "measurements": MEASUREMENT, "waterfall": SHOWN,
    }  # fmt: skip
    for name, shape in shapes.items():
        rows = summary.get(name, []) if wrong is None else []
        if not isinstance(rows, list):
            wrong = f"{name} is no list"
            continue
        faults = ((number, _fault(row, shape)) for number, row in enumerate(rows))
        wrong = wrong or next((f"{name} {number}: {fault}" for number, fault in faults if fault),
                              None)
    wrong = wrong or _fault_inside(summary.get("waterfall", ()))
    if wrong:
        raise ReportError(f"{path}: not the summary of a run: {wrong}; `efa-cosim run` writes one")
    return summary


NUMBER = (int, float)
MEASUREMENT = {"metric": str, "statistic": str, "kind": str, "unit": str, "value": NUMBER,
               "size": int, "queues": int, "messages": int,
               "limit": (*NUMBER, type(None))}  # fmt: skip
SHOWN = {"name": str, "setting": str, "messages": int, "of": list, "distribution": dict,
         "sample": dict}  # fmt: skip
MESSAGE = {"message": int, "latency": int, "stages": list}
STAGE = {"stage": str, "place": str, "service": int, "wait": int, "waits": dict}


def _fault_inside(shown: Rows) -> str | None:
    """Why the messages of a waterfall cannot be drawn, None if they can."""
    for number, one in enumerate(shown):
        if not one["of"]:
            return f"waterfall {number}: no message"
        for message in one["of"]:
            faults = [_fault(message, MESSAGE)]
            if faults[0] is None:
                faults += [_fault(stage, STAGE) for stage in message["stages"]]
            for fault in faults:
                if fault:
                    return f"waterfall {number}: {fault}"
    return None


def _fault(row: Any, shape: Mapping[str, Any]) -> str | None:
    """Why a row does not have the expected fields, None if it has."""
    if not isinstance(row, dict):
        return "no object"
    for name, kind in shape.items():
        value = row.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            return f"{name} is missing or wrong"
        if isinstance(value, NUMBER) and not (math.isfinite(value) and value >= 0):
            return f"{name} is {value}"
    return None
