# SPDX-License-Identifier: Apache-2.0
"""Tests asynchronous events: groups, ring, consumer doorbell, keep-alives, interrupts."""

import pytest
from rig import Opcode, Reg

from efa_cosim.layouts import defs

FATAL, WARNING, NOTIFICATION, KEEP_ALIVE = range(1, 5)
DROPPED, CONSUMER, NO_VECTOR = 5, 2, 5
RESET = defs.REG_BITS.DEV_CTL.pack(DEV_RESET=1)


def anomaly(host):
    return [values["what"] for values in host.names("anomaly_admin")]


@pytest.mark.parametrize("group", [FATAL, WARNING, NOTIFICATION, KEEP_ALIVE])
def test_an_event_is_one_entry_with_its_data_and_then_a_message(host, group):
    ring, data = host.aenq(vector=3), bytes(range(48))
    host.writes.clear()
    host.interrupts.clear()
    host.device.raise_event(group, 0x1234, data)
    [(address, entry)] = host.writes
    assert (address, len(entry)) == (ring.base, 64)
    assert ring.events() == [(group, 0x1234, data)]
    assert [message[2] for message in host.interrupts] == [0x43]


def test_the_entry_is_the_golden_one_but_for_its_time(host):
    ring = host.aenq()
    host.device.keep_alive()
    entry = host.memory.read(ring.base, 64)
    assert entry == bytes.fromhex("0400000001") + bytes(59)


@pytest.mark.parametrize("group", range(7))
def test_only_enabled_groups_are_reported(host, group):
    ring = host.aenq(groups=1 << WARNING | 1 << KEEP_ALIVE)
    host.names()
    host.device.raise_event(group, 7)
    text = group in (WARNING, KEEP_ALIVE)
    assert len(ring.events()) == text
    assert anomaly(host) == ([] if text else [DROPPED])


def test_nothing_is_enabled_at_first_and_after_a_reset(host):
    host.names()
    host.device.raise_event(FATAL)
    host.device.keep_alive()
    assert anomaly(host) == [DROPPED]
    host.aenq()
    host.reg(Reg.DEV_CTL, RESET)
    host.device.raise_event(FATAL)
    host.reg(Reg.DEV_CTL, 0)
    host.bring_up()
    host.writes.clear()
    host.device.keep_alive()
    assert host.writes == []
    response = host.command(Opcode.GET_FEATURE, **{"feature_common.feature_id": 2})
    assert response.u.aenq.enabled_groups == 0


def test_without_a_ring_events_are_dropped(host):
    host.enable(0x1E)
    host.names()
    host.device.raise_event(FATAL)
    host.device.keep_alive()
    assert anomaly(host) == [DROPPED, DROPPED]


@pytest.mark.parametrize("exponent", range(11))
def test_the_ring_wraps_at_every_depth(host, exponent):
    ring = host.aenq(1 << exponent)
    for wrap in range(3):
        for number in range(ring.depth):
            host.device.raise_event(WARNING, number)
        assert [syndrome for _, syndrome, _ in ring.events()] == list(range(ring.depth)), wrap
        ring.consume()


def test_a_full_ring_drops_keep_alives_and_holds_the_rest(host):
    ring = host.aenq(4)
    for number in range(4):
        host.device.raise_event(WARNING, number)
    host.names()
    host.writes.clear()
    host.device.keep_alive()
    host.device.raise_event(FATAL, 10)
    host.device.raise_event(NOTIFICATION, 11)
    assert host.writes == [] and anomaly(host) == []
    assert len(ring.events()) == 4
    ring.consume(1)
    assert ring.events()[0][:2] == (FATAL, 10)
    ring.consume(3)
    assert ring.events()[0][:2] == (NOTIFICATION, 11)


def test_a_waiting_event_goes_when_its_group_is_disabled(host):
    ring = host.aenq(1)
    for group in (WARNING, FATAL, NOTIFICATION):
        host.device.raise_event(group, group)
    host.names()
    host.enable(1 << NOTIFICATION)
    assert anomaly(host) == [DROPPED]
    assert ring.events()[0][0] == WARNING
    ring.consume()
    assert ring.events()[0][0] == NOTIFICATION


def test_a_waiting_event_goes_when_the_ring_is_switched_off(host):
    host.aenq(1)
    host.device.raise_event(WARNING)
    host.device.raise_event(FATAL)
    host.names()
    host.reg(Reg.AENQ_CAPS, 0)
    assert anomaly(host) == [DROPPED]


