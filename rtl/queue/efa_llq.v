// efa_llq - LLQ memory: takes send entries in pieces, knows who owns a page and what was written.
//
// In    llq_* stores; s_op the rings that come and go; rd_* the scheduler's line reads;
//       s_void a line of a taken entry that was not whole
// Out   rd_data, rd_parity: a line and, per dword, the parity of the lap that wrote it;
//       err_*: a store hit an entry that was rung and not yet taken
// Time  a store is in memory 6 cycles later, one per cycle; a doorbell in the cycle after it is
//       in effect 4 cycles after itself and reads later still, so it cannot overtake the store.
//       A store sees every doorbell before it and none after it. A ring is cleared one line per
//       cycle without a store or a void; a void waits for stores only; reads 1 cycle
//
// A dword is written when it carries the parity of the lap its slot is in, so taking a whole entry
// clears nothing; of one that was not, the void gives every dword its lap's parity, or the missing
// ones would count as written a lap later. A new ring starts with the parity lap 0 does not have.
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_llq #(
    parameter QPN_W  = 6,
    parameter LLQ_AW = 21
) (
    input wire clk,
    input wire rst,
    output wire init_done,
    input wire llq_valid,
    input wire [LLQ_AW-6-1:0] llq_line,
    input wire [15:0] llq_dwen,
    input wire llq_part,
    input wire [511:0] llq_data,
    input wire s_op_valid,
    output wire s_op_ready,
    input wire s_op_own,
    input wire s_op_disown,
    input wire [QPN_W-1:0] s_op_qpn,
    input wire [`EFA_QPC__W-1:0] s_op_qpc,
    output wire [QPN_W-1:0] qpc_addr,
    input wire [`EFA_QPC__W-1:0] qpc_data,
    output wire [QPN_W-1:0] prod_addr,
    input wire [15:0] prod_data,
    output wire [QPN_W-1:0] taken_addr,
    input wire [15:0] taken_data,
    input wire rd_en,
    input wire [LLQ_AW-6-1:0] rd_line,
    output wire [511:0] rd_data,
    output wire [15:0] rd_parity,
    input wire s_void_valid,
    output wire s_void_ready,
    input wire [LLQ_AW-6-1:0] s_void_line,
    input wire s_void_parity,
    output wire err_valid,
    output wire [QPN_W-1:0] err_qpn,
    output wire ev_llq_valid,
    output wire [63:0] ev_llq_data
);

  localparam LINE_W = LLQ_AW - 6;
  localparam PAGE_LOG = $clog2(`EFA_LIMITS__LLQ_PAGE_BYTES) - 6;
  localparam PAGE_W = LINE_W - PAGE_LOG;
  localparam RING_W = 12;  // lines of the largest ring: 1,024 entries of two
  localparam [PAGE_W:0] ONE_PAGE = 1;
  localparam [RING_W-1:0] ONE_LINE = 1;
  localparam [2:0] VERDICT_TAKEN = 3'd0;
  localparam [2:0] VERDICT_NO_OWNER = 3'd1;
  localparam [2:0] VERDICT_RUNG = 3'd2;
  localparam [2:0] VERDICT_PARTIAL = 3'd3;

  reg [PAGE_W:0] walk_q;
  reg [RING_W-1:0] op_line_q;

  // s0: page owner being read; s1: known; s2: its contexts being read
  reg s0_valid_q;
  reg s1_valid_q;
  reg s2_valid_q;
  reg s2_owned_q;
  reg [QPN_W-1:0] s2_qpn_q;

  // s3: place in the ring; s4: against the counts; s5: written
  reg s3_valid_q;
  reg s3_owned_q;
  reg [QPN_W-1:0] s3_qpn_q;
  reg s4_valid_q;
  reg s4_inside_q;
  reg [QPN_W-1:0] s4_qpn_q;
  reg [15:0] s4_slot_q;
  reg [15:0] s4_last_q;  // depth - 1
  reg [3:0] s4_log_q;
  reg [15:0] s4_prod_q;
  reg [15:0] s4_taken_q;
  reg s5_valid_q;
  reg s5_inside_q;
  reg s5_rung_q;
  reg s5_parity_q;
  reg [QPN_W-1:0] s5_qpn_q;

  // What was stored goes along, stage by stage.
  reg [6*LINE_W-1:0] line_q;
  reg [6*16-1:0] dwen_q;
  reg [5:0] part_q;
  reg [6*512-1:0] data_q;

  wire walking = !walk_q[PAGE_W];

  // A ring's lines, and its pages at the first line of each.
  wire [RING_W-1:0] op_lines =
      ONE_LINE << (s_op_qpc[`EFA_QPC__SQ_LOG] + {3'd0, s_op_qpc[`EFA_QPC__WQE128]});
  wire [19:0] op_place = s_op_qpc[`EFA_QPC__SQ_LINE] + {{20 - RING_W{1'b0}}, op_line_q};
  wire op_last = op_line_q == op_lines - ONE_LINE;
  wire s5_write = s5_valid_q && s5_inside_q && !s5_rung_q && s5_dwen != 16'd0;
  wire op_step = s_op_valid && !s5_write && !s_void_valid;

  wire owner_known;
  wire [QPN_W-1:0] owner_qpn;

  wire [LINE_W-1:0] s3_line = line_q[3*LINE_W+:LINE_W];
  wire [LINE_W-1:0] s5_line = line_q[5*LINE_W+:LINE_W];
  wire [15:0] s5_dwen = dwen_q[5*16+:16];
  wire [511:0] s5_data = data_q[5*512+:512];

  // Who writes parities: a store, a void, a ring that is cleared.
  reg [15:0] mark_lanes;
  reg [LINE_W-1:0] mark_line;
  reg mark_parity;
  always @* begin
    mark_lanes = 16'hffff;
    mark_line = op_place[LINE_W-1:0];
    mark_parity = 1'b1;
    if (s5_write) begin
      mark_lanes = s5_dwen;
      mark_line = s5_line;
      mark_parity = s5_parity_q;
    end else if (s_void_valid) begin
      mark_line = s_void_line;
      mark_parity = s_void_parity;
    end
  end

  wire [20:0] s3_place = {{21 - LINE_W{1'b0}}, s3_line} - {1'b0, qpc_data[`EFA_QPC__SQ_LINE]};
  wire [15:0] s3_slot = qpc_data[`EFA_QPC__WQE128] ? {1'b0, s3_place[15:1]} : s3_place[15:0];
  wire [15:0] s3_depth = 16'd1 << qpc_data[`EFA_QPC__SQ_LOG];

  // The entry that this slot holds next, and whether it still holds one that waits.
  wire [15:0] s4_count = s4_prod_q + ((s4_slot_q - s4_prod_q) & s4_last_q);
  wire s4_rung = ((s4_slot_q - s4_taken_q) & s4_last_q) < (s4_prod_q - s4_taken_q);

  reg [2:0] verdict;
  always @* begin
    verdict = VERDICT_TAKEN;
    if (!s5_inside_q) verdict = VERDICT_NO_OWNER;
    else if (s5_rung_q && s5_dwen != 16'd0) verdict = VERDICT_RUNG;
    else if (part_q[5]) verdict = VERDICT_PARTIAL;
  end

  reg [63:0] event_data;
  always @* begin
    event_data = 64'd0;
    event_data[`EFA_EV_LLQ__VERDICT] = verdict;
    event_data[`EFA_EV_LLQ__LINE] = {{20 - LINE_W{1'b0}}, s5_line};
    event_data[`EFA_EV_LLQ__DWORDS] = s5_dwen;
  end

  assign init_done = !walking;
  assign s_op_ready = op_step && op_last;
  assign s_void_ready = !s5_write;
  assign qpc_addr = s2_qpn_q;
  assign prod_addr = s2_qpn_q;
  assign taken_addr = s2_qpn_q;
  assign err_valid = s5_valid_q && verdict == VERDICT_RUNG;
  assign err_qpn = s5_qpn_q;
  assign ev_llq_valid = s5_valid_q;
  assign ev_llq_data = event_data;

  efa_ram #(
      .WIDTH (QPN_W + 1),
      .ADDR_W(PAGE_W)
  ) u_owner (
      .clk(clk),
      .wr_en(walking || (s_op_valid && (s_op_own || s_op_disown))),
      .wr_addr(walking ? walk_q[PAGE_W-1:0] : op_place[LINE_W-1:PAGE_LOG]),
      .wr_data(walking ? {QPN_W + 1{1'b0}} : {s_op_qpn, s_op_own}),
      .rd_en(1'b1),
      .rd_addr(line_q[PAGE_LOG+:PAGE_W]),
      .rd_data({owner_qpn, owner_known})
  );

  efa_ram_be #(
      .WIDTH (512),
      .ADDR_W(LINE_W),
      .LANES (16)
  ) u_lines (
      .clk(clk),
      .wr_en(s5_write),
      .wr_lanes(s5_dwen),
      .wr_addr(s5_line),
      .wr_data(s5_data),
      .rd_en(rd_en),
      .rd_addr(rd_line),
      .rd_data(rd_data)
  );

  efa_ram_be #(
      .WIDTH (16),
      .ADDR_W(LINE_W),
      .LANES (16)
  ) u_parity (
      .clk(clk),
      .wr_en(s5_write || s_void_valid || s_op_valid),
      .wr_lanes(mark_lanes),
      .wr_addr(mark_line),
      .wr_data({16{mark_parity}}),
      .rd_en(rd_en),
      .rd_addr(rd_line),
      .rd_data(rd_parity)
  );

  always @(posedge clk) begin
    if (rst) begin
      walk_q <= {PAGE_W + 1{1'b0}};
      op_line_q <= {RING_W{1'b0}};
      s0_valid_q <= 1'b0;
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
      s3_valid_q <= 1'b0;
      s4_valid_q <= 1'b0;
      s5_valid_q <= 1'b0;
    end else begin
      if (walking) walk_q <= walk_q + ONE_PAGE;
      if (op_step) op_line_q <= op_last ? {RING_W{1'b0}} : op_line_q + ONE_LINE;
      s0_valid_q <= llq_valid;
      s1_valid_q <= s0_valid_q;
      s2_valid_q <= s1_valid_q;
      s3_valid_q <= s2_valid_q;
      s4_valid_q <= s3_valid_q;
      s5_valid_q <= s4_valid_q;
    end
  end

  always @(posedge clk) begin
    line_q <= {line_q[5*LINE_W-1:0], llq_line};
    dwen_q <= {dwen_q[5*16-1:0], llq_dwen};
    part_q <= {part_q[4:0], llq_part};
    data_q <= {data_q[5*512-1:0], llq_data};

    s2_owned_q <= owner_known;
    s2_qpn_q <= owner_qpn;
    s3_owned_q <= s2_owned_q;
    s3_qpn_q <= s2_qpn_q;

    s4_inside_q <= s3_owned_q && qpc_data[`EFA_QPC__LIVE] && !s3_place[20] && s3_slot < s3_depth
        && s3_place[19:16] == 4'd0;
    s4_qpn_q <= s3_qpn_q;
    s4_slot_q <= s3_slot;
    s4_last_q <= s3_depth - 16'd1;
    s4_log_q <= qpc_data[`EFA_QPC__SQ_LOG];
    s4_prod_q <= prod_data;
    s4_taken_q <= taken_data;

    s5_inside_q <= s4_inside_q;
    s5_rung_q <= s4_rung;
    s5_parity_q <= s4_count[s4_log_q];
    s5_qpn_q <= s4_qpn_q;
  end

  wire unused_context = &{1'b0, qpc_data, s_op_qpc, op_place};

  `EFA_CHECK(!s_op_valid || !walking, "ring made before the owner table was cleared")

endmodule
