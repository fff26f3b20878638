// SPDX-License-Identifier: Apache-2.0
// efa_cq - allocates completion slots as their only owner, writes and commits each CQE.
//
// In    s_txc, s_rxc finished work requests; s_cqc contexts; s_cqdb consumer indices;
//       counted_rd_data, one cycle after counted_rd_en: the completions of QP counted_rd_addr may
//       have event counters
// Out   m_wr one host write per CQE; m_commit CQEs of interrupt-mode CQs and counted CQEs, in write
//       order, with m_commit_*: which of both, and the QP; m_rxdone one pulse per receive CQE
//       written or discarded; s_drain_ready when everything that was inside has left
// Time  one CQE per cycle, also for one CQ and in interrupt mode; 2 cycles from s_*c to m_wr;
//       commit 1 cycle after the write was accepted; s_drain of an idle module 1 cycle
`default_nettype none
`include "efa_defs.vh"

module efa_cq #(
    parameter CQN_W = 7
) (
    input  wire clk,
    input  wire rst,

    input  wire s_cqc_valid,
    input  wire [CQN_W-1:0] s_cqc_cqn,
    input  wire [`EFA_CQC__W-1:0] s_cqc_data,

    input  wire s_cqdb_valid,
    input  wire [CQN_W-1:0] s_cqdb_cqn,
    input  wire [15:0] s_cqdb_index,

    input  wire s_txc_valid,
    output wire s_txc_ready,
    input  wire [`EFA_CPL__W-1:0] s_txc_data,
    input  wire s_rxc_valid,
    output wire s_rxc_ready,
    input  wire [`EFA_CPL__W-1:0] s_rxc_data,

    output wire m_wr_valid,
    input  wire m_wr_ready,
    output wire [63:0] m_wr_addr,
    output wire [12:0] m_wr_len,
    output wire [255:0] m_wr_data,

    output wire m_commit_valid,
    input  wire m_commit_ready,
    output wire [CQN_W-1:0] m_commit_cqn,
    output wire [15:0] m_commit_total,
    output wire m_commit_intr,
    output wire m_commit_counted,
    output wire [11:0] m_commit_qpn,
    output wire [1:0] m_commit_kind,

    output wire counted_rd_en,
    output wire [11:0] counted_rd_addr,
    input wire counted_rd_data,

    output wire m_rxdone,

    input  wire s_drain_valid,
    output wire s_drain_ready,

    output wire m_init_done,

    output wire ev_cqe_valid,
    output wire [63:0] ev_cqe_data
);

  localparam CPL_W = `EFA_CPL__W;
  localparam CQC_W = `EFA_CQC__W;

  // The init sweep after reset clears the tables: a CQ that was never created is not live.
  reg [CQN_W:0] init_q;
  wire init_run = !init_q[CQN_W];
  assign m_init_done = !init_run;

  // Round robin between the two sources.
  wire [1:0] grant;
  wire advance;
  wire take = advance && |grant;
  efa_arb #(
      .N(2)
  ) u_arb (
      .clk(clk),
      .rst(rst),
      .s_request({s_rxc_valid, s_txc_valid} & {2{m_init_done}}),
      .s_hold(!advance),
      .m_grant(grant)
  );
  assign s_txc_ready = advance && grant[0];
  assign s_rxc_ready = advance && grant[1];
  wire [CPL_W-1:0] s0_cpl = grant[1] ? s_rxc_data : s_txc_data;
  wire [11:0] s0_number = s0_cpl[`EFA_CPL__CQN];
  wire [CQN_W-1:0] s0_cqn = s0_number[CQN_W-1:0];

  // Stage 1: context and counters of the CQ.
  reg s1_valid_q;
  reg [CPL_W-1:0] s1_cpl_q;
  wire [11:0] s1_number = s1_cpl_q[`EFA_CPL__CQN];
  wire [CQN_W-1:0] s1_cqn = s1_number[CQN_W-1:0];
  wire s1_sub = s1_cpl_q[`EFA_CPL__SUB];
  wire [CQC_W-1:0] s1_ctx;
  wire [31:0] s1_ram_counts;
  wire [15:0] s1_consumed;
  reg s1_forward_q;
  reg [31:0] s1_forward_counts_q;
  wire [31:0] s1_counts = s1_forward_q ? s1_forward_counts_q : s1_ram_counts;
  wire [15:0] s1_count = s1_sub ? s1_counts[31:16] : s1_counts[15:0];
  wire [15:0] s1_bumped = s1_count + 16'd1;
  wire [31:0] s1_next_counts = s1_sub ? {s1_bumped, s1_counts[15:0]} : {s1_counts[31:16], s1_bumped};
  // The same as the sum of the next counts, without waiting for them.
  wire [15:0] s1_total = s1_counts[31:16] + s1_counts[15:0] + 16'd1;

  wire [3:0] s1_log = s1_ctx[`EFA_CQC__LOG];
  wire s1_wide = s1_ctx[`EFA_CQC__WIDE];
  wire [15:0] s1_mask = (16'd1 << s1_log) - 16'd1;
  wire [15:0] s1_slot = s1_count & s1_mask;
  wire [15:0] s1_wrap = s1_count >> s1_log;
  wire [16:0] s1_entry = ({16'd0, s1_sub} << s1_log) | {1'b0, s1_slot};
  wire [21:0] s1_offset = s1_wide ? {s1_entry, 5'b0} : {1'b0, s1_entry, 4'b0};
  wire s1_live = s1_ctx[`EFA_CQC__LIVE];
  wire s1_posted;

  // A context write uses the write port of the table for one cycle; completions wait.
  wire s1_commit = s1_valid_q && advance && !s_cqc_valid;

  efa_ram #(
      .WIDTH (CQC_W),
      .ADDR_W(CQN_W)
  ) u_ctx (
      .clk(clk),
      .wr_en(s_cqc_valid || init_run),
      .wr_addr(init_run ? init_q[CQN_W-1:0] : s_cqc_cqn),
      .wr_data(init_run ? {CQC_W{1'b0}} : s_cqc_data),
      .rd_en(take),
      .rd_addr(s0_cqn),
      .rd_data(s1_ctx)
  );

  efa_ram #(
      .WIDTH (32),
      .ADDR_W(CQN_W)
  ) u_counts (
      .clk(clk),
      .wr_en(s_cqc_valid || s1_commit || init_run),
      .wr_addr(init_run ? init_q[CQN_W-1:0] : s_cqc_valid ? s_cqc_cqn : s1_cqn),
      .wr_data(init_run || s_cqc_valid ? 32'd0 : s1_next_counts),
      .rd_en(take),
      .rd_addr(s0_cqn),
      .rd_data(s1_ram_counts)
  );

  efa_ram #(
      .WIDTH (16),
      .ADDR_W(CQN_W)
  ) u_consumed (
      .clk(clk),
      .wr_en(s_cqdb_valid || init_run),
      .wr_addr(init_run ? init_q[CQN_W-1:0] : s_cqdb_cqn),
      .wr_data(init_run ? 16'd0 : s_cqdb_index),
      .rd_en(take),
      .rd_addr(s0_cqn),
      .rd_data(s1_consumed)
  );

  // The consumer index was written since the CQ was created.
  efa_flag_ram #(
      .ADDR_W(CQN_W)
  ) u_posted (
      .clk(clk),
      .rst(rst),
      .init_en(init_run),
      .init_addr(init_q[CQN_W-1:0]),
      .set_en(s_cqdb_valid && !init_run),
      .set_addr(s_cqdb_cqn),
      .clear_en(s_cqc_valid),
      .clear_addr(s_cqc_cqn),
      .rd_en(take),
      .rd_addr(s0_cqn),
      .rd_flag(s1_posted)
  );

  // Stage 2: the CQE, waiting for the host write stream and the commit stage.
  reg s2_valid_q;
  reg s2_rx_q;
  reg s2_intr_q;
  reg s2_counted_q;
  reg s2_wide_q;
  reg [15:0] s2_consumed_q;
  reg [4:0] s2_space_log_q;
  reg s2_dead_q;
  reg [57:0] s2_base_q;
  reg [21:0] s2_offset_q;
  reg [255:0] s2_cqe_q;
  reg [CQN_W-1:0] s2_cqn_q;
  reg [15:0] s2_total_q;
  reg s2_sub_q;
  reg [11:0] s2_qpn_q;

  wire [255:0] s1_cqe;
  efa_cqe_format u_format (
      .s_cpl(s1_cpl_q),
      .s_phase(!s1_wrap[0]),
      .s_wide(s1_wide),
      .s_src_addr(s1_ctx[`EFA_CQC__SRC_ADDR]),
      .s_long_id(s1_ctx[`EFA_CQC__LONG_ID]),
      .m_cqe(s1_cqe)
  );

  // More unread CQEs than the rings of the CQ hold.
  wire [15:0] s2_unread = s2_total_q - s2_consumed_q;
  wire [16:0] s2_space = 17'd1 << s2_space_log_q;
  wire s2_overflow = {1'b0, s2_unread} > s2_space;

  wire commit_free;

  wire s2_commits = s2_intr_q || s2_counted_q;
  wire [7:0] s2_status = s2_cqe_q[`EFA_IO_RX_CDESC_EX__BASE__COMMON__STATUS];

  // A write is offered when its commit has space. The CQE of a destroyed CQ is discarded.
  wire s2_drop = s2_valid_q && s2_dead_q;
  wire wr_accepted = m_wr_valid && m_wr_ready;
  wire s2_leaves = s2_drop || wr_accepted;
  assign advance = (!s2_valid_q || s2_leaves) && !s_cqc_valid;

  assign m_wr_valid = s2_valid_q && !s2_dead_q && (!s2_commits || commit_free);
  assign m_wr_addr = {s2_base_q, 6'b0} + {42'b0, s2_offset_q};
  assign m_wr_len = s2_wide_q ? 13'd32 : 13'd16;
  assign m_wr_data = s2_cqe_q;

  // Stage 3: the commit of a written CQE. Two places, so that no write depends on m_commit_ready.
  // Event bits of the kind: sends, failed sends, receives, failed receives.
  wire [CQN_W+31:0] unused_commit;
  efa_skid #(
      .WIDTH(CQN_W + 16 + 1 + 1 + 12 + 2)
  ) u_commit (
      .clk(clk),
      .rst(rst),
      .s_valid(wr_accepted && s2_commits),
      .s_ready(commit_free),
      .s_data({
        s2_cqn_q, s2_total_q, s2_intr_q, s2_counted_q, s2_qpn_q,
        s2_rx_q, s2_status != `EFA_IO_COMP_STATUS__OK
      }),
      .m_valid(m_commit_valid),
      .m_ready(m_commit_ready),
      .m_data({
        m_commit_cqn, m_commit_total, m_commit_intr, m_commit_counted, m_commit_qpn, m_commit_kind
      }),
      .m_next_data(unused_commit)
  );
  wire commits_done = commit_free && (!m_commit_valid || m_commit_ready);

  assign counted_rd_en = take;
  assign counted_rd_addr = s0_cpl[`EFA_CPL__QPN];

  reg rxdone_q;
  assign m_rxdone = rxdone_q;

  reg [15:0] in_q;
  reg [15:0] out_q;
  reg drain_q;
  reg [15:0] drain_fence_q;
  wire [15:0] drain_left = drain_fence_q - out_q;
  // The commit of the last CQE may still be pending.
  assign s_drain_ready = drain_q && (drain_left == 16'd0 || drain_left[15]) && commits_done;

  always @(posedge clk) begin
    if (advance) begin
      s1_cpl_q <= s0_cpl;
      s1_forward_q <= s1_valid_q && s1_cqn == s0_cqn;
      s1_forward_counts_q <= s1_next_counts;
      s2_base_q <= s1_ctx[`EFA_CQC__BASE];
      s2_offset_q <= s1_offset;
      s2_dead_q <= !s1_live;
      s2_cqe_q <= s1_cqe;
      s2_cqn_q <= s1_cqn;
      s2_total_q <= s1_total;
      s2_rx_q <= s1_cpl_q[`EFA_CPL__RX];
      s2_intr_q <= s1_ctx[`EFA_CQC__INTR];
      s2_counted_q <= counted_rd_data;
      s2_wide_q <= s1_wide;
      s2_sub_q <= s1_sub;
      s2_qpn_q <= s1_cpl_q[`EFA_CPL__QPN];
      s2_consumed_q <= s1_posted ? s1_consumed : 16'd0;
      s2_space_log_q <= {1'b0, s1_log} + {4'b0, s1_ctx[`EFA_CQC__TWO]};
    end
    if (s_drain_valid && !drain_q) begin
      drain_fence_q <= in_q;
    end
    if (rst) begin
      init_q <= {(CQN_W + 1) {1'b0}};
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      rxdone_q <= 1'b0;
      in_q <= 16'd0;
      out_q <= 16'd0;
      drain_q <= 1'b0;
    end else begin
      if (init_run) begin
        init_q <= init_q + 1'b1;
      end
      if (advance) begin
        s1_valid_q <= |grant;
        s2_valid_q <= s1_valid_q;
      end else if (s2_leaves) begin
        s2_valid_q <= 1'b0;
      end
      rxdone_q <= (wr_accepted || s2_drop) && s2_rx_q;
      in_q <= in_q + {15'b0, take};
      out_q <= out_q + {15'b0, s2_leaves};
      drain_q <= s_drain_valid && !s_drain_ready;
    end
  end

  assign ev_cqe_valid = wr_accepted;
  reg [63:0] ev_data;
  always @* begin
    ev_data = 64'd0;
    ev_data[`EFA_EV_CQE__CQN] = {{(13 - CQN_W) {1'b0}}, s2_cqn_q};
    ev_data[`EFA_EV_CQE__SUB] = s2_sub_q;
    ev_data[`EFA_EV_CQE__Q_TYPE] = s2_cqe_q[`EFA_IO_RX_CDESC_EX__BASE__COMMON__Q_TYPE];
    ev_data[`EFA_EV_CQE__QPN] = s2_qpn_q;
    ev_data[`EFA_EV_CQE__REQ_ID] = s2_cqe_q[`EFA_IO_RX_CDESC_EX__BASE__COMMON__REQ_ID];
    ev_data[`EFA_EV_CQE__STATUS] = s2_cqe_q[`EFA_IO_RX_CDESC_EX__BASE__COMMON__STATUS];
    ev_data[`EFA_EV_CQE__OVERFLOW] = s2_overflow;
  end
  assign ev_cqe_data = ev_data;

  wire unused_bits = &{1'b0, s1_wrap[15:1], s1_ctx[`EFA_CQC__UAR], s1_ctx[`EFA_CQC__EQN], s0_number, s1_number};

endmodule

`default_nettype wire
