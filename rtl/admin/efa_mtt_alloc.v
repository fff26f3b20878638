// SPDX-License-Identifier: Apache-2.0
// efa_mtt_alloc - allocates a contiguous block of page translations for each region, first fit.
//
// Allocated blocks form a ring of regions by rising address; node ENDS is both ends of the pool.
// No gap lies before the hint, so a search starts behind the hint.
// In    s_find: a block of s_need; s_insert: the found block, as region s_index; s_remove: a
//       region; one of them held until s_ready; s_pool: translations of the pool, constant
// Out   with s_ready of a find: m_fits, m_base
// Time  to s_ready: find 4 cycles and 2 per region passed behind the hint; insert 3; remove 3
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_mtt_alloc #(
    parameter MTT_W = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire clk,
    input wire rst,
    input wire s_find,
    input wire s_insert,
    input wire s_remove,
    output wire s_ready,
    input wire [MTT_W:0] s_pool,
    input wire [`EFA_LIMITS__MR_W-1:0] s_index,
    input wire [MTT_W:0] s_need,
    output wire m_fits,
    output wire [MTT_W:0] m_base
);

  localparam NODE_W = `EFA_LIMITS__MR_W + 1;
  localparam POS_W = MTT_W + 1;
  localparam [NODE_W-1:0] ENDS = {1'b1, {NODE_W - 1{1'b0}}};

  localparam [3:0] ST_INIT = 4'd0;
  localparam [3:0] ST_IDLE = 4'd1;
  localparam [3:0] ST_NEXT = 4'd2;
  localparam [3:0] ST_RANGE = 4'd3;
  localparam [3:0] ST_GAP = 4'd4;
  localparam [3:0] ST_LINK = 4'd5;
  localparam [3:0] ST_LINKED = 4'd6;
  localparam [3:0] ST_UNLINK = 4'd7;
  localparam [3:0] ST_UNLINKED = 4'd8;
  localparam [3:0] ST_DONE = 4'd9;

  reg [3:0] state_q;
  reg [3:0] state_d;
  reg [NODE_W-1:0] hint_q;  // no gap lies before the end of this region
  reg [NODE_W-1:0] hint_d;
  reg [POS_W-1:0] hint_end_q;
  reg [POS_W-1:0] hint_end_d;
  reg [NODE_W-1:0] node_q;
  reg [NODE_W-1:0] node_d;
  reg [POS_W-1:0] end_q;  // end of region node_q
  reg [POS_W-1:0] end_d;
  reg [NODE_W-1:0] behind_q;
  reg [NODE_W-1:0] behind_d;
  reg fits_q;

  reg next_wr;
  reg [NODE_W-1:0] next_wr_node;
  reg [NODE_W-1:0] next_wr_data;
  reg [NODE_W-1:0] next_rd_node;
  wire [NODE_W-1:0] next;
  reg prev_wr;
  reg [NODE_W-1:0] prev_wr_node;
  reg [NODE_W-1:0] prev_wr_data;
  wire [NODE_W-1:0] prev;
  reg range_wr;
  reg [NODE_W-1:0] range_wr_node;
  reg [2*POS_W-1:0] range_wr_data;
  reg [NODE_W-1:0] range_rd_node;
  wire [POS_W-1:0] range_from;
  wire [POS_W-1:0] range_to;

  efa_ram #(
      .WIDTH (NODE_W),
      .ADDR_W(NODE_W)
  ) u_next (
      .clk(clk),
      .wr_en(next_wr),
      .wr_addr(next_wr_node),
      .wr_data(next_wr_data),
      .rd_en(1'b1),
      .rd_addr(next_rd_node),
      .rd_data(next)
  );
  efa_ram #(
      .WIDTH (NODE_W),
      .ADDR_W(NODE_W)
  ) u_prev (
      .clk(clk),
      .wr_en(prev_wr),
      .wr_addr(prev_wr_node),
      .wr_data(prev_wr_data),
      .rd_en(1'b1),
      .rd_addr({1'b0, s_index}),
      .rd_data(prev)
  );
  efa_ram #(
      .WIDTH (2 * POS_W),
      .ADDR_W(NODE_W)
  ) u_range (
      .clk(clk),
      .wr_en(range_wr),
      .wr_addr(range_wr_node),
      .wr_data(range_wr_data),
      .rd_en(1'b1),
      .rd_addr(range_rd_node),
      .rd_data({range_to, range_from})
  );

  wire [NODE_W-1:0] node = {1'b0, s_index};
  wire [ POS_W-1:0] gap = range_from - end_q;
  wire fits = gap >= s_need;

  assign s_ready = state_q == ST_DONE;
  assign m_fits  = fits_q;
  assign m_base  = end_q;

  always @* begin
    state_d = state_q;
    hint_d = hint_q;
    hint_end_d = hint_end_q;
    node_d = node_q;
    end_d = end_q;
    behind_d = behind_q;
    next_wr = 1'b0;
    next_wr_node = node_q;
    next_wr_data = node;
    next_rd_node = node_q;
    prev_wr = 1'b0;
    prev_wr_node = node;
    prev_wr_data = node_q;
    range_wr = 1'b0;
    range_wr_node = node;
    range_wr_data = {end_q + s_need, end_q};
    range_rd_node = next;
    case (state_q)
      // Empty ring: ENDS ends at 0 as the first node, and begins behind the pool as the last.
      ST_INIT: begin
        next_wr = 1'b1;
        next_wr_node = ENDS;
        next_wr_data = ENDS;
        prev_wr = 1'b1;
        prev_wr_node = ENDS;
        prev_wr_data = ENDS;
        range_wr = 1'b1;
        range_wr_node = ENDS;
        range_wr_data = {{POS_W{1'b0}}, s_pool};
        state_d = ST_IDLE;
      end
      // Waits for a request.
      ST_IDLE: begin
        next_rd_node  = node;
        range_rd_node = node;
        if (s_find) begin
          node_d  = hint_q;
          end_d   = hint_end_q;
          state_d = ST_NEXT;
        end else if (s_insert) begin
          state_d = ST_LINK;
        end else if (s_remove) begin
          state_d = ST_UNLINK;
        end
      end
      // Reads the region behind node_q.
      ST_NEXT: begin
        state_d = ST_RANGE;
      end
      // Reads the range of that region.
      ST_RANGE: begin
        behind_d = next;
        state_d  = ST_GAP;
      end
      // Checks that the block fits between both regions; else moves on by one region.
      ST_GAP: begin
        next_rd_node = behind_q;
        if (fits || behind_q == ENDS) begin
          state_d = ST_DONE;
        end else begin
          node_d = behind_q;
          end_d  = range_to;
          if (node_q == hint_q && gap == {POS_W{1'b0}}) begin
            hint_d = behind_q;
            hint_end_d = range_to;
          end
          state_d = ST_RANGE;
        end
      end
      // Links the new region between both regions.
      ST_LINK: begin
        next_wr  = 1'b1;
        prev_wr  = 1'b1;
        range_wr = 1'b1;
        if (node_q == hint_q) begin
          hint_d = node;
          hint_end_d = end_q + s_need;
        end
        state_d = ST_LINKED;
      end
      ST_LINKED: begin
        next_wr = 1'b1;
        next_wr_node = node;
        next_wr_data = behind_q;
        prev_wr = 1'b1;
        prev_wr_node = behind_q;
        prev_wr_data = node;
        state_d = ST_DONE;
      end
      // Reads the neighbours of the region to remove.
      ST_UNLINK: begin
        node_d = prev;
        behind_d = next;
        end_d = range_from;
        state_d = ST_UNLINKED;
      end
      // Links the neighbours; a gap before the end of the hint moves the hint back.
      ST_UNLINKED: begin
        next_wr = 1'b1;
        next_wr_data = behind_q;
        prev_wr = 1'b1;
        prev_wr_node = behind_q;
        if (end_q < hint_end_q) begin
          hint_d = node_q;
          hint_end_d = end_q;
        end
        state_d = ST_DONE;
      end
      // Holds the response for one cycle.
      default: begin
        state_d = ST_IDLE;
      end
    endcase
  end

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_INIT;
      hint_q <= ENDS;
      hint_end_q <= {POS_W{1'b0}};
    end else begin
      state_q <= state_d;
      hint_q <= hint_d;
      hint_end_q <= hint_end_d;
    end
  end

  always @(posedge clk) begin
    node_q <= node_d;
    end_q <= end_d;
    behind_q <= behind_d;
    fits_q <= fits;
  end

  `EFA_CHECK(state_q != ST_GAP || range_from >= end_q, "blocks overlap")

endmodule

`default_nettype wire
