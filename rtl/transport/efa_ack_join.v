// SPDX-License-Identifier: Apache-2.0
// efa_ack_join - joins the acknowledgements of each peer that wait for the sender.
//
// In    s_ack: acknowledgements as flits, with a valid header; s_ticks: the time
// Out   m_ack: what they say, refusals and peers in turn, peers round robin; m_waits: peers whose
//       acknowledgement waits or is offered
// Time  m_ack 4 cycles after s_ack, one in 2 cycles; a refusal 3 cycles, one per cycle
//
// An acknowledgement shows the whole state of its peer. So it replaces one that waits, unless that
// one is of the same session and shows more; two for the same PSN show their bits together. The time
// is that of the later one. A refusal waits in a FIFO, or is lost: the retransmission brings it again.
//
// j1 has the waiting acknowledgement of the peer, o1 the chosen one.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_ack_join #(
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter REFUSALS_LOG2 = 8
) (
    input wire clk,
    input wire rst,
    input wire [23:0] s_ticks,
    input wire s_ack_valid,
    output wire s_ack_ready,
    input wire [`EFA_SRD_ACK__BITS-1:0] s_ack_data,
    output wire m_ack_valid,
    input wire m_ack_ready,
    output wire [`EFA_TX_ACK__W-1:0] m_ack_data,
    output wire [(1<<NODE_W)-1:0] m_waits
);

  localparam NODES = 1 << NODE_W;
  localparam ACK_W = `EFA_TX_ACK__W;

  reg [NODES-1:0] waits_q;
  reg [NODES-1:0] leaves_q;  // the peer whose acknowledgement is read or offered
  reg j1_valid_q;
  reg [ACK_W-1:0] j1_ack_q;
  reg o1_valid_q;
  reg refused_last_q;
  reg m_valid_q;
  reg [ACK_W-1:0] m_ack_q;

  reg [ACK_W-1:0] ack;
  always @* begin
    ack = {ACK_W{1'b0}};
    ack[`EFA_TX_ACK__NODE] = s_ack_data[`EFA_SRD_ACK__SRC_NODE];
    ack[`EFA_TX_ACK__TICKS] = s_ticks;
    ack[`EFA_TX_ACK__SESSION] = s_ack_data[`EFA_SRD_ACK__SESSION];
    ack[`EFA_TX_ACK__INCARNATION] = s_ack_data[`EFA_SRD_ACK__INCARNATION];
    ack[`EFA_TX_ACK__PATH] = s_ack_data[`EFA_SRD_ACK__PATH];
    ack[`EFA_TX_ACK__STATUS] = s_ack_data[`EFA_SRD_ACK__STATUS];
    ack[`EFA_TX_ACK__REFUSED_PSN] = s_ack_data[`EFA_SRD_ACK__REFUSED_PSN];
    ack[`EFA_TX_ACK__PSN] = s_ack_data[`EFA_SRD_ACK__PSN];
    ack[`EFA_TX_ACK__BITMAP_PSN] = s_ack_data[`EFA_SRD_ACK__BITMAP_PSN];
    ack[`EFA_TX_ACK__BITMAP] = s_ack_data[`EFA_SRD_ACK__BITMAP];
  end

  wire [15:0] in_node = ack[`EFA_TX_ACK__NODE];
  wire refusal = ack[`EFA_TX_ACK__STATUS] != 8'd0;

  // j1: joins the waiting acknowledgement.
  wire [ACK_W-1:0] waiting;
  wire [15:0] j1_node = j1_ack_q[`EFA_TX_ACK__NODE];
  wire same = waits_q[j1_node[NODE_W-1:0]]
      && waiting[`EFA_TX_ACK__SESSION] == j1_ack_q[`EFA_TX_ACK__SESSION]
      && waiting[`EFA_TX_ACK__INCARNATION] == j1_ack_q[`EFA_TX_ACK__INCARNATION];
  wire [31:0] psn_step = j1_ack_q[`EFA_TX_ACK__PSN] - waiting[`EFA_TX_ACK__PSN];
  wire older = same && psn_step[31];
  wire together = same && psn_step == 32'd0
      && waiting[`EFA_TX_ACK__BITMAP_PSN] == j1_ack_q[`EFA_TX_ACK__BITMAP_PSN];
  wire [255:0] waiting_bits = waiting[`EFA_TX_ACK__BITMAP];
  wire [255:0] j1_bits = j1_ack_q[`EFA_TX_ACK__BITMAP];
  reg [ACK_W-1:0] joined;
  always @* begin
    joined = j1_ack_q;
    if (together) joined[`EFA_TX_ACK__BITMAP] = j1_bits | waiting_bits;
  end
  wire store = j1_valid_q && !older;
  wire [NODES-1:0] stored = store ? {{NODES - 1{1'b0}}, 1'b1} << j1_node[NODE_W-1:0] : {NODES{1'b0}};

  // The choice: a refusal, or a peer whose acknowledgement is then read.
  wire refusal_space;
  wire refusal_valid;
  wire [ACK_W-1:0] refused;
  wire [REFUSALS_LOG2:0] refusal_level;
  wire [NODES-1:0] grant;
  wire [NODE_W-1:0] granted;
  wire output_free = !m_valid_q || m_ack_ready;
  wire choose = !o1_valid_q && output_free;
  wire any_waits = waits_q != {NODES{1'b0}};
  wire take_refusal = choose && refusal_valid && !(refused_last_q && any_waits);
  wire take_waiting = choose && !take_refusal && any_waits;
  wire [ACK_W-1:0] chosen;

  // A refusal without space is taken and lost.
  assign s_ack_ready = 1'b1;
  assign m_ack_valid = m_valid_q;
  assign m_ack_data = m_ack_q;
  assign m_waits = waits_q | leaves_q;

  efa_fifo #(
      .WIDTH(ACK_W),
      .DEPTH_LOG2(REFUSALS_LOG2)
  ) u_refusals (
      .clk(clk),
      .rst(rst),
      .s_valid(s_ack_valid && refusal),
      .s_ready(refusal_space),
      .s_data(ack),
      .m_valid(refusal_valid),
      .m_ready(take_refusal),
      .m_data(refused),
      .m_level(refusal_level)
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
      .s_request(take_waiting ? waits_q : {NODES{1'b0}}),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  efa_ram_fwd #(
      .WIDTH (ACK_W),
      .ADDR_W(NODE_W),
      .READS (2)
  ) u_waiting (
      .clk(clk),
      .wr_en(store),
      .wr_addr(j1_node[NODE_W-1:0]),
      .wr_data(joined),
      .rd_addr({granted, in_node[NODE_W-1:0]}),
      .rd_data({chosen, waiting})
  );

  always @(posedge clk) begin
    if (rst) begin
      waits_q <= {NODES{1'b0}};
      leaves_q <= {NODES{1'b0}};
      j1_valid_q <= 1'b0;
      o1_valid_q <= 1'b0;
      refused_last_q <= 1'b0;
      m_valid_q <= 1'b0;
    end else begin
      waits_q <= (waits_q & ~grant) | stored;
      if (take_waiting) leaves_q <= grant;
      else if (m_valid_q && m_ack_ready) leaves_q <= {NODES{1'b0}};
      j1_valid_q <= s_ack_valid && !refusal;
      o1_valid_q <= take_waiting;
      if (choose) refused_last_q <= take_refusal;
      m_valid_q <= take_refusal || o1_valid_q || (m_valid_q && !m_ack_ready);
    end
  end

  always @(posedge clk) begin
    j1_ack_q <= ack;
    if (o1_valid_q) m_ack_q <= chosen;
    else if (take_refusal) m_ack_q <= refused;
  end

  wire unused_bits = &{1'b0, s_ack_data, in_node, j1_node, waiting, refusal_level, refusal_space};

  `EFA_CHECK(!(s_ack_valid && in_node >= NODES), "acknowledgement of a peer that does not exist")
  `EFA_CHECK(!(take_refusal && o1_valid_q), "two acknowledgements at once")

endmodule

`default_nettype wire
