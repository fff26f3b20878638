// SPDX-License-Identifier: Apache-2.0
// efa_rdma_fn.vh - defines functions of RDMA operations; included inside a module.

// Log2 of the payload bytes of the packets of an operation, except the last: the largest power of two
// that an MTU of 4,096 to 16,383 bytes permits.
function [3:0] packet_log;
  input [`EFA_PROFILE_W-1:0] profile;
  begin
    packet_log = `EFA_PROFILE__MTU(16, profile) >= 16'd8192 ? 4'd13 : 4'd12;
  end
endfunction

// The operation is one of RDMA.
function is_rdma;
  input [3:0] op_type;
  begin
    is_rdma = op_type == `EFA_IO_SEND_OP_TYPE__RDMA_READ || op_type == `EFA_IO_SEND_OP_TYPE__RDMA_WRITE;
  end
endfunction
