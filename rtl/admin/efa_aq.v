// SPDX-License-Identifier: Apache-2.0
// efa_aq - holds the AQ and ACQ registers, validates AQ doorbells, requests admin interrupts.
//
// In    s_reg_wr: register stores; s_aq_consumed: an AQE is fetched; s_note: a response is written;
//       s_aenq: an asynchronous event is written; s_cfg_aenq_vector: the vector of these events
// Out   m_cfg_*: ring set-up, m_*_start for one cycle when a ring is set up; m_irq: one request
//       for all pending notes of a vector, with the vector that is set up when the request is
//       formed; ev_anomaly: ignored doorbells
// Time  a store takes effect in 1 cycle, one per cycle; a note becomes a request in 2 cycles, or
//       when INTR_MASK is cleared
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_aq (
    input wire clk,
    input wire rst,
    input wire s_reg_wr_valid,
    input wire [15:0] s_reg_wr_offset,
    input wire [31:0] s_reg_wr_data,

    output wire m_cfg_rings_on,
    output wire m_aq_start,
    output wire [63:0] m_cfg_aq_base,
    output wire [3:0] m_cfg_aq_log,
    output wire m_cfg_aq_wide,
    output wire [15:0] m_aq_producer,
    input wire s_aq_consumed,

    output wire m_cfg_acq_on,
    output wire m_acq_start,
    output wire [63:0] m_cfg_acq_base,
    output wire [3:0] m_cfg_acq_log,

    input wire s_note_valid,
    input wire s_aenq_valid,
    input wire [7:0] s_cfg_aenq_vector,
    output wire m_irq_valid,
    input wire m_irq_ready,
    output wire [7:0] m_irq_vector,

    output wire ev_anomaly_valid,
    output wire [63:0] ev_anomaly_data
);

  localparam [15:0] ENTRY_BYTES = `EFA_ADMIN_AQ_ENTRY__BYTES;
  localparam [15:0] WIDE_BYTES = `EFA_ADMIN_AQ_ENTRY_V2__BYTES;
  localparam [15:0] MAX_DEPTH = `EFA_LIMITS__MAX_AQ_DEPTH;

  reg [63:0] aq_base_reg_q;
  reg [63:0] acq_base_reg_q;
  reg [63:0] aq_base_q;
  reg [63:0] acq_base_q;
  reg aq_on_q;
  reg acq_on_q;
  reg aq_start_q;
  reg acq_start_q;
  reg [3:0] aq_log_q;
  reg aq_wide_q;
  reg [3:0] acq_log_q;
  reg [7:0] acq_vector_q;
  reg [15:0] producer_q;
  reg [15:0] consumed_q;
  reg mask_q;
  reg due_q;
  reg aenq_due_q;
  reg irq_valid_q;
  reg [7:0] irq_vector_q;
  reg anomaly_valid_q;
  reg [31:0] anomaly_detail_q;

  `include "efa_admin_fn.vh"

  wire [15:0] aq_size = s_reg_wr_data[`EFA_REG__AQ_CAPS__AQ_ENTRY_SIZE];
  wire aq_ok = depth_ok(
      s_reg_wr_data[`EFA_REG__AQ_CAPS__AQ_DEPTH], MAX_DEPTH
  ) && (aq_size == ENTRY_BYTES || aq_size == WIDE_BYTES);
  wire acq_ok = depth_ok(
      s_reg_wr_data[`EFA_REG__ACQ_CAPS__ACQ_DEPTH], MAX_DEPTH
  ) && s_reg_wr_data[`EFA_REG__ACQ_CAPS__ACQ_ENTRY_SIZE] == ENTRY_BYTES[7:0];

  wire to_aq_caps = s_reg_wr_valid && s_reg_wr_offset == `EFA_REG__AQ_CAPS;
  wire to_acq_caps = s_reg_wr_valid && s_reg_wr_offset == `EFA_REG__ACQ_CAPS;
  wire to_aq_db = s_reg_wr_valid && s_reg_wr_offset == `EFA_REG__AQ_PROD_DB;

  // AQEs that the doorbell posts, and free slots of the ring.
  wire [15:0] posted = s_reg_wr_data[15:0] - producer_q;
  wire [15:0] space = (16'd1 << aq_log_q) - (producer_q - consumed_q);
  wire ring_ok = aq_on_q && posted <= space;

  // One request reports all pending notes of its vector.
  wire send = (due_q || aenq_due_q) && !mask_q && (!irq_valid_q || m_irq_ready);
  wire [7:0] vector = due_q ? acq_vector_q : s_cfg_aenq_vector;
  wire reports = send && vector == acq_vector_q;
  wire reports_aenq = send && vector == s_cfg_aenq_vector;

  assign m_cfg_rings_on = aq_on_q && acq_on_q;
  assign m_aq_start = aq_start_q;
  assign m_cfg_aq_base = aq_base_q;
  assign m_cfg_aq_log = aq_log_q;
  assign m_cfg_aq_wide = aq_wide_q;
  assign m_aq_producer = producer_q;
  assign m_cfg_acq_on = acq_on_q;
  assign m_acq_start = acq_start_q;
  assign m_cfg_acq_base = acq_base_q;
  assign m_cfg_acq_log = acq_log_q;
  assign m_irq_valid = irq_valid_q;
  assign m_irq_vector = irq_vector_q;
  assign ev_anomaly_valid = anomaly_valid_q;
  assign ev_anomaly_data = {{64 - `EFA_EV_ANOMALY_ADMIN__W{1'b0}}, anomaly_detail_q, `EFA_ANOMALY_ADMIN__AQ_DOORBELL};

  always @(posedge clk) begin
    if (rst) begin
      aq_base_reg_q <= 64'd0;
      acq_base_reg_q <= 64'd0;
      aq_on_q <= 1'b0;
      acq_on_q <= 1'b0;
      aq_start_q <= 1'b0;
      acq_start_q <= 1'b0;
      aq_log_q <= 4'd0;
      producer_q <= 16'd0;
      consumed_q <= 16'd0;
      mask_q <= 1'b0;
      due_q <= 1'b0;
      aenq_due_q <= 1'b0;
      irq_valid_q <= 1'b0;
      anomaly_valid_q <= 1'b0;
    end else begin
      aq_start_q  <= to_aq_caps && aq_ok;
      acq_start_q <= to_acq_caps && acq_ok;
      anomaly_valid_q <= to_aq_db && !ring_ok;
      if (s_aq_consumed) consumed_q <= consumed_q + 16'd1;
      if (to_aq_caps) begin
        aq_on_q <= aq_ok;
        producer_q <= 16'd0;
        consumed_q <= 16'd0;
        aq_log_q <= log2(s_reg_wr_data[`EFA_REG__AQ_CAPS__AQ_DEPTH]);
      end else if (to_aq_db && ring_ok) begin
        producer_q <= s_reg_wr_data[15:0];
      end
      if (to_acq_caps) acq_on_q <= acq_ok;
      if (s_reg_wr_valid) begin
        case (s_reg_wr_offset)
          `EFA_REG__AQ_BASE_LO:  aq_base_reg_q[31:0] <= s_reg_wr_data;
          `EFA_REG__AQ_BASE_HI:  aq_base_reg_q[63:32] <= s_reg_wr_data;
          `EFA_REG__ACQ_BASE_LO: acq_base_reg_q[31:0] <= s_reg_wr_data;
          `EFA_REG__ACQ_BASE_HI: acq_base_reg_q[63:32] <= s_reg_wr_data;
          `EFA_REG__INTR_MASK:   mask_q <= s_reg_wr_data[`EFA_REG__INTR_MASK__EN];
          default: begin
          end
        endcase
      end
      if (s_note_valid) due_q <= 1'b1;
      else if (reports) due_q <= 1'b0;
      if (s_aenq_valid) aenq_due_q <= 1'b1;
      else if (reports_aenq) aenq_due_q <= 1'b0;
      if (send) irq_valid_q <= 1'b1;
      else if (m_irq_ready) irq_valid_q <= 1'b0;
    end
  end

  always @(posedge clk) begin
    if (to_aq_caps) begin
      aq_base_q <= aq_base_reg_q;
      aq_wide_q <= aq_size == WIDE_BYTES;
    end
    if (to_acq_caps) begin
      acq_base_q <= acq_base_reg_q;
      acq_log_q <= log2(s_reg_wr_data[`EFA_REG__ACQ_CAPS__ACQ_DEPTH]);
      acq_vector_q <= s_reg_wr_data[`EFA_REG__ACQ_CAPS__ACQ_MSIX_VECTOR];
    end
    if (send) irq_vector_q <= vector;
    anomaly_detail_q <= s_reg_wr_data;
  end

  `EFA_CHECK(!(s_aq_consumed && !to_aq_caps && producer_q == consumed_q),
             "AQE consumed that was not posted")

endmodule

`default_nettype wire
