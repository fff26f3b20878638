// SPDX-License-Identifier: Apache-2.0
// efa_sq_reorder - publishes fetched send WQEs in order per queue, whatever the order of
// completions.
//
// In    s_lookup_qpn the queue that may issue the next read; s_new_* its read, one cycle after
//       s_slot_take; s_beat_* lines of a read, ascending, the last one with the status; s_clear a
//       queue that restarts at 0; count_rd_addr a reader of the counts
// Out   m_slot_* a free slot for a read; count_rd_data WQEs published; m_work_* a queue has new
//       published WQEs; m_err_* a read of the queue failed, reported with its WQEs, whose lines are
//       incomplete; m_freed_*: a read is done; m_waits: early lines wait for a cycle without beats
// Time  a beat is counted 2 cycles later, one per cycle; a reader of the count in that cycle has it
//       in the next; lines that waited for an earlier read of the queue: 3 cycles or more after the
//       end of that read; after rst 2^SLOT_W cycles of initialisation
//
// The reads of a queue form a linked list. Lines of the first read are published as they arrive.
// Lines of another read stay pending until that read becomes the first one.
`default_nettype none
`include "efa_check.vh"

module efa_sq_reorder #(
    parameter QPN_W  = 6,
    parameter SLOT_W = 8
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    output wire m_slot_valid,
    output wire [SLOT_W-1:0] m_slot_index,
    input wire s_slot_take,
    input wire [QPN_W-1:0] s_lookup_qpn,
    input wire s_new_valid,
    input wire [SLOT_W-1:0] s_new_slot,
    input wire [QPN_W-1:0] s_new_qpn,
    input wire [16:0] s_new_first,
    input wire [6:0] s_new_lines,
    input wire s_new_wide,
    input wire s_new_epoch,
    input wire s_beat_valid,
    input wire [SLOT_W-1:0] s_beat_slot,
    input wire [5:0] s_beat_index,
    input wire s_beat_last,
    input wire s_beat_err,
    input wire s_clear_valid,
    output wire s_clear_ready,
    input wire [QPN_W-1:0] s_clear_qpn,
    input wire [QPN_W-1:0] count_rd_addr,
    output wire [15:0] count_rd_data,
    output wire m_work_valid,
    output wire [QPN_W-1:0] m_work_qpn,
    output wire m_err_valid,
    output wire [QPN_W-1:0] m_err_qpn,
    output wire m_freed_valid,
    output wire m_freed_epoch,
    output wire m_waits
);

  localparam SLOTS = 1 << SLOT_W;
  localparam QPS = 1 << QPN_W;
  localparam REC_W = 1 + 1 + 7 + 17 + QPN_W;
  localparam [SLOT_W:0] ONE_SLOT = 1;

  // Free slots; all of them after the init sweep.
  reg [SLOT_W:0] init_q;
  wire initializing = !init_q[SLOT_W];

  // Per read: it is the first of its queue; some lines pending; all; failed; has a successor.
  reg [SLOTS-1:0] turn_q;
  reg [SLOTS-1:0] some_q;
  reg [SLOTS-1:0] done_q;
  reg [SLOTS-1:0] failed_q;
  reg [SLOTS-1:0] linked_q;
  // Queues with outstanding reads.
  reg [QPS-1:0] busy_q;

  // b1: a beat, or a read with pending lines that became first, its record read; b2: published
  reg b1_valid_q;
  reg b1_later_q;
  reg [SLOT_W-1:0] b1_slot_q;
  reg [5:0] b1_index_q;
  reg b1_last_q;
  reg b1_err_q;
  reg b2_publish_q;
  reg b2_work_q;
  reg b2_failed_q;
  reg [QPN_W-1:0] b2_qpn_q;
  reg [15:0] b2_count_q;
  reg b2_freed_q;
  reg [SLOT_W-1:0] b2_slot_q;
  reg b2_epoch_q;

  wire later_valid;
  wire [SLOT_W-1:0] later_slot;
  wire later_go = later_valid && !s_beat_valid && !(b1_valid_q && b1_slot_q == later_slot);
  wire [SLOT_W-1:0] b0_slot = s_beat_valid ? s_beat_slot : later_slot;

  wire rec_epoch;
  wire rec_wide;
  wire [6:0] rec_lines;
  wire [16:0] rec_first;
  wire [QPN_W-1:0] rec_qpn;
  wire [6:0] had;
  wire [SLOT_W-1:0] next_read;

  // Forwarding of a successor that is linked in the cycle of the read.
  reg [SLOT_W-1:0] link_slot_q;
  reg link_seen_q;
  wire [SLOT_W-1:0] next = link_seen_q ? link_slot_q : next_read;

  wire in_order = b1_later_q || turn_q[b1_slot_q];
  wire over = b1_later_q ? done_q[b1_slot_q] : b1_last_q;
  wire failed = b1_later_q ? failed_q[b1_slot_q] : b1_last_q && b1_err_q;
  wire [6:0] have = b1_later_q ? had : b1_last_q ? rec_lines : {1'b0, b1_index_q} + 7'd1;
  wire [16:0] reached = rec_first + {10'd0, have};
  wire publish = b1_valid_q && in_order;
  wire finish = publish && over;
  wire early = b1_valid_q && !in_order;
  wire pass = finish && linked_q[b1_slot_q];
  wire pass_later = pass && some_q[next];

  // A new read follows the last read of its queue, unless that one ends in this cycle.
  wire [SLOT_W-1:0] tail_read;
  reg [SLOT_W-1:0] tail_q;
  wire follows = busy_q[s_new_qpn] && !(finish && b1_slot_q == tail_q);
  wire link = s_new_valid && follows;

  // Forwarding of a count read in the cycle of its write.
  wire [15:0] count_read;
  reg count_now_q;
  reg [15:0] count_new_q;

  wire space;
  wire later_space;
  wire [SLOT_W:0] free_level;
  wire [SLOT_W:0] later_level;

  assign m_init_done = !initializing;
  assign s_clear_ready = !b2_publish_q;
  assign count_rd_data = count_now_q ? count_new_q : count_read;
  assign m_work_valid = b2_work_q;
  assign m_work_qpn = b2_qpn_q;
  assign m_err_valid = b2_failed_q;
  assign m_err_qpn = b2_qpn_q;
  assign m_freed_valid = b2_freed_q;
  assign m_freed_epoch = b2_epoch_q;
  assign m_waits = later_valid && !later_go;

  efa_fifo #(
      .WIDTH(SLOT_W),
      .DEPTH_LOG2(SLOT_W)
  ) u_free (
      .clk(clk),
      .rst(rst),
      .s_valid(initializing || b2_freed_q),
      .s_ready(space),
      .s_data(initializing ? init_q[SLOT_W-1:0] : b2_slot_q),
      .m_valid(m_slot_valid),
      .m_ready(s_slot_take),
      .m_data(m_slot_index),
      .m_level(free_level)
  );

  efa_fifo #(
      .WIDTH(SLOT_W),
      .DEPTH_LOG2(SLOT_W)
  ) u_later (
      .clk(clk),
      .rst(rst),
      .s_valid(pass_later),
      .s_ready(later_space),
      .s_data(next),
      .m_valid(later_valid),
      .m_ready(later_go),
      .m_data(later_slot),
      .m_level(later_level)
  );

  efa_ram #(
      .WIDTH (REC_W),
      .ADDR_W(SLOT_W)
  ) u_reads (
      .clk(clk),
      .wr_en(s_new_valid),
      .wr_addr(s_new_slot),
      .wr_data({s_new_epoch, s_new_wide, s_new_lines, s_new_first, s_new_qpn}),
      .rd_en(1'b1),
      .rd_addr(b0_slot),
      .rd_data({rec_epoch, rec_wide, rec_lines, rec_first, rec_qpn})
  );

  efa_ram #(
      .WIDTH (7),
      .ADDR_W(SLOT_W)
  ) u_had (
      .clk(clk),
      .wr_en(early),
      .wr_addr(b1_slot_q),
      .wr_data(have),
      .rd_en(1'b1),
      .rd_addr(b0_slot),
      .rd_data(had)
  );

  efa_ram #(
      .WIDTH (SLOT_W),
      .ADDR_W(SLOT_W)
  ) u_next (
      .clk(clk),
      .wr_en(link),
      .wr_addr(tail_q),
      .wr_data(s_new_slot),
      .rd_en(1'b1),
      .rd_addr(b0_slot),
      .rd_data(next_read)
  );

  efa_ram #(
      .WIDTH (SLOT_W),
      .ADDR_W(QPN_W)
  ) u_tail (
      .clk(clk),
      .wr_en(s_new_valid),
      .wr_addr(s_new_qpn),
      .wr_data(s_new_slot),
      .rd_en(1'b1),
      .rd_addr(s_lookup_qpn),
      .rd_data(tail_read)
  );

  efa_ram #(
      .WIDTH (16),
      .ADDR_W(QPN_W)
  ) u_count (
      .clk(clk),
      .wr_en(b2_publish_q || s_clear_valid),
      .wr_addr(b2_publish_q ? b2_qpn_q : s_clear_qpn),
      .wr_data(b2_publish_q ? b2_count_q : 16'd0),
      .rd_en(1'b1),
      .rd_addr(count_rd_addr),
      .rd_data(count_read)
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {SLOT_W + 1{1'b0}};
      busy_q <= {QPS{1'b0}};
      b1_valid_q <= 1'b0;
      b2_publish_q <= 1'b0;
      b2_work_q <= 1'b0;
      b2_failed_q <= 1'b0;
      b2_freed_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE_SLOT;
      if (finish && !pass) busy_q[rec_qpn] <= 1'b0;
      if (s_new_valid) busy_q[s_new_qpn] <= 1'b1;
      b1_valid_q <= s_beat_valid || later_go;
      b2_publish_q <= publish;
      // The first half of a 128-byte WQE is no WQE; lines published together contain at least one.
      b2_work_q <= publish && (b1_later_q || failed || !rec_wide || !reached[0]);
      b2_failed_q <= finish && failed;
      b2_freed_q <= finish;
    end
  end

  always @(posedge clk) begin
    b1_later_q <= !s_beat_valid;
    b1_slot_q <= b0_slot;
    b1_index_q <= s_beat_index;
    b1_last_q <= s_beat_last;
    b1_err_q <= s_beat_err;
    link_seen_q <= link && tail_q == b0_slot;
    link_slot_q <= s_new_slot;
    tail_q <= tail_read;

    if (early) begin
      some_q[b1_slot_q] <= 1'b1;
      done_q[b1_slot_q] <= over;
      failed_q[b1_slot_q] <= failed;
    end
    if (b1_valid_q && b1_later_q) turn_q[b1_slot_q] <= 1'b1;
    if (pass && !pass_later) turn_q[next] <= 1'b1;
    if (s_new_valid) begin
      turn_q[s_new_slot] <= !follows;
      some_q[s_new_slot] <= 1'b0;
      done_q[s_new_slot] <= 1'b0;
      linked_q[s_new_slot] <= 1'b0;
    end
    if (link) linked_q[tail_q] <= 1'b1;

    b2_qpn_q <= rec_qpn;
    b2_count_q <= rec_wide ? reached[16:1] : reached[15:0];
    b2_slot_q <= b1_slot_q;
    b2_epoch_q <= rec_epoch;
    count_now_q <= b2_publish_q && count_rd_addr == b2_qpn_q;
    count_new_q <= b2_count_q;
  end

  wire unused_levels = &{1'b0, free_level, later_level};

  `EFA_CHECK(!(initializing || b2_freed_q) || space, "slot released twice")
  `EFA_CHECK(!pass_later || later_space, "read queued twice")
  `EFA_CHECK(!s_beat_valid || s_beat_last || s_beat_index != 6'd63, "read longer than the limit")

endmodule

`default_nettype wire
