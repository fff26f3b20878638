// efa_sq - takes send entries out of LLQ memory, in order per queue, fairly between queues.
//
// In    work_* rung queues, s_again queues to look at anew; s_mark asks for a barrier;
//       contexts, producer counts, LLQ lines; down, flush_ok: a broken queue waits or is flushed
//       credit_*: message contexts that became free
// Out   m_item entries and barriers (EFA_WQI); torn_*: an entry with an unwritten dword;
//       sends_open message contexts in use or set aside, for efa_meter
//       m_void: its lines, which from then on count as of the lap that was taken
// Time  one 64-byte entry per cycle, a 128-byte one in two; a visit takes up to QUANTUM entries of
//       a queue, the next visit starts in the next cycle; first entry 6 cycles after its queue got
//       work (of 128 bytes: 7; up to 16 queues: one less); waits as a whole for m_item_ready and
//       for the void of the line before
//
// An SRD entry is taken only with a message context set aside for it, so a queue whose
// acknowledgements stay away never stands in the way of others behind this stage.
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_sq #(
    parameter QPN_W   = 6,
    parameter LLQ_AW  = 21,
    parameter QUANTUM = 16
) (
    input wire clk,
    input wire rst,
    input wire work_valid,
    input wire [QPN_W-1:0] work_qpn,
    input wire s_again_valid,
    output wire s_again_ready,
    input wire [QPN_W-1:0] s_again_qpn,
    input wire s_mark_valid,
    output wire s_mark_ready,
    input wire s_mark_id,
    input wire s_clear_valid,
    output wire s_clear_ready,
    input wire [QPN_W-1:0] s_clear_qpn,
    input wire credit_freed,
    input wire credit_unused,
    input wire [(1<<QPN_W)-1:0] down,
    input wire [(1<<QPN_W)-1:0] flush_ok,
    output wire [QPN_W-1:0] qpc_addr,
    input wire [`EFA_QPC__W-1:0] qpc_data,
    output wire [QPN_W-1:0] prod_addr,
    input wire [15:0] prod_data,
    input wire [2*QPN_W-1:0] taken_addr,
    output wire [2*16-1:0] taken_data,
    output wire rd_en,
    output wire [LLQ_AW-6-1:0] rd_line,
    input wire [511:0] rd_data,
    input wire [15:0] rd_parity,
    output wire m_void_valid,
    input wire m_void_ready,
    output wire [LLQ_AW-6-1:0] m_void_line,
    output wire m_void_parity,
    output wire torn_valid,
    output wire [QPN_W-1:0] torn_qpn,
    output wire m_item_valid,
    input wire m_item_ready,
    output wire [`EFA_WQI__W-1:0] m_item_data,
    output wire [`EFA_LIMITS__MSG_W:0] sends_open,
    output wire ev_wqe_valid,
    output wire [63:0] ev_wqe_data
);

  localparam LINE_W = LLQ_AW - 6;
  localparam [15:0] LIMIT = QUANTUM;
  localparam MSG_W = `EFA_LIMITS__MSG_W;
  localparam [MSG_W:0] CONTEXTS = 1 << MSG_W;
  localparam [MSG_W:0] ONE = 1;

  // p: the next queue, its context and counts read anew every cycle
  reg p_valid_q;
  reg [QPN_W-1:0] p_qpn_q;
  reg p_fresh_q;  // what was read belongs to it

  // a: the visit; one line a cycle
  reg a_valid_q;
  reg a_known_q;  // a_count_q counts further than the table of taken entries
  reg [QPN_W-1:0] a_qpn_q;
  reg [`EFA_QPC__W-1:0] a_qpc_q;
  reg a_flush_q;
  reg a_again_q;  // more entries than this visit takes
  reg a_second_q;
  reg [15:0] a_count_q;
  reg [4:0] a_left_q;

  reg a_credit_q;  // a_left_q contexts are set aside

  // Message contexts neither in use nor set aside.
  reg [MSG_W:0] credits_q;
  assign sends_open = CONTEXTS - credits_q;

  // s1: its line has been read
  reg s1_valid_q;
  reg s1_second_q;
  reg [QPN_W-1:0] s1_qpn_q;
  reg [`EFA_QPC__W-1:0] s1_qpc_q;
  reg s1_flush_q;
  reg [15:0] s1_count_q;
  reg s1_done_q;  // the cycle before, an entry of this queue was counted as taken
  reg [QPN_W-1:0] s1_done_qpn_q;

  // The first half of a 128-byte entry.
  reg [511:0] half_data_q;
  reg half_whole_q;
  reg half_head_q;

  // A line that was not whole.
  reg [LINE_W-1:0] s1_line_q;
  reg void_valid_q;
  reg [LINE_W-1:0] void_line_q;
  reg void_parity_q;

  // s2: out
  reg s2_valid_q;
  reg [`EFA_WQI__W-1:0] s2_item_q;

  wire move = (!s2_valid_q || m_item_ready) && (!void_valid_q || m_void_ready);

  // Set of queues: a queue that goes on goes before one that changed.
  wire again_ready;
  wire a_put = a_valid_q && a_again_q;
  wire next_valid;
  wire next_ready;
  wire [QPN_W-1:0] next_qpn;

  wire a_wide = a_qpc_q[`EFA_QPC__WQE128];
  wire a_entry_end = a_second_q || !a_wide;
  // A visit of none only puts its queue back.
  wire a_none = a_left_q == 5'd0;
  wire a_last = (a_entry_end && a_left_q == 5'd1) || a_none;
  wire a_issue = a_valid_q && move;
  // The visit stays a cycle longer than its queue takes to get back into the set, if it has to.
  wire a_end = a_issue && a_last && !a_again_q;
  wire a_free = !a_valid_q || a_end;
  wire a_hold = a_last && a_again_q;

  // What stands between reading the table and a count that is on its way into it.
  wire p_late = (s1_valid_q && s1_qpn_q == p_qpn_q) || (s1_done_q && s1_done_qpn_q == p_qpn_q);
  wire p_follows = a_known_q && a_qpn_q == p_qpn_q;
  wire p_go = p_valid_q && p_fresh_q && a_free && (p_follows || !p_late);
  wire [15:0] taken_read;
  wire a_counts = a_issue && a_entry_end && !a_none;
  wire [15:0] a_count_next = a_counts ? a_count_q + 16'd1 : a_count_q;
  wire [15:0] p_taken = p_follows ? a_count_next : taken_read;
  wire p_counts = qpc_data[`EFA_QPC__SRD] && !p_down;
  wire [15:0] p_credits = {{15 - MSG_W{1'b0}}, credits_q};
  wire [4:0] p_limit = p_counts && p_credits < LIMIT ? p_credits[4:0] : LIMIT[4:0];

  // What a visit finds: entries at all, more than it may take, how many if not.
  function [6:0] visit(input [15:0] waiting, input [4:0] limit);
    visit = {waiting != 16'd0, waiting[15:5] != 11'd0 || waiting[4:0] > limit, waiting[4:0]};
  endfunction

  // Worked out for each count it may start from: which one it is comes late.
  wire [6:0] p_visit_read = visit(prod_data - taken_read, p_limit);
  wire [6:0] p_visit_stay = visit(prod_data - a_count_q, p_limit);
  wire [6:0] p_visit_next = visit(prod_data - a_count_q - 16'd1, p_limit);
  wire p_waits;
  wire p_over;
  wire [4:0] p_few;
  wire [4:0] p_left = p_over ? p_limit : p_few;
  assign {p_waits, p_over, p_few} = !p_follows ? p_visit_read
      : a_counts ? p_visit_next : p_visit_stay;
  wire p_down = down[p_qpn_q];
  wire p_run = qpc_data[`EFA_QPC__STATE] == `EFA_ADMIN_QP_STATE__RTS_W3 && !p_down;
  wire p_flush = p_down && flush_ok[p_qpn_q];
  wire p_take = qpc_data[`EFA_QPC__LIVE] && (p_run || p_flush) && p_waits;

  // A barrier waits until whatever was looked at has been taken, and nothing more is looked at.
  wire empty = !p_valid_q && !a_valid_q && !s1_valid_q;
  wire mark_go = s_mark_valid && empty && move;

  wire s1_wide = s1_qpc_q[`EFA_QPC__WQE128];
  wire s1_parity = s1_count_q[s1_qpc_q[`EFA_QPC__SQ_LOG]];
  wire s1_whole = rd_parity == {16{s1_parity}};
  wire s1_head = rd_parity[0] == s1_parity;
  wire s1_end = s1_valid_q && (s1_second_q || !s1_wide);
  wire head = s1_wide ? half_head_q : s1_head;
  wire torn = !s1_whole || (s1_wide && !half_whole_q);
  wire [511:0] front = s1_wide ? half_data_q : rd_data;
  wire commit = s1_end && move;
  // A torn entry breaks its queue: what this visit read after it is not taken.
  wire broken = commit && torn && !s1_flush_q;
  wire drop_a = broken && a_qpn_q == s1_qpn_q;
  wire drop_p = broken && p_qpn_q == s1_qpn_q;

  // What a visit sets aside, and what it gives back when it is cut short.
  wire spend = p_go && p_take && p_counts && !drop_p;
  wire [4:0] back = a_valid_q && drop_a && a_credit_q ? a_left_q : 5'd0;
  wire [MSG_W:0] unspent = credits_q + (credit_freed ? ONE : {MSG_W + 1{1'b0}})
      + (credit_unused ? ONE : {MSG_W + 1{1'b0}}) + {{MSG_W-4{1'b0}}, back};
  wire [MSG_W:0] spent_limit = unspent - {{MSG_W-4{1'b0}}, p_limit};
  wire [MSG_W:0] spent_few = unspent - {{MSG_W-4{1'b0}}, p_few};

  wire [19:0] a_slot = {4'd0, a_count_q} & ((20'd1 << a_qpc_q[`EFA_QPC__SQ_LOG]) - 20'd1);
  wire [19:0] a_place = a_qpc_q[`EFA_QPC__SQ_LINE] + (a_wide ? {a_slot[18:0], a_second_q} : a_slot);

  reg [`EFA_WQI__W-1:0] item;
  always @* begin
    item = {`EFA_WQI__W{1'b0}};
    if (mark_go) begin
      item[`EFA_WQI__BARRIER] = 1'b1;
      item[`EFA_WQI__MARK] = s_mark_id;
    end else begin
      item[`EFA_WQI__FLUSH] = s1_flush_q;
      item[`EFA_WQI__TORN] = torn;
      item[`EFA_WQI__QPN] = {{12 - QPN_W{1'b0}}, s1_qpn_q};
      item[`EFA_WQI__MSG] = s1_count_q;
      item[`EFA_WQI__SRD] = s1_qpc_q[`EFA_QPC__SRD];
      item[`EFA_WQI__PD] = s1_qpc_q[`EFA_QPC__PD];
      item[`EFA_WQI__QP_NUM] = s1_qpc_q[`EFA_QPC__QP_NUM];
      item[`EFA_WQI__SCQN] = s1_qpc_q[`EFA_QPC__SCQN];
      item[`EFA_WQI__SSUB] = s1_qpc_q[`EFA_QPC__SSUB];
      item[`EFA_WQI__WQE128] = s1_wide;
      if (head) begin
        item[`EFA_WQI__REQ_ID]  = front[`EFA_IO_TX_WQE__META__REQ_ID];
        item[`EFA_WQI__OP_TYPE] = front[`EFA_IO_TX_WQE__META__OP_TYPE];
      end
      item[`EFA_WQI__ENTRY] = {rd_data[383:0], front};
    end
  end

  reg [63:0] event_data;
  always @* begin
    event_data = 64'd0;
    event_data[`EFA_EV_WQE__QPN] = item[`EFA_WQI__QPN];
    event_data[`EFA_EV_WQE__MSG] = item[`EFA_WQI__MSG];
    event_data[`EFA_EV_WQE__REQ_ID] = item[`EFA_WQI__REQ_ID];
  end

  assign next_ready = (!p_valid_q || p_go) && !s_mark_valid;
  assign s_again_ready = again_ready && !a_put;
  assign s_mark_ready = mark_go;
  assign s_clear_ready = !commit;
  assign qpc_addr = p_valid_q && !p_go ? p_qpn_q : next_qpn;
  assign prod_addr = qpc_addr;
  assign rd_en = move;
  assign rd_line = a_place[LINE_W-1:0];
  assign m_void_valid = void_valid_q;
  assign m_void_line = void_line_q;
  assign m_void_parity = void_parity_q;
  assign torn_valid = broken;
  assign torn_qpn = s1_qpn_q;
  assign m_item_valid = s2_valid_q;
  assign m_item_data = s2_item_q;
  assign ev_wqe_valid = commit;
  assign ev_wqe_data = event_data;

  efa_work_set #(
      .QPN_W(QPN_W)
  ) u_set (
      .clk(clk),
      .rst(rst),
      .now_valid(work_valid),
      .now_qpn(work_qpn),
      .s_valid(a_put || s_again_valid),
      .s_ready(again_ready),
      .s_qpn(a_put ? a_qpn_q : s_again_qpn),
      .m_valid(next_valid),
      .m_ready(next_ready),
      .m_qpn(next_qpn)
  );

  efa_ram_nr #(
      .WIDTH (16),
      .ADDR_W(QPN_W),
      .READS (3)
  ) u_taken (
      .clk(clk),
      .wr_en(commit || s_clear_valid),
      .wr_addr(commit ? s1_qpn_q : s_clear_qpn),
      .wr_data(commit ? s1_count_q + 16'd1 : 16'd0),
      .rd_addr({taken_addr, qpc_addr}),
      .rd_data({taken_data, taken_read})
  );

  always @(posedge clk) begin
    if (rst) begin
      p_valid_q  <= 1'b0;
      p_fresh_q  <= 1'b0;
      a_valid_q  <= 1'b0;
      a_known_q  <= 1'b0;
      s1_valid_q <= 1'b0;
      s1_done_q  <= 1'b0;
      s2_valid_q <= 1'b0;
      void_valid_q <= 1'b0;
      credits_q  <= CONTEXTS;
    end else begin
      credits_q <= !spend ? unspent : p_over ? spent_limit : spent_few;
      if (!p_valid_q || p_go) p_valid_q <= next_valid && next_ready;
      p_fresh_q <= (p_valid_q && !p_go) || (next_valid && next_ready);
      if (a_free) begin
        a_valid_q <= p_go && p_take && !drop_p;
        a_known_q <= p_go ? p_take && !drop_p : a_known_q && !drop_a;
      end else if (drop_a) begin
        a_valid_q <= 1'b0;
        a_known_q <= 1'b0;
      end
      if (s_clear_valid) a_known_q <= 1'b0;
      if (move) s1_valid_q <= a_valid_q && !a_none && !a_hold && !drop_a;
      s1_done_q <= commit;
      if (move) s2_valid_q <= s1_end || mark_go;
      else if (m_item_ready) s2_valid_q <= 1'b0;
      if (move) void_valid_q <= s1_valid_q && !s1_whole;
      else if (m_void_ready) void_valid_q <= 1'b0;
    end
  end

  always @(posedge clk) begin
    if (next_valid && next_ready) p_qpn_q <= next_qpn;
    if (p_go) begin
      a_qpn_q <= p_qpn_q;
      a_qpc_q <= qpc_data;
      a_flush_q <= p_flush;
      a_second_q <= 1'b0;
      a_count_q <= p_taken;
      a_left_q <= p_left;
      a_credit_q <= p_counts;
      a_again_q <= p_over;
    end else begin
      if (a_put && again_ready) a_again_q <= 1'b0;
      if (a_issue && !a_hold) begin
        a_second_q <= a_wide && !a_second_q && !a_none;
        if (a_entry_end && !a_none) begin
          a_count_q <= a_count_q + 16'd1;
          a_left_q  <= a_left_q - 5'd1;
        end
      end
    end
    if (move) begin
      s1_second_q <= a_second_q;
      s1_qpn_q <= a_qpn_q;
      s1_qpc_q <= a_qpc_q;
      s1_flush_q <= a_flush_q;
      s1_count_q <= a_count_q;
      s1_line_q <= rd_line;
      void_line_q <= s1_line_q;
      void_parity_q <= s1_parity;
      if (s1_valid_q && !s1_second_q) begin
        half_data_q  <= rd_data;
        half_whole_q <= s1_whole;
        half_head_q  <= s1_head;
      end
      s2_item_q <= item;
    end
    s1_done_qpn_q <= s1_qpn_q;
  end

  wire unused_bits = &{1'b0, a_place, s1_qpc_q};

  `EFA_CHECK(credits_q <= CONTEXTS, "more contexts free than there are")

endmodule
