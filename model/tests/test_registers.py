# SPDX-License-Identifier: Apache-2.0
"""Tests BAR 0: identity, readless reads, partial stores, the reset handshake, FLR and bus
mastering."""

import pytest
from rig import QUEUE_DEPTH, Host, Opcode, Refused, Reg, Status

from efa_cosim.layouts import defs

READ_ONLY = (Reg.VERSION, Reg.CONTROLLER_VERSION, Reg.CAPS, Reg.DEV_STS)
READY = defs.REG_BITS.DEV_STS.pack(READY=1)
IN_RESET = defs.REG_BITS.DEV_STS.pack(READY=1, RESET_IN_PROGRESS=1)
FINISHED = defs.REG_BITS.DEV_STS.pack(READY=1, RESET_FINISHED=1)
RESET = defs.REG_BITS.DEV_CTL.pack(DEV_RESET=1)


@pytest.fixture
def host():
    return Host(up=False)


def sts(host):
    return int.from_bytes(host.device.load(0, Reg.DEV_STS, 4), "little")


@pytest.mark.parametrize("profile", [*defs.PROFILES])
def test_identity_is_that_of_the_profile(profile):
    host, values = Host(profile=profile, up=False), defs.PROFILES[profile]
    assert host.read_less(Reg.VERSION) == values.version
    assert host.read_less(Reg.CONTROLLER_VERSION) == values.controller_version
    caps = defs.REG_BITS.CAPS.unpack(host.read_less(Reg.CAPS))
    assert caps.CONTIGUOUS_QUEUE_REQUIRED == 1
    assert caps.RESET_TIMEOUT == values.reset_timeout
    assert caps.DMA_ADDR_WIDTH == values.dma_addr_width
    assert caps.ADMIN_CMD_TO == values.admin_cmd_to
    assert host.read_less(Reg.DEV_STS) == READY


@pytest.mark.parametrize("register", [r for r in Reg if r not in READ_ONLY])
def test_write_only_registers_read_as_zero(host, register):
    host.reg(register, 0xFFFFFFFE)
    assert host.device.load(0, register, 4) == bytes(4)


@pytest.mark.parametrize("offset", [0x0C, 0x30, 0x59, 0x6C, 0xFFC, 0x2000, 0xFFFF])
def test_unknown_offsets_answer_all_ones_with_their_offset(host, offset):
    assert host.read_less(offset) == 0xFFFFFFFF


def test_a_read_less_answer_is_one_aligned_write_to_the_address_stored_before(host):
    host.reg(Reg.MMIO_RESP_HI, 0x12)
    host.reg(Reg.MMIO_RESP_LO, 0x3456_7000)
    host.reg(Reg.MMIO_REG_READ, (Reg.DEV_STS << 16) | 0xABCD)
    [(address, data)] = host.writes
    assert address == 0x12_3456_7000
    assert data.hex() == "cdab580001000000"


def test_a_read_less_read_before_any_address_goes_to_address_zero(host):
    host.reg(Reg.MMIO_REG_READ, 1)
    assert host.writes == [(0, bytes.fromhex("0100000002000000"))]


def test_stores_act_dword_by_dword_and_ignore_partial_dwords(host):
    address = 0x55_0000_1000
    both = address.to_bytes(8, "little")
    host.device.store(0, Reg.MMIO_RESP_LO, both)
    host.device.store(0, Reg.MMIO_RESP_HI, b"\xff\xff")
    host.device.store(0, Reg.MMIO_RESP_LO + 1, b"\xee\xee\xee")
    host.device.store(0, Reg.MMIO_REG_READ, b"\x01\0\0\0")
    assert [address for address, _ in host.writes] == [address]
    assert [v["what"] for v in host.names("anomaly_host")] == [1, 1]


