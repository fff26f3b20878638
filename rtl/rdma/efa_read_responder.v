// SPDX-License-Identifier: Apache-2.0
// efa_read_responder - holds accepted read requests of peers until their responses have an outcome.
//
// In    s_job: accepted read requests; s_responded_*: all responses of a context have an outcome; s_cancel_*:
//       a QP is reset or destroyed, its requests that were accepted before are cancelled
// Out   m_post: the responses of a request as a message to send; response_rd_data: the context of
//       response_rd_addr; m_full: no further request of a node has a place; m_live: contexts
//       of requests whose responses may carry payload; st_request_*: bytes of an accepted request
// Time  post 1 cycle after its job, one in 2 cycles; response_rd_data one cycle after its address, with
//       response_rd_en; m_full 2 cycles after a job, 3 after the end of a context; s_cancel_ready 2
//       cycles after s_cancel_valid if no context is in use, else one per context and one more; m_live 2
//       cycles after a job, one after the end of a context; after rst an initialisation of one cycle per
//       context
//
// A node has a quarter of the contexts, and each packet that efa_net_rx has stored may be a request and
// has a place.
//
// No request of the QP comes during its cancel. s_cancel_ready stays until s_cancel_valid falls.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_read_responder #(
    parameter QPN_W = 6,
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter CTX_W = `EFA_LIMITS__MSG_W + 1,
    parameter READS_W = `EFA_TRANSPORT__READS_W,  // log2 of the contexts, below CTX_W
    parameter SLOT_W = 8  // log2 of the packets that efa_net_rx stores
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire s_job_valid,
    output wire s_job_ready,
    input wire [`EFA_READ_JOB__W-1:0] s_job_data,
    input wire s_cancel_valid,
    output wire s_cancel_ready,
    input wire [QPN_W-1:0] s_cancel_qpn,
    output wire [(1<<READS_W)-1:0] m_live,
    output wire [(1<<NODE_W)-1:0] m_full,
    output wire m_post_valid,
    input wire m_post_ready,
    output wire [`EFA_SRD_POST__W-1:0] m_post_data,
    input wire response_rd_en,
    input wire [CTX_W-1:0] response_rd_addr,
    output wire [`EFA_READ_RESPONSE__W-1:0] response_rd_data,
    input wire s_responded_valid,
    input wire [CTX_W-1:0] s_responded_index,
    output wire st_request_valid,
    output wire [16:0] st_request_bytes
);

  `include "efa_rdma_fn.vh"

  localparam NODES = 1 << NODE_W;
  localparam HIGH_W = 32 - CTX_W;
  localparam COUNT_W = READS_W + 1;
  localparam [COUNT_W-1:0] NODE_MOST = 1 << (READS_W - 2);
  // Two packets more may be stored before m_full is seen.
  localparam [COUNT_W-1:0] MOST = (1 << READS_W) - (1 << SLOT_W) - 2;
  localparam [COUNT_W-1:0] ONE = 1;
  localparam [READS_W:0] ALL = 1 << READS_W;
  localparam [HIGH_W-1:0] A_USE = 1;

  reg [READS_W:0] init_q;
  reg [HIGH_W-1:0] use_q;
  reg post_valid_q;
  reg [`EFA_SRD_POST__W-1:0] post_q;
  reg left_valid_q;  // a context has ended; its node is being read
  reg [COUNT_W-1:0] all_q;
  reg [NODES-1:0] full_q;
  reg taken_q;  // the context of post_q was taken in the cycle before
  reg [(1<<READS_W)-1:0] live_q;
  reg [READS_W:0] scan_q;  // contexts whose QP was read
  reg scanned_q;  // the QP of the context before scan_q is being compared
  reg [READS_W-1:0] compared_q;

  wire initializing = !init_q[READS_W];
  wire free_valid;
  wire free_space;
  wire [READS_W-1:0] free_index;
  wire [READS_W:0] free_level;
  wire takes = s_job_valid && s_job_ready;
  wire [15:0] job_node = s_job_data[`EFA_READ_JOB__NODE];
  wire [16:0] job_count = s_job_data[`EFA_READ_JOB__COUNT];
  wire [16:0] last_byte = job_count - 17'd1;
  wire [16:0] last = last_byte >> packet_log(s_cfg_profile);
  wire [31:0] id = {use_q, {CTX_W - READS_W{1'b0}}, free_index};
  wire [NODE_W-1:0] left_node;
  wire [31:0] post_id = post_q[`EFA_SRD_POST__ID];
  wire [11:0] job_qpn = s_job_data[`EFA_READ_JOB__QPN];
  wire [QPN_W-1:0] scan_qpn;
  wire none = all_q == {COUNT_W{1'b0}};
  wire scans = s_cancel_valid && !scan_q[READS_W];
  wire cancels = scanned_q && scan_qpn == s_cancel_qpn;

  reg [`EFA_SRD_POST__W-1:0] post;
  reg [`EFA_READ_RESPONSE__W-1:0] response;
  always @* begin
    post = {`EFA_SRD_POST__W{1'b0}};
    post[`EFA_SRD_POST__NODE] = job_node;
    post[`EFA_SRD_POST__ID] = id;
    post[`EFA_SRD_POST__KIND] = `EFA_PACKET_KIND__RESPONSE;
    post[`EFA_SRD_POST__LAST] = {1'b0, last};
    response[`EFA_READ_RESPONSE__ID] = id;
    response[`EFA_READ_RESPONSE__JOB] = s_job_data;
  end

  assign m_init_done = !initializing;
  assign s_job_ready = !initializing && !post_valid_q && free_valid;
  assign m_post_valid = post_valid_q;
  assign m_post_data = post_q;
  assign m_full = full_q;
  assign s_cancel_ready = scan_q[READS_W] && !scanned_q;
  assign m_live = live_q;
  assign st_request_valid = takes;
  assign st_request_bytes = job_count;

  efa_fifo #(
      .WIDTH(READS_W),
      .DEPTH_LOG2(READS_W)
  ) u_free (
      .clk(clk),
      .rst(rst),
      .s_valid(initializing || s_responded_valid),
      .s_ready(free_space),
      .s_data(initializing ? init_q[READS_W-1:0] : s_responded_index[READS_W-1:0]),
      .m_valid(free_valid),
      .m_ready(takes),
      .m_data(free_index),
      .m_level(free_level)
  );

  efa_ram #(
      .WIDTH (`EFA_READ_RESPONSE__W),
      .ADDR_W(READS_W)
  ) u_responses (
      .clk(clk),
      .wr_en(takes),
      .wr_addr(free_index),
      .wr_data(response),
      .rd_en(response_rd_en),
      .rd_addr(response_rd_addr[READS_W-1:0]),
      .rd_data(response_rd_data)
  );

  efa_ram #(
      .WIDTH (NODE_W),
      .ADDR_W(READS_W)
  ) u_nodes (
      .clk(clk),
      .wr_en(takes),
      .wr_addr(free_index),
      .wr_data(job_node[NODE_W-1:0]),
      .rd_en(1'b1),
      .rd_addr(s_responded_index[READS_W-1:0]),
      .rd_data(left_node)
  );

  efa_ram_fwd #(
      .WIDTH (QPN_W),
      .ADDR_W(READS_W)
  ) u_qpns (
      .clk(clk),
      .wr_en(takes),
      .wr_addr(free_index),
      .wr_data(job_qpn[QPN_W-1:0]),
      .rd_addr(scan_q[READS_W-1:0]),
      .rd_data(scan_qpn)
  );

  // Contexts of each node.
  genvar place;
  generate
    for (place = 0; place < NODES; place = place + 1) begin : g_node
      localparam [NODE_W-1:0] NODE = place;
      reg  [COUNT_W-1:0] count_q;
      wire more = takes && job_node[NODE_W-1:0] == NODE;
      wire less = left_valid_q && left_node == NODE;
      always @(posedge clk) begin
        if (rst) count_q <= {COUNT_W{1'b0}};
        else count_q <= count_q + {{COUNT_W - 1{1'b0}}, more} - {{COUNT_W - 1{1'b0}}, less};
        full_q[place] <= count_q >= NODE_MOST || all_q >= MOST;
      end
    end
  endgenerate

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {READS_W + 1{1'b0}};
      use_q <= {HIGH_W{1'b0}};
      post_valid_q <= 1'b0;
      left_valid_q <= 1'b0;
      all_q <= {COUNT_W{1'b0}};
      taken_q <= 1'b0;
      live_q <= {1 << READS_W{1'b0}};
      scan_q <= {READS_W + 1{1'b0}};
      scanned_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE;
      if (takes) use_q <= use_q + A_USE;
      post_valid_q <= takes || (post_valid_q && !m_post_ready);
      left_valid_q <= s_responded_valid;
      taken_q <= takes;
      // A transmission that reads the context in the cycle of its job must not find it live.
      if (taken_q) live_q[post_id[READS_W-1:0]] <= 1'b1;
      if (s_responded_valid) live_q[s_responded_index[READS_W-1:0]] <= 1'b0;
      if (cancels) live_q[compared_q] <= 1'b0;
      if (!s_cancel_valid) scan_q <= {READS_W + 1{1'b0}};
      else if (none) scan_q <= ALL;
      else if (scans) scan_q <= scan_q + ONE;
      scanned_q <= scans;
      all_q <= all_q + {{COUNT_W - 1{1'b0}}, takes} - {{COUNT_W - 1{1'b0}}, left_valid_q};
    end
  end

  always @(posedge clk) begin
    if (takes) post_q <= post;
    compared_q <= scan_q[READS_W-1:0];
  end

  wire unused_bits = &{1'b0, free_level, response_rd_addr, s_responded_index, job_node, job_qpn, post_id};

  `EFA_CHECK(initializing || !s_responded_valid || free_space, "more contexts freed than exist")
  `EFA_CHECK(!s_job_valid || initializing || free_valid || post_valid_q || rst,
             "job without a context")

endmodule

`default_nettype wire
