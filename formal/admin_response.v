// SPDX-License-Identifier: Apache-2.0
// fv_admin_response - proves one response per admin command: efa_dispatch and efa_acq_write with
// models of the units. As the bench of each unit checks, a unit accepts a command when idle,
// responds once with its id after any time, and becomes idle. The wrapper follows one command of
// the solver's choice from the dispatcher to its ACQE, and counts all commands.
`include "efa_defs.vh"
`include "efa_admin.vh"

module fv_admin_response #(
    parameter UNITS = 7
) (
    input wire clk,
    input wire rst,
    input wire s_cmd_valid,
    input wire [511:0] s_cmd_data,
    input wire s_cmd_err,
    input wire s_cmd_bad,
    input wire acq_on,
    input wire acq_start,
    input wire m_wr_ready,
    input wire [UNITS-1:0] unit_ready,
    input wire [8*UNITS-1:0] unit_status,
    input wire pick
);

  localparam SOURCES = UNITS + 1;
  localparam BODY_W = `EFA_ADMIN_BODY_W;

  wire s_cmd_ready;
  wire [UNITS-1:0] m_cmd_valid;
  wire [511:0] m_cmd_data;
  wire refusal_valid;
  wire [11:0] refusal_id;
  wire [7:0] refusal_status;
  wire [SOURCES-1:0] rsp_ready;
  wire m_wr_valid;
  wire [511:0] m_wr_data;
  wire m_note_valid;

  // Models of the units.
  reg [UNITS-1:0] busy_q;
  reg [UNITS-1:0] ends_q;  // the response is offered
  reg [12*UNITS-1:0] id_q;
  reg [8*UNITS-1:0] status_q;
  wire [UNITS-1:0] unit_accepts = m_cmd_valid & ~busy_q;

  efa_dispatch #(
      .UNITS(UNITS)
  ) u_dispatch (
      .clk(clk),
      .rst(rst),
      .s_cmd_valid(s_cmd_valid),
      .s_cmd_ready(s_cmd_ready),
      .s_cmd_data(s_cmd_data),
      .s_cmd_err(s_cmd_err),
      .s_cmd_bad(s_cmd_bad),
      .m_cmd_valid(m_cmd_valid),
      .m_cmd_ready(~busy_q),
      .s_unit_idle(~busy_q),
      .m_cmd_data(m_cmd_data),
      .m_rsp_valid(refusal_valid),
      .m_rsp_ready(rsp_ready[UNITS]),
      .m_rsp_id(refusal_id),
      .m_rsp_status(refusal_status)
  );

  efa_acq_write #(
      .SOURCES(SOURCES)
  ) u_post (
      .clk(clk),
      .rst(rst),
      .s_cfg_acq_on(acq_on),
      .s_cfg_acq_crc(1'b0),
      .s_acq_start(acq_start),
      .s_cfg_acq_base(64'd0),
      .s_cfg_acq_log(4'd5),
      .s_rsp_valid({refusal_valid, ends_q}),
      .s_rsp_ready(rsp_ready),
      .s_rsp_id({refusal_id, id_q}),
      .s_rsp_status({refusal_status, status_q}),
      .s_rsp_body({BODY_W * SOURCES{1'b0}}),
      .m_wr_valid(m_wr_valid),
      .m_wr_ready(m_wr_ready),
      .m_wr_data(m_wr_data),
      .m_note_valid(m_note_valid)
  );

  (* probe = "u_dispatch.valid_q" *) wire waits;
  (* probe = "u_dispatch.unit_q" *) wire [UNITS-1:0] family;
  (* probe = "u_dispatch.refuse_q" *) wire refused;
  (* probe = "u_dispatch.err_q" *) wire unread;
  (* probe = "u_dispatch.cmd_q" *) wire [511:0] cmd;
  (* probe = "u_post.state_q" *) wire [2:0] post;
  (* probe = "u_post.id_q" *) wire [11:0] post_id;
  (* probe = "u_post.entry_q" *) wire [511:0] entry;

  localparam [2:0] POST_IDLE = 3'd0;
  localparam [2:0] POST_ENTRY = 3'd1;
  localparam [1:0] AT_DISPATCH = 2'd0;
  localparam [1:0] AT_UNIT = 2'd1;
  localparam [1:0] AT_POST = 2'd2;
  localparam [UNITS-1:0] ONE = 1;

  reg began_q = 1'b0;
  reg [4:0] open_q;  // commands accepted, without a response, not dropped since the ACQ is disabled
  reg followed_q;
  reg [1:0] at_q;
  reg [UNITS-1:0] unit_q;  // unit that executes the command
  reg [11:0] what_q;
  reg [1:0] rsps_q;  // ACQEs written for the followed command, up to two
  reg over_q;
  reg [3:0] lost_q;

  wire take = s_cmd_valid && s_cmd_ready;
  wire gives = (rsp_ready & {refusal_valid, ends_q}) != 0;
  wire off = post == POST_ENTRY && !acq_on;
  wire written = m_wr_valid && m_wr_ready;
  wire leaves = waits && s_cmd_ready;
  wire [11:0] cmd_id = cmd[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__COMMAND_ID__COMMAND_ID];
  wire [11:0] new_id = s_cmd_err ? 12'd0
      : s_cmd_data[`EFA_ADMIN_AQ_ENTRY__AQ_COMMON_DESCRIPTOR__COMMAND_ID__COMMAND_ID];
  wire [11:0] written_id = m_wr_data[`EFA_ADMIN_ACQ_ENTRY__ACQ_COMMON_DESCRIPTOR__COMMAND_ID];
  wire mine_gives = at_q == AT_UNIT ? (unit_q & ends_q & rsp_ready[UNITS-1:0]) != 0
      : at_q == AT_DISPATCH && refusal_valid && rsp_ready[UNITS];
  integer u;
  reg [3:0] working;
  reg [11:0] mine_id;
  always @* begin
    working = 0;
    mine_id = 0;
    for (u = 0; u < UNITS; u = u + 1) begin
      working = working + busy_q[u];
      if (unit_q[u]) mine_id = id_q[12*u+:12];
    end
  end

  always @(posedge clk) begin
    began_q <= 1'b1;
    if (rst) begin
      busy_q <= 0;
      ends_q <= 0;
      open_q <= 0;
      followed_q <= 1'b0;
      over_q <= 1'b0;
      rsps_q <= 0;
    end else begin
      busy_q <= (busy_q | unit_accepts) & ~(ends_q & rsp_ready[UNITS-1:0]);
      ends_q <= (ends_q | (busy_q & unit_ready)) & ~(ends_q & rsp_ready[UNITS-1:0]);
      open_q <= open_q + take - written - (gives && !acq_on) - off;
      if (take && pick && !followed_q) begin
        followed_q <= 1'b1;
        at_q <= AT_DISPATCH;
        what_q <= new_id;
      end else if (followed_q && !over_q) begin
        if (at_q == AT_DISPATCH && unit_accepts != 0) begin
          at_q   <= AT_UNIT;
          unit_q <= unit_accepts;
        end else if (mine_gives) begin
          at_q   <= AT_POST;
          over_q <= !acq_on;
        end else if (at_q == AT_POST && (written || off)) over_q <= 1'b1;
      end
      if (followed_q && at_q == AT_POST && !over_q && written) rsps_q <= rsps_q + 1;
    end
    for (u = 0; u < UNITS; u = u + 1) begin
      if (unit_accepts[u]) begin
        id_q[12*u+:12] <= cmd_id;
        status_q[8*u+:8] <= unit_status[8*u+:8];
      end
    end
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    if (began_q && !rst) begin
      h_units :
      assert ((ends_q & ~busy_q) == 0 && (!waits || (family & (family - ONE)) == 0)
          && (!waits || refused == (family == 0)));
      h_open : assert (open_q == {4'd0, waits} + {1'b0, working} + (post != POST_IDLE));
      h_post : assert (post <= 3'd4);
      h_entry :
      assert (post == POST_IDLE || post == POST_ENTRY
          || entry[`EFA_ADMIN_ACQ_ENTRY__ACQ_COMMON_DESCRIPTOR__COMMAND_ID] == post_id);
      h_unread : assert (!(waits && unread) || refused);
      h_rsps : assert (rsps_q == 0 || over_q);
      p_id :
      assert (!(followed_q && !over_q && at_q == AT_POST && written) || written_id == what_q);
      p_none : assert (!written || open_q != 0);
      p_all : assert (open_q == {4'd0, waits} + {1'b0, working} + (post != POST_IDLE));
      p_once :
      assert (rsps_q <= 1 && (!over_q || rsps_q == 1 || dropped_q)
          && (!followed_q || over_q || (at_q == AT_POST && post != POST_IDLE && post_id == what_q)
          || (at_q == AT_UNIT && (unit_q & ~busy_q) == 0 && unit_q != 0
          && (unit_q & (unit_q - ONE)) == 0 && mine_id == what_q)
          || (at_q == AT_DISPATCH && waits && what_q == (unread ? 12'd0 : cmd_id))));
      p_refused : assert (!(waits && refused) || m_cmd_valid == 0);
      p_order :
      assert ((m_cmd_valid & (m_cmd_valid - ONE)) == 0
          && (!leaves || refused || unit_accepts != 0));
      p_turn : assert (lost_q < SOURCES);
      c_id :
      cover (followed_q && at_q == AT_POST && written && unit_q == ONE << 4 && what_q == 12'd7);
      c_none : cover (written && open_q == 5);
      c_all : cover (working == 4 && waits && post != POST_IDLE);
      c_once : cover (over_q && rsps_q == 1 && unit_q == ONE);
      c_refused : cover (waits && refused && written);
      c_order : cover (leaves && !refused && working == 3);
      c_turn : cover (lost_q == 3 && mine_turn);
    end
  end

  // The followed command is dropped: the ACQ is disabled when its response is granted.
  reg dropped_q;
  always @(posedge clk) begin
    if (rst) dropped_q <= 1'b0;
    else if (followed_q && !over_q && ((mine_gives && !acq_on) || (at_q == AT_POST && off))) begin
      dropped_q <= 1'b1;
    end
  end

  // A source of the solver's choice, and the number of others served while its request is pending.
  (* anyconst *) wire [SOURCES-1:0] me;
  (* probe = "u_post.u_arb.after_q" *) wire [SOURCES-1:0] after;
  wire mine_requests = ({refusal_valid, ends_q} & me) != 0;
  wire mine_turn = (rsp_ready & me) != 0;
  reg [3:0] earlier;
  integer k;
  always @* begin
    a_choice : assume (me != 0 && (me & (me - 1)) == 0);
    // Sources before it in the round robin.
    earlier = 0;
    for (k = 0; k < SOURCES; k = k + 1) begin
      if ((after & me) != 0 ? after[k] && (ONE << k) < me : after[k] || (ONE << k) < me)
        earlier = earlier + 1;
    end
    if (began_q && !rst) begin
      h_turn : assert (lost_q + earlier < SOURCES);
      h_after : assert (({after[SOURCES-2:0], 1'b0} & ~after) == {SOURCES{1'b0}});
    end
  end
  always @(posedge clk) begin
    if (rst || !mine_requests || mine_turn) lost_q <= 0;
    else if (gives) lost_q <= lost_q + 1;
  end

endmodule
