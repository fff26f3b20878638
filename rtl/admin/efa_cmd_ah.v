// SPDX-License-Identifier: Apache-2.0
// efa_cmd_ah - executes CREATE_AH and DESTROY_AH; one counted handle per PD and GID.
//
// In    s_cmd; responses of efa_obj_table
// Out   m_rsp; m_obj requests; m_ah_*: a handle created or destroyed, for every engine
// Time  CREATE_AH 7 cycles and one per number ever used (search for PD and GID), 6 for the first
//       handle; DESTROY_AH 6; plus the requests to efa_obj_table
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"

module efa_cmd_ah (
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
    input wire [15:0] s_obj_rsp_index,
    input wire s_obj_rsp_referenced,

    output wire m_ah_valid,
    output wire [`EFA_LIMITS__AH_W-1:0] m_ah_index,
    output wire [`EFA_AHC__W-1:0] m_ah_data
);

  localparam AH_W = `EFA_LIMITS__AH_W;
  localparam TABLE_W = 1 + 16 + 128;
  localparam [AH_W:0] ONE = 1;

  localparam [3:0] ST_IDLE = 4'd0;
  localparam [3:0] ST_PD = 4'd1;
  localparam [3:0] ST_SEARCH = 4'd2;
  localparam [3:0] ST_AGAIN = 4'd3;
  localparam [3:0] ST_FIND = 4'd4;
  localparam [3:0] ST_TAKE = 4'd5;
  localparam [3:0] ST_CHECK = 4'd6;
  localparam [3:0] ST_COMPARE = 4'd7;
  localparam [3:0] ST_LESS = 4'd8;
  localparam [3:0] ST_FREE = 4'd9;
  localparam [3:0] ST_REPORT = 4'd10;
  localparam [3:0] ST_PD_BACK = 4'd11;
  localparam [3:0] ST_RSP = 4'd12;

  reg [3:0] state_q;
  reg [3:0] state_d;
  reg [511:0] cmd_q;
  reg [2:0] status_q;
  reg [2:0] status_d;
  reg [15:0] index_q;
  reg [15:0] index_d;
  reg [AH_W:0] used_q;  // one above the highest number ever used; efa_obj_table skips none
  reg [AH_W:0] scan_q;
  reg [AH_W:0] scan_d;
  reg looked_q;
  reg [AH_W-1:0] at_q;
  reg last_ref_q;

  `include "efa_obj_status.vh"

  wire create = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__OPCODE]
      == `EFA_ADMIN_AQ_OPCODE__CREATE_AH;
  wire [15:0] pd =
      create ? cmd_q[`EFA_ADMIN_CREATE_AH_CMD__PD] : cmd_q[`EFA_ADMIN_DESTROY_AH_CMD__PD];
  wire [127:0] gid = cmd_q[`EFA_ADMIN_CREATE_AH_CMD__DEST_ADDR];
  wire idle = state_q == ST_IDLE;
  wire searching = state_q == ST_SEARCH;
  wire ok = s_obj_rsp_code == `EFA_OBJ_CODE__OK;
  wire [2:0] obj_result = obj_status(s_obj_rsp_code);

  // Valid bit, PD and GID of each number ever used.
  wire [TABLE_W-1:0] there;
  efa_ram #(
      .WIDTH (TABLE_W),
      .ADDR_W(AH_W)
  ) u_table (
      .clk(clk),
      .wr_en(state_q == ST_REPORT),
      .wr_addr(index_q[AH_W-1:0]),
      .wr_data({create, pd, gid}),
      .rd_en(searching || state_q == ST_CHECK),
      .rd_addr(searching ? scan_q[AH_W-1:0] : index_q[AH_W-1:0]),
      .rd_data(there)
  );
  wire [15:0] entry_pd = there[128+:16];
  wire [127:0] entry_gid = there[127:0];
  wire hit = looked_q && there == {1'b1, pd, gid};

  // The last two bytes of a GID are the node, big endian.
  wire [127:0] new_gid = create ? gid : entry_gid;
  wire [15:0] node = {new_gid[119:112], new_gid[127:120]};
  wire in_fabric = new_gid[111:0] ==
  `EFA_LIMITS__GID_PREFIX
  && (node >> `EFA_LIMITS__NODE_W) == 16'd0;
  reg [`EFA_AHC__W-1:0] ctx;
  always @* begin
    ctx[`EFA_AHC__LIVE] = create;
    ctx[`EFA_AHC__PD] = pd[9:0];
    ctx[`EFA_AHC__FABRIC] = in_fabric;
    ctx[`EFA_AHC__NODE] = node;
  end

  assign s_cmd_ready = idle;
  assign m_rsp_valid = state_q == ST_RSP;
  assign m_rsp_id = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__COMMAND_ID__COMMAND_ID];
  assign m_rsp_status = {5'd0, status_q};
  assign m_ah_valid = state_q == ST_REPORT;
  assign m_ah_index = index_q[AH_W-1:0];
  assign m_ah_data = ctx;

  reg [511:0] entry;
  always @* begin
    entry = 512'd0;
    if (create) entry[`EFA_ADMIN_CREATE_AH_RESP__AH] = {{16 - AH_W{1'b0}}, m_ah_index};
  end
  assign m_rsp_body = entry[511:64];

  reg [2:0] op;
  always @* begin
    case (state_q)
      ST_PD, ST_AGAIN: op = `EFA_OBJ_OP__REF;
      ST_FIND: op = `EFA_OBJ_OP__FIND;
      ST_TAKE: op = `EFA_OBJ_OP__TAKE;
      ST_CHECK: op = `EFA_OBJ_OP__CHECK;
      ST_FREE: op = `EFA_OBJ_OP__FREE;
      default: op = `EFA_OBJ_OP__UNREF;
    endcase
  end
  wire of_pd = state_q == ST_PD || state_q == ST_PD_BACK;
  assign m_obj_valid = !idle && !searching && state_q != ST_COMPARE && state_q != ST_REPORT
      && state_q != ST_RSP;
  assign m_obj_op = op;
  assign m_obj_kind = of_pd ? `EFA_OBJ_KIND__PD : `EFA_OBJ_KIND__AH;
  assign m_obj_index = {16'd0, of_pd ? pd : index_q};
  assign m_obj_uar = 16'd0;
  assign m_obj_log = 4'd0;

  always @* begin
    state_d  = state_q;
    status_d = status_q;
    index_d  = index_q;
    scan_d   = searching ? scan_q + ONE : {AH_W + 1{1'b0}};
    case (state_q)
      // Waits for a command.
      ST_IDLE: begin
        status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS_W3;
        index_d  = s_cmd_data[`EFA_ADMIN_DESTROY_AH_CMD__AH];
        if (s_cmd_valid) begin
          state_d = s_cmd_data[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__OPCODE]
              == `EFA_ADMIN_AQ_OPCODE__CREATE_AH ? ST_PD : ST_CHECK;
        end
      end
      // References the PD first, so that the PD stays during the search.
      ST_PD: begin
        status_d = obj_result;
        if (m_obj_ready) state_d = ok ? ST_SEARCH : ST_RSP;
      end
      // Searches a live handle of the same PD and GID.
      ST_SEARCH: begin
        index_d = {{16 - AH_W{1'b0}}, at_q};
        if (hit) state_d = ST_AGAIN;
        else if (scan_q >= used_q && !looked_q) state_d = ST_FIND;
      end
      // References the handle found; the second reference to the PD is released next.
      ST_AGAIN: begin
        status_d = obj_result;
        if (m_obj_ready) state_d = ST_PD_BACK;
      end
      // Finds a free number for a new handle.
      ST_FIND: begin
        status_d = obj_result;
        index_d  = {{16 - AH_W{1'b0}}, s_obj_rsp_index[AH_W-1:0]};
        if (m_obj_ready) state_d = ok ? ST_TAKE : ST_PD_BACK;
      end
      // Takes the number.
      ST_TAKE: begin
        if (m_obj_ready) state_d = ST_REPORT;
      end
      // Checks that the handle to destroy exists.
      ST_CHECK: begin
        status_d = obj_result;
        if (m_obj_ready) state_d = ok ? ST_COMPARE : ST_RSP;
      end
      // Compares the PD; a handle with further references stays.
      ST_COMPARE: begin
        if (entry_pd != pd) begin
          status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
          state_d  = ST_RSP;
        end else begin
          state_d = last_ref_q ? ST_FREE : ST_LESS;
        end
      end
      // Releases one reference.
      ST_LESS: begin
        if (m_obj_ready) state_d = ST_RSP;
      end
      // Frees the number with the last reference.
      ST_FREE: begin
        if (m_obj_ready) state_d = ST_REPORT;
      end
      // Writes the handle in every engine.
      ST_REPORT: begin
        state_d = create ? ST_RSP : ST_PD_BACK;
      end
      // Releases the reference to the PD.
      ST_PD_BACK: begin
        if (m_obj_ready) state_d = ST_RSP;
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
      used_q   <= {AH_W + 1{1'b0}};
      looked_q <= 1'b0;
    end else begin
      state_q  <= state_d;
      looked_q <= searching && scan_q < used_q;
      if (m_ah_valid && {1'b0, m_ah_index} >= used_q) used_q <= {1'b0, m_ah_index} + ONE;
    end
  end

  always @(posedge clk) begin
    if (idle) cmd_q <= s_cmd_data;
    status_q <= status_d;
    index_q <= index_d;
    scan_q <= scan_d;
    at_q <= scan_q[AH_W-1:0];
    last_ref_q <= !s_obj_rsp_referenced;
  end

  wire unused_bits = &{1'b0, cmd_q, entry[63:0], s_obj_rsp_index};

endmodule

`default_nettype wire
