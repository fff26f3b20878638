// SPDX-License-Identifier: Apache-2.0
// efa_rx_scatter - writes the bytes of a packet into the buffers of its receive WQE, or those of an
// RDMA write to their place.
//
// In    s_job jobs that write, in order; s_win_data 64 bytes of the packet buffer
// Out   m_win_pos byte position to read; m_wr host writes, GRH first for datagrams; m_done: the
//       last write of a job was accepted
// Time  7 cycles from s_job to the first write, then one beat per cycle; at best one job per cycle
`default_nettype none
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rx_scatter #(
    parameter LINE_W = 9,
    parameter MTT_W  = `EFA_PROFILE__MR_PAGES_W(32, `EFA_PROFILE__DEFAULT)
) (
    input wire clk,
    input wire rst,
    input wire [15:0] s_cfg_node_id,
    input wire [3:0] s_cfg_mps_log,

    input wire s_mtt_valid,
    input wire [`EFA_LIMITS__MTT_W-1:0] s_mtt_index,
    input wire [51:0] s_mtt_data,

    input wire s_job_valid,
    output wire s_job_ready,
    input wire [`EFA_RX_JOB__W-1:0] s_job_data,

    output wire [LINE_W+5:0] m_win_pos,
    input wire [511:0] s_win_data,

    output wire m_wr_valid,
    input wire m_wr_ready,
    output wire [63:0] m_wr_addr,
    output wire [12:0] m_wr_len,
    output wire [511:0] m_wr_data,
    output wire m_wr_last,
    output wire m_done
);

  localparam POS_W = LINE_W + 6;
  localparam HDR_BYTES = `EFA_PKT_HDR__BYTES;
  localparam RDMA_BYTES = `EFA_PKT_HDR__BYTES + `EFA_PKT_RDMA__BYTES;
  localparam GRH_BYTES = `EFA_LIMITS__GRH_BYTES;
  localparam USER_W = 1 + 1 + POS_W + 16;

  // ---- cut the bytes of the job by source and buffer ----
  reg busy_q;
  reg [`EFA_RX_JOB__W-1:0] job_q;
  reg second_q;
  reg [15:0] used_q;  // bytes of this buffer already assigned
  reg [31:0] place_q;  // of the next byte behind the location of this buffer
  reg [5:0] grh_left_q;
  reg [15:0] left_q;
  reg [POS_W-1:0] pos_q;

  wire [15:0] size = second_q ? job_q[`EFA_RX_JOB__SIZE1] : job_q[`EFA_RX_JOB__SIZE0];
  wire [15:0] buffer_left = size - used_q;
  wire from_grh = grh_left_q != 6'd0;
  wire [15:0] wanted = from_grh ? {10'd0, grh_left_q} : left_q;
  wire [15:0] part = wanted < buffer_left ? wanted : buffer_left;
  wire [`EFA_MR_LOC__W-1:0] buffer = second_q ? job_q[`EFA_RX_JOB__SGE1_LOC]
      : job_q[`EFA_RX_JOB__SGE0_LOC];
  wire last_part = part == wanted && !(from_grh && left_q != 16'd0);
  wire [63:0] buffer_start = buffer[`EFA_MR_LOC__START];
  reg [`EFA_MR_LOC__W-1:0] translate_loc;
  always @* begin
    translate_loc = buffer;
    translate_loc[`EFA_MR_LOC__START] = buffer_start + {32'd0, place_q};
  end
  wire [15:0] src_node;
  wire [`EFA_CPL__W-1:0] cpl = job_q[`EFA_RX_JOB__CPL];
  assign src_node = cpl[`EFA_CPL__SRC_NODE];

  wire translate_ready;
  wire translate_valid = busy_q && buffer_left != 16'd0;
  wire step = translate_valid && translate_ready;
  wire next_buffer = busy_q && buffer_left == 16'd0;
  wire finished = step && last_part;
  assign s_job_ready = !busy_q || finished;

  wire piece_valid;
  wire piece_ready;
  wire [63:0] piece_addr;
  wire [12:0] piece_len;
  wire piece_done;
  wire [15:0] piece_first;
  wire [USER_W-1:0] piece_user;
  efa_mr_translate #(
      .USER_W(USER_W),
      .MTT_W(MTT_W)
  ) u_translate (
      .clk(clk),
      .rst(rst),
      .s_mtt_valid(s_mtt_valid),
      .s_mtt_index(s_mtt_index),
      .s_mtt_data(s_mtt_data),
      .s_cfg_max_log(s_cfg_mps_log),
      .s_valid(translate_valid),
      .s_ready(translate_ready),
      .s_loc(translate_loc),
      .s_len(part),
      .s_user({last_part, from_grh, pos_q, src_node}),
      .m_valid(piece_valid),
      .m_ready(piece_ready),
      .m_addr(piece_addr),
      .m_len(piece_len),
      .m_done(piece_done),
      .m_first_byte(piece_first),
      .m_user(piece_user)
  );

  wire [`EFA_RX_JOB__W-1:0] new_job = s_job_data;
  wire [15:0] new_line = new_job[`EFA_RX_JOB__LINE];
  wire [POS_W-1:0] new_header = new_job[`EFA_RX_JOB__RDMA] ? RDMA_BYTES[POS_W-1:0] : HDR_BYTES[POS_W-1:0];
  always @(posedge clk) begin
    if (s_job_valid && s_job_ready) begin
      job_q <= s_job_data;
      second_q <= 1'b0;
      used_q <= 16'd0;
      place_q <= new_job[`EFA_RX_JOB__OFFSET];
      grh_left_q <= new_job[`EFA_RX_JOB__GRH] ? GRH_BYTES[5:0] : 6'd0;
      left_q <= new_job[`EFA_RX_JOB__LENGTH];
      pos_q <= new_job[`EFA_RX_JOB__GRH] ? {POS_W{1'b0}}
          : {new_line[LINE_W-1:0], 6'd0} + new_header;
    end else if (next_buffer) begin
      second_q <= 1'b1;
      used_q <= 16'd0;
      place_q <= 32'd0;
    end else if (step) begin
      used_q <= used_q + part;
      place_q <= place_q + {16'd0, part};
      pos_q <= pos_q + part[POS_W-1:0];
      if (from_grh) begin
        grh_left_q <= grh_left_q - part[5:0];
        if (part == wanted) begin
          pos_q <= {job_line[LINE_W-1:0], 6'd0} + HDR_BYTES[POS_W-1:0];
        end
      end else begin
        left_q <= left_q - part;
      end
    end
    if (rst) begin
      busy_q <= 1'b0;
    end else if (s_job_ready) begin
      busy_q <= s_job_valid;
    end
  end
  wire [15:0] job_line = job_q[`EFA_RX_JOB__LINE];

  // ---- cut accesses into beats; a beat starts only with a credit of the output FIFO ----
  reg [5:0] sent_q;  // beats of this access
  reg [3:0] credit_q;
  wire [12:0] beat_left = piece_len - {1'b0, sent_q, 6'd0};
  wire beat_last = beat_left <= 13'd64;
  wire beat = piece_valid && credit_q != 4'd0;
  wire [15:0] user_node = piece_user[15:0];
  wire [POS_W-1:0] user_pos = piece_user[16+:POS_W];
  wire user_grh = piece_user[16+POS_W];
  wire user_last = piece_user[17+POS_W];
  wire [POS_W-1:0] at = user_pos + piece_first[POS_W-1:0] + {{(POS_W - 12) {1'b0}}, sent_q, 6'd0};
  assign m_win_pos   = at;
  assign piece_ready = beat && beat_last;

  // Source and destination GID in the GRH, which precedes a datagram in the buffer.
  wire [127:0] src_gid = {user_node[7:0], user_node[15:8], `EFA_LIMITS__GID_PREFIX};
  wire [127:0] dst_gid = {s_cfg_node_id[7:0], s_cfg_node_id[15:8], `EFA_LIMITS__GID_PREFIX};
  wire [319:0] grh = {dst_gid, src_gid, 64'd0};
  wire [319:0] grh_from = grh >> {at[5:0], 3'd0};

  localparam META_W = 64 + 13 + 1 + 1 + 1;
  wire [META_W-1:0] meta = {
    piece_addr, piece_len, beat_last, beat_last && piece_done && user_last, user_grh
  };
  reg b1_valid_q;
  reg [META_W-1:0] b1_meta_q;
  reg [319:0] b1_grh_q;
  reg b2_valid_q;
  reg [META_W-1:0] b2_meta_q;
  reg [319:0] b2_grh_q;

  // Lanes after the last byte are 0: stale bytes of the packet buffer must not leave the device.
  wire [63:0] beat_keep = beat_last ? ~({64{1'b1}} << beat_left) : {64{1'b1}};
  reg [63:0] b1_keep_q;
  reg [63:0] b2_keep_q;
  wire [511:0] b2_bytes = b2_meta_q[0] ? {192'd0, b2_grh_q} : s_win_data;
  reg [511:0] b2_data;
  integer i;
  always @* begin
    for (i = 0; i < 64; i = i + 1) begin
      b2_data[8*i+:8] = b2_bytes[8*i+:8] & {8{b2_keep_q[i]}};
    end
  end

  wire out_space;
  wire out_job_end;
  wire [3:0] out_level;
  wire wr_accepted = m_wr_valid && m_wr_ready;
  efa_fifo #(
      .WIDTH(64 + 13 + 1 + 1 + 512),
      .DEPTH_LOG2(3)
  ) u_out (
      .clk(clk),
      .rst(rst),
      .s_valid(b2_valid_q),
      .s_ready(out_space),
      .s_data({b2_meta_q[META_W-1:1], b2_data}),
      .m_valid(m_wr_valid),
      .m_ready(m_wr_ready),
      .m_data({m_wr_addr, m_wr_len, m_wr_last, out_job_end, m_wr_data}),
      .m_level(out_level)
  );
  assign m_done = wr_accepted && out_job_end;

  always @(posedge clk) begin
    b1_meta_q <= meta;
    b1_grh_q  <= grh_from;
    b1_keep_q <= beat_keep;
    b2_keep_q <= b1_keep_q;
    b2_meta_q <= b1_meta_q;
    b2_grh_q  <= b1_grh_q;
    if (rst) begin
      sent_q <= 6'd0;
      credit_q <= 4'd8;
      b1_valid_q <= 1'b0;
      b2_valid_q <= 1'b0;
    end else begin
      b1_valid_q <= beat;
      b2_valid_q <= b1_valid_q;
      if (beat) sent_q <= beat_last ? 6'd0 : sent_q + 6'd1;
      credit_q <= credit_q + {3'd0, wr_accepted} - {3'd0, beat};
    end
  end

  wire unused_bits = &{1'b0, out_level, job_q, cpl, piece_first, new_job, new_line, job_line};

  `EFA_CHECK(!(b2_valid_q && !out_space), "efa_rx_scatter: beat without space")
  `EFA_CHECK(!(busy_q && second_q && next_buffer), "efa_rx_scatter: bytes beyond the WQE")

endmodule

`default_nettype wire
