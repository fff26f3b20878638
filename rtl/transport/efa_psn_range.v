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
  wire whole = count[31:WINDOW_W] != {32 - WINDOW_W{1'b0}};
  wire [WINDOW-1:0] slots;

  assign m_slots = count[31] ? {WINDOW{1'b0}} : whole ? {WINDOW{1'b1}} : slots;

  efa_slot_range #(
      .WINDOW_W(WINDOW_W)
  ) u_slots (
      .s_from(s_from[WINDOW_W-1:0]),
      .s_to(s_to[WINDOW_W-1:0]),
      .s_full(1'b0),
      .m_slots(slots)
  );

  wire unused_bits = &{1'b0, count};

endmodule

`default_nettype wire
