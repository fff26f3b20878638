// SPDX-License-Identifier: Apache-2.0
#include "perf_counters.h"

namespace efa {

namespace {

constexpr int kBuckets = EFA_PERF__RD_OUT - EFA_PERF__RD_LATENCY;

int bucket(u64 number) {
    int bits = number == 0 ? 0 : 64 - __builtin_clzll(number);
    return bits < kBuckets ? bits : kBuckets - 1;
}

}  // namespace

void PerfCounters::restart() { *this = PerfCounters(); }

void PerfCounters::stream(int which, bool valid, bool ready, bool counts) {
    if (counts && valid) counters[EFA_PERF__STREAM + 2 * which + (ready ? 0 : 1)]++;
}

void PerfCounters::step(const Shown &seen, const Driven &drive, u64 cycle, bool counts) {
    shown = seen.cnt_data;
    if (counts) counters[EFA_PERF__RD_OUT + bucket(out_)]++;
    stream(EFA_PERF_STREAM__S_MMIO, drive.mmio_valid, seen.mmio_ready, counts);
    stream(EFA_PERF_STREAM__M_MMIO_CPL, seen.mcpl_valid, drive.mcpl_ready, counts);
    stream(EFA_PERF_STREAM__M_DMA_RD, seen.rd_valid, drive.rd_ready, counts);
    stream(EFA_PERF_STREAM__S_DMA_RD_CPL, drive.cpl_valid, seen.cpl_ready, counts);
    stream(EFA_PERF_STREAM__M_DMA_WR, seen.wr_valid, drive.wr_ready, counts);
    stream(EFA_PERF_STREAM__M_NET, seen.net_valid, drive.out_ready, counts);
    stream(EFA_PERF_STREAM__S_NET, drive.net_valid, seen.net_ready, counts);
    if (seen.rd_valid && drive.rd_ready) requested_at_[seen.rd_tag] = cycle, out_++;
    if (drive.cpl_valid && seen.cpl_ready && drive.cpl_last) {
        if (counts) counters[EFA_PERF__RD_LATENCY + bucket(cycle - requested_at_[drive.cpl_tag])]++;
        out_--;
    }
}

}  // namespace efa
