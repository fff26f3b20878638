// SPDX-License-Identifier: Apache-2.0
// efa_ram_1wnr - stores words, with one write port and READS read ports, one copy for each reader.
//
// In    wr_en, wr_addr, wr_data; rd_addr, a lane for each reader
// Out   rd_data, a lane for each reader
// Time  read latency 1 cycle; a read of the address written in the same cycle returns the old
//       word; contents are unknown until written
`default_nettype none

module efa_ram_1wnr #(
    parameter WIDTH  = 8,
    parameter ADDR_W = 4,
    parameter READS  = 2
) (
    input wire clk,
    input wire wr_en,
    input wire [ADDR_W-1:0] wr_addr,
    input wire [WIDTH-1:0] wr_data,
    input wire [READS*ADDR_W-1:0] rd_addr,
    output wire [READS*WIDTH-1:0] rd_data
);

  genvar port;

  generate
    for (port = 0; port < READS; port = port + 1) begin : g_port
      efa_ram #(
          .WIDTH (WIDTH),
          .ADDR_W(ADDR_W)
      ) u_copy (
          .clk(clk),
          .wr_en(wr_en),
          .wr_addr(wr_addr),
          .wr_data(wr_data),
          .rd_en(1'b1),
          .rd_addr(rd_addr[ADDR_W*port+:ADDR_W]),
          .rd_data(rd_data[WIDTH*port+:WIDTH])
      );
    end
  endgenerate

endmodule

`default_nettype wire
