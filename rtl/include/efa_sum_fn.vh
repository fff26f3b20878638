// efa_sum_fn.vh - sums of 64 bits whose chains are 16 bits long; included inside a module.

// Carry and sum. Each quarter is worked out without a carry and with one, and then chosen: its sum
// and its carry apart, since synthesis makes one adder of two whose only use is one multiplexer.
function [64:0] sum64;
  input [63:0] a;
  input [63:0] b;
  input carry;
  reg through;
  reg [16:0] without;
  reg [16:0] with_one;
  integer quarter;
  begin
    through = carry;
    for (quarter = 0; quarter < 4; quarter = quarter + 1) begin
      without = {1'b0, a[16*quarter+:16]} + {1'b0, b[16*quarter+:16]};
      with_one = {1'b0, a[16*quarter+:16]} - ~{1'b0, b[16*quarter+:16]};  // a + b + 1
      sum64[16*quarter+:16] = through ? with_one[15:0] : without[15:0];
      through = through ? with_one[16] : without[16];
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
