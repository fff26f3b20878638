// SPDX-License-Identifier: Apache-2.0
// fv_doorbell - proves efa_doorbell against the interface sheet, for one SQ, one RQ and one CQ of
// the solver's choice: every valid count has its effect once, two cycles after its store. No other
// store and no other queue changes their state.
`include "efa_defs.vh"

module fv_doorbell #(
    parameter QPN_W = 2,
    parameter CQN_W = 2
) (
    input wire clk,
    input wire rst,
    input wire db_valid,
    input wire [31:0] db_offset,
    input wire [31:0] db_data,
    input wire [`EFA_QPC__W-1:0] qpc_data,
    input wire cqc_valid,
    input wire [CQN_W-1:0] cqc_cqn,
    input wire [`EFA_CQC__W-1:0] cqc_data,
    input wire [15:0] prod_data,
    input wire [15:0] completed_data,
    input wire clear_valid,
    input wire [QPN_W-1:0] clear_qpn
);

  localparam [15:0] CQ_BASE = `EFA_LIMITS__DB_CQ_BASE;

  wire init_done;
  wire [QPN_W-1:0] qpc_addr;
  wire prod_valid;
  wire [QPN_W-1:0] prod_qpn;
  wire [15:0] prod_count;
  wire work_valid;
  wire [QPN_W-1:0] work_qpn;
  wire err_valid;
  wire [QPN_W-1:0] err_qpn;
  wire rqdb_valid;
  wire [QPN_W-1:0] rqdb_qpn;
  wire [15:0] rqdb_value;
  wire cqdb_valid;
  wire [CQN_W-1:0] cqdb_cqn;
  wire [31:0] cqdb_value;
  wire ev_db_valid;
  wire [63:0] ev_db_data;

  efa_doorbell #(
      .QPN_W(QPN_W),
      .CQN_W(CQN_W)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done),
      .s_db_valid(db_valid),
      .s_db_offset(db_offset),
      .s_db_data(db_data),
      .qpc_rd_addr(qpc_addr),
      .qpc_rd_data(qpc_data),
      .s_cqc_valid(cqc_valid),
      .s_cqc_cqn(cqc_cqn),
      .s_cqc_data(cqc_data),
      .prod_rd_data(prod_data),
      .completed_rd_data(completed_data),
      .m_prod_valid(prod_valid),
      .m_prod_qpn(prod_qpn),
      .m_prod_count(prod_count),
      .m_work_valid(work_valid),
      .m_work_qpn(work_qpn),
      .m_err_valid(err_valid),
      .m_err_qpn(err_qpn),
      .m_rqdb_valid(rqdb_valid),
      .m_rqdb_qpn(rqdb_qpn),
      .m_rqdb_value(rqdb_value),
      .m_cqdb_valid(cqdb_valid),
      .m_cqdb_cqn(cqdb_cqn),
      .m_cqdb_value(cqdb_value),
      .ev_db_valid(ev_db_valid),
      .ev_db_data(ev_db_data)
  );

  (* anyconst *) wire [QPN_W-1:0] me;
  (* anyconst *) wire [CQN_W-1:0] cq;
  // Probes: the chosen word of the CQ table, and the store that is validated.
  (* probe = "u_dut.u_cq.word_addr" *) wire [CQN_W-1:0] cq_word_addr;
  (* probe = "u_dut.u_cq.word_q" *) wire [10:0] cq_word;
  (* probe = "u_dut.u_cq.word_known_q" *) wire cq_word_known;
  (* probe = "u_dut.init_q" *) wire [CQN_W:0] sweep;
  (* probe = "u_dut.prod" *) wire [15:0] dut_prod;
  (* probe = "u_dut.s1_num_q" *) wire [12:0] s1_num;
  wire set_me = prod_valid && prod_qpn == me;

  reg began_q = 1'b0;

  // The store of the previous cycle: its contexts are read and the store is validated.
  reg b_valid_q;
  reg [31:0] b_offset_q;
  reg [31:0] b_data_q;

  // The count of the SQ, in the order of the stores, and that of efa_sq_index.
  reg [15:0] prod_q;
  reg [15:0] index_q;
  reg known_q;
  reg looked_q;

  // Target by the map of a page: SQ n at 8n, RQ n at 8n + 4, CQ n at the base + 4n.
  wire [15:0] place = b_offset_q[15:0];
  wire [15:0] page = b_offset_q[31:16];
  wire dword = place[1:0] == 0;
  wire [15:0] sq_place = {{13 - QPN_W{1'b0}}, me, 3'd0};
  wire [15:0] rq_place = {{13 - QPN_W{1'b0}}, me, 3'd4};
  wire [15:0] cq_place = CQ_BASE + {{14 - CQN_W{1'b0}}, cq, 2'd0};
  wire to_sq = b_valid_q && place == sq_place;
  wire to_rq = b_valid_q && place == rq_place;
  wire to_cq = b_valid_q && place == cq_place;

  // Permission: the contexts arrive in the cycle in which the store is validated.
  wire owner = qpc_data[`EFA_QPC__LIVE] && page == qpc_data[`EFA_QPC__UAR];
  wire ready = qpc_data[`EFA_QPC__STATE] != `EFA_ADMIN_QP_STATE__RESET_W3;
  wire [15:0] depth = 1 << qpc_data[`EFA_QPC__SQ_LOG];
  // The store is validated against prod_q, as p_checked shows.
  wire [15:0] outstanding = b_data_q[15:0] - completed_data;
  wire [15:0] posted = dut_prod - completed_data;
  wire legal = outstanding <= depth && outstanding >= posted;

  wire cleared = clear_valid && clear_qpn == me;

  // Owner of the CQ, when the store was one cycle old.
  reg cq_live_q;
  reg [9:0] cq_uar_q;
  reg was_cq_live_q;
  reg [9:0] was_cq_uar_q;

  // Expected outputs in this cycle.
  reg work_q;
  reg beyond_q;
  reg rq_q;
  reg cq_q;
  reg event_q;
  reg [31:0] value_q;
  reg count_q;
  reg back_to_back_q;

  wire count = to_sq && owner && ready && legal;

  always @(posedge clk) begin
    began_q <= 1'b1;
    b_valid_q <= !rst && db_valid;
    b_offset_q <= db_offset;
    b_data_q <= db_data;
    was_cq_live_q <= cq_live_q;
    was_cq_uar_q <= cq_uar_q;
    work_q <= !rst && count && b_data_q[15:0] != prod_q;
    beyond_q <= !rst && to_sq && owner && ready && !legal;
    rq_q <= !rst && to_rq && owner && ready;
    cq_q <= !rst && to_cq && was_cq_live_q && page == was_cq_uar_q;
    event_q <= !rst && b_valid_q;
    value_q <= b_data_q;
    count_q <= !rst && count;
    looked_q <= qpc_addr == me;
    if (cleared) index_q <= 0;
    else if (set_me) index_q <= prod_count;
    back_to_back_q <= !rst && work_q && count;
    if (rst) begin
      known_q <= 1'b0;
      cq_live_q <= 1'b0;
    end else begin
      if (cleared) begin
        prod_q  <= 0;
        known_q <= 1'b1;
      end else if (count) begin
        prod_q <= b_data_q[15:0];
      end
      if (cqc_valid && cqc_cqn == cq) begin
        cq_live_q <= cqc_data[`EFA_CQC__LIVE];
        cq_uar_q  <= cqc_data[`EFA_CQC__UAR];
      end
    end
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    // The map has dwords only; efa_mmio drops other stores.
    a_dword : assume (db_offset[1:0] == 0);
    // Stores and commands wait for the init sweep.
    a_init : assume (init_done || !(db_valid || cqc_valid || clear_valid));
    // A queue becomes live with its count cleared, and is cleared only while it accepts no
    // doorbells.
    a_cleared : assume (!to_sq || !owner || !ready || (known_q && !cleared));
    // efa_sq_index returns the index with the update of the cycle of the lookup.
    a_counted : assume (!looked_q || prod_data == index_q);
    a_word : assume (cq_word_addr == cq);
    if (began_q && !rst) begin
      h_index : assert (!known_q || set_me || prod_q == index_q);
      h_effect : assert (!set_me || (known_q && prod_count == prod_q));
      h_looked : assert (!known_q || s1_num[QPN_W-1:0] != me || looked_q);
      p_checked : assert (!known_q || s1_num[QPN_W-1:0] != me || dut_prod == prod_q);
      p_count : assert (set_me == count_q && (!set_me || prod_count == prod_q));
      h_cq :
      assert (sweep <= {1'b0, cq} || (cq_word_known && cq_word[0] == cq_live_q
          && (!cq_live_q || cq_word[10:1] == cq_uar_q)));
      h_init : assert (init_done || !(cq_live_q || known_q));
      p_work : assert ((work_valid && work_qpn == me) == work_q);
      p_beyond : assert ((err_valid && err_qpn == me) == beyond_q);
      p_rq :
      assert ((rqdb_valid && rqdb_qpn == me) == rq_q && (!rq_q || rqdb_value == value_q[15:0]));
      p_cq : assert ((cqdb_valid && cqdb_cqn == cq) == cq_q && (!cq_q || cqdb_value == value_q));
      p_event : assert (ev_db_valid == event_q);
      c_checked : cover (back_to_back_q && to_sq && dut_prod == 16'd3);
      c_work : cover (back_to_back_q && work_q && prod_q == 16'd3);
      c_beyond : cover (beyond_q && prod_q != 0);
      c_count : cover (set_me && back_to_back_q && prod_count == 16'd2);
      c_rq : cover (rq_q && value_q == 32'd5);
      c_cq : cover (cq_q && value_q == 32'd5);
      c_event : cover (event_q && !work_q && !beyond_q && !rq_q && !cq_q);
    end
  end

endmodule
