// SPDX-License-Identifier: Apache-2.0
// efa_sq_reorder - publishes fetched send WQEs in order per queue, whatever the order of
// completions.
//
// In    lookup_qpn the queue that may issue the next read; new_* its read, one cycle after
//       slot_take; beat_* lines of a read, ascending, the last one with the status; s_clear a queue
//       that restarts at 0; count_addr a reader of the counts
// Out   slot a free slot for a read; count_data WQEs published; work_* a queue has new published
//       WQEs; err_* a read of the queue failed, reported with its WQEs, whose lines are incomplete;
//       freed_*: a read is done; waits: early lines wait for a cycle without beats
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
    output wire init_done,
    output wire slot_valid,
    output wire [SLOT_W-1:0] slot,
    input wire slot_take,
    input wire [QPN_W-1:0] lookup_qpn,
    input wire new_valid,
    input wire [SLOT_W-1:0] new_slot,
    input wire [QPN_W-1:0] new_qpn,
    input wire [16:0] new_first,
    input wire [6:0] new_lines,
    input wire new_wide,
    input wire new_epoch,
    input wire beat_valid,
    input wire [SLOT_W-1:0] beat_slot,
    input wire [5:0] beat_index,
    input wire beat_last,
    input wire beat_err,
    input wire s_clear_valid,
    output wire s_clear_ready,
    input wire [QPN_W-1:0] s_clear_qpn,
    input wire [QPN_W-1:0] count_addr,
    output wire [15:0] count_data,
    output wire work_valid,
    output wire [QPN_W-1:0] work_qpn,
    output wire err_valid,
    output wire [QPN_W-1:0] err_qpn,
    output wire freed_valid,
    output wire freed_epoch,
    output wire waits
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
  wire later_go = later_valid && !beat_valid && !(b1_valid_q && b1_slot_q == later_slot);
  wire [SLOT_W-1:0] b0_slot = beat_valid ? beat_slot : later_slot;

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
  wire follows = busy_q[new_qpn] && !(finish && b1_slot_q == tail_q);
  wire link = new_valid && follows;

  // Forwarding of a count read in the cycle of its write.
  wire [15:0] count_read;
  reg count_now_q;
  reg [15:0] count_new_q;

  wire space;
  wire later_space;
  wire [SLOT_W:0] free_level;
  wire [SLOT_W:0] later_level;

  assign init_done = !initializing;
  assign s_clear_ready = !b2_publish_q;
  assign count_data = count_now_q ? count_new_q : count_read;
  assign work_valid = b2_work_q;
  assign work_qpn = b2_qpn_q;
  assign err_valid = b2_failed_q;
  assign err_qpn = b2_qpn_q;
  assign freed_valid = b2_freed_q;
  assign freed_epoch = b2_epoch_q;
  assign waits = later_valid && !later_go;

  efa_fifo #(
      .WIDTH(SLOT_W),
      .DEPTH_LOG2(SLOT_W)
  ) u_free (
      .clk(clk),
      .rst(rst),
      .s_valid(initializing || b2_freed_q),
      .s_ready(space),
      .s_data(initializing ? init_q[SLOT_W-1:0] : b2_slot_q),
      .m_valid(slot_valid),
      .m_ready(slot_take),
      .m_data(slot),
      .level(free_level)
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
      .level(later_level)
  );

  efa_ram #(
      .WIDTH (REC_W),
      .ADDR_W(SLOT_W)
  ) u_reads (
      .clk(clk),
      .wr_en(new_valid),
      .wr_addr(new_slot),
      .wr_data({new_epoch, new_wide, new_lines, new_first, new_qpn}),
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
      .wr_data(new_slot),
      .rd_en(1'b1),
      .rd_addr(b0_slot),
      .rd_data(next_read)
  );

  efa_ram #(
      .WIDTH (SLOT_W),
      .ADDR_W(QPN_W)
  ) u_tail (
      .clk(clk),
      .wr_en(new_valid),
      .wr_addr(new_qpn),
      .wr_data(new_slot),
      .rd_en(1'b1),
      .rd_addr(lookup_qpn),
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
      .rd_addr(count_addr),
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
      if (new_valid) busy_q[new_qpn] <= 1'b1;
      b1_valid_q <= beat_valid || later_go;
      b2_publish_q <= publish;
      // The first half of a 128-byte WQE is no WQE; lines published together contain at least one.
      b2_work_q <= publish && (b1_later_q || failed || !rec_wide || !reached[0]);
      b2_failed_q <= finish && failed;
      b2_freed_q <= finish;
    end
  end

  always @(posedge clk) begin
    b1_later_q <= !beat_valid;
    b1_slot_q <= b0_slot;
    b1_index_q <= beat_index;
    b1_last_q <= beat_last;
    b1_err_q <= beat_err;
    link_seen_q <= link && tail_q == b0_slot;
    link_slot_q <= new_slot;
    tail_q <= tail_read;

    if (early) begin
      some_q[b1_slot_q] <= 1'b1;
      done_q[b1_slot_q] <= over;
      failed_q[b1_slot_q] <= failed;
    end
    if (b1_valid_q && b1_later_q) turn_q[b1_slot_q] <= 1'b1;
    if (pass && !pass_later) turn_q[next] <= 1'b1;
    if (new_valid) begin
      turn_q[new_slot] <= !follows;
      some_q[new_slot] <= 1'b0;
      done_q[new_slot] <= 1'b0;
      linked_q[new_slot] <= 1'b0;
    end
    if (link) linked_q[tail_q] <= 1'b1;

    b2_qpn_q <= rec_qpn;
    b2_count_q <= rec_wide ? reached[16:1] : reached[15:0];
    b2_slot_q <= b1_slot_q;
    b2_epoch_q <= rec_epoch;
    count_now_q <= b2_publish_q && count_addr == b2_qpn_q;
    count_new_q <= b2_count_q;
  end

  wire unused_levels = &{1'b0, free_level, later_level};

  `EFA_CHECK(!(initializing || b2_freed_q) || space, "slot released twice")
  `EFA_CHECK(!pass_later || later_space, "read queued twice")
  `EFA_CHECK(!beat_valid || beat_last || beat_index != 6'd63, "read longer than the limit")

endmodule

`default_nettype wire
