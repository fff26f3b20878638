# SPDX-License-Identifier: Apache-2.0
"""Tests the tree check: plan, tree and tables are consistent, and each inconsistency is named."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_tree  # noqa: E402 - needs the path above

pytestmark = pytest.mark.slow

PLAN, UNITS, TIMING = "spec/testplan.yaml", "tb/unit/units.py", "spec/timing.yaml"
STATUSES = "spec/statuses.yaml"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Copies the files that the check reads into a folder of their own."""
    root = tmp_path_factory.mktemp("tree")
    for folder in ("docs", *check_tree.FOLDERS):
        leave = shutil.ignore_patterns("__pycache__", "*.gz", "*.egg-info")
        shutil.copytree(ROOT / folder, root / folder, ignore=leave)
    for file in ("Makefile", "README.md", "CONTRIBUTING.md", "pyproject.toml"):
        shutil.copy(ROOT / file, root)
    return root


@pytest.fixture
def tree(whole):
    """Provides `edit(path, old, new)` on a tree that is restored after the test."""
    before = {}

    def edit(path, old, new):
        file = whole / path
        text = file.read_text() if file.exists() else ""
        before.setdefault(file, text if file.exists() else None)
        assert old in text
        file.write_text(text.replace(old, new, 1) if old else text + new)

    edit.wrong = lambda: check_tree.check(whole)
    yield edit
    for file, text in before.items():
        file.unlink() if text is None else file.write_text(text)


def test_this_tree_is_whole():
    assert check_tree.check(ROOT) == []


@pytest.mark.parametrize(
    ("path", "old", "new", "message"),
    [
        (PLAN, "AnyStoreBufferDeliversCompleteWqes", "NoSuchTest", "NoSuchTest is no test"),
        (PLAN, "AnyStoreBufferDeliversCompleteWqes, ", "", "is not in spec/testplan.yaml"),
        (PLAN, "nic.llq.status]", "nic.llq.status 77]", "is no bin"),
        (PLAN, "bins: [nic.llq.status]", "bins: []", "no entry of spec/testplan.yaml names"),
        (PLAN, "id: send.llq", "id: send.incomplete", "send.incomplete is planned twice"),
        (PLAN, "module: efa_skid,", "module: efa_skad,", "efa_skad is no module"),
        (PLAN, "refused: [SERVICE", "refused: [ALLOC_PD, SERVICE", "lists as refused"),
        (PLAN, "refused: [SERVICE", "refused: [", "does not implement SERVICE"),
        (STATUSES, "  DEREG_MR:", "  DEREG_MD:", "add the statuses of DEREG_MR"),
        (STATUSES, "[test_eqs_run_out]", "[test_eqs_run_on]", "test_eqs_run_on is no test"),
        (STATUSES, "[test_mr_numbers_run_out, ", "[", "test_mr_numbers_run_out shows a refusal"),
        (STATUSES, "[test_statistics_of_a_part_are_refused]", "[]", "GET_STATS ILLEGAL_PARAMETER"),
        (PLAN, "    shows: send WQEs", "    says: send WQEs", "expected form"),
        (TIMING, "  efa_skid:", "  efa_skad:", "efa_skad is no module"),
        (TIMING, "    load: {", "    loud: {", ".loud"),
        (UNITS, '"skid": Unit("efa_skid"', '"skad": Unit("efa_skid"', "skad_tests.py is not"),
        (UNITS, '"irq": Unit("efa_host"', '"irq": Unit("efa_hast"', "efa_hast is no module"),
        ("docs/glossary.md", "`efa_llq` |", "`efa_loq` |", "efa_loq is not there"),
        ("docs/timing.md", "UNIT=tx_engine_load", "UNIT=tx_engine_loud", "UNIT=tx_engine_loud is"),
        ("docs/timing.md", "`efa_net_tx`", "`efa_net_" "ty`", "18: efa_net_"),
        ("README.md", "`efa_send_tracker`, ", "`efa_send_truck`, ", "efa_send_truck is"),
        ("CONTRIBUTING.md", "`make lint`", "`make lints`", "make lints is not there"),
        ("docs/formal.md", "`formal/", "`formal/no_such_", "formal/no_such_"),
        ("rtl/common/efa_skid.v", "", "// efa_" "work_set\n", "was renamed"),
        ("rtl/common/efa_skid.v", "", "// to" "ld\n", "was renamed: see"),
        ("rtl/common/efa_skid.v", check_tree.LICENCE, "", "efa_skid.v: add the line SPDX"),
        ("rtl/common/efa_skid.v", "wire s_valid", "wire valid", "input valid: give it"),
        ("rtl/common/efa_skid.v", "wire m_valid", "wire s_valid", "the prefix m_"),
        ("rtl/common/efa_ram.v", "[WIDTH-1:0] rd_data\n", "[WIDTH-1:0] rd_word\n", "rd_word"),
        ("rtl/files.f", "rtl/common/efa_skid.v\n", "", "add rtl/common/efa_skid.v"),
        ("rtl/files.f", "", "rtl/common/efa_skid.v\n", "stands in it twice"),
        ("rtl/common/efa_new.v", "", "module efa_new;\nendmodule\n", "no entry for it under units"),
        ("tb/unit/skid_tests.py", '"""common.skid', '"""the skid', "does not begin with an id"),
        ("tb/unit/new_tests.py", "",
         'import cocotb\n@cocotb.test()\nasync def new(dut):\n    """common.skid.new"""\n',
         "nothing runs this file"),
    ],
)  # fmt: skip
def test_a_misfit_is_named(tree, path, old, new, message):
    tree(path, old, new)
    assert any(message in line for line in tree.wrong()), tree.wrong()
