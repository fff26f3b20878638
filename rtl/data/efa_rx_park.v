// SPDX-License-Identifier: Apache-2.0
// efa_rx_park - parks packets whose receive descriptors are pending; packets of other QPs bypass.
//
// In    s_pkt packets in arrival order; s_park a packet without its descriptors; s_arrived: a
//       descriptor read is done; s_empty: no packet is between m_pkt and s_park
// Out   m_pkt the next packet to validate: from the park list during a list traversal, otherwise a
//       new one; m_blocked: a packet of QP s_lookup_qpn is parked and must go first, so this one
//       parks
// Time  m_pkt in the cycle of s_pkt, one packet per cycle; a traversal starts when a read is done
//       or every 64 cycles, but not before as many cycles have passed since the previous one as it
//       had packets, unless the list is full; 58 packets may be parked, then all packets wait
//
// A traversal starts with no QP blocked and follows the order of the list. The first packet that
// parks again blocks its QP. New packets wait during a traversal, so the packets of a QP keep their
// order.
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rx_park #(
    parameter QPN_W  = 6,
    parameter LINE_W = 9,
    parameter SLOT_W = 8
) (
    input wire clk,
    input wire rst,

    input wire s_pkt_valid,
    output wire s_pkt_ready,
    input wire [`EFA_PKT_HDR__BITS-1:0] s_pkt_header,
    input wire [LINE_W-1:0] s_pkt_line,
    input wire [SLOT_W-1:0] s_pkt_slot,

    output wire m_pkt_valid,
    input wire m_pkt_ready,
    output wire [`EFA_PKT_HDR__BITS-1:0] m_pkt_header,
    output wire [LINE_W-1:0] m_pkt_line,
    output wire [SLOT_W-1:0] m_pkt_slot,

    input wire [QPN_W-1:0] s_lookup_qpn,
    output wire m_blocked,
    input wire s_park_valid,
    input wire [`EFA_PKT_HDR__BITS-1:0] s_park_header,
    input wire [LINE_W-1:0] s_park_line,
    input wire [SLOT_W-1:0] s_park_slot,
    input wire s_empty,
    input wire s_arrived
);

  localparam HDR_W = `EFA_PKT_HDR__BITS;
  localparam PKT_W = HDR_W + LINE_W + SLOT_W;
  localparam QPS = 1 << QPN_W;
  localparam LIST_LOG2 = 6;
  localparam [LIST_LOG2:0] MANY = 58;  // leaves space for packets being validated
  localparam [LIST_LOG2:0] NONE = 0;
  localparam [LIST_LOG2:0] ONE = 1;

  localparam [1:0] ST_OPEN = 2'd0;
  localparam [1:0] ST_QUIET = 2'd1;
  localparam [1:0] ST_PASS = 2'd2;

  reg [1:0] state_q;
  reg [1:0] state_d;
  reg full_q;
  reg arrived_q;  // a traversal is due
  reg [5:0] timer_q;
  reg [LIST_LOG2:0] left_q;  // packets left in this traversal
  reg [LIST_LOG2:0] rest_q;  // cycles until the next traversal may start
  reg [QPS-1:0] blocked_q;

  wire [LIST_LOG2:0] level;
  wire list_space;
  wire list_valid;
  wire [PKT_W-1:0] list_pkt;
  wire passing = state_q == ST_PASS;
  wire begins = state_q == ST_QUIET && s_empty;
  efa_fifo #(
      .WIDTH(PKT_W),
      .DEPTH_LOG2(LIST_LOG2)
  ) u_list (
      .clk(clk),
      .rst(rst),
      .s_valid(s_park_valid),
      .s_ready(list_space),
      .s_data({s_park_header, s_park_line, s_park_slot}),
      .m_valid(list_valid),
      .m_ready(passing && m_pkt_ready),
      .m_data(list_pkt),
      .level(level)
  );

  wire open = state_q == ST_OPEN && !full_q;
  // A packet that is offered stays.
  wire offers = m_pkt_valid && !m_pkt_ready;
  assign m_pkt_valid = passing ? list_valid : open && s_pkt_valid;
  assign s_pkt_ready = open && m_pkt_ready;
  assign {m_pkt_header, m_pkt_line, m_pkt_slot} = passing ? list_pkt
      : {s_pkt_header, s_pkt_line, s_pkt_slot};
  assign m_blocked = blocked_q[s_lookup_qpn];

  wire again = passing && list_valid && m_pkt_ready;
  wire [15:0] park_dst_qpn = s_park_header[`EFA_PKT_HDR__DST_QPN];

  always @* begin
    state_d = state_q;
    case (state_q)
      // Waits for a reason to traverse the list.
      ST_OPEN: begin
        if (arrived_q && level != NONE && (rest_q == NONE || full_q) && !offers) state_d = ST_QUIET;
      end
      // Waits for the packets being validated.
      ST_QUIET: begin
        if (s_empty) state_d = ST_PASS;
      end
      // Waits for the last packet of the list as it was at the start.
      default: begin
        if (again && left_q == ONE) state_d = ST_OPEN;
      end
    endcase
  end

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_OPEN;
      full_q <= 1'b0;
      arrived_q <= 1'b0;
      timer_q <= 6'd0;
      left_q <= NONE;
      rest_q <= NONE;
      blocked_q <= {QPS{1'b0}};
    end else begin
      state_q <= state_d;
      if (!offers) full_q <= level >= MANY;
      arrived_q  <= s_arrived || timer_q == 6'd63 || (arrived_q && !begins);
      timer_q <= timer_q + 6'd1;
      if (begins) left_q <= level;
      else if (again) left_q <= left_q - ONE;
      if (begins) rest_q <= level;
      else if (state_q == ST_OPEN && rest_q != NONE) rest_q <= rest_q - ONE;
      if (begins) blocked_q <= {QPS{1'b0}};
      else if (s_park_valid) blocked_q[park_dst_qpn[QPN_W-1:0]] <= 1'b1;
    end
  end

  wire unused_bits = &{1'b0, list_space, park_dst_qpn};

  `EFA_CHECK(!(s_park_valid && !list_space), "efa_rx_park: no space for a parked packet")
  `EFA_CHECK(!(begins && s_park_valid), "efa_rx_park: packet released from an empty slot")

endmodule
