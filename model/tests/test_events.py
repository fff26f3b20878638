# SPDX-License-Identifier: Apache-2.0
"""Tests completion events, event queues, and interrupts with all their masks."""

import pytest
from rig import UD, Opcode, Pair, Reg, State

from efa_cosim.layouts import defs


class Events(Pair):
    """A pair whose send CQ reports to an event queue; one() generates one completion."""

    def __init__(self, **options):
        super().__init__(UD, **options)
        self.eq = self.a.eq(vector=3)
        self.cqs = [self.a.cq(self.uar, 64, eq=self.eq) for _ in range(3)]
        self.qps = [self.a.qp(self.pd, self.uar, cq, kind=UD).to(State.RTS) for cq in self.cqs]
        self.sent = [0] * 3
        self.a.interrupts.clear()

    def one(self, which=0):
        self.qps[which].send(self.wqe(inline=b"x"))
        self.sent[which] += 1

    def arm(self, which=0, consumed=None):
        self.cqs[which].ring(self.sent[which] if consumed is None else consumed, arm=1)

    def messages(self):
        found = [vector for vector, _, _ in self.a.interrupts]
        self.a.interrupts.clear()
        return found


def test_an_armed_cq_reports_once_of_its_next_completion():
    pair = Events()
    pair.eq.arm()
    pair.arm()
    assert pair.eq.cqns() == []
    pair.one()
    assert pair.eq.cqns() == [pair.cqs[0].number]
    assert pair.messages() == [3]
    pair.one()
    assert pair.eq.cqns() == pair.messages() == []


def test_a_cq_armed_behind_its_completions_reports_at_once():
    pair = Events()
    pair.eq.arm()
    pair.one()
    assert pair.eq.cqns() == []
    pair.arm(consumed=0)
    assert pair.eq.cqns() == [pair.cqs[0].number]
    pair.one()
    assert pair.eq.cqns() == []


def test_the_consumer_index_counts_modulo_16_bits():
    pair = Events()
    pair.eq.arm()
    pair.a.device.objects.cqs.get(pair.cqs[0].number).written = 0x10000
    pair.arm(consumed=0)
    assert pair.eq.cqns() == []
    pair.arm(consumed=1)
    assert pair.eq.cqns() == [pair.cqs[0].number]


def test_a_doorbell_without_arm_requests_nothing():
    pair = Events()
    pair.eq.arm()
    pair.cqs[0].ring(0)
    pair.one()
    assert pair.eq.cqns() == []


def test_arming_a_cq_without_interrupts_does_nothing():
    pair = Events()
    pair.eq.arm()
    pair.cq.ring(0, arm=1)
    pair.tx.send(pair.wqe(inline=b"x"))
    assert pair.eq.cqns() == pair.messages() == []


def test_a_created_eq_is_not_armed_but_remembers():
    pair = Events()
    pair.arm()
    pair.one()
    assert pair.eq.cqns() == [pair.cqs[0].number]
    assert pair.messages() == []
    pair.eq.arm()
    assert pair.messages() == [3]
    pair.eq.arm()
    assert pair.messages() == []


def test_one_entry_for_each_cq_between_two_arms():
    pair = Events()
    pair.eq.arm()
    for which in (2, 0, 2, 0, 1):
        pair.arm(which)
        pair.one(which)
    assert pair.eq.cqns() == [pair.cqs[n].number for n in (2, 0, 1)]
    assert pair.messages() == [3]
    pair.eq.arm()
    assert pair.eq.cqns() == [pair.cqs[n].number for n in (0, 2)]
    assert pair.messages() == [3]
    pair.eq.arm()
    assert pair.eq.cqns() == []
    assert pair.messages() == [3]


def test_a_kept_event_of_a_destroyed_cq_is_cancelled():
    pair = Events()
    pair.eq.arm()
    for _ in range(2):
        pair.arm()
        pair.one()
    pair.eq.cqns()
    pair.qps[0].destroy()
    pair.a.command(Opcode.DESTROY_CQ, cq_idx=pair.cqs[0].number)
    pair.eq.arm()
    assert pair.eq.cqns() == []


def test_the_event_queue_wraps_with_its_phase():
    pair = Events()
    for _ in range(3 * pair.eq.depth):
        pair.eq.arm()
        pair.arm()
        pair.one()
        pair.cqs[0].poll()
        assert pair.eq.cqns() == [pair.cqs[0].number]


