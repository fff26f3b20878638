// SPDX-License-Identifier: Apache-2.0
// efa_rx_free - merges the slots of retired and of dropped packets into one stream.
//
// In    s_retired: slots of retired jobs; s_dropped: slots of packets that were not executed
// Out   m_free: all of them, each once
// Time  a retired slot in the same cycle; a dropped slot when no job retires
//
// A slot is free once, so as many dropped slots wait as there are slots.
`default_nettype none
`include "efa_check.vh"

module efa_rx_free #(
    parameter SLOT_W = 8
) (
    input wire clk,
    input wire rst,
    input wire s_retired_valid,
    input wire [SLOT_W-1:0] s_retired_slot,
    input wire s_dropped_valid,
    input wire [SLOT_W-1:0] s_dropped_slot,
    output wire m_free_valid,
    output wire [SLOT_W-1:0] m_free_slot
);

  wire waiting_valid;
  wire [SLOT_W-1:0] waiting_slot;
  wire [SLOT_W:0] level;
  wire space;

  assign m_free_valid = s_retired_valid || waiting_valid;
  assign m_free_slot  = s_retired_valid ? s_retired_slot : waiting_slot;

  efa_fifo #(
      .WIDTH(SLOT_W),
      .DEPTH_LOG2(SLOT_W)
  ) u_dropped (
      .clk(clk),
      .rst(rst),
      .s_valid(s_dropped_valid),
      .s_ready(space),
      .s_data(s_dropped_slot),
      .m_valid(waiting_valid),
      .m_ready(!s_retired_valid),
      .m_data(waiting_slot),
      .m_level(level)
  );

  wire unused_level = &{1'b0, level};

  `EFA_CHECK(!s_dropped_valid || space, "more slots dropped than exist")

endmodule

`default_nettype wire
