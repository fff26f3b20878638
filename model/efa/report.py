"""The report of a run: summary.json and a self-contained index.html beside it.

Both are written into a folder beside the target, which replaces it at the end: there is never
half a report. Pictures are SVG, drawn by matplotlib from the figures alone.
"""

import csv
import html
import io
import json
import os
import shutil
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402 - the backend is chosen before

SUMMARY, PAGE, TABLE = "summary.json", "index.html", "figures.csv"
COLOURS = {"UD": "#2563eb", "SRD": "#059669", "limit": "#9ca3af"}
STAGE_COLOURS = ("#2563eb", "#059669", "#d97706", "#dc2626", "#7c3aed", "#0891b2", "#4b5563")
CLOCK_MHZ = 250
STYLE = """
:root{color-scheme:light dark;--ink:#0f172a;--dim:#475569;--paper:#ffffff;--line:#cbd5e1}
@media (prefers-color-scheme:dark){
:root{--ink:#e2e8f0;--dim:#94a3b8;--paper:#0f172a;--line:#334155}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:0}h2{font-size:1.15rem;margin-top:2rem}
p.verdict{font-size:1.1rem;font-weight:600}.passed{color:#059669}.failed{color:#dc2626}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.25rem .6rem;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}th{color:var(--dim);font-weight:600}
figure{margin:1rem 0;background:#fff;border:1px solid var(--line);border-radius:8px;padding:.5rem}
figcaption{color:#475569;font-size:.85rem;padding:0 .5rem .3rem}svg{width:100%;height:auto}
code{font-size:.9em}.dim{color:var(--dim)}
"""


class ReportError(Exception):
    """The report cannot be written or read; the text names the path and the reason."""


def write_report(folder, summary):
    """Writes summary, figures as a table and page into a folder that is replaced as a whole."""
    folder = Path(folder)
    check_target(folder)
    page = render(summary)
    text = json.dumps(summary, indent=2) + "\n"
    part = None
    try:
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        part.chmod(0o755)
        (part / SUMMARY).write_text(text, encoding="utf-8")
        (part / TABLE).write_text(_csv(summary["figures"]), encoding="utf-8")
        (part / PAGE).write_text(page, encoding="utf-8")
        _replace(part, folder)
    except OSError as error:
        raise ReportError(f"{folder}: report not written: {error.strerror or error}") from error
    finally:
        if part is not None and part.exists():
            shutil.rmtree(part, ignore_errors=True)
    return folder / PAGE


def check_target(folder):
    """Refuses a folder that no report can replace: asked before minutes of work, and again after.

    Replacing takes all that is inside, so the folder may hold nothing but a report."""
    folder = Path(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        held = {path.name for path in folder.iterdir()} if folder.exists() else set()
        if not os.access(folder.parent, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise ReportError(f"{folder}: report not written: {error.strerror or error}") from error
    strange = sorted(held - {SUMMARY, PAGE, TABLE})
    if strange:
        raise ReportError(f"{folder}: report not written: the folder holds {strange[0]}, "
                          "which is no part of a report; name another folder")


def _csv(figures):
    stream = io.StringIO()
    if figures:
        table = csv.DictWriter(stream, fieldnames=figures[0], lineterminator="\n")
        table.writeheader()
        table.writerows(figures)
    return stream.getvalue()


def _replace(part, folder):
    """The new folder under the old name; the old one goes last."""
    if not folder.exists():
        os.rename(part, folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    kept = old / "old"
    try:
        os.rename(folder, kept)
        os.rename(part, folder)
    finally:
        # Whatever came between the two, one report stands under the name.
        if kept.exists() and not folder.exists():
            os.rename(kept, folder)
        shutil.rmtree(old, ignore_errors=True)


def read_summary(folder):
    """summary.json of a report folder."""
    path = Path(folder) / SUMMARY
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}; `efa-cosim run` writes one") from error
    except ValueError as error:
        raise ReportError(f"{path}: no JSON: {error}") from error
    if not isinstance(summary, dict) or "figures" not in summary:
        raise ReportError(f"{path}: not the summary of a run")
    return summary


def render(summary):
    """The page as text."""
    verdict = summary["verdict"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>efa-cosim run</title>",
        f"<style>{STYLE}</style><h1>RTL against reference model</h1>",
        f"<p class='verdict {html.escape(verdict)}'>{html.escape(verdict)}: "
        f"{html.escape(summary.get('text', ''))}</p>",
        _differences(summary.get("differences", ())),
        "<h2>Recorded sessions</h2>", _sessions(summary["sessions"]),
    ]  # fmt: skip
    figures = summary["figures"]
    latency = [f for f in figures if f["name"] == "latency"]
    rates = [f for f in figures if f["name"] == "message rate"]
    if latency:
        parts += ["<h2>Latency against size</h2>", _figure(
            _latency_plot(latency),
            "One message at a time on an idle device, median of "
            f"{latency[0]['messages']}: doorbell store to receive completion (UD) or to send "
            "completion (SRD). Up to 32 bytes travel in the entry, more are read from the host.")]
    if rates:
        parts += ["<h2>Message rate</h2>", _figure(
            _rate_plots(rates),
            "All queues of one device send to each other, everything posted at once. "
            "Dashed: what the busiest port allows.")]
    if summary.get("waterfall"):
        parts += ["<h2>One 64-byte SRD message</h2>", _figure(
            _waterfall_plot(summary["waterfall"]),
            f"{sum(s['cycles'] for s in summary['waterfall'])} cycles from the doorbell to the "
            "send completion; the stages sum exactly to it.")]
    parts += ["<h2>All figures</h2>", _table(figures), _colophon(summary)]
    return "\n".join(parts) + "\n"


def _differences(texts):
    return "".join(f"<p class=failed>{html.escape(text)}</p>" for text in texts[1:])


def _sessions(sessions):
    columns = ("name", "backend", "verdict", "stores", "dma_writes", "packets", "interrupts")
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(s.get(c, '')))}</td>" for c in columns) + "</tr>"
        for s in sessions
    )
    head = "".join(f"<th>{c.replace('_', ' ')}</th>" for c in columns)
    return f"<table><tr>{head}</tr>{rows}</table>"


