// SPDX-License-Identifier: Apache-2.0
// fv_keys - proves efa_mr_check: a key validates only against its own MR, while the MR is live, for
// the PD of that MR, with its rights and inside its bytes.
//
// The wrapper records one MR of the solver's choice, as last written by the admin side, and the
// requests that name its index, stage by stage. The table may hold any content for all other MRs,
// which may be created and destroyed in any cycle.
`include "efa_defs.vh"

module fv_keys #(
    parameter USER_W = 4,
    parameter EARLY  = 0
) (
    input wire clk,
    input wire rst,
    input wire mr_valid,
    input wire [`EFA_LIMITS__MR_W-1:0] mr_index,
    input wire [`EFA_MRC__W-1:0] mr_data,
    input wire s_valid,
    input wire [23:0] s_key,
    input wire [9:0] s_pd,
    input wire [63:0] s_addr,
    input wire [31:0] s_len,
    input wire [1:0] s_access,
    input wire [USER_W-1:0] s_user,
    input wire m_ready
);

  localparam MR_W = `EFA_LIMITS__MR_W;
  localparam MRC_W = `EFA_MRC__W;
  localparam REQ_META_W = 24 + 10 + 64 + 32 + 2 + USER_W;

  wire init_done;
  wire s_ready;
  wire m_valid;
  wire m_ok;
  wire [`EFA_MR_LOC__W-1:0] m_loc;
  wire [31:0] m_len;
  wire [USER_W-1:0] m_user;

  efa_mr_check #(
      .USER_W(USER_W),
      .EARLY (EARLY)
  ) u_dut (
      .clk(clk),
      .rst(rst),
      .m_init_done(init_done),
      .s_mr_valid(mr_valid),
      .s_mr_index(mr_index),
      .s_mr_data(mr_data),
      .s_valid(s_valid),
      .s_ready(s_ready),
      .s_key(s_key),
      .s_pd(s_pd),
      .s_addr(s_addr),
      .s_len(s_len),
      .s_access(s_access),
      .s_user(s_user),
      .m_valid(m_valid),
      .m_ready(m_ready),
      .m_ok(m_ok),
      .m_loc(m_loc),
      .m_len(m_len),
      .m_user(m_user)
  );

  (* anyconst *) wire [MR_W-1:0] me;

  (* probe = "u_dut.init_q" *) wire [MR_W:0] sweep;
  (* probe = "u_dut.u_table.word_addr" *) wire [MR_W-1:0] word_addr;
  (* probe = "u_dut.u_table.word_q" *) wire [63+MRC_W:0] word;
  (* probe = "u_dut.u_table.word_known_q" *) wire word_known;
  (* probe = "u_dut.u_table.rd_data_q" *) wire [63+MRC_W:0] region;
  (* probe = "u_dut.s1_valid_q" *) wire s1_valid;
  (* probe = "u_dut.s1_key_q" *) wire [23:0] s1_key;
  (* probe = "u_dut.s1_pd_q" *) wire [9:0] s1_pd;
  (* probe = "u_dut.s1_addr_q" *) wire [63:0] s1_addr;
  (* probe = "u_dut.s1_len_q" *) wire [31:0] s1_len;
  (* probe = "u_dut.s1_access_q" *) wire [1:0] s1_access;
  (* probe = "u_dut.s1_user_q" *) wire [USER_W-1:0] s1_user;

  (* probe = "u_dut.s2_valid_q" *) wire s2_valid;
  (* probe = "u_dut.s2_allowed_q" *) wire s2_allowed;
  (* probe = "u_dut.s2_none_q" *) wire s2_none;
  (* probe = "u_dut.s2_long_q" *) wire s2_long;
  (* probe = "u_dut.s2_distance_q" *) wire [63:0] s2_distance;
  (* probe = "u_dut.s2_space_q" *) wire [63:0] s2_space;
  (* probe = "u_dut.s2_offset_q" *) wire [63:0] s2_offset;
  (* probe = "u_dut.s2_phys_q" *) wire s2_phys;
  (* probe = "u_dut.s2_shift_q" *) wire [5:0] s2_shift;
  (* probe = "u_dut.s2_mtt_q" *) wire [`EFA_LIMITS__MTT_W-1:0] s2_mtt;
  (* probe = "u_dut.s2_addr_q" *) wire [63:0] s2_addr;
  (* probe = "u_dut.s2_len_q" *) wire [31:0] s2_len;
  (* probe = "u_dut.s2_user_q" *) wire [USER_W-1:0] s2_user;

  reg began_q = 1'b0;
  reg [MRC_W-1:0] mr_q;  // the current MR
  reg foreign_q;  // another MR was written in the previous cycle

  // The requests in the stages: valid, names this MR, requested access, its MR.
  reg [2:0] there_q;
  reg [2:0] mine_q;
  reg [REQ_META_W-1:0] request1_q;
  reg [REQ_META_W-1:0] request2_q;
  reg [REQ_META_W-1:0] request3_q;
  reg [MRC_W-1:0] mr1_q;
  reg [MRC_W-1:0] mr2_q;
  reg [MRC_W-1:0] mr3_q;

  wire completed = EARLY != 0 ? there_q[1] : there_q[2];
  wire about_me = EARLY != 0 ? mine_q[1] : mine_q[2];
  wire [REQ_META_W-1:0] request = EARLY != 0 ? request2_q : request3_q;
  wire [MRC_W-1:0] mr = EARLY != 0 ? mr2_q : mr3_q;
  wire [23:0] key;
  wire [9:0] pd;
  wire [63:0] addr;
  wire [31:0] len;
  wire [1:0] access;
  wire [USER_W-1:0] user;
  assign {key, pd, addr, len, access, user} = request;
  wire moves = !completed || m_ready;

  wire [23:0] key2;
  wire [9:0] pd2;
  wire [63:0] addr2;
  wire [31:0] len2;
  wire [1:0] access2;
  wire [USER_W-1:0] user2;
  assign {key2, pd2, addr2, len2, access2, user2} = request2_q;

  // Permitted kinds of access, in the order of efa_mr_access.
  wire [3:0] rights = {
    mr[`EFA_MRC__REMOTE_WRITE], mr[`EFA_MRC__REMOTE_READ], mr[`EFA_MRC__LOCAL_WRITE], 1'b1
  };
  wire [3:0] rights2 = {
    mr2_q[`EFA_MRC__REMOTE_WRITE],
    mr2_q[`EFA_MRC__REMOTE_READ],
    mr2_q[`EFA_MRC__LOCAL_WRITE],
    1'b1
  };
  wire [63:0] iova = mr[`EFA_MRC__IOVA];
  wire [63:0] first_page = iova & ({64{1'b1}} << mr[`EFA_MRC__SHIFT]);
  wire [63:0] first_page0 = mr_q[`EFA_MRC__IOVA] & ({64{1'b1}} << mr_q[`EFA_MRC__SHIFT]);
  wire [63:0] first_page1 = mr1_q[`EFA_MRC__IOVA] & ({64{1'b1}} << mr1_q[`EFA_MRC__SHIFT]);
  wire [63:0] first_page2 = mr2_q[`EFA_MRC__IOVA] & ({64{1'b1}} << mr2_q[`EFA_MRC__SHIFT]);
  wire [63:0] length = mr[`EFA_MRC__LENGTH];
  wire [65:0] end_requested = {2'd0, addr} + {34'd0, len};
  wire [65:0] end_there = {2'd0, iova} + {2'd0, length};

  always @(posedge clk) begin
    began_q   <= 1'b1;
    foreign_q <= mr_valid && mr_index != me;
    if (rst) mr_q <= {MRC_W{1'b0}};
    else if (mr_valid && mr_index == me) mr_q <= mr_data;
    if (rst) there_q <= 3'd0;
    else if (moves) there_q <= {there_q[1:0], s_valid};
    if (moves) begin
      mine_q <= {mine_q[1:0], s_key[MR_W-1:0] == me};
      request1_q <= {s_key, s_pd, s_addr, s_len, s_access, s_user};
      request2_q <= request1_q;
      request3_q <= request2_q;
      mr1_q  <= mr_q;
      mr2_q  <= mr1_q;
      mr3_q  <= mr2_q;
    end
  end

  wire [63:0] mr_iova = mr_data[`EFA_MRC__IOVA];
  wire [63:0] mr_length = mr_data[`EFA_MRC__LENGTH];

  always @* begin
    a_began : assume (began_q || rst);
    a_tables : assume (init_done || !(s_valid || mr_valid));
    a_ends :
    assume (!(mr_valid && mr_data[`EFA_MRC__LIVE]) || mr_length == 64'd0 || mr_iova <= -mr_length);
    a_words : assume (word_addr == me);
    if (began_q && !rst) begin
      h_init : assert (init_done || (mr_q == {MRC_W{1'b0}} && there_q == 3'd0));
      h_word : assert (sweep <= {1'b0, me} || (word_known && word == {first_page0, mr_q}));
      h_ends :
      assert ((!mr_q[`EFA_MRC__LIVE] || mr_q[`EFA_MRC__LENGTH] == 64'd0
          || mr_q[`EFA_MRC__IOVA] <= -mr_q[`EFA_MRC__LENGTH])
          && (!mr1_q[`EFA_MRC__LIVE] || !there_q[0] || mr1_q[`EFA_MRC__LENGTH] == 64'd0
          || mr1_q[`EFA_MRC__IOVA] <= -mr1_q[`EFA_MRC__LENGTH]));
      h_first :
      assert (s1_valid == there_q[0] && (!there_q[0] || (request1_q == {
        s1_key, s1_pd, s1_addr, s1_len, s1_access, s1_user
      } && mine_q[0] == (s1_key[MR_W-1:0] == me) && (!mine_q[0] || region == {first_page1, mr1_q}))));
      h_second :
      assert (s2_valid == there_q[1] && (!there_q[1] || (s2_addr == addr2 && s2_len == len2
          && s2_user == user2 && s2_none == (len2 == 32'd0) && mine_q[1] == (key2[MR_W-1:0] == me)
          && (!mine_q[1] || (s2_mtt == mr2_q[`EFA_MRC__MTT] && s2_shift == mr2_q[`EFA_MRC__SHIFT]
          && s2_phys == mr2_q[`EFA_MRC__PHYS]
          && s2_allowed == (mr2_q[`EFA_MRC__LIVE] && key2 == {4'd0, mr2_q[`EFA_MRC__KEY]}
          && pd2 == mr2_q[`EFA_MRC__PD] && rights2[access2])
          && s2_long == (mr2_q[`EFA_MRC__LENGTH] < {32'd0, len2})
          && s2_distance == addr2 - mr2_q[`EFA_MRC__IOVA] && s2_offset == addr2 - first_page2
          && s2_space == mr2_q[`EFA_MRC__LENGTH] - {32'd0, len2}
          && (!mr2_q[`EFA_MRC__LIVE] || mr2_q[`EFA_MRC__LENGTH] == 64'd0
          || mr2_q[`EFA_MRC__IOVA] <= -mr2_q[`EFA_MRC__LENGTH]))))));
      p_once : assert (m_valid == completed && (!completed || (m_len == len && m_user == user)));
      p_key :
      assert (!(completed && about_me && m_ok && len != 32'd0) || (mr[`EFA_MRC__LIVE]
          && key == {4'd0, mr[`EFA_MRC__KEY]} && pd == mr[`EFA_MRC__PD]
          && rights[access]));
      p_where :
      assert (!(completed && about_me) || (m_loc[`EFA_MR_LOC__MTT] == mr[`EFA_MRC__MTT]
          && m_loc[`EFA_MR_LOC__SHIFT] == mr[`EFA_MRC__SHIFT]
          && m_loc[`EFA_MR_LOC__PHYS] == mr[`EFA_MRC__PHYS]
          && m_loc[`EFA_MR_LOC__START] == (mr[`EFA_MRC__PHYS] ? addr : addr - first_page)));
      p_inside :
      assert (!(completed && about_me && m_ok && len != 32'd0) || (addr >= iova
          && end_requested <= end_there));
      c_once : cover (completed && about_me && there_q[0] && user == 4'd5);
      c_key : cover (completed && about_me && m_ok && len == 32'd64 && foreign_q);
      c_where : cover (completed && about_me && m_loc[`EFA_MR_LOC__MTT] == 19'd7);
      c_inside : cover (completed && about_me && m_ok && len == 32'd64 && addr > iova);
    end
  end

endmodule
