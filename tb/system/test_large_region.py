# SPDX-License-Identifier: Apache-2.0
"""Uses the page translations of the profile `cosim`: a region of 1 GB beside those of 8 ranks."""

import random

import pytest

from efa_cosim.backends import open_backend
from efa_cosim.host.driver import Driver, DriverError
from efa_cosim.host.driver_objects import LOCAL_ACCESS
from efa_cosim.host.queue_pair import SendWr, Sge
from efa_cosim.host.verbs import Context, RegisteredRegion, gid_of
from efa_cosim.layouts import defs

PAGE, GIGABYTE = 4096, 1 << 30
# A process of Open MPI over libfabric registers up to so many bytes with its default queues.
RANKS, RANK_BYTES = 8, 18_600_000
BLOCK = 64  # pages of host memory behind a region, in turn
MESSAGE = 3000


def registered(pd, length, offset=0):
    """Registers a region of 4 KB pages; they take turns over a small block of host memory."""
    driver = pd.driver
    base = driver.allocator.alloc(BLOCK * PAGE)
    pages = [base + number % BLOCK * PAGE for number in range(-(-(offset + length) // PAGE))]
    region = RegisteredRegion(driver, [base], pages, pd.context.new_iova(length, offset), length)
    region.register(pd.number, LOCAL_ACCESS)
    return region


def exchange(backend, seed):
    """Sends from region to region, at places that cross pages of different high numbers."""
    context = Context(Driver(backend).probe())
    pd, cq = context.alloc_pd(), context.create_cq(16)
    sender, receiver = (pd.create_qp(cq, cq).to_rts(qkey=7) for _ in range(2))
    ah = pd.create_ah(gid_of(backend.node_id))
    ranks = [registered(pd, RANK_BYTES) for _ in range(RANKS)]
    large = registered(pd, GIGABYTE, offset=100)
    used = sum(len(region.pages) for region in (*ranks, large))
    spare = (1 << defs.PROFILES.cosim.mr_pages_w) - used
    with pytest.raises(DriverError, match="RESOURCE_ALLOCATION_FAILURE"):
        registered(pd, (spare + 1) * PAGE)
    last = registered(pd, spare * PAGE)

    rng = random.Random(f"large region {seed}")
    ends = [(region, region.length - MESSAGE) for region in (*ranks, last, large)]
    powers = [(large, (1 << bit) - 1500) for bit in range(12, 30)]
    for source, from_ in (*ends, *powers):
        target, to = rng.choice(ends)
        if source is target:
            target, to = large, BLOCK // 2 * PAGE
        data = rng.randbytes(MESSAGE)
        source.write(from_, data)
        receiver.post_recv([Sge(target.addr + to, MESSAGE, target.l_key)], wr_id=2)
        sge = Sge(source.addr + from_, MESSAGE, source.l_key)
        sender.post_send(SendWr(ah, receiver.number, qkey=7, sges=[sge], wr_id=1))
        done = cq.wait_for(2)
        assert done["status"].tolist() == [0, 0]
        assert target.read(to, MESSAGE) == data, (from_, to)
    for region in (large, *ranks, last):
        region.dereg()


def test_a_gigabyte_and_eight_ranks_on_the_model(seed):
    exchange(open_backend("model", profile="cosim"), seed)


def test_a_gigabyte_and_eight_ranks(sim, seed, unless_long):
    unless_long("a region of 1 GB")
    with open_backend(sim, profile="cosim") as backend:
        exchange(backend, seed)
