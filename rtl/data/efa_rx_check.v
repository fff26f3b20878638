// SPDX-License-Identifier: Apache-2.0
// efa_rx_check - validates the buffers of a receive WQE before any byte is written.
//
// In    s_job jobs; s_ask which of its descriptors s_descs to validate, under domain s_pd; mr_* the
//       regions
// Out   m_retire every job in order, with the location of its buffers or with an error status;
//       m_write the same job in the same cycle, if it writes
// Time  3 cycles after the last request to efa_mr_check, one job per cycle, per 2 cycles if both
//       buffers are validated; 1 cycle if none is
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rx_check (
    input  wire clk,
    input  wire rst,
    output wire init_done,

    input wire s_job_valid,
    output wire s_job_ready,
    input wire [`EFA_RXJ__W-1:0] s_job,
    input wire [1:0] s_ask,
    input wire [255:0] s_descs,
    input wire [9:0] s_pd,

    input wire mr_valid,
    input wire [`EFA_LIMITS__MR_W-1:0] mr_index,
    input wire [`EFA_MRC__W-1:0] mr_data,

    output wire m_write_valid,
    input wire m_write_ready,
    output wire m_retire_valid,
    input wire m_retire_ready,
    output wire [`EFA_RXJ__W-1:0] m_job,

    output wire drop,
    output wire ev_rxv_valid,
    output wire [63:0] ev_rxv_data
);

  localparam RXJ_W = `EFA_RXJ__W;
  localparam DESC_W = `EFA_IO_RX_DESC__BITS;
  localparam PLACE_W = 1 + 6 + 16 + 64 + 64;
  localparam JOBS_LOG2 = 3;
  localparam PLACES_LOG2 = JOBS_LOG2 + 1;
  // Jobs are stored without the locations of their buffers, which end below this field.
  localparam ABOVE = `EFA_RXJ__COMPLETE;
  localparam BELOW = ABOVE - 2 * PLACE_W;

  // ---- one request per buffer; the job enters its queue with the last request ----
  reg asked_first_q;
  wire both = s_ask == 2'b11;
  wire second = asked_first_q || !s_ask[0];
  wire at_end = !both || asked_first_q;
  wire line_room;
  wire ask_ready;
  wire ask = s_job_valid && s_ask != 2'b00 && line_room;
  wire [DESC_W-1:0] desc = second ? s_descs[DESC_W+:DESC_W] : s_descs[0+:DESC_W];
  assign s_job_ready = line_room && at_end;

  always @(posedge clk) begin
    if (rst) asked_first_q <= 1'b0;
    else if (ask) asked_first_q <= !at_end;
  end

  wire verdict_valid;
  wire verdict_ok;
  wire [31:0] verdict_len;
  wire verdict_user;
  wire [PLACE_W-1:0] verdict_place;
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
      .s_ready(ask_ready),
      .s_key(desc[`EFA_IO_RX_DESC__LKEY]),
      .s_pd(s_pd),
      .s_addr({desc[`EFA_IO_RX_DESC__BUF_ADDR_HI], desc[`EFA_IO_RX_DESC__BUF_ADDR_LO]}),
      .s_len({16'd0, desc[`EFA_IO_RX_DESC__LENGTH]}),
      .s_write(1'b1),
      .s_user(second),
      .m_valid(verdict_valid),
      .m_ready(1'b1),
      .m_ok(verdict_ok),
      .m_phys(verdict_place[150]),
      .m_shift(verdict_place[149:144]),
      .m_mtt(verdict_place[143:128]),
      .m_offset(verdict_place[127:64]),
      .m_addr(verdict_place[63:0]),
      .m_len(verdict_len),
      .m_user(verdict_user)
  );

  // ---- jobs meet their check results; the result queue has space for two per job ----
  wire job_valid;
  wire job_ready;
  wire [RXJ_W-ABOVE-1:0] job_above;
  wire [BELOW-1:0] job_below;
  wire [RXJ_W-1:0] job = {job_above, {2 * PLACE_W{1'b0}}, job_below};
  wire [1:0] job_ask;
  wire [JOBS_LOG2:0] line_level;
  efa_fifo #(
      .WIDTH(RXJ_W - 2 * PLACE_W + 2),
      .DEPTH_LOG2(JOBS_LOG2)
  ) u_line (
      .clk(clk),
      .rst(rst),
      .s_valid(s_job_valid && s_job_ready),
      .s_ready(line_room),
      .s_data({s_job[RXJ_W-1:ABOVE], s_job[BELOW-1:0], s_ask}),
      .m_valid(job_valid),
      .m_ready(job_ready),
      .m_data({job_above, job_below, job_ask}),
      .level(line_level)
  );

  // A check result bypasses the queue if its job is waiting.
  wire place_room;
  wire place_ready;
  wire stored;
  wire stored_ok;
  wire [PLACE_W-1:0] stored_place;
  wire place_valid = stored || verdict_valid;
  wire place_ok = stored ? stored_ok : verdict_ok;
  wire [PLACE_W-1:0] place = stored ? stored_place : verdict_place;
  wire [PLACES_LOG2:0] place_level;
  efa_fifo #(
      .WIDTH(1 + PLACE_W),
      .DEPTH_LOG2(PLACES_LOG2)
  ) u_places (
      .clk(clk),
      .rst(rst),
      .s_valid(verdict_valid && (stored || !place_ready)),
      .s_ready(place_room),
      .s_data({verdict_ok, verdict_place}),
      .m_valid(stored),
      .m_ready(place_ready),
      .m_data({stored_ok, stored_place}),
      .level(place_level)
  );

  reg have_first_q;
  reg first_ok_q;
  reg [PLACE_W-1:0] first_q;
  wire take_first = job_valid && job_ask == 2'b11 && !have_first_q;
  wire known = job_ask == 2'b00 || (place_valid && !take_first);
  wire refused = job_ask != 2'b00 && !(place_ok && (!have_first_q || first_ok_q));

  reg [`EFA_CPL__W-1:0] cpl;
  reg [`EFA_ACKO__W-1:0] acko;
  reg [RXJ_W-1:0] judged;
  always @* begin
    cpl  = job[`EFA_RXJ__CPL];
    acko = job[`EFA_RXJ__ACKO];
    if (refused) begin
      cpl[`EFA_CPL__STATUS]   = `EFA_IO_COMP_STATUS__LOCAL_ERROR_INVALID_LKEY;
      acko[`EFA_ACKO__STATUS] = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_STATUS;
    end
    judged = job;
    judged[`EFA_RXJ__WRITE] = job[`EFA_RXJ__WRITE] && !refused;
    judged[`EFA_RXJ__PLACE0] = have_first_q ? first_q : place;
    judged[`EFA_RXJ__PLACE1] = place;
    judged[`EFA_RXJ__CPL] = cpl;
    judged[`EFA_RXJ__ACKO] = acko;
  end

  wire writes = judged[`EFA_RXJ__WRITE];
  wire ready = job_valid && known;
  wire leaves = m_retire_ready && (!writes || m_write_ready);
  assign m_job = judged;
  assign m_write_valid = ready && writes && m_retire_ready;
  assign m_retire_valid = ready && (!writes || m_write_ready);
  assign job_ready = known && leaves;
  assign place_ready = take_first || (job_valid && job_ask != 2'b00 && leaves);

  always @(posedge clk) begin
    if (take_first) begin
      first_ok_q <= place_ok;
      first_q <= place;
    end
    if (rst) have_first_q <= 1'b0;
    else if (take_first) have_first_q <= place_valid;
    else if (job_valid && job_ready) have_first_q <= 1'b0;
  end

  wire packet = job[`EFA_RXJ__PACKET];
  wire gone = ready && leaves;
  assign drop = gone && packet && acko[`EFA_ACKO__STATUS] != `EFA_IO_COMP_STATUS__OK;

  reg [63:0] ev_data;
  always @* begin
    ev_data = 64'd0;
    ev_data[`EFA_EV_RXV__QPN] = cpl[`EFA_CPL__QPN];
    ev_data[`EFA_EV_RXV__STATUS] = acko[`EFA_ACKO__STATUS];
    ev_data[`EFA_EV_RXV__REQ_ID] = cpl[`EFA_CPL__REQ_ID];
    ev_data[`EFA_EV_RXV__LENGTH] = job[`EFA_RXJ__LENGTH];
    ev_data[`EFA_EV_RXV__DROP] = !job[`EFA_RXJ__COMPLETE];
  end
  assign ev_rxv_valid = gone && packet;
  assign ev_rxv_data  = ev_data;

  wire unused_bits = &{1'b0, desc, s_job, ask_ready, verdict_len, verdict_user};
  wire unused_store = &{1'b0, line_level, place_level, place_room};

  `EFA_CHECK(!(verdict_valid && !place_room), "efa_rx_check: a verdict without room")
  `EFA_CHECK(ask_ready, "efa_rx_check: a question has to wait")

endmodule
