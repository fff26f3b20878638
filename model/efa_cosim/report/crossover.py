# SPDX-License-Identifier: Apache-2.0
"""Draws LLQ against a send queue in host memory: cost of the WQE fetch, and where rates are equal.

One type of queue pair on one backend; if both backends were measured, points of the RTL are rings.
"""

from __future__ import annotations

import statistics
from typing import NamedTuple

from matplotlib.axes import Axes

from efa_cosim.report.document import Row, Rows
from efa_cosim.report.plots import GREY, INK, axes_of, headed, legend, log_axis, svg
from efa_cosim.sweep.grid import CYCLE

# From the handshake of a read to the first beat of its completion: host latency and one cycle.
BUS = 1
MOST_K = 8
HOST = "#d97706"
LEVEL = 0.995
WORDS = {"open": "outstanding messages of all queues", "batch": "WQEs per doorbell",
         "host_read_latency": "host read latency, cycles", "size": "message size, bytes"}
STILL = {"size": "{} bytes", "queues": "queues: {}", "depth": "depth {}", "batch": "batch {}",
         "host_read_latency": "read {}"}  # fmt: skip
LLQ = ("#059669", "#65a30d", "#0d9488", "#84cc16", "#14b8a6")


class _Point(NamedTuple):
    """Where single messages were measured."""

    wait: int
    size: int
    backend: str


def both(measurements: Rows) -> bool:
    """True if both builds were measured, with one type of queue pair."""
    return {f.get("sq_host") for f in _compared(measurements)} >= {0, 1}


def savings(measurements: Rows) -> dict[_Point, float]:
    """Cycles that LLQ saves for a single message, by (host read latency, size, backend)."""
    alone = [f for f in _compared(measurements) if f["metric"] == "latency"]
    host, llq = _by(alone, 1), _by(alone, 0)
    return {place: host[place] - llq[place] for place in sorted(host.keys() & llq.keys())}


def _compared(measurements: Rows) -> Rows:
    """The measurements of one type of queue pair with the least loss."""
    kind = "SRD" if any(f["kind"] == "SRD" for f in measurements) else "UD"
    mine = [f for f in measurements if f["kind"] == kind]
    least = min((f.get("loss", 0.0) for f in mine), default=0.0)
    return [f for f in mine if f.get("loss", 0.0) == least]


def _by(measurements: Rows, sq_host: int) -> dict[_Point, float]:
    found: dict[_Point, list[float]] = {}
    for f in measurements:
        if f["sq_host"] == sq_host:
            place = _Point(f["host_read_latency"], f["size"], f["backend"])
            found.setdefault(place, []).append(f["value"])
    return {place: statistics.median(values) for place, values in found.items()}


def queues(measurements: Rows) -> str:
    """Draws up to six panels: latency against size and saving beyond one host read, if single
    messages were measured; rates against outstanding messages, WQEs per doorbell, host read latency
    and size, if rates were."""
    mine = _compared(measurements)
    kind = mine[0]["kind"]
    rates = [f for f in mine if f["metric"] == "message rate"]
    alone, loaded = bool(savings(mine)), both(rates)
    rows = 2 if loaded else 1
    figure, axes = axes_of(13.0, 3.7 * rows, 3 if alone and loaded else 2, rows)
    panels: list[Axes] = list(axes)
    text = "rates"
    if alone:
        _latencies(panels.pop(0), mine)
        text = _beyond(panels.pop(0), mine)
    if loaded:
        for axis, over in zip(panels, ("open", "batch", "host_read_latency", "size"), strict=True):
            _rates(axis, rates, over)
    messages = sum(f["messages"] for f in mine if f["metric"] != "loaded latency")
    headed(figure, f"Send queue in LLQ memory or in host memory, {kind}: {text}; "
                   f"{messages:,} messages on {_backends(mine)}")  # fmt: skip
    legend(figure, *figure.axes)
    return svg(figure)


