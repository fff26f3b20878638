# SPDX-License-Identifier: Apache-2.0
"""Tests object numbers: free numbers, UAR-touched numbers, LLQ pages, keys, translations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import Host, Opcode, Refused, Status

from efa_cosim.device.objects import LlqPages, Table, Translations

FREE = {
    Opcode.ALLOC_PD: (Opcode.DEALLOC_PD, "pd"),
    Opcode.ALLOC_UAR: (Opcode.DEALLOC_UAR, "uar"),
}


def free_uar(host, uar):
    host.command(Opcode.DEALLOC_UAR, uar=uar)


def destroy_cq(host, cq):
    host.command(Opcode.DESTROY_CQ, cq_idx=cq.number)


@pytest.mark.parametrize("opcode", FREE)
def test_the_lowest_free_number_is_given(host, opcode):
    free, name = FREE[opcode]
    assert [getattr(host.command(opcode), name) for _ in range(4)] == [0, 1, 2, 3]
    host.command(free, **{name: 2})
    host.command(free, **{name: 1})
    assert [getattr(host.command(opcode), name) for _ in range(3)] == [1, 2, 4]


def test_a_cq_number_stays_with_the_uar_that_touched_it(host):
    a, b = host.uar(), host.uar()
    first = host.cq(a)
    destroy_cq(host, first)
    assert host.cq(b).number == 1
    assert host.cq(a).number == 0


def test_a_number_is_anyones_again_when_its_uar_is_deallocated(host):
    a, b = host.uar(), host.uar()
    destroy_cq(host, host.cq(a))
    free_uar(host, a)
    assert host.cq(b).number == 0


def test_a_uar_with_a_used_number_inherits_nothing_from_its_predecessor(host):
    a, b = host.uar(), host.uar()
    destroy_cq(host, host.cq(a))
    free_uar(host, a)
    assert host.uar() == a
    destroy_cq(host, host.cq(b))
    assert host.cq(a).number == 1


def test_a_qp_number_and_its_llq_page_stay_with_their_uar(host):
    pd, a, b = host.pd(), host.uar(), host.uar()
    cq_a, cq_b = host.cq(a), host.cq(b)
    host.qp(pd, a, cq_a).destroy()
    stranger = host.qp(pd, b, cq_b)
    assert (stranger.response.qp_num, stranger.llq) == (1, 0x1000)
    again = host.qp(pd, a, cq_a)
    assert again.response.qp_num & 63 == 0
    assert again.llq == 0


def test_a_refused_creation_touches_no_number():
    host = Host(limits={"llq_bytes": 0x1000})
    pd, a, b = host.pd(), host.uar(), host.uar()
    cq_a, cq_b = host.cq(a), host.cq(b)
    with pytest.raises(Refused) as refused:
        host.qp(pd, a, cq_a, sq_depth=128)
    assert refused.value.status == Status.RESOURCE_ALLOCATION_FAILURE
    assert host.qp(pd, b, cq_b).number == 0


def test_qp_numbers_carry_a_generation_above_the_index(host):
    pd, uar = host.pd(), host.uar()
    cq = host.cq(uar)
    for generation in range(3):
        qp = host.qp(pd, uar, cq)
        assert qp.number == qp.handle == generation << 6
        qp.destroy()


def test_qp_generations_are_cut_to_16_bits():
    host = Host(limits={"qpn_w": 2})
    pd, uar = host.pd(), host.uar()
    cq = host.cq(uar)
    host.device.objects.qp_generations[0] = (1 << 14) - 1
    numbers = []
    for _ in range(2):
        qp = host.qp(pd, uar, cq)
        numbers.append(qp.number)
        qp.destroy()
    assert numbers == [0xFFFC, 0]


def test_keys_carry_a_generation_that_skips_zero(host):
    pd, width = host.pd(), host.device.limits.mr_w
    keys = [host.mr(pd, 0x5000, 1) for _ in range(2)]
    assert keys == [1 << width, (1 << width) + 1]
    host.command(Opcode.DEREG_MR, l_key=keys[0])
    assert host.mr(pd, 0x5000, 1) == 2 << width
    largest = (1 << (20 - width)) - 1
    host.device.objects.key_generations[2] = largest - 1
    assert host.mr(pd, 0x5000, 1) == (largest << width) + 2
    host.command(Opcode.DEREG_MR, l_key=(largest << width) + 2)
    assert host.mr(pd, 0x5000, 1) == (1 << width) + 2


def test_numbers_and_generations_start_again_at_a_reset(host):
    def session():
        pd, uar = host.pd(), host.uar()
        return host.qp(pd, uar, host.cq(uar)).number, host.mr(pd, 0x5000, 1)

    first = session()
    host.device.flr()
    host.bring_up()
    assert session() == first


@pytest.mark.parametrize(
    ("sizes", "places"),
    [
        ([(8, 64)] * 3, [0, 1, 2]),
        ([(8, 64), (256, 64), (8, 64)], [0, 4, 1]),
        ([(64, 128), (128, 64), (1024, 128)], [0, 2, 32]),
        ([(1024, 64), (1, 64), (512, 64)], [0, 16, 24]),
    ],
)
def test_llq_rings_are_naturally_aligned_lowest_first(host, sizes, places):
    pd, uar = host.pd(), host.uar()
    cq = host.cq(uar)
    found = [host.qp(pd, uar, cq, sq_depth=d, wqe_bytes=w).llq // 0x1000 for d, w in sizes]
    assert found == places


class Owner:
    def __init__(self, uar):
        self.uar = uar


def test_a_touched_page_excludes_every_run_that_holds_it():
    pages, mine, other = LlqPages(8), Owner(1), Owner(2)
    pages.give(1, 1, other)
    pages.take_back(other)
    assert pages.find(2, 1) == 2
    assert pages.find(4, 1) == 4
    assert pages.find(8, 1) is None
    assert pages.find(8, 2) == 0
    pages.give(4, 4, mine)
    assert pages.find(4, 2) == 0
    pages.cancel(2)
    assert pages.find(4, 1) == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 3)), max_size=40))
def test_a_table_gives_the_lowest_number_that_is_free_and_untouched(steps):
    table, live, touched = Table(3), {}, {}
    for create, number, uar in steps:
        if create:
            valid = [n for n in range(8) if n not in live and touched.get(n, uar) == uar]
            found = table.free_number(uar)
            assert found == (valid[0] if valid else None)
            if valid:
                table.add(found, object(), uar)
                live[found], touched[found] = True, uar
        elif number in live:
            table.remove(number)
            del live[number]
        else:
            table.cancel(uar)
            touched = {n: u for n, u in touched.items() if u != uar}


@given(st.lists(st.tuples(st.integers(1, 20), st.booleans()), max_size=40))
def test_translations_are_first_fit_and_never_overlap(steps):
    pool, used = Translations(64), {}
    for count, give in steps:
        if give:
            occupied = {i for s, n in used.items() for i in range(s, s + n)}
            places = [
                s for s in range(64 - count + 1)
                if not occupied.intersection(range(s, s + count))
            ]  # fmt: skip
            start = pool.find(count)
            assert start == (places[0] if places else None)
            if start is not None:
                pool.give(start, count)
                used[start] = count
        elif used:
            start = sorted(used)[count % len(used)]
            pool.take_back(start)
            del used[start]


def test_a_region_bigger_than_the_largest_free_block_is_refused():
    host = Host(limits={"mtt_w": 3})
    pd = host.pd()
    keys = [host.mr(pd, 0x10000 * n, 0x2000) for n in range(4)]
    for key in keys[0], keys[2]:
        host.command(Opcode.DEREG_MR, l_key=key)
    with pytest.raises(Refused) as refused:
        host.mr(pd, 0x50000, 0x3000)
    assert refused.value.status == Status.RESOURCE_ALLOCATION_FAILURE
    host.mr(pd, 0x50000, 0x2000)
    assert sorted(host.device.objects.translations.blocks) == [0, 2, 6]
