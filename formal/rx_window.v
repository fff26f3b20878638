// SPDX-License-Identifier: Apache-2.0
// fv_rx_window - proves efa_rx_window for one peer, session and PSN of the solver's choice: the PSN
// passes once, within the window of its peer; oldest and session only advance; each packet leaves
// by one way.
`include "efa_defs.vh"

module fv_rx_window #(
    parameter NODE_W = 1,
    parameter WINDOW_W = 2
) (
    input wire clk,
    input wire rst,
    input wire [15:0] cfg_incarnation,
    input wire quiet,
    input wire s_pkt_valid,
    input wire [`EFA_RX_PKT__W-1:0] s_pkt_data,
    input wire m_pkt_ready,
    input wire m_again_ready,
    input wire m_reply_ready,
    input wire [NODE_W-1:0] window_rd_addr,
    input wire pick
);

  localparam WINDOW = 1 << WINDOW_W;
  localparam PLACE_W = `EFA_RX_WINDOW__W;
  localparam STATE_W = PLACE_W + WINDOW;
  localparam HDR_BITS = `EFA_SRD_HDR__BITS;

  wire init_done;
  wire s_pkt_ready;
  wire m_pkt_valid;
  wire [`EFA_RX_PKT__W-1:0] m_pkt_data;
  wire m_again_valid;
  wire [`EFA_SRD_OUTCOME__W-1:0] m_again_data;
  wire m_reply_valid;
  wire [`EFA_SRD_REPLY__W-1:0] m_reply_data;
  wire m_free_valid;
  wire [7:0] m_free_slot;
  wire [PLACE_W-1:0] window_rd_data;

  efa_rx_window #(
      .NODE_W(NODE_W),
      .WINDOW_W(WINDOW_W),
      .READS(1)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done),
      .s_cfg_incarnation(cfg_incarnation),
      .s_quiet(quiet),
      .s_pkt_valid(s_pkt_valid),
      .s_pkt_ready(s_pkt_ready),
      .s_pkt_data(s_pkt_data),
      .m_pkt_valid(m_pkt_valid),
      .m_pkt_ready(m_pkt_ready),
      .m_pkt_data(m_pkt_data),
      .m_again_valid(m_again_valid),
      .m_again_ready(m_again_ready),
      .m_again_data(m_again_data),
      .m_reply_valid(m_reply_valid),
      .m_reply_ready(m_reply_ready),
      .m_reply_data(m_reply_data),
      .m_free_valid(m_free_valid),
      .m_free_slot(m_free_slot),
      .window_rd_addr(window_rd_addr),
      .window_rd_data(window_rd_data)
  );

  (* anyconst *) wire [NODE_W-1:0] me;
  (* anyconst *) wire [15:0] my_session;
  (* anyconst *) wire [31:0] my_psn;

  (* probe = "u_dut.u_states.word_addr" *) wire [NODE_W-1:0] word_addr;
  (* probe = "u_dut.u_states.word_known_q" *) wire word_known;
  (* probe = "u_dut.u_states.word_q" *) wire [STATE_W-1:0] word;
  (* probe = "u_dut.u_places.g_port[0].u_copy.word_addr" *) wire [NODE_W-1:0] place_addr;
  (* probe = "u_dut.u_places.g_port[0].u_copy.word_known_q" *) wire place_known;
  (* probe = "u_dut.u_places.g_port[0].u_copy.word_q" *) wire [PLACE_W-1:0] place;
  (* probe = "u_dut.init_q" *) wire [NODE_W:0] init;
  (* probe = "u_dut.s1_valid_q" *) wire s1_valid;
  (* probe = "u_dut.s1_pkt_q" *) wire [`EFA_RX_PKT__W-1:0] s1_pkt;
  (* probe = "u_dut.s1_base_q" *) wire [31:0] s1_base;
  (* probe = "u_dut.s1_leaves" *) wire s1_leaves;
  (* probe = "u_dut.written_q" *) wire written;
  (* probe = "u_dut.written_state_q" *) wire [STATE_W-1:0] written_state;
  (* probe = "u_dut.read" *) wire [STATE_W-1:0] read;
  (* probe = "u_dut.way" *) wire [1:0] s1_way;
  (* probe = "u_dut.s2_valid_q" *) wire s2_valid;
  (* probe = "u_dut.s2_way_q" *) wire [1:0] s2_way;
  (* probe = "u_dut.s2_pkt_q" *) wire [`EFA_RX_PKT__W-1:0] s2_pkt;

  wire [HDR_BITS-1:0] in_header = s_pkt_data[`EFA_RX_PKT__HEADER];
  wire in_reliable = in_header[`EFA_SRD_HDR__OPCODE] != `EFA_PKT_OPCODE__UD_SEND;
  wire [15:0] in_behind = in_header[`EFA_SRD_HDR__BEHIND];
  wire [15:0] in_node = in_header[`EFA_SRD_HDR__SRC_NODE];
  wire take = s_pkt_valid && s_pkt_ready;

  wire [HDR_BITS-1:0] header = s1_pkt[`EFA_RX_PKT__HEADER];
  wire [15:0] s1_node = header[`EFA_SRD_HDR__SRC_NODE];
  wire [31:0] s1_psn = header[`EFA_SRD_HDR__PSN];
  wire [15:0] s1_session = header[`EFA_SRD_HDR__SESSION];
  wire [15:0] s1_behind = header[`EFA_SRD_HDR__BEHIND];
  wire s1_reliable = header[`EFA_SRD_HDR__OPCODE] != `EFA_PKT_OPCODE__UD_SEND;
  wire passes = s1_leaves && s1_way == 2'd1;
  wire passes_mine = passes && s1_reliable && s1_node == {{16 - NODE_W{1'b0}}, me}
      && s1_psn == my_psn && s1_session == my_session;

  wire [15:0] session = word[15:0];
  wire [31:0] oldest = word[47:16];
  wire [WINDOW-1:0] seen = word[STATE_W-1:PLACE_W];
  wire [31:0] at = my_psn - oldest;

  // The contract: the PSN has passed in the session that is stored now. Its number is free again
  // when oldest is half of the numbers ahead.
  reg began_q = 1'b0;
  reg passed_q;
  reg just_q;  // in the cycle before
  reg ready_q;  // the state of the cycle before is one of traffic
  reg [15:0] session_q;
  reg [31:0] oldest_q;
  reg passed_node_q;  // the last packet that passed was one of the chosen peer
  reg [31:0] passed_psn_q;
  reg [15:0] passed_session_q;
  reg read_q;

  // One packet of the solver's choice on its way.
  reg in_s1_q;
  reg in_s2_q;
  reg [`EFA_RX_PKT__W-1:0] item_q;
  reg frees_q;
  reg [7:0] slot_q;

  wire known = init > {1'b0, me};
  wire ways_leave = (m_pkt_valid && m_pkt_ready) || (m_again_valid && m_again_ready)
      || (m_reply_valid && m_reply_ready) || s2_way == 2'd0;

  // Oldest passes PSN 2^31 - 1 after itself at most: the PSN is new again.
  wire returns = !just_q && !at[31] && my_psn - oldest_q >= 32'h80000000;
  // The packet itself makes its number new.
  wire renews = at[31] && s1_base - oldest - 32'd1 < 32'h7fffffff;
  wire still = passed_q && session == my_session && !returns;

  always @(posedge clk) begin
    began_q <= 1'b1;
    ready_q <= !rst && init_done;
    session_q <= session;
    oldest_q <= oldest;
    just_q <= !rst && passes_mine;
    passed_q <= !rst && init_done && (passes_mine || still);
    passed_node_q <= !rst && passes && s1_reliable && s1_node == {{16 - NODE_W{1'b0}}, me};
    passed_psn_q <= s1_psn;
    passed_session_q <= s1_session;
    read_q <= !rst && init_done && window_rd_addr == me;
    if (rst) begin
      in_s1_q <= 1'b0;
      in_s2_q <= 1'b0;
    end else begin
      if (take && pick && !in_s1_q && !in_s2_q) in_s1_q <= 1'b1;
      else if (s1_leaves) in_s1_q <= 1'b0;
      if (in_s1_q && s1_leaves) in_s2_q <= 1'b1;
      else if (ways_leave) in_s2_q <= 1'b0;
    end
    if (take && pick && !in_s1_q && !in_s2_q) item_q <= s_pkt_data;
    frees_q <= !rst && s1_leaves && s1_way != 2'd1;
    slot_q <= s1_pkt[`EFA_RX_PKT__SLOT];
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    a_word : assume (word_addr == me && place_addr == me);
    a_header :
    assume (!s_pkt_valid || !in_reliable || (in_behind < WINDOW && in_node < (1 << NODE_W)
        && in_header[`EFA_SRD_HDR__SESSION] != 16'd0));
    if (began_q && !rst) begin
      h_init : assert (init <= (1 << NODE_W) && (init_done || !(s1_valid || s2_valid || passed_q)));
      h_known : assert (!known || (word_known && place_known && place == word[PLACE_W-1:0]));
      h_s1 :
      assert (!s1_valid || !s1_reliable || (s1_node < (1 << NODE_W) && s1_session != 16'd0
          && s1_behind < WINDOW && s1_base == s1_psn - {16'd0, s1_behind}));
      // No stage writes between the read of a packet and its check.
      h_read :
      assert (!s1_valid || s1_node[NODE_W-1:0] != me || (written ? written_state : read) == word);
      h_passed :
      assert (!(passed_q && session == my_session)
          || at[31] || (at < WINDOW && seen[my_psn[WINDOW_W-1:0]])
          || returns);
      h_last : assert (!ready_q || init_done);
      p_once : assert (!(passes_mine && still && !renews));
      p_window :
      assert (!passed_node_q || (passed_session_q == session && passed_psn_q - oldest < WINDOW));
      p_advance :
      assert (!ready_q || (session == session_q ? (oldest - oldest_q < 32'h80000000)
          : session != 16'd0 && (session_q == 16'd0 || session - session_q < 16'h8000)));
      p_same :
      assert ((!in_s1_q || (s1_valid && s1_pkt == item_q)) && (!in_s2_q || (s2_valid && s2_pkt == item_q)));
      o_way : assert (!in_s2_q || (s2_valid && s2_pkt == item_q));
      o_way_before : assert (!in_s1_q || (s1_valid && s1_pkt == item_q));
      p_way :
      assert (!in_s2_q || (m_pkt_valid == (s2_way == 2'd1) && m_again_valid == (s2_way == 2'd2)
          && m_reply_valid == (s2_way == 2'd3) && (!m_pkt_valid || m_pkt_data == item_q)));
      p_free : assert (m_free_valid == frees_q && (!frees_q || m_free_slot == slot_q));
      c_once : cover (still && s1_leaves && s1_way == 2'd2 && at == 3);
      c_window : cover (passed_node_q && passed_psn_q - oldest == WINDOW - 1);
      c_advance : cover (ready_q && oldest - oldest_q == 5 && session == session_q);
      c_same : cover (in_s2_q && s2_way == 2'd0);
      c_way : cover (in_s2_q && m_again_valid && m_again_ready);
      c_free : cover (frees_q && s2_way == 2'd3);
    end
  end

endmodule
