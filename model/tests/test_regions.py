# SPDX-License-Identifier: Apache-2.0
"""Tests memory regions: all page list forms, page sizes, translations, allocated regions, keys."""

import pytest
from rig import Host, Opcode, Pair, Status, words, wqe

from efa_cosim.device.features import attribute
from efa_cosim.layouts import defs

ILLEGAL, MALFORMED = Status.ILLEGAL_PARAMETER, Status.MALFORMED_REQUEST
NO_SPACE, UNKNOWN = Status.RESOURCE_ALLOCATION_FAILURE, Status.UNKNOWN_ERROR
SMALL = {"pd_w": 1, "mr_w": 1}
CHAINED = ("ctrl_data", "ctrl_data_indirect")
PAGE, PER_PAGE, PER_CHUNK, LINK = 4096, 512, 510, 4080


@pytest.fixture
def small():
    return Host(limits=SMALL)


MR = {
    "mr_length": 0x2000, "phys_page_size_shift": 12, "iova": 0x5000, "local_write_enable": 1,
    "pbl.inline_pbl_array": [0x5000, 0x6000],
}  # fmt: skip
LIST = {
    "mr_length": 0x8000, "phys_page_size_shift": 12, "iova": 0x5000,
    **words("pbl.pbl.address", 0x9000), "pbl.pbl.length": 64,
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"pd": 1},
        {"mr_length": 0},
        {"phys_page_size_shift": 11},
        {"phys_page_size_shift": 34},
        {"phys_page_size_shift": 63},
        {"iova": (1 << 64) - 0x1000, "mr_length": 0x1001},
        {"mr_length": (1 << 64) - 1},
        {"remote_read_enable": 1},
        {"remote_write_enable": 1},
        {"mr_length": 0x4001},
        {"iova": 0x5001, "mr_length": 0x4000},
        {"pbl.inline_pbl_array": [0x5000, 0x6008]},
    ],
)
def test_a_bad_mr_is_refused(host, change):
    host.pd()
    assert host.refusal(Opcode.REG_MR, **(MR | change)) == ILLEGAL


@pytest.mark.parametrize(
    "change", [{"pbl.pbl.length": 63}, {"mr_length": 0x8001}, words("pbl.pbl.address", 0x9004)]
)
def test_a_bad_page_list_is_refused(host, change):
    host.pd()
    assert host.refusal(Opcode.REG_MR, ("ctrl_data",), **(LIST | change)) == ILLEGAL


def test_a_misaligned_page_in_a_list_is_refused(host):
    host.pd()
    host.memory.write(0x9000 + 7 * 8, (0x1234).to_bytes(8, "little"))
    assert host.refusal(Opcode.REG_MR, ("ctrl_data",), **LIST) == ILLEGAL


def test_a_page_list_that_cannot_be_read_is_an_unknown_error(host):
    host.pd()
    host.memory.fail(0x9000 + 63, 1)
    assert host.refusal(Opcode.REG_MR, ("ctrl_data",), **LIST) == UNKNOWN
    host.memory.heal()
    assert host.command(Opcode.REG_MR, ("ctrl_data",), **LIST).l_key


def test_remote_permissions_need_the_capability(recorded):
    recorded.pd()
    for permission in ("remote_read_enable", "remote_write_enable"):
        assert recorded.command(Opcode.REG_MR, **MR, **{permission: 1}).l_key


def test_a_region_may_end_at_the_end_of_the_address_space(host):
    host.pd()
    top = {"iova": (1 << 64) - 0x1000, "mr_length": 0x1000}
    assert host.command(Opcode.REG_MR, **(MR | top)).l_key


def test_physical_mode_looks_at_neither_pages_nor_list(host):
    host.pd()
    change = {"phys_page_size_shift": 0, "iova": 0, "mr_length": 1 << 52, "mem_addr_phy_mode_en": 1}
    change["pbl.inline_pbl_array"] = [1, 2, 3, 4]
    assert host.command(Opcode.REG_MR, **(MR | change)).l_key
    assert host.device.objects.translations.blocks == {}


def test_mr_numbers_run_out(small):
    small.pd()
    small.command(Opcode.REG_MR, **MR)
    small.command(Opcode.REG_MR, **MR)
    assert small.refusal(Opcode.REG_MR, **MR) == NO_SPACE


def test_translations_run_out_before_the_list_is_read():
    host = Host(limits={"mtt_w": 2})
    host.pd()
    host.memory.fail(0x9000, 64)
    assert host.refusal(Opcode.REG_MR, ("ctrl_data",), **LIST) == NO_SPACE


