# SPDX-License-Identifier: Apache-2.0
"""Finds the bits of the RTL that are constant in every build of the device, by Yosys.

For each build, Yosys flattens the device, keeps the names, and propagates constants through logic
and registers; the inputs of the device are free. A bit is constant if each of its instances is
constant in each build. The method is sound, not complete: it finds no constant that needs an
invariant of several registers.

The result for the present sources is kept in sim/out/constant_bits.
"""

import hashlib
import json
import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from mutants import FLAGS, ROOT, scratch, yosys

from efa_cosim.jobs.progress import Progress
from tb.perf.rows import PARAMETERS as BUILDS
from tb.runner import closure

TOP = "efa_nic"
KEPT = ROOT / "sim/out/constant_bits"
# `opt -full` would choose a value where the RTL leaves one open; no constant may depend on that.
PASSES = ("proc", "flatten", "opt", "simplemap", "opt")
CONSTANTS = ("0", "1")


class Signal(NamedTuple):
    """A signal of the flattened device, declared in a line of a file; masks of its bits: present,
    and constant."""

    file: str
    line: int
    name: str
    present: int
    constant: int


class ConstantBits:
    """The constant bits of all signals, from {build: signals_of()}."""

    def __init__(self, builds):
        self._signals = defaultdict(list)
        for signals in builds.values():
            for one in signals:
                self._signals[one.file, one.line].append(one)

    def has(self, file, line, name, bit):
        """Returns True if the bit of the signal declared there is constant; `name` is without the
        path of the instance."""
        own = [
            one.constant >> bit & 1
            for one in self._signals.get((file, line), ())
            if one.present >> bit & 1 and f".{one.name}".endswith(f".{name}")
        ]
        return bool(own) and all(own)


def signals_of(netlist):
    """Returns the Signal of each named signal of a flattened module in Yosys's JSON form."""
    found = []
    for name, net in netlist["netnames"].items():
        file, _, place = net["attributes"].get("src", "").partition("|")[0].rpartition(":")
        if net.get("hide_name") or not place:
            continue
        lowest, bits = net.get("offset", 0), net["bits"]
        constant = sum(1 << at for at, bit in enumerate(bits) if bit in CONSTANTS)
        found.append(Signal(file, int(place.partition(".")[0]), name,
                            (1 << len(bits)) - 1 << lowest, constant << lowest))  # fmt: skip
    return found


def run(parameters, files, top=TOP):
    """Returns the signals of one build; raises mutants.YosysFailed."""
    chosen = "".join(f" -chparam {name} {value}" for name, value in parameters.items())
    with scratch() as folder:
        yosys(f"read_verilog -defer {FLAGS} {' '.join(files)}",
              f"hierarchy -check -top {top}{chosen}", *PASSES,
              f"write_json {folder}/flat.json")  # fmt: skip
        return signals_of(json.loads((ROOT / folder / "flat.json").read_text())["modules"][top])


def find():
    """Returns the ConstantBits of the present sources; the first call for them takes minutes."""
    sources, headers = closure(TOP), sorted((ROOT / "rtl").rglob("*.vh"))
    state = hashlib.sha256(json.dumps([BUILDS, PASSES, FLAGS]).encode())
    for path in (Path(__file__), ROOT / "requirements.lock", *sources, *headers):
        state.update(path.read_bytes())
    kept = KEPT / f"{state.hexdigest()[:16]}.json"
    if not kept.exists():
        files, builds = [path.relative_to(ROOT).as_posix() for path in sources], {}
        with (Progress("constant bits", len(BUILDS)) as progress,
              ThreadPoolExecutor(os.cpu_count()) as pool):
            runs = {name: pool.submit(run, parameters, files)
                    for name, parameters in BUILDS.items()}  # fmt: skip
            for name, one in runs.items():
                builds[name] = one.result()
                progress.advance(note=f"build {name}")
        KEPT.mkdir(parents=True, exist_ok=True)
        for old in KEPT.glob("*.json"):
            old.unlink()
        kept.write_text(json.dumps(builds))
    builds = json.loads(kept.read_text())
    return ConstantBits({name: [Signal(*one) for one in own] for name, own in builds.items()})
