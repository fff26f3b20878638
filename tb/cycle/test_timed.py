# SPDX-License-Identifier: Apache-2.0
"""Compares the cycle model with the RTL: exact stages on an idle device, and under load."""

import itertools

import pytest

from efa_cosim.boundary.events import of_kind
from efa_cosim.cycle.compare import compare
from efa_cosim.cycle.network import simulate
from efa_cosim.cycle.stages import Stages
from efa_cosim.cycle.timelines import MILESTONES, from_events
from efa_cosim.cycle.workload import Workload
from tb.cycle.timed import run_timed
from tb.runner import RunFailed

# The device visits its outstanding reads once in 256 cycles, which delays a message of an idle
# device by one cycle. So two messages are compared, the second and the third of four.
IDLE = [Workload(kind=kind, size=size, messages=4)
        for kind in ("SRD", "UD") for size in (0, 1, 32, 33, 64, 65, 97, 512, 513, 1024, 4096)]
IDLE += [Workload(size=size, buffers=2, messages=4) for size in (129, 1024, 4096)]
IDLE += [Workload(size=size, messages=4, read_latency=333, write_latency=71, net_latency=99)
         for size in (32, 256)]
IDLE += [Workload(size=size, entry_bytes=128, messages=4)
         for size in (0, 32, 33, 80, 81, 512)]  # fmt: skip
# RDMA writes of a packet and of several ones. The packets of a message wait for each other and meet
# its acknowledgements, so the table of stages has those of one packet only.
WRITES = [Workload(size=size, operation="WRITE", messages=4)
          for size in (0, 8, 64, 65, 512, 4096, 8192, 65536)]
WRITES += [Workload(size=size, operation="WRITE", entry_bytes=128, messages=4)
           for size in (0, 64, 80, 81, 8192)]  # fmt: skip
WRITES += [Workload(size=size, operation="WRITE", messages=4, read_latency=333, write_latency=71,
                    net_latency=99) for size in (64, 65536)]
# The last packet, with the immediate, follows the outcomes of all others and completes a receive.
WRITES += [Workload(size=size, operation="WRITE_IMM", messages=4)
           for size in (0, 64, 4096, 8192, 65536)]  # fmt: skip
# Reads: the request, then the responses.
READS = [Workload(size=size, operation="READ", messages=4)
         for size in (0, 8, 64, 65, 512, 2048, 4096, 65536)]  # fmt: skip
READS += [Workload(size=size, operation="READ", messages=4, net_latency=500)
          for size in (64, 4096, 8192, 65536)]  # fmt: skip
# A round trip of the fabric is shorter or longer than a host read, or than a long packet.
LOSSLESS = [Workload(size=4096, operation=operation, net_latency=fabric, read_latency=host,
                     messages=8, depth=4)
            for operation, fabric, host in itertools.product(
                ("READ", "WRITE"), (1, 50, 500), (125, 1500))]  # fmt: skip
LOSSLESS += [Workload(size=size, operation="READ", read_latency=1500, messages=4, depth=2)
             for size in (64, 65536)]  # fmt: skip
