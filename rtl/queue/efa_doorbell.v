// SPDX-License-Identifier: Apache-2.0
// efa_doorbell - validates SQ, RQ and CQ doorbells; holds the SQ producer indices.
//
// In    s_db_* doorbell stores; qpc_rd_*, s_cqc_* contexts, with the owner of each page;
//       completed_rd_* number
//       of sends completed per QP; s_clear a producer index to clear
// Out   m_work_* a send queue has new WQEs; m_err_* a doorbell beyond the send ring; m_rqdb_*,
//       m_cqdb_* valid doorbells for the other engines; prod_rd_* producer indices, two readers
// Time  effect 2 cycles after the store; one store per cycle, back to back for one queue too; a
//       reader of the index in that cycle has it in the next; a clear is always accepted
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_doorbell #(
    parameter QPN_W = 6,
    parameter CQN_W = 7
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire s_db_valid,
    input wire [31:0] s_db_offset,
    input wire [31:0] s_db_data,
    output wire [QPN_W-1:0] qpc_rd_addr,
    input wire [`EFA_QPC__W-1:0] qpc_rd_data,
    input wire s_cqc_valid,
    input wire [CQN_W-1:0] s_cqc_cqn,
    input wire [`EFA_CQC__W-1:0] s_cqc_data,
    output wire [QPN_W-1:0] completed_rd_addr,
    input wire [15:0] completed_rd_data,
    input wire s_clear_valid,
    output wire s_clear_ready,
    input wire [QPN_W-1:0] s_clear_qpn,
    input wire [2*QPN_W-1:0] prod_rd_addr,
    output wire [2*16-1:0] prod_rd_data,
    output wire m_work_valid,
    output wire [QPN_W-1:0] m_work_qpn,
    output wire m_err_valid,
    output wire [QPN_W-1:0] m_err_qpn,
    output wire m_rqdb_valid,
    output wire [QPN_W-1:0] m_rqdb_qpn,
    output wire [15:0] m_rqdb_value,
    output wire m_cqdb_valid,
    output wire [CQN_W-1:0] m_cqdb_cqn,
    output wire [31:0] m_cqdb_value,
    output wire ev_db_valid,
    output wire [63:0] ev_db_data
);

  localparam PAGE_W = $clog2(`EFA_LIMITS__DB_PAGE_BYTES);
  localparam [PAGE_W-1:0] CQ_BASE = `EFA_LIMITS__DB_CQ_BASE;
  localparam NUM_W = 13;
  localparam UAR_W = 10;
  localparam CQ_W = 1 + UAR_W;
  localparam [CQN_W:0] ONE = 1;
  localparam [1:0] KIND_SQ = 2'd0;
  localparam [1:0] KIND_RQ = 2'd1;
  localparam [1:0] KIND_CQ = 2'd2;
  localparam [2:0] STATUS_ACCEPTED = 3'd0;
  localparam [2:0] STATUS_FOREIGN = 3'd1;
  localparam [2:0] STATUS_BEYOND = 3'd2;
  localparam [2:0] STATUS_STATE = 3'd3;

  // Init sweep of the tables after a reset.
  reg [CQN_W:0] init_q;

  // s1: validated, contexts read
  reg s1_valid_q;
  reg [1:0] s1_kind_q;
  reg [31-PAGE_W:0] s1_uar_q;
  reg [NUM_W-1:0] s1_num_q;
  reg [31:0] s1_value_q;

  // s2: in effect; s3: in effect one cycle ago, forwarded because the read for s1 missed the write
  reg s2_valid_q;
  reg [1:0] s2_kind_q;
  reg [NUM_W-1:0] s2_num_q;
  reg [31:0] s2_value_q;
  reg [2:0] s2_status_q;
  reg s2_more_q;
  reg s3_write_q;
  reg [QPN_W-1:0] s3_qpn_q;
  reg [15:0] s3_value_q;

  // A clear one cycle ago; reads of that queue in this cycle miss it.
  reg clear_q;
  reg [QPN_W-1:0] clear_qpn_q;
  reg clear_hit_q;  // the index was written in the cycle of its clear
  reg s1_cleared_q;
  reg [1:0] reader_cleared_q;
  reg s2_mark_q;
  reg s3_mark_q;
  reg [1:0] reader_now_q;  // the index was written in the cycle of the read

  wire initializing = !init_q[CQN_W];
  wire [PAGE_W-1:0] inner = s_db_offset[PAGE_W-1:0];
  wire [PAGE_W-1:0] inner_cq = inner - CQ_BASE;
  wire is_cq = inner >= CQ_BASE;
  wire [NUM_W-1:0] num = is_cq ? inner_cq[NUM_W+1:2] : {1'b0, inner[NUM_W+1:3]};

  wire [CQ_W-1:0] cq_read;

  wire s2_write = s2_valid_q && s2_kind_q == KIND_SQ && s2_status_q == STATUS_ACCEPTED;
  wire [QPN_W-1:0] s1_qpn = s1_num_q[QPN_W-1:0];
  wire [QPN_W-1:0] s2_qpn = s2_num_q[QPN_W-1:0];

  // An index has a mark, and each queue has a mark of its last clear. The index is zero while the
  // marks differ. Doorbells write indices with the mark of the clear, a clear inverts the mark of
  // the index: each RAM has one writer, and a clear needs no cycle without doorbells.
  wire index_wr = initializing || s2_write;
  wire [QPN_W-1:0] index_wr_addr = initializing ? init_q[QPN_W-1:0] : s2_qpn;
  wire [15:0] prod_read;
  wire prod_mark;
  wire clear_read;
  wire mark_read;
  wire cleared_mark = clear_hit_q ? s3_mark_q : mark_read;
  wire s1_mark = s1_cleared_q ? !prod_mark : clear_read;

  reg [15:0] prod;
  always @* begin
    prod = s1_mark == prod_mark ? prod_read : 16'd0;
    if (s3_write_q && s3_qpn_q == s1_qpn) prod = s3_value_q;
    if (s2_write && s2_qpn == s1_qpn) prod = s2_value_q[15:0];
  end

  wire qp_known = s1_num_q >> QPN_W == {NUM_W{1'b0}};
  wire cq_known = s1_num_q >> CQN_W == {NUM_W{1'b0}};
  wire qp_mine = qp_known && qpc_rd_data[`EFA_QPC__LIVE]
      && s1_uar_q == {{32-PAGE_W-UAR_W{1'b0}}, qpc_rd_data[`EFA_QPC__UAR]};
  wire cq_mine = cq_known && cq_read[0] && s1_uar_q == {{32-PAGE_W-UAR_W{1'b0}}, cq_read[CQ_W-1:1]};
  wire in_reset = qpc_rd_data[`EFA_QPC__STATE] == `EFA_ADMIN_QP_STATE__RESET_W3;

  wire [15:0] depth = 16'd1 << qpc_rd_data[`EFA_QPC__SQ_LOG];
  wire [15:0] rung = s1_value_q[15:0] - completed_rd_data;
  wire [15:0] posted = prod - completed_rd_data;
  wire legal = rung <= depth && rung >= posted;

  reg [2:0] status;
  always @* begin
    status = STATUS_ACCEPTED;
    if (s1_kind_q == KIND_CQ) begin
      if (!cq_mine) status = STATUS_FOREIGN;
    end else if (!qp_mine) begin
      status = STATUS_FOREIGN;
    end else if (in_reset) begin
      status = STATUS_STATE;
    end else if (s1_kind_q == KIND_SQ && !legal) begin
      status = STATUS_BEYOND;
    end
  end

  wire [2*17-1:0] reader_read;
  wire [1:0] reader_mark;
  reg [31:0] reader_data;
  integer lane;
  always @* begin
    for (lane = 0; lane < 2; lane = lane + 1) begin
      reader_data[16*lane+:16] = reader_now_q[lane] ? s3_value_q
          : reader_cleared_q[lane] || reader_read[17*lane+16] != reader_mark[lane] ? 16'd0
          : reader_read[17*lane+:16];
    end
  end

  reg [63:0] event_data;
  always @* begin
    event_data = 64'd0;
    event_data[`EFA_EV_DB__KIND] = s2_kind_q;
    event_data[`EFA_EV_DB__STATUS] = s2_status_q;
    event_data[`EFA_EV_DB__NUM] = s2_num_q;
    event_data[`EFA_EV_DB__VALUE] = s2_value_q;
  end

  // The sweep of the CQs covers the tables of the QPs.
  generate
    if (CQN_W < QPN_W) begin : g_illegal
      efa_parameter_error at_least_as_many_cqs_as_qps ();
    end
  endgenerate

  assign m_init_done = !initializing;
  assign qpc_rd_addr = num[QPN_W-1:0];
  assign completed_rd_addr = num[QPN_W-1:0];
  assign s_clear_ready = 1'b1;
  assign prod_rd_data = reader_data;
  assign m_work_valid = s2_write && s2_more_q;
  assign m_work_qpn = s2_qpn;
  assign m_err_valid = s2_valid_q && s2_kind_q == KIND_SQ && s2_status_q == STATUS_BEYOND;
  assign m_err_qpn = s2_qpn;
  assign m_rqdb_valid = s2_valid_q && s2_kind_q == KIND_RQ && s2_status_q == STATUS_ACCEPTED;
  assign m_rqdb_qpn = s2_qpn;
  assign m_rqdb_value = s2_value_q[15:0];
  assign m_cqdb_valid = s2_valid_q && s2_kind_q == KIND_CQ && s2_status_q == STATUS_ACCEPTED;
  assign m_cqdb_cqn = s2_num_q[CQN_W-1:0];
  assign m_cqdb_value = s2_value_q;
  assign ev_db_valid = s2_valid_q;
  assign ev_db_data = event_data;

  efa_ram_1wnr #(
      .WIDTH (17),
      .ADDR_W(QPN_W),
      .READS (3)
  ) u_producer (
      .clk(clk),
      .wr_en(index_wr),
      .wr_addr(index_wr_addr),
      .wr_data(initializing ? 17'd0 : {s2_mark_q, s2_value_q[15:0]}),
      .rd_addr({prod_rd_addr, num[QPN_W-1:0]}),
      .rd_data({reader_read, prod_mark, prod_read})
  );

  // The marks of the indices, for the clear.
  efa_ram #(
      .WIDTH (1),
      .ADDR_W(QPN_W)
  ) u_mark (
      .clk(clk),
      .wr_en(index_wr),
      .wr_addr(index_wr_addr),
      .wr_data(!initializing && s2_mark_q),
      .rd_en(1'b1),
      .rd_addr(s_clear_qpn),
      .rd_data(mark_read)
  );

  efa_ram_1wnr #(
      .WIDTH (1),
      .ADDR_W(QPN_W),
      .READS (3)
  ) u_clears (
      .clk(clk),
      .wr_en(initializing || clear_q),
      .wr_addr(initializing ? init_q[QPN_W-1:0] : clear_qpn_q),
      .wr_data(!initializing && !cleared_mark),
      .rd_addr({prod_rd_addr, num[QPN_W-1:0]}),
      .rd_data({reader_mark, clear_read})
  );

  efa_ram #(
      .WIDTH (CQ_W),
      .ADDR_W(CQN_W)
  ) u_cq (
      .clk(clk),
      .wr_en(initializing || s_cqc_valid),
      .wr_addr(initializing ? init_q[CQN_W-1:0] : s_cqc_cqn),
      .wr_data(initializing ? {CQ_W{1'b0}} : {s_cqc_data[`EFA_CQC__UAR], s_cqc_data[`EFA_CQC__LIVE]}),
      .rd_en(1'b1),
      .rd_addr(num[CQN_W-1:0]),
      .rd_data(cq_read)
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {CQN_W + 1{1'b0}};
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      s3_write_q <= 1'b0;
      clear_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE;
      s1_valid_q <= s_db_valid;
      s2_valid_q <= s1_valid_q;
      s3_write_q <= s2_write;
      clear_q <= s_clear_valid;
    end
  end

  integer reader;
  always @(posedge clk) begin
    clear_qpn_q <= s_clear_qpn;
    clear_hit_q <= s2_write && s2_qpn == s_clear_qpn;
    s1_cleared_q <= clear_q && clear_qpn_q == num[QPN_W-1:0];
    for (reader = 0; reader < 2; reader = reader + 1) begin
      reader_cleared_q[reader] <= clear_q && prod_rd_addr[QPN_W*reader+:QPN_W] == clear_qpn_q;
      reader_now_q[reader] <= s2_write && prod_rd_addr[QPN_W*reader+:QPN_W] == s2_qpn;
    end
    s1_kind_q <= is_cq ? KIND_CQ : inner[2] ? KIND_RQ : KIND_SQ;
    s1_uar_q <= s_db_offset[31:PAGE_W];
    s1_num_q <= num;
    s1_value_q <= s_db_data;
    s2_kind_q <= s1_kind_q;
    s2_num_q <= s1_num_q;
    s2_value_q <= s1_value_q;
    s2_status_q <= status;
    s2_more_q <= s1_value_q[15:0] != prod;
    s2_mark_q <= s1_mark;
    s3_mark_q <= s2_mark_q;
    s3_qpn_q <= s2_qpn;
    s3_value_q <= s2_value_q[15:0];
  end

  wire unused_context = &{1'b0, qpc_rd_data, s_cqc_data, inner_cq};

endmodule

`default_nettype wire
