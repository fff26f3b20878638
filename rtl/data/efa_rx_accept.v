// SPDX-License-Identifier: Apache-2.0
// efa_rx_accept - validates stored packets, claims a receive WQE for each and makes its job.
//
// In    s_pkt stored packets; qpc_rd_data QP contexts; s_ah_* address handles and s_mr_* regions as
//       they are created and destroyed; s_rsp the response to the claim of a packet; s_arrived: a
//       descriptor read is done
// Out   m_claim the claim of a packet; qpc_rd_addr the QP whose packet may claim in the next cycle;
//       m_job validated packets, in the order of each QP, with the buffers that are checked next
//       (m_job_check); m_claim_done: a job leaves, so its claim is final; m_err a QP whose receive
//       WQE has no last descriptor
// Time  3 cycles per packet, one packet per cycle while claims are completed, RDMA writes as
//       efa_rx_validate says; a packet whose
//       descriptors are pending waits in a list, with the later packets of its QP; after
//       rst an initialisation of 256 cycles, or 2^QPN_W if that is more; no packet is accepted
//       before s_open
//
// Stage 1 has the QP context of the packet and claims, stage 2 waits for the response, stage 3 is
// the job. A packet that parks goes from stage 2 to the list of efa_rx_park and enters again.
`default_nettype none
`include "efa_defs.vh"

module efa_rx_accept #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire s_open,
    output wire m_init_done,

    input wire s_pkt_valid,
    output wire s_pkt_ready,
    input wire [`EFA_RX_PKT__W-1:0] s_pkt_data,
    output wire [QPN_W-1:0] qpc_rd_addr,
    input wire [`EFA_QPC__W-1:0] qpc_rd_data,
    input wire s_ah_valid,
    input wire [`EFA_LIMITS__AH_W-1:0] s_ah_index,
    input wire [`EFA_AHC__W-1:0] s_ah_data,
    input wire s_mr_valid,
    input wire [`EFA_LIMITS__MR_W-1:0] s_mr_index,
    input wire [`EFA_MRC__W-1:0] s_mr_data,

    output wire m_claim_valid,
    input wire m_claim_ready,
    output wire [`EFA_RX_CLAIM__W-1:0] m_claim_data,
    input wire s_rsp_valid,
    output wire s_rsp_ready,
    input wire [`EFA_RX_CLAIM_RSP__W-1:0] s_rsp_data,
    output wire m_claim_done,
    input wire s_arrived,

    output wire m_job_valid,
    input wire m_job_ready,
    output wire [`EFA_RX_JOB__W-1:0] m_job_data,
    output wire [`EFA_RX_CHECK__W-1:0] m_job_check,

    output wire m_look_valid,
    input wire m_look_ready,
    output wire [`EFA_READ_LOOK__W-1:0] m_look_data,
    input wire s_found,
    input wire [`EFA_READ_CTX__W-1:0] s_found_read,
    output wire m_request_valid,
    input wire m_request_ready,
    output wire [`EFA_READ_JOB__W-1:0] m_request_data,
    output wire m_err_valid,
    input wire m_err_ready,
    output wire [QPN_W-1:0] m_err_qpn,
    output wire [3:0] m_err_cause,
    output wire st_qkey_valid
);

  wire park_init;
  wire validate_init;
  wire pkt_valid;
  wire pkt_ready;
  wire [`EFA_RX_PKT__W-1:0] pkt;
  wire blocked;
  wire step;
  wire end_valid;
  wire end_parked;
  wire [`EFA_RX_PKT__W-1:0] end_pkt;
  wire empty;
  assign m_init_done = park_init && validate_init;

  efa_rx_park #(
      .QPN_W(QPN_W)
  ) u_park (
      .clk(clk),
      .rst(rst),
      .m_init_done(park_init),
      .s_pkt_valid(s_pkt_valid),
      .s_pkt_ready(s_pkt_ready),
      .s_pkt_data(s_pkt_data),
      .m_pkt_valid(pkt_valid),
      .m_pkt_ready(pkt_ready),
      .m_pkt_data(pkt),
      .blocked_rd_addr(qpc_rd_addr),
      .blocked_rd_data(blocked),
      .s_step(step),
      .s_end_valid(end_valid),
      .s_end_parked(end_parked),
      .s_end_data(end_pkt),
      .s_empty(empty),
      .s_arrived(s_arrived)
  );

  efa_rx_validate #(
      .QPN_W(QPN_W)
  ) u_validate (
      .clk(clk),
      .rst(rst),
      .s_cfg_profile(s_cfg_profile),
      .s_open(s_open),
      .m_init_done(validate_init),
      .s_pkt_valid(pkt_valid),
      .s_pkt_ready(pkt_ready),
      .s_pkt_data(pkt),
      .qpc_rd_addr(qpc_rd_addr),
      .qpc_rd_data(qpc_rd_data),
      .blocked_rd_data(blocked),
      .s_ah_valid(s_ah_valid),
      .s_ah_index(s_ah_index),
      .s_ah_data(s_ah_data),
      .s_mr_valid(s_mr_valid),
      .s_mr_index(s_mr_index),
      .s_mr_data(s_mr_data),
      .m_claim_valid(m_claim_valid),
      .m_claim_ready(m_claim_ready),
      .m_claim_data(m_claim_data),
      .s_rsp_valid(s_rsp_valid),
      .s_rsp_ready(s_rsp_ready),
      .s_rsp_data(s_rsp_data),
      .m_claim_done(m_claim_done),
      .m_step(step),
      .m_end_valid(end_valid),
      .m_end_parked(end_parked),
      .m_end_data(end_pkt),
      .m_empty(empty),
      .m_job_valid(m_job_valid),
      .m_job_ready(m_job_ready),
      .m_job_data(m_job_data),
      .m_job_check(m_job_check),
      .m_look_valid(m_look_valid),
      .m_look_ready(m_look_ready),
      .m_look_data(m_look_data),
      .s_found(s_found),
      .s_found_read(s_found_read),
      .m_request_valid(m_request_valid),
      .m_request_ready(m_request_ready),
      .m_request_data(m_request_data),
      .m_err_valid(m_err_valid),
      .m_err_ready(m_err_ready),
      .m_err_qpn(m_err_qpn),
      .m_err_cause(m_err_cause),
      .st_qkey_valid(st_qkey_valid)
  );

endmodule

`default_nettype wire
