// SPDX-License-Identifier: Apache-2.0
// Exports the functions that tb/lib/native.py calls in the process of the simulator.
#include <cstring>

#include <algorithm>

#include "bench.h"

using namespace efa;

namespace {

template <class T>
u64 give(Log<T> &log, void **at) {
    *at = log.data();
    return log.size();
}

}  // namespace

extern "C" {

void efa_start(int devices, u64 seed) { bench().start(devices, seed); }
u64 efa_cycle() { return bench().cycle; }
u64 efa_logged_until() {
    u64 first = bench().cycle;
    for (int d = 0; d < bench().devices; d++)
        first = std::min(first, bench().host[d]->logged_until(first));
    return first;
}
u64 efa_digest() { return bench().digest.value(); }
int efa_waiting() { return bench().waiting(); }
int efa_woken() { return bench().woken; }
u64 efa_error_count() { return bench().error_count; }
const char *efa_errors() { return bench().errors.c_str(); }
void efa_clear_errors() { bench().errors.clear(), bench().error_count = 0; }

int efa_knob(int device, const char *name, u64 value) {
    u64 *knob = bench().host[device]->knobs.find(name);
    if (knob != nullptr) *knob = value;
    return knob != nullptr ? 0 : -1;
}

void efa_iommu_on(int device) { bench().host[device]->iommu.on = true; }
void efa_iommu_map(int device, u64 object, const char *name, u64 addr, u64 len, u32 rights,
                   u32 forever) {
    bench().host[device]->iommu.map(object, name, addr, len, rights, forever != 0);
}
void efa_iommu_release_at(int device, u32 command, const u64 *objects, u64 count) {
    bench().host[device]->iommu.release_at(command, objects, count);
}
void efa_iommu_responses(int device, u64 base, u64 bytes) {
    bench().host[device]->iommu.responses(base, bytes);
}
void efa_iommu_reset(int device) { bench().host[device]->iommu.reset(); }

void efa_post(int device, const Request *from, u64 count) { bench().host[device]->post(from, count); }
void efa_wait(const Condition *from, u64 count, u64 deadline) { bench().wait(from, count, deadline); }
void efa_request_event(int device, u32 group, u32 syndrome, const u8 *data) {
    bench().host[device]->request_event(group, syndrome, data);
}
u64 efa_events_waiting(int device) { return bench().host[device]->events_waiting(); }
void efa_inject(int device, const u8 *from, u64 len, u64 delay) {
    bench().fabric.inject(device, from, len, delay);
}

u64 efa_counter_shown(int device) { return bench().perf_counters[device].shown; }
u64 efa_counter_own(int device, u32 index) {
    return index < PerfCounters::kCounters ? bench().perf_counters[device].counters[index] : 0;
}

void *efa_memory_arena(int device) { return bench().memory[device].arena(); }
int efa_memory_fd(int device) { return bench().memory[device].fd(); }
int64_t efa_memory_map(int device, u64 addr, u64 len) { return bench().memory[device].map(addr, len); }
void efa_memory_read(int device, u64 addr, void *to, u64 len) { bench().memory[device].read(addr, to, len); }
void efa_memory_write(int device, u64 addr, const void *from, u64 len) {
    bench().memory[device].write(addr, from, len);
}
void efa_memory_fault(int device, u64 addr, u64 len, u32 fault) {
    bench().memory[device].add_fault(addr, len, static_cast<Fault>(fault));
}
void efa_memory_heal(int device) { bench().memory[device].clear_faults(); }

// Returns the records since the last efa_log_clear; the pointer is valid until the next clock.
u64 efa_log(u32 which, void **at) {
    switch (which) {
        case 0: return give(bench().events, at);
        case 1: return give(bench().writes, at);
        case 2: return give(bench().interrupts, at);
        case 3: return give(bench().packets, at);
        case 4: return give(bench().loads, at);
        case 6: return give(bench().pins, at);
        case 7: return give(bench().inputs, at);
        case 8: return give(bench().arrivals, at);
        default: *at = bench().bytes.data(); return bench().bytes.size();
    }
}

void efa_log_clear(u32 which) {
    switch (which) {
        case 0: bench().events.clear(); break;
        case 1: bench().writes.clear(); break;
        case 2: bench().interrupts.clear(); break;
        case 3: bench().packets.clear(); break;
        case 4: bench().loads.clear(); break;
        case 6: bench().pins.clear(); break;
        case 7: bench().inputs.clear(); break;
        case 8: bench().arrivals.clear(); break;
        default: break;
    }
    // These logs share the payload bytes, which are cleared when all of them are empty.
    if (bench().writes.size() == 0 && bench().packets.size() == 0 && bench().arrivals.size() == 0)
        bench().bytes.clear();
}

u64 efa_log_total(u32 which) {
    switch (which) {
        case 0: return bench().events.total();
        case 1: return bench().writes.total();
        case 2: return bench().interrupts.total();
        case 3: return bench().packets.total();
        default: return bench().loads.total();
    }
}

u64 efa_events_seen(int device, u32 kind) { return bench().events_seen[device][kind & 31]; }

// Reads requested, bytes read, bytes written, packets sent, interrupts, loads completed.
void efa_counters(int device, u64 *to) {
    const Host &host = *bench().host[device];
    const u64 now[] = {host.reads_requested, host.read_bytes, host.write_bytes,
                       bench().fabric.sent[device], host.interrupts, host.loads_done};
    std::memcpy(to, now, sizeof now);
}

}  // extern "C"
