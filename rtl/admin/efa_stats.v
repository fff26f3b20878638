// SPDX-License-Identifier: Apache-2.0
// efa_stats - holds the counters that GET_STATS reports.
//
// In    s_st: events of efa_stat, one per cycle each, with the bytes of a message; stat_rd_addr
// Out   stat_rd_data: the counter of that index (0 tx_bytes, 1 tx_pkts, 2 rx_bytes, 3 rx_pkts,
//       4 rx_drops, 5 qkey_viol, 6 send_bytes, 7 send_wrs, 8 recv_bytes, 9 recv_wrs, 10 read_wrs,
//       11 read_bytes, 12 read_wr_err, 13 read_resp_bytes, 14 write_wrs, 15 write_bytes,
//       16 write_wr_err, 17 write_recv_bytes, else 0)
// Time  stat_rd_data one cycle after stat_rd_addr; every event of every cycle is counted
//
// A delivered packet is a received message, a packet of a write or a placed response. There is at most
// one in a cycle.
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_stats #(
    parameter COUNT_LEFT = 0  // from reset to the wrap of a counter; 0: 2^64
) (
    input wire clk,
    input wire [`EFA_STAT__COUNT-1:0] s_st_valid,
    input wire [32*(`EFA_STAT__PLACED+1-`EFA_STAT__TX)-1:0] s_st_bytes,
    input wire [4:0] stat_rd_addr,
    output wire [63:0] stat_rd_data,
    input wire rst
);

  // Pairs of an event counter and its byte counter.
  localparam TX = `EFA_STAT__TX - `EFA_STAT__TX;
  localparam SEND = `EFA_STAT__SEND - `EFA_STAT__TX;
  localparam READ = `EFA_STAT__READ - `EFA_STAT__TX;
  localparam WRITE = `EFA_STAT__WRITE - `EFA_STAT__TX;
  localparam RESPONSE = `EFA_STAT__RESPONSE - `EFA_STAT__TX;
  localparam RX = `EFA_STAT__RX - `EFA_STAT__TX;
  localparam RECV_WRITE = `EFA_STAT__RECV_WRITE - `EFA_STAT__TX;
  localparam DELIVERED = `EFA_STAT__PLACED - `EFA_STAT__TX;
  localparam PAIRS = DELIVERED + 1;
  localparam [31:0] LEFT = COUNT_LEFT;
  localparam [63:0] FIRST = 64'd0 - {32'd0, LEFT};

  wire placed = s_st_valid[`EFA_STAT__PLACED];
  wire recv_write = s_st_valid[`EFA_STAT__RECV_WRITE];
  wire received = s_st_valid[`EFA_STAT__RX];
  wire delivered = placed || recv_write || received;
  wire [31:0] delivered_bytes = placed ? s_st_bytes[32*DELIVERED+:32]
      : recv_write ? s_st_bytes[32*RECV_WRITE+:32] : s_st_bytes[32*RX+:32];
  wire [PAIRS-1:0] pair_valid = {delivered, s_st_valid[`EFA_STAT__RECV_WRITE:`EFA_STAT__TX]};
  wire [32*PAIRS-1:0] pair_bytes = {delivered_bytes, s_st_bytes[32*DELIVERED-1:0]};
  wire [64*PAIRS-1:0] bytes;
  wire [64*PAIRS-1:0] count;

  genvar g;
  generate
    for (g = 0; g < PAIRS; g = g + 1) begin : g_pair
      reg [63:0] bytes_q;
      reg [63:0] count_q;
      always @(posedge clk) begin
        if (rst) begin
          bytes_q <= FIRST;
          count_q <= FIRST;
        end else if (pair_valid[g]) begin
          bytes_q <= bytes_q + {32'd0, pair_bytes[32*g+:32]};
          count_q <= count_q + 64'd1;
        end
      end
      assign bytes[64*g+:64] = bytes_q;
      assign count[64*g+:64] = count_q;
    end
  endgenerate

  reg [63:0] read_errs_q;
  reg [63:0] write_errs_q;
  reg [63:0] drops_q;
  reg [63:0] qkey_q;
  reg [63:0] value_q;

  always @(posedge clk) begin
    if (rst) begin
      read_errs_q <= FIRST;
      write_errs_q <= FIRST;
      drops_q <= FIRST;
      qkey_q  <= FIRST;
    end else begin
      read_errs_q <= read_errs_q + {63'd0, s_st_valid[`EFA_STAT__READ_ERR]};
      write_errs_q <= write_errs_q + {63'd0, s_st_valid[`EFA_STAT__WRITE_ERR]};
      drops_q <= drops_q + {63'd0, s_st_valid[`EFA_STAT__DROP]} + {63'd0, s_st_valid[`EFA_STAT__ACK_DROP]};
      qkey_q  <= qkey_q + {63'd0, s_st_valid[`EFA_STAT__QKEY]};
    end
    case (stat_rd_addr)
      5'd0: value_q <= bytes[64*TX+:64];
      5'd1: value_q <= count[64*TX+:64];
      5'd2: value_q <= bytes[64*DELIVERED+:64];
      5'd3: value_q <= count[64*DELIVERED+:64];
      5'd4: value_q <= drops_q;
      5'd5: value_q <= qkey_q;
      5'd6: value_q <= bytes[64*SEND+:64];
      5'd7: value_q <= count[64*SEND+:64];
      5'd8: value_q <= bytes[64*RX+:64];
      5'd9: value_q <= count[64*RX+:64];
      5'd10: value_q <= count[64*READ+:64];
      5'd11: value_q <= bytes[64*READ+:64];
      5'd12: value_q <= read_errs_q;
      5'd13: value_q <= bytes[64*RESPONSE+:64];
      5'd14: value_q <= count[64*WRITE+:64];
      5'd15: value_q <= bytes[64*WRITE+:64];
      5'd16: value_q <= write_errs_q;
      5'd17: value_q <= bytes[64*RECV_WRITE+:64];
      default: value_q <= 64'd0;
    endcase
  end

  assign stat_rd_data = value_q;

  wire unused_bits = &{1'b0, count};

  `EFA_CHECK({1'b0, placed} + {1'b0, recv_write} + {1'b0, received} < 2'd2,
             "two delivered packets in a cycle")

endmodule

`default_nettype wire
