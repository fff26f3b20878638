// SPDX-License-Identifier: Apache-2.0
// efa_stream_check - the rules of a stream, watched on any valid/ready pair.
//
// 1. valid stays until ready. 2. The payload stays with it. 3. valid and ready are never unknown
// outside reset. (That valid does not wait for ready is shown by benches that hold ready low.)
// In    valid, ready, data
// Out   nothing: a broken rule ends the simulation, or is the assertion of a proof
`include "efa_check.vh"

module efa_stream_check #(
    parameter WIDTH = 8
) (
    input wire clk,
    input wire rst,
    input wire valid,
    input wire ready,
    input wire [WIDTH-1:0] data
);

  reg waiting_q;
  reg [WIDTH-1:0] data_q;

  // Nets, which an idle stream does not wake: there are many of these checks.
  wire waits = valid && !ready;
  wire stayed = !waiting_q || valid;
  wire same = !waiting_q || data == data_q;
`ifdef FORMAL
  wire known = 1'b1;
`else
  wire known = (valid ^ ready ^ 1'b1) !== 1'bx;
`endif
  wire lawful = stayed && same && known;

  always @(posedge clk) begin
    waiting_q <= waits && !rst;
    if (waits) data_q <= data;
  end

  `EFA_CHECK(
      lawful,
      !known ? "valid or ready is unknown" : !stayed ? "valid fell before ready" : "payload changed before ready")

  // Without checks nothing reads these.
  wire unused_check = &{1'b0, lawful};

endmodule
