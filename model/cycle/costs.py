# SPDX-License-Identifier: Apache-2.0
"""Collects the parameters of the network from spec/timing.yaml, spec/stages.yaml, workload."""

from typing import NamedTuple

from cycle.stages import LINE, REQUEST_BYTES, cut, shape
from efa import defs

# Stages that engines model register by register; the rest of a latency is a delay before the
# first of them.
SCHEDULER_STAGES = 2
FETCH_STAGES = 2
JUDGE_STAGES = 3
SCATTER_STAGES = 4
COMPLETION_STAGES = 2
SRD_STAGES = 3
CUT_STAGES = 2
PACKET_STAGES = 2
FRONT = 2  # Places for packets before validation.


class Costs(NamedTuple):
    """Cycles, depths and counts of one workload; the names are those in the engines."""

    # Workload
    queues: int
    batch: int
    depth: int
    posts: int
    per_queue: int
    total: int
    srd: bool
    gap: int
    flits: int
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
    ask_again: int
    reads_out: int
    place_back: int
    publish: int
    read_lines: int
    ring_lines: int
    hear: int
    quantum: int
    visit: int
    lines: int
    tell_every: int
    contexts: int
    # Checks and allocation
    skid: int
    skid_depth: int
    check: int
    message: int
    freed: int
    room_next: int
    room_messages: int
    room_lines: int
    ranges: int
    cut_more: int
    first_cuts: int
    two: bool
    request: int
    tags: int
    beat_back: int
    answer: int
    out: int
    room: int
    # Receive
    packet_in: int
    behind: int
    packets_wait: int
    packets_stored: int
    lines_wait: int
    gone: int
    judge_next: int
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
    acknowledge: int
    ack_in: int
    left: int
    stored: int
    visible: int
    pushes: bool
    log: bool


def costs(table, work, log=False):
    """Costs of a workload from Stages; log: record reads and beats."""
    made, at, every = shape(work), table.latency, table.interval
    fixed = table.parameters
    read_descriptors = table.depth("efa_rq_fetch.read")
    look_read = at("efa_rq_fetch.read") - at("efa_work_set.queue")
    empty = "empty" in made.facts
    return Costs(
        queues=work.queues,
        batch=work.batch,
        depth=work.depth,
        posts=work.rounds * work.queues,
        per_queue=work.per_queue,
        total=work.total,
        srd=work.kind == "SRD",
        gap=work.gap,
        flits=made.flits,
        inline=work.inline,
        write_latency=work.write_latency,
        read_latency=work.read_latency,
        net_latency=work.net_latency,
        bus=fixed["bus"],
        ring=fixed["bus"] + at("efa_mmio.store") + at("efa_doorbell.store"),
        count=at("efa_doorbell.count") - at("efa_doorbell.store") - 1,
        sq_host=bool(work.sq_host),
        call=at("efa_sq_fetch.read") - FETCH_STAGES,
        ask_again=every("efa_sq_fetch.again"),
        reads_out=table.depth("efa_sq_fetch.read"),
        place_back=at("efa_fifo.large"),
        publish=at("efa_sq_order.beat"),
        read_lines=REQUEST_BYTES // LINE,
        ring_lines=(work.entry_bytes // LINE) << max(1, (work.depth - 1).bit_length()),
        hear=at("efa_sq.entry") - at("efa_skid.beat") - SCHEDULER_STAGES,
        quantum=table.depth("efa_sq.visit"), visit=table.depth("efa_sq.cut"),
        lines=work.entry_bytes // LINE, tell_every=work.cq_batch,
        contexts=table.depth("efa_srd.ack"),
        skid=at("efa_skid.beat"),
        skid_depth=table.depth("efa_skid.beat"),
        check=at("efa_wqe_check.entry"),
        message=at("efa_tx.message") - PACKET_STAGES,
        freed=PACKET_STAGES,
        room_next=every("efa_tx_room.two_buffers" if work.buffers == 2 else "efa_tx_room.message"),
        room_messages=table.depth("efa_tx_room.message"),
        room_lines=table.depth("efa_tx_room.line"),
        ranges=table.depth("efa_tx_room.read"),
        cut_more=at("efa_tx_room.read") - at("efa_tx_room.message") - CUT_STAGES,
        first_cuts=len(cut(work.pieces[0])),
        two=work.buffers == 2,
        request=at("efa_dma_rd.request"),
        tags=table.depth("efa_dma_rd.request"),
        beat_back=at("efa_dma_rd.beat"),
        answer=at("efa_tx.answer"),
        out=at("efa_net_out.flit"),
        room=0 if work.inline else made.flits,
        packet_in=at("efa_pkt_in.packet") + at("efa_rx_judge.packet") - JUDGE_STAGES,
        behind=at("efa_fifo.large"),
        packets_wait=table.depth("efa_pkt_in.packet") - FRONT,
        packets_stored=table.depth("efa_pkt_in.slot"),
        lines_wait=table.depth("efa_pkt_in.line"),
        gone=at("efa_pkt_in.slot"),
        judge_next=every("efa_rx_judge.packet"),
        job_check=at("efa_rx_check.unasked" if empty else "efa_rx_check.job"),
        jobs=table.depth("efa_rx_check.job"),
        line=table.depth("efa_rx_scatter.job"),
        written=not empty,
        nothing=at("efa_fifo.small"),
        parked=table.depth("efa_rx_wait.list"),
        parked_places=2 * table.depth("efa_rx_wait.list"),
        listed=at("efa_fifo.large"),
        pass_again=every("efa_rx_wait.again"),
        descriptors=table.depth("efa_rq_cache.read"),
        read_descriptors=read_descriptors,
        beat_descriptors=LINE // defs.IoRxDesc.SIZE,
        cached=at("efa_rq_cache.beat"),
        used=at("efa_rq_fetch.used"),
        shown=at("efa_work_set.queue"),
        look=every("efa_rq_fetch.look"),
        look_read=look_read,
        look_again=every("efa_rq_fetch.read") - look_read,
        grh=work.kind == "UD",
        retire=at("efa_rx_retire.job"),
        store=at("efa_rx_scatter.job") - SCATTER_STAGES,
        store_beats=table.depth("efa_rx_scatter.store"),
        handed=at("efa_dma_wr.beat"),
        entry=at("efa_cq.entry") - COMPLETION_STAGES,
        acknowledge=at("efa_cq.commit")
        + at("efa_rx_retire.entry")
        + at("efa_net_out.acknowledgement"),
        ack_in=at("efa_pkt_in.acknowledgement") + at("efa_srd.ack") - SRD_STAGES,
        left=at("efa_net_out.done") - at("efa_net_out.flit") + at("efa_srd.done") - SRD_STAGES,
        stored=at("efa_fifo.large"),
        visible=at("efa_dma_wr.beat") + work.write_latency,
        # Minimum delay of the completion of a read that leaves after a write.
        pushes=work.write_latency > work.read_latency,
        log=log,
    )
