// SPDX-License-Identifier: Apache-2.0
// efa_tx_requests - holds what is requested from efa_tx_space for the peer in work.
//
// In    s_load, s_state: another peer; s_clear: a new session; s_space: its numbers; s_sync: takes over
//       what efa_tx_space has sent; s_resolve, s_slot: the packet of a slot is resolved; s_again,
//       s_again_psn, then s_again_id_valid, s_record: a retransmission; s_probe, s_probe_path,
//       s_probe_psn, then s_probe_id_valid, s_record: a probe
// Out   m_state; m_again_sent: with s_sync: the retransmission is in flight; m_again_wasted: with
//       s_sync: it was sent, and is resolved; m_again_none, m_canceled: no retransmission is
//       requested, the requested one is resolved
// Time  one cycle
//
// A request is served when efa_tx_space has taken over its turn bit. A resolved packet cancels its
// request: efa_tx_space may have sent it in the cycles before it sees that.
`default_nettype none
`include "efa_defs.vh"

module efa_tx_requests #(
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W
) (
    input wire clk,
    input wire s_load,
    input wire [`EFA_TX_REQUESTS__W-1:0] s_state,
    input wire s_clear,
    input wire [`EFA_TX_SPACE__W-1:0] s_space,
    input wire s_sync,
    input wire s_resolve,
    input wire [WINDOW_W-1:0] s_slot,
    input wire s_again,
    input wire [31:0] s_again_psn,
    input wire s_again_id_valid,
    input wire s_probe,
    input wire [2:0] s_probe_path,
    input wire [31:0] s_probe_psn,
    input wire s_probe_id_valid,
    input wire [`EFA_TX_RECORD__W-1:0] s_record,
    output wire [`EFA_TX_REQUESTS__W-1:0] m_state,
    output wire m_again_sent,
    output wire m_again_wasted,
    output wire m_again_none,
    output wire m_canceled
);

  localparam [1:0] NO_REQUEST = `EFA_TX_REQUEST__NONE;
  localparam [1:0] OPEN = `EFA_TX_REQUEST__OPEN;
  localparam [1:0] CANCELED = `EFA_TX_REQUEST__CANCELED;

  reg [`EFA_TX_REQUESTS__W-1:0] state_q;
  reg [`EFA_TX_REQUESTS__W-1:0] state_d;

  wire [1:0] again = state_q[`EFA_TX_REQUESTS__AGAIN];
  wire [31:0] again_psn = state_q[`EFA_TX_REQUESTS__AGAIN_PSN];
  wire [31:0] probe_psn = state_q[`EFA_TX_REQUESTS__PROBE_PSN];
  wire again_served = state_q[`EFA_TX_REQUESTS__AGAIN_TURN] == s_space[`EFA_TX_SPACE__AGAIN];
  wire probe_served = state_q[`EFA_TX_REQUESTS__PROBE_TURN] == s_space[`EFA_TX_SPACE__PROBE];

  always @* begin
    state_d = state_q;
    if (s_sync) begin
      if (again == CANCELED || again_served) state_d[`EFA_TX_REQUESTS__AGAIN] = NO_REQUEST;
      if (probe_served) state_d[`EFA_TX_REQUESTS__PROBE] = 1'b0;
    end
    if (s_resolve) begin
      if (again == OPEN && s_slot == again_psn[WINDOW_W-1:0]) begin
        state_d[`EFA_TX_REQUESTS__AGAIN] = CANCELED;
      end
      if (s_slot == probe_psn[WINDOW_W-1:0]) state_d[`EFA_TX_REQUESTS__PROBE] = 1'b0;
    end
    if (s_again) begin
      state_d[`EFA_TX_REQUESTS__AGAIN] = OPEN;
      state_d[`EFA_TX_REQUESTS__AGAIN_TURN] = !s_space[`EFA_TX_SPACE__AGAIN];
      state_d[`EFA_TX_REQUESTS__AGAIN_PSN] = s_again_psn;
    end
    if (s_again_id_valid) begin
      state_d[`EFA_TX_REQUESTS__AGAIN_ID] = s_record[`EFA_TX_RECORD__ID];
      state_d[`EFA_TX_REQUESTS__AGAIN_PART] = s_record[`EFA_TX_RECORD__PART];
      state_d[`EFA_TX_REQUESTS__AGAIN_KIND] = s_record[`EFA_TX_RECORD__KIND];
    end
    if (s_probe) begin
      state_d[`EFA_TX_REQUESTS__PROBE] = 1'b1;
      state_d[`EFA_TX_REQUESTS__PROBE_TURN] = !s_space[`EFA_TX_SPACE__PROBE];
      state_d[`EFA_TX_REQUESTS__PROBE_PATH] = s_probe_path;
      state_d[`EFA_TX_REQUESTS__PROBE_PSN] = s_probe_psn;
    end
    if (s_probe_id_valid) begin
      state_d[`EFA_TX_REQUESTS__PROBE_ID] = s_record[`EFA_TX_RECORD__ID];
      state_d[`EFA_TX_REQUESTS__PROBE_PART] = s_record[`EFA_TX_RECORD__PART];
      state_d[`EFA_TX_REQUESTS__PROBE_KIND] = s_record[`EFA_TX_RECORD__KIND];
    end
    if (s_clear) state_d = {`EFA_TX_REQUESTS__W{1'b0}};
    if (s_load) state_d = s_state;
  end

  assign m_state = state_q;
  assign m_again_sent = s_sync && again == OPEN && again_served;
  assign m_again_wasted = s_sync && again == CANCELED && again_served;
  assign m_again_none = again == NO_REQUEST;
  assign m_canceled = again == CANCELED;

  always @(posedge clk) begin
    state_q <= state_d;
  end

  wire unused_bits = &{1'b0, s_space, s_record, again_psn, probe_psn};

endmodule

`default_nettype wire
