// SPDX-License-Identifier: Apache-2.0
// fv_admin_rings - proves the admin rings: efa_aq, efa_aq_fetch and efa_acq_write against the
// interface sheet. For any register stores in any order: only posted AQEs are read, in order, each
// once, inside the ring; responses fill the slots of the ACQ in order.
`include "efa_defs.vh"
`include "efa_admin.vh"

module fv_admin_rings #(
    parameter SOURCES = 2
) (
    input wire clk,
    input wire rst,
    input wire reg_wr_valid,
    input wire [15:0] reg_wr_offset,
    input wire [31:0] reg_wr_data,
    input wire irq_ready,
    input wire m_line_ready,
    input wire s_line_valid,
    input wire s_line_err,
    input wire s_line_bad,
    input wire m_cmd_ready,
    input wire acq_crc,
    input wire [SOURCES-1:0] s_rsp_valid,
    input wire [12*SOURCES-1:0] s_rsp_id,
    input wire [8*SOURCES-1:0] s_rsp_status,
    input wire m_wr_ready
);

  wire rings_on;
  wire aq_start;
  wire [63:0] aq_base;
  wire [3:0] aq_log;
  wire aq_wide;
  wire [15:0] aq_producer;
  wire aq_consumed;
  wire acq_on;
  wire acq_start;
  wire [63:0] acq_base;
  wire [3:0] acq_log;
  wire m_note_valid;
  wire m_line_valid;
  wire [63:0] m_line_addr;
  wire m_line_wide;
  wire s_line_ready;
  wire m_cmd_valid;
  wire m_wr_valid;
  wire [63:0] m_wr_addr;
  wire [511:0] m_wr_data;

  efa_aq u_aq (
      .clk(clk),
      .rst(rst),
      .s_reg_wr_valid(reg_wr_valid),
      .s_reg_wr_offset(reg_wr_offset),
      .s_reg_wr_data(reg_wr_data),
      .m_cfg_rings_on(rings_on),
      .m_aq_start(aq_start),
      .m_cfg_aq_base(aq_base),
      .m_cfg_aq_log(aq_log),
      .m_cfg_aq_wide(aq_wide),
      .m_aq_producer(aq_producer),
      .s_aq_consumed(aq_consumed),
      .m_cfg_acq_on(acq_on),
      .m_acq_start(acq_start),
      .m_cfg_acq_base(acq_base),
      .m_cfg_acq_log(acq_log),
      .s_note_valid(m_note_valid),
      .s_aenq_valid(1'b0),
      .s_cfg_aenq_vector(8'd0),
      .m_irq_ready(irq_ready)
  );

  efa_aq_fetch u_fetch (
      .clk(clk),
      .rst(rst),
      .s_cfg_rings_on(rings_on),
      .s_aq_start(aq_start),
      .s_cfg_aq_base(aq_base),
      .s_cfg_aq_log(aq_log),
      .s_cfg_aq_wide(aq_wide),
      .s_aq_producer(aq_producer),
      .m_aq_consumed(aq_consumed),
      .m_line_valid(m_line_valid),
      .m_line_ready(m_line_ready),
      .m_line_addr(m_line_addr),
      .m_line_wide(m_line_wide),
      .s_line_valid(s_line_valid),
      .s_line_ready(s_line_ready),
      .s_line_data(512'd0),
      .s_line_err(s_line_err),
      .s_line_bad(s_line_bad),
      .m_cmd_valid(m_cmd_valid),
      .m_cmd_ready(m_cmd_ready)
  );

  efa_acq_write #(
      .SOURCES(SOURCES)
  ) u_post (
      .clk(clk),
      .rst(rst),
      .s_cfg_acq_on(acq_on),
      .s_cfg_acq_crc(acq_crc),
      .s_acq_start(acq_start),
      .s_cfg_acq_base(acq_base),
      .s_cfg_acq_log(acq_log),
      .s_rsp_valid(s_rsp_valid),
      .s_rsp_id(s_rsp_id),
      .s_rsp_status(s_rsp_status),
      .s_rsp_body({`EFA_ADMIN_BODY_W * SOURCES{1'b0}}),
      .m_wr_valid(m_wr_valid),
      .m_wr_ready(m_wr_ready),
      .m_wr_addr(m_wr_addr),
      .m_wr_data(m_wr_data),
      .m_note_valid(m_note_valid)
  );

  (* probe = "u_aq.aq_on_q" *) wire dut_on;
  (* probe = "u_aq.aq_base_reg_q" *) wire [63:0] dut_base_reg;
  (* probe = "u_aq.acq_base_reg_q" *) wire [63:0] dut_acq_base_reg;
  (* probe = "u_aq.consumed_q" *) wire [15:0] dut_consumed;
  (* probe = "u_fetch.requested_q" *) wire [15:0] dut_requested;
  (* probe = "u_fetch.fetched_q" *) wire [15:0] dut_fetched;
  (* probe = "u_fetch.drop_q" *) wire [15:0] dut_drop;
  (* probe = "u_post.state_q" *) wire [2:0] post;
  (* probe = "u_post.count_q" *) wire [10:0] dut_count;
  (* probe = "u_post.line_q" *) wire [57:0] dut_line;
  (* probe = "u_post.entry_q" *) wire [511:0] dut_entry;

  localparam [2:0] POST_ENTRY = 3'd1;
  localparam [15:0] MAX_DEPTH = `EFA_LIMITS__MAX_AQ_DEPTH;

  wire to_aq = reg_wr_valid && reg_wr_offset == `EFA_REG__AQ_CAPS;
  wire to_acq = reg_wr_valid && reg_wr_offset == `EFA_REG__ACQ_CAPS;
  wire to_db = reg_wr_valid && reg_wr_offset == `EFA_REG__AQ_PROD_DB;
  wire [15:0] aq_depth = reg_wr_data[`EFA_REG__AQ_CAPS__AQ_DEPTH];
  wire [15:0] aq_size = reg_wr_data[`EFA_REG__AQ_CAPS__AQ_ENTRY_SIZE];
  wire [15:0] acq_depth = reg_wr_data[`EFA_REG__ACQ_CAPS__ACQ_DEPTH];

  function fits(input [15:0] depth);
    fits = depth != 0 && depth <= MAX_DEPTH && (depth & (depth - 16'd1)) == 0;
  endfunction

  // The AQ as configured: its posted, requested and forwarded AQEs, and reads of a previous ring.
  reg began_q = 1'b0;
  reg [63:0] reg_q;
  reg on_q;
  reg [63:0] base_q;
  reg [15:0] depth_q;
  reg wide_q;
  reg start_q;
  reg [15:0] posted_q;
  reg [15:0] requested_q;
  reg [15:0] fetched_q;
  reg [15:0] old_q;
  wire request = m_line_valid && m_line_ready;
  wire give = m_cmd_valid && m_cmd_ready;
  wire arrived = s_line_valid && s_line_ready;
  wire valid_db = on_q && reg_wr_data[15:0] - posted_q <= depth_q - (posted_q - fetched_q);
  wire [63:0] from_base = m_line_addr - base_q;

  // The ACQ, and the responses that have a slot.
  reg [63:0] acq_reg_q;
  reg [63:0] acq_base_q;
  reg [15:0] acq_depth_q;
  reg acq_on_q;
  reg [15:0] count_q;
  reg [63:0] place_q;
  reg phase_q;
  wire entry = post == POST_ENTRY && acq_on_q;
  wire [63:0] acq_slot = {48'd0, count_q & (acq_depth_q - 16'd1)};

  always @(posedge clk) begin
    began_q <= 1'b1;
    start_q <= !rst && to_aq && fits(aq_depth) && (aq_size == 64 || aq_size == 128);
    if (rst) begin
      reg_q <= 0;
      on_q <= 1'b0;
      posted_q <= 0;
      requested_q <= 0;
      fetched_q <= 0;
      old_q <= 0;
      depth_q <= 1;
      acq_reg_q <= 0;
      acq_on_q <= 1'b0;
      count_q <= 0;
    end else begin
      if (reg_wr_valid && reg_wr_offset == `EFA_REG__AQ_BASE_LO) reg_q[31:0] <= reg_wr_data;
      if (reg_wr_valid && reg_wr_offset == `EFA_REG__AQ_BASE_HI) reg_q[63:32] <= reg_wr_data;
      if (reg_wr_valid && reg_wr_offset == `EFA_REG__ACQ_BASE_LO) acq_reg_q[31:0] <= reg_wr_data;
      if (reg_wr_valid && reg_wr_offset == `EFA_REG__ACQ_BASE_HI) acq_reg_q[63:32] <= reg_wr_data;
      if (to_aq) begin
        on_q <= fits(aq_depth) && (aq_size == 64 || aq_size == 128);
        base_q <= {reg_q[63:6], 6'd0};
        depth_q <= aq_depth;
        wide_q <= aq_size == 128;
        posted_q <= 0;
      end else if (to_db && valid_db) posted_q <= reg_wr_data[15:0];
      if (to_aq) fetched_q <= 0;
      else if (give) fetched_q <= fetched_q + 1;
      // Reads of a ring are abandoned when the next ring starts.
      if (start_q) begin
        requested_q <= 0;
        old_q   <= old_q + requested_q;
      end else begin
        requested_q <= requested_q + request - give;
        old_q   <= old_q - (arrived && !give);
      end
      if (to_acq) begin
        acq_on_q <= fits(acq_depth) && reg_wr_data[`EFA_REG__ACQ_CAPS__ACQ_ENTRY_SIZE] == 64;
        acq_base_q <= {acq_reg_q[63:6], 6'd0};
        acq_depth_q <= acq_depth;
        count_q <= 0;
      end else if (entry) count_q <= count_q + 1;
    end
    if (entry) begin
      place_q <= acq_base_q + (acq_slot << 6);
      phase_q <= (count_q & acq_depth_q) == 0;
    end
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    // A line is returned only for a requested read; outstanding reads are at most those of
    // efa_dma_line_rd.
    a_read : assume (!s_line_valid || requested_q + old_q != 0);
    a_reads : assume (!request || requested_q + old_q < 16);
    if (began_q && !rst) begin
      h_ring :
      assert (dut_on == on_q && dut_base_reg == reg_q && dut_acq_base_reg == acq_reg_q
          && (!on_q || ({aq_base[63:6], 6'd0} == base_q && (16'd1 << aq_log) == depth_q
          && aq_wide == wide_q && aq_producer == posted_q && fits(
          depth_q
      ))));
      h_start :
      assert (aq_start == start_q && (!start_q || (on_q && fetched_q == 0 && posted_q == 0)));
      h_counts :
      assert (dut_consumed == fetched_q && dut_drop == old_q && dut_requested - dut_fetched == requested_q
          && requested_q <= 16 && old_q <= 16 && requested_q + old_q <= 16);
      h_fetched :
      assert (!on_q || start_q || (dut_fetched == fetched_q && posted_q - fetched_q <= depth_q
          && requested_q <= posted_q - fetched_q));
      h_acq :
      assert (acq_on == acq_on_q && (!acq_on_q || ({acq_base[63:6], 6'd0} == acq_base_q
          && (16'd1 << acq_log) == acq_depth_q && fits(
          acq_depth_q
      ))));
      h_slot :
      assert (post < 3'd2 || post > 3'd4 || ({dut_line, 6'd0} == place_q
          && dut_entry[`EFA_ADMIN_ACQ_ENTRY__ACQ_COMMON_DESCRIPTOR__PHASE] == phase_q));
      h_count : assert (!acq_on_q || acq_start || dut_count == count_q[10:0]);
      p_inside :
      assert (!m_line_valid || (from_base < ({48'd0, depth_q} << (wide_q ? 7 : 6))
          && (wide_q ? from_base[6:0] : {1'b0, from_base[5:0]}) == 0));
      p_order :
      assert (!m_line_valid || (m_line_wide == wide_q && from_base == ({48'd0, (fetched_q + requested_q)
          & (depth_q - 16'd1)} << (wide_q ? 7 : 6))));
      p_posted : assert (!m_line_valid || (rings_on && requested_q < posted_q - fetched_q));
      p_space : assert (!on_q || posted_q - fetched_q <= depth_q);
      p_slot :
      assert (!m_wr_valid || (m_wr_addr == place_q
          && m_wr_data[`EFA_ADMIN_ACQ_ENTRY__ACQ_COMMON_DESCRIPTOR__PHASE] == phase_q));
      c_inside : cover (request && wide_q && from_base[7] && depth_q == 2);
      c_order : cover (request && fetched_q == 1 && requested_q == 1 && depth_q == 2);
      c_posted : cover (request && requested_q == 1 && posted_q == 2 && old_q == 1);
      c_space : cover (on_q && posted_q - fetched_q == depth_q && fetched_q == 1);
      c_slot : cover (m_wr_valid && !phase_q && place_q[6]);
    end
  end


endmodule
