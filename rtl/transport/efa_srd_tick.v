// SPDX-License-Identifier: Apache-2.0
// efa_srd_tick - divides the clock to the ticks of the reliable transport.
//
// In    s_cfg_tick: cycles of a tick, 0 for 256, constant from rst on
// Out   m_tick: the last cycle of a tick
// Time  a tick lasts s_cfg_tick cycles; the first one begins after rst
`default_nettype none

module efa_srd_tick (
    input wire clk,
    input wire rst,
    input wire [7:0] s_cfg_tick,
    output wire m_tick
);

  reg [7:0] cycle_q;

  assign m_tick = cycle_q == s_cfg_tick - 8'd1;

  always @(posedge clk) begin
    if (rst || m_tick) cycle_q <= 8'd0;
    else cycle_q <= cycle_q + 8'd1;
  end

endmodule

`default_nettype wire
