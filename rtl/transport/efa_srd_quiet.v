// SPDX-License-Identifier: Apache-2.0
// efa_srd_quiet - measures the quiet time of the reliable transport after a reset.
//
// In    rst_por, rst: a reset that begins with rst_por is a power-on, without a quiet time;
//       s_cfg_tick: as in efa_srd_tick
// Out   m_quiet: packets from before the reset may still arrive
// Time  m_quiet for TICKS ticks after rst, the first of which begins then
`default_nettype none
`include "efa_defs.vh"

module efa_srd_quiet #(
    parameter TICKS = `EFA_TRANSPORT__QUIET_TICKS
) (
    input  wire clk,
    input  wire rst_por,
    input  wire rst,
    input  wire [7:0] s_cfg_tick,
    output wire m_quiet
);

  localparam [31:0] FULL = TICKS;

  reg fresh_q;  // in the reset of a power-on
  reg [31:0] left_q;
  wire tick;

  assign m_quiet = left_q != 32'd0;

  efa_srd_tick u_tick (
      .clk(clk),
      .rst(rst),
      .s_cfg_tick(s_cfg_tick),
      .m_tick(tick)
  );

  always @(posedge clk) begin
    if (rst_por) fresh_q <= 1'b1;
    else if (!rst) fresh_q <= 1'b0;
    if (rst) left_q <= rst_por || fresh_q ? 32'd0 : FULL;
    else if (m_quiet && tick) left_q <= left_q - 32'd1;
  end

endmodule

`default_nettype wire
