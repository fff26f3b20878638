// SPDX-License-Identifier: Apache-2.0
// fv_ring_count - proves efa_ring_count for one ring of the solver's choice: each reader returns the
// last count set, or 0 after a clear, in every order of cycles and whatever happens to other rings.
`include "efa_defs.vh"

module fv_ring_count #(
    parameter RING_W = 2,
    parameter WIDTH  = 16
) (
    input wire clk,
    input wire rst,
    input wire set_valid,
    input wire [RING_W-1:0] set_ring,
    input wire [WIDTH-1:0] set_count,
    input wire clear_valid,
    input wire [RING_W-1:0] clear_ring,
    input wire [2*RING_W-1:0] count_rd_addr
);

  wire init_done;
  wire [2*WIDTH-1:0] count_rd_data;

  efa_ring_count #(
      .RING_W(RING_W),
      .WIDTH (WIDTH),
      .READS (2)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done),
      .s_set_valid(set_valid),
      .s_set_ring(set_ring),
      .s_set_count(set_count),
      .s_clear_valid(clear_valid),
      .s_clear_ring(clear_ring),
      .count_rd_addr(count_rd_addr),
      .count_rd_data(count_rd_data)
  );

  (* anyconst *) wire [RING_W-1:0] me;

  // Probes: the words of the chosen ring in each RAM, and the stage that writes them.
  (* probe = "u_dut.u_words.g_port[0].u_copy.word_addr" *) wire [RING_W-1:0] word_0_addr;
  (* probe = "u_dut.u_words.g_port[0].u_copy.word_q" *) wire [WIDTH:0] word_0;
  (* probe = "u_dut.u_words.g_port[0].u_copy.word_known_q" *) wire word_0_known;
  (* probe = "u_dut.u_words.g_port[1].u_copy.word_addr" *) wire [RING_W-1:0] word_1_addr;
  (* probe = "u_dut.u_words.g_port[1].u_copy.word_q" *) wire [WIDTH:0] word_1;
  (* probe = "u_dut.u_words.g_port[1].u_copy.word_known_q" *) wire word_1_known;
  (* probe = "u_dut.u_mark.word_addr" *) wire [RING_W-1:0] mark_addr;
  (* probe = "u_dut.u_mark.word_q" *) wire mark;
  (* probe = "u_dut.u_mark.word_known_q" *) wire mark_known;
  (* probe = "u_dut.u_clears.g_port[0].u_copy.word_addr" *) wire [RING_W-1:0] clear_0_addr;
  (* probe = "u_dut.u_clears.g_port[0].u_copy.word_q" *) wire clear_0;
  (* probe = "u_dut.u_clears.g_port[0].u_copy.word_known_q" *) wire clear_0_known;
  (* probe = "u_dut.u_clears.g_port[1].u_copy.word_addr" *) wire [RING_W-1:0] clear_1_addr;
  (* probe = "u_dut.u_clears.g_port[1].u_copy.word_q" *) wire clear_1;
  (* probe = "u_dut.u_clears.g_port[1].u_copy.word_known_q" *) wire clear_1_known;
  (* probe = "u_dut.u_clears.g_port[2].u_copy.word_addr" *) wire [RING_W-1:0] clear_2_addr;
  (* probe = "u_dut.u_clears.g_port[2].u_copy.word_q" *) wire clear_2;
  (* probe = "u_dut.u_clears.g_port[2].u_copy.word_known_q" *) wire clear_2_known;
  (* probe = "u_dut.init_q" *) wire [RING_W:0] sweep;
  (* probe = "u_dut.w_set_q" *) wire w_set;
  (* probe = "u_dut.w_set_ring_q" *) wire [RING_W-1:0] w_set_ring;
  (* probe = "u_dut.w_set_count_q" *) wire [WIDTH-1:0] w_set_count;
  (* probe = "u_dut.w_clear_q" *) wire w_clear;
  (* probe = "u_dut.w_clear_ring_q" *) wire [RING_W-1:0] w_clear_ring;
  (* probe = "u_dut.set_mark" *) wire set_mark;
  (* probe = "u_dut.clear_mark" *) wire clear_mark;
  wire set_me = w_set && w_set_ring == me;
  wire clear_me = w_clear && w_clear_ring == me;

  // The contract: the count after the updates of all earlier cycles.
  reg began_q = 1'b0;
  reg [WIDTH-1:0] count_q;
  reg [1:0] requested_q;
  reg [2:0] set_then_q;  // the ring was set in the previous cycles, the latest in bit 0
  reg [2:0] cleared_then_q;
  wire sets = set_valid && set_ring == me;
  wire clears = clear_valid && clear_ring == me;

  always @(posedge clk) begin
    began_q <= 1'b1;
    requested_q <= rst || !init_done ? 2'b00
        : {count_rd_addr[RING_W+:RING_W] == me, count_rd_addr[0+:RING_W] == me};
    if (rst || clears) count_q <= 0;
    else if (sets) count_q <= set_count;
    set_then_q <= rst ? 3'd0 : {set_then_q[1:0], sets};
    cleared_then_q <= rst ? 3'd0 : {cleared_then_q[1:0], clears};
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    a_init : assume (init_done || !(set_valid || clear_valid));
    a_word :
    assume (word_0_addr == me && word_1_addr == me && mark_addr == me && clear_0_addr == me
        && clear_1_addr == me && clear_2_addr == me);
    if (began_q && !rst) begin
      h_copies :
      assert (sweep <= {1'b0, me} || (word_0_known && word_1_known && mark_known && clear_0_known
          && clear_1_known && clear_2_known && word_0 == word_1 && mark == word_0[WIDTH]
          && clear_0 == clear_1 && clear_0 == clear_2));
      h_init : assert (init_done || !(w_set || w_clear || count_q != 0));
      h_once : assert (!(set_me && clear_me));
      h_set : assert (!set_me || (set_mark == clear_0 && count_q == w_set_count));
      h_clear : assert (!clear_me || (clear_mark != mark && count_q == 0));
      h_stored :
      assert (set_me || clear_me || sweep <= {1'b0, me}
          || count_q == (clear_0 == mark ? word_0[WIDTH-1:0] : {WIDTH{1'b0}}));
      p_first : assert (!requested_q[0] || count_rd_data[0+:WIDTH] == count_q);
      p_last : assert (!requested_q[1] || count_rd_data[WIDTH+:WIDTH] == count_q);
      // A clear between two sets; a clear in the cycle of a set, both with a mark of each value.
      c_first :
      cover (requested_q[0] && set_then_q == 3'b101 && cleared_then_q == 3'b010 && mark && count_q == 5);
      c_last :
      cover (requested_q[1] && set_then_q == 3'b110 && cleared_then_q == 3'b010 && count_q == 0 && mark);
    end
  end

endmodule
