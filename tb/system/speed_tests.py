# SPDX-License-Identifier: Apache-2.0
"""Measures the simulation speed of the whole device: clocks only, and checked traffic.

This file tests no function of the device: `make bench-sim` runs it and reads its measurements.
"""

import json
import os
import time

import cocotb
import numpy as np
from cocotb.task import bridge

from efa import defs
from efa.endpoints import SRD, UD, Endpoint, Node, pattern
from tb.env.checked import checked
from tb.lib.native import Native

CLOCKS = 100_000
PER_QUEUE = 30
ROUNDS = 6
SIZES = (64, 1024, 4096)  # bytes; used in rotation by the queues
ROOM = 4096 + 64


def keep(**figures):
    """Adds measurements to the file that tb/bench_sim.py reads from the run's folder."""
    path, known = "speed.json", {}
    if os.path.exists(path):
        with open(path) as stream:
            known = json.load(stream)
    with open(path, "w") as stream:
        json.dump({**known, **figures}, stream)


@cocotb.test()
async def clocks_only(dut):
    """bench.speed.clocks"""
    native = Native(dut)
    native.start(1)
    await native.run([], 20_000)
    scale = 1 if os.environ["EFA_SIM"] == "verilator" else 20
    before, started = native.cycle, time.process_time()
    await native.run([], CLOCKS // scale)
    cycles = native.cycle - before
    keep(clocks_only=cycles / (time.process_time() - started), clocks_only_cycles=cycles)


def traffic(backend, board, rounds):
    """Sends from every queue of the device to its neighbour, in rounds, under the scoreboard."""
    node = Node(backend)
    queues = 1 << defs.LIMITS.qpn_w
    ends = [Endpoint(node, UD if n % 4 == 0 else SRD, depth=64) for n in range(queues)]
    peers = {}
    for kind in (UD, SRD):
        same = [end for end in ends if end.kind == kind]
        peers |= dict(zip(same, same[1:] + same[:1], strict=True))
    ids = np.arange(PER_QUEUE)
    for number, end in enumerate(ends):
        end.size = SIZES[number % len(SIZES)]
        end.buffer.write(0, pattern(end.size, end.qp.number))
        end.to = end.towards(peers[end])
        peers[end].source = end
    backend.settle()
    before, started = backend.cycles, time.process_time()
    for _ in range(rounds):
        for end in ends:
            at = end.buffer.addr + 8192 + ROOM * ids
            end.qp.post_recv_many(ids, at, end.skip + end.source.size, end.buffer.l_key)
        for end in ends:
            what = (end.buffer.addr, end.size, end.buffer.l_key)
            end.qp.post_send_many(ids, **end.to, sges=[what])
        for end in ends:
            done = end.cq.wait_for(2 * PER_QUEUE)
            assert not done["status"].any()
    backend.settle()
    cycles = backend.cycles - before
    compared = sum(board.check().values())
    seconds = time.process_time() - started
    keep(traffic=cycles / seconds, traffic_cycles=cycles, seconds=seconds, queues=queues,
         messages=rounds * queues * PER_QUEUE, compared=compared)  # fmt: skip


@cocotb.test()
async def traffic_on_all_queues(dut):
    """bench.speed.traffic"""
    native = Native(dut)
    wanted = sum(1 << int(defs.Ev[name]) for name in ("RX_LAST", "RESET"))
    native.start(1, ev_mask=wanted)
    board, open_backends = checked(native)
    backend = (await bridge(open_backends)())[0]
    rounds = ROUNDS if os.environ["EFA_SIM"] == "verilator" else 1
    await bridge(traffic)(backend, board, rounds)
