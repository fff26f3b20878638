// SPDX-License-Identifier: Apache-2.0
// efa_aq - holds the AQ and ACQ registers, validates AQ doorbells, requests admin interrupts.
//
// In    reg_wr: register stores; aq_consumed: an AQE is fetched; s_note: a response is written;
//       s_aenq: an asynchronous event is written; aenq_vector: the vector of these events
// Out   aq_*, acq_*: ring set-up, *_start for one cycle when a ring is set up; irq: one request
//       for all pending notes of a vector, with the vector that is set up when the request is
//       formed; ev_odd: ignored doorbells
// Time  a store takes effect in 1 cycle, one per cycle; a note becomes a request in 2 cycles, or
//       when INTR_MASK is cleared
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_aq (
    input wire clk,
    input wire rst,
    input wire reg_wr_valid,
    input wire [15:0] reg_wr_offset,
    input wire [31:0] reg_wr_data,

    output wire rings_on,
    output wire aq_start,
    output wire [63:0] aq_base,
    output wire [3:0] aq_log,
    output wire aq_wide,
    output wire [15:0] aq_producer,
    input wire aq_consumed,

    output wire acq_on,
    output wire acq_start,
    output wire [63:0] acq_base,
    output wire [3:0] acq_log,

    input wire s_note_valid,
    input wire s_aenq_valid,
    input wire [7:0] aenq_vector,
    output wire irq_valid,
    input wire irq_ready,
    output wire [7:0] irq_vector,

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

  wire [15:0] aq_size = reg_wr_data[`EFA_REG__AQ_CAPS__AQ_ENTRY_SIZE];
  wire aq_ok = depth_ok(
      reg_wr_data[`EFA_REG__AQ_CAPS__AQ_DEPTH], MAX_DEPTH
  ) && (aq_size == ENTRY_BYTES || aq_size == WIDE_BYTES);
  wire acq_ok = depth_ok(
      reg_wr_data[`EFA_REG__ACQ_CAPS__ACQ_DEPTH], MAX_DEPTH
  ) && reg_wr_data[`EFA_REG__ACQ_CAPS__ACQ_ENTRY_SIZE] == ENTRY_BYTES[7:0];

  wire to_aq_caps = reg_wr_valid && reg_wr_offset == `EFA_REG__AQ_CAPS;
  wire to_acq_caps = reg_wr_valid && reg_wr_offset == `EFA_REG__ACQ_CAPS;
  wire to_aq_db = reg_wr_valid && reg_wr_offset == `EFA_REG__AQ_PROD_DB;

  // AQEs that the doorbell posts, and free slots of the ring.
  wire [15:0] rung = reg_wr_data[15:0] - producer_q;
  wire [15:0] space = (16'd1 << aq_log_q) - (producer_q - consumed_q);
  wire ring_ok = aq_on_q && rung <= space;

  // One request reports all pending notes of its vector.
  wire send = (due_q || aenq_due_q) && !mask_q && (!irq_valid_q || irq_ready);
  wire [7:0] vector = due_q ? acq_vector_q : aenq_vector;
  wire reports = send && vector == acq_vector_q;
  wire reports_aenq = send && vector == aenq_vector;

  assign rings_on = aq_on_q && acq_on_q;
  assign aq_start = aq_start_q;
  assign aq_base = aq_base_q;
  assign aq_log = aq_log_q;
  assign aq_wide = aq_wide_q;
  assign aq_producer = producer_q;
  assign acq_on = acq_on_q;
  assign acq_start = acq_start_q;
  assign acq_base = acq_base_q;
  assign acq_log = acq_log_q;
  assign irq_valid = irq_valid_q;
  assign irq_vector = irq_vector_q;
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
      if (aq_consumed) consumed_q <= consumed_q + 16'd1;
      if (to_aq_caps) begin
        aq_on_q <= aq_ok;
        producer_q <= 16'd0;
        consumed_q <= 16'd0;
        aq_log_q <= log2(reg_wr_data[`EFA_REG__AQ_CAPS__AQ_DEPTH]);
      end else if (to_aq_db && ring_ok) begin
        producer_q <= reg_wr_data[15:0];
      end
      if (to_acq_caps) acq_on_q <= acq_ok;
      if (reg_wr_valid) begin
        case (reg_wr_offset)
          `EFA_REG__AQ_BASE_LO:  aq_base_reg_q[31:0] <= reg_wr_data;
          `EFA_REG__AQ_BASE_HI:  aq_base_reg_q[63:32] <= reg_wr_data;
          `EFA_REG__ACQ_BASE_LO: acq_base_reg_q[31:0] <= reg_wr_data;
          `EFA_REG__ACQ_BASE_HI: acq_base_reg_q[63:32] <= reg_wr_data;
          `EFA_REG__INTR_MASK:   mask_q <= reg_wr_data[`EFA_REG__INTR_MASK__EN];
          default: begin
          end
        endcase
      end
      if (s_note_valid) due_q <= 1'b1;
      else if (reports) due_q <= 1'b0;
      if (s_aenq_valid) aenq_due_q <= 1'b1;
      else if (reports_aenq) aenq_due_q <= 1'b0;
      if (send) irq_valid_q <= 1'b1;
      else if (irq_ready) irq_valid_q <= 1'b0;
    end
  end

  always @(posedge clk) begin
    if (to_aq_caps) begin
      aq_base_q <= aq_base_reg_q;
      aq_wide_q <= aq_size == WIDE_BYTES;
    end
    if (to_acq_caps) begin
      acq_base_q <= acq_base_reg_q;
      acq_log_q <= log2(reg_wr_data[`EFA_REG__ACQ_CAPS__ACQ_DEPTH]);
      acq_vector_q <= reg_wr_data[`EFA_REG__ACQ_CAPS__ACQ_MSIX_VECTOR];
    end
    if (send) irq_vector_q <= vector;
    anomaly_detail_q <= reg_wr_data;
  end

  `EFA_CHECK(!(aq_consumed && !to_aq_caps && producer_q == consumed_q),
             "AQE consumed that was not posted")

endmodule

`default_nettype wire
