// efa_rq_claim - the receive entry a packet may use: one or two descriptors at a ring's head.
//
// In    s_claim a ring, held until s_claim_done (at any time; take: descriptors used up);
//       counts and cached descriptors of that ring; broken, refused: it gets no more of them
// Out   m_claim the answer, held until s_claim_done (broken goes before none); take; want a look at
//       a ring: its head is missing or moved; a few of them wait, the next are lost
// Time  answer 3 cycles after the claim when the descriptors are here, claims every 4; want 1 cycle
//       after take, or at once and every 48 cycles while descriptors are missing
`include "efa_defs.vh"
`include "efa_check.vh"

module efa_rq_claim #(
    parameter QPN_W = 6
) (
    input wire clk,
    input wire rst,

    input wire s_claim_valid,
    input wire [QPN_W-1:0] s_claim_qpn,
    input wire s_claim_done,
    input wire [1:0] s_claim_take,
    output wire m_claim_valid,
    output wire m_claim_none,
    output wire m_claim_broken,
    output wire m_claim_whole,
    output wire [1:0] m_claim_count,
    output wire [255:0] m_claim_descs,

    input wire [15:0] s_prod,
    input wire [15:0] s_cons,
    output wire [15:0] head,
    input wire [255:0] s_descs,
    input wire [1:0] s_here,
    input wire s_broken,
    input wire s_refused,

    output wire take_valid,
    output wire [15:0] take_value,
    output wire want_valid,
    input wire want_ready,
    output wire [QPN_W-1:0] want_qpn
);

  localparam DESC_W = `EFA_IO_RX_DESC__BITS;
  localparam WANT_LOG2 = 2;
  // While descriptors are awaited their ring is looked at again and again, not all the time.
  localparam [3:0] PATIENCE = 4'd15;

  localparam [1:0] ST_COUNTS = 2'd0;
  localparam [1:0] ST_CACHE = 2'd1;
  localparam [1:0] ST_JUDGE = 2'd2;
  localparam [1:0] ST_DONE = 2'd3;

  reg [1:0] state_q;
  reg [1:0] state_d;
  reg [15:0] cons_q;
  reg [15:0] posted_q;
  reg [3:0] waits_q;
  reg refused_q;
  reg none_q;
  reg broken_q;
  reg [1:0] count_q;
  reg whole_q;
  reg [255:0] descs_q;

  wire last0 = s_descs[`EFA_IO_RX_DESC__LAST];
  wire last1 = s_descs[DESC_W+`EFA_IO_RX_DESC__LAST];
  wire no_more = s_broken || refused_q;
  // The second descriptor matters when the first does not end the entry.
  wire short = posted_q == 16'd0 || (posted_q == 16'd1 && s_here[0] && !last0);
  wire complete = s_here[0] && (last0 || s_here[1]);
  wire answered = short || complete || no_more;
  wire waiting = state_q == ST_JUDGE && !answered;

  assign head = s_cons;
  assign m_claim_valid = state_q == ST_DONE;
  assign m_claim_none = none_q;
  assign m_claim_broken = broken_q;
  assign m_claim_whole = whole_q;
  assign m_claim_count = count_q;
  assign m_claim_descs = descs_q;
  assign take_valid = s_claim_done && s_claim_take != 2'd0;
  assign take_value = cons_q + {14'd0, s_claim_take};

  always @* begin
    state_d = state_q;
    case (state_q)
      // counts of the ring
      ST_COUNTS: begin
        if (s_claim_valid) state_d = ST_CACHE;
      end
      // descriptors at its head
      ST_CACHE: begin
        state_d = ST_JUDGE;
      end
      // what they say; again until they are here
      ST_JUDGE: begin
        state_d = answered ? ST_DONE : ST_COUNTS;
      end
      // the judge's decision
      default: begin
        state_d = ST_DONE;
      end
    endcase
    if (s_claim_done) state_d = ST_COUNTS;
  end

  // Nobody waits for a look to be taken in: one that finds no room is asked for again.
  wire room;
  wire [WANT_LOG2:0] level;
  efa_fifo #(
      .WIDTH(QPN_W),
      .DEPTH_LOG2(WANT_LOG2)
  ) u_want (
      .clk(clk),
      .rst(rst),
      .s_valid(take_valid || (waiting && waits_q == 4'd0)),
      .s_ready(room),
      .s_data(s_claim_qpn),
      .m_valid(want_valid),
      .m_ready(want_ready),
      .m_data(want_qpn),
      .level(level)
  );

  always @(posedge clk) begin
    if (state_q == ST_CACHE) begin
      cons_q   <= s_cons;
      posted_q <= s_prod - s_cons;
    end
    if (state_q == ST_JUDGE) begin
      none_q   <= short;
      broken_q <= no_more;
      count_q  <= last0 ? 2'd1 : 2'd2;
      whole_q  <= last0 || last1;
      descs_q  <= s_descs;
    end
    if (rst) begin
      state_q   <= ST_COUNTS;
      refused_q <= 1'b0;
      waits_q   <= 4'd0;
    end else begin
      state_q <= state_d;
      if (s_claim_done) refused_q <= 1'b0;
      else if (s_refused) refused_q <= 1'b1;
      if (s_claim_done) waits_q <= 4'd0;
      else if (waiting) waits_q <= waits_q == PATIENCE ? 4'd0 : waits_q + 4'd1;
    end
  end

  wire unused_bits = &{1'b0, room, level};

  `EFA_CHECK(!(take_valid && !m_claim_valid), "efa_rq_claim: descriptors used before the answer")
  `EFA_CHECK(!s_claim_done || s_claim_valid, "efa_rq_claim: the end of no claim")

endmodule
