// SPDX-License-Identifier: Apache-2.0
// efa_cmd_mr - executes REG_MR (pages in the command, in a list, or none), ALLOC_MR and DEREG_MR.
//
// In    s_cmd; responses of efa_obj_table; s_line: lines of page lists
// Out   m_rsp; m_obj requests; m_line: reads of page lists; m_mtt_*, m_mr_* for every engine;
//       m_drain
// Time  REG_MR 22 cycles and one per page, 10 without pages; ALLOC_MR 19; DEREG_MR 10, 7 without
//       pages; plus efa_obj_table, the search for a block, the page list and the drain
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"

module efa_cmd_mr #(
    parameter MTT_W = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
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

    output wire m_line_valid,
    input wire m_line_ready,
    output wire [63:0] m_line_addr,
    output wire [6:0] m_line_len,
    input wire s_line_valid,
    output wire s_line_ready,
    input wire [511:0] s_line_data,
    input wire s_line_err,

    output wire m_drain_valid,
    input  wire m_drain_ready,

    output wire m_mtt_valid,
    output wire [`EFA_LIMITS__MTT_W-1:0] m_mtt_index,
    output wire [51:0] m_mtt_data,
    output wire m_mr_valid,
    output wire [`EFA_LIMITS__MR_W-1:0] m_mr_index,
    output wire [`EFA_MRC__W-1:0] m_mr_data
);

  localparam MR_W = `EFA_LIMITS__MR_W;
  localparam INDEX_W = `EFA_LIMITS__MTT_W;
  localparam PAD_W = INDEX_W + 1 - MTT_W;  // of an index, with the bit above it
  localparam KEY_W = 20;
  localparam GEN_W = KEY_W - MR_W;
  localparam PD_W = 10;  // width in the context of a region

  localparam [3:0] ST_IDLE = 4'd0;
  localparam [3:0] ST_SIZE = 4'd1;
  localparam [3:0] ST_VALIDATE = 4'd2;
  localparam [3:0] ST_PD = 4'd3;
  localparam [3:0] ST_FIND = 4'd4;
  localparam [3:0] ST_BLOCK = 4'd5;
  localparam [3:0] ST_LIST = 4'd6;
  localparam [3:0] ST_TAKE = 4'd7;
  localparam [3:0] ST_PLACE = 4'd8;
  localparam [3:0] ST_CHECK = 4'd9;
  localparam [3:0] ST_REPORT = 4'd10;
  localparam [3:0] ST_DRAIN = 4'd11;
  localparam [3:0] ST_REMOVE = 4'd12;
  localparam [3:0] ST_PD_BACK = 4'd13;
  localparam [3:0] ST_FREE = 4'd14;
  localparam [3:0] ST_RSP = 4'd15;

  reg [3:0] state_q;
  reg [3:0] state_d;
  reg [511:0] cmd_q;
  reg [2:0] status_q;
  reg [2:0] status_d;
  reg [MR_W-1:0] index_q;
  reg [MR_W-1:0] index_d;
  reg [GEN_W-1:0] gen_q;
  reg [1:0] stage_q;

  `include "efa_obj_status.vh"
  `include "efa_admin_fn.vh"

  wire idle = state_q == ST_IDLE;
  wire ok = s_obj_rsp_code == `EFA_OBJ_CODE__OK;
  wire reg_mr = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__OPCODE]
      == `EFA_ADMIN_AQ_OPCODE__REG_MR;
  wire alloc_mr = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__OPCODE]
      == `EFA_ADMIN_AQ_OPCODE__ALLOC_MR;
  wire makes = reg_mr || alloc_mr;
  wire physical = reg_mr && cmd_q[`EFA_ADMIN_REG_MR_CMD__MEM_ADDR_PHY_MODE_EN];
  wire [31:0] max_pages = cmd_q[`EFA_ADMIN_ALLOC_MR_CMD__MAX_PAGES];
  wire malformed = reg_mr && cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__CTRL_DATA_INDIRECT]
      && (physical || !cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__CTRL_DATA]);
  wire [31:0] key_requested = s_cmd_data[`EFA_ADMIN_DEREG_MR_CMD__L_KEY];
  wire [31:0] key_given = cmd_q[`EFA_ADMIN_DEREG_MR_CMD__L_KEY];
  wire [15:0] pd = cmd_q[`EFA_ADMIN_REG_MR_CMD__PD];

  wire reg_illegal;
  wire [66:0] reg_pages;
  wire [63:0] mask;
  efa_mr_geometry u_pages (
      .clk(clk),
      .s_cfg_profile(s_cfg_profile),
      .s_cmd(cmd_q),
      .m_illegal(reg_illegal),
      .m_pages(reg_pages),
      .m_mask(mask)
  );

  wire illegal = alloc_mr ? max_pages == 32'd0 : reg_illegal;
  wire [66:0] pages = alloc_mr ? {35'd0, max_pages} : reg_pages;

  wire saved_physical;
  wire [PD_W-1:0] saved_pd;
  wire block_ready;
  wire block_fits;
  wire [MTT_W:0] pool = {{MTT_W{1'b0}}, 1'b1} << pool_log(s_cfg_profile, MTT_W[4:0]);
  wire [MTT_W:0] block_base;
  reg [MTT_W-1:0] base_q;
  wire [MTT_W-1:0] mtt_index;
  wire [INDEX_W:0] base_wide = {{PAD_W{1'b0}}, base_q};
  wire [INDEX_W:0] mtt_index_wide = {{PAD_W{1'b0}}, mtt_index};
  efa_mtt_alloc #(
      .MTT_W(MTT_W)
  ) u_blocks (
      .clk(clk),
      .rst(rst),
      .s_find(state_q == ST_BLOCK),
      .s_insert(state_q == ST_PLACE),
      .s_remove(state_q == ST_REMOVE && !saved_physical),
      .s_ready(block_ready),
      .s_pool(pool),
      .s_index(index_q),
      .s_need(pages[MTT_W:0]),
      .m_fits(block_fits),
      .m_base(block_base)
  );

  wire list_done;
  wire misaligned;
  wire failed;
  efa_pbl_load #(
      .MTT_W(MTT_W)
  ) u_list (
      .clk(clk),
      .rst(rst),
      .s_start(state_q == ST_LIST),
      .s_cmd(cmd_q),
      .s_pages(pages[MTT_W:0]),
      .s_mask(mask),
      .s_first(base_q),
      .m_line_valid(m_line_valid),
      .m_line_ready(m_line_ready),
      .m_line_addr(m_line_addr),
      .m_line_len(m_line_len),
      .s_line_valid(s_line_valid),
      .s_line_ready(s_line_ready),
      .s_line_data(s_line_data),
      .s_line_err(s_line_err),
      .m_mtt_valid(m_mtt_valid),
      .m_mtt_index(mtt_index),
      .m_mtt_data(m_mtt_data),
      .m_done(list_done),
      .m_misaligned(misaligned),
      .m_failed(failed)
  );

  // Fields of a region that DEREG_MR needs.
  efa_ram #(
      .WIDTH (1 + PD_W),
      .ADDR_W(MR_W)
  ) u_saved (
      .clk(clk),
      .wr_en(state_q == ST_REPORT && makes),
      .wr_addr(index_q),
      .wr_data({physical, pd[PD_W-1:0]}),
      .rd_en(state_q == ST_CHECK),
      .rd_addr(index_q),
      .rd_data({saved_physical, saved_pd})
  );

  // A key is the generation, and below it the number.
  wire [31:0] key = {{32 - KEY_W{1'b0}}, gen_q, index_q};
  wire [31:0] key_there = {{32 - KEY_W{1'b0}}, s_obj_rsp_gen[GEN_W-1:0], index_q};

  reg [`EFA_MRC__W-1:0] mrc;
  always @* begin
    mrc = {`EFA_MRC__W{1'b0}};
    if (reg_mr) begin
      mrc[`EFA_MRC__LIVE] = 1'b1;
      mrc[`EFA_MRC__KEY] = key[KEY_W-1:0];
      mrc[`EFA_MRC__PD] = pd[PD_W-1:0];
      mrc[`EFA_MRC__LOCAL_WRITE] = cmd_q[`EFA_ADMIN_REG_MR_CMD__LOCAL_WRITE_ENABLE];
      mrc[`EFA_MRC__REMOTE_WRITE] = cmd_q[`EFA_ADMIN_REG_MR_CMD__REMOTE_WRITE_ENABLE];
      mrc[`EFA_MRC__REMOTE_READ] = cmd_q[`EFA_ADMIN_REG_MR_CMD__REMOTE_READ_ENABLE];
      mrc[`EFA_MRC__PHYS] = physical;
      mrc[`EFA_MRC__SHIFT] = cmd_q[`EFA_ADMIN_REG_MR_CMD__PHYS_PAGE_SIZE_SHIFT];
      mrc[`EFA_MRC__MTT] = physical ? {INDEX_W{1'b0}} : base_wide[INDEX_W-1:0];
      mrc[`EFA_MRC__IOVA] = cmd_q[`EFA_ADMIN_REG_MR_CMD__IOVA];
      mrc[`EFA_MRC__LENGTH] = cmd_q[`EFA_ADMIN_REG_MR_CMD__MR_LENGTH];
    end
  end

  assign s_cmd_ready = idle;
  assign m_rsp_valid = state_q == ST_RSP;
  assign m_rsp_id = cmd_q[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__COMMAND_ID__COMMAND_ID];
  assign m_rsp_status = {5'd0, status_q};
  assign m_mtt_index = mtt_index_wide[INDEX_W-1:0];
  assign m_drain_valid = state_q == ST_DRAIN;
  assign m_mr_valid = state_q == ST_REPORT;
  assign m_mr_index = index_q;
  assign m_mr_data = mrc;

  reg [511:0] entry;
  always @* begin
    entry = 512'd0;
    if (makes) begin
      entry[`EFA_ADMIN_REG_MR_RESP__L_KEY] = key;
      entry[`EFA_ADMIN_REG_MR_RESP__R_KEY] = key;
    end
  end
  assign m_rsp_body = entry[511:64];

  wire of_pd = state_q == ST_PD || state_q == ST_PD_BACK;
  reg [2:0] op;
  always @* begin
    case (state_q)
      ST_PD: op = `EFA_OBJ_OP__REF;
      ST_PD_BACK: op = `EFA_OBJ_OP__UNREF;
      ST_FIND: op = `EFA_OBJ_OP__FIND;
      ST_TAKE: op = `EFA_OBJ_OP__TAKE;
      ST_CHECK: op = `EFA_OBJ_OP__CHECK;
      default: op = `EFA_OBJ_OP__FREE;
    endcase
  end
  assign m_obj_valid = of_pd || state_q == ST_FIND || state_q == ST_TAKE || state_q == ST_CHECK
      || state_q == ST_FREE;
  assign m_obj_op = op;
  assign m_obj_kind = of_pd ? `EFA_OBJ_KIND__PD : `EFA_OBJ_KIND__MR;
  assign m_obj_index = {
    16'd0, !of_pd ? {{16 - MR_W{1'b0}}, index_q} : makes ? pd : {{16 - PD_W{1'b0}}, saved_pd}
  };
  assign m_obj_uar = 16'd0;
  assign m_obj_log = 4'd0;

  always @* begin
    state_d  = state_q;
    status_d = status_q;
    index_d  = index_q;
    case (state_q)
      // Waits for a command; the number is the low part of a key.
      ST_IDLE: begin
        status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS_W3;
        index_d  = key_requested[MR_W-1:0];
        if (s_cmd_valid) begin
          state_d = s_cmd_data[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__OPCODE]
              == `EFA_ADMIN_AQ_OPCODE__DEREG_MR ? ST_CHECK : ST_SIZE;
        end
      end
      // Waits for the three stages of efa_mr_geometry.
      ST_SIZE: begin
        if (stage_q == 2'd3) state_d = ST_VALIDATE;
      end
      // Validates the command.
      ST_VALIDATE: begin
        if (malformed) begin
          status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__MALFORMED_REQUEST_W3;
          state_d  = ST_RSP;
        end else if (illegal) begin
          status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
          state_d  = ST_RSP;
        end else begin
          state_d = ST_PD;
        end
      end
      // References the PD.
      ST_PD: begin
        status_d = obj_status(s_obj_rsp_code);
        if (m_obj_ready) state_d = ok ? ST_FIND : ST_RSP;
      end
      // Finds a free number; refuses more pages than the profile offers.
      ST_FIND: begin
        status_d = obj_status(s_obj_rsp_code);
        index_d  = s_obj_rsp_index[MR_W-1:0];
        if (m_obj_ready) begin
          if (!ok) begin
            state_d = ST_PD_BACK;
          end else if (physical) begin
            state_d = ST_TAKE;
          end else if (pages > {{66 - MTT_W{1'b0}}, pool}) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__RESOURCE_ALLOCATION_FAILURE_W3;
            state_d  = ST_PD_BACK;
          end else begin
            state_d = ST_BLOCK;
          end
        end
      end
      // Finds a block of translations.
      ST_BLOCK: begin
        if (block_ready) begin
          if (!block_fits) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__RESOURCE_ALLOCATION_FAILURE_W3;
          end
          state_d = !block_fits ? ST_PD_BACK : alloc_mr ? ST_TAKE : ST_LIST;
        end
      end
      // Writes the pages into the block; no engine reads them before the region is valid.
      ST_LIST: begin
        if (list_done) begin
          if (failed) status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__UNKNOWN_ERROR_W3;
          else if (misaligned) status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
          state_d = failed || misaligned ? ST_PD_BACK : ST_TAKE;
        end
      end
      // Takes the number, with the next generation of its key.
      ST_TAKE: begin
        if (m_obj_ready) state_d = physical ? ST_REPORT : ST_PLACE;
      end
      // Takes the block.
      ST_PLACE: begin
        if (block_ready) state_d = ST_REPORT;
      end
      // Checks that the region exists and has the generation of the key.
      ST_CHECK: begin
        if (m_obj_ready) begin
          state_d = ST_REPORT;
          if (!ok || key_there != key_given) begin
            status_d = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
            state_d  = ST_RSP;
          end
        end
      end
      // Writes the context in every engine; a region of ALLOC_MR is invalid until a fast
      // registration.
      ST_REPORT: begin
        state_d = makes ? ST_RSP : ST_DRAIN;
      end
      // Waits until no engine uses the region.
      ST_DRAIN: begin
        if (m_drain_ready) state_d = ST_REMOVE;
      end
      // Frees the block and the number, releases the reference to the PD.
      ST_REMOVE: begin
        if (saved_physical || block_ready) state_d = ST_FREE;
      end
      ST_FREE: begin
        if (m_obj_ready) state_d = ST_PD_BACK;
      end
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
    if (rst) state_q <= ST_IDLE;
    else state_q <= state_d;
  end

  always @(posedge clk) begin
    if (idle) cmd_q <= s_cmd_data;
    status_q  <= status_d;
    index_q   <= index_d;
    stage_q   <= state_q == ST_SIZE ? stage_q + 2'd1 : 2'd0;
    if (state_q == ST_BLOCK) base_q <= block_base[MTT_W-1:0];
    if (state_q == ST_TAKE) gen_q <= s_obj_rsp_gen[GEN_W-1:0];
  end

  wire unused_bits = &{
    1'b0, cmd_q, entry[63:0], block_base[MTT_W], base_wide[INDEX_W],
    mtt_index_wide[INDEX_W], s_obj_rsp_gen, s_obj_rsp_index, key_requested
  };

endmodule

`default_nettype wire
