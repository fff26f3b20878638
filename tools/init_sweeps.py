# SPDX-License-Identifier: Apache-2.0
"""Proves that a fault in the AND of m_init_done terms does not change when a reset ends.

efa_reset ends a reset when all tables are initialised: s_init_done is the AND of the m_init_done of
all modules, level by level. A term is redundant if another term rises in the same cycle or later.

1. The AND is read from the netlists of the wiring modules. A fault removes terms.
2. For each module that gives a term, Icarus simulates the time from its reset to m_init_done = 1,
   with all other inputs at 0.
3. ABC proves that time for all values of the other inputs and of memories, from a reset on:
   m_init_done rises when a counter reaches this time, in a copy of the module whose registers keep
   their values from then on, and m_init_done stays 1 until the next reset. QUIET inputs are 0 in
   the copy until m_init_done rises.

Without a proof of its time a term counts as needed. A module begins with its own reset, which ends
with rst or before: efa_reset holds rst for longer than rst_por and m_host_rst.
"""

import copy
import json
import re
import subprocess
from functools import cached_property

import mutant_proofs
import wiring
from mutants import FLAGS, ROOT, YosysFailed, files_below, scratch, yosys

from tb.runner import closure
from tb.simulators import clean_environment

DONE, SINK, TOP = "m_init_done", ("u_reset", "s_init_done"), "efa_nic"
HOST = "efa_host"
ANDS = ("$logic_and", "$and", "$reduce_and")
# ABC ends without a proof of these after minutes.
UNPROVEN = ("efa_srd_sender",)
RESETS = {"efa_irq": "s_host_rst"}  # of a module, if not rst
# An assertion of the module (EFA_CHECK) excludes these in the time of the initialization.
QUIET = {"efa_sq_flush": ("s_clear_valid",)}
CYCLES = 10_000  # more than the longest initialization of the default build
BENCH = """
module bench;
reg clk = 0, rst = 1;
wire done;
integer n = 0;
gold gold(.clk(clk), .{reset}(rst), .m_init_done(done){others});
always #1 clk = !clk;
always @(posedge clk) begin
  rst <= 0;
  if (!rst) begin
    if (done === 1'b1 || n == {most}) begin
      if (done === 1'b1) $display("after %0d", n);
      $finish;
    end
    n <= n + 1;
  end
end
endmodule
"""
BOTH = """
module both(input clk, rst{inputs});
wire first, done;
held held(.clk(clk), .{reset}(rst), .m_init_done(first){quiet});
gold gold(.clk(clk), .{reset}(rst), .m_init_done(done){others});
reg [15:0] n = 0;
reg was_done = 0;
always @(posedge clk) begin
  if (rst) n <= 0;
  else if (n != 16'd{cycles}) n <= n + 1;
  was_done <= done && !rst;
end
always @* if (!rst) begin
  assert (first == (n == 16'd{cycles}));
  assert (done || !was_done);
end
endmodule
"""


