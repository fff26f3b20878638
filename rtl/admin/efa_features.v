// SPDX-License-Identifier: Apache-2.0
// efa_features - forms the GET_FEATURE response from the sizes of the build and the profile.
//
// In    s_feature: feature id; s_groups: enabled event groups; configuration
// Out   m_known: the feature exists; m_body: the response behind its header, 0 without a feature
// Time  same cycle
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"

module efa_features #(
    parameter QPN_W = 6,
    parameter CQN_W = 7,
    parameter MTT_W = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire [15:0] s_cfg_node_id,
    input wire [7:0] s_feature,
    input wire [31:0] s_groups,
    output wire m_known,
    output wire [`EFA_ADMIN_BODY_W-1:0] m_body
);

  localparam [15:0] DB_BAR = `EFA_LIMITS__DB_BAR;
  localparam [31:0] SQ_DEPTH = `EFA_LIMITS__MAX_SQ_DEPTH;
  localparam [31:0] RQ_DEPTH = `EFA_LIMITS__MAX_RQ_DEPTH;
  localparam [31:0] CQ_DEPTH = `EFA_LIMITS__MAX_CQ_DEPTH;
  localparam [31:0] EQ_DEPTH = `EFA_LIMITS__MAX_EQ_DEPTH;
  localparam [31:0] WQE_BYTES = `EFA_IO_TX_WQE__BYTES;

  localparam [31:0] COUNTER_EVENTS = `EFA_LIMITS__EVENT_COUNTER_EVENTS;
  // Position of the capability bit in the attribute.
  localparam CAP_COUNTERS =
  `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__EVENT_COUNTERS
  - `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__RDMA_READ;

  `include "efa_admin_fn.vh"

  // The last two bytes of the GID are the node number, its last eight bytes the GUID of the node.
  wire [127:0] gid = {s_cfg_node_id[7:0], s_cfg_node_id[15:8], `EFA_LIMITS__GID_PREFIX};
  // A region of the largest size may begin inside a page and then touches one page more.
  wire [31:0] mr_pages = (32'd1 << pool_log(s_cfg_profile, MTT_W[4:0])) - 32'd1;
  wire [31:0] counters = `EFA_PROFILE__DEVICE_CAPS(32, s_cfg_profile);
  reg known;
  reg [511:0] entry;

  assign m_known = known;
  assign m_body  = entry[511:64];

  always @* begin
    known = 1'b1;
    entry = 512'd0;
    case (s_feature)
      `EFA_ADMIN_AQ_FEATURE_ID__DEVICE_ATTR: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__SUPPORTED_FEATURES] =
            `EFA_PROFILE__SUPPORTED_FEATURES(64, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__PAGE_SIZE_CAP] =
            `EFA_PROFILE__PAGE_SIZE_CAP(64, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__FW_VERSION] =
            `EFA_PROFILE__FW_VERSION(32, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__ADMIN_API_VERSION] =
            `EFA_PROFILE__ADMIN_API_VERSION(32, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__DEVICE_VERSION] =
            `EFA_PROFILE__DEVICE_VERSION(32, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__DB_BAR] = DB_BAR;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__PHYS_ADDR_WIDTH] =
            `EFA_PROFILE__PHYS_ADDR_WIDTH(8, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__VIRT_ADDR_WIDTH] =
            `EFA_PROFILE__VIRT_ADDR_WIDTH(8, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__DEVICE_CAPS] =
            `EFA_PROFILE__DEVICE_CAPS(32, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__MAX_RDMA_SIZE] =
            `EFA_PROFILE__MAX_RDMA_SIZE(32, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__GUID] =
            gid[127:64];
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__DEVICE_ATTR__MAX_LINK_SPEED_GBPS] =
            `EFA_PROFILE__MAX_LINK_SPEED_GBPS(16, s_cfg_profile);
      end
      `EFA_ADMIN_AQ_FEATURE_ID__AENQ_CONFIG: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__AENQ__SUPPORTED_GROUPS] =
            `EFA_PROFILE__AENQ_SUPPORTED_GROUPS(32, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__AENQ__ENABLED_GROUPS]   = s_groups;
      end
      `EFA_ADMIN_AQ_FEATURE_ID__NETWORK_ATTR: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__NETWORK_ATTR__ADDR] = gid;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__NETWORK_ATTR__MTU] =
            `EFA_PROFILE__MTU(32, s_cfg_profile);
      end
      `EFA_ADMIN_AQ_FEATURE_ID__QUEUE_ATTR_1: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_QP] = 32'd1 << QPN_W;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_SQ_DEPTH] = SQ_DEPTH;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__INLINE_BUF_SIZE] =
            `EFA_PROFILE__INLINE_BUF_SIZE(32, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_RQ_DEPTH] = RQ_DEPTH;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_CQ] = 32'd1 << CQN_W;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_CQ_DEPTH] = CQ_DEPTH;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__SUB_CQS_PER_CQ] =
            `EFA_PROFILE__SUB_CQS_PER_CQ(16, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MIN_SQ_DEPTH] =
            `EFA_PROFILE__MIN_SQ_DEPTH(16, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_WR_SEND_SGES] =
            `EFA_PROFILE__MAX_WR_SEND_SGES(16, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_WR_RECV_SGES] =
            `EFA_PROFILE__MAX_WR_RECV_SGES(16, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_MR] = 32'd1 << `EFA_LIMITS__MR_W;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_MR_PAGES] = mr_pages;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_PD] = 32'd1 << `EFA_LIMITS__PD_W;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_AH] = 32'd1 << `EFA_LIMITS__AH_W;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_LLQ_SIZE] = SQ_DEPTH * WQE_BYTES;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_WR_RDMA_SGES] =
            `EFA_PROFILE__MAX_WR_RDMA_SGES(16, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_1__MAX_TX_BATCH] =
            `EFA_PROFILE__MAX_TX_BATCH(16, s_cfg_profile);
      end
      // Zeros select the defaults of the driver.
      `EFA_ADMIN_AQ_FEATURE_ID__HW_HINTS: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__HW_HINTS__MMIO_READ_TIMEOUT] =
            `EFA_PROFILE__MMIO_READ_TIMEOUT(
            16, s_cfg_profile);
      end
      `EFA_ADMIN_AQ_FEATURE_ID__EVENT_QUEUE_ATTR: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__EVENT_QUEUE_ATTR__MAX_EQ] =
            `EFA_PROFILE__MAX_EQ(32, s_cfg_profile);
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__EVENT_QUEUE_ATTR__MAX_EQ_DEPTH] = EQ_DEPTH;
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__EVENT_QUEUE_ATTR__EVENT_BITMASK] =
            `EFA_PROFILE__EVENT_BITMASK(32, s_cfg_profile);
      end
      `EFA_ADMIN_AQ_FEATURE_ID__QUEUE_ATTR_2: begin
        entry[`EFA_ADMIN_GET_FEATURE_RESP__U__QUEUE_ATTR_2__INLINE_BUF_SIZE_EX] =
            `EFA_PROFILE__INLINE_BUF_SIZE_EX(
            16, s_cfg_profile);
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
