// SPDX-License-Identifier: Apache-2.0
// efa_tx_deadlines - holds when to look at the peer in work: timer, ages of packets, searches.
//
// In    s_load, s_state: another peer; s_clear: a new session; s_ticks: the time; s_in_flight, s_lossy,
//       s_longest, s_timeout: of the peer. Events: s_resolved: a packet is resolved; s_expire: a
//       timeout; s_defer: the timer is over, but no packet in flight is as old, the oldest one left in
//       s_defer_ticks; s_end_look: the timer starts or stops; s_search: decide on a search, with
//       s_restart: the timer restarts; s_show: a walk lasts, so ages are checked after a pause, with
//       s_show_restart: the timer restarts, with s_all_later: all packets in flight were sent in
//       s_later_ticks at the earliest; s_age_look: the ages are being checked; s_walk: a walk begins;
//       s_waits: it has met a packet that has not left; s_young, s_young_ticks: it has met one whose
//       age is to be checked at that time; s_probe_wanted, s_probe_due, s_probe_ticks: of the next probe
// Out   m_state; m_timer_over, m_age_over: the time has come; m_none_due: a walk may last;
//       m_backs_off, m_last: the next timeout is one after another, is the last one; m_searches:
//       search for losses now; m_armed, m_next: when to look next
// Time  one cycle, m_armed and m_next two more
`default_nettype none
`include "efa_defs.vh"

