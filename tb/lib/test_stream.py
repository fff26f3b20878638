# SPDX-License-Identifier: Apache-2.0
"""Tests which bits of its ports a monitor compares and reads, and which a driver writes."""

from types import SimpleNamespace

import pytest

from efa_cosim.layouts.layout import BitLayout
from tb.lib import bundles
from tb.lib.bundles import Slice
from tb.lib.stream import _places, _ports


class Port(SimpleNamespace):
    def __len__(self):
        return len(self.value)


def test_each_bit_of_the_payload_is_compared_and_no_other():
    data, length = Port(_path="top.data", value="ABCDEFGH"), Port(_path="top.length", value="xyz")
    fields = [Slice(data, "low", 0, 2), length, Slice(data, "high", 5, 3),
              Slice(data, "next", 2, 1)]  # fmt: skip
    found = [str(port.value)[bits] for port, bits in _ports(fields)]
    assert found == ["ABC", "FGH", "xyz"]


def test_each_field_is_read_from_its_port_once():
    data, length = Port(_path="top.data", value="ABCDEFGH"), Port(_path="top.length", value="xyz")
    payload = {"high": Slice(data, "high", 5, 3), "length": length, "low": Slice(data, "low", 0, 2)}
    readers, places = _places(payload)
    texts = [text() for text in readers]
    assert texts == ["ABCDEFGH", "xyz"]
    assert {name: texts[at][bits] for name, at, bits in places} == {
        "high": "ABC", "length": "xyz", "low": "GH"}  # fmt: skip
    assert [payload[name].text() for name in ("high", "low")] == ["ABC", "GH"]


class Written:
    """A port of 8 bits that keeps what is written to it."""

    def __init__(self, path):
        self.__dict__.update(_path=path, values=[])

    def __len__(self):
        return 8

    def __setattr__(self, name, value):
        assert name == "value"
        self.values.append(value)


def test_a_port_that_was_read_may_become_a_slice():
    ports = {"one_data": Port(_path="top.one_data", value="ABCDEFGH"), "low": "its own"}
    pins = bundles.Bundles(SimpleNamespace(**ports))
    assert pins.low == pins.low == "its own"
    pins.bundle("one_data", "in", BitLayout("in", 8, [("low", 0, 3), ("high", 5, 3)]))
    assert [pins.in_low.text(), pins.in_high.text(), pins.low] == ["FGH", "ABC", "its own"]
    assert pins.in_low is pins.in_low
    pins.bundle("one_data", "in", BitLayout("in", 8, [("low", 0, 2)]))
    assert pins.in_low.text() == "GH"
    with pytest.raises(AttributeError, match="other"):
        pins.other  # noqa: B018


def test_slices_of_a_port_are_written_together(monkeypatch):
    monkeypatch.setattr(bundles, "_driven", {})
    port, other = Written("top.one"), Written("top.other")
    low, high = Slice(port, "low", 0, 3), Slice(port, "high", 5, 3)
    apart = Slice(other, "apart", 1, 2)
    bundles.drive([(low, 5), (apart, 3), (high, 1)])
    assert (port.values, other.values) == ([0b00100101], [0b110])
    # The bits of no slice stay.
    bundles.drive([(low, 2)])
    assert (port.values[1:], other.values) == ([0b00100010], [0b110])
    with pytest.raises(AssertionError, match="low: 8 has over 3 bits"):
        bundles.drive([(low, 8)])
