// SPDX-License-Identifier: Apache-2.0
// efa_host - connects the host side: BARs, registers, resets, DMA, MSI-X; wires only.
//
// In    s_mmio, s_dma_rd_cpl, s_cfg (pins); s_rd, s_wr, s_irq: one lane per client of the engines;
//       s_init_done: a bit per engine; s_net_quiet
// Out   m_mmio_cpl, m_dma_rd, m_dma_wr (pins); m_reg_wr, m_llq, m_db: stores to registers, LLQ
//       memory and doorbells; m_rd_cpl; rst: engine reset
// Time  stores three cycles, reads and writes one cycle, completions two; see the instances
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_host #(
    parameter TAGS = `EFA_LIMITS__TAGS,
    parameter TIMEOUT_CYCLES = `EFA_LIMITS__COMPLETION_TIMEOUT_CYCLES,
    parameter LLQ_AW = 21,
    parameter VECTORS = `EFA_LIMITS__MSIX_VECTORS,
    parameter SQ_HOST = 0,
    parameter UPTIME_LEFT = 0  // cycles from power-on to the wrap of uptime; 0: 2^64
) (
    input  wire clk,
    input  wire rst_por,
    input  wire s_cfg_bme,
    input  wire s_cfg_flr,
    output wire m_cfg_flr_done,
    input  wire [2:0] s_cfg_mps,
    input  wire [2:0] s_cfg_mrrs,
    input  wire s_cfg_msix_enable,
    input  wire s_cfg_msix_fmask,
    input  wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input  wire [1:0] s_cfg_interface,
    input  wire [15:0] s_cfg_moderation,
    output wire m_cfg_acq_crc,
    output wire [63:0] m_uptime,
    input  wire s_mmio_valid,
    output wire s_mmio_ready,
    input  wire s_mmio_write,
    input  wire [2:0] s_mmio_bar,
    input  wire [31:0] s_mmio_addr,
    input  wire [63:0] s_mmio_be,
    input  wire [511:0] s_mmio_data,
    input  wire [7:0] s_mmio_tag,
    output wire m_mmio_cpl_valid,
    input  wire m_mmio_cpl_ready,
    output wire [7:0] m_mmio_cpl_tag,
    output wire [511:0] m_mmio_cpl_data,
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
    output wire m_dma_wr_valid,
    input  wire m_dma_wr_ready,
    output wire [63:0] m_dma_wr_addr,
    output wire [12:0] m_dma_wr_len,
    output wire [511:0] m_dma_wr_data,
    output wire m_dma_wr_last,
    output wire rst,
    input  wire [`EFA_ENGINE__COUNT-1:0] s_init_done,
    output wire m_quiesce,
    input  wire s_net_quiet,
    output wire [3:0] m_cfg_mps_log,
    output wire [3:0] m_cfg_mrrs_log,
    output wire m_reg_wr_valid,
    output wire [`EFA_REG_WR__W-1:0] m_reg_wr_data,
    output wire m_llq_valid,
    output wire [`EFA_LLQ__W-1:0] m_llq_data,
    output wire m_db_valid,
    output wire [`EFA_DB__W-1:0] m_db_data,
    input  wire [`EFA_DMA_RD_CLIENT__COUNT-1:0] s_rd_valid,
    output wire [`EFA_DMA_RD_CLIENT__COUNT-1:0] s_rd_ready,
    input  wire [`EFA_DMA_RD__W*`EFA_DMA_RD_CLIENT__COUNT-1:0] s_rd_data,
    output wire [`EFA_DMA_RD_CLIENT__COUNT-1:0] m_rd_cpl_valid,
    output wire [`EFA_DMA_RD_CPL__W-1:0] m_rd_cpl_data,
    input  wire [`EFA_DMA_WR_CLIENT__COUNT-1:0] s_wr_valid,
    output wire [`EFA_DMA_WR_CLIENT__COUNT-1:0] s_wr_ready,
    input  wire [`EFA_DMA_WR__W*`EFA_DMA_WR_CLIENT__COUNT-1:0] s_wr_data,
    input  wire [`EFA_IRQ_CLIENT__COUNT-1:0] s_irq_valid,
    output wire [`EFA_IRQ_CLIENT__COUNT-1:0] s_irq_ready,
    input  wire [8*`EFA_IRQ_CLIENT__COUNT-1:0] s_irq_vector,
    output wire [`EFA_EV__HOST_VALID] ev_valid,
    output wire [`EFA_EV__HOST_DATA] ev_data
);

  wire host_rst;
  wire in_reset;
  wire in_flr;
  wire opened;
  wire resp_clear;
  wire sts_progress;
  wire sts_finished;
  wire acc_valid;
  wire acc_write;
  wire [31:0] acc_offset;
  wire [31:0] acc_data;
  wire part_valid;
  wire [31:0] part_offset;
  wire [31:0] reg_rdata;
  wire ctl_valid;
  wire ctl_reset;
  wire wr_reg_valid;
  wire [63:0] wr_reg_addr;
  wire [63:0] wr_reg_data;
  wire [1:0] sampled_interface;
  wire bad_vector_valid;
  wire [7:0] bad_vector;
  wire anomaly_valid;
  wire [3:0] anomaly_kind;
  wire [31:0] anomaly_detail;
  wire irq_init_done;
  wire irq_hit;
  wire [31:0] irq_rdata;
  wire wr_irq_valid;
  wire [63:0] wr_irq_addr;
  wire [31:0] wr_irq_data;
  wire rd_init_done;
  wire rd_idle;
  wire late_valid;
  wire [7:0] late_tag;
  wire wr_core_idle;
  wire wr_idle;
  wire wr_reg_ready;
  wire wr_irq_ready;

  wire init_done = irq_init_done && rd_init_done && &s_init_done;
  wire [LLQ_AW-6-1:0] llq_line;
  assign m_llq_data[`EFA_LLQ__LINE] = {{26 - LLQ_AW{1'b0}}, llq_line};
  wire [31:0] acc_rdata = irq_hit ? irq_rdata : reg_rdata;

  // 128 bytes to 4 KB; reserved codes count as 4 KB.
  assign m_cfg_mps_log = s_cfg_mps > 3'd5 ? 4'd12 : 4'd7 + {1'b0, s_cfg_mps};
  assign m_cfg_mrrs_log = s_cfg_mrrs > 3'd5 ? 4'd12 : 4'd7 + {1'b0, s_cfg_mrrs};

  efa_reset #(
      .UPTIME_LEFT(UPTIME_LEFT)
  ) u_reset (
      .clk(clk),
      .rst_por(rst_por),
      .s_cfg_flr(s_cfg_flr),
      .m_cfg_flr_done(m_cfg_flr_done),
      .s_cfg_interface(s_cfg_interface),
      .m_cfg_sampled_interface(sampled_interface),
      .m_uptime(m_uptime),
      .s_ctl_valid(ctl_valid),
      .s_ctl_reset(ctl_reset),
      .s_init_done(init_done),
      .s_net_quiet(s_net_quiet),
      .s_rd_idle(rd_idle),
      .s_wr_idle(wr_idle),
      .s_wr_core_idle(wr_core_idle),
      .rst(rst),
      .m_host_rst(host_rst),
      .m_quiesce(m_quiesce),
      .m_in_reset(in_reset),
      .m_in_flr(in_flr),
      .m_opened(opened),
      .m_resp_clear(resp_clear),
      .m_sts_progress(sts_progress),
      .m_sts_finished(sts_finished),
      .ev_reset_valid(ev_valid[`EFA_EV__RESET]),
      .ev_reset_data(ev_data[64*`EFA_EV__RESET+:64])
  );

  efa_mmio #(
      .LLQ_AW(LLQ_AW)
  ) u_mmio (
      .clk(clk),
      .rst(rst_por),
      .s_opened(opened),
      .s_in_reset(in_reset),
      .s_mmio_valid(s_mmio_valid),
      .s_mmio_ready(s_mmio_ready),
      .s_mmio_write(s_mmio_write),
      .s_mmio_bar(s_mmio_bar),
      .s_mmio_addr(s_mmio_addr),
      .s_mmio_be(s_mmio_be),
      .s_mmio_data(s_mmio_data),
      .s_mmio_tag(s_mmio_tag),
      .m_mmio_cpl_valid(m_mmio_cpl_valid),
      .m_mmio_cpl_ready(m_mmio_cpl_ready),
      .m_mmio_cpl_tag(m_mmio_cpl_tag),
      .m_mmio_cpl_data(m_mmio_cpl_data),
      .m_llq_valid(m_llq_valid),
      .m_llq_line(llq_line),
      .m_llq_dwen(m_llq_data[`EFA_LLQ__DWEN]),
      .m_llq_part(m_llq_data[`EFA_LLQ__PART]),
      .m_llq_data(m_llq_data[`EFA_LLQ__DATA]),
      .m_db_valid(m_db_valid),
      .m_db_offset(m_db_data[`EFA_DB__OFFSET]),
      .m_db_data(m_db_data[`EFA_DB__DATA]),
      .m_acc_valid(acc_valid),
      .m_acc_write(acc_write),
      .m_acc_offset(acc_offset),
      .m_acc_data(acc_data),
      .s_acc_rdata(acc_rdata),
      .m_part_valid(part_valid),
      .m_part_offset(part_offset)
  );

  efa_regs #(
      .VECTORS(VECTORS)
  ) u_regs (
      .clk(clk),
      .rst(host_rst),
      .s_cfg_profile(s_cfg_profile),
      .s_cfg_sampled_interface(sampled_interface),
      .m_cfg_acq_crc(m_cfg_acq_crc),
      .s_in_reset(in_reset),
      .s_in_flr(in_flr),
      .s_resp_clear(resp_clear),
      .s_sts_progress(sts_progress),
      .s_sts_finished(sts_finished),
      .s_acc_valid(acc_valid),
      .s_acc_write(acc_write),
      .s_acc_offset(acc_offset),
      .s_acc_data(acc_data),
      .m_acc_rdata(reg_rdata),
      .m_reg_wr_valid(m_reg_wr_valid),
      .m_reg_wr_offset(m_reg_wr_data[`EFA_REG_WR__OFFSET]),
      .m_reg_wr_data(m_reg_wr_data[`EFA_REG_WR__DATA]),
      .m_ctl_valid(ctl_valid),
      .m_ctl_reset(ctl_reset),
      .m_wr_reg_valid(wr_reg_valid),
      .m_wr_reg_ready(wr_reg_ready),
      .m_wr_reg_addr(wr_reg_addr),
      .m_wr_reg_data(wr_reg_data),
      .m_anomaly_valid(anomaly_valid),
      .m_anomaly_kind(anomaly_kind),
      .m_anomaly_detail(anomaly_detail)
  );

  efa_irq #(
      .VECTORS(VECTORS)
  ) u_irq (
      .clk(clk),
      .s_host_rst(host_rst),
      .rst(rst),
      .m_init_done(irq_init_done),
      .s_cfg_msix_enable(s_cfg_msix_enable),
      .s_cfg_msix_fmask(s_cfg_msix_fmask),
      .s_cfg_moderation(s_cfg_moderation),
      .s_acc_valid(acc_valid),
      .s_acc_write(acc_write),
      .s_acc_offset(acc_offset),
      .s_acc_data(acc_data),
      .m_acc_hit(irq_hit),
      .m_acc_rdata(irq_rdata),
      .s_irq_valid(s_irq_valid),
      .s_irq_ready(s_irq_ready),
      .s_irq_vector(s_irq_vector),
      .m_wr_irq_valid(wr_irq_valid),
      .m_wr_irq_ready(wr_irq_ready),
      .m_wr_irq_addr(wr_irq_addr),
      .m_wr_irq_data(wr_irq_data),
      .m_anomaly_valid(bad_vector_valid),
      .m_anomaly_vector(bad_vector),
      .ev_irq_valid(ev_valid[`EFA_EV__IRQ]),
      .ev_irq_data(ev_data[64*`EFA_EV__IRQ+:64])
  );

  efa_dma_rd #(
      .TAGS(TAGS),
      .TIMEOUT_CYCLES(TIMEOUT_CYCLES),
      .SQ_HOST(SQ_HOST)
  ) u_dma_rd (
      .clk(clk),
      .rst(rst_por),
      .s_cfg_bme(s_cfg_bme),
      .s_stop(m_quiesce),
      .s_cfg_mrrs_log(m_cfg_mrrs_log),
      .m_init_done(rd_init_done),
      .m_idle(rd_idle),
      .s_rd_valid(s_rd_valid),
      .s_rd_ready(s_rd_ready),
      .s_rd_data(s_rd_data),
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
      .m_rd_cpl_valid(m_rd_cpl_valid),
      .m_rd_cpl_data(m_rd_cpl_data),
      .m_late_valid(late_valid),
      .m_late_tag(late_tag),
      .ev_rd_valid(ev_valid[`EFA_EV__RD]),
      .ev_rd_data(ev_data[64*`EFA_EV__RD+:64]),
      .ev_rd_cpl_valid(ev_valid[`EFA_EV__RD_CPL]),
      .ev_rd_cpl_data(ev_data[64*`EFA_EV__RD_CPL+:64])
  );

  efa_dma_wr u_dma_wr (
      .clk(clk),
      .rst(rst_por),
      .s_cfg_bme(s_cfg_bme),
      .s_stop_core(m_quiesce),
      .s_stop_all(in_flr),
      .s_cfg_mps_log(m_cfg_mps_log),
      .m_core_idle(wr_core_idle),
      .m_idle(wr_idle),
      .s_wr_valid(s_wr_valid),
      .s_wr_ready(s_wr_ready),
      .s_wr_data(s_wr_data),
      .s_wr_reg_valid(wr_reg_valid),
      .s_wr_reg_ready(wr_reg_ready),
      .s_wr_reg_addr(wr_reg_addr),
      .s_wr_reg_data(wr_reg_data),
      .s_wr_irq_valid(wr_irq_valid),
      .s_wr_irq_ready(wr_irq_ready),
      .s_wr_irq_addr(wr_irq_addr),
      .s_wr_irq_data(wr_irq_data),
      .m_dma_wr_valid(m_dma_wr_valid),
      .m_dma_wr_ready(m_dma_wr_ready),
      .m_dma_wr_addr(m_dma_wr_addr),
      .m_dma_wr_len(m_dma_wr_len),
      .m_dma_wr_data(m_dma_wr_data),
      .m_dma_wr_last(m_dma_wr_last)
  );

  efa_host_anomaly u_host_anomaly (
      .clk(clk),
      .rst(rst_por),
      .s_part_valid(part_valid),
      .s_part_offset(part_offset),
      .s_anomaly_valid(anomaly_valid),
      .s_anomaly_kind(anomaly_kind),
      .s_anomaly_detail(anomaly_detail),
      .s_late_valid(late_valid),
      .s_late_tag(late_tag),
      .s_vector_valid(bad_vector_valid),
      .s_vector_number(bad_vector),
      .ev_anomaly_host_valid(ev_valid[`EFA_EV__ANOMALY_HOST]),
      .ev_anomaly_host_data(ev_data[64*`EFA_EV__ANOMALY_HOST+:64])
  );

  `EFA_STREAM(u_edge_cpl, 8 + 512, clk, rst_por, m_mmio_cpl_valid, m_mmio_cpl_ready, {
              m_mmio_cpl_tag, m_mmio_cpl_data})
  `EFA_STREAM(u_edge_rd, 64 + 13 + 8, clk, rst_por, m_dma_rd_valid, m_dma_rd_ready, {
              m_dma_rd_addr, m_dma_rd_len, m_dma_rd_tag})
  `EFA_STREAM(u_edge_wr, 64 + 13 + 512 + 1, clk, rst_por, m_dma_wr_valid, m_dma_wr_ready, {
              m_dma_wr_addr, m_dma_wr_len, m_dma_wr_data, m_dma_wr_last})

endmodule

`default_nettype wire
