// SPDX-License-Identifier: Apache-2.0
// fv_isolation - proves BAR decode, contexts, doorbells, LLQ memory, reports and receive counts
// together: no sequence of stores through pages of one UAR changes a queue of another.
//
// The wrapper has a reference machine with the state of one QP `me`, one CQ `cq` and one dword of
// one line of LLQ memory. Its only inputs are stores to the doorbell page of the UAR `y` and stores
// to that line while the page of the line belongs to `me`; it has no wire for other stores. While
// `me` and `cq` belong to `y`, their state in the blocks is proven equal to that of the machine: in
// every cycle, for all other stores, for all activity of other queues, and over any number of
// lifetimes of the queue. Two histories that differ only in stores of others therefore leave the
// same state: this is non-interference with the machine as the second copy. The proof is cheaper
// than a proof with two copies of the blocks, and it states the state. Timing: the machine receives
// a store when efa_mmio outputs it, so stores of others can only delay it, as on the bus.
`include "efa_defs.vh"

module fv_isolation #(
    parameter QPN_W   = 2,
    parameter CQN_W   = 2,
    parameter LLQ_AW  = 14,
    parameter SQ_HOST = 0
) (
    input wire clk,
    input wire rst_por,
    input wire rst,
    input wire opened,
    input wire in_reset,
    input wire s_mmio_valid,
    input wire s_mmio_write,
    input wire [2:0] s_mmio_bar,
    input wire [25:0] s_mmio_line,
    input wire [5:0] s_mmio_byte,
    input wire [63:0] s_mmio_be,
    input wire [511:0] s_mmio_data,
    input wire [7:0] s_mmio_tag,
    input wire [31:0] acc_rdata,
    input wire m_mmio_cpl_ready,
    input wire [QPN_W-1:0] qpc_sq_addr,
    input wire [QPN_W-1:0] qpc_rq_addr,
    input wire [QPN_W-1:0] qpc_srd_addr,
    input wire [QPN_W-1:0] qpc_validate_addr,
    input wire [QPN_W-1:0] qpc_fetch_addr,
    input wire qpc_admin_lock,
    input wire qpc_admin_valid,
    input wire qpc_admin_write,
    input wire [QPN_W-1:0] qpc_admin_qpn,
    input wire [`EFA_QPC__W-1:0] qpc_admin_wdata,
    input wire qpchg_send_ready,
    input wire qpchg_recv_ready,
    input wire qperr_recv_valid,
    input wire [QPN_W-1:0] qperr_recv_qpn,
    input wire [3:0] qperr_recv_cause,
    input wire incomplete_valid,
    input wire [QPN_W-1:0] incomplete_qpn,
    input wire read_err_valid,
    input wire [QPN_W-1:0] read_err_qpn,
    input wire fetch_err_valid,
    input wire [QPN_W-1:0] fetch_err_qpn,
    input wire fault_clear_valid,
    input wire [QPN_W-1:0] fault_clear_qpn,
    input wire again_ready,
    input wire fence_ready,
    input wire fence_done,
    input wire translate_ready,
    input wire ah_gone,
    input wire cqc_valid,
    input wire [CQN_W-1:0] cqc_cqn,
    input wire [`EFA_CQC__W-1:0] cqc_data,
    input wire new_consumed_valid,
    input wire [QPN_W-1:0] new_consumed_qpn,
    input wire [15:0] new_consumed,
    input wire new_completed_valid,
    input wire [QPN_W-1:0] new_completed_qpn,
    input wire [15:0] new_completed,
    input wire clear_valid,
    input wire [QPN_W-1:0] clear_qpn,
    input wire [QPN_W-1:0] prod_fetch_addr,
    input wire [QPN_W-1:0] completed_srd_addr,
    input wire [QPN_W-1:0] count_ops_addr,
    input wire s_op_valid,
    input wire s_op_own,
    input wire s_op_disown,
    input wire [QPN_W-1:0] s_op_qpn,
    input wire [`EFA_QPC__W-1:0] s_op_qpc,
    input wire s_void_valid,
    input wire [LLQ_AW-6-1:0] s_void_line,
    input wire s_void_parity,
    input wire line_rd_en,
    input wire [LLQ_AW-6-1:0] line_rd_line,
    input wire take_valid,
    input wire [QPN_W-1:0] take_qpn,
    input wire [15:0] take_value,
    input wire s_done_valid,
    input wire [QPN_W-1:0] s_done_qpn,
    input wire [1:0] s_done_count,
    input wire rq_clear_valid,
    input wire [QPN_W-1:0] rq_clear_qpn,
    input wire rq_clear_sized,
    input wire rq_clear_live,
    input wire [3:0] rq_clear_log,
    input wire [2*QPN_W-1:0] rq_rd_qpn
);

  localparam QPC_W = `EFA_QPC__W;
  localparam LINE_W = LLQ_AW - 6;
  localparam PAGE_LOG = 6;
  localparam [15:0] CQ_BASE = `EFA_LIMITS__DB_CQ_BASE;
  localparam [2:0] RESET = `EFA_ADMIN_QP_STATE__RESET_W3;
  localparam [2:0] ERR = `EFA_ADMIN_QP_STATE__ERR_W3;

  wire s_mmio_ready;
  wire llq_valid;
  wire [LINE_W-1:0] llq_line;
  wire [15:0] llq_dwen;
  wire llq_part;
  wire [511:0] llq_data;
  wire db_valid;
  wire [31:0] db_offset;
  wire [31:0] db_data;
  wire qp_init_done;
  wire db_init_done;
  wire fault_init_done;
  wire index_init_done;
  wire rq_init_done;
  wire llq_init_done;
  wire [QPN_W-1:0] qpc_db_addr;
  wire [QPN_W-1:0] qpc_llq_addr;
  wire [4*QPC_W-1:0] qpc_send_data;
  wire [2*QPC_W-1:0] qpc_recv_data;
  wire qpc_admin_ready;
  wire qpchg_send_valid;
  wire qpchg_recv_valid;
  wire [`EFA_QPCHG__W-1:0] qpchg_data;
  wire [11:0] qpchg_index = qpchg_data[`EFA_QPCHG__QPN];
  wire [QPN_W-1:0] qpchg_qpn = qpchg_index[QPN_W-1:0];
  wire [2:0] qpchg_state = qpchg_data[`EFA_QPCHG__STATE];
  wire qperr_send_valid;
  wire qperr_send_ready;
  wire [QPN_W-1:0] qperr_send_qpn;
  wire [3:0] qperr_send_cause;
  wire qperr_recv_ready;
  wire [QPN_W-1:0] prod_llq_addr;
  wire [QPN_W-1:0] consumed_addr;
  wire [47:0] prod_data;
  wire [47:0] consumed_data;
  wire [47:0] completed_data;
  wire new_prod_valid;
  wire [QPN_W-1:0] new_prod_qpn;
  wire [15:0] new_prod;
  wire work_valid;
  wire [QPN_W-1:0] work_qpn;
  wire doorbell_valid;
  wire [QPN_W-1:0] doorbell_qpn;
  wire llq_err_valid;
  wire [QPN_W-1:0] llq_err_qpn;
  wire rqdb_valid;
  wire [QPN_W-1:0] rqdb_qpn;
  wire [15:0] rqdb_value;
  wire cqdb_valid;
  wire [CQN_W-1:0] cqdb_cqn;
  wire [31:0] cqdb_value;
  wire s_op_ready;
  wire s_void_ready;
  // Lookups of the chosen queue.
  wire [1:0] halted;
  wire flush_ok;
  wire translate_valid;
  wire scan_set;
  wire again_valid;
  wire [QPN_W-1:0] again_qpn;
  wire move_valid;
  wire wrong_valid;
  wire [QPN_W-1:0] moved_qpn;
  wire [31:0] rq_prod;
  wire [31:0] rq_cons;

  efa_mmio #(
      .LLQ_AW(LLQ_AW)
  ) u_mmio (
      .clk(clk),
      .rst(rst_por),
      .s_opened(opened),
      .s_in_reset(in_reset),
      .s_mmio_valid(s_mmio_valid),
      .s_mmio_ready(s_mmio_ready),
      .s_mmio_write(s_mmio_write),
      .s_mmio_bar(s_mmio_bar),
      .s_mmio_addr({s_mmio_line, s_mmio_byte}),
      .s_mmio_be(s_mmio_be),
      .s_mmio_data(s_mmio_data),
      .s_mmio_tag(s_mmio_tag),
      .m_mmio_cpl_ready(m_mmio_cpl_ready),
      .m_llq_valid(llq_valid),
      .m_llq_line(llq_line),
      .m_llq_dwen(llq_dwen),
      .m_llq_part(llq_part),
      .m_llq_data(llq_data),
      .m_db_valid(db_valid),
      .m_db_offset(db_offset),
      .m_db_data(db_data),
      .s_acc_rdata(acc_rdata)
  );

  efa_qp_ctx #(
      .QPN_W(QPN_W)
  ) u_ctx (
      .clk(clk),
      .rst(rst),
      .qpc_rd_addr({
        qpc_validate_addr, qpc_rq_addr, qpc_srd_addr, qpc_sq_addr, qpc_stores_addr, qpc_db_addr
      }),
      .qpc_rd_data({qpc_recv_data, qpc_send_data}),
      .s_qpc_admin_lock(qpc_admin_lock),
      .s_qpc_admin_valid(qpc_admin_valid),
      .s_qpc_admin_ready(qpc_admin_ready),
      .s_qpc_admin_data({qpc_admin_wdata, {12 - QPN_W{1'b0}}, qpc_admin_qpn, qpc_admin_write}),
      .m_qpchg_valid({qpchg_recv_valid, qpchg_send_valid}),
      .m_qpchg_ready({qpchg_recv_ready, qpchg_send_ready}),
      .m_qpchg_data(qpchg_data),
      .s_qperr_valid({qperr_recv_valid, qperr_send_valid}),
      .s_qperr_ready({qperr_recv_ready, qperr_send_ready}),
      .s_qperr_data({
        qperr_recv_cause,
        {12 - QPN_W{1'b0}},
        qperr_recv_qpn,
        qperr_send_cause,
        {12 - QPN_W{1'b0}},
        qperr_send_qpn
      }),
      .m_init_done(qp_init_done)
  );

  efa_doorbell #(
      .QPN_W(QPN_W),
      .CQN_W(CQN_W)
  ) u_db (
      .clk(clk),
      .rst(rst),
      .m_init_done(db_init_done),
      .s_db_valid(db_valid),
      .s_db_offset(db_offset),
      .s_db_data(db_data),
      .qpc_rd_addr(qpc_db_addr),
      .qpc_rd_data(qpc_send_data[0+:QPC_W]),
      .s_cqc_valid(cqc_valid),
      .s_cqc_cqn(cqc_cqn),
      .s_cqc_data(cqc_data),
      .prod_rd_data(prod_data[15:0]),
      .completed_rd_data(completed_data[15:0]),
      .m_prod_valid(new_prod_valid),
      .m_prod_qpn(new_prod_qpn),
      .m_prod_count(new_prod),
      .m_work_valid(work_valid),
      .m_work_qpn(work_qpn),
      .m_err_valid(doorbell_valid),
      .m_err_qpn(doorbell_qpn),
      .m_rqdb_valid(rqdb_valid),
      .m_rqdb_qpn(rqdb_qpn),
      .m_rqdb_value(rqdb_value),
      .m_cqdb_valid(cqdb_valid),
      .m_cqdb_cqn(cqdb_cqn),
      .m_cqdb_value(cqdb_value)
  );

  // Readers as in efa_tx_engine: the doorbell, the stores, and the scheduler or efa_sq_ctrl.
  efa_sq_index #(
      .QPN_W(QPN_W)
  ) u_index (
      .clk(clk),
      .rst(rst),
      .m_init_done(index_init_done),
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
      .s_clear_qpn(clear_qpn),
      .prod_rd_addr({qpc_sq_addr, prod_stores_addr, qpc_db_addr}),
      .prod_rd_data(prod_data),
      .consumed_rd_addr({count_ops_addr, consumed_addr, qpc_sq_addr}),
      .consumed_rd_data(consumed_data),
      .completed_rd_addr({count_ops_addr, completed_srd_addr, qpc_db_addr}),
      .completed_rd_data(completed_data)
  );

  efa_llq #(
      .QPN_W (QPN_W),
      .LLQ_AW(LLQ_AW)
  ) u_llq (
      .clk(clk),
      .rst(rst),
      .rst_por(rst_por),
      .m_init_done(llq_init_done),
      .s_llq_valid(llq_valid),
      .s_llq_line(llq_line),
      .s_llq_dwen(llq_dwen),
      .s_llq_part(llq_part),
      .s_llq_data(llq_data),
      .s_op_valid(s_op_valid),
      .s_op_ready(s_op_ready),
      .s_op_own(s_op_own),
      .s_op_disown(s_op_disown),
      .s_op_qpn(s_op_qpn),
      .s_op_qpc(s_op_qpc),
      .qpc_rd_addr(qpc_llq_addr),
      .qpc_rd_data(qpc_send_data[QPC_W+:QPC_W]),
      .prod_rd_addr(prod_llq_addr),
      .prod_rd_data(prod_data[31:16]),
      .consumed_rd_addr(consumed_addr),
      .consumed_rd_data(consumed_data[31:16]),
      .line_rd_en(line_rd_en),
      .line_rd_addr(line_rd_line),
      .s_void_valid(s_void_valid),
      .s_void_ready(s_void_ready),
      .s_void_line(s_void_line),
      .s_void_parity(s_void_parity),
      .m_err_valid(llq_err_valid),
      .m_err_qpn(llq_err_qpn)
  );

  // With SQ_HOST no store reaches LLQ memory: efa_sq_fetch then reads contexts and counts and
  // reports the queue whose WQE read failed; it is unconstrained here.
  wire [QPN_W-1:0] qpc_stores_addr = SQ_HOST != 0 ? qpc_fetch_addr : qpc_llq_addr;
  wire [QPN_W-1:0] prod_stores_addr = SQ_HOST != 0 ? prod_fetch_addr : prod_llq_addr;
  wire store_valid = SQ_HOST != 0 ? fetch_err_valid : llq_err_valid;
  wire [QPN_W-1:0] store_qpn = SQ_HOST != 0 ? fetch_err_qpn : llq_err_qpn;

  efa_sq_flush #(
      .QPN_W  (QPN_W),
      .SQ_HOST(SQ_HOST)
  ) u_fault (
      .clk(clk),
      .rst(rst),
      .m_init_done(fault_init_done),
      .s_posted_err_valid(doorbell_valid),
      .s_posted_err_qpn(doorbell_qpn),
      .s_incomplete_err_valid(incomplete_valid),
      .s_incomplete_err_qpn(incomplete_qpn),
      .s_store_err_valid(store_valid),
      .s_store_err_qpn(store_qpn),
      .s_read_err_valid(read_err_valid),
      .s_read_err_qpn(read_err_qpn),
      .s_notice_valid(qpchg_send_valid && qpchg_send_ready && qpchg_state == ERR),
      .s_notice_qpn(qpchg_qpn),
      .s_clear_valid(fault_clear_valid),
      .s_clear_qpn(fault_clear_qpn),
      .s_ah_gone(ah_gone),
      .halted_rd_addr({2{me}}),
      .halted_rd_data(halted),
      .flush_ok_rd_addr(me),
      .flush_ok_rd_data(flush_ok),
      .m_qperr_valid(qperr_send_valid),
      .m_qperr_ready(qperr_send_ready),
      .m_qperr_qpn(qperr_send_qpn),
      .m_qperr_cause(qperr_send_cause),
      .m_fence_ready(fence_ready),
      .s_fence_done(fence_done),
      .m_scan_valid(translate_valid),
      .m_scan_ready(translate_ready),
      .scan_set_rd_addr(me),
      .scan_set_rd_data(scan_set),
      .m_again_valid(again_valid),
      .m_again_ready(again_ready),
      .m_again_qpn(again_qpn)
  );

  efa_rq_index #(
      .QPN_W(QPN_W)
  ) u_rq (
      .clk(clk),
      .rst(rst),
      .m_init_done(rq_init_done),
      .s_rqdb_valid(rqdb_valid),
      .s_rqdb_qpn(rqdb_qpn),
      .s_rqdb_value(rqdb_value),
      .m_move_valid(move_valid),
      .m_wrong_valid(wrong_valid),
      .m_doorbell_qpn(moved_qpn),
      .s_take_valid(take_valid),
      .s_take_qpn(take_qpn),
      .s_take_value(take_value),
      .s_done_valid(s_done_valid),
      .s_done_qpn(s_done_qpn),
      .s_done_count(s_done_count),
      .s_clear_valid(rq_clear_valid),
      .s_clear_qpn(rq_clear_qpn),
      .s_clear_sized(rq_clear_sized),
      .s_clear_live(rq_clear_live),
      .s_clear_log(rq_clear_log),
      .ring_rd_addr(rq_rd_qpn),
      .prod_rd_data(rq_prod),
      .cons_rd_data(rq_cons)
  );

  // The victim: its UAR, a QP, a CQ, a dword of LLQ memory.
  (* anyconst *) wire [15:0] y;
  (* anyconst *) wire [QPN_W-1:0] me;
  (* anyconst *) wire [CQN_W-1:0] cq;
  (* anyconst *) wire [LINE_W-1:0] line;
  (* anyconst *) wire [3:0] dword;
  wire [LINE_W-PAGE_LOG-1:0] page = line[LINE_W-1:PAGE_LOG];

  // Probes: the state of the victim in the blocks.
  (* probe = "u_mmio.a_valid" *) wire a_valid;
  (* probe = "u_mmio.a_ready" *) wire a_ready;
  (* probe = "u_mmio.a_done_q" *) wire [15:0] a_done;
  (* probe = "u_mmio.u_in.data_q" *) wire [581:0] first_item;
  (* probe = "u_mmio.u_in.spare_q" *) wire spare;
  (* probe = "u_mmio.u_in.spare_data_q" *) wire [581:0] spare_item;
  (* probe = "u_mmio.u_cq_engine.level_q" *) wire [6:0] cpl_level;
  (* probe = "u_mmio.u_cq_engine.g_ram.stored_q" *) wire [6:0] cpl_stored;
  (* probe = "u_mmio.d_read_q" *) wire d_read;
  (* probe = "u_mmio.e_push_q" *) wire e_push;
  (* probe = "u_ctx.state_q" *) wire [2:0] ctx_state;
  (* probe = "u_ctx.init_q" *) wire [QPN_W-1:0] ctx_init;
  (* probe = "u_ctx.qpn_q" *) wire [QPN_W-1:0] ctx_qpn;
  (* probe = "u_ctx.u_own.word_addr" *) wire [QPN_W-1:0] own_addr;
  (* probe = "u_ctx.u_own.word_q" *) wire [QPC_W-1:0] own_word;
  (* probe = "u_ctx.u_own.word_known_q" *) wire own_known;
  (* probe = "u_ctx.u_own.rd_data_q" *) wire [QPC_W-1:0] own_read;
  (* probe = "u_ctx.g_reader[0].u_copy.word_addr" *) wire [QPN_W-1:0] ctx_0_addr;
  (* probe = "u_ctx.g_reader[0].u_copy.word_q" *) wire [QPC_W-1:0] ctx_0;
  (* probe = "u_ctx.g_reader[0].u_copy.word_known_q" *) wire ctx_0_known;
  (* probe = "u_ctx.g_reader[1].u_copy.word_addr" *) wire [QPN_W-1:0] ctx_1_addr;
  (* probe = "u_ctx.g_reader[1].u_copy.word_q" *) wire [QPC_W-1:0] ctx_1;
  (* probe = "u_ctx.g_reader[1].u_copy.word_known_q" *) wire ctx_1_known;
  (* probe = "u_ctx.g_reader[2].u_copy.word_addr" *) wire [QPN_W-1:0] ctx_2_addr;
  (* probe = "u_ctx.g_reader[2].u_copy.word_q" *) wire [QPC_W-1:0] ctx_2;
  (* probe = "u_ctx.g_reader[2].u_copy.word_known_q" *) wire ctx_2_known;
  (* probe = "u_ctx.g_reader[3].u_copy.word_addr" *) wire [QPN_W-1:0] ctx_3_addr;
  (* probe = "u_ctx.g_reader[3].u_copy.word_q" *) wire [QPC_W-1:0] ctx_3;
  (* probe = "u_ctx.g_reader[3].u_copy.word_known_q" *) wire ctx_3_known;
  (* probe = "u_ctx.g_reader[5].u_copy.word_addr" *) wire [QPN_W-1:0] ctx_5_addr;
  (* probe = "u_ctx.g_reader[5].u_copy.word_q" *) wire [QPC_W-1:0] ctx_5;
  (* probe = "u_ctx.g_reader[5].u_copy.word_known_q" *) wire ctx_5_known;
  (* probe = "u_ctx.g_reader[4].u_copy.word_addr" *) wire [QPN_W-1:0] ctx_4_addr;
  (* probe = "u_ctx.g_reader[4].u_copy.word_q" *) wire [QPC_W-1:0] ctx_4;
  (* probe = "u_ctx.g_reader[4].u_copy.word_known_q" *) wire ctx_4_known;
  (* probe = "u_index.u_prod.ring" *) wire [QPN_W-1:0] prod_ring;
  (* probe = "u_index.u_prod.count_q" *) wire [15:0] prod_count;
  (* probe = "u_index.u_consumed.ring" *) wire [QPN_W-1:0] consumed_ring;
  (* probe = "u_index.u_consumed.count_q" *) wire [15:0] consumed_count;
  (* probe = "u_index.u_completed.ring" *) wire [QPN_W-1:0] completed_ring;
  (* probe = "u_index.u_completed.count_q" *) wire [15:0] completed_count;
  (* probe = "u_db.u_cq.word_addr" *) wire [CQN_W-1:0] cq_word_addr;
  (* probe = "u_db.u_cq.word_q" *) wire [10:0] cq_word;
  (* probe = "u_db.u_cq.word_known_q" *) wire cq_word_known;
  (* probe = "u_db.init_q" *) wire [CQN_W:0] cq_init;
  (* probe = "u_db.s1_valid_q" *) wire db_s1_valid;
  (* probe = "u_db.s2_valid_q" *) wire db_s2_valid;
  (* probe = "u_db.s1_num_q" *) wire [12:0] s1_num;
  (* probe = "u_db.prod" *) wire [15:0] dut_prod;
  (* probe = "u_llq.init_q" *) wire [LINE_W-PAGE_LOG:0] sweep;
  (* probe = "u_llq.op_line_q" *) wire [11:0] op_line;
  (* probe = "u_llq.u_owner.word_addr" *) wire [LINE_W-PAGE_LOG-1:0] owner_place;
  (* probe = "u_llq.u_owner.word_q" *) wire [QPN_W+LINE_W-PAGE_LOG+5:0] owner_word;
  (* probe = "u_llq.u_owner.word_known_q" *) wire owner_known;
  (* probe = "u_llq.s1_valid_q" *) wire s1_valid;
  (* probe = "u_llq.s1_line" *) wire [LINE_W-1:0] s1_line;
  (* probe = "u_llq.s1_known" *) wire s1_known;
  (* probe = "u_llq.s1_qpn" *) wire [QPN_W-1:0] s1_qpn;
  (* probe = "u_llq.s1_page" *) wire [LINE_W-PAGE_LOG-1:0] s1_page;
  (* probe = "u_llq.s1_log" *) wire [3:0] s1_log;
  (* probe = "u_llq.s1_wide" *) wire s1_wide;
  (* probe = "u_llq.s2_valid_q" *) wire s2_valid;
  (* probe = "u_llq.s2_line" *) wire [LINE_W-1:0] s2_line;
  (* probe = "u_llq.s2_inside_q" *) wire s2_inside;
  (* probe = "u_llq.s2_qpn_q" *) wire [QPN_W-1:0] s2_qpn;
  (* probe = "u_llq.s2_slot_q" *) wire [15:0] s2_slot;
  (* probe = "u_llq.s2_last_q" *) wire [15:0] s2_last;
  (* probe = "u_llq.s2_log_q" *) wire [3:0] s2_log;
  (* probe = "u_llq.s3_valid_q" *) wire s3_valid;
  (* probe = "u_llq.s3_inside_q" *) wire s3_inside;
  (* probe = "u_llq.dwen_q" *) wire [47:0] stored_dwen;
  (* probe = "u_llq.data_q" *) wire [1535:0] stored_data;
  (* probe = "u_llq.s3_write" *) wire write;
  (* probe = "u_llq.s3_line" *) wire [LINE_W-1:0] write_line;
  (* probe = "u_llq.s3_dwen" *) wire [15:0] write_dwen;
  (* probe = "u_llq.s3_data" *) wire [511:0] write_data;
  (* probe = "u_llq.s3_parity_q" *) wire write_parity;
  (* probe = "u_fault.init_q" *) wire fault_init;
  (* probe = "u_fault.scan_q" *) wire [QPN_W-1:0] fault_scan;
  (* probe = "u_fault.e1_valid_q" *) wire [4:0] fault_e1;
  (* probe = "u_fault.e1_qpn_q" *) wire [5*QPN_W-1:0] fault_e1_qpn;
  (* probe = "u_fault.e1_seen" *) wire [4:0] fault_e1_seen;
  (* probe = "u_fault.e1_noticed" *) wire fault_e1_noticed;
  (* probe = "u_fault.v1_qpn" *) wire [QPN_W-1:0] fault_visit_qpn;
  (* probe = "u_fault.v1_word" *) wire [6:0] fault_visit_word;
  (* probe = "u_fault.v1_errors" *) wire [3:0] fault_visit_errors;
  (* probe = "u_fault.v1_noticed" *) wire fault_visit_noticed;
  (* probe = "u_fault.v1_flush_ok" *) wire fault_visit_flushed;
  (* probe = "u_fault.v1_clear_q" *) wire fault_clearing;
  (* probe = "u_fault.v1_clear_qpn_q" *) wire [QPN_W-1:0] fault_clearing_qpn;
  (* probe = "u_fault.g_event[0].u_event.g_port[0].u_copy.word_addr" *) wire [QPN_W-1:0] event_0_0_addr;
  (* probe = "u_fault.g_event[0].u_event.g_port[0].u_copy.word_q" *) wire event_0_0;
  (* probe = "u_fault.g_event[0].u_event.g_port[0].u_copy.word_known_q" *) wire event_0_0_known;
  (* probe = "u_fault.g_event[0].u_event.g_port[1].u_copy.word_addr" *) wire [QPN_W-1:0] event_0_1_addr;
  (* probe = "u_fault.g_event[0].u_event.g_port[1].u_copy.word_q" *) wire event_0_1;
  (* probe = "u_fault.g_event[0].u_event.g_port[1].u_copy.word_known_q" *) wire event_0_1_known;
  (* probe = "u_fault.g_event[0].u_event.g_port[2].u_copy.word_addr" *) wire [QPN_W-1:0] event_0_2_addr;
  (* probe = "u_fault.g_event[0].u_event.g_port[2].u_copy.word_q" *) wire event_0_2;
  (* probe = "u_fault.g_event[0].u_event.g_port[2].u_copy.word_known_q" *) wire event_0_2_known;
  (* probe = "u_fault.g_event[0].u_seen.word_addr" *) wire [QPN_W-1:0] seen_0_addr;
  (* probe = "u_fault.g_event[0].u_seen.word_q" *) wire seen_0;
  (* probe = "u_fault.g_event[0].u_seen.word_known_q" *) wire seen_0_known;
  (* probe = "u_fault.g_event[1].u_event.g_port[0].u_copy.word_addr" *) wire [QPN_W-1:0] event_1_0_addr;
  (* probe = "u_fault.g_event[1].u_event.g_port[0].u_copy.word_q" *) wire event_1_0;
  (* probe = "u_fault.g_event[1].u_event.g_port[0].u_copy.word_known_q" *) wire event_1_0_known;
  (* probe = "u_fault.g_event[1].u_event.g_port[1].u_copy.word_addr" *) wire [QPN_W-1:0] event_1_1_addr;
  (* probe = "u_fault.g_event[1].u_event.g_port[1].u_copy.word_q" *) wire event_1_1;
  (* probe = "u_fault.g_event[1].u_event.g_port[1].u_copy.word_known_q" *) wire event_1_1_known;
  (* probe = "u_fault.g_event[1].u_event.g_port[2].u_copy.word_addr" *) wire [QPN_W-1:0] event_1_2_addr;
  (* probe = "u_fault.g_event[1].u_event.g_port[2].u_copy.word_q" *) wire event_1_2;
  (* probe = "u_fault.g_event[1].u_event.g_port[2].u_copy.word_known_q" *) wire event_1_2_known;
  (* probe = "u_fault.g_event[1].u_seen.word_addr" *) wire [QPN_W-1:0] seen_1_addr;
  (* probe = "u_fault.g_event[1].u_seen.word_q" *) wire seen_1;
  (* probe = "u_fault.g_event[1].u_seen.word_known_q" *) wire seen_1_known;
  (* probe = "u_fault.g_event[2].u_event.g_port[0].u_copy.word_addr" *) wire [QPN_W-1:0] event_2_0_addr;
  (* probe = "u_fault.g_event[2].u_event.g_port[0].u_copy.word_q" *) wire event_2_0;
  (* probe = "u_fault.g_event[2].u_event.g_port[0].u_copy.word_known_q" *) wire event_2_0_known;
  (* probe = "u_fault.g_event[2].u_event.g_port[1].u_copy.word_addr" *) wire [QPN_W-1:0] event_2_1_addr;
  (* probe = "u_fault.g_event[2].u_event.g_port[1].u_copy.word_q" *) wire event_2_1;
  (* probe = "u_fault.g_event[2].u_event.g_port[1].u_copy.word_known_q" *) wire event_2_1_known;
  (* probe = "u_fault.g_event[2].u_event.g_port[2].u_copy.word_addr" *) wire [QPN_W-1:0] event_2_2_addr;
  (* probe = "u_fault.g_event[2].u_event.g_port[2].u_copy.word_q" *) wire event_2_2;
  (* probe = "u_fault.g_event[2].u_event.g_port[2].u_copy.word_known_q" *) wire event_2_2_known;
  (* probe = "u_fault.g_event[2].u_seen.word_addr" *) wire [QPN_W-1:0] seen_2_addr;
  (* probe = "u_fault.g_event[2].u_seen.word_q" *) wire seen_2;
  (* probe = "u_fault.g_event[2].u_seen.word_known_q" *) wire seen_2_known;
  (* probe = "u_fault.g_event[3].u_event.g_port[0].u_copy.word_addr" *) wire [QPN_W-1:0] event_3_0_addr;
  (* probe = "u_fault.g_event[3].u_event.g_port[0].u_copy.word_q" *) wire event_3_0;
  (* probe = "u_fault.g_event[3].u_event.g_port[0].u_copy.word_known_q" *) wire event_3_0_known;
  (* probe = "u_fault.g_event[3].u_event.g_port[1].u_copy.word_addr" *) wire [QPN_W-1:0] event_3_1_addr;
  (* probe = "u_fault.g_event[3].u_event.g_port[1].u_copy.word_q" *) wire event_3_1;
  (* probe = "u_fault.g_event[3].u_event.g_port[1].u_copy.word_known_q" *) wire event_3_1_known;
  (* probe = "u_fault.g_event[3].u_event.g_port[2].u_copy.word_addr" *) wire [QPN_W-1:0] event_3_2_addr;
  (* probe = "u_fault.g_event[3].u_event.g_port[2].u_copy.word_q" *) wire event_3_2;
  (* probe = "u_fault.g_event[3].u_event.g_port[2].u_copy.word_known_q" *) wire event_3_2_known;
  (* probe = "u_fault.g_event[3].u_seen.word_addr" *) wire [QPN_W-1:0] seen_3_addr;
  (* probe = "u_fault.g_event[3].u_seen.word_q" *) wire seen_3;
  (* probe = "u_fault.g_event[3].u_seen.word_known_q" *) wire seen_3_known;
  (* probe = "u_fault.g_event[4].u_event.g_port[0].u_copy.word_addr" *) wire [QPN_W-1:0] event_4_0_addr;
  (* probe = "u_fault.g_event[4].u_event.g_port[0].u_copy.word_q" *) wire event_4_0;
  (* probe = "u_fault.g_event[4].u_event.g_port[0].u_copy.word_known_q" *) wire event_4_0_known;
  (* probe = "u_fault.g_event[4].u_event.g_port[1].u_copy.word_addr" *) wire [QPN_W-1:0] event_4_1_addr;
  (* probe = "u_fault.g_event[4].u_event.g_port[1].u_copy.word_q" *) wire event_4_1;
  (* probe = "u_fault.g_event[4].u_event.g_port[1].u_copy.word_known_q" *) wire event_4_1_known;
  (* probe = "u_fault.g_event[4].u_event.g_port[2].u_copy.word_addr" *) wire [QPN_W-1:0] event_4_2_addr;
  (* probe = "u_fault.g_event[4].u_event.g_port[2].u_copy.word_q" *) wire event_4_2;
  (* probe = "u_fault.g_event[4].u_event.g_port[2].u_copy.word_known_q" *) wire event_4_2_known;
  (* probe = "u_fault.g_event[4].u_seen.word_addr" *) wire [QPN_W-1:0] seen_4_addr;
  (* probe = "u_fault.g_event[4].u_seen.word_q" *) wire seen_4;
  (* probe = "u_fault.g_event[4].u_seen.word_known_q" *) wire seen_4_known;
  (* probe = "u_fault.u_own_notice.word_addr" *) wire [QPN_W-1:0] own_notice_addr;
  (* probe = "u_fault.u_own_notice.word_q" *) wire own_notice;
  (* probe = "u_fault.u_own_notice.word_known_q" *) wire own_notice_known;
  (* probe = "u_fault.u_round_notice.word_addr" *) wire [QPN_W-1:0] round_notice_addr;
  (* probe = "u_fault.u_round_notice.word_q" *) wire [1:0] round_notice;
  (* probe = "u_fault.u_round_notice.word_known_q" *) wire round_notice_known;
  (* probe = "u_fault.u_flush_ok.g_port[0].u_copy.word_addr" *) wire [QPN_W-1:0] flushed_0_addr;
  (* probe = "u_fault.u_flush_ok.g_port[0].u_copy.word_q" *) wire flushed_0;
  (* probe = "u_fault.u_flush_ok.g_port[0].u_copy.word_known_q" *) wire flushed_0_known;
  (* probe = "u_fault.u_flush_ok.g_port[1].u_copy.word_addr" *) wire [QPN_W-1:0] flushed_1_addr;
  (* probe = "u_fault.u_flush_ok.g_port[1].u_copy.word_q" *) wire flushed_1;
  (* probe = "u_fault.u_flush_ok.g_port[1].u_copy.word_known_q" *) wire flushed_1_known;
  (* probe = "u_fault.u_flush_ok.g_port[2].u_copy.word_addr" *) wire [QPN_W-1:0] flushed_2_addr;
  (* probe = "u_fault.u_flush_ok.g_port[2].u_copy.word_q" *) wire flushed_2;
  (* probe = "u_fault.u_flush_ok.g_port[2].u_copy.word_known_q" *) wire flushed_2_known;
  (* probe = "u_fault.u_word.g_port[0].u_copy.word_addr" *) wire [QPN_W-1:0] fault_0_addr;
  (* probe = "u_fault.u_word.g_port[0].u_copy.word_q" *) wire [6:0] fault_0;
  (* probe = "u_fault.u_word.g_port[0].u_copy.word_known_q" *) wire fault_0_known;
  (* probe = "u_fault.u_word.g_port[1].u_copy.word_addr" *) wire [QPN_W-1:0] fault_1_addr;
  (* probe = "u_fault.u_word.g_port[1].u_copy.word_q" *) wire [6:0] fault_1;
  (* probe = "u_fault.u_word.g_port[1].u_copy.word_known_q" *) wire fault_1_known;
  (* probe = "u_fault.u_word.g_port[2].u_copy.word_addr" *) wire [QPN_W-1:0] fault_2_addr;
  (* probe = "u_fault.u_word.g_port[2].u_copy.word_q" *) wire [6:0] fault_2;
  (* probe = "u_fault.u_word.g_port[2].u_copy.word_known_q" *) wire fault_2_known;
  (* probe = "u_fault.u_word.g_port[3].u_copy.word_addr" *) wire [QPN_W-1:0] fault_3_addr;
  (* probe = "u_fault.u_word.g_port[3].u_copy.word_q" *) wire [6:0] fault_3;
  (* probe = "u_fault.u_word.g_port[3].u_copy.word_known_q" *) wire fault_3_known;
  (* probe = "u_fault.u_word.g_port[4].u_copy.word_addr" *) wire [QPN_W-1:0] fault_4_addr;
  (* probe = "u_fault.u_word.g_port[4].u_copy.word_q" *) wire [6:0] fault_4;
  (* probe = "u_fault.u_word.g_port[4].u_copy.word_known_q" *) wire fault_4_known;
  (* probe = "u_rq.u_prod.ring" *) wire [QPN_W-1:0] rq_prod_ring;
  (* probe = "u_rq.u_prod.count_q" *) wire [15:0] rq_prod_count;
  (* probe = "u_rq.u_cons.ring" *) wire [QPN_W-1:0] rq_cons_ring;
  (* probe = "u_rq.u_cons.count_q" *) wire [15:0] rq_cons_count;
  (* probe = "u_rq.u_done.ring" *) wire [QPN_W-1:0] rq_done_ring;
  (* probe = "u_rq.u_done.count_q" *) wire [15:0] rq_done_count;
  (* probe = "u_rq.u_size.word_addr" *) wire [QPN_W-1:0] rq_size_addr;
  (* probe = "u_rq.u_size.word_q" *) wire [4:0] rq_size;
  (* probe = "u_rq.u_size.word_known_q" *) wire rq_size_known;
  (* probe = "u_rq.d2_moved_q" *) wire rq_moves;
  (* probe = "u_rq.d2_value_q" *) wire [15:0] rq_moved_to;
  (* probe = "u_rq.take_q" *) wire rq_takes;
  (* probe = "u_rq.take_qpn_q" *) wire [QPN_W-1:0] rq_taken_qpn;
  (* probe = "u_rq.take_value_q" *) wire [15:0] rq_taken;
  (* probe = "u_rq.d1_prod" *) wire [15:0] rq_checked_prod;
  (* probe = "u_rq.d1_done" *) wire [15:0] rq_checked_done;
  (* probe = "u_rq.d1_live" *) wire rq_checked_live;
  (* probe = "u_rq.d1_log" *) wire [3:0] rq_checked_log;
  (* probe = "u_rq.d1_value_q" *) wire [15:0] rq_checked_value;
  (* probe = "u_rq.f1_valid_q" *) wire rq_adding;
  (* probe = "u_rq.f1_qpn_q" *) wire [QPN_W-1:0] rq_adding_qpn;
  (* probe = "u_rq.f1_count_q" *) wire [1:0] rq_adding_count;
  (* probe = "u_rq.f1_after" *) wire [15:0] rq_added;
  (* probe = "u_rq.d1_valid_q" *) wire rq_checked;
  (* probe = "u_rq.d1_qpn_q" *) wire [QPN_W-1:0] rq_checked_qpn;

  reg began_q = 1'b0;

  // The lines that the host stored or loaded and that have no effect yet, in bus order, and the
  // dwords of the first line that have taken effect.
  reg [1:0] lines_q;
  reg [613:0] first_q;
  reg [613:0] second_q;
  reg [15:0] acted_q;
  wire host_write = first_q[613];
  wire [2:0] host_bar = first_q[612:610];
  wire [25:0] host_line = first_q[609:584];
  wire [63:0] host_be = first_q[583:520];
  wire [511:0] host_data = first_q[519:8];
  wire [613:0] arrives = {
    s_mmio_write, s_mmio_bar, s_mmio_line, s_mmio_be, s_mmio_data, s_mmio_tag
  };
  wire take_line = s_mmio_valid && s_mmio_ready;
  wire pop_line = a_valid && a_ready;
  wire [3:0] db_dword = db_offset[5:2];
  wire db_by_host = !db_valid || (lines_q != 0 && host_write && host_bar == `EFA_LIMITS__DB_BAR
      && db_offset == {host_line, db_dword, 2'd0} && (&host_be[4*db_dword+:4])
      && db_data == host_data[32*db_dword+:32] && !acted_q[db_dword]);
  wire llq_by_host = !llq_valid || (lines_q != 0 && host_write && host_bar == `EFA_MEM_BAR
      && pop_line && {{26 - LINE_W{1'b0}}, llq_line} == host_line && llq_data == host_data
      && llq_dwen[dword] == (&host_be[4*dword+:4]));

  // The item of efa_mmio that a line of the bus must become.
  function [581:0] item(input [613:0] from);
    integer n;
    begin
      item[581:552] = from[613:584];
      for (n = 0; n < 16; n = n + 1) begin
        item[536+n] = |from[520+4*n+:4];
        item[520+n] = &from[520+4*n+:4];
      end
      item[519:0] = from[519:0];
    end
  endfunction

  // The context: the last value that admin wrote, or ERR since an engine reported the queue.
  // `ctx_q` is the value for a read in this cycle, the others for reads 1, 2 and 3 cycles ago.
  reg [QPC_W-1:0] ctx_q;
  reg [QPC_W-1:0] ctx1_q;
  reg [QPC_W-1:0] ctx2_q;
  reg [QPC_W-1:0] ctx3_q;
  reg check_q;
  wire admin_writes = qpc_admin_valid && qpc_admin_ready && qpc_admin_write && qpc_admin_qpn == me;
  wire reported = (qperr_send_valid && qperr_send_ready && qperr_send_qpn == me)
      || (qperr_recv_valid && qperr_recv_ready && qperr_recv_qpn == me);

  // Doorbells of the queue are permitted; the context belongs to another UAR.
  function rings(input [QPC_W-1:0] ctx);
    rings = ctx[`EFA_QPC__LIVE] && ctx[`EFA_QPC__STATE] != RESET;
  endfunction
  function of_y(input [QPC_W-1:0] ctx);
    of_y = {6'd0, ctx[`EFA_QPC__UAR]} == y;
  endfunction
  wire quiet = !rings(ctx_q) && !rings(ctx1_q) && !rings(ctx2_q) && !rings(ctx3_q);
  wire gone = !ctx_q[`EFA_QPC__LIVE] && !ctx1_q[`EFA_QPC__LIVE] && !ctx2_q[`EFA_QPC__LIVE]
      && !ctx3_q[`EFA_QPC__LIVE];
  wire cleared = clear_valid && clear_qpn == me;

  // A store through the page of y, one cycle ago. The machine does not receive other stores.
  reg b_valid_q;
  reg [15:0] b_place_q;
  reg [31:0] b_data_q;
  wire to_sq = b_valid_q && b_place_q == {{13 - QPN_W{1'b0}}, me, 3'd0};
  wire to_rq = b_valid_q && b_place_q == {{13 - QPN_W{1'b0}}, me, 3'd4};
  wire to_cq = b_valid_q && b_place_q == CQ_BASE + {{14 - CQN_W{1'b0}}, cq, 2'd0};

  // The count of the SQ since the queue of y was cleared, by the stores through the page of y.
  reg known_q;
  reg [15:0] prod_q;
  wire mine = rings(ctx1_q) && of_y(ctx1_q);
  wire [15:0] depth = 16'd1 << ctx1_q[`EFA_QPC__SQ_LOG];
  wire [15:0] new_posted = b_data_q[15:0] - completed_rsp_q;
  wire [15:0] posted = prod_q - completed_rsp_q;
  wire legal = new_posted <= depth && new_posted >= posted;
  wire count = to_sq && mine && legal;
  reg work_q;
  reg beyond_q;
  reg rq_q;
  reg [31:0] value_q;
  reg [1:0] requested_q;
  reg [15:0] rsp_q;
  reg rsp_known_q;
  reg foreign_q;  // a store through another page was validated in the previous cycle

  // The consumed and completed counts of the SQ, as the scheduler and efa_send_tracker send them;
  // *_rsp_q: for a lookup in the previous cycle.
  reg [15:0] consumed_q;
  reg [15:0] consumed_rsp_q;
  reg [15:0] completed_q;
  reg [15:0] completed_rsp_q;
  wire [15:0] consumed_d = cleared ? 16'd0
      : new_consumed_valid && new_consumed_qpn == me ? new_consumed : consumed_q;
  wire [15:0] completed_d = cleared ? 16'd0
      : new_completed_valid && new_completed_qpn == me ? new_completed : completed_q;

  // The owner of the CQ, and the values of its readers 1 and 2 cycles ago.
  reg cq_live_q;
  reg [9:0] cq_uar_q;
  reg cq_live1_q;
  reg [9:0] cq_uar1_q;
  reg cq_other_q;
  reg cq_q;

  // Errors of the queue that efa_sq_flush received and that no report contains yet.
  reg owed_q;
  reg error_q;
  reg offers_q;
  wire error = (doorbell_valid && doorbell_qpn == me) || (store_valid && store_qpn == me)
      || (incomplete_valid && incomplete_qpn == me) || (read_err_valid && read_err_qpn == me);
  wire offers = qperr_send_valid && qperr_send_qpn == me;

  // The queue sends nothing since an error of its own or since its QP reached ERR. Its sends may be
  // flushed only since the QP reached ERR.
  reg broke_q;
  reg event_pipe_q;
  wire notice = qpchg_send_valid && qpchg_send_ready && qpchg_state == ERR && qpchg_qpn == me;
  wire fault_cleared = fault_clear_valid && fault_clear_qpn == me;

  // The flags of the queue in efa_sq_flush: the copies of the bits that events write, the copies of
  // its word, and what is still to be written.
  wire [4:0] event_0 = {event_4_0, event_3_0, event_2_0, event_1_0, event_0_0};
  wire [4:0] event_1 = {event_4_1, event_3_1, event_2_1, event_1_1, event_0_1};
  wire [4:0] event_2 = {event_4_2, event_3_2, event_2_2, event_1_2, event_0_2};
  wire [4:0] seen = {seen_4, seen_3, seen_2, seen_1, seen_0};
  wire fault_swept = !fault_init || fault_scan > me;
  wire fault_known = &{
    event_0_0_known, event_0_1_known, event_0_2_known, seen_0_known, event_1_0_known,
    event_1_1_known, event_1_2_known, seen_1_known, event_2_0_known, event_2_1_known,
    event_2_2_known, seen_2_known, event_3_0_known, event_3_1_known, event_3_2_known,
    seen_3_known, event_4_0_known, event_4_1_known, event_4_2_known, seen_4_known,
    own_notice_known, round_notice_known, flushed_0_known, flushed_1_known, flushed_2_known,
    fault_0_known, fault_1_known, fault_2_known, fault_3_known, fault_4_known
  };
  wire fault_words = &{
    event_0_0_addr == me, event_0_1_addr == me, event_0_2_addr == me, seen_0_addr == me,
    event_1_0_addr == me, event_1_1_addr == me, event_1_2_addr == me, seen_1_addr == me,
    event_2_0_addr == me, event_2_1_addr == me, event_2_2_addr == me, seen_2_addr == me,
    event_3_0_addr == me, event_3_1_addr == me, event_3_2_addr == me, seen_3_addr == me,
    event_4_0_addr == me, event_4_1_addr == me, event_4_2_addr == me, seen_4_addr == me,
    own_notice_addr == me, round_notice_addr == me, flushed_0_addr == me, flushed_1_addr == me,
    flushed_2_addr == me, fault_0_addr == me, fault_1_addr == me, fault_2_addr == me,
    fault_3_addr == me, fault_4_addr == me
  };
  reg [4:0] fault_new;
  integer event_number;
  always @* begin
    for (event_number = 0; event_number < 5; event_number = event_number + 1)
    fault_new[event_number] = fault_e1[event_number]
          && fault_e1_qpn[QPN_W*event_number+:QPN_W] == me;
  end
  wire fault_clears = fault_clearing && fault_clearing_qpn == me;
  wire fault_noticed = event_0[4] != fault_0[4];
  wire fault_flushed = flushed_0 != fault_0[5];

  // The counts of the receive ring since its clear with this size: posted by its own doorbells,
  // claimed and reported by inputs that name it. A doorbell or a report in the cycle of the clear
  // is late (no ring in use is cleared), so the counts are unknown then.
  reg rq_known_q;
  reg rq_sized_q;
  reg rq_live_q;
  reg [3:0] rq_log_q;
  reg [15:0] rq_prod_q;
  reg [15:0] rq_cons_q;
  reg [15:0] rq_done_q;
  reg rq_posted_q;
  reg [15:0] rq_value_q;
  reg rq_report_q;
  reg [1:0] rq_count_q;
  reg rq_moved_q;
  reg rq_wrong_q;
  reg [1:0] rq_requested_q;
  reg [31:0] rq_rsp_q;
  reg rq_rsp_known_q;
  reg rq_foreign_q;
  wire rq_cleared = rq_clear_valid && rq_clear_qpn == me;
  wire rq_rings = rqdb_valid && rqdb_qpn == me;
  wire rq_reports = s_done_valid && s_done_qpn == me;
  wire [15:0] rq_depth = rq_live_q ? 16'd1 << rq_log_q : 16'd0;
  wire [15:0] rq_would_be = rq_value_q - rq_done_q;
  wire rq_depth_ok = rq_would_be <= rq_depth && rq_would_be >= rq_prod_q - rq_done_q;

  // The owner of the page of the line, by the ring requests, and the time without an owner.
  reg own_q;
  reg [QPN_W-1:0] own_qpn_q;
  reg [19:0] own_first_q;
  reg [3:0] own_log_q;
  reg own_wide_q;
  reg [2:0] owned_q;
  wire [19:0] op_place = s_op_qpc[`EFA_QPC__SQ_LINE] + {8'd0, op_line};
  wire op_mine = s_op_valid && (s_op_own || s_op_disown) && op_place[LINE_W-1:PAGE_LOG] == page;
  reg op_waits_q;
  reg [QPC_W+QPN_W+1:0] op_q;

  // A store to the line while its page belongs to the queue, by stage: check against the ring size,
  // check against the counts, done. Also any store to the page, with its owner.
  reg l1_valid_q;
  reg l1_some_q;
  reg l1_mine_q;
  reg [31:0] l1_data_q;
  reg [19:0] l1_first_q;
  reg [3:0] l1_log_q;
  reg l1_wide_q;
  wire [19:0] l1_place = {{20 - LINE_W{1'b0}}, line} - l1_first_q;
  wire [19:0] l1_slot = l1_place >> l1_wide_q;
  reg l2_valid_q;
  reg l2_inside_q;
  reg [15:0] l2_slot_q;
  reg [3:0] l2_log_q;
  reg l2_some_q;
  reg l2_mine_q;
  reg [31:0] l2_data_q;
  wire [15:0] l2_last = (16'd1 << l2_log_q) - 16'd1;
  wire [15:0] l2_count = rsp_q + ((l2_slot_q - rsp_q) & l2_last);
  wire l2_posted = ((l2_slot_q - consumed_rsp_q) & l2_last) < (rsp_q - consumed_rsp_q);
  wire l2_may = l2_valid_q && l2_inside_q && ctx1_q[`EFA_QPC__LIVE];
  reg l3_write_q;
  reg l3_error_q;
  reg l3_parity_q;
  reg l3_known_q;
  reg l3_valid_q;
  reg [31:0] l3_data_q;
  reg [2:0] to_line_q;
  reg [2:0] other_q;  // the page belonged to another QP
  reg [2:0] of_page_q;
  reg [2:0] of_me_q;
  reg stray_q;

  always @(posedge clk) begin
    began_q <= 1'b1;
    if (rst_por) begin
      lines_q <= 2'd0;
      acted_q <= 16'd0;
    end else begin
      lines_q <= lines_q + take_line - pop_line;
      acted_q <= pop_line ? 16'd0 : acted_q | ({15'd0, db_valid} << db_dword);
    end
    if (pop_line) first_q <= lines_q == 2'd2 ? second_q : arrives;
    else if (lines_q == 2'd0) first_q <= arrives;
    if (lines_q != 2'd2) second_q <= arrives;

    ctx1_q <= rst ? {QPC_W{1'b0}} : ctx_q;
    ctx2_q <= rst ? {QPC_W{1'b0}} : ctx1_q;
    ctx3_q <= rst ? {QPC_W{1'b0}} : ctx2_q;
    check_q <= !rst && reported;
    if (rst) ctx_q <= {QPC_W{1'b0}};
    else if (admin_writes) ctx_q <= qpc_admin_wdata;
    else if (check_q && rings(ctx_q)) ctx_q[`EFA_QPC__STATE] <= ERR;

    b_valid_q <= !rst && db_valid && db_offset[31:16] == y;
    b_place_q <= db_offset[15:0];
    b_data_q <= db_data;
    consumed_q <= rst ? 16'd0 : consumed_d;
    consumed_rsp_q <= consumed_d;
    completed_q <= rst ? 16'd0 : completed_d;
    completed_rsp_q <= completed_d;
    work_q <= !rst && count && b_data_q[15:0] != prod_q;
    beyond_q <= !rst && to_sq && mine && !legal;
    rq_q <= !rst && to_rq && mine;
    value_q <= b_data_q;
    requested_q <= {qpc_sq_addr == me, prod_stores_addr == me};
    rsp_q <= cleared ? 16'd0 : prod_q;
    rsp_known_q <= !rst && known_q;
    foreign_q <= !rst && db_valid && db_offset[31:16] != y;
    if (rst) known_q <= 1'b0;
    else if (admin_writes && qpc_admin_wdata[`EFA_QPC__LIVE] && !of_y(qpc_admin_wdata))
      known_q <= 1'b0;
    else if (cleared) known_q <= !ctx_q[`EFA_QPC__LIVE] || of_y(ctx_q);
    if (cleared) prod_q <= 16'd0;
    else if (count) prod_q <= b_data_q[15:0];

    cq_live1_q <= cq_live_q;
    cq_uar1_q <= cq_uar_q;
    cq_q <= !rst && to_cq && cq_live1_q && {6'd0, cq_uar1_q} == y;
    cq_other_q <= cq_live1_q && {6'd0, cq_uar1_q} != y;
    if (rst) cq_live_q <= 1'b0;
    else if (cqc_valid && cqc_cqn == cq) begin
      cq_live_q <= cqc_data[`EFA_CQC__LIVE];
      cq_uar_q  <= cqc_data[`EFA_CQC__UAR];
    end

    error_q  <= !rst && error;
    offers_q <= !rst && offers && !qperr_send_ready;
    if (rst) owed_q <= 1'b0;
    else if (error) owed_q <= 1'b1;
    else if (offers && !offers_q && !error_q) owed_q <= 1'b0;

    if (rst || fault_cleared) broke_q <= 1'b0;
    else if (error || notice) broke_q <= 1'b1;
    if (rst || fault_cleared) event_pipe_q <= 1'b0;
    else if (notice) event_pipe_q <= 1'b1;

    rq_posted_q <= !rst && rq_rings;
    rq_value_q <= rqdb_value;
    rq_report_q <= !rst && rq_reports;
    rq_count_q <= s_done_count;
    rq_moved_q <= !rst && rq_posted_q && rq_depth_ok && rq_value_q != rq_prod_q;
    rq_wrong_q <= !rst && rq_posted_q && !rq_depth_ok;
    rq_requested_q <= {rq_rd_qpn[QPN_W+:QPN_W] == me, rq_rd_qpn[0+:QPN_W] == me};
    rq_rsp_q <= rq_cleared ? 32'd0 : {rq_cons_q, rq_prod_q};
    rq_rsp_known_q <= !rst && rq_known_q;
    rq_foreign_q <= !rst && rqdb_valid && rqdb_qpn != me;
    if (rst) rq_known_q <= 1'b0;
    else if (rq_cleared) rq_known_q <= (rq_clear_sized || rq_sized_q) && !rq_rings && !rq_reports;
    if (rst) rq_sized_q <= 1'b0;
    else if (rq_cleared && rq_clear_sized) rq_sized_q <= 1'b1;
    if (rq_cleared && rq_clear_sized) rq_live_q <= rq_clear_live;
    if (rq_cleared && rq_clear_sized) rq_log_q <= rq_clear_log;
    if (rq_cleared) rq_prod_q <= 16'd0;
    else if (rq_posted_q && rq_depth_ok) rq_prod_q <= rq_value_q;
    if (rq_cleared) rq_cons_q <= 16'd0;
    else if (take_valid && take_qpn == me) rq_cons_q <= take_value;
    if (rq_cleared) rq_done_q <= 16'd0;
    else if (rq_report_q) rq_done_q <= rq_done_q + {14'd0, rq_count_q};

    op_waits_q <= !rst && s_op_valid && !s_op_ready;
    op_q <= {s_op_own, s_op_disown, s_op_qpn, s_op_qpc};
    owned_q <= rst ? 3'd0 : {owned_q[1:0], own_q};
    if (rst) own_q <= 1'b0;
    else if (op_mine) begin
      own_q <= s_op_own;
      own_qpn_q <= s_op_qpn;
      own_first_q <= s_op_qpc[`EFA_QPC__SQ_LINE];
      own_log_q <= s_op_qpc[`EFA_QPC__SQ_LOG];
      own_wide_q <= s_op_qpc[`EFA_QPC__WQE128];
    end

    l1_valid_q <= !rst && llq_valid && llq_line == line && own_q && own_qpn_q == me;
    l1_some_q <= llq_dwen != 16'd0;
    l1_mine_q <= llq_dwen[dword];
    l1_data_q <= llq_data[32*dword+:32];
    l1_first_q <= own_first_q;
    l1_log_q <= own_log_q;
    l1_wide_q <= own_wide_q;
    l2_valid_q <= !rst && l1_valid_q;
    l2_inside_q <= l1_slot < (20'd1 << l1_log_q);
    l2_slot_q <= l1_slot[15:0];
    l2_log_q <= l1_log_q;
    l2_some_q <= l1_some_q;
    l2_mine_q <= l1_mine_q;
    l2_data_q <= l1_data_q;
    l3_valid_q <= !rst && l2_valid_q;
    l3_write_q <= !rst && l2_may && !l2_posted && l2_mine_q;
    l3_error_q <= !rst && l2_may && l2_posted && l2_some_q;
    l3_known_q <= rsp_known_q;
    l3_parity_q <= l2_count[l2_log_q];
    l3_data_q <= l2_data_q;
    to_line_q <= {to_line_q[1:0] & {2{!rst}}, !rst && llq_valid && llq_line == line};
    other_q <= rst ? 3'd0 : {other_q[1:0], own_q && own_qpn_q != me};
    of_page_q <= {of_page_q[1:0], llq_valid && llq_line[LINE_W-1:PAGE_LOG] == page};
    of_me_q <= {of_me_q[1:0], own_q && own_qpn_q == me};
    stray_q <= !rst && llq_valid && llq_line != line && own_q && own_qpn_q == me;
  end

  wire [19:0] op_lines = 20'd1 << (s_op_qpc[`EFA_QPC__SQ_LOG] + s_op_qpc[`EFA_QPC__WQE128]);
  wire [19:0] op_end = s_op_qpc[`EFA_QPC__SQ_LINE] + op_lines;
  wire tables_init = qp_init_done && db_init_done && llq_init_done && index_init_done && rq_init_done
      && fault_init_done;
  wire set_me = new_prod_valid && new_prod_qpn == me;
  wire ctx_there = ctx_state != 3'd0 || ctx_init > me;

  always @* begin
    a_began : assume (began_q || rst_por);
    a_power : assume (!rst_por || rst);
    a_opened : assume (!opened || !rst_por);
    a_aligned : assume (s_mmio_byte == 6'd0);
    a_tables : assume (in_reset || !(rst || !tables_init));
    a_commands :
    assume (tables_init || !(cqc_valid || clear_valid || fault_clear_valid || s_op_valid || rq_clear_valid));
    a_reads : assume (fault_init_done || !(incomplete_valid || read_err_valid || fetch_err_valid));
    // Guaranteed by efa_cmd_qp, proven by formal/cmd_qp.v.
    a_clear : assume (!cleared || quiet);
    a_rings :
    assume (!(admin_writes && rings(
        qpc_admin_wdata
    ) && of_y(
        qpc_admin_wdata
    )) || (known_q && !cleared));
    a_hands :
    assume (!(admin_writes && qpc_admin_wdata[`EFA_QPC__LIVE] && !(ctx_q[`EFA_QPC__LIVE]
        && ctx_q[`EFA_QPC__UAR] == qpc_admin_wdata[`EFA_QPC__UAR])) || (gone && !cleared));
    a_page :
    assume (!(op_mine && s_op_own) || (!own_q && owned_q == 3'd0)
        || (op_waits_q && own_q && own_qpn_q == s_op_qpn));
    a_place :
    assume (!s_op_valid || (s_op_qpc[`EFA_QPC__SQ_LINE] % 64 == 0
        && s_op_qpc[`EFA_QPC__SQ_LINE] < (20'd1 << LINE_W) && op_end <= (20'd1 << LINE_W)
        && s_op_qpc[`EFA_QPC__SQ_LOG] <= 4'd10));
    a_stays :
    assume (!op_waits_q || (s_op_valid && op_q == {s_op_own, s_op_disown, s_op_qpn, s_op_qpc}));
    a_receive : assume (!(rq_clear_valid && rq_checked && rq_checked_qpn == rq_clear_qpn));
    // The words of the memories that the invariants read.
    a_words :
    assume (own_addr == me && ctx_0_addr == me && ctx_1_addr == me && ctx_2_addr == me
        && ctx_3_addr == me && ctx_4_addr == me && ctx_5_addr == me && cq_word_addr == cq
        && owner_place == page && prod_ring == me && consumed_ring == me && completed_ring == me
        && rq_prod_ring == me && rq_cons_ring == me && rq_done_ring == me && rq_size_addr == me
        && fault_words);
    if (began_q) begin
      o_decode :
      assert (lines_q == {1'b0, a_valid} + {1'b0, spare} && (a_valid || !spare)
          && (!a_valid || first_item == item(
          first_q
      )) && (!spare || spare_item == item(
          second_q
      )) && (acted_q & ~a_done) == 16'd0 && (a_valid || a_done == 16'd0));
      h_loads :
      assert (rst_por || (cpl_level <= 7'd62 && cpl_stored <= 7'd62
          && cpl_level + {6'd0, d_read} + {6'd0, e_push} <= 7'd62));
    end
    if (began_q && !rst) begin
      // No error, notice or report occurs before the end of the initialisation of efa_sq_flush.
      h_idle :
      assert (fault_init == (ctx_state == 3'd0) && (!fault_init || (fault_scan == ctx_init
          && {fault_e1, fault_clearing, qperr_send_valid} == 7'd0
          && {db_s1_valid, db_s2_valid, s1_valid, s2_valid, s3_valid} == 5'd0)));
      h_contexts :
      assert (!ctx_there || (own_known && own_word == ctx_q && ctx_0_known && ctx_1_known
          && ctx_2_known && ctx_3_known && ctx_4_known && ctx_5_known));
      h_dead : assert (ctx_state != 3'd0 || (ctx_q == {QPC_W{1'b0}} && !check_q));
      h_check :
      assert (check_q == (ctx_state == 3'd3 && ctx_qpn == me) && (!check_q || own_read == ctx_q));
      h_quiet : assert (!set_me || rings(ctx2_q));
      h_known : assert (!(rings(ctx_q) && of_y(ctx_q)) || known_q);
      h_known1 : assert (!mine || known_q);
      h_hers :
      assert (!known_q || ((!ctx_q[`EFA_QPC__LIVE] || of_y(
          ctx_q
      )) && (!rings(
          ctx1_q
      ) || of_y(
          ctx1_q
      )) && (!rings(
          ctx2_q
      ) || of_y(
          ctx2_q
      ))));
      h_counts :
      assert ((!known_q || set_me || prod_count == prod_q) && consumed_count == consumed_q
          && completed_count == completed_q);
      h_checked : assert (!known_q || s1_num[QPN_W-1:0] != me || dut_prod == prod_q);
      h_effect : assert (!(set_me && known_q) || new_prod == prod_q);
      h_cq :
      assert (cq_init <= {1'b0, cq} || (cq_word_known && cq_word[0] == cq_live_q
          && (!cq_live_q || cq_word[10:1] == cq_uar_q)));
      h_cq_init : assert (db_init_done || !cq_live_q);
      h_known_init : assert (tables_init || !known_q);
      h_owner : assert (sweep <= {1'b0, page} ? !own_q : owner_known && owner_word[0] == own_q);
      h_op : assert (op_waits_q ? {8'd0, op_line} < op_lines : op_line == 0);
      h_record :
      assert (!own_q || (llq_init_done && owner_word[QPN_W:1] == own_qpn_q
          && owner_word[QPN_W+1+:LINE_W-PAGE_LOG] == own_first_q[LINE_W-1:PAGE_LOG]
          && owner_word[QPN_W+1+LINE_W-PAGE_LOG+:5] == {own_wide_q, own_log_q}
          && own_first_q % 64 == 0 && own_first_q[LINE_W-1:PAGE_LOG] <= page
          && own_first_q < (20'd1 << LINE_W) && own_log_q <= 4'd10));
      h_hands :
      assert ((other_q & ~owned_q) == 0 && (!(own_q && own_qpn_q == me) || other_q == 0)
          && {l3_valid_q, l2_valid_q, l1_valid_q} == (to_line_q & owned_q & ~other_q));
      h_s1 :
      assert ((s1_valid && s1_line == line) == to_line_q[0] && (!to_line_q[0]
          || (s1_known == owned_q[0] && l1_some_q == (stored_dwen[15:0] != 0)
          && l1_mine_q == stored_dwen[dword] && l1_data_q == stored_data[32*dword+:32])));
      h_s1_place :
      assert (!l1_valid_q || (s1_qpn == me && s1_page == l1_first_q[LINE_W-1:PAGE_LOG]
          && s1_log == l1_log_q && s1_wide == l1_wide_q && l1_first_q % 64 == 0
          && l1_first_q[LINE_W-1:PAGE_LOG] <= page && l1_first_q < (20'd1 << LINE_W)
          && l1_log_q <= 4'd10));
      h_s2 :
      assert ((s2_valid && s2_line == line) == to_line_q[1] && (!to_line_q[1]
          || ((owned_q[1] || !s2_inside) && l2_some_q == (stored_dwen[31:16] != 0)
          && l2_mine_q == stored_dwen[{1'b1, dword}] && l2_data_q == stored_data[32*{1'b1, dword}+:32])));
      h_s2_place :
      assert (!l2_valid_q || (s2_qpn == me && s2_inside == l2_inside_q && s2_slot == l2_slot_q
          && s2_log == l2_log_q && s2_last == l2_last));
      h_s3 :
      assert ((s3_valid && write_line == line) == to_line_q[2] && (!to_line_q[2] || owned_q[2]
          || !s3_inside));
      h_flags :
      assert (!fault_swept || (fault_known && event_0 == event_1 && event_0 == event_2
          && seen == fault_0[4:0] && fault_0 == fault_1 && fault_0 == fault_2
          && fault_0 == fault_3 && fault_0 == fault_4 && own_notice == event_0[4]
          && round_notice[0] == event_0[4] && flushed_0 == flushed_1 && flushed_0 == flushed_2));
      h_forward :
      assert (!fault_swept || ((fault_new & (fault_e1_seen ^ seen)) == 5'd0
          && (!fault_new[4] || fault_e1_noticed == fault_noticed)
          && (fault_visit_qpn != me || (fault_visit_word == fault_0
          && {fault_visit_noticed, fault_visit_errors} == (fault_new | (event_0 ^ fault_0[4:0]))
          && fault_visit_flushed == fault_flushed))));
      h_fresh :
      assert (!fault_init || (fault_new == 5'd0 && !fault_clears && !broke_q && !event_pipe_q
          && !owed_q));
      h_fault_zero :
      assert (!(fault_init && fault_swept) || (event_0 == 5'd0 && fault_0 == 7'd0 && !flushed_0));
      h_request :
      assert (!((fault_swept && (fault_noticed || fault_flushed)) || fault_new[4])
          || fault_clears || event_pipe_q);
      h_owed :
      assert (!((fault_swept && event_0[3:0] != fault_0[3:0]) || fault_new[3:0] != 4'd0) || owed_q);

      h_rq :
      assert (!rq_known_q || (rq_sized_q && rq_init_done
          && (rq_moves && moved_qpn == me ? rq_moved_to : rq_prod_count) == rq_prod_q
          && (rq_takes && rq_taken_qpn == me ? rq_taken : rq_cons_count) == rq_cons_q
          && rq_done_count == rq_done_q));
      h_rq_size : assert (!rq_sized_q || (rq_size_known && rq_size == {rq_live_q, rq_log_q}));
      h_rq_posted :
      assert ((rq_checked && rq_checked_qpn == me) == rq_posted_q && (!(rq_posted_q && rq_known_q)
          || (rq_checked_value == rq_value_q && rq_checked_prod == rq_prod_q
          && rq_checked_done == rq_done_q && rq_checked_live == rq_live_q
          && rq_checked_log == rq_log_q)));
      h_rq_report :
      assert ((rq_adding && rq_adding_qpn == me) == rq_report_q && (!(rq_report_q && rq_known_q)
          || (rq_adding_count == rq_count_q && rq_added == rq_done_q + {14'd0, rq_count_q})));

      p_decode : assert (db_by_host && llq_by_host);
      p_context :
      assert (!ctx_there || (ctx_0 == ctx_q && ctx_1 == ctx_q && ctx_2 == ctx_q && ctx_3 == ctx_q
          && ctx_4 == ctx_q && ctx_5 == ctx_q));
      p_report : assert (!(offers && !offers_q) || owed_q);
      p_halted : assert (halted == {2{broke_q}});
      h_halted :
      assert (!fault_swept || broke_q == (!fault_clears && (fault_new != 5'd0 || fault_0[6]
          || event_0 != fault_0[4:0])));
      p_flush :
      assert (!(flush_ok || (translate_valid && scan_set) || (again_valid && again_qpn == me))
          || event_pipe_q);
      p_notice :
      assert (!((qpchg_send_valid || qpchg_recv_valid) && qpchg_qpn == me)
          || qpchg_state == ctx_q[`EFA_QPC__STATE]);
      p_beyond :
      assert (!(known_q && of_y(ctx2_q)) || (doorbell_valid && doorbell_qpn == me) == beyond_q);
      p_stray : assert (!(store_valid && store_qpn == me && of_page_q[2]) || of_me_q[2]);
      p_count :
      assert (!rsp_known_q || ((!requested_q[0] || prod_data[31:16] == rsp_q)
          && (!requested_q[1] || prod_data[47:32] == rsp_q)));
      p_work : assert (!(known_q && of_y(ctx2_q)) || (work_valid && work_qpn == me) == work_q);
      p_requests : assert (!to_sq || completed_data[15:0] == completed_rsp_q);
      p_rq :
      assert (!of_y(
          ctx2_q
      ) || ((rqdb_valid && rqdb_qpn == me) == rq_q && (!rq_q || rqdb_value == value_q[15:0])));
      p_posted :
      assert (!rq_rsp_known_q || ((!rq_requested_q[0] || rq_prod[15:0] == rq_rsp_q[15:0])
          && (!rq_requested_q[1] || rq_prod[31:16] == rq_rsp_q[15:0])));
      p_claimed :
      assert (!rq_rsp_known_q || ((!rq_requested_q[0] || rq_cons[15:0] == rq_rsp_q[31:16])
          && (!rq_requested_q[1] || rq_cons[31:16] == rq_rsp_q[31:16])));
      p_checked :
      assert (!rq_known_q || ((move_valid && moved_qpn == me) == rq_moved_q
          && (wrong_valid && moved_qpn == me) == rq_wrong_q));
      p_cq :
      assert (cq_other_q || ((cqdb_valid && cqdb_cqn == cq) == cq_q
          && (!cq_q || cqdb_value == value_q)));
      p_line :
      assert (!(own_q && own_qpn_q == me) || (l3_valid_q && !l3_known_q)
          || ((write && write_line == line && write_dwen[dword]) == l3_write_q && (!l3_write_q
          || (write_data[32*dword+:32] == l3_data_q && write_parity == l3_parity_q))));
      p_early :
      assert (!(l3_valid_q && l3_known_q) || (store_valid && store_qpn == me) == l3_error_q);
      c_decode : cover (db_valid && acted_q != 0 && db_offset[31:16] == y && y != 0);
      c_context : cover (check_q && rings(ctx_q) && rings(ctx_2) && of_y(ctx_q));
      c_report : cover (offers && owed_q && offers_q);
      c_halted : cover (halted[0] && !event_pipe_q);
      c_flush : cover (again_valid && again_qpn == me);
      c_notice :
      cover (qpchg_send_valid && qpchg_recv_valid && qpchg_qpn == me && qpchg_state == ERR);
      c_beyond : cover (beyond_q && foreign_q && known_q && of_y(ctx2_q));
      c_stray : cover (store_valid && store_qpn == me && of_page_q[2]);
      c_count : cover (rsp_known_q && requested_q == 2'b11 && rsp_q == 16'd2 && foreign_q);
      c_work : cover (work_q && known_q && of_y(ctx2_q) && foreign_q);
      c_requests : cover (to_sq && mine);
      c_rq : cover (rq_q && foreign_q && value_q == 32'd1);
      c_posted :
      cover (rq_rsp_known_q && rq_requested_q[0] && rq_rsp_q[15:0] == 16'd2 && rq_foreign_q);
      c_claimed : cover (rq_rsp_known_q && rq_requested_q[1] && rq_rsp_q[31:16] == 16'd1);
      c_checked : cover (rq_known_q && rq_wrong_q && rq_done_q == 16'd1);
      c_cq : cover (cq_q && !cq_other_q && foreign_q);
      c_line : cover (l3_write_q && l3_known_q && own_q && l3_parity_q && stray_q);
      c_early : cover (l3_error_q && l3_known_q);
    end
  end

endmodule
