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
# level wrappers
# level top
rtl/efa_nic.v
