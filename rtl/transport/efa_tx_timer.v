// SPDX-License-Identifier: Apache-2.0
// efa_tx_timer - counts ticks and finds peers whose time has come or whose request was served.
//
// In    s_tick: the last cycle of a tick; s_set_*: when to look at a peer, or never; s_begin_*: a look
//       at a peer begins; s_left_*: a packet to a peer has left; s_served_*: a request was served;
//       s_waits: peers that are looked at soon anyway
// Out   m_ticks: the time; m_look: a peer to look at: its time has come, a request was served, or a
//       packet has left while no time is set, and it does not wait
// Time  a served request 2 cycles; others are found by a scan of one peer per cycle
//
// A peer may be found once too often, when it is looked at for another reason meanwhile. A peer that
// is found while another one waits is found again in the next scan.
`default_nettype none

module efa_tx_timer #(
    parameter NODE_W = 6,
    parameter TICKS_LEFT = 0  // ticks until the wrap at power-on; 0: 2^24
) (
    input wire clk,
    input wire rst_por,
    input wire rst,
    input wire s_tick,
    input wire s_set_valid,
    input wire [NODE_W-1:0] s_set_node,
    input wire s_set_armed,
    input wire [23:0] s_set_ticks,
    input wire s_begin_valid,
    input wire [NODE_W-1:0] s_begin_node,
    input wire s_left_valid,
    input wire [NODE_W-1:0] s_left_node,
    input wire s_served_valid,
    input wire [NODE_W-1:0] s_served_node,
    input wire [(1<<NODE_W)-1:0] s_waits,
    output wire [23:0] m_ticks,
    output wire m_look_valid,
    input wire m_look_ready,
    output wire [NODE_W-1:0] m_look_node
);

  localparam NODES = 1 << NODE_W;
  localparam [31:0] LEFT = TICKS_LEFT;
  localparam [23:0] FIRST = 24'd0 - LEFT[23:0];
  localparam [NODE_W-1:0] ONE = 1;

  reg [23:0] ticks_q;
  reg [NODES-1:0] armed_q;
  reg [NODES-1:0] left_q;
  reg [NODES-1:0] served_q;
  reg [NODE_W-1:0] scan_q;
  reg [NODE_W-1:0] read_node_q;
  reg read_q;  // the scan has read a time
  reg look_q;
  reg [NODE_W-1:0] look_node_q;

  wire [NODES-1:0] set_node = s_set_valid ? {{NODES - 1{1'b0}}, 1'b1} << s_set_node : {NODES{1'b0}};
  wire [NODES-1:0] begin_node = s_begin_valid ? {{NODES - 1{1'b0}}, 1'b1} << s_begin_node : {NODES{1'b0}};
  wire [NODES-1:0] left_node = s_left_valid ? {{NODES - 1{1'b0}}, 1'b1} << s_left_node : {NODES{1'b0}};
  wire [NODES-1:0] served_node = s_served_valid ? {{NODES - 1{1'b0}}, 1'b1} << s_served_node : {NODES{1'b0}};

  wire [23:0] read_ticks;
  wire [23:0] left = read_ticks - ticks_q;
  wire come = armed_q[read_node_q] ? left[23] || left == 24'd0 : left_q[read_node_q];
  wire found = read_q && come && !s_waits[read_node_q];

  wire free = !look_q || m_look_ready;
  wire [NODES-1:0] grant;
  wire [NODE_W-1:0] granted;
  wire any_served = served_q != {NODES{1'b0}};

  assign m_ticks = ticks_q;
  assign m_look_valid = look_q;
  assign m_look_node = look_node_q;

  efa_onehot_index #(
      .INDEX_W(NODE_W)
  ) u_granted (
      .s_bits(grant),
      .m_index(granted)
  );

  efa_arb #(
      .N(NODES)
  ) u_served (
      .clk(clk),
      .rst(rst),
      .s_request(free ? served_q : {NODES{1'b0}}),
      .s_hold(1'b0),
      .m_grant(grant)
  );

  efa_ram_fwd #(
      .WIDTH (24),
      .ADDR_W(NODE_W)
  ) u_times (
      .clk(clk),
      .wr_en(s_set_valid),
      .wr_addr(s_set_node),
      .wr_data(s_set_ticks),
      .rd_addr(scan_q),
      .rd_data(read_ticks)
  );

  always @(posedge clk) begin
    if (rst_por) ticks_q <= FIRST;
    else if (s_tick) ticks_q <= ticks_q + 24'd1;
  end

  always @(posedge clk) begin
    if (rst) begin
      armed_q <= {NODES{1'b0}};
      left_q <= {NODES{1'b0}};
      served_q <= {NODES{1'b0}};
      scan_q <= {NODE_W{1'b0}};
      read_q <= 1'b0;
      look_q <= 1'b0;
    end else begin
      if (s_set_valid) armed_q <= s_set_armed ? armed_q | set_node : armed_q & ~set_node;
      left_q <= (left_q & ~begin_node) | left_node;
      served_q <= (served_q & ~begin_node & ~grant) | served_node;
      scan_q <= scan_q + ONE;
      read_q <= 1'b1;
      look_q <= (free && any_served) || (free && found) || (look_q && !m_look_ready);
    end
  end

  always @(posedge clk) begin
    read_node_q <= scan_q;
    if (free) look_node_q <= any_served ? granted : read_node_q;
  end

endmodule

`default_nettype wire
