// SPDX-License-Identifier: Apache-2.0
// efa_qp_ctx - owns the QP contexts: copies for each reader, transitions to ERR, change notices.
//
// In    qpc_rd_addr of each reader; s_qpc_admin: admin reads and writes (its lock blocks error
//       reports); s_qperr: error reports, a lane per engine
// Out   qpc_rd_data context for each reader; m_qpc_admin_rdata: context read for the admin side;
//       m_qpchg: a notice of a changed QP state, with a handshake per engine
// Time  reads: 1 cycle, one per cycle and port; an admin read every 2 cycles; a write every 2, an
//       error every 3 if its notices are accepted at once; a write causes its notices after 1
//       cycle, an error after 2; readers see either 2 cycles after it was accepted
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_qp_ctx #(
    parameter QPN_W = 6
) (
    input  wire clk,
    input  wire [6*QPN_W-1:0] qpc_rd_addr,
    output wire [6*`EFA_QPC__W-1:0] qpc_rd_data,
    input  wire s_qpc_admin_lock,
    input  wire s_qpc_admin_valid,
    output wire s_qpc_admin_ready,
    input  wire [`EFA_QPC_ADMIN__W-1:0] s_qpc_admin_data,
    output wire m_qpc_admin_rvalid,
    output wire [`EFA_QPC__W-1:0] m_qpc_admin_rdata,
    output wire [`EFA_ENGINE__RECV:0] m_qpchg_valid,
    input  wire [`EFA_ENGINE__RECV:0] m_qpchg_ready,
    output wire [`EFA_QPCHG__W-1:0] m_qpchg_data,
    input  wire [`EFA_ENGINE__RECV:0] s_qperr_valid,
    output wire [`EFA_ENGINE__RECV:0] s_qperr_ready,
    input  wire [2*`EFA_QPERR__W-1:0] s_qperr_data,
    input  wire rst,
    output wire m_init_done,
    output wire ev_qperr_valid,
    output wire [63:0] ev_qperr_data
);

  localparam QPC_W = `EFA_QPC__W;
  localparam QPERR_W = `EFA_QPERR__W;
  localparam READERS = 6;
  localparam [2:0] ST_INIT = 3'd0;
  localparam [2:0] ST_IDLE = 3'd1;
  localparam [2:0] ST_READ = 3'd2;
  localparam [2:0] ST_VALIDATE = 3'd3;
  localparam [2:0] ST_NOTICE = 3'd4;

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg [QPN_W-1:0] init_q;
  reg [QPN_W-1:0] qpn_q;
  reg [QPN_W-1:0] qpn_d;
  reg [3:0] cause_q;
  reg [3:0] cause_d;
  reg [2:0] qpstate_q;
  reg [2:0] qpstate_d;
  reg send_due_q;
  reg send_due_d;
  reg recv_due_q;
  reg recv_due_d;
  reg last_recv_q;
  reg last_recv_d;

  reg wr_en;
  reg [QPN_W-1:0] wr_addr;
  reg [QPC_W-1:0] wr_data;
  reg rd_en;
  reg [QPN_W-1:0] rd_addr;
  wire [QPC_W-1:0] rd_data;
  reg admin_accepted;
  reg send_accepted;
  reg recv_accepted;
  reg broken;

  wire qpchg_send_valid = state_q == ST_NOTICE && send_due_q;
  wire qpchg_recv_valid = state_q == ST_NOTICE && recv_due_q;
  wire admin_write = s_qpc_admin_data[`EFA_QPC_ADMIN__WRITE];
  wire [11:0] admin_qpn = s_qpc_admin_data[`EFA_QPC_ADMIN__QPN];
  wire [QPC_W-1:0] admin_wdata = s_qpc_admin_data[`EFA_QPC_ADMIN__WDATA];

  wire pick_recv = s_qperr_valid[`EFA_ENGINE__RECV]
      && (!s_qperr_valid[`EFA_ENGINE__SEND] || !last_recv_q);
  wire [QPERR_W-1:0] report = pick_recv ? s_qperr_data[QPERR_W*`EFA_ENGINE__RECV+:QPERR_W]
      : s_qperr_data[QPERR_W*`EFA_ENGINE__SEND+:QPERR_W];
  wire [11:0] report_qpn = report[`EFA_QPERR__QPN];
  wire [2:0] rd_state = rd_data[`EFA_QPC__STATE];
  // An error has no effect on a QP in RESET or already in ERR.
  wire rd_breakable = rd_data[`EFA_QPC__LIVE] && rd_state != `EFA_ADMIN_QP_STATE__RESET_W3
      && rd_state != `EFA_ADMIN_QP_STATE__ERR_W3;

  assign s_qpc_admin_ready = admin_accepted;
  assign m_qpc_admin_rvalid = state_q == ST_READ;
  assign m_qpc_admin_rdata = rd_data;
  assign s_qperr_ready[`EFA_ENGINE__SEND] = send_accepted;
  assign s_qperr_ready[`EFA_ENGINE__RECV] = recv_accepted;
  assign m_qpchg_valid[`EFA_ENGINE__SEND] = qpchg_send_valid;
  assign m_qpchg_valid[`EFA_ENGINE__RECV] = qpchg_recv_valid;
  assign m_qpchg_data[`EFA_QPCHG__QPN] = {{12 - QPN_W{1'b0}}, qpn_q};
  assign m_qpchg_data[`EFA_QPCHG__STATE] = qpstate_q;
  assign m_init_done = state_q != ST_INIT;

  always @* begin
    state_d = state_q;
    qpn_d = qpn_q;
    cause_d = cause_q;
    qpstate_d = qpstate_q;
    send_due_d = send_due_q && !(qpchg_send_valid && m_qpchg_ready[`EFA_ENGINE__SEND]);
    recv_due_d = recv_due_q && !(qpchg_recv_valid && m_qpchg_ready[`EFA_ENGINE__RECV]);
    last_recv_d = last_recv_q;
    wr_en = 1'b0;
    wr_addr = qpn_q;
    wr_data = rd_data;
    wr_data[`EFA_QPC__STATE] = `EFA_ADMIN_QP_STATE__ERR_W3;
    rd_en = 1'b0;
    rd_addr = admin_qpn[QPN_W-1:0];
    admin_accepted = 1'b0;
    send_accepted = 1'b0;
    recv_accepted = 1'b0;
    broken = 1'b0;
    case (state_q)
      // Clears every context before the first command.
      ST_INIT: begin
        wr_en = 1'b1;
        wr_addr = init_q;
        wr_data = {QPC_W{1'b0}};
        if (&init_q) begin
          state_d = ST_IDLE;
        end
      end
      // Waits for an admin access, which has priority, or an error report.
      ST_IDLE: begin
        if (s_qpc_admin_valid) begin
          admin_accepted = 1'b1;
          qpn_d = admin_qpn[QPN_W-1:0];
          if (admin_write) begin
            wr_en = 1'b1;
            wr_addr = admin_qpn[QPN_W-1:0];
            wr_data = admin_wdata;
            qpstate_d = admin_wdata[`EFA_QPC__STATE];
            send_due_d = 1'b1;
            recv_due_d = 1'b1;
            state_d = ST_NOTICE;
          end else begin
            rd_en = 1'b1;
            state_d = ST_READ;
          end
        end else if (!s_qpc_admin_lock && s_qperr_valid != 2'b00) begin
          send_accepted = !pick_recv;
          recv_accepted = pick_recv;
          last_recv_d = pick_recv;
          qpn_d = report_qpn[QPN_W-1:0];
          cause_d = report[`EFA_QPERR__CAUSE];
          rd_en = 1'b1;
          rd_addr = qpn_d;
          state_d = ST_VALIDATE;
        end
      end
      // The response of an admin read is valid for one cycle.
      ST_READ: begin
        state_d = ST_IDLE;
      end
      // The context of the QP with the error was read.
      ST_VALIDATE: begin
        state_d = ST_IDLE;
        if (rd_breakable) begin
          broken = 1'b1;
          wr_en = 1'b1;
          qpstate_d = `EFA_ADMIN_QP_STATE__ERR_W3;
          send_due_d = 1'b1;
          recv_due_d = 1'b1;
          state_d = ST_NOTICE;
        end
      end
      // Waits until both sides have accepted the notice.
      ST_NOTICE: begin
        if (!send_due_d && !recv_due_d) begin
          state_d = ST_IDLE;
        end
      end
      default: begin
        state_d = ST_INIT;
      end
    endcase
  end

  always @(posedge clk) begin
    qpn_q <= qpn_d;
    cause_q <= cause_d;
    qpstate_q <= qpstate_d;
    if (rst) begin
      state_q <= ST_INIT;
      init_q <= {QPN_W{1'b0}};
      send_due_q <= 1'b0;
      recv_due_q <= 1'b0;
      last_recv_q <= 1'b0;
    end else begin
      state_q <= state_d;
      send_due_q <= send_due_d;
      recv_due_q <= recv_due_d;
      last_recv_q <= last_recv_d;
      if (state_q == ST_INIT) begin
        init_q <= init_q + 1'b1;
      end
    end
  end

  efa_ram #(
      .WIDTH (QPC_W),
      .ADDR_W(QPN_W)
  ) u_own (
      .clk(clk),
      .wr_en(wr_en),
      .wr_addr(wr_addr),
      .wr_data(wr_data),
      .rd_en(rd_en),
      .rd_addr(rd_addr),
      .rd_data(rd_data)
  );

  genvar g;
  generate
    for (g = 0; g < READERS; g = g + 1) begin : g_reader
      efa_ram #(
          .WIDTH (QPC_W),
          .ADDR_W(QPN_W)
      ) u_copy (
          .clk(clk),
          .wr_en(wr_en),
          .wr_addr(wr_addr),
          .wr_data(wr_data),
          .rd_en(1'b1),
          .rd_addr(qpc_rd_addr[g*QPN_W+:QPN_W]),
          .rd_data(qpc_rd_data[g*QPC_W+:QPC_W])
      );
    end
  endgenerate

  assign ev_qperr_valid = broken;
  reg [63:0] ev_data;
  always @* begin
    ev_data = 64'd0;
    ev_data[`EFA_EV_QPERR__QPN] = {{(12 - QPN_W) {1'b0}}, qpn_q};
    ev_data[`EFA_EV_QPERR__CAUSE] = cause_q;
  end
  assign ev_qperr_data = ev_data;

  `EFA_CHECK(!(qpchg_send_valid && state_q == ST_IDLE), "efa_qp_ctx: notice outside its state")

  wire unused_bits = &{1'b0, admin_qpn, report_qpn};

endmodule

`default_nettype wire
