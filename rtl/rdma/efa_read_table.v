// SPDX-License-Identifier: Apache-2.0
// efa_read_table - holds the reads of this device, and finds the read of each response.
//
// In    s_ctx: a read, with its first request; s_more: further requests; s_look: header fields of a
//       response; s_ctx_used: contexts of sends that have not ended
// Out   with s_look_ready: m_found: the response is one of a read, and is not found again; m_read: the
//       read, until the next look
// Time  look 3 cycles, request 2 cycles, one of them at a time, one cycle more for each s_ctx at their end
//
// A read has a bit for each 4,096 bytes of its last 4 requests. It is set while no response that begins
// there was found. Two responses of an MTU of 4,096 bytes or more do not begin in the same ones.
`default_nettype none
`include "efa_defs.vh"

module efa_read_table #(
    parameter CTX_W = `EFA_LIMITS__MSG_W + 1
) (
    input wire clk,
    input wire rst,
    input wire s_ctx_valid,
    input wire [`EFA_READ_CTX__W-1:0] s_ctx_data,
    input wire s_more_valid,
    output wire s_more_ready,
    input wire [`EFA_READ_MORE__W-1:0] s_more_data,
    input wire [(1<<CTX_W)-1:0] s_ctx_used,
    input wire s_look_valid,
    output wire s_look_ready,
    input wire [`EFA_READ_LOOK__W-1:0] s_look_data,
    output wire m_found,
    output wire [`EFA_READ_CTX__W-1:0] m_read
);

  localparam BITS = 64;
  localparam [BITS-1:0] A_BIT = 1;
  localparam [31:0] REQUEST = 1 << `EFA_TRANSPORT__READ_REQUEST_LOG;
  localparam [1:0] ST_IDLE = 2'd0;
  localparam [1:0] ST_MORE = 2'd1;
  localparam [1:0] ST_LOOK = 2'd2;
  localparam [1:0] ST_FOUND = 2'd3;

  // A bit for each 4,096 bytes of a request.
  function [15:0] pieces(input [16:0] count);
    reg [4:0] number;
    begin
      number = count[16:12] + {4'd0, count[11:0] != 12'd0};
      pieces = ~({16{1'b1}} << number);
    end
  endfunction

  reg [1:0] state_q;
  reg [1:0] state_d;
  reg known_q;
  reg fits_q;
  reg [`EFA_READ_CTX__W-1:0] read_q;

  wire [31:0] ctx_id = s_ctx_data[`EFA_READ_CTX__ID];
  wire [31:0] ctx_total = s_ctx_data[`EFA_READ_CTX__TOTAL];
  wire [16:0] ctx_count = ctx_total >= REQUEST ? REQUEST[16:0] : ctx_total[16:0];
  wire [CTX_W-1:0] more_index = s_more_data[`EFA_READ_MORE__INDEX];
  wire [1:0] more_slot = s_more_data[`EFA_READ_MORE__SLOT];
  wire [31:0] look_id = s_look_data[`EFA_READ_LOOK__ID];
  wire [31:0] look_offset = s_look_data[`EFA_READ_LOOK__OFFSET];
  wire [15:0] look_bytes = s_look_data[`EFA_READ_LOOK__BYTES];
  wire [CTX_W-1:0] index = state_q == ST_MORE || (state_q == ST_IDLE && s_more_valid) ? more_index
      : look_id[CTX_W-1:0];

  wire [`EFA_READ_CTX__W-1:0] read;
  wire [BITS-1:0] bits;
  wire [15:0] latest;  // number of the latest request of the read
  wire [15:0] age = latest - look_offset[31:16];  // of the request of the response
  wire [31:0] total = read[`EFA_READ_CTX__TOTAL];
  wire [31:0] left = total - {look_offset[31:16], 16'd0};  // from the start of the request on
  wire [16:0] most = left >= REQUEST ? REQUEST[16:0] : left[16:0];
  wire [16:0] look_end = {1'b0, look_offset[15:0]} + {1'b0, look_bytes};
  wire known = read[`EFA_READ_CTX__ID] == look_id && read[`EFA_READ_CTX__NODE] == s_look_data[`EFA_READ_LOOK__NODE]
      && read[`EFA_READ_CTX__QP_NUM] == s_look_data[`EFA_READ_LOOK__QP_NUM];
  wire fits = look_offset < total && look_end <= most;
  wire [5:0] piece = look_offset[17:12];

  reg [BITS-1:0] more_bits;
  always @* begin
    more_bits = bits;
    more_bits[16*more_slot+:16] = pieces(s_more_data[`EFA_READ_MORE__COUNT]);
  end

  assign s_more_ready = state_q == ST_MORE && !s_ctx_valid;
  assign s_look_ready = state_q == ST_FOUND && !s_ctx_valid;
  assign m_found = known_q && s_ctx_used[look_id[CTX_W-1:0]] && fits_q && age < 16'd4 && bits[piece];
  assign m_read = read_q;

  always @* begin
    state_d = state_q;
    case (state_q)
      // A request first: its responses come later.
      ST_IDLE: begin
        if (s_more_valid) state_d = ST_MORE;
        else if (s_look_valid) state_d = ST_LOOK;
      end
      // Waits for the write port.
      ST_MORE: begin
        if (s_more_ready) state_d = ST_IDLE;
      end
      // The read was read.
      ST_LOOK: begin
        state_d = ST_FOUND;
      end
      // Waits for the write port.
      default: begin
        if (s_look_ready) state_d = ST_IDLE;
      end
    endcase
  end

  efa_ram_fwd #(
      .WIDTH (`EFA_READ_CTX__W),
      .ADDR_W(CTX_W)
  ) u_reads (
      .clk(clk),
      .wr_en(s_ctx_valid),
      .wr_addr(ctx_id[CTX_W-1:0]),
      .wr_data(s_ctx_data),
      .rd_addr(index),
      .rd_data(read)
  );

  efa_ram_fwd #(
      .WIDTH (16 + BITS),
      .ADDR_W(CTX_W)
  ) u_bits (
      .clk(clk),
      .wr_en(s_ctx_valid || s_more_ready || (s_look_ready && m_found)),
      .wr_addr(s_ctx_valid ? ctx_id[CTX_W-1:0] : index),
      .wr_data(s_ctx_valid ? {64'd0, pieces(ctx_count)}
               : s_more_ready ? {latest + 16'd1, more_bits} : {latest, bits & ~(A_BIT << piece)}),
      .rd_addr(index),
      .rd_data({latest, bits})
  );

  always @(posedge clk) begin
    if (rst) state_q <= ST_IDLE;
    else state_q <= state_d;
  end

  wire unused_bits = &{1'b0, ctx_id};

  always @(posedge clk) begin
    // A new read may take the context.
    known_q <= (state_q == ST_LOOK ? known : known_q) && !(s_ctx_valid && ctx_id[CTX_W-1:0] == index);
    if (state_q == ST_LOOK) begin
      fits_q <= fits;
      read_q <= read;
    end
  end

endmodule

`default_nettype wire
