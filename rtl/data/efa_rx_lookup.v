// SPDX-License-Identifier: Apache-2.0
// efa_rx_lookup - looks up peer, region and read of received packets for efa_rx_validate.
//
// In    s_pkt_data: the packet of stage 1, which stays until s_step; s_pkt_pd: PD of its QP; s_request,
//       s_response: it is a read request or response; s_check: it is a write or a read request whose peer
//       and region are looked up; s_find: it is a read response whose read and region are; s_step_send: a
//       packet of another kind leaves stage 1; s_node: source of the packet of stage 2; s_behind: stage 2
//       has a packet; s_ah_*, s_mr_*: address handles and regions as they are created and destroyed
// Out   m_hold: the look-up is not complete; m_peer: the PD has an address handle of the source;
//       m_region, m_loc: the region permits the operation, and its location; m_found, m_placed: the read
//       of a response, and how it ends; m_ah: address handle of s_node; m_look: the response that
//       efa_read_table finds, with s_found, s_found_read; m_request: accepted read requests
// Time  m_ah one cycle after s_step; m_hold falls 3 cycles after s_check if stage 2 is empty; after rst an
//       initialisation of one cycle per row of peers
//
// A look-up waits until stage 2 is empty, whose packet uses the same row of address handles. A region
// that goes later stays in place until the packet has left (drain of efa_rx_retire).
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rx_lookup #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire s_ah_valid,
    input wire [`EFA_LIMITS__AH_W-1:0] s_ah_index,
    input wire [`EFA_AHC__W-1:0] s_ah_data,
    input wire s_mr_valid,
    input wire [`EFA_LIMITS__MR_W-1:0] s_mr_index,
    input wire [`EFA_MRC__W-1:0] s_mr_data,
    input wire [`EFA_RX_PKT__W-1:0] s_pkt_data,
    input wire [9:0] s_pkt_pd,
    input wire s_request,
    input wire s_response,
    input wire s_check,
    input wire s_find,
    input wire s_behind,
    input wire s_step,
    input wire s_step_send,
    output wire m_hold,
    output wire m_peer,
    output wire m_region,
    output wire [`EFA_MR_LOC__W-1:0] m_loc,
    output wire m_found,
    output wire [`EFA_READ_PLACED__W-1:0] m_placed,
    input wire [15:0] s_node,
    output wire [15:0] m_ah,
    output wire m_look_valid,
    input wire m_look_ready,
    output wire [`EFA_READ_LOOK__W-1:0] m_look_data,
    input wire s_found,
    input wire [`EFA_READ_CTX__W-1:0] s_found_read,
    output wire m_request_valid,
    input wire m_request_ready,
    output wire [`EFA_READ_JOB__W-1:0] m_request_data
);

  localparam HDR_W = `EFA_PKT_HDR__BITS;
  localparam RDMA_W = `EFA_PKT_RDMA__BITS;
  localparam NODE_W = `EFA_LIMITS__NODE_W;
  localparam PD_W = `EFA_LIMITS__PD_W;
  localparam AH_W = `EFA_LIMITS__AH_W;
  localparam LANE_W = 4;  // log2 of the peers in a table row; one write clears a row
  localparam LANES = 1 << LANE_W;
  localparam PEER_W = AH_W + 1;
  localparam ROW_W = PD_W + NODE_W - LANE_W;
  localparam [LANES-1:0] ONE_LANE = 1;
  localparam [15:0] NO_AH = `EFA_LIMITS__RESERVED_AH;
  localparam [15:0] RDMA_BYTES = `EFA_PKT_RDMA__BYTES;
  localparam [31:0] REQUEST_MOST = 1 << `EFA_TRANSPORT__READ_REQUEST_LOG;  // bytes of a read request
  localparam [7:0] OK = `EFA_IO_COMP_STATUS__OK;

  wire [HDR_W-1:0] header = s_pkt_data[`EFA_RX_PKT__HEADER];
  wire [15:0] src_node = header[`EFA_PKT_HDR__SRC_NODE];

  // Address handle of the sender: one table entry for each PD and node.
  reg [ROW_W:0] init_q;
  wire initializing = !init_q[ROW_W];
  wire [9:0] ah_pd = s_ah_data[`EFA_AHC__PD];
  wire [15:0] ah_node = s_ah_data[`EFA_AHC__NODE];
  wire ah_near = s_ah_data[`EFA_AHC__FABRIC] && ah_node[15:NODE_W] == {(16 - NODE_W) {1'b0}};
  wire [LANES*PEER_W-1:0] row;
  wire [PEER_W-1:0] known = row[PEER_W*s_node[LANE_W-1:0]+:PEER_W];
  wire near = s_node[15:NODE_W] == {(16 - NODE_W) {1'b0}};
  wire asks;  // the look-up of a peer begins
  wire regions_init;
  assign m_init_done = !initializing && regions_init;
  assign m_ah = known[AH_W] && near ? {{(16 - AH_W) {1'b0}}, known[AH_W-1:0]} : NO_AH;
  efa_ram_be #(
      .WIDTH(LANES * PEER_W),
      .ADDR_W(ROW_W),
      .LANES(LANES)
  ) u_peers (
      .clk(clk),
      .wr_en(initializing || (s_ah_valid && ah_near)),
      .wr_lanes(initializing ? {LANES{1'b1}} : ONE_LANE << ah_node[LANE_W-1:0]),
      .wr_addr(initializing ? init_q[ROW_W-1:0] : {ah_pd[PD_W-1:0], ah_node[NODE_W-1:LANE_W]}),
      .wr_data(initializing ? {LANES * PEER_W{1'b0}} : {LANES{s_ah_data[`EFA_AHC__LIVE], s_ah_index}}),
      .rd_en(s_step_send || asks),
      .rd_addr({s_pkt_pd[PD_W-1:0], src_node[NODE_W-1:LANE_W]}),
      .rd_data(row)
  );

  always @(posedge clk) begin
    if (rst) init_q <= {(ROW_W + 1) {1'b0}};
    else if (initializing) init_q <= init_q + 1'b1;
  end

  wire [15:0] length = header[`EFA_PKT_HDR__LENGTH];
  wire [15:0] dst_qpn = header[`EFA_PKT_HDR__DST_QPN];
  wire [RDMA_W-1:0] rdma = s_pkt_data[`EFA_RX_PKT__RDMA];
  wire [31:0] rkey = rdma[`EFA_PKT_RDMA__RKEY];
  wire [31:0] total = rdma[`EFA_PKT_RDMA__TOTAL];
  wire [31:0] offset = rdma[`EFA_PKT_RDMA__OFFSET];
  wire [7:0] sent_status = rdma[`EFA_PKT_RDMA__STATUS];
  wire [15:0] payload = length - RDMA_BYTES;
  wire [31:0] requested = rdma[`EFA_PKT_RDMA__COUNT];
  wire [32:0] last = {1'b0, offset} + (s_request ? {1'b0, requested} : {17'd0, payload});
  wire wrong_request = requested > REQUEST_MOST || payload != 16'd0;
  wire beyond = last > {1'b0, total} || (s_request && wrong_request);
  // An operation without bytes needs no key.
  wire long_key = rkey[31:24] != 8'd0 && total != 32'd0;
  wire src_near = src_node[15:NODE_W] == {(16 - NODE_W) {1'b0}};
  wire [PEER_W-1:0] src_known = row[PEER_W*src_node[LANE_W-1:0]+:PEER_W];
  wire looked;
  wire ready;
  wire covered;
  wire wrong;
  wire [31:0] region_length;
  reg asked_q;
  reg peer_q;
  // A response: its read, then the region of that.
  reg looked_up_q;
  reg found_q;
  wire asks_region = s_find && looked_up_q && found_q && !asked_q;
  wire found_looked = looked_up_q && (!found_q || looked);
  wire [31:0] found_id = s_found_read[`EFA_READ_CTX__ID];
  // An accepted read request that is not empty leaves for its responses.
  reg request_q;
  reg [`EFA_READ_JOB__W-1:0] request_data_q;
  wire accepted = s_step && s_request && s_check && m_peer && m_region && requested != 32'd0;
  wire [1:0] access = s_response ? `EFA_MR_ACCESS__LOCAL_WRITE_W2
      : s_request ? `EFA_MR_ACCESS__REMOTE_READ_W2 : `EFA_MR_ACCESS__REMOTE_WRITE_W2;

  assign asks = s_check && !asked_q && !s_behind;
  assign m_hold = s_response ? s_find && !found_looked
      : ((s_check || asked_q) && !looked) || (s_request && request_q);
  assign m_look_valid = s_find && !looked_up_q && !s_behind;
  assign m_found = s_find && found_q;
  assign m_peer = peer_q;
  assign m_region = covered && !wrong;

  reg [`EFA_READ_LOOK__W-1:0] look;
  reg [`EFA_READ_PLACED__W-1:0] placed;
  reg [`EFA_READ_JOB__W-1:0] request;
  always @* begin
    look[`EFA_READ_LOOK__ID] = rdma[`EFA_PKT_RDMA__READ_ID];
    look[`EFA_READ_LOOK__NODE] = src_node;
    look[`EFA_READ_LOOK__QP_NUM] = dst_qpn;
    look[`EFA_READ_LOOK__OFFSET] = offset;
    look[`EFA_READ_LOOK__BYTES] = payload;
    placed[`EFA_READ_PLACED__ID] = found_id;
    placed[`EFA_READ_PLACED__SLOT] = offset[17:16];
    placed[`EFA_READ_PLACED__BYTES] = payload;
    placed[`EFA_READ_PLACED__STATUS] = sent_status != OK ? sent_status
        : m_region ? OK : `EFA_IO_COMP_STATUS__LOCAL_ERROR_INVALID_LKEY;
    request[`EFA_READ_JOB__NODE] = src_node;
    request[`EFA_READ_JOB__QPN] = {{(12 - QPN_W) {1'b0}}, dst_qpn[QPN_W-1:0]};
    request[`EFA_READ_JOB__QP_NUM] = dst_qpn;
    request[`EFA_READ_JOB__DST_QPN] = header[`EFA_PKT_HDR__SRC_QPN];
    request[`EFA_READ_JOB__PD] = s_pkt_pd;
    request[`EFA_READ_JOB__RKEY] = rkey[23:0];
    request[`EFA_READ_JOB__ADDR] = rdma[`EFA_PKT_RDMA__REMOTE_ADDR];
    request[`EFA_READ_JOB__TOTAL] = total;
    request[`EFA_READ_JOB__OFFSET] = offset;
    request[`EFA_READ_JOB__COUNT] = requested[16:0];
    request[`EFA_READ_JOB__READ_ID] = rdma[`EFA_PKT_RDMA__READ_ID];
  end
  assign m_look_data = look;
  assign m_placed = placed;
  assign m_request_valid = request_q;
  assign m_request_data = request_data_q;

  efa_mr_check #(
      .USER_W(1)
  ) u_region (
      .clk(clk),
      .rst(rst),
      .m_init_done(regions_init),
      .s_mr_valid(s_mr_valid),
      .s_mr_index(s_mr_index),
      .s_mr_data(s_mr_data),
      .s_valid(asks || asks_region),
      .s_ready(ready),
      .s_key(s_response ? s_found_read[`EFA_READ_CTX__LKEY] : rkey[23:0]),
      .s_pd(s_response ? s_found_read[`EFA_READ_CTX__PD] : s_pkt_pd),
      .s_addr(s_response ? s_found_read[`EFA_READ_CTX__ADDR] : rdma[`EFA_PKT_RDMA__REMOTE_ADDR]),
      .s_len(s_response ? s_found_read[`EFA_READ_CTX__TOTAL] : total),
      .s_access(access),
      .s_user(!s_response && (beyond || long_key)),
      .m_valid(looked),
      .m_ready(s_step),
      .m_ok(covered),
      .m_loc(m_loc),
      .m_len(region_length),
      .m_user(wrong)
  );

  always @(posedge clk) begin
    peer_q  <= src_near && src_known[AH_W];
    asked_q <= !rst && !s_step && (asked_q || asks || asks_region);
    looked_up_q <= !rst && !s_step && (looked_up_q || (m_look_valid && m_look_ready));
    if (m_look_valid && m_look_ready) found_q <= s_found;
    request_q <= !rst && (accepted || (request_q && !m_request_ready));
    if (accepted) request_data_q <= request;
  end

  wire unused_bits = &{1'b0, rdma, src_known, ready, region_length, s_found_read, found_id};

  `EFA_CHECK(!(asks && !ready), "efa_rx_lookup: look-up not accepted at once")

  wire unused_packet = &{1'b0, s_pkt_data, header, ah_pd, ah_node, s_ah_data, s_pkt_pd, src_node, s_node};

endmodule

`default_nettype wire
