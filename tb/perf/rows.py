# SPDX-License-Identifier: Apache-2.0
"""Lists the rows of the performance table: measurement, target and limit."""

from dataclasses import dataclass
from functools import partial

from efa_cosim.layouts import defs
from tb.perf import rates, rdma
from tb.perf.latencies import (
    doorbell_to_flit,
    flit_to_completion,
    rdma_read,
    rdma_response,
    rdma_write_to_flit,
    rdma_write_to_memory,
)
from tb.perf.rates import both_ways, doorbells, drained, inline_sends, memory_sends, receives
from tb.perf.work import INLINE, Measure

STORES, DOORBELLS, MESSAGES = "stores/cycle", "doorbells/cycle", "messages/cycle"
BEATS, COMPLETIONS, CYCLES = "beats/cycle", "completions/cycle", "cycles"
HOST_STREAM = "the host stream"
RDMA_PACKET = "packets of a flit of headers and 64 payload beats"
READ_PACKET = f"{RDMA_PACKET}; without acknowledgements of the requests"
LOOK_UP = "efa_rx_lookup: 5 cycles for a packet; the ports permit 1/2"
LARGE_QPN_W = 10
# Minimum share of the default build's rate on the large build.
KEPT = 0.95
# Pipeline depth: the fewest from doorbell to first flit, inline.
FLIT_CYCLES = 12


@dataclass(frozen=True)
class Row:
    """A row of the table: `target` is a minimum (`least`) or a maximum; `sets` explains `limit`.

    `limit` is None without a general bound. A row with `base` is measured on the large build and
    must reach the share KEPT of that row's value.
    """

    key: str
    what: str
    unit: str
    target: float | None
    limit: float | None
    sets: str
    measure: Measure
    least: bool = True
    base: str | None = None


