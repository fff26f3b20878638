// SPDX-License-Identifier: Apache-2.0
// efa_rx_outcome - stores the outcome of each packet of the receive windows and reports it.
//
// In    s_outcome: outcomes of executed packets; s_again: duplicates; window_rd_data: session and
//       oldest PSN of the peer of window_rd_addr, one cycle later
// Out   m_due: a peer whose acknowledgement is due, or no longer due; m_reply: refusals;
//       accepted_rd_data: stored bits, oldest and session of the peer of accepted_rd_addr, one cycle
//       later
// Time  m_due and m_reply 2 cycles after their cause, one cause per cycle; accepted_rd_data contains
//       an outcome one cycle before its m_due; after rst an initialisation of one cycle per peer
//
// The bits belong to the PSNs from their oldest on, of their session. Each outcome first clears the
// bits of PSNs that oldest has passed since. A reader does the same. An untrusted peer may use a PSN or
// a session again while its packet is executed: two outcomes of one PSN change only the
// acknowledgements of its own packets.
//
// e1 has the outcome and the state of its peer, e2 is the output.
`default_nettype none
`include "efa_defs.vh"

module efa_rx_outcome #(
    parameter NODE_W = `EFA_LIMITS__NODE_W,
    parameter WINDOW_W = `EFA_TRANSPORT__PSN_WINDOW_W
) (
    input wire clk,
    input wire rst,
    output wire m_init_done,
    input wire s_outcome_valid,
    output wire s_outcome_ready,
    input wire [`EFA_SRD_OUTCOME__W-1:0] s_outcome_data,
    input wire s_again_valid,
    output wire s_again_ready,
    input wire [`EFA_SRD_OUTCOME__W-1:0] s_again_data,
    output wire [NODE_W-1:0] window_rd_addr,
    input wire [`EFA_RX_WINDOW__W-1:0] window_rd_data,
    output wire m_due_valid,
    output wire [`EFA_SRD_DUE__W-1:0] m_due_data,
    output wire m_reply_valid,
    input wire m_reply_ready,
    output wire [`EFA_SRD_REPLY__W-1:0] m_reply_data,
    input wire [NODE_W-1:0] accepted_rd_addr,
    output wire [`EFA_RX_WINDOW__W+(1<<WINDOW_W)-1:0] accepted_rd_data
);

  localparam WINDOW = 1 << WINDOW_W;
  localparam PLACE_W = `EFA_RX_WINDOW__W;
  localparam STATE_W = PLACE_W + 2 * WINDOW;
  localparam STATUS_W = 5;
  localparam [WINDOW-1:0] A_SLOT = 1;
  localparam [NODE_W:0] ONE_NODE = 1;

  reg [NODE_W:0] init_q;

  reg e1_valid_q;
  reg [`EFA_SRD_OUTCOME__W-1:0] e1_q;

  // What e1 wrote in the cycle of its reads.
  reg written_q;
  reg [STATE_W-1:0] written_state_q;
  reg stored_q;
  reg [STATUS_W-1:0] stored_status_q;

  reg due_q;
  reg [`EFA_SRD_DUE__W-1:0] due_data_q;
  reg reply_q;
  reg [`EFA_SRD_REPLY__W-1:0] reply_data_q;

  wire initializing = !init_q[NODE_W];
  wire e2_free = !reply_q || m_reply_ready;
  wire e1_free = !e1_valid_q || e2_free;

  // Outcomes and duplicates in turn.
  wire [1:0] grant;
  wire e0_go = !initializing && e1_free && grant != 2'b00;
  wire [`EFA_SRD_OUTCOME__W-1:0] e0 = grant[1] ? s_again_data : s_outcome_data;
  wire [15:0] e0_node = e0[`EFA_SRD_OUTCOME__NODE];
  wire [31:0] e0_psn = e0[`EFA_SRD_OUTCOME__PSN];

  // e1: the outcome against the window.
  wire [15:0] node = e1_q[`EFA_SRD_OUTCOME__NODE];
  wire [31:0] psn = e1_q[`EFA_SRD_OUTCOME__PSN];
  wire [7:0] status = e1_q[`EFA_SRD_OUTCOME__STATUS];
  wire is_again = e1_q[`EFA_SRD_OUTCOME__AGAIN];
  wire [WINDOW_W-1:0] slot = psn[WINDOW_W-1:0];
  wire [15:0] session = window_rd_data[`EFA_RX_WINDOW__SESSION];
  wire [31:0] oldest = window_rd_data[`EFA_RX_WINDOW__OLDEST];
  wire [31:0] at = psn - oldest;
  wire live = e1_q[`EFA_SRD_OUTCOME__SESSION] == session
      && at[31:WINDOW_W] == {32 - WINDOW_W{1'b0}};

  wire [STATE_W-1:0] read;
  wire [WINDOW-1:0] refused_bits;
  wire [WINDOW-1:0] accepted_bits;
  wire [31:0] bits_oldest;
  wire [15:0] bits_session;
  assign {refused_bits, accepted_bits, bits_oldest, bits_session} = written_q ? written_state_q : read;
  wire [WINDOW-1:0] passed;
  wire begins = bits_session != session;
  wire [WINDOW-1:0] kept = begins ? {WINDOW{1'b0}} : ~passed;
  wire [WINDOW-1:0] accepted = accepted_bits & kept;
  wire [WINDOW-1:0] refused = refused_bits & kept;

  wire accepts = !is_again && status == 8'd0;
  wire refuses = !is_again && status != 8'd0;
  wire [WINDOW-1:0] mark = A_SLOT << slot;
  wire [STATE_W-1:0] state = {
    refused | (refuses ? mark : {WINDOW{1'b0}}),
    accepted | (accepts ? mark : {WINDOW{1'b0}}),
    oldest,
    session
  };
  wire [STATUS_W-1:0] status_read;
  wire [STATUS_W-1:0] stored_status = stored_q ? stored_status_q : status_read;
  wire e1_leaves = e1_valid_q && e2_free;
  wire is_due = live && (accepts || (is_again && accepted[slot]));
  wire is_refusal = live && (refuses || (is_again && refused[slot]));

  wire write = initializing || (e1_leaves && live);
  wire [NODE_W-1:0] write_node = initializing ? init_q[NODE_W-1:0] : node[NODE_W-1:0];
  wire [STATE_W-1:0] write_state = initializing ? {STATE_W{1'b0}} : state;
  wire store = e1_leaves && live && refuses;

  reg [`EFA_SRD_DUE__W-1:0] due;
  reg [`EFA_SRD_REPLY__W-1:0] reply;
  always @* begin
    due = {`EFA_SRD_DUE__W{1'b0}};
    due[`EFA_SRD_DUE__NODE] = node;
    due[`EFA_SRD_DUE__PATH] = e1_q[`EFA_SRD_OUTCOME__PATH];
    due[`EFA_SRD_DUE__SESSION] = session;
    due[`EFA_SRD_DUE__DUE] = is_due;
    due[`EFA_SRD_DUE__AGAIN] = is_again;
    due[`EFA_SRD_DUE__BEGINS] = begins;
    reply = {`EFA_SRD_REPLY__W{1'b0}};
    reply[`EFA_SRD_REPLY__NODE] = node;
    reply[`EFA_SRD_REPLY__SRC_QPN] = e1_q[`EFA_SRD_OUTCOME__DST_QPN];
    reply[`EFA_SRD_REPLY__DST_QPN] = e1_q[`EFA_SRD_OUTCOME__SRC_QPN];
    reply[`EFA_SRD_REPLY__REFUSED_PSN] = psn;
    reply[`EFA_SRD_REPLY__SESSION] = session;
    reply[`EFA_SRD_REPLY__PATH] = e1_q[`EFA_SRD_OUTCOME__PATH];
    reply[`EFA_SRD_REPLY__STATUS] = is_again ? {{8 - STATUS_W{1'b0}}, stored_status} : status;
  end

  assign m_init_done = !initializing;
  assign s_outcome_ready = !initializing && e1_free && grant[0];
  assign s_again_ready = !initializing && e1_free && grant[1];
  // The window is read again in each cycle in which e1 waits.
  assign window_rd_addr = e1_free ? e0_node[NODE_W-1:0] : node[NODE_W-1:0];
  assign m_due_valid = due_q;
  assign m_due_data = due_data_q;
  assign m_reply_valid = reply_q;
  assign m_reply_data = reply_data_q;

  efa_arb #(
      .N(2)
  ) u_turns (
      .clk(clk),
      .rst(rst),
      .s_request({s_again_valid, s_outcome_valid}),
      .s_hold(!e0_go),
      .m_grant(grant)
  );

  efa_psn_range #(
      .WINDOW_W(WINDOW_W)
  ) u_passed (
      .s_from(bits_oldest),
      .s_to(oldest),
      .m_slots(passed)
  );

  efa_ram #(
      .WIDTH (STATE_W),
      .ADDR_W(NODE_W)
  ) u_states (
      .clk(clk),
      .wr_en(write),
      .wr_addr(write_node),
      .wr_data(write_state),
      .rd_en(e0_go),
      .rd_addr(e0_node[NODE_W-1:0]),
      .rd_data(read)
  );

  efa_ram #(
      .WIDTH (PLACE_W + WINDOW),
      .ADDR_W(NODE_W)
  ) u_accepted (
      .clk(clk),
      .wr_en(write),
      .wr_addr(write_node),
      .wr_data(write_state[PLACE_W+WINDOW-1:0]),
      .rd_en(1'b1),
      .rd_addr(accepted_rd_addr),
      .rd_data(accepted_rd_data)
  );

  efa_ram #(
      .WIDTH (STATUS_W),
      .ADDR_W(NODE_W + WINDOW_W)
  ) u_statuses (
      .clk(clk),
      .wr_en(store),
      .wr_addr({node[NODE_W-1:0], slot}),
      .wr_data(status[STATUS_W-1:0]),
      .rd_en(e0_go),
      .rd_addr({e0_node[NODE_W-1:0], e0_psn[WINDOW_W-1:0]}),
      .rd_data(status_read)
  );

  always @(posedge clk) begin
    if (rst) begin
      init_q <= {NODE_W + 1{1'b0}};
      e1_valid_q <= 1'b0;
      due_q <= 1'b0;
      reply_q <= 1'b0;
    end else begin
      if (initializing) init_q <= init_q + ONE_NODE;
      if (e1_free) e1_valid_q <= e0_go;
      due_q <= e1_leaves && (is_due || (live && begins));
      if (e2_free) reply_q <= e1_valid_q && is_refusal;
    end
  end

  always @(posedge clk) begin
    due_data_q <= due;
    if (e2_free) reply_data_q <= reply;
    if (e0_go) begin
      e1_q <= e0;
      written_q <= write && write_node == e0_node[NODE_W-1:0];
      written_state_q <= write_state;
      stored_q <= store && node[NODE_W-1:0] == e0_node[NODE_W-1:0]
          && slot == e0_psn[WINDOW_W-1:0];
      stored_status_q <= status[STATUS_W-1:0];
    end
  end

  wire unused_bits = &{1'b0, e0_node, e0_psn, node, at};

endmodule

`default_nettype wire
