// SPDX-License-Identifier: Apache-2.0
// efa_srd_fields - checks the fields of a header of the reliable transport (decision 0009).
//
// In    s_header: the header of a packet of a known kind; s_cfg_paths: paths that exist
// Out   m_stranger: of a node that does not exist; m_false: a field has a value that no sender gives
// Time  same cycle
//
// Datagrams belong to no session: their fields are not checked.
`default_nettype none
`include "efa_defs.vh"

module efa_srd_fields #(
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W
) (
    input wire [7:0] s_cfg_paths,
    input wire [`EFA_SRD_HDR__BITS-1:0] s_header,
    output wire m_stranger,
    output wire m_false
);

  wire [7:0] opcode = s_header[`EFA_SRD_HDR__OPCODE];
  wire datagram = opcode == `EFA_PKT_OPCODE__UD_SEND;
  wire is_ack = opcode == `EFA_PKT_OPCODE__SRD_ACK;
  wire [15:0] node = s_header[`EFA_SRD_HDR__SRC_NODE];
  wire [7:0] path = s_header[`EFA_SRD_HDR__PATH];
  wire [7:0] status = s_header[`EFA_SRD_HDR__STATUS];
  wire [15:0] behind = s_header[`EFA_SRD_HDR__BEHIND];
  wire has_path = path[7:3] == 5'd0 && s_cfg_paths[path[2:0]];
  wire refusal = status == `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_ADDRESS
      || status == `EFA_IO_COMP_STATUS__REMOTE_ERROR_ABORT
      || status == `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_DEST_QPN
      || status == `EFA_IO_COMP_STATUS__REMOTE_ERROR_RNR
      || status == `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_LENGTH
      || status == `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_STATUS
      || status == `EFA_IO_COMP_STATUS__REMOTE_ERROR_UNKNOWN_PEER
      || status == `EFA_IO_COMP_STATUS__REMOTE_ERROR_FEATURE_MISMATCH;
  // An acknowledgement has no flags, and its reserved field is at the place of behind.
  wire false_ack = s_header[`EFA_SRD_HDR__FLAGS] != 8'd0 || behind != 16'd0
      || s_header[`EFA_SRD_HDR__INCARNATION] == 16'd0 || (status != 8'd0 && !refusal);
  wire false_data = status != 8'd0 || behind[15:WINDOW_W] != {16 - WINDOW_W{1'b0}};

  assign m_stranger = !datagram && node >> NODE_W != 16'd0;
  assign m_false = !datagram && (!has_path || s_header[`EFA_SRD_HDR__SESSION] == 16'd0
                                 || (is_ack ? false_ack : false_data));

  wire unused_bits = &{1'b0, s_header};

endmodule

`default_nettype wire
