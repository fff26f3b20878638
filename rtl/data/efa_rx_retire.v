// SPDX-License-Identifier: Apache-2.0
// efa_rx_retire - retires jobs in order: completion after the data, acknowledgement after both.
//
// In    s_job every job; s_written: the data of a job was accepted; s_done_entry: a CQE was
//       accepted; s_stored, s_released packets stored and released; s_flushed flushed WQEs received;
//       s_request_waits: an accepted read request has not left
// Out   m_rxc completions; m_ack_tx acknowledgements; m_free a slot of the packet buffer; m_done
//       descriptors reported; statistics; m_drained, for one cycle: everything that was inside when
//       s_drain rose has left
// Time  completion in the cycle of the job if its data is out, one job per cycle; acknowledgement 2
//       cycles after the job and 1 after the CQE; 64 jobs may wait for their CQEs
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rx_retire #(
    parameter SLOT_W = 8,
    // log2 of the jobs in front; the data of one job more may be out.
    parameter JOBS_LOG2 = 4
) (
    input wire clk,
    input wire rst,

    input wire s_job_valid,
    output wire s_job_ready,
    input wire [`EFA_RX_JOB__W-1:0] s_job_data,
    input wire s_written,
    input wire s_done_entry,

    output wire m_rxc_valid,
    input wire m_rxc_ready,
    output wire [`EFA_CPL__W-1:0] m_rxc_data,
    output wire m_ack_tx_valid,
    input wire m_ack_tx_ready,
    output wire [`EFA_ACK_TX__W-1:0] m_ack_tx_data,

    output wire m_placed_valid,
    input wire m_placed_ready,
    output wire [`EFA_READ_PLACED__W-1:0] m_placed_data,
    output wire m_free_valid,
    output wire [SLOT_W-1:0] m_free_slot,
    output wire m_done_valid,
    output wire [11:0] m_done_qpn,
    output wire [1:0] m_done_count,

    input  wire s_stored,
    input  wire s_released,
    input  wire s_flushed,
    input  wire s_drain,
    input  wire s_fetches_drained,
    input  wire s_request_waits,
    output wire m_drained,

    input wire [1:0] s_drops,
    output wire st_drop_valid,
    output wire st_rx_valid,
    output wire [15:0] st_rx_bytes,
    output wire st_write_valid,
    output wire [15:0] st_write_bytes,
    output wire st_placed_valid,
    output wire [15:0] st_placed_bytes,
    output wire ev_rx_data_done_valid,
    output wire [63:0] ev_rx_data_done_data
);

  localparam ACK_TX_W = `EFA_ACK_TX__W;
  localparam PENDING_LOG2 = 6;
  localparam DROPS_LOG2 = 7;

  wire [`EFA_CPL__W-1:0] cpl = s_job_data[`EFA_RX_JOB__CPL];
  wire writes = s_job_data[`EFA_RX_JOB__WRITE];
  wire completes = s_job_data[`EFA_RX_JOB__COMPLETE];
  wire acks = s_job_data[`EFA_RX_JOB__ACK];
  wire [15:0] length = s_job_data[`EFA_RX_JOB__LENGTH];

  // Placed read responses.
  wire [1:0] placed_level;
  efa_fifo #(
      .WIDTH(`EFA_READ_PLACED__W),
      .DEPTH_LOG2(1)
  ) u_placed (
      .clk(clk),
      .rst(rst),
      .s_valid(end_of_job && read),
      .s_ready(placed_space),
      .s_data(s_job_data[`EFA_RX_JOB__PLACED]),
      .m_valid(m_placed_valid),
      .m_ready(m_placed_ready),
      .m_data(m_placed_data),
      .m_level(placed_level)
  );

  // Jobs whose data is out and which have not retired.
  reg [JOBS_LOG2:0] written_q;
  wire data_out = !writes || written_q != {(JOBS_LOG2 + 1) {1'b0}};
  wire pending_space;
  wire read = s_job_data[`EFA_RX_JOB__READ];
  wire placed_space;
  wire ready = s_job_valid && data_out && pending_space && placed_space;
  assign m_rxc_valid = ready && completes;
  assign m_rxc_data  = cpl;
  assign s_job_ready = ready && (!completes || m_rxc_ready);
  wire end_of_job = s_job_valid && s_job_ready;

  // Acknowledgements in job order; a job with a completion waits for its CQE.
  wire head_valid;
  wire head_waits;
  wire head_acks;
  wire head_ready;
  wire [PENDING_LOG2:0] pending_level;
  reg [PENDING_LOG2:0] entries_q;
  wire head_free = head_valid && (!head_waits || entries_q != {(PENDING_LOG2 + 1) {1'b0}});
  efa_fifo #(
      .WIDTH(2 + ACK_TX_W),
      .DEPTH_LOG2(PENDING_LOG2)
  ) u_pending (
      .clk(clk),
      .rst(rst),
      .s_valid(end_of_job && (completes || acks)),
      .s_ready(pending_space),
      .s_data({completes, acks, s_job_data[`EFA_RX_JOB__ACK_TX]}),
      .m_valid(head_valid),
      .m_ready(head_ready),
      .m_data({head_waits, head_acks, m_ack_tx_data}),
      .m_level(pending_level)
  );
  assign m_ack_tx_valid = head_free && head_acks;
  assign head_ready   = head_free && (!head_acks || m_ack_tx_ready);

  always @(posedge clk) begin
    if (rst) begin
      written_q <= {(JOBS_LOG2 + 1) {1'b0}};
      entries_q <= {(PENDING_LOG2 + 1) {1'b0}};
    end else begin
      written_q <= written_q + {{JOBS_LOG2{1'b0}}, s_written}
          - {{JOBS_LOG2{1'b0}}, end_of_job && writes};
      entries_q <= entries_q + {{PENDING_LOG2{1'b0}}, s_done_entry}
          - {{PENDING_LOG2{1'b0}}, head_valid && head_ready && head_waits};
    end
  end

  wire packet_gone = end_of_job && s_job_data[`EFA_RX_JOB__PACKET];
  wire flushed_gone = end_of_job && !s_job_data[`EFA_RX_JOB__PACKET];
  assign m_free_valid = packet_gone;
  wire [15:0] slot = s_job_data[`EFA_RX_JOB__SLOT];
  assign m_free_slot = slot[SLOT_W-1:0];
  assign m_done_valid = end_of_job && completes;
  assign m_done_qpn   = cpl[`EFA_CPL__QPN];
  assign m_done_count = s_job_data[`EFA_RX_JOB__COUNT];

  // Packets and flushed WQEs each leave in arrival order. A drain is done when the counts out have
  // reached the counts in at its start.
  reg [15:0] packets_in_q;
  reg [15:0] packets_out_q;
  reg [15:0] packets_fence_q;
  reg [15:0] flushed_in_q;
  reg [15:0] flushed_out_q;
  reg [15:0] flushed_fence_q;
  reg draining_q;
  wire [15:0] packets_left = packets_fence_q - packets_out_q;
  wire [15:0] flushed_left = flushed_fence_q - flushed_out_q;
  assign m_drained = draining_q && s_fetches_drained && !s_request_waits
      && (packets_left == 16'd0 || packets_left[15])
      && (flushed_left == 16'd0 || flushed_left[15]);

  // Two modules may drop a packet in the same cycle; both drops count. Fewer drops are pending than
  // packets are stored: a flit from the network ends in at most one drop.
  reg [1:0] dropped_q;
  reg [DROPS_LOG2:0] drops_q;
  wire drop_out = drops_q != {(DROPS_LOG2 + 1) {1'b0}};
  assign st_drop_valid = drop_out;
  always @(posedge clk) begin
    if (s_drain && !draining_q) begin
      packets_fence_q <= packets_in_q;
      flushed_fence_q <= flushed_in_q;
    end
    if (rst) begin
      packets_in_q <= 16'd0;
      packets_out_q <= 16'd0;
      flushed_in_q <= 16'd0;
      flushed_out_q <= 16'd0;
      draining_q <= 1'b0;
      dropped_q <= 2'b00;
      drops_q <= {(DROPS_LOG2 + 1) {1'b0}};
    end else begin
      packets_in_q <= packets_in_q + {15'd0, s_stored};
      packets_out_q <= packets_out_q + {15'd0, s_released};
      flushed_in_q <= flushed_in_q + {15'd0, s_flushed};
      flushed_out_q <= flushed_out_q + {15'd0, flushed_gone};
      draining_q <= s_drain && !m_drained;
      dropped_q <= s_drops;
      drops_q <= drops_q + {{DROPS_LOG2{1'b0}}, dropped_q[0]}
          + {{DROPS_LOG2{1'b0}}, dropped_q[1]} - {{DROPS_LOG2{1'b0}}, drop_out};
    end
  end

  wire rdma = s_job_data[`EFA_RX_JOB__RDMA];
  assign st_rx_valid = m_done_valid && !rdma && cpl[`EFA_CPL__STATUS] == `EFA_IO_COMP_STATUS__OK;
  assign st_rx_bytes = length;
  assign st_write_valid = end_of_job && rdma && !read;
  assign st_write_bytes = length;
  assign st_placed_valid = end_of_job && rdma && read;
  assign st_placed_bytes = length;

  reg [63:0] ev_data;
  always @* begin
    ev_data = 64'd0;
    ev_data[`EFA_EV_RX_DATA_DONE__QPN] = cpl[`EFA_CPL__QPN];
    ev_data[`EFA_EV_RX_DATA_DONE__REQ_ID] = cpl[`EFA_CPL__REQ_ID];
  end
  // An accepted read request has no payload and no completion.
  wire [ACK_TX_W-1:0] ack_tx = s_job_data[`EFA_RX_JOB__ACK_TX];
  wire request = s_job_data[`EFA_RX_JOB__PACKET] && acks && !completes && !read && !s_job_data[`EFA_RX_JOB__DROP]
      && ack_tx[`EFA_ACK_TX__STATUS] == `EFA_IO_COMP_STATUS__OK;
  assign ev_rx_data_done_valid = st_rx_valid || (end_of_job && (rdma || request));
  assign ev_rx_data_done_data  = ev_data;

  wire unused_bits = &{1'b0, s_job_data, ack_tx, slot, pending_level, placed_level};

  `EFA_CHECK(written_q <= {1'b1, {JOBS_LOG2{1'b0}}} + 1'b1, "data of more jobs than are pending")
  `EFA_CHECK(!(&drops_q && &dropped_q), "overflow of the count of pending drops")

endmodule

`default_nettype wire
