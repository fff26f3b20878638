// SPDX-License-Identifier: Apache-2.0
// efa_nic - connects host, admin, send, receive and completion side to one device; wires only.
//
// In    s_mmio: stores and loads; s_dma_rd_cpl: host read completions; s_net: packets; s_cfg straps
// Out   m_mmio_cpl; m_dma_rd; m_dma_wr (MSI-X messages among the writes); m_net: packets; ev_* and
//       cnt_*: observation
// Time  docs/timing.md; every stream may stall at both ends (docs/boundary.md)
`default_nettype none
`include "efa_defs.vh"

module efa_nic #(
    parameter QPN_W          = `EFA_LIMITS__QPN_W,
    parameter TAGS           = `EFA_LIMITS__TAGS,
    parameter LLQ_AW         = 21,
    parameter SQ_HOST        = `EFA_LIMITS__SQ_HOST,
    parameter MTT_W          = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT),
    parameter TIMEOUT_CYCLES = `EFA_LIMITS__COMPLETION_TIMEOUT_CYCLES
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
    input  wire [31:0] s_cfg_keep_alive,
    input  wire [15:0] s_cfg_moderation,
    input  wire [7:0] s_cfg_paths,
    input  wire [7:0] s_cfg_tick,
    input  wire s_aenq_valid,
    output wire s_aenq_ready,
    input  wire [15:0] s_aenq_group,
    input  wire [15:0] s_aenq_syndrome,
    input  wire [383:0] s_aenq_data,
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
    input  wire [15:0] s_cfg_node_id,
    output wire m_net_valid,
    input  wire m_net_ready,
    output wire [511:0] m_net_data,
    output wire [63:0] m_net_keep,
    output wire m_net_last,
    input  wire s_net_valid,
    output wire s_net_ready,
    input  wire [511:0] s_net_data,
    input  wire [63:0] s_net_keep,
    input  wire s_net_last,
    output wire [`EFA_EV__COUNT-1:0] ev_valid,
    output wire [64*`EFA_EV__COUNT-1:0] ev_data,
    input  wire s_cnt_run,
    input  wire s_cnt_clear,
    input  wire [6:0] cnt_rd_addr,
    output wire [31:0] cnt_rd_data,
    output wire [`EFA_LIMITS__MSG_W:0] m_sends_open
);

  wire rst;
  wire acq_crc;
  wire ec_valid;
  wire ec_ready;
  wire [`EFA_EC_CMD__W-1:0] ec_data;
  wire [1:0] ec_code;
  wire [63:0] uptime;
  wire quiesce;
  wire net_quiet;
  wire [`EFA_ENGINE__COUNT-1:0] init_done;
  wire [3:0] mps_log;
  wire [3:0] mrrs_log;
  wire reg_wr_valid;
  wire [`EFA_REG_WR__W-1:0] reg_wr_data;
  wire llq_valid;
  wire [`EFA_LLQ__W-1:0] llq_data;
  wire db_valid;
  wire [`EFA_DB__W-1:0] db_data;
  wire [`EFA_DMA_RD_CLIENT__COUNT-1:0] rd_valid;
  wire [`EFA_DMA_RD_CLIENT__COUNT-1:0] rd_ready;
  wire [`EFA_DMA_RD__W*`EFA_DMA_RD_CLIENT__COUNT-1:0] rd_data;
  wire [`EFA_DMA_RD_CLIENT__COUNT-1:0] rd_cpl_valid;
  wire [`EFA_DMA_RD_CPL__W-1:0] rd_cpl_data;
  wire [`EFA_DMA_WR_CLIENT__COUNT-1:0] wr_valid;
  wire [`EFA_DMA_WR_CLIENT__COUNT-1:0] wr_ready;
  wire [`EFA_DMA_WR__W*`EFA_DMA_WR_CLIENT__COUNT-1:0] wr_data;
  wire [`EFA_IRQ_CLIENT__COUNT-1:0] irq_valid;
  wire [`EFA_IRQ_CLIENT__COUNT-1:0] irq_ready;
  wire [8*`EFA_IRQ_CLIENT__COUNT-1:0] irq_vector;
  wire qpc_admin_lock;
  wire qpc_admin_valid;
  wire qpc_admin_ready;
  wire [`EFA_QPC_ADMIN__W-1:0] qpc_admin_data;
  wire qpc_admin_rvalid;
  wire [`EFA_QPC__W-1:0] qpc_admin_rdata;
  wire [6*QPN_W-1:0] qpc_addr;
  wire [6*`EFA_QPC__W-1:0] qpc_data;
  wire [`EFA_ENGINE__RECV:0] qpchg_valid;
  wire [`EFA_ENGINE__RECV:0] qpchg_ready;
  wire [`EFA_QPCHG__W-1:0] qpchg_data;
  wire [`EFA_ENGINE__RECV:0] qperr_valid;
  wire [`EFA_ENGINE__RECV:0] qperr_ready;
  wire [2*`EFA_QPERR__W-1:0] qperr_data;
  wire [`EFA_TABLE__COUNT-1:0] table_valid;
  wire [`EFA_TABLE_WR__W-1:0] table_data;
  wire [`EFA_ENGINE__RECV:0] queue_op_valid;
  wire [`EFA_ENGINE__RECV:0] queue_op_ready;
  wire [`EFA_QUEUE_OP__W-1:0] queue_op_data;
  wire queue_op_busy;
  wire [`EFA_ENGINE__CPL:0] drain_valid;
  wire [`EFA_ENGINE__CPL:0] drain_ready;
  wire cqdb_valid;
  wire [`EFA_CQDB__W-1:0] cqdb_data;
  wire [`EFA_ENGINE__RECV:0] cpl_valid;
  wire [`EFA_ENGINE__RECV:0] cpl_ready;
  wire [2*`EFA_CPL__W-1:0] cpl_data;
  wire rxdone_valid;
  wire [1:0] ack_valids;
  wire [1:0] ack_readies;
  wire [`EFA_STAT__COUNT-1:0] st_valid;
  wire [32*`EFA_STAT__DROP-1:32*`EFA_STAT__TX] st_bytes;
  wire [4:0] stat_index;
  wire [63:0] stat_value;

  efa_host #(
      .TAGS(TAGS),
      .TIMEOUT_CYCLES(TIMEOUT_CYCLES),
      .LLQ_AW(LLQ_AW),
      .SQ_HOST(SQ_HOST)
  ) u_host (
      .clk(clk),
      .rst_por(rst_por),
      .s_cfg_bme(s_cfg_bme),
      .s_cfg_flr(s_cfg_flr),
      .m_cfg_flr_done(m_cfg_flr_done),
      .s_cfg_mps(s_cfg_mps),
      .s_cfg_mrrs(s_cfg_mrrs),
      .s_cfg_msix_enable(s_cfg_msix_enable),
      .s_cfg_msix_fmask(s_cfg_msix_fmask),
      .s_cfg_profile(s_cfg_profile),
      .s_cfg_interface(s_cfg_interface),
      .s_cfg_moderation(s_cfg_moderation),
      .m_cfg_acq_crc(acq_crc),
      .m_uptime(uptime),
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
      .m_dma_wr_valid(m_dma_wr_valid),
      .m_dma_wr_ready(m_dma_wr_ready),
      .m_dma_wr_addr(m_dma_wr_addr),
      .m_dma_wr_len(m_dma_wr_len),
      .m_dma_wr_data(m_dma_wr_data),
      .m_dma_wr_last(m_dma_wr_last),
      .rst(rst),
      .s_init_done(init_done),
      .m_quiesce(quiesce),
      .s_net_quiet(net_quiet),
      .m_cfg_mps_log(mps_log),
      .m_cfg_mrrs_log(mrrs_log),
      .m_reg_wr_valid(reg_wr_valid),
      .m_reg_wr_data(reg_wr_data),
      .m_llq_valid(llq_valid),
      .m_llq_data(llq_data),
      .m_db_valid(db_valid),
      .m_db_data(db_data),
      .s_rd_valid(rd_valid),
      .s_rd_ready(rd_ready),
      .s_rd_data(rd_data),
      .m_rd_cpl_valid(rd_cpl_valid),
      .m_rd_cpl_data(rd_cpl_data),
      .s_wr_valid(wr_valid),
      .s_wr_ready(wr_ready),
      .s_wr_data(wr_data),
      .s_irq_valid(irq_valid),
      .s_irq_ready(irq_ready),
      .s_irq_vector(irq_vector),
      .ev_valid(ev_valid[`EFA_EV__HOST_VALID]),
      .ev_data(ev_data[`EFA_EV__HOST_DATA])
  );

  efa_admin #(
      .QPN_W(QPN_W),
      .LLQ_AW(LLQ_AW),
      .SQ_HOST(SQ_HOST),
      .MTT_W(MTT_W)
  ) u_admin (
      .clk(clk),
      .s_cfg_node_id(s_cfg_node_id),
      .s_cfg_profile(s_cfg_profile),
      .rst(rst),
      .m_init_done(init_done[`EFA_ENGINE__ADMIN]),
      .s_cfg_acq_crc(acq_crc),
      .s_uptime(uptime),
      .s_cfg_keep_alive(s_cfg_keep_alive),
      .s_aenq_valid(s_aenq_valid),
      .s_aenq_ready(s_aenq_ready),
      .s_aenq_data({s_aenq_data, s_aenq_syndrome, s_aenq_group}),
      .s_reg_wr_valid(reg_wr_valid),
      .s_reg_wr_data(reg_wr_data),
      .m_rd_adm_valid(rd_valid[`EFA_DMA_RD_CLIENT__ADM]),
      .m_rd_adm_ready(rd_ready[`EFA_DMA_RD_CLIENT__ADM]),
      .m_rd_adm_data(rd_data[`EFA_DMA_RD__W*`EFA_DMA_RD_CLIENT__ADM+:`EFA_DMA_RD__W]),
      .s_rd_cpl_adm_valid(rd_cpl_valid[`EFA_DMA_RD_CLIENT__ADM]),
      .s_rd_cpl_data(rd_cpl_data),
      .m_wr_adm_valid(wr_valid[`EFA_DMA_WR_CLIENT__ADM]),
      .m_wr_adm_ready(wr_ready[`EFA_DMA_WR_CLIENT__ADM]),
      .m_wr_adm_data(wr_data[`EFA_DMA_WR__W*`EFA_DMA_WR_CLIENT__ADM+:`EFA_DMA_WR__W]),
      .m_irq_adm_valid(irq_valid[`EFA_IRQ_CLIENT__ADM]),
      .m_irq_adm_ready(irq_ready[`EFA_IRQ_CLIENT__ADM]),
      .m_irq_adm_vector(irq_vector[8*`EFA_IRQ_CLIENT__ADM+:8]),
      .m_qpc_admin_lock(qpc_admin_lock),
      .m_qpc_admin_valid(qpc_admin_valid),
      .m_qpc_admin_ready(qpc_admin_ready),
      .m_qpc_admin_data(qpc_admin_data),
      .s_qpc_admin_rvalid(qpc_admin_rvalid),
      .s_qpc_admin_rdata(qpc_admin_rdata),
      .m_table_valid(table_valid),
      .m_table_data(table_data),
      .m_queue_op_valid(queue_op_valid),
      .m_queue_op_ready(queue_op_ready),
      .m_queue_op_data(queue_op_data),
      .s_queue_op_busy(queue_op_busy),
      .m_drain_valid(drain_valid),
      .m_drain_ready(drain_ready),
      .m_ec_valid(ec_valid),
      .m_ec_ready(ec_ready),
      .m_ec_data(ec_data),
      .s_ec_code(ec_code),
      .stat_rd_addr(stat_index),
      .stat_rd_data(stat_value),
      .ev_valid(ev_valid[`EFA_EV__ADMIN_VALID]),
      .ev_data(ev_data[`EFA_EV__ADMIN_DATA])
  );

  efa_qp_ctx #(
      .QPN_W(QPN_W)
  ) u_qp (
      .clk(clk),
      .qpc_rd_addr(qpc_addr),
      .qpc_rd_data(qpc_data),
      .s_qpc_admin_lock(qpc_admin_lock),
      .s_qpc_admin_valid(qpc_admin_valid),
      .s_qpc_admin_ready(qpc_admin_ready),
      .s_qpc_admin_data(qpc_admin_data),
      .m_qpc_admin_rvalid(qpc_admin_rvalid),
      .m_qpc_admin_rdata(qpc_admin_rdata),
      .m_qpchg_valid(qpchg_valid),
      .m_qpchg_ready(qpchg_ready),
      .m_qpchg_data(qpchg_data),
      .s_qperr_valid(qperr_valid),
      .s_qperr_ready(qperr_ready),
      .s_qperr_data(qperr_data),
      .rst(rst),
      .m_init_done(init_done[`EFA_ENGINE__QP]),
      .ev_qperr_valid(ev_valid[`EFA_EV__QPERR]),
      .ev_qperr_data(ev_data[64*`EFA_EV__QPERR+:64])
  );

  efa_data_path #(
      .QPN_W(QPN_W),
      .LLQ_AW(LLQ_AW),
      .SQ_HOST(SQ_HOST),
      .MTT_W(MTT_W)
  ) u_data_path (
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .s_cfg_paths(s_cfg_paths),
      .s_cfg_tick(s_cfg_tick),
      .s_cfg_node_id(s_cfg_node_id),
      .s_cfg_profile(s_cfg_profile),
      .s_cfg_mps_log(mps_log),
      .s_cfg_mrrs_log(mrrs_log),
      .m_init_done(init_done[`EFA_ENGINE__RECV:0]),
      .s_quiesce(quiesce),
      .m_net_quiet(net_quiet),
      .m_net_valid(m_net_valid),
      .m_net_ready(m_net_ready),
      .m_net_data({m_net_last, m_net_keep, m_net_data}),
      .s_net_valid(s_net_valid),
      .s_net_ready(s_net_ready),
      .s_net_data({s_net_last, s_net_keep, s_net_data}),
      .s_llq_valid(llq_valid),
      .s_llq_data(llq_data),
      .s_db_valid(db_valid),
      .s_db_data(db_data),
      .qpc_rd_addr(qpc_addr),
      .qpc_rd_data(qpc_data),
      .s_qpchg_valid(qpchg_valid),
      .s_qpchg_ready(qpchg_ready),
      .s_qpchg_data(qpchg_data),
      .m_qperr_valid(qperr_valid),
      .m_qperr_ready(qperr_ready),
      .m_qperr_data(qperr_data),
      .s_table_valid(table_valid),
      .s_table_data(table_data),
      .s_queue_op_valid(queue_op_valid),
      .s_queue_op_ready(queue_op_ready),
      .s_queue_op_data(queue_op_data),
      .m_queue_op_busy(queue_op_busy),
      .s_drain_valid(drain_valid[`EFA_ENGINE__RECV:0]),
      .s_drain_ready(drain_ready[`EFA_ENGINE__RECV:0]),
      .m_rd_valid(rd_valid[`EFA_DMA_RD_CLIENT__SQ:`EFA_DMA_RD_CLIENT__RQ]),
      .m_rd_ready(rd_ready[`EFA_DMA_RD_CLIENT__SQ:`EFA_DMA_RD_CLIENT__RQ]),
      .m_rd_data(rd_data[`EFA_DMA_RD__W*`EFA_DMA_RD_CLIENT__COUNT-1:`EFA_DMA_RD__W*`EFA_DMA_RD_CLIENT__RQ]),
      .s_rd_cpl_valid(rd_cpl_valid[`EFA_DMA_RD_CLIENT__SQ:`EFA_DMA_RD_CLIENT__RQ]),
      .s_rd_cpl_data(rd_cpl_data),
      .m_wr_valid(wr_valid[`EFA_DMA_WR_CLIENT__RX]),
      .m_wr_ready(wr_ready[`EFA_DMA_WR_CLIENT__RX]),
      .m_wr_data(wr_data[`EFA_DMA_WR__W*`EFA_DMA_WR_CLIENT__RX+:`EFA_DMA_WR__W]),
      .m_cqdb_valid(cqdb_valid),
      .m_cqdb_data(cqdb_data),
      .m_cpl_valid(cpl_valid),
      .m_cpl_ready(cpl_ready),
      .m_cpl_data(cpl_data),
      .s_rxdone_valid(rxdone_valid),
      .m_st_valid(st_valid),
      .m_st_bytes(st_bytes),
      .m_sends_open(m_sends_open),
      .ev_ack_valids(ack_valids),
      .ev_ack_readies(ack_readies),
      .ev_tx_valid(ev_valid[`EFA_EV__TX_VALID]),
      .ev_tx_data(ev_data[`EFA_EV__TX_DATA]),
      .ev_rx_valid(ev_valid[`EFA_EV__RX_VALID]),
      .ev_rx_data(ev_data[`EFA_EV__RX_DATA])
  );

  efa_cq_engine #(
      .QPN_W(QPN_W)
  ) u_cq_engine (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done[`EFA_ENGINE__CPL]),
      .s_reg_wr_valid(reg_wr_valid),
      .s_reg_wr_data(reg_wr_data),
      .m_wr_valid(wr_valid[`EFA_DMA_WR_CLIENT__EQ:`EFA_DMA_WR_CLIENT__CQ]),
      .m_wr_ready(wr_ready[`EFA_DMA_WR_CLIENT__EQ:`EFA_DMA_WR_CLIENT__CQ]),
      .m_wr_data(wr_data[`EFA_DMA_WR__W*`EFA_DMA_WR_CLIENT__CQ+:2*`EFA_DMA_WR__W]),
      .m_irq_eq_valid(irq_valid[`EFA_IRQ_CLIENT__EQ]),
      .m_irq_eq_ready(irq_ready[`EFA_IRQ_CLIENT__EQ]),
      .m_irq_eq_vector(irq_vector[8*`EFA_IRQ_CLIENT__EQ+:8]),
      .s_table_valid(table_valid),
      .s_table_data(table_data),
      .s_drain_valid(drain_valid[`EFA_ENGINE__CPL]),
      .s_drain_ready(drain_ready[`EFA_ENGINE__CPL]),
      .s_cqdb_valid(cqdb_valid),
      .s_cqdb_data(cqdb_data),
      .s_cpl_valid(cpl_valid),
      .s_cpl_ready(cpl_ready),
      .s_cpl_data(cpl_data),
      .m_rxdone_valid(rxdone_valid),
      .s_ec_valid(ec_valid),
      .s_ec_ready(ec_ready),
      .s_ec_data(ec_data),
      .m_ec_code(ec_code),
      .ev_valid(ev_valid[`EFA_EV__CQ_VALID]),
      .ev_data(ev_data[`EFA_EV__CQ_DATA])
  );

  efa_stats u_stats (
      .clk(clk),
      .s_st_valid(st_valid),
      .s_st_bytes(st_bytes),
      .stat_rd_addr(stat_index),
      .stat_rd_data(stat_value),
      .rst(rst)
  );

  efa_perf_counters #(
      .TAGS(TAGS)
  ) u_perf_counters (
      .clk(clk),
      .rst(rst_por),
      // In the order of efa_perf_stream; the clients of DMA have the order of their lanes.
      .s_valids({
        {ack_valids, cpl_valid},
        {wr_valid, rd_valid[`EFA_DMA_RD_CLIENT__TX:`EFA_DMA_RD_CLIENT__ADM]},
        {s_net_valid, m_net_valid},
        {m_dma_wr_valid, s_dma_rd_cpl_valid, m_dma_rd_valid, m_mmio_cpl_valid, s_mmio_valid}
      }),
      .s_readies({
        {ack_readies, cpl_ready},
        {wr_ready, rd_ready[`EFA_DMA_RD_CLIENT__TX:`EFA_DMA_RD_CLIENT__ADM]},
        {s_net_ready, m_net_ready},
        {m_dma_wr_ready, s_dma_rd_cpl_ready, m_dma_rd_ready, m_mmio_cpl_ready, s_mmio_ready}
      }),
      .s_rd_tag(m_dma_rd_tag),
      .s_cpl_tag(s_dma_rd_cpl_tag),
      .s_cpl_last(s_dma_rd_cpl_last),
      .s_sends_open(m_sends_open),
      .s_cnt_run(s_cnt_run),
      .s_cnt_clear(s_cnt_clear),
      .cnt_rd_addr(cnt_rd_addr),
      .cnt_rd_data(cnt_rd_data)
  );

endmodule

`default_nettype wire
