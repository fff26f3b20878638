// SPDX-License-Identifier: Apache-2.0
// fv_send_tracker - proves efa_send_tracker for one context and one message of the solver's choice
// among others without constraints: a message ends once, by its acknowledgement or a context scan,
// with its own content and in order. A context is allocated to one message at a time and freed
// once.
`include "efa_defs.vh"

module fv_send_tracker #(
    parameter QPN_W = 2,
    // Proves property counted; every other job assumes it.
    parameter COUNTED = 0
) (
    input wire clk,
    input wire rst_por,
    input wire rst,
    input wire free_valid,
    input wire [`EFA_LIMITS__MSG_W:0] free_index,
    input wire ctx_take,
    input wire [`EFA_TX_MSG__W-1:0] s_ctx_msg,
    input wire [31:0] s_ctx_bytes,
    input wire outcome_valid,
    input wire [`EFA_SEND_OUTCOME__W-1:0] outcome_data,
    input wire s_done_valid,
    input wire [`EFA_TX_MSG__W-1:0] s_done_msg,
    input wire s_scan_valid,
    input wire [(1<<QPN_W)-1:0] s_scan_set,
    input wire [4*(1<<`EFA_LIMITS__AH_W)-1:0] ah_gen,
    input wire s_cancel_valid,
    input wire [QPN_W-1:0] s_cancel_qpn,
    input wire [`EFA_QPC__W-1:0] qpc_data,
    input wire [15:0] completed_data,
    input wire txc_ready,
    input wire pick
);

  localparam MSG_W = `EFA_LIMITS__MSG_W;
  localparam CTX_W = MSG_W + 1;
  localparam N = 1 << CTX_W;
  // Most outstanding sends, and most items without a context in the completion buffer.
  localparam [CTX_W:0] MOST = (1 << MSG_W) + `EFA_TRANSPORT__GUARANTEED_SENDS;
  localparam [CTX_W:0] REST = (2 << MSG_W) - MOST;
  localparam AH_W = `EFA_LIMITS__AH_W;
  localparam LOOK_W = 4 + AH_W + QPN_W;
  localparam STORE_LOG2 = MSG_W + 1;
  localparam [STORE_LOG2:0] ROOM = 2 << MSG_W;
  localparam WHAT_W = 3 + QPN_W + 16 + 12 + 1 + 48 + 16 + 32;
  localparam ITEM_W = WHAT_W + 12;
  localparam [1:0] KIND_BARRIER = 2'd2;
  localparam [1:0] FROM_DONE = 2'd0;
  localparam [1:0] FROM_SCAN = 2'd2;
  localparam [1:0] SCAN_IDLE = 2'd0;
  localparam [1:0] SCAN_LOOKUP = 2'd1;
  localparam [1:0] SCAN_TAIL = 2'd2;
  localparam [1:0] SCAN_DONE = 2'd3;
  localparam [1:0] PASS_LAST = 2'd2;
  // Places of the followed item.
  localparam [2:0] NOWHERE = 3'd0;
  localparam [2:0] OPEN = 3'd1;
  localparam [2:0] STORED = 3'd2;
  localparam [2:0] C1 = 3'd3;
  localparam [2:0] C2 = 3'd4;
  localparam [2:0] C3 = 3'd5;

  wire end_valid;
  wire [CTX_W-1:0] end_index;
  wire ctx_free;
  wire [31:0] ctx_id;
  wire outcome_ready;
  wire s_done_ready;
  wire s_scan_ready;
  wire s_cancel_ready;
  wire [QPN_W-1:0] scan_set_addr;
  // The lookup in the scan set.
  reg [(1<<QPN_W)-1:0] scan_set_q;
  reg [QPN_W-1:0] scan_set_addr_q;
  wire [QPN_W-1:0] qpc_addr;
  wire [QPN_W-1:0] completed_addr;
  wire completed_valid;
  wire [QPN_W-1:0] completed_qpn;
  wire [15:0] completed_count;
  wire freed;
  wire fence_valid;
  wire fence_id;
  wire txc_valid;
  wire [`EFA_CPL__W-1:0] txc_data;

  efa_send_tracker #(
      .QPN_W(QPN_W)
  ) u_dut (
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .s_ctx_free_valid(free_valid),
      .s_ctx_free_index(free_index),
      .m_ctx_end_valid(end_valid),
      .m_ctx_end_index(end_index),
      .m_ctx_free(ctx_free),
      .m_ctx_id(ctx_id),
      .s_ctx_take(ctx_take),
      .s_ctx_msg(s_ctx_msg),
      .s_ctx_bytes(s_ctx_bytes),
      .s_outcome_valid(outcome_valid),
      .s_outcome_ready(outcome_ready),
      .s_outcome_data(outcome_data),
      .s_done_valid(s_done_valid),
      .s_done_ready(s_done_ready),
      .s_done_msg(s_done_msg),
      .s_scan_valid(s_scan_valid),
      .s_scan_ready(s_scan_ready),
      .scan_set_rd_addr(scan_set_addr),
      .scan_set_rd_data(scan_set_q[scan_set_addr_q]),
      .s_ah_gen(ah_gen),
      .s_cancel_valid(s_cancel_valid),
      .s_cancel_ready(s_cancel_ready),
      .s_cancel_qpn(s_cancel_qpn),
      .qpc_rd_addr(qpc_addr),
      .qpc_rd_data(qpc_data),
      .completed_rd_addr(completed_addr),
      .completed_rd_data(completed_data),
      .m_completed_valid(completed_valid),
      .m_completed_qpn(completed_qpn),
      .m_completed_count(completed_count),
      .m_freed(freed),
      .m_fence_valid(fence_valid),
      .m_fence_id(fence_id),
      .m_txc_valid(txc_valid),
      .m_txc_ready(txc_ready),
      .m_txc_data(txc_data)
  );

  (* probe = "u_dut.u_used.all" *) wire [N-1:0] flags;
  (* probe = "u_dut.u_rr.u_used.all" *) wire [N-1:0] allocated;
  (* probe = "u_dut.ended_q" *) wire ended;
  (* probe = "u_dut.ended_index_q" *) wire [CTX_W-1:0] ended_index;
  (* probe = "u_dut.rest_q" *) wire [MSG_W:0] rest;
  (* probe = "u_dut.c1_valid_q" *) wire c1_valid;
  (* probe = "u_dut.c1_from_q" *) wire [1:0] c1_from;
  (* probe = "u_dut.c1_index_q" *) wire [CTX_W-1:0] c1_index;
  (* probe = "u_dut.c1_used" *) wire c1_used;
  (* probe = "u_dut.c1_passes" *) wire c1_passes;
  (* probe = "u_dut.c1_item" *) wire [ITEM_W-1:0] c1_item;
  (* probe = "u_dut.c1_ack_q" *) wire [`EFA_SEND_OUTCOME__W-1:0] c1_ack;
  (* probe = "u_dut.ends_ctx" *) wire ends_ctx;
  (* probe = "u_dut.bypass" *) wire bypass;
  (* probe = "u_dut.store_valid" *) wire store_valid;
  (* probe = "u_dut.store_item" *) wire [ITEM_W-1:0] store_item;
  (* probe = "u_dut.stored" *) wire [STORE_LOG2:0] stored;
  (* probe = "u_dut.move" *) wire move;
  (* probe = "u_dut.c2_valid_q" *) wire c2_valid;
  (* probe = "u_dut.c2_barrier_q" *) wire c2_barrier;
  (* probe = "u_dut.c2_fence_q" *) wire c2_fence;
  (* probe = "u_dut.c2_live" *) wire c2_live;
  (* probe = "u_dut.c2_cpl_q" *) wire [`EFA_CPL__W-1:0] c2_cpl;
  (* probe = "u_dut.c3_valid_q" *) wire c3_valid;
  (* probe = "u_dut.scan_q" *) wire [1:0] scan_state;
  (* probe = "u_dut.pass_q" *) wire [1:0] pass;
  (* probe = "u_dut.seen_q" *) wire [CTX_W:0] seen;
  (* probe = "u_dut.cancelling_q" *) wire cancelling;
  (* probe = "u_dut.ctx" *) wire [`EFA_SEND_CTX__W-1:0] ctx;
  (* probe = "u_dut.u_look.word_addr" *) wire [CTX_W-1:0] look_place;
  (* probe = "u_dut.u_look.word_known_q" *) wire look_known;
  (* probe = "u_dut.u_look.word_q" *) wire [LOOK_W-1:0] look_word;
  (* probe = "u_dut.look_gen" *) wire [3:0] look_gen;
  (* probe = "u_dut.look_ah" *) wire [AH_W-1:0] look_ah;
  (* probe = "u_dut.c1_stale_q" *) wire c1_stale;
  (* probe = "u_dut.look_q" *) wire [CTX_W-1:0] look;
  (* probe = "u_dut.look_row_q" *) wire [(1<<(CTX_W/2))-1:0] look_row;
  wire [CTX_W-1:0] from = look - seen[CTX_W-1:0];
  (* probe = "u_dut.u_contexts.word_addr" *) wire [CTX_W-1:0] ctx_place;
  (* probe = "u_dut.u_contexts.word_known_q" *) wire ctx_known;
  (* probe = "u_dut.u_contexts.word_q" *) wire [`EFA_SEND_CTX__W-1:0] ctx_word;
  (* probe = "u_dut.u_store.level_q" *) wire [STORE_LOG2:0] level;
  (* probe = "u_dut.u_store.g_ram.head_q" *) wire head;
  (* probe = "u_dut.u_store.g_ram.stored_q" *) wire [STORE_LOG2:0] in_ram;
  (* probe = "u_dut.u_store.wr_addr_q" *) wire [STORE_LOG2-1:0] wr_addr;
  (* probe = "u_dut.u_store.rd_addr_q" *) wire [STORE_LOG2-1:0] rd_addr;
  (* probe = "u_dut.u_store.g_ram.u_ram.word_addr" *) wire [STORE_LOG2-1:0] item_place;
  (* probe = "u_dut.u_store.g_ram.u_ram.word_known_q" *) wire item_known;
  (* probe = "u_dut.u_store.g_ram.u_ram.word_q" *) wire [ITEM_W-1:0] item_word;

  (* anyconst *) wire [CTX_W-1:0] me;
  reg began_q = 1'b0;
  // The context: allocated and not freed; its id and its message.
  reg open_q;
  reg [31:0] id_q;
  reg [`EFA_SEND_CTX__W-1:0] context_q;
  // Its address handle and the generation of the handle; the generations one cycle before, which a
  // scan compares.
  reg [AH_W-1:0] my_ah_q;
  reg [3:0] my_gen_q;
  reg [4*(1<<`EFA_LIMITS__AH_W)-1:0] ah_gen_q;
  // An acknowledgement of this message was accepted one cycle ago; an acknowledgement of another
  // message.
  reg ack_q;
  reg [7:0] ack_status_q;
  reg other_ack_q;
  reg seen_stale_q;
  // The context scan: the context was in use at the begin of the scan, and the scan covers it since
  // then.
  reg old_q;
  reg meant_q;
  // The followed message, completion or barrier.
  reg followed_q;
  reg [2:0] where_q;
  reg [STORE_LOG2:0] ahead_q;
  reg [ITEM_W-1:0] item_q;
  // Totals: items in the block, contexts in use, kinds of items in the completion buffer.
  reg [STORE_LOG2+2:0] inside_q;
  reg [MSG_W+1:0] out_q;
  reg [MSG_W+1:0] open_sum_q;  // contexts in use
  reg [STORE_LOG2:0] rest_sum_q;  // items without a context in the completion buffer
  reg [N-1:0] used_q;
  reg [1:0] ack_waits_q;
  reg outcome_stood_q;
  reg done_stood_q;
  reg clear_stood_q;
  reg scan_stood_q;
  reg cancel_stood_q;
  reg [QPN_W-1:0] cancel_qpn_q;
  reg [`EFA_SEND_OUTCOME__W-1:0] outcome_data_q;
  reg [`EFA_TX_MSG__W-1:0] done_msg_q;

  function [WHAT_W-1:0] content(input [`EFA_TX_MSG__W-1:0] msg, input [31:0] bytes);
    reg [11:0] qpn;
    begin
      qpn = msg[`EFA_TX_MSG__QPN];
      content = {
        msg[`EFA_TX_MSG__OP_TYPE],
        qpn[QPN_W-1:0],
        msg[`EFA_TX_MSG__QP_NUM],
        msg[`EFA_TX_MSG__SCQN],
        msg[`EFA_TX_MSG__SSUB],
        msg[`EFA_TX_MSG__REQ_ID_EX],
        msg[`EFA_TX_MSG__REQ_ID],
        bytes
      };
    end
  endfunction

  // Returns the completion of an item of the completion buffer.
  function [`EFA_CPL__W-1:0] completion(input [ITEM_W-1:0] item);
    reg [2:0] op;
    reg [QPN_W-1:0] qpn;
    reg [15:0] qp_num;
    reg [11:0] scqn;
    reg ssub;
    reg [47:0] id_ex;
    reg [15:0] id;
    reg [31:0] length;
    begin
      {op, qpn, qp_num, scqn, ssub, id_ex, id, length} = item[WHAT_W-1:0];
      completion = 0;
      completion[`EFA_CPL__QPN] = qpn;
      completion[`EFA_CPL__QP_NUM] = qp_num;
      completion[`EFA_CPL__CQN] = scqn;
      completion[`EFA_CPL__SUB] = ssub;
      completion[`EFA_CPL__REQ_ID] = id;
      completion[`EFA_CPL__REQ_ID_EX] = id_ex;
      completion[`EFA_CPL__STATUS] = item[WHAT_W+:8];
      completion[`EFA_CPL__OP_TYPE] = op;
      completion[`EFA_CPL__LENGTH] = length[15:0];
      completion[`EFA_CPL__LENGTH_HI] = length[31:16];
    end
  endfunction

  wire [15:0] s_ctx_ah = s_ctx_msg[`EFA_TX_MSG__AH];
  wire give = ctx_take;
  wire give_me = give && ctx_id[CTX_W-1:0] == me;
  wire take_ack = outcome_valid && outcome_ready;
  wire take_done = s_done_valid && s_done_ready;
  wire [31:0] ack_id = outcome_data[`EFA_SEND_OUTCOME__MSG_ID];
  wire [15:0] my_qp_num = context_q[`EFA_SEND_CTX__QP_NUM];
  wire [11:0] my_qpn = context_q[`EFA_SEND_CTX__QPN];
  wire stale = ah_gen_q[4*my_ah_q+:4] != my_gen_q;
  wire of_me = open_q && ack_id == id_q;
  wire ends_me = ends_ctx && c1_index == me;
  wire meant = cancelling ? my_qpn[QPN_W-1:0] == s_cancel_qpn
      : scan_set_q[my_qpn[QPN_W-1:0]] || stale;

  wire c1_done = c1_valid && c1_from == FROM_DONE;
  wire c1_me = c1_valid && c1_from != FROM_DONE && c1_used && c1_index == me;
  wire push = c1_passes && !(bypass && move);
  wire pop = store_valid && move && !bypass;
  wire first = where_q == STORED && ahead_q == 0;
  wire forgotten = item_q[ITEM_W-2];
  wire barrier = item_q[ITEM_W-3];

  // Items that end: handed over, a barrier, or cancelled with their QP.
  wire ends_c2 = c2_valid && move && !(c2_barrier || c2_live);
  wire ends_c1 = move && (bypass ? c1_passes && c1_item[ITEM_W-2]
      : store_valid && store_item[ITEM_W-2]);
  wire ends_c3 = fence_valid || (txc_valid && txc_ready);

  // Changed bits of the contexts in use: the bit of an allocated context is clear, that of a freed
  // context is set.
  wire [N-1:0] one = 1;
  // The flag of a context is cleared one cycle after its end.
  wire [N-1:0] ended_bit = ended ? one << ended_index : {N{1'b0}};
  wire [N-1:0] used = flags & ~ended_bit;
  wire [N-1:0] given_bit = give ? one << ctx_id[CTX_W-1:0] : {N{1'b0}};
  wire [N-1:0] released_bit = ends_ctx ? one << c1_index : {N{1'b0}};
  wire push_rest = push && c1_item[ITEM_W-1];
  wire pop_rest = pop && store_item[ITEM_W-1];

  // A freed context was counted at its allocation, and not all contexts are in use.
  wire counted_right = (!ends_ctx || open_sum_q != 0)
      && (open_sum_q > MOST || flags != {N{1'b1}});
  wire [CTX_W:0] used_count;
  generate
    if (COUNTED) begin : g_count
      fv_srd_tally #(
          .LOG2(CTX_W)
      ) u_used (
          .clk(clk),
          .rst(rst),
          .check(began_q && !rst),
          .bits(used),
          .up(give),
          .up_at(ctx_id[CTX_W-1:0]),
          .halted(ends_ctx),
          .halted_at(c1_index),
          .total(used_count)
      );
    end else begin : g_no_count
      assign used_count = open_sum_q;
    end
  endgenerate

  always @(posedge clk) begin
    began_q <= 1'b1;
    outcome_stood_q <= !rst && outcome_valid && !outcome_ready;
    outcome_data_q <= outcome_data;
    done_stood_q <= !rst && s_done_valid && !s_done_ready;
    done_msg_q <= s_done_msg;
    scan_set_q <= s_scan_set;
    ah_gen_q <= ah_gen;
    scan_set_addr_q <= scan_set_addr;
    scan_stood_q <= !rst && s_scan_valid && !s_scan_ready;
    cancel_stood_q <= !rst && s_cancel_valid && !s_cancel_ready;
    cancel_qpn_q <= s_cancel_qpn;
    ack_q <= !rst && take_ack && of_me;
    ack_status_q <= outcome_data[`EFA_SEND_OUTCOME__STATUS];
    other_ack_q <= !rst && take_ack && !of_me && ack_id[CTX_W-1:0] == me;
    used_q <= (used | given_bit) & ~released_bit;
    if (rst) begin
      open_q <= 1'b0;
      followed_q <= 1'b0;
      where_q <= NOWHERE;
      inside_q <= 0;
      out_q <= 0;
      open_sum_q <= 0;
      rest_sum_q <= 0;
      used_q <= 0;
      old_q <= 1'b0;
      meant_q <= 1'b0;
      ack_waits_q <= 0;
      seen_stale_q <= 1'b0;
    end else begin
      if (give_me) open_q <= 1'b1;
      else if (ends_me) open_q <= 1'b0;
      if (other_ack_q && open_q) seen_stale_q <= 1'b1;
      if (scan_state == SCAN_IDLE) old_q <= open_q && !ends_me;
      else if (ends_me) old_q <= 1'b0;
      meant_q <= scan_state == SCAN_IDLE || (meant_q && meant);
      inside_q <= inside_q + give + take_done - ends_c1 - ends_c2 - ends_c3;
      out_q <= out_q + give - freed;
      open_sum_q <= open_sum_q + give - ends_ctx;
      rest_sum_q <= rest_sum_q + push_rest - pop_rest;
      ack_waits_q <= outcome_valid && !outcome_ready ? ack_waits_q + 1'b1 : 0;
      if (!followed_q && pick) begin
        if (give_me) begin
          followed_q <= 1'b1;
          where_q <= OPEN;
          item_q <= {12'd0, content(s_ctx_msg, s_ctx_bytes)};
        end else if (take_done) begin
          followed_q <= 1'b1;
          where_q <= C1;
          item_q <= {
            1'b1,
            1'b0,
            s_done_msg[`EFA_TX_MSG__KIND] == KIND_BARRIER,
            s_done_msg[`EFA_TX_MSG__FENCE],
            s_done_msg[`EFA_TX_MSG__STATUS],
            content(s_done_msg, {16'd0, s_done_msg[`EFA_TX_MSG__LENGTH]})
          };
        end
      end
      if (where_q == C1 || (where_q == OPEN && ends_me)) begin
        where_q <= !(bypass && move) ? STORED : c1_item[ITEM_W-2] ? NOWHERE : C2;
        ahead_q <= stored - pop;
        if (where_q == OPEN) begin
          item_q[ITEM_W-2]  <= !ack_q && cancelling;
          item_q[WHAT_W+:8] <= ack_q ? ack_status_q : `EFA_IO_COMP_STATUS__FLUSHED;
          // A fence belongs to a barrier.
          item_q[ITEM_W-4]  <= c1_item[ITEM_W-4];
        end
      end
      if (where_q == STORED && pop) begin
        if (ahead_q == 0) where_q <= forgotten ? NOWHERE : C2;
        else ahead_q <= ahead_q - 1'b1;
      end
      if (where_q == C2 && move) where_q <= barrier || c2_live ? C3 : NOWHERE;
      if (where_q == C3 && move) where_q <= NOWHERE;
    end
    if (give_me) begin
      id_q <= ctx_id;
      my_ah_q <= s_ctx_ah[AH_W-1:0];
      my_gen_q <= s_ctx_msg[`EFA_TX_MSG__AH_GEN];
      context_q <= {
        s_ctx_bytes,
        s_ctx_msg[`EFA_TX_MSG__OP_TYPE],
        s_ctx_msg[`EFA_TX_MSG__REQ_ID_EX],
        s_ctx_msg[`EFA_TX_MSG__REQ_ID],
        s_ctx_msg[`EFA_TX_MSG__SSUB],
        s_ctx_msg[`EFA_TX_MSG__SCQN],
        s_ctx_msg[`EFA_TX_MSG__QP_NUM],
        s_ctx_msg[`EFA_TX_MSG__QPN],
        {{CTX_W{1'b0}}, ctx_id[31:CTX_W]}
      };
    end
  end

  wire [STORE_LOG2:0] behind = {1'b0, rd_addr} + ahead_q - (head ? 1'b1 : 1'b0);
  wire [CTX_W-1:0] way = me - from;
  wire [CTX_W-1:0] look_row_at = look >> (CTX_W / 2) << (CTX_W / 2);

  always @* begin
    a_reset_first : assume (began_q || (rst && rst_por));
    a_rst_por : assume (!rst_por || rst);
    // The chosen word of the contexts is that of the context.
    a_word : assume (ctx_place == me && look_place == me);
    // The scheduler sends with a context reserved for the message (sq_sched.contexts).
    a_ctx : assume (!give || (ctx_free && out_q < MOST));
    // A context is freed once, after the end of its send.
    a_free : assume (!free_valid || (allocated[free_index] && !flags[free_index]));
    // Sources hold their offers.
    a_outcome_stays :
    assume (!outcome_stood_q || (outcome_valid && outcome_data == outcome_data_q));
    a_done_stays : assume (!done_stood_q || (s_done_valid && s_done_msg == done_msg_q));
    a_scan_stays : assume (!scan_stood_q || s_scan_valid);
    a_cancel_stays : assume (!cancel_stood_q || (s_cancel_valid && s_cancel_qpn == cancel_qpn_q));
    // The place of the followed item in the completion buffer is the chosen word.
    a_place :
    assume (!(push && (where_q == C1 || (where_q == OPEN && ends_me))) || wr_addr == item_place);
    // Proven as property counted, in its own job.
    a_counted : assume (COUNTED || counted_right);
    // The FIFO returns items that entered, so of each kind no more than it holds (fifo.order).
    a_store : assume (!pop || (pop_rest ? rest_sum_q != 0 : rest_sum_q != stored));
    if (began_q && !rst) begin
      h_open : assert (open_q == used[me]);
      h_ctx :
      assert (!open_q || (ctx_known && ctx_word == context_q
          && id_q == {context_q[31-CTX_W:0], me}));
      h_next : assert (!ctx_free || !allocated[ctx_id[CTX_W-1:0]]);
      h_allocated : assert ((flags & ~allocated) == 0);
      h_c1 : assert (!c1_me || (open_q && ctx == context_q));
      h_look :
      assert (!open_q || (look_known && look_word == {my_gen_q, my_ah_q, my_qpn[QPN_W-1:0]}
          && (look != me || {look_gen, look_ah, scan_set_addr} == look_word)
          && (!c1_me || c1_from != FROM_SCAN
              || (scan_set_addr_q == my_qpn[QPN_W-1:0] && c1_stale == stale))));
      // The scan has the flags of its row.
      h_row : assert (scan_state != SCAN_LOOKUP || look_row == flags[look_row_at+:1<<(CTX_W/2)]);
      h_c1_used : assert (!(c1_valid && c1_from != FROM_DONE && c1_used) || used[c1_index]);
      h_from : assert (!c1_valid || c1_from != 2'd3);
      h_ack :
      assert ((!(ack_q && open_q) || (c1_me && c1_from == 2'd1)) && (!(ack_q || other_ack_q)
          || (c1_valid && c1_from == 2'd1 && c1_index == me && c1_ack == outcome_data_q)));
      h_ack_id :
      assert (!(open_q && ack_q) || (c1_ack[`EFA_SEND_OUTCOME__MSG_ID] == id_q
          && c1_ack[`EFA_SEND_OUTCOME__STATUS] == ack_status_q));
      h_levels :
      assert (level == in_ram + head && level <= ROOM && level == stored && in_ram <= ROOM
          && head == store_valid);
      h_span : assert (wr_addr == rd_addr + in_ram[STORE_LOG2-1:0]);
      h_ahead : assert (where_q != STORED || ahead_q < stored);
      h_where : assert (where_q == NOWHERE || followed_q);
      h_is_open :
      assert (where_q != OPEN || (open_q && item_q[WHAT_W-1:0] == {
          context_q[`EFA_SEND_CTX__OP_TYPE], my_qpn[QPN_W-1:0], my_qp_num, context_q[`EFA_SEND_CTX__SCQN],
          context_q[`EFA_SEND_CTX__SSUB], context_q[`EFA_SEND_CTX__REQ_ID_EX],
          context_q[`EFA_SEND_CTX__REQ_ID], context_q[`EFA_SEND_CTX__LENGTH]}
          && item_q[ITEM_W-1:ITEM_W-3] == 3'd0));
      h_is_c1 : assert (where_q != C1 || (c1_done && c1_passes && c1_item == item_q));
      h_is_head : assert (!(first && head) || store_item == item_q);
      h_is_stored :
      assert (where_q != STORED || (first && head) || (item_place == behind[STORE_LOG2-1:0]
          && item_known && item_word == item_q));
      h_is_c2 :
      assert (where_q != C2 || (c2_valid && c2_barrier == barrier && c2_fence == item_q[ITEM_W-4]
          && c2_cpl == completion(
          item_q
      )));
      h_is_c3 : assert (where_q != C3 || c3_valid);
      // The last pass: every context behind the scan pointer is closed, or in c1 in the next cycle.
      o_scan :
      assert ((scan_state == SCAN_IDLE || seen <= N) && (!old_q || open_q) && (pass != PASS_LAST
          || !old_q || !meant_q
          || (c1_me && c1_from == FROM_SCAN) || (scan_state == SCAN_LOOKUP ? {1'b0, way} >= seen
          : scan_state == SCAN_IDLE)));
      h_bits :
      assert ((given_bit & flags) == 0 && (ended_bit & ~flags) == 0 && (released_bit & ~used) == 0
          && used == used_q);
      h_sums :
      assert (out_q + rest_sum_q == open_sum_q + stored && rest == rest_sum_q + c1_done && rest <= REST
          && rest_sum_q <= stored && out_q <= MOST && open_sum_q <= MOST && stored <= ROOM);
      h_counts : assert (used_count == open_sum_q);
      h_given : assert (!give_me || !open_q);
      p_counted : assert (counted_right);
      p_what :
      assert ((where_q != C3 || (barrier ? fence_valid && fence_id == item_q[ITEM_W-4]
          : txc_valid && txc_data == completion(
          item_q
      ))) && (where_q != STORED || !bypass));
      p_stale : assert (!ends_me || ack_q || (c1_from == FROM_SCAN && meant));
      p_ack : assert (!(ack_q && open_q) || ends_me);
      p_scan : assert (!(s_scan_ready || s_cancel_ready) || !(old_q && meant_q));
      p_ack_waits : assert (ack_waits_q <= 2);
      p_space :
      assert ((!c1_passes || level != ROOM) && rest == rest_sum_q + c1_done && rest <= REST);
      p_credits : assert (used == used_q && out_q + rest_sum_q == open_sum_q + stored);
      p_inside :
      assert (used == used_q && inside_q == open_sum_q + c1_done + stored + c2_valid + c3_valid);
      c_counted : cover (ends_ctx && open_sum_q == 2);
      c_scan : cover (s_scan_ready && where_q == C2 && item_q[ITEM_W-1] == 1'b0);
      c_ack_waits : cover (ack_waits_q == 2 && take_ack);
      c_space : cover (c1_passes && level == 3);
      c_credits : cover (freed && out_q == 3);
      c_inside : cover (ends_c3 && inside_q == 4 && rest == 2);
      c_what :
      cover (where_q == C3 && txc_valid && txc_ready && item_q[WHAT_W+:8] == 8'd9
          && !item_q[ITEM_W-1]);
      c_stale : cover (ends_me && ack_q && seen_stale_q);
      c_ack : cover (ack_q && open_q && seen_stale_q && stored != 0);
    end
  end

endmodule

// fv_srd_tally - counts the ones of a vector in a tree: each node is the sum of its two children.
//
// In    bits the vector; up, down the bit set or cleared in this cycle; check enables the check
// Out   total the number of ones
module fv_srd_tally #(
    parameter LOG2 = 6
) (
    input wire clk,
    input wire rst,
    input wire check,
    input wire [(1<<LOG2)-1:0] bits,
    input wire up,
    input wire [LOG2-1:0] up_at,
    input wire halted,
    input wire [LOG2-1:0] halted_at,
    output wire [LOG2:0] total
);

  localparam N = 1 << LOG2;
  localparam W = LOG2 + 1;

  // Node k has the children 2k and 2k + 1; node N + i is bit i.
  wire [W*2*N-1:0] ones;
  wire [W-1:0] up_leaf = {1'b1, up_at};
  wire [W-1:0] halted_leaf = {1'b1, halted_at};
  assign total = ones[W+:W];
  assign ones[W-1:0] = 0;

  genvar k;
  generate
    for (k = 1; k < 2 * N; k = k + 1) begin : g_node
      if (k >= N) begin : g_leaf
        assign ones[W*k+:W] = bits[k-N];
      end else begin : g_sum
        localparam ABOVE = LOG2 + 1 - $clog2(k + 1);
        reg [W-1:0] count_q;
        wire more = up && (up_leaf >> ABOVE) == k;
        wire less = halted && (halted_leaf >> ABOVE) == k;
        always @(posedge clk) begin
          if (rst) count_q <= 0;
          else count_q <= count_q + more - less;
        end
        assign ones[W*k+:W] = count_q;
        always @* begin
          if (check) begin
            assert (count_q == ones[W*2*k+:W] + ones[W*(2*k+1)+:W]);
          end
        end
      end
    end
  endgenerate

endmodule
