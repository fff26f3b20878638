// SPDX-License-Identifier: Apache-2.0
// efa_tx_rnr - holds refused contexts until their back-off after RNR ends, then posts them again.
//
// In    s_tick: the last cycle of a tick; s_post: new contexts to send; s_note: outcomes of packets,
//       ends of sessions; s_ctx_used: contexts of sends that have not ended; s_popped_*: a context has
//       left the posted ones
// Out   m_post: new contexts, and those after their back-off; m_note: outcomes of contexts: those of
//       s_note that end their context, and of each context that waits or is posted again when its
//       session ends; m_ctx_held: these contexts
// Time  s_post and s_note in the same cycle, an RNR in 2 cycles, the end of a session one cycle per
//       context; one context is posted again in 2^GAP_W cycles, the first one of a list within 5 of
//       these times and 15 cycles after its back-off; after rst an initialisation of 8 cycles
//
// The back-off doubles with each retry of a context, up to a limit. Each of these times has a list of
// contexts, in which the first one is due first. The lists take turns.
//
// A peer sends a packet after RNR before new ones, and efa_tx_resolve takes about 16 cycles for its
// refusal. So they leave at half of that rate at most: new packets always get through.
`default_nettype none
`include "efa_defs.vh"

module efa_tx_rnr #(
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter CTX_W = `EFA_LIMITS__MSG_W + 1,
    parameter RNR_TICKS = `EFA_TRANSPORT__RNR_TICKS,
    parameter GAP_W = `EFA_TRANSPORT__RNR_GAP_W
) (
    input wire clk,
    input wire rst,
    input wire s_tick,
    output wire m_init_done,
    input wire s_post_valid,
    output wire s_post_ready,
    input wire [`EFA_SRD_POST__W-1:0] s_post_data,
    input wire s_note_valid,
    output wire s_note_ready,
    input wire [`EFA_SRD_NOTE__W-1:0] s_note_data,
    input wire [(1<<CTX_W)-1:0] s_ctx_used,
    input wire s_popped_valid,
    input wire [CTX_W-1:0] s_popped_index,
    output wire m_post_valid,
    input wire m_post_ready,
    output wire [`EFA_SRD_POST__W-1:0] m_post_data,
    output wire m_note_valid,
    input wire m_note_ready,
    output wire [`EFA_SRD_NOTE__W-1:0] m_note_data,
    output wire [(1<<CTX_W)-1:0] m_ctx_held
);

  localparam N = 1 << CTX_W;
  localparam HIGH_W = 32 - CTX_W;
  localparam TICKS_W = 24;
  localparam LEVEL_W = 3;
  localparam [LEVEL_W-1:0] LAST_LEVEL = `EFA_TRANSPORT__RNR_BACKOFF_MAX;
  localparam [LEVEL_W-1:0] A_LEVEL = 1;
  localparam [GAP_W-1:0] A_CYCLE = 1;
  localparam [2:0] NO_END = 3'd7;
  localparam [CTX_W-1:0] ONE = 1;
  localparam [TICKS_W-1:0] FIRST = RNR_TICKS;
  localparam [TICKS_W-1:0] A_TICK = 1;
  // A word of a context: id, its limit of retries, its retries. One of a waiting context: id, node,
  // when it is due.
  localparam RETRY_W = HIGH_W + 6;
  localparam WAIT_W = HIGH_W + NODE_W + TICKS_W;
  localparam [2:0] ST_NOTE = 3'd0;
  localparam [2:0] ST_DECIDE = 3'd1;
  localparam [2:0] ST_LOOKUP = 3'd2;
  localparam [2:0] ST_END = 3'd3;
  localparam [2:0] ST_DONE = 3'd4;
  localparam [2:0] LS_LOOK = 3'd0;
  localparam [2:0] LS_WORD = 3'd1;
  localparam [2:0] LS_FOUND = 3'd2;
  localparam [2:0] LS_DUE = 3'd3;
  localparam [2:0] LS_POST = 3'd4;

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg [CTX_W-1:0] index_q;  // the context whose session may have ended
  reg [CTX_W-1:0] index_d;
  reg [2:0] list_q;
  reg [2:0] list_d;
  reg [LEVEL_W-1:0] level_q;
  reg [N-1:0] held_q;
  reg reused_q;  // a new context has taken the number since its retries were read
  reg end_waits_q;  // the end of this context waits at the output, and stays
  reg [TICKS_W-1:0] ticks_q;
  reg [GAP_W-1:0] gap_q;  // cycles until the next context may be posted again

  wire [31:0] note_id = s_note_data[`EFA_SRD_NOTE__ID];
  wire [15:0] note_node = s_note_data[`EFA_SRD_NOTE__NODE];
  wire [7:0] note_status = s_note_data[`EFA_SRD_NOTE__STATUS];
  wire [CTX_W-1:0] note_index = note_id[CTX_W-1:0];
  wire ended = s_note_data[`EFA_SRD_NOTE__ENDED];
  wire refused = !ended && s_note_data[`EFA_SRD_NOTE__KIND] == `EFA_PACKET_KIND__ALONE
      && note_status == `EFA_IO_COMP_STATUS__REMOTE_ERROR_RNR;

  // Posts. A context that is posted again has priority.
  wire posts_again = list_q == LS_POST;
  wire post = s_post_valid && s_post_ready;
  wire [31:0] post_id = s_post_data[`EFA_SRD_POST__ID];
  wire [CTX_W-1:0] post_index = post_id[CTX_W-1:0];

  // A refused context: its retries.
  wire [RETRY_W-1:0] retry_read;
  wire [HIGH_W-1:0] retry_high;
  wire [2:0] limit;
  wire [2:0] retries;
  assign {retry_high, limit, retries} = retry_read;
  wire [2:0] more = retries == 3'd7 ? 3'd7 : retries + 3'd1;
  wire waits = !reused_q && s_ctx_used[note_index] && retry_high == note_id[31:CTX_W]
      && (limit == NO_END || retries < limit);
  wire enters = state_q == ST_DECIDE && waits && !post;
  wire [LEVEL_W-1:0] level = retries > LAST_LEVEL ? LAST_LEVEL : retries;

  // The first context of a list.
  wire found;
  wire [31:0] first_id;
  wire user;
  wire [CTX_W-1:0] first_index = first_id[CTX_W-1:0];
  wire [WAIT_W-1:0] due_read;
  wire [NODE_W-1:0] first_node = due_read[TICKS_W+:NODE_W];
  wire [TICKS_W-1:0] due_in = due_read[TICKS_W-1:0] - ticks_q;
  wire due = due_in == {TICKS_W{1'b0}} || due_in[TICKS_W-1];
  wire gone = !s_ctx_used[first_index];
  wire pop = (list_q == LS_DUE && gone) || (posts_again && m_post_ready);

  // A waiting context whose session may have ended.
  wire [WAIT_W-1:0] scan_read;
  wire scan_meets = end_waits_q || (held_q[index_q] && s_ctx_used[index_q]
      && scan_read[TICKS_W+:NODE_W] == note_node[NODE_W-1:0]);

  reg [`EFA_SRD_NOTE__W-1:0] note;
  reg [`EFA_SRD_POST__W-1:0] again;
  always @* begin
    note = s_note_data;
    if (state_q == ST_END) begin
      note[`EFA_SRD_NOTE__ENDED] = 1'b0;
      note[`EFA_SRD_NOTE__ID] = {scan_read[WAIT_W-1-:HIGH_W], index_q};
    end
    again = {`EFA_SRD_POST__W{1'b0}};
    again[`EFA_SRD_POST__AGAIN] = 1'b1;
    again[`EFA_SRD_POST__NODE] = {{16 - NODE_W{1'b0}}, first_node};
    again[`EFA_SRD_POST__ID] = first_id;
  end

  assign s_post_ready = m_post_ready && !posts_again;
  assign m_post_valid = posts_again || s_post_valid;
  assign m_post_data = posts_again ? again : s_post_data;
  assign m_note_valid = (state_q == ST_NOTE && s_note_valid && !refused && !ended)
      || (state_q == ST_DECIDE && !waits) || (state_q == ST_END && scan_meets);
  assign m_note_data = note;
  assign s_note_ready = (state_q == ST_NOTE && !refused && !ended && m_note_ready)
      || (state_q == ST_DECIDE && (waits ? enters : m_note_ready)) || state_q == ST_DONE;
  assign m_ctx_held = held_q;

  always @* begin
    state_d = state_q;
    index_d = index_q;
    case (state_q)
      // Passes outcomes. An RNR and the end of a session stay until their state has ended.
      ST_NOTE: begin
        index_d = {CTX_W{1'b0}};
        if (s_note_valid && refused) state_d = ST_DECIDE;
        if (s_note_valid && ended) state_d = ST_LOOKUP;
      end
      // The retries of the context were read.
      ST_DECIDE: begin
        if (s_note_ready) state_d = ST_NOTE;
      end
      // The word of the context is being read.
      ST_LOOKUP: begin
        state_d = ST_END;
      end
      // Ends the context if it waits for a retry in the session.
      ST_END: begin
        if (!scan_meets || m_note_ready) begin
          index_d = index_q + ONE;
          if (&index_q) state_d = ST_DONE;
        end
      end
      // Ready takes the end of the session.
      default: begin
        state_d = ST_NOTE;
      end
    endcase

    list_d = list_q;
    case (list_q)
      // Two cycles until the first context of the list is known, one for its word.
      LS_LOOK: begin
        list_d = LS_WORD;
      end
      LS_WORD: begin
        list_d = LS_FOUND;
      end
      LS_FOUND: begin
        list_d = found ? LS_DUE : LS_LOOK;
      end
      // The context is due or has ended, or the next list is looked at. A new context that waits at the
      // output leaves first. A context that is due waits for the gap.
      LS_DUE: begin
        if (!due || gone) list_d = LS_LOOK;
        else if (gap_q == {GAP_W{1'b0}} && (!s_post_valid || m_post_ready)) list_d = LS_POST;
      end
      default: begin
        if (m_post_ready) list_d = LS_LOOK;
      end
    endcase
  end

  efa_peer_list #(
      .NODE_W(LEVEL_W),
      .CTX_W (CTX_W)
  ) u_lists (
      .clk(clk),
      .rst(rst),
      .m_init_done(m_init_done),
      .s_push_valid(enters),
      .s_push_node(level),
      .s_push_id(note_id),
      .s_push_user(1'b0),
      .s_look_node(level_q),
      .m_found(found),
      .m_id(first_id),
      .m_user(user),
      .s_pop(pop)
  );

  efa_ram #(
      .WIDTH (RETRY_W),
      .ADDR_W(CTX_W)
  ) u_retries (
      .clk(clk),
      .wr_en(post || enters),
      .wr_addr(post ? post_index : note_index),
      .wr_data(post ? {post_id[31:CTX_W], s_post_data[`EFA_SRD_POST__RNR_RETRY], 3'd0}
               : {retry_high, limit, more}),
      .rd_en(state_q == ST_NOTE),
      .rd_addr(note_index),
      .rd_data(retry_read)
  );

  efa_ram_1wnr #(
      .WIDTH (WAIT_W),
      .ADDR_W(CTX_W),
      .READS (2)
  ) u_waits (
      .clk(clk),
      .wr_en(enters),
      .wr_addr(note_index),
      .wr_data({note_id[31:CTX_W], note_node[NODE_W-1:0], ticks_q + (FIRST << level)}),
      .rd_addr({index_d, first_index}),
      .rd_data({scan_read, due_read})
  );

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_NOTE;
      list_q <= LS_LOOK;
      level_q <= {LEVEL_W{1'b0}};
      held_q <= {N{1'b0}};
      end_waits_q <= 1'b0;
      ticks_q <= {TICKS_W{1'b0}};
      gap_q <= {GAP_W{1'b0}};
    end else begin
      state_q <= state_d;
      list_q <= list_d;
      if (list_d == LS_LOOK && list_q != LS_LOOK) begin
        level_q <= level_q == LAST_LEVEL ? {LEVEL_W{1'b0}} : level_q + A_LEVEL;
      end
      // A context that enters comes last, so that it wins.
      if (list_q == LS_DUE && gone) held_q[first_index] <= 1'b0;
      if (s_popped_valid) held_q[s_popped_index] <= 1'b0;
      if (enters) held_q[note_index] <= 1'b1;
      end_waits_q <= state_q == ST_END && scan_meets && !m_note_ready;
      if (s_tick) ticks_q <= ticks_q + A_TICK;
      // LS_DUE sees the end of the gap and LS_POST follows it.
      if (posts_again) gap_q <= {GAP_W{1'b1}} - A_CYCLE;
      else if (gap_q != {GAP_W{1'b0}}) gap_q <= gap_q - A_CYCLE;
    end
  end

  always @(posedge clk) begin
    index_q  <= index_d;
    reused_q <= (state_q == ST_DECIDE && reused_q) || (post && post_index == note_index);
  end

  wire unused_bits = &{1'b0, user, note_node, post_id, first_id, due_read, scan_read};

endmodule

`default_nettype wire
