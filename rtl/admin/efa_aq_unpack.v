// SPDX-License-Identifier: Apache-2.0
// efa_aq_unpack - reads AQEs of one or two 64-byte lines and validates the checksum of the long
// form.
//
// In    s_req: address and form of an AQE; s_line: its lines, in order
// Out   m_line: line reads; m_entry: the AQE in its 64-byte form, err: a read failed, bad: the
//       checksum or payload version is wrong
// Time  one line: request and AQE pass in the same cycle; two lines: one read per cycle, 3 cycles
//       from the second line to the AQE, one AQE every 5
`default_nettype none
`include "efa_defs.vh"

module efa_aq_unpack (
    input wire clk,
    input wire rst,

    input wire s_req_valid,
    output wire s_req_ready,
    input wire [63:0] s_req_addr,
    input wire s_req_wide,

    output wire m_line_valid,
    input wire m_line_ready,
    output wire [63:0] m_line_addr,
    output wire [6:0] m_line_len,
    input wire s_line_valid,
    output wire s_line_ready,
    input wire [511:0] s_line_data,
    input wire s_line_err,

    output wire m_entry_valid,
    input wire m_entry_ready,
    output wire [511:0] m_entry_data,
    output wire m_entry_err,
    output wire m_entry_bad
);

  // Outstanding lines: more than efa_dma_line_rd holds.
  localparam LINES_LOG2 = 4;
  localparam [1:0] HAVE_NONE = 2'd0;
  localparam [1:0] HAVE_FIRST = 2'd1;
  localparam [1:0] HAVE_BOTH = 2'd2;
  localparam [1:0] CRC_DONE = 2'd2;

  reg second_q;  // the next read is the second line of an AQE
  reg [57:0] second_addr_q;
  reg [1:0] have_q;
  reg [1:0] crc_step_q;
  reg [1023:0] entry_q;
  reg err_q;

  wire space;
  wire due_valid;
  wire due_wide;
  wire due_second;
  wire [LINES_LOG2:0] unused_level;
  wire line_accepted = s_line_valid && s_line_ready;
  efa_fifo #(
      .WIDTH(2),
      .DEPTH_LOG2(LINES_LOG2)
  ) u_lines (
      .clk(clk),
      .rst(rst),
      .s_valid(m_line_valid && m_line_ready),
      .s_ready(space),
      .s_data({second_q || s_req_wide, second_q}),
      .m_valid(due_valid),
      .m_ready(line_accepted),
      .m_data({due_wide, due_second}),
      .m_level(unused_level)
  );

  assign m_line_valid = (second_q || s_req_valid) && space;
  assign m_line_addr = second_q ? {second_addr_q, 6'd0} : s_req_addr;
  assign m_line_len = 7'd64;
  assign s_req_ready = !second_q && space && m_line_ready;

  reg [1023:0] plain;
  always @* begin
    plain = entry_q;
    plain[`EFA_ADMIN_AQ_ENTRY_V2__AQ_COMMON_DESCRIPTOR__CHECKSUM] = 16'd0;
  end
  wire [15:0] crc;
  efa_crc16 #(
      .BITS(1024)
  ) u_crc (
      .clk(clk),
      .s_data(plain),
      .m_crc(crc)
  );

  // The 64-byte form: the part of the payload that a command may use.
  reg [511:0] short;
  wire [927:0] payload = entry_q[`EFA_ADMIN_AQ_ENTRY_V2__REQUEST_PAYLOAD];
  always @* begin
    short[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR] =
        entry_q[`EFA_ADMIN_AQ_ENTRY_V2__AQ_COMMON_DESCRIPTOR__COMMON];
    short[`EFA_ADMIN_AQ_ENTRY__REQUEST_PAYLOAD] = payload[479:0];
  end

  wire complete = have_q == HAVE_BOTH;
  wire none = have_q == HAVE_NONE;
  wire passes = none && s_line_valid && due_valid && !due_wide;
  assign m_entry_valid = complete ? crc_step_q == CRC_DONE : passes;
  assign m_entry_data = complete ? short : s_line_data;
  assign m_entry_err = complete ? err_q : s_line_err;
  assign m_entry_bad = complete
      && (crc != entry_q[`EFA_ADMIN_AQ_ENTRY_V2__AQ_COMMON_DESCRIPTOR__CHECKSUM]
      || entry_q[`EFA_ADMIN_AQ_ENTRY_V2__AQ_COMMON_DESCRIPTOR__PAYLOAD_VER] != 8'd0);
  assign s_line_ready = due_valid && (!due_wide ? none && m_entry_ready
      : due_second ? have_q == HAVE_FIRST : none);

  always @(posedge clk) begin
    if (rst) begin
      second_q <= 1'b0;
      have_q   <= HAVE_NONE;
    end else begin
      if (m_line_valid && m_line_ready) second_q <= !second_q && s_req_wide;
      if (line_accepted && due_wide) have_q <= due_second ? HAVE_BOTH : HAVE_FIRST;
      else if (complete && m_entry_valid && m_entry_ready) have_q <= HAVE_NONE;
    end
  end

  always @(posedge clk) begin
    if (!second_q) second_addr_q <= s_req_addr[63:6] + 58'd1;
    if (line_accepted && !due_second) begin
      entry_q[511:0] <= s_line_data;
      err_q <= s_line_err;
    end
    if (line_accepted && due_second) begin
      entry_q[1023:512] <= s_line_data;
      err_q <= err_q || s_line_err;
    end
    crc_step_q <= !complete ? 2'd0 : crc_step_q == CRC_DONE ? CRC_DONE : crc_step_q + 2'd1;
  end

  wire unused_bits = &{1'b0, unused_level, payload};

endmodule

`default_nettype wire
