# SPDX-License-Identifier: Apache-2.0
"""Units under test: one row per module. Every row runs on Verilator with each parameter set, and on
Icarus with the first one. `make icarus` runs long rows and the other parameter sets there. `make
test` runs long rows with the first parameter set only, half of the further sets of other rows,
besides {}, and one row of six on Icarus.

A row needs only its top: sources are found by module name, the tests are in
tb/unit/<unit>_tests.py. `variants` lists the parameter sets of the tests; tests read them from the
design (`dut.PARAM.value`) or from EFA_PARAMS. Mutants run with `mutants`, the smallest parameter
set that keeps all logic; without `mutants` they run with the first variant. `long` marks benches
that take about ten seconds or more on Icarus; recorded sessions run their modules there.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Unit:
    top: str
    variants: list[dict] = field(default_factory=lambda: [{}])
    sources: list[str] | None = None
    tests: str | None = None
    mutants: dict | None = None
    long: bool = False

    @property
    def mutated(self) -> dict:
        """Returns the parameters for mutants."""
        return self.variants[0] if self.mutants is None else self.mutants

    def module(self, name: str) -> str:
        return self.tests or f"tb.unit.{name}_tests"


UNITS: dict[str, Unit] = {
    "ram": Unit("efa_ram"),
    "flag_ram": Unit("efa_flag_ram"),
    "flag_rows": Unit(
        "efa_flag_rows", [{}, {"READS": 3}, {"ADDR_W": 11, "COL_W": 5, "READS": 2}]
    ),
    "ram_1wnr": Unit("efa_ram_1wnr", [{"READS": 3}]),
    "onehot_index": Unit("efa_onehot_index", [{}, {"INDEX_W": 1}, {"INDEX_W": 6}]),
    "ram_fwd": Unit("efa_ram_fwd", [{"READS": 3}, {"WIDTH": 24, "ADDR_W": 2}]),
    "stream_check": Unit("efa_stream_check"),
    "ram_be": Unit("efa_ram_be", [{}, {"WIDTH": 96, "LANES": 3}]),
    "fifo": Unit(
        "efa_fifo",
        [{"DEPTH_LOG2": 1}, {"DEPTH_LOG2": 3}, {"DEPTH_LOG2": 6}],
        mutants={"DEPTH_LOG2": 6},
    ),
    "skid": Unit("efa_skid"),
    "host": Unit("efa_host", [{"TAGS": 16, "TIMEOUT_CYCLES": 4000, "UPTIME_LEFT": 40}]),
    "irq": Unit("efa_host", [{"TAGS": 16, "TIMEOUT_CYCLES": 4000, "UPTIME_LEFT": 40}]),
    "msix": Unit("efa_irq", [{"VECTORS": 64}, {}], long=True),
    "dma": Unit(
        "efa_host",
        [
            {"TAGS": 16, "TIMEOUT_CYCLES": 4000, "UPTIME_LEFT": 40},
            {"TAGS": 256, "TIMEOUT_CYCLES": 9000, "SQ_HOST": 1},
        ],
        long=True,
    ),
    "host_anomaly": Unit("efa_host_anomaly"),
    "perf_counters": Unit("efa_perf_counters", [{"COUNT_LEFT": 12}, {"TAGS": 16}], long=True),
    "rd_timeout": Unit("efa_rd_timeout", [{"TAG_W": 4, "TIMEOUT_CYCLES": 300}]),
    "regs": Unit("efa_regs", [{}, {"VECTORS": 64}]),
    "reset": Unit("efa_reset", [{"UPTIME_LEFT": 40}]),
    "mmio": Unit("efa_mmio"),
    "wr_arb": Unit("efa_wr_arb"),
    "arb": Unit("efa_arb", [{"N": 1}, {"N": 3}, {"N": 6}], mutants={"N": 6}),
    "admin": Unit("efa_admin", long=True),
    "admin_objects": Unit("efa_admin", long=True),
    "admin_wires": Unit("efa_admin", long=True),
    "acq_write": Unit("efa_acq_write"),
    # With 1,024 LLQ pages, page numbers use every address bit of the table.
    "obj_table": Unit("efa_obj_table", [{"REF_W": 5, "LLQ_AW": 22}], long=True),
    "cq": Unit("efa_cq", [{}, {"CQN_W": 11}]),
    "cq_rings": Unit("efa_cq", long=True),
    "cq_engine": Unit("efa_cq_engine"),
    "eq": Unit("efa_eq", [{}, {"CQN_W": 11}]),
    "ec": Unit("efa_ec", [{}, {"QPN_W": 10, "CQN_W": 11}]),
    "ec_each": Unit("efa_ec"),
    "eq_order": Unit("efa_eq"),
    "eq_random": Unit("efa_eq", long=True),
    "eq_around": Unit("efa_eq", long=True),
    "eq_arms": Unit("efa_eq_arms"),
    "qp_ctx": Unit("efa_qp_ctx"),
    "ring_count": Unit("efa_ring_count", [{}, {"RING_W": 4, "WIDTH": 17, "READS": 1}]),
    "sq_index": Unit("efa_sq_index", [{}, {"QPN_W": 8}]),
    "doorbell": Unit("efa_doorbell", [{}, {"QPN_W": 10, "CQN_W": 11}]),
    "queue_fifo_set": Unit("efa_queue_fifo_set", [{}, {"QPN_W": 3}, {"QPN_W": 10}]),
    "sq_rr": Unit("efa_sq_rr", [{}, {"QPN_W": 3}, {"QPN_W": 10}]),
    # The init sweep passes each line of the memory: a small one takes a third of the time.
    "llq": Unit("efa_llq", [{"LLQ_AW": 19}, {}], long=True),
    "sq_sched": Unit("efa_sq_sched", long=True),
    "sq_sched_quanta": Unit("efa_sq_sched", long=True),
    "sq_ctrl": Unit("efa_sq_ctrl"),
    "sq_req_arb": Unit("efa_sq_req_arb"),
    "sq_flush": Unit("efa_sq_flush", [{}, {"QPN_W": 10}, {"READERS": 3}], long=True),
    "sq_fetch": Unit(
        "efa_sq_fetch",
        [{"SLOT_W": 2}, {"QPN_W": 10, "LLQ_AW": 22}],
        mutants={"SLOT_W": 4},
        long=True,
    ),
    "sq_buffer": Unit("efa_sq_buffer"),
    "cqe_format": Unit("efa_cqe_format"),
    "rq": Unit("efa_rq", long=True),
    "rq_held": Unit("efa_rq", long=True),
    "rq_cache": Unit("efa_rq_cache"),
    "rq_pop": Unit("efa_rq_pop"),
    "rq_index": Unit("efa_rq_index"),
    "rq_report": Unit("efa_rq_report"),
    "rq_fetch": Unit("efa_rq_fetch"),
    "qperr_arb": Unit("efa_qperr_arb", [{}, {"N": 3, "QPN_W": 10}]),
    "rx_engine": Unit("efa_rx_engine", long=True),
    "rx_engine_load": Unit("efa_rx_engine", long=True),
    "rx_engine_rate": Unit("efa_rx_engine", long=True),
    "tx_engine": Unit("efa_tx_engine", long=True),
    "tx_engine_load": Unit("efa_tx_engine", long=True),
    "tx_engine_host": Unit("efa_tx_engine", [{"SQ_HOST": 1}]),
    "mr_check": Unit("efa_mr_check", [{}, {"EARLY": 1}]),
    "mr_translate": Unit("efa_mr_translate", [{}, {"EARLY": 1}]),
    "send_tracker": Unit(
        "efa_send_tracker", [{"ID_LEFT": 8192}, {"QPN_W": 10}], long=True
    ),
    "msg_id_alloc": Unit(
        "efa_msg_id_alloc", [{"ID_LEFT": 4096}, {"CTX_W": 4}, {"CTX_W": 7}], long=True
    ),
    "ctx_flags": Unit("efa_ctx_flags", [{}, {"CTX_W": 4}]),
    "tx_buffer": Unit("efa_tx_buffer", [{}, {"SLOT_W": 3, "LINE_W": 8}]),
    "tx_alloc": Unit("efa_tx_alloc"),
    "tx": Unit("efa_tx", [{}, {"QPN_W": 10}], long=True),
    "wqe_check": Unit("efa_wqe_check", long=True),
    "ah_gen": Unit("efa_ah_gen"),
    "psn_range": Unit("efa_psn_range", [{}, {"WINDOW_W": 3}]),
    "slot_find": Unit(
        "efa_slot_find", [{}, {"WINDOW_W": 4}, {"WINDOW_W": 3}, {"WINDOW_W": 6, "BEHIND": 1}]
    ),
    "path_choose": Unit("efa_path_choose", [{}, {"PATHS_W": 1}]),
    "srd_number": Unit("efa_srd_number", [{"NUMBERS_LEFT": 4}, {}, {"NUMBERS_LEFT": 1}]),
    "tx_times": Unit("efa_tx_times", [{}, {"RTO_INITIAL": 100}]),
    "tx_extent": Unit("efa_tx_extent", [{}, {"WINDOW_W": 4}]),
    "tx_pace": Unit("efa_tx_pace", [{}, {"WINDOW_W": 4}, {"WINDOW_W": 3, "CWND_INITIAL": 6}]),
    "tx_paths": Unit("efa_tx_paths", [{"ORDER_LEFT": 30, "PATH_PROBE": 32}, {}]),
    "tx_loss": Unit("efa_tx_loss"),
    "ack_mask": Unit("efa_ack_mask", [{}, {"WINDOW_W": 4}]),
    "peer_list": Unit(
        "efa_peer_list", [{"NODE_W": 2, "CTX_W": 4}, {"CTX_W": 12, "ID_W": 33, "USER_W": 20}]
    ),
    "tx_route": Unit("efa_tx_route", [{"CTX_W": 6}, {}], long=True),
    "tx_recall": Unit("efa_tx_recall", [{"CTX_W": 6, "READS_W": 5}, {"QPN_W": 10}], long=True),
    "tx_window": Unit("efa_tx_window", [{"WINDOW_W": 4}, {}]),
    "ack_join": Unit("efa_ack_join", [{}, {"NODE_W": 2, "REFUSALS_LOG2": 3}]),
    "tx_timer": Unit("efa_tx_timer", [{"NODE_W": 2, "TICKS_LEFT": 40}, {}]),
    "rx_window": Unit("efa_rx_window", [{}, {"WINDOW_W": 4, "NODE_W": 2, "READS": 1}]),
    "rx_outcome": Unit("efa_rx_outcome", [{}, {"WINDOW_W": 4, "NODE_W": 2}]),
    "ack_build": Unit(
        "efa_ack_build",
        [{}, {"WINDOW_W": 5, "NODE_W": 3}, {"WINDOW_W": 4, "REPLIES_LOG2": 3}],
        long=True,
    ),
    "srd_receiver": Unit("efa_srd_receiver", [{}, {"WINDOW_W": 4, "NODE_W": 2}], long=True),
    "srd_peers": Unit("efa_srd_receiver", long=True),
    "srd_sender": Unit(
        "efa_srd_sender",
        [
            {"RTO_INITIAL": 100, "RTO_RETRIES": 12, "PATH_PROBE": 64},
            {
                "WINDOW_W": 4, "NODE_W": 2, "CTX_W": 7, "RTO_INITIAL": 64,
                "RTO_RETRIES": 12, "PATH_PROBE": 32, "PSN_LEFT": 40, "ORDER_LEFT": 30,
                "TICKS_LEFT": 300, "NUMBERS_LEFT": 4,
            },
        ],
        long=True,
    ),
    "srd_sender_fabric": Unit(
        "efa_srd_sender",
        [
            {"RTO_INITIAL": 100, "PATH_PROBE": 64},
            {"WINDOW_W": 4, "NODE_W": 2, "RTO_INITIAL": 64, "RTO_RETRIES": 12,
             "PATH_PROBE": 32},
            {"WINDOW_W": 6, "NODE_W": 3, "RTO_INITIAL": 100, "PATH_PROBE": 64,
             "PSN_LEFT": 200, "ORDER_LEFT": 50, "TICKS_LEFT": 500, "NUMBERS_LEFT": 2},
        ],
        long=True,
    ),
    "srd_sender_ends": Unit(
        "efa_srd_sender",
        [
            {"RTO_INITIAL": 60, "RTO_RETRIES": 5, "PATH_PROBE": 32},
            {
                "WINDOW_W": 4, "NODE_W": 2, "CTX_W": 7, "RTO_INITIAL": 40,
                "RTO_RETRIES": 6, "PATH_PROBE": 16, "PSN_LEFT": 40, "ORDER_LEFT": 30,
                "TICKS_LEFT": 300, "NUMBERS_LEFT": 4,
            },
        ],
        long=True,
    ),
    "tx_rnr": Unit(
        "efa_tx_rnr",
        [
            {"CTX_W": 4, "NODE_W": 2, "RNR_TICKS": 27},
            {"RNR_TICKS": 25},
            {"CTX_W": 5, "RNR_TICKS": 30},
        ],
        long=True,
    ),
    "tx_segment": Unit(
        "efa_tx_segment",
        [
            {"CTX_W": 4, "NODE_W": 2, "PACKETS": 3, "VISIT_TICKS": 25, "READ_STALLS": 3},
            {},
            {"CTX_W": 5, "PACKETS": 1, "VISIT_TICKS": 10},
        ],
        long=True,
    ),
    "ctx_end": Unit("efa_ctx_end"),
    "send_stats": Unit("efa_send_stats"),
    "read_responder": Unit(
        "efa_read_responder",
        [{"NODE_W": 2, "CTX_W": 6, "READS_W": 5, "SLOT_W": 3}, {},
         {"NODE_W": 3, "CTX_W": 8, "READS_W": 7, "SLOT_W": 4, "QPN_W": 10}],
        long=True,
    ),
    "read_table": Unit("efa_read_table", [{}, {"CTX_W": 4}]),
    "rx_free": Unit("efa_rx_free", [{}, {"SLOT_W": 6}]),
    "srd_fields": Unit("efa_srd_fields", [{}, {"WINDOW_W": 4, "NODE_W": 2}]),
    "srd_quiet": Unit("efa_srd_quiet", [{"TICKS": 4}]),
    "srd_tick": Unit("efa_srd_tick"),
    "net_rx": Unit("efa_net_rx"),
    "net_tx": Unit("efa_net_tx"),
    "rx_scatter": Unit("efa_rx_scatter"),
    "rx_retire": Unit("efa_rx_retire", long=True),
    "rx_mr_check": Unit("efa_rx_mr_check"),
    "rx_accept": Unit("efa_rx_accept", [{}, {"QPN_W": 10}]),
    "rx_validate": Unit("efa_rx_validate", long=True),
    "rx_park": Unit("efa_rx_park", [{}, {"QPN_W": 10}]),
    "stats": Unit("efa_stats", [{"COUNT_LEFT": 40}]),
    "rx_job_arb": Unit("efa_rx_job_arb", [{}, {"QPN_W": 10}]),
    "crc16": Unit("efa_crc16", [{}, {"BITS": 1024}]),
    "admin_rd_arb": Unit("efa_admin_rd_arb", [{}, {"READERS": 5, "SLOT_W": 3}]),
    "dma_line_rd": Unit("efa_dma_line_rd"),
    "aq": Unit("efa_aq"),
    "dispatch": Unit("efa_dispatch"),
    "drain": Unit("efa_drain"),
    "aq_fetch": Unit("efa_aq_fetch"),
    "aq_unpack": Unit("efa_aq_unpack"),
    "aenq": Unit("efa_aenq", [{"EVENTS_LEFT": 2048}]),
    "mtt_alloc": Unit("efa_mtt_alloc"),
    "pbl_load": Unit(
        "efa_pbl_load", [{}, {"POINTERS": 19, "ENTRIES": 8}], mutants={"POINTERS": 19, "ENTRIES": 8}
    ),
    "mr_geometry": Unit("efa_mr_geometry"),
    "qp_param_check": Unit("efa_qp_param_check", [{"SQ_HOST": 1}, {}]),
    "features": Unit("efa_features", [{}, {"QPN_W": 10, "CQN_W": 11, "MTT_W": 19}]),
    "admin_anomaly": Unit("efa_admin_anomaly"),
    "cmd_pd": Unit("efa_cmd_pd"),
    "cmd_ah": Unit("efa_cmd_ah"),
    "cmd_cq": Unit("efa_cmd_cq"),
    "cmd_ec": Unit("efa_cmd_ec", [{}, {"QPN_W": 10}]),
    "cmd_info": Unit("efa_cmd_info"),
    "cmd_mr": Unit("efa_cmd_mr", [{}, {"MTT_W": 19}]),
    "cmd_qp": Unit("efa_cmd_qp", [{}, {"SQ_HOST": 1}], mutants={"SQ_HOST": 1}, long=True),
}

# Run by a separate target: this bench measures and checks nothing, so it must not count as
# coverage.
BENCHES: dict[str, Unit] = {"baseline": Unit("efa_nic")}

# Blocks that are tested in the bench of a surrounding module: its unit, and their parameters there.
INSIDE: dict[str, tuple[str, dict]] = {
    "efa_dma_rd": ("dma", {"TAGS": 16, "TIMEOUT_CYCLES": 4000}),
    "efa_dma_wr": ("dma", {}),
    "efa_pbl_fetch": ("pbl_load", {"POINTERS": 19, "ENTRIES": 8}),
    "efa_sq_reorder": ("sq_fetch", {"SLOT_W": 4}),
    "efa_slot_range": ("psn_range", {}),
    "efa_tx_space": ("srd_sender", {}),
    "efa_ack_check": ("srd_sender", {}),
    "efa_tx_limits": ("srd_sender", {}),
    "efa_tx_measure": ("srd_sender", {"RTO_INITIAL": 100, "PATH_PROBE": 64}),
    "efa_tx_deadlines": ("srd_sender", {"RTO_RETRIES": 12}),
    "efa_tx_requests": ("srd_sender", {}),
    "efa_tx_departed": ("srd_sender", {}),
    "efa_tx_resolve": ("srd_sender", {"RTO_INITIAL": 100, "RTO_RETRIES": 12, "PATH_PROBE": 64}),
    "efa_rx_lookup": ("rx_validate", {}),
}
