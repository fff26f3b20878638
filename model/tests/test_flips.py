# SPDX-License-Identifier: Apache-2.0
"""Tests on a sample that the golden values detect a change of spec/; `make flips` runs all changes.
"""

import flips
import pytest
from facts import as_golden, differences, read_golden
from spec_read import check, documents

pytestmark = pytest.mark.slow

STEP = 61  # every STEP-th change; the first one differs per file


@pytest.fixture(scope="module")
def judge():
    return flips.Judge()


def sample(judge):
    for number, (file, document) in enumerate(judge.parsed.items()):
        mine = list(flips.flips({file: document}))
        yield from mine[number % STEP :: STEP]


def test_a_changed_value_is_noticed(judge):
    responses = {flip: judge.verdict(flip) for flip in sample(judge)}
    missed = [f"{f.file}: {f.place}: {f.kind}" for f, said in responses.items() if said == "missed"]
    assert missed == []
    assert sum(said == "golden" for said in responses.values()) > 100


def test_every_change_of_a_status_is_noticed(judge):
    seen = 0
    for flip in flips.flips(judge.parsed):
        if "status" in flip.place and flip.place.startswith("enums.") and not flip.holder:
            assert judge.verdict(flip) == "golden", (flip.place, flip.kind)
            seen += 1
    assert seen > 100


def test_a_change_is_taken_back(judge):
    before = documents(flips.ROOT / "spec")
    for flip in sample(judge):
        judge.verdict(flip)
    assert judge.parsed == before


def test_a_value_without_a_golden_one_is_missed(judge, monkeypatch):
    file = "spec/limits.yaml"
    flip = next(f for f in flips.flips({file: judge.parsed[file]}) if f.kind == "value")
    monkeypatch.setitem(
        flips.as_golden.__globals__["SECTIONS"], "limits", ("limits", lambda raw: {})
    )
    monkeypatch.setitem(judge.whole, file, as_golden({file: judge.parsed[file]}))
    assert judge.verdict(flip) == "missed"


def test_access_rights_exchanged_are_noticed():
    parsed = documents(flips.ROOT / "spec")
    (sts,) = [r for r in parsed["spec/regs.yaml"]["registers"]["list"] if r["name"] == "DEV_STS"]
    sts["access"] = "wo"
    check(parsed)
    wrong = differences(read_golden(), as_golden(parsed))
    assert wrong == ["registers.list.DEV_STS.1: 'wo', golden is 'ro'"]
