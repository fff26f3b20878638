// SPDX-License-Identifier: Apache-2.0
// efa_sq_fault - reports errors of send queues and sequences the flush of each halted queue.
//
// In    torn_, rung_, store_, read_ err: errors that halt a queue (SQ_HOST: store_ is a failed read
//       of a WQE); notice_*: the QP reached ERR for any reason; clear_*: a queue restarts; ah_gone:
//       an address handle was destroyed
// Out   down: halted, the queue consumes and sends nothing; qperr_* error report; m_mark a fence
//       behind all consumed WQEs, then m_walk flushes the unacknowledged sends, then m_again and
//       flush_ok return the queue to the scheduler for flushing, so completions keep the posting
//       order; a destroyed address handle starts a round too, in which m_walk flushes the sends
//       through it
// Time  halted from the next cycle; a report within 2^QPN_W + 1 cycles while reports are accepted;
//       a fence 2 cycles after its notice, the context scan 1 after the fence has passed, then one
//       queue per cycle is returned: the next fence 2^QPN_W + 2 after the scan; queues that fail
//       during a round are served together by the next round
//
// A clear cancels an error that is not yet offered. A report that is offered stays; efa_qp_ctx
// decides on it.
`include "efa_defs.vh"

module efa_sq_fault #(
    parameter QPN_W   = 6,
    parameter SQ_HOST = 0
) (
    input wire clk,
    input wire rst,
    input wire rung_err_valid,
    input wire [QPN_W-1:0] rung_err_qpn,
    input wire torn_err_valid,
    input wire [QPN_W-1:0] torn_err_qpn,
    input wire store_err_valid,
    input wire [QPN_W-1:0] store_err_qpn,
    input wire read_err_valid,
    input wire [QPN_W-1:0] read_err_qpn,
    input wire notice_valid,
    input wire [QPN_W-1:0] notice_qpn,
    input wire clear_valid,
    input wire [QPN_W-1:0] clear_qpn,
    input wire ah_gone,
    output wire [(1<<QPN_W)-1:0] down,
    output wire [(1<<QPN_W)-1:0] flush_ok,
    output wire qperr_valid,
    input wire qperr_ready,
    output wire [QPN_W-1:0] qperr_qpn,
    output wire [3:0] qperr_cause,
    output wire m_mark_valid,
    input wire m_mark_ready,
    input wire mark_done,
    output wire m_walk_valid,
    input wire m_walk_ready,
    output wire [(1<<QPN_W)-1:0] m_walk_set,
    output wire m_again_valid,
    input wire m_again_ready,
    output wire [QPN_W-1:0] m_again_qpn
);

  localparam N = 1 << QPN_W;
  localparam [QPN_W-1:0] ONE = 1;
  localparam [3:0] CAUSE_RUNG = 4'd1;
  localparam [3:0] CAUSE_TORN = 4'd3;
  localparam [3:0] CAUSE_STORE = SQ_HOST != 0 ? 4'd8 : 4'd4;
  localparam [3:0] CAUSE_READ = 4'd5;
  localparam [2:0] ST_REQUEST = 3'd0;
  localparam [2:0] ST_MARK = 3'd1;
  localparam [2:0] ST_PASS = 3'd2;
  localparam [2:0] ST_WALK = 3'd3;
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
  reg [N-1:0] down_q;
  reg [N-1:0] down_d;

  // Errors can occur faster than they are reported: one bit for each, and a scan pointer.
  reg [N-1:0] rung_q;
  reg [N-1:0] torn_q;
  reg [N-1:0] store_q;
  reg [N-1:0] read_q;
  reg [QPN_W-1:0] hand_q;
  reg report_q;
  reg [QPN_W-1:0] report_qpn_q;
  reg [3:0] report_cause_q;

  wire found = rung_q[hand_q] || torn_q[hand_q] || store_q[hand_q] || read_q[hand_q];
  wire hand_move = !report_q || qperr_ready;

  assign down = down_q;
  assign flush_ok = flush_ok_q;
  assign qperr_valid = report_q;
  assign qperr_qpn = report_qpn_q;
  assign qperr_cause = report_cause_q;
  assign m_mark_valid = state_q == ST_MARK;
  assign m_walk_valid = state_q == ST_WALK;
  assign m_walk_set = round_q;
  assign m_again_valid = state_q == ST_AGAIN && round_q[index_q];
  assign m_again_qpn = index_q;

  always @* begin
    state_d = state_q;
    index_d = index_q;
    round_d = round_q;
    request_d = request_q;
    handles_d = handles_q;
    flush_ok_d = flush_ok_q;
    down_d = down_q;
    case (state_q)
      // Waits for a queue in ERR or a destroyed address handle.
      ST_REQUEST: begin
        index_d   = {QPN_W{1'b0}};
        round_d   = request_q;
        request_d = {N{1'b0}};
        handles_d = 1'b0;
        if (handles_q || request_q != {N{1'b0}}) state_d = ST_MARK;
      end
      // Waits until the fence is behind all consumed WQEs.
      ST_MARK: begin
        if (m_mark_ready) state_d = ST_PASS;
      end
      // Waits until the fence has passed: no WQE of these queues is in the pipeline then.
      ST_PASS: begin
        if (mark_done) state_d = ST_WALK;
      end
      // Waits until their unacknowledged sends have completed.
      ST_WALK: begin
        if (m_walk_ready) state_d = ST_AGAIN;
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
    if (notice_valid) begin
      request_d[notice_qpn] = 1'b1;
      down_d[notice_qpn] = 1'b1;
    end
    if (ah_gone) handles_d = 1'b1;
    if (rung_err_valid) down_d[rung_err_qpn] = 1'b1;
    if (torn_err_valid) down_d[torn_err_qpn] = 1'b1;
    if (store_err_valid) down_d[store_err_qpn] = 1'b1;
    if (read_err_valid) down_d[read_err_qpn] = 1'b1;
    if (clear_valid) begin
      request_d[clear_qpn] = 1'b0;
      round_d[clear_qpn] = 1'b0;
      flush_ok_d[clear_qpn] = 1'b0;
      down_d[clear_qpn] = 1'b0;
    end
  end

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_REQUEST;
      round_q <= {N{1'b0}};
      request_q <= {N{1'b0}};
      handles_q <= 1'b0;
      flush_ok_q <= {N{1'b0}};
      down_q <= {N{1'b0}};
      rung_q <= {N{1'b0}};
      torn_q <= {N{1'b0}};
      store_q <= {N{1'b0}};
      read_q <= {N{1'b0}};
      hand_q <= {QPN_W{1'b0}};
      report_q <= 1'b0;
    end else begin
      state_q <= state_d;
      round_q <= round_d;
      request_q <= request_d;
      handles_q <= handles_d;
      flush_ok_q <= flush_ok_d;
      down_q <= down_d;
      if (hand_move) begin
        hand_q <= hand_q + ONE;
        report_q <= found && !(clear_valid && clear_qpn == hand_q);
        rung_q[hand_q] <= 1'b0;
        torn_q[hand_q] <= 1'b0;
        store_q[hand_q] <= 1'b0;
        read_q[hand_q] <= 1'b0;
      end
      if (rung_err_valid) rung_q[rung_err_qpn] <= 1'b1;
      if (torn_err_valid) torn_q[torn_err_qpn] <= 1'b1;
      if (store_err_valid) store_q[store_err_qpn] <= 1'b1;
      if (read_err_valid) read_q[read_err_qpn] <= 1'b1;
      if (clear_valid) begin
        rung_q[clear_qpn]  <= 1'b0;
        torn_q[clear_qpn]  <= 1'b0;
        store_q[clear_qpn] <= 1'b0;
        read_q[clear_qpn]  <= 1'b0;
      end
    end
  end

  always @(posedge clk) begin
    index_q <= index_d;
    if (hand_move) begin
      report_qpn_q <= hand_q;
      report_cause_q <= rung_q[hand_q] ? CAUSE_RUNG : torn_q[hand_q] ? CAUSE_TORN :
          store_q[hand_q] ? CAUSE_STORE : CAUSE_READ;
    end
  end

endmodule
