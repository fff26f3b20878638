# SPDX-License-Identifier: Apache-2.0
"""Tests that the counts of runs merge, and that waivers hold only unreached points."""

import re

import code_coverage
import constant_bits
import mutants
import pytest
from code_coverage import Point

from tb import runner, simulators
from tb.code_coverage import FLAGS, FOLDER, arguments, control, left_out
from tb.simulators import simulator_missing

FILE = "rtl/queue/efa_llq.v"
SOURCE = {FILE: ["wire a = b && c;", "if (a) x = 1;", "wire [3:0] d;"]}


def count(hits, **message):
    """Returns a line of Verilator's file."""
    parts = "".join(f"\1{name}\2{value}" for name, value in message.items())
    return f"C '{parts}' {hits}\n"


def merged(folder, *runs):
    for number, text in enumerate(runs):
        (folder / f"{number}.dat").write_text("# SystemC::Coverage-3\n" + text)
    return code_coverage.merge(sorted(folder.glob("*.dat")))


def place(line, kind, name, column=1):
    return {"f": f"/x/{FILE}", "l": line, "n": column, "t": kind, "o": name, "h": "top"}


def test_what_one_run_reached_is_reached(tmp_path):
    edges = ("d[1]:0->1", "d[1]:1->0")
    one = count(1, **place(3, "toggle", edges[0])) + count(0, **place(3, "toggle", edges[1]))
    other = count(0, **place(3, "toggle", edges[0])) + count(7, **place(3, "toggle", edges[1]))
    points, reached = merged(tmp_path, one, other)
    assert points == reached == {Point(FILE, "toggle", 3, edge) for edge in edges}


def test_a_line_is_reached_when_all_its_blocks_are(tmp_path):
    taken = count(3, **place(2, "branch", "if"), S="2")
    not_taken = count(0, **place(2, "branch", "else", 2), S="2-3")
    points, reached = merged(tmp_path, taken + not_taken)
    holes = {(point.kind, point.line) for point in points - reached}
    assert holes == {("line", 2), ("line", 3), ("branch", 2)}


CONSTANT = """
module leaf (input wire clk, input wire rst, input wire [3:0] d, output wire [3:0] q);
  reg [3:0] r_q;
  always @(posedge clk) if (rst) r_q <= 4'd0; else r_q <= d;
  assign q = r_q;
endmodule
module top (input wire clk, input wire rst, input wire [3:0] a, output wire [7:0] y);
  leaf u_low (.clk(clk), .rst(rst), .d({2'b00, a[1:0]}), .q(y[3:0]));
  leaf u_high (.clk(clk), .rst(rst), .d({1'b0, a[2:0]}), .q(y[7:4]));
endmodule
"""


def test_a_bit_is_constant_if_each_instance_is():
    """Both instances have a constant bit 3, one has a constant bit 2."""
    with mutants.scratch() as folder:
        source = folder / "top.v"
        (mutants.ROOT / source).write_text(CONSTANT)
        build = constant_bits.run({}, [str(source)], "top")
    signals = constant_bits.ConstantBits({"one": build})
    line = CONSTANT.split("\n").index("  reg [3:0] r_q;") + 1
    assert [signals.has(str(source), line, "r_q", bit) for bit in range(5)] == [
        False, False, False, True, False,
    ]  # fmt: skip
    points = {Point(str(source), "toggle", line, f"r_q[{bit}]:0->1") for bit in range(4)}
    assert code_coverage.constants(points, signals) == {
        Point(str(source), "toggle", line, "r_q[3]:0->1")
    }  # fmt: skip


def test_a_waiver_takes_a_hole_out_of_the_total():
    hole = Point(FILE, "toggle", 3, "d[2]:0->1")
    waiver = code_coverage.Waiver(FILE, "wire .* d;", "tied", ("toggle",), r"d\[2\]")
    waived, wrong = code_coverage.waive({hole}, set(), [waiver], SOURCE)
    assert waived == {hole} and not wrong
    assert code_coverage.shares({hole}, set(), waived)["toggle"]["percent"] == 100


def test_a_waiver_of_what_is_reached_or_not_there_is_wrong():
    points = {Point(FILE, "toggle", 3, f"d[{bit}]:0->1") for bit in range(2)}
    reached = {Point(FILE, "toggle", 3, "d[1]:0->1")}
    for waiver, said in (
        (code_coverage.Waiver(FILE, "wire", "tied", ("toggle",)), "was reached"),
        (code_coverage.Waiver(FILE, "wire", "tied", ("branch",)), "matches nothing"),
        (code_coverage.Waiver(FILE, "wire", " ", ("toggle",), r"d\[0\]"), "no reason"),
    ):
        waived, (wrong,) = code_coverage.waive(points, reached, [waiver], SOURCE)
        assert said in wrong and not waived & reached


