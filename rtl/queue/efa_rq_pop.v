// SPDX-License-Identifier: Apache-2.0
// efa_rq_pop - claims the receive WQE at the head of the ring for each packet, in packet order.
//
// In    s_claim the ring of a packet; for the packet in stage 1: s_skip it gets no WQE, s_need
//       bytes that its WQE must have, s_hold it stalls; counts and cached descriptors; s_failed: a
//       read of the ring failed; s_parked: the response leads to no claim, otherwise s_done follows
// Out   m_step: the packet in stage 1 advances; m_claim response, valid in the cycle in which it is
//       accepted (priority: skipped, broken, none, missing: descriptors are pending, short);
//       take_*, with s_done: the WQE is consumed; held_*: rings of the packets inside, whose heads
//       no other module may move
// Time  stage 1 one cycle after the claim, the response one more; one claim per cycle, of one ring
//       every 2
//
// Stages: c1 reads the counts (and the parent module the context), c2 the descriptors at the head,
// c3 holds the claim until s_done. The RAM of counts shows a claim of c3 two cycles after s_done.
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rq_pop #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,

    input wire s_claim_valid,
    output wire s_claim_ready,
    input wire [QPN_W-1:0] s_claim_qpn,
    output wire [QPN_W-1:0] m_qpn,
    input wire s_skip,
    input wire [16:0] s_need,
    input wire s_hold,
    output wire m_step,

    output wire m_claim_valid,
    input wire m_claim_ready,
    input wire s_parked,
    output wire m_claim_skipped,
    output wire m_claim_failed,
    output wire m_claim_none,
    output wire m_claim_missing,
    output wire m_claim_complete,
    output wire m_claim_short,
    output wire [1:0] m_claim_count,
    output wire [255:0] m_claim_descs,
    input wire s_done,

    input wire [15:0] s_prod,
    input wire [15:0] s_cons,
    output wire [QPN_W-1:0] head_qpn,
    output wire [15:0] head,
    input wire [255:0] s_descs,
    input wire [1:0] s_present,
    output wire [QPN_W-1:0] claim_failed_qpn,
    input wire s_failed,

    output wire take_valid,
    output wire [QPN_W-1:0] take_qpn,
    output wire [15:0] take_value,
    output wire [2:0] held_valid,
    output wire [3*QPN_W-1:0] held_qpn
);

  localparam DESC_W = `EFA_IO_RX_DESC__BITS;

  reg c1_valid_q;
  reg [QPN_W-1:0] c1_qpn_q;

  reg c2_valid_q;
  reg c2_skip_q;
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
  wire last0 = s_descs[`EFA_IO_RX_DESC__LAST];
  wire last1 = s_descs[DESC_W+`EFA_IO_RX_DESC__LAST];
  wire [127:0] desc0 = s_descs[0+:DESC_W];
  wire [127:0] desc1 = s_descs[DESC_W+:DESC_W];
  wire [15:0] size0 = desc0[`EFA_IO_RX_DESC__LENGTH];
  wire [15:0] size1 = last0 ? 16'd0 : desc1[`EFA_IO_RX_DESC__LENGTH];
  // The second descriptor belongs to the WQE only if the first is not its last.
  wire none = c2_zero_q || (c2_one_q && s_present[0] && !last0);
  wire complete = s_present[0] && (last0 || s_present[1]);
  wire ends = last0 || last1;
  // A carry-save adder before the only carry chain: the sum is 0 or more if the bytes fit.
  wire [18:0] in0 = {3'd0, size0};
  wire [18:0] in1 = {3'd0, size1};
  wire [18:0] in2 = ~{2'd0, c2_need_q};
  wire [18:0] sums = in0 ^ in1 ^ in2;
  wire [18:0] carries = (in0 & in1) | (in0 & in2) | (in1 & in2);
  wire [18:0] spare = sums + {carries[17:0], 1'b1};
  wire short = spare[18];
  wire missing = !c2_skip_q && !s_failed && !none && !complete;
  wire take = !c2_skip_q && !s_failed && !none && !(ends && short);

  assign m_claim_valid = c2_valid_q;
  assign m_claim_skipped = c2_skip_q;
  assign m_claim_failed = s_failed;
  assign m_claim_none = none;
  assign m_claim_missing = missing;
  assign m_claim_complete = ends;
  assign m_claim_short = short;
  assign m_claim_count = last0 ? 2'd1 : 2'd2;
  assign m_claim_descs = s_descs;
  wire c2_leaves = m_claim_valid && m_claim_ready;

  // ---- c1: the head index, stalled behind a packet of the same ring that may move the head ----
  wire c3_is_it = c3_take_q && c3_qpn_q == c1_qpn_q;
  wire bypass_hit = bypass_take_q && bypass_qpn_q == c1_qpn_q;
  wire [15:0] cons = c3_is_it ? c3_value_q : bypass_hit ? bypass_value_q : s_cons;
  wire [15:0] cons_next = cons + 16'd1;
  wire behind = c2_valid_q && c2_qpn_q == c1_qpn_q && !s_skip;
  wire c1_stays = c1_valid_q && !m_step;
  assign m_step = c1_valid_q && !behind && !s_hold && (!c2_valid_q || c2_leaves);
  assign s_claim_ready = !c1_stays;
  assign m_qpn = c1_stays ? c1_qpn_q : s_claim_qpn;
  assign head_qpn = c2_valid_q && !c2_leaves ? c2_qpn_q : c1_qpn_q;
  assign head = c2_valid_q && !c2_leaves ? c2_cons_q : cons;
  assign claim_failed_qpn = c2_qpn_q;

  assign take_valid = s_done && c3_take_q;
  assign take_qpn = c3_qpn_q;
  assign take_value = c3_value_q;
  assign held_valid = {c3_take_q, c2_valid_q, c1_valid_q};
  assign held_qpn = {c3_qpn_q, c2_qpn_q, c1_qpn_q};

  always @(posedge clk) begin
    if (!c1_stays) c1_qpn_q <= s_claim_qpn;
    if (m_step) begin
      c2_skip_q <= s_skip;
      c2_zero_q <= s_prod == cons;
      c2_one_q  <= s_prod == cons_next;
      c2_qpn_q  <= c1_qpn_q;
      c2_need_q <= s_need;
      c2_cons_q <= cons;
    end
    if (c2_leaves && !s_parked) begin
      c3_qpn_q   <= c2_qpn_q;
      c3_value_q <= c2_cons_q + {14'd0, m_claim_count};
    end
    bypass_qpn_q   <= c3_qpn_q;
    bypass_value_q <= c3_value_q;
    if (rst) begin
      c1_valid_q <= 1'b0;
      c2_valid_q <= 1'b0;
      c3_take_q <= 1'b0;
      bypass_take_q <= 1'b0;
    end else begin
      c1_valid_q <= s_claim_valid || c1_stays;
      c2_valid_q <= m_step || (c2_valid_q && !c2_leaves);
      if (c2_leaves && !s_parked) c3_take_q <= take;
      else if (s_done) c3_take_q <= 1'b0;
      bypass_take_q <= take_valid;
    end
  end

  wire unused_bits = &{1'b0, desc0, desc1, carries[18], spare};

  `EFA_CHECK(!(c2_leaves && !s_parked && c3_take_q && !s_done), "efa_rq_pop: consumed WQE lost")
  `EFA_CHECK(!(c2_leaves && !s_parked && missing), "efa_rq_pop: WQE consumed before its fetch")

endmodule
