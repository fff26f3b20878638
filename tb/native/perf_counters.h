// SPDX-License-Identifier: Apache-2.0
// Counts at the pins what efa_perf_counters counts there, for the comparison of both.
#pragma once
#include "common.h"
#include "efa_defs.h"
#include "pins.h"

namespace efa {

class PerfCounters {
   public:
    static constexpr int kCounters = EFA_PERF__STREAM + 2 * (EFA_PERF_STREAM__ACK_RX + 1);
    void restart();
    // Counts one cycle of the pins; `counts` is true while counting is on.
    void step(const Shown &seen, const Driven &drive, u64 cycle, bool counts);

    u64 counters[kCounters] = {};  // counters of streams inside the device stay 0
    u32 shown = 0;                 // cnt_data of the last cycle

   private:
    void stream(int which, bool valid, bool ready, bool counts);

    u64 requested_at_[256] = {};
    u64 out_ = 0;
};

}  // namespace efa
