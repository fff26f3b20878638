// SPDX-License-Identifier: Apache-2.0
// efa_tx_departed - stores when the latest transmission of each PSN left the device.
//
// In    s_left: the first flit of a transmission leaves, with s_left_send; s_ticks: the time;
//       departed_rd_addr: a peer; ticks_rd_addr: peer and slot of a record
// Out   m_init_done; departed_rd_data: the transmissions to the peer that have left; ticks_rd_data: when
//       that of the record left, valid once departed_rd_data shows its order number
// Time  one transmission per cycle; departed_rd_data shows it two cycles later; both lookups follow their
//       addresses by one cycle; after rst an initialisation of one cycle per peer
//
// Transmissions leave the device in the order in which efa_tx_space has made them. So an order number
// shows all before it, and a session follows all packets of earlier ones. A probe has no order number.
`default_nettype none
`include "efa_defs.vh"

module efa_tx_departed #(
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W,
    parameter ORDER_LEFT = 0  // as in efa_tx_space
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire [23:0] s_ticks,
    input wire s_left_valid,
    input wire [`EFA_SRD_SEND__W-1:0] s_left_send,
    input wire [NODE_W-1:0] departed_rd_addr,
    output wire [`EFA_TX_DEPARTED__W-1:0] departed_rd_data,
    input wire [NODE_W+WINDOW_W-1:0] ticks_rd_addr,
    output wire [23:0] ticks_rd_data
);

  localparam [NODE_W:0] ONE_NODE = 1;
  localparam [31:0] ORDERS = ORDER_LEFT;
  localparam [15:0] NONE_LEFT = 16'hFFFF - ORDERS[15:0];

  reg [NODE_W:0] init_q;
  reg left_q;
  reg [NODE_W-1:0] node_q;
  reg [15:0] session_q;
  reg [2:0] path_q;
  reg [15:0] order_q;

  wire initializing = !init_q[NODE_W];
  wire [15:0] left_node = s_left_send[`EFA_SRD_SEND__NODE];
  wire [31:0] left_psn = s_left_send[`EFA_SRD_SEND__PSN];
  wire [7:0] left_path = s_left_send[`EFA_SRD_SEND__PATH];
  wire left = s_left_valid && !s_left_send[`EFA_SRD_SEND__PROBE];

  wire [`EFA_TX_DEPARTED__W-1:0] stored;
  wire same = stored[`EFA_TX_DEPARTED__SESSION] == session_q;
  reg [127:0] orders;
  reg [`EFA_TX_DEPARTED__W-1:0] departed;
  always @* begin
    orders = same ? stored[`EFA_TX_DEPARTED__ORDERS] : {8{NONE_LEFT}};
    orders[16*path_q+:16] = order_q;
    departed = {`EFA_TX_DEPARTED__W{1'b0}};
    if (!initializing) begin
      departed[`EFA_TX_DEPARTED__SESSION] = session_q;
      departed[`EFA_TX_DEPARTED__ORDERS]  = orders;
    end
  end

  assign m_init_done = !initializing;

  efa_ram_fwd #(
      .WIDTH (`EFA_TX_DEPARTED__W),
      .ADDR_W(NODE_W),
      .READS (2)
  ) u_peers (
      .clk(clk),
      .wr_en(initializing || left_q),
      .wr_addr(initializing ? init_q[NODE_W-1:0] : node_q),
      .wr_data(departed),
      .rd_addr({departed_rd_addr, left_node[NODE_W-1:0]}),
      .rd_data({departed_rd_data, stored})
  );

  // Written a cycle before its order number is.
  efa_ram #(
      .WIDTH (24),
      .ADDR_W(NODE_W + WINDOW_W)
  ) u_ticks (
      .clk(clk),
      .wr_en(left),
      .wr_addr({left_node[NODE_W-1:0], left_psn[WINDOW_W-1:0]}),
      .wr_data(s_ticks),
      .rd_en(1'b1),
      .rd_addr(ticks_rd_addr),
      .rd_data(ticks_rd_data)
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {NODE_W + 1{1'b0}};
      left_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE_NODE;
      left_q <= left;
    end
  end

  always @(posedge clk) begin
    node_q <= left_node[NODE_W-1:0];
    session_q <= s_left_send[`EFA_SRD_SEND__SESSION];
    path_q <= left_path[2:0];
    order_q <= s_left_send[`EFA_SRD_SEND__ORDER];
  end

  wire unused_bits = &{1'b0, s_left_send, left_node, left_psn, left_path};

endmodule

`default_nettype wire
