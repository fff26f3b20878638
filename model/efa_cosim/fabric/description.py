# SPDX-License-Identifier: Apache-2.0
"""Reads fabric files: nodes, paths, ports and their faults in YAML, with one seed (docs/fabric.md).

Every error names file, line and key, and the permitted values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # the library has no types

from efa_cosim.yaml_file import Choice, Number, Range, YamlFile, kind_of, line_of

MOST_NODES = 64
MOST_PATHS = 8
# 0xffff is the node number of a packet without a destination.
MOST_NODE_NUMBER = 0xFFFE
MOST_CYCLES = MOST_COUNT = 10**6
MOST_TIME = 10**12
LEAST_RATE = Fraction(1, 1000)
CYCLES, PACKETS = "cycles", "packets"


class FabricFileError(Exception):
    """The file is no valid fabric; the text names file, line, key and error."""


@dataclass(frozen=True)
class Buffer:
    """Limits of a queue: packets, flits or both; None is no limit. A packet beyond one is dropped.
    """

    packets: int | None = None
    flits: int | None = None


@dataclass(frozen=True)
class RandomBurst:
    """Losses in bursts (Gilbert-Elliott).

    - `enter`: probability that a packet outside a burst begins one
    - `length`: mean length, in packets
    - `loss`: probability that a packet inside a burst is lost
    """

    enter: float
    length: float
    loss: float = 1.0


@dataclass(frozen=True)
class FixedBurst:
    """One burst of losses: `packets` packets from packet number `at` on."""

    at: int
    packets: int


@dataclass(frozen=True)
class Duplicate:
    """Copies of packets: a probability, and the most cycles that a copy arrives after the packet.
    """

    probability: float
    delay: int = 0


@dataclass(frozen=True)
class Reorder:
    """Packets that are held: a probability, the most later packets that pass a held packet (None:
    no limit), and the most cycles of its hold."""

    probability: float
    depth: int | None = None
    delay: int = 1000


@dataclass(frozen=True)
class Outage:
    """An interval in which a path is down: `first` belongs to it, `end` does not; None: forever.

    `unit`: `cycles`, or `packets`: numbers of the packets of a link.
    """

    first: int
    end: int | None = None
    unit: str = CYCLES


@dataclass(frozen=True)
class PathProperties:
    """Properties of a path from one node to another.

    - `latency`: cycles from the end of a packet on the link to its destination port
    - `rate`: flits per cycle
    - `buffer`: limits of the queue in front of the link
    - `loss`, `corrupt`: probabilities; the check of the link drops a corrupted packet
    - `burst`, `duplicate`, `reorder`: None or the fault
    - `down`: intervals in which packets on the path are lost
    """

    latency: int = 100
    rate: Fraction = Fraction(1)
    buffer: Buffer = Buffer()
    loss: float = 0.0
    burst: RandomBurst | FixedBurst | None = None
    duplicate: Duplicate | None = None
    reorder: Reorder | None = None
    corrupt: float = 0.0
    down: tuple[Outage, ...] = ()


@dataclass(frozen=True)
class PortProperties:
    """Properties of the link to a node, which all paths share: flits per cycle, limits of its
    queue."""

    rate: Fraction = Fraction(1)
    buffer: Buffer = Buffer()


@dataclass(frozen=True)
class Node:
    """A node of the fabric: number, backend of its device, port."""

    number: int
    backend: str = "model"
    port: PortProperties = PortProperties()


@dataclass(frozen=True)
class Override:
    """Properties of some paths that differ from the default.

    - `paths`: path numbers; None: all paths
    - `pairs`: (source, destination) of nodes; None: all pairs
    - `properties`: values by the names of PathProperties
    """

    paths: tuple[int, ...] | None
    pairs: tuple[tuple[int, int], ...] | None
    properties: Mapping[str, Any]

    @property
    def rank(self) -> int:
        """The precedence: a pair of nodes on a path, then a pair of nodes, then a path."""
        return 2 * (self.pairs is not None) + (self.paths is not None)

    def applies(self, path: int, source: int, destination: int) -> bool:
        """Returns True if the override applies to a path from one node to another."""
        return ((self.paths is None or path in self.paths)
                and (self.pairs is None or (source, destination) in self.pairs))


@dataclass(frozen=True)
class FabricDescription:
    """A fabric: seed, nodes, number of paths, properties of the paths.

    `read_fabric` and `parse_fabric` check all values; a description made in Python is not checked.
    """

    nodes: tuple[Node, ...]
    seed: int = 1
    paths: int = 1
    default: PathProperties = PathProperties()
    overrides: tuple[Override, ...] = ()

    def path(self, path: int, source: int, destination: int) -> PathProperties:
        """Returns the properties of a path from one node to another."""
        found: dict[str, Any] = {}
        for override in sorted(self.overrides, key=lambda one: one.rank):
            if override.applies(path, source, destination):
                found |= override.properties
        return replace(self.default, **found)


_Read = Callable[[YamlFile, str, yaml.Node], Any]


def _whole(least: int, most: int) -> _Read:
    allowed = Range(least, most)
    return lambda file, key_path, node: file.value(key_path, node, allowed)


def _rate(file: YamlFile, key_path: str, node: yaml.Node) -> Fraction:
    rate: Fraction = file.value(key_path, node, Number(LEAST_RATE, 1))
    return rate


def _probability(file: YamlFile, key_path: str, node: yaml.Node) -> float:
    return float(file.value(key_path, node, Number(0, 1)))


def _length(file: YamlFile, key_path: str, node: yaml.Node) -> float:
    return float(file.value(key_path, node, Number(1, MOST_COUNT)))


def _word(*words: str) -> _Read:
    allowed = Choice(words)
    return lambda file, key_path, node: file.value(key_path, node, allowed)


def _mapping(
    file: YamlFile, key_path: str, node: yaml.Node | None, keys: Mapping[str, _Read],
    needed: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Returns the values of a mapping; raises FabricFileError, also if a needed key is missing."""
    prefix = f"{key_path}." if key_path else ""
    found = {name: keys[name](file, f"{prefix}{name}", value)
             for name, _, value in file.pairs(node, keys, f"with keys of {', '.join(keys)}",
                                              key_path)}
    for name in needed:
        if name not in found:
            where = f"{key_path}: " if key_path else ""
            raise file.at(node, f"{where}{name!r} is missing; add it")
    return found


