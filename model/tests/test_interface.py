# SPDX-License-Identifier: Apache-2.0
"""Tests interface versions 0.1 to 0.3: VERSION, the checksum of responses, AQEs of 128 bytes."""

import pytest
from rig import ENTRY, Host, Opcode, Reg, Status

from efa_cosim.host.admin_queue import widened
from efa_cosim.layouts import defs
from efa_cosim.layouts.codec import crc16

WIDE = defs.AdminAqEntryV2.SIZE
HINTS = {"feature_common.feature_id": 5}
RESET = defs.REG_BITS.DEV_CTL.pack(DEV_RESET=1)


def corrupt(host, command, at, value=0xFF):
    """Changes one byte of an AQE that is written but not posted."""
    place = host.aq + (command - 1) % host.depth * host.entry + at
    [byte] = host.memory.read(place, 1)
    host.memory.write(place, bytes([byte ^ value]))


def status_of(host):
    host.ring_aq()
    return host.response(host.commands)[0].status


@pytest.mark.parametrize(("strap", "version"), [(0, 2), (1, 1), (2, 2), (3, 3)])
@pytest.mark.parametrize("profile", [*defs.PROFILES])
def test_the_strap_chooses_the_version(strap, version, profile):
    host = Host(profile=profile, interface=strap)
    assert host.read_less(Reg.VERSION) == version
    host.pd()
    checksum = host.memory.read(host.acq + 4, 4)
    assert any(checksum) == (version >= 2)


def test_the_strap_is_sampled_where_a_reset_ends():
    host = Host(interface=1)
    host.device.interface = 3
    assert host.read_less(Reg.VERSION) == 1
    host.reg(Reg.DEV_CTL, RESET)
    assert host.read_less(Reg.VERSION) == 1
    host.device.interface = 2
    host.reg(Reg.DEV_CTL, 0)
    assert host.read_less(Reg.VERSION) == 2
    host.device.interface = 3
    host.device.flr()
    assert host.read_less(Reg.VERSION) == 3


@pytest.mark.parametrize("interface", [1, 2, 3])
@pytest.mark.parametrize("wide", [False, True])
def test_every_version_takes_entries_of_both_sizes(interface, wide):
    host = Host(interface=interface, wide=wide)
    pd = host.pd()
    key = host.mr(pd, 0x5000, 0x3000)
    assert host.refusal(Opcode.DEALLOC_PD, pd=pd) == Status.RESOURCE_BUSY
    host.command(Opcode.DEREG_MR, l_key=key)
    host.command(Opcode.DEALLOC_PD, pd=pd)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("exponent", range(11))
def test_rings_of_both_entry_sizes_wrap_at_every_depth(wide, exponent):
    host = Host(up=False, wide=wide)
    host.bring_up(1 << exponent)
    for _ in range(2 * host.depth + 1):
        host.command(Opcode.GET_FEATURE, **HINTS)
    # One command per slot of the ring, all posted by one doorbell that wraps.
    for _ in range(host.depth):
        host.write_command(Opcode.GET_FEATURE, **HINTS)
    host.ring_aq()
    first = host.commands - host.depth
    ids = [host.response(first + n)[0].command_id for n in range(1, host.depth + 1)]
    assert ids == [(first + n) & 0xFFF for n in range(host.depth)]


@pytest.mark.parametrize("at", [0, 2, 4, 5, 6, 11, 12, 71, 72, 127])
@pytest.mark.parametrize("interface", [1, 3])
def test_a_wrong_checksum_is_malformed_wherever_the_byte_is(at, interface):
    host = Host(interface=interface, wide=True)
    before = host.device.digest()
    host.write_command(Opcode.ALLOC_PD)
    corrupt(host, 1, at)
    host.ring_aq()
    header, raw = host.response(1)
    assert header.status == Status.MALFORMED_REQUEST
    # The response carries the command id as received, even if corrupted.
    assert header.command_id == (0x0FF if at == 0 else 0)
    assert not any(raw[8:])
    assert host.device.digest() == before


def test_a_payload_version_is_malformed():
    host = Host(wide=True)
    host.write_command(Opcode.ALLOC_PD)
    image = bytearray(host.memory.read(host.aq, WIDE))
    header = defs.AdminAqCommonDescV2.over(image)
    header.payload_ver, header.checksum = 1, 0
    header.checksum = crc16(image)
    host.memory.write(host.aq, bytes(image))
    assert status_of(host) == Status.MALFORMED_REQUEST


def test_a_wrong_checksum_comes_before_an_unknown_opcode():
    host = Host(wide=True)
    assert host.refusal(Opcode.SERVICE) == Status.UNSUPPORTED_OPCODE
    host.write_command(Opcode.SERVICE)
    corrupt(host, 2, 100)
    assert status_of(host) == Status.MALFORMED_REQUEST


def test_bytes_beyond_the_short_form_are_not_looked_at():
    host = Host(wide=True)
    host.write_command(Opcode.ALLOC_PD)
    image = bytearray(host.memory.read(host.aq, WIDE))
    image[7:12], image[72:] = b"\xff" * 5, b"\xff" * 56
    header = defs.AdminAqCommonDescV2.over(image)
    header.checksum = 0
    header.checksum = crc16(image)
    host.memory.write(host.aq, bytes(image))
    assert status_of(host) == Status.SUCCESS


@pytest.mark.parametrize("at", [0, 63, 64, 127])
def test_a_failed_read_of_either_half_fails_the_entry(at):
    host = Host(wide=True)
    host.write_command(Opcode.ALLOC_PD)
    host.memory.fail(host.aq + at, 1)
    host.ring_aq()
    header, _ = host.response(1)
    assert (header.command_id, header.status) == (0, Status.UNKNOWN_ERROR)
    host.memory.heal()
    assert host.pd() == 0


def test_the_ring_may_change_its_entry_size():
    host = Host()
    host.pd()
    for wide in (True, False, True):
        host.wide = wide
        host.bring_up(4)
        for _ in range(5):
            host.command(Opcode.GET_FEATURE, **HINTS)


def test_widened_agrees_with_the_golden_image():
    request = defs.AdminGetFeatureCmd(feature_common={"feature_id": 1})
    request.aq_common.opcode, request.aq_common.phase = Opcode.GET_FEATURE, 1
    assert defs.AdminAqCommonDescV2.unpack(widened(request.pack(ENTRY))).checksum == 0xD89B
