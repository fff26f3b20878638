// efa_obj_status.vh - how an answer of efa_objects reads as a command's status; inside a module.
function [7:0] obj_status;
  input [1:0] code;
  begin
    case (code)
      `EFA_OBJ_CODE__OK: obj_status = `EFA_ADMIN_AQ_COMPLETION_STATUS__SUCCESS;
      `EFA_OBJ_CODE__ABSENT: obj_status = `EFA_ADMIN_AQ_COMPLETION_STATUS__ILLEGAL_PARAMETER;
      `EFA_OBJ_CODE__BUSY: obj_status = `EFA_ADMIN_AQ_COMPLETION_STATUS__RESOURCE_BUSY;
      default: obj_status = `EFA_ADMIN_AQ_COMPLETION_STATUS__RESOURCE_ALLOCATION_FAILURE;
    endcase
  end
endfunction
