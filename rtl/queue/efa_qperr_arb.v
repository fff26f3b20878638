// SPDX-License-Identifier: Apache-2.0
// efa_qperr_arb - merges error reports of N sources into one stream, round robin.
//
// In    s_err error reports, a lane for each source
// Out   m_err QP that must go to ERR, and the cause
// Time  same cycle, one report per cycle
`default_nettype none

module efa_qperr_arb #(
    parameter N = 2,
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    input wire [N-1:0] s_err_valid,
    output wire [N-1:0] s_err_ready,
    input wire [N*QPN_W-1:0] s_err_qpn,
    input wire [N*4-1:0] s_err_cause,
    output wire m_err_valid,
    input wire m_err_ready,
    output wire [QPN_W-1:0] m_err_qpn,
    output wire [3:0] m_err_cause
);

  wire [N-1:0] grant;
  efa_arb #(
      .N(N)
  ) u_arb (
      .clk(clk),
      .rst(rst),
      .s_request(s_err_valid),
      .s_hold(!m_err_ready),
      .m_grant(grant)
  );

  integer i;
  reg [QPN_W-1:0] qpn;
  reg [3:0] cause;
  always @* begin
    qpn   = {QPN_W{1'b0}};
    cause = 4'd0;
    for (i = 0; i < N; i = i + 1) begin
      if (grant[i]) begin
        qpn   = s_err_qpn[QPN_W*i+:QPN_W];
        cause = s_err_cause[4*i+:4];
      end
    end
  end

  assign m_err_valid = grant != {N{1'b0}};
  assign m_err_qpn   = qpn;
  assign m_err_cause = cause;
  assign s_err_ready = grant & {N{m_err_ready}};

endmodule

`default_nettype wire