def _table(figures):
    columns = ("name", "kind", "size", "queues", "value", "unit", "limit", "messages")
    rows = []
    for figure in figures:
        cells = []
        for name in columns:
            value = figure.get(name)
            shown = "" if value is None else f"{value:.4g}" if isinstance(value, float) else value
            cells.append(f"<td>{html.escape(str(shown))}</td>")
        rows.append("<tr>" + "".join(cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in columns)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _colophon(summary):
    facts = ", ".join(f"{name} {value}" for name, value in summary.get("made_with", {}).items())
    return (f"<p class=dim>Made by <code>{html.escape(summary.get('command', ''))}</code>, "
            f"seed {summary.get('seed')}, {html.escape(facts)}. Cycles at {CLOCK_MHZ} MHz nominal; "
            "the numbers are in summary.json.</p>")


def _figure(svg, caption):
    return f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _svg(figure):
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    return stream.getvalue().split("?>", 1)[1].split("dtd\">", 1)[-1]


def _axes(width=8.0, height=3.6, columns=1):
    matplotlib.rcParams.update({
        "svg.hashsalt": "efa", "font.size": 10, "axes.spines.top": False,
        "axes.spines.right": False, "axes.grid": True, "grid.color": "#e5e7eb",
        "axes.edgecolor": "#6b7280", "svg.fonttype": "none"})
    return plt.subplots(1, columns, figsize=(width, height), squeeze=False)


def _latency_plot(figures):
    figure, axes = _axes()
    axis = axes[0][0]
    for kind in sorted({f["kind"] for f in figures}):
        points = sorted((f["size"], f["value"]) for f in figures if f["kind"] == kind)
        axis.plot([max(size, 4) for size, _ in points], [value for _, value in points],
                  marker="o", color=COLOURS[kind], label=kind)
    axis.set_xscale("log", base=2)
    sizes = sorted({f["size"] for f in figures})
    axis.set_xticks([max(size, 4) for size in sizes], [str(size) for size in sizes])
    axis.set_ylim(bottom=0)
    axis.set_xlabel("message size, bytes")
    axis.set_ylabel("latency, cycles")
    axis.legend(frameon=False)
    return _svg(figure)


def _rate_plots(figures):
    figure, axes = _axes(9.0, 3.6, 2)
    most = max(f["queues"] for f in figures)
    at_32 = sorted((f["queues"], f["value"], f["limit"]) for f in figures if f["size"] == 32)
    by_size = sorted((f["size"], f["value"], f["limit"]) for f in figures if f["queues"] == most)
    for axis, points, label in ((axes[0][0], by_size, f"message size, bytes ({most} queues)"),
                                (axes[0][1], at_32, "queues (32 bytes)")):
        where = [point[0] for point in points]
        axis.plot(where, [p[1] for p in points], marker="o", color=COLOURS["SRD"], label="SRD")
        axis.plot(where, [p[2] for p in points], "--", color=COLOURS["limit"], label="limit")
        axis.set_xscale("log", base=2)
        axis.set_xticks(where, [str(one) for one in where])
        axis.set_ylim(bottom=0)
        axis.set_xlabel(label)
    axes[0][0].set_ylabel("messages per cycle")
    axes[0][0].legend(frameon=False)
    figure.tight_layout()
    return _svg(figure)


def _waterfall_plot(stages):
    figure, axes = _axes(8.0, 0.32 * len(stages) + 0.9)
    axis = axes[0][0]
    for row, stage in enumerate(stages):
        colour = STAGE_COLOURS[row % len(STAGE_COLOURS)]
        axis.barh(row, stage["cycles"], left=stage["start"], color=colour, height=0.6)
        axis.text(stage["start"] + stage["cycles"] + 2, row, f"{stage['cycles']}",
                  va="center", fontsize=9, color="#374151")
    axis.set_yticks(range(len(stages)), [stage["name"] for stage in stages])
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("cycles since the doorbell")
    return _svg(figure)
