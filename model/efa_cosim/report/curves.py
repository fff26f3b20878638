# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of a sweep with host parameters: a panel for each varied parameter.

All other parameters of a panel are fixed, as its title says. Lines: type of queue pair and
location of its send queue. The RTL is drawn as rings on the line of the cycle model if both were
measured. Dashed: the theoretical limit. Module crossover compares LLQ and host memory.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

from efa_cosim.host.wc import POLICIES
from efa_cosim.report.crossover import batches
from efa_cosim.report.document import Row, Rows
from efa_cosim.report.plots import ENDS, GREY, axes_of, headed, legend, log_axis, svg
from efa_cosim.sweep.grid import CYCLE

COLOURS = {("SRD", 0): "#059669", ("UD", 0): "#2563eb", ("SRD", 1): "#d97706", ("UD", 1): "#9333ea"}
WORDS = {"size": "message size, bytes", "queues": "queues", "depth": "outstanding messages per "
         "queue", "batch": "WQEs per doorbell", "host_read_latency": "host read latency, cycles",
         "store_buffer": "store buffer of the CPU",
         "loss": "loss of packets and acknowledgements"}  # fmt: skip
UNITS = {"size": "{} bytes", "queues": "queues: {}", "depth": "depth {}", "batch": "batch {}",
         "host_read_latency": "read {}", "store_buffer": "{}", "loss": "loss {:g}"}  # fmt: skip
# Parameters whose values stand side by side, without a scale.
SIDE_BY_SIDE = ("store_buffer", "loss")
MOST_COLUMNS, PANEL = 3, (4.0, 3.3)
ZERO_AT = 4
USUAL_SIZE = 64


def rates(measurements: Rows) -> str:
    """Draws closed-loop message rates against each varied parameter."""
    return _picture(measurements, "Message rate in a closed loop", "messages per cycle",
                    "limit of ports and outstanding messages")  # fmt: skip


def latency(measurements: Rows) -> str:
    """Draws the latency of one message at a time."""
    return _picture(measurements, "Latency of one message on an idle device",
                    "latency, cycles, median", "host and fabric only", apart=True)  # fmt: skip


def loaded(measurements: Rows) -> str:
    """Draws closed-loop latencies; thin lines: the 99th percentile."""
    return _picture(measurements, "Latency in a closed loop",
                    "latency, cycles, median (thin: 99 %)", "host and fabric only",
                    thin="p99", apart=True)  # fmt: skip


def varied(measurements: Rows) -> list[str]:
    """Names of the parameters with more than one value."""
    return [name for name in WORDS if len({f[name] for f in measurements}) > 1] or ["size"]


