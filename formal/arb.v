// SPDX-License-Identifier: Apache-2.0
// fv_arb - proves efa_arb: one grant, only to a requester; a held grant stays; no requester
// starves.
module fv_arb #(
    parameter N = 3
) (
    input wire clk,
    input wire rst,
    input wire [N-1:0] s_request,
    input wire s_hold
);

  localparam [N-1:0] ONE = 1;
  localparam [N-1:0] NONE = 0;

  wire [N-1:0] m_grant;

  efa_arb #(
      .N(N)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .s_request(s_request),
      .s_hold(s_hold),
      .m_grant(m_grant)
  );

  // One requester of the solver's choice, and the number of others granted while it requests.
  (* anyconst *) wire [N-1:0] me;
  reg began_q = 1'b0;
  reg held_q;
  reg [N-1:0] grant_q;
  reg [7:0] lost_q;

  wire fresh = m_grant != NONE && !held_q;
  wire requests = (s_request & me) != NONE;
  wire wins = (m_grant & me) != NONE;

  always @(posedge clk) begin
    began_q <= 1'b1;
    held_q <= !rst && s_hold && m_grant != NONE;
    grant_q <= m_grant;
    if (rst || !requests || wins) lost_q <= 0;
    else if (fresh) lost_q <= lost_q + 1;
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    a_choice : assume (me != NONE && (me & (me - ONE)) == NONE);
    if (began_q && !rst) begin
      p_one : assert ((m_grant & (m_grant - ONE)) == NONE);
      p_requested : assert (held_q || (m_grant & ~s_request) == NONE);
      p_idle_never : assert (s_request == NONE || m_grant != NONE);
      p_hold : assert (!held_q || m_grant == grant_q);
      p_fair : assert (lost_q < N);
      c_one : cover (m_grant != NONE && s_request == ~NONE);
      c_requested : cover (fresh && s_request != m_grant);
      c_idle_never : cover (fresh && s_request == m_grant);
      c_hold : cover (held_q && s_request == NONE && m_grant != NONE);
      c_fair : cover (lost_q == N - 1 && wins);
    end
  end

endmodule
