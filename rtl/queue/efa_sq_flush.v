// SPDX-License-Identifier: Apache-2.0
// efa_sq_flush - reports errors of send queues and sequences the flush of each halted queue.
//
// In    incomplete_, posted_, store_, read_ err: errors that halt a queue (SQ_HOST: store_ is a
//       failed read of a WQE); s_notice_*: the QP reached ERR for any reason; s_clear_*: a queue
//       restarts; s_ah_gone: an address handle was destroyed
// Out   halted_rd_*: the queue consumes and sends nothing, READERS readers; flush_ok_rd_*: it may be
//       flushed; scan_set_rd_*: m_scan flushes it, valid while m_scan_valid is high; m_qperr_* error
//       report; m_fence a fence behind all consumed WQEs, then m_scan flushes the unacknowledged
//       sends, then m_again and flush_ok_rd_data return the queue to the scheduler for flushing, so
//       completions keep the posting order; a destroyed address handle starts a round too, in which
//       m_scan flushes the sends through it
// Time  lookups: 1 cycle, with the events of the cycle of the address; a report within 2^QPN_W + 1
//       cycles while reports are accepted, one more for each cycle with a clear; a fence 2 cycles
//       after its notice, the context scan 1 after the fence has passed, then one queue per cycle is
//       returned: the next fence 2^QPN_W + 2 after the scan; queues that fail during a round are
//       served together by the next round; after rst 2^QPN_W cycles of initialisation, in which no
//       event occurs and every lookup returns 0
//
// A clear cancels an error that is not yet offered. A report that is offered stays; efa_qp_ctx
// decides on it. A queue is flushed once between two clears: a further notice starts a round, but
// the queue is not in it.
//
// Each event of a queue has two bits, each with one writer. The event makes its own bit different
// from the other bit, in the word of the queue. A visit of the queue, by its clear or by the report
// scan, makes the bit in the word equal. So no event stalls, whatever else occurs in the cycle.
//
// A notice stores the period in which it came. Each round begins a new period and serves the
// notices of the previous one. Its queues are flush_ok or cleared at its end, so no queue of a
// period is left when the period bit returns.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_sq_flush #(
    parameter QPN_W   = 6,
    parameter SQ_HOST = 0,
    parameter READERS = 2
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
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
    input wire [READERS*QPN_W-1:0] halted_rd_addr,
    output wire [READERS-1:0] halted_rd_data,
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

  localparam [QPN_W-1:0] ONE = 1;
  localparam [3:0] CAUSE_STORE = SQ_HOST != 0 ?
  `EFA_QP_ERROR__WQE_READ
  : `EFA_QP_ERROR__POSTED_STORE;
  localparam [2:0] ST_REQUEST = 3'd0;
  localparam [2:0] ST_FENCE = 3'd1;
  localparam [2:0] ST_PASS = 3'd2;
  localparam [2:0] ST_SCAN = 3'd3;
  localparam [2:0] ST_AGAIN = 3'd4;
  // Events with a queue: four errors in the order of their reports, and the notice.
  localparam EVENTS = 5;
  localparam NOTICE = 4;
  // The word of a queue: a bit for each event, one for flush_ok, and an error was reported since
  // the last clear.
  localparam WORD_W = 7;
  localparam FLUSH_OK = 5;
  localparam REPORTED = 6;

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg [QPN_W-1:0] index_q;
  reg [QPN_W-1:0] index_d;
  reg period_q;
  reg period_d;
  reg requested_q;  // a notice occurred since the last round began
  reg requested_d;
  reg handles_q;  // an address handle was destroyed since the last round began
  reg handles_d;

  reg init_q;  // the first pass of the scan pointer clears the tables
  reg [QPN_W-1:0] scan_q;
  reg report_q;
  reg [QPN_W-1:0] report_qpn_q;
  reg [3:0] report_cause_q;

  // e1: an event, the bit of the word read
  reg [EVENTS-1:0] e1_valid_q;
  reg [EVENTS*QPN_W-1:0] e1_qpn_q;
  reg [EVENTS-1:0] e1_seen_q;  // the word was written in the cycle of the read
  reg e1_repeats_q;  // a notice of the queue was written in the cycle of the read
  reg e1_period_q;

  // v1: a visited queue, its word and the bits of its events read; v2: the word last written
  reg v1_clear_q;
  reg [QPN_W-1:0] v1_clear_qpn_q;
  reg v1_again_q;  // the word was written in the cycle of the read
  reg [EVENTS-1:0] v1_late_q;  // the bit of the event was written in the cycle of the read
  reg [EVENTS-1:0] v1_now_q;  // the event occurred in the cycle of the read
  reg v1_flush_q;  // flush_ok was set in the cycle of the read
  reg v2_clear_q;
  reg [WORD_W-1:0] v2_word_q;

  // Lookups whose reads missed an event.
  reg [READERS-1:0] halted_forced_q;
  reg [READERS-1:0] halted_value_q;
  reg flush_ok_forced_q;
  reg flush_ok_value_q;
  reg set_cleared_q;

  // Bits read: for the readers of halted (from 1 on) and for the visit (0); for the reader of flush_ok
  // (2), the round (1) and the visit (0).
  wire [(READERS+1)*EVENTS-1:0] event_read;
  wire [EVENTS-1:0] seen_read;
  wire [(READERS+3)*WORD_W-1:0] word_read;
  wire [2:0] flush_read;
  wire own_notice;
  wire round_notice;
  wire round_period;

  wire [EVENTS-1:0] e0_valid = {
    s_notice_valid, s_read_err_valid, s_store_err_valid, s_incomplete_err_valid, s_posted_err_valid
  };
  wire [EVENTS*QPN_W-1:0] e0_qpn = {
    s_notice_qpn, s_read_err_qpn, s_store_err_qpn, s_incomplete_err_qpn, s_posted_err_qpn
  };

  // An event writes its bit; a notice of a queue that already has one writes nothing.
  wire [EVENTS-1:0] e1_seen = (e1_seen_q & v2_word_q[EVENTS-1:0]) | (~e1_seen_q & seen_read);
  wire e1_noticed = !(e1_seen_q[NOTICE] && v2_clear_q)
      && (e1_repeats_q || own_notice != seen_read[NOTICE]);
  wire [EVENTS-1:0] event_wr = {e1_valid_q[NOTICE] && !e1_noticed, e1_valid_q[NOTICE-1:0]};

  // The visit of a queue. Writes of the events precede it in the same cycle.
  wire [QPN_W-1:0] v1_qpn = v1_clear_q ? v1_clear_qpn_q : scan_q;
  wire [WORD_W-1:0] v1_read = word_read[0+:WORD_W];
  wire [WORD_W-1:0] v1_word = v1_again_q ? v2_word_q : v1_read;
  wire v1_cleared = v1_again_q && v2_clear_q;
  wire [3:0] v1_errors = v1_now_q[3:0]
      | ({4{!v1_again_q}} & (v1_late_q[3:0] | (event_read[3:0] ^ v1_read[3:0])));
  wire v1_noticed = v1_now_q[NOTICE]
      || (!v1_cleared && (v1_late_q[NOTICE] || event_read[NOTICE] != v1_read[NOTICE]));
  wire v1_flush_ok = !v1_cleared && (v1_flush_q || flush_read[0] != v1_read[FLUSH_OK]);
  wire scan_move = !report_q || m_qperr_ready;
  wire scan_step = scan_move && !v1_clear_q;
  wire found = !init_q && !v1_clear_q && v1_errors != 4'd0;
  wire word_wr = v1_clear_q || (scan_move && found);
  wire [WORD_W-1:0] word_new = {
    !v1_clear_q,
    v1_word[FLUSH_OK] ^ (v1_clear_q && v1_flush_ok),
    v1_word[NOTICE] ^ (v1_clear_q && v1_noticed),
    v1_word[3:0] ^ v1_errors
  };
  wire [QPN_W-1:0] scan_d = scan_step ? scan_q + ONE : scan_q;
  wire [QPN_W-1:0] v0_qpn = s_clear_valid ? s_clear_qpn : scan_d;

  // The queue at the index, or that of the context scan, is in the round.
  wire returning = state_q == ST_AGAIN || (state_q == ST_SCAN && m_scan_ready);
  wire [QPN_W-1:0] set_addr = returning ? index_d : scan_set_rd_addr;
  wire [WORD_W-1:0] set_word = word_read[WORD_W+:WORD_W];
  wire in_round = !set_cleared_q && round_notice != set_word[NOTICE] && round_period != period_q
      && flush_read[1] == set_word[FLUSH_OK];
  wire returned = m_again_valid && m_again_ready;

  wire [WORD_W-1:0] flush_word = word_read[2*WORD_W+:WORD_W];

  assign m_init_done = !init_q;
  assign flush_ok_rd_data =
      flush_ok_forced_q ? flush_ok_value_q : flush_read[2] != flush_word[FLUSH_OK];
  assign scan_set_rd_data = in_round;
  assign m_qperr_valid = report_q;
  assign m_qperr_qpn = report_qpn_q;
  assign m_qperr_cause = report_cause_q;
  assign m_fence_valid = state_q == ST_FENCE;
  assign m_scan_valid = state_q == ST_SCAN;
  assign m_again_valid = state_q == ST_AGAIN && in_round;
  assign m_again_qpn = index_q;

  // The tables have no contents yet.
  wire blank = rst || init_q;

  // Collisions of the addresses of this cycle with the events and visits in progress.
  reg [EVENTS-1:0] e0_seen;
  reg [EVENTS-1:0] v0_late;
  reg [EVENTS-1:0] v0_now;
  reg [READERS-1:0] halts_now;
  reg [READERS-1:0] halts_late;
  reg [READERS-1:0] clears_now;
  reg [READERS-1:0] clears_late;
  integer e;
  integer r;
  always @* begin
    halts_now  = {READERS{1'b0}};
    halts_late = {READERS{1'b0}};
    for (e = 0; e < EVENTS; e = e + 1) begin
      e0_seen[e] = word_wr && v1_qpn == e0_qpn[QPN_W*e+:QPN_W];
      v0_late[e] = e1_valid_q[e] && e1_qpn_q[QPN_W*e+:QPN_W] == v0_qpn;
      v0_now[e]  = e0_valid[e] && e0_qpn[QPN_W*e+:QPN_W] == v0_qpn;
      for (r = 0; r < READERS; r = r + 1) begin
        if (e0_valid[e] && e0_qpn[QPN_W*e+:QPN_W] == halted_rd_addr[QPN_W*r+:QPN_W]) begin
          halts_now[r] = 1'b1;
        end
        if (e1_valid_q[e] && e1_qpn_q[QPN_W*e+:QPN_W] == halted_rd_addr[QPN_W*r+:QPN_W]) begin
          halts_late[r] = 1'b1;
        end
      end
    end
    for (r = 0; r < READERS; r = r + 1) begin
      clears_now[r]  = s_clear_valid && s_clear_qpn == halted_rd_addr[QPN_W*r+:QPN_W];
      clears_late[r] = v1_clear_q && v1_clear_qpn_q == halted_rd_addr[QPN_W*r+:QPN_W];
    end
  end
  wire flush_now = m_again_valid && index_q == flush_ok_rd_addr;
  wire flush_cleared_now = s_clear_valid && s_clear_qpn == flush_ok_rd_addr;
  wire flush_cleared_late = v1_clear_q && v1_clear_qpn_q == flush_ok_rd_addr;

  always @* begin
    state_d = state_q;
    index_d = index_q;
    period_d = period_q;
    requested_d = requested_q;
    handles_d = handles_q;
    case (state_q)
      // Waits for a queue in ERR or a destroyed address handle.
      ST_REQUEST: begin
        index_d = {QPN_W{1'b0}};
        if (handles_q || requested_q) begin
          requested_d = 1'b0;
          handles_d = 1'b0;
          period_d = !period_q;
          state_d = ST_FENCE;
        end
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
        if (!m_again_valid || m_again_ready) begin
          index_d = index_q + ONE;
          if (&index_q) state_d = ST_REQUEST;
        end
      end
      default: begin
        state_d = ST_REQUEST;
      end
    endcase
    if (s_notice_valid && !(s_clear_valid && s_clear_qpn == s_notice_qpn)) requested_d = 1'b1;
    if (s_ah_gone) handles_d = 1'b1;
  end

  genvar g;
  genvar h;
  generate
    for (g = 0; g < EVENTS; g = g + 1) begin : g_event
      wire [READERS:0] copies;
      for (h = 0; h <= READERS; h = h + 1) begin : g_copy
        assign event_read[EVENTS*h+g] = copies[h];
      end

      efa_ram_1wnr #(
          .WIDTH (1),
          .ADDR_W(QPN_W),
          .READS (READERS + 1)
      ) u_event (
          .clk(clk),
          .wr_en(init_q || event_wr[g]),
          .wr_addr(init_q ? scan_q : e1_qpn_q[QPN_W*g+:QPN_W]),
          .wr_data(!init_q && !e1_seen[g]),
          .rd_addr({halted_rd_addr, v0_qpn}),
          .rd_data(copies)
      );

      // The bit of the word, for the event.
      efa_ram #(
          .WIDTH (1),
          .ADDR_W(QPN_W)
      ) u_seen (
          .clk(clk),
          .wr_en(init_q || word_wr),
          .wr_addr(v1_qpn),
          .wr_data(!init_q && word_new[g]),
          .rd_en(1'b1),
          .rd_addr(e0_qpn[QPN_W*g+:QPN_W]),
          .rd_data(seen_read[g])
      );
    end
    for (g = 0; g < READERS; g = g + 1) begin : g_halted
      wire [EVENTS-1:0] events = event_read[EVENTS*(g+1)+:EVENTS];
      wire [WORD_W-1:0] word = word_read[WORD_W*(g+3)+:WORD_W];
      assign halted_rd_data[g] = halted_forced_q[g] ? halted_value_q[g]
          : word[REPORTED] || events != word[EVENTS-1:0];

      wire unused_flush_ok = &{1'b0, word[FLUSH_OK]};
    end
  endgenerate

  // The notice once more: for the notice itself, and with its period for the round.
  efa_ram #(
      .WIDTH (1),
      .ADDR_W(QPN_W)
  ) u_own_notice (
      .clk(clk),
      .wr_en(init_q || event_wr[NOTICE]),
      .wr_addr(init_q ? scan_q : e1_qpn_q[QPN_W*NOTICE+:QPN_W]),
      .wr_data(!init_q && !e1_seen[NOTICE]),
      .rd_en(1'b1),
      .rd_addr(s_notice_qpn),
      .rd_data(own_notice)
  );

  efa_ram #(
      .WIDTH (2),
      .ADDR_W(QPN_W)
  ) u_round_notice (
      .clk(clk),
      .wr_en(init_q || event_wr[NOTICE]),
      .wr_addr(init_q ? scan_q : e1_qpn_q[QPN_W*NOTICE+:QPN_W]),
      .wr_data(init_q ? 2'b00 : {e1_period_q, !e1_seen[NOTICE]}),
      .rd_en(1'b1),
      .rd_addr(set_addr),
      .rd_data({round_period, round_notice})
  );

  // A queue of the round has had no clear since its notice, so the read of its word missed no write.
  efa_ram_1wnr #(
      .WIDTH (1),
      .ADDR_W(QPN_W),
      .READS (3)
  ) u_flush_ok (
      .clk(clk),
      .wr_en(init_q || returned),
      .wr_addr(init_q ? scan_q : index_q),
      .wr_data(!init_q && !set_word[FLUSH_OK]),
      .rd_addr({flush_ok_rd_addr, set_addr, v0_qpn}),
      .rd_data(flush_read)
  );

  efa_ram_1wnr #(
      .WIDTH (WORD_W),
      .ADDR_W(QPN_W),
      .READS (READERS + 3)
  ) u_word (
      .clk(clk),
      .wr_en(init_q || word_wr),
      .wr_addr(v1_qpn),
      .wr_data(init_q ? {WORD_W{1'b0}} : word_new),
      .rd_addr({halted_rd_addr, flush_ok_rd_addr, set_addr, v0_qpn}),
      .rd_data(word_read)
  );

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_REQUEST;
      period_q <= 1'b0;
      requested_q <= 1'b0;
      handles_q <= 1'b0;
      init_q <= 1'b1;
      scan_q <= {QPN_W{1'b0}};
      report_q <= 1'b0;
      e1_valid_q <= {EVENTS{1'b0}};
      v1_clear_q <= 1'b0;
    end else begin
      state_q <= state_d;
      period_q <= period_d;
      requested_q <= requested_d;
      handles_q <= handles_d;
      if (&scan_q) init_q <= 1'b0;
      scan_q <= scan_d;
      if (scan_move) report_q <= found && !(s_clear_valid && s_clear_qpn == scan_q);
      e1_valid_q <= e0_valid;
      v1_clear_q <= s_clear_valid;
    end
  end

  always @(posedge clk) begin
    index_q <= index_d;
    if (scan_move) begin
      report_qpn_q <= scan_q;
      report_cause_q <= v1_errors[0] ? `EFA_QP_ERROR__SQ_DOORBELL
          : v1_errors[1] ? `EFA_QP_ERROR__INCOMPLETE_WQE :
          v1_errors[2] ? CAUSE_STORE : `EFA_QP_ERROR__PAYLOAD_READ;
    end
    e1_qpn_q <= e0_qpn;
    e1_seen_q <= e0_seen;
    e1_repeats_q <= e1_valid_q[NOTICE] && e1_qpn_q[QPN_W*NOTICE+:QPN_W] == s_notice_qpn;
    e1_period_q <= period_d;
    v1_clear_qpn_q <= s_clear_qpn;
    v1_again_q <= word_wr && v1_qpn == v0_qpn;
    v1_late_q <= v0_late;
    v1_now_q <= v0_now;
    v1_flush_q <= returned && index_q == v0_qpn;
    v2_clear_q <= v1_clear_q;
    v2_word_q <= word_new;
    halted_forced_q <= {READERS{blank}} | clears_now | halts_now | clears_late | halts_late;
    halted_value_q <= {READERS{!blank}} & ~clears_now & (halts_now | ~clears_late);
    flush_ok_forced_q <= blank || flush_cleared_now || flush_now || flush_cleared_late;
    flush_ok_value_q <= !blank && !flush_cleared_now && flush_now;
    set_cleared_q <= blank || (s_clear_valid && s_clear_qpn == set_addr)
        || (v1_clear_q && v1_clear_qpn_q == set_addr);
  end

  wire unused_word = &{1'b0, flush_word, set_word};

  `EFA_CHECK(!init_q || !(s_clear_valid || e0_valid != {EVENTS{1'b0}}),
             "event before the end of the initialisation")

endmodule

`default_nettype wire
