// SPDX-License-Identifier: Apache-2.0
// efa_ack_build - builds acknowledgements and refusals, each with the whole state of its peer.
//
// In    s_due: a peer whose acknowledgement is due; s_reply: refusals (0) and replies that show no
//       state (1); window_rd_data, accepted_rd_data: state of the peer of the addresses, one cycle
//       later; s_cfg_node_id, s_cfg_incarnation: of this device
// Out   m_ack: acknowledgements as flits
// Time  4 cycles from s_due, 5 from s_reply, one flit per cycle; replies before due
//       acknowledgements, peers round robin
//
// An acknowledgement that is due stays due until it is chosen, so a later outcome joins it. At most
// 2^REPLIES_LOG2 replies wait; one more is lost. A reply of an earlier session, and a refusal that
// oldest has passed, are left out.
//
// b0 chooses, b1 has the state, b2 half of the shift of the bitmap, b3 is the output.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_ack_build #(
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W,
    parameter REPLIES_LOG2 = 8
) (
    input wire clk,
    input wire rst,
    input wire [15:0] s_cfg_node_id,
    input wire [15:0] s_cfg_incarnation,
    input wire s_due_valid,
    input wire [`EFA_SRD_DUE__W-1:0] s_due_data,
    input wire [1:0] s_reply_valid,
    output wire [1:0] s_reply_ready,
    input wire [2*`EFA_SRD_REPLY__W-1:0] s_reply_data,
    output wire [NODE_W-1:0] window_rd_addr,
    input wire [`EFA_RX_WINDOW__W-1:0] window_rd_data,
    output wire [NODE_W-1:0] accepted_rd_addr,
    input wire [`EFA_RX_WINDOW__W+(1<<WINDOW_W)-1:0] accepted_rd_data,
    output wire m_ack_valid,
    input wire m_ack_ready,
    output wire [`EFA_SRD_ACK__BITS-1:0] m_ack_data
);

  localparam NODES = 1 << NODE_W;
  localparam [NODES-1:0] A_PEER = 1;
  localparam WINDOW = 1 << WINDOW_W;
  localparam LOW_W = WINDOW_W / 2;
  localparam REPLY_W = `EFA_SRD_REPLY__W;
  localparam ACK_BITS = `EFA_SRD_ACK__BITS;

  reg [NODES-1:0] due_q;

  reg b1_valid_q;
  reg b1_reply_q;
  reg [NODE_W-1:0] b1_node_q;
  reg [REPLY_W-1:0] b1_data_q;

  reg b2_valid_q;
  reg [WINDOW-1:0] b2_bits_q;
  reg [REPLY_W-1:0] b2_data_q;

  reg b3_valid_q;
  reg [ACK_BITS-1:0] b3_ack_q;

  // Each stage moves if the next one does.
  wire move = !b3_valid_q || m_ack_ready;

  wire [15:0] due_node = s_due_data[`EFA_SRD_DUE__NODE];
  wire due_sets = s_due_valid && s_due_data[`EFA_SRD_DUE__DUE];
  wire due_begins = s_due_data[`EFA_SRD_DUE__BEGINS];
  wire due_clears = s_due_valid && due_begins;
  wire [NODES-1:0] due_mark = due_sets ? A_PEER << due_node[NODE_W-1:0] : {NODES{1'b0}};
  wire [NODES-1:0] due_clear = due_clears ? A_PEER << due_node[NODE_W-1:0] : {NODES{1'b0}};

  wire [REPLY_W-1:0] in_reply = s_reply_valid[0] ? s_reply_data[REPLY_W-1:0]
      : s_reply_data[2*REPLY_W-1:REPLY_W];
  wire reply_space;
  wire reply_valid;
  wire [REPLY_W-1:0] reply;
  wire [REPLIES_LOG2:0] reply_level;
  wire [15:0] reply_node = reply[`EFA_SRD_REPLY__NODE];

  wire [NODES-1:0] grant;
  wire take_reply = move && reply_valid;
  wire take_due = move && !reply_valid && due_q != {NODES{1'b0}};
  wire [NODE_W-1:0] granted;
  wire [NODE_W-1:0] b0_node = reply_valid ? reply_node[NODE_W-1:0] : granted;
  wire [7:0] path;
  wire [15:0] due_session;

  // b1: what the reply shows.
  wire [15:0] session = window_rd_data[`EFA_RX_WINDOW__SESSION];
  wire [31:0] oldest = window_rd_data[`EFA_RX_WINDOW__OLDEST];
  wire stateless = b1_reply_q && b1_data_q[`EFA_SRD_REPLY__STATELESS];
  wire [WINDOW-1:0] stored_bits;
  wire [31:0] stored_oldest;
  wire [15:0] stored_session;
  assign {stored_bits, stored_oldest, stored_session} = accepted_rd_data;
  wire current = stored_session == session && due_session == session;
  wire [31:0] refused_psn = b1_data_q[`EFA_SRD_REPLY__REFUSED_PSN];
  wire [31:0] refused_at = refused_psn - oldest;
  wire reports = b1_reply_q ? b1_data_q[`EFA_SRD_REPLY__SESSION] == session && !refused_at[31]
      : current;
  wire [WINDOW-1:0] passed;
  wire [WINDOW-1:0] bits = stateless ? {WINDOW{1'b0}} : stored_bits & ~passed;

  // Bit 0 of the bitmap is oldest: the bits rotate by its slot, in two steps.
  wire [LOW_W-1:0] low = oldest[LOW_W-1:0];
  wire [2*WINDOW-1:0] low_turned = {bits, bits} >> low;
  wire [31:0] b2_psn = b2_data_q[`EFA_SRD_REPLY__PSN];
  wire [WINDOW_W-1:0] high = {b2_psn[WINDOW_W-1:LOW_W], {LOW_W{1'b0}}};
  wire [2*WINDOW-1:0] high_turned = {b2_bits_q, b2_bits_q} >> high;

  reg [REPLY_W-1:0] b1_data;
  reg [ACK_BITS-1:0] ack;
  always @* begin
    b1_data = b1_reply_q ? b1_data_q : {REPLY_W{1'b0}};
    if (!b1_reply_q) begin
      b1_data[`EFA_SRD_REPLY__NODE] = {{16 - NODE_W{1'b0}}, b1_node_q};
      b1_data[`EFA_SRD_REPLY__PATH] = path;
    end
    if (!stateless) begin
      b1_data[`EFA_SRD_REPLY__PSN] = oldest;
      b1_data[`EFA_SRD_REPLY__SESSION] = session;
    end
    ack = {ACK_BITS{1'b0}};
    ack[`EFA_SRD_ACK__OPCODE] = `EFA_PKT_OPCODE__SRD_ACK;
    ack[`EFA_SRD_ACK__LENGTH] = `EFA_SRD_ACK__BYTES - `EFA_SRD_HDR__BYTES;
    ack[`EFA_SRD_ACK__SRC_QPN] = b2_data_q[`EFA_SRD_REPLY__SRC_QPN];
    ack[`EFA_SRD_ACK__DST_QPN] = b2_data_q[`EFA_SRD_REPLY__DST_QPN];
    ack[`EFA_SRD_ACK__REFUSED_PSN] = b2_data_q[`EFA_SRD_REPLY__REFUSED_PSN];
    ack[`EFA_SRD_ACK__PSN] = b2_psn;
    ack[`EFA_SRD_ACK__SESSION] = b2_data_q[`EFA_SRD_REPLY__SESSION];
    ack[`EFA_SRD_ACK__INCARNATION] = s_cfg_incarnation;
    ack[`EFA_SRD_ACK__BITMAP_PSN] = b2_psn;
    ack[`EFA_SRD_ACK__SRC_NODE] = s_cfg_node_id;
    ack[`EFA_SRD_ACK__DST_NODE] = b2_data_q[`EFA_SRD_REPLY__NODE];
    ack[`EFA_SRD_ACK__PATH] = b2_data_q[`EFA_SRD_REPLY__PATH];
    ack[`EFA_SRD_ACK__STATUS] = b2_data_q[`EFA_SRD_REPLY__STATUS];
    ack[ACK_BITS-1:ACK_BITS/2] = {{ACK_BITS / 2 - WINDOW{1'b0}}, high_turned[WINDOW-1:0]};
  end

  // A reply without space is taken and lost.
  assign s_reply_ready = {!s_reply_valid[0], 1'b1};
  // The state is read again in each cycle in which b1 waits.
  assign window_rd_addr = move ? b0_node : b1_node_q;
  assign accepted_rd_addr = window_rd_addr;
  assign m_ack_valid = b3_valid_q;
  assign m_ack_data = b3_ack_q;

  efa_fifo #(
      .WIDTH(REPLY_W),
      .DEPTH_LOG2(REPLIES_LOG2)
  ) u_replies (
      .clk(clk),
      .rst(rst),
      .s_valid(s_reply_valid != 2'b00),
      .s_ready(reply_space),
      .s_data(in_reply),
      .m_valid(reply_valid),
      .m_ready(take_reply),
      .m_data(reply),
      .m_level(reply_level)
  );

  efa_onehot_index #(
      .INDEX_W(NODE_W)
  ) u_granted (
      .s_bits(grant),
      .m_index(granted)
  );

  efa_arb #(
      .N(NODES)
  ) u_turns (
      .clk(clk),
      .rst(rst),
      .s_request(take_due ? due_q : {NODES{1'b0}}),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  // Session and path of a peer; the path of the first cause of a session stays, except for
  // duplicates.
  wire [NODES-1:0] stays = due_q & ~grant & ~due_clear;
  efa_ram #(
      .WIDTH (24),
      .ADDR_W(NODE_W)
  ) u_paths (
      .clk(clk),
      .wr_en(due_sets && (s_due_data[`EFA_SRD_DUE__AGAIN] || !stays[due_node[NODE_W-1:0]])),
      .wr_addr(due_node[NODE_W-1:0]),
      .wr_data({s_due_data[`EFA_SRD_DUE__SESSION], s_due_data[`EFA_SRD_DUE__PATH]}),
      .rd_en(move),
      .rd_addr(b0_node),
      .rd_data({due_session, path})
  );

  efa_psn_range #(
      .WINDOW_W(WINDOW_W)
  ) u_passed (
      .s_from(stored_oldest),
      .s_to(oldest),
      .m_slots(passed)
  );

  always @(posedge clk) begin
    if (rst) begin
      due_q <= {NODES{1'b0}};
      b1_valid_q <= 1'b0;
      b2_valid_q <= 1'b0;
      b3_valid_q <= 1'b0;
    end else begin
      due_q <= stays | due_mark;
      if (move) begin
        b1_valid_q <= take_reply || take_due;
        b2_valid_q <= b1_valid_q && (stateless || reports);
        b3_valid_q <= b2_valid_q;
      end
    end
  end

  always @(posedge clk) begin
    if (move) begin
      b1_reply_q <= reply_valid;
      b1_node_q <= b0_node;
      b1_data_q <= reply;
      b2_bits_q <= low_turned[WINDOW-1:0];
      b2_data_q <= b1_data;
      b3_ack_q <= ack;
    end
  end

  wire unused_bits = &{1'b0, due_node, reply_node, reply_level, reply_space, refused_at[30:0], b2_data_q,
                       low_turned[2*WINDOW-1:WINDOW], high_turned[2*WINDOW-1:WINDOW]};

  `EFA_CHECK(!(s_due_valid && due_node >= NODES),
             "acknowledgement due to a peer that does not exist")

endmodule

`default_nettype wire
