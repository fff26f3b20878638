// SPDX-License-Identifier: Apache-2.0
// efa_rq - manages receive rings: doorbells, prefetched descriptors, claims and flushes.
//
// In    rqdb producer indices; rq_ctrl create, clear or destroy a ring; qpchg QP state changes;
//       s_claim packets of efa_rx_validate and, one cycle later, its check results (s_claim_done in
//       order for the packets that are not parked, not in the cycle of a flush); rd_cpl read
//       completions; s_done descriptors of reported receives
// Out   claim_qpc_addr QP whose context efa_rx_validate needs; m_rd descriptor reads; m_claim
//       responses: up to two descriptors; claim_empty: no claim is inside; arrived: a descriptor
//       read is done; m_flush receive WQEs of a QP in ERR; m_err a QP that must go to ERR; m_idle,
//       m_drained: see efa_rq_fetch
// Time  one doorbell per cycle, its first read 7 cycles later; claim of cached descriptors 2
//       cycles, one claim per cycle; rq_ctrl 9 cycles and more, including the clear of the cache
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rq #(
    parameter QPN_W  = 6,
    parameter SLOT_W = QPN_W > 8 ? 5 : 7   // log2 of the descriptors cached per ring
) (
    input wire clk,
    input wire rst,

    output wire [QPN_W-1:0] qpc_addr,
    input wire [`EFA_QPC__W-1:0] qpc_data,

    input wire rqdb_valid,
    input wire [QPN_W-1:0] rqdb_qpn,
    input wire [15:0] rqdb_value,

    input wire rq_ctrl_valid,
    output wire rq_ctrl_ready,
    input wire [1:0] rq_ctrl_kind,
    input wire [QPN_W-1:0] rq_ctrl_qpn,
    input wire [`EFA_QPC__W-1:0] rq_ctrl_qpc,

    input wire s_qpchg_valid,
    output wire s_qpchg_ready,
    input wire [QPN_W-1:0] s_qpchg_qpn,

    output wire m_rd_valid,
    input wire m_rd_ready,
    output wire [63:0] m_rd_addr,
    output wire [12:0] m_rd_len,
    output wire [31:0] m_rd_cookie,
    input wire rd_cpl_valid,
    input wire [31:0] rd_cpl_cookie,
    input wire [12:0] rd_cpl_offset,
    input wire [511:0] rd_cpl_data,
    input wire [6:0] rd_cpl_bytes,
    input wire rd_cpl_last,
    input wire rd_cpl_err,

    input wire s_claim_valid,
    output wire s_claim_ready,
    input wire [QPN_W-1:0] s_claim_qpn,
    output wire [QPN_W-1:0] claim_qpc_addr,
    input wire s_claim_skip,
    input wire [16:0] s_claim_need,
    input wire s_claim_hold,
    output wire m_claim_step,
    output wire m_claim_valid,
    input wire m_claim_ready,
    input wire s_claim_parked,
    output wire m_claim_skipped,
    output wire m_claim_failed,
    output wire m_claim_none,
    output wire m_claim_missing,
    output wire m_claim_complete,
    output wire m_claim_short,
    output wire [1:0] m_claim_count,
    output wire [255:0] m_claim_descs,
    input wire s_claim_done,
    output wire claim_empty,
    output wire arrived,

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
  wire counts_clear_ready;
  wire requested_clear_ready;
  wire clear_cache = rq_ctrl_valid && !cache_cleared_q;
  wire clear_counts = rq_ctrl_valid && cache_cleared_q;
  reg  requested_cleared_q;
  reg  counts_cleared_q;
  assign rq_ctrl_ready = requested_cleared_q && counts_cleared_q;

  always @(posedge clk) begin
    if (rst || rq_ctrl_ready) begin
      cache_cleared_q  <= 1'b0;
      counts_cleared_q <= 1'b0;
      requested_cleared_q  <= 1'b0;
    end else begin
      if (cache_clear_ready) cache_cleared_q <= 1'b1;
      if (counts_clear_ready) counts_cleared_q <= 1'b1;
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
  assign qpc_addr = f_qpn;

  efa_rq_index #(
      .QPN_W(QPN_W)
  ) u_counts (
      .clk(clk),
      .rst(rst),
      .rqdb_valid(rqdb_valid),
      .rqdb_qpn(rqdb_qpn),
      .rqdb_value(rqdb_value),
      .move_valid(move_valid),
      .wrong_valid(wrong_valid),
      .doorbell_qpn(doorbell_qpn),
      .take_valid(claim_take_valid || flush_take_valid),
      .take_qpn(claim_take_valid ? claim_take_qpn : f_qpn),
      .take_value(claim_take_valid ? claim_take_value : flush_take_value),
      .s_done_valid(s_done_valid),
      .s_done_qpn(s_done_qpn),
      .s_done_count(s_done_count),
      .s_clear_valid(clear_counts && !counts_cleared_q),
      .s_clear_ready(counts_clear_ready),
      .s_clear_qpn(rq_ctrl_qpn),
      .s_clear_sized(rq_ctrl_kind == OP_INIT || rq_ctrl_kind == OP_FREE),
      .s_clear_live(rq_ctrl_kind == OP_INIT && rq_ctrl_qpc[`EFA_QPC__RQ_LIVE]),
      .s_clear_log(rq_ctrl_qpc[`EFA_QPC__RQ_LOG]),
      .rd_qpn({f_qpn, claim_qpc_addr}),
      .rd_prod({f_prod, c_prod}),
      .rd_cons({f_cons, c_cons})
  );

  // ---- completions of descriptor reads ----
  wire [QPN_W-1:0] rd_cpl_qpn = rd_cpl_cookie[QPN_W-1:0];
  reg end_q;
  reg failed_q;
  reg epoch_q;
  reg [QPN_W-1:0] end_qpn_q;
  always @(posedge clk) begin
    failed_q  <= rd_cpl_err;
    epoch_q   <= rd_cpl_cookie[COOKIE_EPOCH];
    end_qpn_q <= rd_cpl_qpn;
    if (rst) end_q <= 1'b0;
    else end_q <= rd_cpl_valid && rd_cpl_last;
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
      .rd_cpl_valid(rd_cpl_valid),
      .rd_cpl_qpn(rd_cpl_qpn),
      .rd_cpl_count(rd_cpl_cookie[COOKIE_COUNT+:16]),
      .rd_cpl_offset(rd_cpl_offset),
      .rd_cpl_data(rd_cpl_data),
      .rd_cpl_bytes(rd_cpl_bytes),
      .rd_cpl_err(rd_cpl_err),
      .s_clear_valid(clear_cache),
      .s_clear_ready(cache_clear_ready),
      .s_clear_qpn(rq_ctrl_qpn),
      .rd_qpn({f_qpn, head_qpn}),
      .rd_count({f_head, c_head}),
      .rd_descs({f_descs, c_descs}),
      .rd_present({f_present, c_present})
  );

  wire [QPN_W-1:0] claim_failed_qpn;
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
      .s_claim_qpn(s_claim_qpn),
      .m_qpn(claim_qpc_addr),
      .s_skip(s_claim_skip),
      .s_need(s_claim_need),
      .s_hold(s_claim_hold),
      .m_step(m_claim_step),
      .m_claim_valid(m_claim_valid),
      .m_claim_ready(m_claim_ready),
      .s_parked(s_claim_parked),
      .m_claim_skipped(m_claim_skipped),
      .m_claim_failed(m_claim_failed),
      .m_claim_none(m_claim_none),
      .m_claim_missing(m_claim_missing),
      .m_claim_complete(m_claim_complete),
      .m_claim_short(m_claim_short),
      .m_claim_count(m_claim_count),
      .m_claim_descs(m_claim_descs),
      .s_done(s_claim_done),
      .s_prod(c_prod),
      .s_cons(c_cons),
      .head_qpn(head_qpn),
      .head(c_head),
      .s_descs(c_descs),
      .s_present(c_present),
      .claim_failed_qpn(claim_failed_qpn),
      .s_failed(claim_failed),
      .take_valid(claim_take_valid),
      .take_qpn(claim_take_qpn),
      .take_value(claim_take_value),
      .held_valid(held_valid),
      .held_qpn(held_qpn)
  );

  assign claim_empty = held_valid[1:0] == 2'b00;
  assign arrived = end_q;

  wire [15:0] rd_count;
  wire rd_epoch;
  efa_rq_fetch #(
      .QPN_W (QPN_W),
      .SLOT_W(SLOT_W)
  ) u_fetch (
      .clk(clk),
      .rst(rst),
      .m_qpn(f_qpn),
      .qpc_data(qpc_data),
      .s_prod(f_prod),
      .s_cons(f_cons),
      .head(f_head),
      .s_descs(f_descs),
      .s_present(f_present),
      .move_valid(move_valid),
      .move_qpn(doorbell_qpn),
      .s_chg_valid(s_qpchg_valid),
      .s_chg_ready(s_qpchg_ready),
      .s_chg_qpn(s_qpchg_qpn),
      .rd_cpl_end(end_q),
      .rd_cpl_failed(failed_q),
      .rd_cpl_qpn(end_qpn_q),
      .rd_cpl_epoch(epoch_q),
      .used_valid(claim_take_valid),
      .used_qpn(claim_take_qpn),
      .s_held_valid(held_valid),
      .s_held_qpn(held_qpn),
      .claim_failed_qpn(claim_failed_qpn),
      .claim_failed(claim_failed),
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
      .take_valid(flush_take_valid),
      .take_value(flush_take_value),
      .s_clear_valid(clear_counts && !requested_cleared_q),
      .s_clear_ready(requested_clear_ready),
      .s_clear_qpn(rq_ctrl_qpn),
      .s_drain(s_drain),
      .idle(m_idle),
      .drained(m_drained)
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
      .wrong_valid(wrong_valid),
      .wrong_qpn(doorbell_qpn),
      .failed_valid(end_q && failed_q),
      .failed_qpn(end_qpn_q),
      .m_err_valid(m_err_valid),
      .m_err_ready(m_err_ready),
      .m_err_qpn(m_err_qpn),
      .m_err_cause(m_err_cause)
  );

  wire unused_bits = &{1'b0, rq_ctrl_qpc, rd_cpl_cookie};

  `EFA_CHECK(!(claim_take_valid && flush_take_valid), "efa_rq: two WQEs consumed at once")

endmodule
