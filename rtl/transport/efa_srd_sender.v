// SPDX-License-Identifier: Apache-2.0
// efa_srd_sender - connects the sender of the reliable transport: numbers, transmissions,
// acknowledgements, timers.
//
// In    s_post: packets to send; s_ack: acknowledgements as flits, with a valid header; s_gone:
//       transmissions that were not made; s_ended: contexts whose messages have ended; s_purge: some
//       have ended unsent; s_left: the first flit of a transmission leaves the device; s_cfg_paths:
//       paths that exist, constant from rst on; s_cfg_tick: as in efa_srd_tick
// Out   m_send: transmissions, with m_send_now: that of the packet posted in the cycle before;
//       m_popped_*: a context has left the posted ones; m_note: outcomes of packets, ends of sessions;
//       m_incarnation: number of this device since the last reset; ev_anomaly_ack: an acknowledgement that
//       no correct peer sends; m_tick: the last cycle of a tick
// Time  transmission 1 cycle after its post, one per cycle; note 12 cycles after its
//       acknowledgement; after rst an initialisation of one cycle per peer
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_srd_sender #(
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W,
    parameter CTX_W = `EFA_LIMITS__MSG_W + 1,
    parameter RTO_INITIAL = `EFA_TRANSPORT__RTO_INITIAL,
    parameter RTO_RETRIES = `EFA_TRANSPORT__RTO_RETRIES,
    parameter PATH_PROBE = `EFA_TRANSPORT__PATH_PROBE,
    parameter CWND_INITIAL = `EFA_TRANSPORT__CWND_INITIAL,
    parameter PSN_LEFT = 0,  // numbers until their wrap at the beginning; 0: all
    parameter ORDER_LEFT = 0,
    parameter TICKS_LEFT = 0,
    parameter NUMBERS_LEFT = 0
) (
    input wire clk,
    input wire rst_por,
    input wire rst,
    output wire m_init_done,
    input wire [7:0] s_cfg_paths,
    input wire [7:0] s_cfg_tick,
    output wire m_tick,
    output wire [15:0] m_incarnation,
    input wire s_post_valid,
    output wire s_post_ready,
    input wire [`EFA_SRD_POST__W-1:0] s_post_data,
    input wire [(1<<CTX_W)-1:0] s_ended,
    input wire s_purge,
    output wire m_popped_valid,
    output wire [CTX_W:0] m_popped_index,
    output wire m_send_valid,
    input wire m_send_ready,
    output wire [`EFA_SRD_SEND__W-1:0] m_send_data,
    output wire m_send_now,
    input wire s_left_valid,
    input wire [`EFA_SRD_SEND__W-1:0] s_left_send,
    input wire s_ack_valid,
    output wire s_ack_ready,
    input wire [`EFA_SRD_ACK__BITS-1:0] s_ack_data,
    input wire s_gone_valid,
    output wire s_gone_ready,
    input wire [`EFA_SRD_GONE__W-1:0] s_gone_data,
    output wire m_note_valid,
    input wire m_note_ready,
    output wire [`EFA_SRD_NOTE__W-1:0] m_note_data,
    output wire ev_anomaly_ack_valid,
    output wire [63:0] ev_anomaly_ack_data
);

  wire space_init;
  wire resolve_init;
  wire [15:0] number;
  wire [15:0] last_number;
  wire number_take;
  wire [23:0] ticks;
  wire wake_valid;
  wire [NODE_W-1:0] wake_node;
  wire wake_request;
  wire [NODE_W-1:0] limits_addr;
  wire [`EFA_TX_LIMITS__W-1:0] limits_data;
  wire flush_valid;
  wire flush_ready;
  wire [`EFA_SRD_NOTE__W-1:0] flush_data;
  wire served_valid;
  wire [NODE_W-1:0] served_node;
  wire departed_init;
  wire [`EFA_TX_DEPARTED__W-1:0] departed_data;
  wire [23:0] record_ticks;
  wire [15:0] left_node = s_left_send[`EFA_SRD_SEND__NODE];
  wire [NODE_W-1:0] space_addr;
  wire [`EFA_TX_SPACE__W-1:0] space_data;
  wire [NODE_W+WINDOW_W-1:0] record_addr;
  wire [`EFA_TX_RECORD__W-1:0] record_data;
  wire ack_valid;
  wire ack_ready;
  wire [`EFA_TX_ACK__W-1:0] ack_data;
  wire [(1<<NODE_W)-1:0] ack_waits;
  wire look_valid;
  wire look_ready;
  wire [NODE_W-1:0] look_node;
  wire begin_valid;
  wire [NODE_W-1:0] begin_node;
  wire set_valid;
  wire [NODE_W-1:0] set_node;
  wire set_armed;
  wire [23:0] set_ticks;

  assign m_init_done = space_init && resolve_init && departed_init;

  efa_srd_number #(
      .NUMBERS_LEFT(NUMBERS_LEFT)
  ) u_number (
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .s_take(number_take),
      .m_number(number),
      .m_last(last_number),
      .m_incarnation(m_incarnation)
  );

  // The time continues through resets.
  efa_srd_tick u_tick (
      .clk(clk),
      .rst(rst_por),
      .s_cfg_tick(s_cfg_tick),
      .m_tick(m_tick)
  );

  efa_tx_timer #(
      .NODE_W(NODE_W),
      .TICKS_LEFT(TICKS_LEFT)
  ) u_timer (
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .s_tick(m_tick),
      .s_set_valid(set_valid),
      .s_set_node(set_node),
      .s_set_armed(set_armed),
      .s_set_ticks(set_ticks),
      .s_begin_valid(begin_valid),
      .s_begin_node(begin_node),
      .s_left_valid(s_left_valid),
      .s_left_node(left_node[NODE_W-1:0]),
      .s_served_valid(served_valid),
      .s_served_node(served_node),
      .s_waits(ack_waits),
      .m_ticks(ticks),
      .m_look_valid(look_valid),
      .m_look_ready(look_ready),
      .m_look_node(look_node)
  );

  efa_tx_space #(
      .NODE_W(NODE_W),
      .WINDOW_W(WINDOW_W),
      .CTX_W(CTX_W),
      .PSN_LEFT(PSN_LEFT),
      .ORDER_LEFT(ORDER_LEFT)
  ) u_space (
      .clk(clk),
      .rst(rst),
      .m_init_done(space_init),
      .s_post_valid(s_post_valid),
      .s_post_ready(s_post_ready),
      .s_post_data(s_post_data),
      .s_ended(s_ended),
      .s_purge(s_purge),
      .m_popped_valid(m_popped_valid),
      .m_popped_index(m_popped_index),
      .s_number(number),
      .m_number_take(number_take),
      .s_wake_valid(wake_valid),
      .s_wake_node(wake_node),
      .s_wake_request(wake_request),
      .limits_rd_addr(limits_addr),
      .limits_rd_data(limits_data),
      .m_send_valid(m_send_valid),
      .m_send_ready(m_send_ready),
      .m_send_data(m_send_data),
      .m_send_now(m_send_now),
      .m_flush_valid(flush_valid),
      .m_flush_ready(flush_ready),
      .m_flush_data(flush_data),
      .m_served_valid(served_valid),
      .m_served_node(served_node),
      .space_rd_addr(space_addr),
      .space_rd_data(space_data),
      .record_rd_addr(record_addr),
      .record_rd_data(record_data)
  );

  efa_tx_departed #(
      .NODE_W(NODE_W),
      .WINDOW_W(WINDOW_W),
      .ORDER_LEFT(ORDER_LEFT)
  ) u_departed (
      .clk(clk),
      .rst(rst),
      .m_init_done(departed_init),
      .s_ticks(ticks),
      .s_left_valid(s_left_valid),
      .s_left_send(s_left_send),
      .departed_rd_addr(space_addr),
      .departed_rd_data(departed_data),
      .ticks_rd_addr(record_addr),
      .ticks_rd_data(record_ticks)
  );

  efa_ack_join #(
      .NODE_W(NODE_W)
  ) u_ack_join (
      .clk(clk),
      .rst(rst),
      .s_ticks(ticks),
      .s_ack_valid(s_ack_valid),
      .s_ack_ready(s_ack_ready),
      .s_ack_data(s_ack_data),
      .m_ack_valid(ack_valid),
      .m_ack_ready(ack_ready),
      .m_ack_data(ack_data),
      .m_waits(ack_waits)
  );

  efa_tx_resolve #(
      .NODE_W(NODE_W),
      .WINDOW_W(WINDOW_W),
      .RTO_INITIAL(RTO_INITIAL),
      .RTO_RETRIES(RTO_RETRIES),
      .PATH_PROBE(PATH_PROBE),
      .CWND_INITIAL(CWND_INITIAL),
      .PSN_LEFT(PSN_LEFT),
      .ORDER_LEFT(ORDER_LEFT)
  ) u_resolve (
      .clk(clk),
      .rst(rst),
      .m_init_done(resolve_init),
      .s_cfg_paths(s_cfg_paths),
      .s_ticks(ticks),
      .s_last_number(last_number),
      .s_ack_valid(ack_valid),
      .s_ack_ready(ack_ready),
      .s_ack_data(ack_data),
      .s_gone_valid(s_gone_valid),
      .s_gone_ready(s_gone_ready),
      .s_gone_data(s_gone_data),
      .s_look_valid(look_valid),
      .s_look_ready(look_ready),
      .s_look_node(look_node),
      .s_flush_valid(flush_valid),
      .s_flush_ready(flush_ready),
      .s_flush_data(flush_data),
      .space_rd_addr(space_addr),
      .space_rd_data(space_data),
      .record_rd_addr(record_addr),
      .record_rd_data(record_data),
      .departed_rd_data(departed_data),
      .ticks_rd_data(record_ticks),
      .limits_rd_addr(limits_addr),
      .limits_rd_data(limits_data),
      .m_wake_valid(wake_valid),
      .m_wake_node(wake_node),
      .m_wake_request(wake_request),
      .m_begin_valid(begin_valid),
      .m_begin_node(begin_node),
      .m_set_valid(set_valid),
      .m_set_node(set_node),
      .m_set_armed(set_armed),
      .m_set_ticks(set_ticks),
      .ev_anomaly_ack_valid(ev_anomaly_ack_valid),
      .ev_anomaly_ack_data(ev_anomaly_ack_data),
      .m_note_valid(m_note_valid),
      .m_note_ready(m_note_ready),
      .m_note_data(m_note_data)
  );

  wire unused_bits = &{1'b0, s_left_send, left_node};

  `EFA_STREAM(u_edge_send, `EFA_SRD_SEND__W, clk, rst, m_send_valid, m_send_ready, m_send_data)
  `EFA_STREAM(u_edge_note, `EFA_SRD_NOTE__W, clk, rst, m_note_valid, m_note_ready, m_note_data)

endmodule

`default_nettype wire
