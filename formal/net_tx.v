// SPDX-License-Identifier: Apache-2.0
// fv_net_tx - proves efa_net_tx: packets are output complete, unchanged and in order, each
// acknowledgement and each completion once. Neither side waits for more than one packet of the
// other.
`include "efa_defs.vh"

module fv_net_tx (
    input wire clk,
    input wire rst,
    input wire quiesce,
    input wire s_valid,
    input wire s_net,
    input wire s_done,
    input wire s_first,
    input wire s_last,
    input wire [511:0] s_data,
    input wire [63:0] s_keep,
    input wire [`EFA_TX_MSG__W-1:0] s_msg,
    input wire ack_tx_valid,
    input wire [`EFA_SRD_ACK__BITS-1:0] ack_tx_data,
    input wire m_net_ready,
    input wire m_done_ready
);

  localparam [1:0] KIND_BARRIER = 2'd2;

  wire net_quiet;
  wire s_ready;
  wire ack_tx_ready;
  wire m_net_valid;
  wire [511:0] m_net_data;
  wire [63:0] m_net_keep;
  wire m_net_last;
  wire m_done_valid;
  wire [`EFA_TX_MSG__W-1:0] m_done_msg;
  wire st_tx_valid;
  wire [15:0] st_tx_bytes;
  wire ev_tx_first_valid;
  wire [63:0] ev_tx_first_data;
  wire ev_tx_last_valid;
  wire [63:0] ev_tx_last_data;
  wire ev_ackout_valid;
  wire [63:0] ev_ackout_data;

  efa_net_tx u_dut (
      .clk(clk),
      .rst(rst),
      .s_quiesce(quiesce),
      .m_net_quiet(net_quiet),
      .s_valid(s_valid),
      .s_ready(s_ready),
      .s_net(s_net),
      .s_done(s_done),
      .s_first(s_first),
      .s_last(s_last),
      .s_data(s_data),
      .s_keep(s_keep),
      .s_msg(s_msg),
      .s_ack_tx_valid(ack_tx_valid),
      .s_ack_tx_ready(ack_tx_ready),
      .s_ack_tx_data(ack_tx_data),
      .m_net_valid(m_net_valid),
      .m_net_ready(m_net_ready),
      .m_net_data(m_net_data),
      .m_net_keep(m_net_keep),
      .m_net_last(m_net_last),
      .m_done_valid(m_done_valid),
      .m_done_ready(m_done_ready),
      .m_done_msg(m_done_msg),
      .st_tx_valid(st_tx_valid),
      .st_tx_bytes(st_tx_bytes),
      .ev_tx_first_valid(ev_tx_first_valid),
      .ev_tx_first_data(ev_tx_first_data),
      .ev_tx_last_valid(ev_tx_last_valid),
      .ev_tx_last_data(ev_tx_last_data),
      .ev_ackout_valid(ev_ackout_valid),
      .ev_ackout_data(ev_ackout_data)
  );

  (* probe = "u_dut.u_done.level_q" *) wire [4:0] dones;
  (* probe = "u_dut.inside_q" *) wire amid;
  (* probe = "u_dut.acks_turn_q" *) wire acks_turn;
  (* probe = "u_dut.o_valid_q" *) wire o_valid;
  (* probe = "u_dut.o_ack_q" *) wire o_ack;
  (* probe = "u_dut.o_net_q" *) wire o_net;
  (* probe = "u_dut.o_done_q" *) wire o_done;
  (* probe = "u_dut.o_first_q" *) wire o_first;
  (* probe = "u_dut.o_last_q" *) wire o_last;
  (* probe = "u_dut.o_data_q" *) wire [511:0] o_data;
  (* probe = "u_dut.o_keep_q" *) wire [63:0] o_keep;
  (* probe = "u_dut.o_msg_q" *) wire [`EFA_TX_MSG__W-1:0] o_msg;

  reg began_q = 1'b0;
  reg open_in_q;  // a packet is partly accepted
  reg open_out_q;  // a packet is partly output
  reg long_q;  // the packet at the output has more than one flit
  reg held_q;  // a flit is in the block; its content
  reg held_first_q;
  reg held_last_q;
  reg [511:0] held_data_q;
  reg [63:0] held_keep_q;
  reg [1:0] acks_held_q;  // acknowledgements in the block
  reg [5:0] dones_held_q;  // completions and barriers in the block
  reg [1:0] packets_passed_q;  // packet ends while an acknowledgement waits
  reg [1:0] acks_passed_q;  // acknowledgements while a packet waits

  wire take = s_valid && s_ready;
  wire hands = s_done || s_msg[`EFA_TX_MSG__KIND] == KIND_BARRIER;
  wire leave = m_net_valid && m_net_ready;
  wire leave_ack = leave && o_ack;
  wire leave_data = leave && !o_ack;
  wire o_hands = !o_ack && (o_done || o_msg[`EFA_TX_MSG__KIND] == KIND_BARRIER);

  always @(posedge clk) begin
    began_q <= 1'b1;
    if (rst) begin
      open_in_q <= 1'b0;
      open_out_q <= 1'b0;
      held_q <= 1'b0;
      acks_held_q <= 0;
      dones_held_q <= 0;
      packets_passed_q <= 0;
      acks_passed_q <= 0;
      long_q <= 1'b0;
    end else begin
      if (take && s_net) open_in_q <= !s_last;
      if (leave_data) open_out_q <= !m_net_last;
      if (leave_data && open_out_q) long_q <= 1'b1;
      if (take && s_net) held_q <= 1'b1;
      else if (leave_data) held_q <= 1'b0;
      acks_held_q <= acks_held_q + (ack_tx_valid && ack_tx_ready) - leave_ack;
      dones_held_q <= dones_held_q + (take && hands) - (m_done_valid && m_done_ready);
      if (!ack_tx_valid || quiesce || taking_ack) packets_passed_q <= 0;
      else if (take && s_last) packets_passed_q <= packets_passed_q + 1;
      if (!s_may || take) acks_passed_q <= 0;
      else if (taking_ack) acks_passed_q <= acks_passed_q + 1;
    end
    if (take && s_net) begin
      held_first_q <= s_first;
      held_last_q  <= s_last;
      held_data_q  <= s_data;
      held_keep_q  <= s_keep;
    end
  end

  (* probe = "u_dut.take_ack" *) wire taking_ack;
  (* probe = "u_dut.done_space" *) wire done_space;
  wire s_may = s_valid && done_space && (amid || !s_net || !quiesce);
  wire can_take = !m_net_valid || m_net_ready;

  always @* begin
    if (!began_q) a_begin : assume (rst);
    // The flits of a packet are offered from the first to the last, without another flit between.
    a_packet : assume (!s_valid || (open_in_q ? s_net && !s_first : s_first && (s_net || s_last)));
    if (began_q && !rst) begin
      h_inside : assert (amid == open_in_q);
      h_levels : assert (dones <= 5'd16);
      h_held : assert (held_q == (o_valid && o_net && !o_ack));
      h_flit :
      assert (!held_q || (o_first == held_first_q && o_last == held_last_q && o_data == held_data_q
          && o_keep == held_keep_q));
      h_ack : assert (!(o_valid && o_ack) || (o_net && o_last && !held_q));
      h_open :
      assert (held_q ? open_out_q == !held_first_q && open_in_q == !held_last_q
          : open_out_q == open_in_q);
      h_between : assert (!(o_valid && o_ack) || !open_out_q);
      h_dones : assert (dones + (o_valid && o_hands) <= 16);
      h_passed : assert (packets_passed_q == 0 || (acks_turn && !amid));
      h_turn : assert (acks_passed_q == 0 || !acks_turn);
      p_complete : assert (!leave || (leave_ack ? !open_out_q : ev_tx_first_valid == !open_out_q));
      p_same :
      assert ((!(take && s_net && held_q) || leave_data)
          && (!leave_data || (held_q && m_net_data == held_data_q && m_net_keep == held_keep_q
          && m_net_last == held_last_q)));
      p_acks : assert (acks_held_q == (o_valid && o_ack));
      p_done : assert (dones_held_q == dones + (o_valid && o_hands));
      p_ack_waits : assert (packets_passed_q <= 1);
      p_data_waits : assert (acks_passed_q <= 1);
      p_moves :
      assert (!can_take || taking_ack || take || !((ack_tx_valid && !amid && !quiesce) || s_may));
      p_quiet : assert (!net_quiet || !(m_net_valid || open_out_q));
      c_complete : cover (leave_ack && long_q);
      c_same : cover (leave_data && !m_net_last && held_data_q[7:0] == 8'h5a);
      c_acks : cover (leave_ack && taking_ack);
      c_done : cover (m_done_valid && m_done_ready && dones_held_q == 3);
      c_ack_waits : cover (packets_passed_q == 1 && taking_ack);
      c_data_waits : cover (acks_passed_q == 1 && take);
      c_moves : cover (can_take && m_net_valid && taking_ack);
      c_quiet : cover (net_quiet && long_q);
    end
  end

endmodule
