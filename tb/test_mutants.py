"""Yosys's list becomes mutants with their line; verdicts hold only for survivors."""

import mutants
import mutate

from tb.runner import ROOT, closure
from tb.unit.units import INSIDE, UNITS

LINE = (
    "mutate -ctrl mutsel 16 7 -mode cnot1 -module efa_llq_mutant -cell "
    "$eq$rtl/queue/efa_llq.v:3$54 -port A -portbit 2 -ctrlbit 6 -wire \\s3_place -wirebit 18 "
    "-src rtl/queue/efa_llq.v:1.15-1.23 -src rtl/queue/efa_llq.v:3.12-3.35"
)


def test_a_mutant_knows_its_number_and_its_line():
    mutant = mutants.parse(LINE)
    assert (mutant.number, mutant.file, mutant.line) == (7, "rtl/queue/efa_llq.v", 3)
    assert mutant.name == r"cnot1 eq.A[2] \s3_place[18] by 6"
    assert mutants.parse("mutate -ctrl mutsel 16 0 -mode none") is None


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
    assert "send_load" in found["efa_send"] and "send_host" not in found["efa_send"]
    of_folders = {name for name in found if mutate.counted(name)}
    assert {"efa_aq", "efa_mmio", "efa_cq", "efa_tx"} <= of_folders
    for block, (unit, parameters) in INSIDE.items():
        assert block in {path.stem for path in closure(UNITS[unit].top)}
        header = mutants.HEADER.search(next(ROOT.glob(f"rtl/*/{block}.v")).read_text()).group(0)
        assert all(f"parameter {name}" in header for name in parameters)


def test_who_noticed_is_a_bench():
    assert mutate.bench_of("tb.unit.eq_order_tests.an_arm_around/stalls=0.5") == "eq_order"
    assert mutate.bench_of("") == "the simulator"


def row(name, source="a = b;"):
    return {"number": 1, "mutant": name, "file": "f.v", "line": 3, "source": source,
            "verdict": "", "reason": ""}  # fmt: skip


def entry(mutant="inv a", line="a = b", reason="equal in all reachable states"):
    return {"block": "efa_x", "mutant": mutant, "line": line, "verdict": "equal", "reason": reason}


def test_a_survivor_has_a_verdict_or_fails():
    assert mutate.judge_survivors("efa_x", [row("inv a[1]")], [], [entry()], True) == []
    (wrong,) = mutate.judge_survivors("efa_x", [row("const0 a[1]")], [], [], True)
    assert "without a verdict" in wrong


def test_a_verdict_that_fits_no_survivor_is_stale():
    (wrong,) = mutate.judge_survivors("efa_x", [], [], [entry()], True)
    assert "fits no survivor" in wrong
    assert mutate.judge_survivors("efa_x", [], [], [entry()], False) == []
    # A proof that took too long in one run may be there in the next.
    proved = row("inv a[1]") | {"verdict": "proved equal"}
    assert mutate.judge_survivors("efa_x", [proved], [], [entry()], True) == []
    both = [row("inv a[1]")], [row("inv a[2]")]
    (wrong,) = mutate.judge_survivors("efa_x", *both, [entry()], True)
    assert "is killed" in wrong
    (wrong,) = mutate.judge_survivors("efa_x", [row("inv a")], [], [entry(reason=" ")], True)
    assert "no reason" in wrong


def test_a_proof_tells_equal_from_different():
    found, _ = mutants.make(
        "efa_work_set",
        {},
        [path for path in closure("efa_work_set") if path.stem != "efa_work_set"],
        60,
        1,
    )
    by_name = {mutant.name: mutant for mutant in found}
    # Only a watcher looks at `room` and `level`; `fresh` decides what enters.
    equal = [name for name in by_name if name.endswith((" room[0]", " level[5]"))]
    different = [name for name in by_name if " fresh[0]" in name or " m_qpn" in name]
    assert equal and different
    for name in equal + different:
        assert mutants.proved_equal("efa_work_set", by_name[name]) == (name in equal), name


def test_a_block_benched_through_another_has_its_benches():
    found = mutate.blocks()
    assert found["efa_sq_order"] == found["efa_sq_fetch"] == ["sq_fetch"]
    assert all(found.values())
