// SPDX-License-Identifier: Apache-2.0
// fv_queue_fifo_set - proves efa_queue_fifo_set: an inserted queue is granted once, after a bounded
// number of others.
module fv_queue_fifo_set #(
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
  localparam LATENCY = 2;

  wire init_done;
  wire s_ready;
  wire m_valid;
  wire [QPN_W-1:0] m_qpn;

  efa_queue_fifo_set #(
      .QPN_W(QPN_W)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done),
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
  reg [7:0] others_q;  // grants of others since this queue was inserted
  reg [7:0] idle_q;  // cycles without an offer since then
  reg again_q;
  // Another queue of the solver's choice.
  (* anyconst *) wire [QPN_W-1:0] other;
  reg other_inside_q;
  reg first_q;  // the other queue was inserted while this queue was in the set

  wire put_now = now_valid && now_qpn == me;
  wire put_s = s_valid && s_ready && s_qpn == me;
  wire put = put_now || put_s;
  wire take = m_valid && m_ready;
  wire take_me = take && m_qpn == me;

  wire put_other = (now_valid && now_qpn == other) || (s_valid && s_ready && s_qpn == other);
  wire take_other = take && m_qpn == other;

  always @(posedge clk) begin
    began_q <= 1'b1;
    if (rst) begin
      inside_q <= 1'b0;
      others_q <= 0;
      idle_q <= 0;
      again_q <= 1'b0;
      other_inside_q <= 1'b0;
      first_q <= 1'b0;
    end else begin
      other_inside_q <= put_other || (other_inside_q && !take_other);
      if (take_me) first_q <= 1'b0;
      else if (put_other && (!other_inside_q || take_other)) first_q <= inside_q;
      inside_q <= put || (inside_q && !take_me);
      if (put && (!inside_q || take_me)) others_q <= 0;
      else if (take) others_q <= others_q + 1;
      idle_q <= inside_q && !m_valid ? idle_q + 1 : 0;
      if (take_me && put) again_q <= 1'b1;
    end
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    a_initialized : assume (init_done || !(now_valid || s_valid));
    if (began_q && !rst) begin
      p_once : assert (!(m_valid && m_qpn == me) || inside_q);
      p_pending : assert (!inside_q || idle_q < LATENCY);
      p_bound : assert (!inside_q || others_q < QUEUES);
      p_order : assert (!(m_valid && m_qpn == other) || !first_q);
      p_now : assert (now_valid || s_ready);
      c_once : cover (again_q && take_me);
      c_pending : cover (inside_q && take_me && others_q != 0);
      c_bound : cover (take_me && others_q == QUEUES - 1);
      c_order : cover (take_other && again_q && other_inside_q && other != me);
      c_now : cover (put_s && s_ready && inside_q);
    end
  end

endmodule
