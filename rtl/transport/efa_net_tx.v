// SPDX-License-Identifier: Apache-2.0
// efa_net_tx - sends data packets and acknowledgements to the network, packet by packet.
//
// In    s flits, completions without a packet and fences of efa_tx; s_ack_tx acknowledgements to
//       send, a flit each; s_quiesce: no new packet may start
// Out   m_net; m_done completions of sent messages, and fences, in the order of s;
//       m_net_quiet: s_quiesce is set and no packet is in progress; m_left: the first flit of a
//       transmission leaves
// Time  latency 1 cycle, one flit per cycle; m_done 2; data packets and acknowledgements
//       alternate while both are pending
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_net_tx (
    input wire clk,
    input wire rst,
    input wire s_quiesce,
    output wire m_net_quiet,
    input wire s_valid,
    output wire s_ready,
    input wire s_net,
    input wire s_done,
    input wire s_first,
    input wire s_last,
    input wire [511:0] s_data,
    input wire [63:0] s_keep,
    input wire [`EFA_TX_MSG__W-1:0] s_msg,
    input wire s_ack_tx_valid,
    output wire s_ack_tx_ready,
    input wire [`EFA_SRD_ACK__BITS-1:0] s_ack_tx_data,
    output wire m_net_valid,
    input wire m_net_ready,
    output wire [511:0] m_net_data,
    output wire [63:0] m_net_keep,
    output wire m_net_last,
    output wire m_left_valid,
    output wire [`EFA_SRD_SEND__W-1:0] m_left_send,
    output wire m_done_valid,
    input wire m_done_ready,
    output wire [`EFA_TX_MSG__W-1:0] m_done_msg,
    output wire st_tx_valid,
    output wire [15:0] st_tx_bytes,
    output wire ev_tx_first_valid,
    output wire [63:0] ev_tx_first_data,
    output wire ev_tx_last_valid,
    output wire [63:0] ev_tx_last_data,
    output wire ev_ackout_valid,
    output wire [63:0] ev_ackout_data
);

  localparam DONE_LOG2 = 4;
  localparam HDR_BITS = `EFA_PKT_HDR__BITS;

  // o: output register
  reg o_valid_q;
  reg o_ack_q;
  reg o_net_q;
  reg o_done_q;
  reg o_first_q;
  reg o_last_q;
  reg [511:0] o_data_q;
  reg [63:0] o_keep_q;
  reg [`EFA_TX_MSG__W-1:0] o_msg_q;

  reg inside_q;  // a data packet has started and not ended
  reg acks_turn_q;
  reg quiet_q;

  wire done_ready;
  wire [DONE_LOG2:0] done_level;

  // Space for the completion is reserved first, so m_net_valid does not depend on m_done_ready.
  wire done_space = !done_level[DONE_LOG2] && !(&done_level[DONE_LOG2-1:1]);
  wire o_free = !o_valid_q || !o_net_q || m_net_ready;
  wire ack_may = s_ack_tx_valid && !inside_q && !s_quiesce;
  wire s_may = s_valid && done_space && (inside_q || !s_net || !s_quiesce);
  wire take_ack = o_free && ack_may && (acks_turn_q || !s_may);
  wire take_s = o_free && s_may && !take_ack;
  wire left = o_valid_q && o_free;

  wire o_hands = left && !o_ack_q && (o_done_q || o_msg_q[`EFA_TX_MSG__KIND] == `EFA_TX_KIND__BARRIER);
  wire [`EFA_SRD_SEND__W-1:0] o_send = o_msg_q[`EFA_TX_MSG__SEND];
  wire o_again = o_msg_q[`EFA_TX_MSG__SENT] && o_send[`EFA_SRD_SEND__AGAIN];
  wire o_data_left = left && o_net_q && !o_ack_q;
  wire [HDR_BITS-1:0] o_header = o_data_q[HDR_BITS-1:0];

  reg [63:0] tx_first_data;
  reg [63:0] tx_last_data;
  reg [63:0] ackout_data;
  always @* begin
    tx_first_data = 64'd0;
    tx_first_data[`EFA_EV_TX_FIRST__QPN] = o_msg_q[`EFA_TX_MSG__QPN];
    tx_first_data[`EFA_EV_TX_FIRST__MSG] = o_msg_q[`EFA_TX_MSG__MSG];
    tx_first_data[`EFA_EV_TX_FIRST__LENGTH] = o_msg_q[`EFA_TX_MSG__LENGTH];
    tx_last_data = 64'd0;
    tx_last_data[`EFA_EV_TX_LAST__QPN] = o_msg_q[`EFA_TX_MSG__QPN];
    tx_last_data[`EFA_EV_TX_LAST__MSG] = o_msg_q[`EFA_TX_MSG__MSG];
    ackout_data = 64'd0;
    ackout_data[`EFA_EV_ACKOUT__DST_QPN] = o_header[`EFA_PKT_HDR__DST_QPN];
    ackout_data[`EFA_EV_ACKOUT__STATUS] = o_header[`EFA_PKT_HDR__STATUS];
    ackout_data[`EFA_EV_ACKOUT__MSG_ID] = o_header[`EFA_PKT_HDR__MSG_ID];
  end

  assign m_net_quiet = quiet_q;
  assign s_ack_tx_ready = take_ack;
  assign s_ready = take_s;
  assign m_net_valid = o_valid_q && o_net_q;
  assign m_net_data = o_data_q;
  assign m_net_keep = o_keep_q;
  assign m_net_last = o_last_q;
  assign m_left_valid = o_data_left && o_first_q && o_msg_q[`EFA_TX_MSG__SENT];
  assign m_left_send = o_send;
  // A retransmission is not counted again.
  assign st_tx_valid = o_data_left && o_last_q && !o_again;
  assign st_tx_bytes = o_msg_q[`EFA_TX_MSG__LENGTH];
  assign ev_tx_first_valid = o_data_left && o_first_q;
  assign ev_tx_first_data = tx_first_data;
  assign ev_tx_last_valid = o_data_left && o_last_q;
  assign ev_tx_last_data = tx_last_data;
  assign ev_ackout_valid = left && o_ack_q;
  assign ev_ackout_data = ackout_data;


  efa_fifo #(
      .WIDTH(`EFA_TX_MSG__W),
      .DEPTH_LOG2(DONE_LOG2)
  ) u_done (
      .clk(clk),
      .rst(rst),
      .s_valid(o_hands),
      .s_ready(done_ready),
      .s_data(o_msg_q),
      .m_valid(m_done_valid),
      .m_ready(m_done_ready),
      .m_data(m_done_msg),
      .m_level(done_level)
  );

  always @(posedge clk) begin
    if (rst) begin
      o_valid_q <= 1'b0;
      inside_q <= 1'b0;
      acks_turn_q <= 1'b0;
      quiet_q <= 1'b0;
    end else begin
      if (o_free) o_valid_q <= take_ack || take_s;
      if (take_s && s_net) inside_q <= !s_last;
      // The kind that was sent last has lower priority, packet by packet.
      if (take_ack) acks_turn_q <= 1'b0;
      else if (take_s && s_last) acks_turn_q <= 1'b1;
      quiet_q <= s_quiesce && !inside_q && !(o_valid_q && o_net_q);
    end
  end

  always @(posedge clk) begin
    if (o_free) begin
      o_ack_q   <= take_ack;
      o_net_q   <= take_ack || s_net;
      o_done_q  <= s_done;
      o_first_q <= s_first;
      o_last_q  <= take_ack || s_last;
      o_data_q  <= take_ack ? s_ack_tx_data : s_data;
      o_keep_q  <= take_ack ? {64{1'b1}} : s_keep;
      o_msg_q   <= s_msg;
    end
  end

  wire unused_bits = &{1'b0, o_header};

  `EFA_CHECK(!o_hands || done_ready, "no space for a completion")
  `EFA_CHECK(!(take_s && s_net && s_first) || !inside_q, "packet begins inside a packet")

endmodule

`default_nettype wire
