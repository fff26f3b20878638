// SPDX-License-Identifier: Apache-2.0
// efa_dispatch - dispatches each admin command, in ring order, to the unit of its family.
//
// In    s_cmd: commands in ring order; s_unit_idle: the unit executes no command
// Out   m_cmd: one valid and ready per unit, shared payload; m_rsp: refusal of an unknown opcode,
//       a failed read or a wrong checksum; ev_aqcmd
// Time  1 cycle, one command per cycle; a command waits until its unit and every unit with
//       dependent objects are idle, so that dependent commands execute in ring order
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"

module efa_dispatch #(
    parameter UNITS = 7
) (
    input wire clk,
    input wire rst,
    input wire s_cmd_valid,
    output wire s_cmd_ready,
    input wire [511:0] s_cmd_data,
    input wire s_cmd_err,
    input wire s_cmd_bad,

    output wire [UNITS-1:0] m_cmd_valid,
    input wire [UNITS-1:0] m_cmd_ready,
    input wire [UNITS-1:0] s_unit_idle,
    output wire [511:0] m_cmd_data,

    output wire m_rsp_valid,
    input wire m_rsp_ready,
    output wire [11:0] m_rsp_id,
    output wire [7:0] m_rsp_status,

    output wire ev_aqcmd_valid,
    output wire [63:0] ev_aqcmd_data
);

  localparam PD = 0;  // and UAR
  localparam AH = 1;
  localparam CQ = 2;  // and EQ
  localparam MR = 3;
  localparam QP = 4;
  localparam INFO = 5;
  localparam EC = 6;
  localparam [UNITS-1:0] ONE = 1;
  // Families with dependent objects: AH, MR and QP reference a PD; CQ, QP and event counters a UAR;
  // QP a CQ; event counters a QP.
  localparam [UNITS-1:0] WITH_PD = ONE << AH | ONE << CQ | ONE << MR | ONE << QP | ONE << EC;
  localparam [UNITS-1:0] WITH_CQ = ONE << PD | ONE << QP;
  localparam [UNITS-1:0] WITH_QP = ONE << PD | ONE << CQ | ONE << EC;
  localparam [UNITS-1:0] WITH_EC = ONE << PD | ONE << QP;
  localparam [7:0] UNREAD = `EFA_ADMIN_AQ_COMPLETION_STATUS__UNKNOWN_ERROR;
  localparam [7:0] MALFORMED = `EFA_ADMIN_AQ_COMPLETION_STATUS__MALFORMED_REQUEST;
  localparam [7:0] UNSUPPORTED = `EFA_ADMIN_AQ_COMPLETION_STATUS__UNSUPPORTED_OPCODE;

  reg valid_q;
  reg [511:0] cmd_q;
  reg [UNITS-1:0] unit_q;
  reg [UNITS-1:0] after_q;  // units that must be idle first
  reg refuse_q;
  reg err_q;
  reg bad_q;
  reg ev_valid_q;
  reg [19:0] ev_data_q;

  reg [UNITS-1:0] unit;
  reg [UNITS-1:0] after;
  always @* begin
    unit = {UNITS{1'b0}};
    case (s_cmd_data[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__OPCODE])
      `EFA_ADMIN_AQ_OPCODE__ALLOC_PD, `EFA_ADMIN_AQ_OPCODE__DEALLOC_PD,
      `EFA_ADMIN_AQ_OPCODE__ALLOC_UAR, `EFA_ADMIN_AQ_OPCODE__DEALLOC_UAR:
      unit = ONE << PD;
      `EFA_ADMIN_AQ_OPCODE__CREATE_AH, `EFA_ADMIN_AQ_OPCODE__DESTROY_AH: unit = ONE << AH;
      `EFA_ADMIN_AQ_OPCODE__CREATE_CQ, `EFA_ADMIN_AQ_OPCODE__DESTROY_CQ,
      `EFA_ADMIN_AQ_OPCODE__CREATE_EQ, `EFA_ADMIN_AQ_OPCODE__DESTROY_EQ:
      unit = ONE << CQ;
      `EFA_ADMIN_AQ_OPCODE__REG_MR, `EFA_ADMIN_AQ_OPCODE__DEREG_MR,
      `EFA_ADMIN_AQ_OPCODE__ALLOC_MR:
      unit = ONE << MR;
      `EFA_ADMIN_AQ_OPCODE__CREATE_QP, `EFA_ADMIN_AQ_OPCODE__MODIFY_QP,
      `EFA_ADMIN_AQ_OPCODE__QUERY_QP, `EFA_ADMIN_AQ_OPCODE__DESTROY_QP:
      unit = ONE << QP;
      `EFA_ADMIN_AQ_OPCODE__GET_FEATURE, `EFA_ADMIN_AQ_OPCODE__SET_FEATURE,
      `EFA_ADMIN_AQ_OPCODE__GET_STATS:
      unit = ONE << INFO;
      `EFA_ADMIN_AQ_OPCODE__CREATE_EVENT_COUNTER, `EFA_ADMIN_AQ_OPCODE__DESTROY_EVENT_COUNTER,
      `EFA_ADMIN_AQ_OPCODE__ATTACH_EVENT_COUNTER, `EFA_ADMIN_AQ_OPCODE__DETACH_EVENT_COUNTER,
      `EFA_ADMIN_AQ_OPCODE__MODIFY_EVENT_COUNTER:
      unit = ONE << EC;
      default: unit = {UNITS{1'b0}};
    endcase
    after = {UNITS{unit[PD]}} & WITH_PD | {UNITS{unit[AH] || unit[MR]}} & (ONE << PD)
        | {UNITS{unit[CQ]}} & WITH_CQ | {UNITS{unit[QP]}} & WITH_QP
        | {UNITS{unit[EC]}} & WITH_EC;
  end

  wire free = (after_q & ~s_unit_idle) == {UNITS{1'b0}};
  wire leave = free && (unit_q & m_cmd_ready) != {UNITS{1'b0}} || refuse_q && m_rsp_ready;

  assign s_cmd_ready = !valid_q || leave;
  assign m_cmd_valid = unit_q & {UNITS{valid_q && free}};
  assign m_cmd_data = cmd_q;
  assign m_rsp_valid = valid_q && refuse_q;
  assign m_rsp_id =
      err_q ? 12'd0 : cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__COMMAND_ID__COMMAND_ID];
  assign m_rsp_status = err_q ? UNREAD : bad_q ? MALFORMED : UNSUPPORTED;
  assign ev_aqcmd_valid = ev_valid_q;
  assign ev_aqcmd_data = {{64 - `EFA_EV_AQCMD__W{1'b0}}, ev_data_q};

  always @(posedge clk) begin
    if (rst) begin
      valid_q <= 1'b0;
      ev_valid_q <= 1'b0;
    end else begin
      if (s_cmd_ready) valid_q <= s_cmd_valid;
      ev_valid_q <= valid_q && leave && !err_q;
    end
  end

  always @(posedge clk) begin
    if (s_cmd_ready) begin
      cmd_q <= s_cmd_data;
      unit_q <= s_cmd_err || s_cmd_bad ? {UNITS{1'b0}} : unit;
      after_q <= s_cmd_err || s_cmd_bad ? {UNITS{1'b0}} : after;
      refuse_q <= s_cmd_err || s_cmd_bad || unit == {UNITS{1'b0}};
      err_q <= s_cmd_err;
      bad_q <= s_cmd_bad;
    end
    ev_data_q[`EFA_EV_AQCMD__CMD_ID] <=
        cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__COMMAND_ID__COMMAND_ID];
    ev_data_q[`EFA_EV_AQCMD__OPCODE] <= cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__OPCODE];
  end

endmodule

`default_nettype wire