def _backends(measurements: Rows) -> str:
    return " and ".join("the cycle model" if name == CYCLE else f"the RTL ({name})"
                        for name in sorted({f["backend"] for f in measurements}, reverse=True))


def _latencies(axis: Axes, measurements: Rows) -> None:
    alone = [f for f in measurements if f["metric"] == "latency"]
    waits = sorted({f["host_read_latency"] for f in alone})
    sizes = sorted({f["size"] for f in alone})
    for wait, style in zip(dict.fromkeys((waits[0], waits[-1])), ("-", ":"), strict=False):
        for sq_host in (0, 1):
            colour = HOST if sq_host else LLQ[0]
            for backend in sorted({f["backend"] for f in alone}):
                found = _by([f for f in alone if f["host_read_latency"] == wait
                             and f["backend"] == backend], sq_host)
                _draw(axis, {s: found[_Point(wait, s, backend)] for s in sizes
                             if (wait, s, backend) in found},
                      colour, style, backend, measurements,
                      ("host memory" if sq_host else "LLQ") if wait == waits[0] else None)
            limits = {f["size"]: f["limit"] for f in alone
                      if f["host_read_latency"] == wait and f["sq_host"] == sq_host}
            axis.plot(sorted(limits), [limits[s] for s in sorted(limits)], "--", linewidth=1.0,
                      alpha=0.7, color=colour, zorder=3,
                      label=(f"{'host memory' if sq_host else 'LLQ'}, host and fabric only"
                             if wait == waits[0] else None))
    log_axis(axis, sizes, sizes, "message size, bytes")
    axis.set_ylim(bottom=0)
    axis.set_ylabel("latency, cycles, median")
    axis.set_title(f"single message, host read {waits[0]} cycles"
                   + (f" (dotted: {waits[-1]})" if len(waits) > 1 else "")
                   + "\ndashed: host and fabric only", fontsize=8, color=GREY)


def _beyond(axis: Axes, measurements: Rows) -> str:
    """Draws the panel; returns its result in words."""
    beyond = {place: cycles - place.wait - BUS for place, cycles in savings(measurements).items()}
    waits = sorted({wait for wait, _, _ in beyond})
    for backend in sorted({backend for _, _, backend in beyond}):
        for size in sorted({size for _, size, _ in beyond}):
            _draw(axis, {wait: cycles for (wait, of, by), cycles in beyond.items()
                         if (of, by) == (size, backend)}, INK, "-", backend, measurements)
    axis.plot(waits, [MOST_K] * len(waits), "--", color=GREY, linewidth=1.1)
    axis.annotate(f"at most {MOST_K}", (waits[0], MOST_K), (0, 4), textcoords="offset points",
                  fontsize=8, color=GREY)
    log_axis(axis, waits, waits, "host read latency, cycles")
    axis.set_ylabel("saving beyond one host read, cycles")
    axis.set_ylim(0, 1.4 * MOST_K)
    least, most = min(beyond.values()), max(beyond.values())
    text = f"{least:.0f}" if least == most else f"{least:.0f} to {most:.0f}"
    axis.set_title(f"single message, all sizes: {len(beyond)} points", fontsize=8, color=GREY)
    return f"LLQ saves one host read and {text} cycles per message"


