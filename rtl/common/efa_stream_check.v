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

  always @(posedge clk) begin
    if (rst) waiting_q <= 1'b0;
    else waiting_q <= valid && !ready;
  end

  always @(posedge clk) begin
    data_q <= data;
  end

  `EFA_CHECK(!waiting_q || valid, "valid fell before ready")
  `EFA_CHECK(!waiting_q || data == data_q, "payload changed before ready")
`ifndef FORMAL
  `EFA_CHECK((valid ^ ready ^ 1'b1) !== 1'bx, "valid or ready is unknown")
`endif

  // Without checks nothing reads these.
  wire unused_check = &{1'b0, waiting_q, data_q};

endmodule
