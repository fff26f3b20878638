// SPDX-License-Identifier: Apache-2.0
// efa_tx_buffer - holds payload between host reads and packets: a ring of 64-byte lines in two
// banks.
//
// In    s_rd_cpl_* read completions, in any order; s_slot_* messages that enter, s_slot_index is
//       always the slot of the next one; line_rd_* line reads
// Out   m_ready_slots: all reads of a message slot completed; m_failed_slots: one of them with an
//       error; both until the next message enters the slot; m_now_* the slot that becomes so in the
//       next cycle; line_rd_data
// Time  a beat of any alignment is in the ring 2 cycles after it arrives, and the slot of the last
//       beat is then ready; one beat per cycle; reads 1 cycle, line_rd_data stays while line_rd_en
//       is low
//
// A beat covers at most two neighbouring lines, one in each bank. Read completions are counted
// against a goal that each message of the slot raises, so no count is ever cleared.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_tx_buffer #(
    parameter SLOT_W = 8,
    parameter LINE_W = 9
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire s_rd_cpl_valid,
    input wire [31:0] s_rd_cpl_cookie,
    input wire [12:0] s_rd_cpl_offset,
    input wire [511:0] s_rd_cpl_data,
    input wire [6:0] s_rd_cpl_bytes,
    input wire s_rd_cpl_last,
    input wire s_rd_cpl_err,
    input wire s_slot_valid,
    input wire [SLOT_W-1:0] s_slot_index,
    input wire [7:0] s_slot_reads,
    output wire [(1<<SLOT_W)-1:0] m_ready_slots,
    output wire [(1<<SLOT_W)-1:0] m_failed_slots,
    output wire m_now_valid,
    output wire m_now_failed,
    output wire [SLOT_W-1:0] m_now_slot,
    input wire line_rd_en,
    input wire [LINE_W-1:0] line_rd_addr,
    output wire [511:0] line_rd_data
);

  localparam POS_W = LINE_W + 6;
  localparam N = 1 << SLOT_W;
  localparam ROW_W = LINE_W - 1;
  localparam [SLOT_W:0] ONE_SLOT = 1;
  localparam [LINE_W-1:0] ONE_LINE = 1;

  reg [SLOT_W:0] init_q;
  reg [N-1:0] ready_q;
  reg [N-1:0] failed_q;

  // A beat and its location.
  wire [POS_W-1:0] pos = s_rd_cpl_cookie[POS_W-1:0] + {{POS_W - 13{1'b0}}, s_rd_cpl_offset};
  wire [SLOT_W-1:0] slot = s_rd_cpl_cookie[POS_W+:SLOT_W];

  // c1: rotated into place, counts read
  reg c1_valid_q;
  reg [LINE_W-1:0] c1_line_q;
  reg [SLOT_W-1:0] c1_slot_q;
  reg [511:0] c1_data_q;
  reg [127:0] c1_lanes_q;
  reg c1_last_q;
  reg c1_err_q;

  // Forwarding of the count written in the previous cycle, which the read for c1 missed.
  reg c2_valid_q;
  reg [SLOT_W-1:0] c2_slot_q;
  reg [7:0] c2_count_q;

  reg rd_odd_q;

  wire initializing = !init_q[SLOT_W];
  wire [1023:0] rotated = {2{s_rd_cpl_data}} >> (10'd512 - {1'b0, pos[5:0], 3'd0});
  wire [127:0] lanes = {64'd0, ~({64{1'b1}} << s_rd_cpl_bytes)} << pos[5:0];

  wire [7:0] completed;
  wire [7:0] goal;
  wire [7:0] goal_before;
  wire [7:0] count = (c2_valid_q && c2_slot_q == c1_slot_q ? c2_count_q : completed) + 8'd1;
  wire counted = c1_valid_q && c1_last_q;

  wire odd = c1_line_q[0];
  wire [LINE_W-1:0] c1_next = c1_line_q + ONE_LINE;
  wire stored = c1_valid_q && !c1_err_q;
  wire [511:0] rd_even;
  wire [511:0] rd_odd;

  // Slots are allocated in order, so the goal of the next slot is read in advance.
  wire [SLOT_W-1:0] goal_ahead = s_slot_valid ? s_slot_index + ONE_SLOT[SLOT_W-1:0] : s_slot_index;

  assign m_init_done = !initializing;
  assign m_ready_slots = ready_q;
  assign m_failed_slots = failed_q;
  assign m_now_valid = counted && count == goal;
  assign m_now_failed = counted && c1_err_q;
  assign m_now_slot = c1_slot_q;
  assign line_rd_data = rd_odd_q ? rd_odd : rd_even;

  efa_ram_be #(
      .WIDTH (512),
      .ADDR_W(ROW_W),
      .LANES (64)
  ) u_even (
      .clk(clk),
      .wr_en(stored),
      .wr_lanes(odd ? c1_lanes_q[127:64] : c1_lanes_q[63:0]),
      .wr_addr(odd ? c1_next[LINE_W-1:1] : c1_line_q[LINE_W-1:1]),
      .wr_data(c1_data_q),
      .rd_en(line_rd_en),
      .rd_addr(line_rd_addr[LINE_W-1:1]),
      .rd_data(rd_even)
  );

  efa_ram_be #(
      .WIDTH (512),
      .ADDR_W(ROW_W),
      .LANES (64)
  ) u_odd (
      .clk(clk),
      .wr_en(stored),
      .wr_lanes(odd ? c1_lanes_q[63:0] : c1_lanes_q[127:64]),
      .wr_addr(c1_line_q[LINE_W-1:1]),
      .wr_data(c1_data_q),
      .rd_en(line_rd_en),
      .rd_addr(line_rd_addr[LINE_W-1:1]),
      .rd_data(rd_odd)
  );

  efa_ram #(
      .WIDTH (8),
      .ADDR_W(SLOT_W)
  ) u_completed (
      .clk(clk),
      .wr_en(initializing || counted),
      .wr_addr(initializing ? init_q[SLOT_W-1:0] : c1_slot_q),
      .wr_data(initializing ? 8'd0 : count),
      .rd_en(1'b1),
      .rd_addr(slot),
      .rd_data(completed)
  );

  efa_ram_1wnr #(
      .WIDTH (8),
      .ADDR_W(SLOT_W),
      .READS (2)
  ) u_goal (
      .clk(clk),
      .wr_en(initializing || s_slot_valid),
      .wr_addr(initializing ? init_q[SLOT_W-1:0] : s_slot_index),
      .wr_data(initializing ? 8'd0 : goal_before + s_slot_reads),
      .rd_addr({goal_ahead, slot}),
      .rd_data({goal_before, goal})
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {SLOT_W + 1{1'b0}};
      ready_q <= {N{1'b0}};
      failed_q <= {N{1'b0}};
      c1_valid_q <= 1'b0;
      c2_valid_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE_SLOT;
      if (s_slot_valid) begin
        ready_q[s_slot_index]  <= s_slot_reads == 8'd0;
        failed_q[s_slot_index] <= 1'b0;
      end
      if (m_now_valid) ready_q[c1_slot_q] <= 1'b1;
      if (m_now_failed) failed_q[c1_slot_q] <= 1'b1;
      c1_valid_q <= s_rd_cpl_valid;
      c2_valid_q <= counted;
    end
  end

  always @(posedge clk) begin
    c1_line_q  <= pos[POS_W-1:6];
    c1_slot_q  <= slot;
    c1_data_q  <= rotated[511:0];
    c1_lanes_q <= lanes;
    c1_last_q  <= s_rd_cpl_last;
    c1_err_q   <= s_rd_cpl_err && s_rd_cpl_last;
    c2_slot_q  <= c1_slot_q;
    c2_count_q <= count;
    if (line_rd_en) rd_odd_q <= line_rd_addr[0];
  end

  wire unused_bits = &{1'b0, s_rd_cpl_cookie, rotated[1023:512], c1_next[0]};

  `EFA_CHECK(!(counted && s_slot_valid && c1_slot_q == s_slot_index), "completion for a free slot")

endmodule

`default_nettype wire
