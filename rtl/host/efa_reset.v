// SPDX-License-Identifier: Apache-2.0
// efa_reset - sequences power-on, register and function-level reset: drain, reset, initialise.
//
// In    s_ctl: stores to DEV_CTL; s_cfg_flr: a rising edge starts a function-level reset;
//       s_cfg_interface; idle state of the engines
// Out   m_cfg_sampled_interface: s_cfg_interface at the end of the last reset; m_uptime: cycles
//       since power-on; m_quiesce: from the request on; rst: engine reset; m_host_rst: resets the
//       host side too (power-on, FLR); m_in_reset; m_in_flr; m_opened: power-on reset is over;
//       DEV_STS bits; ev_reset
// Time  a DEV_CTL store shows in m_sts_progress one cycle later; rst lasts 8 cycles; a register
//       reset ends after a store of DEV_CTL = 0, the others end by themselves
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_reset #(
    parameter UPTIME_LEFT = 0  // cycles from power-on to the wrap of uptime; 0: 2^64
) (
    input  wire clk,
    input  wire rst_por,
    input  wire s_cfg_flr,
    output wire m_cfg_flr_done,
    input  wire [1:0] s_cfg_interface,
    output wire [1:0] m_cfg_sampled_interface,
    output wire [63:0] m_uptime,
    input  wire s_ctl_valid,
    input  wire s_ctl_reset,
    input  wire s_init_done,
    input  wire s_net_quiet,
    input  wire s_rd_idle,
    input  wire s_wr_idle,
    input  wire s_wr_core_idle,
    output wire rst,
    output wire m_host_rst,
    output wire m_quiesce,
    output wire m_in_reset,
    output wire m_in_flr,
    output wire m_opened,
    output wire m_resp_clear,
    output wire m_sts_progress,
    output wire m_sts_finished,
    output wire ev_reset_valid,
    output wire [63:0] ev_reset_data
);

  localparam [2:0] ST_CORE = 3'd0;
  localparam [2:0] ST_INIT = 3'd1;
  localparam [2:0] ST_IDLE = 3'd2;
  localparam [2:0] ST_DRAIN = 3'd3;
  localparam [2:0] ST_RELEASE = 3'd4;
  // Cycles of rst, and cycles before an engine's response to m_quiesce or rst is valid.
  localparam [2:0] SETTLE = 3'd7;
  localparam [31:0] LOW_LEFT = UPTIME_LEFT;
  localparam [63:0] UPTIME_FIRST = 64'd0 - {32'd0, LOW_LEFT};

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg [2:0] count_q;
  reg boot_q;
  reg boot_d;
  reg flr_q;  // this reset is a function-level reset
  reg flr_d;
  reg flr_requested_q;
  reg flr_requested_d;
  reg flr_seen_q;
  reg progress_q;
  reg progress_d;
  reg finished_q;
  reg finished_d;
  reg released_q;
  reg rst_q;
  reg host_rst_q;
  reg [1:0] interface_q;
  reg [31:0] uptime_low_q;
  reg [31:0] uptime_high_q;
  reg ev_valid_q;
  reg ev_valid_d;
  reg [1:0] ev_step_q;
  reg [1:0] ev_step_d;

  wire settle_done = count_q == SETTLE;
  wire begin_ctl = state_q == ST_IDLE && !flr_requested_q && s_ctl_valid && s_ctl_reset;
  wire drained = settle_done && s_net_quiet && s_rd_idle && (flr_q ? s_wr_idle : s_wr_core_idle);

  always @* begin
    state_d = state_q;
    boot_d = boot_q;
    flr_d = flr_q;
    flr_requested_d = flr_requested_q || (s_cfg_flr && !flr_seen_q);
    progress_d = progress_q;
    finished_d = finished_q;
    ev_valid_d = 1'b0;
    ev_step_d = `EFA_RESET_STEP__BEGUN;
    case (state_q)
      // Waits for a fixed time under rst.
      ST_CORE: begin
        if (settle_done) state_d = ST_INIT;
      end
      // Waits until the tables are initialised.
      ST_INIT: begin
        if (settle_done && s_init_done) begin
          boot_d = 1'b0;
          flr_d = 1'b0;
          state_d = progress_q ? ST_RELEASE : ST_IDLE;
          ev_valid_d = !boot_q && !progress_q;
          ev_step_d = `EFA_RESET_STEP__DONE;
        end
      end
      // Waits for a reset request.
      ST_IDLE: begin
        if (begin_ctl) begin
          state_d = ST_DRAIN;
          progress_d = 1'b1;
          finished_d = 1'b0;
          ev_valid_d = 1'b1;
        end
      end
      // Waits until packets and writes have left and outstanding reads have completed.
      ST_DRAIN: begin
        if (drained && !flr_requested_q) begin
          state_d = ST_CORE;
          ev_valid_d = 1'b1;
          ev_step_d = `EFA_RESET_STEP__DRAINED;
        end
      end
      // Waits for a host store of DEV_CTL = 0.
      default: begin
        if (released_q) begin
          state_d = ST_IDLE;
          progress_d = 1'b0;
          finished_d = 1'b1;
          ev_valid_d = 1'b1;
          ev_step_d = `EFA_RESET_STEP__DONE;
        end
      end
    endcase
    // A function-level reset waits while the core resets and initialises; it ends any other step.
    if (flr_requested_q && (state_q == ST_IDLE || state_q == ST_DRAIN || state_q == ST_RELEASE)) begin
      state_d = ST_DRAIN;
      flr_d = 1'b1;
      flr_requested_d = s_cfg_flr && !flr_seen_q;
      progress_d = 1'b0;
      finished_d = 1'b0;
      ev_valid_d = 1'b1;
      ev_step_d = `EFA_RESET_STEP__BEGUN;
    end
  end

  always @(posedge clk) begin
    if (rst_por) begin
      state_q <= ST_CORE;
      count_q <= 3'd0;
      boot_q <= 1'b1;
      flr_q <= 1'b0;
      flr_requested_q <= 1'b0;
      flr_seen_q <= 1'b0;
      progress_q <= 1'b0;
      finished_q <= 1'b0;
      released_q <= 1'b0;
      rst_q <= 1'b1;
      host_rst_q <= 1'b1;
      ev_valid_q <= 1'b0;
      interface_q <= 2'd0;
      uptime_low_q <= UPTIME_FIRST[31:0];
      uptime_high_q <= UPTIME_FIRST[63:32];
    end else begin
      uptime_low_q <= uptime_low_q + 32'd1;
      if (&uptime_low_q) uptime_high_q <= uptime_high_q + 32'd1;
      if (state_q != ST_IDLE && state_d == ST_IDLE) interface_q <= s_cfg_interface;
      state_q <= state_d;
      if (state_d != state_q) count_q <= 3'd0;
      else if (!settle_done) count_q <= count_q + 3'd1;
      boot_q <= boot_d;
      flr_q <= flr_d;
      flr_requested_q <= flr_requested_d;
      flr_seen_q <= s_cfg_flr;
      progress_q <= progress_d;
      finished_q <= finished_d;
      if (begin_ctl) released_q <= 1'b0;
      else if (s_ctl_valid && !s_ctl_reset) released_q <= 1'b1;
      rst_q <= state_d == ST_CORE;
      host_rst_q <= state_d == ST_CORE && (boot_d || flr_d);
      ev_valid_q <= ev_valid_d;
    end
  end

  always @(posedge clk) begin
    ev_step_q <= ev_step_d;
  end

  assign m_cfg_flr_done = state_q == ST_IDLE && !flr_requested_q;
  // rst_por resets the core from the first edge on; rst_q alone does so from the second.
  assign rst = rst_q || rst_por;
  assign m_host_rst = host_rst_q || rst_por;
  assign m_quiesce = state_q != ST_IDLE;
  assign m_in_reset = state_q != ST_IDLE;
  assign m_in_flr = flr_q;
  assign m_opened = !boot_q;
  assign m_resp_clear = begin_ctl;
  assign m_sts_progress = progress_q;
  assign m_sts_finished = finished_q;
  assign ev_reset_valid = ev_valid_q;
  assign m_cfg_sampled_interface = interface_q;
  assign m_uptime = {uptime_high_q, uptime_low_q};

  reg [63:0] data;
  always @* begin
    data = 64'd0;
    data[`EFA_EV_RESET__STEP] = ev_step_q;
  end

  assign ev_reset_data = data;

  `EFA_CHECK_ON(clk, rst_por, !progress_q || m_in_reset, "RESET_IN_PROGRESS without a reset")
  `EFA_CHECK_ON(clk, rst_por, !host_rst_q || rst_q,
                "reset of the host side without reset of the core")

endmodule

`default_nettype wire
