// SPDX-License-Identifier: Apache-2.0
// efa_send_tracker - tracks SRD sends until they are acknowledged, and reports every send
// completion.
//
// In    s_ctx_take: an SRD send of s_ctx_bytes starts and uses the context; s_ack_rx acknowledgements; s_done
//       completions of messages that were sent or need no packet, and fences; s_scan: flush the QPs
//       of the scan set and the sends of destroyed address handles; scan_set_rd_data: the QP of
//       scan_set_rd_addr is in the set, one cycle later; s_cancel: cancel the sends of a QP;
//       s_ctx_free_*: a context whose send has ended may be used again
// Out   m_ctx_free, m_ctx_id: the context of the next send; m_ctx_end_*: its send has ended, one cycle
//       after the end; m_txc completions, m_txc_srd: of an SRD QP;
//       m_completed_*, with completed_rd_*: the new number of sends completed of a QP, with its
//       completion; m_fence_*: a fence passed; m_freed: one send is no longer outstanding
// Time  completion 3 cycles after its cause, one per cycle; a context scan takes one cycle for each
//       context or for each row of 32 free contexts, plus 3; the contexts before the first row
//       boundary take one cycle each
//
// Contexts are allocated round robin. A scan that starts at the next context therefore meets the
// sends of a QP in posting order, except sends that were still outstanding when the contexts
// wrapped. A flush completes those sends first, one generation a pass; a separate pass finds each
// generation. Completions of a QP that is dead, in RESET or recreated with another number are
// discarded.
//
// There are 2^(MSG_W + 1) contexts, and OPEN sends may be outstanding, about half as many. One
// context is therefore always free, a context is reused late, and few generations are outstanding
// together. Ids continue through resets: an acknowledgement of a send from before a reset meets no
// context of its generation for at least 2 * 10^9 sends.
//
// The completion buffer holds completions while txc stalls: OPEN sends with a context, which count
// as outstanding until they leave the buffer (freed), so acknowledgements and scans never stall; and
// REST others (datagrams, refused or flushed WQEs), then s_done stalls.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_send_tracker #(
    parameter QPN_W = 6,
    parameter ID_LEFT = 0  // as in efa_msg_id_alloc
) (
    input wire clk,
    input wire rst_por,
    input wire rst,
    input wire s_ctx_free_valid,
    input wire [`EFA_LIMITS__MSG_W:0] s_ctx_free_index,
    output wire m_ctx_end_valid,
    output wire [`EFA_LIMITS__MSG_W:0] m_ctx_end_index,
    output wire m_ctx_free,
    output wire [31:0] m_ctx_id,
    input wire s_ctx_take,
    input wire [`EFA_TX_MSG__W-1:0] s_ctx_msg,
    input wire [31:0] s_ctx_bytes,
    input wire s_outcome_valid,
    output wire s_outcome_ready,
    input wire [`EFA_SEND_OUTCOME__W-1:0] s_outcome_data,
    input wire s_done_valid,
    output wire s_done_ready,
    input wire [`EFA_TX_MSG__W-1:0] s_done_msg,
    input wire s_scan_valid,
    output wire s_scan_ready,
    output wire [QPN_W-1:0] scan_set_rd_addr,
    input wire scan_set_rd_data,
    input wire [4*(1<<`EFA_LIMITS__AH_W)-1:0] s_ah_gen,
    input wire s_cancel_valid,
    output wire s_cancel_ready,
    input wire [QPN_W-1:0] s_cancel_qpn,
    output wire [QPN_W-1:0] qpc_rd_addr,
    input wire [`EFA_QPC__W-1:0] qpc_rd_data,
    output wire [QPN_W-1:0] completed_rd_addr,
    input wire [15:0] completed_rd_data,
    output wire m_completed_valid,
    output wire [QPN_W-1:0] m_completed_qpn,
    output wire [15:0] m_completed_count,
    output wire m_freed,
    output wire m_fence_valid,
    output wire m_fence_id,
    output wire m_txc_valid,
    input wire m_txc_ready,
    output wire [`EFA_CPL__W-1:0] m_txc_data,
    output wire m_txc_srd
);

  localparam MSG_W = `EFA_LIMITS__MSG_W;
  localparam STORE_LOG2 = MSG_W + 1;
  localparam [MSG_W:0] OPEN = (1 << MSG_W) + `EFA_TRANSPORT__GUARANTEED_SENDS;
  localparam [MSG_W:0] REST = (2 << MSG_W) - OPEN;
  // Contexts, in the rows of efa_msg_id_alloc.
  localparam CTX_W = MSG_W + 1;
  localparam COL_W = CTX_W / 2;
  localparam COLS = 1 << COL_W;
  localparam ROW_W = CTX_W - COL_W;
  localparam ITEM_W = 4 + 8 + 3 + QPN_W + 16 + 12 + 1 + 64 + 32;
  localparam AH_W = `EFA_LIMITS__AH_W;
  localparam LOOK_W = 4 + AH_W + QPN_W;
  localparam [CTX_W:0] ONE = 1;
  localparam [CTX_W:0] A_ROW = 1 << COL_W;
  localparam [COLS-1:0] A_COL = 1;
  localparam [ROW_W-1:0] ROW_ONE = 1;
  localparam [1:0] FROM_DONE = 2'd0;
  localparam [1:0] FROM_ACK = 2'd1;
  localparam [1:0] FROM_SCAN = 2'd2;
  localparam [1:0] ST_IDLE = 2'd0;
  localparam [1:0] ST_LOOKUP = 2'd1;
  localparam [1:0] ST_TAIL = 2'd2;
  localparam [1:0] ST_DONE = 2'd3;
  localparam [1:0] PASS_FIND = 2'd0;
  localparam [1:0] PASS_OLD = 2'd1;
  localparam [1:0] PASS_LAST = 2'd2;
  localparam GEN_W = 32 - CTX_W;

  // The context scan: its position and purpose.
  reg [1:0] scan_q;
  reg [1:0] scan_d;
  reg [CTX_W:0] seen_q;
  reg [CTX_W:0] seen_d;
  reg [CTX_W-1:0] look_q;
  reg [CTX_W-1:0] look_d;
  reg enters;  // the position moves to another row
  reg [COLS-1:0] look_row_q;
  reg cancelling_q;
  reg cancelling_d;
  reg [1:0] pass_q;
  reg [1:0] pass_d;
  reg [31:0] start_q;  // the next context when the scan began
  reg found_q;  // an out-of-place send must be flushed; its age is oldest_q generations
  reg finds_q;  // one was found in the last cycle; its age is age_q
  reg [GEN_W-1:0] age_q;
  reg [GEN_W-1:0] oldest_q;
  reg [GEN_W-1:0] old_gen_q;
  reg any_q;  // a context may be out of place: one in use was skipped since the last check
  reg any_found_q;

  // The send of the last cycle, which a read in that cycle does not return.
  reg took_q;
  reg [CTX_W-1:0] took_index_q;
  reg [LOOK_W-1:0] took_look_q;

  // c1: context read
  reg c1_valid_q;
  reg [1:0] c1_from_q;
  reg [CTX_W-1:0] c1_index_q;
  reg c1_stale_q;  // of a scan: its address handle was destroyed, as known one cycle before
  reg c1_used_q;  // as read; a context that ended in one of the last two cycles is not in use
  // The contexts that ended one and two cycles ago. The first one is released in this cycle.
  reg ended_q;
  reg [CTX_W-1:0] ended_index_q;
  reg ended_before_q;
  reg [CTX_W-1:0] ended_before_index_q;
  reg [`EFA_SEND_OUTCOME__W-1:0] c1_ack_q;
  reg [`EFA_TX_MSG__W-1:0] c1_msg_q;

  // Completions in the buffer that never had a context.
  reg [MSG_W:0] rest_q;

  // c2: a completion, its QP being read; c3: at the output
  reg c2_valid_q;
  reg c2_barrier_q;
  reg c2_fence_q;
  reg [`EFA_CPL__W-1:0] c2_cpl_q;
  reg c3_valid_q;
  reg c3_barrier_q;
  reg c3_fence_q;
  reg [`EFA_CPL__W-1:0] c3_cpl_q;
  reg c3_srd_q;

  wire move = !c3_valid_q || c3_barrier_q || m_txc_ready;

  // The next context; an id is generation and index.
  wire passes_open;
  wire [CTX_W-1:0] next_index = m_ctx_id[CTX_W-1:0];

  // The pass has visited every context, and the last one has left c1.
  wire visited = scan_q == ST_TAIL && (!c1_valid_q || c1_from_q != FROM_SCAN);
  // A find pass has ended.
  wire looked = visited && pass_q == PASS_FIND;
  wire last_begins = looked && !found_q;

  // look_row_q is a copy of the flags of the row at the scan position: the read of a row does not
  // precede a RAM address. The row that the scan may enter is read meanwhile.
  wire [CTX_W-1:0] pass_begin = scan_q == ST_IDLE ? (any_q && !s_cancel_valid ? {CTX_W{1'b0}} : next_index)
      : last_begins ? start_q[CTX_W-1:0] : look_q;
  wire [ROW_W-1:0] row = look_q[CTX_W-1:COL_W];
  wire [ROW_W-1:0] enter_row = scan_q == ST_LOOKUP ? row + ROW_ONE : pass_begin[CTX_W-1:COL_W];
  wire [COLS-1:0] enter_flags;
  wire row_free = look_q[COL_W-1:0] == {COL_W{1'b0}} && look_row_q == {COLS{1'b0}}
      && seen_q + A_ROW <= {1'b1, {CTX_W{1'b0}}};
  wire lookup_hit = scan_q == ST_LOOKUP && look_row_q[look_q[COL_W-1:0]];

  // The QP of the context at the scan position and its address handle are read one cycle ahead, so
  // that their lookups in the scan set and among the generations return with the context.
  wire [11:0] s_ctx_qpn = s_ctx_msg[`EFA_TX_MSG__QPN];
  wire [15:0] s_ctx_ah = s_ctx_msg[`EFA_TX_MSG__AH];
  wire [LOOK_W-1:0] new_look = {s_ctx_msg[`EFA_TX_MSG__AH_GEN], s_ctx_ah[AH_W-1:0], s_ctx_qpn[QPN_W-1:0]};
  wire [LOOK_W-1:0] look_read;
  wire [3:0] look_gen;
  wire [AH_W-1:0] look_ah;
  wire [QPN_W-1:0] look_qpn;
  assign {look_gen, look_ah, look_qpn} = took_q && took_index_q == look_q ? took_look_q : look_read;

  // Round robin into the pipeline: completions of sent messages, acknowledgements, the scan.
  wire rest_space = rest_q != REST;
  wire [2:0] request = {lookup_hit, s_outcome_valid, s_done_valid && rest_space};
  wire [2:0] grant;
  wire [31:0] ack_id = s_outcome_data[`EFA_SEND_OUTCOME__MSG_ID];
  wire [CTX_W-1:0] c0_index = grant[1] ? ack_id[CTX_W-1:0] : look_q;
  wire [COLS-1:0] ack_flags;  // of the row of the acknowledged context

  reg [`EFA_SEND_CTX__W-1:0] new_ctx;
  always @* begin
    new_ctx = {`EFA_SEND_CTX__W{1'b0}};
    new_ctx[`EFA_SEND_CTX__GEN] = {{CTX_W{1'b0}}, m_ctx_id[31:CTX_W]};
    new_ctx[`EFA_SEND_CTX__QPN] = s_ctx_msg[`EFA_TX_MSG__QPN];
    new_ctx[`EFA_SEND_CTX__QP_NUM] = s_ctx_msg[`EFA_TX_MSG__QP_NUM];
    new_ctx[`EFA_SEND_CTX__SCQN] = s_ctx_msg[`EFA_TX_MSG__SCQN];
    new_ctx[`EFA_SEND_CTX__SSUB] = s_ctx_msg[`EFA_TX_MSG__SSUB];
    new_ctx[`EFA_SEND_CTX__REQ_ID] = s_ctx_msg[`EFA_TX_MSG__REQ_ID];
    new_ctx[`EFA_SEND_CTX__REQ_ID_EX] = s_ctx_msg[`EFA_TX_MSG__REQ_ID_EX];
    new_ctx[`EFA_SEND_CTX__OP_TYPE] = s_ctx_msg[`EFA_TX_MSG__OP_TYPE];
    new_ctx[`EFA_SEND_CTX__LENGTH] = s_ctx_bytes;
  end

  wire [`EFA_SEND_CTX__W-1:0] ctx;
  wire [11:0] ctx_qpn = ctx[`EFA_SEND_CTX__QPN];
  wire [31:0] c1_id = c1_ack_q[`EFA_SEND_OUTCOME__MSG_ID];
  wire c1_used = c1_used_q && !(ended_q && ended_index_q == c1_index_q)
      && !(ended_before_q && ended_before_index_q == c1_index_q);
  wire acked = c1_from_q == FROM_ACK && c1_used
      && ctx[`EFA_SEND_CTX__GEN] == {{CTX_W{1'b0}}, c1_id[31:CTX_W]};
  wire looked_at = c1_valid_q && c1_from_q == FROM_SCAN && c1_used;
  wire meant = cancelling_q ? ctx_qpn[QPN_W-1:0] == s_cancel_qpn : scan_set_rd_data;
  wire may_be_stale = looked_at && !cancelling_q;
  wire due = looked_at && meant || may_be_stale && c1_stale_q;
  // Generations since allocation. A send in its place is 0 old, or 1 at or above the start index.
  wire [31:0] ctx_gen = ctx[`EFA_SEND_CTX__GEN];
  wire [GEN_W-1:0] age = start_q[31:CTX_W] - ctx_gen[GEN_W-1:0];
  wire [GEN_W-1:0] extra = age - {{GEN_W - 1{1'b0}}, c1_index_q >= start_q[CTX_W-1:0]};
  wire passed_over = looked_at && extra != {GEN_W{1'b0}} && !extra[GEN_W-1];
  // A send of this generation that is in its place may complete too: it follows in posting order.
  wire now = pass_q == PASS_LAST || (pass_q == PASS_OLD && ctx_gen[GEN_W-1:0] == old_gen_q);
  wire flushes = due && now;
  wire finds = due && passed_over && pass_q == PASS_FIND;
  wire left = c1_from_q == FROM_DONE;
  wire c1_passes = c1_valid_q && (left || acked) || flushes;
  wire ends_ctx = c1_passes && !left;
  wire c1_cancelled = flushes && cancelling_q;
  wire c1_barrier = left && c1_msg_q[`EFA_TX_MSG__KIND] == `EFA_TX_KIND__BARRIER;
  wire [7:0] c1_status = left ? c1_msg_q[`EFA_TX_MSG__STATUS]
      : acked ? c1_ack_q[`EFA_SEND_OUTCOME__STATUS] : `EFA_IO_COMP_STATUS__FLUSHED;
  wire [2:0] c1_op = left ? c1_msg_q[`EFA_TX_MSG__OP_TYPE] : ctx[`EFA_SEND_CTX__OP_TYPE];

  wire [11:0] c1_qpn = left ? c1_msg_q[`EFA_TX_MSG__QPN] : ctx_qpn;
  wire [ITEM_W-1:0] c1_item = {
    left,
    c1_cancelled,
    c1_barrier,
    c1_msg_q[`EFA_TX_MSG__FENCE],
    c1_status,
    c1_op,
    c1_qpn[QPN_W-1:0],
    left ? c1_msg_q[`EFA_TX_MSG__QP_NUM] : ctx[`EFA_SEND_CTX__QP_NUM],
    left ? c1_msg_q[`EFA_TX_MSG__SCQN] : ctx[`EFA_SEND_CTX__SCQN],
    left ? c1_msg_q[`EFA_TX_MSG__SSUB] : ctx[`EFA_SEND_CTX__SSUB],
    left ? c1_msg_q[`EFA_TX_MSG__REQ_ID_EX] : ctx[`EFA_SEND_CTX__REQ_ID_EX],
    left ? c1_msg_q[`EFA_TX_MSG__REQ_ID] : ctx[`EFA_SEND_CTX__REQ_ID],
    left ? {16'd0, c1_msg_q[`EFA_TX_MSG__LENGTH]} : ctx[`EFA_SEND_CTX__LENGTH]
  };

  // A completion bypasses an empty buffer; otherwise the buffer keeps the order.
  wire [STORE_LOG2:0] stored;
  wire store_ready;
  wire store_valid;
  wire [ITEM_W-1:0] store_item;
  wire bypass = stored == {(STORE_LOG2 + 1) {1'b0}};
  wire next_valid = bypass ? c1_passes : store_valid;
  wire [ITEM_W-1:0] next_item = bypass ? c1_item : store_item;
  wire goes = next_valid && move;
  wire goes_rest = goes && next_item[ITEM_W-1];

  wire next_left;
  wire next_cancelled;
  wire next_barrier;
  wire next_fence;
  wire [7:0] next_status;
  wire [2:0] next_op;
  wire [QPN_W-1:0] next_qpn;
  wire [15:0] next_qp_num;
  wire [11:0] next_scqn;
  wire next_ssub;
  wire [47:0] next_req_id_ex;
  wire [15:0] next_req_id;
  wire [31:0] next_length;
  assign {next_left, next_cancelled, next_barrier, next_fence, next_status, next_op, next_qpn,
          next_qp_num, next_scqn, next_ssub, next_req_id_ex, next_req_id, next_length} = next_item;

  reg [`EFA_CPL__W-1:0] next_cpl;
  always @* begin
    next_cpl = {`EFA_CPL__W{1'b0}};
    next_cpl[`EFA_CPL__QPN] = {{12 - QPN_W{1'b0}}, next_qpn};
    next_cpl[`EFA_CPL__QP_NUM] = next_qp_num;
    next_cpl[`EFA_CPL__CQN] = next_scqn;
    next_cpl[`EFA_CPL__SUB] = next_ssub;
    next_cpl[`EFA_CPL__REQ_ID] = next_req_id;
    next_cpl[`EFA_CPL__REQ_ID_EX] = next_req_id_ex;
    next_cpl[`EFA_CPL__STATUS] = next_status;
    next_cpl[`EFA_CPL__OP_TYPE] = next_op;
    next_cpl[`EFA_CPL__LENGTH] = next_length[15:0];
    next_cpl[`EFA_CPL__LENGTH_HI] = next_length[31:16];
  end

  wire [11:0] c2_qpn = c2_cpl_q[`EFA_CPL__QPN];
  wire [11:0] c3_qpn = c3_cpl_q[`EFA_CPL__QPN];
  wire c2_live = qpc_rd_data[`EFA_QPC__LIVE] && qpc_rd_data[`EFA_QPC__STATE] !=
  `EFA_ADMIN_QP_STATE__RESET_W3
  && qpc_rd_data[`EFA_QPC__QP_NUM] == c2_cpl_q[`EFA_CPL__QP_NUM];

  wire handed = m_txc_valid && m_txc_ready;

  assign scan_set_rd_addr = look_qpn;
  assign m_ctx_end_valid = ended_q;
  assign m_ctx_end_index = ended_index_q;
  assign s_outcome_ready = grant[1];
  assign s_done_ready = grant[0];
  assign s_scan_ready = scan_q == ST_DONE && !cancelling_q;
  assign s_cancel_ready = scan_q == ST_DONE && cancelling_q;
  // The QP context is read again every cycle while the completion waits.
  assign qpc_rd_addr = move ? next_qpn : c2_qpn[QPN_W-1:0];
  // So is the count of its QP.
  assign completed_rd_addr = move ? c2_qpn[QPN_W-1:0] : c3_qpn[QPN_W-1:0];
  assign m_completed_valid = handed;
  assign m_completed_qpn = c3_qpn[QPN_W-1:0];
  assign m_completed_count = completed_rd_data + 16'd1;
  assign m_freed = goes && !next_left;
  assign m_fence_valid = c3_valid_q && c3_barrier_q;
  assign m_fence_id = c3_fence_q;
  assign m_txc_valid = c3_valid_q && !c3_barrier_q;
  assign m_txc_data = c3_cpl_q;
  assign m_txc_srd = c3_srd_q;

  efa_arb #(
      .N(3)
  ) u_turns (
      .clk(clk),
      .rst(rst),
      .s_request(request),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  efa_msg_id_alloc #(
      .CTX_W(CTX_W),
      .ID_LEFT(ID_LEFT)
  ) u_rr (
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .m_next_free(m_ctx_free),
      .m_next_id(m_ctx_id),
      .s_give(s_ctx_take),
      .s_release_valid(s_ctx_free_valid),
      .s_release_place(s_ctx_free_index),
      .m_passes(passes_open)
  );

  // Contexts of sends that have not ended.
  efa_flag_rows #(
      .ADDR_W(CTX_W),
      .COL_W (COL_W),
      .READS (2)
  ) u_used (
      .clk(clk),
      .rst(rst),
      .set_en(s_ctx_take),
      .set_addr(next_index),
      .clear_en(ended_q),
      .clear_addr(ended_index_q),
      .rd_addr({ack_id[CTX_W-1:COL_W], enter_row}),
      .rd_data({ack_flags, enter_flags})
  );

  efa_ram #(
      .WIDTH (`EFA_SEND_CTX__W),
      .ADDR_W(CTX_W)
  ) u_contexts (
      .clk(clk),
      .wr_en(s_ctx_take),
      .wr_addr(next_index),
      .wr_data(new_ctx),
      .rd_en(1'b1),
      .rd_addr(c0_index),
      .rd_data(ctx)
  );

  efa_ram #(
      .WIDTH (LOOK_W),
      .ADDR_W(CTX_W)
  ) u_look (
      .clk(clk),
      .wr_en(s_ctx_take),
      .wr_addr(next_index),
      .wr_data(new_look),
      .rd_en(1'b1),
      .rd_addr(look_d),
      .rd_data(look_read)
  );

  efa_fifo #(
      .WIDTH(ITEM_W),
      .DEPTH_LOG2(STORE_LOG2)
  ) u_store (
      .clk(clk),
      .rst(rst),
      .s_valid(c1_passes && !(bypass && move)),
      .s_ready(store_ready),
      .s_data(c1_item),
      .m_valid(store_valid),
      .m_ready(move),
      .m_data(store_item),
      .m_level(stored)
  );

  // Bits of a row of flags that a send of this cycle sets and an ended one clears.
  wire [COLS-1:0] take_col = s_ctx_take ? A_COL << next_index[COL_W-1:0] : {COLS{1'b0}};
  wire [COLS-1:0] ended_col = ended_q ? A_COL << ended_index_q[COL_W-1:0] : {COLS{1'b0}};
  wire [ROW_W-1:0] take_row = next_index[CTX_W-1:COL_W];
  wire [ROW_W-1:0] ended_row = ended_index_q[CTX_W-1:COL_W];
  wire [COLS-1:0] enter_row_d = (enter_flags | (take_row == enter_row ? take_col : {COLS{1'b0}}))
      & ~(ended_row == enter_row ? ended_col : {COLS{1'b0}});
  wire [COLS-1:0] stay_row_d = (look_row_q | (take_row == row ? take_col : {COLS{1'b0}}))
      & ~(ended_row == row ? ended_col : {COLS{1'b0}});

  always @* begin
    scan_d = scan_q;
    seen_d = seen_q;
    look_d = look_q;
    enters = scan_q != ST_LOOKUP;
    cancelling_d = cancelling_q;
    pass_d = pass_q;
    case (scan_q)
      // Idle: waits for a flush or a cancel.
      ST_IDLE: begin
        seen_d = {CTX_W + 1{1'b0}};
        // A cancel needs no order.
        pass_d = any_q && !s_cancel_valid ? PASS_FIND : PASS_LAST;
        look_d = pass_begin;
        cancelling_d = s_cancel_valid;
        if (s_scan_valid || s_cancel_valid) scan_d = ST_LOOKUP;
      end
      // Until every context was visited once.
      ST_LOOKUP: begin
        if (seen_q[CTX_W]) scan_d = ST_TAIL;
        else if (row_free) begin
          enters = 1'b1;
          seen_d = seen_q + A_ROW;
          look_d = look_q + A_ROW[CTX_W-1:0];
        end else if (!lookup_hit || grant[2]) begin
          enters = look_q[COL_W-1:0] == {COL_W{1'b1}};
          seen_d = seen_q + ONE;
          look_d = look_q + ONE[CTX_W-1:0];
        end
      end
      // Until the last context has left c1; then old sends, the next generation, or the last pass. The
      // position is again that at the begin of the pass.
      ST_TAIL: begin
        seen_d = {CTX_W + 1{1'b0}};
        look_d = pass_begin;
        if (visited) begin
          scan_d = pass_q == PASS_LAST ? ST_DONE : ST_LOOKUP;
          pass_d = last_begins ? PASS_LAST : looked ? PASS_OLD : PASS_FIND;
        end
      end
      // Ready acknowledges the requester.
      default: begin
        scan_d = ST_IDLE;
      end
    endcase
  end

  always @(posedge clk) begin
    if (rst) begin
      scan_q <= ST_IDLE;
      rest_q <= {MSG_W + 1{1'b0}};
      any_q <= 1'b0;
      c1_valid_q <= 1'b0;
      ended_q <= 1'b0;
      ended_before_q <= 1'b0;
      c2_valid_q <= 1'b0;
      c3_valid_q <= 1'b0;
    end else begin
      scan_q <= scan_d;
      any_q <= (any_q && !(looked && !any_found_q)) || passes_open;
      rest_q <= rest_q + {{MSG_W{1'b0}}, grant[0]} - {{MSG_W{1'b0}}, goes_rest};
      c1_valid_q <= grant != 3'd0;
      ended_q <= ends_ctx;
      ended_before_q <= ended_q;
      if (move) begin
        c2_valid_q <= next_valid && !next_cancelled;
        c3_valid_q <= c2_valid_q && (c2_barrier_q || c2_live);
      end
    end
  end

  always @(posedge clk) begin
    seen_q <= seen_d;
    look_q <= look_d;
    look_row_q <= enters ? enter_row_d : stay_row_d;
    cancelling_q <= cancelling_d;
    pass_q <= pass_d;
    took_q <= s_ctx_take;
    took_index_q <= next_index;
    took_look_q <= new_look;
    if (scan_q == ST_IDLE) start_q <= m_ctx_id;
    // The comparison is a cycle later than its subtraction. old_gen_q is read three cycles after the
    // last context of a find pass, which is enough for both.
    finds_q   <= finds;
    age_q     <= age;
    old_gen_q <= start_q[31:CTX_W] - oldest_q;
    // A find pass begins.
    if (scan_q == ST_IDLE || (scan_q == ST_TAIL && pass_q == PASS_OLD)) begin
      found_q <= 1'b0;
      any_found_q <= passes_open;
      oldest_q <= {GEN_W{1'b0}};
    end else begin
      if (finds) found_q <= 1'b1;
      if (finds_q && age_q > oldest_q) oldest_q <= age_q;
      if (passed_over || passes_open) any_found_q <= 1'b1;
    end
    c1_from_q <= grant[0] ? FROM_DONE : grant[1] ? FROM_ACK : FROM_SCAN;
    c1_index_q <= c0_index;
    c1_stale_q <= s_ah_gen[{look_ah, 2'b00}+:4] != look_gen;
    c1_used_q <= grant[1] ? ack_flags[ack_id[COL_W-1:0]] : lookup_hit;
    ended_index_q <= c1_index_q;
    ended_before_index_q <= ended_index_q;
    c1_ack_q <= s_outcome_data;
    c1_msg_q <= s_done_msg;
    if (move) begin
      c2_barrier_q <= next_barrier;
      c2_fence_q <= next_fence;
      c2_cpl_q <= next_cpl;
      c3_barrier_q <= c2_barrier_q;
      c3_fence_q <= c2_fence_q;
      c3_cpl_q <= c2_cpl_q;
      c3_srd_q <= qpc_rd_data[`EFA_QPC__SRD];
    end
  end

  wire unused_bits = &{1'b0, s_ctx_msg, s_ctx_qpn, s_ctx_ah, c1_ack_q, c1_msg_q, c1_id, ack_id, ctx_qpn, ctx_gen,
      c1_qpn, c2_qpn, c3_qpn, qpc_rd_data};

  `EFA_CHECK(!c1_passes || store_ready, "more finished sends than outstanding sends")

endmodule

`default_nettype wire
