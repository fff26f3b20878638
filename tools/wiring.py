# SPDX-License-Identifier: Apache-2.0
"""Builds mutants of the wiring: wrong, exchanged and tied connections of wiring modules.

`write` reads a wiring module with Yosys, lists every fault of its connections, draws some of them,
and writes the module with all drawn faults behind an input `mutsel`. `make` also returns the
faults. The classes of faults:

    exchange   two inputs of one instance, of equal width, get each other's wire; at a multiplexer
               of the glue logic, its two data inputs
    other      an input of an instance gets the most similar wire of equal width that an input of
               another instance has
    tie0 tie1  all bits of an input of an instance, or the select input of a multiplexer, are 0 or 1
    drop       one term of an AND or OR of the glue logic has no effect

The wrapper, the file `mutant` and the proofs are those of tools/mutants.py. The numbers of two
modules differ, so that one simulation holds the mutants of all wiring modules.
"""

import json
import re
from dataclasses import astuple, dataclass
from difflib import SequenceMatcher

import mutant_proofs
import mutants as netlists
from mutants import FLAGS, OUT, ROOT, Mutant, scratch, yosys

WIRING = ("efa_nic", "efa_data_path", "efa_tx_engine", "efa_sq_engine", "efa_transport_engine",
          "efa_rx_engine", "efa_cq_engine", "efa_admin", "efa_host")  # fmt: skip
NUMBERS = 1 << 12  # of each module
FORM = "3"  # of list and netlist; stored results of another form are invalid
CLOCKS = ("clk",)
PROOFS = ("proof",)  # netlists of mutants.PROOFS for the glue logic
TERMS = {"$logic_and": "1", "$and": "1", "$reduce_and": "1",
         "$logic_or": "0", "$or": "0", "$reduce_or": "0", "$reduce_bool": "0"}  # fmt: skip


@dataclass(frozen=True)
class Fault(Mutant):
    """A mutant that connects ports of cells to other drivers: ((cell, port, bits), ...)."""

    changes: tuple = ()


class Netlist:
    """A wiring module as Yosys's JSON netlist, and the names of its bits."""

    def __init__(self, top, module):
        self.top, self.module = top, module
        self.file = next((ROOT / "rtl").rglob(f"{top}.v")).relative_to(ROOT).as_posix()
        self.lines = (ROOT / self.file).read_text().split("\n")
        self.names = {}
        nets = sorted(module["netnames"].items(), key=lambda item: item[1]["hide_name"])
        self.nets = {name: net["bits"] for name, net in nets}
        for name, bits in self.nets.items():
            for at, bit in enumerate(bits):
                self.names.setdefault(bit, (name, at))

    def runs(self, bits):
        """Returns a bundle of bits as [(net or None, [index or constant, ...]), ...], lowest first.
        """
        found = []
        for bit in bits:
            name, at = (None, bit) if isinstance(bit, str) else self.names[bit]
            follows = name is None or (found and found[-1][1][-1] == at - 1)
            if found and found[-1][0] == name and follows:
                found[-1][1].append(at)
            else:
                found.append((name, [at]))
        return found

    def text(self, bits):
        """Formats a bundle of bits with the names of the source."""
        parts = []
        for name, at in reversed(self.runs(bits)):
            if name is None:
                ones = "".join(reversed(at))
                parts.append(f"{len(at)}'b{ones if len(set(ones)) > 1 else ones[0]}")
            elif len(at) == len(self.nets[name]):
                parts.append(name)
            else:
                parts.append(f"{name}[{at[-1]}:{at[0]}]" if len(at) > 1 else f"{name}[{at[0]}]")
        return parts[0] if len(parts) == 1 else "{" + ", ".join(parts) + "}"

    def expression(self, bits):
        """Formats a bundle of bits for Yosys's command line."""
        parts = []
        for name, at in reversed(self.runs(bits)):
            if name is None:
                parts.append(f"{len(at)}'{''.join(reversed(at))}")
            else:
                prefix = "" if name[0] in "\\$" else "\\"
                parts.append(f"{prefix}{name}[{at[-1]}:{at[0]}]")
        return "{" + ",".join(parts) + "}" if len(parts) > 1 else parts[0]

    def instances(self):
        """Returns the names of the cells that are modules of the project."""
        return [name for name, cell in self.module["cells"].items() if cell["type"][0] != "$"]

    def inputs(self, cell):
        """Returns {port: bits} of the inputs of a cell, without clocks."""
        cell = self.module["cells"][cell]
        return {
            port: tuple(bits) for port, bits in cell["connections"].items()
            if cell["port_directions"][port] == "input" and port not in CLOCKS
        }  # fmt: skip

    def line(self, cell, port):
        """Returns the number of the line where a port of a cell is connected, or of the cell."""
        place = self.module["cells"][cell]["attributes"]["src"].split("|")[0].rpartition(":")[2]
        numbers = [int(part.split(".")[0]) for part in place.split("-")]
        for number in range(numbers[0], numbers[-1] + 1):
            if re.search(rf"\.{re.escape(port)}\s*\(", self.lines[number - 1]):
                return number
        return numbers[0]


