# SPDX-License-Identifier: Apache-2.0
"""Runs the device sessions on the model; state that survives a reset is found."""

import random

import pytest

from tb.env.model_dut import ModelDut
from tb.scenarios.lifecycle import SessionKnobs, random_ends


def held_work_survives(monkeypatch, device):
    """Plants an FLR that does not clear stores held for bus mastering."""
    flr = device.flr

    def keeping():
        held = device._held
        flr()
        device._held = held

    monkeypatch.setattr(device, "flr", keeping)


def queues_survive(monkeypatch, device):
    """Plants a register reset that leaves queues and their pending work."""
    cancel = device._cancel

    def half():
        old = device.datapath, device.objects
        cancel()
        if device.in_reset:
            device.datapath, device.objects = old

    monkeypatch.setattr(device, "_cancel", half)


def test_nothing_comes_behind_an_end(seed):
    [device] = ModelDut.several(1)
    random_ends([device], random.Random(seed), SessionKnobs(sessions=25))
    assert device.board.check(least=100)


@pytest.mark.parametrize("bug", [held_work_survives, queues_survive])
def test_what_survives_an_end_is_found(monkeypatch, bug):
    [device] = ModelDut.several(1)
    bug(monkeypatch, device.device)
    # A planted bug may also raise an exception in the device.
    with pytest.raises((AssertionError, AttributeError)):
        random_ends([device], random.Random(1), SessionKnobs(sessions=25))
