// SPDX-License-Identifier: Apache-2.0
// efa_slot_range - marks the slots of a window from one slot to before another, round the end.
//
// In    s_from, s_to: slots; s_full: equal slots are the whole window, not none
// Out   m_slots: bit i is set if slot i is in the range
// Time  combinational
`default_nettype none

module efa_slot_range #(
    parameter WINDOW_W = 8
) (
    input wire [WINDOW_W-1:0] s_from,
    input wire [WINDOW_W-1:0] s_to,
    input wire s_full,
    output wire [(1<<WINDOW_W)-1:0] m_slots
);

  localparam WINDOW = 1 << WINDOW_W;

  // Slots from each end on.
  wire [WINDOW-1:0] after_from = {WINDOW{1'b1}} << s_from;
  wire [WINDOW-1:0] after_to = {WINDOW{1'b1}} << s_to;
  wire wraps = s_to < s_from || (s_to == s_from && s_full);

  assign m_slots = wraps ? after_from | ~after_to : after_from & ~after_to;

endmodule

`default_nettype wire
