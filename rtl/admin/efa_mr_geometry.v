// SPDX-License-Identifier: Apache-2.0
// efa_mr_geometry - computes the page count of a region and validates its REG_MR command.
//
// In    s_cmd: a REG_MR command, held
// Out   m_illegal, m_pages, m_mask (offset bits inside a page): of the command three cycles before
// Time  3 cycles, with the command held; a command every 3
`default_nettype none
`include "efa_defs.vh"

module efa_mr_geometry (
    input wire clk,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire [511:0] s_cmd,
    output wire m_illegal,
    output wire [66:0] m_pages,
    output wire [63:0] m_mask
);

  `include "efa_admin_fn.vh"

  wire remote_reads = capable(s_cfg_profile, `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__RDMA_READ);
  wire remote_writes = capable(s_cfg_profile, `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__RDMA_WRITE);
  wire [63:0] page_caps = `EFA_PROFILE__PAGE_SIZE_CAP(64, s_cfg_profile);
  wire [63:0] iova = s_cmd[`EFA_ADMIN_REG_MR_CMD__IOVA];
  wire [63:0] length = s_cmd[`EFA_ADMIN_REG_MR_CMD__MR_LENGTH];
  wire [5:0] shift = s_cmd[`EFA_ADMIN_REG_MR_CMD__PHYS_PAGE_SIZE_SHIFT];
  wire physical = s_cmd[`EFA_ADMIN_REG_MR_CMD__MEM_ADDR_PHY_MODE_EN];
  wire listed = s_cmd[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__CTRL_DATA];
  wire indirect = s_cmd[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__CTRL_DATA_INDIRECT];
  wire [31:0] list_bytes = s_cmd[`EFA_ADMIN_REG_MR_CMD__PBL__PBL__LENGTH];
  wire [63:0] list_addr = s_cmd[`EFA_ADMIN_REG_MR_CMD__PBL__PBL__ADDRESS];

  reg [63:0] mask_q;
  reg [64:0] end_q;
  reg [65:0] span_q;
  reg [66:0] pages_q;
  reg invalid1_q;
  reg invalid2_q;
  reg illegal_q;
  wire [63:0] offset = iova & mask_q;
  wire [66:0] pages = {1'b0, span_q} >> shift;

  assign m_illegal = illegal_q;
  assign m_pages = pages_q;
  assign m_mask = mask_q;

  always @(posedge clk) begin
    mask_q <= (64'd1 << shift) - 64'd1;
    end_q <= {1'b0, iova} + {1'b0, length};
    invalid1_q <= length == 64'd0
        || !physical && !page_caps[shift]
        || s_cmd[`EFA_ADMIN_REG_MR_CMD__REMOTE_READ_ENABLE] && !remote_reads
        || s_cmd[`EFA_ADMIN_REG_MR_CMD__REMOTE_WRITE_ENABLE] && !remote_writes
        || !physical && listed && list_addr[2:0] != 3'd0;
    // Rounded up to whole pages.
    span_q <= {2'd0, offset} + {2'd0, length} + {2'd0, mask_q};
    invalid2_q <= invalid1_q || end_q[64] && end_q[63:0] != 64'd0;
    pages_q <= pages;
    illegal_q <= invalid2_q || !physical
        && (listed ? !indirect && {pages, 3'd0} > {38'd0, list_bytes} : pages > 67'd4);
  end

  wire unused_cmd = &{1'b0, s_cmd, list_addr};

endmodule

`default_nettype wire
