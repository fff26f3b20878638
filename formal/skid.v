// SPDX-License-Identifier: Apache-2.0
// fv_skid - proves efa_skid: no loss, no duplicate, in order, no unnecessary stall.
module fv_skid #(
    parameter WIDTH = 2
) (
    input wire clk,
    input wire rst,
    input wire s_valid,
    input wire [WIDTH-1:0] s_data,
    input wire m_ready,
    input wire pick
);

  wire s_ready;
  wire m_valid;
  wire [WIDTH-1:0] m_data;

  efa_skid #(
      .WIDTH(WIDTH)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .s_valid(s_valid),
      .s_ready(s_ready),
      .s_data(s_data),
      .m_valid(m_valid),
      .m_ready(m_ready),
      .m_data(m_data)
  );

  // The solver picks one item at its input: `ahead_q` items are output before it.
  reg began_q = 1'b0;
  reg [1:0] held_q;
  reg followed_q;
  reg [1:0] ahead_q;
  reg [WIDTH-1:0] data_q;
  reg stalled_q;
  reg [WIDTH-1:0] stalled_data_q;
  reg full_q;

  wire push = s_valid && s_ready;
  wire pop = m_valid && m_ready;
  wire mine = followed_q && ahead_q == 0;

  always @(posedge clk) begin
    began_q <= 1'b1;
    stalled_data_q <= m_data;
    if (rst) begin
      held_q <= 0;
      followed_q <= 1'b0;
      stalled_q <= 1'b0;
      full_q <= 1'b0;
    end else begin
      held_q <= held_q + push - pop;
      if (push && pick && !followed_q) begin
        followed_q <= 1'b1;
        ahead_q <= held_q - pop;
        data_q <= s_data;
      end else if (pop && followed_q) begin
        if (mine) followed_q <= 1'b0;
        else ahead_q <= ahead_q - 1;
      end
      stalled_q <= m_valid && !m_ready;
      if (held_q == 2) full_q <= 1'b1;
    end
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    if (began_q && !rst) begin
      p_count : assert (held_q <= 2 && m_valid == (held_q != 0) && s_ready == (held_q != 2));
      p_order : assert (!(mine && m_valid) || m_data == data_q);
      p_stays : assert (!stalled_q || (m_valid && m_data == stalled_data_q));
      c_count : cover (full_q && held_q == 0);
      c_order : cover (full_q && mine && pop);
      c_stays : cover (stalled_q && pop && held_q == 2);
    end
  end

endmodule
