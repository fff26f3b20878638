// SPDX-License-Identifier: Apache-2.0
// efa_net_rx - validates packets from the network by their header and stores them.
//
// In    s_net flits; s_win_pos a byte position to read; s_free slots of packets no longer needed;
//       s_cfg_paths: paths that exist
// Out   m_pkt header, RDMA header, first line and slot of a stored packet; m_ack_rx acknowledgements,
//       which are not stored, as flits; m_win_data 64 bytes from s_win_pos on; m_drop: a packet was malformed;
//       m_stored: a packet is complete; m_released: its lines are free again, in arrival order
// Time  one flit per cycle; m_pkt and m_ack_rx 1 cycle after the last flit; m_win_data 2 cycles
//       after its position; m_released 1 cycle after s_free, one packet per cycle; s_net stalls
//       when 64 packets or 14 acknowledgements are pending, 256 packets are stored, or all lines
//       are in use
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_net_rx (
    input wire clk,
    input wire rst_por,
    input wire rst,
    input wire s_quiesce,
    input wire [15:0] s_cfg_node_id,
    input wire [7:0] s_cfg_paths,
    input wire [(1<<`EFA_LIMITS__NODE_W)-1:0] s_full,

    input wire s_net_valid,
    output wire s_net_ready,
    input wire [511:0] s_net_data,
    input wire [63:0] s_net_keep,
    input wire s_net_last,

    output wire m_pkt_valid,
    input wire m_pkt_ready,
    output wire [`EFA_RX_PKT__W-1:0] m_pkt_data,
    output wire m_stored,
    output wire m_released,

    output wire m_ack_rx_valid,
    input wire m_ack_rx_ready,
    output wire [`EFA_SRD_ACK__BITS-1:0] m_ack_rx_data,

    input wire [14:0] s_win_pos,
    output wire [511:0] m_win_data,

    input wire s_free_valid,
    input wire [7:0] s_free_slot,

    output wire m_drop,

    output wire ev_rx_first_valid,
    output wire [63:0] ev_rx_first_data,
    output wire ev_rx_last_valid,
    output wire [63:0] ev_rx_last_data,
    output wire ev_anomaly_net_valid,
    output wire [63:0] ev_anomaly_net_data
);

  // Widths of the fields of rx_pkt.
  localparam LINE_W = 9;
  localparam SLOT_W = 8;
  localparam HDR_W = `EFA_PKT_HDR__BITS;
  localparam RDMA_W = `EFA_PKT_RDMA__BITS;
  localparam [16:0] LAST_OF_HEADER = `EFA_PKT_HDR__BYTES - 1;
  localparam LINES = 1 << LINE_W;
  localparam SLOTS = 1 << SLOT_W;
  localparam [15:0] MAX_RDMA = `EFA_LIMITS__MAX_MTU + `EFA_PKT_RDMA__BYTES;
  localparam [3:0] NO_FAULT = 4'd0;
  localparam [15:0] ACK_LENGTH = `EFA_SRD_ACK__BYTES - `EFA_SRD_HDR__BYTES;
  localparam PKT_LOG2 = 6;
  localparam ACK_LOG2 = 4;

  // While a reset is pending or in progress, flits are discarded without a report.
  wire away = rst || s_quiesce;

  // Packet framing survives a reset of the core: the rest of the packet is discarded.
  reg inside_q;
  reg bad_q;
  reg [3:0] why_q;
  reg [HDR_W-1:0] header_q;
  reg [RDMA_W-1:0] rdma_q;
  reg [8:0] index_q;

  wire take = s_net_valid && s_net_ready;
  wire first = take && !inside_q;
  wire [HDR_W-1:0] header = inside_q ? header_q : s_net_data[HDR_W-1:0];
  wire [7:0] opcode = header[`EFA_PKT_HDR__OPCODE];
  wire [15:0] length = header[`EFA_PKT_HDR__LENGTH];
  wire is_ack = opcode == `EFA_PKT_OPCODE__SRD_ACK;
  // The validation refuses what it does not execute: without an outcome, the peer sends it again.
  wire is_rdma = opcode == `EFA_PKT_OPCODE__RDMA_WRITE || opcode == `EFA_PKT_OPCODE__READ_REQUEST
      || opcode == `EFA_PKT_OPCODE__READ_RESPONSE;
  wire known = is_ack || opcode == `EFA_PKT_OPCODE__UD_SEND || opcode == `EFA_PKT_OPCODE__SRD_SEND
      || is_rdma;
  wire stranger;
  wire false_field;
  wire ours = header[`EFA_PKT_HDR__DST_NODE] == s_cfg_node_id && !stranger;
  wire [15:0] longest = is_rdma ? MAX_RDMA : `EFA_LIMITS__MAX_MTU;
  wire [16:0] last_byte = {1'b0, length} + LAST_OF_HEADER;
  wire [10:0] last_index = last_byte[16:6];
  wire [8:0] index = inside_q ? index_q : 9'd0;
  wire at_end = {2'b0, index} == last_index;
  wire [63:0] tail_keep = ~({64{1'b1}} << 1 << last_byte[5:0]);
  wire keep_fits = at_end ? s_net_keep == tail_keep : &s_net_keep;
  wire fits = s_net_last == at_end && keep_fits
      && length <= longest && !(is_ack && length != ACK_LENGTH);
  // A read request that has no place is lost.
  wire [15:0] src_node = header[`EFA_PKT_HDR__SRC_NODE];
  wire no_place = opcode == `EFA_PKT_OPCODE__READ_REQUEST
      && s_full[src_node[`EFA_LIMITS__NODE_W-1:0]];
  wire short = !inside_q && !s_net_keep[`EFA_PKT_HDR__BYTES-1];
  wire wrong = !known || !ours || !fits || false_field;
  wire bad = (inside_q && bad_q) || away || wrong || no_place;
  wire [3:0] why = inside_q && bad_q ? why_q : short ? `EFA_TRANSPORT_ANOMALY__LENGTH
      : !known ? `EFA_TRANSPORT_ANOMALY__OPCODE : !ours ? `EFA_TRANSPORT_ANOMALY__NODE
      : false_field ? `EFA_TRANSPORT_ANOMALY__FIELD : !fits ? `EFA_TRANSPORT_ANOMALY__LENGTH : NO_FAULT;
  wire ended = take && s_net_last;
  wire good_end = ended && !bad;
  wire store_end = good_end && !is_ack;

  // Lines are written before the packet is complete, committed with the last flit, and freed in
  // commit order; s_free may free them in any order.
  reg [LINE_W:0] wr_q;
  reg [LINE_W:0] start_q;
  reg [LINE_W:0] rd_q;
  wire [LINE_W:0] used = wr_q - rd_q;
  wire store = take && !is_ack && !bad;
  wire [LINE_W:0] start = inside_q ? start_q : wr_q;

  reg [SLOT_W:0] in_q;
  reg [SLOT_W:0] out_q;
  reg [SLOTS-1:0] gone_q;
  wire [SLOT_W:0] slots = in_q - out_q;
  wire release_one = gone_q[out_q[SLOT_W-1:0]];
  wire [SLOT_W:0] out_next = out_q + {{SLOT_W{1'b0}}, release_one};
  wire [LINE_W:0] wr_next = wr_q + 1'b1;
  wire [LINE_W:0] behind;  // the line after the oldest packet
  assign m_released = release_one;
  efa_ram #(
      .WIDTH (LINE_W + 1),
      .ADDR_W(SLOT_W)
  ) u_ends (
      .clk(clk),
      .wr_en(store_end),
      .wr_addr(in_q[SLOT_W-1:0]),
      .wr_data(wr_next),
      .rd_en(1'b1),
      .rd_addr(out_next[SLOT_W-1:0]),
      .rd_data(behind)
  );

  wire [PKT_LOG2:0] pkt_level;
  wire [ACK_LOG2:0] ack_level;
  wire pkt_space;
  wire ack_space;
  assign s_net_ready = away || (used != LINES[LINE_W:0] && slots != SLOTS[SLOT_W:0] && pkt_level[PKT_LOG2:1] != 6'd31
      && ack_level[ACK_LOG2:1] != 4'd7);

  always @(posedge clk) begin
    if (first) header_q <= s_net_data[HDR_W-1:0];
    if (first) rdma_q <= s_net_data[HDR_W+:RDMA_W];
    if (take) index_q <= index + 9'd1;
    if (rst_por) begin
      inside_q <= 1'b0;
      bad_q <= 1'b0;
    end else begin
      if (take) begin
        inside_q <= !s_net_last;
        bad_q <= bad;
      end else if (away) begin
        bad_q <= 1'b1;
      end
    end
    if (rst) begin
      // A packet that spans the reset has no lines to free, and its fault is not reported.
      why_q <= NO_FAULT;
      start_q <= {(LINE_W + 1) {1'b0}};
      wr_q <= {(LINE_W + 1) {1'b0}};
      rd_q <= {(LINE_W + 1) {1'b0}};
      in_q <= {(SLOT_W + 1) {1'b0}};
      out_q <= {(SLOT_W + 1) {1'b0}};
      gone_q <= {SLOTS{1'b0}};
    end else begin
      if (take) why_q <= why;
      if (first) start_q <= wr_q;
      if (store) begin
        wr_q <= wr_next;
      end else if (take && bad) begin
        // A dropped packet frees its lines; an acknowledgement has none.
        wr_q <= start;
      end
      if (store_end) in_q <= in_q + 1'b1;
      out_q <= out_next;
      if (release_one) begin
        rd_q <= behind;
        gone_q[out_q[SLOT_W-1:0]] <= 1'b0;
      end
      if (s_free_valid) gone_q[s_free_slot] <= 1'b1;
    end
  end

  assign m_stored = store_end;
  // The first two packets bypass the RAM FIFO, whose latency is one cycle longer.
  localparam PKT_W = `EFA_RX_PKT__W;
  wire [PKT_W-1:0] pkt;
  assign pkt[`EFA_RX_PKT__HEADER] = header;
  assign pkt[`EFA_RX_PKT__RDMA] = inside_q ? rdma_q : s_net_data[HDR_W+:RDMA_W];
  assign pkt[`EFA_RX_PKT__LINE]   = start[LINE_W-1:0];
  assign pkt[`EFA_RX_PKT__SLOT]   = in_q[SLOT_W-1:0];
  wire rest_valid;
  wire [PKT_W-1:0] rest;
  wire front_space;
  wire [1:0] front_level;
  wire front = pkt_level == {(PKT_LOG2 + 1) {1'b0}};
  efa_fifo #(
      .WIDTH(PKT_W),
      .DEPTH_LOG2(PKT_LOG2)
  ) u_packets (
      .clk(clk),
      .rst(rst),
      .s_valid(store_end && !(front && front_space)),
      .s_ready(pkt_space),
      .s_data(pkt),
      .m_valid(rest_valid),
      .m_ready(front_space),
      .m_data(rest),
      .m_level(pkt_level)
  );

  efa_fifo #(
      .WIDTH(PKT_W),
      .DEPTH_LOG2(1)
  ) u_front (
      .clk(clk),
      .rst(rst),
      .s_valid(front ? store_end : rest_valid),
      .s_ready(front_space),
      .s_data(front ? pkt : rest),
      .m_valid(m_pkt_valid),
      .m_ready(m_pkt_ready),
      .m_data(m_pkt_data),
      .m_level(front_level)
  );

  efa_srd_fields u_fields (
      .s_cfg_paths(s_cfg_paths),
      .s_header(header),
      .m_stranger(stranger),
      .m_false(false_field)
  );

  efa_fifo #(
      .WIDTH(`EFA_SRD_ACK__BITS),
      .DEPTH_LOG2(ACK_LOG2)
  ) u_acks (
      .clk(clk),
      .rst(rst),
      .s_valid(good_end && is_ack),
      .s_ready(ack_space),
      .s_data(s_net_data),
      .m_valid(m_ack_rx_valid),
      .m_ready(m_ack_rx_ready),
      .m_data(m_ack_rx_data),
      .m_level(ack_level)
  );

  // Two banks: one access reads a window that spans two lines.
  wire [LINE_W-1:0] win_line = s_win_pos[LINE_W+5:6];
  wire [LINE_W-1:0] win_next = win_line + 1'b1;
  reg win_odd_q;
  reg [5:0] win_at_q;
  wire [511:0] even;
  wire [511:0] odd;
  wire [1023:0] two = win_odd_q ? {even, odd} : {odd, even};
  wire [1023:0] shifted = two >> {win_at_q, 3'b000};
  reg [511:0] win_q;
  assign m_win_data = win_q;

  always @(posedge clk) begin
    win_odd_q <= win_line[0];
    win_at_q <= s_win_pos[5:0];
    win_q <= shifted[511:0];
  end

  efa_ram #(
      .WIDTH (512),
      .ADDR_W(LINE_W - 1)
  ) u_even (
      .clk(clk),
      .wr_en(store && !wr_q[0]),
      .wr_addr(wr_q[LINE_W-1:1]),
      .wr_data(s_net_data),
      .rd_en(1'b1),
      .rd_addr(win_line[0] ? win_next[LINE_W-1:1] : win_line[LINE_W-1:1]),
      .rd_data(even)
  );

  efa_ram #(
      .WIDTH (512),
      .ADDR_W(LINE_W - 1)
  ) u_odd (
      .clk(clk),
      .wr_en(store && wr_q[0]),
      .wr_addr(wr_q[LINE_W-1:1]),
      .wr_data(s_net_data),
      .rd_en(1'b1),
      .rd_addr(win_line[LINE_W-1:1]),
      .rd_data(odd)
  );

  wire fault = ended && bad && !away && why != NO_FAULT;
  assign m_drop = fault;

  reg [63:0] rx_first_data;
  reg [63:0] rx_last_data;
  reg [63:0] anomaly_data;
  always @* begin
    rx_first_data = 64'd0;
    rx_first_data[`EFA_EV_RX_FIRST__OPCODE] = opcode;
    rx_first_data[`EFA_EV_RX_FIRST__SRC_QPN] = header[`EFA_PKT_HDR__SRC_QPN];
    rx_first_data[`EFA_EV_RX_FIRST__DST_QPN] = header[`EFA_PKT_HDR__DST_QPN];
    rx_first_data[`EFA_EV_RX_FIRST__LENGTH] = length;
    rx_last_data = 64'd0;
    rx_last_data[`EFA_EV_RX_LAST__OPCODE] = opcode;
    rx_last_data[`EFA_EV_RX_LAST__SRC_QPN] = header[`EFA_PKT_HDR__SRC_QPN];
    rx_last_data[`EFA_EV_RX_LAST__DST_QPN] = header[`EFA_PKT_HDR__DST_QPN];
    anomaly_data = 64'd0;
    anomaly_data[`EFA_EV_ANOMALY_NET__WHAT] = why;
    anomaly_data[`EFA_EV_ANOMALY_NET__DETAIL] = header[31:0];
  end
  assign ev_rx_first_valid = first && !away;
  assign ev_rx_first_data = rx_first_data;
  assign ev_rx_last_valid = good_end;
  assign ev_rx_last_data = rx_last_data;
  assign ev_anomaly_net_valid = fault;
  assign ev_anomaly_net_data = anomaly_data;

  wire unused_bits = &{1'b0, shifted[1023:512], pkt_level[0], ack_level[0], pkt_space, ack_space,
                       front_level, win_next[0], start[LINE_W], src_node};

  `EFA_CHECK(!(store_end && !pkt_space), "efa_net_rx: no space for a packet")
  `EFA_CHECK(used <= LINES[LINE_W:0] && slots <= SLOTS[SLOT_W:0],
             "efa_net_rx: more flits freed than m_stored")
  `EFA_CHECK(!(release_one && slots == {(SLOT_W + 1) {1'b0}}),
             "efa_net_rx: free of a packet that is not m_stored")

endmodule

`default_nettype wire
