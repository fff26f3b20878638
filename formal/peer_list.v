// SPDX-License-Identifier: Apache-2.0
// fv_peer_list - proves efa_peer_list: each context leaves its list once, in the order of the pushes.
module fv_peer_list #(
    parameter NODE_W = 1,
    parameter CTX_W  = 2
) (
    input wire clk,
    input wire rst,
    input wire push_valid,
    input wire [NODE_W-1:0] push_node,
    input wire [31:0] push_id,
    input wire push_user,
    input wire look_valid,
    input wire [NODE_W-1:0] look_node,
    input wire pop
);

  localparam CONTEXTS = 1 << CTX_W;

  wire init_done;
  wire found;
  wire [31:0] id;
  wire user;

  efa_peer_list #(
      .NODE_W(NODE_W),
      .CTX_W (CTX_W)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done),
      .s_push_valid(push_valid),
      .s_push_node(push_node),
      .s_push_id(push_id),
      .s_push_user(push_user),
      .s_look_node(look_node),
      .m_found(found),
      .m_id(id),
      .m_user(user),
      .s_pop(pop)
  );

  // Two contexts of the solver's choice.
  (* anyconst *) wire [CTX_W-1:0] me;
  (* anyconst *) wire [CTX_W-1:0] other;
  reg began_q = 1'b0;
  reg [CONTEXTS-1:0] inside_q;  // in a list
  reg [NODE_W-1:0] node_q;  // list of me
  reg high_q;  // lowest bit of the id of me above its place
  reg user_q;  // user bit of me
  reg [3:0] since_q;  // cycles since the push of me, at most 15
  reg first_q;  // me was in the list of the other context before it
  reg look1_q;
  reg look2_q;
  reg [NODE_W-1:0] look1_node_q;
  reg [NODE_W-1:0] look2_node_q;
  reg passed_q;  // another context left while me waited

  wire [CTX_W-1:0] place = push_id[CTX_W-1:0];
  wire [CTX_W-1:0] popped = id[CTX_W-1:0];
  wire push_me = push_valid && place == me;
  wire push_other = push_valid && place == other && other != me;
  wire pop_me = pop && popped == me;
  wire in_me = inside_q[me];

  always @(posedge clk) begin
    began_q <= 1'b1;
    look1_node_q <= look_node;
    look2_node_q <= look1_node_q;
    if (rst) begin
      inside_q <= {CONTEXTS{1'b0}};
      first_q <= 1'b0;
      look1_q <= 1'b0;
      look2_q <= 1'b0;
      passed_q <= 1'b0;
      since_q <= 4'd0;
    end else begin
      if (pop) inside_q[popped] <= 1'b0;
      if (push_valid) inside_q[place] <= 1'b1;
      look1_q <= look_valid;
      look2_q <= look1_q;
      since_q <= push_me ? 4'd0 : since_q == 4'd15 ? since_q : since_q + 4'd1;
      if (push_me) begin
        node_q <= push_node;
        high_q <= push_id[CTX_W];
        user_q <= push_user;
      end
      if (pop_me || push_me) first_q <= 1'b0;
      else if (push_other) first_q <= in_me && node_q == push_node;
      passed_q <= in_me && (passed_q || (pop && !pop_me && look2_node_q == node_q));
    end
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    a_initialized : assume (init_done || !(push_valid || look_valid));
    a_free : assume (!push_valid || !inside_q[place]);
    a_turn : assume (!pop || (look2_q && found));
    if (began_q && !rst) begin
      p_once : assert (!pop_me || (in_me && node_q == look2_node_q));
      p_id : assert (!pop_me || id[CTX_W] == high_q);
      p_user : assert (!pop_me || user == user_q);
      p_order : assert (!(pop && popped == other && other != me) || !first_q);
      p_found : assert (!(look2_q && in_me && node_q == look2_node_q && since_q >= 4'd3) || found);
      c_once : cover (pop_me && passed_q);
      c_id : cover (pop_me && id[CTX_W] && since_q == 4'd9);
      c_user : cover (pop_me && user && since_q == 4'd9);
      c_order : cover (pop_me && first_q && passed_q);
      c_found : cover (look2_q && !found && inside_q != {CONTEXTS{1'b0}});
    end
  end

endmodule
