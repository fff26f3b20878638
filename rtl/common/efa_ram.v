// SPDX-License-Identifier: Apache-2.0
// efa_ram - stores words, with one write port and one read port.
//
// In    wr_en, wr_addr, wr_data; rd_en, rd_addr
// Out   rd_data, unchanged while rd_en is low
// Time  read latency 1 cycle; a read of the address written in the same cycle returns the old
//       word; contents are unknown until written
`default_nettype none

module efa_ram #(
    parameter WIDTH = 8,
    parameter ADDR_W = 4
) (
    input  wire clk,
    input  wire wr_en,
    input  wire [ADDR_W-1:0] wr_addr,
    input  wire [WIDTH-1:0] wr_data,
    input  wire rd_en,
    input  wire [ADDR_W-1:0] rd_addr,
    output wire [WIDTH-1:0] rd_data
);

  reg [WIDTH-1:0] mem[0:(1<<ADDR_W)-1];
  reg [WIDTH-1:0] rd_data_q;

  always @(posedge clk) begin
    if (wr_en) mem[wr_addr] <= wr_data;
    if (rd_en) rd_data_q <= mem[rd_addr];
  end

  assign rd_data = rd_data_q;

`ifdef EFA_FORMAL_WORD
  // One word at an address chosen by the solver, and the value last written there. Invariants of
  // other modules refer to this word instead of the memory.
  (* anyconst *)reg [ADDR_W-1:0] word_addr;
  reg word_known_q = 1'b0;
  reg [WIDTH-1:0] word_q;
  always @(posedge clk) begin
    if (wr_en && wr_addr == word_addr) begin
      word_known_q <= 1'b1;
      word_q <= wr_data;
    end
  end
  always @* begin
    h_word : assert (!word_known_q || mem[word_addr] == word_q);
  end
`endif

endmodule

`default_nettype wire
