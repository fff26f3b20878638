// SPDX-License-Identifier: Apache-2.0
// efa_tx_pace - changes the congestion window of the peer in work by its round-trip times.
//
// In    s_load, s_state: another peer; s_clear: a new session; s_time_valid, s_time: a round-trip
//       time; s_first: it is the first one of the peer; s_shortest: shortest round-trip time before
//       it; s_collapse: a timeout after a timeout
// Out   m_state; m_busy: a round above the target is being divided, no other input is allowed
// Time  one cycle; m_busy for WINDOW_W + 2 cycles
//
// A time below s_shortest is not above the target, which rises with it, so its own target is not
// needed. A round above the target shrinks the window by window x (time - target) / time / 2. The quotient
// is found bit by bit.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_tx_pace #(
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W,
    parameter CWND_INITIAL = `EFA_TRANSPORT__CWND_INITIAL
) (
    input wire clk,
    input wire rst,
    input wire s_load,
    input wire [`EFA_TX_PACE__W-1:0] s_state,
    input wire s_clear,
    input wire s_time_valid,
    input wire [23:0] s_time,
    input wire s_first,
    input wire [23:0] s_shortest,
    input wire s_collapse,
    output wire [`EFA_TX_PACE__W-1:0] m_state,
    output wire m_busy
);

  localparam [31:0] FIRST = CWND_INITIAL;
  localparam [31:0] QUEUE = `EFA_TRANSPORT__QUEUE_TARGET;
  localparam [31:0] PACKETS = `EFA_TRANSPORT__ROUND_PACKETS;
  localparam [15:0] WINDOW = 1 << WINDOW_W;
  localparam FRACTION_W = 24 + WINDOW_W + 2;
  localparam [3:0] STEPS = WINDOW_W;

  reg [`EFA_TX_PACE__W-1:0] state_q;
  reg [`EFA_TX_PACE__W-1:0] state_d;
  reg divides_q;
  reg multiplied_q;
  reg [3:0] step_q;
  reg [23:0] above_q;  // time - target of the round
  reg [FRACTION_W-1:0] rest_q;
  reg [FRACTION_W-1:0] divisor_q;
  reg [15:0] quotient_q;

  wire [15:0] window = state_q[`EFA_TX_PACE__WINDOW];
  wire slow = state_q[`EFA_TX_PACE__SLOW];
  wire [15:0] count = state_q[`EFA_TX_PACE__ROUND];
  wire [23:0] shortest = state_q[`EFA_TX_PACE__SHORTEST];

  wire [23:0] target = s_shortest + {3'd0, s_shortest[23:3]} + QUEUE[23:0];
  wire below = s_first || s_time <= target;
  wire [15:0] wider = window == WINDOW ? window : window + 16'd1;
  wire grows = !slow && below;
  wire [15:0] grown = grows ? wider : window;
  wire takes_time = count == 16'd0 || s_time < shortest;
  wire [23:0] round_time = takes_time ? s_time : shortest;
  wire [15:0] needed = slow && window > PACKETS[15:0] ? window : PACKETS[15:0];
  wire round_over = s_time_valid && count + 16'd1 >= needed;
  wire above = !s_first && (takes_time ? s_time > target : shortest > target);

  wire last_step = divides_q && multiplied_q && step_q == 4'd0;
  wire fits = rest_q >= divisor_q;
  wire [15:0] quotient = {quotient_q[14:0], fits};
  wire [15:0] shrunk = window - quotient;

  always @* begin
    state_d = state_q;
    if (s_time_valid) begin
      state_d[`EFA_TX_PACE__WINDOW] = grown;
      state_d[`EFA_TX_PACE__ROUND] = round_over ? 16'd0 : count + 16'd1;
      state_d[`EFA_TX_PACE__SHORTEST] = round_time;
      if (round_over && above) state_d[`EFA_TX_PACE__SLOW] = 1'b1;
      else if (round_over && slow) state_d[`EFA_TX_PACE__WINDOW] = wider;
    end
    if (last_step) state_d[`EFA_TX_PACE__WINDOW] = shrunk < 16'd2 ? 16'd2 : shrunk;
    if (s_collapse) begin
      state_d[`EFA_TX_PACE__WINDOW] = 16'd2;
      state_d[`EFA_TX_PACE__SLOW] = 1'b0;
    end
    if (s_clear) begin
      state_d = {`EFA_TX_PACE__W{1'b0}};
      state_d[`EFA_TX_PACE__WINDOW] = FIRST[15:0] > WINDOW ? WINDOW : FIRST[15:0];
    end
    if (s_load) state_d = s_state;
  end

  assign m_state = state_q;
  assign m_busy = divides_q;

  always @(posedge clk) begin
    if (rst) divides_q <= 1'b0;
    else divides_q <= (round_over && above) || (divides_q && !last_step);
  end

  always @(posedge clk) begin
    state_q <= state_d;
    multiplied_q <= divides_q;
    if (!divides_q) begin
      above_q <= takes_time ? s_time - target : shortest - target;
      step_q <= STEPS;
      quotient_q <= 16'd0;
      divisor_q <= {{FRACTION_W - 25{1'b0}}, round_time, 1'b0} << WINDOW_W;
    end else if (!multiplied_q) begin
      rest_q <= {{FRACTION_W - WINDOW_W - 1{1'b0}}, window[WINDOW_W:0]} * {{FRACTION_W - 24{1'b0}}, above_q};
    end else begin
      step_q <= step_q - 4'd1;
      quotient_q <= quotient;
      if (fits) rest_q <= rest_q - divisor_q;
      divisor_q <= {1'b0, divisor_q[FRACTION_W-1:1]};
    end
  end

  wire unused_bits = &{1'b0, window, quotient_q};

  `EFA_CHECK(!(divides_q && (s_time_valid || s_load || s_clear || s_collapse)),
             "another input while a round is divided")

endmodule

`default_nettype wire
