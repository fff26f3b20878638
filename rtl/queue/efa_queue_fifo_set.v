// SPDX-License-Identifier: Apache-2.0
// efa_queue_fifo_set - holds queues with pending work in arrival order, each at most once.
//
// In    s_now_* always accepted; s stream, which waits for s_now_*
// Out   m stream, the next queue; it may be added again from the cycle in which it is taken
// Time  one in and one out per cycle; latency 2 cycles; after rst 2^QPN_W cycles of initialisation,
//       in which no queue is added
//
// A queue has two bits: the input inverts one when it adds the queue, the output copies it to the
// other when the queue is taken. The queue is in the set while the bits differ.
`default_nettype none
`include "efa_check.vh"

module efa_queue_fifo_set #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire s_now_valid,
    input wire [QPN_W-1:0] s_now_qpn,
    input wire s_valid,
    output wire s_ready,
    input wire [QPN_W-1:0] s_qpn,
    output wire m_valid,
    input wire m_ready,
    output wire [QPN_W-1:0] m_qpn
);

  localparam [QPN_W-1:0] ONE = 1;
  localparam [QPN_W:0] ONE_INIT = 1;

  // Init sweep of both bits after a reset.
  reg [QPN_W:0] init_q;

  // s1: a queue with its bits as read; a write in the cycle of the read is forwarded
  reg s1_valid_q;
  reg [QPN_W-1:0] s1_qpn_q;
  reg s1_taken_q;  // the queue was taken in that cycle
  reg s1_added_q;  // the queue was added in that cycle
  reg s1_added_bit_q;

  // The oldest queue is the output register of the RAM, or a queue that bypassed the empty RAM.
  reg head_q;
  reg bypass_q;
  reg [QPN_W:0] bypass_item_q;
  reg [QPN_W-1:0] wr_addr_q;  // equal addresses: empty; at most all queues but one are in the RAM
  reg [QPN_W-1:0] rd_addr_q;

  wire initializing = !init_q[QPN_W];
  wire put = s_now_valid || s_valid;
  wire [QPN_W-1:0] put_qpn = s_now_valid ? s_now_qpn : s_qpn;
  wire take = m_valid && m_ready;

  wire added_read;
  wire taken_read;
  wire added_bit = s1_added_q ? s1_added_bit_q : added_read;
  wire fresh = s1_taken_q || added_bit == taken_read;
  wire add = s1_valid_q && fresh;

  wire stored = wr_addr_q != rd_addr_q;
  wire space = !head_q || m_ready;
  wire fetch = stored && space;
  wire bypass = add && !stored && space;
  wire push = add && !bypass;

  wire [QPN_W:0] item = {!added_bit, s1_qpn_q};
  wire [QPN_W:0] item_read;
  wire m_bit;
  assign {m_bit, m_qpn} = bypass_q ? bypass_item_q : item_read;

  assign m_init_done = !initializing;
  assign s_ready = !s_now_valid;
  assign m_valid = head_q;

  efa_ram #(
      .WIDTH (1),
      .ADDR_W(QPN_W)
  ) u_added (
      .clk(clk),
      .wr_en(initializing || add),
      .wr_addr(initializing ? init_q[QPN_W-1:0] : s1_qpn_q),
      .wr_data(!initializing && !added_bit),
      .rd_en(1'b1),
      .rd_addr(put_qpn),
      .rd_data(added_read)
  );

  efa_ram #(
      .WIDTH (1),
      .ADDR_W(QPN_W)
  ) u_taken (
      .clk(clk),
      .wr_en(initializing || take),
      .wr_addr(initializing ? init_q[QPN_W-1:0] : m_qpn),
      .wr_data(!initializing && m_bit),
      .rd_en(1'b1),
      .rd_addr(put_qpn),
      .rd_data(taken_read)
  );

  efa_ram #(
      .WIDTH (QPN_W + 1),
      .ADDR_W(QPN_W)
  ) u_order (
      .clk(clk),
      .wr_en(push),
      .wr_addr(wr_addr_q),
      .wr_data(item),
      .rd_en(fetch),
      .rd_addr(rd_addr_q),
      .rd_data(item_read)
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {QPN_W + 1{1'b0}};
      s1_valid_q <= 1'b0;
      head_q <= 1'b0;
      wr_addr_q <= {QPN_W{1'b0}};
      rd_addr_q <= {QPN_W{1'b0}};
    end else begin
      if (initializing) init_q <= init_q + ONE_INIT;
      s1_valid_q <= put;
      if (fetch || bypass) head_q <= 1'b1;
      else if (m_ready) head_q <= 1'b0;
      if (push) wr_addr_q <= wr_addr_q + ONE;
      if (fetch) rd_addr_q <= rd_addr_q + ONE;
    end
  end

  always @(posedge clk) begin
    s1_qpn_q <= put_qpn;
    s1_taken_q <= take && m_qpn == put_qpn;
    s1_added_q <= add && s1_qpn_q == put_qpn;
    s1_added_bit_q <= !added_bit;
    if (fetch || bypass) bypass_q <= bypass;
    if (bypass) bypass_item_q <= item;
  end

  `EFA_CHECK(!initializing || !put, "queue added before the end of the initialisation")
  `EFA_CHECK(!push || fetch || wr_addr_q + ONE != rd_addr_q, "queue in the set twice")

endmodule

`default_nettype wire
