# SPDX-License-Identifier: Apache-2.0
"""Runs the untrusted tenant on the model: each missing check harms the victim."""

import dataclasses
import random

import pytest

from efa_cosim.backends.model import ModelBackend
from efa_cosim.boundary.backend import DeviceTimeout
from efa_cosim.device.datapath import Datapath
from efa_cosim.device.objects import Mr, Objects, Table
from efa_cosim.device.receive import Receives
from efa_cosim.host.completion_queue import VerbsError
from tb.env.model_dut import ModelDut
from tb.scenarios.untrusted_tenant import Intrusion, TenantKnobs, untrusted_tenant

SHORT, LONG = 10_000, 1_000_000


def run(seed, stores=SHORT, backend=None):
    backend = backend or ModelBackend(record=True)
    return untrusted_tenant([backend], random.Random(seed), TenantKnobs(stores=stores))


def test_the_victim_notices_nothing(seed, request):
    """Runs a million stores with --long."""
    stores = LONG if request.config.getoption("--long") else SHORT
    done = run(seed, stores)
    assert done["tenant stores"] >= stores
    assert done["victim messages"] > stores / 10
    assert done["queue pairs repaired"] > stores / 200


def test_the_scoreboard_agrees(seed):
    [device] = ModelDut.several(1)
    run(seed, 2000, device)
    assert device.board.check(least=1000)


class Any(int):
    """Equals every number, which disables a comparison."""

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = int.__hash__


def any_page_rings(monkeypatch):
    """Removes the check of a doorbell's UAR against the queue's."""
    get = Table.get

    def owner(table, number):
        found = get(table, number)
        if found is None or not hasattr(found, "uar"):
            return found
        return found if isinstance(found.uar, Any) else _with_any(found)

    def _with_any(found):
        found.uar = Any(found.uar)
        return found

    monkeypatch.setattr(Table, "get", owner)


def any_domain(monkeypatch):
    """Removes the check of a region's PD against the queue pair's."""
    by_key = Objects.mr_by_key

    def found(objects, key):
        mr = by_key(objects, key)
        return mr and dataclasses.replace(mr, pd=Any(mr.pd))

    monkeypatch.setattr(Objects, "mr_by_key", found)


def any_range(monkeypatch):
    """Removes the range check of a region: an outside address reaches adjacent memory."""
    pieces = Mr.pieces

    def beside(mr, address, size):
        inside = min(max(address, mr.iova), mr.iova + mr.length - 1)
        found = pieces(mr, inside, 1)
        return [(found[0][0] + (address - inside), size)]

    monkeypatch.setattr(Mr, "covers", lambda *_: True)
    monkeypatch.setattr(Mr, "pieces", beside)


def any_qkey(monkeypatch):
    """Removes the QKey check of receives."""
    claim = Receives._claim
    monkeypatch.setattr(
        Receives, "_claim",
        lambda one, qp, kind, qkey, length: claim(one, qp, kind, qp.qkey if qp else 0, length),
    )  # fmt: skip


def any_slot(monkeypatch):
    """Removes the LLQ slot check: a store beyond a ring reaches another ring."""
    store = Datapath.store_llq

    def aliased(datapath, offset, data):
        page = datapath.device.limits.llq_page_bytes
        owner = datapath.objects.llq.owner[offset // page]
        if owner and offset - owner.llq_base >= owner.sq.depth * owner.wqe_bytes:
            offset %= 4 * page
        store(datapath, offset, data)

    monkeypatch.setattr(Datapath, "store_llq", aliased)


@pytest.mark.parametrize(
    "hole", [any_page_rings, any_domain, any_range, any_qkey, any_slot]
)
def test_a_missing_check_lets_the_tenant_through(monkeypatch, hole):
    hole(monkeypatch)
    with pytest.raises((Intrusion, DeviceTimeout, VerbsError, IndexError)):
        run(1, 40_000)
