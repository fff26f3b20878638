// SPDX-License-Identifier: Apache-2.0
// efa_sq_rr - holds the set of queues with pending work, served round robin by queue number.
//
// In    s_now_*, s: queues to add, both in one cycle if needed
// Out   m stream, the next queue in round robin order; it may change while it waits, if a queue in
//       between is added; a queue may be added again from the cycle in which it is taken
// Time  two in and one out per cycle; latency 1 cycle, from s_now_* into an empty set 0; a queue
//       waits at most for one visit to every other queue
`default_nettype none

module efa_sq_rr #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    input wire s_now_valid,
    input wire [QPN_W-1:0] s_now_qpn,
    input wire s_valid,
    output wire s_ready,
    input wire [QPN_W-1:0] s_qpn,
    output wire m_valid,
    input wire m_ready,
    output wire [QPN_W-1:0] m_qpn
);

  localparam N = 1 << QPN_W;
  localparam [N-1:0] A_QUEUE = 1;

  reg [N-1:0] inside_q;
  reg [QPN_W-1:0] last_q;

  wire some;
  wire [QPN_W-1:0] picked;
  wire [N-1:0] picked_bit;

  efa_slot_find #(
      .WINDOW_W(QPN_W),
      .BEHIND  (1)
  ) u_next (
      .s_from (last_q),
      .s_slots(inside_q),
      .m_found(some),
      .m_slot (picked),
      .m_bits (picked_bit)
  );

  wire [N-1:0] leaving = some && m_ready ? picked_bit : {N{1'b0}};
  wire [N-1:0] adding = s_valid ? A_QUEUE << s_qpn : {N{1'b0}};
  // A queue that bypasses the set is not added.
  wire [N-1:0] adding_now = s_now_valid && (some || !m_ready) ? A_QUEUE << s_now_qpn : {N{1'b0}};

  assign s_ready = 1'b1;
  assign m_valid = some || s_now_valid;
  // Without a queue in the set picked is 0.
  assign m_qpn = picked | (some ? {QPN_W{1'b0}} : s_now_qpn);

  always @(posedge clk) begin
    if (rst) begin
      inside_q <= {N{1'b0}};
      last_q <= {QPN_W{1'b0}};
    end else begin
      inside_q <= (inside_q & ~leaving) | adding | adding_now;
      if (m_valid && m_ready) last_q <= m_qpn;
    end
  end

endmodule

`default_nettype wire
