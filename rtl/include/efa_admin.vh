// SPDX-License-Identifier: Apache-2.0
// efa_admin.vh - defines the codes between the command units, efa_obj_table and the engines.
`ifndef EFA_ADMIN_VH
`define EFA_ADMIN_VH

// Object kinds
`define EFA_OBJ_KIND__PD 3'd0
`define EFA_OBJ_KIND__UAR 3'd1
`define EFA_OBJ_KIND__AH 3'd2
`define EFA_OBJ_KIND__MR 3'd3
`define EFA_OBJ_KIND__EQ 3'd4
`define EFA_OBJ_KIND__CQ 3'd5
`define EFA_OBJ_KIND__QP 3'd6
`define EFA_OBJ_KIND__LLQ 3'd7

// Operations; FIND reserves no number, because only one unit takes numbers of a kind
`define EFA_OBJ_OP__FIND 3'd0
`define EFA_OBJ_OP__TAKE 3'd1
`define EFA_OBJ_OP__FREE 3'd2
`define EFA_OBJ_OP__REF 3'd3
`define EFA_OBJ_OP__REF_OF_UAR 3'd4
`define EFA_OBJ_OP__UNREF 3'd5
`define EFA_OBJ_OP__CHECK 3'd6

// Response codes
`define EFA_OBJ_CODE__OK 2'd0
`define EFA_OBJ_CODE__ABSENT 2'd1
`define EFA_OBJ_CODE__BUSY 2'd2
`define EFA_OBJ_CODE__NONE 2'd3

// Bits of a response behind its header
`define EFA_ADMIN_BODY_W 448

// Requests to efa_ec, and its response codes
`define EFA_EC_OP__CREATE 3'd0
`define EFA_EC_OP__DESTROY 3'd1
`define EFA_EC_OP__ATTACH 3'd2
`define EFA_EC_OP__DETACH 3'd3
`define EFA_EC_OP__SET 3'd4
`define EFA_EC_OP__ADD 3'd5
`define EFA_EC_OP__INVALIDATE 3'd6
`define EFA_EC_CODE__OK 2'd0
`define EFA_EC_CODE__ILLEGAL 2'd1
`define EFA_EC_CODE__BUSY 2'd2

`endif
