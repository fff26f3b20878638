// SPDX-License-Identifier: Apache-2.0
// fv_rx_outcome - proves efa_rx_outcome for one peer, session and PSN of the solver's choice: the
// bit of the PSN is shown only after its outcome, and remains; each outcome and each duplicate of a
// live PSN is reported once, with the status of its outcome.
`include "efa_defs.vh"

module fv_rx_outcome #(
    parameter NODE_W = 1,
    parameter WINDOW_W = 2
) (
    input wire clk,
    input wire rst,
    input wire s_outcome_valid,
    input wire [`EFA_SRD_OUTCOME__W-1:0] s_outcome_data,
    input wire s_again_valid,
    input wire [`EFA_SRD_OUTCOME__W-1:0] s_again_data,
    input wire m_reply_ready,
    input wire [NODE_W-1:0] accepted_rd_addr,
    // The window of the chosen peer advances, or its session is replaced.
    input wire step,
    input wire [31:0] step_by,
    input wire begins,
    input wire [15:0] begin_session,
    input wire [31:0] begin_oldest,
    input wire [`EFA_RX_WINDOW__W-1:0] other_window
);

  localparam WINDOW = 1 << WINDOW_W;
  localparam PLACE_W = `EFA_RX_WINDOW__W;
  localparam STATE_W = PLACE_W + 2 * WINDOW;
  localparam OUTCOME_W = `EFA_SRD_OUTCOME__W;

  wire init_done;
  wire s_outcome_ready;
  wire s_again_ready;
  wire [NODE_W-1:0] window_rd_addr;
  reg [PLACE_W-1:0] window_rd_data_q;
  wire m_due_valid;
  wire [`EFA_SRD_DUE__W-1:0] m_due_data;
  wire m_reply_valid;
  wire [`EFA_SRD_REPLY__W-1:0] m_reply_data;
  wire [PLACE_W+WINDOW-1:0] accepted_rd_data;

  efa_rx_outcome #(
      .NODE_W(NODE_W),
      .WINDOW_W(WINDOW_W)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done),
      .s_outcome_valid(s_outcome_valid),
      .s_outcome_ready(s_outcome_ready),
      .s_outcome_data(s_outcome_data),
      .s_again_valid(s_again_valid),
      .s_again_ready(s_again_ready),
      .s_again_data(s_again_data),
      .window_rd_addr(window_rd_addr),
      .window_rd_data(window_rd_data_q),
      .m_due_valid(m_due_valid),
      .m_due_data(m_due_data),
      .m_reply_valid(m_reply_valid),
      .m_reply_ready(m_reply_ready),
      .m_reply_data(m_reply_data),
      .accepted_rd_addr(accepted_rd_addr),
      .accepted_rd_data(accepted_rd_data)
  );

  (* anyconst *) wire [NODE_W-1:0] me;
  (* anyconst *) wire [15:0] my_session;
  (* anyconst *) wire [31:0] my_psn;

  (* probe = "u_dut.u_states.word_addr" *) wire [NODE_W-1:0] word_addr;
  (* probe = "u_dut.u_states.word_known_q" *) wire word_known;
  (* probe = "u_dut.u_states.word_q" *) wire [STATE_W-1:0] word;
  (* probe = "u_dut.u_accepted.word_addr" *) wire [NODE_W-1:0] copy_addr;
  (* probe = "u_dut.u_accepted.word_known_q" *) wire copy_known;
  (* probe = "u_dut.u_accepted.word_q" *) wire [PLACE_W+WINDOW-1:0] copy;
  (* probe = "u_dut.u_statuses.word_addr" *) wire [NODE_W+WINDOW_W-1:0] status_addr;
  (* probe = "u_dut.u_statuses.word_known_q" *) wire status_known;
  (* probe = "u_dut.u_statuses.word_q" *) wire [4:0] status_word;
  (* probe = "u_dut.init_q" *) wire [NODE_W:0] init;
  (* probe = "u_dut.e1_valid_q" *) wire e1_valid;
  (* probe = "u_dut.e1_q" *) wire [OUTCOME_W-1:0] e1;
  (* probe = "u_dut.e1_leaves" *) wire e1_leaves;
  (* probe = "u_dut.live" *) wire live;
  (* probe = "u_dut.accepted" *) wire [WINDOW-1:0] e1_accepted;
  (* probe = "u_dut.refused" *) wire [WINDOW-1:0] e1_refused;
  (* probe = "u_dut.u_turns.held_q" *) wire turn_held;
  (* probe = "u_dut.u_turns.grant_q" *) wire [1:0] turn;
  (* probe = "u_dut.written_q" *) wire written;
  (* probe = "u_dut.written_state_q" *) wire [STATE_W-1:0] written_state;
  (* probe = "u_dut.read" *) wire [STATE_W-1:0] read;
  (* probe = "u_dut.stored_status" *) wire [4:0] e1_stored;

  wire [15:0] e1_node = e1[`EFA_SRD_OUTCOME__NODE];
  wire [31:0] e1_psn = e1[`EFA_SRD_OUTCOME__PSN];
  wire [7:0] e1_status = e1[`EFA_SRD_OUTCOME__STATUS];
  wire e1_again = e1[`EFA_SRD_OUTCOME__AGAIN];
  wire e1_me = e1_node == {{16 - NODE_W{1'b0}}, me};
  wire e1_mine = e1_me && e1_psn == my_psn && e1[`EFA_SRD_OUTCOME__SESSION] == my_session;

  wire [WINDOW-1:0] refused_bits = word[STATE_W-1:PLACE_W+WINDOW];
  wire [WINDOW-1:0] accepted_bits = word[PLACE_W+WINDOW-1:PLACE_W];
  wire [31:0] bits_oldest = word[47:16];
  wire [15:0] bits_session = word[15:0];
  wire [WINDOW_W-1:0] slot = my_psn[WINDOW_W-1:0];
  wire [31:0] bits_at = my_psn - bits_oldest;
  // The stored bit of the slot is that of the PSN.
  wire covered = bits_session == my_session && bits_at < WINDOW;

  // The window of the peer.
  reg [15:0] session_q;
  reg [31:0] oldest_q;
  reg looked_up_q;

  // The outcome of the PSN.
  reg began_q = 1'b0;
  reg outcome_waits_q;
  reg again_waits_q;
  reg [OUTCOME_W-1:0] outcome_q;
  reg [OUTCOME_W-1:0] again_q;
  reg given_q;
  reg [7:0] status_q;
  wire in_outcome = s_outcome_valid && s_outcome_ready;
  wire [15:0] in_node = s_outcome_data[`EFA_SRD_OUTCOME__NODE];
  wire in_mine = in_outcome && in_node == {{16 - NODE_W{1'b0}}, me}
      && s_outcome_data[`EFA_SRD_OUTCOME__PSN] == my_psn
      && s_outcome_data[`EFA_SRD_OUTCOME__SESSION] == my_session;
  wire [15:0] again_node = s_again_data[`EFA_SRD_OUTCOME__NODE];

  // What the stage of the outcome must report in the next cycle.
  reg [1:0] reports_q;
  reg [7:0] path_q;
  reg [7:0] reported_q;
  reg read_q;
  reg stored_q;  // the outcome was live and is stored
  reg dropped_q;  // the outcome was not live
  reg [15:0] prev_session_q;
  reg [31:0] prev_oldest_q;
  reg [15:0] src_qpn_q;
  reg [15:0] dst_qpn_q;

  wire known = init > {1'b0, me};
  wire e1_given = e1_valid && e1_mine && !e1_again;
  wire reports = e1_leaves && live && e1_mine && (stored_q || !e1_again);
  wire [31:0] at = my_psn - oldest_q;
  wire [31:0] prev_at = my_psn - prev_oldest_q;
  wire [31:0] next_at = at - step_by;

  always @(posedge clk) begin
    began_q <= 1'b1;
    outcome_waits_q <= !rst && s_outcome_valid && !s_outcome_ready;
    again_waits_q <= !rst && s_again_valid && !s_again_ready;
    outcome_q <= s_outcome_data;
    again_q <= s_again_data;
    if (rst) begin
      session_q <= 16'd0;
      given_q <= 1'b0;
      stored_q <= 1'b0;
      dropped_q <= 1'b0;
      reports_q <= 2'b00;
    end else begin
      if (begins) begin
        session_q <= begin_session;
        oldest_q  <= begin_oldest;
      end else if (step) begin
        oldest_q <= oldest_q + step_by;
      end
      given_q <= given_q || in_mine;
      stored_q <= stored_q || (e1_given && e1_leaves && live);
      dropped_q <= dropped_q || (e1_given && e1_leaves && !live);
      reports_q <= {reports && status_q != 8'd0, reports && status_q == 8'd0};
    end
    if (in_mine) status_q <= s_outcome_data[`EFA_SRD_OUTCOME__STATUS];
    path_q <= e1[`EFA_SRD_OUTCOME__PATH];
    src_qpn_q <= e1[`EFA_SRD_OUTCOME__SRC_QPN];
    dst_qpn_q <= e1[`EFA_SRD_OUTCOME__DST_QPN];
    prev_session_q <= rst ? 16'd0 : session_q;
    prev_oldest_q <= oldest_q;
    read_q <= !rst && init_done && accepted_rd_addr == me;
    looked_up_q <= !rst && window_rd_addr == me;
    window_rd_data_q <= window_rd_addr == me ? {oldest_q, session_q} : other_window;
  end

  wire [15:0] read_session = accepted_rd_data[15:0];
  wire [31:0] read_oldest = accepted_rd_data[47:16];
  wire [31:0] read_at = my_psn - read_oldest;
  always @* begin
    if (!began_q) a_begin : assume (rst);
    a_word : assume (word_addr == me && copy_addr == me && status_addr == {me, slot});
    a_nodes : assume (in_node < (1 << NODE_W) && again_node < (1 << NODE_W));
    a_kind :
    assume (!s_outcome_data[`EFA_SRD_OUTCOME__AGAIN] && s_again_data[`EFA_SRD_OUTCOME__AGAIN]
        && s_outcome_data[`EFA_SRD_OUTCOME__STATUS] < 8'd32
        && s_again_data[`EFA_SRD_OUTCOME__STATUS] == 8'd0
        && s_outcome_data[`EFA_SRD_OUTCOME__SESSION] != 16'd0
        && s_again_data[`EFA_SRD_OUTCOME__SESSION] != 16'd0);
    a_stays :
    assume ((!outcome_waits_q || (s_outcome_valid && s_outcome_data == outcome_q))
        && (!again_waits_q || (s_again_valid && s_again_data == again_q)));
    a_once : assume (!(in_mine && given_q));
    // The check of the block, for the other PSNs.
    a_others :
    assume (!e1_valid || !live || e1_again || e1_mine || !(e1_accepted[e1_psn[WINDOW_W-1:0]]
        || e1_refused[e1_psn[WINDOW_W-1:0]]));
    // A sender advances by less than its window; these bounds are far above.
    a_advance : assume (step_by < 32'h10000000);
    a_far :
    assume (!(step && !begins) || ((bits_session != session_q || oldest_q + step_by - bits_oldest < 32'h40000000)
        && !(given_q && at[31] && !next_at[31])));
    a_near : assume (!in_mine || session_q != my_session || at + 32'h20000000 < 32'h40000000);
    // The number of a session is not used again while bits or outcomes of it are there.
    a_new :
    assume (!begins || (begin_session != 16'd0 && begin_session != session_q
        && begin_session != prev_session_q && begin_session != bits_session
        && (begin_session != my_session || !(given_q || in_mine))));
    if (began_q && !rst) begin
      h_init :
      assert (init <= (1 << NODE_W)
          && (init_done || !(e1_valid || given_q || stored_q || m_reply_valid)));
      h_turns :
      assert (!turn_held || ((turn == 2'b01 && outcome_waits_q) || (turn == 2'b10 && again_waits_q)));
      h_known : assert (!known || (word_known && copy_known && copy == word[PLACE_W+WINDOW-1:0]));
      h_e1 :
      assert (!e1_valid || (e1_node < (1 << NODE_W) && e1[`EFA_SRD_OUTCOME__SESSION] != 16'd0
          && (e1_again ? e1_status == 8'd0 : e1_status < 8'd32)));
      h_read : assert (!e1_valid || !e1_me || (written ? written_state : read) == word);
      h_status_read :
      assert (!e1_valid || !e1_me || e1_psn[WINDOW_W-1:0] != slot || !status_known || e1_stored == status_word);
      h_looked_up : assert (!e1_valid || looked_up_q == e1_me);
      h_window : assert (!looked_up_q || window_rd_data_q == {prev_oldest_q, prev_session_q});
      h_prev :
      assert (session_q != prev_session_q || session_q == 16'd0
          || oldest_q - prev_oldest_q < 32'h10000000);
      h_order :
      assert (bits_session == 16'd0 || ((bits_session != session_q || oldest_q - bits_oldest < 32'h40000000)
          && (bits_session != prev_session_q || prev_oldest_q - bits_oldest < 32'h40000000)));
      // A session that was left is not seen any more.
      h_left :
      assert (!given_q || prev_session_q == my_session || session_q != my_session || !known
          || bits_session != my_session);
      h_given : assert (!e1_given || (given_q && !stored_q && !dropped_q && e1_status == status_q));
      h_stored :
      assert (given_q ? (stored_q + dropped_q + e1_given == 1) : !(stored_q || dropped_q));
      h_status : assert (!given_q || status_q < 8'd32);
      // Once passed, the PSN stays passed.
      h_past :
      assert (!given_q
          || ((session_q != my_session || prev_session_q != my_session || !prev_at[31] || at[31])
          && (session_q != my_session || bits_session != my_session || !bits_at[31] || at[31])
          && (prev_session_q != my_session || bits_session != my_session || !bits_at[31] || prev_at[31])));
      h_bits :
      assert (!known || !covered || (accepted_bits[slot] == (stored_q && status_q == 8'd0)
          && refused_bits[slot] == (stored_q && status_q != 8'd0)));
      h_kept :
      assert (!stored_q || ((bits_session != my_session || covered || bits_at[31])
          && (bits_session == my_session || (session_q != my_session && prev_session_q != my_session))));
      h_refused :
      assert (!(known && covered && refused_bits[slot]) || (status_known && status_word == status_q[4:0]));
      p_shown :
      assert (!(read_q && read_session == my_session && read_at < WINDOW
          && accepted_rd_data[PLACE_W + slot]) || (stored_q && status_q == 8'd0));
      p_due :
      assert (!reports_q[0] || (m_due_valid && m_due_data[`EFA_SRD_DUE__DUE]
          && m_due_data[`EFA_SRD_DUE__NODE] == {{16 - NODE_W{1'b0}}, me}
          && m_due_data[`EFA_SRD_DUE__PATH] == path_q
          && m_due_data[`EFA_SRD_DUE__SESSION] == my_session));
      p_refused :
      assert (!reports_q[1] || (m_reply_valid && m_reply_data[`EFA_SRD_REPLY__STATUS] == status_q
          && m_reply_data[`EFA_SRD_REPLY__NODE] == {{16 - NODE_W{1'b0}}, me}
          && m_reply_data[`EFA_SRD_REPLY__REFUSED_PSN] == my_psn
          && m_reply_data[`EFA_SRD_REPLY__SRC_QPN] == dst_qpn_q
          && m_reply_data[`EFA_SRD_REPLY__DST_QPN] == src_qpn_q
          && m_reply_data[`EFA_SRD_REPLY__PATH] == path_q));
      c_shown :
      cover (read_q && read_session == my_session && read_at == 1 && accepted_rd_data[PLACE_W+slot]);
      c_due : cover (reports_q[0] && m_due_data[`EFA_SRD_DUE__AGAIN] && at == 1);
      c_refused : cover (reports_q[1] && stored_q && at == 2);
    end
  end

endmodule