# Milestones of the request of a read, with their names in the table of stages.
REQUEST = {"check": "check", "tx_first": "req_out", "rx_last": "req_in"}
LOADED = [
    Workload(size=32, depth=64, batch=16, messages=1024),
    Workload(size=64, queues=8, depth=64, batch=16, messages=2048),
    Workload(size=256, queues=16, depth=16, batch=4, messages=1024),
    Workload(size=4096, queues=4, depth=8, messages=256),
    Workload(size=32, queues=4, depth=4, policy="adversarial", messages=1024),
    Workload(size=64, queues=8, depth=64, gap=12, read_latency=500, messages=1024),
    Workload(kind="UD", size=128, queues=4, depth=32, batch=2, messages=1024),
    # Datagrams that leave faster than they complete.
    Workload(kind="UD", size=32, queues=32, depth=64, batch=16, messages=2048),
    Workload(kind="UD", size=200, queues=32, depth=64, batch=16, messages=3072),
    Workload(size=80, queues=4, depth=16, batch=8, entry_bytes=128, messages=1024),
    Workload(size=32, queues=4, depth=16, batch=4, cq_batch=4, messages=1024),
]
# Writes of one packet and of several, from host memory and inline; more packets than the payload
# memory and the congestion window hold.
LOADED_WRITES = [
    Workload(size=64, operation="WRITE", queues=8, depth=64, batch=16, messages=1024),
    Workload(size=0, operation="WRITE", queues=16, depth=16, batch=4, messages=512),
    Workload(size=80, operation="WRITE", queues=8, depth=16, batch=4, entry_bytes=128,
             messages=512),
    Workload(size=4096, operation="WRITE", queues=8, depth=16, batch=2, read_latency=500,
             messages=256),
    Workload(size=8192, operation="WRITE", queues=4, depth=8, batch=2, messages=128),
    Workload(size=65536, operation="WRITE", queues=4, depth=4, messages=32),
    Workload(size=64, operation="WRITE", queues=8, depth=16, batch=4, gap=40, messages=512),
    Workload(size=64, operation="WRITE_IMM", queues=8, depth=64, batch=16, messages=1024),
    Workload(size=8192, operation="WRITE_IMM", queues=4, depth=8, batch=2, messages=128),
    # Packets before their receive descriptors.
    Workload(size=0, operation="WRITE_IMM", depth=512, batch=16, read_latency=700, messages=256),
]
LOADED_READS = [
    Workload(size=64, operation="READ", queues=8, depth=16, batch=4, messages=512),
    Workload(size=0, operation="READ", queues=8, depth=16, batch=4, messages=256),
    Workload(size=512, operation="READ", queues=4, depth=4, batch=2, net_latency=500, messages=64),
    Workload(size=8192, operation="READ", queues=8, depth=8, batch=4, net_latency=500, messages=64),
    Workload(size=65536, operation="READ", queues=2, depth=2, read_latency=500, net_latency=500,
             messages=16),
]


def timelines(works, sim, seed):
    """Yields workload, run and timelines on the RTL."""
    if sim != "verilator":
        pytest.skip("the device's cycles are the same on every simulator: one of them is enough")
    try:
        found = run_timed(works, sim, seed)
    except RunFailed as error:
        pytest.fail(str(error), pytrace=False)
    for work, run in zip(works, found, strict=True):
        yield work, run, from_events(work, run.events, run.timestamps, run.queues, run.numbers)


def moments(work, real):
    """Returns the milestones of the second and third message after their doorbell store, as the
    table of stages has them; the earlier of both."""
    last = work.packets - 1
    found = {name: real[name][last :: work.packets] for name in MILESTONES}
    if work.reads:
        del found["ackout"], found["ack"]
        found |= {goal: real[name][:: work.packets] for name, goal in REQUEST.items()}
    return {name: int((column - found["bell"])[1:-1].min()) for name, column in found.items()
            if column[1] >= 0}


def test_a_message_on_an_idle_device_is_exact_stage_by_stage(sim, seed):
    table = Stages()
    for work, run, real in timelines(IDLE + WRITES + READS, sim, seed):
        row = compare(work, real, simulate(work, run.beats, clocks=run.clocks))
        assert row["exact"], f"{work}: {row['parts_at']}"
        if work.parts != 1:
            continue
        found = moments(work, real)
        # The host stores the next WQE when the completion is visible, a beat before its doorbell.
        bell = real["bell"][:: work.packets]
        found["seen"] = int((bell[2:] - bell[1:-1] - run.beats[2:]).min())
        assert found == table.moments(work), f"{work}: the RTL against the table"


def test_without_loss_no_packet_is_sent_twice(sim, seed):
    for work, run, _ in timelines(LOSSLESS, sim, seed):
        sent = len(of_kind(run.events, "tx_first"))
        assert sent == work.total * work.packets, f"{work}: {sent} packets"


def test_under_load_the_model_predicts_every_moment_of_the_rtl(sim, seed):
    for work, run, real in timelines(LOADED + LOADED_WRITES + LOADED_READS, sim, seed):
        row = compare(work, real, simulate(work, run.beats, clocks=run.clocks))
        assert row["exact"], f"{work}: {row['parts_at']}"