def test_an_event_is_written_after_its_completion_and_before_its_message():
    pair = Events()
    pair.eq.arm()
    pair.arm()
    order = []
    pair.a.device.on_dma_write = lambda address, data: order.append(address)
    pair.a.device.on_interrupt = lambda *message: order.append(message)
    pair.one()
    assert order == [pair.cqs[0].base, pair.eq.base, (3, 0xFEE00030, 0x43)]


@pytest.mark.parametrize("eqn", [1, 7, 8, 0xFFFF])
def test_arming_an_eq_that_is_not_there_does_nothing(eqn):
    pair = Events()
    before = pair.a.device.snapshot()
    pair.a.reg(Reg.EQ_DB, defs.REG_BITS.EQ_DB.pack(EQN=eqn, ARM=1))
    pair.a.reg(Reg.EQ_DB, 0)
    assert pair.a.device.snapshot() == before


# Interrupts.


def pending(host):
    return int.from_bytes(host.device.load(0, host.device.limits.msix_pba_offset, 8), "little")


def test_each_response_sends_vector_zero(host):
    host.pd()
    host.pd()
    assert host.interrupts == [(0, 0xFEE00000, 0x40)] * 2


@pytest.mark.parametrize("vector", [0, 1, 8, 9, 255])
def test_acq_caps_names_the_vector_and_one_beyond_the_table_is_silent(host, vector):
    caps = defs.REG_BITS.ACQ_CAPS.pack(
        ACQ_DEPTH=host.depth, ACQ_ENTRY_SIZE=64, ACQ_MSIX_VECTOR=vector
    )
    host.reg(Reg.ACQ_CAPS, caps)
    host.pd()
    expected = [vector] if vector < host.device.limits.msix_vectors else []
    assert [message[0] for message in host.interrupts] == expected


def test_intr_mask_holds_one_message(host):
    host.reg(Reg.INTR_MASK, 1)
    host.pd()
    host.pd()
    assert host.interrupts == []
    host.reg(Reg.INTR_MASK, 1)
    assert host.interrupts == []
    host.reg(Reg.INTR_MASK, 0)
    assert len(host.interrupts) == 1
    host.reg(Reg.INTR_MASK, 0)
    assert len(host.interrupts) == 1


def test_a_masked_vector_is_pending_and_sent_once_when_unmasked(host):
    host.vector(0, masked=True)
    host.pd()
    host.pd()
    assert (pending(host), host.interrupts) == (1, [])
    host.vector(0)
    assert (pending(host), len(host.interrupts)) == (0, 1)


def test_the_function_mask_holds_every_vector(host):
    host.device.set_msix(True, True)
    host.pd()
    host.vector(0)
    assert (pending(host), host.interrupts) == (1, [])
    host.device.set_msix(True, False)
    assert (pending(host), len(host.interrupts)) == (0, 1)


def test_while_msix_is_disabled_messages_are_lost(host):
    host.device.set_msix(False, False)
    host.pd()
    assert pending(host) == 0
    host.device.set_msix(True, False)
    assert host.interrupts == []


def test_a_pending_bit_survives_being_disabled(host):
    host.device.set_msix(True, True)
    host.pd()
    host.device.set_msix(False, False)
    assert (pending(host), host.interrupts) == (1, [])
    host.device.set_msix(True, False)
    assert len(host.interrupts) == 1


def test_a_register_reset_owes_no_message(host):
    host.vector(0, masked=True)
    host.pd()
    host.reg(Reg.DEV_CTL, 1)
    assert pending(host) == 0


def test_the_table_is_read_back_by_any_bytes(host):
    start = host.device.limits.msix_table_offset
    host.device.store(0, start + 16, b"\xff" * 16)
    expected = b"\xfc" + b"\xff" * 11 + b"\1\0\0\0"
    assert host.device.load(0, start + 16, 16) == expected
    assert host.device.load(0, start + 17, 3) == expected[1:4]
    host.device.store(0, start + 16, b"\0\0")
    assert host.device.load(0, start + 16, 4) == expected[:4]


def test_behind_table_and_pending_bits_there_is_nothing(host):
    limits = host.device.limits
    for offset in (limits.msix_table_offset + 16 * limits.msix_vectors, limits.msix_pba_offset + 8):
        host.names()
        host.reg(offset, 0)
        assert host.device.load(0, offset, 4) == b"\xff" * 4
        assert host.names("anomaly_host") == [{"what": 2, "detail": offset}]


def test_pending_bits_cannot_be_written(host):
    host.device.store(0, host.device.limits.msix_pba_offset, b"\xff" * 8)
    assert pending(host) == 0
