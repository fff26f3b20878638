// SPDX-License-Identifier: Apache-2.0
// efa_cqe_format - formats one completion as a 16- or 32-byte CQE.
//
// In    s_cpl completion; s_phase, s_wide, s_src_addr, s_long_id options of its CQ and its phase
// Out   m_cqe CQE as the host reads it (16-byte form: the low half)
// Time  combinational; the caller registers the result
`default_nettype none
`include "efa_defs.vh"

module efa_cqe_format (
    input  wire [`EFA_CPL__W-1:0] s_cpl,
    input  wire s_phase,
    input  wire s_wide,
    input  wire s_src_addr,
    input  wire s_long_id,
    output wire [`EFA_IO_RX_CDESC_EX__BITS-1:0] m_cqe
);

  reg [`EFA_IO_RX_CDESC_EX__BITS-1:0] cqe;

  wire [15:0] node = s_cpl[`EFA_CPL__SRC_NODE];
  wire ok = s_cpl[`EFA_CPL__STATUS] == `EFA_IO_COMP_STATUS__OK;
  wire rdma_write = s_cpl[`EFA_CPL__OP_TYPE] == `EFA_IO_SEND_OP_TYPE__RDMA_WRITE_W3;
  wire unknown_peer = s_cpl[`EFA_CPL__AH] == `EFA_LIMITS__RESERVED_AH;

  always @* begin
    cqe = {`EFA_IO_RX_CDESC_EX__BITS{1'b0}};
    cqe[`EFA_IO_RX_CDESC_EX__BASE__COMMON__REQ_ID] = s_cpl[`EFA_CPL__REQ_ID];
    cqe[`EFA_IO_RX_CDESC_EX__BASE__COMMON__STATUS] = s_cpl[`EFA_CPL__STATUS];
    cqe[`EFA_IO_RX_CDESC_EX__BASE__COMMON__PHASE] = s_phase;
    cqe[`EFA_IO_RX_CDESC_EX__BASE__COMMON__Q_TYPE] =
        s_cpl[`EFA_CPL__RX] ? `EFA_IO_QUEUE_TYPE__RECV_QUEUE : `EFA_IO_QUEUE_TYPE__SEND_QUEUE;
    cqe[`EFA_IO_RX_CDESC_EX__BASE__COMMON__OP_TYPE] = s_cpl[`EFA_CPL__OP_TYPE];
    cqe[`EFA_IO_RX_CDESC_EX__BASE__COMMON__QP_NUM] = s_cpl[`EFA_CPL__QP_NUM];
    // The whole request id is returned for every status.
    if (!s_cpl[`EFA_CPL__RX] && s_long_id) begin
      cqe[`EFA_IO_TX_CDESC__REQ_ID_EX] = s_cpl[`EFA_CPL__REQ_ID_EX];
    end
    // Only a successful receive reports its source; all other fields of a CQE are 0.
    if (s_cpl[`EFA_CPL__RX] && ok) begin
      cqe[`EFA_IO_RX_CDESC_EX__BASE__COMMON__UNSOLICITED] = s_cpl[`EFA_CPL__UNSOLICITED];
      cqe[`EFA_IO_RX_CDESC_EX__BASE__COMMON__HAS_IMM] = s_cpl[`EFA_CPL__HAS_IMM];
      cqe[`EFA_IO_RX_CDESC_EX__BASE__LENGTH] = s_cpl[`EFA_CPL__LENGTH];
      cqe[`EFA_IO_RX_CDESC_EX__BASE__AH] = s_cpl[`EFA_CPL__AH];
      cqe[`EFA_IO_RX_CDESC_EX__BASE__SRC_QP_NUM] = s_cpl[`EFA_CPL__SRC_QPN];
      if (s_cpl[`EFA_CPL__HAS_IMM]) begin
        cqe[`EFA_IO_RX_CDESC_EX__BASE__IMM] = s_cpl[`EFA_CPL__IMM];
      end
      // RDMA requires a known peer, so RDMA length and source GID never occur together.
      if (s_wide && rdma_write) begin
        cqe[`EFA_IO_RX_CDESC_EX__U__RDMA_WRITE__LENGTH_HI] = s_cpl[`EFA_CPL__LENGTH_HI];
      end else if (s_wide && s_src_addr && unknown_peer) begin
        // A GID is a byte string: its last two bytes are the node number, big endian.
        cqe[`EFA_IO_RX_CDESC_EX__U__SRC_ADDR] = {node[7:0], node[15:8], `EFA_LIMITS__GID_PREFIX};
      end
    end
  end

  assign m_cqe = cqe;

  wire unused_cpl = &{1'b0, s_cpl[`EFA_CPL__QPN], s_cpl[`EFA_CPL__CQN], s_cpl[`EFA_CPL__SUB]};

endmodule

`default_nettype wire
