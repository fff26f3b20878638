// SPDX-License-Identifier: Apache-2.0
// efa_doorbell - validates SQ, RQ and CQ doorbells and advances the SQ producer indices.
//
// In    s_db_* doorbell stores; qpc_rd_*, s_cqc_* contexts, with the owner of each page;
//       prod_rd_data, completed_rd_data: the counts of the send ring of qpc_rd_addr, one cycle later
// Out   m_prod_* the new producer index of a send ring; m_work_* a send queue has new WQEs; m_err_*
//       a doorbell beyond the send ring; m_rqdb_*, m_cqdb_* valid doorbells for the other engines
// Time  effect 2 cycles after the store; one store per cycle, back to back for one queue too
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
    input wire [15:0] prod_rd_data,
    input wire [15:0] completed_rd_data,
    output wire m_prod_valid,
    output wire [QPN_W-1:0] m_prod_qpn,
    output wire [15:0] m_prod_count,
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
  localparam [1:0] STATUS_ACCEPTED = 2'd0;
  localparam [1:0] STATUS_FOREIGN = 2'd1;
  localparam [1:0] STATUS_BEYOND = 2'd2;
  localparam [1:0] STATUS_STATE = 2'd3;

  // Init sweep of the CQ table after a reset.
  reg [CQN_W:0] init_q;

  // s1: validated, contexts read
  reg s1_valid_q;
  reg [1:0] s1_kind_q;
  reg [31-PAGE_W:0] s1_uar_q;
  reg [NUM_W-1:0] s1_num_q;
  reg [31:0] s1_value_q;

  // s2: in effect
  reg s2_valid_q;
  reg [1:0] s2_kind_q;
  reg [NUM_W-1:0] s2_num_q;
  reg [31:0] s2_value_q;
  reg [1:0] s2_status_q;
  reg s2_more_q;

  wire initializing = !init_q[CQN_W];
  wire [PAGE_W-1:0] inner = s_db_offset[PAGE_W-1:0];
  wire [PAGE_W-1:0] inner_cq = inner - CQ_BASE;
  wire is_cq = inner >= CQ_BASE;
  wire [NUM_W-1:0] num = is_cq ? inner_cq[NUM_W+1:2] : {1'b0, inner[NUM_W+1:3]};

  wire [CQ_W-1:0] cq_read;

  wire s2_write = s2_valid_q && s2_kind_q == KIND_SQ && s2_status_q == STATUS_ACCEPTED;
  wire [QPN_W-1:0] s1_qpn = s1_num_q[QPN_W-1:0];
  wire [QPN_W-1:0] s2_qpn = s2_num_q[QPN_W-1:0];

  // The index of s1 was looked up before the doorbell of s2 advanced it.
  wire [15:0] prod = s2_write && s2_qpn == s1_qpn ? s2_value_q[15:0] : prod_rd_data;

  wire qp_known = s1_num_q >> QPN_W == {NUM_W{1'b0}};
  wire cq_known = s1_num_q >> CQN_W == {NUM_W{1'b0}};
  wire qp_mine = qp_known && qpc_rd_data[`EFA_QPC__LIVE]
      && s1_uar_q == {{32-PAGE_W-UAR_W{1'b0}}, qpc_rd_data[`EFA_QPC__UAR]};
  wire cq_mine = cq_known && cq_read[0] && s1_uar_q == {{32-PAGE_W-UAR_W{1'b0}}, cq_read[CQ_W-1:1]};
  wire in_reset = qpc_rd_data[`EFA_QPC__STATE] == `EFA_ADMIN_QP_STATE__RESET_W3;

  wire [15:0] depth = 16'd1 << qpc_rd_data[`EFA_QPC__SQ_LOG];
  wire [15:0] new_posted = s1_value_q[15:0] - completed_rd_data;
  wire [15:0] posted = prod - completed_rd_data;
  wire legal = new_posted <= depth && new_posted >= posted;

  reg [1:0] status;
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

  reg [63:0] event_data;
  always @* begin
    event_data = 64'd0;
    event_data[`EFA_EV_DB__KIND] = s2_kind_q;
    event_data[`EFA_EV_DB__STATUS] = {1'b0, s2_status_q};
    event_data[`EFA_EV_DB__NUM] = s2_num_q;
    event_data[`EFA_EV_DB__VALUE] = s2_value_q;
  end

  assign m_init_done = !initializing;
  assign qpc_rd_addr = num[QPN_W-1:0];
  assign m_prod_valid = s2_write;
  assign m_prod_qpn = s2_qpn;
  assign m_prod_count = s2_value_q[15:0];
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
    end else begin
      if (initializing) init_q <= init_q + ONE;
      s1_valid_q <= s_db_valid;
      s2_valid_q <= s1_valid_q;
    end
  end

  always @(posedge clk) begin
    s1_kind_q <= is_cq ? KIND_CQ : inner[2] ? KIND_RQ : KIND_SQ;
    s1_uar_q <= s_db_offset[31:PAGE_W];
    s1_num_q <= num;
    s1_value_q <= s_db_data;
    s2_kind_q <= s1_kind_q;
    s2_num_q <= s1_num_q;
    s2_value_q <= s1_value_q;
    s2_status_q <= status;
    s2_more_q <= s1_value_q[15:0] != prod;
  end

  wire unused_context = &{1'b0, qpc_rd_data, s_cqc_data, inner_cq};

endmodule

`default_nettype wire
