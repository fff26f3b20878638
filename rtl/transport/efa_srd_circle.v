// SPDX-License-Identifier: Apache-2.0
// efa_srd_circle - message contexts: which are in use, and which one is next.
//
// In    give: the next context is taken; release_*: one comes back
// Out   next_id of the next context, its place below a count of laps, free when next_ready; used;
//       passes: the circle leaves out a context that is in use
// Time  one is given per cycle; past used ones the next is ready 3 cycles after the one before at
//       the latest. What comes back counts a cycle later
//
// Contexts go round in a circle: past used ones to the next free one in the same row, or else
// first to the next row that has one, round to its own at last. At least one has to be free. The
// count of ids goes on through resets.
`include "efa_check.vh"

module efa_srd_circle #(
    parameter CTX_W = 11,  // 2 or more
    parameter ID_LEFT = 0  // ids to their wrap at power-on, whole laps; 0: a whole round
) (
    input wire clk,
    input wire power_rst,
    input wire rst,
    output wire next_ready,
    output wire [31:0] next_id,
    input wire give,
    input wire release_valid,
    input wire [CTX_W-1:0] release_place,
    output wire [(1<<CTX_W)-1:0] used,
    output wire passes
);

  localparam N = 1 << CTX_W;
  localparam COL_W = CTX_W / 2;
  localparam ROW_W = CTX_W - COL_W;
  localparam COLS = 1 << COL_W;
  localparam ROWS = 1 << ROW_W;
  localparam [COLS-1:0] A_COL = 1;
  localparam [ROWS-1:0] A_ROW = 1;
  localparam [31:0] ONE_ID = 1;
  localparam [31:0] LEFT = ID_LEFT;

  reg [N-1:0] used_q;
  reg [31:0] id_q;  // laps, row, column
  reg [31:0] id_d;
  reg ready_q;

  wire [COL_W-1:0] col = id_q[COL_W-1:0];
  wire [ROW_W-1:0] row = id_q[CTX_W-1:COL_W];
  wire [31:0] id_after = id_q + ONE_ID;
  wire [COL_W-1:0] col_after = id_after[COL_W-1:0];
  wire [ROW_W-1:0] row_after = row + A_ROW[ROW_W-1:0];

  // Free ones from here to the end of the row; rows that have one, those behind before the others.
  wire [COLS-1:0] used_here = used_q[{row, {COL_W{1'b0}}}+:COLS];
  wire [COLS-1:0] free_here = ~used_here & ({COLS{1'b1}} << col);
  wire [COLS-1:0] first_col = free_here & (~free_here + A_COL);
  wire in_row = free_here != {COLS{1'b0}};
  wire [ROWS-1:0] rows;
  wire [ROWS-1:0] rows_behind = rows & (({ROWS{1'b1}} << row) << 1);
  wire lap = rows_behind == {ROWS{1'b0}};
  wire [ROWS-1:0] rows_from = lap ? rows : rows_behind;
  wire [ROWS-1:0] first_row = rows_from & (~rows_from + A_ROW);
  // The one behind the next may stand in another row.
  wire [ROWS-1:0] begins_used;
  wire used_after = col == {COL_W{1'b1}} ? begins_used[row_after] : used_here[col_after];

  // By row and column, so that a context in use takes one LUT.
  wire [ROWS-1:0] give_row = {{ROWS - 1{1'b0}}, give} << row;
  wire [COLS-1:0] give_col = A_COL << col;
  wire [ROWS-1:0] release_row = {{ROWS - 1{1'b0}}, release_valid} << release_place[CTX_W-1:COL_W];
  wire [COLS-1:0] release_col = A_COL << release_place[COL_W-1:0];
  wire [N-1:0] used_d;

  // The numbers of the first ones, bit by bit.
  wire [COL_W-1:0] col_found;
  wire [ROW_W-1:0] row_found;

  genvar place;
  generate
    for (place = 0; place < ROWS; place = place + 1) begin : g_row
      wire [COLS-1:0] cols = used_q[place*COLS+:COLS];
      assign begins_used[place] = cols[0];
      assign rows[place] = cols != {COLS{1'b1}};
      assign used_d[place*COLS+:COLS] = (cols | (give_row[place] ? give_col : {COLS{1'b0}}))
          & ~(release_row[place] ? release_col : {COLS{1'b0}});
    end
    for (place = 0; place < COL_W; place = place + 1) begin : g_col_bit
      localparam HALF = 1 << place;
      wire [COLS-1:0] has = {COLS / 2 / HALF{{HALF{1'b1}}, {HALF{1'b0}}}};
      assign col_found[place] = (first_col & has) != {COLS{1'b0}};
    end
    for (place = 0; place < ROW_W; place = place + 1) begin : g_row_bit
      localparam HALF = 1 << place;
      wire [ROWS-1:0] has = {ROWS / 2 / HALF{{HALF{1'b1}}, {HALF{1'b0}}}};
      assign row_found[place] = (first_row & has) != {ROWS{1'b0}};
    end
  endgenerate

  assign next_ready = ready_q;
  assign next_id = id_q;
  assign used = used_q;
  assign passes = !give && used_here[col];

  always @* begin
    id_d = id_q;
    if (give) begin
      id_d = id_after;
    end else if (in_row) begin
      id_d[COL_W-1:0] = col_found;
    end else begin
      id_d[31:CTX_W] = id_q[31:CTX_W] + {{31 - CTX_W{1'b0}}, lap};
      id_d[CTX_W-1:0] = {row_found, {COL_W{1'b0}}};
    end
  end

  always @(posedge clk) begin
    if (power_rst) id_q <= 32'd0 - LEFT;
    else if (!rst) id_q <= id_d;
  end

  always @(posedge clk) begin
    if (rst) begin
      used_q  <= {N{1'b0}};
      ready_q <= 1'b1;
    end else begin
      used_q  <= used_d;
      ready_q <= give ? !used_after : in_row;
    end
  end

  `EFA_CHECK(!give || next_ready, "a context given twice")
  `EFA_CHECK(rows != {ROWS{1'b0}}, "all contexts in use")

endmodule
