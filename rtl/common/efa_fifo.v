// SPDX-License-Identifier: Apache-2.0
// efa_fifo - stores items in order; the oldest item is visible without a read request.
//
// In    s stream
// Out   m stream; m_level: number of items held, 0 to 2^DEPTH_LOG2
// Time  latency 1 cycle (flip-flops, DEPTH_LOG2 up to 5) or 2 cycles (RAM, larger depths);
//       one item per cycle in and out; s_ready and m_level depend only on registers
`default_nettype none
`include "efa_check.vh"

module efa_fifo #(
    parameter WIDTH = 8,
    parameter DEPTH_LOG2 = 4
) (
    input  wire clk,
    input  wire rst,
    input  wire s_valid,
    output wire s_ready,
    input  wire [WIDTH-1:0] s_data,
    output wire m_valid,
    input  wire m_ready,
    output wire [WIDTH-1:0] m_data,
    output wire [DEPTH_LOG2:0] m_level
);

  localparam LEVEL_W = DEPTH_LOG2 + 1;
  localparam [DEPTH_LOG2:0] FULL = {1'b1, {DEPTH_LOG2{1'b0}}};
  localparam [DEPTH_LOG2:0] ONE = {{DEPTH_LOG2{1'b0}}, 1'b1};

  generate
    if (DEPTH_LOG2 < 1) begin : g_illegal
      efa_fifo_needs_depth_log2_of_one_at_least u_illegal ();
    end
  endgenerate

  reg [DEPTH_LOG2:0] level_q;
  reg [DEPTH_LOG2-1:0] wr_addr_q;
  reg [DEPTH_LOG2-1:0] rd_addr_q;

  wire push = s_valid && s_ready;
  wire pop = m_valid && m_ready;
  wire fetch;

  // s_valid arrives late, so both next levels are precomputed.
  wire [DEPTH_LOG2:0] level_more = pop ? level_q : level_q + ONE;
  wire [DEPTH_LOG2:0] level_less = pop ? level_q - ONE : level_q;

  always @(posedge clk) begin
    if (rst) begin
      level_q <= {LEVEL_W{1'b0}};
      wr_addr_q <= {DEPTH_LOG2{1'b0}};
      rd_addr_q <= {DEPTH_LOG2{1'b0}};
    end else begin
      level_q <= push ? level_more : level_less;
      if (push) wr_addr_q <= wr_addr_q + ONE[DEPTH_LOG2-1:0];
      if (fetch) rd_addr_q <= rd_addr_q + ONE[DEPTH_LOG2-1:0];
    end
  end

  generate
    if (DEPTH_LOG2 <= 5) begin : g_flops
      reg [WIDTH-1:0] mem[0:(1<<DEPTH_LOG2)-1];
      always @(posedge clk) begin
        if (push) mem[wr_addr_q] <= s_data;
      end
      assign fetch = pop;
      assign m_valid = level_q != {LEVEL_W{1'b0}};
      assign m_data = mem[rd_addr_q];
`ifdef EFA_FORMAL_WORD
      // All entries as one vector, for invariants of other modules.
      wire [WIDTH*(1<<DEPTH_LOG2)-1:0] words;
      genvar place;
      for (place = 0; place < 1 << DEPTH_LOG2; place = place + 1) begin : g_word
        assign words[WIDTH*place+:WIDTH] = mem[place];
      end
`endif
    end else begin : g_ram
      // The RAM output register is the oldest item; stored_q counts the items that are still in the
      // RAM.
      reg head_q;
      reg [DEPTH_LOG2:0] stored_q;
      wire [DEPTH_LOG2:0] stored_more = fetch ? stored_q : stored_q + ONE;
      wire [DEPTH_LOG2:0] stored_less = fetch ? stored_q - ONE : stored_q;

      assign fetch = stored_q != {LEVEL_W{1'b0}} && (!head_q || m_ready);
      assign m_valid = head_q;

      always @(posedge clk) begin
        if (rst) begin
          head_q <= 1'b0;
          stored_q <= {LEVEL_W{1'b0}};
        end else begin
          if (fetch) head_q <= 1'b1;
          else if (m_ready) head_q <= 1'b0;
          stored_q <= push ? stored_more : stored_less;
        end
      end

      efa_ram #(
          .WIDTH(WIDTH),
          .ADDR_W(DEPTH_LOG2)
      ) u_ram (
          .clk(clk),
          .wr_en(push),
          .wr_addr(wr_addr_q),
          .wr_data(s_data),
          .rd_en(fetch),
          .rd_addr(rd_addr_q),
          .rd_data(m_data)
      );

      `EFA_CHECK(level_q == stored_q + {{DEPTH_LOG2{1'b0}}, head_q},
                 "level below the number of items")
    end
  endgenerate

  assign s_ready = level_q != FULL;
  assign m_level = level_q;

  `EFA_CHECK(level_q <= FULL, "level above the depth")

endmodule

`default_nettype wire
