// SPDX-License-Identifier: Apache-2.0
// Defines what all transactors share: random numbers, knobs, and logs that Python maps.
#pragma once
#include <cstdarg>
#include <cstdio>
#include <string>
#include <vector>

#include "pins.h"

namespace efa {

// Random generator: a seed gives the same numbers with every compiler and simulator.
class Rng {
   public:
    explicit Rng(u64 seed = 0) : state_(seed) { next(); }
    u64 next() {
        u64 z = (state_ += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    u64 below(u64 bound) { return bound <= 1 ? 0 : ((next() >> 32) * bound) >> 32; }
    u64 between(u64 low, u64 high) { return high <= low ? low : low + below(high - low + 1); }
    // True with the probability share / 65536.
    bool chance(u64 share) { return share != 0 && (next() >> 48) < share; }

   private:
    u64 state_;
};

// Digest of all traffic at the boundary; equal runs have equal digests.
class Digest {
   public:
    void word(u64 value) {
        state_ = (state_ ^ value) * 0x9fb21c651e98df25ull;
        state_ ^= state_ >> 32;
    }
    void bytes(const u8 *from, u64 len) {
        for (; len >= 8; from += 8, len -= 8) word(load(from, 8));
        if (len != 0) word(load(from, len) ^ (len << 56));
    }
    u64 value() const { return state_; }
    void clear() { state_ = 0xcbf29ce484222325ull; }

   private:
    static u64 load(const u8 *from, u64 len) {
        u64 value = 0;
        __builtin_memcpy(&value, from, len);
        return value;
    }
    u64 state_ = 0xcbf29ce484222325ull;
};

// Every share is of 65536, every time in cycles, every rate in bytes per 256 cycles (0: no limit).
#define EFA_KNOBS(X)                                                                             \
    X(bme, 1) X(mps, 2) X(mrrs, 2) X(msix_enable, 1) X(msix_fmask, 0) X(profile, 0) X(node, 1)    \
    X(version, 0) X(keep_alive, 0) X(moderation, 0) X(paths, 255) X(tick, 16)                    \
    X(msi_low, 0xfee00000) X(msi_high, 0xfeefffff)                                               \
    X(mmio_gap, 0) X(mmio_gap_max, 8) X(mmio_accept_max, 64) X(mmio_init_max, 16384)             \
    X(mcpl_stall, 0)                                                                             \
    X(rd_latency_min, 125) X(rd_latency_max, 125) X(rd_tail, 0) X(rd_tail_max, 2000)             \
    X(rd_reorder, 0) X(rd_interleave, 0) X(rd_split, 0) X(rd_rcb, 64) X(rd_stall, 0)             \
    X(rd_gap, 0) X(rd_rate, 0) X(rd_late, 200000)                                                \
    X(wr_stall, 0) X(wr_latency_min, 60) X(wr_latency_max, 60) X(wr_rate, 0) X(wr_hold, 0)       \
    X(net_stall, 0) X(net_gap, 0) X(net_latency_min, 50) X(net_latency_max, 50) X(net_rate, 0)   \
    X(net_loss, 0) X(net_dup, 0) X(net_reorder, 0) X(net_reorder_max, 500) X(net_peer, 0)        \
    X(net_peers, 1) X(net_far, 0) X(ev_mask, 0xffffffff) X(log_data, 1) X(ev_log, 1)             \
    X(pin_mask, 0) X(in_log, 0) X(arrive_log, 0) X(cnt_run, 0) X(cnt_clear, 0) X(cnt_index, 0)

struct Knobs {
#define EFA_KNOB_MEMBER(name, value) u64 name = value;
    EFA_KNOBS(EFA_KNOB_MEMBER)
#undef EFA_KNOB_MEMBER
    u64 *find(const std::string &wanted) {
#define EFA_KNOB_FIND(name, value) \
    if (wanted == #name) return &name;
        EFA_KNOBS(EFA_KNOB_FIND)
#undef EFA_KNOB_FIND
        return nullptr;
    }
};

// Records that Python reads; tb/lib/native.py has the same fields.
struct EventRecord {
    u64 cycle, data;
    u32 kind, device;
};
struct WriteRecord {
    u64 cycle, addr, data_at;
    u32 len, device;
};
struct InterruptRecord {
    u64 cycle, addr;
    u32 data, device;
};
struct PacketRecord {
    u64 cycle, data_at;
    u32 len, device, fate, dst_node;
};
struct LoadRecord {
    u64 cycle, id;
    u32 device, bytes;
    u8 data[64];
};

// An input of the device at the pins, in the clock in which the device accepts it (knob in_log).
enum InputKind : u32 {
    kInStore = 0,  // BAR, address of the line, byte enables, data
    kInPin = 1,    // addr: PinName, be: value
    kInAsync = 2,  // addr: group, be: syndrome, data: 48 bytes
};
struct InputRecord {
    u64 cycle, addr, be;
    u32 kind, bar, device, unused;
    u8 data[64];
};

// A handshake at the pins; each port is a bit of knob pin_mask and has its own meaning of a and b.
enum PinPort : u32 {
    kPinMmio = 0,    // a: BAR << 32 | address, b: cycles of waiting
    kPinRead = 1,    // a: address, b: length << 8 | tag
    kPinRdCpl = 2,  // a: tag, b: last
    kPinWrite = 3,   // a: address, b: length << 1 | last
    kPinOut = 4,     // a: first 8 bytes of the flit, b: last << 1 | first
    kPinIn = 5,      // as kPinOut
};
struct PinRecord {
    u64 cycle, a, b;
    u32 port, device;
};

enum PacketFate : u32 {
    kDelivered = 0,
    kNoNode = 1,
    kLost = 2,
    kDuplicated = 3,
    kReordered = 4,
    kPeerResponse = 5,  // by a peer: net_peers nodes from net_peer on
};

// Kinds of host requests; tb/lib/native.py has the same layout.
enum RequestKind : u32 {
    kStore = 0,
    kLoad = 1,
    kDelay = 2,      // a cycles
    kUntil = 3,      // cycle a
    kWaitMemory = 4, // (word at addr & a) == b, as the host sees it
    kMemory = 5,     // the host writes data[0 .. a) at addr
    kPin = 6,        // pin a (PinName) gets value b; FLR is high for b cycles
    kWaitLoads = 7,
    kWaitInterrupts = 8,  // at least a interrupts since the start
    kTimestamp = 9,       // adds a load record with id as a time stamp
};
struct Request {
    u32 kind, bar;
    u64 addr, be, a, b, id;
    u8 data[64];
};
enum PinName : u64 { kPinBme = 0, kPinMsixEnable = 1, kPinMsixFmask = 2, kPinFlr = 3 };

// Contiguous records since the last clear.
template <class T>
class Log {
   public:
    void add(const T &record) { records_.push_back(record), total_++; }
    void clear() { records_.clear(); }
    void restart() { records_.clear(), total_ = 0; }
    u64 total() const { return total_; }
    u64 size() const { return records_.size(); }
    T *data() { return records_.data(); }

   private:
    std::vector<T> records_;
    u64 total_ = 0;
};

// Limits a rate in bytes per 256 cycles with a leaky bucket.
class Rate {
   public:
    bool allow(u64 rate) const { return rate == 0 || credit_ > 0; }
    void use(u64 rate, u64 bytes) {
        if (rate != 0) credit_ -= static_cast<int64_t>(bytes) * 256;
    }
    void tick(u64 rate) {
        if (rate == 0) return;
        credit_ += static_cast<int64_t>(rate);
        if (credit_ > 64 * 256) credit_ = 64 * 256;
    }

   private:
    int64_t credit_ = 64 * 256;
};

}  // namespace efa