def _similar(one, other):
    """Returns the similarity of two names; highest between wires of one role, such as two _valid.
    """
    role = one.rpartition("_")[2] == other.rpartition("_")[2]
    return SequenceMatcher(None, one, other, autojunk=False).ratio() + role / 2


def _constant(bits, value):
    return tuple(value for _ in bits)


def _ties(bits):
    return [(f"tie{value}", _constant(bits, value)) for value in "01"
            if bits != _constant(bits, value)]  # fmt: skip


def faults(net):
    """Returns {(cell, port): [(class, text, changes), ...]}: all faults of a module, by their
    input."""
    found = {}
    inputs = {cell: net.inputs(cell) for cell in net.instances()}
    for cell, ports in inputs.items():
        exchanged = set()
        for port, bits in ports.items():
            here = found.setdefault((cell, port), [])
            for kind, value in _ties(bits):
                here.append((kind, net.text(bits), ((cell, port, value),)))

            def like(place, port=port, bits=bits):
                name, wire = place[1], place[2]
                return _similar(port, name) + _similar(net.text(bits), net.text(wire)), place[:2]

            same = [(cell, name, wire) for name, wire in ports.items()
                    if len(wire) == len(bits) and wire != bits]  # fmt: skip
            if same:
                _, name, wire = max(same, key=like)
                if frozenset((port, name)) not in exchanged:
                    changes = (cell, port, wire), (cell, name, bits)
                    here.append(("exchange", f"{net.text(bits)} with .{name}", changes))
                    exchanged.add(frozenset((port, name)))
            away = [(other, name, wire) for other, theirs in inputs.items() if other != cell
                    for name, wire in theirs.items() if len(wire) == len(bits) and wire != bits
                    and wire not in ports.values()]  # fmt: skip
            if away:
                other, name, wire = max(away, key=like)
                message = f"{net.text(bits)} is {net.text(wire)} of {other}.{name}"
                here.append(("other", message, ((cell, port, wire),)))
    for cell, made in net.module["cells"].items():
        if made["type"] in TERMS:
            for port, bits in net.inputs(cell).items():
                for at in range(len(bits)) if len(bits) <= 8 else ():
                    value = (*bits[:at], TERMS[made["type"]], *bits[at + 1 :])
                    message = net.text(bits[at : at + 1])
                    found.setdefault((cell, f"{port}{at}"), []).append(
                        ("drop", message, ((cell, port, value),))
                    )
        elif made["type"] == "$mux":
            ports = net.inputs(cell)
            here = found.setdefault((cell, "S"), [])
            for kind, value in _ties(ports["S"]):
                here.append((kind, net.text(ports["S"]), ((cell, "S", value),)))
            changes = (cell, "A", ports["B"]), (cell, "B", ports["A"])
            here.append(("exchange", net.text(ports["S"]), changes))
    return {place: there for place, there in found.items() if there}


def draw(found, top, count, seed):
    """Draws the faults of a list: first one of each input, then the others; count None: only the
    first. The draw of an input does not depend on the other inputs."""
    ranked = [
        (turn, netlists.rank(seed, top, place), place, fault)
        for place, there in found.items()
        for turn, fault in enumerate(
            sorted(there, key=lambda one: netlists.rank(seed, top, place, one[:2]))
        )
    ]
    drawn = [item[2:] for item in sorted(ranked, key=lambda item: item[:2])]
    return drawn[: len(found) if count is None else count]


def _change(net, changes):
    """Returns the Yosys commands that make a fault in the module where they run."""
    return "; ".join(
        f"connect -port {cell} {port} {net.expression(bits)}" for cell, port, bits in changes
    )


def free_bit(module):
    """Returns the first number of a bit that a module of a JSON netlist does not use."""
    used = [bit for net in module["netnames"].values() for bit in net["bits"]]
    return max(bit for bit in used if isinstance(bit, int)) + 1


def add_cell(module, kind, name, parameters, directions, connections):
    """Adds a cell to a module of a JSON netlist."""
    module["cells"][name] = {
        "hide_name": 0, "type": kind, "attributes": {}, "connections": connections,
        "parameters": {key: f"{value:032b}" for key, value in parameters.items()},
        "port_directions": directions,
    }  # fmt: skip


