# SPDX-License-Identifier: Apache-2.0
"""Builds the device under the native bench and runs cocotb modules of tb/system on it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from efa_cosim.host.wc import StoreBuffer
from tb import code_coverage
from tb.runner import (
    OUT,
    Outcome,
    RunFailed,
    build,
    closure,
    counting,
    random_unknowns,
    run,
    system_name,
    waves_flags,
    waves_wanted,
    write_once,
)
from tb.scenarios.length import SHORT
from tb.simulators import OPTIMISED, ROOT, SimulatorMissing, clean_environment

NATIVE = ROOT / "tb" / "native"
PARTS = ("memory", "iommu", "host", "fabric", "perf_counters", "bench", "api")
LIBRARY = [NATIVE / f"{name}.cpp" for name in PARTS]
HEADERS = sorted(NATIVE.glob("*.h"))
TOP = "efa_tb"
DEVICES = "DEVICES"
# Code coverage counts the wiring modules here; the unit benches count the other modules.
COUNTED = ("efa_nic.v", "efa_data_path.v", "efa_tx_engine.v", "efa_sq_engine.v",
           "efa_transport_engine.v", "efa_rx_engine.v", "efa_cq_engine.v")  # fmt: skip
# No flags of the compiler: the builds share the objects of Verilator's library with unit benches.
VERILATOR = [
    "--assert", "-Wno-fatal", "--noassert-case", "-LDFLAGS", "-rdynamic", "--output-split", "20000",
    # The time of the compiler grows faster than the length of a function.
    "--output-split-cfuncs", "2000",
]  # fmt: skip
# FAST lets the optimiser choose the values of unknowns; registers and memories begin at 0 or, with
# random_unknowns, at random. PLAIN draws all unknowns and does not optimise.
FAST = ["-O3", "--x-assign", "fast", "--x-initial", "unique"]
PLAIN = ["--x-assign", "unique", "--x-initial", "unique"]


def native_module() -> Path:
    """Returns the folder of efa.vpi, the native library for Icarus."""
    compiler = shutil.which("iverilog-vpi")
    if compiler is None:
        raise SimulatorMissing("icarus: iverilog-vpi is not installed")
    sources = [*LIBRARY, NATIVE / "main_icarus.cpp"]
    state = hashlib.sha256()
    for path in [*sources, *HEADERS]:
        state.update(path.read_bytes())
    folder = OUT / "build" / f"native-{state.hexdigest()[:16]}"
    if (folder / "efa.vpi").exists():
        return folder
    part = folder.with_name(f"{folder.name}.{os.getpid()}")
    part.mkdir(parents=True, exist_ok=True)
    flags = subprocess.run([compiler, "--cflags"], capture_output=True, text=True, check=True)
    command = ["g++", *flags.stdout.split(), "-std=c++17", "-O2", "-fPIC", "-shared", f"-I{NATIVE}"]
    command += [*map(str, sources), "-o", str(part / "efa.vpi")]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment("icarus"))
    if done.returncode != 0:
        raise RunFailed(f"native library does not build\n{done.stderr[-4000:]}")
    try:
        part.rename(folder)
    except OSError:
        shutil.rmtree(part)
    return folder


def build_system(
    sim: str, params: dict, extra: tuple[str, ...] = (), plain: bool = False
) -> tuple[Path, list[str]]:
    """Returns the built device and its simulation arguments; `extra` sources replace by name.

    A build for Verilator has one device, which the native main instantiates once or twice.
    """
    sources = closure(TOP, extra)
    waves = waves_wanted()
    if sim == "icarus":
        folder = build(sim, TOP, sources, params, ["-g2005"], waves)
        return folder, [f"-M{native_module()}", "-mefa"]
    params = {name: value for name, value in params.items() if name != DEVICES}
    control = OUT / "control" / "efa_tb.vlt"
    write_once(control, f'`verilator_config\npublic_flat_rw -module "{TOP}" -var "wake"\n')
    build_args = VERILATOR + (PLAIN if plain else FAST) + (waves_flags() if waves else [])
    build_args += [str(path) for path in LIBRARY]
    more, flags = counting(TOP, sources, COUNTED)
    files, build_args = [*more, control, *sources], build_args + flags
    main = NATIVE / "main_verilator.cpp"
    folder = build(sim, TOP, files, params, build_args, waves, (*LIBRARY, *HEADERS, main), main,
                   "-O0" if plain else OPTIMISED)  # fmt: skip
    return folder, []


def run_system(
    test_module: str,
    sim: str,
    seed: int,
    params: dict | None = None,
    test: str | None = None,
    env: dict[str, str] | None = None,
    extra: tuple[str, ...] = (),
    store_buffer: StoreBuffer | None = None,
    plain: bool = False,
    unknowns: bool = False,
    short: bool = False,
) -> Outcome:
    """Runs a cocotb module on the whole device; `params` are those of efa_tb (DEVICES, QPN_W, ...).

    `store_buffer` is that of the hosts' CPUs; without a value the seed draws it. `unknowns`
    starts the registers and memories of a Verilator build at random values of the seed. `plain`
    builds for Verilator without optimisation and draws all other unknowns, too. `short` runs long
    scenarios with fewer rounds (tb/scenarios/length.py).
    """
    params = params or {}
    buffer = store_buffer or StoreBuffer.drawn(seed)
    folder, test_args = build_system(sim, params, extra, plain)
    name = system_name(test_module)
    wanted = {"EFA_SIM": sim, "EFA_PARAMS": json.dumps(params), "EFA_STORE_BUFFER": str(buffer),
              SHORT: str(int(short)), **(env or {})}  # fmt: skip
    if "EFA_COVERAGE" in os.environ:
        wanted["EFA_COVERAGE"] = os.environ["EFA_COVERAGE"]
    plusargs = random_unknowns(seed) if plain or unknowns else []
    plusargs += code_coverage.arguments(Path(name).stem)
    plusargs.append(f"+efa_devices={params.get(DEVICES, 1)}")
    if sim == "icarus":
        wanted["EFA_NATIVE"] = str(Path(test_args[0][2:]) / "efa.vpi")
    return run(
        "system", name, sim, TOP, folder, test_module, seed, params, test, wanted, test_args,
        plusargs=plusargs if sim == "verilator" else [], waves=waves_wanted(),
        options=f" --store-buffer {buffer}{' --short' if short else ''}",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit("use: python -m tb.runner system <module>")
