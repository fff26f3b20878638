// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include <cstring>

#include "efa_defs.h"

namespace efa {

static_assert(EFA_EV__COUNT <= 32, "one word holds the valid bits of all event kinds");

Bench &bench() {
    static Bench the_bench;
    return the_bench;
}

Bench::Bench() : fabric(*this) {
    for (int device = 0; device < kMaxDevices; device++)
        host[device] = std::make_unique<Host>(*this, device);
}

void Bench::start(int count, u64 seed) {
    devices = count;
    cycle = 0, woken = 0, error_count = 0, quiet_cycles_ = 0;
    deadline_ = ~u64(0);
    waiting_ = wakes_ = false;
    conditions_.clear(), bytes.clear(), errors.clear();
    events.restart(), writes.restart(), interrupts.restart(), packets.restart(), loads.restart();
    pins.restart(), inputs.restart(), arrivals.restart();
    std::memset(events_seen, 0, sizeof events_seen);
    digest.clear();
    for (int device = 0; device < kMaxDevices; device++) {
        memory[device].clear();
        host[device]->restart(seed);
        perf_counters[device].restart();
    }
    fabric.restart(seed);
    started_ = true;
}

void Bench::fail(int device, const char *format, ...) {
    char text[256];
    va_list list;
    va_start(list, format);
    std::vsnprintf(text, sizeof text, format, list);
    va_end(list);
    // A violation often repeats each cycle; the first reports are sufficient.
    if (error_count++ < 20)
        errors += "device " + std::to_string(device) + ", cycle " + std::to_string(cycle) + ": " +
                  text + "\n";
}

u64 Bench::store_bytes(const u8 *from, u64 len) {
    u64 at = bytes.size();
    if (at + len > kLogBytes) {
        fail(0, "logs exceed %lu bytes: clear them more often", kLogBytes);
        return 0;
    }
    bytes.insert(bytes.end(), from, from + len);
    return at;
}

void Bench::watch(const Shown &seen, int device) {
    const Knobs &knobs = host[device]->knobs;
    if (seen.unknown != nullptr) fail(device, "%s is unknown", seen.unknown);
    for (u32 left = seen.ev_valid; left != 0; left &= left - 1) {
        u32 kind = __builtin_ctz(left);
        u64 data;
        std::memcpy(&data, seen.ev_data + 8 * kind, 8);
        events_seen[device][kind]++;
        digest.word(u64(kind) << 56 ^ data ^ device ^ cycle << 24);
        if ((seen.ev_x >> kind & 1) != 0) fail(device, "ev_data of kind %u is unknown", kind);
        if (knobs.ev_log && (knobs.ev_mask >> kind & 1))
            events.add({cycle, data, kind, u32(device)});
    }
}

void Bench::step(const Shown *seen, Driven *drive) {
    if (cycle++ == 0)
        for (int device = 0; device < devices; device++) drive[device] = Driven();
    if (in_reset()) return;
    bool active = false;
    for (int device = 0; device < devices; device++) {
        Knobs &knobs = host[device]->knobs;
        Driven &pins = drive[device];
        watch(seen[device], device);
        perf_counters[device].step(seen[device], pins, cycle, pins.cnt_run);
        host[device]->step(seen[device], pins);
        fabric.step(device, seen[device], pins);
        pins.bme = knobs.bme, pins.profile = knobs.profile;
        pins.mps = knobs.mps, pins.mrrs = knobs.mrrs, pins.node = knobs.node;
        pins.msix_enable = knobs.msix_enable, pins.msix_fmask = knobs.msix_fmask;
        pins.cnt_run = knobs.cnt_run, pins.cnt_clear = knobs.cnt_clear;
        pins.cnt_index = knobs.cnt_index;
        pins.version = knobs.version, pins.moderation = knobs.moderation;
        pins.paths = knobs.paths, pins.tick = knobs.tick;
        pins.keep_alive = knobs.keep_alive;
        const Shown &out = seen[device];
        active |= out.ev_valid != 0 || out.mcpl_valid || out.rd_valid || out.wr_valid ||
                  out.net_valid || !out.flr_done || !host[device]->quiet();
    }
    quiet_cycles_ = active || !fabric.quiet() ? 0 : quiet_cycles_ + 1;
    if (waiting_) {
        woken = satisfied(seen);
        if (woken != -1 || cycle >= deadline_ || error_count != 0) {
            waiting_ = false;
            wakes_ = true;
        }
    }
}

void Bench::wait(const Condition *from, u64 count, u64 deadline) {
    conditions_.assign(from, from + count);
    deadline_ = deadline;
    waiting_ = true;
}

// Returns the number of the first condition that holds, or -1.
int Bench::satisfied(const Shown *seen) const {
    int number = 0;
    for (const Condition &one : conditions_) {
        const Host &at = *host[one.device];
        bool holds = false;
        switch (one.kind) {
            case kCycle: holds = cycle >= one.a; break;
            case kMemoryWord: holds = (memory[one.device].word(one.a) & one.b) == one.c; break;
            case kEvents: holds = events_seen[one.device][one.a & 31] >= one.b; break;
            case kInterrupts: holds = at.interrupts >= one.a; break;
            case kDrained: holds = at.drained(); break;
            case kIdle: holds = quiet_cycles_ >= one.a; break;
            case kLoads: holds = at.loads_done >= one.a; break;
            case kPackets: holds = fabric.sent[one.device] >= one.a; break;
            case kWrites: holds = writes.total() + interrupts.total() >= one.a && cycle >= one.b; break;
            case kFlrDone: holds = seen[one.device].flr_done == (one.a != 0); break;
        }
        if (holds) return number;
        number++;
    }
    return -1;
}

}  // namespace efa