ROWS = (
    Row("llq", "LLQ stores accepted, 64-byte beats", STORES, 1.0, 1.0, HOST_STREAM,
        rates.llq_stores),
    Row("db-same", "doorbells accepted, same queue back to back", DOORBELLS, 1.0, 1.0, HOST_STREAM,
        doorbells(rates.back_to_back)),
    Row("db-turn", "doorbells accepted, 64 queues in turn", DOORBELLS, 1.0, 1.0, HOST_STREAM,
        doorbells(rates.in_turn)),
    Row("db-random", "doorbells accepted, 64 queues at random", DOORBELLS, 1.0, 1.0, HOST_STREAM,
        doorbells(rates.at_random)),
    Row("inline-db1", "inline sends, 8 QPs, a doorbell each", MESSAGES, 0.49, 1 / 2,
        "WQE and doorbell are two beats", inline_sends(8, 1)),
    Row("inline-db16", "inline sends, 8 QPs, a doorbell for 16", MESSAGES, 0.94, 16 / 17,
        "17 beats for 16, one flit each", inline_sends(8, 16)),
    Row("inline-128", "inline sends in 128-byte WQEs, 8 QPs, a doorbell for 8", MESSAGES, 0.38,
        8 / 17, "17 beats for 8", inline_sends(8, 8, 128)),
    Row("inline-1qp", "inline sends, one QP, a doorbell for 16", MESSAGES, 0.84, 16 / 17,
        "17 beats for 16, one flit each", inline_sends(1, 16)),
    Row("inline-62peers", "inline sends to 62 peers, 64 QPs, a doorbell for 16", MESSAGES, 0.65,
        16 / 17, "17 beats for 16, one flit each; looks at peers in efa_tx_resolve hold it at 0.7",
        inline_sends(64, 16, messages=32_768, peers=range(2, 64))),
    Row("memory-64", "64-byte sends from host memory, 16 QPs", MESSAGES, 0.49, 1 / 2,
        "two flits each; 100 tags cover the latency", memory_sends(16, 64, 16)),
    Row("receive-64", "64-byte receives completed, 16 QPs, descriptors prefetched", MESSAGES,
        0.4, 1 / 2, "payload and CQE are two write beats", receives(16, 64)),
    Row("receive-62peers", "64-byte receives of 62 peers completed, 64 QPs", MESSAGES, 0.4, 1 / 2,
        "payload and CQE are two write beats", receives(64, 64, range(2, 64))),
    Row("both-64", "64-byte sends and receives at once, each way", MESSAGES, 0.33, 1 / 3,
        "three write beats a pair", both_ways(16, 64, 16)),
    Row("both-4096", "4 KB sends and receives at once, payload beats each way", BEATS, 0.92,
        64 / 66, "64 payload beats and two CQEs", both_ways(16, 4096, 16, 15_872, 16, 64)),
    Row("rdma-write-4096", "RDMA writes of 4 KB, 16 QPs, payload beats", BEATS, 0.96, 64 / 65,
        RDMA_PACKET, rdma.writes(16, 4096, 16)),
    Row("rdma-write-4096-1qp", "RDMA writes of 4 KB, one QP, payload beats", BEATS, 0.96, 64 / 65,
        RDMA_PACKET, rdma.writes(1, 4096, 16)),
    Row("rdma-write-65536", "RDMA writes of 64 KB, 8 QPs, payload beats", BEATS, 0.96, 64 / 65,
        RDMA_PACKET, rdma.writes(8, 65_536, 16)),
    Row("rdma-write-64", "64-byte RDMA writes, 16 QPs", MESSAGES, 0.48, 1 / 2,
        "a flit of headers and one of payload", rdma.writes(16, 64, 16)),
    Row("rdma-target-4096", "RDMA writes of 4 KB received, 16 QPs, payload beats", BEATS, 0.96,
        64 / 65, RDMA_PACKET, rdma.writes_received(16, 4096)),
    Row("rdma-target-64", "64-byte RDMA writes received, 16 QPs", MESSAGES, 0.192, 1 / 5,
        LOOK_UP, rdma.writes_received(16, 64)),
    Row("rdma-read-4096", "RDMA reads of 4 KB, 16 QPs, payload beats", BEATS, 0.96, 64 / 65,
        READ_PACKET, rdma.reads(16, 4096, 16)),
    Row("rdma-read-4096-1qp", "RDMA reads of 4 KB, one QP, payload beats", BEATS, 0.96, 64 / 65,
        READ_PACKET, rdma.reads(1, 4096, 16)),
    Row("rdma-read-65536", "RDMA reads of 64 KB, 8 QPs, payload beats", BEATS, 0.96, 64 / 65,
        READ_PACKET, rdma.reads(8, 65_536, 16)),
    Row("rdma-read-64", "64-byte RDMA reads, 16 QPs", MESSAGES, 0.12, 1 / 8,
        "efa_rx_lookup: 8 cycles for a response; the ports permit 1/3", rdma.reads(16, 64, 16)),
    Row("rdma-response-4096", "4 KB read by a peer, 16 QPs, payload beats", BEATS, 0.96, 64 / 65,
        RDMA_PACKET, rdma.reads_answered(16, 4096)),
    Row("rdma-response-65536", "64 KB read by a peer, 8 QPs, payload beats", BEATS, 0.96,
        64 / 65, RDMA_PACKET, rdma.reads_answered(8, 65_536)),
    Row("rdma-response-64", "64 bytes read by a peer, 16 QPs", MESSAGES, 0.192, 1 / 5,
        LOOK_UP, rdma.reads_answered(16, 64)),
    *(Row(f"drain-{size}-{name}", f"completions drained after a hold, {size} bytes, {reported}",
          COMPLETIONS, 0.9, 1.0, "a beat each; above that, neighbours packed",
          drained(size, cqs))
      for size in (16, 32) for name, reported, cqs in (("one", "one queue", 1),
                                                   ("many", "16 queues", 16))),
    Row("flit-inline", "doorbell store to first flit, inline, idle device", CYCLES, 12,
        FLIT_CYCLES, "pipeline depth", doorbell_to_flit(INLINE), False),
    Row("flit-memory", "doorbell store to first flit, payload by DMA, beyond one round trip",
        CYCLES, 18, FLIT_CYCLES + 6, "pipeline depth", doorbell_to_flit(64), False),
    Row("cqe", "last flit in to CQE write out, 64 bytes, idle device", CYCLES, 20, None,
        "pipeline depth", flit_to_completion(64), False),
    Row("rdma-write-flit", "RDMA write of 64 bytes: doorbell store to first flit, beyond one round "
        "trip", CYCLES, 18, FLIT_CYCLES + 6, "pipeline depth, as a send", rdma_write_to_flit(64),
        False),
    Row("rdma-target-write", "RDMA write of 64 bytes: last flit in to payload out", CYCLES, 18,
        None, "pipeline depth: a send, 3 for efa_rx_lookup, 2 less in efa_rx_mr_check",
        rdma_write_to_memory(64), False),
    Row("rdma-read-cqe", "RDMA read of 64 bytes: doorbell store to CQE out, beyond the fabric",
        CYCLES, 42, None, "pipeline depth: request 12, a flit of payload, response to memory 21, "
        "CQE 8", rdma_read(64), False),
    Row("rdma-response-flit", "64 bytes read by a peer: request in to first flit, beyond one round "
        "trip", CYCLES, 25, None, "pipeline depth: host read after 19, 6 behind it as a send",
        rdma_response(64), False),
)  # fmt: skip

