// SPDX-License-Identifier: Apache-2.0
// efa_obj_status.vh - maps a response code of efa_obj_table to a status; included inside a module.
function [2:0] obj_status;
  input [1:0] code;
  begin
    case (code)
      `EFA_OBJ_CODE__OK: obj_status = `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS_W3;
      `EFA_OBJ_CODE__ABSENT: obj_status = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER_W3;
      `EFA_OBJ_CODE__BUSY: obj_status = `EFA_ADMIN_AQ_COMPLETION_STATUS__RESOURCE_BUSY_W3;
      default: obj_status = `EFA_ADMIN_AQ_COMPLETION_STATUS__RESOURCE_ALLOCATION_FAILURE_W3;
    endcase
  end
endfunction
