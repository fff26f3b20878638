// SPDX-License-Identifier: Apache-2.0
// efa_cmd_ec - executes CREATE, ATTACH, DETACH, MODIFY and DESTROY of event counters.
//
// In    s_cmd; responses of efa_obj_table and efa_ec; s_qp_gone: a QP is destroyed
// Out   m_rsp; m_obj requests; m_ec requests; m_drain: drain of completions formed before an ATTACH
// Time  CREATE 5 cycles, ATTACH 6, DETACH 5, MODIFY 3, DESTROY 4; plus efa_obj_table, efa_ec and
//       the drain; a destroyed QP is reported to efa_ec before the next command
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"

module efa_cmd_ec #(
    parameter QPN_W = 6
) (
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
    input wire [15:0] s_obj_rsp_uar,
    input wire [15:0] s_obj_rsp_gen,

    input wire s_qp_gone_valid,
    input wire [QPN_W-1:0] s_qp_gone_qpn,

    output wire m_drain_valid,
    input  wire m_drain_ready,

    output wire m_ec_valid,
    input wire m_ec_ready,
    output wire [2:0] m_ec_op,
    output wire [`EFA_LIMITS__EC_W-1:0] m_ec_counter,
    output wire [QPN_W-1:0] m_ec_qpn,
    output wire [3:0] m_ec_events,
    output wire [63:0] m_ec_value,
    input wire [1:0] s_ec_code
);

  localparam EC_W = `EFA_LIMITS__EC_W;
  localparam COUNTERS = 1 << EC_W;
  localparam [31:0] LAWFUL = `EFA_LIMITS__EVENT_COUNTER_EVENTS;

  localparam [2:0] ST_IDLE = 3'd0;
  localparam [2:0] ST_VALIDATE = 3'd1;
  localparam [2:0] ST_OBJECT = 3'd2;
  localparam [2:0] ST_COMPARE = 3'd3;
  localparam [2:0] ST_ORDER = 3'd4;
  localparam [2:0] ST_DRAIN = 3'd5;
  localparam [2:0] ST_UNREF = 3'd6;
  localparam [2:0] ST_RSP = 3'd7;

  generate
    if (EC_W > 8 || LAWFUL > 15) begin : g_illegal
      efa_parameter_error at_most_256_counters_of_four_events ();
    end
  endgenerate

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg [511:0] cmd_q;
  reg [2:0] status_q;
  reg [2:0] status_d;
  reg [COUNTERS-1:0] live_q;
  reg [EC_W-1:0] index_q;
  reg [EC_W-1:0] index_d;
  reg there_q;  // the handle names an existing counter
  reg gone_q;
  reg [QPN_W-1:0] gone_qpn_q;
  reg [15:0] qp_uar_q;
  reg same_qp_q;

  `include "efa_obj_status.vh"

  wire idle = state_q == ST_IDLE;
  wire ok = s_obj_rsp_code == `EFA_OBJ_CODE__OK;
  wire [7:0] opcode = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__OPCODE];
  wire create = opcode == `EFA_ADMIN_AQ_OPCODE__CREATE_EVENT_COUNTER;
  wire destroy = opcode == `EFA_ADMIN_AQ_OPCODE__DESTROY_EVENT_COUNTER;
  wire attach = opcode == `EFA_ADMIN_AQ_OPCODE__ATTACH_EVENT_COUNTER;
  wire detach = opcode == `EFA_ADMIN_AQ_OPCODE__DETACH_EVENT_COUNTER;
  wire modify = opcode == `EFA_ADMIN_AQ_OPCODE__MODIFY_EVENT_COUNTER;
  wire of_qp = attach || detach;

  // The handle is at the same position in every command that has one.
  wire [31:0] requested = s_cmd_data[`EFA_ADMIN_DESTROY_EVENT_COUNTER_CMD__CNTR_HANDLE];
  wire [15:0] uar = cmd_q[`EFA_ADMIN_CREATE_EVENT_COUNTER_CMD__UAR];
  wire [63:0] paddr = cmd_q[`EFA_ADMIN_CREATE_EVENT_COUNTER_CMD__PADDR];
  wire [7:0] attach_type = cmd_q[`EFA_ADMIN_ATTACH_DETACH_EVENT_COUNTER_CMD__ATTACH_TYPE];
  wire [31:0] qp_handle =
      cmd_q[`EFA_ADMIN_ATTACH_DETACH_EVENT_COUNTER_CMD__U__QP_EVENTS__QP_HANDLE];
  wire [31:0] events = cmd_q[`EFA_ADMIN_ATTACH_DETACH_EVENT_COUNTER_CMD__U__QP_EVENTS__EVENTS];
  wire [7:0] operation = cmd_q[`EFA_ADMIN_MODIFY_EVENT_COUNTER_CMD__OPERATION];
  wire sets = operation == `EFA_ADMIN_EVENT_COUNTER_MODIFY_OPS__SET;
  wire adds = operation == `EFA_ADMIN_EVENT_COUNTER_MODIFY_OPS__ADD;
  wire illegal = create ? paddr[2:0] != 3'd0
      : !there_q || modify && !sets && !adds
      || of_qp && (attach_type != `EFA_ADMIN_EVENT_COUNTER_ATTACH_TYPE__QP_EVENTS
      || events == 32'd0 || (events & ~LAWFUL) != 32'd0);

  // Lowest free number.
  reg [EC_W-1:0] lowest;
  integer i;
  always @* begin
    lowest = {EC_W{1'b0}};
    for (i = COUNTERS - 1; i >= 0; i = i - 1) begin
      if (!live_q[i]) lowest = i[EC_W-1:0];
    end
  end

  wire [15:0] counter_uar;
  efa_ram #(
      .WIDTH (16),
      .ADDR_W(EC_W)
  ) u_uars (
      .clk(clk),
      .wr_en(state_q == ST_ORDER && create),
      .wr_addr(index_q),
      .wr_data(uar),
      .rd_en(state_q == ST_VALIDATE),
      .rd_addr(index_q),
      .rd_data(counter_uar)
  );

  // Forms the QP number from index and generation as efa_cmd_qp does.
  wire [31:0] gen_wide = {16'd0, s_obj_rsp_gen} << QPN_W;
  wire [15:0] qp_number = {gen_wide[15:QPN_W], qp_handle[QPN_W-1:0]};

  assign s_cmd_ready = idle && !gone_q;
  assign m_rsp_valid = state_q == ST_RSP;
  assign m_rsp_id = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__COMMAND_ID__COMMAND_ID];
  assign m_rsp_status = {5'd0, status_q};
  assign m_drain_valid = state_q == ST_DRAIN;

  reg [511:0] entry;
  always @* begin
    entry = 512'd0;
    if (create) begin
      entry[`EFA_ADMIN_CREATE_EVENT_COUNTER_RESP__CNTR_HANDLE] = {{32 - EC_W{1'b0}}, index_q};
    end
  end
  assign m_rsp_body = entry[511:64];

  wire unref = state_q == ST_UNREF;
  assign m_obj_valid = state_q == ST_OBJECT || unref;
  assign m_obj_op = unref ? `EFA_OBJ_OP__UNREF : create ? `EFA_OBJ_OP__REF : `EFA_OBJ_OP__CHECK;
  assign m_obj_kind = of_qp ? `EFA_OBJ_KIND__QP : `EFA_OBJ_KIND__UAR;
  assign m_obj_index =
      of_qp ? {{32 - QPN_W{1'b0}}, qp_handle[QPN_W-1:0]} : {16'd0, create ? uar : counter_uar};
  assign m_obj_uar = 16'd0;
  assign m_obj_log = 4'd0;

  reg [2:0] order;
  always @* begin
    order = `EFA_EC_OP__CREATE;
    if (destroy) order = `EFA_EC_OP__DESTROY;
    if (attach) order = `EFA_EC_OP__ATTACH;
    if (detach) order = `EFA_EC_OP__DETACH;
    if (modify) order = sets ? `EFA_EC_OP__SET : `EFA_EC_OP__ADD;
    if (gone_q) order = `EFA_EC_OP__INVALIDATE;
  end
  assign m_ec_valid = state_q == ST_ORDER || idle && gone_q;
  assign m_ec_op = order;
  assign m_ec_counter = index_q;
  assign m_ec_qpn = gone_q ? gone_qpn_q : qp_handle[QPN_W-1:0];
  assign m_ec_events = events[3:0];
  assign m_ec_value = create ? paddr : cmd_q[`EFA_ADMIN_MODIFY_EVENT_COUNTER_CMD__VALUE];

  always @* begin
    state_d  = state_q;
    status_d = status_q;
    index_d  = index_q;
    case (state_q)
      // Waits for a command; a destroyed QP is reported to efa_ec first.
      ST_IDLE: begin
        status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS_W3;
        // The payload of a waiting request to efa_ec must not change.
        if (!gone_q) index_d = requested[EC_W-1:0];
        if (s_cmd_valid && s_cmd_ready) state_d = ST_VALIDATE;
      end
      // Validates the command.
      ST_VALIDATE: begin
        state_d = modify || destroy ? ST_ORDER : ST_OBJECT;
        if (create) index_d = lowest;
        if (illegal) begin
          status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
          state_d  = ST_RSP;
        end
      end
      // References the UAR, or looks up the QP.
      ST_OBJECT: begin
        status_d = obj_status(s_obj_rsp_code);
        if (m_obj_ready) state_d = ok ? ST_COMPARE : ST_RSP;
      end
      // Checks for a free number, or for the same generation and UAR of the QP.
      ST_COMPARE: begin
        state_d = ST_ORDER;
        if (create && (&live_q)) begin
          status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__RESOURCE_ALLOCATION_FAILURE_W3;
          state_d  = ST_UNREF;
        end else if (of_qp && (!same_qp_q || qp_uar_q != counter_uar)) begin
          status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
          state_d  = ST_RSP;
        end
      end
      // Waits for the response of efa_ec.
      ST_ORDER: begin
        if (m_ec_ready) begin
          state_d = attach ? ST_DRAIN : destroy ? ST_UNREF : ST_RSP;
          if (s_ec_code == `EFA_EC_CODE__BUSY) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__RESOURCE_BUSY_W3;
            state_d  = ST_RSP;
          end else if (s_ec_code == `EFA_EC_CODE__ILLEGAL) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
            state_d  = ST_RSP;
          end
        end
      end
      // Waits until completions formed before the ATTACH have left.
      ST_DRAIN: begin
        if (m_drain_ready) state_d = ST_RSP;
      end
      // Releases the reference to the UAR.
      ST_UNREF: begin
        if (m_obj_ready) state_d = ST_RSP;
      end
      // Waits until the response is accepted.
      default: begin
        if (m_rsp_ready) state_d = ST_IDLE;
      end
    endcase
  end

  wire made = state_q == ST_ORDER && create && m_ec_ready;
  wire unmade = state_q == ST_UNREF && destroy && m_obj_ready;
  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_IDLE;
      live_q  <= {COUNTERS{1'b0}};
      gone_q  <= 1'b0;
    end else begin
      state_q <= state_d;
      if (made) live_q[index_q] <= 1'b1;
      if (unmade) live_q[index_q] <= 1'b0;
      if (s_qp_gone_valid) gone_q <= 1'b1;
      else if (idle && m_ec_ready) gone_q <= 1'b0;
    end
  end

  always @(posedge clk) begin
    if (idle && !gone_q) begin
      cmd_q   <= s_cmd_data;
      there_q <= live_q[requested[EC_W-1:0]] && requested[31:EC_W] == {32 - EC_W{1'b0}};
    end
    if (state_q == ST_OBJECT) begin
      qp_uar_q  <= s_obj_rsp_uar;
      same_qp_q <= qp_handle == {16'd0, qp_number};
    end
    if (s_qp_gone_valid) gone_qpn_q <= s_qp_gone_qpn;
    status_q <= status_d;
    index_q  <= index_d;
  end

  wire unused_bits = &{1'b0, cmd_q, entry[63:0], gen_wide, events};

endmodule

`default_nettype wire