@pytest.mark.parametrize("key", [0, 1, 0xFFFFFFFF])
def test_a_key_that_does_not_live_cannot_be_deregistered(host, key):
    host.pd()
    assert host.refusal(Opcode.DEREG_MR, l_key=key) == ILLEGAL


@pytest.mark.parametrize("bit", [8, 19, 20, 24, 31])
def test_a_key_must_match_in_all_32_bits(host, bit):
    key = host.mr(host.pd(), 0x5000, 1)
    assert host.refusal(Opcode.DEREG_MR, l_key=key ^ 1 << bit) == ILLEGAL
    host.command(Opcode.DEREG_MR, l_key=key)
    assert host.refusal(Opcode.DEREG_MR, l_key=key) == ILLEGAL


# Chained lists.


class Chain:
    """A chained list in host memory: list pages and chunks start `offset` bytes into their pages.
    """

    def __init__(self, host, addresses, offset=0):
        self.host = host
        self.pages, self.chunks = [], []
        for at in range(0, len(addresses), PER_PAGE):
            place = host.allocate(2 * PAGE) + offset
            data = b"".join(a.to_bytes(8, "little") for a in addresses[at : at + PER_PAGE])
            host.memory.write(place, data)
            self.pages.append(place)
        for at in range(0, len(self.pages), PER_CHUNK):
            place = host.allocate(2 * PAGE) + offset
            for number, page in enumerate(self.pages[at : at + PER_CHUNK]):
                host.memory.write(place + 8 * number, page.to_bytes(8, "little"))
            self.chunks.append(place)
        for before, after in zip(self.chunks, self.chunks[1:], strict=False):
            self.link(before, after)

    def link(self, chunk, to, length=0xBAD):
        link = length.to_bytes(4, "little") + to.to_bytes(8, "little")
        self.host.memory.write(chunk + LINK, link)

    def values(self, count, **change):
        """Returns a REG_MR of count pages with a wrong list length, which the device ignores."""
        values = {
            "mr_length": count * PAGE, "phys_page_size_shift": 12, "iova": 0x5000,
            "pbl.pbl.length": 3, **words("pbl.pbl.address", self.chunks[0]),
        }  # fmt: skip
        return values | change


def addresses(count):
    """Returns page addresses that encode their position in the list."""
    return [(7 * n + 1) * PAGE for n in range(count)]


ONE_CHUNK = PER_PAGE * PER_CHUNK


@pytest.mark.parametrize("offset", [0, 8, 4088])
@pytest.mark.parametrize("count", [1, 4, 511, 512, 513, 1024, 8192])
def test_a_chained_list_is_read_whole(host, count, offset):
    host.pd()
    chain = Chain(host, addresses(count), offset)
    host.command(Opcode.REG_MR, CHAINED, **chain.values(count))
    region = host.device.objects.mrs.get(0)
    assert region.pages == tuple(addresses(count))
    assert host.device.objects.translations.blocks == {0: count}


@pytest.mark.parametrize(
    "count", [ONE_CHUNK - 1, ONE_CHUNK, ONE_CHUNK + 1, 2 * ONE_CHUNK - 512, 2 * ONE_CHUNK]
)
def test_chunks_are_linked_as_needed(count):
    host = Host(profile="cosim")
    host.pd()
    chain = Chain(host, addresses(count))
    # The last link is invalid; the device must not follow it.
    chain.link(chain.chunks[-1], 0x1001)
    host.command(Opcode.REG_MR, CHAINED, **chain.values(count))
    assert host.device.objects.mrs.get(0).pages == tuple(addresses(count))


@pytest.mark.parametrize("length", [0, 12, 4092, 0xFFFF_FFFF])
def test_chunk_lengths_are_not_looked_at(host, length):
    host.pd()
    chain = Chain(host, addresses(600))
    host.command(Opcode.REG_MR, CHAINED, **chain.values(600, **{"pbl.pbl.length": length}))


def test_an_odd_address_in_a_chained_list_is_refused(host):
    host.pd()
    chain = Chain(host, addresses(600))
    good = chain.values(600)
    assert host.refusal(Opcode.REG_MR, CHAINED, **chain.values(
        600, **words("pbl.pbl.address", chain.chunks[0] + 4))) == ILLEGAL
    host.memory.write(chain.chunks[0] + 8, (chain.pages[1] + 1).to_bytes(8, "little"))
    assert host.refusal(Opcode.REG_MR, CHAINED, **good) == ILLEGAL
    host.memory.write(chain.chunks[0] + 8, chain.pages[1].to_bytes(8, "little"))
    host.memory.write(chain.pages[1] + 8 * 87, (8 * PAGE + 8).to_bytes(8, "little"))
    assert host.refusal(Opcode.REG_MR, CHAINED, **good) == ILLEGAL
    host.memory.write(chain.pages[1] + 8 * 87, (8 * PAGE).to_bytes(8, "little"))
    host.command(Opcode.REG_MR, CHAINED, **good)


