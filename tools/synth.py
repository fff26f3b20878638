# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of the RTL: cells, flip-flops, RAM bits and logic depth per module, by Yosys.

    tools/synth.py [--module efa_tx_engine ...] [--qpn-w 6] [--sq-host] [--jobs 2]

Each block is flattened and mapped to 6-input LUTs; `efa_ram` and `efa_ram_be` stay black boxes with
a registered output, their bits are reported. Latches, combinational loops, undriven or multiply
driven nets and paths of more than 14 levels fail. Result: reports/synth/summary.json.
"""

import argparse
import concurrent.futures
import json
import sys
import time
from collections import Counter
from pathlib import Path

import yaml
import yosys_run

from efa_cosim.jobs.progress import Progress

ROOT = Path(__file__).resolve().parent.parent
OUT = Path("sim/out/synth")
RAMS = {"efa_ram": "RAM", "efa_ram_be": "RAM"}
BLOCKS = (
    "efa_host",
    "efa_admin",
    "efa_qp_ctx",
    "efa_tx_engine",
    "efa_rx_engine",
    "efa_cq_engine",
    "efa_stats",
)
# Blocks that differ in the build with send queues in host memory.
SQ_HOST_BLOCKS = ("efa_host", "efa_admin", "efa_tx_engine")
MAX_DEPTH = 14  # maximum LUT levels between registers of a block
# Commands of ABC, which balance the logic for its depth before they map it. Those that Yosys uses
# otherwise keep its structure, and do not end on the largest block.
BALANCE = "+&st;&if,-g;&st;&if,-g;&st;&if;&mfs"


def sources():
    """Returns the source files in the order of rtl/files.f, relative to the project."""
    lines = (ROOT / "rtl/files.f").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def script(module, output, parameters):
    """Returns the Yosys commands for one block."""
    rams = [name for name in sources() if Path(name).stem in RAMS]
    rest = [name for name in sources() if Path(name).stem not in RAMS]
    flags = "-DSYNTHESIS -Irtl/gen -Irtl/include"
    chparam = "".join(f" -chparam {name} {value}" for name, value in parameters.items())
    return "; ".join(
        [
            f"read_verilog -lib {flags} {' '.join(rams)}",
            f"read_verilog -defer {flags} {' '.join(rest)}",
            f"hierarchy -check -top {module}{chparam}",
            "proc -noopt",
            "check -assert",
            f"scratchpad -set abc9.script {BALANCE}",
            f"synth -flatten -lut 6 -top {module}",
            "check -assert",
            f"write_json {output}",
        ]
    )


def levels(cells):
    """Returns the LUT levels of the longest path, and the nets where it begins and ends.

    Registers, black boxes and ports begin and end a path. Raises ValueError on a loop.
    """
    driver = {}
    for name, cell in cells.items():
        if cell["type"] == "$lut":
            driver[cell["connections"]["Y"][0]] = name
    depth, path = {}, {}
    for start in driver:
        stack = [start]
        while stack:
            net = stack[-1]
            inputs = [n for n in cells[driver[net]]["connections"]["A"] if n in driver]
            todo = [n for n in inputs if n not in depth]
            if not todo:
                worst = max(inputs, key=depth.__getitem__, default=None)
                depth[net] = 1 + (depth[worst] if worst is not None else 0)
                path[net] = worst
                stack.pop()
            elif any(n in path and path[n] == "open" for n in todo):
                raise ValueError(f"combinational loop through {driver[net]}")
            else:
                path[net] = "open"
                stack.append(todo[0])
    if not depth:
        return 0, None, None
    end = start = max(depth, key=depth.__getitem__)
    while path[start] is not None:
        start = path[start]
    return depth[end], cells[driver[start]]["connections"]["A"][0], end


def measure(module, parameters, label):
    """Returns the measurements of one block under its label; `error` if Yosys or a check rejects
    the block."""
    output = OUT / f"{label.replace(' ', '_')}.json"
    (ROOT / output).parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    status, text = yosys_run.run(script(module, output, parameters))
    measurements = {"module": label, "seconds": round(time.monotonic() - started, 1)}
    if status:
        tail = text.splitlines()[-4:]
        return {**measurements, "error": " | ".join(tail)}
    netlist = json.loads((ROOT / output).read_text())["modules"][module]
    cells = netlist["cells"]
    kinds = Counter(cell["type"].split("\\")[-1] for cell in cells.values())
    latches = sum(n for kind, n in kinds.items() if kind.startswith("$_DLATCH"))
    bits = 0
    for cell in cells.values():
        if cell["type"] in RAMS:
            width, depth = (int(cell["parameters"][p], 2) for p in ("WIDTH", "ADDR_W"))
            bits += width << depth
    try:
        depth, start, end = levels(cells)
    except ValueError as error:
        return {**measurements, "error": str(error)}
    # A path that ends in a register has the name of the register's output.
    for cell in cells.values():
        pins = cell["connections"]
        if "DFF" in cell["type"] and end in (pins["D"][0], pins.get("E", [None])[0]):
            end = pins["Q"][0]
            break
    names = {
        bit: f"{name}[{index}]"
        for name, net in netlist["netnames"].items()
        for index, bit in enumerate(net["bits"])
        if not net.get("hide_name")
    }
    measurements |= {
        "luts": kinds["$lut"],
        "flip_flops": sum(n for kind, n in kinds.items() if "DFF" in kind),
        "ram_bits": bits,
        "depth": depth,
        "depth_from": names.get(start, "an unnamed net"),
        "depth_to": names.get(end, "an unnamed net"),
    }
    if latches:
        measurements["error"] = f"{latches} latches"
    return measurements


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", action="append", help="only this block (again for more)")
    parser.add_argument("--qpn-w", type=int, help="log2 of QPs; default: that of the build")
    parser.add_argument("--sq-host", action="store_true",
                        help="named blocks in the build with send queues in host memory")
    parser.add_argument("--jobs", type=int, default=2, help="blocks at a time (default 2)")
    parser.add_argument("--out", type=Path, default=ROOT / "reports/synth/summary.json")
    options = parser.parse_args()
    jobs_of = [(name, options.sq_host) for name in options.module or BLOCKS]
    if not options.module:
        jobs_of += [(name, True) for name in SQ_HOST_BLOCKS]
    labels = [name + " SQ_HOST" * sq_host for name, sq_host in jobs_of]
    rows = []
    print(f"{'block':18} {'LUT6':>8} {'FF':>8} {'RAM bits':>11} {'depth':>6} {'s':>6}", flush=True)
    with (Progress("synth", len(jobs_of)) as progress,
          concurrent.futures.ThreadPoolExecutor(options.jobs) as pool):
        jobs = [
            pool.submit(measure, name, parameters_of(name, options.qpn_w, sq_host), label)
            for (name, sq_host), label in zip(jobs_of, labels, strict=True)
        ]
        for job in concurrent.futures.as_completed(jobs):
            row = job.result()
            rows.append(row)
            if "error" in row:
                print(f"{row['module']:18} FAILED: {row['error']}", flush=True)
            else:
                note = (
                    ""
                    if row["depth"] <= MAX_DEPTH
                    else f"  over {MAX_DEPTH}: {row['depth_from']} to {row['depth_to']}"
                )
                print(
                    f"{row['module']:18} {row['luts']:8} {row['flip_flops']:8} "
                    f"{row['ram_bits']:11} {row['depth']:6} {row['seconds']:6}{note}",
                    flush=True,
                )
            progress.advance(note=row["module"])
    rows.sort(key=lambda row: labels.index(row["module"]))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"max_depth": MAX_DEPTH, "blocks": rows}, indent=2) + "\n")
    failed = [row["module"] for row in rows if "error" in row or row["depth"] > MAX_DEPTH]
    verdict = (
        f"failed: {', '.join(failed)}"
        if failed
        else f"no latch, no loop, at most {MAX_DEPTH} levels"
    )
    print(f"synth: {len(rows)} blocks, {verdict}")
    return 1 if failed else 0


def parameters_of(module, qpn_w=None, sq_host=False):
    """Returns the parameters that a block gets from the top of the default device, or of a device
    of another size or with send queues in host memory."""
    limits = yaml.safe_load((ROOT / "spec/limits.yaml").read_text())["limits"]
    qpn_w = qpn_w or limits["qpn_w"]
    every = {
        "QPN_W": qpn_w, "CQN_W": qpn_w + 1, "LLQ_AW": limits["llq_bytes"].bit_length() - 1,
        "TAGS": limits["tags"], "TIMEOUT_CYCLES": limits["completion_timeout_cycles"],
        "SQ_HOST": int(sq_host),
    }  # fmt: skip
    lines = next(ROOT.glob(f"rtl/**/{module}.v")).read_text().splitlines()
    # A comment may contain the characters that end the list of ports.
    text = "\n".join(line.split("//")[0] for line in lines).split(");")[0]
    return {name: value for name, value in every.items() if f"parameter {name} " in text}


if __name__ == "__main__":
    sys.exit(main())
