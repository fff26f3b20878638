// SPDX-License-Identifier: Apache-2.0
// efa_rq_index - holds the producer, claimed and reported counts of each receive ring.
//
// In    s_rqdb producer indices; s_take_* the next claimed count; s_done descriptors reported;
//       s_clear a ring that restarts at 0, s_clear_sized: with another size; ring_rd_addr: lookups,
//       two readers
// Out   prod_rd_data, cons_rd_data; m_move_valid: a ring has new descriptors; m_wrong_valid: a
//       doorbell exceeds the ring
// Time  m_move_valid or m_wrong_valid 2 cycles after the doorbell, readable from that cycle on; a
//       doorbell is validated against the reports of earlier cycles; a claim is readable from the
//       next cycle on, a clear in its cycle; one doorbell, claim, report and clear per cycle, also
//       back to back for one ring, all accepted; a lookup 1 cycle; m_init_done 2^QPN_W cycles after
//       rst
`default_nettype none
`include "efa_check.vh"

module efa_rq_index #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,

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
    input wire [QPN_W-1:0] s_clear_qpn,
    input wire s_clear_sized,
    input wire s_clear_live,
    input wire [3:0] s_clear_log,

    input wire [2*QPN_W-1:0] ring_rd_addr,
    output wire [2*16-1:0] prod_rd_data,
    output wire [2*16-1:0] cons_rd_data
);

  // A doorbell: d1 validates it, d2 moves the index and reports the result.
  reg d1_valid_q;
  reg [QPN_W-1:0] d1_qpn_q;
  reg [15:0] d1_value_q;
  reg d2_moved_q;
  reg d2_wrong_q;
  reg [QPN_W-1:0] d2_qpn_q;
  reg [15:0] d2_value_q;
  wire [15:0] d1_prod_read;
  wire [15:0] d1_done;
  wire d1_live;
  wire [3:0] d1_log;
  // The index of d1 was looked up before the doorbell of d2 moved it.
  wire [15:0] d1_prod = d2_moved_q && d2_qpn_q == d1_qpn_q ? d2_value_q : d1_prod_read;
  wire [15:0] d1_size = d1_live ? 16'd1 << d1_log : 16'd0;
  // Posted and not reported: before the doorbell, and after it.
  wire [15:0] d1_used = d1_prod - d1_done;
  wire [15:0] d1_posted = d1_value_q - d1_done;
  wire d1_ok = d1_posted <= d1_size && d1_posted >= d1_used;

  wire d1_moves = d1_valid_q && d1_ok && d1_value_q != d1_prod;

  assign m_move_valid = d2_moved_q;
  assign m_wrong_valid = d2_wrong_q;
  assign m_doorbell_qpn = d2_qpn_q;

  // A claim, one cycle ago: its readers expect the new count from the next cycle on.
  reg take_q;
  reg [QPN_W-1:0] take_qpn_q;
  reg [15:0] take_value_q;

  // A report: f1 adds.
  reg f1_valid_q;
  reg [QPN_W-1:0] f1_qpn_q;
  reg [1:0] f1_count_q;
  wire [15:0] f1_done;
  wire [15:0] f1_after = f1_done + {14'd0, f1_count_q};

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
      .s_set_valid(d2_moved_q),
      .s_set_ring(d2_qpn_q),
      .s_set_count(d2_value_q),
      .s_clear_valid(s_clear_valid),
      .s_clear_ring(s_clear_qpn),
      .count_rd_addr({ring_rd_addr, s_rqdb_qpn}),
      .count_rd_data({prod_rd_data, d1_prod_read})
  );

  efa_ring_count #(
      .RING_W(QPN_W),
      .WIDTH (16),
      .READS (2)
  ) u_cons (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done[1]),
      .s_set_valid(take_q),
      .s_set_ring(take_qpn_q),
      .s_set_count(take_value_q),
      .s_clear_valid(s_clear_valid),
      .s_clear_ring(s_clear_qpn),
      .count_rd_addr(ring_rd_addr),
      .count_rd_data(cons_rd_data)
  );

  efa_ring_count #(
      .RING_W(QPN_W),
      .WIDTH (16),
      .READS (2)
  ) u_done (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done[2]),
      .s_set_valid(f1_valid_q),
      .s_set_ring(f1_qpn_q),
      .s_set_count(f1_after),
      .s_clear_valid(s_clear_valid),
      .s_clear_ring(s_clear_qpn),
      .count_rd_addr({s_done_qpn, s_rqdb_qpn}),
      .count_rd_data({f1_done, d1_done})
  );

  efa_ram #(
      .WIDTH (5),
      .ADDR_W(QPN_W)
  ) u_size (
      .clk(clk),
      .wr_en(s_clear_valid && s_clear_sized),
      .wr_addr(s_clear_qpn),
      .wr_data({s_clear_live, s_clear_log}),
      .rd_en(1'b1),
      .rd_addr(s_rqdb_qpn),
      .rd_data({d1_live, d1_log})
  );

  always @(posedge clk) begin
    d1_qpn_q <= s_rqdb_qpn;
    d2_qpn_q <= d1_qpn_q;
    d2_value_q <= d1_value_q;
    take_qpn_q <= s_take_qpn;
    take_value_q <= s_take_value;
    d1_value_q <= s_rqdb_value;
    f1_qpn_q <= s_done_qpn;
    f1_count_q <= s_done_count;
    if (rst) begin
      d1_valid_q <= 1'b0;
      d2_moved_q <= 1'b0;
      d2_wrong_q <= 1'b0;
      take_q <= 1'b0;
      f1_valid_q <= 1'b0;
    end else begin
      d1_valid_q <= s_rqdb_valid;
      d2_moved_q <= d1_moves;
      d2_wrong_q <= d1_valid_q && !d1_ok;
      take_q <= s_take_valid && !(s_clear_valid && s_clear_qpn == s_take_qpn);
      f1_valid_q <= s_done_valid;
    end
  end

  `EFA_CHECK(!(s_clear_valid && d1_valid_q && d1_qpn_q == s_clear_qpn),
             "efa_rq_index: doorbell while the ring is cleared")

endmodule

`default_nettype wire
