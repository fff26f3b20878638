// SPDX-License-Identifier: Apache-2.0
// efa_send - connects the send side: doorbells, LLQ, send WQEs, checks, packets, acknowledgements.
//
// In    db_*, llq_*: stores; objects; sqop_*, drain_* from admin; rdc_*: payload; acki, acko:
//       acknowledgements received and to send
// Out   rd_tx_*: payload reads; rd_sq_*: send WQE reads, with SQ_HOST; m_net; txc: completions;
//       qperr_*: QPs in error; rqdb_*, cqdb_*: doorbells
// Time  docs/timing.md; wires only, except for the priority between two scheduler requests
`include "efa_defs.vh"

module efa_send #(
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
    input wire rdc_tx_valid,
    input wire rdc_sq_valid,
    input wire [31:0] rdc_cookie,
    input wire [12:0] rdc_offset,
    input wire [511:0] rdc_data,
    input wire [6:0] rdc_bytes,
    input wire rdc_last,
    input wire rdc_err,
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
    input wire sqop_valid,
    output wire sqop_ready,
    input wire [1:0] sqop_kind,
    input wire [QPN_W-1:0] sqop_qpn,
    input wire [`EFA_QPC__W-1:0] sqop_qpc,
    input wire [57:0] sqop_base,
    output wire sqop_busy,
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
    input wire acko_valid,
    output wire acko_ready,
    input wire [`EFA_ACKO__W-1:0] acko_data,
    input wire acki_valid,
    output wire acki_ready,
    input wire [`EFA_ACKI__W-1:0] acki_data,
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
    output wire ev_txf_valid,
    output wire [63:0] ev_txf_data,
    output wire ev_txl_valid,
    output wire [63:0] ev_txl_data,
    output wire ev_ackout_valid,
    output wire [63:0] ev_ackout_data,
    output wire [`EFA_LIMITS__MSG_W:0] sends_open
);

  localparam QPS = 1 << QPN_W;
  localparam QPC_W = `EFA_QPC__W;

  wire [QPS-1:0] down;
  wire [QPS-1:0] flush_ok;
  wire [4*(1<<`EFA_LIMITS__AH_W)-1:0] ah_age;
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
  wire [QPN_W-1:0] taken_addr;
  wire [15:0] taken;
  wire [15:0] taken_ops;
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

  wire rung_err_valid;
  wire [QPN_W-1:0] rung_err_qpn;
  wire torn_err_valid;
  wire [QPN_W-1:0] torn_err_qpn;
  wire store_err_valid;
  wire [QPN_W-1:0] store_err_qpn;
  wire read_err_valid;
  wire [QPN_W-1:0] read_err_qpn;

  wire clear_prod_valid;
  wire clear_prod_ready;
  wire clear_taken_valid;
  wire clear_taken_ready;
  wire clear_completed_valid;
  wire clear_completed_ready;
  wire clear_fault_valid;
  wire ring_valid;
  wire ring_ready;
  wire ring_own;
  wire ring_disown;
  wire purge_valid;
  wire purge_ready;

  // A QP with a new state goes before a QP that the flush returns.
  wire round_again_valid;
  wire [QPN_W-1:0] round_again_qpn;
  wire again_ready;
  wire noticed = qpchg_send_valid && qpchg_send_ready;
  wire notice_err = noticed && qpchg_state == `EFA_ADMIN_QP_STATE__ERR_W3;
  assign qpchg_send_ready = again_ready && fetch_chg_ready;

  // Two clients request a fence: the flush (1) and the drain (0).
  wire flush_mark_valid;
  wire drain_mark_valid;
  wire mark_ready;
  wire mark_valid;
  wire mark_id;
  wire walk_valid;
  wire walk_ready;
  wire [QPS-1:0] walk_set;

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
  wire [`EFA_WQI__W-1:0] item_data;
  wire checked_valid;
  wire checked_ready;
  wire [`EFA_TXM__W-1:0] checked_msg;
  wire [`EFA_SGE__W-1:0] checked_first;
  wire [`EFA_SGE__W-1:0] checked_second;
  wire [639:0] checked_inline;

  wire ctx_ready;
  wire [31:0] ctx_id;
  wire ctx_valid;
  wire [`EFA_TXM__W-1:0] ctx_msg;
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
  wire [`EFA_TXM__W-1:0] out_msg;
  wire done_valid;
  wire done_ready;
  wire [`EFA_TXM__W-1:0] done_msg;

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
      .s_clear_qpn(sqop_qpn),
      .prod_rd_addr({prod_sq_addr, prod_llq_addr}),
      .prod_rd_data({prod_sq, prod_llq}),
      .work_valid(work_valid),
      .work_qpn(work_qpn),
      .err_valid(rung_err_valid),
      .err_qpn(rung_err_qpn),
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
          .s_op_qpn(sqop_qpn),
          .s_op_qpc(sqop_qpc),
          .qpc_addr(qpc_llq_addr),
          .qpc_data(qpc_send_data[QPC_W+:QPC_W]),
          .prod_addr(prod_llq_addr),
          .prod_data(prod_llq),
          .taken_addr(taken_addr),
          .taken_data(taken),
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

      wire unused_fetch = &{1'b0, sqop_base, rd_sq_ready, rdc_sq_valid};
    end else begin : g_fetch
      wire fill_valid;
      wire [LLQ_AW-6-1:0] fill_line;
      wire fill_parity;
      wire lines_wait;

      efa_sq_lines #(
          .LLQ_AW(LLQ_AW)
      ) u_lines (
          .clk(clk),
          .rst(core_rst),
          .fill_valid(fill_valid),
          .fill_line(fill_line),
          .fill_parity(fill_parity),
          .fill_data(rdc_data),
          .s_op_valid(ring_valid),
          .s_op_ready(ring_ready),
          .s_op_qpc(sqop_qpc),
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
          .rung_valid(work_valid),
          .rung_qpn(work_qpn),
          .s_chg_valid(qpchg_send_valid),
          .s_chg_ready(fetch_chg_ready),
          .s_chg_qpn(qpchg_qpn),
          .qpc_addr(qpc_llq_addr),
          .qpc_data(qpc_send_data[QPC_W+:QPC_W]),
          .prod_data(prod_llq),
          .s_clear_valid(clear_prod_valid),
          .s_clear_ready(clear_fetch_ready),
          .s_clear_qpn(sqop_qpn),
          .s_clear_made(ring_own),
          .s_clear_base(sqop_base),
          .s_drain(drain_send_valid),
          .m_drained(fetch_drained),
          .s_waits(lines_wait),
          .m_rd_valid(rd_sq_valid),
          .m_rd_ready(rd_sq_ready),
          .m_rd_addr(rd_sq_addr),
          .m_rd_len(rd_sq_len),
          .m_rd_cookie(rd_sq_cookie),
          .rdc_valid(rdc_sq_valid),
          .rdc_cookie(rdc_cookie),
          .rdc_offset(rdc_offset),
          .rdc_bytes(rdc_bytes),
          .rdc_last(rdc_last),
          .rdc_err(rdc_err),
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
      assign taken_addr = {QPN_W{1'b0}};
      assign llq_init = 1'b1;

      wire unused_llq = &{1'b0, llq_part, llq_data, prod_sq, taken, ring_disown};
    end
  endgenerate

  efa_sq #(
      .QPN_W (QPN_W),
      .LLQ_AW(LLQ_AW),
      .SQ_HOST(SQ_HOST)
  ) u_sq (
      .clk(clk),
      .rst(core_rst),
      .work_valid(posted_valid),
      .work_qpn(posted_qpn),
      .s_again_valid(qpchg_send_valid || round_again_valid),
      .s_again_ready(again_ready),
      .s_again_qpn(qpchg_send_valid ? qpchg_qpn : round_again_qpn),
      .s_mark_valid(flush_mark_valid || drain_mark_valid),
      .s_mark_ready(mark_ready),
      .s_mark_id(flush_mark_valid),
      .s_clear_valid(clear_taken_valid),
      .s_clear_ready(clear_taken_ready),
      .s_clear_qpn(sqop_qpn),
      .credit_freed(credit_freed),
      .credit_unused(credit_unused),
      .down(down),
      .flush_ok(flush_ok),
      .qpc_addr(qpc_sq_addr),
      .qpc_data(qpc_send_data[2*QPC_W+:QPC_W]),
      .prod_addr(posted_addr),
      .prod_data(posted_data),
      .taken_addr({count_ops_addr, taken_addr}),
      .taken_data({taken_ops, taken}),
      .rd_en(line_rd_en),
      .rd_line(line_rd_line),
      .rd_data(line_rd_data),
      .rd_parity(line_rd_parity),
      .m_void_valid(void_valid),
      .m_void_ready(void_ready),
      .m_void_line(void_line),
      .m_void_parity(void_parity),
      .torn_valid(torn_err_valid),
      .torn_qpn(torn_err_qpn),
      .m_item_valid(item_valid),
      .m_item_ready(item_ready),
      .m_item_data(item_data),
      .sends_open(sends_open),
      .ev_wqe_valid(ev_wqe_valid),
      .ev_wqe_data(ev_wqe_data)
  );

  efa_sq_fault #(
      .QPN_W  (QPN_W),
      .SQ_HOST(SQ_HOST)
  ) u_fault (
      .clk(clk),
      .rst(core_rst),
      .rung_err_valid(rung_err_valid),
      .rung_err_qpn(rung_err_qpn),
      .torn_err_valid(torn_err_valid),
      .torn_err_qpn(torn_err_qpn),
      .store_err_valid(store_err_valid),
      .store_err_qpn(store_err_qpn),
      .read_err_valid(read_err_valid),
      .read_err_qpn(read_err_qpn),
      .notice_valid(notice_err),
      .notice_qpn(qpchg_qpn),
      .clear_valid(clear_fault_valid),
      .clear_qpn(sqop_qpn),
      .ah_gone(ah_gone),
      .down(down),
      .flush_ok(flush_ok),
      .qperr_valid(qperr_send_valid),
      .qperr_ready(qperr_send_ready),
      .qperr_qpn(qperr_send_qpn),
      .qperr_cause(qperr_send_cause),
      .m_mark_valid(flush_mark_valid),
      .m_mark_ready(mark_ready),
      .mark_done(mark_valid && mark_id),
      .m_walk_valid(walk_valid),
      .m_walk_ready(walk_ready),
      .m_walk_set(walk_set),
      .m_again_valid(round_again_valid),
      .m_again_ready(again_ready && !qpchg_send_valid),
      .m_again_qpn(round_again_qpn)
  );

  efa_sq_ops #(
      .QPN_W(QPN_W)
  ) u_ops (
      .clk(clk),
      .rst(core_rst),
      .s_op_valid(sqop_valid),
      .s_op_ready(sqop_ready),
      .s_op_kind(sqop_kind),
      .s_op_qpn(sqop_qpn),
      .s_op_busy(sqop_busy),
      .s_drain_valid(drain_send_valid && fetch_drained),
      .s_drain_ready(drain_send_ready),
      .count_addr(count_ops_addr),
      .taken_data(taken_ops),
      .completed_data(completed_ops),
      .clear_prod_valid(clear_prod_valid),
      .clear_prod_ready(clear_prod_ready && clear_fetch_ready),
      .clear_taken_valid(clear_taken_valid),
      .clear_taken_ready(clear_taken_ready),
      .clear_completed_valid(clear_completed_valid),
      .clear_completed_ready(clear_completed_ready),
      .clear_fault_valid(clear_fault_valid),
      .llq_valid(ring_valid),
      .llq_ready(ring_ready),
      .llq_own(ring_own),
      .llq_disown(ring_disown),
      .purge_valid(purge_valid),
      .purge_ready(purge_ready),
      .m_mark_valid(drain_mark_valid),
      .m_mark_ready(mark_ready && !flush_mark_valid),
      .mark_done(mark_valid && !mark_id)
  );

  efa_ah_age u_age (
      .clk(clk),
      .rst(core_rst),
      .ah_valid(ah_valid),
      .ah_index(ah_index),
      .ah_data(ah_data),
      .age(ah_age),
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
      .ah_age(ah_age),
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
      .rdc_valid(rdc_tx_valid),
      .rdc_cookie(rdc_cookie),
      .rdc_offset(rdc_offset),
      .rdc_data(rdc_data),
      .rdc_bytes(rdc_bytes),
      .rdc_last(rdc_last),
      .rdc_err(rdc_err),
      .down(down),
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

  efa_net_out u_net (
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
      .acko_valid(acko_valid),
      .acko_ready(acko_ready),
      .acko_data(acko_data),
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
      .ev_txf_valid(ev_txf_valid),
      .ev_txf_data(ev_txf_data),
      .ev_txl_valid(ev_txl_valid),
      .ev_txl_data(ev_txl_data),
      .ev_ackout_valid(ev_ackout_valid),
      .ev_ackout_data(ev_ackout_data)
  );

  efa_srd #(
      .QPN_W(QPN_W)
  ) u_srd (
      .clk(clk),
      .power_rst(power_rst),
      .rst(core_rst),
      .ctx_ready(ctx_ready),
      .ctx_id(ctx_id),
      .s_ctx_valid(ctx_valid),
      .s_ctx_msg(ctx_msg),
      .acki_valid(acki_valid),
      .acki_ready(acki_ready),
      .acki_data(acki_data),
      .s_done_valid(done_valid),
      .s_done_ready(done_ready),
      .s_done_msg(done_msg),
      .s_walk_valid(walk_valid),
      .s_walk_ready(walk_ready),
      .s_walk_set(walk_set),
      .ah_age(ah_age),
      .s_purge_valid(purge_valid),
      .s_purge_ready(purge_ready),
      .s_purge_qpn(sqop_qpn),
      .qpc_addr(qpc_srd_addr),
      .qpc_data(qpc_send_data[3*QPC_W+:QPC_W]),
      .s_clear_valid(clear_completed_valid),
      .s_clear_ready(clear_completed_ready),
      .s_clear_qpn(sqop_qpn),
      .completed_rd_addr({count_ops_addr, completed_db_addr}),
      .completed_rd_data({completed_ops, completed_db}),
      .freed(credit_freed),
      .mark_valid(mark_valid),
      .mark_id(mark_id),
      .txc_valid(txc_valid),
      .txc_ready(txc_ready),
      .txc_data(txc_data),
      .st_send_valid(st_send_valid),
      .st_send_bytes(st_send_bytes)
  );

endmodule
