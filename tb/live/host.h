// SPDX-License-Identifier: Apache-2.0
// Connects one device to its client at the pins: stores and loads, DMA, interrupts, resets.
#pragma once
#include <deque>
#include <functional>

#include "guest_memory.h"
#include "watcher.h"

namespace efa::live {

class Pins;

// An access of the CPU inside one line of 64 bytes; `enables` has a bit for each byte.
struct LineAccess {
    bool write = true;
    u8 bar = 0;
    u32 addr = 0;
    u64 enables = 0;
    u8 data[kLine] = {};
};

// Values of the configuration space that reach the device.
struct Straps {
    bool bus_master = false;
    u8 max_payload = 0, max_read_request = 0;
};

// DMA writes reach the client's memory in the order of the pins, and a message only after them.
// Reads take the memory at their request and complete in order, in the cycles after it.
class Host {
   public:
    // `interrupt` is called with the vector of each MSI-X message.
    Host(GuestMemory &memory, u16 node, u8 profile, u8 paths, u32 table_bar, u32 table_offset,
         u32 vectors, std::function<void(u32)> interrupt);

    // Begins a function-level reset, then fills the MSI-X table.
    void reset();
    bool resetting() const { return reset_ != kWorks; }
    // True when the device can be given an access: it has accepted the one before.
    bool free() const { return !offered_ && !resetting() && !loading_; }
    void access(const LineAccess &access);
    // The bytes of the last load, by lane.
    const u8 *loaded() const { return loaded_; }
    void keep_alive() { keep_alive_ = true; }

    // Drives the inputs that never change.
    void drive_constants(const Pins &pins) const;
    // Takes the outputs of the device before the rising edge, decides the inputs after it; returns
    // true while anything is at work.
    bool step(const Pins &pins);
    void drive(const Pins &pins);

    Straps straps;
    std::vector<Watcher *> watchers;

   private:
    enum Reset { kWorks, kRaise, kWait, kFill };
    struct Read {
        bool live = false, error = false;
        u32 size = 0, done = 0;
        u8 data[4096];
    };

    void step_reset(bool done);
    void read_requested(u64 addr, u32 size, u8 tag);
    void next_completion();
    void written(const Pins &pins);

    GuestMemory &memory_;
    const u16 node_;
    const u8 profile_, paths_;
    const std::function<void(u32)> interrupt_;
    std::vector<LineAccess> table_;  // the stores that fill the MSI-X table

    Reset reset_ = kFill;
    u32 reset_cycles_ = 0;
    size_t filled_ = 0;

    LineAccess offer_;
    // Wanted, and shown at the pins since the last edge.
    bool offered_ = false, keep_alive_ = false, offer_shown_ = false, keep_alive_shown_ = false;
    bool loading_ = false;
    u8 loaded_[kLine] = {};

    std::vector<Read> reads_;
    std::deque<u8> order_;  // tags of outstanding reads
    bool completes_ = false, last_ = false, error_ = false;
    u8 tag_ = 0, count_ = 0;
    u8 completion_[kLine] = {};

    Bytes writing_;
};

}  // namespace efa::live
