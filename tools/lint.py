# SPDX-License-Identifier: Apache-2.0
"""Lints everything: generated files, tree, proof digests, RTL with four tools, Python with three.

    tools/lint.py [--fix] [--only verilator] [--quick]

The tools accept different subsets of Verilog, so all of them run. Prints a line per step at its
end and the output of failed steps; exit status 1 if any step failed, 130 after an interrupt. --fix
formats instead. --quick leaves out Yosys, which takes longer than the other steps together.
"""

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import check_tree  # noqa: E402 - needs the path above
import interrupt  # noqa: E402 - needs the path above
import proven  # noqa: E402 - needs the path above
import stream_rule  # noqa: E402 - needs the path above
import yosys_run  # noqa: E402 - needs the path above

from tb.simulators import simulator_missing, verilator_bin  # noqa: E402

BIN = Path(sys.executable).parent
TOP = "efa_nic"
INCLUDES = ["-Irtl/gen", "-Irtl/include"]
NETLISTS = Path("sim/out/lint")
PYTHON = ["examples", "model", "tb", "tools"]
# Builds of the top that are linted: the default one, and builds that contain other blocks.
BUILDS = ({}, {"SQ_HOST": 1})
# Cells that Yosys splits into cells of one bit.
BY_BIT = "t:$mux t:$pmux t:$not t:$and t:$or t:$xor"


def sources():
    """Returns the RTL files in the order of rtl/files.f, relative to the project."""
    lines = (ROOT / "rtl/files.f").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def wrappers():
    """Returns the wrappers of the proofs, relative to the project."""
    return sorted(path.relative_to(ROOT) for path in (ROOT / "formal").rglob("*.v"))


def run(command):
    """Returns exit status and output of a command in the project's folder."""
    done = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def each_build(check):
    """Runs a check on all builds in parallel; returns exit status and output. The output names the
    build where it is not the default one."""
    failed, message = False, []
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(check, BUILDS))
    for build, (status, text) in zip(BUILDS, done, strict=True):
        failed |= bool(status)
        name = " ".join(f"{name}={value}" for name, value in build.items())
        message += [f"with {name}:"] * bool(text and build) + [text] * bool(text)
    return failed, "\n".join(message)


def tree():
    wrong = check_tree.check(ROOT)
    return bool(wrong), "\n".join(wrong)


def proofs():
    wrong = proven.stale()
    return bool(wrong), "\n".join(wrong)


def generated():
    return run([sys.executable, "tools/gen.py", "--check"])


def verilator():
    command = [verilator_bin() / "verilator", "--lint-only", "-Wall", "--language", "1364-2005"]

    def check(build):
        chosen = [f"-G{name}={value}" for name, value in build.items()]
        return run([*command, *INCLUDES, *chosen, "--top-module", TOP, *sources()])

    return each_build(check)


def icarus():
    reason = simulator_missing("icarus")
    if reason:
        return None, reason

    def check(build):
        chosen = [f"-P{TOP}.{name}={value}" for name, value in build.items()]
        status, text = run(["iverilog", "-g2005", "-Wall", "-Wno-timescale", *INCLUDES, *chosen,
                            "-s", TOP, "-t", "null", *sources()])  # fmt: skip
        lines = [line for line in text.splitlines() if "timescale" not in line]
        return status or bool(lines), "\n".join(lines)

    return each_build(check)


def yosys():
    """Reads all builds in one run, so that a module which does not differ between them is checked
    once."""
    (ROOT / NETLISTS).mkdir(parents=True, exist_ok=True)
    top, netlist = NETLISTS / "builds.v", NETLISTS / "builds.json"
    (ROOT / top).write_text(top_of_builds())
    script = f"read_verilog {' '.join(INCLUDES)} {' '.join(sources())} {top}; "
    script += f"hierarchy -check -top builds; proc -norom; write_json {netlist}; "
    # The time of `check` grows with the square of the width of a cell.
    script += f"simplemap {BY_BIT}; check -assert"
    status, text = yosys_run.run(script)
    wrong = [] if status else stream_rule.violations(ROOT / netlist)
    return status or bool(wrong), "\n".join([text] * bool(text) + wrong)


def top_of_builds():
    """Returns a module that contains each build of the top."""
    lines = []
    for number, build in enumerate(BUILDS):
        chosen = ", ".join(f".{name}({value})" for name, value in build.items())
        lines.append(f"  {TOP} {f'#({chosen}) ' * bool(build)}u_{number} ();\n")
    return f"module builds;\n{''.join(lines)}endmodule\n"


def verible():
    rules = "--rules_config=lint/verible.rules"
    wrong, text = run([BIN / "verible-verilog-lint", rules, *sources()])
    unformatted, message = run([*formatter(), "--verify", *sources(), *wrappers()])
    # The formatter leaves a file that it cannot read alone and ends with status 0.
    unread = "syntax error" in message
    note = "\nmake fmt mends it" * bool(unformatted)
    return wrong or unformatted or unread, text + message + note


def formatter():
    flags = (ROOT / "lint/verible.flags").read_text().split()
    return [BIN / "verible-verilog-format", *flags, "--inplace"]


def ruff():
    return run([BIN / "ruff", "check", *PYTHON])


def imports():
    return run([BIN / "lint-imports", "--no-cache"])


def types():
    return run([BIN / "mypy"])


# The longest ones first: two steps run at a time.
STEPS = {
    "yosys": yosys, "types": types, "generated files": generated, "tree": tree, "proofs": proofs,
    "verilator": verilator, "icarus": icarus, "verible": verible, "ruff": ruff,
    "imports": imports,
}  # fmt: skip


SLOW = ("yosys",)


def fix():
    """Formats Verilog and Python in place."""
    for command in (
        [*formatter(), *sources(), *wrappers()],
        [BIN / "ruff", "check", "--fix", "-q", *PYTHON],
    ):
        status, text = run(command)
        if status:
            print(text)
            return status
    return 0


def timed(name):
    """Runs a step; returns its name, exit status, output and seconds."""
    started = time.monotonic()
    status, text = STEPS[name]()
    return name, status, text, time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fix", action="store_true", help="format Verilog and Python instead")
    parser.add_argument("--only", choices=STEPS, help="one step")
    parser.add_argument("--quick", action="store_true", help="without the slow steps")
    options = parser.parse_args()
    interrupt.leave_on_interrupt("lint")
    if options.fix:
        return fix()
    chosen = [name for name in STEPS
              if options.only in (None, name) and not (options.quick and name in SLOW)]  # fmt: skip
    failed = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        for done in as_completed([pool.submit(timed, name) for name in chosen]):
            name, status, text, seconds = done.result()
            verdict = "skipped: " + text if status is None else "FAILED" if status else "ok"
            # In one piece, which an interrupt does not split.
            print(f"lint {name:16} {verdict} ({seconds:.1f} s)\n", end="", flush=True)
            if status:
                failed.append(name)
                print(text if len(text) < 6000 else text[:6000] + "\n...")
    if failed:
        print(f"lint: {', '.join(failed)} failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
