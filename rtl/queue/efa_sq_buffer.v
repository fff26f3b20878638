// SPDX-License-Identifier: Apache-2.0
// efa_sq_buffer - holds the lines of send WQEs that efa_sq_fetch has read from host memory
// (SQ_HOST).
//
// In    s_fill_* a fetched line with the parity of its wrap, always accepted; s_op rings created,
//       cleared and destroyed; rd_* line reads of the scheduler; s_void a line of a consumed WQE
//       that was never fetched; s_llq_* stores of the host, which have no effect
// Out   line_rd_data, line_rd_parity: a line and, per dword, the parity of the wrap that filled it,
//       as in efa_llq; m_waits: a ring or a void waits for a cycle without a fill; ev_llq
// Time  a fill is readable from the next cycle on, one per cycle; reads 1 cycle; a ring is cleared
//       from one cycle later on, one line per cycle without a fill, alternating with voids; a store
//       is reported 3 cycles later
//
// A line that was not fetched carries the parity of another wrap. A new ring starts with the parity
// that wrap 0 does not have. A void gives a line that was consumed without a fetch the parity of
// its wrap.
`default_nettype none
`include "efa_defs.vh"

module efa_sq_buffer #(
    parameter LLQ_AW = 21
) (
    input wire clk,
    input wire rst,
    input wire s_fill_valid,
    input wire [LLQ_AW-6-1:0] s_fill_line,
    input wire s_fill_parity,
    input wire [511:0] s_fill_data,
    input wire s_op_valid,
    output wire s_op_ready,
    input wire [`EFA_QPC__W-1:0] s_op_qpc,
    input wire line_rd_en,
    input wire [LLQ_AW-6-1:0] line_rd_addr,
    output wire [511:0] line_rd_data,
    output wire [15:0] line_rd_parity,
    input wire s_void_valid,
    output wire s_void_ready,
    input wire [LLQ_AW-6-1:0] s_void_line,
    input wire s_void_parity,
    output wire m_waits,
    input wire s_llq_valid,
    input wire [LLQ_AW-6-1:0] s_llq_line,
    input wire [15:0] s_llq_dwen,
    output wire ev_llq_valid,
    output wire [63:0] ev_llq_data
);

  localparam LINE_W = LLQ_AW - 6;
  localparam RING_W = 12;  // lines of the largest ring: 1,024 WQEs of two lines
  localparam STAGES = 3;
  localparam [RING_W-1:0] ONE_LINE = 1;
  localparam [2:0] STATUS_NO_OWNER = 3'd1;

  reg [RING_W-1:0] op_line_q;
  reg ring_turn_q;
  reg [STAGES-1:0] event_pipe_q;
  reg [STAGES*LINE_W-1:0] line_q;
  reg [STAGES*16-1:0] dwen_q;

  wire [RING_W-1:0] op_lines =
      ONE_LINE << (s_op_qpc[`EFA_QPC__SQ_LOG] + {3'd0, s_op_qpc[`EFA_QPC__WQE128]});
  wire [19:0] op_place = s_op_qpc[`EFA_QPC__SQ_LINE] + {{20 - RING_W{1'b0}}, op_line_q};
  wire op_last = op_line_q == op_lines - ONE_LINE;
  // The choice between ring and void is registered, because s_void_ready is on the critical path of
  // the scheduler.
  wire op_step = s_op_valid && ring_turn_q && !s_fill_valid;
  wire void_step = s_void_valid && !ring_turn_q && !s_fill_valid;
  wire parity;

  reg [63:0] event_data;
  always @* begin
    event_data = 64'd0;
    event_data[`EFA_EV_LLQ__STATUS] = STATUS_NO_OWNER;
    event_data[`EFA_EV_LLQ__LINE] = {{20 - LINE_W{1'b0}}, line_q[(STAGES-1)*LINE_W+:LINE_W]};
    event_data[`EFA_EV_LLQ__DWORDS] = dwen_q[(STAGES-1)*16+:16];
  end

  assign s_op_ready = op_step && op_last;
  assign s_void_ready = !ring_turn_q && !s_fill_valid;
  assign m_waits = (s_op_valid && !op_step) || (s_void_valid && !void_step);
  assign line_rd_parity = {16{parity}};
  assign ev_llq_valid = event_pipe_q[STAGES-1];
  assign ev_llq_data = event_data;

  efa_ram #(
      .WIDTH (512),
      .ADDR_W(LINE_W)
  ) u_lines (
      .clk(clk),
      .wr_en(s_fill_valid),
      .wr_addr(s_fill_line),
      .wr_data(s_fill_data),
      .rd_en(line_rd_en),
      .rd_addr(line_rd_addr),
      .rd_data(line_rd_data)
  );

  efa_ram #(
      .WIDTH (1),
      .ADDR_W(LINE_W)
  ) u_parity (
      .clk(clk),
      .wr_en(s_fill_valid || op_step || void_step),
      .wr_addr(s_fill_valid ? s_fill_line : op_step ? op_place[LINE_W-1:0] : s_void_line),
      .wr_data(s_fill_valid ? s_fill_parity : op_step || s_void_parity),
      .rd_en(line_rd_en),
      .rd_addr(line_rd_addr),
      .rd_data(parity)
  );

  always @(posedge clk) begin
    if (rst) begin
      op_line_q <= {RING_W{1'b0}};
      ring_turn_q <= 1'b0;
      event_pipe_q <= {STAGES{1'b0}};
    end else begin
      if (op_step) op_line_q <= op_last ? {RING_W{1'b0}} : op_line_q + ONE_LINE;
      if (!s_op_valid) ring_turn_q <= 1'b0;
      else if (op_step) ring_turn_q <= !s_void_valid;
      else if (void_step || !s_void_valid) ring_turn_q <= 1'b1;
      event_pipe_q <= {event_pipe_q[STAGES-2:0], s_llq_valid};
    end
  end

  always @(posedge clk) begin
    line_q <= {line_q[(STAGES-1)*LINE_W-1:0], s_llq_line};
    dwen_q <= {dwen_q[(STAGES-1)*16-1:0], s_llq_dwen};
  end

  wire unused_context = &{1'b0, s_op_qpc, op_place};

endmodule

`default_nettype wire
