// SPDX-License-Identifier: Apache-2.0
// efa_slot_find - finds the first marked slot from a slot on, or behind it, and round the end.
//
// In    s_from: the slot to search from, itself the last one if BEHIND = 1; s_slots: marked slots
// Out   m_found; m_slot: its number, 0 if none is marked; m_bits: only its bit is set, none if none is marked
// Time  combinational
//
// Two levels: a row of slots, then a slot in the row. The row of s_from is looked at twice, for its
// slots from s_from on and, last, for those before. The searches of all rows and of the row run at
// the same time, so that a path has one search.
`default_nettype none

module efa_slot_find #(
    parameter WINDOW_W = 8,
    parameter BEHIND = 0
) (
    input wire [WINDOW_W-1:0] s_from,
    input wire [(1<<WINDOW_W)-1:0] s_slots,
    output wire m_found,
    output wire [WINDOW_W-1:0] m_slot,
    output wire [(1<<WINDOW_W)-1:0] m_bits
);

  localparam COL_W = WINDOW_W / 2;
  localparam ROW_W = WINDOW_W - COL_W;
  localparam COLS = 1 << COL_W;
  localparam ROWS = 1 << ROW_W;
  localparam [ROWS-1:0] A_ROW = 1;
  localparam [COLS-1:0] A_COL = 1;

  wire [ROW_W-1:0] row = s_from[WINDOW_W-1:COL_W];
  wire [COL_W-1:0] col = s_from[COL_W-1:0];
  wire [ROWS-1:0] here = A_ROW << row;

  // The row of s_from, from s_from on.
  wire [COLS-1:0] own = s_slots[{row, {COL_W{1'b0}}}+:COLS] & (({COLS{1'b1}} << col) << BEHIND);
  wire in_own = own != {COLS{1'b0}};
  wire [COLS-1:0] own_first;
  wire [COL_W-1:0] own_col;

  // Other rows: those behind, else those from the beginning, each with its first slot.
  wire [ROWS-1:0] any;
  wire [ROWS-1:0] behind = any & (({ROWS{1'b1}} << row) << 1);
  wire [ROWS-1:0] first_behind;
  wire [ROWS-1:0] first_any;
  wire in_behind = behind != {ROWS{1'b0}};
  wire [ROWS-1:0] other = in_behind ? first_behind : first_any;
  // Both numbers are known before it is known which one holds.
  wire [ROW_W-1:0] behind_row;
  wire [ROW_W-1:0] any_row;
  wire [ROWS*COL_W-1:0] row_cols;
  reg [COL_W-1:0] behind_col;
  reg [COL_W-1:0] any_col;
  integer each;
  always @* begin
    behind_col = {COL_W{1'b0}};
    any_col = {COL_W{1'b0}};
    for (each = 0; each < ROWS; each = each + 1) begin
      behind_col = behind_col | (row_cols[each*COL_W+:COL_W] & {COL_W{first_behind[each]}});
      any_col = any_col | (row_cols[each*COL_W+:COL_W] & {COL_W{first_any[each]}});
    end
  end

  assign m_found = any != {ROWS{1'b0}};
  assign m_slot  = in_own ? {row, own_col} : in_behind ? {behind_row, behind_col} : {any_row, any_col};

  efa_onehot_index #(
      .INDEX_W(COL_W)
  ) u_own (
      .s_bits(own_first),
      .m_index(own_col)
  );

  efa_onehot_index #(
      .INDEX_W(ROW_W)
  ) u_behind (
      .s_bits(first_behind),
      .m_index(behind_row)
  );

  efa_onehot_index #(
      .INDEX_W(ROW_W)
  ) u_any (
      .s_bits(first_any),
      .m_index(any_row)
  );

  // A first bit is compared with those below it, not found by a subtraction: no path has a carry.
  genvar place;
  genvar slot;
  generate
    for (place = 0; place < COLS; place = place + 1) begin : g_own
      assign own_first[place] = own[place] && (own & ((A_COL << place) - A_COL)) == {COLS{1'b0}};
    end
    for (place = 0; place < ROWS; place = place + 1) begin : g_row
      localparam [ROWS-1:0] BELOW = (A_ROW << place) - A_ROW;
      wire [COLS-1:0] cols = s_slots[place*COLS+:COLS];
      wire [COLS-1:0] first;
      assign any[place] = cols != {COLS{1'b0}};
      assign first_behind[place] = behind[place] && (behind & BELOW) == {ROWS{1'b0}};
      assign first_any[place] = any[place] && (any & BELOW) == {ROWS{1'b0}};
      assign m_bits[place*COLS+:COLS] = in_own ? own_first & {COLS{here[place]}} : first & {COLS{other[place]}};
      for (slot = 0; slot < COLS; slot = slot + 1) begin : g_first
        assign first[slot] = cols[slot] && (cols & ((A_COL << slot) - A_COL)) == {COLS{1'b0}};
      end
      efa_onehot_index #(
          .INDEX_W(COL_W)
      ) u_first (
          .s_bits(first),
          .m_index(row_cols[place*COL_W+:COL_W])
      );
    end
  endgenerate

endmodule

`default_nettype wire
