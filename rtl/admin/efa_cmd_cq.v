// SPDX-License-Identifier: Apache-2.0
// efa_cmd_cq - executes CREATE_CQ, DESTROY_CQ, CREATE_EQ and DESTROY_EQ.
//
// In    s_cmd; responses of efa_obj_table
// Out   m_rsp; m_obj requests; m_cqc_*, m_eqc_*: contexts for every engine; m_drain: drain of
//       completions
// Time  CREATE_EQ 5 cycles, CREATE_CQ 6 (7 in interrupt mode), DESTROY_EQ 5, DESTROY_CQ 7; plus the
//       requests to efa_obj_table and the drain
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"

module efa_cmd_cq #(
    parameter CQN_W = 7
) (
    input wire clk,
    input wire rst,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
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
    input wire [15:0] s_obj_rsp_index,
    input wire [15:0] s_obj_rsp_uar,

    output wire m_drain_valid,
    input  wire m_drain_ready,

    output wire m_cqc_valid,
    output wire [CQN_W-1:0] m_cqc_cqn,
    output wire [`EFA_CQC__W-1:0] m_cqc_data,
    output wire m_eqc_valid,
    output wire [`EFA_LIMITS__EQN_W-1:0] m_eqc_eqn,
    output wire [`EFA_EQC__W-1:0] m_eqc_data
);

  localparam EQN_W = `EFA_LIMITS__EQN_W;
  localparam [15:0] MAX_CQ_DEPTH = `EFA_LIMITS__MAX_CQ_DEPTH;
  localparam [15:0] MAX_EQ_DEPTH = `EFA_LIMITS__MAX_EQ_DEPTH;
  localparam [7:0] VECTORS = `EFA_LIMITS__MSIX_VECTORS;
  localparam DB_PAGE_LOG = $clog2(`EFA_LIMITS__DB_PAGE_BYTES);
  localparam [31:0] DB_CQ_BASE = `EFA_LIMITS__DB_CQ_BASE;

  localparam [3:0] ST_IDLE = 4'd0;
  localparam [3:0] ST_VALIDATE = 4'd1;
  localparam [3:0] ST_UAR = 4'd2;
  localparam [3:0] ST_EQ = 4'd3;
  localparam [3:0] ST_FIND = 4'd4;
  localparam [3:0] ST_TAKE = 4'd5;
  localparam [3:0] ST_FREE = 4'd6;
  localparam [3:0] ST_REPORT = 4'd7;
  localparam [3:0] ST_DRAIN = 4'd8;
  localparam [3:0] ST_EQ_BACK = 4'd9;
  localparam [3:0] ST_UAR_BACK = 4'd10;
  localparam [3:0] ST_RSP = 4'd11;

  reg [3:0] state_q;
  reg [3:0] state_d;
  reg [511:0] cmd_q;
  reg [2:0] status_q;
  reg [2:0] status_d;
  reg [15:0] index_q;
  reg [15:0] index_d;
  reg [15:0] uar_q;
  reg [15:0] uar_d;
  reg eq_named_q;  // this CREATE_CQ holds a reference to the EQ
  reg eq_named_d;

  `include "efa_admin_fn.vh"
  `include "efa_obj_status.vh"

  wire [7:0] opcode = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__OPCODE];
  wire of_eq = opcode ==
  `EFA_ADMIN_AQ_OPCODE__CREATE_EQ
  || opcode == `EFA_ADMIN_AQ_OPCODE__DESTROY_EQ;
  wire create = opcode ==
  `EFA_ADMIN_AQ_OPCODE__CREATE_EQ
  || opcode == `EFA_ADMIN_AQ_OPCODE__CREATE_CQ;
  wire idle = state_q == ST_IDLE;
  wire report = state_q == ST_REPORT;
  wire ok = s_obj_rsp_code == `EFA_OBJ_CODE__OK;

  // Checks that need no lookup.
  wire [15:0] eq_depth = cmd_q[`EFA_ADMIN_CREATE_EQ_CMD__DEPTH];
  wire [63:0] eq_base = cmd_q[`EFA_ADMIN_CREATE_EQ_CMD__BA];
  wire eq_illegal = !depth_ok(
      eq_depth, MAX_EQ_DEPTH
  ) || cmd_q[`EFA_ADMIN_CREATE_EQ_CMD__ENTRY_SIZE_WORDS] != 5'd4 ||
      cmd_q[`EFA_ADMIN_CREATE_EQ_CMD__MSIX_VEC] >= VECTORS || eq_base[5:0] != 6'd0;
  wire [15:0] cq_depth = cmd_q[`EFA_ADMIN_CREATE_CQ_CMD__SUB_CQ_DEPTH];
  wire [63:0] cq_base = cmd_q[`EFA_ADMIN_CREATE_CQ_CMD__CQ_BA];
  wire [4:0] cq_words = cmd_q[`EFA_ADMIN_CREATE_CQ_CMD__CQ_ENTRY_SIZE_WORDS];
  wire cq_wide = cq_words == 5'd8;
  wire cq_intr = cmd_q[`EFA_ADMIN_CREATE_CQ_CMD__INTERRUPT_MODE_ENABLED];
  wire [15:0] cq_eqn = cmd_q[`EFA_ADMIN_CREATE_CQ_CMD__EQN];
  wire cq_src = cmd_q[`EFA_ADMIN_CREATE_CQ_CMD__SET_SRC_ADDR];
  wire cq_long = cmd_q[`EFA_ADMIN_CREATE_CQ_CMD__SQ_COMP_64_BIT_REQ_ID];
  wire long_capable = capable(s_cfg_profile, `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__SQ_64_BIT_REQ_ID);
  wire [15:0] subs = `EFA_PROFILE__SUB_CQS_PER_CQ(16, s_cfg_profile);
  wire cq_illegal = cq_words != 5'd4 && !cq_wide || cq_src && !cq_wide
      || cq_long && !long_capable
      || !depth_ok(
      cq_depth, MAX_CQ_DEPTH
  ) || cmd_q[`EFA_ADMIN_CREATE_CQ_CMD__NUM_SUB_CQS] != subs || cq_base[5:0] != 6'd0;

  reg [`EFA_EQC__W-1:0] eqc;
  reg [`EFA_CQC__W-1:0] cqc;
  always @* begin
    eqc = {`EFA_EQC__W{1'b0}};
    cqc = {`EFA_CQC__W{1'b0}};
    if (create) begin
      eqc[`EFA_EQC__LIVE] = 1'b1;
      eqc[`EFA_EQC__BASE] = eq_base[63:6];
      eqc[`EFA_EQC__LOG] = log2(eq_depth);
      eqc[`EFA_EQC__VECTOR] = cmd_q[`EFA_ADMIN_CREATE_EQ_CMD__MSIX_VEC];
      cqc[`EFA_CQC__LIVE] = 1'b1;
      cqc[`EFA_CQC__UAR] = uar_q[9:0];
      cqc[`EFA_CQC__BASE] = cq_base[63:6];
      cqc[`EFA_CQC__LOG] = log2(cq_depth);
      cqc[`EFA_CQC__WIDE] = cq_wide;
      cqc[`EFA_CQC__TWO] = subs == 16'd2;
      cqc[`EFA_CQC__SRC_ADDR] = cq_src;
      cqc[`EFA_CQC__INTR] = cq_intr;
      cqc[`EFA_CQC__EQN] = cq_intr ? cq_eqn[7:0] : 8'd0;
      cqc[`EFA_CQC__LONG_ID] = cq_long;
    end
  end

  // The EQ that each CQ references, for DESTROY_CQ.
  wire [EQN_W:0] saved_eq;
  efa_ram #(
      .WIDTH (1 + EQN_W),
      .ADDR_W(CQN_W)
  ) u_eq_of_cq (
      .clk(clk),
      .wr_en(m_cqc_valid && create),
      .wr_addr(index_q[CQN_W-1:0]),
      .wr_data({cq_intr, cq_eqn[EQN_W-1:0]}),
      .rd_en(state_q == ST_FREE),
      .rd_addr(index_q[CQN_W-1:0]),
      .rd_data(saved_eq)
  );
  wire [15:0] eqn_back = create ? cq_eqn : {{16 - EQN_W{1'b0}}, saved_eq[EQN_W-1:0]};
  wire eq_named = create ? eq_named_q : saved_eq[EQN_W];

  assign s_cmd_ready = idle;
  assign m_rsp_valid = state_q == ST_RSP;
  assign m_rsp_id = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__COMMAND_ID__COMMAND_ID];
  assign m_rsp_status = {5'd0, status_q};
  assign m_drain_valid = state_q == ST_DRAIN;
  assign m_cqc_valid = report && !of_eq;
  assign m_cqc_cqn = index_q[CQN_W-1:0];
  assign m_cqc_data = cqc;
  assign m_eqc_valid = report && of_eq;
  assign m_eqc_eqn = index_q[EQN_W-1:0];
  assign m_eqc_data = eqc;

  reg [511:0] entry;
  always @* begin
    entry = 512'd0;
    if (create && of_eq) begin
      entry[`EFA_ADMIN_CREATE_EQ_RESP__EQN] = index_q;
    end else if (create) begin
      entry[`EFA_ADMIN_CREATE_CQ_RESP__CQ_IDX] = index_q;
      entry[`EFA_ADMIN_CREATE_CQ_RESP__SUB_CQ_ACTUAL_DEPTH] = cq_depth;
      entry[`EFA_ADMIN_CREATE_CQ_RESP__DB_OFFSET] =
          ({16'd0, uar_q} << DB_PAGE_LOG) + DB_CQ_BASE + {14'd0, index_q, 2'd0};
      entry[`EFA_ADMIN_CREATE_CQ_RESP__DB_VALID] = 1'b1;
    end
  end
  assign m_rsp_body = entry[511:64];

  reg [ 2:0] op;
  reg [ 2:0] kind;
  reg [15:0] index;
  always @* begin
    op = `EFA_OBJ_OP__FREE;
    kind = of_eq ? `EFA_OBJ_KIND__EQ : `EFA_OBJ_KIND__CQ;
    index = index_q;
    case (state_q)
      ST_UAR, ST_UAR_BACK: begin
        op = state_q == ST_UAR ? `EFA_OBJ_OP__REF : `EFA_OBJ_OP__UNREF;
        kind = `EFA_OBJ_KIND__UAR;
        index = uar_q;
      end
      ST_EQ, ST_EQ_BACK: begin
        op = state_q == ST_EQ ? `EFA_OBJ_OP__REF : `EFA_OBJ_OP__UNREF;
        kind = `EFA_OBJ_KIND__EQ;
        index = eqn_back;
      end
      ST_FIND: op = `EFA_OBJ_OP__FIND;
      ST_TAKE: op = `EFA_OBJ_OP__TAKE;
      default: op = `EFA_OBJ_OP__FREE;
    endcase
  end
  assign m_obj_valid = state_q == ST_UAR || state_q == ST_EQ || state_q == ST_FIND
      || state_q == ST_TAKE || state_q == ST_FREE || state_q == ST_EQ_BACK && eq_named
      || state_q == ST_UAR_BACK;
  assign m_obj_op = op;
  assign m_obj_kind = kind;
  assign m_obj_index = {16'd0, index};
  assign m_obj_uar = uar_q;
  assign m_obj_log = 4'd0;

  always @* begin
    state_d = state_q;
    status_d = status_q;
    index_d = index_q;
    uar_d = uar_q;
    eq_named_d = eq_named_q;
    case (state_q)
      // Waits for a command.
      ST_IDLE: begin
        status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS_W3;
        index_d = s_cmd_data[`EFA_ADMIN_DESTROY_CQ_CMD__CQ_IDX];
        uar_d = s_cmd_data[`EFA_ADMIN_CREATE_CQ_CMD__UAR];
        eq_named_d = 1'b0;
        if (s_cmd_valid) state_d = ST_VALIDATE;
      end
      // Validates the command.
      ST_VALIDATE: begin
        if (!create) begin
          state_d = ST_FREE;
        end else if (!of_eq && cmd_q[`EFA_ADMIN_CREATE_CQ_CMD__VIRT]) begin
          status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__MALFORMED_REQUEST_W3;
          state_d  = ST_RSP;
        end else if (of_eq ? eq_illegal : cq_illegal) begin
          status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
          state_d  = ST_RSP;
        end else begin
          state_d = of_eq ? ST_FIND : ST_UAR;
        end
      end
      // References the UAR of a CQ.
      ST_UAR: begin
        status_d = obj_status(s_obj_rsp_code);
        if (m_obj_ready) state_d = !ok ? ST_RSP : cq_intr ? ST_EQ : ST_FIND;
      end
      // References the EQ of a CQ in interrupt mode.
      ST_EQ: begin
        status_d   = obj_status(s_obj_rsp_code);
        eq_named_d = ok;
        if (m_obj_ready) state_d = ok ? ST_FIND : ST_UAR_BACK;
      end
      // Finds a free number; without one, all references are released.
      ST_FIND: begin
        status_d = obj_status(s_obj_rsp_code);
        index_d  = s_obj_rsp_index;
        if (m_obj_ready) state_d = ok ? ST_TAKE : of_eq ? ST_RSP : ST_EQ_BACK;
      end
      // Takes the number.
      ST_TAKE: begin
        if (m_obj_ready) state_d = ST_REPORT;
      end
      // Frees the number of a queue without references.
      ST_FREE: begin
        status_d = obj_status(s_obj_rsp_code);
        uar_d = s_obj_rsp_uar;
        if (m_obj_ready) state_d = ok ? ST_REPORT : ST_RSP;
      end
      // Writes the context in every engine.
      ST_REPORT: begin
        state_d = create ? ST_RSP : ST_DRAIN;
      end
      // Waits until CQEs and EQEs in flight have left.
      ST_DRAIN: begin
        if (m_drain_ready) state_d = of_eq ? ST_RSP : ST_EQ_BACK;
      end
      // Releases the references of a CQ.
      ST_EQ_BACK: begin
        if (!eq_named || m_obj_ready) state_d = ST_UAR_BACK;
      end
      ST_UAR_BACK: begin
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
    if (idle) cmd_q <= s_cmd_data;
    status_q <= status_d;
    index_q <= index_d;
    uar_q <= uar_d;
    eq_named_q <= eq_named_d;
  end

  wire unused_bits = &{1'b0, cmd_q, entry[63:0]};

endmodule

`default_nettype wire
