// SPDX-License-Identifier: Apache-2.0
// fv_sq_sched - proves efa_sq_sched for one queue of the solver's choice among others without
// constraints: its WQEs are consumed in order, each once, none before its doorbell. The queue stays
// scheduled while WQEs are pending. Message contexts are neither lost nor allocated twice, and with
// SHARES set, one is left for each queue without an open send. The wait of the queue is bounded.
//
// The bound: `to_wait`, computed from the state, is the upper bound of the remaining wait of a
// queue with work, in cycles that count. The value falls in each such cycle and never rises, so its
// greatest value is the bound. Parts: the rest of the current visit, the queue examined next, the
// queues between that and the chosen one in the round robin, and complete rounds while a quantum
// only reduces the deficit.
`include "efa_defs.vh"

module fv_sq_sched #(
    parameter QPN_W  = 2,
    parameter SHARES = 0
) (
    input wire clk,
    input wire rst,
    input wire work_valid,
    input wire [QPN_W-1:0] work_qpn,
    input wire s_again_valid,
    input wire [QPN_W-1:0] s_again_qpn,
    input wire s_fence_valid,
    input wire s_fence_id,
    input wire s_clear_valid,
    input wire [QPN_W-1:0] s_clear_qpn,
    input wire credit_freed,
    input wire credit_unused,
    input wire halted,
    input wire flush_ok,
    input wire [`EFA_QPC__W-1:0] qpc_data,
    input wire [15:0] prod_data,
    input wire [15:0] consumed_data,
    input wire [15:0] completed_data,
    input wire [QPN_W-1:0] credit_freed_qpn,
    input wire [QPN_W-1:0] credit_unused_qpn,
    input wire [511:0] rd_data,
    input wire [15:0] rd_parity,
    input wire m_void_ready,
    input wire m_item_ready,
    input wire [15:0] posted_by
);

  localparam MSG_W = `EFA_LIMITS__MSG_W;
  localparam LINE_W = 15;
  localparam [MSG_W+1:0] SHARED = 1 << MSG_W;
  localparam [MSG_W+1:0] CONTEXTS = SHARED + `EFA_TRANSPORT__GUARANTEED_SENDS;
  localparam [15:0] DEPTH = `EFA_LIMITS__MAX_SQ_DEPTH;
  localparam TURN = 16;  // flits
  localparam FLITS = (`EFA_LIMITS__MAX_MTU + `EFA_PKT_HDR__BYTES + 63) / 64;
  localparam VISIT = 2 * TURN + 6;  // cycles
  localparam ROUND = VISIT << QPN_W;
  localparam BOUND = (1 + (FLITS - 1) / TURN) * ROUND;

  wire s_again_ready;
  wire s_fence_ready;
  wire [QPN_W-1:0] qpc_addr;
  wire consumed_valid;
  wire [QPN_W-1:0] consumed_qpn;
  wire [15:0] consumed_count;
  wire rd_en;
  wire [LINE_W-1:0] rd_line;
  wire m_void_valid;
  wire [LINE_W-1:0] m_void_line;
  wire m_void_parity;
  wire incomplete_valid;
  wire [QPN_W-1:0] incomplete_qpn;
  wire m_item_valid;
  wire [`EFA_WQE_IN__W-1:0] m_item_data;
  wire ev_wqe_valid;
  wire [63:0] ev_wqe_data;

  efa_sq_sched #(
      .QPN_W (QPN_W),
      .LLQ_AW(21)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .s_work_valid(work_valid),
      .s_work_qpn(work_qpn),
      .s_again_valid(s_again_valid),
      .s_again_ready(s_again_ready),
      .s_again_qpn(s_again_qpn),
      .s_fence_valid(s_fence_valid),
      .s_fence_ready(s_fence_ready),
      .s_fence_id(s_fence_id),
      .s_clear_valid(s_clear_valid),
      .s_clear_qpn(s_clear_qpn),
      .s_credit_freed(credit_freed),
      .s_credit_unused(credit_unused),
      .halted_rd_data(halted),
      .flush_ok_rd_data(flush_ok),
      .qpc_rd_addr(qpc_addr),
      .qpc_rd_data(qpc_data),
      .prod_rd_data(prod_data),
      .consumed_rd_data(consumed_data),
      .completed_rd_data(completed_data),
      .m_consumed_valid(consumed_valid),
      .m_consumed_qpn(consumed_qpn),
      .m_consumed_count(consumed_count),
      .line_rd_en(rd_en),
      .line_rd_addr(rd_line),
      .line_rd_data(rd_data),
      .line_rd_parity(rd_parity),
      .m_void_valid(m_void_valid),
      .m_void_ready(m_void_ready),
      .m_void_line(m_void_line),
      .m_void_parity(m_void_parity),
      .m_incomplete_valid(incomplete_valid),
      .m_incomplete_qpn(incomplete_qpn),
      .m_item_valid(m_item_valid),
      .m_item_ready(m_item_ready),
      .m_item_data(m_item_data),
      .ev_wqe_valid(ev_wqe_valid),
      .ev_wqe_data(ev_wqe_data)
  );

  (* probe = "u_dut.u_set.inside_q" *) wire [(1<<QPN_W)-1:0] set;
  (* probe = "u_dut.shared_q" *) wire signed [MSG_W+1:0] shared;
  (* probe = "u_dut.p_valid_q" *) wire p_valid;
  (* probe = "u_dut.p_qpn_q" *) wire [QPN_W-1:0] p_qpn;
  (* probe = "u_dut.p_go" *) wire p_go;
  (* probe = "u_dut.p_may" *) wire p_may;
  (* probe = "u_dut.p_consumed" *) wire [15:0] p_consumed;
  (* probe = "u_dut.a_valid_q" *) wire a_valid;
  (* probe = "u_dut.a_qpn_q" *) wire [QPN_W-1:0] a_qpn;
  (* probe = "u_dut.a_count_q" *) wire [15:0] a_count;
  (* probe = "u_dut.a_left_q" *) wire [6:0] a_left;
  (* probe = "u_dut.a_credit_q" *) wire a_credit;
  (* probe = "u_dut.a_over_q" *) wire a_over;
  (* probe = "u_dut.a_second_q" *) wire a_second;
  (* probe = "u_dut.a_qpc_q" *) wire [`EFA_QPC__W-1:0] a_qpc;
  (* probe = "u_dut.a_flush_q" *) wire a_flush;
  (* probe = "u_dut.s1_valid_q" *) wire s1_valid;
  (* probe = "u_dut.s1_qpn_q" *) wire [QPN_W-1:0] s1_qpn;
  (* probe = "u_dut.s1_count_q" *) wire [15:0] s1_count;
  (* probe = "u_dut.s1_end" *) wire s1_end;
  (* probe = "u_dut.s1_credit_q" *) wire s1_credit;
  (* probe = "u_dut.s1_qpc_q" *) wire [`EFA_QPC__W-1:0] s1_qpc;
  (* probe = "u_dut.s1_flush_q" *) wire s1_flush;
  (* probe = "u_dut.c_valid_q" *) wire c_valid;
  (* probe = "u_dut.c_qpn_q" *) wire [QPN_W-1:0] c_qpn;
  (* probe = "u_dut.put" *) wire put;
  (* probe = "u_dut.u_deficit.word_addr" *) wire [QPN_W-1:0] deficit_place;
  (* probe = "u_dut.u_deficit.word_q" *) wire [7:0] deficit_word;
  (* probe = "u_dut.u_deficit.word_known_q" *) wire deficit_known;
  (* probe = "u_dut.u_set.last_q" *) wire [QPN_W-1:0] last;
  (* probe = "u_dut.out_ready" *) wire out_ready;
  (* probe = "u_dut.void_valid_q" *) wire void_valid;
  (* probe = "u_dut.p_deficit" *) wire [7:0] p_deficit;
  (* probe = "u_dut.p_stalls" *) wire p_stalls;
  (* probe = "u_dut.s1_deducts_q" *) wire s1_deducts;
  (* probe = "u_dut.s1_first_q" *) wire s1_first;
  (* probe = "u_dut.s1_second_q" *) wire s1_second;
  (* probe = "u_dut.s1_quantum_q" *) wire signed [9:0] s1_quantum;
  (* probe = "u_dut.half_flits_q" *) wire [7:0] half_flits;
  (* probe = "u_dut.c_left_q" *) wire signed [9:0] c_left;
  (* probe = "u_dut.left_q" *) wire signed [9:0] deficit_kept;
  (* probe = "u_dut.left" *) wire signed [9:0] left;
  (* probe = "u_dut.d_valid_q" *) wire d_valid;
  (* probe = "u_dut.d_clear_q" *) wire d_clear;
  (* probe = "u_dut.d_qpn_q" *) wire [QPN_W-1:0] d_qpn;
  (* probe = "u_dut.d_deficit_q" *) wire [7:0] d_deficit;
  (* probe = "u_dut.kill" *) wire kill;
  (* probe = "u_dut.clear_q" *) wire clear_late;
  (* probe = "u_dut.clear_qpn_q" *) wire [QPN_W-1:0] clear_late_qpn;

  (* anyconst *) wire [QPN_W-1:0] me;
  reg began_q = 1'b0;
  reg known_q;
  reg [15:0] prod_q;  // posted
  reg [15:0] consumed_q;
  reg [15:0] index_q;  // consumed, by the updates of efa_sq_index
  reg requested_q;
  reg [15:0] rsp_q;
  reg [1:0] cleared_q;  // one and two cycles ago
  reg again_stays_q;
  reg [QPN_W-1:0] again_qpn_q;
  // Examined and not permitted to send, or one of its WQEs is incomplete: a retry request resumes
  // it.
  reg idle_q;
  reg [MSG_W+1:0] used_q;
  wire [MSG_W+1:0] credits = shared + `EFA_TRANSPORT__GUARANTEED_SENDS;

  wire [15:0] waiting = prod_q - consumed_q;
  wire cleared = s_clear_valid && s_clear_qpn == me;
  wire posts = work_valid && work_qpn == me;
  wire again = s_again_valid && s_again_ready && s_again_qpn == me;
  wire takes = ev_wqe_valid && ev_wqe_data[`EFA_EV_WQE__QPN] == me;
  wire uses = ev_wqe_valid && s1_qpc[`EFA_QPC__SRD] && !s1_flush;

  // WQEs of this queue in the pipeline: read but not consumed yet.
  wire p_me = p_valid && p_qpn == me;
  wire a_me = a_valid && a_qpn == me;
  wire s1_me = s1_valid && s1_qpn == me;
  wire c_me = c_valid && c_qpn == me;
  wire [15:0] ends = s1_me && s1_end ? 16'd1 : 16'd0;
  wire [15:0] coming = ends + (a_me ? {9'd0, a_left} : 16'd0);
  wire [MSG_W+1:0] aside = (a_valid && a_credit ? {{MSG_W-5{1'b0}}, a_left} : 0)
      + (s1_end && s1_credit ? 1 : 0);

  // A cycle that counts: the output offered in the previous cycle was accepted, and no request that
  // is served between visits is present.
  reg sink_q;
  wire counts = sink_q && m_void_ready && !s_clear_valid && !s_again_valid && !s_fence_valid;
  reg [15:0] waited_q;  // cycles that counted since the queue has work, or since its last WQE
  reg paid_q;  // a quantum of the queue only reduced its deficit since then
  wire waits = known_q && waiting != 0 && !idle_q;
  // Examined while not permitted to send or without a free context: the wait restarts.
  wire in_vain = p_go && p_me && (!p_may || p_stalls);

  // Cycles until its count and deficit are in the tables.
  function [2:0] late(input [QPN_W-1:0] queue);
    late = (a_valid && a_qpn == queue) || ((s1_valid || s1_deducts) && s1_qpn == queue) ? 3'd3
        : c_valid && c_qpn == queue ? 3'd2 : d_valid && !d_clear && d_qpn == queue ? 3'd1 : 3'd0;
  endfunction

  wire visited = a_me || s1_me;  // the visit of the chosen queue continues
  wire a_wide = a_qpc[`EFA_QPC__WQE128];
  wire s1_wide = s1_qpc[`EFA_QPC__WQE128];
  // Flits left for the visit after the WQEs in the pipeline are consumed.
  wire signed [9:0] quantum_now = s1_first ? s1_quantum : left;
  wire signed [9:0] quantum_left = quantum_now - (s1_end ? 10'sd1 : 10'sd0);
  wire [7:0] deficit_now = cleared_q[0] ? 8'd0 : s1_deducts && s1_qpn == me ? -s1_quantum[7:0]
      : c_me ? (c_left > 0 ? 8'd0 : -c_left[7:0]) : deficit_word;
  wire [QPN_W-1:0] between = me - last - 1'b1;
  reg [15:0] visit;
  reg [15:0] others;
  reg [15:0] to_wait;
  always @* begin
    visit = kill || (s1_valid && !a_valid) ? 16'd1
        : a_valid ? {5'd0, quantum_left, 1'b0} + 16'd3 - (a_wide && a_second ? 16'd1 : 16'd0) : 16'd0;
    others = visit;
    // A queue whose visit was cut is not in the round robin yet: any queue may be examined before
    // it.
    if (visited && !p_valid) others = others + ROUND - VISIT;
    else if (!p_me) begin
      others = others + (p_valid ? VISIT - 3 + late(p_qpn) : 16'd1) + between * VISIT;
    end
    if (others < late(me)) others = late(me);
    to_wait = others + 16'd3 + deficit_now / TURN * ROUND;
    if (visited && !kill) to_wait = s1_me ? (s1_end ? 16'd1 : 16'd2) : a_second ? 16'd2 : 16'd3;
  end
  reg waited_then_q;
  reg counted_then_q;
  reg [15:0] to_wait_q;

  always @(posedge clk) begin
    began_q <= 1'b1;
    sink_q <= m_item_ready;
    waited_then_q <= !rst && waits && !takes && !cleared && !in_vain;
    counted_then_q <= counts;
    to_wait_q <= to_wait;
    if (rst || !waits || takes || cleared || in_vain) begin
      waited_q <= 0;
      paid_q   <= 1'b0;
    end else begin
      waited_q <= waited_q + counts;
      if (s1_deducts && s1_qpn == me) paid_q <= 1'b1;
    end
    requested_q <= qpc_addr == me;
    rsp_q <= posts ? prod_q + posted_by : prod_q;
    if (cleared) index_q <= 0;
    else if (consumed_valid && consumed_qpn == me) index_q <= consumed_count;
    cleared_q <= rst ? 2'b00 : {cleared_q[0], cleared};
    again_stays_q <= !rst && s_again_valid && !s_again_ready;
    again_qpn_q <= s_again_qpn;
    if (rst) begin
      known_q <= 1'b0;
      prod_q  <= 0;
      consumed_q <= 0;
      idle_q  <= 1'b1;
      used_q  <= 0;
    end else begin
      if (cleared) begin
        known_q <= 1'b1;
        prod_q  <= 0;
        consumed_q <= 0;
      end else begin
        if (posts) prod_q <= prod_q + posted_by;
        if (takes) consumed_q <= consumed_q + 1;
      end
      if (posts || again) idle_q <= 1'b0;
      else if ((p_go && p_me && !p_may) || (incomplete_valid && incomplete_qpn == me))
        idle_q <= 1'b1;
      used_q <= used_q + uses - credit_freed - credit_unused;
    end
  end

  // The contexts in use or reserved of each queue; queues without any.
  generate
    if (SHARES != 0) begin : g_shares
      localparam QUEUES = 1 << QPN_W;
      reg [(MSG_W+2)*QUEUES-1:0] has_q;
      reg [QPN_W-1:0] asked_q;
      reg [QPN_W:0] without;
      reg [MSG_W+1:0] own;  // of the queue
      integer n;
      always @* begin
        without = 0;
        for (n = 0; n < QUEUES; n = n + 1) begin
          own = has_q[(MSG_W+2)*n+:MSG_W+2];
          if (a_valid && a_credit && a_qpn == n) own = own + a_left;
          if (s1_end && s1_credit && s1_qpn == n) own = own + 1;
          without = without + (own == 0);
        end
      end
      always @(posedge clk) begin
        asked_q <= qpc_addr;
        if (rst) has_q <= 0;
        else begin
          for (n = 0; n < QUEUES; n = n + 1) begin
            has_q[(MSG_W+2)*n+:MSG_W+2] <= has_q[(MSG_W+2)*n+:MSG_W+2] + (uses && s1_qpn == n)
                - (credit_freed && credit_freed_qpn == n)
                - (credit_unused && credit_unused_qpn == n);
          end
        end
      end
      always @* begin
        // Only a context that is in use is freed.
        a_owner :
        assume (!(credit_freed || credit_unused)
            || (has_q[(MSG_W+2)*credit_freed_qpn+:MSG_W+2] >= credit_freed
            && has_q[(MSG_W+2)*credit_unused_qpn+:MSG_W+2] >= credit_unused
            && (credit_freed_qpn != credit_unused_qpn
            || has_q[(MSG_W+2)*credit_freed_qpn+:MSG_W+2] >= credit_freed + credit_unused)));
        // A send is counted as completed after its context was freed.
        a_completed :
        assume (consumed_data - completed_data >= has_q[(MSG_W+2)*asked_q+:MSG_W+2]
            && consumed_data - completed_data <= DEPTH);
        if (began_q && !rst) begin
          p_guaranteed : assert (credits >= without);
          c_guaranteed : cover (without == 0);
        end
      end
    end
  endgenerate

  always @* begin
    if (!began_q) a_begin : assume (rst);
    // Separate assumptions: a combined one takes the solver minutes.
    a_word_deficit : assume (deficit_place == me);
    // Doorbells are valid, and the table of counts responds with its state at the request.
    a_doorbell :
    assume (!posts || (known_q && !cleared && posted_by != 0 && waiting + {1'b0, posted_by} <= DEPTH));
    a_counted : assume (!requested_q || prod_data == rsp_q);
    a_consumed : assume (!requested_q || consumed_data == index_q);
    // A queue is cleared while the pipeline holds nothing of it, and becomes live after that.
    a_clear_idle : assume (!cleared || !(a_me || s1_me || c_me));
    a_live :
    assume (!requested_q || (known_q && !cleared && cleared_q == 0) || !qpc_data[`EFA_QPC__LIVE]);
    a_again_stays : assume (!again_stays_q || (s_again_valid && s_again_qpn == again_qpn_q));
    // Only used contexts are freed.
    a_contexts : assume ({1'b0, credit_freed} + {1'b0, credit_unused} <= used_q);
    if (began_q && !rst) begin
      h_index : assert (!known_q || index_q == consumed_q);
      h_known : assert (known_q || !(a_me || s1_me));
      h_s1 : assert (!s1_me || s1_count == consumed_q);
      h_a : assert (!a_me || (a_left != 0 && a_left <= 7'd64 && a_count == consumed_q + ends));
      h_second : assert (!(s1_me && !s1_end) || (a_me && a_second));
      h_coming : assert (coming <= waiting && waiting <= DEPTH);
      h_aside :
      assert ((!s1_valid || s1_credit == (s1_qpc[`EFA_QPC__SRD] && !s1_flush))
          && (!a_valid || a_credit == (a_qpc[`EFA_QPC__SRD] && !a_flush)));
      h_left : assert (!a_valid || (a_left != 0 && a_left <= 7'd64));
      h_sum :
      assert (credits + aside + used_q == CONTEXTS && used_q <= CONTEXTS && credits <= CONTEXTS);
      o_falls :
      assert ((!p_valid || last == p_qpn)
          && (!(a_valid && s1_valid) || (s1_qpn == a_qpn && s1_wide == a_wide))
          && (!a_valid || !a_second || a_wide) && (!s1_valid || !s1_second || s1_wide)
          && (!(a_valid && !s1_first && c_valid) || c_qpn == a_qpn)
          && (!(s1_valid && !s1_end) || (a_valid && a_second))
          && (!(a_valid && a_second && !s1_valid) || (half_flits != 0 && half_flits <= FLITS))
          && (!(s1_valid && s1_second) || (half_flits != 0 && half_flits <= FLITS))
          && (!((a_valid || s1_valid) && s1_first) || (s1_quantum > 0 && s1_quantum <= TURN))
          && (!s1_deducts || (s1_first && s1_quantum <= 0 && (s1_qpn != me || s1_quantum > TURN - FLITS)))
          && (!a_valid || p_valid || last == a_qpn)
          && (!s1_deducts || !(a_valid || s1_valid))
          && (!((a_valid || s1_valid) && !s1_first && !c_valid)
          || (deficit_kept > 0 && deficit_kept <= TURN))
          && (!c_valid || c_left <= TURN) && (!c_me || c_left > -FLITS)
          && (!sink_q || out_ready)
          && (!p_me || !known_q || d_valid && d_qpn == me || c_me || cleared_q != 0
          || (requested_q && p_deficit == deficit_word))
          && (!(d_valid && d_qpn == me) || (deficit_known && d_deficit == deficit_word))
          && (!known_q || cleared_q[0] || (deficit_known && deficit_word < FLITS))
          && cleared_q[0] == (clear_late && clear_late_qpn == me)
          && (!waits || set[me] || p_me || (a_me && a_over) || waiting == coming));
      p_falls :
      assert (!(waits && waited_then_q) || to_wait + {15'd0, counted_then_q} <= to_wait_q);
      p_wait : assert (!waits || (to_wait != 0 && waited_q + to_wait <= BOUND));
      c_falls : cover (takes && paid_q);
      c_wait : cover (waits && to_wait > BOUND - ROUND);
      p_order : assert (!takes || (known_q && ev_wqe_data[`EFA_EV_WQE__MSG] == consumed_q));
      p_posted : assert (!takes || waiting != 0);
      p_pending :
      assert (waiting == 0 || idle_q || set[me] || p_me || (a_me && a_over) || waiting == coming);
      p_contexts : assert (credits + aside + used_q == CONTEXTS);
      c_order : cover (takes && consumed_q == 3 && s1_qpc[`EFA_QPC__WQE128]);
      c_posted : cover (takes && waiting == 1 && consumed_q == 1);
      c_pending : cover (waiting == 2 && !idle_q && !set[me] && !p_me && waiting == coming);
      c_contexts : cover (used_q == 2 && aside == 1);
    end
  end

endmodule
