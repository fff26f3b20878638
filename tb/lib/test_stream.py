# SPDX-License-Identifier: Apache-2.0
"""Tests which bits of its ports a monitor compares while a beat waits."""

from types import SimpleNamespace

from tb.lib.bundles import Slice
from tb.lib.stream import _ports


class Port(SimpleNamespace):
    def __len__(self):
        return len(self.value)


def test_each_bit_of_the_payload_is_compared_and_no_other():
    data, length = Port(_path="top.data", value="ABCDEFGH"), Port(_path="top.length", value="xyz")
    fields = [Slice(data, "low", 0, 2), length, Slice(data, "high", 5, 3),
              Slice(data, "next", 2, 1)]  # fmt: skip
    found = [str(port.value)[bits] for port, bits in _ports(fields)]
    assert found == ["ABC", "FGH", "xyz"]
