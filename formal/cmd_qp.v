// SPDX-License-Identifier: Apache-2.0
// fv_cmd_qp - proves efa_cmd_qp with efa_drain, efa_sq_ctrl, efa_qp_ctx and efa_llq: a QP is
// cleared, assigned to a UAR and given LLQ pages only as formal/isolation.v assumes.
//
// Commands, errors of queues and the responses of efa_obj_table are free. The wrapper has the
// reference machine of formal/isolation.v for one QP `me`, one UAR `y` and one LLQ page `page`, and
// a record of the drains that ended. The properties `clear`, `rings`, `hands`, `page`, `place`,
// `stays` and `receive` are the assumptions of formal/isolation.v with these names, identical or
// stronger.
`include "efa_defs.vh"
`include "efa_admin.vh"

module fv_cmd_qp #(
    parameter QPN_W   = 2,
    parameter CQN_W   = 2,
    parameter LLQ_AW  = 14,
    parameter SQ_HOST = 0
) (
    input wire clk,
    input wire rst_por,
    input wire rst,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire s_cmd_valid,
    input wire [511:0] s_cmd_data,
    input wire m_rsp_ready,
    input wire obj_ready,
    input wire [1:0] obj_rsp_code,
    input wire [15:0] obj_rsp_index,
    input wire [15:0] obj_rsp_gen,
    input wire cqc_valid,
    input wire [CQN_W-1:0] cqc_cqn,
    input wire cqc_long_id,
    input wire rq_ctrl_ready,
    input wire [2:0] other_drains,
    input wire drain_send_ready,
    input wire drain_recv_ready,
    input wire drain_cpl_ready,
    input wire clear_fetch_ready,
    input wire [15:0] consumed_ops,
    input wire [15:0] completed_ops,
    input wire cancel_ready,
    input wire ops_drain_valid,
    input wire ops_fence_ready,
    input wire ops_fence_done,
    input wire [4*QPN_W-1:0] qpc_send_addr,
    input wire [2*QPN_W-1:0] qpc_recv_addr,
    input wire qpchg_send_ready,
    input wire qpchg_recv_ready,
    input wire qperr_send_valid,
    input wire [QPN_W-1:0] qperr_send_qpn,
    input wire [3:0] qperr_send_cause,
    input wire qperr_recv_valid,
    input wire [QPN_W-1:0] qperr_recv_qpn,
    input wire [3:0] qperr_recv_cause,
    input wire llq_valid,
    input wire [LLQ_AW-6-1:0] llq_line,
    input wire [15:0] llq_dwen,
    input wire llq_part,
    input wire [511:0] llq_data,
    input wire [`EFA_QPC__W-1:0] llq_qpc,
    input wire [15:0] llq_prod,
    input wire [15:0] llq_consumed,
    input wire line_rd_en,
    input wire [LLQ_AW-6-1:0] line_rd_line,
    input wire void_valid,
    input wire [LLQ_AW-6-1:0] void_line,
    input wire void_parity
);

  localparam QPC_W = `EFA_QPC__W;
  localparam LINE_W = LLQ_AW - 6;
  localparam PAGE_LOG = 6;
  localparam PAGE_W = LINE_W - PAGE_LOG;
  localparam [2:0] RESET = `EFA_ADMIN_QP_STATE__RESET_W3;
  localparam [2:0] ERR = `EFA_ADMIN_QP_STATE__ERR_W3;
  // States of efa_cmd_qp, efa_drain and efa_sq_ctrl.
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
  localparam [4:0] ST_RSP = 5'd17;
  localparam [2:0] OPS_WISH = 3'd0;
  localparam [2:0] OPS_COUNTS = 3'd1;
  localparam [2:0] OPS_CLEAR = 3'd2;
  localparam [2:0] OPS_RING = 3'd3;
  localparam [2:0] OPS_CANCEL = 3'd4;
  localparam [2:0] OPS_FENCE = 3'd5;
  localparam [2:0] OPS_DONE = 3'd6;

  wire obj_valid;
  wire [2:0] obj_op;
  wire [2:0] obj_kind;
  wire [31:0] obj_index;
  wire [3:0] obj_log;
  wire m_drain_valid;
  wire [3:0] drain_ready;
  wire drain_send_valid;
  wire drain_recv_valid;
  wire drain_cpl_valid;
  wire qpc_admin_lock;
  wire qpc_admin_valid;
  wire qpc_admin_ready;
  wire [`EFA_QPC_ADMIN__W-1:0] qpc_admin_data;
  wire qpc_admin_write = qpc_admin_data[`EFA_QPC_ADMIN__WRITE];
  wire [11:0] qpc_admin_index = qpc_admin_data[`EFA_QPC_ADMIN__QPN];
  wire [QPN_W-1:0] qpc_admin_qpn = qpc_admin_index[QPN_W-1:0];
  wire [QPC_W-1:0] qpc_admin_wdata = qpc_admin_data[`EFA_QPC_ADMIN__WDATA];
  wire qpc_admin_rvalid;
  wire [QPC_W-1:0] qpc_admin_rdata;
  wire sq_ctrl_valid;
  wire sq_ctrl_ready;
  wire rq_ctrl_valid;
  wire [`EFA_QUEUE_OP__W-1:0] queue_op_data;
  wire [1:0] sq_ctrl_kind = queue_op_data[`EFA_QUEUE_OP__KIND];
  wire [11:0] queue_op_index = queue_op_data[`EFA_QUEUE_OP__QPN];
  wire [QPN_W-1:0] sq_ctrl_qpn = queue_op_index[QPN_W-1:0];
  wire [QPN_W-1:0] rq_ctrl_qpn = sq_ctrl_qpn;
  wire [QPC_W-1:0] sq_ctrl_qpc = queue_op_data[`EFA_QUEUE_OP__QPC];
  wire queue_op_busy;
  wire clear_valid;
  wire clear_fetch_valid;
  wire ring_valid;
  wire ring_ready;
  wire ring_own;
  wire ring_disown;
  wire cancel_valid;
  wire qp_init_done;
  wire llq_init_done;
  wire qperr_send_ready;
  wire qperr_recv_ready;

  efa_cmd_qp #(
      .QPN_W  (QPN_W),
      .CQN_W  (CQN_W),
      .SQ_HOST(SQ_HOST)
  ) u_qp (
      .clk(clk),
      .rst(rst),
      .s_cfg_profile(s_cfg_profile),
      .s_cmd_valid(s_cmd_valid),
      .s_cmd_data(s_cmd_data),
      .m_rsp_ready(m_rsp_ready),
      .m_obj_valid(obj_valid),
      .m_obj_ready(obj_ready),
      .m_obj_op(obj_op),
      .m_obj_kind(obj_kind),
      .m_obj_index(obj_index),
      .m_obj_log(obj_log),
      .s_obj_rsp_code(obj_rsp_code),
      .s_obj_rsp_index(obj_rsp_index),
      .s_obj_rsp_gen(obj_rsp_gen),
      .m_drain_valid(m_drain_valid),
      .m_drain_ready(drain_ready[2]),
      .s_cqc_valid(cqc_valid),
      .s_cqc_cqn(cqc_cqn),
      .s_cqc_long_id(cqc_long_id),
      .m_qpc_admin_lock(qpc_admin_lock),
      .m_qpc_admin_valid(qpc_admin_valid),
      .m_qpc_admin_ready(qpc_admin_ready),
      .m_qpc_admin_data(qpc_admin_data),
      .s_qpc_admin_rvalid(qpc_admin_rvalid),
      .s_qpc_admin_rdata(qpc_admin_rdata),
      .m_queue_op_valid({rq_ctrl_valid, sq_ctrl_valid}),
      .m_queue_op_ready({rq_ctrl_ready, sq_ctrl_ready}),
      .m_queue_op_data(queue_op_data),
      .s_queue_op_busy(queue_op_busy)
  );

  efa_drain #(
      .UNITS(4)
  ) u_drain (
      .clk(clk),
      .rst(rst),
      .s_drain_valid({other_drains[2], m_drain_valid, other_drains[1:0]}),
      .s_drain_late(4'b1001),
      .s_drain_ready(drain_ready),
      .m_drain_valid({drain_cpl_valid, drain_recv_valid, drain_send_valid}),
      .m_drain_ready({drain_cpl_ready, drain_recv_ready, drain_send_ready})
  );

  efa_sq_ctrl #(
      .QPN_W(QPN_W)
  ) u_ops (
      .clk(clk),
      .rst(rst),
      .s_op_valid(sq_ctrl_valid),
      .s_op_ready(sq_ctrl_ready),
      .s_op_kind(sq_ctrl_kind),
      .s_op_qpn(sq_ctrl_qpn),
      .m_op_busy(queue_op_busy),
      .s_drain_valid(ops_drain_valid),
      .consumed_rd_data(consumed_ops),
      .completed_rd_data(completed_ops),
      .m_clear_valid(clear_valid),
      .m_fetch_valid(clear_fetch_valid),
      .m_fetch_ready(clear_fetch_ready),
      .m_llq_valid(ring_valid),
      .m_llq_ready(ring_ready),
      .m_llq_own(ring_own),
      .m_llq_disown(ring_disown),
      .m_cancel_valid(cancel_valid),
      .m_cancel_ready(cancel_ready),
      .m_fence_ready(ops_fence_ready),
      .s_fence_done(ops_fence_done)
  );

  efa_qp_ctx #(
      .QPN_W(QPN_W)
  ) u_ctx (
      .clk(clk),
      .rst(rst),
      .qpc_rd_addr({qpc_recv_addr, qpc_send_addr}),
      .s_qpc_admin_lock(qpc_admin_lock),
      .s_qpc_admin_valid(qpc_admin_valid),
      .s_qpc_admin_ready(qpc_admin_ready),
      .s_qpc_admin_data(qpc_admin_data),
      .m_qpc_admin_rvalid(qpc_admin_rvalid),
      .m_qpc_admin_rdata(qpc_admin_rdata),
      .m_qpchg_ready({qpchg_recv_ready, qpchg_send_ready}),
      .s_qperr_valid({qperr_recv_valid, qperr_send_valid}),
      .s_qperr_ready({qperr_recv_ready, qperr_send_ready}),
      .s_qperr_data({
        qperr_recv_cause,
        {12 - QPN_W{1'b0}},
        qperr_recv_qpn,
        qperr_send_cause,
        {12 - QPN_W{1'b0}},
        qperr_send_qpn
      }),
      .m_init_done(qp_init_done)
  );

  efa_llq #(
      .QPN_W (QPN_W),
      .LLQ_AW(LLQ_AW)
  ) u_llq (
      .clk(clk),
      .rst(rst),
      .rst_por(rst_por),
      .m_init_done(llq_init_done),
      .s_llq_valid(llq_valid),
      .s_llq_line(llq_line),
      .s_llq_dwen(llq_dwen),
      .s_llq_part(llq_part),
      .s_llq_data(llq_data),
      .s_op_valid(ring_valid),
      .s_op_ready(ring_ready),
      .s_op_own(ring_own),
      .s_op_disown(ring_disown),
      .s_op_qpn(sq_ctrl_qpn),
      .s_op_qpc(sq_ctrl_qpc),
      .qpc_rd_data(llq_qpc),
      .prod_rd_data(llq_prod),
      .consumed_rd_data(llq_consumed),
      .line_rd_en(line_rd_en),
      .line_rd_addr(line_rd_line),
      .s_void_valid(void_valid),
      .s_void_line(void_line),
      .s_void_parity(void_parity)
  );

  (* anyconst *) wire [15:0] y;
  (* anyconst *) wire [QPN_W-1:0] me;
  (* anyconst *) wire [PAGE_W-1:0] page;

  (* probe = "u_qp.state_q" *) wire [4:0] state;
  (* probe = "u_qp.qpn_q" *) wire [QPN_W-1:0] qpn;
  (* probe = "u_qp.qpc_q" *) wire [QPC_W-1:0] qpc;
  (* probe = "u_qp.page_q" *) wire [15:0] found_page;
  (* probe = "u_qp.create" *) wire create;
  (* probe = "u_qp.query" *) wire query;
  (* probe = "u_qp.destroy" *) wire destroy;
  (* probe = "u_qp.to_reset" *) wire to_reset;
  (* probe = "u_qp.u_rules.sq_depth_ok" *) wire sq_depth_ok;
  (* probe = "u_qp.sq_log" *) wire [3:0] sq_log;
  (* probe = "u_qp.wqe128" *) wire wqe128;
  (* probe = "u_qp.pages_log" *) wire [3:0] pages_log;
  (* probe = "u_drain.state_q" *) wire [2:0] drain;
  (* probe = "u_drain.unit_q" *) wire [3:0] drain_unit;
  (* probe = "u_ops.state_q" *) wire [2:0] ops;
  (* probe = "u_ops.cleared_q" *) wire ops_cleared;
  (* probe = "u_ctx.state_q" *) wire [2:0] ctx_state;
  (* probe = "u_ctx.init_q" *) wire [QPN_W-1:0] ctx_init;
  (* probe = "u_ctx.qpn_q" *) wire [QPN_W-1:0] ctx_qpn;
  (* probe = "u_ctx.u_own.word_addr" *) wire [QPN_W-1:0] own_addr;
  (* probe = "u_ctx.u_own.word_q" *) wire [QPC_W-1:0] own_word;
  (* probe = "u_ctx.u_own.word_known_q" *) wire own_known;
  (* probe = "u_ctx.u_own.rd_data_q" *) wire [QPC_W-1:0] own_read;
  (* probe = "u_llq.op_line_q" *) wire [11:0] op_line;

  reg began_q = 1'b0;

  // As in formal/isolation.v: the context, its UAR, and the validity of that state.
  reg [QPC_W-1:0] ctx_q;
  reg [QPC_W-1:0] ctx1_q;
  reg [QPC_W-1:0] ctx2_q;
  reg [QPC_W-1:0] ctx3_q;
  reg check_q;
  reg known_q;
  wire admin_writes = qpc_admin_valid && qpc_admin_ready && qpc_admin_write && qpc_admin_qpn == me;
  wire reported = (qperr_send_valid && qperr_send_ready && qperr_send_qpn == me)
      || (qperr_recv_valid && qperr_recv_ready && qperr_recv_qpn == me);
  function rings(input [QPC_W-1:0] ctx);
    rings = ctx[`EFA_QPC__LIVE] && ctx[`EFA_QPC__STATE] != RESET;
  endfunction
  function of_y(input [QPC_W-1:0] ctx);
    of_y = {6'd0, ctx[`EFA_QPC__UAR]} == y;
  endfunction
  wire quiet = !rings(ctx_q) && !rings(ctx1_q) && !rings(ctx2_q) && !rings(ctx3_q);
  wire gone = !ctx_q[`EFA_QPC__LIVE] && !ctx1_q[`EFA_QPC__LIVE] && !ctx2_q[`EFA_QPC__LIVE]
      && !ctx3_q[`EFA_QPC__LIVE];
  wire cleared = clear_valid && sq_ctrl_qpn == me;

  // Drains that began and ended since the queue could accept doorbells: of sends, of receives and
  // of completions, one after the other.
  localparam [2:0] PASSED = 3'd4;
  reg [2:0] drained_q;
  reg draining_q;
  wire begins = drain_send_valid && !draining_q;
  wire [2:0] drained = begins && drained_q != PASSED ? 3'd1 : drained_q;

  // efa_obj_table has allocated the number and the page, as its responses report.
  reg held_q;
  reg page_held_q;
  wire answers = obj_valid && obj_ready;
  wire ok = obj_rsp_code == `EFA_OBJ_CODE__OK;
  wire [15:0] block = (16'd1 << obj_log) - 16'd1;
  wire of_qp = obj_kind == `EFA_OBJ_KIND__QP;
  wire of_llq = obj_kind == `EFA_OBJ_KIND__LLQ;
  wire finds = answers && obj_op == `EFA_OBJ_OP__FIND && ok;
  wire takes = answers && obj_op == `EFA_OBJ_OP__TAKE;
  wire frees = answers && obj_op == `EFA_OBJ_OP__FREE && ok;
  wire [15:0] page_wide = {{16 - PAGE_W{1'b0}}, page};
  wire in_block = (page_wide & ~block) == (obj_index[15:0] & ~block);
  wire in_found = (page_wide & ~block) == (obj_rsp_index & ~block);

  // Owner of the page, as in formal/isolation.v.
  reg own_q;
  reg [QPN_W-1:0] own_qpn_q;
  reg [2:0] owned_q;
  wire [19:0] op_place = sq_ctrl_qpc[`EFA_QPC__SQ_LINE] + {8'd0, op_line};
  wire op_mine = ring_valid && (ring_own || ring_disown) && op_place[LINE_W-1:PAGE_LOG] == page;
  reg op_waits_q;
  reg [QPC_W+QPN_W+1:0] op_q;

  // A ring begins at a page and at a multiple of its size, ends inside the memory and has at most
  // 1,024 WQEs.
  function placed(input [QPC_W-1:0] ctx);
    placed = ctx[`EFA_QPC__SQ_LINE] % 64 == 0 && ctx[`EFA_QPC__SQ_LOG] <= 4'd10
        && ctx[`EFA_QPC__SQ_LINE] < (20'd1 << LINE_W)
        && ctx[`EFA_QPC__SQ_LINE] + (20'd1 << (ctx[`EFA_QPC__SQ_LOG] + ctx[`EFA_QPC__WQE128]))
        <= (20'd1 << LINE_W)
        && (ctx[`EFA_QPC__SQ_LINE] & ((20'd1 << (ctx[`EFA_QPC__SQ_LOG] + ctx[`EFA_QPC__WQE128]))
        - 20'd1)) == 20'd0;
  endfunction

  // The page is in the ring of the command; progress of the request for that ring.
  wire [19:0] ring_lines = 20'd1 << (qpc[`EFA_QPC__SQ_LOG] + qpc[`EFA_QPC__WQE128]);
  wire [19:0] ring_page = qpc[`EFA_QPC__SQ_LINE] >> PAGE_LOG;
  wire [19:0] ring_end = (qpc[`EFA_QPC__SQ_LINE] + ring_lines + 20'd63) >> PAGE_LOG;
  wire in_ring = {4'd0, page_wide} >= ring_page && {4'd0, page_wide} < ring_end;
  wire [19:0] op_page = op_place >> PAGE_LOG;
  wire passed_page = {4'd0, page_wide} < op_page;
  wire at_page = {4'd0, page_wide} == op_page;
  wire [15:0] new_block = (16'd1 << pages_log) - 16'd1;
  wire in_new = (page_wide & ~new_block) == (found_page & ~new_block);
  wire free_page = !own_q && owned_q == 3'd0;

  always @(posedge clk) begin
    began_q <= 1'b1;
    ctx1_q <= rst ? {QPC_W{1'b0}} : ctx_q;
    ctx2_q <= rst ? {QPC_W{1'b0}} : ctx1_q;
    ctx3_q <= rst ? {QPC_W{1'b0}} : ctx2_q;
    check_q <= !rst && reported;
    if (rst) ctx_q <= {QPC_W{1'b0}};
    else if (admin_writes) ctx_q <= qpc_admin_wdata;
    else if (check_q && rings(ctx_q)) ctx_q[`EFA_QPC__STATE] <= ERR;
    if (rst) known_q <= 1'b0;
    else if (admin_writes && qpc_admin_wdata[`EFA_QPC__LIVE] && !of_y(qpc_admin_wdata))
      known_q <= 1'b0;
    else if (cleared) known_q <= !ctx_q[`EFA_QPC__LIVE] || of_y(ctx_q);

    draining_q <= !rst && drain_send_valid;
    if (rst) drained_q <= PASSED;
    else if (admin_writes && rings(ctx_q)) drained_q <= 3'd0;
    else if (rings(ctx_q)) drained_q <= 3'd0;
    else if (drained == 3'd1 && drain_send_valid && drain_send_ready) drained_q <= 3'd2;
    else if (drained == 3'd2 && drain_recv_valid && drain_recv_ready) drained_q <= 3'd3;
    else if (drained == 3'd3 && drain_cpl_valid && drain_cpl_ready) drained_q <= PASSED;
    else drained_q <= drained;

    if (rst) held_q <= 1'b0;
    else if (takes && of_qp && obj_index == {{32 - QPN_W{1'b0}}, me}) held_q <= 1'b1;
    else if (frees && of_qp && obj_index == {{32 - QPN_W{1'b0}}, me}) held_q <= 1'b0;
    if (rst) page_held_q <= 1'b0;
    else if (takes && of_llq && in_block) page_held_q <= 1'b1;
    else if (frees && of_llq && in_block) page_held_q <= 1'b0;

    op_waits_q <= !rst && ring_valid && !ring_ready;
    op_q <= {ring_own, ring_disown, sq_ctrl_qpn, sq_ctrl_qpc};
    owned_q <= rst ? 3'd0 : {owned_q[1:0], own_q};
    if (rst) own_q <= 1'b0;
    else if (op_mine) begin
      own_q <= ring_own;
      own_qpn_q <= sq_ctrl_qpn;
    end
  end

  wire ctx_there = ctx_state != 3'd0 || ctx_init > me;
  wire mine = qpn == me;
  wire ours = drain_unit[2];
  wire changes = destroy || to_reset;

  always @* begin
    a_began : assume (began_q || rst_por);
    a_power : assume (!rst_por || rst);
    a_commands : assume (!s_cmd_valid || (qp_init_done && llq_init_done));
    a_found_qp :
    assume (!(finds && of_qp) || (obj_rsp_index < (16'd1 << QPN_W)
        && !(held_q && obj_rsp_index == {{16 - QPN_W{1'b0}}, me})));
    a_found_page :
    assume (!(finds && of_llq) || ((obj_rsp_index & block) == 16'd0
        && {1'b0, obj_rsp_index} + {1'b0, block} < (17'd1 << PAGE_W)
        && !(page_held_q && in_found)));
    a_others :
    assume (!(qpc_admin_rvalid && ctx_qpn != me && qpc_admin_rdata[`EFA_QPC__LIVE]) || placed(
        qpc_admin_rdata
    ));
    a_words : assume (own_addr == me);
    if (began_q && !rst) begin
      h_states :
      assert (state <= ST_RSP && ops <= OPS_DONE && drain <= 3'd4
          && (ctx_state <= 3'd4) && !(create && (query || changes)) && !(query && changes));
      h_context : assert (!ctx_there || (own_known && own_word == ctx_q));
      h_dead :
      assert (ctx_state != 3'd0 || (ctx_q == {QPC_W{1'b0}} && !check_q && (state == ST_IDLE)));
      h_init : assert (state == ST_IDLE || (qp_init_done && llq_init_done));
      h_check :
      assert (check_q == (ctx_state == 3'd3 && ctx_qpn == me) && (!check_q || own_read == ctx_q));
      h_path :
      assert ((!(state >= ST_REF && state <= ST_TAKE_LLQ) || create)
          && (!(state >= ST_READ && state <= ST_COMPARE) || !create)
          && (state != ST_DRAIN || changes) && (!(state == ST_FREE_LLQ || state == ST_FREE)
          || destroy) && (state != ST_SQ_CTRL || create || query || changes)
          && (state != ST_RQ_CTRL || create || changes));
      h_rsp :
      assert ((state == ST_CTX) == (ctx_state == 3'd2)
          && (state != ST_CTX || (ctx_qpn == qpn && (!mine || own_read == ctx_q))));
      h_compare :
      assert (state != ST_COMPARE || (!check_q && (!mine || qpc == ctx_q)
          && (mine || !qpc[`EFA_QPC__LIVE] || placed(
          qpc
      ))));
      h_new :
      assert (!(create && state >= ST_REF && (state <= ST_TAKE_LLQ || (state >= ST_WRITE
          && state <= ST_RQ_CTRL))) || (sq_depth_ok && qpc[`EFA_QPC__LIVE]
          && qpc[`EFA_QPC__STATE] == RESET && qpc[`EFA_QPC__SQ_LOG] == sq_log
          && qpc[`EFA_QPC__WQE128] == wqe128));
      h_number : assert (!((state == ST_FIND_LLQ || state == ST_TAKE) && mine) || !held_q);
      h_pages :
      assert (!(state == ST_TAKE || state == ST_TAKE_LLQ || (create && state >= ST_WRITE
          && state <= ST_RQ_CTRL)) || ((found_page & new_block) == 16'd0
          && {1'b0, found_page} + {1'b0, new_block} < (17'd1 << PAGE_W)));
      h_pages_free :
      assert (!((state == ST_TAKE || state == ST_TAKE_LLQ) && in_new) || !page_held_q);
      h_write :
      assert (state != ST_WRITE || create || (!check_q && placed(
          qpc
      ) && (!mine || (ctx_q[`EFA_QPC__LIVE] && qpc[`EFA_QPC__UAR] == ctx_q[`EFA_QPC__UAR])) &&
          qpc[`EFA_QPC__LIVE] != destroy && (!changes || qpc[`EFA_QPC__STATE] == RESET) &&
          (changes || !mine || rings(
          qpc
      ) || !rings(
          ctx_q
      ))));
      h_place :
      assert (!(create && state >= ST_WRITE && state <= ST_RQ_CTRL)
          || qpc[`EFA_QPC__SQ_LINE] == {4'd0, found_page} << PAGE_LOG);
      h_after :
      assert (!(state >= ST_DRAIN && state <= ST_FREE && !query) || (placed(
          qpc
      ) && !rings(
          qpc
      ) && qpc[`EFA_QPC__LIVE] == !destroy && (!mine || ctx_q == qpc)));
      h_query : assert (!(state == ST_SQ_CTRL && query) || placed(qpc));
      h_placed : assert (!ctx_q[`EFA_QPC__LIVE] || placed(ctx_q));
      h_free_page :
      assert (!(destroy && state >= ST_WRITE && state <= ST_FREE_LLQ)
          || {4'd0, found_page} == ring_page);
      h_held : assert (held_q || gone);
      h_holds :
      assert (!(create && mine && (state == ST_TAKE_LLQ || (state >= ST_WRITE && state <= ST_RQ_CTRL)))
          || held_q);
      h_accepted :
      assert (!(mine && (state == ST_TAKE_LLQ || (create && state == ST_WRITE))) || gone);
      h_gone : assert (!(destroy && mine && state >= ST_SQ_CTRL && state <= ST_FREE) || gone);
      h_drain : assert (!(drain >= 3'd1 && ours) || state == ST_DRAIN);
      h_drain_ctx :
      assert (!(state == ST_DRAIN && mine && ours && drain >= 3'd1) || (!rings(
          ctx1_q
      ) && (drain < 3'd2 || !rings(
          ctx2_q
      )) && (drain < 3'd3 || !rings(
          ctx3_q
      )) && (!destroy || (!ctx1_q[`EFA_QPC__LIVE] && (drain < 3'd2 || !ctx2_q[`EFA_QPC__LIVE]) &&
                          (drain < 3'd3 || !ctx3_q[`EFA_QPC__LIVE])))));
      h_draining : assert (!draining_q || drain == 3'd1 || drain == 3'd2);
      h_drained :
      assert (drained_q <= PASSED && (!(state == ST_DRAIN && mine && ours && drain >= 3'd1)
          || drained_q == PASSED || drained_q == (drain == 3'd1 && !draining_q ? drained_q : drain)));
      h_drained_else : assert (drained_q == PASSED || rings(ctx_q) || (state == ST_DRAIN && mine));
      h_quiet : assert (!(mine && !query && (state == ST_SQ_CTRL || state == ST_RQ_CTRL)) || quiet);
      h_ops :
      assert ((ops == OPS_WISH || state == ST_SQ_CTRL) && (ops != OPS_COUNTS || query)
          && (!(ops >= OPS_CLEAR && ops <= OPS_FENCE) || !query)
          && ((ops != OPS_CANCEL && ops != OPS_FENCE) || !create));
      h_known :
      assert (!(ctx_q[`EFA_QPC__LIVE] && of_y(
          ctx_q
      )) || known_q || (state == ST_SQ_CTRL && create && mine &&
                        (ops == OPS_WISH || (ops == OPS_CLEAR && !ops_cleared))));
      h_line : assert (ops == OPS_RING ? {8'd0, op_line} < ring_lines : op_line == 0);
      h_waits : assert (!op_waits_q || ops == OPS_RING);
      h_free : assert (page_held_q || free_page);
      h_keeps :
      assert (!(create && in_ring && state >= ST_WRITE && state <= ST_RQ_CTRL) || page_held_q);
      h_giving :
      assert (!(create && in_ring && ((state == ST_WRITE) || (state == ST_SQ_CTRL && ops < OPS_RING)))
          || free_page);
      h_given :
      assert (!(create && ops == OPS_RING && in_ring && !passed_page) || (at_page && op_waits_q
          && own_q && own_qpn_q == qpn) || free_page);
      h_taking :
      assert (!(destroy && ops == OPS_RING && in_ring && (passed_page || (at_page
          && op_line[5:0] != 6'd0))) || !own_q);
      h_given_back :
      assert (!(destroy && in_ring && (ops == OPS_CANCEL || ops == OPS_FENCE || ops == OPS_DONE || state == ST_RQ_CTRL
          || state == ST_FREE_LLQ)) || (!own_q && (ops != OPS_DONE || !owned_q[0])
          && (state != ST_RQ_CTRL || owned_q[1:0] == 2'd0) && (state != ST_FREE_LLQ
          || owned_q == 3'd0)));

      p_clear : assert (!cleared || (quiet && drained_q == PASSED));
      p_receive : assert (!(rq_ctrl_valid && rq_ctrl_qpn == me) || (quiet && drained_q == PASSED));
      p_rings :
      assert (!(admin_writes && rings(
          qpc_admin_wdata
      ) && of_y(
          qpc_admin_wdata
      )) || (known_q && !cleared));
      p_hands :
      assert (!(admin_writes && qpc_admin_wdata[`EFA_QPC__LIVE] && !(ctx_q[`EFA_QPC__LIVE]
          && ctx_q[`EFA_QPC__UAR] == qpc_admin_wdata[`EFA_QPC__UAR])) || (gone && !cleared
          && drained_q == PASSED));
      p_page :
      assert (!(op_mine && ring_own) || (!own_q && owned_q == 3'd0)
          || (op_waits_q && own_q && own_qpn_q == sq_ctrl_qpn));
      p_place : assert (!ring_valid || placed(sq_ctrl_qpc));
      p_stays :
      assert (!op_waits_q || (ring_valid && op_q == {ring_own, ring_disown, sq_ctrl_qpn, sq_ctrl_qpc}));

      p_requests :
      assert (!obj_valid || ((!of_llq || ((obj_op == `EFA_OBJ_OP__FIND || obj_op ==
      `EFA_OBJ_OP__TAKE
      || obj_op == `EFA_OBJ_OP__FREE) &&
          (obj_op == `EFA_OBJ_OP__FIND || ((obj_index[15:0] & block) == 16'd0 &&
                                           obj_index + {16'd0, block} < (32'd1 << PAGE_W))))) &&
          !(obj_op == `EFA_OBJ_OP__TAKE && of_llq && in_block && page_held_q) &&
          !(obj_op == `EFA_OBJ_OP__TAKE && of_qp && mine && held_q)));
      c_clear : cover (cleared && known_q && destroy);
      c_receive : cover (rq_ctrl_valid && rq_ctrl_qpn == me && destroy);
      c_rings : cover (admin_writes && rings(qpc_admin_wdata) && of_y(qpc_admin_wdata));
      c_hands : cover (admin_writes && create && of_y(qpc_admin_wdata) && me != 0);
      c_page : cover (op_mine && ring_own && page != 0);
      c_place : cover (ring_valid && ring_own && sq_ctrl_qpc[`EFA_QPC__SQ_LINE] != 0);
      c_requests : cover (obj_valid && of_llq && obj_op == `EFA_OBJ_OP__TAKE && block == 16'd1);
      c_stays : cover (op_waits_q && ring_own);
    end
  end

endmodule
