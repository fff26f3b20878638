// SPDX-License-Identifier: Apache-2.0
// efa_tx_times - holds the round-trip times of the peer in work and derives its timeout.
//
// In    s_load, s_state: another peer; s_clear: a new session; s_time_valid, s_time: a round-trip
//       time, 1 or more; s_ticks: the time
// Out   m_state; m_shortest, m_longest: of two periods; m_timeout: without backoff
// Time  m_state, m_shortest and m_longest one cycle after their cause, m_timeout two
`default_nettype none
`include "efa_defs.vh"

module efa_tx_times #(
    parameter RTO_INITIAL = `EFA_TRANSPORT__RTO_INITIAL
) (
    input wire clk,
    input wire s_load,
    input wire [`EFA_TX_TIMES__W-1:0] s_state,
    input wire s_clear,
    input wire s_time_valid,
    input wire [23:0] s_time,
    input wire [23:0] s_ticks,
    output wire [`EFA_TX_TIMES__W-1:0] m_state,
    output wire [23:0] m_shortest,
    output wire [23:0] m_longest,
    output wire [23:0] m_timeout
);

  localparam [31:0] INITIAL = RTO_INITIAL;
  localparam [31:0] PERIOD = `EFA_TRANSPORT__TIME_PERIOD;
  localparam [31:0] MARGIN = `EFA_TRANSPORT__RTO_MARGIN;

  reg [`EFA_TX_TIMES__W-1:0] state_q;
  reg [`EFA_TX_TIMES__W-1:0] state_d;
  reg [23:0] shortest_q;
  reg [23:0] longest_q;
  reg [23:0] timeout_q;

  wire known = state_q[`EFA_TX_TIMES__KNOWN];
  wire [26:0] srtt8 = state_q[`EFA_TX_TIMES__SRTT8];
  wire [26:0] rttvar4 = state_q[`EFA_TX_TIMES__RTTVAR4];
  wire [23:0] shortest = state_q[`EFA_TX_TIMES__SHORTEST];
  wire [23:0] longest = state_q[`EFA_TX_TIMES__LONGEST];

  wire [23:0] srtt = srtt8[26:3];
  wire below = s_time < srtt;
  // s_time arrives late: it is added last.
  wire [26:0] srtt8_rest = srtt8 - {3'd0, srtt};
  wire [26:0] above_rest = rttvar4 - {2'd0, rttvar4[26:2]} - {3'd0, srtt};
  wire [26:0] below_rest = rttvar4 - {2'd0, rttvar4[26:2]} + {3'd0, srtt};
  wire [26:0] rttvar4_above = above_rest + {3'd0, s_time};
  wire [26:0] rttvar4_below = below_rest - {3'd0, s_time};
  wire [23:0] left = state_q[`EFA_TX_TIMES__PERIOD_END] - s_ticks;
  // Also over after a pause of half of the range of ticks.
  wire period_over = left == 24'd0 || left > PERIOD[23:0];

  always @* begin
    state_d = state_q;
    if (s_time_valid) begin
      state_d[`EFA_TX_TIMES__KNOWN] = 1'b1;
      state_d[`EFA_TX_TIMES__SRTT8] = known ? srtt8_rest + {3'd0, s_time} : {s_time, 3'd0};
      state_d[`EFA_TX_TIMES__RTTVAR4] = !known ? {2'd0, s_time, 1'b0} : below ? rttvar4_below : rttvar4_above;
      if (!known || period_over) begin
        state_d[`EFA_TX_TIMES__PREVIOUS_SHORTEST] = known ? shortest : s_time;
        state_d[`EFA_TX_TIMES__PREVIOUS_LONGEST] = known ? longest : s_time;
        state_d[`EFA_TX_TIMES__SHORTEST] = s_time;
        state_d[`EFA_TX_TIMES__LONGEST] = s_time;
        state_d[`EFA_TX_TIMES__PERIOD_END] = s_ticks + PERIOD[23:0];
      end else begin
        if (s_time < shortest) state_d[`EFA_TX_TIMES__SHORTEST] = s_time;
        if (s_time > longest) state_d[`EFA_TX_TIMES__LONGEST] = s_time;
      end
    end
    if (s_clear) state_d = {`EFA_TX_TIMES__W{1'b0}};
    if (s_load) state_d = s_state;
  end

  // Times of two periods: in registers, so that no comparison is in the path behind them.
  wire shorter = period_over ? s_time < shortest : s_time < shortest_q;
  wire longer = period_over ? s_time > longest : s_time > longest_q;
  wire [23:0] loaded_shortest_0 = s_state[`EFA_TX_TIMES__PREVIOUS_SHORTEST];
  wire [23:0] loaded_shortest = s_state[`EFA_TX_TIMES__SHORTEST];
  wire [23:0] loaded_longest_0 = s_state[`EFA_TX_TIMES__PREVIOUS_LONGEST];
  wire [23:0] loaded_longest = s_state[`EFA_TX_TIMES__LONGEST];

  // Timeout: srtt + 4 x deviation, within 3/2 and 3 times srtt, and not below srtt + margin.
  wire [26:0] half = {4'd0, srtt[23:1]};
  wire [26:0] double = {2'd0, srtt, 1'b0};
  wire [26:0] bounded = rttvar4 < half ? half : rttvar4 > double ? double : rttvar4;
  wire [26:0] added = bounded < {3'd0, MARGIN[23:0]} ? {3'd0, MARGIN[23:0]} : bounded;
  wire [27:0] timeout = {4'd0, srtt} + {1'b0, added};

  assign m_state = state_q;
  assign m_shortest = shortest_q;
  assign m_longest = longest_q;
  assign m_timeout = timeout_q;

  always @(posedge clk) begin
    state_q <= state_d;
    timeout_q <= !known ? INITIAL[23:0] : timeout[27:24] != 4'd0 ? 24'hFFFFFF : timeout[23:0];
    if (s_time_valid) begin
      shortest_q <= !known || shorter ? s_time : period_over ? shortest : shortest_q;
      longest_q  <= !known || longer ? s_time : period_over ? longest : longest_q;
    end
    if (s_clear) begin
      shortest_q <= 24'd0;
      longest_q  <= 24'd0;
    end
    if (s_load) begin
      shortest_q <= loaded_shortest_0 < loaded_shortest ? loaded_shortest_0 : loaded_shortest;
      longest_q  <= loaded_longest_0 > loaded_longest ? loaded_longest_0 : loaded_longest;
    end
  end

endmodule

`default_nettype wire
