// SPDX-License-Identifier: Apache-2.0
// fv_llq - proves efa_llq for one dword of one line of the solver's choice: the last permitted
// store, invalidation or ring request determines its read value and its written flag.
`include "efa_defs.vh"

module fv_llq #(
    parameter QPN_W  = 2,
    parameter LLQ_AW = 13
) (
    input wire clk,
    input wire rst,
    input wire rst_por,
    input wire llq_valid,
    input wire [LLQ_AW-6-1:0] llq_line,
    input wire [15:0] llq_dwen,
    input wire llq_part,
    input wire [511:0] llq_data,
    input wire s_op_valid,
    input wire s_op_own,
    input wire s_op_disown,
    input wire [QPN_W-1:0] s_op_qpn,
    input wire [`EFA_QPC__W-1:0] s_op_qpc,
    input wire [`EFA_QPC__W-1:0] qpc_data,
    input wire [15:0] prod_data,
    input wire [15:0] consumed_data,
    input wire rd_en,
    input wire [LLQ_AW-6-1:0] rd_line,
    input wire s_void_valid,
    input wire [LLQ_AW-6-1:0] s_void_line,
    input wire s_void_parity
);

  localparam LINE_W = LLQ_AW - 6;
  localparam PAGE_LOG = 6;

  wire init_done;
  wire s_op_ready;
  wire [QPN_W-1:0] qpc_addr;
  wire [QPN_W-1:0] prod_addr;
  wire [QPN_W-1:0] consumed_addr;
  wire [511:0] rd_data;
  wire [15:0] rd_parity;
  wire s_void_ready;
  wire err_valid;
  wire [QPN_W-1:0] err_qpn;
  wire ev_llq_valid;
  wire [63:0] ev_llq_data;

  efa_llq #(
      .QPN_W (QPN_W),
      .LLQ_AW(LLQ_AW)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .rst_por(rst_por),
      .m_init_done(init_done),
      .s_llq_valid(llq_valid),
      .s_llq_line(llq_line),
      .s_llq_dwen(llq_dwen),
      .s_llq_part(llq_part),
      .s_llq_data(llq_data),
      .s_op_valid(s_op_valid),
      .s_op_ready(s_op_ready),
      .s_op_own(s_op_own),
      .s_op_disown(s_op_disown),
      .s_op_qpn(s_op_qpn),
      .s_op_qpc(s_op_qpc),
      .qpc_rd_addr(qpc_addr),
      .qpc_rd_data(qpc_data),
      .prod_rd_addr(prod_addr),
      .prod_rd_data(prod_data),
      .consumed_rd_addr(consumed_addr),
      .consumed_rd_data(consumed_data),
      .line_rd_en(rd_en),
      .line_rd_addr(rd_line),
      .line_rd_data(rd_data),
      .line_rd_parity(rd_parity),
      .s_void_valid(s_void_valid),
      .s_void_ready(s_void_ready),
      .s_void_line(s_void_line),
      .s_void_parity(s_void_parity),
      .m_err_valid(err_valid),
      .m_err_qpn(err_qpn),
      .ev_llq_valid(ev_llq_valid),
      .ev_llq_data(ev_llq_data)
  );

  (* probe = "u_dut.init_q" *) wire [LINE_W-PAGE_LOG:0] sweep;
  (* probe = "u_dut.op_line_q" *) wire [11:0] op_line;
  (* probe = "u_dut.equal_q" *) wire [LINE_W:0] equal;
  (* probe = "u_dut.op_equal_q" *) wire op_equal;
  (* probe = "u_dut.u_owner.word_addr" *) wire [LINE_W-PAGE_LOG-1:0] owner_place;
  (* probe = "u_dut.u_owner.word_q" *) wire [QPN_W+LINE_W-PAGE_LOG+5:0] owner_word;
  (* probe = "u_dut.u_owner.word_known_q" *) wire owner_known;
  (* probe = "u_dut.s3_write" *) wire write;
  (* probe = "u_dut.s3_line" *) wire [LINE_W-1:0] write_line;
  (* probe = "u_dut.s3_dwen" *) wire [15:0] write_dwen;
  (* probe = "u_dut.s3_data" *) wire [511:0] write_data;
  (* probe = "u_dut.u_half.word_addr" *) wire [LINE_W-1:0] half_place;
  (* probe = "u_dut.u_half.word" *) wire [15:0] half_now;
  (* probe = "u_dut.u_half_void.word_addr" *) wire [LINE_W-1:0] half_void_place;
  (* probe = "u_dut.u_half_void.word" *) wire [15:0] half_void_now;
  (* probe = "u_dut.u_other.word_addr" *) wire [LINE_W-1:0] other_place;
  (* probe = "u_dut.u_other.word" *) wire [15:0] other_now;
  (* probe = "u_dut.u_other_store.word_addr" *) wire [LINE_W-1:0] other_store_place;
  (* probe = "u_dut.u_other_store.word" *) wire [15:0] other_store_now;

  (* anyconst *) wire [LINE_W-1:0] line;
  (* anyconst *) wire [3:0] dword;
  wire [LINE_W-PAGE_LOG-1:0] page = line[LINE_W-1:PAGE_LOG];
  reg began_q = 1'b0;

  // Owner of the page of the line, by the ring requests.
  reg own_q;
  reg [QPN_W-1:0] own_qpn_q;
  reg [19:0] own_first_q;
  reg [3:0] own_log_q;
  reg own_wide_q;
  wire [19:0] op_place = s_op_qpc[`EFA_QPC__SQ_LINE] + {8'd0, op_line};
  // A line of the ring is cleared: the last line, or the place advances.
  (* probe = "u_dut.op_step" *) wire op_step;
  wire op_mine = s_op_valid && (s_op_own || s_op_disown) && op_place[LINE_W-1:PAGE_LOG] == page;

  // a: a store to the line; the owner of its page at the time of the store
  reg a_valid_q;
  reg a_own_q;
  reg [QPN_W-1:0] a_qpn_q;
  reg [19:0] a_first_q;
  reg [3:0] a_log_q;
  reg a_wide_q;
  reg a_some_q;
  reg a_mine_q;
  reg [31:0] a_data_q;
  wire [19:0] a_place = {{20 - LINE_W{1'b0}}, line} - a_first_q;
  wire [19:0] a_slot = a_place >> a_wide_q;

  // b: check against the counts of its owner
  reg b_valid_q;
  reg b_inside_q;
  reg [15:0] b_slot_q;
  reg [3:0] b_log_q;
  reg b_some_q;
  reg b_mine_q;
  reg [31:0] b_data_q;
  wire [15:0] b_last = (16'd1 << b_log_q) - 16'd1;
  // The next WQE for this slot; the slot holds a posted WQE.
  wire [15:0] b_count = prod_data + ((b_slot_q - prod_data) & b_last);
  wire b_posted = ((b_slot_q - consumed_data) & b_last) < (prod_data - consumed_data);
  wire b_may = b_inside_q && qpc_data[`EFA_QPC__LIVE];

  // c: its effect
  reg c_valid_q;
  reg c_write_q;
  reg c_error_q;
  reg c_parity_q;
  reg [31:0] c_data_q;

  // v: an invalidation or a ring request overwrites the map of the line
  wire step = (op_step && op_place[LINE_W-1:0] == line)
      || (s_void_valid && s_void_ready && s_void_line == line);
  reg v_valid_q;
  reg v_parity_q;
  reg v_ring_q;

  // The dword, its written flag, and the value for a read of the previous cycle.
  reg data_known_q;
  reg [31:0] data_q;
  reg map_known_q;  // the line was cleared since power-on
  reg map_q;
  reg requested_q;
  reg rsp_data_known_q;
  reg [31:0] rsp_data_q;
  reg rsp_map_known_q;
  reg rsp_map_q;
  reg both_q;
  reg op_waits_q;
  reg [`EFA_QPC__W+QPN_W+1:0] op_q;

  always @(posedge clk) begin
    began_q <= 1'b1;
    a_valid_q <= !rst && llq_valid && llq_line == line;
    a_own_q <= own_q;
    a_qpn_q <= own_qpn_q;
    a_first_q <= own_first_q;
    a_log_q <= own_log_q;
    a_wide_q <= own_wide_q;
    a_some_q <= llq_dwen != 0;
    a_mine_q <= llq_dwen[dword];
    a_data_q <= llq_data[32*dword+:32];
    b_valid_q <= !rst && a_valid_q;
    b_inside_q <= a_own_q && a_slot < (20'd1 << a_log_q);
    b_slot_q <= a_slot[15:0];
    b_log_q <= a_log_q;
    b_some_q <= a_some_q;
    b_mine_q <= a_mine_q;
    b_data_q <= a_data_q;
    c_valid_q <= !rst && b_valid_q;
    c_write_q <= !rst && b_valid_q && b_may && !b_posted && b_mine_q;
    c_error_q <= !rst && b_valid_q && b_may && b_posted && b_some_q;
    c_parity_q <= b_count[b_log_q];
    c_data_q <= b_data_q;
    v_valid_q <= !rst && step;
    v_parity_q <= op_step || s_void_parity;
    v_ring_q <= op_step;
    requested_q <= rd_en && rd_line == line;
    rsp_data_q <= data_q;
    rsp_data_known_q <= began_q && data_known_q;
    rsp_map_q <= map_q;
    rsp_map_known_q <= began_q && map_known_q;
    both_q <= !rst && v_valid_q && c_write_q;
    op_waits_q <= !rst && s_op_valid && !s_op_ready;
    op_q <= {s_op_own, s_op_disown, s_op_qpn, s_op_qpc};
    if (!began_q) begin
      data_known_q <= 1'b0;
      map_known_q  <= 1'b0;
    end else begin
      if (c_write_q && !rst) begin
        data_q <= c_data_q;
        data_known_q <= 1'b1;
        map_q <= c_parity_q;
      end else if (v_valid_q && !rst) begin
        map_q <= v_parity_q;
      end
      if (v_valid_q && v_ring_q && !rst) map_known_q <= 1'b1;
    end
    // A write in the cycle of a reset may or may not happen.
    if (rst && c_write_q) data_known_q <= 1'b0;
    if (rst_por || (rst && (c_write_q || v_valid_q))) map_known_q <= 1'b0;
    if (rst) own_q <= 1'b0;
    else if (op_mine) begin
      own_q <= s_op_own;
      own_qpn_q <= s_op_qpn;
      own_first_q <= s_op_qpc[`EFA_QPC__SQ_LINE];
      own_log_q <= s_op_qpc[`EFA_QPC__SQ_LOG];
      own_wide_q <= s_op_qpc[`EFA_QPC__WQE128];
    end
  end

  wire [19:0] op_lines = 20'd1 << (s_op_qpc[`EFA_QPC__SQ_LOG] + s_op_qpc[`EFA_QPC__WQE128]);
  wire [19:0] op_end = s_op_qpc[`EFA_QPC__SQ_LINE] + op_lines;

  // The place of the line in the ring that owns its page; a ring is being created.
  wire [19:0] own_line = {{20 - LINE_W{1'b0}}, line} - own_first_q;
  wire [19:0] own_lines = 20'd1 << (own_log_q + own_wide_q);
  wire op_own_ring = op_waits_q && s_op_own && own_first_q == s_op_qpc[`EFA_QPC__SQ_LINE]
      && own_log_q == s_op_qpc[`EFA_QPC__SQ_LOG] && own_wide_q == s_op_qpc[`EFA_QPC__WQE128];

  always @* begin
    if (!began_q) a_begin : assume (rst_por);
    a_power : assume (!rst_por || rst);
    a_word :
    assume (owner_place == page && half_place == line
        && half_void_place == line && other_place == line && other_store_place == line);
    // Stores and ring requests wait until the table of owners is cleared.
    a_init : assume (init_done || !(llq_valid || s_op_valid));
    // A ring begins at a page and ends inside the memory; its request stays until done.
    a_ring :
    assume (!s_op_valid || (s_op_qpc[`EFA_QPC__SQ_LINE] % 64 == 0
        && s_op_qpc[`EFA_QPC__SQ_LINE] < (20'd1 << LINE_W) && op_end <= (20'd1 << LINE_W)
        && s_op_qpc[`EFA_QPC__SQ_LOG] <= 4'd10));
    a_op_stays :
    assume (!op_waits_q || (s_op_valid && op_q == {s_op_own, s_op_disown, s_op_qpn, s_op_qpc}));
    // No store reaches a consumed, incomplete WQE in the cycle of its invalidation.
    a_void : assume (!(step && c_write_q));
    if (began_q) begin
      h_halves : assert (equal <= {1'b0, line} || half_now[dword] == half_void_now[dword]);
      h_known :
      assert (!map_known_q || (equal > {1'b0, line} && other_now[dword] == other_store_now[dword]));
      h_cleared : assert (!(v_valid_q && v_ring_q) || equal > {1'b0, line});
      h_equal : assert (equal <= {1'b1, {LINE_W{1'b0}}});
      o_map : assert (!map_known_q || (half_now[dword] ^ other_now[dword]) == map_q);
    end
    if (began_q && !rst) begin
      h_owner : assert (sweep <= {1'b0, page} ? !own_q : owner_known && owner_word[0] == own_q);
      h_place : assert (!(op_equal && s_op_valid) || (op_waits_q && op_place < {4'd0, equal}));
      h_op : assert (op_waits_q ? {8'd0, op_line} < op_lines : op_line == 0);
      h_record :
      assert (!own_q || (init_done && owner_word[QPN_W:1] == own_qpn_q
          && owner_word[QPN_W+1+:LINE_W-PAGE_LOG] == own_first_q[LINE_W-1:PAGE_LOG]
          && owner_word[QPN_W+1+LINE_W-PAGE_LOG+:5] == {own_wide_q, own_log_q}
          && own_first_q % 64 == 0 && own_first_q[LINE_W-1:PAGE_LOG] <= page && own_first_q < (20'd1 << LINE_W) && own_log_q <= 4'd10));
      p_data :
      assert ((write && write_line == line && write_dwen[dword]) == c_write_q
          && (!c_write_q || write_data[32*dword+:32] == c_data_q));
      p_map : assert (!(requested_q && rsp_map_known_q) || rd_parity[dword] == rsp_map_q);
      o_made :
      assert (!(op_waits_q && s_op_own) || op_place[LINE_W-1:PAGE_LOG] != page
          || op_place[PAGE_LOG-1:0] == 0 || (own_q && op_own_ring));
      p_made :
      assert (!own_q || own_line >= own_lines || (op_own_ring && own_line >= {8'd0, op_line})
          || map_known_q || (v_valid_q && v_ring_q));
      p_error : assert (!c_valid_q || err_valid == c_error_q);
      p_requests :
      assert (!(a_valid_q && a_own_q) || (qpc_addr == a_qpn_q && prod_addr == a_qpn_q
          && consumed_addr == a_qpn_q));
      c_data : cover (c_write_q && c_data_q == 32'd5 && data_known_q && own_log_q == 1);
      c_map : cover (requested_q && rsp_map_known_q && rsp_data_known_q && both_q);
      c_made : cover (own_q && own_line < own_lines && map_known_q && !op_waits_q && own_line > 1);
      c_error : cover (c_error_q);
      c_requests : cover (a_valid_q && a_own_q && a_qpn_q == 2);
    end
  end

endmodule
