# SPDX-License-Identifier: Apache-2.0
"""Tests the driver side against the reference model: initialization, admin queue, events, errors.
"""

import pytest

from efa_cosim.backends import open_backend
from efa_cosim.backends.model import ModelBackend
from efa_cosim.boundary.backend import BackendUnavailable, DeviceTimeout
from efa_cosim.device.admin_rules import address_of
from efa_cosim.host.admin_queue import DriverError
from efa_cosim.host.alloc import PAGE_BYTES, HostAllocator, OutOfHostMemory
from efa_cosim.host.driver import FLAVOURS, Driver
from efa_cosim.host.driver_objects import Access
from efa_cosim.layouts import defs

Reg = defs.Reg
Status = defs.AdminAqCompletionStatus


class Spy(ModelBackend):
    """A model that records its register stores and can corrupt them."""

    def __init__(self, **options):
        self.log = []
        self.corrupt = None
        super().__init__(**options)

    def stores(self, items):
        self.log += [(Reg(o), int.from_bytes(d, "little")) for bar, o, d in items
                     if bar == 0 and o in Reg._value2member_map_]
        super().stores(items)


@pytest.fixture
def backend():
    return Spy(record=True)


@pytest.fixture
def driver(backend):
    return Driver(backend).probe()


def reset_stores():
    return [Reg.MMIO_REG_READ, Reg.MMIO_REG_READ, Reg.DEV_CTL, Reg.MMIO_RESP_HI,
            Reg.MMIO_RESP_LO, Reg.MMIO_REG_READ, Reg.DEV_CTL, Reg.MMIO_REG_READ]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_probe_stores_registers_in_the_order_of_its_flavour(backend, flavour):
    Driver(backend, flavour).probe()
    aq = [Reg.AQ_BASE_LO, Reg.AQ_BASE_HI, Reg.AQ_CAPS,
          Reg.ACQ_BASE_LO, Reg.ACQ_BASE_HI, Reg.ACQ_CAPS]
    aenq = [Reg.AENQ_BASE_LO, Reg.AENQ_BASE_HI, Reg.AENQ_CAPS, Reg.AENQ_CONS_DB]
    read = Reg.MMIO_REG_READ
    expected = [Reg.MMIO_RESP_HI, Reg.MMIO_RESP_LO, *reset_stores(), read, read, read, read]
    if flavour == "newest":
        expected += [Reg.INTR_MASK, *aq, *aenq, read, Reg.INTR_MASK]
        masks = [1, 0]
    else:
        expected += [*aq, Reg.INTR_MASK, *aenq, read]
        masks = [0]
    assert [register for register, _ in backend.log[: len(expected)]] == expected
    assert backend.log[len(expected)] == (Reg.AQ_PROD_DB, 1)
    assert [value for register, value in backend.log if register == Reg.INTR_MASK] == masks


def test_probe_learns_what_the_device_is(driver):
    profile, limits = defs.PROFILES.default, defs.LIMITS
    assert driver.gid == limits.gid_prefix + b"\x00\x01"
    assert driver.mtu == profile.mtu
    assert driver.db_bar == limits.db_bar
    assert driver.inline_bytes == profile.inline_buf_size_ex
    assert driver.queue_attr.max_qp == 1 << limits.qpn_w
    assert driver.dma_width == profile.dma_addr_width
    assert [eq.vector for eq in driver.eqs] == [1, 2]
    assert not driver.admin.strays


def test_cpus_bound_the_event_queues(backend):
    assert len(Driver(backend, cpus=1).probe().eqs) == 1


def test_remove_and_probe_again_gives_all_memory_back(backend):
    driver = Driver(backend).probe()
    used = set(driver.allocator._live)
    driver.remove()
    assert len(driver.allocator._live) == 1
    driver.probe()
    assert set(driver.allocator._live) == used


def test_shutdown_names_its_reason(backend, driver):
    driver.shutdown()
    resets = [value for register, value in backend.log if register == Reg.DEV_CTL and value]
    reason = defs.REG_BITS.DEV_CTL.unpack(resets[-1]).RESET_REASON
    assert reason == defs.RegsResetReasonTypes.SHUTDOWN


def test_registers_are_read_without_reads(backend, driver):
    assert driver.read_register(Reg.VERSION) == defs.PROFILES.default.version
    assert driver.read_register(0x1000) == defs.EFA_MMIO_READ_INVALID


def test_a_missing_response_reads_as_invalid(driver):
    driver.backend.set_bus_master(False)
    assert driver.read_register(Reg.VERSION) == defs.EFA_MMIO_READ_INVALID


def test_the_sequence_number_of_register_reads_wraps(driver):
    driver._sequence = 0xFFFE
    for _ in range(4):
        assert driver.read_register(Reg.VERSION) == defs.PROFILES.default.version
    assert driver._sequence == 2


def test_32_commands_are_outstanding_and_a_33rd_waits(driver):
    commands = [driver.submit(defs.AdminAllocPdCmd()) for _ in range(33)]
    pds = [driver.finish(command).pd for command in commands]
    assert pds == list(range(33))
    assert not driver.admin.outstanding


