// SPDX-License-Identifier: Apache-2.0
// efa_srd_receiver - connects the receiver of the reliable transport: window, outcomes,
// acknowledgements.
//
// In    s_pkt: stored packets with a valid header; s_outcome: outcomes of executed packets;
//       s_cfg_node_id, s_cfg_incarnation: of this device; s_quiet: the quiet time after a reset
// Out   m_pkt: packets to execute, each once, and all datagrams; m_free_*: slot of a packet that does
//       not pass; m_ack: acknowledgements as flits
// Time  packet 2 cycles, acknowledgement 6 cycles after its outcome, both one per cycle; after rst an
//       initialisation of one cycle per peer
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_srd_receiver #(
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire [15:0] s_cfg_node_id,
    input wire [15:0] s_cfg_incarnation,
    input wire s_quiet,
    input wire s_pkt_valid,
    output wire s_pkt_ready,
    input wire [`EFA_RX_PKT__W-1:0] s_pkt_data,
    output wire m_pkt_valid,
    input wire m_pkt_ready,
    output wire [`EFA_RX_PKT__W-1:0] m_pkt_data,
    output wire m_free_valid,
    output wire [7:0] m_free_slot,
    input wire s_outcome_valid,
    output wire s_outcome_ready,
    input wire [`EFA_SRD_OUTCOME__W-1:0] s_outcome_data,
    output wire m_ack_valid,
    input wire m_ack_ready,
    output wire [`EFA_SRD_ACK__BITS-1:0] m_ack_data
);

  wire window_init;
  wire outcome_init;
  wire again_valid;
  wire again_ready;
  wire [`EFA_SRD_OUTCOME__W-1:0] again_data;
  wire [1:0] reply_valid;
  wire [1:0] reply_ready;
  wire [2*`EFA_SRD_REPLY__W-1:0] reply_data;
  wire [2*NODE_W-1:0] window_addr;
  wire [2*`EFA_RX_WINDOW__W-1:0] window_data;
  wire due_valid;
  wire [`EFA_SRD_DUE__W-1:0] due_data;
  wire [NODE_W-1:0] accepted_addr;
  wire [`EFA_RX_WINDOW__W+(1<<WINDOW_W)-1:0] accepted_data;

  assign m_init_done = window_init && outcome_init;

  efa_rx_window #(
      .NODE_W(NODE_W),
      .WINDOW_W(WINDOW_W),
      .READS(2)
  ) u_window (
      .clk(clk),
      .rst(rst),
      .m_init_done(window_init),
      .s_cfg_incarnation(s_cfg_incarnation),
      .s_quiet(s_quiet),
      .s_pkt_valid(s_pkt_valid),
      .s_pkt_ready(s_pkt_ready),
      .s_pkt_data(s_pkt_data),
      .m_pkt_valid(m_pkt_valid),
      .m_pkt_ready(m_pkt_ready),
      .m_pkt_data(m_pkt_data),
      .m_again_valid(again_valid),
      .m_again_ready(again_ready),
      .m_again_data(again_data),
      .m_reply_valid(reply_valid[1]),
      .m_reply_ready(reply_ready[1]),
      .m_reply_data(reply_data[2*`EFA_SRD_REPLY__W-1:`EFA_SRD_REPLY__W]),
      .m_free_valid(m_free_valid),
      .m_free_slot(m_free_slot),
      .window_rd_addr(window_addr),
      .window_rd_data(window_data)
  );

  efa_rx_outcome #(
      .NODE_W(NODE_W),
      .WINDOW_W(WINDOW_W)
  ) u_outcome (
      .clk(clk),
      .rst(rst),
      .m_init_done(outcome_init),
      .s_outcome_valid(s_outcome_valid),
      .s_outcome_ready(s_outcome_ready),
      .s_outcome_data(s_outcome_data),
      .s_again_valid(again_valid),
      .s_again_ready(again_ready),
      .s_again_data(again_data),
      .window_rd_addr(window_addr[NODE_W-1:0]),
      .window_rd_data(window_data[`EFA_RX_WINDOW__W-1:0]),
      .m_due_valid(due_valid),
      .m_due_data(due_data),
      .m_reply_valid(reply_valid[0]),
      .m_reply_ready(reply_ready[0]),
      .m_reply_data(reply_data[`EFA_SRD_REPLY__W-1:0]),
      .accepted_rd_addr(accepted_addr),
      .accepted_rd_data(accepted_data)
  );

  efa_ack_build #(
      .NODE_W(NODE_W),
      .WINDOW_W(WINDOW_W)
  ) u_ack_build (
      .clk(clk),
      .rst(rst),
      .s_cfg_node_id(s_cfg_node_id),
      .s_cfg_incarnation(s_cfg_incarnation),
      .s_due_valid(due_valid),
      .s_due_data(due_data),
      .s_reply_valid(reply_valid),
      .s_reply_ready(reply_ready),
      .s_reply_data(reply_data),
      .window_rd_addr(window_addr[2*NODE_W-1:NODE_W]),
      .window_rd_data(window_data[2*`EFA_RX_WINDOW__W-1:`EFA_RX_WINDOW__W]),
      .accepted_rd_addr(accepted_addr),
      .accepted_rd_data(accepted_data),
      .m_ack_valid(m_ack_valid),
      .m_ack_ready(m_ack_ready),
      .m_ack_data(m_ack_data)
  );

  `EFA_STREAM(u_edge_pkt, `EFA_RX_PKT__W, clk, rst, m_pkt_valid, m_pkt_ready, m_pkt_data)
  `EFA_STREAM(u_edge_ack, `EFA_SRD_ACK__BITS, clk, rst, m_ack_valid, m_ack_ready, m_ack_data)

endmodule

`default_nettype wire
