// SPDX-License-Identifier: Apache-2.0
// fv_aenq - proves efa_aenq against the interface sheet: entry n is written to slot n modulo depth
// with the phase of its wrap, and unconsumed entries never exceed the ring.
`include "efa_defs.vh"

module fv_aenq (
    input wire clk,
    input wire rst,
    input wire reg_wr_valid,
    input wire [15:0] reg_wr_offset,
    input wire [31:0] reg_wr_data,
    input wire [31:0] s_cfg_keep_alive,
    input wire [31:0] s_groups,
    input wire s_aenq_valid,
    input wire [15:0] s_aenq_group,
    input wire [15:0] s_aenq_syndrome,
    input wire m_wr_ready
);

  wire s_aenq_ready;
  wire m_wr_valid;
  wire [63:0] m_wr_addr;
  wire [511:0] m_wr_data;
  wire m_note_valid;

  efa_aenq u_dut (
      .clk(clk),
      .rst(rst),
      .s_reg_wr_valid(reg_wr_valid),
      .s_reg_wr_offset(reg_wr_offset),
      .s_reg_wr_data(reg_wr_data),
      .s_cfg_keep_alive(s_cfg_keep_alive),
      .s_groups(s_groups),
      .s_uptime(64'd0),
      .s_aenq_valid(s_aenq_valid),
      .s_aenq_ready(s_aenq_ready),
      .s_aenq_group(s_aenq_group),
      .s_aenq_syndrome(s_aenq_syndrome),
      .s_aenq_data(384'd0),
      .m_wr_valid(m_wr_valid),
      .m_wr_ready(m_wr_ready),
      .m_wr_addr(m_wr_addr),
      .m_wr_data(m_wr_data),
      .m_note_valid(m_note_valid)
  );

  (* probe = "u_dut.on_q" *) wire dut_on;
  (* probe = "u_dut.base_reg_q" *) wire [63:0] dut_reg;
  (* probe = "u_dut.base_q" *) wire [63:0] dut_base;
  (* probe = "u_dut.log_q" *) wire [3:0] dut_log;
  (* probe = "u_dut.producer_q" *) wire [31:0] dut_producer;
  (* probe = "u_dut.consumer_q" *) wire [31:0] dut_consumer;

  localparam [15:0] MAX_DEPTH = `EFA_LIMITS__MAX_AQ_DEPTH;

  wire to_caps = reg_wr_valid && reg_wr_offset == `EFA_REG__AENQ_CAPS;
  wire to_db = reg_wr_valid && reg_wr_offset == `EFA_REG__AENQ_CONS_DB;
  wire [15:0] requested = reg_wr_data[`EFA_REG__AENQ_CAPS__AENQ_DEPTH];
  wire fits = requested != 0 && requested <= MAX_DEPTH && (requested & (requested - 16'd1)) == 0
      && reg_wr_data[`EFA_REG__AENQ_CAPS__AENQ_ENTRY_SIZE] == 64;

  // The ring as configured; entries formed for it (an offered entry included) and consumed by the
  // host. An entry that is offered during a new configuration of the ring belongs to the old ring.
  reg began_q = 1'b0;
  reg [63:0] reg_q;
  reg on_q;
  reg [63:0] base_q;
  reg [15:0] depth_q;
  reg [31:0] made_q;
  reg [31:0] consumed_q;
  reg [63:0] place_q;
  reg phase_q;
  reg waits_q;
  reg lapped_q;
  reg due_q;  // the current ring has an offered or written entry: number made_q - 1
  wire [31:0] unread = made_q - consumed_q;
  wire [63:0] slot = {32'd0, made_q & ({16'd0, depth_q} - 32'd1)};
  wire [31:0] last = made_q - 32'd1;
  wire [63:0] last_slot = {32'd0, last & ({16'd0, depth_q} - 32'd1)};

  always @(posedge clk) begin
    began_q <= 1'b1;
    waits_q <= !rst && m_wr_valid && !m_wr_ready;
    if (rst) begin
      reg_q <= 0;
      on_q <= 1'b0;
      made_q <= 0;
      consumed_q <= 0;
      depth_q <= 1;
      due_q <= 1'b0;
      lapped_q <= 1'b0;
    end else begin
      if (reg_wr_valid && reg_wr_offset == `EFA_REG__AENQ_BASE_LO) reg_q[31:0] <= reg_wr_data;
      if (reg_wr_valid && reg_wr_offset == `EFA_REG__AENQ_BASE_HI) reg_q[63:32] <= reg_wr_data;
      if (to_caps) begin
        on_q <= fits;
        base_q <= {reg_q[63:6], 6'd0};
        depth_q <= fits ? requested : 16'd1;
        consumed_q <= 0;
      end else if (to_db && reg_wr_data - consumed_q <= unread) consumed_q <= reg_wr_data;
      if (m_wr_valid && m_wr_ready && (made_q & {16'd0, depth_q}) != 0) lapped_q <= 1'b1;
    end
    if (to_caps || rst) due_q <= 1'b0;
    else if (makes) due_q <= 1'b1;
    if (rst || to_caps) made_q <= 0;
    else if (makes) made_q <= made_q + 1;
    if (makes) begin
      place_q <= base_q + (slot << 6);
      phase_q <= (made_q & {16'd0, depth_q}) == 0;
    end
  end

  (* probe = "u_dut.write" *) wire makes;

  always @* begin
    if (!began_q) a_begin : assume (rst);
    if (began_q && !rst) begin
      h_ring :
      assert (dut_on == on_q && dut_reg == reg_q && dut_consumer == consumed_q
          && dut_producer == made_q && (!on_q || ({dut_base[63:6], 6'd0} == base_q
          && (16'd1 << dut_log) == depth_q && depth_q <= MAX_DEPTH)));
      h_empty : assert (on_q || !makes);
      h_last :
      assert (!due_q || (place_q == base_q + (last_slot << 6)
          && phase_q == ((last & {16'd0, depth_q}) == 0)));
      p_slot :
      assert (!m_wr_valid || (m_wr_addr == place_q
          && m_wr_data[`EFA_ADMIN_AENQ_ENTRY__AENQ_COMMON_DESC__PHASE] == phase_q));
      p_inside :
      assert (!(m_wr_valid && due_q) || (on_q && m_wr_addr - base_q < ({48'd0, depth_q} << 6)
          && (m_wr_addr - base_q) % 64 == 0));
      p_space : assert (on_q ? unread <= {16'd0, depth_q} : unread == 0 || !makes);
      p_once : assert (!m_wr_valid || !makes);
      p_note : assert (m_note_valid == (m_wr_valid && m_wr_ready));
      c_slot : cover (m_wr_valid && !phase_q && lapped_q && depth_q == 2);
      c_inside : cover (m_wr_valid && due_q && m_wr_addr - base_q == 64'd64);
      c_space :
      cover (on_q && unread == {16'd0, depth_q} && depth_q == 2 && s_aenq_valid && lapped_q);
      c_once : cover (m_wr_valid && waits_q && unread == 2 && s_aenq_valid);
      c_note : cover (m_note_valid && unread == 2);
    end
  end

endmodule
