// SPDX-License-Identifier: Apache-2.0
// efa_ack_check - decides what an acknowledgement does to its session (decision 0009).
//
// In    s_ack: an acknowledgement; s_session, s_oldest, s_next, s_incarnation: of the peer, unchanged
//       until m_*; s_last_number: last number of a session
// Out   m_past: nothing; m_aborts: it ends the session; m_quiet: the peer is in its quiet time;
//       m_slots: slots that it resolves, if they are not resolved; m_refuses: it refuses that of
//       m_refused_slot; m_anomaly, m_cause: no correct peer sends it
// Time  3 cycles
`default_nettype none
`include "efa_defs.vh"

module efa_ack_check #(
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W
) (
    input wire clk,
    input wire [`EFA_TX_ACK__W-1:0] s_ack,
    input wire [15:0] s_session,
    input wire [31:0] s_oldest,
    input wire [31:0] s_next,
    input wire [15:0] s_incarnation,
    input wire [15:0] s_last_number,
    output wire m_past,
    output wire m_aborts,
    output wire m_quiet,
    output wire [(1<<WINDOW_W)-1:0] m_slots,
    output wire m_refuses,
    output wire [WINDOW_W-1:0] m_refused_slot,
    output wire m_anomaly,
    output wire [3:0] m_cause
);

  localparam WINDOW = 1 << WINDOW_W;
  localparam [7:0] ABORT = `EFA_IO_COMP_STATUS__REMOTE_ERROR_ABORT;

  wire bad;
  wire refused;
  wire [WINDOW-1:0] shown;

  wire [15:0] session = s_ack[`EFA_TX_ACK__SESSION];
  wire [7:0] status = s_ack[`EFA_TX_ACK__STATUS];
  wire [31:0] refused_psn = s_ack[`EFA_TX_ACK__REFUSED_PSN];
  wire [WINDOW_W-1:0] refused_slot = refused_psn[WINDOW_W-1:0];
  wire [WINDOW-1:0] refused_here = {{WINDOW - 1{1'b0}}, refused} << refused_slot;

  wire current = s_session != 16'd0 && session == s_session;
  wire [15:0] number_step = session - s_last_number;
  wire never = number_step != 16'd0 && !number_step[15];
  wire [15:0] step = s_ack[`EFA_TX_ACK__INCARNATION] - s_incarnation;
  wire differs = s_incarnation != 16'd0 && step != 16'd0;

  assign m_past = !current || bad || (differs && step[15]);
  assign m_aborts = !m_past && (differs || status == ABORT);
  assign m_quiet = s_incarnation == 16'd0 && shown == {WINDOW{1'b0}} && status == 8'd0;
  assign m_slots = shown | refused_here;
  assign m_refuses = refused && !shown[refused_slot];
  assign m_refused_slot = refused_slot;
  assign m_anomaly = current ? bad : never;
  assign m_cause = current ? `EFA_TRANSPORT_ANOMALY__PSN : `EFA_TRANSPORT_ANOMALY__SESSION;

  efa_ack_mask #(
      .WINDOW_W(WINDOW_W)
  ) u_mask (
      .clk(clk),
      .s_ack(s_ack),
      .s_oldest(s_oldest),
      .s_next(s_next),
      .m_bad(bad),
      .m_shown(shown),
      .m_refused(refused)
  );

  wire unused_bits = &{1'b0, refused_psn, number_step, step};

endmodule

`default_nettype wire
