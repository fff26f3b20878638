// SPDX-License-Identifier: Apache-2.0
// efa_rd_timeout - scans the tags for host reads without completion within TIMEOUT_CYCLES.
//
// In    s_now: a cycle counter whose wrap is longer than the time to find a read;
//       s_req: a read of this tag leaves; have: completion state of a tag
// Out   m_slot_req, m_slot_tag, m_slot_phase: times out this use of the tag; held until s_slot_done
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
    input  wire [NOW_W-1:0] s_now,
    input  wire s_req_wr,
    input  wire [TAG_W-1:0] s_req_tag,
    input  wire s_req_phase,
    input  wire s_have_wr,
    input  wire [TAG_W-1:0] s_have_tag,
    input  wire s_have_phase,
    input  wire s_have_given_up,
    output wire m_slot_req,
    input  wire s_slot_done,
    output wire [TAG_W-1:0] m_slot_tag,
    output wire m_slot_phase
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
      .wr_en(s_req_wr),
      .wr_addr(s_req_tag),
      .wr_data({s_req_phase, s_now}),
      .rd_en(reading),
      .rd_addr(tag_q),
      .rd_data({requested_phase, requested_at})
  );

  efa_ram #(
      .WIDTH(2),
      .ADDR_W(TAG_W)
  ) u_have (
      .clk(clk),
      .wr_en(s_have_wr),
      .wr_addr(s_have_tag),
      .wr_data({s_have_phase, s_have_given_up}),
      .rd_en(reading),
      .rd_addr(tag_q),
      .rd_data({done_phase, given_up})
  );

  wire [NOW_W-1:0] age = s_now - requested_at;
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
          if (s_slot_done) begin
            state_q <= ST_READ;
            tag_q <= tag_q + TAG_ONE;
          end
        end
      endcase
    end
  end

  assign m_slot_req = state_q == ST_SLOT;
  assign m_slot_tag = tag_q;
  assign m_slot_phase = requested_phase;

  `EFA_CHECK(!s_slot_done || m_slot_req, "slot without a request")

endmodule

`default_nettype wire
