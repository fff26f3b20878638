// SPDX-License-Identifier: Apache-2.0
// efa_tx_engine - connects the send side: send queues, checks of WQEs, payload, transport.
//
// In    s_db, s_llq: stores; s_table, s_queue_op, s_drain from admin; s_rd_cpl: payload and send
//       WQEs; s_qpchg: changed QP states; s_ack_rx, s_ack_tx: acknowledgements received and to send;
//       s_cfg_paths: paths that exist, constant from rst on; s_cfg_tick: as in efa_srd_tick
// Out   m_rd: payload reads and, with SQ_HOST, send WQE reads; m_net; m_cpl: completions; m_qperr:
//       QPs in error; m_rqdb, m_cqdb: doorbells; m_st: statistics; m_incarnation
// Time  docs/timing.md; wires only
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_tx_engine #(
    parameter QPN_W  = 6,
    parameter LLQ_AW = 21,
    parameter SQ_HOST = 0,
    parameter MTT_W = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire clk,
    output wire [4*QPN_W-1:0] qpc_rd_addr,
    input wire [4*`EFA_QPC__W-1:0] qpc_rd_data,
    input wire [15:0] s_cfg_node_id,
    input wire [7:0] s_cfg_paths,
    input wire [7:0] s_cfg_tick,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    output wire m_net_valid,
    input wire m_net_ready,
    output wire [`EFA_FLIT__W-1:0] m_net_data,
    input wire rst_por,
    input wire rst,
    output wire m_init_done,
    input wire s_quiesce,
    output wire m_net_quiet,
    input wire [3:0] s_cfg_mrrs_log,
    input wire s_llq_valid,
    input wire [`EFA_LLQ__W-1:0] s_llq_data,
    input wire s_db_valid,
    input wire [`EFA_DB__W-1:0] s_db_data,
    output wire [`EFA_DMA_RD_CLIENT__SQ:`EFA_DMA_RD_CLIENT__TX] m_rd_valid,
    input wire [`EFA_DMA_RD_CLIENT__SQ:`EFA_DMA_RD_CLIENT__TX] m_rd_ready,
    output wire [2*`EFA_DMA_RD__W-1:0] m_rd_data,
    input wire [`EFA_DMA_RD_CLIENT__SQ:`EFA_DMA_RD_CLIENT__TX] s_rd_cpl_valid,
    input wire [`EFA_DMA_RD_CPL__W-1:0] s_rd_cpl_data,
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
    output wire m_queue_op_busy,
    input wire s_drain_valid,
    output wire s_drain_ready,
    output wire m_rqdb_valid,
    output wire [`EFA_RQDB__W-1:0] m_rqdb_data,
    output wire m_cqdb_valid,
    output wire [`EFA_CQDB__W-1:0] m_cqdb_data,
    output wire m_cpl_valid,
    input wire m_cpl_ready,
    output wire [`EFA_CPL__W-1:0] m_cpl_data,
    input wire s_ack_tx_valid,
    output wire s_ack_tx_ready,
    input wire [`EFA_SRD_ACK__BITS-1:0] s_ack_tx_data,
    input wire s_ack_rx_valid,
    output wire s_ack_rx_ready,
    input wire [`EFA_SRD_ACK__BITS-1:0] s_ack_rx_data,
    output wire [`EFA_STAT__RESPONSE:`EFA_STAT__ACK_DROP] m_st_valid,
    output wire [32*(`EFA_STAT__RX-`EFA_STAT__TX)-1:0] m_st_bytes,
    output wire [`EFA_EV__TX_VALID] ev_valid,
    output wire [`EFA_EV__TX_DATA] ev_data,
    output wire [`EFA_LIMITS__MSG_W:0] m_sends_open,
    output wire [(2<<`EFA_LIMITS__MSG_W)-1:0] m_ctx_used,
    output wire m_read_valid,
    output wire [`EFA_READ_CTX__W-1:0] m_read_data,
    output wire m_more_valid,
    input wire m_more_ready,
    output wire [`EFA_READ_MORE__W-1:0] m_more_data,
    input wire s_placed_valid,
    output wire s_placed_ready,
    input wire [`EFA_READ_PLACED__W-1:0] s_placed_data,
    input wire s_job_valid,
    output wire s_job_ready,
    input wire [`EFA_READ_JOB__W-1:0] s_job_data,
    output wire [(1<<`EFA_LIMITS__NODE_W)-1:0] m_full,
    output wire [15:0] m_incarnation
);

  // Fields of the bundles at the ports.
  wire [11:0] cqn = s_table_data[`EFA_TABLE_WR__CQC_CQN];
  wire [11:0] op_qpn = s_queue_op_data[`EFA_QUEUE_OP__QPN];
  wire [`EFA_DMA_RD__W-1:0] rd_tx_data;
  wire [`EFA_DMA_RD__W-1:0] rd_sq_data;
  assign m_rd_data = {rd_sq_data, rd_tx_data};

  wire sq_init;
  wire route_init;
  wire check_init;
  wire tx_init;
  wire transport_init;

  wire item_valid;
  wire item_ready;
  wire [`EFA_WQE_IN__W-1:0] item_data;
  wire [`EFA_WQE_IN__W-1:0] next_data;
  wire checked_valid;
  wire checked_ready;
  wire [`EFA_TX_MSG__W-1:0] checked_msg;
  wire [`EFA_SGE__W-1:0] checked_first;
  wire [`EFA_SGE__W-1:0] checked_second;
  wire [767:0] checked_inline;
  wire [4*(1<<`EFA_LIMITS__AH_W)-1:0] ah_gen;
  wire ah_gone;

  // Between send queues and payload.
  wire read_err_valid;
  wire [QPN_W-1:0] read_err_qpn;
  wire [QPN_W-1:0] halted_addr;
  wire halted;
  wire credit_freed;
  wire credit_unused;

  // Between send queues and transport.
  wire completed_valid;
  wire [QPN_W-1:0] completed_qpn;
  wire [15:0] completed_count;
  wire [QPN_W-1:0] completed_addr;
  wire [15:0] completed;
  wire fence_valid;
  wire fence_id;
  wire scan_valid;
  wire scan_ready;
  wire [QPN_W-1:0] scan_set_addr;
  wire scan_set;
  wire cancel_valid;
  wire cancel_ready;

  // Between message contexts and checks.
  wire [2*QPN_W-1:0] halted_addrs;
  wire [1:0] halteds;
  wire other_valid;
  wire other_ready;
  wire [`EFA_WQE_IN__W-1:0] other_data;
  wire [`EFA_WQE_SENT__W-1:0] sent_data;
  wire checks_valid;
  wire checks_ready;
  wire [`EFA_WQE_IN__W-1:0] checks_data;
  wire post_valid;
  wire post_ready;
  wire [`EFA_SRD_POST__W-1:0] post_data;
  wire popped_valid;
  wire [`EFA_LIMITS__MSG_W:0] popped_index;
  wire send_valid;
  wire send_ready;
  wire [`EFA_SRD_SEND__W-1:0] send_data;
  wire send_now;
  wire gone_valid;
  wire gone_ready;
  wire [`EFA_SRD_GONE__W-1:0] gone_data;
  wire response_rd_en;
  wire [`EFA_LIMITS__MSG_W:0] response_rd_addr;
  wire [`EFA_READ_RESPONSE__W-1:0] response_rd_data;
  wire [(1<<`EFA_TRANSPORT__READS_W)-1:0] response_live;

  // Between payload and transport.
  wire [(2<<`EFA_LIMITS__MSG_W)-1:0] ctx_held;
  wire [(2<<`EFA_LIMITS__MSG_W)-1:0] ctx_used;
  wire ctx_free;
  wire [31:0] ctx_id;
  wire ctx_take;
  wire [`EFA_TX_MSG__W-1:0] ctx_msg;
  wire [31:0] ctx_bytes;
  wire out_valid;
  wire out_ready;
  wire out_net;
  wire out_done;
  wire out_first;
  wire out_last;
  wire [511:0] out_data;
  wire [63:0] out_keep;
  wire [`EFA_TX_MSG__W-1:0] out_msg;

  assign m_ctx_used = ctx_used;
  assign m_init_done = sq_init && route_init && check_init && tx_init && transport_init;

  efa_sq_engine #(
      .QPN_W  (QPN_W),
      .LLQ_AW (LLQ_AW),
      .SQ_HOST(SQ_HOST)
  ) u_sq_engine (
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .m_init_done(sq_init),
      .s_cfg_mrrs_log(s_cfg_mrrs_log),
      .qpc_rd_addr(qpc_rd_addr[3*QPN_W-1:0]),
      .qpc_rd_data(qpc_rd_data[3*`EFA_QPC__W-1:0]),
      .s_llq_valid(s_llq_valid),
      .s_llq_data(s_llq_data),
      .s_db_valid(s_db_valid),
      .s_db_data(s_db_data),
      .m_rd_valid(m_rd_valid[`EFA_DMA_RD_CLIENT__SQ]),
      .m_rd_ready(m_rd_ready[`EFA_DMA_RD_CLIENT__SQ]),
      .m_rd_data(rd_sq_data),
      .s_rd_cpl_valid(s_rd_cpl_valid[`EFA_DMA_RD_CLIENT__SQ]),
      .s_rd_cpl_data(s_rd_cpl_data),
      .s_qpchg_valid(s_qpchg_valid),
      .s_qpchg_ready(s_qpchg_ready),
      .s_qpchg_data(s_qpchg_data),
      .m_qperr_valid(m_qperr_valid),
      .m_qperr_ready(m_qperr_ready),
      .m_qperr_data(m_qperr_data),
      .s_cqc_valid(s_table_valid[`EFA_TABLE__CQC]),
      .s_cqc_cqn(cqn[QPN_W:0]),
      .s_cqc_data(s_table_data[`EFA_TABLE_WR__CQC_DATA]),
      .s_queue_op_valid(s_queue_op_valid),
      .s_queue_op_ready(s_queue_op_ready),
      .s_queue_op_data(s_queue_op_data),
      .m_queue_op_busy(m_queue_op_busy),
      .s_drain_valid(s_drain_valid),
      .s_drain_ready(s_drain_ready),
      .m_rqdb_valid(m_rqdb_valid),
      .m_rqdb_data(m_rqdb_data),
      .m_cqdb_valid(m_cqdb_valid),
      .m_cqdb_data(m_cqdb_data),
      .m_item_valid(item_valid),
      .m_item_ready(item_ready),
      .m_item_data(item_data),
      .m_next_data(next_data),
      .s_ah_gone(ah_gone),
      .s_read_err_valid(read_err_valid),
      .s_read_err_qpn(read_err_qpn),
      .halted_rd_addr(halted_addrs),
      .halted_rd_data(halteds),
      .s_credit_freed(credit_freed),
      .s_credit_unused(credit_unused),
      .s_completed_valid(completed_valid),
      .s_completed_qpn(completed_qpn),
      .s_completed_count(completed_count),
      .completed_rd_addr(completed_addr),
      .completed_rd_data(completed),
      .s_fence_valid(fence_valid),
      .s_fence_id(fence_id),
      .m_scan_valid(scan_valid),
      .m_scan_ready(scan_ready),
      .scan_set_rd_addr(scan_set_addr),
      .scan_set_rd_data(scan_set),
      .m_cancel_valid(cancel_valid),
      .m_cancel_ready(cancel_ready),
      .m_sends_open(m_sends_open),
      .ev_db_valid(ev_valid[`EFA_EV__DB]),
      .ev_db_data(ev_data[64*`EFA_EV__DB+:64]),
      .ev_llq_valid(ev_valid[`EFA_EV__LLQ]),
      .ev_llq_data(ev_data[64*`EFA_EV__LLQ+:64]),
      .ev_wqe_valid(ev_valid[`EFA_EV__WQE]),
      .ev_wqe_data(ev_data[64*`EFA_EV__WQE+:64])
  );

  efa_ah_gen u_ah_gen (
      .clk(clk),
      .rst(rst),
      .s_ah_valid(s_table_valid[`EFA_TABLE__AH]),
      .s_ah_index(s_table_data[`EFA_TABLE_WR__AH_INDEX]),
      .s_ah_data(s_table_data[`EFA_TABLE_WR__AH_DATA]),
      .m_ah_gen(ah_gen),
      .m_ah_gone(ah_gone)
  );

  assign halted_addrs[0+:QPN_W] = halted_addr;
  assign halted = halteds[0];

  efa_tx_route u_route (
      .clk(clk),
      .rst(rst),
      .m_init_done(route_init),
      .s_cfg_profile(s_cfg_profile),
      .s_ah_valid(s_table_valid[`EFA_TABLE__AH]),
      .s_ah_index(s_table_data[`EFA_TABLE_WR__AH_INDEX]),
      .s_ah_data(s_table_data[`EFA_TABLE_WR__AH_DATA]),
      .s_ah_gen(ah_gen),
      .s_item_valid(item_valid),
      .s_item_ready(item_ready),
      .s_item_data(item_data),
      .s_next_data(next_data),
      .m_item_valid(other_valid),
      .m_item_ready(other_ready),
      .m_item_data(other_data),
      .s_ctx_free(ctx_free),
      .s_ctx_id(ctx_id),
      .m_ctx_take(ctx_take),
      .m_ctx_msg(ctx_msg),
      .m_ctx_bytes(ctx_bytes),
      .m_sent_data(sent_data),
      .m_read_valid(m_read_valid),
      .m_read_data(m_read_data),
      .m_post_valid(post_valid),
      .m_post_ready(post_ready),
      .m_post_data(post_data),
      .s_popped_valid(popped_valid),
      .s_popped_index(popped_index),
      .m_ctx_held(ctx_held)
  );

  efa_tx_recall #(
      .QPN_W(QPN_W)
  ) u_recall (
      .clk(clk),
      .rst(rst),
      .s_sent_valid(ctx_take),
      .s_sent_data(sent_data),
      .s_send_valid(send_valid),
      .s_send_ready(send_ready),
      .s_send_data(send_data),
      .s_send_now(send_now),
      .s_item_valid(other_valid),
      .s_item_ready(other_ready),
      .s_item_data(other_data),
      .response_rd_en(response_rd_en),
      .response_rd_addr(response_rd_addr),
      .response_rd_data(response_rd_data),
      .s_response_live(response_live),
      .s_ctx_used(ctx_used),
      .s_ah_gen(ah_gen),
      .halted_rd_addr(halted_addrs[QPN_W+:QPN_W]),
      .halted_rd_data(halteds[1]),
      .m_item_valid(checks_valid),
      .m_item_ready(checks_ready),
      .m_item_data(checks_data),
      .m_gone_valid(gone_valid),
      .m_gone_ready(gone_ready),
      .m_gone_data(gone_data)
  );

  efa_wqe_check u_wqe_check (
      .clk(clk),
      .rst(rst),
      .m_init_done(check_init),
      .s_cfg_profile(s_cfg_profile),
      .s_mr_valid(s_table_valid[`EFA_TABLE__MR]),
      .s_mr_index(s_table_data[`EFA_TABLE_WR__MR_INDEX]),
      .s_mr_data(s_table_data[`EFA_TABLE_WR__MR_DATA]),
      .s_ah_valid(s_table_valid[`EFA_TABLE__AH]),
      .s_ah_index(s_table_data[`EFA_TABLE_WR__AH_INDEX]),
      .s_ah_data(s_table_data[`EFA_TABLE_WR__AH_DATA]),
      .s_ah_gen(ah_gen),
      .s_item_valid(checks_valid),
      .s_item_ready(checks_ready),
      .s_item_data(checks_data),
      .m_valid(checked_valid),
      .m_ready(checked_ready),
      .m_msg(checked_msg),
      .m_first(checked_first),
      .m_second(checked_second),
      .m_inline(checked_inline),
      .ev_check_valid(ev_valid[`EFA_EV__CHECK]),
      .ev_check_data(ev_data[64*`EFA_EV__CHECK+:64])
  );

  efa_tx #(
      .QPN_W(QPN_W),
      .MTT_W(MTT_W)
  ) u_tx (
      .clk(clk),
      .rst(rst),
      .m_init_done(tx_init),
      .s_cfg_node_id(s_cfg_node_id),
      .s_cfg_mrrs_log(s_cfg_mrrs_log),
      .s_mtt_valid(s_table_valid[`EFA_TABLE__MTT]),
      .s_mtt_index(s_table_data[`EFA_TABLE_WR__MTT_INDEX]),
      .s_mtt_data(s_table_data[`EFA_TABLE_WR__MTT_DATA]),
      .s_valid(checked_valid),
      .s_ready(checked_ready),
      .s_msg(checked_msg),
      .s_first(checked_first),
      .s_second(checked_second),
      .s_inline(checked_inline),
      .m_rd_valid(m_rd_valid[`EFA_DMA_RD_CLIENT__TX]),
      .m_rd_ready(m_rd_ready[`EFA_DMA_RD_CLIENT__TX]),
      .m_rd_data(rd_tx_data),
      .s_rd_cpl_valid(s_rd_cpl_valid[`EFA_DMA_RD_CLIENT__TX]),
      .s_rd_cpl_data(s_rd_cpl_data),
      .halted_rd_addr(halted_addr),
      .halted_rd_data(halted),
      .m_read_err_valid(read_err_valid),
      .m_read_err_qpn(read_err_qpn),
      .m_unused_valid(credit_unused),
      .s_ctx_used(ctx_used),
      .m_valid(out_valid),
      .m_ready(out_ready),
      .m_net(out_net),
      .m_done(out_done),
      .m_first(out_first),
      .m_last(out_last),
      .m_data(out_data),
      .m_keep(out_keep),
      .m_msg(out_msg)
  );

  efa_transport_engine #(
      .QPN_W(QPN_W)
  ) u_transport_engine (
      .s_cfg_paths(s_cfg_paths),
      .s_cfg_tick(s_cfg_tick),
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .m_init_done(transport_init),
      .s_quiesce(s_quiesce),
      .m_net_quiet(m_net_quiet),
      .s_ah_gen(ah_gen),
      .s_ctx_held(ctx_held),
      .m_ctx_used(ctx_used),
      .m_ctx_free(ctx_free),
      .m_ctx_id(ctx_id),
      .s_ctx_take(ctx_take),
      .s_ctx_msg(ctx_msg),
      .s_ctx_bytes(ctx_bytes),
      .s_post_valid(post_valid),
      .s_post_ready(post_ready),
      .s_post_data(post_data),
      .m_popped_valid(popped_valid),
      .m_popped_index(popped_index),
      .m_send_valid(send_valid),
      .m_send_ready(send_ready),
      .m_send_data(send_data),
      .m_send_now(send_now),
      .s_gone_valid(gone_valid),
      .s_gone_ready(gone_ready),
      .s_gone_data(gone_data),
      .s_cfg_profile(s_cfg_profile),
      .m_response_live(response_live),
      .response_rd_en(response_rd_en),
      .response_rd_addr(response_rd_addr),
      .response_rd_data(response_rd_data),
      .m_more_valid(m_more_valid),
      .m_more_ready(m_more_ready),
      .m_more_data(m_more_data),
      .s_placed_valid(s_placed_valid),
      .s_placed_ready(s_placed_ready),
      .s_placed_data(s_placed_data),
      .s_job_valid(s_job_valid),
      .s_job_ready(s_job_ready),
      .s_job_data(s_job_data),
      .m_full(m_full),
      .m_incarnation(m_incarnation),
      .s_valid(out_valid),
      .s_ready(out_ready),
      .s_net(out_net),
      .s_done(out_done),
      .s_first(out_first),
      .s_last(out_last),
      .s_data(out_data),
      .s_keep(out_keep),
      .s_msg(out_msg),
      .m_net_valid(m_net_valid),
      .m_net_ready(m_net_ready),
      .m_net_data(m_net_data),
      .s_ack_tx_valid(s_ack_tx_valid),
      .s_ack_tx_ready(s_ack_tx_ready),
      .s_ack_tx_data(s_ack_tx_data),
      .s_ack_rx_valid(s_ack_rx_valid),
      .s_ack_rx_ready(s_ack_rx_ready),
      .s_ack_rx_data(s_ack_rx_data),
      .s_scan_valid(scan_valid),
      .s_scan_ready(scan_ready),
      .scan_set_rd_addr(scan_set_addr),
      .scan_set_rd_data(scan_set),
      .s_cancel_valid(cancel_valid),
      .s_cancel_ready(cancel_ready),
      .s_cancel_qpn(op_qpn[QPN_W-1:0]),
      .qpc_rd_addr(qpc_rd_addr[3*QPN_W+:QPN_W]),
      .qpc_rd_data(qpc_rd_data[3*`EFA_QPC__W+:`EFA_QPC__W]),
      .completed_rd_addr(completed_addr),
      .completed_rd_data(completed),
      .m_completed_valid(completed_valid),
      .m_completed_qpn(completed_qpn),
      .m_completed_count(completed_count),
      .m_credit_freed(credit_freed),
      .m_fence_valid(fence_valid),
      .m_fence_id(fence_id),
      .m_cpl_valid(m_cpl_valid),
      .m_cpl_ready(m_cpl_ready),
      .m_cpl_data(m_cpl_data),
      .m_st_valid(m_st_valid),
      .m_st_bytes(m_st_bytes),
      .ev_tx_first_valid(ev_valid[`EFA_EV__TX_FIRST]),
      .ev_tx_first_data(ev_data[64*`EFA_EV__TX_FIRST+:64]),
      .ev_tx_last_valid(ev_valid[`EFA_EV__TX_LAST]),
      .ev_tx_last_data(ev_data[64*`EFA_EV__TX_LAST+:64]),
      .ev_ackout_valid(ev_valid[`EFA_EV__ACKOUT]),
      .ev_ackout_data(ev_data[64*`EFA_EV__ACKOUT+:64]),
      .ev_anomaly_ack_valid(ev_valid[`EFA_EV__ANOMALY_ACK]),
      .ev_anomaly_ack_data(ev_data[64*`EFA_EV__ANOMALY_ACK+:64])
  );

  `EFA_STREAM(u_edge_rd_tx, `EFA_DMA_RD__W, clk, rst, m_rd_valid[`EFA_DMA_RD_CLIENT__TX],
              m_rd_ready[`EFA_DMA_RD_CLIENT__TX], rd_tx_data)
  `EFA_STREAM(u_edge_rd_sq, `EFA_DMA_RD__W, clk, rst, m_rd_valid[`EFA_DMA_RD_CLIENT__SQ],
              m_rd_ready[`EFA_DMA_RD_CLIENT__SQ], rd_sq_data)
  `EFA_STREAM(u_edge_net, `EFA_FLIT__W, clk, rst, m_net_valid, m_net_ready, m_net_data)
  `EFA_STREAM(u_edge_cpl, `EFA_CPL__W, clk, rst, m_cpl_valid, m_cpl_ready, m_cpl_data)
  `EFA_STREAM(u_edge_err, `EFA_QPERR__W, clk, rst, m_qperr_valid, m_qperr_ready, m_qperr_data)
  // Proofs contain efa_qp_ctx, which therefore has no check of its own.
  `EFA_STREAM(u_edge_chg, `EFA_QPCHG__W, clk, rst, s_qpchg_valid, s_qpchg_ready, s_qpchg_data)

  wire unused_bits = &{1'b0, s_table_valid, s_table_data, cqn, op_qpn};

endmodule

`default_nettype wire