def _rates(axis: Axes, measurements: Rows, over: str) -> None:
    """Draws rates of host memory and of LLQ per store buffer; marks where the rates are equal."""
    chosen, still = _standing(measurements, over)
    host = _line(chosen, over, 1)
    policies = sorted({f["store_buffer"] for f in chosen if not f["sq_host"]})
    policies.sort(key=lambda name: name != "ideal")
    backends = sorted({f["backend"] for f in chosen})
    level: list[str] = []
    for colour, policy in zip(LLQ, policies, strict=False):
        for backend in backends:
            _draw(axis, _line(chosen, over, 0, policy, backend), colour, "-", backend, measurements,
                  f"LLQ, store buffer {policy}")
        line = _line(chosen, over, 0, policy)
        crossing = next((x for x in line if x in host and host[x] >= LEVEL * line[x]), None)
        if over == "open" and crossing is not None:
            axis.plot([crossing], [host[crossing]], "D", color=colour, markersize=10,
                      markerfacecolor="none", markeredgewidth=1.5)
            level.append(f"{crossing} ({policy})")
    for backend in backends:
        _draw(axis, _line(chosen, over, 1, None, backend), HOST, "-", backend, measurements,
              "host memory")
    for sq_host in (0, 1):
        limits = {_place(f, over): f["limit"] for f in chosen if f["sq_host"] == sq_host}
        axis.plot(sorted(limits), [limits[x] for x in sorted(limits)], "--", linewidth=1.0,
                  color=HOST if sq_host else LLQ[0], alpha=0.7, zorder=3,
                  label=f"{'host memory' if sq_host else 'LLQ'}, limit of ports and outstanding "
                        "messages")
    where = sorted({_place(f, over) for f in chosen})
    log_axis(axis, where, where, WORDS[over])
    axis.set_ylim(0, 1.1 * max(f["limit"] for f in chosen))
    axis.set_ylabel("messages per cycle")
    text = f"\ndiamond: equal rates, {' and '.join(level)}" if level else ""
    axis.set_title(still + text, fontsize=8, color=GREY)


def _standing(measurements: Rows, over: str) -> tuple[Rows, str]:
    """The measurements of a panel and the text of its fixed values: the smallest batch, and a
    middle depth (the largest depth for the panel over batches).

    A batch is recorded as at most its depth, so only the largest depth shows all batches."""
    values = {name: sorted({f[name] for f in measurements}) for name in STILL}
    at = {name: found[(len(found) - 1) // 2] for name, found in values.items()}
    at["host_read_latency"], at["batch"] = values["host_read_latency"][0], batches(measurements)[0]
    if over == "open":
        del at["depth"]
    elif over in at:
        del at[over]
    if over == "batch":
        at["depth"] = values["depth"][-1]
    chosen = [f for f in measurements if all(
        f[name] == (min(value, f["depth"]) if name == "batch" else value)
        for name, value in at.items())]  # fmt: skip
    return chosen, ", ".join(STILL[name].format(value) for name, value in at.items())


def batches(measurements: Rows) -> list[int]:
    """The values of the batch, ascending: those recorded with the largest depth."""
    depth = max(f["depth"] for f in measurements)
    return sorted({f["batch"] for f in measurements if f["depth"] == depth})


def _place(measurement: Row, over: str) -> int:
    if over == "open":
        everywhere: int = measurement["queues"] * measurement["depth"]
        return everywhere
    place: int = measurement[over]
    return place


def _line(
    measurements: Rows,
    over: str,
    sq_host: int,
    policy: str | None = None,
    backend: str | None = None,
) -> dict[int, float]:
    """Place to rate, the median of the measurements there."""
    found: dict[int, list[float]] = {}
    for f in measurements:
        if (f["sq_host"] == sq_host and (policy is None or f["store_buffer"] == policy)
                and (backend is None or f["backend"] == backend)):
            found.setdefault(_place(f, over), []).append(f["value"])
    return {x: statistics.median(values) for x, values in sorted(found.items())}


def _draw(
    axis: Axes,
    points: dict[int, float],
    colour: str,
    style: str,
    backend: str,
    measurements: Rows,
    label: str | None = None,
) -> None:
    several = len({f["backend"] for f in measurements}) > 1
    rings = several and backend != CYCLE
    if several and label:
        label += ", cycle model" if backend == CYCLE else f", RTL ({backend})"
    axis.plot(list(points), list(points.values()), style, color=colour, marker="o", label=label,
              linewidth=0 if rings else 1.5, markersize=6 if rings else 3,
              markerfacecolor="none" if rings else None)
