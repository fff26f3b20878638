// SPDX-License-Identifier: Apache-2.0
// fv_msg_id_alloc - proves efa_msg_id_alloc: a context belongs to one message at a time, ids only
// increase, and the next context is ready within a bound for any number of contexts in use.
module fv_msg_id_alloc #(
    parameter CTX_W = 4
) (
    input wire clk,
    input wire rst_por,
    input wire rst,
    input wire give,
    input wire release_valid,
    input wire [CTX_W-1:0] release_place
);

  localparam N = 1 << CTX_W;

  wire next_ready;
  wire [31:0] next_id;
  wire passes;

  efa_msg_id_alloc #(
      .CTX_W(CTX_W)
  ) u_dut (
      .clk(clk),
      .rst_por(rst_por),
      .rst(rst),
      .m_next_free(next_ready),
      .m_next_id(next_id),
      .s_give(give),
      .s_release_valid(release_valid),
      .s_release_place(release_place),
      .m_passes(passes)
  );

  (* probe = "u_dut.u_used.all" *) wire [N-1:0] used;
  (* probe = "u_dut.in_row" *) wire in_row;
  localparam COL_W = CTX_W / 2;
  localparam ROWS = 1 << (CTX_W - COL_W);
  (* probe = "u_dut.rows" *) wire [ROWS-1:0] rows;

  (* anyconst *) wire [CTX_W-1:0] me;
  reg began_q = 1'b0;
  reg mine_q;  // allocated and not freed
  reg ids_q;
  reg gave_q;
  reg [31:0] id_q;
  reg avail_q;
  // Cycles without a ready context, while one is free.
  reg waits_q;
  reg stood_q;
  // The round robin skips the context: it was in use when the scan pointer passed.
  reg passed_q;

  wire avail = used != {N{1'b1}};
  wire [ROWS-1:0] rows_known;
  genvar row;
  generate
    for (row = 0; row < ROWS; row = row + 1) begin : g_row
      assign rows_known[row] = used[row<<COL_W+:1<<COL_W] != {1 << COL_W{1'b1}};
    end
  endgenerate
  wire give_me = give && next_id[CTX_W-1:0] == me;
  wire release_me = release_valid && release_place == me;

  always @(posedge clk) begin
    began_q <= 1'b1;
    mine_q <= !rst && ((mine_q && !release_me) || give_me);
    ids_q <= !rst_por;
    gave_q <= !rst && give;
    id_q <= next_id;
    avail_q <= avail;
    waits_q <= !rst && !next_ready && avail;
    stood_q <= waits_q;
    passed_q <= !rst && passes;
  end

  wire [31:0] went = next_id - id_q;

  always @* begin
    if (!began_q) a_begin : assume (rst && rst_por);
    a_power : assume (!rst_por || rst);
    // A context is allocated only while one is ready; a freed context was allocated.
    a_ready : assume (!give || next_ready);
    a_used : assume (!release_valid || used[release_place]);
    if (began_q && !rst) begin
      h_ready : assert (!next_ready || !used[next_id[CTX_W-1:0]]);
      h_rows : assert (rows == rows_known);
      h_row : assert (!waits_q || next_ready || in_row);
      p_given : assert (used[me] == mine_q && !(give_me && mine_q));
      p_ids : assert (!ids_q || (gave_q ? went == 1 : went <= N && (avail_q || went == 0)));
      p_next : assert (!(waits_q && stood_q) || next_ready);
      p_passes : assert (gave_q || !ids_q || went == 0 || passed_q);
      c_given : cover (give_me && next_id[31:CTX_W] == 1);
      c_ids : cover (ids_q && !gave_q && went > N / 2);
      c_next : cover (stood_q && waits_q && next_ready && next_id[31:CTX_W] == 1);
      c_passes : cover (passed_q && next_ready);
    end
  end

endmodule
