"""LLQ against a send queue in host memory: what the read of the entry costs, and where it does not.

One kind of queue pair, as measured on one backend; points of the RTL as rings where both were.
"""

import statistics

from efa.grid import CYCLE
from efa.plots import GREY, INK, axes_of, log_axis, svg

# From a read's handshake to that of its answer's first beat: the host's latency and its own cycle.
BUS = 1
MOST_K = 8
HOST = "#d97706"
LLQ = ("#059669", "#65a30d", "#0d9488", "#84cc16", "#14b8a6")


def both(figures):
    """True where both builds were measured."""
    return {f.get("sq_host") for f in figures} >= {0, 1}


def savings(figures):
    """(host read latency, size, backend): by how many cycles LLQ is faster, one message alone."""
    alone = [f for f in figures if f["name"] == "latency" and f["kind"] == _kind(figures)]
    host, llq = _by(alone, 1), _by(alone, 0)
    return {place: host[place] - llq[place] for place in sorted(host.keys() & llq.keys())}


def _kind(figures):
    return "SRD" if any(f["kind"] == "SRD" for f in figures) else "UD"


def _by(figures, sq_host):
    found = {}
    for f in figures:
        if f["sq_host"] == sq_host:
            place = f["host_read_latency"], f["size"], f["backend"]
            found.setdefault(place, []).append(f["value"])
    return {place: statistics.median(values) for place, values in found.items()}


def queues(figures):
    """Four panels: latency against size, the saving against the host's read latency, rate against
    open messages and against entries a doorbell."""
    figure, axes = axes_of(11.0, 7.4, 2, 2)
    kind = _kind(figures)
    mine = [f for f in figures if f["kind"] == kind]
    _latencies(axes[0], mine)
    told = _saving(axes[1], mine)
    rates = [f for f in mine if f["name"] == "message rate"]
    sizes = sorted({f["size"] for f in rates})
    size = sizes[len(sizes) // 2 - 1] if len(sizes) > 1 else sizes[0]
    rates = [f for f in rates if f["size"] == size]
    wait = min(f["host_read_latency"] for f in rates)
    rates = [f for f in rates if f["host_read_latency"] == wait]
    _rates(axes[2], rates, "open")
    _rates(axes[3], rates, "batch")
    messages = sum(f["messages"] for f in mine if not f["name"].startswith("loaded"))
    figure.suptitle(f"Send queue in LLQ memory or in host memory, {kind}: {told}; "
                    f"{messages:,} messages", fontsize=11, color=INK)
    figure.tight_layout()
    handles, labels = axes[2].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4,
                  fontsize=8, frameon=False)
    return svg(figure)


def _latencies(axis, figures):
    alone = [f for f in figures if f["name"] == "latency"]
    waits = sorted({f["host_read_latency"] for f in alone})
    sizes = sorted({f["size"] for f in alone})
    for wait, style in zip(dict.fromkeys((waits[0], waits[-1])), ("-", ":"), strict=False):
        for sq_host in (0, 1):
            colour = HOST if sq_host else LLQ[0]
            for backend in sorted({f["backend"] for f in alone}):
                found = _by([f for f in alone if f["host_read_latency"] == wait
                             and f["backend"] == backend], sq_host)
                _draw(axis, {s: found[wait, s, backend] for s in sizes
                             if (wait, s, backend) in found},
                      colour, style, backend, figures)
            limits = {f["size"]: f["limit"] for f in alone
                      if f["host_read_latency"] == wait and f["sq_host"] == sq_host}
            axis.plot(sorted(limits), [limits[s] for s in sorted(limits)], "--", linewidth=0.8,
                      alpha=0.6, color=colour)
    log_axis(axis, sizes, sizes, "message size, bytes")
    axis.set_ylim(bottom=0)
    axis.set_ylabel("latency, cycles, median")
    axis.set_title(f"one message alone, host read {waits[0]} cycles"
                   + (f" (dotted: {waits[-1]})" if len(waits) > 1 else "")
                   + "; dashed: host and fabric alone", fontsize=8, color=GREY)


