// SPDX-License-Identifier: Apache-2.0
// efa_tb - instantiates one or two devices and gives their boundary to the bench as ports.
//
// In    clk, rst_por and all streams into the devices, driven by tb/native once a clock
// Out   all streams out of the devices; device d has bit d, or lane d, of each port
// Time  none; `wake` toggles when Python is to run
// Fields of odd width get lanes of whole bytes, so that native code finds them by address.
`default_nettype none
`include "efa_defs.vh"

module efa_tb #(
    parameter DEVICES        = 1,
    parameter QPN_W          = `EFA_LIMITS__QPN_W,
    parameter TAGS           = `EFA_LIMITS__TAGS,
    parameter LLQ_AW         = 21,
    parameter SQ_HOST        = `EFA_LIMITS__SQ_HOST,
    parameter MTT_W          = `EFA_LIMITS__MTT_W,
    parameter TIMEOUT_CYCLES = `EFA_LIMITS__COMPLETION_TIMEOUT_CYCLES
) (
    input  wire clk,
    input  wire rst_por,
    input  wire wake,
    input  wire [DEVICES-1:0] s_cfg_bme,
    input  wire [DEVICES-1:0] s_cfg_flr,
    output wire [DEVICES-1:0] m_cfg_flr_done,
    input  wire [8*DEVICES-1:0] s_cfg_mps,
    input  wire [8*DEVICES-1:0] s_cfg_mrrs,
    input  wire [DEVICES-1:0] s_cfg_msix_enable,
    input  wire [DEVICES-1:0] s_cfg_msix_fmask,
    input  wire [16*DEVICES-1:0] s_cfg_node_id,
    input  wire [8*DEVICES-1:0] s_cfg_profile,
    input  wire [8*DEVICES-1:0] s_cfg_interface,
    input  wire [32*DEVICES-1:0] s_cfg_keep_alive,
    input  wire [16*DEVICES-1:0] s_cfg_moderation,
    input  wire [8*DEVICES-1:0] s_cfg_paths,
    input  wire [8*DEVICES-1:0] s_cfg_tick,
    input  wire [DEVICES-1:0] s_aenq_valid,
    output wire [DEVICES-1:0] s_aenq_ready,
    input  wire [16*DEVICES-1:0] s_aenq_group,
    input  wire [16*DEVICES-1:0] s_aenq_syndrome,
    input  wire [512*DEVICES-1:0] s_aenq_data,
    input  wire [DEVICES-1:0] s_mmio_valid,
    output wire [DEVICES-1:0] s_mmio_ready,
    input  wire [DEVICES-1:0] s_mmio_write,
    input  wire [8*DEVICES-1:0] s_mmio_bar,
    input  wire [32*DEVICES-1:0] s_mmio_addr,
    input  wire [64*DEVICES-1:0] s_mmio_be,
    input  wire [512*DEVICES-1:0] s_mmio_data,
    input  wire [8*DEVICES-1:0] s_mmio_tag,
    output wire [DEVICES-1:0] m_mmio_cpl_valid,
    input  wire [DEVICES-1:0] m_mmio_cpl_ready,
    output wire [8*DEVICES-1:0] m_mmio_cpl_tag,
    output wire [512*DEVICES-1:0] m_mmio_cpl_data,
    output wire [DEVICES-1:0] m_dma_rd_valid,
    input  wire [DEVICES-1:0] m_dma_rd_ready,
    output wire [64*DEVICES-1:0] m_dma_rd_addr,
    output wire [16*DEVICES-1:0] m_dma_rd_len,
    output wire [8*DEVICES-1:0] m_dma_rd_tag,
    input  wire [DEVICES-1:0] s_dma_rd_cpl_valid,
    output wire [DEVICES-1:0] s_dma_rd_cpl_ready,
    input  wire [8*DEVICES-1:0] s_dma_rd_cpl_tag,
    input  wire [512*DEVICES-1:0] s_dma_rd_cpl_data,
    input  wire [8*DEVICES-1:0] s_dma_rd_cpl_bytes,
    input  wire [DEVICES-1:0] s_dma_rd_cpl_last,
    input  wire [DEVICES-1:0] s_dma_rd_cpl_err,
    output wire [DEVICES-1:0] m_dma_wr_valid,
    input  wire [DEVICES-1:0] m_dma_wr_ready,
    output wire [64*DEVICES-1:0] m_dma_wr_addr,
    output wire [16*DEVICES-1:0] m_dma_wr_len,
    output wire [512*DEVICES-1:0] m_dma_wr_data,
    output wire [DEVICES-1:0] m_dma_wr_last,
    output wire [DEVICES-1:0] m_net_valid,
    input  wire [DEVICES-1:0] m_net_ready,
    output wire [512*DEVICES-1:0] m_net_data,
    output wire [64*DEVICES-1:0] m_net_keep,
    output wire [DEVICES-1:0] m_net_last,
    input  wire [DEVICES-1:0] s_net_valid,
    output wire [DEVICES-1:0] s_net_ready,
    input  wire [512*DEVICES-1:0] s_net_data,
    input  wire [64*DEVICES-1:0] s_net_keep,
    input  wire [DEVICES-1:0] s_net_last,
    output wire [32*DEVICES-1:0] ev_valid,
    output wire [64*`EFA_EV__COUNT*DEVICES-1:0] ev_data,
    input  wire [DEVICES-1:0] cnt_run,
    input  wire [DEVICES-1:0] cnt_clear,
    input  wire [8*DEVICES-1:0] cnt_index,
    output wire [32*DEVICES-1:0] cnt_data,
    output wire [16*DEVICES-1:0] m_sends_open
);

  localparam EV = `EFA_EV__COUNT;
  localparam OPEN_W = `EFA_LIMITS__MSG_W + 1;

  wire unused_wake = wake;

  genvar d;
  generate
    for (d = 0; d < DEVICES; d = d + 1) begin : g_device
      assign m_dma_rd_len[16*d+13+:3] = 3'd0;
      assign m_dma_wr_len[16*d+13+:3] = 3'd0;
      assign ev_valid[32*d+EV+:32-EV] = {(32 - EV) {1'b0}};
      assign m_sends_open[16*d+OPEN_W+:16-OPEN_W] = {(16 - OPEN_W) {1'b0}};

      wire unused_lanes = &{1'b0, s_cfg_mps[8*d+3+:5], s_cfg_mrrs[8*d+3+:5],
                            s_mmio_bar[8*d+3+:5], s_dma_rd_cpl_bytes[8*d+7],
                            cnt_index[8*d+7], s_cfg_interface[8*d+2+:6],
                            s_cfg_profile[8*d+`EFA_PROFILE_W+:8-`EFA_PROFILE_W],
                            s_aenq_data[512*d+384+:128]};

      efa_nic #(
          .QPN_W(QPN_W),
          .TAGS(TAGS),
          .LLQ_AW(LLQ_AW),
          .SQ_HOST(SQ_HOST),
          .MTT_W(MTT_W),
          .TIMEOUT_CYCLES(TIMEOUT_CYCLES)
      ) u_nic (
          .clk(clk),
          .rst_por(rst_por),
          .s_cfg_bme(s_cfg_bme[d]),
          .s_cfg_flr(s_cfg_flr[d]),
          .m_cfg_flr_done(m_cfg_flr_done[d]),
          .s_cfg_mps(s_cfg_mps[8*d+:3]),
          .s_cfg_mrrs(s_cfg_mrrs[8*d+:3]),
          .s_cfg_msix_enable(s_cfg_msix_enable[d]),
          .s_cfg_msix_fmask(s_cfg_msix_fmask[d]),
          .s_cfg_node_id(s_cfg_node_id[16*d+:16]),
          .s_cfg_profile(s_cfg_profile[8*d+:`EFA_PROFILE_W]),
          .s_cfg_interface(s_cfg_interface[8*d+:2]),
          .s_cfg_keep_alive(s_cfg_keep_alive[32*d+:32]),
          .s_cfg_moderation(s_cfg_moderation[16*d+:16]),
          .s_cfg_paths(s_cfg_paths[8*d+:8]),
          .s_cfg_tick(s_cfg_tick[8*d+:8]),
          .s_aenq_valid(s_aenq_valid[d]),
          .s_aenq_ready(s_aenq_ready[d]),
          .s_aenq_group(s_aenq_group[16*d+:16]),
          .s_aenq_syndrome(s_aenq_syndrome[16*d+:16]),
          .s_aenq_data(s_aenq_data[512*d+:384]),
          .s_mmio_valid(s_mmio_valid[d]),
          .s_mmio_ready(s_mmio_ready[d]),
          .s_mmio_write(s_mmio_write[d]),
          .s_mmio_bar(s_mmio_bar[8*d+:3]),
          .s_mmio_addr(s_mmio_addr[32*d+:32]),
          .s_mmio_be(s_mmio_be[64*d+:64]),
          .s_mmio_data(s_mmio_data[512*d+:512]),
          .s_mmio_tag(s_mmio_tag[8*d+:8]),
          .m_mmio_cpl_valid(m_mmio_cpl_valid[d]),
          .m_mmio_cpl_ready(m_mmio_cpl_ready[d]),
          .m_mmio_cpl_tag(m_mmio_cpl_tag[8*d+:8]),
          .m_mmio_cpl_data(m_mmio_cpl_data[512*d+:512]),
          .m_dma_rd_valid(m_dma_rd_valid[d]),
          .m_dma_rd_ready(m_dma_rd_ready[d]),
          .m_dma_rd_addr(m_dma_rd_addr[64*d+:64]),
          .m_dma_rd_len(m_dma_rd_len[16*d+:13]),
          .m_dma_rd_tag(m_dma_rd_tag[8*d+:8]),
          .s_dma_rd_cpl_valid(s_dma_rd_cpl_valid[d]),
          .s_dma_rd_cpl_ready(s_dma_rd_cpl_ready[d]),
          .s_dma_rd_cpl_tag(s_dma_rd_cpl_tag[8*d+:8]),
          .s_dma_rd_cpl_data(s_dma_rd_cpl_data[512*d+:512]),
          .s_dma_rd_cpl_bytes(s_dma_rd_cpl_bytes[8*d+:7]),
          .s_dma_rd_cpl_last(s_dma_rd_cpl_last[d]),
          .s_dma_rd_cpl_err(s_dma_rd_cpl_err[d]),
          .m_dma_wr_valid(m_dma_wr_valid[d]),
          .m_dma_wr_ready(m_dma_wr_ready[d]),
          .m_dma_wr_addr(m_dma_wr_addr[64*d+:64]),
          .m_dma_wr_len(m_dma_wr_len[16*d+:13]),
          .m_dma_wr_data(m_dma_wr_data[512*d+:512]),
          .m_dma_wr_last(m_dma_wr_last[d]),
          .m_net_valid(m_net_valid[d]),
          .m_net_ready(m_net_ready[d]),
          .m_net_data(m_net_data[512*d+:512]),
          .m_net_keep(m_net_keep[64*d+:64]),
          .m_net_last(m_net_last[d]),
          .s_net_valid(s_net_valid[d]),
          .s_net_ready(s_net_ready[d]),
          .s_net_data(s_net_data[512*d+:512]),
          .s_net_keep(s_net_keep[64*d+:64]),
          .s_net_last(s_net_last[d]),
          .ev_valid(ev_valid[32*d+:EV]),
          .ev_data(ev_data[64*EV*d+:64*EV]),
          .s_cnt_run(cnt_run[d]),
          .s_cnt_clear(cnt_clear[d]),
          .cnt_rd_addr(cnt_index[8*d+:7]),
          .cnt_rd_data(cnt_data[32*d+:32]),
          .m_sends_open(m_sends_open[16*d+:OPEN_W])
      );
    end
  endgenerate

endmodule

`default_nettype wire