def _items(file: YamlFile, key_path: str, node: yaml.Node) -> list[tuple[str, yaml.Node]]:
    """Returns (key path, node) of each item of a list; raises FabricFileError."""
    if not isinstance(node, yaml.SequenceNode):
        raise file.at(node, f"{key_path}: expected a list; found {kind_of(node)}")
    return [(f"{key_path}[{index}]", item) for index, item in enumerate(node.value)]


def _is_none(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == "none"


def _buffer(file: YamlFile, key_path: str, node: yaml.Node) -> Buffer:
    if _is_none(node):
        return Buffer()
    keys = {PACKETS: _whole(0, MOST_COUNT), "flits": _whole(0, MOST_COUNT)}
    found = _mapping(file, key_path, node, keys)
    if not found:
        raise file.at(node, f"{key_path}: expected packets, flits or both; found nothing; write "
                      "`none` for a queue without limit")
    return Buffer(**found)


def _burst(file: YamlFile, key_path: str, node: yaml.Node) -> RandomBurst | FixedBurst | None:
    if _is_none(node):
        return None
    random = {"enter": _probability, "length": _length, "loss": _probability}
    fixed = {"at": _whole(0, MOST_TIME), PACKETS: _whole(1, MOST_COUNT)}
    found = _mapping(file, key_path, node, {**random, **fixed})
    for kind, keys, needed in ((FixedBurst, fixed, tuple(fixed)),
                               (RandomBurst, random, ("enter", "length"))):
        if found.keys() <= keys.keys() and found.keys() >= set(needed):
            return kind(**found)
    raise file.at(node, f"{key_path}: expected enter and length, with or without loss, or at and "
                  f"packets; found {', '.join(found) or 'nothing'}")


def _duplicate(file: YamlFile, key_path: str, node: yaml.Node) -> Duplicate | None:
    if _is_none(node):
        return None
    keys = {"probability": _probability, "delay": _whole(0, MOST_CYCLES)}
    return Duplicate(**_mapping(file, key_path, node, keys, ("probability",)))


def _reorder(file: YamlFile, key_path: str, node: yaml.Node) -> Reorder | None:
    if _is_none(node):
        return None
    keys = {"probability": _probability, "depth": _whole(1, MOST_COUNT),
            "delay": _whole(1, MOST_CYCLES)}
    return Reorder(**_mapping(file, key_path, node, keys, ("probability",)))


def _outage(file: YamlFile, key_path: str, node: yaml.Node) -> Outage:
    keys = {"from": _whole(0, MOST_TIME), "to": _whole(1, MOST_TIME),
            "unit": _word(CYCLES, PACKETS)}
    found = _mapping(file, key_path, node, keys, ("from",))
    first, end = found["from"], found.get("to")
    if end is not None and end <= first:
        raise file.at(node, f"{key_path}: 'to' is {end}, must be above 'from', which is {first}; "
                      "leave 'to' out for a path that stays down")
    return Outage(first, end, found.get("unit", CYCLES))


def _down(file: YamlFile, key_path: str, node: yaml.Node) -> tuple[Outage, ...]:
    return tuple(_outage(file, *item) for item in _items(file, key_path, node))


PATH_KEYS: dict[str, _Read] = {
    "latency": _whole(0, MOST_CYCLES),
    "rate": _rate,
    "buffer": _buffer,
    "loss": _probability,
    "burst": _burst,
    "duplicate": _duplicate,
    "reorder": _reorder,
    "corrupt": _probability,
    "down": _down,
}
PORT_KEYS: dict[str, _Read] = {"rate": _rate, "buffer": _buffer}


def _node(file: YamlFile, key_path: str, node: yaml.Node, port: PortProperties) -> Node:
    number = _whole(0, MOST_NODE_NUMBER)
    if isinstance(node, yaml.ScalarNode):
        return Node(number(file, key_path, node), port=port)

    def own_port(file: YamlFile, key_path: str, node: yaml.Node) -> PortProperties:
        return replace(port, **_mapping(file, key_path, node, PORT_KEYS))

    keys = {"node": number, "backend": _word("model", "verilator"), "port": own_port}
    found = {"port": port} | _mapping(file, key_path, node, keys, ("node",))
    return Node(found.pop("node"), **found)


def _nodes(file: YamlFile, node: yaml.Node, port: PortProperties) -> tuple[Node, ...]:
    if not isinstance(node, yaml.SequenceNode):
        count = file.value("nodes", node, Range(1, MOST_NODES))
        return tuple(Node(number, port=port) for number in range(count))
    found: dict[int, Node] = {}
    for key_path, item in _items(file, "nodes", node):
        one = _node(file, key_path, item, port)
        if one.number in found:
            raise file.at(item, f"{key_path}: node {one.number} a second time")
        found[one.number] = one
    if not 1 <= len(found) <= MOST_NODES:
        raise file.at(node, f"nodes: expected 1 to {MOST_NODES} nodes; found {len(found)}")
    return tuple(found.values())


@dataclass
class _Paths:
    """Reads the paths of a fabric with these nodes."""

    file: YamlFile
    nodes: frozenset[int]
    count: int = 1
    default: PathProperties = PathProperties()
    overrides: list[Override] = field(default_factory=list)
    # (path, pair, property): line of the override that sets it.
    lines: dict[tuple[int | None, tuple[int, int] | None, str], int] = field(default_factory=dict)

    def read(self, node: yaml.Node) -> None:
        parts = {name: value for name, _, value in self.file.pairs(
            node, ("count", "default", "overrides"), "with keys of count, default, overrides",
            "paths")}  # fmt: skip
        # Overrides need the number of paths, which may follow them in the file.
        if "count" in parts:
            self.count = self.file.value("paths.count", parts["count"], Range(1, MOST_PATHS))
        if "default" in parts:
            found = _mapping(self.file, "paths.default", parts["default"], PATH_KEYS)
            self.default = PathProperties(**found)
        if "overrides" in parts:
            for key_path, item in _items(self.file, "paths.overrides", parts["overrides"]):
                self.overrides.append(self._override(key_path, item))

    def _override(self, key_path: str, node: yaml.Node) -> Override:
        keys = {"path": self._path_numbers, "source": self._node_number,
                "destination": self._node_number, "direction": _word("one", "both"), **PATH_KEYS}
        found = _mapping(self.file, key_path, node, keys)
        paths = found.pop("path", None)
        source, destination = found.pop("source", None), found.pop("destination", None)
        direction = found.pop("direction", None)
        if (source is None) != (destination is None) or (direction and source is None):
            raise self.file.at(node, f"{key_path}: expected source and destination together; "
                               "give both nodes or leave out source, destination and direction")
        if paths is None and source is None:
            raise self.file.at(node, f"{key_path}: expected a path, or source and destination; "
                               "move values for all paths to paths.default")
        if not found:
            raise self.file.at(node, f"{key_path}: the override sets no property; add one of "
                               f"{', '.join(PATH_KEYS)}")
        pairs: tuple[tuple[int, int], ...] | None = None
        if source is not None:
            pairs = ((source, destination),)
            if direction == "both" and source != destination:
                pairs += ((destination, source),)
        override = Override(paths, pairs, found)
        self._check_conflicts(key_path, node, override)
        return override

    def _check_conflicts(self, key_path: str, node: yaml.Node, override: Override) -> None:
        for path in override.paths or (None,):
            for pair in override.pairs or (None,):
                for name in override.properties:
                    before = self.lines.get((path, pair, name))
                    if before:
                        raise self.file.at(node, f"{key_path}: {name!r} a second time for the same "
                                           f"path and nodes, first in line {before}; remove one")
                    self.lines[path, pair, name] = line_of(node)

    def _path_numbers(self, file: YamlFile, key_path: str, node: yaml.Node) -> tuple[int, ...]:
        return file.values(key_path, node, Range(0, self.count - 1))

    def _node_number(self, file: YamlFile, key_path: str, node: yaml.Node) -> int:
        number: int = file.value(key_path, node, Range(0, MOST_NODE_NUMBER))
        if number not in self.nodes:
            known = ", ".join(map(str, sorted(self.nodes)))
            raise file.at(node, f"{key_path}: node {number} does not exist; known are {known}")
        return number


def read_fabric(path: str | Path) -> FabricDescription:
    """Returns the FabricDescription of a fabric file (YAML); raises FabricFileError."""
    file = YamlFile(path, "a fabric file", FabricFileError)
    return _description(file, file.read())


def parse_fabric(text: str, name: str = "text") -> FabricDescription:
    """Returns the FabricDescription of a YAML text; raises FabricFileError, with `name` for the
    file."""
    file = YamlFile(name, "a fabric file", FabricFileError)
    return _description(file, file.parse(text))


def _description(file: YamlFile, root: yaml.Node | None) -> FabricDescription:
    known = ("seed", "nodes", "port", "paths")
    form = "with keys of seed, nodes, port, paths, such as `nodes: 2`"
    parts = {name: value for name, _, value in file.pairs(root, known, form)}
    if "nodes" not in parts:
        raise file.at(root, "'nodes' is missing, such as `nodes: 2`")
    seed = file.value("seed", parts["seed"], Range(0, (1 << 31) - 1)) if "seed" in parts else 1
    port = PortProperties()
    if "port" in parts:
        port = PortProperties(**_mapping(file, "port", parts["port"], PORT_KEYS))
    nodes = _nodes(file, parts["nodes"], port)
    paths = _Paths(file, frozenset(node.number for node in nodes))
    if "paths" in parts:
        paths.read(parts["paths"])
    return FabricDescription(nodes, seed, paths.count, paths.default, tuple(paths.overrides))
