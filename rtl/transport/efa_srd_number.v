// SPDX-License-Identifier: Apache-2.0
// efa_srd_number - gives the numbers of incarnations and sessions (decision 0009).
//
// In    s_take: the next number is used for a session
// Out   m_number: the next number; m_last: the last number that was given; m_incarnation: of this
//       device
// Time  one number per cycle; m_incarnation is new one cycle after the beginning of rst
//
// The counter continues through resets. It leaves out 0.
`default_nettype none

module efa_srd_number #(
    parameter NUMBERS_LEFT = 0  // numbers until the wrap at power-on; 0: the first number is 1
) (
    input wire clk,
    input wire rst_por,
    input wire rst,
    input wire s_take,
    output wire [15:0] m_number,
    output wire [15:0] m_last,
    output wire [15:0] m_incarnation
);

  localparam [31:0] LEFT = NUMBERS_LEFT;
  localparam [15:0] FIRST = LEFT[15:0] == 16'd0 ? 16'd1 : 16'd0 - LEFT[15:0];
  localparam [15:0] SECOND = FIRST == 16'hFFFF ? 16'd1 : FIRST + 16'd1;

  reg [15:0] number_q;
  reg [15:0] last_q;
  reg [15:0] incarnation_q;
  reg rst_q;

  wire begins = rst && !rst_q;
  wire [15:0] after = number_q + 16'd1;

  assign m_number = number_q;
  assign m_last = last_q;
  assign m_incarnation = incarnation_q;

  always @(posedge clk) begin
    if (rst_por) begin
      number_q <= SECOND;
      last_q <= FIRST;
      incarnation_q <= FIRST;
      rst_q <= 1'b1;
    end else begin
      rst_q <= rst;
      if (begins || (s_take && !rst)) begin
        number_q <= after == 16'd0 ? 16'd1 : after;
        last_q <= number_q;
      end
      if (begins) incarnation_q <= number_q;
    end
  end

endmodule

`default_nettype wire