def test_command_ids_and_phase_survive_the_wraps(driver):
    seen = set()
    for _ in range(2 * 128):
        seen.add(driver.finish(driver.submit(defs.AdminAllocUarCmd())).uar)
        command = driver.submit(defs.AdminDeallocUarCmd(uar=0))
        seen.add(("id", command.command_id))
        driver.finish(command)
    assert 0 in seen
    assert len(seen) == 1 + 64
    assert not driver.admin.strays


def test_a_refusal_carries_the_status(driver):
    with pytest.raises(DriverError, match="DEALLOC_PD: ILLEGAL_PARAMETER") as error:
        driver.dealloc_pd(5)
    assert error.value.status == Status.ILLEGAL_PARAMETER


def test_a_lost_admin_interrupt_stops_the_queue_for_good(driver, backend):
    backend.device.set_msix(False, False)
    with pytest.raises(DriverError, match="ALLOC_PD: no completion"):
        driver.alloc_pd()
    backend.device.set_msix(True, False)
    with pytest.raises(DriverError, match="stopped"):
        driver.alloc_pd()


def test_a_wrong_checksum_drops_the_completion(driver, backend):
    write = backend.device_memory.write

    def corrupted(address, data):
        data = bytearray(data)
        if len(data) == defs.AdminAcqEntry.SIZE:
            data[20] ^= 1
        write(address, data)

    backend.device_memory.write = corrupted
    with pytest.raises(DriverError, match="no completion"):
        driver.alloc_pd()
    assert "checksum" in driver.admin.strays[0]


@pytest.mark.parametrize(("version", "flavour", "text"), [
    (0, "newest", "too old"), (3, "newest", None), (3, "3.1.0", None), (1, "newest", None)])
def test_version_gates(backend, version, flavour, text):
    backend.device.profile = type(defs.PROFILES)({**defs.PROFILES.default, "version": version})
    backend.flr()
    if text is None:
        Driver(backend, flavour).probe()
    else:
        with pytest.raises(DriverError, match=text):
            Driver(backend, flavour).probe()


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("interface", [1, 2, 3])
def test_drivers_speak_every_interface_version(interface, flavour):
    spy = Spy(interface=interface)
    driver = Driver(spy, flavour).probe()
    assert driver.version == interface
    caps = next(value for register, value in spy.log if register == Reg.AQ_CAPS)
    wide = flavour == "newest" and interface == 3
    assert caps == (0x0080_0020 if wide else 0x0040_0020)
    commands = [driver.submit(defs.AdminAllocPdCmd()) for _ in range(50)]
    assert [driver.finish(command).pd for command in commands] == list(range(50))
    with pytest.raises(DriverError, match="DEALLOC_PD: ILLEGAL_PARAMETER"):
        driver.dealloc_pd(60)
    driver.remove()


def test_a_corrupted_wide_entry_is_malformed():
    driver = Driver(Spy(interface=3)).probe()
    ring = driver.admin._write_register

    def corrupt(register, value):
        place = driver.admin.aq_base + (value - 1) % 32 * 128
        driver.memory.write(place + 40, b"\x01")
        ring(register, value)

    driver.admin._write_register = corrupt
    with pytest.raises(DriverError, match="ALLOC_PD: MALFORMED_REQUEST"):
        driver.alloc_pd()


def test_asynchronous_events_are_taken_counted_and_consumed(backend, driver):
    device = backend.device
    for _ in range(40):
        device.keep_alive()
        driver.service()
    device.raise_event(1, 7, b"disk")
    for syndrome in range(20):
        device.raise_event(3, syndrome)
    for _ in range(3):
        driver.service()
    assert driver.aenq_events == {4: 40, 1: 1, 3: 20}
    heads = [event.aenq_common_desc for event in driver.async_events]
    assert [(int(h.group), h.syndrome) for h in heads] == [(1, 7), *((3, n) for n in range(20))]
    consumed = [value for register, value in backend.log if register == Reg.AENQ_CONS_DB]
    assert consumed[0] == 0 and consumed[-1] == 61


def test_without_a_reader_the_event_ring_fills_and_keep_alives_are_lost(backend, driver):
    for _ in range(30):
        backend.device.keep_alive()
    driver.service()
    assert driver.aenq_events == {4: defs.EFA_ASYNC_QUEUE_DEPTH}


@pytest.mark.parametrize(("name", "value", "text"), [
    ("controller_version", 0, "controller version"), ("reset_timeout", 0, "reset timeout"),
    ("admin_api_version", 0, "admin API"), ("supported_features", 0x2D6, "lacks NETWORK_ATTR")])
def test_probe_refuses_a_device_that_cannot_work(backend, name, value, text):
    backend.device.profile = type(defs.PROFILES)({**defs.PROFILES.default, name: value})
    with pytest.raises(DriverError, match=text):
        Driver(backend).probe()