def _saving(axis, figures):
    """The panel; what it shows, in words."""
    found = savings(figures)
    waits = sorted({wait for wait, _, _ in found})
    extra = {cycles - wait - BUS for (wait, _, _), cycles in found.items()}
    for backend in sorted({backend for _, _, backend in found}):
        means = {wait: statistics.median(c for (w, _, b), c in found.items()
                                         if (w, b) == (wait, backend)) for wait in waits}
        _draw(axis, means, INK, "-", backend, figures)
    axis.plot(waits, [wait + BUS for wait in waits], "--", color=GREY, linewidth=1.1,
              label="one host read")
    axis.fill_between(waits, [wait + BUS for wait in waits],
                      [wait + BUS + MOST_K for wait in waits], color=GREY, alpha=0.2,
                      label=f"at most {MOST_K} cycles more")
    axis.set_xlabel("host read latency, cycles")
    axis.set_ylabel("cycles that LLQ saves a message")
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8, loc="upper left")
    least, most = min(extra), max(extra)
    told = f"{least:.0f}" if least == most else f"{least:.0f} to {most:.0f}"
    axis.set_title(f"one host read and {told} cycles, {len(found)} points", fontsize=8, color=GREY)
    return f"LLQ saves one host read and {told} cycles"


def _rates(axis, figures, over):
    """Rates of host memory and of LLQ under each store buffer; where host memory draws level."""
    values = {name: sorted({f[name] for f in figures}) for name in ("queues", "depth", "batch")}
    at = {name: found[(len(found) - 1) // 2] for name, found in values.items()}
    if over == "open":
        chosen = [f for f in figures if f["queues"] == at["queues"]
                  and f["batch"] == min(values["batch"][0], f["depth"])]
        label = f"messages open, {at['queues']} queues"
        still = f"batch {values['batch'][0]}"
    else:
        chosen = [f for f in figures if f["queues"] == values["queues"][-1]
                  and f["depth"] == values["depth"][-1]]
        label = "send entries a doorbell"
        still = f"{values['queues'][-1] * values['depth'][-1]} messages open"
    host = _line(chosen, over, 1, None)
    policies = sorted({f["store_buffer"] for f in chosen if not f["sq_host"]})
    policies.sort(key=lambda name: name != "ideal")
    level = []
    for colour, policy in zip(LLQ, policies, strict=False):
        for backend in sorted({f["backend"] for f in chosen}):
            line = _line(chosen, over, 0, policy, backend)
            _draw(axis, line, colour, "-", backend, figures, f"LLQ, store buffer {policy}")
        line = _line(chosen, over, 0, policy)
        crossing = next((x for x in sorted(line) if x in host and host[x] >= 0.995 * line[x]), None)
        if crossing is not None:
            axis.plot([crossing], [host[crossing]], "D", color=colour, markersize=9,
                      markerfacecolor="none", markeredgewidth=1.5)
            level.append(f"{policy}: {crossing}")
    for backend in sorted({f["backend"] for f in chosen}):
        _draw(axis, _line(chosen, over, 1, None, backend), HOST, "-", backend, figures,
              "host memory")
    for sq_host in (0, 1):
        limits = {_place(f, over): f["limit"] for f in chosen if f["sq_host"] == sq_host}
        axis.plot(sorted(limits), [limits[x] for x in sorted(limits)], "--", linewidth=1.0,
                  color=HOST if sq_host else LLQ[0], alpha=0.7,
                  label=f"{'host memory' if sq_host else 'LLQ'}, what ports and open messages allow")
    where = sorted({_place(f, over) for f in chosen})
    log_axis(axis, where, where, label)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("messages per cycle")
    told = f"; host memory level (diamond) at {', '.join(level)}" if level else ""
    axis.set_title(f"{figures[0]['size']} bytes, read {figures[0]['host_read_latency']}, {still}"
                   f"{told}", fontsize=8, color=GREY)  # fmt: skip


def _place(figure, over):
    return figure["queues"] * figure["depth"] if over == "open" else figure["batch"]


def _line(figures, over, sq_host, policy, backend=None):
    """Place to rate, the median of what is there."""
    found = {}
    for f in figures:
        if (f["sq_host"] == sq_host and (policy is None or f["store_buffer"] == policy)
                and (backend is None or f["backend"] == backend)):
            found.setdefault(_place(f, over), []).append(f["value"])
    return {x: statistics.median(values) for x, values in sorted(found.items())}


def _draw(axis, points, colour, style, backend, figures, label=None):
    several = len({f["backend"] for f in figures}) > 1
    rings = several and backend != CYCLE
    if several and label:
        label += ", cycle model" if backend == CYCLE else f", RTL ({backend})"
    axis.plot(list(points), list(points.values()), style, color=colour, marker="o", label=label,
              linewidth=0 if rings else 1.5, markersize=6 if rings else 3,
              markerfacecolor="none" if rings else None)
