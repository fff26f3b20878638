# SPDX-License-Identifier: Apache-2.0
# Sources in levels; a module uses only those of the levels above its own.
# level common
rtl/common/efa_ram.v
rtl/common/efa_ram_be.v
rtl/common/efa_skid.v
rtl/common/efa_stream_check.v
# level common 2
rtl/common/efa_fifo.v
rtl/common/efa_arb.v
rtl/common/efa_wr_join.v
rtl/common/efa_ram_nr.v
# level blocks
rtl/host/efa_rd_timeout.v
rtl/host/efa_mmio.v
rtl/host/efa_regs.v
rtl/host/efa_meter.v
rtl/host/efa_odd.v
rtl/host/efa_reset.v
rtl/host/efa_irq.v
rtl/host/efa_dma_wr.v
rtl/queue/efa_cqe_format.v
rtl/queue/efa_eq.v
rtl/queue/efa_ec.v
rtl/queue/efa_qp_ctx.v
rtl/admin/efa_stats.v
rtl/data/efa_mr_check.v
rtl/data/efa_mr_walk.v
rtl/admin/efa_crc16.v
rtl/admin/efa_features.v
rtl/admin/efa_mr_pages.v
rtl/admin/efa_mr_ask.v
rtl/admin/efa_mtt_alloc.v
rtl/admin/efa_qp_rules.v
rtl/admin/efa_aq.v
rtl/admin/efa_aq_fetch.v
rtl/admin/efa_aenq.v
rtl/admin/efa_line_rd.v
rtl/admin/efa_admin_rd.v
rtl/admin/efa_admin_odd.v
rtl/admin/efa_dispatch.v
rtl/admin/efa_objects.v
rtl/admin/efa_drain.v
rtl/admin/efa_cmd_pd.v
rtl/admin/efa_cmd_ah.v
rtl/admin/efa_cmd_cq.v
rtl/admin/efa_cmd_ec.v
rtl/queue/efa_doorbell.v
rtl/queue/efa_llq.v
rtl/queue/efa_work_set.v
rtl/queue/efa_sq_circle.v
rtl/queue/efa_sq_fault.v
rtl/queue/efa_sq_ops.v
rtl/queue/efa_sq_lines.v
rtl/queue/efa_sq_order.v
rtl/data/efa_tx_ring.v
rtl/transport/efa_ah_age.v
rtl/transport/efa_net_out.v
rtl/transport/efa_srd_circle.v
# level blocks 2
rtl/queue/efa_sq.v
rtl/queue/efa_sq_fetch.v
rtl/data/efa_wqe_check.v
rtl/transport/efa_srd.v
rtl/data/efa_tx_room.v
rtl/admin/efa_admin_post.v
rtl/admin/efa_aq_join.v
rtl/admin/efa_cmd_info.v
rtl/admin/efa_mr_list.v
rtl/admin/efa_cmd_qp.v
rtl/data/efa_rx_retire.v
rtl/queue/efa_rq_counts.v
rtl/queue/efa_rq_cache.v
rtl/queue/efa_rq_claim.v
rtl/queue/efa_rq_fetch.v
rtl/queue/efa_rq_err.v
rtl/data/efa_rx_check.v
rtl/data/efa_rx_jobs.v
rtl/data/efa_rx_wait.v
rtl/transport/efa_pkt_in.v
rtl/host/efa_dma_rd.v
rtl/queue/efa_cq.v
# level blocks 3
rtl/admin/efa_cmd_mr.v
rtl/queue/efa_rq.v
rtl/data/efa_rx_judge.v
rtl/data/efa_rx_scatter.v
rtl/data/efa_tx.v
# level wrappers
rtl/admin/efa_admin.v
rtl/efa_recv.v
rtl/efa_send.v
rtl/host/efa_host.v
rtl/efa_cpl.v
# level top
rtl/efa_nic.v
