// SPDX-License-Identifier: Apache-2.0
// efa_flag_ram - stores flags, with one set port, one clear port and one read port.
//
// In    set_en, set_addr; clear_en, clear_addr; rd_en, rd_addr; init_en, init_addr: clears a flag
//       after reset, while no other port is used
// Out   rd_flag, unchanged while rd_en is low
// Time  one set and one clear per cycle, clear wins; read latency 1 cycle; a read in the cycle of a
//       set or clear returns the old flag; a flag is unknown until its init
`default_nettype none

module efa_flag_ram #(
    parameter ADDR_W = 4
) (
    input  wire clk,
    input  wire rst,
    input  wire init_en,
    input  wire [ADDR_W-1:0] init_addr,
    input  wire set_en,
    input  wire [ADDR_W-1:0] set_addr,
    input  wire clear_en,
    input  wire [ADDR_W-1:0] clear_addr,
    input  wire rd_en,
    input  wire [ADDR_W-1:0] rd_addr,
    output wire rd_flag
);

  // A flag is the XOR of two bits. Each bit has one writer: the set port makes its bit different
  // from the other, the clear port makes its bit equal to the other.
  reg set_q;
  reg [ADDR_W-1:0] set_addr_q;
  reg clear_q;
  reg [ADDR_W-1:0] clear_addr_q;
  // A bit written in the cycle of its read.
  reg set_hit_q;
  reg set_hit_bit_q;
  reg clear_hit_q;
  reg clear_hit_bit_q;
  reg rd_hit_q;
  reg rd_hit_flag_q;

  wire set_other;
  wire clear_other;
  wire rd_set_bit;
  wire rd_clear_bit;
  wire set_bit = !(set_hit_q ? set_hit_bit_q : set_other);
  wire clear_bit = set_q && set_addr_q == clear_addr_q ? set_bit
      : clear_hit_q ? clear_hit_bit_q : clear_other;
  assign rd_flag = rd_hit_q ? rd_hit_flag_q : rd_set_bit != rd_clear_bit;

  wire set_wr = set_q || init_en;
  wire [ADDR_W-1:0] set_wr_addr = init_en ? init_addr : set_addr_q;
  wire set_wr_bit = set_bit && !init_en;
  wire clear_wr = clear_q || init_en;
  wire [ADDR_W-1:0] clear_wr_addr = init_en ? init_addr : clear_addr_q;
  wire clear_wr_bit = clear_bit && !init_en;

  efa_ram #(
      .WIDTH (1),
      .ADDR_W(ADDR_W)
  ) u_set_rd (
      .clk(clk),
      .wr_en(set_wr),
      .wr_addr(set_wr_addr),
      .wr_data(set_wr_bit),
      .rd_en(rd_en),
      .rd_addr(rd_addr),
      .rd_data(rd_set_bit)
  );

  efa_ram #(
      .WIDTH (1),
      .ADDR_W(ADDR_W)
  ) u_set_clear (
      .clk(clk),
      .wr_en(set_wr),
      .wr_addr(set_wr_addr),
      .wr_data(set_wr_bit),
      .rd_en(clear_en),
      .rd_addr(clear_addr),
      .rd_data(clear_other)
  );

  efa_ram #(
      .WIDTH (1),
      .ADDR_W(ADDR_W)
  ) u_clear_rd (
      .clk(clk),
      .wr_en(clear_wr),
      .wr_addr(clear_wr_addr),
      .wr_data(clear_wr_bit),
      .rd_en(rd_en),
      .rd_addr(rd_addr),
      .rd_data(rd_clear_bit)
  );

  efa_ram #(
      .WIDTH (1),
      .ADDR_W(ADDR_W)
  ) u_clear_set (
      .clk(clk),
      .wr_en(clear_wr),
      .wr_addr(clear_wr_addr),
      .wr_data(clear_wr_bit),
      .rd_en(set_en),
      .rd_addr(set_addr),
      .rd_data(set_other)
  );

  always @(posedge clk) begin
    if (rst) begin
      set_q   <= 1'b0;
      clear_q <= 1'b0;
    end else begin
      set_q   <= set_en;
      clear_q <= clear_en;
    end
    set_addr_q <= set_addr;
    clear_addr_q <= clear_addr;
    set_hit_q <= clear_q && clear_addr_q == set_addr;
    set_hit_bit_q <= clear_bit;
    clear_hit_q <= set_q && set_addr_q == clear_addr;
    clear_hit_bit_q <= set_bit;
    if (rd_en) begin
      rd_hit_q <= (set_q && set_addr_q == rd_addr) || (clear_q && clear_addr_q == rd_addr);
      rd_hit_flag_q <= !(clear_q && clear_addr_q == rd_addr);
    end
  end

endmodule

`default_nettype wire
