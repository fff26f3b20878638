// SPDX-License-Identifier: Apache-2.0
// efa_rx_window - passes each packet of a peer once and drops its copies (decision 0009).
//
// In    s_pkt: stored packets with a valid header; s_cfg_incarnation: own incarnation; s_quiet: the
//       time after a reset in which packets from before the reset may arrive
// Out   m_pkt: packets to execute, and all datagrams; m_again: duplicates; m_reply: replies to
//       packets for another incarnation or within the quiet time; m_free_*: slot of a packet that
//       does not pass; window_rd_data: session and oldest PSN of a peer
// Time  2 cycles, one packet per cycle; m_free 2 cycles after its packet; window_rd_data follows
//       window_rd_addr by one cycle and contains the packets that have left; after rst an
//       initialisation of one cycle per peer
//
// The state of a peer is one RAM word: session, oldest PSN, one bit for each PSN of the window. The
// bit of a PSN is that of the PSN modulo the window: it is cleared when oldest passes the PSN.
//
// s1 has the packet and the state of its peer, s2 is the output.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rx_window #(
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W,
    parameter READS = 2
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire [15:0] s_cfg_incarnation,
    input wire s_quiet,
    input wire s_pkt_valid,
    output wire s_pkt_ready,
    input wire [`EFA_RX_PKT__W-1:0] s_pkt_data,
    output wire m_pkt_valid,
    input wire m_pkt_ready,
    output wire [`EFA_RX_PKT__W-1:0] m_pkt_data,
    output wire m_again_valid,
    input wire m_again_ready,
    output wire [`EFA_SRD_OUTCOME__W-1:0] m_again_data,
    output wire m_reply_valid,
    input wire m_reply_ready,
    output wire [`EFA_SRD_REPLY__W-1:0] m_reply_data,
    output wire m_free_valid,
    output wire [7:0] m_free_slot,
    input wire [READS*NODE_W-1:0] window_rd_addr,
    output wire [READS*`EFA_RX_WINDOW__W-1:0] window_rd_data
);

  localparam WINDOW = 1 << WINDOW_W;
  localparam PLACE_W = `EFA_RX_WINDOW__W;
  localparam HDR_BITS = `EFA_SRD_HDR__BITS;
  localparam [WINDOW-1:0] A_SLOT = 1;
  localparam [NODE_W:0] ONE_NODE = 1;
  localparam [1:0] TO_DROP = 2'd0;
  localparam [1:0] TO_PASS = 2'd1;
  localparam [1:0] TO_REPEAT = 2'd2;
  localparam [1:0] TO_REPLY = 2'd3;

  reg [NODE_W:0] init_q;

  reg s1_valid_q;
  reg [`EFA_RX_PKT__W-1:0] s1_pkt_q;
  reg [31:0] s1_base_q;  // oldest PSN of the packet

  // The state that s1 wrote in the cycle of its read.
  reg written_q;
  reg [PLACE_W+WINDOW-1:0] written_state_q;

  reg s2_valid_q;
  reg [1:0] s2_way_q;
  reg s2_abort_q;
  reg [31:0] s2_base_q;
  reg [`EFA_RX_PKT__W-1:0] s2_pkt_q;

  reg free_q;
  reg [7:0] free_slot_q;

  wire s2_leaves = s2_way_q == TO_DROP || (m_pkt_valid && m_pkt_ready)
      || (m_again_valid && m_again_ready) || (m_reply_valid && m_reply_ready);
  wire s2_free = !s2_valid_q || s2_leaves;
  wire s1_leaves = s1_valid_q && s2_free;
  wire take = s_pkt_valid && s_pkt_ready;

  wire [HDR_BITS-1:0] s_header = s_pkt_data[`EFA_RX_PKT__HEADER];
  wire [15:0] s_node = s_header[`EFA_SRD_HDR__SRC_NODE];

  // s1: the rules of the receiver, in their order.
  wire [HDR_BITS-1:0] header = s1_pkt_q[`EFA_RX_PKT__HEADER];
  wire [15:0] node = header[`EFA_SRD_HDR__SRC_NODE];
  wire [31:0] psn = header[`EFA_SRD_HDR__PSN];
  wire [15:0] session = header[`EFA_SRD_HDR__SESSION];
  wire [15:0] incarnation = header[`EFA_SRD_HDR__INCARNATION];
  wire [WINDOW_W-1:0] slot = psn[WINDOW_W-1:0];
  wire reliable = header[`EFA_SRD_HDR__OPCODE] != `EFA_PKT_OPCODE__UD_SEND;

  wire [PLACE_W+WINDOW-1:0] read;
  wire [WINDOW-1:0] seen;
  wire [31:0] oldest;
  wire [15:0] known;
  assign {seen, oldest, known} = written_q ? written_state_q : read;

  wire abort = reliable && incarnation != 16'd0 && incarnation != s_cfg_incarnation;
  wire early = reliable && incarnation == 16'd0 && s_quiet;
  wire [15:0] sessions = session - known;
  wire begins = known == 16'd0 || (sessions != 16'd0 && !sessions[15]);
  wire past = !begins && sessions != 16'd0;
  wire [31:0] step = s1_base_q - oldest;
  wire moves = begins || (step != 32'd0 && !step[31]);
  wire [31:0] at = psn - oldest;
  wire resolved = !moves && at[31];
  // A PSN a window or more after oldest has the slot of a PSN that oldest passes now.
  wire in_window = at[31:WINDOW_W] == {32 - WINDOW_W{1'b0}};
  wire again = !begins && in_window && seen[slot];

  wire judged = reliable && !abort && !early && !past && !resolved;
  wire [1:0] way = !reliable ? TO_PASS : abort || early ? TO_REPLY
      : past || resolved ? TO_DROP : again ? TO_REPEAT : TO_PASS;

  wire [WINDOW-1:0] passed;
  wire [WINDOW-1:0] kept = begins ? {WINDOW{1'b0}} : seen & ~passed;
  wire [PLACE_W+WINDOW-1:0] state = {kept | (A_SLOT << slot), moves ? s1_base_q : oldest, session};

  wire initializing = !init_q[NODE_W];
  wire write = initializing || (s1_leaves && judged);
  wire [NODE_W-1:0] write_node = initializing ? init_q[NODE_W-1:0] : node[NODE_W-1:0];
  wire [PLACE_W+WINDOW-1:0] write_state = initializing ? {PLACE_W + WINDOW{1'b0}} : state;

  wire [HDR_BITS-1:0] s2_header = s2_pkt_q[`EFA_RX_PKT__HEADER];

  reg [`EFA_SRD_OUTCOME__W-1:0] again_data;
  reg [`EFA_SRD_REPLY__W-1:0] reply_data;
  always @* begin
    again_data = {`EFA_SRD_OUTCOME__W{1'b0}};
    again_data[`EFA_SRD_OUTCOME__AGAIN] = 1'b1;
    again_data[`EFA_SRD_OUTCOME__NODE] = s2_header[`EFA_SRD_HDR__SRC_NODE];
    again_data[`EFA_SRD_OUTCOME__SRC_QPN] = s2_header[`EFA_SRD_HDR__SRC_QPN];
    again_data[`EFA_SRD_OUTCOME__DST_QPN] = s2_header[`EFA_SRD_HDR__DST_QPN];
    again_data[`EFA_SRD_OUTCOME__PSN] = s2_header[`EFA_SRD_HDR__PSN];
    again_data[`EFA_SRD_OUTCOME__SESSION] = s2_header[`EFA_SRD_HDR__SESSION];
    again_data[`EFA_SRD_OUTCOME__PATH] = s2_header[`EFA_SRD_HDR__PATH];
    reply_data = {`EFA_SRD_REPLY__W{1'b0}};
    reply_data[`EFA_SRD_REPLY__STATELESS] = 1'b1;
    reply_data[`EFA_SRD_REPLY__NODE] = s2_header[`EFA_SRD_HDR__SRC_NODE];
    reply_data[`EFA_SRD_REPLY__PSN] = s2_base_q;
    reply_data[`EFA_SRD_REPLY__SESSION] = s2_header[`EFA_SRD_HDR__SESSION];
    reply_data[`EFA_SRD_REPLY__PATH] = s2_header[`EFA_SRD_HDR__PATH];
    if (s2_abort_q) begin
      reply_data[`EFA_SRD_REPLY__SRC_QPN] = s2_header[`EFA_SRD_HDR__DST_QPN];
      reply_data[`EFA_SRD_REPLY__DST_QPN] = s2_header[`EFA_SRD_HDR__SRC_QPN];
      reply_data[`EFA_SRD_REPLY__REFUSED_PSN] = s2_header[`EFA_SRD_HDR__PSN];
      reply_data[`EFA_SRD_REPLY__STATUS] = `EFA_IO_COMP_STATUS__REMOTE_ERROR_ABORT;
    end
  end

  assign m_init_done = !initializing;
  assign s_pkt_ready = !initializing && (!s1_valid_q || s2_free);
  assign m_pkt_valid = s2_valid_q && s2_way_q == TO_PASS;
  assign m_pkt_data = s2_pkt_q;
  assign m_again_valid = s2_valid_q && s2_way_q == TO_REPEAT;
  assign m_again_data = again_data;
  assign m_reply_valid = s2_valid_q && s2_way_q == TO_REPLY;
  assign m_reply_data = reply_data;
  assign m_free_valid = free_q;
  assign m_free_slot = free_slot_q;

  efa_psn_range #(
      .WINDOW_W(WINDOW_W)
  ) u_passed (
      .s_from(oldest),
      .s_to(s1_base_q),
      .m_slots(passed)
  );

  efa_ram #(
      .WIDTH (PLACE_W + WINDOW),
      .ADDR_W(NODE_W)
  ) u_states (
      .clk(clk),
      .wr_en(write),
      .wr_addr(write_node),
      .wr_data(write_state),
      .rd_en(take),
      .rd_addr(s_node[NODE_W-1:0]),
      .rd_data(read)
  );

  efa_ram_1wnr #(
      .WIDTH (PLACE_W),
      .ADDR_W(NODE_W),
      .READS (READS)
  ) u_places (
      .clk(clk),
      .wr_en(write),
      .wr_addr(write_node),
      .wr_data(write_state[PLACE_W-1:0]),
      .rd_addr(window_rd_addr),
      .rd_data(window_rd_data)
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {NODE_W + 1{1'b0}};
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      free_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE_NODE;
      if (take || s2_free) s1_valid_q <= take;
      if (s2_free) s2_valid_q <= s1_valid_q;
      free_q <= s1_leaves && way != TO_PASS;
    end
  end

  always @(posedge clk) begin
    free_slot_q <= s1_pkt_q[`EFA_RX_PKT__SLOT];
    if (take) begin
      s1_pkt_q <= s_pkt_data;
      s1_base_q <= s_header[`EFA_SRD_HDR__PSN] - {16'd0, s_header[`EFA_SRD_HDR__BEHIND]};
      written_q <= write && write_node == s_node[NODE_W-1:0];
      written_state_q <= write_state;
    end
    if (s2_free) begin
      s2_way_q <= way;
      s2_abort_q <= abort;
      s2_base_q <= s1_base_q;
      s2_pkt_q <= s1_pkt_q;
    end
  end

  wire unused_bits = &{1'b0, header, s2_header, node, s_node, s_header, at};

  // A difference next to the unsized WINDOW would be wider than 32 bits and would not wrap.
  wire [31:0] behind = psn - s1_base_q;
  `EFA_CHECK(!s1_valid_q || !reliable || behind < WINDOW, "packet beyond the window")
  `EFA_CHECK(!s1_valid_q || !reliable || session != 16'd0, "packet without a session")

endmodule

`default_nettype wire
