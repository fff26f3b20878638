# SPDX-License-Identifier: Apache-2.0
"""Tests the stream rule of `make lint`: paths from a ready input to a valid output are found."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import yosys_run  # noqa: E402 - needs the path above
from stream_rule import violations  # noqa: E402 - needs the path above

HEAD = """
module stage (input clk, input s_valid, output s_ready, output m_valid, input m_ready);
  reg full_q;
"""
TAIL = """
endmodule
module top (input clk, input s_valid, output s_ready, output m_valid, input m_ready);
  wire valid, ready;
  stage u_0 (.clk(clk), .s_valid(s_valid), .s_ready(s_ready), .m_valid(valid), .m_ready(ready));
  stage u_1 (.clk(clk), .s_valid(valid), .s_ready(ready), .m_valid(m_valid), .m_ready(m_ready));
endmodule
"""
REGISTERED = "assign m_valid = full_q; assign s_ready = !full_q || m_ready;"
FILL = "always @(posedge clk) full_q <= s_valid || (full_q && !m_ready);"
FOUND = "m_valid depends on m_ready in the same cycle"


@pytest.mark.parametrize(("body", "wanted"), [
    (f"{REGISTERED} {FILL}", []),
    (f"assign m_valid = full_q && m_ready; assign s_ready = m_ready; {FILL}",
     [f"stage: {FOUND}", f"top: {FOUND}"]),
    (f"assign m_valid = full_q && s_ready; assign s_ready = !full_q || m_ready; {FILL}",
     [f"stage: {FOUND}", f"top: {FOUND}"]),
])  # fmt: skip
def test_a_valid_that_depends_on_a_ready_is_found(body, wanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.v").write_text(HEAD + body + TAIL)
    script = "read_verilog a.v; hierarchy -top top; proc -norom; opt_clean; write_json a.json"
    assert yosys_run.run(script, folder=tmp_path) == (0, "")
    assert violations(Path("a.json")) == wanted
