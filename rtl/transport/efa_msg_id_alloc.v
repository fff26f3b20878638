// SPDX-License-Identifier: Apache-2.0
// efa_msg_id_alloc - allocates message contexts round robin and stores which ones are allocated.
//
// In    s_give: the next context is allocated; s_release_*: an allocated context is freed
// Out   m_next_id of the next context, its index below a wrap count, free if m_next_free; m_passes:
//       the scan pointer skips an allocated context
// Time  one allocation per cycle; after allocated contexts, the next one is ready at most 3 cycles
//       after the previous one; a freed context is available one cycle later
//
// The scan pointer moves to the next free context in the same row. If the row has none, it first
// moves to the next row that has one, its own row last. While all contexts are allocated, it stays.
// The ids continue through resets.
`default_nettype none
`include "efa_check.vh"

module efa_msg_id_alloc #(
    parameter CTX_W = 11,  // 4 or more
    parameter ID_LEFT = 0  // ids until the wrap at power-on, a multiple of 2^CTX_W; 0: 2^32
) (
    input wire clk,
    input wire rst_por,
    input wire rst,
    output wire m_next_free,
    output wire [31:0] m_next_id,
    input wire s_give,
    input wire s_release_valid,
    input wire [CTX_W-1:0] s_release_place,
    output wire m_passes
);

  localparam COL_W = CTX_W / 2;
  localparam ROW_W = CTX_W - COL_W;
  localparam COLS = 1 << COL_W;
  localparam ROWS = 1 << ROW_W;
  localparam [COLS-1:0] A_COL = 1;
  localparam [ROW_W-1:0] ROW_ONE = 1;
  localparam [ROWS-1:0] A_ROW = 1;
  localparam [31:0] ONE_ID = 1;
  localparam [31:0] LEFT = ID_LEFT;

  reg [31:0] id_q;  // wraps, row, column
  reg [31:0] id_d;
  reg ready_q;
  reg [ROWS-1:0] rows_q;  // rows with a free context, and the row whose last one was just allocated
  reg [ROWS-1:0] here_q;  // the row of one cycle before
  reg filled_q;  // its last free context was allocated

  wire [COL_W-1:0] col = id_q[COL_W-1:0];
  wire [ROW_W-1:0] row = id_q[CTX_W-1:COL_W];
  wire [31:0] id_after = id_q + ONE_ID;
  wire [COL_W-1:0] col_after = id_after[COL_W-1:0];
  wire [ROW_W-1:0] row_after = row + ROW_ONE;

  // Free contexts from the current one to the end of its row. Rows with a free context: rows behind
  // the current row have priority.
  wire [COLS-1:0] used_row;
  wire [COLS-1:0] free_row = ~used_row & ({COLS{1'b1}} << col);
  wire in_row;
  wire any_row;
  wire [ROWS-1:0] rows = rows_q & ~(filled_q ? here_q : {ROWS{1'b0}});
  wire wrap = (rows & (({ROWS{1'b1}} << row) << 1)) == {ROWS{1'b0}};
  // The context after the next one may be in another row.
  wire [COLS-1:0] row_behind;
  wire used_after = col == {COL_W{1'b1}} ? row_behind[0] : used_row[col_after];

  // A row has no free context when its last one is allocated, which is known late.
  wire [ROW_W-1:0] release_row = s_release_place[CTX_W-1:COL_W];
  wire fills = s_give && (used_row | (A_COL << col)) == {COLS{1'b1}} && !(s_release_valid && release_row == row);
  wire [ROWS-1:0] freed = {{ROWS - 1{1'b0}}, s_release_valid} << release_row;

  wire [COL_W-1:0] col_found;
  wire [ROW_W-1:0] row_found;

  wire [COLS-1:0] unused_col;
  efa_slot_find #(
      .WINDOW_W(COL_W)
  ) u_col (
      .s_from(col),
      .s_slots(free_row),
      .m_found(in_row),
      .m_slot(col_found),
      .m_bits(unused_col)
  );

  wire [ROWS-1:0] unused_row;
  efa_slot_find #(
      .WINDOW_W(ROW_W),
      .BEHIND  (1)
  ) u_row (
      .s_from(row),
      .s_slots(rows),
      .m_found(any_row),
      .m_slot(row_found),
      .m_bits(unused_row)
  );

  efa_flag_rows #(
      .ADDR_W(CTX_W),
      .COL_W (COL_W),
      .READS (2)
  ) u_used (
      .clk(clk),
      .rst(rst),
      .set_en(s_give),
      .set_addr(id_q[CTX_W-1:0]),
      .clear_en(s_release_valid),
      .clear_addr(s_release_place),
      .rd_addr({row_after, row}),
      .rd_data({row_behind, used_row})
  );

  assign m_next_free = ready_q;
  assign m_next_id = id_q;
  assign m_passes = !s_give && used_row[col];

  always @* begin
    id_d = id_q;
    if (s_give) begin
      id_d = id_after;
    end else if (in_row) begin
      id_d[COL_W-1:0] = col_found;
    end else if (any_row) begin
      id_d[31:CTX_W] = id_q[31:CTX_W] + {{31 - CTX_W{1'b0}}, wrap};
      id_d[CTX_W-1:0] = {row_found, {COL_W{1'b0}}};
    end
  end

  always @(posedge clk) begin
    if (rst_por) id_q <= 32'd0 - LEFT;
    else if (!rst) id_q <= id_d;
  end

  always @(posedge clk) begin
    if (rst) begin
      rows_q <= {ROWS{1'b1}};
      filled_q <= 1'b0;
      ready_q <= 1'b1;
    end else begin
      rows_q <= rows | freed;
      filled_q <= fills;
      ready_q <= s_give ? !used_after : in_row;
    end
  end

  always @(posedge clk) begin
    here_q <= A_ROW << row;
  end

  wire unused_bits = &{1'b0, row_behind};

  `EFA_CHECK(!s_give || m_next_free, "context allocated twice")

endmodule

`default_nettype wire
