// efa_rx_judge - may this packet come in, and which receive entry does it get?
//
// In    s_pkt a stored packet; QP contexts, receive claims; ah_* the peers that are known
// Out   m_job what is to be done with it, if its buffers are what they should be: m_ask which of
//       the two must be checked, under m_pd; m_err a QP whose receive entry has no end
// Time  6 cycles a packet, 3 when it is refused early, more while a descriptor is on its way
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rx_judge #(
    parameter QPN_W  = 6,
    parameter LINE_W = 9
) (
    input  wire clk,
    input  wire rst,
    input  wire s_open,
    output wire init_done,

    input wire s_pkt_valid,
    output wire s_pkt_ready,
    input wire [`EFA_PKT_HDR__BITS-1:0] s_pkt_header,
    input wire [LINE_W-1:0] s_pkt_line,

    output wire [QPN_W-1:0] qpc_addr,
    input wire [`EFA_QPC__W-1:0] qpc_data,
    input wire ah_valid,
    input wire [`EFA_LIMITS__AH_W-1:0] ah_index,
    input wire [`EFA_AHC__W-1:0] ah_data,

    output wire m_claim_valid,
    output wire [QPN_W-1:0] m_claim_qpn,
    input wire s_claim_valid,
    input wire s_claim_none,
    input wire s_claim_broken,
    input wire s_claim_whole,
    input wire [1:0] s_claim_count,
    input wire [255:0] s_claim_descs,
    output wire m_claim_done,
    output wire [1:0] m_claim_take,

    output wire m_job_valid,
    input wire m_job_ready,
    output wire [`EFA_RXJ__W-1:0] m_job,
    output wire [1:0] m_ask,
    output wire [255:0] m_descs,
    output wire [9:0] m_pd,

    output wire m_err_valid,
    input wire m_err_ready,
    output wire [QPN_W-1:0] m_err_qpn,
    output wire [3:0] m_err_cause,
    output wire qkey_wrong
);

  localparam HDR_W = `EFA_PKT_HDR__BITS;
  localparam NODE_W = `EFA_LIMITS__NODE_W;
  localparam PD_W = `EFA_LIMITS__PD_W;
  localparam AH_W = `EFA_LIMITS__AH_W;
  localparam LANE_W = 4;  // log2 of the peers in a row of the table, all cleared at once
  localparam LANES = 1 << LANE_W;
  localparam PEER_W = AH_W + 1;
  localparam ROW_W = PD_W + NODE_W - LANE_W;
  localparam [LANES-1:0] ONE_LANE = 1;
  localparam [15:0] GRH_BYTES = `EFA_LIMITS__GRH_BYTES;
  localparam [15:0] NO_AH = `EFA_LIMITS__RESERVED_AH;
  localparam [3:0] CAUSE_NO_LAST = 4'd7;

  localparam [2:0] ST_PACKET = 3'd0;
  localparam [2:0] ST_CONTEXT = 3'd1;
  localparam [2:0] ST_JUDGE = 3'd2;
  localparam [2:0] ST_CLAIM = 3'd3;
  localparam [2:0] ST_LENGTH = 3'd4;
  localparam [2:0] ST_JOB = 3'd5;
  localparam [2:0] ST_ERR = 3'd6;
  localparam [2:0] ST_SETTLE = 3'd7;

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg [HDR_W-1:0] header_q;
  reg [LINE_W-1:0] line_q;
  reg [`EFA_QPC__W-1:0] qpc_q;
  reg [7:0] status_q;  // what the acknowledgement says
  reg [7:0] status_d;
  reg complete_q;  // there is a receive completion
  reg complete_d;
  reg endless_q;  // the entry has no last descriptor
  reg endless_d;
  reg claimed_q;
  reg claimed_d;
  reg wrong_key_q;
  reg wrong_key_d;
  reg [255:0] descs_q;
  reg [1:0] count_q;
  reg [1:0] ask_q;

  // The packet.
  wire [7:0] opcode = header_q[`EFA_PKT_HDR__OPCODE];
  wire is_srd = opcode == `EFA_PKT_OPCODE__SRD_SEND;
  wire [15:0] length = header_q[`EFA_PKT_HDR__LENGTH];
  wire [15:0] src_node = header_q[`EFA_PKT_HDR__SRC_NODE];
  wire [15:0] dst_qpn = header_q[`EFA_PKT_HDR__DST_QPN];
  wire [16:0] need = {1'b0, length} + (is_srd ? 17'd0 : {1'b0, GRH_BYTES});
  wire [15:0] head_dst_qpn = s_pkt_header[`EFA_PKT_HDR__DST_QPN];
  wire [QPN_W-1:0] qpn = dst_qpn[QPN_W-1:0];
  assign qpc_addr = head_dst_qpn[QPN_W-1:0];

  // Its queue pair.
  wire [2:0] qp_state = qpc_q[`EFA_QPC__STATE];
  wire can_receive = qp_state ==
  `EFA_ADMIN_QP_STATE__RTR_W3
  || qp_state == `EFA_ADMIN_QP_STATE__RTS_W3 || qp_state ==
  `EFA_ADMIN_QP_STATE__SQD_W3
  || qp_state == `EFA_ADMIN_QP_STATE__SQE_W3;
  wire there = qpc_q[`EFA_QPC__LIVE] && qpc_q[`EFA_QPC__QP_NUM] == dst_qpn
      && qpc_q[`EFA_QPC__SRD] == is_srd && can_receive;
  wire key_fits = qpc_q[`EFA_QPC__QKEY] == header_q[`EFA_PKT_HDR__QKEY];
  wire refused = state_q == ST_JUDGE && !(there && key_fits);

  // The claimed receive entry.
  wire [127:0] desc0 = descs_q[127:0];
  wire [127:0] desc1 = descs_q[255:128];
  wire [15:0] size0 = desc0[`EFA_IO_RX_DESC__LENGTH];
  wire [15:0] size1 = desc1[`EFA_IO_RX_DESC__LENGTH];
  wire [16:0] room = {1'b0, size0} + (count_q[1] ? {1'b0, size1} : 17'd0);

  // Which address handle is the sender's? Exactly one place for each PD and node.
  reg [ROW_W:0] walk_q;
  wire walking = !walk_q[ROW_W];
  wire [9:0] ah_pd = ah_data[`EFA_AHC__PD];
  wire [15:0] ah_node = ah_data[`EFA_AHC__NODE];
  wire ah_near = ah_data[`EFA_AHC__FABRIC] && ah_node[15:NODE_W] == {(16 - NODE_W) {1'b0}};
  wire [9:0] qp_pd = qpc_data[`EFA_QPC__PD];
  wire [LANES*PEER_W-1:0] row;
  wire [PEER_W-1:0] known = row[PEER_W*src_node[LANE_W-1:0]+:PEER_W];
  wire near = src_node[15:NODE_W] == {(16 - NODE_W) {1'b0}};
  wire [15:0] ah = known[AH_W] && near ? {{(16 - AH_W) {1'b0}}, known[AH_W-1:0]} : NO_AH;
  assign init_done = !walking;
  efa_ram_be #(
      .WIDTH(LANES * PEER_W),
      .ADDR_W(ROW_W),
      .LANES(LANES)
  ) u_peers (
      .clk(clk),
      .wr_en(walking || (ah_valid && ah_near)),
      .wr_lanes(walking ? {LANES{1'b1}} : ONE_LANE << ah_node[LANE_W-1:0]),
      .wr_addr(walking ? walk_q[ROW_W-1:0] : {ah_pd[PD_W-1:0], ah_node[NODE_W-1:LANE_W]}),
      .wr_data(walking ? {LANES * PEER_W{1'b0}} : {LANES{ah_data[`EFA_AHC__LIVE], ah_index}}),
      .rd_en(state_q == ST_CONTEXT),
      .rd_addr({qp_pd[PD_W-1:0], src_node[NODE_W-1:LANE_W]}),
      .rd_data(row)
  );

  // The claim begins with the look at the context, which may end it.
  wire job_taken = state_q == ST_JOB && m_job_ready;
  assign m_claim_valid = state_q == ST_CONTEXT || state_q == ST_JUDGE || state_q == ST_CLAIM
      || state_q == ST_LENGTH || (state_q == ST_JOB && claimed_q);
  assign m_claim_qpn = qpn;
  assign m_claim_done = refused || (job_taken && claimed_q);
  assign m_claim_take = complete_q && !refused ? count_q : 2'd0;
  assign s_pkt_ready = s_open && (state_q == ST_PACKET || (job_taken && !endless_q));
  assign m_job_valid = state_q == ST_JOB;
  assign m_err_valid = state_q == ST_ERR;
  assign m_err_qpn = qpn;
  assign m_err_cause = CAUSE_NO_LAST;

  always @* begin
    state_d = state_q;
    status_d = status_q;
    complete_d = complete_q;
    endless_d = endless_q;
    claimed_d = claimed_q;
    wrong_key_d = wrong_key_q;
    case (state_q)
      // its QP's context
      ST_CONTEXT: begin
        status_d = `EFA_IO_COMP_STATUS__OK;
        complete_d = 1'b0;
        endless_d = 1'b0;
        claimed_d = 1'b0;
        wrong_key_d = 1'b0;
        state_d = ST_JUDGE;
      end
      // does the QP take it
      ST_JUDGE: begin
        claimed_d = !refused;
        wrong_key_d = there && !key_fits;
        state_d = refused ? ST_JOB : ST_CLAIM;
        if (refused) status_d = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_DEST_QPN;
      end
      // a receive entry
      ST_CLAIM: begin
        if (s_claim_valid) begin
          state_d = ST_JOB;
          if (s_claim_broken) begin
            status_d = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_DEST_QPN;
          end else if (s_claim_none) begin
            status_d = `EFA_IO_COMP_STATUS__REMOTE_ERROR_RNR;
          end else if (!s_claim_whole) begin
            status_d   = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_STATUS;
            complete_d = 1'b1;
            endless_d  = 1'b1;
          end else begin
            state_d = ST_LENGTH;
          end
        end
      end
      // is there room; too small an entry stays for the next message
      ST_LENGTH: begin
        state_d = ST_JOB;
        complete_d = need <= room;
        if (need > room) status_d = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_LENGTH;
      end
      // the report that an entry has no end; its completion went before
      ST_ERR: begin
        if (m_err_ready) state_d = ST_SETTLE;
      end
      // the context to show it: the next packet may be for the same QP
      ST_SETTLE: begin
        state_d = ST_PACKET;
      end
      // the job to be taken, or the next packet
      default: begin
        if (s_pkt_valid && s_pkt_ready) state_d = ST_CONTEXT;
        else if (job_taken) state_d = endless_q ? ST_ERR : ST_PACKET;
      end
    endcase
  end

  always @(posedge clk) begin
    status_q <= status_d;
    complete_q <= complete_d;
    endless_q <= endless_d;
    wrong_key_q <= wrong_key_d;
    if (s_pkt_valid && s_pkt_ready) begin
      header_q <= s_pkt_header;
      line_q <= s_pkt_line;
      ask_q <= 2'b00;
    end
    if (state_q == ST_CONTEXT) qpc_q <= qpc_data;
    if (state_q == ST_CLAIM) begin
      descs_q <= s_claim_descs;
      count_q <= s_claim_count;
    end
    if (state_q == ST_LENGTH && need <= room) begin
      ask_q <= {need > {1'b0, size0}, need != 17'd0 && size0 != 16'd0};
    end
    if (rst) begin
      state_q <= ST_PACKET;
      claimed_q <= 1'b0;
      walk_q <= {(ROW_W + 1) {1'b0}};
    end else begin
      state_q   <= state_d;
      claimed_q <= claimed_d;
      if (walking) walk_q <= walk_q + 1'b1;
    end
  end

  // What follows from the verdict.
  wire good = status_q == `EFA_IO_COMP_STATUS__OK;
  reg [`EFA_CPL__W-1:0] cpl;
  reg [`EFA_ACKO__W-1:0] acko;
  reg [`EFA_RXJ__W-1:0] job;
  always @* begin
    cpl = {`EFA_CPL__W{1'b0}};
    cpl[`EFA_CPL__RX] = 1'b1;
    cpl[`EFA_CPL__QPN] = {{(12 - QPN_W) {1'b0}}, qpn};
    cpl[`EFA_CPL__QP_NUM] = dst_qpn;
    cpl[`EFA_CPL__CQN] = qpc_q[`EFA_QPC__RCQN];
    cpl[`EFA_CPL__SUB] = qpc_q[`EFA_QPC__RSUB];
    cpl[`EFA_CPL__REQ_ID] = complete_q ? desc0[`EFA_IO_RX_DESC__REQ_ID] : 16'd0;
    cpl[`EFA_CPL__STATUS] = endless_q ?
    `EFA_IO_COMP_STATUS__LOCAL_ERROR_QP_INTERNAL_ERROR
    : `EFA_IO_COMP_STATUS__OK;
    cpl[`EFA_CPL__OP_TYPE] = `EFA_IO_SEND_OP_TYPE__SEND_W3;
    cpl[`EFA_CPL__HAS_IMM] = header_q[`EFA_PKT_HDR__HAS_IMM];
    cpl[`EFA_CPL__LENGTH] = need[15:0];
    cpl[`EFA_CPL__AH] = ah;
    cpl[`EFA_CPL__SRC_QPN] = header_q[`EFA_PKT_HDR__SRC_QPN];
    cpl[`EFA_CPL__IMM] = header_q[`EFA_PKT_HDR__IMM];
    cpl[`EFA_CPL__SRC_NODE] = src_node;
    acko = {`EFA_ACKO__W{1'b0}};
    acko[`EFA_ACKO__DST_NODE] = src_node;
    acko[`EFA_ACKO__DST_QPN] = header_q[`EFA_PKT_HDR__SRC_QPN];
    acko[`EFA_ACKO__SRC_QPN] = dst_qpn;
    acko[`EFA_ACKO__STATUS] = status_q;
    acko[`EFA_ACKO__PSN] = header_q[`EFA_PKT_HDR__PSN];
    acko[`EFA_ACKO__MSG_ID] = header_q[`EFA_PKT_HDR__MSG_ID];
    acko[`EFA_ACKO__PATH] = header_q[`EFA_PKT_HDR__PATH];
    job = {`EFA_RXJ__W{1'b0}};
    job[`EFA_RXJ__PACKET] = 1'b1;
    job[`EFA_RXJ__WRITE] = good && need != 17'd0;
    job[`EFA_RXJ__GRH] = !is_srd;
    job[`EFA_RXJ__LENGTH] = length;
    job[`EFA_RXJ__LINE] = {{(16 - LINE_W) {1'b0}}, line_q};
    job[`EFA_RXJ__SIZE0] = size0;
    job[`EFA_RXJ__SIZE1] = count_q[1] ? size1 : 16'd0;
    job[`EFA_RXJ__COMPLETE] = complete_q;
    job[`EFA_RXJ__COUNT] = count_q;
    job[`EFA_RXJ__CPL] = cpl;
    job[`EFA_RXJ__ACK] = is_srd;
    job[`EFA_RXJ__ACKO] = acko;
  end
  assign m_job = job;
  assign m_ask = ask_q;
  assign m_descs = descs_q;
  assign m_pd = qpc_q[`EFA_QPC__PD];
  assign qkey_wrong = job_taken && wrong_key_q;

  wire unused_bits = &{1'b0, desc0, desc1, qpc_q, ah_pd, ah_node, ah_data, qp_pd, need[16],
                       head_dst_qpn, header_q};

endmodule
