# SPDX-License-Identifier: Apache-2.0
"""Admin commands of event counters: counters in host memory, incremented by completions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from efa_cosim.device.admin_rules import Command, aligned, commands, granted, unused, valid
from efa_cosim.device.objects import Checked, Counter, Qp
from efa_cosim.layouts import defs

if TYPE_CHECKING:
    from efa_cosim.device.device import Device

COUNTER_BYTES = 8
_MASK = (1 << 8 * COUNTER_BYTES) - 1
_SHOWN = (1 << defs.EVENTS.ecw.fields["value"][1]) - 1

_Opcode = defs.AdminAqOpcode
_Modify = defs.AdminEventCounterModifyOps
_QP_EVENTS = defs.AdminEventCounterAttachType.QP_EVENTS

# Opcode to the function that executes it.
COMMANDS: dict[int, Command] = {}
command = commands(COMMANDS)


@command(_Opcode.CREATE_EVENT_COUNTER)
def create_event_counter(
    device: Device, cmd: defs.AdminCreateEventCounterCmd
) -> defs.AdminCreateEventCounterResp:
    objects = device.objects
    valid(objects.uars.get(cmd.uar))
    valid(aligned(cmd.paddr, COUNTER_BYTES))
    number = granted(objects.counters.free_number())
    objects.counters.add(number, Counter(number, cmd.uar, cmd.paddr))
    return defs.AdminCreateEventCounterResp(cntr_handle=number)


@command(_Opcode.DESTROY_EVENT_COUNTER)
def destroy_event_counter(device: Device, cmd: defs.AdminDestroyEventCounterCmd) -> None:
    counters = device.objects.counters
    counter: Checked[Counter] = counters.get(cmd.cntr_handle)
    valid(counter)
    unused(not counter.attached)
    counters.remove(counter.index)


@command(_Opcode.ATTACH_EVENT_COUNTER)
def attach_event_counter(device: Device, cmd: defs.AdminAttachDetachEventCounterCmd) -> None:
    counter, qp, events = _attachment(device, cmd)
    unused(all(qp.counters.get(event) in (None, counter) for event in events))
    for event in events:
        counter.attached += event not in qp.counters
        qp.counters[event] = counter


@command(_Opcode.DETACH_EVENT_COUNTER)
def detach_event_counter(device: Device, cmd: defs.AdminAttachDetachEventCounterCmd) -> None:
    counter, qp, events = _attachment(device, cmd)
    valid(all(qp.counters.get(event) is counter for event in events))
    for event in events:
        counter.attached -= 1
        del qp.counters[event]


@command(_Opcode.MODIFY_EVENT_COUNTER)
def modify_event_counter(device: Device, cmd: defs.AdminModifyEventCounterCmd) -> None:
    counter: Checked[Counter] = device.objects.counters.get(cmd.cntr_handle)
    valid(counter)
    valid(isinstance(cmd.operation, _Modify))
    before = 0 if cmd.operation == _Modify.SET else counter.value
    change(device, counter, before + cmd.value)


def change(device: Device, counter: Counter, value: int) -> None:
    """Sets a counter (modulo 2^64) and writes its value to host memory."""
    counter.value = value & _MASK
    if device.on_event is not None:
        device.event("ecw", counter=counter.index, value=counter.value & _SHOWN)
    device.dma_write(counter.address, counter.value.to_bytes(COUNTER_BYTES, "little"))


class _Attachment(NamedTuple):
    """A counter and the events of a QP, as bit numbers, that a command attaches or detaches."""

    counter: Counter
    qp: Qp
    events: list[int]


def _attachment(device: Device, cmd: defs.AdminAttachDetachEventCounterCmd) -> _Attachment:
    """Reads an attachment; refuses an invalid combination."""
    objects, named = device.objects, cmd.u.qp_events
    counter: Checked[Counter] = objects.counters.get(cmd.cntr_handle)
    qp: Checked[Qp] = objects.qp_by_number(named.qp_handle)
    valid(cmd.attach_type == _QP_EVENTS)
    valid(counter and qp and counter.uar == qp.uar)
    valid(named.events and not named.events & ~device.limits.event_counter_events)
    events = [bit for bit in range(32) if named.events >> bit & 1]
    return _Attachment(counter, qp, events)
