// SPDX-License-Identifier: Apache-2.0
// efa_peer_list - holds the message contexts that wait for each peer, in order, in linked lists.
//
// In    s_push_*: a context joins the list of a node, with user bits; s_look_node: a list to look at;
//       s_pop: the context that was found leaves
// Out   m_found: the list had a context; m_id, m_user: the first one
// Time  one push per cycle, in the list one cycle later; m_found, m_id and m_user 2 cycles after
//       s_look_node; s_pop in that cycle, one look and one pop per cycle, also of the same list; after
//       rst an initialisation of one cycle per peer
//
// Two words for each peer, each with one owner: pushed contexts (count, last one, first one since
// the list was empty) and popped contexts (count, next one). A context has one link, and is in one
// list only. A list that got its last push in the cycle of a look may still be found empty.
//
// l1 has the words of the peer of s_look_node, l2 the first context and its link. A look that follows
// one at the same list does not see the pop of that one in its words: its first context is the link of
// the popped one. Without a pop, it has the same first context.
`default_nettype none
`include "efa_check.vh"

module efa_peer_list #(
    parameter NODE_W = 6,
    parameter CTX_W  = 11,
    parameter ID_W   = 32,  // a context is the low CTX_W bits of its id
    parameter USER_W = 1
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire s_push_valid,
    input wire [NODE_W-1:0] s_push_node,
    input wire [ID_W-1:0] s_push_id,
    input wire [USER_W-1:0] s_push_user,
    input wire [NODE_W-1:0] s_look_node,
    output wire m_found,
    output wire [ID_W-1:0] m_id,
    output wire [USER_W-1:0] m_user,
    input wire s_pop
);

  localparam COUNT_W = CTX_W + 1;
  localparam PUSHED_W = COUNT_W + 2 * CTX_W;
  localparam POPPED_W = COUNT_W + 1 + CTX_W;
  localparam HIGH_W = ID_W - CTX_W;
  localparam [COUNT_W-1:0] ONE = 1;
  localparam [NODE_W:0] ONE_NODE = 1;

  reg [NODE_W:0] init_q;

  reg p1_valid_q;
  reg [NODE_W-1:0] p1_node_q;
  reg [ID_W-1:0] p1_id_q;
  reg [USER_W-1:0] p1_user_q;

  reg [NODE_W-1:0] l1_node_q;
  reg [NODE_W-1:0] l2_node_q;
  reg l2_found_q;
  reg [CTX_W-1:0] l2_first_q;
  reg [COUNT_W-1:0] l2_popped_q;
  reg l2_stays_q;  // the first context is that of the look before
  reg [CTX_W-1:0] last_link_q;  // of the look before
  reg [HIGH_W+USER_W-1:0] last_rest_q;

  wire initializing = !init_q[NODE_W];

  // p1: push.
  wire [PUSHED_W-1:0] p1_pushed;
  wire [POPPED_W-1:0] p1_popped;
  wire [COUNT_W-1:0] p1_count;
  wire [CTX_W-1:0] p1_last;
  wire [CTX_W-1:0] p1_first;
  assign {p1_count, p1_last, p1_first} = p1_pushed;
  wire p1_empty = p1_count == p1_popped[POPPED_W-1-:COUNT_W];
  wire [CTX_W-1:0] p1_place = p1_id_q[CTX_W-1:0];
  wire [PUSHED_W-1:0] pushed_d = {p1_count + ONE, p1_place, p1_empty ? p1_place : p1_first};

  // l1: the first context.
  wire [PUSHED_W-1:0] l1_pushed;
  wire [POPPED_W-1:0] l1_popped;
  wire [COUNT_W-1:0] l1_count;
  wire l1_known;
  wire [CTX_W-1:0] l1_next;
  assign {l1_count, l1_known, l1_next} = l1_popped;
  wire [CTX_W-1:0] l1_first = l1_known ? l1_next : l1_pushed[CTX_W-1:0];
  wire [COUNT_W-1:0] l1_pushed_count = l1_pushed[PUSHED_W-1-:COUNT_W];
  wire l1_follows = l2_found_q && l1_node_q == l2_node_q;

  // l2: a pop. A context that is pushed now is the next one of a list with one context.
  wire [PUSHED_W-1:0] l2_pushed;
  wire [CTX_W-1:0] read_link;
  wire [HIGH_W+USER_W-1:0] read_rest;
  wire [CTX_W-1:0] l2_link = l2_stays_q ? last_link_q : read_link;
  wire [HIGH_W+USER_W-1:0] l2_rest = l2_stays_q ? last_rest_q : read_rest;
  wire [COUNT_W-1:0] l2_after = l2_popped_q + ONE;
  wire more = l2_pushed[PUSHED_W-1-:COUNT_W] != l2_after;
  wire joins = p1_valid_q && p1_node_q == l2_node_q;
  wire [POPPED_W-1:0] popped_d = {l2_after, more || joins, more ? l2_link : p1_place};
  wire link_written = p1_valid_q && !p1_empty && p1_last == l2_first_q;

  // s_pop arrives late, so what follows a pop is read in any case.
  wire l1_pops = l1_follows && s_pop;
  wire found_after_pop = l1_pushed_count != l2_after;
  wire found = l1_pushed_count != l1_count;
  wire [CTX_W-1:0] read_at = l1_follows ? l2_link : l1_first;

  wire write_popped = initializing || s_pop;
  wire [NODE_W-1:0] popped_node = initializing ? init_q[NODE_W-1:0] : l2_node_q;
  wire [POPPED_W-1:0] popped_data = initializing ? {POPPED_W{1'b0}} : popped_d;
  wire write_pushed = initializing || p1_valid_q;
  wire [NODE_W-1:0] pushed_node = initializing ? init_q[NODE_W-1:0] : p1_node_q;
  wire [PUSHED_W-1:0] pushed_data = initializing ? {PUSHED_W{1'b0}} : pushed_d;

  assign m_init_done = !initializing;
  assign m_found = l2_found_q;
  assign m_id = {l2_rest[USER_W+:HIGH_W], l2_first_q};
  assign m_user = l2_rest[USER_W-1:0];

  efa_ram_fwd #(
      .WIDTH (PUSHED_W),
      .ADDR_W(NODE_W),
      .READS (3)
  ) u_pushed (
      .clk(clk),
      .wr_en(write_pushed),
      .wr_addr(pushed_node),
      .wr_data(pushed_data),
      .rd_addr({l1_node_q, s_look_node, s_push_node}),
      .rd_data({l2_pushed, l1_pushed, p1_pushed})
  );

  efa_ram_fwd #(
      .WIDTH (POPPED_W),
      .ADDR_W(NODE_W),
      .READS (2)
  ) u_popped (
      .clk(clk),
      .wr_en(write_popped),
      .wr_addr(popped_node),
      .wr_data(popped_data),
      .rd_addr({s_look_node, s_push_node}),
      .rd_data({l1_popped, p1_popped})
  );

  efa_ram_fwd #(
      .WIDTH (CTX_W),
      .ADDR_W(CTX_W)
  ) u_links (
      .clk(clk),
      .wr_en(p1_valid_q && !p1_empty),
      .wr_addr(p1_last),
      .wr_data(p1_place),
      .rd_addr(read_at),
      .rd_data(read_link)
  );

  efa_ram_fwd #(
      .WIDTH (HIGH_W + USER_W),
      .ADDR_W(CTX_W)
  ) u_ids (
      .clk(clk),
      .wr_en(p1_valid_q),
      .wr_addr(p1_place),
      .wr_data({p1_id_q[ID_W-1:CTX_W], p1_user_q}),
      .rd_addr(read_at),
      .rd_data(read_rest)
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {NODE_W + 1{1'b0}};
      p1_valid_q <= 1'b0;
      l2_found_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE_NODE;
      p1_valid_q <= s_push_valid;
      l2_found_q <= !initializing && (l1_pops ? found_after_pop : found);
    end
  end

  always @(posedge clk) begin
    p1_node_q <= s_push_node;
    p1_id_q <= s_push_id;
    p1_user_q <= s_push_user;
    l1_node_q <= s_look_node;
    l2_node_q <= l1_node_q;
    l2_first_q <= l1_pops ? l2_link : l1_first;
    l2_popped_q <= l1_pops ? l2_after : l1_count;
    l2_stays_q <= l1_follows && !s_pop;
    last_link_q <= link_written ? p1_place : l2_link;
    last_rest_q <= l2_rest;
  end

  wire unused_bits = &{1'b0, p1_popped, l1_pushed, l2_pushed};

  `EFA_CHECK(!s_pop || l2_found_q, "pop of an empty list")
  `EFA_CHECK(!s_push_valid || !initializing, "push before the end of the initialisation")

endmodule

`default_nettype wire
