// efa_mr_list - takes in the page addresses of a region, from its command or from a list in memory.
//
// In    s_start with the command held; s_line pieces of the list
// Out   m_line reads of the list; mtt_* a translation each; m_done with m_misaligned, m_failed
// Time  start to the first read 1 cycle, to the first translation 2 (pages in the command); a line
//       to its first translation 1; one translation per cycle, m_done 1 behind the last
`include "efa_defs.vh"

module efa_mr_list (
    input wire clk,
    input wire rst,
    input wire s_start,
    input wire [511:0] s_cmd,
    input wire [`EFA_LIMITS__MTT_W:0] s_pages,
    input wire [63:0] s_mask,
    input wire [`EFA_LIMITS__MTT_W-1:0] s_first,

    output wire m_line_valid,
    input wire m_line_ready,
    output wire [63:0] m_line_addr,
    output wire [6:0] m_line_len,
    input wire s_line_valid,
    output wire s_line_ready,
    input wire [511:0] s_line_data,
    input wire s_line_err,

    output wire mtt_valid,
    output wire [`EFA_LIMITS__MTT_W-1:0] mtt_index,
    output wire [51:0] mtt_data,

    output wire m_done,
    output wire m_misaligned,
    output wire m_failed
);

  localparam PAGES_W = `EFA_LIMITS__MTT_W + 1;
  localparam [PAGES_W-1:0] ONE = 1;

  localparam [1:0] ST_IDLE = 2'd0;
  localparam [1:0] ST_PAGES = 2'd1;
  localparam [1:0] ST_LAST = 2'd2;
  localparam [1:0] ST_DONE = 2'd3;

  reg [1:0] state_q;
  reg [1:0] state_d;
  reg [PAGES_W-1:0] ask_left_q;
  reg [PAGES_W-1:0] left_q;
  reg [63:0] ask_addr_q;
  reg [2:0] word_q;  // which entry of the line comes next
  reg [2:0] last_word_q;  // the last one of a first, cut line
  reg [PAGES_W-2:0] index_q;
  reg [63:0] page_q;
  reg page_valid_q;
  reg misaligned_q;
  reg failed_q;

  wire listed = s_cmd[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__CTRL_DATA];
  wire [63:0] list_addr = s_cmd[`EFA_ADMIN_REG_MR_CMD__PBL__PBL__ADDRESS];
  wire [255:0] inline_list = s_cmd[`EFA_ADMIN_REG_MR_CMD__PBL__INLINE_PBL_ARRAY];
  wire busy = state_q == ST_PAGES;
  wire begins = state_q == ST_IDLE && s_start;

  // A piece of the list ends with its line or with the list.
  wire [PAGES_W-1:0] to_line_end = {{PAGES_W - 4{1'b0}}, 4'd8 - {1'b0, ask_addr_q[5:3]}};
  wire [PAGES_W-1:0] piece = ask_left_q < to_line_end ? ask_left_q : to_line_end;
  wire ask = m_line_valid && m_line_ready;
  wire move = busy && (s_line_valid || !listed);
  wire line_ends = word_q == last_word_q || left_q == ONE;

  assign m_line_valid = busy && listed && ask_left_q != {PAGES_W{1'b0}};
  assign m_line_addr = ask_addr_q;
  assign m_line_len = {piece[3:0], 3'd0};
  assign s_line_ready = busy && line_ends;
  assign mtt_valid = page_valid_q;
  assign mtt_index = index_q;
  assign mtt_data = page_q[63:12];
  assign m_done = state_q == ST_DONE;
  assign m_misaligned = misaligned_q;
  assign m_failed = failed_q;

  always @* begin
    state_d = state_q;
    case (state_q)
      // A region's list.
      ST_IDLE: begin
        if (s_start) state_d = ST_PAGES;
      end
      // One page after the other.
      ST_PAGES: begin
        if (move && left_q == ONE) state_d = ST_LAST;
      end
      // The last page is looked at.
      ST_LAST: begin
        state_d = ST_DONE;
      end
      // The verdict stands for one cycle.
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
      page_valid_q <= move;
    end
  end

  always @(posedge clk) begin
    if (begins) begin
      ask_left_q <= s_pages;
      left_q <= s_pages;
      ask_addr_q <= list_addr;
      word_q <= 3'd0;
      last_word_q <= 3'd7 - list_addr[5:3];
      index_q <= s_first - ONE[PAGES_W-2:0];
      misaligned_q <= 1'b0;
      failed_q <= 1'b0;
    end else begin
      if (ask) begin
        ask_left_q <= ask_left_q - piece;
        ask_addr_q <= ask_addr_q + {47'd0, piece, 3'd0};
      end
      if (move) begin
        left_q  <= left_q - ONE;
        index_q <= index_q + ONE[PAGES_W-2:0];
        word_q  <= listed && line_ends ? 3'd0 : word_q + 3'd1;
        if (listed && line_ends) last_word_q <= 3'd7;
        if (listed && s_line_err) failed_q <= 1'b1;
      end
      if (page_valid_q && (page_q & s_mask) != 64'd0) misaligned_q <= 1'b1;
    end
    page_q <= listed ? s_line_data[{word_q, 6'd0}+:64] : inline_list[{word_q[1:0], 6'd0}+:64];
  end

  wire unused_cmd = &{1'b0, s_cmd};

endmodule
