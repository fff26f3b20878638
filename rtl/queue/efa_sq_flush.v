// SPDX-License-Identifier: Apache-2.0
// efa_sq_flush - reports errors of send queues and sequences the flush of each halted queue.
//
// In    incomplete_, posted_, store_, read_ err: errors that halt a queue (SQ_HOST: store_ is a
//       failed read of a WQE); s_notice_*: the QP reached ERR for any reason; s_clear_*: a queue
//       restarts; s_ah_gone: an address handle was destroyed
// Out   halted_rd_*: the queue consumes and sends nothing, two readers; flush_ok_rd_*: it may be
//       flushed; scan_set_rd_*: m_scan flushes it; m_qperr_* error report; m_fence a fence behind
//       all consumed WQEs, then m_scan flushes the unacknowledged sends, then m_again and
//       flush_ok_rd_data return the queue to the scheduler for flushing, so completions keep the
//       posting order; a destroyed address handle starts a round too, in which m_scan flushes the
//       sends through it
// Time  lookups: 1 cycle, with the events of the cycle of the address; a report within 2^QPN_W + 1
//       cycles while reports are accepted; a fence 2 cycles after its notice, the context scan 1
//       after the fence has passed, then one queue per cycle is returned: the next fence
//       2^QPN_W + 2 after the scan; queues that fail during a round are served together by the
//       next round
//
// A clear cancels an error that is not yet offered. A report that is offered stays; efa_qp_ctx
// decides on it.
`default_nettype none
`include "efa_defs.vh"

