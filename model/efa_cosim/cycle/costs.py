# SPDX-License-Identifier: Apache-2.0
"""Collects the parameters of the network from spec/timing.yaml, spec/stages.yaml and the workload.
"""

from dataclasses import astuple, dataclass

import numpy as np

from efa_cosim.cycle.stages import LINE, REQUEST_BYTES, Stages, cut, shape
from efa_cosim.cycle.timelines import UNKNOWN, Clocks
from efa_cosim.cycle.workload import Workload
from efa_cosim.layouts import defs

# Stages that engines model register by register; the rest of a latency is a delay before the
# first of them.
SCHEDULER_STAGES = 2
FETCH_STAGES = 2
CHECK_STAGES = 3
SCATTER_STAGES = 4
COMPLETION_STAGES = 2
SRD_STAGES = 3
CUT_STAGES = 2
PACKET_STAGES = 2
ROUTE_STAGES = 1
TRANSPORT = defs.TRANSPORT
# efa_tx_timer scans one peer per cycle. It compares the time of a peer, here the device itself, in
# the cycle after that of its number.
SCAN, SCAN_CYCLES = 2, 1 << defs.LIMITS.node_w
ACKNOWLEDGEMENT_STAGES = 6
OUTCOME_STAGES = 11
SEGMENT_STAGES = 1
LOOK_STAGES = 2
RESPONSE_STAGES = 5
# A peer has a quarter of the contexts of read requests. Their ends are known some cycles late.
NODE_SHARE, RESPONSES_SPARE = 4, 16
PLACED_PLACES = 2  # Read responses in efa_rx_retire that the segmenter has not taken.
FRONT = 2  # Places for packets before validation.


@dataclass(frozen=True)
class Costs:
    """Cycles, depths and counts of one workload; the names are those in the engines."""

    # Workload
    queues: int
    batch: int
    depth: int
    posts: int
    per_queue: int
    total: int
    packets: int
    srd: bool
    looks: bool
    reading: bool
    segments: bool
    receives: bool
    gap: int
    flits: int
    quantum_flits: int
    inline: bool
    # Host and fabric
    write_latency: int
    read_latency: int
    net_latency: int
    bus: int
    # Doorbell and scheduler
    ring: int
    count: int
    # Send WQEs in host memory
    sq_host: bool
    call: int
    request_again: int
    reads_out: int
    place_back: int
    publish: int
    read_lines: int
    ring_lines: int
    hear: int
    quantum: int
    visit: int
    lines: int
    report_every: int
    contexts: int
    guaranteed: int
    share: int
    # Checks and allocation
    skid: int
    skid_depth: int
    check: int
    message: int
    freed: int
    space_next: int
    space_messages: int
    space_lines: int
    ranges: int
    cut_more: int
    first_cuts: int
    two: bool
    request: int
    tags: int
    beat_back: int
    response: int
    out: int
    space: int
    # Receive
    packet_in: int
    behind: int
    packets_wait: int
    packets_stored: int
    lines_wait: int
    gone: int
    check_next: int
    look_up: int
    look_up_read: int
    found: int
    accepts: int
    responder: int
    responses: int
    placed: int
    placed_places: int
    job_check: int
    jobs: int
    line: int
    written: bool
    nothing: int
    parked: int
    parked_places: int
    listed: int
    pass_again: int
    # Receive descriptors
    descriptors: int
    read_descriptors: int
    beat_descriptors: int
    cached: int
    used: int
    shown: int
    look: int
    look_read: int
    look_again: int
    # Scatter and host writes
    grh: bool
    retire: int
    store: int
    store_beats: int
    handed: int
    # Completion and acknowledgement
    entry: int
    left: int
    places: int
    finished: int
    stored: int
    visible: int
    pushes: bool
    # Reliable transport
    clock: int
    ticks: int
    tick_log: int
    route: int
    psns: int
    cwnd_initial: int
    queue_target: int
    round_packets: int
    pace_divides: int
    time_period: int
    rto_initial: int
    rto_margin: int
    paths: int
    path_losses: int
    extent_period: int
    rto_backoff_max: int
    rto_retries: int
    again: int
    scan: int
    scan_every: int
    window: int
    outcome: int
    outcome_job: int
    waits: bool
    due: int
    join: int
    tracked: int
    visits: bool
    visit_from: int
    visit_every: int
    context: int
    message_contexts: int
    popped: int
    noted: int
    write_packets: int
    log: bool


_RECORD = np.dtype(list(Costs.__annotations__.items()), align=True)


def packed(numbers: Costs) -> np.void:
    """Returns the costs as one numpy record, with the names of Costs.

    The engines receive it by address. Each field of a tuple would be an argument of each engine,
    which took a third of the compilation.
    """
    record: np.void = np.array([astuple(numbers)], _RECORD)[0]
    return record


