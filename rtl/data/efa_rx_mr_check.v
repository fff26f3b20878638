// SPDX-License-Identifier: Apache-2.0
// efa_rx_mr_check - validates the buffers of a receive WQE before any byte is written; RDMA writes
// are validated before (efa_rx_validate).
//
// In    s_job jobs; s_job_check the buffers to validate; s_mr_* the regions
// Out   m_retire every job in order, with the location of its buffers or with an error status;
//       m_write the same job, if it writes; the outputs leave independently of each other; m_drop
//       and the event when the write begins, or when a job without a write retires
// Time  3 cycles after the last request to efa_mr_check, one job per cycle, per 2 cycles if both
//       buffers are validated; 1 cycle if none is
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rx_mr_check (
    input  wire clk,
    input  wire rst,
    output wire m_init_done,

    input wire s_job_valid,
    output wire s_job_ready,
    input wire [`EFA_RX_JOB__W-1:0] s_job_data,
    input wire [`EFA_RX_CHECK__W-1:0] s_job_check,

    input wire s_mr_valid,
    input wire [`EFA_LIMITS__MR_W-1:0] s_mr_index,
    input wire [`EFA_MRC__W-1:0] s_mr_data,

    output wire m_write_valid,
    input wire m_write_ready,
    output wire m_retire_valid,
    input wire m_retire_ready,
    output wire [`EFA_RX_JOB__W-1:0] m_job_data,

    output wire m_drop,
    output wire ev_rx_validated_valid,
    output wire [63:0] ev_rx_validated_data
);

  localparam RX_JOB_W = `EFA_RX_JOB__W;
  localparam DESC_W = `EFA_IO_RX_DESC__BITS;
  localparam LOC_W = `EFA_MR_LOC__W;
  localparam JOBS_LOG2 = 3;
  localparam LOCS_LOG2 = JOBS_LOG2 + 1;
  // Jobs are stored without the location of the second buffer, which ends below this field.
  localparam ABOVE = `EFA_RX_JOB__COMPLETE;
  localparam BELOW = ABOVE - LOC_W;

  // ---- one request per buffer; the job enters its queue with the last request ----
  reg requested_first_q;
  wire [1:0] req = s_job_check[`EFA_RX_CHECK__REQ];
  wire [255:0] descs = s_job_check[`EFA_RX_CHECK__DESCS];
  wire both = req == 2'b11;
  wire second = requested_first_q || !req[0];
  wire at_end = !both || requested_first_q;
  wire line_space;
  wire req_ready;
  wire request = s_job_valid && req != 2'b00 && line_space;
  wire [DESC_W-1:0] desc = second ? descs[DESC_W+:DESC_W] : descs[0+:DESC_W];
  assign s_job_ready = line_space && at_end;

  always @(posedge clk) begin
    if (rst) requested_first_q <= 1'b0;
    else if (request) requested_first_q <= !at_end;
  end

  wire status_valid;
  wire status_ok;
  wire [31:0] status_len;
  wire status_user;
  wire [LOC_W-1:0] status_loc;
  efa_mr_check #(
      .USER_W(1)
  ) u_check (
      .clk(clk),
      .rst(rst),
      .m_init_done(m_init_done),
      .s_mr_valid(s_mr_valid),
      .s_mr_index(s_mr_index),
      .s_mr_data(s_mr_data),
      .s_valid(request),
      .s_ready(req_ready),
      .s_key(desc[`EFA_IO_RX_DESC__LKEY]),
      .s_pd(s_job_check[`EFA_RX_CHECK__PD]),
      .s_addr({desc[`EFA_IO_RX_DESC__BUF_ADDR_HI], desc[`EFA_IO_RX_DESC__BUF_ADDR_LO]}),
      .s_len({16'd0, desc[`EFA_IO_RX_DESC__LENGTH]}),
      .s_access(`EFA_MR_ACCESS__LOCAL_WRITE_W2),
      .s_user(second),
      .m_valid(status_valid),
      .m_ready(1'b1),
      .m_ok(status_ok),
      .m_loc(status_loc),
      .m_len(status_len),
      .m_user(status_user)
  );

  // ---- jobs meet their check results; the result queue has space for two per job ----
  wire job_valid;
  wire job_ready;
  wire [RX_JOB_W-ABOVE-1:0] job_above;
  wire [BELOW-1:0] job_below;
  wire [RX_JOB_W-1:0] job = {job_above, {LOC_W{1'b0}}, job_below};
  wire [1:0] job_req;
  wire [JOBS_LOG2:0] line_level;
  efa_fifo #(
      .WIDTH(RX_JOB_W - LOC_W + 2),
      .DEPTH_LOG2(JOBS_LOG2)
  ) u_line (
      .clk(clk),
      .rst(rst),
      .s_valid(s_job_valid && s_job_ready),
      .s_ready(line_space),
      .s_data({s_job_data[RX_JOB_W-1:ABOVE], s_job_data[BELOW-1:0], req}),
      .m_valid(job_valid),
      .m_ready(job_ready),
      .m_data({job_above, job_below, job_req}),
      .m_level(line_level)
  );

  // A check result bypasses the queue if its job is waiting.
  wire loc_space;
  wire loc_ready;
  wire stored;
  wire stored_ok;
  wire [LOC_W-1:0] stored_loc;
  wire loc_valid = stored || status_valid;
  wire loc_ok = stored ? stored_ok : status_ok;
  wire [LOC_W-1:0] loc = stored ? stored_loc : status_loc;
  wire [LOCS_LOG2:0] loc_level;
  efa_fifo #(
      .WIDTH(1 + LOC_W),
      .DEPTH_LOG2(LOCS_LOG2)
  ) u_locs (
      .clk(clk),
      .rst(rst),
      .s_valid(status_valid && (stored || !loc_ready)),
      .s_ready(loc_space),
      .s_data({status_ok, status_loc}),
      .m_valid(stored),
      .m_ready(loc_ready),
      .m_data({stored_ok, stored_loc}),
      .m_level(loc_level)
  );

  reg have_first_q;
  reg first_ok_q;
  reg [LOC_W-1:0] first_q;
  wire take_first = job_valid && job_req == 2'b11 && !have_first_q;
  wire known = job_req == 2'b00 || (loc_valid && !take_first);
  wire refused = job_req != 2'b00 && !(loc_ok && (!have_first_q || first_ok_q));

  reg [`EFA_CPL__W-1:0] cpl;
  reg [`EFA_ACK_TX__W-1:0] ack_tx;
  reg [RX_JOB_W-1:0] checked;
  always @* begin
    cpl  = job[`EFA_RX_JOB__CPL];
    ack_tx = job[`EFA_RX_JOB__ACK_TX];
    if (refused) begin
      cpl[`EFA_CPL__STATUS]   = `EFA_IO_COMP_STATUS__LOCAL_ERROR_INVALID_LKEY;
      ack_tx[`EFA_ACK_TX__STATUS] = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_STATUS;
    end
    checked = job;
    checked[`EFA_RX_JOB__WRITE] = job[`EFA_RX_JOB__WRITE] && !refused;
    // An RDMA write brings the location of its region.
    if (!job[`EFA_RX_JOB__RDMA]) checked[`EFA_RX_JOB__SGE0_LOC] = have_first_q ? first_q : loc;
    checked[`EFA_RX_JOB__SGE1_LOC] = loc;
    checked[`EFA_RX_JOB__CPL] = cpl;
    checked[`EFA_RX_JOB__ACK_TX] = ack_tx;
  end

  wire writes = checked[`EFA_RX_JOB__WRITE];
  wire ready = job_valid && known;
  // Each output leaves once; the job leaves with the later of them.
  reg write_done_q;
  reg retire_done_q;
  wire write_done = !writes || write_done_q || m_write_ready;
  wire retire_done = retire_done_q || m_retire_ready;
  wire leaves = write_done && retire_done;
  assign m_job_data = checked;
  assign m_write_valid = ready && writes && !write_done_q;
  assign m_retire_valid = ready && !retire_done_q;
  assign job_ready = known && leaves;
  assign loc_ready = take_first || (job_valid && job_req != 2'b00 && leaves);

  always @(posedge clk) begin
    if (take_first) begin
      first_ok_q <= loc_ok;
      first_q <= loc;
    end
    if (rst) have_first_q <= 1'b0;
    else if (take_first) have_first_q <= loc_valid;
    else if (job_valid && job_ready) have_first_q <= 1'b0;
    write_done_q  <= !rst && ready && !leaves && writes && write_done;
    retire_done_q <= !rst && ready && !leaves && retire_done;
  end

  wire packet = job[`EFA_RX_JOB__PACKET];
  // A packet is validated when its write begins, or when it retires without one.
  wire gone = writes ? m_write_valid && m_write_ready : m_retire_valid && m_retire_ready;
  assign m_drop = gone && packet
      && (job[`EFA_RX_JOB__DROP] || ack_tx[`EFA_ACK_TX__STATUS] != `EFA_IO_COMP_STATUS__OK);

  reg [63:0] ev_data;
  always @* begin
    ev_data = 64'd0;
    ev_data[`EFA_EV_RX_VALIDATED__QPN] = cpl[`EFA_CPL__QPN];
    ev_data[`EFA_EV_RX_VALIDATED__STATUS] = ack_tx[`EFA_ACK_TX__STATUS];
    ev_data[`EFA_EV_RX_VALIDATED__REQ_ID] = cpl[`EFA_CPL__REQ_ID];
    ev_data[`EFA_EV_RX_VALIDATED__LENGTH] = job[`EFA_RX_JOB__LENGTH];
    ev_data[`EFA_EV_RX_VALIDATED__DROP] = !job[`EFA_RX_JOB__COMPLETE];
  end
  assign ev_rx_validated_valid = gone && packet;
  assign ev_rx_validated_data  = ev_data;

  wire unused_bits = &{1'b0, desc, s_job_data, req_ready, status_len, status_user};
  wire unused_store = &{1'b0, line_level, loc_level, loc_space};

  `EFA_CHECK(!(status_valid && !loc_space), "efa_rx_mr_check: result without space")
  `EFA_CHECK(req_ready, "efa_rx_mr_check: request not accepted at once")

endmodule

`default_nettype wire
