// SPDX-License-Identifier: Apache-2.0
// efa_psn_range - marks the window slots of a range of sequence numbers.
//
// In    s_from, s_to: PSNs
// Out   m_slots: bit i is set if a PSN of s_from, .., s_to - 1 is i modulo the window; none if s_to
//       is not newer than s_from
// Time  combinational
`default_nettype none

module efa_psn_range #(
    parameter WINDOW_W = 8
) (
    input wire [31:0] s_from,
    input wire [31:0] s_to,
    output wire [(1<<WINDOW_W)-1:0] m_slots
);

  localparam WINDOW = 1 << WINDOW_W;

  wire [31:0] count = s_to - s_from;
  wire [WINDOW_W-1:0] from = s_from[WINDOW_W-1:0];
  wire [WINDOW_W-1:0] to = s_to[WINDOW_W-1:0];
  // Slots from each end on.
  wire [WINDOW-1:0] after_from = {WINDOW{1'b1}} << from;
  wire [WINDOW-1:0] after_to = {WINDOW{1'b1}} << to;
  wire whole = count[31:WINDOW_W] != {32 - WINDOW_W{1'b0}};
  wire wraps = to < from;
  wire empty = count == 32'd0 || count[31];

  assign m_slots = empty ? {WINDOW{1'b0}}
      : whole ? {WINDOW{1'b1}}
      : wraps ? after_from | ~after_to : after_from & ~after_to;

endmodule

`default_nettype wire
