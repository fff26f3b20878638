// fv_cq - efa_cq, for one CQ of the solver's choice among others that do whatever they like: the
// n-th completion accepted for one of its two rings is the n-th entry written into that ring, at
// slot n with the phase of its lap, whatever consumer indices come or don't.
`include "efa_defs.vh"

module fv_cq #(
    parameter CQN_W = 2
) (
    input wire clk,
    input wire rst,
    input wire cqc_valid,
    input wire [CQN_W-1:0] cqc_cqn,
    input wire [`EFA_CQC__W-1:0] cqc_data,
    input wire cqdb_valid,
    input wire [CQN_W-1:0] cqdb_cqn,
    input wire [15:0] cqdb_index,
    input wire s_txc_valid,
    input wire [`EFA_CPL__W-1:0] s_txc_data,
    input wire s_rxc_valid,
    input wire [`EFA_CPL__W-1:0] s_rxc_data,
    input wire m_wr_ready,
    input wire m_commit_ready,
    input wire drain_valid,
    input wire pick
);

  localparam CPL_W = `EFA_CPL__W;
  localparam [12:0] ROOM = 1 << CQN_W;
  localparam BOUND = 2;

  wire s_txc_ready;
  wire s_rxc_ready;
  wire m_wr_valid;
  wire [63:0] m_wr_addr;
  wire [12:0] m_wr_len;
  wire [255:0] m_wr_data;
  wire m_commit_valid;
  wire [CQN_W-1:0] m_commit_cqn;
  wire [15:0] m_commit_total;
  wire m_rxdone;
  wire drain_ready;
  wire init_done;
  wire ev_cqe_valid;
  wire [63:0] ev_cqe_data;

  efa_cq #(
      .CQN_W(CQN_W)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .cqc_valid(cqc_valid),
      .cqc_cqn(cqc_cqn),
      .cqc_data(cqc_data),
      .cqdb_valid(cqdb_valid),
      .cqdb_cqn(cqdb_cqn),
      .cqdb_index(cqdb_index),
      .s_txc_valid(s_txc_valid),
      .s_txc_ready(s_txc_ready),
      .s_txc_data(s_txc_data),
      .s_rxc_valid(s_rxc_valid),
      .s_rxc_ready(s_rxc_ready),
      .s_rxc_data(s_rxc_data),
      .m_wr_valid(m_wr_valid),
      .m_wr_ready(m_wr_ready),
      .m_wr_addr(m_wr_addr),
      .m_wr_len(m_wr_len),
      .m_wr_data(m_wr_data),
      .m_commit_valid(m_commit_valid),
      .m_commit_ready(m_commit_ready),
      .m_commit_cqn(m_commit_cqn),
      .m_commit_total(m_commit_total),
      .m_rxdone(m_rxdone),
      .drain_valid(drain_valid),
      .drain_ready(drain_ready),
      .init_done(init_done),
      .ev_cqe_valid(ev_cqe_valid),
      .ev_cqe_data(ev_cqe_data)
  );

  (* probe = "u_dut.u_ctx.word_addr" *) wire [CQN_W-1:0] ctx_place;
  (* probe = "u_dut.u_ctx.word_q" *) wire [`EFA_CQC__W-1:0] ctx_word;
  (* probe = "u_dut.u_ctx.word_known_q" *) wire ctx_known;
  (* probe = "u_dut.u_counts.word_addr" *) wire [CQN_W-1:0] counts_place;
  (* probe = "u_dut.u_counts.word_q" *) wire [31:0] counts_word;
  (* probe = "u_dut.u_counts.word_known_q" *) wire counts_known;
  (* probe = "u_dut.init_q" *) wire [CQN_W:0] walk;
  (* probe = "u_dut.s1_valid_q" *) wire s1_valid;
  (* probe = "u_dut.s1_cpl_q" *) wire [CPL_W-1:0] s1_cpl;
  (* probe = "u_dut.s1_counts" *) wire [31:0] s1_counts;
  (* probe = "u_dut.s1_ctx" *) wire [`EFA_CQC__W-1:0] s1_ctx;
  (* probe = "u_dut.s2_valid_q" *) wire s2_valid;
  (* probe = "u_dut.s2_dead_q" *) wire s2_dead;
  (* probe = "u_dut.s2_cqn_q" *) wire [CQN_W-1:0] s2_cqn;
  (* probe = "u_dut.s2_sub_q" *) wire s2_sub;
  (* probe = "u_dut.s2_intr_q" *) wire s2_intr;
  (* probe = "u_dut.s2_total_q" *) wire [15:0] s2_total;
  (* probe = "u_dut.u_arb.held_q" *) wire arb_held;
  (* probe = "u_dut.u_arb.grant_q" *) wire [1:0] arb_grant;
  (* probe = "u_dut.u_arb.after_q" *) wire [1:0] arb_after;

  (* anyconst *) wire [CQN_W-1:0] me;
  reg began_q = 1'b0;

  // Its context, and whether it has one.
  reg live_q;
  reg [`EFA_CQC__W-1:0] ctx_q;
  wire two = ctx_q[`EFA_CQC__TWO];
  wire wide = ctx_q[`EFA_CQC__WIDE];
  wire intr = ctx_q[`EFA_CQC__INTR];
  wire [3:0] log = ctx_q[`EFA_CQC__LOG];

  // What was accepted for its rings, what was written, what was told to the event engine.
  wire take_tx = s_txc_valid && s_txc_ready;
  wire take_rx = s_rxc_valid && s_rxc_ready;
  wire [CPL_W-1:0] taken = take_rx ? s_rxc_data : s_txc_data;
  wire [11:0] taken_cqn = taken[`EFA_CPL__CQN];
  wire take = (take_tx || take_rx) && taken_cqn == me;
  wire take_sub = taken[`EFA_CPL__SUB];
  wire wrote = ev_cqe_valid && ev_cqe_data[`EFA_EV_CQE__CQN] == me;
  wire wrote_sub = ev_cqe_data[`EFA_EV_CQE__SUB];
  wire told = m_commit_valid && m_commit_ready && m_commit_cqn == me;
  reg [15:0] in0_q;
  reg [15:0] in1_q;
  reg [15:0] out0_q;
  reg [15:0] out1_q;
  reg [15:0] told_q;
  wire [15:0] out_total = out0_q + out1_q;
  wire holds = in0_q != out0_q || in1_q != out1_q;

  // One completion, picked by the solver as it is accepted: its ring and its place in it.
  reg followed_q;
  reg follow_sub_q;
  reg [15:0] follow_n_q;
  reg [CPL_W-1:0] follow_q;
  wire [15:0] follow_out = follow_sub_q ? out1_q : out0_q;
  wire [15:0] take_n = take_sub ? in1_q : in0_q;

  // How long something waits although everybody behind takes what it is offered.
  wire flows = m_wr_ready && m_commit_ready && !cqc_valid;
  reg [2:0] inside_wait_q;
  reg [2:0] tx_wait_q;
  reg [2:0] rx_wait_q;

  // Both sources keep what they offer.
  reg tx_stays_q;
  reg rx_stays_q;
  reg [CPL_W-1:0] tx_data_q;
  reg [CPL_W-1:0] rx_data_q;

  wire new_ctx = cqc_valid && cqc_cqn == me;
  reg rung_q;

  always @(posedge clk) begin
    began_q <= 1'b1;
    if (rst) begin
      live_q <= 1'b0;
      followed_q <= 1'b0;
      in0_q <= 0;
      in1_q <= 0;
      out0_q <= 0;
      out1_q <= 0;
      told_q <= 0;
      inside_wait_q <= 0;
      tx_wait_q <= 0;
      rx_wait_q <= 0;
      rung_q <= 1'b0;
    end else begin
      if (new_ctx) begin
        live_q <= cqc_data[`EFA_CQC__LIVE];
        ctx_q <= cqc_data;
        in0_q <= 0;
        in1_q <= 0;
        out0_q <= 0;
        out1_q <= 0;
        told_q <= 0;
        followed_q <= 1'b0;
        rung_q <= 1'b0;
      end else begin
        if (take && take_sub) in1_q <= in1_q + 1;
        if (take && !take_sub) in0_q <= in0_q + 1;
        if (wrote && wrote_sub) out1_q <= out1_q + 1;
        if (wrote && !wrote_sub) out0_q <= out0_q + 1;
        if (told) told_q <= told_q + 1;
        if (take && pick && !followed_q) begin
          followed_q <= 1'b1;
          follow_sub_q <= take_sub;
          follow_n_q <= take_n;
          follow_q <= taken;
        end else if (followed_q && wrote && wrote_sub == follow_sub_q
            && follow_n_q == follow_out) begin
          followed_q <= 1'b0;
        end
        if (cqdb_valid && cqdb_cqn == me) rung_q <= 1'b1;
      end
      if (flows && holds) inside_wait_q <= inside_wait_q + 1;
      if (!holds) inside_wait_q <= 0;
      if (flows && s_txc_valid && init_done) tx_wait_q <= tx_wait_q + 1;
      if (!s_txc_valid || take_tx) tx_wait_q <= 0;
      if (flows && s_rxc_valid && init_done) rx_wait_q <= rx_wait_q + 1;
      if (!s_rxc_valid || take_rx) rx_wait_q <= 0;
      if (wrote) inside_wait_q <= 0;
    end
    tx_stays_q <= !rst && s_txc_valid && !s_txc_ready;
    rx_stays_q <= !rst && s_rxc_valid && !s_rxc_ready;
    tx_data_q <= s_txc_data;
    rx_data_q <= s_rxc_data;
  end

  // The next entry of its ring, by the interface sheet.
  wire [15:0] next = wrote_sub ? out1_q : out0_q;
  wire [15:0] slot = next & ((16'd1 << log) - 16'd1);
  wire [16:0] entry = ({16'd0, wrote_sub} << log) + {1'b0, slot};
  wire [63:0] base = {ctx_q[`EFA_CQC__BASE], 6'd0};
  wire [63:0] addr = base + (wide ? {42'd0, entry, 5'd0} : {43'd0, entry, 4'd0});
  wire lap = next[log];

  wire mine = wrote && followed_q && wrote_sub == follow_sub_q && next == follow_n_q;

  // Who may be asked: what is holds for this CQ.
  wire [11:0] s1_number = s1_cpl[`EFA_CPL__CQN];
  wire s1_me = s1_valid && s1_number[CQN_W-1:0] == me;
  wire s1_sub = s1_cpl[`EFA_CPL__SUB];
  wire [15:0] follow_ahead = follow_n_q - follow_out;
  wire s2_me = s2_valid && s2_cqn == me;
  wire commit_me = m_commit_valid && m_commit_cqn == me;
  wire same = m_wr_data[`EFA_IO_RX_CDESC_EX__BASE__COMMON__REQ_ID] == follow_q[`EFA_CPL__REQ_ID]
      && m_wr_data[`EFA_IO_RX_CDESC_EX__BASE__COMMON__STATUS] == follow_q[`EFA_CPL__STATUS]
      && m_wr_data[`EFA_IO_RX_CDESC_EX__BASE__COMMON__QP_NUM] == follow_q[`EFA_CPL__QP_NUM];
  wire follow_in_s1 = s1_me && s1_sub == follow_sub_q && s1_cpl == follow_q
      && follow_n_q == (follow_sub_q ? counts_word[31:16] : counts_word[15:0]);
  wire follow_in_s2 = s2_me && s2_sub == follow_sub_q && follow_n_q == follow_out && same;

  always @* begin
    if (!began_q) assume (rst);
    assume (ctx_place == me && counts_place == me);
    assume (s_txc_data[`EFA_CPL__CQN] < ROOM && s_rxc_data[`EFA_CPL__CQN] < ROOM);
    assume (!s_txc_data[`EFA_CPL__RX] && s_rxc_data[`EFA_CPL__RX]);
    assume (!tx_stays_q || (s_txc_valid && s_txc_data == tx_data_q));
    assume (!rx_stays_q || (s_rxc_valid && s_rxc_data == rx_data_q));
    // Contexts and indices come when the tables are cleared, a context for an idle CQ.
    assume (init_done || !(cqc_valid || cqdb_valid));
    assume (!new_ctx || (!holds && (told_q == out_total || !intr)));
    assume (!new_ctx || cqc_data[`EFA_CQC__LOG] <= 4'd13);
    // Queues name CQs that live, and the second ring of those that have one.
    assume (!(s_txc_valid && s_txc_data[`EFA_CPL__CQN] == me)
        || (live_q && (two || !s_txc_data[`EFA_CPL__SUB])));
    assume (!(s_rxc_valid && s_rxc_data[`EFA_CPL__CQN] == me)
        || (live_q && (two || !s_rxc_data[`EFA_CPL__SUB])));
    if (began_q && !rst) begin
      h_walk :
      assert (walk <= {1'b0, me} ? !live_q
          : ctx_known && counts_known && ctx_word[`EFA_CQC__LIVE] == live_q);
      h_ctx :
      assert (!live_q || (ctx_word == ctx_q && counts_word
          == {in1_q - {15'd0, s1_me && s1_sub}, in0_q - {15'd0, s1_me && !s1_sub}}));
      h_dead :
      assert (live_q || (in0_q == 0 && in1_q == 0 && out0_q == 0 && out1_q == 0
          && told_q == 0 && !s1_me && !s2_me && !commit_me));
      h_early : assert (init_done || !(s1_valid || s2_valid || m_commit_valid || arb_held));
      h_s1 :
      assert (!s1_me || (s1_counts == counts_word && s1_ctx == ctx_word && (two || !s1_sub)));
      h_out :
      assert (!live_q || {out1_q, out0_q} == {counts_word[31:16] - {15'd0, s2_me && s2_sub},
          counts_word[15:0] - {15'd0, s2_me && !s2_sub}});
      h_s2 :
      assert (!s2_me || (!s2_dead && s2_intr == intr && s2_total == out_total + 16'd1
          && (two || !s2_sub) && m_wr_addr == addr && m_wr_len == (wide ? 32 : 16)
          && m_wr_data[`EFA_IO_RX_CDESC_EX__BASE__COMMON__PHASE] == !lap));
      h_told : assert (!live_q || !intr || told_q == out_total - {15'd0, commit_me});
      h_commits : assert (!commit_me || (intr && m_commit_total == out_total));
      h_follow : assert (!followed_q || (live_q && (follow_in_s1 || follow_in_s2)));
      h_arb :
      assert (!arb_held || (arb_grant == 2'b01 && tx_stays_q)
          || (arb_grant == 2'b10 && rx_stays_q));
      h_inside : assert (inside_wait_q == 0 || (inside_wait_q == 1 && s2_me));
      h_tx :
      assert (tx_wait_q == 0 || (tx_wait_q == 1 && (arb_held ? arb_grant[0] : arb_after != 2'b10)));
      h_rx :
      assert (rx_wait_q == 0 || (rx_wait_q == 1 && (arb_held ? arb_grant[1] : arb_after == 2'b10)));
      p_slot : assert (!wrote || (live_q && m_wr_addr == addr && m_wr_len == (wide ? 32 : 16)));
      p_phase : assert (!wrote || m_wr_data[`EFA_IO_RX_CDESC_EX__BASE__COMMON__PHASE] == !lap);
      p_order : assert (!mine || same);
      p_once : assert (!followed_q || follow_ahead < 2);
      p_nothing_kept : assert (inside_wait_q < BOUND);
      p_accepted : assert (tx_wait_q < BOUND && rx_wait_q < BOUND);
      p_commit : assert (!commit_me || (intr && m_commit_total == told_q + 16'd1));
      c_slot : cover (wrote && wide && wrote_sub && slot == 1 && log == 1 && out0_q == 2);
      c_phase : cover (wrote && log == 1 && next == 4);
      c_order : cover (mine && next == 2 && out1_q == 1);
      c_once : cover (mine && m_wr_ready && follow_n_q == 3);
      c_nothing_kept : cover (inside_wait_q == BOUND - 1 && !rung_q && next == 3 && log == 0);
      c_accepted : cover (rx_wait_q != 0 && take_rx && take);
      c_commit : cover (told && told_q == 2 && out1_q == 2);
    end
  end

endmodule
