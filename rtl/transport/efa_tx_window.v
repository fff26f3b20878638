// SPDX-License-Identifier: Apache-2.0
// efa_tx_window - holds which packets of the peer in work are resolved, lost or sent again.
//
// In    s_load, s_state: another peer; s_clear, s_first: a new session; s_next: its next PSN;
//       s_begin, s_begin_slots, s_given: a walk over slots; s_add: it also passes those of s_given, but
//       not s_slot again with s_holds; s_step: the walk passes m_slot;
//       s_slot and what happens to it: s_resolve; s_lose; s_again: it is being sent again; s_sent:
//       its retransmission is in flight; s_advance: oldest moves over resolved PSNs
// Out   m_state; m_found, m_slot: next slot of the walk, from oldest on; m_slot_*: state of s_slot,
//       m_slot_open: not resolved, if it was sent; m_last_in_flight: the packet before s_next is in
//       flight; m_unresolved: a PSN is not resolved; m_any_resolved: one after oldest is
// Time  one cycle, s_advance two
//
// The bit of a PSN has the slot of the PSN modulo the window. Bits of PSNs before oldest, and from
// s_next on, are 0.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_tx_window #(
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W
) (
    input wire clk,
    input wire rst,
    input wire s_load,
    input wire [32+3*(1<<WINDOW_W)-1:0] s_state,
    input wire s_clear,
    input wire [31:0] s_first,
    input wire [31:0] s_next,
    input wire s_begin,
    input wire [1:0] s_begin_slots,
    input wire [(1<<WINDOW_W)-1:0] s_given,
    input wire s_add,
    input wire s_holds,
    input wire s_step,
    input wire [WINDOW_W-1:0] s_slot,
    input wire s_resolve,
    input wire s_lose,
    input wire s_again,
    input wire s_sent,
    input wire s_advance,
    output wire [32+3*(1<<WINDOW_W)-1:0] m_state,
    output wire [31:0] m_oldest,
    output wire m_found,
    output wire [WINDOW_W-1:0] m_slot,
    output wire m_slot_open,
    output wire m_slot_lost,
    output wire m_slot_again,
    output wire m_any_lost,
    output wire m_any_again,
    output wire m_last_in_flight,
    output wire m_unresolved,
    output wire m_any_resolved
);

  localparam WINDOW = 1 << WINDOW_W;
  localparam [WINDOW-1:0] A_SLOT = 1;
  localparam [31:0] GIVEN = `EFA_TX_SLOTS__GIVEN;
  localparam [31:0] IN_FLIGHT = `EFA_TX_SLOTS__IN_FLIGHT;
  localparam [31:0] LOST = `EFA_TX_SLOTS__LOST;

  reg [31:0] oldest_q;
  reg [WINDOW-1:0] resolved_q;
  reg [WINDOW-1:0] lost_q;
  reg [WINDOW-1:0] again_q;
  reg [WINDOW-1:0] todo_q;
  reg moves_q;
  reg [WINDOW_W-1:0] target_q;  // oldest moves to this slot
  reg full_q;  // by the whole window, if it is the slot of oldest

  wire any_sent = s_next != oldest_q;
  wire [WINDOW-1:0] used;
  wire [WINDOW-1:0] open = used & ~resolved_q;
  wire [WINDOW-1:0] begin_todo = s_begin_slots == GIVEN[1:0] ? s_given & open
      : s_begin_slots == IN_FLIGHT[1:0] ? open & ~lost_q
      : s_begin_slots == LOST[1:0] ? lost_q : open;
  wire [WINDOW-1:0] here = A_SLOT << s_slot;
  wire [WINDOW-1:0] first;
  wire [WINDOW-1:0] stepped = s_step ? first : {WINDOW{1'b0}};
  wire [WINDOW-1:0] added = s_add ? s_given & open & ~(s_holds ? here : {WINDOW{1'b0}}) : {WINDOW{1'b0}};
  wire [WINDOW_W-1:0] last_slot = s_next[WINDOW_W-1:0] - A_SLOT[WINDOW_W-1:0];

  // The first PSN from oldest on that is not resolved. It is s_next, if all sent ones are resolved:
  // its bit is 0, unless the window is full.
  wire [WINDOW_W-1:0] oldest_slot = oldest_q[WINDOW_W-1:0];
  wire open_found;
  wire [WINDOW_W-1:0] open_slot;
  wire [WINDOW_W-1:0] distance = target_q - oldest_slot;
  wire stays = !moves_q || (target_q == oldest_slot && !full_q);
  wire [WINDOW-1:0] passed;
  wire [WINDOW-1:0] keep = moves_q ? ~passed : {WINDOW{1'b1}};

  assign m_state = {oldest_q, resolved_q, lost_q, again_q};
  assign m_oldest = oldest_q;
  assign m_slot_open = !resolved_q[s_slot];
  assign m_slot_lost = lost_q[s_slot];
  assign m_slot_again = again_q[s_slot];
  assign m_any_lost = lost_q != {WINDOW{1'b0}};
  assign m_any_again = (again_q & ~resolved_q) != {WINDOW{1'b0}};
  assign m_last_in_flight = any_sent && !resolved_q[last_slot] && !lost_q[last_slot];
  assign m_unresolved = open != {WINDOW{1'b0}};
  assign m_any_resolved = resolved_q != {WINDOW{1'b0}};

  efa_slot_range #(
      .WINDOW_W(WINDOW_W)
  ) u_used (
      .s_from(oldest_slot),
      .s_to(s_next[WINDOW_W-1:0]),
      .s_full(any_sent),
      .m_slots(used)
  );

  efa_slot_range #(
      .WINDOW_W(WINDOW_W)
  ) u_passed (
      .s_from(oldest_slot),
      .s_to(target_q),
      .s_full(full_q),
      .m_slots(passed)
  );

  efa_slot_find #(
      .WINDOW_W(WINDOW_W)
  ) u_walk (
      .s_from(oldest_slot),
      .s_slots(todo_q),
      .m_found(m_found),
      .m_slot(m_slot),
      .m_bits(first)
  );

  wire [WINDOW-1:0] unused_bits;
  efa_slot_find #(
      .WINDOW_W(WINDOW_W)
  ) u_open (
      .s_from(oldest_slot),
      .s_slots(~resolved_q),
      .m_found(open_found),
      .m_slot(open_slot),
      .m_bits(unused_bits)
  );

  always @(posedge clk) begin
    if (rst) moves_q <= 1'b0;
    else moves_q <= s_advance;
  end

  always @(posedge clk) begin
    target_q <= open_found ? open_slot : oldest_slot;
    // The bits of the slots that oldest passes now are not yet 0.
    full_q <= !open_found && stays;
    if (s_begin) todo_q <= begin_todo;
    else todo_q <= (todo_q | added) & ~stepped;
    if (moves_q) oldest_q <= oldest_q + {{31 - WINDOW_W{1'b0}}, full_q, distance};
    resolved_q <= (resolved_q | (s_resolve ? here : {WINDOW{1'b0}})) & keep;
    lost_q <= (s_lose ? lost_q | here : s_resolve || s_sent ? lost_q & ~here : lost_q) & keep;
    again_q <= (again_q | (s_again ? here : {WINDOW{1'b0}})) & keep;
    if (s_clear) begin
      oldest_q <= s_first;
      resolved_q <= {WINDOW{1'b0}};
      lost_q <= {WINDOW{1'b0}};
      again_q <= {WINDOW{1'b0}};
    end
    if (s_load) {oldest_q, resolved_q, lost_q, again_q} <= s_state;
  end

  `EFA_CHECK(!(s_resolve && !open[s_slot]), "packet resolved twice, or not sent")
  `EFA_CHECK(!(s_lose && (!open[s_slot] || m_slot_lost)), "packet lost that is not in flight")

endmodule

`default_nettype wire
