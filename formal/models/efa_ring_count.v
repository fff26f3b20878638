// SPDX-License-Identifier: Apache-2.0
// efa_ring_count - model for proofs of larger blocks: the contract that formal/ring_count.v proves.
//
// The model follows one ring, any of them: a lookup of that ring returns the last count set, or 0
// after a clear or a reset, the updates of its cycle included. A lookup of another ring, and any
// lookup during the init sweep, returns any value. The sweep ends in any cycle.
`default_nettype none

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

  (* anyconst *) wire [RING_W-1:0] ring;
  (* anyseq *) wire swept;
  (* anyseq *) wire [READS*WIDTH-1:0] others;

  reg init_done_q;
  reg [WIDTH-1:0] count_q;
  reg [READS-1:0] requested_q;

  integer lane;
  reg [READS*WIDTH-1:0] counts;
  always @* begin
    counts = others;
    for (lane = 0; lane < READS; lane = lane + 1) begin
      if (requested_q[lane]) counts[WIDTH*lane+:WIDTH] = count_q;
    end
  end

  assign m_init_done = init_done_q;
  assign count_rd_data = counts;

  always @(posedge clk) begin
    init_done_q <= !rst && (init_done_q || swept);
    if (rst || (s_clear_valid && s_clear_ring == ring)) count_q <= {WIDTH{1'b0}};
    else if (s_set_valid && s_set_ring == ring) count_q <= s_set_count;
    for (lane = 0; lane < READS; lane = lane + 1) begin
      requested_q[lane] <= !rst && init_done_q && count_rd_addr[RING_W*lane+:RING_W] == ring;
    end
  end

endmodule

`default_nettype wire
