// SPDX-License-Identifier: Apache-2.0
// efa_tx_resolve - resolves the packets of each peer: acknowledgements, losses, timeouts, sessions.
//
// In    s_ack: what acknowledgements say; s_gone: transmissions that were not made; s_look: a peer to
//       look at; s_flush: notes of posted packets that leave unsent; space_rd_data, record_rd_data: numbers
//       of a peer and its transmission of a slot, one cycle after their addresses; departed_rd_data,
//       ticks_rd_data: as in efa_tx_departed, of the same addresses; s_last_number:
//       last number of a session; s_ticks: the time; s_cfg_paths: paths that exist
// Out   m_note: outcomes of packets, ends of sessions; ev_anomaly_ack: an acknowledgement that
//       no correct peer sends; limits_rd_data: what a peer may send, one cycle after its address;
//       m_wake_*: its limits have changed, with m_wake_request: by more than room for new packets;
//       m_begin_*: a look begins; m_set_*: when to look next, two cycles after it is known
// Time  first note 9 cycles after s_ack, one per cycle; an acknowledgement takes 10 to 15 cycles and one
//       for each packet that it resolves, one that joins only those; a search for losses one for each
//       packet in flight; after rst an initialisation of one cycle per peer
//
// One peer is in work at a time, with its state in registers. A walk passes over slots: w0 finds a
// slot, w1 has its record.
//
// While the packets of an acknowledgement are resolved, later acknowledgements of the same peer join
// the walk: they only add slots. This ends with the first one that may do more, when another event
// waits, and when the timer expires or ages are to be checked: efa_tx_timer passes over a peer whose
// acknowledgement waits. Limits and times follow every 2^SHOW_W cycles.
//
// A session ends in steps: the limits hold its packets back; the packets that are not resolved end;
// efa_tx_space ends the posted ones, if the peer is dead, and forgets its numbers; the next look
// reports the end. Other peers are looked at meanwhile.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_tx_resolve #(
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W,
    parameter RTO_INITIAL = `EFA_TRANSPORT__RTO_INITIAL,
    parameter RTO_RETRIES = `EFA_TRANSPORT__RTO_RETRIES,
    parameter PATH_PROBE = `EFA_TRANSPORT__PATH_PROBE,
    parameter CWND_INITIAL = `EFA_TRANSPORT__CWND_INITIAL,
    parameter PSN_LEFT = 0,  // as in efa_tx_space
    parameter ORDER_LEFT = 0
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire [7:0] s_cfg_paths,
    input wire [23:0] s_ticks,
    input wire [15:0] s_last_number,
    input wire s_ack_valid,
    output wire s_ack_ready,
    input wire [`EFA_TX_ACK__W-1:0] s_ack_data,
    input wire s_gone_valid,
    output wire s_gone_ready,
    input wire [`EFA_SRD_GONE__W-1:0] s_gone_data,
    input wire s_look_valid,
    output wire s_look_ready,
    input wire [NODE_W-1:0] s_look_node,
    input wire s_flush_valid,
    output wire s_flush_ready,
    input wire [`EFA_SRD_NOTE__W-1:0] s_flush_data,
    output wire [NODE_W-1:0] space_rd_addr,
    input wire [`EFA_TX_SPACE__W-1:0] space_rd_data,
    output wire [NODE_W+WINDOW_W-1:0] record_rd_addr,
    input wire [`EFA_TX_RECORD__W-1:0] record_rd_data,
    input wire [`EFA_TX_DEPARTED__W-1:0] departed_rd_data,
    input wire [23:0] ticks_rd_data,
    input wire [NODE_W-1:0] limits_rd_addr,
    output wire [`EFA_TX_LIMITS__W-1:0] limits_rd_data,
    output wire m_wake_valid,
    output wire [NODE_W-1:0] m_wake_node,
    output wire m_wake_request,
    output wire m_begin_valid,
    output wire [NODE_W-1:0] m_begin_node,
    output wire m_set_valid,
    output wire [NODE_W-1:0] m_set_node,
    output wire m_set_armed,
    output wire [23:0] m_set_ticks,
    output wire ev_anomaly_ack_valid,
    output wire [63:0] ev_anomaly_ack_data,
    output wire m_note_valid,
    input wire m_note_ready,
    output wire [`EFA_SRD_NOTE__W-1:0] m_note_data
);

  localparam WINDOW = 1 << WINDOW_W;
  localparam WINDOW_STATE_W = 32 + 3 * WINDOW;
  localparam STATE_W = `EFA_TX_SELF__W + `EFA_TX_DEADLINES__W +
  `EFA_TX_REQUESTS__W
  + `EFA_TX_MEASURE__W + WINDOW_STATE_W;
  localparam [31:0] PSNS = PSN_LEFT;
  localparam [31:0] FIRST_PSN = 32'd0 - PSNS;
  localparam [NODE_W:0] ONE_NODE = 1;

  localparam SHOW_W = 3;
  localparam [WINDOW_W-1:0] A_SLOT = 1;

  localparam [4:0] ST_INIT = 5'd0;
  localparam [4:0] ST_IDLE = 5'd1;
  localparam [4:0] ST_LOAD = 5'd2;
  localparam [4:0] ST_SYNC = 5'd3;
  localparam [4:0] ST_MASK = 5'd4;
  localparam [4:0] ST_ACK = 5'd5;
  localparam [4:0] ST_GONE = 5'd6;
  localparam [4:0] ST_LOOK = 5'd7;
  localparam [4:0] ST_WALK = 5'd8;
  localparam [4:0] ST_ADVANCE = 5'd9;
  localparam [4:0] ST_SEARCH = 5'd10;
  localparam [4:0] ST_REQUEST = 5'd11;
  localparam [4:0] ST_AGAIN = 5'd12;
  localparam [4:0] ST_PROBE = 5'd13;
  localparam [4:0] ST_STORE = 5'd14;
  localparam [4:0] ST_END_HOLD = 5'd15;
  localparam [4:0] ST_END_LOAD = 5'd16;
  localparam [4:0] ST_END_FORGET = 5'd17;
  localparam [4:0] ST_END_NOTE = 5'd18;

  localparam [1:0] EVENT_ACK = 2'd0;
  localparam [1:0] EVENT_GONE = 2'd1;
  localparam [1:0] EVENT_LOOK = 2'd2;

  localparam [1:0] MODE_NORMAL = `EFA_TX_MODE__NORMAL;
  localparam [1:0] MODE_HOLD = `EFA_TX_MODE__HOLD;
  localparam [1:0] MODE_FLUSH = `EFA_TX_MODE__FLUSH;
  localparam [1:0] MODE_FORGET = `EFA_TX_MODE__FORGET;
  localparam [7:0] ABORT = `EFA_IO_COMP_STATUS__REMOTE_ERROR_ABORT;
  localparam [7:0] UNRESPONSIVE = `EFA_IO_COMP_STATUS__LOCAL_ERROR_UNRESP_REMOTE;
  localparam [7:0] UNREACHABLE = `EFA_IO_COMP_STATUS__LOCAL_ERROR_UNREACH_REMOTE;
  localparam [31:0] GIVEN = `EFA_TX_SLOTS__GIVEN;
  localparam [31:0] IN_FLIGHT = `EFA_TX_SLOTS__IN_FLIGHT;
  localparam [31:0] LOST = `EFA_TX_SLOTS__LOST;
  localparam [31:0] UNRESOLVED = `EFA_TX_SLOTS__UNRESOLVED;

  localparam [2:0] JOIN_NONE = 3'd0;
  localparam [2:0] JOIN_TAKEN = 3'd1;
  localparam [2:0] JOIN_SHOWN = 3'd4;
  localparam [2:0] A_JOIN_STEP = 3'd1;

  localparam [2:0] WALK_RESOLVE = 3'd0;
  localparam [2:0] WALK_LOSS = 3'd1;
  localparam [2:0] WALK_TIMEOUT = 3'd2;
  localparam [2:0] WALK_LOSE = 3'd3;
  localparam [2:0] WALK_END = 3'd4;

  reg [4:0] state_q;
  reg [4:0] state_d;
  reg [NODE_W:0] init_q;
  reg [1:0] event_q;
  reg reload_q;  // the look continues after a store
  reg [NODE_W-1:0] node_q;
  reg [`EFA_TX_ACK__W-1:0] ack_q;
  reg [`EFA_SRD_GONE__W-1:0] gone_q;
  reg [`EFA_TX_SPACE__W-1:0] space_q;
  reg [1:0] count_q;
  reg [2:0] walk_q;
  reg [2:0] walk_d;
  reg w1_valid_q;
  reg [WINDOW_W-1:0] w1_slot_q;
  reg more_q;  // an acknowledgement that may join the walk waits
  reg [2:0] join_q;
  reg [SHOW_W-1:0] show_q;
  reg sets_q;
  // m_set_* of store or sets_q, two cycles later as those of u_deadlines.
  reg s0_set_q;
  reg s0_live_q;
  reg [NODE_W-1:0] s0_node_q;
  reg s1_set_q;
  reg s1_live_q;
  reg [NODE_W-1:0] s1_node_q;
  // The walk has resolved all packets up to a slot, which had left, and none of them or behind was
  // sent again.
  reg in_order_q;
  reg [WINDOW_W-1:0] in_order_slot_q;
  reg [23:0] last_ticks_q;
  reg unresolved_q;
  reg gone_counts_q;
  reg was_over_q;  // timer_over of the cycle before
  reg refuses_q;  // the acknowledgement refuses a packet that is not resolved
  reg timer_over_q;  // the timer is over, and the walk has found no packet that is as old
  reg oldest_q;  // the first packet of the walk that has left, it left at oldest_ticks_q
  reg [23:0] oldest_ticks_q;
  reg same_q;  // departed_rd_data is of this session
  reg resolved_q;  // a packet was resolved in this look, and the timer has not restarted since
  reg [`EFA_TX_SELF__W-1:0] self_q;
  reg [`EFA_TX_SELF__W-1:0] self_d;
  reg anomaly_q;
  reg [3:0] cause_q;

  // The peer in work.
  wire [`EFA_TX_DEADLINES__W-1:0] deadlines_state;
  wire [`EFA_TX_MEASURE__W-1:0] measure_state;
  wire [`EFA_TX_PATHS__W-1:0] paths_state = measure_state[`EFA_TX_MEASURE__PATHS];
  wire [WINDOW_STATE_W-1:0] window_state;
  wire [`EFA_TX_SELF__W-1:0] loaded_self;
  wire [`EFA_TX_DEADLINES__W-1:0] loaded_deadlines;
  wire [`EFA_TX_REQUESTS__W-1:0] loaded_requests;
  wire [`EFA_TX_MEASURE__W-1:0] loaded_measure;
  wire [WINDOW_STATE_W-1:0] loaded_window;
  wire [15:0] session = space_q[`EFA_TX_SPACE__SESSION];
  wire [31:0] next = space_q[`EFA_TX_SPACE__NEXT];
  wire [15:0] incarnation = self_q[`EFA_TX_SELF__INCARNATION];
  wire lossy = self_q[`EFA_TX_SELF__LOSSY];
  wire [7:0] ending = self_q[`EFA_TX_SELF__ENDING];
  wire [15:0] settled = self_q[`EFA_TX_SELF__SETTLED];
  wire [15:0] in_flight = space_q[`EFA_TX_SPACE__SENT] - settled;
  wire none_in_flight = space_q[`EFA_TX_SPACE__SENT] == settled;
  wire [`EFA_TX_REQUESTS__W-1:0] requests_state;
  wire [31:0] again_psn = requests_state[`EFA_TX_REQUESTS__AGAIN_PSN];
  wire [31:0] probe_psn = requests_state[`EFA_TX_REQUESTS__PROBE_PSN];
  wire [WINDOW_W-1:0] again_slot = again_psn[WINDOW_W-1:0];
  wire again_sent;
  wire again_wasted;
  wire again_none;
  wire canceled;

  // The choice of an event, round robin.
  wire [2:0] grant;
  wire idle = state_q == ST_IDLE;
  wire chooses;
  wire begins = chooses && grant != 3'd0;
  wire [15:0] ack_node = s_ack_data[`EFA_TX_ACK__NODE];
  wire [15:0] gone_node = s_gone_data[`EFA_SRD_GONE__NODE];
  wire event_same = grant[0] ? ack_node[NODE_W-1:0] == node_q
      : grant[1] ? gone_node[NODE_W-1:0] == node_q : s_look_node == node_q;
  wire [NODE_W-1:0] event_node = grant[0] ? ack_node[NODE_W-1:0]
      : grant[1] ? gone_node[NODE_W-1:0] : s_look_node;

  // An acknowledgement.
  wire ack_past;
  wire ack_aborts;
  wire ack_quiet;
  wire [WINDOW-1:0] ack_slots;
  wire ack_refuses;
  wire [WINDOW_W-1:0] refused_slot;
  wire ack_anomaly;
  wire [3:0] ack_cause;
  wire [7:0] ack_path = ack_q[`EFA_TX_ACK__PATH];
  wire [7:0] ack_status = ack_q[`EFA_TX_ACK__STATUS];
  wire ack_takes = state_q == ST_ACK && !ack_past && !ack_aborts;

  // A transmission that was not made.
  wire [31:0] gone_psn = gone_q[`EFA_SRD_GONE__PSN];
  wire [31:0] oldest;
  wire [31:0] gone_at = gone_psn - oldest;
  wire [31:0] outstanding = next - oldest;
  wire slot_open;
  wire gone_counts = session != 16'd0 && gone_q[`EFA_SRD_GONE__SESSION] == session
      && gone_at < outstanding && slot_open;

  // Walks.
  wire found;
  wire [WINDOW_W-1:0] found_slot;
  wire slot_lost;
  wire slot_again;
  wire any_lost;
  wire any_again;
  wire last_in_flight;
  wire unresolved;
  wire any_resolved;
  wire pace_busy;
  wire measure_busy;
  wire note_free;
  wire walks = state_q == ST_WALK;
  wire w1_does = walks && w1_valid_q && note_free && !pace_busy;
  wire w1_stops;
  wire w0_steps = walks && found && (!w1_valid_q || w1_does) && !w1_stops;
  wire resolving = walks && walk_q == WALK_RESOLVE;
  wire joins = resolving && join_q == JOIN_NONE && more_q && !refuses_q && !s_gone_valid && !s_look_valid;
  wire joined = join_q == JOIN_SHOWN;
  wire walk_over = walks && (!w1_valid_q || w1_does) && (!found || w1_stops) && join_q == JOIN_NONE && !joins;
  wire [31:0] record_id = record_rd_data[`EFA_TX_RECORD__ID];
  wire [2:0] record_path = record_rd_data[`EFA_TX_RECORD__PATH];
  wire [15:0] record_order = record_rd_data[`EFA_TX_RECORD__ORDER];
  wire [127:0] orders = departed_rd_data[`EFA_TX_DEPARTED__ORDERS];
  wire [15:0] past = orders[16*record_path+:16] - record_order;
  wire departed = same_q && !past[15];
  wire [23:0] age = s_ticks - ticks_rd_data;
  // What is known is of this time: an acknowledgement may have waited.
  wire [23:0] seen_ticks = event_q == EVENT_ACK ? ack_q[`EFA_TX_ACK__TICKS] : s_ticks;

  // w1: a packet is resolved.
  wire resolves = w1_does && walk_q == WALK_RESOLVE;
  wire once = resolves && !slot_again;
  wire [23:0] resolved_step = ticks_rd_data - self_q[`EFA_TX_SELF__RESOLVED_TICKS];
  wire latest = !self_q[`EFA_TX_SELF__RESOLVED] || !resolved_step[23];
  wire refused_here = refuses_q && w1_slot_q == refused_slot;

  // w1: a packet is lost.
  wire loss_lost;
  wire loss_aged;
  wire loss_silent;
  wire loss_young;
  wire [23:0] loss_ticks;
  wire [23:0] timeout;
  wire checks = w1_does && walk_q == WALK_LOSS;
  wire checks_timer = w1_does && walk_q == WALK_TIMEOUT;
  wire expires = checks_timer && departed && age >= timeout;
  wire times_out = expires && timer_over_q && !last_timeout;
  wire dies = expires && timer_over_q && last_timeout;
  wire loses = (checks && loss_lost) || expires || (w1_does && walk_q == WALK_LOSE);
  wire disables = expires || (checks && loss_aged && loss_silent);
  // Without losses the packets are in the order of their transmission.
  assign w1_stops = checks && !lossy && !any_again && !loss_aged;
  wire ends = w1_does && walk_q == WALK_END;

  // The record of the transmission was read, and its note can be stored.
  wire gone_known = state_q == ST_GONE && count_q != 2'd0 && note_free;
  wire gone_here = gone_known && gone_counts_q;
  wire settle = (resolves && !slot_lost) || loses || (gone_here && !slot_lost) || again_wasted;

  wire [WINDOW_W-1:0] slot = walks ? w1_slot_q : state_q == ST_GONE ? gone_psn[WINDOW_W-1:0]
      : state_q == ST_PROBE ? probe_psn[WINDOW_W-1:0] : again_slot;
  wire [WINDOW_W-1:0] record_slot = walks ? (w1_valid_q && !w1_does ? w1_slot_q : found_slot) : slot;

  // Requests.
  wire request_again = state_q == ST_REQUEST && again_none && any_lost;
  wire probe_due;
  wire [2:0] probe_path;
  wire unusable;
  wire request_probe = state_q == ST_REQUEST && !request_again && !requests_state[`EFA_TX_REQUESTS__PROBE]
      && probe_due && !none_in_flight && unresolved_q;
  // The PSN of the found slot: its bits above the slot are those of oldest, or the next ones.
  wire [31-WINDOW_W:0] next_turn = oldest[31:WINDOW_W] + {{31 - WINDOW_W{1'b0}}, 1'b1};
  wire [31:0] found_psn = {found_slot < oldest[WINDOW_W-1:0] ? next_turn : oldest[31:WINDOW_W], found_slot};

  // One that may join the walk over those before: all that it does is to show accepted packets.
  wire more = s_ack_valid && ack_node[NODE_W-1:0] == node_q && s_ack_data[`EFA_TX_ACK__STATUS] == 8'd0
      && s_ack_data[`EFA_TX_ACK__SESSION] == session && s_ack_data[`EFA_TX_ACK__INCARNATION] == incarnation
      && !lossy && !any_lost && !unusable;

  wire [23:0] longest;
  wire timer_over;
  wire age_over;
  wire none_due;
  wire backs_off;
  wire last_timeout;
  wire search;
  wire next_armed;
  wire expired = state_q == ST_LOOK && timer_over;
  // The timer does not find a peer whose acknowledgement waits, and this one has resolved nothing.
  wire late = event_q == EVENT_ACK && was_over_q && ending == 8'd0;
  wire look_again = canceled || late;
  wire age_look = state_q == ST_LOOK && !expired && age_over;

  wire aborts = state_q == ST_ACK && ack_aborts;
  wire cleared = state_q == ST_END_NOTE && note_free;
  wire clear = cleared || state_q == ST_INIT;
  wire load = state_q == ST_LOAD && (!reload_q || count_q == 2'd1);
  wire forgotten = state_q == ST_SYNC && ending != 8'd0 && session == 16'd0;

  always @* begin
    state_d = state_q;
    walk_d = walk_q;
    case (state_q)
      // Waits until the state of each peer is written.
      ST_INIT: begin
        if (init_q[NODE_W]) state_d = ST_IDLE;
      end
      // Waits for an event.
      ST_IDLE: begin
        if (begins) state_d = ST_LOAD;
      end
      // Waits for the state of the peer, one cycle more if it was just written.
      ST_LOAD: begin
        if (load) state_d = ST_SYNC;
      end
      // Takes over what efa_tx_space has sent, or that it has forgotten the session.
      ST_SYNC: begin
        state_d = forgotten ? ST_END_NOTE : ending != 8'd0 ? ST_STORE
            : event_q == EVENT_ACK ? ST_MASK : event_q == EVENT_GONE ? ST_GONE : ST_LOOK;
      end
      // Waits for the slots of the acknowledgement.
      ST_MASK: begin
        if (count_q == 2'd1) state_d = ST_ACK;
      end
      ST_ACK: begin
        state_d = ack_past ? ST_REQUEST : ack_aborts ? ST_END_HOLD : ST_WALK;
        walk_d = ack_quiet ? WALK_LOSE : WALK_RESOLVE;
      end
      // Waits for the record of the transmission and the output.
      ST_GONE: begin
        if (gone_known) state_d = gone_counts_q ? ST_ADVANCE : ST_REQUEST;
      end
      ST_LOOK: begin
        state_d = expired || age_look ? ST_WALK : ST_REQUEST;
        walk_d = expired ? WALK_TIMEOUT : WALK_LOSS;
      end
      // Waits for the end of the walk.
      ST_WALK: begin
        if (walk_over) begin
          state_d = walk_q == WALK_RESOLVE ? ST_ADVANCE
              : walk_q == WALK_END ? ST_END_FORGET : ST_REQUEST;
        end
        if (dies) state_d = ST_END_HOLD;
      end
      // Waits for the last resolved packet. Oldest has moved two cycles later.
      ST_ADVANCE: begin
        state_d = ST_SEARCH;
      end
      // Restarts the timer, and decides whether packets may be lost.
      ST_SEARCH: begin
        state_d = search ? ST_WALK : ST_REQUEST;
        walk_d = WALK_LOSS;
      end
      // Requests a retransmission or a probe; the walk finds the first lost slot.
      ST_REQUEST: begin
        state_d = request_again ? ST_AGAIN : request_probe ? ST_PROBE : ST_STORE;
      end
      // Waits for the slot, then for its record.
      ST_AGAIN: begin
        if (count_q == 2'd2) state_d = ST_STORE;
      end
      // Waits for the record.
      ST_PROBE: begin
        if (count_q == 2'd2) state_d = ST_STORE;
      end
      // Waits until each part of the state is final, then for an event, too.
      ST_STORE: begin
        if (!measure_busy) begin
          state_d = look_again || begins ? ST_LOAD : ST_IDLE;
        end
      end
      // Waits as in ST_STORE, and stores limits that hold all packets back.
      ST_END_HOLD: begin
        if (!measure_busy) state_d = ST_END_LOAD;
      end
      // Waits for the final numbers, then begins the walk over packets that are not resolved.
      ST_END_LOAD: begin
        if (count_q == 2'd2) begin
          state_d = ST_WALK;
          walk_d  = WALK_END;
        end
      end
      // Stores limits that end the session.
      ST_END_FORGET: begin
        if (!measure_busy) state_d = ST_IDLE;
      end
      // Waits for the note of the end.
      default: begin
        if (note_free) state_d = ST_STORE;
      end
    endcase
  end

  always @* begin
    self_d = self_q;
    if (ack_takes || aborts) begin
      self_d[`EFA_TX_SELF__INCARNATION] = ack_q[`EFA_TX_ACK__INCARNATION];
      self_d[`EFA_TX_SELF__ANSWERED] = 1'b1;
    end
    if (settle) self_d[`EFA_TX_SELF__SETTLED] = settled + 16'd1;
    if (once && departed && latest) begin
      self_d[`EFA_TX_SELF__RESOLVED] = 1'b1;
      self_d[`EFA_TX_SELF__RESOLVED_TICKS] = ticks_rd_data;
    end
    if (aborts) self_d[`EFA_TX_SELF__ENDING] = ABORT;
    if (dies)
      self_d[`EFA_TX_SELF__ENDING] = self_q[`EFA_TX_SELF__ANSWERED] ? UNRESPONSIVE : UNREACHABLE;
    if (times_out || (checks && loss_aged)) self_d[`EFA_TX_SELF__LOSSY] = 1'b1;
    if (state_q == ST_REQUEST && none_in_flight) self_d[`EFA_TX_SELF__RESOLVED] = 1'b0;
    if (clear) begin
      self_d = {`EFA_TX_SELF__W{1'b0}};
      if (cleared) begin
        self_d[`EFA_TX_SELF__INCARNATION] = incarnation;
        self_d[`EFA_TX_SELF__ANSWERED] = self_q[`EFA_TX_SELF__ANSWERED];
      end
    end
    if (load) self_d = loaded_self;
  end

  // Notes: of a packet in a walk, of one that was not sent, of a posted one, of the end.
  wire note_own = resolves || ends || gone_here || cleared;
  wire note_flush = s_flush_valid && s_flush_ready;
  reg [`EFA_SRD_NOTE__W-1:0] note_d;
  always @* begin
    note_d = {`EFA_SRD_NOTE__W{1'b0}};
    note_d[`EFA_SRD_NOTE__NODE] = {{16 - NODE_W{1'b0}}, node_q};
    note_d[`EFA_SRD_NOTE__ENDED] = cleared;
    note_d[`EFA_SRD_NOTE__ID] = cleared ? 32'd0 : record_id;
    note_d[`EFA_SRD_NOTE__STATUS] = gone_here ? 8'd0 : !resolves ? ending
        : refused_here ? ack_status : 8'd0;
    note_d[`EFA_SRD_NOTE__KIND] = record_rd_data[`EFA_TX_RECORD__KIND];
    note_d[`EFA_SRD_NOTE__GONE] = gone_here;
    if (note_flush) note_d = s_flush_data;
  end

  // What is stored.
  wire store = (state_q == ST_STORE || state_q == ST_END_HOLD || state_q == ST_END_FORGET)
      && !measure_busy;
  assign chooses = idle || (state_q == ST_STORE && store && !look_again);
  wire write = state_q == ST_INIT ? !init_q[NODE_W] && count_q == 2'd3 : store;
  wire [NODE_W-1:0] write_node = state_q == ST_INIT ? init_q[NODE_W-1:0] : node_q;
  wire show = resolving && &show_q;
  wire [1:0] mode = state_q == ST_END_HOLD ? MODE_HOLD : ending == 8'd0 ? MODE_NORMAL
      : ending == ABORT ? MODE_FORGET : MODE_FLUSH;
  wire probing = unusable && !requests_state[`EFA_TX_REQUESTS__PROBE] && !none_in_flight;

  assign m_init_done = state_q != ST_INIT;
  assign s_ack_ready = (chooses && grant[0]) || joins;
  assign s_gone_ready = chooses && grant[1];
  assign s_look_ready = chooses && grant[2];
  assign s_flush_ready = note_free && !note_own;
  assign space_rd_addr = chooses ? event_node : node_q;
  assign record_rd_addr = {node_q, record_slot};
  assign m_wake_valid = store || show;
  assign m_wake_node = node_q;
  assign m_wake_request = mode != MODE_NORMAL || !again_none || requests_state[`EFA_TX_REQUESTS__PROBE];
  assign m_begin_valid = begins;
  assign m_begin_node = event_node;
  assign m_set_valid = s1_set_q;
  assign m_set_armed = next_armed && s1_live_q;
  assign m_set_node = s1_node_q;
  reg [63:0] anomaly_data;
  always @* begin
    anomaly_data = 64'd0;
    anomaly_data[`EFA_EV_ANOMALY_ACK__WHAT] = cause_q;
    anomaly_data[`EFA_EV_ANOMALY_ACK__NODE] = {{16 - NODE_W{1'b0}}, node_q};
  end
  assign ev_anomaly_ack_valid = anomaly_q;
  assign ev_anomaly_ack_data  = anomaly_data;

  efa_arb #(
      .N(3)
  ) u_events (
      .clk(clk),
      .rst(rst),
      .s_request(chooses ? {s_look_valid, s_gone_valid, s_ack_valid} : 3'd0),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  wire [`EFA_SRD_NOTE__W-1:0] unused_next;
  efa_skid #(
      .WIDTH(`EFA_SRD_NOTE__W)
  ) u_notes (
      .clk(clk),
      .rst(rst),
      .s_valid(note_own || note_flush),
      .s_ready(note_free),
      .s_data(note_d),
      .m_valid(m_note_valid),
      .m_ready(m_note_ready),
      .m_data(m_note_data),
      .m_next_data(unused_next)
  );

  efa_ram #(
      .WIDTH (STATE_W),
      .ADDR_W(NODE_W)
  ) u_states (
      .clk(clk),
      .wr_en(write),
      .wr_addr(write_node),
      .wr_data({window_state, measure_state, requests_state, deadlines_state, self_q}),
      .rd_en(1'b1),
      .rd_addr(space_rd_addr),
      .rd_data({loaded_window, loaded_measure, loaded_requests, loaded_deadlines, loaded_self})
  );

  efa_tx_limits #(
      .NODE_W(NODE_W)
  ) u_limits (
      .clk(clk),
      .s_write(write || show),
      .s_node(write_node),
      .s_mode(mode),
      .s_status(ending),
      .s_oldest(oldest),
      .s_incarnation(incarnation),
      .s_waits(any_lost),
      .s_settled(settled),
      .s_pace(measure_state[`EFA_TX_MEASURE__PACE]),
      .s_paths(paths_state),
      .s_requests(requests_state),
      .limits_rd_addr(limits_rd_addr),
      .limits_rd_data(limits_rd_data)
  );

  efa_ack_check #(
      .WINDOW_W(WINDOW_W)
  ) u_ack (
      .clk(clk),
      .s_ack(ack_q),
      .s_session(session),
      .s_oldest(oldest),
      .s_next(next),
      .s_incarnation(incarnation),
      .s_last_number(s_last_number),
      .m_past(ack_past),
      .m_aborts(ack_aborts),
      .m_quiet(ack_quiet),
      .m_slots(ack_slots),
      .m_refuses(ack_refuses),
      .m_refused_slot(refused_slot),
      .m_anomaly(ack_anomaly),
      .m_cause(ack_cause)
  );

  wire walk_begins = ack_takes || (state_q == ST_LOOK && state_d == ST_WALK) || search
      || request_again || (state_q == ST_END_LOAD && state_d == ST_WALK);
  wire [1:0] walk_slots = request_again ? LOST[1:0]
      : state_q == ST_END_LOAD ? UNRESOLVED[1:0]
      : ack_takes && !ack_quiet ? GIVEN[1:0] : IN_FLIGHT[1:0];

  efa_tx_window #(
      .WINDOW_W(WINDOW_W)
  ) u_window (
      .clk(clk),
      .rst(rst),
      .s_load(load),
      .s_state(loaded_window),
      .s_clear(clear),
      .s_first(FIRST_PSN),
      .s_next(next),
      .s_begin(walk_begins),
      .s_begin_slots(walk_slots),
      .s_given(ack_slots),
      .s_add(joined && !ack_past),
      .s_holds(w1_valid_q),
      .s_step(w0_steps),
      .s_slot(slot),
      .s_resolve(resolves || gone_here),
      .s_lose(loses),
      .s_again((state_q == ST_AGAIN && count_q == 2'd1) || (state_q == ST_PROBE && count_q == 2'd0)),
      .s_sent(again_sent),
      .s_advance(resolving || state_q == ST_ADVANCE),
      .m_state(window_state),
      .m_oldest(oldest),
      .m_found(found),
      .m_slot(found_slot),
      .m_slot_open(slot_open),
      .m_slot_lost(slot_lost),
      .m_slot_again(slot_again),
      .m_any_lost(any_lost),
      .m_any_again(any_again),
      .m_last_in_flight(last_in_flight),
      .m_unresolved(unresolved),
      .m_any_resolved(any_resolved)
  );

  efa_tx_measure #(
      .WINDOW_W(WINDOW_W),
      .RTO_INITIAL(RTO_INITIAL),
      .PATH_PROBE(PATH_PROBE),
      .CWND_INITIAL(CWND_INITIAL),
      .ORDER_LEFT(ORDER_LEFT)
  ) u_measure (
      .clk(clk),
      .rst(rst),
      .s_cfg_paths(s_cfg_paths),
      .s_ticks(s_ticks),
      .s_seen_ticks(seen_ticks),
      .s_ack_ticks(ack_q[`EFA_TX_ACK__TICKS]),
      .s_load(load),
      .s_state(loaded_measure),
      .s_clear(clear),
      .s_record(record_rd_data),
      .s_departed(departed),
      .s_left_ticks(ticks_rd_data),
      .s_resolve(resolves),
      .s_again(slot_again),
      .s_lost(slot_lost),
      .s_lose(loses),
      .s_disable(disables),
      .s_settle(settle),
      .s_answer(ack_takes),
      .s_path(state_q == ST_ACK ? ack_path[2:0]
          : state_q == ST_SYNC ? space_q[`EFA_TX_SPACE__AGAIN_PATH] : record_path),
      .s_collapse(times_out && backs_off),
      .s_probe(request_probe),
      .s_find(walk_over && walk_q != WALK_END),
      .s_lossy(lossy),
      .s_resolved(self_q[`EFA_TX_SELF__RESOLVED]),
      .s_resolved_ticks(self_q[`EFA_TX_SELF__RESOLVED_TICKS]),
      .m_state(measure_state),
      .m_timeout(timeout),
      .m_longest(longest),
      .m_unusable(unusable),
      .m_probe_due(probe_due),
      .m_probe_path(probe_path),
      .m_lost(loss_lost),
      .m_aged(loss_aged),
      .m_silent(loss_silent),
      .m_young(loss_young),
      .m_age_ticks(loss_ticks),
      .m_pace_busy(pace_busy),
      .m_busy(measure_busy)
  );

  efa_tx_requests #(
      .WINDOW_W(WINDOW_W)
  ) u_requests (
      .clk(clk),
      .s_load(load),
      .s_state(loaded_requests),
      .s_clear(clear),
      .s_space(space_q),
      .s_sync(state_q == ST_SYNC),
      .s_resolve(resolves || gone_here),
      .s_slot(slot),
      .s_again(state_q == ST_AGAIN && count_q == 2'd0),
      .s_again_psn(found_psn),
      .s_again_id_valid(state_q == ST_AGAIN && count_q == 2'd2),
      .s_probe(request_probe),
      .s_probe_path(probe_path),
      .s_probe_psn(last_in_flight ? next - 32'd1 : oldest),
      .s_probe_id_valid(state_q == ST_PROBE && count_q == 2'd2),
      .s_record(record_rd_data),
      .m_state(requests_state),
      .m_again_sent(again_sent),
      .m_again_wasted(again_wasted),
      .m_again_none(again_none),
      .m_canceled(canceled)
  );

  efa_tx_deadlines #(
      .RTO_RETRIES(RTO_RETRIES)
  ) u_deadlines (
      .clk(clk),
      .s_load(load),
      .s_state(loaded_deadlines),
      .s_clear(clear),
      .s_ticks(s_ticks),
      .s_in_flight(in_flight),
      .s_lossy(lossy),
      .s_longest(longest),
      .s_timeout(timeout),
      .s_resolved(resolves),
      .s_expire(times_out),
      .s_defer(state_q == ST_REQUEST && timer_over_q),
      .s_defer_ticks(oldest_q ? oldest_ticks_q : s_ticks),
      .s_end_look(state_q == ST_REQUEST),
      .s_search(state_q == ST_SEARCH),
      .s_restart(state_q == ST_SEARCH && resolved_q),
      .s_show(show),
      .s_show_restart(show && resolved_q),
      .s_all_later(in_order_q),
      .s_later_ticks(last_ticks_q),
      .s_age_look(age_look),
      .s_walk(walk_begins),
      .s_waits(checks && !loss_lost && !departed),
      .s_young(checks && !loss_lost && loss_young),
      .s_young_ticks(loss_ticks),
      .s_probe_wanted(probing),
      .s_probe_due(probe_due),
      .s_probe_ticks(paths_state[`EFA_TX_PATHS__NEXT_PROBE]),
      .m_state(deadlines_state),
      .m_timer_over(timer_over),
      .m_age_over(age_over),
      .m_none_due(none_due),
      .m_backs_off(backs_off),
      .m_last(last_timeout),
      .m_searches(search),
      .m_armed(next_armed),
      .m_next(m_set_ticks)
  );

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_INIT;
      init_q <= {NODE_W + 1{1'b0}};
      count_q <= 2'd0;
      w1_valid_q <= 1'b0;
      join_q <= JOIN_NONE;
      sets_q <= 1'b0;
      s0_set_q <= 1'b0;
      s1_set_q <= 1'b0;
      show_q <= {SHOW_W{1'b0}};
      anomaly_q <= 1'b0;
    end else begin
      state_q <= state_d;
      if (state_d != state_q) count_q <= 2'd0;
      else if (count_q != 2'd3) count_q <= count_q + 2'd1;
      if (state_q == ST_INIT && write) init_q <= init_q + ONE_NODE;
      w1_valid_q <= w0_steps || (w1_valid_q && walks && !w1_does);
      anomaly_q <= (state_q == ST_ACK || joined) && ack_anomaly;
      sets_q <= show && resolved_q;
      s0_set_q <= (store && state_q != ST_END_HOLD) || sets_q;
      s1_set_q <= s0_set_q;
      show_q <= show_q + {{SHOW_W - 1{1'b0}}, 1'b1};
      if (joins) join_q <= JOIN_TAKEN;
      else if (joined) join_q <= JOIN_NONE;
      else if (join_q != JOIN_NONE) join_q <= join_q + A_JOIN_STEP;
    end
  end

  always @(posedge clk) begin
    walk_q <= walk_d;
    self_q <= self_d;
    s0_live_q <= ending == 8'd0;
    s0_node_q <= node_q;
    s1_live_q <= s0_live_q;
    s1_node_q <= s0_node_q;
    if (begins) begin
      event_q <= grant[0] ? EVENT_ACK : grant[1] ? EVENT_GONE : EVENT_LOOK;
      node_q <= event_node;
      gone_q <= s_gone_data;
    end
    if (begins || joins) ack_q <= s_ack_data;
    more_q <= more && none_due;
    unresolved_q <= unresolved;
    gone_counts_q <= gone_counts;
    was_over_q <= timer_over && !clear;
    if (state_q == ST_ACK) begin
      in_order_q <= !any_resolved && !any_again;
      in_order_slot_q <= oldest[WINDOW_W-1:0];
    end else if (resolves) begin
      in_order_q <= in_order_q && w1_slot_q == in_order_slot_q && !slot_again && departed;
      in_order_slot_q <= in_order_slot_q + A_SLOT;
      last_ticks_q <= ticks_rd_data;
    end
    // A canceled retransmission needs another look at the peer.
    if (state_q == ST_STORE && store && !begins) event_q <= EVENT_LOOK;
    if (state_q == ST_STORE || idle) reload_q <= !idle && (look_again || event_same);
    if (state_q == ST_LOAD || state_q == ST_END_LOAD || joins) space_q <= space_rd_data;
    if (w0_steps) w1_slot_q <= found_slot;
    same_q <= departed_rd_data[`EFA_TX_DEPARTED__SESSION] == session;
    timer_over_q <= expired || (timer_over_q && walks && !expires);
    oldest_q <= checks_timer ? oldest_q || departed : oldest_q && !expired;
    if (!oldest_q) oldest_ticks_q <= ticks_rd_data;
    refuses_q <= state_q == ST_ACK ? ack_refuses : refuses_q;
    resolved_q <= resolves || (resolved_q && state_q != ST_LOAD && !show);
    cause_q <= ack_cause;
  end

  wire unused_bits = &{1'b0, past, gone_q, space_q, ack_node, gone_node, ack_path, again_psn, probe_psn, resolved_step};

endmodule

`default_nettype wire
