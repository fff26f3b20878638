"""What the benches of single modules share: quiet inputs, waits, cycles between two conditions.

    drive(dut, s_need=4, s_find=1)
    assert await span(dut, high(dut.s_valid, dut.s_ready), high(dut.m_valid)) == promised.latency
"""

from cocotb.triggers import RisingEdge


def drive(dut, **values):
    """Set inputs by name."""
    for name, value in values.items():
        getattr(dut, name).value = value


def high(*signals):
    """A condition for until() and span(): all of these are 1."""
    return lambda: all(signal.value == 1 for signal in signals)


async def until(dut, condition, limit=10000):
    """Edges until the condition holds at one; fails after `limit` of them."""
    for cycles in range(1, limit + 1):
        await RisingEdge(dut.clk)
        if condition():
            return cycles
    raise AssertionError(f"not in {limit} cycles")


async def span(dut, first, then, limit=10000):
    """Cycles from the next edge where `first` holds to the first one where `then` does."""
    await until(dut, first, limit)
    return 0 if then() else await until(dut, then, limit)