def test_a_store_of_any_alignment_is_split_at_its_line(host):
    data, start = bytearray(64), Reg.DEV_CTL - 2
    place = Reg.MMIO_RESP_LO - start
    data[place : place + 4] = (0x1000).to_bytes(4, "little")
    host.device.store(0, start, bytes(data))
    assert [v["what"] for v in host.names("anomaly_host")][:1] == [1]
    host.device.store(0, Reg.MMIO_REG_READ, (1).to_bytes(4, "little"))
    assert host.writes[-1][0] == 0x1000


@pytest.mark.parametrize("offset", [*READ_ONLY, 0x0C, 0x6C, 0x1FFC])
def test_stores_to_read_only_and_unknown_registers_change_nothing(host, offset):
    before = host.device.snapshot()
    host.reg(offset, 0xFFFFFFFF)
    assert host.device.snapshot() == before
    assert host.names("anomaly_host") == [{"what": 2, "detail": offset}]


def test_mmio_reads_give_any_bytes_of_registers_and_zeros_elsewhere(host):
    low, high = host.device.load(0, 0, 4), host.device.load(0, 4, 4)
    assert host.device.load(0, 1, 5) == (low + high)[1:6]
    assert host.device.load(2, 64, 8) == host.device.load(4, 64, 8) == bytes(8)
    assert host.device.load(0, 0x0C, 4) == b"\xff" * 4


def test_the_reset_handshake_as_the_driver_does_it():
    host = Host()
    host.pd()
    host.reg(Reg.DEV_CTL, RESET)
    assert host.read_less(Reg.DEV_STS) == IN_RESET
    host.reg(Reg.DEV_CTL, RESET)
    assert host.read_less(Reg.DEV_STS) == IN_RESET
    host.reg(Reg.DEV_CTL, 0)
    assert host.read_less(Reg.DEV_STS) == FINISHED
    assert [v["step"] for v in host.names("reset")] == [0, 1, 2]
    host.bring_up()
    assert host.pd() == 0
    host.reg(Reg.DEV_CTL, RESET)
    assert host.read_less(Reg.DEV_STS) == IN_RESET


def test_a_reset_clears_what_the_host_wrote_but_not_the_msix_table():
    host = Host()
    host.reg(Reg.MMIO_RESP_LO, 0x5000)
    host.reg(Reg.INTR_MASK, 1)
    table = host.device.load(0, host.device.limits.msix_table_offset, 16)
    host.reg(Reg.DEV_CTL, RESET)
    host.writes.clear()
    host.reg(Reg.MMIO_REG_READ, 1)
    assert host.writes[0][0] == 0
    host.reg(Reg.DEV_CTL, 0)
    host.ring_aq()
    assert len(host.writes) == 1
    assert host.device.load(0, host.device.limits.msix_table_offset, 16) == table
    host.bring_up()
    host.pd()
    assert len(host.interrupts) == 1


def test_during_a_reset_no_ring_can_be_enabled():
    host = Host(up=False)
    host.reg(Reg.DEV_CTL, RESET)
    host.bring_up()
    host.write_command(Opcode.ALLOC_PD)
    host.ring_aq()
    host.reg(Reg.DEV_CTL, 0)
    host.ring_aq()
    assert host.writes == []


def test_the_end_of_a_reset_that_never_began_is_nothing(host):
    before = host.device.snapshot()
    host.reg(Reg.DEV_CTL, 0)
    assert host.device.snapshot() == before


def test_flr_clears_everything_the_msix_table_too():
    host = Host()
    host.reg(Reg.DEV_CTL, RESET)
    host.reg(Reg.DEV_CTL, 0)
    host.bring_up()
    host.pd()
    host.device.flr()
    fresh = Host(up=False)
    assert host.device.snapshot() == fresh.device.snapshot()
    assert sts(host) == READY
    entry = host.device.load(0, host.device.limits.msix_table_offset, 16)
    assert entry == bytes(12) + b"\1\0\0\0"


