// SPDX-License-Identifier: Apache-2.0
// efa_host - connects the host side: BARs, registers, resets, DMA, MSI-X; wires only.
//
// In    s_mmio, s_dma_rd_cpl, s_cfg (pins); rd, wr, irq of the engines; their init_done and quiet
// Out   m_mmio_cpl, m_dma_rd, m_dma_wr (pins); register, LLQ and doorbell stores; rd_cpl; core_rst
// Time  stores three cycles, reads and writes one cycle, completions two; see the instances
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
    input  wire rst,
    input  wire s_cfg_bme,
    input  wire s_cfg_flr,
    output wire m_cfg_flr_done,
    input  wire [2:0] s_cfg_mps,
    input  wire [2:0] s_cfg_mrrs,
    input  wire s_cfg_msix_enable,
    input  wire s_cfg_msix_fmask,
    input  wire s_cfg_profile,
    input  wire [1:0] s_cfg_interface,
    input  wire [15:0] s_cfg_moderation,
    output wire acq_crc,
    output wire [63:0] uptime,
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
    output wire core_rst,
    input  wire admin_init_done,
    input  wire qp_init_done,
    input  wire send_init_done,
    input  wire recv_init_done,
    input  wire cpl_init_done,
    output wire quiesce,
    input  wire net_quiet,
    output wire [3:0] mps_log,
    output wire [3:0] mrrs_log,
    output wire reg_wr_valid,
    output wire [15:0] reg_wr_offset,
    output wire [31:0] reg_wr_data,
    output wire llq_valid,
    output wire [LLQ_AW-6-1:0] llq_line,
    output wire [15:0] llq_dwen,
    output wire llq_part,
    output wire [511:0] llq_data,
    output wire db_valid,
    output wire [31:0] db_offset,
    output wire [31:0] db_data,
    input  wire rd_adm_valid,
    output wire rd_adm_ready,
    input  wire [63:0] rd_adm_addr,
    input  wire [12:0] rd_adm_len,
    input  wire [31:0] rd_adm_cookie,
    input  wire rd_rq_valid,
    output wire rd_rq_ready,
    input  wire [63:0] rd_rq_addr,
    input  wire [12:0] rd_rq_len,
    input  wire [31:0] rd_rq_cookie,
    input  wire rd_tx_valid,
    output wire rd_tx_ready,
    input  wire [63:0] rd_tx_addr,
    input  wire [12:0] rd_tx_len,
    input  wire [31:0] rd_tx_cookie,
    input  wire rd_sq_valid,
    output wire rd_sq_ready,
    input  wire [63:0] rd_sq_addr,
    input  wire [12:0] rd_sq_len,
    input  wire [31:0] rd_sq_cookie,
    output wire rd_cpl_adm_valid,
    output wire rd_cpl_rq_valid,
    output wire rd_cpl_tx_valid,
    output wire rd_cpl_sq_valid,
    output wire [31:0] rd_cpl_cookie,
    output wire [12:0] rd_cpl_offset,
    output wire [511:0] rd_cpl_data,
    output wire [6:0] rd_cpl_bytes,
    output wire rd_cpl_last,
    output wire rd_cpl_err,
    input  wire wr_adm_valid,
    output wire wr_adm_ready,
    input  wire [63:0] wr_adm_addr,
    input  wire [12:0] wr_adm_len,
    input  wire [511:0] wr_adm_data,
    input  wire wr_adm_last,
    input  wire wr_rx_valid,
    output wire wr_rx_ready,
    input  wire [63:0] wr_rx_addr,
    input  wire [12:0] wr_rx_len,
    input  wire [511:0] wr_rx_data,
    input  wire wr_rx_last,
    input  wire wr_cq_valid,
    output wire wr_cq_ready,
    input  wire [63:0] wr_cq_addr,
    input  wire [12:0] wr_cq_len,
    input  wire [511:0] wr_cq_data,
    input  wire wr_cq_last,
    input  wire wr_eq_valid,
    output wire wr_eq_ready,
    input  wire [63:0] wr_eq_addr,
    input  wire [12:0] wr_eq_len,
    input  wire [511:0] wr_eq_data,
    input  wire wr_eq_last,
    input  wire irq_adm_valid,
    output wire irq_adm_ready,
    input  wire [7:0] irq_adm_vector,
    input  wire irq_eq_valid,
    output wire irq_eq_ready,
    input  wire [7:0] irq_eq_vector,
    output wire ev_anomaly_host_valid,
    output wire [63:0] ev_anomaly_host_data,
    output wire ev_rd_valid,
    output wire [63:0] ev_rd_data,
    output wire ev_rd_cpl_valid,
    output wire [63:0] ev_rd_cpl_data,
    output wire ev_irq_valid,
    output wire [63:0] ev_irq_data,
    output wire ev_reset_valid,
    output wire [63:0] ev_reset_data
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

  wire init_done = irq_init_done && rd_init_done && admin_init_done && qp_init_done &&
      send_init_done && recv_init_done && cpl_init_done;
  wire [31:0] acc_rdata = irq_hit ? irq_rdata : reg_rdata;

  // 128 bytes to 4 KB; reserved codes count as 4 KB.
  assign mps_log = s_cfg_mps > 3'd5 ? 4'd12 : 4'd7 + {1'b0, s_cfg_mps};
  assign mrrs_log = s_cfg_mrrs > 3'd5 ? 4'd12 : 4'd7 + {1'b0, s_cfg_mrrs};

  efa_reset #(
      .UPTIME_LEFT(UPTIME_LEFT)
  ) u_reset (
      .clk(clk),
      .rst(rst),
      .s_cfg_flr(s_cfg_flr),
      .m_cfg_flr_done(m_cfg_flr_done),
      .s_cfg_interface(s_cfg_interface),
      .sampled_interface(sampled_interface),
      .uptime(uptime),
      .ctl_valid(ctl_valid),
      .ctl_reset(ctl_reset),
      .init_done(init_done),
      .net_quiet(net_quiet),
      .rd_idle(rd_idle),
      .wr_idle(wr_idle),
      .wr_core_idle(wr_core_idle),
      .core_rst(core_rst),
      .host_rst(host_rst),
      .quiesce(quiesce),
      .in_reset(in_reset),
      .in_flr(in_flr),
      .opened(opened),
      .resp_clear(resp_clear),
      .sts_progress(sts_progress),
      .sts_finished(sts_finished),
      .ev_reset_valid(ev_reset_valid),
      .ev_reset_data(ev_reset_data)
  );

  efa_mmio #(
      .LLQ_AW(LLQ_AW)
  ) u_mmio (
      .clk(clk),
      .rst(rst),
      .opened(opened),
      .in_reset(in_reset),
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
      .llq_valid(llq_valid),
      .llq_line(llq_line),
      .llq_dwen(llq_dwen),
      .llq_part(llq_part),
      .llq_data(llq_data),
      .db_valid(db_valid),
      .db_offset(db_offset),
      .db_data(db_data),
      .acc_valid(acc_valid),
      .acc_write(acc_write),
      .acc_offset(acc_offset),
      .acc_data(acc_data),
      .acc_rdata(acc_rdata),
      .part_valid(part_valid),
      .part_offset(part_offset)
  );

  efa_regs #(
      .VECTORS(VECTORS)
  ) u_regs (
      .clk(clk),
      .rst(host_rst),
      .s_cfg_profile(s_cfg_profile),
      .sampled_interface(sampled_interface),
      .acq_crc(acq_crc),
      .in_reset(in_reset),
      .in_flr(in_flr),
      .resp_clear(resp_clear),
      .sts_progress(sts_progress),
      .sts_finished(sts_finished),
      .acc_valid(acc_valid),
      .acc_write(acc_write),
      .acc_offset(acc_offset),
      .acc_data(acc_data),
      .rdata(reg_rdata),
      .reg_wr_valid(reg_wr_valid),
      .reg_wr_offset(reg_wr_offset),
      .reg_wr_data(reg_wr_data),
      .ctl_valid(ctl_valid),
      .ctl_reset(ctl_reset),
      .wr_reg_valid(wr_reg_valid),
      .wr_reg_ready(wr_reg_ready),
      .wr_reg_addr(wr_reg_addr),
      .wr_reg_data(wr_reg_data),
      .anomaly_valid(anomaly_valid),
      .anomaly_kind(anomaly_kind),
      .anomaly_detail(anomaly_detail)
  );

  efa_irq #(
      .VECTORS(VECTORS)
  ) u_irq (
      .clk(clk),
      .host_rst(host_rst),
      .core_rst(core_rst),
      .init_done(irq_init_done),
      .s_cfg_msix_enable(s_cfg_msix_enable),
      .s_cfg_msix_fmask(s_cfg_msix_fmask),
      .s_cfg_moderation(s_cfg_moderation),
      .acc_valid(acc_valid),
      .acc_write(acc_write),
      .acc_offset(acc_offset),
      .acc_data(acc_data),
      .hit(irq_hit),
      .rdata(irq_rdata),
      .irq_adm_valid(irq_adm_valid),
      .irq_adm_ready(irq_adm_ready),
      .irq_adm_vector(irq_adm_vector),
      .irq_eq_valid(irq_eq_valid),
      .irq_eq_ready(irq_eq_ready),
      .irq_eq_vector(irq_eq_vector),
      .wr_irq_valid(wr_irq_valid),
      .wr_irq_ready(wr_irq_ready),
      .wr_irq_addr(wr_irq_addr),
      .wr_irq_data(wr_irq_data),
      .anomaly_valid(bad_vector_valid),
      .anomaly_vector(bad_vector),
      .ev_irq_valid(ev_irq_valid),
      .ev_irq_data(ev_irq_data)
  );

  efa_dma_rd #(
      .TAGS(TAGS),
      .TIMEOUT_CYCLES(TIMEOUT_CYCLES),
      .SQ_HOST(SQ_HOST)
  ) u_dma_rd (
      .clk(clk),
      .rst(rst),
      .s_cfg_bme(s_cfg_bme),
      .stop(quiesce),
      .mrrs_log(mrrs_log),
      .init_done(rd_init_done),
      .idle(rd_idle),
      .rd_adm_valid(rd_adm_valid),
      .rd_adm_ready(rd_adm_ready),
      .rd_adm_addr(rd_adm_addr),
      .rd_adm_len(rd_adm_len),
      .rd_adm_cookie(rd_adm_cookie),
      .rd_rq_valid(rd_rq_valid),
      .rd_rq_ready(rd_rq_ready),
      .rd_rq_addr(rd_rq_addr),
      .rd_rq_len(rd_rq_len),
      .rd_rq_cookie(rd_rq_cookie),
      .rd_tx_valid(rd_tx_valid),
      .rd_tx_ready(rd_tx_ready),
      .rd_tx_addr(rd_tx_addr),
      .rd_tx_len(rd_tx_len),
      .rd_tx_cookie(rd_tx_cookie),
      .rd_sq_valid(rd_sq_valid),
      .rd_sq_ready(rd_sq_ready),
      .rd_sq_addr(rd_sq_addr),
      .rd_sq_len(rd_sq_len),
      .rd_sq_cookie(rd_sq_cookie),
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
      .rd_cpl_adm_valid(rd_cpl_adm_valid),
      .rd_cpl_rq_valid(rd_cpl_rq_valid),
      .rd_cpl_tx_valid(rd_cpl_tx_valid),
      .rd_cpl_sq_valid(rd_cpl_sq_valid),
      .rd_cpl_cookie(rd_cpl_cookie),
      .rd_cpl_offset(rd_cpl_offset),
      .rd_cpl_data(rd_cpl_data),
      .rd_cpl_bytes(rd_cpl_bytes),
      .rd_cpl_last(rd_cpl_last),
      .rd_cpl_err(rd_cpl_err),
      .late_valid(late_valid),
      .late_tag(late_tag),
      .ev_rd_valid(ev_rd_valid),
      .ev_rd_data(ev_rd_data),
      .ev_rd_cpl_valid(ev_rd_cpl_valid),
      .ev_rd_cpl_data(ev_rd_cpl_data)
  );

  efa_dma_wr u_dma_wr (
      .clk(clk),
      .rst(rst),
      .s_cfg_bme(s_cfg_bme),
      .stop_core(quiesce),
      .stop_all(in_flr),
      .mps_log(mps_log),
      .core_idle(wr_core_idle),
      .idle(wr_idle),
      .wr_adm_valid(wr_adm_valid),
      .wr_adm_ready(wr_adm_ready),
      .wr_adm_addr(wr_adm_addr),
      .wr_adm_len(wr_adm_len),
      .wr_adm_data(wr_adm_data),
      .wr_adm_last(wr_adm_last),
      .wr_rx_valid(wr_rx_valid),
      .wr_rx_ready(wr_rx_ready),
      .wr_rx_addr(wr_rx_addr),
      .wr_rx_len(wr_rx_len),
      .wr_rx_data(wr_rx_data),
      .wr_rx_last(wr_rx_last),
      .wr_cq_valid(wr_cq_valid),
      .wr_cq_ready(wr_cq_ready),
      .wr_cq_addr(wr_cq_addr),
      .wr_cq_len(wr_cq_len),
      .wr_cq_data(wr_cq_data),
      .wr_cq_last(wr_cq_last),
      .wr_eq_valid(wr_eq_valid),
      .wr_eq_ready(wr_eq_ready),
      .wr_eq_addr(wr_eq_addr),
      .wr_eq_len(wr_eq_len),
      .wr_eq_data(wr_eq_data),
      .wr_eq_last(wr_eq_last),
      .wr_reg_valid(wr_reg_valid),
      .wr_reg_ready(wr_reg_ready),
      .wr_reg_addr(wr_reg_addr),
      .wr_reg_data(wr_reg_data),
      .wr_irq_valid(wr_irq_valid),
      .wr_irq_ready(wr_irq_ready),
      .wr_irq_addr(wr_irq_addr),
      .wr_irq_data(wr_irq_data),
      .m_dma_wr_valid(m_dma_wr_valid),
      .m_dma_wr_ready(m_dma_wr_ready),
      .m_dma_wr_addr(m_dma_wr_addr),
      .m_dma_wr_len(m_dma_wr_len),
      .m_dma_wr_data(m_dma_wr_data),
      .m_dma_wr_last(m_dma_wr_last)
  );

  efa_host_anomaly u_host_anomaly (
      .clk(clk),
      .rst(rst),
      .part_valid(part_valid),
      .part_offset(part_offset),
      .anomaly_valid(anomaly_valid),
      .anomaly_kind(anomaly_kind),
      .anomaly_detail(anomaly_detail),
      .late_valid(late_valid),
      .late_tag(late_tag),
      .vector_valid(bad_vector_valid),
      .vector(bad_vector),
      .ev_anomaly_host_valid(ev_anomaly_host_valid),
      .ev_anomaly_host_data(ev_anomaly_host_data)
  );

  `EFA_STREAM(u_edge_cpl, 8 + 512, clk, rst, m_mmio_cpl_valid, m_mmio_cpl_ready, {m_mmio_cpl_tag,
                                                                                  m_mmio_cpl_data})
  `EFA_STREAM(u_edge_rd, 64 + 13 + 8, clk, rst, m_dma_rd_valid, m_dma_rd_ready, {
              m_dma_rd_addr, m_dma_rd_len, m_dma_rd_tag})
  `EFA_STREAM(u_edge_wr, 64 + 13 + 512 + 1, clk, rst, m_dma_wr_valid, m_dma_wr_ready, {
              m_dma_wr_addr, m_dma_wr_len, m_dma_wr_data, m_dma_wr_last})

endmodule
