// SPDX-License-Identifier: Apache-2.0
// efa_flag_rows - stores flags in rows, with one set port, one clear port and READS read ports.
//
// In    set_en, set_addr; clear_en, clear_addr; rd_addr of a row, a lane for each reader
// Out   rd_data: the flags of the row, a lane for each reader
// Time  one set and one clear per cycle, of different flags; rd_data in the cycle of rd_addr, without
//       the set and the clear of this cycle; rst clears all flags
//
// The rows are read without a clock edge, so they infer as RAM of LUTs: a row is small, and a change
// is read in the next cycle without forwarding.
`default_nettype none
`include "efa_check.vh"

module efa_flag_rows #(
    parameter ADDR_W = 4,
    parameter COL_W  = 2,  // log2 of the flags in a row
    parameter READS  = 1
) (
    input wire clk,
    input wire rst,
    input wire set_en,
    input wire [ADDR_W-1:0] set_addr,
    input wire clear_en,
    input wire [ADDR_W-1:0] clear_addr,
    input wire [READS*(ADDR_W-COL_W)-1:0] rd_addr,
    output wire [(READS<<COL_W)-1:0] rd_data
);

  localparam ROW_W = ADDR_W - COL_W;
  localparam ROWS = 1 << ROW_W;
  localparam COLS = 1 << COL_W;
  localparam PORTS = READS + 2;
  localparam [COLS-1:0] A_COL = 1;

  // A flag is the XOR of two bits. Each bit has one writer: the set port inverts its bit of a flag that
  // is clear, the clear port its bit of a flag that is set.
  reg [COLS-1:0] set_mem[0:ROWS-1];
  reg [COLS-1:0] clear_mem[0:ROWS-1];
  // Rows that were written since the reset; the bits of all others count as 0.
  reg [ROWS-1:0] set_known_q;
  reg [ROWS-1:0] clear_known_q;

  wire [ROW_W-1:0] set_row = set_addr[ADDR_W-1:COL_W];
  wire [ROW_W-1:0] clear_row = clear_addr[ADDR_W-1:COL_W];
  wire [PORTS*ROW_W-1:0] rows = {clear_row, set_row, rd_addr};
  wire [PORTS*COLS-1:0] set_bits;
  wire [PORTS*COLS-1:0] flags;

  genvar port;
  generate
    for (port = 0; port < PORTS; port = port + 1) begin : g_port
      wire [ROW_W-1:0] at = rows[ROW_W*port+:ROW_W];
      wire [COLS-1:0] clear_bits = clear_known_q[at] ? clear_mem[at] : {COLS{1'b0}};
      assign set_bits[COLS*port+:COLS] = set_known_q[at] ? set_mem[at] : {COLS{1'b0}};
      assign flags[COLS*port+:COLS] = set_bits[COLS*port+:COLS] ^ clear_bits;
    end
  endgenerate

  wire [COLS-1:0] set_col = A_COL << set_addr[COL_W-1:0];
  wire [COLS-1:0] clear_col = A_COL << clear_addr[COL_W-1:0];
  wire [COLS-1:0] set_was = flags[COLS*READS+:COLS];
  wire [COLS-1:0] clear_was = flags[COLS*(READS+1)+:COLS];
  // Both bits of the cleared row, from its flags and one of them.
  wire [COLS-1:0] clear_bits = clear_was ^ set_bits[COLS*(READS+1)+:COLS];

  assign rd_data = flags[COLS*READS-1:0];

  always @(posedge clk) begin
    if (set_en) set_mem[set_row] <= set_bits[COLS*READS+:COLS] ^ (set_col & ~set_was);
    if (clear_en) clear_mem[clear_row] <= clear_bits ^ (clear_col & clear_was);
  end

  always @(posedge clk) begin
    if (rst) begin
      set_known_q   <= {ROWS{1'b0}};
      clear_known_q <= {ROWS{1'b0}};
    end else begin
      if (set_en) set_known_q[set_row] <= 1'b1;
      if (clear_en) clear_known_q[clear_row] <= 1'b1;
    end
  end

`ifdef EFA_FORMAL_WORD
  // All flags, for invariants of other modules.
  wire [(1<<ADDR_W)-1:0] all;
  genvar row;
  generate
    for (row = 0; row < ROWS; row = row + 1) begin : g_all
      assign all[COLS*row+:COLS] = (set_known_q[row] ? set_mem[row] : {COLS{1'b0}})
          ^ (clear_known_q[row] ? clear_mem[row] : {COLS{1'b0}});
    end
  endgenerate
`endif

  `EFA_CHECK(!(set_en && clear_en && set_addr == clear_addr), "a flag is set and cleared at once")

endmodule

`default_nettype wire
