// SPDX-License-Identifier: Apache-2.0
// efa_regs - holds the host registers: identity, status, and reads completed through memory.
//
// In    s_acc: BAR 0 dwords in bus order (efa_mmio); DEV_STS bits and s_resp_clear (efa_reset)
// Out   m_reg_wr: register stores for all units, none during a reset; m_ctl: stores to DEV_CTL
//       m_acc_rdata: value of a load, one cycle after s_acc
//       m_wr_reg: the response to an MMIO_REG_READ as an 8-byte write, also during a reset
//       m_cfg_acq_crc: the interface version has ACQ checksums
//       m_anomaly: an ignored store or a lost read
// Time  one store or load per cycle; a response is offered one cycle after its store and carries
//       the register value of that cycle; EFA_LIMITS__MMIO_READS responses may wait
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_regs #(
    parameter VECTORS = `EFA_LIMITS__MSIX_VECTORS
) (
    input  wire clk,
    input  wire rst,
    input  wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input  wire [1:0] s_cfg_sampled_interface,
    output wire m_cfg_acq_crc,
    input  wire s_in_reset,
    input  wire s_in_flr,
    input  wire s_resp_clear,
    input  wire s_sts_progress,
    input  wire s_sts_finished,
    input  wire s_acc_valid,
    input  wire s_acc_write,
    input  wire [31:0] s_acc_offset,
    input  wire [31:0] s_acc_data,
    output wire [31:0] m_acc_rdata,
    output wire m_reg_wr_valid,
    output wire [15:0] m_reg_wr_offset,
    output wire [31:0] m_reg_wr_data,
    output wire m_ctl_valid,
    output wire m_ctl_reset,
    output wire m_wr_reg_valid,
    input  wire m_wr_reg_ready,
    output wire [63:0] m_wr_reg_addr,
    output wire [63:0] m_wr_reg_data,
    output wire m_anomaly_valid,
    output wire [3:0] m_anomaly_kind,
    output wire [31:0] m_anomaly_detail
);

  localparam [31:0] TABLE = `EFA_LIMITS__MSIX_TABLE_OFFSET;
  localparam [31:0] TABLE_END = `EFA_LIMITS__MSIX_TABLE_OFFSET + 16 * VECTORS;
  localparam [31:0] VERSION_WITH_CRC = 32'd2;
  localparam READS_LOG2 = $clog2(`EFA_LIMITS__MMIO_READS);

  generate
    if ((1 << READS_LOG2) != `EFA_LIMITS__MMIO_READS) begin : g_illegal
      efa_regs_needs_mmio_reads_a_power_of_two u_illegal ();
    end
  endgenerate

  reg [31:0] resp_lo_q;
  reg [31:0] resp_hi_q;
  reg [31:0] rdata_q;

  // A strap of 0 selects the version of the profile.
  wire [31:0] profile_version = `EFA_PROFILE__VERSION(32, s_cfg_profile);
  wire [31:0] version = s_cfg_sampled_interface == 2'd0 ? profile_version : {30'd0, s_cfg_sampled_interface};
  assign m_cfg_acq_crc = version >= VERSION_WITH_CRC;

  reg [31:0] caps;
  reg [31:0] dev_sts;
  always @* begin
    caps = 32'd0;
    caps[`EFA_REG__CAPS__CONTIGUOUS_QUEUE_REQUIRED] = 1'b1;
    caps[`EFA_REG__CAPS__RESET_TIMEOUT] = `EFA_PROFILE__RESET_TIMEOUT(5, s_cfg_profile);
    caps[`EFA_REG__CAPS__DMA_ADDR_WIDTH] = `EFA_PROFILE__DMA_ADDR_WIDTH(8, s_cfg_profile);
    caps[`EFA_REG__CAPS__ADMIN_CMD_TO] = `EFA_PROFILE__ADMIN_CMD_TO(4, s_cfg_profile);
    dev_sts = 32'd0;
    dev_sts[`EFA_REG__DEV_STS__READY] = 1'b1;
    dev_sts[`EFA_REG__DEV_STS__RESET_IN_PROGRESS] = s_sts_progress;
    dev_sts[`EFA_REG__DEV_STS__RESET_FINISHED] = s_sts_finished;
  end

  function stored;  // stores are valid at this offset
    input [15:0] offset;
    case (offset)
      `EFA_REG__AQ_BASE_LO, `EFA_REG__AQ_BASE_HI, `EFA_REG__AQ_CAPS, `EFA_REG__AQ_PROD_DB,
      `EFA_REG__ACQ_BASE_LO, `EFA_REG__ACQ_BASE_HI, `EFA_REG__ACQ_CAPS,
      `EFA_REG__AENQ_BASE_LO, `EFA_REG__AENQ_BASE_HI, `EFA_REG__AENQ_CAPS,
      `EFA_REG__AENQ_CONS_DB, `EFA_REG__INTR_MASK, `EFA_REG__DEV_CTL, `EFA_REG__MMIO_REG_READ,
      `EFA_REG__MMIO_RESP_LO, `EFA_REG__MMIO_RESP_HI, `EFA_REG__EQ_DB:
      stored = 1'b1;
      default: stored = 1'b0;
    endcase
  endfunction

  function [31:0] value;  // value of a load at this offset
    input [15:0] offset;
    input known;
    input [31:0] controller_now;
    input [31:0] version_now;
    input [31:0] caps_now;
    input [31:0] sts_now;
    case (offset)
      `EFA_REG__VERSION: value = version_now;
      `EFA_REG__CONTROLLER_VERSION:
      value = controller_now;
      `EFA_REG__CAPS: value = caps_now;
      `EFA_REG__DEV_STS: value = sts_now;
      default: value = known ? 32'd0 : `EFA_MMIO_READ_INVALID;
    endcase
  endfunction

  wire [15:0] offset = s_acc_offset[15:0];
  wire near = s_acc_offset < TABLE;
  wire in_table = s_acc_offset >= TABLE && s_acc_offset < TABLE_END;
  wire store = s_acc_valid && s_acc_write && near && !s_in_flr;
  wire read_request = store && offset == `EFA_REG__MMIO_REG_READ;

  assign m_reg_wr_valid = store && !s_in_reset;
  assign m_reg_wr_offset = offset;
  assign m_reg_wr_data = s_acc_data;
  assign m_ctl_valid = store && offset == `EFA_REG__DEV_CTL;
  assign m_ctl_reset = s_acc_data[`EFA_REG__DEV_CTL__DEV_RESET];

  always @(posedge clk) begin
    if (rst || s_resp_clear) begin
      resp_lo_q <= 32'd0;
      resp_hi_q <= 32'd0;
    end else if (store) begin
      if (offset == `EFA_REG__MMIO_RESP_LO) resp_lo_q <= s_acc_data;
      if (offset == `EFA_REG__MMIO_RESP_HI) resp_hi_q <= s_acc_data;
    end
  end

  wire offset_stored = stored(offset);
  wire [31:0] controller = `EFA_PROFILE__CONTROLLER_VERSION(32, s_cfg_profile);
  wire [31:0] loaded = value(offset, offset_stored, controller, version, caps, dev_sts);
  always @(posedge clk) rdata_q <= near ? loaded : `EFA_MMIO_READ_INVALID;

  assign m_acc_rdata = rdata_q;

  wire [15:0] requested_offset = s_acc_data[`EFA_REG__MMIO_REG_READ__REG_OFF];
  wire requested_stored = stored(requested_offset);
  wire [31:0] requested_value =
      value(requested_offset, requested_stored, controller, version, caps, dev_sts);
  reg [63:0] response;
  always @* begin
    response[`EFA_ADMIN_MMIO_REQ_READ_LESS_RESP__REQ_ID] = s_acc_data[`EFA_REG__MMIO_REG_READ__REQ_ID];
    response[`EFA_ADMIN_MMIO_REQ_READ_LESS_RESP__REG_OFF] = requested_offset;
    response[`EFA_ADMIN_MMIO_REQ_READ_LESS_RESP__REG_VAL] = requested_value;
  end

  wire req_ready;
  wire [READS_LOG2:0] unused_level;

  efa_fifo #(
      .WIDTH(64 + 61),
      .DEPTH_LOG2(READS_LOG2)
  ) u_reads (
      .clk(clk),
      .rst(rst),
      .s_valid(read_request),
      .s_ready(req_ready),
      .s_data({resp_hi_q, resp_lo_q[31:3], response}),
      .m_valid(m_wr_reg_valid),
      .m_ready(m_wr_reg_ready),
      .m_data({m_wr_reg_addr[63:3], m_wr_reg_data}),
      .m_level(unused_level)
  );

  assign m_wr_reg_addr[2:0] = 3'd0;

  wire lost = read_request && !req_ready;
  wire ignored = s_acc_valid && s_acc_write && !in_table && !(near && stored(offset));

  assign m_anomaly_valid = lost || ignored;
  assign m_anomaly_kind = lost ? `EFA_ANOMALY_HOST__READ_LOST : `EFA_ANOMALY_HOST__REGISTER;
  assign m_anomaly_detail = lost ? s_acc_data : s_acc_offset;

  wire unused_regs = &{1'b0, unused_level, s_acc_offset[31:16], resp_lo_q[2:0]};

endmodule

`default_nettype wire
