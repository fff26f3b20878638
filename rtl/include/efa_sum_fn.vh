// SPDX-License-Identifier: Apache-2.0
// efa_sum_fn.vh - adds and subtracts 64 bits in carry chains of 8 bits; included inside a module.

// Carry and sum. Each byte is computed without and with a carry; the carry from below selects one.
// Sum and carry have separate selections, because synthesis merges two adders that feed only one
// multiplexer.
function [64:0] sum64;
  input [63:0] a;
  input [63:0] b;
  input carry;
  reg through;
  reg [8:0] without;
  reg [8:0] with_one;
  integer place;
  begin
    through = carry;
    for (place = 0; place < 8; place = place + 1) begin
      without = {1'b0, a[8*place+:8]} + {1'b0, b[8*place+:8]};
      with_one = {1'b0, a[8*place+:8]} - ~{1'b0, b[8*place+:8]};  // a + b + 1
      sum64[8*place+:8] = through ? with_one[7:0] : without[7:0];
      through = through ? with_one[8] : without[8];
    end
    sum64[64] = through;
  end
endfunction

// Borrow and difference.
function [64:0] less64;
  input [63:0] a;
  input [63:0] b;
  reg [64:0] sum;
  begin
    sum = sum64(a, ~b, 1'b1);
    less64 = {!sum[64], sum[63:0]};
  end
endfunction
