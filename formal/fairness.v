// SPDX-License-Identifier: Apache-2.0
// fv_fairness - proves that the shared ports of the host and admin sides starve no requester: a
// pending request is passed by at most N - 1 grants of others (packets, reads, requests), and in
// every cycle in which the port may grant, a requester is granted.
`include "efa_defs.vh"

// Counts, for one requester of the solver's choice at a round-robin port, the grants of others.
module fv_turn #(
    parameter N = 3
) (
    input wire clk,
    input wire rst,
    input wire [N-1:0] requests,
    input wire [N-1:0] served,
    input wire [N-1:0] after,
    output reg [4:0] lost_q,
    output wire bound
);

  (* anyconst *) wire [N-1:0] me;
  wire [N-1:0] others = served & ~me;
  reg [4:0] earlier;
  integer k;

  always @* begin
    a_choice : assume (me != 0 && (me & (me - 1)) == 0);
    // Requesters before it in the round robin.
    earlier = 0;
    for (k = 0; k < N; k = k + 1) begin
      if (!me[k] && ((after & me) != 0 ? after[k] && (me >> k) > 1 : after[k] || (me >> k) > 1)) begin
        earlier = earlier + 1;
      end
    end
  end

  // The round robin begins after the last grant.
  assign bound = lost_q + earlier < N && ({after[N-2:0], 1'b0} & ~after) == 0;

  always @(posedge clk) begin
    if (rst || (requests & me) == 0 || (served & me) != 0) lost_q <= 0;
    else if (others != 0) lost_q <= lost_q + 1;
  end

endmodule

module fv_fairness (
    input wire clk,
    input wire rst,
    input wire bme,
    input wire stop_core,
    input wire stop_all,
    input wire [4:0] wr_valid,
    input wire [4*`EFA_DMA_WR__W-1:0] wr_data,
    input wire m_dma_wr_ready,
    input wire [2:0] rd_valid,
    input wire stop_rd,
    input wire m_dma_rd_ready,
    input wire [4*`EFA_DMA_RD__W-1:0] rd_data,
    input wire s_dma_rd_cpl_valid,
    input wire [7:0] s_dma_rd_cpl_tag,
    input wire s_dma_rd_cpl_last,
    input wire [2:0] line_valid,
    input wire m_rd_ready,
    input wire irq_adm_valid,
    input wire [7:0] irq_adm_vector,
    input wire irq_eq_valid,
    input wire [7:0] irq_eq_vector,
    input wire msix_enable,
    input wire msix_fmask,
    input wire [15:0] moderation,
    input wire acc_valid,
    input wire [31:0] acc_offset,
    input wire [31:0] acc_data,
    input wire [3:0] drain_valid,
    input wire [3:0] drain_late,
    input wire [2:0] drained
);

  wire irq_valid;
  wire irq_ready;
  wire [4:0] wr_ready;
  wire [3:0] wr_last = {
    wr_data[3*`EFA_DMA_WR__W+`EFA_DMA_WR__LAST],
    wr_data[2*`EFA_DMA_WR__W+`EFA_DMA_WR__LAST],
    wr_data[`EFA_DMA_WR__W+`EFA_DMA_WR__LAST],
    wr_data[`EFA_DMA_WR__LAST]
  };
  wire m_dma_wr_valid;

  efa_irq #(
      .VECTORS(4)
  ) u_irq (
      .clk(clk),
      .s_host_rst(rst),
      .rst(rst),
      .s_cfg_msix_enable(msix_enable),
      .s_cfg_msix_fmask(msix_fmask),
      .s_cfg_moderation(moderation),
      .s_acc_valid(acc_valid),
      .s_acc_write(1'b1),
      .s_acc_offset(acc_offset),
      .s_acc_data(acc_data),
      .s_irq_valid({irq_eq_valid, irq_adm_valid}),
      .s_irq_vector({irq_eq_vector, irq_adm_vector}),
      .m_wr_irq_valid(irq_valid),
      .m_wr_irq_ready(irq_ready)
  );

  efa_dma_wr u_wr (
      .clk(clk),
      .rst(rst),
      .s_cfg_bme(bme),
      .s_stop_core(stop_core),
      .s_stop_all(stop_all),
      .s_cfg_mps_log(4'd12),
      .s_wr_valid(wr_valid[3:0]),
      .s_wr_ready(wr_ready[3:0]),
      .s_wr_data(wr_data),
      .s_wr_reg_valid(wr_valid[4]),
      .s_wr_reg_ready(wr_ready[4]),
      .s_wr_irq_valid(irq_valid),
      .s_wr_irq_ready(irq_ready),
      .m_dma_wr_valid(m_dma_wr_valid),
      .m_dma_wr_ready(m_dma_wr_ready)
  );

  wire [2:0] rd_ready;
  wire rd_sq_ready;
  wire m_dma_rd_valid;

  efa_dma_rd #(
      .TAGS(16),
      .TIMEOUT_CYCLES(64)
  ) u_rd (
      .clk(clk),
      .rst(rst),
      .s_cfg_bme(bme),
      .s_stop(stop_rd),
      .s_cfg_mrrs_log(4'd12),
      .s_rd_valid({1'b0, rd_valid}),
      .s_rd_ready({rd_sq_ready, rd_ready}),
      .s_rd_data(rd_data),
      .m_dma_rd_valid(m_dma_rd_valid),
      .m_dma_rd_ready(m_dma_rd_ready),
      .s_dma_rd_cpl_valid(s_dma_rd_cpl_valid),
      .s_dma_rd_cpl_tag(s_dma_rd_cpl_tag),
      .s_dma_rd_cpl_bytes(7'd64),
      .s_dma_rd_cpl_last(s_dma_rd_cpl_last),
      .s_dma_rd_cpl_err(1'b0)
  );

  wire [2:0] line_ready;
  wire m_rd_valid;

  efa_admin_rd_arb u_admin (
      .clk(clk),
      .rst(rst),
      .s_rd_valid(line_valid),
      .s_rd_ready(line_ready),
      .s_rd_addr(192'd0),
      .s_rd_len(21'd0),
      .s_rd_slot(12'd0),
      .m_rd_valid(m_rd_valid),
      .m_rd_ready(m_rd_ready),
      .s_rd_cpl_valid(1'b0),
      .s_rd_cpl_cookie(32'd0)
  );

  efa_drain #(
      .UNITS(4)
  ) u_drain (
      .clk(clk),
      .rst(rst),
      .s_drain_valid(drain_valid),
      .s_drain_late(drain_late),
      .m_drain_ready(drained)
  );

  (* probe = "u_wr.u_arb.after_q" *) wire [5:0] wr_after;
  (* probe = "u_wr.u_arb.held_q" *) wire wr_held;
  (* probe = "u_wr.u_arb.grant_q" *) wire [5:0] wr_holder;
  (* probe = "u_wr.open_q" *) wire wr_open;
  (* probe = "u_rd.u_arb.after_q" *) wire [2:0] rd_after;
  (* probe = "u_rd.u_arb.held_q" *) wire rd_held;
  (* probe = "u_rd.free_valid" *) wire rd_free;
  (* probe = "u_rd.init_q" *) wire rd_init;
  (* probe = "u_admin.u_arb.after_q" *) wire [2:0] line_after;
  (* probe = "u_admin.u_arb.held_q" *) wire line_held;
  (* probe = "u_irq.u_arb.after_q" *) wire [2:0] irq_after;
  (* probe = "u_irq.u_arb.held_q" *) wire irq_held;
  (* probe = "u_irq.grant" *) wire [2:0] irq_served;
  (* probe = "u_irq.scan_stays" *) wire scan_stays;
  (* probe = "u_irq.state_q" *) wire [1:0] irq_state;
  (* probe = "u_drain.u_arb.after_q" *) wire [3:0] drain_after;
  (* probe = "u_drain.u_arb.held_q" *) wire drain_held;
  (* probe = "u_drain.grant" *) wire [3:0] drain_served;
  (* probe = "u_drain.state_q" *) wire [2:0] drain_state;

  reg began_q = 1'b0;
  wire [5:0] wr_requests = {irq_valid, wr_valid} & (stop_core ? 6'b010000 : 6'b111111);
  wire [5:0] wr_accepts = {irq_ready, wr_ready} & {irq_valid, wr_valid};
  wire wr_space = !m_dma_wr_valid || m_dma_wr_ready;
  wire wr_may = bme && !stop_all && wr_space && !mid_q;
  wire rd_may = bme && !stop_rd && rd_free && !rd_init && (!m_dma_rd_valid || m_dma_rd_ready);
  wire [2:0] irq_requests = {scan_stays, irq_eq_valid, irq_adm_valid};
  reg [2:0] irq_busy_q;
  reg mid_q;  // a packet has begun and not ended

  wire [4:0] wr_lost;
  wire [4:0] rd_lost;
  wire [4:0] line_lost;
  wire [4:0] irq_lost;
  wire [4:0] drain_lost;
  wire [4:0] bounds;

  fv_turn #(
      .N(6)
  ) u_wr_turn (
      .clk(clk),
      .rst(rst),
      .requests(wr_requests),
      .served(mid_q ? 6'd0 : wr_accepts),
      .after(wr_after),
      .lost_q(wr_lost),
      .bound(bounds[0])
  );
  fv_turn #(
      .N(3)
  ) u_rd_turn (
      .clk(clk),
      .rst(rst),
      .requests(rd_valid),
      .served(rd_ready),
      .after(rd_after),
      .lost_q(rd_lost),
      .bound(bounds[1])
  );
  fv_turn #(
      .N(3)
  ) u_line_turn (
      .clk(clk),
      .rst(rst),
      .requests(line_valid),
      .served(line_ready),
      .after(line_after),
      .lost_q(line_lost),
      .bound(bounds[2])
  );
  fv_turn #(
      .N(3)
  ) u_irq_turn (
      .clk(clk),
      .rst(rst),
      .requests(irq_requests),
      .served(irq_served),
      .after(irq_after),
      .lost_q(irq_lost),
      .bound(bounds[3])
  );
  fv_turn #(
      .N(4)
  ) u_drain_turn (
      .clk(clk),
      .rst(rst),
      .requests(drain_valid),
      .served(drain_served),
      .after(drain_after),
      .lost_q(drain_lost),
      .bound(bounds[4])
  );

  always @(posedge clk) begin
    began_q <= 1'b1;
    if (rst) mid_q <= 1'b0;
    else if (wr_accepts != 0) mid_q <= (wr_accepts & {2'b11, wr_last}) == 0;
    // Cycles of one message in which the write stream would have accepted the message.
    if (rst || irq_state == 2'd0) irq_busy_q <= 0;
    else irq_busy_q <= irq_busy_q + irq_ready;
  end

  always @* begin
    if (!began_q) a_begin : assume (rst);
    if (began_q && !rst) begin
      h_bounds : assert (bounds == 5'b11111);
      h_held :
      assert (wr_held == wr_open && mid_q == wr_open && (!wr_open || ((wr_holder & (wr_holder - 6'd1)) == 0
          && wr_holder != 0 && wr_holder < 6'd16)) && !rd_held && !line_held && !irq_held && !drain_held);
      h_irq :
      assert (irq_state <= 2'd2 && irq_busy_q <= 1 && (irq_state == 2'd0 || irq_busy_q == 0));
      p_write : assert (wr_lost < 6);
      p_write_goes : assert (!wr_may || wr_requests == 0 || wr_accepts != 0);
      p_read : assert (rd_lost < 3);
      p_read_goes : assert (!rd_may || rd_valid == 0 || rd_ready != 0);
      p_line : assert (line_lost < 3);
      p_line_goes : assert ((m_rd_valid && !m_rd_ready) || line_valid == 0 || line_ready != 0);
      p_irq : assert (irq_lost < 3);
      p_irq_goes :
      assert ((irq_state != 2'd0 || irq_requests == 0 || irq_served != 0) && irq_busy_q <= 1);
      p_drain : assert (drain_lost < 4);
      p_drain_goes : assert (drain_state != 3'd0 || drain_valid == 0 || drain_served != 0);
      c_write : cover (wr_lost == 5);
      c_write_goes : cover (wr_may && wr_accepts[5] && wr_valid == 5'h1f);
      c_read : cover (rd_lost == 2);
      c_read_goes : cover (rd_may && rd_valid == 3'd7 && rd_after == 3'b110);
      c_line : cover (line_lost == 2);
      c_line_goes : cover (line_valid == 3'd7 && line_ready == 3'd4);
      c_irq : cover (irq_lost == 2);
      c_irq_goes : cover (irq_served == 3'd4 && irq_adm_valid && irq_eq_valid);
      c_drain : cover (drain_lost == 3);
      c_drain_goes : cover (drain_served == 4'd8 && drain_valid == 4'hf);
    end
  end

endmodule
