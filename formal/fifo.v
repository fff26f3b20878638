// SPDX-License-Identifier: Apache-2.0
// fv_fifo - proves efa_fifo: no loss, no duplicate, in order, for any behaviour of both sides.
//
// The solver picks one item at its input: `ahead_q` items are output before it, then the item is
// output unchanged. Any item may be the picked one, so the proof covers all items.
module fv_fifo #(
    parameter WIDTH = 2,
    parameter DEPTH_LOG2 = 2
) (
    input wire clk,
    input wire rst,
    input wire s_valid,
    input wire [WIDTH-1:0] s_data,
    input wire m_ready,
    input wire pick
);

  localparam [DEPTH_LOG2:0] FULL = 1 << DEPTH_LOG2;
  localparam [DEPTH_LOG2:0] ONE = 1;

  wire s_ready;
  wire m_valid;
  wire [WIDTH-1:0] m_data;
  wire [DEPTH_LOG2:0] level;

  efa_fifo #(
      .WIDTH(WIDTH),
      .DEPTH_LOG2(DEPTH_LOG2)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .s_valid(s_valid),
      .s_ready(s_ready),
      .s_data(s_data),
      .m_valid(m_valid),
      .m_ready(m_ready),
      .m_data(m_data),
      .m_level(level)
  );

  // Probes of the RAM variant, which is proven by induction.
  (* probe = "u_dut.g_ram.head_q" *) wire head;
  (* probe = "u_dut.g_ram.stored_q" *) wire [DEPTH_LOG2:0] stored;
  (* probe = "u_dut.wr_addr_q" *) wire [DEPTH_LOG2-1:0] wr_addr;
  (* probe = "u_dut.rd_addr_q" *) wire [DEPTH_LOG2-1:0] rd_addr;
  (* probe = "u_dut.g_ram.u_ram.word_addr" *) wire [DEPTH_LOG2-1:0] word_addr;
  (* probe = "u_dut.g_ram.u_ram.word_known_q" *) wire word_known;
  (* probe = "u_dut.g_ram.u_ram.word_q" *) wire [WIDTH-1:0] word;

  reg began_q = 1'b0;
  reg [DEPTH_LOG2:0] held_q;
  reg followed_q;
  reg [DEPTH_LOG2:0] ahead_q;
  reg [WIDTH-1:0] data_q;
  reg stalled_q;
  reg was_full_q;

  wire push = s_valid && s_ready;
  wire pop = m_valid && m_ready;
  wire mine = followed_q && ahead_q == 0;
  wire may_pick = DEPTH_LOG2 <= 5 || wr_addr == word_addr;

  always @(posedge clk) begin
    began_q <= 1'b1;
    if (rst) begin
      held_q <= 0;
      followed_q <= 1'b0;
      stalled_q <= 1'b0;
      was_full_q <= 1'b0;
    end else begin
      held_q <= held_q + (push ? ONE : 0) - (pop ? ONE : 0);
      if (push && pick && may_pick && !followed_q) begin
        followed_q <= 1'b1;
        ahead_q <= held_q - (pop ? ONE : 0);
        data_q <= s_data;
      end else if (pop && followed_q) begin
        if (mine) followed_q <= 1'b0;
        else ahead_q <= ahead_q - ONE;
      end
      stalled_q <= m_valid && !m_ready;
      if (level == FULL) was_full_q <= 1'b1;
    end
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    if (began_q && !rst) begin
      p_level : assert (level == held_q);
      p_order : assert (!(mine && m_valid) || m_data == data_q);
      p_space : assert (s_ready == (held_q != FULL));
      p_nothing_from_nothing : assert (!m_valid || held_q != 0);
      p_stays : assert (!stalled_q || m_valid);
      c_level : cover (was_full_q && level == 0);
      c_order : cover (was_full_q && mine && pop);
      c_space : cover (was_full_q && level == FULL && s_valid);
      c_nothing_from_nothing : cover (was_full_q && !m_valid && m_ready);
      c_stays : cover (stalled_q && pop);
    end
  end

  generate
    if (DEPTH_LOG2 > 5) begin : g_inside
      wire [DEPTH_LOG2:0] behind = {1'b0, rd_addr} + ahead_q - (head ? ONE : 0);
      wire in_head = mine && head;
      always @* begin
        if (began_q && !rst) begin
          h_levels : assert (held_q == stored + head && held_q <= FULL);
          h_span : assert (wr_addr == rd_addr + stored[DEPTH_LOG2-1:0]);
          h_inside : assert (!followed_q || ahead_q < held_q);
          h_head : assert (!in_head || m_data == data_q);
          h_place :
          assert (!followed_q || in_head || (word_addr == behind[DEPTH_LOG2-1:0]
              && word_known && word == data_q));
        end
      end
    end
  endgenerate

endmodule
