// SPDX-License-Identifier: Apache-2.0
// fv_dma_rd - proves efa_dma_rd for one tag of the solver's choice: the tag is in one place only,
// so the block never allocates it twice. The tag is free again after the last completion of its
// read, timed out or not. The client receives the end of each read once, with its cookie.
`include "efa_defs.vh"

module fv_dma_rd #(
    parameter TAGS = 16,
    parameter TIMEOUT_CYCLES = 4
) (
    input wire clk,
    input wire rst,
    input wire s_cfg_bme,
    input wire stop,
    input wire [3:0] mrrs_log,
    input wire rd_adm_valid,
    input wire [63:0] rd_adm_addr,
    input wire [12:0] rd_adm_len,
    input wire [31:0] rd_adm_cookie,
    input wire rd_rq_valid,
    input wire [63:0] rd_rq_addr,
    input wire [12:0] rd_rq_len,
    input wire [31:0] rd_rq_cookie,
    input wire rd_tx_valid,
    input wire [63:0] rd_tx_addr,
    input wire [12:0] rd_tx_len,
    input wire [31:0] rd_tx_cookie,
    input wire [`EFA_DMA_RD__W-1:0] rd_sq_data,
    input wire m_dma_rd_ready,
    input wire s_dma_rd_cpl_valid,
    input wire [7:0] s_dma_rd_cpl_tag,
    input wire [511:0] s_dma_rd_cpl_data,
    input wire [6:0] s_dma_rd_cpl_bytes,
    input wire s_dma_rd_cpl_last,
    input wire s_dma_rd_cpl_err
);

  localparam TAG_W = $clog2(TAGS);
  localparam REQ_META_W = 1 + 3 + 32 + 13;
  localparam HAVE_W = 16;

  wire init_done;
  wire idle;
  wire rd_adm_ready;
  wire rd_rq_ready;
  wire rd_tx_ready;
  wire rd_sq_ready;
  wire m_dma_rd_valid;
  wire [63:0] m_dma_rd_addr;
  wire [12:0] m_dma_rd_len;
  wire [7:0] m_dma_rd_tag;
  wire s_dma_rd_cpl_ready;
  wire rd_cpl_adm_valid;
  wire rd_cpl_rq_valid;
  wire rd_cpl_tx_valid;
  wire rd_cpl_sq_valid;
  wire [31:0] rd_cpl_cookie;
  wire [12:0] rd_cpl_offset;
  wire [511:0] rd_cpl_data;
  wire [6:0] rd_cpl_bytes;
  wire rd_cpl_last;
  wire rd_cpl_err;
  wire late_valid;
  wire [7:0] late_tag;
  wire ev_rd_valid;
  wire [63:0] ev_rd_data;
  wire ev_rd_cpl_valid;
  wire [63:0] ev_rd_cpl_data;

  efa_dma_rd #(
      .TAGS(TAGS),
      .TIMEOUT_CYCLES(TIMEOUT_CYCLES)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .s_cfg_bme(s_cfg_bme),
      .s_stop(stop),
      .s_cfg_mrrs_log(mrrs_log),
      .m_init_done(init_done),
      .m_idle(idle),
      .s_rd_valid({1'b0, rd_tx_valid, rd_rq_valid, rd_adm_valid}),
      .s_rd_ready({rd_sq_ready, rd_tx_ready, rd_rq_ready, rd_adm_ready}),
      .s_rd_data({
        rd_sq_data,
        rd_tx_addr,
        rd_tx_len,
        rd_tx_cookie,
        rd_rq_addr,
        rd_rq_len,
        rd_rq_cookie,
        rd_adm_addr,
        rd_adm_len,
        rd_adm_cookie
      }),
      .m_dma_rd_valid(m_dma_rd_valid),
      .m_dma_rd_ready(m_dma_rd_ready),
      .m_dma_rd_addr(m_dma_rd_addr),
      .m_dma_rd_len(m_dma_rd_len),
      .m_dma_rd_tag(m_dma_rd_tag),
      .s_dma_rd_cpl_valid(s_dma_rd_cpl_valid),
      .s_dma_rd_cpl_ready(s_dma_rd_cpl_ready),
      .s_dma_rd_cpl_tag(s_dma_rd_cpl_tag),
      .s_dma_rd_cpl_data(s_dma_rd_cpl_data),
      .s_dma_rd_cpl_bytes(s_dma_rd_cpl_bytes),
      .s_dma_rd_cpl_last(s_dma_rd_cpl_last),
      .s_dma_rd_cpl_err(s_dma_rd_cpl_err),
      .m_rd_cpl_valid({rd_cpl_sq_valid, rd_cpl_tx_valid, rd_cpl_rq_valid, rd_cpl_adm_valid}),
      .m_rd_cpl_data({
        rd_cpl_err, rd_cpl_last, rd_cpl_bytes, rd_cpl_data, rd_cpl_offset, rd_cpl_cookie
      }),
      .m_late_valid(late_valid),
      .m_late_tag(late_tag),
      .ev_rd_valid(ev_rd_valid),
      .ev_rd_data(ev_rd_data),
      .ev_rd_cpl_valid(ev_rd_cpl_valid),
      .ev_rd_cpl_data(ev_rd_cpl_data)
  );

  (* probe = "u_dut.init_q" *) wire sweep;
  (* probe = "u_dut.init_tag_q" *) wire [TAG_W-1:0] init_tag;
  (* probe = "u_dut.u_free.level_q" *) wire [TAG_W:0] free_level;
  (* probe = "u_dut.u_free.wr_addr_q" *) wire [TAG_W-1:0] free_wr;
  (* probe = "u_dut.u_free.rd_addr_q" *) wire [TAG_W-1:0] free_rd;
  (* probe = "u_dut.u_free.g_flops.words" *) wire [TAGS*(TAG_W+1)-1:0] free_words;
  (* probe = "u_dut.out_valid_q" *) wire out_valid;
  (* probe = "u_dut.out_tag_q" *) wire [TAG_W-1:0] out_tag;
  (* probe = "u_dut.out_phase_q" *) wire out_phase;
  (* probe = "u_dut.out_client_q" *) wire [2:0] out_client;
  (* probe = "u_dut.free_tag" *) wire [TAG_W-1:0] free_tag;
  (* probe = "u_dut.free_take" *) wire free_take;
  (* probe = "u_dut.give" *) wire give;
  (* probe = "u_dut.give_tag" *) wire [TAG_W-1:0] give_tag;
  (* probe = "u_dut.slot_q" *) wire slot;
  (* probe = "u_dut.slot_req" *) wire slot_req;
  (* probe = "u_dut.out_cookie" *) wire [31:0] out_cookie;
  (* probe = "u_dut.u_req.word_addr" *) wire [TAG_W-1:0] req_addr;
  (* probe = "u_dut.u_req.word_q" *) wire [REQ_META_W-1:0] req_word;
  (* probe = "u_dut.u_req.word_known_q" *) wire req_known;
  (* probe = "u_dut.u_have.word_addr" *) wire [TAG_W-1:0] have_addr;
  (* probe = "u_dut.u_have.word_q" *) wire [HAVE_W-1:0] have_word;
  (* probe = "u_dut.u_have.word_known_q" *) wire have_known;
  (* probe = "u_dut.s1_valid_q" *) wire s1_valid;
  (* probe = "u_dut.s1_slot_q" *) wire s1_slot;
  (* probe = "u_dut.s1_known_q" *) wire s1_known;
  (* probe = "u_dut.s1_last_q" *) wire s1_last;
  (* probe = "u_dut.s1_tag" *) wire [TAG_W-1:0] s1_tag;
  (* probe = "u_dut.have" *) wire [HAVE_W-1:0] have;
  (* probe = "u_dut.req_now_phase" *) wire req_now_phase;
  (* probe = "u_dut.req_now_client" *) wire [2:0] req_now_client;
  (* probe = "u_dut.req_now_cookie" *) wire [31:0] req_now_cookie;
  (* probe = "u_dut.rd_cpl_tag_q" *) wire [TAG_W-1:0] rd_cpl_tag;

  (* anyconst *) wire [TAG_W-1:0] me;
  reg began_q = 1'b0;
  reg phase_q;  // phase of its last use
  reg held_q;  // its read is sent and the last completion is missing
  reg back_q;  // the last completion arrived one cycle ago
  reg ended_q;  // the client received the end of the read
  reg [31:0] cookie_q;
  reg [2:0] client_q;
  reg [31:0] rsp_cookie_q;
  reg [2:0] rsp_client_q;
  reg [TAGS-1:0] all_held_q;  // held_q of every tag
  reg any_back_q;

  wire [7:0] me_tag = {{8 - TAG_W{1'b0}}, me};
  wire [2:0] grant = {rd_tx_ready, rd_rq_ready, rd_adm_ready};
  wire requests = grant != 3'd0 && free_tag == me;
  wire leaves = m_dma_rd_valid && m_dma_rd_ready && m_dma_rd_tag == me_tag;
  wire arrived = s_dma_rd_cpl_valid && s_dma_rd_cpl_ready && s_dma_rd_cpl_tag == me_tag;
  wire delivered = (rd_cpl_adm_valid || rd_cpl_rq_valid || rd_cpl_tx_valid) && rd_cpl_tag == me;
  wire any_arrived = s_dma_rd_cpl_valid && s_dma_rd_cpl_ready && s_dma_rd_cpl_last
      && s_dma_rd_cpl_tag < TAGS;
  wire in_out = out_valid && out_tag == me;
  wire s1_me = s1_valid && s1_known && s1_tag == me;

  // Occurrences of the tag among the free tags, and the consistency of its place.
  reg [TAG_W:0] free_count;
  reg [TAG_W-1:0] distance;
  reg [TAG_W-1:0] at;
  reg [TAG_W:0] held_count;
  integer n;
  always @* begin
    free_count = 0;
    held_count = 0;
    at = 0;
    for (n = 0; n < TAGS; n = n + 1) begin
      held_count = held_count + all_held_q[n];
      distance = n[TAG_W-1:0] - free_rd;
      if ({1'b0, distance} < free_level && free_words[(TAG_W+1)*n+1+:TAG_W] == me) begin
        free_count = free_count + 1;
        at = n[TAG_W-1:0];
      end
    end
  end
  wire in_free = free_count != 0;
  wire swept = !sweep || init_tag > me;
  wire free_phase = free_words[(TAG_W+1)*at];

  always @(posedge clk) begin
    began_q <= 1'b1;
    back_q <= !rst && arrived && s_dma_rd_cpl_last && held_q;
    any_back_q <= !rst && any_arrived && all_held_q[s_dma_rd_cpl_tag[TAG_W-1:0]];
    if (rst) begin
      held_q <= 1'b0;
      all_held_q <= 0;
      ended_q <= 1'b1;
      phase_q <= 1'b0;
    end else begin
      if (leaves) held_q <= 1'b1;
      else if (arrived && s_dma_rd_cpl_last) held_q <= 1'b0;
      if (any_arrived) all_held_q[s_dma_rd_cpl_tag[TAG_W-1:0]] <= 1'b0;
      if (m_dma_rd_valid && m_dma_rd_ready) all_held_q[m_dma_rd_tag[TAG_W-1:0]] <= 1'b1;
      if (leaves) ended_q <= 1'b0;
      else if (delivered && rd_cpl_last) ended_q <= 1'b1;
      if (requests) phase_q <= !phase_q;
    end
    if (requests) begin
      cookie_q <= grant[0] ? rd_adm_cookie : grant[1] ? rd_rq_cookie : rd_tx_cookie;
      client_q <= grant;
    end
    if (leaves) begin
      rsp_cookie_q <= cookie_q;
      rsp_client_q <= client_q;
    end
  end

  function fits(input [12:0] addr, input [12:0] len, input [3:0] log);
    reg [12:0] limit;
    begin
      limit = 13'd1 << log;
      fits = len != 13'd0 && {1'b0, addr & (limit - 13'd1)} + {1'b0, len} <= {1'b0, limit};
    end
  endfunction

  wire req_p = req_word[REQ_META_W-1];
  wire have_p = have_word[HAVE_W-1];
  wire have_up = have_word[HAVE_W-2];
  wire end_coming = delivered && rd_cpl_last;
  wire waits = req_p != have_p && !have_up;

  always @* begin
    a_reset_first : assume (began_q || rst);
    // A request lies within one read request size, of any permitted size.
    a_size : assume (mrrs_log >= 4'd7 && mrrs_log <= 4'd12);
    a_adm_within : assume (!rd_adm_valid || fits(rd_adm_addr[12:0], rd_adm_len, mrrs_log));
    a_rq_within : assume (!rd_rq_valid || fits(rd_rq_addr[12:0], rd_rq_len, mrrs_log));
    a_tx_within : assume (!rd_tx_valid || fits(rd_tx_addr[12:0], rd_tx_len, mrrs_log));
    // A read is not completed in the cycle in which it is sent.
    a_completed_later :
    assume (!(m_dma_rd_valid && m_dma_rd_ready && s_dma_rd_cpl_valid && s_dma_rd_cpl_ready
        && s_dma_rd_cpl_tag == m_dma_rd_tag));
    // The proof of this tag is valid for any tag. The first tag to break the property could be this
    // one, so the property is assumed of the others.
    a_others_back : assume (s1_tag == me || !began_q || any_back_q == give);
    a_others_once :
    assume (!(m_dma_rd_valid && m_dma_rd_ready) || m_dma_rd_tag == me_tag
        || !all_held_q[m_dma_rd_tag[TAG_W-1:0]]);
    // The chosen word of each memory is that of the tag.
    a_words : assume (req_addr == me && have_addr == me);
    if (began_q && !rst) begin
      h_level : assert (free_level <= TAGS && free_level[TAG_W-1:0] == free_wr - free_rd);
      h_init :
      assert (!sweep || (free_level == {1'b0, init_tag} && free_rd == 0 && !out_valid && !held_q
          && !back_q && !any_back_q && all_held_q == 0 && !s1_valid && phase_q == 0
          && !s_dma_rd_cpl_ready && !slot && !slot_req && ended_q
          && !(rd_cpl_adm_valid || rd_cpl_rq_valid || rd_cpl_tx_valid)));
      h_all :
      assert (all_held_q[me] == held_q && (!back_q || any_back_q)
          && (!any_back_q || back_q == (s1_tag == me)));
      h_one : assert (free_count <= 1);
      h_places : assert (swept ? {1'b0, in_free} + in_out + held_q + back_q == 1 : !in_free);
      h_phase : assert (!in_free || free_phase == phase_q);
      h_out :
      assert (!in_out || (out_phase == phase_q && client_q == out_client
          && cookie_q == out_cookie));
      h_req :
      assert (!swept || (req_known && have_known && req_p == (in_out ? !phase_q : phase_q)));
      h_have :
      assert (!swept || have_p == (held_q || back_q ? !phase_q : in_out ? !phase_q : phase_q));
      h_up : assert (!swept || held_q || back_q || !have_up);
      h_client : assert ((!in_out || client_q != 0) && (!(held_q || back_q) || rsp_client_q != 0));
      h_sum : assert (sweep || free_level + out_valid + held_count + any_back_q == TAGS);
      h_in : assert (!back_q || !in_free);
      h_s1 :
      assert (!s1_me || (have[HAVE_W-1-:2] == {have_p, have_up}
          && (req_now_phase == req_p || (s1_slot && req_now_phase == have_p))
          && (req_now_phase == have_p
          || {req_now_client, req_now_cookie} == {rsp_client_q, rsp_cookie_q})));
      h_delivered : assert (!swept || waits == !(ended_q || end_coming));
      h_whose :
      assert (!swept || !(held_q || back_q) || req_word[13+:35] == {rsp_client_q, rsp_cookie_q});
      h_back : assert (!back_q || (s1_me && !s1_slot && s1_last));
      h_given : assert (!(give && give_tag == me) || back_q);
      p_once : assert (!leaves || (!held_q && !in_free && !back_q));
      p_place : assert (!swept || {1'b0, free_count} + in_out + held_q + back_q == 1);
      p_conserved : assert (sweep || free_level + out_valid + held_count + any_back_q == TAGS);
      p_back : assert (back_q == (give && give_tag == me));
      p_delivered : assert (!delivered || !ended_q);
      p_whose :
      assert (!delivered || (rd_cpl_cookie == rsp_cookie_q
          && {rd_cpl_tx_valid, rd_cpl_rq_valid, rd_cpl_adm_valid} == rsp_client_q));
      c_once : cover (leaves && held_count == 2);
      c_place : cover (in_out && out_valid);
      c_conserved : cover (held_count == 2 && any_back_q && out_valid);
      c_back : cover (back_q && m_dma_rd_valid);
      c_delivered : cover (delivered && rd_cpl_last && rd_cpl_offset != 0);
      c_whose : cover (delivered && rd_cpl_tx_valid && rd_cpl_cookie == 32'd7);
    end
  end

endmodule
