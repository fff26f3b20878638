"""A check written beside the logic ends its simulation, and that fails its run."""

import pytest

from tb import runner
from tb.simulators import simulator_missing

BENCH = '''
import cocotb
from cocotb.triggers import RisingEdge
from tb.lib.stream import clock_and_reset

@cocotb.test()
async def broken(dut):
    dut.valid.value, dut.ready.value, dut.data.value = 0, 0, 1
    await clock_and_reset(dut)
    dut.valid.value = 1
    await RisingEdge(dut.clk)
    {change}
    for _ in range(3):
        await RisingEdge(dut.clk)
'''


@pytest.fixture
def stream(tmp_path, monkeypatch, sim):
    """Runs a stream that waits for ready when `change` happens to it."""

    def run(name, change):
        (tmp_path / f"{name}.py").write_text(BENCH.format(change=change))
        monkeypatch.syspath_prepend(str(tmp_path))
        return runner.run_unit("stream_check", "efa_stream_check", None, name, sim, 1)

    return run


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("withdrawn", "dut.valid.value = 0", "valid fell before ready"),
        ("changed", "dut.data.value = 2", "payload changed before ready"),
    ],
)
def test_a_broken_stream_ends_the_simulation(stream, name, change, told):
    with pytest.raises(runner.RunFailed, match=told):
        stream(name, change)


def test_unknown_handshakes_end_the_simulation(stream, sim):
    if sim != "icarus":
        pytest.skip("two-state simulator")
    assert simulator_missing(sim) is None
    with pytest.raises(runner.RunFailed, match="valid or ready is unknown"):
        stream("unknown", "dut.ready.value = cocotb.types.Logic('X')")


def test_a_lawful_stream_passes(stream):
    stream("lawful", "dut.ready.value = 1")
