# SPDX-License-Identifier: Apache-2.0
"""Runs the random sequences on the model as the device and proves that planted bugs fail them."""

import random

import pytest

from efa_cosim.boundary.backend import DeviceTimeout
from efa_cosim.boundary.memory import HostReadError
from efa_cosim.device import admin, admin_counters, admin_engine, admin_regions, admin_rules
from efa_cosim.device.async_events import AsyncEvents
from efa_cosim.device.device import Device
from efa_cosim.layouts import defs
from tb.env import control, coverage
from tb.env.difference import Difference
from tb.env.model_dut import ModelDut
from tb.env.register_walk import RegisterWalk
from tb.scenarios import async_events

OP = defs.AdminAqOpcode

KNOBS = control.CommandKnobs(commands=3000, sessions=3)
SHORT = control.CommandKnobs(commands=900, sessions=3)
LONG = control.CommandKnobs(commands=15_000, sessions=5)


def commands(seed, interface, knobs=KNOBS, profile="default"):
    devices = ModelDut.several(1, profile, interface=interface)
    devices[0].board.listeners.append(coverage.sample)
    return control.run_direct(control.RandomCommands(devices, seed, knobs)), devices[0]


@pytest.mark.parametrize("profile", [*defs.PROFILES])
@pytest.mark.parametrize("interface", [1, 2, 3])
def test_random_commands(seed, interface, profile, request):
    """With --short fewer commands on older interfaces, on each of which
    test_every_bin_of_the_control_plane_can_be_hit sends 15,000."""
    short = request.config.getoption("--short") and interface < 3
    knobs = SHORT if short else KNOBS
    sequence, device = commands(seed, interface, knobs, profile)
    device.settle()
    assert device.board.check(least=knobs.commands)
    assert knobs.commands / 10 < sequence.refused < sequence.responded


@pytest.mark.parametrize("flavour", ["newest", "3.1.0"])
def test_without_broken_ones_most_commands_succeed(seed, flavour):
    knobs = control.CommandKnobs(commands=2000, invalid=0, corrupted=0, flavour=flavour)
    sequence, device = commands(seed, 3, knobs)
    assert sequence.refused < sequence.responded / 2
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


@pytest.mark.parametrize("profile", [*defs.PROFILES])
@pytest.mark.parametrize("interface", [0, 1, 3])
def test_the_register_walk(seed, interface, profile):
    devices = ModelDut.several(1, profile, interface=interface)
    control.run_direct(RegisterWalk(devices, seed, profile, interface))
    devices[0].settle()
    devices[0].board.check(least=20)


def version_can_be_written(device, offset, value):
    if offset == defs.Reg.VERSION:
        device.version = value & 0xFF


def base_can_be_read(device, offset, value):
    device.readable = {**getattr(device, "readable", {}), offset: value}


def response_address_survives(device, offset, value):
    if offset == defs.Reg.MMIO_RESP_LO:
        device.saved = value
    elif offset == defs.Reg.DEV_CTL and hasattr(device, "saved"):
        device._registers[defs.Reg.MMIO_RESP_LO] = device.saved


@pytest.mark.parametrize(
    ("bug", "field"),
    [(version_can_be_written, "VERSION.MINOR_VERSION"), (base_can_be_read, "AQ_BASE_LO.value"),
     (response_address_survives, "MMIO_RESP")],
)  # fmt: skip
def test_a_wrong_register_is_named(monkeypatch, bug, field):
    """The bug is in both models: the register walk alone finds the bug."""
    store, load = Device._store_register, Device._read_register

    def wrong_store(device, offset, value):
        store(device, offset, value)
        bug(device, offset, value)

    def wrong_load(device, offset):
        shown = getattr(device, "readable", {}) if offset == defs.Reg.AQ_BASE_LO else {}
        return shown.get(offset, load(device, offset))

    monkeypatch.setattr(Device, "_store_register", wrong_store)
    monkeypatch.setattr(Device, "_read_register", wrong_load)
    devices = ModelDut.several(1)
    with pytest.raises(Difference, match=f"field: +{field}"):
        control.run_direct(RegisterWalk(devices, 1))


