// SPDX-License-Identifier: Apache-2.0
// efa_ram_be - stores words, with one write port that has lane enables and one read port.
//
// In    wr_en, wr_lanes (one bit for each WIDTH / LANES bits), wr_addr, wr_data; rd_en, rd_addr
// Out   rd_data, unchanged while rd_en is low
// Time  read latency 1 cycle; a read of the address written in the same cycle returns the old
//       word; contents are unknown until written
`default_nettype none

module efa_ram_be #(
    parameter WIDTH = 32,
    parameter ADDR_W = 4,
    parameter LANES = 4
) (
    input  wire clk,
    input  wire wr_en,
    input  wire [LANES-1:0] wr_lanes,
    input  wire [ADDR_W-1:0] wr_addr,
    input  wire [WIDTH-1:0] wr_data,
    input  wire rd_en,
    input  wire [ADDR_W-1:0] rd_addr,
    output wire [WIDTH-1:0] rd_data
);

  localparam LANE_W = WIDTH / LANES;

  generate
    if (LANE_W * LANES != WIDTH) begin : g_illegal
      efa_ram_be_needs_width_a_multiple_of_lanes u_illegal ();
    end
  endgenerate

  reg [WIDTH-1:0] mem[0:(1<<ADDR_W)-1];
  reg [WIDTH-1:0] rd_data_q;
  integer lane;

  always @(posedge clk) begin
    if (wr_en) begin
      for (lane = 0; lane < LANES; lane = lane + 1) begin
        if (wr_lanes[lane]) mem[wr_addr][LANE_W*lane+:LANE_W] <= wr_data[LANE_W*lane+:LANE_W];
      end
    end
    if (rd_en) rd_data_q <= mem[rd_addr];
  end

  assign rd_data = rd_data_q;

`ifdef EFA_FORMAL_WORD
  // One word at an address chosen by the solver; invariants of other modules refer to this word.
  (* anyconst *)reg [ADDR_W-1:0] word_addr;
  wire [WIDTH-1:0] word = mem[word_addr];
`endif

endmodule

`default_nettype wire