def test_bits_of_a_bus_are_one_row():
    names = [f"d[{bit}]:0->1" for bit in (0, 1, 2, 7)] + ["go:1->0"]
    assert code_coverage.bits(names) == ["d[7,2:0] 0->1", "go 1->0"]


def test_what_only_watches_is_not_counted():
    text = 'wire a;\n`EFA_CHECK(\n  a,\n  "(text")\nreg [3:0] mem[0:7];\nreg [3:0] q;\n'
    text += "wire unused_b = &{1'b0,\n a};\n"
    assert left_out(text) == [(2, 4), (5, 5), (7, 8)]


def test_a_waiver_names_bits_and_what_only_power_up_reaches():
    points = {Point(FILE, "toggle", 3, f"d[{bit}]:0->1") for bit in range(8)}
    waiver = code_coverage.Waiver(FILE, "wire", "tied", ("toggle",), bits="6:5, 1")
    waived, wrong = code_coverage.waive(points, set(), [waiver], SOURCE)
    assert {point.name for point in waived} == {f"d[{bit}]:0->1" for bit in (1, 5, 6)} and not wrong
    reached = {Point(FILE, "toggle", 3, "d[5]:0->1")}
    assert code_coverage.waive(points, reached, [waiver], SOURCE)[1]
    waiver.at_power_up = True
    waived, wrong = code_coverage.waive(points, reached, [waiver], SOURCE)
    assert len(waived) == 2 and not wrong


def test_only_the_named_files_are_counted_where_any_is_named(tmp_path):
    paths = [tmp_path / name for name in ("efa_nic.v", "efa_llq.v")]
    for path in paths:
        path.write_text("wire a;\n")
    assert "coverage_off" not in control(paths)
    (off,) = [line for line in control(paths, ("efa_nic.v",)).split("\n") if "off" in line]
    assert off == f'coverage_off -file "{paths[1]}"'


WIDE = """
module wide (
    input wire [95:0] s_data /* verilator public_flat_rw */
);
endmodule
"""
ONE_BIT_MOVES = """
import cocotb
from cocotb.triggers import Timer

@cocotb.test()
async def one_bit_moves(dut):
    for value in (0, 8, 0, 8, 0):
        dut.s_data.value = value
        await Timer(1, "ns")
"""
# A counted edge, as Verilator writes it.
MOVED = re.compile(r"s_data\[\d+\]:[^']*' [1-9]")


@pytest.mark.skipif(simulator_missing("verilator") is not None, reason="verilator is missing")
def test_a_bit_that_does_not_move_is_not_reached(tmp_path, monkeypatch):
    (tmp_path / "rtl").mkdir()
    source = tmp_path / "rtl/wide.v"
    source.write_text(WIDE)
    (tmp_path / "bench_of_wide.py").write_text(ONE_BIT_MOVES)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(FOLDER, str(tmp_path))
    # No other build of `make test` counts, so that this one compiles Verilator's library anew.
    flags = simulators.VERILATOR_MAKEFLAGS.replace("OPT_GLOBAL=-O1", "OPT_GLOBAL=-O0")
    monkeypatch.setattr(simulators, "VERILATOR_MAKEFLAGS", flags)
    folder = runner.build("verilator", "wide", [source], {}, ["-Wno-fatal", *FLAGS])
    runner.run("unit", "wide", "verilator", "wide", folder, "bench_of_wide", 1,
               plusargs=arguments("wide"))  # fmt: skip
    (counts,) = tmp_path.glob("*.dat")
    # Verilator itself counts the bits 35 and 67, too.
    assert len(MOVED.findall(counts.read_text())) == 6
    points, reached = code_coverage.merge([counts])
    bits = {point.name for point in reached if point.name.startswith("s_data")}
    assert bits == {"s_data[3]:0->1", "s_data[3]:1->0"}
    assert {f"s_data[{bit}]:0->1" for bit in range(96)} <= {point.name for point in points}


def test_counts_that_cannot_be_of_this_verilator_are_refused(tmp_path, capsys):
    counts = dict.fromkeys(range(96), 0) | {3: 2, 35: 1}
    narrow = {bit: counts[bit] for bit in range(64)}
    assert code_coverage.edges(narrow, "top.d") == narrow
    lines = [count(counts[bit], **place(3, "toggle", f"d[{bit}]:0->1")) for bit in counts]
    (tmp_path / "0.dat").write_text("".join(lines))
    assert code_coverage.main([str(tmp_path)]) == 2
    assert "top.d[35]: 1 edges, but 2 at bit 3: this Verilator" in capsys.readouterr().err
