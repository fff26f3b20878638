# SPDX-License-Identifier: Apache-2.0
"""Plays recorded sessions of unmodified EFA software on the RTL by the program's own command."""

import json

import pytest

from efa_cosim.cli.main import main
from tb.simulators import ROOT

SESSIONS = ROOT / "model/tests/data/sessions"


@pytest.mark.parametrize("name", ["probe", "devinfo", "pingpong"])
def test_session(name, sim, seed, tmp_path, unless_long):
    # The commands of probe are the first ones of devinfo.
    if name != "devinfo":
        unless_long(name)
    result = tmp_path / "result.json"
    file = SESSIONS / f"{name}.jsonl.gz"
    assert main(["play", str(file), "--backend", sim, "--json", str(result)]) == 0
    played = json.loads(result.read_text())
    assert played["verdict"] == "passed"
    assert played["admin_responses"] >= 18
    if name == "pingpong":
        assert (played["completions"], played["packets"]) == (400, 200)


@pytest.mark.parametrize(("name", "completions", "events"), [
    ("linux_srd", 800, 0), ("linux_events", 400, 496), ("linux_libfabric", 324, 0),
    ("linux_mpi", 548, 0), ("linux_rebind", 0, 0), ("linux_rtl", 160, 65)])
def test_session_of_a_guest(name, completions, events, sim, seed, tmp_path, unless_long):
    """Plays what `efa-cosim serve` recorded of the model, or of the RTL."""
    unless_long(name)
    result = tmp_path / "result.json"
    file = SESSIONS / f"{name}.jsonl.gz"
    assert main(["play", str(file), "--backend", sim, "--json", str(result)]) == 0
    played = json.loads(result.read_text())
    assert (played["verdict"], played["profile"]) == ("passed", "default")
    assert (played["completions"], played["events"]) == (completions, events)


@pytest.mark.parametrize(("name", "responses"), [("perftest", 141), ("efatests", 1249)])
def test_session_control(name, responses, sim, seed, tmp_path, unless_long):
    """Plays only the register BAR of programs whose data path needs RDMA."""
    unless_long(name)
    result = tmp_path / "result.json"
    file = SESSIONS.parent / "control" / f"{name}.jsonl.gz"
    assert main(["play", "--control", str(file), "--backend", sim, "--json", str(result)]) == 0
    played = json.loads(result.read_text())
    assert (played["verdict"], played["admin_responses"]) == ("passed", responses)
