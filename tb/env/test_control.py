"""The random sequences on the model in the device's place, and that they can fail."""

import pytest

from tb.env import control, coverage
from tb.env.model_dut import ModelDut

KNOBS = control.CommandKnobs(commands=3000, lives=3)
LONG = control.CommandKnobs(commands=15_000, lives=5)


def commands(seed, interface, knobs=KNOBS, profile="default"):
    devices = ModelDut.several(1, profile, interface=interface)
    devices[0].board.listeners.append(coverage.sample)
    return control.run_direct(control.RandomCommands(devices, seed, knobs)), devices[0]


@pytest.mark.parametrize("profile", ["default", "recorded"])
@pytest.mark.parametrize("interface", [1, 2, 3])
def test_random_commands(seed, interface, profile):
    sequence, device = commands(seed, interface, profile=profile)
    device.settle()
    assert device.board.check(least=KNOBS.commands)
    assert KNOBS.commands / 10 < sequence.refused < sequence.answered


@pytest.mark.parametrize("flavour", ["newest", "3.1.0"])
def test_without_broken_ones_most_commands_succeed(seed, flavour):
    knobs = control.CommandKnobs(commands=2000, illegal=0, spoilt=0, flavour=flavour)
    sequence, device = commands(seed, 3, knobs)
    assert sequence.refused < sequence.answered / 2
    device.board.check()


@pytest.mark.parametrize("interface", [1, 2, 3])
def test_unread_entries(seed, interface):
    devices = ModelDut.several(1, interface=interface)
    devices[0].board.listeners.append(coverage.sample)
    control.run_direct(control.UnreadEntries(devices, seed))
    devices[0].board.check(least=20)


@pytest.mark.parametrize("interface", [0, 1, 3])
def test_random_registers(seed, interface):
    devices = ModelDut.several(1, interface=interface)
    control.run_direct(control.RandomRegisters(devices, seed))
    devices[0].settle()
    devices[0].board.check(least=100)


def test_every_bin_of_the_control_plane_can_be_hit(seed):
    """Runs until the holes are closed: legal pairs of command and status only, so all can be."""
    for turn in range(40):
        for interface in (1, 2, 3):
            commands(seed + turn, interface, LONG)
            devices = ModelDut.several(1, interface=interface)
            devices[0].board.listeners.append(coverage.sample)
            control.run_direct(control.UnreadEntries(devices, seed))
        holes = coverage.holes("nic.control") + coverage.holes("nic.command.spoilt")
        print(f"turn {turn}: {len(holes)} holes {holes[:12]}")
        if not holes:
            return
    raise AssertionError(f"{len(holes)} holes: {holes[:20]}")
