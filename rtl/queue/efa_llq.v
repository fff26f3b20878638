// SPDX-License-Identifier: Apache-2.0
// efa_llq - stores send WQEs in LLQ memory, checks page owners and tracks written dwords.
//
// In    s_llq_* stores; s_op rings created, cleared and destroyed; line_rd_* line reads of the
//       scheduler; s_void a line of a consumed, incomplete WQE
// Out   line_rd_data, line_rd_parity: a line and, per dword, the parity of the wrap that wrote it;
//       m_err_*: a store hit a WQE that was posted and not yet consumed
// Time  a store is in memory 3 cycles later, one per cycle. A doorbell takes effect 2 cycles later
//       and its WQE is read in the cycle after that, so a doorbell in the cycle after a store
//       cannot overtake the store. A store sees every earlier doorbell and no later one. A ring is
//       cleared one line per cycle, alternating with voids, which are in memory one cycle later;
//       stores neither delay them nor wait. Reads 1 cycle. During the first 2 ** (LLQ_AW - 6)
//       cycles without a store after rst_por (which comes with rst), a ring waits until its lines
//       are initialised, see below
//
// A dword is written if it carries the parity of the current wrap of its slot. Consuming a complete
// WQE therefore clears nothing. After an incomplete WQE, the void gives every dword the parity of
// its wrap; otherwise the missing dwords would count as written one wrap later. A new ring starts
// with the parity that wrap 0 does not have.
//
// The parity is the XOR of two RAMs, one written by stores, one by voids and ring clears; each
// writer includes the bit of the other RAM. Each RAM has one copy for each reader. The copies must
// be equal, with any contents. Those of voids and rings are equal once a ring was cleared. Those of
// stores are made equal by an init sweep over all lines after power-on. A store has priority over
// the sweep, and hits only lines that the sweep has passed, because a ring waits for the sweep.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_llq #(
    parameter QPN_W  = 6,
    parameter LLQ_AW = 21
) (
    input wire clk,
    input wire rst,
    input wire rst_por,
    output wire m_init_done,
    input wire s_llq_valid,
    input wire [LLQ_AW-6-1:0] s_llq_line,
    input wire [15:0] s_llq_dwen,
    input wire s_llq_part,
    input wire [511:0] s_llq_data,
    input wire s_op_valid,
    output wire s_op_ready,
    input wire s_op_own,
    input wire s_op_disown,
    input wire [QPN_W-1:0] s_op_qpn,
    input wire [`EFA_QPC__W-1:0] s_op_qpc,
    output wire [QPN_W-1:0] qpc_rd_addr,
    input wire [`EFA_QPC__W-1:0] qpc_rd_data,
    output wire [QPN_W-1:0] prod_rd_addr,
    input wire [15:0] prod_rd_data,
    output wire [QPN_W-1:0] consumed_rd_addr,
    input wire [15:0] consumed_rd_data,
    input wire line_rd_en,
    input wire [LLQ_AW-6-1:0] line_rd_addr,
    output wire [511:0] line_rd_data,
    output wire [15:0] line_rd_parity,
    input wire s_void_valid,
    output wire s_void_ready,
    input wire [LLQ_AW-6-1:0] s_void_line,
    input wire s_void_parity,
    output wire m_err_valid,
    output wire [QPN_W-1:0] m_err_qpn,
    output wire ev_llq_valid,
    output wire [63:0] ev_llq_data
);

  localparam LINE_W = LLQ_AW - 6;
  localparam PAGE_LOG = $clog2(`EFA_LIMITS__LLQ_PAGE_BYTES) - 6;
  localparam PAGE_W = LINE_W - PAGE_LOG;
  localparam RING_W = 12;  // lines of the largest ring: 1,024 WQEs of two lines
  localparam [PAGE_W:0] ONE_PAGE = 1;
  localparam [RING_W-1:0] ONE_LINE = 1;
  localparam [LINE_W:0] ONE_EQUAL = 1;
  localparam [2:0] STATUS_ACCEPTED = 3'd0;
  localparam [2:0] STATUS_NO_OWNER = 3'd1;
  localparam [2:0] STATUS_POSTED = 3'd2;
  localparam [2:0] STATUS_PARTIAL = 3'd3;

  reg [PAGE_W:0] init_q;
  reg [RING_W-1:0] op_line_q;
  reg [LINE_W:0] equal_q;  // lines below have equal copies of the store RAM
  reg op_equal_q;  // the next line of the ring and its successor are such lines

  // s1: page owner read, indices being read; s2: compared with the indices; s3: written
  reg s1_valid_q;
  reg s2_valid_q;
  reg s2_inside_q;
  reg [QPN_W-1:0] s2_qpn_q;
  reg [15:0] s2_slot_q;
  reg [15:0] s2_last_q;  // depth - 1
  reg [3:0] s2_log_q;
  reg s3_valid_q;
  reg s3_inside_q;
  reg s3_posted_q;
  reg s3_parity_q;
  reg [QPN_W-1:0] s3_qpn_q;

  // The store, in each stage.
  reg [3*LINE_W-1:0] line_q;
  reg [3*16-1:0] dwen_q;
  reg [2:0] part_q;
  reg [3*512-1:0] data_q;

  // v: a line overwritten by a void or a ring clear, its bits of the store RAM read; v_seen_q,
  // v_lanes_q: forwarding of the last write
  reg ring_turn_q;
  reg v_valid_q;
  reg v_parity_q;
  reg [LINE_W-1:0] v_line_q;
  reg v_seen_q;
  reg [15:0] v_lanes_q;

  wire initializing = !init_q[PAGE_W];
  wire all_equal = equal_q[LINE_W];

  // The lines of a ring, and its pages at the first line of each.
  wire [RING_W-1:0] op_lines =
      ONE_LINE << (s_op_qpc[`EFA_QPC__SQ_LOG] + {3'd0, s_op_qpc[`EFA_QPC__WQE128]});
  wire [19:0] op_place = s_op_qpc[`EFA_QPC__SQ_LINE] + {{20 - RING_W{1'b0}}, op_line_q};
  wire op_last = op_line_q == op_lines - ONE_LINE;
  wire op_step = s_op_valid && (all_equal || op_equal_q) && (!s_void_valid || ring_turn_q);
  wire [LINE_W:0] op_behind = {1'b0, op_place[LINE_W-1:0]} + ONE_EQUAL;
  wire void_step = s_void_valid && !op_step;
  wire [LINE_W-1:0] v_line = op_step ? op_place[LINE_W-1:0] : s_void_line;
  wire [19:0] op_first = s_op_qpc[`EFA_QPC__SQ_LINE];
  wire [PAGE_W-1:0] op_page = op_first[LINE_W-1:PAGE_LOG];

  // Owner table entry of a page: the first page, depth and WQE size of the owner's ring.
  localparam OWNER_W = 1 + QPN_W + PAGE_W + 4 + 1;
  wire s1_known;
  wire [QPN_W-1:0] s1_qpn;
  wire [PAGE_W-1:0] s1_page;
  wire [3:0] s1_log;
  wire s1_wide;

  wire [LINE_W-1:0] s1_line = line_q[0+:LINE_W];
  wire [LINE_W-1:0] s2_line = line_q[LINE_W+:LINE_W];
  wire [LINE_W-1:0] s3_line = line_q[2*LINE_W+:LINE_W];
  wire [15:0] s3_dwen = dwen_q[2*16+:16];
  wire [511:0] s3_data = data_q[2*512+:512];
  wire s3_write = s3_valid_q && s3_inside_q && !s3_posted_q && s3_dwen != 16'd0;

  wire [PAGE_W:0] s1_pages = {1'b0, s1_line[LINE_W-1:PAGE_LOG]} - {1'b0, s1_page};
  wire [31:0] s1_far = {{31 - LINE_W{1'b0}}, s1_pages, s1_line[PAGE_LOG-1:0]};
  wire [15:0] s1_place = s1_far[15:0];
  wire unused_far = &{1'b0, s1_far[31:16]};
  wire [15:0] s1_slot = s1_wide ? {1'b0, s1_place[15:1]} : s1_place;
  wire [15:0] s1_depth = 16'd1 << s1_log;

  // Parity of the wrap of the next WQE in this slot; whether the slot holds a WQE still pending.
  wire s2_parity = prod_rd_data[s2_log_q] ^ (s2_slot_q < (prod_rd_data & s2_last_q));
  wire s2_posted = ((s2_slot_q - consumed_rd_data) & s2_last_q) < (prod_rd_data - consumed_rd_data);

  // The two parity RAMs.
  wire [15:0] half_read;
  wire [15:0] half_void;
  wire [15:0] other_read;
  wire [15:0] other_store;
  wire [15:0] v_lanes = half_void ^ {16{v_parity_q}};
  wire v_now = v_valid_q && v_line_q == s3_line;
  wire [15:0] s3_other = v_now ? v_lanes : v_seen_q ? v_lanes_q : other_store;

  // Write port of both copies of the store RAM.
  wire half_write = s3_write || !all_equal;
  wire [LINE_W-1:0] half_line = s3_write ? s3_line : equal_q[LINE_W-1:0];
  wire [15:0] half_lanes = s3_dwen | {16{!s3_write}};
  wire [15:0] half_data = s3_write ? {16{s3_parity_q}} ^ s3_other : 16'd0;

  reg [2:0] status;
  always @* begin
    status = STATUS_ACCEPTED;
    if (!s3_inside_q) status = STATUS_NO_OWNER;
    else if (s3_posted_q && s3_dwen != 16'd0) status = STATUS_POSTED;
    else if (part_q[2]) status = STATUS_PARTIAL;
  end

  reg [63:0] event_data;
  always @* begin
    event_data = 64'd0;
    event_data[`EFA_EV_LLQ__STATUS] = status;
    event_data[`EFA_EV_LLQ__LINE] = {{20 - LINE_W{1'b0}}, s3_line};
    event_data[`EFA_EV_LLQ__DWORDS] = s3_dwen;
  end

  assign m_init_done = !initializing;
  assign s_op_ready = op_step && op_last;
  assign s_void_ready = void_step;
  assign qpc_rd_addr = s1_qpn;
  assign prod_rd_addr = s1_qpn;
  assign consumed_rd_addr = s1_qpn;
  assign line_rd_parity = half_read ^ other_read;
  assign m_err_valid = s3_valid_q && status == STATUS_POSTED;
  assign m_err_qpn = s3_qpn_q;
  assign ev_llq_valid = s3_valid_q;
  assign ev_llq_data = event_data;

  efa_ram #(
      .WIDTH (OWNER_W),
      .ADDR_W(PAGE_W)
  ) u_owner (
      .clk(clk),
      .wr_en(initializing || (s_op_valid && (s_op_own || s_op_disown))),
      .wr_addr(initializing ? init_q[PAGE_W-1:0] : op_place[LINE_W-1:PAGE_LOG]),
      .wr_data(initializing ? {OWNER_W{1'b0}} : {
        s_op_qpc[`EFA_QPC__WQE128], s_op_qpc[`EFA_QPC__SQ_LOG], op_page, s_op_qpn, s_op_own
      }),
      .rd_en(1'b1),
      .rd_addr(s_llq_line[LINE_W-1:PAGE_LOG]),
      .rd_data({s1_wide, s1_log, s1_page, s1_qpn, s1_known})
  );

  efa_ram_be #(
      .WIDTH (512),
      .ADDR_W(LINE_W),
      .LANES (16)
  ) u_lines (
      .clk(clk),
      .wr_en(s3_write),
      .wr_lanes(s3_dwen),
      .wr_addr(s3_line),
      .wr_data(s3_data),
      .rd_en(line_rd_en),
      .rd_addr(line_rd_addr),
      .rd_data(line_rd_data)
  );

  // Store RAM: one copy for the scheduler, one for voids and ring clears.
  efa_ram_be #(
      .WIDTH (16),
      .ADDR_W(LINE_W),
      .LANES (16)
  ) u_half (
      .clk(clk),
      .wr_en(half_write),
      .wr_lanes(half_lanes),
      .wr_addr(half_line),
      .wr_data(half_data),
      .rd_en(line_rd_en),
      .rd_addr(line_rd_addr),
      .rd_data(half_read)
  );

  efa_ram_be #(
      .WIDTH (16),
      .ADDR_W(LINE_W),
      .LANES (16)
  ) u_half_void (
      .clk(clk),
      .wr_en(half_write),
      .wr_lanes(half_lanes),
      .wr_addr(half_line),
      .wr_data(half_data),
      .rd_en(1'b1),
      .rd_addr(v_line),
      .rd_data(half_void)
  );

  // RAM of voids and ring clears: one copy for the scheduler, one for stores.
  efa_ram_be #(
      .WIDTH (16),
      .ADDR_W(LINE_W),
      .LANES (1)
  ) u_other (
      .clk(clk),
      .wr_en(v_valid_q),
      .wr_lanes(1'b1),
      .wr_addr(v_line_q),
      .wr_data(v_lanes),
      .rd_en(line_rd_en),
      .rd_addr(line_rd_addr),
      .rd_data(other_read)
  );

  efa_ram_be #(
      .WIDTH (16),
      .ADDR_W(LINE_W),
      .LANES (1)
  ) u_other_store (
      .clk(clk),
      .wr_en(v_valid_q),
      .wr_lanes(1'b1),
      .wr_addr(v_line_q),
      .wr_data(v_lanes),
      .rd_en(1'b1),
      .rd_addr(s2_line),
      .rd_data(other_store)
  );

  always @(posedge clk) begin
    if (rst_por) equal_q <= {LINE_W + 1{1'b0}};
    else if (!all_equal && !s3_write) equal_q <= equal_q + ONE_EQUAL;
  end

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {PAGE_W + 1{1'b0}};
      op_line_q <= {RING_W{1'b0}};
      ring_turn_q <= 1'b0;
      v_valid_q <= 1'b0;
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      s3_valid_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE_PAGE;
      if (op_step) op_line_q <= op_last ? {RING_W{1'b0}} : op_line_q + ONE_LINE;
      ring_turn_q <= void_step;
      v_valid_q <= op_step || void_step;
      s1_valid_q <= s_llq_valid;
      s2_valid_q <= s1_valid_q;
      s3_valid_q <= s2_valid_q;
    end
  end

  always @(posedge clk) begin
    line_q <= {line_q[2*LINE_W-1:0], s_llq_line};
    dwen_q <= {dwen_q[2*16-1:0], s_llq_dwen};
    part_q <= {part_q[1:0], s_llq_part};
    data_q <= {data_q[2*512-1:0], s_llq_data};

    s2_inside_q <= s1_known && s1_slot < s1_depth;
    s2_qpn_q <= s1_qpn;
    s2_slot_q <= s1_slot;
    s2_last_q <= s1_depth - 16'd1;
    s2_log_q <= s1_log;

    s3_inside_q <= s2_inside_q && qpc_rd_data[`EFA_QPC__LIVE];
    s3_posted_q <= s2_posted;
    s3_parity_q <= s2_parity;
    s3_qpn_q <= s2_qpn_q;

    op_equal_q <= s_op_valid && !s_op_ready && op_behind < equal_q;
    v_parity_q <= op_step || s_void_parity;
    v_line_q <= v_line;
    v_seen_q <= v_valid_q && v_line_q == s2_line;
    v_lanes_q <= v_lanes;
  end

  wire unused_context = &{1'b0, qpc_rd_data, s_op_qpc, op_place, op_first};

  `EFA_CHECK(!s_op_valid || !initializing, "ring created before the owner table is initialized")

endmodule

`default_nettype wire