def test_without_bus_mastering_nothing_leaves_until_it_is_back():
    host = Host()
    host.device.set_bus_master(False)
    host.writes.clear()
    host.write_command(Opcode.ALLOC_PD)
    host.ring_aq()
    host.reg(Reg.MMIO_RESP_LO, 0x7000)
    host.reg(Reg.MMIO_REG_READ, 1)
    assert host.writes == host.interrupts == []
    host.device.set_bus_master(True)
    assert [address for address, _ in host.writes] == [host.acq, 0x7000]
    assert len(host.interrupts) == 1


def test_more_waiting_read_less_reads_than_the_device_holds_are_lost():
    host = Host(up=False)
    host.device.set_bus_master(False)
    limit = host.device.limits.mmio_reads
    for sequence in range(limit + 2):
        host.reg(Reg.MMIO_REG_READ, sequence)
    host.device.set_bus_master(True)
    responses = [int.from_bytes(data[:2], "little") for _, data in host.writes]
    assert responses == list(range(limit))
    assert [v["what"] for v in host.names("anomaly_host")] == [3, 3]
    host.reg(Reg.MMIO_REG_READ, 99)
    assert len(host.writes) == limit + 1


def test_a_reset_clears_what_waited_for_bus_mastering():
    host = Host()
    host.device.set_bus_master(False)
    host.write_command(Opcode.ALLOC_PD)
    host.ring_aq()
    host.reg(Reg.DEV_CTL, RESET)
    host.writes.clear()
    host.device.set_bus_master(True)
    assert host.writes == []


def test_a_waiting_answer_keeps_its_value_over_a_reset_but_not_over_an_flr(host):
    host.reg(Reg.MMIO_RESP_LO, 0x7004)
    host.device.set_bus_master(False)
    host.reg(Reg.MMIO_REG_READ, Reg.DEV_STS << 16 | 1)
    host.reg(Reg.DEV_CTL, RESET)
    host.device.set_bus_master(True)
    assert host.writes == [(0x7000, bytes.fromhex("01005800") + READY.to_bytes(4, "little"))]
    host.device.set_bus_master(False)
    host.reg(Reg.MMIO_REG_READ, 2)
    host.device.flr()
    host.device.set_bus_master(True)
    assert len(host.writes) == 1


# The admin rings.


@pytest.mark.parametrize("depth", [1, 2, QUEUE_DEPTH, 1024])
def test_rings_of_every_valid_depth_wrap(depth):
    host = Host(up=False)
    host.bring_up(depth)
    for _ in range(2 * depth + 1):
        host.command(Opcode.GET_FEATURE, **{"feature_common.feature_id": 5})


@pytest.mark.parametrize("caps", [(0, 64), (3, 64), (2048, 64), (32, 96), (32, 0)])
@pytest.mark.parametrize("register", [Reg.AQ_CAPS, Reg.ACQ_CAPS])
def test_an_illegal_ring_is_disabled(register, caps):
    host = Host()
    depth, size = caps
    host.reg(register, size << 16 | depth)
    host.write_command(Opcode.ALLOC_PD)
    host.writes.clear()
    host.ring_aq()
    assert host.writes == []


def test_commands_posted_before_the_acq_is_there_are_taken_when_it_is():
    host = Host()
    caps = defs.REG_BITS.ACQ_CAPS.pack(ACQ_DEPTH=host.depth, ACQ_ENTRY_SIZE=64)
    host.reg(Reg.ACQ_CAPS, 0)
    host.write_command(Opcode.ALLOC_PD)
    host.ring_aq()
    host.writes.clear()
    host.reg(Reg.ACQ_CAPS, caps)
    assert len(host.writes) == 1


def test_writing_aq_caps_again_starts_that_ring_again():
    host = Host()
    for _ in range(3):
        host.pd()
    caps = defs.REG_BITS
    host.reg(Reg.AQ_CAPS, caps.AQ_CAPS.pack(AQ_DEPTH=32, AQ_ENTRY_SIZE=64))
    host.reg(Reg.ACQ_CAPS, caps.ACQ_CAPS.pack(ACQ_DEPTH=32, ACQ_ENTRY_SIZE=64))
    host.commands = 0
    assert host.pd() == 3


