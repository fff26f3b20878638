// SPDX-License-Identifier: Apache-2.0
// efa_srd_quiet - measures the quiet time of the reliable transport after a reset.
//
// In    rst_por, rst: a reset that begins with rst_por is a power-on, without a quiet time
// Out   m_quiet: packets from before the reset may still arrive
// Time  m_quiet for CYCLES cycles after rst
`default_nettype none
`include "efa_defs.vh"

module efa_srd_quiet #(
    parameter CYCLES = `EFA_TRANSPORT__QUIET_TICKS * `EFA_TRANSPORT__TICK_CYCLES
) (
    input  wire clk,
    input  wire rst_por,
    input  wire rst,
    output wire m_quiet
);

  localparam [31:0] FULL = CYCLES;

  reg fresh_q;  // in the reset of a power-on
  reg [31:0] left_q;

  assign m_quiet = left_q != 32'd0;

  always @(posedge clk) begin
    if (rst_por) fresh_q <= 1'b1;
    else if (!rst) fresh_q <= 1'b0;
    if (rst) left_q <= rst_por || fresh_q ? 32'd0 : FULL;
    else if (m_quiet) left_q <= left_q - 32'd1;
  end

endmodule

`default_nettype wire
