"""Of which text each block of formal/ was proven: a digest a block in formal/proven.json.

A whole run of a block in which no property fails writes its digest. `make lint` compares, so
RTL that its proofs have not seen does not land. What counts is what the solver gets: the wrapper,
the RTL under it, the definitions that these use, jobs and assumptions; not comments and layout.
"""

import hashlib
import json
import re

from formal_job import HOME, ROOT, PlanFault, misfit, read_block, sources

INCLUDE = re.compile(r'`include "(\w+\.vh)"')
DEFINITIONS = "efa_defs.vh"


def bare(text):
    """Verilog without comments and layout."""
    return " ".join(re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S).split())


def digest(block):
    """Sixteen hex digits for all that the proofs of a block depend on."""
    texts = {str(block.wrapper.relative_to(ROOT)): block.wrapper.read_text()}
    texts |= {name: (ROOT / name).read_text() for name in sources(block.wrapper)}
    todo = {name for text in texts.values() for name in INCLUDE.findall(text)}
    while todo:
        name = todo.pop()
        if name not in texts and name != DEFINITIONS:
            texts[name] = (ROOT / "rtl/include" / name).read_text()
            todo |= set(INCLUDE.findall(texts[name]))
    used = {name for text in texts.values() for name in re.findall(r"`(\w+)", text)}
    defined = [line for line in (ROOT / "rtl/gen" / DEFINITIONS).read_text().splitlines()
               if line.startswith("`define ") and re.split(r"[ (]", line)[1] in used]  # fmt: skip
    told = [{name: bare(text) for name, text in sorted(texts.items())}, defined, block.jobs,
            block.assumes, sorted(block.properties)]  # fmt: skip
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def read():
    """Digest by block, as of the last runs."""
    path = HOME / "proven.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(blocks):
    """Notes that these blocks were proven as they are."""
    told = read() | {block.name: digest(block) for block in blocks}
    (HOME / "proven.json").write_text(json.dumps(dict(sorted(told.items())), indent=1) + "\n")


def stale():
    """A line for each block that was not proven as it is, or whose planted bugs fit no more."""
    lines, told = [], read()
    blocks = [file.stem for file in sorted(HOME.glob("*.yaml"))]
    for name in blocks:
        try:
            block = read_block(HOME / f"{name}.yaml")
        except PlanFault as fault:
            lines.append(str(fault))
            continue
        files = sources(block.wrapper)
        for each in block.properties.values():
            lines += [text for bug in each["bugs"] if (text := misfit(bug, files))]
        if told.get(name) != digest(block):
            lines.append(f"formal/{name}: not proven as it is now: make formal BLOCK={name}")
    lines += [f"formal/proven.json: no block {name}" for name in sorted(set(told) - set(blocks))]
    return lines
