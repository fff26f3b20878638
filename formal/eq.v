// fv_eq - efa_eq: for one event queue and one CQ of the solver's choice, entries in order with their
// phase, at most one of the CQ between two arms of its queue, none lost, none unasked; a message
// only of an armed queue with a new entry.
`include "efa_defs.vh"

module fv_eq #(
    parameter CQN_W = 6
) (
    input wire clk,
    input wire rst,
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
    input wire m_wr_ready,
    input wire m_irq_ready,
    input wire drain_valid,
    input wire s_drained
);

  localparam EQN_W = `EFA_LIMITS__EQN_W;
  localparam EQS = 1 << EQN_W;
  localparam CQS = 1 << CQN_W;
  localparam [3:0] LOG_MAX = $clog2(`EFA_LIMITS__MAX_EQ_DEPTH);
  localparam COUNT_W = LOG_MAX + 1;
  localparam [2:0] ST_CQ_ARM = 3'd1;
  localparam [2:0] ST_EVENT = 3'd2;
  localparam [2:0] ST_POST = 3'd3;
  localparam [2:0] ST_IRQ = 3'd4;
  localparam [2:0] ST_EQ_ARM = 3'd5;
  localparam [2:0] ST_SCAN = 3'd6;
  localparam [2:0] ST_SCAN_CQ = 3'd7;

  wire s_commit_ready;
  wire m_wr_valid;
  wire [63:0] m_wr_addr;
  wire [127:0] m_wr_data;
  wire m_irq_valid;
  wire [7:0] m_irq_vector;
  wire drain_ready;
  wire ev_eqe_valid;
  wire [63:0] ev_eqe_data;

  efa_eq #(
      .CQN_W(CQN_W)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .cqc_valid(cqc_valid),
      .cqc_cqn(cqc_cqn),
      .cqc_data(cqc_data),
      .eqc_valid(eqc_valid),
      .eqc_eqn(eqc_eqn),
      .eqc_data(eqc_data),
      .cqdb_valid(cqdb_valid),
      .cqdb_cqn(cqdb_cqn),
      .cqdb_value(cqdb_value),
      .eqdb_valid(eqdb_valid),
      .eqdb_value(eqdb_value),
      .s_commit_valid(s_commit_valid),
      .s_commit_ready(s_commit_ready),
      .s_commit_cqn(s_commit_cqn),
      .s_commit_total(s_commit_total),
      .m_wr_valid(m_wr_valid),
      .m_wr_ready(m_wr_ready),
      .m_wr_addr(m_wr_addr),
      .m_wr_data(m_wr_data),
      .m_irq_valid(m_irq_valid),
      .m_irq_ready(m_irq_ready),
      .m_irq_vector(m_irq_vector),
      .drain_valid(drain_valid),
      .s_drained(s_drained),
      .drain_ready(drain_ready),
      .ev_eqe_valid(ev_eqe_valid),
      .ev_eqe_data(ev_eqe_data)
  );

  (* anyconst *) wire [CQN_W-1:0] me;
  (* anyconst *) wire [EQN_W-1:0] eq;

  (* probe = "u_dut.state_q" *) wire [2:0] state;
  (* probe = "u_dut.scanning_q" *) wire scanning;
  (* probe = "u_dut.cqn_q" *) wire [CQN_W-1:0] cqn;
  (* probe = "u_dut.eqn_q" *) wire [EQN_W-1:0] eqn;
  (* probe = "u_dut.scan_eqn_q" *) wire [EQN_W-1:0] scan_eqn;
  (* probe = "u_dut.word_q" *) wire [CQN_W-6:0] word;
  (* probe = "u_dut.word_loaded_q" *) wire word_loaded;
  (* probe = "u_dut.todo_q" *) wire [31:0] todo;
  (* probe = "u_dut.armed_q" *) wire [CQS-1:0] armed;
  (* probe = "u_dut.posted_q" *) wire [CQS-1:0] posted;
  (* probe = "u_dut.kept_q" *) wire [CQS-1:0] kept;
  (* probe = "u_dut.request_q" *) wire [CQS-1:0] request;
  (* probe = "u_dut.eq_armed_q" *) wire [EQS-1:0] eq_armed;
  (* probe = "u_dut.eq_new_q" *) wire [EQS-1:0] eq_new;
  (* probe = "u_dut.eq_live_q" *) wire [EQS-1:0] eq_live;
  (* probe = "u_dut.eq_count_q" *) wire [COUNT_W*EQS-1:0] eq_count;
  (* probe = "u_dut.eq_ctx_q" *) wire [`EFA_EQC__W*EQS-1:0] eq_ctx;
  (* probe = "u_dut.u_ctx.word_addr" *) wire [CQN_W-1:0] ctx_addr;
  (* probe = "u_dut.u_ctx.word_known_q" *) wire ctx_known;
  (* probe = "u_dut.u_ctx.word_q" *) wire [EQN_W-1:0] ctx_word;
  (* probe = "u_dut.live_q" *) wire [CQS-1:0] live;
  (* probe = "u_dut.u_consumed.word_addr" *) wire [CQN_W-1:0] consumed_addr;
  (* probe = "u_dut.u_total.word_addr" *) wire [CQN_W-1:0] total_addr;
  (* probe = "u_dut.ctx_eqn" *) wire [EQN_W-1:0] ctx_eqn;
  (* probe = "u_dut.take_arm" *) wire take_arm;
  (* probe = "u_dut.u_arms.level_q" *) wire [CQN_W+1:0] arms;
  (* probe = "u_dut.u_arms.g_ram.stored_q" *) wire [CQN_W+1:0] arms_stored;
  (* probe = "u_dut.u_arms.g_ram.head_q" *) wire arms_head;
  (* probe = "u_dut.u_commits.level_q" *) wire [4:0] commits;
  (* probe = "u_dut.rd_en" *) wire rd_en;
  (* probe = "u_dut.rd_cqn" *) wire [CQN_W-1:0] rd_cqn;
  (* probe = "u_dut.arm_push" *) wire arm_push;
  (* probe = "u_dut.arm_room" *) wire arm_room;
  (* probe = "u_dut.arm_cqn" *) wire [CQN_W-1:0] arm_cqn;

  reg began_q = 1'b0;
  reg ring_q;  // the event queue was created
  reg [`EFA_EQC__W-1:0] ring_ctx_q;
  reg [15:0] written_q;  // entries of it
  reg may_q;  // no entry of the CQ since its event queue was armed, or the CQ created
  reg owed_q;  // an event of the CQ that was not written
  reg asked_q;  // an arm of the CQ that was not looked at
  reg waits_q;  // one that was, and led to nothing yet
  reg eq_armed_q;  // the event queue was armed since its last message
  reg eq_new_q;  // and has an entry since then
  reg live_q;
  reg [EQN_W-1:0] home_q;
  reg lapped_q;

  wire [12:0] ev_cqn = ev_eqe_data[`EFA_EV_EQE__CQN];
  wire [7:0] ev_eqn = ev_eqe_data[`EFA_EV_EQE__EQN];
  wire told = m_wr_valid && m_wr_ready && ev_cqn[CQN_W-1:0] == me;
  wire wrote = m_wr_valid && m_wr_ready && ring_q && ev_eqn[EQN_W-1:0] == eq;
  wire sent = m_irq_valid && m_irq_ready && eqn == eq;
  wire made = cqc_valid && cqc_cqn == me;
  wire ring_made = eqc_valid && eqc_eqn == eq;
  wire busy_here = (state == ST_POST || state == ST_IRQ || state == ST_EQ_ARM) && eqn == eq;
  wire home_arm = state == ST_EQ_ARM && eqn == home_q;
  wire event_mine = state == ST_EVENT && cqn == me;
  // The scan of its event queue will still come to the CQ.
  wire ahead = scanning && scan_eqn == home_q && (word < (me >> 5)
      || (word == (me >> 5) && (!word_loaded || todo[me[4:0]]
      || (state == ST_SCAN_CQ && cqn == me))));

  wire [3:0] log = ring_ctx_q[`EFA_EQC__LOG];
  wire [15:0] slot = written_q & ((16'd1 << log) - 16'd1);
  wire [15:0] laps = written_q >> log;

  always @(posedge clk) begin
    began_q <= 1'b1;
    if (rst) begin
      ring_q <= 1'b0;
      may_q <= 1'b1;
      owed_q <= 1'b0;
      asked_q <= 1'b0;
      waits_q <= 1'b0;
      eq_armed_q <= 1'b0;
      eq_new_q <= 1'b0;
      live_q <= 1'b0;
      lapped_q <= 1'b0;
    end else begin
      if (ring_made && eqc_data[`EFA_EQC__LIVE]) begin
        ring_q <= 1'b1;
        ring_ctx_q <= eqc_data;
        written_q <= 0;
      end else if (wrote) begin
        written_q <= written_q + 16'd1;
        if (laps[0]) lapped_q <= 1'b1;
      end
      if (state == ST_EQ_ARM && eqn == eq) eq_armed_q <= 1'b1;
      else if (sent || (ring_made && !busy_here)) eq_armed_q <= 1'b0;
      if (wrote) eq_new_q <= 1'b1;
      else if (sent || (ring_made && !busy_here)) eq_new_q <= 1'b0;
      if (made) begin
        live_q <= cqc_data[`EFA_CQC__LIVE] && cqc_data[`EFA_CQC__INTR];
        home_q <= cqc_data[`EFA_CQC__EQN];
      end
      if (made || home_arm) may_q <= 1'b1;
      else if (told) may_q <= 1'b0;
      if (made) owed_q <= 1'b0;
      else if (event_mine && live_q && eq_live[home_q]) owed_q <= 1'b1;
      else if (told) owed_q <= 1'b0;
      if (made) asked_q <= 1'b0;
      else if (cqdb_valid && cqdb_cqn == me && cqdb_value[`EFA_CQ_DB__ARM]) asked_q <= 1'b1;
      else if (take_arm && arm_cqn == me) asked_q <= 1'b0;
      if (made) waits_q <= 1'b0;
      else if (take_arm && arm_cqn == me && asked_q) waits_q <= 1'b1;
      else if (event_mine) waits_q <= 1'b0;
    end
  end

  always @* begin
    if (!began_q) assume (rst);
    // A CQ is made and unmade while none of its entries is inside and nothing of it is looked at.
    assume (!made || !((state == ST_CQ_ARM || state == ST_EVENT || state == ST_POST
        || state == ST_SCAN_CQ) && cqn == me) && !(rd_en && rd_cqn == me));
    // An event queue is made anew only when it is at rest, as the drain says.
    assume (!(ring_made && eqc_data[`EFA_EQC__LIVE]) || !busy_here);
    assume (!eqc_valid || eqc_data[`EFA_EQC__LOG] <= LOG_MAX);
    // Each CQ stands at most twice in the line of arms, which has room for that.
    assume (!arm_push || arm_room);
    assume (ctx_addr == me && consumed_addr == me && total_addr == me);
    if (began_q && !rst) begin
      h_lines :
      assert (arms == arms_stored + arms_head && arms <= 2 * CQS && arms_stored <= 2 * CQS
          && commits <= 5'd16);
      h_ctx : assert (live[me] == live_q && (!live_q || (ctx_known && ctx_word == home_q)));
      h_read :
      assert (!live_q || !((state == ST_EVENT || state == ST_CQ_ARM || state == ST_SCAN_CQ)
          && cqn == me) || ctx_eqn == home_q);
      h_ring :
      assert (!ring_q || (eq_count[COUNT_W*eq+:COUNT_W] == written_q[COUNT_W-1:0]
          && eq_ctx[`EFA_EQC__W*eq+:`EFA_EQC__W] == ring_ctx_q));
      h_log : assert (!ring_q || log <= LOG_MAX);
      h_scan :
      assert (!scanning || state == ST_SCAN || state == ST_SCAN_CQ || state == ST_POST
          || state == ST_IRQ);
      h_scanning : assert (scanning || (state != ST_SCAN && state != ST_SCAN_CQ));
      h_picked :
      assert (state != ST_SCAN_CQ || (scanning && word_loaded && word == (cqn >> 5)
          && !todo[cqn[4:0]]));
      h_visited : assert (!(scanning && (state == ST_POST || state == ST_IRQ)) || eqn == scan_eqn);
      h_here : assert (!(scanning && state == ST_POST && cqn == me) || !ahead);
      h_may :
      assert (may_q || !live_q || (posted[me] && !ahead && !(state == ST_POST && cqn == me)
          && !(state == ST_SCAN_CQ && cqn == me && scan_eqn == home_q)));
      h_owed : assert (!owed_q || !live_q || kept[me] || (state == ST_POST && cqn == me));
      h_asked : assert (!request[me] || asked_q);
      h_waits : assert (!armed[me] || waits_q);
      h_looks : assert (!(state == ST_CQ_ARM && cqn == me) || waits_q);
      h_event : assert (!event_mine || waits_q);
      h_eq_armed : assert (!eq_armed[eq] || eq_armed_q);
      h_eq_new : assert (!ring_q || !eq_new[eq] || eq_new_q);
      h_message : assert (!(state == ST_IRQ && eqn == eq) || (eq_armed_q && (eq_new_q || !ring_q)));
      p_slot :
      assert (!wrote || m_wr_addr == {ring_ctx_q[`EFA_EQC__BASE], 6'd0} + {44'd0, slot, 4'd0});
      p_phase : assert (!wrote || m_wr_data[`EFA_ADMIN_EQE__PHASE] == !laps[0]);
      p_once : assert (!(told && live_q) || may_q);
      p_kept : assert (!owed_q || !live_q || kept[me] || (m_wr_valid && cqn == me));
      p_asked : assert (!event_mine || waits_q);
      p_message : assert (!(sent && ring_q) || (eq_armed_q && eq_new_q));
      c_slot : cover (wrote && written_q == 16'd1);
      c_phase : cover (wrote && lapped_q);
      c_once : cover (told && live_q);
      c_kept : cover (owed_q && kept[me]);
      c_asked : cover (event_mine && live_q);
      c_message : cover (sent);
    end
  end

endmodule
