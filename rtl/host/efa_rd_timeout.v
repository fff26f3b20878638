// SPDX-License-Identifier: Apache-2.0
// efa_rd_timeout - scans the tags for host reads without completion within TIMEOUT_CYCLES.
//
// In    now: a cycle counter whose wrap is longer than the time to find a read;
//       ask: a read of this tag leaves; have: completion state of a tag
// Out   slot_req, slot_tag, slot_phase: times out this use of the tag; held until slot_done
// Time  two cycles per tag, at least two more for a timeout; a read is found TIMEOUT_CYCLES
//       after it leaves, plus at most one scan round
`default_nettype none
`include "efa_check.vh"

module efa_rd_timeout #(
    parameter TAG_W = 8,
    parameter TIMEOUT_CYCLES = 65536,
    parameter NOW_W = 32
) (
    input  wire clk,
    input  wire rst,
    input  wire [NOW_W-1:0] now,
    input  wire req_wr,
    input  wire [TAG_W-1:0] req_tag,
    input  wire req_phase,
    input  wire have_wr,
    input  wire [TAG_W-1:0] have_tag,
    input  wire have_phase,
    input  wire have_given_up,
    output wire slot_req,
    input  wire slot_done,
    output wire [TAG_W-1:0] slot_tag,
    output wire slot_phase
);

  localparam [NOW_W-1:0] TIMEOUT = TIMEOUT_CYCLES;
  localparam [TAG_W-1:0] TAG_ONE = 1;
  localparam [1:0] ST_READ = 2'd0;
  localparam [1:0] ST_LOOKUP = 2'd1;
  localparam [1:0] ST_SLOT = 2'd2;

  reg [1:0] state_q;
  reg [TAG_W-1:0] tag_q;

  wire reading = state_q == ST_READ;
  wire requested_phase;
  wire [NOW_W-1:0] requested_at;
  wire done_phase;
  wire given_up;

  efa_ram #(
      .WIDTH(1 + NOW_W),
      .ADDR_W(TAG_W)
  ) u_req (
      .clk(clk),
      .wr_en(req_wr),
      .wr_addr(req_tag),
      .wr_data({req_phase, now}),
      .rd_en(reading),
      .rd_addr(tag_q),
      .rd_data({requested_phase, requested_at})
  );

  efa_ram #(
      .WIDTH(2),
      .ADDR_W(TAG_W)
  ) u_have (
      .clk(clk),
      .wr_en(have_wr),
      .wr_addr(have_tag),
      .wr_data({have_phase, have_given_up}),
      .rd_en(reading),
      .rd_addr(tag_q),
      .rd_data({done_phase, given_up})
  );

  wire [NOW_W-1:0] age = now - requested_at;
  wire expired = requested_phase != done_phase && !given_up && age >= TIMEOUT;

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_READ;
      tag_q <= {TAG_W{1'b0}};
    end else begin
      case (state_q)
        // Waits for the records of the tag.
        ST_READ: begin
          state_q <= ST_LOOKUP;
        end
        // Checks the records for a timeout.
        ST_LOOKUP: begin
          state_q <= expired ? ST_SLOT : ST_READ;
          if (!expired) tag_q <= tag_q + TAG_ONE;
        end
        // Waits for a cycle without a completion.
        default: begin
          if (slot_done) begin
            state_q <= ST_READ;
            tag_q <= tag_q + TAG_ONE;
          end
        end
      endcase
    end
  end

  assign slot_req = state_q == ST_SLOT;
  assign slot_tag = tag_q;
  assign slot_phase = requested_phase;

  `EFA_CHECK(!slot_done || slot_req, "slot without a request")

endmodule

`default_nettype wire
