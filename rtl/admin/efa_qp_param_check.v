// SPDX-License-Identifier: Apache-2.0
// efa_qp_param_check - validates sizes, flags, state transitions and attributes of QP commands.
//
// In    s_cmd: a CREATE_QP or MODIFY_QP command; s_state, s_srd: current state and type of the QP
// Out   m_create_illegal, m_modify_illegal; of a valid creation m_wqe128, m_sq_log, m_rq_log and
//       m_pages_log of the ring in LLQ memory; with SQ_HOST the send queue lies in host memory
//       and the command must have its address
// Time  same cycle
`default_nettype none
`include "efa_defs.vh"

module efa_qp_param_check #(
    parameter SQ_HOST = 0
) (
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire [511:0] s_cmd,
    input wire [2:0] s_state,
    input wire s_srd,
    output wire m_create_illegal,
    output wire m_wqe128,
    output wire [3:0] m_sq_log,
    output wire [3:0] m_rq_log,
    output wire [3:0] m_pages_log,
    output wire m_modify_illegal
);

  localparam [15:0] MAX_SQ_DEPTH = `EFA_LIMITS__MAX_SQ_DEPTH;
  localparam [15:0] MAX_RQ_DEPTH = `EFA_LIMITS__MAX_RQ_DEPTH;
  localparam WQE_LOG = $clog2(`EFA_IO_TX_WQE__BYTES);
  localparam DESC_LOG = $clog2(`EFA_IO_RX_DESC__BYTES);
  localparam [31:0] FIRST_LOG = WQE_LOG;
  localparam [31:0] PAGE_LOG = $clog2(`EFA_LIMITS__LLQ_PAGE_BYTES);

  `include "efa_admin_fn.vh"

  wire unsolicited = capable(
      s_cfg_profile, `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__UNSOLICITED_WRITE_RECV
  );
  wire long_ids = capable(s_cfg_profile, `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__SQ_64_BIT_REQ_ID);

  // Creation.
  wire [7:0] qp_type = s_cmd[`EFA_ADMIN_CREATE_QP_CMD__QP_TYPE];
  wire [31:0] sq_depth = s_cmd[`EFA_ADMIN_CREATE_QP_CMD__QP_ALLOC_SIZE__SEND_QUEUE_DEPTH];
  wire [31:0] sq_bytes = s_cmd[`EFA_ADMIN_CREATE_QP_CMD__QP_ALLOC_SIZE__SEND_QUEUE_RING_SIZE];
  wire [31:0] rq_bytes = s_cmd[`EFA_ADMIN_CREATE_QP_CMD__QP_ALLOC_SIZE__RECV_QUEUE_RING_SIZE];
  wire [63:0] rq_base = s_cmd[`EFA_ADMIN_CREATE_QP_CMD__RQ_BASE_ADDR];
  wire [31:0] rq_depth = rq_bytes >> DESC_LOG;
  wire sq_depth_ok = sq_depth[31:16] == 16'd0 && depth_ok(sq_depth[15:0], MAX_SQ_DEPTH);
  wire [63:0] sq_base = s_cmd[`EFA_ADMIN_CREATE_QP_CMD__SQ_BASE_ADDR];
  wire sq_placed = SQ_HOST == 0 || (sq_base[5:0] == 6'd0 && sq_base[63:6] != 58'd0);
  wire by64 = sq_bytes == sq_depth << WQE_LOG;
  wire by128 = sq_bytes == sq_depth << (WQE_LOG + 1);
  wire rq_depth_ok = rq_bytes[DESC_LOG-1:0] == 0 && rq_depth[31:16] == 16'd0 && depth_ok(
      rq_depth[15:0], MAX_RQ_DEPTH
  ) && rq_base[5:0] == 6'd0;
  wire [4:0] ring_log = {1'b0, m_sq_log} + FIRST_LOG[4:0] + {4'd0, by128};
  wire [4:0] pages_log = ring_log - PAGE_LOG[4:0];

  assign m_wqe128 = by128;
  assign m_sq_log = log2(sq_depth[15:0]);
  assign m_rq_log = log2(rq_depth[15:0]);
  assign m_pages_log = ring_log > PAGE_LOG[4:0] ? pages_log[3:0] : 4'd0;
  wire rnr_capable = capable(s_cfg_profile, `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__RNR_RETRY);
  assign m_create_illegal = qp_type != `EFA_ADMIN_QP_TYPE__UD && qp_type !=
      `EFA_ADMIN_QP_TYPE__SRD
      || !sq_depth_ok || !sq_placed || !by64 && !by128 || rq_bytes != 32'd0 && !rq_depth_ok ||
          s_cmd[`EFA_ADMIN_CREATE_QP_CMD__UNSOLICITED_WRITE_RECV] && !unsolicited ||
          s_cmd[`EFA_ADMIN_CREATE_QP_CMD__SQ_64_BIT_REQ_ID] && !long_ids;

  // Modification.
  wire [31:0] to = s_cmd[`EFA_ADMIN_MODIFY_QP_CMD__QP_STATE];
  wire [31:0] from = s_cmd[`EFA_ADMIN_MODIFY_QP_CMD__CUR_QP_STATE];
  wire with_qkey = s_cmd[`EFA_ADMIN_MODIFY_QP_CMD__MODIFY_MASK__QKEY];
  wire with_psn = s_cmd[`EFA_ADMIN_MODIFY_QP_CMD__MODIFY_MASK__SQ_PSN];
  reg reachable;
  always @* begin
    case (to)
      `EFA_ADMIN_QP_STATE__RESET: reachable = 1'b1;
      `EFA_ADMIN_QP_STATE__INIT: begin
        reachable = s_state == `EFA_ADMIN_QP_STATE__RESET_W3 && with_qkey
            || s_state == `EFA_ADMIN_QP_STATE__INIT_W3;
      end
      `EFA_ADMIN_QP_STATE__RTR: reachable = s_state == `EFA_ADMIN_QP_STATE__INIT_W3;
      `EFA_ADMIN_QP_STATE__RTS: begin
        reachable = s_state == `EFA_ADMIN_QP_STATE__RTR_W3 && with_psn
            || s_state == `EFA_ADMIN_QP_STATE__RTS_W3 || s_state ==
        `EFA_ADMIN_QP_STATE__SQD_W3
        || s_state == `EFA_ADMIN_QP_STATE__SQE_W3;
      end
      `EFA_ADMIN_QP_STATE__SQD: begin
        reachable = s_state ==
        `EFA_ADMIN_QP_STATE__RTS_W3
        || s_state == `EFA_ADMIN_QP_STATE__SQD_W3;
      end
      `EFA_ADMIN_QP_STATE__ERR: reachable = s_state != `EFA_ADMIN_QP_STATE__RESET_W3;
      default: reachable = 1'b0;
    endcase
  end
  wire rnr_illegal = s_cmd[`EFA_ADMIN_MODIFY_QP_CMD__RNR_RETRY] > 8'd7 || !s_srd || !rnr_capable;
  // A driver uses RESET and ERR to recover. A QP that entered the error state by itself is not in
  // the state that its driver expects, so the expected state is not compared.
  wire from_anywhere = s_cmd[`EFA_ADMIN_MODIFY_QP_CMD__MODIFY_MASK__QP_STATE] &&
      (to == `EFA_ADMIN_QP_STATE__RESET || to == `EFA_ADMIN_QP_STATE__ERR);
  wire from_elsewhere = s_cmd[`EFA_ADMIN_MODIFY_QP_CMD__MODIFY_MASK__CUR_QP_STATE] &&
      from != {29'd0, s_state};
  assign m_modify_illegal = from_elsewhere && !from_anywhere
      || s_cmd[`EFA_ADMIN_MODIFY_QP_CMD__MODIFY_MASK__QP_STATE] && !reachable
      || s_cmd[`EFA_ADMIN_MODIFY_QP_CMD__MODIFY_MASK__RNR_RETRY] && rnr_illegal;

  wire unused_bits = &{1'b0, s_cmd, sq_base, rq_base, pages_log[4]};

endmodule

`default_nettype wire
