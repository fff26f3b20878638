// SPDX-License-Identifier: Apache-2.0
// efa_data_path - connects send engine and receive engine; wires only.
//
// In    s_llq, s_db: stores; s_net: packets; s_table, s_queue_op, s_drain from admin; s_qpchg: changes of
//       QP contexts; qpc_rd_data: contexts; s_rd_cpl: host read completions; s_rxdone: a receive CQE is
//       written; s_cfg straps
// Out   m_net: packets; m_rd: host reads of WQEs and payload; m_wr: host writes of payload; m_cpl:
//       completed sends and receives; m_cqdb: CQ doorbells; m_qperr: QPs in error; m_st: statistics;
//       m_sends_open; ev_*: observation
// Time  see efa_tx_engine, efa_rx_engine
`default_nettype none
`include "efa_defs.vh"

module efa_data_path #(
    parameter QPN_W   = 6,
    parameter LLQ_AW  = 21,
    parameter SQ_HOST = 0,
    parameter MTT_W   = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire clk,
    input wire rst_por,
    input wire rst,
    input wire [7:0] s_cfg_paths,
    input wire [7:0] s_cfg_tick,
    input wire [15:0] s_cfg_node_id,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire [3:0] s_cfg_mps_log,
    input wire [3:0] s_cfg_mrrs_log,
    output wire [`EFA_ENGINE__RECV:0] m_init_done,
    input wire s_quiesce,
    output wire m_net_quiet,
    output wire m_net_valid,
    input wire m_net_ready,
    output wire [`EFA_FLIT__W-1:0] m_net_data,
    input wire s_net_valid,
    output wire s_net_ready,
    input wire [`EFA_FLIT__W-1:0] s_net_data,
    input wire s_llq_valid,
    input wire [`EFA_LLQ__W-1:0] s_llq_data,
    input wire s_db_valid,
    input wire [`EFA_DB__W-1:0] s_db_data,
    output wire [6*QPN_W-1:0] qpc_rd_addr,
    input wire [6*`EFA_QPC__W-1:0] qpc_rd_data,
    input wire [`EFA_ENGINE__RECV:0] s_qpchg_valid,
    output wire [`EFA_ENGINE__RECV:0] s_qpchg_ready,
    input wire [`EFA_QPCHG__W-1:0] s_qpchg_data,
    output wire [`EFA_ENGINE__RECV:0] m_qperr_valid,
    input wire [`EFA_ENGINE__RECV:0] m_qperr_ready,
    output wire [2*`EFA_QPERR__W-1:0] m_qperr_data,
    input wire [`EFA_TABLE__COUNT-1:0] s_table_valid,
    input wire [`EFA_TABLE_WR__W-1:0] s_table_data,
    input wire [`EFA_ENGINE__RECV:0] s_queue_op_valid,
    output wire [`EFA_ENGINE__RECV:0] s_queue_op_ready,
    input wire [`EFA_QUEUE_OP__W-1:0] s_queue_op_data,
    output wire m_queue_op_busy,
    input wire [`EFA_ENGINE__RECV:0] s_drain_valid,
    output wire [`EFA_ENGINE__RECV:0] s_drain_ready,
    output wire [`EFA_DMA_RD_CLIENT__SQ:`EFA_DMA_RD_CLIENT__RQ] m_rd_valid,
    input wire [`EFA_DMA_RD_CLIENT__SQ:`EFA_DMA_RD_CLIENT__RQ] m_rd_ready,
    output wire [`EFA_DMA_RD__W*`EFA_DMA_RD_CLIENT__COUNT-1:`EFA_DMA_RD__W*`EFA_DMA_RD_CLIENT__RQ] m_rd_data,
    input wire [`EFA_DMA_RD_CLIENT__SQ:`EFA_DMA_RD_CLIENT__RQ] s_rd_cpl_valid,
    input wire [`EFA_DMA_RD_CPL__W-1:0] s_rd_cpl_data,
    output wire m_wr_valid,
    input wire m_wr_ready,
    output wire [`EFA_DMA_WR__W-1:0] m_wr_data,
    output wire m_cqdb_valid,
    output wire [`EFA_CQDB__W-1:0] m_cqdb_data,
    output wire [`EFA_ENGINE__RECV:0] m_cpl_valid,
    input wire [`EFA_ENGINE__RECV:0] m_cpl_ready,
    output wire [2*`EFA_CPL__W-1:0] m_cpl_data,
    input wire s_rxdone_valid,
    output wire [`EFA_STAT__COUNT-1:0] m_st_valid,
    output wire [32*`EFA_STAT__DROP-1:32*`EFA_STAT__TX] m_st_bytes,
    output wire [`EFA_LIMITS__MSG_W:0] m_sends_open,
    output wire [1:0] ev_ack_valids,
    output wire [1:0] ev_ack_readies,
    output wire [`EFA_EV__TX_VALID] ev_tx_valid,
    output wire [`EFA_EV__TX_DATA] ev_tx_data,
    output wire [`EFA_EV__RX_VALID] ev_rx_valid,
    output wire [`EFA_EV__RX_DATA] ev_rx_data
);

  wire [15:0] incarnation;
  wire [(2<<`EFA_LIMITS__MSG_W)-1:0] ctx_used;
  wire read_valid;
  wire [`EFA_READ_CTX__W-1:0] read_data;
  wire more_valid;
  wire more_ready;
  wire [`EFA_READ_MORE__W-1:0] more_data;
  wire placed_valid;
  wire placed_ready;
  wire [`EFA_READ_PLACED__W-1:0] placed_data;
  wire request_valid;
  wire request_ready;
  wire [`EFA_READ_JOB__W-1:0] request_data;
  wire [(1<<`EFA_LIMITS__NODE_W)-1:0] full;
  wire rqdb_valid;
  wire [`EFA_RQDB__W-1:0] rqdb_data;
  wire ack_tx_valid;
  wire ack_tx_ready;
  wire [`EFA_SRD_ACK__BITS-1:0] ack_tx_data;
  wire ack_rx_valid;
  wire ack_rx_ready;
  wire [`EFA_SRD_ACK__BITS-1:0] ack_rx_data;

  // In the order of efa_perf_stream.
  assign ev_ack_valids  = {ack_rx_valid, ack_tx_valid};
  assign ev_ack_readies = {ack_rx_ready, ack_tx_ready};

  efa_tx_engine #(
      .QPN_W(QPN_W),
      .LLQ_AW(LLQ_AW),
      .SQ_HOST(SQ_HOST),
      .MTT_W(MTT_W)
  ) u_tx_engine (
      .s_cfg_paths(s_cfg_paths),
      .s_cfg_tick(s_cfg_tick),
      .m_incarnation(incarnation),
      .m_ctx_used(ctx_used),
      .m_read_valid(read_valid),
      .m_read_data(read_data),
      .m_more_valid(more_valid),
      .m_more_ready(more_ready),
      .m_more_data(more_data),
      .s_placed_valid(placed_valid),
      .s_placed_ready(placed_ready),
      .s_placed_data(placed_data),
      .s_job_valid(request_valid),
      .s_job_ready(request_ready),
      .s_job_data(request_data),
      .m_full(full),
      .m_sends_open(m_sends_open),
      .clk(clk),
      .qpc_rd_addr(qpc_rd_addr[0+:4*QPN_W]),
      .qpc_rd_data(qpc_rd_data[0+:4*`EFA_QPC__W]),
      .s_cfg_node_id(s_cfg_node_id),
      .s_cfg_profile(s_cfg_profile),
      .m_net_valid(m_net_valid),
      .m_net_ready(m_net_ready),
      .m_net_data(m_net_data),
      .rst_por(rst_por),
      .rst(rst),
      .m_init_done(m_init_done[`EFA_ENGINE__SEND]),
      .s_quiesce(s_quiesce),
      .m_net_quiet(m_net_quiet),
      .s_cfg_mrrs_log(s_cfg_mrrs_log),
      .s_llq_valid(s_llq_valid),
      .s_llq_data(s_llq_data),
      .s_db_valid(s_db_valid),
      .s_db_data(s_db_data),
      .m_rd_valid(m_rd_valid[`EFA_DMA_RD_CLIENT__SQ:`EFA_DMA_RD_CLIENT__TX]),
      .m_rd_ready(m_rd_ready[`EFA_DMA_RD_CLIENT__SQ:`EFA_DMA_RD_CLIENT__TX]),
      .m_rd_data(m_rd_data[`EFA_DMA_RD__W*`EFA_DMA_RD_CLIENT__TX+:2*`EFA_DMA_RD__W]),
      .s_rd_cpl_valid(s_rd_cpl_valid[`EFA_DMA_RD_CLIENT__SQ:`EFA_DMA_RD_CLIENT__TX]),
      .s_rd_cpl_data(s_rd_cpl_data),
      .s_qpchg_valid(s_qpchg_valid[`EFA_ENGINE__SEND]),
      .s_qpchg_ready(s_qpchg_ready[`EFA_ENGINE__SEND]),
      .s_qpchg_data(s_qpchg_data),
      .m_qperr_valid(m_qperr_valid[`EFA_ENGINE__SEND]),
      .m_qperr_ready(m_qperr_ready[`EFA_ENGINE__SEND]),
      .m_qperr_data(m_qperr_data[`EFA_QPERR__W*`EFA_ENGINE__SEND+:`EFA_QPERR__W]),
      .s_table_valid(s_table_valid),
      .s_table_data(s_table_data),
      .s_queue_op_valid(s_queue_op_valid[`EFA_ENGINE__SEND]),
      .s_queue_op_ready(s_queue_op_ready[`EFA_ENGINE__SEND]),
      .s_queue_op_data(s_queue_op_data),
      .m_queue_op_busy(m_queue_op_busy),
      .s_drain_valid(s_drain_valid[`EFA_ENGINE__SEND]),
      .s_drain_ready(s_drain_ready[`EFA_ENGINE__SEND]),
      .m_rqdb_valid(rqdb_valid),
      .m_rqdb_data(rqdb_data),
      .m_cqdb_valid(m_cqdb_valid),
      .m_cqdb_data(m_cqdb_data),
      .m_cpl_valid(m_cpl_valid[`EFA_ENGINE__SEND]),
      .m_cpl_ready(m_cpl_ready[`EFA_ENGINE__SEND]),
      .m_cpl_data(m_cpl_data[`EFA_CPL__W*`EFA_ENGINE__SEND+:`EFA_CPL__W]),
      .s_ack_tx_valid(ack_tx_valid),
      .s_ack_tx_ready(ack_tx_ready),
      .s_ack_tx_data(ack_tx_data),
      .s_ack_rx_valid(ack_rx_valid),
      .s_ack_rx_ready(ack_rx_ready),
      .s_ack_rx_data(ack_rx_data),
      .m_st_valid(m_st_valid[`EFA_STAT__RESPONSE:`EFA_STAT__ACK_DROP]),
      .m_st_bytes(m_st_bytes[32*`EFA_STAT__RX-1:32*`EFA_STAT__TX]),
      .ev_valid(ev_tx_valid),
      .ev_data(ev_tx_data)
  );

  efa_rx_engine #(
      .QPN_W(QPN_W),
      .MTT_W(MTT_W)
  ) u_rx_engine (
      .s_cfg_paths(s_cfg_paths),
      .s_cfg_tick(s_cfg_tick),
      .s_cfg_incarnation(incarnation),
      .s_ctx_used(ctx_used),
      .s_read_valid(read_valid),
      .s_read_data(read_data),
      .s_more_valid(more_valid),
      .s_more_ready(more_ready),
      .s_more_data(more_data),
      .m_placed_valid(placed_valid),
      .m_placed_ready(placed_ready),
      .m_placed_data(placed_data),
      .m_request_valid(request_valid),
      .m_request_ready(request_ready),
      .m_request_data(request_data),
      .s_full(full),
      .s_cfg_profile(s_cfg_profile),
      .clk(clk),
      .qpc_rd_addr(qpc_rd_addr[4*QPN_W+:2*QPN_W]),
      .qpc_rd_data(qpc_rd_data[4*`EFA_QPC__W+:2*`EFA_QPC__W]),
      .rst_por(rst_por),
      .s_cfg_node_id(s_cfg_node_id),
      .s_net_valid(s_net_valid),
      .s_net_ready(s_net_ready),
      .s_net_data(s_net_data),
      .rst(rst),
      .s_quiesce(s_quiesce),
      .m_init_done(m_init_done[`EFA_ENGINE__RECV]),
      .s_cfg_mps_log(s_cfg_mps_log),
      .m_rd_rq_valid(m_rd_valid[`EFA_DMA_RD_CLIENT__RQ]),
      .m_rd_rq_ready(m_rd_ready[`EFA_DMA_RD_CLIENT__RQ]),
      .m_rd_rq_data(m_rd_data[`EFA_DMA_RD__W*`EFA_DMA_RD_CLIENT__RQ+:`EFA_DMA_RD__W]),
      .s_rd_cpl_rq_valid(s_rd_cpl_valid[`EFA_DMA_RD_CLIENT__RQ]),
      .s_rd_cpl_data(s_rd_cpl_data),
      .m_wr_rx_valid(m_wr_valid),
      .m_wr_rx_ready(m_wr_ready),
      .m_wr_rx_data(m_wr_data),
      .s_qpchg_valid(s_qpchg_valid[`EFA_ENGINE__RECV]),
      .s_qpchg_ready(s_qpchg_ready[`EFA_ENGINE__RECV]),
      .s_qpchg_data(s_qpchg_data),
      .m_qperr_valid(m_qperr_valid[`EFA_ENGINE__RECV]),
      .m_qperr_ready(m_qperr_ready[`EFA_ENGINE__RECV]),
      .m_qperr_data(m_qperr_data[`EFA_QPERR__W*`EFA_ENGINE__RECV+:`EFA_QPERR__W]),
      .s_table_valid(s_table_valid),
      .s_table_data(s_table_data),
      .s_queue_op_valid(s_queue_op_valid[`EFA_ENGINE__RECV]),
      .s_queue_op_ready(s_queue_op_ready[`EFA_ENGINE__RECV]),
      .s_queue_op_data(s_queue_op_data),
      .s_drain_valid(s_drain_valid[`EFA_ENGINE__RECV]),
      .s_drain_ready(s_drain_ready[`EFA_ENGINE__RECV]),
      .s_rqdb_valid(rqdb_valid),
      .s_rqdb_data(rqdb_data),
      .m_cpl_valid(m_cpl_valid[`EFA_ENGINE__RECV]),
      .m_cpl_ready(m_cpl_ready[`EFA_ENGINE__RECV]),
      .m_cpl_data(m_cpl_data[`EFA_CPL__W*`EFA_ENGINE__RECV+:`EFA_CPL__W]),
      .s_rxdone_valid(s_rxdone_valid),
      .m_ack_tx_valid(ack_tx_valid),
      .m_ack_tx_ready(ack_tx_ready),
      .m_ack_tx_data(ack_tx_data),
      .m_ack_rx_valid(ack_rx_valid),
      .m_ack_rx_ready(ack_rx_ready),
      .m_ack_rx_data(ack_rx_data),
      .m_st_valid(m_st_valid[`EFA_STAT__QKEY:`EFA_STAT__RX]),
      .m_st_bytes(m_st_bytes[32*`EFA_STAT__DROP-1:32*`EFA_STAT__RX]),
      .ev_valid(ev_rx_valid),
      .ev_data(ev_rx_data)
  );

endmodule

`default_nettype wire
