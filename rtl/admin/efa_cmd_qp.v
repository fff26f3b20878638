// SPDX-License-Identifier: Apache-2.0
// efa_cmd_qp - executes CREATE_QP, MODIFY_QP, QUERY_QP and DESTROY_QP.
//
// In    s_cmd; responses of efa_obj_table; s_qpc_admin_rdata: a context read; s_queue_op_busy, with
//       the ready of a query: sends are outstanding; s_cqc_*: CQs created and destroyed
// Out   m_rsp; m_obj requests; m_qpc_admin: context reads and writes, locked from a read to its
//       write; m_queue_op: operations on the queues of a QP, a lane per engine; m_drain
// Time  CREATE_QP 13 cycles, MODIFY_QP 6 (9 to RESET), QUERY_QP 5 (6 in SQD), DESTROY_QP 15; plus
//       efa_obj_table, contexts, engines and drains
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"

module efa_cmd_qp #(
    parameter QPN_W   = 6,
    parameter CQN_W   = 7,
    parameter SQ_HOST = 0
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
    input wire [15:0] s_obj_rsp_gen,

    output wire m_drain_valid,
    input  wire m_drain_ready,

    input wire s_cqc_valid,
    input wire [CQN_W-1:0] s_cqc_cqn,
    input wire s_cqc_long_id,

    output wire m_qpc_admin_lock,
    output wire m_qpc_admin_valid,
    input wire m_qpc_admin_ready,
    output wire [`EFA_QPC_ADMIN__W-1:0] m_qpc_admin_data,
    input wire s_qpc_admin_rvalid,
    input wire [`EFA_QPC__W-1:0] s_qpc_admin_rdata,
    output wire [`EFA_ENGINE__RECV:0] m_queue_op_valid,
    input wire [`EFA_ENGINE__RECV:0] m_queue_op_ready,
    output wire [`EFA_QUEUE_OP__W-1:0] m_queue_op_data,
    input wire s_queue_op_busy
);

  localparam QPC_W = `EFA_QPC__W;
  localparam DB_PAGE_LOG = $clog2(`EFA_LIMITS__DB_PAGE_BYTES);
  localparam LLQ_PAGE_LOG = $clog2(`EFA_LIMITS__LLQ_PAGE_BYTES);
  localparam LINE_LOG = $clog2(`EFA_IO_TX_WQE__BYTES);
  localparam [31:0] PAGE_LINES_LOG = LLQ_PAGE_LOG - LINE_LOG;
  // Objects that a QP references, in the order of the references.
  localparam [1:0] REF_PD = 2'd0;
  localparam [1:0] REF_UAR = 2'd1;
  localparam [1:0] REF_SCQ = 2'd2;
  localparam [1:0] REF_RCQ = 2'd3;

  localparam [4:0] ST_IDLE = 5'd0;
  localparam [4:0] ST_VALIDATE = 5'd1;
  localparam [4:0] ST_REF = 5'd2;
  localparam [4:0] ST_FIND = 5'd3;
  localparam [4:0] ST_FIND_LLQ = 5'd4;
  localparam [4:0] ST_TAKE = 5'd5;
  localparam [4:0] ST_TAKE_LLQ = 5'd6;
  localparam [4:0] ST_READ = 5'd7;
  localparam [4:0] ST_CTX = 5'd8;
  localparam [4:0] ST_COMPARE = 5'd9;
  localparam [4:0] ST_WRITE = 5'd10;
  localparam [4:0] ST_DRAIN = 5'd11;
  localparam [4:0] ST_SQ_CTRL = 5'd12;
  localparam [4:0] ST_RQ_CTRL = 5'd13;
  localparam [4:0] ST_FREE_LLQ = 5'd14;
  localparam [4:0] ST_FREE = 5'd15;
  localparam [4:0] ST_UNREF = 5'd16;
  localparam [4:0] ST_RSP = 5'd17;

  reg [4:0] state_q;
  reg [4:0] state_d;
  reg [511:0] cmd_q;
  reg [2:0] status_q;
  reg [2:0] status_d;
  reg [QPC_W-1:0] qpc_q;
  reg [QPC_W-1:0] qpc_d;
  reg [QPN_W-1:0] qpn_q;
  reg [QPN_W-1:0] qpn_d;
  reg [15:0] page_q;
  reg [15:0] page_d;
  reg [1:0] step_q;
  reg [1:0] step_d;
  reg busy_q;
  reg busy_d;

  `include "efa_obj_status.vh"

  wire idle = state_q == ST_IDLE;
  wire ok = s_obj_rsp_code == `EFA_OBJ_CODE__OK;
  wire [2:0] obj_result = obj_status(s_obj_rsp_code);
  wire [7:0] opcode = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__OPCODE];
  wire create = opcode == `EFA_ADMIN_AQ_OPCODE__CREATE_QP;
  wire modify = opcode == `EFA_ADMIN_AQ_OPCODE__MODIFY_QP;
  wire query = opcode == `EFA_ADMIN_AQ_OPCODE__QUERY_QP;
  wire destroy = opcode == `EFA_ADMIN_AQ_OPCODE__DESTROY_QP;
  wire [31:0] handle = modify ? cmd_q[`EFA_ADMIN_MODIFY_QP_CMD__QP_HANDLE]
      : cmd_q[`EFA_ADMIN_QUERY_QP_CMD__QP_HANDLE];
  wire handle_in_range = (handle >> 16) == 32'd0;
  wire [2:0] qp_state = qpc_q[`EFA_QPC__STATE];
  wire qp_srd = qpc_q[`EFA_QPC__SRD];
  wire handle_there = qpc_q[`EFA_QPC__LIVE] && qpc_q[`EFA_QPC__QP_NUM] == handle[15:0];
  wire [31:0] to_state = cmd_q[`EFA_ADMIN_MODIFY_QP_CMD__QP_STATE];
  wire with_state = cmd_q[`EFA_ADMIN_MODIFY_QP_CMD__MODIFY_MASK__QP_STATE];
  wire with_qkey = cmd_q[`EFA_ADMIN_MODIFY_QP_CMD__MODIFY_MASK__QKEY];
  wire to_reset = modify && with_state && to_state == `EFA_ADMIN_QP_STATE__RESET;
  wire two_subs = `EFA_PROFILE__SUB_CQS_PER_CQ(16, s_cfg_profile) == 16'd2;
  wire [31:0] send_cq = cmd_q[`EFA_ADMIN_CREATE_QP_CMD__SEND_CQ_IDX];
  wire [31:0] recv_cq = cmd_q[`EFA_ADMIN_CREATE_QP_CMD__RECV_CQ_IDX];
  wire [15:0] cmd_pd = cmd_q[`EFA_ADMIN_CREATE_QP_CMD__PD];
  wire [15:0] cmd_uar = cmd_q[`EFA_ADMIN_CREATE_QP_CMD__UAR];
  wire [63:0] sq_base = cmd_q[`EFA_ADMIN_CREATE_QP_CMD__SQ_BASE_ADDR];
  wire [63:0] rq_base = cmd_q[`EFA_ADMIN_CREATE_QP_CMD__RQ_BASE_ADDR];
  wire srd_requested = cmd_q[`EFA_ADMIN_CREATE_QP_CMD__QP_TYPE] == `EFA_ADMIN_QP_TYPE__SRD;
  wire [7:0] rnr_given = cmd_q[`EFA_ADMIN_MODIFY_QP_CMD__RNR_RETRY];
  wire long_requested = cmd_q[`EFA_ADMIN_CREATE_QP_CMD__SQ_64_BIT_REQ_ID];
  wire rq_requested = cmd_q[`EFA_ADMIN_CREATE_QP_CMD__QP_ALLOC_SIZE__RECV_QUEUE_RING_SIZE] != 32'd0;

  wire create_illegal;
  wire modify_illegal;
  wire wqe128;
  wire [3:0] sq_log;
  wire [3:0] rq_log;
  wire [3:0] pages_log;
  efa_qp_param_check #(
      .SQ_HOST(SQ_HOST)
  ) u_rules (
      .s_cfg_profile(s_cfg_profile),
      .s_cmd(cmd_q),
      .s_state(qp_state),
      .s_srd(qp_srd),
      .m_create_illegal(create_illegal),
      .m_wqe128(wqe128),
      .m_sq_log(sq_log),
      .m_rq_log(rq_log),
      .m_pages_log(pages_log),
      .m_modify_illegal(modify_illegal)
  );

  // CQs with 64-bit request ids.
  wire cq_long;
  efa_ram #(
      .WIDTH (1),
      .ADDR_W(CQN_W)
  ) u_long_of_cq (
      .clk(clk),
      .wr_en(s_cqc_valid),
      .wr_addr(s_cqc_cqn),
      .wr_data(s_cqc_long_id),
      .rd_en(state_q == ST_VALIDATE),
      .rd_addr(send_cq[CQN_W-1:0]),
      .rd_data(cq_long)
  );

  // The attribute that only QUERY_QP reads.
  wire [31:0] psn_there;
  reg  [31:0] psn_new;
  always @* begin
    psn_new = psn_there;
    if (create) begin
      psn_new = 32'd0;
    end else begin
      if (cmd_q[`EFA_ADMIN_MODIFY_QP_CMD__MODIFY_MASK__SQ_PSN]) begin
        psn_new = cmd_q[`EFA_ADMIN_MODIFY_QP_CMD__SQ_PSN];
      end
    end
  end
  efa_ram #(
      .WIDTH (32),
      .ADDR_W(QPN_W)
  ) u_attributes (
      .clk(clk),
      .wr_en(state_q == ST_WRITE && m_qpc_admin_ready),
      .wr_addr(qpn_q),
      .wr_data(psn_new),
      .rd_en(state_q == ST_READ),
      .rd_addr(qpn_q),
      .rd_data(psn_there)
  );

  // Position of the ring to free, from the context.
  wire [19:0] ring_line = qpc_q[`EFA_QPC__SQ_LINE];
  wire [19:0] ring_page = ring_line >> (LLQ_PAGE_LOG - LINE_LOG);
  wire [31:0] ring_lines_log = {28'd0, qpc_q[`EFA_QPC__SQ_LOG]} + {31'd0, qpc_q[`EFA_QPC__WQE128]};
  wire [31:0] ring_pages_log =
      ring_lines_log > PAGE_LINES_LOG ? ring_lines_log - PAGE_LINES_LOG : 32'd0;
  wire [31:0] qp_num_wide = {s_obj_rsp_gen, {16{1'b0}}} >> (16 - QPN_W);

  reg [1:0] qop_kind;
  always @* begin
    qop_kind = `EFA_QOP__QUERY;
    if (create) qop_kind = `EFA_QOP__INIT;
    if (modify) qop_kind = `EFA_QOP__CLEAR;
    if (destroy) qop_kind = `EFA_QOP__FREE;
  end

  assign s_cmd_ready = idle;
  assign m_rsp_valid = state_q == ST_RSP;
  assign m_rsp_id = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__COMMAND_ID__COMMAND_ID];
  assign m_rsp_status = {5'd0, status_q};
  assign m_drain_valid = state_q == ST_DRAIN;
  // A QP must not enter the error state between the read and the write of its context.
  assign m_qpc_admin_lock = state_q == ST_READ || state_q == ST_CTX || state_q == ST_COMPARE
      || state_q == ST_WRITE;
  assign m_qpc_admin_valid = state_q == ST_READ || state_q == ST_WRITE;
  assign m_qpc_admin_data[`EFA_QPC_ADMIN__WRITE] = state_q == ST_WRITE;
  assign m_qpc_admin_data[`EFA_QPC_ADMIN__QPN] = {{12 - QPN_W{1'b0}}, qpn_q};
  assign m_qpc_admin_data[`EFA_QPC_ADMIN__WDATA] = qpc_q;
  assign m_queue_op_valid[`EFA_ENGINE__SEND] = state_q == ST_SQ_CTRL;
  assign m_queue_op_valid[`EFA_ENGINE__RECV] = state_q == ST_RQ_CTRL;
  assign m_queue_op_data[`EFA_QUEUE_OP__KIND] = qop_kind;
  assign m_queue_op_data[`EFA_QUEUE_OP__QPN] = {{12 - QPN_W{1'b0}}, qpn_q};
  assign m_queue_op_data[`EFA_QUEUE_OP__QPC] = qpc_q;
  assign m_queue_op_data[`EFA_QUEUE_OP__BASE] = SQ_HOST != 0 ? sq_base[63:6] : 58'd0;

  wire [31:0] db_offset =
      ({22'd0, qpc_q[`EFA_QPC__UAR]} << DB_PAGE_LOG) + {{29 - QPN_W{1'b0}}, qpn_q, 3'd0};
  reg [511:0] entry;
  always @* begin
    entry = 512'd0;
    if (create) begin
      entry[`EFA_ADMIN_CREATE_QP_RESP__QP_HANDLE] = {16'd0, qpc_q[`EFA_QPC__QP_NUM]};
      entry[`EFA_ADMIN_CREATE_QP_RESP__QP_NUM] = qpc_q[`EFA_QPC__QP_NUM];
      entry[`EFA_ADMIN_CREATE_QP_RESP__SEND_SUB_CQ_IDX] = {15'd0, qpc_q[`EFA_QPC__SSUB]};
      entry[`EFA_ADMIN_CREATE_QP_RESP__RECV_SUB_CQ_IDX] = {15'd0, qpc_q[`EFA_QPC__RSUB]};
      entry[`EFA_ADMIN_CREATE_QP_RESP__SQ_DB_OFFSET] = db_offset;
      entry[`EFA_ADMIN_CREATE_QP_RESP__RQ_DB_OFFSET] = db_offset + 32'd4;
      entry[`EFA_ADMIN_CREATE_QP_RESP__LLQ_DESCRIPTORS_OFFSET] = {12'd0, ring_line} << LINE_LOG;
    end else if (query) begin
      entry[`EFA_ADMIN_QUERY_QP_RESP__QP_STATE] = {29'd0, qp_state};
      entry[`EFA_ADMIN_QUERY_QP_RESP__QKEY] = qpc_q[`EFA_QPC__QKEY];
      entry[`EFA_ADMIN_QUERY_QP_RESP__SQ_PSN] = psn_there;
      entry[`EFA_ADMIN_QUERY_QP_RESP__SQ_DRAINING] = {7'd0, busy_q};
      entry[`EFA_ADMIN_QUERY_QP_RESP__RNR_RETRY] = {5'd0, qpc_q[`EFA_QPC__RNR_RETRY]};
    end
  end
  assign m_rsp_body = entry[511:64];

  // Objects that a QP references: from the command during creation, else from the context.
  reg [2:0] ref_kind;
  reg [31:0] ref_index;
  wire making = state_q == ST_REF;
  always @* begin
    ref_kind = `EFA_OBJ_KIND__CQ;
    case (step_q)
      REF_PD: begin
        ref_kind  = `EFA_OBJ_KIND__PD;
        ref_index = making ? {16'd0, cmd_pd} : {22'd0, qpc_q[`EFA_QPC__PD]};
      end
      REF_UAR: begin
        ref_kind  = `EFA_OBJ_KIND__UAR;
        ref_index = making ? {16'd0, cmd_uar} : {22'd0, qpc_q[`EFA_QPC__UAR]};
      end
      REF_SCQ: ref_index = making ? send_cq : {20'd0, qpc_q[`EFA_QPC__SCQN]};
      default: ref_index = making ? recv_cq : {20'd0, qpc_q[`EFA_QPC__RCQN]};
    endcase
  end

  reg [ 2:0] op;
  reg [ 2:0] kind;
  reg [31:0] index;
  always @* begin
    op = `EFA_OBJ_OP__FREE;
    kind = `EFA_OBJ_KIND__QP;
    index = {{32 - QPN_W{1'b0}}, qpn_q};
    case (state_q)
      ST_REF, ST_UNREF: begin
        op = `EFA_OBJ_OP__UNREF;
        if (making) op = `EFA_OBJ_OP__REF;
        if (making && step_q[1]) op = `EFA_OBJ_OP__REF_OF_UAR;
        kind  = ref_kind;
        index = ref_index;
      end
      ST_FIND: op = `EFA_OBJ_OP__FIND;
      ST_TAKE: op = `EFA_OBJ_OP__TAKE;
      ST_FIND_LLQ, ST_TAKE_LLQ, ST_FREE_LLQ: begin
        if (state_q == ST_FIND_LLQ) op = `EFA_OBJ_OP__FIND;
        if (state_q == ST_TAKE_LLQ) op = `EFA_OBJ_OP__TAKE;
        kind  = `EFA_OBJ_KIND__LLQ;
        index = {16'd0, page_q};
      end
      default: op = `EFA_OBJ_OP__FREE;
    endcase
  end
  assign m_obj_valid = state_q == ST_REF || state_q == ST_FIND || state_q == ST_FIND_LLQ
      || state_q == ST_TAKE || state_q == ST_TAKE_LLQ || state_q == ST_FREE_LLQ
      || state_q == ST_FREE || state_q == ST_UNREF;
  assign m_obj_op = op;
  assign m_obj_kind = kind;
  assign m_obj_index = index;
  assign m_obj_uar = {6'd0, qpc_q[`EFA_QPC__UAR]};
  assign m_obj_log = kind != `EFA_OBJ_KIND__LLQ ? 4'd0 : create ? pages_log : ring_pages_log[3:0];

  always @* begin
    state_d = state_q;
    status_d = status_q;
    qpc_d = qpc_q;
    qpn_d = qpn_q;
    page_d = page_q;
    step_d = step_q;
    busy_d = busy_q;
    case (state_q)
      // Waits for a command.
      ST_IDLE: begin
        status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS_W3;
        step_d   = REF_PD;
        busy_d   = 1'b0;
        if (s_cmd_valid) state_d = ST_VALIDATE;
      end
      // Validates the command and forms the context of a new QP.
      ST_VALIDATE: begin
        qpn_d = handle[QPN_W-1:0];
        if (create) begin
          qpc_d = {QPC_W{1'b0}};
          qpc_d[`EFA_QPC__LIVE] = 1'b1;
          qpc_d[`EFA_QPC__STATE] = `EFA_ADMIN_QP_STATE__RESET_W3;
          qpc_d[`EFA_QPC__SRD] = srd_requested;
          qpc_d[`EFA_QPC__PD] = cmd_pd[9:0];
          qpc_d[`EFA_QPC__UAR] = cmd_uar[9:0];
          qpc_d[`EFA_QPC__SCQN] = send_cq[11:0];
          qpc_d[`EFA_QPC__RCQN] = recv_cq[11:0];
          qpc_d[`EFA_QPC__RSUB] = two_subs;
          qpc_d[`EFA_QPC__SQ_LOG] = sq_log;
          qpc_d[`EFA_QPC__WQE128] = wqe128;
          qpc_d[`EFA_QPC__LONG_ID] = long_requested;
          qpc_d[`EFA_QPC__RNR_RETRY] = srd_requested ? `EFA_PROFILE__RNR_RETRY(3, s_cfg_profile) : 3'd0;
          qpc_d[`EFA_QPC__UNSOLICITED] = cmd_q[`EFA_ADMIN_CREATE_QP_CMD__UNSOLICITED_WRITE_RECV];
          qpc_d[`EFA_QPC__RQ_LIVE] = rq_requested;
          qpc_d[`EFA_QPC__RQ_BASE] = rq_requested ? rq_base[63:6] : 58'd0;
          qpc_d[`EFA_QPC__RQ_LOG] = rq_requested ? rq_log : 4'd0;
          if (cmd_q[`EFA_ADMIN_CREATE_QP_CMD__SQ_VIRT]
              || cmd_q[`EFA_ADMIN_CREATE_QP_CMD__RQ_VIRT]) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__MALFORMED_REQUEST_W3;
            state_d  = ST_RSP;
          end else if (create_illegal) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
            state_d  = ST_RSP;
          end else begin
            state_d = ST_REF;
          end
        end else begin
          state_d = ST_READ;
          if (!handle_in_range) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
            state_d  = ST_RSP;
          end
        end
      end
      // References PD, UAR and CQs; a refusal releases the references made before.
      ST_REF: begin
        status_d = obj_result;
        if (m_obj_ready) begin
          step_d = ok ? step_q + 2'd1 : step_q - 2'd1;
          if (!ok) begin
            state_d = step_q == REF_PD ? ST_RSP : ST_UNREF;
          end else if (step_q == REF_RCQ && long_requested && !cq_long) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
            step_d   = REF_RCQ;
            state_d  = ST_UNREF;
          end else if (step_q == REF_RCQ) begin
            state_d = ST_FIND;
          end
        end
      end
      // Finds a free number and free pages.
      ST_FIND: begin
        status_d = obj_result;
        qpn_d = s_obj_rsp_index[QPN_W-1:0];
        step_d = REF_RCQ;
        if (m_obj_ready) state_d = ok ? ST_FIND_LLQ : ST_UNREF;
      end
      ST_FIND_LLQ: begin
        status_d = obj_result;
        page_d   = s_obj_rsp_index;
        if (m_obj_ready) state_d = ok ? ST_TAKE : ST_UNREF;
      end
      // Takes both.
      ST_TAKE: begin
        qpc_d[`EFA_QPC__QP_NUM] = qp_num_wide[15:0] | {{16 - QPN_W{1'b0}}, qpn_q};
        if (m_obj_ready) state_d = ST_TAKE_LLQ;
      end
      ST_TAKE_LLQ: begin
        qpc_d[`EFA_QPC__SQ_LINE] = {4'd0, page_q} << (LLQ_PAGE_LOG - LINE_LOG);
        if (m_obj_ready) state_d = ST_WRITE;
      end
      // Reads the context.
      ST_READ: begin
        if (m_qpc_admin_ready) state_d = ST_CTX;
      end
      ST_CTX: begin
        qpc_d = s_qpc_admin_rdata;
        if (s_qpc_admin_rvalid) state_d = ST_COMPARE;
      end
      // Compares the handle and forms the new context.
      ST_COMPARE: begin
        page_d = ring_page[15:0];
        if (!handle_there || modify && modify_illegal) begin
          status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
          state_d  = ST_RSP;
        end else if (query) begin
          state_d = qp_state == `EFA_ADMIN_QP_STATE__SQD_W3 ? ST_SQ_CTRL : ST_RSP;
        end else begin
          if (destroy) qpc_d[`EFA_QPC__LIVE] = 1'b0;
          if (destroy) qpc_d[`EFA_QPC__STATE] = `EFA_ADMIN_QP_STATE__RESET_W3;
          if (modify && with_state) qpc_d[`EFA_QPC__STATE] = to_state[2:0];
          if (modify && with_qkey) begin
            qpc_d[`EFA_QPC__QKEY] = cmd_q[`EFA_ADMIN_MODIFY_QP_CMD__QKEY];
          end
          if (modify && cmd_q[`EFA_ADMIN_MODIFY_QP_CMD__MODIFY_MASK__RNR_RETRY]) begin
            qpc_d[`EFA_QPC__RNR_RETRY] = rnr_given[2:0];
          end
          state_d = ST_WRITE;
        end
      end
      // Writes the context.
      ST_WRITE: begin
        if (m_qpc_admin_ready)
          state_d = create ? ST_SQ_CTRL : destroy || to_reset ? ST_DRAIN : ST_RSP;
      end
      // Waits until no engine uses the QP.
      ST_DRAIN: begin
        if (m_drain_ready) state_d = ST_SQ_CTRL;
      end
      // Waits until the engines have initialised, cleared, freed or queried the QP.
      ST_SQ_CTRL: begin
        busy_d = query && s_queue_op_busy;
        if (m_queue_op_ready[`EFA_ENGINE__SEND]) state_d = query ? ST_RSP : ST_RQ_CTRL;
      end
      ST_RQ_CTRL: begin
        step_d = REF_RCQ;
        if (m_queue_op_ready[`EFA_ENGINE__RECV]) state_d = destroy ? ST_FREE_LLQ : ST_RSP;
      end
      // Frees the pages and the number, releases the references.
      ST_FREE_LLQ: begin
        if (m_obj_ready) state_d = ST_FREE;
      end
      ST_FREE: begin
        if (m_obj_ready) state_d = ST_UNREF;
      end
      ST_UNREF: begin
        if (m_obj_ready) begin
          step_d = step_q - 2'd1;
          if (step_q == REF_PD) state_d = ST_RSP;
        end
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
    qpc_q <= qpc_d;
    qpn_q <= qpn_d;
    page_q <= page_d;
    step_q <= step_d;
    busy_q <= busy_d;
  end

  wire unused_bits = &{
    1'b0, cmd_q, entry[63:0], rnr_given, s_obj_rsp_index, qp_num_wide, ring_page, ring_pages_log,
    sq_base, rq_base[5:0], cmd_pd, cmd_uar, send_cq, recv_cq, to_state
  };

endmodule

`default_nettype wire
