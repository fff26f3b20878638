# SPDX-License-Identifier: Apache-2.0
"""Tests mutants: parsing of Yosys's list, a complete run, verdicts of survivors, wiring faults."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import init_sweeps
import mutant_bench
import mutant_proofs
import mutant_rows
import mutant_runs
import mutants
import mutate
import pytest
import wiring

from efa_cosim.layouts import defs
from tb.runner import ROOT, closure
from tb.simulators import simulator_missing
from tb.unit.units import INSIDE, UNITS

LINE = (
    "mutate -ctrl mutsel 16 7 -mode cnot1 -module efa_llq_mutant -cell "
    "$eq$rtl/queue/efa_llq.v:3$54 -port A -portbit 2 -ctrlbit 6 -wire \\s3_place -wirebit 18 "
    "-src rtl/queue/efa_llq.v:1.15-1.23 -src rtl/queue/efa_llq.v:3.12-3.35"
)


def test_a_mutant_has_its_number_and_its_line():
    mutant = mutants.parse(LINE)
    assert (mutant.number, mutant.file, mutant.line) == (7, "rtl/queue/efa_llq.v", 3)
    assert mutant.name == r"cnot1 eq.A[2] \s3_place[18] by 6"
    assert mutants.parse("mutate -ctrl mutsel 16 0 -mode none") is None


def test_a_cell_that_yosys_added_has_no_mutant():
    line = ("mutate -ctrl mutsel 16 4904 -mode inv -module efa_crc16_mutant "
            "-cell $auto$opt_expr.cc:605:replace_const_cells$197 -port A -portbit 0")
    assert mutants.parse(line) is None
    assert mutants.parse(f"{line} -src rtl/admin/efa_crc16.v:9.3-9.8").line == 9


def test_the_wrapper_has_the_ports_of_the_block():
    text = (
        '// a block\n`include "efa_defs.vh"\nmodule efa_x #(\n    parameter W = 3\n) (\n'
        "    input wire clk,\n    input wire [W-1:0] s_a,  // what\n    output reg m_b\n);\n"
        "  assign m_b = s_a[0];\nendmodule\n"
    )
    made = mutants.wrapper(text, {"W": 3})
    assert '`include "efa_defs.vh"' in made and "output wire m_b" in made
    assert all(f".{port}({port})" in made for port in ("clk", "s_a", "m_b", "mutsel"))
    assert "assign" not in made
    assert "if (W != 3)" in made


def test_a_block_has_the_benches_of_one_set_of_parameters():
    found = mutate.blocks()
    assert found["efa_dma_wr"] == ["dma"] and found["efa_host"] == ["host", "irq", "dma"]
    assert (
        "tx_engine_load" in found["efa_tx_engine"]
        and "tx_engine_host" not in found["efa_tx_engine"]
    )
    of_folders = {name for name in found if mutate.counted(name)}
    assert {"efa_aq", "efa_mmio", "efa_cq", "efa_tx"} <= of_folders
    for block, (unit, parameters) in INSIDE.items():
        assert block in {path.stem for path in closure(UNITS[unit].top)}
        header = mutants.HEADER.search(next(ROOT.glob(f"rtl/*/{block}.v")).read_text()).group(0)
        assert all(f"parameter {name}" in header for name in parameters)


def test_who_noticed_is_a_bench():
    assert mutate.bench_of("tb.unit.eq_order_tests.an_arm_around/stalls=0.5") == "eq_order"
    assert mutate.bench_of("") == "the simulator"


def test_the_failure_is_that_of_the_test_that_ran(tmp_path):
    def case(module, name, ns, *marks):
        message = "".join(f'<{kind} type="{of}" message="{text}"/>' for kind, of, text in marks)
        time = f'<properties><property name="sim_time_duration" value="{ns}"/></properties>'
        return f'<testcase classname="{module}" name="{name}" time="1">{time}{message}</testcase>'

    def failed(*cases):
        file = tmp_path / "results.xml"
        file.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
        return mutant_bench.read_results(file)[1]

    behind = ("failure", "RegressionTerminated", "Regression stopped after 1 failures")
    late = ("failure", "SimTimeoutError", "")
    ended = ("failure", "SimFailure", "the simulation ended prematurely")
    assert failed(case("a", "x", 8), case("b", "y", 9)) is None
    # Modules are in order in the file; in the run others may come first.
    assert failed(case("a", "x", 0, behind), case("b", "y", 9, late))[0] == "b.y"
    assert "SimTimeoutError" in failed(case("a", "x", 0, behind), case("b", "y", 9, late))[1]
    assert failed(case("a", "x", 0, ended), case("b", "y", 9, ended))[0] == "b.y"
    assert failed(case("a", "x", 0, ended))[0] == "a.x"


def row(name, source="a = b;"):
    return {"number": 1, "mutant": name, "file": "f.v", "line": 3, "source": source,
            "verdict": "", "reason": ""}  # fmt: skip


def test_words_alone_leave_a_state_as_it_is():
    message = 'def f(a):\n    """Adds."""\n    # why\n    return a + "#"  # one\n\n\nx = """b"""\n'
    same = 'def f(a):\n\n    return a + "#"\nx = """b"""\n'
    assert mutant_runs.plain(message) == mutant_runs.plain(same)
    for other in (same.replace("#", "##"), same.replace("return a", "a"), same.replace("b", "c"),
                  same.replace("\nx", "\n    x")):  # fmt: skip
        assert mutant_runs.plain(other) != mutant_runs.plain(same)


def test_type_hints_leave_a_state_as_it_is():
    bare = "class A:\n    b = None\n    def f(self, c, d=1):\n        e = c\n        return e\n"
    hinted = (
        "from __future__ import annotations\nfrom typing import Any, TypeAlias\n"
        "from tb.lib import queue\nT: TypeAlias = list[queue]\nV = TypeVar('V')\n"
        "class P(Protocol):\n    x: int\n"
        "class A(Generic[V]):\n    b: Any = None\n    g: int\n"
        "    @overload\n    def f(self, c: int) -> int: ...\n"
        "    def f(self, c: T, d: int = 1) -> int:\n        e: T = c\n        return e\n"
    )
    assert mutant_runs.plain(hinted) == mutant_runs.plain(bare)
    for old, new in (("= None", "= 0"), ("d: int = 1", "d: int = 2"), ("e: T = c", "e: T = d")):
        assert mutant_runs.plain(hinted.replace(old, new)) != mutant_runs.plain(bare)
    # The fields of a dataclass are its hints.
    data = "@dataclass\nclass A:\n    a: int\n    b: int = 0\n"
    assert mutant_runs.plain(data) == mutant_runs.plain(data.replace("int", "str"))
    for other in (data.replace("    a: int\n", ""), data.replace("b: int", "b")):
        assert mutant_runs.plain(other) != mutant_runs.plain(data)


def test_an_import_for_type_hints_leaves_a_state_as_it_is():
    found = {}
    mutant_runs._imported("tb.lib.dont_care", found)
    assert "TYPE_CHECKING" in found["tb.lib.dont_care"].read_text()
    assert "efa_cosim.layouts.layout" not in found


def test_the_place_of_a_module_leaves_a_state_as_it_is():
    own = "from tb.lib import queue\nfrom efa_cosim.host import wc, verbs as v\n"
    message = f"import os\n{own}x = queue, wc, v\n"
    moved = "from efa_cosim.wc import (\n    verbs as v,\n    wc,\n)\n"
    moved = f"{moved}import os\nfrom tb import queue\nx = queue, wc, v\n"
    assert mutant_runs.plain(message) == mutant_runs.plain(moved)
    for other in (message.replace(" as v", ""), message.replace("os", "re"),
                  message.replace("from tb.lib", "from os")):  # fmt: skip
        assert mutant_runs.plain(other) != mutant_runs.plain(message)


def entry(mutant="inv a", line="a = b", reason="equal in all reachable states"):
    return {"block": "efa_x", "mutant": mutant, "line": line, "verdict": "equal", "reason": reason}


def test_a_survivor_has_a_status_or_fails():
    possible = [row("inv a[1]"), row("const0 a[1]")]
    assert mutate.judge_survivors("efa_x", possible[:1], [], [entry()], possible) == []
    (wrong,) = mutate.judge_survivors("efa_x", possible[1:], [], [], possible)
    assert "without a verdict" in wrong


def test_a_verdict_is_for_a_fault_that_can_be_drawn_and_survives():
    possible = [row("inv a[1]"), row("inv a[2]"), row("inv b")]
    assert mutate.judge_survivors("efa_x", [], [], [entry()], possible) == []
    (wrong,) = mutate.judge_survivors("efa_x", [], [], [entry()], possible[2:])
    assert "fits no fault" in wrong
    # A proof with a timeout in one run may succeed in the next.
    proved = row("inv a[1]") | {"verdict": "proved equal"}
    assert mutate.judge_survivors("efa_x", [proved], [], [entry()], possible) == []
    (wrong,) = mutate.judge_survivors("efa_x", possible[:1], possible[1:2], [entry()], possible)
    assert "is killed" in wrong
    unreasoned = [entry(reason=" ")]
    (wrong,) = mutate.judge_survivors("efa_x", possible[:1], [], unreasoned, possible)
    assert "no reason" in wrong


def test_each_verdict_quotes_a_line_of_its_block():
    """An edit of the RTL may leave a verdict behind, which only `make mutate` of its block finds
    otherwise."""
    shared = [line for path in sorted((ROOT / "rtl/include").glob("*.vh"))
              for line in path.read_text().splitlines()]  # fmt: skip
    stale = []
    for entry in mutate.read_verdicts():
        top = entry["block"].removesuffix(".wiring")
        (path,) = (ROOT / "rtl").rglob(f"{top}.v")
        lines = path.read_text().splitlines() + shared
        if not any(re.search(entry["line"], line.strip()) for line in lines):
            stale.append((entry["block"], entry["line"]))
    assert stale == []


def test_an_edit_of_one_line_leaves_the_faults_of_the_others(monkeypatch):
    names = [f"inv procmux.Y[{bit}] {wire}[{bit}]" for wire in ("m_a", "m_b") for bit in range(9)]
    names += ["inv eq.A[0]", "inv eq.A[0]", "const0 eq.A[0]"]
    lines = [f"line of {name.partition(' m_')[2][:1] or name}" for name in names]

    def drawn(lines):
        monkeypatch.setattr(mutants, "_lines", lambda file: lines)
        found = [mutants.Mutant(0, name, "f.v", line, "mutate -ctrl mutsel 16 0 -mode inv")
                 for line, name in enumerate(names, 1)]  # fmt: skip
        found = mutants.draw(mutants.name_apart(found), 4, 7)
        assert [one.number for one in found] == [1, 2, 3, 4]
        assert [f"mutsel 16 {one.number} " in one.command for one in found] == [True] * 4
        return {(one.name, one.source) for one in found}

    first = drawn(lines)
    assert len({source for _, source in first}) == 4  # one fault of each site
    edited = drawn([line.replace("line of a", "edited") for line in lines])
    assert {one for one in first if "line of a" not in one[1]} <= edited
    same = [mutants.Mutant(0, "x", "f.v", 1, "")] * 2
    assert [one.name for one in mutants.name_apart(same)] == ["x", "x (2)"]


@pytest.mark.parametrize(
    ("name", "part"),
    [("inv and.Y[0]", "and"), ("const0 and.A[1] m_data[3]", "m_data"),
     ("cnot1 g_ram.u_ram.rd_data[0] m_data[0] by 3", "m_data"),
     ("inv g_ram.u_ram.rd_data[0]", "g_ram.u_ram")],
)  # fmt: skip
def test_a_site_is_a_wire_or_a_cell_also_of_an_instance(monkeypatch, name, part):
    monkeypatch.setattr(mutants, "_lines", lambda file: ["one line"])
    assert mutants.Mutant(1, name, "f.v", 1, "").site == ("one line", part)


@pytest.fixture(scope="module")
def reports():
    """Returns the possible faults of efa_rq_report by name; their netlists are written."""
    others = mutants.files_below("efa_rq_report")
    *_, possible = mutants.make("efa_rq_report", {}, others, 60, 1)
    return {mutant.name: mutant for mutant in possible}


def test_a_proof_reports_equal_from_different(reports):
    # `unused_ready` reaches nothing; `waits` decides which report leaves.
    equal = [name for name in reports if " unused_ready[" in name][:2]
    wires = " waits[", " m_err_qpn["
    different = [next(name for name in reports if wire in name) for wire in wires]
    assert equal
    for name in equal + different:
        found = mutant_proofs.proved_equal("efa_rq_report", reports[name])
        assert found == (name in equal), name


def test_a_proof_from_reset_uses_what_can_be_reached(reports):
    """Both init sweeps of efa_rq_report begin at a reset and have the same length."""
    name = "const1 u_failed.m_init_done[0] init[1]"
    deep = mutants.OUT / "efa_rq_report/deep.il"
    with pytest.raises(mutants.YosysFailed):
        mutant_proofs._in_every_state("efa_rq_report", reports[name], deep)
    assert mutant_proofs._from_reset("efa_rq_report", reports[name], deep)
    for other in ("const0 u_failed.m_init_done[0] init[1]", "inv u_failed.m_valid[0] waits[1]"):
        assert not mutant_proofs._from_reset("efa_rq_report", reports[other], deep), other


COUNTER = """module counter (input clk, input rst, input [1:0] s_pick, output m_done, output m_bit);
  reg [2:0] count_q;
  reg [3:0] kept_q;
  wire [3:0] table4 = 4'b10xx;
  wire read = !{read};
  assign m_done = count_q[2];
  assign m_bit = count_q[2] && read;
  always @(posedge clk)
    if (rst) count_q <= 0;
    else if (!count_q[2]) count_q <= count_q + 1;
  always @(posedge clk) kept_q <= {{kept_q[2:0], s_pick[0]}};
