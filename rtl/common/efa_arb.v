// SPDX-License-Identifier: Apache-2.0
// efa_arb - grants one of N requests, round robin.
//
// In    s_request; s_hold: the grant of this cycle stays for the next cycle
//       (for a stream: from valid until its last handshake)
// Out   m_grant one-hot, zero without a request
// Time  same cycle as s_request; s_hold is only registered, so it may depend on m_grant
`default_nettype none
`include "efa_check.vh"

module efa_arb #(
    parameter N = 2
) (
    input  wire clk,
    input  wire rst,
    input  wire [N-1:0] s_request,
    input  wire s_hold,
    output wire [N-1:0] m_grant
);

  localparam [N-1:0] ONE = 1;

  reg held_q;
  reg [N-1:0] grant_q;
  reg [N-1:0] after_q;  // requesters after the last winner; they have priority

  wire [N-1:0] first = s_request & after_q;
  wire [N-1:0] pick = first != {N{1'b0}} ? first & (~first + ONE) : s_request & (~s_request + ONE);

  assign m_grant = held_q ? grant_q : pick;

  wire chosen = m_grant != {N{1'b0}};

  always @(posedge clk) begin
    if (rst) begin
      held_q <= 1'b0;
      after_q <= {N{1'b1}};
    end else begin
      held_q <= s_hold && chosen;
      if (chosen) after_q <= ~(m_grant | (m_grant - ONE));
    end
  end

  always @(posedge clk) begin
    if (chosen) grant_q <= m_grant;
  end

  `EFA_CHECK((m_grant & (m_grant - ONE)) == {N{1'b0}}, "more than one grant")

endmodule

`default_nettype wire
