# SPDX-License-Identifier: Apache-2.0
"""Completes the record of RDMA reads for the replays.

No event reports the check of a response, nor the acceptance of a request by the responder, nor
which of the reads of a queue a response belongs to. The cycle model predicts them, from the clocks
of the device and the stores of the host. It must predict every recorded milestone to the cycle.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from efa_cosim.attribution.gaps import Ends, Gap, Services
from efa_cosim.attribution.rows import Rows
from efa_cosim.cycle.network import Retransmission, Stuck, identified, recorded
from efa_cosim.cycle.record import Record, payload_rows, undisturbed
from efa_cosim.cycle.stages import Stages, shape, standard
from efa_cosim.cycle.timelines import MILESTONES, in_order
from efa_cosim.cycle.workload import INLINE, PACKET_BYTES, Workload

# Milestones of the request of a read, by their names in spec/stages.yaml.
MIDDLE = {"req_out": "tx_first", "req_in": "rx_last"}
# Stages of packets, in which the services of a request and of a response differ; stages of packets
# that are not on the way of a read.
EACH: tuple[Ends, ...] = (("tx_first", "tx_last"), ("rx_first", "rx_last"),
                          ("rx_last", "rx_validated"), ("rx_validated", "rx_data_done"))
BESIDE: tuple[Ends, ...] = (("check", "rd"), ("ackout", "ack"))


class PredictionError(Exception):
    """The cycle model predicts another cycle for a milestone; names message and milestone."""


def completed(record: Record) -> Record:
    """Returns the Record of reads with what no event reports; raises PredictionError."""
    real = record.timelines
    try:
        found, accepted = identified(real.work, record.beats, standard(), record.clocks)
    except (Retransmission, Stuck) as error:
        raise PredictionError(str(error)) from None
    shown = {name: column.copy() for name, column in found.table.items()}
    in_order(real.work, shown)
    wrong = [(int(real[name][row]), int(row), name, int(shown[name][row])) for name in MILESTONES
             for row in np.flatnonzero(real[name] != shown[name])]
    if wrong:
        cycle, row, name, predicted = min(wrong)
        raise PredictionError(f"message {row // real.work.packets}: '{name}' is in cycle {cycle}, "
                              f"the cycle model predicts {predicted}; the first of {len(wrong)} "
                              "differences")
    reads = record.reads
    message = reads.message.copy()
    message[message >= 0] = np.repeat(payload_rows(found), len(record.made.reads))
    return replace(record, timelines=found, accepted=accepted,
                   reads=replace(reads, message=message))


def idle_read(work: Workload) -> Record:
    """Returns the Record of a single read on an idle device, from the cycle model."""
    table = standard()
    work = replace(work, queues=1, depth=1, batch=1, messages=1, gap=0)
    return recorded(work, clocks=undisturbed(table.moments(work), table))


def packet_services(services: Services, work: Workload, table: Stages, rows: Rows) -> Services:
    """Returns the services of each packet of reads: a request passes the stages of an empty write;
    responses request their payload and meet the acknowledgements as writes do."""
    empty = _of_write(replace(work, size=0), table)
    full = _of_write(replace(work, size=min(work.size, PACKET_BYTES), entry_bytes=min(INLINE)),
                     table)
    found: Services = {ends: full[ends] for ends in BESIDE} | services
    for ends in EACH:
        found[ends] = np.where(rows.request, empty[ends], found[ends])
    return found


def _of_write(work: Workload, table: Stages) -> Services:
    work = replace(work, operation="WRITE")
    made = shape(work)
    return {(stage.start, stage.end): table.cycles(stage, work, made)
            for stage in table.passed(made)}


def of_responses(gaps: dict[Ends, Gap], accepts: Gap, rows: Rows, services: Services
                 ) -> dict[Ends, Gap]:  # fmt: skip
    """Returns the gaps of the stages that begin or end with a request, a row per packet.

    accepts  from the arrival of each request to its acceptance
    """
    there = Gap(gaps["tx_last", "rx_first"].begins, services["req_out", "req_in"])
    there.add(gaps["tx_last", "rx_first"])
    request = np.arange(rows.count) - rows.part
    answer = Gap(accepts.begins[request], services["req_in", "rd"])
    answer.add(accepts, request)
    answer.add(gaps["wqe", "check"])
    answer.add(gaps["check", "rd"])
    return {("req_out", "req_in"): there, ("req_in", "rd"): answer}