def test_a_waiting_event_comes_into_a_ring_that_begins_again(host):
    host.aenq(1)
    host.device.raise_event(WARNING)
    host.device.raise_event(FATAL, 5)
    again = host.aenq(2)
    assert again.events()[0][:2] == (FATAL, 5)


def test_a_reset_drops_what_waits(host):
    host.aenq(1)
    host.device.raise_event(WARNING)
    host.device.raise_event(FATAL)
    host.reg(Reg.DEV_CTL, RESET)
    host.reg(Reg.DEV_CTL, 0)
    host.bring_up()
    assert host.aenq(4).events() == []


@pytest.mark.parametrize("value", [6, 0, 0xFFFF_FFFF, 1 << 31])
def test_a_consumer_ahead_or_behind_is_ignored_and_reported(host, value):
    ring = host.aenq(4)
    for _ in range(4):
        host.device.raise_event(WARNING)
    ring.consume(1)
    host.device.raise_event(FATAL)
    before = host.device.digest()
    host.names()
    ring.consume(value)
    assert anomaly(host) == [CONSUMER]
    assert host.device.digest() == before
    # The current consumer index and every index up to the producer index stay valid.
    for good in (1, 3, 5):
        ring.consume(good)
    assert anomaly(host) == []


def test_the_consumer_counts_32_bits(host):
    ring = host.aenq(4)
    events = host.device.admin.events
    events.ring.written = events.consumed = ring.consumed = 0xFFFF_FFFE
    for number in range(4):
        host.device.raise_event(WARNING, number)
    assert len(ring.events()) == 4
    host.names()
    ring.consume(2)
    assert anomaly(host) == []
    for number in range(5):
        host.device.raise_event(WARNING, number)
    assert len(ring.events()) == 4


def test_masked_events_and_responses_hold_one_message_each_vector(host):
    host.aenq(vector=2)
    host.reg(Reg.INTR_MASK, 1)
    host.interrupts.clear()
    for _ in range(3):
        host.device.raise_event(WARNING)
        host.write_command(Opcode.ALLOC_PD)
        host.ring_aq()
    assert host.interrupts == []
    host.reg(Reg.INTR_MASK, 0)
    assert [message[2] for message in host.interrupts] == [0x40, 0x42]
    host.reg(Reg.INTR_MASK, 1)
    host.reg(Reg.INTR_MASK, 0)
    assert len(host.interrupts) == 2


def test_one_vector_for_both_is_one_held_message(host):
    host.aenq(vector=0)
    host.reg(Reg.INTR_MASK, 1)
    host.interrupts.clear()
    host.device.raise_event(WARNING)
    host.pd()
    host.reg(Reg.INTR_MASK, 0)
    assert [message[2] for message in host.interrupts] == [0x40]


def test_a_vector_that_is_not_there_sends_nothing_and_is_reported(host):
    ring = host.aenq(vector=host.device.limits.msix_vectors)
    host.names()
    host.interrupts.clear()
    host.device.raise_event(WARNING)
    assert len(ring.events()) == 1
    assert host.interrupts == []
    assert [values["what"] for values in host.names("anomaly_host")] == [NO_VECTOR]


def test_without_bus_mastering_an_event_follows_later(host):
    ring = host.aenq()
    host.device.set_bus_master(False)
    host.device.raise_event(WARNING, 9)
    assert ring.events() == []
    host.device.set_bus_master(True)
    assert ring.events()[0][:2] == (WARNING, 9)


def test_low_bits_of_the_event_ring_base_are_taken_as_zero(host):
    ring = host.aenq()
    host.base(Reg.AENQ_BASE_LO, Reg.AENQ_BASE_HI, ring.base | 0x3F)
    caps = defs.REG_BITS.AENQ_CAPS.pack(AENQ_DEPTH=16, AENQ_ENTRY_SIZE=64)
    host.reg(Reg.AENQ_CAPS, caps)
    host.device.raise_event(WARNING)
    assert len(ring.events()) == 1


@pytest.mark.parametrize("caps", [(0, 64), (3, 64), (2048, 64), (16, 128), (16, 0)])
def test_an_illegal_event_ring_is_switched_off(host, caps):
    host.aenq()
    host.writes.clear()
    host.reg(Reg.AENQ_CAPS, caps[1] << 16 | caps[0])
    host.device.raise_event(WARNING)
    assert host.writes == []
