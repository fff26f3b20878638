"""The numbers the network runs on: each from spec/timing.yaml, spec/stages.yaml or the workload."""

from typing import NamedTuple

from cycle.stages import cut, shape
from efa import defs


# Stages that engines go through register by register: what a latency has beyond them is waited
# before the first one.
SCHEDULER_STAGES = 2


class Costs(NamedTuple):
    """Cycles, depths and counts of one workload; names are those of the engines that use them."""

    # Shape of the work
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
    hear: int
    quantum: int
    visit: int
    lines: int
    contexts: int
    # Check and room
    skid: int
    skid_depth: int
    check: int
    message: int
    room_next: int
    room_messages: int
    room_lines: int
    ranges: int
    first_read: int
    request: int
    tags: int
    beat_back: int
    answer: int
    out: int
    # Receive
    packet_in: int
    packets_wait: int
    acks_wait: int
    lines_wait: int
    judge: int
    judge_next: int
    jobs: int
    jobs_cycles: int
    job_check: int
    line: int
    write: int
    write_next: int
    nothing: int
    written: bool
    handed: int
    retire: int
    descriptors: int
    look: int
    claim_ring: int
    read_descriptors: int
    descriptor_beats: int
    cached: int
    # Completion and acknowledgement
    entry: int
    acknowledge: int
    ack_in: int
    srd_ack: int
    srd_done: int
    leave: int
    visible: int


def costs(table, work):
    """Costs of a workload from Stages."""
    made, at, every = shape(work), table.latency, table.interval
    fixed = table.parameters
    descriptors = table.depth("efa_rq_fetch.read")
    empty = "empty" in made.facts
    jobs = table.depth("efa_rx_check.job")
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
        hear=at("efa_sq.entry") - at("efa_skid.beat") - SCHEDULER_STAGES,
        quantum=table.depth("efa_sq.turn"), visit=table.depth("efa_sq.visit"), lines=1,
        contexts=table.depth("efa_srd.ack"),
        skid=at("efa_skid.beat"),
        skid_depth=table.depth("efa_skid.beat"),
        check=at("efa_wqe_check.entry"),
        message=at("efa_tx.message"),
        room_next=every("efa_tx_room.two_buffers" if work.buffers == 2 else "efa_tx_room.message"),
        room_messages=table.depth("efa_tx_room.message"),
        room_lines=table.depth("efa_tx_room.line"),
        ranges=table.depth("efa_tx_room.read"),
        first_read=at("efa_tx_room.read"),
        request=at("efa_dma_rd.request"),
        tags=table.depth("efa_dma_rd.request"),
        beat_back=at("efa_dma_rd.beat"),
        answer=at("efa_tx.answer"),
        out=at("efa_net_out.flit"),
        packet_in=at("efa_pkt_in.packet"),
        packets_wait=table.depth("efa_pkt_in.packet"),
        acks_wait=table.depth("efa_pkt_in.acknowledgement"),
        lines_wait=table.depth("efa_pkt_in.line"),
        judge=at("efa_rx_judge.packet"),
        judge_next=every("efa_rx_judge.packet"),
        jobs=jobs,
        jobs_cycles=jobs if empty else round(jobs * every("efa_rx_check.job")),
        job_check=at("efa_rx_check.unasked" if empty else "efa_rx_check.job"),
        line=table.depth("efa_rx_scatter.job"),
        write=at("efa_rx_scatter.job"),
        write_next=sum(made.writes) - 1 + (
            every("efa_rx_scatter.next") if made.writes
            and made.writes[-1] >= table.depth("efa_rx_scatter.next") else 1),
        written=not empty,
        nothing=at("efa_fifo.small"),
        handed=at("efa_dma_wr.beat"),
        retire=at("efa_rx_retire.job"),
        descriptors=table.depth("efa_rq_cache.read"),
        look=at("efa_rq_fetch.used") + at("efa_rq_fetch.read"),
        claim_ring=every("efa_rq_claim.ring"),
        read_descriptors=descriptors,
        descriptor_beats=cut(descriptors * defs.IoRxDesc.SIZE)[0],
        cached=at("efa_rq_cache.beat") + at("efa_rq_cache.read"),
        entry=at("efa_cq.entry"),
        acknowledge=at("efa_cq.commit")
        + at("efa_rx_retire.entry")
        + at("efa_net_out.acknowledgement"),
        ack_in=at("efa_pkt_in.acknowledgement"),
        srd_ack=at("efa_srd.ack"),
        srd_done=at("efa_srd.done"),
        leave=at("efa_net_out.done"),
        visible=at("efa_dma_wr.beat") + work.write_latency,
    )
