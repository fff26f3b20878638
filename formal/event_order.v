// SPDX-License-Identifier: Apache-2.0
// fv_event_order - proves that no MSI-X message is output before the write that it announces:
// efa_acq_write, efa_aenq, efa_wr_arb, efa_aq, efa_eq, efa_irq and efa_dma_wr together, for one
// vector of the solver's choice. The wrapper counts the entries that use this vector, and its
// messages, at the port where both go to the host in the order of their handshakes: the number of
// messages never exceeds the number of entries before them.
//
// Entries with an outstanding message are counted up to CAP; further entries are not counted, which
// makes the statement stronger. The number of possible causes of a message (a held note, a request,
// a pending or held vector) is at most that count: each message has its own entry before it.
//
// The counts are also equal if the message of one entry is too early and that of another too late.
// Therefore one entry of the solver's choice is followed: from the write of the entry to the next
// message of its vector, its message is in flight (p_own). An earlier message cannot be its
// message.
`include "efa_defs.vh"
`include "efa_admin.vh"

module fv_event_order #(
    parameter VECTORS = 4,
    parameter CQN_W   = 2,
    parameter SCAN_W  = 1
) (
    input wire clk,
    input wire rst,
    input wire bme,
    input wire stop_core,
    input wire stop_all,
    input wire msix_enable,
    input wire msix_fmask,
    input wire [15:0] moderation,
    input wire [31:0] keep_alive,
    input wire [31:0] groups,
    input wire reg_wr_valid,
    input wire [15:0] reg_wr_offset,
    input wire [31:0] reg_wr_data,
    input wire acc_valid,
    input wire acc_write,
    input wire [31:0] acc_offset,
    input wire [31:0] acc_data,
    input wire rsp_valid,
    input wire s_aenq_valid,
    input wire [15:0] s_aenq_group,
    input wire cqc_valid,
    input wire [CQN_W-1:0] cqc_cqn,
    input wire [`EFA_CQC__W-1:0] cqc_data,
    input wire eqc_valid,
    input wire [`EFA_LIMITS__EQN_W-1:0] eqc_eqn,
    input wire [`EFA_EQC__W-1:0] eqc_data,
    input wire cqdb_valid,
    input wire [CQN_W-1:0] cqdb_cqn,
    input wire [31:0] cqdb_value,
    input wire eqdb_valid,
    input wire [31:0] eqdb_value,
    input wire s_commit_valid,
    input wire [CQN_W-1:0] s_commit_cqn,
    input wire [15:0] s_commit_total,
    input wire wr_rx_valid,
    input wire wr_rx_last,
    input wire wr_cq_valid,
    input wire wr_reg_valid,
    input wire m_dma_wr_ready,
    input wire pick
);

  localparam EQN_W = `EFA_LIMITS__EQN_W;
  localparam EQS = 1 << EQN_W;
  localparam VEC_W = $clog2(VECTORS);
  localparam [5:0] CAP = 6'd40;

  wire acq_on;
  wire acq_start;
  wire [63:0] acq_base;
  wire [3:0] acq_log;
  wire acq_note;
  wire aenq_note;
  wire [7:0] aenq_vector;
  wire acq_valid;
  wire acq_ready;
  wire [63:0] acq_addr;
  wire [511:0] acq_data;
  wire aenq_valid;
  wire aenq_ready;
  wire [63:0] aenq_addr;
  wire [511:0] aenq_data;
  wire adm_valid;
  wire adm_ready;
  wire [63:0] adm_addr;
  wire [511:0] adm_data;
  wire irq_adm_valid;
  wire irq_adm_ready;
  wire [7:0] irq_adm_vector;
  wire eq_init_done;
  wire irq_eq_valid;
  wire irq_eq_ready;
  wire [7:0] irq_eq_vector;
  wire eq_valid;
  wire eq_ready;
  wire [63:0] eq_addr;
  wire [127:0] eq_data;
  wire irq_valid;
  wire irq_ready;
  wire [63:0] irq_addr;
  wire [31:0] irq_data;
  wire ev_irq_valid;
  wire [63:0] ev_irq_data;

  efa_acq_write #(
      .SOURCES(1)
  ) u_post (
      .clk(clk),
      .rst(rst),
      .s_cfg_acq_on(acq_on),
      .s_cfg_acq_crc(1'b0),
      .s_acq_start(acq_start),
      .s_cfg_acq_base(acq_base),
      .s_cfg_acq_log(acq_log),
      .s_rsp_valid(rsp_valid),
      .s_rsp_id(12'd0),
      .s_rsp_status(8'd0),
      .s_rsp_body({`EFA_ADMIN_BODY_W{1'b0}}),
      .m_wr_valid(acq_valid),
      .m_wr_ready(acq_ready),
      .m_wr_addr(acq_addr),
      .m_wr_data(acq_data),
      .m_note_valid(acq_note)
  );

  efa_aenq u_aenq (
      .clk(clk),
      .rst(rst),
      .s_reg_wr_valid(reg_wr_valid),
      .s_reg_wr_offset(reg_wr_offset),
      .s_reg_wr_data(reg_wr_data),
      .s_cfg_keep_alive(keep_alive),
      .s_groups(groups),
      .s_uptime(64'd0),
      .s_aenq_valid(s_aenq_valid),
      .s_aenq_group(s_aenq_group),
      .s_aenq_syndrome(16'd0),
      .s_aenq_data(384'd0),
      .m_wr_valid(aenq_valid),
      .m_wr_ready(aenq_ready),
      .m_wr_addr(aenq_addr),
      .m_wr_data(aenq_data),
      .m_note_valid(aenq_note),
      .m_vector(aenq_vector)
  );

  efa_wr_arb u_join (
      .clk(clk),
      .rst(rst),
      .s_first_valid(acq_valid),
      .s_first_ready(acq_ready),
      .s_first_data({acq_addr, acq_data}),
      .s_second_valid(aenq_valid),
      .s_second_ready(aenq_ready),
      .s_second_data({aenq_addr, aenq_data}),
      .m_wr_valid(adm_valid),
      .m_wr_ready(adm_ready),
      .m_wr_data({adm_addr, adm_data})
  );

  efa_aq u_aq (
      .clk(clk),
      .rst(rst),
      .s_reg_wr_valid(reg_wr_valid),
      .s_reg_wr_offset(reg_wr_offset),
      .s_reg_wr_data(reg_wr_data),
      .s_aq_consumed(1'b0),
      .m_cfg_acq_on(acq_on),
      .m_acq_start(acq_start),
      .m_cfg_acq_base(acq_base),
      .m_cfg_acq_log(acq_log),
      .s_note_valid(acq_note),
      .s_aenq_valid(aenq_note),
      .s_cfg_aenq_vector(aenq_vector),
      .m_irq_valid(irq_adm_valid),
      .m_irq_ready(irq_adm_ready),
      .m_irq_vector(irq_adm_vector)
  );

  efa_eq #(
      .CQN_W (CQN_W),
      .SCAN_W(SCAN_W)
  ) u_eq (
      .clk(clk),
      .rst(rst),
      .s_cqc_valid(cqc_valid),
      .s_cqc_cqn(cqc_cqn),
      .s_cqc_data(cqc_data),
      .s_eqc_valid(eqc_valid),
      .s_eqc_eqn(eqc_eqn),
      .s_eqc_data(eqc_data),
      .s_cqdb_valid(cqdb_valid),
      .s_cqdb_cqn(cqdb_cqn),
      .s_cqdb_value(cqdb_value),
      .s_eqdb_valid(eqdb_valid),
      .s_eqdb_value(eqdb_value),
      .s_commit_valid(s_commit_valid),
      .s_commit_cqn(s_commit_cqn),
      .s_commit_total(s_commit_total),
      .m_wr_valid(eq_valid),
      .m_wr_ready(eq_ready),
      .m_wr_addr(eq_addr),
      .m_wr_data(eq_data),
      .m_irq_valid(irq_eq_valid),
      .m_irq_ready(irq_eq_ready),
      .m_irq_vector(irq_eq_vector),
      .m_init_done(eq_init_done),
      .s_drain_valid(1'b0),
      .s_drained(1'b0)
  );

  efa_irq #(
      .VECTORS(VECTORS)
  ) u_irq (
      .clk(clk),
      .s_host_rst(rst),
      .rst(rst),
      .s_cfg_msix_enable(msix_enable),
      .s_cfg_msix_fmask(msix_fmask),
      .s_cfg_moderation(moderation),
      .s_acc_valid(acc_valid),
      .s_acc_write(acc_write),
      .s_acc_offset(acc_offset),
      .s_acc_data(acc_data),
      .s_irq_valid({irq_eq_valid, irq_adm_valid}),
      .s_irq_ready({irq_eq_ready, irq_adm_ready}),
      .s_irq_vector({irq_eq_vector, irq_adm_vector}),
      .m_wr_irq_valid(irq_valid),
      .m_wr_irq_ready(irq_ready),
      .m_wr_irq_addr(irq_addr),
      .m_wr_irq_data(irq_data),
      .ev_irq_valid(ev_irq_valid),
      .ev_irq_data(ev_irq_data)
  );

  wire m_dma_wr_valid;
  wire wr_cq_ready;
  wire wr_rx_ready;
  // The second beat of a receive write.
  reg rx_open_q;
  wire [12:0] rx_len = rx_open_q ? 13'd128 : wr_rx_last ? 13'd64 : 13'd128;
  always @(posedge clk) begin
    if (rst) rx_open_q <= 1'b0;
    else if (wr_rx_valid && wr_rx_ready) rx_open_q <= !rx_open_q && !wr_rx_last;
  end

  efa_dma_wr u_dma (
      .clk(clk),
      .rst(rst),
      .s_cfg_bme(bme),
      .s_stop_core(stop_core),
      .s_stop_all(stop_all),
      .s_cfg_mps_log(4'd12),
      .s_wr_valid({eq_valid, wr_cq_valid, wr_rx_valid, adm_valid}),
      .s_wr_ready({eq_ready, wr_cq_ready, wr_rx_ready, adm_ready}),
      .s_wr_data({
        {eq_addr[63:12], 12'd0, 13'd16, 1'b1, 384'd0, eq_data},
        {64'd0, 13'd32, 1'b1, 512'd0},
        {64'd0, rx_len, rx_open_q || wr_rx_last, 512'd0},
        {adm_addr[63:12], 12'd0, 13'd64, 1'b1, adm_data}
      }),
      .s_wr_reg_valid(wr_reg_valid),
      .s_wr_reg_addr(64'd0),
      .s_wr_reg_data(64'd0),
      .s_wr_irq_valid(irq_valid),
      .s_wr_irq_ready(irq_ready),
      .s_wr_irq_addr({irq_addr[63:12], 12'd0}),
      .s_wr_irq_data(irq_data),
      .m_dma_wr_valid(m_dma_wr_valid),
      .m_dma_wr_ready(m_dma_wr_ready)
  );

  (* anyconst *) wire [VEC_W-1:0] me;

  (* probe = "u_aq.due_q" *) wire due;
  (* probe = "u_aq.aenq_due_q" *) wire aenq_due;
  (* probe = "u_aq.acq_vector_q" *) wire [7:0] acq_vector;
  (* probe = "u_eq.state_q" *) wire [2:0] eq_state;
  (* probe = "u_eq.eqn_q" *) wire [EQN_W-1:0] eqn;
  (* probe = "u_eq.eq_new_q" *) wire [EQS-1:0] eq_new;
  (* probe = "u_eq.eq_ctx_q" *) wire [`EFA_EQC__W*EQS-1:0] eq_ctx;
  (* probe = "u_irq.state_q" *) wire [1:0] irq_state;
  (* probe = "u_irq.vector_q" *) wire [VEC_W-1:0] irq_vector;
  (* probe = "u_irq.pending_q" *) wire [(1<<VEC_W)-1:0] pending;
  (* probe = "u_irq.held_q" *) wire [(1<<VEC_W)-1:0] held;
  (* probe = "u_dma.out_valid_q" *) wire out_valid;
  (* probe = "u_post.state_q" *) wire [2:0] post;
  (* probe = "u_join.second_waits_q" *) wire event_first;
  (* probe = "u_dma.open_q" *) wire open;
  (* probe = "u_dma.left_q" *) wire [12:0] left;
  (* probe = "u_dma.u_arb.held_q" *) wire dma_held;
  (* probe = "u_dma.u_arb.grant_q" *) wire [5:0] dma_grant;
  (* probe = "u_eq.u_commits.level_q" *) wire [4:0] commits;
  (* probe = "u_eq.init_q" *) wire [CQN_W:0] init;
  (* probe = "u_eq.u_arms.db_valid_q" *) wire db_valid;
  (* probe = "u_eq.u_arms.u_set.init_q" *) wire [CQN_W:0] set_init;
  (* probe = "u_eq.u_arms.u_set.push" *) wire arm_push;
  (* probe = "u_eq.u_arms.u_set.fetch" *) wire arm_fetch;
  (* probe = "u_eq.u_arms.u_set.wr_addr_q" *) wire [CQN_W-1:0] set_wr;
  (* probe = "u_eq.u_arms.u_set.rd_addr_q" *) wire [CQN_W-1:0] set_rd;

  localparam [2:0] ST_POST = 3'd2;
  localparam [2:0] ST_IRQ = 3'd3;
  localparam [2:0] ST_EQ_ARM = 3'd4;

  // The vector of an entry: that of its ring when it is written.
  wire [7:0] eq_vector = eq_ctx[`EFA_EQC__W*eqn+63+:8];
  wire [7:0] mine = {{8 - VEC_W{1'b0}}, me};
  wire acq_reports = acq_valid && acq_ready && acq_vector == mine;
  wire aenq_reports = aenq_valid && aenq_ready && aenq_vector == mine;
  wire eq_reports = eq_valid && eq_ready && eq_vector == mine;
  wire sent = ev_irq_valid && ev_irq_data[`EFA_EV_IRQ__VECTOR] == mine;

  // Entries with an outstanding message, and possible causes of a message.
  reg began_q = 1'b0;
  reg [5:0] owing_q;
  wire [6:0] more = {1'b0, owing_q} + acq_reports + aenq_reports + eq_reports - sent;
  reg [1:0] passed_q;  // responses written while an event is pending
  reg [4:0] news;
  integer e;
  always @* begin
    news = 0;
    for (e = 0; e < EQS; e = e + 1) begin
      news = news + (eq_new[e] && eq_ctx[`EFA_EQC__W*e+63+:8] == mine
          && !(eq_state == ST_IRQ && eqn == e));
    end
  end
  wire [5:0] may = (due && acq_vector == mine) + (aenq_due && aenq_vector == mine)
      + (irq_adm_valid && irq_adm_vector == mine) + {1'b0, news}
      + (eq_state == ST_IRQ && eq_vector == mine) + pending[me] + held[me]
      + (irq_state != 2'd0 && irq_vector == me);
  // The followed entry: its source and its EQ.
  localparam [1:0] SOURCE_ACQ = 2'd0;
  localparam [1:0] SOURCE_AENQ = 2'd1;
  localparam [1:0] SOURCE_EQ = 2'd2;
  reg followed_q;
  reg [1:0] source_q;
  reg [EQN_W-1:0] source_eqn_q;
  wire [7:0] source_vector = eq_ctx[`EFA_EQC__W*source_eqn_q+63+:8];
  wire on_its_way = (source_q == SOURCE_ACQ && due && acq_vector == mine)
      || (source_q == SOURCE_AENQ && aenq_due && aenq_vector == mine)
      || (source_q != SOURCE_EQ && irq_adm_valid && irq_adm_vector == mine)
      || (source_q == SOURCE_EQ && source_vector == mine && (eq_new[source_eqn_q]
      || (eq_state == ST_IRQ && eqn == source_eqn_q)))
      || pending[me] || held[me] || (irq_state != 2'd0 && irq_vector == me);
  // An EQ that is destroyed or created discards its messages.
  wire starts = pick && (acq_reports || aenq_reports || (eq_reports && !(eqc_valid && eqc_eqn == eqn)));
  always @(posedge clk) begin
    if (rst || !msix_enable) followed_q <= 1'b0;
    else if (!followed_q || sent) followed_q <= starts;
    else if (source_q == SOURCE_EQ && eqc_valid && eqc_eqn == source_eqn_q) followed_q <= 1'b0;
    if (!followed_q || sent) begin
      source_q <= acq_reports ? SOURCE_ACQ : aenq_reports ? SOURCE_AENQ : SOURCE_EQ;
      source_eqn_q <= eqn;
    end
  end

  wire busy_made = (eq_state == ST_POST || eq_state == ST_IRQ || eq_state == ST_EQ_ARM)
      && eqn == eqc_eqn;

  always @(posedge clk) begin
    began_q <= 1'b1;
    if (rst || !aenq_valid || aenq_note) passed_q <= 0;
    else if (acq_note) passed_q <= passed_q + 1;
    if (rst) owing_q <= 0;
    else owing_q <= more > {1'b0, CAP} ? CAP : more[5:0];
  end

  always @* begin
    a_reset_first : assume (began_q || rst);
    // The vector of a ring is constant while an entry or message of it is pending: rings are
    // configured while idle.
    a_acq_rests :
    assume (!(reg_wr_valid && reg_wr_offset == `EFA_REG__ACQ_CAPS) || !(due || acq_valid));
    a_aenq_rests :
    assume (!(reg_wr_valid && reg_wr_offset == `EFA_REG__AENQ_CAPS) || !(aenq_due || aenq_valid));
    // An EQ is created only when it is idle, as the drain shows.
    a_eq_rests :
    assume (!(eqc_valid && eqc_data[`EFA_EQC__LIVE]) || (!busy_made && !eq_new[eqc_eqn]));
    // Commands wait for the init sweep.
    a_init : assume (eq_init_done || !cqc_valid);
    // The RAM of the set of arms has space.
    a_space : assume (!arm_push || arm_fetch || set_wr - set_rd != {CQN_W{1'b1}});
    if (began_q && !rst) begin
      h_lines : assert (commits <= 5'd16);
      h_init : assert (set_init == init && init <= 1 << CQN_W && (eq_init_done || !db_valid));
      h_may : assert (may <= owing_q && owing_q <= CAP);
      h_packet :
      assert (open == rx_open_q && dma_held == open && (!open || (dma_grant == 6'd2
          && left == 13'd64)));
      h_state : assert (irq_state <= 2'd2);
      h_passed : assert (passed_q <= 1 && (passed_q == 0 || post != 3'd4 || event_first));
      p_passed : assert (passed_q <= 1);
      p_before : assert (!sent || owing_q != 0);
      p_own : assert (!followed_q || on_its_way);
      p_note :
      assert (acq_note == (acq_valid && acq_ready) && aenq_note == (aenq_valid && aenq_ready)
          && {1'b0, acq_note} + {1'b0, aenq_note} <= {1'b0, adm_ready});
      p_ordered : assert (!(ev_irq_valid && (adm_ready || eq_ready)));
      c_passed : cover (passed_q == 1 && acq_valid);
      c_before : cover (sent && owing_q == 2);
      c_own : cover (followed_q && source_q == SOURCE_ACQ && sent && owing_q == 2);
      c_note : cover (aenq_note && acq_valid);
      c_ordered : cover (ev_irq_valid && adm_valid && out_valid);
    end
  end

  wire unused_port = &{1'b0, m_dma_wr_valid};

endmodule
