// SPDX-License-Identifier: Apache-2.0
// efa_sq_sched - schedules send queues and consumes their WQEs in order, by deficit round robin.
//
// In    s_work_* queues with a new doorbell; s_again queues to schedule again; s_fence requests a
//       fence; s_clear_* a queue that restarts, without a WQE in flight, its context live from the
//       third cycle after on; contexts, LLQ lines;
//       prod_rd_data, consumed_rd_data, completed_rd_data, halted_rd_data, flush_ok_rd_data: counts
//       of the queue of qpc_rd_addr, whether it is halted and may be flushed, one cycle later;
//       s_credit_*: message contexts freed
// Out   m_item WQEs and fences (EFA_WQE_IN); m_next_data: the item after m_item; m_consumed_* the new consumed count of a queue;
//       m_incomplete_*: an incomplete WQE; m_sends_open: message contexts in use or reserved, for
//       efa_perf_counters; m_void: lines of an incomplete WQE, to be marked as of its wrap
// Time  one 64-byte WQE per cycle, a 128-byte WQE in two; first WQE 3 cycles after its queue got
//       work (of 128 bytes: 4); the WQE of the next queue follows in the cycle after the last one;
//       a second visit to one queue 3 cycles later; all stages stall while m_item_ready is low and
//       in the cycle of a clear, which is always accepted
//
// The quantum is TURN flits, a tenth of QUANTUM. The last message of a visit may overrun its
// quantum. The overrun is carried as a deficit and deducted from later quanta. With F flits in the
// longest message, the flits that two queues with permanent work send over any time differ by at
// most TURN + 2 * (F - 1): 1 % of 100 * QUANTUM flits for F = 65. A queue without competitors has
// no deficit and is not delayed. A queue that may send (SRD: that gets a context) has a WQE
// consumed after at most R = 1 + floor((F - 1) / TURN) quanta of each other queue, within 2^QPN_W *
// R * (2 * TURN + 6) cycles in which the next stage accepts the offer; cycles with a fence, a clear
// or s_again do not count. Proven: formal/sq_sched.yaml.
//
// An SRD WQE is consumed only with a message context reserved for it. A queue without
// acknowledgements therefore never blocks other queues behind this stage. Nor does it use up the
// contexts: 2^MSG_W are shared, and GUARANTEED are for queues without an open send, one for each.
// The room of a queue is the number of free shared ones, less one for each 2^SHARE_W of its open
// sends. It gets shared ones while it has room, and at most half of the room in a visit.
//
// SQ_HOST: lines are fetched from host memory; a WQE with a line that failed has no request id.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_sq_sched #(
    parameter QPN_W   = 6,
    parameter LLQ_AW  = 21,
    parameter QUANTUM = 160,
    parameter SQ_HOST = 0
) (
    input wire clk,
    input wire rst,
    input wire s_work_valid,
    input wire [QPN_W-1:0] s_work_qpn,
    input wire s_again_valid,
    output wire s_again_ready,
    input wire [QPN_W-1:0] s_again_qpn,
    input wire s_fence_valid,
    output wire s_fence_ready,
    input wire s_fence_id,
    input wire s_clear_valid,
    input wire [QPN_W-1:0] s_clear_qpn,
    input wire s_credit_freed,
    input wire s_credit_unused,
    output wire [QPN_W-1:0] qpc_rd_addr,
    input wire [`EFA_QPC__W-1:0] qpc_rd_data,
    input wire halted_rd_data,
    input wire flush_ok_rd_data,
    input wire [15:0] prod_rd_data,
    input wire [15:0] consumed_rd_data,
    input wire [15:0] completed_rd_data,
    output wire m_consumed_valid,
    output wire [QPN_W-1:0] m_consumed_qpn,
    output wire [15:0] m_consumed_count,
    output wire line_rd_en,
    output wire [LLQ_AW-6-1:0] line_rd_addr,
    input wire [511:0] line_rd_data,
    input wire [15:0] line_rd_parity,
    output wire m_void_valid,
    input wire m_void_ready,
    output wire [LLQ_AW-6-1:0] m_void_line,
    output wire m_void_parity,
    output wire m_incomplete_valid,
    output wire [QPN_W-1:0] m_incomplete_qpn,
    output wire m_item_valid,
    input wire m_item_ready,
    output wire [`EFA_WQE_IN__W-1:0] m_item_data,
    output wire [`EFA_WQE_IN__W-1:0] m_next_data,
    output wire [`EFA_LIMITS__MSG_W:0] m_sends_open,
    output wire ev_wqe_valid,
    output wire [63:0] ev_wqe_data
);

  localparam LINE_W = LLQ_AW - 6;
  localparam TURN = QUANTUM / 10;
  localparam BATCH = 64;  // most WQEs per visit
  localparam [15:0] LIMIT = BATCH;
  localparam MSG_W = `EFA_LIMITS__MSG_W;
  localparam FREE_W = MSG_W + 2;  // a signed number of contexts
  localparam signed [FREE_W-1:0] SHARED = 1 << MSG_W;
  localparam signed [FREE_W-1:0] GUARANTEED = `EFA_TRANSPORT__GUARANTEED_SENDS;
  localparam SHARE_W = `EFA_TRANSPORT__SEND_SHARE_W;
  localparam signed [FREE_W-1:0] ZERO = 0;
  localparam signed [FREE_W-1:0] ONE = 1;
  localparam FLIT_W = 8;
  localparam signed [FLIT_W+1:0] QUANTUM_FLITS = TURN;
  // Dwords with the upper bits of a request id: the last two of the meta descriptor.
  localparam ID_HIGH = `EFA_IO_TX_META_DESC__BYTES / 4 - 1;
  localparam ID_LOW = ID_HIGH - 1;
  localparam [13:0] LONGEST = `EFA_LIMITS__MAX_MTU;
  localparam [13:0] ROUND_UP = `EFA_PKT_HDR__BYTES + 63;

  // p: the next queue; its context, indices and first line are read again every cycle, its deficit once
  reg p_valid_q;
  reg [QPN_W-1:0] p_qpn_q;
  reg p_written_q;  // its deficit was written while it waited
  reg [FLIT_W-1:0] p_written_deficit_q;

  // a: the rest of the visit, one line per cycle
  reg a_valid_q;
  reg [QPN_W-1:0] a_qpn_q;
  reg [`EFA_QPC__W-1:0] a_qpc_q;
  reg [LINE_W-1:0] a_ring_q;  // mask of its ring's slots
  reg a_flush_q;
  reg a_over_q;  // more WQEs than this visit consumes
  reg a_second_q;
  reg [15:0] a_count_q;
  reg [6:0] a_left_q;
  reg a_credit_q;  // a_left_q contexts are reserved

  // Shared message contexts neither in use nor reserved for a visit; below 0, as many guaranteed
  // ones are.
  reg signed [FREE_W-1:0] shared_q;
  assign m_sends_open = SHARED[MSG_W:0] - shared_q[MSG_W:0];

  // s1: line read
  reg s1_valid_q;
  reg s1_deducts_q;  // no line; the visit only reduces the deficit
  reg s1_first_q;  // first WQE of its visit
  reg s1_second_q;
  reg [QPN_W-1:0] s1_qpn_q;
  reg [`EFA_QPC__W-1:0] s1_qpc_q;
  reg s1_flush_q;
  reg s1_credit_q;
  reg [15:0] s1_count_q;
  reg signed [FLIT_W+1:0] s1_quantum_q;  // flits that the visit may send

  // The first half of a 128-byte WQE.
  reg [511:0] half_data_q;
  reg half_complete_q;
  reg half_head_q;
  reg [1:0] half_ids_q;
  reg [FLIT_W-1:0] half_flits_q;

  // An incomplete line.
  reg [LINE_W-1:0] s1_line_q;
  reg void_valid_q;
  reg [LINE_W-1:0] void_line_q;
  reg void_parity_q;

  // c: a consumed WQE is deducted from its visit; d: a deficit is in the RAM a cycle later
  reg c_valid_q;
  reg [QPN_W-1:0] c_qpn_q;
  reg signed [FLIT_W+1:0] c_left_q;  // flits left of the visit after the deduction
  reg signed [FLIT_W+1:0] left_q;
  reg d_valid_q;
  reg d_clear_q;  // by a clear
  reg [QPN_W-1:0] d_qpn_q;
  reg [FLIT_W-1:0] d_deficit_q;

  // A clear one cycle ago. No WQE was consumed in its cycle, so the deficit RAM is free.
  reg clear_q;
  reg [QPN_W-1:0] clear_qpn_q;

  // The phase bit of the queue at s1, written in the cycle of its read.
  reg s1_taught_now_q;
  reg s1_phase_now_q;

  wire out_ready;
  wire move = out_ready && (!void_valid_q || m_void_ready) && !s_clear_valid;

  wire again_ready;
  wire next_valid;
  wire next_ready;
  wire [QPN_W-1:0] next_qpn;

  // The quantum of the visit is used up while other queues wait.
  wire c_spent = c_left_q <= 0;
  wire c_others = next_valid || (p_valid_q && p_qpn_q != c_qpn_q);
  wire c_ends = c_valid_q && c_spent && c_others;
  wire [FLIT_W+1:0] c_owed = -c_left_q;
  wire signed [FLIT_W+1:0] left = !c_valid_q ? left_q : c_spent ? QUANTUM_FLITS : c_left_q;
  wire [FLIT_W-1:0] c_deficit = c_spent ? c_owed[FLIT_W-1:0] : {FLIT_W{1'b0}};
  wire [QPN_W-1:0] written_qpn = clear_q ? clear_qpn_q : c_qpn_q;
  wire [FLIT_W-1:0] written_deficit = clear_q ? {FLIT_W{1'b0}} : c_deficit;
  // WQEs read beyond the quantum are not consumed.
  wire kill_s1 = c_ends && s1_valid_q && s1_qpn_q == c_qpn_q;
  wire kill_a = c_ends && a_valid_q && a_qpn_q == c_qpn_q;
  wire kill = kill_s1 || kill_a;
  wire go = move && !kill && !s_again_valid;

  // The indices or the deficit of queue p are still being written.
  wire p_late = (a_valid_q && a_qpn_q == p_qpn_q) || ((s1_valid_q || s1_deducts_q) && s1_qpn_q == p_qpn_q)
      || (c_valid_q && c_qpn_q == p_qpn_q) || (d_valid_q && !d_clear_q && d_qpn_q == p_qpn_q);
  wire p_go = p_valid_q && !a_valid_q && !p_late && go;
  wire [15:0] p_consumed = consumed_rd_data;
  wire [FLIT_W-1:0] p_read_deficit;
  wire [FLIT_W-1:0] p_deficit = p_written_q ? p_written_deficit_q : p_read_deficit;
  wire [15:0] p_waiting = prod_rd_data - p_consumed;
  wire p_wide = qpc_rd_data[`EFA_QPC__WQE128];
  wire p_run = qpc_rd_data[`EFA_QPC__STATE] == `EFA_ADMIN_QP_STATE__RTS_W3 && !halted_rd_data;
  wire p_flush = halted_rd_data && flush_ok_rd_data;
  wire p_may = qpc_rd_data[`EFA_QPC__LIVE] && (p_run || p_flush) && p_waiting != 16'd0;
  wire p_counts = qpc_rd_data[`EFA_QPC__SRD] && !halted_rd_data;
  wire [15:0] p_open = p_consumed - completed_rd_data;
  wire signed [16:0] p_room = {{17 - FREE_W{shared_q[FREE_W-1]}}, shared_q} - $signed(
      {1'b0, p_open >> SHARE_W});
  wire p_shares = p_room > 17'sd0;
  wire p_guaranteed = p_consumed == completed_rd_data && shared_q != -GUARANTEED;
  wire p_stalls = p_counts && !p_shares && !p_guaranteed;
  wire p_deducts = next_valid && p_deficit >= QUANTUM_FLITS[FLIT_W-1:0];
  wire p_take = p_may && !p_stalls && !p_deducts;
  wire [15:0] p_half = p_room[16:1];
  // At most as many WQEs as a visit may have, half of the room, or one.
  wire p_full = !p_counts || (p_shares && p_half >= LIMIT);
  wire p_halves = p_shares && p_half != 16'd0;
  wire [6:0] p_limit = p_full ? LIMIT[6:0] : p_halves ? p_half[6:0] : 7'd1;
  // Twice the waiting WQEs exceed the room: known as early as the room, without the limit.
  wire signed [17:0] p_excess = $signed({10'd0, p_waiting[6:0], 1'b0}) - {{18 - FREE_W{shared_q[FREE_W-1]}}, shared_q}
      - 18'sd1 + $signed({2'd0, p_open >> SHARE_W});
  wire p_over = p_waiting[15:7] != 9'd0
      || (p_full ? p_waiting[6:0] > LIMIT[6:0] : p_halves ? !p_excess[17] : p_waiting[6:0] > 7'd1);
  // Both cases are computed before it is known which one holds.
  wire [6:0] p_over_left = p_wide ? p_limit : p_limit - 7'd1;
  wire [6:0] p_all_left = p_wide ? p_waiting[6:0] : p_waiting[6:0] - 7'd1;
  // p_limit is 1, known without the comparison of the room with LIMIT.
  wire p_least = p_counts && p_room < 17'sd4;
  wire p_one = p_waiting == 16'd1 || p_least;
  wire signed [FLIT_W+1:0] p_quantum = QUANTUM_FLITS - (next_valid ? $signed({2'b00, p_deficit}) : 10'sd0);

  wire a_wide = a_qpc_q[`EFA_QPC__WQE128];
  wire a_entry_end = a_second_q || !a_wide;
  wire a_last = a_entry_end && a_left_q == 7'd1;
  wire a_issue = a_valid_q && go;

  // Back into the set: visits cut short, queues that may not continue, queues with WQEs left. Only a
  // visit cut short meets s_again, which waits then.
  wire put = kill || (a_issue && a_last && a_over_q)
      || (p_go && p_may && (p_stalls || p_deducts || (p_least && p_waiting[15:1] != 15'd0 && !p_wide)));
  wire [QPN_W-1:0] put_qpn = kill ? c_qpn_q : a_valid_q ? a_qpn_q : p_qpn_q;

  // A fence waits until all scheduled WQEs were consumed; no further queue is scheduled meanwhile.
  wire empty = !p_valid_q && !a_valid_q && !s1_valid_q;
  wire fence_go = s_fence_valid && empty && move;

  wire s1_wide = s1_qpc_q[`EFA_QPC__WQE128];
  wire s1_parity = s1_count_q[s1_qpc_q[`EFA_QPC__SQ_LOG]];
  wire s1_complete = line_rd_parity == {16{s1_parity}};
  wire s1_head = line_rd_parity[0] == s1_parity;
  wire [1:0] s1_ids = line_rd_parity[ID_HIGH:ID_LOW] ~^ {2{s1_parity}};
  wire s1_end = s1_valid_q && (s1_second_q || !s1_wide);
  wire head = s1_wide ? half_head_q && (SQ_HOST == 0 || s1_head) : s1_head;
  wire [1:0] ids = !s1_wide ? s1_ids : half_ids_q & {2{SQ_HOST == 0 || s1_head}};
  wire incomplete = !s1_complete || (s1_wide && !half_complete_q);
  wire [511:0] front = s1_wide ? half_data_q : line_rd_data;
  wire [47:0] long_id = front[`EFA_IO_TX_WQE__META__REQ_ID_EX];
  wire commit = s1_end && move && !kill_s1;
  // An incomplete WQE halts its queue: later WQEs of this visit are not consumed.
  wire broken = commit && incomplete && !s1_flush_q;
  wire drop_a = broken && a_valid_q && a_qpn_q == s1_qpn_q;

  // Flits of the message of this line; 1 if it cannot be sent.
  wire [15:0] s1_meta = line_rd_data[`EFA_IO_TX_WQE__META__LENGTH];
  wire s1_inlined = line_rd_data[`EFA_IO_TX_WQE__META__INLINE_MSG];
  wire [31:0] s1_len0 = s1_inlined ? {16'd0, s1_meta}
      : s1_meta == 16'd0 ? 32'd0 : line_rd_data[`EFA_IO_TX_WQE__DATA__SGL__0__LENGTH];
  wire [31:0] s1_len1 = s1_inlined || s1_meta[15:1] == 15'd0 ? 32'd0
      : line_rd_data[`EFA_IO_TX_WQE__DATA__SGL__1__LENGTH];
  wire s1_long = (s1_len0 | s1_len1) >> 13 != 32'd0;
  wire [13:0] s1_bytes = {1'b0, s1_len0[12:0]} + {1'b0, s1_len1[12:0]};
  wire [13:0] s1_padded = s1_bytes + ROUND_UP;
  wire [FLIT_W-1:0] s1_flits = s1_long || s1_bytes > LONGEST ? 8'd1 : s1_padded[13:6];

  wire [FLIT_W-1:0] consumed_flits =
      s1_deducts_q ? 8'd0 : incomplete || s1_flush_q ? 8'd1 : s1_wide ? half_flits_q : s1_flits;

  // Contexts that a visit reserves, and contexts that it returns when cut short. Each sum is computed
  // before it is known which one holds.
  wire spend = p_go && p_take && p_counts;
  wire back_a = (kill_a || drop_a) && a_credit_q;
  wire back_one = kill_s1 && s1_end && s1_credit_q;
  wire signed [FREE_W-1:0] freed = shared_q + (s_credit_freed ? ONE : ZERO) + (s_credit_unused ? ONE : ZERO);
  wire signed [FREE_W-1:0] freed_a = freed + {{FREE_W - 7{1'b0}}, a_left_q};
  wire signed [FREE_W-1:0] returned = back_a ? (back_one ? freed_a + ONE : freed_a) : back_one ? freed + ONE : freed;
  wire signed [FREE_W-1:0] over_spent = freed - {{FREE_W - 7{1'b0}}, p_limit};
  wire signed [FREE_W-1:0] all_spent = freed - {{FREE_W - 7{1'b0}}, p_waiting[6:0]};

  // Address of the next line to read.
  wire [LINE_W-1:0] p_ring = ~({LINE_W{1'b1}} << qpc_rd_data[`EFA_QPC__SQ_LOG]);
  wire [LINE_W-1:0] p_slot = p_consumed[LINE_W-1:0] & p_ring;
  wire [LINE_W-1:0] a_slot = a_count_q[LINE_W-1:0] & a_ring_q;
  wire [LINE_W-1:0] p_lines = p_wide ? {p_slot[LINE_W-2:0], 1'b0} : p_slot;
  wire [LINE_W-1:0] a_lines = a_wide ? {a_slot[LINE_W-2:0], a_second_q} : a_slot;
  wire [19:0] p_base = qpc_rd_data[`EFA_QPC__SQ_LINE];
  wire [19:0] a_base = a_qpc_q[`EFA_QPC__SQ_LINE];

  reg [`EFA_WQE_IN__W-1:0] item;
  always @* begin
    item = {`EFA_WQE_IN__W{1'b0}};
    if (fence_go) begin
      item[`EFA_WQE_IN__BARRIER] = 1'b1;
      item[`EFA_WQE_IN__FENCE] = s_fence_id;
    end else begin
      item[`EFA_WQE_IN__FLUSH] = s1_flush_q;
      item[`EFA_WQE_IN__INCOMPLETE] = incomplete;
      item[`EFA_WQE_IN__QPN] = {{12 - QPN_W{1'b0}}, s1_qpn_q};
      item[`EFA_WQE_IN__MSG] = s1_count_q;
      item[`EFA_WQE_IN__SRD] = s1_qpc_q[`EFA_QPC__SRD];
      item[`EFA_WQE_IN__PD] = s1_qpc_q[`EFA_QPC__PD];
      item[`EFA_WQE_IN__QP_NUM] = s1_qpc_q[`EFA_QPC__QP_NUM];
      item[`EFA_WQE_IN__SCQN] = s1_qpc_q[`EFA_QPC__SCQN];
      item[`EFA_WQE_IN__SSUB] = s1_qpc_q[`EFA_QPC__SSUB];
      item[`EFA_WQE_IN__WQE128] = s1_wide;
      item[`EFA_WQE_IN__RNR_RETRY] = s1_qpc_q[`EFA_QPC__RNR_RETRY];
      if (head) begin
        item[`EFA_WQE_IN__REQ_ID]  = front[`EFA_IO_TX_WQE__META__REQ_ID];
        item[`EFA_WQE_IN__OP_TYPE] = front[`EFA_IO_TX_WQE__META__OP_TYPE];
      end
      if (s1_qpc_q[`EFA_QPC__LONG_ID]) begin
        item[`EFA_WQE_IN__REQ_ID_EX] = long_id & {{32{ids[1]}}, {16{ids[0]}}};
      end
      item[`EFA_WQE_IN__ENTRY] = {line_rd_data, front};
    end
  end

  wire s1_phase = front[`EFA_IO_TX_WQE__META__PHASE] ^ s1_parity;
  wire s1_reports = !incomplete && !s1_flush_q;
  // Phase bit of the first complete WQE after a clear, normalised to wrap 0.
  wire taught_read;
  wire phase_read;
  wire s1_taught = s1_taught_now_q || taught_read;
  wire s1_taught_phase = s1_taught_now_q ? s1_phase_now_q : phase_read;
  wire s1_wrong_phase = s1_reports && s1_taught && s1_taught_phase != s1_phase;
  wire teach = commit && s1_reports && !s1_taught;
  wire [QPN_W-1:0] line_qpn = a_valid_q ? a_qpn_q : p_qpn_q;

  reg [63:0] event_data;
  always @* begin
    event_data = 64'd0;
    event_data[`EFA_EV_WQE__QPN] = item[`EFA_WQE_IN__QPN];
    event_data[`EFA_EV_WQE__MSG] = item[`EFA_WQE_IN__MSG];
    event_data[`EFA_EV_WQE__REQ_ID] = item[`EFA_WQE_IN__REQ_ID];
    event_data[`EFA_EV_WQE__WRONG_PHASE] = s1_wrong_phase;
  end

  assign next_ready = (!p_valid_q || p_go) && !s_fence_valid;
  assign s_again_ready = again_ready && !kill;
  assign s_fence_ready = fence_go;
  assign qpc_rd_addr = p_valid_q && !p_go ? p_qpn_q : next_qpn;
  assign m_consumed_valid = commit;
  assign m_consumed_qpn = s1_qpn_q;
  assign m_consumed_count = s1_count_q + 16'd1;
  assign line_rd_en = move;
  assign line_rd_addr = a_valid_q ? a_base[LINE_W-1:0] + a_lines : p_base[LINE_W-1:0] + p_lines;
  assign m_void_valid = void_valid_q;
  assign m_void_line = void_line_q;
  assign m_void_parity = void_parity_q;
  assign m_incomplete_valid = broken;
  assign m_incomplete_qpn = s1_qpn_q;
  assign ev_wqe_valid = commit;
  assign ev_wqe_data = event_data;

  efa_sq_rr #(
      .QPN_W(QPN_W)
  ) u_set (
      .clk(clk),
      .rst(rst),
      .s_now_valid(s_work_valid),
      .s_now_qpn(s_work_qpn),
      .s_valid(put || s_again_valid),
      .s_ready(again_ready),
      .s_qpn(kill || !s_again_valid ? put_qpn : s_again_qpn),
      .m_valid(next_valid),
      .m_ready(next_ready),
      .m_qpn(next_qpn)
  );

  efa_ram #(
      .WIDTH (FLIT_W),
      .ADDR_W(QPN_W)
  ) u_deficit (
      .clk(clk),
      .wr_en(c_valid_q || clear_q),
      .wr_addr(written_qpn),
      .wr_data(written_deficit),
      .rd_en(next_ready),
      .rd_addr(next_qpn),
      .rd_data(p_read_deficit)
  );

  // A clear and a commit never fall into the same cycle.
  efa_ram #(
      .WIDTH (2),
      .ADDR_W(QPN_W)
  ) u_phase (
      .clk(clk),
      .wr_en(teach || s_clear_valid),
      .wr_addr(s_clear_valid ? s_clear_qpn : s1_qpn_q),
      .wr_data({s1_phase, !s_clear_valid}),
      .rd_en(move),
      .rd_addr(line_qpn),
      .rd_data({phase_read, taught_read})
  );

  efa_skid #(
      .WIDTH(`EFA_WQE_IN__W)
  ) u_out (
      .clk(clk),
      .rst(rst),
      .s_valid(commit || fence_go),
      .s_ready(out_ready),
      .s_data(item),
      .m_valid(m_item_valid),
      .m_ready(m_item_ready),
      .m_data(m_item_data),
      .m_next_data(m_next_data)
  );

  always @(posedge clk) begin
    if (rst) begin
      p_valid_q  <= 1'b0;
      a_valid_q  <= 1'b0;
      s1_valid_q <= 1'b0;
      s1_deducts_q  <= 1'b0;
      c_valid_q  <= 1'b0;
      d_valid_q  <= 1'b0;
      clear_q    <= 1'b0;
      void_valid_q <= 1'b0;
      shared_q   <= SHARED;
    end else begin
      shared_q <= !spend ? returned : p_over ? over_spent : all_spent;
      if (!p_valid_q || p_go) p_valid_q <= next_valid && next_ready;
      if (p_go) a_valid_q <= p_take && (p_wide || !p_one);
      else if (kill_a || drop_a || (a_issue && a_last)) a_valid_q <= 1'b0;
      if (move) begin
        s1_valid_q <= (p_go && p_take) || (a_issue && !drop_a);
        s1_deducts_q  <= p_go && p_may && p_deducts && !p_stalls;
      end else if (kill_s1) begin
        s1_valid_q <= 1'b0;
      end
      c_valid_q <= commit || (s1_deducts_q && move);
      d_valid_q <= c_valid_q || clear_q;
      clear_q <= s_clear_valid;
      if (move) void_valid_q <= s1_valid_q && !s1_complete && !kill_s1;
      else if (m_void_ready) void_valid_q <= 1'b0;
    end
  end

  always @(posedge clk) begin
    if (next_valid && next_ready) p_qpn_q <= next_qpn;
    // A queue whose deficit was written by a WQE one cycle ago does not begin its visit (p_late).
    if (next_ready) p_written_q <= 1'b0;
    else if (d_valid_q && d_qpn_q == p_qpn_q) p_written_q <= 1'b1;
    if (d_valid_q && d_qpn_q == p_qpn_q) p_written_deficit_q <= d_deficit_q;
    if (p_go) begin
      a_qpn_q <= p_qpn_q;
      a_qpc_q <= qpc_rd_data;
      a_ring_q <= p_ring;
      a_flush_q <= p_flush;
      a_second_q <= p_wide;
      a_count_q <= p_wide ? p_consumed : p_consumed + 16'd1;
      a_left_q <= p_over ? p_over_left : p_all_left;
      a_credit_q <= p_counts;
      a_over_q <= p_over;
    end else if (a_issue) begin
      a_second_q <= a_wide && !a_second_q;
      if (a_entry_end) begin
        a_count_q <= a_count_q + 16'd1;
        a_left_q  <= a_left_q - 7'd1;
      end
    end
    if (move) begin
      s1_first_q <= p_go || (s1_first_q && !s1_end);
      s1_second_q <= a_valid_q && a_second_q;
      s1_qpn_q <= line_qpn;
      s1_taught_now_q <= commit && s1_reports && s1_qpn_q == line_qpn;
      s1_phase_now_q <= s1_taught ? s1_taught_phase : s1_phase;
      s1_qpc_q <= a_valid_q ? a_qpc_q : qpc_rd_data;
      s1_flush_q <= a_valid_q ? a_flush_q : p_flush;
      s1_credit_q <= a_valid_q ? a_credit_q : p_counts;
      s1_count_q <= a_valid_q ? a_count_q : p_consumed;
      if (p_go) s1_quantum_q <= p_quantum;
      s1_line_q <= line_rd_addr;
      void_line_q <= s1_line_q;
      void_parity_q <= s1_parity;
      if (s1_valid_q && !s1_second_q) begin
        half_data_q  <= line_rd_data;
        half_complete_q <= s1_complete;
        half_head_q  <= s1_head;
        half_ids_q   <= s1_ids;
        half_flits_q <= s1_flits;
      end
    end
    c_qpn_q <= s1_qpn_q;
    c_left_q <= (s1_first_q ? s1_quantum_q : left) - $signed({2'b00, consumed_flits});
    left_q <= left;
    d_clear_q <= clear_q;
    d_qpn_q <= written_qpn;
    d_deficit_q <= written_deficit;
    clear_qpn_q <= s_clear_qpn;
  end

  wire unused_bits = &{1'b0, s1_qpc_q, c_owed, s1_padded, p_base, a_base, p_excess};

  `EFA_CHECK(!(clear_q && c_valid_q), "a WQE was consumed in the cycle of a clear")
  `EFA_CHECK(shared_q <= SHARED, "more free contexts than contexts")
  `EFA_CHECK(!spend || (p_over ? over_spent : all_spent) - freed + shared_q >= -GUARANTEED,
             "a visit reserves more contexts than are free")

endmodule

`default_nettype wire
