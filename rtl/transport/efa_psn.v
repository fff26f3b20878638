// SPDX-License-Identifier: Apache-2.0
// efa_psn - holds the next packet sequence number (PSN) of each peer node.
//
// In    psn_rd_en, psn_rd_addr: a peer; s_take: a packet to the peer read last uses its number
// Out   psn_rd_data: next number of the peer read last, unchanged while neither input is active
// Time  read latency 1 cycle; a number that was taken is one higher in the next cycle, also for a
//       read in the cycle of s_take; after a reset, an init sweep restarts one peer per cycle, in
//       ascending order
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_psn #(
    parameter PSN_LEFT = 0  // packets to a node until the PSN wraps; 0: 2^32
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire psn_rd_en,
    input wire [`EFA_LIMITS__NODE_W-1:0] psn_rd_addr,
    output wire [31:0] psn_rd_data,
    input wire s_take
);

  localparam NODE_W = `EFA_LIMITS__NODE_W;
  localparam [31:0] LEFT = PSN_LEFT;
  localparam [31:0] FIRST_PSN = 32'd0 - LEFT;
  localparam [NODE_W:0] ONE_NODE = 1;

  // Init sweep after a reset.
  reg [NODE_W:0] init_q;

  // The peer read last.
  reg [NODE_W-1:0] node_q;

  // Forwarding of the last number written, which the read may have missed.
  reg written_valid_q;
  reg [NODE_W-1:0] written_node_q;
  reg [31:0] written_q;

  wire initializing = !init_q[NODE_W];
  wire [31:0] psn_read;
  wire [31:0] psn = written_valid_q && written_node_q == node_q ? written_q : psn_read;
  wire [31:0] psn_after = psn + 32'd1;

  assign m_init_done = !initializing;
  assign psn_rd_data = psn;

  efa_ram #(
      .WIDTH (32),
      .ADDR_W(NODE_W)
  ) u_psn (
      .clk(clk),
      .wr_en(initializing || s_take),
      .wr_addr(initializing ? init_q[NODE_W-1:0] : node_q),
      .wr_data(initializing ? FIRST_PSN : psn_after),
      .rd_en(psn_rd_en),
      .rd_addr(psn_rd_addr),
      .rd_data(psn_read)
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {NODE_W + 1{1'b0}};
      written_valid_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE_NODE;
      if (s_take) written_valid_q <= 1'b1;
    end
  end

  always @(posedge clk) begin
    if (psn_rd_en) node_q <= psn_rd_addr;
    if (s_take) begin
      written_node_q <= node_q;
      written_q <= psn_after;
    end
  end

  `EFA_CHECK(!s_take || !initializing, "efa_psn: number taken during the init sweep")

endmodule

`default_nettype wire