module efa_tx_deadlines #(
    parameter RTO_RETRIES = `EFA_TRANSPORT__RTO_RETRIES
) (
    input wire clk,
    input wire s_load,
    input wire [`EFA_TX_DEADLINES__W-1:0] s_state,
    input wire s_clear,
    input wire [23:0] s_ticks,
    input wire [15:0] s_in_flight,
    input wire s_lossy,
    input wire [23:0] s_longest,
    input wire [23:0] s_timeout,
    input wire s_resolved,
    input wire s_expire,
    input wire s_defer,
    input wire [23:0] s_defer_ticks,
    input wire s_end_look,
    input wire s_search,
    input wire s_restart,
    input wire s_show,
    input wire s_show_restart,
    input wire s_all_later,
    input wire [23:0] s_later_ticks,
    input wire s_age_look,
    input wire s_walk,
    input wire s_waits,
    input wire s_young,
    input wire [23:0] s_young_ticks,
    input wire s_probe_wanted,
    input wire s_probe_due,
    input wire [23:0] s_probe_ticks,
    output wire [`EFA_TX_DEADLINES__W-1:0] m_state,
    output wire m_timer_over,
    output wire m_age_over,
    output wire m_none_due,
    output wire m_backs_off,
    output wire m_last,
    output wire m_searches,
    output wire m_armed,
    output wire [23:0] m_next
);

  localparam [31:0] RETRIES = RTO_RETRIES;
  localparam [31:0] BACKOFF_MAX = `EFA_TRANSPORT__RTO_BACKOFF_MAX;
  localparam [23:0] NEVER = 24'h7FFFFF;

  reg [`EFA_TX_DEADLINES__W-1:0] state_q;
  reg [`EFA_TX_DEADLINES__W-1:0] state_d;
  reg first_q;  // the walk has met no packet whose age is to be checked

  wire [3:0] backoff = state_q[`EFA_TX_DEADLINES__BACKOFF];
  wire [7:0] timeouts = state_q[`EFA_TX_DEADLINES__TIMEOUTS];
  wire timer = state_q[`EFA_TX_DEADLINES__TIMER];
  wire aging = state_q[`EFA_TX_DEADLINES__AGE];
  wire [23:0] age_ticks = state_q[`EFA_TX_DEADLINES__AGE_TICKS];
  wire [23:0] search_ticks = state_q[`EFA_TX_DEADLINES__SEARCH_TICKS];
  wire none_in_flight = s_in_flight == 16'd0;

  wire [23:0] timer_ticks = state_q[`EFA_TX_DEADLINES__TIMER_TICKS];
  wire [23:0] timer_left = timer_ticks - s_ticks;
  wire [23:0] timer_past = s_ticks - timer_ticks;
  wire [23:0] age_left = age_ticks - s_ticks;
  wire [23:0] age_past = s_ticks - age_ticks;
  wire [23:0] search_left = search_ticks - s_ticks;
  wire timer_come = !timer_past[23];
  wire age_come = !age_past[23];
  wire [3:0] backoff_more = backoff == BACKOFF_MAX[3:0] ? backoff : backoff + 4'd1;

  // Ticks between two searches of a lossy peer: an eighth of the longest round-trip time, and twice
  // the length of a search.
  wire [23:0] by_time = {3'd0, s_longest[23:3]};
  wire [23:0] by_length = {11'd0, s_in_flight[15:3]};
  wire [23:0] longer = by_time > by_length ? by_time : by_length;
  // s_ticks plus the pause, which is at least 1.
  wire [23:0] after_time = s_ticks + by_time;
  wire [23:0] after_length = s_ticks + by_length;
  wire [23:0] pause_end = longer == 24'd0 ? s_ticks + 24'd1 : by_time > by_length ? after_time : after_length;
  // A walk takes a cycle for each packet, so it finds packets resolved that look old.
  wire age_late = !age_past[23] && age_past > by_length;
  // Also over after a pause of half of the range of ticks.
  wire pause_over = search_left == 24'd0 || (search_left > by_time && search_left > by_length && search_left > 24'd1);
  wire age_far = age_left > by_time && age_left > by_length && age_left > 24'd1;
  wire searches = s_search && !none_in_flight && (s_lossy ? pause_over : !aging || age_come);

  wire [23:0] limit = s_longest + {2'd0, s_longest[23:2]} + 24'd1;
  wire [23:0] later_age_ticks = s_later_ticks + s_longest + {2'd0, s_longest[23:2]} + 24'd1;
  wire [23:0] later = age_ticks - s_later_ticks - s_longest - {2'd0, s_longest[23:2]} - 24'd1;
  wire [23:0] earlier = s_young_ticks - age_ticks;

  always @* begin
    state_d = state_q;
    if (s_resolved) begin
      state_d[`EFA_TX_DEADLINES__BACKOFF] = 4'd0;
      state_d[`EFA_TX_DEADLINES__TIMEOUTS] = 8'd0;
    end
    if (s_expire) begin
      state_d[`EFA_TX_DEADLINES__BACKOFF] = backoff_more;
      state_d[`EFA_TX_DEADLINES__TIMEOUTS] = timeouts + 8'd1;
      state_d[`EFA_TX_DEADLINES__TIMER_TICKS] = s_ticks + (s_timeout << backoff_more);
    end
    if (s_defer) state_d[`EFA_TX_DEADLINES__TIMER_TICKS] = s_defer_ticks + (s_timeout << backoff);
    if (s_restart || s_show_restart) begin
      state_d[`EFA_TX_DEADLINES__TIMER] = 1'b1;
      state_d[`EFA_TX_DEADLINES__TIMER_TICKS] = s_ticks + s_timeout;
    end
    if (s_show && !aging) begin
      state_d[`EFA_TX_DEADLINES__AGE] = 1'b1;
      state_d[`EFA_TX_DEADLINES__AGE_TICKS] = pause_end;
    end
    if (s_show_restart && s_all_later && aging && !s_lossy && later[23]) begin
      state_d[`EFA_TX_DEADLINES__AGE_TICKS] = later_age_ticks;
    end
    if (s_age_look || searches) begin
      state_d[`EFA_TX_DEADLINES__AGE] = 1'b0;
      state_d[`EFA_TX_DEADLINES__SEARCH_TICKS] = pause_end;
    end else if (s_search && s_lossy && (!aging || age_far)) begin
      state_d[`EFA_TX_DEADLINES__AGE] = 1'b1;
      state_d[`EFA_TX_DEADLINES__AGE_TICKS] = search_ticks;
    end
    if (s_waits && first_q) begin
      state_d[`EFA_TX_DEADLINES__AGE] = 1'b1;
      state_d[`EFA_TX_DEADLINES__AGE_TICKS] = s_ticks + limit;
    end
    if (s_young && (first_q || earlier[23])) begin
      state_d[`EFA_TX_DEADLINES__AGE] = 1'b1;
      state_d[`EFA_TX_DEADLINES__AGE_TICKS] = s_young_ticks;
    end
    if (s_end_look && none_in_flight) begin
      state_d[`EFA_TX_DEADLINES__TIMER] = 1'b0;
      state_d[`EFA_TX_DEADLINES__AGE] = 1'b0;
    end
    if (s_end_look && !none_in_flight && !timer) begin
      state_d[`EFA_TX_DEADLINES__TIMER] = 1'b1;
      state_d[`EFA_TX_DEADLINES__TIMER_TICKS] = s_ticks + (s_timeout << backoff);
    end
    if (s_clear) state_d = {`EFA_TX_DEADLINES__W{1'b0}};
    if (s_load) state_d = s_state;
  end

  // The first of timer, ages and probe.
  wire [23:0] probe_left = s_probe_ticks - s_ticks;
  wire [23:0] timer_wait = !timer ? NEVER : timer_come ? 24'd0 : timer_left;
  wire [23:0] age_wait = !aging ? NEVER : age_come ? 24'd0 : age_left;
  wire [23:0] probe_wait = !s_probe_wanted ? NEVER : s_probe_due ? 24'd0 : probe_left;

  // s0: the waits. s1: the least of them.
  reg s0_armed_q;
  reg [23:0] s0_ticks_q;
  reg [23:0] s0_timer_q;
  reg [23:0] s0_age_q;
  reg [23:0] s0_probe_q;
  reg s1_armed_q;
  reg [23:0] s1_ticks_q;
  reg [23:0] s1_wait_q;
  wire [23:0] first_wait = s0_timer_q < s0_age_q ? s0_timer_q : s0_age_q;

  assign m_state = state_q;
  assign m_timer_over = timer && timer_come && !none_in_flight;
  assign m_age_over = aging && age_come && !none_in_flight;
  assign m_none_due = !(timer && timer_come) && !(aging && age_late);
  assign m_backs_off = backoff != 4'd0;
  assign m_last = timeouts + 8'd1 >= RETRIES[7:0];
  assign m_searches = searches;
  assign m_armed = s1_armed_q;
  assign m_next = s1_ticks_q + s1_wait_q;

  always @(posedge clk) begin
    state_q <= state_d;
    s0_armed_q <= timer || aging || s_probe_wanted;
    s0_ticks_q <= s_ticks;
    s0_timer_q <= timer_wait;
    s0_age_q <= age_wait;
    s0_probe_q <= probe_wait;
    s1_armed_q <= s0_armed_q;
    s1_ticks_q <= s0_ticks_q;
    s1_wait_q <= first_wait < s0_probe_q ? first_wait : s0_probe_q;
    first_q <= s_walk || (first_q && !s_young && !s_waits);
  end

  wire unused_bits = &{1'b0, timer_past, earlier, later, s_longest};

endmodule

`default_nettype wire
