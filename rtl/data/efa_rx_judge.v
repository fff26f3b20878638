// efa_rx_judge - may this packet come in, and where does it go?
//
// In    s_pkt a stored packet; QP contexts, receive claims, the regions' table (through efa_mr_check)
// Out   m_job what is to be done with it: bytes to write, completion, acknowledgement; nothing of
//       it has been written yet; m_err a QP whose receive entry has no end
// Time  7 cycles a packet when it is refused early, 12 with two buffers, more while a descriptor
//       is on its way; one packet at a time
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rx_judge #(
    parameter QPN_W = 6,
    parameter LINE_W = 9
) (
    input  wire clk,
    input  wire rst,
    input  wire [15:0] s_cfg_node_id,
    output wire init_done,

    input  wire s_pkt_valid,
    output wire s_pkt_ready,
    input  wire [`EFA_PKT_HDR__BITS-1:0] s_pkt_header,
    input  wire [LINE_W-1:0] s_pkt_line,

    output wire [QPN_W-1:0] qpc_addr,
    input  wire [`EFA_QPC__W-1:0] qpc_data,

    input  wire mr_valid,
    input  wire [`EFA_LIMITS__MR_W-1:0] mr_index,
    input  wire [`EFA_MRC__W-1:0] mr_data,
    input  wire ah_valid,
    input  wire [`EFA_LIMITS__AH_W-1:0] ah_index,
    input  wire [`EFA_AHC__W-1:0] ah_data,

    output wire m_claim_valid,
    output wire [QPN_W-1:0] m_claim_qpn,
    input  wire s_claim_valid,
    input  wire s_claim_none,
    input  wire s_claim_broken,
    input  wire s_claim_whole,
    input  wire [1:0] s_claim_count,
    input  wire [255:0] s_claim_descs,
    output wire m_claim_done,
    output wire [1:0] m_claim_take,

    output wire m_job_valid,
    input  wire m_job_ready,
    output wire [`EFA_RXJ__W-1:0] m_job,

    output wire m_err_valid,
    input  wire m_err_ready,
    output wire [QPN_W-1:0] m_err_qpn,
    output wire [3:0] m_err_cause,

    output wire drop,
    output wire qkey_wrong,
    output wire ev_rxv_valid,
    output wire [63:0] ev_rxv_data
);

  localparam HDR_W = `EFA_PKT_HDR__BITS;
  localparam NODE_W = `EFA_LIMITS__NODE_W;
  localparam PD_W = `EFA_LIMITS__PD_W;
  localparam AH_W = `EFA_LIMITS__AH_W;
  localparam TABLE_W = PD_W + NODE_W;
  localparam [15:0] GRH_BYTES = `EFA_LIMITS__GRH_BYTES;
  localparam [15:0] NO_AH = `EFA_LIMITS__RESERVED_AH;
  localparam [3:0] CAUSE_NO_LAST = 4'd7;
  localparam PLACE_W = 1 + 6 + 16 + 64 + 64;

  localparam [3:0] ST_PACKET = 4'd0;
  localparam [3:0] ST_CONTEXT = 4'd1;
  localparam [3:0] ST_JUDGE = 4'd2;
  localparam [3:0] ST_CLAIM = 4'd3;
  localparam [3:0] ST_LENGTH = 4'd4;
  localparam [3:0] ST_ASK0 = 4'd5;
  localparam [3:0] ST_ASK1 = 4'd6;
  localparam [3:0] ST_VERDICT = 4'd7;
  localparam [3:0] ST_ERR = 4'd8;
  localparam [3:0] ST_JOB = 4'd9;
  localparam [3:0] ST_SETTLE = 4'd10;

  reg [3:0] state_q;
  reg [3:0] state_d;
  reg [HDR_W-1:0] header_q;
  reg [LINE_W-1:0] line_q;
  reg [`EFA_QPC__W-1:0] qpc_q;
  reg [7:0] status_q;
  reg [7:0] status_d;
  reg [7:0] local_q;  // status of the receive's own completion
  reg [7:0] local_d;
  reg complete_q;  // there is a receive completion
  reg complete_d;
  reg [1:0] take_q;
  reg [1:0] take_d;
  reg claimed_q;
  reg claimed_d;
  reg wrong_key_q;
  reg wrong_key_d;
  reg [255:0] descs_q;
  reg [1:0] count_q;
  reg second_q;  // the second buffer gets bytes
  reg first_q;
  reg [1:0] asked_q;
  reg [1:0] answered_q;
  reg bad_place_q;
  reg [2*PLACE_W-1:0] places_q;

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
  wire can_receive = qp_state == `EFA_ADMIN_QP_STATE__RTR_W3
      || qp_state == `EFA_ADMIN_QP_STATE__RTS_W3 || qp_state == `EFA_ADMIN_QP_STATE__SQD_W3
      || qp_state == `EFA_ADMIN_QP_STATE__SQE_W3;
  wire there = qpc_q[`EFA_QPC__LIVE] && qpc_q[`EFA_QPC__QP_NUM] == dst_qpn
      && qpc_q[`EFA_QPC__SRD] == is_srd && can_receive;
  wire key_fits = qpc_q[`EFA_QPC__QKEY] == header_q[`EFA_PKT_HDR__QKEY];

  // The claimed receive entry.
  wire [127:0] desc0 = descs_q[127:0];
  wire [127:0] desc1 = descs_q[255:128];
  wire [15:0] size0 = desc0[`EFA_IO_RX_DESC__LENGTH];
  wire [15:0] size1 = desc1[`EFA_IO_RX_DESC__LENGTH];
  wire [16:0] room = {1'b0, size0} + (count_q[1] ? {1'b0, size1} : 17'd0);

  // Which address handle is the sender's? Exactly one place for each PD and node.
  reg [TABLE_W:0] walk_q;
  wire walking = !walk_q[TABLE_W];
  wire [9:0] ah_pd = ah_data[`EFA_AHC__PD];
  wire [15:0] ah_node = ah_data[`EFA_AHC__NODE];
  wire [9:0] qp_pd = qpc_data[`EFA_QPC__PD];
  wire [AH_W:0] known;
  wire near = src_node[15:NODE_W] == {(16 - NODE_W) {1'b0}};
  wire [15:0] ah = known[AH_W] && near ? {{(16 - AH_W) {1'b0}}, known[AH_W-1:0]} : NO_AH;
  efa_ram #(
      .WIDTH (AH_W + 1),
      .ADDR_W(TABLE_W)
  ) u_peers (
      .clk(clk),
      .wr_en(walking || (ah_valid && ah_data[`EFA_AHC__FABRIC])),
      .wr_addr(walking ? walk_q[TABLE_W-1:0] : {ah_pd[PD_W-1:0], ah_node[NODE_W-1:0]}),
      .wr_data(walking ? {(AH_W + 1) {1'b0}} : {ah_data[`EFA_AHC__LIVE], ah_index}),
      .rd_en(state_q == ST_CONTEXT),
      .rd_addr({qp_pd[PD_W-1:0], src_node[NODE_W-1:0]}),
      .rd_data(known)
  );

  // Each buffer that gets bytes is checked over all of it.
  wire mr_init_done;
  wire ask_ready;
  wire ask = state_q == ST_ASK0 ? first_q : state_q == ST_ASK1 && second_q;
  wire [127:0] asked = state_q == ST_ASK1 ? desc1 : desc0;
  wire place_valid;
  wire place_ok;
  wire [5:0] place_shift;
  wire [15:0] place_mtt;
  wire [63:0] place_offset;
  wire [63:0] place_addr;
  wire place_phys;
  wire [31:0] place_len;
  wire place_second;
  assign init_done = !walking && mr_init_done;
  efa_mr_check #(
      .USER_W(1)
  ) u_check (
      .clk(clk),
      .rst(rst),
      .init_done(mr_init_done),
      .mr_valid(mr_valid),
      .mr_index(mr_index),
      .mr_data(mr_data),
      .s_valid(ask),
      .s_ready(ask_ready),
      .s_key(asked[`EFA_IO_RX_DESC__LKEY]),
      .s_pd(qpc_q[`EFA_QPC__PD]),
      .s_addr({asked[`EFA_IO_RX_DESC__BUF_ADDR_HI], asked[`EFA_IO_RX_DESC__BUF_ADDR_LO]}),
      .s_len({16'd0, asked[`EFA_IO_RX_DESC__LENGTH]}),
      .s_write(1'b1),
      .s_user(state_q == ST_ASK1),
      .m_valid(place_valid),
      .m_ready(1'b1),
      .m_ok(place_ok),
      .m_phys(place_phys),
      .m_shift(place_shift),
      .m_mtt(place_mtt),
      .m_offset(place_offset),
      .m_addr(place_addr),
      .m_len(place_len),
      .m_user(place_second)
  );
  wire [PLACE_W-1:0] place = {place_phys, place_shift, place_mtt, place_offset, place_addr};

  assign m_claim_valid = state_q == ST_CLAIM;
  assign m_claim_qpn = qpn;
  assign m_claim_done = claimed_q && state_q == ST_JOB && m_job_ready;
  assign m_claim_take = take_q;
  assign s_pkt_ready = state_q == ST_PACKET && init_done;
  assign m_job_valid = state_q == ST_JOB;
  assign m_err_valid = state_q == ST_ERR;
  assign m_err_qpn = qpn;
  assign m_err_cause = CAUSE_NO_LAST;

  always @* begin
    state_d = state_q;
    status_d = status_q;
    local_d = local_q;
    complete_d = complete_q;
    take_d = take_q;
    claimed_d = claimed_q;
    wrong_key_d = wrong_key_q;
    case (state_q)
      // the next packet
      ST_PACKET: begin
        status_d = `EFA_IO_COMP_STATUS__OK;
        local_d = `EFA_IO_COMP_STATUS__OK;
        complete_d = 1'b0;
        take_d = 2'd0;
        claimed_d = 1'b0;
        wrong_key_d = 1'b0;
        if (s_pkt_valid && s_pkt_ready) state_d = ST_CONTEXT;
      end
      // its QP's context
      ST_CONTEXT: begin
        state_d = ST_JUDGE;
      end
      // does the QP take it
      ST_JUDGE: begin
        state_d = ST_CLAIM;
        if (!there || !key_fits) begin
          status_d = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_DEST_QPN;
          wrong_key_d = there;
          state_d = ST_JOB;
        end
      end
      // a receive entry
      ST_CLAIM: begin
        if (s_claim_valid) begin
          claimed_d = 1'b1;
          state_d = ST_JOB;
          if (s_claim_broken) begin
            status_d = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_DEST_QPN;
          end else if (s_claim_none) begin
            status_d = `EFA_IO_COMP_STATUS__REMOTE_ERROR_RNR;
          end else if (!s_claim_whole) begin
            status_d = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_STATUS;
            local_d = `EFA_IO_COMP_STATUS__LOCAL_ERROR_QP_INTERNAL_ERROR;
            complete_d = 1'b1;
            take_d = s_claim_count;
          end else begin
            state_d = ST_LENGTH;
          end
        end
      end
      // is there room; too small an entry stays for the next message
      ST_LENGTH: begin
        if (need > room) begin
          status_d = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_LENGTH;
          state_d = ST_JOB;
        end else begin
          complete_d = 1'b1;
          take_d = count_q;
          state_d = ST_ASK0;
        end
      end
      // the first buffer's check to be taken
      ST_ASK0: begin
        if (!first_q || ask_ready) state_d = ST_ASK1;
      end
      // the second's
      ST_ASK1: begin
        if (!second_q || ask_ready) state_d = ST_VERDICT;
      end
      // both verdicts
      ST_VERDICT: begin
        if (answered_q == asked_q) begin
          state_d = ST_JOB;
          if (bad_place_q) begin
            status_d = `EFA_IO_COMP_STATUS__REMOTE_ERROR_BAD_STATUS;
            local_d = `EFA_IO_COMP_STATUS__LOCAL_ERROR_INVALID_LKEY;
          end
        end
      end
      // the report that an entry has no end; its completion went before
      ST_ERR: begin
        if (m_err_ready) state_d = ST_SETTLE;
      end
      // the context to show it: the next packet may be for the same QP
      ST_SETTLE: begin
        state_d = ST_PACKET;
      end
      // the job to be taken
      default: begin
        if (m_job_ready) begin
          state_d = local_q == `EFA_IO_COMP_STATUS__LOCAL_ERROR_QP_INTERNAL_ERROR
              ? ST_ERR : ST_PACKET;
        end
      end
    endcase
  end

  always @(posedge clk) begin
    status_q <= status_d;
    local_q <= local_d;
    complete_q <= complete_d;
    take_q <= take_d;
    wrong_key_q <= wrong_key_d;
    if (state_q == ST_PACKET) begin
      header_q <= s_pkt_header;
      line_q <= s_pkt_line;
      asked_q <= 2'd0;
      answered_q <= 2'd0;
      bad_place_q <= 1'b0;
    end
    if (state_q == ST_CONTEXT) qpc_q <= qpc_data;
    if (state_q == ST_CLAIM) begin
      descs_q <= s_claim_descs;
      count_q <= s_claim_count;
    end
    if (state_q == ST_LENGTH) begin
      first_q <= need != 17'd0 && size0 != 16'd0;
      second_q <= need > {1'b0, size0};
    end
    if (ask && ask_ready) asked_q <= asked_q + 2'd1;
    if (place_valid) begin
      answered_q <= answered_q + 2'd1;
      if (!place_ok) bad_place_q <= 1'b1;
      if (place_second) places_q[2*PLACE_W-1:PLACE_W] <= place;
      else places_q[PLACE_W-1:0] <= place;
    end
    if (rst) begin
      state_q <= ST_PACKET;
      claimed_q <= 1'b0;
      walk_q <= {(TABLE_W + 1) {1'b0}};
    end else begin
      state_q <= state_d;
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
    cpl[`EFA_CPL__REQ_ID] = desc0[`EFA_IO_RX_DESC__REQ_ID];
    cpl[`EFA_CPL__STATUS] = local_q;
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
    job[`EFA_RXJ__PLACE0] = places_q[PLACE_W-1:0];
    job[`EFA_RXJ__PLACE1] = places_q[2*PLACE_W-1:PLACE_W];
    job[`EFA_RXJ__COMPLETE] = complete_q;
    job[`EFA_RXJ__COUNT] = take_q;
    job[`EFA_RXJ__CPL] = cpl;
    job[`EFA_RXJ__ACK] = is_srd;
    job[`EFA_RXJ__ACKO] = acko;
  end
  assign m_job = job;

  wire judged = m_job_valid && m_job_ready;
  assign drop = judged && !good;
  assign qkey_wrong = judged && wrong_key_q;

  reg [63:0] ev_data;
  always @* begin
    ev_data = 64'd0;
    ev_data[`EFA_EV_RXV__QPN] = {{(12 - QPN_W) {1'b0}}, qpn};
    ev_data[`EFA_EV_RXV__STATUS] = status_q;
    ev_data[`EFA_EV_RXV__REQ_ID] = complete_q ? desc0[`EFA_IO_RX_DESC__REQ_ID] : 16'd0;
    ev_data[`EFA_EV_RXV__LENGTH] = length;
    ev_data[`EFA_EV_RXV__DROP] = !complete_q;
  end
  assign ev_rxv_valid = judged;
  assign ev_rxv_data = ev_data;

  wire unused_bits = &{1'b0, place_len, s_cfg_node_id, desc1, qpc_q, ah_pd, ah_node, qp_pd,
                       need[16], head_dst_qpn, header_q, asked};

  `EFA_CHECK(!(place_valid && state_q == ST_PACKET), "efa_rx_judge: a verdict nobody waits for")

endmodule
