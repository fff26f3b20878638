// SPDX-License-Identifier: Apache-2.0
// efa_eq - turns commits of armed CQs into EQEs, and EQEs of armed EQs into interrupts.
//
// In    s_commit CQEs written to interrupt-mode CQs; s_cqdb, s_eqdb doorbells; s_cqc, s_eqc
//       contexts
// Out   m_wr EQEs; m_irq vector of an armed EQ, requested after its EQE was accepted;
//       s_drain_ready: the results of the commits before s_drained have left; m_init_done: the
//       tables are clear, no context is written before
// Time  one commit per cycle while its CQ is not armed, 16 wait during an EQE; EQE 3 cycles after
//       its commit, 5 after the arm of a CQ with unread CQEs; interrupt 1 cycle after its EQE was
//       accepted; arm of an EQ: 3 cycles to the interrupt of a new EQE, then 2 for each 32 CQs
//       scanned, 2 more for each CQ with an EQE written or pending; s_drain of an idle module 1
//       cycle; init sweep 2^CQN_W cycles; no CQ is examined in the cycle after s_cqc_valid
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_eq #(
    parameter CQN_W = 7,
    // log2 of the CQs in one word of the scan.
    parameter SCAN_W = 5
) (
    input  wire clk,
    input  wire rst,

    input  wire s_cqc_valid,
    input  wire [CQN_W-1:0] s_cqc_cqn,
    input  wire [`EFA_CQC__W-1:0] s_cqc_data,
    input  wire s_eqc_valid,
    input  wire [`EFA_LIMITS__EQN_W-1:0] s_eqc_eqn,
    input  wire [`EFA_EQC__W-1:0] s_eqc_data,

    input  wire s_cqdb_valid,
    input  wire [CQN_W-1:0] s_cqdb_cqn,
    input  wire [31:0] s_cqdb_value,
    input  wire s_eqdb_valid,
    input  wire [31:0] s_eqdb_value,

    input  wire s_commit_valid,
    output wire s_commit_ready,
    input  wire [CQN_W-1:0] s_commit_cqn,
    input  wire [15:0] s_commit_total,

    output wire m_wr_valid,
    input  wire m_wr_ready,
    output wire [63:0] m_wr_addr,
    output wire [127:0] m_wr_data,

    output wire m_irq_valid,
    input  wire m_irq_ready,
    output wire [7:0] m_irq_vector,

    input  wire s_drain_valid,
    input  wire s_drained,
    output wire s_drain_ready,

    output wire m_init_done,

    output wire ev_eqe_valid,
    output wire [63:0] ev_eqe_data
);

  localparam EQN_W = `EFA_LIMITS__EQN_W;
  localparam EQS = 1 << EQN_W;
  localparam EQC_W = `EFA_EQC__W;
  // Index and wrap count of an EQ; the phase needs one wrap bit.
  localparam SLOT_W = $clog2(`EFA_LIMITS__MAX_EQ_DEPTH);
  localparam COUNT_W = SLOT_W + 1;
  localparam WORD_W = CQN_W - SCAN_W;
  localparam SCAN = 1 << SCAN_W;

  localparam [2:0] ST_IDLE = 3'd0;
  localparam [2:0] ST_EXAMINE = 3'd1;
  localparam [2:0] ST_POST = 3'd2;
  localparam [2:0] ST_IRQ = 3'd3;
  localparam [2:0] ST_EQ_ARM = 3'd4;
  localparam [2:0] ST_SCAN = 3'd5;
  localparam [2:0] ST_SCAN_CQ = 3'd6;

  generate
    if (CQN_W <= SCAN_W) begin : g_illegal
      efa_parameter_error cqn_w_must_be_above_scan_w ();
    end
  endgenerate

  // State of each EQ.
  reg [EQS-1:0] eq_live_q;
  reg [EQS-1:0] eq_armed_q;
  reg [EQS-1:0] eq_new_q;
  reg [EQS-1:0] eq_request_q;
  reg [EQS*EQC_W-1:0] eq_ctx_q;
  reg [EQS*COUNT_W-1:0] eq_count_q;

  reg [2:0] state_q;
  reg scanning_q;
  reg commit_next_q;
  reg arm_next_q;
  reg [CQN_W-1:0] cqn_q;
  reg [EQN_W-1:0] eqn_q;
  reg [EQN_W-1:0] scan_eqn_q;
  reg arm_q;  // the examined CQ has an arm, otherwise a commit
  reg gone_q;  // the context of the CQ was written after its tables were read
  reg [WORD_W-1:0] word_q;
  reg word_loaded_q;
  reg [SCAN_W:0] scan_from_q;
  reg [SCAN-1:0] drop_q;

  // The init sweep after reset, and each context write one cycle later, clear the state of a CQ.
  // Both use the write ports of the tables, so nothing is examined in that cycle.
  reg [CQN_W:0] init_q;
  reg cqc_q;
  reg [CQN_W-1:0] cqc_cqn_q;
  wire init_run = !init_q[CQN_W];
  wire clear = init_run || cqc_q;
  wire [CQN_W-1:0] clear_cqn = init_run ? init_q[CQN_W-1:0] : cqc_cqn_q;
  assign m_init_done = !init_run;

  // CQs with an arm doorbell.
  wire arm_valid;
  wire [CQN_W-1:0] arm_cqn;
  wire arm_pop;
  wire arm_wanted;
  wire [15:0] consumed;
  efa_eq_arms #(
      .CQN_W(CQN_W)
  ) u_arms (
      .clk(clk),
      .rst(rst),
      .s_init_run(init_run),
      .s_init_cqn(init_q[CQN_W-1:0]),
      .s_clear_valid(cqc_q),
      .s_clear_cqn(cqc_cqn_q),
      .s_cqdb_valid(s_cqdb_valid),
      .s_cqdb_cqn(s_cqdb_cqn),
      .s_cqdb_value(s_cqdb_value),
      .m_arm_valid(arm_valid),
      .m_arm_ready(arm_pop),
      .m_arm_cqn(arm_cqn),
      .m_arm_wanted(arm_wanted),
      .m_arm_index(consumed)
  );

  // Arms of EQs are served lowest number first.
  reg [EQN_W-1:0] eq_pick;
  integer e;
  always @* begin
    eq_pick = {EQN_W{1'b0}};
    for (e = EQS - 1; e >= 0; e = e - 1) begin
      if (eq_request_q[e]) begin
        eq_pick = e[EQN_W-1:0];
      end
    end
  end

  // While an EQE waits for the host, at most 2^COMMITS_LOG2 CQEs of interrupt-mode CQs wait here.
  localparam COMMITS_LOG2 = 4;
  wire commit_valid;
  wire commit_take;
  wire [CQN_W-1:0] commit_cqn;
  wire [15:0] commit_total;
  wire [COMMITS_LOG2:0] commit_level;
  efa_fifo #(
      .WIDTH(CQN_W + 16),
      .DEPTH_LOG2(COMMITS_LOG2)
  ) u_commits (
      .clk(clk),
      .rst(rst),
      .s_valid(s_commit_valid),
      .s_ready(s_commit_ready),
      .s_data({s_commit_cqn, s_commit_total}),
      .m_valid(commit_valid),
      .m_ready(commit_take),
      .m_data({commit_cqn, commit_total}),
      .m_level(commit_level)
  );

  // An arm is evaluated after all earlier commits. Otherwise CQEs already consumed by the host
  // would count as unread.
  reg arm_marked_q;
  reg [COMMITS_LOG2:0] arm_after_q;
  wire [COMMITS_LOG2:0] commit_waits = commit_level + {{COMMITS_LOG2{1'b0}}, s_commit_valid};
  wire [COMMITS_LOG2:0] arm_after = arm_marked_q ? arm_after_q : commit_waits;
  wire arm_due = arm_after == {(COMMITS_LOG2 + 1) {1'b0}};
  always @(posedge clk) begin
    if (rst) arm_marked_q <= 1'b0;
    else arm_marked_q <= arm_valid && !arm_pop;
    arm_after_q <= arm_after - {{COMMITS_LOG2{1'b0}}, take_commit && !arm_due};
  end

  // The tables of the examined CQ, and what its commit or arm causes.
  wire ctx_read_live;
  wire [EQN_W-1:0] ctx_eqn;
  wire [15:0] total;
  wire cq_armed;
  wire cq_posted;
  wire cq_deferred;
  wire [SCAN-1:0] posted_row;
  wire ctx_live = ctx_read_live && !gone_q;
  wire armed_commit = ctx_live && !arm_q && cq_armed;
  wire wanted_arm = ctx_live && arm_q && arm_wanted;
  wire event_due = armed_commit || (wanted_arm && total != consumed);

  // A commit without an event leaves in one cycle, so the next item is taken behind it.
  wire open = !clear && (state_q == ST_IDLE || (state_q == ST_EXAMINE && !arm_q && !armed_commit));
  wire take_commit = open && commit_valid && (commit_next_q || !(|eq_request_q || arm_waits));
  wire arm_waits = arm_valid && arm_due;
  wire take_eq = open && !take_commit && |eq_request_q && !(arm_next_q && arm_waits);
  wire take_arm = open && !take_commit && !take_eq && arm_waits;
  assign commit_take = take_commit;
  assign arm_pop = take_arm;

  // The next CQ in the current word of the CQ scan.
  wire [SCAN-1:0] todo = posted_row & ({SCAN{1'b1}} << scan_from_q);
  reg [SCAN_W-1:0] scan_bit;
  integer b;
  always @* begin
    scan_bit = {SCAN_W{1'b0}};
    for (b = SCAN - 1; b >= 0; b = b - 1) begin
      if (todo[b]) begin
        scan_bit = b[SCAN_W-1:0];
      end
    end
  end
  wire [CQN_W-1:0] scan_cqn = {word_q, scan_bit};
  wire scan_load = !clear && state_q == ST_SCAN && !word_loaded_q;
  wire scan_pick = !clear && state_q == ST_SCAN && word_loaded_q && |todo;
  wire scan_store = !clear && state_q == ST_SCAN && word_loaded_q && !(|todo);

  // The scanned CQ: an arm of its EQ frees it; a CQ without an EQE leaves the row.
  wire scan_own = ctx_live && ctx_eqn == scan_eqn_q;
  wire scan_keep = ctx_live && cq_posted && (!scan_own || cq_deferred);

  wire examine = !clear && state_q == ST_EXAMINE;
  wire eq_there = eq_live_q[ctx_eqn];
  wire post_now = examine && event_due && eq_there && !cq_posted;

  wire [CQN_W-1:0] rd_cqn = scan_pick ? scan_cqn : take_commit ? commit_cqn : arm_cqn;
  wire rd_en = scan_pick || take_commit || take_arm;
  wire [7:0] cqc_eqn = s_cqc_data[`EFA_CQC__EQN];

  // Written by the context writer alone: live, in interrupt mode; and its EQ.
  efa_ram #(
      .WIDTH (1 + EQN_W),
      .ADDR_W(CQN_W)
  ) u_ctx (
      .clk(clk),
      .wr_en(s_cqc_valid || init_run),
      .wr_addr(init_run ? init_q[CQN_W-1:0] : s_cqc_cqn),
      .wr_data({
        s_cqc_data[`EFA_CQC__LIVE] && s_cqc_data[`EFA_CQC__INTR] && !init_run, cqc_eqn[EQN_W-1:0]
      }),
      .rd_en(rd_en),
      .rd_addr(rd_cqn),
      .rd_data({ctx_read_live, ctx_eqn})
  );

  // Armed; an EQE was written since the last arm of the EQ; a further one is pending.
  reg state_wr;
  reg [2:0] state_wr_data;
  efa_ram #(
      .WIDTH (3),
      .ADDR_W(CQN_W)
  ) u_state (
      .clk(clk),
      .wr_en(clear || state_wr),
      .wr_addr(clear ? clear_cqn : cqn_q),
      .wr_data(clear ? 3'd0 : state_wr_data),
      .rd_en(rd_en),
      .rd_addr(rd_cqn),
      .rd_data({cq_armed, cq_posted, cq_deferred})
  );
  always @* begin
    state_wr = examine && (event_due || wanted_arm);
    state_wr_data = {1'b1, cq_posted, cq_deferred};
    if (event_due)
      state_wr_data = {1'b0, cq_posted || eq_there, cq_deferred || (cq_posted && eq_there)};
    if (state_q == ST_SCAN_CQ) begin
      state_wr = !clear && scan_own;
      state_wr_data = {cq_armed, cq_deferred, 1'b0};
    end
  end

  // One bit for each CQ that may have an EQE, in rows for the scan. A bit of a CQ that was created
  // again stays until the next scan.
  wire [SCAN-1:0] cqn_bit = {{SCAN - 1{1'b0}}, 1'b1} << cqn_q[SCAN_W-1:0];
  efa_ram #(
      .WIDTH (SCAN),
      .ADDR_W(WORD_W)
  ) u_rows (
      .clk(clk),
      .wr_en(init_run || post_now || scan_store),
      .wr_addr(init_run ? init_q[CQN_W-1:SCAN_W] : scan_store ? word_q : cqn_q[CQN_W-1:SCAN_W]),
      .wr_data(init_run ? {SCAN{1'b0}} : scan_store ? posted_row & ~drop_q : posted_row | cqn_bit),
      .rd_en(scan_load || take_commit || take_arm),
      .rd_addr(scan_load ? word_q : rd_cqn[CQN_W-1:SCAN_W]),
      .rd_data(posted_row)
  );

  efa_ram #(
      .WIDTH (16),
      .ADDR_W(CQN_W)
  ) u_total (
      .clk(clk),
      .wr_en(clear || take_commit),
      .wr_addr(clear ? clear_cqn : commit_cqn),
      .wr_data(clear ? 16'd0 : commit_total),
      .rd_en(rd_en),
      .rd_addr(rd_cqn),
      .rd_data(total)
  );

  // The EQE of cqn_q for EQ eqn_q.
  wire [EQC_W-1:0] eq_ctx = eq_ctx_q[EQC_W*eqn_q+:EQC_W];
  wire [COUNT_W-1:0] eq_count = eq_count_q[COUNT_W*eqn_q+:COUNT_W];
  wire [SLOT_W-1:0] eq_slot = eq_count[SLOT_W-1:0] & ~({SLOT_W{1'b1}} << eq_ctx[`EFA_EQC__LOG]);
  wire [COUNT_W-1:0] eq_wrap = eq_count >> eq_ctx[`EFA_EQC__LOG];
  reg [127:0] eqe;
  always @* begin
    eqe = 128'd0;
    eqe[`EFA_ADMIN_EQE__PHASE] = !eq_wrap[0];
    eqe[`EFA_ADMIN_EQE__EVENT_TYPE] = `EFA_ADMIN_EQE_EVENT_TYPE__COMPLETION;
    eqe[`EFA_ADMIN_EQE__U__COMP_EVENT__CQN] = {{(16 - CQN_W) {1'b0}}, cqn_q};
  end
  assign m_wr_valid = state_q == ST_POST;
  assign m_wr_addr = {eq_ctx[`EFA_EQC__BASE], 6'b0} + {{(60 - SLOT_W) {1'b0}}, eq_slot, 4'b0};
  assign m_wr_data = eqe;
  assign m_irq_valid = state_q == ST_IRQ;
  assign m_irq_vector = eq_ctx[`EFA_EQC__VECTOR];
  wire [2:0] st_return = scanning_q ? ST_SCAN : ST_IDLE;

  wire [15:0] eqdb_number = s_eqdb_value[`EFA_REG__EQ_DB__EQN];
  wire [EQN_W-1:0] eqdb_eqn = eqdb_number[EQN_W-1:0];
  wire eqdb_known = eqdb_number[15:EQN_W] == {(16 - EQN_W) {1'b0}};

  always @(posedge clk) begin
    if (rd_en) begin
      cqn_q  <= rd_cqn;
      gone_q <= s_cqc_valid && s_cqc_cqn == rd_cqn;
    end else if (s_cqc_valid && s_cqc_cqn == cqn_q) begin
      gone_q <= 1'b1;
    end
    if (take_commit || take_arm) arm_q <= take_arm;
    if (examine) eqn_q <= ctx_eqn;
    if (take_eq) begin
      eqn_q <= eq_pick;
      scan_eqn_q <= eq_pick;
    end
    if (state_q == ST_SCAN_CQ) eqn_q <= scan_eqn_q;
    if (scan_load) begin
      scan_from_q <= {SCAN_W + 1{1'b0}};
      drop_q <= {SCAN{1'b0}};
    end
    if (scan_pick) scan_from_q <= {1'b0, scan_bit} + 1'b1;
    if (!clear && state_q == ST_SCAN_CQ && !scan_keep) drop_q <= drop_q | cqn_bit;
    cqc_cqn_q <= s_cqc_cqn;
    if (m_wr_valid && m_wr_ready) eq_count_q[COUNT_W*eqn_q+:COUNT_W] <= eq_count + 1'b1;
    // A destroyed EQ keeps its context: one of its interrupts may be waiting for efa_irq.
    if (s_eqc_valid && s_eqc_data[`EFA_EQC__LIVE]) begin
      eq_ctx_q[EQC_W*s_eqc_eqn+:EQC_W] <= s_eqc_data;
      eq_count_q[COUNT_W*s_eqc_eqn+:COUNT_W] <= {COUNT_W{1'b0}};
    end
    if (rst) begin
      state_q <= ST_IDLE;
      scanning_q <= 1'b0;
      commit_next_q <= 1'b0;
      arm_next_q <= 1'b0;
      word_q <= {WORD_W{1'b0}};
      word_loaded_q <= 1'b0;
      init_q <= {(CQN_W + 1) {1'b0}};
      cqc_q <= 1'b0;
      eq_live_q <= {EQS{1'b0}};
      eq_armed_q <= {EQS{1'b0}};
      eq_new_q <= {EQS{1'b0}};
      eq_request_q <= {EQS{1'b0}};
    end else begin
      if (init_run) init_q <= init_q + 1'b1;
      cqc_q <= s_cqc_valid;
      case (state_q)
        // Waits for a commit, an arm of an EQ or an arm of a CQ; none of them starves.
        ST_IDLE: begin
        end
        // Has the tables of a CQ, for its commit or its arm. An arm of a CQ with unread CQEs, and a
        // commit of an armed CQ, send one EQE between two arms of the EQ; a further one stays
        // pending.
        ST_EXAMINE: begin
          if (!clear) state_q <= post_now ? ST_POST : ST_IDLE;
        end
        // Waits for the host write stream.
        ST_POST: begin
          if (m_wr_ready) begin
            if (eq_armed_q[eqn_q]) begin
              state_q <= ST_IRQ;
            end else begin
              eq_new_q[eqn_q] <= 1'b1;
              state_q <= st_return;
            end
          end
        end
        // Waits until the interrupt is accepted.
        ST_IRQ: begin
          if (m_irq_ready) begin
            eq_armed_q[eqn_q] <= 1'b0;
            eq_new_q[eqn_q] <= 1'b0;
            state_q <= st_return;
          end
        end
        // EQEs written since the last interrupt cause one at once.
        ST_EQ_ARM: begin
          scanning_q <= 1'b1;
          word_q <= {WORD_W{1'b0}};
          word_loaded_q <= 1'b0;
          state_q <= ST_SCAN;
          if (eq_live_q[eqn_q]) begin
            if (eq_new_q[eqn_q]) begin
              state_q <= ST_IRQ;
            end else begin
              eq_armed_q[eqn_q] <= 1'b1;
            end
          end
        end
        // Finds the next CQ with an EQE written or pending.
        ST_SCAN: begin
          if (scan_load) word_loaded_q <= 1'b1;
          if (scan_pick) state_q <= ST_SCAN_CQ;
          if (scan_store) begin
            word_loaded_q <= 1'b0;
            word_q <= word_q + 1'b1;
            if (&word_q) begin
              scanning_q <= 1'b0;
              state_q <= ST_IDLE;
            end
          end
        end
        // A CQ of the armed EQ may post again, and posts at once if its EQE is pending.
        default: begin
          if (!clear) state_q <= scan_own && cq_deferred ? ST_POST : ST_SCAN;
        end
      endcase
      if (take_commit) begin
        commit_next_q <= 1'b0;
        state_q <= ST_EXAMINE;
      end
      if (take_eq) begin
        commit_next_q <= 1'b1;
        arm_next_q <= 1'b1;
        eq_request_q[eq_pick] <= 1'b0;
        state_q <= ST_EQ_ARM;
      end
      if (take_arm) begin
        commit_next_q <= 1'b1;
        arm_next_q <= 1'b0;
        state_q <= ST_EXAMINE;
      end
      if (s_eqdb_valid && eqdb_known && s_eqdb_value[`EFA_REG__EQ_DB__ARM] && eq_live_q[eqdb_eqn]) begin
        eq_request_q[eqdb_eqn] <= 1'b1;
      end
      if (s_eqc_valid) begin
        eq_live_q[s_eqc_eqn] <= s_eqc_data[`EFA_EQC__LIVE];
        eq_armed_q[s_eqc_eqn] <= 1'b0;
        eq_new_q[s_eqc_eqn] <= 1'b0;
        eq_request_q[s_eqc_eqn] <= 1'b0;
      end
    end
  end

  // A drain is done when the waiting commits were handled and the module is idle: a destroyed queue
  // then causes no further EQE and no further write.
  reg draining_q;
  reg [COMMITS_LOG2:0] drain_left_q;
  wire [COMMITS_LOG2:0] drain_level = commit_level
      + {{COMMITS_LOG2{1'b0}}, s_commit_valid && s_commit_ready} - {{COMMITS_LOG2{1'b0}}, take_commit};
  assign s_drain_ready = draining_q && drain_left_q == {(COMMITS_LOG2 + 1) {1'b0}} && open;
  always @(posedge clk) begin
    if (rst) draining_q <= 1'b0;
    else draining_q <= s_drain_valid && !s_drain_ready && (draining_q || s_drained);
    if (!draining_q) drain_left_q <= drain_level;
    else if (take_commit) drain_left_q <= drain_left_q - {{COMMITS_LOG2{1'b0}}, !s_drain_ready};
  end

  assign ev_eqe_valid = m_wr_valid && m_wr_ready;
  reg [63:0] ev_data;
  always @* begin
    ev_data = 64'd0;
    ev_data[`EFA_EV_EQE__EQN] = {{(8 - EQN_W) {1'b0}}, eqn_q};
    ev_data[`EFA_EV_EQE__CQN] = {{(13 - CQN_W) {1'b0}}, cqn_q};
  end
  assign ev_eqe_data = ev_data;

  wire unused_bits = &{1'b0, s_cqc_data, eq_wrap[COUNT_W-1:1], eq_ctx[`EFA_EQC__LIVE],
                       s_eqdb_value[30:16], cqc_eqn};

endmodule

`default_nettype wire