endmodule
"""


@pytest.mark.parametrize(
    ("read", "fault", "equal"),
    [
        # Any state at the reset, the same in block and mutant.
        ("kept_q[3]", "none", True),
        # count_q ends at 4.
        ("count_q[1]", "const1", True),
        ("s_pick[0]", "const1", False),
        ("kept_q[3]", "const1", False),
        # x is 0 in one proof and 1 in the other.
        ("table4[s_pick]", "none", True),
        ("table4[s_pick[1]]", "const0", False),
        ("table4[s_pick[1]]", "const1", False),
    ],
)  # fmt: skip
def test_a_proof_from_reset_covers_any_state_before_it(read, fault, equal):
    folder = ROOT / mutants.OUT / "test_proof"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.v").write_text(COUNTER.format(read=read))
    file = folder.relative_to(ROOT) / "text.il"
    mutants.yosys(f"read_verilog {folder.relative_to(ROOT)}/text.v", "proc -norom",
                  "rename counter counter_mutant", f"write_rtlil {file}")  # fmt: skip
    cell = re.search(r"  cell .logic_not (\S+:5.\d+)\n", (ROOT / file).read_text()).group(1)
    command = f"mutate -mode {fault} -module gate -cell {cell} -port Y -portbit 0"
    mutant = SimpleNamespace(command=command if fault != "none" else "cd gate")
    assert mutant_proofs._from_reset("counter", mutant, file) == equal


def test_a_block_benched_through_another_has_its_benches():
    found = mutate.blocks()
    assert found["efa_sq_reorder"] == found["efa_sq_fetch"] == ["sq_fetch"]
    assert all(found.values())


def test_the_files_of_a_block_are_used_again_until_an_input_changes(monkeypatch):
    def refuse(*commands, seconds=None):
        raise mutants.YosysFailed("called")

    monkeypatch.setattr(mutants, "OUT", Path("sim/out/mutate_test/again"))
    shutil.rmtree(ROOT / mutants.OUT, ignore_errors=True)
    first = mutants.make("efa_skid", {}, [], 5, 1)
    monkeypatch.setattr(mutants, "yosys", refuse)
    assert mutants.make("efa_skid", {}, [], 5, 1) == first
    for change in (({"WIDTH": 9}, [], 5, 1), ({}, [], 6, 1), ({}, [], 5, 2)):
        with pytest.raises(mutants.YosysFailed, match="called"):
            mutants.make("efa_skid", *change)


@pytest.fixture(scope="module")
def completion_side():
    """Returns (drawn faults, all faults, Below, written files) of the smallest wiring module."""
    others = mutants.files_below("efa_cq_engine")
    drawn, written, listed = wiring.make("efa_cq_engine", others, None, 1, "test.wiring")
    return drawn, listed, wiring.Below("efa_cq_engine", others, "test.wiring"), written


def test_each_connected_input_has_a_fault(completion_side):
    drawn, listed, below, written = completion_side
    text = (ROOT / "rtl/efa_cq_engine.v").read_text()
    places = {(cell, port) for fault in drawn for cell, port, _ in fault.changes}
    cells = below.module["cells"]
    inputs = {
        (name, port) for name, cell in cells.items() if cell["type"][0] != "$"
        for port, way in cell["port_directions"].items() if way == "input" and port != "clk"
    }  # fmt: skip
    assert inputs <= places and len(drawn) < len(listed)
    assert {fault.name for fault in drawn} <= {fault.name for fault in listed}
    assert len({frozenset(fault.changes) for fault in listed}) == len(listed)
    first = wiring.NUMBERS * wiring.WIRING.index("efa_cq_engine") + 1
    assert [fault.number for fault in drawn] == list(range(first, first + len(drawn)))
    for fault in drawn:
        cell, port, _ = fault.changes[0]
        if cell[0] != "$":
            assert f".{port}(" in text.split("\n")[fault.line - 1], fault.name
    netlist = written[1].read_text()
    assert all(f"16'h{fault.number:04x}" in netlist for fault in drawn)


def test_a_fault_that_changes_nothing_is_found(completion_side):
    _, _, below, _ = completion_side

    def fault(cell, port, bits):
        return wiring.Fault(1, "", "", 1, "", ((cell, port, tuple(bits)),))

    connected = below.module["cells"]["u_ec"]["connections"]
    # This port carries 12 bits of a queue number; a device of 64 queues uses 6.
    narrow, wide = list(connected["counted_rd_addr"]), list(connected["counted_rd_addr"])
    narrow[6:] = "0" * 6
    wide[5] = "0"
    assert below.same(fault("u_ec", "counted_rd_addr", narrow))
    assert not below.same(fault("u_ec", "counted_rd_addr", wide))
    assert not below.same(fault("u_eq", "s_commit_valid", "0"))


def test_two_outputs_with_one_source_are_the_same():
    others = mutants.files_below("efa_host")
    drawn, _, _ = wiring.make("efa_host", others, None, 1, "test.wiring.host")
    below = wiring.Below("efa_host", others, "test.wiring.host")

    def same(port, wire):
        bits = below.module["netnames"][wire]["bits"]
        return below.same(wiring.Fault(1, "", "", 1, "", (("u_irq", port, tuple(bits)),)))

    # efa_mmio gives both offsets from one register, but not both valids.
    assert same("s_acc_offset", "part_offset")
    assert not same("s_acc_valid", "part_valid")


@pytest.fixture(scope="module")
def sweeps():
    """Returns the initialization of the default build."""
    return init_sweeps.Sweeps()


needs_icarus = pytest.mark.skipif(simulator_missing("icarus") is not None, reason="no icarus")


@needs_icarus
def test_the_time_of_an_initialization_is_proven(sweeps, monkeypatch):
    assert sweeps.time("efa_tx_route", ()) == 1 << defs.LIMITS.ah_w
    # A store for a created queue pair would delay the sweep of efa_sq_flush.
    assert sweeps.time("efa_sq_flush", ()) == 1 << defs.LIMITS.qpn_w
    monkeypatch.setattr(init_sweeps, "QUIET", {})
    assert init_sweeps.Sweeps().time("efa_sq_flush", ()) is None
    assert sweeps.time("$mux", ()) is None


@needs_icarus
def test_only_a_term_that_another_covers_is_redundant(sweeps):
    cells = sweeps.modules["efa_host"]["cells"]
    [cell] = [name for name, cell in cells.items() if cell["type"] == "$reduce_and"]
    bits = cells[cell]["connections"]["A"]

    def dropped(*numbers):
        left = tuple("1" if at in numbers else bit for at, bit in enumerate(bits))
        return sweeps.redundant("efa_host", wiring.Fault(1, "", "", 1, "", ((cell, "A", left),)))

    header = (ROOT / "rtl/gen/efa_defs.vh").read_text()
    qp, admin = map(int, re.findall(r"`define EFA_ENGINE__(?:QP|ADMIN) 32'd(\d)", header))
    # efa_obj_table on the admin side has the longest initialization, efa_qp_ctx a short one.
    assert dropped(qp)
    assert not dropped(admin) and not dropped(qp, admin)
    assert not dropped()


def test_the_glue_logic_loses_each_term():
    others = mutants.files_below("efa_rx_engine")
    drawn, _, _ = wiring.make("efa_rx_engine", others, None, 1, "test.wiring.glue")
    dropped = {fault.source for fault in drawn if fault.name.startswith("drop")}
    assert ".s_flushed(flush_valid && flush_ready)," in dropped
    recv = ("assign m_init_done = receiver_init && accept_init_done && check_init_done "
            "&& rings_init_done;")
    assert recv in dropped


def test_a_timeout_is_not_killed():
    assert mutate.score(10, 9, 0) == 90.0
    assert mutate.score(10, 9, 1) == 100.0  # one proven equal
    assert mutate.score(12, 9, 0) == 75.0  # one survivor, two timeouts


def test_all_of_rtl_is_in_the_list_by_folder():
    found = mutate.rows()
    standard = {name for name in found if mutate.counted(name) or mutate.wired(name)}
    folders = {mutate.folder_of(name) for name in standard}
    parts = (ROOT / "rtl").rglob("*.v")
    assert folders == {path.parent.relative_to(ROOT).as_posix() for path in parts}
    assert {mutate.folder_of(f"{name}.wiring") for name in ("efa_nic", "efa_cq_engine")} == {"rtl"}


@pytest.mark.skipif(simulator_missing("verilator") is not None, reason="verilator is missing")
def test_a_run_gives_each_fault_of_a_block_a_verdict(monkeypatch):
    out = ROOT / "sim/out/mutate_test"
    shutil.rmtree(out / "results", ignore_errors=True)
    monkeypatch.setattr(mutant_rows, "RESULTS", out / "results")
    monkeypatch.setattr(mutate, "OUT", out)
    options = ["--block", "efa_skid", "--count", "3", "--seed", "99", "--jobs", "1"]
    assert mutate.main(options) == 0
    (stored,) = (out / "results/verdicts/efa_skid").glob("*/*.json")
    rows = json.loads(stored.read_text())["measurements"]
    assert [row["verdict"] for row in rows] == [mutant_bench.KILLED] * 3
    assert all(row["by"].startswith("tb.unit.skid_tests.") for row in rows)
    # Every result is stored, so a second run needs no job.
    monkeypatch.setattr(mutate, "ENTRY", "check_mutation")
    assert mutate.main(options) == 0
