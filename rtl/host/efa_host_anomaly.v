// SPDX-License-Identifier: Apache-2.0
// efa_host_anomaly - merges the anomaly reports of the host boundary into one event.
//
// In    s_part, s_anomaly: from stores, never both in one cycle; s_late: a read completion without
//       a request; s_vector: an interrupt request of a vector that does not exist
// Out   ev_anomaly_host
// Time  stores 1 cycle; the others wait for a free cycle, up to sixteen late completions and one
//       vector
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_host_anomaly (
    input  wire clk,
    input  wire rst,
    input  wire s_part_valid,
    input  wire [31:0] s_part_offset,
    input  wire s_anomaly_valid,
    input  wire [3:0] s_anomaly_kind,
    input  wire [31:0] s_anomaly_detail,
    input  wire s_late_valid,
    input  wire [7:0] s_late_tag,
    input  wire s_vector_valid,
    input  wire [7:0] s_vector_number,
    output wire ev_anomaly_host_valid,
    output wire [63:0] ev_anomaly_host_data
);


  reg vector_q;
  reg [7:0] vector_number_q;
  wire store = s_part_valid || s_anomaly_valid;
  wire held_valid;
  wire [7:0] held_tag;
  wire held_space;
  wire [4:0] unused_level;

  efa_fifo #(
      .WIDTH(8),
      .DEPTH_LOG2(4)
  ) u_late (
      .clk(clk),
      .rst(rst),
      .s_valid(s_late_valid),
      .s_ready(held_space),
      .s_data(s_late_tag),
      .m_valid(held_valid),
      .m_ready(!store && !vector_q),
      .m_data(held_tag),
      .m_level(unused_level)
  );

  reg valid_q;
  reg [3:0] what_q;
  reg [31:0] detail_q;

  always @(posedge clk) begin
    if (rst) begin
      valid_q  <= 1'b0;
      vector_q <= 1'b0;
    end else begin
      valid_q  <= store || vector_q || held_valid;
      vector_q <= s_vector_valid || vector_q && store;
    end
  end

  always @(posedge clk) begin
    if (s_vector_valid) vector_number_q <= s_vector_number;
    if (s_part_valid) begin
      what_q <= `EFA_ANOMALY_HOST__PARTIAL;
      detail_q <= s_part_offset;
    end else if (s_anomaly_valid) begin
      what_q <= s_anomaly_kind;
      detail_q <= s_anomaly_detail;
    end else if (vector_q) begin
      what_q <= `EFA_ANOMALY_HOST__VECTOR;
      detail_q <= {24'd0, vector_number_q};
    end else begin
      what_q <= `EFA_ANOMALY_HOST__READ_LATE;
      detail_q <= {24'd0, held_tag};
    end
  end

  reg [63:0] data;
  always @* begin
    data = 64'd0;
    data[`EFA_EV_ANOMALY_HOST__WHAT] = what_q;
    data[`EFA_EV_ANOMALY_HOST__DETAIL] = detail_q;
  end

  assign ev_anomaly_host_valid = valid_q;
  assign ev_anomaly_host_data = data;

  `EFA_CHECK(!(s_part_valid && s_anomaly_valid), "two reports for one store")

  wire unused_anomaly = &{1'b0, unused_level, held_space};

endmodule

`default_nettype wire
