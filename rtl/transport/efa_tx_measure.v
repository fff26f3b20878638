// SPDX-License-Identifier: Apache-2.0
// efa_tx_measure - connects what is measured of the peer in work: times, congestion window, extent,
// paths; decides from it whether a packet is lost.
//
// In    s_load, s_state: another peer; s_clear: a new session; s_record: the transmission of a packet,
//       with s_departed and s_left_ticks as in efa_tx_loss, and what happens to it: s_resolve, with
//       s_again: it was sent again, and s_lost: it was lost; s_lose; s_disable: its path brings
//       nothing. s_path, of the packet or of s_settle: a transmission is no longer in flight, or
//       s_answer: an acknowledgement came through it; s_collapse: a timeout after a timeout;
//       s_probe: the next probe leaves; s_find: the best path is needed next time; s_lossy,
//       s_resolved, s_resolved_ticks: as in efa_tx_loss; s_ticks: the time; s_seen_ticks: the time of
//       what is known of the peer, s_ack_ticks, of an acknowledgement; s_cfg_paths: paths that exist
// Out   m_state; m_timeout, m_longest; m_unusable, m_probe_due, m_probe_path: as in efa_tx_paths;
//       m_lost, m_aged, m_silent, m_young, m_age_ticks: of the packet of s_record; m_pace_busy: no
//       s_resolve; m_busy: a part of the state is not final
// Time  one cycle; m_lost and its neighbours combinational
`default_nettype none
`include "efa_defs.vh"

