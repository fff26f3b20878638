// SPDX-License-Identifier: Apache-2.0
// efa_rx_park - parks packets whose receive descriptors are pending; packets of other QPs bypass.
//
// In    s_pkt packets in arrival order; s_step: the packet that m_pkt delivered last advances to
//       its claim response; s_end a packet whose response was accepted, s_end_parked: without its
//       descriptors; s_empty: no packet is between m_pkt and s_end; s_arrived: a descriptor read is
//       done
// Out   m_pkt the next packet to validate: from the park list during a list traversal, otherwise a
//       new one; blocked_rd_data: a packet of QP blocked_rd_addr is parked and must go first, so
//       this one parks
// Time  m_pkt in the cycle of s_pkt, one packet per cycle; a traversal starts when a read is done
//       or every 64 cycles, but not before as many cycles have passed since the previous one as it
//       had packets, unless the list is full; 58 packets may be parked, then all packets wait;
//       blocked_rd_data 1 cycle after its address, with the s_end of that cycle; after rst 2^QPN_W
//       cycles of initialisation, in which no packet leaves
//
// A traversal starts with no QP blocked and follows the order of the list. The first packet that
// parks again blocks its QP. New packets wait during a traversal, so the packets of a QP keep their
// order.
//
// The word of a QP has the flag of its last packet and the period in which that packet left. A
// traversal begins a new period, so no flag of the previous one counts. It visits every QP with
// such a flag, so none is left when the period bit returns.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rx_park #(
    parameter QPN_W = 6
) (
    input  wire clk,
    input  wire rst,
    output wire m_init_done,

    input wire s_pkt_valid,
    output wire s_pkt_ready,
    input wire [`EFA_RX_PKT__W-1:0] s_pkt_data,
    output wire m_pkt_valid,
    input wire m_pkt_ready,
    output wire [`EFA_RX_PKT__W-1:0] m_pkt_data,

    input wire [QPN_W-1:0] blocked_rd_addr,
    output wire blocked_rd_data,
    input wire s_step,
    input wire s_end_valid,
    input wire s_end_parked,
    input wire [`EFA_RX_PKT__W-1:0] s_end_data,
    input wire s_empty,
    input wire s_arrived
);

  localparam PKT_W = `EFA_RX_PKT__W;
  localparam LIST_LOG2 = 6;
  localparam [LIST_LOG2:0] MANY = 58;  // leaves space for packets being validated
  localparam [LIST_LOG2:0] NONE = 0;
  localparam [LIST_LOG2:0] ONE = 1;
  localparam [QPN_W:0] ONE_INIT = 1;

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

  wire [LIST_LOG2:0] level;
  wire list_space;
  wire list_valid;
  wire [PKT_W-1:0] list_pkt;
  wire passing = state_q == ST_PASS;
  wire begins = state_q == ST_QUIET && s_empty;
  wire parks = s_end_valid && s_end_parked;
  efa_fifo #(
      .WIDTH(PKT_W),
      .DEPTH_LOG2(LIST_LOG2)
  ) u_list (
      .clk(clk),
      .rst(rst),
      .s_valid(parks),
      .s_ready(list_space),
      .s_data(s_end_data),
      .m_valid(list_valid),
      .m_ready(passing && m_pkt_ready),
      .m_data(list_pkt),
      .m_level(level)
  );

  wire open = state_q == ST_OPEN && !full_q;
  // A packet that is offered stays.
  wire offers = m_pkt_valid && !m_pkt_ready;
  assign m_pkt_valid = passing ? list_valid : open && s_pkt_valid;
  assign s_pkt_ready = open && m_pkt_ready;
  assign m_pkt_data = passing ? list_pkt : s_pkt_data;
  wire again = passing && list_valid && m_pkt_ready;

  // ---- flag and period of each QP ----
  reg [QPN_W:0] init_q;
  reg period_q;
  reg [QPN_W-1:0] looked_up_q;  // QP of blocked_rd_data
  reg forward_q;  // its word was written in the cycle of the read
  reg forward_flag_q;
  reg behind_q;  // the packet advanced in the cycle in which one of its QP parked
  wire initializing = !init_q[QPN_W];
  wire [`EFA_PKT_HDR__BITS-1:0] end_header = s_end_data[`EFA_RX_PKT__HEADER];
  wire [15:0] end_dst_qpn = end_header[`EFA_PKT_HDR__DST_QPN];
  wire [QPN_W-1:0] end_qpn = end_dst_qpn[QPN_W-1:0];
  // A refused packet does not stall behind its QP: it leaves after a packet that has parked.
  wire end_flag = s_end_parked || behind_q;
  wire read_flag;
  wire read_period;
  assign m_init_done = !initializing;
  assign blocked_rd_data = forward_q ? forward_flag_q : read_flag && read_period == period_q;
  efa_ram #(
      .WIDTH (2),
      .ADDR_W(QPN_W)
  ) u_blocked (
      .clk(clk),
      .wr_en(initializing || s_end_valid),
      .wr_addr(initializing ? init_q[QPN_W-1:0] : end_qpn),
      .wr_data(initializing ? 2'b00 : {end_flag, period_q}),
      .rd_en(1'b1),
      .rd_addr(blocked_rd_addr),
      .rd_data({read_flag, read_period})
  );

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
      period_q <= 1'b0;
      init_q <= {(QPN_W + 1) {1'b0}};
    end else begin
      state_q <= state_d;
      if (!offers) full_q <= level >= MANY;
      arrived_q  <= s_arrived || timer_q == 6'd63 || (arrived_q && !begins);
      timer_q <= timer_q + 6'd1;
      if (begins) left_q <= level;
      else if (again) left_q <= left_q - ONE;
      if (begins) rest_q <= level;
      else if (state_q == ST_OPEN && rest_q != NONE) rest_q <= rest_q - ONE;
      if (begins) period_q <= !period_q;
      if (initializing) init_q <= init_q + ONE_INIT;
    end
    looked_up_q <= blocked_rd_addr;
    forward_q <= s_end_valid && end_qpn == blocked_rd_addr;
    forward_flag_q <= end_flag;
    if (s_step) behind_q <= s_end_valid && end_flag && end_qpn == looked_up_q;
  end

  wire unused_bits = &{1'b0, list_space, end_header, end_dst_qpn};

  `EFA_CHECK(!(parks && !list_space), "efa_rx_park: no space for a parked packet")
  `EFA_CHECK(!(begins && s_end_valid), "efa_rx_park: packet left an empty pipeline")
  `EFA_CHECK(!(initializing && s_end_valid),
             "efa_rx_park: packet before the end of the initialisation")

endmodule

`default_nettype wire
