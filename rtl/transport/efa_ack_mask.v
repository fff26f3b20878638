// SPDX-License-Identifier: Apache-2.0
// efa_ack_mask - turns an acknowledgement into slots of the send window, and checks its PSNs.
//
// In    s_ack: an acknowledgement; s_oldest, s_next: PSNs of its session, unchanged until m_*
// Out   m_bad: it shows a PSN that was never sent; m_shown: slots that it shows as accepted, from
//       oldest on; m_refused: its refused PSN is from oldest on
// Time  3 cycles after s_ack, s_oldest and s_next
`default_nettype none
`include "efa_defs.vh"

module efa_ack_mask #(
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W
) (
    input wire clk,
    input wire [`EFA_TX_ACK__W-1:0] s_ack,
    input wire [31:0] s_oldest,
    input wire [31:0] s_next,
    output wire m_bad,
    output wire [(1<<WINDOW_W)-1:0] m_shown,
    output wire m_refused
);

  localparam WINDOW = 1 << WINDOW_W;
  localparam BITS = 256;

  // m0: distances from oldest. A negative one is of a PSN that is resolved.
  wire [31:0] psn = s_ack[`EFA_TX_ACK__PSN];
  wire [31:0] bitmap_psn = s_ack[`EFA_TX_ACK__BITMAP_PSN];
  wire [31:0] refused_psn = s_ack[`EFA_TX_ACK__REFUSED_PSN];
  wire [255:0] bitmap = s_ack[`EFA_TX_ACK__BITMAP];
  wire [31:0] count = s_next - s_oldest;
  wire [31:0] front = psn - s_oldest;
  wire [31:0] refused_at = refused_psn - s_oldest;
  wire [31:0] at = bitmap_psn - s_oldest;
  wire [31:0] before_oldest = s_oldest - bitmap_psn;
  // Bits of the bitmap from which on a PSN was never sent.
  wire [31:0] limit = s_next - bitmap_psn;
  wire [WINDOW-1:0] front_slots;

  reg front_bad_q;
  reg refused_bad_q;
  reg refused_q;
  reg [WINDOW-1:0] front_q;
  reg [8:0] skip_q;
  reg [8:0] limit_q;
  reg [WINDOW_W-1:0] turn_q;

  // m1: bits of sent PSNs that are not before oldest, folded to the window.
  wire [BITS-1:0] from_skip = {BITS{1'b1}} << skip_q;
  wire [BITS-1:0] from_limit = {BITS{1'b1}} << limit_q;
  wire [BITS-1:0] kept = bitmap & from_skip & ~from_limit;
  reg [WINDOW-1:0] folded;
  integer part;
  always @* begin
    folded = {WINDOW{1'b0}};
    for (part = 0; part < BITS / WINDOW; part = part + 1) begin
      folded = folded | kept[part*WINDOW+:WINDOW];
    end
  end

  reg bad_q;
  reg [WINDOW-1:0] folded_q;

  // m2: bit 0 moves to the slot of bitmap_psn.
  wire [2*WINDOW-1:0] turned = {folded_q, folded_q} << turn_q;

  reg m_bad_q;
  reg [WINDOW-1:0] shown_q;

  assign m_bad = m_bad_q;
  assign m_shown = shown_q;
  assign m_refused = refused_q;

  efa_psn_range #(
      .WINDOW_W(WINDOW_W)
  ) u_front (
      .s_from(s_oldest),
      .s_to(psn),
      .m_slots(front_slots)
  );

  always @(posedge clk) begin
    front_bad_q <= !front[31] && front > count;
    refused_bad_q <= s_ack[`EFA_TX_ACK__STATUS] != 8'd0 && !refused_at[31] && refused_at >= count;
    refused_q <= s_ack[`EFA_TX_ACK__STATUS] != 8'd0 && refused_at < count;
    front_q <= front_slots;
    skip_q <= !at[31] ? 9'd0 : before_oldest > 32'd256 ? 9'd256 : before_oldest[8:0];
    limit_q <= limit[31] && !at[31] ? 9'd0 : limit > 32'd256 ? 9'd256 : limit[8:0];
    turn_q <= bitmap_psn[WINDOW_W-1:0];
    bad_q <= front_bad_q || refused_bad_q || (bitmap & from_limit) != {BITS{1'b0}};
    folded_q <= folded;
    m_bad_q <= bad_q;
    shown_q <= front_q | turned[2*WINDOW-1:WINDOW];
  end

  wire unused_bits = &{1'b0, s_ack, at, turned[WINDOW-1:0]};

endmodule

`default_nettype wire