def test_a_failed_probe_resets_with_its_reason(backend):
    backend.device.profile = type(defs.PROFILES)(
        {**defs.PROFILES.default, "supported_features": 2})
    with pytest.raises(DriverError, match="lacks AENQ_CONFIG"):
        Driver(backend).probe()
    last = [value for register, value in backend.log if register == Reg.DEV_CTL and value][-1]
    assert defs.REG_BITS.DEV_CTL.unpack(last).RESET_REASON == defs.RegsResetReasonTypes.INIT_ERR


@pytest.mark.parametrize("pages", [1, 4, 5, 600])
def test_memory_regions_inline_and_by_page_list(driver, pages):
    pd = driver.alloc_pd()
    addresses = driver.allocator.scattered(pages)
    before = len(driver.allocator._live)
    response = driver.reg_mr(pd, 0x7F00_0000_0000, pages * PAGE_BYTES, addresses, 12, Access())
    assert response.l_key
    assert response.l_key == response.r_key
    assert len(driver.allocator._live) == before
    driver.dereg_mr(response.l_key)
    with pytest.raises(DriverError, match="ILLEGAL_PARAMETER"):
        driver.dereg_mr(response.l_key)


@pytest.mark.parametrize(("list_pages", "chunks", "length"), [
    (1, 1, 20), (2, 1, 28), (509, 1, 4084), (510, 1, 12), (511, 2, 4092), (1020, 2, 4092)])
def test_chained_lists_are_those_of_the_kernel(list_pages, chunks, length):
    """A full last chunk has length 12; the device still follows the list correctly."""
    driver = Driver(ModelBackend(profile="cosim")).probe()
    driver.list_bytes = 0
    seen, pd = [], driver.alloc_pd()
    execute = driver.execute

    def look(request):
        start = request.pbl.pbl
        address = address_of(start.address)
        seen.append(start.length)
        for _ in range(chunks - 1):
            link = defs.AdminCtrlBuffInfo.unpack(driver.memory.read(address + 4080, 12))
            seen.append(link.length)
            address = address_of(link.address)
        assert driver.memory.read(address + 4080, 12) == bytes(12)
        return execute(request)

    driver.execute = look
    addresses = [n * PAGE_BYTES for n in range(list_pages * 512 - 3)]
    live = len(driver.allocator._live)
    driver.reg_mr(pd, 0, len(addresses) * PAGE_BYTES, addresses, 12)
    assert len(driver.allocator._live) == live
    last = 12 if not list_pages % 510 else list_pages % 510 * 8 + 12
    assert seen == [length] if chunks == 1 else seen == [4092, last]
    assert driver.backend.device.objects.mrs.get(0).pages == tuple(addresses)


def test_long_lists_go_in_chunks_short_ones_in_one_piece(backend, driver):
    pd, forms = driver.alloc_pd(), []
    execute = driver.execute

    def look(request):
        forms.append((request.aq_common.ctrl_data, request.aq_common.ctrl_data_indirect))
        return execute(request)

    driver.execute = look
    for count in (4, 5, 4096, 4097):
        driver.reg_mr(pd, 0, count * PAGE_BYTES, [0x1000] * count, 12)
        driver.dereg_mr(backend.device.objects.mrs.get(0).key)
    assert forms[::2] == [(0, 0), (1, 0), (1, 0), (1, 1)]


def test_regions_are_allocated_for_later(driver):
    pd = driver.alloc_pd()
    key = driver.alloc_mr(pd, 16).l_key
    driver.dereg_mr(key)
    with pytest.raises(DriverError, match="ALLOC_MR: RESOURCE_ALLOCATION_FAILURE"):
        driver.alloc_mr(pd, 1 << 20)


def test_statistics_of_every_type(driver):
    for kind in defs.AdminGetStatsType:
        assert not any(driver.get_stats(kind).pack())


def test_waiting_for_nothing_ends(driver):
    with pytest.raises(DeviceTimeout):
        driver.wait(lambda: False)
    driver.pause(100)


def test_allocator_is_seeded_scattered_and_bounded():
    memory = ModelBackend().memory
    first, second = HostAllocator(memory, seed=5), HostAllocator(memory, seed=5)
    pages = first.scattered(50)
    assert pages == second.scattered(50)
    assert len(set(pages)) == 50
    assert pages != sorted(pages)
    assert any(abs(a - b) != PAGE_BYTES for a, b in zip(pages, pages[1:], strict=False))
    bits = defs.PROFILES["default"].dma_addr_width
    blocks = [first.alloc(3 * PAGE_BYTES) for _ in range(40)]
    assert max(blocks) < 1 << bits
    # Both values of each high bit occur.
    for bit in range(30, bits):
        assert {block >> bit & 1 for block in blocks} == {0, 1}
    block = blocks[-1]
    first.free(block)
    assert first.alloc(3 * PAGE_BYTES) == block
    with pytest.raises(ValueError, match="not allocated"):
        first.free(0x1234)
    with pytest.raises(OutOfHostMemory):
        HostAllocator(memory, size=PAGE_BYTES).alloc(2 * PAGE_BYTES)


def test_an_unknown_backend_names_the_known_ones():
    with pytest.raises(BackendUnavailable, match="model"):
        open_backend("quantum")
