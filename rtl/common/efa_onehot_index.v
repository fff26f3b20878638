// SPDX-License-Identifier: Apache-2.0
// efa_onehot_index - gives the index of the set bit of a one-hot vector.
//
// In    s_bits: at most one bit is set
// Out   m_index: its index, 0 if none is set
// Time  combinational
//
// Each bit of the index is an OR of half of the vector, so no bit waits for another.
`default_nettype none

module efa_onehot_index #(
    parameter INDEX_W = 3
) (
    input  wire [(1<<INDEX_W)-1:0] s_bits,
    output wire [INDEX_W-1:0] m_index
);

  localparam BITS = 1 << INDEX_W;

  genvar place;
  generate
    for (place = 0; place < INDEX_W; place = place + 1) begin : g_bit
      localparam HALF = 1 << place;
      // Places whose index has this bit.
      wire [BITS-1:0] has = {BITS / 2 / HALF{{HALF{1'b1}}, {HALF{1'b0}}}};
      assign m_index[place] = (s_bits & has) != {BITS{1'b0}};
    end
  endgenerate

endmodule

`default_nettype wire
