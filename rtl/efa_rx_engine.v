// SPDX-License-Identifier: Apache-2.0
// efa_rx_engine - connects the receive side: packets, receive queues, checks, scatter,
// acknowledgements.
//
// In    s_net: packets; rqdb, rq_ctrl, qpchg; contexts and tables; rd_cpl: receive WQE read
//       completions; rxdone
// Out   wr_rx: payload; rxc: completions; ack_tx, ack_rx: acknowledgements to send and received;
//       rd_rq: receive WQE reads
// Time  see efa_net_rx, efa_rx_validate, efa_rx_scatter
`include "efa_defs.vh"

module efa_rx_engine #(
    parameter QPN_W = 6
) (
    input wire clk,
    output wire [2*QPN_W-1:0] qpc_recv_addr,
    input wire [2*`EFA_QPC__W-1:0] qpc_recv_data,
    input wire rst,
    input wire [15:0] s_cfg_node_id,
    input wire s_net_valid,
    output wire s_net_ready,
    input wire [511:0] s_net_data,
    input wire [63:0] s_net_keep,
    input wire s_net_last,
    input wire core_rst,
    input wire quiesce,
    output wire recv_init_done,
    input wire [3:0] mps_log,
    output wire rd_rq_valid,
    input wire rd_rq_ready,
    output wire [63:0] rd_rq_addr,
    output wire [12:0] rd_rq_len,
    output wire [31:0] rd_rq_cookie,
    input wire rd_cpl_rq_valid,
    input wire [31:0] rd_cpl_cookie,
    input wire [12:0] rd_cpl_offset,
    input wire [511:0] rd_cpl_data,
    input wire [6:0] rd_cpl_bytes,
    input wire rd_cpl_last,
    input wire rd_cpl_err,
    output wire wr_rx_valid,
    input wire wr_rx_ready,
    output wire [63:0] wr_rx_addr,
    output wire [12:0] wr_rx_len,
    output wire [511:0] wr_rx_data,
    output wire wr_rx_last,
    input wire qpchg_recv_valid,
    output wire qpchg_recv_ready,
    input wire [QPN_W-1:0] qpchg_qpn,
    input wire [2:0] qpchg_state,
    output wire qperr_recv_valid,
    input wire qperr_recv_ready,
    output wire [QPN_W-1:0] qperr_recv_qpn,
    output wire [3:0] qperr_recv_cause,
    input wire mr_valid,
    input wire [`EFA_LIMITS__MR_W-1:0] mr_index,
    input wire [`EFA_MRC__W-1:0] mr_data,
    input wire mtt_valid,
    input wire [`EFA_LIMITS__MTT_W-1:0] mtt_index,
    input wire [51:0] mtt_data,
    input wire ah_valid,
    input wire [`EFA_LIMITS__AH_W-1:0] ah_index,
    input wire [`EFA_AHC__W-1:0] ah_data,
    input wire rq_ctrl_valid,
    output wire rq_ctrl_ready,
    input wire [1:0] rq_ctrl_kind,
    input wire [QPN_W-1:0] rq_ctrl_qpn,
    input wire [`EFA_QPC__W-1:0] rq_ctrl_qpc,
    input wire drain_recv_valid,
    output wire drain_recv_ready,
    input wire rqdb_valid,
    input wire [QPN_W-1:0] rqdb_qpn,
    input wire [15:0] rqdb_value,
    output wire rxc_valid,
    input wire rxc_ready,
    output wire [`EFA_CPL__W-1:0] rxc_data,
    input wire rxdone_valid,
    output wire ack_tx_valid,
    input wire ack_tx_ready,
    output wire [`EFA_ACK_TX__W-1:0] ack_tx_data,
    output wire ack_rx_valid,
    input wire ack_rx_ready,
    output wire [`EFA_ACK_RX__W-1:0] ack_rx_data,
    output wire st_rx_valid,
    output wire [15:0] st_rx_bytes,
    output wire st_drop_valid,
    output wire st_qkey_valid,
    output wire ev_rx_first_valid,
    output wire [63:0] ev_rx_first_data,
    output wire ev_rx_last_valid,
    output wire [63:0] ev_rx_last_data,
    output wire ev_rx_validated_valid,
    output wire [63:0] ev_rx_validated_data,
    output wire ev_rx_data_done_valid,
    output wire [63:0] ev_rx_data_done_data,
    output wire ev_anomaly_net_valid,
    output wire [63:0] ev_anomaly_net_data
);

  localparam LINE_W = 9;
  localparam SLOT_W = 8;
  localparam JOBS_LOG2 = 4;  // jobs between the scatter and their completion
  localparam RX_JOB_W = `EFA_RX_JOB__W;
  localparam QPC_W = `EFA_QPC__W;

  wire pkt_valid;
  wire pkt_ready;
  wire [`EFA_PKT_HDR__BITS-1:0] pkt_header;
  wire [LINE_W-1:0] pkt_line;
  wire [SLOT_W-1:0] pkt_slot;
  wire stored;
  wire released;
  wire [LINE_W+5:0] win_pos;
  wire [511:0] win_data;
  wire free_valid;
  wire [SLOT_W-1:0] free_slot;
  wire drop_in;
  wire drop_validated;

  efa_net_rx #(
      .LINE_W(LINE_W),
      .SLOT_W(SLOT_W)
  ) u_net_rx (
      .clk(clk),
      .rst(rst),
      .core_rst(core_rst),
      .quiesce(quiesce),
      .s_cfg_node_id(s_cfg_node_id),
      .s_net_valid(s_net_valid),
      .s_net_ready(s_net_ready),
      .s_net_data(s_net_data),
      .s_net_keep(s_net_keep),
      .s_net_last(s_net_last),
      .m_pkt_valid(pkt_valid),
      .m_pkt_ready(pkt_ready),
      .m_pkt_header(pkt_header),
      .m_pkt_line(pkt_line),
      .m_pkt_slot(pkt_slot),
      .stored(stored),
      .released(released),
      .m_ack_rx_valid(ack_rx_valid),
      .m_ack_rx_ready(ack_rx_ready),
      .m_ack_rx_data(ack_rx_data),
      .s_win_pos(win_pos),
      .m_win_data(win_data),
      .s_free_valid(free_valid),
      .s_free_slot(free_slot),
      .drop(drop_in),
      .ev_rx_first_valid(ev_rx_first_valid),
      .ev_rx_first_data(ev_rx_first_data),
      .ev_rx_last_valid(ev_rx_last_valid),
      .ev_rx_last_data(ev_rx_last_data),
      .ev_anomaly_net_valid(ev_anomaly_net_valid),
      .ev_anomaly_net_data(ev_anomaly_net_data)
  );

  wire claim_requested;
  wire claim_space;
  wire [QPN_W-1:0] claim_qpn;
  wire claim_skip;
  wire [16:0] claim_need;
  wire claim_hold;
  wire claim_step;
  wire claim_valid;
  wire claim_ready;
  wire claim_skipped;
  wire claim_failed;
  wire claim_none;
  wire claim_missing;
  wire claim_parked;
  wire claim_complete;
  wire claim_short;
  wire [1:0] claim_count;
  wire [255:0] claim_descs;
  wire claim_done;
  wire job_valid;
  wire job_ready;
  wire [RX_JOB_W-1:0] job;
  wire [1:0] job_req;
  wire [255:0] job_descs;
  wire [9:0] job_pd;
  wire validate_err_valid;
  wire validate_err_ready;
  wire [QPN_W-1:0] validate_err_qpn;
  wire [3:0] validate_err_cause;
  wire validate_init_done;
  wire check_init_done;
  assign recv_init_done = validate_init_done && check_init_done;

  wire next_valid;
  wire next_ready;
  wire [`EFA_PKT_HDR__BITS-1:0] next_header;
  wire [LINE_W-1:0] next_line;
  wire [SLOT_W-1:0] next_slot;
  wire [QPN_W-1:0] lookup_qpn;
  wire blocked;
  wire park_valid;
  wire [`EFA_PKT_HDR__BITS-1:0] park_header;
  wire [LINE_W-1:0] park_line;
  wire [SLOT_W-1:0] park_slot;
  wire claim_empty;
  wire descs_arrived;
  efa_rx_park #(
      .QPN_W (QPN_W),
      .LINE_W(LINE_W),
      .SLOT_W(SLOT_W)
  ) u_wait (
      .clk(clk),
      .rst(core_rst),
      .s_pkt_valid(pkt_valid),
      .s_pkt_ready(pkt_ready),
      .s_pkt_header(pkt_header),
      .s_pkt_line(pkt_line),
      .s_pkt_slot(pkt_slot),
      .m_pkt_valid(next_valid),
      .m_pkt_ready(next_ready),
      .m_pkt_header(next_header),
      .m_pkt_line(next_line),
      .m_pkt_slot(next_slot),
      .s_lookup_qpn(lookup_qpn),
      .m_blocked(blocked),
      .s_park_valid(park_valid),
      .s_park_header(park_header),
      .s_park_line(park_line),
      .s_park_slot(park_slot),
      .s_empty(claim_empty),
      .s_arrived(descs_arrived)
  );

  efa_rx_validate #(
      .QPN_W (QPN_W),
      .LINE_W(LINE_W),
      .SLOT_W(SLOT_W)
  ) u_validate (
      .clk(clk),
      .rst(core_rst),
      .s_open(recv_init_done),
      .init_done(validate_init_done),
      .s_pkt_valid(next_valid),
      .s_pkt_ready(next_ready),
      .s_pkt_header(next_header),
      .s_pkt_line(next_line),
      .s_pkt_slot(next_slot),
      .qpc_data(qpc_recv_data[0+:QPC_W]),
      .ah_valid(ah_valid),
      .ah_index(ah_index),
      .ah_data(ah_data),
      .m_claim_valid(claim_requested),
      .s_claim_ready(claim_space),
      .m_claim_qpn(claim_qpn),
      .m_claim_skip(claim_skip),
      .m_claim_need(claim_need),
      .m_claim_hold(claim_hold),
      .s_claim_step(claim_step),
      .s_rsp_valid(claim_valid),
      .m_rsp_ready(claim_ready),
      .s_rsp_skipped(claim_skipped),
      .s_rsp_failed(claim_failed),
      .s_rsp_none(claim_none),
      .s_rsp_missing(claim_missing),
      .s_rsp_complete(claim_complete),
      .s_rsp_short(claim_short),
      .s_rsp_count(claim_count),
      .s_rsp_descs(claim_descs),
      .m_rsp_parked(claim_parked),
      .m_claim_done(claim_done),
      .m_lookup_qpn(lookup_qpn),
      .s_blocked(blocked),
      .m_park_valid(park_valid),
      .m_park_header(park_header),
      .m_park_line(park_line),
      .m_park_slot(park_slot),
      .m_job_valid(job_valid),
      .m_job_ready(job_ready),
      .m_job(job),
      .m_req(job_req),
      .m_descs(job_descs),
      .m_pd(job_pd),
      .m_err_valid(validate_err_valid),
      .m_err_ready(validate_err_ready),
      .m_err_qpn(validate_err_qpn),
      .m_err_cause(validate_err_cause),
      .qkey_wrong(st_qkey_valid)
  );

  wire done_valid;
  wire [11:0] done_qpn;
  wire [1:0] done_count;
  wire flush_valid;
  wire flush_ready;
  wire [QPN_W-1:0] flush_qpn;
  wire [QPC_W-1:0] flush_qpc;
  wire [15:0] flush_req_id;
  wire [1:0] flush_count;
  wire rq_err_valid;
  wire rq_err_ready;
  wire [QPN_W-1:0] rq_err_qpn;
  wire [3:0] rq_err_cause;
  wire idle;
  wire fetches_drained;

  efa_rq #(
      .QPN_W(QPN_W)
  ) u_rq (
      .clk(clk),
      .rst(core_rst),
      .qpc_addr(qpc_recv_addr[QPN_W+:QPN_W]),
      .qpc_data(qpc_recv_data[QPC_W+:QPC_W]),
      .rqdb_valid(rqdb_valid),
      .rqdb_qpn(rqdb_qpn),
      .rqdb_value(rqdb_value),
      .rq_ctrl_valid(rq_ctrl_valid),
      .rq_ctrl_ready(rq_ctrl_ready),
      .rq_ctrl_kind(rq_ctrl_kind),
      .rq_ctrl_qpn(rq_ctrl_qpn),
      .rq_ctrl_qpc(rq_ctrl_qpc),
      .s_qpchg_valid(qpchg_recv_valid),
      .s_qpchg_ready(qpchg_recv_ready),
      .s_qpchg_qpn(qpchg_qpn),
      .m_rd_valid(rd_rq_valid),
      .m_rd_ready(rd_rq_ready),
      .m_rd_addr(rd_rq_addr),
      .m_rd_len(rd_rq_len),
      .m_rd_cookie(rd_rq_cookie),
      .rd_cpl_valid(rd_cpl_rq_valid),
      .rd_cpl_cookie(rd_cpl_cookie),
      .rd_cpl_offset(rd_cpl_offset),
      .rd_cpl_data(rd_cpl_data),
      .rd_cpl_bytes(rd_cpl_bytes),
      .rd_cpl_last(rd_cpl_last),
      .rd_cpl_err(rd_cpl_err),
      .s_claim_valid(claim_requested),
      .s_claim_ready(claim_space),
      .s_claim_qpn(claim_qpn),
      .claim_qpc_addr(qpc_recv_addr[0+:QPN_W]),
      .s_claim_skip(claim_skip),
      .s_claim_need(claim_need),
      .s_claim_hold(claim_hold),
      .m_claim_step(claim_step),
      .m_claim_valid(claim_valid),
      .m_claim_ready(claim_ready),
      .s_claim_parked(claim_parked),
      .m_claim_skipped(claim_skipped),
      .m_claim_failed(claim_failed),
      .m_claim_none(claim_none),
      .m_claim_missing(claim_missing),
      .m_claim_complete(claim_complete),
      .m_claim_short(claim_short),
      .m_claim_count(claim_count),
      .m_claim_descs(claim_descs),
      .s_claim_done(claim_done),
      .claim_empty(claim_empty),
      .arrived(descs_arrived),
      .s_done_valid(done_valid),
      .s_done_qpn(done_qpn[QPN_W-1:0]),
      .s_done_count(done_count),
      .m_flush_valid(flush_valid),
      .m_flush_ready(flush_ready),
      .m_flush_qpn(flush_qpn),
      .m_flush_qpc(flush_qpc),
      .m_flush_req_id(flush_req_id),
      .m_flush_count(flush_count),
      .m_err_valid(rq_err_valid),
      .m_err_ready(rq_err_ready),
      .m_err_qpn(rq_err_qpn),
      .m_err_cause(rq_err_cause),
      .s_drain(drain_recv_valid),
      .m_idle(idle),
      .m_drained(fetches_drained)
  );

  wire [1:0] err_grant;
  efa_arb #(
      .N(2)
  ) u_err (
      .clk(clk),
      .rst(core_rst),
      .s_request({rq_err_valid, validate_err_valid}),
      .s_hold(!qperr_recv_ready),
      .m_grant(err_grant)
  );
  assign qperr_recv_valid = |err_grant;
  assign qperr_recv_qpn = err_grant[1] ? rq_err_qpn : validate_err_qpn;
  assign qperr_recv_cause = err_grant[1] ? rq_err_cause : validate_err_cause;
  assign validate_err_ready = err_grant[0] && qperr_recv_ready;
  assign rq_err_ready = err_grant[1] && qperr_recv_ready;

  wire queued_valid;
  wire queued_ready;
  wire [RX_JOB_W-1:0] queued_job;
  wire [1:0] queued_req;
  efa_rx_job_arb #(
      .QPN_W(QPN_W)
  ) u_jobs (
      .clk(clk),
      .rst(core_rst),
      .s_job_valid(job_valid),
      .s_job_ready(job_ready),
      .s_job(job),
      .s_req(job_req),
      .s_flush_valid(flush_valid),
      .s_flush_ready(flush_ready),
      .s_flush_qpn(flush_qpn),
      .s_flush_qpc(flush_qpc),
      .s_flush_req_id(flush_req_id),
      .s_flush_count(flush_count),
      .m_job_valid(queued_valid),
      .m_job_ready(queued_ready),
      .m_job(queued_job),
      .m_req(queued_req)
  );

  wire write_valid;
  wire write_ready;
  wire line_valid;
  wire line_ready;
  wire [RX_JOB_W-1:0] line_job;
  efa_rx_mr_check u_check (
      .clk(clk),
      .rst(core_rst),
      .init_done(check_init_done),
      .s_job_valid(queued_valid),
      .s_job_ready(queued_ready),
      .s_job(queued_job),
      .s_req(queued_req),
      .s_descs(job_descs),
      .s_pd(job_pd),
      .mr_valid(mr_valid),
      .mr_index(mr_index),
      .mr_data(mr_data),
      .m_write_valid(write_valid),
      .m_write_ready(write_ready),
      .m_retire_valid(line_valid),
      .m_retire_ready(line_ready),
      .m_job(line_job),
      .drop(drop_validated),
      .ev_rx_validated_valid(ev_rx_validated_valid),
      .ev_rx_validated_data(ev_rx_validated_data)
  );

  wire written;
  efa_rx_scatter #(
      .LINE_W(LINE_W)
  ) u_scatter (
      .clk(clk),
      .rst(core_rst),
      .s_cfg_node_id(s_cfg_node_id),
      .mps_log(mps_log),
      .mtt_valid(mtt_valid),
      .mtt_index(mtt_index),
      .mtt_data(mtt_data),
      .s_job_valid(write_valid),
      .s_job_ready(write_ready),
      .s_job(line_job),
      .m_win_pos(win_pos),
      .s_win_data(win_data),
      .m_wr_valid(wr_rx_valid),
      .m_wr_ready(wr_rx_ready),
      .m_wr_addr(wr_rx_addr),
      .m_wr_len(wr_rx_len),
      .m_wr_data(wr_rx_data),
      .m_wr_last(wr_rx_last),
      .done(written)
  );

  wire retire_valid;
  wire retire_ready;
  wire [RX_JOB_W-1:0] retire_job;
  wire [JOBS_LOG2:0] line_level;
  efa_fifo #(
      .WIDTH(RX_JOB_W),
      .DEPTH_LOG2(JOBS_LOG2)
  ) u_line (
      .clk(clk),
      .rst(core_rst),
      .s_valid(line_valid),
      .s_ready(line_ready),
      .s_data(line_job),
      .m_valid(retire_valid),
      .m_ready(retire_ready),
      .m_data(retire_job),
      .level(line_level)
  );

  efa_rx_retire #(
      .SLOT_W(SLOT_W),
      .JOBS_LOG2(JOBS_LOG2)
  ) u_retire (
      .clk(clk),
      .rst(core_rst),
      .s_job_valid(retire_valid),
      .s_job_ready(retire_ready),
      .s_job(retire_job),
      .written(written),
      .s_done_entry(rxdone_valid),
      .m_rxc_valid(rxc_valid),
      .m_rxc_ready(rxc_ready),
      .m_rxc_data(rxc_data),
      .m_ack_tx_valid(ack_tx_valid),
      .m_ack_tx_ready(ack_tx_ready),
      .m_ack_tx_data(ack_tx_data),
      .free_valid(free_valid),
      .free_slot(free_slot),
      .done_valid(done_valid),
      .done_qpn(done_qpn),
      .done_count(done_count),
      .s_stored(stored),
      .s_released(released),
      .s_flushed(flush_valid && flush_ready),
      .s_drain(drain_recv_valid && idle),
      .s_fetches_drained(fetches_drained),
      .m_drained(drain_recv_ready),
      .s_drops({drop_validated, drop_in}),
      .st_drop_valid(st_drop_valid),
      .st_rx_valid(st_rx_valid),
      .st_rx_bytes(st_rx_bytes),
      .ev_rx_data_done_valid(ev_rx_data_done_valid),
      .ev_rx_data_done_data(ev_rx_data_done_data)
  );

  wire unused_bits = &{1'b0, qpchg_state, done_qpn, line_level};

endmodule
