// SPDX-License-Identifier: Apache-2.0
// efa_tx_loss - decides by order and age whether a packet in flight is lost (decision 0009).
//
// In    s_record: its transmission, with s_departed: it left the device in s_left_ticks; s_seen_ticks:
//       the time of what is known of the peer; s_newest: of its path; s_extent, s_learned, s_lossy,
//       s_limit, an age: of its peer; s_resolved, s_resolved_ticks: latest transmission of a resolved packet
//       that was sent once
// Out   m_lost; m_aged: by its age; m_silent: its path brings nothing for it; m_young, m_age_ticks: it has
//       left, and its age is to be checked at that time
// Time  combinational
`default_nettype none
`include "efa_defs.vh"

module efa_tx_loss (
    input wire [`EFA_TX_RECORD__W-1:0] s_record,
    input wire s_departed,
    input wire [23:0] s_left_ticks,
    input wire [23:0] s_seen_ticks,
    input wire [15:0] s_newest,
    input wire [15:0] s_extent,
    input wire s_learned,
    input wire s_lossy,
    input wire [23:0] s_limit,
    input wire s_resolved,
    input wire [23:0] s_resolved_ticks,
    output wire m_lost,
    output wire m_aged,
    output wire m_silent,
    output wire m_young,
    output wire [23:0] m_age_ticks
);

  wire [15:0] order = s_record[`EFA_TX_RECORD__ORDER];

  wire [15:0] behind = s_newest - order;
  // Not negative: farther behind than s_extent.
  wire [15:0] beyond = s_newest - order - s_extent - 16'd1;
  wire overtaken = s_lossy && !behind[15] && !beyond[15];

  // An acknowledgement may have waited while the packet was sent again: then it has no age.
  wire [23:0] since = s_seen_ticks - s_left_ticks;
  // Negative: since is above the limit. Both are below half of the range.
  wire [23:0] rest = s_limit - s_seen_ticks + s_left_ticks;
  wire old = !since[23] && rest[23];
  wire [23:0] to_later = s_left_ticks - s_resolved_ticks;
  wire later = s_resolved && to_later[23];

  assign m_silent = behind[15];
  assign m_aged = s_departed && old && later && (s_lossy || (m_silent && s_learned));
  assign m_lost = overtaken || m_aged;
  assign m_young = s_departed && !old;
  assign m_age_ticks = s_left_ticks + s_limit + 24'd1;

  wire unused_bits = &{1'b0, s_record, behind, since, to_later, rest, beyond};

endmodule

`default_nettype wire
