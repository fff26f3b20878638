// SPDX-License-Identifier: Apache-2.0
// efa_path_choose - chooses the usable path with the fewest packets in flight.
//
// In    s_usable; s_sent, s_settled: 16-bit counters of each path; s_first: first path among equals
// Out   m_path
// Time  combinational
`default_nettype none

module efa_path_choose #(
    parameter PATHS_W = 3
) (
    input wire [(1<<PATHS_W)-1:0] s_usable,
    input wire [16*(1<<PATHS_W)-1:0] s_sent,
    input wire [16*(1<<PATHS_W)-1:0] s_settled,
    input wire [PATHS_W-1:0] s_first,
    output wire [PATHS_W-1:0] m_path
);

  localparam PATHS = 1 << PATHS_W;

  // Each path is compared with each other one at the same time.
  wire [PATHS-1:0] wins;
  genvar one;
  genvar other;
  generate
    for (one = 0; one < PATHS; one = one + 1) begin : g_path
      wire [15:0] in_flight = s_sent[16*one+:16] - s_settled[16*one+:16];
      wire [PATHS_W-1:0] number = one;
      wire [PATHS_W-1:0] rank = number - s_first;
      wire [PATHS-1:0] beats;
      assign wins[one] = s_usable[one] && beats == {PATHS{1'b1}};
    end
    for (one = 0; one < PATHS; one = one + 1) begin : g_one
      for (other = 0; other < PATHS; other = other + 1) begin : g_other
        assign g_path[one].beats[other] = !s_usable[other]
            || g_path[one].in_flight < g_path[other].in_flight
            || (g_path[one].in_flight == g_path[other].in_flight
                && g_path[one].rank <= g_path[other].rank);
      end
    end
  endgenerate

  efa_onehot_index #(
      .INDEX_W(PATHS_W)
  ) u_path (
      .s_bits(wins),
      .m_index(m_path)
  );

endmodule

`default_nettype wire
