// SPDX-License-Identifier: Apache-2.0
// efa_ring_count - holds one count of each ring in RAM words, with READS lookups.
//
// In    s_set_* the new count of a ring; s_clear_* a ring whose count becomes 0, also in the cycle
//       of a set of that ring, which then has no effect; count_rd_addr, a lane for each reader;
//       m_init_done is high before the first set, clear or lookup
// Out   count_rd_data, a lane for each reader
// Time  one set and one clear per cycle, both always accepted; a lookup takes 1 cycle and returns
//       the new count in the cycle of a set or clear; after rst every count is 0, 2^RING_W cycles
//
// A set and a clear write different RAMs, so neither waits for the other. The word of a ring is its
// count and a mark, and a second RAM holds the mark of the last clear. The count is 0 while the two
// marks differ. A set writes the word with the mark of the clear; a clear writes the inverted mark
// of the word. Each needs the mark of the other RAM, so the RAMs are written one cycle later.
`default_nettype none
`include "efa_check.vh"

module efa_ring_count #(
    parameter RING_W = 6,
    parameter WIDTH  = 16,
    parameter READS  = 2
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire s_set_valid,
    input wire [RING_W-1:0] s_set_ring,
    input wire [WIDTH-1:0] s_set_count,
    input wire s_clear_valid,
    input wire [RING_W-1:0] s_clear_ring,
    input wire [READS*RING_W-1:0] count_rd_addr,
    output wire [READS*WIDTH-1:0] count_rd_data
);

  localparam WORD_W = WIDTH + 1;
  localparam [RING_W:0] ONE = 1;

  // Init sweep of both RAMs after a reset.
  reg [RING_W:0] init_q;
  wire initializing = !init_q[RING_W];

  // w: the set and the clear of the previous cycle; their marks are read, the RAMs are written.
  reg w_set_q;
  reg [RING_W-1:0] w_set_ring_q;
  reg [WIDTH-1:0] w_set_count_q;
  reg w_clear_q;
  reg [RING_W-1:0] w_clear_ring_q;

  // Forwarding of the marks that were written in the cycle in which they were read.
  reg cleared_now_q;
  reg cleared_mark_q;
  reg set_now_q;
  reg set_mark_q;

  // The RAM words of a lookup are valid unless its ring was set or cleared in its cycle or in the
  // cycle before. The count is then in recent_q, which is otherwise 0.
  reg [READS-1:0] stored_q;
  reg [READS*WIDTH-1:0] recent_q;

  wire clear_read;
  wire mark_read;
  wire set_mark = cleared_now_q ? cleared_mark_q : clear_read;
  wire clear_mark = !(set_now_q ? set_mark_q : mark_read);

  wire word_wr = initializing || w_set_q;
  wire [RING_W-1:0] word_wr_addr = initializing ? init_q[RING_W-1:0] : w_set_ring_q;
  wire [WORD_W-1:0] word_wr_data = initializing ? {WORD_W{1'b0}} : {set_mark, w_set_count_q};
  wire clear_wr = initializing || w_clear_q;
  wire [RING_W-1:0] clear_wr_addr = initializing ? init_q[RING_W-1:0] : w_clear_ring_q;
  wire clear_wr_data = !initializing && clear_mark;

  wire [READS*WORD_W-1:0] words;
  wire [READS-1:0] clears;
  reg [READS*WIDTH-1:0] counts;
  integer lane;
  always @* begin
    // One level of logic: the counts are at the start of the longest paths of their readers.
    for (lane = 0; lane < READS; lane = lane + 1) begin
      counts[WIDTH*lane+:WIDTH] = recent_q[WIDTH*lane+:WIDTH]
          | (words[WORD_W*lane+:WIDTH]
             & {WIDTH{stored_q[lane] && words[WORD_W*lane+WIDTH] == clears[lane]}});
    end
  end

  wire set = s_set_valid && !(s_clear_valid && s_clear_ring == s_set_ring);
  reg [RING_W-1:0] ring;
  reg [READS-1:0] set_hit;
  reg [READS-1:0] clear_hit;
  reg [READS-1:0] w_set_hit;
  reg [READS-1:0] w_clear_hit;
  integer hit;
  always @* begin
    for (hit = 0; hit < READS; hit = hit + 1) begin
      ring = count_rd_addr[RING_W*hit+:RING_W];
      set_hit[hit] = set && ring == s_set_ring;
      clear_hit[hit] = s_clear_valid && ring == s_clear_ring;
      w_set_hit[hit] = w_set_q && ring == w_set_ring_q;
      w_clear_hit[hit] = w_clear_q && ring == w_clear_ring_q;
    end
  end

  assign m_init_done = !initializing;
  assign count_rd_data = counts;

  efa_ram_1wnr #(
      .WIDTH (WORD_W),
      .ADDR_W(RING_W),
      .READS (READS)
  ) u_words (
      .clk(clk),
      .wr_en(word_wr),
      .wr_addr(word_wr_addr),
      .wr_data(word_wr_data),
      .rd_addr(count_rd_addr),
      .rd_data(words)
  );

  // The marks of the words, for the clear.
  efa_ram #(
      .WIDTH (1),
      .ADDR_W(RING_W)
  ) u_mark (
      .clk(clk),
      .wr_en(word_wr),
      .wr_addr(word_wr_addr),
      .wr_data(word_wr_data[WIDTH]),
      .rd_en(1'b1),
      .rd_addr(s_clear_ring),
      .rd_data(mark_read)
  );

  // The marks of the clears, for the set and for each reader.
  efa_ram_1wnr #(
      .WIDTH (1),
      .ADDR_W(RING_W),
      .READS (READS + 1)
  ) u_clears (
      .clk(clk),
      .wr_en(clear_wr),
      .wr_addr(clear_wr_addr),
      .wr_data(clear_wr_data),
      .rd_addr({s_set_ring, count_rd_addr}),
      .rd_data({clear_read, clears})
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {RING_W + 1{1'b0}};
      w_set_q <= 1'b0;
      w_clear_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE;
      w_set_q <= set;
      w_clear_q <= s_clear_valid;
    end
  end

  integer reader;
  always @(posedge clk) begin
    w_set_ring_q <= s_set_ring;
    w_set_count_q <= s_set_count;
    w_clear_ring_q <= s_clear_ring;
    cleared_now_q <= w_clear_q && w_clear_ring_q == s_set_ring;
    cleared_mark_q <= clear_mark;
    set_now_q <= w_set_q && w_set_ring_q == s_clear_ring;
    set_mark_q <= set_mark;
    stored_q <= ~(set_hit | clear_hit | w_set_hit | w_clear_hit);
    for (reader = 0; reader < READS; reader = reader + 1) begin
      recent_q[WIDTH*reader+:WIDTH] <= ({WIDTH{set_hit[reader]}} & s_set_count)
          | ({WIDTH{w_set_hit[reader] && !set_hit[reader] && !clear_hit[reader]}} & w_set_count_q);
    end
  end

  `EFA_CHECK(!initializing || !(s_set_valid || s_clear_valid),
             "efa_ring_count: a set or clear during the init sweep")

endmodule

`default_nettype wire
