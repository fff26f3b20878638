// SPDX-License-Identifier: Apache-2.0
// efa_transport_engine - connects the transmit side of SRD: sender, segmenter, responder, packets,
// outstanding sends.
//
// In    s stream: messages as flits; s_ctx_take: a send with a message context; s_ack_rx, s_ack_tx:
//       acknowledgements received and to send; s_scan, s_cancel: outstanding sends to flush or
//       cancel; s_quiesce: no packet begins; s_post: contexts to send; s_gone:
//       transmissions that were not made; s_cfg_paths: paths that exist, constant from rst on;
//       s_cfg_tick: as in efa_srd_tick
// Out   m_net: packets; m_cpl: completions; m_ctx: the next message context; m_completed: new
//       completed counts; m_credit_freed: a send has ended; m_fence: a fence has passed; m_ctx_used:
//       contexts of sends that have not ended; m_send: transmissions; m_popped: a context has left the
//       posted ones; m_incarnation
// Time  docs/timing.md; wires only
`default_nettype none
`include "efa_defs.vh"

module efa_transport_engine #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst_por,
    input wire rst,
    output wire m_init_done,
    input wire s_quiesce,
    output wire m_net_quiet,
    input wire [7:0] s_cfg_paths,
    input wire [7:0] s_cfg_tick,
    input wire [4*(1<<`EFA_LIMITS__AH_W)-1:0] s_ah_gen,
    input wire [(2<<`EFA_LIMITS__MSG_W)-1:0] s_ctx_held,
    output wire [(2<<`EFA_LIMITS__MSG_W)-1:0] m_ctx_used,
    output wire m_ctx_free,
    output wire [31:0] m_ctx_id,
    input wire s_ctx_take,
    input wire [`EFA_TX_MSG__W-1:0] s_ctx_msg,
    input wire [31:0] s_ctx_bytes,
    input wire s_post_valid,
    output wire s_post_ready,
    input wire [`EFA_SRD_POST__W-1:0] s_post_data,
    output wire m_popped_valid,
    output wire [`EFA_LIMITS__MSG_W:0] m_popped_index,
    output wire m_send_valid,
    input wire m_send_ready,
    output wire [`EFA_SRD_SEND__W-1:0] m_send_data,
    output wire m_send_now,
    input wire s_gone_valid,
    output wire s_gone_ready,
    input wire [`EFA_SRD_GONE__W-1:0] s_gone_data,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    output wire [(1<<`EFA_TRANSPORT__READS_W)-1:0] m_response_live,
    input wire response_rd_en,
    input wire [`EFA_LIMITS__MSG_W:0] response_rd_addr,
    output wire [`EFA_READ_RESPONSE__W-1:0] response_rd_data,
    output wire m_more_valid,
    input wire m_more_ready,
    output wire [`EFA_READ_MORE__W-1:0] m_more_data,
    input wire s_placed_valid,
    output wire s_placed_ready,
    input wire [`EFA_READ_PLACED__W-1:0] s_placed_data,
    input wire s_job_valid,
    output wire s_job_ready,
    input wire [`EFA_READ_JOB__W-1:0] s_job_data,
    output wire [(1<<`EFA_LIMITS__NODE_W)-1:0] m_full,
    output wire [15:0] m_incarnation,
    input wire s_valid,
    output wire s_ready,
    input wire s_net,
    input wire s_done,
    input wire s_first,
    input wire s_last,
    input wire [511:0] s_data,
    input wire [63:0] s_keep,
    input wire [`EFA_TX_MSG__W-1:0] s_msg,
    output wire m_net_valid,
    input wire m_net_ready,
    output wire [`EFA_FLIT__W-1:0] m_net_data,
    input wire s_ack_tx_valid,
    output wire s_ack_tx_ready,
    input wire [`EFA_SRD_ACK__BITS-1:0] s_ack_tx_data,
    input wire s_ack_rx_valid,
    output wire s_ack_rx_ready,
    input wire [`EFA_SRD_ACK__BITS-1:0] s_ack_rx_data,
    input wire s_scan_valid,
    output wire s_scan_ready,
    output wire [QPN_W-1:0] scan_set_rd_addr,
    input wire scan_set_rd_data,
    input wire s_cancel_valid,
    output wire s_cancel_ready,
    input wire [QPN_W-1:0] s_cancel_qpn,
    output wire [QPN_W-1:0] qpc_rd_addr,
    input wire [`EFA_QPC__W-1:0] qpc_rd_data,
    output wire [QPN_W-1:0] completed_rd_addr,
    input wire [15:0] completed_rd_data,
    output wire m_completed_valid,
    output wire [QPN_W-1:0] m_completed_qpn,
    output wire [15:0] m_completed_count,
    output wire m_credit_freed,
    output wire m_fence_valid,
    output wire m_fence_id,
    output wire m_cpl_valid,
    input wire m_cpl_ready,
    output wire [`EFA_CPL__W-1:0] m_cpl_data,
    output wire [`EFA_STAT__RESPONSE:`EFA_STAT__ACK_DROP] m_st_valid,
    output wire [32*(`EFA_STAT__RX-`EFA_STAT__TX)-1:0] m_st_bytes,
    output wire ev_tx_first_valid,
    output wire [63:0] ev_tx_first_data,
    output wire ev_tx_last_valid,
    output wire [63:0] ev_tx_last_data,
    output wire ev_ackout_valid,
    output wire [63:0] ev_ackout_data,
    output wire ev_anomaly_ack_valid,
    output wire [63:0] ev_anomaly_ack_data
);

  wire responses_cancelled;
  wire cpl_srd;
  wire [15:0] tx_bytes;
  wire [31:0] cpl_bytes;
  wire [16:0] requested;
  wire done_valid;
  wire done_ready;
  wire [`EFA_TX_MSG__W-1:0] done_msg;
  wire [(2<<`EFA_LIMITS__MSG_W)-1:0] ctx_held;
  wire left_valid;
  wire left_ready;
  wire [`EFA_TX_MSG__W-1:0] left_msg;
  wire end_valid;
  wire end_ready;
  wire [`EFA_SEND_OUTCOME__W-1:0] end_data;
  wire post_valid;
  wire post_ready;
  wire [`EFA_SRD_POST__W-1:0] post_data;
  wire note_valid;
  wire note_ready;
  wire [`EFA_SRD_NOTE__W-1:0] note_data;
  wire packet_valid;
  wire packet_ready;
  wire [`EFA_SRD_POST__W-1:0] packet_data;
  wire packet_popped;
  wire [`EFA_LIMITS__MSG_W+1:0] packet_popped_index;
  wire message_valid;
  wire message_ready;
  wire [`EFA_SRD_POST__W-1:0] message_data;
  wire responses_valid;
  wire [`EFA_SRD_POST__W-1:0] responses_data;
  wire [1:0] post_grant;
  wire responded_valid;
  wire [`EFA_LIMITS__MSG_W:0] responded_index;
  wire responder_init;
  wire outcome_valid;
  wire outcome_ready;
  wire [`EFA_SRD_NOTE__W-1:0] outcome_data;
  wire merged_valid;
  wire merged_ready;
  wire [`EFA_SRD_NOTE__W-1:0] merged_data;
  wire gone_valid;
  wire gone_ready;
  wire [`EFA_SRD_GONE__W-1:0] gone_data;
  wire [(2<<`EFA_LIMITS__MSG_W)-1:0] rnr_held;
  wire [(2<<`EFA_LIMITS__MSG_W)-1:0] long_held;
  wire ctx_end_valid;
  wire [`EFA_LIMITS__MSG_W:0] ctx_end_index;
  wire free_valid;
  wire [`EFA_LIMITS__MSG_W:0] free_index;
  wire rnr_init;
  wire sender_init;
  wire departed_valid;
  wire [`EFA_SRD_SEND__W-1:0] departed_send;
  wire tick;

  efa_srd_sender u_sender (
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .m_init_done(sender_init),
      .s_cfg_paths(s_cfg_paths),
      .s_cfg_tick(s_cfg_tick),
      .m_tick(tick),
      .m_incarnation(m_incarnation),
      .s_post_valid(packet_valid),
      .s_post_ready(packet_ready),
      .s_post_data(packet_data),
      .s_ended(~m_ctx_used),
      .s_purge(s_scan_ready || s_cancel_ready),
      .m_popped_valid(packet_popped),
      .m_popped_index(packet_popped_index),
      .m_send_valid(m_send_valid),
      .m_send_ready(m_send_ready),
      .m_send_data(m_send_data),
      .m_send_now(m_send_now),
      .s_left_valid(departed_valid),
      .s_left_send(departed_send),
      .s_ack_valid(s_ack_rx_valid),
      .s_ack_ready(s_ack_rx_ready),
      .s_ack_data(s_ack_rx_data),
      .s_gone_valid(gone_valid),
      .s_gone_ready(gone_ready),
      .s_gone_data(gone_data),
      .m_note_valid(note_valid),
      .m_note_ready(note_ready),
      .m_note_data(note_data),
      .ev_anomaly_ack_valid(ev_anomaly_ack_valid),
      .ev_anomaly_ack_data(ev_anomaly_ack_data)
  );

  assign m_st_bytes = {15'd0, requested, cpl_bytes, cpl_bytes, cpl_bytes, 16'd0, tx_bytes};
  assign m_st_valid[`EFA_STAT__ACK_DROP] = ev_anomaly_ack_valid;
  assign m_init_done = sender_init && rnr_init && responder_init;
  assign ctx_held = s_ctx_held | rnr_held | long_held;
  assign m_popped_valid = packet_popped && !packet_popped_index[`EFA_LIMITS__MSG_W+1];
  assign m_popped_index = packet_popped_index[`EFA_LIMITS__MSG_W:0];

  efa_tx_rnr u_rnr (
      .clk(clk),
      .rst(rst),
      .s_tick(tick),
      .m_init_done(rnr_init),
      .s_post_valid(s_post_valid),
      .s_post_ready(s_post_ready),
      .s_post_data(s_post_data),
      .s_note_valid(note_valid),
      .s_note_ready(note_ready),
      .s_note_data(note_data),
      .s_ctx_used(m_ctx_used),
      .s_popped_valid(m_popped_valid),
      .s_popped_index(m_popped_index),
      .m_post_valid(post_valid),
      .m_post_ready(post_ready),
      .m_post_data(post_data),
      .m_note_valid(outcome_valid),
      .m_note_ready(outcome_ready),
      .m_note_data(outcome_data),
      .m_ctx_held(rnr_held)
  );

  efa_ctx_end u_ctx_end (
      .clk(clk),
      .rst(rst),
      .s_done_valid(done_valid),
      .s_done_ready(done_ready),
      .s_done_msg(done_msg),
      .s_note_valid(outcome_valid),
      .s_note_ready(outcome_ready),
      .s_note_data(outcome_data),
      .s_gone_valid(s_gone_valid),
      .s_gone_ready(s_gone_ready),
      .s_gone_data(s_gone_data),
      .m_done_valid(left_valid),
      .m_done_ready(left_ready),
      .m_done_msg(left_msg),
      .m_note_valid(merged_valid),
      .m_note_ready(merged_ready),
      .m_note_data(merged_data),
      .m_gone_valid(gone_valid),
      .m_gone_ready(gone_ready),
      .m_gone_data(gone_data)
  );

  efa_tx_segment u_segment (
      .clk(clk),
      .rst(rst),
      .s_tick(tick),
      .s_post_valid(message_valid),
      .s_post_ready(message_ready),
      .s_post_data(message_data),
      .s_popped_valid(packet_popped),
      .s_popped_index(packet_popped_index),
      .s_note_valid(merged_valid),
      .s_note_ready(merged_ready),
      .s_note_data(merged_data),
      .s_placed_valid(s_placed_valid),
      .s_placed_ready(s_placed_ready),
      .s_placed_data(s_placed_data),
      .s_ctx_used(m_ctx_used),
      .m_post_valid(packet_valid),
      .m_post_ready(packet_ready),
      .m_post_data(packet_data),
      .m_ctx_held(long_held),
      .m_outcome_valid(end_valid),
      .m_outcome_ready(end_ready),
      .m_outcome_data(end_data),
      .m_more_valid(m_more_valid),
      .m_more_ready(m_more_ready),
      .m_more_data(m_more_data),
      .m_responded_valid(responded_valid),
      .m_responded_index(responded_index)
  );

  efa_read_responder #(
      .QPN_W(QPN_W)
  ) u_responder (
      .clk(clk),
      .rst(rst),
      .m_init_done(responder_init),
      .s_cfg_profile(s_cfg_profile),
      .s_job_valid(s_job_valid),
      .s_job_ready(s_job_ready),
      .s_job_data(s_job_data),
      .s_cancel_valid(s_cancel_valid),
      .s_cancel_ready(responses_cancelled),
      .s_cancel_qpn(s_cancel_qpn),
      .m_live(m_response_live),
      .m_full(m_full),
      .m_post_valid(responses_valid),
      .m_post_ready(post_grant[1] && message_ready),
      .m_post_data(responses_data),
      .response_rd_en(response_rd_en),
      .response_rd_addr(response_rd_addr),
      .response_rd_data(response_rd_data),
      .st_request_valid(m_st_valid[`EFA_STAT__RESPONSE]),
      .st_request_bytes(requested),
      .s_responded_valid(responded_valid),
      .s_responded_index(responded_index)
  );

  assign message_valid = post_grant != 2'b00;
  assign message_data = post_grant[1] ? responses_data : post_data;
  assign post_ready = post_grant[0] && message_ready;

  efa_arb #(
      .N(2)
  ) u_posts (
      .clk(clk),
      .rst(rst),
      .s_request({responses_valid, post_valid}),
      .s_hold(!message_ready),
      .m_grant(post_grant)
  );

  efa_net_tx u_net_tx (
      .clk(clk),
      .rst(rst),
      .s_quiesce(s_quiesce),
      .m_net_quiet(m_net_quiet),
      .s_valid(s_valid),
      .s_ready(s_ready),
      .s_net(s_net),
      .s_done(s_done),
      .s_first(s_first),
      .s_last(s_last),
      .s_data(s_data),
      .s_keep(s_keep),
      .s_msg(s_msg),
      .s_ack_tx_valid(s_ack_tx_valid),
      .s_ack_tx_ready(s_ack_tx_ready),
      .s_ack_tx_data(s_ack_tx_data),
      .m_net_valid(m_net_valid),
      .m_net_ready(m_net_ready),
      .m_net_data(m_net_data[`EFA_FLIT__DATA]),
      .m_net_keep(m_net_data[`EFA_FLIT__KEEP]),
      .m_net_last(m_net_data[`EFA_FLIT__LAST]),
      .m_left_valid(departed_valid),
      .m_left_send(departed_send),
      .m_done_valid(done_valid),
      .m_done_ready(done_ready),
      .m_done_msg(done_msg),
      .st_tx_valid(m_st_valid[`EFA_STAT__TX]),
      .st_tx_bytes(tx_bytes),
      .ev_tx_first_valid(ev_tx_first_valid),
      .ev_tx_first_data(ev_tx_first_data),
      .ev_tx_last_valid(ev_tx_last_valid),
      .ev_tx_last_data(ev_tx_last_data),
      .ev_ackout_valid(ev_ackout_valid),
      .ev_ackout_data(ev_ackout_data)
  );

  efa_send_tracker #(
      .QPN_W(QPN_W)
  ) u_send_tracker (
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .s_ctx_free_valid(free_valid),
      .s_ctx_free_index(free_index),
      .m_ctx_end_valid(ctx_end_valid),
      .m_ctx_end_index(ctx_end_index),
      .m_ctx_free(m_ctx_free),
      .m_ctx_id(m_ctx_id),
      .s_ctx_take(s_ctx_take),
      .s_ctx_msg(s_ctx_msg),
      .s_ctx_bytes(s_ctx_bytes),
      .s_outcome_valid(end_valid),
      .s_outcome_ready(end_ready),
      .s_outcome_data(end_data),
      .s_done_valid(left_valid),
      .s_done_ready(left_ready),
      .s_done_msg(left_msg),
      .s_scan_valid(s_scan_valid),
      .s_scan_ready(s_scan_ready),
      .scan_set_rd_addr(scan_set_rd_addr),
      .scan_set_rd_data(scan_set_rd_data),
      .s_ah_gen(s_ah_gen),
      .s_cancel_valid(s_cancel_valid && responses_cancelled),
      .s_cancel_ready(s_cancel_ready),
      .s_cancel_qpn(s_cancel_qpn),
      .qpc_rd_addr(qpc_rd_addr),
      .qpc_rd_data(qpc_rd_data),
      .completed_rd_addr(completed_rd_addr),
      .completed_rd_data(completed_rd_data),
      .m_completed_valid(m_completed_valid),
      .m_completed_qpn(m_completed_qpn),
      .m_completed_count(m_completed_count),
      .m_freed(m_credit_freed),
      .m_fence_valid(m_fence_valid),
      .m_fence_id(m_fence_id),
      .m_txc_valid(m_cpl_valid),
      .m_txc_ready(m_cpl_ready),
      .m_txc_data(m_cpl_data),
      .m_txc_srd(cpl_srd)
  );

  efa_ctx_flags u_ctx_flags (
      .clk(clk),
      .rst(rst),
      .s_take_valid(s_ctx_take),
      .s_take_index(m_ctx_id[`EFA_LIMITS__MSG_W:0]),
      .s_end_valid(ctx_end_valid),
      .s_end_index(ctx_end_index),
      .s_held(ctx_held),
      .m_used(m_ctx_used),
      .m_free_valid(free_valid),
      .m_free_index(free_index)
  );

  efa_send_stats u_send_stats (
      .s_cfg_profile(s_cfg_profile),
      .s_cpl_valid(m_cpl_valid && m_cpl_ready),
      .s_cpl_data(m_cpl_data),
      .s_srd(cpl_srd),
      .st_send_valid(m_st_valid[`EFA_STAT__SEND]),
      .st_read_valid(m_st_valid[`EFA_STAT__READ]),
      .st_write_valid(m_st_valid[`EFA_STAT__WRITE]),
      .st_bytes(cpl_bytes),
      .st_read_err_valid(m_st_valid[`EFA_STAT__READ_ERR]),
      .st_write_err_valid(m_st_valid[`EFA_STAT__WRITE_ERR])
  );

endmodule

`default_nettype wire
