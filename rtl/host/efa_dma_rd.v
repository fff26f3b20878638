// SPDX-License-Identifier: Apache-2.0
// efa_dma_rd - issues the host reads of all clients, TAGS outstanding, completed in any order.
//
// In    s_rd: requests, one lane per client, the last one with SQ_HOST; s_dma_rd_cpl: one beat per
//       cycle; s_cfg_bme low or s_stop: no new request
// Out   m_dma_rd; m_rd_cpl: beats to the requesting client, with their byte offset in the request;
//       m_idle: no request is pending or outstanding; m_late: a completion without outstanding
//       request
// Time  a request leaves one cycle after its handshake, one per cycle; a beat is delivered two
//       cycles after it arrives. A read without completion after TIMEOUT_CYCLES (at most 4 * TAGS
//       later) ends with err; its tag is used again only after the late completion, which is
//       dropped. Initialisation takes TAGS cycles after rst; s_dma_rd_cpl_ready is low then and in
//       the one cycle that a timeout takes.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_dma_rd #(
    parameter TAGS = 256,
    parameter TIMEOUT_CYCLES = 65536,
    parameter SQ_HOST = 0
) (
    input  wire clk,
    input  wire rst,
    input  wire s_cfg_bme,
    input  wire s_stop,
    input  wire [3:0] s_cfg_mrrs_log,
    output wire m_init_done,
    output wire m_idle,
    input  wire [`EFA_DMA_RD_CLIENT__COUNT-1:0] s_rd_valid,
    output wire [`EFA_DMA_RD_CLIENT__COUNT-1:0] s_rd_ready,
    input  wire [`EFA_DMA_RD__W*`EFA_DMA_RD_CLIENT__COUNT-1:0] s_rd_data,
    output wire m_dma_rd_valid,
    input  wire m_dma_rd_ready,
    output wire [63:0] m_dma_rd_addr,
    output wire [12:0] m_dma_rd_len,
    output wire [7:0] m_dma_rd_tag,
    input  wire s_dma_rd_cpl_valid,
    output wire s_dma_rd_cpl_ready,
    input  wire [7:0] s_dma_rd_cpl_tag,
    input  wire [511:0] s_dma_rd_cpl_data,
    input  wire [6:0] s_dma_rd_cpl_bytes,
    input  wire s_dma_rd_cpl_last,
    input  wire s_dma_rd_cpl_err,
    output wire [`EFA_DMA_RD_CLIENT__COUNT-1:0] m_rd_cpl_valid,
    output wire [`EFA_DMA_RD_CPL__W-1:0] m_rd_cpl_data,
    output wire m_late_valid,
    output wire [7:0] m_late_tag,
    output wire ev_rd_valid,
    output wire [63:0] ev_rd_data,
    output wire ev_rd_cpl_valid,
    output wire [63:0] ev_rd_cpl_data
);

  localparam CLIENTS = `EFA_DMA_RD_CLIENT__COUNT;
  localparam N = SQ_HOST != 0 ? CLIENTS : CLIENTS - 1;
  localparam TAG_W = $clog2(TAGS);
  localparam REQ_W = `EFA_DMA_RD__W;
  localparam [TAG_W-1:0] TAG_ONE = 1;
  localparam [8:0] TAG_END = TAGS;
  localparam [TAG_W:0] LIVE_ONE = 1;
  // No read is older: the timeout scan checks each tag once a round, of at most four cycles a tag.
  localparam NOW_W = $clog2(TIMEOUT_CYCLES + 4 * TAGS);
  localparam [NOW_W-1:0] NOW_ONE = 1;

  generate
    if (TAGS < 16 || TAGS > 256 || (1 << TAG_W) != TAGS) begin : g_illegal
      efa_dma_rd_needs_tags_16_to_256_a_power_of_two u_illegal ();
    end
  endgenerate

  // After rst every tag is free, with the records of a completed read.
  reg init_q;
  reg [TAG_W-1:0] init_tag_q;

  always @(posedge clk) begin
    if (rst) begin
      init_q <= 1'b1;
      init_tag_q <= {TAG_W{1'b0}};
    end else if (init_q) begin
      init_q <= init_tag_q != {TAG_W{1'b1}};
      init_tag_q <= init_tag_q + TAG_ONE;
    end
  end

  assign m_init_done = !init_q;

  // Requests. A tag carries the phase of its last use: a read is outstanding while the phase of its
  // request differs from the phase of its last completion.
  wire free_valid;
  wire free_take;
  wire [TAG_W-1:0] free_tag;
  wire free_phase;
  wire give;
  wire [TAG_W-1:0] give_tag;
  wire give_phase;
  wire give_space;
  wire [TAG_W:0] unused_free;

  efa_fifo #(
      .WIDTH(TAG_W + 1),
      .DEPTH_LOG2(TAG_W)
  ) u_free (
      .clk(clk),
      .rst(rst),
      .s_valid(init_q || give),
      .s_ready(give_space),
      .s_data(init_q ? {init_tag_q, 1'b0} : {give_tag, give_phase}),
      .m_valid(free_valid),
      .m_ready(free_take),
      .m_data({free_tag, free_phase}),
      .m_level(unused_free)
  );

  reg out_valid_q;
  reg [N-1:0] out_client_q;
  reg [REQ_W-1:0] out_q;
  reg [TAG_W-1:0] out_tag_q;
  reg out_phase_q;
  reg [TAG_W:0] live_q;  // requests accepted and neither completed nor timed out

  wire space = !out_valid_q || m_dma_rd_ready;
  wire start = space && free_valid && !init_q && s_cfg_bme && !s_stop;
  wire [N-1:0] grant;
  wire [CLIENTS:0] granted = {{CLIENTS + 1 - N{1'b0}}, grant};

  efa_arb #(
      .N(N)
  ) u_arb (
      .clk(clk),
      .rst(rst),
      .s_request(s_rd_valid[N-1:0] & {N{start}}),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  reg [REQ_W-1:0] request;
  integer i;
  always @* begin
    request = {REQ_W{1'b0}};
    for (i = 0; i < N; i = i + 1) begin
      request = request | (s_rd_data[REQ_W*i+:REQ_W] & {REQ_W{grant[i]}});
    end
  end

  assign free_take = grant != {N{1'b0}};
  assign s_rd_ready = granted[CLIENTS-1:0];

  always @(posedge clk) begin
    if (rst) out_valid_q <= 1'b0;
    else if (space) out_valid_q <= free_take;
  end

  always @(posedge clk) begin
    if (space) begin
      out_client_q <= grant;
      out_q <= request;
      out_tag_q <= free_tag;
      out_phase_q <= !free_phase;
    end
  end

  wire leave = out_valid_q && m_dma_rd_ready;
  wire [31:0] out_cookie = out_q[`EFA_DMA_RD__COOKIE];
  wire [12:0] out_len = out_q[`EFA_DMA_RD__LEN];

  assign m_dma_rd_valid = out_valid_q;
  assign m_dma_rd_addr = out_q[`EFA_DMA_RD__ADDR];
  assign m_dma_rd_len = out_len;
  assign m_dma_rd_tag = {{(8 - TAG_W) {1'b0}}, out_tag_q};

  // Request record of a tag, written when the read leaves.
  localparam REQ_META_W = 1 + N + 32 + 13;
  reg [NOW_W-1:0] now_q;
  wire req_wr = init_q || leave;
  wire [TAG_W-1:0] req_tag = init_q ? init_tag_q : out_tag_q;
  wire req_phase = init_q ? 1'b0 : out_phase_q;

  always @(posedge clk) begin
    if (rst) now_q <= {NOW_W{1'b0}};
    else now_q <= now_q + NOW_ONE;
  end

  // Completions, with timed-out reads in between: s0 reads the records, s1 validates.
  reg ready_q;
  reg slot_q;  // the timeout scan uses this cycle
  wire [TAG_W-1:0] scan_tag;
  wire scan_phase;
  wire s0_valid = slot_q || (s_dma_rd_cpl_valid && s_dma_rd_cpl_ready);
  wire [TAG_W-1:0] s0_tag = slot_q ? scan_tag : s_dma_rd_cpl_tag[TAG_W-1:0];

  assign s_dma_rd_cpl_ready = ready_q;

  reg s1_valid_q;
  reg s1_slot_q;
  reg s1_slot_phase_q;
  reg s1_known_q;
  reg [7:0] s1_tag8_q;
  reg [511:0] s1_data_q;
  reg [6:0] s1_bytes_q;
  reg s1_last_q;
  reg s1_err_q;
  wire [TAG_W-1:0] s1_tag = s1_tag8_q[TAG_W-1:0];

  always @(posedge clk) begin
    if (rst) s1_valid_q <= 1'b0;
    else s1_valid_q <= s0_valid;
  end

  always @(posedge clk) begin
    s1_slot_q <= slot_q;
    s1_slot_phase_q <= scan_phase;
    s1_known_q <= slot_q || {1'b0, s_dma_rd_cpl_tag} < TAG_END;
    s1_tag8_q <= slot_q ? {{(8 - TAG_W) {1'b0}}, scan_tag} : s_dma_rd_cpl_tag;
    s1_data_q <= s_dma_rd_cpl_data;
    s1_bytes_q <= slot_q ? 7'd0 : s_dma_rd_cpl_bytes;
    s1_last_q <= slot_q || s_dma_rd_cpl_last;
    s1_err_q <= slot_q || s_dma_rd_cpl_err;
  end

  wire req_now_phase;
  wire [N-1:0] req_now_client;
  wire [31:0] req_now_cookie;
  wire [12:0] req_now_len;

  efa_ram #(
      .WIDTH(REQ_META_W),
      .ADDR_W(TAG_W)
  ) u_req (
      .clk(clk),
      .wr_en(req_wr),
      .wr_addr(req_tag),
      .wr_data({req_phase, out_client_q, out_cookie, out_len}),
      .rd_en(s0_valid),
      .rd_addr(s0_tag),
      .rd_data({req_now_phase, req_now_client, req_now_cookie, req_now_len})
  );

  // Completion record of a tag: phase of the last completed use, timed out, malformed, bytes so
  // far. Only s1 writes this record; the next beat of the same tag gets the new value by a bypass.
  localparam HAVE_W = 1 + 1 + 1 + 13;
  wire have_wr;
  wire [HAVE_W-1:0] have_new;
  wire [HAVE_W-1:0] have_ram;
  reg [HAVE_W-1:0] have_last_q;
  reg same_q;
  wire [HAVE_W-1:0] have = same_q ? have_last_q : have_ram;
  wire have_phase;
  wire have_given_up;
  wire have_failed;
  wire [12:0] have_offset;
  assign {have_phase, have_given_up, have_failed, have_offset} = have;

  efa_ram #(
      .WIDTH(HAVE_W),
      .ADDR_W(TAG_W)
  ) u_have (
      .clk(clk),
      .wr_en(init_q || have_wr),
      .wr_addr(init_q ? init_tag_q : s1_tag),
      .wr_data(init_q ? {HAVE_W{1'b0}} : have_new),
      .rd_en(s0_valid),
      .rd_addr(s0_tag),
      .rd_data(have_ram)
  );

  always @(posedge clk) begin
    have_last_q <= have_new;
    same_q <= have_wr && s0_valid && s0_tag == s1_tag;
  end

  // A timeout is valid for the use of the tag that the scan read, not for a later one.
  wire same_use = !s1_slot_q || s1_slot_phase_q == req_now_phase;
  wire outstanding = s1_known_q && same_use && req_now_phase != have_phase;
  wire waiting = s1_valid_q && outstanding && !have_given_up;
  wire [12:0] beat_end = have_offset + {6'd0, s1_bytes_q};
  wire too_much = s1_bytes_q > 7'd64 || {1'b0, have_offset} + {7'd0, s1_bytes_q} >
      {1'b0, req_now_len};
  wire broken = have_failed || too_much;
  wire err = s1_err_q || broken || beat_end != req_now_len;
  wire ends = s1_valid_q && s1_last_q;
  wire completed = ends && outstanding && !s1_slot_q;
  wire deliver = waiting && (s1_last_q || !broken);

  assign have_wr = s1_valid_q && outstanding;
  assign have_new = completed ? {req_now_phase, 1'b0, 1'b0, 13'd0} :
      {have_phase, have_given_up || s1_slot_q, broken, too_much ? have_offset : beat_end};
  assign give = completed;
  assign give_tag = s1_tag;
  assign give_phase = req_now_phase;
  assign m_late_valid = ends && !s1_slot_q && !waiting;
  assign m_late_tag = s1_tag8_q;

  reg [N-1:0] rd_cpl_valid_q;
  wire [CLIENTS:0] delivered = {{CLIENTS + 1 - N{1'b0}}, rd_cpl_valid_q};
  reg [31:0] rd_cpl_cookie_q;
  reg [12:0] rd_cpl_offset_q;
  reg [511:0] rd_cpl_data_q;
  reg [6:0] rd_cpl_bytes_q;
  reg rd_cpl_last_q;
  reg rd_cpl_err_q;
  reg [TAG_W-1:0] rd_cpl_tag_q;

  always @(posedge clk) begin
    if (rst) begin
      rd_cpl_valid_q <= {N{1'b0}};
      live_q <= {TAG_W + 1{1'b0}};
    end else begin
      rd_cpl_valid_q <= req_now_client & {N{deliver}};
      if (free_take && !(waiting && s1_last_q)) live_q <= live_q + LIVE_ONE;
      else if (!free_take && waiting && s1_last_q) live_q <= live_q - LIVE_ONE;
    end
  end

  always @(posedge clk) begin
    rd_cpl_cookie_q <= req_now_cookie;
    rd_cpl_offset_q <= have_offset;
    rd_cpl_data_q <= s1_data_q;
    rd_cpl_bytes_q <= s1_last_q && err ? 7'd0 : s1_bytes_q;
    rd_cpl_last_q <= s1_last_q;
    rd_cpl_err_q <= s1_last_q && err;
    rd_cpl_tag_q <= s1_tag;
  end

  assign m_rd_cpl_valid = delivered[CLIENTS-1:0];
  assign m_rd_cpl_data[`EFA_DMA_RD_CPL__COOKIE] = rd_cpl_cookie_q;
  assign m_rd_cpl_data[`EFA_DMA_RD_CPL__OFFSET] = rd_cpl_offset_q;
  assign m_rd_cpl_data[`EFA_DMA_RD_CPL__DATA] = rd_cpl_data_q;
  assign m_rd_cpl_data[`EFA_DMA_RD_CPL__BYTES] = rd_cpl_bytes_q;
  assign m_rd_cpl_data[`EFA_DMA_RD_CPL__LAST] = rd_cpl_last_q;
  assign m_rd_cpl_data[`EFA_DMA_RD_CPL__ERR] = rd_cpl_err_q;
  assign m_idle = live_q == {TAG_W + 1{1'b0}} && !out_valid_q && rd_cpl_valid_q == {N{1'b0}};

  wire slot_req;

  efa_rd_timeout #(
      .TAG_W(TAG_W),
      .TIMEOUT_CYCLES(TIMEOUT_CYCLES),
      .NOW_W(NOW_W)
  ) u_timeout (
      .clk(clk),
      .rst(rst || init_q),
      .s_now(now_q),
      .s_req_wr(req_wr),
      .s_req_tag(req_tag),
      .s_req_phase(req_phase),
      .s_have_wr(init_q || have_wr),
      .s_have_tag(init_q ? init_tag_q : s1_tag),
      .s_have_phase(init_q ? 1'b0 : have_new[HAVE_W-1]),
      .s_have_given_up(init_q ? 1'b0 : have_new[HAVE_W-2]),
      .m_slot_req(slot_req),
      .s_slot_done(slot_q),
      .m_slot_tag(scan_tag),
      .m_slot_phase(scan_phase)
  );

  always @(posedge clk) begin
    if (rst) begin
      ready_q <= 1'b0;
      slot_q <= 1'b0;
    end else begin
      ready_q <= !init_q && !(slot_req && !slot_q);
      slot_q <= slot_req && !slot_q;
    end
  end

  // Client number 0 to 3 of the one-hot values 0001, 0010, 0100, 1000.
  wire [CLIENTS:0] left = {{CLIENTS + 1 - N{1'b0}}, out_client_q};
  reg [63:0] rd_data;
  reg [63:0] rd_cpl_ev;
  always @* begin
    rd_data = 64'd0;
    rd_data[`EFA_EV_RD__CLIENT] = {1'b0, left[2] | left[3], left[1] | left[3]};
    rd_data[`EFA_EV_RD__TAG] = m_dma_rd_tag;
    rd_data[`EFA_EV_RD__LEN] = out_len;
    rd_cpl_ev = 64'd0;
    rd_cpl_ev[`EFA_EV_RD_CPL__CLIENT] = {1'b0, delivered[2] | delivered[3], delivered[1] | delivered[3]};
    rd_cpl_ev[`EFA_EV_RD_CPL__TAG] = {{(8 - TAG_W) {1'b0}}, rd_cpl_tag_q};
    rd_cpl_ev[`EFA_EV_RD_CPL__ERR] = rd_cpl_err_q;
  end

  assign ev_rd_valid = leave;
  assign ev_rd_data = rd_data;
  assign ev_rd_cpl_valid = rd_cpl_valid_q != {N{1'b0}} && rd_cpl_last_q;
  assign ev_rd_cpl_data = rd_cpl_ev;

  wire [12:0] limit = 13'd1 << s_cfg_mrrs_log;
  wire [63:0] addr = request[`EFA_DMA_RD__ADDR];
  wire [12:0] len = request[`EFA_DMA_RD__LEN];
  wire [12:0] place = addr[12:0] & (limit - 13'd1);

  `EFA_CHECK(!free_take || place + len <= limit, "read crosses the maximum request boundary")
  `EFA_CHECK(!free_take || len != 13'd0, "read of 0 bytes")
  `EFA_CHECK(!give || give_space, "tag released twice")

  wire unused_rd = &{
    1'b0, unused_free, give_space, place, addr, s_rd_valid, s_rd_data, granted[CLIENTS],
    delivered[CLIENTS], left[CLIENTS], left[0]
  };

endmodule

`default_nettype wire
