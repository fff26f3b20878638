// SPDX-License-Identifier: Apache-2.0
// fv_cq - proves efa_cq for one ring of one CQ of the solver's choice: every slot is written once
// per wrap, in order, with its phase. Every accepted completion produces one CQE. Only the host, a
// stalled event and a context write delay it.
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
    input wire lookup_counted,
    input wire drain_valid,
    input wire pick
);

  wire s_txc_ready;
  wire s_rxc_ready;
  wire m_wr_valid;
  wire [63:0] m_wr_addr;
  wire [12:0] m_wr_len;
  wire [255:0] m_wr_data;
  wire m_commit_valid;
  wire [CQN_W-1:0] m_commit_cqn;
  wire [15:0] m_commit_total;
  wire m_commit_intr;
  wire m_commit_counted;
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
      .s_cqc_valid(cqc_valid),
      .s_cqc_cqn(cqc_cqn),
      .s_cqc_data(cqc_data),
      .s_cqdb_valid(cqdb_valid),
      .s_cqdb_cqn(cqdb_cqn),
      .s_cqdb_index(cqdb_index),
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
      .m_commit_intr(m_commit_intr),
      .m_commit_counted(m_commit_counted),
      .counted_rd_data(lookup_counted),
      .m_rxdone(m_rxdone),
      .s_drain_valid(drain_valid),
      .s_drain_ready(drain_ready),
      .m_init_done(init_done),
      .ev_cqe_valid(ev_cqe_valid),
      .ev_cqe_data(ev_cqe_data)
  );

  (* anyconst *) wire [CQN_W-1:0] me;
  (* anyconst *) wire my_sub;

  // Probes: the table words of this CQ, and the pipeline stages.
  (* probe = "u_dut.u_ctx.word_addr" *) wire [CQN_W-1:0] ctx_addr;
  (* probe = "u_dut.u_ctx.word_known_q" *) wire ctx_known;
  (* probe = "u_dut.u_ctx.word_q" *) wire [`EFA_CQC__W-1:0] ctx_word;
  (* probe = "u_dut.u_counts.word_addr" *) wire [CQN_W-1:0] counts_addr;
  (* probe = "u_dut.u_counts.word_known_q" *) wire counts_known;
  (* probe = "u_dut.u_counts.word_q" *) wire [31:0] counts_word;
  (* probe = "u_dut.u_consumed.word_addr" *) wire [CQN_W-1:0] consumed_addr;
  (* probe = "u_dut.u_arb.held_q" *) wire held;
  (* probe = "u_dut.u_arb.grant_q" *) wire [1:0] held_grant;
  (* probe = "u_dut.s1_valid_q" *) wire s1_valid;
  (* probe = "u_dut.s1_cpl_q" *) wire [`EFA_CPL__W-1:0] s1_cpl;
  (* probe = "u_dut.s1_ctx" *) wire [`EFA_CQC__W-1:0] s1_ctx;
  (* probe = "u_dut.s1_counts" *) wire [31:0] s1_counts;
  (* probe = "u_dut.s2_valid_q" *) wire s2_valid;
  (* probe = "u_dut.s2_dead_q" *) wire s2_dead;
  (* probe = "u_dut.s2_intr_q" *) wire s2_intr;
  (* probe = "u_dut.s2_counted_q" *) wire s2_counted;
  (* probe = "u_dut.s2_wide_q" *) wire s2_wide;
  (* probe = "u_dut.s2_rx_q" *) wire s2_rx;
  (* probe = "u_dut.s2_sub_q" *) wire s2_sub;
  (* probe = "u_dut.s2_cqn_q" *) wire [CQN_W-1:0] s2_cqn;
  (* probe = "u_dut.s2_base_q" *) wire [57:0] s2_base;
  (* probe = "u_dut.s2_offset_q" *) wire [21:0] s2_offset;
  (* probe = "u_dut.s2_cqe_q" *) wire [255:0] s2_cqe;
  (* probe = "u_dut.s2_total_q" *) wire [15:0] s2_total;
  (* probe = "u_dut.u_commit.valid_q" *) wire s3_valid;
  (* probe = "u_dut.u_commit.data_q" *) wire [CQN_W+31:0] s3_data;
  (* probe = "u_dut.u_commit.spare_q" *) wire s4_valid;
  (* probe = "u_dut.u_commit.spare_data_q" *) wire [CQN_W+31:0] s4_data;
  (* probe = "u_dut.in_q" *) wire [15:0] in_count;
  (* probe = "u_dut.out_q" *) wire [15:0] out_count;
  (* probe = "u_dut.drain_q" *) wire draining;
  (* probe = "u_dut.drain_fence_q" *) wire [15:0] drain_fence;

  localparam [11:0] NUMBER = (1 << CQN_W) - 1;
  wire s1_mine = s1_valid && (s1_cpl[`EFA_CPL__CQN] & NUMBER) == me;
  wire s2_mine = s2_valid && s2_cqn == me;
  wire [CQN_W-1:0] s3_cqn;
  wire [CQN_W-1:0] s4_cqn;
  wire [15:0] s3_total;
  wire [15:0] s4_total;
  wire s3_intr, s3_counted, s4_intr, s4_counted;
  wire [13:0] s3_rest;
  wire [13:0] s4_rest;
  assign {s3_cqn, s3_total, s3_intr, s3_counted, s3_rest} = s3_data;
  assign {s4_cqn, s4_total, s4_intr, s4_counted, s4_rest} = s4_data;
  wire s3_mine = s3_valid && s3_cqn == me;
  wire s4_mine = s4_valid && s4_cqn == me;
  wire commit_out = m_commit_valid && m_commit_ready;

  reg began_q = 1'b0;
  reg created_q;
  reg [`EFA_CQC__W-1:0] ctx_q;
  reg [15:0] passed_0_q;  // CQEs of each ring that have a slot
  reg [15:0] passed_1_q;
  reg [15:0] written_q;  // written CQEs of the chosen ring
  reg [15:0] commits_q;
  reg [15:0] to_count_q;  // CQEs of this CQ that are to be counted
  reg [15:0] counted_q;  // CQEs of this CQ that were reported as counted
  reg [1:0] inside_q;
  reg [1:0] before_q;  // inside the block at the begin of the drain and not yet output
  reg [1:0] pending_q;  // held commits of those CQEs
  reg drain_seen_q;
  reg followed_q;
  reg [1:0] ahead_q;
  reg [39:0] what_q;  // of the followed completion: request id, status, QP number
  reg [1:0] went_q;  // cycles without a stall since the CQE was accepted
  reg rx_left_q;
  reg wrapped_q;
  reg tx_waits_q;
  reg rx_waits_q;
  reg [`EFA_CPL__W-1:0] tx_data_q;
  reg [`EFA_CPL__W-1:0] rx_data_q;

  wire take_tx = s_txc_valid && s_txc_ready;
  wire take_rx = s_rxc_valid && s_rxc_ready;
  wire take = take_tx || take_rx;
  wire [`EFA_CPL__W-1:0] taken = take_rx ? s_rxc_data : s_txc_data;
  wire [11:0] accepted_number = taken[`EFA_CPL__CQN];
  wire wrote = m_wr_valid && m_wr_ready;
  wire [12:0] ev_cqn = ev_cqe_data[`EFA_EV_CQE__CQN];
  wire ev_sub = ev_cqe_data[`EFA_EV_CQE__SUB];
  wire wrote_mine = wrote && ev_cqn[CQN_W-1:0] == me && ev_sub == my_sub;
  wire left = wrote || (s2_valid && s2_dead);
  wire moved = s1_valid && !cqc_valid && (!s2_valid || left);
  wire committed = m_commit_valid && m_commit_ready && m_commit_cqn == me;
  wire ctx_written = cqc_valid && cqc_cqn == me;
  wire go = m_wr_ready && !s4_valid && !cqc_valid;

  wire [3:0] log = ctx_q[`EFA_CQC__LOG];
  wire wide = ctx_q[`EFA_CQC__WIDE];
  wire [15:0] mask = (16'd1 << log) - 16'd1;

  // Address of CQE `number` of a ring, by the interface sheet.
  function [63:0] place(input [57:0] base, input [15:0] number, input sub);
    reg [63:0] slot;
    begin
      slot  = {48'd0, number & mask} + ({63'd0, sub} << log);
      place = {base, 6'd0} + (wide ? slot << 5 : slot << 4);
    end
  endfunction

  wire [15:0] passed = my_sub ? passed_1_q : passed_0_q;
  wire [15:0] s2_number = (s2_sub ? passed_1_q : passed_0_q) - 16'd1;
  wire [15:0] s2_wraps = s2_number >> log;
  wire [15:0] wraps = written_q >> log;
  wire mine = followed_q && ahead_q == 0;

  always @(posedge clk) begin
    began_q <= 1'b1;
    tx_waits_q <= !rst && s_txc_valid && !s_txc_ready;
    rx_waits_q <= !rst && s_rxc_valid && !s_rxc_ready;
    tx_data_q <= s_txc_data;
    rx_data_q <= s_rxc_data;
    if (rst) begin
      created_q <= 1'b0;
      inside_q <= 0;
      before_q <= 0;
      pending_q <= 0;
      drain_seen_q <= 1'b0;
      followed_q <= 1'b0;
      rx_left_q <= 1'b0;
      wrapped_q <= 1'b0;
    end else begin
      inside_q <= inside_q + take - left;
      if (!draining) before_q <= inside_q - left;
      else if (left && before_q != 0) before_q <= before_q - 1;
      pending_q <= (draining ? pending_q : s3_valid + s4_valid)
          + (wrote && (s2_intr || s2_counted) && (!draining || before_q != 0))
          - (commit_out && (!draining || pending_q != 0));
      drain_seen_q <= drain_seen_q || drain_ready;
      rx_left_q <= left && s2_rx;
      if (ctx_written) begin
        created_q  <= 1'b1;
        ctx_q      <= cqc_data;
        passed_0_q <= 0;
        passed_1_q <= 0;
        written_q  <= 0;
        commits_q  <= 0;
        to_count_q <= 0;
        counted_q  <= 0;
      end else begin
        if (moved && s1_mine && !s1_cpl[`EFA_CPL__SUB]) passed_0_q <= passed_0_q + 16'd1;
        if (moved && s1_mine && s1_cpl[`EFA_CPL__SUB]) passed_1_q <= passed_1_q + 16'd1;
        if (wrote_mine) written_q <= written_q + 16'd1;
        if (committed) commits_q <= commits_q + 16'd1;
        if (moved && s1_mine && lookup_counted && ctx_q[`EFA_CQC__LIVE]) begin
          to_count_q <= to_count_q + 16'd1;
        end
        if (committed && m_commit_counted) counted_q <= counted_q + 16'd1;
        if (wrote_mine && wraps[1] && log == 4'd0) wrapped_q <= 1'b1;
      end
      if (take && pick && !followed_q) begin
        followed_q <= 1'b1;
        ahead_q <= inside_q - left;
        what_q <= {taken[`EFA_CPL__REQ_ID], taken[`EFA_CPL__STATUS], taken[`EFA_CPL__QP_NUM]};
        went_q <= 0;
      end else if (followed_q) begin
        if (left && mine) followed_q <= 1'b0;
        else if (left) ahead_q <= ahead_q - 1;
        went_q <= went_q + go;
      end
    end
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    // Commands wait for the init sweep.
    a_init : assume (init_done || !cqc_valid);
    // A CQ is created and destroyed only while no QP names it, so none of its completions is in the
    // block.
    a_idle : assume (!ctx_written || !(s1_mine || s2_mine || s3_mine || s4_mine));
    a_created : assume (!take || accepted_number[CQN_W-1:0] != me || created_q);
    // An offered completion stays offered.
    a_tx_stays : assume (!tx_waits_q || (s_txc_valid && s_txc_data == tx_data_q));
    a_rx_stays : assume (!rx_waits_q || (s_rxc_valid && s_rxc_data == rx_data_q));
    a_word : assume (ctx_addr == me && counts_addr == me && consumed_addr == me);
    if (began_q && !rst) begin
      h_tables :
      assert (!created_q || (ctx_known && counts_known && ctx_word == ctx_q
          && counts_word == {passed_1_q, passed_0_q}));
      h_held :
      assert (!held || (init_done && (held_grant == 2'b01 ? tx_waits_q
          : held_grant == 2'b10 && rx_waits_q)));
      h_created : assert (created_q || !(s1_mine || s2_mine || s3_mine || s4_mine));
      h_init : assert (init_done || !created_q);
      h_s1 : assert (!s1_mine || (s1_ctx == ctx_q && s1_counts == {passed_1_q, passed_0_q}));
      h_s2 :
      assert (!s2_mine || (s2_dead == !ctx_q[`EFA_CQC__LIVE] && s2_intr == ctx_q[`EFA_CQC__INTR]
          && s2_wide == wide && s2_base == ctx_q[`EFA_CQC__BASE]
          && {s2_base, 6'd0} + s2_offset == place(
          s2_base, s2_number, s2_sub
      ) && s2_cqe[`EFA_IO_RX_CDESC_EX__BASE__COMMON__PHASE] == !s2_wraps[0] &&
          s2_total == passed_0_q + passed_1_q));
      h_written :
      assert (!created_q || !ctx_q[`EFA_CQC__LIVE]
          || written_q + (s2_mine && s2_sub == my_sub) == passed);
      h_s3 :
      assert (!s3_mine || (ctx_q[`EFA_CQC__LIVE] && s3_intr == ctx_q[`EFA_CQC__INTR]
          && (s3_intr || s3_counted)
          && (!s3_intr || s3_total == passed_0_q + passed_1_q - s2_mine - s4_mine)));
      h_s4 : assert (!s4_valid || s3_valid);
      h_s4_mine :
      assert (!s4_mine || (ctx_q[`EFA_CQC__LIVE] && s4_intr == ctx_q[`EFA_CQC__INTR]
          && (s4_intr || s4_counted) && (!s4_intr || s4_total == passed_0_q + passed_1_q - s2_mine)));
      h_commits :
      assert (!created_q || !ctx_q[`EFA_CQC__LIVE] || !ctx_q[`EFA_CQC__INTR]
          || commits_q + s2_mine + s3_mine + s4_mine == passed_0_q + passed_1_q);
      h_counted :
      assert (!created_q || to_count_q - counted_q == {15'd0, s2_mine && s2_counted && !s2_dead}
          + {15'd0, s3_mine && s3_counted} + {15'd0, s4_mine && s4_counted});
      h_inside : assert (inside_q == s1_valid + s2_valid);
      h_counts : assert (in_count - out_count == {14'd0, inside_q});
      h_ahead : assert (!followed_q || ahead_q < inside_q);
      h_went : assert (!(followed_q && s1_valid && ahead_q == s2_valid) || went_q == 0);
      p_drain_ends :
      assert (before_q <= inside_q
          && (!draining || before_q == 0 || drain_fence - out_count == {14'd0, before_q}));
      h_pending : assert (pending_q <= s3_valid + s4_valid);
      h_what_1 :
      assert (!(followed_q && s1_valid && ahead_q == s2_valid) || what_q == {
          s1_cpl[`EFA_CPL__REQ_ID], s1_cpl[`EFA_CPL__STATUS], s1_cpl[`EFA_CPL__QP_NUM]});
      h_what_2 :
      assert (!(mine && s2_valid) || what_q == {
          s2_cqe[`EFA_IO_RX_CDESC_EX__BASE__COMMON__REQ_ID],
          s2_cqe[`EFA_IO_RX_CDESC_EX__BASE__COMMON__STATUS],
          s2_cqe[`EFA_IO_RX_CDESC_EX__BASE__COMMON__QP_NUM]});
      p_slot :
      assert (!wrote_mine || (m_wr_addr == place(
          ctx_q[`EFA_CQC__BASE], written_q, my_sub
      ) && m_wr_len == (wide ? 13'd32 : 13'd16)));
      p_phase :
      assert (!wrote_mine || m_wr_data[`EFA_IO_RX_CDESC_EX__BASE__COMMON__PHASE] == !wraps[0]);
      p_live : assert (!(m_wr_valid && s2_mine) || ctx_q[`EFA_CQC__LIVE]);
      p_commit :
      assert (!committed || (m_commit_intr == ctx_q[`EFA_CQC__INTR] && (m_commit_intr || m_commit_counted)
          && (!m_commit_intr || m_commit_total == commits_q + 16'd1)));
      p_counted : assert (!created_q || s2_mine || s3_mine || s4_mine || to_count_q == counted_q);
      p_once : assert (!left || inside_q != 0);
      p_what :
      assert (!(mine && wrote) || what_q == {
          m_wr_data[`EFA_IO_RX_CDESC_EX__BASE__COMMON__REQ_ID],
          m_wr_data[`EFA_IO_RX_CDESC_EX__BASE__COMMON__STATUS],
          m_wr_data[`EFA_IO_RX_CDESC_EX__BASE__COMMON__QP_NUM]});
      p_accepted : assert (!(go && init_done && (s_txc_valid || s_rxc_valid)) || take);
      p_waits : assert (!followed_q || went_q < 2);
      p_rxdone : assert (m_rxdone == rx_left_q);
      p_drain : assert (!drain_ready || (before_q == 0 && pending_q <= commit_out));
      c_slot : cover (wrote_mine && written_q == 16'd3 && log == 4'd1);
      c_phase : cover (wrote_mine && wrapped_q && log == 4'd0);
      c_live : cover (m_wr_valid && s2_mine);
      c_commit : cover (committed && commits_q == 16'd2);
      c_counted : cover (committed && m_commit_counted && !m_commit_intr && counted_q == 16'd1);
      c_once : cover (left && s2_dead);
      c_what : cover (mine && wrote && ahead_q == 0 && what_q[7:0] == 8'd7);
      c_accepted : cover (take_tx && s_rxc_valid);
      c_waits : cover (followed_q && went_q == 2'd1);
      c_rxdone : cover (m_rxdone);
      c_drain_ends : cover (draining && before_q == 1 && inside_q == 2);
      c_drain : cover (drain_ready && drain_seen_q && pending_q);
    end
  end

endmodule
