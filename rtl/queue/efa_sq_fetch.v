// SPDX-License-Identifier: Apache-2.0
// efa_sq_fetch - fetches posted send WQEs from host memory, from several queues at once.
//
// In    s_doorbell_* a queue with a new producer index; s_chg a queue whose state changed; its
//       context and producer index (prod_rd_data); s_clear a queue that restarts at 0,
//       s_clear_made: with the address of its ring; s_drain; s_waits: another module waits for a
//       cycle without beats; count_rd_addr: see efa_sq_reorder
// Out   m_rd reads inside one read request size and one wrap of the ring; m_fill_* location of a
//       fetched line, with the parity of its wrap; count_rd_data, m_work_*, m_err_*: see
//       efa_sq_reorder; m_drained: no read from before s_drain is outstanding
// Time  a read 2 cycles after the doorbell of its queue, one per cycle, reads of one queue every 3;
//       round robin between queues; the WQE of a line is visible 2 cycles after the line; after 64
//       cycles of waiting for a cycle without beats, no further read is issued until then
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_sq_fetch #(
    parameter QPN_W  = 6,
    parameter LLQ_AW = 21,
    parameter SLOT_W = 8    // log2 of the outstanding reads
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire [3:0] s_cfg_mrrs_log,
    input wire s_doorbell_valid,
    input wire [QPN_W-1:0] s_doorbell_qpn,
    input wire s_chg_valid,
    output wire s_chg_ready,
    input wire [QPN_W-1:0] s_chg_qpn,
    output wire [QPN_W-1:0] qpc_rd_addr,
    input wire [`EFA_QPC__W-1:0] qpc_rd_data,
    input wire [15:0] prod_rd_data,
    input wire s_clear_valid,
    output wire s_clear_ready,
    input wire [QPN_W-1:0] s_clear_qpn,
    input wire s_clear_made,
    input wire [57:0] s_clear_base,
    input wire s_drain,
    output wire m_drained,
    input wire s_waits,
    output wire m_rd_valid,
    input wire m_rd_ready,
    output wire [63:0] m_rd_addr,
    output wire [12:0] m_rd_len,
    output wire [31:0] m_rd_cookie,
    input wire s_rd_cpl_valid,
    input wire [31:0] s_rd_cpl_cookie,
    input wire [12:0] s_rd_cpl_offset,
    input wire [6:0] s_rd_cpl_bytes,
    input wire s_rd_cpl_last,
    input wire s_rd_cpl_err,
    output wire m_fill_valid,
    output wire [LLQ_AW-6-1:0] m_fill_line,
    output wire m_fill_parity,
    input wire [QPN_W-1:0] count_rd_addr,
    output wire [15:0] count_rd_data,
    output wire m_work_valid,
    output wire [QPN_W-1:0] m_work_qpn,
    output wire m_err_valid,
    output wire [QPN_W-1:0] m_err_qpn
);

  localparam LINE_W = LLQ_AW - 6;
  localparam IN_RING_W = 11;  // lines of the largest ring: 1,024 WQEs of two lines
  // Bits of the cookie of a read.
  localparam COOKIE_SLOT = 20;
  localparam COOKIE_PARITY = 28;
  localparam PATIENCE_W = 6;
  localparam [SLOT_W:0] ONE_OUT = 1;

  generate
    if (SLOT_W > 8) begin : g_illegal
      efa_sq_fetch_needs_slot_w_up_to_8 u_illegal ();
    end
  endgenerate

  // p: the next queue; its context and indices are read again every cycle
  reg p_valid_q;
  reg [QPN_W-1:0] p_qpn_q;

  // x: the read being issued; x_new_q: first cycle, in which the tables are written
  reg x_valid_q;
  reg x_new_q;
  reg [QPN_W-1:0] x_qpn_q;
  reg [SLOT_W-1:0] x_slot_q;
  reg [16:0] x_first_q;
  reg [6:0] x_lines_q;
  reg [IN_RING_W:0] x_more_q;
  reg x_wide_q;
  reg x_epoch_q;
  reg x_parity_q;
  reg [LINE_W-1:0] x_line_q;
  reg [57:0] x_addr_q;
  reg had_new_q;
  reg [QPN_W-1:0] had_qpn_q;

  // A changed queue waits here for a cycle in which no queue is put back.
  reg chg_q;
  reg [QPN_W-1:0] chg_qpn_q;

  reg [PATIENCE_W:0] patience_q;
  wire order_waits;
  wire waits = order_waits || s_waits || (s_clear_valid && !s_clear_ready);
  wire hold = patience_q[PATIENCE_W];

  wire next_valid;
  wire [QPN_W-1:0] next_qpn;
  wire set_ready;
  wire slot_valid;
  wire [SLOT_W-1:0] slot;
  wire order_clear_ready;
  wire freed_valid;
  wire freed_epoch;

  // Counts are in lines.
  wire [57:0] p_base;
  wire [16:0] p_requested;
  wire p_wide = qpc_rd_data[`EFA_QPC__WQE128];
  wire [2:0] p_state = qpc_rd_data[`EFA_QPC__STATE];
  wire p_open = qpc_rd_data[`EFA_QPC__LIVE] && p_state != `EFA_ADMIN_QP_STATE__RESET_W3
      && p_state != `EFA_ADMIN_QP_STATE__INIT_W3 && p_state != `EFA_ADMIN_QP_STATE__RTR_W3;
  wire [16:0] p_posted = p_wide ? {prod_rd_data, 1'b0} : {1'b0, prod_rd_data};
  wire p_work = p_open && p_posted != p_requested;
  wire p_late = (x_new_q && x_qpn_q == p_qpn_q) || (had_new_q && had_qpn_q == p_qpn_q);
  wire p_space = (!x_valid_q || m_rd_ready) && slot_valid && !hold;
  wire p_done = p_valid_q && !p_late && (!p_work || p_space);
  wire p_req = p_done && p_work;

  // A read ends at the producer index, the end of the ring or the read request size.
  wire [3:0] ring_log = qpc_rd_data[`EFA_QPC__SQ_LOG] + {3'd0, p_wide};
  wire [IN_RING_W-1:0] ring_last = ~({IN_RING_W{1'b1}} << ring_log);
  wire [IN_RING_W-1:0] p_index = p_requested[IN_RING_W-1:0] & ring_last;
  wire [IN_RING_W:0] p_more = p_posted[IN_RING_W:0] - p_requested[IN_RING_W:0];
  wire [IN_RING_W-1:0] to_end = ring_last & ~p_requested[IN_RING_W-1:0];
  wire [5:0] size_last = ~(6'h3F << (s_cfg_mrrs_log - 4'd6));
  wire [5:0] p_place = p_base[5:0] + p_index[5:0];
  wire [5:0] to_size = size_last & ~p_place;
  wire [5:0] bound = to_end < {{IN_RING_W - 6{1'b0}}, to_size} ? to_end[5:0] : to_size;
  wire p_all = p_more <= {{IN_RING_W - 6{1'b0}}, 1'b0, bound};  // fewer lines than the bound allows
  wire [6:0] p_lines = p_all ? p_more[6:0] : {1'b0, bound} + 7'd1;
  wire [16:0] wraps = p_requested >> ring_log;
  wire [19:0] ring_line = qpc_rd_data[`EFA_QPC__SQ_LINE];

  // The rest of the queue waits for its next visit.
  wire put = x_new_q && x_more_q != {{IN_RING_W - 6{1'b0}}, x_lines_q};
  wire [16:0] x_end = x_first_q + {10'd0, x_lines_q};

  reg epoch_q;
  reg [2:0] settle_q;
  reg rotated_q;
  reg [SLOT_W:0] out_q[0:1];

  reg [31:0] cookie;
  always @* begin
    cookie = 32'd0;
    cookie[LINE_W-1:0] = x_line_q;
    cookie[COOKIE_SLOT+:SLOT_W] = x_slot_q;
    cookie[COOKIE_PARITY] = x_parity_q;
  end

  assign qpc_rd_addr = p_valid_q && !p_done ? p_qpn_q : next_qpn;
  assign s_chg_ready = !chg_q;
  assign s_clear_ready = order_clear_ready && !x_new_q;
  assign m_drained = s_drain && rotated_q && out_q[!epoch_q] == {SLOT_W + 1{1'b0}};
  assign m_rd_valid = x_valid_q;
  assign m_rd_addr = {x_addr_q, 6'd0};
  assign m_rd_len = {x_lines_q, 6'd0};
  assign m_rd_cookie = cookie;
  assign m_fill_valid = s_rd_cpl_valid && !s_rd_cpl_err;
  assign m_fill_line = s_rd_cpl_cookie[LINE_W-1:0] + {{LINE_W - 6{1'b0}}, s_rd_cpl_offset[11:6]};
  assign m_fill_parity = s_rd_cpl_cookie[COOKIE_PARITY];

  efa_sq_rr #(
      .QPN_W(QPN_W)
  ) u_set (
      .clk(clk),
      .rst(rst),
      .s_now_valid(s_doorbell_valid),
      .s_now_qpn(s_doorbell_qpn),
      .s_valid(put || chg_q),
      .s_ready(set_ready),
      .s_qpn(put ? x_qpn_q : chg_qpn_q),
      .m_valid(next_valid),
      .m_ready(!p_valid_q || p_done),
      .m_qpn(next_qpn)
  );

  efa_sq_reorder #(
      .QPN_W (QPN_W),
      .SLOT_W(SLOT_W)
  ) u_order (
      .clk(clk),
      .rst(rst),
      .m_init_done(m_init_done),
      .m_slot_valid(slot_valid),
      .m_slot_index(slot),
      .s_slot_take(p_req),
      .s_lookup_qpn(qpc_rd_addr),
      .s_new_valid(x_new_q),
      .s_new_slot(x_slot_q),
      .s_new_qpn(x_qpn_q),
      .s_new_first(x_first_q),
      .s_new_lines(x_lines_q),
      .s_new_wide(x_wide_q),
      .s_new_epoch(x_epoch_q),
      .s_beat_valid(s_rd_cpl_valid),
      .s_beat_slot(s_rd_cpl_cookie[COOKIE_SLOT+:SLOT_W]),
      .s_beat_index(s_rd_cpl_offset[11:6]),
      .s_beat_last(s_rd_cpl_last),
      .s_beat_err(s_rd_cpl_err),
      .s_clear_valid(s_clear_valid && !x_new_q),
      .s_clear_ready(order_clear_ready),
      .s_clear_qpn(s_clear_qpn),
      .count_rd_addr(count_rd_addr),
      .count_rd_data(count_rd_data),
      .m_work_valid(m_work_valid),
      .m_work_qpn(m_work_qpn),
      .m_err_valid(m_err_valid),
      .m_err_qpn(m_err_qpn),
      .m_freed_valid(freed_valid),
      .m_freed_epoch(freed_epoch),
      .m_waits(order_waits)
  );

  efa_ram #(
      .WIDTH (17),
      .ADDR_W(QPN_W)
  ) u_requested (
      .clk(clk),
      .wr_en(x_new_q || s_clear_valid),
      .wr_addr(x_new_q ? x_qpn_q : s_clear_qpn),
      .wr_data(x_new_q ? {x_wide_q && x_end[16], x_end[15:0]} : 17'd0),
      .rd_en(1'b1),
      .rd_addr(qpc_rd_addr),
      .rd_data(p_requested)
  );

  efa_ram #(
      .WIDTH (58),
      .ADDR_W(QPN_W)
  ) u_base (
      .clk(clk),
      .wr_en(s_clear_valid && s_clear_made),
      .wr_addr(s_clear_qpn),
      .wr_data(s_clear_base),
      .rd_en(1'b1),
      .rd_addr(qpc_rd_addr),
      .rd_data(p_base)
  );

  always @(posedge clk) begin
    if (rst) begin
      p_valid_q <= 1'b0;
      x_valid_q <= 1'b0;
      x_new_q <= 1'b0;
      had_new_q <= 1'b0;
      chg_q <= 1'b0;
      patience_q <= {PATIENCE_W + 1{1'b0}};
      epoch_q <= 1'b0;
      settle_q <= 3'd0;
      rotated_q <= 1'b0;
      out_q[0] <= {SLOT_W + 1{1'b0}};
      out_q[1] <= {SLOT_W + 1{1'b0}};
    end else begin
      if (!p_valid_q || p_done) p_valid_q <= next_valid;
      if (!x_valid_q || m_rd_ready) x_valid_q <= p_req;
      x_new_q <= p_req;
      had_new_q <= x_new_q;
      if (!chg_q) chg_q <= s_chg_valid;
      else if (!put) chg_q <= 1'b0;

      if (!waits) patience_q <= {PATIENCE_W + 1{1'b0}};
      else if (!hold) patience_q <= patience_q + 1'b1;

      // The new epoch begins when every visit that saw an old context has issued its read.
      settle_q <= {settle_q[1:0], 1'b1} & {3{s_drain}};
      rotated_q <= s_drain && (rotated_q || settle_q[2]);
      if (s_drain && settle_q[2] && !rotated_q) epoch_q <= !epoch_q;
      if (p_req && !(freed_valid && freed_epoch == epoch_q)) begin
        out_q[epoch_q] <= out_q[epoch_q] + ONE_OUT;
      end
      if (freed_valid && !(p_req && freed_epoch == epoch_q)) begin
        out_q[freed_epoch] <= out_q[freed_epoch] - ONE_OUT;
      end
    end
  end

  always @(posedge clk) begin
    if (!p_valid_q || p_done) p_qpn_q <= next_qpn;
    if (p_req) begin
      x_qpn_q <= p_qpn_q;
      x_slot_q <= slot;
      x_first_q <= p_requested;
      x_lines_q <= p_lines;
      x_more_q <= p_more;
      x_wide_q <= p_wide;
      x_epoch_q <= epoch_q;
      x_parity_q <= wraps[0];
      x_line_q <= ring_line[LINE_W-1:0] + {{LINE_W - IN_RING_W{1'b0}}, p_index};
      x_addr_q <= p_base + {{58 - IN_RING_W{1'b0}}, p_index};
    end
    had_qpn_q <= x_qpn_q;
    if (!chg_q) chg_qpn_q <= s_chg_qpn;
  end

  wire unused_bits = &{
    1'b0, qpc_rd_data, s_rd_cpl_cookie, s_rd_cpl_offset, set_ready, wraps[16:1], ring_line, p_lines, x_end
  };

  `EFA_CHECK(
      !s_rd_cpl_valid || s_rd_cpl_err || (s_rd_cpl_bytes == 7'd64 && s_rd_cpl_offset[5:0] == 6'd0),
      "efa_sq_fetch: line split over two beats")
  `EFA_CHECK(!freed_valid || out_q[freed_epoch] != {SLOT_W + 1{1'b0}},
             "efa_sq_fetch: completion without a request")

endmodule

`default_nettype wire
