// SPDX-License-Identifier: Apache-2.0
// efa_rq_fetch - prefetches descriptors of receive rings, and flushes the rings of QPs in ERR.
//
// In    s_move, s_chg rings to visit; s_used a ring whose head a packet has moved; s_rd_cpl_end,
//       s_rd_cpl_failed: a read is done; context, counts and cached descriptors of ring_rd_addr;
//       s_held_* rings whose heads packets may move
// Out   m_rd reads of up to 8 descriptors, up to 2^SLOT_W cached per ring; m_flush receive WQEs to
//       complete as FLUSHED; m_take, with m_flush: its next head; failed_rd_data, 1 cycle after
//       failed_rd_addr: a read of that ring failed; m_idle: no visit from before s_drain is active;
//       m_drained: no read from before s_drain is outstanding
// Time  a read 5 cycles after its ring is requested; a visit every 3 cycles, reads of one ring
//       every 4, flushed WQEs of one ring every 7; initialisation as efa_queue_fifo_set
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rq_fetch #(
    parameter QPN_W  = 6,
    parameter SLOT_W = 5
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,

    output wire [QPN_W-1:0] ring_rd_addr,
    input wire [`EFA_QPC__W-1:0] qpc_rd_data,
    input wire [15:0] prod_rd_data,
    input wire [15:0] cons_rd_data,
    output wire [15:0] desc_rd_count,
    input wire [255:0] desc_rd_data,
    input wire [1:0] desc_rd_present,

    input wire s_move_valid,
    input wire [QPN_W-1:0] s_move_qpn,
    input wire s_chg_valid,
    output wire s_chg_ready,
    input wire [QPN_W-1:0] s_chg_qpn,
    input wire s_rd_cpl_end,
    input wire s_rd_cpl_failed,
    input wire [QPN_W-1:0] s_rd_cpl_qpn,
    input wire s_rd_cpl_epoch,

    input wire s_used_valid,
    input wire [QPN_W-1:0] s_used_qpn,
    input wire [2:0] s_held_valid,
    input wire [3*QPN_W-1:0] s_held_qpn,
    input wire [QPN_W-1:0] failed_rd_addr,
    output wire failed_rd_data,

    output wire m_rd_valid,
    input wire m_rd_ready,
    output wire [63:0] m_rd_addr,
    output wire [12:0] m_rd_len,
    output wire [15:0] m_rd_count,
    output wire m_rd_epoch,

    output wire m_flush_valid,
    input wire m_flush_ready,
    output wire [`EFA_QPC__W-1:0] m_flush_qpc,
    output wire [15:0] m_flush_req_id,
    output wire [1:0] m_flush_count,
    output wire m_take_valid,
    output wire [15:0] m_take_value,

    input wire s_clear_valid,
    output wire s_clear_ready,
    input wire [QPN_W-1:0] s_clear_qpn,

    input  wire s_drain,
    output wire m_idle,
    output wire m_drained
);

  localparam QPC_W = `EFA_QPC__W;
  localparam [15:0] SLOTS = 16'd1 << SLOT_W;

  localparam [2:0] ST_IDLE = 3'd0;
  localparam [2:0] ST_READ = 3'd1;
  localparam [2:0] ST_LOOKUP = 3'd2;
  localparam [2:0] ST_FETCH = 3'd3;
  localparam [2:0] ST_CACHE = 3'd4;
  localparam [2:0] ST_FLUSH = 3'd5;
  localparam [2:0] ST_LATER = 3'd6;
  localparam [2:0] ST_AGAIN = 3'd7;

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg [QPN_W-1:0] qpn_q;
  reg [QPC_W-1:0] qpc_q;
  reg [15:0] cons_q;
  reg [15:0] requested_q;
  reg [15:0] cached_q;
  reg [15:0] more_q;
  reg stale_q;

  // ---- rings to visit: new work, and rings with work left after a visit or a read ----
  // During a flush, other rings are visited between two WQEs of a ring.
  localparam LOOK = 0;
  localparam AGAIN = 1;
  localparam USED = 2;
  wire [2:0] set_init;
  wire [2:0] set_valid;
  wire [3*QPN_W-1:0] set_qpn;
  wire [2:0] pick;
  wire [QPN_W-1:0] pick_qpn = pick[LOOK] ? set_qpn[QPN_W*LOOK+:QPN_W]
      : pick[AGAIN] ? set_qpn[QPN_W*AGAIN+:QPN_W] : set_qpn[QPN_W*USED+:QPN_W];
  wire later_ready;
  wire later = state_q == ST_LATER;
  wire used_ready;
  wire fetch_idle = state_q == ST_IDLE;
  wire pop = pick != 3'b000;

  efa_arb #(
      .N(3)
  ) u_pick (
      .clk(clk),
      .rst(rst),
      .s_request(set_valid & {3{fetch_idle}}),
      .s_hold(1'b0),
      .m_grant(pick)
  );

  efa_queue_fifo_set #(
      .QPN_W(QPN_W)
  ) u_lookup (
      .clk(clk),
      .rst(rst),
      .m_init_done(set_init[LOOK]),
      .s_now_valid(s_move_valid),
      .s_now_qpn(s_move_qpn),
      .s_valid(s_chg_valid),
      .s_ready(s_chg_ready),
      .s_qpn(s_chg_qpn),
      .m_valid(set_valid[LOOK]),
      .m_ready(pick[LOOK]),
      .m_qpn(set_qpn[QPN_W*LOOK+:QPN_W])
  );

  efa_queue_fifo_set #(
      .QPN_W(QPN_W)
  ) u_again (
      .clk(clk),
      .rst(rst),
      .m_init_done(set_init[AGAIN]),
      .s_now_valid(s_rd_cpl_end && !s_rd_cpl_failed),
      .s_now_qpn(s_rd_cpl_qpn),
      .s_valid(later),
      .s_ready(later_ready),
      .s_qpn(qpn_q),
      .m_valid(set_valid[AGAIN]),
      .m_ready(pick[AGAIN]),
      .m_qpn(set_qpn[QPN_W*AGAIN+:QPN_W])
  );

  // A ring whose head has moved is visited one cycle later, when the counts show the move.
  reg moved_q;
  reg [QPN_W-1:0] moved_qpn_q;
  always @(posedge clk) begin
    moved_q <= s_used_valid && !rst;
    moved_qpn_q <= s_used_qpn;
  end
  efa_queue_fifo_set #(
      .QPN_W(QPN_W)
  ) u_used (
      .clk(clk),
      .rst(rst),
      .m_init_done(set_init[USED]),
      .s_now_valid(moved_q),
      .s_now_qpn(moved_qpn_q),
      .s_valid(1'b0),
      .s_ready(used_ready),
      .s_qpn({QPN_W{1'b0}}),
      .m_valid(set_valid[USED]),
      .m_ready(pick[USED]),
      .m_qpn(set_qpn[QPN_W*USED+:QPN_W])
  );

  assign m_init_done = set_init == 3'b111 && !initializing;
  assign ring_rd_addr = fetch_idle ? pick_qpn : qpn_q;
  assign desc_rd_count  = cons_q;

  // ---- count of descriptors requested per ring ----
  wire fetch = state_q == ST_FETCH && m_rd_ready;
  // Each failed read delays a clear by one cycle. A ring that failed issues no more reads.
  wire fails = s_rd_cpl_end && s_rd_cpl_failed;
  wire clear = s_clear_valid && !fetch && !fails;
  wire [15:0] requested;
  assign s_clear_ready = clear;
  efa_ram #(
      .WIDTH (16),
      .ADDR_W(QPN_W)
  ) u_requested (
      .clk(clk),
      .wr_en(fetch || clear),
      .wr_addr(fetch ? qpn_q : s_clear_qpn),
      .wr_data(fetch ? requested_q + {12'd0, m_rd_len[7:4]} : 16'd0),
      .rd_en(1'b1),
      .rd_addr(ring_rd_addr),
      .rd_data(requested)
  );

  // ---- rings with a failed read: a copy for the visit, one for claims ----
  localparam [QPN_W:0] ONE_INIT = 1;
  reg [QPN_W:0] init_q;
  reg [1:0] forward_q;  // the flag was written in the cycle of the read
  reg forward_flag_q;
  wire initializing = !init_q[QPN_W];
  wire [QPN_W-1:0] failed_wr_addr = fails ? s_rd_cpl_qpn : s_clear_qpn;
  wire [1:0] failed_read;
  wire visit_failed = forward_q[0] ? forward_flag_q : failed_read[0];
  assign failed_rd_data = forward_q[1] ? forward_flag_q : failed_read[1];
  efa_ram_1wnr #(
      .WIDTH (1),
      .ADDR_W(QPN_W),
      .READS (2)
  ) u_failed (
      .clk(clk),
      .wr_en(initializing || fails || clear),
      .wr_addr(initializing ? init_q[QPN_W-1:0] : failed_wr_addr),
      .wr_data(!initializing && fails),
      .rd_addr({failed_rd_addr, ring_rd_addr}),
      .rd_data(failed_read)
  );
  always @(posedge clk) begin
    forward_q[0] <= (fails || clear) && failed_wr_addr == ring_rd_addr;
    forward_q[1] <= (fails || clear) && failed_wr_addr == failed_rd_addr;
    forward_flag_q <= fails;
    if (rst) init_q <= {(QPN_W + 1) {1'b0}};
    else if (initializing) init_q <= init_q + ONE_INIT;
  end

  // ---- the ring being visited ----
  wire [2:0] qp_state = qpc_q[`EFA_QPC__STATE];
  wire there = qpc_q[`EFA_QPC__LIVE] && qpc_q[`EFA_QPC__RQ_LIVE]
      && qp_state != `EFA_ADMIN_QP_STATE__RESET_W3;
  wire dead = qp_state == `EFA_ADMIN_QP_STATE__ERR_W3;
  wire [2:0] held;
  genvar g;
  generate
    for (g = 0; g < 3; g = g + 1) begin : g_held
      assign held[g] = s_held_valid[g] && s_held_qpn[QPN_W*g+:QPN_W] == qpn_q;
    end
  endgenerate

  // A read stays inside 128 bytes of host memory and inside the ring. It is issued when the cache
  // has space for all its descriptors.
  wire [15:0] size = 16'd1 << qpc_q[`EFA_QPC__RQ_LOG];
  wire [15:0] index = requested_q & (size - 16'd1);
  wire [63:0] addr = {qpc_q[`EFA_QPC__RQ_BASE], 6'b0} + {44'b0, index, 4'b0};
  wire [15:0] to_end = size - index;
  wire [3:0] to_line = 4'd8 - {1'b0, addr[6:4]};
  wire [3:0] bound = to_end < {12'd0, to_line} ? to_end[3:0] : to_line;
  wire [3:0] number = more_q < {12'd0, bound} ? more_q[3:0] : bound;
  wire can_fetch = more_q != 16'd0 && cached_q + {12'd0, number} <= SLOTS;

  assign m_rd_valid = state_q == ST_FETCH;
  assign m_rd_addr  = addr;
  assign m_rd_len   = {5'd0, number, 4'd0};
  assign m_rd_count = requested_q;

  wire last0 = desc_rd_data[`EFA_IO_RX_DESC__LAST];
  wire complete = desc_rd_present[0] && (last0 || desc_rd_present[1]);
  wire [1:0] used = last0 ? 2'd1 : 2'd2;
  assign m_flush_valid = state_q == ST_FLUSH && complete;
  assign m_flush_qpc = qpc_q;
  assign m_flush_req_id = desc_rd_data[`EFA_IO_RX_DESC__REQ_ID];
  assign m_flush_count = used;
  assign m_take_valid = m_flush_valid && m_flush_ready;
  assign m_take_value = cons_q + {14'd0, used};

  always @* begin
    state_d = state_q;
    case (state_q)
      // Waits for a ring to visit.
      ST_IDLE: begin
        if (pop) state_d = ST_READ;
      end
      // Waits for its counts and context.
      ST_READ: begin
        state_d = ST_LOOKUP;
      end
      // Selects a fetch, a flush, or nothing.
      ST_LOOKUP: begin
        state_d = ST_IDLE;
        if (there && !visit_failed) begin
          if (can_fetch) begin
            // If the head has moved since, there is more space, and another visit follows.
            state_d = ST_FETCH;
          end else if (dead && cached_q != 16'd0) begin
            // A packet that holds the head has priority.
            state_d = stale_q || held != 3'b000 ? ST_LATER : ST_CACHE;
          end
        end
      end
      // Waits until the read request is accepted.
      ST_FETCH: begin
        if (m_rd_ready) state_d = ST_AGAIN;
      end
      // Waits for the descriptors at the head.
      ST_CACHE: begin
        state_d = ST_FLUSH;
      end
      // Waits until the completion is accepted; a WQE without last descriptor stays.
      ST_FLUSH: begin
        if (!complete) state_d = ST_IDLE;
        else if (m_flush_ready) state_d = ST_LATER;
      end
      // Waits to be added to the set again, behind the other rings.
      ST_LATER: begin
        if (later_ready) state_d = ST_IDLE;
      end
      // Waits one cycle: the count of requested descriptors has moved.
      default: begin
        state_d = ST_READ;
      end
    endcase
  end

  // ---- reads outstanding when a drain began have the old epoch ----
  reg epoch_q;
  reg idle_q;
  reg draining_q;
  reg [15:0] out_q[0:1];
  assign m_rd_epoch = epoch_q;
  assign m_idle = idle_q;
  assign m_drained = draining_q && out_q[!epoch_q] == 16'd0;

  always @(posedge clk) begin
    if (pop) qpn_q <= ring_rd_addr;
    if (state_q == ST_READ) begin
      qpc_q <= qpc_rd_data;
      cons_q <= cons_rd_data;
      requested_q <= requested;
      cached_q <= requested - cons_rd_data;
      more_q <= prod_rd_data - requested;
    end
    if (rst) begin
      state_q <= ST_IDLE;
      stale_q <= 1'b0;
      epoch_q <= 1'b0;
      idle_q <= 1'b0;
      draining_q <= 1'b0;
      out_q[0] <= 16'd0;
      out_q[1] <= 16'd0;
    end else begin
      state_q <= state_d;
      // A packet may move the head while the counts are read.
      stale_q <= (s_used_valid && s_used_qpn == ring_rd_addr)
          || (stale_q && state_q != ST_IDLE && state_q != ST_AGAIN);

      // Visits that start after the request for a drain see the new contexts.
      idle_q <= s_drain && (idle_q || state_q == ST_IDLE);
      // The new epoch must have no outstanding reads before it is used.
      if (idle_q && !draining_q && out_q[!epoch_q] == 16'd0) begin
        draining_q <= 1'b1;
        epoch_q <= !epoch_q;
      end else if (!s_drain) begin
        draining_q <= 1'b0;
      end
      if (fetch && !(s_rd_cpl_end && s_rd_cpl_epoch == epoch_q))
        out_q[epoch_q] <= out_q[epoch_q] + 16'd1;
      if (s_rd_cpl_end && !(fetch && s_rd_cpl_epoch == epoch_q))
        out_q[s_rd_cpl_epoch] <= out_q[s_rd_cpl_epoch] - 16'd1;
    end
  end

  wire unused_bits = &{1'b0, desc_rd_data, desc_rd_present, used_ready};

  `EFA_CHECK(!s_rd_cpl_end || out_q[s_rd_cpl_epoch] != 16'd0,
             "efa_rq_fetch: completion without a request")

endmodule

`default_nettype wire
