// SPDX-License-Identifier: Apache-2.0
// efa_mmio - splits host stores and loads into lines and dwords, in bus order.
//
// In    s_mmio: lines with byte enables; s_opened: the tables are initialised; s_in_reset: LLQ and
//       doorbell stores are dropped; s_acc_rdata: one cycle after a BAR 0 load on m_acc
// Out   m_llq: a line of LLQ memory; m_db: a doorbell dword; m_acc: a BAR 0 dword, store or load;
//       m_part: a dword without all its enables (BAR 0, doorbells), which has no effect;
//       m_mmio_cpl: load completions, in order
// Time  a store shows in the cycle after its handshake; LLQ lines, single dwords and loads of
//       one dword pass one per cycle, each further dword takes one more. 60 loads may wait for
//       m_mmio_cpl before the input stalls. A line waits at most 32 cycles for s_mmio_ready
//       while no load stalls.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_mmio #(
    parameter LLQ_AW = 21
) (
    input  wire clk,
    input  wire rst,
    input  wire s_opened,
    input  wire s_in_reset,
    input  wire s_mmio_valid,
    output wire s_mmio_ready,
    input  wire s_mmio_write,
    input  wire [2:0] s_mmio_bar,
    input  wire [31:0] s_mmio_addr,
    input  wire [63:0] s_mmio_be,
    input  wire [511:0] s_mmio_data,
    input  wire [7:0] s_mmio_tag,
    output wire m_mmio_cpl_valid,
    input  wire m_mmio_cpl_ready,
    output wire [7:0] m_mmio_cpl_tag,
    output wire [511:0] m_mmio_cpl_data,
    output wire m_llq_valid,
    output wire [LLQ_AW-6-1:0] m_llq_line,
    output wire [15:0] m_llq_dwen,
    output wire m_llq_part,
    output wire [511:0] m_llq_data,
    output wire m_db_valid,
    output wire [31:0] m_db_offset,
    output wire [31:0] m_db_data,
    output wire m_acc_valid,
    output wire m_acc_write,
    output wire [31:0] m_acc_offset,
    output wire [31:0] m_acc_data,
    input  wire [31:0] s_acc_rdata,
    output wire m_part_valid,
    output wire [31:0] m_part_offset
);

  localparam [2:0] BAR_REG = `EFA_REG_BAR;
  localparam [2:0] BAR_LLQ = `EFA_MEM_BAR;
  localparam [2:0] BAR_DB = `EFA_LIMITS__DB_BAR;
  localparam ITEM_W = 1 + 3 + 26 + 16 + 16 + 512 + 8;
  localparam CPL_LOG2 = 6;
  localparam [CPL_LOG2:0] CPL_STOP = 60;  // leaves space for the loads in the pipeline

  // Dwords with any byte enable, and dwords with all four.
  reg [15:0] touched;
  reg [15:0] complete;
  integer i;
  always @* begin
    for (i = 0; i < 16; i = i + 1) begin
      touched[i] = |s_mmio_be[4*i+:4];
      complete[i] = &s_mmio_be[4*i+:4];
    end
  end

  wire a_valid;
  wire a_ready;
  wire a_write;
  wire [2:0] a_bar;
  wire [25:0] a_line;
  wire [15:0] a_touched;
  wire [15:0] a_complete;
  wire [511:0] a_data;
  wire [7:0] a_tag;
  wire skid_ready;
  wire [ITEM_W-1:0] unused_next;

  efa_skid #(
      .WIDTH(ITEM_W)
  ) u_in (
      .clk(clk),
      .rst(rst),
      .s_valid(s_mmio_valid && s_opened),
      .s_ready(skid_ready),
      .s_data({
        s_mmio_write, s_mmio_bar, s_mmio_addr[31:6], touched, complete, s_mmio_data, s_mmio_tag
      }),
      .m_valid(a_valid),
      .m_ready(a_ready),
      .m_data({a_write, a_bar, a_line, a_touched, a_complete, a_data, a_tag}),
      .m_next_data(unused_next)
  );

  assign s_mmio_ready = skid_ready && s_opened;

  // Stage a: one line; dwords of BAR 0 and doorbell stores act one per cycle.
  reg [15:0] a_done_q;
  wire a_llq = a_bar == BAR_LLQ;
  wire a_reg = a_bar == BAR_REG;
  wire a_db = a_bar == BAR_DB;
  wire [15:0] a_left = a_touched & ~a_done_q;
  wire [15:0] a_pick = a_left & (~a_left + 16'd1);
  wire a_init = a_reg || (a_db && a_write);
  wire a_last = !a_init || (a_left & ~a_pick) == 16'd0;
  wire a_first = a_done_q == 16'd0;
  wire [CPL_LOG2:0] cpl_level;
  wire a_step = a_valid && (a_write || cpl_level < CPL_STOP);

  assign a_ready = a_step && a_last;

  always @(posedge clk) begin
    if (rst) a_done_q <= 16'd0;
    else if (a_step) a_done_q <= a_last ? 16'd0 : a_done_q | a_pick;
  end

  reg [3:0] a_index;
  reg [31:0] a_dword;
  integer j;
  always @* begin
    a_index = 4'd0;
    a_dword = 32'd0;
    for (j = 0; j < 16; j = j + 1) begin
      a_index = a_index | (j[3:0] & {4{a_pick[j]}});
      a_dword = a_dword | (a_data[32*j+:32] & {32{a_pick[j]}});
    end
  end

  wire a_some = a_pick != 16'd0;
  wire a_full = (a_pick & a_complete) != 16'd0;
  wire a_acts = a_step && a_some && a_write && a_full;
  wire a_in_llq = a_line >> (LLQ_AW - 6) == 26'd0;

  // A store to DEV_CTL sets s_in_reset before the next store acts.
  assign m_llq_valid = a_step && a_llq && a_write && a_in_llq && a_touched != 16'd0 && !s_in_reset;
  assign m_llq_line = a_line[LLQ_AW-6-1:0];
  assign m_llq_dwen = a_complete;
  assign m_llq_part = a_touched != a_complete;
  assign m_llq_data = a_data;
  assign m_db_valid = a_acts && a_db && !s_in_reset;
  assign m_db_offset = {a_line, a_index, 2'b00};
  assign m_db_data = a_dword;
  assign m_acc_valid = a_reg && (a_acts || (a_step && a_some && !a_write));
  assign m_acc_write = a_write;
  assign m_acc_offset = {a_line, a_index, 2'b00};
  assign m_acc_data = a_dword;
  assign m_part_valid = a_step && a_write && a_init && a_some && !a_full;
  assign m_part_offset = {a_line, a_index, 2'b00};

  // Stage d writes the loaded dword to its lane. Stage e pushes a complete line into u_cq_engine.
  reg d_read_q;
  reg d_first_q;
  reg d_last_q;
  reg [15:0] d_lane_q;
  reg [7:0] d_tag_q;
  reg e_push_q;
  reg [7:0] e_tag_q;
  reg [511:0] e_data_q;
  integer k;

  always @(posedge clk) begin
    if (rst) begin
      d_read_q <= 1'b0;
      e_push_q <= 1'b0;
    end else begin
      d_read_q <= a_step && !a_write;
      e_push_q <= d_read_q && d_last_q;
    end
  end

  always @(posedge clk) begin
    d_first_q <= a_first;
    d_last_q <= a_last;
    d_lane_q <= a_reg ? a_pick : 16'd0;
    d_tag_q <= a_tag;
    e_tag_q <= d_tag_q;
    if (d_read_q) begin
      for (k = 0; k < 16; k = k + 1) begin
        if (d_lane_q[k]) e_data_q[32*k+:32] <= s_acc_rdata;
        else if (d_first_q) e_data_q[32*k+:32] <= 32'd0;
      end
    end
  end

  wire cpl_ready;

  efa_fifo #(
      .WIDTH(8 + 512),
      .DEPTH_LOG2(CPL_LOG2)
  ) u_cq_engine (
      .clk(clk),
      .rst(rst),
      .s_valid(e_push_q),
      .s_ready(cpl_ready),
      .s_data({e_tag_q, e_data_q}),
      .m_valid(m_mmio_cpl_valid),
      .m_ready(m_mmio_cpl_ready),
      .m_data({m_mmio_cpl_tag, m_mmio_cpl_data}),
      .m_level(cpl_level)
  );

  `EFA_CHECK(!e_push_q || cpl_ready, "lost response to a load")
  `EFA_CHECK(!s_mmio_valid || s_mmio_addr[5:0] == 6'd0, "s_mmio address within a line")

  wire unused_mmio = &{1'b0, s_mmio_addr[5:0], cpl_ready};

endmodule

`default_nettype wire
