// SPDX-License-Identifier: Apache-2.0
// efa_sq_rr - holds the set of queues with pending work, served round robin by queue number.
//
// In    s_now_*, s: queues to add, both in one cycle if needed
// Out   m stream, the next queue in round robin order; it may change while it waits, if a queue in
//       between is added; a queue may be added again from the cycle in which it is taken
// Time  two in and one out per cycle; latency 1 cycle, from s_now_* into an empty set 0; a queue
//       waits at most for one visit to every other queue
`default_nettype none

module efa_sq_rr #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    input wire s_now_valid,
    input wire [QPN_W-1:0] s_now_qpn,
    input wire s_valid,
    output wire s_ready,
    input wire [QPN_W-1:0] s_qpn,
    output wire m_valid,
    input wire m_ready,
    output wire [QPN_W-1:0] m_qpn
);

  localparam N = 1 << QPN_W;
  localparam COL_W = QPN_W / 2;
  localparam ROW_W = QPN_W - COL_W;
  localparam COLS = 1 << COL_W;
  localparam ROWS = 1 << ROW_W;
  localparam [COLS-1:0] ONE_COL = 1;
  localparam [ROWS-1:0] ONE_ROW = 1;
  localparam [N-1:0] A_QUEUE = 1;

  reg [N-1:0] inside_q;
  reg [QPN_W-1:0] last_q;

  // The choice has two levels: a row of queues, and a queue of the row. The lowest queue of each
  // row is found in parallel with the choice of the row.
  wire [ROWS-1:0] filled;
  wire [COL_W*ROWS-1:0] lowest;

  // First the queues behind the last one in its row, then the rows behind, then all rows.
  wire [ROW_W-1:0] last_row = last_q[QPN_W-1:COL_W];
  wire [COLS-1:0] rest = inside_q[{last_row, {COL_W{1'b0}}}+:COLS]
      & (({COLS{1'b1}} << last_q[COL_W-1:0]) << 1);
  wire [COLS-1:0] rest_pick;
  wire in_row = rest != {COLS{1'b0}};
  wire [ROWS-1:0] behind = filled & (({ROWS{1'b1}} << last_row) << 1);
  wire [ROWS-1:0] from = behind != {ROWS{1'b0}} ? behind : filled;
  wire [ROWS-1:0] row_pick;
  wire [COL_W-1:0] rest_col;
  wire [ROW_W-1:0] row;
  wire some = filled != {ROWS{1'b0}};
  // The lowest queue of the row that is picked.
  reg [COL_W-1:0] row_col;
  integer r;
  always @* begin
    row_col = {COL_W{1'b0}};
    for (r = 0; r < ROWS; r = r + 1) begin
      row_col = row_col | (lowest[COL_W*r+:COL_W] & {COL_W{row_pick[r]}});
    end
  end
  wire [QPN_W-1:0] picked = in_row ? {last_row, rest_col} : {row, row_col};
  // The queue that leaves, without the way through its number. A queue that bypasses the set is not
  // added.
  wire [N-1:0] leaving;
  wire [N-1:0] adding = s_valid ? A_QUEUE << s_qpn : {N{1'b0}};
  wire [N-1:0] adding_now = s_now_valid && (some || !m_ready) ? A_QUEUE << s_now_qpn : {N{1'b0}};

  genvar place;
  genvar bit_no;
  generate
    for (place = 0; place < ROWS; place = place + 1) begin : g_row
      wire [COLS-1:0] word = inside_q[COLS*place+:COLS];
      wire [COLS-1:0] pick;
      wire [ROW_W-1:0] number = place;
      assign filled[place] = word != {COLS{1'b0}};
      assign row_pick[place] = from[place] && (from & ((ONE_ROW << place) - ONE_ROW)) == {ROWS{1'b0}};
      assign leaving[COLS*place+:COLS] = in_row ? rest_pick & {COLS{number == last_row}}
          : pick & {COLS{row_pick[place]}};
      for (bit_no = 0; bit_no < COLS; bit_no = bit_no + 1) begin : g_pick
        assign pick[bit_no] = word[bit_no] && (word & ((ONE_COL << bit_no) - ONE_COL)) == {COLS{1'b0}};
      end
      for (bit_no = 0; bit_no < COL_W; bit_no = bit_no + 1) begin : g_number
        // Places whose number has this bit.
        localparam HALF = 1 << bit_no;
        assign lowest[COL_W*place+bit_no] =
            (pick & {COLS / 2 / HALF{{HALF{1'b1}}, {HALF{1'b0}}}}) != {COLS{1'b0}};
      end
    end
    for (place = 0; place < COLS; place = place + 1) begin : g_rest_pick
      assign rest_pick[place] = rest[place] && (rest & ((ONE_COL << place) - ONE_COL)) == {COLS{1'b0}};
    end
    for (bit_no = 0; bit_no < COL_W; bit_no = bit_no + 1) begin : g_rest
      localparam HALF = 1 << bit_no;
      assign rest_col[bit_no] =
          (rest_pick & {COLS / 2 / HALF{{HALF{1'b1}}, {HALF{1'b0}}}}) != {COLS{1'b0}};
    end
    for (bit_no = 0; bit_no < ROW_W; bit_no = bit_no + 1) begin : g_row_number
      localparam HALF = 1 << bit_no;
      assign row[bit_no] =
          (row_pick & {ROWS / 2 / HALF{{HALF{1'b1}}, {HALF{1'b0}}}}) != {ROWS{1'b0}};
    end
  endgenerate

  assign s_ready = 1'b1;
  assign m_valid = some || s_now_valid;
  assign m_qpn = some ? picked : s_now_qpn;

  always @(posedge clk) begin
    if (rst) begin
      inside_q <= {N{1'b0}};
      last_q <= {QPN_W{1'b0}};
    end else begin
      inside_q <= (inside_q & ~(some && m_ready ? leaving : {N{1'b0}})) | adding | adding_now;
      if (m_valid && m_ready) last_q <= m_qpn;
    end
  end

endmodule

`default_nettype wire
