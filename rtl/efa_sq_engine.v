// SPDX-License-Identifier: Apache-2.0
// efa_sq_engine - connects the send queues: doorbells, rings, WQE memory, scheduler, flush.
//
// In    s_db, s_llq: stores; s_rd_cpl: send WQEs; s_qpchg: changed QP states; s_queue_op, s_drain
//       from admin; s_completed: completed counts; s_fence: a fence has passed; s_credit: freed
//       and unused credits of sends; s_read_err: failed payload reads
// Out   m_item: consumed WQEs; m_next_data: the item after m_item; m_rd: reads of send WQEs (SQ_HOST); m_qperr: QPs in error; m_rqdb,
//       m_cqdb: doorbells of other rings; m_scan, m_cancel: outstanding sends to flush or cancel
// Time  docs/timing.md; wires only
`default_nettype none
`include "efa_defs.vh"

module efa_sq_engine #(
    parameter QPN_W   = 6,
    parameter LLQ_AW  = 21,
    parameter SQ_HOST = 0
) (
    input wire clk,
    input wire rst_por,
    input wire rst,
    output wire m_init_done,
    input wire [3:0] s_cfg_mrrs_log,
    output wire [3*QPN_W-1:0] qpc_rd_addr,
    input wire [3*`EFA_QPC__W-1:0] qpc_rd_data,
    input wire s_llq_valid,
    input wire [`EFA_LLQ__W-1:0] s_llq_data,
    input wire s_db_valid,
    input wire [`EFA_DB__W-1:0] s_db_data,
    output wire m_rd_valid,
    input wire m_rd_ready,
    output wire [`EFA_DMA_RD__W-1:0] m_rd_data,
    input wire s_rd_cpl_valid,
    input wire [`EFA_DMA_RD_CPL__W-1:0] s_rd_cpl_data,
    input wire s_qpchg_valid,
    output wire s_qpchg_ready,
    input wire [`EFA_QPCHG__W-1:0] s_qpchg_data,
    output wire m_qperr_valid,
    input wire m_qperr_ready,
    output wire [`EFA_QPERR__W-1:0] m_qperr_data,
    input wire s_cqc_valid,
    input wire [QPN_W:0] s_cqc_cqn,
    input wire [`EFA_CQC__W-1:0] s_cqc_data,
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
    output wire m_item_valid,
    input wire m_item_ready,
    output wire [`EFA_WQE_IN__W-1:0] m_item_data,
    output wire [`EFA_WQE_IN__W-1:0] m_next_data,
    input wire s_ah_gone,
    input wire s_read_err_valid,
    input wire [QPN_W-1:0] s_read_err_qpn,
    input wire [2*QPN_W-1:0] halted_rd_addr,
    output wire [1:0] halted_rd_data,
    input wire s_credit_freed,
    input wire s_credit_unused,
    input wire s_completed_valid,
    input wire [QPN_W-1:0] s_completed_qpn,
    input wire [15:0] s_completed_count,
    input wire [QPN_W-1:0] completed_rd_addr,
    output wire [15:0] completed_rd_data,
    input wire s_fence_valid,
    input wire s_fence_id,
    output wire m_scan_valid,
    input wire m_scan_ready,
    input wire [QPN_W-1:0] scan_set_rd_addr,
    output wire scan_set_rd_data,
    output wire m_cancel_valid,
    input wire m_cancel_ready,
    output wire [`EFA_LIMITS__MSG_W:0] m_sends_open,
    output wire ev_db_valid,
    output wire [63:0] ev_db_data,
    output wire ev_llq_valid,
    output wire [63:0] ev_llq_data,
    output wire ev_wqe_valid,
    output wire [63:0] ev_wqe_data
);

  localparam CQN_W = QPN_W + 1;
  localparam QPC_W = `EFA_QPC__W;

  // Fields of the bundles at the ports.
  wire [11:0] op_qpn = s_queue_op_data[`EFA_QUEUE_OP__QPN];
  wire [QPC_W-1:0] op_qpc = s_queue_op_data[`EFA_QUEUE_OP__QPC];
  wire [11:0] chg_qpn = s_qpchg_data[`EFA_QPCHG__QPN];
  wire [19:0] llq_line = s_llq_data[`EFA_LLQ__LINE];
  wire [QPN_W-1:0] rqdb_qpn;
  wire [CQN_W-1:0] cqdb_cqn;
  wire [QPN_W-1:0] err_qpn;
  assign m_rqdb_data[`EFA_RQDB__QPN] = {{12 - QPN_W{1'b0}}, rqdb_qpn};
  assign m_cqdb_data[`EFA_CQDB__CQN] = {{12 - CQN_W{1'b0}}, cqdb_cqn};
  assign m_qperr_data[`EFA_QPERR__QPN] = {{12 - QPN_W{1'b0}}, err_qpn};

  // Lookups of contexts and of the state of a queue.
  wire [QPN_W-1:0] qpc_db_addr;
  wire [QPN_W-1:0] qpc_llq_addr;
  wire [QPN_W-1:0] qpc_sq_addr;
  wire sq_halted;
  wire sq_flush_ok;
  assign qpc_rd_addr = {qpc_sq_addr, qpc_llq_addr, qpc_db_addr};

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
  wire [15:0] completed_db;
  wire [15:0] completed_ops;
  wire [15:0] completed_sq;
  wire new_prod_valid;
  wire [QPN_W-1:0] new_prod_qpn;
  wire [15:0] new_prod;
  wire new_consumed_valid;
  wire [QPN_W-1:0] new_consumed_qpn;
  wire [15:0] new_consumed;

  wire doorbell_init;
  wire index_init;
  wire llq_init;
  wire fetch_init;
  wire flush_init;

  wire work_valid;
  wire [QPN_W-1:0] work_qpn;

  // Posted WQEs that the scheduler may fetch.
  wire posted_valid;
  wire [QPN_W-1:0] posted_qpn;
  wire [15:0] posted_data;
  wire fetch_drained;
  wire fetch_chg_valid;
  wire fetch_chg_ready;
  wire clear_fetch_ready;

  wire posted_err_valid;
  wire [QPN_W-1:0] posted_err_qpn;
  wire incomplete_err_valid;
  wire [QPN_W-1:0] incomplete_err_qpn;
  wire store_err_valid;
  wire [QPN_W-1:0] store_err_qpn;

  wire clear_valid;
  wire clear_fetch_valid;
  wire ring_valid;
  wire ring_ready;
  wire ring_own;
  wire ring_disown;

  // Requests to the scheduler.
  wire again_valid;
  wire again_ready;
  wire [QPN_W-1:0] again_qpn;
  wire notice_err_valid;
  wire round_again_valid;
  wire round_again_ready;
  wire [QPN_W-1:0] round_again_qpn;
  wire drain_valid;
  wire flush_fence_valid;
  wire flush_fence_ready;
  wire flush_fence_done;
  wire drain_fence_valid;
  wire drain_fence_ready;
  wire drain_fence_done;
  wire fence_valid;
  wire fence_ready;
  wire fence_id;

  wire line_rd_en;
  wire [LLQ_AW-6-1:0] line_rd_line;
  wire [511:0] line_rd_data;
  wire [15:0] line_rd_parity;

  wire void_valid;
  wire void_ready;
  wire [LLQ_AW-6-1:0] void_line;
  wire void_parity;

  assign m_init_done = doorbell_init && index_init && llq_init && fetch_init && flush_init;

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
      .s_cqc_valid(s_cqc_valid),
      .s_cqc_cqn(s_cqc_cqn),
      .s_cqc_data(s_cqc_data),
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
      .ev_db_valid(ev_db_valid),
      .ev_db_data(ev_db_data)
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
      .s_completed_valid(s_completed_valid),
      .s_completed_qpn(s_completed_qpn),
      .s_completed_count(s_completed_count),
      .s_clear_valid(clear_valid),
      .s_clear_qpn(op_qpn[QPN_W-1:0]),
      .prod_rd_addr({prod_sq_addr, prod_llq_addr, qpc_db_addr}),
      .prod_rd_data({prod_sq, prod_llq, prod_db}),
      .consumed_rd_addr({count_ops_addr, consumed_llq_addr, qpc_sq_addr}),
      .consumed_rd_data({consumed_ops, consumed_llq, consumed_sq}),
      .completed_rd_addr({qpc_sq_addr, count_ops_addr, completed_rd_addr, qpc_db_addr}),
      .completed_rd_data({completed_sq, completed_ops, completed_rd_data, completed_db})
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
          .ev_llq_valid(ev_llq_valid),
          .ev_llq_data(ev_llq_data)
      );

      assign posted_valid = work_valid;
      assign posted_qpn = work_qpn;
      assign posted_data = prod_sq;
      assign prod_sq_addr = qpc_sq_addr;
      assign clear_fetch_ready = 1'b1;
      assign fetch_chg_ready = 1'b1;
      assign fetch_drained = 1'b1;
      assign fetch_init = 1'b1;
      assign m_rd_valid = 1'b0;
      assign m_rd_data = {`EFA_DMA_RD__W{1'b0}};

      wire unused_fetch = &{
        1'b0, s_cfg_mrrs_log, fetch_chg_valid, clear_fetch_valid, m_rd_ready, s_rd_cpl_valid, s_rd_cpl_data
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
          .ev_llq_valid(ev_llq_valid),
          .ev_llq_data(ev_llq_data)
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
          .s_chg_valid(fetch_chg_valid),
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
          .m_rd_valid(m_rd_valid),
          .m_rd_ready(m_rd_ready),
          .m_rd_addr(m_rd_data[`EFA_DMA_RD__ADDR]),
          .m_rd_len(m_rd_data[`EFA_DMA_RD__LEN]),
          .m_rd_cookie(m_rd_data[`EFA_DMA_RD__COOKIE]),
          .s_rd_cpl_valid(s_rd_cpl_valid),
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

      wire unused_llq = &{1'b0, rst_por, prod_sq, consumed_llq, ring_disown};
    end
  endgenerate

  efa_sq_req_arb #(
      .QPN_W(QPN_W)
  ) u_req_arb (
      .s_qpchg_valid(s_qpchg_valid),
      .s_qpchg_ready(s_qpchg_ready),
      .s_qpchg_qpn(chg_qpn[QPN_W-1:0]),
      .s_qpchg_state(s_qpchg_data[`EFA_QPCHG__STATE]),
      .s_round_valid(round_again_valid),
      .s_round_ready(round_again_ready),
      .s_round_qpn(round_again_qpn),
      .m_again_valid(again_valid),
      .m_again_ready(again_ready),
      .m_again_qpn(again_qpn),
      .m_fetch_valid(fetch_chg_valid),
      .m_fetch_ready(fetch_chg_ready),
      .m_notice_valid(notice_err_valid),
      .s_drain_valid(s_drain_valid),
      .s_drain_clear(fetch_drained),
      .m_drain_valid(drain_valid),
      .s_flush_fence_valid(flush_fence_valid),
      .s_flush_fence_ready(flush_fence_ready),
      .s_drain_fence_valid(drain_fence_valid),
      .s_drain_fence_ready(drain_fence_ready),
      .m_fence_valid(fence_valid),
      .m_fence_ready(fence_ready),
      .m_fence_id(fence_id),
      .s_passed_valid(s_fence_valid),
      .s_passed_id(s_fence_id),
      .m_flush_passed(flush_fence_done),
      .m_drain_passed(drain_fence_done)
  );

  efa_sq_sched #(
      .QPN_W (QPN_W),
      .LLQ_AW(LLQ_AW),
      .SQ_HOST(SQ_HOST)
  ) u_sq_sched (
      .clk(clk),
      .rst(rst),
      .s_work_valid(posted_valid),
      .s_work_qpn(posted_qpn),
      .s_again_valid(again_valid),
      .s_again_ready(again_ready),
      .s_again_qpn(again_qpn),
      .s_fence_valid(fence_valid),
      .s_fence_ready(fence_ready),
      .s_fence_id(fence_id),
      .s_clear_valid(clear_valid),
      .s_clear_qpn(op_qpn[QPN_W-1:0]),
      .s_credit_freed(s_credit_freed),
      .s_credit_unused(s_credit_unused),
      .qpc_rd_addr(qpc_sq_addr),
      .qpc_rd_data(qpc_rd_data[2*QPC_W+:QPC_W]),
      .halted_rd_data(sq_halted),
      .flush_ok_rd_data(sq_flush_ok),
      .prod_rd_data(posted_data),
      .consumed_rd_data(consumed_sq),
      .completed_rd_data(completed_sq),
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
      .m_item_valid(m_item_valid),
      .m_item_ready(m_item_ready),
      .m_item_data(m_item_data),
      .m_next_data(m_next_data),
      .m_sends_open(m_sends_open),
      .ev_wqe_valid(ev_wqe_valid),
      .ev_wqe_data(ev_wqe_data)
  );

  efa_sq_flush #(
      .QPN_W(QPN_W),
      .SQ_HOST(SQ_HOST),
      .READERS(3)
  ) u_sq_flush (
      .clk(clk),
      .rst(rst),
      .m_init_done(flush_init),
      .s_posted_err_valid(posted_err_valid),
      .s_posted_err_qpn(posted_err_qpn),
      .s_incomplete_err_valid(incomplete_err_valid),
      .s_incomplete_err_qpn(incomplete_err_qpn),
      .s_store_err_valid(store_err_valid),
      .s_store_err_qpn(store_err_qpn),
      .s_read_err_valid(s_read_err_valid),
      .s_read_err_qpn(s_read_err_qpn),
      .s_notice_valid(notice_err_valid),
      .s_notice_qpn(chg_qpn[QPN_W-1:0]),
      .s_clear_valid(clear_valid),
      .s_clear_qpn(op_qpn[QPN_W-1:0]),
      .s_ah_gone(s_ah_gone),
      .halted_rd_addr({halted_rd_addr, qpc_sq_addr}),
      .halted_rd_data({halted_rd_data, sq_halted}),
      .flush_ok_rd_addr(qpc_sq_addr),
      .flush_ok_rd_data(sq_flush_ok),
      .m_qperr_valid(m_qperr_valid),
      .m_qperr_ready(m_qperr_ready),
      .m_qperr_qpn(err_qpn),
      .m_qperr_cause(m_qperr_data[`EFA_QPERR__CAUSE]),
      .m_fence_valid(flush_fence_valid),
      .m_fence_ready(flush_fence_ready),
      .s_fence_done(flush_fence_done),
      .m_scan_valid(m_scan_valid),
      .m_scan_ready(m_scan_ready),
      .scan_set_rd_addr(scan_set_rd_addr),
      .scan_set_rd_data(scan_set_rd_data),
      .m_again_valid(round_again_valid),
      .m_again_ready(round_again_ready),
      .m_again_qpn(round_again_qpn)
  );

  efa_sq_ctrl #(
      .QPN_W(QPN_W)
  ) u_sq_ctrl (
      .clk(clk),
      .rst(rst),
      .s_op_valid(s_queue_op_valid),
      .s_op_ready(s_queue_op_ready),
      .s_op_kind(s_queue_op_data[`EFA_QUEUE_OP__KIND]),
      .s_op_qpn(op_qpn[QPN_W-1:0]),
      .m_op_busy(m_queue_op_busy),
      .s_drain_valid(drain_valid),
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
      .m_cancel_valid(m_cancel_valid),
      .m_cancel_ready(m_cancel_ready),
      .m_fence_valid(drain_fence_valid),
      .m_fence_ready(drain_fence_ready),
      .s_fence_done(drain_fence_done)
  );

  wire unused_bits = &{1'b0, llq_line, s_llq_data, op_qpn, chg_qpn, s_qpchg_data, s_queue_op_data};

endmodule

`default_nettype wire
