// SPDX-License-Identifier: Apache-2.0
// efa_obj_table - allocates object numbers and counts references; the only owner of both.
//
// In    s_obj: requests of UNITS command units, served round robin, held until s_obj_ready
// Out   the response, valid with s_obj_ready: code, number found, its UAR, generation, referenced
// Time  3 cycles to the response, a request every 4; FIND 4 and one per further number checked,
//       from the hint; LLQ one more per further page; freeing a UAR 4 and one per CQ, QP and LLQ
//       page, which are all scanned; after reset one per number before m_init_done
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"
`include "efa_check.vh"

module efa_obj_table #(
    parameter QPN_W  = 6,
    parameter CQN_W  = 7,
    parameter LLQ_AW = 21,
    parameter UNITS  = 5,
    parameter REF_W  = 24  // bits of a reference count: an address handle may have many
) (
    input  wire clk,
    input  wire rst,
    output wire m_init_done,

    input wire [UNITS-1:0] s_obj_valid,
    output wire [UNITS-1:0] s_obj_ready,
    input wire [3*UNITS-1:0] s_obj_op,
    input wire [3*UNITS-1:0] s_obj_kind,
    input wire [32*UNITS-1:0] s_obj_index,
    input wire [16*UNITS-1:0] s_obj_uar,
    input wire [4*UNITS-1:0] s_obj_log,
    output wire [1:0] m_obj_code,
    output wire [15:0] m_obj_index,
    output wire [15:0] m_obj_uar,
    output wire [15:0] m_obj_gen,
    output wire m_obj_referenced
);

  localparam LLQ_W = LLQ_AW - $clog2(`EFA_LIMITS__LLQ_PAGE_BYTES);
  // One table; the kinds that store their UAR come last, for the scan of a freed UAR.
  localparam BASE_PD = 0;
  localparam BASE_UAR = BASE_PD + (1 << `EFA_LIMITS__PD_W);
  localparam BASE_AH = BASE_UAR + (1 << `EFA_LIMITS__UAR_W);
  localparam BASE_MR = BASE_AH + (1 << `EFA_LIMITS__AH_W);
  localparam BASE_EQ = BASE_MR + (1 << `EFA_LIMITS__MR_W);
  localparam BASE_CQ = BASE_EQ + (1 << `EFA_LIMITS__EQN_W);
  localparam BASE_QP = BASE_CQ + (1 << CQN_W);
  localparam BASE_LLQ = BASE_QP + (1 << QPN_W);
  localparam TOTAL = BASE_LLQ + (1 << LLQ_W);
  localparam ADDR_W = $clog2(TOTAL + 1);
  localparam UAR_W = 10;
  localparam ENTRY_W = 2 + UAR_W + REF_W + 16;
  localparam HINT_W = $clog2(8 * ADDR_W);
  localparam [31:0] HINT_STEP = ADDR_W;
  localparam [ADDR_W-1:0] ONE = 1;
  localparam [ADDR_W-1:0] LAST = TOTAL - 1;
  localparam [ADDR_W-1:0] FIRST_QP = BASE_QP;
  localparam [ADDR_W-1:0] FIRST_LLQ = BASE_LLQ;
  localparam [ADDR_W-1:0] SWEEP_FROM = BASE_CQ;
  // A key has 20 bits: the generation fills the bits above the number and is never 0.
  localparam [15:0] MR_LAST_GEN = (1 << (20 - `EFA_LIMITS__MR_W)) - 1;

  localparam [2:0] ST_INIT = 3'd0;
  localparam [2:0] ST_IDLE = 3'd1;
  localparam [2:0] ST_LOOKUP = 3'd2;
  localparam [2:0] ST_VALIDATE = 3'd3;
  localparam [2:0] ST_SCAN = 3'd4;
  localparam [2:0] ST_PAGES = 3'd5;
  localparam [2:0] ST_SWEEP = 3'd6;
  localparam [2:0] ST_DONE = 3'd7;

  generate
    if (LLQ_W < 5 || LLQ_W > 14 || QPN_W > 12 || CQN_W > 12) begin : g_illegal
      efa_parameter_error object_counts_out_of_range ();
    end
  endgenerate

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg [UNITS-1:0] unit_q;
  reg [2:0] op_q;
  reg [2:0] kind_q;
  reg [31:0] index_q;
  reg [15:0] uar_q;
  reg [3:0] log_q;
  reg [ADDR_W-1:0] scan_q;
  reg [ADDR_W-1:0] scan_d;
  reg looked_q;
  reg looked_d;
  reg [ADDR_W-1:0] at_q;
  reg run_q;
  reg run_d;
  reg [1:0] code_q;
  reg [1:0] code_d;
  reg [ADDR_W-1:0] found_q;
  reg [UAR_W-1:0] of_uar_q;
  reg [15:0] gen_q;
  reg referenced_q;
  reg [8*ADDR_W-1:0] hint_q;

  wire [UNITS-1:0] grant;
  efa_arb #(
      .N(UNITS)
  ) u_arb (
      .clk(clk),
      .rst(rst),
      .s_request(state_q == ST_IDLE ? s_obj_valid : {UNITS{1'b0}}),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  // Request of the granted unit.
  reg [2:0] pick_op;
  reg [2:0] pick_kind;
  reg [31:0] pick_index;
  reg [15:0] pick_uar;
  reg [3:0] pick_log;
  integer i;
  always @* begin
    pick_op = 3'd0;
    pick_kind = 3'd0;
    pick_index = 32'd0;
    pick_uar = 16'd0;
    pick_log = 4'd0;
    for (i = 0; i < UNITS; i = i + 1) begin
      pick_op = pick_op | (s_obj_op[3*i+:3] & {3{grant[i]}});
      pick_kind = pick_kind | (s_obj_kind[3*i+:3] & {3{grant[i]}});
      pick_index = pick_index | (s_obj_index[32*i+:32] & {32{grant[i]}});
      pick_uar = pick_uar | (s_obj_uar[16*i+:16] & {16{grant[i]}});
      pick_log = pick_log | (s_obj_log[4*i+:4] & {4{grant[i]}});
    end
  end

  // Range of each kind in the table.
  reg [ADDR_W-1:0] base;
  reg [ADDR_W-1:0] size;
  reg by_uar;
  always @* begin
    by_uar = 1'b0;
    case (kind_q)
      `EFA_OBJ_KIND__PD: begin
        base = BASE_PD;
        size = 1 << `EFA_LIMITS__PD_W;
      end
      `EFA_OBJ_KIND__UAR: begin
        base = BASE_UAR;
        size = 1 << `EFA_LIMITS__UAR_W;
      end
      `EFA_OBJ_KIND__AH: begin
        base = BASE_AH;
        size = 1 << `EFA_LIMITS__AH_W;
      end
      `EFA_OBJ_KIND__MR: begin
        base = BASE_MR;
        size = 1 << `EFA_LIMITS__MR_W;
      end
      `EFA_OBJ_KIND__EQ: begin
        base = BASE_EQ;
        size = 1 << `EFA_LIMITS__EQN_W;
      end
      `EFA_OBJ_KIND__CQ: begin
        base   = BASE_CQ;
        size   = 1 << CQN_W;
        by_uar = 1'b1;
      end
      `EFA_OBJ_KIND__QP: begin
        base   = BASE_QP;
        size   = 1 << QPN_W;
        by_uar = 1'b1;
      end
      default: begin
        base   = BASE_LLQ;
        size   = 1 << LLQ_W;
        by_uar = 1'b1;
      end
    endcase
  end

  wire [ADDR_W-1:0] index = index_q[ADDR_W-1:0];
  wire in_range = index_q < {{32 - ADDR_W{1'b0}}, size};
  wire [ADDR_W-1:0] block = (ONE << log_q) - ONE;  // size of a block, minus one
  wire [HINT_W-1:0] hint_at = HINT_STEP[HINT_W-1:0] * {{HINT_W - 3{1'b0}}, kind_q};
  wire [ADDR_W-1:0] hint = hint_q[hint_at+:ADDR_W];

  reg wr_en;
  reg [ADDR_W-1:0] wr_addr;
  reg [ENTRY_W-1:0] wr_data;
  reg rd_en;
  reg [ADDR_W-1:0] rd_addr;
  wire [ENTRY_W-1:0] rd_data;
  efa_ram #(
      .WIDTH (ENTRY_W),
      .ADDR_W(ADDR_W)
  ) u_ram (
      .clk(clk),
      .wr_en(wr_en),
      .wr_addr(wr_addr),
      .wr_data(wr_data),
      .rd_en(rd_en),
      .rd_addr(rd_addr),
      .rd_data(rd_data)
  );

  wire used;
  wire touched;
  wire [UAR_W-1:0] of_uar;
  wire [REF_W-1:0] refs;
  wire [15:0] gen;
  assign {used, touched, of_uar, refs, gen} = rd_data;
  wire referenced = refs != {REF_W{1'b0}};
  wire same_uar = of_uar == uar_q[UAR_W-1:0];
  wire [15:0] next_gen = kind_q == `EFA_OBJ_KIND__MR && gen == MR_LAST_GEN ? 16'd1 : gen + 16'd1;
  // The number is free, and no other existing UAR reaches it through an old mapping.
  wire available = !used && (!by_uar || !touched || same_uar);
  wire run = available && ((at_q & block) == {ADDR_W{1'b0}} || run_q);
  wire judging = state_q == ST_VALIDATE;
  wire set_used = op_q == `EFA_OBJ_OP__TAKE;

  assign m_init_done = state_q != ST_INIT;
  assign s_obj_ready = state_q == ST_DONE ? unit_q : {UNITS{1'b0}};
  assign m_obj_code = code_q;
  assign m_obj_index = {{16 - ADDR_W{1'b0}}, found_q};
  assign m_obj_uar = {{16 - UAR_W{1'b0}}, of_uar_q};
  assign m_obj_gen = gen_q;
  assign m_obj_referenced = referenced_q;

  always @* begin
    state_d = state_q;
    scan_d = scan_q + ONE;
    looked_d = 1'b0;
    run_d = run;
    code_d = code_q;
    wr_en = 1'b0;
    wr_addr = base + index;
    wr_data = rd_data;
    rd_en = 1'b0;
    rd_addr = base + scan_q;
    case (state_q)
      // Frees every number; the first generation of a QP is 0, of a key 1.
      ST_INIT: begin
        wr_en   = 1'b1;
        wr_addr = scan_q;
        wr_data = {{ENTRY_W - 16{1'b0}}, {16{scan_q >= FIRST_QP && scan_q < FIRST_LLQ}}};
        if (scan_q == LAST) state_d = ST_IDLE;
      end
      // Waits for a request.
      ST_IDLE: begin
        if (grant != {UNITS{1'b0}}) state_d = ST_LOOKUP;
      end
      // Reads the entry, or starts a scan.
      ST_LOOKUP: begin
        rd_addr = base + index;
        if (op_q == `EFA_OBJ_OP__FIND) begin
          scan_d  = hint & ~block;
          state_d = ST_SCAN;
        end else if (!in_range) begin
          code_d  = `EFA_OBJ_CODE__ABSENT;
          state_d = ST_DONE;
        end else if (kind_q == `EFA_OBJ_KIND__LLQ) begin
          scan_d  = index;
          state_d = ST_PAGES;
        end else begin
          rd_en   = 1'b1;
          state_d = ST_VALIDATE;
        end
      end
      // Validates the request and updates the entry.
      ST_VALIDATE: begin
        state_d = ST_DONE;
        scan_d  = SWEEP_FROM;
        code_d  = used ? `EFA_OBJ_CODE__OK : `EFA_OBJ_CODE__ABSENT;
        case (op_q)
          `EFA_OBJ_OP__TAKE: begin
            code_d  = `EFA_OBJ_CODE__OK;
            wr_en   = 1'b1;
            wr_data = {2'b11, uar_q[UAR_W-1:0], {REF_W{1'b0}}, next_gen};
          end
          `EFA_OBJ_OP__FREE: begin
            wr_data[ENTRY_W-1] = 1'b0;
            if (referenced) begin
              code_d = `EFA_OBJ_CODE__BUSY;
            end else begin
              wr_en = 1'b1;
              if (used && kind_q == `EFA_OBJ_KIND__UAR) state_d = ST_SWEEP;
            end
          end
          `EFA_OBJ_OP__REF, `EFA_OBJ_OP__REF_OF_UAR: begin
            wr_data[16+:REF_W] = refs + {{REF_W - 1{1'b0}}, 1'b1};
            if (op_q == `EFA_OBJ_OP__REF_OF_UAR && !same_uar) begin
              code_d = `EFA_OBJ_CODE__ABSENT;
            end else if (&refs) begin
              code_d = `EFA_OBJ_CODE__NONE;
            end else begin
              wr_en = used;
            end
          end
          `EFA_OBJ_OP__UNREF: begin
            wr_data[16+:REF_W] = refs - {{REF_W - 1{1'b0}}, 1'b1};
            wr_en = 1'b1;
          end
          default: begin
          end
        endcase
      end
      // Searches the lowest block that is available.
      ST_SCAN: begin
        rd_en = 1'b1;
        looked_d = scan_q < size;
        code_d = `EFA_OBJ_CODE__OK;
        if (looked_q) begin
          if (run && (at_q & block) == block) state_d = ST_DONE;
        end else if (scan_q >= size) begin
          code_d  = `EFA_OBJ_CODE__NONE;
          state_d = ST_DONE;
        end
      end
      // Takes or frees all pages of a ring.
      ST_PAGES: begin
        wr_en   = 1'b1;
        wr_addr = base + scan_q;
        wr_data = {set_used, 1'b1, uar_q[UAR_W-1:0], {REF_W + 16{1'b0}}};
        code_d  = `EFA_OBJ_CODE__OK;
        if ((scan_q & block) == block) state_d = ST_DONE;
      end
      // Scans for numbers of the freed UAR index_q: no mapping reaches them any more.
      ST_SWEEP: begin
        rd_en = 1'b1;
        rd_addr = scan_q;
        looked_d = scan_q <= LAST;
        wr_en = looked_q && of_uar == index_q[UAR_W-1:0];
        wr_addr = at_q;
        wr_data[ENTRY_W-2] = 1'b0;
        if (looked_q && at_q == LAST) state_d = ST_DONE;
      end
      // Holds the response for one cycle.
      default: begin
        state_d = ST_IDLE;
      end
    endcase
  end

  // Only the first page of a block moves the hint.
  wire changes = wr_en && (judging || state_q == ST_PAGES);
  wire freed = op_q == `EFA_OBJ_OP__FREE && changes;
  wire took = set_used && changes;

  always @(posedge clk) begin
    if (rst) begin
      state_q  <= ST_INIT;
      scan_q   <= {ADDR_W{1'b0}};
      looked_q <= 1'b0;
      hint_q   <= {8 * ADDR_W{1'b0}};
    end else begin
      state_q  <= state_d;
      scan_q   <= scan_d;
      looked_q <= looked_d;
      // Every number below the hint is taken.
      if (took && index == hint) hint_q[hint_at+:ADDR_W] <= hint + block + ONE;
      else if (freed && index < hint) hint_q[hint_at+:ADDR_W] <= index;
    end
  end

  always @(posedge clk) begin
    if (state_q == ST_IDLE) begin
      unit_q <= grant;
      op_q <= pick_op;
      kind_q <= pick_kind;
      index_q <= pick_index;
      uar_q <= pick_uar;
      log_q <= pick_log;
    end
    at_q <= scan_q;
    run_q <= run_d;
    code_q <= code_d;
    found_q <= at_q & ~block;
    of_uar_q <= of_uar;
    gen_q <= set_used ? next_gen : gen;
    referenced_q <= referenced;
  end

  wire unused_uar = &{1'b0, uar_q[15:UAR_W]};

  `EFA_CHECK(!(judging && set_used && used), "number allocated twice")
  `EFA_CHECK(!(judging && op_q == `EFA_OBJ_OP__UNREF && !referenced), "reference released twice")

endmodule

`default_nettype wire
