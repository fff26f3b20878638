"""Sweeps on the cycle model: the same figures, files and refusals as those on the RTL."""

import json

import pytest
from cycle.sweep import measure

from efa.cli import main
from efa.grid import GridError, Job, read_grid

GRID = """\
sizes: [32, 1024]
queues: [1, 64]
kinds: SRD
depth: [1, 32]
batch: [4]
store_buffer: [ideal, pressure]
backend: cycle
"""


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


def test_a_sweep_of_the_cycle_model_has_a_figure_for_each_point(grid, tmp_path):
    out = tmp_path / "out"
    assert main(["sweep", str(grid), "--jobs", "2", "--out", str(out)]) == 0
    figures = json.loads((out / "summary.json").read_text())["figures"]
    rates = [row for row in figures if row["name"] == "message rate"]
    assert len(rates) == 2 * 2 * 2 * 2 and len(figures) == len(rates) + 8
    assert {row["batch"] for row in rates} == {1, 4}
    assert all(0 < row["value"] <= row["limit"] for row in rates)


def test_more_open_messages_are_never_slower():
    jobs = [Job("cycle", "SRD", 64, 125, 1, (4,), ("rate",), depth, 1, "ideal")
            for depth in (1, 16)]
    one, many = (measure(job)[0].value for job in jobs)
    assert many > one


def test_values_of_the_model_are_refused_on_the_rtl(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text("sizes: 8\ndepth: 4\n")
    with pytest.raises(GridError, match="backend: cycle"):
        read_grid(path)
    path.write_text("sizes: 8\nqueues: 64\n")
    with pytest.raises(GridError, match="at most 16"):
        read_grid(path)
