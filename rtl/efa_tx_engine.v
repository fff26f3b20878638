// SPDX-License-Identifier: Apache-2.0
// efa_tx_engine - connects the send side: doorbells, LLQ, send WQEs, checks, packets,
// acknowledgements.
//
// In    db_*, llq_*: stores; objects; sq_ctrl_*, drain_* from admin; rd_cpl_*: payload; ack_rx,
//       ack_tx: acknowledgements received and to send
// Out   rd_tx_*: payload reads; rd_sq_*: send WQE reads, with SQ_HOST; m_net; txc: completions;
//       qperr_*: QPs in error; rqdb_*, cqdb_*: doorbells
// Time  docs/timing.md; wires only, except for the priority between two scheduler requests
`include "efa_defs.vh"

module efa_tx_engine #(
    parameter QPN_W  = 6,
    parameter CQN_W  = 7,
    parameter LLQ_AW = 21,
    parameter SQ_HOST = 0
) (
    input wire clk,
    output wire [4*QPN_W-1:0] qpc_send_addr,
    input wire [4*`EFA_QPC__W-1:0] qpc_send_data,
    input wire [15:0] s_cfg_node_id,
    input wire s_cfg_profile,
    output wire m_net_valid,
    input wire m_net_ready,
    output wire [511:0] m_net_data,
    output wire [63:0] m_net_keep,
    output wire m_net_last,
    input wire power_rst,
    input wire core_rst,
    output wire send_init_done,
    input wire quiesce,
    output wire net_quiet,
    input wire [3:0] mrrs_log,
    input wire llq_valid,
    input wire [LLQ_AW-6-1:0] llq_line,
    input wire [15:0] llq_dwen,
    input wire llq_part,
    input wire [511:0] llq_data,
    input wire db_valid,
    input wire [31:0] db_offset,
    input wire [31:0] db_data,
    output wire rd_tx_valid,
    input wire rd_tx_ready,
    output wire [63:0] rd_tx_addr,
    output wire [12:0] rd_tx_len,
    output wire [31:0] rd_tx_cookie,
    output wire rd_sq_valid,
    input wire rd_sq_ready,
    output wire [63:0] rd_sq_addr,
    output wire [12:0] rd_sq_len,
    output wire [31:0] rd_sq_cookie,
    input wire rd_cpl_tx_valid,
    input wire rd_cpl_sq_valid,
    input wire [31:0] rd_cpl_cookie,
    input wire [12:0] rd_cpl_offset,
    input wire [511:0] rd_cpl_data,
    input wire [6:0] rd_cpl_bytes,
    input wire rd_cpl_last,
    input wire rd_cpl_err,
    input wire qpchg_send_valid,
    output wire qpchg_send_ready,
    input wire [QPN_W-1:0] qpchg_qpn,
    input wire [2:0] qpchg_state,
    output wire qperr_send_valid,
    input wire qperr_send_ready,
    output wire [QPN_W-1:0] qperr_send_qpn,
    output wire [3:0] qperr_send_cause,
    input wire cqc_valid,
    input wire [CQN_W-1:0] cqc_cqn,
    input wire [`EFA_CQC__W-1:0] cqc_data,
    input wire mr_valid,
    input wire [`EFA_LIMITS__MR_W-1:0] mr_index,
    input wire [`EFA_MRC__W-1:0] mr_data,
    input wire mtt_valid,
    input wire [`EFA_LIMITS__MTT_W-1:0] mtt_index,
    input wire [51:0] mtt_data,
    input wire ah_valid,
    input wire [`EFA_LIMITS__AH_W-1:0] ah_index,
    input wire [`EFA_AHC__W-1:0] ah_data,
    input wire sq_ctrl_valid,
    output wire sq_ctrl_ready,
    input wire [1:0] sq_ctrl_kind,
    input wire [QPN_W-1:0] sq_ctrl_qpn,
    input wire [`EFA_QPC__W-1:0] sq_ctrl_qpc,
    input wire [57:0] sq_ctrl_base,
    output wire sq_ctrl_busy,
    input wire drain_send_valid,
    output wire drain_send_ready,
    output wire rqdb_valid,
    output wire [QPN_W-1:0] rqdb_qpn,
    output wire [15:0] rqdb_value,
    output wire cqdb_valid,
    output wire [CQN_W-1:0] cqdb_cqn,
    output wire [31:0] cqdb_value,
    output wire txc_valid,
    input wire txc_ready,
    output wire [`EFA_CPL__W-1:0] txc_data,
    input wire ack_tx_valid,
    output wire ack_tx_ready,
    input wire [`EFA_ACK_TX__W-1:0] ack_tx_data,
    input wire ack_rx_valid,
    output wire ack_rx_ready,
    input wire [`EFA_ACK_RX__W-1:0] ack_rx_data,
    output wire st_tx_valid,
    output wire [15:0] st_tx_bytes,
    output wire st_send_valid,
    output wire [15:0] st_send_bytes,
    output wire ev_db_valid,
    output wire [63:0] ev_db_data,
    output wire ev_llq_valid,
    output wire [63:0] ev_llq_data,
    output wire ev_wqe_valid,
    output wire [63:0] ev_wqe_data,
    output wire ev_check_valid,
    output wire [63:0] ev_check_data,
    output wire ev_tx_first_valid,
    output wire [63:0] ev_tx_first_data,
    output wire ev_tx_last_valid,
    output wire [63:0] ev_tx_last_data,
    output wire ev_ackout_valid,
    output wire [63:0] ev_ackout_data,
    output wire [`EFA_LIMITS__MSG_W:0] sends_open
);

  localparam QPS = 1 << QPN_W;
  localparam QPC_W = `EFA_QPC__W;

  wire [QPS-1:0] halted;
  wire [QPS-1:0] flush_ok;
  wire [4*(1<<`EFA_LIMITS__AH_W)-1:0] ah_gen;
  wire ah_gone;

  // Read ports of the contexts.
  wire [QPN_W-1:0] qpc_db_addr;
  wire [QPN_W-1:0] qpc_llq_addr;
  wire [QPN_W-1:0] qpc_sq_addr;
  wire [QPN_W-1:0] qpc_srd_addr;
  assign qpc_send_addr = {qpc_srd_addr, qpc_sq_addr, qpc_llq_addr, qpc_db_addr};

  // Read ports of the indices.
  wire [QPN_W-1:0] prod_llq_addr;
  wire [QPN_W-1:0] prod_sq_addr;
  wire [QPN_W-1:0] count_ops_addr;
  wire [15:0] prod_llq;
  wire [15:0] prod_sq;
  wire [QPN_W-1:0] consumed_addr;
  wire [15:0] consumed;
  wire [15:0] consumed_ops;
  wire [QPN_W-1:0] completed_db_addr;
  wire [15:0] completed_db;
  wire [15:0] completed_ops;

  wire doorbell_init;
  wire llq_init;
  wire check_init;
  wire tx_init;

  wire work_valid;
  wire [QPN_W-1:0] work_qpn;

  // Posted WQEs that the scheduler may fetch.
  wire posted_valid;
  wire [QPN_W-1:0] posted_qpn;
  wire [QPN_W-1:0] posted_addr;
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

  wire clear_prod_valid;
  wire clear_prod_ready;
  wire clear_consumed_valid;
  wire clear_consumed_ready;
  wire clear_completed_valid;
  wire clear_completed_ready;
  wire clear_fault_valid;
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
  wire noticed = qpchg_send_valid && qpchg_send_ready;
  wire notice_err = noticed && qpchg_state == `EFA_ADMIN_QP_STATE__ERR_W3;
  assign qpchg_send_ready = again_ready && fetch_chg_ready;

  // Two clients request a fence: the flush (1) and the drain (0).
  wire flush_fence_valid;
  wire drain_fence_valid;
  wire fence_ready;
  wire fence_valid;
  wire fence_id;
  wire translate_valid;
  wire translate_ready;
  wire [QPS-1:0] scan_set;

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

  wire ctx_ready;
  wire [31:0] ctx_id;
  wire ctx_valid;
  wire [`EFA_TX_MSG__W-1:0] ctx_msg;
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

  assign send_init_done = doorbell_init && llq_init && fetch_init && check_init && tx_init;

  efa_doorbell #(
      .QPN_W(QPN_W),
      .CQN_W(CQN_W)
  ) u_doorbell (
      .clk(clk),
      .rst(core_rst),
      .init_done(doorbell_init),
      .db_valid(db_valid),
      .db_offset(db_offset),
      .db_data(db_data),
      .qpc_addr(qpc_db_addr),
      .qpc_data(qpc_send_data[0+:QPC_W]),
      .cqc_valid(cqc_valid),
      .cqc_cqn(cqc_cqn),
      .cqc_data(cqc_data),
      .completed_addr(completed_db_addr),
      .completed_data(completed_db),
      .s_clear_valid(clear_prod_valid),
      .s_clear_ready(clear_prod_ready),
      .s_clear_qpn(sq_ctrl_qpn),
      .prod_rd_addr({prod_sq_addr, prod_llq_addr}),
      .prod_rd_data({prod_sq, prod_llq}),
      .work_valid(work_valid),
      .work_qpn(work_qpn),
      .err_valid(posted_err_valid),
      .err_qpn(posted_err_qpn),
      .rqdb_valid(rqdb_valid),
      .rqdb_qpn(rqdb_qpn),
      .rqdb_value(rqdb_value),
      .cqdb_valid(cqdb_valid),
      .cqdb_cqn(cqdb_cqn),
      .cqdb_value(cqdb_value),
      .ev_db_valid(ev_db_valid),
      .ev_db_data(ev_db_data)
  );

  // WQEs come by stores into LLQ memory, or with SQ_HOST are fetched from host memory.
  generate
    if (SQ_HOST == 0) begin : g_llq
      efa_llq #(
          .QPN_W (QPN_W),
          .LLQ_AW(LLQ_AW)
      ) u_llq (
          .clk(clk),
          .rst(core_rst),
          .power_rst(power_rst),
          .init_done(llq_init),
          .llq_valid(llq_valid),
          .llq_line(llq_line),
          .llq_dwen(llq_dwen),
          .llq_part(llq_part),
          .llq_data(llq_data),
          .s_op_valid(ring_valid),
          .s_op_ready(ring_ready),
          .s_op_own(ring_own),
          .s_op_disown(ring_disown),
          .s_op_qpn(sq_ctrl_qpn),
          .s_op_qpc(sq_ctrl_qpc),
          .qpc_addr(qpc_llq_addr),
          .qpc_data(qpc_send_data[QPC_W+:QPC_W]),
          .prod_addr(prod_llq_addr),
          .prod_data(prod_llq),
          .consumed_addr(consumed_addr),
          .consumed_data(consumed),
          .rd_en(line_rd_en),
          .rd_line(line_rd_line),
          .rd_data(line_rd_data),
          .rd_parity(line_rd_parity),
          .s_void_valid(void_valid),
          .s_void_ready(void_ready),
          .s_void_line(void_line),
          .s_void_parity(void_parity),
          .err_valid(store_err_valid),
          .err_qpn(store_err_qpn),
          .ev_llq_valid(ev_llq_valid),
          .ev_llq_data(ev_llq_data)
      );

      assign posted_valid = work_valid;
      assign posted_qpn = work_qpn;
      assign posted_data = prod_sq;
      assign prod_sq_addr = posted_addr;
      assign clear_fetch_ready = 1'b1;
      assign fetch_chg_ready = 1'b1;
      assign fetch_drained = 1'b1;
      assign fetch_init = 1'b1;
      assign rd_sq_valid = 1'b0;
      assign rd_sq_addr = 64'd0;
      assign rd_sq_len = 13'd0;
      assign rd_sq_cookie = 32'd0;

      wire unused_fetch = &{1'b0, sq_ctrl_base, rd_sq_ready, rd_cpl_sq_valid};
    end else begin : g_fetch
      wire fill_valid;
      wire [LLQ_AW-6-1:0] fill_line;
      wire fill_parity;
      wire lines_wait;

      efa_sq_buffer #(
          .LLQ_AW(LLQ_AW)
      ) u_lines (
          .clk(clk),
          .rst(core_rst),
          .fill_valid(fill_valid),
          .fill_line(fill_line),
          .fill_parity(fill_parity),
          .fill_data(rd_cpl_data),
          .s_op_valid(ring_valid),
          .s_op_ready(ring_ready),
          .s_op_qpc(sq_ctrl_qpc),
          .rd_en(line_rd_en),
          .rd_line(line_rd_line),
          .rd_data(line_rd_data),
          .rd_parity(line_rd_parity),
          .s_void_valid(void_valid),
          .s_void_ready(void_ready),
          .s_void_line(void_line),
          .s_void_parity(void_parity),
          .waits(lines_wait),
          .llq_valid(llq_valid),
          .llq_line(llq_line),
          .llq_dwen(llq_dwen),
          .ev_llq_valid(ev_llq_valid),
          .ev_llq_data(ev_llq_data)
      );

      efa_sq_fetch #(
          .QPN_W (QPN_W),
          .LLQ_AW(LLQ_AW)
      ) u_fetch (
          .clk(clk),
          .rst(core_rst),
          .init_done(fetch_init),
          .mrrs_log(mrrs_log),
          .doorbell_valid(work_valid),
          .doorbell_qpn(work_qpn),
          .s_chg_valid(qpchg_send_valid),
          .s_chg_ready(fetch_chg_ready),
          .s_chg_qpn(qpchg_qpn),
          .qpc_addr(qpc_llq_addr),
          .qpc_data(qpc_send_data[QPC_W+:QPC_W]),
          .prod_data(prod_llq),
          .s_clear_valid(clear_prod_valid),
          .s_clear_ready(clear_fetch_ready),
          .s_clear_qpn(sq_ctrl_qpn),
          .s_clear_made(ring_own),
          .s_clear_base(sq_ctrl_base),
          .s_drain(drain_send_valid),
          .m_drained(fetch_drained),
          .s_waits(lines_wait),
          .m_rd_valid(rd_sq_valid),
          .m_rd_ready(rd_sq_ready),
          .m_rd_addr(rd_sq_addr),
          .m_rd_len(rd_sq_len),
          .m_rd_cookie(rd_sq_cookie),
          .rd_cpl_valid(rd_cpl_sq_valid),
          .rd_cpl_cookie(rd_cpl_cookie),
          .rd_cpl_offset(rd_cpl_offset),
          .rd_cpl_bytes(rd_cpl_bytes),
          .rd_cpl_last(rd_cpl_last),
          .rd_cpl_err(rd_cpl_err),
          .fill_valid(fill_valid),
          .fill_line(fill_line),
          .fill_parity(fill_parity),
          .count_addr(posted_addr),
          .count_data(posted_data),
          .work_valid(posted_valid),
          .work_qpn(posted_qpn),
          .err_valid(store_err_valid),
          .err_qpn(store_err_qpn)
      );

      assign prod_llq_addr = qpc_llq_addr;
      assign prod_sq_addr = {QPN_W{1'b0}};
      assign consumed_addr = {QPN_W{1'b0}};
      assign llq_init = 1'b1;

      wire unused_llq = &{1'b0, llq_part, llq_data, prod_sq, consumed, ring_disown};
    end
  endgenerate

  efa_sq_sched #(
      .QPN_W (QPN_W),
      .LLQ_AW(LLQ_AW),
      .SQ_HOST(SQ_HOST)
  ) u_sq_sched (
      .clk(clk),
      .rst(core_rst),
      .work_valid(posted_valid),
      .work_qpn(posted_qpn),
      .s_again_valid(qpchg_send_valid || round_again_valid),
      .s_again_ready(again_ready),
      .s_again_qpn(qpchg_send_valid ? qpchg_qpn : round_again_qpn),
      .s_fence_valid(flush_fence_valid || drain_fence_valid),
      .s_fence_ready(fence_ready),
      .s_fence_id(flush_fence_valid),
      .s_clear_valid(clear_consumed_valid),
      .s_clear_ready(clear_consumed_ready),
      .s_clear_qpn(sq_ctrl_qpn),
      .credit_freed(credit_freed),
      .credit_unused(credit_unused),
      .halted(halted),
      .flush_ok(flush_ok),
      .qpc_addr(qpc_sq_addr),
      .qpc_data(qpc_send_data[2*QPC_W+:QPC_W]),
      .prod_addr(posted_addr),
      .prod_data(posted_data),
      .consumed_addr({count_ops_addr, consumed_addr}),
      .consumed_data({consumed_ops, consumed}),
      .rd_en(line_rd_en),
      .rd_line(line_rd_line),
      .rd_data(line_rd_data),
      .rd_parity(line_rd_parity),
      .m_void_valid(void_valid),
      .m_void_ready(void_ready),
      .m_void_line(void_line),
      .m_void_parity(void_parity),
      .incomplete_valid(incomplete_err_valid),
      .incomplete_qpn(incomplete_err_qpn),
      .m_item_valid(item_valid),
      .m_item_ready(item_ready),
      .m_item_data(item_data),
      .sends_open(sends_open),
      .ev_wqe_valid(ev_wqe_valid),
      .ev_wqe_data(ev_wqe_data)
  );

  efa_sq_flush #(
      .QPN_W  (QPN_W),
      .SQ_HOST(SQ_HOST)
  ) u_fault (
      .clk(clk),
      .rst(core_rst),
      .posted_err_valid(posted_err_valid),
      .posted_err_qpn(posted_err_qpn),
      .incomplete_err_valid(incomplete_err_valid),
      .incomplete_err_qpn(incomplete_err_qpn),
      .store_err_valid(store_err_valid),
      .store_err_qpn(store_err_qpn),
      .read_err_valid(read_err_valid),
      .read_err_qpn(read_err_qpn),
      .notice_valid(notice_err),
      .notice_qpn(qpchg_qpn),
      .clear_valid(clear_fault_valid),
      .clear_qpn(sq_ctrl_qpn),
      .ah_gone(ah_gone),
      .halted(halted),
      .flush_ok(flush_ok),
      .qperr_valid(qperr_send_valid),
      .qperr_ready(qperr_send_ready),
      .qperr_qpn(qperr_send_qpn),
      .qperr_cause(qperr_send_cause),
      .m_fence_valid(flush_fence_valid),
      .m_fence_ready(fence_ready),
      .fence_done(fence_valid && fence_id),
      .m_scan_valid(translate_valid),
      .m_scan_ready(translate_ready),
      .m_scan_set(scan_set),
      .m_again_valid(round_again_valid),
      .m_again_ready(again_ready && !qpchg_send_valid),
      .m_again_qpn(round_again_qpn)
  );

  efa_sq_ctrl #(
      .QPN_W(QPN_W)
  ) u_ops (
      .clk(clk),
      .rst(core_rst),
      .s_op_valid(sq_ctrl_valid),
      .s_op_ready(sq_ctrl_ready),
      .s_op_kind(sq_ctrl_kind),
      .s_op_qpn(sq_ctrl_qpn),
      .s_op_busy(sq_ctrl_busy),
      .s_drain_valid(drain_send_valid && fetch_drained),
      .s_drain_ready(drain_send_ready),
      .count_addr(count_ops_addr),
      .consumed_data(consumed_ops),
      .completed_data(completed_ops),
      .clear_prod_valid(clear_prod_valid),
      .clear_prod_ready(clear_prod_ready && clear_fetch_ready),
      .clear_consumed_valid(clear_consumed_valid),
      .clear_consumed_ready(clear_consumed_ready),
      .clear_completed_valid(clear_completed_valid),
      .clear_completed_ready(clear_completed_ready),
      .clear_fault_valid(clear_fault_valid),
      .llq_valid(ring_valid),
      .llq_ready(ring_ready),
      .llq_own(ring_own),
      .llq_disown(ring_disown),
      .cancel_valid(cancel_valid),
      .cancel_ready(cancel_ready),
      .m_fence_valid(drain_fence_valid),
      .m_fence_ready(fence_ready && !flush_fence_valid),
      .fence_done(fence_valid && !fence_id)
  );

  efa_ah_gen u_gen (
      .clk(clk),
      .rst(core_rst),
      .ah_valid(ah_valid),
      .ah_index(ah_index),
      .ah_data(ah_data),
      .gen(ah_gen),
      .gone(ah_gone)
  );

  efa_wqe_check u_check (
      .clk(clk),
      .rst(core_rst),
      .init_done(check_init),
      .s_cfg_profile(s_cfg_profile),
      .mr_valid(mr_valid),
      .mr_index(mr_index),
      .mr_data(mr_data),
      .ah_valid(ah_valid),
      .ah_index(ah_index),
      .ah_data(ah_data),
      .ah_gen(ah_gen),
      .s_item_valid(item_valid),
      .s_item_ready(item_ready),
      .s_item_data(item_data),
      .m_valid(checked_valid),
      .m_ready(checked_ready),
      .m_msg(checked_msg),
      .m_first(checked_first),
      .m_second(checked_second),
      .m_inline(checked_inline),
      .ev_check_valid(ev_check_valid),
      .ev_check_data(ev_check_data)
  );

  efa_tx #(
      .QPN_W(QPN_W)
  ) u_tx (
      .clk(clk),
      .rst(core_rst),
      .init_done(tx_init),
      .s_cfg_node_id(s_cfg_node_id),
      .mrrs_log(mrrs_log),
      .mtt_valid(mtt_valid),
      .mtt_index(mtt_index),
      .mtt_data(mtt_data),
      .s_valid(checked_valid),
      .s_ready(checked_ready),
      .s_msg(checked_msg),
      .s_first(checked_first),
      .s_second(checked_second),
      .s_inline(checked_inline),
      .rd_valid(rd_tx_valid),
      .rd_ready(rd_tx_ready),
      .rd_addr(rd_tx_addr),
      .rd_len(rd_tx_len),
      .rd_cookie(rd_tx_cookie),
      .rd_cpl_valid(rd_cpl_tx_valid),
      .rd_cpl_cookie(rd_cpl_cookie),
      .rd_cpl_offset(rd_cpl_offset),
      .rd_cpl_data(rd_cpl_data),
      .rd_cpl_bytes(rd_cpl_bytes),
      .rd_cpl_last(rd_cpl_last),
      .rd_cpl_err(rd_cpl_err),
      .halted(halted),
      .read_err_valid(read_err_valid),
      .read_err_qpn(read_err_qpn),
      .unused_valid(credit_unused),
      .ctx_ready(ctx_ready),
      .ctx_id(ctx_id),
      .ctx_valid(ctx_valid),
      .ctx_msg(ctx_msg),
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

  efa_net_tx u_net (
      .clk(clk),
      .rst(core_rst),
      .quiesce(quiesce),
      .net_quiet(net_quiet),
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
      .ack_tx_valid(ack_tx_valid),
      .ack_tx_ready(ack_tx_ready),
      .ack_tx_data(ack_tx_data),
      .m_net_valid(m_net_valid),
      .m_net_ready(m_net_ready),
      .m_net_data(m_net_data),
      .m_net_keep(m_net_keep),
      .m_net_last(m_net_last),
      .m_done_valid(done_valid),
      .m_done_ready(done_ready),
      .m_done_msg(done_msg),
      .st_tx_valid(st_tx_valid),
      .st_tx_bytes(st_tx_bytes),
      .ev_tx_first_valid(ev_tx_first_valid),
      .ev_tx_first_data(ev_tx_first_data),
      .ev_tx_last_valid(ev_tx_last_valid),
      .ev_tx_last_data(ev_tx_last_data),
      .ev_ackout_valid(ev_ackout_valid),
      .ev_ackout_data(ev_ackout_data)
  );

  efa_send_tracker #(
      .QPN_W(QPN_W)
  ) u_send_tracker (
      .clk(clk),
      .power_rst(power_rst),
      .rst(core_rst),
      .ctx_ready(ctx_ready),
      .ctx_id(ctx_id),
      .s_ctx_valid(ctx_valid),
      .s_ctx_msg(ctx_msg),
      .ack_rx_valid(ack_rx_valid),
      .ack_rx_ready(ack_rx_ready),
      .ack_rx_data(ack_rx_data),
      .s_done_valid(done_valid),
      .s_done_ready(done_ready),
      .s_done_msg(done_msg),
      .s_scan_valid(translate_valid),
      .s_scan_ready(translate_ready),
      .s_scan_set(scan_set),
      .ah_gen(ah_gen),
      .s_cancel_valid(cancel_valid),
      .s_cancel_ready(cancel_ready),
      .s_cancel_qpn(sq_ctrl_qpn),
      .qpc_addr(qpc_srd_addr),
      .qpc_data(qpc_send_data[3*QPC_W+:QPC_W]),
      .s_clear_valid(clear_completed_valid),
      .s_clear_ready(clear_completed_ready),
      .s_clear_qpn(sq_ctrl_qpn),
      .completed_rd_addr({count_ops_addr, completed_db_addr}),
      .completed_rd_data({completed_ops, completed_db}),
      .freed(credit_freed),
      .fence_valid(fence_valid),
      .fence_id(fence_id),
      .txc_valid(txc_valid),
      .txc_ready(txc_ready),
      .txc_data(txc_data),
      .st_send_valid(st_send_valid),
      .st_send_bytes(st_send_bytes)
  );

endmodule
