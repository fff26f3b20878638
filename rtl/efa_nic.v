// SPDX-License-Identifier: Apache-2.0
// efa_nic - connects host, admin, send, receive and completion side to one device; wires only.
//
// In    s_mmio: stores and loads; s_dma_rd_cpl: host read completions; s_net: packets; s_cfg straps
// Out   m_mmio_cpl; m_dma_rd; m_dma_wr (MSI-X messages among the writes); m_net: packets; ev_* and
//       cnt_*: observation
// Time  docs/timing.md; every stream may stall at both ends (docs/boundary.md)
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_nic #(
    parameter QPN_W          = `EFA_LIMITS__QPN_W,
    parameter TAGS           = `EFA_LIMITS__TAGS,
    parameter LLQ_AW         = 21,
    parameter SQ_HOST        = `EFA_LIMITS__SQ_HOST,
    parameter TIMEOUT_CYCLES = `EFA_LIMITS__COMPLETION_TIMEOUT_CYCLES
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
    input  wire [31:0] s_cfg_keep_alive,
    input  wire [15:0] s_cfg_moderation,
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
    input  wire cnt_run,
    input  wire cnt_clear,
    input  wire [6:0] cnt_index,
    output wire [31:0] cnt_data
);

  localparam CQN_W = QPN_W + 1;

  wire core_rst;
  wire acq_crc;
  wire ec_valid;
  wire ec_ready;
  wire [2:0] ec_op;
  wire [`EFA_LIMITS__EC_W-1:0] ec_counter;
  wire [QPN_W-1:0] ec_qpn;
  wire [3:0] ec_events;
  wire [63:0] ec_value;
  wire [1:0] ec_code;
  wire [63:0] uptime;
  wire [`EFA_LIMITS__MSG_W:0] sends_open;
  wire quiesce;
  wire net_quiet;
  wire send_init_done;
  wire recv_init_done;
  wire cpl_init_done;
  wire admin_init_done;
  wire qp_init_done;
  wire [3:0] mps_log;
  wire [3:0] mrrs_log;
  wire reg_wr_valid;
  wire [15:0] reg_wr_offset;
  wire [31:0] reg_wr_data;
  wire llq_valid;
  wire [LLQ_AW-6-1:0] llq_line;
  wire [15:0] llq_dwen;
  wire llq_part;
  wire [511:0] llq_data;
  wire db_valid;
  wire [31:0] db_offset;
  wire [31:0] db_data;
  wire rd_adm_valid;
  wire rd_adm_ready;
  wire [63:0] rd_adm_addr;
  wire [12:0] rd_adm_len;
  wire [31:0] rd_adm_cookie;
  wire rd_cpl_adm_valid;
  wire rd_rq_valid;
  wire rd_rq_ready;
  wire [63:0] rd_rq_addr;
  wire [12:0] rd_rq_len;
  wire [31:0] rd_rq_cookie;
  wire rd_cpl_rq_valid;
  wire rd_tx_valid;
  wire rd_tx_ready;
  wire [63:0] rd_tx_addr;
  wire [12:0] rd_tx_len;
  wire [31:0] rd_tx_cookie;
  wire rd_cpl_tx_valid;
  wire rd_sq_valid;
  wire rd_sq_ready;
  wire [63:0] rd_sq_addr;
  wire [12:0] rd_sq_len;
  wire [31:0] rd_sq_cookie;
  wire rd_cpl_sq_valid;
  wire [31:0] rd_cpl_cookie;
  wire [12:0] rd_cpl_offset;
  wire [511:0] rd_cpl_data;
  wire [6:0] rd_cpl_bytes;
  wire rd_cpl_last;
  wire rd_cpl_err;
  wire wr_adm_valid;
  wire wr_adm_ready;
  wire [63:0] wr_adm_addr;
  wire [12:0] wr_adm_len;
  wire [511:0] wr_adm_data;
  wire wr_adm_last;
  wire wr_rx_valid;
  wire wr_rx_ready;
  wire [63:0] wr_rx_addr;
  wire [12:0] wr_rx_len;
  wire [511:0] wr_rx_data;
  wire wr_rx_last;
  wire wr_cq_valid;
  wire wr_cq_ready;
  wire [63:0] wr_cq_addr;
  wire [12:0] wr_cq_len;
  wire [511:0] wr_cq_data;
  wire wr_cq_last;
  wire wr_eq_valid;
  wire wr_eq_ready;
  wire [63:0] wr_eq_addr;
  wire [12:0] wr_eq_len;
  wire [511:0] wr_eq_data;
  wire wr_eq_last;
  wire irq_adm_valid;
  wire irq_adm_ready;
  wire [7:0] irq_adm_vector;
  wire irq_eq_valid;
  wire irq_eq_ready;
  wire [7:0] irq_eq_vector;
  wire qpc_admin_lock;
  wire qpc_admin_valid;
  wire qpc_admin_ready;
  wire qpc_admin_write;
  wire [QPN_W-1:0] qpc_admin_qpn;
  wire [`EFA_QPC__W-1:0] qpc_admin_wdata;
  wire qpc_admin_rvalid;
  wire [`EFA_QPC__W-1:0] qpc_admin_rdata;
  wire [4*QPN_W-1:0] qpc_send_addr;
  wire [4*`EFA_QPC__W-1:0] qpc_send_data;
  wire [2*QPN_W-1:0] qpc_recv_addr;
  wire [2*`EFA_QPC__W-1:0] qpc_recv_data;
  wire qpchg_send_valid;
  wire qpchg_send_ready;
  wire qpchg_recv_valid;
  wire qpchg_recv_ready;
  wire [QPN_W-1:0] qpchg_qpn;
  wire [2:0] qpchg_state;
  wire qperr_send_valid;
  wire qperr_send_ready;
  wire [QPN_W-1:0] qperr_send_qpn;
  wire [3:0] qperr_send_cause;
  wire qperr_recv_valid;
  wire qperr_recv_ready;
  wire [QPN_W-1:0] qperr_recv_qpn;
  wire [3:0] qperr_recv_cause;
  wire cqc_valid;
  wire [CQN_W-1:0] cqc_cqn;
  wire [`EFA_CQC__W-1:0] cqc_data;
  wire eqc_valid;
  wire [`EFA_LIMITS__EQN_W-1:0] eqc_eqn;
  wire [`EFA_EQC__W-1:0] eqc_data;
  wire mr_valid;
  wire [`EFA_LIMITS__MR_W-1:0] mr_index;
  wire [`EFA_MRC__W-1:0] mr_data;
  wire mtt_valid;
  wire [`EFA_LIMITS__MTT_W-1:0] mtt_index;
  wire [51:0] mtt_data;
  wire ah_valid;
  wire [`EFA_LIMITS__AH_W-1:0] ah_index;
  wire [`EFA_AHC__W-1:0] ah_data;
  wire sq_ctrl_valid;
  wire sq_ctrl_ready;
  wire [1:0] sq_ctrl_kind;
  wire [QPN_W-1:0] sq_ctrl_qpn;
  wire [`EFA_QPC__W-1:0] sq_ctrl_qpc;
  wire sq_ctrl_busy;
  wire [57:0] sq_ctrl_base;
  wire rq_ctrl_valid;
  wire rq_ctrl_ready;
  wire [1:0] rq_ctrl_kind;
  wire [QPN_W-1:0] rq_ctrl_qpn;
  wire [`EFA_QPC__W-1:0] rq_ctrl_qpc;
  wire drain_send_valid;
  wire drain_send_ready;
  wire drain_recv_valid;
  wire drain_recv_ready;
  wire drain_cpl_valid;
  wire drain_cpl_ready;
  wire rqdb_valid;
  wire [QPN_W-1:0] rqdb_qpn;
  wire [15:0] rqdb_value;
  wire cqdb_valid;
  wire [CQN_W-1:0] cqdb_cqn;
  wire [31:0] cqdb_value;
  wire txc_valid;
  wire txc_ready;
  wire [`EFA_CPL__W-1:0] txc_data;
  wire rxc_valid;
  wire rxc_ready;
  wire [`EFA_CPL__W-1:0] rxc_data;
  wire rxdone_valid;
  wire ack_tx_valid;
  wire ack_tx_ready;
  wire [`EFA_ACK_TX__W-1:0] ack_tx_data;
  wire ack_rx_valid;
  wire ack_rx_ready;
  wire [`EFA_ACK_RX__W-1:0] ack_rx_data;
  wire st_tx_valid;
  wire [15:0] st_tx_bytes;
  wire st_send_valid;
  wire [15:0] st_send_bytes;
  wire st_rx_valid;
  wire [15:0] st_rx_bytes;
  wire st_drop_valid;
  wire st_qkey_valid;
  wire [3:0] stat_index;
  wire [63:0] stat_value;

  efa_host #(
      .TAGS(TAGS),
      .TIMEOUT_CYCLES(TIMEOUT_CYCLES),
      .LLQ_AW(LLQ_AW),
      .SQ_HOST(SQ_HOST)
  ) u_host (
      .clk(clk),
      .rst(rst),
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
      .acq_crc(acq_crc),
      .uptime(uptime),
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
      .core_rst(core_rst),
      .admin_init_done(admin_init_done),
      .qp_init_done(qp_init_done),
      .send_init_done(send_init_done),
      .recv_init_done(recv_init_done),
      .cpl_init_done(cpl_init_done),
      .quiesce(quiesce),
      .net_quiet(net_quiet),
      .mps_log(mps_log),
      .mrrs_log(mrrs_log),
      .reg_wr_valid(reg_wr_valid),
      .reg_wr_offset(reg_wr_offset),
      .reg_wr_data(reg_wr_data),
      .llq_valid(llq_valid),
      .llq_line(llq_line),
      .llq_dwen(llq_dwen),
      .llq_part(llq_part),
      .llq_data(llq_data),
      .db_valid(db_valid),
      .db_offset(db_offset),
      .db_data(db_data),
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
      .irq_adm_valid(irq_adm_valid),
      .irq_adm_ready(irq_adm_ready),
      .irq_adm_vector(irq_adm_vector),
      .irq_eq_valid(irq_eq_valid),
      .irq_eq_ready(irq_eq_ready),
      .irq_eq_vector(irq_eq_vector),
      .ev_anomaly_host_valid(ev_valid[`EFA_EV__ANOMALY_HOST]),
      .ev_anomaly_host_data(ev_data[64*`EFA_EV__ANOMALY_HOST+:64]),
      .ev_rd_valid(ev_valid[`EFA_EV__RD]),
      .ev_rd_data(ev_data[64*`EFA_EV__RD+:64]),
      .ev_rd_cpl_valid(ev_valid[`EFA_EV__RD_CPL]),
      .ev_rd_cpl_data(ev_data[64*`EFA_EV__RD_CPL+:64]),
      .ev_irq_valid(ev_valid[`EFA_EV__IRQ]),
      .ev_irq_data(ev_data[64*`EFA_EV__IRQ+:64]),
      .ev_reset_valid(ev_valid[`EFA_EV__RESET]),
      .ev_reset_data(ev_data[64*`EFA_EV__RESET+:64])
  );

  efa_admin #(
      .QPN_W(QPN_W),
      .CQN_W(CQN_W),
      .LLQ_AW(LLQ_AW),
      .SQ_HOST(SQ_HOST)
  ) u_admin (
      .clk(clk),
      .s_cfg_node_id(s_cfg_node_id),
      .s_cfg_profile(s_cfg_profile),
      .core_rst(core_rst),
      .admin_init_done(admin_init_done),
      .acq_crc(acq_crc),
      .uptime(uptime),
      .s_cfg_keep_alive(s_cfg_keep_alive),
      .s_aenq_valid(s_aenq_valid),
      .s_aenq_ready(s_aenq_ready),
      .s_aenq_group(s_aenq_group),
      .s_aenq_syndrome(s_aenq_syndrome),
      .s_aenq_data(s_aenq_data),
      .reg_wr_valid(reg_wr_valid),
      .reg_wr_offset(reg_wr_offset),
      .reg_wr_data(reg_wr_data),
      .rd_adm_valid(rd_adm_valid),
      .rd_adm_ready(rd_adm_ready),
      .rd_adm_addr(rd_adm_addr),
      .rd_adm_len(rd_adm_len),
      .rd_adm_cookie(rd_adm_cookie),
      .rd_cpl_adm_valid(rd_cpl_adm_valid),
      .rd_cpl_cookie(rd_cpl_cookie),
      .rd_cpl_offset(rd_cpl_offset),
      .rd_cpl_data(rd_cpl_data),
      .rd_cpl_bytes(rd_cpl_bytes),
      .rd_cpl_last(rd_cpl_last),
      .rd_cpl_err(rd_cpl_err),
      .wr_adm_valid(wr_adm_valid),
      .wr_adm_ready(wr_adm_ready),
      .wr_adm_addr(wr_adm_addr),
      .wr_adm_len(wr_adm_len),
      .wr_adm_data(wr_adm_data),
      .wr_adm_last(wr_adm_last),
      .irq_adm_valid(irq_adm_valid),
      .irq_adm_ready(irq_adm_ready),
      .irq_adm_vector(irq_adm_vector),
      .qpc_admin_lock(qpc_admin_lock),
      .qpc_admin_valid(qpc_admin_valid),
      .qpc_admin_ready(qpc_admin_ready),
      .qpc_admin_write(qpc_admin_write),
      .qpc_admin_qpn(qpc_admin_qpn),
      .qpc_admin_wdata(qpc_admin_wdata),
      .qpc_admin_rvalid(qpc_admin_rvalid),
      .qpc_admin_rdata(qpc_admin_rdata),
      .cqc_valid(cqc_valid),
      .cqc_cqn(cqc_cqn),
      .cqc_data(cqc_data),
      .eqc_valid(eqc_valid),
      .eqc_eqn(eqc_eqn),
      .eqc_data(eqc_data),
      .mr_valid(mr_valid),
      .mr_index(mr_index),
      .mr_data(mr_data),
      .mtt_valid(mtt_valid),
      .mtt_index(mtt_index),
      .mtt_data(mtt_data),
      .ah_valid(ah_valid),
      .ah_index(ah_index),
      .ah_data(ah_data),
      .sq_ctrl_valid(sq_ctrl_valid),
      .sq_ctrl_ready(sq_ctrl_ready),
      .sq_ctrl_kind(sq_ctrl_kind),
      .sq_ctrl_qpn(sq_ctrl_qpn),
      .sq_ctrl_qpc(sq_ctrl_qpc),
      .sq_ctrl_base(sq_ctrl_base),
      .sq_ctrl_busy(sq_ctrl_busy),
      .rq_ctrl_valid(rq_ctrl_valid),
      .rq_ctrl_ready(rq_ctrl_ready),
      .rq_ctrl_kind(rq_ctrl_kind),
      .rq_ctrl_qpn(rq_ctrl_qpn),
      .rq_ctrl_qpc(rq_ctrl_qpc),
      .drain_send_valid(drain_send_valid),
      .drain_send_ready(drain_send_ready),
      .drain_recv_valid(drain_recv_valid),
      .drain_recv_ready(drain_recv_ready),
      .drain_cpl_valid(drain_cpl_valid),
      .drain_cpl_ready(drain_cpl_ready),
      .ec_valid(ec_valid),
      .ec_ready(ec_ready),
      .ec_op(ec_op),
      .ec_counter(ec_counter),
      .ec_qpn(ec_qpn),
      .ec_events(ec_events),
      .ec_value(ec_value),
      .ec_code(ec_code),
      .stat_index(stat_index),
      .stat_value(stat_value),
      .ev_aqcmd_valid(ev_valid[`EFA_EV__AQCMD]),
      .ev_aqcmd_data(ev_data[64*`EFA_EV__AQCMD+:64]),
      .ev_acq_valid(ev_valid[`EFA_EV__ACQ]),
      .ev_acq_data(ev_data[64*`EFA_EV__ACQ+:64]),
      .ev_aenq_valid(ev_valid[`EFA_EV__AENQ]),
      .ev_aenq_data(ev_data[64*`EFA_EV__AENQ+:64]),
      .ev_anomaly_admin_valid(ev_valid[`EFA_EV__ANOMALY_ADMIN]),
      .ev_anomaly_admin_data(ev_data[64*`EFA_EV__ANOMALY_ADMIN+:64])
  );

  efa_qp_ctx #(
      .QPN_W(QPN_W)
  ) u_qp (
      .clk(clk),
      .qpc_send_addr(qpc_send_addr),
      .qpc_send_data(qpc_send_data),
      .qpc_recv_addr(qpc_recv_addr),
      .qpc_recv_data(qpc_recv_data),
      .qpc_admin_lock(qpc_admin_lock),
      .qpc_admin_valid(qpc_admin_valid),
      .qpc_admin_ready(qpc_admin_ready),
      .qpc_admin_write(qpc_admin_write),
      .qpc_admin_qpn(qpc_admin_qpn),
      .qpc_admin_wdata(qpc_admin_wdata),
      .qpc_admin_rvalid(qpc_admin_rvalid),
      .qpc_admin_rdata(qpc_admin_rdata),
      .qpchg_send_valid(qpchg_send_valid),
      .qpchg_send_ready(qpchg_send_ready),
      .qpchg_recv_valid(qpchg_recv_valid),
      .qpchg_recv_ready(qpchg_recv_ready),
      .qpchg_qpn(qpchg_qpn),
      .qpchg_state(qpchg_state),
      .qperr_send_valid(qperr_send_valid),
      .qperr_send_ready(qperr_send_ready),
      .qperr_send_qpn(qperr_send_qpn),
      .qperr_send_cause(qperr_send_cause),
      .qperr_recv_valid(qperr_recv_valid),
      .qperr_recv_ready(qperr_recv_ready),
      .qperr_recv_qpn(qperr_recv_qpn),
      .qperr_recv_cause(qperr_recv_cause),
      .core_rst(core_rst),
      .qp_init_done(qp_init_done),
      .ev_qperr_valid(ev_valid[`EFA_EV__QPERR]),
      .ev_qperr_data(ev_data[64*`EFA_EV__QPERR+:64])
  );

  efa_tx_engine #(
      .QPN_W(QPN_W),
      .CQN_W(CQN_W),
      .LLQ_AW(LLQ_AW),
      .SQ_HOST(SQ_HOST)
  ) u_tx_engine (
      .sends_open(sends_open),
      .clk(clk),
      .qpc_send_addr(qpc_send_addr),
      .qpc_send_data(qpc_send_data),
      .s_cfg_node_id(s_cfg_node_id),
      .s_cfg_profile(s_cfg_profile),
      .m_net_valid(m_net_valid),
      .m_net_ready(m_net_ready),
      .m_net_data(m_net_data),
      .m_net_keep(m_net_keep),
      .m_net_last(m_net_last),
      .power_rst(rst),
      .core_rst(core_rst),
      .send_init_done(send_init_done),
      .quiesce(quiesce),
      .net_quiet(net_quiet),
      .mrrs_log(mrrs_log),
      .llq_valid(llq_valid),
      .llq_line(llq_line),
      .llq_dwen(llq_dwen),
      .llq_part(llq_part),
      .llq_data(llq_data),
      .db_valid(db_valid),
      .db_offset(db_offset),
      .db_data(db_data),
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
      .rd_cpl_tx_valid(rd_cpl_tx_valid),
      .rd_cpl_sq_valid(rd_cpl_sq_valid),
      .rd_cpl_cookie(rd_cpl_cookie),
      .rd_cpl_offset(rd_cpl_offset),
      .rd_cpl_data(rd_cpl_data),
      .rd_cpl_bytes(rd_cpl_bytes),
      .rd_cpl_last(rd_cpl_last),
      .rd_cpl_err(rd_cpl_err),
      .qpchg_send_valid(qpchg_send_valid),
      .qpchg_send_ready(qpchg_send_ready),
      .qpchg_qpn(qpchg_qpn),
      .qpchg_state(qpchg_state),
      .qperr_send_valid(qperr_send_valid),
      .qperr_send_ready(qperr_send_ready),
      .qperr_send_qpn(qperr_send_qpn),
      .qperr_send_cause(qperr_send_cause),
      .cqc_valid(cqc_valid),
      .cqc_cqn(cqc_cqn),
      .cqc_data(cqc_data),
      .mr_valid(mr_valid),
      .mr_index(mr_index),
      .mr_data(mr_data),
      .mtt_valid(mtt_valid),
      .mtt_index(mtt_index),
      .mtt_data(mtt_data),
      .ah_valid(ah_valid),
      .ah_index(ah_index),
      .ah_data(ah_data),
      .sq_ctrl_valid(sq_ctrl_valid),
      .sq_ctrl_ready(sq_ctrl_ready),
      .sq_ctrl_kind(sq_ctrl_kind),
      .sq_ctrl_qpn(sq_ctrl_qpn),
      .sq_ctrl_qpc(sq_ctrl_qpc),
      .sq_ctrl_base(sq_ctrl_base),
      .sq_ctrl_busy(sq_ctrl_busy),
      .drain_send_valid(drain_send_valid),
      .drain_send_ready(drain_send_ready),
      .rqdb_valid(rqdb_valid),
      .rqdb_qpn(rqdb_qpn),
      .rqdb_value(rqdb_value),
      .cqdb_valid(cqdb_valid),
      .cqdb_cqn(cqdb_cqn),
      .cqdb_value(cqdb_value),
      .txc_valid(txc_valid),
      .txc_ready(txc_ready),
      .txc_data(txc_data),
      .ack_tx_valid(ack_tx_valid),
      .ack_tx_ready(ack_tx_ready),
      .ack_tx_data(ack_tx_data),
      .ack_rx_valid(ack_rx_valid),
      .ack_rx_ready(ack_rx_ready),
      .ack_rx_data(ack_rx_data),
      .st_tx_valid(st_tx_valid),
      .st_tx_bytes(st_tx_bytes),
      .st_send_valid(st_send_valid),
      .st_send_bytes(st_send_bytes),
      .ev_db_valid(ev_valid[`EFA_EV__DB]),
      .ev_db_data(ev_data[64*`EFA_EV__DB+:64]),
      .ev_llq_valid(ev_valid[`EFA_EV__LLQ]),
      .ev_llq_data(ev_data[64*`EFA_EV__LLQ+:64]),
      .ev_wqe_valid(ev_valid[`EFA_EV__WQE]),
      .ev_wqe_data(ev_data[64*`EFA_EV__WQE+:64]),
      .ev_check_valid(ev_valid[`EFA_EV__CHECK]),
      .ev_check_data(ev_data[64*`EFA_EV__CHECK+:64]),
      .ev_tx_first_valid(ev_valid[`EFA_EV__TX_FIRST]),
      .ev_tx_first_data(ev_data[64*`EFA_EV__TX_FIRST+:64]),
      .ev_tx_last_valid(ev_valid[`EFA_EV__TX_LAST]),
      .ev_tx_last_data(ev_data[64*`EFA_EV__TX_LAST+:64]),
      .ev_ackout_valid(ev_valid[`EFA_EV__ACKOUT]),
      .ev_ackout_data(ev_data[64*`EFA_EV__ACKOUT+:64])
  );

  efa_rx_engine #(
      .QPN_W(QPN_W)
  ) u_rx_engine (
      .clk(clk),
      .qpc_recv_addr(qpc_recv_addr),
      .qpc_recv_data(qpc_recv_data),
      .rst(rst),
      .s_cfg_node_id(s_cfg_node_id),
      .s_net_valid(s_net_valid),
      .s_net_ready(s_net_ready),
      .s_net_data(s_net_data),
      .s_net_keep(s_net_keep),
      .s_net_last(s_net_last),
      .core_rst(core_rst),
      .quiesce(quiesce),
      .recv_init_done(recv_init_done),
      .mps_log(mps_log),
      .rd_rq_valid(rd_rq_valid),
      .rd_rq_ready(rd_rq_ready),
      .rd_rq_addr(rd_rq_addr),
      .rd_rq_len(rd_rq_len),
      .rd_rq_cookie(rd_rq_cookie),
      .rd_cpl_rq_valid(rd_cpl_rq_valid),
      .rd_cpl_cookie(rd_cpl_cookie),
      .rd_cpl_offset(rd_cpl_offset),
      .rd_cpl_data(rd_cpl_data),
      .rd_cpl_bytes(rd_cpl_bytes),
      .rd_cpl_last(rd_cpl_last),
      .rd_cpl_err(rd_cpl_err),
      .wr_rx_valid(wr_rx_valid),
      .wr_rx_ready(wr_rx_ready),
      .wr_rx_addr(wr_rx_addr),
      .wr_rx_len(wr_rx_len),
      .wr_rx_data(wr_rx_data),
      .wr_rx_last(wr_rx_last),
      .qpchg_recv_valid(qpchg_recv_valid),
      .qpchg_recv_ready(qpchg_recv_ready),
      .qpchg_qpn(qpchg_qpn),
      .qpchg_state(qpchg_state),
      .qperr_recv_valid(qperr_recv_valid),
      .qperr_recv_ready(qperr_recv_ready),
      .qperr_recv_qpn(qperr_recv_qpn),
      .qperr_recv_cause(qperr_recv_cause),
      .mr_valid(mr_valid),
      .mr_index(mr_index),
      .mr_data(mr_data),
      .mtt_valid(mtt_valid),
      .mtt_index(mtt_index),
      .mtt_data(mtt_data),
      .ah_valid(ah_valid),
      .ah_index(ah_index),
      .ah_data(ah_data),
      .rq_ctrl_valid(rq_ctrl_valid),
      .rq_ctrl_ready(rq_ctrl_ready),
      .rq_ctrl_kind(rq_ctrl_kind),
      .rq_ctrl_qpn(rq_ctrl_qpn),
      .rq_ctrl_qpc(rq_ctrl_qpc),
      .drain_recv_valid(drain_recv_valid),
      .drain_recv_ready(drain_recv_ready),
      .rqdb_valid(rqdb_valid),
      .rqdb_qpn(rqdb_qpn),
      .rqdb_value(rqdb_value),
      .rxc_valid(rxc_valid),
      .rxc_ready(rxc_ready),
      .rxc_data(rxc_data),
      .rxdone_valid(rxdone_valid),
      .ack_tx_valid(ack_tx_valid),
      .ack_tx_ready(ack_tx_ready),
      .ack_tx_data(ack_tx_data),
      .ack_rx_valid(ack_rx_valid),
      .ack_rx_ready(ack_rx_ready),
      .ack_rx_data(ack_rx_data),
      .st_rx_valid(st_rx_valid),
      .st_rx_bytes(st_rx_bytes),
      .st_drop_valid(st_drop_valid),
      .st_qkey_valid(st_qkey_valid),
      .ev_rx_first_valid(ev_valid[`EFA_EV__RX_FIRST]),
      .ev_rx_first_data(ev_data[64*`EFA_EV__RX_FIRST+:64]),
      .ev_rx_last_valid(ev_valid[`EFA_EV__RX_LAST]),
      .ev_rx_last_data(ev_data[64*`EFA_EV__RX_LAST+:64]),
      .ev_rx_validated_valid(ev_valid[`EFA_EV__RX_VALIDATED]),
      .ev_rx_validated_data(ev_data[64*`EFA_EV__RX_VALIDATED+:64]),
      .ev_rx_data_done_valid(ev_valid[`EFA_EV__RX_DATA_DONE]),
      .ev_rx_data_done_data(ev_data[64*`EFA_EV__RX_DATA_DONE+:64]),
      .ev_anomaly_net_valid(ev_valid[`EFA_EV__ANOMALY_NET]),
      .ev_anomaly_net_data(ev_data[64*`EFA_EV__ANOMALY_NET+:64])
  );

  efa_cq_engine #(
      .QPN_W(QPN_W),
      .CQN_W(CQN_W)
  ) u_cq_engine (
      .clk(clk),
      .core_rst(core_rst),
      .cpl_init_done(cpl_init_done),
      .reg_wr_valid(reg_wr_valid),
      .reg_wr_offset(reg_wr_offset),
      .reg_wr_data(reg_wr_data),
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
      .irq_eq_valid(irq_eq_valid),
      .irq_eq_ready(irq_eq_ready),
      .irq_eq_vector(irq_eq_vector),
      .cqc_valid(cqc_valid),
      .cqc_cqn(cqc_cqn),
      .cqc_data(cqc_data),
      .eqc_valid(eqc_valid),
      .eqc_eqn(eqc_eqn),
      .eqc_data(eqc_data),
      .drain_cpl_valid(drain_cpl_valid),
      .drain_cpl_ready(drain_cpl_ready),
      .cqdb_valid(cqdb_valid),
      .cqdb_cqn(cqdb_cqn),
      .cqdb_value(cqdb_value),
      .txc_valid(txc_valid),
      .txc_ready(txc_ready),
      .txc_data(txc_data),
      .rxc_valid(rxc_valid),
      .rxc_ready(rxc_ready),
      .rxc_data(rxc_data),
      .rxdone_valid(rxdone_valid),
      .ec_valid(ec_valid),
      .ec_ready(ec_ready),
      .ec_op(ec_op),
      .ec_counter(ec_counter),
      .ec_qpn(ec_qpn),
      .ec_events(ec_events),
      .ec_value(ec_value),
      .ec_code(ec_code),
      .ev_ecw_valid(ev_valid[`EFA_EV__ECW]),
      .ev_ecw_data(ev_data[64*`EFA_EV__ECW+:64]),
      .ev_cqe_valid(ev_valid[`EFA_EV__CQE]),
      .ev_cqe_data(ev_data[64*`EFA_EV__CQE+:64]),
      .ev_eqe_valid(ev_valid[`EFA_EV__EQE]),
      .ev_eqe_data(ev_data[64*`EFA_EV__EQE+:64])
  );

  efa_stats u_stats (
      .clk(clk),
      .st_tx_valid(st_tx_valid),
      .st_tx_bytes(st_tx_bytes),
      .st_send_valid(st_send_valid),
      .st_send_bytes(st_send_bytes),
      .st_rx_valid(st_rx_valid),
      .st_rx_bytes(st_rx_bytes),
      .st_drop_valid(st_drop_valid),
      .st_qkey_valid(st_qkey_valid),
      .stat_index(stat_index),
      .stat_value(stat_value),
      .core_rst(core_rst)
  );

  wire [`EFA_PERF_STREAM__ACK_RX:0] meter_valid;
  wire [`EFA_PERF_STREAM__ACK_RX:0] meter_ready;
  assign meter_valid[`EFA_PERF_STREAM__S_MMIO] = s_mmio_valid;
  assign meter_ready[`EFA_PERF_STREAM__S_MMIO] = s_mmio_ready;
  assign meter_valid[`EFA_PERF_STREAM__M_MMIO_CPL] = m_mmio_cpl_valid;
  assign meter_ready[`EFA_PERF_STREAM__M_MMIO_CPL] = m_mmio_cpl_ready;
  assign meter_valid[`EFA_PERF_STREAM__M_DMA_RD] = m_dma_rd_valid;
  assign meter_ready[`EFA_PERF_STREAM__M_DMA_RD] = m_dma_rd_ready;
  assign meter_valid[`EFA_PERF_STREAM__S_DMA_RD_CPL] = s_dma_rd_cpl_valid;
  assign meter_ready[`EFA_PERF_STREAM__S_DMA_RD_CPL] = s_dma_rd_cpl_ready;
  assign meter_valid[`EFA_PERF_STREAM__M_DMA_WR] = m_dma_wr_valid;
  assign meter_ready[`EFA_PERF_STREAM__M_DMA_WR] = m_dma_wr_ready;
  assign meter_valid[`EFA_PERF_STREAM__M_NET] = m_net_valid;
  assign meter_ready[`EFA_PERF_STREAM__M_NET] = m_net_ready;
  assign meter_valid[`EFA_PERF_STREAM__S_NET] = s_net_valid;
  assign meter_ready[`EFA_PERF_STREAM__S_NET] = s_net_ready;
  assign meter_valid[`EFA_PERF_STREAM__RD_ADM] = rd_adm_valid;
  assign meter_ready[`EFA_PERF_STREAM__RD_ADM] = rd_adm_ready;
  assign meter_valid[`EFA_PERF_STREAM__RD_RQ] = rd_rq_valid;
  assign meter_ready[`EFA_PERF_STREAM__RD_RQ] = rd_rq_ready;
  assign meter_valid[`EFA_PERF_STREAM__RD_TX] = rd_tx_valid;
  assign meter_ready[`EFA_PERF_STREAM__RD_TX] = rd_tx_ready;
  assign meter_valid[`EFA_PERF_STREAM__WR_ADM] = wr_adm_valid;
  assign meter_ready[`EFA_PERF_STREAM__WR_ADM] = wr_adm_ready;
  assign meter_valid[`EFA_PERF_STREAM__WR_RX] = wr_rx_valid;
  assign meter_ready[`EFA_PERF_STREAM__WR_RX] = wr_rx_ready;
  assign meter_valid[`EFA_PERF_STREAM__WR_CQ] = wr_cq_valid;
  assign meter_ready[`EFA_PERF_STREAM__WR_CQ] = wr_cq_ready;
  assign meter_valid[`EFA_PERF_STREAM__WR_EQ] = wr_eq_valid;
  assign meter_ready[`EFA_PERF_STREAM__WR_EQ] = wr_eq_ready;
  assign meter_valid[`EFA_PERF_STREAM__TXC] = txc_valid;
  assign meter_ready[`EFA_PERF_STREAM__TXC] = txc_ready;
  assign meter_valid[`EFA_PERF_STREAM__RXC] = rxc_valid;
  assign meter_ready[`EFA_PERF_STREAM__RXC] = rxc_ready;
  assign meter_valid[`EFA_PERF_STREAM__ACK_TX] = ack_tx_valid;
  assign meter_ready[`EFA_PERF_STREAM__ACK_TX] = ack_tx_ready;
  assign meter_valid[`EFA_PERF_STREAM__ACK_RX] = ack_rx_valid;
  assign meter_ready[`EFA_PERF_STREAM__ACK_RX] = ack_rx_ready;

  efa_perf_counters #(
      .TAGS  (TAGS),
      .OPEN_W(`EFA_LIMITS__MSG_W + 1)
  ) u_perf_counters (
      .clk(clk),
      .rst(rst),
      .valid(meter_valid),
      .ready(meter_ready),
      .rd_tag(m_dma_rd_tag),
      .cpl_tag(s_dma_rd_cpl_tag),
      .cpl_last(s_dma_rd_cpl_last),
      .sends_open(sends_open),
      .cnt_run(cnt_run),
      .cnt_clear(cnt_clear),
      .cnt_index(cnt_index),
      .cnt_data(cnt_data)
  );

  `EFA_STREAM(u_edge_rd_adm, 64 + 13 + 32, clk, core_rst, rd_adm_valid, rd_adm_ready, {
              rd_adm_addr, rd_adm_len, rd_adm_cookie})
  `EFA_STREAM(u_edge_rd_rq, 64 + 13 + 32, clk, core_rst, rd_rq_valid, rd_rq_ready, {
              rd_rq_addr, rd_rq_len, rd_rq_cookie})
  `EFA_STREAM(u_edge_rd_tx, 64 + 13 + 32, clk, core_rst, rd_tx_valid, rd_tx_ready, {
              rd_tx_addr, rd_tx_len, rd_tx_cookie})
  `EFA_STREAM(u_edge_rd_sq, 64 + 13 + 32, clk, core_rst, rd_sq_valid, rd_sq_ready, {
              rd_sq_addr, rd_sq_len, rd_sq_cookie})
  `EFA_STREAM(u_edge_wr_adm, 64 + 13 + 512 + 1, clk, core_rst, wr_adm_valid, wr_adm_ready, {
              wr_adm_addr, wr_adm_len, wr_adm_data, wr_adm_last})
  `EFA_STREAM(u_edge_wr_rx, 64 + 13 + 512 + 1, clk, core_rst, wr_rx_valid, wr_rx_ready, {
              wr_rx_addr, wr_rx_len, wr_rx_data, wr_rx_last})
  `EFA_STREAM(u_edge_wr_cq, 64 + 13 + 512 + 1, clk, core_rst, wr_cq_valid, wr_cq_ready, {
              wr_cq_addr, wr_cq_len, wr_cq_data, wr_cq_last})
  `EFA_STREAM(u_edge_wr_eq, 64 + 13 + 512 + 1, clk, core_rst, wr_eq_valid, wr_eq_ready, {
              wr_eq_addr, wr_eq_len, wr_eq_data, wr_eq_last})
  `EFA_STREAM(u_edge_irq_adm, 8, clk, core_rst, irq_adm_valid, irq_adm_ready, irq_adm_vector)
  `EFA_STREAM(u_edge_irq_eq, 8, clk, core_rst, irq_eq_valid, irq_eq_ready, irq_eq_vector)
  `EFA_STREAM(u_edge_qpc_admin, 1 + QPN_W, clk, core_rst, qpc_admin_valid, qpc_admin_ready, {
              qpc_admin_write, qpc_admin_qpn})
  `EFA_STREAM(u_edge_qpchg_send, QPN_W + 3, clk, core_rst, qpchg_send_valid, qpchg_send_ready, {
              qpchg_qpn, qpchg_state})
  `EFA_STREAM(u_edge_qpchg_recv, QPN_W + 3, clk, core_rst, qpchg_recv_valid, qpchg_recv_ready, {
              qpchg_qpn, qpchg_state})
  `EFA_STREAM(u_edge_qperr_send, QPN_W + 4, clk, core_rst, qperr_send_valid, qperr_send_ready, {
              qperr_send_qpn, qperr_send_cause})
  `EFA_STREAM(u_edge_qperr_recv, QPN_W + 4, clk, core_rst, qperr_recv_valid, qperr_recv_ready, {
              qperr_recv_qpn, qperr_recv_cause})
  `EFA_STREAM(u_edge_sq_ctrl, 2 + QPN_W + `EFA_QPC__W + 58, clk, core_rst, sq_ctrl_valid,
              sq_ctrl_ready, {sq_ctrl_kind, sq_ctrl_qpn, sq_ctrl_qpc, sq_ctrl_base})
  `EFA_STREAM(u_edge_rq_ctrl, 2 + QPN_W + `EFA_QPC__W, clk, core_rst, rq_ctrl_valid, rq_ctrl_ready,
              {rq_ctrl_kind, rq_ctrl_qpn, rq_ctrl_qpc})
  `EFA_STREAM(u_edge_ec, 3 + `EFA_LIMITS__EC_W + QPN_W + 4 + 64, clk, core_rst, ec_valid, ec_ready,
              {ec_op, ec_counter, ec_qpn, ec_events, ec_value})
  `EFA_STREAM(u_edge_txc, `EFA_CPL__W, clk, core_rst, txc_valid, txc_ready, txc_data)
  `EFA_STREAM(u_edge_rxc, `EFA_CPL__W, clk, core_rst, rxc_valid, rxc_ready, rxc_data)
  `EFA_STREAM(u_edge_ack_tx, `EFA_ACK_TX__W, clk, core_rst, ack_tx_valid, ack_tx_ready, ack_tx_data)
  `EFA_STREAM(u_edge_ack_rx, `EFA_ACK_RX__W, clk, core_rst, ack_rx_valid, ack_rx_ready, ack_rx_data)
  `EFA_STREAM(u_edge_net, 512 + 64 + 1, clk, core_rst, m_net_valid, m_net_ready, {
              m_net_data, m_net_keep, m_net_last})

endmodule
