// SPDX-License-Identifier: Apache-2.0
// efa_rx_mr_check - validates the buffers of a receive WQE before any byte is written.
//
// In    s_job jobs; s_req which of its descriptors s_descs to validate, under domain s_pd; mr_* the
//       regions
// Out   m_retire every job in order, with the location of its buffers or with an error status;
//       m_write the same job in the same cycle, if it writes
// Time  3 cycles after the last request to efa_mr_check, one job per cycle, per 2 cycles if both
//       buffers are validated; 1 cycle if none is
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rx_mr_check (
    input  wire clk,
    input  wire rst,
    output wire init_done,

    input wire s_job_valid,
    output wire s_job_ready,
    input wire [`EFA_RX_JOB__W-1:0] s_job,
    input wire [1:0] s_req,
    input wire [255:0] s_descs,
    input wire [9:0] s_pd,

    input wire mr_valid,
    input wire [`EFA_LIMITS__MR_W-1:0] mr_index,
    input wire [`EFA_MRC__W-1:0] mr_data,

    output wire m_write_valid,
    input wire m_write_ready,
    output wire m_retire_valid,
    input wire m_retire_ready,
    output wire [`EFA_RX_JOB__W-1:0] m_job,

    output wire drop,
    output wire ev_rx_validated_valid,
    output wire [63:0] ev_rx_validated_data
);

  localparam RX_JOB_W = `EFA_RX_JOB__W;
  localparam DESC_W = `EFA_IO_RX_DESC__BITS;
  localparam PLACE_W = 1 + 6 + 16 + 64 + 64;
  localparam JOBS_LOG2 = 3;
  localparam PLACES_LOG2 = JOBS_LOG2 + 1;
  // Jobs are stored without the locations of their buffers, which end below this field.
  localparam ABOVE = `EFA_RX_JOB__COMPLETE;
  localparam BELOW = ABOVE - 2 * PLACE_W;

  // ---- one request per buffer; the job enters its queue with the last request ----
  reg requested_first_q;
  wire both = s_req == 2'b11;
  wire second = requested_first_q || !s_req[0];
  wire at_end = !both || requested_first_q;
  wire line_space;
  wire req_ready;
  wire ask = s_job_valid && s_req != 2'b00 && line_space;
  wire [DESC_W-1:0] desc = second ? s_descs[DESC_W+:DESC_W] : s_descs[0+:DESC_W];
  assign s_job_ready = line_space && at_end;

  always @(posedge clk) begin
    if (rst) requested_first_q <= 1'b0;
    else if (ask) requested_first_q <= !at_end;
  end

  wire status_valid;
  wire status_ok;
  wire [31:0] status_len;
  wire status_user;
  wire [PLACE_W-1:0] status_place;
  efa_mr_check #(
      .USER_W(1)
  ) u_check (
      .clk(clk),
      .rst(rst),
      .init_done(init_done),
      .mr_valid(mr_valid),
      .mr_index(mr_index),
      .mr_data(mr_data),
      .s_valid(ask),
      .s_ready(req_ready),
      .s_key(desc[`EFA_IO_RX_DESC__LKEY]),
      .s_pd(s_pd),
      .s_addr({desc[`EFA_IO_RX_DESC__BUF_ADDR_HI], desc[`EFA_IO_RX_DESC__BUF_ADDR_LO]}),
      .s_len({16'd0, desc[`EFA_IO_RX_DESC__LENGTH]}),
      .s_write(1'b1),
      .s_user(second),
      .m_valid(status_valid),
      .m_ready(1'b1),
      .m_ok(status_ok),
      .m_phys(status_place[150]),
      .m_shift(status_place[149:144]),
      .m_mtt(status_place[143:128]),
      .m_offset(status_place[127:64]),
      .m_addr(status_place[63:0]),
      .m_len(status_len),
      .m_user(status_user)
  );

  // ---- jobs meet their check results; the result queue has space for two per job ----
  wire job_valid;
  wire job_ready;
  wire [RX_JOB_W-ABOVE-1:0] job_above;
  wire [BELOW-1:0] job_below;
  wire [RX_JOB_W-1:0] job = {job_above, {2 * PLACE_W{1'b0}}, job_below};
  wire [1:0] job_req;
  wire [JOBS_LOG2:0] line_level;
  efa_fifo #(
      .WIDTH(RX_JOB_W - 2 * PLACE_W + 2),
      .DEPTH_LOG2(JOBS_LOG2)
  ) u_line (
      .clk(clk),
      .rst(rst),
      .s_valid(s_job_valid && s_job_ready),
      .s_ready(line_space),
      .s_data({s_job[RX_JOB_W-1:ABOVE], s_job[BELOW-1:0], s_req}),
      .m_valid(job_valid),
      .m_ready(job_ready),
      .m_data({job_above, job_below, job_req}),
      .level(line_level)
  );

  // A check result bypasses the queue if its job is waiting.
  wire place_space;
  wire place_ready;
  wire stored;
  wire stored_ok;
  wire [PLACE_W-1:0] stored_place;
  wire place_valid = stored || status_valid;
  wire place_ok = stored ? stored_ok : status_ok;
  wire [PLACE_W-1:0] place = stored ? stored_place : status_place;
  wire [PLACES_LOG2:0] place_level;
  efa_fifo #(
      .WIDTH(1 + PLACE_W),
      .DEPTH_LOG2(PLACES_LOG2)
  ) u_places (
      .clk(clk),
      .rst(rst),
      .s_valid(status_valid && (stored || !place_ready)),
      .s_ready(place_space),
      .s_data({status_ok, status_place}),
      .m_valid(stored),
      .m_ready(place_ready),
      .m_data({stored_ok, stored_place}),
      .level(place_level)
  );

  reg have_first_q;
  reg first_ok_q;
  reg [PLACE_W-1:0] first_q;
  wire take_first = job_valid && job_req == 2'b11 && !have_first_q;
  wire known = job_req == 2'b00 || (place_valid && !take_first);
  wire refused = job_req != 2'b00 && !(place_ok && (!have_first_q || first_ok_q));

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
    checked[`EFA_RX_JOB__SGE0_ADDR] = have_first_q ? first_q : place;
    checked[`EFA_RX_JOB__SGE1_ADDR] = place;
    checked[`EFA_RX_JOB__CPL] = cpl;
    checked[`EFA_RX_JOB__ACK_TX] = ack_tx;
  end

  wire writes = checked[`EFA_RX_JOB__WRITE];
  wire ready = job_valid && known;
  wire leaves = m_retire_ready && (!writes || m_write_ready);
  assign m_job = checked;
  assign m_write_valid = ready && writes && m_retire_ready;
  assign m_retire_valid = ready && (!writes || m_write_ready);
  assign job_ready = known && leaves;
  assign place_ready = take_first || (job_valid && job_req != 2'b00 && leaves);

  always @(posedge clk) begin
    if (take_first) begin
      first_ok_q <= place_ok;
      first_q <= place;
    end
    if (rst) have_first_q <= 1'b0;
    else if (take_first) have_first_q <= place_valid;
    else if (job_valid && job_ready) have_first_q <= 1'b0;
  end

  wire packet = job[`EFA_RX_JOB__PACKET];
  wire gone = ready && leaves;
  assign drop = gone && packet && ack_tx[`EFA_ACK_TX__STATUS] != `EFA_IO_COMP_STATUS__OK;

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

  wire unused_bits = &{1'b0, desc, s_job, req_ready, status_len, status_user};
  wire unused_store = &{1'b0, line_level, place_level, place_space};

  `EFA_CHECK(!(status_valid && !place_space), "efa_rx_mr_check: result without space")
  `EFA_CHECK(req_ready, "efa_rx_mr_check: request not accepted at once")

endmodule
