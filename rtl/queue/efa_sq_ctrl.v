// SPDX-License-Identifier: Apache-2.0
// efa_sq_ctrl - executes admin operations on send queues (create, clear, free, query) and drains.
//
// In    s_op operation (0 create, 1 clear, 2 free, 3 query); s_drain; responses of the modules
// Out   m_clear_valid clears indices, deficit and errors of the queue; m_fetch_* its fetched WQEs
//       (SQ_HOST); m_llq_* its ring; m_cancel_* cancels its sends without acknowledgement; m_fence a
//       fence
// Time  query 2 cycles; create 3, clear and free 4 and a fence, plus stalls of the modules: one cycle
//       per further line of the ring, up to one per message context; fence 1 cycle after s_drain,
//       s_drain_ready 1 cycle after the fence has passed
//
// A transmission of a send may have begun before its cancellation. A second fence, behind the
// cancellation, ends the operation: the QP has no open payload read then.
`default_nettype none
`include "efa_defs.vh"

module efa_sq_ctrl #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    input wire s_op_valid,
    output wire s_op_ready,
    input wire [1:0] s_op_kind,
    input wire [QPN_W-1:0] s_op_qpn,
    output wire m_op_busy,
    input wire s_drain_valid,
    output wire s_drain_ready,
    output wire [QPN_W-1:0] count_rd_addr,
    input wire [15:0] consumed_rd_data,
    input wire [15:0] completed_rd_data,
    output wire m_clear_valid,
    output wire m_fetch_valid,
    input wire m_fetch_ready,
    output wire m_llq_valid,
    input wire m_llq_ready,
    output wire m_llq_own,
    output wire m_llq_disown,
    output wire m_cancel_valid,
    input wire m_cancel_ready,
    output wire m_fence_valid,
    input wire m_fence_ready,
    input wire s_fence_done
);

  localparam [1:0] KIND_MAKE = 2'd0;
  localparam [1:0] KIND_FREE = 2'd2;
  localparam [1:0] KIND_REQ = 2'd3;
  localparam [2:0] ST_WISH = 3'd0;
  localparam [2:0] ST_COUNTS = 3'd1;
  localparam [2:0] ST_CLEAR = 3'd2;
  localparam [2:0] ST_RING = 3'd3;
  localparam [2:0] ST_CANCEL = 3'd4;
  localparam [2:0] ST_FENCE = 3'd5;
  localparam [2:0] ST_DONE = 3'd6;
  localparam [1:0] DR_WISH = 2'd0;
  localparam [1:0] DR_FENCE = 2'd1;
  localparam [1:0] DR_PASS = 2'd2;
  localparam [1:0] DR_DONE = 2'd3;

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg cleared_q;  // the indices are cleared
  reg [1:0] drain_q;
  reg own_q;  // the fence is that of the operation
  reg [1:0] drain_d;
  reg busy_q;

  assign s_op_ready = state_q == ST_DONE;
  assign m_op_busy = busy_q;
  assign s_drain_ready = drain_q == DR_DONE && !own_q;
  assign count_rd_addr = s_op_qpn;
  assign m_clear_valid = state_q == ST_CLEAR && !cleared_q;
  assign m_fetch_valid = state_q == ST_CLEAR;
  assign m_llq_valid = state_q == ST_RING;
  assign m_llq_own = s_op_kind == KIND_MAKE;
  assign m_llq_disown = s_op_kind == KIND_FREE;
  assign m_cancel_valid = state_q == ST_CANCEL;
  assign m_fence_valid = drain_q == DR_FENCE;

  always @* begin
    state_d = state_q;
    case (state_q)
      // Waits for an operation; the indices are being read.
      ST_WISH: begin
        if (s_op_valid) state_d = s_op_kind == KIND_REQ ? ST_COUNTS : ST_CLEAR;
      end
      // The indices were read.
      ST_COUNTS: begin
        state_d = ST_DONE;
      end
      // Waits until the fetched WQEs are cleared; the indices are, in the first cycle.
      ST_CLEAR: begin
        if (m_fetch_ready) state_d = ST_RING;
      end
      // Waits until the lines of the ring are unwritten and its pages have their owner.
      ST_RING: begin
        if (m_llq_ready) state_d = s_op_kind == KIND_MAKE ? ST_DONE : ST_CANCEL;
      end
      // Waits until its message contexts are cancelled.
      ST_CANCEL: begin
        if (m_cancel_ready) state_d = ST_FENCE;
      end
      // Waits until a fence of its own has passed: transmissions that began before have passed, too.
      ST_FENCE: begin
        if (drain_q == DR_DONE && own_q) state_d = ST_DONE;
      end
      // Ready completes the operation.
      ST_DONE: begin
        state_d = ST_WISH;
      end
      default: begin
        state_d = ST_WISH;
      end
    endcase

    drain_d = drain_q;
    case (drain_q)
      // Waits for a drain request, or for the fence of the operation.
      DR_WISH: begin
        if (s_drain_valid || state_q == ST_FENCE) drain_d = DR_FENCE;
      end
      // Waits until the fence has entered the pipeline.
      DR_FENCE: begin
        if (m_fence_ready) drain_d = DR_PASS;
      end
      // Waits until the fence has passed.
      DR_PASS: begin
        if (s_fence_done) drain_d = DR_DONE;
      end
      // Ready completes the drain.
      default: begin
        drain_d = DR_WISH;
      end
    endcase
  end

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_WISH;
      drain_q <= DR_WISH;
    end else begin
      state_q <= state_d;
      drain_q <= drain_d;
    end
  end

  always @(posedge clk) begin
    cleared_q <= state_q == ST_CLEAR;
    if (drain_q == DR_WISH) own_q <= state_q == ST_FENCE;
    if (state_q == ST_COUNTS) busy_q <= consumed_rd_data != completed_rd_data;
  end

endmodule

`default_nettype wire
