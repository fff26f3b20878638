// SPDX-License-Identifier: Apache-2.0
// efa_mr_check - validates an access by key, protection domain, permission and range.
//
// In    s access to validate, of kind efa_mr_access; s_mr_* regions as they are created and destroyed (held here in a
//       copy)
// Out   m check result, and the location of the bytes
// Time  latency 3 cycles, with EARLY 2 (the result is then combinational from the last stage); one
//       access per cycle; all stages stall while m_ready is low
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_mr_check #(
    parameter USER_W = 1,
    parameter EARLY  = 0
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire s_mr_valid,
    input wire [`EFA_LIMITS__MR_W-1:0] s_mr_index,
    input wire [`EFA_MRC__W-1:0] s_mr_data,
    input wire s_valid,
    output wire s_ready,
    input wire [23:0] s_key,
    input wire [9:0] s_pd,
    input wire [63:0] s_addr,
    input wire [31:0] s_len,
    input wire [1:0] s_access,
    input wire [USER_W-1:0] s_user,
    output wire m_valid,
    input wire m_ready,
    output wire m_ok,
    output wire [`EFA_MR_LOC__W-1:0] m_loc,
    output wire [31:0] m_len,
    output wire [USER_W-1:0] m_user
);

  localparam MR_W = `EFA_LIMITS__MR_W;
  localparam [MR_W:0] ONE = 1;

  // Init sweep after a reset: it marks every region as not live.
  reg [MR_W:0] init_q;

  // s1: region being read
  reg s1_valid_q;
  reg [23:0] s1_key_q;
  reg [9:0] s1_pd_q;
  reg [63:0] s1_addr_q;
  reg [31:0] s1_len_q;
  reg [1:0] s1_access_q;
  reg [USER_W-1:0] s1_user_q;

  // s2: differences
  reg s2_valid_q;
  reg s2_allowed_q;
  reg s2_none_q;
  reg s2_long_q;  // more bytes than the region has
  reg [63:0] s2_distance_q;
  reg [63:0] s2_space_q;
  reg [63:0] s2_offset_q;
  reg s2_phys_q;
  reg [5:0] s2_shift_q;
  reg [`EFA_LIMITS__MTT_W-1:0] s2_mtt_q;
  reg [63:0] s2_addr_q;
  reg [31:0] s2_len_q;
  reg [USER_W-1:0] s2_user_q;

  wire initializing = !init_q[MR_W];
  wire move = !m_valid || m_ready;

  // The table has the begin of the first page beside the region, so that no mask precedes the
  // subtraction.
  wire [63:0] new_iova = s_mr_data[`EFA_MRC__IOVA];
  wire [63:0] new_page = new_iova & ({64{1'b1}} << s_mr_data[`EFA_MRC__SHIFT]);
  wire [`EFA_MRC__W-1:0] region;
  wire [63:0] first_page;
  wire [63:0] iova = region[`EFA_MRC__IOVA];
  wire [63:0] distance = s1_addr_q - iova;
  wire [64:0] length_left = {1'b0, region[`EFA_MRC__LENGTH]} - {33'd0, s1_len_q};
  wire [63:0] offset = s1_addr_q - first_page;
  reg permitted;
  always @* begin
    case (s1_access_q)
      `EFA_MR_ACCESS__READ_W2: permitted = 1'b1;
      `EFA_MR_ACCESS__LOCAL_WRITE_W2: permitted = region[`EFA_MRC__LOCAL_WRITE];
      `EFA_MR_ACCESS__REMOTE_READ_W2: permitted = region[`EFA_MRC__REMOTE_READ];
      default: permitted = region[`EFA_MRC__REMOTE_WRITE];
    endcase
  end
  wire allowed = region[`EFA_MRC__LIVE] && s1_key_q == {4'd0, region[`EFA_MRC__KEY]}
      && region[`EFA_MRC__PD] == s1_pd_q && permitted;
  // A region ends at 2^64 at most. An address before its region therefore has a distance, modulo
  // 2^64, that exceeds the remaining length of the region.
  wire s2_ok = s2_none_q || (s2_allowed_q && !s2_long_q && s2_distance_q <= s2_space_q);

  assign m_init_done = !initializing;
  assign s_ready = move;

  localparam LOC_W = `EFA_MR_LOC__W;
  localparam STATUS_W = 1 + LOC_W + 32 + USER_W;
  reg [LOC_W-1:0] s2_loc;
  always @* begin
    s2_loc[`EFA_MR_LOC__PHYS]  = s2_phys_q;
    s2_loc[`EFA_MR_LOC__SHIFT] = s2_shift_q;
    s2_loc[`EFA_MR_LOC__MTT]   = s2_mtt_q;
    s2_loc[`EFA_MR_LOC__START] = s2_phys_q ? s2_addr_q : s2_offset_q;
  end
  wire [STATUS_W-1:0] s2_status = {s2_ok, s2_loc, s2_len_q, s2_user_q};
  wire [STATUS_W-1:0] status;
  assign {m_ok, m_loc, m_len, m_user} = status;

  generate
    if (EARLY != 0) begin : g_early
      assign m_valid = s2_valid_q;
      assign status = s2_status;
    end else begin : g_status
      // s3: check result
      reg s3_valid_q;
      reg [STATUS_W-1:0] s3_status_q;
      assign m_valid = s3_valid_q;
      assign status = s3_status_q;
      always @(posedge clk) begin
        if (rst) s3_valid_q <= 1'b0;
        else if (move) s3_valid_q <= s2_valid_q;
        if (move) s3_status_q <= s2_status;
      end
    end
  endgenerate

  efa_ram #(
      .WIDTH (64 + `EFA_MRC__W),
      .ADDR_W(MR_W)
  ) u_table (
      .clk(clk),
      .wr_en(initializing || s_mr_valid),
      .wr_addr(initializing ? init_q[MR_W-1:0] : s_mr_index),
      .wr_data(initializing ? {64 + `EFA_MRC__W{1'b0}} : {new_page, s_mr_data}),
      .rd_en(move),
      .rd_addr(s_key[MR_W-1:0]),
      .rd_data({first_page, region})
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {MR_W + 1{1'b0}};
      s1_valid_q <= 1'b0;
      s2_valid_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE;
      if (move) begin
        s1_valid_q <= s_valid;
        s2_valid_q <= s1_valid_q;
      end
    end
  end

  always @(posedge clk) begin
    if (move) begin
      s1_key_q <= s_key;
      s1_pd_q <= s_pd;
      s1_addr_q <= s_addr;
      s1_len_q <= s_len;
      s1_access_q <= s_access;
      s1_user_q <= s_user;

      s2_allowed_q <= allowed;
      s2_none_q <= s1_len_q == 32'd0;
      s2_long_q <= length_left[64];
      s2_distance_q <= distance;
      s2_space_q <= length_left[63:0];
      s2_offset_q <= offset;
      s2_phys_q <= region[`EFA_MRC__PHYS];
      s2_shift_q <= region[`EFA_MRC__SHIFT];
      s2_mtt_q <= region[`EFA_MRC__MTT];
      s2_addr_q <= s1_addr_q;
      s2_len_q <= s1_len_q;
      s2_user_q <= s1_user_q;
    end
  end

  wire [63:0] mr_length = s_mr_data[`EFA_MRC__LENGTH];
  wire ends = mr_length == 64'd0 || new_iova <= -mr_length;

  `EFA_CHECK(!initializing || !s_valid, "request before the table is initialized")
  `EFA_CHECK(!s_mr_valid || !s_mr_data[`EFA_MRC__LIVE] || ends, "region ends beyond 2^64")

endmodule

`default_nettype wire
