// SPDX-License-Identifier: Apache-2.0
// efa_admin_anomaly - merges the anomaly reports of three admin modules into one event.
//
// In    s_ring: from the ring registers; s_aenq: from the AENQ, never in the cycle of s_ring;
//       s_entry: from the AQ fetch; no ready
// Out   ev_anomaly; one s_entry is held while another report leaves, a further one is lost
// Time  same cycle; a held s_entry leaves in the next cycle without s_ring and s_aenq
`default_nettype none
`include "efa_check.vh"

module efa_admin_anomaly (
    input wire clk,
    input wire rst,
    input wire s_ring_valid,
    input wire [63:0] s_ring_data,
    input wire s_aenq_valid,
    input wire [63:0] s_aenq_data,
    input wire s_entry_valid,
    input wire [63:0] s_entry_data,
    output wire ev_anomaly_valid,
    output wire [63:0] ev_anomaly_data
);

  reg waits_q;
  reg [63:0] data_q;

  wire at_once = s_ring_valid || s_aenq_valid;
  wire [63:0] at_once_data = s_ring_valid ? s_ring_data : s_aenq_data;

  assign ev_anomaly_valid = at_once || waits_q || s_entry_valid;
  assign ev_anomaly_data  = at_once ? at_once_data : waits_q ? data_q : s_entry_data;

  always @(posedge clk) begin
    if (rst) waits_q <= 1'b0;
    else waits_q <= at_once ? waits_q || s_entry_valid : waits_q && s_entry_valid;
  end

  always @(posedge clk) begin
    if (!(at_once && waits_q)) data_q <= s_entry_data;
  end

  `EFA_CHECK(!(s_ring_valid && s_aenq_valid), "two reports for one store")

endmodule

`default_nettype wire
