# Sources in levels; a module uses only those of the levels above its own.
# level common
rtl/common/efa_ram.v
rtl/common/efa_ram_be.v
rtl/common/efa_skid.v
rtl/common/efa_stream_check.v
# level common 2
rtl/common/efa_fifo.v
rtl/common/efa_arb.v
# level blocks
rtl/host/efa_rd_timeout.v
rtl/host/efa_mmio.v
rtl/host/efa_regs.v
rtl/host/efa_odd.v
rtl/host/efa_reset.v
rtl/host/efa_irq.v
rtl/host/efa_dma_wr.v
rtl/queue/efa_cqe_format.v
rtl/queue/efa_eq.v
rtl/queue/efa_qp_ctx.v
rtl/admin/efa_stats.v
rtl/data/efa_mr_check.v
rtl/data/efa_mr_walk.v
# level blocks 2
rtl/data/efa_rx_retire.v
rtl/data/efa_rx_jobs.v
rtl/transport/efa_pkt_in.v
rtl/host/efa_dma_rd.v
rtl/queue/efa_cq.v
# level blocks 3
rtl/queue/efa_rq.v
rtl/data/efa_rx_judge.v
rtl/data/efa_rx_scatter.v
# level wrappers
rtl/efa_recv.v
rtl/host/efa_host.v
rtl/efa_cpl.v
# level top
rtl/efa_nic.v
