// SPDX-License-Identifier: Apache-2.0
// efa_rq_report - reports errors of receive rings, each ring once per cause while a report is
// pending.
//
// In    wrong_* doorbell beyond the ring, failed_* descriptor read failed; one of each per cycle,
//       always accepted
// Out   m_err QP that must go to ERR, and the cause
// Time  2 cycles if no report is pending, one report per cycle, round robin between the two causes
module efa_rq_report #(
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

  wire [1:0] waits;
  wire [1:0] grant;
  wire [1:0] unasked;
  wire [2*QPN_W-1:0] qpns;

  efa_queue_fifo_set #(
      .QPN_W(QPN_W)
  ) u_wrong (
      .clk(clk),
      .rst(rst),
      .now_valid(wrong_valid),
      .now_qpn(wrong_qpn),
      .s_valid(1'b0),
      .s_ready(unasked[0]),
      .s_qpn({QPN_W{1'b0}}),
      .m_valid(waits[0]),
      .m_ready(grant[0] && m_err_ready),
      .m_qpn(qpns[0+:QPN_W])
  );

  efa_queue_fifo_set #(
      .QPN_W(QPN_W)
  ) u_failed (
      .clk(clk),
      .rst(rst),
      .now_valid(failed_valid),
      .now_qpn(failed_qpn),
      .s_valid(1'b0),
      .s_ready(unasked[1]),
      .s_qpn({QPN_W{1'b0}}),
      .m_valid(waits[1]),
      .m_ready(grant[1] && m_err_ready),
      .m_qpn(qpns[QPN_W+:QPN_W])
  );

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

  wire unused_bits = &{1'b0, unasked};

endmodule
