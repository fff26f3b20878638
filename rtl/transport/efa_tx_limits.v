// SPDX-License-Identifier: Apache-2.0
// efa_tx_limits - stores what each peer may send.
//
// In    s_write, s_node: the limits of a peer change, from its state: s_mode, s_status, s_oldest,
//       s_incarnation, s_waits, s_settled, s_pace, s_paths, s_requests
// Out   limits_rd_data: limits of the peer of limits_rd_addr
// Time  read latency 1 cycle; a read in the cycle of s_write has the new limits
`default_nettype none
`include "efa_defs.vh"

module efa_tx_limits #(
    parameter NODE_W = `EFA_LIMITS__NODE_W
) (
    input wire clk,
    input wire s_write,
    input wire [NODE_W-1:0] s_node,
    input wire [1:0] s_mode,
    input wire [7:0] s_status,
    input wire [31:0] s_oldest,
    input wire [15:0] s_incarnation,
    input wire s_waits,
    input wire [15:0] s_settled,
    input wire [`EFA_TX_PACE__W-1:0] s_pace,
    input wire [`EFA_TX_PATHS__W-1:0] s_paths,
    input wire [`EFA_TX_REQUESTS__W-1:0] s_requests,
    input wire [NODE_W-1:0] limits_rd_addr,
    output wire [`EFA_TX_LIMITS__W-1:0] limits_rd_data
);

  reg [`EFA_TX_LIMITS__W-1:0] limits;
  always @* begin
    limits = {`EFA_TX_LIMITS__W{1'b0}};
    limits[`EFA_TX_LIMITS__MODE] = s_mode;
    limits[`EFA_TX_LIMITS__STATUS] = s_status;
    limits[`EFA_TX_LIMITS__OLDEST] = s_oldest;
    limits[`EFA_TX_LIMITS__INCARNATION] = s_incarnation;
    limits[`EFA_TX_LIMITS__WINDOW] = s_pace[`EFA_TX_PACE__WINDOW];
    limits[`EFA_TX_LIMITS__WAITS] = s_waits;
    limits[`EFA_TX_LIMITS__SETTLED] = s_settled;
    limits[`EFA_TX_LIMITS__PATH_SETTLED] = s_paths[`EFA_TX_PATHS__SETTLED];
    limits[`EFA_TX_LIMITS__USABLE] = s_paths[`EFA_TX_PATHS__USABLE];
    limits[`EFA_TX_LIMITS__AGAIN] = s_requests[`EFA_TX_REQUESTS__AGAIN] == `EFA_TX_REQUEST__OPEN;
    limits[`EFA_TX_LIMITS__AGAIN_TURN] = s_requests[`EFA_TX_REQUESTS__AGAIN_TURN];
    limits[`EFA_TX_LIMITS__AGAIN_PSN] = s_requests[`EFA_TX_REQUESTS__AGAIN_PSN];
    limits[`EFA_TX_LIMITS__AGAIN_ID] = s_requests[`EFA_TX_REQUESTS__AGAIN_ID];
    limits[`EFA_TX_LIMITS__AGAIN_PART] = s_requests[`EFA_TX_REQUESTS__AGAIN_PART];
    limits[`EFA_TX_LIMITS__AGAIN_KIND] = s_requests[`EFA_TX_REQUESTS__AGAIN_KIND];
    limits[`EFA_TX_LIMITS__PROBE] = s_requests[`EFA_TX_REQUESTS__PROBE];
    limits[`EFA_TX_LIMITS__PROBE_TURN] = s_requests[`EFA_TX_REQUESTS__PROBE_TURN];
    limits[`EFA_TX_LIMITS__PROBE_PATH] = s_requests[`EFA_TX_REQUESTS__PROBE_PATH];
    limits[`EFA_TX_LIMITS__PROBE_PSN] = s_requests[`EFA_TX_REQUESTS__PROBE_PSN];
    limits[`EFA_TX_LIMITS__PROBE_ID] = s_requests[`EFA_TX_REQUESTS__PROBE_ID];
    limits[`EFA_TX_LIMITS__PROBE_PART] = s_requests[`EFA_TX_REQUESTS__PROBE_PART];
    limits[`EFA_TX_LIMITS__PROBE_KIND] = s_requests[`EFA_TX_REQUESTS__PROBE_KIND];
  end

  efa_ram_fwd #(
      .WIDTH (`EFA_TX_LIMITS__W),
      .ADDR_W(NODE_W)
  ) u_limits (
      .clk(clk),
      .wr_en(s_write),
      .wr_addr(s_node),
      .wr_data(limits),
      .rd_addr(limits_rd_addr),
      .rd_data(limits_rd_data)
  );

  wire unused_bits = &{1'b0, s_pace, s_paths};

endmodule

`default_nettype wire
