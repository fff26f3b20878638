# SPDX-License-Identifier: Apache-2.0
"""Tests that a failing check beside the logic ends its simulation and fails its run."""

import pytest

from tb import runner
from tb.simulators import simulator_missing

BENCH = '''
import cocotb
from cocotb.triggers import RisingEdge
from tb.lib.stream import StreamDriver, clock_and_reset

@cocotb.test()
async def broken(dut):
    dut.s_valid.value, dut.s_ready.value, dut.s_data.value = 0, 0, 1
    await clock_and_reset(dut)
    dut.s_valid.value = 1
    await RisingEdge(dut.clk)
    {change}
    for _ in range(3):
        await RisingEdge(dut.clk)
'''

# A driver whose beats are never accepted.
REFUSED = """
    dut.s_ready.value = 1
    await RisingEdge(dut.clk)
    dut.s_valid.value = 0
    await RisingEdge(dut.clk)
    dut.s_ready.value = 0
    source = StreamDriver(dut, "s", fields=["data"])
    await source.send({"data": 1}, {"data": 2}, {"data": 3})
"""


@pytest.fixture
def stream(tmp_path, monkeypatch, sim):
    """Returns a function that runs a stream which waits for ready, with `change` applied."""

    def run(name, change):
        (tmp_path / f"{name}.py").write_text(BENCH.format(change=change))
        monkeypatch.syspath_prepend(str(tmp_path))
        return runner.run_unit("stream_check", "efa_stream_check", None, name, sim, 1)

    return run


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("withdrawn", "dut.s_valid.value = 0", "valid fell before ready"),
        ("changed", "dut.s_data.value = 2", "payload changed before ready"),
    ],
)
def test_a_broken_stream_ends_the_simulation(stream, name, change, text):
    with pytest.raises(runner.RunFailed, match=text):
        stream(name, change)


def test_unknown_handshakes_end_the_simulation(stream, sim):
    if sim != "icarus":
        pytest.skip("two-state simulator")
    assert simulator_missing(sim) is None
    with pytest.raises(runner.RunFailed, match="valid or ready is unknown"):
        stream("unknown", "dut.s_ready.value = cocotb.types.Logic('X')")


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("hung", "await cocotb.triggers.Event().wait()", "no end after 600000 cycles"),
        ("refused", REFUSED, "s: 3 beats wait, none was taken in 20000 cycles"),
    ],
)  # fmt: skip
def test_a_bench_that_hangs_fails(stream, sim, name, change, text):
    if sim != "verilator":
        pytest.skip("the bench waits, not the simulator")
    with pytest.raises(runner.RunFailed, match=text):
        stream(name, change)


def test_a_lawful_stream_passes(stream):
    stream("lawful", "dut.s_ready.value = 1")
