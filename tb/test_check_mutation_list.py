# SPDX-License-Identifier: Apache-2.0
"""Tests that the list of protection checks fits the tree, and that misfits are reported."""

import check_mutation
import check_mutation_list
import check_mutation_page
import pytest

SOUND = check_mutation_list.read_checks()[0]


def changed(**fields):
    """Returns the first entry of the list, with changed fields."""
    return check_mutation_list.Check(**{**SOUND.__dict__, **fields})


def test_every_check_is_there_and_has_its_test():
    assert check_mutation_list.problems(check_mutation_list.read_checks()) == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"old": "no such text"}, "has 0 times 'no such text'"),
        ({"old": "wire"}, "times 'wire': it must be there once"),
        ({"file": "rtl/none.v"}, "rtl/none.v is not there"),
        ({"file": "rtl/queue/efa_cq.v", "old": "module efa_cq"}, "is no part of"),
        ({"new": SOUND.old}, "nothing is taken out"),
        ({"test": "unit.mmio.absent"}, "has no test absent"),
        ({"test": "unit.absent.one"}, "no unit absent"),
        ({"test": "mmio"}, "write unit.UNIT.TEST"),
        ({"test": "system.nowhere.One"}, "tb.system.nowhere_tests is not there"),
        ({"params": {"NONE": 1}}, "mmio has no variant {'NONE': 1}"),
        ({"protects": " "}, "does not state what it protects"),
        ({"because": "of another"}, "beside and because belong together"),
    ],
)
def test_an_entry_that_does_not_fit_is_reported(fields, text):
    (wrong,) = check_mutation_list.problems([changed(**fields)])
    assert f"tb/check_mutations.yaml: {SOUND.id}: " in wrong and text in wrong


def test_an_id_stands_once():
    (wrong,) = check_mutation_list.problems([SOUND, SOUND])
    assert f"{SOUND.id} stands there twice" in wrong


def test_a_check_is_taken_out_of_a_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(check_mutation_list, "ROOT", tmp_path)
    (tmp_path / "a.v").write_text("one\ntwo\nthree\n")
    changes = [
        check_mutation_list.Change("a.v", "two", "2"),
        check_mutation_list.Change("a.v", "one", "1"),
    ]
    assert changes[0].place == "a.v:2"
    (copy,) = check_mutation_list.planted(changes, tmp_path / "out")
    assert (tmp_path / copy).read_text() == "1\n2\nthree\n"
    assert (tmp_path / "a.v").read_text() == "one\ntwo\nthree\n"


def seen(monkeypatch, check, *results):
    """Returns the result of a check whose runs end with these results."""
    left = list(results)
    monkeypatch.setattr(check_mutation, "guarded", lambda *_: left.pop(0))
    verdict = check_mutation.judge(check, "verilator", 1)
    assert not left
    return verdict


def test_only_a_test_that_fails_kills(monkeypatch):
    failed, passed = ([("one", "assert 1 == 2")], ""), ([], "")
    assert seen(monkeypatch, SOUND, failed) == ("killed", "assert 1 == 2")
    assert seen(monkeypatch, SOUND, passed)[0] == "survived"
    assert seen(monkeypatch, SOUND, ([], "does not build"))[0] == "error"
    two = changed(beside=[{"file": SOUND.file, "old": "module", "new": ""}], because="x")
    assert seen(monkeypatch, two, passed, failed)[0] == "killed"
    # A check that a test covers alone needs no second change.
    assert seen(monkeypatch, two, failed)[0] == "error"


def test_the_page_keeps_other_checks_in_the_order_of_the_list(tmp_path):
    def row(name, verdict):
        return {"id": name, "protects": "<who>", "place": "a.v:1", "test": "unit.a.b",
                "state": 1, "verdict": verdict}  # fmt: skip

    now = {"a": 1, "b": 1, "older": 1}
    check_mutation_page.write(tmp_path, [row("b", "killed"), row("older", "killed")], now)
    page = check_mutation_page.write(
        tmp_path, [row("a", "survived")], now | {"older": 2}
    ).read_text()
    assert "1 of 2 noticed" in page and "&lt;who&gt;" in page and "older" not in page


def test_a_list_that_cannot_be_run_is_reported(capsys):
    assert check_mutation.main(["--check", "absent"]) == 2
    assert "no check absent" in capsys.readouterr().err
