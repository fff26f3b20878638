// SPDX-License-Identifier: Apache-2.0
// efa_sq_index - holds the producer, consumed and completed counts of each send ring.
//
// In    s_prod_*, s_consumed_*, s_completed_*: the new count of a ring, each from one module;
//       s_clear_* a ring that restarts at 0; prod_rd_addr, consumed_rd_addr, completed_rd_addr:
//       lookups, three readers each, four of completed counts
// Out   prod_rd_data, consumed_rd_data, completed_rd_data
// Time  one new count of each kind and one clear per cycle, always accepted; a lookup takes 1 cycle
//       and returns the new count in the cycle of an update or clear; m_init_done 2^QPN_W cycles
//       after rst
`default_nettype none

module efa_sq_index #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire s_prod_valid,
    input wire [QPN_W-1:0] s_prod_qpn,
    input wire [15:0] s_prod_count,
    input wire s_consumed_valid,
    input wire [QPN_W-1:0] s_consumed_qpn,
    input wire [15:0] s_consumed_count,
    input wire s_completed_valid,
    input wire [QPN_W-1:0] s_completed_qpn,
    input wire [15:0] s_completed_count,
    input wire s_clear_valid,
    input wire [QPN_W-1:0] s_clear_qpn,
    input wire [3*QPN_W-1:0] prod_rd_addr,
    output wire [3*16-1:0] prod_rd_data,
    input wire [3*QPN_W-1:0] consumed_rd_addr,
    output wire [3*16-1:0] consumed_rd_data,
    input wire [4*QPN_W-1:0] completed_rd_addr,
    output wire [4*16-1:0] completed_rd_data
);

  wire [2:0] init_done;
  assign m_init_done = init_done == 3'b111;

  efa_ring_count #(
      .RING_W(QPN_W),
      .WIDTH (16),
      .READS (3)
  ) u_prod (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done[0]),
      .s_set_valid(s_prod_valid),
      .s_set_ring(s_prod_qpn),
      .s_set_count(s_prod_count),
      .s_clear_valid(s_clear_valid),
      .s_clear_ring(s_clear_qpn),
      .count_rd_addr(prod_rd_addr),
      .count_rd_data(prod_rd_data)
  );

  efa_ring_count #(
      .RING_W(QPN_W),
      .WIDTH (16),
      .READS (3)
  ) u_consumed (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done[1]),
      .s_set_valid(s_consumed_valid),
      .s_set_ring(s_consumed_qpn),
      .s_set_count(s_consumed_count),
      .s_clear_valid(s_clear_valid),
      .s_clear_ring(s_clear_qpn),
      .count_rd_addr(consumed_rd_addr),
      .count_rd_data(consumed_rd_data)
  );

  efa_ring_count #(
      .RING_W(QPN_W),
      .WIDTH (16),
      .READS (4)
  ) u_completed (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done[2]),
      .s_set_valid(s_completed_valid),
      .s_set_ring(s_completed_qpn),
      .s_set_count(s_completed_count),
      .s_clear_valid(s_clear_valid),
      .s_clear_ring(s_clear_qpn),
      .count_rd_addr(completed_rd_addr),
      .count_rd_data(completed_rd_data)
  );

endmodule

`default_nettype wire
