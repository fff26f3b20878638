// SPDX-License-Identifier: Apache-2.0
// fv_eq - proves efa_eq for one EQ and one CQ of the solver's choice: EQEs in order with their
// phase, at most one EQE of the CQ between two arms of its EQ, no event and no message lost, none
// without an arm. The block sends a message only for an armed EQ with a new EQE.
//
// The reference machine (ref_*) computes from the ports alone whether an event of the CQ, or a
// message of the EQ, is due. Each doorbell and each commit adds cycles to work_q; a cycle in which
// the host accepts the outputs of the block subtracts one, except in the init sweep and in the
// cycle after a context write. When work_q is 0, nothing may be due.
`include "efa_defs.vh"

module fv_eq #(
    parameter CQN_W  = 3,
    parameter SCAN_W = 2,
    // Assumes the properties deferred, pending, woken and work, to derive met from them.
    parameter COMPOSED = 0,
    // log2 of the cycles counted for one arm of an EQ. An arm takes at most 3 cycles, plus 2 per
    // row of 2^SCAN_W CQs and 4 per CQ.
    parameter EQ_WORK_LOG2 = CQN_W + 4
) (
    input wire clk,
    input wire rst,
    input wire cqc_valid,
    input wire [CQN_W-1:0] cqc_cqn,
    input wire [`EFA_CQC__W-1:0] cqc_data,
    input wire eqc_valid,
    input wire [`EFA_LIMITS__EQN_W-1:0] eqc_eqn,
    input wire [`EFA_EQC__W-1:0] eqc_data,
    input wire cqdb_valid,
    input wire [CQN_W-1:0] cqdb_cqn,
    input wire [31:0] cqdb_value,
    input wire eqdb_valid,
    input wire [31:0] eqdb_value,
    input wire s_commit_valid,
    input wire [CQN_W-1:0] s_commit_cqn,
    input wire [15:0] s_commit_total,
    input wire m_wr_ready,
    input wire m_irq_ready,
    input wire drain_valid,
    input wire s_drained
);

  localparam EQN_W = `EFA_LIMITS__EQN_W;
  localparam EQS = 1 << EQN_W;
  localparam CQS = 1 << CQN_W;
  localparam SCAN = 1 << SCAN_W;
  localparam WORD_W = CQN_W - SCAN_W;
  localparam [3:0] LOG_MAX = $clog2(`EFA_LIMITS__MAX_EQ_DEPTH);
  localparam COUNT_W = LOG_MAX + 1;
  localparam [2:0] ST_IDLE = 3'd0;
  localparam [2:0] ST_EXAMINE = 3'd1;
  localparam [2:0] ST_POST = 3'd2;
  localparam [2:0] ST_IRQ = 3'd3;
  localparam [2:0] ST_EQ_ARM = 3'd4;
  localparam [2:0] ST_SCAN = 3'd5;
  localparam [2:0] ST_SCAN_CQ = 3'd6;

  wire s_commit_ready;
  wire m_wr_valid;
  wire [63:0] m_wr_addr;
  wire [127:0] m_wr_data;
  wire m_irq_valid;
  wire [7:0] m_irq_vector;
  wire drain_ready;
  wire init_done;
  wire ev_eqe_valid;
  wire [63:0] ev_eqe_data;

  efa_eq #(
      .CQN_W (CQN_W),
      .SCAN_W(SCAN_W)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .s_cqc_valid(cqc_valid),
      .s_cqc_cqn(cqc_cqn),
      .s_cqc_data(cqc_data),
      .s_eqc_valid(eqc_valid),
      .s_eqc_eqn(eqc_eqn),
      .s_eqc_data(eqc_data),
      .s_cqdb_valid(cqdb_valid),
      .s_cqdb_cqn(cqdb_cqn),
      .s_cqdb_value(cqdb_value),
      .s_eqdb_valid(eqdb_valid),
      .s_eqdb_value(eqdb_value),
      .s_commit_valid(s_commit_valid),
      .s_commit_ready(s_commit_ready),
      .s_commit_cqn(s_commit_cqn),
      .s_commit_total(s_commit_total),
      .m_wr_valid(m_wr_valid),
      .m_wr_ready(m_wr_ready),
      .m_wr_addr(m_wr_addr),
      .m_wr_data(m_wr_data),
      .m_irq_valid(m_irq_valid),
      .m_irq_ready(m_irq_ready),
      .m_irq_vector(m_irq_vector),
      .s_drain_valid(drain_valid),
      .s_drained(s_drained),
      .s_drain_ready(drain_ready),
      .m_init_done(init_done),
      .ev_eqe_valid(ev_eqe_valid),
      .ev_eqe_data(ev_eqe_data)
  );

  (* anyconst *) wire [CQN_W-1:0] me;
  (* anyconst *) wire [EQN_W-1:0] eq;

  (* probe = "u_dut.state_q" *) wire [2:0] state;
  (* probe = "u_dut.scanning_q" *) wire scanning;
  (* probe = "u_dut.cqn_q" *) wire [CQN_W-1:0] cqn;
  (* probe = "u_dut.eqn_q" *) wire [EQN_W-1:0] eqn;
  (* probe = "u_dut.scan_eqn_q" *) wire [EQN_W-1:0] scan_eqn;
  (* probe = "u_dut.word_q" *) wire [WORD_W-1:0] word;
  (* probe = "u_dut.word_loaded_q" *) wire word_loaded;
  (* probe = "u_dut.todo" *) wire [SCAN-1:0] todo;
  (* probe = "u_dut.drop_q" *) wire [SCAN-1:0] drop;
  (* probe = "u_dut.scan_from_q" *) wire [SCAN_W:0] scan_from;
  (* probe = "u_dut.posted_row" *) wire [SCAN-1:0] row;
  (* probe = "u_dut.arm_q" *) wire exam_arm;
  (* probe = "u_dut.gone_q" *) wire gone;
  (* probe = "u_dut.init_q" *) wire [CQN_W:0] init;
  (* probe = "u_dut.cqc_q" *) wire cleared;
  (* probe = "u_dut.cqc_cqn_q" *) wire [CQN_W-1:0] cleared_cqn;
  (* probe = "u_dut.clear" *) wire clear;
  (* probe = "u_dut.event_due" *) wire event_due;
  (* probe = "u_dut.ctx_read_live" *) wire rd_live;
  (* probe = "u_dut.cq_armed" *) wire rd_armed;
  (* probe = "u_dut.cq_posted" *) wire rd_posted;
  (* probe = "u_dut.cq_deferred" *) wire rd_deferred;
  (* probe = "u_dut.arm_wanted" *) wire rd_wanted;
  (* probe = "u_dut.eq_armed_q" *) wire [EQS-1:0] eq_armed;
  (* probe = "u_dut.eq_new_q" *) wire [EQS-1:0] eq_new;
  (* probe = "u_dut.eq_live_q" *) wire [EQS-1:0] eq_live;
  (* probe = "u_dut.eq_count_q" *) wire [COUNT_W*EQS-1:0] eq_count;
  (* probe = "u_dut.eq_ctx_q" *) wire [`EFA_EQC__W*EQS-1:0] eq_ctx;
  (* probe = "u_dut.ctx_eqn" *) wire [EQN_W-1:0] ctx_eqn;
  (* probe = "u_dut.take_arm" *) wire take_arm;
  (* probe = "u_dut.u_arms.db_valid_q" *) wire db_valid;
  (* probe = "u_dut.u_arms.db_arm_q" *) wire db_arm;
  (* probe = "u_dut.u_arms.db_cqn_q" *) wire [CQN_W-1:0] db_cqn;
  (* probe = "u_dut.u_arms.db_index_q" *) wire [15:0] db_index;
  (* probe = "u_dut.u_arms.u_set.init_q" *) wire [CQN_W:0] set_init;
  (* probe = "u_dut.u_arms.u_set.s1_valid_q" *) wire adding;
  (* probe = "u_dut.u_arms.u_set.s1_qpn_q" *) wire [CQN_W-1:0] add_cqn;
  (* probe = "u_dut.u_arms.u_set.fresh" *) wire fresh;
  (* probe = "u_dut.u_arms.u_set.added_bit" *) wire added_bit;
  (* probe = "u_dut.u_arms.u_set.m_bit" *) wire arm_bit;
  (* probe = "u_dut.u_arms.u_set.bypass_q" *) wire bypassed;
  (* probe = "u_dut.u_arms.u_set.push" *) wire arm_push;
  (* probe = "u_dut.u_arms.u_set.fetch" *) wire arm_fetch;
  (* probe = "u_dut.u_arms.u_set.wr_addr_q" *) wire [CQN_W-1:0] set_wr;
  (* probe = "u_dut.u_arms.u_set.rd_addr_q" *) wire [CQN_W-1:0] set_rd;
  (* probe = "u_dut.u_arms.u_wanted.set_q" *) wire set;
  (* probe = "u_dut.u_arms.u_wanted.set_addr_q" *) wire [CQN_W-1:0] set_cqn;
  (* probe = "u_dut.u_arms.u_wanted.set_bit" *) wire set_bit;
  (* probe = "u_dut.u_arms.u_wanted.clear_q" *) wire drop_arm;
  (* probe = "u_dut.u_arms.u_wanted.clear_addr_q" *) wire [CQN_W-1:0] drop_cqn;
  (* probe = "u_dut.u_arms.u_wanted.clear_bit" *) wire drop_bit;
  (* probe = "u_dut.u_commits.level_q" *) wire [4:0] commits;
  (* probe = "u_dut.rd_en" *) wire rd_en;
  (* probe = "u_dut.rd_cqn" *) wire [CQN_W-1:0] rd_cqn;
  (* probe = "u_dut.arm_cqn" *) wire [CQN_W-1:0] arm_cqn;
  (* probe = "u_dut.arm_valid" *) wire arm_valid;
  (* probe = "u_dut.eq_request_q" *) wire [EQS-1:0] eq_request;
  (* probe = "u_dut.arm_marked_q" *) wire arm_marked;
  (* probe = "u_dut.arm_after_q" *) wire [4:0] arm_after;
  (* probe = "u_dut.take_commit" *) wire take_commit;
  (* probe = "u_dut.commit_cqn" *) wire [CQN_W-1:0] commit_cqn;
  (* probe = "u_dut.commit_total" *) wire [15:0] commit_total;
  (* probe = "u_dut.total" *) wire [15:0] rd_total;
  (* probe = "u_dut.consumed" *) wire [15:0] rd_index;
  (* probe = "u_dut.u_commits.rd_addr_q" *) wire [3:0] commit_rd;
  (* probe = "u_dut.u_commits.wr_addr_q" *) wire [3:0] commit_wr;
  (* probe = "u_dut.u_ctx.word_addr" *) wire [CQN_W-1:0] ctx_addr;
  (* probe = "u_dut.u_ctx.word_known_q" *) wire ctx_known;
  (* probe = "u_dut.u_ctx.word_q" *) wire [EQN_W:0] ctx_word;
  (* probe = "u_dut.u_state.word_addr" *) wire [CQN_W-1:0] state_addr;
  (* probe = "u_dut.u_state.word_known_q" *) wire state_known;
  (* probe = "u_dut.u_state.word_q" *) wire [2:0] state_word;
  (* probe = "u_dut.u_rows.word_addr" *) wire [WORD_W-1:0] rows_addr;
  (* probe = "u_dut.u_rows.word_known_q" *) wire rows_known;
  (* probe = "u_dut.u_rows.word_q" *) wire [SCAN-1:0] rows_word;
  (* probe = "u_dut.u_total.word_addr" *) wire [CQN_W-1:0] total_addr;
  (* probe = "u_dut.u_total.word_known_q" *) wire total_known;
  (* probe = "u_dut.u_total.word_q" *) wire [15:0] total_word;
  (* probe = "u_dut.u_arms.u_index.word_addr" *) wire [CQN_W-1:0] index_addr;
  (* probe = "u_dut.u_arms.u_index.word_known_q" *) wire index_known;
  (* probe = "u_dut.u_arms.u_index.word_q" *) wire [15:0] index_word;
  (* probe = "u_dut.u_arms.u_set.u_added.word_addr" *) wire [CQN_W-1:0] added_addr;
  (* probe = "u_dut.u_arms.u_set.u_added.word_known_q" *) wire added_known;
  (* probe = "u_dut.u_arms.u_set.u_added.word_q" *) wire added_word;
  (* probe = "u_dut.u_arms.u_set.u_taken.word_addr" *) wire [CQN_W-1:0] taken_addr;
  (* probe = "u_dut.u_arms.u_set.u_taken.word_known_q" *) wire taken_known;
  (* probe = "u_dut.u_arms.u_set.u_taken.word_q" *) wire taken_word;
  (* probe = "u_dut.u_arms.u_wanted.u_set_rd.word_addr" *) wire [CQN_W-1:0] set_rd_addr;
  (* probe = "u_dut.u_arms.u_wanted.u_set_rd.word_known_q" *) wire set_rd_known;
  (* probe = "u_dut.u_arms.u_wanted.u_set_rd.word_q" *) wire set_rd_word;
  (* probe = "u_dut.u_arms.u_wanted.u_set_clear.word_addr" *) wire [CQN_W-1:0] set_clear_addr;
  (* probe = "u_dut.u_arms.u_wanted.u_set_clear.word_known_q" *) wire set_clear_known;
  (* probe = "u_dut.u_arms.u_wanted.u_set_clear.word_q" *) wire set_clear_word;
  (* probe = "u_dut.u_arms.u_wanted.u_clear_rd.word_addr" *) wire [CQN_W-1:0] clear_rd_addr;
  (* probe = "u_dut.u_arms.u_wanted.u_clear_rd.word_known_q" *) wire clear_rd_known;
  (* probe = "u_dut.u_arms.u_wanted.u_clear_rd.word_q" *) wire clear_rd_word;
  (* probe = "u_dut.u_arms.u_wanted.u_clear_set.word_addr" *) wire [CQN_W-1:0] clear_set_addr;
  (* probe = "u_dut.u_arms.u_wanted.u_clear_set.word_known_q" *) wire clear_set_known;
  (* probe = "u_dut.u_arms.u_wanted.u_clear_set.word_q" *) wire clear_set_word;

  // The state of the CQ in the tables. A clear in this cycle, or a flag on its way, counts as done.
  wire clear_me = clear && (init_done ? cleared_cqn == me : init[CQN_W-1:0] == me);
  wire swept = init_done || init > {1'b0, me};
  wire armed = state_word[2] && swept && !clear_me;
  wire posted = state_word[1] && swept && !clear_me;
  wire kept = state_word[0] && swept && !clear_me;
  wire row_bit = rows_word[me[SCAN_W-1:0]];
  wire queued = swept && added_word != taken_word;
  wire add_me = adding && add_cqn == me;
  wire db_me = db_valid && db_cqn == me;
  wire wanted = drop_arm && drop_cqn == me ? 1'b0 : set && set_cqn == me ? 1'b1 : set_rd_word != clear_rd_word;
  wire request = (queued || add_me) && wanted && !(cleared && cleared_cqn == me);

  reg began_q = 1'b0;
  reg ring_q;  // the EQ was created
  reg [`EFA_EQC__W-1:0] ring_ctx_q;
  reg [15:0] written_q;  // EQEs written to it
  reg may_q;  // no EQE of the CQ since its EQ was armed, or the CQ created
  reg requested_q;  // an arm of the CQ that was not examined
  reg waits_q;  // an examined arm without an event yet
  reg eq_armed_q;  // the EQ was armed since its last message
  reg eq_new_q;  // the EQ has a new EQE since then
  reg live_q;
  reg [EQN_W-1:0] home_q;
  reg wrapped_q;

  wire [12:0] ev_cqn = ev_eqe_data[`EFA_EV_EQE__CQN];
  wire [7:0] ev_eqn = ev_eqe_data[`EFA_EV_EQE__EQN];
  wire reported = m_wr_valid && m_wr_ready && ev_cqn[CQN_W-1:0] == me;
  wire wrote = m_wr_valid && m_wr_ready && ring_q && ev_eqn[EQN_W-1:0] == eq;
  wire sent = m_irq_valid && m_irq_ready && eqn == eq;
  wire made = cqc_valid && cqc_cqn == me;
  wire ring_made = eqc_valid && eqc_eqn == eq;
  wire busy_eq = (state == ST_POST || state == ST_IRQ || state == ST_EQ_ARM) && eqn == eq;
  wire home_arm = state == ST_EQ_ARM && eqn == home_q;
  wire exam_me = state == ST_EXAMINE && cqn == me;
  wire event_mine = exam_me && event_due && !clear;
  // The scan of its EQ has not reached the CQ yet.
  wire [WORD_W-1:0] my_word = me[CQN_W-1:SCAN_W];
  wire ahead = scanning && scan_eqn == home_q && (word < my_word
      || (word == my_word && (!word_loaded || scan_from <= me[SCAN_W-1:0]
      || (state == ST_SCAN_CQ && cqn == me))));

  wire [3:0] log = ring_ctx_q[`EFA_EQC__LOG];
  wire [15:0] slot = written_q & ((16'd1 << log) - 16'd1);
  wire [15:0] wraps = written_q >> log;

  always @(posedge clk) begin
    began_q <= 1'b1;
    if (rst) begin
      ring_q <= 1'b0;
      may_q <= 1'b1;
      requested_q <= 1'b0;
      waits_q <= 1'b0;
      eq_armed_q <= 1'b0;
      eq_new_q <= 1'b0;
      live_q <= 1'b0;
      wrapped_q <= 1'b0;
    end else begin
      if (ring_made && eqc_data[`EFA_EQC__LIVE]) begin
        ring_q <= 1'b1;
        ring_ctx_q <= eqc_data;
        written_q <= 0;
      end else if (wrote) begin
        written_q <= written_q + 16'd1;
        if (wraps[0]) wrapped_q <= 1'b1;
      end
      if (state == ST_EQ_ARM && eqn == eq) eq_armed_q <= 1'b1;
      else if (sent || (ring_made && !busy_eq)) eq_armed_q <= 1'b0;
      if (wrote) eq_new_q <= 1'b1;
      else if (sent || (ring_made && !busy_eq)) eq_new_q <= 1'b0;
      if (made) begin
        live_q <= cqc_data[`EFA_CQC__LIVE] && cqc_data[`EFA_CQC__INTR];
        home_q <= cqc_data[`EFA_CQC__EQN];
      end
      if (made || home_arm) may_q <= 1'b1;
      else if (reported) may_q <= 1'b0;
      if (made) requested_q <= 1'b0;
      else if (cqdb_valid && cqdb_cqn == me && cqdb_value[`EFA_CQ_DB__ARM]) requested_q <= 1'b1;
      else if (take_arm && arm_cqn == me && !(db_me && db_arm)) requested_q <= 1'b0;
      if (made) waits_q <= 1'b0;
      else if (take_arm && arm_cqn == me && requested_q) waits_q <= 1'b1;
      else if (event_mine) waits_q <= 1'b0;
    end
  end

  // The reference machine. An event of the CQ is due when the CQ was armed since its last event and
  // has completions beyond the consumer index. A message is due when the EQ was armed and an EQE of
  // it was written since its last message.
  localparam WORK_W = EQ_WORK_LOG2 + EQN_W + 3;
  localparam [WORK_W-1:0] ARM_WORK = 10;
  localparam [WORK_W-1:0] COMMIT_WORK = 5;
  localparam [WORK_W-1:0] EQ_ARM_WORK = 1 << EQ_WORK_LOG2;
  localparam [WORK_W-1:0] WORK_MAX = {WORK_W{1'b1}} >> 1;
  localparam [WORK_W-1:0] NO_WORK = 0;
  localparam [WORD_W-1:0] LAST_WORD = {WORD_W{1'b1}};
  reg [EQS-1:0] ref_eq_live_q;
  reg ref_armed_q;
  reg [2:0] ref_recent_q;  // arms of the last three cycles
  reg [15:0] ref_total_q;
  reg [15:0] ref_index_q;
  reg ref_due_q;
  reg ref_may_q;  // the EQ was armed since the last EQE of the CQ
  reg ref_eq_armed_q;
  reg [1:0] ref_eq_recent_q;
  reg ref_eq_new_q;
  reg wr_stood_q;
  reg irq_stood_q;
  reg commit_stood_q;
  reg [CQN_W+15:0] commit_data_q;
  reg [WORK_W-1:0] work_q;

  wire commit_any = s_commit_valid && s_commit_ready;
  wire commit_me = commit_any && s_commit_cqn == me;
  wire store_me = cqdb_valid && cqdb_cqn == me;
  wire arm_any = cqdb_valid && cqdb_value[`EFA_CQ_DB__ARM];
  wire arm_me = arm_any && cqdb_cqn == me && live_q && ref_eq_live_q[home_q];
  wire [15:0] eqdb_number = eqdb_value[`EFA_REG__EQ_DB__EQN];
  wire eq_arm = eqdb_valid && eqdb_value[`EFA_REG__EQ_DB__ARM] && eqdb_number < EQS
      && ref_eq_live_q[eqdb_number[EQN_W-1:0]];
  wire home_changes = eqc_valid && eqc_eqn == home_q;
  // The first cycle in which an EQE of the CQ, or a message of the EQ, is offered. An arm of the
  // last three (two) cycles is too late to have caused it.
  wire [15:0] offered_cqn = m_wr_data[`EFA_ADMIN_EQE__U__COMP_EVENT__CQN];
  wire offer_me = m_wr_valid && !wr_stood_q && offered_cqn == me;
  wire irq_me = m_irq_valid && !irq_stood_q && ring_q && m_irq_vector == ring_ctx_q[`EFA_EQC__VECTOR];
  wire ref_armed = arm_me || (offer_me ? ref_recent_q != 0 : ref_armed_q);
  wire [15:0] ref_total = commit_me ? s_commit_total : ref_total_q;
  wire [15:0] ref_index = store_me ? cqdb_value[`EFA_CQ_DB__CONSUMER_INDEX] : ref_index_q;
  wire ref_unread = ref_total != ref_index;
  wire host_accepts = (m_wr_ready || !m_wr_valid) && (m_irq_ready || !m_irq_valid);
  wire [WORK_W-1:0] work = work_q - {{WORK_W - 1{1'b0}}, host_accepts && !clear && work_q != 0}
      + (arm_any ? ARM_WORK : NO_WORK) + (commit_any ? COMMIT_WORK : NO_WORK)
      + (eq_arm ? EQ_ARM_WORK : NO_WORK);
  wire message_due = ref_eq_armed_q && ref_eq_new_q;

  always @(posedge clk) begin
    wr_stood_q <= !rst && m_wr_valid && !m_wr_ready;
    irq_stood_q <= !rst && m_irq_valid && !m_irq_ready;
    commit_stood_q <= !rst && s_commit_valid && !s_commit_ready;
    commit_data_q <= {s_commit_cqn, s_commit_total};
    if (rst) begin
      ref_eq_live_q <= {EQS{1'b0}};
      ref_armed_q <= 1'b0;
      ref_recent_q <= 3'd0;
      ref_total_q <= 16'd0;
      ref_due_q <= 1'b0;
      ref_may_q <= 1'b1;
      ref_eq_armed_q <= 1'b0;
      ref_eq_recent_q <= 2'd0;
      ref_eq_new_q <= 1'b0;
      work_q <= NO_WORK;
    end else begin
      work_q <= work > WORK_MAX ? WORK_MAX : work;
      if (eqc_valid) ref_eq_live_q[eqc_eqn] <= eqc_data[`EFA_EQC__LIVE];
      if (made || home_changes) begin
        ref_armed_q  <= 1'b0;
        ref_recent_q <= 3'd0;
        ref_due_q <= 1'b0;
      end else begin
        ref_armed_q  <= ref_armed;
        ref_recent_q <= {ref_recent_q[1:0], arm_me};
        // A consumer index without an arm withdraws a due event when it covers all completions.
        if (arm_me || commit_me) ref_due_q <= ref_armed && ref_unread;
        else
          ref_due_q <= ref_due_q && !(offer_me && ref_recent_q == 0) && !(store_me && !ref_unread);
      end
      ref_total_q <= made ? 16'd0 : ref_total;
      if (made) ref_may_q <= 1'b1;
      else if (home_changes) ref_may_q <= 1'b0;
      else if (eq_arm && eqdb_number[EQN_W-1:0] == home_q) ref_may_q <= 1'b1;
      else if (reported) ref_may_q <= 1'b0;
      if (ring_changes) begin
        ref_eq_armed_q  <= 1'b0;
        ref_eq_recent_q <= 2'd0;
        ref_eq_new_q <= 1'b0;
      end else begin
        ref_eq_recent_q <= {ref_eq_recent_q[0], eq_arm_me};
        ref_eq_armed_q <= eq_arm_me || (irq_me ? ref_eq_recent_q != 0 : ref_eq_armed_q);
        ref_eq_new_q <= wrote || (ref_eq_new_q && !irq_me);
      end
    end
    ref_index_q <= ref_index;
  end
  wire ring_changes = eqc_valid && eqc_eqn == eq;
  wire eq_arm_me = eq_arm && eqdb_number[EQN_W-1:0] == eq;

  // Position of the CQ in the set of arms, and of its last commit in the FIFO of commits.
  reg [CQN_W+1:0] line_q;
  reg [4:0] mine_q;
  wire [CQN_W-1:0] arms_stored = set_wr - set_rd;
  wire [CQN_W+1:0] arms = {2'd0, arms_stored} + {{CQN_W + 1{1'b0}}, arm_valid};
  wire push_me = add_me && fresh;
  always @(posedge clk) begin
    if (push_me) line_q <= arms - {{CQN_W + 1{1'b0}}, take_arm};
    else if (take_arm) line_q <= line_q - 1'b1;
    if (rst) mine_q <= 5'd0;
    else if (commit_me) mine_q <= commits + 5'd1 - {4'd0, take_commit};
    else if (take_commit && mine_q != 0) mine_q <= mine_q - 5'd1;
  end
  // A due event is in one of these places of the block.
  wire at_me = cqn == me;
  wire held = kept || (db_me && db_arm) || (request && (!queued || line_q < arms))
      || (armed && (mine_q != 0 || (exam_me && !exam_arm))) || (state == ST_POST && at_me && !wr_stood_q)
      || (exam_me && exam_arm && rd_wanted && (rd_total != rd_index || mine_q != 0));
  wire eq_arming = state == ST_EQ_ARM && eqn == eq;
  wire irq_last = state == ST_IRQ && eqn == eq && irq_stood_q;
  wire irq_first = state == ST_IRQ && eqn == eq && !irq_stood_q;

  // Upper bound of the cycles for the remaining work of the block.
  reg [SCAN_W:0] bits_left;
  reg [3:0] eq_arms;
  integer r;
  always @* begin
    bits_left = {SCAN_W + 1{1'b0}};
    eq_arms   = 4'd0;
    for (r = SCAN - 1; r >= 0; r = r - 1) if (todo[r]) bits_left = SCAN - r;
    for (r = 0; r < EQS; r = r + 1) eq_arms = eq_arms + {3'd0, eq_request[r]};
  end
  wire [WORD_W-1:0] words_left = LAST_WORD - word;
  wire [WORK_W-1:0] scan_work = !scanning ? NO_WORK : {words_left, {SCAN_W + 3{1'b0}}}
      + (word_loaded ? {bits_left, 2'd0} + 1'd1 : 4 * SCAN + 2);
  wire [WORK_W-1:0] state_work = state == ST_EXAMINE ? 3
      : state == ST_POST ? 2 + scan_work : state == ST_IRQ ? 1 + scan_work
      : state == ST_EQ_ARM ? EQ_ARM_WORK - 1 : state == ST_SCAN_CQ ? 3 + scan_work
      : scan_work;
  wire [WORK_W-1:0] to_do = {eq_arms, {EQ_WORK_LOG2{1'b0}}} + {arms, 3'd0} + {commits, 2'd0}
      + (db_valid && db_arm ? 10 : 0) + (adding ? 9 : 0) + state_work;

  wire deferred_right = !ref_due_q || held;
  wire pending_right = (!kept || posted) && (!live_q || (state == ST_POST && at_me) || !posted || !ref_may_q
      || eq_request[home_q] || (state == ST_EQ_ARM && eqn == home_q) || ahead);
  wire woken_right = !message_due || eq_request[eq] || eq_arming || irq_first;
  wire work_right = to_do <= work_q && work_q <= WORK_MAX;

  always @* begin
    if (COMPOSED && began_q && !rst) begin
      // Each of these is proven in its own job, without the other properties.
      a_deferred : assume (deferred_right);
      a_pending : assume (pending_right);
      a_woken : assume (woken_right);
      a_work : assume (work_right);
    end
    a_reset_first : assume (began_q || rst);
    // A CQ is created and destroyed while none of its completions is in the block and it is not
    // examined.
    a_cq_rests :
    assume (!made || !((state == ST_EXAMINE || state == ST_POST || state == ST_SCAN_CQ) && cqn == me) && !(rd_en && rd_cqn == me) && mine_q == 0 && !commit_me);
    // An EQ is created only when it is idle, as the drain shows.
    a_eq_rests : assume (!(ring_made && eqc_data[`EFA_EQC__LIVE]) || !busy_eq);
    a_depth : assume (!eqc_valid || eqc_data[`EFA_EQC__LOG] <= LOG_MAX);
    // An offered commit stays until it is accepted.
    a_commit_stays :
    assume (!commit_stood_q || (s_commit_valid && {s_commit_cqn, s_commit_total} == commit_data_q));
    // Commands wait for the init sweep.
    a_init : assume (init_done || !cqc_valid);
    // The RAM of the set of arms returns its items in order.
    a_line :
    assume (!arm_valid || bypassed || ((arm_cqn == me) == (queued && line_q == 0)
        && (arm_cqn != me || arm_bit == added_word)));
    // The FIFO of commits, too: the last commit of the CQ in it is the last accepted commit of the
    // CQ.
    a_commits :
    assume (!take_commit || (mine_q == 0 ? commit_cqn != me
        : mine_q != 1 || {commit_cqn, commit_total} == {me, ref_total_q}));
    // The RAM of the set of arms has space.
    a_space : assume (!arm_push || arm_fetch || arms_stored != {CQN_W{1'b1}});
    // The chosen word of each memory is that of the CQ.
    a_words :
    assume (ctx_addr == me && state_addr == me && rows_addr == my_word && total_addr == me
        && index_addr == me && added_addr == me && taken_addr == me && set_rd_addr == me
        && set_clear_addr == me && clear_rd_addr == me && clear_set_addr == me);
    if (began_q && !rst) begin
      h_lines : assert (arms <= CQS && commits <= 5'd16 && (arm_valid || arms == 0));
      h_head :
      assert ((!queued || line_q < arms)
          && (!(arm_valid && bypassed) || ((arm_cqn == me) == (queued && line_q == 0)
          && (arm_cqn != me || arm_bit == added_word))));
      h_init :
      assert (init <= CQS && set_init == init
          && (init_done || (state == ST_IDLE && !scanning && arms == 0 && !db_valid && !adding
          && !live_q && !cleared && !set && !drop_arm && !wr_stood_q && !irq_stood_q)));
      h_swept :
      assert (!swept || (ctx_known && state_known && total_known && added_known && taken_known
          && set_rd_known && set_clear_known && clear_rd_known && clear_set_known
          && (rows_known || (!init_done && init[CQN_W-1:SCAN_W] < my_word))));
      h_fresh :
      assert (init_done || !swept || (added_word == taken_word && set_rd_word == clear_rd_word
          && !ctx_word[EQN_W] && state_word == 3'd0 && total_word == 16'd0));
      h_ctx :
      assert (!swept ? !live_q : (ctx_word[EQN_W] == live_q && (!live_q || ctx_word[EQN_W-1:0] == home_q)));
      h_copies :
      assert (!swept || (set_rd_word == set_clear_word && clear_rd_word == clear_set_word));
      h_set : assert (!(set && set_cqn == me) || set_bit != clear_set_word);
      h_drop :
      assert (!(drop_arm && drop_cqn == me)
          || drop_bit == (set && set_cqn == me ? set_bit : set_clear_word));
      h_stage :
      assert (!add_me || (added_bit == added_word && fresh == (added_word == taken_word)));
      h_read :
      assert (!((state == ST_EXAMINE || state == ST_SCAN_CQ) && cqn == me)
          || (!gone && rd_live == live_q && (!live_q || ctx_eqn == home_q)
          && {rd_armed, rd_posted, rd_deferred} == state_word && !clear_me));
      h_read_row :
      assert (!((state == ST_EXAMINE && cqn[CQN_W-1:SCAN_W] == my_word)
          || (scanning && word_loaded && word == my_word)) || row == rows_word);
      h_posted : assert (!(state == ST_POST && at_me) || posted);
      h_row : assert (!posted || row_bit);
      h_drop_bit :
      assert (!(scanning && word_loaded && word == my_word && drop[me[SCAN_W-1:0]]) || !posted);
      h_deferred : assert ((!kept || posted) && (live_q || !(posted || armed)));
      h_dropped :
      assert (!(scanning && word_loaded && word == my_word && drop[me[SCAN_W-1:0]])
          || (scan_from > me[SCAN_W-1:0] && !(state == ST_SCAN_CQ && at_me)));
      h_from : assert (!word_loaded || scan_from <= SCAN);
      h_ring :
      assert (!ring_q || (eq_count[COUNT_W*eq+:COUNT_W] == written_q[COUNT_W-1:0]
          && eq_ctx[`EFA_EQC__W*eq+:`EFA_EQC__W] == ring_ctx_q));
      h_log : assert (!ring_q || log <= LOG_MAX);
      h_scan :
      assert (!scanning || state == ST_SCAN || state == ST_SCAN_CQ || state == ST_POST
          || state == ST_IRQ);
      h_scanning :
      assert (state <= ST_SCAN_CQ && (scanning || (state != ST_SCAN && state != ST_SCAN_CQ)));
      h_picked :
      assert (state != ST_SCAN_CQ || (scanning && word_loaded && word == cqn[CQN_W-1:SCAN_W]
          && scan_from == cqn[SCAN_W-1:0] + 1'b1));
      h_visited : assert (!(scanning && (state == ST_POST || state == ST_IRQ)) || eqn == scan_eqn);
      h_present : assert (!(scanning && state == ST_POST && cqn == me) || !ahead);
      h_may :
      assert (may_q || !live_q || (posted && !ahead && !(state == ST_POST && cqn == me)
          && !(state == ST_SCAN_CQ && cqn == me && scan_eqn == home_q)));
      h_requested : assert (!request || requested_q);
      h_db_requested : assert (!(db_me && db_arm) || requested_q || (cleared && cleared_cqn == me));
      h_waits : assert (!armed || waits_q);
      h_looks : assert (!(exam_me && exam_arm && rd_wanted) || waits_q);
      h_eq_armed : assert (!eq_armed[eq] || eq_armed_q);
      h_eq_new : assert (!ring_q || !eq_new[eq] || eq_new_q);
      h_message : assert (!(state == ST_IRQ && eqn == eq) || (eq_armed_q && (eq_new_q || !ring_q)));
      h_w_mine : assert (mine_q <= commits);
      h_w_levels :
      assert (commits[3:0] == commit_wr - commit_rd && (!commit_stood_q || commits >= 5'd15));
      h_w_after :
      assert (!arm_marked || {1'b0, arm_after} <= {1'b0, commits} + {5'd0, commit_stood_q});
      h_w_live : assert (ref_eq_live_q == eq_live);
      h_w_ref :
      assert ((!ref_due_q || (ref_armed_q && ref_total_q != ref_index_q))
          && (!ref_armed_q || (live_q && eq_live[home_q]
          && (db_me ? db_index == ref_index_q : index_known && index_word == ref_index_q)))
          && (ref_recent_q == 0 || ref_armed_q)
          && !(ref_armed_q && cleared && cleared_cqn == me)
          && (!(ref_due_q && db_me && !db_arm) || mine_q != 0
          || (index_known && index_word != ref_total_q)));
      h_w_total : assert (mine_q != 0 || ref_total_q == (swept && !clear_me ? total_word : 16'd0));
      h_w_armed :
      assert (!ref_armed_q || armed || request || kept || (db_me && db_arm)
          || (at_me && ((exam_me && exam_arm && rd_wanted) || (state == ST_POST && !wr_stood_q))));
      h_w_recent :
      assert ((!ref_recent_q[0] || (db_me && db_arm)) && (!ref_recent_q[1] || request)
          && (!ref_recent_q[2] || request || (exam_me && exam_arm && rd_wanted)));
      h_w_scan : assert (state != ST_EQ_ARM || (eqn == scan_eqn && !scanning));
      h_w_stood : assert ((!wr_stood_q || state == ST_POST) && (!irq_stood_q || state == ST_IRQ));
      h_w_eq :
      assert ((!ref_eq_live_q[eq] || ring_q) && (!ref_eq_armed_q || ref_eq_live_q[eq])
          && (!ref_eq_new_q || ring_q) && !(eq_armed[eq] && eq_new[eq]) && (!ref_eq_new_q || eq_new[eq] || irq_first)
          && (!ref_eq_new_q || !irq_last)
          && (!ref_eq_armed_q || (eq_armed[eq] && !irq_last) || eq_request[eq] || eq_arming || irq_first)
          && (ref_eq_recent_q == 0 || ref_eq_armed_q) && (!ref_eq_recent_q[0] || eq_request[eq])
          && (!ref_eq_recent_q[1] || eq_request[eq] || eq_arming));
      p_slot :
      assert (!wrote || m_wr_addr == {ring_ctx_q[`EFA_EQC__BASE], 6'd0} + {44'd0, slot, 4'd0});
      p_phase : assert (!wrote || m_wr_data[`EFA_ADMIN_EQE__PHASE] == !wraps[0]);
      p_once : assert (!(reported && live_q) || may_q);
      // A due event is in a place of the block from which it proceeds: no event is lost.
      p_deferred : assert (deferred_right);
      p_pending : assert (pending_right);
      p_woken : assert (woken_right);
      p_work : assert (work_right);
      // A due event is therefore written before the work ends, or waits for the next arm of its EQ.
      p_met : assert (work_q != 0 || !((live_q && ref_due_q && ref_may_q) || message_due));
      p_requested : assert (!event_mine || waits_q);
      p_message : assert (!(sent && ring_q) || (eq_armed_q && eq_new_q));
      c_slot : cover (wrote && written_q == 16'd1);
      c_phase : cover (wrote && wrapped_q);
      c_once : cover (reported && live_q);
      c_deferred : cover (ref_due_q && kept);
      c_met : cover (live_q && !may_q && !ref_due_q && work_q == 1);
      c_pending : cover (kept && ref_may_q);
      c_woken : cover (m_irq_valid && message_due);
      c_work : cover (to_do != 0 && work_q == to_do);
      c_requested : cover (event_mine && live_q);
      c_message : cover (sent);
    end
  end

endmodule
