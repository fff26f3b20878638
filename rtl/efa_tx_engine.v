// SPDX-License-Identifier: Apache-2.0
// efa_tx_engine - connects the send side: doorbells, LLQ, send WQEs, checks, packets,
// acknowledgements.
//
// In    s_db, s_llq: stores; s_table, s_queue_op, s_drain from admin; s_rd_cpl: payload and send
//       WQEs; s_qpchg: changed QP states; s_ack_rx, s_ack_tx: acknowledgements received and to send
// Out   m_rd: payload reads and, with SQ_HOST, send WQE reads; m_net; m_cpl: completions; m_qperr:
//       QPs in error; m_rqdb, m_cqdb: doorbells; m_st: statistics
// Time  docs/timing.md; wires only, except for the priority between two scheduler requests
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_tx_engine #(
    parameter QPN_W  = 6,
    parameter LLQ_AW = 21,
    parameter SQ_HOST = 0
) (
    input wire clk,
    output wire [4*QPN_W-1:0] qpc_rd_addr,
    input wire [4*`EFA_QPC__W-1:0] qpc_rd_data,
    input wire [15:0] s_cfg_node_id,
    input wire s_cfg_profile,
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
    input wire [`EFA_ACK_TX__W-1:0] s_ack_tx_data,
    input wire s_ack_rx_valid,
    output wire s_ack_rx_ready,
    input wire [`EFA_ACK_RX__W-1:0] s_ack_rx_data,
    output wire [`EFA_STAT__SEND:`EFA_STAT__TX] m_st_valid,
    output wire [2*16-1:0] m_st_bytes,
    output wire [`EFA_EV__TX_VALID] ev_valid,
    output wire [`EFA_EV__TX_DATA] ev_data,
    output wire [`EFA_LIMITS__MSG_W:0] m_sends_open
);

  localparam CQN_W = QPN_W + 1;
  localparam QPC_W = `EFA_QPC__W;

  // Fields of the bundles at the ports.
  wire [11:0] cqn = s_table_data[`EFA_TABLE_WR__CQC_CQN];
  wire [11:0] op_qpn = s_queue_op_data[`EFA_QUEUE_OP__QPN];
  wire [QPC_W-1:0] op_qpc = s_queue_op_data[`EFA_QUEUE_OP__QPC];
  wire [11:0] chg_qpn = s_qpchg_data[`EFA_QPCHG__QPN];
  wire [2:0] chg_state = s_qpchg_data[`EFA_QPCHG__STATE];
  wire [19:0] llq_line = s_llq_data[`EFA_LLQ__LINE];
  wire [QPN_W-1:0] rqdb_qpn;
  wire [CQN_W-1:0] cqdb_cqn;
  wire [QPN_W-1:0] err_qpn;
  wire [`EFA_DMA_RD__W-1:0] rd_tx_data;
  wire [`EFA_DMA_RD__W-1:0] rd_sq_data;
  assign m_rqdb_data[`EFA_RQDB__QPN] = {{12 - QPN_W{1'b0}}, rqdb_qpn};
  assign m_cqdb_data[`EFA_CQDB__CQN] = {{12 - CQN_W{1'b0}}, cqdb_cqn};
  assign m_qperr_data[`EFA_QPERR__QPN] = {{12 - QPN_W{1'b0}}, err_qpn};
  assign m_rd_data = {rd_sq_data, rd_tx_data};

  // Lookups of the state of a queue.
  wire sq_halted;
  wire sq_flush_ok;
  wire [QPN_W-1:0] tx_halted_addr;
  wire tx_halted;
  wire [QPN_W-1:0] scan_set_addr;
  wire scan_set;
  wire [4*(1<<`EFA_LIMITS__AH_W)-1:0] ah_gen;
  wire ah_gone;

  // Read ports of the contexts.
  wire [QPN_W-1:0] qpc_db_addr;
  wire [QPN_W-1:0] qpc_llq_addr;
  wire [QPN_W-1:0] qpc_sq_addr;
  wire [QPN_W-1:0] qpc_srd_addr;
  assign qpc_rd_addr = {qpc_srd_addr, qpc_sq_addr, qpc_llq_addr, qpc_db_addr};

  // Lookups and new values of the indices.
  wire [QPN_W-1:0] prod_llq_addr;
  wire [QPN_W-1:0] prod_sq_addr;
  wire [QPN_W-1:0] count_ops_addr;
  wire [15:0] prod_db;
  wire [15:0] prod_llq;
  wire [15:0] prod_sq;
  wire [QPN_W-1:0] consumed_llq_addr;
  wire [15:0] consumed_llq;
  wire [15:0] consumed_sq;
  wire [15:0] consumed_ops;
  wire [QPN_W-1:0] completed_srd_addr;
  wire [15:0] completed_db;
  wire [15:0] completed_srd;
  wire [15:0] completed_ops;
  wire new_prod_valid;
  wire [QPN_W-1:0] new_prod_qpn;
  wire [15:0] new_prod;
  wire new_consumed_valid;
  wire [QPN_W-1:0] new_consumed_qpn;
  wire [15:0] new_consumed;
  wire new_completed_valid;
  wire [QPN_W-1:0] new_completed_qpn;
  wire [15:0] new_completed;

  wire doorbell_init;
  wire index_init;
  wire llq_init;
  wire check_init;
  wire tx_init;
  wire psn_init;
  wire flush_init;

  wire work_valid;
  wire [QPN_W-1:0] work_qpn;

  // Posted WQEs that the scheduler may fetch.
  wire posted_valid;
  wire [QPN_W-1:0] posted_qpn;
  wire [15:0] posted_data;
  wire fetch_init;
  wire fetch_drained;
  wire fetch_chg_ready;
  wire clear_fetch_ready;

  wire posted_err_valid;
  wire [QPN_W-1:0] posted_err_qpn;
  wire incomplete_err_valid;
  wire [QPN_W-1:0] incomplete_err_qpn;
  wire store_err_valid;
  wire [QPN_W-1:0] store_err_qpn;
  wire read_err_valid;
  wire [QPN_W-1:0] read_err_qpn;

  wire clear_valid;
  wire clear_fetch_valid;
  wire ring_valid;
  wire ring_ready;
  wire ring_own;
  wire ring_disown;
  wire cancel_valid;
  wire cancel_ready;

  // A QP with a new state goes before a QP that the flush returns.
  wire round_again_valid;
  wire [QPN_W-1:0] round_again_qpn;
  wire again_ready;
  wire noticed = s_qpchg_valid && s_qpchg_ready;
  wire notice_err = noticed && chg_state == `EFA_ADMIN_QP_STATE__ERR_W3;
  assign s_qpchg_ready = again_ready && fetch_chg_ready;

  // Two clients request a fence: the flush (1) and the drain (0).
  wire flush_fence_valid;
  wire drain_fence_valid;
  wire fence_ready;
  wire fence_valid;
  wire fence_id;
  wire translate_valid;
  wire translate_ready;

  wire line_rd_en;
  wire [LLQ_AW-6-1:0] line_rd_line;
  wire [511:0] line_rd_data;
  wire [15:0] line_rd_parity;

  wire void_valid;
  wire void_ready;
  wire [LLQ_AW-6-1:0] void_line;
  wire void_parity;

  wire item_valid;
  wire item_ready;
  wire [`EFA_WQE_IN__W-1:0] item_data;
  wire checked_valid;
  wire checked_ready;
  wire [`EFA_TX_MSG__W-1:0] checked_msg;
  wire [`EFA_SGE__W-1:0] checked_first;
  wire [`EFA_SGE__W-1:0] checked_second;
  wire [639:0] checked_inline;

  wire ctx_free;
  wire [31:0] ctx_id;
  wire ctx_take;
  wire [`EFA_TX_MSG__W-1:0] ctx_msg;
  wire psn_rd_en;
  wire [`EFA_LIMITS__NODE_W-1:0] psn_rd_addr;
  wire [31:0] psn_rd_data;
  wire psn_take;
  wire credit_freed;
  wire credit_unused;

  wire out_valid;
  wire out_ready;
  wire out_net;
  wire out_done;
  wire out_first;
  wire out_last;
  wire [511:0] out_data;
  wire [63:0] out_keep;
  wire [`EFA_TX_MSG__W-1:0] out_msg;
  wire done_valid;
  wire done_ready;
  wire [`EFA_TX_MSG__W-1:0] done_msg;

  assign m_init_done = doorbell_init && index_init && llq_init && fetch_init && check_init && tx_init
      && psn_init && flush_init;

  efa_doorbell #(
      .QPN_W(QPN_W),
      .CQN_W(CQN_W)
  ) u_doorbell (
      .clk(clk),
      .rst(rst),
      .m_init_done(doorbell_init),
      .s_db_valid(s_db_valid),
      .s_db_offset(s_db_data[`EFA_DB__OFFSET]),
      .s_db_data(s_db_data[`EFA_DB__DATA]),
      .qpc_rd_addr(qpc_db_addr),
      .qpc_rd_data(qpc_rd_data[0+:QPC_W]),
      .s_cqc_valid(s_table_valid[`EFA_TABLE__CQC]),
      .s_cqc_cqn(cqn[CQN_W-1:0]),
      .s_cqc_data(s_table_data[`EFA_TABLE_WR__CQC_DATA]),
      .prod_rd_data(prod_db),
      .completed_rd_data(completed_db),
      .m_prod_valid(new_prod_valid),
      .m_prod_qpn(new_prod_qpn),
      .m_prod_count(new_prod),
      .m_work_valid(work_valid),
      .m_work_qpn(work_qpn),
      .m_err_valid(posted_err_valid),
      .m_err_qpn(posted_err_qpn),
      .m_rqdb_valid(m_rqdb_valid),
      .m_rqdb_qpn(rqdb_qpn),
      .m_rqdb_value(m_rqdb_data[`EFA_RQDB__VALUE]),
      .m_cqdb_valid(m_cqdb_valid),
      .m_cqdb_cqn(cqdb_cqn),
      .m_cqdb_value(m_cqdb_data[`EFA_CQDB__VALUE]),
      .ev_db_valid(ev_valid[`EFA_EV__DB]),
      .ev_db_data(ev_data[64*`EFA_EV__DB+:64])
  );

  efa_sq_index #(
      .QPN_W(QPN_W)
  ) u_index (
      .clk(clk),
      .rst(rst),
      .m_init_done(index_init),
      .s_prod_valid(new_prod_valid),
      .s_prod_qpn(new_prod_qpn),
      .s_prod_count(new_prod),
      .s_consumed_valid(new_consumed_valid),
      .s_consumed_qpn(new_consumed_qpn),
      .s_consumed_count(new_consumed),
      .s_completed_valid(new_completed_valid),
      .s_completed_qpn(new_completed_qpn),
      .s_completed_count(new_completed),
      .s_clear_valid(clear_valid),
      .s_clear_qpn(op_qpn[QPN_W-1:0]),
      .prod_rd_addr({prod_sq_addr, prod_llq_addr, qpc_db_addr}),
      .prod_rd_data({prod_sq, prod_llq, prod_db}),
      .consumed_rd_addr({count_ops_addr, consumed_llq_addr, qpc_sq_addr}),
      .consumed_rd_data({consumed_ops, consumed_llq, consumed_sq}),
      .completed_rd_addr({count_ops_addr, completed_srd_addr, qpc_db_addr}),
      .completed_rd_data({completed_ops, completed_srd, completed_db})
  );

  // WQEs come by stores into LLQ memory, or with SQ_HOST are fetched from host memory.
  generate
    if (SQ_HOST == 0) begin : g_llq
      efa_llq #(
          .QPN_W (QPN_W),
          .LLQ_AW(LLQ_AW)
      ) u_llq (
          .clk(clk),
          .rst(rst),
          .rst_por(rst_por),
          .m_init_done(llq_init),
          .s_llq_valid(s_llq_valid),
          .s_llq_line(llq_line[LLQ_AW-6-1:0]),
          .s_llq_dwen(s_llq_data[`EFA_LLQ__DWEN]),
          .s_llq_part(s_llq_data[`EFA_LLQ__PART]),
          .s_llq_data(s_llq_data[`EFA_LLQ__DATA]),
          .s_op_valid(ring_valid),
          .s_op_ready(ring_ready),
          .s_op_own(ring_own),
          .s_op_disown(ring_disown),
          .s_op_qpn(op_qpn[QPN_W-1:0]),
          .s_op_qpc(op_qpc),
          .qpc_rd_addr(qpc_llq_addr),
          .qpc_rd_data(qpc_rd_data[QPC_W+:QPC_W]),
          .prod_rd_addr(prod_llq_addr),
          .prod_rd_data(prod_llq),
          .consumed_rd_addr(consumed_llq_addr),
          .consumed_rd_data(consumed_llq),
          .line_rd_en(line_rd_en),
          .line_rd_addr(line_rd_line),
          .line_rd_data(line_rd_data),
          .line_rd_parity(line_rd_parity),
          .s_void_valid(void_valid),
          .s_void_ready(void_ready),
          .s_void_line(void_line),
          .s_void_parity(void_parity),
          .m_err_valid(store_err_valid),
          .m_err_qpn(store_err_qpn),
          .ev_llq_valid(ev_valid[`EFA_EV__LLQ]),
          .ev_llq_data(ev_data[64*`EFA_EV__LLQ+:64])
      );

      assign posted_valid = work_valid;
      assign posted_qpn = work_qpn;
      assign posted_data = prod_sq;
      assign prod_sq_addr = qpc_sq_addr;
      assign clear_fetch_ready = 1'b1;
      assign fetch_chg_ready = 1'b1;
      assign fetch_drained = 1'b1;
      assign fetch_init = 1'b1;
      assign m_rd_valid[`EFA_DMA_RD_CLIENT__SQ] = 1'b0;
      assign rd_sq_data = {`EFA_DMA_RD__W{1'b0}};

      wire unused_fetch = &{
        1'b0, clear_fetch_valid, m_rd_ready[`EFA_DMA_RD_CLIENT__SQ], s_rd_cpl_valid[`EFA_DMA_RD_CLIENT__SQ]
      };
    end else begin : g_fetch
      wire fill_valid;
      wire [LLQ_AW-6-1:0] fill_line;
      wire fill_parity;
      wire lines_wait;

      efa_sq_buffer #(
          .LLQ_AW(LLQ_AW)
      ) u_lines (
          .clk(clk),
          .rst(rst),
          .s_fill_valid(fill_valid),
          .s_fill_line(fill_line),
          .s_fill_parity(fill_parity),
          .s_fill_data(s_rd_cpl_data[`EFA_DMA_RD_CPL__DATA]),
          .s_op_valid(ring_valid),
          .s_op_ready(ring_ready),
          .s_op_qpc(op_qpc),
          .line_rd_en(line_rd_en),
          .line_rd_addr(line_rd_line),
          .line_rd_data(line_rd_data),
          .line_rd_parity(line_rd_parity),
          .s_void_valid(void_valid),
          .s_void_ready(void_ready),
          .s_void_line(void_line),
          .s_void_parity(void_parity),
          .m_waits(lines_wait),
          .s_llq_valid(s_llq_valid),
          .s_llq_line(llq_line[LLQ_AW-6-1:0]),
          .s_llq_dwen(s_llq_data[`EFA_LLQ__DWEN]),
          .ev_llq_valid(ev_valid[`EFA_EV__LLQ]),
          .ev_llq_data(ev_data[64*`EFA_EV__LLQ+:64])
      );

      efa_sq_fetch #(
          .QPN_W (QPN_W),
          .LLQ_AW(LLQ_AW)
      ) u_fetch (
          .clk(clk),
          .rst(rst),
          .m_init_done(fetch_init),
          .s_cfg_mrrs_log(s_cfg_mrrs_log),
          .s_doorbell_valid(work_valid),
          .s_doorbell_qpn(work_qpn),
          .s_chg_valid(s_qpchg_valid),
          .s_chg_ready(fetch_chg_ready),
          .s_chg_qpn(chg_qpn[QPN_W-1:0]),
          .qpc_rd_addr(qpc_llq_addr),
          .qpc_rd_data(qpc_rd_data[QPC_W+:QPC_W]),
          .prod_rd_data(prod_llq),
          .s_clear_valid(clear_fetch_valid),
          .s_clear_ready(clear_fetch_ready),
          .s_clear_qpn(op_qpn[QPN_W-1:0]),
          .s_clear_made(ring_own),
          .s_clear_base(s_queue_op_data[`EFA_QUEUE_OP__BASE]),
          .s_drain(s_drain_valid),
          .m_drained(fetch_drained),
          .s_waits(lines_wait),
          .m_rd_valid(m_rd_valid[`EFA_DMA_RD_CLIENT__SQ]),
          .m_rd_ready(m_rd_ready[`EFA_DMA_RD_CLIENT__SQ]),
          .m_rd_addr(rd_sq_data[`EFA_DMA_RD__ADDR]),
          .m_rd_len(rd_sq_data[`EFA_DMA_RD__LEN]),
          .m_rd_cookie(rd_sq_data[`EFA_DMA_RD__COOKIE]),
          .s_rd_cpl_valid(s_rd_cpl_valid[`EFA_DMA_RD_CLIENT__SQ]),
          .s_rd_cpl_cookie(s_rd_cpl_data[`EFA_DMA_RD_CPL__COOKIE]),
          .s_rd_cpl_offset(s_rd_cpl_data[`EFA_DMA_RD_CPL__OFFSET]),
          .s_rd_cpl_bytes(s_rd_cpl_data[`EFA_DMA_RD_CPL__BYTES]),
          .s_rd_cpl_last(s_rd_cpl_data[`EFA_DMA_RD_CPL__LAST]),
          .s_rd_cpl_err(s_rd_cpl_data[`EFA_DMA_RD_CPL__ERR]),
          .m_fill_valid(fill_valid),
          .m_fill_line(fill_line),
          .m_fill_parity(fill_parity),
          .count_rd_addr(qpc_sq_addr),
          .count_rd_data(posted_data),
          .m_work_valid(posted_valid),
          .m_work_qpn(posted_qpn),
          .m_err_valid(store_err_valid),
          .m_err_qpn(store_err_qpn)
      );

      assign prod_llq_addr = qpc_llq_addr;
      assign prod_sq_addr = {QPN_W{1'b0}};
      assign consumed_llq_addr = {QPN_W{1'b0}};
      assign llq_init = 1'b1;

      wire unused_llq = &{1'b0, prod_sq, consumed_llq, ring_disown};
    end
  endgenerate

  efa_sq_sched #(
      .QPN_W (QPN_W),
      .LLQ_AW(LLQ_AW),
      .SQ_HOST(SQ_HOST)
  ) u_sq_sched (
      .clk(clk),
      .rst(rst),
      .s_work_valid(posted_valid),
      .s_work_qpn(posted_qpn),
      .s_again_valid(s_qpchg_valid || round_again_valid),
      .s_again_ready(again_ready),
      .s_again_qpn(s_qpchg_valid ? chg_qpn[QPN_W-1:0] : round_again_qpn),
      .s_fence_valid(flush_fence_valid || drain_fence_valid),
      .s_fence_ready(fence_ready),
      .s_fence_id(flush_fence_valid),
      .s_clear_valid(clear_valid),
      .s_clear_qpn(op_qpn[QPN_W-1:0]),
      .s_credit_freed(credit_freed),
      .s_credit_unused(credit_unused),
      .qpc_rd_addr(qpc_sq_addr),
      .qpc_rd_data(qpc_rd_data[2*QPC_W+:QPC_W]),
      .halted_rd_data(sq_halted),
      .flush_ok_rd_data(sq_flush_ok),
      .prod_rd_data(posted_data),
      .consumed_rd_data(consumed_sq),
      .m_consumed_valid(new_consumed_valid),
      .m_consumed_qpn(new_consumed_qpn),
      .m_consumed_count(new_consumed),
      .line_rd_en(line_rd_en),
      .line_rd_addr(line_rd_line),
      .line_rd_data(line_rd_data),
      .line_rd_parity(line_rd_parity),
      .m_void_valid(void_valid),
      .m_void_ready(void_ready),
      .m_void_line(void_line),
      .m_void_parity(void_parity),
      .m_incomplete_valid(incomplete_err_valid),
      .m_incomplete_qpn(incomplete_err_qpn),
      .m_item_valid(item_valid),
      .m_item_ready(item_ready),
      .m_item_data(item_data),
      .m_sends_open(m_sends_open),
      .ev_wqe_valid(ev_valid[`EFA_EV__WQE]),
      .ev_wqe_data(ev_data[64*`EFA_EV__WQE+:64])
  );

  efa_sq_flush #(
      .QPN_W  (QPN_W),
      .SQ_HOST(SQ_HOST)
  ) u_fault (
      .clk(clk),
      .rst(rst),
      .m_init_done(flush_init),
      .s_posted_err_valid(posted_err_valid),
      .s_posted_err_qpn(posted_err_qpn),
      .s_incomplete_err_valid(incomplete_err_valid),
      .s_incomplete_err_qpn(incomplete_err_qpn),
      .s_store_err_valid(store_err_valid),
      .s_store_err_qpn(store_err_qpn),
      .s_read_err_valid(read_err_valid),
      .s_read_err_qpn(read_err_qpn),
      .s_notice_valid(notice_err),
      .s_notice_qpn(chg_qpn[QPN_W-1:0]),
      .s_clear_valid(clear_valid),
      .s_clear_qpn(op_qpn[QPN_W-1:0]),
      .s_ah_gone(ah_gone),
      .halted_rd_addr({tx_halted_addr, qpc_sq_addr}),
      .halted_rd_data({tx_halted, sq_halted}),
      .flush_ok_rd_addr(qpc_sq_addr),
      .flush_ok_rd_data(sq_flush_ok),
      .m_qperr_valid(m_qperr_valid),
      .m_qperr_ready(m_qperr_ready),
      .m_qperr_qpn(err_qpn),
      .m_qperr_cause(m_qperr_data[`EFA_QPERR__CAUSE]),
      .m_fence_valid(flush_fence_valid),
      .m_fence_ready(fence_ready),
      .s_fence_done(fence_valid && fence_id),
      .m_scan_valid(translate_valid),
      .m_scan_ready(translate_ready),
      .scan_set_rd_addr(scan_set_addr),
      .scan_set_rd_data(scan_set),
      .m_again_valid(round_again_valid),
      .m_again_ready(again_ready && !s_qpchg_valid),
      .m_again_qpn(round_again_qpn)
  );

  efa_sq_ctrl #(
      .QPN_W(QPN_W)
  ) u_ops (
      .clk(clk),
      .rst(rst),
      .s_op_valid(s_queue_op_valid),
      .s_op_ready(s_queue_op_ready),
      .s_op_kind(s_queue_op_data[`EFA_QUEUE_OP__KIND]),
      .s_op_qpn(op_qpn[QPN_W-1:0]),
      .m_op_busy(m_queue_op_busy),
      .s_drain_valid(s_drain_valid && fetch_drained),
      .s_drain_ready(s_drain_ready),
      .count_rd_addr(count_ops_addr),
      .consumed_rd_data(consumed_ops),
      .completed_rd_data(completed_ops),
      .m_clear_valid(clear_valid),
      .m_fetch_valid(clear_fetch_valid),
      .m_fetch_ready(clear_fetch_ready),
      .m_llq_valid(ring_valid),
      .m_llq_ready(ring_ready),
      .m_llq_own(ring_own),
      .m_llq_disown(ring_disown),
      .m_cancel_valid(cancel_valid),
      .m_cancel_ready(cancel_ready),
      .m_fence_valid(drain_fence_valid),
      .m_fence_ready(fence_ready && !flush_fence_valid),
      .s_fence_done(fence_valid && !fence_id)
  );

  efa_ah_gen u_gen (
      .clk(clk),
      .rst(rst),
      .s_ah_valid(s_table_valid[`EFA_TABLE__AH]),
      .s_ah_index(s_table_data[`EFA_TABLE_WR__AH_INDEX]),
      .s_ah_data(s_table_data[`EFA_TABLE_WR__AH_DATA]),
      .m_ah_gen(ah_gen),
      .m_ah_gone(ah_gone)
  );

  efa_wqe_check u_check (
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
      .s_item_valid(item_valid),
      .s_item_ready(item_ready),
      .s_item_data(item_data),
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
      .QPN_W(QPN_W)
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
      .halted_rd_addr(tx_halted_addr),
      .halted_rd_data(tx_halted),
      .m_read_err_valid(read_err_valid),
      .m_read_err_qpn(read_err_qpn),
      .m_unused_valid(credit_unused),
      .s_ctx_free(ctx_free),
      .s_ctx_id(ctx_id),
      .m_ctx_take(ctx_take),
      .m_ctx_msg(ctx_msg),
      .psn_rd_en(psn_rd_en),
      .psn_rd_addr(psn_rd_addr),
      .psn_rd_data(psn_rd_data),
      .m_psn_take(psn_take),
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

  efa_psn u_psn (
      .clk(clk),
      .rst(rst),
      .m_init_done(psn_init),
      .psn_rd_en(psn_rd_en),
      .psn_rd_addr(psn_rd_addr),
      .psn_rd_data(psn_rd_data),
      .s_take(psn_take)
  );

  efa_net_tx u_net (
      .clk(clk),
      .rst(rst),
      .s_quiesce(s_quiesce),
      .m_net_quiet(m_net_quiet),
      .s_cfg_node_id(s_cfg_node_id),
      .s_valid(out_valid),
      .s_ready(out_ready),
      .s_net(out_net),
      .s_done(out_done),
      .s_first(out_first),
      .s_last(out_last),
      .s_data(out_data),
      .s_keep(out_keep),
      .s_msg(out_msg),
      .s_ack_tx_valid(s_ack_tx_valid),
      .s_ack_tx_ready(s_ack_tx_ready),
      .s_ack_tx_data(s_ack_tx_data),
      .m_net_valid(m_net_valid),
      .m_net_ready(m_net_ready),
      .m_net_data(m_net_data[`EFA_FLIT__DATA]),
      .m_net_keep(m_net_data[`EFA_FLIT__KEEP]),
      .m_net_last(m_net_data[`EFA_FLIT__LAST]),
      .m_done_valid(done_valid),
      .m_done_ready(done_ready),
      .m_done_msg(done_msg),
      .st_tx_valid(m_st_valid[`EFA_STAT__TX]),
      .st_tx_bytes(m_st_bytes[16*`EFA_STAT__TX+:16]),
      .ev_tx_first_valid(ev_valid[`EFA_EV__TX_FIRST]),
      .ev_tx_first_data(ev_data[64*`EFA_EV__TX_FIRST+:64]),
      .ev_tx_last_valid(ev_valid[`EFA_EV__TX_LAST]),
      .ev_tx_last_data(ev_data[64*`EFA_EV__TX_LAST+:64]),
      .ev_ackout_valid(ev_valid[`EFA_EV__ACKOUT]),
      .ev_ackout_data(ev_data[64*`EFA_EV__ACKOUT+:64])
  );

  efa_send_tracker #(
      .QPN_W(QPN_W)
  ) u_send_tracker (
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .m_ctx_free(ctx_free),
      .m_ctx_id(ctx_id),
      .s_ctx_take(ctx_take),
      .s_ctx_msg(ctx_msg),
      .s_ack_rx_valid(s_ack_rx_valid),
      .s_ack_rx_ready(s_ack_rx_ready),
      .s_ack_rx_data(s_ack_rx_data),
      .s_done_valid(done_valid),
      .s_done_ready(done_ready),
      .s_done_msg(done_msg),
      .s_scan_valid(translate_valid),
      .s_scan_ready(translate_ready),
      .scan_set_rd_addr(scan_set_addr),
      .scan_set_rd_data(scan_set),
      .s_ah_gen(ah_gen),
      .s_cancel_valid(cancel_valid),
      .s_cancel_ready(cancel_ready),
      .s_cancel_qpn(op_qpn[QPN_W-1:0]),
      .qpc_rd_addr(qpc_srd_addr),
      .qpc_rd_data(qpc_rd_data[3*QPC_W+:QPC_W]),
      .completed_rd_addr(completed_srd_addr),
      .completed_rd_data(completed_srd),
      .m_completed_valid(new_completed_valid),
      .m_completed_qpn(new_completed_qpn),
      .m_completed_count(new_completed),
      .m_freed(credit_freed),
      .m_fence_valid(fence_valid),
      .m_fence_id(fence_id),
      .m_txc_valid(m_cpl_valid),
      .m_txc_ready(m_cpl_ready),
      .m_txc_data(m_cpl_data),
      .st_send_valid(m_st_valid[`EFA_STAT__SEND]),
      .st_send_bytes(m_st_bytes[16*`EFA_STAT__SEND+:16])
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

  wire unused_bits = &{1'b0, llq_line, s_llq_data, s_table_valid, s_table_data, cqn, op_qpn, chg_qpn, s_queue_op_data};

endmodule

`default_nettype wire
