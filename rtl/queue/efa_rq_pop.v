// SPDX-License-Identifier: Apache-2.0
// efa_rq_pop - claims the receive WQE at the head of the ring for each packet, in packet order.
//
// In    s_claim the claim of a packet, with the counts of its ring (prod_rd_data, cons_rd_data);
//       desc_rd_data, desc_rd_present: cached descriptors at the head of its ring; failed_rd_data: a
//       read of the ring at desc_rd_qpn failed; s_done: a job left, in order, for each response of a
//       packet that is not parked
// Out   m_rsp response, valid in the cycle in which it is accepted; m_take, with s_done: the WQE is
//       consumed; m_held rings of the packets inside, whose heads no other module may move
// Time  the response 1 cycle after the claim; one claim per cycle, of one ring every 2
//
// Stages: c1 is the claim with the counts as read (and the QP context in efa_rx_validate), c2 the
// descriptors at the head, c3 holds the claim until s_done. The RAM of counts shows a claim of c3
// two cycles after s_done.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rq_pop #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,

    input wire s_claim_valid,
    output wire s_claim_ready,
    input wire [`EFA_RX_CLAIM__W-1:0] s_claim_data,
    output wire m_rsp_valid,
    input wire m_rsp_ready,
    output wire [`EFA_RX_CLAIM_RSP__W-1:0] m_rsp_data,
    input wire s_done,

    input wire [15:0] prod_rd_data,
    input wire [15:0] cons_rd_data,
    output wire [QPN_W-1:0] desc_rd_qpn,
    output wire [15:0] desc_rd_count,
    input wire [255:0] desc_rd_data,
    input wire [1:0] desc_rd_present,
    input wire failed_rd_data,

    output wire m_take_valid,
    output wire [QPN_W-1:0] m_take_qpn,
    output wire [15:0] m_take_value,
    output wire [2:0] m_held_valid,
    output wire [3*QPN_W-1:0] m_held_qpn
);

  localparam DESC_W = `EFA_IO_RX_DESC__BITS;

  wire [11:0] c1_qpn_all = s_claim_data[`EFA_RX_CLAIM__QPN];
  wire [QPN_W-1:0] c1_qpn = c1_qpn_all[QPN_W-1:0];
  wire c1_skip = s_claim_data[`EFA_RX_CLAIM__SKIP];
  wire c1_hold = s_claim_data[`EFA_RX_CLAIM__HOLD];

  reg c2_valid_q;
  reg c2_skip_q;
  reg c2_blocked_q;
  reg c2_zero_q;  // nothing is posted
  reg c2_one_q;  // one descriptor is posted
  reg [QPN_W-1:0] c2_qpn_q;
  reg [16:0] c2_need_q;
  reg [15:0] c2_cons_q;

  reg c3_take_q;
  reg [QPN_W-1:0] c3_qpn_q;
  reg [15:0] c3_value_q;

  reg bypass_take_q;  // written in the previous cycle
  reg [QPN_W-1:0] bypass_qpn_q;
  reg [15:0] bypass_value_q;

  // ---- c2: response from the descriptors ----
  wire last0 = desc_rd_data[`EFA_IO_RX_DESC__LAST];
  wire last1 = desc_rd_data[DESC_W+`EFA_IO_RX_DESC__LAST];
  wire [127:0] desc0 = desc_rd_data[0+:DESC_W];
  wire [127:0] desc1 = desc_rd_data[DESC_W+:DESC_W];
  wire [15:0] size0 = desc0[`EFA_IO_RX_DESC__LENGTH];
  wire [15:0] size1 = last0 ? 16'd0 : desc1[`EFA_IO_RX_DESC__LENGTH];
  // The second descriptor belongs to the WQE only if the first is not its last.
  wire none = c2_zero_q || (c2_one_q && desc_rd_present[0] && !last0);
  wire complete = desc_rd_present[0] && (last0 || desc_rd_present[1]);
  wire ends = last0 || last1;
  // A carry-save adder before the only carry chain: the sum is 0 or more if the bytes fit.
  wire [18:0] in0 = {3'd0, size0};
  wire [18:0] in1 = {3'd0, size1};
  wire [18:0] in2 = ~{2'd0, c2_need_q};
  wire [18:0] sums = in0 ^ in1 ^ in2;
  wire [18:0] carries = (in0 & in1) | (in0 & in2) | (in1 & in2);
  wire [18:0] spare = sums + {carries[17:0], 1'b1};
  wire short = spare[18];
  wire [1:0] count = last0 ? 2'd1 : 2'd2;
  wire missing = !c2_skip_q && !failed_rd_data && !none && !complete;
  wire take = !c2_skip_q && !failed_rd_data && !none && !(ends && short);

  reg [`EFA_RX_CLAIM_RSP__W-1:0] rsp;
  always @* begin
    rsp[`EFA_RX_CLAIM_RSP__SKIPPED] = c2_skip_q;
    rsp[`EFA_RX_CLAIM_RSP__FAILED] = failed_rd_data;
    rsp[`EFA_RX_CLAIM_RSP__NONE] = none;
    rsp[`EFA_RX_CLAIM_RSP__MISSING] = missing;
    rsp[`EFA_RX_CLAIM_RSP__COMPLETE] = ends;
    rsp[`EFA_RX_CLAIM_RSP__SHORT] = short;
    rsp[`EFA_RX_CLAIM_RSP__COUNT] = count;
    rsp[`EFA_RX_CLAIM_RSP__DESCS] = desc_rd_data;
  end
  assign m_rsp_valid = c2_valid_q;
  assign m_rsp_data  = rsp;
  wire c2_leaves = m_rsp_valid && m_rsp_ready;
  // A parked packet holds no claim: it claims again.
  wire claims = c2_leaves && !c2_blocked_q && !missing;

  // ---- c1: the head index, stalled behind a packet of the same ring that may move the head ----
  wire c3_is_it = c3_take_q && c3_qpn_q == c1_qpn;
  wire bypass_hit = bypass_take_q && bypass_qpn_q == c1_qpn;
  wire [15:0] cons = c3_is_it ? c3_value_q : bypass_hit ? bypass_value_q : cons_rd_data;
  wire [15:0] cons_next = cons + 16'd1;
  wire behind = c2_valid_q && c2_qpn_q == c1_qpn && !c1_skip;
  assign s_claim_ready = !behind && !c1_hold && (!c2_valid_q || c2_leaves);
  wire step = s_claim_valid && s_claim_ready;
  wire c2_stays = c2_valid_q && !c2_leaves;
  assign desc_rd_qpn = c2_stays ? c2_qpn_q : c1_qpn;
  assign desc_rd_count = c2_stays ? c2_cons_q : cons;

  assign m_take_valid = s_done && c3_take_q;
  assign m_take_qpn = c3_qpn_q;
  assign m_take_value = c3_value_q;
  assign m_held_valid = {c3_take_q, c2_valid_q, s_claim_valid};
  assign m_held_qpn = {c3_qpn_q, c2_qpn_q, c1_qpn};

  always @(posedge clk) begin
    if (step) begin
      c2_skip_q <= c1_skip;
      c2_blocked_q <= s_claim_data[`EFA_RX_CLAIM__BLOCKED];
      c2_zero_q <= prod_rd_data == cons;
      c2_one_q  <= prod_rd_data == cons_next;
      c2_qpn_q  <= c1_qpn;
      c2_need_q <= s_claim_data[`EFA_RX_CLAIM__NEED];
      c2_cons_q <= cons;
    end
    if (claims) begin
      c3_qpn_q   <= c2_qpn_q;
      c3_value_q <= c2_cons_q + {14'd0, count};
    end
    bypass_qpn_q   <= c3_qpn_q;
    bypass_value_q <= c3_value_q;
    if (rst) begin
      c2_valid_q <= 1'b0;
      c3_take_q <= 1'b0;
      bypass_take_q <= 1'b0;
    end else begin
      c2_valid_q <= step || c2_stays;
      if (claims) c3_take_q <= take;
      else if (s_done) c3_take_q <= 1'b0;
      bypass_take_q <= m_take_valid;
    end
  end

  wire unused_bits = &{1'b0, desc0, desc1, carries[18], spare, c1_qpn_all};

  `EFA_CHECK(!(claims && c3_take_q && !s_done), "efa_rq_pop: consumed WQE lost")
  `EFA_CHECK(!(s_claim_valid && s_claim_data[`EFA_RX_CLAIM__BLOCKED] && !c1_skip),
             "efa_rq_pop: a blocked packet claims a WQE")

endmodule

`default_nettype wire
