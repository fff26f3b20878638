# SPDX-License-Identifier: Apache-2.0
"""Tests the jobs of the cycle grid: order of the rows, and the reason of a chunk that fails."""

import pytest

from efa_cosim.cycle.workload import Workload
from tb.cycle import grid

POINTS = [Workload(size=size) for size in range(1, 2 * grid.CHUNK + 2)]
ROW = "{'size': work['size'], 'met': {'rate': True}}"


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """Returns a function that makes a text the job of a chunk, whose JSON is `job` in the text."""
    described = tmp_path / "fakegrid-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: fakegrid\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[efa_cosim.jobs]\nfakegrid = fakegrid\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(grid, "ENTRY", "fakegrid")

    def made(text):
        start = "import json, sys, time\njob = json.loads(sys.argv[1])\n"
        (tmp_path / "fakegrid.py").write_text(f"{start}{text}\n")

    return made


def test_rows_are_in_the_order_of_the_points(registered, capsys):
    registered("time.sleep(job['works'][0]['size'] == 1)\n"
               f"print(json.dumps([{ROW} for work in job['works']]))")
    rows = grid.run(POINTS, 7, 3)
    assert [row["size"] for row in rows] == [work.size for work in POINTS]
    out, err = capsys.readouterr()
    assert not out and err.splitlines()[-1].startswith(f"points: {len(POINTS)} of {len(POINTS)}, ")


def test_a_chunk_that_fails_ends_the_grid_with_its_reason(registered):
    registered("sys.exit('the device does not build')")
    with pytest.raises(grid.GridFailed, match="the device does not build"):
        grid.run(POINTS, 7, 1)
