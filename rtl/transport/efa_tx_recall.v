// SPDX-License-Identifier: Apache-2.0
// efa_tx_recall - reads the WQE of each transmission back and merges transmissions with other items.
//
// In    s_send: transmissions, with s_send_now: that of the context whose WQE came in the cycle before;
//       s_sent_*: the WQE of a new context; s_item: items without a context; response_rd_data: read
//       response of response_rd_addr, read with response_rd_en; s_response_live: contexts of read
//       responses that may carry payload; s_ctx_used: contexts of sends that have not ended; s_ah_gen:
//       generations of address handles; halted_rd_data: the QP of halted_rd_addr is halted, one cycle
//       later
// Out   m_item: items to check; m_gone: transmissions that are not made, because their send has ended,
//       its QP is halted, or its address handle is destroyed
// Time  m_item 3 cycles after s_send, 1 after s_item; in the cycle of s_send with s_send_now, if nothing
//       waits here and the transmission is made; one per cycle; m_gone 3 cycles
//
// Order: an item that leaves by m_item is ahead of all that is accepted later. A transmission is made
// if it may be made in the cycle of m_item at the latest, so none follows a fence that its QP caused. A
// response that is not live is made, but its region is none, so it carries no payload.
//
// b1 has read the WQE, b2 knows whether it is sent, o is the output. c has the WQE of the cycle before. A
// transmission with s_send_now that does not leave from there is not accepted.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_tx_recall #(
    parameter QPN_W = 6,
    parameter CTX_W = `EFA_LIMITS__MSG_W + 1,
    parameter READS_W = `EFA_TRANSPORT__READS_W  // log2 of the contexts of read responses
) (
    input wire clk,
    input wire rst,
    input wire s_sent_valid,
    input wire [`EFA_WQE_SENT__W-1:0] s_sent_data,
    input wire s_send_valid,
    output wire s_send_ready,
    input wire [`EFA_SRD_SEND__W-1:0] s_send_data,
    input wire s_send_now,
    input wire s_item_valid,
    output wire s_item_ready,
    input wire [`EFA_WQE_IN__W-1:0] s_item_data,
    output wire response_rd_en,
    output wire [CTX_W-1:0] response_rd_addr,
    input wire [`EFA_READ_RESPONSE__W-1:0] response_rd_data,
    input wire [(1<<READS_W)-1:0] s_response_live,
    input wire [(1<<CTX_W)-1:0] s_ctx_used,
    input wire [4*(1<<`EFA_LIMITS__AH_W)-1:0] s_ah_gen,
    output wire [QPN_W-1:0] halted_rd_addr,
    input wire halted_rd_data,
    output wire m_item_valid,
    input wire m_item_ready,
    output wire [`EFA_WQE_IN__W-1:0] m_item_data,
    output wire m_gone_valid,
    input wire m_gone_ready,
    output wire [`EFA_SRD_GONE__W-1:0] m_gone_data
);

  localparam AH_W = `EFA_LIMITS__AH_W;

  reg c_valid_q;
  reg c_looked_q;  // halted_rd_data is of its QP
  reg [`EFA_WQE_SENT__W-1:0] c_sent_q;
  reg b1_valid_q;
  reg [`EFA_SRD_SEND__W-1:0] b1_send_q;
  reg b1_old_q;  // its context is that of another send now
  reg b1_ended_q;  // its context was not that of a live response
  reg b2_valid_q;
  reg b2_old_q;
  reg b2_ended_q;
  reg [`EFA_SRD_SEND__W-1:0] b2_send_q;
  reg [`EFA_WQE_SENT__W-1:0] b2_sent_q;
  reg o_valid_q;
  reg [`EFA_WQE_IN__W-1:0] o_item_q;
  reg gone_valid_q;
  reg [`EFA_SRD_GONE__W-1:0] gone_q;

  wire [`EFA_WQE_SENT__W-1:0] b1_sent;
  wire [31:0] s_id = s_send_data[`EFA_SRD_SEND__ID];
  wire [31:0] sent_id = s_sent_data[`EFA_WQE_SENT__ID];
  wire [11:0] sent_qpn = s_sent_data[`EFA_WQE_SENT__QPN];
  wire [1023:0] c_entry = c_sent_q[`EFA_WQE_SENT__ENTRY];
  wire [15:0] c_ah = c_entry[`EFA_IO_TX_WQE__META__AH];
  wire [31:0] c_id = c_sent_q[`EFA_WQE_SENT__ID];
  wire [11:0] b1_qpn = b1_sent[`EFA_WQE_SENT__QPN];
  wire [11:0] b2_qpn = b2_sent_q[`EFA_WQE_SENT__QPN];
  wire [1023:0] b2_entry = b2_sent_q[`EFA_WQE_SENT__ENTRY];
  wire [31:0] b1_id = b1_send_q[`EFA_SRD_SEND__ID];
  wire b1_old = b1_old_q || (s_sent_valid && sent_id[CTX_W-1:0] == b1_id[CTX_W-1:0]);
  // Its context may be that of another request meanwhile.
  wire b1_ended = b1_ended_q || !s_response_live[b1_id[READS_W-1:0]];
  wire b2_ended = b2_ended_q || !s_response_live[b2_id[READS_W-1:0]];
  wire [15:0] b2_ah = b2_entry[`EFA_IO_TX_WQE__META__AH];
  wire [31:0] b2_id = b2_send_q[`EFA_SRD_SEND__ID];
  wire b1_response = b1_send_q[`EFA_SRD_SEND__KIND] == `EFA_PACKET_KIND__RESPONSE;
  wire b2_response = b2_send_q[`EFA_SRD_SEND__KIND] == `EFA_PACKET_KIND__RESPONSE;

  wire may_send = !b2_old_q && s_ctx_used[b2_id[CTX_W-1:0]]
      && s_ah_gen[{b2_ah[AH_W-1:0], 2'b00}+:4] == b2_sent_q[`EFA_WQE_SENT__AH_GEN] && !halted_rd_data;
  wire may = b2_sent_q[`EFA_WQE_SENT__ID] == b2_id && (b2_response || may_send);
  wire o_free = !o_valid_q || m_item_ready;
  wire gone_free = !gone_valid_q || m_gone_ready;
  wire [1:0] grant;
  wire sends = grant[1];
  wire ends = b2_valid_q && !may && gone_free;
  wire b2_free = !b2_valid_q || sends || ends;
  wire b1_free = !b1_valid_q || b2_free;

  // A response as a WQE of its QP: the region of the peer's request is its local buffer.
  reg [`EFA_WQE_SENT__W-1:0] response;
  reg [1023:0] response_entry;
  wire [`EFA_READ_JOB__W-1:0] job = response_rd_data[`EFA_READ_RESPONSE__JOB];
  always @* begin
    response_entry = 1024'd0;
    response_entry[`EFA_IO_TX_WQE__META__DEST_QP_NUM] = job[`EFA_READ_JOB__DST_QPN];
    response_entry[`EFA_IO_TX_WQE__META__LENGTH] = 16'd1;
    response_entry[`EFA_IO_TX_WQE__DATA__RDMA_REQ__REMOTE_MEM__LENGTH] =
        job[`EFA_READ_JOB__TOTAL];
    response_entry[`EFA_IO_TX_WQE__DATA__RDMA_REQ__REMOTE_MEM__RKEY] =
        job[`EFA_READ_JOB__OFFSET];
    response_entry[`EFA_IO_TX_WQE__DATA__RDMA_REQ__REMOTE_MEM__BUF_ADDR_LO] =
        {15'd0, job[`EFA_READ_JOB__COUNT]};
    response_entry[`EFA_IO_TX_WQE__DATA__RDMA_REQ__REMOTE_MEM__BUF_ADDR_HI] =
        job[`EFA_READ_JOB__READ_ID];
    response_entry[`EFA_IO_TX_WQE__DATA__SGL__1__LENGTH] = job[`EFA_READ_JOB__TOTAL];
    response_entry[`EFA_IO_TX_WQE__DATA__SGL__1__LKEY__LKEY] = job[`EFA_READ_JOB__RKEY];
    {response_entry[`EFA_IO_TX_WQE__DATA__SGL__1__BUF_ADDR_HI],
     response_entry[`EFA_IO_TX_WQE__DATA__SGL__1__BUF_ADDR_LO]} = job[`EFA_READ_JOB__ADDR];
    response = {`EFA_WQE_SENT__W{1'b0}};
    response[`EFA_WQE_SENT__ID] = response_rd_data[`EFA_READ_RESPONSE__ID];
    response[`EFA_WQE_SENT__QPN] = job[`EFA_READ_JOB__QPN];
    response[`EFA_WQE_SENT__PD] = job[`EFA_READ_JOB__PD];
    response[`EFA_WQE_SENT__QP_NUM] = job[`EFA_READ_JOB__QP_NUM];
    response[`EFA_WQE_SENT__OP_TYPE] = `EFA_IO_SEND_OP_TYPE__RDMA_READ;
    response[`EFA_WQE_SENT__ENTRY] = response_entry;
  end

  // A transmission that does not wait.
  wire none_waits = !b1_valid_q && !b2_valid_q;
  wire c_may = c_valid_q && c_looked_q && s_ctx_used[c_id[CTX_W-1:0]]
      && s_ah_gen[{c_ah[AH_W-1:0], 2'b00}+:4] == c_sent_q[`EFA_WQE_SENT__AH_GEN] && !halted_rd_data;
  wire c_goes = c_may && none_waits && !o_valid_q && !s_item_valid;
  wire c_leaves = s_send_valid && s_send_now && c_goes;

  wire [`EFA_WQE_SENT__W-1:0] sent = none_waits ? c_sent_q : b2_sent_q;
  wire [`EFA_SRD_SEND__W-1:0] send = none_waits ? s_send_data : b2_send_q;
  wire hollow = !none_waits && b2_response && b2_ended;
  reg [1023:0] entry;
  reg [`EFA_WQE_IN__W-1:0] item;
  reg [`EFA_SRD_GONE__W-1:0] gone;
  always @* begin
    entry = sent[`EFA_WQE_SENT__ENTRY];
    // No region has key 0.
    if (hollow) entry[`EFA_IO_TX_WQE__DATA__SGL__1__LKEY__LKEY] = 24'd0;
    item = {`EFA_WQE_IN__W{1'b0}};
    item[`EFA_WQE_IN__QPN] = sent[`EFA_WQE_SENT__QPN];
    item[`EFA_WQE_IN__MSG] = sent[`EFA_WQE_SENT__MSG];
    item[`EFA_WQE_IN__SRD] = 1'b1;
    item[`EFA_WQE_IN__PD] = sent[`EFA_WQE_SENT__PD];
    item[`EFA_WQE_IN__QP_NUM] = sent[`EFA_WQE_SENT__QP_NUM];
    item[`EFA_WQE_IN__SCQN] = sent[`EFA_WQE_SENT__SCQN];
    item[`EFA_WQE_IN__SSUB] = sent[`EFA_WQE_SENT__SSUB];
    item[`EFA_WQE_IN__WQE128] = sent[`EFA_WQE_SENT__WQE128];
    item[`EFA_WQE_IN__REQ_ID] = sent[`EFA_WQE_SENT__REQ_ID];
    item[`EFA_WQE_IN__OP_TYPE] = sent[`EFA_WQE_SENT__OP_TYPE];
    item[`EFA_WQE_IN__REQ_ID_EX] = sent[`EFA_WQE_SENT__REQ_ID_EX];
    item[`EFA_WQE_IN__ENTRY] = entry;
    item[`EFA_WQE_IN__SENT] = 1'b1;
    item[`EFA_WQE_IN__SEND] = send;
    item[`EFA_WQE_IN__RESPONSE] = send[`EFA_SRD_SEND__KIND] == `EFA_PACKET_KIND__RESPONSE;
    gone[`EFA_SRD_GONE__NODE] = b2_send_q[`EFA_SRD_SEND__NODE];
    gone[`EFA_SRD_GONE__SESSION] = b2_send_q[`EFA_SRD_SEND__SESSION];
    gone[`EFA_SRD_GONE__PSN] = b2_send_q[`EFA_SRD_SEND__PSN];
  end

  assign s_send_ready = s_send_now ? c_goes : b1_free;
  assign response_rd_en = b1_free;
  assign response_rd_addr = s_id[CTX_W-1:0];
  assign s_item_ready = grant[0];
  assign halted_rd_addr = none_waits ? sent_qpn[QPN_W-1:0] : b2_free ? b1_qpn[QPN_W-1:0] : b2_qpn[QPN_W-1:0];
  assign m_item_valid = o_valid_q || c_leaves;
  assign m_item_data = o_valid_q ? o_item_q : item;
  assign m_gone_valid = gone_valid_q;
  assign m_gone_data = gone_q;

  efa_arb #(
      .N(2)
  ) u_arb (
      .clk(clk),
      .rst(rst),
      .s_request(o_free ? {b2_valid_q && may, s_item_valid} : 2'b00),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  efa_ram #(
      .WIDTH (`EFA_WQE_SENT__W),
      .ADDR_W(CTX_W)
  ) u_sent (
      .clk(clk),
      .wr_en(s_sent_valid),
      .wr_addr(sent_id[CTX_W-1:0]),
      .wr_data(s_sent_data),
      .rd_en(b1_free),
      .rd_addr(s_id[CTX_W-1:0]),
      .rd_data(b1_sent)
  );

  always @(posedge clk) begin
    if (rst) begin
      c_valid_q <= 1'b0;
      b1_valid_q <= 1'b0;
      b2_valid_q <= 1'b0;
      o_valid_q <= 1'b0;
      gone_valid_q <= 1'b0;
    end else begin
      c_valid_q <= s_sent_valid;
      if (b1_free) b1_valid_q <= s_send_valid && !s_send_now;
      if (b2_free) b2_valid_q <= b1_valid_q;
      if (o_free) o_valid_q <= grant != 2'b00 || (c_leaves && !m_item_ready);
      if (gone_free) gone_valid_q <= b2_valid_q && !may;
    end
  end

  always @(posedge clk) begin
    c_looked_q <= none_waits;
    c_sent_q <= s_sent_data;
    if (b1_free) b1_send_q <= s_send_data;
    b1_ended_q <= !b1_free && b1_ended;
    b2_ended_q <= b2_free ? b1_ended : b2_ended;
    b1_old_q <= b1_free ? s_sent_valid && sent_id[CTX_W-1:0] == s_id[CTX_W-1:0] : b1_old;
    b2_old_q <= b2_free ? b1_old : b2_old_q || (s_sent_valid && sent_id[CTX_W-1:0] == b2_id[CTX_W-1:0]);
    if (b2_free) begin
      b2_send_q <= b1_send_q;
      b2_sent_q <= b1_response ? response : b1_sent;
    end
    if (o_free) o_item_q <= grant[0] ? s_item_data : item;
    if (gone_free) gone_q <= gone;
  end

  wire unused_bits = &{1'b0, job, c_entry, b2_entry, sent, s_id, sent_id, b1_sent, b1_id, b1_qpn, b2_qpn, b2_ah, b2_id,
                       sent_qpn, c_ah, c_id};

  `EFA_CHECK(!c_leaves || s_send_data[`EFA_SRD_SEND__ID] == c_id, "transmission of another context")

endmodule

`default_nettype wire
