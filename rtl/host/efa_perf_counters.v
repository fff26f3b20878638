// SPDX-License-Identifier: Apache-2.0
// efa_perf_counters - counts beats and stall cycles of streams, and histograms of host reads and
// sends.
//
// In    s_valids, s_readies: the streams of efa_perf_stream, a bit each; s_rd_tag,
//       s_cpl_tag, s_cpl_last: the payload of two of them; s_sends_open: message contexts in use;
//       s_cnt_run: counts while 1, holds the counters while 0; s_cnt_clear: clears all counters
// Out   cnt_rd_data: the counter of cnt_rd_addr (enum efa_perf_counters), modulo 2^32; 0 where
//       there is none
// Time  a beat, a stall or a gauge is counted 2 cycles later, the end of a host read 3; cnt_rd_data
//       is valid 1 cycle after cnt_rd_addr, one index per cycle
// Observation only: no part of the device depends on this module. Reads and contexts are tracked
// while counting is off too, so s_cnt_run may change at any time.
`default_nettype none
`include "efa_defs.vh"

module efa_perf_counters #(
    parameter TAGS   = 256,
    parameter OPEN_W = `EFA_LIMITS__MSG_W + 1,
    parameter COUNT_LEFT = 0  // to the wrap of a cleared counter and of the time; 0: 2^32
) (
    input wire clk,
    input wire rst,
    input wire [`EFA_PERF_STREAM__ACK_RX:0] s_valids,
    input wire [`EFA_PERF_STREAM__ACK_RX:0] s_readies,
    input wire [7:0] s_rd_tag,
    input wire [7:0] s_cpl_tag,
    input wire s_cpl_last,
    input wire [OPEN_W-1:0] s_sends_open,
    input wire s_cnt_run,
    input wire s_cnt_clear,
    input wire [6:0] cnt_rd_addr,
    output wire [31:0] cnt_rd_data
);

  localparam STREAMS = `EFA_PERF_STREAM__ACK_RX + 1;
  localparam COUNTERS = `EFA_PERF__STREAM + 2 * STREAMS;
  localparam TAG_W = $clog2(TAGS);
  localparam TIME_W = 20;
  localparam OUT_W = TAG_W + 2;
  localparam [31:0] LEFT = COUNT_LEFT;
  localparam [31:0] FIRST = 32'd0 - LEFT;

  // Histogram bucket of a number: 0 for 0, b for 2^(b-1) to 2^b - 1.
  function [3:0] bucket(input [TIME_W-1:0] number);
    integer b;
    begin
      bucket = number[TIME_W-1:14] != 0 ? 4'd15 : 4'd0;
      for (b = 0; b < 14; b = b + 1)
      if (number[b] && number[TIME_W-1:14] == 0) bucket = b[3:0] + 4'd1;
    end
  endfunction

  wire [STREAMS-1:0] beat = s_valids & s_readies;
  wire requested = beat[`EFA_PERF_STREAM__M_DMA_RD];
  wire ended = beat[`EFA_PERF_STREAM__S_DMA_RD_CPL] && s_cpl_last;

  reg [STREAMS-1:0] beat_q;
  reg [STREAMS-1:0] wait_q;
  always @(posedge clk) begin
    beat_q <= rst ? {STREAMS{1'b0}} : beat;
    wait_q <= rst ? {STREAMS{1'b0}} : s_valids & ~s_readies;
  end

  // Latency of a host read, from its request to its last completion beat.
  reg [TIME_W-1:0] now_q;
  reg [TIME_W-1:0] ended_at_q;
  reg ended_q;
  reg done_q;
  reg [3:0] done_bucket_q;
  wire [TIME_W-1:0] requested_at;

  efa_ram #(
      .WIDTH (TIME_W),
      .ADDR_W(TAG_W)
  ) u_requested_at (
      .clk(clk),
      .wr_en(requested),
      .wr_addr(s_rd_tag[TAG_W-1:0]),
      .wr_data(now_q),
      .rd_en(ended),
      .rd_addr(s_cpl_tag[TAG_W-1:0]),
      .rd_data(requested_at)
  );

  always @(posedge clk) begin
    now_q <= rst ? FIRST[TIME_W-1:0] : now_q + 1'b1;
    ended_q <= !rst && ended;
    done_q <= !rst && ended_q;
    if (ended) ended_at_q <= now_q;
    if (ended_q) done_bucket_q <= bucket(ended_at_q - requested_at);
  end

  // Gauges, one sample per cycle.
  reg [OUT_W-1:0] out_q;
  reg [3:0] out_bucket_q;
  reg [3:0] open_bucket_q;
  always @(posedge clk) begin
    if (rst) out_q <= {OUT_W{1'b0}};
    else if (requested != ended) out_q <= requested ? out_q + 1'b1 : out_q - 1'b1;
    out_bucket_q  <= bucket({{TIME_W - OUT_W{1'b0}}, out_q});
    open_bucket_q <= bucket({{TIME_W - OPEN_W{1'b0}}, s_sends_open});
  end

  reg gauge_q;
  always @(posedge clk) gauge_q <= !rst;

  // Counters.
  reg [COUNTERS-1:0] more;
  integer n;
  always @* begin
    more = {COUNTERS{1'b0}};
    more[`EFA_PERF__RD_LATENCY+:16] = {15'd0, done_q} << done_bucket_q;
    more[`EFA_PERF__RD_OUT+:16] = {15'd0, gauge_q} << out_bucket_q;
    more[`EFA_PERF__SENDS_OPEN+:16] = {15'd0, gauge_q} << open_bucket_q;
    for (n = 0; n < STREAMS; n = n + 1) begin
      more[`EFA_PERF__STREAM+2*n]   = beat_q[n];
      more[`EFA_PERF__STREAM+2*n+1] = wait_q[n];
    end
  end

  wire [32*COUNTERS-1:0] counters;
  genvar c;
  generate
    for (c = 0; c < COUNTERS; c = c + 1) begin : g_counter
      reg [31:0] count_q;
      always @(posedge clk) begin
        if (rst || s_cnt_clear) count_q <= FIRST;
        else if (s_cnt_run && more[c]) count_q <= count_q + 32'd1;
      end
      assign counters[32*c+:32] = count_q;
    end
  endgenerate

  reg [31:0] cnt_data_q;
  always @(posedge clk) begin
    cnt_data_q <= {25'd0, cnt_rd_addr} < COUNTERS ? counters[{cnt_rd_addr, 5'd0}+:32] : 32'd0;
  end
  assign cnt_rd_data = cnt_data_q;

endmodule

`default_nettype wire
