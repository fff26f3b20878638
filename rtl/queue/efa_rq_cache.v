// SPDX-License-Identifier: Apache-2.0
// efa_rq_cache - caches receive descriptors prefetched from host memory.
//
// In    s_rd_cpl read completions, whose cookie has the ring and the first descriptor; desc_rd_qpn,
//       desc_rd_count: a ring and a count, for each of two readers; s_clear a ring whose
//       descriptors are invalidated
// Out   desc_rd_data: descriptors count and count + 1, desc_rd_present: a valid bit for each; for
//       the second reader only their request id and last bit, the other bits are 0
// Time  one beat per cycle, readable 2 cycles later; a read 1 cycle after its count; a clear
//       2^SLOT_W / 4 cycles, plus one for each beat meanwhile
//
// Each slot holds the wrap bit of its descriptor. Read completions may therefore arrive in any
// order, and an old descriptor is never used in place of its successor.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rq_cache #(
    parameter QPN_W  = 6,
    parameter SLOT_W = 7
) (
    input wire clk,
    input wire rst,

    input wire s_rd_cpl_valid,
    input wire [QPN_W-1:0] s_rd_cpl_qpn,
    input wire [15:0] s_rd_cpl_count,
    input wire [12:0] s_rd_cpl_offset,
    input wire [511:0] s_rd_cpl_data,
    input wire [6:0] s_rd_cpl_bytes,
    input wire s_rd_cpl_err,

    input wire s_clear_valid,
    output wire s_clear_ready,
    input wire [QPN_W-1:0] s_clear_qpn,

    input wire [2*QPN_W-1:0] desc_rd_qpn,
    input wire [2*16-1:0] desc_rd_count,
    output wire [2*256-1:0] desc_rd_data,
    output wire [2*2-1:0] desc_rd_present
);

  localparam DESC_W = `EFA_IO_RX_DESC__BITS;
  localparam DESC_LOG = $clog2(DESC_W);
  localparam LANES = 4;
  localparam ROW_W = SLOT_W - 2;
  localparam LANE_W = DESC_W + 1;
  localparam BRIEF_W = 1 + 1 + 16;
  localparam [ROW_W-1:0] LAST_ROW = {ROW_W{1'b1}};

  generate
    if (SLOT_W < 4 || SLOT_W > 8) begin : g_illegal
      efa_rq_cache_needs_16_to_256_slots u_illegal ();
    end
  endgenerate

  // a: a beat to be stored
  reg a_valid_q;
  reg [QPN_W-1:0] a_qpn_q;
  reg [SLOT_W:0] a_count_q;
  reg [2:0] a_number_q;
  reg [511:0] a_data_q;

  reg [ROW_W-1:0] clear_row_q;
  wire clear = s_clear_valid && !a_valid_q;
  assign s_clear_ready = clear && clear_row_q == LAST_ROW;

  always @(posedge clk) begin
    a_qpn_q <= s_rd_cpl_qpn;
    a_count_q <= s_rd_cpl_count[SLOT_W:0] + s_rd_cpl_offset[SLOT_W+4:4];
    a_number_q <= s_rd_cpl_bytes[6:4];
    a_data_q <= s_rd_cpl_data;
    if (rst) begin
      a_valid_q   <= 1'b0;
      clear_row_q <= {ROW_W{1'b0}};
    end else begin
      a_valid_q <= s_rd_cpl_valid && !s_rd_cpl_err;
      if (clear) clear_row_q <= clear_row_q + 1'b1;
    end
  end

  wire [2*LANES*LANE_W-1:0] lanes;

  genvar g;
  generate
    for (g = 0; g < LANES; g = g + 1) begin : g_lane
      localparam [1:0] LANE = g;
      localparam [1:0] PASSED = ~LANE;
      wire [1:0] behind = LANE - a_count_q[1:0];
      // Lanes before the first descriptor continue in the next row; the bit above the row is the
      // wrap.
      wire [SLOT_W:0] at = a_count_q + {{(SLOT_W - 1) {1'b0}}, PASSED};
      wire [SLOT_W-1:0] at0 = desc_rd_count[0+:SLOT_W] + {{(SLOT_W - 2) {1'b0}}, PASSED};
      wire [SLOT_W-1:0] at1 = desc_rd_count[16+:SLOT_W] + {{(SLOT_W - 2) {1'b0}}, PASSED};
      wire wr_en = clear || (a_valid_q && {1'b0, behind} < a_number_q);
      wire [QPN_W+ROW_W-1:0] wr_addr = clear ? {s_clear_qpn, clear_row_q}
          : {a_qpn_q, at[SLOT_W-1:2]};
      // The first wrap is 0, so a cleared slot holds 1.
      wire wrap = clear || at[SLOT_W];
      wire [DESC_W-1:0] fresh = clear ? {DESC_W{1'b0}} : a_data_q[{behind, {DESC_LOG{1'b0}}}+:DESC_W];
      wire [LANE_W-1:0] word0;
      wire [BRIEF_W-1:0] brief;
      reg [LANE_W-1:0] word1;
      efa_ram #(
          .WIDTH (LANE_W),
          .ADDR_W(QPN_W + ROW_W)
      ) u_slots (
          .clk(clk),
          .wr_en(wr_en),
          .wr_addr(wr_addr),
          .wr_data({wrap, fresh}),
          .rd_en(1'b1),
          .rd_addr({desc_rd_qpn[0+:QPN_W], at0[SLOT_W-1:2]}),
          .rd_data(word0)
      );
      efa_ram #(
          .WIDTH (BRIEF_W),
          .ADDR_W(QPN_W + ROW_W)
      ) u_briefs (
          .clk(clk),
          .wr_en(wr_en),
          .wr_addr(wr_addr),
          .wr_data({wrap, fresh[`EFA_IO_RX_DESC__LAST], fresh[`EFA_IO_RX_DESC__REQ_ID]}),
          .rd_en(1'b1),
          .rd_addr({desc_rd_qpn[QPN_W+:QPN_W], at1[SLOT_W-1:2]}),
          .rd_data(brief)
      );
      always @* begin
        word1 = {LANE_W{1'b0}};
        {word1[DESC_W], word1[`EFA_IO_RX_DESC__LAST], word1[`EFA_IO_RX_DESC__REQ_ID]} = brief;
      end
      assign lanes[LANE_W*g+:LANE_W] = word0;
      assign lanes[LANE_W*(LANES+g)+:LANE_W] = word1;
      wire unused_at = &{1'b0, at[1:0], at0[1:0], at1[1:0]};
    end

    for (g = 0; g < 2; g = g + 1) begin : g_reader
      reg [SLOT_W:0] count_q;
      wire [SLOT_W:0] second = count_q + 1'b1;
      wire [LANES*LANE_W-1:0] row = lanes[LANES*LANE_W*g+:LANES*LANE_W];
      reg [LANE_W-1:0] word0;
      reg [LANE_W-1:0] word1;
      always @* begin
        case (count_q[1:0])
          2'd0: {word1, word0} = row[0+:2*LANE_W];
          2'd1: {word1, word0} = row[LANE_W+:2*LANE_W];
          2'd2: {word1, word0} = row[2*LANE_W+:2*LANE_W];
          default: {word1, word0} = {row[0+:LANE_W], row[3*LANE_W+:LANE_W]};
        endcase
      end
      always @(posedge clk) begin
        count_q <= desc_rd_count[16*g+:SLOT_W+1];
      end
      assign desc_rd_data[256*g+:256] = {word1[DESC_W-1:0], word0[DESC_W-1:0]};
      assign desc_rd_present[2*g+:2] = {word1[DESC_W] == second[SLOT_W], word0[DESC_W] == count_q[SLOT_W]};
      wire unused_second = &{1'b0, second};
    end
  endgenerate

  wire unused_bits = &{1'b0, s_rd_cpl_count, s_rd_cpl_offset, s_rd_cpl_bytes, desc_rd_count};

  `EFA_CHECK(
      !s_rd_cpl_valid || s_rd_cpl_err || (s_rd_cpl_offset[3:0] == 4'd0 && s_rd_cpl_bytes[3:0] == 4'd0),
      "efa_rq_cache: a descriptor came in two beats")

endmodule

`default_nettype wire
