"""The lives of a device on the model: what a reset does not end is found."""

import random

import pytest

from efa.device import Device
from tb.env.model_dut import ModelDut
from tb.seq.lifecycle import LifeKnobs, random_ends


def held_work_survives(monkeypatch):
    """An FLR does not forget what waited for bus mastering."""
    flr = Device.flr

    def keeping(device):
        held = getattr(device, "_held", [])
        flr(device)
        device._held = held

    monkeypatch.setattr(Device, "flr", keeping)


def queues_survive(monkeypatch):
    """A register reset leaves queues and what is on its way to them."""
    forget = Device._forget

    def half(device):
        old = getattr(device, "datapath", None), getattr(device, "objects", None)
        forget(device)
        if old[0] is not None and device.in_reset:
            device.datapath, device.objects = old

    monkeypatch.setattr(Device, "_forget", half)


def test_nothing_comes_behind_an_end(seed):
    [device] = ModelDut.several(1)
    random_ends([device], random.Random(seed), LifeKnobs(lives=25))
    assert device.board.check(least=100)


@pytest.mark.parametrize("bug", [held_work_survives, queues_survive])
def test_what_survives_an_end_is_found(monkeypatch, bug):
    bug(monkeypatch)
    [device] = ModelDut.several(1)
    with pytest.raises(AssertionError):
        random_ends([device], random.Random(1), LifeKnobs(lives=25))
