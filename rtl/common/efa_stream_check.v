// SPDX-License-Identifier: Apache-2.0
// efa_stream_check - checks the rules of a stream on a valid/ready pair.
//
// In    s_valid, s_ready, s_data
// Out   none: a violation ends the simulation, or fails the assertion of a proof
// Time  checked at every rising edge outside reset
//
// Rules: 1. valid stays until ready. 2. The payload stays with valid. 3. valid and ready are never
// unknown outside reset. Benches that hold ready low show that valid does not depend on ready.
`default_nettype none
`include "efa_check.vh"

module efa_stream_check #(
    parameter WIDTH = 8
) (
    input wire clk,
    input wire rst,
    input wire s_valid,
    input wire s_ready,
    input wire [WIDTH-1:0] s_data
);

  reg waiting_q;
  reg [WIDTH-1:0] data_q;

  // Nets save simulation time: an idle stream does not evaluate them, and there are many checks.
  wire waits = s_valid && !s_ready;
  wire stayed = !waiting_q || s_valid;
  wire same = !waiting_q || s_data == data_q;
`ifdef FORMAL
  wire known = 1'b1;
`else
  wire known = (s_valid ^ s_ready ^ 1'b1) !== 1'bx;
`endif
  wire lawful = stayed && same && known;

  always @(posedge clk) begin
    waiting_q <= waits && !rst;
    if (waits) data_q <= s_data;
  end

  `EFA_CHECK(
      lawful,
      !known ? "valid or ready is unknown" : !stayed ? "valid fell before ready" : "payload changed before ready")

  // Builds without checks leave this net unread.
  wire unused_check = &{1'b0, lawful};

endmodule

`default_nettype wire
