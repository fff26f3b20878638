# SPDX-License-Identifier: Apache-2.0
"""Exercises the admin side while the host accepts no writes, and with resets between read and
execution of commands: responses, events and reports keep their order, and none is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from efa_cosim.boundary.events import of_kind, where
from efa_cosim.host.admin_queue import COMMAND_ID_MASK
from efa_cosim.host.driver import Driver
from efa_cosim.host.endpoints import QKEY, UD, Endpoint, Node
from efa_cosim.host.page_list import mem_addr
from efa_cosim.layouts import defs
from tb.scenarios.async_events import NOTIFICATION
from tb.scenarios.wires import attachment

if TYPE_CHECKING:
    from random import Random

STATUS = defs.IoCompStatus


def hold_writes(backend: Any, on: int) -> None:
    """Sets whether the host accepts no DMA write."""
    backend.link.native.knobs(backend.device, wr_hold=on)


def recorded_writes(backend: Any) -> list[tuple[int, bytes]]:
    """Returns the DMA writes since the last call, in order: [(address, bytes), ...]."""
    backend.link.record = True
    return backend.writes()


def responses_outlive_the_aq(backends: Sequence[Any], _rng: Random) -> None:
    """Disables the AQ, or sets it up again, while responses of consumed commands wait: each arrives
    in the next entry of the ACQ, which stays enabled."""
    backend = backends[0]
    for again in (False, True):
        node = Node(backend)
        driver = node.driver
        ring = driver.allocator.alloc(4096)
        identify = {"feature_id": defs.AdminAqFeatureId.NETWORK_ATTR}
        backend.settle()
        # Two responses fill the way to the host; the others wait in the units of their commands.
        hold_writes(backend, 1)
        commands = [driver.submit(request) for request in (
            defs.AdminGetFeatureCmd(feature_common=identify),
            defs.AdminGetFeatureCmd(feature_common=identify),
            defs.AdminCreateEqCmd(depth=16, msix_vec=1, entry_size_words=4, ba=mem_addr(ring)),
            defs.AdminAllocMrCmd(pd=node.pd.number, max_pages=3),
        )]  # fmt: skip
        backend.pause(1000)
        if again:
            # A driver after probe() has an admin queue.
            driver.admin.enable_aq()  # type: ignore[union-attr]
        else:
            driver.write_register(defs.Reg.AQ_CAPS, 0)
        backend.pause(100)
        hold_writes(backend, 0)
        for command in commands:
            driver.finish(command)
        driver.reset()


class DriverWithoutReset(Driver):
    """Starts on a device as power-on or a function-level reset leaves it."""

    def reset(self, reason: int = defs.RegsResetReasonTypes.NORMAL) -> None:
        """Does nothing."""


def commands_end_with_a_reset(backends: Sequence[Any], rng: Random, sessions: int = 10) -> None:
    """Resets the device while ALLOC_PD commands execute: none begins after the drain of the
    reset, and none takes a number of the next session."""
    backend = backends[0]
    for session in range(sessions):
        driver = DriverWithoutReset(backend).probe()
        assert driver.alloc_pd() == 0, f"session {session}"
        backend.settle()
        backend.events()
        for _ in range(1 + session % 8):
            driver.submit(defs.AdminAllocPdCmd())
        # The reset begins between the reads of the commands and their completions.
        backend.pause(rng.randrange(30, 90))
        backend.flr()
        events = backend.events()
        [drained] = where(events, "reset", step=defs.ResetStep.DRAINED)["cycle"]
        begun = of_kind(events, "aqcmd")["cycle"]
        assert all(begun <= drained), f"session {session}: {begun}, drained in {drained}"


def anomalies_of_one_cycle(
    backends: Sequence[Any],
    _rng: Random,
    turns: int = 8,
    doorbells: int = 150,
) -> None:
    """Posts an AQE with a wrong phase bit before many invalid AQ doorbells: each is reported.

    The doorbells go on while the device reads the AQE.
    """
    backend = backends[0]
    driver = Driver(backend).probe()
    backend.settle()
    backend.events()
    flags = defs.AdminAqCommonDesc.flags.offset
    for turn in range(turns):
        command = driver.submit(defs.AdminAllocPdCmd(), corrupt=flags)
        backend.pause(turn)
        for _ in range(doorbells):
            driver.write_register(defs.Reg.AQ_PROD_DB, 0x8000)
        driver.finish(command)
    backend.settle()
    events, kinds = backend.events(), defs.AnomalyAdmin
    counted = [len(where(events, "anomaly_admin", what=kind))
               for kind in (kinds.AQ_PHASE, kinds.AQ_DOORBELL)]  # fmt: skip
    assert counted == [turns, turns * doorbells], counted


def counted_from_the_response_on(backends: Sequence[Any], _rng: Random, turns: int = 6) -> None:
    """Attaches a counter while CQEs wait for the host: it counts each CQE that is written after the
    response."""
    node, backend = Node(backends[0]), backends[0]
    driver, end = node.driver, Endpoint(node, UD)
    place = driver.allocator.alloc(4096)
    handle = driver.create_event_counter(node.context.uar, place)
    events = defs.LIMITS.event_counter_events
    there = {"ah": node.ah_of(20), "dest_qp": 5, "qkey": QKEY}

    def value() -> int:
        return int.from_bytes(driver.memory.read(place, 8), "little")

    for turn in range(turns):
        backend.settle()
        recorded_writes(backend)
        before = value()
        hold_writes(backend, 1)
        end.qp.post_send_many(np.arange(16), **there, inline=b"to nobody")
        backend.pause(1500)
        command = driver.submit(attachment(handle, end.qp.handle, events))
        backend.pause(500)
        hold_writes(backend, 0)
        driver.finish(command)
        assert set(end.cq.wait_for(16)["status"]) == {STATUS.OK}, turn
        backend.settle()
        sizes = [len(data) for _, data in recorded_writes(backend)]
        later = sizes[sizes.index(defs.AdminAcqEntry.SIZE) :].count(end.cq.entry.SIZE)
        assert value() - before >= later, (turn, value(), before, later)
        driver.detach_event_counter(handle, end.qp.handle, events)


def events_of_destroyed_cqs(backends: Sequence[Any], _rng: Random, turns: int = 4) -> None:
    """Destroys CQs whose events wait for the host: each event is written before the response."""
    node, backend = Node(backends[0]), backends[0]
    driver, eq = node.driver, node.driver.eqs[0]
    there = {"ah": node.ah_of(20), "dest_qp": 5, "qkey": QKEY}
    for turn in range(turns):
        ends = [Endpoint(node, UD, events=True) for _ in range(2)]
        for end in ends:
            end.qp.post_send_many(np.arange(1), **there, inline=b"to nobody")
        backend.settle()
        for end in ends:
            end.qp.destroy()
        backend.settle()
        recorded_writes(backend)
        hold_writes(backend, 1)
        for end in ends:
            end.cq.req_notify()
        backend.pause(200)
        cqs = [end.cq for end in ends[:: 1 - 2 * (turn % 2)]]
        commands = {cq.number: driver.submit(defs.AdminDestroyCqCmd(cq_idx=cq.number))
                    for cq in cqs}  # fmt: skip
        backend.pause(300)
        hold_writes(backend, 0)
        for command in commands.values():
            driver.finish(command)
        backend.settle()
        written = recorded_writes(backend)
        size = eq.ring.depth * defs.AdminEqe.SIZE
        eqes = {defs.AdminEqe.unpack(data).u.comp_event.cqn: at
                for at, (address, data) in enumerate(written)
                if 0 <= address - eq.ring.base < size}  # fmt: skip
        rsps = {int.from_bytes(data[:2], "little") & COMMAND_ID_MASK: at
                for at, (_, data) in enumerate(written)
                if len(data) == defs.AdminAcqEntry.SIZE}  # fmt: skip
        for number, command in commands.items():
            assert eqes[number] < rsps[command.command_id], (turn, number, eqes, rsps)


def events_of_a_disabled_group(backends: Sequence[Any], _rng: Random) -> None:
    """Disables the groups of events while entries of the AENQ wait for the host: they are written
    before the response, also if the AQ is set up again meanwhile."""
    backend = backends[0]
    driver = Driver(backend).probe()
    request = defs.AdminSetFeatureCmd(
        feature_common={"feature_id": defs.AdminAqFeatureId.AENQ_CONFIG})
    request.u.aenq = {"enabled_groups": 0}
    backend.settle()
    recorded_writes(backend)
    hold_writes(backend, 1)
    for number in range(2):
        backend.link.native.request_event(backend.device, NOTIFICATION, number)
    backend.pause(100)
    command = driver.submit(request)
    backend.pause(500)
    # A driver after probe() has an admin queue.
    driver.admin.enable_aq()  # type: ignore[union-attr]
    backend.pause(100)
    hold_writes(backend, 0)
    driver.finish(command)
    driver.wait(lambda: len(driver.async_events) == 2)
    backend.settle()
    numbers = [int.from_bytes(data[:2], "little") for _, data in recorded_writes(backend)
               if len(data) == defs.AdminAcqEntry.SIZE]  # fmt: skip
    assert numbers == [NOTIFICATION, NOTIFICATION, command.command_id], numbers
