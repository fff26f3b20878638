// SPDX-License-Identifier: Apache-2.0
// efa_tx_segment - posts the packets of a long message one after the other, and joins their outcomes.
//
// In    s_tick: the last cycle of a tick; s_post: new messages, and packets after RNR; s_popped_*: a
//       context has left the posted ones; s_note: outcomes of packets and errors of this device;
//       s_placed: responses of reads; s_ctx_used: contexts of sends that have not ended
// Out   m_post: packets to send; m_ctx_held: contexts of long sends that are or will be posted; m_outcome:
//       outcomes of sends; m_more: the second and later requests of a read, before they are posted;
//       m_responded_*: all packets of a read response have an outcome
// Time  a new message of one packet: same cycle; an event of a long message and a packet after RNR: 2
//       cycles, in which no other message is posted, 3 if it requests more of a read
//
// A context is posted once at a time. When its packet has left the posted ones, the next one is posted
// behind those of other messages. A message has at most PACKETS packets without an outcome. Its first
// error stops further packets. It ends when all that were posted have an outcome, or at once when its
// payload cannot be read, which halts its QP. A read has at most 4 requests whose bytes have not all
// been placed, and ends when all its bytes are placed.
//
// Each open read is visited every READ_TICKS. If none of its bytes was placed since the last visit and no
// packet is open, it requests 0 bytes: the answer tells whether the responder is there. After READ_STALLS
// such visits in a row the read ends.
//
// A context of this block is that of a send or, in the upper half, that of a read response.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_tx_segment #(
    parameter NODE_W  = `EFA_LIMITS__NODE_W,
    parameter CTX_W   = `EFA_LIMITS__MSG_W + 1,
    parameter PACKETS = `EFA_TRANSPORT__WRITE_PACKETS,
    parameter VISIT_TICKS = `EFA_TRANSPORT__READ_TICKS >> CTX_W,
    parameter READ_STALLS = `EFA_TRANSPORT__READ_STALLS
) (
    input wire clk,
    input wire rst,
    input wire s_tick,
    input wire s_post_valid,
    output wire s_post_ready,
    input wire [`EFA_SRD_POST__W-1:0] s_post_data,
    input wire s_popped_valid,
    input wire [CTX_W:0] s_popped_index,
    input wire s_note_valid,
    output wire s_note_ready,
    input wire [`EFA_SRD_NOTE__W-1:0] s_note_data,
    input wire s_placed_valid,
    output wire s_placed_ready,
    input wire [`EFA_READ_PLACED__W-1:0] s_placed_data,
    input wire [(1<<CTX_W)-1:0] s_ctx_used,
    output wire m_post_valid,
    input wire m_post_ready,
    output wire [`EFA_SRD_POST__W-1:0] m_post_data,
    output wire [(1<<CTX_W)-1:0] m_ctx_held,
    output wire m_outcome_valid,
    input wire m_outcome_ready,
    output wire [`EFA_SEND_OUTCOME__W-1:0] m_outcome_data,
    output wire m_more_valid,
    input wire m_more_ready,
    output wire [`EFA_READ_MORE__W-1:0] m_more_data,
    output wire m_responded_valid,
    output wire [CTX_W-1:0] m_responded_index
);

  localparam INDEX_W = CTX_W + 1;
  localparam N = 1 << INDEX_W;
  localparam HIGH_W = 32 - CTX_W;
  localparam PART_W = 18;
  localparam OPEN_W = 8;
  localparam STALLS_W = 5;
  localparam COUNT_W = 17;
  localparam [OPEN_W-1:0] MOST = PACKETS;
  localparam [OPEN_W-1:0] ONE = 1;
  localparam [PART_W:0] A_PART = 1;
  localparam [N-1:0] A_CTX = 1;
  localparam [(1<<CTX_W)-1:0] A_SEND = 1;
  localparam [COUNT_W-1:0] WHOLE = 1 << `EFA_TRANSPORT__READ_REQUEST_LOG;  // bytes of a request, but the last
  localparam [1:0] RESPONSE = `EFA_PACKET_KIND__RESPONSE;
  localparam [31:0] VISIT = VISIT_TICKS;
  localparam [STALLS_W-1:0] LAST_STALL = READ_STALLS;
  localparam [STALLS_W-1:0] A_STALL = 1;
  localparam [CTX_W-1:0] A_PLACE = 1;
  // A word of a context: id, node, last packet, next packet, packets without an outcome, status, the
  // last packet waits for the others; of a read: bytes of the last request, bytes of 4 requests that
  // were not placed, bytes were placed since the last visit, visits without them.
  localparam WORD_W = HIGH_W + NODE_W + 2 * PART_W + 1 + OPEN_W + 8 + 2 + 5 * COUNT_W + 1 + STALLS_W;
  localparam [2:0] POPPED = 3'd0;
  localparam [2:0] NOTED = 3'd1;
  localparam [2:0] AGAIN = 3'd2;
  localparam [2:0] PLACED = 3'd3;
  localparam [2:0] VISITED = 3'd4;

  reg [N-1:0] long_q;
  reg acts_q;
  reg requested_q;
  reg [2:0] kind_q;
  reg [INDEX_W-1:0] index_q;
  reg used_q;  // the send of the context has not ended when its event began
  reg outcome_waits_q;  // an outcome waits at the output
  reg [`EFA_SEND_OUTCOME__W-1:0] outcome_q;
  reg [(1<<CTX_W)-1:0] held_q;
  reg [N-1:0] posted_q;
  reg [31:0] tick_q;
  reg visit_q;
  reg [CTX_W-1:0] visit_index_q;

  wire [31:0] post_id = s_post_data[`EFA_SRD_POST__ID];
  wire [15:0] post_node = s_post_data[`EFA_SRD_POST__NODE];
  wire [INDEX_W-1:0] post_index = {s_post_data[`EFA_SRD_POST__KIND] == RESPONSE, post_id[CTX_W-1:0]};
  wire [PART_W-1:0] post_last = s_post_data[`EFA_SRD_POST__LAST];
  wire post_again = s_post_data[`EFA_SRD_POST__AGAIN];
  wire post_read = s_post_data[`EFA_SRD_POST__READ];
  wire [COUNT_W-1:0] post_rest = s_post_data[`EFA_SRD_POST__REST];
  wire post_passes = !acts_q && s_post_valid && !post_again;
  wire post_several = post_last != {PART_W{1'b0}};
  wire post_long = post_several || post_read;
  wire begins_long = post_passes && m_post_ready && post_long;

  wire [31:0] note_id = s_note_data[`EFA_SRD_NOTE__ID];
  wire note_response = s_note_data[`EFA_SRD_NOTE__KIND] == RESPONSE;
  wire [INDEX_W-1:0] note_index = {note_response, note_id[CTX_W-1:0]};
  wire [7:0] note_status = s_note_data[`EFA_SRD_NOTE__STATUS];
  wire note_gone = s_note_data[`EFA_SRD_NOTE__GONE];
  wire note_own = s_note_data[`EFA_SRD_NOTE__OWN];
  wire note_is_event = long_q[note_index];
  wire note_alone = !acts_q && s_note_valid && !note_is_event;
  wire note_passes = note_alone && !note_gone && !note_response;

  wire [31:0] placed_id = s_placed_data[`EFA_READ_PLACED__ID];
  wire [1:0] placed_slot = s_placed_data[`EFA_READ_PLACED__SLOT];
  wire [15:0] placed_bytes = s_placed_data[`EFA_READ_PLACED__BYTES];
  wire [7:0] placed_status = s_placed_data[`EFA_READ_PLACED__STATUS];
  wire [INDEX_W-1:0] placed_index = {1'b0, placed_id[CTX_W-1:0]};

  wire popped_long = long_q[s_popped_index];
  wire pop_valid;
  wire [INDEX_W-1:0] pop_index;
  wire pop_space;
  wire [INDEX_W:0] pop_level;

  // The choice of an event. A post that waits at the output stays.
  wire waits = m_post_valid && !m_post_ready;
  wire note_event = s_note_valid && note_is_event;
  wire post_event = s_post_valid && post_again;
  wire begins = !acts_q && !waits
      && (pop_valid || note_event || s_placed_valid || post_event || visit_q);
  wire [INDEX_W-1:0] event_index = pop_valid ? pop_index : note_event ? note_index
      : s_placed_valid ? placed_index : post_event ? post_index : {1'b0, visit_index_q};
  // A context without an open long message is passed over.
  wire period_ends = s_tick && tick_q == VISIT - 32'd1;
  wire visit_due = period_ends && !visit_q;
  wire visits = long_q[{1'b0, visit_index_q}] && s_ctx_used[visit_index_q];
  wire [INDEX_W-1:0] word_index = acts_q ? index_q : event_index;

  // The event, with the word of its context.
  wire [HIGH_W-1:0] high;
  wire [NODE_W-1:0] node;
  wire [PART_W-1:0] last;
  wire [PART_W:0] next;
  wire [OPEN_W-1:0] open;
  wire [7:0] status;
  wire last_waits;
  wire read;
  wire [COUNT_W-1:0] rest;
  wire [4*COUNT_W-1:0] left;
  wire progress;
  wire [STALLS_W-1:0] stalls;
  wire [WORD_W-1:0] word;
  assign {high, node, last, next, open, status, last_waits, read, rest, left, progress, stalls} = word;
  wire posted = posted_q[index_q];
  wire response = index_q[CTX_W];
  wire noted = kind_q == NOTED;
  wire placed = kind_q == PLACED;
  wire again = kind_q == AGAIN;
  wire visited = kind_q == VISITED;
  wire [HIGH_W-1:0] event_high = placed ? placed_id[31:CTX_W] : noted ? note_id[31:CTX_W]
      : again ? post_id[31:CTX_W] : high;
  wire live = acts_q && long_q[index_q] && high == event_high && (!(placed || visited) || read);
  wire used = response || used_q;
  wire posted_d = again || (posted && kind_q != POPPED);
  // A packet that is posted again when its session ends may have two outcomes.
  wire [OPEN_W-1:0] open_d = noted && !note_own && open != {OPEN_W{1'b0}} ? open - ONE : open;
  wire stalls_now = visited && !progress && open == {OPEN_W{1'b0}} && !posted && status == 8'd0;
  wire gives_up = stalls_now && stalls == LAST_STALL;
  wire overflow = {1'b0, placed_bytes} > left[COUNT_W*placed_slot+:COUNT_W];
  wire [7:0] event_status = noted ? note_status
      : placed && placed_status != 8'd0 ? placed_status
      : placed && overflow ? `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_STATUS
      : gives_up ? `EFA_IO_COMP_STATUS__LOCAL_ERROR_UNRESP_REMOTE : 8'd0;
  wire [7:0] status_d = status == 8'd0 ? event_status : status;
  wire [COUNT_W-1:0] next_count = next[PART_W-1:0] == last ? rest : WHOLE;
  wire [1:0] next_slot = next[1:0];
  reg [4*COUNT_W-1:0] left_d;
  wire all_posted = next > {1'b0, last};
  wire stops = all_posted || status_d != 8'd0;
  wire held_back = open_d == MOST || (last_waits && next == {1'b0, last} && open_d != {OPEN_W{1'b0}})
      || (read && left_d[COUNT_W*next_slot+:COUNT_W] != {COUNT_W{1'b0}});
  wire asks = live && used && stalls_now && !gives_up;
  wire advances = live && used && !visited && !posted_d && !stops && !held_back;
  wire posts = asks || advances;
  wire requests = advances && read && !requested_q;
  wire frees = live && !response && !posted_d && !posts && (stops || !used);
  // The QP is halted: its flush must not come first.
  wire ends_now = noted && note_own && note_status == `EFA_IO_COMP_STATUS__LOCAL_ERROR_QP_INTERNAL_ERROR;
  wire complete = !posted_d && open_d == {OPEN_W{1'b0}}
      && (status_d != 8'd0 || (all_posted && left_d == {4 * COUNT_W{1'b0}}));
  wire ends = live && used && (ends_now || complete);
  wire acks = ends && !response;
  wire act_posts = (posts && !requests) || (acts_q && again);
  wire done = acts_q && !requests && (!act_posts || m_post_ready) && (!acks || !outcome_waits_q);

  always @* begin
    left_d = left;
    if (placed && !overflow) begin
      left_d[COUNT_W*placed_slot+:COUNT_W] = left[COUNT_W*placed_slot+:COUNT_W] - {1'b0, placed_bytes};
    end
  end

  wire [STALLS_W-1:0] stalls_d = stalls_now ? stalls + A_STALL
      : visited && progress ? {STALLS_W{1'b0}} : stalls;
  reg [4*COUNT_W-1:0] left_after;
  reg [`EFA_SRD_POST__W-1:0] post;
  reg [`EFA_SEND_OUTCOME__W-1:0] ack;
  reg [`EFA_READ_MORE__W-1:0] more;
  always @* begin
    left_after = left_d;
    if (advances && read) left_after[COUNT_W*next_slot+:COUNT_W] = next_count;
    post = s_post_data;
    if (!post_index[CTX_W]) begin
      post[`EFA_SRD_POST__KIND] = post_long ? `EFA_PACKET_KIND__PART : `EFA_PACKET_KIND__ALONE;
    end
    if (acts_q && again) begin
      post[`EFA_SRD_POST__PART] = long_q[index_q] ? last : {PART_W{1'b0}};
      post[`EFA_SRD_POST__KIND] = `EFA_PACKET_KIND__ALONE;
    end else if (acts_q) begin
      post = {`EFA_SRD_POST__W{1'b0}};
      post[`EFA_SRD_POST__NODE] = {{16 - NODE_W{1'b0}}, node};
      post[`EFA_SRD_POST__ID] = {high, index_q[CTX_W-1:0]};
      // The last number requests 0 bytes.
      post[`EFA_SRD_POST__PART] = asks ? {PART_W{1'b1}} : next[PART_W-1:0];
      post[`EFA_SRD_POST__KIND] = response ? RESPONSE
          : last_waits && next == {1'b0, last} ? `EFA_PACKET_KIND__ALONE : `EFA_PACKET_KIND__PART;
    end
    ack = {`EFA_SEND_OUTCOME__W{1'b0}};
    ack[`EFA_SEND_OUTCOME__MSG_ID] = acts_q ? {high, index_q[CTX_W-1:0]} : note_id;
    ack[`EFA_SEND_OUTCOME__STATUS] = acts_q ? status_d : note_status;
    more = {`EFA_READ_MORE__W{1'b0}};
    more[`EFA_READ_MORE__INDEX] = index_q[CTX_W-1:0];
    more[`EFA_READ_MORE__SLOT] = next_slot;
    more[`EFA_READ_MORE__COUNT] = next_count;
  end

  assign m_post_valid = acts_q ? act_posts : post_passes;
  assign m_post_data = post;
  assign s_post_ready = acts_q ? again && m_post_ready : !post_again && m_post_ready;
  // The output stores the outcome that waits, so that no input depends on m_outcome_ready.
  assign m_outcome_valid = outcome_waits_q || (acts_q ? acks : note_passes);
  assign m_outcome_data = outcome_waits_q ? outcome_q : ack;
  assign s_note_ready = acts_q ? noted && done : !note_is_event && (!note_passes || !outcome_waits_q);
  assign s_placed_ready = done && placed;
  // A context of an event may be posted at its end.
  assign m_ctx_held = held_q | acting;
  assign m_more_valid = requests;
  assign m_more_data = more;
  assign m_responded_valid = (done && ends && response) || (note_alone && note_response);
  assign m_responded_index = acts_q ? index_q[CTX_W-1:0] : note_id[CTX_W-1:0];

  efa_fifo #(
      .WIDTH(INDEX_W),
      .DEPTH_LOG2(INDEX_W)
  ) u_popped (
      .clk(clk),
      .rst(rst),
      .s_valid(s_popped_valid && popped_long),
      .s_ready(pop_space),
      .s_data(s_popped_index),
      .m_valid(pop_valid),
      .m_ready(done && kind_q == POPPED),
      .m_data(pop_index),
      .m_level(pop_level)
  );

  efa_ram_fwd #(
      .WIDTH (WORD_W),
      .ADDR_W(INDEX_W)
  ) u_words (
      .clk(clk),
      .wr_en(begins_long || (live && done)),
      .wr_addr(acts_q ? index_q : post_index),
      .wr_data(acts_q ? {high, node, last, next + (advances ? A_PART : {PART_W + 1{1'b0}}),
                         open_d + (posts ? ONE : {OPEN_W{1'b0}}), status_d, last_waits, read, rest, left_after,
                         !visited && (progress || placed), stalls_d}
               : {post_id[31:CTX_W], post_node[NODE_W-1:0], post_last, A_PART, ONE, 8'd0,
                  s_post_data[`EFA_SRD_POST__WAITS], post_read, post_rest,
                  {3 * COUNT_W{1'b0}}, !post_read ? {COUNT_W{1'b0}} : post_several ? WHOLE : post_rest,
                  1'b1, {STALLS_W{1'b0}}}),
      .rd_addr(word_index),
      .rd_data(word)
  );

  // A long send is held from its post to the end of its posts, and while a packet is posted again.
  wire posts_now = begins_long || (live && done && (posts || again));
  wire [INDEX_W-1:0] posts_index = acts_q ? index_q : post_index;
  wire [N-1:0] post_bit = posts_now ? A_CTX << posts_index : {N{1'b0}};
  wire [N-1:0] pop_bit = done && kind_q == POPPED ? A_CTX << index_q : {N{1'b0}};
  wire [(1<<CTX_W)-1:0] holding = post_bit[(1<<CTX_W)-1:0];
  wire [(1<<CTX_W)-1:0] freeing = done && frees ? A_SEND << index_q[CTX_W-1:0] : {1 << CTX_W{1'b0}};
  wire [(1<<CTX_W)-1:0] acting = acts_q ? A_SEND << index_q[CTX_W-1:0] : {1 << CTX_W{1'b0}};
  wire [(1<<CTX_W)-1:0] ended = ~s_ctx_used & ~posted_q[(1<<CTX_W)-1:0] & ~acting;
  wire [N-1:0] posting = post_passes && m_post_ready ? A_CTX << post_index : {N{1'b0}};

  always @(posedge clk) begin
    if (rst) begin
      long_q <= {N{1'b0}};
      acts_q <= 1'b0;
      requested_q <= 1'b0;
      outcome_waits_q <= 1'b0;
      held_q <= {1 << CTX_W{1'b0}};
      posted_q <= {N{1'b0}};
      tick_q <= 32'd0;
      visit_q <= 1'b0;
      visit_index_q <= {CTX_W{1'b0}};
    end else begin
      long_q <= post_long ? long_q | posting : long_q & ~posting;
      acts_q <= begins || (acts_q && !done);
      requested_q <= (requests && m_more_ready) || (requested_q && !done);
      outcome_waits_q <= m_outcome_valid && !m_outcome_ready;
      held_q <= (held_q & ~freeing & ~ended) | holding;
      posted_q <= (posted_q & ~pop_bit) | post_bit;
      if (s_tick) tick_q <= period_ends ? 32'd0 : tick_q + 32'd1;
      visit_q <= (visit_due && visits) || (visit_q && !(done && visited));
      if ((visit_due && !visits) || (done && visited)) visit_index_q <= visit_index_q + A_PLACE;
    end
  end

  always @(posedge clk) begin
    if (!outcome_waits_q) outcome_q <= ack;
    if (begins) begin
      kind_q  <= pop_valid ? POPPED : note_event ? NOTED : s_placed_valid ? PLACED : post_event ? AGAIN : VISITED;
      index_q <= event_index;
      used_q  <= s_ctx_used[event_index[CTX_W-1:0]];
    end
  end

  wire unused_bits = &{1'b0, pop_level, post_node, post_id, s_note_data};

  `EFA_STREAM(u_edge_outcome, `EFA_SEND_OUTCOME__W, clk, rst, m_outcome_valid, m_outcome_ready,
              m_outcome_data)
  `EFA_CHECK(!(s_popped_valid && popped_long) || pop_space, "more posted packets than contexts")

endmodule

`default_nettype wire
