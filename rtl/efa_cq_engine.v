// SPDX-License-Identifier: Apache-2.0
// efa_cq_engine - connects the completion side: CQs, event counters, EQs and their interrupts.
//
// In    txc, rxc: completed sends and receives; cqc, eqc: contexts; cqdb: CQ doorbells; register
//       stores (EQ_DB); ec: requests to the event counters
// Out   wr_cq, wr_eq: host writes; irq_eq: interrupt requests; rxdone; drain_cpl
// Time  see efa_cq, efa_ec and efa_eq
`include "efa_defs.vh"

module efa_cq_engine #(
    parameter QPN_W = 6,
    parameter CQN_W = 7
) (
    input  wire clk,
    input  wire core_rst,
    output wire cpl_init_done,
    input  wire reg_wr_valid,
    input  wire [15:0] reg_wr_offset,
    input  wire [31:0] reg_wr_data,
    output wire wr_cq_valid,
    input  wire wr_cq_ready,
    output wire [63:0] wr_cq_addr,
    output wire [12:0] wr_cq_len,
    output wire [511:0] wr_cq_data,
    output wire wr_cq_last,
    output wire wr_eq_valid,
    input  wire wr_eq_ready,
    output wire [63:0] wr_eq_addr,
    output wire [12:0] wr_eq_len,
    output wire [511:0] wr_eq_data,
    output wire wr_eq_last,
    output wire irq_eq_valid,
    input  wire irq_eq_ready,
    output wire [7:0] irq_eq_vector,
    input  wire cqc_valid,
    input  wire [CQN_W-1:0] cqc_cqn,
    input  wire [`EFA_CQC__W-1:0] cqc_data,
    input  wire eqc_valid,
    input  wire [`EFA_LIMITS__EQN_W-1:0] eqc_eqn,
    input  wire [`EFA_EQC__W-1:0] eqc_data,
    input  wire drain_cpl_valid,
    output wire drain_cpl_ready,
    input  wire cqdb_valid,
    input  wire [CQN_W-1:0] cqdb_cqn,
    input  wire [31:0] cqdb_value,
    input  wire txc_valid,
    output wire txc_ready,
    input  wire [`EFA_CPL__W-1:0] txc_data,
    input  wire rxc_valid,
    output wire rxc_ready,
    input  wire [`EFA_CPL__W-1:0] rxc_data,
    output wire rxdone_valid,
    input  wire ec_valid,
    output wire ec_ready,
    input  wire [2:0] ec_op,
    input  wire [`EFA_LIMITS__EC_W-1:0] ec_counter,
    input  wire [QPN_W-1:0] ec_qpn,
    input  wire [3:0] ec_events,
    input  wire [63:0] ec_value,
    output wire [1:0] ec_code,
    output wire ev_ecw_valid,
    output wire [63:0] ev_ecw_data,
    output wire ev_cqe_valid,
    output wire [63:0] ev_cqe_data,
    output wire ev_eqe_valid,
    output wire [63:0] ev_eqe_data
);

  localparam [12:0] EQE_BYTES = `EFA_ADMIN_EQE__BYTES;

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
  wire values_drained;
  wire [255:0] cqe;
  wire [127:0] eqe;

  assign wr_cq_data = {256'b0, cqe};
  assign wr_cq_last = 1'b1;
  assign wr_eq_data[511:128] = 384'b0;
  assign wr_eq_last = 1'b1;

  efa_cq #(
      .CQN_W(CQN_W)
  ) u_cq (
      .clk(clk),
      .rst(core_rst),
      .cqc_valid(cqc_valid),
      .cqc_cqn(cqc_cqn),
      .cqc_data(cqc_data),
      .cqdb_valid(cqdb_valid),
      .cqdb_cqn(cqdb_cqn),
      .cqdb_index(cqdb_value[`EFA_CQ_DB__CONSUMER_INDEX]),
      .s_txc_valid(txc_valid),
      .s_txc_ready(txc_ready),
      .s_txc_data(txc_data),
      .s_rxc_valid(rxc_valid),
      .s_rxc_ready(rxc_ready),
      .s_rxc_data(rxc_data),
      .m_wr_valid(wr_cq_valid),
      .m_wr_ready(wr_cq_ready),
      .m_wr_addr(wr_cq_addr),
      .m_wr_len(wr_cq_len),
      .m_wr_data(cqe),
      .m_commit_valid(written_valid),
      .m_commit_ready(written_ready),
      .m_commit_cqn(written_cqn),
      .m_commit_total(written_total),
      .m_commit_intr(m_commit_intr),
      .m_commit_counted(m_commit_counted),
      .m_commit_qpn(m_commit_qpn),
      .m_commit_kind(m_commit_kind),
      .lookup_qpn(lookup_qpn),
      .lookup_counted(lookup_counted),
      .m_rxdone(rxdone_valid),
      .drain_valid(drain_cpl_valid),
      .drain_ready(entries_drained),
      .init_done(cpl_init_done),
      .ev_cqe_valid(ev_cqe_valid),
      .ev_cqe_data(ev_cqe_data)
  );

  efa_ec #(
      .QPN_W(QPN_W),
      .CQN_W(CQN_W)
  ) u_ec (
      .clk(clk),
      .rst(core_rst),
      .lookup_qpn(lookup_qpn),
      .lookup_counted(lookup_counted),
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
      .s_ec_valid(ec_valid),
      .s_ec_ready(ec_ready),
      .s_ec_op(ec_op),
      .s_ec_counter(ec_counter),
      .s_ec_qpn(ec_qpn),
      .s_ec_events(ec_events),
      .s_ec_value(ec_value),
      .ec_code(ec_code),
      .m_wr_valid(value_valid),
      .m_wr_ready(value_ready),
      .m_wr_addr(value_addr),
      .m_wr_data(value),
      .drain_valid(drain_cpl_valid),
      .s_drained(entries_drained),
      .m_drained(values_drained),
      .ev_ecw_valid(ev_ecw_valid),
      .ev_ecw_data(ev_ecw_data)
  );

  efa_wr_arb #(
      .WIDTH(64 + 13 + 128)
  ) u_values (
      .clk(clk),
      .rst(core_rst),
      .s_first_valid(value_valid),
      .s_first_ready(value_ready),
      .s_first_data({value_addr, 13'd8, 64'd0, value}),
      .s_second_valid(eqe_valid),
      .s_second_ready(eqe_ready),
      .s_second_data({eqe_addr, EQE_BYTES, eqe}),
      .m_wr_valid(wr_eq_valid),
      .m_wr_ready(wr_eq_ready),
      .m_wr_data({wr_eq_addr, wr_eq_len, wr_eq_data[127:0]})
  );

  efa_eq #(
      .CQN_W(CQN_W)
  ) u_eq (
      .clk(clk),
      .rst(core_rst),
      .cqc_valid(cqc_valid),
      .cqc_cqn(cqc_cqn),
      .cqc_data(cqc_data),
      .eqc_valid(eqc_valid),
      .eqc_eqn(eqc_eqn),
      .eqc_data(eqc_data),
      .cqdb_valid(cqdb_valid),
      .cqdb_cqn(cqdb_cqn),
      .cqdb_value(cqdb_value),
      .eqdb_valid(reg_wr_valid && reg_wr_offset == `EFA_REG__EQ_DB),
      .eqdb_value(reg_wr_data),
      .s_commit_valid(commit_valid),
      .s_commit_ready(commit_ready),
      .s_commit_cqn(commit_cqn),
      .s_commit_total(commit_total),
      .m_wr_valid(eqe_valid),
      .m_wr_ready(eqe_ready),
      .m_wr_addr(eqe_addr),
      .m_wr_data(eqe),
      .m_irq_valid(irq_eq_valid),
      .m_irq_ready(irq_eq_ready),
      .m_irq_vector(irq_eq_vector),
      .drain_valid(drain_cpl_valid),
      .s_drained(values_drained),
      .drain_ready(drain_cpl_ready),
      .ev_eqe_valid(ev_eqe_valid),
      .ev_eqe_data(ev_eqe_data)
  );

endmodule
