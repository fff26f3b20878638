# SPDX-License-Identifier: Apache-2.0
"""Tests efa_rx_free: slots of retired and of dropped packets leave once each."""

import cocotb
from cocotb.triggers import RisingEdge

from tb.lib.stream import clock_and_reset, reset, rng_for
from tb.lib.timing import timing
from tb.lib.waits import drive, zero


class RefModel:
    """Owns the slots: one in use is retired or dropped once, and is in use again after it has
    left. Checks the output at each edge."""

    def __init__(self, dut):
        self.dut, self.count = dut, 1 << int(dut.SLOT_W.value)
        self.latency = timing("efa_rx_free", "dropped").latency
        self.forget()

    def forget(self):
        self.used, self.waiting, self.left = set(range(self.count)), {}, 0
        self.idle = 0  # cycles without a retired slot, and the present one

    async def step(self, retired=None, dropped=None):
        """Retires and drops a slot, or none, in one cycle."""
        dut = self.dut
        for kind, slot in (("retired", retired), ("dropped", dropped)):
            drive(dut, **{f"s_{kind}_valid": int(slot is not None), f"s_{kind}_slot": slot or 0})
        await RisingEdge(dut.clk)
        self.used -= {retired, dropped}
        free = int(dut.m_free_slot.value) if dut.m_free_valid.value == 1 else None
        for slot in self.waiting:
            self.waiting[slot] += 1
        if retired is not None:
            assert free == retired, f"slot {free} leaves, not the retired slot {retired}"
            self.idle = 0
        else:
            self.idle += 1
            # A slot waits for its own time and for the slots dropped before, one each cycle.
            oldest = max(self.waiting.values(), default=0)
            if free is None:
                assert oldest < self.latency, f"{self.waiting} wait, no slot is retired"
            else:
                assert free in self.waiting, f"slot {free} was not dropped, or left before"
                assert self.waiting.pop(free) == oldest, f"slot {free} has overtaken others"
        if free is not None:
            self.used.add(free)
            self.left += 1
        if dropped is not None:
            self.waiting[dropped] = 0

    async def drain(self):
        while self.waiting:
            await self.step()
        for _ in range(4):
            await self.step()
        assert len(self.used) == self.count


async def start(dut):
    zero(dut, "s_retired_valid", "s_retired_slot", "s_dropped_valid", "s_dropped_slot")
    await clock_and_reset(dut)
    return RefModel(dut)


@cocotb.test()
async def one_alone(dut):
    """transport.rx_free.time: A retired slot leaves in the same cycle, a dropped slot after the
    specified cycles; both streams run at one slot per cycle."""
    ref = await start(dut)
    assert timing("efa_rx_free", "retired") == (0, 1, None)
    for slot in range(ref.count):
        await ref.step(retired=slot)
    assert ref.left == ref.count
    await ref.step(dropped=1)
    for _ in range(ref.latency - 1):
        await ref.step()
        assert ref.waiting, "earlier than specified"
    await ref.step()
    assert not ref.waiting
    for slot in range(ref.count):
        await ref.step(dropped=slot)
    for _ in range(ref.latency):
        await ref.step()
    assert ref.left == 2 * ref.count + 1 and not ref.waiting
    assert timing("efa_rx_free", "dropped").interval == 1


@cocotb.test()
async def all_slots_wait(dut):
    """transport.rx_free.depth: As many dropped slots wait as there are slots, and none is lost.
    All of them leave, one per cycle, when no slot is retired any more."""
    ref = await start(dut)
    assert timing("efa_rx_free", "dropped").depth == 256 and ref.count in (64, 256)
    for _ in range(3):
        # Slot 0 is retired, in use again and retired again until all others wait.
        for slot in range(1, ref.count):
            await ref.step(retired=0, dropped=slot)
        for _ in range(5):
            await ref.step(retired=0)
        await ref.step(dropped=0)
        assert len(ref.waiting) == ref.count - 1, "all slots but one"
        before = ref.left
        for _ in range(ref.count - 1):
            await ref.step()
        assert ref.left == before + ref.count - 1
        await ref.drain()


@cocotb.test()
@cocotb.parametrize(retire=[0.1, 0.5, 0.95], drop=[0.1, 0.5, 0.9])
async def random_slots(dut, retire, drop):
    """transport.rx_free.random: Random retired and dropped slots leave once each."""
    ref, rng = await start(dut), rng_for(f"random {retire} {drop}")
    for _ in range(1500):
        used = sorted(ref.used)
        rng.shuffle(used)
        retired = used.pop() if used and rng.random() < retire else None
        dropped = used.pop() if used and rng.random() < drop else None
        await ref.step(retired, dropped)
    await ref.drain()


@cocotb.test()
async def reset_forgets_slots(dut):
    """transport.rx_free.reset: A reset discards the dropped slots that wait."""
    ref = await start(dut)
    for waiting in (1, 2, ref.count // 2):
        for slot in range(waiting):
            await ref.step(retired=ref.count - 1, dropped=slot)
        zero(dut, "s_retired_valid", "s_dropped_valid")
        await reset(dut)
        ref.forget()
        for _ in range(6):
            await ref.step()
        await ref.step(dropped=3)
        await ref.drain()
