// SPDX-License-Identifier: Apache-2.0
// efa_ctx_end - merges outcomes of packets with errors of this device.
//
// In    s_done: messages that have left the transmit engine, and fences; s_note: outcomes of packets;
//       s_gone: transmissions that were not made
// Out   m_done: those of s_done that have no context, in order; m_note: outcomes, and errors of this
//       device; m_gone: transmissions that were not made
// Time  same cycle, one of each per cycle
//
// A transmission that fails here is an error and was not made. With status FLUSHED, its QP is
// halted: the flush ends its context.
`default_nettype none
`include "efa_defs.vh"

module efa_ctx_end (
    input wire clk,
    input wire rst,
    input wire s_done_valid,
    output wire s_done_ready,
    input wire [`EFA_TX_MSG__W-1:0] s_done_msg,
    input wire s_note_valid,
    output wire s_note_ready,
    input wire [`EFA_SRD_NOTE__W-1:0] s_note_data,
    input wire s_gone_valid,
    output wire s_gone_ready,
    input wire [`EFA_SRD_GONE__W-1:0] s_gone_data,
    output wire m_done_valid,
    input wire m_done_ready,
    output wire [`EFA_TX_MSG__W-1:0] m_done_msg,
    output wire m_note_valid,
    input wire m_note_ready,
    output wire [`EFA_SRD_NOTE__W-1:0] m_note_data,
    output wire m_gone_valid,
    input wire m_gone_ready,
    output wire [`EFA_SRD_GONE__W-1:0] m_gone_data
);

  reg noted_q;  // the outcome of the transmission at s_done has left
  reg told_q;  // it was reported as not made

  wire sent = s_done_msg[`EFA_TX_MSG__SENT];
  wire [`EFA_SRD_SEND__W-1:0] send = s_done_msg[`EFA_TX_MSG__SEND];
  wire fails = s_done_valid && sent;
  wire notes = fails && !noted_q && s_done_msg[`EFA_TX_MSG__STATUS] != `EFA_IO_COMP_STATUS__FLUSHED;
  wire tells = fails && !told_q;
  wire [1:0] note_grant;
  wire [1:0] gone_grant;
  wire note_left = note_grant[1] && m_note_ready;
  wire gone_left = gone_grant[1] && m_gone_ready;
  wire leave = fails && (!notes || note_left) && (!tells || gone_left);

  reg [`EFA_SRD_NOTE__W-1:0] own_note;
  reg [`EFA_SRD_GONE__W-1:0] own_gone;
  always @* begin
    own_note = {`EFA_SRD_NOTE__W{1'b0}};
    own_note[`EFA_SRD_NOTE__NODE] = send[`EFA_SRD_SEND__NODE];
    own_note[`EFA_SRD_NOTE__ID] = send[`EFA_SRD_SEND__ID];
    own_note[`EFA_SRD_NOTE__STATUS] = s_done_msg[`EFA_TX_MSG__STATUS];
    own_note[`EFA_SRD_NOTE__KIND] = send[`EFA_SRD_SEND__KIND];
    own_note[`EFA_SRD_NOTE__OWN] = 1'b1;
    own_gone[`EFA_SRD_GONE__NODE] = send[`EFA_SRD_SEND__NODE];
    own_gone[`EFA_SRD_GONE__SESSION] = send[`EFA_SRD_SEND__SESSION];
    own_gone[`EFA_SRD_GONE__PSN] = send[`EFA_SRD_SEND__PSN];
  end

  assign s_done_ready = sent ? leave : m_done_ready;
  assign s_note_ready = note_grant[0] && m_note_ready;
  assign s_gone_ready = gone_grant[0] && m_gone_ready;
  assign m_done_valid = s_done_valid && !sent;
  assign m_done_msg = s_done_msg;
  assign m_note_valid = note_grant != 2'b00;
  assign m_note_data = note_grant[1] ? own_note : s_note_data;
  assign m_gone_valid = gone_grant != 2'b00;
  assign m_gone_data = gone_grant[1] ? own_gone : s_gone_data;

  efa_arb #(
      .N(2)
  ) u_note (
      .clk(clk),
      .rst(rst),
      .s_request({notes, s_note_valid}),
      .s_hold(!m_note_ready),
      .m_grant(note_grant)
  );

  efa_arb #(
      .N(2)
  ) u_gone (
      .clk(clk),
      .rst(rst),
      .s_request({tells, s_gone_valid}),
      .s_hold(!m_gone_ready),
      .m_grant(gone_grant)
  );

  always @(posedge clk) begin
    if (rst) begin
      noted_q <= 1'b0;
      told_q <= 1'b0;
    end else begin
      noted_q <= !leave && (noted_q || note_left);
      told_q <= !leave && (told_q || gone_left);
    end
  end

  wire unused_bits = &{1'b0, send};

endmodule

`default_nettype wire