class Sweeps:
    """The initialization of the default build."""

    def __init__(self):
        self._simulated, self._times = {}, {}

    @cached_property
    def modules(self):
        """The netlists of the wiring modules, {name: module}."""
        return {top: wiring.netlist(top, files_below(top)) for top in wiring.WIRING}

    def redundant(self, top, fault):
        """Returns True if the device becomes initialised in the same cycle with a fault.

        False if the fault changes anything other than an AND, or the proof fails.
        """
        cells = self.modules[top]["cells"]
        if any(cells[cell]["type"] not in ANDS for cell, _, _ in fault.changes):
            return False
        whole, left = self.terms(), self.terms(top, fault.changes)
        gone = whole - left
        if not gone or left - whole:
            return False
        # A proof takes much longer than the simulation whose time it confirms, so only times that
        # decide are proven.
        times = [self.simulated(*one[1:]) for one in gone]
        if None in times:
            return False
        later = [one for one in sorted(left) if (self.simulated(*one[1:]) or -1) >= max(times)]
        return (any(self.time(*one[1:]) is not None for one in later)
                and all(self.time(*one[1:]) is not None for one in gone))  # fmt: skip

    def terms(self, top=None, changes=()):
        """Returns {(path, module, parameters), ...} of all terms; `changes` are those of a fault in
        the module `top`."""
        changed = {(cell, port): bits for cell, port, bits in changes}

        def bits_of(module, cell, port):
            own = self.modules[module]["cells"][cell]["connections"][port]
            return changed.get((cell, port), own) if module == top else own

        def driver(module, bit):
            return next((
                (name, port) for name, cell in self.modules[module]["cells"].items()
                for port, bits in cell["connections"].items()
                if cell["port_directions"][port] == "output" and bit in bits
            ), None)  # fmt: skip

        def walk(module, path, bit):
            """Returns the terms of a bit in an instance of a wiring module."""
            if bit == "1":
                return set()
            found = driver(module, bit)
            if found is None:
                return outside(module, bit)
            name, port = found
            cell = self.modules[module]["cells"][name]
            kind = cell["type"]
            # && of wider operands is not the AND of their bits.
            if kind in ANDS and (kind == "$reduce_and" or len(bits_of(module, name, "A")) == 1):
                inputs = [one for which in cell["connections"] if which in ("A", "B")
                          for one in bits_of(module, name, which)]  # fmt: skip
                return set().union(*(walk(module, path, one) for one in inputs))
            if kind in self.modules and port == DONE:
                at = bits_of(module, name, port).index(bit)
                return walk(kind, (*path, name), self.modules[kind]["ports"][DONE]["bits"][at])
            parameters = tuple(sorted(cell["parameters"].items()))
            return {((*path, name), kind, parameters)}

        def outside(module, bit):
            """Returns the terms of an input of efa_host in efa_nic."""
            ports = self.modules[module]["ports"].items()
            port, at = next((port, one["bits"].index(bit)) for port, one in ports
                            if one["direction"] == "input" and bit in one["bits"])  # fmt: skip
            name = next(name for name, cell in self.modules[TOP]["cells"].items()
                        if cell["type"] == module)  # fmt: skip
            return walk(TOP, (), bits_of(TOP, name, port)[at])

        [bit] = bits_of(HOST, *SINK)
        return walk(HOST, (HOST,), bit)

    def time(self, kind, parameters):
        """Returns the proven cycles from the reset to m_init_done = 1, or None without a proof."""
        key = kind, parameters
        if key not in self._times:
            cycles = self.simulated(kind, parameters)
            self._times[key] = None if cycles is None else _tried(
                _proven, kind, parameters, QUIET.get(kind, ()), cycles)  # fmt: skip
        return self._times[key]

    def simulated(self, kind, parameters):
        """Returns the cycles from the reset to m_init_done = 1 with all other inputs at 0, or None.
        """
        key = kind, parameters
        # Logic between modules has no time.
        if kind[0] == "$" or kind in UNPROVEN:
            return None
        if key not in self._simulated:
            self._simulated[key] = _tried(_simulated, kind, parameters)
        return self._simulated[key]


def _tried(find, kind, parameters, *more):
    """Returns the result of `find` on the netlist of a module in a new folder, None if Yosys
    rejects it or the module has no reset."""
    reset = RESETS.get(kind, "rst")
    with scratch() as place:
        try:
            _write_gold(kind, parameters, place)
            text = json.loads((ROOT / place / "gold.json").read_text())
            if reset in text["modules"]["gold"]["ports"]:
                return find(place, text, reset, *more)
        except YosysFailed:
            pass
    return None


