// SPDX-License-Identifier: Apache-2.0
// Holds the bench of one simulation: hosts, fabric, logs, conditions that Python waits for.
#pragma once
#include <memory>

#include "fabric.h"
#include "host.h"
#include "perf_counters.h"

namespace efa {

struct Condition {
    u32 kind, device;
    u64 a, b, c;
};
enum ConditionKind : u32 {
    kCycle = 0,       // cycle a is reached
    kMemoryWord = 1,  // (8 bytes at a & b) == c
    kEvents = 2,      // events of kind a seen at least b times
    kInterrupts = 3,  // at least a interrupts
    kDrained = 4,     // every posted access is done
    kIdle = 5,        // nothing outstanding for a cycles
    kLoads = 6,       // at least a loads completed
    kPackets = 7,     // at least a packets have left the device
    kWrites = 8,      // at least a DMA writes and interrupts visible, not before cycle b
    kFlrDone = 9,     // m_cfg_flr_done == a
};

class Bench {
   public:
    Bench();
    void start(int devices, u64 seed);
    bool started() const { return started_; }
    bool in_reset() const { return cycle < kResetCycles; }
    // Runs one clock: takes the outputs sampled before the edge, sets the inputs driven after it.
    void step(const Shown *seen, Driven *drive);
    bool take_wake() {
        bool wakes = wakes_;
        wakes_ = false;
        return wakes;
    }
    bool waiting() const { return waiting_; }
    void wait(const Condition *from, u64 count, u64 deadline);
    void fail(int device, const char *format, ...) __attribute__((format(printf, 3, 4)));

    static constexpr u64 kResetCycles = 8;
    static constexpr u64 kLogBytes = u64(1) << 31;

    u64 cycle = 0;
    int devices = 1;
    int woken = 0;
    u64 events_seen[kMaxDevices][32] = {};
    Memory memory[kMaxDevices];
    std::unique_ptr<Host> host[kMaxDevices];
    PerfCounters perf_counters[kMaxDevices];
    Fabric fabric;
    Digest digest;
    std::vector<u8> bytes;  // payload of write, packet and arrival records
    Log<EventRecord> events;
    Log<WriteRecord> writes;
    Log<InterruptRecord> interrupts;
    Log<PacketRecord> packets;
    Log<PacketRecord> arrivals;  // packets that a device has accepted (knob arrive_log)
    Log<LoadRecord> loads;
    Log<PinRecord> pins;
    Log<InputRecord> inputs;
    std::string errors;
    u64 error_count = 0;

    u64 store_bytes(const u8 *from, u64 len);
    // Logs a handshake when knob pin_mask selects its port.
    void shake(PinPort port, int device, u64 a, u64 b) {
        if (host[device]->knobs.pin_mask >> port & 1)
            pins.add({cycle, a, b, u32(port), u32(device)});
    }

   private:
    void watch(const Shown &seen, int device);
    int satisfied(const Shown *seen) const;

    bool started_ = false, wakes_ = false, waiting_ = false;
    std::vector<Condition> conditions_;
    u64 deadline_ = ~u64(0), quiet_cycles_ = 0;
};

Bench &bench();

}  // namespace efa
