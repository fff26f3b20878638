// SPDX-License-Identifier: Apache-2.0
// efa_tx_space - gives the packets of each peer their PSNs and paths, and sends them.
//
// In    s_post: packets to send; limits_rd_data: what the peer of limits_rd_addr may send;
//       s_wake_*: the limits of a peer have changed, with s_wake_request: something else than new
//       packets may be due; s_number: next number of a session; s_ended: contexts whose messages have
//       ended; s_purge: some have ended unsent
// Out   m_send: transmissions, with m_send_now: that of the packet posted in the cycle before;
//       m_popped_*: a context has left the posted ones; m_flush: notes of posted packets that leave
//       unsent; m_number_take;
//       m_served_*: a peer has sent a packet that was requested, or its session is forgotten;
//       space_rd_data, record_rd_data: numbers of a peer, and its transmission
//       of a slot
// Time  transmission 1 cycle after s_post on an idle sender, one per cycle, also to one peer;
//       space_rd_data and record_rd_data follow their addresses by one cycle; after rst an
//       initialisation of one cycle per peer
//
// Peers take turns. A turn sends one packet, in this order: a probe, a retransmission, a packet
// after RNR, a new one. A turn without a packet ends the turns of its peer until a post or new
// limits. A posted packet whose message has ended leaves without a PSN. A turn decides from limits
// of the cycle before; these only become wider in a session, and a stored mode other than NORMAL
// holds from the next cycle on.
//
// A new packet of a peer without posted ones does not wait for a turn, if t1 is free: it is decided one
// cycle after its post. If it may not leave, it joins the list of its peer in that cycle. All other
// packets join one cycle after their post, too, so they keep their order.
//
// t0 chooses the peer, t1 reads its numbers and limits, t2 decides. A turn waits in t1 until the
// output has space.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_tx_space #(
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W,
    parameter CTX_W = `EFA_LIMITS__MSG_W + 1,  // contexts of a kind: of sends, of read responses
    parameter PSN_LEFT = 0,  // packets of a session until PSNs wrap; 0: 2^32
    parameter ORDER_LEFT = 0  // packets of a path until order numbers wrap; 0: 2^16
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire s_post_valid,
    output wire s_post_ready,
    input wire [`EFA_SRD_POST__W-1:0] s_post_data,
    input wire [(1<<CTX_W)-1:0] s_ended,  // of sends
    input wire s_purge,
    output wire m_popped_valid,
    output wire [CTX_W:0] m_popped_index,  // kind, context
    input wire [15:0] s_number,
    output wire m_number_take,
    input wire s_wake_valid,
    input wire [NODE_W-1:0] s_wake_node,
    input wire s_wake_request,
    output wire [NODE_W-1:0] limits_rd_addr,
    input wire [`EFA_TX_LIMITS__W-1:0] limits_rd_data,
    output wire m_send_valid,
    input wire m_send_ready,
    output wire [`EFA_SRD_SEND__W-1:0] m_send_data,
    output wire m_send_now,
    output wire m_flush_valid,
    input wire m_flush_ready,
    output wire [`EFA_SRD_NOTE__W-1:0] m_flush_data,
    output wire m_served_valid,
    output wire [NODE_W-1:0] m_served_node,
    input wire [NODE_W-1:0] space_rd_addr,
    output wire [`EFA_TX_SPACE__W-1:0] space_rd_data,
    input wire [NODE_W+WINDOW_W-1:0] record_rd_addr,
    output wire [`EFA_TX_RECORD__W-1:0] record_rd_data
);

  localparam NODES = 1 << NODE_W;
  localparam SPACE_W = `EFA_TX_SPACE__W;
  localparam [NODE_W:0] ONE_NODE = 1;
  localparam [NODES-1:0] A_PEER = 1;
  localparam ID_W = 33;  // id, with the kind of context above the index
  localparam USER_W = 20;  // kind and number of the packet
  localparam [1:0] RESPONSE = `EFA_PACKET_KIND__RESPONSE;
  localparam [31:0] PSNS = PSN_LEFT;
  localparam [31:0] ORDERS = ORDER_LEFT;
  localparam [15:0] FIRST_ORDER = 16'd0 - ORDERS[15:0];

  reg [NODE_W:0] init_q;
  reg [NODES-1:0] wake_q;
  reg [NODES-1:0] empty_q;  // peers without posted packets
  reg p_valid_q;
  reg [`EFA_SRD_POST__W-1:0] p_data_q;
  reg t1_valid_q;
  reg t2_valid_q;
  reg [NODE_W-1:0] t1_node_q;
  reg [NODE_W-1:0] t2_node_q;
  // A cause to look again has come since the choice of the peer.
  reg t1_woken_q;
  reg t2_woken_q;
  reg t2_direct_q;  // the packet of p, not one of the lists
  reg flush_valid_q;
  reg [`EFA_SRD_NOTE__W-1:0] flush_q;

  wire initializing = !init_q[NODE_W];

  wire post = s_post_valid && s_post_ready;
  wire [15:0] post_node = s_post_data[`EFA_SRD_POST__NODE];
  wire post_again = s_post_data[`EFA_SRD_POST__AGAIN];

  // p: the packet of the cycle before.
  wire [15:0] p_node = p_data_q[`EFA_SRD_POST__NODE];
  wire p_again = p_data_q[`EFA_SRD_POST__AGAIN];
  wire [31:0] p_id = p_data_q[`EFA_SRD_POST__ID];
  wire [1:0] p_kind = p_data_q[`EFA_SRD_POST__KIND];
  wire [ID_W-1:0] p_place = {p_id[31:CTX_W], p_kind == RESPONSE, p_id[CTX_W-1:0]};
  wire [USER_W-1:0] p_user = {p_kind, p_data_q[`EFA_SRD_POST__PART]};
  wire [NODES-1:0] p_bit = p_valid_q ? A_PEER << p_node[NODE_W-1:0] : {NODES{1'b0}};

  // Transmissions that wait for the output. One more has space, also behind that of t2.
  wire queue_valid;
  wire queue_ready;
  wire [2:0] queued;
  wire [`EFA_SRD_SEND__W-1:0] queue_data;
  wire space_left = !queued[2] && !(queued[1:0] == 2'd3 && t2_valid_q);

  // t0
  wire t1_stays = t1_valid_q && !space_left;
  wire [NODES-1:0] grant;
  wire [NODE_W-1:0] granted;
  wire begin_turn = grant != {NODES{1'b0}};
  wire [NODE_W-1:0] look_node = t1_stays ? t1_node_q : granted;

  // t1
  wire decide = t1_valid_q && space_left;
  wire direct = post && !post_again && !t1_valid_q && space_left;
  wire [NODE_W-1:0] read_node = t1_valid_q ? t1_node_q : post_node[NODE_W-1:0];

  // t2
  wire [SPACE_W-1:0] space;
  wire [15:0] session = space[`EFA_TX_SPACE__SESSION];
  wire [31:0] next = space[`EFA_TX_SPACE__NEXT];
  wire [15:0] sent = space[`EFA_TX_SPACE__SENT];
  wire [127:0] orders = space[`EFA_TX_SPACE__ORDERS];
  wire [2:0] turn = space[`EFA_TX_SPACE__TURN];
  wire [1:0] mode = limits_rd_data[`EFA_TX_LIMITS__MODE];
  wire [31:0] oldest = limits_rd_data[`EFA_TX_LIMITS__OLDEST];
  wire [15:0] settled = limits_rd_data[`EFA_TX_LIMITS__SETTLED];
  wire [127:0] path_settled = limits_rd_data[`EFA_TX_LIMITS__PATH_SETTLED];
  wire [7:0] usable = limits_rd_data[`EFA_TX_LIMITS__USABLE];
  wire [2:0] probe_path = limits_rd_data[`EFA_TX_LIMITS__PROBE_PATH];
  wire [1:0] listed;  // 0: after RNR, 1: new
  wire [2*ID_W-1:0] ids;
  wire [2*USER_W-1:0] users;
  wire [1:0] found = t2_direct_q ? 2'b10 : listed;
  wire t2_goes = t2_valid_q && (!t2_direct_q || empty_q[t2_node_q]);

  wire [31:0] outstanding = next - oldest;
  wire [15:0] in_flight = sent - settled;
  wire in_window = outstanding[31:WINDOW_W] == {32 - WINDOW_W{1'b0}};
  wire may = in_flight < limits_rd_data[`EFA_TX_LIMITS__WINDOW];
  wire normal = t2_goes && mode == `EFA_TX_MODE__NORMAL;
  wire ends = t2_valid_q && !t2_direct_q && session != 16'd0;
  wire flush = ends && mode == `EFA_TX_MODE__FLUSH;
  wire flushes = flush && found != 2'b00 && (!flush_valid_q || m_flush_ready);
  wire forget = (ends && mode == `EFA_TX_MODE__FORGET) || (flush && found == 2'b00);

  wire probes = normal && limits_rd_data[`EFA_TX_LIMITS__PROBE]
      && limits_rd_data[`EFA_TX_LIMITS__PROBE_TURN] != space[`EFA_TX_SPACE__PROBE];
  wire repeats = normal && !probes && may && limits_rd_data[`EFA_TX_LIMITS__AGAIN]
      && limits_rd_data[`EFA_TX_LIMITS__AGAIN_TURN] != space[`EFA_TX_SPACE__AGAIN];
  wire [ID_W-1:0] first = t2_direct_q ? p_place : listed[0] ? ids[ID_W-1:0] : ids[2*ID_W-1:ID_W];
  wire [31:0] first_id = {first[ID_W-1:CTX_W+1], first[CTX_W-1:0]};
  wire [1:0] first_kind;
  wire [17:0] first_part;
  assign {first_kind, first_part} = t2_direct_q ? p_user
      : listed[0] ? users[USER_W-1:0] : users[2*USER_W-1:USER_W];
  wire ended = first_kind != RESPONSE && s_ended[first_id[CTX_W-1:0]];
  wire takes = normal && !probes && !repeats && found != 2'b00;
  wire begins = takes && !ended && may && in_window && !limits_rd_data[`EFA_TX_LIMITS__WAITS];
  wire sends = probes || repeats || begins;
  wire leaves = begins || (takes && ended) || flushes;
  wire [1:0] pop = {leaves && !t2_direct_q && !listed[0], leaves && !t2_direct_q && listed[0]};
  wire push = p_valid_q && !(t2_direct_q && leaves);
  wire take_number = begins && session == 16'd0;

  wire [2:0] chosen;
  wire [2:0] path = probes ? probe_path : chosen;
  wire [31:0] psn = probes ? limits_rd_data[`EFA_TX_LIMITS__PROBE_PSN]
      : repeats ? limits_rd_data[`EFA_TX_LIMITS__AGAIN_PSN] : next;
  wire [31:0] behind = psn - oldest;
  wire [31:0] id = probes ? limits_rd_data[`EFA_TX_LIMITS__PROBE_ID]
      : repeats ? limits_rd_data[`EFA_TX_LIMITS__AGAIN_ID] : first_id;
  wire [17:0] part = probes ? limits_rd_data[`EFA_TX_LIMITS__PROBE_PART]
      : repeats ? limits_rd_data[`EFA_TX_LIMITS__AGAIN_PART] : first_part;
  wire [1:0] kind = probes ? limits_rd_data[`EFA_TX_LIMITS__PROBE_KIND]
      : repeats ? limits_rd_data[`EFA_TX_LIMITS__AGAIN_KIND] : first_kind;
  wire [15:0] order = orders[16*chosen+:16];

  reg [SPACE_W-1:0] first_space;
  reg [SPACE_W-1:0] space_d;
  reg [`EFA_SRD_SEND__W-1:0] send_d;
  reg [`EFA_SRD_NOTE__W-1:0] flush_d;
  reg [`EFA_TX_RECORD__W-1:0] record;
  reg [127:0] orders_d;
  always @* begin
    first_space = {SPACE_W{1'b0}};
    first_space[`EFA_TX_SPACE__NEXT] = 32'd0 - PSNS;
    first_space[`EFA_TX_SPACE__ORDERS] = {8{FIRST_ORDER}};
    orders_d = orders;
    orders_d[16*chosen+:16] = order + 16'd1;
    space_d = space;
    if (probes) begin
      space_d[`EFA_TX_SPACE__PROBE] = limits_rd_data[`EFA_TX_LIMITS__PROBE_TURN];
    end else begin
      space_d[`EFA_TX_SPACE__SENT] = sent + 16'd1;
      space_d[`EFA_TX_SPACE__ORDERS] = orders_d;
      space_d[`EFA_TX_SPACE__TURN] = path + 3'd1;
    end
    if (repeats) begin
      space_d[`EFA_TX_SPACE__AGAIN] = limits_rd_data[`EFA_TX_LIMITS__AGAIN_TURN];
      space_d[`EFA_TX_SPACE__AGAIN_PATH] = path;
    end
    if (begins) space_d[`EFA_TX_SPACE__NEXT] = next + 32'd1;
    if (take_number) space_d[`EFA_TX_SPACE__SESSION] = s_number;
    record = {`EFA_TX_RECORD__W{1'b0}};
    record[`EFA_TX_RECORD__ID] = id;
    record[`EFA_TX_RECORD__PART] = part;
    record[`EFA_TX_RECORD__KIND] = kind;
    record[`EFA_TX_RECORD__PATH] = path;
    record[`EFA_TX_RECORD__ORDER] = order;
    send_d = {`EFA_SRD_SEND__W{1'b0}};
    send_d[`EFA_SRD_SEND__ID] = id;
    send_d[`EFA_SRD_SEND__PART] = part;
    send_d[`EFA_SRD_SEND__KIND] = kind;
    send_d[`EFA_SRD_SEND__NODE] = {{16 - NODE_W{1'b0}}, t2_node_q};
    send_d[`EFA_SRD_SEND__PSN] = psn;
    send_d[`EFA_SRD_SEND__SESSION] = take_number ? s_number : session;
    send_d[`EFA_SRD_SEND__INCARNATION] = limits_rd_data[`EFA_TX_LIMITS__INCARNATION];
    send_d[`EFA_SRD_SEND__PATH] = {5'd0, path};
    send_d[`EFA_SRD_SEND__BEHIND] = behind[15:0];
    send_d[`EFA_SRD_SEND__AGAIN] = !begins;
    send_d[`EFA_SRD_SEND__PROBE] = probes;
    send_d[`EFA_SRD_SEND__ORDER] = order;
    flush_d = {`EFA_SRD_NOTE__W{1'b0}};
    flush_d[`EFA_SRD_NOTE__NODE] = {{16 - NODE_W{1'b0}}, t2_node_q};
    flush_d[`EFA_SRD_NOTE__ID] = first_id;
    flush_d[`EFA_SRD_NOTE__KIND] = first_kind;
    flush_d[`EFA_SRD_NOTE__STATUS] = limits_rd_data[`EFA_TX_LIMITS__STATUS];
  end

  wire write = initializing || sends || forget;
  wire [NODE_W-1:0] write_node = initializing ? init_q[NODE_W-1:0] : t2_node_q;
  wire [SPACE_W-1:0] write_space = sends && !initializing ? space_d : first_space;

  // A cause to look again: a packet joins a list, or new limits that matter.
  wire [NODES-1:0] pushes = push ? p_bit : {NODES{1'b0}};
  wire wake = s_wake_valid && (s_wake_request || !empty_q[s_wake_node]);
  wire [NODES-1:0] limits_wake = wake ? A_PEER << s_wake_node : {NODES{1'b0}};
  wire [NODES-1:0] causes = p_bit | limits_wake;
  wire t0_woken = s_purge || (causes & grant) != {NODES{1'b0}};
  wire t1_woken = s_purge || t1_woken_q || causes[t1_node_q];
  wire t2_turn = t2_valid_q && !t2_direct_q;
  wire idle = t2_turn && !sends && !leaves && !(flush && found != 2'b00) && !t2_woken_q;
  wire [NODES-1:0] sleeps = idle ? A_PEER << t2_node_q : {NODES{1'b0}};
  wire [NODES-1:0] empties = listed == 2'b00 ? sleeps : {NODES{1'b0}};

  wire now = begins && t2_direct_q && !queue_valid;

  wire [1:0] list_init;
  assign m_init_done = !initializing && list_init == 2'b11;
  assign s_post_ready = m_init_done;
  assign m_popped_valid = leaves;
  assign m_popped_index = first[CTX_W:0];
  assign m_number_take = take_number;
  assign limits_rd_addr = read_node;
  assign m_send_valid = queue_valid || now;
  assign m_send_data = queue_valid ? queue_data : send_d;
  assign m_send_now = !queue_valid;
  assign m_flush_valid = flush_valid_q;
  assign m_flush_data = flush_q;
  assign m_served_valid = probes || repeats || forget;
  assign m_served_node = t2_node_q;

  efa_arb #(
      .N(NODES)
  ) u_turns (
      .clk(clk),
      .rst(rst),
      .s_request(t1_stays ? {NODES{1'b0}} : wake_q),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  efa_onehot_index #(
      .INDEX_W(NODE_W)
  ) u_granted (
      .s_bits(grant),
      .m_index(granted)
  );

  genvar place;
  generate
    for (place = 0; place < 2; place = place + 1) begin : g_list
      localparam [0:0] NEW = place;
      efa_peer_list #(
          .NODE_W(NODE_W),
          .CTX_W (CTX_W + 1),
          .ID_W  (ID_W),
          .USER_W(USER_W)
      ) u_list (
          .clk(clk),
          .rst(rst),
          .m_init_done(list_init[place]),
          .s_push_valid(push && p_again != NEW),
          .s_push_node(p_node[NODE_W-1:0]),
          .s_push_id(p_place),
          .s_push_user(p_user),
          .s_look_node(look_node),
          .m_found(listed[place]),
          .m_id(ids[ID_W*place+:ID_W]),
          .m_user(users[USER_W*place+:USER_W]),
          .s_pop(pop[place])
      );
    end
  endgenerate

  efa_fifo #(
      .WIDTH(`EFA_SRD_SEND__W),
      .DEPTH_LOG2(2)
  ) u_sends (
      .clk(clk),
      .rst(rst),
      .s_valid(sends && !(now && m_send_ready)),
      .s_ready(queue_ready),
      .s_data(send_d),
      .m_valid(queue_valid),
      .m_ready(m_send_ready),
      .m_data(queue_data),
      .m_level(queued)
  );

  efa_path_choose #(
      .PATHS_W(`EFA_TRANSPORT__PATHS_W)
  ) u_choose (
      .s_usable(usable),
      .s_sent(orders),
      .s_settled(path_settled),
      .s_first(turn),
      .m_path(chosen)
  );

  efa_ram_fwd #(
      .WIDTH (SPACE_W),
      .ADDR_W(NODE_W),
      .READS (2)
  ) u_spaces (
      .clk(clk),
      .wr_en(write),
      .wr_addr(write_node),
      .wr_data(write_space),
      .rd_addr({space_rd_addr, read_node}),
      .rd_data({space_rd_data, space})
  );

  efa_ram #(
      .WIDTH (`EFA_TX_RECORD__W),
      .ADDR_W(NODE_W + WINDOW_W)
  ) u_records (
      .clk(clk),
      .wr_en(repeats || begins),
      .wr_addr({t2_node_q, psn[WINDOW_W-1:0]}),
      .wr_data(record),
      .rd_en(1'b1),
      .rd_addr(record_rd_addr),
      .rd_data(record_rd_data)
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {NODE_W + 1{1'b0}};
      wake_q <= {NODES{1'b0}};
      empty_q <= {NODES{1'b1}};
      p_valid_q <= 1'b0;
      t1_valid_q <= 1'b0;
      t2_valid_q <= 1'b0;
      flush_valid_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE_NODE;
      wake_q <= (wake_q & ~sleeps) | pushes | limits_wake | {NODES{s_purge}};
      empty_q <= (empty_q | empties) & ~pushes;
      p_valid_q <= post;
      t1_valid_q <= begin_turn || t1_stays;
      t2_valid_q <= decide || direct;
      flush_valid_q <= flushes || (flush_valid_q && !m_flush_ready);
    end
  end

  always @(posedge clk) begin
    p_data_q <= s_post_data;
    t1_node_q <= look_node;
    t2_node_q <= read_node;
    t1_woken_q <= t1_stays ? t1_woken : t0_woken;
    t2_woken_q <= t1_woken;
    t2_direct_q <= direct;
    if (flushes) flush_q <= flush_d;
  end

  wire unused_bits = &{1'b0, p_data_q, post_node, p_node, behind[31:16], outstanding};

  `EFA_CHECK(!(s_post_valid && post_node >= NODES), "packet to a peer that does not exist")
  `EFA_CHECK(!sends || queue_ready, "transmission without space")
  `EFA_CHECK(!t2_valid_q || !sends || behind[31:WINDOW_W] == {32 - WINDOW_W{1'b0}},
             "packet beyond the window")
  `EFA_CHECK(!t2_valid_q || !sends || usable != 8'd0, "no usable path")

endmodule

`default_nettype wire