def usual(measurements: Rows) -> dict[str, Any]:
    """The fixed value of each parameter in the panels of other parameters."""
    values = {name: sorted({f[name] for f in measurements}) for name in WORDS}
    # A sweep without a file measures all sizes with one number of queues only, and vice versa.
    values["size"] = _most_often(measurements, "size", "queues")
    values["queues"] = _most_often(measurements, "queues", "size")
    # The middle, where the rate depends on the outstanding messages and on the ports.
    values["batch"] = batches(measurements)
    found = {name: values[name][(len(values[name]) - 1) // 2]
             for name in ("queues", "depth", "batch")}
    found["size"] = min(values["size"], key=lambda size: abs(size - USUAL_SIZE))
    found["host_read_latency"] = values["host_read_latency"][0]
    found["store_buffer"] = min(values["store_buffer"], key=_policy)
    found["loss"] = values["loss"][0]
    return found


def _most_often(measurements: Rows, name: str, other: str) -> list[Any]:
    """The values of a parameter that were measured with most values of another one, sorted."""
    beside: dict[Any, set[Any]] = {}
    for f in measurements:
        beside.setdefault(f[name], set()).add(f[other])
    most = max(map(len, beside.values()))
    return sorted(value for value, others in beside.items() if len(others) == most)


def _policy(name: str) -> int:
    return list(POLICIES).index(name) if name in POLICIES else len(POLICIES)


def _picture(
    measurements: Rows,
    title: str,
    unit: str,
    limit: str,
    thin: str | None = None,
    apart: bool = False,
) -> str:
    """Draws a panel per varied parameter; `apart`: for each type of queue pair, whose messages end
    with different completions."""
    main = [f for f in measurements if f["statistic"] != thin]
    axes, at = varied(main), usual(main)
    rows = -(-len(axes) // MOST_COLUMNS)
    columns = -(-len(axes) // rows)
    kinds = sorted({f["kind"] for f in measurements})
    groups = [[kind] for kind in kinds] if apart else [kinds]
    figure, panels = axes_of(PANEL[0] * max(columns, 2), PANEL[1] * rows * len(groups) + 0.5,
                             columns, rows * len(groups))
    panels = panels.reshape(len(groups), -1)
    for group, mine in zip(groups, panels, strict=True):
        found = [f for f in measurements if f["kind"] in group]
        above = f"{group[0]}: doorbell to {ENDS[group[0]]} completion\n" if apart else ""
        for panel, over in zip(mine, axes, strict=False):
            still = {name: value for name, value in at.items() if name != over}
            drawn = [f for f in found if all(_stands(f, name, still[name]) for name in still)]
            text = [UNITS[name].format(still[name]) for name in axes if name != over]
            panel.set_title(above + ", ".join(text), fontsize=8, color=GREY)
            _panel(panel, drawn, over, limit, thin)
            panel.set_ylabel(unit)
            if thin:
                _log_cycles(panel)
            else:
                panel.set_ylim(bottom=0)
        for panel in mine[len(axes):]:
            panel.set_visible(False)
    for column in panels.T:
        _share_y(column)
    messages = sum(f["messages"] for f in main)
    # Depth 0 and batch 0 bound nothing; without host parameters there is no store buffer.
    same = [UNITS[name].format(value) for name, value in at.items() if name not in axes and value]
    headed(figure, f"{title}: {messages:,} messages"
                   + (f", all with {', '.join(same)}" if same else ""))  # fmt: skip
    legend(figure, *panels[:, 0])
    return svg(figure)


def _share_y(panels: Iterable[Axes]) -> None:
    """Gives panels that are compared the same range of values."""
    limits = [panel.get_ylim() for panel in panels]
    for panel in panels:
        panel.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def _panel(panel: Axes, measurements: Rows, over: str, limit: str, thin: str | None) -> None:
    order = _policy if over == "store_buffer" else None
    values = sorted({f[over] for f in measurements}, key=order)
    apart = over in SIDE_BY_SIDE
    place = {value: n if apart else max(value, ZERO_AT if over == "size" else 0)
             for n, value in enumerate(values)}
    backends = sorted({f["backend"] for f in measurements}, key=lambda name: name == CYCLE)
    several = {f["sq_host"] for f in measurements} == {0, 1}
    for kind, sq_host in sorted({(f["kind"], f["sq_host"]) for f in measurements}):
        colour = COLOURS[kind, sq_host]
        limits: list[Row] = []
        name = f"{kind}, {'host memory' if sq_host else 'LLQ'}" if several else kind
        for backend in backends:
            mine = [f for f in measurements
                    if (f["kind"], f["sq_host"], f["backend"]) == (kind, sq_host, backend)]
            if over == "store_buffer" and sq_host:
                # Send WQEs in host memory pass no store buffer: the result is the same for each.
                mine = [{**f, over: policy} for f in mine for policy in values]
            main = _median([f for f in mine if f["statistic"] != thin], over, "value")
            rings = len(backends) > 1 and backend != CYCLE
            panel.plot([place[x] for x in main], list(main.values()), color=colour, marker="o",
                       label=name if len(backends) == 1 else f"{name}, {_device(backend)}",
                       linewidth=0 if rings else 1.5, markersize=6 if rings else 3,
                       markerfacecolor="none" if rings else None)
            tail = _median([f for f in mine if f["statistic"] == thin], over, "value")
            if tail and not rings:
                panel.plot([place[x] for x in tail], list(tail.values()), linewidth=0.7,
                           color=colour)
            limited = [f for f in mine if f["statistic"] != thin and f["limit"] is not None]
            limits = limits or limited
        best = _median(limits, over, "limit")
        if not best:
            continue
        panel.plot([place[x] for x in best], list(best.values()), "--", linewidth=1.1, alpha=0.7,
                   zorder=3, color=colour, label=f"{name}, {limit}")
    if apart:
        names = [UNITS[over].format(value).removeprefix(f"{over} ") for value in values]
        panel.set_xticks(range(len(values)), names, rotation=20, fontsize=8)
        panel.set_xlabel(WORDS[over])
    else:
        log_axis(panel, [place[value] for value in values], values, WORDS[over])


def _log_cycles(panel: Axes) -> None:
    """Plain numbers on a logarithmic axis, with space below the lowest line."""
    panel.set_yscale("log")
    panel.set_ylim(bottom=0.7 * panel.dataLim.ymin)
    panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter(ScalarFormatter())
    panel.yaxis.set_minor_locator(NullLocator())


def _stands(measurement: Row, name: str, value: Any) -> bool:
    """True if a measurement has this value; a batch is limited to the depth."""
    wanted = min(value, measurement["depth"]) if name == "batch" else value
    return bool(measurement[name] == wanted)


def _device(backend: str) -> str:
    return "cycle model" if backend == CYCLE else f"RTL ({backend})"


def _median(measurements: Rows, over: str, what: str) -> dict[Any, float]:
    """Place to the median over the seeds."""
    return {x: statistics.median(f[what] for f in measurements if f[over] == x)
            for x in sorted({f[over] for f in measurements}, key=_order)}


def _order(value: str | float) -> tuple[int, float]:
    return (_policy(value), 0) if isinstance(value, str) else (0, value)
