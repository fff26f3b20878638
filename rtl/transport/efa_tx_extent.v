// SPDX-License-Identifier: Apache-2.0
// efa_tx_extent - learns how far packets of the peer in work overtake each other.
//
// In    s_load, s_state: another peer; s_clear: a new session; s_acked: a packet is acknowledged;
//       s_distance_valid, s_distance: packets of its path that overtook it; s_late: its first
//       transmission was late, not lost
// Out   m_state; m_learned: the first period is over; m_extent: packets that may overtake a packet
//       before it is lost
// Time  one cycle
`default_nettype none
`include "efa_defs.vh"

module efa_tx_extent #(
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W
) (
    input wire clk,
    input wire s_load,
    input wire [`EFA_TX_EXTENT__W-1:0] s_state,
    input wire s_clear,
    input wire s_acked,
    input wire s_distance_valid,
    input wire [15:0] s_distance,
    input wire s_late,
    output wire [`EFA_TX_EXTENT__W-1:0] m_state,
    output wire m_learned,
    output wire [15:0] m_extent
);

  localparam [31:0] PERIOD = `EFA_TRANSPORT__EXTENT_PERIOD;
  localparam [15:0] WINDOW = 1 << WINDOW_W;

  reg [`EFA_TX_EXTENT__W-1:0] state_q;
  reg [`EFA_TX_EXTENT__W-1:0] state_d;

  wire [15:0] previous = state_q[`EFA_TX_EXTENT__PREVIOUS];
  wire [15:0] current = state_q[`EFA_TX_EXTENT__CURRENT];
  wire [15:0] acked = state_q[`EFA_TX_EXTENT__ACKED];
  wire [15:0] most = previous > current ? previous : current;
  wire [15:0] extent = {most[14:0], 1'b0};
  wire [15:0] beyond = extent + 16'd1 > WINDOW ? WINDOW : extent + 16'd1;
  wire farther = s_distance_valid && !s_distance[15] && s_distance > current;
  wire late_farther = s_late && beyond > current;
  wire [15:0] current_d = late_farther ? beyond : farther ? s_distance : current;
  wire period_over = acked + 16'd1 == PERIOD[15:0];

  always @* begin
    state_d = state_q;
    state_d[`EFA_TX_EXTENT__CURRENT] = current_d;
    if (s_acked) begin
      state_d[`EFA_TX_EXTENT__ACKED] = acked + 16'd1;
      if (period_over) begin
        state_d[`EFA_TX_EXTENT__LEARNED] = 1'b1;
        state_d[`EFA_TX_EXTENT__PREVIOUS] = current_d;
        state_d[`EFA_TX_EXTENT__CURRENT] = 16'd0;
        state_d[`EFA_TX_EXTENT__ACKED] = 16'd0;
      end
    end
    if (s_clear) begin
      state_d = {`EFA_TX_EXTENT__W{1'b0}};
      state_d[`EFA_TX_EXTENT__PREVIOUS] = WINDOW;
    end
    if (s_load) state_d = s_state;
  end

  wire unused_bits = &{1'b0, most};

  assign m_state = state_q;
  assign m_learned = state_q[`EFA_TX_EXTENT__LEARNED];
  assign m_extent = extent;

  always @(posedge clk) begin
    state_q <= state_d;
  end

endmodule

`default_nettype wire
