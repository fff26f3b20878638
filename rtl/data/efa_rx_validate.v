// SPDX-License-Identifier: Apache-2.0
// efa_rx_validate - validates received packets against QP state and claims a receive WQE for each.
//
// In    s_pkt a stored packet; qpc_rd_data the context of its QP; blocked_rd_data: an earlier
//       packet of the QP is parked; s_rsp the response of efa_rq_pop; s_ah_* address handles and
//       s_mr_* regions as they are created and destroyed; s_cfg_profile says whether the device
//       executes RDMA
// Out   qpc_rd_addr the QP whose packet may claim in the next cycle; m_claim the claim of each
//       packet, which follows the context until it is accepted; m_job the job of the packet,
//       provided that the buffers of m_job_check are valid; m_claim_done: a job leaves; m_step: a
//       claim is accepted; m_end the packet whose response is accepted, m_end_parked: it waits
//       for its descriptors; m_empty: no packet is between s_pkt and m_end; m_err a QP whose
//       receive WQE has no last descriptor
// Time  3 cycles per packet, one packet per cycle while claims are completed; an RDMA write or read
//       request 6, one every 5, m_request of it 5; a read response 9, one every 8; no packet is validated while a WQE without last descriptor is being reported,
//       until its QP context shows ERR
//
// An RDMA write looks up its peer and its region before it claims (efa_rx_lookup): a refused one consumes
// no receive WQE.
`default_nettype none
`include "efa_defs.vh"

