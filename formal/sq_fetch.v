// SPDX-License-Identifier: Apache-2.0
// fv_sq_fetch - proves efa_sq_fetch for one queue of the solver's choice among others without
// constraints: each line of its ring is requested once, in order, none before its doorbell, and the
// queue stays scheduled while posted lines are not requested.
`include "efa_defs.vh"

module fv_sq_fetch #(
    parameter QPN_W  = 2,
    parameter SLOT_W = 8
) (
    input wire clk,
    input wire rst,
    input wire [3:0] mrrs_log,
    input wire doorbell_valid,
    input wire [QPN_W-1:0] doorbell_qpn,
    input wire [15:0] posted_by,
    input wire s_chg_valid,
    input wire [QPN_W-1:0] s_chg_qpn,
    input wire [`EFA_QPC__W-1:0] qpc_data,
    input wire [15:0] prod_data,
    input wire s_clear_valid,
    input wire [QPN_W-1:0] s_clear_qpn,
    input wire s_clear_made,
    input wire [57:0] s_clear_base,
    input wire s_drain,
    input wire s_waits,
    input wire m_rd_ready,
    input wire rd_cpl_valid,
    input wire [31:0] rd_cpl_cookie,
    input wire [12:0] rd_cpl_offset,
    input wire [6:0] rd_cpl_bytes,
    input wire rd_cpl_last,
    input wire rd_cpl_err
);

  localparam LLQ_AW = 21;
  localparam LINE_W = LLQ_AW - 6;

  wire init_done;
  wire s_chg_ready;
  wire [QPN_W-1:0] qpc_addr;
  wire s_clear_ready;
  wire m_drained;
  wire m_rd_valid;
  wire [63:0] m_rd_addr;
  wire [12:0] m_rd_len;
  wire [31:0] m_rd_cookie;
  wire fill_valid;
  wire [LINE_W-1:0] fill_line;
  wire fill_parity;
  wire [15:0] count_data;
  wire work_valid;
  wire [QPN_W-1:0] work_qpn;
  wire err_valid;
  wire [QPN_W-1:0] err_qpn;

  efa_sq_fetch #(
      .QPN_W (QPN_W),
      .LLQ_AW(LLQ_AW),
      .SLOT_W(SLOT_W)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done),
      .s_cfg_mrrs_log(mrrs_log),
      .s_doorbell_valid(doorbell_valid),
      .s_doorbell_qpn(doorbell_qpn),
      .s_chg_valid(s_chg_valid),
      .s_chg_ready(s_chg_ready),
      .s_chg_qpn(s_chg_qpn),
      .qpc_rd_addr(qpc_addr),
      .qpc_rd_data(qpc_data),
      .prod_rd_data(prod_data),
      .s_clear_valid(s_clear_valid),
      .s_clear_ready(s_clear_ready),
      .s_clear_qpn(s_clear_qpn),
      .s_clear_made(s_clear_made),
      .s_clear_base(s_clear_base),
      .s_drain(s_drain),
      .m_drained(m_drained),
      .s_waits(s_waits),
      .m_rd_valid(m_rd_valid),
      .m_rd_ready(m_rd_ready),
      .m_rd_addr(m_rd_addr),
      .m_rd_len(m_rd_len),
      .m_rd_cookie(m_rd_cookie),
      .s_rd_cpl_valid(rd_cpl_valid),
      .s_rd_cpl_cookie(rd_cpl_cookie),
      .s_rd_cpl_offset(rd_cpl_offset),
      .s_rd_cpl_bytes(rd_cpl_bytes),
      .s_rd_cpl_last(rd_cpl_last),
      .s_rd_cpl_err(rd_cpl_err),
      .m_fill_valid(fill_valid),
      .m_fill_line(fill_line),
      .m_fill_parity(fill_parity),
      .count_rd_addr({QPN_W{1'b0}}),
      .count_rd_data(count_data),
      .m_work_valid(work_valid),
      .m_work_qpn(work_qpn),
      .m_err_valid(err_valid),
      .m_err_qpn(err_qpn)
  );

  (* probe = "u_dut.u_requested.word_addr" *) wire [QPN_W-1:0] requested_place;
  (* probe = "u_dut.u_requested.word_q" *) wire [16:0] requested;
  (* probe = "u_dut.u_requested.word_known_q" *) wire requested_known;
  (* probe = "u_dut.u_base.word_addr" *) wire [QPN_W-1:0] base_place;
  (* probe = "u_dut.u_base.word_q" *) wire [57:0] base;
  (* probe = "u_dut.u_base.word_known_q" *) wire base_known;
  (* probe = "u_dut.u_set.inside_q" *) wire [(1<<QPN_W)-1:0] set;
  (* probe = "u_dut.p_valid_q" *) wire p_valid;
  (* probe = "u_dut.p_qpn_q" *) wire [QPN_W-1:0] p_qpn;
  (* probe = "u_dut.p_requested" *) wire [16:0] p_requested;
  (* probe = "u_dut.p_base" *) wire [57:0] p_base;
  (* probe = "u_dut.p_done" *) wire p_done;
  (* probe = "u_dut.p_work" *) wire p_work;
  (* probe = "u_dut.p_open" *) wire p_open;
  (* probe = "u_dut.x_valid_q" *) wire x_valid;
  (* probe = "u_dut.x_new_q" *) wire x_new;
  (* probe = "u_dut.x_qpn_q" *) wire [QPN_W-1:0] x_qpn;
  (* probe = "u_dut.x_first_q" *) wire [16:0] x_first;
  (* probe = "u_dut.x_lines_q" *) wire [6:0] x_lines;
  (* probe = "u_dut.x_more_q" *) wire [11:0] x_more;
  (* probe = "u_dut.x_wide_q" *) wire x_wide;
  (* probe = "u_dut.x_addr_q" *) wire [57:0] x_addr;
  (* probe = "u_dut.x_line_q" *) wire [LINE_W-1:0] x_line;
  (* probe = "u_dut.x_parity_q" *) wire x_parity;
  (* probe = "u_dut.had_new_q" *) wire had_new;
  (* probe = "u_dut.had_qpn_q" *) wire [QPN_W-1:0] had_qpn;
  (* probe = "u_dut.chg_q" *) wire chg;
  (* probe = "u_dut.chg_qpn_q" *) wire [QPN_W-1:0] chg_qpn;
  (* probe = "u_dut.freed_valid" *) wire freed;

  (* anyconst *) wire [QPN_W-1:0] me;
  // Its ring: WQEs of two lines, log2 of its WQEs, its place in memory on the device.
  (* anyconst *) wire wide;
  (* anyconst *) wire [3:0] log;
  (* anyconst *) wire [19:0] line;
  reg began_q = 1'b0;
  reg known_q;
  reg [15:0] prod_q;
  reg [16:0] sent_q;  // requested lines
  reg [57:0] base_q;
  reg looked_q;
  reg [15:0] rsp_q;
  reg cleared_q;
  reg stays_q;
  reg [QPN_W-1:0] clear_qpn_q;
  reg made_q;
  reg [57:0] clear_base_q;
  reg chg_stays_q;
  reg [QPN_W-1:0] chg_qpn_stays_q;
  // Examined while not permitted to request; a state change or a doorbell schedules the queue
  // again.
  reg idle_q;
  reg [3:0] mrrs_q;

  wire [16:0] mask = wide ? 17'h1FFFF : 17'h0FFFF;
  wire [3:0] ring_log = log + {3'd0, wide};
  wire [16:0] ring = 17'd1 << ring_log;
  wire [16:0] posted_lines = wide ? {prod_q, 1'b0} : {1'b0, prod_q};
  wire [16:0] waiting = (posted_lines - sent_q) & mask;
  wire cleared = s_clear_valid && s_clear_qpn == me;
  wire posts = doorbell_valid && doorbell_qpn == me;
  wire p_me = p_valid && p_qpn == me;
  wire x_me = x_valid && x_qpn == me;
  wire changed = s_chg_valid && s_chg_ready && s_chg_qpn == me;
  wire reads = m_rd_valid && m_rd_ready && x_me;
  wire [16:0] lines = {10'd0, m_rd_len[12:6]};
  wire [16:0] index = sent_q & (ring - 17'd1);
  wire [16:0] wraps = sent_q >> ring_log;
  wire [6:0] size = 7'd1 << (mrrs_log - 4'd6);
  wire [6:0] place = m_rd_addr[12:6] & (size - 7'd1);
  // Its read is requested, but the table is not updated or was read before the update.
  wire [16:0] after = (sent_q + (x_me ? {10'd0, x_lines} : 17'd0)) & mask;

  always @(posedge clk) begin
    began_q <= 1'b1;
    looked_q <= qpc_addr == me;
    rsp_q <= posts ? prod_q + posted_by : prod_q;
    cleared_q <= !rst && cleared;
    stays_q <= !rst && s_clear_valid && !s_clear_ready;
    clear_qpn_q <= s_clear_qpn;
    made_q <= s_clear_made;
    clear_base_q <= s_clear_base;
    chg_stays_q <= !rst && s_chg_valid && !s_chg_ready;
    chg_qpn_stays_q <= s_chg_qpn;
    mrrs_q <= mrrs_log;
    if (rst) begin
      known_q <= 1'b0;
      prod_q  <= 0;
      sent_q  <= 0;
      idle_q  <= 1'b1;
    end else begin
      if (cleared) begin
        known_q <= known_q || s_clear_made;
        prod_q  <= 0;
        sent_q  <= 0;
        if (s_clear_made) base_q <= s_clear_base;
      end else begin
        if (posts) prod_q <= prod_q + posted_by;
        if (reads) sent_q <= (sent_q + lines) & mask;
      end
      if (posts || changed) idle_q <= 1'b0;
      else if (p_done && p_me && !p_open) idle_q <= 1'b1;
    end
  end

  always @* begin
    a_reset_first : assume (began_q || rst);
    // The chosen word of each table is that of the queue.
    a_words : assume (requested_place == me && base_place == me);
    a_log : assume (log <= 4'd10);
    // Completions arrive in any order, late, with errors or not at all, each line in its own beat.
    a_beats :
    assume (!rd_cpl_valid || rd_cpl_err || (rd_cpl_bytes == 7'd64 && rd_cpl_offset[5:0] == 6'd0));
    // The end of a read only lowers the count behind m_drained, and no property covers m_drained.
    a_none_over : assume (!freed);
    a_size : assume (mrrs_log >= 4'd7 && mrrs_log <= 4'd12);
    a_size_stays : assume (!began_q || mrrs_log == mrrs_q);
    // Doorbells are valid, and the tables respond with their state at the request.
    a_posted_lives : assume (!posts || (known_q && !cleared && !stays_q && posted_by != 0));
    a_posted_fits :
    assume (!posts || {1'b0, waiting} + (wide ? {1'b0, posted_by, 1'b0} : {2'b00, posted_by}) <= ring);
    a_count : assume (!looked_q || prod_data == rsp_q);
    a_ring :
    assume (!looked_q || (qpc_data[`EFA_QPC__WQE128] == wide && qpc_data[`EFA_QPC__SQ_LOG] == log
        && qpc_data[`EFA_QPC__SQ_LINE] == line));
    // A queue is cleared while none of its reads is offered, and becomes live after that.
    a_clear : assume (!cleared || !x_me);
    a_lives :
    assume (!looked_q || (known_q && !cleared && !cleared_q && !stays_q)
        || !qpc_data[`EFA_QPC__LIVE]);
    a_clear_stays :
    assume (!stays_q || (s_clear_valid && s_clear_qpn == clear_qpn_q && s_clear_made == made_q
        && s_clear_base == clear_base_q));
    a_chg_stays : assume (!chg_stays_q || (s_chg_valid && s_chg_qpn == chg_qpn_stays_q));
    if (began_q && !rst) begin
      h_known : assert (known_q || (!x_me && prod_q == 0));
      h_sent : assert ((sent_q & ~mask) == 0 && {1'b0, waiting} <= ring);
      h_new : assert (!x_new || x_valid || x_new);
      h_table :
      assert (!known_q || (stays_q && clear_qpn_q == me)
          || (requested_known && requested == (x_new && x_qpn == me ? x_first : after)));
      h_base : assert (!known_q || (base_known && base == base_q));
      h_x :
      assert (!x_me || (known_q && x_lines != 0 && x_lines <= 7'd64 && x_wide == wide
          && {10'd0, x_lines} <= waiting && x_first == sent_q
          && x_addr == base_q + {41'd0, index} && x_line == line[LINE_W-1:0] + index[LINE_W-1:0]
          && x_parity == wraps[0] && {10'd0, x_lines} + index <= ring
          && {1'b0, x_addr[5:0] & (size[5:0] - 6'd1)} + x_lines <= size));
      h_p :
      assert (!p_me || !known_q || (x_new && x_qpn == me)
          || (had_new && had_qpn == me) || cleared_q || !looked_q
          || (p_requested == requested && p_base == base));
      h_looked : assert (!p_me || looked_q);
      h_rsp : assert (!known_q || cleared_q || rsp_q == prod_q);
      o_pending : assert (!(x_new && x_me) || {5'd0, x_more} == waiting || set[me] || p_me);
      p_order :
      assert (!reads || (m_rd_addr == {base_q, 6'd0} + {41'd0, index, 6'd0} && m_rd_len != 0
          && m_rd_len[5:0] == 0));
      p_posted : assert (!reads || lines <= waiting);
      p_ring :
      assert (!reads || (index + lines <= ring && {1'b0, place} + m_rd_len[12:6] <= {1'b0, size}
          && m_rd_cookie[LINE_W-1:0] == line[LINE_W-1:0] + index[LINE_W-1:0]
          && m_rd_cookie[28] == wraps[0]));
      p_pending :
      assert (!known_q || waiting == 0 || idle_q || set[me] || p_me || (chg && chg_qpn == me)
          || (x_me && {10'd0, x_lines} == waiting)
          || (x_new && x_qpn == me));
      c_order : cover (reads && sent_q == 17'd5);
      c_posted : cover (reads && lines == waiting && sent_q == 17'd2 && wide);
      c_ring : cover (reads && wraps == 17'd1 && index == 0 && log == 4'd1);
      c_pending : cover (waiting != 0 && !set[me] && !p_me && x_me && x_new && sent_q != 0);
    end
  end

endmodule
