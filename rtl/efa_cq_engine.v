// SPDX-License-Identifier: Apache-2.0
// efa_cq_engine - connects the completion side: CQs, event counters, EQs and their interrupts.
//
// In    s_cpl: completed sends and receives; s_table, s_drain from admin; s_cqdb: CQ doorbells;
//       s_reg_wr: register stores (EQ_DB); s_ec: requests to the event counters
// Out   m_wr: host writes of CQEs, and of EQEs and counter values; m_irq_eq: interrupt requests;
//       m_rxdone: a receive CQE is written; m_ec_code: response of the event counters
// Time  see efa_cq, efa_ec and efa_eq
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_cq_engine #(
    parameter QPN_W = 6
) (
    input  wire clk,
    input  wire rst,
    output wire m_init_done,
    input  wire s_reg_wr_valid,
    input  wire [`EFA_REG_WR__W-1:0] s_reg_wr_data,
    output wire [`EFA_DMA_WR_CLIENT__EQ:`EFA_DMA_WR_CLIENT__CQ] m_wr_valid,
    input  wire [`EFA_DMA_WR_CLIENT__EQ:`EFA_DMA_WR_CLIENT__CQ] m_wr_ready,
    output wire [2*`EFA_DMA_WR__W-1:0] m_wr_data,
    output wire m_irq_eq_valid,
    input wire m_irq_eq_ready,
    output wire [7:0] m_irq_eq_vector,
    input wire [`EFA_TABLE__COUNT-1:0] s_table_valid,
    input wire [`EFA_TABLE_WR__W-1:0] s_table_data,
    input  wire s_drain_valid,
    output wire s_drain_ready,
    input  wire s_cqdb_valid,
    input  wire [`EFA_CQDB__W-1:0] s_cqdb_data,
    input  wire [`EFA_ENGINE__RECV:0] s_cpl_valid,
    output wire [`EFA_ENGINE__RECV:0] s_cpl_ready,
    input  wire [2*`EFA_CPL__W-1:0] s_cpl_data,
    output wire m_rxdone_valid,
    input  wire s_ec_valid,
    output wire s_ec_ready,
    input  wire [`EFA_EC_CMD__W-1:0] s_ec_data,
    output wire [1:0] m_ec_code,
    output wire [`EFA_EV__CQ_VALID] ev_valid,
    output wire [`EFA_EV__CQ_DATA] ev_data
);

  localparam CQN_W = QPN_W + 1;
  localparam [12:0] EQE_BYTES = `EFA_ADMIN_EQE__BYTES;

  // Fields of the bundles at the ports.
  wire [11:0] cqn = s_table_data[`EFA_TABLE_WR__CQC_CQN];
  wire [11:0] cqdb_cqn = s_cqdb_data[`EFA_CQDB__CQN];
  wire [31:0] cqdb_value = s_cqdb_data[`EFA_CQDB__VALUE];
  wire [11:0] ec_qpn = s_ec_data[`EFA_EC_CMD__QPN];
  wire [15:0] reg_wr_offset = s_reg_wr_data[`EFA_REG_WR__OFFSET];
  wire [`EFA_DMA_WR__W-1:0] wr_cq_data;
  wire [`EFA_DMA_WR__W-1:0] wr_eq_data;
  assign m_wr_data = {wr_eq_data, wr_cq_data};

  wire commit_valid;
  wire commit_ready;
  wire [CQN_W-1:0] commit_cqn;
  wire [15:0] commit_total;
  wire written_valid;
  wire written_ready;
  wire [CQN_W-1:0] written_cqn;
  wire [15:0] written_total;
  wire m_commit_intr;
  wire m_commit_counted;
  wire [11:0] m_commit_qpn;
  wire [1:0] m_commit_kind;
  wire lookup_valid;
  wire [11:0] lookup_qpn;
  wire lookup_counted;
  wire value_valid;
  wire value_ready;
  wire [63:0] value_addr;
  wire [63:0] value;
  wire eqe_valid;
  wire eqe_ready;
  wire [63:0] eqe_addr;
  wire entries_drained;
  wire entries_init_done;
  wire events_init_done;
  wire counters_init_done;
  wire values_drained;
  wire [255:0] cqe;
  wire [127:0] eqe;

  wire [63:0] eq_addr;
  wire [12:0] eq_len;
  wire [127:0] eq_data;

  assign m_init_done = entries_init_done && events_init_done && counters_init_done;
  assign wr_cq_data[`EFA_DMA_WR__DATA] = {256'b0, cqe};
  assign wr_cq_data[`EFA_DMA_WR__LAST] = 1'b1;
  assign wr_eq_data[`EFA_DMA_WR__ADDR] = eq_addr;
  assign wr_eq_data[`EFA_DMA_WR__LEN] = eq_len;
  assign wr_eq_data[`EFA_DMA_WR__LAST] = 1'b1;
  assign wr_eq_data[`EFA_DMA_WR__DATA] = {384'b0, eq_data};

  efa_cq #(
      .CQN_W(CQN_W)
  ) u_cq (
      .clk(clk),
      .rst(rst),
      .s_cqc_valid(s_table_valid[`EFA_TABLE__CQC]),
      .s_cqc_cqn(cqn[CQN_W-1:0]),
      .s_cqc_data(s_table_data[`EFA_TABLE_WR__CQC_DATA]),
      .s_cqdb_valid(s_cqdb_valid),
      .s_cqdb_cqn(cqdb_cqn[CQN_W-1:0]),
      .s_cqdb_index(cqdb_value[`EFA_CQ_DB__CONSUMER_INDEX]),
      .s_txc_valid(s_cpl_valid[`EFA_ENGINE__SEND]),
      .s_txc_ready(s_cpl_ready[`EFA_ENGINE__SEND]),
      .s_txc_data(s_cpl_data[`EFA_CPL__W*`EFA_ENGINE__SEND+:`EFA_CPL__W]),
      .s_rxc_valid(s_cpl_valid[`EFA_ENGINE__RECV]),
      .s_rxc_ready(s_cpl_ready[`EFA_ENGINE__RECV]),
      .s_rxc_data(s_cpl_data[`EFA_CPL__W*`EFA_ENGINE__RECV+:`EFA_CPL__W]),
      .m_wr_valid(m_wr_valid[`EFA_DMA_WR_CLIENT__CQ]),
      .m_wr_ready(m_wr_ready[`EFA_DMA_WR_CLIENT__CQ]),
      .m_wr_addr(wr_cq_data[`EFA_DMA_WR__ADDR]),
      .m_wr_len(wr_cq_data[`EFA_DMA_WR__LEN]),
      .m_wr_data(cqe),
      .m_commit_valid(written_valid),
      .m_commit_ready(written_ready),
      .m_commit_cqn(written_cqn),
      .m_commit_total(written_total),
      .m_commit_intr(m_commit_intr),
      .m_commit_counted(m_commit_counted),
      .m_commit_qpn(m_commit_qpn),
      .m_commit_kind(m_commit_kind),
      .counted_rd_en(lookup_valid),
      .counted_rd_addr(lookup_qpn),
      .counted_rd_data(lookup_counted),
      .m_rxdone(m_rxdone_valid),
      .s_drain_valid(s_drain_valid),
      .s_drain_ready(entries_drained),
      .m_init_done(entries_init_done),
      .ev_cqe_valid(ev_valid[`EFA_EV__CQE]),
      .ev_cqe_data(ev_data[64*`EFA_EV__CQE+:64])
  );

  efa_ec #(
      .QPN_W(QPN_W),
      .CQN_W(CQN_W)
  ) u_ec (
      .clk(clk),
      .rst(rst),
      .counted_rd_en(lookup_valid),
      .counted_rd_addr(lookup_qpn),
      .counted_rd_data(lookup_counted),
      .s_commit_valid(written_valid),
      .s_commit_ready(written_ready),
      .s_commit_cqn(written_cqn),
      .s_commit_total(written_total),
      .s_commit_intr(m_commit_intr),
      .s_commit_counted(m_commit_counted),
      .s_commit_qpn(m_commit_qpn),
      .s_commit_kind(m_commit_kind),
      .m_commit_valid(commit_valid),
      .m_commit_ready(commit_ready),
      .m_commit_cqn(commit_cqn),
      .m_commit_total(commit_total),
      .s_ec_valid(s_ec_valid),
      .s_ec_ready(s_ec_ready),
      .s_ec_op(s_ec_data[`EFA_EC_CMD__OP]),
      .s_ec_counter(s_ec_data[`EFA_EC_CMD__COUNTER]),
      .s_ec_qpn(ec_qpn[QPN_W-1:0]),
      .s_ec_events(s_ec_data[`EFA_EC_CMD__EVENTS]),
      .s_ec_value(s_ec_data[`EFA_EC_CMD__VALUE]),
      .m_ec_code(m_ec_code),
      .m_wr_valid(value_valid),
      .m_wr_ready(value_ready),
      .m_wr_addr(value_addr),
      .m_wr_data(value),
      .s_drain_valid(s_drain_valid),
      .s_drained(entries_drained),
      .m_drained(values_drained),
      .m_init_done(counters_init_done),
      .ev_ecw_valid(ev_valid[`EFA_EV__ECW]),
      .ev_ecw_data(ev_data[64*`EFA_EV__ECW+:64])
  );

  efa_wr_arb #(
      .WIDTH(64 + 13 + 128)
  ) u_values (
      .clk(clk),
      .rst(rst),
      .s_first_valid(value_valid),
      .s_first_ready(value_ready),
      .s_first_data({value_addr, 13'd8, 64'd0, value}),
      .s_second_valid(eqe_valid),
      .s_second_ready(eqe_ready),
      .s_second_data({eqe_addr, EQE_BYTES, eqe}),
      .m_wr_valid(m_wr_valid[`EFA_DMA_WR_CLIENT__EQ]),
      .m_wr_ready(m_wr_ready[`EFA_DMA_WR_CLIENT__EQ]),
      .m_wr_data({eq_addr, eq_len, eq_data})
  );

  efa_eq #(
      .CQN_W(CQN_W)
  ) u_eq (
      .clk(clk),
      .rst(rst),
      .s_cqc_valid(s_table_valid[`EFA_TABLE__CQC]),
      .s_cqc_cqn(cqn[CQN_W-1:0]),
      .s_cqc_data(s_table_data[`EFA_TABLE_WR__CQC_DATA]),
      .s_eqc_valid(s_table_valid[`EFA_TABLE__EQC]),
      .s_eqc_eqn(s_table_data[`EFA_TABLE_WR__EQC_EQN]),
      .s_eqc_data(s_table_data[`EFA_TABLE_WR__EQC_DATA]),
      .s_cqdb_valid(s_cqdb_valid),
      .s_cqdb_cqn(cqdb_cqn[CQN_W-1:0]),
      .s_cqdb_value(cqdb_value),
      .s_eqdb_valid(s_reg_wr_valid && reg_wr_offset == `EFA_REG__EQ_DB),
      .s_eqdb_value(s_reg_wr_data[`EFA_REG_WR__DATA]),
      .s_commit_valid(commit_valid),
      .s_commit_ready(commit_ready),
      .s_commit_cqn(commit_cqn),
      .s_commit_total(commit_total),
      .m_wr_valid(eqe_valid),
      .m_wr_ready(eqe_ready),
      .m_wr_addr(eqe_addr),
      .m_wr_data(eqe),
      .m_irq_valid(m_irq_eq_valid),
      .m_irq_ready(m_irq_eq_ready),
      .m_irq_vector(m_irq_eq_vector),
      .s_drain_valid(s_drain_valid),
      .s_drained(values_drained),
      .s_drain_ready(s_drain_ready),
      .m_init_done(events_init_done),
      .ev_eqe_valid(ev_valid[`EFA_EV__EQE]),
      .ev_eqe_data(ev_data[64*`EFA_EV__EQE+:64])
  );

  `EFA_STREAM(u_edge_wr_cq, `EFA_DMA_WR__W, clk, rst, m_wr_valid[`EFA_DMA_WR_CLIENT__CQ],
              m_wr_ready[`EFA_DMA_WR_CLIENT__CQ], wr_cq_data)
  `EFA_STREAM(u_edge_wr_eq, `EFA_DMA_WR__W, clk, rst, m_wr_valid[`EFA_DMA_WR_CLIENT__EQ],
              m_wr_ready[`EFA_DMA_WR_CLIENT__EQ], wr_eq_data)
  `EFA_STREAM(u_edge_irq, 8, clk, rst, m_irq_eq_valid, m_irq_eq_ready, m_irq_eq_vector)

  wire unused_bits = &{1'b0, s_table_valid, s_table_data, s_ec_data, s_reg_wr_data, cqn, cqdb_cqn, ec_qpn};

endmodule

`default_nettype wire
