// SPDX-License-Identifier: Apache-2.0
// efa_pbl_load - loads the page addresses of a region from its command or from a list in memory.
//
// In    s_start: with the command, held; s_line: pieces of the list, in request order
// Out   m_line: reads of the list, direct or in chunks; m_mtt_*: one translation per page; m_done
//       with m_misaligned, m_failed
// Time  start to the first read 2 cycles, to the first translation 2 (pages in the command); a line
//       to its first translation 1; one word of a line per cycle; m_done 1 after the last
//       translation; a list that ends early: m_done 2 after its last line
`default_nettype none
`include "efa_defs.vh"

module efa_pbl_load #(
    parameter POINTERS = `EFA_PTRS_PER_CHUNK,
    parameter ENTRIES  = `EFA_CHUNK_PAYLOAD_SIZE / 8,
    parameter MTT_W    = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire clk,
    input wire rst,
    input wire s_start,
    input wire [511:0] s_cmd,
    input wire [MTT_W:0] s_pages,
    input wire [63:0] s_mask,
    input wire [MTT_W-1:0] s_first,

    output wire m_line_valid,
    input wire m_line_ready,
    output wire [63:0] m_line_addr,
    output wire [6:0] m_line_len,
    input wire s_line_valid,
    output wire s_line_ready,
    input wire [511:0] s_line_data,
    input wire s_line_err,

    output wire m_mtt_valid,
    output wire [MTT_W-1:0] m_mtt_index,
    output wire [51:0] m_mtt_data,

    output wire m_done,
    output wire m_misaligned,
    output wire m_failed
);

  localparam PAGES_W = MTT_W + 1;
  localparam [PAGES_W-1:0] ONE = 1;

  localparam [1:0] ST_IDLE = 2'd0;
  localparam [1:0] ST_PAGES = 2'd1;
  localparam [1:0] ST_LAST = 2'd2;
  localparam [1:0] ST_DONE = 2'd3;

  // Outstanding reads: the slots of efa_dma_line_rd, its output and the next request.
  localparam READS_LOG2 = 5;
  localparam [1:0] KIND_ENTRIES = 2'd0;

  reg [1:0] state_q;
  reg [1:0] state_d;
  reg [PAGES_W-1:0] left_q;
  reg [2:0] word_q;  // next entry of the line
  reg [PAGES_W-2:0] index_q;
  reg [63:0] page_q;
  reg page_valid_q;
  reg misaligned_q;
  reg failed_q;

  wire listed = s_cmd[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__CTRL_DATA];
  wire indirect = s_cmd[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__CTRL_DATA_INDIRECT];
  wire [63:0] list_addr = s_cmd[`EFA_ADMIN_REG_MR_CMD__PBL__PBL__ADDRESS];
  wire [255:0] inline_list = s_cmd[`EFA_ADMIN_REG_MR_CMD__PBL__INLINE_PBL_ARRAY];
  wire busy = state_q == ST_PAGES;
  wire begins = state_q == ST_IDLE && s_start;

  // Kind and length of each outstanding line.
  wire req_valid;
  wire [1:0] req_kind;
  wire reads_space;
  wire due_valid;
  wire [1:0] due_kind;
  wire [2:0] due_last;
  wire due_half;
  wire [READS_LOG2:0] unused_level;
  wire [2:0] req_last = m_line_len[5:3] - 3'd1;
  efa_fifo #(
      .WIDTH(6),
      .DEPTH_LOG2(READS_LOG2)
  ) u_reads (
      .clk(clk),
      .rst(rst),
      .s_valid(req_valid && m_line_ready),
      .s_ready(reads_space),
      .s_data({req_kind, m_line_len[2], req_last}),
      .m_valid(due_valid),
      .m_ready(s_line_valid && s_line_ready),
      .m_data({due_kind, due_half, due_last}),
      .m_level(unused_level)
  );

  wire move = busy && (listed ? s_line_valid && due_valid : 1'b1);
  wire line_ends = due_half || word_q == due_last;
  wire of_entries = !listed || due_kind == KIND_ENTRIES;
  wire [63:0] word = s_line_data[{word_q, 6'd0}+:64];

  wire over;
  wire req_misaligned;
  wire req_failed;
  efa_pbl_fetch #(
      .POINTERS(POINTERS),
      .ENTRIES (ENTRIES),
      .MTT_W   (MTT_W)
  ) u_req (
      .clk(clk),
      .rst(rst),
      .s_start(begins && listed),
      .s_indirect(indirect),
      .s_addr(list_addr[63:3]),
      .s_pages(s_pages),
      .m_line_valid(req_valid),
      .m_line_ready(m_line_ready && reads_space),
      .m_line_addr(m_line_addr),
      .m_line_len(m_line_len),
      .m_line_kind(req_kind),
      .s_word_valid(move && !of_entries),
      .s_word_kind(due_kind),
      .s_word_data(word),
      .s_word_err(s_line_err),
      .m_over(over),
      .m_misaligned(req_misaligned),
      .m_failed(req_failed)
  );

  wire last_page = move && of_entries && left_q == ONE;
  wire ends_early = listed && (req_misaligned || req_failed) && over && !due_valid;

  assign m_line_valid = req_valid && reads_space;
  assign s_line_ready = busy && due_valid && line_ends;
  assign m_mtt_valid = page_valid_q;
  assign m_mtt_index = index_q;
  assign m_mtt_data = page_q[63:12];
  assign m_done = state_q == ST_DONE;
  assign m_misaligned = misaligned_q || listed && req_misaligned;
  assign m_failed = failed_q || listed && req_failed;

  always @* begin
    state_d = state_q;
    case (state_q)
      // Waits for the list of a region.
      ST_IDLE: begin
        if (s_start) state_d = ST_PAGES;
      end
      // Loads one word per cycle until the last page, or until the list ends early.
      ST_PAGES: begin
        if (last_page || ends_early) state_d = ST_LAST;
      end
      // Waits for the alignment check of the last page.
      ST_LAST: begin
        state_d = ST_DONE;
      end
      // Holds the check result for one cycle.
      default: begin
        state_d = ST_IDLE;
      end
    endcase
  end

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_IDLE;
      page_valid_q <= 1'b0;
    end else begin
      state_q <= state_d;
      page_valid_q <= move && of_entries;
    end
  end

  always @(posedge clk) begin
    if (begins) begin
      left_q <= s_pages;
      word_q <= 3'd0;
      index_q <= s_first - ONE[PAGES_W-2:0];
      misaligned_q <= 1'b0;
      failed_q <= 1'b0;
    end else begin
      if (move) begin
        word_q <= listed && line_ends ? 3'd0 : word_q + 3'd1;
        if (of_entries) begin
          left_q  <= left_q - ONE;
          index_q <= index_q + ONE[PAGES_W-2:0];
          if (listed && s_line_err) failed_q <= 1'b1;
        end
      end
      if (page_valid_q && (page_q & s_mask) != 64'd0) misaligned_q <= 1'b1;
    end
    page_q <= listed ? word : inline_list[{word_q[1:0], 6'd0}+:64];
  end

  wire unused_cmd = &{1'b0, s_cmd, list_addr[2:0], unused_level};

endmodule

`default_nettype wire
