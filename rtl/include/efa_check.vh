// SPDX-License-Identifier: Apache-2.0
// efa_check.vh - checks written beside the logic they guard.
//
// `EFA_CHECK(cond, "text") is a module item: at every rising edge of `clk` with `rst` low the
// condition must hold, else the simulation ends with the text. `EFA_CHECK_ON names clock and
// reset (blocks that live under core_rst). Time 0 is left out: a bench drives nothing yet.
// Netlists have none of it; under FORMAL it is an assert.
//
// `EFA_STREAM(u_name, width, clk, rst, valid, ready, data) is one too: the rules of a stream
// (efa_stream_check) on an edge between blocks.
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
      .valid(v), \
      .ready(r), \
      .data(d) \
  );

`endif