module efa_tx_measure #(
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W,
    parameter RTO_INITIAL = `EFA_TRANSPORT__RTO_INITIAL,
    parameter PATH_PROBE = `EFA_TRANSPORT__PATH_PROBE,
    parameter CWND_INITIAL = `EFA_TRANSPORT__CWND_INITIAL,
    parameter ORDER_LEFT = 0  // as in efa_tx_space
) (
    input wire clk,
    input wire rst,
    input wire [7:0] s_cfg_paths,
    input wire [23:0] s_ticks,
    input wire [23:0] s_seen_ticks,
    input wire [23:0] s_ack_ticks,
    input wire s_load,
    input wire [`EFA_TX_MEASURE__W-1:0] s_state,
    input wire s_clear,
    input wire [`EFA_TX_RECORD__W-1:0] s_record,
    input wire s_departed,
    input wire [23:0] s_left_ticks,
    input wire s_resolve,
    input wire s_again,
    input wire s_lost,
    input wire s_lose,
    input wire s_disable,
    input wire s_settle,
    input wire s_answer,
    input wire [2:0] s_path,
    input wire s_collapse,
    input wire s_probe,
    input wire s_find,
    input wire s_lossy,
    input wire s_resolved,
    input wire [23:0] s_resolved_ticks,
    output wire [`EFA_TX_MEASURE__W-1:0] m_state,
    output wire [23:0] m_timeout,
    output wire [23:0] m_longest,
    output wire m_unusable,
    output wire m_probe_due,
    output wire [2:0] m_probe_path,
    output wire m_lost,
    output wire m_aged,
    output wire m_silent,
    output wire m_young,
    output wire [23:0] m_age_ticks,
    output wire m_pace_busy,
    output wire m_busy
);

  wire [`EFA_TX_TIMES__W-1:0] times_state;
  wire [`EFA_TX_PACE__W-1:0] pace_state;
  wire [`EFA_TX_EXTENT__W-1:0] extent_state;
  wire [`EFA_TX_PATHS__W-1:0] paths_state;
  wire paths_busy;
  wire [23:0] shortest;
  // Of the path of s_record, before s_resolve.
  wire [2:0] record_path = s_record[`EFA_TX_RECORD__PATH];
  wire [127:0] each_newest = paths_state[`EFA_TX_PATHS__NEWEST];
  wire [15:0] newest = each_newest[16*record_path+:16];
  wire [15:0] extent;
  wire learned;

  wire [15:0] order = s_record[`EFA_TX_RECORD__ORDER];
  // An acknowledgement may have waited while the packet was sent again: then it has no age.
  wire [23:0] since = s_ack_ticks - s_left_ticks;
  wire [23:0] age = since[23] ? 24'd0 : since;
  // At least 1. Equal ticks are compared, not their difference: that is a shorter path.
  wire [23:0] trip = age | {23'd0, s_ack_ticks == s_left_ticks || since[23]};
  // One that has not left cannot be acknowledged, except by a peer that lies.
  wire once = s_resolve && !s_again && s_departed;
  wire known = times_state[`EFA_TX_TIMES__KNOWN];
  wire [26:0] srtt8 = known ? times_state[`EFA_TX_TIMES__SRTT8] : {trip, 3'd0};

  // The age from which on a packet may be lost, below half of the range of ticks.
  wire [23:0] limit = m_longest + {2'd0, m_longest[23:2]};
  reg [23:0] limit_q;

  assign m_state[`EFA_TX_MEASURE__TIMES] = times_state;
  assign m_state[`EFA_TX_MEASURE__PACE] = pace_state;
  assign m_state[`EFA_TX_MEASURE__EXTENT] = extent_state;
  assign m_state[`EFA_TX_MEASURE__PATHS] = paths_state;
  assign m_busy = m_pace_busy || paths_busy;

  efa_tx_times #(
      .RTO_INITIAL(RTO_INITIAL)
  ) u_times (
      .clk(clk),
      .s_load(s_load),
      .s_state(s_state[`EFA_TX_MEASURE__TIMES]),
      .s_clear(s_clear),
      .s_time_valid(once),
      .s_time(trip),
      .s_ticks(s_ticks),
      .m_state(times_state),
      .m_shortest(shortest),
      .m_longest(m_longest),
      .m_timeout(m_timeout)
  );

  efa_tx_pace #(
      .WINDOW_W(WINDOW_W),
      .CWND_INITIAL(CWND_INITIAL)
  ) u_pace (
      .clk(clk),
      .rst(rst),
      .s_load(s_load),
      .s_state(s_state[`EFA_TX_MEASURE__PACE]),
      .s_clear(s_clear),
      .s_time_valid(once),
      .s_time(trip),
      .s_first(!known),
      .s_shortest(shortest),
      .s_collapse(s_collapse),
      .m_state(pace_state),
      .m_busy(m_pace_busy)
  );

  efa_tx_extent #(
      .WINDOW_W(WINDOW_W)
  ) u_extent (
      .clk(clk),
      .s_load(s_load),
      .s_state(s_state[`EFA_TX_MEASURE__EXTENT]),
      .s_clear(s_clear),
      .s_acked(s_resolve),
      .s_distance_valid(once),
      .s_distance(newest - order),
      .s_late(s_resolve && s_again && !s_lost && (age < shortest || !s_departed)),
      .m_state(extent_state),
      .m_learned(learned),
      .m_extent(extent)
  );

  efa_tx_paths #(
      .PATH_PROBE(PATH_PROBE),
      .ORDER_LEFT(ORDER_LEFT)
  ) u_paths (
      .clk(clk),
      .rst(rst),
      .s_cfg_paths(s_cfg_paths),
      .s_load(s_load),
      .s_state(s_state[`EFA_TX_MEASURE__PATHS]),
      .s_clear(s_clear),
      .s_path(s_path),
      .s_settle(s_settle),
      .s_lose(s_lose),
      .s_acked(s_resolve),
      .s_once(once),
      .s_order(order),
      .s_time(trip),
      .s_disable(s_disable),
      .s_answer(s_answer),
      .s_probe(s_probe),
      .s_find(s_find),
      .s_shortest(shortest),
      .s_srtt8(srtt8),
      .s_ticks(s_ticks),
      .s_answer_ticks(s_ack_ticks),
      .m_state(paths_state),
      .m_unusable(m_unusable),
      .m_probe_due(m_probe_due),
      .m_probe_path(m_probe_path),
      .m_busy(paths_busy)
  );

  efa_tx_loss u_loss (
      .s_record(s_record),
      .s_departed(s_departed),
      .s_left_ticks(s_left_ticks),
      .s_seen_ticks(s_seen_ticks),
      .s_newest(newest),
      .s_extent(extent),
      .s_learned(learned),
      .s_lossy(s_lossy),
      .s_limit(limit_q),
      .s_resolved(s_resolved),
      .s_resolved_ticks(s_resolved_ticks),
      .m_lost(m_lost),
      .m_aged(m_aged),
      .m_silent(m_silent),
      .m_young(m_young),
      .m_age_ticks(m_age_ticks)
  );

  always @(posedge clk) begin
    limit_q <= limit[23] ? 24'h7FFFFF : limit;
  end

endmodule

`default_nettype wire
