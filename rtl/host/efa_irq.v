// SPDX-License-Identifier: Apache-2.0
// efa_irq - holds the MSI-X table and pending bits in BAR 0 and sends the messages.
//
// In    s_irq: requests of a vector, one lane per client; s_acc: BAR 0 dwords in bus order
//       (efa_mmio); s_host_rst: masks every vector, clears the table; rst: clears requests and
//       pending bits
// Out   m_wr_irq: a message as a 4-byte write, withdrawn when its vector is masked before it
//       leaves; held while the last message of its vector is younger than s_cfg_moderation
//       m_anomaly: a request of a vector that does not exist, dropped
//       m_acc_hit, m_acc_rdata: data of a load of table or pending bits, one cycle after s_acc
// Time  two cycles to a message, one every three; a held message leaves when its interval is over,
//       at most 4 cycles later and 2 for each vector; after s_host_rst the table is cleared, one
//       entry per cycle
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_irq #(
    parameter VECTORS = `EFA_LIMITS__MSIX_VECTORS
) (
    input  wire clk,
    input  wire s_host_rst,
    input  wire rst,
    output wire m_init_done,
    input  wire s_cfg_msix_enable,
    input  wire s_cfg_msix_fmask,
    input  wire [15:0] s_cfg_moderation,
    input  wire s_acc_valid,
    input  wire s_acc_write,
    input  wire [31:0] s_acc_offset,
    input  wire [31:0] s_acc_data,
    output wire m_acc_hit,
    output wire [31:0] m_acc_rdata,
    input  wire [`EFA_IRQ_CLIENT__COUNT-1:0] s_irq_valid,
    output wire [`EFA_IRQ_CLIENT__COUNT-1:0] s_irq_ready,
    input  wire [8*`EFA_IRQ_CLIENT__COUNT-1:0] s_irq_vector,
    output wire m_wr_irq_valid,
    input  wire m_wr_irq_ready,
    output wire [63:0] m_wr_irq_addr,
    output wire [31:0] m_wr_irq_data,
    output wire m_anomaly_valid,
    output wire [7:0] m_anomaly_vector,
    output wire ev_irq_valid,
    output wire [63:0] ev_irq_data
);

  localparam CLIENTS = `EFA_IRQ_CLIENT__COUNT;
  localparam VEC_W = $clog2(VECTORS);
  localparam ENTRIES = 1 << VEC_W;
  localparam [31:0] TABLE = `EFA_LIMITS__MSIX_TABLE_OFFSET;
  localparam [31:0] TABLE_BYTES = 16 * VECTORS;
  localparam [31:0] PBA = `EFA_LIMITS__MSIX_PBA_OFFSET;
  localparam [31:0] PBA_BYTES = 8 * ((VECTORS + 63) / 64);
  localparam [8:0] VECTOR_END = VECTORS;
  localparam [VEC_W-1:0] VECTOR_LAST = VECTORS - 1;
  localparam [VEC_W-1:0] VECTOR_ONE = 1;
  localparam NOW_W = 17;
  localparam [1:0] ST_IDLE = 2'd0;
  localparam [1:0] ST_LOOKUP = 2'd1;
  localparam [1:0] ST_SEND = 2'd2;

  generate
    if (VECTORS < 2 || VECTORS > 64) begin : g_illegal
      efa_irq_needs_2_to_64_vectors u_illegal ();
    end
  endgenerate

  reg init_q;
  reg [VEC_W-1:0] init_addr_q;
  reg [ENTRIES-1:0] mask_q;
  reg [ENTRIES-1:0] pending_q;
  reg [ENTRIES-1:0] held_q;  // a message waits for the end of the interval of its vector
  reg [ENTRIES-1:0] resting_q;
  reg [1:0] state_q;
  reg [VEC_W-1:0] vector_q;
  reg [VEC_W-1:0] scan_q;
  reg anomaly_q;
  reg [7:0] anomaly_vector_q;

  wire [31:0] from_table = s_acc_offset - TABLE;
  wire [31:0] from_pba = s_acc_offset - PBA;
  wire in_table = from_table < TABLE_BYTES;
  wire in_pba = from_pba < PBA_BYTES;
  wire [VEC_W-1:0] entry = from_table[4+:VEC_W];
  wire [1:0] dword = from_table[3:2];
  wire store = s_acc_valid && s_acc_write && in_table && !init_q;
  wire store_mask = store && dword == 2'd3;

  // Table: message fields in RAM, one copy for messages and one for loads.
  wire tab_wr = init_q || store;
  wire [2:0] tab_lanes = init_q ? 3'b111 : 3'b001 << dword;
  wire [VEC_W-1:0] tab_addr = init_q ? init_addr_q : entry;
  wire [95:0] tab_data = init_q ? 96'd0 : {s_acc_data, s_acc_data, s_acc_data[31:2], 2'b00};
  wire [95:0] message;
  wire [95:0] shown;

  efa_ram_be #(
      .WIDTH(96),
      .ADDR_W(VEC_W),
      .LANES(3)
  ) u_message (
      .clk(clk),
      .wr_en(tab_wr),
      .wr_lanes(tab_lanes),
      .wr_addr(tab_addr),
      .wr_data(tab_data),
      .rd_en(state_q == ST_LOOKUP),
      .rd_addr(vector_q),
      .rd_data(message)
  );

  efa_ram_be #(
      .WIDTH(96),
      .ADDR_W(VEC_W),
      .LANES(3)
  ) u_shown (
      .clk(clk),
      .wr_en(tab_wr),
      .wr_lanes(tab_lanes),
      .wr_addr(tab_addr),
      .wr_data(tab_data),
      .rd_en(1'b1),
      .rd_addr(entry),
      .rd_data(shown)
  );

  always @(posedge clk) begin
    if (s_host_rst) begin
      init_q <= 1'b1;
      init_addr_q <= {VEC_W{1'b0}};
    end else if (init_q) begin
      init_q <= init_addr_q != {VEC_W{1'b1}};
      init_addr_q <= init_addr_q + VECTOR_ONE;
    end
  end

  assign m_init_done = !init_q && !s_host_rst;

  always @(posedge clk) begin
    if (s_host_rst) mask_q <= {ENTRIES{1'b1}};
    else if (store_mask) mask_q[entry] <= s_acc_data[0];
  end

  // Loads.
  wire [255:0] pending_all = {{(256 - ENTRIES) {1'b0}}, pending_q};
  reg hit_q;
  reg [3:0] pick_q;
  reg [31:0] flags_q;
  reg [31:0] picked;

  always @(posedge clk) begin
    hit_q <= in_table || in_pba;
    pick_q <= in_pba ? 4'b1000 : 4'b0001 << dword;
    flags_q <= in_pba ? pending_all[32*from_pba[4:2]+:32] : {31'd0, mask_q[entry]};
  end

  always @* begin
    picked = flags_q & {32{pick_q[3]}};
    picked = picked | (shown[31:0] & {32{pick_q[0]}});
    picked = picked | (shown[63:32] & {32{pick_q[1]}});
    picked = picked | (shown[95:64] & {32{pick_q[2]}});
  end

  assign m_acc_hit = hit_q;
  assign m_acc_rdata = picked;

  // Messages: a request, or a pending or held message that the scan found ready to leave.
  wire open_q = s_cfg_msix_enable && !s_cfg_msix_fmask && !mask_q[vector_q];
  wire scan_open = s_cfg_msix_enable && !s_cfg_msix_fmask && pending_q[scan_q] && !mask_q[scan_q];
  wire scan_due = held_q[scan_q] && !resting_q[scan_q];
  wire scan_stays = scan_open || scan_due;
  wire idle = state_q == ST_IDLE;
  wire [CLIENTS:0] grant;

  efa_arb #(
      .N(CLIENTS + 1)
  ) u_arb (
      .clk(clk),
      .rst(rst),
      .s_request({scan_stays, s_irq_valid} & {CLIENTS + 1{idle}}),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  wire [7:0] vector = grant[0] ? s_irq_vector[7:0] : s_irq_vector[15:8];
  wire known = {1'b0, vector} < VECTOR_END;
  wire take = grant[2] || (grant[1:0] != 2'b00 && known);
  wire park = state_q == ST_SEND && !open_q && s_cfg_msix_enable;
  wire hold = state_q == ST_SEND && open_q && resting_q[vector_q];
  wire leave = m_wr_irq_valid && m_wr_irq_ready;

  assign s_irq_ready = grant[CLIENTS-1:0];
  assign m_wr_irq_valid = state_q == ST_SEND && open_q && !resting_q[vector_q];
  assign m_wr_irq_addr = message[63:0];
  assign m_wr_irq_data = message[95:64];

  always @(posedge clk) begin
    if (rst) begin
      state_q <= ST_IDLE;
      pending_q <= {ENTRIES{1'b0}};
      held_q <= {ENTRIES{1'b0}};
      resting_q <= {ENTRIES{1'b0}};
      left_q <= 1'b0;
      anomaly_q <= 1'b0;
      scan_q <= {VEC_W{1'b0}};
    end else begin
      case (state_q)
        // Waits for a request, or for a pending or held message that may leave.
        ST_IDLE: begin
          if (take) state_q <= ST_LOOKUP;
        end
        // Waits for the table.
        ST_LOOKUP: begin
          state_q <= ST_SEND;
        end
        // Waits for the write stream; masked: pending; MSI-X disabled: lost; too soon: held.
        default: begin
          if (leave || !open_q || hold) state_q <= ST_IDLE;
        end
      endcase
      // A pending message includes the held message of its vector.
      if (grant[2]) begin
        pending_q[scan_q] <= pending_q[scan_q] && !scan_open;
        held_q[scan_q] <= 1'b0;
      end
      if (park) pending_q[vector_q] <= 1'b1;
      if (hold) held_q[vector_q] <= 1'b1;
      if (rested) resting_q[looked_q] <= 1'b0;
      if (leave && s_cfg_moderation != 16'd0) resting_q[vector_q] <= 1'b1;
      left_q <= leave;
      anomaly_q  <= grant[1:0] != 2'b00 && !known;
      if (!scan_stays || grant[2]) begin
        scan_q <= scan_q == VECTOR_LAST ? {VEC_W{1'b0}} : scan_q + VECTOR_ONE;
      end
    end
  end

  // Time of the last message of each vector. A scan over the vectors finds the intervals that are
  // over; a scan is much shorter than the wrap of now_q.
  reg [NOW_W-1:0] now_q;
  reg [VEC_W-1:0] scan_vector_q;
  reg [VEC_W-1:0] looked_q;
  reg left_q;
  reg [VEC_W-1:0] left_vector_q;
  wire [NOW_W-1:0] left_at;
  reg [NOW_W-1:0] looked_at_q;
  wire [NOW_W-1:0] rest = looked_at_q - left_at;
  // The read misses a message that leaves in the same cycle.
  wire seen = !(left_q && left_vector_q == looked_q);
  wire rested = rest >= {1'b0, s_cfg_moderation} && seen;

  efa_ram #(
      .WIDTH (NOW_W),
      .ADDR_W(VEC_W)
  ) u_left_at (
      .clk(clk),
      .wr_en(leave),
      .wr_addr(vector_q),
      .wr_data(now_q),
      .rd_en(1'b1),
      .rd_addr(scan_vector_q),
      .rd_data(left_at)
  );

  always @(posedge clk) begin
    if (rst) begin
      now_q <= {NOW_W{1'b0}};
      scan_vector_q <= {VEC_W{1'b0}};
    end else begin
      now_q <= now_q + {{NOW_W - 1{1'b0}}, 1'b1};
      scan_vector_q <= scan_vector_q == VECTOR_LAST ? {VEC_W{1'b0}} : scan_vector_q + VECTOR_ONE;
    end
  end

  always @(posedge clk) begin
    looked_q <= scan_vector_q;
    looked_at_q <= now_q;
    left_vector_q <= vector_q;
    anomaly_vector_q <= vector;
    if (idle) vector_q <= grant[2] ? scan_q : vector[VEC_W-1:0];
  end

  reg [63:0] data;
  always @* begin
    data = 64'd0;
    data[`EFA_EV_IRQ__VECTOR] = {{(8 - VEC_W) {1'b0}}, vector_q};
  end

  assign m_anomaly_valid = anomaly_q;
  assign m_anomaly_vector = anomaly_vector_q;
  assign ev_irq_valid = leave;
  assign ev_irq_data = data;

  wire unused_irq = &{1'b0, from_table[31:4], from_pba[31:5], from_pba[1:0]};

endmodule

`default_nettype wire
