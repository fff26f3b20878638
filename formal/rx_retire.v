// SPDX-License-Identifier: Apache-2.0
// fv_rx_retire - proves efa_rx_retire: every job ends once, in order: its completion after its
// data, its acknowledgement after both, the slot of its packet freed. A drain lasts until all jobs
// present at its begin have ended.
`include "efa_defs.vh"

module fv_rx_retire #(
    parameter SLOT_W = 8
) (
    input wire clk,
    input wire rst,
    input wire s_job_valid,
    input wire [`EFA_RX_JOB__W-1:0] s_job_data,
    input wire s_written,
    input wire s_done_entry,
    input wire m_rxc_ready,
    input wire m_ack_tx_ready,
    input wire s_stored,
    input wire s_released,
    input wire s_flushed,
    input wire s_drain,
    input wire s_fetches_drained,
    input wire s_request_waits,
    input wire [1:0] s_drops,
    input wire pick
);

  localparam LOG2 = 6;
  localparam [LOG2:0] FULL = 1 << LOG2;
  localparam ITEM_W = 2 + `EFA_ACK_TX__W;
  localparam [15:0] MOST = 16'd4096;  // maximum number of packets, and of flushed WQEs, inside

  wire s_job_ready;
  wire m_rxc_valid;
  wire [`EFA_CPL__W-1:0] m_rxc_data;
  wire m_ack_tx_valid;
  wire [`EFA_ACK_TX__W-1:0] m_ack_tx_data;
  wire m_free_valid;
  wire [SLOT_W-1:0] m_free_slot;
  wire m_done_valid;
  wire [11:0] m_done_qpn;
  wire [1:0] m_done_count;
  wire m_drained;
  wire st_drop_valid;
  wire st_rx_valid;
  wire [15:0] st_rx_bytes;
  wire st_write_valid;
  wire [15:0] st_write_bytes;
  wire ev_rx_data_done_valid;
  wire [63:0] ev_rx_data_done_data;

  efa_rx_retire #(
      .SLOT_W(SLOT_W)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .s_job_valid(s_job_valid),
      .s_job_ready(s_job_ready),
      .s_job_data(s_job_data),
      .s_written(s_written),
      .s_done_entry(s_done_entry),
      .m_rxc_valid(m_rxc_valid),
      .m_rxc_ready(m_rxc_ready),
      .m_rxc_data(m_rxc_data),
      .m_ack_tx_valid(m_ack_tx_valid),
      .m_ack_tx_ready(m_ack_tx_ready),
      .m_ack_tx_data(m_ack_tx_data),
      .m_free_valid(m_free_valid),
      .m_free_slot(m_free_slot),
      .m_done_valid(m_done_valid),
      .m_done_qpn(m_done_qpn),
      .m_done_count(m_done_count),
      .s_stored(s_stored),
      .s_released(s_released),
      .s_flushed(s_flushed),
      .s_drain(s_drain),
      .s_fetches_drained(s_fetches_drained),
      .s_request_waits(s_request_waits),
      .m_drained(m_drained),
      .s_drops(s_drops),
      .st_drop_valid(st_drop_valid),
      .st_rx_valid(st_rx_valid),
      .st_rx_bytes(st_rx_bytes),
      .st_write_valid(st_write_valid),
      .st_write_bytes(st_write_bytes),
      .ev_rx_data_done_valid(ev_rx_data_done_valid),
      .ev_rx_data_done_data(ev_rx_data_done_data)
  );

  (* probe = "u_dut.written_q" *) wire [4:0] data_ready;
  (* probe = "u_dut.entries_q" *) wire [LOG2:0] entries;
  (* probe = "u_dut.head_valid" *) wire head_valid;
  (* probe = "u_dut.head_ready" *) wire head_ready;
  (* probe = "u_dut.head_waits" *) wire head_waits;
  (* probe = "u_dut.head_acks" *) wire head_acks;
  (* probe = "u_dut.u_pending.level_q" *) wire [LOG2:0] level;
  (* probe = "u_dut.u_pending.g_ram.head_q" *) wire head;
  (* probe = "u_dut.u_pending.g_ram.stored_q" *) wire [LOG2:0] in_ram;
  (* probe = "u_dut.u_pending.wr_addr_q" *) wire [LOG2-1:0] wr_addr;
  (* probe = "u_dut.u_pending.rd_addr_q" *) wire [LOG2-1:0] rd_addr;
  (* probe = "u_dut.u_pending.g_ram.u_ram.word_addr" *) wire [LOG2-1:0] word_addr;
  (* probe = "u_dut.u_pending.g_ram.u_ram.word_known_q" *) wire word_known;
  (* probe = "u_dut.u_pending.g_ram.u_ram.word_q" *) wire [ITEM_W-1:0] word;
  (* probe = "u_dut.packets_in_q" *) wire [15:0] packets_in;
  (* probe = "u_dut.packets_out_q" *) wire [15:0] packets_out;
  (* probe = "u_dut.packets_fence_q" *) wire [15:0] packets_fence;
  (* probe = "u_dut.flushed_in_q" *) wire [15:0] flushed_in;
  (* probe = "u_dut.flushed_out_q" *) wire [15:0] flushed_out;
  (* probe = "u_dut.flushed_fence_q" *) wire [15:0] flushed_fence;
  (* probe = "u_dut.draining_q" *) wire draining;
  (* probe = "u_dut.drops_q" *) wire [7:0] drops;
  (* probe = "u_dut.dropped_q" *) wire [1:0] dropped;

  reg began_q = 1'b0;
  reg job_stood_q;
  reg [`EFA_RX_JOB__W-1:0] job_q;
  reg drain_stood_q;
  reg [15:0] data_q;  // unfinished jobs whose data is written
  reg [LOG2:0] waits_q;  // acknowledgements (or jobs without one) that wait for a CQE
  reg [LOG2:0] out_q;  // written CQEs not matched to a job yet
  reg followed_q;
  reg there_q;
  reg [LOG2:0] ahead_q;
  reg [LOG2:0] waits_ahead_q;  // waits_q before the followed job
  reg [ITEM_W-1:0] item_q;
  reg [15:0] completes_q;  // completions handed over, CQEs written
  reg [15:0] entries_q;
  reg [15:0] number_q;  // completions up to the followed job
  reg [15:0] inside_p_q;  // packets in the block, flushed WQEs in the block
  reg [15:0] inside_f_q;
  reg [15:0] before_p_q;  // of those, in the block at the begin of the drain
  reg [15:0] before_f_q;
  reg [15:0] passed_p_q;  // ended since the last of those ended
  reg [15:0] passed_f_q;
  reg [8:0] drops_left_q;
  reg drops_seen_q;
  reg drained_seen_q;

  wire ends = s_job_valid && s_job_ready;
  wire completes = s_job_data[`EFA_RX_JOB__COMPLETE];
  wire acks = s_job_data[`EFA_RX_JOB__ACK];
  wire writes = s_job_data[`EFA_RX_JOB__WRITE];
  wire packet = s_job_data[`EFA_RX_JOB__PACKET];
  wire [15:0] slot = s_job_data[`EFA_RX_JOB__SLOT];
  wire push = ends && (completes || acks);
  wire pop = head_valid && head_ready;
  wire mine = there_q && ahead_q == 0;
  wire own = item_q[ITEM_W-1];
  wire gone_f = ends && !packet;

  always @(posedge clk) begin
    began_q <= 1'b1;
    job_stood_q <= !rst && s_job_valid && !s_job_ready;
    job_q <= s_job_data;
    drain_stood_q <= !rst && s_drain && !m_drained;
    if (rst) begin
      data_q <= 0;
      waits_q <= 0;
      out_q <= 0;
      followed_q <= 1'b0;
      there_q <= 1'b0;
      completes_q <= 0;
      entries_q <= 0;
      inside_p_q <= 0;
      inside_f_q <= 0;
      before_p_q <= 0;
      before_f_q <= 0;
      passed_p_q <= 0;
      passed_f_q <= 0;
      drops_left_q <= 0;
      drops_seen_q <= 1'b0;
      drained_seen_q <= 1'b0;
    end else begin
      data_q <= data_q + s_written - (ends && writes);
      waits_q <= waits_q + (push && completes) - (pop && head_waits);
      out_q <= out_q + s_done_entry - (pop && head_waits);
      completes_q <= completes_q + (m_rxc_valid && m_rxc_ready);
      entries_q <= entries_q + s_done_entry;
      inside_p_q <= inside_p_q + s_stored - s_released;
      inside_f_q <= inside_f_q + s_flushed - gone_f;
      if (!draining) begin
        before_p_q <= inside_p_q - s_released;
        before_f_q <= inside_f_q - gone_f;
      end else begin
        before_p_q <= before_p_q - (s_released && before_p_q != 0);
        before_f_q <= before_f_q - (gone_f && before_f_q != 0);
      end
      passed_p_q <= !draining ? 0 : passed_p_q + (s_released && before_p_q == 0);
      passed_f_q <= !draining ? 0 : passed_f_q + (gone_f && before_f_q == 0);
      if (drops_left_q == 2) drops_seen_q <= 1'b1;
      if (m_drained) drained_seen_q <= 1'b1;
      drops_left_q <= drops_left_q + s_drops[0] + s_drops[1] - st_drop_valid;
      if (push && pick && !followed_q && wr_addr == word_addr) begin
        followed_q <= 1'b1;
        there_q <= 1'b1;
        ahead_q <= level - pop;
        waits_ahead_q <= waits_q - (pop && head_waits);
        item_q <= {completes, acks, s_job_data[`EFA_RX_JOB__ACK_TX]};
        number_q <= completes_q + completes;
      end else if (pop && there_q) begin
        if (mine) there_q <= 1'b0;
        else begin
          ahead_q <= ahead_q - 1;
          waits_ahead_q <= waits_ahead_q - head_waits;
        end
      end
    end
  end

  wire [LOG2:0] behind = {1'b0, rd_addr} + ahead_q - (head ? 1'b1 : 1'b0);
  wire in_head = mine && head;

  always @* begin
    if (!began_q) a_begin : assume (rst);
    a_job_stays : assume (!job_stood_q || (s_job_valid && s_job_data == job_q));
    a_drain_stays : assume (!drain_stood_q || s_drain);
    // Only waiting jobs have written data; CQEs belong to completions.
    a_data : assume (!s_written || data_q < 17);
    a_entries : assume (!s_done_entry || out_q < waits_q);
    // Packets and WQEs enter before they leave; drops are fewer than stored packets.
    a_packets : assume ((!s_released || inside_p_q != 0) && inside_p_q <= MOST);
    a_flushes : assume ((!gone_f || inside_f_q != 0) && inside_f_q <= MOST);
    a_drops : assume (drops_left_q <= 255);
    // During a drain, fewer packets and fewer WQEs end than half the range of the counters.
    a_passed : assume (passed_p_q < 16'd32000 && passed_f_q < 16'd32000);
    // The FIFO returns only items that entered, of either kind (fifo.order).
    a_store : assume (!pop || (head_waits ? waits_q != 0 : waits_q != level));
    a_store_ahead :
    assume (!(pop && there_q && !mine)
        || (head_waits ? waits_ahead_q != 0 : waits_ahead_q != ahead_q));
    if (began_q && !rst) begin
      h_data : assert (data_ready == data_q && data_q <= 17);
      h_levels :
      assert (level == in_ram + head && level <= FULL && in_ram <= FULL
          && head == head_valid && waits_q <= level);
      h_span : assert (wr_addr == rd_addr + in_ram[LOG2-1:0]);
      h_entries : assert (entries == out_q && out_q <= waits_q);
      h_completes : assert (entries_q - out_q == completes_q - waits_q);
      h_ahead :
      assert (!there_q || (followed_q && ahead_q < level && waits_ahead_q <= ahead_q
          && waits_ahead_q + own <= waits_q));
      h_head : assert (!in_head || {head_waits, head_acks, m_ack_tx_data} == item_q);
      h_place :
      assert (!there_q || in_head || (word_addr == behind[LOG2-1:0] && word_known
          && word == item_q));
      h_number : assert (!there_q || number_q - (completes_q - waits_q) == waits_ahead_q + own);
      h_inside :
      assert (packets_in - packets_out == inside_p_q && flushed_in - flushed_out == inside_f_q);
      h_before :
      assert (before_p_q <= inside_p_q && before_f_q <= inside_f_q && (!draining
          || ((before_p_q == 0 || packets_fence - packets_out == before_p_q)
          && (before_f_q == 0 || flushed_fence - flushed_out == before_f_q))));
      h_passed :
      assert (!draining || ((before_p_q != 0 ? passed_p_q == 0
          : packets_out - packets_fence == passed_p_q) && (before_f_q != 0 ? passed_f_q == 0
          : flushed_out - flushed_fence == passed_f_q)));
      p_data : assert (!(ends && writes) || data_q != 0);
      p_completion :
      assert ((m_rxc_valid && m_rxc_ready) == (ends && completes)
          && (!m_rxc_valid || m_rxc_data == s_job_data[`EFA_RX_JOB__CPL]));
      p_slot :
      assert (m_free_valid == (ends && packet)
          && (!m_free_valid || m_free_slot == slot[SLOT_W-1:0]));
      p_report :
      assert (m_done_valid == (ends && completes) && (!m_done_valid
          || m_done_count == s_job_data[`EFA_RX_JOB__COUNT]));
      p_ack :
      assert (!(mine && pop) || ((m_ack_tx_valid && m_ack_tx_ready) == item_q[ITEM_W-2]
          && (!m_ack_tx_valid || m_ack_tx_data == item_q[`EFA_ACK_TX__W-1:0])));
      p_only : assert (!(m_ack_tx_valid && m_ack_tx_ready) || pop);
      p_entry : assert (!(mine && m_ack_tx_valid) || !own || entries_q - number_q <= 16'd64);
      p_drops : assert (drops_left_q == drops + dropped[0] + dropped[1]);
      p_drain :
      assert (!m_drained || (before_p_q == 0 && before_f_q == 0 && s_fetches_drained && !s_request_waits));
      p_drain_ends :
      assert (!(draining && before_p_q == 0 && before_f_q == 0 && s_fetches_drained && !s_request_waits) || m_drained);
      c_data : cover (ends && writes && data_q == 2);
      c_completion : cover (ends && completes && completes_q == 2);
      c_slot : cover (m_free_valid && m_free_slot == 8'd5);
      c_report : cover (m_done_valid && m_done_count == 2'd2 && writes);
      c_ack : cover (mine && pop && item_q[ITEM_W-2] && number_q == 3);
      c_only : cover (m_ack_tx_valid && m_ack_tx_ready && level == 3);
      c_entry : cover (mine && m_ack_tx_valid && own && number_q == 2);
      c_drops : cover (drops_left_q == 0 && drops_seen_q);
      c_drain : cover (m_drained && inside_p_q == 2 && drained_seen_q);
      c_drain_ends : cover (draining && before_p_q == 1 && before_f_q == 1);
    end
  end

endmodule
