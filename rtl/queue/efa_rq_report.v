// SPDX-License-Identifier: Apache-2.0
// efa_rq_report - reports errors of receive rings, each ring once per cause while a report is
// pending.
//
// In    s_wrong doorbell beyond the ring, s_failed descriptor read failed; one of each per cycle,
//       always accepted
// Out   m_err QP that must go to ERR, and the cause
// Time  2 cycles if no report is pending, one report per cycle, round robin between the two causes;
//       initialisation as efa_queue_fifo_set
`default_nettype none
`include "efa_defs.vh"
module efa_rq_report #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire s_wrong_valid,
    input wire [QPN_W-1:0] s_wrong_qpn,
    input wire s_failed_valid,
    input wire [QPN_W-1:0] s_failed_qpn,
    output wire m_err_valid,
    input wire m_err_ready,
    output wire [QPN_W-1:0] m_err_qpn,
    output wire [3:0] m_err_cause
);


  wire [1:0] init;
  wire [1:0] waits;
  wire [1:0] grant;
  wire [1:0] unused_ready;
  wire [2*QPN_W-1:0] qpns;

  // Reports enter by s_now alone. s_valid of both sets is 0, so nothing reads s_qpn.
  efa_queue_fifo_set #(
      .QPN_W(QPN_W)
  ) u_wrong (
      .clk(clk),
      .rst(rst),
      .m_init_done(init[0]),
      .s_now_valid(s_wrong_valid),
      .s_now_qpn(s_wrong_qpn),
      .s_valid(1'b0),
      .s_ready(unused_ready[0]),
      .s_qpn({QPN_W{1'bx}}),
      .m_valid(waits[0]),
      .m_ready(grant[0] && m_err_ready),
      .m_qpn(qpns[0+:QPN_W])
  );

  efa_queue_fifo_set #(
      .QPN_W(QPN_W)
  ) u_failed (
      .clk(clk),
      .rst(rst),
      .m_init_done(init[1]),
      .s_now_valid(s_failed_valid),
      .s_now_qpn(s_failed_qpn),
      .s_valid(1'b0),
      .s_ready(unused_ready[1]),
      .s_qpn({QPN_W{1'bx}}),
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

  assign m_init_done   = init == 2'b11;
  assign m_err_valid = grant != 2'b00;
  assign m_err_qpn   = grant[1] ? qpns[QPN_W+:QPN_W] : qpns[0+:QPN_W];
  assign m_err_cause = grant[1] ? `EFA_QP_ERROR__DESC_READ : `EFA_QP_ERROR__RQ_DOORBELL;

  wire unused_bits = &{1'b0, unused_ready};

endmodule

`default_nettype wire