def add_mux(module, name, zero, one, select, chosen):
    """Adds a multiplexer to a module of a JSON netlist; all arguments are lists of bits."""
    add_cell(module, "$mux", name, {"WIDTH": len(zero)},
             {"A": "input", "B": "input", "S": "input", "Y": "output"},
             {"A": zero, "B": one, "S": select, "Y": chosen})  # fmt: skip


def _planted(module, drawn):
    """Inserts each fault into a module: a multiplexer, selected by its number, at each changed
    port."""
    fresh = free_bit(module)

    def bits(width):
        nonlocal fresh
        fresh += width
        return list(range(fresh - width, fresh))

    number = bits(netlists.NUMBER_W)
    module["ports"]["mutsel"] = {"direction": "input", "bits": number}
    module["netnames"]["mutsel"] = {"hide_name": 0, "bits": number, "attributes": {}}
    for fault in drawn:
        (hit,) = bits(1)
        wanted = list(reversed(f"{fault.number:0{netlists.NUMBER_W}b}"))
        add_cell(
            module, "$eq", f"mutant_{fault.number}",
            {"A_SIGNED": 0, "A_WIDTH": len(number), "B_SIGNED": 0, "B_WIDTH": len(number),
             "Y_WIDTH": 1},
            {"A": "input", "B": "input", "Y": "output"},
            {"A": number, "B": wanted, "Y": [hit]},
        )  # fmt: skip
        for at, (name, port, value) in enumerate(fault.changes):
            connected = module["cells"][name]["connections"]
            chosen = bits(len(value))
            add_mux(module, f"mutant_{fault.number}_{at}", connected[port], list(value), [hit],
                    chosen)  # fmt: skip
            connected[port] = chosen


def _read(top, others):
    """Returns the commands that read a wiring module; the modules below it stay black boxes."""
    file = next((ROOT / "rtl").rglob(f"{top}.v")).relative_to(ROOT)
    below = " ".join(str(path.relative_to(ROOT)) for path in others)
    return (f"read_verilog -lib {FLAGS} {below}", f"read_verilog -defer {FLAGS} {file}",
            f"hierarchy -check -top {top}", "proc -norom", "opt_clean",
            f"rename -top {top}_mutant")  # fmt: skip


def netlist(top, others):
    """Returns the netlist of a wiring module as a dict of Yosys's JSON format."""
    with scratch() as place:
        yosys(*_read(top, others), f"write_json {place}/base.json")
        return json.loads((ROOT / place / "base.json").read_text())["modules"][f"{top}_mutant"]


def make(top, others, count, seed, folder=None):
    """Returns (faults drawn, sources to build instead of the module's own, all faults); writes the
    files of the module as `write` does. A fault that was not drawn has no number."""
    sources = write(top, others, count, seed, folder)
    text = json.loads((sources[0].parent / "faults.json").read_text())

    def fault(number, name, file, line, command, changes):
        changes = tuple((cell, port, tuple(bits)) for cell, port, bits in changes)
        return Fault(number, name, file, line, command, changes)

    return [fault(*row) for row in text["drawn"]], sources, [fault(*row) for row in text["listed"]]


def write(top, others, count, seed, folder=None):
    """Writes a wiring module with its drawn faults; returns the sources to build instead of the
    module's own. `folder` of OUT gets the files. Those of an earlier call with the same inputs are
    used again."""
    folder = OUT / (folder or f"{top}.wiring")
    file = next((ROOT / "rtl").rglob(f"{top}.v"))
    key = netlists.inputs(file, others, {}, count, seed)
    netlists.make_once(folder, key, lambda: _write(folder, file, others, count, seed))
    return [ROOT / folder / f"{top}.v", ROOT / folder / f"{top}_mutant.v"]


def _write(folder, file, others, count, seed):
    top, name = file.stem, f"{file.stem}_mutant"
    yosys(*_read(top, others), f"write_rtlil {folder}/base.il", f"write_json {folder}/base.json")
    module = json.loads((ROOT / folder / "base.json").read_text())["modules"][name]
    net = Netlist(top, module)
    found = faults(net)

    def fault(number, place, what):
        (cell, port), (kind, message, changes) = place, what
        of = cell if cell[0] != "$" else cell.split("$")[1]
        return Fault(number, f"{kind} {of}.{port}: {message}", net.file, net.line(cell, port),
                     _change(net, changes), changes)  # fmt: skip

    begin = NUMBERS * WIRING.index(top) + 1
    drawn = [fault(number, *one) for number, one in enumerate(draw(found, top, count, seed), begin)]
    listed = [fault(0, place, what) for place, there in found.items() for what in there]
    text = {"drawn": [astuple(one) for one in drawn], "listed": [astuple(one) for one in listed]}
    (ROOT / folder / "faults.json").write_text(json.dumps(text))
    _planted(module, drawn)
    (ROOT / folder / "mutant.json").write_text(json.dumps({"modules": {name: module}}))
    yosys(
        f"read_json {folder}/mutant.json",
        f"write_verilog -noattr -noparallelcase {folder}/{name}.v",
    )
    netlists.write_proofs(folder, top, others, PROOFS)
    (ROOT / folder / f"{top}.v").write_text(netlists.wrapper(file.read_text(), {}))


