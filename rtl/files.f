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
rtl/common/efa_wr_arb.v
rtl/common/efa_ram_1wnr.v
rtl/common/efa_flag_ram.v
# level blocks
rtl/host/efa_rd_timeout.v
rtl/host/efa_mmio.v
rtl/host/efa_regs.v
rtl/host/efa_perf_counters.v
rtl/host/efa_host_anomaly.v
rtl/host/efa_reset.v
rtl/host/efa_irq.v
rtl/host/efa_dma_wr.v
rtl/queue/efa_cqe_format.v
rtl/queue/efa_ec.v
rtl/queue/efa_qp_ctx.v
rtl/admin/efa_stats.v
rtl/data/efa_mr_check.v
rtl/data/efa_mr_translate.v
rtl/admin/efa_crc16.v
rtl/admin/efa_features.v
rtl/admin/efa_mr_geometry.v
rtl/admin/efa_pbl_fetch.v
rtl/admin/efa_mtt_alloc.v
rtl/admin/efa_qp_param_check.v
rtl/admin/efa_aq.v
rtl/admin/efa_aq_fetch.v
rtl/admin/efa_aenq.v
rtl/admin/efa_dma_line_rd.v
rtl/admin/efa_admin_rd_arb.v
rtl/admin/efa_admin_anomaly.v
rtl/admin/efa_dispatch.v
rtl/admin/efa_obj_table.v
rtl/admin/efa_drain.v
rtl/admin/efa_cmd_pd.v
rtl/admin/efa_cmd_ah.v
rtl/admin/efa_cmd_cq.v
rtl/admin/efa_cmd_ec.v
rtl/queue/efa_ring_count.v
rtl/queue/efa_doorbell.v
rtl/queue/efa_llq.v
rtl/queue/efa_queue_fifo_set.v
rtl/queue/efa_qperr_arb.v
rtl/queue/efa_sq_rr.v
rtl/queue/efa_sq_flush.v
rtl/queue/efa_sq_ctrl.v
rtl/queue/efa_sq_req_arb.v
rtl/queue/efa_sq_buffer.v
rtl/queue/efa_sq_reorder.v
rtl/data/efa_tx_buffer.v
rtl/transport/efa_ah_gen.v
rtl/transport/efa_psn.v
rtl/transport/efa_net_tx.v
rtl/transport/efa_msg_id_alloc.v
# level blocks 2
rtl/queue/efa_sq_index.v
rtl/queue/efa_eq_arms.v
rtl/queue/efa_sq_sched.v
rtl/queue/efa_sq_fetch.v
rtl/data/efa_wqe_check.v
rtl/transport/efa_send_tracker.v
rtl/data/efa_tx_alloc.v
rtl/admin/efa_acq_write.v
rtl/admin/efa_aq_unpack.v
rtl/admin/efa_cmd_info.v
rtl/admin/efa_pbl_load.v
rtl/admin/efa_cmd_qp.v
rtl/data/efa_rx_retire.v
rtl/queue/efa_rq_index.v
rtl/queue/efa_rq_cache.v
rtl/queue/efa_rq_pop.v
rtl/queue/efa_rq_fetch.v
rtl/queue/efa_rq_report.v
rtl/data/efa_rx_mr_check.v
rtl/data/efa_rx_job_arb.v
rtl/data/efa_rx_park.v
rtl/data/efa_rx_validate.v
rtl/transport/efa_net_rx.v
rtl/host/efa_dma_rd.v
rtl/queue/efa_cq.v
# level blocks 3
rtl/queue/efa_eq.v
rtl/admin/efa_cmd_mr.v
rtl/queue/efa_rq.v
rtl/data/efa_rx_accept.v
rtl/data/efa_rx_scatter.v
rtl/data/efa_tx.v
# level engine parts
rtl/efa_sq_engine.v
rtl/efa_transport_engine.v
# level wrappers
rtl/admin/efa_admin.v
rtl/efa_rx_engine.v
rtl/efa_tx_engine.v
rtl/host/efa_host.v
rtl/efa_cq_engine.v
# level top
rtl/efa_nic.v
