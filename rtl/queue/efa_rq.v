// efa_rq - receive rings: doorbells, descriptors fetched ahead of need, claims and flushes.
//
// In    rqdb producer counts; rqop life of a ring; qpchg state changes; claim from the judge
//       (held until its answer, then taken back with take_n descriptors consumed); rdc answers;
//       s_done descriptors of reported receives
// Out   rd descriptor reads of up to 8; claim answer: up to two descriptors; m_flush receive
//       entries of a QP in ERR; m_err a QP that must go to ERR; fetched: no read of before is out
// Time  a doorbell per cycle; a claim of cached descriptors 4 cycles; a fetch every 4 cycles
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rq #(
    parameter QPN_W = 6
) (
    input  wire clk,
    input  wire rst,

    output wire [QPN_W-1:0] qpc_addr,
    input  wire [`EFA_QPC__W-1:0] qpc_data,

    input  wire rqdb_valid,
    input  wire [QPN_W-1:0] rqdb_qpn,
    input  wire [15:0] rqdb_value,

    input  wire rqop_valid,
    output wire rqop_ready,
    input  wire [1:0] rqop_kind,
    input  wire [QPN_W-1:0] rqop_qpn,
    input  wire [`EFA_QPC__W-1:0] rqop_qpc,

    input  wire s_qpchg_valid,
    output wire s_qpchg_ready,
    input  wire [QPN_W-1:0] s_qpchg_qpn,

    output wire m_rd_valid,
    input  wire m_rd_ready,
    output wire [63:0] m_rd_addr,
    output wire [12:0] m_rd_len,
    output wire [31:0] m_rd_cookie,
    input  wire rdc_valid,
    input  wire [31:0] rdc_cookie,
    input  wire [12:0] rdc_offset,
    input  wire [511:0] rdc_data,
    input  wire [6:0] rdc_bytes,
    input  wire rdc_last,
    input  wire rdc_err,

    input  wire s_claim_valid,
    input  wire [QPN_W-1:0] s_claim_qpn,
    output wire m_claim_valid,
    output wire m_claim_none,
    output wire m_claim_broken,
    output wire m_claim_whole,
    output wire [1:0] m_claim_count,
    output wire [255:0] m_claim_descs,
    input  wire s_claim_done,
    input  wire [1:0] s_claim_take,

    input  wire s_done_valid,
    input  wire [QPN_W-1:0] s_done_qpn,
    input  wire [1:0] s_done_count,

    output wire m_flush_valid,
    input  wire m_flush_ready,
    output wire [QPN_W-1:0] m_flush_qpn,
    output wire [`EFA_QPC__W-1:0] m_flush_qpc,
    output wire [15:0] m_flush_req_id,
    output wire [1:0] m_flush_count,

    output wire m_err_valid,
    input  wire m_err_ready,
    output wire [QPN_W-1:0] m_err_qpn,
    output wire [3:0] m_err_cause,

    input  wire s_drain,
    output wire m_drained
);

  localparam QPS = 1 << QPN_W;
  localparam QPC_W = `EFA_QPC__W;
  localparam DESC = 128;
  localparam CACHE = 16;
  localparam [3:0] CAUSE_DOORBELL = 4'd2;
  localparam [3:0] CAUSE_READ = 4'd6;
  localparam [1:0] OP_INIT = 2'd0;

  // Counters are zero until first written after a ring was made or cleared; a RAM shows its
  // first word one cycle after it was written, so `seen` follows `set`.
  reg [QPS-1:0] prod_set_q;
  reg [QPS-1:0] prod_seen_q;
  reg [QPS-1:0] cons_set_q;
  reg [QPS-1:0] cons_seen_q;
  reg [QPS-1:0] fetch_set_q;
  reg [QPS-1:0] fetch_seen_q;
  reg [QPS-1:0] done_set_q;
  reg [QPS-1:0] done_seen_q;
  reg [QPS-1:0] busy_q;
  reg [QPS-1:0] broken_q;
  reg [QPS-1:0] live_q;

  wire clear;
  wire [QPN_W-1:0] clear_qpn = rqop_qpn;

  // ---- doorbells: read, judge, move the producer; the one before is forwarded ----
  reg d1_valid_q;
  reg [QPN_W-1:0] d1_qpn_q;
  reg [15:0] d1_value_q;
  reg d1_forward_q;
  reg [15:0] d1_forward_prod_q;
  wire [15:0] d1_prod_ram;
  wire [15:0] d1_done_ram;
  wire [3:0] d1_log;
  wire [15:0] d1_prod = d1_forward_q ? d1_forward_prod_q
      : prod_seen_q[d1_qpn_q] ? d1_prod_ram : 16'd0;
  wire [15:0] d1_done = done_seen_q[d1_qpn_q] ? d1_done_ram : 16'd0;
  wire [15:0] d1_new = d1_value_q - d1_prod;
  wire [15:0] d1_used = d1_prod - d1_done;
  wire [15:0] d1_size = live_q[d1_qpn_q] ? 16'd1 << d1_log : 16'd0;
  wire d1_legal = {1'b0, d1_new} + {1'b0, d1_used} <= {1'b0, d1_size};
  wire d1_move = d1_valid_q && d1_legal && d1_new != 16'd0;
  wire d1_wrong = d1_valid_q && !d1_legal;
  wire [15:0] d1_prod_next = d1_legal ? d1_value_q : d1_prod;

  // ---- the rings' tables ----
  reg take_en;
  reg [QPN_W-1:0] take_qpn;
  reg [15:0] take_value;
  reg fetch_en;
  reg [QPN_W-1:0] m_qpn_q;
  reg [15:0] fetch_value;
  reg [3:0] fetch_count;
  wire [QPN_W-1:0] m_rd_qpn;
  wire [QPN_W-1:0] c_qpn = s_claim_qpn;

  wire [15:0] m_prod_ram;
  wire [15:0] c_prod_ram;
  wire [15:0] m_cons_ram;
  wire [15:0] c_cons_ram;
  wire [19:0] m_fetch_ram;
  wire [19:0] c_fetch_ram;

  efa_ram_nr #(
      .WIDTH (16),
      .ADDR_W(QPN_W),
      .READS (3)
  ) u_prod (
      .clk(clk),
      .wr_en(d1_move),
      .wr_addr(d1_qpn_q),
      .wr_data(d1_value_q),
      .rd_addr({c_qpn, m_rd_qpn, rqdb_qpn}),
      .rd_data({c_prod_ram, m_prod_ram, d1_prod_ram})
  );

  efa_ram_nr #(
      .WIDTH (16),
      .ADDR_W(QPN_W),
      .READS (2)
  ) u_cons (
      .clk(clk),
      .wr_en(take_en),
      .wr_addr(take_qpn),
      .wr_data(take_value),
      .rd_addr({c_qpn, m_rd_qpn}),
      .rd_data({c_cons_ram, m_cons_ram})
  );

  // Descriptors asked for, and how many the last read of this ring brings.
  efa_ram_nr #(
      .WIDTH (20),
      .ADDR_W(QPN_W),
      .READS (2)
  ) u_fetched (
      .clk(clk),
      .wr_en(fetch_en),
      .wr_addr(m_qpn_q),
      .wr_data({fetch_count, fetch_value}),
      .rd_addr({c_qpn, m_rd_qpn}),
      .rd_data({c_fetch_ram, m_fetch_ram})
  );

  efa_ram #(
      .WIDTH (4),
      .ADDR_W(QPN_W)
  ) u_log (
      .clk(clk),
      .wr_en(clear && rqop_kind == OP_INIT),
      .wr_addr(clear_qpn),
      .wr_data(rqop_qpc[`EFA_QPC__RQ_LOG]),
      .rd_en(1'b1),
      .rd_addr(rqdb_qpn),
      .rd_data(d1_log)
  );

  // ---- completed descriptors: read, add, write; a queue's next report may follow at once ----
  reg f1_valid_q;
  reg [QPN_W-1:0] f1_qpn_q;
  reg [1:0] f1_count_q;
  reg f1_forward_q;
  reg [15:0] f1_forward_value_q;
  wire [15:0] f1_ram;
  wire [15:0] f1_before = f1_forward_q ? f1_forward_value_q
      : done_seen_q[f1_qpn_q] ? f1_ram : 16'd0;
  wire [15:0] f1_after = f1_before + {14'd0, f1_count_q};

  efa_ram_nr #(
      .WIDTH (16),
      .ADDR_W(QPN_W),
      .READS (2)
  ) u_done (
      .clk(clk),
      .wr_en(f1_valid_q),
      .wr_addr(f1_qpn_q),
      .wr_data(f1_after),
      .rd_addr({s_done_qpn, rqdb_qpn}),
      .rd_data({f1_ram, d1_done_ram})
  );

  // ---- descriptor cache: four lanes, so that a read or write of neighbours is one access ----
  wire [3:0] c_slot;
  wire [3:0] m_slot;
  reg a_valid_q;
  reg [QPN_W-1:0] a_qpn_q;
  reg [3:0] a_slot_q;
  reg [2:0] a_count_q;
  reg [511:0] a_data_q;
  wire [4*DESC-1:0] c_lanes;
  wire [4*DESC-1:0] m_lanes;

  genvar g;
  generate
    for (g = 0; g < 4; g = g + 1) begin : g_lane
      localparam [1:0] LANE = g;
      wire [1:0] behind = LANE - a_slot_q[1:0];
      wire [3:0] a_at = a_slot_q + {2'b0, behind};
      wire [3:0] c_at = c_slot + {2'b0, LANE - c_slot[1:0]};
      wire [3:0] m_at = m_slot + {2'b0, LANE - m_slot[1:0]};
      efa_ram_nr #(
          .WIDTH (DESC),
          .ADDR_W(QPN_W + 2),
          .READS (2)
      ) u_cache (
          .clk(clk),
          .wr_en(a_valid_q && {1'b0, behind} < a_count_q),
          .wr_addr({a_qpn_q, a_at[3:2]}),
          .wr_data(a_data_q[DESC*behind+:DESC]),
          .rd_addr({c_qpn, c_at[3:2], m_qpn_q, m_at[3:2]}),
          .rd_data({c_lanes[DESC*g+:DESC], m_lanes[DESC*g+:DESC]})
      );
      wire unused_at = &{1'b0, a_at[1:0], c_at[1:0], m_at[1:0]};
    end
  endgenerate

  // ---- answers of descriptor reads ----
  wire [QPN_W-1:0] r_qpn = rdc_cookie[QPN_W-1:0];
  wire [3:0] r_slot = rdc_cookie[19:16];
  wire r_epoch = rdc_cookie[20];
  reg a_end_q;
  reg a_err_q;
  reg a_epoch_q;

  // ---- who needs a look: doorbells and takes, answered reads and second looks ----
  wire look_valid;
  wire look_ready;
  wire [QPN_W-1:0] look_qpn;
  wire again_valid;
  wire again_ready;
  wire [QPN_W-1:0] again_qpn;
  wire took_valid;
  wire took_room;
  wire took_ready;
  wire [QPN_W-1:0] took_qpn;
  reg retry;
  wire retry_ready;
  wire chg_ready;

  // A take must not wait for the set, or a claim would.
  wire [2:0] took_level;
  efa_fifo #(
      .WIDTH(QPN_W),
      .DEPTH_LOG2(2)
  ) u_took (
      .clk(clk),
      .rst(rst),
      .s_valid(s_claim_done && s_claim_take != 2'd0),
      .s_ready(took_room),
      .s_data(c_qpn),
      .m_valid(took_valid),
      .m_ready(took_ready),
      .m_data(took_qpn),
      .level(took_level)
  );

  efa_work_set #(
      .QPN_W(QPN_W)
  ) u_look (
      .clk(clk),
      .rst(rst),
      .now_valid(d1_move),
      .now_qpn(d1_qpn_q),
      .s_valid(took_valid || s_qpchg_valid),
      .s_ready(chg_ready),
      .s_qpn(took_valid ? took_qpn : s_qpchg_qpn),
      .m_valid(look_valid),
      .m_ready(look_ready),
      .m_qpn(look_qpn)
  );
  assign took_ready = chg_ready;
  assign s_qpchg_ready = chg_ready && !took_valid;

  efa_work_set #(
      .QPN_W(QPN_W)
  ) u_again (
      .clk(clk),
      .rst(rst),
      .now_valid(a_valid_q && a_end_q && !a_err_q),
      .now_qpn(a_qpn_q),
      .s_valid(retry),
      .s_ready(retry_ready),
      .s_qpn(m_qpn_q),
      .m_valid(again_valid),
      .m_ready(again_ready),
      .m_qpn(again_qpn)
  );

  // ---- errors, one report a queue ----
  wire wrong_valid;
  wire wrong_ready;
  wire [QPN_W-1:0] wrong_qpn;
  wire failed_valid;
  wire failed_ready;
  wire [QPN_W-1:0] failed_qpn;
  wire [1:0] unasked;
  efa_work_set #(
      .QPN_W(QPN_W)
  ) u_wrong (
      .clk(clk),
      .rst(rst),
      .now_valid(d1_wrong),
      .now_qpn(d1_qpn_q),
      .s_valid(1'b0),
      .s_ready(unasked[0]),
      .s_qpn({QPN_W{1'b0}}),
      .m_valid(wrong_valid),
      .m_ready(wrong_ready),
      .m_qpn(wrong_qpn)
  );
  efa_work_set #(
      .QPN_W(QPN_W)
  ) u_failed (
      .clk(clk),
      .rst(rst),
      .now_valid(a_valid_q && a_end_q && a_err_q),
      .now_qpn(a_qpn_q),
      .s_valid(1'b0),
      .s_ready(unasked[1]),
      .s_qpn({QPN_W{1'b0}}),
      .m_valid(failed_valid),
      .m_ready(failed_ready),
      .m_qpn(failed_qpn)
  );
  wire err_pick;  // held while the report waits
  wire [1:0] err_grant;
  efa_arb #(
      .N(2)
  ) u_err (
      .clk(clk),
      .rst(rst),
      .s_request({failed_valid, wrong_valid}),
      .s_hold(!m_err_ready),
      .m_grant(err_grant)
  );
  assign err_pick = err_grant[1];
  assign m_err_valid = |err_grant;
  assign m_err_qpn = err_pick ? failed_qpn : wrong_qpn;
  assign m_err_cause = err_pick ? CAUSE_READ : CAUSE_DOORBELL;
  assign wrong_ready = err_grant[0] && m_err_ready;
  assign failed_ready = err_grant[1] && m_err_ready;

  // ---- claims: read counters, read cache, judge; again while a fetch is out ----
  localparam [1:0] CL_READ = 2'd0;
  localparam [1:0] CL_CACHE = 2'd1;
  localparam [1:0] CL_JUDGE = 2'd2;
  localparam [1:0] CL_HELD = 2'd3;
  reg [1:0] claim_q;
  reg claim_started_q;
  reg [15:0] c_cons_q;
  reg [15:0] c_posted_q;
  reg [15:0] c_arrived_q;
  reg c_none_q;
  reg c_broken_q;
  reg c_whole_q;
  reg [1:0] c_count_q;
  reg [255:0] c_descs_q;

  wire [15:0] c_prod = prod_seen_q[c_qpn] ? c_prod_ram : 16'd0;
  wire [15:0] c_cons = cons_seen_q[c_qpn] ? c_cons_ram : 16'd0;
  wire [15:0] c_fetch = fetch_seen_q[c_qpn] ? c_fetch_ram[15:0] : 16'd0;
  // A read issued in the cycle before is not in the counter that was read then.
  reg fetched_q;
  reg [QPN_W-1:0] fetched_qpn_q;
  wire c_busy = busy_q[c_qpn] && !(fetched_q && fetched_qpn_q == c_qpn);
  wire [15:0] c_here = c_busy ? c_fetch - {12'd0, c_fetch_ram[19:16]} : c_fetch;
  assign c_slot = c_cons[3:0];
  wire [DESC-1:0] c_desc0 = c_lanes[DESC*c_cons_q[1:0]+:DESC];
  wire [1:0] c_lane1 = c_cons_q[1:0] + 2'd1;
  wire [DESC-1:0] c_desc1 = c_lanes[DESC*c_lane1+:DESC];
  wire c_last0 = c_desc0[`EFA_IO_RX_DESC__LAST];
  wire c_last1 = c_desc1[`EFA_IO_RX_DESC__LAST];

  assign m_claim_valid = claim_q == CL_HELD;
  assign m_claim_none = c_none_q;
  assign m_claim_broken = c_broken_q;
  assign m_claim_whole = c_whole_q;
  assign m_claim_count = c_count_q;
  assign m_claim_descs = c_descs_q;

  // ---- the manager: fetches ahead, flushes what a dead queue still holds ----
  localparam [2:0] M_IDLE = 3'd0;
  localparam [2:0] M_READ = 3'd1;
  localparam [2:0] M_LOOK = 3'd2;
  localparam [2:0] M_FETCH = 3'd3;
  localparam [2:0] M_CACHE = 3'd4;
  localparam [2:0] M_FLUSH = 3'd5;
  localparam [2:0] M_AGAIN = 3'd6;
  reg [2:0] manager_q;
  reg [2:0] manager_d;
  reg [QPC_W-1:0] m_qpc_q;
  reg [15:0] m_cons_q;
  reg [15:0] m_posted_q;
  reg [15:0] m_here_q;
  reg [15:0] m_fetch_q;
  reg [15:0] m_more_q;

  wire pick_again = again_valid;
  assign m_rd_qpn = manager_q == M_IDLE ? (pick_again ? again_qpn : look_qpn) : m_qpn_q;
  assign qpc_addr = m_rd_qpn;

  wire [15:0] m_prod = prod_seen_q[m_qpn_q] ? m_prod_ram : 16'd0;
  wire [15:0] m_cons = cons_seen_q[m_qpn_q] ? m_cons_ram : 16'd0;
  wire [15:0] m_fetch = fetch_seen_q[m_qpn_q] ? m_fetch_ram[15:0] : 16'd0;
  wire [15:0] m_here = busy_q[m_qpn_q] ? m_fetch - {12'd0, m_fetch_ram[19:16]} : m_fetch;

  wire [2:0] m_state = m_qpc_q[`EFA_QPC__STATE];
  wire m_alive = m_qpc_q[`EFA_QPC__LIVE] && m_qpc_q[`EFA_QPC__RQ_LIVE]
      && m_state != `EFA_ADMIN_QP_STATE__RESET_W3 && !broken_q[m_qpn_q] && live_q[m_qpn_q];
  wire m_dead = m_state == `EFA_ADMIN_QP_STATE__ERR_W3;
  wire [15:0] m_arrived = m_here_q - m_cons_q;
  wire [15:0] m_cached = m_fetch_q - m_cons_q;
  wire m_can_fetch = m_alive && !busy_q[m_qpn_q] && m_more_q != 16'd0 && m_cached < CACHE;

  // A read stays inside 128 bytes of host memory and inside the ring.
  wire [15:0] m_size = 16'd1 << m_qpc_q[`EFA_QPC__RQ_LOG];
  wire [15:0] m_index = m_fetch_q & (m_size - 16'd1);
  wire [63:0] m_addr = {m_qpc_q[`EFA_QPC__RQ_BASE], 6'b0} + {44'b0, m_index, 4'b0};
  wire [15:0] m_to_end = m_size - m_index;
  wire [15:0] m_room = CACHE - m_cached;
  wire [3:0] m_to_line = 4'd8 - {1'b0, m_addr[6:4]};
  wire [3:0] m_cap0 = m_to_end < {12'd0, m_to_line} ? m_to_end[3:0] : m_to_line;
  wire [3:0] m_cap1 = m_room < {12'd0, m_cap0} ? m_room[3:0] : m_cap0;
  wire [3:0] m_take = m_more_q < {12'd0, m_cap1} ? m_more_q[3:0] : m_cap1;

  reg epoch_q;
  reg [15:0] out0_q;
  reg [15:0] out1_q;
  assign m_rd_valid = manager_q == M_FETCH;
  assign m_rd_addr = m_addr;
  assign m_rd_len = {5'd0, m_take, 4'd0};
  reg [31:0] cookie;
  always @* begin
    cookie = 32'd0;
    cookie[QPN_W-1:0] = m_qpn_q;
    cookie[19:16] = m_fetch_q[3:0];
    cookie[20] = epoch_q;
  end
  assign m_rd_cookie = cookie;

  assign m_slot = m_cons_q[3:0];
  wire [DESC-1:0] m_desc0 = m_lanes[DESC*m_cons_q[1:0]+:DESC];
  wire m_last0 = m_desc0[`EFA_IO_RX_DESC__LAST];
  wire [1:0] m_flush_n = m_last0 ? 2'd1 : 2'd2;
  wire m_flush_here = m_arrived >= {14'd0, m_flush_n};
  // A flush and the end of a claim are two jobs, and jobs leave one by one: they never meet.
  assign m_flush_valid = manager_q == M_FLUSH && m_flush_here;
  assign m_flush_qpn = m_qpn_q;
  assign m_flush_qpc = m_qpc_q;
  assign m_flush_req_id = m_desc0[`EFA_IO_RX_DESC__REQ_ID];
  assign m_flush_count = m_flush_n;

  assign clear = rqop_valid && manager_q == M_IDLE && !busy_q[rqop_qpn] && !claim_started_q;
  assign rqop_ready = clear;
  wire pop = manager_q == M_IDLE && !rqop_valid && (again_valid || look_valid);
  assign again_ready = pop && pick_again;
  assign look_ready = pop && !pick_again;

  always @* begin
    manager_d = manager_q;
    retry = 1'b0;
    fetch_en = 1'b0;
    fetch_value = m_fetch_q + {12'd0, m_take};
    fetch_count = m_take;
    case (manager_q)
      // a ring to look at; ring operations first
      M_IDLE: begin
        if (pop) manager_d = M_READ;
      end
      // counters and context
      M_READ: begin
        manager_d = M_LOOK;
      end
      // what is there to do for this ring
      M_LOOK: begin
        manager_d = M_IDLE;
        if (m_alive && m_dead && m_posted_q != 16'd0 && m_arrived != 16'd0) begin
          if (claim_started_q && c_qpn == m_qpn_q) begin
            // The judge holds its head: look again later.
            retry = 1'b1;
            if (!retry_ready) manager_d = M_LOOK;
          end else begin
            manager_d = M_CACHE;
          end
        end else if (m_can_fetch) begin
          manager_d = M_FETCH;
        end
      end
      // the read request to be taken
      M_FETCH: begin
        if (m_rd_ready) begin
          fetch_en = 1'b1;
          manager_d = M_IDLE;
        end
      end
      // the head descriptor
      M_CACHE: begin
        manager_d = M_FLUSH;
      end
      // the counter that was just written
      M_AGAIN: begin
        manager_d = M_READ;
      end
      // its completion to be taken; an entry without its end stays
      default: begin
        if (!m_flush_here) begin
          manager_d = m_can_fetch ? M_FETCH : M_IDLE;
        end else if (m_flush_valid && m_flush_ready) begin
          manager_d = M_AGAIN;
        end
      end
    endcase
  end

  always @* begin
    take_en = 1'b0;
    take_qpn = c_qpn;
    take_value = c_cons_q + {14'd0, s_claim_take};
    if (s_claim_done) begin
      take_en = s_claim_take != 2'd0;
    end else if (m_flush_valid && m_flush_ready) begin
      take_en = 1'b1;
      take_qpn = m_qpn_q;
      take_value = m_cons_q + {14'd0, m_flush_n};
    end
  end

  // Reads that were out when a drain began, told by the epoch they carry.
  reg draining_q;
  reg drain_old_q;
  wire [15:0] out_old = drain_old_q ? out1_q : out0_q;
  wire [15:0] out_new = epoch_q ? out0_q : out1_q;
  assign m_drained = draining_q && out_old == 16'd0;
  wire issue0 = fetch_en && !epoch_q;
  wire issue1 = fetch_en && epoch_q;
  wire back0 = a_valid_q && a_end_q && !a_epoch_q;
  wire back1 = a_valid_q && a_end_q && a_epoch_q;

  always @(posedge clk) begin
    d1_qpn_q <= rqdb_qpn;
    d1_value_q <= rqdb_value;
    d1_forward_q <= d1_valid_q && d1_qpn_q == rqdb_qpn;
    d1_forward_prod_q <= d1_prod_next;
    f1_qpn_q <= s_done_qpn;
    f1_count_q <= s_done_count;
    f1_forward_q <= f1_valid_q && f1_qpn_q == s_done_qpn;
    f1_forward_value_q <= f1_after;
    a_qpn_q <= r_qpn;
    a_slot_q <= r_slot + rdc_offset[7:4];
    a_count_q <= rdc_err ? 3'd0 : rdc_bytes[6:4];
    a_data_q <= rdc_data;
    a_end_q <= rdc_last;
    a_err_q <= rdc_err;
    a_epoch_q <= r_epoch;
    fetched_qpn_q <= m_qpn_q;
    if (pop) m_qpn_q <= pick_again ? again_qpn : look_qpn;
    if (manager_q == M_READ) begin
      m_qpc_q <= qpc_data;
      m_cons_q <= m_cons;
      m_posted_q <= m_prod - m_cons;
      m_here_q <= m_here;
      m_fetch_q <= m_fetch;
      m_more_q <= m_prod - m_fetch;
    end
    if (claim_q == CL_CACHE) begin
      c_cons_q <= c_cons;
      c_posted_q <= c_prod - c_cons;
      c_arrived_q <= c_here - c_cons;
    end
    if (claim_q == CL_JUDGE) begin
      c_none_q <= 1'b0;
      c_broken_q <= broken_q[c_qpn];
      c_whole_q <= 1'b1;
      c_count_q <= 2'd1;
      c_descs_q <= {c_desc1, c_desc0};
      if (c_posted_q == 16'd0 || (c_arrived_q != 16'd0 && !c_last0 && c_posted_q == 16'd1)) begin
        c_none_q <= 1'b1;
      end
      if (!c_last0) begin
        c_count_q <= 2'd2;
        c_whole_q <= c_last1;
      end
    end
    if (rst) begin
      d1_valid_q <= 1'b0;
      f1_valid_q <= 1'b0;
      a_valid_q <= 1'b0;
      claim_q <= CL_READ;
      claim_started_q <= 1'b0;
      manager_q <= M_IDLE;
      fetched_q <= 1'b0;
      epoch_q <= 1'b0;
      out0_q <= 16'd0;
      out1_q <= 16'd0;
      draining_q <= 1'b0;
      drain_old_q <= 1'b0;
      prod_set_q <= {QPS{1'b0}};
      prod_seen_q <= {QPS{1'b0}};
      cons_set_q <= {QPS{1'b0}};
      cons_seen_q <= {QPS{1'b0}};
      fetch_set_q <= {QPS{1'b0}};
      fetch_seen_q <= {QPS{1'b0}};
      done_set_q <= {QPS{1'b0}};
      done_seen_q <= {QPS{1'b0}};
      busy_q <= {QPS{1'b0}};
      broken_q <= {QPS{1'b0}};
      live_q <= {QPS{1'b0}};
    end else begin
      prod_seen_q <= prod_set_q;
      cons_seen_q <= cons_set_q;
      fetch_seen_q <= fetch_set_q;
      done_seen_q <= done_set_q;
      d1_valid_q <= rqdb_valid;
      f1_valid_q <= s_done_valid;
      a_valid_q <= rdc_valid;
      manager_q <= manager_d;
      fetched_q <= fetch_en;
      out0_q <= out0_q + {15'd0, issue0} - {15'd0, back0};
      out1_q <= out1_q + {15'd0, issue1} - {15'd0, back1};
      // The new epoch must be empty before reads are counted in it.
      if (s_drain && !draining_q && out_new == 16'd0) begin
        draining_q <= 1'b1;
        drain_old_q <= epoch_q;
        epoch_q <= !epoch_q;
      end else if (!s_drain) begin
        draining_q <= 1'b0;
      end
      case (claim_q)
        CL_READ: begin
          if (s_claim_valid) begin
            claim_started_q <= 1'b1;
            claim_q <= CL_CACHE;
          end
        end
        CL_CACHE: claim_q <= CL_JUDGE;
        CL_JUDGE: begin
          // Posted but still on its way: look again.
          claim_q <= !broken_q[c_qpn] && c_posted_q != 16'd0
              && (c_arrived_q == 16'd0 || (!c_last0 && c_arrived_q == 16'd1 && c_posted_q > 16'd1))
              ? CL_READ : CL_HELD;
        end
        default: begin
          if (s_claim_done) begin
            claim_q <= CL_READ;
            claim_started_q <= 1'b0;
          end
        end
      endcase
      if (d1_move) prod_set_q[d1_qpn_q] <= 1'b1;
      if (take_en) cons_set_q[take_qpn] <= 1'b1;
      if (fetch_en) begin
        fetch_set_q[m_qpn_q] <= 1'b1;
        busy_q[m_qpn_q] <= 1'b1;
      end
      if (f1_valid_q) done_set_q[f1_qpn_q] <= 1'b1;
      if (a_valid_q && a_end_q) begin
        busy_q[a_qpn_q] <= 1'b0;
        if (a_err_q) broken_q[a_qpn_q] <= 1'b1;
      end
      if (clear) begin
        prod_set_q[clear_qpn] <= 1'b0;
        prod_seen_q[clear_qpn] <= 1'b0;
        cons_set_q[clear_qpn] <= 1'b0;
        cons_seen_q[clear_qpn] <= 1'b0;
        fetch_set_q[clear_qpn] <= 1'b0;
        fetch_seen_q[clear_qpn] <= 1'b0;
        done_set_q[clear_qpn] <= 1'b0;
        done_seen_q[clear_qpn] <= 1'b0;
        broken_q[clear_qpn] <= 1'b0;
        if (rqop_kind == OP_INIT) live_q[clear_qpn] <= rqop_qpc[`EFA_QPC__RQ_LIVE];
        else if (rqop_kind[1]) live_q[clear_qpn] <= 1'b0;
      end
    end
  end

  wire unused_bits = &{1'b0, rqop_qpc, rdc_cookie, rdc_offset, rdc_bytes, took_room, m_lanes, took_level, m_desc0,
                       unasked};

  `EFA_CHECK(!(s_claim_done && m_flush_valid && m_flush_ready), "efa_rq: two entries consumed at once")
  `EFA_CHECK(!(s_claim_done && !m_claim_valid), "efa_rq: a claim ended before its answer")
  `EFA_CHECK(!(s_claim_done && s_claim_take != 2'd0 && !took_room), "efa_rq: takes outrun the set")

endmodule
