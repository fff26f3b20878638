// SPDX-License-Identifier: Apache-2.0
// efa_sq_rr - holds the set of queues with pending work, served round robin by queue number.
//
// In    now_*, s: queues to add, both in one cycle if needed
// Out   m stream, the next queue in round robin order; it may change while it waits, if a queue in
//       between is added; a queue may be added again from the cycle in which it is taken
// Time  two in and one out per cycle; latency 1 cycle, from now_* into an empty set 0; a queue
//       waits at most for one visit to every other queue

module efa_sq_rr #(
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

  // The lowest queue above the last one, otherwise the lowest of all; its number bit by bit.
  wire [N-1:0] behind = inside_q & (({N{1'b1}} << last_q) << 1);
  wire [N-1:0] from = behind != {N{1'b0}} ? behind : inside_q;
  wire [N-1:0] pick = from & (~from + {{N - 1{1'b0}}, 1'b1});
  wire some = inside_q != {N{1'b0}};
  wire [QPN_W-1:0] picked;

  genvar place;
  generate
    for (place = 0; place < QPN_W; place = place + 1) begin : g_number
      // Queues whose number has this bit.
      localparam HALF = 1 << place;
      assign picked[place] = (pick & {N / 2 / HALF{{HALF{1'b1}}, {HALF{1'b0}}}}) != {N{1'b0}};
    end
  endgenerate

  wire take = m_valid && m_ready;

  assign s_ready = 1'b1;
  assign m_valid = some || now_valid;
  assign m_qpn = some ? picked : now_qpn;

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
      // A queue that bypasses the set is not added.
      if (now_valid && (some || !m_ready)) inside_q[now_qpn] <= 1'b1;
    end
  end

endmodule
