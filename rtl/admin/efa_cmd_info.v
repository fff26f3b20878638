// SPDX-License-Identifier: Apache-2.0
// efa_cmd_info - executes GET_FEATURE, SET_FEATURE and GET_STATS.
//
// In    s_cmd; s_line: lines of the host information buffer; stat_rd_data
// Out   m_rsp; m_line: reads of that buffer; stat_rd_addr; m_groups: enabled asynchronous events
// Time  2 cycles; statistics 9 (basic) or 7 (messages, RDMA reads, RDMA writes); host information 7 when each
//       line comes one cycle after its request
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"

module efa_cmd_info #(
    parameter QPN_W = 6,
    parameter CQN_W = 7,
    parameter MTT_W = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire clk,
    input wire rst,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire [15:0] s_cfg_node_id,
    input wire s_cmd_valid,
    output wire s_cmd_ready,
    input wire [511:0] s_cmd_data,

    output wire m_rsp_valid,
    input wire m_rsp_ready,
    output wire [11:0] m_rsp_id,
    output wire [7:0] m_rsp_status,
    output wire [`EFA_ADMIN_BODY_W-1:0] m_rsp_body,

    output wire m_line_valid,
    input wire m_line_ready,
    output wire [63:0] m_line_addr,
    output wire [6:0] m_line_len,
    input wire s_line_valid,
    output wire s_line_ready,
    input wire s_line_err,

    output wire [31:0] m_groups,
    output wire [ 4:0] stat_rd_addr,
    input  wire [63:0] stat_rd_data
);

  localparam BODY_W = `EFA_ADMIN_BODY_W;
  localparam [31:0] HOST_INFO_BYTES = `EFA_ADMIN_HOST_INFO__BYTES;
  localparam [31:0] GROUPS_ANY =
  `EFA_PROFILE__AENQ_SUPPORTED_GROUPS(32, `EFA_PROFILE__DEFAULT)
  |
  `EFA_PROFILE__AENQ_SUPPORTED_GROUPS(32, `EFA_PROFILE__RECORDED)
  |
  `EFA_PROFILE__AENQ_SUPPORTED_GROUPS(32, `EFA_PROFILE__COSIM)
  |
  `EFA_PROFILE__AENQ_SUPPORTED_GROUPS(32, `EFA_PROFILE__BASIC);
  localparam GROUPS_W = $clog2(GROUPS_ANY + 1);
  localparam [4:0] STAT_BASIC = 5'd0;
  localparam [4:0] STAT_MESSAGES = 5'd6;
  localparam [4:0] STAT_READS = 5'd10;
  localparam [4:0] STAT_WRITES = 5'd14;
  localparam STAT_MOST = 6;

  localparam [2:0] ST_IDLE = 3'd0;
  localparam [2:0] ST_VALIDATE = 3'd1;
  localparam [2:0] ST_STATS = 3'd2;
  localparam [2:0] ST_HOST = 3'd3;
  localparam [2:0] ST_RSP = 3'd4;

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg [511:0] cmd_q;
  reg [2:0] status_q;
  reg [2:0] status_d;
  reg [BODY_W-1:0] body_q;
  reg [BODY_W-1:0] body_d;
  reg [GROUPS_W-1:0] groups_q;
  reg [GROUPS_W-1:0] groups_d;
  reg [4:0] index_q;
  reg [4:0] index_d;
  reg [2:0] step_q;
  reg [2:0] step_d;
  reg [63:0] addr_q;
  reg [63:0] addr_d;
  reg [7:0] left_q;
  reg [7:0] left_d;
  reg [2:0] open_q;
  reg [2:0] open_d;

  wire idle = state_q == ST_IDLE;
  wire [7:0] opcode = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__OPCODE];
  wire get = opcode == `EFA_ADMIN_AQ_OPCODE__GET_FEATURE;
  wire set = opcode == `EFA_ADMIN_AQ_OPCODE__SET_FEATURE;
  wire [7:0] feature = cmd_q[`EFA_ADMIN_GET_FEATURE_CMD__FEATURE_COMMON__FEATURE_ID];
  wire [31:0] supported = `EFA_PROFILE__AENQ_SUPPORTED_GROUPS(32, s_cfg_profile);
  wire [31:0] wanted = cmd_q[`EFA_ADMIN_SET_FEATURE_CMD__U__AENQ__ENABLED_GROUPS];
  wire [31:0] buffer_len = cmd_q[`EFA_ADMIN_SET_FEATURE_CMD__CONTROL_BUFFER__LENGTH];
  wire with_buffer = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__CTRL_DATA];
  wire [7:0] stats_type = cmd_q[`EFA_ADMIN_AQ_GET_STATS_CMD__TYPE];
  wire stats_basic = stats_type == `EFA_ADMIN_GET_STATS_TYPE__BASIC;
  wire stats_messages = stats_type == `EFA_ADMIN_GET_STATS_TYPE__MESSAGES;
  wire stats_reads = stats_type == `EFA_ADMIN_GET_STATS_TYPE__RDMA_READ;
  wire stats_writes = stats_type == `EFA_ADMIN_GET_STATS_TYPE__RDMA_WRITE;
  wire [2:0] stats_count = stats_basic ? STAT_MOST[2:0] : 3'd4;

  wire known;
  wire [BODY_W-1:0] feature_body;
  efa_features #(
      .QPN_W(QPN_W),
      .CQN_W(CQN_W),
      .MTT_W(MTT_W)
  ) u_features (
      .s_cfg_profile(s_cfg_profile),
      .s_cfg_node_id(s_cfg_node_id),
      .s_feature(feature),
      .s_groups(m_groups),
      .m_known(known),
      .m_body(feature_body)
  );

  // A piece of the buffer ends with its 64-byte line or with the buffer.
  wire [7:0] to_line_end = 8'd64 - {2'd0, addr_q[5:0]};
  wire [7:0] piece = left_q < to_line_end ? left_q : to_line_end;
  wire request = m_line_valid && m_line_ready;
  wire line_done = s_line_valid && s_line_ready;

  assign s_cmd_ready = idle;
  assign m_rsp_valid = state_q == ST_RSP;
  assign m_rsp_id = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__COMMAND_ID__COMMAND_ID];
  assign m_rsp_status = {5'd0, status_q};
  assign m_rsp_body = body_q;
  assign m_line_valid = state_q == ST_HOST && left_q != 8'd0;
  assign m_line_addr = addr_q;
  assign m_line_len = piece[6:0];
  assign s_line_ready = state_q == ST_HOST;
  assign stat_rd_addr = index_q;
  assign m_groups = {{32 - GROUPS_W{1'b0}}, groups_q};

  integer i;
  always @* begin
    state_d  = state_q;
    status_d = status_q;
    body_d   = body_q;
    groups_d = groups_q;
    index_d  = index_q + 5'd1;
    step_d   = step_q;
    addr_d   = addr_q;
    left_d   = left_q;
    open_d   = open_q + {2'd0, request} - {2'd0, line_done};
    case (state_q)
      // Waits for a command.
      ST_IDLE: begin
        status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS_W3;
        open_d   = 3'd0;
        if (s_cmd_valid) state_d = ST_VALIDATE;
      end
      // Forms the response; statistics and host information take further states.
      ST_VALIDATE: begin
        state_d  = ST_RSP;
        body_d   = get ? feature_body : {BODY_W{1'b0}};
        index_d  = stats_basic ? STAT_BASIC : stats_messages ? STAT_MESSAGES : stats_reads ? STAT_READS : STAT_WRITES;
        step_d   = 3'd0;
        addr_d   = cmd_q[`EFA_ADMIN_SET_FEATURE_CMD__CONTROL_BUFFER__ADDRESS];
        left_d   = HOST_INFO_BYTES[7:0];
        status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
        if (get) begin
          if (known) status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS_W3;
        end else if (!set) begin
          if (cmd_q[`EFA_ADMIN_AQ_GET_STATS_CMD__SCOPE] == `EFA_ADMIN_GET_STATS_SCOPE__ALL) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS_W3;
            if (stats_basic || stats_messages || stats_reads || stats_writes) state_d = ST_STATS;
          end
        end else if (feature == `EFA_ADMIN_AQ_FEATURE_ID__AENQ_CONFIG) begin
          if ((wanted & ~supported) == 32'd0) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS_W3;
            groups_d = wanted[GROUPS_W-1:0];
          end
        end else if (feature == `EFA_ADMIN_AQ_FEATURE_ID__HOST_INFO) begin
          if (!with_buffer) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__MALFORMED_REQUEST_W3;
          end else if (buffer_len >= HOST_INFO_BYTES) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS_W3;
            state_d  = ST_HOST;
          end
        end
      end
      // Reads one counter per cycle; the value comes one cycle after its index.
      ST_STATS: begin
        step_d = step_q + 3'd1;
        for (i = 1; i <= STAT_MOST; i = i + 1) begin
          if (step_q == i[2:0]) body_d[64*i-64+:64] = stat_rd_data;
        end
        if (step_q == stats_count) state_d = ST_RSP;
      end
      // Reads the whole host information; the device uses none of it.
      ST_HOST: begin
        if (request) begin
          addr_d = addr_q + {56'd0, piece};
          left_d = left_q - piece;
        end
        if (line_done && s_line_err) status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__UNKNOWN_ERROR_W3;
        if (left_q == 8'd0 && open_q == 3'd0) state_d = ST_RSP;
      end
      // Waits until the response is accepted.
      default: begin
        if (m_rsp_ready) state_d = ST_IDLE;
      end
    endcase
  end

  always @(posedge clk) begin
    if (rst) begin
      state_q  <= ST_IDLE;
      groups_q <= {GROUPS_W{1'b0}};
    end else begin
      state_q  <= state_d;
      groups_q <= groups_d;
    end
  end

  always @(posedge clk) begin
    if (idle) cmd_q <= s_cmd_data;
    status_q <= status_d;
    body_q   <= body_d;
    index_q  <= index_d;
    step_q   <= step_d;
    addr_q   <= addr_d;
    left_q   <= left_d;
    open_q   <= open_d;
  end

  wire unused_bits = &{1'b0, cmd_q, piece[7]};

endmodule

`default_nettype wire
