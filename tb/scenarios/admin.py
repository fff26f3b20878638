# SPDX-License-Identifier: Apache-2.0
"""Runs admin commands: object lifetimes, every refusal, resource limits, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from efa_cosim.host.admin_queue import DriverError
from efa_cosim.host.driver import Driver
from efa_cosim.host.endpoints import QKEY, SRD, UD, Endpoint, Node, pattern
from efa_cosim.host.page_list import mem_addr
from efa_cosim.layouts import defs
from tb.scenarios.send import exchange

if TYPE_CHECKING:
    from random import Random

STATUS = defs.AdminAqCompletionStatus
STATE = defs.AdminQpState
PAGE = 4096


def refused(status: int, call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    """Checks that the call fails with this admin status."""
    try:
        call(*arguments, **named)
    except DriverError as error:
        got = error.status
    else:
        got = STATUS.SUCCESS
    assert got == status, f"{call} {arguments} {named}: {got!r}, expected {status!r}"


def every_object(backends: Sequence[Any], _rng: Random) -> None:
    """Creates, uses and destroys each object; free numbers are reused lowest first."""
    driver = Driver(backends[0], cpus=4).probe()
    uar, other_uar = driver.alloc_uar(), driver.alloc_uar()
    pd = driver.alloc_pd()
    ring = driver.allocator.alloc(1 << 16)
    cq = driver.create_cq(uar, 16, ring, 32)
    other_cq = driver.create_cq(other_uar, 16, ring + 8192, 16, eqn=driver.eqs[0].number)
    qp = new_qp(driver, pd, uar, cq.cq_idx, ring + 16384)
    mr = driver.reg_mr(pd, 0x1000, 5000, [ring, ring + PAGE], 12)
    ah = driver.create_ah(pd, driver.gid)
    assert driver.create_ah(pd, driver.gid) == ah
    refused(STATUS.RESOURCE_BUSY, driver.dealloc_pd, pd)
    refused(STATUS.RESOURCE_BUSY, driver.dealloc_uar, uar)
    refused(STATUS.RESOURCE_BUSY, driver.destroy_cq, cq.cq_idx)
    refused(STATUS.RESOURCE_BUSY, driver.destroy_eq, driver.eqs[0].number)
    driver.destroy_qp(qp.qp_handle)
    again = new_qp(driver, pd, uar, cq.cq_idx, ring + 16384)
    assert again.qp_num != qp.qp_num and again.sq_db_offset == qp.sq_db_offset
    refused(STATUS.ILLEGAL_PARAMETER, driver.destroy_qp, qp.qp_handle)
    driver.destroy_qp(again.qp_handle)
    foreign = new_qp(driver, pd, other_uar, other_cq.cq_idx, ring + 16384)
    # The owner of the first UAR may still have the first queue's page mapped.
    assert foreign.llq_descriptors_offset != qp.llq_descriptors_offset
    driver.destroy_qp(foreign.qp_handle)
    driver.dereg_mr(mr.l_key)
    refused(STATUS.ILLEGAL_PARAMETER, driver.dereg_mr, mr.l_key)
    driver.destroy_ah(pd, ah)
    driver.destroy_ah(pd, ah)
    refused(STATUS.ILLEGAL_PARAMETER, driver.destroy_ah, pd, ah)
    for number in (cq.cq_idx, other_cq.cq_idx):
        driver.destroy_cq(number)
    driver.dealloc_uar(uar)
    driver.dealloc_uar(other_uar)
    driver.dealloc_pd(pd)
    refused(STATUS.ILLEGAL_PARAMETER, driver.dealloc_pd, pd)
    driver.remove()


def new_qp(driver: Driver, pd: int, uar: int, cq: Any, rq_base: int, **changes: Any) -> Any:
    """Sends CREATE_QP with a valid default for every field."""
    sizes = {
        "send_queue_ring_size": 64 * 16, "send_queue_depth": 16,
        "recv_queue_ring_size": 16 * 16, "recv_queue_depth": 16, **changes.pop("sizes", {}),
    }  # fmt: skip
    fields = {
        "pd": pd, "qp_type": defs.AdminQpType.SRD, "uar": uar, "send_cq_idx": cq,
        "recv_cq_idx": cq, "rq_base_addr": rq_base, "qp_alloc_size": sizes,
    }  # fmt: skip
    return driver.create_qp(**{**fields, **changes})


def every_refusal(backends: Sequence[Any], _rng: Random) -> None:
    """Violates each admin command rule of decision 0001 once; the device stays unchanged."""
    driver = Driver(backends[0]).probe()
    uar, other_uar, pd = driver.alloc_uar(), driver.alloc_uar(), driver.alloc_pd()
    ring = driver.allocator.alloc(1 << 16)
    cq = driver.create_cq(uar, 16, ring, 32).cq_idx
    foreign_cq = driver.create_cq(other_uar, 16, ring + 8192, 32).cq_idx
    qp = new_qp(driver, pd, uar, cq, ring + 16384)
    bad = STATUS.ILLEGAL_PARAMETER
    malformed = STATUS.MALFORMED_REQUEST
    limits = defs.LIMITS

    for opcode in (21, 22, 24, 63, 255):
        refused(STATUS.UNSUPPORTED_OPCODE, raw_command, driver, opcode)
    for number in (63, 200, 0xFFFF):
        refused(bad, driver.dealloc_pd, number)
        refused(bad, driver.dealloc_uar, number)
        refused(bad, driver.destroy_cq, number)
        refused(bad, driver.destroy_eq, number)
        refused(bad, driver.destroy_ah, pd, number)
        refused(bad, driver.create_ah, number, driver.gid)
    for depth, vector, base in ((0, 1, ring), (3, 1, ring), (1024, 1, ring), (16, 9, ring),
                                (16, 1, ring + 8)):  # fmt: skip
        refused(bad, driver.create_eq, depth, vector, base)

    def create_cq(**changes: Any) -> Any:
        fields = {"cq_entry_size_words": 8, "sub_cq_depth": 16, "uar": uar, "num_sub_cqs": 1,
                  "cq_ba": mem_addr(ring + 4096)}  # fmt: skip
        return driver.execute(defs.AdminCreateCqCmd(**{**fields, **changes}))

    refused(malformed, create_cq, virt=1)
    changes: dict[str, Any]
    for changes in (
        {"cq_entry_size_words": 5}, {"cq_entry_size_words": 4, "set_src_addr": 1},
        {"sub_cq_depth": 0}, {"sub_cq_depth": 24},
        {"sub_cq_depth": 2 * limits.max_cq_depth}, {"num_sub_cqs": 2}, {"uar": 60},
        {"interrupt_mode_enabled": 1, "eqn": 7},
        {"cq_ba": mem_addr(ring + 32)},
    ):  # fmt: skip
        refused(bad, create_cq, **changes)

    def create_qp(**changes: Any) -> Any:
        named = {"pd": pd, "uar": uar, **changes}
        return new_qp(driver, named.pop("pd"), named.pop("uar"), cq, ring + 16384, **named)

    refused(malformed, create_qp, sq_virt=1)
    refused(malformed, create_qp, rq_virt=1)
    # The send CQ has no space for 64-bit request ids; a CQ with space follows below.
    for changes in (
        {"qp_type": 0}, {"qp_type": 3}, {"pd": 60}, {"uar": 60}, {"uar": other_uar},
        {"send_cq_idx": 100}, {"recv_cq_idx": foreign_cq}, {"send_cq_idx": 1 << 20},
        {"sizes": {"send_queue_depth": 24, "send_queue_ring_size": 24 * 64}},
        {"sizes": {"send_queue_depth": 0, "send_queue_ring_size": 0}},
        {"sizes": {"send_queue_ring_size": 16 * 32}}, {"sizes": {"send_queue_ring_size": 16 * 65}},
        {"sizes": {"send_queue_depth": 2048, "send_queue_ring_size": 2048 * 64}},
        {"sizes": {"recv_queue_ring_size": 16 * 24}}, {"sizes": {"recv_queue_ring_size": 8}},
        {"sizes": {"recv_queue_ring_size": 16 * 2 * limits.max_rq_depth}},
        {"rq_base_addr": ring + 16}, {"unsolicited_write_recv": 1}, {"sq_64_bit_req_id": 1},
    ):  # fmt: skip
        refused(bad, create_qp, **changes)
    roomy = driver.create_cq(uar, 16, ring + 12288, 16, long_ids=True).cq_idx
    refused(bad, create_qp, sq_64_bit_req_id=1, recv_cq_idx=roomy)
    long = create_qp(sq_64_bit_req_id=1, send_cq_idx=roomy)
    driver.destroy_qp(long.qp_handle)
    driver.destroy_cq(roomy)

    handle = qp.qp_handle
    refused(bad, driver.modify_qp, handle + 1, qp_state=STATE.INIT, cur_qp_state=0, qkey=1)
    refused(bad, driver.modify_qp, handle, qp_state=STATE.INIT, cur_qp_state=STATE.RTR, qkey=1)
    refused(bad, driver.modify_qp, handle, qp_state=STATE.INIT, cur_qp_state=0)
    refused(bad, driver.modify_qp, handle, qp_state=STATE.RTR, cur_qp_state=0)
    refused(bad, driver.modify_qp, handle, qp_state=STATE.ERR, cur_qp_state=0)
    refused(bad, driver.modify_qp, handle, qp_state=STATE.ERR, cur_qp_state=STATE.RTS)
    refused(bad, driver.modify_qp, handle, cur_qp_state=STATE.RTS, qkey=1)
    refused(bad, driver.modify_qp, handle, rnr_retry=3)
    refused(bad, driver.query_qp, handle + 64)
    driver.modify_qp(handle, qp_state=STATE.INIT, cur_qp_state=0, qkey=QKEY)
    refused(bad, driver.modify_qp, handle, qp_state=STATE.RTS, cur_qp_state=STATE.INIT)
    driver.modify_qp(handle, qp_state=STATE.RTR, cur_qp_state=STATE.INIT)
    refused(bad, driver.modify_qp, handle, qp_state=STATE.RTS, cur_qp_state=STATE.RTR)
    response = driver.query_qp(handle)
    assert (response.qp_state, response.qkey, response.sq_draining) == (STATE.RTR, QKEY, 0)

    def reg_mr(**changes: Any) -> Any:
        fields = {"pd": pd, "iova": 0x7000, "mr_length": 8192, "phys_page_size_shift": 12,
                  "local_write_enable": 1}  # fmt: skip
        inline = changes.pop("pages", [ring, ring + PAGE])
        control = changes.pop("control", None)
        indirect = changes.pop("indirect", 0)
        request = defs.AdminRegMrCmd(**{**fields, **changes})
        if control is None:
            request.pbl.inline_pbl_array = inline
        else:
            request.aq_common.ctrl_data = 1
            length, address = control
            request.pbl.pbl = {"length": length, "address": mem_addr(address)}
        request.aq_common.ctrl_data_indirect = indirect
        return driver.execute(request)

    refused(malformed, reg_mr, indirect=1)
    refused(malformed, reg_mr, control=(4092, ring), indirect=1, mem_addr_phy_mode_en=1)
    for changes in (
        {"pd": 60}, {"mr_length": 0}, {"phys_page_size_shift": 11}, {"phys_page_size_shift": 40},
        {"iova": (1 << 64) - 4096, "mr_length": 8192}, {"remote_read_enable": 1},
        {"remote_write_enable": 1}, {"mr_length": 5 * PAGE}, {"pages": [ring, ring + 8]},
        {"mr_length": 5 * PAGE, "control": (39, ring)},
        {"mr_length": 5 * PAGE, "control": (40, ring + 4)},
    ):  # fmt: skip
        refused(bad, reg_mr, **changes)
    refused(STATUS.RESOURCE_ALLOCATION_FAILURE, reg_mr, mr_length=9000 * PAGE,
            control=(9000 * 8, ring))  # fmt: skip
    refused(bad, driver.get_feature, 8)
    refused(bad, driver.get_feature, 6)
    refused(bad, driver.set_aenq_groups, 0x20)
    refused(bad, driver.execute, defs.AdminAqGetStatsCmd(type=0, scope=1))
    refused(malformed, driver.execute, defs.AdminSetFeatureCmd(feature_common={"feature_id": 6}))
    driver.destroy_qp(handle)


def raw_command(driver: Driver, opcode: int) -> Any:
    """Sends a command with any opcode except 0."""
    request = defs.AdminAllocPdCmd()
    request.aq_common.opcode = opcode
    return driver.execute(request)


def everything_taken(backends: Sequence[Any], _rng: Random) -> None:
    """Exhausts object numbers and LLQ pages, then frees and reuses some."""
    driver = Driver(backends[0]).probe()
    full = STATUS.RESOURCE_ALLOCATION_FAILURE
    pds = [driver.alloc_pd() for _ in range(1 << defs.LIMITS.pd_w)]
    assert pds == list(range(len(pds)))
    refused(full, driver.alloc_pd)
    driver.dealloc_pd(17)
    assert driver.alloc_pd() == 17
    uar = driver.alloc_uar()
    ring = driver.allocator.alloc(1 << 16)
    cq = driver.create_cq(uar, 16, ring, 32).cq_idx
    deep = {"send_queue_depth": 1024, "send_queue_ring_size": 1024 * 128}
    qps = []
    for _ in range(16):
        qps.append(new_qp(driver, 0, uar, cq, ring + 16384, sizes=deep))
    refused(full, new_qp, driver, 0, uar, cq, ring + 16384, sizes=deep)
    driver.destroy_qp(qps[3].qp_handle)
    again = new_qp(driver, 0, uar, cq, ring + 16384, sizes=deep)
    assert again.llq_descriptors_offset == qps[3].llq_descriptors_offset


def many_commands(backends: Sequence[Any], rng: Random) -> None:
    """Posts as many commands of all kinds as the driver permits; finishes them in posting order."""
    node = Node(backends[0])
    driver = node.driver
    for _ in range(4):
        requests = [
            rng.choice((
                lambda: defs.AdminAllocPdCmd(),
                lambda: defs.AdminAllocUarCmd(),
                lambda: defs.AdminGetFeatureCmd(feature_common={"feature_id": 1}),
                lambda: defs.AdminAqGetStatsCmd(type=rng.randrange(6)),
                lambda: defs.AdminCreateAhCmd(
                    pd=node.pd.number, dest_addr=driver.gid[:-1] + bytes([rng.randrange(8)])
                ),
            ))()
            for _ in range(30)
        ]  # fmt: skip
        commands = [driver.submit(request) for request in requests]
        for command in commands:
            driver.finish(command)
            command.result()


def dependent_commands(backends: Sequence[Any], rng: Random) -> None:
    """Posts commands that depend on each other together; the device executes them in order."""
    driver = Driver(backends[0]).probe()
    uar, pd = driver.alloc_uar(), driver.alloc_pd()
    ring = driver.allocator.alloc(1 << 16)
    for _ in range(4):
        cq = driver.create_cq(uar, 16, ring, 32)
        qp = new_qp(driver, pd, uar, cq.cq_idx, ring + 16384)
        mr = driver.reg_mr(pd, 0x1000, 5000, [ring, ring + PAGE], 12)
        ah = driver.create_ah(pd, driver.gid)
        users: list[Any] = [
            defs.AdminDestroyQpCmd(qp_handle=qp.qp_handle), defs.AdminDeregMrCmd(l_key=mr.l_key),
            defs.AdminDestroyAhCmd(ah=ah, pd=pd),
        ]  # fmt: skip
        rng.shuffle(users)
        used = [
            defs.AdminDestroyCqCmd(cq_idx=cq.cq_idx), defs.AdminDeallocPdCmd(pd=pd),
            defs.AdminDeallocUarCmd(uar=uar), defs.AdminAllocPdCmd(), defs.AdminAllocUarCmd(),
        ]  # fmt: skip
        commands = [driver.submit(request) for request in [*users, *used]]
        responses: list[Any] = [driver.finish(command) for command in commands]
        assert (responses[-2].pd, responses[-1].uar) == (pd, uar)
    # In the reverse order the first commands find the object in use.
    cq = driver.create_cq(uar, 16, ring, 32)
    qp = new_qp(driver, pd, uar, cq.cq_idx, ring + 16384)
    commands = [
        driver.submit(request) for request in (
            defs.AdminDeallocUarCmd(uar=uar), defs.AdminDestroyCqCmd(cq_idx=cq.cq_idx),
            defs.AdminDeallocPdCmd(pd=pd), defs.AdminDestroyQpCmd(qp_handle=qp.qp_handle),
            defs.AdminDestroyCqCmd(cq_idx=cq.cq_idx),
        )
    ]  # fmt: skip
    for command in commands[:3]:
        refused(STATUS.RESOURCE_BUSY, driver.finish, command)
    for command in commands[3:]:
        driver.finish(command)


def statistics(backends: Sequence[Any], rng: Random) -> None:
    """Sends messages of all sizes, some refused; checks the device counters against the traffic."""
    node = Node(backends[0])
    ends = [Endpoint(node, kind) for kind in (UD, SRD) for _ in range(2)]
    sent = 0
    for turn in range(10):
        a, b = rng.choice((ends[:2], ends[2:]))
        size = (0, 1, 33, 700, 4000)[turn % 5]
        exchange(a, b, pattern(size, turn))
        sent += size
    a, b = ends[2:]
    a.qp.post_send_many([1], **{**a.towards(b), "inline": b"refused", "qkey": 5})
    a.cq.wait_for(1)
    backends[0].settle()
    kind = defs.AdminGetStatsType
    basic = node.driver.get_stats()
    counted = node.driver.get_stats(kind.MESSAGES)
    assert (basic.rx_pkts, basic.rx_drops, basic.qkey_viol) == (10, 1, 1)
    assert (counted.send_wrs, counted.send_bytes, counted.recv_wrs) == (10, sent, 10)
    for other in (kind.RDMA_READ, kind.RDMA_WRITE):
        node.driver.get_stats(other)
