// SPDX-License-Identifier: Apache-2.0
// efa_skid - registers a stream: no combinational path for data or ready.
//
// In    s stream
// Out   m stream, same items in the same order; m_next_data: the item that follows if m is
//       accepted or not valid
// Time  latency 1 cycle, one item per cycle, holds at most two items
`default_nettype none
`include "efa_check.vh"

module efa_skid #(
    parameter WIDTH = 8
) (
    input  wire clk,
    input  wire rst,
    input  wire s_valid,
    output wire s_ready,
    input  wire [WIDTH-1:0] s_data,
    output wire m_valid,
    input  wire m_ready,
    output wire [WIDTH-1:0] m_data,
    output wire [WIDTH-1:0] m_next_data
);

  reg valid_q;
  reg spare_q;
  reg [WIDTH-1:0] data_q;
  reg [WIDTH-1:0] spare_data_q;

  wire leave = !valid_q || m_ready;

  always @(posedge clk) begin
    if (rst) begin
      valid_q <= 1'b0;
      spare_q <= 1'b0;
    end else begin
      if (leave) valid_q <= spare_q || s_valid;
      spare_q <= !leave && (spare_q || s_valid);
    end
  end

  always @(posedge clk) begin
    if (leave) data_q <= m_next_data;
    if (!spare_q) spare_data_q <= s_data;
  end

  assign s_ready = !spare_q;
  assign m_valid = valid_q;
  assign m_data = data_q;
  assign m_next_data = spare_q ? spare_data_q : s_data;

  `EFA_CHECK(!spare_q || valid_q, "second item without a first")

endmodule

`default_nettype wire
