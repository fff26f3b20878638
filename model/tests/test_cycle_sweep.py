# SPDX-License-Identifier: Apache-2.0
"""Tests sweeps on the cycle model: the same measurements, files and errors as sweeps on the RTL."""

import json
from dataclasses import replace

import pytest

from efa_cosim.cli.main import main
from efa_cosim.cycle.workload import LOSS_SHARE, Workload
from efa_cosim.report import curves
from efa_cosim.sweep import cache
from efa_cosim.sweep.grid import Job
from efa_cosim.sweep.workloads import measure, simulated, workloads

pytestmark = pytest.mark.slow

GRID = """\
sizes: [32, 1024]
queues: [1, 64]
kinds: [SRD, UD]
depth: [1, 32]
batch: [4]
store_buffer: [ideal, pressure]
backend: cycle
"""


def of(name):
    """Returns a function that selects the measurements of a picture, one for each message."""
    return lambda rows: [r for r in rows if r["metric"] == name and r["statistic"] != "p99"]


SHOWN = {"latency": of("latency"), "loaded": of("loaded latency"), "rates": of("message rate")}


@pytest.fixture
def grid(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "FOLDER", tmp_path / "kept")
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


def test_a_sweep_of_the_cycle_model_has_a_measurement_for_each_point(grid, tmp_path):
    out = tmp_path / "out"
    assert main(["sweep", str(grid), "--jobs", "2", "--out", str(out)]) == 0
    measurements = json.loads((out / "summary.json").read_text())["measurements"]
    rates = [row for row in measurements if row["metric"] == "message rate"]
    assert len(rates) == 2 * 2 * 2 * 2 * 2 and len(measurements) == 3 * len(rates) + 16
    assert {row["batch"] for row in rates} == {1, 4}
    assert all(0 < row["value"] <= row["limit"] for row in rates)
    latencies = [row for row in measurements if row["unit"] == "cycles"]
    assert len(latencies) == 16 + 2 * len(rates)
    assert all(row["value"] >= row["limit"] > 0 for row in latencies)
    assert {row["backend"] for row in measurements} == {"cycle"}
    for name in ("latency", "loaded", "rates"):
        picture = (out / f"{name}.svg").read_text()
        assert f"{sum(r['messages'] for r in SHOWN[name](measurements)):,} messages" in picture
        assert "message size, bytes" in picture


def test_more_open_messages_are_never_slower():
    jobs = [Job("cycle", "SRD", 64, 125, 1, (4,), ("rate",), depth, 1, "ideal")
            for depth in (1, 16)]
    one, many = (measure(job)[0].value for job in jobs)
    assert many > one


def test_losses_slow_a_queue_down():
    jobs = [Job("cycle", "SRD", 64, 125, 1, (4,), ("latency", "rate"), 16, 4, "ideal", loss=loss)
            for loss in (0.0, 0.05)]
    plain, lossy = (measure(job) for job in jobs)
    assert [row.loss for row in lossy] == [0.05] * len(lossy)
    assert lossy[1].metric == "message rate" and lossy[1].value < 0.8 * plain[1].value
    assert lossy[3].statistic == "p99" and lossy[3].value > 2 * plain[3].value


def test_a_sweep_draws_a_panel_for_the_loss(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "FOLDER", tmp_path / "kept")
    (tmp_path / "grid.yaml").write_text("sizes: 64\nkinds: [SRD, UD]\nsq_host: [0, 1]\n"
                                        "loss: [0, 1e-2, 1/50]\nbackend: cycle\n")
    out = tmp_path / "out"
    assert main(["sweep", str(tmp_path / "grid.yaml"), "--out", str(out)]) == 0
    rows = json.loads((out / "summary.json").read_text())["measurements"]
    assert {(row["kind"], row["loss"]) for row in rows} == {
        ("UD", 0.0), ("SRD", 0.0), ("SRD", 0.01), ("SRD", 0.02)}
    for name in ("latency", "loaded", "rates"):
        assert "loss of packets and acknowledgements" in (out / f"{name}.svg").read_text()
    # LLQ and host memory are compared without losses.
    compared = of("latency")([row for row in rows if row["kind"] == "SRD" and row["loss"] == 0])
    rated = of("message rate")([row for row in rows if row["kind"] == "SRD" and row["loss"] == 0])
    messages = sum(row["messages"] for row in compared + rated)
    assert f"{messages:,} messages" in (out / "queues.svg").read_text()


def test_a_peer_that_seems_dead_fails_the_job():
    with pytest.raises(RuntimeError, match="timeouts in a row"):
        simulated([Workload(size=64, loss=LOSS_SHARE // 2, messages=4096)])


def test_the_rtl_is_requested_the_same_workloads():
    job = Job("verilator", "SRD", 64, 125, 1, (1, 4), ("latency", "rate"), 16, 4, "ideal")
    requested = []

    def timelines_of(works):
        requested.extend(works)
        return simulated(works)

    measurements = measure(job, timelines_of)
    assert requested == workloads(replace(job, backend="cycle"))
    assert {measurement.backend for measurement in measurements} == {"verilator"}
    assert [measurement.value for measurement in measurements] == [
        measurement.value for measurement in measure(replace(job, backend="cycle"))]


def test_more_of_a_value_is_drawn_against_that_value_alone():
    def row(size, depth, batch, value, backend="cycle"):
        return {"metric": "message rate", "statistic": "mean", "kind": "SRD", "size": size,
                "queues": 1, "depth": depth, "batch": batch, "host_read_latency": 125,
                "store_buffer": "ideal", "value": value,
                "limit": 1.0, "messages": 10, "backend": backend, "sq_host": 0, "loss": 0.0}

    rows = [row(64, 1, 1, 0.1), row(64, 8, 8, 0.2), row(8, 8, 8, 0.3)]
    assert curves.varied(rows) == ["size", "depth", "batch"]
    assert curves.usual(rows) == {"queues": 1, "depth": 1, "batch": 8, "size": 64,
                                  "host_read_latency": 125, "store_buffer": "ideal", "loss": 0.0}
    # With one outstanding message, a batch of eight equals a batch of one.
    assert curves._stands(rows[0], "batch", 8) and not curves._stands(rows[1], "batch", 1)
    both = curves.rates([*rows, row(64, 1, 1, 0.1, "verilator")])
    assert "SRD, RTL (verilator)" in both and "SRD, cycle model" in both


def test_a_sweep_along_two_lines_is_drawn_along_both():
    """A sweep without a file: all sizes with 16 queues, all numbers of queues with 32 bytes."""
    def row(size, queues):
        return {"metric": "message rate", "statistic": "mean", "kind": "UD", "size": size,
                "queues": queues, "depth": 0, "batch": 0, "host_read_latency": 125,
                "store_buffer": "", "value": 0.2, "limit": None, "messages": 10,
                "backend": "verilator", "sq_host": 0, "loss": 0.0}

    rows = [row(size, 16) for size in (8, 32, 64, 4096)] + [row(32, n) for n in (1, 2, 8)]
    fixed = curves.usual(rows)
    assert (fixed["size"], fixed["queues"]) == (32, 16)
    picture = curves.rates(rows)
    assert "all with read 125<" in picture.replace(" -->", "<")
    assert "limit of ports" not in picture