module efa_rx_validate #(
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
    input wire blocked_rd_data,
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

    output wire m_step,
    output wire m_end_valid,
    output wire m_end_parked,
    output wire [`EFA_RX_PKT__W-1:0] m_end_data,
    output wire m_empty,

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

  localparam HDR_W = `EFA_PKT_HDR__BITS;
  localparam RDMA_W = `EFA_PKT_RDMA__BITS;
  localparam LOC_W = `EFA_MR_LOC__W;
  localparam PKT_W = `EFA_RX_PKT__W;
  localparam [15:0] GRH_BYTES = `EFA_LIMITS__GRH_BYTES;
  localparam [15:0] RDMA_BYTES = `EFA_PKT_RDMA__BYTES;
  localparam [7:0] OK = `EFA_IO_COMP_STATUS__OK;

  `include "efa_admin_fn.vh"

  // ---- stage 1: its QP context; the packet stalls here for claims or an error report ----
  reg valid1_q;
  reg [PKT_W-1:0] pkt1_q;
  wire step = m_claim_valid && m_claim_ready;
  wire stays1 = valid1_q && !step;
  wire [HDR_W-1:0] header1 = pkt1_q[`EFA_RX_PKT__HEADER];
  wire [7:0] opcode1 = header1[`EFA_PKT_HDR__OPCODE];
  wire srd1 = opcode1 != `EFA_PKT_OPCODE__UD_SEND;
  wire rdma1 = srd1 && opcode1 != `EFA_PKT_OPCODE__SRD_SEND;
  // All other RDMA packets are refused.
  wire reads = capable(s_cfg_profile, `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__RDMA_READ);
  wire request1 = reads && opcode1 == `EFA_PKT_OPCODE__READ_REQUEST;
  wire response1 = reads && opcode1 == `EFA_PKT_OPCODE__READ_RESPONSE;
  wire write1 = opcode1 == `EFA_PKT_OPCODE__RDMA_WRITE && capable(
      s_cfg_profile, `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__RDMA_WRITE
  );
  wire [15:0] length1 = header1[`EFA_PKT_HDR__LENGTH];
  wire [15:0] src_node1 = header1[`EFA_PKT_HDR__SRC_NODE];
  wire [15:0] dst_qpn1 = header1[`EFA_PKT_HDR__DST_QPN];
  // No byte of an RDMA packet is placed in buffers of a receive WQE.
  wire [16:0] need1 = rdma1 ? 17'd0 : {1'b0, length1} + (srd1 ? 17'd0 : {1'b0, GRH_BYTES});
  wire [HDR_W-1:0] header0 = s_pkt_data[`EFA_RX_PKT__HEADER];
  wire [15:0] dst_qpn0 = header0[`EFA_PKT_HDR__DST_QPN];
  wire [2:0] qp_state = qpc_rd_data[`EFA_QPC__STATE];
  wire can_receive = qp_state ==
  `EFA_ADMIN_QP_STATE__RTR_W3
  || qp_state == `EFA_ADMIN_QP_STATE__RTS_W3 || qp_state ==
  `EFA_ADMIN_QP_STATE__SQD_W3
  || qp_state == `EFA_ADMIN_QP_STATE__SQE_W3;
  wire there = qpc_rd_data[`EFA_QPC__LIVE] && qpc_rd_data[`EFA_QPC__QP_NUM] == dst_qpn1
      && qpc_rd_data[`EFA_QPC__SRD] == srd1 && can_receive;
  wire key_fits = qpc_rd_data[`EFA_QPC__QKEY] == header1[`EFA_PKT_HDR__QKEY];
  wire cut1 = length1 < RDMA_BYTES;  // a write without its whole RDMA header
  wire quiet1 = request1 || response1
      || (write1 && !(header1[`EFA_PKT_HDR__HAS_IMM] && !qpc_rd_data[`EFA_QPC__UNSOLICITED]));

  // ---- stage 2: the receive WQE that it claimed ----
  reg valid2_q;
  reg [PKT_W-1:0] pkt2_q;
  reg blocked2_q;
  reg srd2_q;
  reg write2_q;  // an RDMA write that is executed
  reg quiet2_q;  // it needs no receive WQE
  reg response2_q;  // a read response
  reg found2_q;  // of a read in progress
  reg [`EFA_READ_PLACED__W-1:0] placed2_q;
  reg [7:0] refusal2_q;
  reg [LOC_W-1:0] loc2_q;
  reg wrong_key2_q;
  reg [16:0] need2_q;
  reg [9:0] pd2_q;
  reg [11:0] rcqn2_q;
  reg rsub2_q;
  wire [HDR_W-1:0] header2 = pkt2_q[`EFA_RX_PKT__HEADER];
  wire [15:0] src_node2 = header2[`EFA_PKT_HDR__SRC_NODE];
  wire [15:0] dst_qpn2 = header2[`EFA_PKT_HDR__DST_QPN];
  wire [RDMA_W-1:0] rdma2 = pkt2_q[`EFA_RX_PKT__RDMA];
  wire [31:0] total2 = rdma2[`EFA_PKT_RDMA__TOTAL];
  wire places2 = found2_q && placed2_q[`EFA_READ_PLACED__STATUS] == OK;
  wire data2 = write2_q || places2;
  wire [15:0] payload2 = header2[`EFA_PKT_HDR__LENGTH] - (data2 ? RDMA_BYTES : 16'd0);
  wire skipped = s_rsp_data[`EFA_RX_CLAIM_RSP__SKIPPED];
  wire failed = s_rsp_data[`EFA_RX_CLAIM_RSP__FAILED];
  wire none = s_rsp_data[`EFA_RX_CLAIM_RSP__NONE];
  wire complete = s_rsp_data[`EFA_RX_CLAIM_RSP__COMPLETE];
  wire short = s_rsp_data[`EFA_RX_CLAIM_RSP__SHORT];
  wire [1:0] count = s_rsp_data[`EFA_RX_CLAIM_RSP__COUNT];
  wire [255:0] descs = s_rsp_data[`EFA_RX_CLAIM_RSP__DESCS];
  wire [127:0] desc0 = descs[127:0];
  wire [127:0] desc1 = descs[255:128];
  wire [15:0] size0 = desc0[`EFA_IO_RX_DESC__LENGTH];
  wire [15:0] size1 = desc1[`EFA_IO_RX_DESC__LENGTH];

  // ---- stage 3: the job ----
  reg job_valid_q;
  reg endless_q;  // the WQE has no last descriptor
  reg wrong_key_q;
  reg [`EFA_RX_JOB__W-1:0] job_q;
  reg [1:0] req_q;
  reg [255:0] descs_q;
  reg [9:0] pd_q;

  // ---- report of a WQE without last descriptor; its completion went first ----
  // The next packet may be for the same QP, so it waits two cycles until the context shows ERR.
  reg err_q;
  reg [1:0] settle_q;
  reg [QPN_W-1:0] err_qpn_q;
  wire reporting = err_q || settle_q != 2'd0;

  // Look-up of stage 1, and the address handle of the sender of stage 2.
  wire [9:0] qp_pd = qpc_rd_data[`EFA_QPC__PD];
  wire holds1;
  wire peer1;
  wire region1;
  wire [LOC_W-1:0] loc1;
  wire found1;
  wire [`EFA_READ_PLACED__W-1:0] placed1;
  wire [15:0] ah;
  wire checks1 = valid1_q && (write1 || request1) && !cut1 && !blocked_rd_data && there && key_fits;
  // The read does not find its response again, so no earlier packet of its QP may park any more.
  wire finds1 = valid1_q && response1 && !cut1 && !blocked_rd_data;

  efa_rx_lookup #(
      .QPN_W(QPN_W)
  ) u_lookup (
      .clk(clk),
      .rst(rst),
      .m_init_done(m_init_done),
      .s_ah_valid(s_ah_valid),
      .s_ah_index(s_ah_index),
      .s_ah_data(s_ah_data),
      .s_mr_valid(s_mr_valid),
      .s_mr_index(s_mr_index),
      .s_mr_data(s_mr_data),
      .s_pkt_data(pkt1_q),
      .s_pkt_pd(qp_pd),
      .s_request(request1),
      .s_response(response1),
      .s_check(checks1),
      .s_find(finds1),
      .s_behind(valid2_q),
      .s_step(step),
      .s_step_send(step && !rdma1),
      .m_hold(holds1),
      .m_peer(peer1),
      .m_region(region1),
      .m_loc(loc1),
      .m_found(found1),
      .m_placed(placed1),
      .s_node(src_node2),
      .m_ah(ah),
      .m_look_valid(m_look_valid),
      .m_look_ready(m_look_ready),
      .m_look_data(m_look_data),
      .s_found(s_found),
      .s_found_read(s_found_read),
      .m_request_valid(m_request_valid),
      .m_request_ready(m_request_ready),
      .m_request_data(m_request_data)
  );

  reg [7:0] refusal1;  // of an RDMA packet
  always @* begin
    refusal1 = OK;
    if (rdma1) begin
      // A response that fits no read is dropped: its sender needs no outcome.
      if (response1) refusal1 = OK;
      else if (!write1 && !request1) refusal1 = `EFA_IO_COMP_STATUS__REMOTE_ERROR_FEATURE_MISMATCH;
      else if (cut1) refusal1 = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_STATUS;
      else if (!(there && key_fits)) refusal1 = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_DEST_QPN;
      else if (!peer1) refusal1 = `EFA_IO_COMP_STATUS__REMOTE_ERROR_UNKNOWN_PEER;
      else if (!region1) refusal1 = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_ADDRESS;
    end
  end

  wire job_accepted = m_job_valid && m_job_ready;
  wire reports_next = job_valid_q && endless_q;
  wire skip = blocked_rd_data || refusal1 != OK || quiet1 || !(there && key_fits);
  reg [`EFA_RX_CLAIM__W-1:0] claim;
  always @* begin
    claim = {`EFA_RX_CLAIM__W{1'b0}};
    claim[`EFA_RX_CLAIM__QPN] = {{(12 - QPN_W) {1'b0}}, dst_qpn1[QPN_W-1:0]};
    claim[`EFA_RX_CLAIM__HOLD] = reporting || reports_next || holds1;
    claim[`EFA_RX_CLAIM__SKIP] = skip;
    claim[`EFA_RX_CLAIM__BLOCKED] = blocked_rd_data;
    claim[`EFA_RX_CLAIM__NEED] = need1;
  end
  assign s_pkt_ready = s_open && !stays1;
  assign qpc_rd_addr = stays1 ? dst_qpn1[QPN_W-1:0] : dst_qpn0[QPN_W-1:0];
  assign m_claim_valid = valid1_q;
  assign m_claim_data = claim;
  assign m_step = step;
  wire parks = blocked2_q || s_rsp_data[`EFA_RX_CLAIM_RSP__MISSING];
  wire job_space = !job_valid_q || job_accepted;
  assign s_rsp_ready = parks || job_space;
  assign m_end_valid = s_rsp_valid && s_rsp_ready;
  assign m_end_parked = parks;
  assign m_end_data = pkt2_q;
  assign m_empty = !valid1_q && !valid2_q;
  assign m_claim_done = job_accepted;
  // One error report at a time.
  assign m_job_valid = job_valid_q && !(endless_q && reporting);
  assign m_err_valid = err_q;
  assign m_err_qpn = err_qpn_q;
  assign m_err_cause = `EFA_QP_ERROR__NO_LAST;

  // Decision from the claim response.
  wire good = quiet2_q || (!skipped && !failed && !none && complete && !short);
  wire endless = !skipped && !failed && !none && !complete;
  wire executes = good && write2_q;
  wire has_imm2 = header2[`EFA_PKT_HDR__HAS_IMM];
  wire completes = endless || (good && (quiet2_q ? write2_q && has_imm2 : !write2_q || has_imm2));
  reg [7:0] status;  // status of the acknowledgement
  always @* begin
    if (refusal2_q != OK) begin
      status = refusal2_q;
    end else if (quiet2_q) begin
      status = OK;
    end else if (skipped || failed) begin
      status = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_DEST_QPN;
    end else if (none) begin
      status = `EFA_IO_COMP_STATUS__REMOTE_ERROR_RNR;
    end else if (!complete) begin
      status = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_STATUS;
    end else if (short) begin
      // A WQE that is too small stays for the next message.
      status = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_LENGTH;
    end else begin
      status = OK;
    end
  end

  always @(posedge clk) begin
    if (!stays1) pkt1_q <= s_pkt_data;
    if (step) begin
      pkt2_q <= pkt1_q;
      blocked2_q <= blocked_rd_data;
      srd2_q <= srd1;
      write2_q <= write1 && refusal1 == OK;
      quiet2_q <= quiet1 && refusal1 == OK;
      response2_q <= response1;
      found2_q <= found1;
      placed2_q <= placed1;
      refusal2_q <= refusal1;
      loc2_q <= loc1;
      wrong_key2_q <= there && !key_fits && (!rdma1 || ((write1 || request1) && !cut1)) && !blocked_rd_data;
      need2_q <= need1;
      pd2_q <= qp_pd;
      rcqn2_q <= qpc_rd_data[`EFA_QPC__RCQN];
      rsub2_q <= qpc_rd_data[`EFA_QPC__RSUB];
    end
    if (job_space) begin
      endless_q <= endless;
      wrong_key_q <= wrong_key2_q;
      job_q <= job;
      req_q <= good ? {need2_q > {1'b0, size0}, need2_q != 17'd0 && size0 != 16'd0} : 2'b00;
      descs_q <= descs;
      pd_q <= pd2_q;
    end
    if (job_accepted && endless_q) err_qpn_q <= job_qpn[QPN_W-1:0];
    settle_q <= {settle_q[0], m_err_valid && m_err_ready};
    if (rst) begin
      valid1_q <= 1'b0;
      valid2_q <= 1'b0;
      job_valid_q <= 1'b0;
      err_q <= 1'b0;
      settle_q <= 2'd0;
    end else begin
      valid1_q <= (s_pkt_valid && s_open) || stays1;
      valid2_q <= step || (valid2_q && !m_end_valid);
      if (job_space) job_valid_q <= s_rsp_valid && !parks;
      err_q <= (job_accepted && endless_q) || (err_q && !m_err_ready);
    end
  end

  reg [`EFA_CPL__W-1:0] cpl;
  reg [`EFA_ACK_TX__W-1:0] ack_tx;
  reg [`EFA_RX_JOB__W-1:0] job;
  always @* begin
    cpl = {`EFA_CPL__W{1'b0}};
    cpl[`EFA_CPL__RX] = 1'b1;
    cpl[`EFA_CPL__QPN] = {{(12 - QPN_W) {1'b0}}, dst_qpn2[QPN_W-1:0]};
    cpl[`EFA_CPL__QP_NUM] = dst_qpn2;
    cpl[`EFA_CPL__CQN] = rcqn2_q;
    cpl[`EFA_CPL__SUB] = rsub2_q;
    cpl[`EFA_CPL__REQ_ID] = completes && !quiet2_q ? desc0[`EFA_IO_RX_DESC__REQ_ID] : 16'd0;
    cpl[`EFA_CPL__STATUS] = endless ?
    `EFA_IO_COMP_STATUS__LOCAL_ERROR_QP_INTERNAL_ERROR
    : `EFA_IO_COMP_STATUS__OK;
    cpl[`EFA_CPL__OP_TYPE] = executes ? `EFA_IO_SEND_OP_TYPE__RDMA_WRITE_W3
        : `EFA_IO_SEND_OP_TYPE__SEND_W3;
    cpl[`EFA_CPL__HAS_IMM] = header2[`EFA_PKT_HDR__HAS_IMM];
    cpl[`EFA_CPL__LENGTH] = executes ? total2[15:0] : need2_q[15:0];
    cpl[`EFA_CPL__LENGTH_HI] = executes ? total2[31:16] : 16'd0;
    cpl[`EFA_CPL__UNSOLICITED] = quiet2_q;
    cpl[`EFA_CPL__AH] = ah;
    cpl[`EFA_CPL__SRC_QPN] = header2[`EFA_PKT_HDR__SRC_QPN];
    cpl[`EFA_CPL__IMM] = header2[`EFA_PKT_HDR__IMM];
    cpl[`EFA_CPL__SRC_NODE] = src_node2;
    ack_tx = {`EFA_ACK_TX__W{1'b0}};
    ack_tx[`EFA_ACK_TX__DST_NODE] = src_node2;
    ack_tx[`EFA_ACK_TX__DST_QPN] = header2[`EFA_PKT_HDR__SRC_QPN];
    ack_tx[`EFA_ACK_TX__SRC_QPN] = dst_qpn2;
    ack_tx[`EFA_ACK_TX__STATUS] = status;
    ack_tx[`EFA_ACK_TX__PSN] = header2[`EFA_PKT_HDR__PSN];
    ack_tx[`EFA_ACK_TX__MSG_ID] = header2[`EFA_PKT_HDR__MSG_ID];
    ack_tx[`EFA_ACK_TX__PATH] = header2[`EFA_PKT_HDR__PATH];
    job = {`EFA_RX_JOB__W{1'b0}};
    job[`EFA_RX_JOB__PACKET] = 1'b1;
    job[`EFA_RX_JOB__WRITE] = good && (data2 ? payload2 != 16'd0 : need2_q != 17'd0);
    job[`EFA_RX_JOB__RDMA] = good && data2;
    job[`EFA_RX_JOB__DROP] = response2_q && !found2_q;
    job[`EFA_RX_JOB__READ] = found2_q;
    job[`EFA_RX_JOB__PLACED] = placed2_q;
    job[`EFA_RX_JOB__OFFSET] = data2 ? rdma2[`EFA_PKT_RDMA__OFFSET] : 32'd0;
    job[`EFA_RX_JOB__SGE0_LOC] = loc2_q;
    job[`EFA_RX_JOB__GRH] = !srd2_q;
    job[`EFA_RX_JOB__LENGTH] = payload2;
    job[`EFA_RX_JOB__LINE] = {7'd0, pkt2_q[`EFA_RX_PKT__LINE]};
    job[`EFA_RX_JOB__SLOT] = {8'd0, pkt2_q[`EFA_RX_PKT__SLOT]};
    job[`EFA_RX_JOB__SIZE0] = data2 ? payload2 : size0;
    job[`EFA_RX_JOB__SIZE1] = count[1] ? size1 : 16'd0;
    job[`EFA_RX_JOB__COMPLETE] = completes;
    job[`EFA_RX_JOB__COUNT] = quiet2_q ? 2'd0 : count;
    job[`EFA_RX_JOB__CPL] = cpl;
    job[`EFA_RX_JOB__ACK] = srd2_q;
    job[`EFA_RX_JOB__ACK_TX] = ack_tx;
  end
  wire [`EFA_CPL__W-1:0] job_cpl = job_q[`EFA_RX_JOB__CPL];
  wire [11:0] job_qpn = job_cpl[`EFA_CPL__QPN];
  assign m_job_data = job_q;
  assign m_job_check[`EFA_RX_CHECK__REQ] = req_q;
  assign m_job_check[`EFA_RX_CHECK__PD] = pd_q;
  assign m_job_check[`EFA_RX_CHECK__DESCS] = descs_q;
  assign st_qkey_valid = job_accepted && wrong_key_q;

  wire unused_bits = &{1'b0, desc0, desc1, qpc_rd_data, dst_qpn0, header0,
                       header1, header2, need2_q[16], src_node1, job_cpl, job_qpn, rdma2, s_cfg_profile};

endmodule

`default_nettype wire
