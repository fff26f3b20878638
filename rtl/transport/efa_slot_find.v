// SPDX-License-Identifier: Apache-2.0
// efa_slot_find - finds the first marked slot of a window, from a slot on and round the end.
//
// In    s_from: first slot; s_slots: marked slots
// Out   m_found; m_slot: its number
// Time  combinational
//
// Two levels: a row of slots, then a slot in the row. The row of s_from is looked at twice, for its
// slots from s_from on and, last, for those before.
`default_nettype none

module efa_slot_find #(
    parameter WINDOW_W = 8
) (
    input wire [WINDOW_W-1:0] s_from,
    input wire [(1<<WINDOW_W)-1:0] s_slots,
    output wire m_found,
    output wire [WINDOW_W-1:0] m_slot
);

  localparam COL_W = WINDOW_W / 2;
  localparam ROW_W = WINDOW_W - COL_W;
  localparam COLS = 1 << COL_W;
  localparam ROWS = 1 << ROW_W;
  localparam [ROWS-1:0] A_ROW = 1;
  localparam [COLS-1:0] A_COL = 1;

  wire [ROW_W-1:0] row = s_from[WINDOW_W-1:COL_W];
  wire [COL_W-1:0] col = s_from[COL_W-1:0];

  wire [ROWS-1:0] any;
  genvar place;
  generate
    for (place = 0; place < ROWS; place = place + 1) begin : g_row
      assign any[place] = s_slots[place*COLS+:COLS] != {COLS{1'b0}};
    end
  endgenerate

  wire [COLS-1:0] own = s_slots[{row, {COL_W{1'b0}}}+:COLS] & ({COLS{1'b1}} << col);
  wire in_own = own != {COLS{1'b0}};
  wire [ROWS-1:0] behind = any & (({ROWS{1'b1}} << row) << 1);
  wire [ROWS-1:0] rows = behind != {ROWS{1'b0}} ? behind : any;
  wire [ROWS-1:0] first_row = rows & (~rows + A_ROW);

  wire [ROW_W-1:0] row_found;
  wire [COL_W-1:0] col_found;
  wire [ROW_W-1:0] row_chosen = in_own ? row : row_found;
  wire [COLS-1:0] cols = in_own ? own : s_slots[{row_chosen, {COL_W{1'b0}}}+:COLS];
  wire [COLS-1:0] first_col = cols & (~cols + A_COL);

  assign m_found = any != {ROWS{1'b0}};
  assign m_slot = {row_chosen, col_found};

  efa_onehot_index #(
      .INDEX_W(ROW_W)
  ) u_row (
      .s_bits(first_row),
      .m_index(row_found)
  );

  efa_onehot_index #(
      .INDEX_W(COL_W)
  ) u_col (
      .s_bits(first_col),
      .m_index(col_found)
  );

endmodule

`default_nettype wire
