// SPDX-License-Identifier: Apache-2.0
// efa_stats - holds the counters that GET_STATS reports.
//
// In    s_st: events of efa_stat, one per cycle each, with the bytes of a message; stat_rd_addr
// Out   stat_rd_data: the counter of that index (0 tx_bytes, 1 tx_pkts, 2 rx_bytes, 3 rx_pkts,
//       4 rx_drops, 5 qkey_viol, 6 send_bytes, 7 send_wrs, 8 recv_bytes, 9 recv_wrs,
//       13 write_recv_bytes, else 0)
// Time  stat_rd_data one cycle after stat_rd_addr; every event of every cycle is counted
`default_nettype none
`include "efa_defs.vh"

module efa_stats #(
    parameter COUNT_LEFT = 0  // from reset to the wrap of a counter; 0: 2^64
) (
    input wire clk,
    input wire [`EFA_STAT__COUNT-1:0] s_st_valid,
    input wire [16*(`EFA_STAT__WRITE+1)-1:0] s_st_bytes,
    input wire [3:0] stat_rd_addr,
    output wire [63:0] stat_rd_data,
    input wire rst
);

  localparam PAIRS = `EFA_STAT__WRITE + 1;
  localparam [31:0] LEFT = COUNT_LEFT;
  localparam [63:0] FIRST = 64'd0 - {32'd0, LEFT};

  // Pairs of a packet counter and its byte counter: transmit, send, receive, write of a peer.
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
        end else if (s_st_valid[g]) begin
          bytes_q <= bytes_q + {48'd0, s_st_bytes[16*g+:16]};
          count_q <= count_q + 64'd1;
        end
      end
      assign bytes[64*g+:64] = bytes_q;
      assign count[64*g+:64] = count_q;
    end
  endgenerate

  reg [63:0] drops_q;
  reg [63:0] qkey_q;
  reg [63:0] value_q;

  always @(posedge clk) begin
    if (rst) begin
      drops_q <= FIRST;
      qkey_q  <= FIRST;
    end else begin
      drops_q <= drops_q + {63'd0, s_st_valid[`EFA_STAT__DROP]};
      qkey_q  <= qkey_q + {63'd0, s_st_valid[`EFA_STAT__QKEY]};
    end
    case (stat_rd_addr)
      4'd0: value_q <= bytes[63:0];
      4'd1: value_q <= count[63:0];
      // A delivered packet is a completed receive or part of a write.
      4'd2: value_q <= bytes[191:128] + bytes[255:192];
      4'd3: value_q <= count[191:128] + count[255:192];
      4'd4: value_q <= drops_q;
      4'd5: value_q <= qkey_q;
      4'd6: value_q <= bytes[127:64];
      4'd7: value_q <= count[127:64];
      4'd8: value_q <= bytes[191:128];
      4'd9: value_q <= count[191:128];
      4'd13: value_q <= bytes[255:192];
      default: value_q <= 64'd0;
    endcase
  end

  assign stat_rd_data = value_q;

endmodule

`default_nettype wire
