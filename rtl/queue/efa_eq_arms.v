// SPDX-License-Identifier: Apache-2.0
// efa_eq_arms - queues the CQs with an arm doorbell, each once, in the order of their first arm.
//
// In    s_cqdb CQ doorbells; s_clear_valid: the CQ is created or destroyed, its arms are dropped;
//       s_init_run, s_init_cqn: the init sweep; no doorbell and no clear act during the sweep
// Out   m_arm CQs; m_arm_wanted, m_arm_index from the cycle after m_arm was accepted until the next
//       one: the arm was not dropped, and the last consumer index
// Time  3 cycles from a doorbell to m_arm; a doorbell takes effect 1 cycle after s_cqdb_valid;
//       m_arm_ready is low in a cycle with s_clear_valid
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_eq_arms #(
    parameter CQN_W = 7
) (
    input wire clk,
    input wire rst,

    input wire s_init_run,
    input wire [CQN_W-1:0] s_init_cqn,
    input wire s_clear_valid,
    input wire [CQN_W-1:0] s_clear_cqn,

    input wire s_cqdb_valid,
    input wire [CQN_W-1:0] s_cqdb_cqn,
    input wire [31:0] s_cqdb_value,

    output wire m_arm_valid,
    input wire m_arm_ready,
    output wire [CQN_W-1:0] m_arm_cqn,

    output wire m_arm_wanted,
    output wire [15:0] m_arm_index
);

  // Stage 1 of a doorbell.
  reg db_valid_q;
  reg db_arm_q;
  reg [CQN_W-1:0] db_cqn_q;
  reg [15:0] db_index_q;

  wire db_arm = db_valid_q && db_arm_q;
  wire pop = m_arm_valid && m_arm_ready;
  wire set_ready;
  wire set_init_done;
  efa_queue_fifo_set #(
      .QPN_W(CQN_W)
  ) u_set (
      .clk(clk),
      .rst(rst),
      .m_init_done(set_init_done),
      .s_now_valid(1'b0),
      .s_now_qpn({CQN_W{1'b0}}),
      .s_valid(db_arm),
      .s_ready(set_ready),
      .s_qpn(db_cqn_q),
      .m_valid(m_arm_valid),
      .m_ready(m_arm_ready),
      .m_qpn(m_arm_cqn)
  );

  // The arm of a CQ in the set was not dropped.
  efa_flag_ram #(
      .ADDR_W(CQN_W)
  ) u_wanted (
      .clk(clk),
      .rst(rst),
      .init_en(s_init_run),
      .init_addr(s_init_cqn),
      .set_en(db_arm),
      .set_addr(db_cqn_q),
      .clear_en(s_clear_valid),
      .clear_addr(s_clear_cqn),
      .rd_en(pop),
      .rd_addr(m_arm_cqn),
      .rd_flag(m_arm_wanted)
  );

  efa_ram #(
      .WIDTH (16),
      .ADDR_W(CQN_W)
  ) u_index (
      .clk(clk),
      .wr_en(db_valid_q),
      .wr_addr(db_cqn_q),
      .wr_data(db_index_q),
      .rd_en(pop),
      .rd_addr(m_arm_cqn),
      .rd_data(m_arm_index)
  );

  always @(posedge clk) begin
    if (rst) db_valid_q <= 1'b0;
    else db_valid_q <= s_cqdb_valid && !s_init_run;
    db_arm_q <= s_cqdb_value[`EFA_CQ_DB__ARM];
    db_cqn_q <= s_cqdb_cqn;
    db_index_q <= s_cqdb_value[`EFA_CQ_DB__CONSUMER_INDEX];
  end

  wire unused_bits = &{1'b0, s_cqdb_value[`EFA_CQ_DB__CMD_SN], s_cqdb_value[28:16], set_ready,
                       set_init_done};

  `EFA_CHECK(!(pop && s_clear_valid), "efa_eq_arms: an arm is accepted while arms are dropped")

endmodule

`default_nettype wire
