// SPDX-License-Identifier: Apache-2.0
// efa_wqe_check - validates send WQEs and resolves their address handles and buffers.
//
// In    s_item consumed WQEs and fences (EFA_WQE_IN); address handles and regions as they are
//       created and destroyed (held here in copies)
// Out   m message (EFA_TX_MSG), its two buffers (EFA_SGE), its inline bytes
// Time  2 cycles, one WQE per cycle, in order; all stages stall while m_ready is low
//
// The first failed check sets the status. Decision 0001 defines the order of the checks, decision 0010
// that of RDMA. An RDMA operation is checked as a whole; the message is one of its packets. A read
// response is always sent: without payload, and with a status, if its region has gone.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_wqe_check (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire s_mr_valid,
    input wire [`EFA_LIMITS__MR_W-1:0] s_mr_index,
    input wire [`EFA_MRC__W-1:0] s_mr_data,
    input wire s_ah_valid,
    input wire [`EFA_LIMITS__AH_W-1:0] s_ah_index,
    input wire [`EFA_AHC__W-1:0] s_ah_data,
    input wire [4*(1<<`EFA_LIMITS__AH_W)-1:0] s_ah_gen,
    input wire s_item_valid,
    output wire s_item_ready,
    input wire [`EFA_WQE_IN__W-1:0] s_item_data,
    output wire m_valid,
    input wire m_ready,
    output wire [`EFA_TX_MSG__W-1:0] m_msg,
    output wire [`EFA_SGE__W-1:0] m_first,
    output wire [`EFA_SGE__W-1:0] m_second,
    output wire [767:0] m_inline,
    output wire ev_check_valid,
    output wire [63:0] ev_check_data
);

  `include "efa_admin_fn.vh"
  `include "efa_rdma_fn.vh"

  localparam AH_W = `EFA_LIMITS__AH_W;
  localparam [AH_W:0] ONE = 1;
  localparam [15:0] INLINE_64 = `EFA_LIMITS__INLINE_64;
  localparam [15:0] INLINE_128 = `EFA_LIMITS__INLINE_128;
  localparam [15:0] MAX_SGES = `EFA_LIMITS__MAX_SEND_SGES;
  localparam [31:0] A_BYTE = 1;
  localparam [4:0] REQUEST_LOG = `EFA_TRANSPORT__READ_REQUEST_LOG;
  localparam [16:0] REQUEST = 1 << `EFA_TRANSPORT__READ_REQUEST_LOG;  // bytes of a read request, but the last

  reg [AH_W:0] init_q;
  reg [`EFA_WQE_IN__W-1:0] k_item_q;
  reg [31:0] k_len0_q;
  reg [31:0] k_len1_q;
  reg [31:0] k_whole_q;  // bytes of an RDMA operation, or of the request of a response
  reg [31:0] k_last_q;  // place of the last of them
  reg [3:0] k_gen_q;  // generation of the handle, of the same cycle as the copy that was read
  reg [`EFA_TX_MSG__W-1:0] j_msg_q;
  reg j_nowhere_q;
  reg j_rdma_q;
  reg [767:0] j_inline_q;

  wire initializing = !init_q[AH_W];
  wire move;
  wire [`EFA_AHC__W-1:0] handle;

  // k: a WQE, its handle and regions being read; j: validated except for its regions
  wire [1023:0] s_entry = s_item_data[`EFA_WQE_IN__ENTRY];
  wire [15:0] s_ah = s_entry[`EFA_IO_TX_WQE__META__AH];
  wire [9:0] s_pd = s_item_data[`EFA_WQE_IN__PD];
  wire s_response = s_item_data[`EFA_WQE_IN__RESPONSE];
  wire s_read = s_entry[`EFA_IO_TX_WQE__META__OP_TYPE] == `EFA_IO_SEND_OP_TYPE__RDMA_READ;
  wire s_rdma = s_response || is_rdma(s_entry[`EFA_IO_TX_WQE__META__OP_TYPE]);
  // Lengths of both buffers; 0 for an absent buffer. The first one of an RDMA operation is remote.
  wire [15:0] s_buffers = s_entry[`EFA_IO_TX_WQE__META__INLINE_MSG] ? 16'd0
      : s_entry[`EFA_IO_TX_WQE__META__LENGTH];
  wire [31:0] s_len0 = s_rdma || s_buffers >= 16'd1 ? s_entry[`EFA_IO_TX_WQE__DATA__SGL__0__LENGTH] : 32'd0;
  wire [31:0] s_len1 = s_buffers >= (s_rdma ? 16'd1 : 16'd2) ? s_entry[`EFA_IO_TX_WQE__DATA__SGL__1__LENGTH] : 32'd0;

  wire [31:0] s_whole = s_response ? s_entry[`EFA_IO_TX_WQE__DATA__RDMA_REQ__REMOTE_MEM__BUF_ADDR_LO] : s_len0;

  wire [1:0] second_access = s_response ? `EFA_MR_ACCESS__REMOTE_READ_W2
      : s_read ? `EFA_MR_ACCESS__LOCAL_WRITE_W2 : `EFA_MR_ACCESS__READ_W2;

  wire [1023:0] entry = k_item_q[`EFA_WQE_IN__ENTRY];
  wire [15:0] ah = entry[`EFA_IO_TX_WQE__META__AH];
  wire [15:0] count = entry[`EFA_IO_TX_WQE__META__LENGTH];
  wire inlined = entry[`EFA_IO_TX_WQE__META__INLINE_MSG];
  wire [9:0] pd = k_item_q[`EFA_WQE_IN__PD];
  wire srd = k_item_q[`EFA_WQE_IN__SRD];
  wire has_imm = entry[`EFA_IO_TX_WQE__META__HAS_IMM];

  wire [32:0] length = inlined ? {17'd0, count} : {1'b0, k_len0_q} + {1'b0, k_len1_q};

  wire well_formed = entry[`EFA_IO_TX_WQE__META__META_DESC] && entry[`EFA_IO_TX_WQE__META__FIRST]
      && entry[`EFA_IO_TX_WQE__META__LAST] && entry[`EFA_IO_TX_WQE__META__COMP_REQ]
      && !entry[`EFA_IO_TX_WQE__META__META_EXTENSION] && !entry[`EFA_IO_TX_WQE__META__RESERVED25]
      && entry[`EFA_IO_TX_WQE__META__RESERVED29] == 3'd0;
  wire is_send = entry[`EFA_IO_TX_WQE__META__OP_TYPE] == `EFA_IO_SEND_OP_TYPE__SEND;
  wire response = k_item_q[`EFA_WQE_IN__RESPONSE];
  wire is_write = srd
      && entry[`EFA_IO_TX_WQE__META__OP_TYPE] == `EFA_IO_SEND_OP_TYPE__RDMA_WRITE
      && capable(s_cfg_profile, `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__RDMA_WRITE);
  wire is_read = srd
      && entry[`EFA_IO_TX_WQE__META__OP_TYPE] == `EFA_IO_SEND_OP_TYPE__RDMA_READ
      && capable(s_cfg_profile, `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__RDMA_READ);
  wire executes = is_write || is_read;
  wire [15:0] inline_most = k_item_q[`EFA_WQE_IN__WQE128] ? INLINE_128 : is_write ? 16'd0 : INLINE_64;
  wire [15:0] most_sges = executes ? `EFA_PROFILE__MAX_WR_RDMA_SGES(16, s_cfg_profile) : MAX_SGES;
  wire counted = count <= (inlined ? inline_most : most_sges) && !(is_read && inlined);
  wire handle_ok = ah >> AH_W == 16'd0 && handle[`EFA_AHC__LIVE] && handle[`EFA_AHC__PD] == pd;
  wire [31:0] local_length = inlined ? {16'd0, count} : k_len1_q;
  wire fits = executes ? local_length == k_len0_q && k_len0_q <= `EFA_PROFILE__MAX_RDMA_SIZE(32, s_cfg_profile)
      : length <= `EFA_PROFILE__MTU(33, s_cfg_profile);

  // The packet of an RDMA operation.
  wire [`EFA_SRD_SEND__W-1:0] send = k_item_q[`EFA_WQE_IN__SEND];
  wire [3:0] unit_log = packet_log(s_cfg_profile);
  wire [15:0] unit = 16'd1 << unit_log;
  wire [31:0] part = {14'd0, send[`EFA_SRD_SEND__PART]};
  // The last number of a part requests 0 bytes.
  wire asks = is_read && &send[`EFA_SRD_SEND__PART];
  wire [31:0] place = asks ? k_len0_q : part << (is_read ? REQUEST_LOG : {1'b0, unit_log});
  // A response is a part of the bytes of its request, from the offset of the request on.
  wire [31:0] base = response ? entry[`EFA_IO_TX_WQE__DATA__RDMA_REQ__REMOTE_MEM__RKEY] : 32'd0;
  // The number of the last part is known before the difference of the whole and place.
  wire empty = k_whole_q == 32'd0;
  wire final_part = empty || k_last_q >> unit_log == part;
  wire final_request = asks || empty || k_last_q >> REQUEST_LOG == part;
  wire [16:0] left = k_whole_q[16:0] - place[16:0];  // bytes of the final part
  wire [15:0] part_length = final_part ? left[15:0] : unit;
  wire [15:0] bytes = is_read ? 16'd0 : is_write || response ? part_length : length[15:0];
  wire [16:0] requested = final_request ? left : REQUEST;

  wire sends_imm = has_imm && (is_send || (is_write && final_part));
  wire [3:0] op_type = k_item_q[`EFA_WQE_IN__OP_TYPE];
  wire nowhere = srd && !response && (!handle[`EFA_AHC__FABRIC] || (!k_item_q[`EFA_WQE_IN__SENT]));

  reg [7:0] status;
  always @* begin
    status = `EFA_IO_COMP_STATUS__OK;
    if (response) status = `EFA_IO_COMP_STATUS__OK;
    else if (k_item_q[`EFA_WQE_IN__FLUSH]) status = `EFA_IO_COMP_STATUS__FLUSHED;
    else if (k_item_q[`EFA_WQE_IN__INCOMPLETE])
      status = `EFA_IO_COMP_STATUS__LOCAL_ERROR_QP_INTERNAL_ERROR;
    else if (!well_formed) status = `EFA_IO_COMP_STATUS__LOCAL_ERROR_QP_INTERNAL_ERROR;
    else if (!is_send && !executes) status = `EFA_IO_COMP_STATUS__LOCAL_ERROR_UNSUPPORTED_OP;
    else if (!counted) status = `EFA_IO_COMP_STATUS__LOCAL_ERROR_QP_INTERNAL_ERROR;
    else if (!handle_ok) status = `EFA_IO_COMP_STATUS__LOCAL_ERROR_INVALID_AH;
    else if (!fits) status = `EFA_IO_COMP_STATUS__LOCAL_ERROR_BAD_LENGTH;
  end

  reg [`EFA_TX_MSG__W-1:0] request;
  always @* begin
    request = {`EFA_TX_MSG__W{1'b0}};
    request[`EFA_TX_MSG__KIND] = k_item_q[`EFA_WQE_IN__BARRIER] ? `EFA_TX_KIND__BARRIER : `EFA_TX_KIND__PACKET;
    request[`EFA_TX_MSG__FENCE] = k_item_q[`EFA_WQE_IN__FENCE];
    request[`EFA_TX_MSG__STATUS] = status;
    request[`EFA_TX_MSG__QPN] = k_item_q[`EFA_WQE_IN__QPN];
    request[`EFA_TX_MSG__MSG] = k_item_q[`EFA_WQE_IN__MSG];
    request[`EFA_TX_MSG__SRD] = srd;
    request[`EFA_TX_MSG__QP_NUM] = k_item_q[`EFA_WQE_IN__QP_NUM];
    request[`EFA_TX_MSG__SCQN] = k_item_q[`EFA_WQE_IN__SCQN];
    request[`EFA_TX_MSG__SSUB] = k_item_q[`EFA_WQE_IN__SSUB];
    request[`EFA_TX_MSG__REQ_ID] = k_item_q[`EFA_WQE_IN__REQ_ID];
    request[`EFA_TX_MSG__REQ_ID_EX] = k_item_q[`EFA_WQE_IN__REQ_ID_EX];
    request[`EFA_TX_MSG__OP_TYPE] = op_type[2:0];
    request[`EFA_TX_MSG__DST_QPN] = entry[`EFA_IO_TX_WQE__META__DEST_QP_NUM];
    request[`EFA_TX_MSG__NODE] = response ? send[`EFA_SRD_SEND__NODE]
        : handle[`EFA_AHC__FABRIC] ? handle[`EFA_AHC__NODE] : 16'hffff;
    request[`EFA_TX_MSG__QKEY] = entry[`EFA_IO_TX_WQE__META__QKEY];
    request[`EFA_TX_MSG__HAS_IMM] = sends_imm;
    request[`EFA_TX_MSG__IMM] = sends_imm ? entry[`EFA_IO_TX_WQE__META__IMMEDIATE_DATA] : 32'd0;
    // The length may be truncated only in a refused WQE, whose length is not used.
    request[`EFA_TX_MSG__LENGTH] = bytes;
    request[`EFA_TX_MSG__OFFSET] = executes || response ? base + place : 32'd0;
    request[`EFA_TX_MSG__COUNT] = is_read ? requested : 17'd0;
    request[`EFA_TX_MSG__RESPONSE] = response;
    // A message without bytes needs no gathering, like an inline message.
    request[`EFA_TX_MSG__INLINED] = inlined || bytes == 16'd0;
    request[`EFA_TX_MSG__AH] = ah;
    request[`EFA_TX_MSG__AH_GEN] = k_gen_q;
    request[`EFA_TX_MSG__SENT] = k_item_q[`EFA_WQE_IN__SENT];
    request[`EFA_TX_MSG__SEND] = k_item_q[`EFA_WQE_IN__SEND];
  end

  wire first_ok;
  wire second_ok;
  wire second_valid;
  wire second_ready;
  wire second_init;
  wire first_init;
  wire first_user;
  wire second_user;
  wire [31:0] first_len;
  wire [31:0] second_len;
  wire [`EFA_MR_LOC__W-1:0] second_loc;
  wire [`EFA_TX_MSG__W-1:0] checked = j_msg_q;

  reg [`EFA_MR_LOC__W-1:0] part_loc;
  always @* begin
    part_loc = second_loc;
    part_loc[`EFA_MR_LOC__START] = second_loc[`EFA_MR_LOC__START] + {32'd0, checked[`EFA_TX_MSG__OFFSET]};
  end

  reg [`EFA_TX_MSG__W-1:0] msg;
  always @* begin
    msg = checked;
    if (checked[`EFA_TX_MSG__STATUS] == `EFA_IO_COMP_STATUS__OK) begin
      if (checked[`EFA_TX_MSG__RESPONSE]) begin
        // The initiator learns that its region of this device has gone.
        if (!second_ok) begin
          msg[`EFA_TX_MSG__STATUS] = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_ADDRESS;
          msg[`EFA_TX_MSG__LENGTH] = 16'd0;
          msg[`EFA_TX_MSG__INLINED] = 1'b1;
        end
      end else if (!first_ok || !second_ok) begin
        msg[`EFA_TX_MSG__STATUS] = `EFA_IO_COMP_STATUS__LOCAL_ERROR_INVALID_LKEY;
      end else if (j_nowhere_q) begin
        msg[`EFA_TX_MSG__STATUS] = `EFA_IO_COMP_STATUS__LOCAL_ERROR_UNREACH_REMOTE;
      end
    end
    if (checked[`EFA_TX_MSG__KIND] ==
        `EFA_TX_KIND__PACKET
        && !checked[`EFA_TX_MSG__RESPONSE] &&
            msg[`EFA_TX_MSG__STATUS] != `EFA_IO_COMP_STATUS__OK) begin
      msg[`EFA_TX_MSG__KIND] = `EFA_TX_KIND__COMPLETION;
    end
  end

  reg [63:0] event_data;
  always @* begin
    event_data = 64'd0;
    event_data[`EFA_EV_CHECK__QPN] = msg[`EFA_TX_MSG__QPN];
    event_data[`EFA_EV_CHECK__MSG] = msg[`EFA_TX_MSG__MSG];
    event_data[`EFA_EV_CHECK__STATUS] = msg[`EFA_TX_MSG__STATUS];
  end

  assign m_init_done = !initializing && first_init && second_init;
  assign s_item_ready = move;
  assign m_msg = msg;
  assign m_inline = j_inline_q;
  assign m_first[`EFA_SGE__LEN] = first_len[15:0];
  assign m_second[`EFA_SGE__LEN] = j_rdma_q ? checked[`EFA_TX_MSG__LENGTH] : second_len[15:0];
  assign m_second[`EFA_SGE__LOC] = part_loc;
  assign ev_check_valid = m_valid && m_ready && !msg[`EFA_TX_MSG__RESPONSE]
      && msg[`EFA_TX_MSG__KIND] != `EFA_TX_KIND__BARRIER;
  assign ev_check_data = event_data;

  efa_ram #(
      .WIDTH (`EFA_AHC__W),
      .ADDR_W(AH_W)
  ) u_handles (
      .clk(clk),
      .wr_en(initializing || s_ah_valid),
      .wr_addr(initializing ? init_q[AH_W-1:0] : s_ah_index),
      .wr_data(initializing ? {`EFA_AHC__W{1'b0}} : s_ah_data),
      .rd_en(move),
      .rd_addr(s_ah[AH_W-1:0]),
      .rd_data(handle)
  );

  efa_mr_check #(
      .USER_W(1),
      .EARLY (1)
  ) u_first (
      .clk(clk),
      .rst(rst),
      .m_init_done(first_init),
      .s_mr_valid(s_mr_valid),
      .s_mr_index(s_mr_index),
      .s_mr_data(s_mr_data),
      .s_valid(s_item_valid),
      .s_ready(move),
      .s_key(s_entry[`EFA_IO_TX_WQE__DATA__SGL__0__LKEY__LKEY]),
      .s_pd(s_pd),
      .s_addr({
        s_entry[`EFA_IO_TX_WQE__DATA__SGL__0__BUF_ADDR_HI],
        s_entry[`EFA_IO_TX_WQE__DATA__SGL__0__BUF_ADDR_LO]
      }),
      .s_len(s_rdma ? 32'd0 : s_len0),
      .s_access(`EFA_MR_ACCESS__READ_W2),
      .s_user(1'b0),
      .m_valid(m_valid),
      .m_ready(m_ready),
      .m_ok(first_ok),
      .m_loc(m_first[`EFA_SGE__LOC]),
      .m_len(first_len),
      .m_user(first_user)
  );

  efa_mr_check #(
      .USER_W(1),
      .EARLY (1)
  ) u_second (
      .clk(clk),
      .rst(rst),
      .m_init_done(second_init),
      .s_mr_valid(s_mr_valid),
      .s_mr_index(s_mr_index),
      .s_mr_data(s_mr_data),
      .s_valid(s_item_valid),
      .s_ready(second_ready),
      .s_key(s_entry[`EFA_IO_TX_WQE__DATA__SGL__1__LKEY__LKEY]),
      .s_pd(s_pd),
      .s_addr({
        s_entry[`EFA_IO_TX_WQE__DATA__SGL__1__BUF_ADDR_HI],
        s_entry[`EFA_IO_TX_WQE__DATA__SGL__1__BUF_ADDR_LO]
      }),
      .s_len(s_len1),
      .s_access(second_access),
      .s_user(1'b0),
      .m_valid(second_valid),
      .m_ready(m_ready),
      .m_ok(second_ok),
      .m_loc(second_loc),
      .m_len(second_len),
      .m_user(second_user)
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {AH_W + 1{1'b0}};
    end else begin
      if (initializing) init_q <= init_q + ONE;
    end
  end

  always @(posedge clk) begin
    if (move) begin
      k_item_q <= s_item_data;
      k_len0_q <= s_len0;
      k_len1_q <= s_len1;
      k_whole_q <= s_whole;
      k_last_q <= s_whole - A_BYTE;
      k_gen_q  <= s_ah_gen[{s_ah[AH_W-1:0], 2'b00}+:4];
      j_msg_q <= request;
      j_nowhere_q <= nowhere;
      j_rdma_q <= is_write || response;
      j_inline_q <= entry[1023:256];
    end
  end

  wire unused_bits = &{1'b0, k_item_q[`EFA_WQE_IN__RNR_RETRY], send, s_ah, s_entry, entry, second_user,
                       first_user, op_type[3]};
  wire unused_lengths = &{1'b0, first_len[31:16], second_len[31:16]};

  `EFA_CHECK(m_valid == second_valid && move == second_ready, "the two checks lost their alignment")

endmodule

`default_nettype wire
