// SPDX-License-Identifier: Apache-2.0
// efa_ah_gen - counts the destructions of each address handle, modulo 16 (its generation).
//
// In    s_ah_* address handles created and destroyed
// Out   m_ah_gen, four bits for each handle; m_ah_gone: a handle is destroyed
// Time  new generation in the cycle after the destruction
//
// A send carries the generation that its handle had when the WQE was checked. A different
// generation later means that the handle was destroyed, even if its number is in use again.
`default_nettype none
`include "efa_defs.vh"

module efa_ah_gen (
    input wire clk,
    input wire rst,
    input wire s_ah_valid,
    input wire [`EFA_LIMITS__AH_W-1:0] s_ah_index,
    input wire [`EFA_AHC__W-1:0] s_ah_data,
    output wire [4*(1<<`EFA_LIMITS__AH_W)-1:0] m_ah_gen,
    output wire m_ah_gone
);

  localparam N = 1 << `EFA_LIMITS__AH_W;

  reg [4*N-1:0] gen_q;

  assign m_ah_gen  = gen_q;
  assign m_ah_gone = s_ah_valid && !s_ah_data[`EFA_AHC__LIVE];

  always @(posedge clk) begin
    if (rst) gen_q <= {4 * N{1'b0}};
    else if (m_ah_gone) gen_q[{s_ah_index, 2'b00}+:4] <= gen_q[{s_ah_index, 2'b00}+:4] + 4'd1;
  end

  wire unused_bits = &{1'b0, s_ah_data};

endmodule

`default_nettype wire
