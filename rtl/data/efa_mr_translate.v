// SPDX-License-Identifier: Apache-2.0
// efa_mr_translate - translates a checked range into host accesses.
//
// In    s a range from efa_mr_check (length 1 or more); s_mtt_* host pages as they are set
// Out   m accesses in ascending order, none across a (1 << s_cfg_max_log) boundary and so none
//       across a page; m_first_byte: bytes of the range before this access; m_done: last access of
//       the range
// Time  first access 3 cycles after the range, with EARLY 2 (page index and page read in one
//       cycle); one access per cycle, ranges back to back; all stages stall while m_ready is low
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_mr_translate #(
    parameter USER_W = 1,
    parameter EARLY  = 0,
    parameter MTT_W  = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire clk,
    input wire rst,
    input wire s_mtt_valid,
    input wire [`EFA_LIMITS__MTT_W-1:0] s_mtt_index,
    input wire [51:0] s_mtt_data,
    input wire [3:0] s_cfg_max_log,
    input wire s_valid,
    output wire s_ready,
    input wire [`EFA_MR_LOC__W-1:0] s_loc,
    input wire [15:0] s_len,
    input wire [USER_W-1:0] s_user,
    output wire m_valid,
    input wire m_ready,
    output wire [63:0] m_addr,
    output wire [12:0] m_len,
    output wire m_done,
    output wire [15:0] m_first_byte,
    output wire [USER_W-1:0] m_user
);

  localparam [12:0] ONE = 1;

  // s1: the range being cut; s1_where_q: byte offset in the region, or host address
  reg s1_valid_q;
  reg s1_phys_q;
  reg [5:0] s1_shift_q;
  reg [`EFA_LIMITS__MTT_W-1:0] s1_mtt_q;
  reg [63:0] s1_where_q;
  reg [15:0] s1_left_q;
  reg [12:0] s1_step_q;  // bytes to the next boundary
  reg s1_done_q;  // the remaining bytes do not cross the boundary
  reg [15:0] s1_first_q;
  reg [USER_W-1:0] s1_user_q;

  // s3: an access with its page
  reg s3_valid_q;
  reg s3_phys_q;
  reg [63:0] s3_where_q;
  reg [63:0] s3_mask_q;
  reg [12:0] s3_len_q;
  reg s3_done_q;
  reg [15:0] s3_first_q;
  reg [USER_W-1:0] s3_user_q;

  wire move = !s3_valid_q || m_ready;

  wire [12:0] block = ONE << s_cfg_max_log;
  wire [63:0] s_where = s_loc[`EFA_MR_LOC__START];
  wire [11:0] s_low = s_where[11:0];
  wire [12:0] s_step = block - ({1'b0, s_low} & (block - ONE));
  wire [15:0] s1_rest = s1_left_q - {3'd0, s1_step_q};
  wire [63:0] page = s1_where_q >> s1_shift_q;
  wire [51:0] host;

  // An access and the index of its page.
  localparam PIECE_W = 1 + 64 + 64 + 13 + 1 + 16 + USER_W;
  wire [MTT_W-1:0] s1_index = s1_mtt_q[MTT_W-1:0] + page[MTT_W-1:0];
  wire [PIECE_W-1:0] s1_piece = {
    s1_phys_q,
    s1_where_q,
    ~({64{1'b1}} << s1_shift_q),
    s1_done_q ? s1_left_q[12:0] : s1_step_q,
    s1_done_q,
    s1_first_q,
    s1_user_q
  };
  wire s2_valid;
  wire [MTT_W-1:0] s2_index;
  wire [PIECE_W-1:0] s2_piece;

  generate
    if (EARLY != 0) begin : g_early
      assign s2_valid = s1_valid_q;
      assign s2_index = s1_index;
      assign s2_piece = s1_piece;
    end else begin : g_piece
      // s2: an access whose page is being read
      reg s2_valid_q;
      reg [MTT_W-1:0] s2_index_q;
      reg [PIECE_W-1:0] s2_piece_q;
      assign s2_valid = s2_valid_q;
      assign s2_index = s2_index_q;
      assign s2_piece = s2_piece_q;
      always @(posedge clk) begin
        if (rst) s2_valid_q <= 1'b0;
        else if (move) s2_valid_q <= s1_valid_q;
        if (move) begin
          s2_index_q <= s1_index;
          s2_piece_q <= s1_piece;
        end
      end
    end
  endgenerate

  wire [63:0] translated = ({host, 12'd0} & ~s3_mask_q) | (s3_where_q & s3_mask_q);

  assign s_ready = move && (!s1_valid_q || s1_done_q);
  assign m_valid = s3_valid_q;
  assign m_addr = s3_phys_q ? s3_where_q : translated;
  assign m_len = s3_len_q;
  assign m_done = s3_done_q;
  assign m_first_byte = s3_first_q;
  assign m_user = s3_user_q;

  efa_ram #(
      .WIDTH (52),
      .ADDR_W(MTT_W)
  ) u_pages (
      .clk(clk),
      .wr_en(s_mtt_valid),
      .wr_addr(s_mtt_index[MTT_W-1:0]),
      .wr_data(s_mtt_data),
      .rd_en(move),
      .rd_addr(s2_index),
      .rd_data(host)
  );

  always @(posedge clk) begin
    if (rst) begin
      s1_valid_q <= 1'b0;
      s3_valid_q <= 1'b0;
    end else if (move) begin
      s1_valid_q <= s_valid || (s1_valid_q && !s1_done_q);
      s3_valid_q <= s2_valid;
    end
  end

  always @(posedge clk) begin
    if (s_valid && s_ready) begin
      s1_phys_q  <= s_loc[`EFA_MR_LOC__PHYS];
      s1_shift_q <= s_loc[`EFA_MR_LOC__SHIFT];
      s1_mtt_q   <= s_loc[`EFA_MR_LOC__MTT];
      s1_where_q <= s_where;
      s1_left_q  <= s_len;
      s1_step_q  <= s_step;
      s1_done_q  <= s_len <= {3'd0, s_step};
      s1_first_q <= 16'd0;
      s1_user_q  <= s_user;
    end else if (move) begin
      // Only the first access may start inside a block.
      s1_where_q <= s1_where_q + {51'd0, s1_step_q};
      s1_left_q  <= s1_rest;
      s1_step_q  <= block;
      s1_done_q  <= s1_rest <= {3'd0, block};
      s1_first_q <= s1_first_q + {3'd0, s1_step_q};
    end
    if (move) begin
      {s3_phys_q, s3_where_q, s3_mask_q, s3_len_q, s3_done_q, s3_first_q, s3_user_q} <= s2_piece;
    end
  end

  wire unused_high = &{1'b0, s1_mtt_q, s_mtt_index, page};

  `EFA_CHECK(!s_valid || s_len != 16'd0, "range of 0 bytes")
  `EFA_CHECK(!s1_valid_q || (s_cfg_max_log >= 4'd7 && s_cfg_max_log <= 4'd12),
             "block size out of range")
  `EFA_CHECK(!s1_valid_q || s1_phys_q || s1_shift_q >= 6'd12, "page smaller than 4 KB")

endmodule

`default_nettype wire
