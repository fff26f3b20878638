# SPDX-License-Identifier: Apache-2.0
"""Proves that a mutant is equal to its block, so that no bench can detect it.

1. In every state: Yosys's SAT solver compares outputs and next states, bit by bit.
2. From a reset on, in all states that can be reached: ABC. Block and mutant begin in the same
   state, which may be any state, in a cycle with rst = 1. In every later cycle all outputs agree.
   Where the netlist has x, the proof is made with 0 and with 1.

In both, modules below are black boxes. Their inputs count as outputs, and their outputs may have
any values, the same in both.
"""

import re

from formal_job import CARRIER
from mutants import OUT, PROOFS, ROOT, YosysFailed, YosysLate, scratch, yosys

FORM = "4"  # of proofs; stored results of another form are invalid
SECONDS = 120
# scorr merges equal parts. If it leaves nothing to decide, pdr has no answer, but dprove has one.
STEPS = ("scorr;strash;pdr", "scorr;strash;dprove", "pdr")
CELL = re.compile(r"  cell \S+ \S+\n(?:    .*\n)*?  end\n")
FREE = 10_000  # number of the first input for a state; no block has as many ports
FIRST_CYCLE = """
  cell $dff \\efa_started
    parameter \\CLK_POLARITY 1'1
    parameter \\WIDTH 1
    connect \\CLK \\in_clk
    connect \\D 1'1
    connect \\Q \\efa_later
  end
  cell $not \\efa_at_first
    parameter \\A_SIGNED 0
    parameter \\A_WIDTH 1
    parameter \\Y_WIDTH 1
    connect \\A \\efa_later
    connect \\Y \\in_efa_first
  end
  cell $assume \\efa_reset
    connect \\A \\in_rst
    connect \\EN \\in_efa_first
  end
end
"""


def proved_equal(top, mutant, folder=None, names=tuple(PROOFS)):
    """Returns True if a mutant is proven equal to its block, None if only a timeout prevents it.

    The first proof shows that the mutant has no effect outside the block, on a module in the block
    or on a register; or on a memory or register of the block or of a module in it. Where the block
    assigns x, the mutant may have any value. `folder` of OUT has the netlists, by default that of
    the block; `names` selects entries of PROOFS.
    """
    files = {}
    for name in names:
        file = OUT / (folder or top) / f"{name}.il"
        # A block that contains only memories has the same black boxes in both.
        files.setdefault((ROOT / file).read_text(), file)
    late = False
    for proof in (_in_every_state, _from_reset):
        for file in files.values():
            try:
                if proof(top, mutant, file):
                    return True
            except YosysLate:
                late = True
            except YosysFailed:
                pass  # for the SAT solver: different
    return None if late else False


def _pair(top, mutant, file):
    """Returns the commands that read block and mutant as the modules gold and gate."""
    change = re.sub(r" -ctrl \S+ \d+ \d+", "", mutant.command)
    change = change.replace(f"-module {top}_mutant", "-module gate")
    if not change.startswith("mutate "):
        change = f"cd gate; {change}; cd .."
    return (f"read_rtlil {file}", f"copy {top}_mutant gold", f"rename {top}_mutant gate", change,
            "flatten gold gate", "memory_collect gold gate", "memory_map gold gate")


def _in_every_state(top, mutant, file):
    yosys(
        *_pair(top, mutant, file),
        # A register that is constant is removed from both, or stays in both.
        "simplemap gold/t:$mux gate/t:$mux",
        "opt_expr gold gate",
        # Bit by bit, so that an unread register does not count.
        "opt_dff -nosdff gold gate",
        "simplemap gold/t:$dff* gate/t:$dff*",
        "splitnets gold gate",
        "opt_clean -purge gold gate",
        "dffunmap gold gate",
        "opt_clean -purge gold gate",
        "expose -dff -evert -evert-dff gold gate",
        "opt_clean gold gate",
        "miter -equiv -ignore_gold_x -make_assert -flatten gold gate both",
        "hierarchy -top both",
        "opt_merge -share_all",
        "opt_clean",
        "sat -verify -prove-asserts -set-def-inputs -enable_undef both",
        seconds=SECONDS,
    )
    return True


def _from_reset(top, mutant, file):
    with scratch() as place:
        return _write_both(place, _pair(top, mutant, file)) and holds(place)


def holds(place):
    """Returns True if ABC proves the assertions of the netlist both.il in a folder."""
    _write_aigers(place)
    zero, one = (ROOT / place / f"{name}.aig" for name in ("zero", "one"))
    if zero.read_bytes() == one.read_bytes():
        return _decided(place, zero.name)
    return _decided(place, zero.name) and _decided(place, one.name)


