// SPDX-License-Identifier: Apache-2.0
// efa_tx_alloc - allocates space for each message in the payload ring and requests its bytes.
//
// In    s checked messages with their buffers; free_* messages that have left
// Out   m_slot_* a message enters the list (its data, its number of reads); m_rd_* host reads,
//       cookie = slot and byte position in the ring; m_idle: no message is about to enter the list
// Time  1 cycle, one message per cycle, 2 cycles for two buffers; first read 3 cycles after the
//       message, 2 if nothing is before it and half of the ring is free; the first read waits for
//       free space for the whole message
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_tx_alloc #(
    parameter SLOT_W = 8,
    parameter LINE_W = 9,
    parameter MTT_W  = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire clk,
    input wire rst,
    input wire [3:0] s_cfg_mrrs_log,
    input wire s_mtt_valid,
    input wire [`EFA_LIMITS__MTT_W-1:0] s_mtt_index,
    input wire [51:0] s_mtt_data,
    input wire s_valid,
    output wire s_ready,
    output wire m_idle,
    input wire [`EFA_TX_MSG__W-1:0] s_msg,
    input wire [`EFA_SGE__W-1:0] s_first,
    input wire [`EFA_SGE__W-1:0] s_second,
    input wire [767:0] s_inline,
    output wire m_slot_valid,
    output wire [SLOT_W-1:0] m_slot_index,
    output wire [7:0] m_slot_reads,
    output wire [`EFA_TX_MSG__W-1:0] m_slot_msg,
    output wire [767:0] m_slot_inline,
    input wire s_free_slot,
    input wire [LINE_W-1:0] s_free_lines,
    output wire m_rd_valid,
    input wire m_rd_ready,
    output wire [63:0] m_rd_addr,
    output wire [12:0] m_rd_len,
    output wire [31:0] m_rd_cookie
);

  localparam POS_W = LINE_W + 6;
  localparam HDR = `EFA_PKT_HDR__BYTES;
  localparam RDMA_HDR = HDR + `EFA_PKT_RDMA__BYTES;
  localparam [POS_W-1:0] HDR_POS = HDR;
  localparam [POS_W-1:0] RDMA_HDR_POS = RDMA_HDR;
  localparam [15:0] ROUND_UP = HDR + 63;
  localparam [15:0] RDMA_ROUND_UP = RDMA_HDR + 63;
  localparam REQ_META_W = `EFA_SGE__W + SLOT_W + POS_W;
  localparam [SLOT_W:0] ONE_SLOT = 1;
  localparam [SLOT_W:0] SLOTS = 1 << SLOT_W;
  localparam [LINE_W:0] LINES = 1 << LINE_W;
  localparam [16:0] ONE_BYTE = 1;

  // r: a message, its needs, and whether its first buffer was requested
  reg r_valid_q;
  reg r_second_q;
  reg r_direct_q;  // its first buffer was requested when it came
  reg [`EFA_TX_MSG__W-1:0] r_msg_q;
  reg [`EFA_SGE__W-1:0] r_first_q;
  reg [`EFA_SGE__W-1:0] r_next_q;
  reg [767:0] r_inline_q;
  reg [LINE_W-1:0] r_lines_q;
  reg [7:0] r_reads_first_q;
  reg [7:0] r_reads_next_q;

  reg [SLOT_W-1:0] slot_q;
  reg [LINE_W-1:0] line_q;
  reg [SLOT_W:0] slots_used_q;
  reg [LINE_W:0] lines_free_q;

  // The message freed in the previous cycle.
  reg freed_q;
  reg [LINE_W-1:0] freed_lines_q;

  // Host reads of a buffer: the read request size blocks that it touches.
  function [7:0] reads(input [11:0] from, input [15:0] len, input [3:0] log);
    reg [16:0] block;
    reg [16:0] span;
    begin
      block = ONE_BYTE << log;
      span  = ({5'd0, from} & (block - ONE_BYTE)) + {1'b0, len} + block - ONE_BYTE;
      span  = span >> log;
      reads = len == 16'd0 ? 8'd0 : span[7:0];
    end
  endfunction

  wire [`EFA_MR_LOC__W-1:0] first_loc = s_first[`EFA_SGE__LOC];
  wire [`EFA_MR_LOC__W-1:0] second_loc = s_second[`EFA_SGE__LOC];
  wire [63:0] first_from = first_loc[`EFA_MR_LOC__START];
  wire [63:0] second_from = second_loc[`EFA_MR_LOC__START];
  wire gathers = s_msg[`EFA_TX_MSG__KIND] == `EFA_TX_KIND__PACKET && !s_msg[`EFA_TX_MSG__INLINED];
  wire s_rdma = s_msg[`EFA_TX_MSG__OP_TYPE] != `EFA_IO_SEND_OP_TYPE__SEND_W3;
  wire [15:0] s_lines = (s_msg[`EFA_TX_MSG__LENGTH] + (s_rdma ? RDMA_ROUND_UP : ROUND_UP)) >> 6;

  wire r_gathers = r_lines_q != {LINE_W{1'b0}};
  wire has_first = r_first_q[`EFA_SGE__LEN] != 16'd0 && r_gathers;
  wire has_next = r_next_q[`EFA_SGE__LEN] != 16'd0 && r_gathers;
  wire space = slots_used_q != SLOTS && {1'b0, r_lines_q} <= lines_free_q;
  // The check of free space is late, so both next counts are precomputed.
  wire [LINE_W:0] lines_kept = lines_free_q + (freed_q ? {1'b0, freed_lines_q} : {LINE_W + 1{1'b0}});
  wire [LINE_W:0] lines_given = lines_kept - {1'b0, r_lines_q};
  wire req_ready;
  wire queue_valid;
  wire translate_ready;

  // The first buffer is requested at once if nothing is before it. Half of the ring has space for any
  // message.
  wire s_has_first = s_first[`EFA_SGE__LEN] != 16'd0;
  wire s_has_any = s_has_first || s_second[`EFA_SGE__LEN] != 16'd0;
  wire direct_valid = s_valid && gathers && s_has_any && !r_valid_q && !queue_valid && slots_used_q != SLOTS
      && lines_free_q[LINE_W:LINE_W-1] != 2'd0;
  wire [POS_W-1:0] direct_pos = {line_q, 6'd0} + (s_rdma ? RDMA_HDR_POS : HDR_POS);
  wire [REQ_META_W-1:0] direct_data = {
    s_has_first ? s_first : s_second, slot_q, direct_pos
  };

  // One buffer is requested per cycle; the message enters the list with its first buffer.
  wire both = has_first && has_next;
  wire enter = r_valid_q && !r_second_q && (r_direct_q || (space && (req_ready || !r_gathers)));
  wire leave = both ? r_valid_q && (r_second_q || r_direct_q) && req_ready : enter;
  wire req_valid = r_valid_q && r_gathers && (r_direct_q ? both : r_second_q || space);
  wire req_next = r_second_q || r_direct_q || !has_first;
  wire [15:0] r_first_len = has_first ? r_first_q[`EFA_SGE__LEN] : 16'd0;
  wire r_rdma = r_msg_q[`EFA_TX_MSG__OP_TYPE] != `EFA_IO_SEND_OP_TYPE__SEND_W3;
  wire [POS_W-1:0] first_pos = {line_q, 6'd0} + (r_rdma ? RDMA_HDR_POS : HDR_POS);
  wire [POS_W-1:0] next_pos = first_pos + r_first_len[POS_W-1:0];
  wire [SLOT_W-1:0] held_slot = r_second_q ? slot_q - ONE_SLOT[SLOT_W-1:0] : slot_q;
  wire [REQ_META_W-1:0] req_data = req_next ? {r_next_q, held_slot, next_pos}
      : {r_first_q, slot_q, first_pos};

  // A request bypasses an empty queue.
  wire [REQ_META_W-1:0] queue_data;
  wire bypass = req_valid && !queue_valid && translate_ready;

  wire translate_valid;
  wire [`EFA_SGE__W-1:0] translate_sge;
  wire [SLOT_W+POS_W-1:0] translate_place;
  wire [4:0] req_level;
  wire rd_done;
  wire [15:0] rd_first;
  wire [SLOT_W-1:0] rd_slot;
  wire [POS_W-1:0] rd_pos;

  assign translate_valid = queue_valid || req_valid || direct_valid;
  assign {translate_sge, translate_place} = queue_valid ? queue_data : r_valid_q ? req_data : direct_data;
  assign s_ready = !r_valid_q || leave;
  assign m_idle = !r_valid_q;
  assign m_slot_valid = enter;
  assign m_slot_index = slot_q;
  assign m_slot_reads = r_gathers ? r_reads_first_q + r_reads_next_q : 8'd0;
  assign m_slot_msg = r_msg_q;
  assign m_slot_inline = r_inline_q;
  assign m_rd_cookie = {{32 - SLOT_W - POS_W{1'b0}}, rd_slot, rd_pos + rd_first[POS_W-1:0]};

  efa_fifo #(
      .WIDTH(REQ_META_W),
      .DEPTH_LOG2(4)
  ) u_req (
      .clk(clk),
      .rst(rst),
      .s_valid(req_valid && !bypass),
      .s_ready(req_ready),
      .s_data(req_data),
      .m_valid(queue_valid),
      .m_ready(translate_ready),
      .m_data(queue_data),
      .m_level(req_level)
  );

  efa_mr_translate #(
      .USER_W(SLOT_W + POS_W),
      .EARLY (1),
      .MTT_W(MTT_W)
  ) u_translate (
      .clk(clk),
      .rst(rst),
      .s_mtt_valid(s_mtt_valid),
      .s_mtt_index(s_mtt_index),
      .s_mtt_data(s_mtt_data),
      .s_cfg_max_log(s_cfg_mrrs_log),
      .s_valid(translate_valid),
      .s_ready(translate_ready),
      .s_loc(translate_sge[`EFA_SGE__LOC]),
      .s_len(translate_sge[`EFA_SGE__LEN]),
      .s_user(translate_place),
      .m_valid(m_rd_valid),
      .m_ready(m_rd_ready),
      .m_addr(m_rd_addr),
      .m_len(m_rd_len),
      .m_done(rd_done),
      .m_first_byte(rd_first),
      .m_user({rd_slot, rd_pos})
  );

  always @(posedge clk) begin
    if (rst) begin
      r_valid_q <= 1'b0;
      r_second_q <= 1'b0;
      slot_q <= {SLOT_W{1'b0}};
      line_q <= {LINE_W{1'b0}};
      slots_used_q <= {SLOT_W + 1{1'b0}};
      lines_free_q <= LINES;
      freed_q <= 1'b0;
    end else begin
      if (s_ready) r_valid_q <= s_valid;
      if (leave) r_second_q <= 1'b0;
      else if (enter) r_second_q <= 1'b1;
      if (enter) slot_q <= slot_q + ONE_SLOT[SLOT_W-1:0];
      // The position of the second buffer counts from the first line of its message.
      if (leave) line_q <= line_q + r_lines_q;
      freed_q <= s_free_slot;
      if (enter && !freed_q) slots_used_q <= slots_used_q + ONE_SLOT;
      if (freed_q && !enter) slots_used_q <= slots_used_q - ONE_SLOT;
      lines_free_q <= enter ? lines_given : lines_kept;
    end
  end

  always @(posedge clk) begin
    freed_lines_q <= s_free_lines;
    if (s_ready) r_direct_q <= direct_valid && translate_ready;
    else if (enter) r_direct_q <= 1'b0;
    if (s_ready) begin
      r_msg_q <= s_msg;
      r_first_q <= s_first;
      r_next_q <= s_second;
      r_inline_q <= s_inline;
      r_lines_q <= gathers ? s_lines[LINE_W-1:0] : {LINE_W{1'b0}};
      r_reads_first_q <= reads(first_from[11:0], s_first[`EFA_SGE__LEN], s_cfg_mrrs_log);
      r_reads_next_q <= reads(second_from[11:0], s_second[`EFA_SGE__LEN], s_cfg_mrrs_log);
    end
  end

  wire unused_sizes = &{1'b0, first_loc, second_loc, first_from, second_from, r_first_len, s_lines};
  wire unused_translate = &{1'b0, req_level, rd_done, rd_first};

  `EFA_CHECK(lines_free_q <= LINES && slots_used_q <= SLOTS, "more entries freed than allocated")

endmodule

`default_nettype wire
