// SPDX-License-Identifier: Apache-2.0
// fv_sq_rr - proves efa_sq_rr: an inserted queue is granted once, after at most one grant of each
// other queue.
module fv_sq_rr #(
    parameter QPN_W = 2
) (
    input wire clk,
    input wire rst,
    input wire now_valid,
    input wire [QPN_W-1:0] now_qpn,
    input wire s_valid,
    input wire [QPN_W-1:0] s_qpn,
    input wire m_ready
);

  localparam QUEUES = 1 << QPN_W;

  wire s_ready;
  wire m_valid;
  wire [QPN_W-1:0] m_qpn;

  efa_sq_rr #(
      .QPN_W(QPN_W)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .s_now_valid(now_valid),
      .s_now_qpn(now_qpn),
      .s_valid(s_valid),
      .s_ready(s_ready),
      .s_qpn(s_qpn),
      .m_valid(m_valid),
      .m_ready(m_ready),
      .m_qpn(m_qpn)
  );

  // One queue of the solver's choice.
  (* anyconst *) wire [QPN_W-1:0] me;
  reg began_q = 1'b0;
  reg inside_q;
  reg [QPN_W:0] others_q;  // grants of others since this queue was inserted
  reg again_q;

  wire put_now = now_valid && now_qpn == me;
  wire put_s = s_valid && s_ready && s_qpn == me;
  wire take = m_valid && m_ready;
  wire take_me = take && m_qpn == me;
  // A queue inserted in this cycle may be granted at once.
  wire there = inside_q || put_now;

  always @(posedge clk) begin
    began_q <= 1'b1;
    if (rst) begin
      inside_q <= 1'b0;
      others_q <= 0;
      again_q  <= 1'b0;
    end else begin
      inside_q <= put_s || (take_me ? inside_q && put_now : there);
      if (!inside_q || take_me) others_q <= 0;
      else if (take) others_q <= others_q + 1;
      if (inside_q && take_me && put_now) again_q <= 1'b1;
    end
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    if (began_q && !rst) begin
      p_once : assert (!(m_valid && m_qpn == me) || there);
      p_pending : assert (!there || m_valid);
      p_bound : assert (!inside_q || others_q < QUEUES);
      p_space : assert (s_ready);
      c_once : cover (again_q && take_me && inside_q);
      c_pending : cover (inside_q && take_me && others_q != 0);
      c_bound : cover (take_me && others_q == QUEUES - 1);
      c_space : cover (put_s && put_now && inside_q && !take_me);
    end
  end

endmodule
