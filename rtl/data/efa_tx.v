// SPDX-License-Identifier: Apache-2.0
// efa_tx - sends messages in the order in which they were checked, each as one packet.
//
// In    s checked messages; s_rd_cpl payload; halted_rd_data: the QP of halted_rd_addr is halted,
//       one cycle later; s_ctx_used: contexts of sends that have not ended
// Out   m_rd payload reads; m flits, completions without a packet, and fences, in order;
//       m_read_err_*: a payload read failed; m_unused_valid: an SRD message ended without a context
// Time  first flit 2 cycles after a message without reads, 3 after the last read completion of a
//       message; one flit per cycle, messages back to back, also messages of one flit
//
// Flit i of a packet is line i of the message in the payload buffer. The payload starts after the
// space for the header, or for both headers of an RDMA packet, so gathering is only a byte position.
//
// An SRD message is a transmission of a context, with its number. A read response whose
// payload cannot be read leaves without payload, and with a status. A failed read of a send
// that has ended meanwhile is no error of its QP.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_tx #(
    parameter QPN_W = 6,
    parameter MTT_W = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire [15:0] s_cfg_node_id,
    input wire [3:0] s_cfg_mrrs_log,
    input wire s_mtt_valid,
    input wire [`EFA_LIMITS__MTT_W-1:0] s_mtt_index,
    input wire [51:0] s_mtt_data,
    input wire s_valid,
    output wire s_ready,
    input wire [`EFA_TX_MSG__W-1:0] s_msg,
    input wire [`EFA_SGE__W-1:0] s_first,
    input wire [`EFA_SGE__W-1:0] s_second,
    input wire [767:0] s_inline,
    output wire m_rd_valid,
    input wire m_rd_ready,
    output wire [`EFA_DMA_RD__W-1:0] m_rd_data,
    input wire s_rd_cpl_valid,
    input wire [`EFA_DMA_RD_CPL__W-1:0] s_rd_cpl_data,
    output wire [QPN_W-1:0] halted_rd_addr,
    input wire halted_rd_data,
    output wire m_read_err_valid,
    output wire [QPN_W-1:0] m_read_err_qpn,
    output wire m_unused_valid,
    input wire [(2<<`EFA_LIMITS__MSG_W)-1:0] s_ctx_used,
    output wire m_valid,
    input wire m_ready,
    output wire m_net,
    output wire m_done,
    output wire m_first,
    output wire m_last,
    output wire [511:0] m_data,
    output wire [63:0] m_keep,
    output wire [`EFA_TX_MSG__W-1:0] m_msg
);

  localparam SLOT_W = 8;
  localparam LINE_W = 9;
  localparam HDR_BITS = `EFA_PKT_HDR__BITS;
  localparam [15:0] HDR = `EFA_PKT_HDR__BYTES;
  localparam [15:0] RDMA_HDR = `EFA_PKT_HDR__BYTES + `EFA_PKT_RDMA__BYTES;
  localparam [SLOT_W-1:0] ONE_SLOT = 1;
  localparam [SLOT_W:0] ONE_LISTED = 1;
  localparam [LINE_W-1:0] ONE_LINE = 1;

  // l0: the next message of the list
  reg [SLOT_W-1:0] head_q;
  reg [SLOT_W:0] listed_q;  // messages from head_q on

  // The QP of the next message of the list, stored in the cycle of its read.
  reg head_now_q;
  reg [QPN_W-1:0] head_now_qpn_q;

  // l1: a message that waits for its payload, then leaves line by line. A message without payload
  // reads bypasses the list while the list is empty.
  reg l1_valid_q;
  reg l1_bypass_q;
  reg [`EFA_TX_MSG__W+767:0] l1_item_q;
  reg [SLOT_W-1:0] l1_slot_q;
  reg l1_ready_q;
  reg l1_failed_q;
  reg l1_begun_q;
  reg [7:0] l1_flit_q;
  reg [LINE_W-1:0] line_q;

  // l2: a flit with its line
  reg l2_valid_q;
  reg l2_net_q;
  reg l2_done_q;
  reg l2_first_q;
  reg l2_last_q;
  reg l2_odd_q;  // the flit index is odd
  reg [`EFA_TX_MSG__W-1:0] l2_msg_q;
  reg [767:0] l2_inline_q;

  wire slot_valid;
  wire [SLOT_W-1:0] slot_index;
  wire [7:0] slot_reads;
  wire [`EFA_TX_MSG__W-1:0] slot_msg;
  wire [767:0] slot_inline;
  wire [(1<<SLOT_W)-1:0] ready;
  wire [(1<<SLOT_W)-1:0] failed;
  wire [511:0] line_data;

  wire now_ready;
  wire now_failed;
  wire [SLOT_W-1:0] now_slot;
  wire alloc_idle;

  wire [`EFA_TX_MSG__W+767:0] list_item;
  wire [`EFA_TX_MSG__W-1:0] msg;
  wire [767:0] msg_inline;
  assign {msg_inline, msg} = l1_bypass_q ? l1_item_q : list_item;
  wire [15:0] length = msg[`EFA_TX_MSG__LENGTH];
  wire [1:0] kind = msg[`EFA_TX_MSG__KIND];
  wire srd = msg[`EFA_TX_MSG__SRD];
  wire [11:0] msg_qpn = msg[`EFA_TX_MSG__QPN];
  wire is_packet = kind == `EFA_TX_KIND__PACKET;
  wire rdma = msg[`EFA_TX_MSG__OP_TYPE] != `EFA_IO_SEND_OP_TYPE__SEND_W3;
  wire response = msg[`EFA_TX_MSG__RESPONSE];
  wire [15:0] last_byte = length + (rdma ? RDMA_HDR : HDR) - 16'd1;
  // A response whose payload cannot be read has one flit.
  wire hollow = response && l1_failed_q;
  wire [7:0] full_index = last_byte[13:6];
  wire [7:0] last_index = hollow ? 8'd0 : full_index;
  wire [7:0] flits = full_index + 8'd1;
  wire [LINE_W-1:0] lines = is_packet && !msg[`EFA_TX_MSG__INLINED] ? {1'b0, flits} : {LINE_W{1'b0}};

  // A halted QP sends nothing more: a datagram ends here, an SRD send when its context is flushed.
  wire sent = msg[`EFA_TX_MSG__SENT];
  wire [`EFA_SRD_SEND__W-1:0] send = msg[`EFA_TX_MSG__SEND];
  wire [31:0] send_id = send[`EFA_SRD_SEND__ID];
  wire open = s_ctx_used[send_id[`EFA_LIMITS__MSG_W:0]];

  wire in_error = is_packet && !response && !l1_begun_q && !l1_failed_q && halted_rd_data;
  wire sends = is_packet && (!l1_failed_q || response) && !in_error;
  wire last_flit = !sends || l1_flit_q == last_index;

  wire l2_move = !l2_valid_q || m_ready;
  wire l1_step = l1_valid_q && l1_ready_q && l2_move;
  wire l1_end = l1_step && last_flit;
  wire listed = listed_q != {SLOT_W + 1{1'b0}};
  wire l0_go = listed && (!l1_valid_q || l1_end);
  wire s_gathers = s_msg[`EFA_TX_MSG__KIND] == `EFA_TX_KIND__PACKET && !s_msg[`EFA_TX_MSG__INLINED];
  wire s_bypass = s_valid && !s_gathers && alloc_idle && !listed && (!l1_valid_q || l1_end);

  // The QP of the message that is at l1 in the next cycle.
  wire [SLOT_W-1:0] head_d = l0_go ? head_q + ONE_SLOT : head_q;
  wire [11:0] slot_qpn = slot_msg[`EFA_TX_MSG__QPN];
  wire [11:0] s_qpn = s_msg[`EFA_TX_MSG__QPN];
  wire [QPN_W-1:0] head_read;
  wire [QPN_W-1:0] head_qpn = head_now_q ? head_now_qpn_q : head_read;

  reg [`EFA_TX_MSG__W-1:0] out_msg;
  always @* begin
    out_msg = msg;
    if (is_packet && hollow) begin
      out_msg[`EFA_TX_MSG__STATUS]  = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_ADDRESS;
      out_msg[`EFA_TX_MSG__LENGTH]  = 16'd0;
      out_msg[`EFA_TX_MSG__INLINED] = 1'b1;
    end else if (is_packet && l1_failed_q) begin
      out_msg[`EFA_TX_MSG__STATUS] = `EFA_IO_COMP_STATUS__LOCAL_ERROR_QP_INTERNAL_ERROR;
    end else if (in_error) begin
      out_msg[`EFA_TX_MSG__STATUS] = `EFA_IO_COMP_STATUS__FLUSHED;
    end
  end

  wire l2_srd = l2_msg_q[`EFA_TX_MSG__SRD];
  wire [`EFA_SRD_SEND__W-1:0] l2_send = l2_msg_q[`EFA_TX_MSG__SEND];

  wire l2_rdma = l2_msg_q[`EFA_TX_MSG__OP_TYPE] != `EFA_IO_SEND_OP_TYPE__SEND_W3;
  wire l2_read = l2_msg_q[`EFA_TX_MSG__OP_TYPE] == `EFA_IO_SEND_OP_TYPE__RDMA_READ_W3;
  wire l2_response = l2_msg_q[`EFA_TX_MSG__RESPONSE];
  wire [15:0] l2_length = l2_msg_q[`EFA_TX_MSG__LENGTH];
  // The remote buffer stands in the WQE where inline bytes of a send do.
  wire [`EFA_IO_REMOTE_MEM_ADDR__BITS-1:0] remote = l2_inline_q[`EFA_IO_REMOTE_MEM_ADDR__BITS-1:0];

  reg [HDR_BITS-1:0] header;
  reg [`EFA_PKT_RDMA__BITS-1:0] rdma_header;
  always @* begin
    header = {HDR_BITS{1'b0}};
    header[`EFA_PKT_HDR__OPCODE] = l2_response ? `EFA_PKT_OPCODE__READ_RESPONSE
        : l2_read ? `EFA_PKT_OPCODE__READ_REQUEST : l2_rdma ? `EFA_PKT_OPCODE__RDMA_WRITE
        : l2_srd ? `EFA_PKT_OPCODE__SRD_SEND : `EFA_PKT_OPCODE__UD_SEND;
    header[`EFA_PKT_HDR__HAS_IMM] = l2_msg_q[`EFA_TX_MSG__HAS_IMM];
    header[`EFA_PKT_HDR__LENGTH] = l2_length + (l2_rdma ? RDMA_HDR - HDR : 16'd0);
    header[`EFA_PKT_HDR__SRC_QPN] = l2_msg_q[`EFA_TX_MSG__QP_NUM];
    header[`EFA_PKT_HDR__DST_QPN] = l2_msg_q[`EFA_TX_MSG__DST_QPN];
    header[`EFA_PKT_HDR__QKEY] = l2_msg_q[`EFA_TX_MSG__QKEY];
    header[`EFA_PKT_HDR__IMM] = l2_msg_q[`EFA_TX_MSG__IMM];
    header[`EFA_PKT_HDR__SRC_NODE] = s_cfg_node_id;
    header[`EFA_PKT_HDR__DST_NODE] = l2_msg_q[`EFA_TX_MSG__NODE];
    if (l2_srd) begin
      header[`EFA_SRD_HDR__PSN] = l2_send[`EFA_SRD_SEND__PSN];
      header[`EFA_SRD_HDR__SESSION] = l2_send[`EFA_SRD_SEND__SESSION];
      header[`EFA_SRD_HDR__INCARNATION] = l2_send[`EFA_SRD_SEND__INCARNATION];
      header[`EFA_SRD_HDR__PATH] = l2_send[`EFA_SRD_SEND__PATH];
      header[`EFA_SRD_HDR__BEHIND] = l2_send[`EFA_SRD_SEND__BEHIND];
    end
    rdma_header = {`EFA_PKT_RDMA__BITS{1'b0}};
    if (l2_response) begin
      rdma_header[`EFA_PKT_RDMA__READ_ID] = remote[`EFA_IO_REMOTE_MEM_ADDR__BUF_ADDR_HI];
      rdma_header[`EFA_PKT_RDMA__STATUS]  = l2_msg_q[`EFA_TX_MSG__STATUS];
    end else begin
      rdma_header[`EFA_PKT_RDMA__REMOTE_ADDR] = {
        remote[`EFA_IO_REMOTE_MEM_ADDR__BUF_ADDR_HI], remote[`EFA_IO_REMOTE_MEM_ADDR__BUF_ADDR_LO]
      };
      rdma_header[`EFA_PKT_RDMA__RKEY]  = remote[`EFA_IO_REMOTE_MEM_ADDR__RKEY];
      rdma_header[`EFA_PKT_RDMA__COUNT] = {15'd0, l2_msg_q[`EFA_TX_MSG__COUNT]};
      if (l2_read) rdma_header[`EFA_PKT_RDMA__READ_ID] = l2_send[`EFA_SRD_SEND__ID];
    end
    rdma_header[`EFA_PKT_RDMA__TOTAL] = remote[`EFA_IO_REMOTE_MEM_ADDR__LENGTH];
    rdma_header[`EFA_PKT_RDMA__OFFSET] = l2_msg_q[`EFA_TX_MSG__OFFSET];
  end

  wire l2_inlined = l2_msg_q[`EFA_TX_MSG__INLINED];
  // Inline bytes of a write follow its remote buffer in the WQE. They are the second flit, which is odd,
  // and the third one.
  wire [511:0] inline_body = l2_rdma ? (l2_odd_q ? l2_inline_q[639:128] : {384'd0, l2_inline_q[767:640]})
      : l2_first_q ? {l2_inline_q[255:0], 256'd0} : {128'd0, l2_inline_q[639:256]};
  wire [511:0] plain_body = l2_inlined ? inline_body : line_data;
  wire [511:0] body = l2_rdma && l2_first_q ? {rdma_header, {HDR_BITS{1'b0}}} : plain_body;
  // 64 at most in a last flit; other flits do not use it.
  wire [6:0] l2_left = l2_length[6:0] + (l2_rdma ? RDMA_HDR[6:0] : HDR[6:0]) - {l2_odd_q, 6'd0};
  wire [63:0] keep = l2_last_q ? ~(~{64{1'b0}} << l2_left) : {64{1'b1}};

  // Stale bytes of the payload buffer must not follow the end of a packet.
  reg [511:0] latched;
  integer lane;
  always @* begin
    for (lane = 0; lane < 64; lane = lane + 1) begin
      latched[8*lane+:8] = body[8*lane+:8] & {8{keep[lane]}};
    end
  end

  assign halted_rd_addr = s_bypass ? s_qpn[QPN_W-1:0] : l0_go ? head_qpn : msg_qpn[QPN_W-1:0];
  assign m_read_err_valid = l1_step && is_packet && !response && l1_failed_q && (!sent || open);
  assign m_read_err_qpn = msg_qpn[QPN_W-1:0];
  // Messages that had a context reserved and end without one.
  assign m_unused_valid = l1_step && kind == `EFA_TX_KIND__COMPLETION && srd && !sent
      && msg[`EFA_TX_MSG__STATUS] != `EFA_IO_COMP_STATUS__FLUSHED;
  assign m_valid = l2_valid_q;
  assign m_net = l2_net_q;
  assign m_done = l2_done_q;
  assign m_first = l2_first_q;
  assign m_last = l2_last_q;
  assign m_data = l2_first_q ? {latched[511:HDR_BITS], header} : latched;
  assign m_keep = keep;
  assign m_msg = l2_msg_q;

  efa_tx_alloc #(
      .SLOT_W(SLOT_W),
      .LINE_W(LINE_W),
      .MTT_W(MTT_W)
  ) u_alloc (
      .clk(clk),
      .rst(rst),
      .s_cfg_mrrs_log(s_cfg_mrrs_log),
      .s_mtt_valid(s_mtt_valid),
      .s_mtt_index(s_mtt_index),
      .s_mtt_data(s_mtt_data),
      .s_valid(s_valid && !s_bypass),
      .s_ready(s_ready),
      .m_idle(alloc_idle),
      .s_msg(s_msg),
      .s_first(s_first),
      .s_second(s_second),
      .s_inline(s_inline),
      .m_slot_valid(slot_valid),
      .m_slot_index(slot_index),
      .m_slot_reads(slot_reads),
      .m_slot_msg(slot_msg),
      .m_slot_inline(slot_inline),
      .s_free_slot(l1_end && !l1_bypass_q),
      .s_free_lines(lines),
      .m_rd_valid(m_rd_valid),
      .m_rd_ready(m_rd_ready),
      .m_rd_addr(m_rd_data[`EFA_DMA_RD__ADDR]),
      .m_rd_len(m_rd_data[`EFA_DMA_RD__LEN]),
      .m_rd_cookie(m_rd_data[`EFA_DMA_RD__COOKIE])
  );

  efa_tx_buffer #(
      .SLOT_W(SLOT_W),
      .LINE_W(LINE_W)
  ) u_ring (
      .clk(clk),
      .rst(rst),
      .m_init_done(m_init_done),
      .s_rd_cpl_valid(s_rd_cpl_valid),
      .s_rd_cpl_cookie(s_rd_cpl_data[`EFA_DMA_RD_CPL__COOKIE]),
      .s_rd_cpl_offset(s_rd_cpl_data[`EFA_DMA_RD_CPL__OFFSET]),
      .s_rd_cpl_data(s_rd_cpl_data[`EFA_DMA_RD_CPL__DATA]),
      .s_rd_cpl_bytes(s_rd_cpl_data[`EFA_DMA_RD_CPL__BYTES]),
      .s_rd_cpl_last(s_rd_cpl_data[`EFA_DMA_RD_CPL__LAST]),
      .s_rd_cpl_err(s_rd_cpl_data[`EFA_DMA_RD_CPL__ERR]),
      .s_slot_valid(slot_valid),
      .s_slot_index(slot_index),
      .s_slot_reads(slot_reads),
      .m_ready_slots(ready),
      .m_failed_slots(failed),
      .m_now_valid(now_ready),
      .m_now_failed(now_failed),
      .m_now_slot(now_slot),
      .line_rd_en(l1_step),
      .line_rd_addr(line_q),
      .line_rd_data(line_data)
  );

  efa_ram #(
      .WIDTH (`EFA_TX_MSG__W + 768),
      .ADDR_W(SLOT_W)
  ) u_list (
      .clk(clk),
      .wr_en(slot_valid),
      .wr_addr(slot_index),
      .wr_data({slot_inline, slot_msg}),
      .rd_en(l0_go),
      .rd_addr(head_q),
      .rd_data(list_item)
  );

  efa_ram #(
      .WIDTH (QPN_W),
      .ADDR_W(SLOT_W)
  ) u_list_qpn (
      .clk(clk),
      .wr_en(slot_valid),
      .wr_addr(slot_index),
      .wr_data(slot_qpn[QPN_W-1:0]),
      .rd_en(1'b1),
      .rd_addr(head_d),
      .rd_data(head_read)
  );

  always @(posedge clk) begin
    if (rst) begin
      head_q <= {SLOT_W{1'b0}};
      listed_q <= {SLOT_W + 1{1'b0}};
      l1_valid_q <= 1'b0;
      l1_begun_q <= 1'b0;
      line_q <= {LINE_W{1'b0}};
      l2_valid_q <= 1'b0;
    end else begin
      head_q <= head_d;
      if (slot_valid && !l0_go) listed_q <= listed_q + ONE_LISTED;
      else if (l0_go && !slot_valid) listed_q <= listed_q - ONE_LISTED;
      if (l0_go || s_bypass || l1_end) l1_valid_q <= l0_go || s_bypass;
      if (l1_step) l1_begun_q <= !last_flit;
      if (l1_end && (!sends || hollow)) line_q <= line_q + lines;
      else if (l1_step && lines != {LINE_W{1'b0}}) line_q <= line_q + ONE_LINE;
      if (l2_move) l2_valid_q <= l1_step;
    end
  end

  always @(posedge clk) begin
    head_now_q <= slot_valid && slot_index == head_d;
    head_now_qpn_q <= slot_qpn[QPN_W-1:0];
    if (s_bypass) l1_item_q <= {s_inline, s_msg};
    if (l0_go || s_bypass) begin
      l1_bypass_q <= s_bypass;
      l1_slot_q <= head_q;
      l1_ready_q <= s_bypass || ready[head_q] || (now_ready && now_slot == head_q);
      l1_failed_q <= !s_bypass && (failed[head_q] || (now_failed && now_slot == head_q));
    end else if (!l1_bypass_q && now_slot == l1_slot_q) begin
      l1_ready_q  <= l1_ready_q || now_ready;
      l1_failed_q <= l1_failed_q || now_failed;
    end
    if (l0_go || s_bypass) begin
      l1_flit_q <= 8'd0;
    end else if (l1_step) begin
      l1_flit_q <= l1_flit_q + 8'd1;
    end
    if (l1_step) begin
      l2_net_q   <= sends;
      // Messages without packet or acknowledgement complete here.
      l2_done_q  <= kind != `EFA_TX_KIND__BARRIER && (!sends || (!srd && last_flit));
      l2_first_q <= !l1_begun_q;
      l2_last_q  <= last_flit;
      l2_odd_q   <= l1_flit_q[0];
      l2_msg_q <= out_msg;
      l2_inline_q <= msg_inline;
    end
  end

  wire unused_bits = &{1'b0, send, send_id, l2_send, last_byte, msg_qpn, slot_qpn, s_qpn, l2_length[15:7]};

  `EFA_CHECK(!l1_valid_q || !is_packet || !srd || sent, "SRD packet that is no transmission")
  `EFA_CHECK(!l1_valid_q || !is_packet || l1_failed_q || flits != 8'd0, "packet of 0 flits")

endmodule

`default_nettype wire