def clears_who_uses_a_pd(device, cmd):
    device.objects.pds.live.pop(cmd.pd, None)


def takes_keys_of_any_generation(device, cmd):
    mr = device.objects.mrs.get(cmd.l_key & device.objects.mrs.count - 1)
    admin_rules.valid(mr)
    device.objects.mrs.remove(mr.index)


def leaves_translations_behind(device, cmd):
    mr = device.objects.mr_by_key(cmd.l_key)
    admin_rules.valid(mr)
    device.objects.mrs.remove(mr.index)


def takes_a_foreign_cq(device, cmd):
    cqs = device.objects.cqs
    for name in ("send_cq_idx", "recv_cq_idx"):
        cq = cqs.get(getattr(cmd, name))
        own = [n for n, other in cqs.live.items() if other.uar == cmd.uar]
        if cq is not None and own:
            setattr(cmd, name, own[0])
    return admin.create_qp(device, cmd)


def keeps_half_of_a_refused_region(device, cmd):
    try:
        return admin_regions.reg_mr(device, cmd)
    except HostReadError:
        device.objects.count_key(device.objects.next_key(device.objects.mrs.free_number()))
        raise


def does_not_show_the_count(device, cmd):
    counter = device.objects.counters.get(cmd.cntr_handle)
    admin_rules.valid(counter and cmd.operation < 2)


def lets_two_counters_have_an_event(device, cmd):
    counter, qp, events = admin_counters._named(device, cmd)
    for event in events:
        qp.counters[event] = counter


def ignores_the_page_size(device, cmd):
    cmd.phys_page_size_shift = max(12, min(31, cmd.phys_page_size_shift))
    return admin_regions.reg_mr(device, cmd)


BUGS = {
    clears_who_uses_a_pd: OP.DEALLOC_PD, takes_keys_of_any_generation: OP.DEREG_MR,
    leaves_translations_behind: OP.DEREG_MR, takes_a_foreign_cq: OP.CREATE_QP,
    keeps_half_of_a_refused_region: OP.REG_MR, does_not_show_the_count: OP.MODIFY_EVENT_COUNTER,
    lets_two_counters_have_an_event: OP.ATTACH_EVENT_COUNTER, ignores_the_page_size: OP.REG_MR,
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_bug_in_one_command_is_found(monkeypatch, bug):
    [device] = ModelDut.several(1)
    good = admin_engine.COMMANDS[BUGS[bug]]
    monkeypatch.setitem(
        admin_engine.COMMANDS, BUGS[bug],
        lambda one, cmd: (bug if one is device.device else good)(one, cmd),
    )  # fmt: skip
    # A planted bug may also raise an exception in the device.
    with pytest.raises((Difference, AttributeError, KeyError)):
        control.run_direct(control.RandomCommands([device], 1, LONG))


def overruns(events):
    return False


def reports_nothing(events):
    return True


@pytest.mark.parametrize("full", [overruns, reports_nothing])
def test_a_wrong_event_ring_is_found(monkeypatch, seed, full):
    """Plants overwritten unread events, or no events at all."""
    [device] = ModelDut.several(1)
    good = AsyncEvents._full
    monkeypatch.setattr(
        AsyncEvents, "_full",
        lambda one: (full if one.device is device.device else good)(one),
    )  # fmt: skip
    with pytest.raises((Difference, DeviceTimeout)):
        async_events.full_ring([device], random.Random(seed))


def test_every_bin_of_the_control_plane_can_be_hit(seed):
    """Runs until no hole is left: the bins hold only possible pairs of command and status."""
    for turn in range(40):
        for interface in (1, 2, 3):
            commands(seed + turn, interface, LONG)
            devices = ModelDut.several(1, interface=interface)
            devices[0].board.listeners.append(coverage.sample)
            control.run_direct(control.UnreadEntries(devices, seed))
        holes = coverage.holes("nic.control") + coverage.holes("nic.command.corrupted")
        print(f"turn {turn}: {len(holes)} holes {holes[:12]}")
        if not holes:
            return
    raise AssertionError(f"{len(holes)} holes: {holes[:20]}")
