// SPDX-License-Identifier: Apache-2.0
// efa_dma_line_rd - reads pieces of host memory of up to 64 bytes and returns them in request
// order.
//
// In    s_line: address and length inside one 64-byte line; s_rd_cpl: completions of this client's
//       reads
// Out   m_rd: requests with the slot as cookie; m_line: bytes from bit 0 up, don't-care bits behind
//       the length; err: the read failed
// Time  1 cycle to the read, 3 from its last completion beat to the line; one line per cycle in and
//       out, 2^SLOT_W outstanding
`default_nettype none
`include "efa_check.vh"

module efa_dma_line_rd #(
    parameter SLOT_W = 3
) (
    input wire clk,
    input wire rst,

    input wire s_line_valid,
    output wire s_line_ready,
    input wire [63:0] s_line_addr,
    input wire [6:0] s_line_len,

    output wire m_rd_valid,
    input wire m_rd_ready,
    output wire [63:0] m_rd_addr,
    output wire [6:0] m_rd_len,
    output wire [SLOT_W-1:0] m_rd_slot,

    input wire s_rd_cpl_valid,
    input wire [SLOT_W-1:0] s_rd_cpl_slot,
    input wire [5:0] s_rd_cpl_offset,
    input wire [511:0] s_rd_cpl_data,
    input wire [6:0] s_rd_cpl_bytes,
    input wire s_rd_cpl_last,
    input wire s_rd_cpl_err,

    output wire m_line_valid,
    input wire m_line_ready,
    output wire [511:0] m_line_data,
    output wire m_line_err
);

  localparam SLOTS = 1 << SLOT_W;
  localparam [SLOT_W:0] ONE = 1;

  reg [SLOT_W:0] tail_q;
  reg [SLOT_W:0] head_q;
  reg [SLOTS-1:0] done_q;
  reg [SLOTS-1:0] err_q;
  reg rd_valid_q;
  reg [63:0] rd_addr_q;
  reg [6:0] rd_len_q;
  reg [SLOT_W-1:0] rd_slot_q;
  reg beat_q;
  reg [SLOT_W-1:0] beat_slot_q;
  reg [5:0] beat_offset_q;
  reg [511:0] beat_data_q;
  reg beat_last_q;
  reg beat_err_q;
  reg out_q;
  reg out_err_q;

  wire [SLOT_W:0] held = tail_q - head_q;
  wire [SLOT_W-1:0] tail_slot = tail_q[SLOT_W-1:0];
  wire [SLOT_W-1:0] head_slot = head_q[SLOT_W-1:0];
  wire request = s_line_valid && s_line_ready;
  wire fetch = held != {SLOT_W + 1{1'b0}} && done_q[head_slot] && (!out_q || m_line_ready);

  assign s_line_ready = !held[SLOT_W] && (!rd_valid_q || m_rd_ready);
  assign m_rd_valid = rd_valid_q;
  assign m_rd_addr = rd_addr_q;
  assign m_rd_len = rd_len_q;
  assign m_rd_slot = rd_slot_q;
  assign m_line_valid = out_q;
  assign m_line_err = out_err_q;

  // A beat writes all lanes from its offset up: the next beat overwrites the lanes behind its
  // bytes, or these lanes lie behind the length.
  wire [63:0] lanes = {64{1'b1}} << beat_offset_q;

  efa_ram_be #(
      .WIDTH (512),
      .ADDR_W(SLOT_W),
      .LANES (64)
  ) u_lines (
      .clk(clk),
      .wr_en(beat_q),
      .wr_lanes(lanes),
      .wr_addr(beat_slot_q),
      .wr_data(beat_data_q << {beat_offset_q, 3'b000}),
      .rd_en(fetch),
      .rd_addr(head_slot),
      .rd_data(m_line_data)
  );

  always @(posedge clk) begin
    if (rst) begin
      tail_q <= {SLOT_W + 1{1'b0}};
      head_q <= {SLOT_W + 1{1'b0}};
      done_q <= {SLOTS{1'b0}};
      rd_valid_q <= 1'b0;
      beat_q <= 1'b0;
      out_q <= 1'b0;
    end else begin
      beat_q <= s_rd_cpl_valid;
      if (m_rd_ready) rd_valid_q <= 1'b0;
      if (request) begin
        rd_valid_q <= 1'b1;
        tail_q <= tail_q + ONE;
        done_q[tail_slot] <= 1'b0;
      end
      if (beat_q && beat_last_q) done_q[beat_slot_q] <= 1'b1;
      if (fetch) begin
        head_q <= head_q + ONE;
        out_q  <= 1'b1;
      end else if (m_line_ready) begin
        out_q <= 1'b0;
      end
    end
  end

  always @(posedge clk) begin
    if (request) begin
      rd_addr_q <= s_line_addr;
      rd_len_q  <= s_line_len;
      rd_slot_q <= tail_slot;
    end
    beat_slot_q <= s_rd_cpl_slot;
    beat_offset_q <= s_rd_cpl_offset;
    beat_data_q <= s_rd_cpl_data;
    beat_last_q <= s_rd_cpl_last;
    beat_err_q <= s_rd_cpl_err;
    if (beat_q && beat_last_q) err_q[beat_slot_q] <= beat_err_q;
    if (fetch) out_err_q <= err_q[head_slot];
  end

  wire unused_bytes = &{1'b0, s_rd_cpl_bytes};

  `EFA_CHECK(!(beat_q && beat_last_q && done_q[beat_slot_q]), "two completions for one read")

endmodule

`default_nettype wire