# The same rates on a build of 1,024 queue pairs
_MANY = 1 << LARGE_QPN_W
_AT_WORK = f"{_MANY:,} QPs at work"
_LARGE: tuple[tuple[str, str, Measure], ...] = (
    ("llq", f"{_AT_WORK}: LLQ stores", partial(rates.llq_stores, queues=_MANY, depth=64)),
    ("db-same", f"{_AT_WORK}: doorbells back to back", doorbells(rates.back_to_back, _MANY)),
    ("db-turn", f"{_AT_WORK}: doorbells in turn", doorbells(rates.in_turn, _MANY)),
    ("db-random", f"{_AT_WORK}: doorbells at random", doorbells(rates.at_random, _MANY)),
    ("inline-db1", f"{_AT_WORK}: inline sends, a doorbell each", inline_sends(_MANY, 1)),
    ("inline-db16", f"{_AT_WORK}: inline sends, a doorbell for 16", inline_sends(_MANY, 16)),
    ("inline-128", f"{_AT_WORK}: inline sends in 128-byte WQEs", inline_sends(_MANY, 8, 128)),
    ("inline-1qp", f"one of {_MANY:,} QPs: inline sends, a doorbell for 16", inline_sends(1, 16)),
    ("memory-64", f"{_AT_WORK}: 64-byte sends from host memory", memory_sends(_MANY, 64, 16)),
    ("receive-64", f"{_AT_WORK}: 64-byte receives completed", receives(_MANY, 64)),
    ("both-64", f"{_AT_WORK}: 64-byte sends and receives at once", both_ways(_MANY, 64, 16)),
    ("both-4096", f"{_AT_WORK}: 4 KB sends and receives at once",
     both_ways(_MANY, 4096, 16, slots=2, unit=64)),
    *((f"drain-{size}-many", f"{_AT_WORK}: completions drained, {size} bytes, 64 queues",
       drained(size, 64, _MANY, held=_MANY)) for size in (16, 32)),
)  # fmt: skip


def _of(key: str) -> Row:
    return next(row for row in ROWS if row.key == key)


LARGE_ROWS = tuple(
    Row(
        f"{_MANY}-{key}",
        reported,
        _of(key).unit,
        None,
        _of(key).limit,
        _of(key).sets,
        measure,
        base=key,
    )
    for key, reported, measure in _LARGE
)

# The build option SQ_HOST: send queues are in host memory, WQEs are fetched, stores are doorbells.
_OPTION = "option SQ_HOST"
_ENTRY_BEATS = "an entry is a beat of a host read, and one flit"
SQ_HOST_ROWS = (
    Row("sq-host-flit", f"{_OPTION}: doorbell store to first flit, inline, beyond one round trip",
        CYCLES, 19, None, "pipeline depth", doorbell_to_flit(INLINE), False),
    Row("sq-host-db1", f"{_OPTION}: inline sends, 8 QPs, a doorbell each", MESSAGES, 0.45, 1.0,
        _ENTRY_BEATS, inline_sends(8, 1)),
    Row("sq-host-db16", f"{_OPTION}: inline sends, 8 QPs, a doorbell for 16", MESSAGES, 0.75, 1.0,
        _ENTRY_BEATS, inline_sends(8, 16)),
    Row("sq-host-128", f"{_OPTION}: inline sends in 128-byte WQEs, 8 QPs, a doorbell for 8",
        MESSAGES, 0.38, 1 / 2, "an entry is two beats of a host read", inline_sends(8, 8, 128)),
    Row("sq-host-1qp", f"{_OPTION}: inline sends, one QP, a doorbell for 16", MESSAGES, 0.5, 1.0,
        _ENTRY_BEATS, inline_sends(1, 16)),
    Row("sq-host-64", f"{_OPTION}: 64-byte sends from host memory, 16 QPs", MESSAGES, 0.4, 1 / 2,
        "two flits each", memory_sends(16, 64, 16)),
)  # fmt: skip

ALL_ROWS = (*ROWS, *LARGE_ROWS, *SQ_HOST_ROWS)
PARAMETERS: dict[str, dict[str, int]]
PARAMETERS = {"default": {}, "large": {"QPN_W": LARGE_QPN_W, "LLQ_AW": 22},
              "sq_host": {"SQ_HOST": 1}}  # fmt: skip


def llq_bytes(build: str) -> int:
    """Returns the LLQ memory bytes of a build."""
    log = PARAMETERS[build].get("LLQ_AW")
    return defs.LIMITS.llq_bytes if log is None else 1 << log
