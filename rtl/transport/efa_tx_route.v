// SPDX-License-Identifier: Apache-2.0
// efa_tx_route - gives each SRD send to a node of the fabric its message context, and passes all other
// items.
//
// In    s_item: consumed WQEs and fences; s_next_data: the item that is at s_item in the next cycle
//       if this one leaves; s_cfg_profile; address handles as they are created and destroyed (held
//       here in a copy); s_ah_gen: their generations; s_ctx_free, s_ctx_id: the next
//       message context; s_popped_*: a context has left the posted ones
// Out   m_post: contexts to send; with it m_ctx_take, m_ctx_msg, m_ctx_bytes: the context is used, and
//       m_sent: its WQE, which is stored, m_read: its read, if it is one; m_item: the other items, in
//       order; m_ctx_held: contexts that are posted
// Time  same cycle, one item per cycle; m_ctx_held follows its cause by one cycle; after rst an
//       initialisation of one cycle for each address handle
//
// The other checks of the WQE follow at each transmission. A posted context is not reused, even if its
// message has ended.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_tx_route #(
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter CTX_W  = `EFA_LIMITS__MSG_W + 1
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire s_ah_valid,
    input wire [`EFA_LIMITS__AH_W-1:0] s_ah_index,
    input wire [`EFA_AHC__W-1:0] s_ah_data,
    input wire [4*(1<<`EFA_LIMITS__AH_W)-1:0] s_ah_gen,
    input wire s_item_valid,
    output wire s_item_ready,
    input wire [`EFA_WQE_IN__W-1:0] s_item_data,
    input wire [`EFA_WQE_IN__W-1:0] s_next_data,
    output wire m_item_valid,
    input wire m_item_ready,
    output wire [`EFA_WQE_IN__W-1:0] m_item_data,
    input wire s_ctx_free,
    input wire [31:0] s_ctx_id,
    output wire m_ctx_take,
    output wire [`EFA_TX_MSG__W-1:0] m_ctx_msg,
    output wire [31:0] m_ctx_bytes,
    output wire [`EFA_WQE_SENT__W-1:0] m_sent_data,
    output wire m_read_valid,
    output wire [`EFA_READ_CTX__W-1:0] m_read_data,
    output wire m_post_valid,
    input wire m_post_ready,
    output wire [`EFA_SRD_POST__W-1:0] m_post_data,
    input wire s_popped_valid,
    input wire [CTX_W-1:0] s_popped_index,
    output wire [(1<<CTX_W)-1:0] m_ctx_held
);

  `include "efa_rdma_fn.vh"

  localparam AH_W = `EFA_LIMITS__AH_W;
  localparam N = 1 << CTX_W;
  localparam [4:0] REQUEST_LOG = `EFA_TRANSPORT__READ_REQUEST_LOG;  // log2 of the bytes of a read request, but the last
  localparam [AH_W:0] ONE = 1;

  reg [AH_W:0] init_q;
  reg [N-1:0] held_q;

  reg [3:0] gen_q;  // generation of the handle, of the same cycle as the copy that was read
  reg [31:0] length_q;

  wire initializing = !init_q[AH_W];

  // The next item; its handle is read in the cycle in which it moves on.
  wire moves = !s_item_valid || s_item_ready;
  wire [1023:0] n_entry = s_next_data[`EFA_WQE_IN__ENTRY];
  wire [15:0] n_ah = n_entry[`EFA_IO_TX_WQE__META__AH];
  wire [15:0] n_count = n_entry[`EFA_IO_TX_WQE__META__LENGTH];
  wire [15:0] n_buffers = n_entry[`EFA_IO_TX_WQE__META__INLINE_MSG] ? 16'd0 : n_count;
  // The first buffer of an RDMA operation is remote, and has its length.
  wire n_rdma = is_rdma(n_entry[`EFA_IO_TX_WQE__META__OP_TYPE]);
  wire [31:0] n_len0 = n_rdma || n_buffers >= 16'd1 ? n_entry[`EFA_IO_TX_WQE__DATA__SGL__0__LENGTH] : 32'd0;
  wire [31:0] n_len1 = !n_rdma && n_buffers >= 16'd2 ? n_entry[`EFA_IO_TX_WQE__DATA__SGL__1__LENGTH] : 32'd0;

  wire [`EFA_AHC__W-1:0] handle;
  wire [1023:0] entry = s_item_data[`EFA_WQE_IN__ENTRY];
  wire [15:0] ah = entry[`EFA_IO_TX_WQE__META__AH];
  wire [15:0] node = handle[`EFA_AHC__NODE];
  wire [3:0] op_type = s_item_data[`EFA_WQE_IN__OP_TYPE];
  wire handle_ok = ah >> AH_W == 16'd0 && handle[`EFA_AHC__LIVE]
      && handle[`EFA_AHC__PD] == s_item_data[`EFA_WQE_IN__PD];
  wire writes = entry[`EFA_IO_TX_WQE__META__OP_TYPE] == `EFA_IO_SEND_OP_TYPE__RDMA_WRITE;
  wire reads = entry[`EFA_IO_TX_WQE__META__OP_TYPE] == `EFA_IO_SEND_OP_TYPE__RDMA_READ;
  wire empty = length_q == 32'd0;
  wire [31:0] last_byte = length_q - 32'd1;
  wire [31:0] last = last_byte >> (reads ? REQUEST_LOG : {1'b0, packet_log(s_cfg_profile)});
  wire is_wqe = !s_item_data[`EFA_WQE_IN__BARRIER] && !s_item_data[`EFA_WQE_IN__FLUSH]
      && !s_item_data[`EFA_WQE_IN__INCOMPLETE];
  wire takes = is_wqe && s_item_data[`EFA_WQE_IN__SRD] && handle_ok && handle[`EFA_AHC__FABRIC]
      && node >> NODE_W == 16'd0;
  wire post = m_post_valid && m_post_ready;

  reg [`EFA_TX_MSG__W-1:0] ctx_msg;
  reg [`EFA_WQE_SENT__W-1:0] sent;
  reg [`EFA_SRD_POST__W-1:0] post_data;
  reg [`EFA_READ_CTX__W-1:0] read;
  always @* begin
    ctx_msg = {`EFA_TX_MSG__W{1'b0}};
    ctx_msg[`EFA_TX_MSG__NODE] = node;
    ctx_msg[`EFA_TX_MSG__QPN] = s_item_data[`EFA_WQE_IN__QPN];
    ctx_msg[`EFA_TX_MSG__QP_NUM] = s_item_data[`EFA_WQE_IN__QP_NUM];
    ctx_msg[`EFA_TX_MSG__SCQN] = s_item_data[`EFA_WQE_IN__SCQN];
    ctx_msg[`EFA_TX_MSG__SSUB] = s_item_data[`EFA_WQE_IN__SSUB];
    ctx_msg[`EFA_TX_MSG__REQ_ID] = s_item_data[`EFA_WQE_IN__REQ_ID];
    ctx_msg[`EFA_TX_MSG__REQ_ID_EX] = s_item_data[`EFA_WQE_IN__REQ_ID_EX];
    ctx_msg[`EFA_TX_MSG__OP_TYPE] = op_type[2:0];
    ctx_msg[`EFA_TX_MSG__AH] = ah;
    ctx_msg[`EFA_TX_MSG__AH_GEN] = gen_q;
    sent[`EFA_WQE_SENT__ID] = s_ctx_id;
    sent[`EFA_WQE_SENT__AH_GEN] = gen_q;
    sent[`EFA_WQE_SENT__QPN] = s_item_data[`EFA_WQE_IN__QPN];
    sent[`EFA_WQE_SENT__MSG] = s_item_data[`EFA_WQE_IN__MSG];
    sent[`EFA_WQE_SENT__PD] = s_item_data[`EFA_WQE_IN__PD];
    sent[`EFA_WQE_SENT__QP_NUM] = s_item_data[`EFA_WQE_IN__QP_NUM];
    sent[`EFA_WQE_SENT__SCQN] = s_item_data[`EFA_WQE_IN__SCQN];
    sent[`EFA_WQE_SENT__SSUB] = s_item_data[`EFA_WQE_IN__SSUB];
    sent[`EFA_WQE_SENT__WQE128] = s_item_data[`EFA_WQE_IN__WQE128];
    sent[`EFA_WQE_SENT__REQ_ID] = s_item_data[`EFA_WQE_IN__REQ_ID];
    sent[`EFA_WQE_SENT__OP_TYPE] = op_type;
    sent[`EFA_WQE_SENT__REQ_ID_EX] = s_item_data[`EFA_WQE_IN__REQ_ID_EX];
    sent[`EFA_WQE_SENT__ENTRY] = entry;
    post_data = {`EFA_SRD_POST__W{1'b0}};
    post_data[`EFA_SRD_POST__RNR_RETRY] = s_item_data[`EFA_WQE_IN__RNR_RETRY];
    post_data[`EFA_SRD_POST__NODE] = node;
    post_data[`EFA_SRD_POST__ID] = s_ctx_id;
    // An operation that is too long is refused at its first transmission.
    if ((writes || reads) && !empty) post_data[`EFA_SRD_POST__LAST] = last[17:0];
    post_data[`EFA_SRD_POST__WAITS] = writes && entry[`EFA_IO_TX_WQE__META__HAS_IMM];
    post_data[`EFA_SRD_POST__READ] = reads;
    if (!empty) post_data[`EFA_SRD_POST__REST] = {1'b0, last_byte[15:0]} + 17'd1;
    read = {`EFA_READ_CTX__W{1'b0}};
    read[`EFA_READ_CTX__ID] = s_ctx_id;
    read[`EFA_READ_CTX__NODE] = node;
    read[`EFA_READ_CTX__QP_NUM] = s_item_data[`EFA_WQE_IN__QP_NUM];
    read[`EFA_READ_CTX__PD] = s_item_data[`EFA_WQE_IN__PD];
    read[`EFA_READ_CTX__LKEY] = entry[`EFA_IO_TX_WQE__DATA__SGL__1__LKEY__LKEY];
    read[`EFA_READ_CTX__ADDR] = {
      entry[`EFA_IO_TX_WQE__DATA__SGL__1__BUF_ADDR_HI], entry[`EFA_IO_TX_WQE__DATA__SGL__1__BUF_ADDR_LO]
    };
    // No response fits an operation that is no read.
    read[`EFA_READ_CTX__TOTAL] = reads ? length_q : 32'd0;
  end

  assign m_init_done = !initializing;
  assign s_item_ready = takes ? s_ctx_free && m_post_ready : m_item_ready;
  assign m_item_valid = s_item_valid && !takes;
  assign m_item_data = s_item_data;
  assign m_ctx_take = post;
  assign m_ctx_msg = ctx_msg;
  assign m_ctx_bytes = length_q;
  assign m_sent_data = sent;
  assign m_read_valid = post;
  assign m_read_data = read;
  assign m_post_valid = s_item_valid && takes && s_ctx_free;
  assign m_post_data = post_data;
  assign m_ctx_held = held_q;

  efa_ram #(
      .WIDTH (`EFA_AHC__W),
      .ADDR_W(AH_W)
  ) u_handles (
      .clk(clk),
      .wr_en(initializing || s_ah_valid),
      .wr_addr(initializing ? init_q[AH_W-1:0] : s_ah_index),
      .wr_data(initializing ? {`EFA_AHC__W{1'b0}} : s_ah_data),
      .rd_en(moves),
      .rd_addr(n_ah[AH_W-1:0]),
      .rd_data(handle)
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {AH_W + 1{1'b0}};
      held_q <= {N{1'b0}};
    end else begin
      if (initializing) init_q <= init_q + ONE;
      // A post comes last, so that it wins.
      if (s_popped_valid) held_q[s_popped_index] <= 1'b0;
      if (post) held_q[s_ctx_id[CTX_W-1:0]] <= 1'b1;
    end
  end

  always @(posedge clk) begin
    if (moves) begin
      gen_q <= s_ah_gen[{n_ah[AH_W-1:0], 2'b00}+:4];
      length_q <= n_entry[`EFA_IO_TX_WQE__META__INLINE_MSG] && !n_rdma ? {16'd0, n_count}
          : n_len0 + n_len1;
    end
  end

  wire unused_bits = &{1'b0, s_next_data, n_ah, n_entry, entry, handle, last[31:18]};

  `EFA_CHECK(!post || !held_q[s_ctx_id[CTX_W-1:0]], "a posted context is posted again")

endmodule

`default_nettype wire