@pytest.mark.parametrize("value", [33, 0xFFFF, 0x8000])
def test_an_aq_doorbell_beyond_the_ring_is_ignored_and_reported(value):
    host = Host()
    host.names()
    host.writes.clear()
    host.reg(Reg.AQ_PROD_DB, value)
    assert host.writes == []
    assert host.names("anomaly_admin") == [{"what": 1, "detail": value}]
    assert host.pd() == 0


def test_an_aq_doorbell_may_announce_a_full_ring():
    host = Host()
    for _ in range(QUEUE_DEPTH):
        host.write_command(Opcode.ALLOC_PD)
    host.ring_aq()
    assert [host.response(n + 1)[0].command_id for n in range(QUEUE_DEPTH)] == list(range(32))


def test_the_aq_counter_wraps_at_16_bits():
    host = Host()
    host.commands = 0
    queue = host.device.admin
    for ring in (queue.aq,):
        ring.produced = ring.consumed = ring.completed = 0xFFFE
    queue.acq.written = host.commands = 0xFFFE
    for _ in range(4):
        host.command(Opcode.ALLOC_PD)
    assert host.commands == 0x10002


def test_the_phase_bit_of_a_command_is_reported_and_not_obeyed():
    host = Host()
    host.write_command(Opcode.ALLOC_PD)
    raw = bytearray(host.memory.read(host.aq, 4))
    raw[3] ^= 1
    host.memory.write(host.aq, bytes(raw))
    host.ring_aq()
    assert host.response(1)[0].status == Status.SUCCESS
    assert host.names("anomaly_admin") == [{"what": 3, "detail": 0}]


def test_a_failed_read_of_a_command_is_answered_and_the_ring_goes_on():
    host = Host()
    host.write_command(Opcode.ALLOC_PD)
    host.memory.fail(host.aq, 64)
    host.ring_aq()
    header, raw = host.response(1)
    assert (header.command_id, header.status) == (0, Status.UNKNOWN_ERROR)
    assert not any(raw[8:])
    host.memory.heal()
    assert host.pd() == 0


def test_aenq_consumer_ahead_of_the_producer_is_reported():
    host = Host()
    host.reg(Reg.AENQ_CAPS, defs.REG_BITS.AENQ_CAPS.pack(AENQ_DEPTH=16, AENQ_ENTRY_SIZE=64))
    host.names()
    host.reg(Reg.AENQ_CONS_DB, 0)
    assert host.names("anomaly_admin") == []
    host.reg(Reg.AENQ_CONS_DB, 1)
    assert host.names("anomaly_admin") == [{"what": 2, "detail": 1}]


def test_responses_are_one_64_byte_write_each_and_carry_the_whole_id():
    host = Host()
    host.writes.clear()
    host.commands = 0
    for _ in range(2):
        host.pd()
    assert [(address, len(data)) for address, data in host.writes] == [
        (host.acq, 64), (host.acq + 64, 64)
    ]  # fmt: skip
    with pytest.raises(Refused):
        host.command(0x7F)


def test_low_bits_of_the_ring_bases_are_taken_as_zero():
    host, caps = Host(), defs.REG_BITS
    host.base(Reg.AQ_BASE_LO, Reg.AQ_BASE_HI, host.aq | 0x3F)
    host.reg(Reg.AQ_CAPS, caps.AQ_CAPS.pack(AQ_DEPTH=32, AQ_ENTRY_SIZE=64))
    host.base(Reg.ACQ_BASE_LO, Reg.ACQ_BASE_HI, host.acq | 0x20)
    host.reg(Reg.ACQ_CAPS, caps.ACQ_CAPS.pack(ACQ_DEPTH=32, ACQ_ENTRY_SIZE=64))
    assert host.pd() == 0
