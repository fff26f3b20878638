# SPDX-License-Identifier: Apache-2.0
"""Tests interrupt moderation: an early message is delayed and merged, never lost."""

import pytest
from rig import Host, Opcode, Reg


@pytest.fixture
def host():
    return Host(moderated=True)


def sent(host):
    vectors = [message[2] - 0x40 for message in host.interrupts]
    host.interrupts.clear()
    return vectors


def test_early_messages_merge_into_one(host):
    for _ in range(5):
        host.pd()
    assert sent(host) == [0]
    assert host.device.let_time_pass()
    assert sent(host) == [0]
    assert not host.device.let_time_pass()
    host.pd()
    assert sent(host) == [0]


def test_each_vector_has_its_own_time(host):
    host.aenq(vector=2)
    sent(host)
    host.device.let_time_pass()
    sent(host)
    host.device.raise_event(1)
    host.pd()
    assert sent(host) == [2, 0]


def test_the_message_behind_a_held_one_closes_its_vector_again(host):
    host.pd()
    host.pd()
    host.device.let_time_pass()
    host.pd()
    assert sent(host) == [0, 0]
    assert host.device.let_time_pass()
    assert sent(host) == [0]


def test_a_mask_on_top_makes_it_pending(host):
    host.pd()
    host.pd()
    host.vector(0, masked=True)
    host.device.let_time_pass()
    assert sent(host) == [0] and host.device.interrupts.pending == 1
    host.vector(0)
    assert sent(host) == [0]


def test_a_reset_owes_no_held_message(host):
    host.pd()
    host.pd()
    host.reg(Reg.DEV_CTL, 1)
    host.reg(Reg.DEV_CTL, 0)
    sent(host)
    assert not host.device.let_time_pass()
    host.bring_up()
    host.command(Opcode.ALLOC_PD)
    assert sent(host) == [0]


def test_without_moderation_every_message_leaves():
    host = Host()
    for _ in range(5):
        host.pd()
    assert sent(host) == [0] * 5
    assert not host.device.let_time_pass()
