// SPDX-License-Identifier: Apache-2.0
// efa_dma_wr - merges the host writes of six clients into one stream, round robin by packet.
//
// In    s_wr: packets of the engines, one lane per client; s_wr_reg: responses to MMIO_REG_READ,
//       one beat; s_wr_irq: MSI-X messages, one beat, valid may fall before the handshake
//       s_cfg_bme low or s_stop_all: no new packet; s_stop_core: no new packet of the engines and
//       irq
// Out   m_dma_wr in the order of the clients' handshakes; m_idle: no packet is open or pending;
//       m_core_idle: none of the engines and irq
// Time  one cycle, one beat per cycle, no gap between packets
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_dma_wr (
    input  wire clk,
    input  wire rst,
    input  wire s_cfg_bme,
    input  wire s_stop_core,
    input  wire s_stop_all,
    input  wire [3:0] s_cfg_mps_log,
    output wire m_core_idle,
    output wire m_idle,
    input  wire [`EFA_DMA_WR_CLIENT__COUNT-1:0] s_wr_valid,
    output wire [`EFA_DMA_WR_CLIENT__COUNT-1:0] s_wr_ready,
    input  wire [`EFA_DMA_WR__W*`EFA_DMA_WR_CLIENT__COUNT-1:0] s_wr_data,
    input  wire s_wr_reg_valid,
    output wire s_wr_reg_ready,
    input  wire [63:0] s_wr_reg_addr,
    input  wire [63:0] s_wr_reg_data,
    input  wire s_wr_irq_valid,
    output wire s_wr_irq_ready,
    input  wire [63:0] s_wr_irq_addr,
    input  wire [31:0] s_wr_irq_data,
    output wire m_dma_wr_valid,
    input  wire m_dma_wr_ready,
    output wire [63:0] m_dma_wr_addr,
    output wire [12:0] m_dma_wr_len,
    output wire [511:0] m_dma_wr_data,
    output wire m_dma_wr_last
);

  localparam CLIENTS = `EFA_DMA_WR_CLIENT__COUNT;
  localparam N = CLIENTS + 2;
  localparam BEAT_W = `EFA_DMA_WR__W;
  localparam [N-1:0] IS_REG = 1 << CLIENTS;
  localparam [12:0] REG_BYTES = `EFA_ADMIN_MMIO_REQ_READ_LESS_RESP__BYTES;
  localparam [12:0] IRQ_BYTES = 13'd4;
  localparam [12:0] BEAT_BYTES = 13'd64;

  wire [N-1:0] valid = {s_wr_irq_valid, s_wr_reg_valid, s_wr_valid};
  wire [N*BEAT_W-1:0] beats = {
    {s_wr_irq_addr, IRQ_BYTES, 1'b1, 480'd0, s_wr_irq_data},
    {s_wr_reg_addr, REG_BYTES, 1'b1, 448'd0, s_wr_reg_data},
    s_wr_data
  };

  reg open_q;  // a packet has begun and its last beat is not accepted yet
  reg out_valid_q;
  reg out_reg_q;
  reg [BEAT_W-1:0] out_q;

  // A packet is granted only in the cycle of its first handshake, so no client holds an idle grant.
  wire space = !out_valid_q || m_dma_wr_ready;
  wire may_start = s_cfg_bme && !s_stop_all && space && !open_q;
  wire [N-1:0] request = valid & {N{may_start}} & (s_stop_core ? IS_REG : {N{1'b1}});
  wire [N-1:0] grant;

  reg [BEAT_W-1:0] beat;
  integer i;
  always @* begin
    beat = {BEAT_W{1'b0}};
    for (i = 0; i < N; i = i + 1) begin
      beat = beat | (beats[BEAT_W*i+:BEAT_W] & {BEAT_W{grant[i]}});
    end
  end

  wire accepted = space && (valid & grant) != {N{1'b0}};
  wire last = beat[`EFA_DMA_WR__LAST];
  wire open_d = accepted ? !last : open_q;

  efa_arb #(
      .N(N)
  ) u_arb (
      .clk(clk),
      .rst(rst),
      .s_request(request),
      .s_hold(open_d),
      .m_grant(grant)
  );

  always @(posedge clk) begin
    if (rst) begin
      open_q <= 1'b0;
      out_valid_q <= 1'b0;
    end else begin
      open_q <= open_d;
      if (space) out_valid_q <= accepted;
    end
  end

  always @(posedge clk) begin
    if (space) begin
      out_q <= beat;
      out_reg_q <= grant == IS_REG;
    end
  end

  assign {s_wr_irq_ready, s_wr_reg_ready, s_wr_ready} = grant & {N{space}};
  assign m_dma_wr_valid = out_valid_q;
  assign {m_dma_wr_addr, m_dma_wr_len, m_dma_wr_last, m_dma_wr_data} = out_q;
  assign m_core_idle = !open_q && !(out_valid_q && !out_reg_q);
  assign m_idle = !open_q && !out_valid_q;

  // Checks the packets of the clients where they become packets of the device.
  reg [12:0] left_q;
  wire [12:0] len = beat[`EFA_DMA_WR__LEN];
  wire [63:0] addr = beat[`EFA_DMA_WR__ADDR];
  wire [12:0] left = open_q ? left_q : len;
  wire [12:0] limit = 13'd1 << s_cfg_mps_log;
  wire [12:0] place = addr[12:0] & (limit - 13'd1);

  always @(posedge clk) begin
    if (accepted) left_q <= left - BEAT_BYTES;
  end

  `EFA_CHECK(!accepted || last == (left <= BEAT_BYTES),
             "number of beats differs from the length of the write")
  `EFA_CHECK(!accepted || place + len <= limit, "write crosses the maximum payload boundary")
  `EFA_CHECK(!accepted || len != 13'd0, "write of 0 bytes")

  wire unused_promise = &{1'b0, left, place, addr[63:13]};

endmodule

`default_nettype wire
