# SPDX-License-Identifier: Apache-2.0
"""Tests that a failure is reported by field, with expected and found value."""

import pytest

from efa_cosim.layouts import defs
from tb.lib.failure import Named, field_of, five_lines, named


def cqe(**values):
    return defs.IoTxCdesc(common=values).pack(32)


def test_a_field_is_named_with_its_enum():
    what = field_of(defs.IoTxCdesc, cqe(status=0, qp_num=3), cqe(status=1, qp_num=3))
    assert what.field == "common.status of efa_io_tx_cdesc"
    assert (what.expected, what.found) == ("OK (0)", "FLUSHED (1)")


def test_a_bit_field_is_named_instead_of_its_number():
    what = field_of(defs.IoTxCdesc, cqe(has_imm=0), cqe(has_imm=1))
    assert what == Named("common.has_imm of efa_io_tx_cdesc", "0", "1")


def test_bytes_after_the_layout_and_a_wrong_length_are_named():
    entry = cqe()
    what = field_of(defs.IoTxCdesc, entry, entry[:20] + b"\x07" + entry[21:])
    assert what.field == "byte 20 of efa_io_tx_cdesc" and what.found.startswith("07")
    what = field_of(defs.IoTxCdesc, entry, entry[:16])
    assert what == Named("length of efa_io_tx_cdesc", "32 bytes", "16 bytes")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("any text\nfield:    a of b\nexpected: 1\nfound:    2", ("a of b", "1", "2")),
        ("payload at 0x10\n  expected 6e\n  got      6f", ("payload at 0x10", "6e", "6f")),
        ("write at 0x10\n  expected nothing there",
         ("write at 0x10", "nothing there", "another output")),
        ("during a reset, expected every packet dropped, found one that stalls",
         ("during a reset", "every packet dropped", "one that stalls")),
        ("assert [3, 4] == [3, 5]\n  At index 1 diff", ("assertion of T", "[3, 5]", "[3, 4]")),
        ("turn 7\nassert 3 == 4", ("turn 7 of T", "4", "3")),
        ("it broke", ("T", "passed", "it broke")),
        ("", ("T", "passed", "an exception without text")),
    ],
)  # fmt: skip
def test_every_text_has_three_lines(text, what):
    assert named(text, "T") == what


def test_five_lines_are_five_lines():
    text = five_lines(named("turn\n7\nassert 3 == 4", "T"), "none", "command")
    assert [line.split(":")[0] for line in text.splitlines()] == [
        "field", "expected", "found", "waves", "repeat",
    ]  # fmt: skip
