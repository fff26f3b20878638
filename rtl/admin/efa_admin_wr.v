// efa_admin_wr - responses and asynchronous events share the admin's host writes.
//
// In    s_acq, s_aenq 64-byte writes
// Out   m_wr; an offered write stays until it is taken, else a response comes first
// Time  same cycle, one write per cycle
module efa_admin_wr (
    input wire clk,
    input wire rst,
    input wire s_acq_valid,
    output wire s_acq_ready,
    input wire [63:0] s_acq_addr,
    input wire [511:0] s_acq_data,
    input wire s_aenq_valid,
    output wire s_aenq_ready,
    input wire [63:0] s_aenq_addr,
    input wire [511:0] s_aenq_data,
    output wire m_wr_valid,
    input wire m_wr_ready,
    output wire [63:0] m_wr_addr,
    output wire [511:0] m_wr_data
);

  reg event_waits_q;
  wire is_event = event_waits_q || !s_acq_valid;

  assign m_wr_valid = s_acq_valid || s_aenq_valid;
  assign m_wr_addr = is_event ? s_aenq_addr : s_acq_addr;
  assign m_wr_data = is_event ? s_aenq_data : s_acq_data;
  assign s_acq_ready = m_wr_ready && !is_event;
  assign s_aenq_ready = m_wr_ready && is_event;

  always @(posedge clk) begin
    if (rst) event_waits_q <= 1'b0;
    else event_waits_q <= s_aenq_valid && is_event && !m_wr_ready;
  end

endmodule
