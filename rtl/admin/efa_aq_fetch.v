// SPDX-License-Identifier: Apache-2.0
// efa_aq_fetch - fetches posted AQEs in ring order with up to eight reads outstanding.
//
// In    ring set-up and producer index; s_line: AQEs read from host memory
// Out   m_line: reads; m_cmd: AQEs in ring order, err: the read failed, bad: the checksum or
//       payload version is wrong; m_aq_consumed: an AQE is fetched; ev_anomaly: an AQE with a wrong
//       phase bit, a wrong checksum or a failed read
// Time  read in the cycle of the new producer index, command in the cycle of its line, one of each
//       per cycle; disabling the ring withdraws a waiting read or command, a new set-up drops the
//       outstanding reads of the old ring
`default_nettype none
`include "efa_defs.vh"

module efa_aq_fetch (
    input wire clk,
    input wire rst,
    input wire s_cfg_rings_on,
    input wire s_aq_start,
    input wire [63:0] s_cfg_aq_base,
    input wire [3:0] s_cfg_aq_log,
    input wire s_cfg_aq_wide,
    input wire [15:0] s_aq_producer,
    output wire m_aq_consumed,

    output wire m_line_valid,
    input wire m_line_ready,
    output wire [63:0] m_line_addr,
    output wire m_line_wide,
    input wire s_line_valid,
    output wire s_line_ready,
    input wire [511:0] s_line_data,
    input wire s_line_err,
    input wire s_line_bad,

    output wire m_cmd_valid,
    input wire m_cmd_ready,
    output wire [511:0] m_cmd_data,
    output wire m_cmd_err,
    output wire m_cmd_bad,

    output wire ev_anomaly_valid,
    output wire [63:0] ev_anomaly_data
);

  localparam SLOT_W = $clog2(`EFA_LIMITS__MAX_AQ_DEPTH);

  reg [15:0] requested_q;
  reg [15:0] fetched_q;
  reg [15:0] drop_q;  // outstanding reads of old rings
  reg anomaly_valid_q;
  reg [3:0] anomaly_kind_q;
  reg [31:0] anomaly_detail_q;

  wire [SLOT_W-1:0] slot = requested_q[SLOT_W-1:0] & ~({SLOT_W{1'b1}} << s_cfg_aq_log);
  wire dropping = drop_q != 16'd0;
  wire request = m_line_valid && m_line_ready;
  wire drop = dropping && s_line_valid;
  wire take = m_cmd_valid && m_cmd_ready;
  wire phase_wrong = s_line_data[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__PHASE]
      == fetched_q[s_cfg_aq_log];

  assign m_line_valid = s_cfg_rings_on && !s_aq_start && requested_q != s_aq_producer;
  wire [57:0] place = s_cfg_aq_wide ? {{57 - SLOT_W{1'b0}}, slot, 1'b0} : {{58 - SLOT_W{1'b0}}, slot};
  assign m_line_addr = {s_cfg_aq_base[63:6] + place, 6'd0};
  assign m_line_wide = s_cfg_aq_wide;
  // A line of a disabled ring waits until the ring is enabled, or is dropped by a new set-up.
  assign s_line_ready = !s_aq_start && (dropping || s_cfg_rings_on && m_cmd_ready);
  assign m_cmd_valid = s_line_valid && s_cfg_rings_on && !s_aq_start && !dropping;
  assign m_cmd_data = s_line_data;
  assign m_cmd_err = s_line_err;
  assign m_cmd_bad = s_line_bad;
  assign m_aq_consumed = take;
  assign ev_anomaly_valid = anomaly_valid_q;
  assign ev_anomaly_data  = {{64 - `EFA_EV_ANOMALY_ADMIN__W{1'b0}}, anomaly_detail_q, anomaly_kind_q};

  always @(posedge clk) begin
    if (rst) begin
      requested_q <= 16'd0;
      fetched_q <= 16'd0;
      drop_q <= 16'd0;
      anomaly_valid_q <= 1'b0;
    end else begin
      anomaly_valid_q <= take && (s_line_err || s_line_bad || phase_wrong);
      if (s_aq_start) begin
        requested_q <= 16'd0;
        fetched_q  <= 16'd0;
        drop_q  <= drop_q + (requested_q - fetched_q);
      end else begin
        if (request) requested_q <= requested_q + 16'd1;
        if (take) fetched_q <= fetched_q + 16'd1;
        if (drop) drop_q <= drop_q - 16'd1;
      end
    end
  end

  always @(posedge clk) begin
    anomaly_kind_q   <= s_line_err ? `EFA_ANOMALY_ADMIN__AQ_READ
        : s_line_bad ? `EFA_ANOMALY_ADMIN__AQ_CHECKSUM : `EFA_ANOMALY_ADMIN__AQ_PHASE;
    anomaly_detail_q <= {16'd0, fetched_q};
  end

  wire unused_base = &{1'b0, s_cfg_aq_base[5:0]};

endmodule

`default_nettype wire
