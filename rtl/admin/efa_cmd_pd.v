// SPDX-License-Identifier: Apache-2.0
// efa_cmd_pd - executes ALLOC_PD, DEALLOC_PD, ALLOC_UAR and DEALLOC_UAR.
//
// In    s_cmd; responses of efa_obj_table
// Out   m_rsp; m_obj requests
// Time  allocation 3 cycles and two requests to efa_obj_table, deallocation 2 cycles and one
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"

module efa_cmd_pd (
    input wire clk,
    input wire rst,
    input wire s_cmd_valid,
    output wire s_cmd_ready,
    input wire [511:0] s_cmd_data,

    output wire m_rsp_valid,
    input wire m_rsp_ready,
    output wire [11:0] m_rsp_id,
    output wire [7:0] m_rsp_status,
    output wire [`EFA_ADMIN_BODY_W-1:0] m_rsp_body,

    output wire m_obj_valid,
    input wire m_obj_ready,
    output wire [2:0] m_obj_op,
    output wire [2:0] m_obj_kind,
    output wire [31:0] m_obj_index,
    output wire [15:0] m_obj_uar,
    output wire [3:0] m_obj_log,
    input wire [1:0] s_obj_rsp_code,
    input wire [15:0] s_obj_rsp_index
);

  localparam [1:0] ST_IDLE = 2'd0;
  localparam [1:0] ST_FIRST = 2'd1;
  localparam [1:0] ST_TAKE = 2'd2;
  localparam [1:0] ST_RSP = 2'd3;

  reg [1:0] state_q;
  reg [1:0] state_d;
  reg [11:0] id_q;
  reg uar_q;
  reg alloc_q;
  reg [15:0] index_q;
  reg [2:0] status_q;

  `include "efa_obj_status.vh"

  wire [7:0] opcode = s_cmd_data[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__OPCODE];
  wire idle = state_q == ST_IDLE;
  wire first = state_q == ST_FIRST;
  wire ok = s_obj_rsp_code == `EFA_OBJ_CODE__OK;

  assign s_cmd_ready = idle;
  assign m_rsp_valid = state_q == ST_RSP;
  assign m_rsp_id = id_q;
  assign m_rsp_status = {5'd0, status_q};
  assign m_obj_valid = first || state_q == ST_TAKE;
  assign m_obj_op = !first ? `EFA_OBJ_OP__TAKE : alloc_q ? `EFA_OBJ_OP__FIND : `EFA_OBJ_OP__FREE;
  assign m_obj_kind = uar_q ? `EFA_OBJ_KIND__UAR : `EFA_OBJ_KIND__PD;
  assign m_obj_index = {16'd0, index_q};
  assign m_obj_uar = 16'd0;
  assign m_obj_log = 4'd0;

  // Both allocations have the number at the same position of the response.
  reg [511:0] entry;
  always @* begin
    entry = 512'd0;
    if (alloc_q) entry[`EFA_ADMIN_ALLOC_PD_RESP__PD] = index_q;
  end
  assign m_rsp_body = entry[511:64];

  always @* begin
    state_d = state_q;
    case (state_q)
      // Waits for a command.
      ST_IDLE: begin
        if (s_cmd_valid) state_d = ST_FIRST;
      end
      // Finds a free number, or frees the number of the command.
      ST_FIRST: begin
        if (m_obj_ready) state_d = alloc_q && ok ? ST_TAKE : ST_RSP;
      end
      // Takes the number.
      ST_TAKE: begin
        if (m_obj_ready) state_d = ST_RSP;
      end
      // Waits until the response is accepted.
      default: begin
        if (m_rsp_ready) state_d = ST_IDLE;
      end
    endcase
  end

  always @(posedge clk) begin
    if (rst) state_q <= ST_IDLE;
    else state_q <= state_d;
  end

  always @(posedge clk) begin
    if (idle) begin
      id_q <= s_cmd_data[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__COMMAND_ID__COMMAND_ID];
      uar_q <= opcode ==
      `EFA_ADMIN_AQ_OPCODE__ALLOC_UAR
      || opcode == `EFA_ADMIN_AQ_OPCODE__DEALLOC_UAR;
      alloc_q <= opcode ==
      `EFA_ADMIN_AQ_OPCODE__ALLOC_PD
      || opcode == `EFA_ADMIN_AQ_OPCODE__ALLOC_UAR;
      index_q <= opcode ==
      `EFA_ADMIN_AQ_OPCODE__DEALLOC_PD
      ? s_cmd_data[`EFA_ADMIN_DEALLOC_PD_CMD__PD] : s_cmd_data[`EFA_ADMIN_DEALLOC_UAR_CMD__UAR];
    end else if (first && m_obj_ready) begin
      index_q  <= s_obj_rsp_index;
      status_q <= obj_status(s_obj_rsp_code);
    end
  end

  wire unused_bits = &{1'b0, s_cmd_data, entry[63:0]};

endmodule

`default_nettype wire
