// SPDX-License-Identifier: Apache-2.0
// efa_ram_fwd - stores words, with one write port and READS read ports that see each write at once.
//
// In    wr_en, wr_addr, wr_data; rd_addr, a lane for each reader
// Out   rd_data, a lane for each reader
// Time  read latency 1 cycle; a read of the address written in the same cycle returns the new
//       word; contents are unknown until written
`default_nettype none

module efa_ram_fwd #(
    parameter WIDTH  = 8,
    parameter ADDR_W = 4,
    parameter READS  = 1
) (
    input wire clk,
    input wire wr_en,
    input wire [ADDR_W-1:0] wr_addr,
    input wire [WIDTH-1:0] wr_data,
    input wire [READS*ADDR_W-1:0] rd_addr,
    output wire [READS*WIDTH-1:0] rd_data
);

  reg  [READS-1:0] written_q;
  reg  [WIDTH-1:0] wr_data_q;
  wire [READS*WIDTH-1:0] stored;

  efa_ram_1wnr #(
      .WIDTH (WIDTH),
      .ADDR_W(ADDR_W),
      .READS (READS)
  ) u_ram (
      .clk(clk),
      .wr_en(wr_en),
      .wr_addr(wr_addr),
      .wr_data(wr_data),
      .rd_addr(rd_addr),
      .rd_data(stored)
  );

  genvar port;
  generate
    for (port = 0; port < READS; port = port + 1) begin : g_port
      always @(posedge clk) begin
        written_q[port] <= wr_en && wr_addr == rd_addr[ADDR_W*port+:ADDR_W];
      end
      assign rd_data[WIDTH*port+:WIDTH] = written_q[port] ? wr_data_q : stored[WIDTH*port+:WIDTH];
    end
  endgenerate

  always @(posedge clk) begin
    wr_data_q <= wr_data;
  end

endmodule

`default_nettype wire
