// SPDX-License-Identifier: Apache-2.0
// efa_acq_write - writes each response as an ACQ entry with phase bit and checksum.
//
// In    s_rsp: one stream per source (units, dispatch last), served round robin; ring set-up;
//       s_cfg_acq_crc: the interface version has ACQ checksums
// Out   m_wr: one 64-byte write per response; m_note: a response is written; ev_acq
// Time  5 cycles from response to write, a response every 6; responses are dropped while the ring
//       is disabled
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"

module efa_acq_write #(
    parameter SOURCES = 7
) (
    input wire clk,
    input wire rst,
    input wire s_cfg_acq_on,
    input wire s_cfg_acq_crc,
    input wire s_acq_start,
    input wire [63:0] s_cfg_acq_base,
    input wire [3:0] s_cfg_acq_log,

    input wire [SOURCES-1:0] s_rsp_valid,
    output wire [SOURCES-1:0] s_rsp_ready,
    input wire [12*SOURCES-1:0] s_rsp_id,
    input wire [8*SOURCES-1:0] s_rsp_status,
    input wire [`EFA_ADMIN_BODY_W*SOURCES-1:0] s_rsp_body,

    output wire m_wr_valid,
    input wire m_wr_ready,
    output wire [63:0] m_wr_addr,
    output wire [511:0] m_wr_data,

    output wire m_note_valid,

    output wire ev_acq_valid,
    output wire [63:0] ev_acq_data
);

  localparam BODY_W = `EFA_ADMIN_BODY_W;
  localparam COUNT_W = $clog2(`EFA_LIMITS__MAX_AQ_DEPTH) + 1;
  localparam [COUNT_W-1:0] ONE = 1;
  localparam [2:0] ST_IDLE = 3'd0;
  localparam [2:0] ST_ENTRY = 3'd1;
  localparam [2:0] ST_PARTS = 3'd2;
  localparam [2:0] ST_CRC = 3'd3;
  localparam [2:0] ST_WRITE = 3'd4;

  reg [2:0] state_q;
  reg [2:0] state_d;
  reg [11:0] id_q;
  reg [7:0] status_q;
  reg [BODY_W-1:0] body_q;
  reg [COUNT_W-1:0] count_q;  // entries of this ring: the slot, above it the wrap count
  reg [511:0] entry_q;
  reg [15:0] crc_q;
  reg [57:0] line_q;
  reg ev_valid_q;

  wire idle = state_q == ST_IDLE;
  wire [SOURCES-1:0] grant;
  efa_arb #(
      .N(SOURCES)
  ) u_arb (
      .clk(clk),
      .rst(rst),
      .s_request(idle ? s_rsp_valid : {SOURCES{1'b0}}),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  reg [11:0] pick_id;
  reg [7:0] pick_status;
  reg [BODY_W-1:0] pick_body;
  integer i;
  always @* begin
    pick_id = 12'd0;
    pick_status = 8'd0;
    pick_body = {BODY_W{1'b0}};
    for (i = 0; i < SOURCES; i = i + 1) begin
      pick_id = pick_id | (s_rsp_id[12*i+:12] & {12{grant[i]}});
      pick_status = pick_status | (s_rsp_status[8*i+:8] & {8{grant[i]}});
      pick_body = pick_body | (s_rsp_body[BODY_W*i+:BODY_W] & {BODY_W{grant[i]}});
    end
  end

  // In the cycle of s_acq_start, count_q still belongs to the old ring.
  wire [15:0] count = s_acq_start ? 16'd0 : {{16 - COUNT_W{1'b0}}, count_q};
  wire [15:0] slot = count & ((16'd1 << s_cfg_acq_log) - 16'd1);

  // A response with an error status has a header only.
  wire refused = status_q != `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS;
  reg [511:0] entry;
  always @* begin
    entry = 512'd0;
    entry[`EFA_ADMIN_ACQ_ENTRY__ACQ_COMMON_DESCRIPTOR__COMMAND_ID] = id_q;
    entry[`EFA_ADMIN_ACQ_ENTRY__ACQ_COMMON_DESCRIPTOR__STATUS] = status_q;
    entry[`EFA_ADMIN_ACQ_ENTRY__ACQ_COMMON_DESCRIPTOR__PHASE] = !count[s_cfg_acq_log];
    entry[`EFA_ADMIN_ACQ_ENTRY__RESPONSE_SPECIFIC_DATA] = refused ? {BODY_W{1'b0}} : body_q;
  end

  wire [15:0] crc;
  efa_crc16 u_crc (
      .clk(clk),
      .s_data(entry_q),
      .m_crc(crc)
  );

  reg [511:0] sealed;
  always @* begin
    sealed = entry_q;
    sealed[`EFA_ADMIN_ACQ_ENTRY__ACQ_COMMON_DESCRIPTOR__CHECKSUM] = s_cfg_acq_crc ? crc_q : 16'd0;
  end

  wire written = m_wr_valid && m_wr_ready;

  assign s_rsp_ready = grant;
  assign m_wr_valid = state_q == ST_WRITE;
  assign m_wr_addr = {line_q, 6'd0};
  assign m_wr_data = sealed;
  assign m_note_valid = written;
  assign ev_acq_valid = ev_valid_q;
  assign ev_acq_data = {{64 - `EFA_EV_ACQ__W{1'b0}}, status_q, id_q};

  // The checksum takes two stages of efa_crc16 and one register parallel to the entry.
  reg wait_q;
  always @* begin
    state_d = state_q;
    case (state_q)
      // Waits for a response; a response is dropped while the ring is disabled.
      ST_IDLE: begin
        if (grant != {SOURCES{1'b0}} && s_cfg_acq_on) state_d = ST_ENTRY;
      end
      // Forms the entry; drops the response when the ring is disabled meanwhile.
      ST_ENTRY: begin
        state_d = s_cfg_acq_on ? ST_PARTS : ST_IDLE;
      end
      // Waits for both stages of the checksum, then registers it.
      ST_PARTS: begin
        if (wait_q) state_d = ST_CRC;
      end
      ST_CRC: begin
        state_d = ST_WRITE;
      end
      // Waits until the host write is accepted.
      default: begin
        if (m_wr_ready) state_d = ST_IDLE;
      end
    endcase
  end

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_IDLE;
      count_q <= {COUNT_W{1'b0}};
      ev_valid_q <= 1'b0;
      wait_q <= 1'b0;
    end else begin
      state_q <= state_d;
      wait_q <= state_q == ST_PARTS;
      ev_valid_q <= written;
      if (state_q == ST_ENTRY && s_cfg_acq_on) count_q <= count[COUNT_W-1:0] + ONE;
      else if (s_acq_start) count_q <= {COUNT_W{1'b0}};
    end
  end

  always @(posedge clk) begin
    if (idle) begin
      id_q <= pick_id;
      status_q <= pick_status;
      body_q <= pick_body;
    end
    if (state_q == ST_ENTRY) begin
      entry_q <= entry;
      line_q  <= s_cfg_acq_base[63:6] + {42'd0, slot};
    end
    crc_q <= state_q == ST_CRC ? crc : crc_q;
  end

  wire unused_base = &{1'b0, s_cfg_acq_base[5:0]};

endmodule

`default_nettype wire
