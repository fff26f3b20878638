// SPDX-License-Identifier: Apache-2.0
// efa_tx_paths - holds what the sender knows of the paths to the peer in work.
//
// In    s_load, s_state: another peer; s_clear: a new session; s_path and what happens to it:
//       s_settle: a transmission is no longer in flight; s_lose: a packet is lost; s_acked: a packet
//       is acknowledged, with s_once: it was sent once, with s_order and s_time; s_disable: the path
//       brings nothing; s_answer: an acknowledgement came through it; s_probe: the next probe
//       leaves; s_find: the best path is needed next time; s_shortest, s_srtt8: of the peer; s_ticks: the
//       time; s_answer_ticks: when the acknowledgement came; s_cfg_paths: paths that exist
// Out   m_state; m_unusable: a path is not usable; m_probe_due, m_probe_path: the next probe; m_busy: m_state
//       is not final, no s_load
// Time  order and s_settle one cycle, else two; m_busy one cycle, 3 cycles after s_find if the best path
//       has become slower or unusable
//
// p0 changes the order and reads the time of the path, p1 does the rest.
`default_nettype none
`include "efa_defs.vh"

module efa_tx_paths #(
    parameter PATH_PROBE = `EFA_TRANSPORT__PATH_PROBE,
    parameter ORDER_LEFT = 0  // as in efa_tx_space
) (
    input wire clk,
    input wire rst,
    input wire [7:0] s_cfg_paths,
    input wire s_load,
    input wire [`EFA_TX_PATHS__W-1:0] s_state,
    input wire s_clear,
    input wire [2:0] s_path,
    input wire s_settle,
    input wire s_lose,
    input wire s_acked,
    input wire s_once,
    input wire [15:0] s_order,
    input wire [23:0] s_time,
    input wire s_disable,
    input wire s_answer,
    input wire s_probe,
    input wire s_find,
    input wire [23:0] s_shortest,
    input wire [26:0] s_srtt8,
    input wire [23:0] s_ticks,
    input wire [23:0] s_answer_ticks,
    output wire [`EFA_TX_PATHS__W-1:0] m_state,
    output wire m_unusable,
    output wire m_probe_due,
    output wire [2:0] m_probe_path,
    output wire m_busy
);

  localparam [31:0] TARGET8 = 8 * `EFA_TRANSPORT__QUEUE_TARGET;
  localparam [31:0] PROBE = PATH_PROBE;
  localparam [31:0] LOSSES = `EFA_TRANSPORT__PATH_LOSSES;
  localparam [31:0] ORDERS = ORDER_LEFT;
  localparam [15:0] FIRST_ORDER = 16'd0 - ORDERS[15:0];
  localparam [15:0] BEFORE_FIRST = FIRST_ORDER - 16'd1;
  localparam [7:0] A_PATH = 8'd1;

  reg [7:0] usable_q;
  reg [127:0] settled_q;
  reg [127:0] newest_q;
  reg [215:0] times8_q;
  reg [31:0] losses_q;
  reg [7:0] probing_q;
  reg [191:0] probe_ticks_q;
  reg [23:0] next_probe_q;
  reg [2:0] first_probe_q;
  reg [2:0] best_q;
  reg [26:0] best_time8_q;
  reg stale_q;  // the best path may be another one
  reg [7:0] measured_q;  // its time is not 0
  reg finds_q;
  reg [1:0] round_q;
  reg [107:0] first_times8_q;  // the best ones of the search, 0: none
  reg [11:0] first_places_q;

  // p0: order and count of the path, and its time. The time may change in this cycle.
  wire [15:0] newest = newest_q[16*s_path+:16];
  wire [15:0] order_step = s_order - newest;
  wire is_newer = s_acked && s_once && order_step != 16'd0 && !order_step[15];
  wire [26:0] time8_d;
  wire timed;
  wire [26:0] old8 = measured_q[s_path] ? times8_q[27*s_path+:27] : s_srtt8;

  reg p1_valid_q;
  reg [2:0] p1_path_q;
  reg [26:0] p1_from8_q;
  reg [23:0] p1_time_q;
  reg [23:0] p1_answer_ticks_q;
  reg p1_lose_q;
  reg p1_acked_q;
  reg p1_once_q;
  reg p1_disable_q;
  reg p1_answer_q;
  reg p1_find_q;

  // p1: what happened to the path.
  wire usable = usable_q[p1_path_q];
  wire [3:0] losses = losses_q[4*p1_path_q+:4];
  wire [3:0] losses_more = losses + 4'd1;
  wire [7:0] here = A_PATH << p1_path_q;
  wire lose_last = p1_lose_q && losses_more >= LOSSES[3:0];

  assign timed = p1_acked_q && p1_once_q;
  assign time8_d = p1_from8_q + {3'd0, p1_time_q} - {3'd0, p1_from8_q[26:3]};
  wire is_best = best_time8_q == 27'd0 || p1_path_q == best_q || time8_d < best_time8_q;
  wire becomes_best = timed && usable && is_best;
  // Longest time of a path that is not slow beside the best one.
  wire [26:0] slack8 = best_time8_q < TARGET8[26:0] ? TARGET8[26:0] : best_time8_q;
  wire [27:0] late8 = {1'b0, best_time8_q} + {1'b0, slack8};
  wire is_slow = timed && usable && !is_best && {1'b0, time8_d} > late8;

  wire [23:0] answer_time = p1_answer_ticks_q - probe_ticks_q[24*p1_path_q+:24];
  // It answers no probe that has left since.
  wire answered = p1_answer_q && probing_q[p1_path_q] && !answer_time[23] && answer_time >= s_shortest;
  wire [27:0] answer_time8 = {1'b0, answer_time, 3'd0};
  wire heals = answered && !usable && answer_time8 <= late8;

  wire disable_path = (p1_disable_q || lose_last || is_slow) && usable;
  wire [7:0] left = usable_q & ~here;
  // The best path may be another one.
  wire changes = disable_path || heals || (becomes_best && time8_d > best_time8_q);
  wire begin_search = p1_find_q && (stale_q || changes);
  wire all_usable = usable_q == s_cfg_paths;

  wire [215:0] loaded8 = s_state[`EFA_TX_PATHS__TIMES8];
  wire [7:0] loaded_measured;
  genvar place;
  generate
    for (place = 0; place < 8; place = place + 1) begin : g_loaded
      assign loaded_measured[place] = loaded8[27*place+:27] != 27'd0;
    end
  endgenerate

  // The next probe.
  wire [7:0] unusable = s_cfg_paths & ~usable_q;
  wire [15:0] turned = {unusable, unusable} >> first_probe_q;
  wire [7:0] first = turned[7:0] & (~turned[7:0] + A_PATH);
  wire [2:0] first_place;
  wire [2:0] probe_path = first_probe_q + first_place;
  wire [23:0] probe_left = next_probe_q - s_ticks;

  // The search: rounds of 8, 4 and 2 paths, each of two neighbours. Equal times: the first one.
  reg [215:0] rivals8;
  reg [23:0] rivals;
  reg [107:0] winners8;
  reg [11:0] winners;
  integer one;
  always @* begin
    for (one = 0; one < 8; one = one + 1) begin
      rivals8[27*one+:27] = usable_q[one] ? times8_q[27*one+:27] : 27'd0;
      rivals[3*one+:3] = one[2:0];
    end
    if (round_q != 2'd0) begin
      rivals8 = {108'd0, first_times8_q};
      rivals = {12'd0, first_places_q};
    end
    for (one = 0; one < 4; one = one + 1) begin
      if (rivals8[54*one+:27] == 27'd0
          || (rivals8[54*one+27+:27] != 27'd0 && rivals8[54*one+27+:27] < rivals8[54*one+:27])) begin
        winners8[27*one+:27] = rivals8[54*one+27+:27];
        winners[3*one+:3] = rivals[6*one+3+:3];
      end else begin
        winners8[27*one+:27] = rivals8[54*one+:27];
        winners[3*one+:3] = rivals[6*one+:3];
      end
    end
  end

  wire found = finds_q && round_q == 2'd2;
  wire [2:0] found_best = winners8[26:0] != 27'd0 ? winners[2:0] : best_q;

  assign m_state[`EFA_TX_PATHS__USABLE] = usable_q;
  assign m_state[`EFA_TX_PATHS__SETTLED] = settled_q;
  assign m_state[`EFA_TX_PATHS__NEWEST] = newest_q;
  assign m_state[`EFA_TX_PATHS__TIMES8] = times8_q;
  assign m_state[`EFA_TX_PATHS__LOSSES] = losses_q;
  assign m_state[`EFA_TX_PATHS__PROBING] = probing_q;
  assign m_state[`EFA_TX_PATHS__PROBE_TICKS] = probe_ticks_q;
  assign m_state[`EFA_TX_PATHS__NEXT_PROBE] = next_probe_q;
  assign m_state[`EFA_TX_PATHS__FIRST_PROBE] = first_probe_q;
  // In the last round with its result.
  assign m_state[`EFA_TX_PATHS__BEST] = found ? found_best : best_q;
  assign m_state[`EFA_TX_PATHS__BEST_TIME8] = found ? winners8[26:0] : best_time8_q;
  assign m_unusable = unusable != 8'd0;
  // Also due after a pause of half of the range of ticks.
  assign m_probe_due = m_unusable && (probe_left == 24'd0 || probe_left > PROBE[23:0]);
  assign m_probe_path = probe_path;
  assign m_busy = p1_valid_q || (finds_q && !found);

  efa_onehot_index #(
      .INDEX_W(3)
  ) u_first (
      .s_bits(first),
      .m_index(first_place)
  );

  always @(posedge clk) begin
    if (rst) begin
      p1_valid_q <= 1'b0;
      finds_q <= 1'b0;
    end else begin
      p1_valid_q <= s_lose || s_acked || s_disable || s_answer || s_find;
      finds_q <= begin_search || (finds_q && !found);
    end
  end

  always @(posedge clk) begin
    if (begin_search) stale_q <= 1'b0;
    else if (changes) stale_q <= 1'b1;
    round_q <= begin_search ? 2'd0 : round_q + 2'd1;
    first_times8_q <= winners8;
    first_places_q <= winners;
    p1_path_q <= s_path;
    p1_from8_q <= timed && p1_path_q == s_path ? time8_d : old8;
    p1_time_q <= s_time;
    p1_answer_ticks_q <= s_answer_ticks;
    p1_lose_q <= s_lose;
    p1_acked_q <= s_acked;
    p1_once_q <= s_once;
    p1_disable_q <= s_disable;
    p1_answer_q <= s_answer;
    p1_find_q <= s_find;
    if (s_settle) settled_q[16*s_path+:16] <= settled_q[16*s_path+:16] + 16'd1;
    if (is_newer) newest_q[16*s_path+:16] <= s_order;
    if (timed) begin
      times8_q[27*p1_path_q+:27] <= time8_d;
      measured_q[p1_path_q] <= 1'b1;
    end
    if (p1_lose_q) losses_q[4*p1_path_q+:4] <= losses_more;
    if (p1_acked_q) losses_q[4*p1_path_q+:4] <= 4'd0;
    if (answered) probing_q[p1_path_q] <= 1'b0;
    if (heals) begin
      usable_q[p1_path_q] <= 1'b1;
      times8_q[27*p1_path_q+:27] <= answer_time8[26:0];
      measured_q[p1_path_q] <= answer_time != 24'd0;
      losses_q[4*p1_path_q+:4] <= 4'd0;
    end
    if (p1_disable_q || lose_last || is_slow) losses_q[4*p1_path_q+:4] <= 4'd0;
    if (disable_path) begin
      usable_q <= left == 8'd0 ? s_cfg_paths : left;
      probing_q[p1_path_q] <= 1'b0;
      if (all_usable) next_probe_q <= s_ticks + PROBE[23:0];
    end
    if (s_probe) begin
      probing_q[probe_path] <= 1'b1;
      probe_ticks_q[24*probe_path+:24] <= s_ticks;
      next_probe_q <= s_ticks + PROBE[23:0];
      first_probe_q <= probe_path + 3'd1;
    end
    if (becomes_best) begin
      best_q <= p1_path_q;
      best_time8_q <= time8_d;
    end
    if (found) begin
      best_time8_q <= winners8[26:0];
      best_q <= found_best;
    end
    if (s_clear) begin
      stale_q <= 1'b0;
      usable_q <= s_cfg_paths;
      settled_q <= {8{FIRST_ORDER}};
      newest_q <= {8{BEFORE_FIRST}};
      times8_q <= 216'd0;
      measured_q <= 8'd0;
      losses_q <= 32'd0;
      probing_q <= 8'd0;
      first_probe_q <= 3'd0;
      best_q <= 3'd0;
      best_time8_q <= 27'd0;
    end
    if (s_load) begin
      stale_q <= 1'b0;
      usable_q <= s_state[`EFA_TX_PATHS__USABLE];
      settled_q <= s_state[`EFA_TX_PATHS__SETTLED];
      newest_q <= s_state[`EFA_TX_PATHS__NEWEST];
      times8_q <= loaded8;
      measured_q <= loaded_measured;
      losses_q <= s_state[`EFA_TX_PATHS__LOSSES];
      probing_q <= s_state[`EFA_TX_PATHS__PROBING];
      probe_ticks_q <= s_state[`EFA_TX_PATHS__PROBE_TICKS];
      next_probe_q <= s_state[`EFA_TX_PATHS__NEXT_PROBE];
      first_probe_q <= s_state[`EFA_TX_PATHS__FIRST_PROBE];
      best_q <= s_state[`EFA_TX_PATHS__BEST];
      best_time8_q <= s_state[`EFA_TX_PATHS__BEST_TIME8];
    end
  end

  wire unused_bits = &{1'b0, turned[15:8]};

endmodule

`default_nettype wire
