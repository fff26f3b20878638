// SPDX-License-Identifier: Apache-2.0
// efa_rx_job_arb - merges validated packets and flushed receive WQEs into one job queue.
//
// In    s_job validated packets, with the buffers to check; s_flush WQEs of a QP in ERR
// Out   m_job all jobs, in the order of each queue; m_job_check is 0 for a flushed WQE: no buffer is
//       checked
// Time  same cycle, one job per cycle
`default_nettype none
`include "efa_defs.vh"

module efa_rx_job_arb #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    input wire s_job_valid,
    output wire s_job_ready,
    input wire [`EFA_RX_JOB__W-1:0] s_job_data,
    input wire [`EFA_RX_CHECK__W-1:0] s_job_check,
    input wire s_flush_valid,
    output wire s_flush_ready,
    input wire [QPN_W-1:0] s_flush_qpn,
    input wire [`EFA_QPC__W-1:0] s_flush_qpc,
    input wire [15:0] s_flush_req_id,
    input wire [1:0] s_flush_count,
    output wire m_job_valid,
    input wire m_job_ready,
    output wire [`EFA_RX_JOB__W-1:0] m_job_data,
    output wire [`EFA_RX_CHECK__W-1:0] m_job_check
);

  wire [1:0] grant;
  efa_arb #(
      .N(2)
  ) u_arb (
      .clk(clk),
      .rst(rst),
      .s_request({s_flush_valid, s_job_valid}),
      .s_hold(!m_job_ready),
      .m_grant(grant)
  );

  reg [`EFA_CPL__W-1:0] cpl;
  reg [`EFA_RX_JOB__W-1:0] flush;
  always @* begin
    cpl = {`EFA_CPL__W{1'b0}};
    cpl[`EFA_CPL__RX] = 1'b1;
    cpl[`EFA_CPL__QPN] = {{(12 - QPN_W) {1'b0}}, s_flush_qpn};
    cpl[`EFA_CPL__QP_NUM] = s_flush_qpc[`EFA_QPC__QP_NUM];
    cpl[`EFA_CPL__CQN] = s_flush_qpc[`EFA_QPC__RCQN];
    cpl[`EFA_CPL__SUB] = s_flush_qpc[`EFA_QPC__RSUB];
    cpl[`EFA_CPL__REQ_ID] = s_flush_req_id;
    cpl[`EFA_CPL__STATUS] = `EFA_IO_COMP_STATUS__FLUSHED;
    cpl[`EFA_CPL__OP_TYPE] = `EFA_IO_SEND_OP_TYPE__SEND_W3;
    flush = {`EFA_RX_JOB__W{1'b0}};
    flush[`EFA_RX_JOB__COMPLETE] = 1'b1;
    flush[`EFA_RX_JOB__COUNT] = s_flush_count;
    flush[`EFA_RX_JOB__CPL] = cpl;
  end

  // Not the buffers of s_job: they may change while a flushed WQE waits.
  assign m_job_check = s_job_check & {`EFA_RX_CHECK__W{!grant[1]}};
  assign m_job_valid = grant != 2'b00;
  assign m_job_data = grant[1] ? flush : s_job_data;
  assign s_job_ready = grant[0] && m_job_ready;
  assign s_flush_ready = grant[1] && m_job_ready;

  wire unused_bits = &{1'b0, s_flush_qpc};

endmodule

`default_nettype wire
