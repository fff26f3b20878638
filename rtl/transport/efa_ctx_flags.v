// SPDX-License-Identifier: Apache-2.0
// efa_ctx_flags - frees message contexts whose sends have ended, when no block holds them any more.
//
// In    s_take_*: a send uses the context; s_end_*: its send has ended; s_held: contexts that are not
//       used again yet; a context becomes held with its send only
// Out   m_used: contexts of sends that have not ended; m_free_*: the context may be used again
// Time  m_used one cycle after its cause; m_free one cycle after s_end if the context is not held, or
//       else after it is held no more, one per cycle
//
// Contexts that are held after their ends are looked at in turn, one per cycle, rows without one in one
// cycle each.
`default_nettype none
`include "efa_check.vh"

module efa_ctx_flags #(
    parameter CTX_W = 11  // 4 or more
) (
    input wire clk,
    input wire rst,
    input wire s_take_valid,
    input wire [CTX_W-1:0] s_take_index,
    input wire s_end_valid,
    input wire [CTX_W-1:0] s_end_index,
    input wire [(1<<CTX_W)-1:0] s_held,
    output wire [(1<<CTX_W)-1:0] m_used,
    output wire m_free_valid,
    output wire [CTX_W-1:0] m_free_index
);

  localparam N = 1 << CTX_W;
  localparam COL_W = CTX_W / 2;
  localparam ROW_W = CTX_W - COL_W;
  localparam COLS = 1 << COL_W;
  localparam [CTX_W-1:0] ONE = 1;
  localparam [ROW_W-1:0] A_ROW = 1;

  reg [N-1:0] used_q;
  reg ended_q;
  reg [CTX_W-1:0] ended_index_q;
  reg [CTX_W-1:0] look_q;

  wire [ROW_W-1:0] look_row = look_q[CTX_W-1:COL_W];
  wire [COLS-1:0] kept_row;  // contexts of the row that were held at the end of their send
  wire kept = kept_row[look_q[COL_W-1:0]];

  wire frees = ended_q && !s_held[ended_index_q];
  wire keeps = ended_q && s_held[ended_index_q];
  wire drops = kept && !s_held[look_q] && !frees;
  // A context that waits for m_free stays at the position.
  wire stays = kept && !s_held[look_q] && frees;

  assign m_used = used_q;
  assign m_free_valid = frees || drops;
  assign m_free_index = frees ? ended_index_q : look_q;

  efa_flag_rows #(
      .ADDR_W(CTX_W),
      .COL_W (COL_W)
  ) u_kept (
      .clk(clk),
      .rst(rst),
      .set_en(keeps),
      .set_addr(ended_index_q),
      .clear_en(drops),
      .clear_addr(look_q),
      .rd_addr(look_row),
      .rd_data(kept_row)
  );

  always @(posedge clk) begin
    if (rst) begin
      used_q  <= {N{1'b0}};
      ended_q <= 1'b0;
      look_q  <= {CTX_W{1'b0}};
    end else begin
      if (s_end_valid) used_q[s_end_index] <= 1'b0;
      if (s_take_valid) used_q[s_take_index] <= 1'b1;
      ended_q <= s_end_valid;
      if (kept_row == {COLS{1'b0}}) look_q <= {look_row + A_ROW, {COL_W{1'b0}}};
      else if (!stays) look_q <= look_q + ONE;
    end
  end

  always @(posedge clk) begin
    ended_index_q <= s_end_index;
  end

  `EFA_CHECK(!s_take_valid || !used_q[s_take_index], "a context in use is used again")
  `EFA_CHECK(!s_end_valid || used_q[s_end_index], "a send ends twice")

endmodule

`default_nettype wire
