# SPDX-License-Identifier: Apache-2.0
"""Tests fabric files: their meaning, and the line and key that each error message names."""

import re
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from efa_cosim.fabric.description import (
    PATH_KEYS,
    PORT_KEYS,
    Buffer,
    Duplicate,
    FabricDescription,
    FabricFileError,
    FixedBurst,
    Node,
    Outage,
    PathProperties,
    PortProperties,
    RandomBurst,
    Reorder,
    parse_fabric,
    read_fabric,
)
from efa_cosim.fabric.network import Network
from efa_cosim.layouts import defs

PAGE = Path(__file__).resolve().parents[2] / "docs/fabric.md"
PATH = "nodes: 3\npaths: {count: 2, default: {%s}}"
OVERRIDE = "nodes: 3\npaths:\n  count: 2\n  overrides:\n    - {%s}"
MISTAKES = {
    "no YAML": ("nodes: [1, 2", "1: no YAML"),
    "a character that does not exist": ('nodes: "\\UFFFFFFFF"', "1: no YAML"),
    "empty": ("", "1: expected a mapping with keys of seed, nodes, port, paths, such as `nodes: 2`"
              "; found nothing"),
    "a list": ("- 2", "1: expected a mapping with keys of seed, nodes, port, paths"),
    "a number": ("7", "such as `nodes: 2`; found '7'"),
    "no nodes": ("seed: 1", "1: 'nodes' is missing, such as `nodes: 2`"),
    "misspelt key": ("nodes: 2\npath: {}", "2: unknown key 'path'; did you mean 'paths'?"),
    "strange key": ("nodes: 2\nx: 1", "2: unknown key 'x'; known are seed, nodes, port, paths"),
    "nested key": ("nodes: 2\n? [1]\n: 2", "2: unknown key 'a nested value'"),
    "key twice": ("nodes: 2\nseed: 1\nseed: 2", "3: 'seed' a second time"),
    "seed": ("nodes: 2\nseed: -1", "2: seed: '-1' is not allowed, must be a whole number, 0 to"),
    "seed as a text": ('nodes: 2\nseed: "1"', "2: seed: '1' is not allowed"),
    "no node": ("nodes: 0", "1: nodes: '0' is not allowed, must be a whole number, 1 to 64"),
    "empty list of nodes": ("nodes: []", "1: nodes: expected 1 to 64 nodes; found 0"),
    "many nodes": ("nodes: 65", "1: nodes: '65' is not allowed"),
    "many listed nodes": (f"nodes: {list(range(65))}", "nodes: expected 1 to 64 nodes; found 65"),
    "node twice": ("nodes: [1,\n  {node: 1}]", "2: nodes[1]: node 1 a second time"),
    "unknown destination": ("nodes: [65535]", "1: nodes[0]: '65535' is not allowed"),
    "nodes as a mapping": ("nodes: {node: 1}", "1: nodes: 'a nested value' is not allowed"),
    "node without number": ("nodes: [{backend: model}]", "1: nodes[0]: 'node' is missing; add it"),
    "node as a list": ("nodes: [[1]]", "1: nodes[0]: expected a mapping with keys of node, "
                       "backend, port; found a list"),
    "backend": ("nodes: [{node: 1, backend: icarus}]",
                "1: nodes[0].backend: 'icarus' is not allowed, must be one of model, verilator"),
    "port of a node": ("nodes: [{node: 1, port: {rate: 2}}]", "1: nodes[0].port.rate: '2'"),
    "port": ("nodes: 2\nport: {latency: 1}", "2: port: unknown key 'latency'; known are rate"),
    "port as a number": ("nodes: 2\nport: 1", "2: port: expected a mapping with keys of rate, "
                         "buffer; found '1'"),
    "no paths": ("nodes: 2\npaths: {count: 0}", "2: paths.count: '0' is not allowed"),
    "many paths": ("nodes: 2\npaths: {count: 9}",
                   "2: paths.count: '9' is not allowed, must be a whole number, 1 to 8"),
    "paths as a number": ("nodes: 2\npaths: 4", "2: paths: expected a mapping with keys of count"),
    "property": (PATH % "delay: 1", "2: paths.default: unknown key 'delay'; known are latency"),
    "latency": (PATH % "latency: 1.5", "2: paths.default.latency: '1.5' is not allowed, must be a "
                "whole number, 0 to 1000000"),
    "long latency": (PATH % "latency: 1000001", "paths.default.latency: '1000001' is not allowed"),
    "truth": (PATH % "latency: true", "paths.default.latency: 'true' is not allowed"),
    "rate 0": (PATH % "rate: 0", "paths.default.rate: '0' is not allowed, must be a number, 1/1000 "
               "to 1, such as 1, 0.5, 1e-3 or 1/3"),
    "high rate": (PATH % "rate: 1.01", "paths.default.rate: '1.01' is not allowed"),
    "no fraction": (PATH % "rate: 1/0", "paths.default.rate: '1/0' is not allowed"),
    "no number": (PATH % "loss: .nan", "paths.default.loss: '.nan' is not allowed, must be a "
                  "number, 0 to 1"),
    "infinite": (PATH % "loss: .inf", "paths.default.loss: '.inf' is not allowed"),
    "negative": (PATH % "loss: -0.1", "paths.default.loss: '-0.1' is not allowed"),
    "more than certain": (PATH % "corrupt: 1.5", "paths.default.corrupt: '1.5' is not allowed"),
    "endless exponent": (PATH % "loss: 1e-999999999", "paths.default.loss: '1e-999999999' is not"),
    "number as a text": (PATH % "loss: '0.1'", "paths.default.loss: '0.1' is not allowed"),
    "percent": (PATH % "loss: 1%", "paths.default.loss: '1%' is not allowed"),
    "list of losses": (PATH % "loss: [0.1]", "paths.default.loss: 'a nested value' is not"),
    "buffer as a number": (PATH % "buffer: 5", "paths.default.buffer: expected a mapping with keys "
                           "of packets, flits; found '5'"),
    "empty buffer": (PATH % "buffer: {}", "paths.default.buffer: expected packets, flits or both; "
                     "found nothing; write `none`"),
    "buffer": (PATH % "buffer: {packets: -1}", "paths.default.buffer.packets: '-1' is not"),
    "half a burst": (PATH % "burst: {enter: 0.1}", "paths.default.burst: expected enter and length"
                     ", with or without loss, or at and packets; found enter"),
    "two bursts": (PATH % "burst: {enter: 0.1, length: 2, at: 1}", "found enter, length, at"),
    "empty burst": (PATH % "burst: {}", "or at and packets; found nothing"),
    "short burst": (PATH % "burst: {enter: 0.1, length: 0.5}", "paths.default.burst.length: '0.5' "
                    "is not allowed, must be a number, 1 to 1000000"),
    "no packet in a burst": (PATH % "burst: {at: 0, packets: 0}", "burst.packets: '0' is not"),
    "duplicate": (PATH % "duplicate: 0.1", "paths.default.duplicate: expected a mapping with keys "
                  "of probability, delay; found '0.1'"),
    "no probability": (PATH % "duplicate: {delay: 3}", "paths.default.duplicate: 'probability' is "
                       "missing; add it"),
    "reorder": (PATH % "reorder: {depth: 3}", "reorder: 'probability' is missing; add it"),
    "depth": (PATH % "reorder: {probability: 1, depth: 0}", "reorder.depth: '0' is not allowed"),
    "down": (PATH % "down: {from: 1, to: 2}", "paths.default.down: expected a list; found a "
             "mapping"),
    "down backwards": (PATH % "down: [{from: 1, to: 2}, {from: 9, to: 5}]", "paths.default.down[1]:"
                       " 'to' is 5, must be above 'from', which is 9; leave 'to' out"),
    "down for nothing": (PATH % "down: [{from: 5, to: 5}]", "'to' is 5, must be above 'from'"),
    "down without from": (PATH % "down: [{to: 5}]", "paths.default.down[0]: 'from' is missing"),
    "down in seconds": (PATH % "down: [{from: 1, unit: seconds}]", "paths.default.down[0].unit: "
                        "'seconds' is not allowed, must be one of cycles, packets"),
    "in itself": (PATH % "down: &a [*a]", "paths.default.down[0]: expected a mapping"),
    "overrides": ("nodes: 2\npaths: {overrides: {path: 1}}", "2: paths.overrides: expected a list; "
                  "found a mapping"),
    "override": ("nodes: 2\npaths: {overrides: [0]}", "2: paths.overrides[0]: expected a mapping "
                 "with keys of path, source"),
    "absent path": (OVERRIDE % "path: 2, loss: 0", "5: paths.overrides[0].path: '2' is not allowed,"
                    " must be a whole number, 0 to 1"),
    "path twice": (OVERRIDE % "path: [1, 1], loss: 0", "paths.overrides[0].path: 1 a second time"),
    "no path": (OVERRIDE % "path: [], loss: 0", "paths.overrides[0].path: the list is empty"),
    "absent node": (OVERRIDE % "source: 0, destination: 3, loss: 0", "5: paths.overrides[0]."
                    "destination: node 3 does not exist; known are 0, 1, 2"),
    "source alone": (OVERRIDE % "source: 0, loss: 0", "expected source and destination together"),
    "direction alone": (OVERRIDE % "path: 0, direction: both, loss: 0", "expected source and "
                        "destination together; give both nodes or leave out"),
    "direction": (OVERRIDE % "source: 0, destination: 1, direction: back, loss: 0",
                  "direction: 'back' is not allowed, must be one of one, both"),
    "override of everything": (OVERRIDE % "loss: 0", "paths.overrides[0]: expected a path, or "
                               "source and destination; move values for all paths to"),
    "override of nothing": (OVERRIDE % "path: 0", "paths.overrides[0]: the override sets no "
                            "property; add one of latency, rate"),
    "path overridden twice": (OVERRIDE % "path: 1, loss: 0" + "\n    - {path: [0, 1], loss: 1}",
                              "6: paths.overrides[1]: 'loss' a second time for the same path and "
                              "nodes, first in line 5; remove one"),
    "pair overridden twice": (
        OVERRIDE % "source: 0, destination: 1, direction: both, rate: 1"
        + "\n    - {source: 1, destination: 0, latency: 3, rate: 1}",
        "6: paths.overrides[1]: 'rate' a second time for the same path and nodes"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_reported_with_its_line_and_key(what, tmp_path):
    text, message = MISTAKES[what]
    path = tmp_path / "fabric.yaml"
    path.write_text(text)
    with pytest.raises(FabricFileError) as error:
        read_fabric(path)
    assert "fabric.yaml:" in str(error.value) and message in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(FabricFileError, match="^a name:"):
        parse_fabric(text, "a name")


@pytest.mark.parametrize("name", ["absent.yaml", ".", "a\0b"])
def test_a_file_that_cannot_be_read_is_reported(tmp_path, name):
    with pytest.raises(FabricFileError, match="give the path of a fabric file"):
        read_fabric(f"{tmp_path}/{name}")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\0" * 100, b"#" * ((1 << 20) + 1)])
def test_a_file_that_is_no_text_is_reported(tmp_path, content):
    path = tmp_path / "fabric.yaml"
    path.write_bytes(content)
    with pytest.raises(FabricFileError, match="fabric.yaml"):
        read_fabric(path)


def test_everything_but_nodes_has_a_default():
    assert parse_fabric("nodes: 2") == FabricDescription((Node(0), Node(1)))
    path = parse_fabric("nodes: 2").path(0, 0, 1)
    assert (path.latency, path.rate, path.loss, path.down) == (100, 1, 0, ())


def test_nodes_have_numbers_backends_and_ports():
    found = parse_fabric("""
port: {rate: 1/2, buffer: {packets: 9}}
nodes: [7, {node: 3, backend: verilator}, {node: 0x10, port: {buffer: none}}]
""").nodes
    port = PortProperties(Fraction(1, 2), Buffer(packets=9))
    assert found == (Node(7, "model", port), Node(3, "verilator", port),
                     Node(16, "model", PortProperties(Fraction(1, 2))))  # fmt: skip


def test_every_property_of_a_path_is_read():
    found = parse_fabric("nodes: 2\npaths: {default: {latency: 7, rate: 3/4, "
                         "buffer: {packets: 5, flits: 60}, loss: 1e-3, corrupt: .5, "
                         "burst: {enter: 0.01, length: 8}, duplicate: {probability: 0.25}, "
                         "reorder: {probability: 1, depth: 4}, "
                         "down: [{from: 5, to: 9}, {from: 7, unit: packets}]}}")  # fmt: skip
    assert found.default == PathProperties(
        latency=7, rate=Fraction(3, 4), buffer=Buffer(5, 60), loss=0.001, corrupt=0.5,
        burst=RandomBurst(0.01, 8, 1), duplicate=Duplicate(0.25, 0), reorder=Reorder(1, 4, 1000),
        down=(Outage(5, 9, "cycles"), Outage(7, None, "packets")))  # fmt: skip


def test_the_more_specific_override_applies_in_any_order():
    overrides = ["{path: [0, 1], loss: 0.1, latency: 1, rate: 0.1}",
                 "{source: 0, destination: 1, direction: both, loss: 0.2, latency: 2}",
                 "{path: 1, source: 1, destination: 0, loss: 0.3}"]  # fmt: skip
    for rows in (overrides, overrides[::-1]):
        found = parse_fabric("nodes: 3\npaths: {default: {latency: 9}, overrides: "
                             f"[{', '.join(rows)}], count: 3}}")  # fmt: skip
        for link, expected in {(0, 1, 2): (0.1, 1), (1, 0, 1): (0.2, 2), (1, 1, 0): (0.3, 2),
                               (2, 1, 0): (0.2, 2), (2, 1, 2): (0, 9)}.items():  # fmt: skip
            path = found.path(*link)
            assert (path.loss, path.latency) == expected
            assert path.rate == (1 if link[0] == 2 else Fraction(1, 10))


def test_both_directions_of_a_node_to_itself_are_one():
    found = parse_fabric("nodes: 1\npaths: {overrides: [{source: 0, destination: 0, "
                         "direction: both, loss: 1}]}")  # fmt: skip
    assert found.path(0, 0, 0).loss == 1


def test_none_ends_a_fault_of_the_default():
    found = parse_fabric("nodes: 2\npaths: {default: {buffer: {packets: 1}, burst: {at: 1, packets:"
                         " 1}, duplicate: {probability: 1}, reorder: {probability: 1}, down: "
                         "[{from: 1}]}, overrides: [{path: 0, buffer: none, burst: none, "
                         "duplicate: none, reorder: none, down: []}]}")  # fmt: skip
    assert found.default.burst == FixedBurst(1, 1)
    assert found.path(0, 0, 1) == PathProperties()


NUMBERS = st.sampled_from([0, 1, 2, 7, -1, 0.5, 1.5, "1/3", "1/0", "1e-3", float("nan"), 1 << 70,
                           True, None, "", "none", "both", "cycles", "packets", "model"])
KEYS = st.sampled_from([
    "seed", "nodes", "port", "paths", "count", "default", "overrides", "node", "backend", "path",
    "source", "destination", "direction", *PATH_KEYS, "packets", "flits", "enter", "length", "at",
    "probability", "delay", "depth", "from", "to", "unit", "x", 3])  # fmt: skip
VALUES = st.recursive(NUMBERS, lambda inner: st.lists(inner, max_size=3)
                      | st.dictionaries(KEYS, inner, max_size=5), max_leaves=12)  # fmt: skip


def one_of(needed, **optional):
    """Returns mappings with the needed keys and any of the optional ones."""
    return st.fixed_dictionaries(needed, optional={name: value for name, value in optional.items()
                                                   if name not in needed})  # fmt: skip


NUMBER = st.sampled_from([0, 1, 2, 5])
LEAST_1 = st.sampled_from([1, 2, 5])
PROBABILITY = st.sampled_from([0, 1, 0.5, "1/3", "2e-2"])
RATE = st.sampled_from([1, "2/3", 0.25])
BUFFER = one_of({"packets": NUMBER}, flits=NUMBER) | st.just("none")
OUTAGE = one_of({"from": NUMBER}, to=st.just(6), unit=st.sampled_from(["packets", "cycles"]))
PROPERTIES = {
    "latency": NUMBER, "rate": RATE, "buffer": BUFFER, "loss": PROBABILITY, "corrupt": PROBABILITY,
    "burst": one_of({"enter": PROBABILITY, "length": LEAST_1}, loss=PROBABILITY)
    | one_of({"at": NUMBER, "packets": LEAST_1}),
    "duplicate": one_of({"probability": PROBABILITY}, delay=NUMBER),
    "reorder": one_of({"probability": PROBABILITY}, depth=LEAST_1, delay=LEAST_1),
    "down": st.lists(OUTAGE, max_size=2),
}  # fmt: skip
NODE = st.sampled_from([0, 1])
PAIR = {"source": NODE, "destination": NODE}
OVERRIDES = st.tuples(one_of({"path": NODE, "loss": PROBABILITY}, **PROPERTIES),
                      one_of({**PAIR, "rate": RATE}, direction=st.just("both"), **PROPERTIES),
                      one_of({**PAIR, "path": st.permutations([0, 1]), "loss": PROBABILITY},
                             **PROPERTIES))  # fmt: skip
FILES = one_of({"nodes": st.integers(2, 5)}, seed=NUMBER, port=one_of({}, rate=RATE, buffer=BUFFER),
               paths=one_of({"count": st.integers(2, 8)}, default=one_of({}, **PROPERTIES),
                            overrides=OVERRIDES.map(list)))  # fmt: skip


@st.composite
def changed_files(draw):
    """Returns fabrics of which up to two values are replaced, and values of any other form."""
    if draw(st.integers(0, 9)) == 0:
        return draw(VALUES)
    root = draw(FILES)
    for _ in range(draw(st.integers(0, 2))):
        place = root
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw(st.sampled_from(keys) if keys else KEYS)
            inner = place[key] if keys else None
            if not isinstance(inner, dict | list) or draw(st.booleans()):
                break
            place = inner
        if isinstance(place, list):
            place[:] = [*place[:key], draw(VALUES)] if keys else [draw(VALUES)]
        else:
            place[draw(st.just(key) | KEYS)] = draw(VALUES)
    return root


def parsed(text):
    """Returns the fabric of a text and None, or None and the text of its error."""
    try:
        return parse_fabric(text, "any.yaml"), None
    except FabricFileError as error:
        return None, str(error)


@settings(max_examples=600, deadline=None)
@given(changed_files())
def test_any_mapping_is_a_fabric_that_runs_or_an_error_of_one_line(mapping):
    found, error = parsed(yaml.safe_dump(mapping))
    if found is None:
        assert re.fullmatch(r"any\.yaml:[0-9]+: .+", error)
        return
    network, received = Network(found), []
    for node in found.nodes:
        network.attach(node.number, received.append)
    for number in range(20):
        header = defs.PktHdr(psn=number, src_node=found.nodes[0].number,
                             dst_node=found.nodes[-1].number, path=number % found.paths)
        network.send(header.pack() + bytes(32))
    network.run()
    assert network.idle and network.dropped == 0
    counters = network.path_counters()
    assert sum(one.sent + one.duplicated - one.lost for one in counters) == sum(
        one.sent for one in network.port_counters().values())
    assert len(received) == sum(one.delivered for one in network.port_counters().values())


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_a_fabric_or_an_error(text):
    found, error = parsed(text)
    assert found or error.startswith("any.yaml:")


def test_the_example_of_the_page_is_a_fabric():
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found = parse_fabric(text)
    assert len(found.nodes) == 4 and found.paths == 8
    assert found.path(3, 0, 1).down and not found.path(2, 0, 1).down


def test_the_page_lists_every_key():
    keys = set(re.findall(r"^\| `([a-z]+)`", PAGE.read_text(), re.M))
    assert keys >= {*PATH_KEYS, *PORT_KEYS, "seed", "nodes", "port", "paths", "count", "default",
                    "overrides", "node", "backend", "path", "source", "destination", "direction",
                    "packets", "flits", "enter", "length", "at", "probability", "delay", "depth",
                    "from", "to", "unit"}  # fmt: skip
