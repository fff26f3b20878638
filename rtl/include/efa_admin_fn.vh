// SPDX-License-Identifier: Apache-2.0
// efa_admin_fn.vh - defines functions of the command units; included inside a module.

// Log2 of a power of two.
function [3:0] log2;
  input [15:0] value;
  begin
    log2 = {|(value & 16'hff00), |(value & 16'hf0f0), |(value & 16'hcccc), |(value & 16'haaaa)};
  end
endfunction

// The count is a power of two in 1..most.
function depth_ok;
  input [15:0] value;
  input [15:0] most;
  begin
    depth_ok = value != 16'd0 && (value & (value - 16'd1)) == 16'd0 && value <= most;
  end
endfunction

// The profile has a capability, given by its position in the device attribute.
function capable;
  input [`EFA_PROFILE_W-1:0] profile;
  input integer place;
  reg [31:0] caps;
  begin
    caps = `EFA_PROFILE__DEVICE_CAPS(32, profile);
    capable = caps[place-`EFA_ADMIN_FEATURE_DEVICE_ATTR_DESC__RDMA_READ];
  end
endfunction

// Log2 of the page translations that the profile offers, at most that of the memory.
function [4:0] pool_log;
  input [`EFA_PROFILE_W-1:0] profile;
  input [4:0] most;
  reg [4:0] offered;
  begin
    offered  = `EFA_PROFILE__MR_PAGES_W(5, profile);
    pool_log = offered < most ? offered : most;
  end
endfunction
