// SPDX-License-Identifier: Apache-2.0
// efa_rx_engine - connects the receive side: packets, receive queues, checks, scatter,
// acknowledgements.
//
// In    s_net: packets; s_rqdb: doorbells; s_table, s_queue_op, s_drain from admin; s_qpchg:
//       changed QP states; s_rd_cpl: receive WQE read completions; s_rxdone: receive CQEs written;
//       s_cfg_incarnation, s_cfg_profile, s_cfg_paths: paths that exist, constant from rst on;
//       s_cfg_tick: as in efa_srd_tick
// Out   m_wr_rx: payload; m_cpl: completions; m_ack_tx, m_ack_rx: acknowledgements to send and
//       received; m_rd_rq: receive WQE reads; m_qperr: QPs in error; m_st: statistics
// Time  see efa_net_rx, efa_rx_accept, efa_rx_scatter
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rx_engine #(
    parameter QPN_W = 6,
    parameter MTT_W = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire clk,
    output wire [2*QPN_W-1:0] qpc_rd_addr,
    input wire [2*`EFA_QPC__W-1:0] qpc_rd_data,
    input wire rst_por,
    input wire [15:0] s_cfg_node_id,
    input wire [7:0] s_cfg_paths,
    input wire [7:0] s_cfg_tick,
    input wire [15:0] s_cfg_incarnation,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire [(2<<`EFA_LIMITS__MSG_W)-1:0] s_ctx_used,
    input wire s_read_valid,
    input wire [`EFA_READ_CTX__W-1:0] s_read_data,
    input wire s_more_valid,
    output wire s_more_ready,
    input wire [`EFA_READ_MORE__W-1:0] s_more_data,
    output wire m_placed_valid,
    input wire m_placed_ready,
    output wire [`EFA_READ_PLACED__W-1:0] m_placed_data,
    output wire m_request_valid,
    input wire m_request_ready,
    output wire [`EFA_READ_JOB__W-1:0] m_request_data,
    input wire [(1<<`EFA_LIMITS__NODE_W)-1:0] s_full,
    input wire s_net_valid,
    output wire s_net_ready,
    input wire [`EFA_FLIT__W-1:0] s_net_data,
    input wire rst,
    input wire s_quiesce,
    output wire m_init_done,
    input wire [3:0] s_cfg_mps_log,
    output wire m_rd_rq_valid,
    input wire m_rd_rq_ready,
    output wire [`EFA_DMA_RD__W-1:0] m_rd_rq_data,
    input wire s_rd_cpl_rq_valid,
    input wire [`EFA_DMA_RD_CPL__W-1:0] s_rd_cpl_data,
    output wire m_wr_rx_valid,
    input wire m_wr_rx_ready,
    output wire [`EFA_DMA_WR__W-1:0] m_wr_rx_data,
    input wire s_qpchg_valid,
    output wire s_qpchg_ready,
    input wire [`EFA_QPCHG__W-1:0] s_qpchg_data,
    output wire m_qperr_valid,
    input wire m_qperr_ready,
    output wire [`EFA_QPERR__W-1:0] m_qperr_data,
    input wire [`EFA_TABLE__COUNT-1:0] s_table_valid,
    input wire [`EFA_TABLE_WR__W-1:0] s_table_data,
    input wire s_queue_op_valid,
    output wire s_queue_op_ready,
    input wire [`EFA_QUEUE_OP__W-1:0] s_queue_op_data,
    input wire s_drain_valid,
    output wire s_drain_ready,
    input wire s_rqdb_valid,
    input wire [`EFA_RQDB__W-1:0] s_rqdb_data,
    output wire m_cpl_valid,
    input wire m_cpl_ready,
    output wire [`EFA_CPL__W-1:0] m_cpl_data,
    input wire s_rxdone_valid,
    output wire m_ack_tx_valid,
    input wire m_ack_tx_ready,
    output wire [`EFA_SRD_ACK__BITS-1:0] m_ack_tx_data,
    output wire m_ack_rx_valid,
    input wire m_ack_rx_ready,
    output wire [`EFA_SRD_ACK__BITS-1:0] m_ack_rx_data,
    output wire [`EFA_STAT__QKEY:`EFA_STAT__RX] m_st_valid,
    output wire [32*(`EFA_STAT__DROP-`EFA_STAT__RX)-1:0] m_st_bytes,
    output wire [`EFA_EV__RX_VALID] ev_valid,
    output wire [`EFA_EV__RX_DATA] ev_data
);

  // Widths of the fields of rx_pkt.
  localparam LINE_W = 9;
  localparam SLOT_W = 8;
  localparam JOBS_LOG2 = 4;  // jobs between the scatter and their completion
  localparam RX_JOB_W = `EFA_RX_JOB__W;
  localparam QPC_W = `EFA_QPC__W;

  wire pkt_valid;
  wire pkt_ready;
  wire [`EFA_RX_PKT__W-1:0] pkt;
  wire pass_valid;
  wire pass_ready;
  wire [`EFA_RX_PKT__W-1:0] pass;
  wire ack_valid;
  wire ack_ready;
  wire [`EFA_ACK_TX__W-1:0] ack;
  wire receiver_init;
  wire stored;
  wire released;
  wire [LINE_W+5:0] win_pos;
  wire [511:0] win_data;
  wire free_valid;
  wire [SLOT_W-1:0] free_slot;
  wire retired_valid;
  wire [SLOT_W-1:0] retired_slot;
  wire drop_in;
  wire drop_validated;

  wire look_valid;
  wire look_ready;
  wire [`EFA_READ_LOOK__W-1:0] look_data;
  wire found;
  wire [`EFA_READ_CTX__W-1:0] found_read;
  wire quiet;
  wire dropped_valid;
  wire [SLOT_W-1:0] dropped_slot;
  wire [31:0] numbers = ack[`EFA_ACK_TX__MSG_ID];
  wire [`EFA_SRD_OUTCOME__W-1:0] outcome;

  efa_net_rx u_net_rx (
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .s_quiesce(s_quiesce),
      .s_cfg_node_id(s_cfg_node_id),
      .s_cfg_paths(s_cfg_paths),
      .s_full(s_full),
      .s_net_valid(s_net_valid),
      .s_net_ready(s_net_ready),
      .s_net_data(s_net_data[`EFA_FLIT__DATA]),
      .s_net_keep(s_net_data[`EFA_FLIT__KEEP]),
      .s_net_last(s_net_data[`EFA_FLIT__LAST]),
      .m_pkt_valid(pkt_valid),
      .m_pkt_ready(pkt_ready),
      .m_pkt_data(pkt),
      .m_stored(stored),
      .m_released(released),
      .m_ack_rx_valid(m_ack_rx_valid),
      .m_ack_rx_ready(m_ack_rx_ready),
      .m_ack_rx_data(m_ack_rx_data),
      .s_win_pos(win_pos),
      .m_win_data(win_data),
      .s_free_valid(free_valid),
      .s_free_slot(free_slot),
      .m_drop(drop_in),
      .ev_rx_first_valid(ev_valid[`EFA_EV__RX_FIRST]),
      .ev_rx_first_data(ev_data[64*`EFA_EV__RX_FIRST+:64]),
      .ev_rx_last_valid(ev_valid[`EFA_EV__RX_LAST]),
      .ev_rx_last_data(ev_data[64*`EFA_EV__RX_LAST+:64]),
      .ev_anomaly_net_valid(ev_valid[`EFA_EV__ANOMALY_NET]),
      .ev_anomaly_net_data(ev_data[64*`EFA_EV__ANOMALY_NET+:64])
  );

  efa_srd_quiet u_quiet (
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .s_cfg_tick(s_cfg_tick),
      .m_quiet(quiet)
  );

  assign outcome[`EFA_SRD_OUTCOME__AGAIN] = 1'b0;
  assign outcome[`EFA_SRD_OUTCOME__NODE] = ack[`EFA_ACK_TX__DST_NODE];
  assign outcome[`EFA_SRD_OUTCOME__SRC_QPN] = ack[`EFA_ACK_TX__DST_QPN];
  assign outcome[`EFA_SRD_OUTCOME__DST_QPN] = ack[`EFA_ACK_TX__SRC_QPN];
  assign outcome[`EFA_SRD_OUTCOME__PSN] = ack[`EFA_ACK_TX__PSN];
  // The session stands in the header where the message id of other packets does.
  assign outcome[`EFA_SRD_OUTCOME__SESSION] = numbers[15:0];
  assign outcome[`EFA_SRD_OUTCOME__PATH] = ack[`EFA_ACK_TX__PATH];
  assign outcome[`EFA_SRD_OUTCOME__STATUS] = ack[`EFA_ACK_TX__STATUS];

  efa_srd_receiver u_receiver (
      .clk(clk),
      .rst(rst),
      .m_init_done(receiver_init),
      .s_cfg_node_id(s_cfg_node_id),
      .s_cfg_incarnation(s_cfg_incarnation),
      .s_quiet(quiet),
      .s_pkt_valid(pkt_valid),
      .s_pkt_ready(pkt_ready),
      .s_pkt_data(pkt),
      .m_pkt_valid(pass_valid),
      .m_pkt_ready(pass_ready),
      .m_pkt_data(pass),
      .m_free_valid(dropped_valid),
      .m_free_slot(dropped_slot),
      .s_outcome_valid(ack_valid),
      .s_outcome_ready(ack_ready),
      .s_outcome_data(outcome),
      .m_ack_valid(m_ack_tx_valid),
      .m_ack_ready(m_ack_tx_ready),
      .m_ack_data(m_ack_tx_data)
  );

  efa_rx_free #(
      .SLOT_W(SLOT_W)
  ) u_free (
      .clk(clk),
      .rst(rst),
      .s_retired_valid(retired_valid),
      .s_retired_slot(retired_slot),
      .s_dropped_valid(dropped_valid),
      .s_dropped_slot(dropped_slot),
      .m_free_valid(free_valid),
      .m_free_slot(free_slot)
  );

  efa_read_table u_reads (
      .clk(clk),
      .rst(rst),
      .s_ctx_valid(s_read_valid),
      .s_ctx_data(s_read_data),
      .s_more_valid(s_more_valid),
      .s_more_ready(s_more_ready),
      .s_more_data(s_more_data),
      .s_ctx_used(s_ctx_used),
      .s_look_valid(look_valid),
      .s_look_ready(look_ready),
      .s_look_data(look_data),
      .m_found(found),
      .m_read(found_read)
  );

  wire unused_numbers = &{1'b0, numbers};

  wire [QPN_W-1:0] claim_next_qpn;
  wire claim_valid;
  wire claim_ready;
  wire [`EFA_RX_CLAIM__W-1:0] claim;
  wire claim_done;
  wire rsp_valid;
  wire rsp_ready;
  wire [`EFA_RX_CLAIM_RSP__W-1:0] rsp;
  wire descs_arrived;
  wire job_valid;
  wire job_ready;
  wire [RX_JOB_W-1:0] job;
  wire [`EFA_RX_CHECK__W-1:0] job_check;
  wire accept_err_valid;
  wire accept_err_ready;
  wire [QPN_W-1:0] accept_err_qpn;
  wire [3:0] accept_err_cause;
  wire accept_init_done;
  wire check_init_done;
  wire rings_init_done;
  assign m_init_done = receiver_init && accept_init_done && check_init_done && rings_init_done;
  assign qpc_rd_addr[0+:QPN_W] = claim_next_qpn;

  efa_rx_accept #(
      .QPN_W(QPN_W)
  ) u_accept (
      .clk(clk),
      .rst(rst),
      .s_cfg_profile(s_cfg_profile),
      .s_open(m_init_done),
      .m_init_done(accept_init_done),
      .s_pkt_valid(pass_valid),
      .s_pkt_ready(pass_ready),
      .s_pkt_data(pass),
      .qpc_rd_addr(claim_next_qpn),
      .qpc_rd_data(qpc_rd_data[0+:QPC_W]),
      .s_ah_valid(s_table_valid[`EFA_TABLE__AH]),
      .s_ah_index(s_table_data[`EFA_TABLE_WR__AH_INDEX]),
      .s_ah_data(s_table_data[`EFA_TABLE_WR__AH_DATA]),
      .s_mr_valid(s_table_valid[`EFA_TABLE__MR]),
      .s_mr_index(s_table_data[`EFA_TABLE_WR__MR_INDEX]),
      .s_mr_data(s_table_data[`EFA_TABLE_WR__MR_DATA]),
      .m_claim_valid(claim_valid),
      .m_claim_ready(claim_ready),
      .m_claim_data(claim),
      .s_rsp_valid(rsp_valid),
      .s_rsp_ready(rsp_ready),
      .s_rsp_data(rsp),
      .m_claim_done(claim_done),
      .s_arrived(descs_arrived),
      .m_job_valid(job_valid),
      .m_job_ready(job_ready),
      .m_job_data(job),
      .m_job_check(job_check),
      .m_look_valid(look_valid),
      .m_look_ready(look_ready),
      .m_look_data(look_data),
      .s_found(found),
      .s_found_read(found_read),
      .m_request_valid(m_request_valid),
      .m_request_ready(m_request_ready),
      .m_request_data(m_request_data),
      .m_err_valid(accept_err_valid),
      .m_err_ready(accept_err_ready),
      .m_err_qpn(accept_err_qpn),
      .m_err_cause(accept_err_cause),
      .st_qkey_valid(m_st_valid[`EFA_STAT__QKEY])
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
  wire [15:0] rx_bytes;
  wire [15:0] write_bytes;
  wire [15:0] placed_bytes;
  assign m_st_bytes = {16'd0, placed_bytes, 16'd0, write_bytes, 16'd0, rx_bytes};

  wire [11:0] rqdb_qpn = s_rqdb_data[`EFA_RQDB__QPN];
  wire [11:0] op_qpn = s_queue_op_data[`EFA_QUEUE_OP__QPN];
  wire [11:0] chg_qpn = s_qpchg_data[`EFA_QPCHG__QPN];
  efa_rq #(
      .QPN_W(QPN_W)
  ) u_rq (
      .clk(clk),
      .rst(rst),
      .m_init_done(rings_init_done),
      .qpc_rd_addr(qpc_rd_addr[QPN_W+:QPN_W]),
      .qpc_rd_data(qpc_rd_data[QPC_W+:QPC_W]),
      .s_rqdb_valid(s_rqdb_valid),
      .s_rqdb_qpn(rqdb_qpn[QPN_W-1:0]),
      .s_rqdb_value(s_rqdb_data[`EFA_RQDB__VALUE]),
      .s_rq_ctrl_valid(s_queue_op_valid),
      .s_rq_ctrl_ready(s_queue_op_ready),
      .s_rq_ctrl_kind(s_queue_op_data[`EFA_QUEUE_OP__KIND]),
      .s_rq_ctrl_qpn(op_qpn[QPN_W-1:0]),
      .s_rq_ctrl_qpc(s_queue_op_data[`EFA_QUEUE_OP__QPC]),
      .s_qpchg_valid(s_qpchg_valid),
      .s_qpchg_ready(s_qpchg_ready),
      .s_qpchg_qpn(chg_qpn[QPN_W-1:0]),
      .m_rd_valid(m_rd_rq_valid),
      .m_rd_ready(m_rd_rq_ready),
      .m_rd_addr(m_rd_rq_data[`EFA_DMA_RD__ADDR]),
      .m_rd_len(m_rd_rq_data[`EFA_DMA_RD__LEN]),
      .m_rd_cookie(m_rd_rq_data[`EFA_DMA_RD__COOKIE]),
      .s_rd_cpl_valid(s_rd_cpl_rq_valid),
      .s_rd_cpl_cookie(s_rd_cpl_data[`EFA_DMA_RD_CPL__COOKIE]),
      .s_rd_cpl_offset(s_rd_cpl_data[`EFA_DMA_RD_CPL__OFFSET]),
      .s_rd_cpl_data(s_rd_cpl_data[`EFA_DMA_RD_CPL__DATA]),
      .s_rd_cpl_bytes(s_rd_cpl_data[`EFA_DMA_RD_CPL__BYTES]),
      .s_rd_cpl_last(s_rd_cpl_data[`EFA_DMA_RD_CPL__LAST]),
      .s_rd_cpl_err(s_rd_cpl_data[`EFA_DMA_RD_CPL__ERR]),
      .s_next_qpn(claim_next_qpn),
      .s_claim_valid(claim_valid),
      .s_claim_ready(claim_ready),
      .s_claim_data(claim),
      .m_rsp_valid(rsp_valid),
      .m_rsp_ready(rsp_ready),
      .m_rsp_data(rsp),
      .s_claim_done(claim_done),
      .m_arrived(descs_arrived),
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
      .s_drain(s_drain_valid),
      .m_idle(idle),
      .m_drained(fetches_drained)
  );

  wire [QPN_W-1:0] qperr_qpn;
  assign m_qperr_data[`EFA_QPERR__QPN] = {{12 - QPN_W{1'b0}}, qperr_qpn};
  efa_qperr_arb #(
      .N(2),
      .QPN_W(QPN_W)
  ) u_qperr (
      .clk(clk),
      .rst(rst),
      .s_err_valid({rq_err_valid, accept_err_valid}),
      .s_err_ready({rq_err_ready, accept_err_ready}),
      .s_err_qpn({rq_err_qpn, accept_err_qpn}),
      .s_err_cause({rq_err_cause, accept_err_cause}),
      .m_err_valid(m_qperr_valid),
      .m_err_ready(m_qperr_ready),
      .m_err_qpn(qperr_qpn),
      .m_err_cause(m_qperr_data[`EFA_QPERR__CAUSE])
  );

  wire queued_valid;
  wire queued_ready;
  wire [RX_JOB_W-1:0] queued_job;
  wire [`EFA_RX_CHECK__W-1:0] queued_check;
  efa_rx_job_arb #(
      .QPN_W(QPN_W)
  ) u_jobs (
      .clk(clk),
      .rst(rst),
      .s_job_valid(job_valid),
      .s_job_ready(job_ready),
      .s_job_data(job),
      .s_job_check(job_check),
      .s_flush_valid(flush_valid),
      .s_flush_ready(flush_ready),
      .s_flush_qpn(flush_qpn),
      .s_flush_qpc(flush_qpc),
      .s_flush_req_id(flush_req_id),
      .s_flush_count(flush_count),
      .m_job_valid(queued_valid),
      .m_job_ready(queued_ready),
      .m_job_data(queued_job),
      .m_job_check(queued_check)
  );

  wire write_valid;
  wire write_ready;
  wire line_valid;
  wire line_ready;
  wire [RX_JOB_W-1:0] line_job;
  efa_rx_mr_check u_check (
      .clk(clk),
      .rst(rst),
      .m_init_done(check_init_done),
      .s_job_valid(queued_valid),
      .s_job_ready(queued_ready),
      .s_job_data(queued_job),
      .s_job_check(queued_check),
      .s_mr_valid(s_table_valid[`EFA_TABLE__MR]),
      .s_mr_index(s_table_data[`EFA_TABLE_WR__MR_INDEX]),
      .s_mr_data(s_table_data[`EFA_TABLE_WR__MR_DATA]),
      .m_write_valid(write_valid),
      .m_write_ready(write_ready),
      .m_retire_valid(line_valid),
      .m_retire_ready(line_ready),
      .m_job_data(line_job),
      .m_drop(drop_validated),
      .ev_rx_validated_valid(ev_valid[`EFA_EV__RX_VALIDATED]),
      .ev_rx_validated_data(ev_data[64*`EFA_EV__RX_VALIDATED+:64])
  );

  wire written;
  efa_rx_scatter #(
      .LINE_W(LINE_W),
      .MTT_W(MTT_W)
  ) u_scatter (
      .clk(clk),
      .rst(rst),
      .s_cfg_node_id(s_cfg_node_id),
      .s_cfg_mps_log(s_cfg_mps_log),
      .s_mtt_valid(s_table_valid[`EFA_TABLE__MTT]),
      .s_mtt_index(s_table_data[`EFA_TABLE_WR__MTT_INDEX]),
      .s_mtt_data(s_table_data[`EFA_TABLE_WR__MTT_DATA]),
      .s_job_valid(write_valid),
      .s_job_ready(write_ready),
      .s_job_data(line_job),
      .m_win_pos(win_pos),
      .s_win_data(win_data),
      .m_wr_valid(m_wr_rx_valid),
      .m_wr_ready(m_wr_rx_ready),
      .m_wr_addr(m_wr_rx_data[`EFA_DMA_WR__ADDR]),
      .m_wr_len(m_wr_rx_data[`EFA_DMA_WR__LEN]),
      .m_wr_data(m_wr_rx_data[`EFA_DMA_WR__DATA]),
      .m_wr_last(m_wr_rx_data[`EFA_DMA_WR__LAST]),
      .m_done(written)
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
      .rst(rst),
      .s_valid(line_valid),
      .s_ready(line_ready),
      .s_data(line_job),
      .m_valid(retire_valid),
      .m_ready(retire_ready),
      .m_data(retire_job),
      .m_level(line_level)
  );

  efa_rx_retire #(
      .SLOT_W(SLOT_W),
      .JOBS_LOG2(JOBS_LOG2)
  ) u_retire (
      .clk(clk),
      .rst(rst),
      .s_job_valid(retire_valid),
      .s_job_ready(retire_ready),
      .s_job_data(retire_job),
      .s_written(written),
      .s_done_entry(s_rxdone_valid),
      .m_rxc_valid(m_cpl_valid),
      .m_rxc_ready(m_cpl_ready),
      .m_rxc_data(m_cpl_data),
      .m_ack_tx_valid(ack_valid),
      .m_ack_tx_ready(ack_ready),
      .m_ack_tx_data(ack),
      .m_placed_valid(m_placed_valid),
      .m_placed_ready(m_placed_ready),
      .m_placed_data(m_placed_data),
      .m_free_valid(retired_valid),
      .m_free_slot(retired_slot),
      .m_done_valid(done_valid),
      .m_done_qpn(done_qpn),
      .m_done_count(done_count),
      .s_stored(stored),
      .s_released(released),
      .s_flushed(flush_valid && flush_ready),
      .s_drain(s_drain_valid && idle),
      .s_fetches_drained(fetches_drained),
      .s_request_waits(m_request_valid),
      .m_drained(s_drain_ready),
      .s_drops({drop_validated, drop_in}),
      .st_drop_valid(m_st_valid[`EFA_STAT__DROP]),
      .st_rx_valid(m_st_valid[`EFA_STAT__RX]),
      .st_rx_bytes(rx_bytes),
      .st_write_valid(m_st_valid[`EFA_STAT__RECV_WRITE]),
      .st_write_bytes(write_bytes),
      .st_placed_valid(m_st_valid[`EFA_STAT__PLACED]),
      .st_placed_bytes(placed_bytes),
      .ev_rx_data_done_valid(ev_valid[`EFA_EV__RX_DATA_DONE]),
      .ev_rx_data_done_data(ev_data[64*`EFA_EV__RX_DATA_DONE+:64])
  );

  `EFA_STREAM(u_edge_rd, `EFA_DMA_RD__W, clk, rst, m_rd_rq_valid, m_rd_rq_ready, m_rd_rq_data)
  `EFA_STREAM(u_edge_wr, `EFA_DMA_WR__W, clk, rst, m_wr_rx_valid, m_wr_rx_ready, m_wr_rx_data)
  `EFA_STREAM(u_edge_cpl, `EFA_CPL__W, clk, rst, m_cpl_valid, m_cpl_ready, m_cpl_data)
  `EFA_STREAM(u_edge_ack_tx, `EFA_SRD_ACK__BITS, clk, rst, m_ack_tx_valid, m_ack_tx_ready,
              m_ack_tx_data)
  `EFA_STREAM(u_edge_ack_rx, `EFA_SRD_ACK__BITS, clk, rst, m_ack_rx_valid, m_ack_rx_ready,
              m_ack_rx_data)
  `EFA_STREAM(u_edge_err, `EFA_QPERR__W, clk, rst, m_qperr_valid, m_qperr_ready, m_qperr_data)
  // Proofs contain efa_qp_ctx, which therefore has no check of its own.
  `EFA_STREAM(u_edge_chg, `EFA_QPCHG__W, clk, rst, s_qpchg_valid, s_qpchg_ready, s_qpchg_data)

  wire unused_bits = &{1'b0, s_table_valid, s_table_data, s_queue_op_data, s_qpchg_data, rqdb_qpn,
                       op_qpn, chg_qpn, done_qpn, line_level};

endmodule

`default_nettype wire
