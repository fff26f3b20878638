# SPDX-License-Identifier: Apache-2.0
"""Tests the module page: it repeats the headers and the timing table and rejects invalid ones."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import gen_modules  # noqa: E402 - needs the path above
from spec_model import SpecError  # noqa: E402

HEADER = (
    "// SPDX-License-Identifier: Apache-2.0\n"
    "// efa_toy - a toy\n// for two.\n//\n// In    nothing\nmodule efa_toy;\nendmodule\n"
)
TABLE = "modules:\n  efa_toy:\n    path: {latency: 3, interval: 1.5, doc: in to out}\n"


@pytest.fixture
def toy(tmp_path):
    """A tree of one module; `toy(header, table)` writes it."""

    def write(header=HEADER, table=TABLE):
        for folder in ("rtl/queue", "spec"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "rtl/files.f").write_text("# level 1\nrtl/queue/efa_toy.v\n")
        (tmp_path / "rtl/queue/efa_toy.v").write_text(header)
        (tmp_path / "spec/timing.yaml").write_text(table)
        return tmp_path

    return write


def test_a_module_has_its_job_and_its_cycles(toy):
    page = gen_modules.page(toy())
    link = "[`efa_toy`](../rtl/queue/efa_toy.v)"
    assert f"| {link} | a toy for two | in to out | 3 | 1.5 |  |" in page


@pytest.mark.parametrize(
    ("header", "table", "text"),
    [
        (HEADER.replace("efa_toy -", "efa_tay -"), TABLE, "efa_toy - job"),
        (HEADER[3:], TABLE, "efa_toy - job"),
        (HEADER, TABLE.replace("latency", "latencies"), "efa_toy, path: latencies means nothing"),
        (HEADER, TABLE.replace("3", "some"), "latency is no number of cycles: 'some'"),
        (HEADER, TABLE.replace("3", "-1"), "latency is no number of cycles: -1"),
        (HEADER, TABLE.replace(", doc: in to out", ""), "efa_toy, path: needs doc"),
        (HEADER, TABLE.replace("latency: 3, interval: 1.5, ", ""), "needs doc and one of"),
    ],
)
def test_a_wrong_table_or_header_is_refused(toy, header, table, text):
    with pytest.raises(SpecError, match=text):
        gen_modules.page(toy(header, table))


def test_every_module_of_this_tree_is_on_the_page():
    page = (ROOT / "docs/modules.md").read_text()
    for path in (ROOT / "rtl").rglob("*.v"):
        assert f"[`{path.stem}`]" in page
