# SPDX-License-Identifier: Apache-2.0
"""Writes the page of the proofs: docs/proofs.md, and reports/formal/claims.md with verdicts.

One table lists each claim. A section per block lists its RTL, sizes, properties and
assumptions, and what is outside. The sources are formal/*.yaml and the wrappers;
tools/formal_job.py checks that they match.
"""

import re
import textwrap

from formal_job import COMMON, PROBE, bare, instances, kept, read_block

ASSUMED = re.compile(r"\ba_(\w+) ?: ?assume ?\((.*?)\) ?;")
WIRE = re.compile(r"\bwire (?:signed )?(?:\[[^\]]+\] ?)?(\w+) ?= ?(.*?);")


def inside(text):
    """Returns the labels of assumptions that read a signal inside the block, directly or through
    wires."""
    signals = {wire for _, wire in PROBE.findall(text)}
    plain = bare(re.sub(r"\(\*.*?\*\)", "", text))
    wires = {name: set(re.findall(r"\b[a-z_]\w*", value)) for name, value in WIRE.findall(plain)}
    while True:
        more = {name for name, used in wires.items() if used & signals} - signals
        if not more:
            break
        signals |= more
    return {
        label for label, value in ASSUMED.findall(plain)
        if label not in COMMON and set(re.findall(r"\w+", value)) & signals
    }  # fmt: skip


def sizes(job):
    """Describes the sizes of one proof."""
    message = {**job.get("parameters", {}), **job.get("defines", {})}
    text = ", ".join(f"{name} {value}" for name, value in message.items()) or "as built"
    left = ", ".join(job.get("anything", []))
    return text + (f"; any outputs of {left}" if left else "")


def _sentence(text):
    """Formats a text of the YAML as a sentence: one line, a capital unless it is a name, a full
    stop."""
    text = " ".join(text.split())
    if re.match(r"[a-z]+\b(?!_)", text):
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", ")")) else text + "."


def _wrapped(line, indent=""):
    """Wraps a line of prose to 120 characters."""
    return textwrap.wrap(line, 120, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def _proofs(block):
    """Returns the sizes of a block's proofs, {(engine, sizes): number from 1}, and for each
    property {number: whether covered}."""
    numbers, proven = {}, {name: {} for name in block.properties}
    for job in block.jobs:
        number = numbers.setdefault((job["engine"], sizes(job)), len(numbers) + 1)
        for name in kept(block, job):
            proven[name][number] = proven[name].get(number, False) or job.get("covers", True)
    return numbers, proven


def _section(block, status):
    """Formats one block: claim, properties, assumptions, constant inputs, exclusions."""
    text = block.wrapper.read_text()
    modules = sorted({module for module, _, _ in instances(text)})
    rtl = ", ".join(f"`{module}`" for module in modules)
    numbers, proven = _proofs(block)
    lines = [f"## {block.name}", "", *_wrapped(block.claim), "", *_wrapped(f"RTL: {rtl}."), ""]
    lines += ["Sizes, each with its engine:", ""]
    for (engine, size), number in numbers.items():
        lines += _wrapped(f"{number}. {engine}: {size}", "   ")
    head = "| property | statement | sizes |" + (" verdict |" if status else "")
    lines += ["", head, "|" + "---|" * (head.count("|") - 1)]
    for name, covered in proven.items():
        says = " ".join(block.properties[name]["says"].split())
        where = ", ".join(f"{number}{'' if covers else ' (no cover)'}"
                          for number, covers in covered.items())  # fmt: skip
        verdict = f" {status.get(f'{block.name}.{name}', 'not run')} |" if status else ""
        lines.append(f"| `{name}` | {says} | {where} |{verdict}")
    reads = dict.fromkeys(inside(text), " (reads a signal inside the block)")
    for title, rows in (
        (
            "Assumptions",
            [
                f"`a_{label}`{reads.get(label, '')}: {_sentence(message)}"
                for label, message in block.assumes.items()
            ],
        ),
        (
            "Models",
            [f"`{name}`: {_sentence(message)}" for name, message in block.models.items()],
        ),
        (
            "Constant inputs",
            [f"`{port}`: {_sentence(message)}" for port, message in block.ties.items()],
        ),
        ("Outside", map(_sentence, block.outside)),
    ):
        message = [line for row in rows for line in _wrapped(f"- {row}", "  ")]
        if message:
            lines += ["", f"{title}:", "", *message]
    return [*lines, ""]


def page(home, rows=()):
    """Returns the page of all blocks in the folder `home`; with rows of a run, each with its
    verdict."""
    blocks = [read_block(path) for path in sorted(home.glob("*.yaml"))]
    status = {}
    for row in rows:
        status.setdefault(row["name"], set()).add(row["status"])
    status = {name: ", ".join(sorted(each)) for name, each in status.items()}
    properties = sum(len(block.properties) for block in blocks)
    proofs = [job for block in blocks for job in block.jobs for _ in kept(block, job)]
    uncovered = sum(not job.get("covers", True) for job in proofs)
    lines = [
        "<!-- Written by tools/formal_claims.py from formal/. Do not edit. -->",
        "# Proven claims",
        "",
        f"{len(blocks)} claims, {properties} properties, {len(proofs)} proofs.",
        "A property proven at three sizes counts as one property and three proofs.",
        f"{uncovered} proofs at larger sizes have no cover of their own.",
        "Each property has a cover that is reached at one size at least.",
        "[formal.md](formal.md) explains how to run and read the proofs.",
        "",
        "Assumptions of every block (not repeated below):",
        "",
        *(f"- `a_{label}`: {message}." for label, message in COMMON.items()),
        "",
        "The section of a block lists its sizes, its assumptions and what is outside of the claim.",
        "The number of assumptions includes models and constant inputs.",
        "",
        "| block | claim | properties | sizes | assumptions | outside |",
        "|---|---|---|---|---|---|",
    ]
    for block in blocks:
        each = (block.properties, _proofs(block)[0], [*block.assumes, *block.models, *block.ties],
                block.outside)  # fmt: skip
        lines.append(f"| [{block.name}](#{block.name}) | {' '.join(block.claim.split())} |"
                     + "".join(f" {len(some)} |" for some in each))
    lines.append("")
    for block in blocks:
        lines += _section(block, status)
    return "\n".join(lines).rstrip() + "\n"
