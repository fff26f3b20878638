# SPDX-License-Identifier: Apache-2.0
"""Checks the stream rule on a netlist: no `_valid` output depends on a `_ready` input in one cycle.

    for text in violations(Path("sim/out/lint/efa_nic.json")): print(text)

Reads the JSON netlist of Yosys (hierarchy; proc; opt_clean; write_json) and follows each ready
input of each module through combinational cells, across instances. Registers and memories with a
clocked read port end a path.
"""

import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

# Cells whose outputs change with the clock only, and cells without an output.
CLOCKED = re.compile(r"^\$_?(s|a|al)?dff|^\$dlatch|^\$sr$|^\$mem(wr(_v2)?)?$|^\$mem_v2$|"
                     r"^\$(assert|assume|cover|check|print|scopeinfo)$")  # fmt: skip
READ_PORTS = ("$memrd", "$memrd_v2")
# Cells in which bit i of an operand reaches bit i of the output alone.
BITWISE = ("$and", "$or", "$xor", "$xnor", "$mux", "$not", "$pos")


class Netlist:
    """Modules of a Yosys JSON netlist and the combinational paths through them."""

    def __init__(self, path: Path):
        self.modules = json.loads(path.read_text())["modules"]
        self._fanout = {name: self._fanout_of(module) for name, module in self.modules.items()}
        self.reached = cache(self._reached)

    def _is(self, direction, cell, port):
        if cell["type"] in self.modules:
            return self.modules[cell["type"]]["ports"][port]["direction"] == direction
        return cell["port_directions"][port] == direction

    def _fanout_of(self, module):
        """{net: [(cell, port, bit index)]} of the cell inputs of a module."""
        fanout = defaultdict(list)
        for cell in module["cells"].values():
            for port, bits in cell["connections"].items():
                if self._is("input", cell, port):
                    for index, bit in enumerate(bits):
                        if isinstance(bit, int):
                            fanout[bit].append((cell, port, index))
        return fanout

    def _through(self, cell, port, index):
        """Nets that one input bit of a cell reaches in the same cycle."""
        kind, connections = cell["type"], cell["connections"]
        if kind in self.modules:
            return [
                connections[out][bit] for out, bit in self.reached(kind, port, index)
                if out in connections and bit < len(connections[out])
            ]  # fmt: skip
        clocked_read = int(cell.get("parameters", {}).get("CLK_ENABLE", "0"), 2)
        if CLOCKED.match(kind) or (kind in READ_PORTS and clocked_read):
            return []
        if kind in BITWISE and port in ("A", "B"):
            return connections["Y"][index : index + 1]
        return [bit for out, bits in connections.items() if self._is("output", cell, out)
                for bit in bits]  # fmt: skip

    def _reached(self, name, port, index):
        """Output bits, {(port, bit)}, that an input bit of a module reaches in the same cycle."""
        module = self.modules[name]
        seen = {module["ports"][port]["bits"][index]}
        waiting = list(seen)
        while waiting:
            for cell, into, bit in self._fanout[name][waiting.pop()]:
                new = {net for net in self._through(cell, into, bit) if isinstance(net, int)} - seen
                seen |= new
                waiting += new
        return frozenset(
            (out, bit) for out, ports in module["ports"].items()
            if ports["direction"] == "output" for bit, net in enumerate(ports["bits"])
            if net in seen
        )  # fmt: skip


def violations(path: Path) -> list[str]:
    """Returns a line for each valid of a stream that depends on a ready input of its module. A
    valid without a ready of its own is a pulse, not a stream."""
    netlist, found = Netlist(path), set()
    for name, module in netlist.modules.items():
        plain = re.sub(r"^\$paramod(\$[0-9a-f]+)?\\", "", name).split("\\")[0]
        ports = module["ports"]
        for port in ports:
            if ports[port]["direction"] != "input" or not re.search(r"(^|_)ready$", port):
                continue
            for index in range(len(ports[port]["bits"])):
                for out, _ in netlist.reached(name, port, index):
                    if re.search(r"(^|_)valid$", out) and out[:-5] + "ready" in ports:
                        found.add(f"{plain}: {out} depends on {port} in the same cycle")
    return sorted(found)
