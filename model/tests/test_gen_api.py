# SPDX-License-Identifier: Apache-2.0
"""Tests the page of the Python interface: it repeats signatures and docstrings, and shows what the
programs of examples/ use."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import gen_api  # noqa: E402 - needs the path above
from gen_api import Entry, Section  # noqa: E402
from spec_model import SpecError  # noqa: E402

LONG = "A_LONG_NAME_OF_A_PARAMETER"
TOY = f'''
from dataclasses import dataclass, field
from efa_cosim.other import FAR

NEAR = 5_000

class ToyError(Exception):
    """The toy is broken."""

class Base:
    """Has legs."""

class Toy(Base):
    """A toy; `make` returns it.

    - `make`: who made it
    - `legs`: number of legs
    """

    def __init__(self, legs, make=NEAR):
        """Not shown."""

    def walk(self, far=FAR, *feet, name: "str" = 'x', **more):
        """Walks.

        Raises ToyError.
        """

    @property
    def legs(self):
        """Number of legs."""

    @classmethod
    def old(cls):
        """Returns an old `Toy`."""

    @staticmethod
    def count(legs):
        """Returns a number."""

    async def run(self):
        """Runs."""

    def oil(self):
        """Oils it."""

    def _hidden(self):
        pass

@dataclass
class Box:
    """Holds toys."""

    size: int
    toys: list[Toy] = field(default_factory=list)

def make({LONG}_1: int, {LONG}_2: str = "a b", {LONG}_3: int | None = None) -> Toy:
    """Makes a toy."""

def silent():
    pass
'''


@pytest.fixture
def page(tmp_path):
    """The page of a toy module, with the entries of the test."""
    folder = tmp_path / "model/efa_cosim"
    folder.mkdir(parents=True)
    (folder / "toy.py").write_text(TOY)
    (folder / "other.py").write_text("FAR = (1, 2)\n")

    def write(*entries):
        shown = [Entry(f"efa_cosim.toy:{name}", hidden) for name, *hidden in entries]
        return gen_api.page(tmp_path, (Section("Toys", "For play.", tuple(shown)),))

    return write


def test_a_class_has_its_constructor_its_methods_and_its_links(page):
    text = page(("Toy", "oil"), ("Base",), ("make",))
    shown = text[text.index("### Toy") : text.index("### Base")]
    assert shown == '''\
### Toy

`from efa_cosim.toy import Toy`

A toy; [`make`](#make) returns it.

```python
Toy(legs, make=5_000)
```

- `make`: who made it
- `legs`: number of legs

Methods and properties, besides those of [`Base`](#base):

- `walk(far=(1, 2), *feet, name: str = "x", **more)`: Walks.

  Raises ToyError.
- `legs`: Number of legs.
- `Toy.old()`: Returns an old `Toy`.
- `count(legs)`: Returns a number.
- `await run()`: Runs.

'''.replace("old `Toy`", "old [`Toy`](#toy)")


def test_a_data_class_has_its_fields_and_an_error_its_text(page):
    text = page(("Box",), ("ToyError",))
    assert "\nBox(size: int, toys: list[Toy] = list())\n" in text
    assert text.endswith("`from efa_cosim.toy import ToyError`\n\nThe toy is broken.\n")


def test_a_long_call_breaks_between_parameters(page):
    lines = page(("make",)).split("\n")
    first = lines.index(f"make({LONG}_1: int, {LONG}_2: str = \"a b\",")
    assert lines[first + 1] == f"    {LONG}_3: int | None = None) -> Toy"


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (("silent",), r"toy.py:\d+: silent is in docs/api.md and has no docstring: write one"),
        (("Lost",), "toy.py: no class or function Lost: correct PAGE"),
        (("Toy", "paint"), "toy.py: Toy has no method paint: correct PAGE"),
    ],
)
def test_a_wrong_entry_is_refused(page, entry, text):
    with pytest.raises(SpecError, match=text):
        page(entry)


def used_by_examples():
    """Returns the names that examples/ imports from the project, and those of their attributes."""
    imported, attributes = set(), set()
    for path in sorted((ROOT / "examples").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith(("efa_cosim", "tb")):
                imported |= {(node.module, one.name) for one in node.names}
            elif isinstance(node, ast.Attribute):
                attributes.add(node.attr)
    return imported, attributes


def test_the_page_shows_what_the_examples_import():
    page = (ROOT / "docs/api.md").read_text()
    imported, _ = used_by_examples()
    # Enums and constants of the host interface are in docs/layouts.md.
    wanted = {one for one in imported if one[0] != "efa_cosim.layouts.defs" and one[1] != "ROUGH"}
    missing = {one for one in wanted if "`from {} import {}`\n".format(*one) not in page}
    assert len(wanted) > 15 and not missing


def test_the_page_shows_the_methods_that_the_examples_call():
    page = (ROOT / "docs/api.md").read_text()
    _, attributes = used_by_examples()
    called = set()
    for section in gen_api.PAGE:
        for entry in section.entries:
            node = gen_api.Module(ROOT, entry.module).definition(entry.name)
            called |= attributes & {getattr(one, "name", "") for one in node.body}
    called.remove("__init__")
    missing = {name for name in called if not re.search(rf"`(await )?{name}(\(|`:)", page)}
    assert len(called) > 20 and not missing
