// SPDX-License-Identifier: Apache-2.0
// efa_sq_req_arb - arbitrates requests to the scheduler: queues to visit again, and fences.
//
// In    s_qpchg QPs with a new state; s_round queues that a flush round returns; s_flush_fence,
//       s_drain_fence; s_passed a fence has passed; s_drain, s_drain_clear: nothing is left to
//       drain in front of the scheduler
// Out   m_again queue to visit, a QP with a new state before a returned queue; m_fetch the same
//       QP for efa_sq_fetch; m_notice the QP has reached ERR; m_fence, that of a flush (id 1) before
//       that of a drain (id 0); m_flush_passed, m_drain_passed; m_drain
// Time  combinational
`default_nettype none
`include "efa_defs.vh"

module efa_sq_req_arb #(
    parameter QPN_W = 6
) (
    input wire s_qpchg_valid,
    output wire s_qpchg_ready,
    input wire [QPN_W-1:0] s_qpchg_qpn,
    input wire [2:0] s_qpchg_state,
    input wire s_round_valid,
    output wire s_round_ready,
    input wire [QPN_W-1:0] s_round_qpn,
    output wire m_again_valid,
    input wire m_again_ready,
    output wire [QPN_W-1:0] m_again_qpn,
    output wire m_fetch_valid,
    input wire m_fetch_ready,
    output wire m_notice_valid,
    input wire s_drain_valid,
    input wire s_drain_clear,
    output wire m_drain_valid,
    input wire s_flush_fence_valid,
    output wire s_flush_fence_ready,
    input wire s_drain_fence_valid,
    output wire s_drain_fence_ready,
    output wire m_fence_valid,
    input wire m_fence_ready,
    output wire m_fence_id,
    input wire s_passed_valid,
    input wire s_passed_id,
    output wire m_flush_passed,
    output wire m_drain_passed
);

  // A QP that one of the two receivers accepts early is offered to that receiver again; a second
  // visit of a queue without work has no effect.
  assign s_qpchg_ready = m_again_ready && m_fetch_ready;
  assign m_fetch_valid = s_qpchg_valid;
  assign m_notice_valid = s_qpchg_valid && s_qpchg_ready
      && s_qpchg_state == `EFA_ADMIN_QP_STATE__ERR_W3;

  assign m_again_valid = s_qpchg_valid || s_round_valid;
  assign m_again_qpn = s_qpchg_valid ? s_qpchg_qpn : s_round_qpn;
  assign s_round_ready = m_again_ready && !s_qpchg_valid;

  assign m_drain_valid = s_drain_valid && s_drain_clear;

  assign m_fence_valid = s_flush_fence_valid || s_drain_fence_valid;
  assign m_fence_id = s_flush_fence_valid;
  assign s_flush_fence_ready = m_fence_ready;
  assign s_drain_fence_ready = m_fence_ready && !s_flush_fence_valid;
  assign m_flush_passed = s_passed_valid && s_passed_id;
  assign m_drain_passed = s_passed_valid && !s_passed_id;

endmodule

`default_nettype wire
