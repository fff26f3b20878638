# SPDX-License-Identifier: Apache-2.0
"""Tests efa_sq_req_arb: the priority of each request, and that each grant goes to its requester."""

import cocotb
from cocotb.triggers import Timer

from efa_cosim.layouts.defs import AdminQpState
from tb.lib.stream import rng_for

PULSES = ("s_qpchg_valid", "s_round_valid", "m_again_ready", "m_fetch_ready", "s_drain_valid",
          "s_drain_clear", "s_flush_fence_valid", "s_drain_fence_valid", "m_fence_ready",
          "s_passed_valid", "s_passed_id")  # fmt: skip


async def settle(dut, **inputs):
    """Drives inputs; returns the outputs by name."""
    for name, value in inputs.items():
        getattr(dut, name).value = value
    await Timer(1, "ns")
    outputs = ("s_qpchg_ready", "s_round_ready", "m_again_valid", "m_again_qpn", "m_fetch_valid",
               "m_notice_valid", "m_drain_valid", "s_flush_fence_ready", "s_drain_fence_ready",
               "m_fence_valid", "m_fence_id", "m_flush_passed", "m_drain_passed")  # fmt: skip
    return {name: int(getattr(dut, name).value) for name in outputs}


def drawn(rng, dut):
    """Returns random inputs; most requests are present."""
    inputs = {name: rng.random() < 0.6 for name in PULSES}
    inputs |= {name: rng.getrandbits(len(getattr(dut, name)))
               for name in ("s_qpchg_qpn", "s_round_qpn")}  # fmt: skip
    return inputs | {"s_qpchg_state": int(rng.choice(list(AdminQpState)))}


async def cases(dut, name, count):
    """Yields random inputs and the outputs for them, `count` times."""
    rng = rng_for(name)
    for _ in range(count):
        inputs = drawn(rng, dut)
        yield inputs, await settle(dut, **inputs)


@cocotb.test()
async def a_changed_qp_goes_before_a_returned_queue(dut):
    """queue.sq_req_arb.again"""
    async for inputs, out in cases(dut, "again", 2000):
        changed, returned = inputs["s_qpchg_valid"], inputs["s_round_valid"]
        assert out["m_again_valid"] == (changed or returned)
        if changed:
            assert out["m_again_qpn"] == inputs["s_qpchg_qpn"]
        elif returned:
            assert out["m_again_qpn"] == inputs["s_round_qpn"]
        taken = out["m_again_valid"] and inputs["m_again_ready"]
        assert (returned and out["s_round_ready"]) == (taken and not changed)
        # Both the scheduler and the fetch of WQEs receive a changed QP.
        assert out["m_fetch_valid"] == changed
        both = inputs["m_again_ready"] and inputs["m_fetch_ready"]
        assert (changed and out["s_qpchg_ready"]) == (changed and both)


@cocotb.test()
async def a_qp_that_reaches_err_is_reported_once(dut):
    """queue.sq_req_arb.notice"""
    async for inputs, out in cases(dut, "notice", 2000):
        accepted = inputs["s_qpchg_valid"] and out["s_qpchg_ready"]
        assert out["m_notice_valid"] == (accepted and inputs["s_qpchg_state"] == AdminQpState.ERR)


@cocotb.test()
async def a_fence_of_a_flush_goes_before_that_of_a_drain(dut):
    """queue.sq_req_arb.fence"""
    async for inputs, out in cases(dut, "fence", 2000):
        flush, drain = inputs["s_flush_fence_valid"], inputs["s_drain_fence_valid"]
        assert out["m_fence_valid"] == (flush or drain)
        if out["m_fence_valid"]:
            assert out["m_fence_id"] == flush
        granted = inputs["m_fence_ready"]
        assert (flush and out["s_flush_fence_ready"]) == (flush and granted)
        assert (drain and out["s_drain_fence_ready"]) == (drain and granted and not flush)
        passed = inputs["s_passed_valid"]
        assert out["m_flush_passed"] == (passed and inputs["s_passed_id"])
        assert out["m_drain_passed"] == (passed and not inputs["s_passed_id"])


@cocotb.test()
async def a_drain_waits_for_the_reads_of_wqes(dut):
    """queue.sq_req_arb.drain"""
    async for inputs, out in cases(dut, "drain", 500):
        assert out["m_drain_valid"] == (inputs["s_drain_valid"] and inputs["s_drain_clear"])