def _proven(place, text, reset, silent, cycles):
    """Returns `cycles` if they are proven to be the time of a module whose inputs `silent` are 0
    until then, else None."""
    folder, modules = ROOT / place, text["modules"]
    ports = modules["gold"]["ports"]
    _begin_after_reset(modules["gold"], reset)
    modules["held"] = _held(modules["gold"])
    (folder / "gold.json").write_text(json.dumps(text))
    free = [(name, len(port["bits"])) for name, port in ports.items()
            if port["direction"] == "input" and name not in ("clk", reset)]  # fmt: skip
    inputs = "".join(f", input [{width - 1}:0] \\{name} " for name, width in free)
    others = "".join(f", .\\{name} (\\{name} )" for name, _ in free)
    quiet = others
    for name in silent:
        quiet = quiet.replace(f"(\\{name} )", f"(\\{name} & first)")
    text = BOTH.format(inputs=inputs, others=others, quiet=quiet, reset=reset, cycles=cycles)
    (folder / "both.v").write_text(text)
    yosys(f"read_json {place}/gold.json", f"read_verilog -formal {place}/both.v",
          "hierarchy -check -top both", "proc", "flatten", f"write_rtlil {place}/both.il")
    return cycles if mutant_proofs.holds(place) else None


def _write_gold(kind, parameters, place):
    """Writes gold.json and gold.v: the logic of m_init_done of a module, memories outside."""
    chosen = "".join(f" -chparam {name} {int(value, 2)}" for name, value in parameters)
    files = " ".join(str(path.relative_to(ROOT)) for path in closure(kind))
    only = f"delete -port gold/o:* gold/o:{DONE} %d; opt_clean -purge"
    yosys(f"read_verilog -defer {FLAGS} {files}", f"hierarchy -check -top {kind}{chosen}",
          "proc -norom", "flatten", "rename -top gold", only, "opt_expr", "memory_collect",
          "opt_clean -purge", "expose -evert gold/t:$mem*", only,
          "opt_dff", "opt_clean", f"write_json {place}/gold.json",
          f"write_verilog -noattr {place}/gold.v")  # fmt: skip


def _begin_after_reset(module, reset):
    """Gives each register of a netlist that the reset sets this value as initial value; the other
    registers may begin with any value."""
    reset = module["ports"][reset]["bits"]
    for name, cell in list(module["cells"].items()):
        at = cell["connections"]
        if at.get("SRST") == reset and int(cell["parameters"]["SRST_POLARITY"], 2):
            module["netnames"][f"init_{name}"] = {
                "hide_name": 0, "bits": at["Q"],
                "attributes": {"init": cell["parameters"]["SRST_VALUE"]},
            }  # fmt: skip


def _held(module):
    """Returns a copy of a netlist whose registers keep their values while m_init_done is 1."""
    held = copy.deepcopy(module)
    fresh = wiring.free_bit(held)
    for name, cell in list(held["cells"].items()):
        at = cell["connections"]
        if "Q" in at and "D" in at:
            bits = list(range(fresh, fresh + len(at["D"])))
            fresh += len(bits)
            wiring.add_mux(held, f"hold_{name}", at["D"], at["Q"], module["ports"][DONE]["bits"],
                           bits)  # fmt: skip
            at["D"] = bits
    return held


def _simulated(place, text, reset):
    """Returns the cycles from the reset to m_init_done = 1 with all other inputs at 0, or None."""
    ports = text["modules"]["gold"]["ports"]
    inputs = [name for name, port in ports.items() if port["direction"] == "input"]
    others = "".join(f", .\\{name} ('0)" for name in inputs if name not in ("clk", reset))
    text = BENCH.format(others=others, most=CYCLES, reset=reset)
    (ROOT / place / "bench.v").write_text(text)
    done = subprocess.run(
        ["iverilog", "-g2012", "-o", "bench.vvp", "bench.v", "gold.v"],
        cwd=ROOT / place, env=clean_environment("icarus"), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise YosysFailed(done.stderr)
    done = subprocess.run(["vvp", "-n", "bench.vvp"], cwd=ROOT / place, capture_output=True,
                          env=clean_environment("icarus"), text=True, check=True)  # fmt: skip
    found = re.search(r"^after (\d+)$", done.stdout, re.MULTILINE)
    return int(found.group(1)) if found else None
