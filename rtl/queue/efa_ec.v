// SPDX-License-Identifier: Apache-2.0
// efa_ec - counts completions in event counters and writes their values to the host.
//
// In    counted_rd_addr a QP; s_commit CQEs written (of interrupt-mode CQs, and counted ones); s_ec
//       commands of the admin side; s_drained
// Out   counted_rd_data, 1 cycle after counted_rd_en and until the next one: the QP has an event
//       counter; m_commit after the counter value that the CQE caused; m_wr values; m_ec_code, with
//       s_ec_ready; m_drained: everything before s_drained has left; m_init_done: the tables are
//       clear, no CQE and no command comes before
// Time  a CQE without counter passes in the same cycle; a counted CQE takes 4 cycles to its write,
//       its commit follows 1 cycle after the write was accepted, one per 6 cycles; a command 4
//       cycles to its response, also ATTACH and DETACH; FORGET 7, plus 2 for each event attached;
//       SET and ADD 4 to their write; init sweep 2^QPN_W cycles
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"
`include "efa_check.vh"

module efa_ec #(
    parameter QPN_W = 6,
    parameter CQN_W = 7
) (
    input wire clk,
    input wire rst,

    input wire counted_rd_en,
    input wire [11:0] counted_rd_addr,
    output wire counted_rd_data,

    input wire s_commit_valid,
    output wire s_commit_ready,
    input wire [CQN_W-1:0] s_commit_cqn,
    input wire [15:0] s_commit_total,
    input wire s_commit_intr,
    input wire s_commit_counted,
    input wire [11:0] s_commit_qpn,
    input wire [1:0] s_commit_kind,

    output wire m_commit_valid,
    input wire m_commit_ready,
    output wire [CQN_W-1:0] m_commit_cqn,
    output wire [15:0] m_commit_total,

    input wire s_ec_valid,
    output wire s_ec_ready,
    input wire [2:0] s_ec_op,
    input wire [`EFA_LIMITS__EC_W-1:0] s_ec_counter,
    input wire [QPN_W-1:0] s_ec_qpn,
    input wire [3:0] s_ec_events,
    input wire [63:0] s_ec_value,
    output wire [1:0] m_ec_code,

    output wire m_wr_valid,
    input wire m_wr_ready,
    output wire [63:0] m_wr_addr,
    output wire [63:0] m_wr_data,

    input wire s_drain_valid,
    input wire s_drained,
    output wire m_drained,

    output wire m_init_done,

    output wire ev_ecw_valid,
    output wire [63:0] ev_ecw_data
);

  localparam EC_W = `EFA_LIMITS__EC_W;
  localparam SLOT_W = EC_W + 1;  // valid bit and counter number
  localparam REF_W = QPN_W + 3;
  localparam WORD_W = REF_W + 61 + 64;
  localparam [REF_W-1:0] ONE = 1;
  localparam [2:0] EVENTS = 3'd4;

  localparam [2:0] ST_IDLE = 3'd0;
  localparam [2:0] ST_LOOKUP = 3'd1;
  localparam [2:0] ST_INVALIDATE = 3'd2;
  localparam [2:0] ST_VALUE = 3'd3;
  localparam [2:0] ST_ACT = 3'd4;
  localparam [2:0] ST_WRITE = 3'd5;
  localparam [2:0] ST_COMMIT = 3'd6;
  localparam [2:0] ST_RSP = 3'd7;

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg order_next_q;
  reg counts_q;  // the job is a completion, otherwise a command
  reg [2:0] op_q;
  reg [QPN_W-1:0] qpn_q;
  reg [EC_W-1:0] counter_q;
  reg [EC_W-1:0] counter_d;
  reg [3:0] events_q;
  reg [63:0] operand_q;
  reg [1:0] kind_q;
  reg intr_q;
  reg [CQN_W-1:0] cqn_q;
  reg [15:0] total_q;
  reg [4*SLOT_W-1:0] slots_q;
  reg [2:0] step_q;
  reg [2:0] step_d;
  reg [1:0] code_q;
  reg [1:0] code_d;
  reg [REF_W-1:0] refs_q;
  reg [60:0] addr_q;
  reg [63:0] value_q;
  reg waits_q;

  wire idle = state_q == ST_IDLE;
  wire count_offered = s_commit_valid && s_commit_counted;
  wire take_order = idle && s_ec_valid && (order_next_q || !count_offered);
  wire take_count = idle && count_offered && !take_order;
  wire count_busy = counts_q && !idle;
  wire create = op_q == `EFA_EC_OP__CREATE;
  wire destroy = op_q == `EFA_EC_OP__DESTROY;
  wire attach = op_q == `EFA_EC_OP__ATTACH;
  wire detach = op_q == `EFA_EC_OP__DETACH;
  wire invalidate = op_q == `EFA_EC_OP__INVALIDATE;
  wire changes = op_q == `EFA_EC_OP__SET || op_q == `EFA_EC_OP__ADD;

  // The init sweep after reset clears the slots of each QP.
  reg [QPN_W:0] init_q;
  wire init_run = !init_q[QPN_W];
  assign m_init_done = !init_run;

  // Counter of each event of a QP.
  wire [4*SLOT_W-1:0] slots;
  reg slots_wr;
  reg [4*SLOT_W-1:0] slots_wr_data;
  efa_ram #(
      .WIDTH (4 * SLOT_W),
      .ADDR_W(QPN_W)
  ) u_slots (
      .clk(clk),
      .wr_en(slots_wr || init_run),
      .wr_addr(init_run ? init_q[QPN_W-1:0] : qpn_q),
      .wr_data(init_run ? {4 * SLOT_W{1'b0}} : slots_wr_data),
      .rd_en(idle),
      .rd_addr(take_order ? s_ec_qpn : s_commit_qpn[QPN_W-1:0]),
      .rd_data(slots)
  );

  // An event of the QP has a counter.
  efa_ram #(
      .WIDTH (1),
      .ADDR_W(QPN_W)
  ) u_counted (
      .clk(clk),
      .wr_en(slots_wr || init_run),
      .wr_addr(init_run ? init_q[QPN_W-1:0] : qpn_q),
      .wr_data(!init_run && (attach || detach && left != 4'd0)),
      .rd_en(counted_rd_en),
      .rd_addr(counted_rd_addr[QPN_W-1:0]),
      .rd_data(counted_rd_data)
  );

  wire [REF_W-1:0] word_refs;
  wire [60:0] word_addr;
  wire [63:0] word_value;
  reg word_wr;
  reg [WORD_W-1:0] word_wr_data;
  efa_ram #(
      .WIDTH (WORD_W),
      .ADDR_W(EC_W)
  ) u_counters (
      .clk(clk),
      .wr_en(word_wr),
      .wr_addr(counter_q),
      .wr_data(word_wr_data),
      .rd_en(1'b1),
      .rd_addr(counter_d),
      .rd_data({word_refs, word_addr, word_value})
  );

  // Effect of a command on the events that it names.
  reg claimed;
  reg missing;
  reg [2:0] fresh;
  reg [4*SLOT_W-1:0] slots_with;
  reg [4*SLOT_W-1:0] slots_without;
  reg [3:0] has;
  reg [3:0] mine;
  reg [3:0] left;
  integer e;
  always @* begin
    slots_with = slots_q;
    slots_without = slots_q;
    fresh = 3'd0;
    for (e = 0; e < 4; e = e + 1) begin
      has[e]  = slots_q[SLOT_W*e+EC_W];
      mine[e] = has[e] && slots_q[SLOT_W*e+:EC_W] == counter_q;
      left[e] = has[e] && !events_q[e];
      if (events_q[e]) begin
        slots_with[SLOT_W*e+:SLOT_W] = {1'b1, counter_q};
        slots_without[SLOT_W*e+:SLOT_W] = {SLOT_W{1'b0}};
        fresh = fresh + {2'd0, attach ? !has[e] : 1'b1};
      end
    end
    claimed   = (events_q & has & ~mine) != 4'd0;
    missing = (events_q & ~mine) != 4'd0;
  end
  wire [REF_W-1:0] change = {{REF_W - 3{1'b0}}, fresh};
  wire [SLOT_W-1:0] slot = slots[SLOT_W*kind_q+:SLOT_W];
  wire [SLOT_W-1:0] next_slot = slots_q[SLOT_W*step_q[1:0]+:SLOT_W];
  wire [63:0] base = op_q == `EFA_EC_OP__SET && !counts_q ? 64'd0 : value_q;
  wire [63:0] sum = base + operand_q;

  assign s_commit_ready = s_commit_counted ? take_count : !count_busy && m_commit_ready;
  assign m_commit_valid =
      state_q == ST_COMMIT || s_commit_valid && !s_commit_counted && !count_busy;
  assign m_commit_cqn = state_q == ST_COMMIT ? cqn_q : s_commit_cqn;
  assign m_commit_total = state_q == ST_COMMIT ? total_q : s_commit_total;
  assign s_ec_ready = state_q == ST_RSP;
  assign m_ec_code = code_q;
  assign m_wr_valid = state_q == ST_WRITE;
  assign m_wr_addr = {addr_q, 3'd0};
  assign m_wr_data = value_q;
  // Commits inside, or accepted in this cycle, have left when the next job may start.
  assign m_drained = s_drained && !count_busy && !take_count || waits_q && idle;
  assign ev_ecw_valid = m_wr_valid && m_wr_ready;
  reg [63:0] ev_data;
  always @* begin
    ev_data = 64'd0;
    ev_data[`EFA_EV_ECW__COUNTER] = {{16 - EC_W{1'b0}}, counter_q};
    ev_data[`EFA_EV_ECW__VALUE] = value_q[47:0];
  end
  assign ev_ecw_data = ev_data;

  always @* begin
    state_d = state_q;
    counter_d = counter_q;
    step_d = step_q;
    code_d = code_q;
    slots_wr = 1'b0;
    slots_wr_data = attach ? slots_with : invalidate ? {4 * SLOT_W{1'b0}} : slots_without;
    word_wr = 1'b0;
    word_wr_data = {refs_q, addr_q, sum};
    case (state_q)
      // Waits for a counted completion or a command, alternating.
      ST_IDLE: begin
        code_d = `EFA_EC_CODE__OK;
        step_d = 3'd0;
        if (take_order) counter_d = s_ec_counter;
        if (take_order || take_count) state_d = ST_LOOKUP;
      end
      // The counters of the QP.
      ST_LOOKUP: begin
        if (counts_q) begin
          counter_d = slot[EC_W-1:0];
          state_d   = slot[EC_W] ? ST_VALUE : intr_q ? ST_COMMIT : ST_IDLE;
        end else begin
          state_d = invalidate ? ST_INVALIDATE : ST_VALUE;
        end
      end
      // Detaches the counters of a destroyed QP, one after the other.
      ST_INVALIDATE: begin
        counter_d = next_slot[EC_W-1:0];
        step_d = step_q + 3'd1;
        if (step_q == EVENTS) begin
          slots_wr = 1'b1;
          state_d  = ST_RSP;
        end else if (next_slot[EC_W]) begin
          state_d = ST_VALUE;
        end
      end
      // Waits for the counter word.
      ST_VALUE: begin
        state_d = ST_ACT;
      end
      // Computes its next value or reference count.
      ST_ACT: begin
        state_d = ST_RSP;
        if (counts_q || changes) begin
          word_wr = 1'b1;
          state_d = ST_WRITE;
        end else if (create) begin
          word_wr = 1'b1;
          word_wr_data = {{REF_W{1'b0}}, operand_q[63:3], 64'd0};
        end else if (destroy) begin
          if (refs_q != {REF_W{1'b0}}) code_d = `EFA_EC_CODE__BUSY;
        end else if (invalidate) begin
          word_wr = 1'b1;
          word_wr_data = {refs_q - ONE, addr_q, value_q};
          state_d = ST_INVALIDATE;
        end else if (attach && claimed) begin
          code_d = `EFA_EC_CODE__BUSY;
        end else if (detach && missing) begin
          code_d = `EFA_EC_CODE__ILLEGAL;
        end else begin
          slots_wr = 1'b1;
          word_wr = 1'b1;
          word_wr_data = {attach ? refs_q + change : refs_q - change, addr_q, value_q};
        end
      end
      // Waits for the host write.
      ST_WRITE: begin
        if (m_wr_ready) state_d = !counts_q ? ST_RSP : intr_q ? ST_COMMIT : ST_IDLE;
      end
      // Waits until the commit of the CQE is accepted.
      ST_COMMIT: begin
        if (m_commit_ready) state_d = ST_IDLE;
      end
      // The response is valid for one cycle.
      default: begin
        state_d = ST_IDLE;
      end
    endcase
  end

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_IDLE;
      init_q <= {(QPN_W + 1) {1'b0}};
      order_next_q <= 1'b0;
      waits_q <= 1'b0;
    end else begin
      state_q <= state_d;
      if (take_order || take_count) order_next_q <= take_count;
      if (init_run) init_q <= init_q + 1'b1;
      waits_q <= s_drain_valid && (s_drained || waits_q) && !m_drained;
    end
  end

  always @(posedge clk) begin
    if (idle) begin
      counts_q <= !take_order;
      op_q <= s_ec_op;
      qpn_q <= take_order ? s_ec_qpn : s_commit_qpn[QPN_W-1:0];
      events_q <= s_ec_events;
      operand_q <= take_order ? s_ec_value : 64'd1;
      kind_q <= s_commit_kind;
      intr_q <= s_commit_intr;
      cqn_q <= s_commit_cqn;
      total_q <= s_commit_total;
    end
    if (state_q == ST_LOOKUP) slots_q <= slots;
    if (state_q == ST_VALUE) begin
      refs_q  <= word_refs;
      addr_q  <= word_addr;
      value_q <= word_value;
    end else if (state_q == ST_ACT) begin
      value_q <= sum;
    end
    counter_q <= counter_d;
    step_q <= step_d;
    code_q <= code_d;
  end

  `EFA_CHECK(!(s_commit_valid && !s_commit_counted && !s_commit_intr), "commit without a request")
  `EFA_CHECK(m_init_done || !(s_commit_valid || s_ec_valid),
             "efa_ec: a request during the init sweep")

  wire unused_qpns = &{1'b0, counted_rd_addr, s_commit_qpn};

endmodule

`default_nettype wire
