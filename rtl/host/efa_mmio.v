// efa_mmio - takes the host's stores and loads apart, in the order of the bus.
//
// In    s_mmio   lines with byte enables; opened: tables are ready; in_reset: LLQ and doorbell
//                stores are dropped; acc_rdata one cycle after a BAR 0 load on acc
// Out   llq      a line of LLQ memory; db a doorbell dword; acc a BAR 0 dword, store or load;
//       part     a dword without all its enables (BAR 0, doorbells), which is not acted on
//       m_mmio_cpl  the answers to loads, in order
// Time  a store shows three cycles after its handshake; LLQ lines, single dwords and loads of
//       one dword pass one per cycle, each further dword takes one more. 60 loads may wait for
//       m_mmio_cpl before anything else does. A line waits at most 32 cycles for s_mmio_ready.
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_mmio #(
    parameter LLQ_AW = 21
) (
    input  wire clk,
    input  wire rst,
    input  wire opened,
    input  wire in_reset,
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
    output wire llq_valid,
    output wire [LLQ_AW-6-1:0] llq_line,
    output wire [15:0] llq_dwen,
    output wire llq_part,
    output wire [511:0] llq_data,
    output wire db_valid,
    output wire [31:0] db_offset,
    output wire [31:0] db_data,
    output wire acc_valid,
    output wire acc_write,
    output wire [31:0] acc_offset,
    output wire [31:0] acc_data,
    input  wire [31:0] acc_rdata,
    output wire part_valid,
    output wire [31:0] part_offset
);

  localparam [2:0] BAR_REG = `EFA_REG_BAR;
  localparam [2:0] BAR_LLQ = `EFA_MEM_BAR;
  localparam [2:0] BAR_DB = `EFA_LIMITS__DB_BAR;
  localparam ITEM_W = 1 + 3 + 26 + 16 + 16 + 512 + 8;
  localparam CPL_LOG2 = 6;
  localparam [CPL_LOG2:0] CPL_STOP = 60;  // room for the loads that are inside

  // Dwords touched, and those with all four enables.
  reg [15:0] touched;
  reg [15:0] whole;
  integer i;
  always @* begin
    for (i = 0; i < 16; i = i + 1) begin
      touched[i] = |s_mmio_be[4*i+:4];
      whole[i] = &s_mmio_be[4*i+:4];
    end
  end

  wire a_valid;
  wire a_ready;
  wire a_write;
  wire [2:0] a_bar;
  wire [25:0] a_line;
  wire [15:0] a_touched;
  wire [15:0] a_whole;
  wire [511:0] a_data;
  wire [7:0] a_tag;
  wire skid_ready;

  efa_skid #(
      .WIDTH(ITEM_W)
  ) u_in (
      .clk(clk),
      .rst(rst),
      .s_valid(s_mmio_valid && opened),
      .s_ready(skid_ready),
      .s_data({
        s_mmio_write, s_mmio_bar, s_mmio_addr[31:6], touched, whole, s_mmio_data, s_mmio_tag
      }),
      .m_valid(a_valid),
      .m_ready(a_ready),
      .m_data({a_write, a_bar, a_line, a_touched, a_whole, a_data, a_tag})
  );

  assign s_mmio_ready = skid_ready && opened;

  // b: one line, its dwords leave one by one where they act one by one.
  reg b_valid_q;
  reg b_first_q;
  reg b_write_q;
  reg b_llq_q;
  reg b_reg_q;
  reg b_db_q;
  reg [25:0] b_line_q;
  reg [15:0] b_left_q;
  reg [15:0] b_touched_q;
  reg [15:0] b_whole_q;
  reg [511:0] b_data_q;
  reg [7:0] b_tag_q;

  wire [15:0] b_pick = b_left_q & (~b_left_q + 16'd1);
  wire b_walk = b_reg_q || (b_db_q && b_write_q);
  wire b_last = !b_walk || (b_left_q & ~b_pick) == 16'd0;
  wire [CPL_LOG2:0] cpl_level;
  wire b_step = b_valid_q && (b_write_q || cpl_level < CPL_STOP);

  assign a_ready = !b_valid_q || (b_step && b_last);

  always @(posedge clk) begin
    if (rst) b_valid_q <= 1'b0;
    else if (a_ready) b_valid_q <= a_valid;
  end

  always @(posedge clk) begin
    if (a_ready) begin
      b_first_q <= 1'b1;
      b_write_q <= a_write;
      b_llq_q <= a_bar == BAR_LLQ;
      b_reg_q <= a_bar == BAR_REG;
      b_db_q <= a_bar == BAR_DB;
      b_line_q <= a_line;
      b_left_q <= a_touched;
      b_touched_q <= a_touched;
      b_whole_q <= a_whole;
      b_data_q <= a_data;
      b_tag_q <= a_tag;
    end else if (b_step) begin
      b_first_q <= 1'b0;
      b_left_q <= b_left_q & ~b_pick;
    end
  end

  reg [3:0] b_index;
  reg [31:0] b_dword;
  integer j;
  always @* begin
    b_index = 4'd0;
    b_dword = 32'd0;
    for (j = 0; j < 16; j = j + 1) begin
      b_index = b_index | (j[3:0] & {4{b_pick[j]}});
      b_dword = b_dword | (b_data_q[32*j+:32] & {32{b_pick[j]}});
    end
  end

  wire b_some = b_pick != 16'd0;
  wire b_full = (b_pick & b_whole_q) != 16'd0;
  wire b_acts = b_step && b_some && b_write_q && b_full;
  wire b_in_llq = b_line_q >> (LLQ_AW - 6) == 26'd0;

  // c: acts. A store to DEV_CTL has its effect before the next c.
  reg c_llq_q;
  reg c_db_q;
  reg c_acc_q;
  reg c_part_q;
  reg c_read_q;
  reg c_write_q;
  reg c_first_q;
  reg c_last_q;
  reg [15:0] c_lane_q;
  reg [31:0] c_offset_q;
  reg [31:0] c_dword_q;
  reg [15:0] c_whole_q;
  reg c_line_part_q;
  reg [LLQ_AW-6-1:0] c_line_q;
  reg [511:0] c_data_q;
  reg [7:0] c_tag_q;

  always @(posedge clk) begin
    if (rst) begin
      c_llq_q <= 1'b0;
      c_db_q <= 1'b0;
      c_acc_q <= 1'b0;
      c_part_q <= 1'b0;
      c_read_q <= 1'b0;
    end else begin
      c_llq_q <= b_step && b_llq_q && b_write_q && b_in_llq && b_touched_q != 16'd0;
      c_db_q <= b_acts && b_db_q;
      c_acc_q <= b_reg_q && (b_acts || (b_step && b_some && !b_write_q));
      c_part_q <= b_step && b_write_q && b_walk && b_some && !b_full;
      c_read_q <= b_step && !b_write_q;
    end
  end

  always @(posedge clk) begin
    c_write_q <= b_write_q;
    c_first_q <= b_first_q;
    c_last_q <= b_last;
    c_lane_q <= b_reg_q ? b_pick : 16'd0;
    c_offset_q <= {b_line_q, b_index, 2'b00};
    c_dword_q <= b_dword;
    c_whole_q <= b_whole_q;
    c_line_part_q <= b_touched_q != b_whole_q;
    c_line_q <= b_line_q[LLQ_AW-6-1:0];
    c_data_q <= b_data_q;
    c_tag_q <= b_tag_q;
  end

  assign llq_valid = c_llq_q && !in_reset;
  assign llq_line = c_line_q;
  assign llq_dwen = c_whole_q;
  assign llq_part = c_line_part_q;
  assign llq_data = c_data_q;
  assign db_valid = c_db_q && !in_reset;
  assign db_offset = c_offset_q;
  assign db_data = c_dword_q;
  assign acc_valid = c_acc_q;
  assign acc_write = c_write_q;
  assign acc_offset = c_offset_q;
  assign acc_data = c_dword_q;
  assign part_valid = c_part_q;
  assign part_offset = c_offset_q;

  // d: the dword that was read goes to its lane. e: a whole line goes to the store.
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
      d_read_q <= c_read_q;
      e_push_q <= d_read_q && d_last_q;
    end
  end

  always @(posedge clk) begin
    d_first_q <= c_first_q;
    d_last_q <= c_last_q;
    d_lane_q <= c_lane_q;
    d_tag_q <= c_tag_q;
    e_tag_q <= d_tag_q;
    if (d_read_q) begin
      for (k = 0; k < 16; k = k + 1) begin
        if (d_lane_q[k]) e_data_q[32*k+:32] <= acc_rdata;
        else if (d_first_q) e_data_q[32*k+:32] <= 32'd0;
      end
    end
  end

  wire cpl_ready;

  efa_fifo #(
      .WIDTH(8 + 512),
      .DEPTH_LOG2(CPL_LOG2)
  ) u_cpl (
      .clk(clk),
      .rst(rst),
      .s_valid(e_push_q),
      .s_ready(cpl_ready),
      .s_data({e_tag_q, e_data_q}),
      .m_valid(m_mmio_cpl_valid),
      .m_ready(m_mmio_cpl_ready),
      .m_data({m_mmio_cpl_tag, m_mmio_cpl_data}),
      .level(cpl_level)
  );

  `EFA_CHECK(!e_push_q || cpl_ready, "an answer to a load was lost")
  `EFA_CHECK(!s_mmio_valid || s_mmio_addr[5:0] == 6'd0, "s_mmio address within a line")

  wire unused_mmio = &{1'b0, s_mmio_addr[5:0], cpl_ready};

endmodule
