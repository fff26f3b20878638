// SPDX-License-Identifier: Apache-2.0
// efa_send_stats - counts the completed sends and RDMA operations of this device.
//
// In    s_cpl: completions of send queues as they leave; s_srd: the QP of the completion is SRD;
//       s_cfg_profile says whether the device executes reads and writes
// Out   st_send_valid, st_read_valid, st_write_valid: an operation is completed OK, with st_bytes;
//       st_read_err_valid, st_write_err_valid: one is completed otherwise
// Time  combinational
//
// An RDMA operation that the QP or the device does not execute is not counted.
`default_nettype none
`include "efa_defs.vh"

module efa_send_stats (
    input wire [`EFA_PROFILE_W-1:0] s_cfg_profile,
    input wire s_cpl_valid,
    input wire [`EFA_CPL__W-1:0] s_cpl_data,
    input wire s_srd,
    output wire st_send_valid,
    output wire st_read_valid,
    output wire st_write_valid,
    output wire [31:0] st_bytes,
    output wire st_read_err_valid,
    output wire st_write_err_valid
);

  `include "efa_admin_fn.vh"

  wire [2:0] op_type = s_cpl_data[`EFA_CPL__OP_TYPE];
  wire ok = s_cpl_data[`EFA_CPL__STATUS] == `EFA_IO_COMP_STATUS__OK;
  wire executes = s_cpl_valid && s_srd;
  wire reads = executes && op_type == `EFA_IO_SEND_OP_TYPE__RDMA_READ_W3
      && capable(s_cfg_profile, `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__RDMA_READ);
  wire writes = executes && op_type == `EFA_IO_SEND_OP_TYPE__RDMA_WRITE_W3
      && capable(s_cfg_profile, `EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__RDMA_WRITE);

  assign st_send_valid = s_cpl_valid && op_type == `EFA_IO_SEND_OP_TYPE__SEND_W3 && ok;
  assign st_read_valid = reads && ok;
  assign st_write_valid = writes && ok;
  assign st_bytes = {s_cpl_data[`EFA_CPL__LENGTH_HI], s_cpl_data[`EFA_CPL__LENGTH]};
  assign st_read_err_valid = reads && !ok;
  assign st_write_err_valid = writes && !ok;

  wire unused_bits = &{1'b0, s_cpl_data};

endmodule

`default_nettype wire
