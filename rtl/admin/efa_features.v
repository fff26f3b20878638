// SPDX-License-Identifier: Apache-2.0
// efa_features - forms the GET_FEATURE response from the sizes of the build and the profile.
//
// In    s_feature: feature id; s_groups: enabled event groups; configuration
// Out   m_known: the feature exists; m_body: the response behind its header
// Time  same cycle
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"

module efa_features #(
    parameter QPN_W = 6,
    parameter CQN_W = 7
) (
    input wire s_cfg_profile,
    input wire [15:0] s_cfg_node_id,
    input wire [7:0] s_feature,
    input wire [31:0] s_groups,
    output wire m_known,
    output wire [`EFA_ADMIN_BODY_W-1:0] m_body
);

  localparam [31:0] SUPPORTED_D = `EFA_PROFILE_DEFAULT__SUPPORTED_FEATURES;
  localparam [31:0] SUPPORTED_R = `EFA_PROFILE_RECORDED__SUPPORTED_FEATURES;
  localparam [31:0] FW_D = `EFA_PROFILE_DEFAULT__FW_VERSION;
  localparam [31:0] FW_R = `EFA_PROFILE_RECORDED__FW_VERSION;
  localparam [31:0] API_D = `EFA_PROFILE_DEFAULT__ADMIN_API_VERSION;
  localparam [31:0] API_R = `EFA_PROFILE_RECORDED__ADMIN_API_VERSION;
  localparam [31:0] DEVICE_D = `EFA_PROFILE_DEFAULT__DEVICE_VERSION;
  localparam [31:0] DEVICE_R = `EFA_PROFILE_RECORDED__DEVICE_VERSION;
  localparam [15:0] DB_BAR = `EFA_LIMITS__DB_BAR;
  localparam [7:0] PHYS_D = `EFA_PROFILE_DEFAULT__PHYS_ADDR_WIDTH;
  localparam [7:0] PHYS_R = `EFA_PROFILE_RECORDED__PHYS_ADDR_WIDTH;
  localparam [7:0] VIRT_D = `EFA_PROFILE_DEFAULT__VIRT_ADDR_WIDTH;
  localparam [7:0] VIRT_R = `EFA_PROFILE_RECORDED__VIRT_ADDR_WIDTH;
  localparam [31:0] CAPS_D = `EFA_PROFILE_DEFAULT__DEVICE_CAPS;
  localparam [31:0] CAPS_R = `EFA_PROFILE_RECORDED__DEVICE_CAPS;
  localparam [31:0] RDMA_D = `EFA_PROFILE_DEFAULT__MAX_RDMA_SIZE;
  localparam [31:0] RDMA_R = `EFA_PROFILE_RECORDED__MAX_RDMA_SIZE;
  localparam [63:0] GUID_D = `EFA_PROFILE_DEFAULT__GUID;
  localparam [63:0] GUID_R = `EFA_PROFILE_RECORDED__GUID;
  localparam [15:0] SPEED_D = `EFA_PROFILE_DEFAULT__MAX_LINK_SPEED_GBPS;
  localparam [15:0] SPEED_R = `EFA_PROFILE_RECORDED__MAX_LINK_SPEED_GBPS;
  localparam [31:0] INLINE_D = `EFA_PROFILE_DEFAULT__INLINE_BUF_SIZE;
  localparam [31:0] INLINE_R = `EFA_PROFILE_RECORDED__INLINE_BUF_SIZE;
  localparam [15:0] INLINE_EX_D = `EFA_PROFILE_DEFAULT__INLINE_BUF_SIZE_EX;
  localparam [15:0] INLINE_EX_R = `EFA_PROFILE_RECORDED__INLINE_BUF_SIZE_EX;
  localparam [15:0] SUBS_D = `EFA_PROFILE_DEFAULT__SUB_CQS_PER_CQ;
  localparam [15:0] SUBS_R = `EFA_PROFILE_RECORDED__SUB_CQS_PER_CQ;
  localparam [15:0] MIN_SQ_D = `EFA_PROFILE_DEFAULT__MIN_SQ_DEPTH;
  localparam [15:0] MIN_SQ_R = `EFA_PROFILE_RECORDED__MIN_SQ_DEPTH;
  localparam [15:0] SEND_SGES_D = `EFA_PROFILE_DEFAULT__MAX_WR_SEND_SGES;
  localparam [15:0] SEND_SGES_R = `EFA_PROFILE_RECORDED__MAX_WR_SEND_SGES;
  localparam [15:0] RECV_SGES_D = `EFA_PROFILE_DEFAULT__MAX_WR_RECV_SGES;
  localparam [15:0] RECV_SGES_R = `EFA_PROFILE_RECORDED__MAX_WR_RECV_SGES;
  localparam [15:0] RDMA_SGES_D = `EFA_PROFILE_DEFAULT__MAX_WR_RDMA_SGES;
  localparam [15:0] RDMA_SGES_R = `EFA_PROFILE_RECORDED__MAX_WR_RDMA_SGES;
  localparam [15:0] BATCH_D = `EFA_PROFILE_DEFAULT__MAX_TX_BATCH;
  localparam [15:0] BATCH_R = `EFA_PROFILE_RECORDED__MAX_TX_BATCH;
  localparam [31:0] MTU_D = `EFA_PROFILE_DEFAULT__MTU;
  localparam [31:0] MTU_R = `EFA_PROFILE_RECORDED__MTU;
  localparam [31:0] MAX_EQ_D = `EFA_PROFILE_DEFAULT__MAX_EQ;
  localparam [31:0] MAX_EQ_R = `EFA_PROFILE_RECORDED__MAX_EQ;
  localparam [31:0] EVENTS_D = `EFA_PROFILE_DEFAULT__EVENT_BITMASK;
  localparam [31:0] EVENTS_R = `EFA_PROFILE_RECORDED__EVENT_BITMASK;
  localparam [31:0] GROUPS_D = `EFA_PROFILE_DEFAULT__AENQ_SUPPORTED_GROUPS;
  localparam [31:0] GROUPS_R = `EFA_PROFILE_RECORDED__AENQ_SUPPORTED_GROUPS;
  localparam [31:0] SQ_DEPTH = `EFA_LIMITS__MAX_SQ_DEPTH;
  localparam [31:0] RQ_DEPTH = `EFA_LIMITS__MAX_RQ_DEPTH;
  localparam [31:0] CQ_DEPTH = `EFA_LIMITS__MAX_CQ_DEPTH;
  localparam [31:0] EQ_DEPTH = `EFA_LIMITS__MAX_EQ_DEPTH;
  localparam [31:0] MR_PAGES = `EFA_LIMITS__MAX_MR_PAGES;
  localparam [31:0] WQE_BYTES = `EFA_IO_TX_WQE__BYTES;

  localparam [63:0] PAGE_SIZES_D = `EFA_PROFILE_DEFAULT__PAGE_SIZE_CAP;
  localparam [31:0] PAGE_SIZES_R = `EFA_PROFILE_RECORDED__PAGE_SIZE_CAP;
  localparam [31:0] COUNTER_EVENTS = `EFA_LIMITS__EVENT_COUNTER_EVENTS;
  // Position of the capability bit in the attribute.
  localparam CAP_COUNTERS =
  `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__EVENT_COUNTERS
  - `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__RDMA_READ;

  wire r = s_cfg_profile;
  wire [31:0] counters = r ? CAPS_R : CAPS_D;
  reg known;
  reg [511:0] entry;

  assign m_known = known;
  assign m_body  = entry[511:64];

  always @* begin
    known = 1'b1;
    entry = 512'd0;
    case (s_feature)
      `EFA_ADMIN_AQ_FEATURE_ID__DEVICE_ATTR: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__SUPPORTED_FEATURES] = {
          32'd0, r ? SUPPORTED_R : SUPPORTED_D
        };
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__PAGE_SIZE_CAP] =
            r ? {32'd0, PAGE_SIZES_R} : PAGE_SIZES_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__FW_VERSION] = r ? FW_R : FW_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__ADMIN_API_VERSION] = r ? API_R : API_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__DEVICE_VERSION] =
            r ? DEVICE_R : DEVICE_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__DB_BAR] = DB_BAR;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__PHYS_ADDR_WIDTH] = r ? PHYS_R : PHYS_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__VIRT_ADDR_WIDTH] = r ? VIRT_R : VIRT_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__DEVICE_CAPS] = r ? CAPS_R : CAPS_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__MAX_RDMA_SIZE] = r ? RDMA_R : RDMA_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__GUID] = r ? GUID_R : GUID_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__MAX_LINK_SPEED_GBPS] =
            r ? SPEED_R : SPEED_D;
      end
      `EFA_ADMIN_AQ_FEATURE_ID__AENQ_CONFIG: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__AENQ__SUPPORTED_GROUPS] = r ? GROUPS_R : GROUPS_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__AENQ__ENABLED_GROUPS]   = s_groups;
      end
      `EFA_ADMIN_AQ_FEATURE_ID__NETWORK_ATTR: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__NETWORK_ATTR__ADDR] = {
          s_cfg_node_id[7:0], s_cfg_node_id[15:8], `EFA_LIMITS__GID_PREFIX
        };
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__NETWORK_ATTR__MTU] = r ? MTU_R : MTU_D;
      end
      `EFA_ADMIN_AQ_FEATURE_ID__QUEUE_ATTR_1: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_QP] = 32'd1 << QPN_W;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_SQ_DEPTH] = SQ_DEPTH;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__INLINE_BUF_SIZE] =
            r ? INLINE_R : INLINE_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_RQ_DEPTH] = RQ_DEPTH;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_CQ] = 32'd1 << CQN_W;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_CQ_DEPTH] = CQ_DEPTH;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__SUB_CQS_PER_CQ] = r ? SUBS_R : SUBS_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MIN_SQ_DEPTH] = r ? MIN_SQ_R : MIN_SQ_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_WR_SEND_SGES] =
            r ? SEND_SGES_R : SEND_SGES_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_WR_RECV_SGES] =
            r ? RECV_SGES_R : RECV_SGES_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_MR] = 32'd1 << `EFA_LIMITS__MR_W;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_MR_PAGES] = MR_PAGES;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_PD] = 32'd1 << `EFA_LIMITS__PD_W;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_AH] = 32'd1 << `EFA_LIMITS__AH_W;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_LLQ_SIZE] = SQ_DEPTH * WQE_BYTES;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_WR_RDMA_SGES] =
            r ? RDMA_SGES_R : RDMA_SGES_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_TX_BATCH] = r ? BATCH_R : BATCH_D;
      end
      // Zeros select the defaults of the driver.
      `EFA_ADMIN_AQ_FEATURE_ID__HW_HINTS: begin
      end
      `EFA_ADMIN_AQ_FEATURE_ID__EVENT_QUEUE_ATTR: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__EVENT_QUEUE_ATTR__MAX_EQ] = r ? MAX_EQ_R : MAX_EQ_D;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__EVENT_QUEUE_ATTR__MAX_EQ_DEPTH] = EQ_DEPTH;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__EVENT_QUEUE_ATTR__EVENT_BITMASK] =
            r ? EVENTS_R : EVENTS_D;
      end
      `EFA_ADMIN_AQ_FEATURE_ID__QUEUE_ATTR_2: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_2__INLINE_BUF_SIZE_EX] =
            r ? INLINE_EX_R : INLINE_EX_D;
        if (counters[CAP_COUNTERS]) begin
          entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_2__SUPPORTED_EVENT_COUNTER_QP_EVENTS] =
              COUNTER_EVENTS;
          entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_2__MAX_EVENT_COUNTERS] =
              32'd1 << `EFA_LIMITS__EC_W;
          entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_2__EVENT_COUNTER_MAX_VAL] =
              `EFA_LIMITS__EVENT_COUNTER_MAX_VAL;
        end
      end
      default: begin
        known = 1'b0;
      end
    endcase
  end

  wire unused_head = &{1'b0, entry[63:0], counters};

endmodule

`default_nettype wire