module efa_sq_flush #(
    parameter QPN_W   = 6,
    parameter SQ_HOST = 0
) (
    input wire clk,
    input wire rst,
    input wire s_posted_err_valid,
    input wire [QPN_W-1:0] s_posted_err_qpn,
    input wire s_incomplete_err_valid,
    input wire [QPN_W-1:0] s_incomplete_err_qpn,
    input wire s_store_err_valid,
    input wire [QPN_W-1:0] s_store_err_qpn,
    input wire s_read_err_valid,
    input wire [QPN_W-1:0] s_read_err_qpn,
    input wire s_notice_valid,
    input wire [QPN_W-1:0] s_notice_qpn,
    input wire s_clear_valid,
    input wire [QPN_W-1:0] s_clear_qpn,
    input wire s_ah_gone,
    input wire [2*QPN_W-1:0] halted_rd_addr,
    output wire [1:0] halted_rd_data,
    input wire [QPN_W-1:0] flush_ok_rd_addr,
    output wire flush_ok_rd_data,
    output wire m_qperr_valid,
    input wire m_qperr_ready,
    output wire [QPN_W-1:0] m_qperr_qpn,
    output wire [3:0] m_qperr_cause,
    output wire m_fence_valid,
    input wire m_fence_ready,
    input wire s_fence_done,
    output wire m_scan_valid,
    input wire m_scan_ready,
    input wire [QPN_W-1:0] scan_set_rd_addr,
    output wire scan_set_rd_data,
    output wire m_again_valid,
    input wire m_again_ready,
    output wire [QPN_W-1:0] m_again_qpn
);

  localparam N = 1 << QPN_W;
  localparam [QPN_W-1:0] ONE = 1;
  localparam [3:0] CAUSE_STORE = SQ_HOST != 0 ?
  `EFA_QP_ERROR__WQE_READ
  : `EFA_QP_ERROR__POSTED_STORE;
  localparam [2:0] ST_REQUEST = 3'd0;
  localparam [2:0] ST_FENCE = 3'd1;
  localparam [2:0] ST_PASS = 3'd2;
  localparam [2:0] ST_SCAN = 3'd3;
  localparam [2:0] ST_AGAIN = 3'd4;

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg [QPN_W-1:0] index_q;
  reg [QPN_W-1:0] index_d;
  reg [N-1:0] round_q;
  reg [N-1:0] round_d;
  reg [N-1:0] request_q;
  reg [N-1:0] request_d;
  reg handles_q;  // an address handle was destroyed since the last round began
  reg handles_d;
  reg [N-1:0] flush_ok_q;
  reg [N-1:0] flush_ok_d;
  reg [N-1:0] halted_q;
  reg [N-1:0] halted_d;

  // Errors can occur faster than they are reported: one bit for each, and a scan pointer.
  reg [N-1:0] posted_q;
  reg [N-1:0] incomplete_q;
  reg [N-1:0] store_q;
  reg [N-1:0] read_q;
  reg [QPN_W-1:0] scan_q;
  reg [1:0] halted_rd_q;
  reg flush_ok_rd_q;
  reg scan_set_rd_q;
  reg report_q;
  reg [QPN_W-1:0] report_qpn_q;
  reg [3:0] report_cause_q;

  wire found = posted_q[scan_q] || incomplete_q[scan_q] || store_q[scan_q] || read_q[scan_q];
  wire scan_move = !report_q || m_qperr_ready;

  assign halted_rd_data = halted_rd_q;
  assign flush_ok_rd_data = flush_ok_rd_q;
  assign scan_set_rd_data = scan_set_rd_q;
  assign m_qperr_valid = report_q;
  assign m_qperr_qpn = report_qpn_q;
  assign m_qperr_cause = report_cause_q;
  assign m_fence_valid = state_q == ST_FENCE;
  assign m_scan_valid = state_q == ST_SCAN;
  assign m_again_valid = state_q == ST_AGAIN && round_q[index_q];
  assign m_again_qpn = index_q;

  always @* begin
    state_d = state_q;
    index_d = index_q;
    round_d = round_q;
    request_d = request_q;
    handles_d = handles_q;
    flush_ok_d = flush_ok_q;
    halted_d = halted_q;
    case (state_q)
      // Waits for a queue in ERR or a destroyed address handle.
      ST_REQUEST: begin
        index_d   = {QPN_W{1'b0}};
        round_d   = request_q;
        request_d = {N{1'b0}};
        handles_d = 1'b0;
        if (handles_q || request_q != {N{1'b0}}) state_d = ST_FENCE;
      end
      // Waits until the fence is behind all consumed WQEs.
      ST_FENCE: begin
        if (m_fence_ready) state_d = ST_PASS;
      end
      // Waits until the fence has passed: no WQE of these queues is in the pipeline then.
      ST_PASS: begin
        if (s_fence_done) state_d = ST_SCAN;
      end
      // Waits until their unacknowledged sends have completed.
      ST_SCAN: begin
        if (m_scan_ready) state_d = ST_AGAIN;
      end
      // Returns each queue of the round to the scheduler.
      ST_AGAIN: begin
        if (round_q[index_q]) flush_ok_d[index_q] = 1'b1;
        if (!m_again_valid || m_again_ready) begin
          index_d = index_q + ONE;
          if (&index_q) state_d = ST_REQUEST;
        end
      end
      default: begin
        state_d = ST_REQUEST;
      end
    endcase
    if (s_notice_valid) begin
      request_d[s_notice_qpn] = 1'b1;
      halted_d[s_notice_qpn] = 1'b1;
    end
    if (s_ah_gone) handles_d = 1'b1;
    if (s_posted_err_valid) halted_d[s_posted_err_qpn] = 1'b1;
    if (s_incomplete_err_valid) halted_d[s_incomplete_err_qpn] = 1'b1;
    if (s_store_err_valid) halted_d[s_store_err_qpn] = 1'b1;
    if (s_read_err_valid) halted_d[s_read_err_qpn] = 1'b1;
    if (s_clear_valid) begin
      request_d[s_clear_qpn] = 1'b0;
      round_d[s_clear_qpn] = 1'b0;
      flush_ok_d[s_clear_qpn] = 1'b0;
      halted_d[s_clear_qpn] = 1'b0;
    end
  end

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_REQUEST;
      round_q <= {N{1'b0}};
      request_q <= {N{1'b0}};
      handles_q <= 1'b0;
      flush_ok_q <= {N{1'b0}};
      halted_q <= {N{1'b0}};
      posted_q <= {N{1'b0}};
      incomplete_q <= {N{1'b0}};
      store_q <= {N{1'b0}};
      read_q <= {N{1'b0}};
      scan_q <= {QPN_W{1'b0}};
      report_q <= 1'b0;
      halted_rd_q <= 2'b00;
      flush_ok_rd_q <= 1'b0;
      scan_set_rd_q <= 1'b0;
    end else begin
      state_q <= state_d;
      round_q <= round_d;
      request_q <= request_d;
      handles_q <= handles_d;
      flush_ok_q <= flush_ok_d;
      halted_q <= halted_d;
      halted_rd_q <= {halted_d[halted_rd_addr[QPN_W+:QPN_W]], halted_d[halted_rd_addr[0+:QPN_W]]};
      flush_ok_rd_q <= flush_ok_d[flush_ok_rd_addr];
      scan_set_rd_q <= round_d[scan_set_rd_addr];
      if (scan_move) begin
        scan_q <= scan_q + ONE;
        report_q <= found && !(s_clear_valid && s_clear_qpn == scan_q);
        posted_q[scan_q] <= 1'b0;
        incomplete_q[scan_q] <= 1'b0;
        store_q[scan_q] <= 1'b0;
        read_q[scan_q] <= 1'b0;
      end
      if (s_posted_err_valid) posted_q[s_posted_err_qpn] <= 1'b1;
      if (s_incomplete_err_valid) incomplete_q[s_incomplete_err_qpn] <= 1'b1;
      if (s_store_err_valid) store_q[s_store_err_qpn] <= 1'b1;
      if (s_read_err_valid) read_q[s_read_err_qpn] <= 1'b1;
      if (s_clear_valid) begin
        posted_q[s_clear_qpn]  <= 1'b0;
        incomplete_q[s_clear_qpn]  <= 1'b0;
        store_q[s_clear_qpn] <= 1'b0;
        read_q[s_clear_qpn]  <= 1'b0;
      end
    end
  end

  always @(posedge clk) begin
    index_q <= index_d;
    if (scan_move) begin
      report_qpn_q <= scan_q;
      report_cause_q <= posted_q[scan_q] ? `EFA_QP_ERROR__SQ_DOORBELL
          : incomplete_q[scan_q] ? `EFA_QP_ERROR__INCOMPLETE_WQE :
          store_q[scan_q] ? CAUSE_STORE : `EFA_QP_ERROR__PAYLOAD_READ;
    end
  end

endmodule

`default_nettype wire
