// SPDX-License-Identifier: Apache-2.0
// efa_eq - turns commits of armed CQs into EQEs, and EQEs of armed EQs into interrupts.
//
// In    s_commit CQEs written to interrupt-mode CQs; cqdb, eqdb doorbells; cqc, eqc contexts
// Out   m_wr EQEs; m_irq vector of an armed EQ, requested after its EQE was accepted; drain_ready:
//       the results of the commits before s_drained have left
// Time  one commit per cycle while its CQ is not armed, 16 wait during an EQE; EQE 3 cycles after
//       its commit, 5 after the arm of a CQ with unread CQEs; interrupt 1 cycle after its EQE was
//       accepted; arm of an EQ: 3 cycles to the interrupt of a new EQE, then 2 for each 32 CQs
//       scanned, 2 more for each CQ with an EQE written or pending; drain of an idle module 1 cycle
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_eq #(
    parameter CQN_W = 7
) (
    input  wire clk,
    input  wire rst,

    input  wire cqc_valid,
    input  wire [CQN_W-1:0] cqc_cqn,
    input  wire [`EFA_CQC__W-1:0] cqc_data,
    input  wire eqc_valid,
    input  wire [`EFA_LIMITS__EQN_W-1:0] eqc_eqn,
    input  wire [`EFA_EQC__W-1:0] eqc_data,

    input  wire cqdb_valid,
    input  wire [CQN_W-1:0] cqdb_cqn,
    input  wire [31:0] cqdb_value,
    input  wire eqdb_valid,
    input  wire [31:0] eqdb_value,

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

    input  wire drain_valid,
    input  wire s_drained,
    output wire drain_ready,

    output wire ev_eqe_valid,
    output wire [63:0] ev_eqe_data
);

  localparam EQN_W = `EFA_LIMITS__EQN_W;
  localparam EQS = 1 << EQN_W;
  localparam EQC_W = `EFA_EQC__W;
  // Index and wrap count of an EQ; the phase needs one wrap bit.
  localparam SLOT_W = $clog2(`EFA_LIMITS__MAX_EQ_DEPTH);
  localparam COUNT_W = SLOT_W + 1;
  localparam CQS = 1 << CQN_W;
  localparam WORD_W = CQN_W - 5;

  localparam [2:0] ST_IDLE = 3'd0;
  localparam [2:0] ST_CQ_ARM = 3'd1;
  localparam [2:0] ST_EVENT = 3'd2;
  localparam [2:0] ST_POST = 3'd3;
  localparam [2:0] ST_IRQ = 3'd4;
  localparam [2:0] ST_EQ_ARM = 3'd5;
  localparam [2:0] ST_SCAN = 3'd6;
  localparam [2:0] ST_SCAN_CQ = 3'd7;

  generate
    if (CQN_W < 6) begin : g_illegal
      efa_parameter_error cqn_w_must_be_at_least_6 ();
    end
  endgenerate

  // State of each CQ.
  reg [CQS-1:0] live_q;  // live, in interrupt mode
  reg [CQS-1:0] armed_q;
  reg [CQS-1:0] posted_q;
  reg [CQS-1:0] deferred_q;
  reg [CQS-1:0] request_q;
  reg [CQS-1:0] queued_q;
  reg [CQS-1:0] committed_q;
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
  reg [WORD_W-1:0] word_q;
  reg [31:0] todo_q;
  reg word_loaded_q;

  // CQs with an arm doorbell: each once in the FIFO, or twice while one of them is handled.
  wire arm_valid;
  wire [CQN_W-1:0] arm_cqn;
  wire arm_pop;
  wire arm_again = arm_pop && arm_cqn == cqdb_cqn;
  wire arm_push = cqdb_valid && cqdb_value[`EFA_CQ_DB__ARM] && (!queued_q[cqdb_cqn] || arm_again);
  wire arm_space;
  wire [CQN_W+1:0] arm_level;
  efa_fifo #(
      .WIDTH(CQN_W),
      .DEPTH_LOG2(CQN_W + 1)
  ) u_arms (
      .clk(clk),
      .rst(rst),
      .s_valid(arm_push),
      .s_ready(arm_space),
      .s_data(cqdb_cqn),
      .m_valid(arm_valid),
      .m_ready(arm_pop),
      .m_data(arm_cqn),
      .level(arm_level)
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
      .level(commit_level)
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

  wire idle = state_q == ST_IDLE;
  wire take_commit = idle && commit_valid && (commit_next_q || !(|eq_request_q || arm_waits));
  wire arm_waits = arm_valid && arm_due;
  wire take_eq = idle && !take_commit && |eq_request_q && !(arm_next_q && arm_waits);
  wire take_arm = idle && !take_commit && !take_eq && arm_waits;
  assign commit_take = take_commit;
  assign arm_pop = take_arm;

  // The next CQ in the current word of the CQ scan.
  reg [4:0] scan_bit;
  integer b;
  always @* begin
    scan_bit = 5'd0;
    for (b = 31; b >= 0; b = b - 1) begin
      if (todo_q[b]) begin
        scan_bit = b[4:0];
      end
    end
  end
  wire [CQN_W-1:0] scan_cqn = {word_q, scan_bit};
  wire scan_pick = state_q == ST_SCAN && word_loaded_q && |todo_q;

  // Tables, read for the selected CQ.
  wire [CQN_W-1:0] rd_cqn = scan_pick ? scan_cqn : take_commit ? commit_cqn : arm_cqn;
  wire rd_en = scan_pick || take_commit || take_arm;
  wire ctx_live = live_q[cqn_q];
  wire [7:0] cqc_eqn = cqc_data[`EFA_CQC__EQN];
  wire [EQN_W-1:0] ctx_eqn;
  wire [15:0] consumed;
  wire [15:0] total;
  wire [15:0] rd_total = committed_q[cqn_q] ? total : 16'd0;

  efa_ram #(
      .WIDTH (EQN_W),
      .ADDR_W(CQN_W)
  ) u_ctx (
      .clk(clk),
      .wr_en(cqc_valid),
      .wr_addr(cqc_cqn),
      .wr_data(cqc_eqn[EQN_W-1:0]),
      .rd_en(rd_en),
      .rd_addr(rd_cqn),
      .rd_data(ctx_eqn)
  );

  efa_ram #(
      .WIDTH (16),
      .ADDR_W(CQN_W)
  ) u_consumed (
      .clk(clk),
      .wr_en(cqdb_valid),
      .wr_addr(cqdb_cqn),
      .wr_data(cqdb_value[`EFA_CQ_DB__CONSUMER_INDEX]),
      .rd_en(rd_en),
      .rd_addr(rd_cqn),
      .rd_data(consumed)
  );

  efa_ram #(
      .WIDTH (16),
      .ADDR_W(CQN_W)
  ) u_total (
      .clk(clk),
      .wr_en(take_commit),
      .wr_addr(commit_cqn),
      .wr_data(commit_total),
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

  wire [15:0] eqdb_number = eqdb_value[`EFA_REG__EQ_DB__EQN];
  wire [EQN_W-1:0] eqdb_eqn = eqdb_number[EQN_W-1:0];
  wire eqdb_known = eqdb_number[15:EQN_W] == {(16 - EQN_W) {1'b0}};

  always @(posedge clk) begin
    if (take_commit || take_arm) begin
      cqn_q <= rd_cqn;
    end
    if (scan_pick) begin
      cqn_q <= scan_cqn;
    end
    if (state_q == ST_EVENT) begin
      eqn_q <= ctx_eqn;
    end
    if (take_eq) begin
      eqn_q <= eq_pick;
      scan_eqn_q <= eq_pick;
    end
    if (state_q == ST_SCAN_CQ) begin
      eqn_q <= scan_eqn_q;
    end
    if (state_q == ST_SCAN && !word_loaded_q) begin
      todo_q <= posted_q[{word_q, 5'd0}+:32] | deferred_q[{word_q, 5'd0}+:32];
    end else if (scan_pick) begin
      todo_q <= todo_q & (todo_q - 32'd1);
    end
    if (m_wr_valid && m_wr_ready) eq_count_q[COUNT_W*eqn_q+:COUNT_W] <= eq_count + 1'b1;
    // A destroyed EQ keeps its context: one of its interrupts may be waiting for efa_irq.
    if (eqc_valid && eqc_data[`EFA_EQC__LIVE]) begin
      eq_ctx_q[EQC_W*eqc_eqn+:EQC_W] <= eqc_data;
      eq_count_q[COUNT_W*eqc_eqn+:COUNT_W] <= {COUNT_W{1'b0}};
    end
    if (rst) begin
      state_q <= ST_IDLE;
      scanning_q <= 1'b0;
      commit_next_q <= 1'b0;
      arm_next_q <= 1'b0;
      word_q <= {WORD_W{1'b0}};
      word_loaded_q <= 1'b0;
      live_q <= {CQS{1'b0}};
      armed_q <= {CQS{1'b0}};
      posted_q <= {CQS{1'b0}};
      deferred_q <= {CQS{1'b0}};
      request_q <= {CQS{1'b0}};
      queued_q <= {CQS{1'b0}};
      committed_q <= {CQS{1'b0}};
      eq_live_q <= {EQS{1'b0}};
      eq_armed_q <= {EQS{1'b0}};
      eq_new_q <= {EQS{1'b0}};
      eq_request_q <= {EQS{1'b0}};
    end else begin
      case (state_q)
        // Waits for a commit, an arm of an EQ or an arm of a CQ; none of them starves.
        ST_IDLE: begin
          if (take_commit) begin
            commit_next_q <= 1'b0;
            committed_q[commit_cqn] <= 1'b1;
            if (armed_q[commit_cqn]) begin
              armed_q[commit_cqn] <= 1'b0;
              state_q <= ST_EVENT;
            end
          end else if (take_eq) begin
            commit_next_q <= 1'b1;
            arm_next_q <= 1'b1;
            eq_request_q[eq_pick] <= 1'b0;
            state_q <= ST_EQ_ARM;
          end else if (take_arm) begin
            commit_next_q <= 1'b1;
            arm_next_q <= 1'b0;
            queued_q[arm_cqn] <= 1'b0;
            request_q[arm_cqn] <= 1'b0;
            if (request_q[arm_cqn]) begin
              state_q <= ST_CQ_ARM;
            end
          end
        end
        // Sends an EQE at once if the CQ has unread CQEs.
        ST_CQ_ARM: begin
          state_q <= ST_IDLE;
          if (ctx_live) begin
            if (rd_total != consumed) begin
              armed_q[cqn_q] <= 1'b0;
              state_q <= ST_EVENT;
            end else begin
              armed_q[cqn_q] <= 1'b1;
            end
          end
        end
        // One EQE per CQ between two arms of its EQ; a further one stays pending.
        ST_EVENT: begin
          state_q <= ST_IDLE;
          if (ctx_live && eq_live_q[ctx_eqn]) begin
            if (posted_q[cqn_q]) begin
              deferred_q[cqn_q] <= 1'b1;
            end else begin
              state_q <= ST_POST;
            end
          end
        end
        // Waits for the host write stream.
        ST_POST: begin
          if (m_wr_ready) begin
            posted_q[cqn_q] <= 1'b1;
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
          if (!word_loaded_q) begin
            word_loaded_q <= 1'b1;
          end else if (|todo_q) begin
            state_q <= ST_SCAN_CQ;
          end else begin
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
          state_q <= ST_SCAN;
          if (ctx_live && ctx_eqn == scan_eqn_q) begin
            posted_q[cqn_q] <= 1'b0;
            deferred_q[cqn_q] <= 1'b0;
            if (deferred_q[cqn_q]) begin
              state_q <= ST_POST;
            end
          end
        end
      endcase
      if (cqdb_valid && cqdb_value[`EFA_CQ_DB__ARM]) begin
        request_q[cqdb_cqn] <= 1'b1;
        queued_q[cqdb_cqn] <= 1'b1;
      end
      if (eqdb_valid && eqdb_known && eqdb_value[`EFA_REG__EQ_DB__ARM] && eq_live_q[eqdb_eqn]) begin
        eq_request_q[eqdb_eqn] <= 1'b1;
      end
      if (eqc_valid) begin
        eq_live_q[eqc_eqn] <= eqc_data[`EFA_EQC__LIVE];
        eq_armed_q[eqc_eqn] <= 1'b0;
        eq_new_q[eqc_eqn] <= 1'b0;
        eq_request_q[eqc_eqn] <= 1'b0;
      end
      if (cqc_valid) begin
        live_q[cqc_cqn] <= cqc_data[`EFA_CQC__LIVE] && cqc_data[`EFA_CQC__INTR];
        armed_q[cqc_cqn] <= 1'b0;
        posted_q[cqc_cqn] <= 1'b0;
        deferred_q[cqc_cqn] <= 1'b0;
        request_q[cqc_cqn] <= 1'b0;
        committed_q[cqc_cqn] <= 1'b0;
      end
    end
  end

  // A drain is done when the waiting commits were handled and the module is idle: a destroyed queue
  // then causes no further EQE and no further write.
  reg draining_q;
  reg [COMMITS_LOG2:0] drain_left_q;
  wire [COMMITS_LOG2:0] drain_level = commit_level
      + {{COMMITS_LOG2{1'b0}}, s_commit_valid && s_commit_ready} - {{COMMITS_LOG2{1'b0}}, take_commit};
  assign drain_ready = draining_q && drain_left_q == {(COMMITS_LOG2 + 1) {1'b0}} && idle;
  always @(posedge clk) begin
    if (rst) draining_q <= 1'b0;
    else draining_q <= drain_valid && !drain_ready && (draining_q || s_drained);
    if (!draining_q) drain_left_q <= drain_level;
    else if (take_commit) drain_left_q <= drain_left_q - {{COMMITS_LOG2{1'b0}}, !drain_ready};
  end

  assign ev_eqe_valid = m_wr_valid && m_wr_ready;
  reg [63:0] ev_data;
  always @* begin
    ev_data = 64'd0;
    ev_data[`EFA_EV_EQE__EQN] = {{(8 - EQN_W) {1'b0}}, eqn_q};
    ev_data[`EFA_EV_EQE__CQN] = {{(13 - CQN_W) {1'b0}}, cqn_q};
  end
  assign ev_eqe_data = ev_data;

  wire unused_bits = &{1'b0, cqc_data, eq_wrap[COUNT_W-1:1], eq_ctx[`EFA_EQC__LIVE],
                       cqdb_value[`EFA_CQ_DB__CMD_SN], cqdb_value[28:16], eqdb_value[30:16],
                       arm_level, cqc_eqn};

  `EFA_CHECK(!(arm_push && !arm_space), "efa_eq: queue of armed CQs is full")

endmodule