def test_an_odd_link_is_refused():
    host = Host(profile="cosim")
    host.pd()
    chain = Chain(host, addresses(ONE_CHUNK + 1))
    values = chain.values(ONE_CHUNK + 1)
    chain.link(chain.chunks[0], chain.chunks[1] + 4)
    assert host.refusal(Opcode.REG_MR, CHAINED, **values) == ILLEGAL
    chain.link(chain.chunks[0], chain.chunks[1])
    host.command(Opcode.REG_MR, CHAINED, **values)


def test_a_chain_that_cannot_be_read_is_an_unknown_error():
    host = Host(profile="cosim")
    host.pd()
    chain = Chain(host, addresses(ONE_CHUNK + 1))
    values = chain.values(ONE_CHUNK + 1)
    for place in (chain.chunks[0] + LINK + 4, chain.chunks[1], chain.pages[0], chain.pages[-1]):
        host.memory.fail(place, 8)
        assert host.refusal(Opcode.REG_MR, CHAINED, **values) == UNKNOWN
        host.memory.heal()
    host.command(Opcode.REG_MR, CHAINED, **values)


def test_a_chain_needs_its_pointer_and_pages(host):
    host.pd()
    chain = Chain(host, addresses(4))
    alone = ("ctrl_data_indirect",)
    assert host.refusal(Opcode.REG_MR, alone, **chain.values(4)) == MALFORMED
    # A malformed command is reported before every other error.
    assert host.refusal(Opcode.REG_MR, alone, **chain.values(4, mr_length=0)) == MALFORMED
    physical = {"mem_addr_phy_mode_en": 1, "phys_page_size_shift": 0, "iova": 0}
    for flags in (CHAINED, alone):
        assert host.refusal(Opcode.REG_MR, flags, **chain.values(4, **physical)) == MALFORMED


def test_a_list_of_too_many_pages_is_not_read():
    host = Host(limits={"mtt_w": 10})
    host.pd()
    chain = Chain(host, addresses(1025))
    host.memory.fail(chain.chunks[0], PAGE)
    assert host.refusal(Opcode.REG_MR, CHAINED, **chain.values(1025)) == NO_SPACE
    host.memory.heal()
    host.command(Opcode.REG_MR, CHAINED, **chain.values(1024))


@pytest.mark.parametrize("profile", tuple(defs.PROFILES))
def test_a_region_of_the_reported_size_may_begin_inside_a_page(profile):
    host = Host(profile=profile)
    host.pd()
    most = attribute(host.device, defs.AdminAqFeatureId.QUEUE_ATTR_1).max_mr_pages
    assert most == (1 << defs.PROFILES[profile].mr_pages_w) - 1
    chain = Chain(host, addresses(most + 1))
    shifted = chain.values(most + 1, iova=PAGE + 1, mr_length=most * PAGE)
    host.command(Opcode.REG_MR, CHAINED, **shifted)
    assert host.device.objects.mrs.get(0).translations == most + 1


def test_translations_end_and_are_free_again(host):
    host.pd()
    chain = Chain(host, addresses(8192))
    assert host.refusal(Opcode.REG_MR, CHAINED, **chain.values(8193)) == NO_SPACE
    key = host.command(Opcode.REG_MR, CHAINED, **chain.values(8192)).l_key
    assert host.refusal(Opcode.REG_MR, **MR) == NO_SPACE
    host.command(Opcode.DEREG_MR, l_key=key)
    host.command(Opcode.REG_MR, CHAINED, **chain.values(8192))


# Page sizes, ranges, permissions.


