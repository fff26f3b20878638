// SPDX-License-Identifier: Apache-2.0
// efa_ah_gen - counts the destructions of each address handle, modulo 16 (its generation).
//
// In    ah_* address handles created and destroyed
// Out   gen, four bits for each handle; gone: a handle is destroyed
// Time  new generation in the cycle after the destruction
//
// A send carries the generation that its handle had when the WQE was checked. A different
// generation later means that the handle was destroyed, even if its number is in use again.
`default_nettype none
`include "efa_defs.vh"

module efa_ah_gen (
    input wire clk,
    input wire rst,
    input wire ah_valid,
    input wire [`EFA_LIMITS__AH_W-1:0] ah_index,
    input wire [`EFA_AHC__W-1:0] ah_data,
    output wire [4*(1<<`EFA_LIMITS__AH_W)-1:0] gen,
    output wire gone
);

  localparam N = 1 << `EFA_LIMITS__AH_W;

  reg [4*N-1:0] gen_q;

  assign gen  = gen_q;
  assign gone = ah_valid && !ah_data[`EFA_AHC__LIVE];

  always @(posedge clk) begin
    if (rst) gen_q <= {4 * N{1'b0}};
    else if (gone) gen_q[{ah_index, 2'b00}+:4] <= gen_q[{ah_index, 2'b00}+:4] + 4'd1;
  end

  wire unused_bits = &{1'b0, ah_data};

endmodule

`default_nettype wire
