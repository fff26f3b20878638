// SPDX-License-Identifier: Apache-2.0
// efa_check.vh - defines the checks of the logic around them.
//
// `EFA_CHECK(cond, "text") is a module item: the condition must hold at every rising edge of `clk`
// with `rst` low, else the simulation ends with the text. `EFA_CHECK_ON names clock and reset
// where they differ, such as rst_por. Time 0 is excluded, because a bench drives no inputs yet.
// A netlist contains no check; under FORMAL a check is an assert.
//
// `EFA_STREAM(u_name, width, clk, rst, valid, ready, data) is a module item that checks the stream
// rules (efa_stream_check) on an edge between blocks.
`ifndef EFA_CHECK_VH
`define EFA_CHECK_VH

`ifdef FORMAL
`define EFA_CHECK_ON(clock, reset, cond, text) \
  always @(posedge clock) if (!(reset)) assert (cond);
`else
`ifdef SYNTHESIS
`define EFA_CHECK_ON(clock, reset, cond, text)
`else
`define EFA_CHECK_ON(clock, reset, cond, text) \
  always @(posedge clock) begin \
    if (!(reset) && !(cond)) begin \
      if ($time != 0) begin \
        $display("CHECK FAILED %m at %0t: %s", $time, text); \
        $finish; \
      end \
    end \
  end
`endif
`endif
`define EFA_CHECK(cond, text) `EFA_CHECK_ON(clk, rst, cond, text)

`define EFA_STREAM(name, width, clock, reset, v, r, d) \
  efa_stream_check #( \
      .WIDTH(width) \
  ) name ( \
      .clk(clock), \
      .rst(reset), \
      .s_valid(v), \
      .s_ready(r), \
      .s_data(d) \
  );

`endif
