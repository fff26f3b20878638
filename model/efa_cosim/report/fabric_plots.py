# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the transport on fabrics with faults as SVG text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402 - the backend is chosen before

from efa_cosim.measure.lossy import ENGINES, GOODPUT, RECOVERED, RELIABLE, Curve  # noqa: E402
from efa_cosim.measure.record import Measurement  # noqa: E402
from efa_cosim.report.plots import DEFAULTS, GREY, legend, svg  # noqa: E402

COLOURS = {RELIABLE: "#2563eb"}
OTHER = "#d97706"
SIZE = (7.5, 3.4)  # inches


def goodput(rows: Sequence[Measurement]) -> str:
    """Draws the goodput of each engine over the loss rate, and the targets."""
    with plt.rc_context(DEFAULTS):
        figure, axes = plt.subplots(figsize=SIZE)
        for engine in ENGINES:
            found = [row for row in rows if row.metric == "goodput" and row.subject == engine]
            labels = [f"{row.configuration['loss']:g}" for row in found]
            axes.plot(labels, [row.value for row in found], marker="o", label=engine,
                      color=COLOURS.get(engine, OTHER))  # fmt: skip
        targets = {f"{loss:g}": target for loss, target in GOODPUT.items()}
        axes.scatter(list(targets), list(targets.values()), marker="_", s=400, color=GREY,
                     label="target")
        axes.set_xlabel("loss of packets and of acknowledgements")
        axes.set_ylabel("share of (1 - loss) x line")
        axes.set_ylim(0, 1.1)
        legend(figure, axes)
    return svg(figure)


def times(curves: Sequence[Curve]) -> str:
    """Draws the distributions of the completion times, the slowest tenth."""
    with plt.rc_context(DEFAULTS):
        figure, axes = plt.subplots(figsize=SIZE)
        for curve in curves:
            axes.plot(curve.x, curve.y, label=curve.title, drawstyle="steps-post",
                      color=COLOURS.get(curve.title.partition(",")[0], OTHER),
                      linestyle="-" if curve.title.endswith("0.001") else ":")  # fmt: skip
        axes.set_xlabel("round trips from post to completion")
        axes.set_ylabel("share of the messages")
        axes.set_ylim(0.9, 1.002)
        legend(figure, axes)
    return svg(figure)


def failure(curves: Sequence[Curve]) -> str:
    """Draws the rate over time while a path is down."""
    with plt.rc_context(DEFAULTS):
        figure, axes = plt.subplots(figsize=SIZE)
        for curve in curves:
            axes.plot(curve.x, curve.y, label=curve.title, color=COLOURS.get(curve.title, OTHER))
        axes.axhline(RECOVERED, color=GREY, linewidth=0.8)
        axes.set_xlabel("round trips")
        axes.set_ylabel("share of the line")
        axes.set_ylim(0, 1.3)
        legend(figure, axes)
    return svg(figure)


def shares(found: Mapping[str, Sequence[float]]) -> str:
    """Draws the share of each sender of an incast."""
    with plt.rc_context(DEFAULTS):
        figure, axes = plt.subplots(figsize=SIZE)
        for place, (engine, values) in enumerate(found.items()):
            axes.bar([1 + at + 0.4 * place - 0.2 for at in range(len(values))], values, width=0.4,
                     label=engine, color=COLOURS.get(engine, OTHER))  # fmt: skip
        axes.axhline(1 / max(1, *(len(values) for values in found.values())), color=GREY,
                     linewidth=0.8)
        axes.set_xlabel("sender")
        axes.set_ylabel("share of the goodput")
        legend(figure, axes)
    return svg(figure)
