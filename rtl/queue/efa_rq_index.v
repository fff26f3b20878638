// SPDX-License-Identifier: Apache-2.0
// efa_rq_index - holds the producer, claimed and reported counts of each receive ring.
//
// In    s_rqdb producer indices; s_take_* the next claimed count; s_done descriptors reported;
//       s_clear a ring that restarts at 0
// Out   prod_rd_data, cons_rd_data for two readers; m_move_valid: a ring has new descriptors;
//       m_wrong_valid: a doorbell exceeds the ring
// Time  m_move_valid or m_wrong_valid 2 cycles after the doorbell, readable from that cycle on; a
//       doorbell is validated against the reports of earlier cycles; one doorbell and one report
//       per cycle, also back to back for one ring; a read 1 cycle; a clear waits for a cycle
//       without count updates
`default_nettype none
`include "efa_check.vh"

module efa_rq_index #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,

    input wire s_rqdb_valid,
    input wire [QPN_W-1:0] s_rqdb_qpn,
    input wire [15:0] s_rqdb_value,
    output wire m_move_valid,
    output wire m_wrong_valid,
    output wire [QPN_W-1:0] m_doorbell_qpn,

    input wire s_take_valid,
    input wire [QPN_W-1:0] s_take_qpn,
    input wire [15:0] s_take_value,

    input wire s_done_valid,
    input wire [QPN_W-1:0] s_done_qpn,
    input wire [1:0] s_done_count,

    input wire s_clear_valid,
    output wire s_clear_ready,
    input wire [QPN_W-1:0] s_clear_qpn,
    input wire s_clear_sized,
    input wire s_clear_live,
    input wire [3:0] s_clear_log,

    input wire [2*QPN_W-1:0] ring_rd_addr,
    output wire [2*16-1:0] prod_rd_data,
    output wire [2*16-1:0] cons_rd_data
);

  // A doorbell: d1 validates it, with forwarding of the previous doorbell and of a report.
  reg d1_valid_q;
  reg [QPN_W-1:0] d1_qpn_q;
  reg [15:0] d1_value_q;
  reg d1_forward_q;
  reg [15:0] d1_forward_prod_q;
  wire [15:0] d1_prod_ram;
  wire [15:0] d1_done_ram;
  reg d1_reported_q;
  reg [15:0] d1_reported_done_q;
  wire [15:0] d1_done = d1_reported_q ? d1_reported_done_q : d1_done_ram;
  wire d1_live;
  wire [3:0] d1_log;
  wire [15:0] d1_prod = d1_forward_q ? d1_forward_prod_q : d1_prod_ram;
  wire [15:0] d1_size = d1_live ? 16'd1 << d1_log : 16'd0;
  // Posted and not reported: before the doorbell, and after it.
  wire [15:0] d1_used = d1_prod - d1_done;
  wire [15:0] d1_posted = d1_value_q - d1_done;
  wire d1_ok = d1_posted <= d1_size && d1_posted >= d1_used;

  wire d1_moves = d1_valid_q && d1_ok && d1_value_q != d1_prod;

  // The result of a doorbell, reported when the counts show it.
  reg d2_moved_q;
  reg d2_wrong_q;
  reg [QPN_W-1:0] d2_qpn_q;
  assign m_move_valid = d2_moved_q;
  assign m_wrong_valid = d2_wrong_q;
  assign m_doorbell_qpn = d2_qpn_q;

  // A report: f1 adds.
  reg f1_valid_q;
  reg [QPN_W-1:0] f1_qpn_q;
  reg [1:0] f1_count_q;
  reg f1_forward_q;
  reg [15:0] f1_forward_value_q;
  wire [15:0] f1_ram;
  wire [15:0] f1_after = (f1_forward_q ? f1_forward_value_q : f1_ram) + {14'd0, f1_count_q};

  wire clear = s_clear_valid && !d1_moves && !f1_valid_q && !s_take_valid;
  assign s_clear_ready = clear;

  efa_ram_1wnr #(
      .WIDTH (16),
      .ADDR_W(QPN_W),
      .READS (3)
  ) u_prod (
      .clk(clk),
      .wr_en(d1_moves || clear),
      .wr_addr(clear ? s_clear_qpn : d1_qpn_q),
      .wr_data(clear ? 16'd0 : d1_value_q),
      .rd_addr({ring_rd_addr, s_rqdb_qpn}),
      .rd_data({prod_rd_data, d1_prod_ram})
  );

  efa_ram_1wnr #(
      .WIDTH (16),
      .ADDR_W(QPN_W),
      .READS (2)
  ) u_cons (
      .clk(clk),
      .wr_en(s_take_valid || clear),
      .wr_addr(clear ? s_clear_qpn : s_take_qpn),
      .wr_data(clear ? 16'd0 : s_take_value),
      .rd_addr(ring_rd_addr),
      .rd_data(cons_rd_data)
  );

  efa_ram_1wnr #(
      .WIDTH (16),
      .ADDR_W(QPN_W),
      .READS (2)
  ) u_done (
      .clk(clk),
      .wr_en(f1_valid_q || clear),
      .wr_addr(clear ? s_clear_qpn : f1_qpn_q),
      .wr_data(clear ? 16'd0 : f1_after),
      .rd_addr({s_done_qpn, s_rqdb_qpn}),
      .rd_data({f1_ram, d1_done_ram})
  );

  efa_ram #(
      .WIDTH (5),
      .ADDR_W(QPN_W)
  ) u_size (
      .clk(clk),
      .wr_en(clear && s_clear_sized),
      .wr_addr(s_clear_qpn),
      .wr_data({s_clear_live, s_clear_log}),
      .rd_en(1'b1),
      .rd_addr(s_rqdb_qpn),
      .rd_data({d1_live, d1_log})
  );

  always @(posedge clk) begin
    d1_qpn_q <= s_rqdb_qpn;
    d2_qpn_q <= d1_qpn_q;
    d1_value_q <= s_rqdb_value;
    d1_forward_q <= d1_valid_q && d1_qpn_q == s_rqdb_qpn;
    d1_forward_prod_q <= d1_ok ? d1_value_q : d1_prod;
    d1_reported_q <= f1_valid_q && f1_qpn_q == s_rqdb_qpn;
    d1_reported_done_q <= f1_after;
    f1_qpn_q <= s_done_qpn;
    f1_count_q <= s_done_count;
    f1_forward_q <= f1_valid_q && f1_qpn_q == s_done_qpn;
    f1_forward_value_q <= f1_after;
    if (rst) begin
      d1_valid_q <= 1'b0;
      d2_moved_q <= 1'b0;
      d2_wrong_q <= 1'b0;
      f1_valid_q <= 1'b0;
    end else begin
      d1_valid_q <= s_rqdb_valid;
      d2_moved_q <= d1_moves;
      d2_wrong_q <= d1_valid_q && !d1_ok;
      f1_valid_q <= s_done_valid;
    end
  end

  `EFA_CHECK(!(clear && d1_valid_q && d1_qpn_q == s_clear_qpn),
             "efa_rq_index: doorbell while the ring is cleared")

endmodule

`default_nettype wire