def sending(table: Stages, work: Workload) -> dict[str, int]:
    """Returns the costs of the reliable transport at the sending device."""
    at = table.latency
    way = ["efa_tx_route.item"]
    way += (["efa_srd_sender.packet", "efa_tx_recall.now"] if work.kind == "SRD"
            else ["efa_tx_recall.item"])
    return {
        "route": sum(map(at, way)) - ROUTE_STAGES,
        "pace_divides": at("efa_tx_pace.division"),
        "join": at("efa_net_rx.acknowledgement") + at("efa_srd_sender.outcome") - OUTCOME_STAGES,
        "tracked": at("efa_send_tracker.ack") - SRD_STAGES,
    }


def reported(table: Stages) -> tuple[int, int]:
    """Returns the cycles to the outcome of a packet: from its receive completion, and from the end
    of its payload if it has none."""
    at = table.latency
    return at("efa_cq.commit") + at("efa_rx_retire.entry"), at("efa_rx_retire.acknowledgement")


def receiving(table: Stages) -> dict[str, int]:
    """Returns the costs of the reliable transport at the receiving device."""
    at = table.latency
    entry, job = reported(table)
    return {
        "window": at("efa_srd_receiver.packet"),
        "outcome": entry + at("efa_srd_receiver.acknowledgement") - ACKNOWLEDGEMENT_STAGES,
        "outcome_job": job + at("efa_srd_receiver.acknowledgement") - ACKNOWLEDGEMENT_STAGES,
        "due": at("efa_rx_outcome.due"),
        # From the arrival of a packet that was seen before, as if its outcome came then.
        "again": at("efa_net_rx.packet") + at("efa_srd_receiver.duplicate")
        - ACKNOWLEDGEMENT_STAGES,
    }  # fmt: skip


def responder_contexts() -> int:
    """Returns the number of read requests of a peer that may be outstanding."""
    contexts: int = (1 << TRANSPORT.reads_w) // NODE_SHARE - RESPONSES_SPARE
    return contexts


