// SPDX-License-Identifier: Apache-2.0
// efa_drain - drains sends, receives and completions for one command unit at a time.
//
// In    s_drain: held until ready; s_drain_late: completions only, for queues without a QP
// Out   m_drain: a request to each engine, held until its ready
// Time  4 cycles, 2 with s_drain_late, plus the time of the engines
`default_nettype none
`include "efa_defs.vh"

module efa_drain #(
    parameter UNITS = 3
) (
    input wire clk,
    input wire rst,
    input wire [UNITS-1:0] s_drain_valid,
    input wire [UNITS-1:0] s_drain_late,
    output wire [UNITS-1:0] s_drain_ready,
    output wire [`EFA_ENGINE__CPL:0] m_drain_valid,
    input wire [`EFA_ENGINE__CPL:0] m_drain_ready
);

  localparam [2:0] ST_IDLE = 3'd0;
  localparam [2:0] ST_SEND = 3'd1;
  localparam [2:0] ST_RECV = 3'd2;
  localparam [2:0] ST_CPL = 3'd3;
  localparam [2:0] ST_DONE = 3'd4;

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg [UNITS-1:0] unit_q;

  wire idle = state_q == ST_IDLE;
  wire [UNITS-1:0] grant;
  efa_arb #(
      .N(UNITS)
  ) u_arb (
      .clk(clk),
      .rst(rst),
      .s_request(idle ? s_drain_valid : {UNITS{1'b0}}),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  assign m_drain_valid[`EFA_ENGINE__SEND] = state_q == ST_SEND;
  assign m_drain_valid[`EFA_ENGINE__RECV] = state_q == ST_RECV;
  assign m_drain_valid[`EFA_ENGINE__CPL] = state_q == ST_CPL;
  assign s_drain_ready = state_q == ST_DONE ? unit_q : {UNITS{1'b0}};

  always @* begin
    state_d = state_q;
    case (state_q)
      // Waits for a unit that has invalidated an object.
      ST_IDLE: begin
        if ((grant & s_drain_late) != {UNITS{1'b0}}) state_d = ST_CPL;
        else if (grant != {UNITS{1'b0}}) state_d = ST_SEND;
      end
      // Waits until all sends in flight have left; they may have become completions.
      ST_SEND: begin
        if (m_drain_ready[`EFA_ENGINE__SEND]) state_d = ST_RECV;
      end
      // Waits until all receives in flight have left.
      ST_RECV: begin
        if (m_drain_ready[`EFA_ENGINE__RECV]) state_d = ST_CPL;
      end
      // Waits until completions and events are written.
      ST_CPL: begin
        if (m_drain_ready[`EFA_ENGINE__CPL]) state_d = ST_DONE;
      end
      // Releases the unit.
      default: begin
        state_d = ST_IDLE;
      end
    endcase
  end

  always @(posedge clk) begin
    if (rst) state_q <= ST_IDLE;
    else state_q <= state_d;
  end

  always @(posedge clk) begin
    if (idle) unit_q <= grant;
  end

endmodule

`default_nettype wire
