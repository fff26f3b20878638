# SPDX-License-Identifier: Apache-2.0
"""Reads YAML files key by key; every error names file, line and key, and the permitted values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import yaml  # type: ignore[import-untyped]  # the library has no types

MOST_FILE_BYTES = 1 << 20
# With libyaml, the loader is seven times faster.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def contents(path: Path) -> Any:
    """Returns the contents of a YAML file of the project; raises OSError and yaml.YAMLError."""
    return parsed(path.read_text())


def parsed(text: str) -> Any:
    """Returns what a YAML text of the project holds; raises yaml.YAMLError."""
    return yaml.load(text, Loader=_LOADER)


class Allowed(Protocol):
    """The permitted values of a key; its text completes "must be"."""

    def read(self, node: yaml.ScalarNode) -> Any:
        """The value of a YAML scalar; raises ValueError if not permitted."""


@dataclass(frozen=True)
class Range:
    """Permitted whole numbers, from least to most."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"a whole number, {self.least} to {self.most}"

    def read(self, node: yaml.ScalarNode) -> int:
        """The value of a YAML scalar; raises ValueError if not permitted."""
        value = int(node.value, 0) if node.tag.endswith(":int") else None
        if value is None or not self.least <= value <= self.most:
            raise ValueError
        return value


# A number: whole or decimal, with or without exponent, or a fraction. All have few digits, since
# the value of a long exponent fills the memory.
_FORM = re.compile(r"([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][-+]?[0-9]{1,2})?"
                   r"|[0-9]{1,9}/[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class Number:
    """Permitted numbers, from least to most."""

    least: int | Fraction
    most: int | Fraction

    def __str__(self) -> str:
        return f"a number, {self.least} to {self.most}, such as 1, 0.5, 1e-3 or 1/3"

    def read(self, node: yaml.ScalarNode) -> Fraction:
        """The value of a YAML scalar; raises ValueError if not permitted."""
        if node.style is not None or not _FORM.fullmatch(node.value):
            raise ValueError
        value = Fraction(node.value)
        if not self.least <= value <= self.most:
            raise ValueError
        return value


@dataclass(frozen=True)
class Choice:
    """Permitted words."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"

    def read(self, node: yaml.ScalarNode) -> str:
        """The value of a YAML scalar; raises ValueError if not permitted."""
        if node.value not in self.words:
            raise ValueError
        word: str = node.value
        return word


class YamlFile:
    """A YAML file whose errors have a class of their own; `name` begins each text."""

    def __init__(self, name: str | Path, what: str, error: type[Exception]) -> None:
        """`what` the file should be, such as "a sweep file", completes errors; `error`: their
        class."""
        self.name, self.what, self.error = name, what, error

    def read(self) -> yaml.Node | None:
        """Returns the root node of the file `name`, None if it is empty; raises the error."""
        try:
            with Path(self.name).open("rb") as stream:
                text = stream.read(MOST_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise self.error(f"{self.name}: {why}; give the path of {self.what}") from None
        if len(text) > MOST_FILE_BYTES:
            raise self.error(f"{self.name}: more than {MOST_FILE_BYTES} bytes: not {self.what}")
        return self.parse(text)

    def parse(self, text: bytes | str) -> yaml.Node | None:
        """Returns the root node of a YAML text, None if it is empty; raises the error."""
        try:
            return yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark else 1
            why = getattr(error, "problem", None) or " ".join(str(error).split())
            raise self.error(f"{self.name}:{line}: no YAML: {why}") from None

    def at(self, node: yaml.Node | None, text: str) -> Exception:
        """Returns the error with this text at the line of a node."""
        return self.error(f"{self.name}:{line_of(node)}: {text}")

    def pairs(
        self, node: yaml.Node | None, known: Collection[str], form: str, key_path: str = ""
    ) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        """Yields (name, key, value) of a YAML mapping; raises the error for an unknown or repeated
        key, and for a node that is no mapping. `form` completes "expected a mapping"; `key_path`:
        keys that lead to the mapping, "" at the root."""
        where = f"{key_path}: " if key_path else ""
        if not isinstance(node, yaml.MappingNode):
            raise self.at(node, f"{where}expected a mapping {form}; found {kind_of(node)}")
        found = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "a nested value"
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
                raise self.at(key, f"{where}unknown key {name[:40]!r}; {hint}")
            if name in found:
                raise self.at(key, f"{where}{name!r} a second time")
            found.add(name)
            yield name, key, value

    def value(self, key_path: str, node: yaml.Node, allowed: Allowed) -> Any:
        """Returns the value of a key; raises the error.

        `allowed` is a Range, a Choice or anything with their method `read`.
        """
        try:
            if not isinstance(node, yaml.ScalarNode):
                raise ValueError
            return allowed.read(node)
        except ValueError as error:
            shown = node.value[:40] if isinstance(node, yaml.ScalarNode) else "a nested value"
            hint = f"; {error}" if str(error) and node.value else ""
            raise self.at(node, f"{key_path}: {shown!r} is not allowed, must be {allowed}"
                          f"{hint}") from None

    def values(self, key_path: str, node: yaml.Node, allowed: Allowed) -> tuple[Any, ...]:
        """Returns the values of a key, given as a list or as a single value; raises the error."""
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        values: list[Any] = []
        for item in items:
            value = self.value(key_path, item, allowed)
            if value in values:
                raise self.at(item, f"{key_path}: {value!r} a second time")
            values.append(value)
        if not values:
            raise self.at(node, f"{key_path}: the list is empty, must hold {allowed}")
        return tuple(values)


def line_of(node: yaml.Node | None) -> int:
    """Returns the line of a YAML node, 1 of an empty file."""
    return node.start_mark.line + 1 if node else 1


def kind_of(node: yaml.Node | None) -> str:
    """Returns the kind of a YAML node in words."""
    if node is None or (isinstance(node, yaml.ScalarNode) and not node.value):
        return "nothing"
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value[:40])
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
