// SPDX-License-Identifier: Apache-2.0
// efa_wr_arb - merges two streams of single-beat host writes; s_first has priority.
//
// In    s_first, s_second writes
// Out   m_wr; a write that is offered stays until accepted
// Time  same cycle, one write per cycle; s_second starves if s_first has no idle cycles
`default_nettype none
module efa_wr_arb #(
    parameter WIDTH = 576
) (
    input wire clk,
    input wire rst,
    input wire s_first_valid,
    output wire s_first_ready,
    input wire [WIDTH-1:0] s_first_data,
    input wire s_second_valid,
    output wire s_second_ready,
    input wire [WIDTH-1:0] s_second_data,
    output wire m_wr_valid,
    input wire m_wr_ready,
    output wire [WIDTH-1:0] m_wr_data
);

  reg second_waits_q;
  wire is_second = second_waits_q || !s_first_valid;

  assign m_wr_valid = s_first_valid || s_second_valid;
  assign m_wr_data = is_second ? s_second_data : s_first_data;
  assign s_first_ready = m_wr_ready && !is_second;
  assign s_second_ready = m_wr_ready && is_second;

  always @(posedge clk) begin
    if (rst) second_waits_q <= 1'b0;
    else second_waits_q <= s_second_valid && is_second && !m_wr_ready;
  end

endmodule

`default_nettype wire
