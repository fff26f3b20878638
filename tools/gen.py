# SPDX-License-Identifier: Apache-2.0
"""Generates headers, Python layouts and reference pages from spec/, rtl/, formal/ and docstrings;
--check lists stale files."""

import argparse
import sys
from pathlib import Path

import formal_claims
import gen_api
import gen_c
import gen_docs
import gen_fields
import gen_modules
import gen_python
import gen_stub
import gen_uvm
import gen_verilog
from formal_job import PlanFault
from spec_model import SpecError
from spec_read import load

ROOT = Path(__file__).resolve().parent.parent

OUTPUTS = {
    "rtl/gen/efa_defs.vh": gen_verilog.header,
    "model/efa_cosim/layouts/defs.py": gen_python.module,
    "model/efa_cosim/layouts/defs.pyi": gen_stub.module,
    "model/efa_cosim/layouts/fields.py": gen_fields.module,
    "tb/native/efa_defs.h": gen_c.header,
    "tb/env/register_model.py": gen_uvm.registers,
    "docs/registers.md": gen_docs.registers,
    "docs/layouts.md": gen_docs.layouts,
    "docs/commands.md": gen_docs.commands,
}


def generate(root):
    """Returns the text of each generated file of the tree at root, by its path."""
    spec = load(root / "spec")
    texts = {path: make(spec) for path, make in OUTPUTS.items()}
    if (root / "rtl/files.f").exists():
        texts["docs/modules.md"] = gen_modules.page(root)
    if (root / "examples").exists():
        texts["docs/api.md"] = gen_api.page(root)
    if (root / "formal").exists():
        texts["docs/proofs.md"] = formal_claims.page(root / "formal")
    return texts


def stale(root, texts):
    """Returns the paths whose file is missing or differs from the text generated now."""
    return [
        path
        for path, text in texts.items()
        if not (root / path).is_file() or (root / path).read_text(encoding="utf-8") != text
    ]


def main(arguments=None):
    """Executes the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on stale files")
    parser.add_argument("--root", type=Path, default=ROOT, help="tree to work on")
    options = parser.parse_args(arguments)
    try:
        texts = generate(options.root)
    except (SpecError, PlanFault) as error:
        print(error, file=sys.stderr)
        return 1
    old = stale(options.root, texts)
    for path in old:
        if options.check:
            print(f"{path} is stale: run tools/gen.py", file=sys.stderr)
            continue
        (options.root / path).parent.mkdir(parents=True, exist_ok=True)
        (options.root / path).write_text(texts[path], encoding="utf-8")
        print(f"wrote {path}")
    return 1 if options.check and old else 0


if __name__ == "__main__":
    sys.exit(main())
