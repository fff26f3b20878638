// SPDX-License-Identifier: Apache-2.0
// efa_crc16 - computes the checksum of an admin entry whose checksum field is zero.
//
// In    s_data: the entry
// Out   m_crc: the checksum of the s_data two cycles before
// Time  2 cycles, an entry per cycle: parity of each 16-byte part, then parity over the parts
`default_nettype none
`include "efa_defs.vh"

module efa_crc16 #(
    parameter BITS = 512
) (
    input wire clk,
    input wire [BITS-1:0] s_data,
    output wire [15:0] m_crc
);

  localparam PART = 128;
  localparam PARTS = BITS / PART;

  generate
    if (PARTS * PART != BITS) begin : g_illegal
      efa_parameter_error entries_are_multiples_of_16_bytes ();
    end
  endgenerate

  // The polynomial for least significant bit first.
  function [15:0] reversed;
    input [15:0] value;
    integer k;
    begin
      for (k = 0; k < 16; k = k + 1) reversed[k] = value[15-k];
    end
  endfunction

  localparam [15:0] POLY = reversed(`EFA_CRC16__POLY);

  // Bits of the entry whose parity is one bit of the checksum.
  function [BITS-1:0] deciding;
    input [3:0] crc_bit;
    reg [15:0] reach;
    integer k;
    begin
      reach = POLY;
      for (k = BITS - 1; k >= 0; k = k - 1) begin
        deciding[k] = reach[crc_bit];
        reach = {1'b0, reach[15:1]} ^ (reach[0] ? POLY : 16'd0);
      end
    end
  endfunction

  // The start value after an entry of zeros.
  function [15:0] left_of_start;
    input [15:0] start;
    integer k;
    begin
      left_of_start = start;
      for (k = 0; k < BITS; k = k + 1) begin
        left_of_start = {1'b0, left_of_start[15:1]} ^ (left_of_start[0] ? POLY : 16'd0);
      end
    end
  endfunction

  localparam [15:0] START = left_of_start(`EFA_CRC16__INIT) ^ `EFA_CRC16__XOROUT;

  wire [16*PARTS-1:0] part;
  reg [16*PARTS-1:0] part_q;
  wire [15:0] crc;
  reg [15:0] crc_q;

  always @(posedge clk) begin
    part_q <= part;
    crc_q  <= crc;
  end

  assign m_crc = crc_q;

  genvar b;
  genvar q;
  generate
    for (b = 0; b < 16; b = b + 1) begin : g_bit
      localparam [BITS-1:0] MASK = deciding(b);
      for (q = 0; q < PARTS; q = q + 1) begin : g_part
        assign part[PARTS*b+q] = ^(s_data[PART*q+:PART] & MASK[PART*q+:PART]);
      end
      assign crc[b] = START[b] ^ (^part_q[PARTS*b+:PARTS]);
    end
  endgenerate

endmodule

`default_nettype wire
