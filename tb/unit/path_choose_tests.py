# SPDX-License-Identifier: Apache-2.0
"""Tests efa_path_choose: the usable path with the fewest packets in flight."""

import cocotb
from cocotb.triggers import Timer

from tb.lib.stream import rng_for
from tb.lib.waits import drive


async def check(dut, usable, sent, in_flight, first):
    """Checks the choice for paths with these counters of transmissions and packets in flight."""
    paths = len(dut.s_usable)
    drive(dut, s_first=first, s_usable=sum(1 << path for path in usable),
          s_sent=sum(count << 16 * path for path, count in enumerate(sent)),
          s_settled=sum((count - less & 0xFFFF) << 16 * path
                        for path, (count, less) in enumerate(zip(sent, in_flight, strict=True))))
    await Timer(1, "ns")  # fmt: skip
    wanted = min(usable, key=lambda path: (in_flight[path], (path - first) % paths))
    assert dut.m_path.value == wanted, f"{usable} {in_flight} from {first}: not {wanted}"


@cocotb.test()
async def equal_paths_in_turn(dut):
    """transport.path_choose.equal: Among equal usable paths, the first one from s_first on is
    chosen, for each set of usable paths, also where counters wrap."""
    rng, paths = rng_for("equal"), len(dut.s_usable)
    for usable in range(1, 1 << paths):
        for first in range(paths):
            sent = [rng.choice((0, 1, 0xFFFF, rng.getrandbits(16))) for _ in range(paths)]
            places = [path for path in range(paths) if usable >> path & 1]
            await check(dut, places, sent, [rng.choice((0, 2, 255))] * paths, first)


@cocotb.test()
async def fewest_in_flight(dut):
    """transport.path_choose.fewest: One packet less, or one of any bit less, makes a path the
    choice, from each first path; one packet more makes another one the choice."""
    rng, paths = rng_for("fewest"), len(dut.s_usable)
    for path in range(paths):
        for first in range(paths):
            for less in (-1, *(1 << bit for bit in range(9))):
                in_flight = [600] * paths
                in_flight[path] -= less
                sent = [rng.getrandbits(16) for _ in range(paths)]
                await check(dut, range(paths), sent, in_flight, first)


@cocotb.test()
async def random_paths(dut):
    """transport.path_choose.random: Random counters, usable paths and first paths."""
    rng, paths = rng_for("random"), len(dut.s_usable)
    for _ in range(2000):
        usable = rng.sample(range(paths), rng.randrange(1, paths + 1))
        most = rng.choice((2, 5, 300))
        await check(dut, usable, [rng.getrandbits(16) for _ in range(paths)],
                    [rng.randrange(most) for _ in range(paths)], rng.randrange(paths))  # fmt: skip
