"""What formal/proven.json notes: RTL, wrapper, sizes and assumptions, not their layout."""

import formal_job
import proven
import pytest

WRAPPER = """module fv_one;
  // a machine
  efa_part #(.W(`EFA_WIDE)) u_dut ();
  always @(*) p_fits : assert (x);
  always @(*) c_fits : cover (x);
endmodule
"""
PART = """`include "efa_defs.vh"
`include "efa_own.vh"
module efa_part #(parameter W = 1);
endmodule
"""
PLAN = """
assumes: [a clock]
jobs: [{name: all, engine: pdr, parameters: {N: 3}}]
properties:
  fits:
    says: it fits
    bugs: [{file: rtl/part/efa_part.v, old: W = 1, new: W = 2}]
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A project with one block, noted as proven."""
    for name, text in {
        "formal/one.v": WRAPPER, "formal/one.yaml": PLAN, "rtl/part/efa_part.v": PART,
        "rtl/part/efa_other.v": "module efa_other;\nendmodule\n",
        "rtl/include/efa_own.vh": "localparam OWN = `EFA_NARROW;\n",
        "rtl/gen/efa_defs.vh": "`define EFA_WIDE 8\n`define EFA_NARROW 2\n`define EFA_UNUSED 1\n",
    }.items():  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for module in (formal_job, proven):
        monkeypatch.setattr(module, "ROOT", tmp_path)
        monkeypatch.setattr(module, "HOME", tmp_path / "formal")
    proven.write([formal_job.read_block(tmp_path / "formal/one.yaml")])
    assert proven.stale() == []
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("rtl/part/efa_part.v", "endmodule", "wire x; endmodule", "not proven as it is now"),
        ("rtl/part/efa_part.v", "endmodule", "// text\nendmodule", ""),
        ("rtl/part/efa_part.v", "parameter W", "parameter\n  W", ""),
        ("rtl/part/efa_part.v", "W = 1", "W = 3", "has 0 times 'W = 1'"),
        ("rtl/part/efa_other.v", "endmodule", "wire x; endmodule", ""),
        ("rtl/include/efa_own.vh", "OWN", "MINE", "not proven as it is now"),
        ("rtl/gen/efa_defs.vh", "EFA_WIDE 8", "EFA_WIDE 9", "not proven as it is now"),
        ("rtl/gen/efa_defs.vh", "EFA_NARROW 2", "EFA_NARROW 3", "not proven as it is now"),
        ("rtl/gen/efa_defs.vh", "EFA_UNUSED 1", "EFA_UNUSED 2", ""),
        ("formal/one.v", "assert (x)", "assert (!x)", "not proven as it is now"),
        ("formal/one.v", "a machine", "another", ""),
        ("formal/one.yaml", "N: 3", "N: 4", "not proven as it is now"),
        ("formal/one.yaml", "a clock", "two clocks", "not proven as it is now"),
        ("formal/one.yaml", "it fits", "it does fit", ""),
        ("formal/one.yaml", "engine: pdr", "engine: luck", "engine luck"),
        ("formal/one.yaml", "rtl/part/efa_part.v", "rtl/none.v", "rtl/none.v has 0 times"),
        ("formal/proven.json", '"one"', '"two"', "no block two"),
    ],
)
def test_what_its_proofs_did_not_see_is_told(tree, file, old, new, told):
    path = tree / file
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    lines = proven.stale()
    assert bool(lines) == bool(told)
    assert any(told in line for line in lines) or not told


def test_a_block_that_was_never_proven_is_told(tree):
    (tree / "formal/proven.json").unlink()
    (line,) = proven.stale()
    assert line == "formal/one: not proven as it is now: make formal BLOCK=one"