def costs(table: Stages, work: Workload, log: bool, clocks: Clocks) -> Costs:
    """Returns the costs of a workload from Stages; log: record reads and beats; clocks: in cycle 0.
    Raises StageError."""
    made, at, every = shape(work), table.latency, table.interval
    fixed = table.parameters
    read_descriptors = table.depth("efa_rq_fetch.read")
    look_read = at("efa_rq_fetch.read") - at("efa_queue_fifo_set.queue")
    tick, contexts = TRANSPORT.tick_cycles, table.depth("efa_msg_id_alloc.next")
    empty, send = "empty" in made.facts, work.operation == "SEND"
    return Costs(
        queues=work.queues,
        batch=work.batch,
        depth=work.depth,
        posts=work.rounds * work.queues,
        per_queue=work.per_queue,
        total=work.total,
        packets=work.packets,
        srd=work.kind == "SRD",
        looks=not send,
        reading=work.reads,
        segments=work.reads or work.packets > 1,
        receives=work.receives,
        gap=work.gap,
        flits=made.flits,
        quantum_flits=made.quantum,
        inline=work.inline,
        write_latency=work.write_latency,
        read_latency=work.read_latency,
        net_latency=work.net_latency,
        bus=fixed["bus"],
        ring=fixed["bus"] + at("efa_mmio.store") + at("efa_doorbell.store"),
        count=at("efa_doorbell.count") - at("efa_doorbell.store") - 1,
        sq_host=bool(work.sq_host),
        call=at("efa_sq_fetch.read") - FETCH_STAGES,
        request_again=every("efa_sq_fetch.again"),
        reads_out=table.depth("efa_sq_fetch.read"),
        place_back=at("efa_fifo.large"),
        publish=at("efa_sq_reorder.beat"),
        read_lines=REQUEST_BYTES // LINE,
        ring_lines=(work.entry_bytes // LINE) << max(1, (work.depth - 1).bit_length()),
        hear=at("efa_sq_sched.entry") - at("efa_skid.beat") - SCHEDULER_STAGES,
        quantum=table.depth("efa_sq_sched.visit"),
        visit=table.depth("efa_sq_sched.cut"),
        lines=work.entry_bytes // LINE,
        report_every=work.cq_batch,
        contexts=table.depth("efa_send_tracker.ack"),
        guaranteed=TRANSPORT.guaranteed_sends,
        share=TRANSPORT.send_share_w,
        skid=at("efa_skid.beat"),
        skid_depth=table.depth("efa_skid.beat"),
        check=at("efa_wqe_check.entry"),
        message=at("efa_tx.message") - PACKET_STAGES,
        freed=PACKET_STAGES,
        space_next=every(
            "efa_tx_alloc.two_buffers" if work.buffers == 2 else "efa_tx_alloc.message"
        ),
        space_messages=table.depth("efa_tx_alloc.message"),
        space_lines=table.depth("efa_tx_alloc.line"),
        ranges=table.depth("efa_tx_alloc.read"),
        cut_more=at("efa_tx_alloc.read") - CUT_STAGES,
        first_cuts=len(cut(work.pieces[0])) if send else len(made.reads),
        two=work.buffers == 2,
        request=at("efa_dma_rd.request"),
        tags=table.depth("efa_dma_rd.request"),
        beat_back=at("efa_dma_rd.beat"),
        response=at("efa_tx.data"),
        out=at("efa_net_tx.flit"),
        space=0 if work.inline else made.flits,
        packet_in=at("efa_net_rx.packet") + at("efa_rx_validate.packet") - CHECK_STAGES,
        behind=at("efa_fifo.large"),
        packets_wait=table.depth("efa_net_rx.packet") - FRONT,
        packets_stored=table.depth("efa_net_rx.slot"),
        lines_wait=table.depth("efa_net_rx.line"),
        gone=at("efa_net_rx.slot"),
        check_next=every("efa_rx_validate.packet"),
        look_up=0 if send else at("efa_rx_validate.write") - at("efa_rx_validate.packet"),
        look_up_read=at("efa_rx_validate.response") - at("efa_rx_validate.packet"),
        found=at("efa_read_table.look"),
        accepts=at("efa_rx_validate.request") - at("efa_rx_validate.write") + LOOK_STAGES,
        responder=sum(map(at, ("efa_read_responder.post", "efa_srd_sender.packet",
                               "efa_fifo.small", "efa_tx_recall.send"))) - RESPONSE_STAGES,
        responses=responder_contexts(),
        placed=at("efa_fifo.small"),
        placed_places=PLACED_PLACES,
        job_check=at("efa_rx_mr_check.job" if send and not empty else "efa_rx_mr_check.no_buffer"),
        jobs=table.depth("efa_rx_mr_check.job"),
        line=table.depth("efa_rx_scatter.job"),
        written=not empty,
        nothing=at("efa_fifo.small"),
        parked=table.depth("efa_rx_park.list"),
        parked_places=2 * table.depth("efa_rx_park.list"),
        listed=at("efa_fifo.large"),
        pass_again=every("efa_rx_park.again"),
        descriptors=table.depth("efa_rq_cache.read"),
        read_descriptors=read_descriptors,
        beat_descriptors=LINE // defs.IoRxDesc.SIZE,
        cached=at("efa_rq_cache.beat"),
        used=at("efa_rq_fetch.used"),
        shown=at("efa_queue_fifo_set.queue"),
        look=every("efa_rq_fetch.look"),
        look_read=look_read,
        look_again=every("efa_rq_fetch.read") - look_read,
        grh=work.kind == "UD",
        retire=at("efa_rx_retire.job"),
        store=at("efa_rx_scatter.job") - SCATTER_STAGES,
        store_beats=table.depth("efa_rx_scatter.store"),
        handed=at("efa_dma_wr.beat"),
        entry=at("efa_cq.entry") - COMPLETION_STAGES,
        left=at("efa_net_tx.done")
        - at("efa_net_tx.flit")
        + at("efa_send_tracker.done")
        - SRD_STAGES,
        # A datagram in flight when the last place is used has a place, too.
        places=table.depth("efa_net_tx.done") - 1,
        finished=table.depth("efa_send_tracker.rest"),
        stored=at("efa_fifo.large"),
        visible=at("efa_dma_wr.beat") + work.write_latency,
        # Minimum delay of the completion of a read that is sent after a write.
        pushes=work.write_latency > work.read_latency,
        clock=clocks.since_reset,
        ticks=clocks.since_power_on,
        tick_log=TRANSPORT.tick_cycles.bit_length() - 1,
        psns=1 << TRANSPORT.psn_window_w,
        cwnd_initial=TRANSPORT.cwnd_initial,
        queue_target=TRANSPORT.queue_target,
        round_packets=TRANSPORT.round_packets,
        time_period=TRANSPORT.time_period,
        rto_initial=TRANSPORT.rto_initial,
        rto_margin=TRANSPORT.rto_margin,
        paths=1 << TRANSPORT.paths_w,
        path_losses=TRANSPORT.path_losses,
        extent_period=TRANSPORT.extent_period,
        rto_backoff_max=TRANSPORT.rto_backoff_max,
        rto_retries=TRANSPORT.rto_retries,
        scan=SCAN,
        scan_every=SCAN_CYCLES,
        **sending(table, work),
        **receiving(table),
        waits=work.operation == "WRITE_IMM",
        visits=clocks.context != UNKNOWN,
        # efa_tx_segment counts the ticks since the reset; ticks count from power-on.
        visit_from=clocks.since_power_on + 1
        - (clocks.since_power_on - clocks.since_reset) // tick * tick,
        visit_every=TRANSPORT.read_ticks * tick // contexts,
        context=clocks.context,
        message_contexts=contexts,
        popped=at("efa_tx_segment.next") - SEGMENT_STAGES,
        noted=at("efa_tx_segment.outcome") - SEGMENT_STAGES,
        write_packets=TRANSPORT.write_packets,
        log=log,
    )
