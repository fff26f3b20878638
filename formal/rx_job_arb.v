// SPDX-License-Identifier: Apache-2.0
// fv_rx_job_arb - proves efa_rx_job_arb: every validated packet and every flushed WQE becomes one
// job, unchanged, and neither side waits for more than one job of the other.
`include "efa_defs.vh"

module fv_rx_job_arb #(
    parameter QPN_W = 2
) (
    input wire clk,
    input wire rst,
    input wire s_job_valid,
    input wire [`EFA_RX_JOB__W-1:0] s_job_data,
    input wire [`EFA_RX_CHECK__W-1:0] s_job_check,
    input wire s_flush_valid,
    input wire [QPN_W-1:0] s_flush_qpn,
    input wire [`EFA_QPC__W-1:0] s_flush_qpc,
    input wire [15:0] s_flush_req_id,
    input wire [1:0] s_flush_count,
    input wire m_job_ready
);

  wire s_job_ready;
  wire s_flush_ready;
  wire m_job_valid;
  wire [`EFA_RX_JOB__W-1:0] m_job_data;
  wire [`EFA_RX_CHECK__W-1:0] m_job_check;

  efa_rx_job_arb #(
      .QPN_W(QPN_W)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .s_job_valid(s_job_valid),
      .s_job_ready(s_job_ready),
      .s_job_data(s_job_data),
      .s_job_check(s_job_check),
      .s_flush_valid(s_flush_valid),
      .s_flush_ready(s_flush_ready),
      .s_flush_qpn(s_flush_qpn),
      .s_flush_qpc(s_flush_qpc),
      .s_flush_req_id(s_flush_req_id),
      .s_flush_count(s_flush_count),
      .m_job_valid(m_job_valid),
      .m_job_ready(m_job_ready),
      .m_job_data(m_job_data),
      .m_job_check(m_job_check)
  );

  (* probe = "u_dut.u_arb.held_q" *) wire held;
  (* probe = "u_dut.u_arb.grant_q" *) wire [1:0] held_grant;

  (* probe = "u_dut.u_arb.after_q" *) wire [1:0] after;

  reg began_q = 1'b0;
  reg job_stood_q;
  reg flush_stood_q;
  reg out_stood_q;
  reg [`EFA_RX_JOB__W-1:0] job_q;
  reg [`EFA_RX_CHECK__W-1:0] check_q;
  reg [15:0] req_id_q;
  reg [QPN_W-1:0] qpn_q;
  reg [`EFA_QPC__W-1:0] qpc_q;
  reg [1:0] count_q;
  reg [`EFA_RX_JOB__W-1:0] out_q;
  reg [`EFA_RX_CHECK__W-1:0] out_check_q;
  reg [1:0] jobs_passed_q;  // accepted while a flushed WQE waits
  reg [1:0] flushes_passed_q;  // accepted while a packet waits

  wire take_job = s_job_valid && s_job_ready;
  wire take_flush = s_flush_valid && s_flush_ready;
  wire takes = m_job_valid && m_job_ready;
  wire [`EFA_CPL__W-1:0] cpl = m_job_data[`EFA_RX_JOB__CPL];

  always @(posedge clk) begin
    began_q <= 1'b1;
    job_stood_q <= !rst && s_job_valid && !s_job_ready;
    flush_stood_q <= !rst && s_flush_valid && !s_flush_ready;
    out_stood_q <= !rst && m_job_valid && !m_job_ready;
    job_q <= s_job_data;
    check_q <= s_job_check;
    req_id_q <= s_flush_req_id;
    qpn_q <= s_flush_qpn;
    qpc_q <= s_flush_qpc;
    count_q <= s_flush_count;
    out_q <= m_job_data;
    out_check_q <= m_job_check;
    if (rst || !s_flush_valid || take_flush) jobs_passed_q <= 0;
    else if (take_job) jobs_passed_q <= jobs_passed_q + 1;
    if (rst || !s_job_valid || take_job) flushes_passed_q <= 0;
    else if (take_flush) flushes_passed_q <= flushes_passed_q + 1;
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    // Sources hold their offers.
    a_job_stays :
    assume (!job_stood_q || (s_job_valid && s_job_data == job_q && s_job_check == check_q));
    a_flush_stays :
    assume (!flush_stood_q || (s_flush_valid && s_flush_req_id == req_id_q
        && s_flush_qpn == qpn_q && s_flush_qpc == qpc_q && s_flush_count == count_q));
    if (began_q && !rst) begin
      h_held :
      assert (!held || (held_grant == 2'b01 ? job_stood_q : held_grant == 2'b10 && flush_stood_q));
      h_turn :
      assert ((jobs_passed_q == 0 || (held ? held_grant == 2'b10 : after == 2'b10))
          && (flushes_passed_q == 0 || (held ? held_grant == 2'b01 : after == 2'b00)));
      h_out : assert (!out_stood_q || held);
      p_once : assert (takes == (take_job || take_flush) && !(take_job && take_flush));
      p_same : assert (!take_job || (m_job_data == s_job_data && m_job_check == s_job_check));
      p_flush :
      assert (!take_flush || (m_job_check == 0 && !m_job_data[`EFA_RX_JOB__PACKET] && !m_job_data[`EFA_RX_JOB__WRITE]
          && !m_job_data[`EFA_RX_JOB__ACK] && m_job_data[`EFA_RX_JOB__COMPLETE]
          && m_job_data[`EFA_RX_JOB__COUNT] == s_flush_count && cpl[`EFA_CPL__RX]
          && cpl[`EFA_CPL__QPN] == s_flush_qpn && cpl[`EFA_CPL__REQ_ID] == s_flush_req_id
          && cpl[`EFA_CPL__QP_NUM] == s_flush_qpc[`EFA_QPC__QP_NUM]
          && cpl[`EFA_CPL__CQN] == s_flush_qpc[`EFA_QPC__RCQN]
          && cpl[`EFA_CPL__SUB] == s_flush_qpc[`EFA_QPC__RSUB]
          && cpl[`EFA_CPL__STATUS] == `EFA_IO_COMP_STATUS__FLUSHED));
      p_idle_never : assert (m_job_valid == (s_job_valid || s_flush_valid));
      p_stays :
      assert (!out_stood_q || (m_job_valid && m_job_data == out_q && m_job_check == out_check_q));
      p_waits : assert (jobs_passed_q <= 1 && flushes_passed_q <= 1);
      c_once : cover (take_flush && s_job_valid && jobs_passed_q == 1);
      c_same : cover (take_job && s_flush_valid && s_job_check[`EFA_RX_CHECK__REQ] == 2'b10);
      c_flush : cover (take_flush && s_flush_count == 2'd2 && s_flush_req_id == 16'd7);
      c_idle_never : cover (m_job_valid && s_job_valid && s_flush_valid);
      c_stays : cover (out_stood_q && takes);
      c_waits : cover (flushes_passed_q == 1 && take_job);
    end
  end

endmodule
