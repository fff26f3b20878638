// SPDX-License-Identifier: Apache-2.0
// efa_queue_fifo_set - holds queues with pending work in arrival order, each at most once.
//
// In    now_* always accepted; s stream, which waits for now_*
// Out   m stream, the next queue; it may be added again from the cycle in which it is taken
// Time  one in and one out per cycle; latency 2 cycles, up to 16 queues 1 cycle
`include "efa_check.vh"

module efa_queue_fifo_set #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    input wire now_valid,
    input wire [QPN_W-1:0] now_qpn,
    input wire s_valid,
    output wire s_ready,
    input wire [QPN_W-1:0] s_qpn,
    output wire m_valid,
    input wire m_ready,
    output wire [QPN_W-1:0] m_qpn
);

  reg [(1<<QPN_W)-1:0] inside_q;

  wire take = m_valid && m_ready;
  wire put = now_valid || s_valid;
  wire [QPN_W-1:0] put_qpn = now_valid ? now_qpn : s_qpn;
  wire fresh = !inside_q[put_qpn] || (take && m_qpn == put_qpn);
  wire space;
  wire [QPN_W+1:0] level;

  assign s_ready = !now_valid;

  // Twice as deep as there are queues: never full, even if a queue is added while it is removed.
  efa_fifo #(
      .WIDTH(QPN_W),
      .DEPTH_LOG2(QPN_W + 1)
  ) u_order (
      .clk(clk),
      .rst(rst),
      .s_valid(put && fresh),
      .s_ready(space),
      .s_data(put_qpn),
      .m_valid(m_valid),
      .m_ready(m_ready),
      .m_data(m_qpn),
      .level(level)
  );

  always @(posedge clk) begin
    if (rst) begin
      inside_q <= {(1 << QPN_W) {1'b0}};
    end else begin
      if (take) inside_q[m_qpn] <= 1'b0;
      if (put) inside_q[put_qpn] <= 1'b1;
    end
  end

  wire unused_level = &{1'b0, level};

  `EFA_CHECK(space, "queue in the set twice")

endmodule
