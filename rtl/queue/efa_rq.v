// SPDX-License-Identifier: Apache-2.0
// efa_rq - manages receive rings: doorbells, prefetched descriptors, claims and flushes.
//
// In    s_rqdb producer indices; s_rq_ctrl create, clear or destroy a ring; s_qpchg QP state
//       changes; s_next_qpn the QP whose packet may claim in the next cycle, s_claim its claim
//       (s_claim_done in order for the responses of packets that are not parked, not in the cycle
//       of a flush); s_rd_cpl read completions; s_done descriptors of reported receives
// Out   m_rd descriptor reads; m_rsp responses to claims: up to two descriptors; m_arrived: a
//       descriptor read is done; m_flush receive WQEs of a QP in ERR; m_err a QP that must go to
//       ERR; m_idle, m_drained: see efa_rq_fetch
// Time  one doorbell per cycle, its first read 7 cycles later; the response 2 cycles after
//       s_next_qpn if the descriptors are cached, one claim per cycle; s_rq_ctrl 9 cycles and more,
//       including the clear of the cache; after rst 2^QPN_W cycles of initialisation
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rq #(
    parameter QPN_W  = 6,
    parameter SLOT_W = QPN_W > 8 ? 5 : 7   // log2 of the descriptors cached per ring
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,

    output wire [QPN_W-1:0] qpc_rd_addr,
    input wire [`EFA_QPC__W-1:0] qpc_rd_data,

    input wire s_rqdb_valid,
    input wire [QPN_W-1:0] s_rqdb_qpn,
    input wire [15:0] s_rqdb_value,

    input wire s_rq_ctrl_valid,
    output wire s_rq_ctrl_ready,
    input wire [1:0] s_rq_ctrl_kind,
    input wire [QPN_W-1:0] s_rq_ctrl_qpn,
    input wire [`EFA_QPC__W-1:0] s_rq_ctrl_qpc,

    input wire s_qpchg_valid,
    output wire s_qpchg_ready,
    input wire [QPN_W-1:0] s_qpchg_qpn,

    output wire m_rd_valid,
    input wire m_rd_ready,
    output wire [63:0] m_rd_addr,
    output wire [12:0] m_rd_len,
    output wire [31:0] m_rd_cookie,
    input wire s_rd_cpl_valid,
    input wire [31:0] s_rd_cpl_cookie,
    input wire [12:0] s_rd_cpl_offset,
    input wire [511:0] s_rd_cpl_data,
    input wire [6:0] s_rd_cpl_bytes,
    input wire s_rd_cpl_last,
    input wire s_rd_cpl_err,

    input wire [QPN_W-1:0] s_next_qpn,
    input wire s_claim_valid,
    output wire s_claim_ready,
    input wire [`EFA_RX_CLAIM__W-1:0] s_claim_data,
    output wire m_rsp_valid,
    input wire m_rsp_ready,
    output wire [`EFA_RX_CLAIM_RSP__W-1:0] m_rsp_data,
    input wire s_claim_done,
    output wire m_arrived,

    input wire s_done_valid,
    input wire [QPN_W-1:0] s_done_qpn,
    input wire [1:0] s_done_count,

    output wire m_flush_valid,
    input wire m_flush_ready,
    output wire [QPN_W-1:0] m_flush_qpn,
    output wire [`EFA_QPC__W-1:0] m_flush_qpc,
    output wire [15:0] m_flush_req_id,
    output wire [1:0] m_flush_count,

    output wire m_err_valid,
    input wire m_err_ready,
    output wire [QPN_W-1:0] m_err_qpn,
    output wire [3:0] m_err_cause,

    input  wire s_drain,
    output wire m_idle,
    output wire m_drained
);

  localparam [1:0] OP_INIT = 2'd0;
  localparam [1:0] OP_FREE = 2'd2;

  // Bits of the cookie of a read.
  localparam COOKIE_COUNT = 12;
  localparam COOKIE_EPOCH = 28;

  // A ring operation clears the cached descriptors first, then the counts.
  reg  cache_cleared_q;
  wire cache_clear_ready;
  wire requested_clear_ready;
  wire clear_cache = s_rq_ctrl_valid && !cache_cleared_q;
  wire clear_counts = s_rq_ctrl_valid && cache_cleared_q;
  reg  requested_cleared_q;
  assign s_rq_ctrl_ready = requested_cleared_q;

  always @(posedge clk) begin
    if (rst || s_rq_ctrl_ready) begin
      cache_cleared_q  <= 1'b0;
      requested_cleared_q  <= 1'b0;
    end else begin
      if (cache_clear_ready) cache_cleared_q <= 1'b1;
      if (requested_clear_ready) requested_cleared_q <= 1'b1;
    end
  end

  wire [QPN_W-1:0] f_qpn;
  wire move_valid;
  wire wrong_valid;
  wire [QPN_W-1:0] doorbell_qpn;
  wire claim_take_valid;
  wire [QPN_W-1:0] claim_take_qpn;
  wire [15:0] claim_take_value;
  wire flush_take_valid;
  wire [15:0] flush_take_value;
  wire [15:0] c_prod;
  wire [15:0] c_cons;
  wire [15:0] f_prod;
  wire [15:0] f_cons;
  wire counts_init;
  wire fetch_init;
  wire report_init;
  assign qpc_rd_addr = f_qpn;
  assign m_init_done = counts_init && fetch_init && report_init;

  efa_rq_index #(
      .QPN_W(QPN_W)
  ) u_counts (
      .clk(clk),
      .rst(rst),
      .m_init_done(counts_init),
      .s_rqdb_valid(s_rqdb_valid),
      .s_rqdb_qpn(s_rqdb_qpn),
      .s_rqdb_value(s_rqdb_value),
      .m_move_valid(move_valid),
      .m_wrong_valid(wrong_valid),
      .m_doorbell_qpn(doorbell_qpn),
      .s_take_valid(claim_take_valid || flush_take_valid),
      .s_take_qpn(claim_take_valid ? claim_take_qpn : f_qpn),
      .s_take_value(claim_take_valid ? claim_take_value : flush_take_value),
      .s_done_valid(s_done_valid),
      .s_done_qpn(s_done_qpn),
      .s_done_count(s_done_count),
      .s_clear_valid(clear_counts && !requested_cleared_q),
      .s_clear_qpn(s_rq_ctrl_qpn),
      .s_clear_sized(s_rq_ctrl_kind == OP_INIT || s_rq_ctrl_kind == OP_FREE),
      .s_clear_live(s_rq_ctrl_kind == OP_INIT && s_rq_ctrl_qpc[`EFA_QPC__RQ_LIVE]),
      .s_clear_log(s_rq_ctrl_qpc[`EFA_QPC__RQ_LOG]),
      .ring_rd_addr({f_qpn, s_next_qpn}),
      .prod_rd_data({f_prod, c_prod}),
      .cons_rd_data({f_cons, c_cons})
  );

  // ---- completions of descriptor reads ----
  wire [QPN_W-1:0] rd_cpl_qpn = s_rd_cpl_cookie[QPN_W-1:0];
  reg end_q;
  reg failed_q;
  reg epoch_q;
  reg [QPN_W-1:0] end_qpn_q;
  always @(posedge clk) begin
    failed_q  <= s_rd_cpl_err;
    epoch_q   <= s_rd_cpl_cookie[COOKIE_EPOCH];
    end_qpn_q <= rd_cpl_qpn;
    if (rst) end_q <= 1'b0;
    else end_q <= s_rd_cpl_valid && s_rd_cpl_last;
  end

  wire [QPN_W-1:0] head_qpn;
  wire [ 15:0] c_head;
  wire [ 15:0] f_head;
  wire [255:0] c_descs;
  wire [255:0] f_descs;
  wire [  1:0] c_present;
  wire [  1:0] f_present;
  efa_rq_cache #(
      .QPN_W (QPN_W),
      .SLOT_W(SLOT_W)
  ) u_cache (
      .clk(clk),
      .rst(rst),
      .s_rd_cpl_valid(s_rd_cpl_valid),
      .s_rd_cpl_qpn(rd_cpl_qpn),
      .s_rd_cpl_count(s_rd_cpl_cookie[COOKIE_COUNT+:16]),
      .s_rd_cpl_offset(s_rd_cpl_offset),
      .s_rd_cpl_data(s_rd_cpl_data),
      .s_rd_cpl_bytes(s_rd_cpl_bytes),
      .s_rd_cpl_err(s_rd_cpl_err),
      .s_clear_valid(clear_cache),
      .s_clear_ready(cache_clear_ready),
      .s_clear_qpn(s_rq_ctrl_qpn),
      .desc_rd_qpn({f_qpn, head_qpn}),
      .desc_rd_count({f_head, c_head}),
      .desc_rd_data({f_descs, c_descs}),
      .desc_rd_present({f_present, c_present})
  );

  wire claim_failed;
  wire [2:0] held_valid;
  wire [3*QPN_W-1:0] held_qpn;
  efa_rq_pop #(
      .QPN_W(QPN_W)
  ) u_claim (
      .clk(clk),
      .rst(rst),
      .s_claim_valid(s_claim_valid),
      .s_claim_ready(s_claim_ready),
      .s_claim_data(s_claim_data),
      .m_rsp_valid(m_rsp_valid),
      .m_rsp_ready(m_rsp_ready),
      .m_rsp_data(m_rsp_data),
      .s_done(s_claim_done),
      .prod_rd_data(c_prod),
      .cons_rd_data(c_cons),
      .desc_rd_qpn(head_qpn),
      .desc_rd_count(c_head),
      .desc_rd_data(c_descs),
      .desc_rd_present(c_present),
      .failed_rd_data(claim_failed),
      .m_take_valid(claim_take_valid),
      .m_take_qpn(claim_take_qpn),
      .m_take_value(claim_take_value),
      .m_held_valid(held_valid),
      .m_held_qpn(held_qpn)
  );

  assign m_arrived = end_q;

  wire [15:0] rd_count;
  wire rd_epoch;
  efa_rq_fetch #(
      .QPN_W (QPN_W),
      .SLOT_W(SLOT_W)
  ) u_fetch (
      .clk(clk),
      .rst(rst),
      .m_init_done(fetch_init),
      .ring_rd_addr(f_qpn),
      .qpc_rd_data(qpc_rd_data),
      .prod_rd_data(f_prod),
      .cons_rd_data(f_cons),
      .desc_rd_count(f_head),
      .desc_rd_data(f_descs),
      .desc_rd_present(f_present),
      .s_move_valid(move_valid),
      .s_move_qpn(doorbell_qpn),
      .s_chg_valid(s_qpchg_valid),
      .s_chg_ready(s_qpchg_ready),
      .s_chg_qpn(s_qpchg_qpn),
      .s_rd_cpl_end(end_q),
      .s_rd_cpl_failed(failed_q),
      .s_rd_cpl_qpn(end_qpn_q),
      .s_rd_cpl_epoch(epoch_q),
      .s_used_valid(claim_take_valid),
      .s_used_qpn(claim_take_qpn),
      .s_held_valid(held_valid),
      .s_held_qpn(held_qpn),
      .failed_rd_addr(head_qpn),
      .failed_rd_data(claim_failed),
      .m_rd_valid(m_rd_valid),
      .m_rd_ready(m_rd_ready),
      .m_rd_addr(m_rd_addr),
      .m_rd_len(m_rd_len),
      .m_rd_count(rd_count),
      .m_rd_epoch(rd_epoch),
      .m_flush_valid(m_flush_valid),
      .m_flush_ready(m_flush_ready),
      .m_flush_qpc(m_flush_qpc),
      .m_flush_req_id(m_flush_req_id),
      .m_flush_count(m_flush_count),
      .m_take_valid(flush_take_valid),
      .m_take_value(flush_take_value),
      .s_clear_valid(clear_counts && !requested_cleared_q),
      .s_clear_ready(requested_clear_ready),
      .s_clear_qpn(s_rq_ctrl_qpn),
      .s_drain(s_drain),
      .m_idle(m_idle),
      .m_drained(m_drained)
  );
  assign m_flush_qpn = f_qpn;

  reg [31:0] cookie;
  always @* begin
    cookie = 32'd0;
    cookie[QPN_W-1:0] = f_qpn;
    cookie[COOKIE_COUNT+:16] = rd_count;
    cookie[COOKIE_EPOCH] = rd_epoch;
  end
  assign m_rd_cookie = cookie;

  efa_rq_report #(
      .QPN_W(QPN_W)
  ) u_err (
      .clk(clk),
      .rst(rst),
      .m_init_done(report_init),
      .s_wrong_valid(wrong_valid),
      .s_wrong_qpn(doorbell_qpn),
      .s_failed_valid(end_q && failed_q),
      .s_failed_qpn(end_qpn_q),
      .m_err_valid(m_err_valid),
      .m_err_ready(m_err_ready),
      .m_err_qpn(m_err_qpn),
      .m_err_cause(m_err_cause)
  );

  wire unused_bits = &{1'b0, s_rq_ctrl_qpc, s_rd_cpl_cookie};

  `EFA_CHECK(!(claim_take_valid && flush_take_valid), "efa_rq: two WQEs consumed at once")

endmodule

`default_nettype wire
