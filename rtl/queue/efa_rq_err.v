// efa_rq_err - reports of broken receive rings, each ring once for each reason while it waits.
//
// In    wrong rung beyond its size, failed a descriptor read; one of each per cycle, never refused
// Out   m_err which QP, and why it must go to ERR
// Time  2 cycles when none waits, one report per cycle; the two reasons take turns
`include "efa_check.vh"

module efa_rq_err #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    input wire wrong_valid,
    input wire [QPN_W-1:0] wrong_qpn,
    input wire failed_valid,
    input wire [QPN_W-1:0] failed_qpn,
    output wire m_err_valid,
    input wire m_err_ready,
    output wire [QPN_W-1:0] m_err_qpn,
    output wire [3:0] m_err_cause
);

  localparam [3:0] CAUSE_DOORBELL = 4'd2;
  localparam [3:0] CAUSE_READ = 4'd6;

  wire [1:0] broken = {failed_valid, wrong_valid};
  wire [2*QPN_W-1:0] broken_qpn = {failed_qpn, wrong_qpn};
  wire [1:0] grant;
  wire [1:0] room;

  wire [2*QPN_W-1:0] qpns;
  wire [1:0] waits;

  genvar g;
  generate
    for (g = 0; g < 2; g = g + 1) begin : g_reason
      reg [(1<<QPN_W)-1:0] inside_q;
      wire [QPN_W-1:0] qpn = broken_qpn[QPN_W*g+:QPN_W];
      wire [QPN_W-1:0] first = qpns[QPN_W*g+:QPN_W];
      wire leaves = grant[g] && m_err_ready;
      wire fresh = !inside_q[qpn] || (leaves && first == qpn);
      wire [QPN_W+1:0] level;
      // One bit deeper than there are rings: never full, also while one leaves and comes at once.
      efa_fifo #(
          .WIDTH(QPN_W),
          .DEPTH_LOG2(QPN_W + 1)
      ) u_order (
          .clk(clk),
          .rst(rst),
          .s_valid(broken[g] && fresh),
          .s_ready(room[g]),
          .s_data(qpn),
          .m_valid(waits[g]),
          .m_ready(leaves),
          .m_data(qpns[QPN_W*g+:QPN_W]),
          .level(level)
      );
      always @(posedge clk) begin
        if (rst) begin
          inside_q <= {(1 << QPN_W) {1'b0}};
        end else begin
          if (leaves) inside_q[first] <= 1'b0;
          if (broken[g]) inside_q[qpn] <= 1'b1;
        end
      end
      wire unused_level = &{1'b0, level};
    end
  endgenerate

  efa_arb #(
      .N(2)
  ) u_arb (
      .clk(clk),
      .rst(rst),
      .s_request(waits),
      .s_hold(!m_err_ready),
      .m_grant(grant)
  );

  assign m_err_valid = grant != 2'b00;
  assign m_err_qpn   = grant[1] ? qpns[QPN_W+:QPN_W] : qpns[0+:QPN_W];
  assign m_err_cause = grant[1] ? CAUSE_READ : CAUSE_DOORBELL;

  `EFA_CHECK(room == 2'b11, "efa_rq_err: a ring waits twice")

endmodule
