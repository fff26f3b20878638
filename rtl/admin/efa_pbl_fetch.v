// SPDX-License-Identifier: Apache-2.0
// efa_pbl_fetch - requests the pieces of a page list: one run of entries, or chunks of run
// pointers.
//
// The pieces of a run are requested while pointers of later runs are outstanding. Pointers and
// links are validated in list order, so a malformed one ends the list at its position.
// In    s_start: address and page count of the list; s_word: words of pointers and links, in order
// Out   m_line: pieces inside one 64-byte line and their kind: 0 entries, 1 pointers, 2 and 3 the
//       low and high half of a link; m_misaligned, m_failed: why the list ended early; m_over: then
//       valid once the last piece has left
// Time  2 cycles to the first piece, one per cycle, one cycle lost between two runs
`default_nettype none
`include "efa_defs.vh"

module efa_pbl_fetch #(
    parameter POINTERS = `EFA_PTRS_PER_CHUNK,
    parameter ENTRIES  = `EFA_CHUNK_PAYLOAD_SIZE / 8,
    parameter MTT_W    = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire clk,
    input wire rst,
    input wire s_start,
    input wire s_indirect,
    input wire [63:3] s_addr,
    input wire [MTT_W:0] s_pages,

    output wire m_line_valid,
    input wire m_line_ready,
    output wire [63:0] m_line_addr,
    output wire [6:0] m_line_len,
    output wire [1:0] m_line_kind,

    input wire s_word_valid,
    input wire [1:0] s_word_kind,
    input wire [63:0] s_word_data,
    input wire s_word_err,

    output wire m_over,
    output wire m_misaligned,
    output wire m_failed
);

  localparam PAGES_W = MTT_W + 1;
  localparam ENTRIES_LOG2 = $clog2(ENTRIES);
  localparam [PAGES_W-1:0] ONE = 1;
  localparam [PAGES_W-1:0] NONE = 0;
  localparam [PAGES_W-1:0] RUN = ONE << ENTRIES_LOG2;
  localparam [9:0] CHUNK = POINTERS;
  // Outstanding or pending pointers; a piece has up to 8 pointers.
  localparam WAIT_LOG2 = 4;
  localparam [4:0] MAY_WAIT = 5'd8;

  localparam [1:0] KIND_ENTRIES = 2'd0;
  localparam [1:0] KIND_POINTERS = 2'd1;
  localparam [1:0] KIND_LOW = 2'd2;
  localparam [1:0] KIND_HIGH = 2'd3;

  localparam [1:0] LINK_NONE = 2'd0;
  localparam [1:0] LINK_LOW = 2'd1;
  localparam [1:0] LINK_HIGH = 2'd2;
  localparam [1:0] LINK_ARRIVES = 2'd3;

  generate
    if ((1 << ENTRIES_LOG2) != ENTRIES || POINTERS < 1 || POINTERS > 1023) begin : g_illegal
      efa_parameter_error entries_must_be_a_power_of_two_and_pointers_below_1024 ();
    end
  endgenerate

  reg [PAGES_W-1:0] rest_q;  // entries after this run
  reg [PAGES_W-1:0] run_left_q;
  reg [63:3] run_addr_q;
  reg [PAGES_W-1:0] pointers_left_q;
  reg [9:0] chunk_left_q;
  reg [63:3] chunk_addr_q;
  reg [1:0] link_q;
  reg [31:0] link_low_q;
  reg link_err_q;
  reg dead_q;  // the link is unusable; it came after every pointer of its chunk
  reg dead_failed_q;
  reg [4:0] waits_q;
  reg stopped_q;
  reg misaligned_q;
  reg failed_q;
  reg line_valid_q;
  reg [63:0] line_addr_q;
  reg [6:0] line_len_q;
  reg [1:0] line_kind_q;

  wire space = !line_valid_q || m_line_ready;

  wire pointer_valid;
  wire pointer_err;
  wire [63:0] pointer;
  wire pointer_pop;
  wire unused_ready;
  wire [WAIT_LOG2:0] unused_level;
  efa_fifo #(
      .WIDTH(65),
      .DEPTH_LOG2(WAIT_LOG2)
  ) u_pointers (
      .clk(clk),
      .rst(rst || s_start),
      .s_valid(s_word_valid && s_word_kind == KIND_POINTERS),
      .s_ready(unused_ready),
      .s_data({s_word_err, s_word_data}),
      .m_valid(pointer_valid),
      .m_ready(pointer_pop),
      .m_data({pointer_err, pointer}),
      .m_level(unused_level)
  );

  // The next piece: pointers first while there is space for them, so that a run never waits for its
  // pointer.
  wire req_pointers = !stopped_q && pointers_left_q != NONE && chunk_left_q != 10'd0
      && waits_q <= MAY_WAIT;
  wire req_link = !stopped_q && (link_q == LINK_LOW || link_q == LINK_HIGH);
  wire req_run = !stopped_q && run_left_q != NONE;
  wire [3:0] chunk_to_end = 4'd8 - {1'b0, chunk_addr_q[5:3]};
  wire [3:0] chunk_most = chunk_left_q < {6'd0, chunk_to_end} ? chunk_left_q[3:0] : chunk_to_end;
  wire [3:0] chunk_piece =
      pointers_left_q < {{PAGES_W - 4{1'b0}}, chunk_most} ? pointers_left_q[3:0] : chunk_most;
  wire [3:0] run_to_end = 4'd8 - {1'b0, run_addr_q[5:3]};
  wire [3:0] run_piece =
      run_left_q < {{PAGES_W - 4{1'b0}}, run_to_end} ? run_left_q[3:0] : run_to_end;
  wire go_pointers = space && req_pointers;
  wire go_link = space && !req_pointers && req_link;
  wire go_run = space && !req_pointers && !req_link && req_run;

  // The next run starts when the current one is fully requested.
  wire needs_run = !stopped_q && run_left_q == NONE && rest_q != NONE;
  wire [63:0] link = {s_word_data[31:0], link_low_q};
  assign pointer_pop = needs_run;

  assign m_line_valid = line_valid_q;
  assign m_line_addr = line_addr_q;
  assign m_line_len = line_len_q;
  assign m_line_kind = line_kind_q;
  // A list that ended early makes no further request.
  assign m_over = !line_valid_q;
  assign m_misaligned = misaligned_q;
  assign m_failed = failed_q;

  always @(posedge clk) begin
    if (rst) begin
      line_valid_q <= 1'b0;
      stopped_q <= 1'b1;
    end else begin
      if (space) line_valid_q <= go_pointers || go_link || go_run;
      if (s_start) stopped_q <= 1'b0;
      else if (needs_run && (pointer_valid ? pointer_err || pointer[2:0] != 3'd0 : dead_q)) begin
        stopped_q <= 1'b1;
      end
    end
  end

  always @(posedge clk) begin
    if (space) begin
      line_kind_q <= req_pointers ? KIND_POINTERS
          : !req_link ? KIND_ENTRIES : link_q == LINK_LOW ? KIND_LOW : KIND_HIGH;
      line_len_q <= req_pointers ? {chunk_piece, 3'd0} : req_link ? 7'd4 : {run_piece, 3'd0};
      line_addr_q <= req_pointers ? {chunk_addr_q, 3'd0}
          : !req_link ? {run_addr_q, 3'd0}
          : link_q == LINK_LOW ? {chunk_addr_q, 3'd4} : {chunk_addr_q + 61'd1, 3'd0};
    end
    if (s_start) begin
      rest_q <= s_indirect ? s_pages : NONE;
      run_left_q <= s_indirect ? NONE : s_pages;
      run_addr_q <= s_addr;
      pointers_left_q <= s_indirect ? (s_pages + RUN - ONE) >> ENTRIES_LOG2 : NONE;
      chunk_left_q <= CHUNK;
      chunk_addr_q <= s_addr;
      link_q <= LINK_NONE;
      dead_q <= 1'b0;
      waits_q <= 5'd0;
      misaligned_q <= 1'b0;
      failed_q <= 1'b0;
    end else begin
      waits_q <= waits_q + (go_pointers ? {1'b0, chunk_piece} : 5'd0)
          - {4'd0, pointer_valid && pointer_pop};
      if (go_pointers) begin
        pointers_left_q <= pointers_left_q - {{PAGES_W - 4{1'b0}}, chunk_piece};
        chunk_left_q <= chunk_left_q - {6'd0, chunk_piece};
        chunk_addr_q <= chunk_addr_q + {57'd0, chunk_piece};
      end
      if (go_run) begin
        run_left_q <= run_left_q - {{PAGES_W - 4{1'b0}}, run_piece};
        run_addr_q <= run_addr_q + {57'd0, run_piece};
      end
      case (link_q)
        // Waits until all pointers of the chunk are requested and more are needed.
        LINK_NONE: begin
          if (pointers_left_q != NONE && chunk_left_q == 10'd0) link_q <= LINK_LOW;
        end
        LINK_LOW: begin
          if (go_link) link_q <= LINK_HIGH;
        end
        LINK_HIGH: begin
          if (go_link) link_q <= LINK_ARRIVES;
        end
        // Waits for both halves of the link to the next chunk.
        default: begin
          if (s_word_valid && s_word_kind == KIND_HIGH) begin
            if (link_err_q || s_word_err || link[2:0] != 3'd0) begin
              dead_q <= 1'b1;
              dead_failed_q <= link_err_q || s_word_err;
            end else begin
              link_q <= LINK_NONE;
              chunk_addr_q <= link[63:3];
              chunk_left_q <= CHUNK;
            end
          end
        end
      endcase
      if (needs_run && pointer_valid) begin
        run_addr_q <= pointer[63:3];
        if (pointer_err) failed_q <= 1'b1;
        else if (pointer[2:0] != 3'd0) misaligned_q <= 1'b1;
        else begin
          run_left_q <= rest_q < RUN ? rest_q : RUN;
          rest_q <= rest_q < RUN ? NONE : rest_q - RUN;
        end
      end else if (needs_run && dead_q) begin
        failed_q <= dead_failed_q;
        misaligned_q <= !dead_failed_q;
      end
    end
    if (s_word_valid && s_word_kind == KIND_LOW) begin
      link_low_q <= s_word_data[31:0];
      link_err_q <= s_word_err;
    end
  end

  wire unused_fifo = &{1'b0, unused_ready, unused_level};

endmodule

`default_nettype wire