def _write_both(place, pair):
    """Writes both.il: gold and gate side by side. Returns False for a block without reset."""
    yosys(
        *pair,
        # Of cells only: a wire that is selected would become an output.
        "expose -evert gold/c:* gate/c:*",
        f"write_rtlil {place}/pair.il",
    )
    text = (ROOT / place / "pair.il").read_text()
    for name in ("gold", "gate"):
        text = _with_free_state(text, name)
    (ROOT / place / "free.il").write_text(text)
    yosys(
        f"read_rtlil {place}/free.il",
        "miter -equiv -make_assert -flatten gold gate both",
        "hierarchy -top both",
        "delete gold gate",
        f"write_rtlil {place}/made.il",
    )
    head, body, tail = _module((ROOT / place / "made.il").read_text(), "both")
    if not re.search(r"^  wire input \d+ .in_rst$", body, re.MULTILINE):
        return False
    body = re.sub(r"^  wire output \d+ (.trigger)$", r"  wire \1", body, flags=re.MULTILINE)
    body = re.sub(r"^  wire input \d+ (.in_efa_first)$",
                  r"  wire \1\n  attribute \\init 1'0\n  wire \\efa_later", body,
                  flags=re.MULTILINE)  # fmt: skip
    body = re.sub(r"(cell \$assert .*\n    connect .A .*\n    connect .EN) 1'1",
                  r"\1 \\efa_later", body)
    (ROOT / place / "both.il").write_text(head + body + FIRST_CYCLE + tail)
    return True


def _module(text, name):
    """Returns RTLIL text before a module, the module without its end, and the text after it."""
    begin = text.index(f"module \\{name}\n")
    end = text.index("\nend\n", begin)
    return text[:begin], text[begin:end], text[end + len("\nend\n") :]


def _with_free_state(text, name):
    """Adds inputs to a flat module of RTLIL text: while `efa_first` is 1, each register has the
    value of its input `efa_free_*`."""
    head, body, tail = _module(text, name)
    wires, muxes = ["  wire input 9999 \\efa_first\n"], []

    def freed(match):
        cell = match.group(0)
        if not cell.startswith("  cell $dff "):
            return cell
        own = cell.partition("\n")[0].split(" ")[-1].replace("\\", "/")
        width = re.search(r"parameter .WIDTH (\d+)", cell).group(1)
        value = re.search(r"\n    connect .Q (.*)", cell).group(1)
        wires.append(f"  wire width {width} \\efa_reg_{own}\n"
                     f"  wire width {width} input {FREE + len(wires)} \\efa_free_{own}\n")
        muxes.append(f"\n  cell $mux \\efa_mux_{own}\n    parameter \\WIDTH {width}\n"
                     f"    connect \\A \\efa_reg_{own}\n    connect \\B \\efa_free_{own}\n"
                     f"    connect \\S \\efa_first\n    connect \\Y {value}\n  end")
        return cell.replace(f"connect \\Q {value}", f"connect \\Q \\efa_reg_{own}")

    first, _, rest = CELL.sub(freed, body + "\n").rstrip("\n").partition("\n")
    return f"{head}{first}\n{''.join(wires)}{rest}{''.join(muxes)}\nend\n{tail}"


def _write_aigers(place):
    """Writes zero.aig and one.aig, which differ where the netlist has x."""
    for name in ("zero", "one"):
        yosys(
            f"read_rtlil {place}/both.il",
            "opt -full; async2sync; chformal -lower; opt_clean",
            "setundef -undriven -anyseq; opt -fast; opt_clean -purge",
            "formalff -setundef -clk2ff -ff2anyinit; opt -full",
            f"techmap; setundef -{name}; opt -fast; dffunmap; aigmap; setundef -{name}; opt_clean",
            f"write_aiger -I -B -zinit -no-startoffset {place}/{name}.aig",
            seconds=SECONDS,
        )


def _decided(place, name):
    """Returns True if ABC shows that block and mutant of a netlist never differ."""
    (ROOT / place / "carrier.v").write_text(CARRIER)
    answer = ROOT / place / "answer"
    for steps in STEPS:
        answer.unlink(missing_ok=True)
        script = f"read_aiger,{place}/{name};fold;strash;{steps};write_status,{place}/answer"
        try:
            yosys(f"read_verilog {place}/carrier.v; techmap; abc -script +{script}",
                  seconds=SECONDS)
        except YosysLate:
            raise
        except YosysFailed:
            pass  # ABC returns no netlist
        text = answer.read_text() if answer.exists() else ""
        if not text.startswith("snl_UNK"):
            return text.startswith("snl_UNSAT")
    return False