class Below:
    """Analyses the ports of the modules in a wiring module: inputs without a reader, sources of
    outputs. Each kind of instance is analysed once. `sweeps` proves faults of init_done terms."""

    def __init__(self, top, others, folder=None, sweeps=None):
        self.top, self.others, self._requested = top, others, {}
        self._sweeps = sweeps
        self.folder = folder or f"{top}.wiring"
        base = json.loads((ROOT / OUT / self.folder / "base.json").read_text())
        self.module = base["modules"][f"{top}_mutant"]
        self._sources = {}

    def _ports_of(self, kind, parameters):
        """Returns ({input: mask of bits in use}, {output: bits, constants as text}, {bit of an
        input: (port, index)}) of a module."""
        key = kind, tuple(sorted(parameters.items()))
        if key not in self._requested:
            chosen = "".join(f" -chparam {name} {int(value, 2)}"
                             for name, value in parameters.items())  # fmt: skip
            below = " ".join(str(path.relative_to(ROOT)) for path in self.others)
            with scratch() as place:
                yosys(f"read_verilog -defer {FLAGS} {below}",
                      f"hierarchy -check -top {kind}{chosen}",
                      "proc -norom", "flatten", "opt_expr", "opt_clean -purge", "opt_expr",
                      "opt_merge", "opt_clean -purge",
                      f"write_json {place}/below.json")  # fmt: skip
                modules = json.loads((ROOT / place / "below.json").read_text())["modules"]
            module = next(one for one in modules.values() if one["attributes"].get("top"))
            used = set()
            for cell in module["cells"].values():
                for port, bits in cell["connections"].items():
                    if cell["port_directions"][port] == "input":
                        used.update(bits)
            inputs, outputs, entries = {}, {}, {}
            for port in module["ports"].values():
                if port["direction"] != "input":
                    used.update(port["bits"])
            for name, port in module["ports"].items():
                if port["direction"] == "input":
                    inputs[name] = [bit in used for bit in port["bits"]]
                    entries |= {bit: (name, at) for at, bit in enumerate(port["bits"])}
                else:
                    outputs[name] = port["bits"]
            self._requested[key] = inputs, outputs, entries
        return self._requested[key]

    def _of(self, cell):
        cell = self.module["cells"][cell]
        return self._ports_of(cell["type"], cell["parameters"])

    def _known(self, bit):
        """Returns the source of a bit: a constant, (instance, bit in it), or the bit. An instance
        that passes an input on has the source of the input."""
        if bit not in self._sources:
            self._sources[bit] = bit
            for name, cell in self.module["cells"].items():
                for port, bits in cell["connections"].items():
                    if (cell["type"][0] != "$" and bit in bits
                            and cell["port_directions"][port] != "input"):  # fmt: skip
                        _, outputs, entries = self._of(name)
                        driven = outputs[port][bits.index(bit)]
                        self._sources[bit] = (name, driven)
                        if driven in ("0", "1"):
                            self._sources[bit] = driven
                        elif driven in entries:
                            passed, at = entries[driven]
                            self._sources[bit] = self._known(cell["connections"][passed][at])
        return self._sources[bit]

    def same(self, fault):
        """Returns True if a fault changes nothing: each changed bit has no reader or the same
        source."""
        for name, port, bits in fault.changes:
            cell = self.module["cells"][name]
            inner = cell["type"][0] != "$"
            looked = self._of(name)[0][port] if inner else [True] * len(bits)
            for one, other, used in zip(cell["connections"][port], bits, looked, strict=False):
                if used and one != other and self._known(one) != self._known(other):
                    return False
        return True

    def equal(self, fault):
        """Returns True if a fault is proven equal to the module, None if only a timeout prevents
        it."""
        if self.same(fault):
            return True
        if any(self.module["cells"][cell]["type"][0] != "$" for cell, _, _ in fault.changes):
            return False
        if self._sweeps and self._sweeps.redundant(self.top, fault):
            return True
        return mutant_proofs.proved_equal(self.top, fault, self.folder, PROOFS)
