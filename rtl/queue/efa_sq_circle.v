// efa_sq_circle - queues that have work, each at most once, taken in a circle by number.
//
// In    now_*, s: queues that get work, both in one cycle if need be
// Out   m: the next queue in the circle after the one taken last, as it is now: while it waits one
//       that comes in between goes first; from the cycle in which it is taken it may be put in again
// Time  one of each in and one out per cycle; shows in the cycle after it was put in, into an empty
//       set by now in that very cycle; waits at most for every other queue once

module efa_sq_circle #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    input wire now_valid,
    input wire [QPN_W-1:0] now_qpn,
    input wire s_valid,
    output wire s_ready,
    input wire [QPN_W-1:0] s_qpn,
    output wire m_valid,
    input wire m_ready,
    output wire [QPN_W-1:0] m_qpn
);

  localparam N = 1 << QPN_W;

  reg [N-1:0] inside_q;
  reg [QPN_W-1:0] last_q;

  // Two trees of halves, the root at 1: the lowest queue of all, and of those behind the last one.
  reg [2*N-1:0] any;
  reg [2*N-1:0] any_behind;
  reg [2*N*QPN_W-1:0] low;
  reg [2*N*QPN_W-1:0] low_behind;
  reg [QPN_W-1:0] number;
  integer node;
  always @* begin
    any = {2 * N{1'b0}};
    any_behind = {2 * N{1'b0}};
    low = {2 * N * QPN_W{1'b0}};
    low_behind = {2 * N * QPN_W{1'b0}};
    for (node = 2 * N - 1; node > 0; node = node - 1) begin
      number = node[QPN_W-1:0];
      if (node >= N) begin
        any[node] = inside_q[number];
        any_behind[node] = inside_q[number] && number > last_q;
        low[QPN_W*node+:QPN_W] = number;
        low_behind[QPN_W*node+:QPN_W] = number;
      end else begin
        any[node] = any[2*node] || any[2*node+1];
        any_behind[node] = any_behind[2*node] || any_behind[2*node+1];
        low[QPN_W*node+:QPN_W] = any[2*node] ? low[QPN_W*2*node+:QPN_W]
            : low[QPN_W*(2*node+1)+:QPN_W];
        low_behind[QPN_W*node+:QPN_W] = any_behind[2*node] ? low_behind[QPN_W*2*node+:QPN_W]
            : low_behind[QPN_W*(2*node+1)+:QPN_W];
      end
    end
  end

  wire take = m_valid && m_ready;

  assign s_ready = 1'b1;
  assign m_valid = any[1] || now_valid;
  assign m_qpn = any_behind[1] ? low_behind[QPN_W+:QPN_W]
      : any[1] ? low[QPN_W+:QPN_W] : now_qpn;

  always @(posedge clk) begin
    if (rst) begin
      inside_q <= {N{1'b0}};
      last_q <= {QPN_W{1'b0}};
    end else begin
      if (take) begin
        inside_q[m_qpn] <= 1'b0;
        last_q <= m_qpn;
      end
      if (s_valid) inside_q[s_qpn] <= 1'b1;
      // What goes straight through is not inside.
      if (now_valid && (any[1] || !m_ready)) inside_q[now_qpn] <= 1'b1;
    end
  end

endmodule
