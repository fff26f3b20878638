// SPDX-License-Identifier: Apache-2.0
// efa_admin - connects the admin side: rings, command units and objects; wires only.
//
// In    register stores; asynchronous events; host read completions; readiness of the engines
// Out   host reads and writes; interrupt requests; contexts and tables of every engine;
//       stat_rd_addr
// Time  commands of different families run in parallel, commands of one family one at a time
`default_nettype none
`include "efa_defs.vh"
`include "efa_admin.vh"
`include "efa_check.vh"

module efa_admin #(
    parameter QPN_W  = 6,
    parameter LLQ_AW = 21,
    parameter SQ_HOST = 0,
    parameter MTT_W = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire clk,
    input wire [15:0] s_cfg_node_id,
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire rst,
    output wire m_init_done,
    input wire s_cfg_acq_crc,
    input wire [63:0] s_uptime,
    input wire [31:0] s_cfg_keep_alive,
    input wire s_aenq_valid,
    output wire s_aenq_ready,
    input wire [`EFA_AENQ__W-1:0] s_aenq_data,
    input wire s_reg_wr_valid,
    input wire [`EFA_REG_WR__W-1:0] s_reg_wr_data,
    output wire m_rd_adm_valid,
    input wire m_rd_adm_ready,
    output wire [`EFA_DMA_RD__W-1:0] m_rd_adm_data,
    input wire s_rd_cpl_adm_valid,
    input wire [`EFA_DMA_RD_CPL__W-1:0] s_rd_cpl_data,
    output wire m_wr_adm_valid,
    input wire m_wr_adm_ready,
    output wire [`EFA_DMA_WR__W-1:0] m_wr_adm_data,
    output wire m_irq_adm_valid,
    input wire m_irq_adm_ready,
    output wire [7:0] m_irq_adm_vector,
    output wire m_qpc_admin_lock,
    output wire m_qpc_admin_valid,
    input wire m_qpc_admin_ready,
    output wire [`EFA_QPC_ADMIN__W-1:0] m_qpc_admin_data,
    input wire s_qpc_admin_rvalid,
    input wire [`EFA_QPC__W-1:0] s_qpc_admin_rdata,
    output wire [`EFA_TABLE__COUNT-1:0] m_table_valid,
    output wire [`EFA_TABLE_WR__W-1:0] m_table_data,
    output wire [`EFA_ENGINE__RECV:0] m_queue_op_valid,
    input wire [`EFA_ENGINE__RECV:0] m_queue_op_ready,
    output wire [`EFA_QUEUE_OP__W-1:0] m_queue_op_data,
    input wire s_queue_op_busy,
    output wire [`EFA_ENGINE__CPL:0] m_drain_valid,
    input wire [`EFA_ENGINE__CPL:0] m_drain_ready,
    output wire m_ec_valid,
    input wire m_ec_ready,
    output wire [`EFA_EC_CMD__W-1:0] m_ec_data,
    input wire [1:0] s_ec_code,
    output wire [4:0] stat_rd_addr,
    input wire [63:0] stat_rd_data,
    output wire [`EFA_EV__ADMIN_VALID] ev_valid,
    output wire [`EFA_EV__ADMIN_DATA] ev_data
);

  localparam CQN_W = QPN_W + 1;
  localparam BODY_W = `EFA_ADMIN_BODY_W;
  // Unit numbers: 0 PD and UAR, 1 AH, 2 CQ and EQ, 3 MR, 4 QP, 5 information, 6 event counters.
  // Clients of efa_obj_table have the same numbers without information: 5 is event counters.
  localparam UNITS = 7;
  localparam OBJ_UNITS = 6;
  localparam SOURCES = UNITS + 1;
  localparam READERS = 3;
  localparam READ_AQ = 0;
  localparam READ_LIST = 1;
  localparam READ_HOST = 2;
  localparam AQ_SLOT_W = 3;
  localparam SLOT_W = 4;
  localparam DRAINERS = 4;

  // Rings
  wire rings_on;
  wire aq_start;
  wire [63:0] aq_base;
  wire [3:0] aq_log;
  wire aq_wide;
  wire [15:0] aq_producer;
  wire aq_consumed;
  wire acq_on;
  wire acq_start;
  wire [63:0] acq_base;
  wire [3:0] acq_log;
  wire note_valid;
  wire aenq_note_valid;
  wire [7:0] aenq_vector;
  wire [31:0] groups;
  wire acq_wr_valid;
  wire acq_wr_ready;
  wire [63:0] acq_wr_addr;
  wire [511:0] acq_wr_data;
  wire aenq_wr_valid;
  wire aenq_wr_ready;
  wire [63:0] aenq_wr_addr;
  wire [511:0] aenq_wr_data;
  wire anomaly_ring_valid;
  wire [63:0] anomaly_ring_data;
  wire anomaly_aenq_valid;
  wire [63:0] anomaly_aenq_data;
  wire anomaly_entry_valid;
  wire [63:0] anomaly_entry_data;

  // Host reads
  wire [READERS-1:0] line_valid;
  wire [READERS-1:0] line_ready;
  wire [64*READERS-1:0] line_addr;
  wire [7*READERS-1:0] line_len;
  wire [READERS-1:0] back_valid;
  wire [READERS-1:0] back_ready;
  wire [512*READERS-1:0] back_data;
  wire [READERS-1:0] back_err;
  wire [READERS-1:0] rd_valid;
  wire [READERS-1:0] rd_ready;
  wire [64*READERS-1:0] rd_addr;
  wire [7*READERS-1:0] rd_len;
  wire [SLOT_W*READERS-1:0] rd_slot;
  wire [READERS-1:0] rd_cpl_valid;
  wire [12:0] rd_cpl_offset = s_rd_cpl_data[`EFA_DMA_RD_CPL__OFFSET];
  wire [SLOT_W-1:0] rd_cpl_slot;

  // Commands and responses
  wire aqe_valid;
  wire aqe_ready;
  wire [511:0] aqe_data;
  wire aqe_err;
  wire aqe_bad;
  wire req_valid;
  wire req_ready;
  wire [63:0] req_addr;
  wire req_wide;
  wire entry_valid;
  wire entry_ready;
  wire [511:0] entry_data;
  wire entry_err;
  wire entry_bad;
  wire [UNITS-1:0] cmd_valid;
  wire [UNITS-1:0] cmd_ready;
  wire [511:0] cmd_data;
  wire [SOURCES-1:0] rsp_valid;
  wire [SOURCES-1:0] rsp_ready;
  wire [12*SOURCES-1:0] rsp_id;
  wire [8*SOURCES-1:0] rsp_status;
  wire [BODY_W*SOURCES-1:0] rsp_body;
  assign rsp_body[BODY_W*UNITS+:BODY_W] = {BODY_W{1'b0}};

  // Objects
  wire [OBJ_UNITS-1:0] obj_valid;
  wire [OBJ_UNITS-1:0] obj_ready;
  wire [3*OBJ_UNITS-1:0] obj_op;
  wire [3*OBJ_UNITS-1:0] obj_kind;
  wire [32*OBJ_UNITS-1:0] obj_index;
  wire [16*OBJ_UNITS-1:0] obj_uar;
  wire [4*OBJ_UNITS-1:0] obj_log;
  wire [1:0] obj_rsp_code;
  wire [15:0] obj_rsp_index;
  wire [15:0] obj_rsp_uar;
  wire [15:0] obj_rsp_gen;
  wire obj_rsp_referenced;

  wire [CQN_W-1:0] cqn;
  wire [`EFA_CQC__W-1:0] cqc;
  assign m_table_data[`EFA_TABLE_WR__CQC_CQN] = {{12 - CQN_W{1'b0}}, cqn};
  assign m_table_data[`EFA_TABLE_WR__CQC_DATA] = cqc;

  wire [QPN_W-1:0] ec_qpn;
  assign m_ec_data[`EFA_EC_CMD__QPN] = {{12 - QPN_W{1'b0}}, ec_qpn};
  wire [1:0] queue_op_kind = m_queue_op_data[`EFA_QUEUE_OP__KIND];
  wire [11:0] queue_op_qpn = m_queue_op_data[`EFA_QUEUE_OP__QPN];
  wire [DRAINERS-1:0] drain_valid;
  wire [DRAINERS-1:0] drain_ready;

  assign m_wr_adm_data[`EFA_DMA_WR__LEN] = 13'd64;
  assign m_wr_adm_data[`EFA_DMA_WR__LAST] = 1'b1;

  efa_aq u_aq (
      .clk(clk),
      .rst(rst),
      .s_reg_wr_valid(s_reg_wr_valid),
      .s_reg_wr_offset(s_reg_wr_data[`EFA_REG_WR__OFFSET]),
      .s_reg_wr_data(s_reg_wr_data[`EFA_REG_WR__DATA]),
      .m_cfg_rings_on(rings_on),
      .m_aq_start(aq_start),
      .m_cfg_aq_base(aq_base),
      .m_cfg_aq_log(aq_log),
      .m_cfg_aq_wide(aq_wide),
      .m_aq_producer(aq_producer),
      .s_aq_consumed(aq_consumed),
      .m_cfg_acq_on(acq_on),
      .m_acq_start(acq_start),
      .m_cfg_acq_base(acq_base),
      .m_cfg_acq_log(acq_log),
      .s_note_valid(note_valid),
      .s_aenq_valid(aenq_note_valid),
      .s_cfg_aenq_vector(aenq_vector),
      .m_irq_valid(m_irq_adm_valid),
      .m_irq_ready(m_irq_adm_ready),
      .m_irq_vector(m_irq_adm_vector),
      .ev_anomaly_valid(anomaly_ring_valid),
      .ev_anomaly_data(anomaly_ring_data)
  );

  efa_aq_fetch u_fetch (
      .clk(clk),
      .rst(rst),
      .s_cfg_rings_on(rings_on),
      .s_aq_start(aq_start),
      .s_cfg_aq_base(aq_base),
      .s_cfg_aq_log(aq_log),
      .s_cfg_aq_wide(aq_wide),
      .s_aq_producer(aq_producer),
      .m_aq_consumed(aq_consumed),
      .m_line_valid(req_valid),
      .m_line_ready(req_ready),
      .m_line_addr(req_addr),
      .m_line_wide(req_wide),
      .s_line_valid(entry_valid),
      .s_line_ready(entry_ready),
      .s_line_data(entry_data),
      .s_line_err(entry_err),
      .s_line_bad(entry_bad),
      .m_cmd_valid(aqe_valid),
      .m_cmd_ready(aqe_ready),
      .m_cmd_data(aqe_data),
      .m_cmd_err(aqe_err),
      .m_cmd_bad(aqe_bad),
      .ev_anomaly_valid(anomaly_entry_valid),
      .ev_anomaly_data(anomaly_entry_data)
  );

  efa_aq_unpack u_join (
      .clk(clk),
      .rst(rst),
      .s_req_valid(req_valid),
      .s_req_ready(req_ready),
      .s_req_addr(req_addr),
      .s_req_wide(req_wide),
      .m_line_valid(line_valid[READ_AQ]),
      .m_line_ready(line_ready[READ_AQ]),
      .m_line_addr(line_addr[64*READ_AQ+:64]),
      .m_line_len(line_len[7*READ_AQ+:7]),
      .s_line_valid(back_valid[READ_AQ]),
      .s_line_ready(back_ready[READ_AQ]),
      .s_line_data(back_data[512*READ_AQ+:512]),
      .s_line_err(back_err[READ_AQ]),
      .m_entry_valid(entry_valid),
      .m_entry_ready(entry_ready),
      .m_entry_data(entry_data),
      .m_entry_err(entry_err),
      .m_entry_bad(entry_bad)
  );

  efa_aenq u_aenq (
      .clk(clk),
      .rst(rst),
      .s_reg_wr_valid(s_reg_wr_valid),
      .s_reg_wr_offset(s_reg_wr_data[`EFA_REG_WR__OFFSET]),
      .s_reg_wr_data(s_reg_wr_data[`EFA_REG_WR__DATA]),
      .s_cfg_keep_alive(s_cfg_keep_alive),
      .s_groups(groups),
      .s_uptime(s_uptime),
      .s_aenq_valid(s_aenq_valid),
      .s_aenq_ready(s_aenq_ready),
      .s_aenq_group(s_aenq_data[`EFA_AENQ__GROUP]),
      .s_aenq_syndrome(s_aenq_data[`EFA_AENQ__SYNDROME]),
      .s_aenq_data(s_aenq_data[`EFA_AENQ__DATA]),
      .m_wr_valid(aenq_wr_valid),
      .m_wr_ready(aenq_wr_ready),
      .m_wr_addr(aenq_wr_addr),
      .m_wr_data(aenq_wr_data),
      .m_note_valid(aenq_note_valid),
      .m_vector(aenq_vector),
      .ev_aenq_valid(ev_valid[`EFA_EV__AENQ]),
      .ev_aenq_data(ev_data[64*`EFA_EV__AENQ+:64]),
      .ev_anomaly_valid(anomaly_aenq_valid),
      .ev_anomaly_data(anomaly_aenq_data)
  );

  efa_wr_arb u_wr (
      .clk(clk),
      .rst(rst),
      .s_first_valid(acq_wr_valid),
      .s_first_ready(acq_wr_ready),
      .s_first_data({acq_wr_addr, acq_wr_data}),
      .s_second_valid(aenq_wr_valid),
      .s_second_ready(aenq_wr_ready),
      .s_second_data({aenq_wr_addr, aenq_wr_data}),
      .m_wr_valid(m_wr_adm_valid),
      .m_wr_ready(m_wr_adm_ready),
      .m_wr_data({m_wr_adm_data[`EFA_DMA_WR__ADDR], m_wr_adm_data[`EFA_DMA_WR__DATA]})
  );

  efa_admin_anomaly u_admin_anomaly (
      .clk(clk),
      .rst(rst),
      .s_ring_valid(anomaly_ring_valid),
      .s_ring_data(anomaly_ring_data),
      .s_aenq_valid(anomaly_aenq_valid),
      .s_aenq_data(anomaly_aenq_data),
      .s_entry_valid(anomaly_entry_valid),
      .s_entry_data(anomaly_entry_data),
      .ev_anomaly_valid(ev_valid[`EFA_EV__ANOMALY_ADMIN]),
      .ev_anomaly_data(ev_data[64*`EFA_EV__ANOMALY_ADMIN+:64])
  );

  genvar g;
  generate
    for (g = 0; g < READERS; g = g + 1) begin : g_reader
      localparam MY_SLOT_W = g == READ_LIST ? SLOT_W : AQ_SLOT_W;
      wire [MY_SLOT_W-1:0] my_slot;
      if (MY_SLOT_W < SLOT_W) begin : g_narrow
        assign rd_slot[SLOT_W*g+:SLOT_W] = {{SLOT_W - MY_SLOT_W{1'b0}}, my_slot};
      end else begin : g_full
        assign rd_slot[SLOT_W*g+:SLOT_W] = my_slot;
      end
      efa_dma_line_rd #(
          .SLOT_W(MY_SLOT_W)
      ) u_line (
          .clk(clk),
          .rst(rst),
          .s_line_valid(line_valid[g]),
          .s_line_ready(line_ready[g]),
          .s_line_addr(line_addr[64*g+:64]),
          .s_line_len(line_len[7*g+:7]),
          .m_rd_valid(rd_valid[g]),
          .m_rd_ready(rd_ready[g]),
          .m_rd_addr(rd_addr[64*g+:64]),
          .m_rd_len(rd_len[7*g+:7]),
          .m_rd_slot(my_slot),
          .s_rd_cpl_valid(rd_cpl_valid[g]),
          .s_rd_cpl_slot(rd_cpl_slot[MY_SLOT_W-1:0]),
          .s_rd_cpl_offset(rd_cpl_offset[5:0]),
          .s_rd_cpl_data(s_rd_cpl_data[`EFA_DMA_RD_CPL__DATA]),
          .s_rd_cpl_bytes(s_rd_cpl_data[`EFA_DMA_RD_CPL__BYTES]),
          .s_rd_cpl_last(s_rd_cpl_data[`EFA_DMA_RD_CPL__LAST]),
          .s_rd_cpl_err(s_rd_cpl_data[`EFA_DMA_RD_CPL__ERR]),
          .m_line_valid(back_valid[g]),
          .m_line_ready(back_ready[g]),
          .m_line_data(back_data[512*g+:512]),
          .m_line_err(back_err[g])
      );
    end
  endgenerate

  efa_admin_rd_arb #(
      .READERS(READERS),
      .SLOT_W (SLOT_W)
  ) u_rd (
      .clk(clk),
      .rst(rst),
      .s_rd_valid(rd_valid),
      .s_rd_ready(rd_ready),
      .s_rd_addr(rd_addr),
      .s_rd_len(rd_len),
      .s_rd_slot(rd_slot),
      .m_rd_valid(m_rd_adm_valid),
      .m_rd_ready(m_rd_adm_ready),
      .m_rd_addr(m_rd_adm_data[`EFA_DMA_RD__ADDR]),
      .m_rd_len(m_rd_adm_data[`EFA_DMA_RD__LEN]),
      .m_rd_cookie(m_rd_adm_data[`EFA_DMA_RD__COOKIE]),
      .s_rd_cpl_valid(s_rd_cpl_adm_valid),
      .s_rd_cpl_cookie(s_rd_cpl_data[`EFA_DMA_RD_CPL__COOKIE]),
      .m_rd_cpl_valid(rd_cpl_valid),
      .m_rd_cpl_slot(rd_cpl_slot)
  );

  efa_dispatch #(
      .UNITS(UNITS)
  ) u_dispatch (
      .clk(clk),
      .rst(rst),
      .s_cmd_valid(aqe_valid),
      .s_cmd_ready(aqe_ready),
      .s_cmd_data(aqe_data),
      .s_cmd_err(aqe_err),
      .s_cmd_bad(aqe_bad),
      .m_cmd_valid(cmd_valid),
      .m_cmd_ready(cmd_ready),
      .s_unit_idle(cmd_ready),
      .m_cmd_data(cmd_data),
      .m_rsp_valid(rsp_valid[UNITS]),
      .m_rsp_ready(rsp_ready[UNITS]),
      .m_rsp_id(rsp_id[12*UNITS+:12]),
      .m_rsp_status(rsp_status[8*UNITS+:8]),
      .ev_aqcmd_valid(ev_valid[`EFA_EV__AQCMD]),
      .ev_aqcmd_data(ev_data[64*`EFA_EV__AQCMD+:64])
  );

  efa_cmd_pd u_pd (
      .clk(clk),
      .rst(rst),
      .s_cmd_valid(cmd_valid[0]),
      .s_cmd_ready(cmd_ready[0]),
      .s_cmd_data(cmd_data),
      .m_rsp_valid(rsp_valid[0]),
      .m_rsp_ready(rsp_ready[0]),
      .m_rsp_id(rsp_id[12*0+:12]),
      .m_rsp_status(rsp_status[8*0+:8]),
      .m_rsp_body(rsp_body[BODY_W*0+:BODY_W]),
      .m_obj_valid(obj_valid[0]),
      .m_obj_ready(obj_ready[0]),
      .m_obj_op(obj_op[3*0+:3]),
      .m_obj_kind(obj_kind[3*0+:3]),
      .m_obj_index(obj_index[32*0+:32]),
      .m_obj_uar(obj_uar[16*0+:16]),
      .m_obj_log(obj_log[4*0+:4]),
      .s_obj_rsp_code(obj_rsp_code),
      .s_obj_rsp_index(obj_rsp_index)
  );

  efa_cmd_ah u_ah (
      .clk(clk),
      .rst(rst),
      .s_cmd_valid(cmd_valid[1]),
      .s_cmd_ready(cmd_ready[1]),
      .s_cmd_data(cmd_data),
      .m_rsp_valid(rsp_valid[1]),
      .m_rsp_ready(rsp_ready[1]),
      .m_rsp_id(rsp_id[12*1+:12]),
      .m_rsp_status(rsp_status[8*1+:8]),
      .m_rsp_body(rsp_body[BODY_W*1+:BODY_W]),
      .m_obj_valid(obj_valid[1]),
      .m_obj_ready(obj_ready[1]),
      .m_obj_op(obj_op[3*1+:3]),
      .m_obj_kind(obj_kind[3*1+:3]),
      .m_obj_index(obj_index[32*1+:32]),
      .m_obj_uar(obj_uar[16*1+:16]),
      .m_obj_log(obj_log[4*1+:4]),
      .s_obj_rsp_code(obj_rsp_code),
      .s_obj_rsp_index(obj_rsp_index),
      .s_obj_rsp_referenced(obj_rsp_referenced),
      .m_ah_valid(m_table_valid[`EFA_TABLE__AH]),
      .m_ah_index(m_table_data[`EFA_TABLE_WR__AH_INDEX]),
      .m_ah_data(m_table_data[`EFA_TABLE_WR__AH_DATA])
  );

  efa_cmd_cq #(
      .CQN_W(CQN_W)
  ) u_cq (
      .clk(clk),
      .rst(rst),
      .s_cfg_profile(s_cfg_profile),
      .s_cmd_valid(cmd_valid[2]),
      .s_cmd_ready(cmd_ready[2]),
      .s_cmd_data(cmd_data),
      .m_rsp_valid(rsp_valid[2]),
      .m_rsp_ready(rsp_ready[2]),
      .m_rsp_id(rsp_id[12*2+:12]),
      .m_rsp_status(rsp_status[8*2+:8]),
      .m_rsp_body(rsp_body[BODY_W*2+:BODY_W]),
      .m_obj_valid(obj_valid[2]),
      .m_obj_ready(obj_ready[2]),
      .m_obj_op(obj_op[3*2+:3]),
      .m_obj_kind(obj_kind[3*2+:3]),
      .m_obj_index(obj_index[32*2+:32]),
      .m_obj_uar(obj_uar[16*2+:16]),
      .m_obj_log(obj_log[4*2+:4]),
      .s_obj_rsp_code(obj_rsp_code),
      .s_obj_rsp_index(obj_rsp_index),
      .s_obj_rsp_uar(obj_rsp_uar),
      .m_drain_valid(drain_valid[0]),
      .m_drain_ready(drain_ready[0]),
      .m_cqc_valid(m_table_valid[`EFA_TABLE__CQC]),
      .m_cqc_cqn(cqn),
      .m_cqc_data(cqc),
      .m_eqc_valid(m_table_valid[`EFA_TABLE__EQC]),
      .m_eqc_eqn(m_table_data[`EFA_TABLE_WR__EQC_EQN]),
      .m_eqc_data(m_table_data[`EFA_TABLE_WR__EQC_DATA])
  );

  efa_cmd_mr #(
      .MTT_W(MTT_W)
  ) u_mr (
      .clk(clk),
      .rst(rst),
      .s_cfg_profile(s_cfg_profile),
      .s_cmd_valid(cmd_valid[3]),
      .s_cmd_ready(cmd_ready[3]),
      .s_cmd_data(cmd_data),
      .m_rsp_valid(rsp_valid[3]),
      .m_rsp_ready(rsp_ready[3]),
      .m_rsp_id(rsp_id[12*3+:12]),
      .m_rsp_status(rsp_status[8*3+:8]),
      .m_rsp_body(rsp_body[BODY_W*3+:BODY_W]),
      .m_obj_valid(obj_valid[3]),
      .m_obj_ready(obj_ready[3]),
      .m_obj_op(obj_op[3*3+:3]),
      .m_obj_kind(obj_kind[3*3+:3]),
      .m_obj_index(obj_index[32*3+:32]),
      .m_obj_uar(obj_uar[16*3+:16]),
      .m_obj_log(obj_log[4*3+:4]),
      .s_obj_rsp_code(obj_rsp_code),
      .s_obj_rsp_index(obj_rsp_index),
      .s_obj_rsp_gen(obj_rsp_gen),
      .m_line_valid(line_valid[READ_LIST]),
      .m_line_ready(line_ready[READ_LIST]),
      .m_line_addr(line_addr[64*READ_LIST+:64]),
      .m_line_len(line_len[7*READ_LIST+:7]),
      .s_line_valid(back_valid[READ_LIST]),
      .s_line_ready(back_ready[READ_LIST]),
      .s_line_data(back_data[512*READ_LIST+:512]),
      .s_line_err(back_err[READ_LIST]),
      .m_drain_valid(drain_valid[1]),
      .m_drain_ready(drain_ready[1]),
      .m_mtt_valid(m_table_valid[`EFA_TABLE__MTT]),
      .m_mtt_index(m_table_data[`EFA_TABLE_WR__MTT_INDEX]),
      .m_mtt_data(m_table_data[`EFA_TABLE_WR__MTT_DATA]),
      .m_mr_valid(m_table_valid[`EFA_TABLE__MR]),
      .m_mr_index(m_table_data[`EFA_TABLE_WR__MR_INDEX]),
      .m_mr_data(m_table_data[`EFA_TABLE_WR__MR_DATA])
  );

  efa_cmd_qp #(
      .QPN_W  (QPN_W),
      .CQN_W  (CQN_W),
      .SQ_HOST(SQ_HOST)
  ) u_qp (
      .clk(clk),
      .rst(rst),
      .s_cfg_profile(s_cfg_profile),
      .s_cqc_valid(m_table_valid[`EFA_TABLE__CQC]),
      .s_cqc_cqn(cqn),
      .s_cqc_long_id(cqc[`EFA_CQC__LONG_ID]),
      .s_cmd_valid(cmd_valid[4]),
      .s_cmd_ready(cmd_ready[4]),
      .s_cmd_data(cmd_data),
      .m_rsp_valid(rsp_valid[4]),
      .m_rsp_ready(rsp_ready[4]),
      .m_rsp_id(rsp_id[12*4+:12]),
      .m_rsp_status(rsp_status[8*4+:8]),
      .m_rsp_body(rsp_body[BODY_W*4+:BODY_W]),
      .m_obj_valid(obj_valid[4]),
      .m_obj_ready(obj_ready[4]),
      .m_obj_op(obj_op[3*4+:3]),
      .m_obj_kind(obj_kind[3*4+:3]),
      .m_obj_index(obj_index[32*4+:32]),
      .m_obj_uar(obj_uar[16*4+:16]),
      .m_obj_log(obj_log[4*4+:4]),
      .s_obj_rsp_code(obj_rsp_code),
      .s_obj_rsp_index(obj_rsp_index),
      .s_obj_rsp_gen(obj_rsp_gen),
      .m_drain_valid(drain_valid[2]),
      .m_drain_ready(drain_ready[2]),
      .m_qpc_admin_lock(m_qpc_admin_lock),
      .m_qpc_admin_valid(m_qpc_admin_valid),
      .m_qpc_admin_ready(m_qpc_admin_ready),
      .m_qpc_admin_data(m_qpc_admin_data),
      .s_qpc_admin_rvalid(s_qpc_admin_rvalid),
      .s_qpc_admin_rdata(s_qpc_admin_rdata),
      .m_queue_op_valid(m_queue_op_valid),
      .m_queue_op_ready(m_queue_op_ready),
      .m_queue_op_data(m_queue_op_data),
      .s_queue_op_busy(s_queue_op_busy)
  );

  efa_cmd_info #(
      .QPN_W(QPN_W),
      .CQN_W(CQN_W),
      .MTT_W(MTT_W)
  ) u_info (
      .clk(clk),
      .rst(rst),
      .s_cfg_profile(s_cfg_profile),
      .s_cfg_node_id(s_cfg_node_id),
      .s_cmd_valid(cmd_valid[5]),
      .s_cmd_ready(cmd_ready[5]),
      .s_cmd_data(cmd_data),
      .m_rsp_valid(rsp_valid[5]),
      .m_rsp_ready(rsp_ready[5]),
      .m_rsp_id(rsp_id[12*5+:12]),
      .m_rsp_status(rsp_status[8*5+:8]),
      .m_rsp_body(rsp_body[BODY_W*5+:BODY_W]),
      .m_line_valid(line_valid[READ_HOST]),
      .m_line_ready(line_ready[READ_HOST]),
      .m_line_addr(line_addr[64*READ_HOST+:64]),
      .m_line_len(line_len[7*READ_HOST+:7]),
      .s_line_valid(back_valid[READ_HOST]),
      .s_line_ready(back_ready[READ_HOST]),
      .s_line_err(back_err[READ_HOST]),
      .m_groups(groups),
      .stat_rd_addr(stat_rd_addr),
      .stat_rd_data(stat_rd_data)
  );

  efa_cmd_ec #(
      .QPN_W(QPN_W)
  ) u_ec (
      .clk(clk),
      .rst(rst),
      .s_cmd_valid(cmd_valid[6]),
      .s_cmd_ready(cmd_ready[6]),
      .s_cmd_data(cmd_data),
      .m_rsp_valid(rsp_valid[6]),
      .m_rsp_ready(rsp_ready[6]),
      .m_rsp_id(rsp_id[12*6+:12]),
      .m_rsp_status(rsp_status[8*6+:8]),
      .m_rsp_body(rsp_body[BODY_W*6+:BODY_W]),
      .m_obj_valid(obj_valid[5]),
      .m_obj_ready(obj_ready[5]),
      .m_obj_op(obj_op[3*5+:3]),
      .m_obj_kind(obj_kind[3*5+:3]),
      .m_obj_index(obj_index[32*5+:32]),
      .m_obj_uar(obj_uar[16*5+:16]),
      .m_obj_log(obj_log[4*5+:4]),
      .s_obj_rsp_code(obj_rsp_code),
      .s_obj_rsp_uar(obj_rsp_uar),
      .s_obj_rsp_gen(obj_rsp_gen),
      .s_qp_gone_valid(m_queue_op_valid[`EFA_ENGINE__SEND] && m_queue_op_ready[`EFA_ENGINE__SEND]
          && queue_op_kind == `EFA_QOP__FREE),
      .s_qp_gone_qpn(queue_op_qpn[QPN_W-1:0]),
      .m_drain_valid(drain_valid[3]),
      .m_drain_ready(drain_ready[3]),
      .m_ec_valid(m_ec_valid),
      .m_ec_ready(m_ec_ready),
      .m_ec_op(m_ec_data[`EFA_EC_CMD__OP]),
      .m_ec_counter(m_ec_data[`EFA_EC_CMD__COUNTER]),
      .m_ec_qpn(ec_qpn),
      .m_ec_events(m_ec_data[`EFA_EC_CMD__EVENTS]),
      .m_ec_value(m_ec_data[`EFA_EC_CMD__VALUE]),
      .s_ec_code(s_ec_code)
  );

  efa_obj_table #(
      .QPN_W (QPN_W),
      .CQN_W (CQN_W),
      .LLQ_AW(LLQ_AW),
      .UNITS (OBJ_UNITS)
  ) u_obj_table (
      .clk(clk),
      .rst(rst),
      .m_init_done(m_init_done),
      .s_obj_valid(obj_valid),
      .s_obj_ready(obj_ready),
      .s_obj_op(obj_op),
      .s_obj_kind(obj_kind),
      .s_obj_index(obj_index),
      .s_obj_uar(obj_uar),
      .s_obj_log(obj_log),
      .m_obj_code(obj_rsp_code),
      .m_obj_index(obj_rsp_index),
      .m_obj_uar(obj_rsp_uar),
      .m_obj_gen(obj_rsp_gen),
      .m_obj_referenced(obj_rsp_referenced)
  );

  efa_drain #(
      .UNITS(DRAINERS)
  ) u_drain (
      .clk(clk),
      .rst(rst),
      .s_drain_valid(drain_valid),
      .s_drain_late(4'b1001),
      .s_drain_ready(drain_ready),
      .m_drain_valid(m_drain_valid),
      .m_drain_ready(m_drain_ready)
  );

  efa_acq_write #(
      .SOURCES(SOURCES)
  ) u_post (
      .clk(clk),
      .rst(rst),
      .s_cfg_acq_on(acq_on),
      .s_cfg_acq_crc(s_cfg_acq_crc),
      .s_acq_start(acq_start),
      .s_cfg_acq_base(acq_base),
      .s_cfg_acq_log(acq_log),
      .s_rsp_valid(rsp_valid),
      .s_rsp_ready(rsp_ready),
      .s_rsp_id(rsp_id),
      .s_rsp_status(rsp_status),
      .s_rsp_body(rsp_body),
      .m_wr_valid(acq_wr_valid),
      .m_wr_ready(acq_wr_ready),
      .m_wr_addr(acq_wr_addr),
      .m_wr_data(acq_wr_data),
      .m_note_valid(note_valid),
      .ev_acq_valid(ev_valid[`EFA_EV__ACQ]),
      .ev_acq_data(ev_data[64*`EFA_EV__ACQ+:64])
  );

  generate
    for (g = 0; g <= `EFA_ENGINE__RECV; g = g + 1) begin : g_queue_op
      `EFA_STREAM(u_edge, `EFA_QUEUE_OP__W, clk, rst, m_queue_op_valid[g], m_queue_op_ready[g],
                  m_queue_op_data)
    end
  endgenerate
  `EFA_STREAM(u_edge_rd, `EFA_DMA_RD__W, clk, rst, m_rd_adm_valid, m_rd_adm_ready, m_rd_adm_data)
  `EFA_STREAM(u_edge_wr, `EFA_DMA_WR__W, clk, rst, m_wr_adm_valid, m_wr_adm_ready, m_wr_adm_data)
  `EFA_STREAM(u_edge_irq, 8, clk, rst, m_irq_adm_valid, m_irq_adm_ready, m_irq_adm_vector)
  `EFA_STREAM(u_edge_qpc, `EFA_QPC_ADMIN__W, clk, rst, m_qpc_admin_valid, m_qpc_admin_ready,
              m_qpc_admin_data)
  `EFA_STREAM(u_edge_ec, `EFA_EC_CMD__W, clk, rst, m_ec_valid, m_ec_ready, m_ec_data)

  wire unused_bits = &{1'b0, rd_cpl_offset, queue_op_qpn, back_data[512*READ_HOST+:512]};

endmodule

`default_nettype wire
