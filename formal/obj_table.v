// SPDX-License-Identifier: Apache-2.0
// fv_obj_table - proves efa_obj_table: only a free number is allocated, an object with references
// is not freed, and a number of a UAR is allocated to another UAR only when the first UAR is
// destroyed.
//
// The wrapper records one number of one kind of the solver's choice, from the responses to its
// requests: allocated, its UAR, its references, the UAR that can still reach it.
`include "efa_defs.vh"
`include "efa_admin.vh"

module fv_obj_table #(
    parameter QPN_W  = 2,
    parameter CQN_W  = 2,
    parameter LLQ_AW = 17,
    parameter UNITS  = 2,
    parameter REF_W  = 4
) (
    input wire clk,
    input wire rst,
    input wire [UNITS-1:0] s_obj_valid,
    input wire [3*UNITS-1:0] s_obj_op,
    input wire [3*UNITS-1:0] s_obj_kind,
    input wire [32*UNITS-1:0] s_obj_index,
    input wire [16*UNITS-1:0] s_obj_uar,
    input wire [4*UNITS-1:0] s_obj_log
);

  localparam LLQ_W = LLQ_AW - $clog2(`EFA_LIMITS__LLQ_PAGE_BYTES);
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
  localparam ENTRY_W = 2 + 10 + REF_W + 16;
  localparam [2:0] ST_INIT = 3'd0;
  localparam [2:0] ST_IDLE = 3'd1;
  localparam [2:0] ST_LOOKUP = 3'd2;
  localparam [2:0] ST_VALIDATE = 3'd3;
  localparam [2:0] ST_SCAN = 3'd4;
  localparam [2:0] ST_PAGES = 3'd5;
  localparam [2:0] ST_SWEEP = 3'd6;
  localparam [2:0] ST_DONE = 3'd7;

  wire [UNITS-1:0] s_obj_ready;
  wire [1:0] obj_code;
  wire [15:0] obj_index;
  wire init_done;

  efa_obj_table #(
      .QPN_W (QPN_W),
      .CQN_W (CQN_W),
      .LLQ_AW(LLQ_AW),
      .UNITS (UNITS),
      .REF_W (REF_W)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done),
      .s_obj_valid(s_obj_valid),
      .s_obj_ready(s_obj_ready),
      .s_obj_op(s_obj_op),
      .s_obj_kind(s_obj_kind),
      .s_obj_index(s_obj_index),
      .s_obj_uar(s_obj_uar),
      .s_obj_log(s_obj_log),
      .m_obj_code(obj_code),
      .m_obj_index(obj_index)
  );

  // The followed number.
  (* anyconst *) wire [2:0] my_kind;
  (* anyconst *) wire [15:0] n;

  function [ADDR_W-1:0] first(input [2:0] kind);
    case (kind)
      `EFA_OBJ_KIND__PD: first = BASE_PD;
      `EFA_OBJ_KIND__UAR: first = BASE_UAR;
      `EFA_OBJ_KIND__AH: first = BASE_AH;
      `EFA_OBJ_KIND__MR: first = BASE_MR;
      `EFA_OBJ_KIND__EQ: first = BASE_EQ;
      `EFA_OBJ_KIND__CQ: first = BASE_CQ;
      `EFA_OBJ_KIND__QP: first = BASE_QP;
      default: first = BASE_LLQ;
    endcase
  endfunction
  function [15:0] many(input [2:0] kind);
    case (kind)
      `EFA_OBJ_KIND__PD: many = 1 << `EFA_LIMITS__PD_W;
      `EFA_OBJ_KIND__UAR: many = 1 << `EFA_LIMITS__UAR_W;
      `EFA_OBJ_KIND__AH: many = 1 << `EFA_LIMITS__AH_W;
      `EFA_OBJ_KIND__MR: many = 1 << `EFA_LIMITS__MR_W;
      `EFA_OBJ_KIND__EQ: many = 1 << `EFA_LIMITS__EQN_W;
      `EFA_OBJ_KIND__CQ: many = 1 << CQN_W;
      `EFA_OBJ_KIND__QP: many = 1 << QPN_W;
      default: many = 1 << LLQ_W;
    endcase
  endfunction

  (* probe = "u_dut.state_q" *) wire [2:0] state;
  (* probe = "u_dut.unit_q" *) wire [UNITS-1:0] unit;
  (* probe = "u_dut.op_q" *) wire [2:0] op;
  (* probe = "u_dut.kind_q" *) wire [2:0] kind;
  (* probe = "u_dut.index_q" *) wire [31:0] index;
  (* probe = "u_dut.uar_q" *) wire [15:0] uar;
  (* probe = "u_dut.log_q" *) wire [3:0] log;
  (* probe = "u_dut.scan_q" *) wire [ADDR_W-1:0] scan;
  (* probe = "u_dut.at_q" *) wire [ADDR_W-1:0] at;
  (* probe = "u_dut.looked_q" *) wire looked;
  (* probe = "u_dut.run_q" *) wire run;
  (* probe = "u_dut.found_q" *) wire [ADDR_W-1:0] found;
  (* probe = "u_dut.hint_q" *) wire [8*ADDR_W-1:0] hints;
  (* probe = "u_dut.u_ram.word_addr" *) wire [ADDR_W-1:0] word_addr;
  (* probe = "u_dut.u_ram.word_q" *) wire [ENTRY_W-1:0] word;
  (* probe = "u_dut.u_ram.word_known_q" *) wire word_known;
  (* probe = "u_dut.u_ram.rd_data_q" *) wire [ENTRY_W-1:0] read;

  reg began_q = 1'b0;

  // The request whose response is in this cycle.
  reg [2:0] r_op;
  reg [2:0] r_kind;
  reg [31:0] r_index;
  reg [15:0] r_uar;
  reg [3:0] r_log;
  integer i;
  always @* begin
    r_op = 3'd0;
    r_kind = 3'd0;
    r_index = 32'd0;
    r_uar = 16'd0;
    r_log = 4'd0;
    for (i = 0; i < UNITS; i = i + 1) begin
      if (s_obj_ready[i]) begin
        r_op = s_obj_op[3*i+:3];
        r_kind = s_obj_kind[3*i+:3];
        r_index = s_obj_index[32*i+:32];
        r_uar = s_obj_uar[16*i+:16];
        r_log = s_obj_log[4*i+:4];
      end
    end
  end
  wire responds = s_obj_ready != {UNITS{1'b0}};
  wire ok = obj_code == `EFA_OBJ_CODE__OK;
  wire [31:0] r_block = (32'd1 << r_log) - 32'd1;
  wire mine = responds && r_kind == my_kind && ({16'd0, n} & ~r_block) == (r_index & ~r_block);
  wire finds = responds && ok && r_op == `EFA_OBJ_OP__FIND && r_kind == my_kind
      && ({16'd0, n} & ~r_block) == ({16'd0, obj_index} & ~r_block);
  wire by_uar = my_kind >= `EFA_OBJ_KIND__CQ;

  // Allocated, its UAR, its references, and whether the last UAR still exists.
  reg held_q;
  reg [9:0] uar_q;
  reg [REF_W-1:0] refs_q;
  reg reached_q;
  wire takes = mine && ok && r_op == `EFA_OBJ_OP__TAKE;
  wire frees = mine && ok && r_op == `EFA_OBJ_OP__FREE;
  wire refs = mine && ok && (r_op == `EFA_OBJ_OP__REF || r_op == `EFA_OBJ_OP__REF_OF_UAR);
  wire unrefs = mine && ok && r_op == `EFA_OBJ_OP__UNREF;
  wire uar_goes = responds && ok && r_op == `EFA_OBJ_OP__FREE && r_kind == `EFA_OBJ_KIND__UAR
      && r_index[9:0] == uar_q;

  always @(posedge clk) begin
    began_q <= 1'b1;
    if (rst) begin
      held_q <= 1'b0;
      refs_q <= {REF_W{1'b0}};
      reached_q <= 1'b0;
    end else begin
      if (takes) held_q <= 1'b1;
      else if (frees) held_q <= 1'b0;
      if (takes) refs_q <= {REF_W{1'b0}};
      else if (refs) refs_q <= refs_q + 1'b1;
      else if (unrefs) refs_q <= refs_q - 1'b1;
      if (takes || (frees && my_kind == `EFA_OBJ_KIND__LLQ)) reached_q <= 1'b1;
      else if (uar_goes && by_uar) reached_q <= 1'b0;
      if (takes || (frees && my_kind == `EFA_OBJ_KIND__LLQ)) uar_q <= r_uar[9:0];
    end
  end

  // The table word in the block, and the request in progress.
  wire w_used = word[ENTRY_W-1];
  wire w_touched = word[ENTRY_W-2];
  wire [9:0] w_uar = word[ENTRY_W-3-:10];
  wire [REF_W-1:0] w_refs = word[16+:REF_W];
  wire [31:0] block = (32'd1 << log) - 32'd1;
  wire [ADDR_W-1:0] block_n = block[ADDR_W-1:0];
  wire [ADDR_W-1:0] n_at = n[ADDR_W-1:0];
  wire in_block = ({16'd0, n} & ~block) == (index & ~block);
  wire hit = kind == my_kind && in_block;
  wire available = !w_used && (!by_uar || !w_touched || w_uar == uar[9:0]);
  wire paging = state == ST_PAGES || (state == ST_DONE && kind == `EFA_OBJ_KIND__LLQ
      && op != `EFA_OBJ_OP__FIND && obj_code == `EFA_OBJ_CODE__OK);
  wire paged = hit && kind == `EFA_OBJ_KIND__LLQ && paging && (state == ST_DONE || scan > n_at);
  wire judged = hit && kind != `EFA_OBJ_KIND__LLQ && (state == ST_SWEEP || state == ST_DONE)
      && op != `EFA_OBJ_OP__FIND && obj_code == `EFA_OBJ_CODE__OK;
  wire traversed = by_uar && kind == `EFA_OBJ_KIND__UAR && op == `EFA_OBJ_OP__FREE
      && obj_code == `EFA_OBJ_CODE__OK && index[9:0] == uar_q
      && ((state == ST_SWEEP && looked && at > word_addr) || state == ST_DONE);
  wire changed = (paged || judged) && (op == `EFA_OBJ_OP__TAKE || (op == `EFA_OBJ_OP__FREE
      && kind == `EFA_OBJ_KIND__LLQ));
  wire there = state != ST_INIT || scan > word_addr;
  wire llq_request = kind == `EFA_OBJ_KIND__LLQ && op != `EFA_OBJ_OP__FIND;

  // A command unit never changes a pending request, never requests a block of objects other than
  // LLQ pages, and never an invalid block of pages.
  reg lets_go;
  reg requests_many;
  reg requests_wrong;
  integer u;
  always @* begin
    lets_go = 1'b0;
    requests_many = 1'b0;
    requests_wrong = 1'b0;
    for (u = 0; u < UNITS; u = u + 1) begin
      if (state != ST_IDLE && state != ST_INIT && unit[u] && !(s_obj_valid[u]
          && s_obj_op[3*u+:3] == op && s_obj_kind[3*u+:3] == kind
          && s_obj_index[32*u+:32] == index && s_obj_uar[16*u+:16] == uar
          && s_obj_log[4*u+:4] == log)) begin
        lets_go = 1'b1;
      end
      if (s_obj_valid[u] && (s_obj_kind[3*u+:3] == `EFA_OBJ_KIND__LLQ ? s_obj_log[4*u+:4] > 4'd5
          : s_obj_log[4*u+:4] != 4'd0)) begin
        requests_many = 1'b1;
      end
      if (s_obj_valid[u] && s_obj_kind[3*u+:3] ==
          `EFA_OBJ_KIND__LLQ
          && s_obj_op[3*u+:3] !=
          `EFA_OBJ_OP__FIND
          && !((s_obj_op[3*u+:3] == `EFA_OBJ_OP__TAKE || s_obj_op[3*u+:3] == `EFA_OBJ_OP__FREE) &&
               (s_obj_index[32*u+:32] & ((32'd1 << s_obj_log[4*u+:4]) - 32'd1)) == 32'd0 &&
               s_obj_index[32*u+:32] < (32'd1 << LLQ_W))) begin
        requests_wrong = 1'b1;
      end
    end
  end

  always @* begin
    a_began : assume (began_q || rst);
    a_number : assume (n < many(my_kind));
    a_words : assume (word_addr == first(my_kind) + n_at);
    a_held : assume (!lets_go);
    a_single : assume (!requests_many);
    a_llq : assume (!requests_wrong);
    if (hit && state != ST_IDLE && state != ST_INIT && state != ST_DONE) begin
      a_take : assume (op != `EFA_OBJ_OP__TAKE || !held_q || paged || judged);
      a_unref : assume (op != `EFA_OBJ_OP__UNREF || refs_q != {REF_W{1'b0}} || paged || judged);
    end
    if (began_q && !rst) begin
      h_unit :
      assert (state == ST_IDLE || state == ST_INIT || (unit != {UNITS{1'b0}}
          && (unit & (unit - 1'b1)) == {UNITS{1'b0}}));
      h_there : assert (!there || word_known);
      h_init :
      assert (state != ST_INIT || (!held_q && refs_q == 0 && !reached_q
          && (!there || (!w_used && !w_touched && w_refs == 0))));
      h_scan :
      assert (state != ST_PAGES || ((scan & ~block_n) == (index[ADDR_W-1:0] & ~block_n)
          && llq_request && index < (32'd1 << LLQ_W)));
      h_kind :
      assert (state != ST_VALIDATE && state != ST_SWEEP || (kind !=
      `EFA_OBJ_KIND__LLQ
      && op != `EFA_OBJ_OP__FIND && index < many(
          kind
      )));
      h_sweep :
      assert (state != ST_SWEEP || (kind == `EFA_OBJ_KIND__UAR && op ==
      `EFA_OBJ_OP__FREE
      && obj_code == `EFA_OBJ_CODE__OK && scan >= BASE_CQ && scan <= TOTAL &&
          looked == (scan != BASE_CQ)));
      h_find : assert (state != ST_SCAN || op == `EFA_OBJ_OP__FIND);
      h_accepted :
      assert (!there || w_used == ((paged || judged) && op == `EFA_OBJ_OP__TAKE ? 1'b1
          : (paged || judged) && op == `EFA_OBJ_OP__FREE ? 1'b0 : held_q));
      h_refs :
      assert (!there || w_refs == (changed ? {REF_W{1'b0}}
          : judged && (op == `EFA_OBJ_OP__REF || op == `EFA_OBJ_OP__REF_OF_UAR) ? refs_q + 1'b1
          : judged && op == `EFA_OBJ_OP__UNREF ? refs_q - 1'b1 : refs_q));
      h_freed :
      assert (!(judged && op == `EFA_OBJ_OP__FREE) || (held_q && refs_q == {REF_W{1'b0}}));
      h_none : assert ((held_q && my_kind != `EFA_OBJ_KIND__LLQ) || refs_q == {REF_W{1'b0}});
      h_uar :
      assert (!there || !(changed || held_q || reached_q) || w_uar == (changed ? uar[9:0] : uar_q));
      h_touched : assert (!there || !by_uar || w_touched == (changed || (reached_q && !traversed)));
      h_read :
      assert ((state != ST_VALIDATE || !hit || read == word)
          && (!(state == ST_SCAN && looked && kind == my_kind && at == n_at) || read == word)
          && (!(state == ST_SWEEP && looked && at == word_addr) || read == word));
      h_at : assert (!((state == ST_SCAN || state == ST_SWEEP) && looked) || scan == at + 1'b1);
      h_begin :
      assert (!(state == ST_SCAN && !looked && {{16 - ADDR_W{1'b0}}, scan} < many(
          kind
      )) || (scan & block_n) == 0);
      h_range : assert (!(state == ST_SCAN && looked) || {{16 - ADDR_W{1'b0}}, at} < many(kind));
      h_run :
      assert (!(state == ST_SCAN && looked && run && kind == my_kind && (at & ~block_n) == (n_at
          & ~block_n) && n_at < at) || available);
      h_found :
      assert (!(state == ST_DONE && op == `EFA_OBJ_OP__FIND && obj_code == `EFA_OBJ_CODE__OK)
          || ((found & block_n) == 0 && {{16 - ADDR_W{1'b0}}, found} + block[15:0] < many(
          kind
      ) && (!(kind == my_kind && (n_at & ~block_n) == found) || available)));

      p_found :
      assert (!(responds && ok && r_op == `EFA_OBJ_OP__FIND && r_kind == my_kind)
          || ({16'd0, obj_index} + r_block < {16'd0, many(
          my_kind
      )} && ({16'd0, obj_index} & r_block) == 32'd0 && !(finds && held_q)));
      p_reached : assert (!(finds && by_uar && reached_q) || r_uar[9:0] == uar_q);
      p_absent : assert (!(refs || (mine && ok && r_op == `EFA_OBJ_OP__CHECK)) || held_q);
      p_uar : assert (!(mine && ok && r_op == `EFA_OBJ_OP__REF_OF_UAR) || uar_q == r_uar[9:0]);
      p_busy :
      assert (!frees || (held_q && refs_q == {REF_W{1'b0}}) || my_kind == `EFA_OBJ_KIND__LLQ);

      c_found : cover (finds && my_kind == `EFA_OBJ_KIND__LLQ && n == 16'd1 && r_log == 4'd1);
      c_reached : cover (finds && my_kind == `EFA_OBJ_KIND__LLQ && reached_q);
      c_absent : cover (refs && my_kind == `EFA_OBJ_KIND__PD);
      c_uar : cover (mine && ok && r_op == `EFA_OBJ_OP__REF_OF_UAR && uar_q == 10'd5);
      c_busy : cover (frees && my_kind == `EFA_OBJ_KIND__PD);
    end
  end

endmodule
