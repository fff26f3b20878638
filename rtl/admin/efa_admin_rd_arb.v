// SPDX-License-Identifier: Apache-2.0
// efa_admin_rd_arb - arbitrates the host reads of the admin side onto one read client.
//
// In    s_rd: requests of up to 64 bytes with their slot, one stream per reader; s_rd_cpl
//       completions
// Out   m_rd: requests with reader and slot as cookie; m_rd_cpl: reader and slot of a completion
// Time  1 cycle, one request per cycle
`default_nettype none
module efa_admin_rd_arb #(
    parameter READERS = 3,
    parameter SLOT_W  = 4
) (
    input wire clk,
    input wire rst,
    input wire [READERS-1:0] s_rd_valid,
    output wire [READERS-1:0] s_rd_ready,
    input wire [64*READERS-1:0] s_rd_addr,
    input wire [7*READERS-1:0] s_rd_len,
    input wire [SLOT_W*READERS-1:0] s_rd_slot,
    output wire m_rd_valid,
    input wire m_rd_ready,
    output wire [63:0] m_rd_addr,
    output wire [12:0] m_rd_len,
    output wire [31:0] m_rd_cookie,
    input wire s_rd_cpl_valid,
    input wire [31:0] s_rd_cpl_cookie,
    output wire [READERS-1:0] m_rd_cpl_valid,
    output wire [SLOT_W-1:0] m_rd_cpl_slot
);

  reg valid_q;
  reg [63:0] addr_q;
  reg [6:0] len_q;
  reg [READERS-1:0] reader_q;
  reg [SLOT_W-1:0] slot_q;

  wire space = !valid_q || m_rd_ready;
  wire [READERS-1:0] grant;
  efa_arb #(
      .N(READERS)
  ) u_arb (
      .clk(clk),
      .rst(rst),
      .s_request(space ? s_rd_valid : {READERS{1'b0}}),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  reg [63:0] addr;
  reg [6:0] len;
  reg [SLOT_W-1:0] slot;
  integer i;
  always @* begin
    addr = 64'd0;
    len  = 7'd0;
    slot = {SLOT_W{1'b0}};
    for (i = 0; i < READERS; i = i + 1) begin
      addr = addr | (s_rd_addr[64*i+:64] & {64{grant[i]}});
      len  = len | (s_rd_len[7*i+:7] & {7{grant[i]}});
      slot = slot | (s_rd_slot[SLOT_W*i+:SLOT_W] & {SLOT_W{grant[i]}});
    end
  end

  assign s_rd_ready = grant;
  assign m_rd_valid = valid_q;
  assign m_rd_addr = addr_q;
  assign m_rd_len = {6'd0, len_q};
  assign m_rd_cookie = {{32 - READERS - SLOT_W{1'b0}}, reader_q, slot_q};
  assign m_rd_cpl_valid = s_rd_cpl_cookie[SLOT_W+:READERS] & {READERS{s_rd_cpl_valid}};
  assign m_rd_cpl_slot = s_rd_cpl_cookie[SLOT_W-1:0];

  always @(posedge clk) begin
    if (rst) valid_q <= 1'b0;
    else if (space) valid_q <= grant != {READERS{1'b0}};
  end

  always @(posedge clk) begin
    if (space) begin
      addr_q <= addr;
      len_q <= len;
      reader_q <= grant;
      slot_q <= slot;
    end
  end

  wire unused_cookie = &{1'b0, s_rd_cpl_cookie};

endmodule

`default_nettype wire