@pytest.mark.parametrize("shift", range(12, 34))
@pytest.mark.parametrize("inside", [0, 1, 4095])
def test_regions_of_every_page_size_translate_to_the_byte(shift, inside):
    host = Host()
    host.pd()
    size, iova = 1 << shift, 0x7F00_0000_0000 + inside
    pages = [n * size for n in (9, 3, 7)]
    length = 2 * size
    values = {"mr_length": length, "iova": iova, "phys_page_size_shift": shift}
    count = 3 if inside else 2
    host.command(Opcode.REG_MR, **values, **{"pbl.inline_pbl_array": pages[:count]})
    region = host.device.objects.mrs.get(0)
    assert region.pieces(iova, 1) == [(9 * size + inside, 1)]
    # Beyond the end of the first page.
    end = iova - inside + size
    assert region.pieces(end - 2, 5) == [(10 * size - 2, 2), (3 * size, 3)]
    last = iova + length - 1
    assert region.pieces(last, 1) == [(pages[(inside + length - 1) // size] + (last & size - 1), 1)]
    assert region.covers(iova, length) and not region.covers(iova, length + 1)
    assert not region.covers(iova - 1, 1)


def test_the_sixth_bit_of_the_page_shift_counts(host):
    host.pd()
    # 44 without its sixth bit is 12, a valid page size.
    assert host.refusal(Opcode.REG_MR, **(MR | {"phys_page_size_shift": 44})) == ILLEGAL
    wide = type(defs.PROFILES)({**defs.PROFILES.default, "page_size_cap": 1 << 12 | 1 << 32})
    host.device.profile = wide
    values = MR | {"phys_page_size_shift": 32, "mr_length": 5 << 30, "iova": 0x1000}
    values["pbl.inline_pbl_array"] = [1 << 32, 7 << 32]
    host.command(Opcode.REG_MR, **values)
    assert host.device.objects.mrs.get(0).pieces(1 << 32, 8) == [(7 << 32, 8)]
    values["pbl.inline_pbl_array"] = [1 << 32, 7 << 31]
    assert host.refusal(Opcode.REG_MR, **values) == ILLEGAL


def test_relaxed_ordering_is_taken_and_changes_nothing(host):
    host.pd()
    plain = host.command(Opcode.REG_MR, **MR)
    relaxed = host.command(Opcode.REG_MR, **MR, relaxed_ordering_enable=1)
    one, two = (host.device.objects.mr_by_key(response.l_key) for response in (plain, relaxed))
    assert (one.pages, one.local_write) == (two.pages, two.local_write)


def test_a_region_may_begin_at_zero_and_be_larger_than_4_gb(host):
    host.pd()
    pages = [n << 31 for n in (4, 2, 8)]
    host.command(Opcode.REG_MR, mr_length=(5 << 30) + 1, iova=0, phys_page_size_shift=31,
                 **{"pbl.inline_pbl_array": pages})  # fmt: skip
    region = host.device.objects.mrs.get(0)
    assert region.pieces(5 << 30, 1) == [(8 << 31 | 1 << 30, 1)]


# Allocated regions.


def test_an_allocated_region_takes_index_and_translations(host):
    host.pd()
    response = host.command(Opcode.ALLOC_MR, pd=0, max_pages=100)
    assert response.l_key == response.r_key == 1 << host.device.limits.mr_w
    assert host.device.objects.translations.blocks == {0: 100}
    assert host.refusal(Opcode.DEALLOC_PD, pd=0) == Status.RESOURCE_BUSY
    host.command(Opcode.DEREG_MR, l_key=response.l_key)
    assert host.device.objects.translations.blocks == {}
    again = host.command(Opcode.ALLOC_MR, pd=0, max_pages=8192)
    assert again.l_key == 2 << host.device.limits.mr_w
    host.command(Opcode.DEREG_MR, l_key=again.l_key)
    host.command(Opcode.DEALLOC_PD, pd=0)


def test_a_bad_allocation_is_refused(small):
    assert small.refusal(Opcode.ALLOC_MR, pd=0, max_pages=1) == ILLEGAL
    small.pd()
    assert small.refusal(Opcode.ALLOC_MR, pd=0, max_pages=0) == ILLEGAL
    assert small.refusal(Opcode.ALLOC_MR, pd=1, max_pages=9000) == ILLEGAL
    for pages in (8193, 0xFFFF_FFFF):
        assert small.refusal(Opcode.ALLOC_MR, pd=0, max_pages=pages) == NO_SPACE
    small.command(Opcode.ALLOC_MR, pd=0, max_pages=8190)
    assert small.refusal(Opcode.ALLOC_MR, pd=0, max_pages=3) == NO_SPACE
    small.command(Opcode.ALLOC_MR, pd=0, max_pages=2)
    assert small.refusal(Opcode.ALLOC_MR, pd=0, max_pages=1) == NO_SPACE


def test_the_key_of_an_allocated_region_works_nowhere():
    pair = Pair()
    key = pair.a.command(Opcode.ALLOC_MR, pd=pair.pd, max_pages=4).l_key
    for address in (0, pair.space):
        pair.tx.send(wqe(pair.rx.number, pair.ah, [(address, 8, key)]))
        assert pair.status() == defs.IoCompStatus.LOCAL_ERROR_INVALID_LKEY
    pair.rx.post((0, 64, key))
    pair.send(pair.buffer(0, 8))
    assert pair.status() == defs.IoCompStatus.REMOTE_ERROR_BAD_STATUS
