// SPDX-License-Identifier: Apache-2.0
// efa_aenq - writes asynchronous events and keep-alives into the AENQ and holds its registers.
//
// In    s_aenq: events; register stores; s_groups: enabled groups; s_uptime: cycles since power-on
// Out   m_wr: one 64-byte write per event; m_note: the write is accepted; m_vector; ev_aenq;
//       ev_anomaly: dropped events and ignored consumer counts
// Time  1 cycle from event to write, one event every 2; no event in the cycle of a register store;
//       an event waits while the ring is full, a keep-alive is dropped then
`default_nettype none
`include "efa_defs.vh"

module efa_aenq #(
    parameter EVENTS_LEFT = 0  // events to the wrap of the counts, even number of wraps; 0: 2^32
) (
    input wire clk,
    input wire rst,
    input wire s_reg_wr_valid,
    input wire [15:0] s_reg_wr_offset,
    input wire [31:0] s_reg_wr_data,
    input wire [31:0] s_cfg_keep_alive,
    input wire [31:0] s_groups,
    input wire [63:0] s_uptime,

    input wire s_aenq_valid,
    output wire s_aenq_ready,
    input wire [15:0] s_aenq_group,
    input wire [15:0] s_aenq_syndrome,
    input wire [383:0] s_aenq_data,

    output wire m_wr_valid,
    input wire m_wr_ready,
    output wire [63:0] m_wr_addr,
    output wire [511:0] m_wr_data,

    output wire m_note_valid,
    output wire [7:0] m_vector,

    output wire ev_aenq_valid,
    output wire [63:0] ev_aenq_data,
    output wire ev_anomaly_valid,
    output wire [63:0] ev_anomaly_data
);

  localparam [15:0] MAX_DEPTH = `EFA_LIMITS__MAX_AQ_DEPTH;
  localparam SLOT_W = $clog2(`EFA_LIMITS__MAX_AQ_DEPTH);
  localparam [SLOT_W:0] SLOT_ONE = 1;
  localparam [7:0] ENTRY_BYTES = `EFA_ADMIN_AENQ_ENTRY__BYTES;
  localparam [15:0] KEEP_ALIVE = `EFA_ADMIN_AENQ_GROUP__KEEP_ALIVE;
  localparam [15:0] GROUP_FIRST = `EFA_ADMIN_AENQ_GROUP__FATAL_ERROR;
  localparam [15:0] GROUP_LAST = `EFA_ADMIN_AENQ_GROUP__KEEP_ALIVE;
  localparam [31:0] LEFT = EVENTS_LEFT;
  localparam [31:0] FIRST = 32'd0 - LEFT;

  reg [63:0] base_reg_q;
  reg [63:0] base_q;
  reg [3:0] log_q;
  reg [7:0] vector_q;
  reg on_q;
  reg [31:0] producer_q;
  reg [31:0] consumer_q;
  reg [31:0] timer_q;
  reg keep_alive_q;  // a keep-alive is pending
  reg valid_q;
  reg [511:0] entry_q;
  reg [57:0] line_q;
  reg anomaly_valid_q;
  reg [3:0] anomaly_kind_q;
  reg [31:0] anomaly_detail_q;

  `include "efa_admin_fn.vh"

  wire to_caps = s_reg_wr_valid && s_reg_wr_offset == `EFA_REG__AENQ_CAPS;
  wire to_db = s_reg_wr_valid && s_reg_wr_offset == `EFA_REG__AENQ_CONS_DB;
  wire valid_setup = depth_ok(
      s_reg_wr_data[`EFA_REG__AENQ_CAPS__AENQ_DEPTH], MAX_DEPTH
  ) && s_reg_wr_data[`EFA_REG__AENQ_CAPS__AENQ_ENTRY_SIZE] == ENTRY_BYTES;
  wire [31:0] unread = producer_q - consumer_q;
  wire consumed_ok = s_reg_wr_data - consumer_q <= unread;
  wire full = unread[SLOT_W:0] == SLOT_ONE << log_q;

  // A keep-alive goes before an event, which may have to wait for free space.
  wire may_take = !valid_q && !s_reg_wr_valid;
  wire keep_alive_wanted = s_groups[KEEP_ALIVE[4:0]] && s_cfg_keep_alive != 32'd0;
  wire ticks = keep_alive_wanted && timer_q + 32'd1 >= s_cfg_keep_alive;
  wire take_keep_alive = may_take && keep_alive_q;
  wire named = s_aenq_group >= GROUP_FIRST && s_aenq_group <= GROUP_LAST;
  wire wanted = named && s_groups[s_aenq_group[4:0]];
  wire is_keep_alive = s_aenq_group == GROUP_LAST;
  wire drop = !on_q || !wanted;
  // A keep-alive of s_aenq never waits for free space. It is discarded without a report while
  // keep-alive events are disabled.
  assign s_aenq_ready = may_take && !keep_alive_q && (drop || !full || is_keep_alive);
  wire take = s_aenq_valid && s_aenq_ready;
  wire write = take_keep_alive ? on_q && !full : take && !drop && !full;
  wire dropped = take_keep_alive ? !on_q : take && drop && (wanted || !is_keep_alive);

  wire [15:0] group = take_keep_alive ? GROUP_LAST : s_aenq_group;
  wire [15:0] syndrome = take_keep_alive ? 16'd0 : s_aenq_syndrome;
  wire [31:0] wraps = producer_q >> log_q;
  wire [SLOT_W-1:0] slot = producer_q[SLOT_W-1:0] & ~({SLOT_W{1'b1}} << log_q);
  reg [511:0] entry;
  always @* begin
    entry = 512'd0;
    entry[`EFA_ADMIN_AENQ_ENTRY__AENQ_COMMON_DESC__GROUP] = group;
    entry[`EFA_ADMIN_AENQ_ENTRY__AENQ_COMMON_DESC__SYNDROME] = syndrome;
    entry[`EFA_ADMIN_AENQ_ENTRY__AENQ_COMMON_DESC__PHASE] = !wraps[0];
    entry[`EFA_ADMIN_AENQ_ENTRY__AENQ_COMMON_DESC__TIMESTAMP_LOW] = s_uptime[31:0];
    entry[`EFA_ADMIN_AENQ_ENTRY__AENQ_COMMON_DESC__TIMESTAMP_HIGH] = s_uptime[63:32];
    entry[`EFA_ADMIN_AENQ_ENTRY__INLINE_DATA_W4] = take_keep_alive ? 384'd0 : s_aenq_data;
  end

  assign m_wr_valid = valid_q;
  assign m_wr_addr = {line_q, 6'd0};
  assign m_wr_data = entry_q;
  assign m_note_valid = valid_q && m_wr_ready;
  assign m_vector = vector_q;
  assign ev_aenq_valid = m_note_valid;
  reg [63:0] ev_data;
  always @* begin
    ev_data = 64'd0;
    ev_data[`EFA_EV_AENQ__GROUP] = entry_q[`EFA_ADMIN_AENQ_ENTRY__AENQ_COMMON_DESC__GROUP];
    ev_data[`EFA_EV_AENQ__SYNDROME] = entry_q[`EFA_ADMIN_AENQ_ENTRY__AENQ_COMMON_DESC__SYNDROME];
  end
  assign ev_aenq_data = ev_data;
  assign ev_anomaly_valid = anomaly_valid_q;
  assign ev_anomaly_data  = {{64 - `EFA_EV_ANOMALY_ADMIN__W{1'b0}}, anomaly_detail_q, anomaly_kind_q};

  always @(posedge clk) begin
    if (rst) begin
      base_reg_q <= 64'd0;
      on_q <= 1'b0;
      log_q <= 4'd0;
      producer_q <= FIRST;
      consumer_q <= FIRST;
      timer_q <= 32'd0;
      keep_alive_q <= 1'b0;
      valid_q <= 1'b0;
      anomaly_valid_q <= 1'b0;
    end else begin
      anomaly_valid_q <= dropped || to_db && !consumed_ok;
      timer_q <= !keep_alive_wanted || ticks ? 32'd0 : timer_q + 32'd1;
      keep_alive_q <= keep_alive_wanted && (ticks || keep_alive_q && !take_keep_alive);
      if (write) valid_q <= 1'b1;
      else if (m_wr_ready) valid_q <= 1'b0;
      if (to_caps) begin
        on_q <= valid_setup;
        producer_q <= FIRST;
        consumer_q <= FIRST;
        log_q <= log2(s_reg_wr_data[`EFA_REG__AENQ_CAPS__AENQ_DEPTH]);
      end else if (write) begin
        producer_q <= producer_q + 32'd1;
      end
      if (to_db && consumed_ok) consumer_q <= s_reg_wr_data;
      if (s_reg_wr_valid && s_reg_wr_offset == `EFA_REG__AENQ_BASE_LO)
        base_reg_q[31:0] <= s_reg_wr_data;
      if (s_reg_wr_valid && s_reg_wr_offset == `EFA_REG__AENQ_BASE_HI) begin
        base_reg_q[63:32] <= s_reg_wr_data;
      end
    end
  end

  always @(posedge clk) begin
    if (to_caps) begin
      base_q   <= base_reg_q;
      vector_q <= s_reg_wr_data[`EFA_REG__AENQ_CAPS__AENQ_MSIX_VECTOR];
    end
    if (write) begin
      entry_q <= entry;
      line_q <= base_q[63:6] + {{58 - SLOT_W{1'b0}}, slot};
    end
    anomaly_kind_q   <= dropped ? `EFA_ANOMALY_ADMIN__AENQ_DROPPED : `EFA_ANOMALY_ADMIN__AENQ_CONSUMER;
    anomaly_detail_q <= dropped ? {syndrome, group} : s_reg_wr_data;
  end

  wire unused_bits = &{1'b0, base_q[5:0], wraps[31:1], s_groups};

endmodule

`default_nettype wire
