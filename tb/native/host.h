// SPDX-License-Identifier: Apache-2.0
// Models the host of one device: accesses of the CPU, read completions, and DMA writes.
#pragma once
#include <deque>

#include "common.h"
#include "iommu.h"
#include "memory.h"

namespace efa {

class Bench;

class Host {
   public:
    Host(Bench &bench, int device);
    void restart(u64 seed);
    void step(const Shown &seen, Driven &drive);
    bool quiet() const;
    bool drained() const { return requests_.empty() && !store_waits_; }
    u64 events_waiting() const { return events_.size(); }
    // Handshake cycle of the oldest write that is not visible yet; earlier writes are in the logs.
    u64 logged_until(u64 now) const { return pending_.empty() ? now : pending_.front().handed_at; }
    void request_event(u16 group, u16 syndrome, const u8 *data);
    void post(const Request *from, u64 count) { requests_.insert(requests_.end(), from, from + count); }

    Knobs knobs;
    Iommu iommu;
    u64 interrupts = 0, loads_done = 0, reads_requested = 0, read_bytes = 0, write_bytes = 0;

   private:
    struct Read {
        bool live = false, error = false, poisoned = false, started = false, late = false;
        u64 addr = 0, due = 0, order = 0, writes_before = 0;
        u32 len = 0, done = 0, chunk = 0, beats_before_error = 0;
    };
    struct Pending {
        u64 addr, seen_at, handed_at;
        std::vector<u8> data;
    };

    void accesses(const Shown &seen, Driven &drive);
    bool next_access(Driven &drive);
    void load_responses(const Shown &seen, Driven &drive);
    void read_requests(const Shown &seen, Driven &drive);
    void read_responses(const Shown &seen, Driven &drive);
    int choose();
    void beat(Read &read, int tag, Driven &drive);
    void writes(const Shown &seen, Driven &drive);
    void events(const Shown &seen, Driven &drive);
    void apply_until(u64 sequence);
    void apply(const Pending &write);
    void input(InputKind kind, u32 bar, u64 addr, u64 be, const u8 *data, u32 bytes);
    bool is_message(u64 addr) const { return addr >= knobs.msi_low && addr <= knobs.msi_high; }
    void nothing_under_way(const char *when);
    void reset_steps(const Shown &seen, const Driven &drive);

    Bench &bench_;
    const int device_;
    Rng rng_mmio_, rng_read_, rng_write_;

    std::deque<Request> requests_;
    struct AsyncEvent {
        u16 group, syndrome;
        u8 data[48];
    };
    std::deque<AsyncEvent> events_;
    bool store_waits_ = false;
    u64 waited_ = 0, offered_ = 0, gap_until_ = 0, delay_until_ = 0, flr_until_ = 0;
    bool in_delay_ = false, after_reset_ = true;
    u8 load_tag_ = 0;
    u32 loads_out_ = 0;
    struct {
        bool live = false;
        u64 id = 0, be = 0;
    } loads_[256];

    Read reads_[256];
    std::vector<int> live_;
    u64 read_order_ = 0, last_due_ = 0;
    int current_ = -1;
    Rate read_rate_, write_rate_;

    std::deque<Pending> pending_;
    u64 handed_ = 0, applied_ = 0, last_seen_at_ = 0;
    std::vector<u8> gathering_;
    u64 write_addr_ = 0;
    u32 write_len_ = 0;
    bool released_ = false, resetting_ = false;

    // Payload that waited in the last cycle, to check that it is stable.
    struct Held {
        bool valid = false;
        u64 a = 0, b = 0;
        u8 data[64] = {};
    };
    void steady(Held &held, bool valid, bool ready, u64 a, u64 b, const u8 *data, u32 bytes,
                const char *name);
    Held held_mcpl_, held_rd_, held_wr_;
};

}  // namespace efa
